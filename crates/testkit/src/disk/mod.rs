//! The disk under a real node: what was written, synced, renamed and removed is written down, and from
//! that the disk as it could be after a loss of power at any moment is built. Calls can be made to fail.
//!
//! The trees of a node use the real file system, so this stands between the node and the C library: a
//! small library in C (`shim.c`) that the test builds and preloads.
//!
//! Reading order: [`Shim`] (building and preloading), [`Board`] (faults), [`Journal`] (what happened),
//! [`World`] (what of it lasts).

mod journal;
mod shim;
mod world;

pub use journal::{Journal, Record};
pub use shim::{Board, Call, Fault, Shim};
pub use world::{Mood, World};
