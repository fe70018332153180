//! What a request may take, by where it runs.
//!
//! In the turn of its connection it may do little: whatever turns out to be more begins anew on a thread of its own.
//! There it has until its time is up, its result grows as far as there is memory, and it shares the processors with
//! other long ones: each has a slice of time, then the next one's.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coordinator::{Bounds, OutOfBounds};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::load::{Holding, Load};
use crate::world;

/// What a read may gather in the turn of its connection.
const INLINE_BYTES_MAX: usize = 1 << 20;
/// How often it may look at the clock there: it reads 256 rows in between.
const INLINE_QUESTIONS_MAX: u32 = 40;
/// By how much a result grows before there is another look at memory and clock.
const GROWTH_BYTES: usize = 256 * 1024;
/// After so long a scan lets others go first.
const SLICE: Duration = Duration::from_millis(20);

/// In the turn of a connection.
pub(super) struct InTurn {
    until: Instant,
    questions: Cell<u32>,
}

impl InTurn {
    pub(super) fn new(until: Instant) -> InTurn {
        InTurn { until, questions: Cell::new(0) }
    }
}

impl Bounds for InTurn {
    fn go_on(&self) -> Result<(), OutOfBounds> {
        self.questions.set(self.questions.get() + 1);
        if self.questions.get() > INLINE_QUESTIONS_MAX {
            return Err(OutOfBounds::TooLong);
        }
        if world::now() >= self.until { Err(OutOfBounds::TimedOut) } else { Ok(()) }
    }

    fn grow(&self, bytes: usize) -> Result<usize, OutOfBounds> {
        if bytes > INLINE_BYTES_MAX { Err(OutOfBounds::TooLong) } else { Ok(INLINE_BYTES_MAX) }
    }
}

/// What a call on a thread of its own holds, until it is answered.
pub(super) struct OwnThread {
    /// Nobody waits any more.
    pub(super) is_abandoned: Arc<AtomicBool>,
    load: Arc<Load>,
    held: RefCell<Holding>,
    scan: Option<ScanTurn>,
}

/// The right to scan, for a slice of time.
struct ScanTurn {
    turns: Arc<Semaphore>,
    turn: RefCell<Option<OwnedSemaphorePermit>>,
    began: Cell<Instant>,
    runtime: Handle,
}

impl OwnThread {
    /// `scan`: who gives out the turns, and the first one, where it is a scan. To be called on the runtime.
    pub(super) fn new(
        load: &Arc<Load>,
        is_abandoned: Arc<AtomicBool>,
        scan: Option<(Arc<Semaphore>, OwnedSemaphorePermit)>,
    ) -> OwnThread {
        let scan = scan.map(|(turns, turn)| ScanTurn {
            turns,
            turn: RefCell::new(Some(turn)),
            began: Cell::new(world::now()),
            runtime: Handle::current(),
        });
        let held = RefCell::new(Holding::none(load));
        OwnThread { is_abandoned, load: Arc::clone(load), held, scan }
    }
}

impl ScanTurn {
    /// Gives the turn to whoever waits for one, and waits for the next.
    fn pass_on(&self, until: Instant) {
        if self.turns.available_permits() > 0 {
            return;
        }
        drop(self.turn.take());
        let next = tokio::time::timeout_at(until.into(), Arc::clone(&self.turns).acquire_owned());
        let next = self.runtime.block_on(next);
        *self.turn.borrow_mut() = next.ok().and_then(Result::ok);
    }
}

/// On a thread of its own.
pub(super) struct Apart<'a> {
    pub(super) until: Instant,
    pub(super) thread: &'a OwnThread,
}

impl Bounds for Apart<'_> {
    fn go_on(&self) -> Result<(), OutOfBounds> {
        let mut now = world::now();
        if let Some(scan) = &self.thread.scan
            && now.saturating_duration_since(scan.began.get()) >= SLICE
        {
            scan.pass_on(self.until);
            now = world::now();
            scan.began.set(now);
        }
        let is_over = self.thread.is_abandoned.load(Ordering::Relaxed) || now >= self.until;
        if is_over { Err(OutOfBounds::TimedOut) } else { Ok(()) }
    }

    fn grow(&self, bytes: usize) -> Result<usize, OutOfBounds> {
        self.go_on()?;
        let bytes_max = self.thread.load.result_bytes_max();
        if bytes > bytes_max {
            return Err(OutOfBounds::TooLarge(bytes_max));
        }
        if !self.thread.held.borrow_mut().grow_result(bytes) {
            return Err(OutOfBounds::Crowded);
        }
        Ok((bytes + GROWTH_BYTES).min(bytes_max))
    }
}

/// Set when nobody waits for the answer any more.
#[derive(Default)]
pub(super) struct Abandon(pub(super) Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
