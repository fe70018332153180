//! The settings of the log.

use std::time::Duration;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitMode {
    /// After it is on the disk: one fsync for all writers that wait at that moment.
    Group,
    /// After it is in memory. It reaches the operating system within [`LogOptions::write_interval`]
    /// and the disk at the next interval, as Cassandra does by default.
    Periodic {
        /// How often the log is synced.
        sync_interval: Duration,
    },
}

impl CommitMode {
    /// Cassandra's default.
    pub const PERIODIC: CommitMode =
        CommitMode::Periodic { sync_interval: Duration::from_secs(10) };
}

/// Who does storage's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Threads of its own.
    Threads,
    /// Whoever calls [`crate::Log::step`], and whoever waits for something: in one thread, always in the
    /// same order.
    Steps,
}

/// The settings of the log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    pub commit: CommitMode,
    pub driver: Driver,
    /// The size of one file. A record may take half of it.
    pub segment_bytes: u64,
    /// Appended but not yet written bytes; writers wait beyond it.
    pub buffer_bytes_max: usize,
    /// How soon a periodic commit is handed to the operating system.
    pub write_interval: Duration,
}
