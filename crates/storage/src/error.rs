//! What can go wrong, by who asked: opening, committing, reading.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use node_log::LogError;
pub use tree::TreeError;
use types::{Refusal, TableId};

/// The data folder cannot be opened. The message says which file and what to do.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it open.
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// A restore began and did not end.
    Restoring {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing of Helenus is in the folder.
    NoData {
        /// The folder.
        path: PathBuf,
    },
    /// The operating system refused.
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Bytes that were known to be on the disk are not what was written.
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
        /// What cannot be relied on because of it.
        affected: Affected,
    },
    /// Sorted files are there, but no log: they cannot be relied on without it.
    LogMissing {
        /// The folder of the log.
        path: PathBuf,
    },
    /// Written by a version of Helenus that this one does not know.
    UnknownVersion {
        /// Which file.
        path: PathBuf,
        /// What it says.
        version: u16,
    },
    /// The sorted files of a table cannot be opened.
    Tree {
        /// Which table.
        table: TableId,
        /// Why.
        error: TreeError,
    },
}

/// Which commands help.
const WAY_OUT: &str = "`helenus check` tells all damage, `helenus restore` brings back a snapshot, `helenus salvage --to NEWDIR` saves what can be read";

/// What damage makes unreliable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Writes that are only in the log.
    Log,
    /// A small document: the schema, the partitions, the roles, the identity.
    Document(String),
    /// The rows of a table.
    Table(TableId),
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Affected::Log => f.write_str("writes from this place on that are not in sorted files"),
            Affected::Document(name) => write!(f, "the document {name:?}"),
            Affected::Table(table) => write!(f, "table {table}"),
        }
    }
}

impl OpenError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> OpenError {
        let path = path.into();
        move |error| OpenError::Io { path, error }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Locked { path } => write!(
                f,
                "the data folder {} is in use by another process; stop it, or choose another folder",
                path.display()
            ),
            OpenError::Restoring { path } => write!(
                f,
                "a restore of {} was interrupted; run `helenus restore` again",
                path.display()
            ),
            OpenError::NoData { path } => {
                write!(f, "{} is not a data folder of Helenus", path.display())
            }
            OpenError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            OpenError::Damaged { path, offset, what, affected } => write!(
                f,
                "{} is damaged at offset {offset}: {what}; affected: {affected}. {WAY_OUT}",
                path.display()
            ),
            OpenError::LogMissing { path } => write!(
                f,
                "there are sorted files, but no log in {}: was it removed? Affected: whatever was not yet in sorted files. {WAY_OUT}",
                path.display()
            ),
            OpenError::UnknownVersion { path, version } => write!(
                f,
                "{} has format version {version}, which this version of Helenus does not know; start the version that wrote it. {WAY_OUT}",
                path.display()
            ),
            OpenError::Tree { table, error } => {
                write!(f, "the files of table {table} cannot be opened: {error}. {WAY_OUT}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> OpenError {
        match error {
            LogError::Io { path, error } => OpenError::Io { path, error },
            LogError::Damaged { path, offset, what } => {
                OpenError::Damaged { path, offset, what, affected: Affected::Log }
            }
            LogError::UnknownVersion { path, version } => {
                OpenError::UnknownVersion { path, version }
            }
        }
    }
}

/// A change was not committed, or it is unknown whether it was.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// A mutation cannot be applied to the row as it is: an answer, nothing of it was applied.
    Refused(Refusal),
    /// More bytes than one change may have.
    TooLarge {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        bytes_max: usize,
    },
    /// A clustering key longer than storage keeps.
    ClusteringTooLong {
        /// How many bytes it takes.
        bytes: usize,
        /// How many it may take.
        bytes_max: usize,
    },
    /// The disk is full; reads go on, and writes work again when there is space.
    DiskFull,
    /// The system is short of something else, such as descriptors; writes work again when it is not.
    CannotWriteNow(Arc<str>),
    /// The log could not be written or synced: nothing is acknowledged any more until a restart.
    LogFailed(Arc<str>),
    /// The row to be changed could not be read, or its table's files could not be written.
    Tree {
        /// Which table.
        table: TableId,
        /// Why.
        error: TreeError,
    },
    /// Sorted files are not written as fast as changes come; later it may work.
    Overloaded,
    /// A replica set has ended, and another one holds its keys. Who commits locates them again.
    Moved,
    /// A mutation was planned by a definition of its table that is not in force any more. Nothing was
    /// done, and it is to be planned again.
    Stale,
    /// The request came to be judged after its last second; nothing of it was applied, nor will be.
    TooLate,
    /// Too few members of the set are alive: nothing was done, nor will be.
    Unavailable {
        /// So many are needed.
        required: usize,
        /// So many are.
        alive: usize,
    },
    /// No answer came in time: it may have been done, or be done later.
    TimedOut,
    /// Storage was closed.
    Closed,
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::Refused(refusal) => write!(f, "{refusal}"),
            CommitError::TooLarge { bytes, bytes_max } => write!(
                f,
                "Mutation of {bytes} bytes is too large for the maximum size of {bytes_max}"
            ),
            CommitError::ClusteringTooLong { bytes, bytes_max } => write!(
                f,
                "Clustering columns of {bytes} bytes are too long, the maximum is {bytes_max}"
            ),
            CommitError::DiskFull => f.write_str("the disk is full, writes are refused"),
            CommitError::CannotWriteNow(why) => {
                write!(f, "the disk cannot be written now ({why}), writes are refused until it can")
            }
            CommitError::LogFailed(why) => {
                write!(f, "the log failed ({why}); the node must be restarted")
            }
            CommitError::Tree { table, error } => write!(f, "table {table}: {error}"),
            CommitError::Overloaded => f.write_str("writes come faster than the disk takes them"),
            CommitError::Moved => f.write_str("the physical partition was split or merged"),
            CommitError::Stale => f.write_str("the table was altered meanwhile"),
            CommitError::TooLate => f.write_str("the request was too late to be applied"),
            CommitError::Unavailable { required, alive } => {
                write!(f, "Cannot achieve consistency: {alive} of {required} replicas are alive")
            }
            CommitError::TimedOut => f.write_str("no answer came in time"),
            CommitError::Closed => f.write_str("storage is closed"),
        }
    }
}

impl std::error::Error for CommitError {}

/// A read failed.
#[derive(Clone, Debug)]
pub enum ReadError {
    /// What is stored is not what was written: never wrong data, always this.
    Corrupt {
        /// Which table.
        table: TableId,
        /// What was seen.
        what: Arc<str>,
    },
    /// The operating system refused.
    Io {
        /// Which table.
        table: TableId,
        /// Why.
        error: Arc<io::Error>,
    },
}

impl ReadError {
    pub(crate) fn of_tree(table: TableId) -> impl Fn(TreeError) -> ReadError {
        move |error| match error {
            TreeError::Io(error) => ReadError::Io { table, error },
            TreeError::Corrupt(what) => ReadError::Corrupt { table, what },
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Corrupt { table, what } => write!(f, "table {table} is damaged: {what}"),
            ReadError::Io { table, error } => write!(f, "table {table}: {error}"),
        }
    }
}

impl std::error::Error for ReadError {}
