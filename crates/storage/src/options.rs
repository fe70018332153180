//! The settings of storage.

use std::time::Duration;

use node_log::LogOptions;
pub use node_log::{CommitMode, Driver};

use crate::weigh::Weigh;

/// The settings of storage. Every bound has its name here.
#[derive(Clone, Debug)]
pub struct Options {
    /// When a commit is acknowledged.
    pub commit: CommitMode,
    /// Who does the work.
    pub driver: Driver,
    /// The size of one log file. A change may take half of it.
    pub segment_bytes: u64,
    /// How large the log may grow before memtables are flushed to shorten it.
    pub log_bytes_max: u64,
    /// Appended but not yet written bytes of the log; writers wait beyond it.
    pub log_buffer_bytes_max: usize,
    /// How soon a periodic commit is handed to the operating system.
    pub write_interval: Duration,
    /// Memory for rows at first.
    pub row_cache_bytes: u64,
    /// Memory for rows once so many are looked for.
    pub row_cache_bytes_max: u64,
    /// Memory for the heads of partitions that slices are read from.
    pub head_cache_bytes: u64,
    /// Memory for blocks of sorted files.
    pub block_cache_bytes: u64,
    /// Memory for what is not yet in sorted files, over all tables, at first.
    pub memtable_bytes_max: u64,
    /// The same once so much is written that it would be full within a minute; as much as that if it is less.
    pub memtable_bytes_grown: u64,
    /// Rows of one kind that are handed to this node go into sorted files of their own if they are so many bytes; fewer go into memory
    /// first.
    pub ingest_bytes_min: u64,
    /// Open sorted files over all tables.
    pub open_files_max: usize,
    /// How much the rows of a mutation weigh; nothing is weighed without.
    pub weigh: Option<Weigh>,
    /// Threads that apply what the group commit made durable.
    pub apply_threads: usize,
    /// Threads that compact.
    pub compaction_threads: usize,
    /// Larger values are kept outside of their rows (D2).
    pub spilled_value_bytes_min: usize,
    /// Collections with more elements are kept outside of their rows (D2).
    pub row_elements_max: usize,
    /// Tombstones stay this long at most (D2); `gc_grace_seconds` may make it shorter.
    pub tombstone_retention_s: u32,
    /// A logical partition may hold this much.
    pub logical_partition_bytes_max: u64,
    /// A physical partition may hold this much: sizes are kept fine enough to split it well.
    pub physical_partition_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        const MIB: u64 = 1024 * 1024;
        Options {
            commit: CommitMode::Group,
            driver: Driver::Threads,
            segment_bytes: 32 * MIB,
            log_bytes_max: 256 * MIB,
            log_buffer_bytes_max: 64 * 1024 * 1024,
            write_interval: Duration::from_millis(5),
            row_cache_bytes: 64 * MIB,
            row_cache_bytes_max: 64 * MIB,
            head_cache_bytes: 32 * MIB,
            block_cache_bytes: 128 * MIB,
            memtable_bytes_max: 128 * MIB,
            memtable_bytes_grown: 0,
            ingest_bytes_min: MIB,
            open_files_max: 512,
            weigh: None,
            apply_threads: 2,
            compaction_threads: 1,
            spilled_value_bytes_min: 4 * 1024,
            row_elements_max: 64,
            tombstone_retention_s: 600,
            logical_partition_bytes_max: 20_000_000_000,
            physical_partition_bytes_max: 30_000_000_000,
        }
    }
}

impl Options {
    pub(crate) fn log(&self) -> LogOptions {
        LogOptions {
            commit: self.commit,
            driver: self.driver,
            segment_bytes: self.segment_bytes,
            buffer_bytes_max: self.log_buffer_bytes_max,
            write_interval: self.write_interval,
        }
    }
}
