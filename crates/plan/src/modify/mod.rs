//! INSERT, UPDATE, DELETE and BATCH: from assignments to mutations.
//!
//! `operation` types what happens to each column, `attributes` holds USING, `condition` IF.
//! [`PreparedModification`] ties them to a WHERE clause; with values, `apply` writes the cell
//! changes of each row. [`PreparedBatch`] gathers several, and `outcome` says how a conditional
//! write answers.

mod apply;
mod attributes;
mod batch;
mod condition;
mod indexed;
mod insert;
mod json;
mod operation;
mod outcome;
mod prepared;
mod size;
mod watch;

pub use batch::{BatchItem, PreparedBatch, bind_batch};
pub use outcome::{ConditionalResult, ConditionalRows};
pub use prepared::PreparedModification;
