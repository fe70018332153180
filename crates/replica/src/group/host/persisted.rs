//! What of a host's appends is durable, told by the log.

use std::sync::Arc;

use parking_lot::Mutex;

/// Turns whose appends became durable.
#[derive(Clone, Debug, Default)]
pub(in crate::group) struct Persisted(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    /// The last of them that the members do not know of yet.
    turn: Option<u64>,
    /// The log will not write any more.
    has_failed: bool,
    /// So many have the log written just now, and look here when they did.
    lookers: usize,
}

impl Persisted {
    /// What a turn appended is durable, or never will be. Whether somebody looks here soon; else the members' thread is to be woken.
    pub(super) fn note(&self, turn: u64, is_durable: bool) -> bool {
        let mut told = self.0.lock();
        match is_durable {
            true => told.turn = told.turn.max(Some(turn)),
            false => told.has_failed = true,
        }
        is_durable && told.lookers > 0
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }

    pub(super) fn take(&self) -> Option<u64> {
        self.0.lock().turn.take()
    }

    /// Has the log written; whether something is durable by then that the members do not know of yet.
    pub(in crate::group) fn look_after(&self, write: impl FnOnce()) -> bool {
        self.0.lock().lookers += 1;
        let looker = Looker(self);
        write();
        drop(looker);
        self.0.lock().turn.is_some()
    }
}

/// Whoever comes by here no more, also by a panic, is not counted on.
struct Looker<'p>(&'p Persisted);

impl Drop for Looker<'_> {
    fn drop(&mut self) {
        self.0.0.lock().lookers -= 1;
    }
}
