//! The published table row by row, and what must hold for every charge.

use proptest::prelude::*;
use units::table::PUBLISHED;
use units::{Charge, ReadStrength, Work, charge, rules, table, write_change};

fn point(bytes: u64, strength: ReadStrength) -> Charge {
    let mut work = Work::new(strength);
    work.read_point(bytes);
    charge(&work)
}

fn written(charge_of_rows: Charge) -> Charge {
    charge(&Work { written: charge_of_rows, ..Work::default() })
}

#[test]
fn every_row_of_the_published_table() {
    let rows = [
        (1, 1.00, 4.95),
        (2, 1.04, 6.29),
        (4, 1.14, 6.67),
        (8, 1.33, 7.04),
        (16, 1.67, 9.52),
        (32, 2.19, 11.23),
        (64, 4.76, 22.67),
        (128, 9.95, 48.19),
        (256, 20.28, 98.29),
        (512, 40.95, 184.57),
        (1024, 145.90, 625.00),
        (2048, 291.80, 1250.00),
    ];
    assert_eq!(rows.len(), PUBLISHED.len());
    for (kib, read, write) in rows {
        let bytes = kib * 1024;
        assert_eq!(point(bytes, ReadStrength::One).to_f64(), read, "{kib} KB");
        assert_eq!(point(bytes, ReadStrength::Strong).to_f64(), 2.0 * read, "{kib} KB");
        assert_eq!(written(write_change(None, Some(bytes), 0)).to_f64(), write, "{kib} KB");
    }
}

#[test]
fn the_published_shape_of_writes() {
    let two = Some(1024);
    let price = table::write(1024);
    assert_eq!(write_change(two, two, 4), price + price + Charge::from_hundredths(80));
    assert_eq!(write_change(two, None, 2), price + Charge::from_hundredths(40));
    assert_eq!(write_change(None, two, 2), price + Charge::from_hundredths(40));
    assert_eq!(write_change(None, None, 0), price);
}

#[test]
fn past_the_table_the_last_line_goes_on() {
    assert_eq!(table::write(4096 * 1024).to_f64(), 2500.0);
    assert_eq!(table::point_read(4096 * 1024).to_f64(), 583.6);
    assert!(table::write(u64::MAX) >= table::write(u64::MAX - 1));
}

#[test]
fn a_query_costs_its_partitions_rows_and_bytes() {
    let mut work = Work { query_partition_count: 1, ..Work::default() };
    work.scan_row(1024);
    work.returned_row_count = 1;
    work.returned_bytes = 1024;
    // 2.5 + 0.04 + 0.08 + 0.02 + 0.04
    assert_eq!(charge(&work).to_f64(), 2.68);
    assert_eq!(charge(&Work::default()), rules::LEAST);
}

fn any_work() -> impl Strategy<Value = Work> {
    let count = 0..1_000_000u64;
    (
        (any::<bool>(), proptest::collection::vec(0..4_000_000u64, 0..5)),
        (count.clone(), count.clone(), 0..1u64 << 40, count.clone()),
        (count.clone(), 0..1u64 << 40, proptest::option::of(0..4_000_000u64), 0..100u64),
    )
        .prop_map(|((strong, points), query, (returned, bytes, row, definitions))| {
            let strength = if strong { ReadStrength::Strong } else { ReadStrength::One };
            let mut work = Work::new(strength);
            points.into_iter().for_each(|bytes| work.read_point(bytes));
            work.query_partition_count = query.0;
            work.scanned_row_count = query.1;
            work.scanned_bytes = query.2;
            work.index_entry_count = query.3;
            work.returned_row_count = returned;
            work.returned_bytes = bytes;
            work.written = row.map_or(Charge::ZERO, |row| write_change(None, Some(row), 1));
            work.definition_count = definitions;
            work
        })
}

proptest! {
    #[test]
    fn a_larger_row_never_costs_less(bytes in 0..4_000_000u64, more in 0..100_000u64) {
        prop_assert!(table::point_read(bytes + more) >= table::point_read(bytes));
        prop_assert!(table::write(bytes + more) >= table::write(bytes));
        prop_assert!(
            write_change(Some(bytes), Some(bytes + more), 0) >= write_change(None, Some(bytes), 0)
        );
        prop_assert!(
            write_change(None, Some(bytes), more + 1) > write_change(None, Some(bytes), more)
        );
    }

    #[test]
    fn between_two_rows_of_the_table_lies_a_charge_between_theirs(index in 0..11usize, part in 0..=1024u64) {
        let (low, high) = (PUBLISHED[index], PUBLISHED[index + 1]);
        let bytes = low.0 * 1024 + (high.0 - low.0) * part;
        let charge = table::write(bytes);
        prop_assert!(charge >= Charge::from_hundredths(low.2));
        prop_assert!(charge <= Charge::from_hundredths(high.2));
    }

    #[test]
    fn more_work_never_costs_less(work in any_work(), which in 0..8usize, more in 1..1_000_000u64) {
        let before = charge(&work);
        prop_assert_eq!(before, charge(&work));
        let mut after = work;
        match which {
            0 => after.read_point(more),
            1 => after.query_partition_count += more,
            2 => after.scan_row(more),
            3 => after.index_entry_count += more,
            4 => after.returned_row_count += more,
            5 => after.returned_bytes += more,
            6 => after.written += write_change(None, Some(more), 0),
            _ => after.definition_count += more,
        }
        prop_assert!(charge(&after) >= before);
        after.strength = ReadStrength::Strong;
        prop_assert!(charge(&after) >= before);
    }
}
