//! Large values and large collections lie outside of their rows, and nobody can tell.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use storage::{CommitMode, Options, Storage};
use support::*;
use types::{
    CellAction, CellChange, ClusteringRange, ColumnId, Deletion, Expiry, Liveness, Mutation,
    Operation, ReadScope, RowChange, RowPosition, RowSelection, Statics,
};

const INT: u32 = 1;
const BLOB: u32 = 2;
const SET: u32 = 7;

fn options() -> Options {
    Options { row_cache_bytes: 1 << 20, ..small_options(CommitMode::PERIODIC) }
}

fn row() -> RowPosition {
    RowPosition::Clustered(Bytes::from_static(&[1]))
}

fn set_cell(column: u32, path: Option<Vec<u8>>, timestamp_us: i64, value: Vec<u8>) -> CellChange {
    let action =
        CellAction::Set { path: path.map(Bytes::from), value: Bytes::from(value), expiry: None };
    CellChange { column: ColumnId(column), timestamp_us, action }
}

fn change_of(position: RowPosition, cells: Vec<CellChange>) -> RowChange {
    RowChange { position, original_clustering: None, liveness: None, deletion: None, cells }
}

fn commit(storage: &Storage, operations: Vec<Operation>) {
    let mutation = Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: key(0),
        condition: None,
        operations,
    };
    storage.commit(vec![(support::SET, mutation)]).wait().unwrap();
}

fn write(storage: &Storage, cells: Vec<CellChange>) {
    commit(storage, vec![Operation::Row(change_of(row(), cells))]);
}

fn path(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Every way to read gives the same row.
fn cells(storage: &Storage) -> Vec<SeenCell> {
    let scope = || ReadScope::Partition(key(0));
    let points = vec![Bytes::from_static(&[1])];
    let mut backwards = command(scope(), RowSelection::All);
    backwards.reversed = true;
    let reads = [
        everything(),
        command(scope(), RowSelection::All),
        command(scope(), RowSelection::All),
        command(scope(), RowSelection::All),
        backwards,
        command(scope(), RowSelection::Points(points.into())),
    ];
    let mut seen: Vec<Vec<SeenRow>> = reads.iter().map(|read| read_all(storage, read)).collect();
    let first = seen.remove(0);
    assert!(seen.iter().all(|rows| *rows == first), "{seen:?} and {first:?}");
    first.first().map(|row| row.cells.clone()).unwrap_or_default()
}

fn key_count(storage: &Storage) -> u64 {
    storage.compact(None).unwrap();
    storage.statistics().tables[0].row_count
}

#[test]
fn a_blob_beside_an_int_is_not_touched() {
    let folder = Folder::new("blob");
    let storage = open(&folder.0, options());
    let blob = vec![7u8; 1 << 18];
    write(&storage, vec![set_cell(INT, None, 1, vec![0]), set_cell(BLOB, None, 1, blob.clone())]);
    let before = storage.statistics().memtable_bytes;
    for number in 2..100u8 {
        write(&storage, vec![set_cell(INT, None, i64::from(number), vec![number])]);
    }
    assert!(storage.statistics().memtable_bytes - before < 100_000, "the blob was written again");
    let expected = vec![(INT, None, 99, vec![99]), (BLOB, None, 1, blob.clone())];
    assert_eq!(cells(&storage), expected);
    assert!(storage.statistics().row_cache_bytes < 10_000, "the blob is in the row cache");
    storage.flush(None).unwrap();
    assert_eq!(cells(&storage), expected);
    // Who looks at the int only gets no blob.
    let mut only_int = command(ReadScope::Partition(key(0)), RowSelection::All);
    only_int.columns = Some(Arc::from([ColumnId(INT)]));
    assert_eq!(read_all(&storage, &only_int)[0].cells[1].3, Vec::<u8>::new());
    // Older and equal times lose, or win by value.
    write(&storage, vec![set_cell(BLOB, None, 0, vec![9; 9000])]);
    write(&storage, vec![set_cell(BLOB, None, 1, vec![6; 9000])]);
    assert_eq!(cells(&storage), expected);
    write(&storage, vec![set_cell(BLOB, None, 1, vec![8; 5000])]);
    assert_eq!(cells(&storage)[1], (BLOB, None, 1, vec![8; 5000]));
    write(&storage, vec![set_cell(BLOB, None, 3, vec![1])]);
    assert_eq!(cells(&storage)[1], (BLOB, None, 3, vec![1]));
    // The row and the replay point are left, at most.
    assert!(key_count(&storage) <= 2);
}

#[test]
fn a_large_set_grows_and_shrinks_by_its_elements() {
    let folder = Folder::new("set");
    let mut storage = open(&folder.0, options());
    for number in 0..500u32 {
        write(&storage, vec![set_cell(SET, Some(path(number)), 10, vec![])]);
    }
    let element = |number: u32| (SET, Some(path(number)), 10, vec![]);
    let all: Vec<SeenCell> = (0..500).map(element).collect();
    assert_eq!(cells(&storage), all);
    let before = storage.statistics().memtable_bytes;
    write(&storage, vec![set_cell(SET, Some(path(900)), 10, vec![])]);
    assert!(storage.statistics().memtable_bytes - before < 1_000, "more than one element written");
    let delete = |number: u32, timestamp_us| CellChange {
        column: ColumnId(SET),
        timestamp_us,
        action: CellAction::Delete { path: Some(path(number).into()), deleted_at_s: 10 },
    };
    write(&storage, vec![delete(900, 11), delete(250, 9), delete(251, 10)]);
    let expected: Vec<SeenCell> = (0..500).filter(|number| *number != 251).map(element).collect();
    assert_eq!(cells(&storage), expected);
    storage.close().unwrap();
    drop(storage);
    storage = open(&folder.0, options());
    assert_eq!(cells(&storage), expected);
    // A new set in place of the old one.
    let gone = CellChange {
        column: ColumnId(SET),
        timestamp_us: 20,
        action: CellAction::DeleteElements { deleted_at_s: 10 },
    };
    write(&storage, vec![gone, set_cell(SET, Some(path(3)), 21, vec![])]);
    assert_eq!(cells(&storage), vec![(SET, Some(path(3)), 21, vec![])]);
    assert!(key_count(&storage) <= 3, "{}", key_count(&storage));
}

#[test]
fn deletions_take_what_was_spilled() {
    let deletion = Deletion { timestamp_us: 50, deleted_at_s: 10 };
    let row_deletion =
        Operation::Row(RowChange { deletion: Some(deletion), ..change_of(row(), Vec::new()) });
    let range = ClusteringRange { start: Bytes::from_static(&[1]), end: None };
    for deleting in [
        row_deletion,
        Operation::DeletePartition(deletion),
        Operation::DeleteRange { range, deletion },
    ] {
        let folder = Folder::new("spilled-deletions");
        let clock = Arc::new(FixedClock(AtomicU32::new(10)));
        let tables = Tables(vec![Arc::new(plain_table())]);
        let storage = open_at(&folder.0, options(), tables, &clock);
        let mut written = vec![set_cell(BLOB, None, 49, vec![1; 9000])];
        for number in 0..200 {
            let timestamp_us = if number == 77 { 51 } else { 49 };
            written.push(set_cell(SET, Some(path(number)), timestamp_us, vec![]));
        }
        write(&storage, written);
        commit(&storage, vec![deleting.clone()]);
        let left = vec![(SET, Some(path(77)), 51, vec![])];
        assert_eq!(cells(&storage), left, "{deleting:?}");
        // The horizon has passed: the deletions and all that they covered go.
        clock.0.store(NOW_S, Ordering::Relaxed);
        let keys = key_count(&storage);
        assert_eq!(cells(&storage), left, "{deleting:?}");
        assert!(keys <= 4, "{keys} keys are left after {deleting:?}");
        // And a late write comes back, as in Cassandra.
        write(&storage, vec![set_cell(INT, None, 3, vec![3])]);
        assert_eq!(cells(&storage).len(), 2);
    }
}

#[test]
fn expired_parts_go() {
    let folder = Folder::new("spilled-expiry");
    let tables = Tables(vec![Arc::new(plain_table())]);
    let storage = open_with(&folder.0, options(), tables, NOW_S);
    let expiry = Some(Expiry { ttl_s: 1, expires_at_s: 100 });
    let expiring = |column: u32, path: Option<Bytes>| CellChange {
        column: ColumnId(column),
        timestamp_us: 5,
        action: CellAction::Set { path, value: Bytes::from(vec![1; 5000]), expiry },
    };
    let mut written = vec![expiring(BLOB, None), set_cell(INT, None, 5, vec![5])];
    written.extend((0..100).map(|number| expiring(SET, Some(path(number).into()))));
    write(&storage, written);
    assert_eq!(cells(&storage), vec![(INT, None, 5, vec![5])]);
    assert!(key_count(&storage) <= 2);
    assert_eq!(cells(&storage), vec![(INT, None, 5, vec![5])]);
}

#[test]
fn lists_are_changed_by_position_wherever_they_are() {
    let folder = Folder::new("spilled-lists");
    let storage = open(&folder.0, options());
    let elements = (0..200u32).map(|n| set_cell(SET, Some(path(n)), 1, path(n * 10)));
    write(&storage, elements.collect());
    let at = |action| vec![CellChange { column: ColumnId(SET), timestamp_us: 2, action }];
    write(
        &storage,
        at(CellAction::ListSetAt { index: 150, value: b"new".as_slice().into(), expiry: None }),
    );
    write(&storage, at(CellAction::ListDeleteAt { index: 0, deleted_at_s: NOW_S }));
    let values = vec![Bytes::from(path(50)), Bytes::from(path(60))];
    write(&storage, at(CellAction::ListRemoveValues { values, deleted_at_s: NOW_S }));
    let seen: Vec<u32> = cells(&storage)
        .iter()
        .map(|cell| u32::from_be_bytes(cell.1.as_deref().unwrap().try_into().unwrap()))
        .collect();
    let expected: Vec<u32> = (1..200).filter(|n| ![5, 6].contains(n)).collect();
    assert_eq!(seen, expected);
    assert_eq!(cells(&storage)[147].3, b"new");
}

#[test]
fn static_rows_and_statements_of_one_batch() {
    let folder = Folder::new("spilled-statics");
    let storage = open(&folder.0, options());
    let statics = vec![set_cell(BLOB, None, 1, vec![3; 6000])];
    let first = (0..40).map(|n| set_cell(SET, Some(path(n)), 1, vec![])).collect();
    let second = (40..100).map(|n| set_cell(SET, Some(path(n)), 1, vec![])).collect();
    let third = (0..50)
        .map(|n| CellChange {
            column: ColumnId(SET),
            timestamp_us: 2,
            action: CellAction::Delete { path: Some(path(n).into()), deleted_at_s: NOW_S },
        })
        .collect();
    let parts: Vec<Vec<CellChange>> = vec![first, second, third];
    let mut operations = vec![Operation::Row(change_of(RowPosition::Static, statics))];
    operations.extend(parts.into_iter().map(|cells| Operation::Row(change_of(row(), cells))));
    commit(&storage, operations);
    assert_eq!(cells(&storage).len(), 50);
    for rows in [read_all(&storage, &everything()), {
        let points = RowSelection::point(Bytes::from_static(&[1]));
        let mut read = command(ReadScope::Partition(key(0)), points);
        read.statics = Statics::Attach;
        read_all(&storage, &read)
    }] {
        assert_eq!(rows[0].statics, vec![(BLOB, None, 1, vec![3; 6000])]);
    }
}

/// A blob and an int are written together and read together.
#[test]
fn a_row_and_its_parts_are_of_one_moment() {
    let folder = Folder::new("spilled-moments");
    let storage = open(&folder.0, options());
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3usize {
            let (storage, is_over, acknowledged) = (&storage, &is_over, &acknowledged);
            scope.spawn(move || {
                let points = RowSelection::point(Bytes::from_static(&[1]));
                let scope = || ReadScope::Partition(key(0));
                let read = match reader {
                    0 => command(scope(), RowSelection::All),
                    1 => command(scope(), points),
                    _ => everything(),
                };
                while !is_over.load(Ordering::Acquire) {
                    let before = acknowledged.load(Ordering::Acquire);
                    let rows = read_all(storage, &read);
                    let Some(row) = rows.first() else { continue };
                    let number = u64::from_be_bytes(row.cells[0].3.as_slice().try_into().unwrap());
                    assert!(number >= before, "stale");
                    assert_eq!(row.cells[1].3, vec![number as u8; 5000], "torn");
                    assert_eq!(row.cells.len(), 2 + 70, "torn");
                    assert!(row.cells[2..].iter().all(|cell| cell.2 == number as i64), "torn");
                }
            });
        }
        for number in 1..300u64 {
            let timestamp_us = number as i64;
            let mut written = vec![
                set_cell(INT, None, timestamp_us, number.to_be_bytes().to_vec()),
                set_cell(BLOB, None, timestamp_us, vec![number as u8; 5000]),
            ];
            for element in 0..70 {
                written.push(set_cell(SET, Some(path(element)), timestamp_us, vec![]));
            }
            let mut change = change_of(row(), written);
            change.liveness = Some(Liveness { timestamp_us, expiry: None });
            commit(&storage, vec![Operation::Row(change)]);
            acknowledged.store(number, Ordering::Release);
            if number.is_multiple_of(100) {
                storage.compact(None).unwrap();
            }
        }
        is_over.store(true, Ordering::Release);
    });
}
