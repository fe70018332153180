//! What an engine shows of itself, to tables and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schema::system::StatementFacts;

use super::cache::Statement;
use super::engine::{Engine, SCANS_BEGUN_MAX};
use super::running::RunningQuery;
use super::slow::SlowStatement;
use super::table_counters::Traffic;
use crate::auth::Logins;
use crate::world;

/// What came of logins, limits, guardrails and the audit log since the start.
pub(crate) struct People {
    pub(crate) logins: Logins,
    /// Warnings and refusals.
    pub(crate) guardrails: (u64, u64),
    /// Sessions and statements.
    pub(crate) refused: (u64, u64),
    /// Entries that were written and that were lost, if there is an audit log.
    pub(crate) audit: Option<(u64, u64)>,
}

impl Engine {
    /// What people did, as far as it is counted.
    pub(crate) fn people(&self) -> People {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counted = &self.0.guarded;
        People {
            logins: self.0.gate.logins(),
            guardrails: (read(&counted.warnings), read(&counted.refusals)),
            refused: self.0.seats.refused(),
            audit: self.0.audit.as_ref().map(|audit| {
                let counts = audit.counts();
                (read(&counts.written), read(&counts.lost))
            }),
        }
    }

    /// Writes what the audit log still has to say, and ends it.
    pub(crate) fn close_audit(&self) {
        if let Some(audit) = &self.0.audit {
            audit.close();
        }
    }

    /// The statements that are prepared.
    pub(super) fn prepared(&self) -> Vec<Arc<Statement>> {
        self.0.prepared.all()
    }

    /// What the prepared statements cost.
    pub(crate) fn statement_facts(&self) -> Vec<StatementFacts> {
        let facts = |statement: Arc<Statement>| {
            let totals = statement.statistics.get()?.totals();
            Some(StatementFacts {
                id: u128::from_be_bytes(statement.plan.id),
                text: statement.shown_text().into_owned(),
                calls: totals.calls,
                charge_total: totals.charge.to_f64(),
                charge_average: totals.charge.to_f64() / totals.calls.max(1) as f64,
                charge_p99: totals.charge_p99.to_f64(),
                rows: totals.rows,
                bytes: totals.bytes,
                throttled: totals.throttled,
            })
        };
        self.0.prepared.all().into_iter().filter_map(facts).collect()
    }

    /// Request units that were spent since the start, and requests that were refused because their budget was.
    pub(crate) fn spent(&self) -> (f64, u64) {
        self.0.spent.totals()
    }

    /// Statements that took long or cost much lately.
    pub(crate) fn slow_statements(&self) -> Vec<SlowStatement> {
        self.0.slow.list()
    }

    /// Spans that were sent, and those that were lost, if somebody collects them.
    pub(crate) fn span_counts(&self) -> Option<(u64, u64)> {
        self.0.tracer.as_ref().map(|tracer| tracer.counts())
    }

    /// How many there were since the start.
    pub(crate) fn slow_count(&self) -> u64 {
        self.0.slow.count()
    }

    /// What requests came to, table by table.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.0.traffic
    }

    /// The requests that run now, but for those that are over in the turn of their connection.
    pub(crate) fn running(&self) -> Vec<RunningQuery> {
        self.0.running.list(world::now())
    }

    /// Works out the rates of requests; to be called every [`TICK`](super::TICK).
    pub(crate) fn tick(&self) {
        let schema = self.0.executor.schema();
        self.0.traffic.tick(|table| schema.table_by_id(table).is_some());
    }

    /// Requests that wait, and how many may.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let max = self.0.waiting_max;
        (max.saturating_sub(self.0.waiting.available_permits()), max)
    }

    /// Long reads that have a turn, how many may, and how many wait for one.
    pub(crate) fn scanning(&self) -> (usize, usize, usize) {
        let max = self.0.scans_max;
        let turns = max.saturating_sub(self.0.scans.available_permits());
        let begun = SCANS_BEGUN_MAX.saturating_sub(self.0.scans_begun.available_permits());
        (turns, max, begun.saturating_sub(turns))
    }

    /// Prepared statements that had to go.
    pub(crate) fn evicted_count(&self) -> u64 {
        self.0.prepared.evicted_count()
    }

    /// Prepared statements kept.
    pub(crate) fn prepared_count(&self) -> usize {
        self.0.prepared.count()
    }
}
