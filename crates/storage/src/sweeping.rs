//! Old deletions of sets with several members: their leaders propose that they go, part by part, so that they go at the same place
//! of the log everywhere. Here it is noted what is to be proposed; who leads takes it, and the others drop theirs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use types::{RingToken, SetId};

use crate::entry::{EntryBody, EntryKind, Sweep};
use crate::storage::Storage;
use crate::tree::sweep::next_sweep;

/// So many parts of sweeps wait at most; what finds no room is found again by the next purge.
pub(crate) const SWEEPS_WAITING_MAX: usize = 1024;

/// A part of a sweep that the leader of its set is to propose.
#[derive(Clone, Debug)]
pub struct WantedSweep {
    /// Which set.
    pub set: SetId,
    /// Where its logical partition lies on the ring.
    pub ring: RingToken,
    /// The kind of the entry.
    pub kind: u8,
    /// Its body.
    pub body: Bytes,
}

/// What waits for leaders.
#[derive(Debug, Default)]
pub(crate) struct WantedSweeps {
    waiting: Mutex<VecDeque<WantedSweep>>,
    taken: Condvar,
    are_proposed: AtomicBool,
}

impl WantedSweeps {
    /// Whether this node is one of several: nothing is swept by entries of its own.
    pub(crate) fn are_proposed(&self) -> bool {
        self.are_proposed.load(Ordering::Acquire)
    }

    /// Notes a part, if there is room for it within that time.
    pub(crate) fn add(&self, set: SetId, ring: RingToken, sweep: Sweep, within: Duration) {
        let mut waiting = self.waiting.lock();
        let is_full = |waiting: &mut VecDeque<WantedSweep>| waiting.len() >= SWEEPS_WAITING_MAX;
        if !within.is_zero() {
            self.taken.wait_while_for(&mut waiting, is_full, within);
        }
        if is_full(&mut waiting) {
            return;
        }
        let mut body = Vec::new();
        EntryBody::Sweep(Box::new(sweep)).encode(&mut body);
        let (kind, body) = (EntryKind::Sweep as u8, Bytes::from(body));
        waiting.push_back(WantedSweep { set, ring, kind, body });
    }
}

impl Storage {
    /// From now on this node is one of several, and leaders propose what is swept.
    pub fn propose_sweeps(&self) {
        self.core.sweeps.are_proposed.store(true, Ordering::Release);
    }

    /// The next part of a sweep that is to be proposed.
    pub fn take_sweep(&self) -> Option<WantedSweep> {
        let taken = self.core.sweeps.waiting.lock().pop_front();
        if taken.is_some() {
            self.core.sweeps.taken.notify_one();
        }
        taken
    }

    /// Whoever leads applied an entry: if it was a part of a sweep, the next part is due. Never before: the last part takes the
    /// deletions away, and what they cover must be gone by then.
    pub fn sweep_on(&self, set: SetId, kind: u8, body: &Bytes) {
        if kind != EntryKind::Sweep as u8 {
            return;
        }
        let Ok(EntryBody::Sweep(done)) = EntryBody::decode(kind, body.clone()) else { return };
        let Some(from) = done.to.clone() else { return };
        let Some(ring) = ring_of(&done.prefix) else { return };
        let Some(store) = self.core.store(done.table) else { return };
        let Some(opened) = store.if_open() else { return };
        match next_sweep(done.table, opened, done.horizon_s, &done.prefix, from) {
            Ok(Some(next)) => self.core.sweeps.add(set, ring, next, Duration::ZERO),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(table = %done.table, %error, "old deletions could not be looked at");
            }
        }
    }
}

/// Where a logical partition lies, by the start of its keys.
pub(crate) fn ring_of(prefix: &[u8]) -> Option<RingToken> {
    prefix.first_chunk::<16>().map(|bytes| RingToken(u128::from_be_bytes(*bytes)))
}
