//! Typed values: how literals, markers and calls become bytes.
//!
//! A [`cql::ast::Term`] is first asked how well it fits a type (`raw`), then prepared for a
//! receiver (`prepare_term`), and the resulting [`Term`] is evaluated with the values of one
//! execution (`term`). What is computed from rows is in [`crate::select`].

mod canonical;
mod prepare_term;
mod raw;
mod raw_type;
mod scope;
mod term;

pub(crate) use prepare_term::{prepare_in_values, prepare_term};
pub(crate) use raw::{
    cast_function, common_type, compatible, exact, fit, negation_function, operator_function,
    raw_text,
};
pub(crate) use raw_type::{raw_type_text, resolve_type};
pub(crate) use scope::{Markers, Receiver, Scope};
pub use term::{Evaluated, Term};

use crate::error::PlanError;
use crate::plan::BindVariable;
use crate::values::{BindContext, Value, Values};

/// The values of one execution, by the markers of its statement.
#[derive(Clone, Copy)]
pub struct BoundValues<'a> {
    values: &'a dyn Values,
    variables: &'a [BindVariable],
}

/// How many values came for markers.
pub fn bound_count(values: &dyn Values, variables: &[BindVariable]) -> usize {
    if !values.is_named() {
        return values.count();
    }
    variables.iter().filter(|variable| values.named(&variable.name).is_some()).count()
}

impl<'a> BoundValues<'a> {
    /// Pairs values with markers; an error when their numbers differ.
    pub fn new(
        values: &'a dyn Values,
        variables: &'a [BindVariable],
    ) -> Result<BoundValues<'a>, PlanError> {
        let count = bound_count(values, variables);
        if count != variables.len() {
            return Err(PlanError::invalid(format!(
                "there were {} markers(?) in CQL but {count} bound variables",
                variables.len()
            )));
        }
        Ok(BoundValues { values, variables })
    }

    /// Values by their place, for a statement that makes its own markers.
    pub(crate) fn unnamed(values: &'a dyn Values) -> BoundValues<'a> {
        BoundValues { values, variables: &[] }
    }

    /// The value of a marker; null for a marker the statement does not have.
    pub fn get(&self, index: usize) -> Value<'a> {
        let value = if self.values.is_named() {
            self.variables.get(index).and_then(|variable| self.values.named(&variable.name))
        } else {
            self.values.at(index)
        };
        value.unwrap_or(Value::Null)
    }
}

impl std::fmt::Debug for BoundValues<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundValues").field("variables", &self.variables.len()).finish()
    }
}

/// Everything an expression needs besides a row.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'a> {
    /// The values of the markers.
    pub values: BoundValues<'a>,
    /// Clock and uuids.
    pub context: &'a BindContext<'a>,
}
