//! What tests share: a small blocking client, golden scripts, the differential test, a node in
//! a process of its own, the crash test that kills it, and many clients at once.
//!
//! Nothing of it is shipped.
//!
//! Reading order: [`Client`], [`golden`], [`differential`], [`Node`], [`crash`], [`flow`].
mod client;
pub mod crash;
pub mod differential;
pub mod flow;
pub mod golden;
mod node;

pub use client::{Client, ClientError, Execution, OwnedValue};
pub use node::Node;
