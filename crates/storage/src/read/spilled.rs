//! Rows with parts elsewhere, while they are read (see [`crate::spill`]).

use types::{LiveCells, RowView, SpilledKind, SpilledPart, with_spilled};

use super::{Partition, Reader};
use crate::error::TreeError;
use crate::spill::{self, CellReader, Thawed, Want};
use crate::tree::keys::{self, SPACE_ROWS};
use tree::engine::TreeBytes;

/// Whether parts of a value are kept elsewhere. Such a row is never behind a partition key that was
/// cut.
pub(super) fn has_spilled(value: Option<&TreeBytes>, is_cut: bool) -> bool {
    !is_cut && value.is_some_and(|value| RowView::decode(value).is_ok_and(|row| row.has_spilled()))
}

impl Reader<'_> {
    /// A row with those parts put back that the command looks at; `None` if nothing in it is live.
    pub(super) fn thaw_live(
        &self,
        partition: &Partition<'_>,
        clustering: &[u8],
        view: &RowView<'_>,
        covering_us: i64,
    ) -> Result<Option<Vec<u8>>, TreeError> {
        let mut row_key = vec![SPACE_ROWS];
        keys::push_whole_prefix(&mut row_key, partition.ring, partition.key);
        keys::push_clustering(&mut row_key, clustering);
        let prefix = keys::cells_prefix(&row_key).ok_or(types::CorruptRow)?;
        let tree = self.opened.tree.as_ref();
        let reader = CellReader { tree, seqno: self.seqno, pending: None };
        let thaw = |all: bool| -> Result<Thawed, TreeError> {
            let want = |part: &SpilledPart<'_>| match &self.command.columns {
                Some(columns) if !all && !columns.contains(&part.column) => Want::Nothing,
                _ => Want::Everything,
            };
            spill::thaw(view, &prefix, reader, want, Vec::new())
        };
        let is_live = |row: &[u8]| {
            LiveCells::new(RowView::decode(row)?, covering_us, self.command.now_s)
                .hiding(&self.command.hidden)
                .is_live()
        };
        let mut thawed = thaw(false)?;
        let mut left = self.left_behind(view)?;
        if thawed.lacks_elements && !is_live(&thawed.row)? {
            thawed = thaw(true)?;
            left.clear();
        }
        if !is_live(&thawed.row)? {
            return Ok(None);
        }
        Ok(Some(if left.is_empty() { thawed.row } else { with_spilled(&thawed.row, &left) }))
    }

    /// The values that the command does not look at: they stay where they are, but belong to the size
    /// of the row, which is charged whole (D5).
    fn left_behind(&self, view: &RowView<'_>) -> Result<Vec<u8>, TreeError> {
        let mut left = Vec::new();
        let Some(columns) = &self.command.columns else { return Ok(left) };
        for part in view.spilled() {
            let part = part?;
            if matches!(part.kind, SpilledKind::Value(_)) && !columns.contains(&part.column) {
                part.encode(&mut left);
            }
        }
        Ok(left)
    }
}
