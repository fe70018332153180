//! Rows are handed from one storage to another, over real trees: into sorted files of their own where they are many.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use node_log::simulated_disk::SimDisk;
use storage::{
    CommitMode, CommittedEntry, Configuration, DataDir, Driver, EntryHead, EntryPlace, Ground,
    GroupAppend, GroupEntry, GroupState, Options, Position, Request, Storage,
};
use support::trees::{OrderedHome, Orders};
use support::*;
use types::{
    CellAction, CellChange, ColumnId, Mutation, NodeId, Operation, ReadScope, ReplicaId, RingRange,
    RowChange, RowPosition, RowSelection, SetId,
};

/// The set that is handed over, and one that the receiver has already.
const GROUP: SetId = SetId(7);
/// The kind of entries that hold a request.
const KIND_REQUEST: u8 = 4;
const ROWS: u8 = 200;

fn row(number: u8, value: Bytes, timestamp_us: i64) -> Mutation {
    let cell = CellChange {
        column: ColumnId(1),
        timestamp_us,
        action: CellAction::Set { path: None, value, expiry: None },
    };
    Mutation {
        table: TABLE,
        table_version: 0,
        key: key(number),
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

/// A storage with a member of the set.
struct Node {
    folder: Folder,
    options: Options,
    replica: ReplicaId,
    storage: Storage,
    last: u64,
}

impl Node {
    fn new(number: u64, ingest_bytes_min: u64) -> Node {
        let options = Options { ingest_bytes_min, ..small_options(CommitMode::Group) };
        Node::with(number, options, open_tables)
    }

    /// Its trees do as they are told.
    fn ordered(number: u64, options: Options) -> (Node, Arc<Orders>) {
        let home = OrderedHome::default();
        let orders = Arc::clone(&home.orders);
        let node = Node::with(number, options, |folder, options| {
            let dir = DataDir::lock(&folder.0).unwrap();
            let disk = Arc::new(SimDisk::default());
            let ground = Ground { disk, home: Arc::new(home) };
            let tables = Tables(vec![Arc::new(plain_table())]);
            let clock = Arc::new(FixedClock(AtomicU32::new(NOW_S)));
            let storage =
                Storage::open_on(ground, dir, options.clone(), Arc::new(tables), clock).unwrap();
            storage.locate_with(|_, _| Some(SET));
            storage
        });
        (node, orders)
    }

    fn with(
        number: u64,
        options: Options,
        open: impl FnOnce(&Folder, &Options) -> Storage,
    ) -> Node {
        let folder = Folder::new("images");
        let storage = open(&folder, &options);
        let replica = ReplicaId(number);
        let configuration = Configuration::of_voters([(replica, NodeId(number))]);
        storage.begin_group(&GroupState::born(GROUP, replica, configuration)).unwrap();
        Node { folder, options, replica, storage, last: 1 }
    }

    fn write(&mut self, mutation: Mutation) {
        self.last += 1;
        let mutations = [mutation];
        let defines = self.storage.propose_defines(GROUP, &mutations).unwrap();
        let [mutation] = mutations;
        let request = Request {
            id: None,
            not_after_s: u32::MAX,
            timed_us: None,
            truncates: None,
            splits: None,
            mutations: vec![mutation],
            step: None,
        };
        for (kind, body) in defines {
            self.apply(kind, Bytes::from(body));
            self.last += 1;
        }
        self.apply(KIND_REQUEST, request.to_bytes());
    }

    fn apply(&self, kind: u8, body: Bytes) {
        let (storage, term, index, now_s) = (&self.storage, 1, self.last, NOW_S);
        let entry = GroupEntry { kind, term, index, now_s, body: body.clone() };
        let append = GroupAppend { entries: vec![entry], ..GroupAppend::default() };
        let slot = storage.append_group(GROUP, &append).unwrap()[0];
        self.wait();
        let head = EntryHead { set: GROUP, kind, term, index, now_s, body_bytes: slot.body_bytes };
        let entry = CommittedEntry { head, position: slot.record, body, request: None };
        storage.apply_group(&mut [entry], |_, _, result| assert!(result.is_ok(), "{result:?}"));
    }

    /// Until everything that was appended is on the disk.
    fn wait(&self) {
        let (done, is_done) = sync_channel(1);
        let done = Box::new(move |is_durable| done.send(is_durable).unwrap());
        self.storage.await_durable(done).unwrap();
        if self.options.driver == Driver::Steps {
            self.storage.step_log();
        }
        assert!(is_done.recv().unwrap());
    }

    /// What a partition holds.
    fn read(&self, number: u8) -> Vec<SeenRow> {
        let read = |rows| {
            let mut sink = Remember::default();
            let command = command(ReadScope::Partition(key(number)), rows);
            self.storage.read(GROUP, &command, &mut sink).unwrap();
            sink.rows
        };
        let rows = read(RowSelection::All);
        assert_eq!(read(RowSelection::point(Bytes::from_static(b"c"))), rows);
        rows
    }

    /// Its rows come to another node, and its log says so. Where the log has it there.
    fn hand_to(&self, to: &Node) -> Position {
        self.hand_in_order(to, |_| ())
    }

    fn hand_in_order(&self, to: &Node, order: impl Fn(&mut Vec<Bytes>)) -> Position {
        let place = EntryPlace { index: self.last, term: 1 };
        let mut image = self.storage.image(GROUP, place, &[TABLE], RingRange::FULL).unwrap();
        let mut staging = to.storage.stage(to.replica, image.head()).unwrap();
        let mut chunks = Vec::new();
        while let Some(chunk) = image.next_chunk(1_000).unwrap() {
            chunks.push(chunk);
        }
        order(&mut chunks);
        for chunk in chunks {
            staging.put(&chunk).unwrap();
        }
        staging.finish().unwrap();
        let configuration = Configuration::of_voters([(to.replica, NodeId(to.replica.0))]);
        let born = GroupState::born(GROUP, to.replica, configuration);
        let state = GroupState { cut: place, commit: place.index, ..born };
        let position = to.storage.append_install(&state).unwrap();
        to.wait();
        position
    }

    fn again(self) -> Node {
        let Node { folder, options, replica, storage, last } = self;
        drop(storage);
        let storage = open_tables(&folder, &options);
        Node { folder, options, replica, storage, last }
    }
}

fn open_tables(folder: &Folder, options: &Options) -> Storage {
    let tables = Tables(vec![Arc::new(plain_table())]);
    open_with(&folder.0, options.clone(), tables, NOW_S)
}

/// What a set of the same number held on the receiver before, in files and in memory, and what its caches know, is gone; what came is
/// there, also for those who looked for it before, and after the next start.
#[test]
fn rows_that_come_take_the_place_of_all_that_was_there() {
    for ingest_bytes_min in [1, 5_000, u64::MAX] {
        let mut from = Node::new(1, ingest_bytes_min);
        for number in 0..ROWS {
            from.write(row(number, Bytes::from(vec![number; 100]), 10));
        }
        let mut to = Node::new(2, ingest_bytes_min);
        // Some that will be there, and some that will not.
        for number in ROWS - 50..ROWS + 40 {
            to.write(row(number, Bytes::from_static(b"old"), 20));
            if number == ROWS {
                to.storage.flush(None).unwrap();
            }
        }
        for number in [0, ROWS - 1, ROWS, ROWS + 39] {
            // Twice: the second time it comes from a cache.
            to.read(number);
            to.read(number);
        }
        let position = from.hand_to(&to);
        to.storage.install(GROUP, to.replica, from.last, position).unwrap();
        let check = |to: &Node| {
            for number in 0..=u8::MAX {
                let wanted = from.read(number);
                assert_eq!(to.read(number), wanted, "{number} of {ingest_bytes_min}");
                assert_eq!(wanted.is_empty(), number >= ROWS);
            }
            let sums = [&from, to].map(|it| it.storage.checksum(GROUP, TABLE).unwrap());
            assert_eq!(sums[0], sums[1]);
        };
        check(&to);
        // Before anything of it is for sure in sorted files: the next start puts it there once more.
        let to = to.again();
        check(&to);
        to.storage.settle_installs();
        let to = to.again();
        check(&to);
    }
}

/// Sorted files are made of what comes as it comes: keys that do not rise are refused, and so are those of no table.
#[test]
fn an_image_out_of_order_is_damaged() {
    for (what, order) in [
        ("backwards", (|chunks: &mut Vec<Bytes>| chunks.reverse()) as fn(&mut Vec<Bytes>)),
        ("twice", |chunks| chunks.insert(1, chunks[0].clone())),
        ("of no table", |chunks| chunks.push(Bytes::from_static(&[0, 0, 0, 1]))),
    ] {
        let mut from = Node::new(1, 1);
        for number in 0..ROWS {
            from.write(row(number, Bytes::from(vec![number; 100]), 10));
        }
        let to = Node::new(2, 1);
        let position = from.hand_in_order(&to, order);
        let installed = to.storage.install(GROUP, to.replica, from.last, position);
        assert!(installed.is_err(), "{what}");
    }
}

/// A broken disk under the rows that come is a broken disk: nothing is acknowledged any more, as after a flush that failed. One that
/// is full is not.
#[test]
fn a_disk_that_breaks_under_an_image_stops_the_node() {
    let mut from = Node::new(1, 1);
    for number in 0..ROWS {
        from.write(row(number, Bytes::from(vec![number; 100]), 10));
    }
    for (errno, is_broken) in [(rustix::io::Errno::IO, true), (rustix::io::Errno::NOSPC, false)] {
        let options = small_options(CommitMode::Group);
        let options = Options { driver: Driver::Steps, ingest_bytes_min: 1, ..options };
        let (to, orders) = Node::ordered(2, options);
        let position = from.hand_to(&to);
        orders.ingest_errno.store(errno.raw_os_error(), Ordering::Relaxed);
        let installed = to.storage.install(GROUP, to.replica, from.last, position);
        assert!(installed.is_err());
        to.storage.step_log();
        assert_eq!(to.storage.failure().is_some(), is_broken, "{errno}: {installed:?}");
    }
}

/// Where memory is full of an image and too many sorted files wait to be merged, it goes on when they are: a member that cannot take its rows
/// is of no use until the next start.
#[test]
fn an_image_waits_for_merges() {
    let mut from = Node::new(1, 1);
    for number in 0..ROWS {
        from.write(row(number, Bytes::from(vec![number; 100]), 10));
    }
    for driver in [Driver::Steps, Driver::Threads] {
        let options = small_options(CommitMode::Group);
        let options = Options { driver, memtable_bytes_max: 16 * 1024, ..options };
        let (to, orders) = Node::ordered(2, options);
        let position = from.hand_to(&to);
        orders.unsorted_runs.store(128, Ordering::Relaxed);
        let installed = to.storage.install(GROUP, to.replica, from.last, position);
        assert!(installed.is_ok(), "{driver:?}: {installed:?}");
        assert!(orders.merges.load(Ordering::Relaxed) > 0);
        for number in 0..=u8::MAX {
            assert_eq!(to.read(number), from.read(number), "{driver:?}: {number}");
        }
    }
}

/// A snapshot has no files of images: it would say that their rows are there, and lack them.
#[test]
fn no_snapshot_lacks_the_rows_of_an_image() {
    let mut from = Node::new(1, 1);
    for number in 0..ROWS {
        from.write(row(number, Bytes::from(vec![number; 100]), 10));
    }
    let to = Node::new(2, 1);
    let position = from.hand_to(&to);
    let early = to.storage.snapshot("early", "test");
    assert!(early.is_err(), "{early:?}");
    to.storage.install(GROUP, to.replica, from.last, position).unwrap();
    to.storage.snapshot("whole", "test").unwrap();
    let folder = Folder::new("images");
    storage::restore(&to.folder.0, "whole", Some(&folder.0)).unwrap();
    let storage = open_tables(&folder, &to.options);
    let restored =
        Node { folder, storage, options: to.options.clone(), replica: to.replica, last: 1 };
    for number in 0..ROWS {
        assert_eq!(restored.read(number), from.read(number), "{number}");
    }
    // Of a member that was taken away nothing is needed.
    let gone = Node::new(3, 1);
    from.hand_to(&gone);
    gone.storage.end_group(GROUP, gone.replica).unwrap();
    gone.storage.snapshot("whole", "test").unwrap();
}
