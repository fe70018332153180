//! The deletions over the rows of a slice, read as the rows are: never more of them than rows.

use super::deletions::{DeletedPartitions, RangeDeletion, decode_range, partition_deletion_us};
use super::keys::{SPACE_DELETIONS, push_range_deletion, push_range_deletions_end};
use crate::error::TreeError;
use tree::engine::{SeqNo, SortedTree, TreeIter};

/// Which part of a partition is read, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlicePart<'a> {
    /// The partition prefix, without the space.
    pub(crate) prefix: &'a [u8],
    /// The first clustering key inside.
    pub(crate) from: &'a [u8],
    /// The first clustering key outside.
    pub(crate) to: Option<&'a [u8]>,
    pub(crate) reversed: bool,
    pub(crate) seqno: SeqNo,
}

/// Says what lies over each row of a slice, asked in the slice's order.
pub(crate) struct Covering {
    partition_us: i64,
    reversed: bool,
    /// The last range that starts at or before the row.
    current: Option<RangeDeletion>,
    /// The range behind it; only used forwards.
    next: Option<RangeDeletion>,
    ranges: Option<TreeIter>,
    /// Ranges that were met.
    pub(crate) range_count: u64,
}

impl Covering {
    pub(crate) fn load(
        tree: &dyn SortedTree,
        deleted: &DeletedPartitions,
        part: SlicePart<'_>,
    ) -> Result<Covering, TreeError> {
        let mut covering = Covering {
            partition_us: i64::MIN,
            reversed: part.reversed,
            current: None,
            next: None,
            ranges: None,
            range_count: 0,
        };
        if !deleted.may_contain(part.prefix) {
            return Ok(covering);
        }
        covering.partition_us = partition_deletion_us(tree, part.prefix, part.seqno)?;
        let key = |push: &dyn Fn(&mut Vec<u8>)| {
            let mut key = vec![SPACE_DELETIONS];
            key.extend_from_slice(part.prefix);
            push(&mut key);
            key
        };
        let first = key(&|key| push_range_deletion(key, &[]));
        let end = key(&|key| match part.to {
            Some(to) => push_range_deletion(key, to),
            None => push_range_deletions_end(key),
        });
        if part.reversed {
            covering.ranges = Some(tree.range(&first, &end, part.seqno));
            covering.current = covering.draw()?;
        } else {
            let mut behind = key(&|key| push_range_deletion(key, part.from));
            behind.push(0);
            if let Some(item) = tree.range(&first, &behind, part.seqno).next_back() {
                let before = decode_range(item?)?;
                covering.range_count +=
                    u64::from(before.end.as_deref().is_none_or(|end| end > part.from));
                covering.current = Some(before);
            }
            covering.ranges = Some(tree.range(&behind, &end, part.seqno));
            covering.next = covering.draw()?;
        }
        Ok(covering)
    }

    fn draw(&mut self) -> Result<Option<RangeDeletion>, TreeError> {
        let Some(ranges) = &mut self.ranges else { return Ok(None) };
        let item = if self.reversed { ranges.next_back() } else { ranges.next() };
        self.range_count += u64::from(item.is_some());
        item.map(|item| decode_range(item?)).transpose()
    }

    /// The newest deletion over a row (`i64::MIN` for none).
    pub(crate) fn over(&mut self, clustering: &[u8]) -> Result<i64, TreeError> {
        if self.ranges.is_none() {
            return Ok(self.partition_us);
        }
        if self.reversed {
            while self.current.as_ref().is_some_and(|range| range.start.as_ref() > clustering) {
                self.current = self.draw()?;
            }
        } else {
            while self.next.as_ref().is_some_and(|range| range.start.as_ref() <= clustering) {
                self.current = self.next.take();
                self.next = self.draw()?;
            }
        }
        Ok(match &self.current {
            Some(range) if range.end.as_ref().is_none_or(|end| clustering < end.as_ref()) => {
                self.partition_us.max(range.deletion.timestamp_us)
            }
            _ => self.partition_us,
        })
    }
}
