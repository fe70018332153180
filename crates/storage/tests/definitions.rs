//! Definitions and the log: any history of writes and definitions, flushed, compacted and stopped
//! anywhere, has the same outcomes and the same answers as one that never was.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use proptest::prelude::*;
use schema::{Column, ColumnKind, DroppedColumn, Table};
use storage::{CommitError, CommitMode, DataDir, SchemaSource, Storage};
use support::*;
use types::{
    CellAction, CellChange, Check, ClusteringRange, ColumnId, ColumnPart, Comparison, Condition,
    CqlType, Deletion, Expiry, Liveness, Mutation, Operation, Outcome, RowChange, RowCondition,
    RowPosition, TableId,
};

const V: ColumnId = ColumnId(1);
const W: ColumnId = ColumnId(2);
const L: ColumnId = ColumnId(3);

/// A schema that changes while storage is open.
struct Changing(Mutex<Arc<Table>>);

impl SchemaSource for Changing {
    fn table(&self, id: TableId) -> Option<Arc<Table>> {
        (id == TABLE).then(|| Arc::clone(&self.0.lock()))
    }
}

fn column(id: ColumnId, name: &str, cql_type: CqlType) -> Column {
    let kind = ColumnKind::Regular;
    Column { id, name: name.into(), cql_type, kind, mask: None, is_hidden: false }
}

fn list() -> CqlType {
    CqlType::List { element: Arc::new(CqlType::Int), frozen: false }
}

fn first_table() -> Table {
    let mut table = plain_table();
    table.columns.truncate(2);
    table.columns.push(column(L, "l", list()));
    table.columns.push(column(V, "v", CqlType::Int));
    table.columns.push(column(W, "w", CqlType::Int));
    table.options.gc_grace_s = 10;
    table
}

/// A node: its storage, its schema, its clock.
struct Node {
    folder: Folder,
    mode: CommitMode,
    tables: Arc<Changing>,
    clock: Arc<FixedClock>,
    storage: Option<Storage>,
}

impl Node {
    fn new(mode: CommitMode) -> Node {
        let mut node = Node {
            folder: Folder::new("definitions"),
            mode,
            tables: Arc::new(Changing(Mutex::new(Arc::new(first_table())))),
            clock: Arc::new(FixedClock(AtomicU32::new(NOW_S))),
            storage: None,
        };
        node.open();
        node
    }

    fn open(&mut self) {
        let dir = DataDir::lock(&self.folder.0).unwrap();
        let (tables, clock) = (Arc::clone(&self.tables), Arc::clone(&self.clock));
        let storage = Storage::open(dir, small_options(self.mode), tables, clock).unwrap();
        storage.locate_with(|_, _| Some(SET));
        self.storage = Some(storage);
    }

    fn storage(&self) -> &Storage {
        self.storage.as_ref().unwrap()
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.tables.0.lock())
    }

    fn alter(&self, alter: impl FnOnce(&mut Table)) {
        let mut table = Table::clone(&self.table());
        alter(&mut table);
        table.version += 1;
        *self.tables.0.lock() = Arc::new(table);
    }

    /// Drops a column, or adds it again if it was dropped.
    fn toggle(&self, id: ColumnId) {
        let now_us = i64::from(self.clock.0.load(Ordering::Relaxed)) * 1_000_000;
        self.alter(|table| match table.columns.iter().position(|column| column.id == id) {
            Some(place) => {
                let Column { name, cql_type, .. } = table.columns.remove(place);
                let dropped =
                    DroppedColumn { id, cql_type, is_static: false, dropped_at_us: now_us };
                table.dropped_columns.insert(name, dropped);
            }
            None => {
                let known = table.dropped_columns.iter().find(|(_, dropped)| dropped.id == id);
                let (name, dropped) = known.unwrap();
                let again = column(id, name, dropped.cql_type.clone());
                let before = |other: &Column| other.is_key() || other.name < again.name;
                let place = table.columns.iter().filter(|other| before(other)).count();
                table.columns.insert(place, again);
            }
        });
    }

    fn commit(&self, mutation: Mutation) -> Result<Outcome, CommitError> {
        let done = self.storage().commit(vec![(SET, mutation)]).wait()?;
        Ok(done[0].outcome.clone())
    }

    /// What a client sees, in the columns of now.
    fn seen(&self) -> Vec<SeenRow> {
        let mut command = everything();
        command.now_s = self.clock.0.load(Ordering::Relaxed);
        command.hidden = self.table().hidden_cells();
        read_all(self.storage(), &command)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Write),
    Toggle(ColumnId),
    Grace(u32),
    Pass(u32),
    Flush,
    Compact,
    Reopen,
    Crash,
}

/// A write, planned when it is made: by the definition and the second of then.
#[derive(Clone, Debug)]
struct Write {
    partition: u8,
    row: u8,
    age_s: u32,
    what: What,
    condition: Option<(ColumnId, i32)>,
}

#[derive(Clone, Debug)]
enum What {
    Set(ColumnId, i32, Option<u32>),
    Append(i32),
    SetAt(i32, i32),
    RemoveAt(i32),
    DeleteCell(ColumnId),
    DeleteRow,
    DeletePartition,
    DeleteRange,
    Insert,
}

fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

impl Write {
    fn plan(&self, node: &Node, number: u32) -> Option<Mutation> {
        let (table, now_s) = (node.table(), node.clock.0.load(Ordering::Relaxed));
        let has = |id: ColumnId| table.column_by_id(id).is_some();
        let timestamp_us = i64::from(now_s - self.age_s) * 1_000_000 + i64::from(number % 1_000);
        let deletion = Deletion { timestamp_us, deleted_at_s: now_s };
        let mut row = RowChange {
            position: RowPosition::Clustered(Bytes::from(vec![self.row])),
            original_clustering: None,
            liveness: None,
            deletion: None,
            cells: Vec::new(),
        };
        let cell = |column, action| CellChange { column, timestamp_us, action };
        let mut operation = None;
        let beside = cell(W, CellAction::Set { path: None, value: int(7), expiry: None });
        match self.what {
            What::Set(column, value, ttl_s) => {
                let expiry = ttl_s.map(|ttl_s| Expiry { ttl_s, expires_at_s: now_s + ttl_s });
                let action = CellAction::Set { path: None, value: int(value), expiry };
                row.cells.push(cell(column, action));
            }
            What::Append(value) => {
                let path = Bytes::copy_from_slice(&number.to_be_bytes());
                let (path, value) = (Some(path), int(value));
                row.cells.push(cell(L, CellAction::Set { path, value, expiry: None }));
            }
            What::SetAt(index, value) => {
                let action = CellAction::ListSetAt { index, value: int(value), expiry: None };
                row.cells.extend([cell(L, action), beside]);
            }
            What::RemoveAt(index) => {
                let action = CellAction::ListDeleteAt { index, deleted_at_s: now_s };
                row.cells.extend([cell(L, action), beside]);
            }
            What::DeleteCell(column) => {
                let action = CellAction::Delete { path: None, deleted_at_s: now_s };
                row.cells.push(cell(column, action));
            }
            What::DeleteRow => row.deletion = Some(deletion),
            What::DeletePartition => operation = Some(Operation::DeletePartition(deletion)),
            What::DeleteRange => {
                let start = Bytes::from(vec![self.row]);
                let range = ClusteringRange { start, end: None };
                operation = Some(Operation::DeleteRange { range, deletion });
            }
            What::Insert => row.liveness = Some(Liveness { timestamp_us, expiry: None }),
        }
        let condition = self.condition.map(|(column, value)| {
            let values = vec![Some(int(value))];
            let (part, operator) = (ColumnPart::Whole, Comparison::Equal);
            let position = row.position.clone();
            let checks = vec![Check::Column { column, part, operator, values }];
            Box::new(Condition { rows: vec![RowCondition { position, checks }] })
        });
        // A planner would refuse columns that are not there.
        let asked = self.condition.map(|(column, _)| column);
        if !row.cells.iter().map(|cell| cell.column).chain(asked).all(has) {
            return None;
        }
        Some(Mutation {
            table: TABLE,
            table_version: table.version,
            key: key(self.partition),
            now_s: None,
            condition,
            operations: vec![operation.unwrap_or(Operation::Row(row))],
        })
    }
}

fn write(deletes_ranges: bool) -> impl Strategy<Value = Write> {
    let column = || prop_oneof![Just(V), Just(W)];
    let what = prop_oneof![
        8 => (column(), 0..3i32, prop::option::weighted(0.2, 1..40u32))
            .prop_map(|(column, value, ttl_s)| What::Set(column, value, ttl_s)),
        3 => (0..9i32).prop_map(What::Append),
        3 => (0..2i32, 10..20i32).prop_map(|(index, value)| What::SetAt(index, value)),
        2 => (0..2i32).prop_map(What::RemoveAt),
        2 => column().prop_map(What::DeleteCell),
        1 => Just(What::DeleteRow),
        1 => Just(if deletes_ranges { What::DeletePartition } else { What::DeleteRow }),
        1 => Just(if deletes_ranges { What::DeleteRange } else { What::DeleteRow }),
        2 => Just(What::Insert),
    ];
    let condition = prop::option::weighted(0.4, (column(), 0..3i32));
    // Some come late: deletions that cover them may be old by then.
    let age_s = prop_oneof![2 => Just(0u32), 1 => 0..60u32];
    (0..2u8, 0..3u8, age_s, what, condition).prop_map(|(partition, row, age_s, what, condition)| {
        Write { partition, row, age_s, what, condition }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    any::<bool>().prop_flat_map(|deletes_ranges| prop::collection::vec(step(deletes_ranges), 1..40))
}

fn step(deletes_ranges: bool) -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => write(deletes_ranges).prop_map(Step::Commit),
        3 => prop_oneof![Just(V), Just(W), Just(L)].prop_map(Step::Toggle),
        1 => prop_oneof![Just(0u32), Just(10), Just(50)].prop_map(Step::Grace),
        3 => (1..40u32).prop_map(Step::Pass),
        2 => Just(Step::Flush),
        2 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        2 => Just(Step::Crash),
    ]
}

/// One node is flushed, compacted and stopped, the other never. Only where partitions or ranges are deleted both
/// are compacted, at the same places: what old deletions cover goes by entries of the log, and those are
/// part of the history.
fn run(steps: &[Step], mode: CommitMode) {
    let deletes_ranges = |step: &Step| match step {
        Step::Commit(write) => matches!(write.what, What::DeletePartition | What::DeleteRange),
        _ => false,
    };
    let compacts_both = steps.iter().any(deletes_ranges);
    let (mut stopped, steady) = (Node::new(mode), Node::new(mode));
    for (number, step) in steps.iter().enumerate() {
        let number = u32::try_from(number).unwrap();
        match step {
            Step::Commit(write) => {
                let Some(mutation) = write.plan(&steady, number) else { continue };
                let one = stopped.commit(mutation.clone()).map_err(|error| error.to_string());
                let other = steady.commit(mutation).map_err(|error| error.to_string());
                assert_eq!(one, other, "step {number}: {step:?}");
            }
            Step::Toggle(column) => [&stopped, &steady].into_iter().for_each(|n| n.toggle(*column)),
            Step::Grace(grace_s) => [&stopped, &steady]
                .into_iter()
                .for_each(|node| node.alter(|table| table.options.gc_grace_s = *grace_s)),
            Step::Pass(seconds) => [&stopped, &steady].into_iter().for_each(|node| {
                node.clock.0.fetch_add(*seconds, Ordering::Relaxed);
            }),
            Step::Flush => stopped.storage().flush(None).unwrap(),
            Step::Compact => {
                stopped.storage().compact(None).unwrap();
                if compacts_both {
                    steady.storage().compact(None).unwrap();
                }
            }
            Step::Reopen => {
                stopped.storage().close().unwrap();
                stopped.storage = None;
                stopped.open();
            }
            Step::Crash if mode == CommitMode::Group => {
                stopped.storage.take().unwrap().abandon();
                stopped.open();
            }
            // What the thread of the log has not yet written would be lost.
            Step::Crash => {}
        }
        assert_eq!(stopped.seen(), steady.seen(), "after step {number}: {step:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn group_commit_replays_to_the_same_answers(steps in steps()) {
        run(&steps, CommitMode::Group);
    }

    #[test]
    fn periodic_commit_replays_to_the_same_answers(steps in steps()) {
        run(&steps, CommitMode::PERIODIC);
    }
}

fn update(what: What, condition: Option<(ColumnId, i32)>) -> Step {
    Step::Commit(Write { partition: 0, row: 0, age_s: 0, what, condition })
}

/// The smallest witnesses: what was acknowledged before a column was dropped is there after a crash.
#[test]
fn conditional_writes_outlive_the_columns_of_their_conditions() {
    for end in [Step::Crash, Step::Reopen] {
        for what in [What::Set(W, 9, None), What::DeleteRow, What::DeletePartition] {
            let history = [
                update(What::Set(V, 2, None), None),
                update(What::Set(W, 3, None), None),
                update(what, Some((V, 2))),
                Step::Toggle(V),
                end.clone(),
                Step::Toggle(V),
                end.clone(),
            ];
            run(&history, CommitMode::Group);
        }
    }
}

#[test]
fn writes_by_position_outlive_their_list() {
    let history = [
        update(What::Append(1), None),
        update(What::Append(2), None),
        update(What::SetAt(1, 9), None),
        Step::Toggle(L),
        Step::Crash,
    ];
    run(&history, CommitMode::Group);
}

/// A tombstone that one history has purged and the other not does not count in either.
#[test]
fn late_writes_meet_no_tombstone_that_a_compaction_may_have_taken() {
    let late = |age_s| {
        Step::Commit(Write {
            partition: 0,
            row: 0,
            age_s,
            what: What::Set(V, 1, None),
            condition: None,
        })
    };
    let history = [
        update(What::Set(W, 1, None), None),
        update(What::DeleteCell(V), None),
        Step::Pass(30),
        Step::Flush,
        Step::Compact,
        late(31),
        Step::Crash,
        update(What::DeleteRow, None),
        Step::Pass(30),
        Step::Compact,
        Step::Crash,
        late(31),
    ];
    run(&history, CommitMode::Group);
}

/// A request that was planned before an ALTER, and comes after a write that was planned by it.
#[test]
fn what_was_planned_by_an_older_definition_is_to_be_planned_again() {
    let node = Node::new(CommitMode::Group);
    let write = |what| Write { partition: 0, row: 0, age_s: 0, what, condition: None };
    let old = write(What::Set(W, 1, None)).plan(&node, 1).unwrap();
    node.commit(write(What::Set(V, 1, None)).plan(&node, 2).unwrap()).unwrap();
    node.toggle(V);
    node.commit(write(What::Set(W, 2, None)).plan(&node, 3).unwrap()).unwrap();
    let before = node.seen();
    assert!(matches!(node.commit(old), Err(CommitError::Stale)));
    assert_eq!(node.seen(), before);
}
