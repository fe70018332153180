//! What becomes of a change that there is no room for: in memory, or in the log's buffer.
//!
//! Threads of storage's own may wait for room. A thread that serves many others may not: it gets the change back as
//! [`Busy`] and comes again when [`crate::Storage::room`] says so.

use std::sync::Arc;
use std::time::Duration;

use crate::error::CommitError;
use crate::storage::Storage;

/// Why a change was not taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// So much waits to be sorted into files that writers are slowed down: after this time it is taken.
    Slow(Duration),
    /// Memory is full of what is not yet in sorted files.
    Memory,
    /// A record of so many bytes does not fit into the log now.
    Log(usize),
}

/// What a commit does that there is no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutRoom {
    /// It waits. Not for threads that serve others.
    Waits,
    /// It comes back as [`crate::Committed::Busy`].
    ComesBack {
        /// It was slowed down already, and is only held back where nothing fits at all.
        was_slowed: bool,
    },
}

impl Storage {
    /// Whether memory has no room for a change now. Asked before anything is done for it.
    #[inline]
    pub fn busy(&self, without_room: WithoutRoom) -> Result<Option<Busy>, CommitError> {
        match without_room {
            WithoutRoom::Waits => Ok(None),
            WithoutRoom::ComesBack { was_slowed } => self.core.pressure.try_admit(was_slowed),
        }
    }

    /// Waits until it is worth to try again. [`Busy::Slow`] is a matter of time, which the caller knows better.
    pub fn room(&self, busy: Busy) -> impl Future<Output = ()> + Send + use<> {
        let (core, log) = (Arc::clone(&self.core), Arc::clone(&self.log));
        async move {
            match busy {
                Busy::Slow(_) => {}
                Busy::Memory => core.pressure.room().await,
                Busy::Log(bytes) => log.room(bytes).await,
            }
        }
    }
}
