//! INSERT, UPDATE, DELETE, BATCH.

use super::{BindMarker, ComparisonOperator, InValues, Name, QualifiedName, Relation, Term};

/// `USING TIMESTAMP t AND TTL s`; each is an integer constant or a marker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// Microseconds since the epoch.
    pub timestamp: Option<Term>,
    /// Seconds to live.
    pub ttl: Option<Term>,
}

/// `INSERT INTO ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    pub table: QualifiedName,
    /// Columns and values, or JSON.
    pub source: InsertSource,
    pub if_not_exists: bool,
    /// USING.
    pub attributes: Attributes,
}

/// Where an INSERT has its values from.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// `(a, b) VALUES (1, 2)`; the two lists may differ in length, which the planner refuses.
    Values {
        columns: Vec<Name>,
        /// Their values.
        values: Vec<Term>,
    },
    /// `JSON '...'`.
    Json {
        /// The document.
        value: JsonValue,
        /// DEFAULT UNSET: columns that the document lacks are left alone, not nulled.
        default_unset: bool,
    },
}

/// A JSON document.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonValue {
    /// The text, unquoted.
    Literal(Box<str>),
    Marker(BindMarker),
}

/// `UPDATE ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub table: QualifiedName,
    /// USING.
    pub attributes: Attributes,
    /// SET, in order; never empty.
    pub assignments: Vec<Assignment>,
    /// WHERE, joined by AND.
    pub relations: Vec<Relation>,
    /// IF.
    pub condition: Option<Condition>,
}

/// One part of SET.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub column: Name,
    /// What happens to it.
    pub operation: AssignmentOperation,
}

/// What an UPDATE does to a column `c`.
#[derive(Clone, Debug, PartialEq)]
pub enum AssignmentOperation {
    /// `c = term`.
    Set(Term),
    /// `c = c + term`, `c += term`; also `c = c -3`, whose term is the negative number.
    Add(Term),
    /// `c = c - term`, `c -= term`.
    Subtract(Term),
    /// `c = term + c`.
    Prepend(Term),
    /// `c[key] = term`.
    SetElement {
        /// Key of a map or index of a list.
        key: Term,
        /// The new value.
        value: Term,
    },
    /// `c.field = term`.
    SetField {
        /// Field of a user type.
        field: Name,
        /// The new value.
        value: Term,
    },
}

/// IF.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `IF EXISTS`.
    Exists,
    /// `IF a = 1 AND ...`, never empty.
    Columns(Vec<ColumnCondition>),
}

/// One part of IF.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnCondition {
    pub column: Name,
    /// Which part of it.
    pub path: ConditionPath,
    /// What must hold.
    pub test: ConditionTest,
}

/// Which part of the column is tested.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionPath {
    /// The whole.
    Column,
    /// `[key]`.
    Element(Term),
    Field(Name),
}

/// The test of a condition. CONTAINS comes with the whole column only.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionTest {
    /// A sign and a value.
    Compare(ComparisonOperator, Term),
    /// IN.
    In(InValues),
    Contains(Term),
    ContainsKey(Term),
}

/// `DELETE ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// What is deleted of the row; empty means the whole row.
    pub deletions: Vec<Deletion>,
    pub table: QualifiedName,
    /// USING TIMESTAMP; `ttl` is never set.
    pub attributes: Attributes,
    /// WHERE, joined by AND.
    pub relations: Vec<Relation>,
    /// IF.
    pub condition: Option<Condition>,
}

/// One deleted thing.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// `c`.
    Column(Name),
    /// `c[key]`.
    Element {
        /// The collection.
        column: Name,
        /// Key of a map, index of a list, or element of a set.
        key: Term,
    },
    /// `c.field`.
    Field {
        /// The user type's column.
        column: Name,
        field: Name,
    },
}

/// Statements that change rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

/// `BEGIN BATCH ... APPLY BATCH`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// LOGGED unless said otherwise.
    pub kind: BatchKind,
    /// USING.
    pub attributes: Attributes,
    /// In order; may be empty.
    pub statements: Vec<Modification>,
}

/// Kinds of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}
