//! Clusters of real processes: nodes are killed, paused, stopped and started again under clients, and what the clients were told is
//! judged (`testkit::history`). Nothing here sleeps and hopes: every wait is for something that can be seen, with a deadline.
//!
//! Reading order: `support.rs`, `workload.rs`, `lost.rs`, `damaged.rs`, `differing.rs`, `placed.rs`, `joined.rs`, `unavailable.rs`, `faults.rs`, `losses.rs`, `upgraded.rs`, `batches.rs`, `definitions.rs`, `clients.rs`, `budgets.rs`, `seen.rs`, `golden.rs`, `everywhere.rs`, `routes.rs`, `split.rs`, `swept.rs`, `traced.rs`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise"
)]

mod batches;
mod budgets;
mod clients;
mod damaged;
mod definitions;
mod differing;
mod everywhere;
mod faults;
mod golden;
mod joined;
mod losses;
mod lost;
mod placed;
mod routes;
mod seen;
mod split;
mod support;
mod swept;
mod traced;
mod unavailable;
mod upgraded;
mod workload;
