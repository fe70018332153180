//! Entries of sets with several members, applied without a group around them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use storage::{
    CommitMode, CommittedEntry, Configuration, EntryHead, GroupAppend, GroupEntry, GroupState,
    Position, Request, Storage,
};
use support::*;
use types::{
    CellAction, CellChange, ColumnId, Mutation, NodeId, Operation, ReplicaId, RowChange,
    RowPosition, SetId,
};

const GROUP: SetId = SetId(7);
/// The kind of entries that hold a request.
const KIND_REQUEST: u8 = 4;

fn write(value: &'static [u8], timestamp_us: i64) -> Mutation {
    let cell = CellChange {
        column: ColumnId(1),
        timestamp_us,
        action: CellAction::Set { path: None, value: Bytes::from_static(value), expiry: None },
    };
    Mutation {
        table: TABLE,
        table_version: 0,
        key: key(1),
        now_s: None,
        condition: None,
        operations: vec![Operation::Row(RowChange {
            position: RowPosition::Clustered(Bytes::from_static(b"c")),
            original_clustering: None,
            liveness: None,
            deletion: None,
            cells: vec![cell],
        })],
    }
}

/// Appends an entry, waits until it is on the disk, and applies it; where it stands in the log.
fn apply(storage: &Storage, index: u64, mutation: Mutation) -> Position {
    let request = Request {
        id: None,
        not_after_s: u32::MAX,
        timed_us: None,
        truncates: None,
        splits: None,
        mutations: vec![mutation],
        step: None,
    };
    let (kind, term, now_s, body) = (KIND_REQUEST, 1, NOW_S, request.to_bytes());
    let entry = GroupEntry { kind, term, index, now_s, body: body.clone() };
    let append = GroupAppend { entries: vec![entry], ..GroupAppend::default() };
    let slot = storage.append_group(GROUP, &append).unwrap()[0];
    let (done, is_done) = sync_channel(1);
    storage.await_durable(Box::new(move |is_durable| done.send(is_durable).unwrap())).unwrap();
    assert!(is_done.recv().unwrap());
    let head = EntryHead { set: GROUP, kind, term, index, now_s, body_bytes: slot.body_bytes };
    let entry = CommittedEntry { head, position: slot.record, body };
    storage.apply_group(&[entry], |_, result| assert!(result.is_ok(), "{result:?}"));
    slot.record
}

/// What every member sums is replayed, or in the sum that is kept: a log that went without an entry that wrote nothing had a
/// member taken for one that differs after its next start.
#[test]
fn the_log_is_kept_for_an_entry_that_changes_nothing_until_its_sum_is() {
    let folder = Folder::new("groups");
    let tables = Tables(vec![Arc::new(plain_table())]);
    let storage = open_with(&folder.0, small_options(CommitMode::Group), tables, NOW_S);
    let configuration = Configuration::of_voters([(ReplicaId(1), NodeId(1))]);
    storage.begin_group(&GroupState::born(GROUP, ReplicaId(1), configuration)).unwrap();
    let first = apply(&storage, 2, write(b"new", 10));
    storage.flush(None).unwrap();
    assert!(storage.flushed_before() > first, "it is in sorted files");
    let before = storage.checksum(GROUP, TABLE).unwrap();
    let second = apply(&storage, 3, write(b"old", 5));
    assert_ne!(storage.checksum(GROUP, TABLE).unwrap(), before, "it counts");
    assert!(storage.flushed_before() <= second, "the log is needed from there on");
    storage.flush(None).unwrap();
    assert!(storage.flushed_before() > second);
}
