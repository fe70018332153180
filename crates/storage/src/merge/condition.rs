//! Whether the condition of a write holds for the rows as they are.

use std::borrow::Cow;
use std::cmp::Ordering;

use schema::{Column, Table};
use types::value::{ListIter, MapIter, TupleIter, compare};
use types::{
    CellRef, Check, ColumnId, ColumnPart, Comparison, CorruptRow, CqlType, LiveCells, Liveness,
    RowWriter, assemble,
};

use super::checked::{Parts, wholes};
use crate::steps;

/// For up to so many checks of a row the row is walked each time.
pub(super) const CHECKS_WALKED_MAX: usize = 8;

/// What the checks of a row come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement<'c> {
    /// All of them hold.
    Holds,
    /// One does not.
    Fails,
    /// One cannot be asked; why, in words.
    Refused(&'c str),
}

/// Whether every check holds for a row; `None` when it has no live part.
pub(crate) fn judge<'c>(
    checks: &'c [Check],
    row: Option<&LiveCells<'_>>,
    table: Option<&Table>,
) -> Result<Judgement<'c>, CorruptRow> {
    judge_walking(checks, row, table, CHECKS_WALKED_MAX)
}

/// The same; for up to so many checks the row is walked each time.
pub(super) fn judge_walking<'c>(
    checks: &'c [Check],
    row: Option<&LiveCells<'_>>,
    table: Option<&Table>,
    walked_max: usize,
) -> Result<Judgement<'c>, CorruptRow> {
    // Without its table a column has no type and no value.
    let Some(table) = table else {
        return judge_each(checks, row.is_some(), |_, _, _, _| Ok(false));
    };
    if checks.len() <= walked_max {
        return judge_each(checks, row.is_some(), |id, part, operator, values| {
            let Some(column) = table.column_by_id(id) else { return Ok(false) };
            let whole = current_value(column, row)?;
            let whole = whole.as_deref();
            let (current, ty) = match part {
                ColumnPart::Whole => (whole.map(Cow::Borrowed), Some(&column.cql_type)),
                _ => {
                    let (found, ty) = part_of(&column.cql_type, part, whole);
                    (found.map(Cow::Owned), ty)
                }
            };
            Ok(value_holds(column, part, operator, values_of(values), (current.as_deref(), ty)))
        });
    }
    let wholes = wholes(checks, row, table);
    let mut parts = Parts::default();
    judge_each(checks, row.is_some(), |id, part, operator, values| {
        let Some((column, whole)) = wholes.get(&id) else { return Ok(false) };
        let whole = whole.as_ref().map_err(|corrupt| *corrupt)?.as_deref();
        let current = match part {
            ColumnPart::Whole => {
                if let Some(holds) = parts.contains(column, operator, values_of(values), whole) {
                    return Ok(holds);
                }
                (whole, Some(&column.cql_type))
            }
            _ => parts.part_of(column, part, whole),
        };
        Ok(value_holds(column, part, operator, values_of(values), current))
    })
}

/// Goes through checks in their order. `column_holds` judges those of columns.
fn judge_each<'c>(
    checks: &'c [Check],
    exists: bool,
    mut column_holds: impl FnMut(
        ColumnId,
        &ColumnPart,
        Comparison,
        &[Option<bytes::Bytes>],
    ) -> Result<bool, CorruptRow>,
) -> Result<Judgement<'c>, CorruptRow> {
    for check in checks {
        let is_met = match check {
            Check::NotExists => !exists,
            Check::Exists => exists,
            Check::Column { column, part, operator, values } => {
                column_holds(*column, part, *operator, values)?
            }
            Check::Refused(reason) => return Ok(Judgement::Refused(reason)),
        };
        if !is_met {
            return Ok(Judgement::Fails);
        }
    }
    Ok(Judgement::Holds)
}

fn values_of(values: &[Option<bytes::Bytes>]) -> impl Iterator<Item = Option<&[u8]>> + Clone {
    values.iter().map(|value| value.as_deref())
}

/// Whether a check of a column, or of a part of it, holds for the current value, which comes with its type.
fn value_holds<'v>(
    column: &Column,
    part: &ColumnPart,
    operator: Comparison,
    mut values: impl Iterator<Item = Option<&'v [u8]>> + Clone,
    (current, ty): (Option<&[u8]>, Option<&CqlType>),
) -> bool {
    // A part that its type does not have is null.
    let Some(ty) = ty else {
        return operator == Comparison::NotEqual;
    };
    let is_collection = column.cql_type.is_multi_cell() && *part == ColumnPart::Whole;
    let null_if_empty = |value: Option<&'v [u8]>| {
        let is_empty_collection = |bytes: &[u8]| ListIter::new(bytes).remaining() == 0;
        value.filter(|bytes| !(is_collection && ty.is_collection() && is_empty_collection(bytes)))
    };
    match operator {
        Comparison::In => {
            values.any(|value| satisfies(ty, current, Comparison::Equal, null_if_empty(value)))
        }
        Comparison::NotIn => {
            values.all(|value| satisfies(ty, current, Comparison::NotEqual, null_if_empty(value)))
        }
        Comparison::Contains | Comparison::ContainsKey => {
            values.all(|value| contains(ty, current, value, operator == Comparison::ContainsKey))
        }
        Comparison::NotContains | Comparison::NotContainsKey => values
            .all(|value| !contains(ty, current, value, operator == Comparison::NotContainsKey)),
        _ => values.all(|value| satisfies(ty, current, operator, null_if_empty(value))),
    }
}

fn satisfies(
    ty: &CqlType,
    current: Option<&[u8]>,
    operator: Comparison,
    value: Option<&[u8]>,
) -> bool {
    let (current, value) = match (current, value) {
        (Some(current), Some(value)) => (current, value),
        (current, None) => {
            return match operator {
                Comparison::Equal => current.is_none(),
                Comparison::NotEqual => current.is_some(),
                _ => false,
            };
        }
        (None, Some(_)) => return operator == Comparison::NotEqual,
    };
    if operator == Comparison::Like {
        return is_like(current, value);
    }
    let order = compare(ty, current, value);
    match operator {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
        Comparison::In
        | Comparison::NotIn
        | Comparison::Contains
        | Comparison::ContainsKey
        | Comparison::NotContains
        | Comparison::NotContainsKey
        | Comparison::Like => false,
    }
}

/// `%` at either end stands for anything.
fn is_like(current: &[u8], pattern: &[u8]) -> bool {
    let (from_start, pattern) = match pattern.strip_prefix(b"%") {
        Some(rest) => (false, rest),
        None => (true, pattern),
    };
    let (to_end, pattern) = match pattern.strip_suffix(b"%") {
        Some(rest) => (false, rest),
        None => (true, pattern),
    };
    match (from_start, to_end) {
        (true, true) => current == pattern,
        (true, false) => current.starts_with(pattern),
        (false, true) => current.ends_with(pattern),
        (false, false) => {
            pattern.is_empty() || current.windows(pattern.len()).any(|window| window == pattern)
        }
    }
}

fn contains(ty: &CqlType, current: Option<&[u8]>, value: Option<&[u8]>, in_keys: bool) -> bool {
    let (Some(current), Some(value)) = (current, value) else {
        return false;
    };
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => ListIter::new(current)
            .filter_map(|item| item.ok().flatten())
            .any(|item| compare(element, item, value).is_eq()),
        CqlType::Map { key, value: value_type, .. } => {
            MapIter::new(current).filter_map(Result::ok).any(|(entry_key, entry_value)| {
                if in_keys {
                    compare(key, entry_key, value).is_eq()
                } else {
                    compare(value_type, entry_value, value).is_eq()
                }
            })
        }
        _ => false,
    }
}

/// A part of a value, with its type.
fn part_of<'t>(
    ty: &'t CqlType,
    part: &ColumnPart,
    whole: Option<&[u8]>,
) -> (Option<Vec<u8>>, Option<&'t CqlType>) {
    match (ty, part) {
        (CqlType::Map { key, value, .. }, ColumnPart::MapValue(wanted)) => {
            let found = whole.and_then(|whole| {
                MapIter::new(whole)
                    .filter_map(Result::ok)
                    .find(|(entry_key, _)| compare(key, entry_key, wanted).is_eq())
                    .map(|(_, entry_value)| entry_value.to_vec())
            });
            (found, Some(value))
        }
        (CqlType::List { element, .. }, ColumnPart::ListIndex(index)) => {
            let found = whole.and_then(|whole| {
                let index = usize::try_from(*index).ok()?;
                ListIter::new(whole).nth(index)?.ok()?.map(<[u8]>::to_vec)
            });
            (found, Some(element))
        }
        (CqlType::User { definition, .. }, ColumnPart::Field(field)) => {
            let field = usize::from(*field);
            let found =
                whole.and_then(|whole| TupleIter::new(whole).nth(field)?.ok()?.map(<[u8]>::to_vec));
            (found, definition.fields.get(field).map(|(_, ty)| ty))
        }
        _ => (None, None),
    }
}

/// The live value of a column, as the protocol encodes it.
fn current_value<'r>(
    column: &Column,
    row: Option<&LiveCells<'r>>,
) -> Result<Option<Cow<'r, [u8]>>, CorruptRow> {
    let Some(row) = row else {
        return Ok(None);
    };
    let mut cells = Vec::new();
    for cell in row.cells() {
        steps::note();
        let cell = cell?;
        if cell.column == column.id {
            cells.push(cell);
        }
    }
    assembled(column, &cells)
}

/// The value of a column that its live cells make up.
pub(super) fn assembled<'r>(
    column: &Column,
    cells: &[CellRef<'r>],
) -> Result<Option<Cow<'r, [u8]>>, CorruptRow> {
    let Some(first) = cells.first() else {
        return Ok(None);
    };
    if !column.cql_type.is_multi_cell() {
        return Ok(Some(Cow::Borrowed(first.value())));
    }
    let mut value = Vec::new();
    let has_elements = assemble(&column.cql_type, cells.iter().copied(), &mut value)?;
    Ok(has_elements.then_some(Cow::Owned(value)))
}

/// The live part of a row, as a row.
pub(crate) fn live_part(row: &LiveCells<'_>) -> Result<Vec<u8>, CorruptRow> {
    let liveness: Option<Liveness> = row.view().liveness().filter(|_| row.has_liveness());
    let mut writer = RowWriter::new(Vec::new(), liveness, None, row.view().original_clustering());
    for cell in row.cells() {
        writer.push(&cell?);
    }
    Ok(writer.finish())
}
