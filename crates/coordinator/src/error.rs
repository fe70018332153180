//! Why a plan could not be run to its end.

use std::fmt;
use std::time::Duration;

use plan::PlanError;
use replica::{CommitError, ReadError, SetReadError};
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
    /// The read takes longer than others may be kept waiting for. Nothing was charged.
    TooLong,
    /// Rows lie on other nodes, and the thread may not wait for those. Nothing was charged.
    Elsewhere,
    /// The result is larger than one may be.
    ResultTooLarge {
        table: String,
        /// What a result may take.
        bytes_max: usize,
    },
    /// Other requests hold the memory that the result needs.
    Crowded,
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
            ExecuteError::TooLong => f.write_str("the read needs a thread of its own"),
            ExecuteError::Elsewhere => f.write_str("the read needs a thread that may wait"),
            ExecuteError::ResultTooLarge { table, bytes_max } => write!(
                f,
                "Read on table {table} has exceeded the size failure threshold of {} bytes",
                with_commas(*bytes_max)
            ),
            ExecuteError::Crowded => f.write_str("other requests hold the memory for results"),
            ExecuteError::Throttled(wait) => {
                write!(f, "the budget is spent for {} ms", wait.as_millis())
            }
            ExecuteError::Invalid(text) => f.write_str(text),
        }
    }
}

/// A number as Java's `%,d` writes it.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

impl From<SetReadError> for ExecuteError {
    fn from(error: SetReadError) -> ExecuteError {
        match error {
            SetReadError::Stored(error) => ExecuteError::Read(error),
            // Whoever reads begins anew with the map of then.
            SetReadError::Elsewhere | SetReadError::Moved => ExecuteError::Elsewhere,
            SetReadError::TimedOut => ExecuteError::ReadTimedOut,
            SetReadError::Unavailable { required, alive } => {
                ExecuteError::Commit(CommitError::Unavailable { required, alive })
            }
        }
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

/// What was asked for cannot be done.
pub(crate) fn refused(error: impl std::fmt::Display) -> ExecuteError {
    ExecuteError::Invalid(error.to_string())
}

/// The node could not do what was rightly asked for.
pub(crate) fn failed(error: impl std::fmt::Display) -> ExecuteError {
    ExecuteError::Schema(SchemaError::Server(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        let texts = [0, 999, 1000, 8_388_608].map(with_commas);
        assert_eq!(texts, ["0", "999", "1,000", "8,388,608"]);
    }
}
