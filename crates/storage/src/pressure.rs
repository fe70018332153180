//! Writers are held back while what they wrote is not in sorted files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::error::{CommitError, TreeError};
use crate::room::Busy;
use node_log::{Shortage, is_disk_full, is_shortage};

/// The longest a writer is slowed down at a time.
const DELAY_MAX: Duration = Duration::from_millis(10);
/// Whoever would be held back for less is not: its timer is no finer.
const DELAY_MIN: Duration = Duration::from_millis(1);
/// How long a writer waits for memory before it is refused.
const WAIT_ROUNDS_MAX: u32 = 500;
/// With more runs of unsorted files writers are slowed down, so that compaction can follow.
const UNSORTED_RUNS_FREE: usize = 16;

/// Where memory fills within this time it is doubled: half of what is flushed is written again and again by merges otherwise.
const FULL_SOON: Duration = Duration::from_secs(60);
/// Where it took longer than this to fill, half of what was added is given back.
const GIVEN_BACK_AFTER: Duration = Duration::from_secs(300);

/// How fast memory filled last.
#[derive(Debug, Default)]
struct Demand {
    /// Since when it is counted.
    since: Duration,
    /// What was flushed for want of memory since then.
    flushed_bytes: u64,
}

/// Memory that is not yet in sorted files, over all tables.
#[derive(Debug)]
pub(crate) struct Pressure {
    bytes: AtomicU64,
    /// Between `least` and `most`, by what is written.
    bytes_max: AtomicU64,
    least: u64,
    most: u64,
    demand: Mutex<Demand>,
    /// The most runs of unsorted files that a table has.
    pub(crate) unsorted_runs: AtomicUsize,
    /// Why flushing failed last, if it did.
    failure: Mutex<Option<TreeError>>,
    lock: Mutex<()>,
    shrunk: Condvar,
    /// The same for those who do not wait on a thread.
    room: Notify,
}

impl Pressure {
    pub(crate) fn new(least: u64, most: u64) -> Pressure {
        Pressure {
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(least),
            least,
            most: most.max(least),
            demand: Mutex::default(),
            unsorted_runs: AtomicUsize::new(0),
            failure: Mutex::new(None),
            lock: Mutex::new(()),
            shrunk: Condvar::new(),
            room: Notify::new(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// So much was flushed for want of memory.
    pub(crate) fn note_flushed(&self, bytes: u64, now: Duration) {
        let mut demand = self.demand.lock();
        demand.flushed_bytes += bytes;
        if demand.flushed_bytes < self.bytes_max() / 2 {
            return;
        }
        if now.saturating_sub(demand.since) < FULL_SOON {
            let doubled = (self.bytes_max() * 2).min(self.most);
            self.bytes_max.store(doubled, Ordering::Relaxed);
        }
        *demand = Demand { since: now, flushed_bytes: 0 };
    }

    /// What is not needed any more is given back, by and by.
    pub(crate) fn give_back(&self, now: Duration) {
        let mut demand = self.demand.lock();
        if self.bytes_max() > self.least && now.saturating_sub(demand.since) >= GIVEN_BACK_AFTER {
            let halved = (self.bytes_max() / 2).max(self.least);
            self.bytes_max.store(halved, Ordering::Relaxed);
            *demand = Demand { since: now, flushed_bytes: 0 };
        }
    }

    /// Why memtables are not flushed, if it is for want of something.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        match self.failure.lock().as_ref()? {
            TreeError::Io(error) if is_shortage(error) => Some(Shortage::of(error)),
            TreeError::Io(_) | TreeError::Corrupt(_) => None,
        }
    }

    pub(crate) fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A write came to so many bytes more, or fewer where it took the place of another.
    pub(crate) fn change(&self, grown: i64) {
        match u64::try_from(grown) {
            Ok(0) => {}
            Ok(bytes) => self.grow(bytes),
            Err(_) => {
                let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                    Some(old.saturating_add_signed(grown))
                });
            }
        }
    }

    pub(crate) fn shrink(&self, bytes: u64) {
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
            Some(old.saturating_sub(bytes))
        });
        drop(self.lock.lock());
        self.shrunk.notify_all();
        self.room.notify_waiters();
    }

    /// Whether there is so much that something should be flushed.
    pub(crate) fn wants_flush(&self) -> bool {
        self.bytes() > self.bytes_max() / 2
    }

    /// Slows a writer down: not at all below three quarters, then more and more, and at the bound
    /// until there is room.
    pub(crate) fn admit(&self) -> Result<(), CommitError> {
        let bytes_max = self.bytes_max();
        let free = bytes_max / 4 * 3;
        let bytes = self.bytes();
        let runs = self.unsorted_runs.load(Ordering::Relaxed);
        if bytes < free && runs <= UNSORTED_RUNS_FREE {
            return Ok(());
        }
        if bytes < bytes_max {
            let mut lock = self.lock.lock();
            self.shrunk.wait_for(&mut lock, self.delay(bytes, runs));
            return Ok(());
        }
        let mut lock = self.lock.lock();
        for _ in 0..WAIT_ROUNDS_MAX {
            if self.bytes() < self.bytes_max() {
                return Ok(());
            }
            self.check_failure()?;
            self.shrunk.wait_for(&mut lock, DELAY_MAX);
        }
        Err(CommitError::Overloaded)
    }

    /// As [`Pressure::admit`], without waiting: for how long, or for what, a writer is to be held back.
    #[inline]
    pub(crate) fn try_admit(&self, was_slowed: bool) -> Result<Option<Busy>, CommitError> {
        let bytes = self.bytes();
        let runs = self.unsorted_runs.load(Ordering::Relaxed);
        if bytes < self.bytes_max() / 4 * 3 && runs <= UNSORTED_RUNS_FREE {
            return Ok(None);
        }
        self.hold_back(bytes, runs, was_slowed)
    }

    #[cold]
    fn hold_back(
        &self,
        bytes: u64,
        runs: usize,
        was_slowed: bool,
    ) -> Result<Option<Busy>, CommitError> {
        if bytes >= self.bytes_max() {
            return self.check_failure().map(|()| Some(Busy::Memory));
        }
        let delay = self.delay(bytes, runs);
        Ok((!was_slowed && delay >= DELAY_MIN).then_some(Busy::Slow(delay)))
    }

    /// How long a writer is slowed down below the bound.
    fn delay(&self, bytes: u64, runs: usize) -> Duration {
        let bytes_max = self.bytes_max();
        let free = bytes_max / 4 * 3;
        let memory = bytes.saturating_sub(free) as f64 / (bytes_max - free).max(1) as f64;
        let files = runs.saturating_sub(UNSORTED_RUNS_FREE) as f64 / UNSORTED_RUNS_FREE as f64;
        let share = memory.max(files.min(1.0));
        DELAY_MAX.mul_f64(share * share)
    }

    fn check_failure(&self) -> Result<(), CommitError> {
        match self.failure.lock().as_ref() {
            None => Ok(()),
            Some(TreeError::Io(error)) if is_disk_full(error) => Err(CommitError::DiskFull),
            Some(error) => Err(CommitError::CannotWriteNow(Arc::from(error.to_string()))),
        }
    }

    /// Waits until there is room below the bound, or a failure to be told.
    pub(crate) async fn room(&self) {
        loop {
            let mut changed = std::pin::pin!(self.room.notified());
            // From here on no change is missed, so that what is looked at next cannot get old.
            changed.as_mut().enable();
            if self.bytes() < self.bytes_max() || self.failure.lock().is_some() {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn set_failure(&self, failure: Option<TreeError>) {
        *self.failure.lock() = failure;
        self.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_writer_that_may_not_wait_is_told_what_for_and_when_there_is_room() {
        let pressure = Pressure::new(1000, 1000);
        pressure.grow(700);
        assert!(matches!(pressure.try_admit(false), Ok(None)));
        pressure.grow(240);
        assert!(
            matches!(pressure.try_admit(false), Ok(Some(Busy::Slow(time))) if time < DELAY_MAX)
        );
        assert!(matches!(pressure.try_admit(true), Ok(None)), "once is enough");
        pressure.grow(60);
        assert!(matches!(pressure.try_admit(true), Ok(Some(Busy::Memory))));
        let mut context = Context::from_waker(Waker::noop());
        let mut room = pin!(pressure.room());
        assert!(room.as_mut().poll(&mut context).is_pending());
        pressure.shrink(1);
        assert!(room.as_mut().poll(&mut context).is_ready());
        pressure.grow(1);
        let mut room = pin!(pressure.room());
        assert!(room.as_mut().poll(&mut context).is_pending());
        let full = io::Error::from(io::ErrorKind::StorageFull);
        pressure.set_failure(Some(TreeError::Io(Arc::new(full))));
        assert!(room.as_mut().poll(&mut context).is_ready(), "there is an error to be told");
        assert!(matches!(pressure.try_admit(true), Err(CommitError::DiskFull)));
    }

    #[test]
    fn memory_grows_where_it_fills_within_a_minute_and_is_given_back() {
        let pressure = Pressure::new(1000, 3000);
        let at = Duration::from_secs;
        // Many small flushes are one large one.
        (0..4).for_each(|_| pressure.note_flushed(100, at(10)));
        assert_eq!(pressure.bytes_max(), 1000);
        pressure.note_flushed(100, at(10));
        assert_eq!(pressure.bytes_max(), 2000);
        pressure.note_flushed(1000, at(10 + 60));
        assert_eq!(pressure.bytes_max(), 2000, "that took a minute");
        pressure.note_flushed(1000, at(80));
        assert_eq!(pressure.bytes_max(), 3000, "there is a bound");
        pressure.give_back(at(80 + 299));
        assert_eq!(pressure.bytes_max(), 3000);
        pressure.give_back(at(80 + 300));
        pressure.give_back(at(80 + 301));
        assert_eq!(pressure.bytes_max(), 1500);
        pressure.grow(800);
        assert!(pressure.wants_flush());
        (2..5).for_each(|round| pressure.give_back(at(80 + 300 * round)));
        assert_eq!(pressure.bytes_max(), 1000);
    }
}
