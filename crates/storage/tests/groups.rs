//! Entries of sets with several members, applied without a group around them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use storage::{
    CommitMode, CommittedEntry, Configuration, EntryHead, EntryPlace, GroupAppend, GroupEntry,
    GroupState, Position, Request, RequestId, Storage,
};
use support::*;
use types::value::timeuuid::timeuuid_at_micros;
use types::{
    CellAction, CellChange, Check, ColumnId, Condition, CqlType, Expiry, ListId, Mutation, NodeId,
    Operation, ReplicaId, RingRange, RowChange, RowCondition, RowPosition, SetId,
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
    apply_at(storage, index, NOW_S, mutation)
}

fn apply_at(storage: &Storage, index: u64, now_s: u32, mutation: Mutation) -> Position {
    let request = Request {
        id: None,
        not_after_s: u32::MAX,
        timed_us: None,
        truncates: None,
        splits: None,
        mutations: vec![mutation],
        step: None,
    };
    apply_entry(storage, index, now_s, KIND_REQUEST, request.to_bytes())
}

fn apply_entry(storage: &Storage, index: u64, now_s: u32, kind: u8, body: Bytes) -> Position {
    let term = 1;
    let entry = GroupEntry { kind, term, index, now_s, body: body.clone() };
    let append = GroupAppend { entries: vec![entry], ..GroupAppend::default() };
    let slot = storage.append_group(GROUP, &append).unwrap()[0];
    let (done, is_done) = sync_channel(1);
    storage.await_durable(Box::new(move |is_durable| done.send(is_durable).unwrap())).unwrap();
    assert!(is_done.recv().unwrap());
    let head = EntryHead { set: GROUP, kind, term, index, now_s, body_bytes: slot.body_bytes };
    let entry = CommittedEntry { head, position: slot.record, body, request: None };
    storage.apply_group(&mut [entry], |_, _, result| assert!(result.is_ok(), "{result:?}"));
    slot.record
}

/// An element of a list, or of a set of time uuids, which has the same name.
fn add_element(id: ListId) -> Mutation {
    let mut mutation = write(b"element", 10);
    let Operation::Row(change) = &mut mutation.operations[0] else { unreachable!() };
    let (path, value) = (Some(Bytes::from(id.path())), Bytes::from_static(b"element"));
    change.cells[0].action = CellAction::Set { path, value, expiry: None };
    mutation
}

/// Whichever nodes gave them their ids: what a set takes later stands behind what it took before, and what is put before a list stands
/// before all that was.
#[test]
fn elements_are_later_than_all_that_their_set_took_before() {
    const TOOK_US: i64 = 1_794_822_000_000_000;
    let uuid = |us| timeuuid_at_micros(us, 7);
    let opened = |cql_type| {
        let folder = Folder::new("groups");
        let mut table = plain_table();
        table.columns[2].cql_type = cql_type;
        let tables = Tables(vec![Arc::new(table)]);
        let storage = open_with(&folder.0, small_options(CommitMode::Group), tables, NOW_S);
        (folder, storage)
    };
    let element = Arc::new(CqlType::Blob);
    let (_folder, storage) = opened(CqlType::List { element: Arc::clone(&element), frozen: false });
    let latest_us = TOOK_US + 10_000_000;
    // How it was made, how it is: later than what was taken is left alone, the same or earlier is not, nor what is far in the future.
    let cases = [
        (ListId::back(uuid(TOOK_US + 5)), TOOK_US + 5),
        (ListId::back(uuid(TOOK_US)), TOOK_US + 1),
        (ListId::back(uuid(TOOK_US - 3_600_000_000)), TOOK_US + 1),
        (ListId::back(uuid(latest_us + 1)), TOOK_US + 1),
        (ListId::front(uuid(TOOK_US + 5)), TOOK_US + 5),
        (ListId::front(uuid(TOOK_US - 1)), TOOK_US + 1),
    ];
    for (id, is_us) in cases {
        let mut mutations = [write(b"other", 10), add_element(id)];
        let moved = id.made_us() != is_us;
        let ordered = storage.order_lists(&mut mutations, TOOK_US, latest_us);
        assert_eq!(ordered, Some((is_us, moved)), "{id:?}");
        let by_us = is_us - id.made_us();
        assert_eq!(mutations, [write(b"other", 10), add_element(id.made_later(by_us))], "{id:?}");
    }
    // Those of one request keep their distance.
    let both = [TOOK_US - 9, TOOK_US - 2].map(|us| ListId::back(uuid(us)));
    let mut mutations = both.map(add_element);
    assert_eq!(storage.order_lists(&mut mutations, TOOK_US, latest_us), Some((TOOK_US + 8, true)));
    assert_eq!(mutations, both.map(|id| add_element(id.made_later(10))));
    // What is no list is left alone.
    let (_folder, storage) = opened(CqlType::Set { element, frozen: false });
    let mut mutations = both.map(add_element);
    assert_eq!(storage.order_lists(&mut mutations, TOOK_US, latest_us), None);
    assert_eq!(mutations, both.map(add_element));
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

/// A member of a set.
struct Member {
    storage: Storage,
    next: u64,
    _folder: Folder,
}

impl Member {
    fn new() -> Member {
        let folder = Folder::new("members");
        let tables = Tables(vec![Arc::new(plain_table())]);
        let storage = open_with(&folder.0, small_options(CommitMode::Group), tables, LATER_S);
        let configuration = Configuration::of_voters([(ReplicaId(1), NodeId(1))]);
        storage.begin_group(&GroupState::born(GROUP, ReplicaId(1), configuration)).unwrap();
        Member { storage, next: 2, _folder: folder }
    }

    fn apply(&mut self, now_s: u32, mutation: Mutation) {
        let mutations = [mutation];
        let defines = self.storage.propose_defines(GROUP, &mutations).unwrap();
        for (kind, body) in defines {
            apply_entry(&self.storage, self.next, now_s, kind, Bytes::from(body));
            self.next += 1;
        }
        let [mutation] = mutations;
        apply_at(&self.storage, self.next, now_s, mutation);
        self.next += 1;
    }

    fn sum(&self) -> u64 {
        self.storage.checksum(GROUP, TABLE).unwrap()
    }
}

/// Before, and after everything that was dead then is dead for longer than it is kept.
const EARLY_S: u32 = 1_000_000;
const LATER_S: u32 = 3_000_000;

fn dies_early(column: u32, path: Option<Vec<u8>>) -> CellChange {
    let expiry = Some(Expiry { ttl_s: 50, expires_at_s: EARLY_S + 50 });
    let (path, value) = (path.map(Bytes::from), Bytes::from_static(b"old"));
    let action = CellAction::Set { path, value, expiry };
    CellChange { column: ColumnId(column), timestamp_us: 10, action }
}

fn with_cells(cells: Vec<CellChange>) -> Mutation {
    let mut mutation = write(b"", 0);
    for operation in &mut mutation.operations {
        if let Operation::Row(row) = operation {
            row.cells.clone_from(&cells);
        }
    }
    mutation
}

/// One member clears what is dead whenever it likes, the other never does: what entries do afterwards is the same.
fn are_alike(first: Mutation, then: &[Mutation]) {
    let (mut clean, mut lazy) = (Member::new(), Member::new());
    for member in [&mut clean, &mut lazy] {
        member.apply(EARLY_S, first.clone());
        // Time passes.
        member.apply(LATER_S, Mutation { key: key(9), ..write(b"other", 5) });
    }
    clean.storage.flush(None).unwrap();
    clean.storage.compact(None).unwrap();
    for (number, mutation) in then.iter().enumerate() {
        clean.apply(LATER_S, mutation.clone());
        lazy.apply(LATER_S, mutation.clone());
        assert_eq!(clean.sum(), lazy.sum(), "after {number}");
        clean.storage.flush(None).unwrap();
        clean.storage.compact(None).unwrap();
    }
}

/// What is in a row and what beside it must not depend on who swept.
#[test]
fn a_large_collection_is_the_same_whoever_swept_it() {
    const COLLECTION: u32 = 7;
    let path = |number: u32| Some(number.to_be_bytes().to_vec());
    let dying: Vec<_> = (0..400).map(|number| dies_early(COLLECTION, path(number))).collect();
    let element = |number: u32, timestamp_us: i64| CellChange {
        column: ColumnId(COLLECTION),
        timestamp_us,
        action: CellAction::Set {
            path: path(number).map(Bytes::from),
            value: Bytes::from_static(b"new"),
            expiry: None,
        },
    };
    let gone = CellChange {
        column: ColumnId(COLLECTION),
        timestamp_us: 90,
        action: CellAction::DeleteElements { deleted_at_s: LATER_S },
    };
    let then = [
        with_cells(vec![element(1_000, 20)]),
        with_cells(vec![element(3, 5)]),
        with_cells(vec![element(4, 30)]),
        write(b"v", 40),
        with_cells(vec![gone, element(5, 91)]),
        with_cells(vec![element(6, 92)]),
    ];
    are_alike(with_cells(dying), &then);
}

/// A batch of rows of one partition, all of one time.
fn batch(partition: u8, rows: std::ops::Range<u8>, timestamp_us: i64) -> Mutation {
    let row = |number: u8| {
        let cell = CellChange {
            column: ColumnId(1),
            timestamp_us,
            action: CellAction::Set { path: None, value: Bytes::from(vec![number]), expiry: None },
        };
        Operation::Row(RowChange {
            position: RowPosition::Clustered(Bytes::from(vec![number])),
            original_clustering: None,
            liveness: None,
            deletion: None,
            cells: vec![cell],
        })
    };
    Mutation { key: key(partition), operations: rows.map(row).collect(), ..write(b"", 0) }
}

/// Rows that were handed over lie in the files of their new member as in those of the old one: a batch that comes late is judged by
/// them, and not taken for the first of its partition.
#[test]
fn a_batch_that_meets_what_was_handed_over_is_judged_by_it() {
    for flushes in 0..4 {
        let (mut from, mut to) = (Member::new(), Member::new());
        for partition in 0..8 {
            from.apply(LATER_S, batch(partition, 0..5, 50));
        }
        // What is there before goes.
        to.apply(LATER_S, batch(3, 3..9, 90));
        to.storage.flush(None).unwrap();
        hand_over(&from, &mut to);
        for _ in 0..flushes {
            to.storage.flush(None).unwrap();
            to.storage.compact(None).unwrap();
        }
        assert_eq!(from.sum(), to.sum());
        for partition in 0..10 {
            let late = batch(partition, 2..12, 40 + 2 * i64::from(partition));
            for member in [&from, &to] {
                apply_at(&member.storage, from.next + u64::from(partition), LATER_S, late.clone());
            }
            assert_eq!(from.sum(), to.sum(), "after {partition}, {flushes} flushes");
        }
        let rows = |member: &Member| {
            let mut rows = Remember::default();
            member.storage.read(GROUP, &everything(), &mut rows).unwrap();
            rows.rows
        };
        assert_eq!(rows(&from), rows(&to));
        assert_eq!(rows(&from).len(), 8 * 12 + 2 * 10);
    }
}

/// Everything of a member becomes another one's.
fn hand_over(from: &Member, to: &mut Member) {
    let replica = ReplicaId(1);
    let place = EntryPlace { index: from.next - 1, term: 1 };
    let mut image = from.storage.image(GROUP, place, &[TABLE], RingRange::FULL).unwrap();
    let mut staging = to.storage.stage(replica, image.head()).unwrap();
    while let Some(chunk) = image.next_chunk(200).unwrap() {
        staging.put(&chunk).unwrap();
    }
    staging.finish().unwrap();
    let configuration = Configuration::of_voters([(replica, NodeId(1))]);
    let born = GroupState::born(GROUP, replica, configuration);
    let state = GroupState { cut: place, commit: place.index, ..born };
    let position = to.storage.append_install(&state).unwrap();
    let (done, is_done) = sync_channel(1);
    to.storage.await_durable(Box::new(move |it| done.send(it).unwrap())).unwrap();
    assert!(is_done.recv().unwrap());
    to.storage.install(GROUP, replica, place.index, position).unwrap();
}

/// A client that says that it is long ago is not told of what some members have and some do not.
#[test]
fn a_second_before_the_horizon_is_the_horizon() {
    let then = Mutation {
        now_s: Some(EARLY_S + 10),
        condition: Some(Box::new(Condition {
            rows: vec![RowCondition {
                position: RowPosition::Clustered(Bytes::from_static(b"c")),
                checks: vec![Check::Exists],
            }],
        })),
        ..write(b"new", 20)
    };
    are_alike(with_cells(vec![dies_early(1, None)]), &[then, write(b"x", 30)]);
}

/// A coordinator's requests: all in its epoch, by their numbers.
fn named(number: u64, mutation: Mutation, not_after_s: u32) -> Request {
    Request {
        id: Some(RequestId(0xabcd << 96 | 5 << 64 | u128::from(number))),
        not_after_s,
        timed_us: None,
        truncates: None,
        splits: None,
        mutations: vec![mutation],
        step: None,
    }
}

/// That requests were applied is in memory, then in blocks of sorted files: a repeat is known at every moment, whatever order they came in,
/// and what never came is not.
#[test]
fn a_repeat_is_known_before_and_after_its_answer_is_in_sorted_files() {
    let folder = Folder::new("answers");
    let tables = || Tables(vec![Arc::new(plain_table())]);
    let storage = open_with(&folder.0, small_options(CommitMode::Group), tables(), NOW_S);
    let configuration = Configuration::of_voters([(ReplicaId(1), NodeId(1))]);
    storage.begin_group(&GroupState::born(GROUP, ReplicaId(1), configuration)).unwrap();
    let is_known = |storage: &Storage, number| {
        let known = storage.known_answer(GROUP, &named(number, write(b"a", 1), NOW_S + 40));
        known.inspect(|answer| assert!(answer.is_ok(), "{answer:?}")).is_some()
    };
    let mut index = 1;
    let mut apply = |numbers: &[u64], now_s, not_after_s| {
        for number in numbers {
            index += 1;
            let request = named(*number, write(b"a", 1), not_after_s);
            apply_entry(&storage, index, now_s, KIND_REQUEST, request.to_bytes());
        }
    };
    // Even numbers, and some of them late: behind those of the next block.
    let first: Vec<u64> = (10..1500).map(|number| number * 2).filter(|it| it % 100 != 0).collect();
    let late: Vec<u64> = (1..30).map(|number| number * 100).rev().collect();
    apply(&first, NOW_S, NOW_S + 40);
    assert!(first.iter().all(|number| is_known(&storage, *number)), "in memory");
    storage.flush(None).unwrap();
    assert!(first.iter().all(|number| is_known(&storage, *number)), "in sorted files");
    assert!(!late.iter().any(|number| is_known(&storage, *number)));
    // Nobody can ask for this one in a later second, and it is not written.
    apply(&[5_000], NOW_S, NOW_S);
    apply(&late, NOW_S + 1, NOW_S + 40);
    let all = || first.iter().chain(&late);
    assert!(all().all(|number| is_known(&storage, *number)), "in both");
    storage.flush(None).unwrap();
    drop(storage);
    let storage = open_with(&folder.0, small_options(CommitMode::Group), tables(), NOW_S);
    assert!(all().all(|number| is_known(&storage, *number)), "after a restart");
    for number in (21..3_000).step_by(2).chain([0, 18, 3_000, 5_000]) {
        assert!(!is_known(&storage, number), "{number}");
    }
}
