//! Deleted ranges while a mutation adds to them.
//!
//! A batch may delete thousands of ranges, with rows between them that ask what lies over them. Merged one by one,
//! each range would walk all before it. So they wait in layers, each at least twice as long as the next: a range
//! that comes is merged with the layers that are too short to stay before it, takes part in few merges, and a row
//! asks few layers.

use std::mem::{swap, take};

use bytes::Bytes;

use super::deletions::RangeDeletion;
use crate::merge::reconcile::newer_deletion;
use crate::steps;

/// New ranges over those that were there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layers(Vec<Vec<RangeDeletion>>);

impl Layers {
    /// Takes a range that is not empty.
    pub(crate) fn add(&mut self, range: RangeDeletion) {
        let mut last = vec![range];
        while let Some(before) = self.0.pop_if(|before| before.len() < 2 * last.len()) {
            last = merged(before, last);
        }
        self.0.push(last);
    }

    /// The newest deletion over a row (`i64::MIN` for none).
    pub(crate) fn covering_us(&self, clustering: &[u8]) -> i64 {
        let over_row = self.0.iter().map(|layer| covering_us(layer, clustering));
        over_row.max().unwrap_or(i64::MIN)
    }

    /// All of them and those that were there.
    pub(crate) fn over(mut self, ranges: Vec<RangeDeletion>) -> Vec<RangeDeletion> {
        let Some(mut all) = self.0.pop() else { return ranges };
        // The short ones first.
        while let Some(before) = self.0.pop() {
            all = merged(before, all);
        }
        merged(ranges, all)
    }
}

/// The newest deletion over a row, of ranges in order that do not overlap (`i64::MIN` for none).
pub(crate) fn covering_us(ranges: &[RangeDeletion], clustering: &[u8]) -> i64 {
    let after = ranges.partition_point(|range| {
        steps::note();
        range.start.as_ref() <= clustering
    });
    let range = after.checked_sub(1).and_then(|index| ranges.get(index));
    match range {
        Some(range) if range.end.as_ref().is_none_or(|end| clustering < end.as_ref()) => {
            range.deletion.timestamp_us
        }
        _ => i64::MIN,
    }
}

/// Two runs of ranges, each in order and without overlaps, as one: where they meet, the newer deletion stays.
fn merged(a: Vec<RangeDeletion>, b: Vec<RangeDeletion>) -> Vec<RangeDeletion> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    let (mut next_a, mut next_b) = (a.next(), b.next());
    loop {
        steps::note();
        let (mut first, mut second) = match (next_a.take(), next_b.take()) {
            (Some(first), Some(second)) => (first, second),
            (Some(last), None) | (None, Some(last)) => {
                push(&mut out, last);
                (next_a, next_b) = (a.next(), b.next());
                continue;
            }
            (None, None) => return out,
        };
        if second.start < first.start {
            swap(&mut first, &mut second);
            swap(&mut a, &mut b);
        }
        if first.end.as_ref().is_some_and(|end| *end <= second.start) {
            push(&mut out, first);
            (next_a, next_b) = (a.next(), Some(second));
        } else if first.start < second.start {
            let start = std::mem::replace(&mut first.start, second.start.clone());
            let (end, deletion) = (Some(second.start.clone()), first.deletion);
            push(&mut out, RangeDeletion { start, end, deletion });
            (next_a, next_b) = (Some(first), Some(second));
        } else {
            let end = earlier_end(&first, &second);
            let newer = newer_deletion(Some(first.deletion), Some(second.deletion));
            let deletion = newer.unwrap_or(first.deletion);
            let start = take(&mut first.start);
            push(&mut out, RangeDeletion { start, end: end.clone(), deletion });
            next_a = behind(first, end.as_ref()).or_else(|| a.next());
            next_b = behind(second, end.as_ref()).or_else(|| b.next());
        }
    }
}

/// `None` is the end of the partition.
fn earlier_end(a: &RangeDeletion, b: &RangeDeletion) -> Option<Bytes> {
    match (&a.end, &b.end) {
        (Some(a), Some(b)) => Some(a.min(b).clone()),
        (a, b) => a.as_ref().or(b.as_ref()).cloned(),
    }
}

/// What of a range lies behind a place in it.
fn behind(range: RangeDeletion, place: Option<&Bytes>) -> Option<RangeDeletion> {
    let start = place.filter(|place| range.end.as_ref() != Some(*place))?.clone();
    Some(RangeDeletion { start, ..range })
}

/// Adds a range behind the others; equal neighbours become one.
fn push(out: &mut Vec<RangeDeletion>, range: RangeDeletion) {
    match out.last_mut() {
        Some(last)
            if last.deletion == range.deletion && last.end.as_ref() == Some(&range.start) =>
        {
            last.end = range.end;
        }
        _ => out.push(range),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use types::{ClusteringRange, Deletion};

    use super::super::deletions::{PartitionDeletions, difference};
    use super::*;
    use crate::steps::check_growth;

    const PLACES: usize = 24;

    fn place(number: usize) -> Bytes {
        Bytes::copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes())
    }

    fn range(start: usize, end: Option<usize>) -> ClusteringRange {
        ClusteringRange { start: place(start), end: end.map(place) }
    }

    fn deletion(timestamp: usize) -> Deletion {
        Deletion { timestamp_us: i64::try_from(timestamp).unwrap(), deleted_at_s: 7 }
    }

    /// What lies over each place as the only ranges that say so.
    fn as_ranges(over: &[Option<Deletion>]) -> Vec<RangeDeletion> {
        let mut ranges = Vec::new();
        for (number, deletion) in over.iter().enumerate() {
            let end = (number + 1 < over.len()).then(|| place(number + 1));
            if let Some(deletion) = *deletion {
                push(&mut ranges, RangeDeletion { start: place(number), end, deletion });
            }
        }
        ranges
    }

    #[test]
    fn layers_say_what_each_range_said() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for _ in 0..2_000 {
            let mut deletions = PartitionDeletions::default();
            let mut over = [None; PLACES];
            let mut partition = None;
            for _ in 0..random(20) {
                let new = deletion(random(5));
                if random(12) == 0 {
                    deletions.delete_partition(new);
                    partition = newer_deletion(partition, Some(new));
                } else {
                    let (start, end) = (random(PLACES), random(PLACES + 1));
                    deletions.delete_range(&range(start, (end < PLACES).then_some(end)), new);
                    for over in over.iter_mut().take(end).skip(start) {
                        *over = newer_deletion(*over, Some(new));
                    }
                }
                if random(6) == 0 {
                    deletions.settle();
                }
                for (number, over) in over.iter().enumerate() {
                    let expected = newer_deletion(partition, *over).map(|it| it.timestamp_us);
                    let found = deletions.covering_us(Some(&place(number)));
                    assert_eq!(found, expected.unwrap_or(i64::MIN));
                }
            }
            deletions.settle();
            let partition_us = partition.map(|it| it.timestamp_us);
            let kept = over.map(|it| it.filter(|it| Some(it.timestamp_us) > partition_us));
            assert_eq!(deletions.ranges, as_ranges(&kept));
            assert_eq!(deletions.partition, partition);
        }
    }

    /// Deletes ranges and asks for a row after each.
    fn delete_all(ranges: impl Iterator<Item = (ClusteringRange, Deletion)>) {
        let before = PartitionDeletions::default();
        let mut after = before.clone();
        for (range, deletion) in ranges {
            after.delete_range(&range, deletion);
            assert!(after.covering_us(Some(&range.start)) >= deletion.timestamp_us);
        }
        after.settle();
        let writes = difference(b"p", &before, &after);
        assert_eq!(writes.len(), after.ranges.len());
        assert!(difference(b"p", &after, &after).is_empty());
    }

    #[test]
    fn many_ranges_take_few_steps_each() {
        let size = 4096;
        check_growth("ranges", size, |size| {
            delete_all((0..size).map(|it| (range(3 * it, Some(3 * it + 2)), deletion(1))));
        });
        check_growth("ranges backwards", size, |size| {
            let ranges = (0..size).rev().map(|it| (range(3 * it, Some(3 * it + 2)), deletion(1)));
            delete_all(ranges);
        });
        check_growth("nested ranges", size, |size| {
            delete_all((0..size).map(|it| (range(it, Some(3 * size - it)), deletion(it))));
        });
        check_growth("wide ranges under narrow ones", size, |size| {
            let narrow =
                (0..size / 2).map(|it| (range(3 * it, Some(3 * it + 2)), deletion(2 * size)));
            let wide = (0..size / 2).map(|it| (range(0, None), deletion(it)));
            delete_all(narrow.chain(wide));
        });
    }
}
