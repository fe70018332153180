//! Values as written. The kind of a constant is only what it looks like; the type check decides.

use super::{FunctionName, Name, NativeType, RawType};

/// What a constant looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConstantKind {
    String,
    Integer,
    Float,
    Boolean,
    Uuid,
    Hex,
    Duration,
}

/// A literal with the text it was written as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constant {
    /// What it looks like.
    pub kind: ConstantKind,
    /// Its text: a string without quotes and escapes, a hex number with its `0x`, everything else
    /// as written. NaN and infinities are `Float` with the text `NaN`, `Infinity` or `-Infinity`.
    pub text: Box<str>,
}

/// Position of a bind marker in the statement, counted from 0, left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindMarker(pub u32);

impl BindMarker {
    /// The position as an index into the list of values.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The signs of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl ArithmeticOperator {
    /// The sign as written.
    pub fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Modulo => '%',
        }
    }
}

/// A value outside of a select clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A literal.
    Constant(Constant),
    Null,
    /// `?` or `:name`.
    Marker(BindMarker),
    /// `[a, b]`: a list or a vector.
    List(Vec<Term>),
    /// `{a, b}`; `{}` is this too and may mean an empty map.
    Set(Vec<Term>),
    /// `{k: v}` whose first key is not an identifier.
    Map(Vec<(Term, Term)>),
    /// `{field: value}`. When a field is written twice, the later entry counts.
    UserType(Vec<(Name, Term)>),
    /// `(a, b)`; also `(a)`, as CQL has no parentheses for grouping.
    Tuple(Vec<Term>),
    /// `f(a, b)`.
    Function {
        /// The function.
        name: FunctionName,
        arguments: Vec<Term>,
    },
    /// `CAST(a AS type)`.
    Cast {
        /// What is cast.
        term: Box<Term>,
        /// To which type.
        target: NativeType,
    },
    /// `(type) a`.
    TypeHint {
        /// The type in parentheses.
        hint: RawType,
        /// What it is said of.
        term: Box<Term>,
    },
    /// `a + b` and its siblings.
    Operation {
        /// Left operand.
        left: Box<Term>,
        /// The sign.
        operator: ArithmeticOperator,
        /// Right operand.
        right: Box<Term>,
    },
    /// `-a`, where `a` is no number literal.
    Negation(Box<Term>),
}
