//! The keys of a set go to another set while writers go on: no change is lost, doubled, or applied
//! out of order, also after a crash.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use bytes::Bytes;
use storage::{CommitError, CommitMode, Committed, Storage};
use support::*;
use types::{
    CellAction, CellChange, ColumnId, Mutation, Operation, ReadScope, RowChange, RowPosition,
    RowSelection, SetId,
};

const COUNTER: ColumnId = ColumnId(1);
const KEY: u8 = 7;
const WRITERS: i64 = 4;
const WRITES: i64 = 300;

fn add(delta: i64) -> Mutation {
    let action = CellAction::CounterAdd(delta);
    Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: key(KEY),
        condition: None,
        operations: vec![Operation::Row(RowChange {
            position: RowPosition::Clustered(Bytes::from_static(b"c")),
            original_clustering: None,
            liveness: None,
            deletion: None,
            cells: vec![CellChange { column: COUNTER, timestamp_us: 1, action }],
        })],
    }
}

fn counter(storage: &Storage, set: SetId) -> i64 {
    let mut sink = Remember::default();
    let points = RowSelection::point(Bytes::from_static(b"c"));
    storage.read(set, &command(ReadScope::Partition(key(KEY)), points), &mut sink).unwrap();
    sink.rows
        .first()
        .map_or(0, |row| i64::from_be_bytes(row.cells[0].3.clone().try_into().unwrap()))
}

/// Commits to whichever set holds the key now; returns how often it was handed back.
fn commit(storage: &Storage, current: &AtomicU32, mut mutation: Mutation) -> u32 {
    for moved in 0.. {
        let set = SetId(current.load(Ordering::SeqCst));
        match storage.commit(vec![(set, mutation)]) {
            Committed::Moved(mut change) => {
                mutation = change.remove(0).1;
                std::thread::yield_now();
            }
            committed => {
                committed.wait().unwrap();
                return moved;
            }
        }
    }
    unreachable!()
}

#[test]
fn counters_survive_their_set_being_replaced_under_load() {
    for mode in [CommitMode::Group, CommitMode::PERIODIC] {
        let folder = Folder::new("ended");
        let storage = open(&folder.0, small_options(mode));
        let (current, written) = (AtomicU32::new(1), AtomicI64::new(0));
        let moved: u32 = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|_| {
                    scope.spawn(|| {
                        let write = |_| {
                            let moved = commit(&storage, &current, add(1));
                            written.fetch_add(1, Ordering::SeqCst);
                            moved
                        };
                        (0..WRITES).map(write).sum::<u32>()
                    })
                })
                .collect();
            for next in 2..30 {
                // Each set gets its share of the writes.
                while written.load(Ordering::SeqCst) < i64::from(next) * 30 {
                    std::thread::yield_now();
                }
                // Writers go on under the next set before what the last one was given is applied.
                let hand_over = || current.store(next, Ordering::SeqCst);
                let is_shown = Arc::new(AtomicBool::new(false));
                let show = Arc::clone(&is_shown);
                let show = move || show.store(true, Ordering::SeqCst);
                storage.end_sets(&[SetId(next - 1)], hand_over, show).unwrap();
                assert!(is_shown.load(Ordering::SeqCst));
            }
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        let last = SetId(current.load(Ordering::SeqCst));
        assert_eq!(counter(&storage, last), WRITERS * WRITES, "{mode:?}, handed back {moved}");
        storage.flush(None).unwrap();
        commit(&storage, &current, add(1));
        if mode == CommitMode::Group {
            storage.abandon();
        } else {
            drop(storage);
        }
        let storage = open(&folder.0, small_options(mode));
        assert_eq!(counter(&storage, last), WRITERS * WRITES + 1, "{mode:?} after a crash");
    }
}

#[test]
fn a_change_over_an_ended_set_comes_back_whole() {
    for mode in [CommitMode::Group, CommitMode::PERIODIC] {
        let folder = Folder::new("ended-whole");
        let storage = open(&folder.0, small_options(mode));
        storage.end_sets(&[SetId(2)], || {}, || {}).unwrap();
        let change = vec![(SetId(1), add(1)), (SetId(2), add(2)), (SetId(1), add(3))];
        match storage.commit(change.clone()) {
            Committed::Moved(back) => assert_eq!(back, change),
            other => panic!("{other:?}"),
        }
        let alone = storage.commit(vec![(SetId(2), add(1))]).wait();
        assert!(matches!(alone, Err(CommitError::Moved)), "{alone:?}");
        assert_eq!(counter(&storage, SetId(1)), 0);
    }
}
