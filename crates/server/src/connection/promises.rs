//! The changes of one connection that wait for the log: no future and no timer for each, one wake-up
//! for all outcomes of a group.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::BytesMut;
use parking_lot::Mutex;
use replica::{AnswerTo, CommitResult, Mailbox};
use tokio::time::Sleep;

use crate::session::Effect;

/// Slots kept when nothing waits; more are given back.
const IDLE_SLOTS_MAX: usize = 16;

/// A request whose change is in the log.
pub(crate) trait Promised: Send {
    /// When its client is told that it took too long.
    fn deadline(&self) -> Instant;

    /// Appends its answer. Without an outcome it took too long.
    fn answer(self: Box<Self>, outcome: Option<CommitResult>, out: &mut BytesMut) -> Effect;
}

/// Requests with a tag each that were promised an outcome. Whoever adds to it keeps the count bounded.
pub(super) struct Promises<G> {
    slots: Vec<Slot<G>>,
    free: Vec<u32>,
    /// Numbers are never used twice, so that an outcome that comes too late finds nobody.
    serial: u32,
    inbox: Arc<Inbox>,
    mailbox: Arc<dyn Mailbox>,
    /// Outcomes that were taken from the inbox and not looked at.
    arrived: VecDeque<(u64, CommitResult)>,
    /// Rings when the first of them may have waited too long.
    alarm: Option<Pin<Box<Sleep>>>,
}

struct Slot<G> {
    number: u64,
    waiting: Option<(G, Box<dyn Promised>)>,
}

/// Where outcomes arrive, from any thread.
#[derive(Debug, Default)]
struct Inbox(Mutex<InboxState>);

#[derive(Debug, Default)]
struct InboxState {
    arrived: VecDeque<(u64, CommitResult)>,
    connection: Option<Waker>,
}

impl Mailbox for Inbox {
    fn put(&self, number: u64, result: CommitResult) -> Option<Waker> {
        let mut state = self.0.lock();
        state.arrived.push_back((number, result));
        state.connection.take()
    }
}

impl<G> Promises<G> {
    pub(super) fn new() -> Promises<G> {
        let inbox = Arc::new(Inbox::default());
        let mailbox = Arc::<Inbox>::clone(&inbox);
        Promises {
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            inbox,
            mailbox,
            arrived: VecDeque::new(),
            alarm: None,
        }
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Where the outcome of the next request goes, if it is promised one.
    pub(super) fn next(&mut self) -> AnswerTo<'_> {
        self.serial = self.serial.wrapping_add(1);
        let index = self.free.last().copied().unwrap_or(self.slots.len() as u32);
        let number = u64::from(self.serial) << 32 | u64::from(index);
        AnswerTo { mailbox: &self.mailbox, number }
    }

    /// The number that was given out last.
    fn last_number(&self) -> u64 {
        let index = self.free.last().copied().unwrap_or(self.slots.len() as u32);
        u64::from(self.serial) << 32 | u64::from(index)
    }

    /// The request that was given the last number waits for its outcome.
    pub(super) fn add(&mut self, tag: G, promised: Box<dyn Promised>) {
        let number = self.last_number();
        let at = promised.deadline();
        match &self.alarm {
            Some(alarm) if alarm.deadline().into_std() <= at => {}
            _ => self.alarm = Some(Box::pin(tokio::time::sleep_until(at.into()))),
        }
        let waiting = Some((tag, promised));
        match self.free.pop().and_then(|index| self.slots.get_mut(index as usize)) {
            Some(slot) => *slot = Slot { number, waiting },
            None => self.slots.push(Slot { number, waiting }),
        }
    }

    /// Takes what arrived; pending while nothing did.
    pub(super) fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.arrived.is_empty() {
            return Poll::Ready(());
        }
        let mut state = self.inbox.0.lock();
        if !state.arrived.is_empty() {
            std::mem::swap(&mut state.arrived, &mut self.arrived);
            return Poll::Ready(());
        }
        let current = cx.waker();
        if !state.connection.as_ref().is_some_and(|old| old.will_wake(current)) {
            state.connection = Some(current.clone());
        }
        Poll::Pending
    }

    /// The next request whose outcome arrived.
    pub(super) fn next_arrived(&mut self) -> Option<(G, Box<dyn Promised>, CommitResult)> {
        loop {
            let (number, result) = self.arrived.pop_front()?;
            let index = number as u32;
            let Some(slot) = self.slots.get_mut(index as usize) else { continue };
            if slot.number != number {
                continue;
            }
            let Some((tag, promised)) = slot.waiting.take() else { continue };
            self.free.push(index);
            return Some((tag, promised, result));
        }
    }

    /// A request that waited too long at `now`, when the alarm rang.
    pub(super) fn poll_late(
        &mut self,
        cx: &mut Context<'_>,
        now: impl FnOnce() -> Instant,
    ) -> Poll<(G, Box<dyn Promised>)> {
        let Some(alarm) = &mut self.alarm else { return Poll::Pending };
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let now = now();
        let mut first: Option<Instant> = None;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Some((_, promised)) = &slot.waiting else { continue };
            let deadline = promised.deadline();
            if deadline <= now {
                let Some(late) = slot.waiting.take() else { continue };
                self.free.push(index as u32);
                return Poll::Ready(late);
            }
            first = Some(first.map_or(deadline, |first| first.min(deadline)));
        }
        self.alarm = first.map(|at| Box::pin(tokio::time::sleep_until(at.into())));
        if let Some(alarm) = &mut self.alarm {
            // It has just been set, so this only says who is to be woken.
            let _ = alarm.as_mut().poll(cx);
        }
        Poll::Pending
    }

    /// Gives memory back once nothing waits.
    pub(super) fn shrink_if_empty(&mut self) {
        if self.slots.len() > IDLE_SLOTS_MAX && self.count() == 0 {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.arrived = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use replica::AllDone;

    use super::*;

    struct Waits(Instant);

    impl Promised for Waits {
        fn deadline(&self) -> Instant {
            self.0
        }

        fn answer(self: Box<Self>, _: Option<CommitResult>, _: &mut BytesMut) -> Effect {
            Effect::none()
        }
    }

    fn far() -> Instant {
        crate::world::now() + Duration::from_secs(3600)
    }

    #[tokio::test]
    async fn outcomes_find_their_requests_in_any_order_and_only_once() {
        let mut promises = Promises::new();
        let mut places = Vec::new();
        for tag in 0..5 {
            let to = promises.next();
            places.push((Arc::clone(to.mailbox), to.number));
            promises.add(tag, Box::new(Waits(far())));
        }
        // A number that was given out and not used: nothing waits for it.
        let unused = promises.next();
        let (mailbox, number) = (Arc::clone(unused.mailbox), unused.number);
        let _ = mailbox.put(number, Ok(AllDone::new()));
        let threads = places.clone().into_iter().map(|(mailbox, number)| {
            let put = move || {
                mailbox.put(number, Ok(AllDone::new())).into_iter().for_each(Waker::wake);
            };
            std::thread::Builder::new().spawn(put).unwrap()
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        let mut seen = Vec::new();
        while seen.len() < 5 {
            poll_fn(|cx| promises.poll_arrived(cx)).await;
            while let Some((tag, _, _)) = promises.next_arrived() {
                seen.push(tag);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!(promises.count(), 0);
        // The slot is used again; the old number is not taken for the new one.
        let fresh = promises.next().number;
        promises.add(9, Box::new(Waits(far())));
        let (mailbox, old) = &places[4];
        let _ = mailbox.put(*old, Ok(AllDone::new()));
        poll_fn(|cx| promises.poll_arrived(cx)).await;
        assert!(promises.next_arrived().is_none());
        let _ = mailbox.put(fresh, Ok(AllDone::new()));
        poll_fn(|cx| promises.poll_arrived(cx)).await;
        assert_eq!(promises.next_arrived().map(|(tag, _, _)| tag), Some(9));
    }

    #[tokio::test]
    async fn whoever_waits_too_long_is_told_and_the_others_go_on_waiting() {
        let mut promises = Promises::new();
        let start = crate::world::now();
        for (tag, milliseconds) in [(0, 50), (1, 20), (2, 90)] {
            promises.next();
            promises.add(tag, Box::new(Waits(start + Duration::from_millis(milliseconds))));
        }
        for (expected, left) in [(1, 2), (0, 1), (2, 0)] {
            let (tag, _) = poll_fn(|cx| promises.poll_late(cx, crate::world::now)).await;
            assert_eq!((tag, promises.count()), (expected, left));
        }
    }
}
