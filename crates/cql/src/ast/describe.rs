//! DESCRIBE.

use super::{FunctionName, Name, QualifiedName};

/// `DESCRIBE ... [WITH INTERNALS]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Describe {
    /// What is described.
    pub target: DescribeTarget,
    pub with_internals: bool,
}

/// What DESCRIBE describes.
#[derive(Clone, Debug, PartialEq)]
pub enum DescribeTarget {
    Cluster,
    /// SCHEMA, or FULL SCHEMA with the system keyspaces.
    Schema {
        full: bool,
    },
    Keyspaces,
    /// \[ONLY\] KEYSPACE \[k\]; without a name, the one in use.
    Keyspace {
        /// The keyspace.
        name: Option<Name>,
        /// ONLY: without its tables.
        only: bool,
    },
    Tables,
    /// TABLE t.
    Table(QualifiedName),
    /// INDEX i.
    Index(QualifiedName),
    /// MATERIALIZED VIEW v.
    View(QualifiedName),
    Types,
    /// TYPE t.
    Type(QualifiedName),
    Functions,
    /// FUNCTION f.
    Function(FunctionName),
    Aggregates,
    /// AGGREGATE a.
    Aggregate(FunctionName),
    /// A name alone: keyspace, table, index or view.
    Any(QualifiedName),
}
