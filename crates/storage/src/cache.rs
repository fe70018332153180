//! The row cache: node-wide, bounded in bytes, never stale.
//!
//! A key is the store's number (8 bytes) and the row's tree key; a value is the row's bytes, or that
//! there is none. What was just written is shared with the tree; what was read from a file is copied,
//! because a row of a block holds all of the block in memory. Whoever changes a row changes or
//! removes its entry right after the tree, before the change is acknowledged. Whoever reads a row
//! puts a placeholder first: a change in between takes it away, and then the reader's row, which may
//! be the old one, is not kept.
//!
//! It begins small and grows by what was looked for in vain and found elsewhere, up to its bound: rows that are
//! written and never looked at again do not make it grow.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};
use smallvec::SmallVec;

use tree::engine::TreeBytes;

/// A row's value in the tree; `None` when it is known that there is none.
pub(crate) type CachedRow = Option<TreeBytes>;

/// How often a cache was asked, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// And had what was asked for.
    pub hit_count: u64,
    pub request_count: u64,
}

/// Store number and tree key. Most keys lie in the cache's entry itself: a lookup that had to follow a
/// pointer to compare the key waited for memory once more, for a tenth of a read's time.
pub(crate) type RowKey = SmallVec<[u8; INLINE_KEY_BYTES]>;

/// Room for a partition key of 20 bytes with a small clustering key behind it.
const INLINE_KEY_BYTES: usize = 48;

type Rows = Cache<RowKey, CachedRow, RowWeighter, FixedState, DefaultLifecycle<RowKey, CachedRow>>;

/// What an entry takes beside its bytes, about.
const ENTRY_BYTES: u64 = 136;

/// A row with its entry is about this large.
const ITEM_BYTES: u64 = 256;
/// The cache is in parts with a table each. A table doubles now and then, and nobody reads it meanwhile: with
/// few large ones writers waited 15 ms at 260,000 rows, 33 ms at 520,000.
const SHARDS_MAX: usize = 128;
/// A part must have room for large rows.
const SHARD_BYTES_MIN: u64 = 1 << 20;
/// Whether to grow is asked when rows of this share of the cache were missed.
const MISSED_SHARE: u64 = 32;

#[derive(Clone)]
struct RowWeighter;

impl Weighter<RowKey, CachedRow> for RowWeighter {
    fn weight(&self, key: &RowKey, row: &CachedRow) -> u64 {
        let elsewhere = if key.spilled() { key.len() as u64 } else { 0 };
        ENTRY_BYTES + elsewhere + row.as_ref().map_or(0, |row| row.len() as u64)
    }
}

pub(crate) struct RowCache {
    rows: Rows,
    /// How large it may be now, and at most.
    capacity: Mutex<u64>,
    bytes_max: u64,
    /// Bytes of rows that were missed since it was last asked whether to grow, and how many are enough to ask.
    missed_bytes: AtomicU64,
    missed_bytes_max: AtomicU64,
    /// How often a row was looked for that is not here. Its finds the library counts itself, but what is not here it would
    /// count twice: when it is looked for, and when it is brought.
    missed_count: AtomicU64,
}

impl fmt::Debug for RowCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCache").field("bytes", &self.rows.weight()).finish_non_exhaustive()
    }
}

impl RowCache {
    /// A cache for so many bytes, at first and at most.
    pub(crate) fn new(bytes: u64, bytes_max: u64) -> RowCache {
        let items = usize::try_from(bytes / ITEM_BYTES).unwrap_or(usize::MAX).max(64);
        let (hasher, lifecycle) = (FixedState::default(), DefaultLifecycle::default());
        let shards = usize::try_from(bytes / SHARD_BYTES_MIN).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items)
            .weight_capacity(bytes)
            .shards(shards.clamp(1, SHARDS_MAX))
            .build();
        RowCache {
            rows: match options {
                Ok(options) => Cache::with_options(options, RowWeighter, hasher, lifecycle),
                // Nothing is missing that it could ask for.
                Err(_) => Cache::with(items, bytes, RowWeighter, hasher, lifecycle),
            },
            capacity: Mutex::new(bytes),
            bytes_max,
            missed_bytes: AtomicU64::new(0),
            missed_bytes_max: AtomicU64::new(bytes / MISSED_SHARE),
            missed_count: AtomicU64::new(0),
        }
    }

    /// A row that is not here was looked for elsewhere.
    pub(crate) fn note_missed(&self, row: &CachedRow) {
        self.missed_count.fetch_add(1, Ordering::Relaxed);
        let Some(row) = row else { return };
        let bytes = ENTRY_BYTES + row.len() as u64;
        let missed_bytes = self.missed_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if missed_bytes > self.missed_bytes_max.load(Ordering::Relaxed)
            && let Some(mut capacity) = self.capacity.try_lock()
        {
            self.grow(&mut capacity);
        }
    }

    /// Takes room for what was missed, if there was none.
    fn grow(&self, capacity: &mut u64) {
        let missed_bytes = self.missed_bytes.swap(0, Ordering::Relaxed);
        let is_full = self.rows.weight() >= *capacity - *capacity / 8;
        let next = capacity.saturating_add(missed_bytes).min(self.bytes_max);
        if !is_full || next <= *capacity {
            return;
        }
        self.rows.set_capacity(next);
        *capacity = next;
        self.missed_bytes_max.store(next / MISSED_SHARE, Ordering::Relaxed);
    }

    /// How often rows were looked for, and were here.
    pub(crate) fn lookups(&self) -> Lookups {
        let hit_count = self.rows.hits();
        let request_count = hit_count + self.missed_count.load(Ordering::Relaxed);
        Lookups { hit_count, request_count }
    }

    /// Rows that are here.
    pub(crate) fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// How large it may be now.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        *self.capacity.lock()
    }

    /// The row if it is here.
    pub(crate) fn get(&self, key: &[u8]) -> Option<CachedRow> {
        self.rows.get(key)
    }

    /// The row, read with `load` and kept if it is not here.
    pub(crate) fn get_or_load<E>(
        &self,
        key: &[u8],
        load: impl FnOnce() -> Result<CachedRow, E>,
    ) -> Result<CachedRow, E> {
        match self.rows.get_value_or_guard(&RowKey::from_slice(key), Some(Duration::ZERO)) {
            GuardResult::Value(row) => Ok(row),
            GuardResult::Guard(guard) => {
                let row = load()?.map(|row| TreeBytes::from(&*row));
                self.note_missed(&row);
                // Refused when the row was changed meanwhile.
                let _ = guard.insert(row.clone());
                Ok(row)
            }
            // Somebody else is reading it.
            GuardResult::Timeout => load(),
        }
    }

    /// The row was changed.
    pub(crate) fn put(&self, key: RowKey, row: CachedRow) {
        self.rows.insert(key, row);
    }

    /// The row was changed, and nobody seems to care for it.
    pub(crate) fn forget(&self, key: &[u8]) {
        self.rows.remove(key);
    }

    /// Nothing that is kept of a store's keys from `start` (inside) to `end` (outside) is true any more. Looks at every row that is kept.
    pub(crate) fn forget_between(&self, store: u64, start: &[u8], end: &[u8]) {
        let store = store.to_be_bytes();
        self.rows.retain(|key, _| {
            let tree_key = key.strip_prefix(store.as_slice());
            tree_key.is_none_or(|tree_key| tree_key < start || tree_key >= end)
        });
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.rows.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: &[u8]) -> CachedRow {
        Some(TreeBytes::from(bytes))
    }

    #[test]
    fn a_row_that_changes_while_it_is_read_is_not_kept() {
        let cache = RowCache::new(1 << 20, 1 << 20);
        for change in [true, false] {
            let old: Result<CachedRow, ()> = cache.get_or_load(b"key", || {
                if change {
                    cache.put(RowKey::from_slice(b"key"), row(b"new"));
                } else {
                    cache.forget(b"key");
                }
                Ok(row(b"old"))
            });
            assert_eq!(old, Ok(row(b"old")));
            assert_eq!(cache.get(b"key"), change.then(|| row(b"new")));
            cache.forget(b"key");
        }
    }

    #[test]
    fn a_row_does_not_hold_the_block_it_was_read_from() {
        let cache = RowCache::new(1 << 20, 1 << 20);
        // Long enough to be shared by its clones, as a part of a block is shared with the block.
        let found = TreeBytes::from(vec![7; 240]);
        let read: Result<CachedRow, ()> = cache.get_or_load(b"key", || Ok(Some(found.clone())));
        assert_eq!(read, Ok(Some(found.clone())));
        let kept = cache.get(b"key").flatten().unwrap();
        assert_ne!(kept.as_ptr(), found.as_ptr());
    }

    #[test]
    fn absence_is_known_too() {
        let cache = RowCache::new(1 << 20, 1 << 20);
        let absent: Result<CachedRow, ()> = cache.get_or_load(b"key", || Ok(None));
        assert_eq!(absent, Ok(None));
        assert_eq!(cache.get(b"key"), Some(None));
    }

    #[test]
    fn what_is_found_and_what_is_not_is_counted_once() {
        let cache = RowCache::new(1 << 20, 1 << 20);
        for _ in 0..3 {
            if cache.get(b"key").is_none() {
                let _: Result<CachedRow, ()> = cache.get_or_load(b"key", || Ok(row(b"value")));
            }
        }
        assert_eq!(cache.lookups(), Lookups { hit_count: 2, request_count: 3 });
    }

    #[test]
    fn bytes_are_bounded() {
        let cache = RowCache::new(100_000, 1_000_000);
        for number in 0..10_000u32 {
            cache.put(RowKey::from_slice(&number.to_be_bytes()), row(&[0; 100]));
        }
        assert!(cache.bytes() <= 110_000, "{}", cache.bytes());
    }

    #[test]
    fn it_grows_by_what_is_missed_up_to_its_bound() {
        let cache = RowCache::new(100_000, 1_000_000);
        let read = |number: u32| {
            let key = number.to_be_bytes();
            let is_here = cache.get(&key).is_some();
            let found: Result<CachedRow, ()> = cache.get_or_load(&key, || Ok(row(&[0; 100])));
            assert_eq!(found, Ok(row(&[0; 100])));
            is_here
        };
        // Two thousand rows of 236 bytes, again and again: at last all of them are here.
        for _ in 0..20 {
            (0..2_000).for_each(|number| {
                read(number);
            });
        }
        let here = (0..2_000).filter(|number| read(*number)).count();
        assert!(here > 1_900, "{here} of 2,000 rows of which all would fit");
        // What was never there is no reason.
        let before = *cache.capacity.lock();
        for number in 10_000..20_000u32 {
            let absent: Result<CachedRow, ()> =
                cache.get_or_load(&number.to_be_bytes(), || Ok(None));
            assert_eq!(absent, Ok(None));
        }
        assert_eq!(*cache.capacity.lock(), before);
        (20_000..60_000).for_each(|number| {
            read(number);
        });
        assert_eq!(*cache.capacity.lock(), 1_000_000);
        assert!(cache.bytes() <= 1_010_000, "{}", cache.bytes());
    }
}
