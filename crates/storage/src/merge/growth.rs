//! What a change of a row costs grows with its length and no faster.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use types::{
    CellAction, CellChange, CellRef, CellState, Check, ColumnId, ColumnPart, Comparison, CqlType,
    Expiry, LiveCells, RowChange, RowPosition, RowView, RowWriter, TableId,
};

use super::MergeError;
use super::condition::{CHECKS_WALKED_MAX, Judgement, judge_walking};
use super::lists::POSITIONS_WALKED_MAX;
use super::row::{Before, merge_walking};
use crate::steps::check_growth;

const SIZE: usize = 1024;
const LIST: ColumnId = ColumnId(1);

fn name(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_be_bytes()
}

/// A row with that many elements in one list; each is its place.
fn row_with_list(element_count: usize) -> Vec<u8> {
    let mut writer = RowWriter::new(Vec::new(), None, None, None);
    for number in 0..element_count {
        let name = name(number);
        let state = CellState::Value { value: &name, expiry: None };
        writer.push(&CellRef { column: LIST, path: Some(&name), timestamp_us: 1, state });
    }
    writer.finish()
}

fn changed(row: &[u8], cells: Vec<CellChange>) -> Result<Vec<u8>, MergeError> {
    changed_walking(row, cells, POSITIONS_WALKED_MAX)
}

fn changed_walking(
    row: &[u8],
    cells: Vec<CellChange>,
    walked_max: usize,
) -> Result<Vec<u8>, MergeError> {
    let row = Some(RowView::decode(row).unwrap());
    let before = Before {
        row,
        first_row: row,
        first_covering_us: i64::MIN,
        covering_us: i64::MIN,
        now_s: 1,
        horizon_s: 0,
        hidden: &[],
        measure: None,
    };
    let change = RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells,
    };
    merge_walking(&before, &change, walked_max, Vec::new()).map(|after| after.bytes)
}

fn of_list(action: CellAction) -> CellChange {
    CellChange { column: LIST, timestamp_us: 2, action }
}

/// The live values of a row.
fn values(row: &[u8]) -> Vec<Vec<u8>> {
    let live = LiveCells::new(RowView::decode(row).unwrap(), i64::MIN, 1);
    live.cells().map(|cell| cell.unwrap().value().to_vec()).collect()
}

fn removal(values: impl Iterator<Item = usize>) -> CellChange {
    let values = values.map(|number| Bytes::copy_from_slice(&name(number))).collect();
    of_list(CellAction::ListRemoveValues { values, deleted_at_s: 1 })
}

#[test]
fn values_are_removed_from_a_list() {
    check_growth("removed values", SIZE, |size| {
        let row = row_with_list(size);
        // Every second one is there.
        let after = changed(&row, vec![removal((0..size).rev().map(|number| 2 * number))]).unwrap();
        let left: Vec<_> = (0..size).filter(|it| it % 2 == 1).map(|it| name(it).to_vec()).collect();
        assert_eq!(values(&after), left);
    });
}

fn set_at(index: usize, value: usize) -> CellChange {
    let (index, value) = (i32::try_from(index).unwrap(), Bytes::copy_from_slice(&name(value)));
    of_list(CellAction::ListSetAt { index, value, expiry: None })
}

fn delete_at(index: usize) -> CellChange {
    let index = i32::try_from(index).unwrap();
    of_list(CellAction::ListDeleteAt { index, deleted_at_s: 1 })
}

#[test]
fn elements_are_set_and_deleted_by_their_positions() {
    check_growth("set positions", SIZE, |size| {
        let sets = (0..size).map(|index| set_at(index, index + 1)).collect();
        let after = changed(&row_with_list(size), sets).unwrap();
        assert_eq!(values(&after), (1..=size).map(|it| name(it).to_vec()).collect::<Vec<_>>());
    });
    check_growth("deleted positions", SIZE, |size| {
        let deletions = (0..size).map(|_| delete_at(0)).collect();
        assert!(values(&changed(&row_with_list(size), deletions).unwrap()).is_empty());
    });
    check_growth("removals of one value each", SIZE, |size| {
        let removals = (0..size).rev().map(|number| removal([number].into_iter())).collect();
        assert!(values(&changed(&row_with_list(size), removals).unwrap()).is_empty());
    });
    check_growth("late removals of one value", SIZE, |size| {
        // Each element is newer than all the removals, of which each names all of them.
        let all = |column, timestamp_us, action| CellChange { column, timestamp_us, action };
        let mut cells: Vec<CellChange> = (0..size)
            .map(|number| {
                let path = Some(Bytes::copy_from_slice(&name(number)));
                let value = Bytes::from_static(b"x");
                all(LIST, 2, CellAction::Set { path, value, expiry: None })
            })
            .collect();
        let removed = CellAction::ListRemoveValues {
            values: [Bytes::from_static(b"x")].into_iter().collect(),
            deleted_at_s: 1,
        };
        cells.extend((0..size).map(|_| all(LIST, 1, removed.clone())));
        assert_eq!(values(&changed(&row_with_list(size), cells).unwrap()).len(), size);
    });
}

#[test]
fn many_positions_are_found_as_a_few_are() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 33).unwrap() % below
    };
    for _ in 0..5_000 {
        let row = row_with_list(random(12));
        let cells: Vec<CellChange> = (0..random(8))
            .map(|_| {
                let path = Some(Bytes::copy_from_slice(&name(random(14))));
                let value = Bytes::copy_from_slice(&name(random(6)));
                let expiry = [None, Some(Expiry { ttl_s: 1, expires_at_s: 1 })];
                let action = match random(12) {
                    0 => CellAction::DeleteElements { deleted_at_s: 1 },
                    1 | 2 => CellAction::Set { path, value, expiry: expiry[random(2)] },
                    3 => CellAction::Delete { path, deleted_at_s: 1 },
                    4..7 => delete_at(random(6)).action,
                    7 => removal([random(6), random(12), random(12)].into_iter()).action,
                    _ => set_at(random(6), random(12)).action,
                };
                let timestamp_us = i64::try_from(random(4)).unwrap();
                let column = if random(8) == 0 { ColumnId(2) } else { LIST };
                CellChange { column, timestamp_us, action }
            })
            .collect();
        let few = changed_walking(&row, cells.clone(), usize::MAX);
        assert_eq!(changed_walking(&row, cells.clone(), 0), few, "{cells:?}");
    }
}

fn table(types: impl Iterator<Item = CqlType>) -> Table {
    let column = |(number, cql_type)| Column {
        // Not its place, as after columns were dropped.
        id: ColumnId(u32::try_from(number).unwrap() + 1),
        name: format!("c{number}").into(),
        cql_type,
        kind: ColumnKind::Regular,
        mask: None,
        is_hidden: false,
    };
    Table {
        id: TableId(1),
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns: types.enumerate().map(column).collect(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        shape: TableShape::Ordinary,
        is_counter: false,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 1 << 20,
    }
}

fn equals(column: usize, part: ColumnPart, value: usize) -> Check {
    comparison(Comparison::Equal, column, part, value)
}

fn comparison(operator: Comparison, column: usize, part: ColumnPart, value: usize) -> Check {
    let column = ColumnId(u32::try_from(column).unwrap());
    let values = vec![Some(Bytes::copy_from_slice(&name(value)))];
    Check::Column { column, part, operator, values }
}

fn key(number: usize) -> ColumnPart {
    ColumnPart::MapValue(Bytes::copy_from_slice(&name(number)))
}

fn index(number: usize) -> ColumnPart {
    ColumnPart::ListIndex(i32::try_from(number).unwrap())
}

fn of_blobs(is_map: bool, frozen: bool) -> CqlType {
    let blob = || Box::new(CqlType::Blob).into();
    match is_map {
        true => CqlType::Map { key: blob(), value: blob(), frozen },
        false => CqlType::List { element: blob(), frozen },
    }
}

fn judged<'c>(row: &[u8], table: &Table, checks: &'c [Check], walked_max: usize) -> Judgement<'c> {
    let live = LiveCells::new(RowView::decode(row).unwrap(), i64::MIN, 1);
    judge_walking(checks, Some(&live), Some(table), walked_max).unwrap()
}

/// A row with that many blobs, each the number of its column.
fn row_of_blobs(count: usize) -> Vec<u8> {
    let mut writer = RowWriter::new(Vec::new(), None, None, None);
    for number in 1..=count {
        let value = name(number);
        let state = CellState::Value { value: &value, expiry: None };
        let column = ColumnId(u32::try_from(number).unwrap());
        writer.push(&CellRef { column, path: None, timestamp_us: 1, state });
    }
    writer.finish()
}

/// An encoded map from each number to itself.
fn encoded_map(numbers: impl ExactSizeIterator<Item = usize>) -> Vec<u8> {
    let mut out = name(numbers.len()).to_vec();
    for number in numbers {
        for _ in 0..2 {
            out.extend_from_slice(&name(4));
            out.extend_from_slice(&name(number));
        }
    }
    out
}

fn row_of_value(value: &[u8]) -> Vec<u8> {
    let mut writer = RowWriter::new(Vec::new(), None, None, None);
    let state = CellState::Value { value, expiry: None };
    writer.push(&CellRef { column: LIST, path: None, timestamp_us: 1, state });
    writer.finish()
}

#[test]
fn many_columns_and_parts_are_checked() {
    let judge = |row: &[u8], table: &Table, checks: &[Check]| {
        assert_eq!(judged(row, table, checks, CHECKS_WALKED_MAX), Judgement::Holds);
    };
    check_growth("checked columns", SIZE, |size| {
        let table = table((0..size).map(|_| CqlType::Blob));
        let checks: Vec<_> = (1..=size).map(|it| equals(it, ColumnPart::Whole, it)).collect();
        judge(&row_of_blobs(size), &table, &checks);
    });
    check_growth("checked elements", SIZE, |size| {
        let table = table([of_blobs(false, false)].into_iter());
        let checks: Vec<_> = (0..size).map(|it| equals(1, index(it), it)).collect();
        judge(&row_with_list(size), &table, &checks);
    });
    check_growth("checked entries", SIZE, |size| {
        let table = table([of_blobs(true, true)].into_iter());
        let checks: Vec<_> = (0..size).map(|it| equals(1, key(it), it)).collect();
        judge(&row_of_value(&encoded_map(0..size)), &table, &checks);
        judge(&row_of_value(&encoded_map((0..size).rev())), &table, &checks);
    });
    check_growth("checked contents", SIZE, |size| {
        let checks = |operator| -> Vec<Check> {
            (0..size).map(|it| comparison(operator, 1, ColumnPart::Whole, it)).collect()
        };
        let list = table([of_blobs(false, false)].into_iter());
        judge(&row_with_list(size), &list, &checks(Comparison::Contains));
        let map = table([of_blobs(true, true)].into_iter());
        let row = row_of_value(&encoded_map((0..size).rev()));
        judge(&row, &map, &checks(Comparison::Contains));
        judge(&row, &map, &checks(Comparison::ContainsKey));
        judge(&row_with_list(0), &list, &checks(Comparison::NotContains));
    });
}

#[test]
fn many_checks_are_judged_as_a_few_are() {
    let same = |row: &[u8], table: &Table, checks: &[Check]| {
        assert_eq!(judged(row, table, checks, 0), judged(row, table, checks, usize::MAX));
    };
    let blobs = table((0..4).map(|_| CqlType::Blob));
    let list = table([of_blobs(false, false)].into_iter());
    let map = table([of_blobs(true, true)].into_iter());
    let (backwards, cut) = (encoded_map((0..4).rev()), encoded_map(0..4));
    let cut = &cut[..cut.len() - 3];
    for number in 0..7 {
        for value in 0..7 {
            for part in [ColumnPart::Whole, key(value), index(value), ColumnPart::Field(1)] {
                for operator in [
                    Comparison::Equal,
                    Comparison::NotEqual,
                    Comparison::Less,
                    Comparison::Contains,
                    Comparison::NotContains,
                    Comparison::ContainsKey,
                    Comparison::NotContainsKey,
                ] {
                    let check = comparison(operator, number, part.clone(), value);
                    let checks = [check, Check::Refused("no".into())];
                    same(&row_of_blobs(3), &blobs, &checks);
                    same(&row_with_list(4), &list, &checks);
                    same(&row_of_value(&encoded_map(0..4)), &map, &checks);
                    same(&row_of_value(&backwards), &map, &checks);
                    same(&row_of_value(cut), &map, &checks);
                }
            }
        }
    }
}

/// A row with that many numbers, each that of its column.
fn row_of_numbers(count: usize) -> Vec<u8> {
    let mut writer = RowWriter::new(Vec::new(), None, None, None);
    for number in 1..=count {
        let value = u64::try_from(number).unwrap().to_be_bytes();
        let state = CellState::Value { value: &value, expiry: None };
        let column = ColumnId(u32::try_from(number).unwrap());
        writer.push(&CellRef { column, path: None, timestamp_us: 1, state });
    }
    writer.finish()
}

#[test]
fn many_numbers_grow() {
    let one = || Bytes::copy_from_slice(&1_i64.to_be_bytes());
    let actions: [(&str, &dyn Fn() -> CellAction); 2] = [
        ("counters", &|| CellAction::CounterAdd(1)),
        ("numbers", &|| CellAction::AddValue {
            cql_type: CqlType::BigInt,
            value: one(),
            expiry: None,
        }),
    ];
    for (name, action) in actions {
        check_growth(name, SIZE, |size| {
            let change = |number| {
                let column = ColumnId(u32::try_from(number).unwrap());
                CellChange { column, timestamp_us: 2, action: action() }
            };
            let row = row_of_numbers(size);
            let after = changed(&row, (1..=size).rev().map(change).collect()).unwrap();
            let grown = (1..=size).map(|it| (it as u64 + 1).to_be_bytes().to_vec());
            assert_eq!(values(&after), grown.collect::<Vec<_>>());
        });
    }
}
