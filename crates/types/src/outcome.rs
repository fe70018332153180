//! What became of a mutation.

use std::fmt;

use crate::key::RowPosition;

/// What became of a mutation that was applied without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was applied.
    Applied,
    /// Its condition did not hold; nothing changed.
    NotApplied {
        /// The rows the condition looked at, as they are, in the order of the condition.
        rows: Vec<CurrentRow>,
    },
}

/// What became of a mutation, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What became of it.
    pub outcome: Outcome,
    /// What the rows it touched weigh together, as storage was told to weigh them; zero where it was
    /// not.
    pub weight: u64,
}

impl PartialEq<Outcome> for Done {
    fn eq(&self, other: &Outcome) -> bool {
        self.outcome == *other
    }
}

/// A row that a condition looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentRow {
    /// Which row.
    pub position: RowPosition,
    /// Its live part as a stored row (see [`crate::row`]), `None` when there is none.
    pub row: Option<Vec<u8>>,
}

/// A mutation that cannot be applied to the row as it is: an answer, the same on every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A list was to be changed at an index it does not have.
    ListIndexOutOfBounds {
        /// The index asked for.
        index: i32,
        /// How many elements there are.
        size: usize,
    },
    /// An element of a list was to be set by index, and the list is null.
    ListIsNull,
    /// An element of a list was to be deleted by index, and the list is null.
    ListToDeleteFromIsNull,
    /// A value cannot be used; why, in words.
    Invalid(String),
}

/// Cassandra's texts.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::ListIndexOutOfBounds { index, size } => {
                write!(f, "List index {index} out of bound, list has size {size}")
            }
            Refusal::ListIsNull => {
                f.write_str("Attempted to set an element on a list which is null")
            }
            Refusal::ListToDeleteFromIsNull => {
                f.write_str("Attempted to delete an element from a list which is null")
            }
            Refusal::Invalid(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Refusal {}
