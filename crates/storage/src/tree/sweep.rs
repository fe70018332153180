//! Taking old partition deletions and range tombstones away, and what is dead of rows with spilled
//! cells.
//!
//! They lie over rows that are still there, so the rows go first: each row loses what an old
//! deletion covers, then the deletion itself goes. Nothing that a reader could tell changes, so the
//! log need not know; after a crash it is simply done again. It happens a few rows at a time, and no
//! change is applied to the table during such a moment.
//!
//! A row with spilled cells has several keys, so no compaction can judge it alone: it is looked at
//! here.

use std::ops::ControlFlow;

use types::{CorruptRow, RowChange, RowPosition, RowView, RowWriter};

use super::deletions::{self, PartitionDeletions};
use super::engine::{LATEST, SeqNo, SortedTree, TreeBytes};
use super::keys::{self, SPACE_CELLS, SPACE_DELETIONS, SPACE_ROWS};
use super::purge::{Purged, purge_row};
use super::store::{OpenStore, TableStore};
use crate::cache::RowCache;
use crate::error::TreeError;
use crate::merge::row::{Before, merge};
use crate::spill::{self, CellReader, SpillBounds};

/// Rows that are looked at while nothing is applied.
const ROWS_PER_MOMENT: usize = 64;

/// Clears what deletions from before the horizon cover, and them. `goes_on` is asked between
/// moments. Returns by how many bytes memory grew.
pub(crate) fn sweep(
    store: &TableStore,
    opened: &OpenStore,
    cache: &RowCache,
    horizon_s: u32,
    goes_on: &dyn Fn() -> bool,
) -> Result<u64, TreeError> {
    let mut bytes = sweep_spilled(store, opened, cache, horizon_s, goes_on)?;
    let mut from = vec![SPACE_DELETIONS];
    let end = [SPACE_DELETIONS + 1];
    loop {
        let Some(item) = opened.tree.range(&from, &end, LATEST).next() else {
            return Ok(bytes);
        };
        let (key, _) = item?;
        let (prefix, _) = keys::split_prefix(&key).ok_or(CorruptRow)?;
        let mut partition = Sweep {
            store,
            opened,
            cache,
            horizon_s,
            prefix: prefix.get(1..).unwrap_or_default().to_vec(),
            cursor: None,
            bytes: 0,
        };
        // What indexes have of its dead rows must be removed first.
        let waits = opened.leftovers.contain(&partition.prefix);
        while !waits && partition.sweep_some_rows()?.is_continue() {
            if !goes_on() {
                return Ok(bytes + partition.bytes);
            }
        }
        bytes += partition.bytes;
        from.clear();
        from.extend_from_slice(prefix);
        keys::push_range_deletions_end(&mut from);
    }
}

struct Sweep<'s> {
    store: &'s TableStore,
    opened: &'s OpenStore,
    cache: &'s RowCache,
    horizon_s: u32,
    /// The partition prefix.
    prefix: Vec<u8>,
    /// The next row to look at.
    cursor: Option<Vec<u8>>,
    bytes: u64,
}

impl Sweep<'_> {
    fn sweep_some_rows(&mut self) -> Result<ControlFlow<()>, TreeError> {
        let pause = self.opened.pause();
        let tree = self.opened.tree.as_ref();
        let all = PartitionDeletions::load(tree, &self.prefix, LATEST)?;
        let (old, kept) = all.split_at_horizon(self.horizon_s);
        if old == PartitionDeletions::default() {
            return Ok(ControlFlow::Break(()));
        }
        let mut start = vec![SPACE_ROWS];
        start.extend_from_slice(&self.prefix);
        let mut end = start.clone();
        keys::push_rows_end(&mut end);
        let start = self.cursor.take().unwrap_or(start);
        let mut writes = Vec::new();
        let mut is_done = true;
        for (number, item) in tree.range(&start, &end, LATEST).enumerate() {
            let (key, value) = item?;
            if number == ROWS_PER_MOMENT {
                self.cursor = Some(key.to_vec());
                is_done = false;
                break;
            }
            let split = keys::split_row_key(&key).ok_or(CorruptRow)?;
            let covering_us = old.covering_us(split.clustering);
            if covering_us != i64::MIN {
                let keep = |row: &[u8], out: Vec<u8>| without_covered(row, covering_us, out);
                writes.append(&mut keep_of_row(tree, &key, &value, &keep)?);
            }
        }
        let seqno = tree.draw_seqno();
        let mut bytes = write_all(self.store, self.opened, self.cache, writes, seqno);
        if is_done {
            for (key, value) in deletions::difference(&self.prefix, &all, &kept) {
                bytes += match value {
                    Some(value) => tree.insert(&key, value, seqno),
                    None => tree.remove(&key, seqno),
                };
            }
        }
        self.opened.note_sweep(bytes);
        self.bytes += bytes;
        let is_clean = is_done && kept == PartitionDeletions::default();
        pause.publish(is_clean.then_some(self.prefix.as_slice()));
        Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// What is left of a row: `None` if nothing is. The new row is appended to the bytes.
type Keep<'k> = dyn Fn(&[u8], Vec<u8>) -> Result<Option<Vec<u8>>, CorruptRow> + 'k;

/// The writes that leave of a row and its spilled cells what is to be kept.
fn keep_of_row(
    tree: &dyn SortedTree,
    key: &[u8],
    value: &TreeBytes,
    keep: &Keep<'_>,
) -> Result<Vec<(TreeBytes, Option<TreeBytes>)>, TreeError> {
    let split = keys::split_row_key(key).ok_or(CorruptRow)?;
    let head_length = match split.partition_key {
        Some(_) => 0,
        None => keys::split_cut_key(value).ok_or(CorruptRow)?.0.len() + 2,
    };
    let (head, row) = value.split_at_checked(head_length).ok_or(CorruptRow)?;
    let view = RowView::decode(row)?;
    if !view.has_spilled() {
        return Ok(match keep(row, head.to_vec())? {
            Some(left) if left == **value => Vec::new(),
            left => vec![(TreeBytes::from(key), left.map(TreeBytes::from))],
        });
    }
    let prefix = keys::cells_prefix(key).ok_or(CorruptRow)?;
    let reader = CellReader { tree, seqno: LATEST, pending: None };
    let thawed = spill::thaw(&view, &prefix, reader, spill::wanted_by_time, Vec::new())?;
    let left = match keep(&thawed.row, Vec::new())? {
        Some(left) => left,
        None => RowWriter::new(Vec::new(), None, None, None).finish(),
    };
    let frozen = spill::freeze(&left, Some(&view), &thawed.loaded, &prefix, KEEP_AS_IT_IS)?;
    let writes = frozen.writes.into_iter();
    let mut writes: Vec<_> = writes.map(|(key, cell)| (TreeBytes::from(key), cell)).collect();
    if frozen.row.as_deref() != Some(value.as_ref()) {
        writes.push((TreeBytes::from(key), frozen.row.map(TreeBytes::from)));
    }
    Ok(writes)
}

/// A sweep moves nothing out of rows.
const KEEP_AS_IT_IS: SpillBounds =
    SpillBounds { value_bytes_max: usize::MAX, elements_max: usize::MAX };

fn without_covered(
    row: &[u8],
    covering_us: i64,
    out: Vec<u8>,
) -> Result<Option<Vec<u8>>, CorruptRow> {
    let row = Some(RowView::decode(row)?);
    let before = Before {
        row,
        first_row: row,
        covering_us,
        first_covering_us: covering_us,
        now_s: 0,
        hidden: &[],
        measure: None,
    };
    let nothing = RowChange {
        position: RowPosition::Static,
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells: Vec::new(),
    };
    let after = merge(before, &nothing, out).map_err(|_| CorruptRow)?;
    Ok((!after.is_empty).then_some(after.bytes))
}

fn without_dead(row: &[u8], horizon_s: u32, out: Vec<u8>) -> Result<Option<Vec<u8>>, CorruptRow> {
    Ok(match purge_row(row, horizon_s, out)? {
        Purged::Unchanged => Some(row.to_vec()),
        Purged::Smaller(left) => Some(left),
        Purged::Gone => None,
    })
}

/// Clears what is dead of rows with spilled cells. Returns by how many bytes memory grew.
fn sweep_spilled(
    store: &TableStore,
    opened: &OpenStore,
    cache: &RowCache,
    horizon_s: u32,
    goes_on: &dyn Fn() -> bool,
) -> Result<u64, TreeError> {
    let tree = opened.tree.as_ref();
    let (mut from, end) = (vec![SPACE_CELLS], [SPACE_CELLS + 1]);
    let mut bytes = 0;
    while goes_on() {
        let Some(item) = tree.range(&from, &end, LATEST).next() else { break };
        let (cell_key, _) = item?;
        let (row_key, prefix_length) = keys::row_of_cell(&cell_key).ok_or(CorruptRow)?;
        let prefix = cell_key.get(..prefix_length).ok_or(CorruptRow)?;
        let Some(behind) = types::successor(prefix) else { break };
        let pause = opened.pause();
        let keep = |row: &[u8], out: Vec<u8>| without_dead(row, horizon_s, out);
        let writes = match tree.get(&row_key, LATEST)? {
            Some(value) => keep_of_row(tree, &row_key, &value, &keep)?,
            None => all_between(tree, prefix, &behind)?,
        };
        let grown = write_all(store, opened, cache, writes, tree.draw_seqno());
        opened.note_sweep(grown);
        bytes += grown;
        pause.publish(None);
        from = behind;
    }
    Ok(bytes)
}

/// Cells whose row is gone.
fn all_between(
    tree: &dyn SortedTree,
    start: &[u8],
    end: &[u8],
) -> Result<Vec<(TreeBytes, Option<TreeBytes>)>, TreeError> {
    tree.range(start, end, LATEST).map(|item| item.map(|(key, _)| (key, None))).collect()
}

/// Writes what is left and forgets it in the cache. Returns by how many bytes memory grew.
fn write_all(
    store: &TableStore,
    opened: &OpenStore,
    cache: &RowCache,
    writes: Vec<(TreeBytes, Option<TreeBytes>)>,
    seqno: SeqNo,
) -> u64 {
    let mut bytes = 0;
    let mut cache_key = Vec::new();
    for (key, value) in writes {
        bytes += match value {
            Some(value) => opened.tree.insert(&key, value, seqno),
            None => opened.tree.remove(&key, seqno),
        };
        cache_key.clear();
        cache_key.extend_from_slice(&store.cache_id.to_be_bytes());
        cache_key.extend_from_slice(&key);
        cache.forget(&cache_key);
    }
    bytes
}
