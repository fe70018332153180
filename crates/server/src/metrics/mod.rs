//! What is counted while requests are served, and how it is told.
//!
//! Reading order: [`counters`] (what a connection touches), [`render`] (Prometheus text),
//! [`process`] (what the system knows about us), [`endpoint`] (the HTTP side). `exposition` reads the text as strictly as
//! Prometheus does, for tests.
mod classes;
mod counters;
mod endpoint;
#[cfg(test)]
mod exposition;
mod process;
mod render;

pub(crate) use classes::{grown_by, percentile};
pub(crate) use counters::{
    LATENCY_BOUNDS_US, LATENCY_CLASSES, Metrics, RequestKind, Shard, error_name,
};
pub(crate) use endpoint::{Answer, Later, News, Pages, Request, Response, Site, serve};
pub(crate) use process::{cpu_seconds, resident_bytes};
pub(crate) use render::{Gauge, render};
