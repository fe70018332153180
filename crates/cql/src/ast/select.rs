//! SELECT.

use super::{
    ArithmeticOperator, FunctionName, Name, NativeType, QualifiedName, RawType, Relation, Term,
};

/// `SELECT ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `SELECT JSON`.
    pub json: bool,
    /// `SELECT DISTINCT`.
    pub distinct: bool,
    /// What is selected.
    pub selection: Selection,
    pub table: QualifiedName,
    /// WHERE, joined by AND.
    pub relations: Vec<Relation>,
    pub group_by: Vec<Selector>,
    pub order_by: Vec<Ordering>,
    /// PER PARTITION LIMIT: an integer constant or a marker.
    pub per_partition_limit: Option<Term>,
    /// LIMIT: an integer constant or a marker.
    pub limit: Option<Term>,
    pub allow_filtering: bool,
}

/// What stands between SELECT and FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`.
    Wildcard,
    /// A list, never empty.
    Selectors(Vec<AliasedSelector>),
}

/// A selector with its optional `AS alias`.
#[derive(Clone, Debug, PartialEq)]
pub struct AliasedSelector {
    /// What is selected.
    pub selector: Selector,
    /// The name of the result column, when one was given.
    pub alias: Option<Name>,
}

/// The functions that look at the envelope of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellFunction {
    /// `writetime(c)`.
    WriteTime,
    /// `maxwritetime(c)`.
    MaxWriteTime,
    /// `ttl(c)`.
    Ttl,
}

impl CellFunction {
    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteTime => "writetime",
            Self::MaxWriteTime => "maxwritetime",
            Self::Ttl => "ttl",
        }
    }
}

/// One selected thing.
#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    Column(Name),
    /// A constant, `null` or a marker.
    Term(Term),
    /// `count(*)`.
    CountRows,
    /// `f(a, b)`, also `count(c)` and `token(a, b)`.
    Function {
        /// The function.
        name: FunctionName,
        arguments: Vec<Selector>,
    },
    /// `writetime(c)`, `maxwritetime(c)`, `ttl(c)`.
    Cell {
        /// Which of the three.
        function: CellFunction,
        /// A column, or an element, slice or field of one.
        argument: Box<Selector>,
    },
    /// `CAST(a AS type)`.
    Cast {
        /// What is cast.
        selector: Box<Selector>,
        /// To which type.
        target: NativeType,
    },
    /// `(type) a`.
    TypeHint {
        /// The type in parentheses.
        hint: RawType,
        /// What it is said of.
        selector: Box<Selector>,
    },
    Field {
        /// Left of the dot.
        receiver: Box<Selector>,
        /// Right of the dot.
        field: Name,
    },
    /// `a[key]`.
    Element {
        /// Left of the brackets.
        receiver: Box<Selector>,
        /// In the brackets.
        key: Term,
    },
    /// `a[from..to]`, at least one end given.
    Slice {
        /// Left of the brackets.
        receiver: Box<Selector>,
        /// First key, inclusive.
        from: Option<Term>,
        /// Last key, inclusive.
        to: Option<Term>,
    },
    /// `(a, b)`: a tuple, or with one element maybe only parentheses.
    Parenthesized(Vec<Selector>),
    /// `[a, b]`: a list or a vector.
    List(Vec<Selector>),
    /// `{a, b}`; `{}` is this too and may mean an empty map.
    Set(Vec<Selector>),
    /// `{k: v}`: a map or a user type.
    MapOrUserType(Vec<(Selector, Selector)>),
    /// `a + b` and its siblings.
    Operation {
        /// Left operand.
        left: Box<Selector>,
        /// The sign.
        operator: ArithmeticOperator,
        /// Right operand.
        right: Box<Selector>,
    },
    /// `-a`, where `a` is no number literal.
    Negation(Box<Selector>),
}

/// One part of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordering {
    pub column: Name,
    /// `ANN OF term`.
    pub ann_of: Option<Term>,
    /// DESC was written.
    pub descending: bool,
}
