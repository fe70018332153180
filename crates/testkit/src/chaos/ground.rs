//! What everybody of a run shares: time, what happened, whether it is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether all is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What happened to the nodes, and how long it lasted.
#[derive(Clone, Debug)]
pub(crate) struct Spell {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// Who did it: processes, surroundings, operators.
    pub(crate) lane: usize,
    pub(crate) what: String,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Answered,
    /// Nothing was done.
    Refused,
    Unknown,
}

/// A request, for the picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) at_ms: u64,
    pub(crate) took_us: u64,
    pub(crate) ended: Ended,
    pub(crate) kind: &'static str,
}

/// That another node leads a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    pub(crate) at_ms: u64,
    pub(crate) set: i32,
    pub(crate) node: i64,
}

/// The shared part of a run.
pub(crate) struct Ground {
    begun: Instant,
    /// No more faults.
    is_calm: AtomicBool,
    /// No more requests.
    is_over: AtomicBool,
    /// Nodes joined, so that members may be moved.
    do_members_move: AtomicBool,
    addresses: Mutex<Vec<String>>,
    pub(crate) spells: Mutex<Vec<Spell>>,
    pub(crate) leads: Mutex<Vec<Lead>>,
    /// Answers to each client.
    pub(crate) answered: Vec<AtomicU64>,
}

impl Ground {
    pub(crate) fn new(addresses: Vec<String>, clients: usize) -> Ground {
        Ground {
            begun: Instant::now(),
            is_calm: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            do_members_move: AtomicBool::new(false),
            addresses: Mutex::new(addresses),
            spells: Mutex::default(),
            leads: Mutex::default(),
            answered: (0..clients).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::SeqCst)
    }

    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn do_members_move(&self) -> bool {
        self.do_members_move.load(Ordering::SeqCst)
    }

    pub(crate) fn let_members_move(&self) {
        self.do_members_move.store(true, Ordering::SeqCst);
    }

    /// Waits, but not longer than faults go on.
    pub(crate) fn last(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.is_calm() {
            std::thread::sleep(LOOK_INTERVAL.min(time));
        }
    }

    /// The address of a node by its place, around and around.
    pub(crate) fn address(&self, place: usize) -> String {
        let addresses = lock(&self.addresses);
        addresses.get(place % addresses.len().max(1)).cloned().unwrap_or_default()
    }

    pub(crate) fn add_address(&self, address: &str) {
        lock(&self.addresses).push(address.to_owned());
    }

    pub(crate) fn remove_address(&self, address: &str) {
        lock(&self.addresses).retain(|known| known != address);
    }

    /// Notes what was done to the nodes since a moment.
    pub(crate) fn note(&self, from_ms: u64, lane: usize, what: String) {
        lock(&self.spells).push(Spell { from_ms, to_ms: self.now_ms(), lane, what });
    }
}

/// A lock whose holder may have ended badly.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
