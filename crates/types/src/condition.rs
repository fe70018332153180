//! What a conditional write asks of the current rows, judged when it is applied.

use bytes::Bytes;

use crate::ids::ColumnId;
use crate::key::RowPosition;

/// All checks must hold, or nothing of the mutation is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The rows that are looked at; each once.
    pub rows: Vec<RowCondition>,
}

/// What is asked of one row. Static columns are asked of [`RowPosition::Static`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCondition {
    /// Which row.
    pub position: RowPosition,
    /// What must hold.
    pub checks: Vec<Check>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// `IF NOT EXISTS`
    NotExists,
    /// `IF EXISTS`
    Exists,
    /// `IF column operator value`
    Column {
        column: ColumnId,
        /// The column or a part of it.
        part: ColumnPart,
        /// How it is compared.
        operator: Comparison,
        /// With what; several for `IN`. `None` is null.
        values: Vec<Option<Bytes>>,
    },
    /// Something is wrong with a value: an error for who comes to it, which is only where every check
    /// before it holds.
    Refused(String),
}

/// What of a column a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnPart {
    /// All of it.
    Whole,
    /// The value at a map's key (as the protocol encodes the key), frozen or not.
    MapValue(Bytes),
    /// The value at a list's index, frozen or not.
    ListIndex(i32),
    /// A field of a user type, by its index.
    Field(u16),
}

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal = 0,
    /// `!=`
    NotEqual = 1,
    /// `<`
    Less = 2,
    /// `<=`
    LessOrEqual = 3,
    /// `>`
    Greater = 4,
    /// `>=`
    GreaterOrEqual = 5,
    /// `IN`
    In = 6,
    NotIn = 7,
    Contains = 8,
    ContainsKey = 9,
    NotContains = 10,
    NotContainsKey = 11,
    Like = 12,
}
