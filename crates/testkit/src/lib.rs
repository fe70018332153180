//! What tests share: a small blocking client, golden scripts, the differential test, a node in
//! a process of its own, the crash test that kills it, many clients at once, the disk under a node,
//! the loss of its power, and the judge of what many clients saw.
//!
//! Nothing of it is shipped.
//!
//! Reading order: [`Client`], [`golden`], [`differential`], [`Node`], [`crash`], [`flow`], [`disk`],
//! [`power_loss`], [`history`].
mod client;
pub mod crash;
pub mod differential;
pub mod disk;
pub mod flow;
pub mod golden;
pub mod history;
mod node;
pub mod power_loss;

pub use client::{Client, ClientError, Execution, OwnedValue};
pub use node::Node;
