//! How large logical partitions are, and how a table lies on the ring: kept at write time, in fixed
//! memory, and right after a crash.
//!
//! **What is exact.** Every mutation tells what it added or took away. A *tracked* logical partition
//! has a count of its own. As long as a table has few, all are tracked; then only the larger ones,
//! and always those from an eighth of a hundredth of the limit on. A sketch finds those that grow
//! into it; they are counted once, by a walk over their rows.
//!
//! **What is late.** Rows that expire, or that a deletion of a range covers, are counted until a walk
//! over their partition has seen them. A deletion or a due expiry asks for one.
//!
//! **How it survives.** When a memtable is frozen, what changed is written into it, beside the replay
//! points: so sorted files always hold the counts of exactly the entries they hold.
pub(crate) mod admit;
mod ring;
mod row_size;
mod sketch;
mod tracked;
pub(crate) mod walk;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use types::{PartitionKey, RingRange, RingToken};

use crate::error::TreeError;
use crate::sure::tail;
use crate::tree::keys::SPACE_SIZES;
use ring::RingSums;
pub(crate) use row_size::{RowRuler, Size};
use sketch::Sketch;
use tracked::Tracked;
use tree::engine::{LATEST, SortedTree, TreeBytes};
use walk::Walk;

/// So many logical partitions of a table are tracked whatever their size.
const TRACKED_FEW: usize = 256;
/// More are never tracked in one table.
const TRACKED_MAX: usize = 64 * 1024;
/// Partitions that may wait for a walk; smaller ones ask again later.
const WAITING_MAX: usize = 256;
/// Partitions below the size from which they must be known that are counted in one round (there are
/// five in a second): which keys are the largest is shown, and is not worth more than that.
const CURIOUS_WALKS_PER_ROUND: usize = 1;

const RECORD_RING: u8 = 1;
const RECORD_TRACKED: u8 = 2;
const RECORD_SKETCH: u8 = 3;
const RECORD_STATE: u8 = 4;
const STATE_VERSION: u8 = 1;

/// What sizes are measured against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeBounds {
    /// A logical partition may hold this much.
    pub(crate) logical_bytes_max: u64,
    /// A physical partition may hold this much.
    pub(crate) physical_bytes_max: u64,
}

impl SizeBounds {
    /// From this size on a logical partition is always tracked: an eighth of one per cent.
    fn always_tracked_bytes(&self) -> u64 {
        self.logical_bytes_max / 800
    }

    fn part_bytes_max(&self) -> u64 {
        (self.physical_bytes_max / 64).max(1)
    }
}

/// What the sizes of a new store are made of.
#[derive(Clone, Debug)]
pub(crate) struct SizesSeed {
    pub(crate) bounds: SizeBounds,
    pub(crate) node_largest: Arc<AtomicU64>,
}

/// One row's difference.
pub(crate) struct RowDelta<'r> {
    /// Space, partition prefix and position.
    pub(crate) tree_key: &'r [u8],
    pub(crate) size: Size,
}

/// What a mutation did, as far as sizes are concerned.
pub(crate) struct Noted<'n, R: Iterator<Item = RowDelta<'n>>> {
    pub(crate) key: &'n PartitionKey,
    pub(crate) rows: R,
    /// When the first of what it wrote expires.
    pub(crate) expires_at_s: Option<u32>,
    /// It deleted the partition or a range of it.
    pub(crate) deletes_range: bool,
    /// Asked only where it matters.
    pub(crate) now_s: &'n dyn Fn() -> u32,
}

/// A logical partition and how large it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogicalSize {
    /// Its key.
    pub key: PartitionKey,
    /// Bytes of its rows.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

/// What lies in a part of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSize {
    /// Bytes of its rows.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

impl From<Size> for RangeSize {
    fn from(size: Size) -> RangeSize {
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        RangeSize { bytes: number(size.bytes), rows: number(size.rows) }
    }
}

/// The sizes of one table.
#[derive(Debug)]
pub(crate) struct TableSizes {
    bounds: SizeBounds,
    /// At least as large as the largest tracked partition of all tables.
    node_largest: Arc<AtomicU64>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    ring: RingSums,
    tracked: HashMap<u128, Tracked, FixedState>,
    /// Tracked once, and not written down as gone yet.
    untracked: Vec<u128>,
    sketch: Sketch,
    /// Partitions from this size on are tracked; zero: all that have rows are.
    track_from: u64,
    /// Keys that may be large and are not tracked.
    waiting: Vec<Candidate>,
    walk: Option<Walk>,
    /// The whole table is to be counted.
    wants_full_walk: bool,
    /// It never was.
    is_unknown: bool,
}

/// A logical partition that may be worth to be tracked.
#[derive(Debug)]
struct Candidate {
    key: PartitionKey,
    /// At most how large it was when it asked.
    estimate: u64,
}

impl TableSizes {
    /// Reads what a tree holds of them. A tree with rows and without counts is counted first.
    pub(crate) fn load(
        tree: &dyn SortedTree,
        bounds: SizeBounds,
        node_largest: Arc<AtomicU64>,
    ) -> Result<TableSizes, TreeError> {
        let mut inner = Inner::default();
        let mut is_known = false;
        for item in tree.range(&[SPACE_SIZES], &[SPACE_SIZES + 1], LATEST) {
            let (key, value) = item?;
            is_known = true;
            inner
                .put_back(tail(&key, 1), &value)
                .ok_or_else(|| TreeError::Corrupt("a record of sizes is not readable".into()))?;
        }
        inner.is_unknown = !is_known && tree.key_count() > 0;
        inner.wants_full_walk = inner.is_unknown;
        let largest = inner.tracked.values().map(|tracked| tracked.size.bytes).max().unwrap_or(0);
        let largest = u64::try_from(largest).unwrap_or(0);
        node_largest.fetch_max(largest, Ordering::Relaxed);
        Ok(TableSizes { bounds, node_largest, inner: Mutex::new(inner) })
    }

    /// Takes what a mutation did. Called under the read side of the store's seal.
    pub(crate) fn note<'n, R: Iterator<Item = RowDelta<'n>>>(&self, noted: Noted<'n, R>) {
        let ring = noted.key.ring();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut size = Size::default();
        for row in noted.rows {
            size.add(row.size);
            if let Some(walk) = &mut inner.walk {
                walk.note(ring, &row, self.bounds.part_bytes_max());
            }
        }
        inner.ring.add(ring, size, self.bounds.part_bytes_max());
        let tracked = match inner.tracked.get_mut(&ring.0) {
            Some(tracked) => tracked,
            None if inner.track_from == 0 && !inner.is_unknown => {
                if size == Size::default() {
                    return;
                }
                let fresh = Tracked::new(noted.key.bytes().clone(), Size::default());
                inner.tracked.entry(ring.0).or_insert(fresh)
            }
            None => {
                let grown = u64::try_from(size.bytes).unwrap_or(0);
                let estimate = inner.sketch.add(ring, grown);
                let always_from = self.bounds.always_tracked_bytes();
                if grown > 0 && inner.is_worth_a_walk(estimate, grown, always_from) {
                    inner.ask_for(noted.key, estimate);
                }
                return;
            }
        };
        tracked.add(size);
        tracked.note_expiry(noted.expires_at_s);
        if noted.deletes_range {
            tracked.ask_for_walk((noted.now_s)());
        }
        let bytes = u64::try_from(tracked.size.bytes).unwrap_or(0);
        if bytes > self.node_largest.load(Ordering::Relaxed) {
            self.node_largest.fetch_max(bytes, Ordering::Relaxed);
        }
        if inner.track_from == 0 && inner.tracked.len() > TRACKED_FEW {
            inner.raise_threshold(self.bounds.always_tracked_bytes());
        }
    }

    /// The size of a tracked partition.
    pub(crate) fn of(&self, ring: RingToken) -> Option<Size> {
        self.inner.lock().tracked.get(&ring.0).map(|tracked| tracked.size)
    }

    /// Which of the levels, in per cent of the limit and ascending, a partition passes for the first
    /// time when it grows to so many bytes.
    pub(crate) fn passes(&self, ring: RingToken, bytes: u64, levels: &[u8]) -> Option<u8> {
        let mut inner = self.inner.lock();
        let tracked = inner.tracked.get_mut(&ring.0)?;
        tracked.passes(bytes, self.bounds.logical_bytes_max, levels)
    }

    /// What lies in each of some parts of the ring. Exact where every key is tracked; else what a
    /// bound cuts is shared out.
    pub(crate) fn sums(&self, ranges: impl IntoIterator<Item = RingRange>) -> Vec<RangeSize> {
        let inner = self.inner.lock();
        if !inner.is_complete() {
            return ranges.into_iter().map(|range| inner.ring.sum(range).into()).collect();
        }
        // There may be thousands of ranges, and writers wait.
        let up_to = inner.running_sums();
        drop(inner);
        let before = |ring: u128| match up_to.partition_point(|(key, _)| *key < ring) {
            0 => Size::default(),
            count => up_to.get(count - 1).map(|(_, sum)| *sum).unwrap_or_default(),
        };
        let all = up_to.last().map(|(_, sum)| *sum).unwrap_or_default();
        let until = |last: RingToken| last.0.checked_add(1).map_or(all, before);
        ranges
            .into_iter()
            .map(|range| until(range.last).minus(before(range.start.0)).into())
            .collect()
    }

    /// Hands over how the bytes lie in a range: by key where every key is tracked, else by part.
    pub(crate) fn weights(&self, range: RingRange, mut take: impl FnMut(RingToken, u64)) {
        let inner = self.inner.lock();
        let mut give = |token, size: Size| take(token, u64::try_from(size.bytes).unwrap_or(0));
        if !inner.is_complete() {
            inner.ring.each(range, give);
            return;
        }
        for (ring, tracked) in &inner.tracked {
            let token = RingToken(*ring);
            if range.contains(token) {
                give(token, tracked.size);
            }
        }
    }

    /// The largest tracked partitions, the largest first.
    pub(crate) fn largest(&self, count_max: usize) -> Vec<LogicalSize> {
        let inner = self.inner.lock();
        let mut all: Vec<(&u128, &Tracked)> =
            inner.tracked.iter().filter(|(_, tracked)| tracked.size.bytes > 0).collect();
        all.sort_by_key(|(ring, tracked)| (std::cmp::Reverse(tracked.size.bytes), **ring));
        all.truncate(count_max);
        all.into_iter()
            .map(|(ring, tracked)| LogicalSize {
                key: PartitionKey::from_parts(tracked.key.clone(), RingToken(*ring)),
                bytes: u64::try_from(tracked.size.bytes).unwrap_or(0),
                rows: u64::try_from(tracked.size.rows).unwrap_or(0),
            })
            .collect()
    }

    /// How many keys of the tree are not rows but sizes.
    pub(crate) fn record_count(&self) -> u64 {
        let inner = self.inner.lock();
        (inner.tracked.len() + inner.ring.chunk_count() + 2) as u64
    }

    /// Asks for a count of the whole table: what is dead was taken away behind our back.
    pub(crate) fn ask_for_full_walk(&self) {
        self.inner.lock().wants_full_walk = true;
    }

    /// Writes what changed. Called while the memtable is being frozen.
    pub(crate) fn write(&self, mut write: impl FnMut(&[u8], Option<TreeBytes>)) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if inner.is_unknown {
            // Half a count is worse than none: it is made again after a start.
            return;
        }
        write(&[SPACE_SIZES, RECORD_STATE], Some(TreeBytes::from(inner.encode_state())));
        inner.ring.take_dirty(|number, bytes| {
            let [high, low] = number.to_be_bytes();
            write(&[SPACE_SIZES, RECORD_RING, high, low], Some(TreeBytes::from(bytes)));
        });
        for ring in inner.untracked.drain(..) {
            if !inner.tracked.contains_key(&ring) {
                write(&tracked_key(ring), None);
            }
        }
        for (ring, tracked) in &mut inner.tracked {
            if std::mem::take(&mut tracked.is_dirty) {
                write(&tracked_key(*ring), Some(TreeBytes::from(tracked.encode())));
            }
        }
        if inner.track_from > 0 {
            let sketch = TreeBytes::from(inner.sketch.encode());
            write(&[SPACE_SIZES, RECORD_SKETCH], Some(sketch));
        }
    }
}

fn tracked_key(ring: u128) -> Vec<u8> {
    let mut key = vec![SPACE_SIZES, RECORD_TRACKED];
    key.extend_from_slice(&ring.to_be_bytes());
    key
}

impl Inner {
    /// Whether every key that has rows is tracked.
    fn is_complete(&self) -> bool {
        self.track_from == 0 && !self.is_unknown
    }

    /// The tracked keys in the order of the ring, each with the sum up to and with it.
    fn running_sums(&self) -> Vec<(u128, Size)> {
        let mut sums: Vec<(u128, Size)> =
            self.tracked.iter().map(|(ring, tracked)| (*ring, tracked.size)).collect();
        sums.sort_unstable_by_key(|(ring, _)| *ring);
        let mut sum = Size::default();
        for (_, size) in &mut sums {
            sum.add(*size);
            *size = sum;
        }
        sums
    }

    fn encode_state(&self) -> Vec<u8> {
        let mut bytes = vec![STATE_VERSION];
        bytes.extend_from_slice(&self.track_from.to_be_bytes());
        bytes
    }

    /// Takes one kept record.
    fn put_back(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key.split_first()? {
            (&RECORD_RING, number) => {
                self.ring.put_back(u16::from_be_bytes(number.try_into().ok()?), value)
            }
            (&RECORD_TRACKED, ring) => {
                let ring = u128::from_be_bytes(ring.try_into().ok()?);
                self.tracked.insert(ring, Tracked::decode(value)?);
                Some(())
            }
            (&RECORD_SKETCH, _) => {
                self.sketch = Sketch::decode(value)?;
                Some(())
            }
            (&RECORD_STATE, _) => {
                let (version, rest) = value.split_first()?;
                self.track_from = u64::from_be_bytes(rest.try_into().ok()?);
                (*version == STATE_VERSION).then_some(())
            }
            _ => None,
        }
    }

    /// Whether a key that grew to an estimate should be counted. What must be known asks each time;
    /// what would only be nice to know each time it has doubled.
    fn is_worth_a_walk(&self, estimate: u64, grown: u64, always_from: u64) -> bool {
        let doublings = |bytes: u64| bytes.max(1).ilog2();
        estimate >= self.track_from
            && (estimate >= always_from
                || doublings(estimate) > doublings(estimate.saturating_sub(grown)))
    }

    /// Notes a key to be counted. Where there are too many, the larger ones stay.
    fn ask_for(&mut self, key: &PartitionKey, estimate: u64) {
        let known = self.waiting.iter_mut().find(|waiting| waiting.key.ring() == key.ring());
        if let Some(known) = known {
            known.estimate = estimate;
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            let smallest = self.waiting.iter().enumerate().min_by_key(|(_, it)| it.estimate);
            match smallest {
                Some((index, smallest)) if smallest.estimate < estimate => {
                    self.waiting.swap_remove(index);
                }
                _ => return,
            }
        }
        let bytes = Bytes::copy_from_slice(key.bytes());
        let key = PartitionKey::from_parts(bytes, key.ring());
        self.waiting.push(Candidate { key, estimate });
    }

    /// The keys to be counted next: all that must be known, and one of the others.
    fn take_waiting(&mut self, always_from: u64) -> Vec<PartitionKey> {
        self.waiting.sort_unstable_by_key(|waiting| std::cmp::Reverse(waiting.estimate));
        let must_count =
            self.waiting.iter().take_while(|waiting| waiting.estimate >= always_from).count();
        let count = (must_count + CURIOUS_WALKS_PER_ROUND).min(self.waiting.len());
        self.waiting.drain(..count).map(|waiting| waiting.key).collect()
    }

    /// There are many: from now on only the larger half is tracked, and always what is large.
    fn raise_threshold(&mut self, always_from: u64) {
        let mut sizes: Vec<i64> = self.tracked.values().map(|it| it.size.bytes).collect();
        let middle = sizes.len() / 2;
        let (_, median, _) = sizes.select_nth_unstable(middle);
        let above = u64::try_from(*median).unwrap_or(0).saturating_add(1);
        self.track_from = above.min(always_from).max(1);
        self.drop_small();
    }

    /// Lets go of what is smaller than what is tracked.
    fn drop_small(&mut self) {
        let track_from = i64::try_from(self.track_from).unwrap_or(i64::MAX);
        let (sketch, untracked) = (&mut self.sketch, &mut self.untracked);
        self.tracked.retain(|ring, tracked| {
            if tracked.size.bytes >= track_from {
                return true;
            }
            sketch.set(RingToken(*ring), u64::try_from(tracked.size.bytes).unwrap_or(0));
            untracked.push(*ring);
            false
        });
    }

    /// A walk over one partition is done: this is what it holds.
    fn learn(&mut self, key: Bytes, ring: RingToken, size: Size, bounds: &SizeBounds) {
        let bytes = u64::try_from(size.bytes).unwrap_or(0);
        if let Some(tracked) = self.tracked.get_mut(&ring.0) {
            tracked.set(size);
            return;
        }
        if bytes < self.track_from || size == Size::default() {
            self.sketch.set(ring, bytes);
            return;
        }
        let is_large = bytes >= bounds.always_tracked_bytes();
        let room = if is_large { TRACKED_MAX } else { TRACKED_FEW * 2 };
        if self.tracked.len() < room {
            self.tracked.insert(ring.0, Tracked::new(key, size));
        }
        let is_full = self.tracked.len() >= TRACKED_FEW * 2;
        if is_full && self.track_from < bounds.always_tracked_bytes() {
            self.raise_threshold(bounds.always_tracked_bytes());
        }
        let total = u64::try_from(self.ring.total.bytes).unwrap_or(0);
        let slots = total / (bounds.always_tracked_bytes() / 4).max(1);
        self.sketch.grow_to(usize::try_from(slots).unwrap_or(usize::MAX).min(sketch::SLOTS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two thousand series that grow evenly once kept the counter busy all the time.
    #[test]
    fn small_keys_ask_when_they_have_doubled_and_wait_their_turn() {
        let mut inner = Inner { track_from: 1000, ..Inner::default() };
        let always_from = 1_000_000;
        let key = |number: u32| PartitionKey::new(Bytes::from(number.to_be_bytes().to_vec()));
        let mut asked = 0;
        for round in 1..=100u64 {
            for number in 0..2000 {
                if inner.is_worth_a_walk(round * 50, 50, always_from) {
                    inner.ask_for(&key(number), round * 50);
                    asked += 1;
                }
            }
        }
        assert_eq!(asked, 3 * 2000, "at 1,024, 2,048 and 4,096");
        assert_eq!(inner.waiting.len(), WAITING_MAX);
        assert_eq!(inner.take_waiting(always_from).len(), CURIOUS_WALKS_PER_ROUND);
        inner.ask_for(&key(5000), 2_000_000);
        let next = inner.take_waiting(always_from);
        assert_eq!(next.first(), Some(&key(5000)), "what must be known comes first");
        assert_eq!(next.len(), 1 + CURIOUS_WALKS_PER_ROUND);
    }
}
