//! What becomes of a row when a change meets it.
//!
//! Last write wins, cell by cell, with Cassandra's rules for equal timestamps. Merging is
//! commutative, associative and idempotent for everything but counters and list positions, which
//! look at the row as it is. What a deletion covers is not kept.
//!
//! Reading order: [`reconcile`] for two cells, [`row`] for a row and a change, [`lists`] for list
//! positions (many of them: [`positions`]), [`condition`] for conditional writes (of many checks: [`checked`]).

mod checked;
pub(crate) mod condition;
pub(crate) mod lists;
mod positions;
pub(crate) mod reconcile;
pub(crate) mod row;

#[cfg(test)]
mod growth;

use types::{CorruptRow, Refusal};

/// Why a change cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeError {
    /// The row as it is does not allow it: an answer.
    Refused(Refusal),
    /// The row as it is cannot be read.
    Corrupt(CorruptRow),
}

impl From<CorruptRow> for MergeError {
    fn from(corrupt: CorruptRow) -> MergeError {
        MergeError::Corrupt(corrupt)
    }
}

impl From<Refusal> for MergeError {
    fn from(refusal: Refusal) -> MergeError {
        MergeError::Refused(refusal)
    }
}
