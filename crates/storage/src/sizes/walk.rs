//! Counting rows that are there, while writes go on.
//!
//! A walk goes over rows in the order of the tree, a few at a time, and during such a moment nothing
//! is applied. What is changed behind its cursor was counted as it was, so the difference is added;
//! what is changed before it will be read as it is then. So the sum is exact when it is done.

use std::time::Duration;

use bytes::Bytes;
use types::{CorruptRow, PartitionKey, RingToken, RowView};

use super::ring::RingSums;
use super::row_size::{RowRuler, Size};
use super::tracked::Tracked;
use super::{RowDelta, TableSizes};
use crate::core::Core;
use crate::error::TreeError;
use crate::spill::elements_of;
use crate::sure::tail;
use crate::tree::deletions::PartitionDeletions;
use crate::tree::keys::{self, SPACE_ROWS};
use crate::tree::store::{OpenStore, TableStore};
use tree::engine::LATEST;

/// Rows that are looked at while nothing is applied.
const ROWS_PER_MOMENT: usize = 64;
/// Between two such moments.
const REST: Duration = Duration::from_millis(1);

/// A walk under way.
#[derive(Debug)]
pub(super) struct Walk {
    /// Rows before this are counted.
    cursor: Vec<u8>,
    /// The partition that the cursor is in.
    current: Option<Current>,
    /// The table as it is counted, where all of it is.
    whole: Option<RingSums>,
}

#[derive(Debug)]
struct Current {
    /// Space and partition prefix.
    prefix: Vec<u8>,
    ring: RingToken,
    key: Bytes,
    size: Size,
}

impl Walk {
    /// A row was changed.
    pub(super) fn note(&mut self, ring: RingToken, row: &RowDelta<'_>, part_bytes_max: u64) {
        if row.tree_key >= self.cursor.as_slice() {
            return;
        }
        if let Some(current) = &mut self.current
            && current.ring == ring
        {
            current.size.add(row.size);
        }
        if let Some(whole) = &mut self.whole {
            whole.add(ring, row.size, part_bytes_max);
        }
    }
}

/// Does the walks that are due in a store. `goes_on` is asked between moments.
pub(crate) fn walk_due(
    core: &Core,
    store: &TableStore,
    opened: &OpenStore,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), TreeError> {
    let sizes = &opened.sizes;
    let now_s = core.clock.now_s();
    let (is_full, keys) = sizes.take_due(now_s);
    if is_full {
        return walk(core, store, opened, None, goes_on);
    }
    for key in keys {
        if !goes_on() {
            return Ok(());
        }
        walk(core, store, opened, Some(&key), goes_on)?;
    }
    Ok(())
}

fn walk(
    core: &Core,
    store: &TableStore,
    opened: &OpenStore,
    key: Option<&PartitionKey>,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), TreeError> {
    let mut start = vec![SPACE_ROWS];
    let end = match key {
        Some(key) => {
            keys::push_partition_prefix(&mut start, key);
            let mut end = start.clone();
            keys::push_rows_end(&mut end);
            end
        }
        None => vec![SPACE_ROWS + 1],
    };
    let table = core.schema.table(store.id);
    let ruler = RowRuler::new(table.as_deref(), core.clock.now_s());
    opened.sizes.begin_walk(start.clone(), key, ruler.now_s);
    loop {
        // Read once before nobody may write, so that the disk is not waited for then.
        for item in opened.tree.range(&start, &end, LATEST).take(ROWS_PER_MOMENT) {
            item?;
        }
        let next = {
            let pause = opened.pause();
            let next = count_some(opened, &ruler, &start, &end);
            pause.publish();
            next
        };
        match next {
            Ok(Some(next)) if goes_on() => {
                start = next;
                // A long walk leaves most of the time to those who write.
                core.rest(REST);
            }
            Ok(None) => return Ok(()),
            Ok(Some(_)) => {
                opened.sizes.give_up_walk();
                return Ok(());
            }
            Err(error) => {
                opened.sizes.give_up_walk();
                return Err(error);
            }
        }
    }
}

/// Counts a few rows; returns where to go on.
fn count_some(
    opened: &OpenStore,
    ruler: &RowRuler<'_>,
    start: &[u8],
    end: &[u8],
) -> Result<Option<Vec<u8>>, TreeError> {
    let mut inner = opened.sizes.inner.lock();
    let inner = &mut *inner;
    let bounds = opened.sizes.bounds;
    let Some(mut walk) = inner.walk.take() else { return Ok(None) };
    let mut deletions: Option<PartitionDeletions> = None;
    for (number, item) in opened.tree.range(start, end, LATEST).enumerate() {
        let (tree_key, value) = item?;
        if number == ROWS_PER_MOMENT {
            walk.cursor = tree_key.to_vec();
            inner.walk = Some(walk);
            return Ok(Some(tree_key.to_vec()));
        }
        let split = keys::split_row_key(&tree_key).ok_or(CorruptRow)?;
        let (partition_key, row) = match split.partition_key {
            Some(key) => (key, value.as_ref()),
            None => keys::split_cut_key(&value).ok_or(CorruptRow)?,
        };
        if walk.current.as_ref().is_none_or(|current| current.prefix != split.prefix) {
            if let Some(done) = walk.current.take() {
                inner.learn(done.key, done.ring, done.size, &bounds);
            }
            walk.current = Some(Current {
                prefix: split.prefix.to_vec(),
                ring: split.ring,
                key: Bytes::copy_from_slice(partition_key),
                size: Size::default(),
            });
            deletions = None;
        }
        if deletions.is_none() {
            let prefix = tail(split.prefix, 1);
            deletions = Some(match opened.deleted.may_contain(prefix) {
                true => PartitionDeletions::load(opened.tree.as_ref(), prefix, LATEST)?,
                false => PartitionDeletions::default(),
            });
        }
        let covering_us =
            deletions.as_ref().map_or(i64::MIN, |it| it.covering_us(split.clustering));
        let view = RowView::decode(row)?;
        let key_bytes = ruler.ruler.key_bytes(partition_key);
        let mut size = ruler.measure(view, key_bytes, split.clustering, covering_us)?;
        for element in elements_of(opened.tree.as_ref(), &tree_key, &view, LATEST)? {
            let own_us = view.deletion().map_or(i64::MIN, |deletion| deletion.timestamp_us);
            size.bytes += ruler.measure_element(&element, covering_us.max(own_us))?;
        }
        if let Some(first) = first_expiry(&view, ruler.now_s)?
            && let Some(tracked) = inner.tracked.get_mut(&split.ring.0)
        {
            tracked.note_expiry(Some(first));
        }
        if let Some(current) = &mut walk.current {
            current.size.add(size);
        }
        if let Some(whole) = &mut walk.whole {
            whole.add(split.ring, size, bounds.part_bytes_max());
        }
    }
    inner.end_walk(walk, &bounds);
    Ok(None)
}

/// When the first cell that is not dead yet expires.
fn first_expiry(row: &RowView<'_>, now_s: u32) -> Result<Option<u32>, CorruptRow> {
    let mut first: Option<u32> = None;
    for cell in row.cells() {
        if let Some(expiry) = cell?.expiry()
            && expiry.expires_at_s > now_s
        {
            first = Some(first.map_or(expiry.expires_at_s, |at| at.min(expiry.expires_at_s)));
        }
    }
    Ok(first)
}

impl super::Inner {
    fn end_walk(&mut self, walk: Walk, bounds: &super::SizeBounds) {
        if let Some(mut whole) = walk.whole {
            whole.touch_all();
            self.ring = whole;
            self.is_unknown = false;
            // Of these no row was found; whether any came since is for a walk of its own to see.
            for tracked in self.tracked.values_mut().filter(|tracked| !tracked.is_seen) {
                tracked.ask_for_walk(0);
            }
        } else if let Some(done) = &walk.current
            && let Some(tracked) = self.tracked.get(&done.ring.0)
        {
            // What died has gone from the ring too.
            let difference = done.size.minus(tracked.size);
            self.ring.add(done.ring, difference, bounds.part_bytes_max());
        }
        if let Some(done) = walk.current {
            self.learn(done.key, done.ring, done.size, bounds);
        }
    }
}

impl TableSizes {
    /// What is to be counted now: everything, or some partitions.
    fn take_due(&self, now_s: u32) -> (bool, Vec<PartitionKey>) {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.wants_full_walk) {
            return (true, Vec::new());
        }
        if inner.tracked.len() > super::TRACKED_FEW * 2 {
            inner.drop_small();
        }
        let mut keys = inner.take_waiting(self.bounds.always_tracked_bytes());
        keys.extend(inner.tracked.iter().filter(|(_, tracked)| tracked.is_walk_due(now_s)).map(
            |(ring, tracked)| PartitionKey::from_parts(tracked.key.clone(), RingToken(*ring)),
        ));
        (false, keys)
    }

    fn begin_walk(&self, cursor: Vec<u8>, key: Option<&PartitionKey>, now_s: u32) {
        let mut inner = self.inner.lock();
        if key.is_none() {
            inner.tracked.values_mut().for_each(|tracked| tracked.is_seen = false);
        }
        let current = key.map(|key| {
            if let Some(tracked) = inner.tracked.get_mut(&key.ring().0) {
                tracked.begin_walk(now_s);
            }
            Current {
                prefix: cursor.clone(),
                ring: key.ring(),
                key: key.bytes().clone(),
                size: Size::default(),
            }
        });
        let whole = key.is_none().then(RingSums::default);
        inner.walk = Some(Walk { cursor, current, whole });
    }

    fn give_up_walk(&self) {
        let mut inner = self.inner.lock();
        let is_full = inner.walk.take().is_none_or(|walk| walk.whole.is_some());
        inner.wants_full_walk |= is_full;
        inner.tracked.values_mut().for_each(Tracked::give_up_walk);
    }

    /// The largest tracked partition.
    pub(crate) fn largest_bytes(&self) -> u64 {
        let inner = self.inner.lock();
        let largest = inner.tracked.values().map(|tracked| tracked.size.bytes).max().unwrap_or(0);
        u64::try_from(largest).unwrap_or(0)
    }
}
