//! What comes out: a prepared statement, and the plan of one execution.

use std::borrow::Cow;
use std::sync::Arc;

use cql::ast::{BatchKind, Name, Statement};
use schema::{Index, Table};
use types::{CqlType, Mutation, PartitionKey, RingRange, RowSelection, Statics, TableId};

use crate::modify::{ConditionalResult, PreparedBatch, PreparedModification};
use crate::restriction::Filters;
use crate::select::{PreparedSelect, Selection};

/// What a bind marker takes.
#[derive(Clone, Debug, PartialEq)]
pub struct BindVariable {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// The marker's own name, or that of what it is for.
    pub name: Arc<str>,
    /// The type of its values.
    pub cql_type: CqlType,
}

/// A column of a result set.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultColumn {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// The name: an alias, a column, or the text of an expression.
    pub name: Arc<str>,
    /// The type of its values.
    pub cql_type: CqlType,
}

/// A statement, checked against a schema, ready to be bound to values any number of times.
#[derive(Debug)]
pub struct Prepared {
    /// What clients execute it by: the MD5 of the text, with the keyspace in use before it unless
    /// the statement names every keyspace itself.
    pub id: [u8; 16],
    /// Changes whenever the result columns do.
    pub result_metadata_id: [u8; 16],
    /// What its markers take, in order.
    pub bind_variables: Vec<BindVariable>,
    /// For each partition key column, the marker that gives it; empty unless all are markers.
    pub partition_key_indices: Vec<u16>,
    /// The columns of its result set; empty for everything but SELECT.
    pub result_columns: Arc<[ResultColumn]>,
    /// The keyspace in use when it was prepared, unless the statement names every keyspace itself.
    pub keyspace: Option<Arc<str>>,
    /// The tables it was checked against: it must be prepared again when one of them changes.
    pub tables: Vec<TableId>,
    /// What it is.
    pub kind: PreparedKind,
}

/// What a prepared statement is.
#[derive(Debug)]
pub enum PreparedKind {
    Select(Box<PreparedSelect>),
    /// INSERT, UPDATE, DELETE.
    Modify(Box<PreparedModification>),
    Batch(Box<PreparedBatch>),
    /// Everything without values.
    Other(Arc<Statement>),
    Truncate(Arc<Table>),
    Explain(Box<Prepared>),
}

/// How a statement comes to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads logical partitions that it names.
    Read,
    /// It reads a part of the ring.
    Scan,
    /// It writes.
    Write,
}

/// One execution of a statement, everything validated.
#[derive(Debug)]
pub enum Plan<'a> {
    /// Rows are read.
    Select(Box<SelectPlan<'a>>),
    /// Rows of one table are changed.
    Modify(ModifyPlan<'a>),
    /// Rows of several tables are changed, all or none.
    Batch(BatchPlan),
    /// A definition changes.
    Schema(&'a Arc<Statement>),
    /// Another keyspace is used from now on.
    Use(&'a Name),
    /// A table is emptied.
    Truncate(&'a Arc<Table>),
    /// Roles and permissions change or are listed.
    Roles(&'a Arc<Statement>),
    /// Definitions are shown.
    Describe(&'a Arc<Statement>),
    /// The plan is shown, not run.
    Explain(Box<Plan<'a>>),
}

/// Which logical partitions are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogicalPartitions {
    /// One.
    Key(PartitionKey),
    /// Several, in the order of their values, each once; none for an empty list.
    Keys(Vec<PartitionKey>),
    /// All that lie in these parts of the ring, which are in order and do not overlap; none for an
    /// empty list.
    Ring(Vec<RingRange>),
}

/// A read.
#[derive(Debug)]
pub struct SelectPlan<'a> {
    pub table: &'a Arc<Table>,
    /// Which logical partitions.
    pub partitions: LogicalPartitions,
    /// Which rows of each, as bytes.
    pub rows: RowSelection,
    /// From the last row of each logical partition to the first.
    pub reversed: bool,
    /// What becomes of static rows.
    pub statics: Statics,
    /// What rows must hold beyond keys and ranges.
    pub filters: Filters<'a>,
    /// What is computed from each row, or from all of a group.
    pub selection: &'a Selection,
    /// Where columns are in the rows of the table.
    pub layout: &'a crate::row::RowLayout,
    /// The short way from a row to the result, where values are shown as they are.
    pub projection: Option<&'a crate::select::Projection>,
    /// The columns outside of the key that are looked at, by id, sorted.
    pub read_columns: &'a Arc<[types::ColumnId]>,
    /// At most one row per logical partition counts; only partition key and static columns are read.
    pub distinct: bool,
    /// GROUP BY; with it, LIMIT and PER PARTITION LIMIT count groups.
    pub grouping: Option<&'a crate::select::Grouping>,
    /// The order over all logical partitions, where it is not the order of the read (IN on the
    /// partition key with ORDER BY): collect everything, sort by key, then limit.
    pub sort: Option<&'a crate::select::Sort>,
    pub limit: Option<u32>,
    pub per_partition_limit: Option<u32>,
    /// Rows per page; `None` when the result comes in one piece.
    pub page_size: Option<u32>,
    /// The indexes of which one may give the candidates; the filters still hold for each of them.
    pub indexes: Vec<IndexLookup<'a>>,
    /// The second since the epoch at which expiry is judged.
    pub now_s: u32,
    /// Values, clock and uuids, for the selection and the groups.
    pub evaluation: crate::expression::Evaluation<'a>,
    /// What the client is told besides the result.
    pub warnings: Vec<String>,
}

/// A lookup in a secondary index.
#[derive(Clone, Debug)]
pub struct IndexLookup<'a> {
    pub index: &'a Arc<Index>,
    /// The indexed value: of a column or element as the protocol encodes it.
    pub value: Cow<'a, [u8]>,
    /// For an index on map entries: the value of the entry, `value` is its key.
    pub entry_value: Option<Cow<'a, [u8]>>,
}

/// A change of one table.
#[derive(Debug)]
pub struct ModifyPlan<'a> {
    pub table: &'a Arc<Table>,
    /// One per logical partition; empty when nothing changes.
    pub mutations: Vec<Mutation>,
    /// How a conditional write answers; `None` when it has no condition. Then there is exactly one
    /// mutation.
    pub conditional: Option<ConditionalResult>,
    /// Whether counters change.
    pub is_counter: bool,
    /// What the client is told besides the result.
    pub warnings: Vec<String>,
}

/// A batch.
#[derive(Debug)]
pub struct BatchPlan {
    /// LOGGED, UNLOGGED or COUNTER.
    pub kind: BatchKind,
    /// One per table and logical partition, in the order they first came.
    pub mutations: Vec<Mutation>,
    /// How a conditional batch answers; `None` when it has no condition. Then there is exactly one
    /// mutation.
    pub conditional: Option<ConditionalResult>,
    /// What the client is told besides the result.
    pub warnings: Vec<String>,
}
