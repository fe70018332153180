//! What a call that is done came to: for its statement, and for its tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coordinator::{Answer, Reply};
use plan::Access;
use units::Charge;

use super::audited;
use super::cache::Statement;
use super::call::Addressee;
use super::engine::Inner;
use super::slow::{SlowStatement, without_values};
use crate::metrics::error_name;
use crate::reply::Failure;
use crate::session::Client;
use crate::spans::{Ended, TracedCall};
use crate::world;

/// Threads count in different places, so that they do not wait for each other's memory.
const SHARDS: usize = 4;

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// What all requests cost together since the start.
#[derive(Default)]
pub(super) struct Spent {
    shards: [SpentShard; SHARDS],
    throttled: AtomicU64,
}

/// What some threads counted; on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct SpentShard(AtomicU64);

impl Spent {
    fn add(&self, charge: Charge) {
        if let Some(shard) = self.shards.get(SHARD.with(|shard| *shard)) {
            shard.0.fetch_add(charge.micros(), Ordering::Relaxed);
        }
    }

    fn add_throttled(&self) {
        self.throttled.fetch_add(1, Ordering::Relaxed);
    }

    /// Request units, and requests that were refused because their budget was spent.
    pub(super) fn totals(&self) -> (f64, u64) {
        let micros: u64 = self.shards.iter().map(|it| it.0.load(Ordering::Relaxed)).sum();
        (Charge::from_micros(micros).to_f64(), self.throttled.load(Ordering::Relaxed))
    }
}

impl Inner {
    /// Counts what a call cost and gave. Returns how long it took, where it looked at the clock.
    pub(super) fn count(
        &self,
        to: &Addressee<'_>,
        client: &Client,
        started: Instant,
        outcome: &Result<Answer, Failure>,
    ) -> Option<Duration> {
        let (statements, charge) = (to.statements, to.charge);
        let latency =
            outcome.as_ref().ok().and_then(|answer| self.count_tables(statements, started, answer));
        if self.charging.counts {
            match outcome {
                Err(failure) if failure.is_throttled() => self.spent.add_throttled(),
                _ => self.spent.add(charge),
            }
        }
        // One that failed was not measured, and may have failed because it took too long.
        let took = match outcome {
            Ok(_) => latency.unwrap_or_default(),
            Err(_) => world::now().saturating_duration_since(started),
        };
        if let Some(reason) = self.slow.reason(took, charge) {
            self.tell_slow(reason, to, client, took, outcome);
        }
        if to.traced.is_some() | self.audit.is_some() {
            self.tell_watchers(to, client, started, outcome);
        }
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

    /// Tells those who collect spans, and those who keep who did what.
    #[cold]
    fn tell_watchers(
        &self,
        to: &Addressee<'_>,
        client: &Client,
        started: Instant,
        outcome: &Result<Answer, Failure>,
    ) {
        let _log = to.traced.map(|traced| traced.log_span().entered());
        if let Some(traced) = to.traced {
            end_spans(traced, to, client, started, outcome);
        }
        if let Some(audit) = &self.audit {
            let failure = outcome.as_ref().err().map(|failure| (failure, to.consistency));
            audited::call(audit, client, to.statements, failure);
        }
    }

    /// Tells of a call that took long or cost much.
    #[cold]
    fn tell_slow(
        &self,
        reason: &'static str,
        to: &Addressee<'_>,
        client: &Client,
        took: Duration,
        outcome: &Result<Answer, Failure>,
    ) {
        let _log = to.traced.map(|traced| traced.log_span().entered());
        let table = to.statements.iter().find_map(|statement| statement.tables().first());
        let one = match to.statements {
            [one] => Some(one),
            _ => None,
        };
        let slow = SlowStatement {
            number: 0,
            at_ms: world::now_us() / 1000,
            reason,
            took,
            charge: to.charge,
            rows: match outcome {
                Ok(Answer { reply: Reply::Rows(rows), .. }) => u64::from(rows.row_count),
                _ => 0,
            },
            error: outcome
                .as_ref()
                .err()
                .map(|failure| error_name(failure.response(to.consistency).kind.code())),
            client: client.address.ip().to_canonical(),
            role: client.role.clone(),
            table: table.map(|table| format!("{}.{}", table.keyspace, table.name)),
            keyspace: one.and_then(|statement| statement.plan.keyspace.clone()),
            is_explainable: one.is_some_and(|statement| statement.access.is_some()),
            text: String::new(),
        };
        self.slow.add(slow, to.statements.iter().map(|statement| statement.shown_text()));
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

/// A call that is traced is answered.
fn end_spans(
    traced: &TracedCall,
    to: &Addressee<'_>,
    client: &Client,
    started: Instant,
    outcome: &Result<Answer, Failure>,
) {
    let table = to.statements.iter().find_map(|statement| statement.tables().first());
    traced.end(Ended {
        took: world::now().saturating_duration_since(started),
        client: client.address.ip().to_canonical(),
        table: table.map(|table| (&*table.keyspace, &*table.name)),
        text: to.statements.first().map(|statement| without_values(&statement.text)),
        charge: to.charge.to_f64(),
        rows: match outcome {
            Ok(Answer { reply: Reply::Rows(rows), .. }) => Some(u64::from(rows.row_count)),
            _ => None,
        },
        error: outcome
            .as_ref()
            .err()
            .map(|failure| error_name(failure.response(to.consistency).kind.code())),
    });
}
