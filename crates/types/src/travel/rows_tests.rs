//! A read through parts is the same read: its sink sees the same rows, whatever the bounds and whatever it answers.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    CellRef, CellState, ColumnId, CorruptRow, Deletion, Expiry, Flow, HiddenCells, LiveCells,
    LiveRow, Liveness, PartitionKey, ReadCommand, ReadPosition, ReadScope, RingRange, RowSelection,
    RowSink, RowView, RowWriter, SpilledKind, SpilledPart, Statics, TableId, with_spilled,
};

const NOW_S: u32 = 1_000;
const HIDDEN: [HiddenCells; 1] = [HiddenCells { column: ColumnId(2), until_us: 20 }];

/// Small numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A row with cells of all kinds.
fn row(dice: &mut Dice) -> Vec<u8> {
    let at_us = |dice: &mut Dice| 10 + dice.below(30) as i64;
    let expiry = |dice: &mut Dice| match dice.below(3) {
        0 => Some(Expiry { ttl_s: 10, expires_at_s: NOW_S - 5 + dice.below(10) as u32 }),
        _ => None,
    };
    let base_us = at_us(dice);
    let is_plain = dice.below(2) == 0;
    let liveness = (is_plain || dice.below(2) == 0).then(|| Liveness {
        timestamp_us: base_us,
        expiry: if is_plain { None } else { expiry(dice) },
    });
    let deletion = (!is_plain && dice.below(3) == 0)
        .then(|| Deletion { timestamp_us: at_us(dice), deleted_at_s: 5 });
    let original = (dice.below(4) == 0).then_some(b"as written".as_slice());
    let mut writer = RowWriter::new(Vec::new(), liveness, deletion, original);
    for column in 1..5 {
        let value = [b"".as_slice(), b"v", b"a longer value"][dice.below(3) as usize];
        let plain = CellState::Value { value, expiry: None };
        if is_plain {
            let column = ColumnId(column);
            writer.push(&CellRef { column, path: None, timestamp_us: base_us, state: plain });
            continue;
        }
        let state = match dice.below(5) {
            0 => continue,
            1 => CellState::Dead { deleted_at_s: 7 },
            2 => CellState::DeletesElements { deleted_at_s: 7 },
            _ => CellState::Value { value, expiry: expiry(dice) },
        };
        let timestamp_us = at_us(dice);
        let cell = CellRef { column: ColumnId(column), path: None, timestamp_us, state };
        writer.push(&cell);
        if cell.deletes_elements() {
            for path in [b"p".as_slice(), b"q"] {
                let timestamp_us = at_us(dice);
                writer.push(&CellRef { path: Some(path), timestamp_us, state: plain, ..cell });
            }
        }
    }
    let whole = writer.finish();
    if dice.below(6) != 0 {
        return whole;
    }
    let mut parts = Vec::new();
    let kind = SpilledKind::Value(None);
    SpilledPart { column: ColumnId(1), kind, value_bytes: 70_000 }.encode(&mut parts);
    with_spilled(&whole, &parts)
}

struct Partition {
    key: PartitionKey,
    static_row: Option<Vec<u8>>,
    /// Clustering key, row, and the deletion over it.
    rows: Vec<(Bytes, Vec<u8>, i64)>,
}

/// Some logical partitions, in the order of the ring.
fn table(dice: &mut Dice) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = (0..dice.below(6))
        .map(|number| Partition {
            key: PartitionKey::new(Bytes::from(format!("key {number}"))),
            // Of a few kinds, so that neighbours have the same one.
            static_row: (dice.below(2) == 0).then(|| row(&mut Dice(dice.below(3)))),
            rows: (0..dice.below(9))
                .map(|number| {
                    let over_us = if dice.below(3) == 0 { 25 } else { i64::MIN };
                    (Bytes::from(vec![number as u8]), row(dice), over_us)
                })
                .collect(),
        })
        .collect();
    partitions.sort_by_key(|partition| partition.key.ring());
    partitions
}

fn live_cells(row: &[u8], over_us: i64) -> Result<Option<LiveCells<'_>>, CorruptRow> {
    let cells = LiveCells::new(RowView::decode(row)?, over_us, NOW_S).hiding(&HIDDEN);
    Ok(cells.is_live()?.then_some(cells))
}

/// Reads as storage does.
fn read(
    table: &[Partition],
    command: &ReadCommand,
    sink: &mut dyn RowSink,
) -> Result<(), CorruptRow> {
    for partition in table {
        let after = command.after.as_ref();
        let resumed = match (&command.scope, after) {
            (ReadScope::Partition(key), _) if *key != partition.key => continue,
            (_, Some(after)) if partition.key.ring() < after.key.ring() => continue,
            (_, Some(after)) if partition.key == after.key => match &after.clustering {
                Some(clustering) => Some(clustering),
                None => continue,
            },
            _ => None,
        };
        let static_row =
            partition.static_row.as_deref().filter(|_| command.statics != Statics::Skip);
        let static_cells = match static_row {
            Some(row) => live_cells(row, i64::MIN)?,
            None => None,
        };
        let mut any_live = resumed.is_some();
        let mut flow = Flow::Continue;
        for (clustering, row, over_us) in &partition.rows {
            if resumed.is_some_and(|resumed| clustering <= resumed) {
                continue;
            }
            let Some(cells) = live_cells(row, *over_us)? else { continue };
            any_live = true;
            flow = sink.on_row(&LiveRow {
                partition_key: partition.key.bytes(),
                ring: partition.key.ring(),
                clustering: Some(clustering),
                row: Some(&cells),
                static_row: static_cells.as_ref(),
            })?;
            if flow != Flow::Continue {
                break;
            }
            if !sink.go_on() {
                return Ok(());
            }
        }
        if let Some(cells) =
            static_cells.filter(|_| command.statics == Statics::AttachOrAlone && !any_live)
        {
            flow = sink.on_row(&LiveRow {
                partition_key: partition.key.bytes(),
                ring: partition.key.ring(),
                clustering: None,
                row: None,
                static_row: Some(&cells),
            })?;
        }
        if flow == Flow::Stop {
            return Ok(());
        }
    }
    Ok(())
}

/// Writes down all that a sink can see of a row, and answers as its seed says.
#[derive(Default)]
struct Scribe {
    seen: Vec<String>,
    seed: u64,
}

fn describe(cells: &LiveCells<'_>) -> Result<String, CorruptRow> {
    let liveness = cells.view().liveness().filter(|_| cells.has_liveness());
    let original = cells.view().original_clustering();
    let mut text = format!("{liveness:?} {original:?}");
    for cell in cells.cells() {
        let cell = cell?;
        text += &format!(" {cell:?}+{}", cells.view().spilled_bytes(&cell)?);
    }
    Ok(text)
}

impl RowSink for Scribe {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        let described = |cells: Option<&LiveCells<'_>>| cells.map(describe).transpose();
        self.seen.push(format!(
            "{:?} {:?} {:?} {:?} static {:?}",
            row.partition_key,
            row.ring,
            row.clustering,
            described(row.row)?,
            described(row.static_row)?
        ));
        let mut dice = Dice(self.seed ^ row.ring.0 as u64 ^ self.seen.len() as u64);
        let _ = dice.below(2);
        Ok(match dice.below(12) {
            0 => Flow::Stop,
            1 | 2 => Flow::NextPartition,
            _ => Flow::Continue,
        })
    }
}

fn command(table: &[Partition], dice: &mut Dice) -> ReadCommand {
    let scope = match table.first() {
        Some(partition) if dice.below(3) == 0 => ReadScope::Partition(partition.key.clone()),
        _ => ReadScope::Ring(RingRange::FULL),
    };
    ReadCommand {
        table: TableId(1),
        scope,
        rows: RowSelection::All,
        index: None,
        reversed: false,
        statics: [Statics::Skip, Statics::Attach, Statics::AttachOrAlone][dice.below(3) as usize],
        hidden: HIDDEN.to_vec(),
        columns: None,
        after: None,
        now_s: NOW_S,
    }
}

/// Reads through parts: how many it took.
fn read_through_parts(
    table: &[Partition],
    mut command: ReadCommand,
    bounds: PartBounds,
    rows_per_tick: u64,
    sink: &mut dyn RowSink,
) -> Result<usize, CorruptRow> {
    for part_count in 1..10_000 {
        let mut asked = 0;
        let mut goes_on = || {
            asked += 1;
            asked < rows_per_tick
        };
        let mut writer = PartWriter::new(bounds, &mut goes_on);
        read(table, &command, &mut writer)?;
        let bytes = writer.finish();
        let part = RowsPart::decode(Bytes::from(bytes.clone())).expect("ours");
        let is_within = bytes.len() <= bounds.bytes_max as usize + 8 || part.row_count() <= 1;
        assert!(is_within, "{} bytes in {} rows", bytes.len(), part.row_count());
        assert!(part.row_count() <= bounds.rows_max.max(1));
        match part.hand_to(&command, sink)? {
            ReadOn::Over => return Ok(part_count),
            ReadOn::After(after) | ReadOn::OutOfTime(Some(after)) => command.after = Some(after),
            ReadOn::OutOfTime(None) => panic!("a row comes in every tick"),
        }
    }
    panic!("the read does not end");
}

proptest! {
    #[test]
    fn a_read_through_parts_is_the_same_read(
        seed in any::<u64>(),
        rows_max in 0..12_u32,
        bytes_max in prop_oneof![0..300_u32, Just(100_000)],
        rows_per_tick in 1..9_u64,
    ) {
        let mut dice = Dice(seed);
        let table = table(&mut dice);
        let command = command(&table, &mut dice);
        let mut here = Scribe { seed, ..Scribe::default() };
        read(&table, &command, &mut here).expect("ours");
        let bounds = PartBounds { rows_max, bytes_max, time_ms_max: 0, partition_rows_max: None };
        let mut there = Scribe { seed, ..Scribe::default() };
        read_through_parts(&table, command, bounds, rows_per_tick, &mut there).expect("ours");
        prop_assert_eq!(here.seen, there.seen);
    }

    #[test]
    fn changed_bytes_never_panic(seed in any::<u64>(), at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let mut dice = Dice(seed);
        let table = table(&mut dice);
        let command = command(&table, &mut dice);
        let bounds = PartBounds { rows_max: 9, bytes_max: 900, time_ms_max: 0, partition_rows_max: None };
        let mut always = || true;
        let mut writer = PartWriter::new(bounds, &mut always);
        read(&table, &command, &mut writer).expect("ours");
        let mut bytes = writer.finish();
        let at = at.index(bytes.len());
        prop_assert!(RowsPart::decode(Bytes::copy_from_slice(&bytes[..at])).is_err());
        prop_assert!(RowsPart::decode(Bytes::from([bytes.as_slice(), &[0]].concat())).is_err());
        bytes[at] ^= change;
        if let Ok(part) = RowsPart::decode(Bytes::from(bytes)) {
            let _ = part.hand_to(&command, &mut Scribe::default());
        }
    }

    #[test]
    fn any_bytes_are_a_part_or_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let bytes = Bytes::from([&[VERSION], bytes.as_slice()].concat());
        if let Ok(part) = RowsPart::decode(bytes) {
            let _ = part.hand_to(&command(&[], &mut Dice(0)), &mut Scribe::default());
        }
    }
}

/// Takes everything.
struct Everything(usize);

impl RowSink for Everything {
    fn on_row(&mut self, _: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        self.0 += 1;
        Ok(Flow::Continue)
    }
}

fn plain_row(value: &[u8]) -> Vec<u8> {
    let liveness = Some(Liveness { timestamp_us: 7, expiry: None });
    let mut writer = RowWriter::new(Vec::new(), liveness, None, None);
    let state = CellState::Value { value, expiry: None };
    writer.push(&CellRef { column: ColumnId(5), path: None, timestamp_us: 7, state });
    writer.finish()
}

fn plain_table(rows: u8) -> Vec<Partition> {
    let rows =
        (0..rows).map(|n| (Bytes::from(vec![b'a' + n]), plain_row(b"v"), i64::MIN)).collect();
    vec![Partition {
        key: PartitionKey::new(Bytes::from_static(b"k")),
        static_row: Some(plain_row(b"s")),
        rows,
    }]
}

fn plain_command() -> ReadCommand {
    let mut command = command(&[], &mut Dice(0));
    command.statics = Statics::Attach;
    command
}

const WIDE: PartBounds =
    PartBounds { rows_max: 100, bytes_max: 10_000, time_ms_max: 0, partition_rows_max: None };

/// The example of `docs/formats/travel.md`.
#[test]
fn golden_part() {
    let mut always = || true;
    let mut writer = PartWriter::new(PartBounds { rows_max: 2, ..WIDE }, &mut always);
    read(&plain_table(3), &plain_command(), &mut writer).expect("ours");
    writer.on_entries(3);
    let golden = concat!(
        "01",                           // version
        "07",                           // a row with its key and a static row
        "016b",                         // partition key
        "0161",                         // clustering key
        "0000000e",                     // 14 bytes
        "0101000000000000000705000176", // the row: inserted at 7, column 5 = v
        "0000000e",                     // 14 bytes
        "0101000000000000000705000173", // the static row
        "0a",                           // a row of the same partition with the same static row
        "0162",                         // clustering key
        "0000000e",                     // 14 bytes
        "0101000000000000000705000176", // the row
        "81",                           // the part is full
        "03",                           // entries of an index that were followed
    );
    let hex: String = writer.finish().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, golden);
}

#[test]
fn a_part_ends_for_a_reason() {
    let table = plain_table(5);
    let part = |bounds: PartBounds, ticks: u64| {
        let mut left = ticks;
        let mut goes_on = || {
            left = left.saturating_sub(1);
            left > 0
        };
        let mut writer = PartWriter::new(bounds, &mut goes_on);
        read(&table, &plain_command(), &mut writer).expect("ours");
        RowsPart::decode(Bytes::from(writer.finish())).expect("ours")
    };
    let on = |part: &RowsPart| part.hand_to(&plain_command(), &mut Everything(0)).expect("ours");
    let after = |clustering: &'static [u8]| ReadPosition {
        key: PartitionKey::new(Bytes::from_static(b"k")),
        clustering: Some(Bytes::from_static(clustering)),
    };
    assert_eq!(on(&part(WIDE, 99)), ReadOn::Over);
    assert_eq!(on(&part(PartBounds { rows_max: 2, ..WIDE }, 99)), ReadOn::After(after(b"b")));
    assert_eq!(on(&part(PartBounds { bytes_max: 1, ..WIDE }, 99)), ReadOn::After(after(b"a")));
    assert_eq!(on(&part(WIDE, 3)), ReadOn::OutOfTime(Some(after(b"c"))));
    let first_of_each = PartBounds { partition_rows_max: Some(1), ..WIDE };
    assert_eq!(
        (part(first_of_each, 99).row_count(), on(&part(first_of_each, 99))),
        (1, ReadOn::Over)
    );

    // A scan over what is dead may end before it finds anything.
    let mut never = || false;
    let mut writer = PartWriter::new(WIDE, &mut never);
    assert!(!writer.go_on());
    let part = RowsPart::decode(Bytes::from(writer.finish())).expect("ours");
    assert_eq!(on(&part), ReadOn::OutOfTime(None));
}

#[test]
fn a_part_that_cannot_be_is_malformed() {
    let row = "0161 0000000b 0101 0000000000000007 00";
    for (what, bytes) in [
        ("another version", "02 80 00".to_string()),
        ("no end", format!("01 03 016b {row}")),
        ("a first row without a key", format!("01 02 {row} 80 00")),
        ("the static row of no row", format!("01 0b 016b {row} 80 00")),
        ("neither a row nor a static row", "01 01 016b 80 00".to_string()),
        ("full without a row", "01 81 00".to_string()),
        ("a row that is longer than the part", "01 03 016b 0161 ffffffff 01 80 00".to_string()),
        ("an unknown end", format!("01 03 016b {row} 83 00")),
        ("an unknown flag", format!("01 13 016b {row} 80 00")),
    ] {
        let digits: String = bytes.split_whitespace().collect();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        assert_eq!(RowsPart::decode(Bytes::from(bytes)), Err(Malformed), "{what}");
    }
}

/// A node does not gather more than it wants to, whatever a peer asks for.
#[test]
fn bounds_of_the_node_hold() {
    let table = vec![Partition {
        key: PartitionKey::new(Bytes::from_static(b"k")),
        static_row: None,
        rows: (0..100_u8)
            .map(|n| (Bytes::from(vec![n]), plain_row(&[0; 100_000]), i64::MIN))
            .collect(),
    }];
    let all = PartBounds { rows_max: u32::MAX, bytes_max: u32::MAX, ..WIDE };
    let mut always = || true;
    let mut writer = PartWriter::new(all, &mut always);
    read(&table, &plain_command(), &mut writer).expect("ours");
    let bytes = writer.finish();
    assert!(bytes.len() <= PartBounds::BYTES_MAX as usize + 8, "{}", bytes.len());
    let mut sink = Everything(0);
    let count = read_through_parts(
        &table,
        plain_command(),
        PartBounds { bytes_max: 1 << 20, ..all },
        u64::MAX,
        &mut sink,
    );
    assert_eq!((count, sink.0), (Ok(10), 100));
}
