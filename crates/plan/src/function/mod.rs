//! Functions: what they are, and which one a call means.
//!
//! [`resolve`] picks the overload as Cassandra does. The native functions themselves live in the
//! modules beside this one; `native::candidates` gathers them by name.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use cql::ast::FunctionName;
use schema::Table;
use types::CqlType;

use crate::error::PlanError;
use crate::values::BindContext;

mod aggregate;
mod cast;
mod collection;
mod conversion;
mod masking;
mod native;
mod operator;
mod resolve;
mod scalar;
mod time;

pub use resolve::resolve;
pub(crate) use resolve::{is_made_from_arguments, operator_sign};

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name without its keyspace; all functions are of the keyspace `system`.
    pub name: Cow<'static, str>,
    /// The types of the arguments.
    pub arguments: Vec<CqlType>,
    /// The type of the result.
    pub result: CqlType,
}

/// `system.f : (int, text) -> blob`, as messages show it.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_constants(&[]))
    }
}

impl Signature {
    /// As messages show it for a call some of whose arguments are constants.
    pub(crate) fn with_constants(&self, constants: &[bool]) -> String {
        let arguments: Vec<String> = self
            .arguments
            .iter()
            .enumerate()
            .map(|(index, argument)| {
                let is_constant = constants.get(index).copied().unwrap_or(false);
                let suffix = if is_constant { "(constant)" } else { "" };
                format!("{}{suffix}", unfrozen_tuple(argument))
            })
            .collect();
        let name = cql::quote_if_needed(&self.name);
        let result = unfrozen_tuple(&self.result);
        format!("system.{name} : ({}) -> {result}", arguments.join(", "))
    }
}

/// The CQL of a type as function signatures show it: a tuple without its `frozen<>`.
pub fn unfrozen_tuple(ty: &CqlType) -> String {
    let text = ty.to_string();
    match (ty, text.strip_prefix("frozen<").and_then(|rest| rest.strip_suffix('>'))) {
        (CqlType::Tuple(_), Some(inner)) => inner.to_string(),
        _ => text,
    }
}

/// Argument values of a call: `None` is null.
pub type Arguments<'a, 'v> = &'a [Option<Cow<'v, [u8]>>];

/// A function of the values of one row, or of no row.
pub trait ScalarFunction: Send + Sync {
    /// Its types.
    fn signature(&self) -> &Signature;

    /// Whether the same arguments always give the same result (`now()` does not).
    fn is_pure(&self) -> bool {
        true
    }

    /// Whether larger first arguments never give smaller results, so that GROUP BY may use it
    /// (`floor`).
    fn is_monotonic(&self) -> bool {
        false
    }

    /// The name of the result column for a call with these argument names.
    fn column_name(&self, arguments: &[String]) -> String {
        format!("system.{}({})", self.signature().name, arguments.join(", "))
    }

    /// Computes. The number of arguments is right; their bytes were validated or came from storage.
    fn evaluate(
        &self,
        arguments: Arguments<'_, '_>,
        context: &BindContext<'_>,
    ) -> Result<Option<Vec<u8>>, PlanError>;
}

/// A function of the values of many rows.
pub trait AggregateFunction: Send + Sync {
    /// Its types.
    fn signature(&self) -> &Signature;

    /// The name of the result column for a call with these argument names.
    fn column_name(&self, arguments: &[String]) -> String {
        format!("system.{}({})", self.signature().name, arguments.join(", "))
    }

    /// The state before the first row.
    fn new_state(&self) -> Box<dyn AggregateState>;
}

/// What an aggregate remembers between rows.
pub trait AggregateState: Send {
    /// Takes the arguments of one more row.
    fn add(
        &mut self,
        arguments: Arguments<'_, '_>,
        context: &BindContext<'_>,
    ) -> Result<(), PlanError>;

    /// The result over all rows so far.
    fn finish(&self, context: &BindContext<'_>) -> Result<Option<Vec<u8>>, PlanError>;

    /// Back to the state before the first row.
    fn reset(&mut self);
}

/// A function of either kind.
#[derive(Clone)]
pub enum Function {
    /// Of one row.
    Scalar(Arc<dyn ScalarFunction>),
    /// Of many rows.
    Aggregate(Arc<dyn AggregateFunction>),
}

impl Function {
    /// Its types.
    pub fn signature(&self) -> &Signature {
        match self {
            Function::Scalar(function) => function.signature(),
            Function::Aggregate(function) => function.signature(),
        }
    }

    /// Whether it is an aggregate.
    pub fn is_aggregate(&self) -> bool {
        matches!(self, Function::Aggregate(_))
    }

    /// The name of the result column for a call with these argument names.
    pub fn column_name(&self, arguments: &[String]) -> String {
        match self {
            Function::Scalar(function) => function.column_name(arguments),
            Function::Aggregate(function) => function.column_name(arguments),
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.signature(), f)
    }
}

/// How well something fits a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It has exactly that type.
    Exact,
    /// It has another type, or none yet, but may be taken as that type.
    Weak,
    /// It cannot be of that type.
    No,
}

impl Fit {
    /// Whether it may be taken as that type.
    pub fn is_assignable(self) -> bool {
        self != Fit::No
    }

    /// The fit of things that must fit together: as good as the worst of them.
    pub fn all(fits: impl IntoIterator<Item = Fit>) -> Fit {
        fits.into_iter().max().unwrap_or(Fit::Exact)
    }
}

/// An argument of a call before its type is settled: a column, a literal, a marker, a call.
pub trait Argument {
    /// How well it fits a type.
    fn fit(&self, receiver: &CqlType) -> Fit;

    /// A type that can hold it, where one is known without context (a constant has a preferred
    /// one, a marker has none).
    fn compatible_type(&self) -> Option<CqlType>;

    /// The text of it, as messages show it.
    fn text(&self) -> String;

    /// Whether it is a bare bind marker.
    fn is_marker(&self) -> bool {
        false
    }

    /// Whether it is a column of descending order: functions that are made from the type of their
    /// argument do not know it for the collection or vector that it is.
    fn is_descending_column(&self) -> bool {
        false
    }

    /// Whether it is a literal of a tuple or set in a select clause, which has no bytes of its own.
    fn is_composed(&self) -> bool {
        false
    }

    /// How many elements it has, where it is a literal `[a, b, c]` of a select clause.
    fn array_literal_length(&self) -> Option<usize> {
        None
    }
}

/// A call whose function is looked for.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The name, with or without keyspace. Operators and casts come as their function: `_add`,
    /// `_substract`, `_multiply`, `_divide`, `_modulo`, `_negate`, `cast_as_int` …, with the
    /// keyspace `system`.
    pub name: &'a FunctionName,
    pub arguments: &'a [&'a dyn Argument],
    /// The type that the result must have, where it is known.
    pub receiver: Option<&'a CqlType>,
    /// The table the statement is about, for `token`.
    pub table: Option<&'a Table>,
}
