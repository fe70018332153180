//! Whole clusters in one thread, from one seed (D18): storages over simulated disks and trees in memory, members of replica sets,
//! coordinators and clients, while messages are lost, doubled and late, nodes are killed and paused, disks are slow and
//! full, and clocks jump. First everything goes wrong, then everything heals; afterwards what clients saw must be explainable,
//! what was acknowledged must be there, and all members must hold the same.
//!
//! A seed that fails is run again by its number, with its story. Rules that are broken on purpose
//! ([`node_log::broken`]) must be found: a simulator that finds nothing is not trusted.
//!
//! Nothing of it is shipped. Reading order: [`Run`], `world.rs`, `profile.rs`, `faults.rs`, `coverage.rs`, `plots.rs`, `placing.rs`, `ending.rs`, `machine.rs`, `clients.rs`, `judge.rs`, `tables.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a simulation may stop: that is a finding"
)]

mod clients;
mod coverage;
mod ending;
mod faults;
mod judge;
mod machine;
mod placing;
mod plots;
mod profile;
mod splitting;
mod tables;
mod world;

pub use coverage::{Coverage, OPERATIONS, TROUBLES};
pub use world::{Report, Run};
