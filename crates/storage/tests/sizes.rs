//! Sizes of logical partitions against the truth: under random writes, deletes and expiry, with
//! flushes, clean stops and crashes in between.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{CommitMode, Options, RangeSize, Storage};
use support::*;
use types::{
    CellAction, CellChange, ClusteringRange, ColumnId, CqlType, Deletion, Expiry, Liveness,
    Mutation, Operation, PartitionKey, RingRange, RowChange, RowPosition, TableId,
};

const VALUE: ColumnId = ColumnId(3);
/// So often it is looked whether a walk is done: a minute.
const LOOKS_MAX: u32 = 3000;

/// Looks until it is so; a walk on a busy machine may take its time.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it is not so after a minute");
}

fn column(id: u32, name: &str, cql_type: CqlType, kind: ColumnKind) -> Column {
    Column { id: ColumnId(id), name: name.into(), cql_type, kind, mask: None, is_hidden: false }
}

fn table() -> Arc<Table> {
    Arc::new(Table {
        id: TABLE,
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column(100, "k", CqlType::Blob, ColumnKind::PartitionKey),
            column(101, "c", CqlType::Int, ColumnKind::Clustering { descending: false }),
            column(VALUE.0, "v", CqlType::Blob, ColumnKind::Regular),
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

fn options(limit: u64) -> Options {
    Options {
        logical_partition_bytes_max: limit,
        physical_partition_bytes_max: limit * 2,
        ..small_options(CommitMode::Group)
    }
}

fn open_at(folder: &Folder, limit: u64, now_s: u32) -> Storage {
    open_with(&folder.0, options(limit), Tables(vec![table()]), now_s)
}

fn clustering(number: i32) -> Bytes {
    let mut bytes = Vec::new();
    types::value::encode_ordered(&CqlType::Int, &number.to_be_bytes(), false, &mut bytes);
    Bytes::from(bytes)
}

fn put(key: &PartitionKey, row: i32, length: usize, at_us: i64, ttl: Option<u32>) -> Mutation {
    let expiry = ttl.map(|ttl_s| Expiry { ttl_s, expires_at_s: NOW_S + ttl_s });
    let value = Bytes::from(vec![7; length]);
    let change = RowChange {
        position: RowPosition::Clustered(clustering(row)),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us: at_us, expiry }),
        deletion: None,
        cells: vec![CellChange {
            column: VALUE,
            timestamp_us: at_us,
            action: CellAction::Set { path: None, value, expiry },
        }],
    };
    mutation(key, Operation::Row(change))
}

fn mutation(key: &PartitionKey, operation: Operation) -> Mutation {
    Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: key.clone(),
        condition: None,
        operations: vec![operation],
    }
}

fn key_of(number: u32) -> PartitionKey {
    PartitionKey::new(Bytes::from(number.to_be_bytes().to_vec()))
}

fn commit(storage: &Storage, mutation: Mutation) {
    storage.commit(vec![(SET, mutation)]).wait().unwrap();
}

/// Waits until every size is as it should be: what expired or was deleted by range may take a walk.
fn check(storage: &Storage, truth: &BTreeMap<u32, BTreeMap<i32, usize>>, when: &str) {
    for (number, rows) in truth {
        // Key and clustering column take four bytes each.
        let bytes = rows.values().map(|length| *length as u64 + 8).sum::<u64>();
        let expected = RangeSize { bytes, rows: rows.len() as u64 };
        let found = || storage.logical_size(TABLE, &key_of(*number)).unwrap_or_default();
        wait_until(|| found() == expected);
        assert_eq!(found(), expected, "{when}, key {number}");
    }
    let total: u64 = truth.values().flat_map(|rows| rows.values()).map(|v| *v as u64 + 8).sum();
    let ring = storage.range_sizes(TABLE, [RingRange::FULL]);
    assert_eq!(ring[0].bytes, total, "{when}");
}

#[test]
fn sizes_are_exact_through_flushes_stops_and_crashes() {
    let folder = Folder::new("sizes");
    let mut storage = open_at(&folder, 1_000_000, NOW_S);
    let mut truth: BTreeMap<u32, BTreeMap<i32, usize>> = BTreeMap::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    for step in 0..4_000i64 {
        let (number, row) = (next(20) as u32, next(30) as i32);
        let key = key_of(number);
        let rows = truth.entry(number).or_default();
        let at = Deletion { timestamp_us: step, deleted_at_s: NOW_S };
        match next(100) {
            0..70 => {
                let length = next(300) as usize;
                commit(&storage, put(&key, row, length, step, None));
                rows.insert(row, length);
            }
            70..90 => {
                let change = RowChange {
                    position: RowPosition::Clustered(clustering(row)),
                    original_clustering: None,
                    liveness: None,
                    deletion: Some(at),
                    cells: Vec::new(),
                };
                commit(&storage, mutation(&key, Operation::Row(change)));
                rows.remove(&row);
            }
            90..95 => {
                let range =
                    ClusteringRange { start: clustering(row), end: Some(clustering(row + 5)) };
                commit(&storage, mutation(&key, Operation::DeleteRange { range, deletion: at }));
                rows.retain(|other, _| !(row..row + 5).contains(other));
            }
            95..97 => {
                commit(&storage, mutation(&key, Operation::DeletePartition(at)));
                rows.clear();
            }
            97 => storage.flush(None).unwrap(),
            98 if step % 5 == 0 => {
                storage.abandon();
                storage = open_at(&folder, 1_000_000, NOW_S);
            }
            99 if step % 5 == 0 => {
                storage.close().unwrap();
                drop(storage);
                storage = open_at(&folder, 1_000_000, NOW_S);
            }
            _ => {}
        }
    }
    storage.close().unwrap();
    drop(storage);
    // Later: the clock of a test stands still, and walks over one partition keep a distance.
    let storage = open_at(&folder, 1_000_000, NOW_S + 100);
    check(&storage, &truth, "after a stop");
    storage.compact(None).unwrap();
    check(&storage, &truth, "after a compaction");
}

#[test]
fn large_keys_are_found_among_many_small_ones() {
    let folder = Folder::new("sizes-many");
    let limit = 1_000_000;
    let storage = open_at(&folder, limit, NOW_S);
    let mut truth: BTreeMap<u32, u64> = BTreeMap::new();
    for step in 0..6_000u32 {
        // One write in four goes to one of five keys, the others to keys of their own.
        let number = if step % 4 == 0 { step / 4 % 5 } else { 1_000 + step };
        commit(&storage, put(&key_of(number), step as i32, 100, i64::from(step), None));
        *truth.entry(number).or_default() += 108;
    }
    let found = || -> BTreeMap<Vec<u8>, u64> {
        let largest = storage.largest_partitions(TABLE, 5);
        largest.iter().map(|it| (it.key.bytes().to_vec(), it.bytes)).collect()
    };
    let expected: BTreeMap<Vec<u8>, u64> =
        (0..5).map(|number: u32| (number.to_be_bytes().to_vec(), truth[&number])).collect();
    wait_until(|| found() == expected);
    assert_eq!(found(), expected);
    assert_eq!(storage.range_sizes(TABLE, [RingRange::FULL])[0].bytes, 6_000 * 108);
}

#[test]
fn what_expires_is_taken_off_and_room_comes_back() {
    let folder = Folder::new("sizes-expiry");
    let storage = open_at(&folder, 10_000, NOW_S);
    let key = key_of(1);
    for row in 0..9 {
        commit(&storage, put(&key, row, 1_000, 1, (row < 5).then_some(10)));
    }
    let full = storage.admit(&[put(&key, 100, 1_000, 2, None)]).unwrap_err();
    assert_eq!((full.bytes, full.bytes_max), (9 * 1008, 10_000));
    storage.close().unwrap();
    drop(storage);
    let storage = open_at(&folder, 10_000, NOW_S + 100);
    let found = || storage.logical_size(TABLE, &key).unwrap().bytes;
    wait_until(|| found() == 4 * 1008);
    assert_eq!(found(), 4 * 1008);
    let filling = storage.admit(&[put(&key, 100, 1_000, 2, None)]).unwrap();
    assert_eq!(filling.iter().map(|it| it.level).collect::<Vec<_>>(), [50]);
    assert!(storage.admit(&[put(&key, 100, 1_000, 2, None)]).unwrap().is_empty(), "only once");
    let other = TableId(1);
    assert!(storage.logical_size(other, &key).is_none());
}
