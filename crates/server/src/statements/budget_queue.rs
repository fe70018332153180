//! Server-side retry: a request whose budget is spent waits here instead of being refused.
//!
//! Its place is the promise it got from the budget, which is fair between clients and first come, first
//! served within one. It holds no thread and does not keep other requests of its connection waiting.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{ExecuteError, Executed};
use plan::Plan;
use replica::budgets::SERVER_WAIT_MAX;

use super::cache::Statement;
use super::call::{Call, OwnedCall};
use super::engine::{Inner, Pace, Ran};
use super::held_back;
use super::plans::Patience;
use crate::reply::Failure;
use crate::session::Finished;
use crate::world;

impl Inner {
    /// Whether a call waits on the server when its budget is spent.
    pub(super) fn waits_for_budget(&self, statements: &[Arc<Statement>]) -> bool {
        let of_tables = statements.first().and_then(|statement| statement.keyspace());
        of_tables.is_some_and(|keyspace| self.charging.retries.includes(keyspace))
    }

    /// Waits until the budget has what the call was promised, then runs it; a minute at most.
    pub(super) async fn wait_for_budget(
        self: Arc<Self>,
        mut call: OwnedCall,
        wait: Duration,
    ) -> Finished {
        let Ok(_place) = Arc::clone(&self.waiting_for_budget).try_acquire_owned() else {
            return self.finished(&call, Err(Failure::Execute(ExecuteError::Throttled(wait))));
        };
        let shown = self.show(&call);
        if wait > SERVER_WAIT_MAX {
            tokio::time::sleep(SERVER_WAIT_MAX).await;
            let failure = call.with(|call| self.timed_out(&call)).unwrap_or_else(|failure| failure);
            return self.finished(&call, Err(failure));
        }
        tokio::time::sleep(wait).await;
        call.has_waited = true;
        let mut waited = wait;
        call.started = world::now();
        let ran = loop {
            let schema = self.executor.schema();
            let ran = call.with(|call| self.run(&call, &schema, Pace::Inline));
            drop(schema);
            match ran {
                Ok(Ran { executed: Executed::NoRoom(busy), patience }) => {
                    held_back::wait_for_room(&self.executor, busy, patience.until).await;
                    call.was_slowed = true;
                }
                // Other nodes spent what this one counted on.
                Err(Failure::Execute(ExecuteError::Throttled(more)))
                    if waited + more <= SERVER_WAIT_MAX =>
                {
                    waited += more;
                    tokio::time::sleep(more).await;
                    call.started = world::now();
                }
                ran => break ran,
            }
        };
        drop(shown);
        match ran {
            Ok(Ran { executed, patience }) => match executed {
                Executed::Done(answer) => self.finished(&call, Ok(answer)),
                Executed::Pending(pending, outcome) => {
                    self.finish(call, pending, outcome, patience).await
                }
                Executed::TooLong => self.run_apart(call, patience).await,
                Executed::NoRoom(_) | Executed::Elsewhere => {
                    self.finished(&call, Err(Failure::Bug))
                }
            },
            Err(failure) => self.finished(&call, Err(failure)),
        }
    }

    /// What a client is told whose request waited for a minute.
    fn timed_out(&self, call: &Call<'_>) -> Result<Failure, Failure> {
        self.with_plan(call, None, |plan, _| {
            let Some(parameters) = call.parameters() else { return Err(Failure::Bug) };
            let needs = self.needs(&plan, parameters);
            Ok(match &plan {
                Plan::Select(_) => Failure::ReadTimedOut(needs),
                plan => {
                    let patience = Patience::of(plan, &self.timeouts, call.started, needs);
                    Failure::WriteTimedOut(patience.write_type, needs)
                }
            })
        })
    }
}
