//! What was written and is not yet in sorted files: in memory, in order, with the older versions that somebody
//! may still read.
//!
//! The library has a memtable of its own, a skip list. Every search in it goes from node to node, each
//! somewhere else in memory, and a write searches twice: for the old row and for its place. Here a key is
//! first sent to a *part* by the leading bits of its ring token, which are even, and then looked for in the
//! part's small B-tree, whose nodes hold the beginnings of their keys. ADR 0011 has the figures.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::EVEN_SPACE;
use crate::courtesy::Courtesy;
use crate::engine::{SeqNo, TreeBytes};

/// What an entry takes beside the bytes of its key and value: its share of a node, and two headers.
const ENTRY_BYTES: i64 = 136;
/// What an older version takes beside the bytes of its value.
const OLDER_BYTES: i64 = 48;
/// A part should not hold many more keys than this, so that its tree stays flat.
const KEYS_PER_PART: usize = 64;
/// As bits: the fewest parts that rows have, and the most.
const PART_BITS_MIN: u32 = 6;
const PART_BITS_MAX: u32 = 13;

/// A key whose first bytes can be compared without looking elsewhere in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BufferKey {
    head: u64,
    bytes: TreeBytes,
}

impl BufferKey {
    pub(crate) fn new(bytes: &[u8]) -> BufferKey {
        BufferKey { head: head(bytes), bytes: TreeBytes::from(bytes) }
    }

    pub(crate) fn bytes(&self) -> &TreeBytes {
        &self.bytes
    }
}

/// The first eight bytes; shorter keys end in zeros, which leaves their order to the rest.
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(first)
        }
    }
}

impl Ord for BufferKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.head.cmp(&other.head).then_with(|| (*self.bytes).cmp(&*other.bytes))
    }
}

impl PartialOrd for BufferKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What a key was set to by one write.
#[derive(Clone, Debug)]
struct Version {
    seqno: SeqNo,
    /// `None`: it was removed.
    value: Option<TreeBytes>,
}

impl Version {
    fn bytes(&self) -> i64 {
        self.value.as_ref().map_or(0, |value| value.len() as i64)
    }
}

/// The versions of a key that somebody may read.
#[derive(Debug)]
struct Versions {
    newest: Version,
    /// Few keys are written again before they are flushed: one word for the others.
    older: Option<Box<Older>>,
}

/// From old to new.
#[derive(Debug, Default)]
struct Older(Vec<Version>);

impl Versions {
    /// The newest before `seqno`.
    fn before(&self, seqno: SeqNo) -> Option<&Version> {
        if self.newest.seqno < seqno {
            return Some(&self.newest);
        }
        self.older.as_deref()?.0.iter().rev().find(|version| version.seqno < seqno)
    }

    /// Forgets what nobody can read who reads from `readers_from` on; returns how many bytes that gave back.
    fn forget_before(&mut self, readers_from: SeqNo) -> i64 {
        let Some(older) = self.older.as_deref_mut() else { return 0 };
        // A version is read until the next one was written.
        let next = older.0.iter().skip(1).map(|version| version.seqno);
        let next = next.chain(std::iter::once(self.newest.seqno));
        let unread_count = next.take_while(|next| *next < readers_from).count();
        let unread = older.0.drain(..unread_count.min(older.0.len()));
        let freed = unread.map(|version| version.bytes() + OLDER_BYTES).sum();
        if older.0.is_empty() {
            self.older = None;
        }
        freed
    }

    /// Writes of one key come in their order, except that a write may write a key twice.
    fn add(&mut self, version: Version) {
        if version.seqno == self.newest.seqno {
            self.newest = version;
            return;
        }
        let Older(older) = &mut **self.older.get_or_insert_default();
        if version.seqno > self.newest.seqno {
            older.push(std::mem::replace(&mut self.newest, version));
            return;
        }
        match older.binary_search_by_key(&version.seqno, |known| known.seqno) {
            Ok(index) => {
                if let Some(known) = older.get_mut(index) {
                    *known = version;
                }
            }
            Err(index) => older.insert(index, version),
        }
    }
}

type Part = BTreeMap<BufferKey, Versions>;

/// A key with what it was set to; `None`: it was removed.
pub(crate) type BufferItem = (TreeBytes, Option<TreeBytes>);

/// Keys in order with their versions.
pub(crate) struct WriteBuffer {
    /// What comes before the rows, the rows by their ring tokens, what comes after them.
    parts: Box<[RwLock<Part>]>,
    row_part_bits: u32,
    key_count: AtomicUsize,
}

impl fmt::Debug for WriteBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBuffer").field("key_count", &self.key_count()).finish_non_exhaustive()
    }
}

/// Which end of a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

impl WriteBuffer {
    /// An empty one for about so many keys.
    pub(crate) fn for_keys(key_count: usize) -> WriteBuffer {
        let wanted = (key_count / KEYS_PER_PART).max(1);
        let row_part_bits = wanted.ilog2().clamp(PART_BITS_MIN, PART_BITS_MAX);
        let part_count = (1 << row_part_bits) + 2;
        let parts = (0..part_count).map(|_| RwLock::default()).collect();
        WriteBuffer { parts, row_part_bits, key_count: AtomicUsize::new(0) }
    }

    /// Gives its memory back, and lets others run meanwhile.
    pub(crate) fn free(self) {
        let mut courtesy = Courtesy::default();
        for part in Vec::from(self.parts) {
            part.into_inner().into_iter().for_each(|_| courtesy.on_row());
        }
    }

    /// Where a key lives: parts are in the order of their keys.
    fn part_index(&self, head: u64) -> usize {
        match (head >> 56) as u8 {
            EVEN_SPACE => 1 + ((head << 8) >> (64 - self.row_part_bits)) as usize,
            space if space < EVEN_SPACE => 0,
            _ => self.parts.len().saturating_sub(1),
        }
    }

    /// How many keys there are.
    pub(crate) fn key_count(&self) -> usize {
        self.key_count.load(Ordering::Relaxed)
    }

    /// Writes a value, or that there is none, and forgets what nobody can read who reads from `readers_from` on;
    /// returns by how many bytes memory grew.
    pub(crate) fn insert(
        &self,
        key: &[u8],
        value: Option<TreeBytes>,
        seqno: SeqNo,
        readers_from: SeqNo,
    ) -> i64 {
        let key = BufferKey::new(key);
        let key_bytes = key.bytes.len() as i64;
        let version = Version { seqno, value };
        let Some(part) = self.parts.get(self.part_index(key.head)) else { return 0 };
        match part.write().entry(key) {
            Entry::Occupied(mut known) => {
                let versions = known.get_mut();
                if versions.older.is_none() && versions.newest.seqno < seqno && seqno < readers_from
                {
                    let grown = version.bytes() - versions.newest.bytes();
                    versions.newest = version;
                    return grown;
                }
                let grown = version.bytes() + OLDER_BYTES;
                versions.add(version);
                grown - versions.forget_before(readers_from)
            }
            Entry::Vacant(place) => {
                let grown = key_bytes + version.bytes() + ENTRY_BYTES;
                place.insert(Versions { newest: version, older: None });
                self.key_count.fetch_add(1, Ordering::Relaxed);
                grown
            }
        }
    }

    /// What a key was set to before `seqno`: `None` if nothing is known here, `Some(None)` if it was removed.
    pub(crate) fn get(&self, key: &BufferKey, seqno: SeqNo) -> Option<Option<TreeBytes>> {
        let part = self.parts.get(self.part_index(key.head))?.read();
        part.get(key)?.before(seqno).map(|version| version.value.clone())
    }

    /// Whether there are keys, removed ones among them, that begin with all bytes of this one, which are enough to tell the part.
    pub(crate) fn holds(&self, start: &BufferKey) -> bool {
        let Some(part) = self.parts.get(self.part_index(start.head)) else { return false };
        let part = part.read();
        let next = part.range((Bound::Included(start), Bound::Unbounded)).next();
        next.is_some_and(|(key, _)| key.bytes.starts_with(&start.bytes))
    }

    /// Appends up to `count` keys from one end of a range, as they were before `seqno`.
    pub(crate) fn read(
        &self,
        (start, end): (&Bound<BufferKey>, &Bound<BufferKey>),
        seqno: SeqNo,
        from: End,
        count: usize,
        out: &mut VecDeque<BufferItem>,
    ) {
        let (Some(first), Some(last)) = (bound_key(start), bound_key(end)) else { return };
        if first >= last {
            return;
        }
        let parts = self.part_index(first.head)..=self.part_index(last.head);
        let visible = |(key, versions): (&BufferKey, &Versions)| {
            let version = versions.before(seqno)?;
            Some((key.bytes.clone(), version.value.clone()))
        };
        let mut read_part = |index: usize| {
            let Some(part) = self.parts.get(index) else { return false };
            let part = part.read();
            let items = part.range((start.as_ref(), end.as_ref()));
            let room = count.saturating_sub(out.len());
            match from {
                End::Front => out.extend(items.filter_map(visible).take(room)),
                End::Back => out.extend(items.rev().filter_map(visible).take(room)),
            }
            out.len() < count
        };
        match from {
            End::Front => parts.clone().all(&mut read_part),
            End::Back => parts.rev().all(&mut read_part),
        };
    }

    /// Keys after `last` with the newest version of each, for a buffer that is not written to any more.
    pub(crate) fn newest_after(
        &self,
        last: Option<&BufferKey>,
        count: usize,
        out: &mut VecDeque<(BufferKey, SeqNo, Option<TreeBytes>)>,
    ) {
        let first_part = last.map_or(0, |key| self.part_index(key.head));
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        for part in self.parts.iter().skip(first_part) {
            let room = count.saturating_sub(out.len());
            if room == 0 {
                return;
            }
            let part = part.read();
            let items = part.range((start, Bound::Unbounded)).take(room);
            out.extend(items.map(|(key, versions)| {
                let newest = &versions.newest;
                (key.clone(), newest.seqno, newest.value.clone())
            }));
        }
    }
}

fn bound_key(bound: &Bound<BufferKey>) -> Option<&BufferKey> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::LATEST;

    /// Somebody reads every version.
    const ALL_READ: SeqNo = 0;

    fn value(number: u8) -> Option<TreeBytes> {
        Some(TreeBytes::from([number]))
    }

    fn row_key(token: u128, rest: &[u8]) -> Vec<u8> {
        [&[EVEN_SPACE], token.to_be_bytes().as_slice(), rest].concat()
    }

    #[test]
    fn each_reader_sees_the_version_of_its_time() {
        let buffer = WriteBuffer::for_keys(0);
        buffer.insert(b"key", value(1), 10, ALL_READ);
        buffer.insert(b"key", value(3), 30, ALL_READ);
        buffer.insert(b"key", None, 40, ALL_READ);
        // Late, and twice by the same write.
        buffer.insert(b"key", value(9), 20, ALL_READ);
        buffer.insert(b"key", value(2), 20, ALL_READ);
        let at = |seqno| buffer.get(&BufferKey::new(b"key"), seqno);
        assert_eq!(at(10), None);
        assert_eq!(at(11), Some(value(1)));
        assert_eq!(at(21), Some(value(2)));
        assert_eq!(at(31), Some(value(3)));
        assert_eq!(at(LATEST), Some(None));
        assert_eq!(buffer.get(&BufferKey::new(b"kez"), LATEST), None);
        assert_eq!(buffer.key_count(), 1);
    }

    #[test]
    fn versions_that_nobody_reads_are_forgotten() {
        let buffer = WriteBuffer::for_keys(0);
        let at = |seqno| buffer.get(&BufferKey::new(b"key"), seqno);
        let mut bytes = buffer.insert(b"key", value(1), 10, 10);
        let alone = bytes;
        bytes += buffer.insert(b"key", value(2), 20, 15);
        bytes += buffer.insert(b"key", value(3), 30, 15);
        // The reader before 15 sees the first, and those from 25 on the second.
        assert_eq!((at(15), at(25)), (Some(value(1)), Some(value(2))));
        bytes += buffer.insert(b"key", value(4), 40, 25);
        assert_eq!((at(15), at(25)), (None, Some(value(2))));
        bytes += buffer.insert(b"key", value(5), 50, 45);
        assert_eq!((at(35), at(45), at(LATEST)), (None, Some(value(4)), Some(value(5))));
        // Nobody at all, once with older versions and once without.
        bytes += buffer.insert(b"key", None, 60, 61);
        assert_eq!((at(55), at(61)), (None, Some(None)));
        bytes += buffer.insert(b"key", value(6), 70, 71);
        assert_eq!((at(65), at(71)), (None, Some(value(6))));
        assert_eq!(bytes, alone, "what was counted for what is left");
    }

    #[test]
    fn keys_of_all_parts_come_in_order_from_both_ends() {
        let buffer = WriteBuffer::for_keys(1_000_000);
        let mut keys: Vec<Vec<u8>> = (0..500u128)
            .map(|number| row_key(number.wrapping_mul(u128::MAX / 499), b"row"))
            .collect();
        // The end of one key is the beginning of another, and keys are shorter than their heads.
        for odd in [&[0u8] as &[u8], &[0, 0], &[1, 7], &[EVEN_SPACE], &[3], &[4, 200], &[5]] {
            keys.push(odd.to_vec());
        }
        for (number, key) in keys.iter().enumerate() {
            buffer.insert(key, value(number as u8), 1 + number as u64, ALL_READ);
        }
        keys.sort();
        let all = (Bound::Included(BufferKey::new(&[])), Bound::Excluded(BufferKey::new(&[9])));
        for end in [End::Front, End::Back] {
            let mut found = VecDeque::new();
            buffer.read((&all.0, &all.1), LATEST, end, usize::MAX, &mut found);
            let mut found: Vec<Vec<u8>> = found.into_iter().map(|(key, _)| key.to_vec()).collect();
            if end == End::Back {
                found.reverse();
            }
            assert_eq!(found, keys);
        }
        let mut newest = VecDeque::new();
        buffer.newest_after(None, usize::MAX, &mut newest);
        assert!(newest.iter().map(|(key, ..)| key.bytes().to_vec()).eq(keys.iter().cloned()));
    }

    #[test]
    fn ranges_that_hold_nothing_are_empty() {
        let buffer = WriteBuffer::for_keys(0);
        buffer.insert(b"b", value(1), 1, ALL_READ);
        for (start, end) in [("b", "b"), ("c", "a"), ("c", "d"), ("a", "b")] {
            let bounds = (
                Bound::Included(BufferKey::new(start.as_bytes())),
                Bound::Excluded(BufferKey::new(end.as_bytes())),
            );
            let mut found = VecDeque::new();
            buffer.read((&bounds.0, &bounds.1), LATEST, End::Front, 9, &mut found);
            assert!(found.is_empty(), "{start} to {end}");
        }
    }
}
