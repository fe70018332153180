//! The row cache: node-wide, bounded in bytes, never stale.
//!
//! A key is the store's number (8 bytes) and the row's tree key; a value is the row's bytes, or that
//! there is none. What was just written is shared with the tree; what was read from a file is copied,
//! because a row of a block holds all of the block in memory. Whoever changes a row changes or
//! removes its entry right after the tree, before the change is acknowledged. Whoever reads a row
//! puts a placeholder first: a change in between takes it away, and then the reader's row, which may
//! be the old one, is not kept.

use std::fmt;
use std::time::Duration;

use foldhash::fast::FixedState;
use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};
use smallvec::SmallVec;

use crate::tree::engine::TreeBytes;

/// A row's value in the tree; `None` when it is known that there is none.
pub(crate) type CachedRow = Option<TreeBytes>;

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
}

impl fmt::Debug for RowCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCache").field("bytes", &self.rows.weight()).finish_non_exhaustive()
    }
}

impl RowCache {
    pub(crate) fn new(bytes: u64) -> RowCache {
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
        }
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
        let cache = RowCache::new(1 << 20);
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
        let cache = RowCache::new(1 << 20);
        // Long enough to be shared by its clones, as a part of a block is shared with the block.
        let found = TreeBytes::from(vec![7; 240]);
        let read: Result<CachedRow, ()> = cache.get_or_load(b"key", || Ok(Some(found.clone())));
        assert_eq!(read, Ok(Some(found.clone())));
        let kept = cache.get(b"key").flatten().unwrap();
        assert_ne!(kept.as_ptr(), found.as_ptr());
    }

    #[test]
    fn absence_is_known_too() {
        let cache = RowCache::new(1 << 20);
        let absent: Result<CachedRow, ()> = cache.get_or_load(b"key", || Ok(None));
        assert_eq!(absent, Ok(None));
        assert_eq!(cache.get(b"key"), Some(None));
    }

    #[test]
    fn bytes_are_bounded() {
        let cache = RowCache::new(100_000);
        for number in 0..10_000u32 {
            cache.put(RowKey::from_slice(&number.to_be_bytes()), row(&[0; 100]));
        }
        assert!(cache.bytes() <= 110_000, "{}", cache.bytes());
    }
}
