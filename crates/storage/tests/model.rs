//! Storage against a plain model: every change ever made is kept as a fact, and what is visible is
//! worked out from all facts, in no order. Any order, any duplicates, flushed, compacted and
//! restarted at any point: the same rows.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use bytes::Bytes;
use proptest::prelude::*;
use storage::{CommitMode, Storage};
use support::model::Model;
use support::*;
use types::{
    CellAction, CellChange, ClusteringRange, ColumnId, Deletion, Expiry, Liveness, Mutation,
    Operation, ReadPosition, ReadScope, RowChange, RowPosition, RowSelection, Statics,
};

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Mutation>),
    Again(usize),
    Flush,
    Compact,
    Reopen,
    Crash,
}

fn timestamp() -> impl Strategy<Value = i64> {
    0..8i64
}

fn deletion() -> impl Strategy<Value = Deletion> {
    (timestamp(), 900..910u32)
        .prop_map(|(timestamp_us, deleted_at_s)| Deletion { timestamp_us, deleted_at_s })
}

fn expiry() -> impl Strategy<Value = Option<Expiry>> {
    prop_oneof![
        3 => Just(None),
        1 => (1..4u32, NOW_S - 2..NOW_S + 3)
            .prop_map(|(ttl_s, expires_at_s)| Some(Expiry { ttl_s, expires_at_s })),
    ]
}

fn clustering() -> impl Strategy<Value = Bytes> {
    (0..5u8).prop_map(|byte| Bytes::from(vec![byte]))
}

fn bound() -> impl Strategy<Value = Option<Bytes>> {
    prop_oneof![1 => Just(None), 4 => clustering().prop_map(Some)]
}

fn cell() -> impl Strategy<Value = CellChange> {
    let value = prop_oneof![Just(""), Just("a"), Just("b"), Just("bb")].prop_map(Bytes::from);
    let plain = (1..3u32, value.clone(), expiry(), any::<bool>(), 900..910u32).prop_map(
        |(column, value, expiry, dead, deleted_at_s)| {
            let action = match dead {
                true => CellAction::Delete { path: None, deleted_at_s },
                false => CellAction::Set { path: None, value, expiry },
            };
            (column, action)
        },
    );
    let element = (0..3u8, value, expiry(), 0..5u8, 900..910u32).prop_map(
        |(path, value, expiry, kind, deleted_at_s)| {
            let path = Some(Bytes::from(vec![path]));
            let action = match kind {
                0 => CellAction::DeleteElements { deleted_at_s },
                1 => CellAction::Delete { path, deleted_at_s },
                _ => CellAction::Set { path, value, expiry },
            };
            (7, action)
        },
    );
    (timestamp(), prop_oneof![plain, element]).prop_map(|(timestamp_us, (column, action))| {
        CellChange { column: ColumnId(column), timestamp_us, action }
    })
}

fn row_change() -> impl Strategy<Value = RowChange> {
    let position = prop_oneof![
        1 => Just(RowPosition::Static),
        4 => clustering().prop_map(RowPosition::Clustered),
    ];
    let liveness = (timestamp(), expiry())
        .prop_map(|(timestamp_us, expiry)| Liveness { timestamp_us, expiry });
    let cells = prop::collection::vec(cell(), 0..4);
    (position, prop::option::of(liveness), prop::option::weighted(0.15, deletion()), cells)
        .prop_map(|(position, liveness, deletion, cells)| {
            let is_static = position == RowPosition::Static;
            let liveness = liveness.filter(|_| !is_static);
            RowChange { position, original_clustering: None, liveness, deletion, cells }
        })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => row_change().prop_map(Operation::Row),
        1 => deletion().prop_map(Operation::DeletePartition),
        3 => (clustering(), bound(), deletion()).prop_map(|(start, end, deletion)| {
            Operation::DeleteRange { range: ClusteringRange { start, end }, deletion }
        }),
    ]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    (0..3u8, prop::collection::vec(operation(), 1..4)).prop_map(|(number, operations)| Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: key(number),
        condition: None,
        operations,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => prop::collection::vec(mutation(), 1..3).prop_map(Step::Commit),
        3 => any::<usize>().prop_map(Step::Again),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ]
}

fn commit(storage: &Storage, mutations: &[Mutation]) {
    let change = mutations.iter().cloned().map(|mutation| (SET, mutation));
    storage.commit(change).wait().unwrap();
}

/// Every way to read must give what the model gives.
fn check_reads(storage: &Storage, model: &Model) {
    let expected = model.visible();
    assert_eq!(read_all(storage, &everything()), expected, "a scan");
    let mut reversed = everything();
    reversed.reversed = true;
    for number in 0..3u8 {
        let expected = model.visible_in(&[number]);
        let scope = ReadScope::Partition(key(number));
        let slice = command(scope.clone(), RowSelection::All);
        assert_eq!(read_all(storage, &slice), expected, "a slice of {number}");
        let points = (0..5u8).map(|byte| Bytes::from(vec![byte])).collect();
        let points = command(scope.clone(), RowSelection::Points(points));
        assert_eq!(read_all(storage, &points), expected, "points of {number}");
        let mut backwards = slice.clone();
        backwards.reversed = true;
        let mut turned = expected.clone();
        turned.reverse();
        assert_eq!(read_all(storage, &backwards), turned, "backwards {number}");
        let mut bare = command(
            scope,
            RowSelection::Ranges(vec![
                ClusteringRange {
                    start: Bytes::from_static(&[1]),
                    end: Some(Bytes::from_static(&[3])),
                },
                ClusteringRange { start: Bytes::from_static(&[4]), end: None },
            ]),
        );
        bare.statics = Statics::Skip;
        let some: Vec<SeenRow> = expected
            .into_iter()
            .filter(|row| matches!(row.clustering.as_deref(), Some([1 | 2 | 4])))
            .map(|row| SeenRow { statics: Vec::new(), ..row })
            .collect();
        assert_eq!(read_all(storage, &bare), some, "ranges of {number}");
    }
    check_pages(storage, &expected, false);
    check_pages(storage, &expected, true);
}

/// Row by row, each time going on after the last one.
fn check_pages(storage: &Storage, expected: &[SeenRow], reversed: bool) {
    let mut expected = expected.to_vec();
    if reversed {
        // Partitions stay in ring order.
        let mut turned: Vec<SeenRow> = Vec::new();
        for part in expected.chunk_by(|a, b| a.partition == b.partition) {
            turned.extend(part.iter().rev().cloned());
        }
        expected = turned;
    }
    let mut page = everything();
    page.reversed = reversed;
    let mut seen = Vec::new();
    loop {
        let mut sink = Remember { row_count_max: Some(1), ..Remember::default() };
        storage.read(SET, &page, &mut sink).unwrap();
        let Some(row) = sink.rows.pop() else {
            break;
        };
        page.after = Some(ReadPosition {
            key: types::PartitionKey::new(Bytes::from(row.partition.clone())),
            clustering: row.clustering.clone().map(Bytes::from),
        });
        seen.push(row);
    }
    assert_eq!(seen, expected, "pages, reversed: {reversed}");
}

fn run(steps: Vec<Step>, mode: CommitMode, spills: bool) {
    let folder = Folder::new("model");
    let options = || match spills {
        true => spilling(small_options(mode)),
        false => small_options(mode),
    };
    let mut storage = open(&folder.0, options());
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Commit(mutations) => {
                commit(&storage, &mutations);
                model.mutations.extend(mutations);
            }
            Step::Again(number) => {
                let count = model.mutations.len();
                if let Some(mutation) = number.checked_rem(count).map(|n| &model.mutations[n]) {
                    commit(&storage, std::slice::from_ref(mutation));
                }
                continue;
            }
            Step::Flush => storage.flush(None).unwrap(),
            Step::Compact => storage.compact(None).unwrap(),
            Step::Reopen => {
                storage.close().unwrap();
                drop(storage);
                storage = open(&folder.0, options());
            }
            Step::Crash => {
                if mode != CommitMode::Group {
                    // What the thread of the log has not yet written would be lost.
                    continue;
                }
                storage.abandon();
                storage = open(&folder.0, options());
            }
        }
        check_reads(&storage, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn group_commit_equals_the_model(
        steps in prop::collection::vec(step(), 1..24),
        spills in any::<bool>(),
    ) {
        run(steps, CommitMode::Group, spills);
    }

    #[test]
    fn periodic_commit_equals_the_model(
        steps in prop::collection::vec(step(), 1..24),
        spills in any::<bool>(),
    ) {
        run(steps, CommitMode::PERIODIC, spills);
    }
}
