//! Positions in a list: they are counted over the elements that are live in the row as it was before
//! the mutation, after what the same statement has written before.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::{CellAction, CellRef, ColumnId, CorruptRow, LiveCells, Refusal, RowChange};

use super::MergeError;
use super::positions::Positions;
use super::reconcile::newer_cell;
use super::row::Before;
use crate::steps;

/// Up to so many values are compared one by one; more are sorted first.
const VALUES_SCANNED_MAX: usize = 16;

/// For up to so many positions in a change the row is walked each time.
pub(crate) const POSITIONS_WALKED_MAX: usize = 4;

/// The lists of a row while a change is worked out.
pub(crate) struct Lists<'l, 'a> {
    before: &'l Before<'a>,
    change: &'a RowChange,
    walked_max: usize,
    /// Whether anything was looked for yet: most changes name no position and pay nothing.
    is_asked: bool,
    /// Where there are many positions to be found.
    positions: Option<Positions<'a>>,
}

impl<'l, 'a> Lists<'l, 'a> {
    /// For up to `walked_max` positions in the change the row is walked each time.
    pub(crate) fn new(
        before: &'l Before<'a>,
        change: &'a RowChange,
        walked_max: usize,
    ) -> Lists<'l, 'a> {
        Lists { before, change, walked_max, is_asked: false, positions: None }
    }

    /// Lays the lists out before the first position is looked for, if there are many.
    fn ask(&mut self, written: &[CellRef<'a>]) -> Result<(), CorruptRow> {
        if std::mem::replace(&mut self.is_asked, true) {
            return Ok(());
        }
        let looks = self.change.cells.iter().filter(|cell| looks_at_list(&cell.action)).count();
        if looks > self.walked_max {
            let mut positions = Positions::new(*self.before, self.change)?;
            written.iter().for_each(|cell| positions.note(cell));
            self.positions = Some(positions);
        }
        Ok(())
    }

    /// The change has written a cell.
    pub(crate) fn note(&mut self, cell: &CellRef<'a>) {
        if let Some(positions) = &mut self.positions {
            positions.note(cell);
        }
    }

    /// The path of the element at an index; `on_null` is the answer where the list is null. `written`
    /// are the cells that the change has written so far.
    pub(crate) fn path_at(
        &mut self,
        column: ColumnId,
        index: i32,
        written: &[CellRef<'a>],
        on_null: Refusal,
    ) -> Result<&'a [u8], MergeError> {
        self.ask(written)?;
        let place = usize::try_from(index).ok();
        let (size, path) = match &self.positions {
            Some(positions) => {
                let path = place.and_then(|place| positions.path_at(column, place));
                (positions.live_count(column), path)
            }
            None => {
                let elements = live_elements(*self.before, self.change, column, written)?;
                let found = place.and_then(|place| elements.get(place));
                (elements.len(), found.and_then(|element| element.path))
            }
        };
        match path {
            Some(path) => Ok(path),
            None if size == 0 => Err(on_null.into()),
            None => Err(Refusal::ListIndexOutOfBounds { index, size }.into()),
        }
    }

    /// The paths of the elements that have one of those values. A removal from before an element was written takes nothing
    /// away, and writes nothing.
    pub(crate) fn paths_with(
        &mut self,
        column: ColumnId,
        values: &[Bytes],
        removed_us: i64,
        written: &[CellRef<'a>],
    ) -> Result<Vec<Option<&'a [u8]>>, CorruptRow> {
        self.ask(written)?;
        if let Some(positions) = &self.positions {
            return Ok(positions.paths_with(column, values, removed_us));
        }
        let removed = RemovedValues::new(values);
        let elements = live_elements(*self.before, self.change, column, written)?.into_iter();
        let found = elements.filter(|element| {
            element.timestamp_us <= removed_us && removed.contain(element.value())
        });
        Ok(found.map(|element| element.path).collect())
    }
}

fn looks_at_list(action: &CellAction) -> bool {
    matches!(
        action,
        CellAction::ListSetAt { .. }
            | CellAction::ListDeleteAt { .. }
            | CellAction::ListRemoveValues { .. }
    )
}

/// The live elements of a list, in order, under the deletion that comes with the change. `written`
/// are the cells that the change has written so far.
fn live_elements<'a>(
    before: Before<'a>,
    change: &RowChange,
    column: ColumnId,
    written: &[CellRef<'a>],
) -> Result<Vec<CellRef<'a>>, CorruptRow> {
    let covering_us = before.first_covering_us_under(change);
    let mut elements = Vec::new();
    if let Some(row) = before.first_row {
        for cell in LiveCells::new(row, covering_us, before.now_s).hiding(before.hidden).cells() {
            steps::note();
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

/// The values to be removed from a list.
enum RemovedValues<'v> {
    Few(&'v [Bytes]),
    /// Sorted, so that a long list does not meet each of many values.
    Many(Vec<&'v [u8]>),
}

impl<'v> RemovedValues<'v> {
    fn new(values: &'v [Bytes]) -> RemovedValues<'v> {
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

    fn contain(&self, value: &[u8]) -> bool {
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
