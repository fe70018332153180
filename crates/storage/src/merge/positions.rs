//! Positions in lists for a change that names many: each list is laid out once, and what the change writes is noted in
//! it. The paths that a list can have by the end are known from the start, since a position only names what is there.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use types::{CellAction, CellRef, ColumnId, CorruptRow, LiveCells, RowChange};

use super::reconcile::newer_cell;
use super::row::Before;
use crate::steps;

/// The lists of a row in which a change names positions.
pub(crate) struct Positions<'a> {
    lists: BTreeMap<ColumnId, LaidOut<'a>>,
    now_s: u32,
}

impl<'a> Positions<'a> {
    pub(crate) fn new(
        before: Before<'a>,
        change: &'a RowChange,
    ) -> Result<Positions<'a>, CorruptRow> {
        let mut lists: BTreeMap<ColumnId, LaidOut<'a>> = BTreeMap::new();
        for cell in &change.cells {
            match &cell.action {
                CellAction::ListSetAt { .. } | CellAction::ListDeleteAt { .. } => {
                    lists.entry(cell.column).or_default();
                }
                CellAction::ListRemoveValues { .. } => {
                    let list = lists.entry(cell.column).or_default();
                    list.by_value.get_or_insert_default();
                }
                _ => {}
            }
        }
        let mut elements = Vec::new();
        if let Some(row) = before.first_row {
            let covering_us = before.first_covering_us_under(change);
            for cell in LiveCells::new(row, covering_us, before.now_s).hiding(before.hidden).cells()
            {
                steps::note();
                let cell = cell?;
                if let (Some(list), Some(path)) = (lists.get_mut(&cell.column), cell.path) {
                    list.paths.push(path);
                    elements.push(cell);
                }
            }
        }
        for cell in &change.cells {
            if let CellAction::Set { path: Some(path), .. }
            | CellAction::Delete { path: Some(path), .. } = &cell.action
                && let Some(list) = lists.get_mut(&cell.column)
            {
                list.paths.push(path);
            }
        }
        lists.values_mut().for_each(LaidOut::lay_out);
        let mut positions = Positions { lists, now_s: before.now_s };
        for cell in &elements {
            positions.note(cell);
        }
        Ok(positions)
    }

    /// A cell is there, or was written.
    pub(crate) fn note(&mut self, cell: &CellRef<'a>) {
        let Some(list) = self.lists.get_mut(&cell.column) else { return };
        if cell.deletes_elements() {
            list.delete_until(cell.timestamp_us, self.now_s);
        } else if let Some(path) = cell.path
            && Some(cell.timestamp_us) > list.gone_us
            && let Ok(place) = list.place_of(path)
        {
            let old = list.cells.get(place).copied().flatten();
            let cell = old.map_or(*cell, |old| newer_cell(old, *cell));
            list.put(place, Some(cell), self.now_s);
        }
    }

    /// How many elements are live.
    pub(crate) fn live_count(&self, column: ColumnId) -> usize {
        self.lists.get(&column).map_or(0, |list| list.live_count)
    }

    /// The path of the live element at an index.
    pub(crate) fn path_at(&self, column: ColumnId, index: usize) -> Option<&'a [u8]> {
        let list = self.lists.get(&column)?;
        if index >= list.live_count {
            return None;
        }
        list.paths.get(list.place_at(index)).copied()
    }

    /// The paths of the live elements that have one of those values and are not newer than their removal.
    pub(crate) fn paths_with(
        &self,
        column: ColumnId,
        values: &[Bytes],
        removed_us: i64,
    ) -> Vec<Option<&'a [u8]>> {
        let Some(list) = self.lists.get(&column) else { return Vec::new() };
        let values: BTreeSet<&[u8]> = values.iter().map(Bytes::as_ref).collect();
        let mut paths = Vec::new();
        for value in values {
            steps::note();
            let removed = (value, i64::MIN, 0)..=(value, removed_us, usize::MAX);
            for (_, _, place) in list.by_value.iter().flat_map(|it| it.range(removed.clone())) {
                steps::note();
                paths.push(list.paths.get(*place).copied());
            }
        }
        paths
    }
}

/// One list.
#[derive(Default)]
struct LaidOut<'a> {
    /// All that there can be, in order.
    paths: Vec<&'a [u8]>,
    /// The newest cell at each of them.
    cells: Vec<Option<CellRef<'a>>>,
    /// A Fenwick tree: at place i, counted from one, how many of the last paths up to i are live, as many as the lowest
    /// bit of i says.
    live_counts: Vec<usize>,
    live_count: usize,
    /// Elements up to this time are deleted.
    gone_us: Option<i64>,
    /// The live elements by value, time and place; only where values are removed.
    by_value: Option<BTreeSet<(&'a [u8], i64, usize)>>,
}

impl<'a> LaidOut<'a> {
    fn lay_out(&mut self) {
        self.paths.sort_unstable_by(|a, b| {
            steps::note();
            a.cmp(b)
        });
        self.paths.dedup();
        self.cells = vec![None; self.paths.len()];
        self.live_counts = vec![0; self.paths.len() + 1];
    }

    fn place_of(&self, path: &[u8]) -> Result<usize, usize> {
        self.paths.binary_search_by(|known| {
            steps::note();
            (*known).cmp(path)
        })
    }

    fn delete_until(&mut self, timestamp_us: i64, now_s: u32) {
        // The cells of one statement have one time: again and again it deletes nothing more.
        if self.gone_us >= Some(timestamp_us) {
            return;
        }
        self.gone_us = Some(timestamp_us);
        for place in 0..self.cells.len() {
            steps::note();
            let cell = self.cells.get(place).copied().flatten();
            if cell.is_some_and(|cell| cell.timestamp_us <= timestamp_us) {
                self.put(place, None, now_s);
            }
        }
    }

    fn put(&mut self, place: usize, cell: Option<CellRef<'a>>, now_s: u32) {
        let Some(slot) = self.cells.get_mut(place) else { return };
        let old = std::mem::replace(slot, cell).filter(|cell| cell.is_live(now_s));
        let new = cell.filter(|cell| cell.is_live(now_s));
        if let Some(by_value) = &mut self.by_value {
            if let Some(old) = old {
                by_value.remove(&(old.value(), old.timestamp_us, place));
            }
            if let Some(new) = new {
                by_value.insert((new.value(), new.timestamp_us, place));
            }
        }
        match (old.is_some(), new.is_some()) {
            (false, true) => {
                self.live_count += 1;
                self.count(place, |count| *count += 1);
            }
            (true, false) => {
                self.live_count -= 1;
                self.count(place, |count| *count -= 1);
            }
            _ => {}
        }
    }

    fn count(&mut self, place: usize, change: impl Fn(&mut usize)) {
        let mut at = place + 1;
        while let Some(count) = self.live_counts.get_mut(at) {
            steps::note();
            change(count);
            at += at & at.wrapping_neg();
        }
    }

    /// The place of the live element at an index, which is less than their count.
    fn place_at(&self, index: usize) -> usize {
        let (mut place, mut left) = (0, index);
        let mut step = self.live_counts.len().next_power_of_two();
        while step > 0 {
            steps::note();
            if let Some(count) = self.live_counts.get(place + step)
                && *count <= left
            {
                place += step;
                left -= count;
            }
            step /= 2;
        }
        place
    }
}
