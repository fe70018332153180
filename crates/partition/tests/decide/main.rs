//! Where the members of sets go: golden tables, properties, and a large cluster simulated.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test may stop, and tells how long it took"
)]

mod golden;
mod properties;
mod simulation;
mod world;
