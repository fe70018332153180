//! What is counted while requests are served, and how it is told.
//!
//! Reading order: [`counters`] (what a connection touches), [`render`] (Prometheus text),
//! [`process`] (what the system knows about us), [`endpoint`] (the HTTP side).
mod counters;
mod endpoint;
mod process;
mod render;

pub(crate) use counters::{Metrics, RequestKind, Shard};
pub(crate) use endpoint::serve;
pub(crate) use process::resident_bytes;
pub(crate) use render::{Gauge, render};
