//! A change that is in the log, from there to its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use coordinator::{Answer, Reply};
use protocol::WriteType;
use replica::{CommitError, CommitResult, OutcomeReceiver, Ticket};
use tokio::sync::OwnedSemaphorePermit;

use super::call::OwnedCall;
use super::encode;
use super::engine::Inner;
use crate::connection::Promised;
use crate::reply::Failure;
use crate::session::{Effect, Finished};

/// What is known about a change besides its outcome.
pub(super) struct Logged {
    pub(super) ticket: Ticket,
    pub(super) warnings: Vec<String>,
    pub(super) write_type: WriteType,
    pub(super) timeout: Duration,
}

/// A call whose outcome comes through its connection.
pub(super) struct PromisedCall {
    pub(super) inner: Arc<Inner>,
    pub(super) call: OwnedCall,
    pub(super) logged: Logged,
    /// Its place among all that wait.
    pub(super) place: Option<OwnedSemaphorePermit>,
}

impl Promised for PromisedCall {
    fn deadline(&self) -> Instant {
        self.call.started + self.logged.timeout
    }

    fn answer(self: Box<Self>, outcome: Option<CommitResult>, out: &mut BytesMut) -> Effect {
        let PromisedCall { inner, call, logged, place } = *self;
        let effect = inner.conclude(&call, logged, outcome, out);
        drop(place);
        effect
    }
}

impl Inner {
    /// Waits for the log, then answers. For calls that did not run in the turn of their connection.
    pub(super) async fn finish(
        self: Arc<Self>,
        call: OwnedCall,
        outcome: OutcomeReceiver,
        logged: Logged,
    ) -> Finished {
        let outcome = match tokio::time::timeout(logged.timeout, outcome).await {
            Ok(Ok(outcome)) => Some(outcome),
            Ok(Err(_)) => Some(Err(CommitError::Closed)),
            Err(_) => None,
        };
        let mut message = BytesMut::new();
        let effect = self.conclude(&call, logged, outcome, &mut message);
        Finished::new(message, effect)
    }

    /// Appends the answer to a change. Without an outcome it took too long.
    fn conclude(
        self: &Arc<Self>,
        call: &OwnedCall,
        logged: Logged,
        outcome: Option<CommitResult>,
        out: &mut BytesMut,
    ) -> Effect {
        let Logged { ticket, warnings, write_type, timeout: _ } = logged;
        let outcome = match outcome {
            Some(outcome) => outcome.map_err(|error| Failure::Write(error, write_type)),
            None => Err(Failure::WriteTimedOut(write_type)),
        };
        if let Ok(done) = &outcome {
            let mut work = call.work.get();
            work.written += replica::charge_of(done);
            call.work.set(work);
            self.coordinator.settle_writes(ticket, done);
            if write_type != WriteType::Cas && call.trace.is_none() {
                self.add_statistics(call.only_statement(), call.charge());
                call.put_void(&warnings, out);
                return Effect::none();
            }
        }
        let answer = outcome.and_then(|outcomes| match write_type {
            WriteType::Cas => {
                let reply = Reply::Rows(call.with(|call| self.conditional_rows(&call, &outcomes))?);
                Ok(Answer { reply, warnings })
            }
            _ => Ok(Answer { reply: Reply::Void, warnings }),
        });
        let effect = call.with(|call| {
            self.settle(&call, &answer);
            Ok(encode::answer(&call, answer, out))
        });
        effect.unwrap_or_default()
    }
}
