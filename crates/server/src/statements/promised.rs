//! A write that is in the log, from there to its answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use coordinator::{Answer, PendingWrite};
use replica::{CommitError, CommitResult, OutcomeReceiver, Reach};
use tokio::sync::OwnedSemaphorePermit;

use super::apart::OwnTask;
use super::call::OwnedCall;
use super::encode;
use super::engine::Inner;
use super::plans::Patience;
use crate::connection::Promised;
use crate::load::Holding;
use crate::reply::Failure;
use crate::session::{Effect, Finished};

/// A call whose outcome comes through its connection.
pub(super) struct PromisedCall {
    pub(super) inner: Arc<Inner>,
    pub(super) call: OwnedCall,
    pub(super) pending: PendingWrite,
    pub(super) patience: Patience,
    /// Its place among all that wait.
    pub(super) place: Option<OwnedSemaphorePermit>,
}

impl Promised for PromisedCall {
    fn deadline(&self) -> Instant {
        self.patience.until
    }

    fn answer(self: Box<Self>, outcome: Option<CommitResult>, out: &mut BytesMut) -> Effect {
        let PromisedCall { inner, call, pending, patience, place } = *self;
        let outcome = inner.conclude(&call, pending, patience, outcome, Reach::default());
        let effect = inner.answer(&call, outcome, out);
        drop(place);
        effect
    }
}

impl Inner {
    /// Waits for the log, then answers. For calls that did not run in the turn of their connection.
    pub(super) async fn finish(
        self: Arc<Self>,
        call: OwnedCall,
        pending: PendingWrite,
        outcome: Option<OutcomeReceiver>,
        patience: Patience,
    ) -> Finished {
        call.is_owed.set(true);
        // Its outcome would have been promised to a connection, which it has none of.
        let Some(outcome) = outcome else { return self.finished(&call, Err(Failure::Bug)) };
        let outcome = match tokio::time::timeout_at(patience.until.into(), outcome).await {
            Ok(Ok(outcome)) => Some(outcome),
            Ok(Err(_)) => Some(Err(CommitError::Closed)),
            Err(_) => None,
        };
        let read = outcome.as_ref().and_then(|outcome| pending.set_read(&self.executor, outcome));
        if let Some((set, groups)) = read.zip(self.executor.groups()) {
            // Rows that are read beside the outcome are read here, where it may not have been applied yet, or where they are.
            let is_here = groups.has_rows(set);
            if is_here && !self.confirm(&[set], patience, false).await {
                let Patience { write_type, needs, .. } = patience;
                return self.finished(&call, Err(Failure::WriteTimedOut(write_type, needs)));
            }
            let inner = Arc::clone(&self);
            let head = call.bare_head();
            let concluded = tokio::task::spawn_blocking(move || {
                let confirmed = if is_here { vec![set] } else { Vec::new() };
                let reach =
                    Reach { is_strong: true, confirmed: &confirmed, may_wait: true, trace: None };
                let outcome = inner.conclude(&call, pending, patience, outcome, reach);
                inner.finished(&call, outcome)
            });
            return OwnTask(concluded).finished(head).await;
        }
        let outcome = self.conclude(&call, pending, patience, outcome, Reach::default());
        self.finished(&call, outcome)
    }

    /// What became of a write. Without an outcome it took too long.
    fn conclude(
        &self,
        call: &OwnedCall,
        pending: PendingWrite,
        Patience { write_type, needs, .. }: Patience,
        outcome: Option<CommitResult>,
        reach: Reach<'_>,
    ) -> Result<Answer, Failure> {
        let outcome = outcome.ok_or(Failure::WriteTimedOut(write_type, needs))?;
        pending
            .finish(&self.executor, outcome, reach, &call.work)
            .map_err(|error| self.failure(error, write_type, needs))
    }

    /// The answer of a call that waited, as a message of its own.
    pub(super) fn finished(
        self: &Arc<Self>,
        call: &OwnedCall,
        outcome: Result<Answer, Failure>,
    ) -> Finished {
        let mut message = BytesMut::new();
        // It is there when its connection takes it.
        let effect = Effect { latency: None, ..self.answer(call, outcome, &mut message) };
        let mut finished = Finished::new(message, effect);
        finished.holding = Holding::of(&self.load, finished.message.capacity());
        finished
    }

    /// Appends the answer of a call that waited, and accounts for it.
    fn answer(
        self: &Arc<Self>,
        call: &OwnedCall,
        outcome: Result<Answer, Failure>,
        out: &mut BytesMut,
    ) -> Effect {
        let to = call.addressee();
        let effect = encode::answer(&to, &outcome, out);
        let latency = self.count(&to, call.client(), call.started, &outcome);
        call.is_owed.set(false);
        if call.trace.is_some() {
            let kept = call.with(|call| {
                self.traces.keep(&call);
                Ok(())
            });
            if let Err(failure) = kept {
                tracing::warn!(?failure, "a trace is not kept: its request cannot be read again");
            }
        }
        Effect { latency, ..effect }
    }
}
