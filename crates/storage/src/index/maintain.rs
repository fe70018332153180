//! Indexes follow their table: what a change of a row, or a deletion over rows, does to them.

use std::sync::Arc;

use types::{CorruptRow, Operation, RowView};

use super::keys::{EntryValue, entry_key};
use super::leftovers::{Leftovers, ROWS_AT_ONCE_MAX, note_key, note_value};
use super::shape::{CoveredRow, Entry, RowName};
use super::tree::IndexTree;
use crate::error::TreeError;
use crate::spill::thaw_value;
use crate::steps;
use crate::sure::tail;
use crate::tree::deletions::PartitionDeletions;
use crate::tree::keys::{self, SPACE_ROWS};
use tree::engine::{LATEST, SeqNo, SortedTree, TreeBytes};

/// What a change does to the indexes of its table.
#[derive(Debug, Default)]
pub(crate) struct IndexWrites {
    writes: Vec<(Arc<IndexTree>, Vec<u8>, Option<TreeBytes>)>,
}

impl IndexWrites {
    /// Entries that are added or taken away.
    pub(crate) fn count(&self) -> u64 {
        self.writes.len() as u64
    }

    /// Adds what a change of one row does.
    pub(crate) fn add(
        &mut self,
        index: &Arc<IndexTree>,
        name: &RowName<'_>,
        before: Option<CoveredRow<'_>>,
        after: Option<CoveredRow<'_>>,
    ) -> Result<(), CorruptRow> {
        if index.shape.is_same(name, before, after)? {
            return Ok(());
        }
        let old = index.shape.entries(name, before)?;
        let new = index.shape.entries(name, after)?;
        difference(&old, &new, |entry, is_there| {
            self.push(index, name, entry, is_there.then(|| value_of(name, entry)));
        });
        Ok(())
    }

    /// The same where the index may have entries of what was dead before. `before` is as if nothing
    /// covered it.
    pub(crate) fn add_over_leftovers(
        &mut self,
        index: &Arc<IndexTree>,
        name: &RowName<'_>,
        before: Option<CoveredRow<'_>>,
        after: Option<CoveredRow<'_>>,
    ) -> Result<(), CorruptRow> {
        let raw = before.map(|before| CoveredRow { covering_us: i64::MIN, ..before });
        let old = index.shape.entries(name, raw)?;
        let new = index.shape.entries(name, after)?;
        difference(&old, &new, |entry, is_there| {
            if !is_there {
                self.push(index, name, entry, None);
            }
        });
        for entry in &new {
            self.push(index, name, entry, Some(value_of(name, entry)));
        }
        Ok(())
    }

    fn push(
        &mut self,
        index: &Arc<IndexTree>,
        name: &RowName<'_>,
        entry: &Entry,
        value: Option<TreeBytes>,
    ) {
        self.writes.push((Arc::clone(index), entry_key(&entry.value, name.tree_key), value));
    }

    /// Makes the changes; returns by how many bytes memory grew.
    pub(crate) fn write(self, seqno: SeqNo) -> u64 {
        let mut bytes = 0;
        for (index, key, value) in self.writes {
            bytes += match value {
                Some(value) => index.tree.insert(&key, value, seqno),
                None => index.tree.remove(&key, seqno),
            };
        }
        bytes
    }
}

/// The value of an entry in the tree.
pub(crate) fn value_of(name: &RowName<'_>, entry: &Entry) -> TreeBytes {
    let partition_key = name.is_cut.then_some(name.partition_key);
    EntryValue { expires_at_s: entry.expires_at_s, partition_key }.encode()
}

/// What must be put or removed to turn one sorted list of entries into another.
fn difference(old: &[Entry], new: &[Entry], mut on_change: impl FnMut(&Entry, bool)) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(gone), Some(next)) if gone.value == next.value => {
                if gone.expires_at_s != next.expires_at_s {
                    on_change(next, true);
                }
                old.next();
                new.next();
            }
            (Some(gone), next) if next.is_none_or(|next| gone.value < next.value) => {
                on_change(gone, false);
                old.next();
            }
            (_, Some(next)) => {
                on_change(next, true);
                new.next();
            }
            (Some(_), None) => return,
        }
    }
}

/// A partition whose deletions a mutation changed.
pub(crate) struct DeletedIn<'a> {
    pub(crate) tree: &'a dyn SortedTree,
    /// Row space and partition prefix.
    pub(crate) prefix: &'a [u8],
    pub(crate) before: &'a PartitionDeletions,
    pub(crate) after: &'a PartitionDeletions,
    pub(crate) leftovers: &'a Leftovers,
}

/// Removes the entries of all rows that new deletions cover; of very many rows later, and now only
/// the partition is noted. The deletions are in the tree already: after an error there are entries too
/// many, never too few. Returns by how many bytes memory grew.
pub(crate) fn remove_covered(
    indexes: &[Arc<IndexTree>],
    partition: &DeletedIn<'_>,
    operations: &[Operation],
    seqno: SeqNo,
) -> Result<u64, TreeError> {
    let ranges = operations.iter().filter_map(|operation| deleted_range(partition, operation));
    let ranges = united(ranges.collect());
    let mut row_count = 0;
    for (start, end) in &ranges {
        let rows = partition.tree.range(start, end, LATEST);
        // One too many is enough to know.
        row_count += rows.take(ROWS_AT_ONCE_MAX + 1 - row_count).count();
        if row_count > ROWS_AT_ONCE_MAX {
            break;
        }
    }
    if row_count > ROWS_AT_ONCE_MAX && partition.leftovers.has_room() {
        let prefix = tail(partition.prefix, 1);
        partition.leftovers.note(prefix);
        return Ok(partition.tree.insert(&note_key(prefix), note_value(), seqno));
    }
    let mut bytes = 0;
    for (start, end) in &ranges {
        for item in partition.tree.range(start, end, LATEST) {
            let (key, value) = item?;
            let value = thaw_value(partition.tree, &key, value, LATEST)?;
            bytes += remove_entries(indexes, partition, &key, &value, seqno)?;
        }
    }
    Ok(bytes)
}

/// The rows that an operation deletes, if it deletes more than one.
fn deleted_range(partition: &DeletedIn<'_>, operation: &Operation) -> Option<KeyRange> {
    let mut start = partition.prefix.to_vec();
    let mut end = partition.prefix.to_vec();
    match operation {
        Operation::Row(_) => return None,
        Operation::DeletePartition(_) => keys::push_rows_end(&mut end),
        Operation::DeleteRange { range, .. } => {
            keys::push_clustering(&mut start, &range.start);
            match &range.end {
                Some(range_end) => keys::push_clustering(&mut end, range_end),
                None => keys::push_rows_end(&mut end),
            }
        }
    }
    Some((start, end))
}

/// A range of keys: its first key, and the first behind it.
type KeyRange = (Vec<u8>, Vec<u8>);

/// The same keys in ranges that do not meet: each row is looked at once, however many deletions lie over it.
fn united(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_unstable_by(|(a, _), (b, _)| {
        steps::note();
        a.cmp(b)
    });
    let mut united: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match united.last_mut() {
            Some((_, last_end)) if start <= *last_end => {
                if end > *last_end {
                    *last_end = end;
                }
            }
            _ => united.push((start, end)),
        }
    }
    united
}

fn remove_entries(
    indexes: &[Arc<IndexTree>],
    partition: &DeletedIn<'_>,
    key: &[u8],
    value: &[u8],
    seqno: SeqNo,
) -> Result<u64, TreeError> {
    let Some((name, view)) = read_row(key, value)? else { return Ok(0) };
    let covered = |deletions: &PartitionDeletions| {
        Some(CoveredRow { view, covering_us: deletions.covering_us(name.clustering) })
    };
    let mut writes = IndexWrites::default();
    for index in indexes {
        writes.add(index, &name, covered(partition.before), covered(partition.after))?;
    }
    Ok(writes.write(seqno))
}

/// What a key and its value in the row space stand for; `None` if that is no row.
pub(crate) fn read_row<'a>(
    key: &'a [u8],
    value: &'a [u8],
) -> Result<Option<(RowName<'a>, RowView<'a>)>, CorruptRow> {
    if key.first() != Some(&SPACE_ROWS) {
        return Ok(None);
    }
    let Some(split) = keys::split_row_key(key) else { return Ok(None) };
    let (cut_key, row) = match split.partition_key {
        Some(_) => (None, value),
        None => {
            let (cut_key, row) = keys::split_cut_key(value).ok_or(CorruptRow)?;
            (Some(cut_key), row)
        }
    };
    let name = RowName::new(key, &split, cut_key).ok_or(CorruptRow)?;
    Ok(Some((name, RowView::decode(row)?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::steps::check_growth;

    fn range(start: usize, end: usize) -> KeyRange {
        let key = |number: usize| (number as u32).to_be_bytes().to_vec();
        (key(start), key(end))
    }

    #[test]
    fn ranges_that_meet_become_one() {
        let all =
            vec![range(5, 7), range(1, 3), range(2, 4), range(4, 5), range(9, 9), range(8, 9)];
        assert_eq!(united(all), [range(1, 7), range(8, 9)]);
        assert_eq!(united(vec![range(1, 9), range(2, 3)]), [range(1, 9)]);
        assert!(united(Vec::new()).is_empty());
    }

    #[test]
    fn rows_under_many_deletions_are_met_once() {
        check_growth("deleted ranges over each other", 1024, |size| {
            let rows: BTreeSet<Vec<u8>> = (0..size).map(|number| range(number, 0).0).collect();
            let deleted = (0..size).map(|number| range(number / 2, size)).rev().collect();
            let met = united(deleted).into_iter().map(|(start, end)| {
                let rows = rows.range(start..end);
                rows.inspect(|_| steps::note()).count()
            });
            assert_eq!(met.sum::<usize>(), size);
        });
    }
}
