//! What can go wrong with sorted files.

use std::fmt;
use std::io;
use std::sync::Arc;

use types::CorruptRow;

/// The sorted files of a tree failed.
#[derive(Clone, Debug)]
pub enum TreeError {
    /// The operating system refused.
    Io(Arc<io::Error>),
    /// A block or file is not what was written.
    Corrupt(Arc<str>),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::Io(error) => write!(f, "{error}"),
            TreeError::Corrupt(what) => write!(f, "damaged: {what}"),
        }
    }
}

impl std::error::Error for TreeError {}

/// A value that its reader can make nothing of is damage like any other.
impl From<CorruptRow> for TreeError {
    fn from(corrupt: CorruptRow) -> TreeError {
        TreeError::Corrupt(Arc::from(corrupt.to_string()))
    }
}
