//! What tests share: a small blocking client, golden scripts, the differential test, a node in
//! a process of its own, and the crash test that kills it.
//!
//! Nothing of it is shipped.
//!
//! Reading order: [`Client`], [`golden`], [`differential`], [`Node`], [`crash`].
mod client;
pub mod crash;
pub mod differential;
pub mod golden;
mod node;

pub use client::{Client, ClientError, Execution, OwnedValue};
pub use node::Node;
