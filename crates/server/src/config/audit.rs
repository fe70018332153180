//! What is kept of what people do.

use std::path::PathBuf;
use std::time::Duration;

/// Cassandra's kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Category {
    Query,
    Dml,
    Ddl,
    Dcl,
    Auth,
    Error,
    Prepare,
    Other,
}

impl Category {
    /// All, with their names.
    pub(crate) const ALL: [(Category, &'static str); 8] = [
        (Category::Query, "QUERY"),
        (Category::Dml, "DML"),
        (Category::Ddl, "DDL"),
        (Category::Dcl, "DCL"),
        (Category::Auth, "AUTH"),
        (Category::Error, "ERROR"),
        (Category::Prepare, "PREPARE"),
        (Category::Other, "OTHER"),
    ];
}

/// Which of something are wanted. Who is on both lists is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice<T> {
    /// Only these; none: all.
    pub(crate) included: Vec<T>,
    /// Not these.
    pub(crate) excluded: Vec<T>,
}

impl<T> Default for Choice<T> {
    fn default() -> Choice<T> {
        Choice { included: Vec::new(), excluded: Vec::new() }
    }
}

impl<T> Choice<T> {
    /// Whether one is wanted.
    pub(crate) fn has<Q: ?Sized>(&self, wanted: &Q) -> bool
    where
        T: PartialEq<Q>,
    {
        let is_on = |list: &[T]| list.iter().any(|item| item == wanted);
        !is_on(&self.excluded) && (self.included.is_empty() || is_on(&self.included))
    }
}

/// The audit log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Audit {
    pub(crate) enabled: bool,
    /// `None`: `audit` in the data folder.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) categories: Choice<Category>,
    pub(crate) keyspaces: Choice<String>,
    pub(crate) users: Choice<String>,
    /// Whether literals are shown; passwords never are.
    pub(crate) statement_values: bool,
    /// A file that is larger is closed.
    pub(crate) file_bytes: u64,
    /// A file that is older is closed.
    pub(crate) file_age: Duration,
    /// Of all files together so much is kept.
    pub(crate) kept_bytes: u64,
}
