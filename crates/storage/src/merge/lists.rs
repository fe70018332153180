//! Positions in a list: they are counted over the elements that are live in the row as it is.

use types::{CellRef, ColumnId, CorruptRow, LiveCells, Refusal, RowChange};

use super::MergeError;
use super::row::Before;

/// The live elements of a list, in order, under the deletion that comes with the change.
pub(crate) fn live_elements<'a>(
    before: Before<'a>,
    change: &RowChange,
    column: ColumnId,
) -> impl Iterator<Item = Result<CellRef<'a>, CorruptRow>> + use<'a> {
    let deleted_us = change.deletion.map_or(i64::MIN, |deletion| deletion.timestamp_us);
    let covering_us = before.covering_us.max(deleted_us);
    let live = before.row.map(|row| LiveCells::new(row, covering_us, before.now_s).cells());
    live.into_iter()
        .flatten()
        .filter(move |cell| cell.as_ref().map_or(true, |cell| cell.column == column))
}

/// The path of the element at an index.
pub(crate) fn path_at<'a>(
    before: Before<'a>,
    change: &RowChange,
    column: ColumnId,
    index: i32,
) -> Result<&'a [u8], MergeError> {
    let wanted = usize::try_from(index).ok();
    let mut size = 0;
    for element in live_elements(before, change, column) {
        let element = element?;
        if Some(size) == wanted
            && let Some(path) = element.path
        {
            return Ok(path);
        }
        size += 1;
    }
    if size == 0 {
        return Err(Refusal::ListIsNull.into());
    }
    Err(Refusal::ListIndexOutOfBounds { index, size }.into())
}
