//! Running a read: which physical partitions are asked in which order, and where it goes on.

use std::sync::Arc;

use plan::{Partitions, SelectPlan};
use types::{PartitionKey, ReadCommand, ReadPosition, ReadScope, RingRange};

use crate::collect::Collector;
use crate::coordinator::{Coordinator, RequestContext};
use crate::error::ExecuteError;
use crate::page_state::PageState;
use crate::rows::Rows;
use crate::virtual_rows;

impl Coordinator {
    /// Reads the rows of a plan, or one page of them.
    pub(crate) fn select(
        &self,
        plan: &SelectPlan<'_>,
        request: &RequestContext<'_>,
    ) -> Result<Rows, ExecuteError> {
        let resume = match request.paging_state {
            Some(bytes) => Some(
                PageState::decode(bytes, self.paging_secret(), &request.statement_id)
                    .ok_or(ExecuteError::PagingState)?,
            ),
            None => None,
        };
        let mut collector = Collector::new(plan, resume.as_ref(), request.deadline);
        let after = resume.map(|state| state.position);
        if !collector.is_done() {
            self.read_partitions(plan, after, &mut collector)?;
        }
        let (body, next) = collector.finish()?;
        Ok(Rows {
            columns: Arc::clone(plan.selection.columns()),
            row_count: body.row_count,
            body: body.bytes,
            paging_state: next
                .map(|state| state.encode(self.paging_secret(), &request.statement_id)),
        })
    }

    fn read_partitions(
        &self,
        plan: &SelectPlan<'_>,
        after: Option<ReadPosition>,
        collector: &mut Collector<'_, '_>,
    ) -> Result<(), ExecuteError> {
        if plan.table.is_virtual {
            let rows = virtual_rows::collect(plan.table, &self.schema(), &self.facts(plan.table));
            return self.for_each_scope(plan, after, collector, |command, collector| {
                virtual_rows::read(&rows, &command, collector).map_err(ExecuteError::from)
            });
        }
        let map = self.map();
        self.for_each_scope(plan, after, collector, |mut command, collector| {
            match command.scope {
                ReadScope::Partition(ref key) => {
                    let partition =
                        map.locate(command.table, key.ring()).ok_or_else(|| unknown_table(plan))?;
                    self.replicas().read(partition, &command, collector)?;
                }
                ReadScope::Ring(range) => {
                    for partition in map.overlapping(command.table, range) {
                        let Some(part) = range.intersect(&partition.range) else { continue };
                        command.scope = ReadScope::Ring(part);
                        self.replicas().read(partition, &command, collector)?;
                        if collector.is_done() {
                            break;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Hands each key or range of the plan that is not done yet to `read`, in the order of the ring.
    fn for_each_scope(
        &self,
        plan: &SelectPlan<'_>,
        mut after: Option<ReadPosition>,
        collector: &mut Collector<'_, '_>,
        mut read: impl FnMut(ReadCommand, &mut Collector<'_, '_>) -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError> {
        let scopes: Vec<ReadScope> = match &plan.partitions {
            Partitions::Key(key) => vec![ReadScope::Partition(key.clone())],
            Partitions::Keys(keys) => keys.iter().cloned().map(ReadScope::Partition).collect(),
            Partitions::Ring(ranges) => ranges.iter().copied().map(ReadScope::Ring).collect(),
        };
        for scope in scopes {
            let Some(scope) = remaining(scope, after.as_ref()) else { continue };
            let resumes_here = match (&scope, &after) {
                (ReadScope::Partition(key), Some(position)) => *key == position.key,
                (ReadScope::Ring(range), Some(position)) => range.contains(position.key.ring()),
                (_, None) => false,
            };
            let command = ReadCommand {
                table: plan.table.id,
                scope,
                rows: plan.rows.clone(),
                reversed: plan.reversed,
                statics: plan.statics,
                after: if resumes_here { after.take() } else { None },
                now_s: plan.now_s,
            };
            read(command, collector)?;
            if collector.is_done() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What of a scope lies after the position; `None` when nothing does.
fn remaining(scope: ReadScope, after: Option<&ReadPosition>) -> Option<ReadScope> {
    let Some(position) = after else { return Some(scope) };
    let order = |key: &PartitionKey| (key.ring(), key.bytes().clone());
    match scope {
        ReadScope::Partition(key) => {
            let is_done = order(&key) < order(&position.key)
                || (key == position.key && position.clustering.is_none());
            (!is_done).then_some(ReadScope::Partition(key))
        }
        ReadScope::Ring(range) => {
            let start = range.start.max(position.key.ring());
            (start <= range.last).then_some(ReadScope::Ring(RingRange { start, last: range.last }))
        }
    }
}

fn unknown_table(plan: &SelectPlan<'_>) -> ExecuteError {
    ExecuteError::Invalid(format!("table {} does not exist", plan.table.name))
}
