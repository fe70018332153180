//! What a call that is done came to: for its statement, and for its tables.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coordinator::{Answer, Reply};
use plan::Access;
use units::Charge;

use super::cache::Statement;
use super::engine::Inner;
use crate::reply::Failure;
use crate::world;

impl Inner {
    /// Counts what a call cost and gave. Returns how long it took, where it looked at the clock.
    pub(super) fn count(
        &self,
        statements: &[Arc<Statement>],
        charge: Charge,
        started: Instant,
        outcome: &Result<Answer, Failure>,
    ) -> Option<Duration> {
        let latency =
            outcome.as_ref().ok().and_then(|answer| self.count_tables(statements, started, answer));
        if let [statement] = statements
            && let Some(statistics) = statement.statistics.get()
            && self.charging.counts
        {
            match outcome {
                Err(failure) if failure.is_throttled() => statistics.add_throttled(),
                Ok(Answer { reply: Reply::Rows(rows), .. }) => {
                    statistics.add(charge, u64::from(rows.row_count), rows.body.len() as u64)
                }
                _ => statistics.add(charge, 0, 0),
            }
        }
        latency
    }

    /// Counts how long the tables of a call took, and what they gave.
    fn count_tables(
        &self,
        statements: &[Arc<Statement>],
        started: Instant,
        answer: &Answer,
    ) -> Option<Duration> {
        let mut measured = None;
        let mut previous = None;
        for statement in statements {
            let Some(access) = statement.access else { continue };
            let [table, others @ ..] = statement.tables() else { continue };
            // The statements of a batch are mostly about one table.
            if previous == Some(table.id) {
                continue;
            }
            previous = Some(table.id);
            let latency =
                *measured.get_or_insert_with(|| world::now().saturating_duration_since(started));
            let rows = match (&answer.reply, access) {
                (Reply::Rows(rows), Access::Read | Access::Scan) => {
                    Some((u64::from(rows.row_count), rows.tombstone_count))
                }
                _ => None,
            };
            let counters = statement.counters.get_or_init(|| self.traffic.of(table.id));
            counters.add(access, latency, rows);
            for table in others {
                self.traffic.of(table.id).add(access, latency, rows);
            }
        }
        measured
    }
}
