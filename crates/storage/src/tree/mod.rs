//! The sorted trees: what a table's keys look like, the library behind a trait of ours, and what
//! storage keeps beside each tree.
//!
//! Reading order: [`keys`], [`engine`] with [`buffer`], [`layers`] and [`courtesy`], [`store`], [`deletions`]; [`files`] for the bytes on disk; [`purge`] and [`sweep`] for
//! what is dead.

mod buffer;
mod courtesy;
pub(crate) mod covering;
pub(crate) mod deletions;
pub(crate) mod engine;
#[cfg(test)]
mod engine_tests;
pub(crate) mod files;
pub(crate) mod keys;
mod layers;
pub(crate) mod purge;
pub(crate) mod store;
pub(crate) mod sweep;
