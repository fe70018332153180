//! The differential test: schemas and statements from a seed go to our server and to a real Apache
//! Cassandra, and their answers are compared.
//!
//! Reading order: [`random`], [`schema`], [`value`], [`draft`], then what statements say
//! ([`write`], [`select`], [`restriction`], [`expression`], [`broken`], [`definition`]), [`answer`], [`standing`], [`faults`], [`allowed`],
//! and [`Run`], which puts them together.

#![expect(clippy::indexing_slicing, reason = "a test tool: an index out of bounds is its own bug")]

mod allowed;
mod answer;
mod broken;
mod definition;
mod draft;
mod expression;
mod faults;
pub(crate) mod random;
mod restriction;
mod run;
mod schema;
mod select;
mod standing;
mod value;
mod write;

pub use allowed::Allowed;
pub use run::{Counts, Run};
