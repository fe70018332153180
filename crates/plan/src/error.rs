//! Why a statement cannot be planned. `Display` is the text that Cassandra would send.

use std::fmt;

use schema::SchemaError;
use types::value::ValueError;

/// A refusal, by the kind of answer the client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The text breaks the grammar.
    Syntax(Box<str>),
    /// The statement contradicts the schema, its values or itself.
    Invalid(Box<str>),
    /// The statement is not for this user.
    Unauthorized(Box<str>),
    /// A definition has an option that cannot be.
    Configuration(Box<str>),
    /// A table (or, with an empty table name, a keyspace) exists already.
    AlreadyExists {
        keyspace: Box<str>,
        /// The table; empty for a keyspace.
        table: Box<str>,
    },
    /// A function failed on its arguments.
    FunctionFailure {
        /// The keyspace of the function.
        keyspace: Box<str>,
        function: Box<str>,
        /// Its argument types as CQL.
        argument_types: Vec<String>,
        /// What went wrong.
        message: Box<str>,
    },
}

impl PlanError {
    /// An invalid request with that text.
    pub fn invalid(text: impl Into<String>) -> PlanError {
        PlanError::Invalid(text.into().into_boxed_str())
    }

    /// The text for the client.
    pub fn message(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Syntax(text)
            | PlanError::Invalid(text)
            | PlanError::Unauthorized(text)
            | PlanError::Configuration(text) => f.write_str(text),
            PlanError::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Cannot add existing keyspace \"{keyspace}\"")
            }
            PlanError::AlreadyExists { keyspace, table } => {
                write!(
                    f,
                    "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
                )
            }
            PlanError::FunctionFailure { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<ValueError> for PlanError {
    fn from(error: ValueError) -> PlanError {
        PlanError::invalid(error.to_string())
    }
}

impl From<SchemaError> for PlanError {
    fn from(error: SchemaError) -> PlanError {
        match error {
            SchemaError::Syntax(text) => PlanError::Syntax(text.into()),
            SchemaError::Invalid(text) | SchemaError::Server(text) => {
                PlanError::Invalid(text.into())
            }
            SchemaError::Configuration(text) => PlanError::Configuration(text.into()),
            SchemaError::Unauthorized(text) => PlanError::Unauthorized(text.into()),
            SchemaError::AlreadyExists { keyspace, table } => {
                PlanError::AlreadyExists { keyspace: keyspace.into(), table: table.into() }
            }
        }
    }
}

/// `Err(PlanError::Invalid(format!(..)))`.
macro_rules! invalid {
    ($($arg:tt)*) => {
        Err($crate::error::PlanError::invalid(format!($($arg)*)))
    };
}
pub(crate) use invalid;
