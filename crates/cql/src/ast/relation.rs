//! The WHERE clause: relations joined by AND.

use super::{BindMarker, Name, Term};

/// The signs that compare two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl ComparisonOperator {
    /// The sign as written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// What stands right of `column IN`.
#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// `(a, b)`, possibly empty.
    Terms(Vec<Term>),
    /// One marker for the whole list.
    Marker(BindMarker),
}

/// What stands right of `(a, b) IN`.
#[derive(Clone, Debug, PartialEq)]
pub enum TupleInValues {
    /// `((1, 2), (3, 4))`; `()` is the empty list.
    Literals(Vec<Vec<Term>>),
    /// `(?, ?)`: one marker for each tuple.
    Markers(Vec<BindMarker>),
    /// `?`: one marker for the list of tuples.
    Marker(BindMarker),
}

/// What stands right of `(a, b) >`.
#[derive(Clone, Debug, PartialEq)]
pub enum TupleValue {
    /// `(1, 2)`, whose elements may be markers.
    Literal(Vec<Term>),
    /// `?`: one marker for the whole tuple.
    Marker(BindMarker),
}

/// One part of a WHERE clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// `column = value` and its siblings.
    Compare {
        /// Left of the sign.
        column: Name,
        /// The sign.
        operator: ComparisonOperator,
        /// Right of the sign.
        value: Term,
    },
    /// `column IN ...`.
    In {
        /// Left of IN.
        column: Name,
        /// Right of IN.
        values: InValues,
    },
    /// `column CONTAINS value`.
    Contains {
        /// The collection.
        column: Name,
        /// The element.
        value: Term,
    },
    /// `column CONTAINS KEY value`.
    ContainsKey {
        /// The map.
        column: Name,
        /// The key.
        value: Term,
    },
    /// `column[key] = value` and its siblings.
    Element {
        /// The map.
        column: Name,
        /// The key in brackets.
        key: Term,
        /// The sign.
        operator: ComparisonOperator,
        /// Right of the sign.
        value: Term,
    },
    /// `column LIKE pattern`.
    Like {
        /// Left of LIKE.
        column: Name,
        /// The pattern.
        value: Term,
    },
    /// `column IS NOT NULL`.
    IsNotNull { column: Name },
    /// `token(a, b) > value` and its siblings.
    Token {
        /// The columns in parentheses.
        columns: Vec<Name>,
        /// The sign.
        operator: ComparisonOperator,
        /// Right of the sign.
        value: Term,
    },
    /// `(a, b) > (1, 2)` and its siblings.
    Tuple {
        /// The columns in parentheses.
        columns: Vec<Name>,
        /// The sign.
        operator: ComparisonOperator,
        /// Right of the sign.
        value: TupleValue,
    },
    /// `(a, b) IN ...`.
    TupleIn {
        /// The columns in parentheses.
        columns: Vec<Name>,
        /// Right of IN.
        values: TupleInValues,
    },
    /// `expr(index, value)`.
    IndexExpression {
        /// The index that is asked.
        index: Name,
        /// What it is asked.
        value: Term,
    },
}
