//! What the rows of a mutation weigh: storage knows their sizes, and is told what a size means.
//!
//! The size of a row is that of its partition key, its clustering key and its live values (D5). The
//! clustering key counts as it is kept, which is one to three bytes a column more than on the wire.

use types::{CorruptRow, LiveCells, RowView};

/// Something a mutation did to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// A row was written; sizes before and after, `None` where it was not there.
    Row {
        /// Before the mutation.
        before: Option<u64>,
        /// After it.
        after: Option<u64>,
    },
    /// A condition looked at a row; `None` where there was none.
    Condition(Option<u64>),
    /// A logical partition or a range of rows was deleted.
    RangeDeletion,
    /// So many entries of secondary indexes were added or taken away.
    IndexTerms(u64),
}

/// Weighs what was touched. The weights of a mutation are added up.
pub type Weigh = fn(Touched) -> u64;

/// Rows that take no more, keys and all, need not be measured: they all weigh the same.
pub(crate) const SMALL_ROW_BYTES: u64 = 1024;

/// The size of a row whose keys take `key_bytes`; `None` if nothing in it is live. Of a small row the
/// values are not measured.
pub(crate) fn live_bytes(
    row: Option<RowView<'_>>,
    key_bytes: u64,
    is_small: bool,
    covering_us: i64,
    now_s: u32,
) -> Result<Option<u64>, CorruptRow> {
    let Some(row) = row else { return Ok(None) };
    let cells = LiveCells::new(row, covering_us, now_s);
    // What was spilled is not in the bytes that made it look small.
    if is_small && !row.has_spilled() {
        return Ok(cells.is_live()?.then_some(key_bytes));
    }
    let value_bytes = cells.value_bytes()?;
    let is_live = value_bytes > 0 || cells.is_live()?;
    Ok(is_live.then_some(key_bytes.saturating_add(value_bytes)))
}
