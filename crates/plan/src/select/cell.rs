//! `writetime`, `maxwritetime` and `ttl`.

use cql::ast::CellFunction;
use types::CqlType;
use types::value::collection::{write_count, write_element};
use types::value::{ListIter, MapIter, TupleIter, compare};

use super::selector::{Inputs, bound_end, bound_key, element_of, within};
use crate::error::PlanError;
use crate::expression::Term;
use crate::row::CellStamp;

/// Which part of a column.
#[derive(Debug)]
pub enum CellPart {
    /// All of it.
    Whole,
    /// One element of a multi-cell set or map.
    Element {
        /// The element or key.
        key: Term,
        /// The collection's name, for messages.
        name: String,
    },
    /// Some elements of a multi-cell set or map.
    Slice {
        /// First element or key, inside.
        from: Option<Term>,
        /// Last element or key, inside.
        to: Option<Term>,
        /// The collection's name, for messages.
        name: String,
    },
    /// A field of a multi-cell user type, by its place.
    Field(u16),
}

/// The value of a cell function; `None` is null.
pub(super) fn evaluate_cell(
    function: CellFunction,
    column: usize,
    part: &CellPart,
    ty: &CqlType,
    gives_list: bool,
    inputs: Inputs<'_>,
) -> Result<Option<Vec<u8>>, PlanError> {
    let now_s = inputs.eval.context.now_seconds();
    if !ty.is_multi_cell() {
        if !has_part(column, part, ty, inputs)? {
            return Ok(None);
        }
        let stamp = inputs.row.stamp(column);
        return Ok(stamp
            .and_then(|stamp| one(function, stamp, now_s))
            .map(|v| encode(function, v)));
    }
    let stamps = collect(column, part, ty, inputs)?;
    if stamps.iter().all(Option::is_none) {
        return Ok(None);
    }
    let values = stamps.iter().map(|stamp| stamp.and_then(|stamp| one(function, stamp, now_s)));
    if function == CellFunction::MaxWriteTime || !gives_list {
        return Ok(values.flatten().max().map(|value| encode(function, value)));
    }
    let mut out = Vec::new();
    write_count(stamps.len(), &mut out);
    for value in values {
        write_element(value.map(|value| encode(function, value)).as_deref(), &mut out);
    }
    Ok(Some(out))
}

/// Whether a value in one cell has that part: what is not there has no time either.
fn has_part(
    column: usize,
    part: &CellPart,
    ty: &CqlType,
    inputs: Inputs<'_>,
) -> Result<bool, PlanError> {
    let (from, to, name) = match part {
        CellPart::Whole => return Ok(true),
        CellPart::Field(index) => {
            let value = inputs.row.value(column);
            let field = value.as_deref().and_then(|value| {
                TupleIter::new(value).nth(usize::from(*index)).and_then(Result::ok).flatten()
            });
            return Ok(field.is_some());
        }
        CellPart::Element { key, name } => {
            let key = bound_key(key, inputs.eval, "element", name)?;
            let value = inputs.row.value(column);
            return Ok(value.is_some_and(|value| element_of(ty, &value, &key).is_some()));
        }
        CellPart::Slice { from, to, name } => (from, to, name),
    };
    let from = bound_end(from.as_ref(), inputs.eval, name)?;
    let to = bound_end(to.as_ref(), inputs.eval, name)?;
    let Some(value) = inputs.row.value(column) else { return Ok(false) };
    let is_inside = |ty: &CqlType, key: &[u8]| within(ty, key, from.as_deref(), to.as_deref());
    Ok(match ty {
        CqlType::Set { element, .. } => ListIter::set(&value)
            .filter_map(|item| item.ok().flatten())
            .any(|item| is_inside(element, item)),
        CqlType::Map { key, .. } => {
            MapIter::new(&value).filter_map(Result::ok).any(|(found, _)| is_inside(key, found))
        }
        _ => true,
    })
}

fn one(function: CellFunction, stamp: CellStamp, now_s: i64) -> Option<i64> {
    match function {
        CellFunction::WriteTime | CellFunction::MaxWriteTime => Some(stamp.timestamp_us),
        CellFunction::Ttl => {
            stamp.expires_at_s.map(|expires_at_s| (i64::from(expires_at_s) - now_s).max(0))
        }
    }
}

fn encode(function: CellFunction, value: i64) -> Vec<u8> {
    match function {
        CellFunction::WriteTime | CellFunction::MaxWriteTime => value.to_be_bytes().to_vec(),
        CellFunction::Ttl => i32::try_from(value).unwrap_or(i32::MAX).to_be_bytes().to_vec(),
    }
}

/// The envelopes of the cells of that part; a user type has one for each field.
fn collect(
    column: usize,
    part: &CellPart,
    ty: &CqlType,
    inputs: Inputs<'_>,
) -> Result<Vec<Option<CellStamp>>, PlanError> {
    let mut stamps = Vec::new();
    let key_type = match ty {
        CqlType::Set { element, .. } => Some(element.as_ref()),
        CqlType::Map { key, .. } => Some(key.as_ref()),
        _ => None,
    };
    match (part, ty) {
        (CellPart::Whole, CqlType::User { definition, .. }) => {
            stamps = vec![None; definition.fields.len()];
            inputs.row.elements(column, &mut |path, stamp| {
                if let Some(slot) = field_index(path).and_then(|index| stamps.get_mut(index)) {
                    *slot = Some(stamp);
                }
            });
        }
        (CellPart::Whole, _) => {
            inputs.row.elements(column, &mut |_, stamp| stamps.push(Some(stamp)));
        }
        (CellPart::Field(index), _) => inputs.row.elements(column, &mut |path, stamp| {
            if field_index(path) == Some(usize::from(*index)) {
                stamps.push(Some(stamp));
            }
        }),
        (CellPart::Element { key, name }, _) => {
            let key = bound_key(key, inputs.eval, "element", name)?;
            let Some(key_type) = key_type else { return Ok(stamps) };
            inputs.row.elements(column, &mut |path, stamp| {
                if compare(key_type, path, &key).is_eq() {
                    stamps.push(Some(stamp));
                }
            });
        }
        (CellPart::Slice { from, to, name }, _) => {
            let from = bound_end(from.as_ref(), inputs.eval, name)?;
            let to = bound_end(to.as_ref(), inputs.eval, name)?;
            let Some(key_type) = key_type else { return Ok(stamps) };
            inputs.row.elements(column, &mut |path, stamp| {
                if within(key_type, path, from.as_deref(), to.as_deref()) {
                    stamps.push(Some(stamp));
                }
            });
        }
    }
    Ok(stamps)
}

fn field_index(path: &[u8]) -> Option<usize> {
    <[u8; 2]>::try_from(path).ok().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
}
