//! Taking old partition deletions and range tombstones away.
//!
//! They lie over rows that are still there, so the rows go first: each row loses what an old
//! deletion covers, then the deletion itself goes. Nothing that a reader could tell changes, so the
//! log need not know; after a crash it is simply done again. It happens a few rows at a time, and no
//! change is applied to the table during such a moment.

use std::ops::ControlFlow;

use types::{CorruptRow, RowChange, RowPosition, RowView};

use super::deletions::{self, PartitionDeletions};
use super::engine::{LATEST, TreeBytes};
use super::keys::{self, SPACE_DELETIONS, SPACE_ROWS};
use super::store::{OpenStore, TableStore};
use crate::cache::RowCache;
use crate::error::TreeError;
use crate::merge::row::{Before, merge};

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
    let mut bytes = 0;
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
        while partition.sweep_some_rows()?.is_continue() {
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
            if let Some(left) = without_covered(&key, &value, &old)? {
                writes.push((key, left));
            }
        }
        let seqno = tree.draw_seqno();
        let mut bytes = 0;
        let mut cache_key = Vec::new();
        for (key, value) in writes {
            bytes += match value {
                Some(value) => tree.insert(&key, value, seqno),
                None => tree.remove(&key, seqno),
            };
            cache_key.clear();
            cache_key.extend_from_slice(&self.store.cache_id.to_be_bytes());
            cache_key.extend_from_slice(&key);
            self.cache.forget(&cache_key);
        }
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

/// What is left of a row's value: `None` if it stays as it is, `Some(None)` if it goes.
fn without_covered(
    key: &[u8],
    value: &[u8],
    old: &PartitionDeletions,
) -> Result<Option<Option<TreeBytes>>, CorruptRow> {
    let split = keys::split_row_key(key).ok_or(CorruptRow)?;
    let covering_us = old.covering_us(split.clustering);
    if covering_us == i64::MIN {
        return Ok(None);
    }
    let head_length = match split.partition_key {
        Some(_) => 0,
        None => keys::split_cut_key(value).ok_or(CorruptRow)?.0.len() + 2,
    };
    let (head, row) = value.split_at_checked(head_length).ok_or(CorruptRow)?;
    let row = Some(RowView::decode(row)?);
    let before = Before {
        row,
        first_row: row,
        covering_us,
        first_covering_us: covering_us,
        now_s: 0,
        hidden: &[],
    };
    let nothing = RowChange {
        position: RowPosition::Static,
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells: Vec::new(),
    };
    let after = merge(before, &nothing, head.to_vec()).map_err(|_| CorruptRow)?;
    if after.is_empty {
        return Ok(Some(None));
    }
    Ok((after.bytes != value).then(|| Some(TreeBytes::from(after.bytes))))
}
