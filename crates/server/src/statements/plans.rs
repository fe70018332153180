//! What kind of work a plan is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coordinator::Executor;
use cql::ast::BatchKind;
use plan::{BatchPlan, LogicalPartitions, ModifyPlan, Plan, SelectPlan};
use protocol::WriteType;
use types::RowSelection;

use super::cache::Statement;
use super::consistency::Kind;
use crate::config::Timeouts;
use crate::reply::Needs;

/// Rows that a read may return inline; one that may return more goes to a thread of its own.
const INLINE_ROWS_MAX: u32 = 10_000;
/// Logical partitions that a read may look at inline.
const INLINE_PARTITIONS_MAX: usize = 64;

/// What a plan does, as far as consistency levels are concerned; `None` where they mean nothing.
pub(super) fn level_kind<'a>(plan: &Plan<'a>) -> Option<Kind<'a>> {
    match plan {
        Plan::Select(_) => Some(Kind::Read),
        Plan::Modify(ModifyPlan { conditional: Some(_), .. })
        | Plan::Batch(BatchPlan { conditional: Some(_), .. }) => Some(Kind::ConditionalWrite),
        Plan::Modify(modify) if modify.is_counter => Some(Kind::CounterWrite(&modify.table.name)),
        Plan::Modify(_) => Some(Kind::Write),
        // Cassandra looks at the level of a batch only where it has conditions.
        Plan::Batch(_)
        | Plan::Schema(_)
        | Plan::Use(_)
        | Plan::Truncate(_)
        | Plan::Roles(_)
        | Plan::Describe(_)
        | Plan::Explain(_) => None,
    }
}

/// Whether a plan changes rows.
pub(super) fn is_change(plan: &Plan<'_>) -> bool {
    matches!(plan, Plan::Modify(_) | Plan::Batch(_))
}

/// Whether a plan changes rows and may read others for its answer.
pub(super) fn may_read_after(plan: &Plan<'_>) -> bool {
    let (Plan::Modify(ModifyPlan { conditional, .. }) | Plan::Batch(BatchPlan { conditional, .. })) =
        plan
    else {
        return false;
    };
    conditional.as_ref().is_some_and(|conditional| conditional.may_want_first_row())
}

/// Whether a plan may take long. A read may look so and does not: an index names the few rows that it wants.
pub(super) fn takes_long(plan: &Plan<'_>, executor: &Executor) -> bool {
    is_long(plan) && !matches!(plan, Plan::Select(it) if executor.is_short_lookup(it))
}

/// Whether a plan looks as if it may take long.
fn is_long(plan: &Plan<'_>) -> bool {
    match plan {
        Plan::Select(select) => is_long_read(select),
        // They write files, or hash passwords.
        Plan::Schema(_) | Plan::Truncate(_) | Plan::Roles(_) => true,
        Plan::Modify(_) | Plan::Batch(_) | Plan::Use(_) | Plan::Describe(_) | Plan::Explain(_) => {
            false
        }
    }
}

fn is_long_read(select: &SelectPlan<'_>) -> bool {
    if select.table.is_virtual {
        return false;
    }
    let has_many_partitions = match &select.partitions {
        LogicalPartitions::Key(_) => false,
        LogicalPartitions::Keys(keys) => keys.len() > INLINE_PARTITIONS_MAX,
        LogicalPartitions::Ring(_) => true,
    };
    let is_bounded = match &select.rows {
        RowSelection::None | RowSelection::Points(_) => true,
        RowSelection::All | RowSelection::Ranges(_) => {
            let is_small = |count: Option<u32>| count.is_some_and(|count| count <= INLINE_ROWS_MAX);
            let returns_all_it_reads = select.filters.is_empty()
                && select.sort.is_none()
                && !select.selection.is_aggregate();
            returns_all_it_reads && (is_small(select.page_size) || is_small(select.limit))
        }
    };
    has_many_partitions || !select.indexes.is_empty() || !is_bounded
}

/// How long the client of a plan waits, and for what.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// What a write is called when it fails.
    pub(super) write_type: WriteType,
    /// What it waits for.
    pub(super) needs: Needs,
    started: Instant,
    /// When its client is told that it took too long.
    pub(super) until: Instant,
    /// On a thread of its own it waits for the turns of scans.
    pub(super) is_scan: bool,
    /// It waits for rows of other nodes, on a thread of its own.
    pub(super) is_elsewhere: bool,
    /// On a thread of its own it goes on without its client after this time. Others look at the time themselves.
    pub(super) leaves_after: Option<Duration>,
}

impl Patience {
    /// That of the client of a plan that began at `started`.
    pub(super) fn of(
        plan: &Plan<'_>,
        timeouts: &Timeouts,
        started: Instant,
        needs: Needs,
    ) -> Patience {
        let (write_type, timeout) = timeout_of(timeouts, plan, needs);
        Patience {
            write_type,
            needs,
            started,
            until: started + timeout,
            is_scan: matches!(plan, Plan::Select(_)),
            is_elsewhere: false,
            leaves_after: matches!(plan, Plan::Truncate(_)).then_some(timeouts.truncate),
        }
    }

    /// The same, if the statement does not say itself how long it may take.
    pub(super) fn as_said(self, statements: &[Arc<Statement>]) -> Patience {
        let said = match statements {
            [one] => one.timeout,
            _ => None,
        };
        Patience { until: said.map_or(self.until, |timeout| self.started + timeout), ..self }
    }
}

/// Whether a batch is for one logical partition.
fn has_one_key(batch: &BatchPlan) -> bool {
    let mut keys = batch.mutations.iter().map(|mutation| &mutation.key);
    let first = keys.next();
    keys.all(|key| Some(key) == first)
}

/// What a change is called in a timeout, and how long a plan may take.
fn timeout_of(timeouts: &Timeouts, plan: &Plan<'_>, needs: Needs) -> (WriteType, Duration) {
    match plan {
        Plan::Select(select) => match select.partitions {
            LogicalPartitions::Ring(_) => (WriteType::Simple, timeouts.range),
            LogicalPartitions::Key(_) | LogicalPartitions::Keys(_) => {
                (WriteType::Simple, timeouts.read)
            }
        },
        Plan::Modify(ModifyPlan { conditional: Some(_), .. })
        | Plan::Batch(BatchPlan { conditional: Some(_), .. }) => (WriteType::Cas, timeouts.cas),
        Plan::Modify(modify) if modify.is_counter => (WriteType::Counter, timeouts.counter_write),
        Plan::Modify(_) => (WriteType::Simple, timeouts.write),
        Plan::Batch(batch) => match batch.kind {
            // One mutation in Cassandra, too, which needs no log of batches.
            BatchKind::Logged | BatchKind::Unlogged if has_one_key(batch) => {
                (WriteType::Simple, timeouts.write)
            }
            // Where sets have several members, one of them decides it first: nobody knows whether it did.
            BatchKind::Logged if needs.required > 1 => (WriteType::BatchLog, timeouts.write),
            BatchKind::Logged => (WriteType::Batch, timeouts.write),
            BatchKind::Unlogged => (WriteType::UnloggedBatch, timeouts.write),
            BatchKind::Counter => (WriteType::Counter, timeouts.counter_write),
        },
        Plan::Truncate(_) => (WriteType::Simple, timeouts.truncate),
        Plan::Schema(_) | Plan::Use(_) | Plan::Roles(_) | Plan::Describe(_) | Plan::Explain(_) => {
            (WriteType::Simple, timeouts.range)
        }
    }
}
