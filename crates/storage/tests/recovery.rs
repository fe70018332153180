//! What a restart, clean or not, must bring back, and what it must not do twice.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{CommitError, CommitMode, DataDir, OpenError, Options, ReadError, Storage};
use support::*;
use types::{
    CellAction, CellChange, Check, ColumnId, ColumnPart, Comparison, Condition, CqlType, Deletion,
    Expiry, Liveness, Mutation, Operation, Outcome, PartitionKey, ReadScope, Refusal, RowChange,
    RowCondition, RowPosition, RowSelection, SetId, TableId,
};

const COUNTER: ColumnId = ColumnId(1);
const LIST: ColumnId = ColumnId(2);
const PLAIN: ColumnId = ColumnId(3);

fn column(id: ColumnId, name: &str, cql_type: CqlType, kind: ColumnKind) -> Column {
    Column { id, name: name.into(), cql_type, kind, mask: None, is_hidden: false }
}

fn table() -> Arc<Table> {
    let list = CqlType::List { element: Arc::new(CqlType::Int), frozen: false };
    let key = ColumnKind::PartitionKey;
    Arc::new(Table {
        id: TABLE,
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column(ColumnId(100), "k", CqlType::Blob, key),
            column(ColumnId(101), "c", CqlType::Blob, ColumnKind::Clustering { descending: false }),
            column(LIST, "l", list, ColumnKind::Regular),
            column(PLAIN, "v", CqlType::Int, ColumnKind::Regular),
        ],
        partition_key_count: 1,
        clustering_count: 1,
        static_count: 0,
        shape: TableShape::Ordinary,
        is_counter: false,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 200,
    })
}

fn open_table(folder: &Folder, mode: CommitMode) -> Storage {
    open_with(&folder.0, small_options(mode), Tables(vec![table()]), NOW_S)
}

fn change_at(clustering: &'static [u8], cells: Vec<CellChange>) -> RowChange {
    RowChange {
        position: RowPosition::Clustered(Bytes::from_static(clustering)),
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells,
    }
}

fn cell(column: ColumnId, timestamp_us: i64, action: CellAction) -> CellChange {
    CellChange { column, timestamp_us, action }
}

fn set_plain(timestamp_us: i64, value: i32) -> CellChange {
    let value = Bytes::copy_from_slice(&value.to_be_bytes());
    cell(PLAIN, timestamp_us, CellAction::Set { path: None, value, expiry: None })
}

fn mutate(table: TableId, key: PartitionKey, change: RowChange) -> Mutation {
    Mutation {
        table_version: 0,
        now_s: None,
        table,
        key,
        condition: None,
        operations: vec![Operation::Row(change)],
    }
}

fn commit_one(storage: &Storage, set: SetId, mutation: Mutation) -> Result<Outcome, CommitError> {
    storage.commit(vec![(set, mutation)]).wait().map(|mut done| done.remove(0).outcome)
}

fn add(storage: &Storage, set: SetId, number: u8, delta: i64) {
    let cells = vec![cell(COUNTER, 1, CellAction::CounterAdd(delta))];
    commit_one(storage, set, mutate(TABLE, key(number), change_at(b"c", cells))).unwrap();
}

fn counter(storage: &Storage, set: SetId, number: u8) -> i64 {
    let mut sink = Remember::default();
    let points = RowSelection::point(Bytes::from_static(b"c"));
    storage.read(set, &command(ReadScope::Partition(key(number)), points), &mut sink).unwrap();
    match sink.rows.first() {
        Some(row) => i64::from_be_bytes(row.cells[0].3.clone().try_into().unwrap()),
        None => 0,
    }
}

/// Counters of several sets, with the memtable sealed and the node crashed at every moment: each
/// change counts once.
#[test]
fn nothing_is_applied_twice() {
    for mode in [CommitMode::Group, CommitMode::PERIODIC] {
        for seal_after in 0..6 {
            for crash_after in seal_after..7 {
                let folder = Folder::new("twice");
                let storage = open_table(&folder, mode);
                let mut expected = [0i64; 3];
                for number in 0..=crash_after {
                    let which = number % 3;
                    // Down as well as up: the smaller value must win too.
                    let delta = if number % 2 == 0 { 1 << number } else { -(1 << number) };
                    add(&storage, SetId(which as u32 + 1), which as u8, delta);
                    expected[which] += delta;
                    if number == seal_after {
                        storage.flush(None).unwrap();
                    }
                }
                if mode == CommitMode::Group {
                    storage.abandon();
                } else {
                    drop(storage);
                }
                for round in 0..2 {
                    let storage = open_table(&folder, mode);
                    for which in 0..3u8 {
                        assert_eq!(
                            counter(&storage, SetId(u32::from(which) + 1), which),
                            expected[usize::from(which)],
                            "{mode:?}, sealed after {seal_after}, crashed after {crash_after}, \
                             restart {round}"
                        );
                    }
                    add(&storage, SetId(1), 0, 1000);
                    expected[0] += 1000;
                    if mode == CommitMode::Group {
                        storage.abandon();
                    }
                }
            }
        }
    }
}

#[test]
fn a_change_over_sets_and_tables_is_whole_after_a_crash() {
    let folder = Folder::new("whole");
    let other = TableId(0xcd);
    let storage = open_table(&folder, CommitMode::Group);
    for number in 0..50u8 {
        let change = |table| {
            let cells = vec![set_plain(i64::from(number), i32::from(number))];
            mutate(table, key(number), change_at(b"c", cells))
        };
        let both = vec![(SetId(1), change(TABLE)), (SetId(2), change(other))];
        assert_eq!(
            storage.commit(both).wait().unwrap().as_slice(),
            [Outcome::Applied, Outcome::Applied]
        );
        if number == 20 {
            storage.flush(Some(TABLE)).unwrap();
        }
    }
    storage.abandon();
    let storage = open_table(&folder, CommitMode::Group);
    for (set, id) in [(SetId(1), TABLE), (SetId(2), other)] {
        let mut all = everything();
        all.table = id;
        let mut sink = Remember::default();
        storage.read(set, &all, &mut sink).unwrap();
        assert_eq!(sink.rows.len(), 50);
    }
}

/// A table that is emptied before anything was written to it, with its log kept by another one.
#[test]
fn an_early_truncate_is_not_replayed_over_later_rows() {
    let folder = Folder::new("early");
    let other = TableId(0xee);
    let storage = open_table(&folder, CommitMode::Group);
    let write = |storage: &Storage, table| {
        let mutation = mutate(table, key(1), change_at(b"c", vec![set_plain(1, 1)]));
        commit_one(storage, SET, mutation).unwrap();
    };
    write(&storage, other);
    storage.truncate(TABLE).unwrap();
    write(&storage, TABLE);
    storage.abandon();
    for _ in 0..3 {
        let storage = open_table(&folder, CommitMode::Group);
        assert_eq!(read_all(&storage, &everything()).len(), 1);
        storage.flush(Some(TABLE)).unwrap();
        storage.abandon();
    }
}

#[test]
fn truncated_and_dropped_tables_stay_so() {
    for mode in [CommitMode::Group, CommitMode::PERIODIC] {
        for flush in [false, true] {
            let folder = Folder::new("truncate");
            let dropped = TableId(0xdd);
            let storage = open_table(&folder, mode);
            let write = |storage: &Storage, table, number: u8| {
                let cells = vec![set_plain(1, i32::from(number))];
                let mutation = mutate(table, key(number), change_at(b"c", cells));
                commit_one(storage, SET, mutation).unwrap();
            };
            for number in 0..5 {
                write(&storage, TABLE, number);
                write(&storage, dropped, number);
            }
            if flush {
                storage.flush(None).unwrap();
            }
            assert_eq!(read_all(&storage, &everything()).len(), 5);
            storage.truncate(TABLE).unwrap();
            storage.drop_table(dropped).unwrap();
            assert_eq!(read_all(&storage, &everything()).len(), 0);
            write(&storage, TABLE, 9);
            write(&storage, dropped, 9);
            if flush {
                storage.flush(None).unwrap();
            }
            if mode == CommitMode::Group {
                storage.abandon();
            } else {
                drop(storage);
            }
            for _ in 0..2 {
                let storage = open_table(&folder, mode);
                let rows = read_all(&storage, &everything());
                assert_eq!(rows.len(), 1, "{mode:?}, flushed: {flush}");
                assert_eq!(rows[0].partition, [9]);
                let mut gone = everything();
                gone.table = dropped;
                assert_eq!(read_all(&storage, &gone).len(), 0);
            }
            let folders = std::fs::read_dir(folder.0.join("trees")).unwrap().count();
            assert_eq!(folders, 1, "old files are gone");
        }
    }
}

#[test]
fn conditions_are_judged_when_applied() {
    let folder = Folder::new("conditions");
    let storage = open_table(&folder, CommitMode::Group);
    let attempt = |timestamp_us: i64, value: i32, checks: Vec<Check>| {
        let mut mutation =
            mutate(TABLE, key(1), change_at(b"c", vec![set_plain(timestamp_us, value)]));
        let position = RowPosition::Clustered(Bytes::from_static(b"c"));
        let rows = vec![RowCondition { position, checks }];
        mutation.condition = Some(Box::new(Condition { rows }));
        commit_one(&storage, SET, mutation).unwrap()
    };
    let compare = |operator, value: Option<i32>| {
        let values = vec![value.map(|value| Bytes::copy_from_slice(&value.to_be_bytes()))];
        vec![Check::Column { column: PLAIN, part: ColumnPart::Whole, operator, values }]
    };
    assert!(matches!(attempt(1, 1, vec![Check::Exists]), Outcome::NotApplied { .. }));
    assert_eq!(attempt(2, 1, vec![Check::NotExists]), Outcome::Applied);
    match attempt(3, 2, vec![Check::NotExists]) {
        Outcome::NotApplied { rows } => {
            let row = types::RowView::decode(rows[0].row.as_ref().unwrap()).unwrap();
            assert_eq!(row.cells().next().unwrap().unwrap().value(), 1i32.to_be_bytes());
        }
        Outcome::Applied => panic!("it exists"),
    }
    let table: [(Comparison, Option<i32>, bool); 8] = [
        (Comparison::Equal, Some(1), true),
        (Comparison::Equal, Some(2), false),
        (Comparison::Equal, None, false),
        (Comparison::NotEqual, None, true),
        (Comparison::Less, Some(2), true),
        (Comparison::Greater, Some(-1), true),
        (Comparison::GreaterOrEqual, Some(2), false),
        (Comparison::In, Some(1), true),
    ];
    for (number, (operator, value, holds)) in table.into_iter().enumerate() {
        let outcome = attempt(10 + number as i64, 1, compare(operator, value));
        assert_eq!(outcome == Outcome::Applied, holds, "{operator:?} {value:?}");
    }
    // Many at once on one row: exactly one wins.
    let racing: Vec<_> = (0..50)
        .map(|number| {
            let change = change_at(b"race", vec![set_plain(number, 0)]);
            let mut mutation = mutate(TABLE, key(2), change);
            let position = RowPosition::Clustered(Bytes::from_static(b"race"));
            let rows = vec![RowCondition { position, checks: vec![Check::NotExists] }];
            mutation.condition = Some(Box::new(Condition { rows }));
            storage.commit(vec![(SET, mutation)])
        })
        .collect();
    let won = racing
        .into_iter()
        .filter(|_| true)
        .map(|committed| committed.wait().unwrap().remove(0))
        .filter(|outcome| *outcome == Outcome::Applied)
        .count();
    assert_eq!(won, 1);
}

#[test]
fn lists_are_changed_by_position() {
    let folder = Folder::new("lists");
    let storage = open_table(&folder, CommitMode::Group);
    let set = |path: u8, value: &'static [u8]| {
        let path = Some(Bytes::from(vec![path]));
        CellAction::Set { path, value: Bytes::from_static(value), expiry: None }
    };
    let write = |timestamp_us, actions: Vec<CellAction>| {
        let cells = actions.into_iter().map(|action| cell(LIST, timestamp_us, action)).collect();
        commit_one(&storage, SET, mutate(TABLE, key(1), change_at(b"c", cells)))
    };
    let list = || -> Vec<Vec<u8>> {
        let rows = read_all(&storage, &everything());
        rows.first().map_or_else(Vec::new, |row| row.cells.iter().map(|c| c.3.clone()).collect())
    };
    let at = |index| CellAction::ListSetAt { index, value: Bytes::from_static(b"x"), expiry: None };
    assert!(matches!(write(1, vec![at(0)]), Err(CommitError::Refused(Refusal::ListIsNull))));
    write(1_000_000_000, vec![set(1, b"a"), set(2, b"b"), set(3, b"b")]).unwrap();
    write(1_000_000_001, vec![at(1)]).unwrap();
    assert_eq!(list(), [b"a", b"x", b"b"]);
    let refused = write(1_000_000_002, vec![at(3)]);
    let expected = Refusal::ListIndexOutOfBounds { index: 3, size: 3 };
    assert!(matches!(refused, Err(CommitError::Refused(refusal)) if refusal == expected));
    let delete = CellAction::ListDeleteAt { index: 0, deleted_at_s: NOW_S };
    write(1_000_000_003, vec![delete]).unwrap();
    assert_eq!(list(), [b"x", b"b"]);
    let values = vec![Bytes::from_static(b"b")];
    let remove = CellAction::ListRemoveValues { values, deleted_at_s: NOW_S };
    write(1_000_000_004, vec![remove]).unwrap();
    assert_eq!(list(), [b"x"]);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let folder = Folder::new("refused");
    let storage = open_table(&folder, CommitMode::Group);
    let long = RowChange {
        position: RowPosition::Clustered(Bytes::from(vec![0; 64_500])),
        ..change_at(b"", vec![set_plain(1, 1)])
    };
    let refused = commit_one(&storage, SET, mutate(TABLE, key(1), long));
    assert!(matches!(refused, Err(CommitError::ClusteringTooLong { .. })));
    let value = Bytes::from(vec![0; 2 * 1024 * 1024]);
    let large = cell(PLAIN, 1, CellAction::Set { path: None, value, expiry: None });
    let refused = commit_one(&storage, SET, mutate(TABLE, key(1), change_at(b"c", vec![large])));
    assert!(matches!(refused, Err(CommitError::TooLarge { .. })));
    // Long partition keys work, also in scans, and are told apart by their tails.
    for last in 0..3u8 {
        let mut bytes = vec![7; 60_000];
        bytes.push(last);
        let key = PartitionKey::new(Bytes::from(bytes));
        let change = change_at(b"c", vec![set_plain(1, i32::from(last))]);
        commit_one(&storage, SET, mutate(TABLE, key, change)).unwrap();
    }
    storage.compact(None).unwrap();
    let rows = read_all(&storage, &everything());
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!((row.partition.len(), row.partition[60_000]), (60_001, row.cells[0].3[3]));
        let scope = ReadScope::Partition(PartitionKey::new(Bytes::from(row.partition.clone())));
        assert_eq!(read_all(&storage, &command(scope, RowSelection::All)), [row]);
    }
}

#[test]
fn a_damaged_block_is_an_error_and_never_wrong_data() {
    let folder = Folder::new("damage");
    let storage = open_table(&folder, CommitMode::Group);
    let changes: Vec<_> = (0..2_000u32)
        .map(|number| {
            let key = PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
            let change = change_at(b"c", vec![set_plain(1, number as i32)]);
            storage.commit(vec![(SET, mutate(TABLE, key, change))])
        })
        .collect();
    changes.into_iter().for_each(|committed| drop(committed.wait().unwrap()));
    storage.flush(None).unwrap();
    storage.close().unwrap();
    drop(storage);
    let tree = std::fs::read_dir(folder.0.join("trees")).unwrap().next().unwrap().unwrap();
    let files: Vec<_> =
        std::fs::read_dir(tree.path().join("tables")).unwrap().map(|f| f.unwrap().path()).collect();
    for path in &files {
        let mut file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.seek(SeekFrom::Start(2_000)).unwrap();
        file.read_exact(&mut byte).unwrap();
        file.seek(SeekFrom::Start(2_000)).unwrap();
        file.write_all(&[byte[0] ^ 0x10]).unwrap();
    }
    let clock = Arc::new(FixedClock(NOW_S.into()));
    let dir = DataDir::lock(&folder.0).unwrap();
    let tables = Arc::new(Tables(vec![table()]));
    match Storage::open(dir, Options::default(), tables, clock) {
        Err(OpenError::Tree { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(storage) => {
            let mut sink = Remember::default();
            let result = storage.read(SET, &everything(), &mut sink);
            assert!(matches!(result, Err(ReadError::Corrupt { .. })), "{result:?}");
        }
    }
}

/// What was dead for longer than the retention goes, deletions of partitions and ranges too, and
/// what is alive stays.
#[test]
fn the_dead_go_after_their_time() {
    let folder = Folder::new("purge");
    let clock = Arc::new(FixedClock(AtomicU32::new(100)));
    let tables = Tables(vec![table()]);
    let storage = open_at(&folder.0, small_options(CommitMode::Group), tables, &clock);
    let old = Deletion { timestamp_us: 10, deleted_at_s: 100 };
    let expired = Some(Expiry { ttl_s: 10, expires_at_s: 110 });
    for number in 0..20u8 {
        let cells = vec![
            set_plain(5, 1),
            cell(
                LIST,
                5,
                CellAction::Set {
                    path: Some(Bytes::from_static(b"p")),
                    value: Bytes::new(),
                    expiry: expired,
                },
            ),
        ];
        commit_one(&storage, SET, mutate(TABLE, key(number), change_at(b"c", cells))).unwrap();
        let mut mutation = mutate(TABLE, key(number), change_at(b"d", vec![set_plain(20, 2)]));
        mutation.operations.push(match number % 3 {
            0 => Operation::DeletePartition(old),
            1 => Operation::DeleteRange { range: types::ClusteringRange::ALL, deletion: old },
            _ => Operation::Row(RowChange { deletion: Some(old), ..change_at(b"c", Vec::new()) }),
        });
        commit_one(&storage, SET, mutation).unwrap();
    }
    let before = read_all(&storage, &everything());
    assert_eq!(before.len(), 20);
    clock.0.store(NOW_S, Ordering::Relaxed);
    storage.compact(None).unwrap();
    assert_eq!(read_all(&storage, &everything()), before);
    let rows = storage.statistics().tables[0].row_count;
    assert!((18..=22).contains(&rows), "{rows} keys are left");
    // A write from before the horizon may come back now, as in Cassandra after `gc_grace`.
    commit_one(&storage, SET, mutate(TABLE, key(0), change_at(b"c", vec![set_plain(6, 6)])))
        .unwrap();
    assert_eq!(read_all(&storage, &everything()).len(), 21);
    drop(storage);
    let storage = open_table(&folder, CommitMode::Group);
    assert_eq!(read_all(&storage, &everything()).len(), 21);
}

#[test]
fn a_row_that_was_inserted_exists_without_cells() {
    let folder = Folder::new("liveness");
    let storage = open_table(&folder, CommitMode::PERIODIC);
    let mut change = change_at(b"c", Vec::new());
    change.liveness = Some(Liveness { timestamp_us: 1, expiry: None });
    commit_one(&storage, SET, mutate(TABLE, key(1), change)).unwrap();
    let rows = read_all(&storage, &everything());
    assert!(rows.len() == 1 && rows[0].has_liveness && rows[0].cells.is_empty());
    storage.close().unwrap();
    let refused = commit_one(&storage, SET, mutate(TABLE, key(1), change_at(b"c", Vec::new())));
    assert!(matches!(refused, Err(CommitError::Closed)));
}

#[test]
fn memory_and_log_stay_within_their_bounds() {
    for mode in [CommitMode::Group, CommitMode::PERIODIC] {
        let folder = Folder::new("bounds");
        let options = Options {
            memtable_bytes_max: 2 * 1024 * 1024,
            log_bytes_max: 2 * 1024 * 1024,
            segment_bytes: 256 * 1024,
            ..small_options(mode)
        };
        let storage = open_with(&folder.0, options, Tables(vec![table()]), NOW_S);
        let value = Bytes::from(vec![7; 1000]);
        let mut waiting = Vec::new();
        for number in 0..8_000u32 {
            let key = PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
            let action = CellAction::Set { path: None, value: value.clone(), expiry: None };
            let change = change_at(b"c", vec![cell(PLAIN, 1, action)]);
            waiting.push(storage.commit(vec![(SET, mutate(TABLE, key, change))]));
            if waiting.len() > 100 {
                waiting.drain(..).for_each(|committed| drop(committed.wait().unwrap()));
                assert!(storage.statistics().memtable_bytes < 3 * 1024 * 1024);
            }
        }
        waiting.drain(..).for_each(|committed| drop(committed.wait().unwrap()));
        storage.flush(None).unwrap();
        let statistics = storage.statistics();
        assert!(statistics.log_bytes < 4 * 1024 * 1024, "{statistics:?}");
        assert_eq!(read_all(&storage, &everything()).len(), 8_000);
        storage.close().unwrap();
        drop(storage);
        let log_files = std::fs::read_dir(folder.0.join("log")).unwrap().filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "log")
        });
        let log_files = log_files.count();
        assert!(log_files <= 3, "{log_files}");
        let storage = open_table(&folder, mode);
        assert_eq!(read_all(&storage, &everything()).len(), 8_000);
    }
}

/// Many threads, many sets, memtables flushed all the time: every increment counts once, and a
/// mutation of two rows is seen as a whole.
#[test]
fn threads_do_not_lose_or_tear() {
    for mode in [CommitMode::Group, CommitMode::PERIODIC] {
        let folder = Folder::new("threads");
        let options = Options { memtable_bytes_max: 256 * 1024, ..small_options(mode) };
        let storage = open_with(&folder.0, options, Tables(vec![table()]), NOW_S);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let storage = &storage;
                scope.spawn(move || {
                    for round in 0..400u32 {
                        let number = thread.wrapping_add(round as u8) % 8;
                        add(storage, SetId(u32::from(number) % 3 + 1), number, 1);
                    }
                });
            }
            let storage = &storage;
            scope.spawn(move || {
                for round in 0..400i64 {
                    let rows = [b"a".as_slice(), b"b", b"c"].map(|clustering| {
                        Operation::Row(change_at(clustering, vec![set_plain(round, round as i32)]))
                    });
                    let operations = rows.to_vec();
                    let mutation = Mutation {
                        table_version: 0,
                        now_s: None,
                        table: TABLE,
                        key: key(100),
                        condition: None,
                        operations,
                    };
                    commit_one(storage, SetId(2), mutation).unwrap();
                }
            });
            scope.spawn(move || {
                let slice = command(ReadScope::Partition(key(100)), RowSelection::All);
                let rows = [b"a", b"b", b"c"].map(|clustering| Bytes::from_static(clustering));
                let points = RowSelection::Points(rows.to_vec().into());
                let points = command(ReadScope::Partition(key(100)), points);
                for round in 0..3_000 {
                    let mut sink = Remember::default();
                    let command = if round % 2 == 0 { &slice } else { &points };
                    storage.read(SetId(2), command, &mut sink).unwrap();
                    let values: Vec<_> = sink.rows.iter().map(|row| row.cells.clone()).collect();
                    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "torn: {values:?}");
                    assert!(matches!(values.len(), 0 | 3), "torn: {values:?}");
                }
            });
        });
        let check = |storage: &Storage| {
            let total: i64 = (0..8u8)
                .map(|number| counter(storage, SetId(u32::from(number) % 3 + 1), number))
                .sum();
            assert_eq!(total, 1_600, "{mode:?}");
        };
        check(&storage);
        if mode == CommitMode::Group {
            storage.abandon();
        } else {
            drop(storage);
        }
        check(&open_table(&folder, mode));
    }
}
