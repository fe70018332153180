//! The vocabulary that every room shares: CQL types and values, tokens and rings, keys, rows and
//! cells, and the three commands that cross from the coordinator to a replica set.
//!
//! It must not know schemas, sockets, files or clocks: everything here is data and pure functions.
//!
//! Reading order: [`CqlType`] and [`value`] say what a value is; [`token`] and [`key`] where it
//! lies; [`row`] how it is kept; [`mutation`], [`condition`] and [`read`] what is asked of a
//! replica set, [`outcome`] what it answers, [`codec`] how mutations lie in the log, and [`travel`] how all of it crosses to
//! other nodes.
mod assemble;
pub mod codec;
#[cfg(test)]
mod codec_tests;
pub mod condition;
mod cql_type;
mod ids;
pub mod key;
mod list_id;
mod map_cell;
pub mod mutation;
pub mod outcome;
pub mod read;
pub mod row;
pub mod token;
pub mod travel;
pub mod value;

pub use assemble::assemble;
pub use condition::{Check, ColumnPart, Comparison, Condition, RowCondition};
pub use cql_type::{CqlType, UserType, quote_identifier};
pub use ids::{ColumnId, NodeId, ReplicaId, SetId, TableId, UuidText};
pub use key::{ClusteringRange, PartitionKey, RowPosition, successor};
pub use list_id::ListId;
pub use map_cell::{map_cell, split_map_cell};
pub use mutation::{
    CellAction, CellChange, Deletion, Expiry, Liveness, Mutation, Operation, RowChange,
};
pub use outcome::{CurrentRow, Done, Outcome, Refusal};
pub use read::{
    Flow, HiddenCells, IndexQuestion, LiveCells, LiveRow, ReadCommand, ReadPosition, ReadScope,
    RowSelection, RowSink, Statics,
};
pub use row::{
    CellRef, CellState, Cells, CorruptRow, RowView, RowWriter, SpilledKind, SpilledPart,
    with_spilled,
};
pub use token::{RingRange, RingToken, Token};
