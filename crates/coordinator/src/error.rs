//! Why a plan could not be run to its end.

use std::fmt;
use std::time::Duration;

use plan::PlanError;
use replica::{CommitError, ReadError};
use schema::SchemaError;
use types::CorruptRow;

/// What went wrong, by who must act on it.
#[derive(Debug)]
pub enum ExecuteError {
    /// The values made an expression fail.
    Plan(PlanError),
    /// A definition is refused.
    Schema(SchemaError),
    /// Rows could not be read.
    Read(ReadError),
    /// A change could not be made.
    Commit(CommitError),
    /// A computed row, or one that a condition looked at, does not follow the format.
    Corrupt(CorruptRow),
    /// The paging state is not one of ours for this statement.
    PagingState,
    /// The time for the request was up.
    ReadTimedOut,
    /// The budget of a physical partition is spent: nothing was done. After so long it is not.
    Throttled(Duration),
    /// Something the client asked for is not there any more (a table dropped meanwhile).
    Invalid(String),
}

impl fmt::Display for ExecuteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecuteError::Plan(error) => error.fmt(f),
            ExecuteError::Schema(error) => error.fmt(f),
            ExecuteError::Read(error) => error.fmt(f),
            ExecuteError::Commit(error) => error.fmt(f),
            ExecuteError::Corrupt(corrupt) => corrupt.fmt(f),
            ExecuteError::PagingState => f.write_str("Invalid value for the paging state"),
            ExecuteError::ReadTimedOut => f.write_str("Operation timed out"),
            ExecuteError::Throttled(wait) => {
                write!(f, "the budget is spent for {} ms", wait.as_millis())
            }
            ExecuteError::Invalid(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ExecuteError {}

impl From<PlanError> for ExecuteError {
    fn from(error: PlanError) -> ExecuteError {
        ExecuteError::Plan(error)
    }
}

impl From<SchemaError> for ExecuteError {
    fn from(error: SchemaError) -> ExecuteError {
        ExecuteError::Schema(error)
    }
}

impl From<ReadError> for ExecuteError {
    fn from(error: ReadError) -> ExecuteError {
        ExecuteError::Read(error)
    }
}

impl From<CommitError> for ExecuteError {
    fn from(error: CommitError) -> ExecuteError {
        ExecuteError::Commit(error)
    }
}

impl From<CorruptRow> for ExecuteError {
    fn from(corrupt: CorruptRow) -> ExecuteError {
        ExecuteError::Corrupt(corrupt)
    }
}
