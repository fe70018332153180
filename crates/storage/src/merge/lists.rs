//! Positions in a list: they are counted over the elements that are live in the row as it was before
//! the mutation, after what the same statement has written before.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::{CellRef, ColumnId, CorruptRow, LiveCells, Refusal, RowChange};

use super::MergeError;
use super::reconcile::newer_cell;
use super::row::Before;
use crate::steps;

/// Up to so many values are compared one by one; more are sorted first.
const VALUES_SCANNED_MAX: usize = 16;

/// The live elements of a list, in order, under the deletion that comes with the change. `written`
/// are the cells that the change has written so far.
pub(crate) fn live_elements<'a>(
    before: Before<'a>,
    change: &RowChange,
    column: ColumnId,
    written: &[CellRef<'a>],
) -> Result<Vec<CellRef<'a>>, CorruptRow> {
    let deleted_us = change.deletion.map_or(i64::MIN, |deletion| deletion.timestamp_us);
    let covering_us = before.first_covering_us.max(deleted_us);
    let mut elements = Vec::new();
    if let Some(row) = before.first_row {
        for cell in LiveCells::new(row, covering_us, before.now_s).hiding(before.hidden).cells() {
            let cell = cell?;
            if cell.column == column {
                elements.push(cell);
            }
        }
    }
    let written = written.iter().filter(|cell| cell.column == column);
    if written.clone().next().is_none() {
        return Ok(elements);
    }
    let gone_us = written
        .clone()
        .filter(|cell| cell.deletes_elements())
        .map(|cell| cell.timestamp_us)
        .max()
        .unwrap_or(i64::MIN);
    let mut by_path: BTreeMap<&[u8], CellRef<'a>> = BTreeMap::new();
    for cell in elements.iter().chain(written).filter(|cell| cell.timestamp_us > gone_us) {
        if let Some(path) = cell.path {
            by_path.entry(path).and_modify(|old| *old = newer_cell(*old, *cell)).or_insert(*cell);
        }
    }
    Ok(by_path.into_values().filter(|cell| cell.is_live(before.now_s)).collect())
}

/// The path of the element at an index; `on_null` is the answer where the list is null.
pub(crate) fn path_at<'a>(
    elements: &[CellRef<'a>],
    index: i32,
    on_null: Refusal,
) -> Result<&'a [u8], MergeError> {
    if elements.is_empty() {
        return Err(on_null.into());
    }
    let found = usize::try_from(index).ok().and_then(|index| elements.get(index));
    match found.and_then(|element| element.path) {
        Some(path) => Ok(path),
        None => Err(Refusal::ListIndexOutOfBounds { index, size: elements.len() }.into()),
    }
}

/// The values to be removed from a list.
pub(crate) enum RemovedValues<'v> {
    Few(&'v [Bytes]),
    /// Sorted, so that a long list does not meet each of many values.
    Many(Vec<&'v [u8]>),
}

impl<'v> RemovedValues<'v> {
    pub(crate) fn new(values: &'v [Bytes]) -> RemovedValues<'v> {
        if values.len() <= VALUES_SCANNED_MAX {
            return RemovedValues::Few(values);
        }
        let mut sorted: Vec<&[u8]> = values.iter().map(Bytes::as_ref).collect();
        sorted.sort_unstable_by(|a, b| {
            steps::note();
            a.cmp(b)
        });
        RemovedValues::Many(sorted)
    }

    pub(crate) fn contain(&self, value: &[u8]) -> bool {
        match self {
            RemovedValues::Few(values) => values.iter().any(|removed| {
                steps::note();
                removed.as_ref() == value
            }),
            RemovedValues::Many(sorted) => {
                let found = sorted.binary_search_by(|removed| {
                    steps::note();
                    (*removed).cmp(value)
                });
                found.is_ok()
            }
        }
    }
}
