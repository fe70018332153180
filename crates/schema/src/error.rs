//! Why a definition is refused, in Cassandra's words.

use std::fmt;

/// A refusal. The variant says which error code goes to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// The statement breaks a rule of the language.
    Syntax(String),
    /// The statement contradicts the schema.
    Invalid(String),
    /// An option has a value that cannot be.
    Configuration(String),
    /// What should be created is there already; a keyspace when `table` is empty.
    AlreadyExists {
        keyspace: String,
        /// The table, or nothing.
        table: String,
    },
    /// Nobody may do that to this keyspace.
    Unauthorized(String),
    /// What Cassandra answers with an unexpected Java exception; on the wire a server error.
    Server(String),
}

impl SchemaError {
    /// Whether the error is about an option of `WITH`.
    pub fn is_configuration(&self) -> bool {
        matches!(self, SchemaError::Configuration(_))
    }
}

/// The message that the client reads.
impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaError::Syntax(message)
            | SchemaError::Invalid(message)
            | SchemaError::Configuration(message)
            | SchemaError::Unauthorized(message)
            | SchemaError::Server(message) => f.write_str(message),
            SchemaError::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Cannot add existing keyspace \"{keyspace}\"")
            }
            SchemaError::AlreadyExists { keyspace, table } => {
                write!(
                    f,
                    "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
                )
            }
        }
    }
}

impl std::error::Error for SchemaError {}

/// An [`SchemaError::Invalid`] with a formatted message.
macro_rules! invalid {
    ($($argument:tt)*) => { $crate::error::SchemaError::Invalid(format!($($argument)*)) };
}

/// An [`SchemaError::Configuration`] with a formatted message.
macro_rules! configuration {
    ($($argument:tt)*) => { $crate::error::SchemaError::Configuration(format!($($argument)*)) };
}

/// An [`SchemaError::Syntax`] with a formatted message.
macro_rules! syntax {
    ($($argument:tt)*) => { $crate::error::SchemaError::Syntax(format!($($argument)*)) };
}

pub(crate) use {configuration, invalid, syntax};
