//! What can be wrong with a log that is read.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A log cannot be read.
#[derive(Debug)]
pub enum LogError {
    /// The operating system refused.
    Io { path: PathBuf, error: io::Error },
    /// Bytes that were known to be on the disk are not what was written.
    Damaged { path: PathBuf, offset: u64, what: &'static str },
    /// Written by a version of Helenus that this one does not know.
    UnknownVersion { path: PathBuf, version: u16 },
}

impl LogError {
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> LogError {
        let path = path.into();
        move |error| LogError::Io { path, error }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            LogError::Damaged { path, offset, what } => {
                write!(f, "{} is damaged at offset {offset}: {what}", path.display())
            }
            LogError::UnknownVersion { path, version } => {
                write!(f, "{} has the unknown format version {version}", path.display())
            }
        }
    }
}

impl std::error::Error for LogError {}
