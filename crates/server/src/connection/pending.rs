//! The requests of one connection that wait for something: all are polled by the connection's own
//! task, and only those that were woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// Something that will have an outcome.
pub(crate) type Wait<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Slots kept when nothing waits; more are given back.
const IDLE_SLOTS_MAX: usize = 16;

/// Waits, each with a tag, of which any may end first. Whoever adds to it keeps the count bounded.
pub(crate) struct Pending<G, T> {
    slots: Vec<Slot<G, T>>,
    free: Vec<usize>,
    ready: Arc<Ready>,
}

struct Slot<G, T> {
    wait: Option<(G, Wait<T>)>,
    alarm: Arc<Alarm>,
}

/// Which waits were woken, and who is to be told.
#[derive(Default)]
struct Ready {
    state: Mutex<ReadyState>,
}

#[derive(Default)]
struct ReadyState {
    woken: Vec<usize>,
    connection: Option<Waker>,
}

/// The waker of one slot. A wait that is gone may still ring it: its successor is then polled once
/// for nothing.
struct Alarm {
    index: usize,
    is_rung: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let connection = {
            let mut state = self.ready.state.lock();
            state.woken.push(self.index);
            state.connection.take()
        };
        if let Some(connection) = connection {
            connection.wake();
        }
    }
}

impl<G, T> Pending<G, T> {
    pub(crate) fn new() -> Pending<G, T> {
        Pending { slots: Vec::new(), free: Vec::new(), ready: Arc::new(Ready::default()) }
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// One more; it is polled first at the next [`Pending::poll_next`].
    pub(crate) fn add(&mut self, tag: G, wait: Wait<T>) {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.slots.len();
            let ready = Arc::clone(&self.ready);
            let alarm = Arc::new(Alarm { index, is_rung: AtomicBool::new(false), ready });
            self.slots.push(Slot { wait: None, alarm });
            index
        });
        if let Some(slot) = self.slots.get_mut(index) {
            slot.wait = Some((tag, wait));
            slot.alarm.wake_by_ref();
        }
    }

    /// The outcome of a wait that ended. Pending while none did, also when there are none.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(G, T)> {
        loop {
            let index = {
                let mut state = self.ready.state.lock();
                match state.woken.pop() {
                    Some(index) => index,
                    None => {
                        let current = cx.waker();
                        if !state.connection.as_ref().is_some_and(|old| old.will_wake(current)) {
                            state.connection = Some(current.clone());
                        }
                        return Poll::Pending;
                    }
                }
            };
            let Some(slot) = self.slots.get_mut(index) else { continue };
            // Cleared before the poll, so that whatever rings from now on is not lost.
            slot.alarm.is_rung.store(false, Ordering::Release);
            let Some((_, wait)) = &mut slot.wait else { continue };
            let waker = Waker::from(Arc::clone(&slot.alarm));
            if let Poll::Ready(outcome) = wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.free.push(index);
                if let Some((tag, _)) = slot.wait.take() {
                    return Poll::Ready((tag, outcome));
                }
            }
        }
    }

    /// Gives memory back once nothing waits.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.slots.len() > IDLE_SLOTS_MAX && self.count() == 0 {
            *self = Pending::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn whoever_ends_first_comes_first() {
        let mut pending = Pending::new();
        let mut senders = Vec::new();
        for number in 0..5 {
            let (sender, receiver) = oneshot::channel::<()>();
            senders.push(Some(sender));
            pending.add(
                number,
                Box::pin(async move {
                    let _ = receiver.await;
                    number * 10
                }),
            );
        }
        for number in [3, 0, 4, 1, 2] {
            assert!(futures_are_pending(&mut pending).await);
            senders[number].take().unwrap().send(()).unwrap();
            assert_eq!(poll_fn(|cx| pending.poll_next(cx)).await, (number, number * 10));
        }
        assert_eq!(pending.count(), 0);
        pending.shrink_if_empty();
        pending.add(7, Box::pin(async { 9 }));
        assert_eq!(poll_fn(|cx| pending.poll_next(cx)).await, (7, 9));
    }

    async fn futures_are_pending(pending: &mut Pending<usize, usize>) -> bool {
        poll_fn(|cx| Poll::Ready(pending.poll_next(cx).is_pending())).await
    }

    #[tokio::test]
    async fn outcomes_from_other_threads_wake_the_task() {
        let mut pending = Pending::new();
        for number in 0..200_u64 {
            pending.add(
                (),
                Box::pin(async move {
                    tokio::time::sleep(Duration::from_micros(number * 37 % 500)).await;
                    number
                }),
            );
        }
        let mut sum = 0;
        for _ in 0..200 {
            sum += poll_fn(|cx| pending.poll_next(cx)).await.1;
        }
        assert_eq!(sum, 199 * 100);
    }
}
