//! Bytes in order: what was written and is not yet in sorted files, the files, and reads over both.
//!
//! It must not know rows, tables or partitions. The files are a library's ([`engine`] stands before it); the
//! buffer before them is ours (ADR 11).
//!
//! Reading order: [`engine`] with its trait [`engine::SortedTree`], [`buffer`], [`file_view`] and [`layers`] below it, [`files`] for the
//! bytes on disk, [`home`] for where trees are, [`folder`] for the folder of one, [`sieve`] for what a compaction leaves out, [`traces`] for what is in no file, [`leftovers`] for what failed work leaves, [`memory`] for trees without files,
//! [`courtesy`] for chores that let requests go first.
#![allow(missing_docs, reason = "comments say what a name does not")]

mod buffer;
pub mod courtesy;
pub mod engine;
#[cfg(test)]
mod engine_tests;
mod error;
mod file_view;
pub mod files;
pub mod folder;
pub mod home;
mod layers;
mod leftovers;
pub mod memory;
pub mod sieve;
#[cfg(test)]
mod test_folder;
mod traces;

pub use error::TreeError;
pub use home::{FileHome, TreeHome};
pub use lsm_tree::SequenceNumberCounter;
pub use memory::MemoryHome;
pub use sieve::{Kept, Sieve, Sieving};

/// Keys that begin with this byte go on with bytes that are spread evenly, so the buffer can be cut by them.
pub const EVEN_SPACE: u8 = 2;
