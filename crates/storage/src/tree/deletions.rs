//! Deletions of whole partitions and of ranges of rows.
//!
//! They lie over rows without touching them, so a read must know them. Few partitions have any: a
//! set in memory knows which, and everybody else looks no further. The ranges of a partition never
//! overlap: new ones are merged into the old ones, and equal neighbours become one (see [`super::layers`]).

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use foldhash::fast::FixedState;
use parking_lot::RwLock;
use types::{ClusteringRange, Deletion};

use super::keys::{
    self, DeletionKey, SPACE_DELETIONS, push_partition_deletion, push_range_deletion,
    push_range_deletions_end,
};
use super::layers::{self, Layers};
use crate::error::TreeError;
use crate::merge::reconcile::newer_deletion;
use crate::steps;
use crate::sure::tail;
use tree::engine::{SeqNo, SortedTree, TreeBytes};

const VALUE_VERSION: u8 = 1;

/// Which partitions have deletions: by hash, so a rare stranger looks for nothing and finds nothing.
#[derive(Debug, Default)]
pub(crate) struct DeletedPartitions {
    has_any: AtomicBool,
    hashes: RwLock<HashSet<u64, FixedState>>,
}

impl DeletedPartitions {
    /// Reads which partitions of a tree have deletions.
    pub(crate) fn load(tree: &dyn SortedTree, seqno: SeqNo) -> Result<Self, TreeError> {
        let deleted = DeletedPartitions::default();
        let bounds = ([SPACE_DELETIONS], [SPACE_DELETIONS + 1]);
        for item in tree.range(&bounds.0, &bounds.1, seqno) {
            let (key, _) = item?;
            let (prefix, _) = keys::split_prefix(&key).ok_or_else(malformed)?;
            deleted.add(tail(prefix, 1));
        }
        Ok(deleted)
    }

    /// `prefix`: the partition prefix without the space.
    pub(crate) fn add(&self, prefix: &[u8]) {
        self.hashes.write().insert(FixedState::default().hash_one(prefix));
        self.has_any.store(true, Ordering::Release);
    }

    /// The partition has none any more, and nobody reads from a time when it had.
    pub(crate) fn remove(&self, prefix: &[u8]) {
        let mut hashes = self.hashes.write();
        hashes.remove(&FixedState::default().hash_one(prefix));
        if hashes.is_empty() {
            self.has_any.store(false, Ordering::Release);
        }
    }

    pub(crate) fn may_contain(&self, prefix: &[u8]) -> bool {
        self.has_any.load(Ordering::Acquire)
            && self.hashes.read().contains(&FixedState::default().hash_one(prefix))
    }
}

/// A range of rows that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeDeletion {
    pub(crate) start: Bytes,
    pub(crate) end: Option<Bytes>,
    pub(crate) deletion: Deletion,
}

/// The deletions of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionDeletions {
    pub(crate) partition: Option<Deletion>,
    /// Sorted, not overlapping.
    pub(crate) ranges: Vec<RangeDeletion>,
    /// New ranges, until they are settled.
    new: Layers,
}

impl PartitionDeletions {
    /// Reads the deletions of a partition.
    pub(crate) fn load(
        tree: &dyn SortedTree,
        prefix: &[u8],
        seqno: SeqNo,
    ) -> Result<PartitionDeletions, TreeError> {
        let mut start = vec![SPACE_DELETIONS];
        start.extend_from_slice(prefix);
        let mut end = start.clone();
        push_partition_deletion(&mut start);
        push_range_deletions_end(&mut end);
        let mut deletions = PartitionDeletions::default();
        for item in tree.range(&start, &end, seqno) {
            deletions.add(item?)?;
        }
        Ok(deletions)
    }

    /// Reads the deletion of a partition, and those of its ranges that meet or touch one.
    pub(crate) fn load_around(
        tree: &dyn SortedTree,
        prefix: &[u8],
        range: &ClusteringRange,
        seqno: SeqNo,
    ) -> Result<PartitionDeletions, TreeError> {
        let mut space = vec![SPACE_DELETIONS];
        space.extend_from_slice(prefix);
        let key = |push: &dyn Fn(&mut Vec<u8>)| {
            let mut key = space.clone();
            push(&mut key);
            key
        };
        let mut deletions = PartitionDeletions::default();
        let partition_key = key(&push_partition_deletion);
        if let Some(value) = tree.get(&partition_key, seqno)? {
            deletions.partition = Some(decode_value(&value)?.0);
        }
        let first = key(&|key| push_range_deletion(key, &[]));
        let start = key(&|key| push_range_deletion(key, &range.start));
        let end = key(&|key| match &range.end {
            Some(end) => {
                push_range_deletion(key, end);
                // What starts right at the end touches.
                key.push(0);
            }
            None => push_range_deletions_end(key),
        });
        if let Some(before) = tree.range(&first, &start, seqno).next_back() {
            deletions.add(before?)?;
        }
        for item in tree.range(&start, &end, seqno) {
            deletions.add(item?)?;
        }
        Ok(deletions)
    }

    /// Takes one that is behind all others.
    fn add(&mut self, (key, value): (TreeBytes, TreeBytes)) -> Result<(), TreeError> {
        let (_, rest) = keys::split_prefix(&key).ok_or_else(malformed)?;
        match keys::split_deletion(rest).ok_or_else(malformed)? {
            DeletionKey::Partition => self.partition = Some(decode_value(&value)?.0),
            DeletionKey::Range { .. } => self.ranges.push(decode_range((key, value))?),
        }
        Ok(())
    }

    /// The newest deletion over a row; `None` is the static row, which no range covers.
    pub(crate) fn covering_us(&self, clustering: Option<&[u8]>) -> i64 {
        let partition_us = self.partition.map_or(i64::MIN, |deletion| deletion.timestamp_us);
        let Some(clustering) = clustering else {
            return partition_us;
        };
        let range_us = layers::covering_us(&self.ranges, clustering);
        partition_us.max(range_us).max(self.new.covering_us(clustering))
    }

    /// Those from before a second, and the others.
    pub(crate) fn split_at_horizon(&self, horizon_s: u32) -> (Self, Self) {
        let is_old = |deletion: &Deletion| deletion.deleted_at_s < horizon_s;
        let (old, kept) = self.ranges.iter().cloned().partition(|range| is_old(&range.deletion));
        (
            PartitionDeletions {
                partition: self.partition.filter(is_old),
                ranges: old,
                new: Layers::default(),
            },
            PartitionDeletions {
                partition: self.partition.filter(|deletion| !is_old(deletion)),
                ranges: kept,
                new: Layers::default(),
            },
        )
    }

    /// Deletes the whole partition. Ranges that it covers go when all is settled.
    pub(crate) fn delete_partition(&mut self, deletion: Deletion) {
        self.partition = newer_deletion(self.partition, Some(deletion));
    }

    /// Deletes a range: where it meets others, the newer deletion stays.
    pub(crate) fn delete_range(&mut self, range: &ClusteringRange, deletion: Deletion) {
        let is_covered =
            self.partition.is_some_and(|partition| partition.timestamp_us >= deletion.timestamp_us);
        if range.is_empty() || is_covered {
            return;
        }
        let (start, end) = (range.start.clone(), range.end.clone());
        self.new.add(RangeDeletion { start, end, deletion });
    }

    /// Merges the new ranges into the old ones, after the last of them.
    pub(crate) fn settle(&mut self) {
        self.ranges = std::mem::take(&mut self.new).over(std::mem::take(&mut self.ranges));
        let partition_us = self.partition.map(|deletion| deletion.timestamp_us);
        self.ranges.retain(|range| Some(range.deletion.timestamp_us) > partition_us);
    }
}

/// Takes a range tombstone apart.
pub(crate) fn decode_range(
    (key, value): (TreeBytes, TreeBytes),
) -> Result<RangeDeletion, TreeError> {
    let (_, rest) = keys::split_prefix(&key).ok_or_else(malformed)?;
    let Some(DeletionKey::Range { start }) = keys::split_deletion(rest) else {
        return Err(malformed());
    };
    let (deletion, end) = decode_value(&value)?;
    let (start, end) = (Bytes::copy_from_slice(start), end.map(Bytes::copy_from_slice));
    Ok(RangeDeletion { start, end, deletion })
}

/// When the partition was deleted (`i64::MIN`: never).
pub(crate) fn partition_deletion_us(
    tree: &dyn SortedTree,
    prefix: &[u8],
    seqno: SeqNo,
) -> Result<i64, TreeError> {
    covering_us(tree, prefix, None, seqno)
}

/// The newest deletion over one row, without reading every range of its partition.
pub(crate) fn covering_us(
    tree: &dyn SortedTree,
    prefix: &[u8],
    clustering: Option<&[u8]>,
    seqno: SeqNo,
) -> Result<i64, TreeError> {
    let mut key = vec![SPACE_DELETIONS];
    key.extend_from_slice(prefix);
    let prefix_length = key.len();
    push_partition_deletion(&mut key);
    let partition_us = match tree.get(&key, seqno)? {
        Some(value) => decode_value(&value)?.0.timestamp_us,
        None => i64::MIN,
    };
    let Some(clustering) = clustering else {
        return Ok(partition_us);
    };
    key.truncate(prefix_length);
    let mut end = key.clone();
    push_range_deletion(&mut key, &[]);
    push_range_deletion(&mut end, clustering);
    // The first key behind a range that starts right at the row.
    end.push(0);
    let Some(item) = tree.range(&key, &end, seqno).next_back() else {
        return Ok(partition_us);
    };
    let (_, value) = item?;
    let (deletion, range_end) = decode_value(&value)?;
    Ok(match range_end {
        Some(end) if end <= clustering => partition_us,
        _ => partition_us.max(deletion.timestamp_us),
    })
}

/// The writes that turn one state of a partition's deletions into another, both settled: key, and value or none.
pub(crate) fn difference(
    prefix: &[u8],
    before: &PartitionDeletions,
    after: &PartitionDeletions,
) -> Vec<(Vec<u8>, Option<TreeBytes>)> {
    let mut writes = Vec::new();
    let mut space = vec![SPACE_DELETIONS];
    space.extend_from_slice(prefix);
    if before.partition != after.partition {
        let mut key = space.clone();
        push_partition_deletion(&mut key);
        let value = after.partition.map(|deletion| encode_value(deletion, None));
        writes.push((key, value));
    }
    let range_key = |start: &[u8]| {
        let mut key = space.clone();
        push_range_deletion(&mut key, start);
        key
    };
    let range_at = |ranges: &'_ [RangeDeletion], start: &Bytes| {
        ranges.binary_search_by(|range| {
            steps::note();
            range.start.cmp(start)
        })
    };
    for gone in &before.ranges {
        if range_at(&after.ranges, &gone.start).is_err() {
            writes.push((range_key(&gone.start), None));
        }
    }
    for range in &after.ranges {
        let old = range_at(&before.ranges, &range.start).ok();
        if old.and_then(|place| before.ranges.get(place)) != Some(range) {
            let value = encode_value(range.deletion, Some(range.end.as_deref()));
            writes.push((range_key(&range.start), Some(value)));
        }
    }
    writes
}

/// Version, timestamp, second of deletion; for a range: 1 and its end, or 0 for none.
fn encode_value(deletion: Deletion, range_end: Option<Option<&[u8]>>) -> TreeBytes {
    let mut out = vec![VALUE_VERSION];
    out.extend_from_slice(&deletion.timestamp_us.to_be_bytes());
    out.extend_from_slice(&deletion.deleted_at_s.to_be_bytes());
    match range_end {
        None => {}
        Some(None) => out.push(0),
        Some(Some(end)) => {
            out.push(1);
            out.extend_from_slice(end);
        }
    }
    TreeBytes::from(out)
}

fn decode_value(value: &[u8]) -> Result<(Deletion, Option<&[u8]>), TreeError> {
    let (version, rest) = value.split_first().ok_or_else(malformed)?;
    let (timestamp, rest) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
    let (deleted_at, rest) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
    if *version != VALUE_VERSION {
        return Err(malformed());
    }
    let deletion = Deletion {
        timestamp_us: i64::from_be_bytes(*timestamp),
        deleted_at_s: u32::from_be_bytes(*deleted_at),
    };
    match rest.split_first() {
        None | Some((0, [])) => Ok((deletion, None)),
        Some((1, end)) => Ok((deletion, Some(end))),
        Some(_) => Err(malformed()),
    }
}

fn malformed() -> TreeError {
    TreeError::Corrupt("a stored deletion does not follow its format".into())
}
