//! What is computed from a row.

use std::borrow::Cow;
use std::sync::Arc;

use types::value::collection::{write_element, write_map_with_nulls};
use types::value::{
    ListIter, MapIter, TupleIter, compare, write_map, write_set, write_tuple, write_vector,
};
use types::{CqlType, UserType};

use super::cell::{CellPart, evaluate_cell};
use crate::error::{PlanError, invalid};
use crate::expression::{Evaluated, Evaluation, Term};
use crate::function::ScalarFunction;
use crate::row::RowAccess;

/// A value computed from a row.
pub enum Selector {
    /// A column, by its place in the table.
    Column(usize),
    /// A value that needs no row.
    Term(Term),
    Call {
        function: Arc<dyn ScalarFunction>,
        arguments: Vec<Selector>,
    },
    /// The result of an aggregate, by its place in the selection.
    Aggregate(usize),
    /// What the first row of a group had, by its place in the selection.
    First(usize),
    List(Vec<Selector>),
    Set {
        /// The type of the elements.
        element: Arc<CqlType>,
        elements: Vec<Selector>,
    },
    Map {
        /// The type of the keys.
        key: Arc<CqlType>,
        /// Keys and values.
        entries: Vec<(Selector, Selector)>,
    },
    Vector {
        /// The type of the elements.
        element: Arc<CqlType>,
        elements: Vec<Selector>,
    },
    Tuple(Vec<Selector>),
    /// A user type; fields that were not given are null.
    User {
        /// The type.
        definition: Arc<UserType>,
        /// The fields that were given, by their place.
        fields: Vec<(usize, Selector)>,
    },
    /// A field of a user type.
    Field {
        /// The user type.
        receiver: Box<Selector>,
        /// The field's place.
        index: usize,
    },
    /// An element of a set, or a map's value.
    Element {
        /// The collection.
        receiver: Box<Selector>,
        /// Its type.
        ty: CqlType,
        /// The element or key.
        key: Term,
        /// The collection's name, for messages.
        name: String,
    },
    /// A part of a set or map.
    Slice {
        /// The collection.
        receiver: Box<Selector>,
        /// Its type.
        ty: CqlType,
        /// First element or key, inside.
        from: Option<Term>,
        /// Last element or key, inside.
        to: Option<Term>,
        /// The collection's name, for messages.
        name: String,
    },
    /// `writetime`, `maxwritetime`, `ttl`.
    Cell {
        function: cql::ast::CellFunction,
        column: usize,
        part: CellPart,
        /// The type of the column.
        ty: CqlType,
        /// Whether the result is a list with an element for each cell.
        gives_list: bool,
    },
}

/// What a selector may look at.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) row: &'a dyn RowAccess,
    pub(super) eval: &'a Evaluation<'a>,
    /// Results of aggregates and values of first rows; empty where there are none.
    pub(super) aggregates: &'a [Option<Vec<u8>>],
    pub(super) firsts: &'a [Option<Vec<u8>>],
}

type Value<'a> = Option<Cow<'a, [u8]>>;

impl Selector {
    /// Computes the value; `None` is null.
    pub(super) fn evaluate<'a>(&'a self, inputs: Inputs<'a>) -> Result<Value<'a>, PlanError> {
        let all = |selectors: &'a [Selector]| -> Result<Vec<Value<'a>>, PlanError> {
            selectors.iter().map(|selector| selector.evaluate(inputs)).collect()
        };
        match self {
            Selector::Column(index) => Ok(inputs.row.value(*index)),
            Selector::Term(term) => Ok(match term.evaluate(inputs.eval)? {
                Evaluated::Bytes(bytes) => Some(bytes),
                Evaluated::Null | Evaluated::Unset => None,
            }),
            Selector::Call { function, arguments } => {
                for argument in arguments {
                    if let Selector::Term(term @ Term::Marker { .. }) = argument
                        && term.evaluate(inputs.eval)? == Evaluated::Unset
                    {
                        return invalid!(
                            "Invalid unset value for argument in call to function {}",
                            function.signature().name
                        );
                    }
                }
                let arguments = all(arguments)?;
                Ok(function.evaluate(&arguments, inputs.eval.context)?.map(Cow::Owned))
            }
            Selector::Aggregate(slot) => {
                Ok(inputs.aggregates.get(*slot).and_then(|v| v.as_deref()).map(Cow::Borrowed))
            }
            Selector::First(slot) => {
                Ok(inputs.firsts.get(*slot).and_then(|v| v.as_deref()).map(Cow::Borrowed))
            }
            Selector::List(elements) => {
                let elements = all(elements)?;
                let mut out = Vec::new();
                types::value::collection::write_count(elements.len(), &mut out);
                elements.iter().for_each(|element| write_element(element.as_deref(), &mut out));
                Ok(Some(Cow::Owned(out)))
            }
            Selector::Set { element, elements } => {
                let mut elements: Vec<_> = all(elements)?.into_iter().flatten().collect();
                built(|out| write_set(element, &mut elements, out))
            }
            Selector::Map { key, entries } => {
                let mut values = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    if let Some(key) = key.evaluate(inputs)? {
                        values.push((key, value.evaluate(inputs)?));
                    }
                }
                built(|out| write_map_with_nulls(key, &mut values, Option::as_deref, out))
            }
            Selector::Vector { element, elements } => {
                let elements: Option<Vec<_>> = all(elements)?.into_iter().collect();
                match elements {
                    Some(elements) => built(|out| write_vector(element, &elements, out)),
                    None => invalid!("null is not supported inside vectors"),
                }
            }
            Selector::Tuple(elements) => {
                let elements = all(elements)?;
                built(|out| write_tuple(&elements, out))
            }
            Selector::User { definition, fields } => {
                let mut values: Vec<Value<'_>> = vec![None; definition.fields.len()];
                for (index, selector) in fields {
                    if let Some(slot) = values.get_mut(*index) {
                        *slot = selector.evaluate(inputs)?;
                    }
                }
                built(|out| write_tuple(&values, out))
            }
            Selector::Field { receiver, index } => {
                Ok(receiver.evaluate(inputs)?.and_then(|value| field(value, *index)))
            }
            Selector::Element { receiver, ty, key, name } => {
                let key = bound_key(key, inputs.eval, "element", name)?;
                let value = receiver.evaluate(inputs)?;
                Ok(value.and_then(|value| element_of(ty, &value, &key).map(Cow::Owned)))
            }
            Selector::Slice { receiver, ty, from, to, name } => {
                let from = bound_end(from.as_ref(), inputs.eval, name)?;
                let to = bound_end(to.as_ref(), inputs.eval, name)?;
                let value = receiver.evaluate(inputs)?;
                Ok(value.and_then(|value| {
                    slice_of(ty, &value, from.as_deref(), to.as_deref()).map(Cow::Owned)
                }))
            }
            Selector::Cell { function, column, part, ty, gives_list } => {
                let stamps = evaluate_cell(*function, *column, part, ty, *gives_list, inputs)?;
                Ok(stamps.map(Cow::Owned))
            }
        }
    }

    /// Calls `visit` for every column that is looked at.
    pub(super) fn visit_columns(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Selector::Column(index) => visit(*index),
            Selector::Cell { column, .. } => visit(*column),
            Selector::Term(_) | Selector::Aggregate(_) | Selector::First(_) => {}
            Selector::Call { arguments: parts, .. }
            | Selector::List(parts)
            | Selector::Tuple(parts)
            | Selector::Set { elements: parts, .. }
            | Selector::Vector { elements: parts, .. } => {
                parts.iter().for_each(|part| part.visit_columns(visit));
            }
            Selector::Map { entries, .. } => entries.iter().for_each(|(key, value)| {
                key.visit_columns(visit);
                value.visit_columns(visit);
            }),
            Selector::User { fields, .. } => {
                fields.iter().for_each(|(_, field)| field.visit_columns(visit));
            }
            Selector::Field { receiver, .. }
            | Selector::Element { receiver, .. }
            | Selector::Slice { receiver, .. } => receiver.visit_columns(visit),
        }
    }
}

fn built<'a>(write: impl FnOnce(&mut Vec<u8>)) -> Result<Value<'a>, PlanError> {
    let mut out = Vec::new();
    write(&mut out);
    Ok(Some(Cow::Owned(out)))
}

/// A field of an encoded user type.
fn field(value: Cow<'_, [u8]>, index: usize) -> Value<'_> {
    match value {
        Cow::Borrowed(bytes) => TupleIter::new(bytes).nth(index)?.ok().flatten().map(Cow::Borrowed),
        Cow::Owned(bytes) => TupleIter::new(&bytes)
            .nth(index)?
            .ok()
            .flatten()
            .map(|field| Cow::Owned(field.to_vec())),
    }
}

pub(super) fn bound_key<'a>(
    key: &'a Term,
    eval: &Evaluation<'a>,
    what: &str,
    name: &str,
) -> Result<Cow<'a, [u8]>, PlanError> {
    match key.evaluate(eval)? {
        Evaluated::Null => invalid!("Invalid null value for {what} selection on {name}"),
        Evaluated::Unset => invalid!("Invalid unset value for {what} selection on {name}"),
        Evaluated::Bytes(bytes) => Ok(bytes),
    }
}

/// An end of a slice; unset is open.
pub(super) fn bound_end<'a>(
    end: Option<&'a Term>,
    eval: &Evaluation<'a>,
    name: &str,
) -> Result<Option<Cow<'a, [u8]>>, PlanError> {
    let Some(end) = end else { return Ok(None) };
    match end.evaluate(eval)? {
        Evaluated::Null => invalid!("Invalid null value for slice selection on {name}"),
        Evaluated::Unset => Ok(None),
        Evaluated::Bytes(bytes) => Ok(Some(bytes)),
    }
}

/// `set[element]` or `map[key]`.
pub(super) fn element_of(ty: &CqlType, value: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    match ty {
        CqlType::Map { key: key_type, .. } => MapIter::new(value).find_map(|entry| match entry {
            Ok((found, value)) if compare(key_type, found, key).is_eq() => Some(value.to_vec()),
            _ => None,
        }),
        CqlType::Set { element, .. } => ListIter::set(value).find_map(|found| match found {
            Ok(Some(found)) if compare(element, found, key).is_eq() => Some(found.to_vec()),
            _ => None,
        }),
        _ => None,
    }
}

/// Whether a key lies between the ends of a slice.
pub(super) fn within(ty: &CqlType, key: &[u8], from: Option<&[u8]>, to: Option<&[u8]>) -> bool {
    from.is_none_or(|from| compare(ty, key, from).is_ge())
        && to.is_none_or(|to| compare(ty, key, to).is_le())
}

/// `set[a..b]` or `map[a..b]`. An empty part of a multi-cell collection is null.
fn slice_of(ty: &CqlType, value: &[u8], from: Option<&[u8]>, to: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let count = match ty {
        CqlType::Map { key, .. } => {
            let mut entries: Vec<_> = MapIter::new(value)
                .filter_map(Result::ok)
                .filter(|(found, _)| within(key, found, from, to))
                .collect();
            write_map(key, &mut entries, &mut out);
            entries.len()
        }
        CqlType::Set { element, .. } => {
            let mut elements: Vec<_> = ListIter::set(value)
                .filter_map(|found| found.ok().flatten())
                .filter(|found| within(element, found, from, to))
                .collect();
            write_set(element, &mut elements, &mut out);
            elements.len()
        }
        _ => return None,
    };
    (count > 0 || !ty.is_multi_cell()).then_some(out)
}

impl std::fmt::Debug for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Selector::Column(index) => write!(f, "column {index}"),
            Selector::Term(term) => term.fmt(f),
            Selector::Call { function, arguments } => {
                write!(f, "{}", function.signature().name)?;
                f.debug_list().entries(arguments).finish()
            }
            Selector::Aggregate(slot) => write!(f, "aggregate {slot}"),
            Selector::First(slot) => write!(f, "first {slot}"),
            Selector::List(parts) => f.debug_list().entries(parts).finish(),
            Selector::Set { elements, .. } => f.debug_set().entries(elements).finish(),
            Selector::Map { entries, .. } => {
                f.debug_map().entries(entries.iter().map(|(k, v)| (k, v))).finish()
            }
            Selector::Vector { elements, .. } => f.debug_tuple("vector").field(elements).finish(),
            Selector::Tuple(parts) => f.debug_tuple("tuple").field(parts).finish(),
            Selector::User { definition, fields } => {
                f.debug_tuple(&definition.name).field(fields).finish()
            }
            Selector::Field { receiver, index } => write!(f, "{receiver:?}.{index}"),
            Selector::Element { receiver, key, .. } => write!(f, "{receiver:?}[{key:?}]"),
            Selector::Slice { receiver, from, to, .. } => {
                write!(f, "{receiver:?}[{from:?}..{to:?}]")
            }
            Selector::Cell { function, column, part, .. } => {
                write!(f, "{}(column {column} {part:?})", function.name())
            }
        }
    }
}
