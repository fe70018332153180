//! The values that many checks look at: the row is walked once, and a column's value is put together and taken apart
//! once, however many checks name it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schema::{Column, Table};
use types::value::{ListIter, MapIter, TupleIter, compare};
use types::{CellRef, Check, ColumnId, ColumnPart, CorruptRow, CqlType, LiveCells};

use super::condition::assembled;
use crate::steps;

/// A column that is looked at, with its live value.
type Whole<'r> = (&'r Column, Result<Option<Cow<'r, [u8]>>, CorruptRow>);

/// The columns that checks look at, by their ids.
pub(crate) fn wholes<'r>(
    checks: &[Check],
    row: Option<&LiveCells<'r>>,
    table: &'r Table,
) -> BTreeMap<ColumnId, Whole<'r>> {
    let mut ids: Vec<ColumnId> = Vec::with_capacity(checks.len());
    ids.extend(checks.iter().filter_map(|check| match check {
        Check::Column { column, .. } => Some(*column),
        Check::NotExists | Check::Exists | Check::Refused(_) => None,
    }));
    ids.sort_unstable();
    ids.dedup();
    let is_wanted = |id: &ColumnId| {
        steps::note();
        ids.binary_search(id).is_ok()
    };
    // Where a cell cannot be read, that is the answer to the first check that looks at a column.
    let cells: Result<Vec<CellRef<'r>>, CorruptRow> = match row {
        Some(row) => row
            .cells()
            .filter(|cell| cell.as_ref().map_or(true, |cell| is_wanted(&cell.column)))
            .collect(),
        None => Ok(Vec::new()),
    };
    let whole = |column: &'r Column| {
        let cells = cells.as_deref().map_err(|corrupt| *corrupt)?;
        let from = cells.partition_point(|cell| cell.column < column.id);
        let of_column = cells.get(from..).unwrap_or_default();
        let count = of_column.partition_point(|cell| cell.column == column.id);
        assembled(column, of_column.get(..count).unwrap_or_default())
    };
    let columns = table.columns.iter().filter(|column| is_wanted(&column.id));
    columns.map(|column| (column.id, (column, whole(column)))).collect()
}

/// The parts of the columns' values, each taken apart when it is first looked at.
#[derive(Default)]
pub(crate) struct Parts<'w>(BTreeMap<ColumnId, Apart<'w>>);

enum Apart<'w> {
    /// The entries of a map, and whether they are in the order of their keys.
    Entries(Vec<(&'w [u8], &'w [u8])>, bool),
    /// The elements of a list or the fields of a user type.
    Items(Vec<Option<&'w [u8]>>),
}

impl<'w> Parts<'w> {
    /// A part of a column's value, with its type.
    pub(crate) fn part_of<'t>(
        &mut self,
        column: &'t Column,
        part: &ColumnPart,
        whole: Option<&'w [u8]>,
    ) -> (Option<&'w [u8]>, Option<&'t CqlType>) {
        let (index, part_type) = match (&column.cql_type, part) {
            (CqlType::Map { value, .. }, ColumnPart::MapValue(_)) => (None, Some(&**value)),
            (CqlType::List { element, .. }, ColumnPart::ListIndex(index)) => {
                (usize::try_from(*index).ok(), Some(&**element))
            }
            (CqlType::User { definition, .. }, ColumnPart::Field(field)) => {
                let field = usize::from(*field);
                (Some(field), definition.fields.get(field).map(|(_, ty)| ty))
            }
            _ => return (None, None),
        };
        let Some(whole) = whole else { return (None, part_type) };
        let apart = self.0.entry(column.id).or_insert_with(|| Apart::new(&column.cql_type, whole));
        let found = match (apart, part, &column.cql_type) {
            (
                Apart::Entries(entries, is_sorted),
                ColumnPart::MapValue(key),
                CqlType::Map { key: ty, .. },
            ) => value_at(ty, entries, *is_sorted, key),
            (Apart::Items(items), _, _) => {
                index.and_then(|index| items.get(index).copied()).flatten()
            }
            (Apart::Entries(..), _, _) => None,
        };
        (found, part_type)
    }
}

impl<'w> Apart<'w> {
    fn new(ty: &CqlType, whole: &'w [u8]) -> Apart<'w> {
        let counted = |_: &Option<&[u8]>| steps::note();
        match ty {
            CqlType::Map { key, .. } => {
                let entries: Vec<_> = MapIter::new(whole).filter_map(Result::ok).collect();
                let is_sorted = entries.is_sorted_by(|(a, _), (b, _)| {
                    steps::note();
                    compare(key, a, b).is_le()
                });
                Apart::Entries(entries, is_sorted)
            }
            CqlType::User { .. } => {
                let fields = TupleIter::new(whole).map(|field| field.ok().flatten());
                Apart::Items(fields.inspect(counted).collect())
            }
            _ => {
                let items = ListIter::new(whole).map(|item| item.ok().flatten());
                Apart::Items(items.inspect(counted).collect())
            }
        }
    }
}

/// The first value at a key.
fn value_at<'w>(
    key_type: &CqlType,
    entries: &[(&'w [u8], &'w [u8])],
    is_sorted: bool,
    key: &[u8],
) -> Option<&'w [u8]> {
    let order = |entry: &[u8]| {
        steps::note();
        compare(key_type, entry, key)
    };
    let found = if is_sorted {
        entries.get(entries.partition_point(|(entry, _)| order(entry).is_lt()))
    } else {
        // A frozen map may lie in any order.
        entries.iter().find(|(entry, _)| order(entry).is_eq())
    };
    found.filter(|(entry, _)| order(entry).is_eq()).map(|(_, value)| *value)
}
