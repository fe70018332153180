//! Why a text is not a statement.

use std::fmt;

/// A refusal of the parser, with the message that the client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntaxError {
    /// The text breaks the grammar (on the wire: syntax error).
    Grammar(Box<str>),
    /// The text keeps the grammar but contradicts itself (on the wire: invalid query).
    Invalid(Box<str>),
}

impl SyntaxError {
    /// The text for the client.
    pub fn message(&self) -> &str {
        match self {
            Self::Grammar(message) | Self::Invalid(message) => message,
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for SyntaxError {}
