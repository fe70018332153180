//! A clock that goes back loses nothing: neither what was written before nor what is written after.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use storage::{CommitMode, Storage};
use support::*;
use types::{
    CellAction, CellChange, ColumnId, Deletion, Expiry, Liveness, Mutation, Operation, RowChange,
    RowPosition,
};

fn change(number: u8, expires_at_s: Option<u32>, deleted_at_s: Option<u32>) -> Mutation {
    let timestamp_us = 1 + i64::from(deleted_at_s.is_some());
    let expiry = expires_at_s.map(|expires_at_s| Expiry { ttl_s: 100, expires_at_s });
    let action = CellAction::Set { path: None, value: Bytes::from(vec![number]), expiry };
    let deletion = deleted_at_s.map(|deleted_at_s| Deletion { timestamp_us, deleted_at_s });
    let is_write = deletion.is_none();
    let row = RowChange {
        position: RowPosition::Clustered(Bytes::from_static(b"c")),
        original_clustering: None,
        liveness: is_write.then_some(Liveness { timestamp_us, expiry }),
        deletion,
        cells: if is_write {
            vec![CellChange { column: ColumnId(1), timestamp_us, action }]
        } else {
            Vec::new()
        },
    };
    let operations = vec![Operation::Row(row)];
    Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: key(number),
        condition: None,
        operations,
    }
}

fn commit(storage: &Storage, mutation: Mutation) {
    storage.commit(vec![(SET, mutation)]).wait().unwrap();
}

fn seen(storage: &Storage, now_s: u32) -> Vec<u8> {
    let mut command = everything();
    command.now_s = now_s;
    let mut seen: Vec<u8> =
        read_all(storage, &command).iter().map(|row| row.cells[0].3[0]).collect();
    seen.sort_unstable();
    seen
}

#[test]
fn a_clock_that_goes_back_loses_nothing() {
    let folder = Folder::new("clock-back");
    let clock = Arc::new(FixedClock(AtomicU32::new(10_000)));
    let open = || {
        let tables = Tables(vec![Arc::new(plain_table())]);
        open_at(&folder.0, small_options(CommitMode::Group), tables, &clock)
    };
    let storage = open();
    commit(&storage, change(1, Some(10_100), None));
    commit(&storage, change(2, None, None));
    commit(&storage, change(3, None, None));
    commit(&storage, change(3, None, Some(10_000)));
    storage.flush(None).unwrap();
    clock.0.store(5_000, Ordering::Relaxed);
    commit(&storage, change(4, None, None));
    // The node gives no times from before those that it gave.
    commit(&storage, change(5, Some(10_100), None));
    assert_eq!(seen(&storage, 5_000), [1, 2, 4, 5]);
    storage.flush(None).unwrap();
    storage.compact(None).unwrap();
    assert_eq!(seen(&storage, 5_000), [1, 2, 4, 5]);
    storage.abandon();
    clock.0.store(4_000, Ordering::Relaxed);
    let storage = open();
    // What was deleted stays so: its tombstone is not older than a clock that went back.
    commit(&storage, change(3, None, None));
    assert_eq!(seen(&storage, 4_000), [1, 2, 4, 5]);
    storage.compact(None).unwrap();
    assert_eq!(seen(&storage, 4_000), [1, 2, 4, 5]);
    // And forward again.
    clock.0.store(20_000, Ordering::Relaxed);
    storage.compact(None).unwrap();
    assert_eq!(seen(&storage, 20_000), [2, 4]);
}
