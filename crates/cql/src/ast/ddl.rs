//! CREATE, ALTER, DROP of schema objects, and TRUNCATE.

use super::{FunctionName, Name, QualifiedName, RawType, Relation, Selection, Term};

/// `WITH a = b AND ...`, in order, each key at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(pub Vec<(Name, PropertyValue)>);

impl Properties {
    /// The value of a property.
    pub fn get(&self, key: &str) -> Option<&PropertyValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

/// The right side of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant or keyword, by its text without quotes.
    Text(Box<str>),
    /// `{'k': 'v'}`, both by their text without quotes; each key once.
    Map(Vec<(Box<str>, Box<str>)>),
}

/// `CREATE KEYSPACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    /// The keyspace.
    pub name: Name,
    pub if_not_exists: bool,
    /// WITH.
    pub properties: Properties,
}

/// `ALTER KEYSPACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterKeyspace {
    /// The keyspace.
    pub name: Name,
    pub if_exists: bool,
    /// WITH.
    pub properties: Properties,
}

/// `DROP KEYSPACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropKeyspace {
    /// The keyspace.
    pub name: Name,
    pub if_exists: bool,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// The table.
    pub name: QualifiedName,
    pub if_not_exists: bool,
    /// Columns in the order written, no name twice.
    pub columns: Vec<ColumnDefinition>,
    /// The one PRIMARY KEY, wherever it was written; the planner refuses `None`.
    pub primary_key: Option<PrimaryKey>,
    /// CLUSTERING ORDER BY, in order, no column twice.
    pub clustering_order: Vec<ClusteringOrder>,
    pub compact_storage: bool,
    /// The other properties of WITH.
    pub properties: Properties,
}

/// A column of CREATE TABLE or of ALTER TABLE ADD.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    /// The column.
    pub name: Name,
    pub column_type: RawType,
    pub is_static: bool,
    pub mask: Option<ColumnMask>,
}

/// `MASKED WITH f(a, b)`; the argument for the column's value is not among the arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnMask {
    /// The function; `MASKED WITH DEFAULT` gives `system.mask_default`.
    pub function: FunctionName,
    /// Its further arguments.
    pub arguments: Vec<Term>,
}

/// `PRIMARY KEY ((a, b), c)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// Columns of the partition key, never empty.
    pub partition: Vec<Name>,
    /// Clustering columns.
    pub clustering: Vec<Name>,
}

/// A part of CLUSTERING ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringOrder {
    pub column: Name,
    /// DESC was written.
    pub descending: bool,
}

/// `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table.
    pub name: QualifiedName,
    /// IF EXISTS of the table.
    pub if_exists: bool,
    /// What changes.
    pub change: TableChange,
}

/// What an ALTER TABLE changes.
#[derive(Clone, Debug, PartialEq)]
pub enum TableChange {
    /// `ALTER c TYPE t`, which Cassandra parses and refuses later.
    AlterType {
        column: Name,
        /// The new type.
        column_type: RawType,
    },
    /// `ALTER c MASKED WITH ...` and, with `None`, `ALTER c DROP MASKED`.
    Mask {
        column: Name,
        /// IF EXISTS of the column.
        if_exists: bool,
        /// The new mask.
        mask: Option<ColumnMask>,
    },
    Add {
        /// IF NOT EXISTS of the columns.
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition>,
    },
    Drop {
        /// IF EXISTS of the columns.
        if_exists: bool,
        columns: Vec<Name>,
        /// USING TIMESTAMP, in microseconds.
        timestamp: Option<i64>,
    },
    /// `RENAME a TO b AND ...`.
    Rename {
        /// IF EXISTS of the columns.
        if_exists: bool,
        /// Old and new names.
        renames: Vec<(Name, Name)>,
    },
    DropCompactStorage,
    /// `WITH`.
    Properties(Properties),
}

/// `DROP TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropTable {
    /// The table.
    pub name: QualifiedName,
    pub if_exists: bool,
}

/// `TRUNCATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    pub table: QualifiedName,
}

/// `CREATE TYPE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    /// The type.
    pub name: QualifiedName,
    pub if_not_exists: bool,
    /// Fields in order; a name may come twice, which the planner refuses.
    pub fields: Vec<(Name, RawType)>,
}

/// `ALTER TYPE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterType {
    /// The type.
    pub name: QualifiedName,
    /// IF EXISTS of the type.
    pub if_exists: bool,
    /// What changes.
    pub change: TypeChange,
}

/// What an ALTER TYPE changes.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeChange {
    /// `ALTER f TYPE t`, which Cassandra parses and refuses later.
    AlterField {
        field: Name,
        /// The new type.
        field_type: RawType,
    },
    /// `ADD f t`.
    Add {
        /// IF NOT EXISTS of the field.
        if_not_exists: bool,
        field: Name,
        field_type: RawType,
    },
    /// `RENAME a TO b AND ...`.
    Rename {
        /// IF EXISTS of the fields.
        if_exists: bool,
        /// Old and new names.
        renames: Vec<(Name, Name)>,
    },
}

/// `DROP TYPE`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropType {
    /// The type.
    pub name: QualifiedName,
    pub if_exists: bool,
}

/// `CREATE INDEX`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// The index; the planner makes a name up when there is none.
    pub name: Option<Name>,
    pub table: QualifiedName,
    pub if_not_exists: bool,
    /// CREATE CUSTOM INDEX.
    pub custom: bool,
    /// What is indexed; may be empty, which the planner refuses or not.
    pub targets: Vec<IndexTarget>,
    pub using: Option<Box<str>>,
    /// WITH.
    pub properties: Properties,
}

/// What an index looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    pub column: Name,
    /// Which part of it.
    pub kind: IndexTargetKind,
}

/// Which part of a column an index looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexTargetKind {
    /// `c`.
    Simple,
    /// `values(c)`.
    Values,
    /// `keys(c)`.
    Keys,
    /// `entries(c)`.
    Entries,
    /// `full(c)`.
    Full,
}

/// `DROP INDEX`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropIndex {
    /// The index.
    pub name: QualifiedName,
    pub if_exists: bool,
}

/// `CREATE MATERIALIZED VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// The view.
    pub name: QualifiedName,
    pub if_not_exists: bool,
    /// What it shows.
    pub selection: Selection,
    /// The table it looks at.
    pub base: QualifiedName,
    /// WHERE, joined by AND.
    pub relations: Vec<Relation>,
    pub primary_key: PrimaryKey,
    /// CLUSTERING ORDER BY, in order, no column twice.
    pub clustering_order: Vec<ClusteringOrder>,
    /// The other properties of WITH.
    pub properties: Properties,
}

/// `ALTER MATERIALIZED VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterView {
    /// The view.
    pub name: QualifiedName,
    pub if_exists: bool,
    /// WITH.
    pub properties: Properties,
}

/// `DROP MATERIALIZED VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropView {
    /// The view.
    pub name: QualifiedName,
    pub if_exists: bool,
}

/// `CREATE FUNCTION`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    /// The function.
    pub name: FunctionName,
    pub or_replace: bool,
    pub if_not_exists: bool,
    /// Names and types of the arguments.
    pub arguments: Vec<(Name, RawType)>,
    /// CALLED ON NULL INPUT, not RETURNS NULL ON NULL INPUT.
    pub called_on_null_input: bool,
    pub return_type: RawType,
    /// LANGUAGE, in lower case.
    pub language: Box<str>,
    /// AS.
    pub body: Box<str>,
}

/// `DROP FUNCTION`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropFunction {
    /// The function.
    pub name: FunctionName,
    pub if_exists: bool,
    /// The types of its arguments, when written.
    pub argument_types: Option<Vec<RawType>>,
}

/// `CREATE AGGREGATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    /// The aggregate.
    pub name: FunctionName,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub argument_types: Vec<RawType>,
    /// SFUNC, of the aggregate's keyspace.
    pub state_function: Name,
    /// STYPE.
    pub state_type: RawType,
    /// FINALFUNC, of the aggregate's keyspace.
    pub final_function: Option<Name>,
    /// INITCOND.
    pub initial_condition: Option<Term>,
}

/// `DROP AGGREGATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropAggregate {
    /// The aggregate.
    pub name: FunctionName,
    pub if_exists: bool,
    /// The types of its arguments, when written.
    pub argument_types: Option<Vec<RawType>>,
}

/// `CREATE TRIGGER`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTrigger {
    /// The trigger.
    pub name: Name,
    pub table: QualifiedName,
    pub if_not_exists: bool,
    /// USING.
    pub class: Box<str>,
}

/// `DROP TRIGGER`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropTrigger {
    /// The trigger.
    pub name: Name,
    pub table: QualifiedName,
    pub if_exists: bool,
}
