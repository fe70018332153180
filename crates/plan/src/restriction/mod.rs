//! The WHERE clause: from relations to keys, byte ranges and filters.
//!
//! `relation` turns each relation of the syntax tree into a [`Restriction`]; `merge` joins those on
//! the same columns; `analysis` decides, with Cassandra's rules and texts, which of them become
//! keys, which byte ranges and which filters. With values, `keys` computes partition keys and
//! parts of the ring, `clustering` the rows, and `filter` what is left to check on each row.

mod analysis;
mod clustering;
mod filter;
mod index;
mod keys;
mod merge;
mod relation;
mod text;

pub(crate) use analysis::{Demands, Restrictions, StatementKind};
pub use filter::{Filter, FilterOperator, Filters};
pub(crate) use keys::is_empty_key;
pub(crate) use relation::unknown_column;
pub(crate) use text::relation_text;

use std::borrow::Cow;
use std::sync::Arc;

use types::CqlType;
use types::value::{ListIter, TupleIter, validate};

use crate::error::{PlanError, invalid};
use crate::expression::{Evaluated, Evaluation, Term};
use crate::values::Value;

/// What stands right of IN.
#[derive(Debug)]
pub(crate) enum InTerms {
    /// One term each.
    Terms(Vec<Term>),
    /// One marker for the whole list.
    Marker(usize),
}

/// The values of one or several columns.
#[derive(Debug)]
pub(crate) enum Components {
    /// Of one column.
    Single(Term),
    /// Of several columns, each with its term.
    Tuple(Vec<Term>),
    /// Of several columns, all in one marker.
    Marker {
        /// Its place among the markers.
        index: usize,
        /// The types of the columns.
        types: Vec<CqlType>,
        /// `(a,b)`.
        name: String,
    },
}

/// The lists of values of IN.
#[derive(Debug)]
pub(crate) enum InComponents {
    /// Of one column.
    Single(InTerms),
    /// Of several columns, each tuple for itself.
    Tuples(Vec<Components>),
    /// Of several columns, one marker for the list of tuples.
    Marker {
        /// Its place among the markers.
        index: usize,
        /// The types of the columns.
        types: Vec<CqlType>,
        /// `in(a,b)`.
        name: String,
    },
}

/// One end of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Arc<Components>,
    pub(crate) inclusive: bool,
}

/// The operators that look into a collection or text.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainsTerms {
    pub(crate) values: Vec<Arc<Term>>,
    pub(crate) keys: Vec<Arc<Term>>,
    pub(crate) entries: Vec<(Arc<Term>, Arc<Term>)>,
}

/// What one or more relations ask of the same columns.
#[derive(Clone, Debug)]
pub(crate) struct Restriction {
    /// Places in the table's columns, in key order.
    pub(crate) columns: Vec<usize>,
    /// Whether it came from `(a, b) ...`.
    pub(crate) multi_column: bool,
    /// What it asks.
    pub(crate) kind: RestrictionKind,
}

/// What a restriction asks.
#[derive(Clone, Debug)]
pub(crate) enum RestrictionKind {
    /// `=`
    Equal(Arc<Components>),
    /// `IN`
    In(Arc<InComponents>),
    /// `<`, `<=`, `>`, `>=`
    Slice {
        /// The lower end.
        start: Option<Bound>,
        /// The upper end.
        end: Option<Bound>,
    },
    /// `CONTAINS`, `CONTAINS KEY`, `c[k] = v`
    Contains(ContainsTerms),
    /// `LIKE`, which needs an index of a kind that we refuse to create.
    Like,
}

impl Restriction {
    pub(crate) fn first_column(&self) -> usize {
        self.columns.first().copied().unwrap_or(0)
    }

    pub(crate) fn last_column(&self) -> usize {
        self.columns.last().copied().unwrap_or(0)
    }

    pub(crate) fn is_slice(&self) -> bool {
        matches!(self.kind, RestrictionKind::Slice { .. })
    }

    pub(crate) fn is_in(&self) -> bool {
        matches!(self.kind, RestrictionKind::In(_))
    }

    pub(crate) fn is_equal(&self) -> bool {
        matches!(self.kind, RestrictionKind::Equal(_))
    }

    pub(crate) fn is_contains(&self) -> bool {
        matches!(self.kind, RestrictionKind::Contains(_))
    }

    pub(crate) fn is_like(&self) -> bool {
        matches!(self.kind, RestrictionKind::Like)
    }
}

/// The values of several columns; `None` is null.
pub(crate) type Row<'v> = Vec<Option<Cow<'v, [u8]>>>;

impl Components {
    /// The values of the columns. The text of an unset value is that of its place.
    pub(crate) fn evaluate<'v>(
        &'v self,
        eval: &Evaluation<'v>,
        unset: impl FnOnce() -> String,
    ) -> Result<Row<'v>, PlanError> {
        match self {
            Components::Single(term) => Ok(vec![term.evaluate(eval)?.or_unset_error(unset)?]),
            Components::Tuple(terms) => {
                let mut row = Vec::with_capacity(terms.len());
                for (index, term) in terms.iter().enumerate() {
                    row.push(term.evaluate(eval)?.or_unset_error(|| {
                        format!("Invalid unset value for tuple field number {index}")
                    })?);
                }
                Ok(row)
            }
            Components::Marker { index, types, name } => match eval.values.get(*index) {
                Value::Unset => invalid!("Invalid unset value for tuple {name}"),
                Value::Null => invalid!("Invalid null value for {name}"),
                Value::Bytes(bytes) => split_tuple(bytes, types),
            },
        }
    }
}

/// The components of a tuple that a client sent.
fn split_tuple<'v>(bytes: &'v [u8], types: &[CqlType]) -> Result<Row<'v>, PlanError> {
    let mut row = Vec::with_capacity(types.len());
    for component in TupleIter::new(bytes) {
        row.push(component?.map(Cow::Borrowed));
    }
    if row.len() > types.len() {
        return invalid!(
            "Tuple value contained too many fields (expected {}, got {})",
            types.len(),
            row.len()
        );
    }
    for (component, ty) in row.iter().zip(types) {
        if let Some(bytes) = component {
            validate(ty, bytes)?;
        }
    }
    Ok(row)
}

impl InTerms {
    /// The values of the list, as they come.
    pub(crate) fn evaluate<'v>(
        &'v self,
        eval: &Evaluation<'v>,
        column: &str,
        ty: &CqlType,
    ) -> Result<Row<'v>, PlanError> {
        match self {
            InTerms::Terms(terms) => terms
                .iter()
                .map(|term| match term.evaluate(eval)? {
                    Evaluated::Null => Ok(None),
                    Evaluated::Unset => invalid!("Invalid unset value for column {column}"),
                    Evaluated::Bytes(bytes) => Ok(Some(bytes)),
                })
                .collect(),
            InTerms::Marker(index) => match eval.values.get(*index) {
                Value::Null => invalid!("Invalid null value for column {column}"),
                Value::Unset => invalid!("Invalid unset value for column {column}"),
                Value::Bytes(bytes) => {
                    let mut row = Vec::new();
                    for element in ListIter::new(bytes) {
                        let element = element?;
                        if let Some(bytes) = element {
                            validate(ty, bytes)?;
                        }
                        row.push(element.map(Cow::Borrowed));
                    }
                    Ok(row)
                }
            },
        }
    }
}

impl InComponents {
    /// The tuples of the list, as they come. `columns` are name and type of each column.
    pub(crate) fn evaluate<'v>(
        &'v self,
        eval: &Evaluation<'v>,
        columns: &[(&str, &CqlType)],
    ) -> Result<Vec<Row<'v>>, PlanError> {
        match self {
            InComponents::Single(terms) => {
                let Some((name, ty)) = columns.first() else { return Ok(Vec::new()) };
                let values = terms.evaluate(eval, name, ty)?;
                Ok(values.into_iter().map(|value| vec![value]).collect())
            }
            InComponents::Tuples(tuples) => {
                tuples.iter().map(|tuple| tuple.evaluate(eval, String::new)).collect()
            }
            InComponents::Marker { index, types, name } => match eval.values.get(*index) {
                Value::Null => invalid!("Invalid null value for IN restriction"),
                Value::Unset => invalid!("Invalid unset value for {name}"),
                Value::Bytes(bytes) => {
                    let mut rows = Vec::new();
                    for element in ListIter::new(bytes) {
                        rows.push(match element? {
                            Some(tuple) => split_tuple(tuple, types)?,
                            None => vec![None; types.len()],
                        });
                    }
                    Ok(rows)
                }
            },
        }
    }
}
