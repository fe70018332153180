//! Leases (D12): who heard a leader votes for nobody else for a while, so a leader that a quorum heard may answer strong reads by
//! itself, without asking anybody. What a lease rests on is in `member/lease.rs`; here is what those who read look at.
//!
//! A read is as of the moment at which it looked here. The lease was good then: whoever led it takes it back before it says anything
//! that lets another one lead, or that something is committed which is not applied here, and the clock is looked at after the lease.
//! So whatever a reader sees afterwards is new enough.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use types::SetId;

/// The lease of one member.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// It ends at this millisecond of the node's steady clock; zero for none.
    until_ms: AtomicU64,
    /// Somebody read under it since it was last looked.
    is_used: AtomicBool,
}

impl Lease {
    /// Whether a read may be answered now. `now_ms` is asked after the lease was looked at.
    fn is_good(&self, now_ms: impl FnOnce() -> u64) -> bool {
        let until_ms = self.until_ms.load(Ordering::Acquire);
        if until_ms == 0 {
            return false;
        }
        // Most often it is known already, and nobody has to write.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        now_ms() < until_ms
    }

    pub(crate) fn set(&self, until_ms: u64) {
        if self.until_ms.load(Ordering::Relaxed) != until_ms {
            self.until_ms.store(until_ms, Ordering::Release);
        }
    }

    /// Whether it is shown to those who read, even if it ended meanwhile.
    pub(crate) fn is_shown(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Whether somebody read under it since it was last renewed.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Whether it was used since this was last asked.
    pub(crate) fn take_use(&self) -> bool {
        self.is_used() && self.is_used.swap(false, Ordering::Relaxed)
    }
}

/// The leases of a node's members, for those who read.
#[derive(Clone, Debug, Default)]
pub struct Leases(Arc<ArcSwap<BTreeMap<SetId, Arc<Lease>>>>);

impl Leases {
    /// Whether this node's member of a set may answer a strong read by itself. `now_ms`: the node's steady clock.
    #[inline]
    pub fn is_good(&self, set: SetId, now_ms: impl FnOnce() -> u64) -> bool {
        self.0.load().get(&set).is_some_and(|lease| lease.is_good(now_ms))
    }

    /// A member begins.
    pub(crate) fn begin(&self, set: SetId) -> Arc<Lease> {
        let lease = Arc::new(Lease::default());
        self.change(|leases| leases.insert(set, Arc::clone(&lease)));
        lease
    }

    /// A member is gone.
    pub(crate) fn end(&self, set: SetId) {
        if let Some(lease) = self.0.load().get(&set) {
            lease.set(0);
        }
        self.change(|leases| leases.remove(&set));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<SetId, Arc<Lease>>) -> Option<Arc<Lease>>) {
        let mut leases = BTreeMap::clone(&self.0.load());
        change(&mut leases);
        self.0.store(Arc::new(leases));
    }
}
