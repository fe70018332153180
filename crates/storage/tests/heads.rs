//! Slices from the heads of partitions: the same as without them, at every moment.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use proptest::prelude::*;
use storage::{CommitMode, Options, Storage};
use support::*;
use types::{
    CellAction, CellChange, ClusteringRange, ColumnId, Deletion, Liveness, Mutation, Operation,
    ReadCommand, ReadPosition, ReadScope, RowChange, RowPosition, RowSelection, Statics,
};

fn clustering(number: u8) -> Bytes {
    Bytes::from(vec![1, number])
}

fn write(position: RowPosition, timestamp_us: i64, value: Vec<u8>) -> Operation {
    let action = CellAction::Set { path: None, value: Bytes::from(value), expiry: None };
    let is_static = position == RowPosition::Static;
    Operation::Row(RowChange {
        position,
        original_clustering: None,
        liveness: (!is_static).then_some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: vec![CellChange { column: ColumnId(1), timestamp_us, action }],
    })
}

fn mutation(number: u8, operations: Vec<Operation>) -> Mutation {
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

#[derive(Clone, Debug)]
enum Step {
    Change(Vec<Change>),
    Read(Read),
    Compact,
}

#[derive(Clone, Debug)]
enum Change {
    Write { row: Option<u8>, size: usize, timestamp_us: i64 },
    DeleteRow { row: u8, timestamp_us: i64 },
    DeleteRange { from: u8, to: Option<u8>, timestamp_us: i64 },
    DeletePartition { timestamp_us: i64 },
}

#[derive(Clone, Debug)]
struct Read {
    ranges: Vec<ClusteringRange>,
    reversed: bool,
    statics: Statics,
    row_count_max: Option<usize>,
    after: Option<u8>,
}

impl Change {
    fn operation(&self) -> Operation {
        let deletion =
            |timestamp_us: &i64| Deletion { timestamp_us: *timestamp_us, deleted_at_s: 10 };
        match self {
            Change::Write { row, size, timestamp_us } => {
                let position = match row {
                    Some(row) => RowPosition::Clustered(clustering(*row)),
                    None => RowPosition::Static,
                };
                write(position, *timestamp_us, vec![b'v'; *size])
            }
            Change::DeleteRow { row, timestamp_us } => Operation::Row(RowChange {
                position: RowPosition::Clustered(clustering(*row)),
                original_clustering: None,
                liveness: None,
                deletion: Some(deletion(timestamp_us)),
                cells: Vec::new(),
            }),
            Change::DeleteRange { from, to, timestamp_us } => Operation::DeleteRange {
                range: ClusteringRange { start: clustering(*from), end: to.map(clustering) },
                deletion: deletion(timestamp_us),
            },
            Change::DeletePartition { timestamp_us } => {
                Operation::DeletePartition(deletion(timestamp_us))
            }
        }
    }
}

const ROWS: u8 = 40;

fn change() -> impl Strategy<Value = Change> {
    let timestamp = 0..30i64;
    let row = prop_oneof![1 => Just(None), 12 => (0..ROWS).prop_map(Some)];
    prop_oneof![
        20 => (row, 0..30usize, timestamp.clone())
            .prop_map(|(row, size, timestamp_us)| Change::Write { row, size, timestamp_us }),
        4 => (0..ROWS, timestamp.clone())
            .prop_map(|(row, timestamp_us)| Change::DeleteRow { row, timestamp_us }),
        2 => (0..ROWS, prop::option::of(0..ROWS), timestamp)
            .prop_map(|(from, to, timestamp_us)| Change::DeleteRange { from, to, timestamp_us }),
        1 => (0..15i64).prop_map(|timestamp_us| Change::DeletePartition { timestamp_us }),
    ]
}

fn read() -> impl Strategy<Value = Read> {
    let range = |from: u8, length: u8| ClusteringRange {
        start: clustering(from),
        end: Some(clustering(from + length)),
    };
    let ranges = prop_oneof![
        4 => Just(vec![ClusteringRange::ALL]),
        2 => (0..ROWS).prop_map(|from| vec![ClusteringRange { start: clustering(from), end: None }]),
        2 => (0..ROWS).prop_map(|to| {
            vec![ClusteringRange { start: Bytes::new(), end: Some(clustering(to)) }]
        }),
        1 => (0..10u8, 1..10u8, 20..30u8, 1..10u8)
            .prop_map(move |(a, b, c, d)| vec![range(a, b), range(c, d)]),
    ];
    let statics =
        prop_oneof![Just(Statics::Skip), Just(Statics::Attach), Just(Statics::AttachOrAlone)];
    (ranges, any::<bool>(), statics, prop::option::of(1..12usize), prop::option::of(0..ROWS))
        .prop_map(|(ranges, reversed, statics, row_count_max, after)| Read {
            ranges,
            reversed,
            statics,
            row_count_max,
            after,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => prop::collection::vec(change(), 1..5).prop_map(Step::Change),
        10 => read().prop_map(Step::Read),
        1 => Just(Step::Compact),
    ]
}

fn command_of(read: &Read) -> ReadCommand {
    let mut command =
        command(ReadScope::Partition(key(0)), RowSelection::Ranges(read.ranges.clone()));
    command.reversed = read.reversed;
    command.statics = read.statics;
    command.after =
        read.after.map(|row| ReadPosition { key: key(0), clustering: Some(clustering(row)) });
    command
}

fn seen(storage: &Storage, read: &Read) -> Vec<SeenRow> {
    let mut sink = Remember { row_count_max: read.row_count_max, ..Remember::default() };
    storage.read(SET, &command_of(read), &mut sink).unwrap();
    sink.rows
}

fn options(head_cache_bytes: u64) -> Options {
    Options { head_cache_bytes, ..small_options(CommitMode::PERIODIC) }
}

fn run(steps: Vec<Step>, head_cache_bytes: u64) {
    let (with_folder, without_folder) = (Folder::new("heads"), Folder::new("no-heads"));
    let with = open(&with_folder.0, options(head_cache_bytes));
    let without = open(&without_folder.0, options(0));
    for step in steps {
        match step {
            Step::Change(changes) => {
                let operations: Vec<Operation> = changes.iter().map(Change::operation).collect();
                commit(&with, mutation(0, operations.clone()));
                commit(&without, mutation(0, operations));
            }
            Step::Read(read) => {
                let expected = seen(&without, &read);
                // Not known, marked, brought, found.
                for _ in 0..4 {
                    assert_eq!(seen(&with, &read), expected, "{read:?}");
                }
            }
            Step::Compact => {
                with.compact(None).unwrap();
                without.compact(None).unwrap();
            }
        }
    }
    assert_eq!(without.statistics().head_cache_bytes, 0);
    assert!(with.statistics().head_cache_bytes <= head_cache_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn slices_are_the_same_with_heads(
        steps in prop::collection::vec(step(), 1..40),
        head_cache_bytes in prop_oneof![Just(3_000u64), Just(8_000), Just(1 << 20)],
    ) {
        run(steps, head_cache_bytes);
    }
}

const PARTITIONS: u8 = 4;
const BLOCK_ROWS: u8 = 20;

/// Every change writes the same number into all rows of a block, deletes the rows behind it and adds
/// others: a reader sees one number, never an older one, and none that is older than what was
/// acknowledged before it began.
fn check_moments(commit_mode: CommitMode, head_cache_bytes: u64) {
    let folder = Folder::new("moments");
    let options = Options { head_cache_bytes, ..small_options(commit_mode) };
    let storage = open(&folder.0, options);
    let acknowledged: Vec<AtomicU64> = (0..PARTITIONS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3usize {
            let (storage, acknowledged, is_over) = (&storage, &acknowledged, &is_over);
            scope.spawn(move || {
                let mut last = [0u64; PARTITIONS as usize];
                let mut round = reader;
                while !is_over.load(Ordering::Acquire) {
                    round += 1;
                    let partition = round % usize::from(PARTITIONS);
                    let before = acknowledged[partition].load(Ordering::Acquire);
                    let reversed = round.is_multiple_of(3);
                    let row_count_max = [None, Some(5), Some(30)][round % 7 % 3];
                    let mut slice =
                        command(ReadScope::Partition(key(partition as u8)), RowSelection::All);
                    slice.reversed = reversed;
                    let mut sink = Remember { row_count_max, ..Remember::default() };
                    storage.read(SET, &slice, &mut sink).unwrap();
                    let numbers: Vec<u64> = sink
                        .rows
                        .iter()
                        .map(|row| {
                            u64::from_be_bytes(row.cells[0].3.as_slice().try_into().unwrap())
                        })
                        .collect();
                    let Some(first) = numbers.first().copied() else {
                        assert_eq!((before, last[partition]), (0, 0), "rows are gone");
                        continue;
                    };
                    assert!(numbers.iter().all(|number| *number == first), "torn: {numbers:?}");
                    assert!(first >= before, "stale: {first} after {before} was acknowledged");
                    assert!(first >= last[partition], "went back to {first}");
                    if row_count_max.is_none() {
                        let extra = (first % 5) as usize;
                        assert_eq!(numbers.len(), usize::from(BLOCK_ROWS) + extra, "at {first}");
                    }
                    last[partition] = first;
                }
            });
        }
        for number in 1..1_500u64 {
            let partition = (number * 7 % u64::from(PARTITIONS)) as u8;
            let timestamp_us = number as i64 * 10;
            let value = number.to_be_bytes().to_vec();
            let behind = ClusteringRange { start: clustering(BLOCK_ROWS), end: None };
            let deletion = Deletion { timestamp_us: timestamp_us - 5, deleted_at_s: 10 };
            let mut operations = vec![Operation::DeleteRange { range: behind, deletion }];
            for row in 0..BLOCK_ROWS + (number % 5) as u8 {
                let position = RowPosition::Clustered(clustering(row));
                operations.push(write(position, timestamp_us, value.clone()));
            }
            commit(&storage, mutation(partition, operations));
            acknowledged[usize::from(partition)].store(number, Ordering::Release);
            if number % 400 == 0 {
                storage.compact(None).unwrap();
            }
        }
        is_over.store(true, Ordering::Release);
    });
}

#[test]
fn every_moment_is_whole_and_newer_than_the_last() {
    for head_cache_bytes in [3_000, 12_000, 1 << 20] {
        check_moments(CommitMode::PERIODIC, head_cache_bytes);
    }
    check_moments(CommitMode::Group, 1 << 20);
}

/// A queue: what was taken does not lie before what is left.
#[test]
fn the_front_of_a_queue_is_near() {
    let folder = Folder::new("queue");
    let storage = open(&folder.0, options(1 << 20));
    let row = |number: u16| RowPosition::Clustered(Bytes::from(number.to_be_bytes().to_vec()));
    for number in 0..3_000u16 {
        commit(&storage, mutation(0, vec![write(row(number), 1, vec![1])]));
    }
    let mut front = command(ReadScope::Partition(key(0)), RowSelection::All);
    front.statics = Statics::Skip;
    for number in 0..3_000u16 {
        let mut sink = Remember { row_count_max: Some(3), ..Remember::default() };
        storage.read(SET, &front, &mut sink).unwrap();
        let first = sink.rows.first().map(|row| row.clustering.clone().unwrap());
        assert_eq!(first, Some(number.to_be_bytes().to_vec()));
        let deletion = Some(Deletion { timestamp_us: 2, deleted_at_s: NOW_S });
        let taken = RowChange {
            position: row(number),
            original_clustering: None,
            liveness: None,
            deletion,
            cells: Vec::new(),
        };
        commit(&storage, mutation(0, vec![Operation::Row(taken)]));
    }
    assert_eq!(read_all(&storage, &front), Vec::new());
}
