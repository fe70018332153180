//! What a read asks for, and how rows come back: one by one, borrowed from where they lie.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::ids::{ColumnId, TableId};
use crate::key::{ClusteringRange, PartitionKey};
use crate::row::{CellRef, CorruptRow, RowView, RowWriter, with_spilled};
use crate::token::{RingRange, RingToken};

/// A read of one physical partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommand {
    /// The table.
    pub table: TableId,
    /// Which logical partitions.
    pub scope: ReadScope,
    /// Which rows of each.
    pub rows: RowSelection,
    /// Of these only the ones that a secondary index names need to be looked at; others do not pass
    /// what the caller checks anyway. Where the index cannot answer, all are.
    pub index: Option<IndexQuestion>,
    /// From the last row of each logical partition to the first.
    pub reversed: bool,
    /// What becomes of static rows.
    pub statics: Statics,
    /// What dropped columns left behind; empty for most tables.
    pub hidden: Vec<HiddenCells>,
    /// The columns that are looked at; values of others may come empty. `None`: all.
    pub columns: Option<Arc<[ColumnId]>>,
    /// Where to go on: everything up to and including this position has been returned already.
    pub after: Option<ReadPosition>,
    /// The second since the epoch at which expiry is judged.
    pub now_s: u32,
}

/// What a secondary index is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexQuestion {
    /// Which index.
    pub index: TableId,
    /// The value, element or key, as the protocol encodes it.
    pub value: Bytes,
    /// For an index on map entries: the value of the entry; `value` is its key.
    pub entry_value: Option<Bytes>,
}

/// Cells that are there but dead, because their column was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenCells {
    /// The column.
    pub column: ColumnId,
    /// Cells written at or before this are hidden, microseconds since the epoch.
    pub until_us: i64,
}

/// Which logical partitions a read looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// One.
    Partition(PartitionKey),
    /// All that lie in a part of the ring, in its order.
    Ring(RingRange),
}

/// Which rows of a logical partition are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowSelection {
    /// Every row.
    All,
    /// The rows with exactly these clustering keys, sorted ascending, each once.
    Points(SmallVec<[Bytes; 1]>),
    /// The rows of these ranges, sorted ascending, not overlapping.
    Ranges(Vec<ClusteringRange>),
    /// No clustered row: only the static row is wanted.
    None,
}

impl RowSelection {
    /// The row with that clustering key.
    pub fn point(clustering: Bytes) -> RowSelection {
        RowSelection::Points(SmallVec::from_buf([clustering]))
    }
}

/// What becomes of the static row of each logical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statics {
    /// It is not read.
    Skip,
    /// Each row brings it along.
    Attach,
    /// Each row brings it along, and where a logical partition has a live static row and no live
    /// row among the selected ones, it comes alone.
    AttachOrAlone,
}

/// A place between two rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// The logical partition that was being read.
    pub key: PartitionKey,
    /// The last row that was returned; `None` when the whole logical partition is done.
    pub clustering: Option<Bytes>,
}

/// How a read goes on after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next row, please.
    Continue,
    /// Enough of this logical partition.
    NextPartition,
    /// Enough.
    Stop,
}

/// Takes the rows of a read, in order.
pub trait RowSink {
    /// Takes one live row.
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow>;

    /// Told now and then, also when rows are skipped because they are dead, so that a scan whose
    /// time is up or whose client is gone stops. `false` stops the read.
    fn go_on(&mut self) -> bool {
        true
    }

    /// Told how many entries of a secondary index were followed to find the rows.
    fn on_entries(&mut self, _count: u64) {}

    /// Told of tombstones that were met outside of the rows that were handed out.
    fn on_tombstones(&mut self, _count: u64) {}
}

/// A row in which something is live, with the deletions that lie over it.
#[derive(Clone, Copy, Debug)]
pub struct LiveRow<'a> {
    /// The bytes of its partition key.
    pub partition_key: &'a [u8],
    /// The place of the key on the ring.
    pub ring: RingToken,
    /// Its clustering key; `None` when the static row comes alone.
    pub clustering: Option<&'a [u8]>,
    /// The row; `None` when the static row comes alone.
    pub row: Option<&'a LiveCells<'a>>,
    /// The static row, where the command asked for it and it has one.
    pub static_row: Option<&'a LiveCells<'a>>,
}

/// The cells of a row that are live under the deletions over it.
#[derive(Clone, Copy, Debug)]
pub struct LiveCells<'a> {
    view: RowView<'a>,
    shadow_us: i64,
    now_s: u32,
    hidden: &'a [HiddenCells],
}

impl<'a> LiveCells<'a> {
    /// `covering_us`: the newest deletion of the partition or of a range over this row
    /// (`i64::MIN` for none). The row's own deletion is added here.
    #[inline]
    pub fn new(view: RowView<'a>, covering_us: i64, now_s: u32) -> LiveCells<'a> {
        let own_us = view.deletion().map_or(i64::MIN, |deletion| deletion.timestamp_us);
        LiveCells { view, shadow_us: covering_us.max(own_us), now_s, hidden: &[] }
    }

    /// The same cells without those that dropped columns left behind, which come in the order of the columns' ids.
    pub fn hiding(self, hidden: &'a [HiddenCells]) -> LiveCells<'a> {
        LiveCells { hidden, ..self }
    }

    /// The row as it is stored.
    pub fn view(&self) -> &RowView<'a> {
        &self.view
    }

    /// Whether the row exists by itself (it was inserted, not only updated).
    pub fn has_liveness(&self) -> bool {
        self.view.liveness().is_some_and(|liveness| {
            liveness.timestamp_us > self.shadow_us
                && liveness.expiry.is_none_or(|expiry| expiry.expires_at_s > self.now_s)
        })
    }

    /// Whether anything is live: the row itself or a cell.
    #[inline]
    pub fn is_live(&self) -> Result<bool, CorruptRow> {
        if self.has_liveness() {
            return Ok(true);
        }
        match self.cells().next() {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(corrupt)) => Err(corrupt),
        }
    }

    /// Tombstones that a read of the row meets: its cells that are deleted or expired, and where there are none and nothing
    /// is live, its own deletion. As in Cassandra, what lies under a deletion is not met.
    pub fn tombstone_count(&self) -> Result<u64, CorruptRow> {
        let (mut dead_count, mut live_count) = (0, u64::from(self.has_liveness()));
        for cell in self.view.cells() {
            let cell = cell?;
            if cell.timestamp_us <= self.shadow_us || cell.deletes_elements() {
                continue;
            }
            match cell.is_live(self.now_s) {
                true => live_count += 1,
                false => dead_count += 1,
            }
        }
        let is_deleted = dead_count == 0 && live_count == 0 && self.view.deletion().is_some();
        Ok(dead_count + u64::from(is_deleted))
    }

    /// Hands out the columns and values of a row whose cells were all written with it, which most are:
    /// much cheaper than [`LiveCells::cells`]. `false` if the row is another; some may have come nevertheless.
    #[inline]
    pub fn each_plain(&self, each: impl FnMut(ColumnId, &'a [u8])) -> Result<bool, CorruptRow> {
        let is_plain = self.view.base_us() > self.shadow_us
            && self.hidden.is_empty()
            && !self.view.has_spilled();
        Ok(is_plain && self.view.each_plain(each)?)
    }

    /// Appends what is live as a stored row, in which all is live by itself. Where values are kept elsewhere, it says so as
    /// this row does.
    pub(crate) fn write_live(&self, out: &mut Vec<u8>) -> Result<(), CorruptRow> {
        let liveness = self.view.liveness().filter(|_| self.has_liveness());
        let original = self.view.original_clustering();
        if self.view.has_spilled() {
            let mut parts = Vec::new();
            for part in self.view.spilled() {
                part?.encode(&mut parts);
            }
            let mut writer = RowWriter::new(Vec::new(), liveness, None, original);
            self.write_cells(&mut writer)?;
            out.extend_from_slice(&with_spilled(&writer.finish(), &parts));
            return Ok(());
        }
        let mut writer = RowWriter::new(std::mem::take(out), liveness, None, original);
        let written = self.write_cells(&mut writer);
        *out = writer.finish();
        written
    }

    fn write_cells(&self, writer: &mut RowWriter) -> Result<(), CorruptRow> {
        // Most rows are plain: their cells are copied as they lie.
        if self.each_plain(|_, _| {})? {
            writer.push_stored(self.view.base_us(), self.view.stored_cells());
            return Ok(());
        }
        for cell in self.cells() {
            writer.push(&cell?);
        }
        Ok(())
    }

    /// The live cells, ordered by column and path.
    pub fn cells(&self) -> impl Iterator<Item = Result<CellRef<'a>, CorruptRow>> + use<'a> {
        let mut column_shadow = None;
        let (shadow_us, now_s, hidden) = (self.shadow_us, self.now_s, self.hidden);
        self.view.cells().filter_map(move |cell| match cell {
            Err(corrupt) => Some(Err(corrupt)),
            Ok(cell) => {
                if cell.deletes_elements() {
                    column_shadow = Some((cell.column, cell.timestamp_us));
                    return None;
                }
                let over = match column_shadow {
                    Some((column, timestamp_us)) if column == cell.column => {
                        shadow_us.max(timestamp_us)
                    }
                    _ => shadow_us,
                };
                let gone = hidden.binary_search_by(|gone| gone.column.cmp(&cell.column)).ok();
                let is_hidden = gone
                    .and_then(|place| hidden.get(place))
                    .is_some_and(|gone| cell.timestamp_us <= gone.until_us);
                (cell.timestamp_us > over && cell.is_live(now_s) && !is_hidden).then_some(Ok(cell))
            }
        })
    }
}
