//! Calls that nothing was done for, because there is no room for them now: held back with what their clients send
//! behind them, or refused.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use coordinator::{ExecuteError, Executor};
use replica::Busy;
use tokio::sync::OwnedSemaphorePermit;

use super::call::Call;
use super::engine::Inner;
use crate::load::Overload;
use crate::reply::Failure;
use crate::session::Step;
use crate::world;

impl Inner {
    /// Why a request is refused when the node has too much to do.
    pub(super) fn too_much(&self, overload: Overload) -> Failure {
        let wait = self.load.refuse();
        if self.is_cosmos {
            return Failure::Execute(ExecuteError::Throttled(wait));
        }
        let (held_bytes, held_bytes_max) = (self.load.held_bytes(), self.load.held_bytes_max());
        Failure::Overloaded { overload, held_bytes, held_bytes_max }
    }

    /// A place among all that wait, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.waiting).try_acquire_owned().ok()
    }

    /// A call that may not wait because too many do: it is held back until there is a place, as long as a change may
    /// take.
    #[cold]
    pub(super) fn without_place(&self, call: &Call<'_>, throws: bool, out: &mut BytesMut) -> Step {
        let until = call.started + self.timeouts.write;
        if throws || world::now() >= until {
            let overload = if throws { Overload::Memory } else { Overload::Time };
            return self.refused(call, &self.too_much(overload), out);
        }
        let place = Arc::clone(&self.waiting).acquire_owned();
        Step::HeldBack(Box::pin(async move {
            tokio::time::timeout_at(until.into(), place).await.ok()?.ok()
        }))
    }
}

/// Waits until a write that there was no room for may be tried again, or its time is up.
pub(super) async fn wait_for_room(executor: &Executor, busy: Busy, until: Instant) {
    match busy {
        Busy::Slow(time) => tokio::time::sleep(time).await,
        busy => {
            let _ = tokio::time::timeout_at(until.into(), executor.room(busy)).await;
        }
    }
}
