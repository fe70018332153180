//! Keyspaces, tables, types and indexes; definitions as `Schema → Schema`; the system's own tables.
//!
//! It must not know who stores it, and reads no clock: ids and times are handed in.
//!
//! Reading order: [`model`] and [`options`] say what a schema is, [`ddl`] how a statement changes
//! it, [`persist`] how it is written down, [`system`] what is there before any user, [`describe`]
//! how it is shown.
pub mod ddl;
pub mod describe;
mod difference;
mod error;
mod java;
mod java_class;
mod mask_text;
pub mod model;
pub mod options;
pub mod persist;
mod ruler;
pub mod system;
mod type_text;

pub use ddl::{
    ChangeKind, ChangeTarget, DdlContext, Profile, SchemaChange, SchemaEvent, apply,
    is_system_keyspace, is_virtual_keyspace, resolve_type, truncated_table,
};
pub use describe::{DescribeResult, describe};
pub use difference::Difference;
pub use error::SchemaError;
pub use java_class::parse_class;
pub use model::{
    Column, ColumnKind, DroppedColumn, Index, IndexTarget, Keyspace, KeyspaceKind, Schema, Table,
    TableShape,
};
pub use options::{KeyspaceOptions, TableOptions, Throughput};
pub use ruler::{KeyShape, Ruler};
pub use system::{IndexBuildFacts, NodeFacts, VirtualRow, initial_schema, virtual_rows};
pub use type_text::parse_type;
