//! How loaded the node is as a whole, and which requests are refused for it.
//!
//! Two things run away when more is asked for than can be done: memory, which large requests and
//! answers hold that are under way, and the time that a request waits for its turn. Both have a limit
//! here. Before it is met clients are held back: nothing more is read from their sockets. At it, large
//! requests are refused.
//!
//! **Memory.** Whoever holds more than [`GRAIN_BYTES`] says so ([`Holding`]); less is never refused for
//! what others hold. From half of the limit on, no result may grow beyond a page, a client with much
//! under way waits until that is done, and one that neither takes its answers nor ends its requests is
//! left. At three quarters results do not grow, and large requests that are still arriving are given up.
//! At the limit large requests are refused.
//!
//! **Time.** A heartbeat is a byte that a thread of its own sends to a task, over a socket: it waits
//! wherever requests wait, and tells how long that took. While it takes too long, connections may have
//! fewer and fewer requests served in one turn; the others wait for the next one. So whoever asks for
//! little is served soon, and whoever asks for much waits for it.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::world;

/// Less is not counted: connections are limited in number.
pub(crate) const GRAIN_BYTES: usize = 64 * 1024;
/// Requests of a connection that are served in a turn while the node keeps up.
const TURN_REQUESTS_MAX: usize = 8192;
/// And at the least, however long the queue is: fewer would cost more in turns than in requests.
const TURN_REQUESTS_MIN: usize = 16;
/// Between two heartbeats, or two looks at one that does not come back.
const HEARTBEAT_REST: Duration = Duration::from_millis(20);
/// A heartbeat that is late counts again each time this has passed.
const LATE_AGAIN: Duration = Duration::from_millis(100);
/// Nobody is told to wait longer for the node to keep up.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Nor shorter.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The largest message that every driver takes: what the protocol allows.
const RESULT_BYTES_MAX: u64 = 256 << 20;
/// Which part of the limit one result may come to.
const RESULT_SHARE: u64 = 4;
/// How often a result is in memory before it is sent: as it is gathered, and as its message.
const RESULT_COPIES: u64 = 2;
/// A result that takes no more than this is a page, which may grow where larger ones may not.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// Why requests are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overload {
    /// Requests and answers under way take too much memory.
    Memory,
    /// The request waited too long before anything was done for it.
    Time,
}

/// How loaded the node is.
#[derive(Debug)]
pub(crate) struct Load {
    held_bytes: AtomicU64,
    held_bytes_max: u64,
    /// When the heartbeat was sent that did not come back yet; 0: none.
    sent_us: AtomicU64,
    delay_us: AtomicU64,
    delay_max: Duration,
    turn_requests: AtomicUsize,
    refused_count: AtomicU64,
}

impl Load {
    /// `held_bytes_max`: memory of requests and answers under way. `delay_max`: how long the queue
    /// may get.
    pub(crate) fn new(held_bytes_max: u64, delay_max: Duration) -> Load {
        Load {
            held_bytes: AtomicU64::new(0),
            held_bytes_max,
            sent_us: AtomicU64::new(0),
            delay_us: AtomicU64::new(0),
            delay_max,
            turn_requests: AtomicUsize::new(TURN_REQUESTS_MAX),
            refused_count: AtomicU64::new(0),
        }
    }

    /// Memory of requests and answers under way.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// How long the last heartbeat waited for its turn.
    pub(crate) fn delay(&self) -> Duration {
        Duration::from_micros(self.delay_us.load(Ordering::Relaxed))
    }

    /// How many requests were refused.
    pub(crate) fn refused_count(&self) -> u64 {
        self.refused_count.load(Ordering::Relaxed)
    }

    /// The limit of that.
    pub(crate) fn held_bytes_max(&self) -> u64 {
        self.held_bytes_max
    }

    /// What one result may take.
    pub(crate) fn result_bytes_max(&self) -> usize {
        let bytes = (self.held_bytes_max / RESULT_SHARE).min(RESULT_BYTES_MAX);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Nothing large is taken any more.
    pub(crate) fn is_full(&self) -> bool {
        self.held_bytes() >= self.held_bytes_max
    }

    /// Large requests that are still arriving are given up.
    pub(crate) fn gives_up_unfinished(&self) -> bool {
        self.held_bytes() >= self.held_bytes_max / 4 * 3
    }

    /// Clients that keep us waiting are left.
    pub(crate) fn is_tight(&self) -> bool {
        self.held_bytes() >= self.held_bytes_max / 2
    }

    /// How many requests of a connection are served in one turn.
    #[inline]
    pub(crate) fn turn_requests(&self) -> usize {
        self.turn_requests.load(Ordering::Relaxed)
    }

    /// A request is refused: what its client is told to wait.
    pub(crate) fn refuse(&self) -> Duration {
        self.refused_count.fetch_add(1, Ordering::Relaxed);
        self.delay().clamp(WAIT_MIN, WAIT_MAX)
    }

    /// A heartbeat waited so long for its turn.
    pub(crate) fn on_heartbeat(&self, delay: Duration) {
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay_us.store(delay_us, Ordering::Relaxed);
        let turn = self.turn_requests.load(Ordering::Relaxed);
        let next = if delay > self.delay_max { turn / 2 } else { turn + turn / 4 + 1 };
        let next = next.clamp(TURN_REQUESTS_MIN, TURN_REQUESTS_MAX);
        self.turn_requests.store(next, Ordering::Relaxed);
    }

    /// Starts to measure how long requests wait, as long as the node is there.
    pub(crate) fn start_heartbeat(self: &Arc<Load>) -> io::Result<()> {
        let (mut sender, receiver) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        let mut receiver = tokio::net::UnixStream::from_std(receiver)?;
        let load = Arc::clone(self);
        tokio::spawn(async move {
            let mut beat = [0];
            while receiver.read_exact(&mut beat).await.is_ok() {
                let sent_us = load.sent_us.swap(0, Ordering::Relaxed);
                load.on_heartbeat(Duration::from_micros(
                    world::steady_us().saturating_sub(sent_us),
                ));
            }
        });
        let load = Arc::downgrade(self);
        let beat = move || {
            let mut late_again = LATE_AGAIN;
            loop {
                std::thread::sleep(HEARTBEAT_REST);
                let Some(load) = load.upgrade() else { return };
                let now_us = world::steady_us().max(1);
                match load.sent_us.load(Ordering::Relaxed) {
                    0 => {
                        late_again = load.delay_max;
                        load.sent_us.store(now_us, Ordering::Relaxed);
                        // The task ends with the node.
                        if sender.write_all(&[0]).is_err() {
                            return;
                        }
                    }
                    sent_us => {
                        let late = Duration::from_micros(now_us.saturating_sub(sent_us));
                        if late > late_again {
                            load.on_heartbeat(late);
                            late_again = late + LATE_AGAIN;
                        }
                    }
                }
            }
        };
        std::thread::Builder::new().name("heartbeat".to_owned()).spawn(beat).map(drop)
    }
}

/// What somebody holds of the memory for requests and answers under way.
#[derive(Debug)]
pub(crate) struct Holding {
    load: Arc<Load>,
    bytes: u64,
}

impl Holding {
    /// Nothing yet.
    pub(crate) fn none(load: &Arc<Load>) -> Holding {
        Holding { load: Arc::clone(load), bytes: 0 }
    }

    /// So much, if it is worth counting.
    pub(crate) fn of(load: &Arc<Load>, bytes: usize) -> Option<Holding> {
        if bytes < GRAIN_BYTES {
            return None;
        }
        let mut holding = Holding::none(load);
        holding.set(bytes);
        Some(holding)
    }

    /// Whether anything is counted.
    pub(crate) fn is_none(&self) -> bool {
        self.bytes == 0
    }

    /// A result takes so much by now. `false`: there is no memory for it, and what was held is held on.
    pub(crate) fn grow_result(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let limit = match bytes <= PAGE_BYTES_MAX {
            true => self.load.held_bytes_max / 4 * 3,
            false => self.load.held_bytes_max / 2,
        };
        let added = (bytes * RESULT_COPIES).saturating_sub(self.bytes);
        let before = self.load.held_bytes.fetch_add(added, Ordering::Relaxed);
        if before + added > limit {
            self.load.held_bytes.fetch_sub(added, Ordering::Relaxed);
            return false;
        }
        self.bytes += added;
        true
    }

    /// So much instead.
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = if bytes < GRAIN_BYTES { 0 } else { bytes as u64 };
        if bytes > self.bytes {
            self.load.held_bytes.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.load.held_bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back() {
        let load = Arc::new(Load::new(1 << 20, Duration::from_secs(1)));
        assert!(Holding::of(&load, GRAIN_BYTES - 1).is_none());
        let first = Holding::of(&load, 600 << 10);
        assert!(load.is_tight() && !load.gives_up_unfinished() && !load.is_full());
        let mut second = Holding::none(&load);
        second.set(200 << 10);
        assert!(load.gives_up_unfinished() && !load.is_full());
        second.set(500 << 10);
        assert!(load.is_full());
        second.set(1);
        assert!(second.is_none());
        drop((first, second));
        assert_eq!(load.held_bytes(), 0);
    }

    #[test]
    fn results_grow_as_far_as_there_is_memory_and_pages_a_little_further() {
        let load = Arc::new(Load::new(256 << 20, Duration::from_secs(1)));
        assert_eq!(load.result_bytes_max(), 64 << 20);
        assert_eq!(Load::new(u64::MAX, Duration::ZERO).result_bytes_max(), 256 << 20);
        let (mut greedy, mut second) = (Holding::none(&load), Holding::none(&load));
        assert!(greedy.grow_result(8 << 20) && greedy.grow_result(50 << 20));
        assert_eq!(load.held_bytes(), 100 << 20);
        assert!(!second.grow_result(20 << 20), "half of the limit is for large results");
        assert_eq!(load.held_bytes(), 100 << 20);
        let mut pages: Vec<Holding> = (0..6).map(|_| Holding::none(&load)).collect();
        let grown: Vec<bool> = pages.iter_mut().map(|page| page.grow_result(8 << 20)).collect();
        assert_eq!(grown, [true, true, true, true, true, false]);
        drop((greedy, second, pages));
        assert_eq!(load.held_bytes(), 0);
    }

    #[test]
    fn a_long_queue_makes_turns_short_and_a_short_one_long_again() {
        let load = Load::new(1 << 20, Duration::from_millis(500));
        assert_eq!(load.turn_requests(), TURN_REQUESTS_MAX);
        (0..20).for_each(|_| load.on_heartbeat(Duration::from_secs(2)));
        assert_eq!(load.turn_requests(), TURN_REQUESTS_MIN);
        assert_eq!(load.refuse(), Duration::from_secs(2));
        (0..60).for_each(|_| load.on_heartbeat(Duration::from_millis(3)));
        assert_eq!(load.turn_requests(), TURN_REQUESTS_MAX);
        assert_eq!((load.refuse(), load.refused_count()), (WAIT_MIN, 2));
    }
}
