//! Rows on disk: one log, one sorted tree per table, and the merge of changes into rows.
//!
//! It must not know CQL text, sockets, or why a partition is where it is. It takes the commands of
//! [`types`] as they are: a [`types::Mutation`] is logged as the request it is, and applied in the
//! order of the log, always with the same outcome; a [`types::ReadCommand`] is answered row by row,
//! borrowed from where they lie.
//!
//! What holds:
//! - In group mode nothing is visible or acknowledged before it is on the disk.
//! - A change is applied as a whole or not at all, also over a crash.
//! - Sorted files never hold more than the log, and say exactly which entries they hold.
//! - A read never returns what was not written: damage is an error.
//!
//! Reading order: [`Storage`] is the door. `committer` brings entries into the `log`, which makes them
//! durable, `commit` brings them to `apply`, which reads, lets `merge` decide, and writes to `tree`; `read` is the way back, past the
//! `cache` and the `heads` of partitions; `index` keeps secondary
//! indexes in step. `maintenance` flushes, compacts and pushes back. `check` verifies a stopped folder, `salvage` saves what is left of a damaged one,
//! `snapshot` keeps and restores the whole. `docs/formats/` has every byte.

mod apply;
mod batch;
mod cache;
mod check;
mod clock;
mod commit;
mod committer;
mod core;
mod data_dir;
mod definition;
mod entry;
mod error;
#[doc(hidden)]
pub mod fuzzed;
mod group;
mod heads;
mod image;
mod index;
mod install;
mod maintenance;
#[doc(hidden)]
pub mod measured;
mod merge;
mod options;
mod pressure;
mod promise;
mod read;
mod repeated_failure;
mod replay;
mod room;
mod salvage;
mod schema_source;
mod sizes;
mod slots;
mod snapshot;
mod spill;
mod staging;
mod steps;
mod storage;
mod sure;
mod sweeping;
mod tree;
mod weigh;

#[cfg(test)]
mod test_folder;

pub use self::core::ChoreSums;
pub use batch::{
    BatchPlace, Forget, INTENT_BYTES_MAX, Intent, KeptIntent, OpenIntent, PART_S, PartPlace, Parts,
    Step,
};
pub use cache::Lookups;
pub use check::{CheckReport, Finding, check, sorted_bytes};
pub use clock::Clock;
pub use commit::{AllDone, CommitResult, Committed};
pub use data_dir::DataDir;
pub use entry::{REPLICATION_KINDS_FROM, Request, RequestId, Split, Truncate, intended};
pub use error::{Affected, CommitError, OpenError, ReadError, TreeError};
pub use group::{CommittedEntry, OnDurable, Work};
pub use image::{ImageHead, SetImage};
pub use index::build::IndexBuild;
pub use index::check::IndexComparison;
pub use maintenance::TableStatistics;
pub use node_log::broken;
pub use node_log::{
    Configuration, Disk, Doubt, EntryHead, EntryPlace, GroupAppend, GroupEntry, GroupState,
    GroupTable, LogFile, Position, RealDisk, RecoveredGroup, Slot, TIMING_BOUNDS_US, TimingSum,
};
pub use options::{CommitMode, Driver, Options};
pub use promise::{AnswerTo, Mailbox};
pub use room::{Busy, WithoutRoom};
pub use salvage::{SalvageReport, salvage};
pub use schema_source::SchemaSource;
pub use sizes::admit::{PartitionFilling, PartitionFull};
pub use sizes::{LogicalSize, RangeSize};
pub use slots::Slots;
pub use snapshot::{
    AutoSnapshots, Restored, SnapshotError, SnapshotFacts, remove_snapshot, restore, snapshots,
};
pub use staging::{CHUNK_BYTES_MAX, Staging};
pub use storage::{Ground, Statistics, Storage, Writing};
pub use sweeping::WantedSweep;
pub use weigh::{Touched, Weigh};
