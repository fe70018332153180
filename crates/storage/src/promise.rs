//! Telling many callers what became of their changes, without a channel for each.
//!
//! A caller with many changes under way gives each a number and one [`Mailbox`] for all. When a group
//! is durable and applied its outcomes are put there, and the caller is woken once.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use crate::commit::CommitResult;
use crate::error::CommitError;

/// Takes the outcomes of changes.
pub trait Mailbox: Send + Sync + fmt::Debug {
    /// What became of the change with that number. Gives back who is to be woken, if somebody waits;
    /// that is done once for all outcomes of a group.
    fn put(&self, number: u64, result: CommitResult) -> Option<Waker>;
}

/// Where the outcome of a change is wanted.
#[derive(Clone, Copy, Debug)]
pub struct AnswerTo<'a> {
    /// Whose.
    pub mailbox: &'a Arc<dyn Mailbox>,
    /// Which of its changes.
    pub number: u64,
}

/// That an outcome will be put into a mailbox: also when the change is dropped on its way.
#[derive(Debug)]
pub(crate) struct Promise {
    mailbox: Arc<dyn Mailbox>,
    number: u64,
    is_kept: bool,
}

impl Promise {
    pub(crate) fn new(answer_to: AnswerTo<'_>) -> Promise {
        let AnswerTo { mailbox, number } = answer_to;
        Promise { mailbox: Arc::clone(mailbox), number, is_kept: false }
    }

    fn keep(mut self, result: CommitResult) -> Option<Waker> {
        self.is_kept = true;
        self.mailbox.put(self.number, result)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.is_kept
            && let Some(waker) = self.mailbox.put(self.number, Err(CommitError::Closed))
        {
            waker.wake();
        }
    }
}

/// Who is told what became of a change.
#[derive(Debug)]
pub(crate) enum Reply {
    Channel(oneshot::Sender<CommitResult>),
    Mailbox(Promise),
    /// Whoever appended it waits for something else.
    Nobody,
}

impl Reply {
    /// Tells it. Who is to be woken for it comes back.
    pub(crate) fn send(self, result: CommitResult) -> Option<Waker> {
        match self {
            Reply::Channel(channel) => {
                // Who asked may be gone; the change is committed all the same.
                let _ = channel.send(result);
                None
            }
            Reply::Mailbox(promise) => promise.keep(result),
            Reply::Nobody => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::commit::AllDone;

    #[derive(Debug, Default)]
    struct Letters(Mutex<Vec<(u64, bool)>>);

    impl Mailbox for Letters {
        fn put(&self, number: u64, result: CommitResult) -> Option<Waker> {
            self.0.lock().push((number, result.is_ok()));
            None
        }
    }

    #[test]
    fn an_outcome_comes_once_whatever_happens() {
        let letters = Arc::new(Letters::default());
        let mailbox: Arc<dyn Mailbox> = Arc::<Letters>::clone(&letters);
        let promise = |number| Promise::new(AnswerTo { mailbox: &mailbox, number });
        let _ = Reply::Mailbox(promise(7)).send(Ok(AllDone::new()));
        drop(Reply::Mailbox(promise(8)));
        assert_eq!(*letters.0.lock(), [(7, true), (8, false)]);
    }
}
