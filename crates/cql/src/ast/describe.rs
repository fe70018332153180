//! DESCRIBE.

use super::{FunctionName, Name, QualifiedName};

/// `DESCRIBE ... [WITH INTERNALS]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Describe {
    /// What is described.
    pub target: DescribeTarget,
    /// WITH INTERNALS.
    pub with_internals: bool,
}

/// What DESCRIBE describes.
#[derive(Clone, Debug, PartialEq)]
pub enum DescribeTarget {
    /// CLUSTER.
    Cluster,
    /// SCHEMA, or FULL SCHEMA with the system keyspaces.
    Schema {
        /// FULL.
        full: bool,
    },
    /// KEYSPACES.
    Keyspaces,
    /// \[ONLY\] KEYSPACE \[k\]; without a name, the one in use.
    Keyspace {
        /// The keyspace.
        name: Option<Name>,
        /// ONLY: without its tables.
        only: bool,
    },
    /// TABLES.
    Tables,
    /// TABLE t.
    Table(QualifiedName),
    /// INDEX i.
    Index(QualifiedName),
    /// MATERIALIZED VIEW v.
    View(QualifiedName),
    /// TYPES.
    Types,
    /// TYPE t.
    Type(QualifiedName),
    /// FUNCTIONS.
    Functions,
    /// FUNCTION f.
    Function(FunctionName),
    /// AGGREGATES.
    Aggregates,
    /// AGGREGATE a.
    Aggregate(FunctionName),
    /// A name alone: keyspace, table, index or view.
    Any(QualifiedName),
}
