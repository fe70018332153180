//! Keyspaces, tables, types and indexes; definitions as `Schema → Schema`; the system's own tables.
//!
//! It must not know who stores it, and reads no clock: ids and times are handed in.
//!
//! Reading order: [`model`], [`options`], then the definitions.
pub mod model;
pub mod options;

pub use model::{
    Column, ColumnKind, DroppedColumn, Index, IndexTarget, Keyspace, KeyspaceKind, Schema, Table,
    TableShape,
};
pub use options::{KeyspaceOptions, TableOptions, Throughput};
