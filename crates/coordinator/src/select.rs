//! Running a read: which physical partitions are asked in which order, and where it goes on.

use std::sync::Arc;

use bytes::Bytes;
use plan::modify::ConditionalResult;
use plan::{IndexLookup, LogicalPartitions, SelectPlan};
use replica::Reach;
use types::{
    CorruptRow, CurrentRow, Flow, IndexQuestion, LiveCells, LiveRow, Mutation, ReadCommand,
    ReadScope, RingRange, RowPosition, RowSelection, RowSink, RowWriter, SetId, Statics,
};
use units::Charge;

use crate::admission::admit_read;
use crate::collect::Collector;
use crate::error::ExecuteError;
use crate::executor::Executor;
use crate::meter::Meter;
use crate::page_state::{self, PageState};
use crate::request::RequestContext;
use crate::resume::{self, Resume, scopes_of};
use crate::rows::Rows;
use crate::virtual_rows;

/// So many keys or ranges are read between two looks at the clock; long ones look at it themselves.
const SCOPES_PER_QUESTION: usize = 16;
/// So many entries of each index are counted to find out which has the fewest.
const COUNTED_ENTRIES_MAX: usize = 256;
/// A lookup of no more entries, in no more physical partitions, is as short as a few point reads.
const SHORT_LOOKUP_MAX: usize = 64;

impl Executor {
    /// Reads the rows of a plan, or one page of them.
    pub(crate) fn select(
        &self,
        plan: &SelectPlan<'_>,
        request: &RequestContext<'_>,
    ) -> Result<Rows, ExecuteError> {
        let resume = self.resume_of(plan, request)?;
        let meter = self.counts_work.then(|| Meter::new(plan, request.work.get()));
        let mut collector = Collector::new(plan, resume.as_ref(), request.bounds, meter);
        let ticket = admit_read(self.replicas.budgets(), &self.view, plan, request)?;
        let mut read = Ok(());
        if !collector.is_done() {
            read = self.read_rows(plan, resume, request, &mut collector);
        }
        let is_elsewhere = matches!(read, Err(ExecuteError::Elsewhere));
        let finished = read.and_then(|()| collector.finish());
        if collector.begins_anew() || is_elsewhere {
            self.replicas.budgets().settle(ticket, |_, _| Charge::ZERO);
        } else if let Some(meter) = &mut collector.meter {
            request.work.set(meter.finish(finished.as_ref().ok().map(|(body, _)| body)));
            self.replicas.budgets().settle(ticket, |_, set| meter.charge_of(set));
        }
        let (body, next) = finished?;
        Ok(Rows {
            columns: Arc::clone(plan.selection.columns()),
            row_count: body.row_count,
            tombstone_count: collector.tombstone_count(),
            body: body.bytes,
            paging_state: next.map(|state| state.seal(&self.paging_secret)),
        })
    }

    /// Whether this node's members hold all that a read looks at by the map of now. One of them may have been handed less than it
    /// had, and this node's map not know it yet.
    pub fn is_held_here(&self, plan: &SelectPlan<'_>) -> bool {
        let Some(groups) = self.groups() else { return true };
        let map = self.view.map();
        let table = plan.table.id;
        let holds_key = |key: &types::PartitionKey| {
            let part = RingRange { start: key.ring(), last: key.ring() };
            map.locate(table, key.ring()).is_none_or(|found| groups.holds(found.set, part))
        };
        match &plan.partitions {
            LogicalPartitions::Key(key) => holds_key(key),
            LogicalPartitions::Keys(keys) => keys.iter().all(holds_key),
            LogicalPartitions::Ring(ranges) => ranges.iter().all(|range| {
                map.overlapping(table, *range).all(|found| {
                    let part = range.intersect(&found.range);
                    part.is_none_or(|part| groups.holds(found.set, part))
                })
            }),
        }
    }

    /// Refuses bytes that are no paging state of ours, whatever statement they come with.
    pub fn check_paging_state(&self, bytes: &[u8]) -> Result<(), ExecuteError> {
        let is_ours = page_state::is_sealed(bytes, &self.paging_secret);
        if is_ours { Ok(()) } else { Err(ExecuteError::PagingState) }
    }

    /// Where the request goes on; `None` at the beginning.
    fn resume_of(
        &self,
        plan: &SelectPlan<'_>,
        request: &RequestContext<'_>,
    ) -> Result<Option<Resume>, ExecuteError> {
        let Some(bytes) = request.paging_state else { return Ok(None) };
        let state = PageState::open(bytes, &self.paging_secret).ok_or(ExecuteError::PagingState)?;
        if !resume::heeds(plan, &state) {
            return Ok(None);
        }
        resume::resume(plan, state).ok_or(ExecuteError::PagingState).map(Some)
    }

    /// The set of the logical partition that a conditional write looked at.
    pub(crate) fn set_of_condition(&self, conditional: &ConditionalResult) -> Option<SetId> {
        let map = self.view.map();
        let partition = map.locate(conditional.table.id, conditional.key().ring());
        partition.map(|partition| partition.set)
    }

    /// The first live row of the logical partition that a conditional write looked at.
    pub(crate) fn first_row(
        &self,
        conditional: &ConditionalResult,
        reach: Reach<'_>,
    ) -> Result<Option<CurrentRow>, ExecuteError> {
        let (table, key) = (&conditional.table, conditional.key());
        let map = self.view.map();
        let Some(partition) = map.locate(table.id, key.ring()) else { return Ok(None) };
        let command = ReadCommand {
            table: table.id,
            scope: ReadScope::Partition(key.clone()),
            rows: RowSelection::All,
            index: None,
            reversed: false,
            statics: Statics::Skip,
            hidden: table.hidden_cells(),
            columns: Some(Arc::from([])),
            after: None,
            now_s: conditional.now_s(),
        };
        let mut first = FirstRow { row: None, reads_cells: conditional.reads_regulars() };
        self.replicas.read(partition, &command, reach, &mut first)?;
        Ok(first.row)
    }

    fn read_rows(
        &self,
        plan: &SelectPlan<'_>,
        resume: Option<Resume>,
        request: &RequestContext<'_>,
        collector: &mut Collector<'_, '_>,
    ) -> Result<(), ExecuteError> {
        let reach = request.reach;
        if plan.table.is_virtual {
            collector.enter_physical(None);
            let rows = match request.gathered {
                Some(gathered) => virtual_rows::stored(plan.table, gathered),
                None => virtual_rows::stored(plan.table, &self.catalog.virtual_rows(plan.table)),
            };
            return self.for_each_scope(plan, resume, collector, |command, collector| {
                virtual_rows::read(&rows, &command, collector).map_err(ExecuteError::from)
            });
        }
        let map = self.view.map();
        self.for_each_scope(plan, resume, collector, |mut command, collector| {
            match command.scope {
                ReadScope::Partition(ref key) => {
                    let partition =
                        map.locate(command.table, key.ring()).ok_or_else(|| unknown_table(plan))?;
                    collector.enter_physical(Some(partition.set));
                    self.replicas.read(partition, &command, reach, collector)?;
                    if collector.begins_anew() {
                        return Ok(());
                    }
                    let charge = collector.last_charge().micros();
                    self.traffic.note(partition, command.table, key, charge);
                }
                ReadScope::Ring(range) => {
                    for partition in map.overlapping(command.table, range) {
                        let Some(part) = range.intersect(&partition.range) else { continue };
                        command.scope = ReadScope::Ring(part);
                        collector.enter_physical(Some(partition.set));
                        self.replicas.read(partition, &command, reach, collector)?;
                        if collector.begins_anew() {
                            return Ok(());
                        }
                        let charge = collector.last_charge().micros();
                        self.traffic.note_ring(partition, part.start, charge);
                        if collector.is_done() {
                            break;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Hands each key or range of the plan that is not done yet to `read`: keys in the order of
    /// their values, ranges in the order of the ring.
    fn for_each_scope(
        &self,
        plan: &SelectPlan<'_>,
        resume: Option<Resume>,
        collector: &mut Collector<'_, '_>,
        mut read: impl FnMut(ReadCommand, &mut Collector<'_, '_>) -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError> {
        let (scopes, mut after) = match resume {
            Some(resume) => (resume.scopes, resume.after),
            None => (scopes_of(plan), None),
        };
        for (number, scope) in scopes.into_iter().enumerate() {
            if number % SCOPES_PER_QUESTION == SCOPES_PER_QUESTION - 1 && !collector.go_on() {
                return Ok(());
            }
            let resumes_here = match (&scope, &after) {
                (ReadScope::Partition(key), Some(position)) => *key == position.key,
                (ReadScope::Ring(range), Some(position)) => range.contains(position.key.ring()),
                (_, None) => false,
            };
            let mut command = command_of(plan, scope);
            command.after = if resumes_here { after.take() } else { None };
            command.index = self.choose_index(plan, &command)?;
            let is_resumed = command.after.is_some();
            read(command, collector)?;
            collector.leave_scope(is_resumed);
            if collector.is_done() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The sets that a read asks.
    pub fn sets_of(&self, plan: &SelectPlan<'_>) -> Vec<SetId> {
        if plan.table.is_virtual {
            return Vec::new();
        }
        let map = self.view.map();
        let mut sets = Vec::new();
        for scope in scopes_of(plan) {
            match scope {
                ReadScope::Partition(key) => {
                    let partition = map.locate(plan.table.id, key.ring());
                    sets.extend(partition.map(|partition| partition.set));
                }
                ReadScope::Ring(range) => {
                    let partitions = map.overlapping(plan.table.id, range);
                    sets.extend(partitions.map(|partition| partition.set));
                }
            }
        }
        sets.sort_unstable();
        sets.dedup();
        sets
    }

    /// The sets that changes go to.
    pub fn sets_of_changes(&self, mutations: &[Mutation]) -> Vec<SetId> {
        let map = self.view.map();
        let located = mutations.iter().filter_map(|it| map.locate(it.table, it.key.ring()));
        let mut sets: Vec<SetId> = located.map(|partition| partition.set).collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }

    /// Whether a read is one that a secondary index answers with a few rows.
    pub fn is_short_lookup(&self, plan: &SelectPlan<'_>) -> bool {
        if plan.reversed || plan.table.is_virtual || plan.indexes.is_empty() {
            return false;
        }
        let mut scopes = scopes_of(plan);
        let (Some(scope), true) = (scopes.pop(), scopes.is_empty()) else { return false };
        if let ReadScope::Ring(range) = &scope {
            let map = self.view.map();
            let partitions = map.overlapping(plan.table.id, *range);
            if partitions.take(SHORT_LOOKUP_MAX + 1).count() > SHORT_LOOKUP_MAX {
                return false;
            }
        }
        let mut command = command_of(plan, scope);
        plan.indexes.iter().any(|lookup| {
            command.index = Some(question(lookup));
            // Where it fails, it fails again when it is read.
            self.replicas.is_short_lookup(&command, SHORT_LOOKUP_MAX).unwrap_or(false)
        })
    }

    /// The index that gives the fewest candidates. One that is being built is not asked: then the
    /// rows are read and filtered.
    pub(crate) fn choose_index(
        &self,
        plan: &SelectPlan<'_>,
        command: &ReadCommand,
    ) -> Result<Option<IndexQuestion>, ExecuteError> {
        match plan.indexes.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(question(only))),
            several => {
                let mut command = command.clone();
                let mut best: Option<(usize, IndexQuestion)> = None;
                for lookup in several {
                    let asked = question(lookup);
                    command.index = Some(asked.clone());
                    let bound = best.as_ref().map_or(COUNTED_ENTRIES_MAX, |(weight, _)| *weight);
                    let weight = self.replicas.index_weight(&command, bound)?;
                    match weight {
                        Some(weight) if best.as_ref().is_none_or(|(least, _)| weight < *least) => {
                            best = Some((weight, asked));
                        }
                        _ => {}
                    }
                }
                Ok(best.map(|(_, question)| question))
            }
        }
    }
}

/// What is asked of one key or range of a plan, from its beginning and without an index.
fn command_of(plan: &SelectPlan<'_>, scope: ReadScope) -> ReadCommand {
    ReadCommand {
        table: plan.table.id,
        scope,
        rows: plan.rows.clone(),
        index: None,
        reversed: plan.reversed,
        statics: plan.statics,
        hidden: plan.layout.hidden().to_vec(),
        columns: Some(Arc::clone(plan.read_columns)),
        after: None,
        now_s: plan.now_s,
    }
}

fn question(lookup: &IndexLookup<'_>) -> IndexQuestion {
    IndexQuestion {
        index: lookup.index.id,
        value: Bytes::copy_from_slice(&lookup.value),
        entry_value: lookup.entry_value.as_deref().map(Bytes::copy_from_slice),
    }
}

/// Keeps the first row it sees.
struct FirstRow {
    row: Option<CurrentRow>,
    /// Without cells only a row that was inserted counts, and nothing of it is shown but its key.
    reads_cells: bool,
}

impl RowSink for FirstRow {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        let (Some(clustering), Some(cells)) = (row.clustering, row.row) else {
            return Ok(Flow::Continue);
        };
        if !self.reads_cells && !cells.has_liveness() {
            return Ok(Flow::Continue);
        }
        let position = RowPosition::Clustered(Bytes::copy_from_slice(clustering));
        // Without its cells a row still tells how its key was written.
        let row = if self.reads_cells || cells.view().original_clustering().is_some() {
            Some(copy(cells, self.reads_cells)?)
        } else {
            None
        };
        self.row = Some(CurrentRow { position, row });
        Ok(Flow::Stop)
    }
}

/// The live part of a row, as a row, with its cells or without.
fn copy(cells: &LiveCells<'_>, with_cells: bool) -> Result<Vec<u8>, CorruptRow> {
    let liveness = cells.view().liveness().filter(|_| cells.has_liveness());
    let original = cells.view().original_clustering();
    let mut writer = RowWriter::new(Vec::new(), liveness, None, original);
    if with_cells {
        for cell in cells.cells() {
            writer.push(&cell?);
        }
    }
    Ok(writer.finish())
}

fn unknown_table(plan: &SelectPlan<'_>) -> ExecuteError {
    ExecuteError::Invalid(format!("table {} does not exist", plan.table.name))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use partition::Reason;
    use types::RingToken;

    use super::*;
    use crate::SplitPlace;
    use crate::testing::{KEYSPACE, Node, numbers_of, rows_of, settings};

    fn node() -> Node {
        let node = Node::new(settings());
        node.run_all(&[KEYSPACE, "CREATE TABLE k.t (p int PRIMARY KEY, a int, b int)"]);
        for p in 0..64 {
            let (a, b) = (p % 2, p % 16);
            node.run_all(&[&format!("INSERT INTO k.t (p, a, b) VALUES ({p}, {a}, {b})")]);
        }
        node
    }

    fn split(node: &Node, share: u128) {
        let space = node.catalog.space_named("k", None).unwrap();
        let at = SplitPlace::Token(RingToken(u128::MAX / 16 * share));
        node.catalog.split(&space, &at, Reason::Hand).unwrap();
    }

    #[test]
    fn physical_partitions_are_read_in_the_order_of_the_ring() {
        let node = node();
        let whole = node.numbers("SELECT p FROM k.t");
        assert_eq!(whole.len(), 64);
        for share in [8, 3, 12, 13] {
            split(&node, share);
            assert_eq!(node.numbers("SELECT p FROM k.t"), whole);
            assert_eq!(node.numbers("SELECT p FROM k.t WHERE p = 7"), [7]);
        }
        let (_, work) = node.run_counted("SELECT p FROM k.t");
        assert_eq!(work.query_partition_count, 5);
    }

    #[test]
    fn a_page_goes_on_where_it_ended_whatever_became_of_the_map() {
        let node = node();
        let text = "SELECT p FROM k.t";
        let whole = node.numbers(text);
        let (mut found, mut state) = (Vec::new(), None::<Vec<u8>>);
        for share in 1.. {
            let page = node.run_page(text, Some(7), state.as_deref(), &Cell::default());
            let rows = rows_of(text, page);
            found.extend(numbers_of(&rows));
            state = rows.paging_state;
            if state.is_none() {
                break;
            }
            split(&node, share);
        }
        assert_eq!(found, whole);
    }

    #[test]
    fn only_states_of_ours_are_taken() {
        let node = node();
        let page = node.run_page("SELECT p FROM k.t", Some(7), None, &Cell::default());
        let mut state = rows_of("first", page).paging_state.unwrap();
        node.executor.check_paging_state(&state).unwrap();
        *state.last_mut().unwrap() ^= 1;
        assert!(node.executor.check_paging_state(&state).is_err());
        let page = node.run_page("SELECT p FROM k.t", Some(7), Some(&state), &Cell::default());
        assert!(matches!(page, Err(ExecuteError::PagingState)));
    }

    #[test]
    fn the_index_with_the_fewest_entries_is_asked() {
        let node = node();
        node.run_all(&["CREATE INDEX by_a ON k.t (a)", "CREATE INDEX by_b ON k.t (b)"]);
        node.wait_for_indexes();
        let text = "SELECT p FROM k.t WHERE a = 1 AND b = 5 ALLOW FILTERING";
        let mut found = node.numbers(text);
        found.sort_unstable();
        assert_eq!(found, [5, 21, 37, 53]);
        let (_, work) = node.run_counted(text);
        assert_eq!(work.index_entry_count, 4, "32 by the other index");
        let step = node.rows(&format!("EXPLAIN {text}")).remove(0).remove(1).unwrap();
        assert!(String::from_utf8(step).unwrap().starts_with("ask index by_b of k.t: 4 entries"));
    }

    #[test]
    fn a_table_that_was_dropped_is_told() {
        let node = node();
        let schema = node.executor.schema();
        let parsed = cql::parse("INSERT INTO k.t (p) VALUES (1)").unwrap();
        let session = plan::SessionContext { keyspace: None };
        let prepared = plan::prepare(&parsed, "", &schema, &session).unwrap();
        node.run_all(&["DROP TABLE k.t"]);
        let error = node.run_prepared(&prepared).unwrap_err();
        assert_eq!(error.to_string(), "the table was dropped");
    }
}
