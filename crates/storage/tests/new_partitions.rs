//! Batches of rows into partitions that are new, or only seem so: nothing that is there is overlooked, wherever it lies.
//!
//! Times are drawn from a few, so that a batch is often older than what it meets. Whoever took a partition for new that is
//! not would write over newer rows.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use bytes::Bytes;
use proptest::prelude::*;
use storage::{CommitMode, Driver, Options, Storage};
use support::model::Model;
use support::*;
use types::{
    CellAction, CellChange, ClusteringRange, ColumnId, Deletion, Expiry, Liveness, Mutation,
    Operation, RowChange, RowPosition,
};

const PARTITIONS: u8 = 24;

#[derive(Clone, Debug)]
enum Step {
    Commit(Mutation),
    Flush,
    /// Merges all files, without what has been dead for long enough.
    Purge,
    /// Chores: learning what the files hold is one of them.
    Chores,
    Truncate,
    Reopen,
}

fn deletion() -> impl Strategy<Value = Deletion> {
    (0..6i64, 900..910u32)
        .prop_map(|(timestamp_us, deleted_at_s)| Deletion { timestamp_us, deleted_at_s })
}

fn clustering(byte: u8) -> Bytes {
    Bytes::from(vec![byte])
}

fn row() -> impl Strategy<Value = Operation> {
    let position = prop_oneof![
        1 => Just(RowPosition::Static),
        9 => (0..6u8).prop_map(|byte| RowPosition::Clustered(clustering(byte))),
    ];
    let expiry = prop_oneof![
        4 => Just(None),
        1 => (NOW_S - 2..NOW_S + 3)
            .prop_map(|expires_at_s| Some(Expiry { ttl_s: 3, expires_at_s })),
    ];
    let written = (0..6i64, expiry, 0..4u8);
    (position, written, prop::option::weighted(0.1, deletion())).prop_map(
        |(position, (timestamp_us, expiry, value), deletion)| {
            let is_static = position == RowPosition::Static;
            let value = Bytes::from(vec![value]);
            let cell = CellChange {
                column: ColumnId(1),
                timestamp_us,
                action: CellAction::Set { path: None, value, expiry },
            };
            Operation::Row(RowChange {
                position,
                original_clustering: None,
                liveness: (!is_static).then_some(Liveness { timestamp_us, expiry }),
                deletion,
                cells: vec![cell],
            })
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    let range =
        (0..6u8, prop::option::of(0..6u8), deletion()).prop_map(|(start, end, deletion)| {
            let (start, end) = (clustering(start), end.map(clustering));
            Operation::DeleteRange { range: ClusteringRange { start, end }, deletion }
        });
    prop_oneof![20 => row(), 1 => deletion().prop_map(Operation::DeletePartition), 1 => range]
}

fn step() -> impl Strategy<Value = Step> {
    let batch = (0..PARTITIONS, prop::collection::vec(operation(), 1..8)).prop_map(
        |(number, operations)| {
            Step::Commit(Mutation {
                table_version: 0,
                now_s: None,
                table: TABLE,
                key: key(number),
                condition: None,
                operations,
            })
        },
    );
    prop_oneof![
        30 => batch,
        4 => Just(Step::Flush),
        2 => Just(Step::Purge),
        2 => Just(Step::Chores),
        1 => Just(Step::Truncate),
        2 => Just(Step::Reopen),
    ]
}

fn run(steps: Vec<Step>, spills: bool) {
    let folder = Folder::new("new-partitions");
    let options = || {
        let options = Options { driver: Driver::Steps, ..small_options(CommitMode::PERIODIC) };
        if spills { spilling(options) } else { options }
    };
    let mut storage: Storage = open(&folder.0, options());
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Commit(mutation) => {
                let number = mutation.key.bytes()[0];
                storage.commit([(SET, mutation.clone())]).wait().unwrap();
                model.mutations.push(mutation);
                let slice =
                    command(types::ReadScope::Partition(key(number)), types::RowSelection::All);
                assert_eq!(read_all(&storage, &slice), model.visible_in(&[number]));
                continue;
            }
            Step::Flush => storage.flush(None).unwrap(),
            Step::Purge => storage.compact(None).unwrap(),
            Step::Chores => storage.step(),
            Step::Truncate => {
                storage.truncate(TABLE).unwrap();
                model.mutations.clear();
            }
            Step::Reopen => {
                storage.close().unwrap();
                drop(storage);
                storage = open(&folder.0, options());
            }
        }
        assert_eq!(read_all(&storage, &everything()), model.visible());
    }
    assert_eq!(read_all(&storage, &everything()), model.visible());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_is_there_is_never_overlooked(
        steps in prop::collection::vec(step(), 1..90),
        spills in any::<bool>(),
    ) {
        run(steps, spills);
    }
}
