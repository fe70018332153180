//! Rows with parts elsewhere, while a mutation changes them (see [`crate::spill`]).

use types::{ColumnId, RowChange, RowView, SpilledKind, SpilledPart};

use super::{CACHE_ID_BYTES, PendingRow, RowsChange};
use crate::error::{CommitError, TreeError};
use crate::merge::row::{After, Before, merge};
use crate::spill::{self, CellReader, FrozenCells, Loaded, SpillBounds, Want};
use crate::sure::tail;
use crate::tree::keys;
use tree::engine::{LATEST, TreeBytes};

impl RowsChange<'_> {
    pub(super) fn spill_bounds(&self) -> SpillBounds {
        let options = &self.core.options;
        SpillBounds {
            value_bytes_max: options.spilled_value_bytes_min,
            elements_max: options.row_elements_max,
        }
    }

    fn cell_reader(&self, with_pending: bool) -> CellReader<'_> {
        CellReader {
            tree: self.opened.tree.as_ref(),
            seqno: LATEST,
            pending: with_pending.then_some(&self.cell_writes),
        }
    }

    /// What the keys of the spilled cells of the row at hand begin with.
    fn cells_prefix(&self) -> Result<Vec<u8>, TreeError> {
        let tree_key = tail(&self.key, CACHE_ID_BYTES);
        Ok(keys::cells_prefix(tree_key).ok_or(types::CorruptRow)?)
    }

    /// The row at hand with everything put back.
    pub(super) fn thaw_row(&self, view: &RowView<'_>) -> Result<Vec<u8>, TreeError> {
        let (prefix, reader) = (self.cells_prefix()?, self.cell_reader(true));
        let thawed = spill::thaw(view, &prefix, reader, |_| Want::Everything, Vec::new())?;
        Ok(thawed.row)
    }

    /// A pending row as it was, or as it will be, with what indexes on those columns look at.
    pub(super) fn thaw_indexed(
        &self,
        row: &PendingRow,
        is_after: bool,
        columns: &[ColumnId],
    ) -> Result<Option<TreeBytes>, TreeError> {
        let value = if is_after { &row.value } else { &row.first_value };
        let Some(value) = value else { return Ok(None) };
        if keys::is_cut(&self.mutation.key) {
            return Ok(Some(value.clone()));
        }
        let view = RowView::decode(value)?;
        if !view.has_spilled() {
            return Ok(Some(value.clone()));
        }
        let row_key = tail(&row.key, CACHE_ID_BYTES);
        let prefix = keys::cells_prefix(row_key).ok_or(types::CorruptRow)?;
        let want = |part: &SpilledPart<'_>| match part.kind {
            SpilledKind::Value(_) if !columns.contains(&part.column) => Want::Nothing,
            SpilledKind::Value(_) | SpilledKind::Elements => Want::Everything,
        };
        let thawed = spill::thaw(&view, &prefix, self.cell_reader(is_after), want, Vec::new())?;
        Ok(Some(TreeBytes::from(thawed.row)))
    }

    /// Merges a change into a row with parts elsewhere.
    pub(super) fn merge_spilled(
        &self,
        before: Before<'_>,
        change: &RowChange,
        out: Vec<u8>,
    ) -> Result<FrozenCells, CommitError> {
        let of_tree = |error| self.of_tree(error);
        let prefix = self.cells_prefix().map_err(of_tree)?;
        let mut loaded = Loaded::default();
        let (mut row, mut first_row) = (before.row, before.first_row);
        let (thawed, thawed_first);
        if let Some(view) = before.row.filter(|view| view.has_spilled()) {
            let want = |part: &SpilledPart<'_>| spill::wanted_by(change, &view, part);
            let reader = self.cell_reader(true);
            let found = spill::thaw(&view, &prefix, reader, want, Vec::new()).map_err(of_tree)?;
            (thawed, loaded) = (found.row, found.loaded);
            row = Some(RowView::decode(&thawed).map_err(|it| of_tree(it.into()))?);
        }
        if let Some(view) = before.first_row.filter(|view| view.has_spilled()) {
            let want = |part: &SpilledPart<'_>| spill::wanted_by(change, &view, part);
            let reader = self.cell_reader(false);
            let found = spill::thaw(&view, &prefix, reader, want, Vec::new()).map_err(of_tree)?;
            thawed_first = found.row;
            first_row = Some(RowView::decode(&thawed_first).map_err(|it| of_tree(it.into()))?);
        }
        let merged = merge(&Before { row, first_row, ..before }, change, out);
        let after = merged.map_err(|error| self.of_merge(error))?;
        self.freeze(&after, before.row, &loaded)
    }

    /// Takes out of a row what is too large for it.
    pub(super) fn freeze(
        &self,
        after: &After,
        old: Option<RowView<'_>>,
        loaded: &Loaded,
    ) -> Result<FrozenCells, CommitError> {
        let prefix = self.cells_prefix().map_err(|error| self.of_tree(error))?;
        spill::freeze(&after.bytes, old.as_ref(), loaded, &prefix, self.spill_bounds())
            .map_err(|corrupt| self.of_tree(corrupt.into()))
    }
}
