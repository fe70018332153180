//! Taking old partition deletions and range tombstones away, and what is dead of rows with spilled
//! cells.
//!
//! Deletions lie over rows that are still there, so the rows go first: each row loses what an old
//! deletion covers, then the deletion itself goes. A late write can tell whether it is still there, so it goes
//! by entries of the log, at the same place in every replica and in every replay (see `apply::sweep`).
//! Here the entries are made, a few rows each.
//!
//! A row with spilled cells has several keys, so no compaction can judge it alone: it is looked at
//! here, and loses what merging takes for gone anyway.

use bytes::Bytes;
use types::{CorruptRow, RowChange, RowPosition, RowView, RowWriter, TableId};

use super::deletions::PartitionDeletions;
use super::keys::{self, SPACE_CELLS, SPACE_DELETIONS, SPACE_ROWS};
use super::purge::{Purged, purge_row};
use super::store::{OpenStore, TableStore};
use crate::cache::RowCache;
use crate::entry::Sweep;
use crate::error::TreeError;
use crate::merge::row::{Before, merge};
use crate::spill::{self, CellReader, SpillBounds};
use tree::engine::{LATEST, SeqNo, SortedTree, TreeBytes};

/// Rows that one entry looks at.
const ROWS_PER_SWEEP_MAX: usize = 1_000;

/// Hands over the entries that clear what deletions from before the horizon of their partition cover, and then them. `commit`
/// says whether to go on with the partition.
pub(crate) fn sweep_deletions(
    table: TableId,
    opened: &OpenStore,
    horizon_s: impl Fn(&[u8]) -> u32,
    mut commit: impl FnMut(Sweep) -> bool,
) -> Result<(), TreeError> {
    let mut start = vec![SPACE_DELETIONS];
    let end = [SPACE_DELETIONS + 1];
    loop {
        let Some(item) = opened.tree.range(&start, &end, LATEST).next() else {
            return Ok(());
        };
        let (key, _) = item?;
        let (prefix, _) = keys::split_prefix(&key).ok_or(CorruptRow)?;
        let partition = Bytes::copy_from_slice(prefix.get(1..).ok_or(CorruptRow)?);
        // What indexes have of its dead rows must be removed first.
        if !opened.leftovers.contain(&partition) {
            let mut first = vec![SPACE_ROWS];
            first.extend_from_slice(&partition);
            let mut from = Some(Bytes::from(first));
            let horizon_s = horizon_s(&partition);
            while let Some(at) = from.take() {
                let Some(sweep) = next_sweep(table, opened, horizon_s, &partition, at)? else {
                    break;
                };
                let next = sweep.to.clone();
                if commit(sweep) {
                    from = next;
                }
            }
        }
        start.clear();
        start.extend_from_slice(prefix);
        keys::push_range_deletions_end(&mut start);
    }
}

/// The next part of a partition with old deletions; `None` if it has none.
pub(crate) fn next_sweep(
    table: TableId,
    opened: &OpenStore,
    horizon_s: u32,
    prefix: &Bytes,
    from: Bytes,
) -> Result<Option<Sweep>, TreeError> {
    let snapshot = opened.snapshot_of_all();
    let tree = opened.tree.as_ref();
    let all = PartitionDeletions::load(tree, prefix, snapshot.seqno)?;
    let (old, _) = all.split_at_horizon(horizon_s);
    if old == PartitionDeletions::default() {
        return Ok(None);
    }
    let end = rows_end(prefix);
    let to = tree.range(&from, &end, snapshot.seqno).nth(ROWS_PER_SWEEP_MAX).transpose()?;
    let to = to.map(|(key, _)| Bytes::copy_from_slice(&key));
    Ok(Some(Sweep { table, horizon_s, prefix: prefix.clone(), from, to }))
}

/// Behind the last row of a partition.
pub(crate) fn rows_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = vec![SPACE_ROWS];
    end.extend_from_slice(prefix);
    keys::push_rows_end(&mut end);
    end
}

/// The writes that leave of a row what a deletion does not cover.
pub(crate) fn uncovered(
    tree: &dyn SortedTree,
    key: &[u8],
    value: &TreeBytes,
    covering_us: i64,
) -> Result<Vec<(TreeBytes, Option<TreeBytes>)>, TreeError> {
    let keep = |row: &[u8], out: Vec<u8>| without_covered(row, covering_us, out);
    keep_of_row(tree, key, value, &keep, Shape::AsIsLeft)
}

/// What is left of a row: `None` if nothing is. The new row is appended to the bytes.
type Keep<'k> = dyn Fn(&[u8], Vec<u8>) -> Result<Option<Vec<u8>>, CorruptRow> + 'k;

/// What becomes of a row that has spilled cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As what is left of it.
    AsIsLeft,
    /// As it is: only dead elements beside it go. What is in a row, and what beside it, is the same on all members of a set: it is
    /// decided by entries, and each member sweeps when it likes.
    Stays,
}

/// The writes that leave of a row and its spilled cells what is to be kept.
fn keep_of_row(
    tree: &dyn SortedTree,
    key: &[u8],
    value: &TreeBytes,
    keep: &Keep<'_>,
    shape: Shape,
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
    let is_element = |(key, cell): &(Vec<u8>, Option<TreeBytes>)| {
        cell.is_none() && thawed.loaded.has_element(key)
    };
    let writes = frozen.writes.into_iter().filter(|it| shape == Shape::AsIsLeft || is_element(it));
    let mut writes: Vec<_> = writes.map(|(key, cell)| (TreeBytes::from(key), cell)).collect();
    if frozen.row.as_deref() != Some(value.as_ref()) && shape == Shape::AsIsLeft {
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
        horizon_s: 0,
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
    let after = merge(&before, &nothing, out).map_err(|_| CorruptRow)?;
    Ok((!after.is_empty).then_some(after.bytes))
}

fn without_dead(row: &[u8], horizon_s: u32, out: Vec<u8>) -> Result<Option<Vec<u8>>, CorruptRow> {
    Ok(match purge_row(row, horizon_s, out)? {
        Purged::Unchanged => Some(row.to_vec()),
        Purged::Smaller(left) => Some(left),
        Purged::Gone => None,
    })
}

/// Clears what is dead of rows with spilled cells. `goes_on` is asked between rows. Returns by how many bytes
/// memory grew.
pub(crate) fn sweep_spilled(
    store: &TableStore,
    opened: &OpenStore,
    cache: &RowCache,
    (horizon_s, shape): (u32, Shape),
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
            Some(value) => keep_of_row(tree, &row_key, &value, &keep, shape)?,
            None => all_between(tree, prefix, &behind)?,
        };
        let grown = write_all(store, opened, cache, writes, tree.draw_seqno());
        opened.note_sweep(grown);
        bytes += grown;
        pause.publish();
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
