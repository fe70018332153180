//! Entries of rows that a deletion of very many rows covered.
//!
//! A deletion over a few rows takes their entries away in the same apply. One over many would keep
//! everybody waiting who writes, so it only notes the partition, in the table's own tree and under its
//! own sequence number. From then on
//! - readers find entries whose rows are dead, and pass them by: an entry is a hint, the row decides;
//! - whoever changes a row of that partition removes what its bytes stand for, dead or not, and puts
//!   what they stand for now ([`IndexWrites::add_over_leftovers`]);
//! - a sweep leaves the dead rows of that partition alone, because their bytes say what to remove;
//! - a chore removes what is left, a few rows at a time, and then the note ([`clear_some`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::maintain::{IndexWrites, read_row};
use super::shape::CoveredRow;
use crate::core::Core;
use crate::error::TreeError;
use crate::spill::thaw_value;
use crate::sure::tail;
use crate::tree::deletions::PartitionDeletions;
use crate::tree::keys::{self, SPACE_LEFTOVERS, SPACE_ROWS};
use crate::tree::store::OpenStore;
use tree::engine::{LATEST, SortedTree, TreeBytes};

/// Entries of so many rows are removed in the apply of a deletion.
pub(crate) const ROWS_AT_ONCE_MAX: usize = 1024;
/// So many partitions are noted; the deletion of one more is done at once.
const PARTITIONS_MAX: usize = 16 * 1024;
/// Rows that are looked at while nothing is applied.
const ROWS_PER_MOMENT: usize = 64;
/// Between two such moments.
const REST: Duration = Duration::from_micros(200);

/// The partitions of a table that have such entries.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    has_any: AtomicBool,
    /// Partition prefixes, and how often each was noted.
    partitions: Mutex<BTreeMap<Vec<u8>, u64>>,
}

impl Leftovers {
    /// Reads what a tree has noted.
    pub(crate) fn load(tree: &dyn SortedTree) -> Result<Leftovers, TreeError> {
        let leftovers = Leftovers::default();
        for item in tree.range(&[SPACE_LEFTOVERS], &[SPACE_LEFTOVERS + 1], LATEST) {
            let (key, _) = item?;
            leftovers.note(tail(&key, 1));
        }
        Ok(leftovers)
    }

    /// Whether a partition has any.
    pub(crate) fn contain(&self, prefix: &[u8]) -> bool {
        self.has_any.load(Ordering::Acquire) && self.partitions.lock().contains_key(prefix)
    }

    /// Whether one more partition can be noted.
    pub(crate) fn has_room(&self) -> bool {
        self.partitions.lock().len() < PARTITIONS_MAX
    }

    /// Notes a partition.
    pub(crate) fn note(&self, prefix: &[u8]) {
        let mut partitions = self.partitions.lock();
        *partitions.entry(prefix.to_vec()).or_default() += 1;
        self.has_any.store(true, Ordering::Release);
    }

    fn first(&self) -> Option<(Vec<u8>, u64)> {
        let partitions = self.partitions.lock();
        partitions.first_key_value().map(|(prefix, count)| (prefix.clone(), *count))
    }

    /// Forgets a partition, if it was not noted again.
    fn forget(&self, prefix: &[u8], count: u64) -> bool {
        let mut partitions = self.partitions.lock();
        if partitions.get(prefix) != Some(&count) {
            return false;
        }
        partitions.remove(prefix);
        self.has_any.store(!partitions.is_empty(), Ordering::Release);
        true
    }
}

/// The key of a note.
pub(crate) fn note_key(prefix: &[u8]) -> Vec<u8> {
    [&[SPACE_LEFTOVERS], prefix].concat()
}

/// Removes what is left of a store's leftovers, partition after partition. `goes_on` is asked between
/// moments.
pub(crate) fn clear(
    core: &Core,
    opened: &OpenStore,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), TreeError> {
    while let Some((prefix, count)) = opened.leftovers.first() {
        let mut cursor = Vec::new();
        loop {
            if !goes_on() {
                return Ok(());
            }
            let (next, bytes) = clear_some(opened, &prefix, count, &cursor)?;
            core.pressure.grow(bytes);
            match next {
                Some(next) => cursor = next,
                None => break,
            }
            core.rest(REST);
        }
    }
    Ok(())
}

/// Looks at a few rows of a partition. Returns where to go on, and by how many bytes memory grew.
fn clear_some(
    opened: &OpenStore,
    prefix: &[u8],
    count: u64,
    cursor: &[u8],
) -> Result<(Option<Vec<u8>>, u64), TreeError> {
    let pause = opened.pause();
    let tree = opened.tree.as_ref();
    let indexes = opened.indexes.all();
    let deletions = PartitionDeletions::load(tree, prefix, LATEST)?;
    let first = [&[SPACE_ROWS], prefix].concat();
    let mut end = first.clone();
    keys::push_rows_end(&mut end);
    let start = if cursor.is_empty() { first.as_slice() } else { cursor };
    let mut writes = IndexWrites::default();
    let mut next = None;
    for (number, item) in tree.range(start, &end, LATEST).enumerate() {
        let (key, value) = item?;
        if number == ROWS_PER_MOMENT {
            next = Some(key.to_vec());
            break;
        }
        let value = thaw_value(tree, &key, value, LATEST)?;
        let Some((name, view)) = read_row(&key, &value)? else { continue };
        let covering_us = deletions.covering_us(name.clustering);
        let before = Some(CoveredRow { view, covering_us: i64::MIN });
        let after = Some(CoveredRow { view, covering_us });
        for index in indexes.iter() {
            writes.add(index, &name, before, after)?;
        }
    }
    let seqno = tree.draw_seqno();
    let mut bytes = writes.write(seqno);
    if next.is_none() && opened.leftovers.forget(prefix, count) {
        bytes += tree.remove(&note_key(prefix), seqno);
    }
    opened.note_sweep(bytes);
    pause.publish();
    Ok((next, bytes))
}

/// The value of a note: there is nothing to say.
pub(crate) fn note_value() -> TreeBytes {
    TreeBytes::from(Vec::new())
}
