//! The values that many checks look at: the row is walked once, and a column's value is put together and taken apart
//! once, however many checks name it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use schema::{Column, Table};
use types::value::{ListIter, MapIter, TupleIter, compare};
use types::{CellRef, Check, ColumnId, ColumnPart, Comparison, CorruptRow, CqlType, LiveCells};

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
pub(crate) struct Parts<'w> {
    apart: BTreeMap<ColumnId, Apart<'w>>,
    /// What each collection contains: its keys, and its elements or values.
    keys: BTreeMap<ColumnId, BTreeSet<Typed<'w>>>,
    elements: BTreeMap<ColumnId, BTreeSet<Typed<'w>>>,
}

enum Apart<'w> {
    /// The entries of a map that lie in the order of their keys.
    Sorted(Vec<(&'w [u8], &'w [u8])>),
    /// A frozen map may lie in any order: the first value of each key.
    Unsorted(BTreeMap<Typed<'w>, &'w [u8]>),
    /// The elements of a list or the fields of a user type.
    Items(Vec<Option<&'w [u8]>>),
}

/// A value in the order of its type.
struct Typed<'w>(&'w CqlType, &'w [u8]);

impl Ord for Typed<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        steps::note();
        compare(self.0, self.1, other.1)
    }
}

impl PartialOrd for Typed<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Typed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Typed<'_> {}

impl<'w> Parts<'w> {
    /// A part of a column's value, with its type.
    pub(crate) fn part_of(
        &mut self,
        column: &'w Column,
        part: &ColumnPart,
        whole: Option<&'w [u8]>,
    ) -> (Option<&'w [u8]>, Option<&'w CqlType>) {
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
        let apart = self.apart.entry(column.id);
        let apart = apart.or_insert_with(|| Apart::new(&column.cql_type, whole));
        let found = match (apart, part, &column.cql_type) {
            (Apart::Sorted(entries), ColumnPart::MapValue(key), CqlType::Map { key: ty, .. }) => {
                value_at(ty, entries, key)
            }
            (Apart::Unsorted(values), ColumnPart::MapValue(key), CqlType::Map { key: ty, .. }) => {
                values.get(&Typed(ty, key)).copied()
            }
            (Apart::Items(items), _, _) => {
                index.and_then(|index| items.get(index).copied()).flatten()
            }
            (Apart::Sorted(_) | Apart::Unsorted(_), _, _) => None,
        };
        (found, part_type)
    }

    /// Whether a check of what a whole collection contains holds; `None` if it is another check.
    pub(crate) fn contains<'v>(
        &mut self,
        column: &'w Column,
        operator: Comparison,
        mut values: impl Iterator<Item = Option<&'v [u8]>>,
        whole: Option<&'w [u8]>,
    ) -> Option<bool> {
        let (in_keys, is_wanted) = match operator {
            Comparison::Contains => (false, true),
            Comparison::NotContains => (false, false),
            Comparison::ContainsKey => (true, true),
            Comparison::NotContainsKey => (true, false),
            _ => return None,
        };
        let sets = if in_keys { &mut self.keys } else { &mut self.elements };
        let ty = element_type(&column.cql_type, in_keys);
        let contained: &BTreeSet<Typed<'_>> = sets.entry(column.id).or_insert_with(|| {
            contained_in(&column.cql_type, whole.unwrap_or_default(), in_keys).collect()
        });
        Some(values.all(|value| {
            let found = ty.zip(value).is_some_and(|(ty, value)| {
                whole.is_some() && contained.contains(&Typed(ty, value))
            });
            found == is_wanted
        }))
    }
}

/// The type of what a collection contains, or of its keys.
fn element_type(ty: &CqlType, in_keys: bool) -> Option<&CqlType> {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => Some(element),
        CqlType::Map { key, .. } if in_keys => Some(key),
        CqlType::Map { value, .. } => Some(value),
        _ => None,
    }
}

/// What a collection contains, or its keys.
fn contained_in<'w>(
    ty: &'w CqlType,
    whole: &'w [u8],
    in_keys: bool,
) -> Box<dyn Iterator<Item = Typed<'w>> + 'w> {
    let Some(element_type) = element_type(ty, in_keys) else {
        return Box::new(std::iter::empty());
    };
    match ty {
        CqlType::Map { .. } => Box::new(
            MapIter::new(whole)
                .filter_map(Result::ok)
                .map(move |(key, value)| Typed(element_type, if in_keys { key } else { value })),
        ),
        _ => Box::new(
            ListIter::new(whole)
                .filter_map(|item| item.ok().flatten())
                .map(move |item| Typed(element_type, item)),
        ),
    }
}

impl<'w> Apart<'w> {
    fn new(ty: &'w CqlType, whole: &'w [u8]) -> Apart<'w> {
        let counted = |_: &Option<&[u8]>| steps::note();
        match ty {
            CqlType::Map { key, .. } => {
                let entries: Vec<_> = MapIter::new(whole).filter_map(Result::ok).collect();
                let is_sorted = entries.is_sorted_by(|(a, _), (b, _)| {
                    steps::note();
                    compare(key, a, b).is_le()
                });
                if is_sorted {
                    return Apart::Sorted(entries);
                }
                let mut values = BTreeMap::new();
                for (entry_key, value) in entries {
                    values.entry(Typed(key, entry_key)).or_insert(value);
                }
                Apart::Unsorted(values)
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

/// The first value at a key, of entries in order.
fn value_at<'w>(
    key_type: &CqlType,
    entries: &[(&'w [u8], &'w [u8])],
    key: &[u8],
) -> Option<&'w [u8]> {
    let order = |entry: &[u8]| {
        steps::note();
        compare(key_type, entry, key)
    };
    let found = entries.get(entries.partition_point(|(entry, _)| order(entry).is_lt()));
    found.filter(|(entry, _)| order(entry).is_eq()).map(|(_, value)| *value)
}
