//! Calls that take long, on threads of their own.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use coordinator::{ExecuteError, Executed};
use protocol::ResponseHead;
use tokio::task::JoinHandle;

use super::bounds::{Abandon, OwnThread};
use super::call::{OwnedCall, Unheard};
use super::engine::{Inner, Pace, Ran};
use super::plans::Patience;
use super::running::{Shown, task_of};
use crate::reply::Failure;
use crate::session::{Effect, Finished};
use crate::world;

/// A read whose rows went elsewhere meanwhile begins anew so often at once, and then after a pause.
const ANEW_AT_ONCE_MAX: usize = 3;
/// So long the map of this node may take to know of a split.
const ANEW_PAUSE: Duration = Duration::from_millis(10);

/// A call that runs in a task of its own; given up when its client is gone.
pub(super) struct OwnTask(pub(super) JoinHandle<Finished>);

impl OwnTask {
    pub(super) async fn finished(mut self, head: ResponseHead<'static>) -> Finished {
        match (&mut self.0).await {
            Ok(finished) => finished,
            Err(_) => {
                let mut message = BytesMut::new();
                let error = Failure::Bug.response(protocol::Consistency::One);
                let effect = Effect::error(&head, &error, &mut message);
                Finished::new(message, effect)
            }
        }
    }
}

impl Drop for OwnTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Inner {
    /// Shows a call among those that run; for as long as what comes back is there.
    pub(super) fn show(&self, call: &OwnedCall) -> Shown {
        let task = call.with(|call| Ok(task_of(&call))).unwrap_or_default();
        self.running.show(task, call.started)
    }

    /// Runs a call that takes long on a thread of its own.
    pub(super) async fn run_apart(
        self: Arc<Self>,
        call: OwnedCall,
        patience: Patience,
    ) -> Finished {
        let abandon = Abandon::default();
        let shown = self.show(&call);
        // Reads of other nodes' rows leave threads for everything else.
        let mut elsewhere = None;
        if patience.is_elsewhere {
            let begin = Arc::clone(&self.elsewhere).acquire_owned();
            let Ok(Ok(begin)) = tokio::time::timeout_at(patience.until.into(), begin).await else {
                return self.finished(&call, Err(Failure::ReadTimedOut(patience.needs)));
            };
            elsewhere = Some(begin);
        }
        // Scans wait for each other, so that they leave room for everything else.
        let (mut scan, mut begun) = (None, None);
        if patience.is_scan {
            let begin = Arc::clone(&self.scans_begun).acquire_owned();
            let turn = Arc::clone(&self.scans).acquire_owned();
            let both = async { Some((begin.await.ok()?, turn.await.ok()?)) };
            let Ok(Some((begin, turn))) =
                tokio::time::timeout_at(patience.until.into(), both).await
            else {
                return self.finished(&call, Err(Failure::ReadTimedOut(patience.needs)));
            };
            (begun, scan) = (Some(begin), Some((Arc::clone(&self.scans), turn)));
        }
        // Held until the answer is there and counted: so that few are on their way at once.
        let thread = OwnThread::new(&self.load, Arc::clone(&abandon.0), scan);
        let inner = Arc::clone(&self);
        let head = call.bare_head();
        let waits = self.waits_for_budget(call.statements());
        let ran = tokio::task::spawn_blocking(move || {
            shown.begin();
            let schema = inner.executor.schema();
            let run =
                |call: &OwnedCall| call.with(|call| inner.run(&call, &schema, Pace::Own(&thread)));
            let unheard = Unheard::run(call, |call| {
                let mut ran = run(call);
                // Rows that were here went elsewhere while they were read: it begins anew.
                let mut times = 0;
                while matches!(&ran, Ok(Ran { executed: Executed::TooLong, .. }))
                    && world::now() < patience.until
                {
                    times += 1;
                    if times > ANEW_AT_ONCE_MAX {
                        std::thread::sleep(ANEW_PAUSE);
                    }
                    call.confirmed.clear();
                    ran = run(call);
                }
                ran
            });
            drop(shown);
            (unheard, thread)
        });
        let ran = match patience.leaves_after {
            Some(wait) => match tokio::time::timeout(wait, ran).await {
                Ok(ran) => ran,
                // What was begun goes on; the client is told that nobody waits for it.
                Err(_) => {
                    let mut message = BytesMut::new();
                    let error = Failure::TruncateTimedOut.response(protocol::Consistency::One);
                    let effect = Effect::error(&head, &error, &mut message);
                    return Finished::new(message, effect);
                }
            },
            None => ran.await,
        };
        let heard = ran.ok().and_then(|(unheard, thread)| Some((unheard.take()?, thread)));
        let Some(((call, ran), thread)) = heard else {
            // It panicked there, which is a bug; the others of this client go on.
            let mut message = BytesMut::new();
            let error = Failure::Bug.response(protocol::Consistency::One);
            let effect = Effect::error(&head, &error, &mut message);
            return Finished::new(message, effect);
        };
        drop((abandon, elsewhere));
        match ran {
            Ok(Ran { executed: Executed::Pending(pending, outcome), patience }) => {
                self.finish(call, pending, outcome, patience).await
            }
            Ok(Ran { executed: Executed::Done(answer), .. }) => self.finished(&call, Ok(answer)),
            Ok(Ran { executed: Executed::TooLong, patience }) => {
                self.finished(&call, Err(Failure::ReadTimedOut(patience.needs)))
            }
            Ok(Ran { executed: Executed::NoRoom(_) | Executed::Elsewhere, .. }) => {
                self.finished(&call, Err(Failure::Bug))
            }
            Err(Failure::Execute(ExecuteError::Throttled(wait))) if waits => {
                drop((thread, begun));
                Box::pin(self.wait_for_budget(call, wait)).await
            }
            Err(failure) => self.finished(&call, Err(failure)),
        }
    }
}
