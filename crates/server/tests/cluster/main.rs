//! Clusters of real processes: nodes are killed, paused, stopped and started again under clients, and what the clients were told is
//! judged (`testkit::history`). Nothing here sleeps and hopes: every wait is for something that can be seen, with a deadline.
//!
//! Reading order: `support.rs`, `workload.rs`, `lost.rs`, `unavailable.rs`, `batches.rs`, `definitions.rs`, `clients.rs`, `golden.rs`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise"
)]

mod batches;
mod clients;
mod definitions;
mod golden;
mod lost;
mod support;
mod unavailable;
mod workload;
