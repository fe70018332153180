//! The cache of partition heads: node-wide, bounded in bytes, never stale.
//!
//! For a logical partition that slices are read from, it holds all rows of one part of it, mostly
//! the first ones, as the tree holds them. Slices of that part need no tree.
//!
//! **Never stale, never torn.** Whoever applies a change first writes the tree, then takes the turn
//! of the partition ([`Heads::turn`]), changes its head, publishes the change and ends the turn. Whoever
//! reads looks a head up, and draws the sequence number to read the rest of the tree at, in a turn
//! too. So at the moment of a lookup the head is exactly the partition as it is published, and what
//! the tree holds at that number goes with it. Heads are copied on write: a reader keeps what it
//! looked up. Who reads through a replica set that has ended draws no number, and gets no head that
//! would need one: the moment of that set is not the moment of the head.
//!
//! **Filling.** A reader that finds no head leaves a mark with a version before it reads the tree,
//! and brings what it read afterwards. Every change of the partition gives the mark another version,
//! and then what the reader brings is not taken.
//!
//! **Bounded.** A partition gets a mark when it is read for the second time within a while, so a
//! walk over all partitions leaves no trace. What has not been read since the hand of the clock came
//! by goes first.

mod head;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Lookups;

pub(crate) use head::{Head, HeadBounds, HeadRow, HeadStatic, Unfit, has_spilled, may_live};

const SHARDS_MAX: u64 = 64;
const SHARD_BYTES_MIN: u64 = 1024 * 1024;
/// Partitions of which each shard remembers that they were read once.
const SEEN_PER_SHARD: usize = 4096;
/// What a mark takes beside its key and head, about.
const SLOT_BYTES: usize = 128;
/// A head is given up when of at least so many reads half or more began outside of it.
const MISSES_MIN: u32 = 8;
const HEAD_ROWS_MAX: usize = 1024;
const HEAD_BYTES_MAX: u64 = 128 * 1024;

pub(crate) struct Heads {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes_max: usize,
    bounds: HeadBounds,
}

impl fmt::Debug for Heads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heads").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

struct Shard {
    slots: HashMap<Arc<[u8]>, Slot, FixedState>,
    /// The keys of all slots, in the order in which the hand comes by.
    clock: VecDeque<Arc<[u8]>>,
    bytes: usize,
    seen: Box<[u32]>,
    next_version: u64,
    lookups: Lookups,
}

/// The mark of a partition.
struct Slot {
    version: u64,
    head: Option<Arc<Head>>,
    weight: usize,
    is_touched: bool,
    /// Lookups, and those of them that began outside of the head.
    finds: u32,
    misses: u32,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Found<S> {
    /// Nothing, and nothing is wanted.
    Nothing,
    /// Nothing yet: bring what you read with this version.
    Mark { version: u64, snapshot: S },
    /// A head. The snapshot, where one was asked for, is of the same moment.
    Head { head: Arc<Head>, version: u64, snapshot: Option<S> },
}

impl Heads {
    /// `bytes`: what all heads may take together; with 0 there are none.
    pub(crate) fn new(bytes: u64) -> Heads {
        let shard_count = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shard_count = 1u64 << shard_count.ilog2();
        let shard_bytes = bytes / shard_count;
        let shards = (0..shard_count).map(|_| {
            Mutex::new(Shard {
                slots: HashMap::default(),
                clock: VecDeque::new(),
                bytes: 0,
                seen: vec![0; SEEN_PER_SHARD].into_boxed_slice(),
                next_version: 1,
                lookups: Lookups::default(),
            })
        });
        let head_bytes = HEAD_BYTES_MAX.min(shard_bytes / 4);
        Heads {
            shards: shards.collect(),
            shard_bytes_max: usize::try_from(shard_bytes).unwrap_or(usize::MAX),
            bounds: HeadBounds {
                rows_max: HEAD_ROWS_MAX,
                bytes_max: usize::try_from(head_bytes).unwrap_or(usize::MAX),
            },
        }
    }

    /// How much one head may hold.
    pub(crate) fn bounds(&self) -> HeadBounds {
        self.bounds
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes as u64).sum()
    }

    /// How often heads were looked for, and were here.
    pub(crate) fn lookups(&self) -> Lookups {
        let add = |sum: Lookups, shard: &Mutex<Shard>| {
            let Lookups { hit_count, request_count } = shard.lock().lookups;
            Lookups {
                hit_count: sum.hit_count + hit_count,
                request_count: sum.request_count + request_count,
            }
        };
        self.shards.iter().fold(Lookups::default(), add)
    }

    /// Heads that are here.
    pub(crate) fn count(&self) -> u64 {
        let heads = |shard: &Mutex<Shard>| {
            shard.lock().slots.values().filter(|slot| slot.head.is_some()).count() as u64
        };
        self.shards.iter().map(heads).sum()
    }

    /// How many bytes all of them may take.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        (self.shard_bytes_max as u64).saturating_mul(self.shards.len() as u64)
    }

    fn shard(&self, key: &[u8]) -> Option<(u64, MutexGuard<'_, Shard>)> {
        let hash = FixedState::default().hash_one(key);
        // The map takes the low bits, the shard the high ones.
        let shard = self.shards.get((hash >> 48) as usize & (self.shards.len() - 1))?;
        Some((hash, shard.lock()))
    }

    /// Looks for the head of a partition. `key`: store number, space and partition prefix.
    /// `snapshot` draws the number to read the tree at, if there is one; `wants_snapshot` says
    /// whether that is needed beside a head.
    pub(crate) fn find<S>(
        &self,
        key: &[u8],
        snapshot: impl FnOnce() -> Option<S>,
        wants_snapshot: impl FnOnce(&Head) -> bool,
    ) -> Found<S> {
        let Some((hash, mut shard)) = self.shard(key) else { return Found::Nothing };
        let shard = &mut *shard;
        shard.lookups.request_count += 1;
        if let Some(slot) = shard.slots.get_mut(key) {
            shard.lookups.hit_count += u64::from(slot.head.is_some());
            slot.is_touched = true;
            slot.finds = slot.finds.saturating_add(1);
            let version = slot.version;
            return match &slot.head {
                Some(head) if !wants_snapshot(head) => {
                    Found::Head { head: Arc::clone(head), version, snapshot: None }
                }
                Some(head) => match snapshot() {
                    None => Found::Nothing,
                    snapshot => Found::Head { head: Arc::clone(head), version, snapshot },
                },
                None => match snapshot() {
                    None => Found::Nothing,
                    Some(snapshot) => Found::Mark { version, snapshot },
                },
            };
        }
        if self.shard_bytes_max == 0 || !shard.was_seen(hash) {
            return Found::Nothing;
        }
        let Some(snapshot) = snapshot() else { return Found::Nothing };
        let version = shard.draw_version();
        let weight = SLOT_BYTES + key.len();
        let key: Arc<[u8]> = Arc::from(key);
        shard.clock.push_back(Arc::clone(&key));
        let slot = Slot { version, head: None, weight, is_touched: false, finds: 0, misses: 0 };
        shard.slots.insert(key, slot);
        shard.bytes += weight;
        shard.evict(self.shard_bytes_max);
        Found::Mark { version, snapshot }
    }

    /// A reader brings what it read since it found that version.
    pub(crate) fn bring(&self, key: &[u8], version: u64, head: Head) {
        let Some((_, mut shard)) = self.shard(key) else { return };
        if let Some(slot) = shard.slots.get_mut(key)
            && slot.version == version
        {
            slot.head = Some(Arc::new(head));
            shard.weigh(key);
            shard.evict(self.shard_bytes_max);
        }
    }

    /// A read began outside of the head.
    pub(crate) fn note_miss(&self, key: &[u8]) {
        let Some((_, mut shard)) = self.shard(key) else { return };
        let Some(slot) = shard.slots.get_mut(key) else { return };
        slot.misses += 1;
        if slot.misses >= MISSES_MIN {
            let is_wrong = slot.misses >= slot.finds / 2;
            (slot.finds, slot.misses) = (0, 0);
            if is_wrong {
                slot.head = None;
                shard.weigh(key);
            }
        }
    }

    /// Gives a head up: most of it is dead.
    pub(crate) fn give_up(&self, key: &[u8]) {
        let Some((_, mut shard)) = self.shard(key) else { return };
        if let Some(slot) = shard.slots.get_mut(key) {
            slot.head = None;
            shard.weigh(key);
        }
    }

    /// Keeps everybody else from the head of a partition until the turn is dropped.
    pub(crate) fn turn<'h>(&'h self, key: &'h [u8]) -> Turn<'h> {
        Turn { heads: self, key, shard: self.shard(key).map(|(_, shard)| shard) }
    }
}

/// The right to change a head. Held until the change is published.
pub(crate) struct Turn<'h> {
    heads: &'h Heads,
    key: &'h [u8],
    shard: Option<MutexGuard<'h, Shard>>,
}

impl Turn<'_> {
    /// Changes the head, if there is one. What readers bring from before is not taken any more.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Head) -> Result<(), Unfit>) {
        let Some(shard) = self.shard.as_deref_mut() else { return };
        let Some(slot) = shard.slots.get_mut(self.key) else { return };
        slot.version = shard.next_version;
        shard.next_version += 1;
        let Some(head) = &mut slot.head else { return };
        let before = head.memory_bytes();
        let result = change(Arc::make_mut(head));
        let after = head.memory_bytes();
        if result.is_err() {
            slot.head = None;
            shard.weigh(self.key);
        } else if before != after {
            slot.weight = slot.weight + after - before;
            shard.bytes = shard.bytes + after - before;
            shard.evict(self.heads.shard_bytes_max);
        }
    }
}

impl Shard {
    fn draw_version(&mut self) -> u64 {
        self.next_version += 1;
        self.next_version - 1
    }

    /// Whether a partition was read a while ago; from now on it was.
    fn was_seen(&mut self, hash: u64) -> bool {
        let index = hash as usize % self.seen.len().max(1);
        let mark = (hash >> 16) as u32 | 1;
        match self.seen.get_mut(index) {
            Some(seen) => std::mem::replace(seen, mark) == mark,
            None => false,
        }
    }

    fn weigh(&mut self, key: &[u8]) {
        if let Some(slot) = self.slots.get_mut(key) {
            let head = slot.head.as_ref().map_or(0, |head| head.memory_bytes());
            let weight = SLOT_BYTES + key.len() + head;
            self.bytes = self.bytes + weight - slot.weight;
            slot.weight = weight;
        }
    }

    /// Lets partitions go until the bound is kept: those first that nobody read for a round.
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(key) = self.clock.pop_front() else { return };
            match self.slots.get_mut(&key) {
                Some(slot) if slot.is_touched => {
                    slot.is_touched = false;
                    self.clock.push_back(key);
                }
                Some(slot) => {
                    self.bytes -= slot.weight;
                    self.slots.remove(&key);
                }
                None => {}
            }
        }
    }
}
