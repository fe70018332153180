//! What tests share: a small blocking client, golden scripts, the differential test, and a node in
//! a process of its own.
//!
//! Nothing of it is shipped.
//!
//! Reading order: [`Client`], [`golden`], [`differential`], [`Node`].
mod client;
pub mod differential;
pub mod golden;
mod node;

pub use client::{Client, ClientError, Execution, OwnedValue};
pub use node::Node;
