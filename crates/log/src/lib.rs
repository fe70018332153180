//! The one write-ahead log.
//!
//! Writers append records to a buffer in memory under a short lock. One thread takes what has
//! gathered, writes it, syncs it, and tells whoever waits; while it does, the next group gathers.
//! So a lone writer waits for one sync, and a thousand writers share one. No lock is held over I/O.
//!
//! Room is taken before it is needed: a spare segment always stands ready, and a record is only
//! accepted when it fits into the current segment or the spare. A full disk is thus noticed before a
//! record is promised anything, and never in the middle of one.
//!
//! After a failed write or sync nothing is acknowledged any more: what the disk holds is unknown
//! then, and only a restart reads it. A step before the sync that failed for want of room, descriptors or memory is
//! no such failure: nothing more is accepted, and the step is taken again until it goes well.
//!
//! It must not know rows, trees, or what an entry means: an entry is a set, a kind, a place and bytes.
//!
//! Reading order: [`frame`] for the bytes, [`recovery`] for reading them back,
//! [`survey`] for reading past damage,
//! [`gather`] for appending, [`writer`] for the thread; [`group`] and [`group_append`] for sets with several members.

#![allow(missing_docs, reason = "comments say what a name does not")]

pub mod broken;
pub mod disk;
mod error;
pub mod frame;
mod gather;
pub mod group;
mod group_append;
mod options;
pub mod recovery;
/// A disk that can lose power, for tests and simulations.
pub mod simulated_disk;
pub mod survey;
mod timings;
mod writer;

#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod test_folder;
#[cfg(test)]
mod tests;

pub use disk::ReadOnlyDisk;
pub use disk::{Disk, LogFile, RealDisk};
pub use disk::{is_disk_failure, is_disk_full, is_shortage};
pub use error::LogError;
pub use frame::{EntryHead, EntryId, Position};
pub use gather::{
    AppendError, Appended, Appending, Cut, Elapsed, Log, NewEntry, NewRecord, Shortage,
    segment_name,
};
pub use group::{Configuration, Doubt, EntryPlace, GroupState, GroupTable, RecoveredGroup, Slot};
pub use group_append::{GroupAppend, GroupEntry};
pub use options::{CommitMode, Driver, LogOptions};
pub use timings::{TIMING_BOUNDS_US, TimingSum, Timings};
pub use writer::DurableSink;
