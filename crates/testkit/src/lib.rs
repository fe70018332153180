//! What tests share: a small blocking client, golden scripts, the differential test, a node in
//! a process of its own, a cluster of them, the links between them, the crash test that kills one, many clients at once, the disk under a node,
//! the loss of its power, the judge of what many clients saw, and everything of it at once.
//!
//! Nothing of it is shipped.
//!
//! Reading order: [`Client`], [`golden`], [`differential`], [`Node`], [`Cluster`], [`Links`], [`crash`], [`flow`], [`disk`],
//! [`power_loss`], [`history`], [`chaos`].
pub mod chaos;
mod client;
mod cluster;
pub mod crash;
pub mod differential;
pub mod disk;
mod ends;
pub mod flow;
pub mod golden;
pub mod history;
mod links;
mod node;
pub mod power_loss;

pub use client::{Client, ClientError, Execution, OwnedValue};
pub use cluster::{Cluster, Start, eventually};
pub use ends::Ends;
pub use links::Links;
pub use node::{Node, free_port_on};
