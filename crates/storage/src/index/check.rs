//! Comparing indexes with their table, in both directions.

use std::sync::Arc;

use types::{CorruptRow, TableId};

use super::keys::{EntryValue, SPACE_ENTRIES, entry_key};
use super::maintain::{read_row, value_of};
use super::shape::{CoveredRow, Entry, RowName};
use super::tree::IndexTree;
use crate::error::TreeError;
use crate::spill::thaw_value;
use crate::tree::deletions;
use crate::tree::keys::{self, SPACE_ROWS};
use crate::tree::store::{OpenStore, TableStore};
use tree::engine::SeqNo;

/// What a comparison of an index with its table found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexComparison {
    /// Which index.
    pub index: TableId,
    /// Entries that stand for something in the table.
    pub entry_count: u64,
    /// What the table has and the index has not.
    pub missing_count: u64,
    /// What the index has and the table has not.
    pub orphan_count: u64,
    /// Entries whose end has passed: the next compaction takes them.
    pub ended_count: u64,
}

impl IndexComparison {
    /// Whether index and table say the same.
    pub fn is_exact(&self) -> bool {
        self.missing_count == 0 && self.orphan_count == 0
    }
}

/// Compares every built index of a table with its rows, as they are at one moment.
pub(crate) fn compare(store: &TableStore) -> Result<Vec<IndexComparison>, TreeError> {
    let Some(opened) = store.for_read()? else { return Ok(Vec::new()) };
    let snapshot = opened.snapshot_of_all();
    let horizon_s = store.horizon_s();
    let mut comparisons = Vec::new();
    for index in opened.indexes.all().iter().filter(|index| index.is_built()) {
        let comparison = Comparison { opened, index, seqno: snapshot.seqno, horizon_s };
        comparisons.push(comparison.run()?);
    }
    Ok(comparisons)
}

struct Comparison<'c> {
    opened: &'c OpenStore,
    index: &'c Arc<IndexTree>,
    seqno: SeqNo,
    /// What ended before this may be gone on either side.
    horizon_s: u32,
}

impl Comparison<'_> {
    fn run(&self) -> Result<IndexComparison, TreeError> {
        let mut found = IndexComparison {
            index: self.index.shape.id,
            entry_count: 0,
            missing_count: 0,
            orphan_count: 0,
            ended_count: 0,
        };
        for item in self.opened.tree.range(&[SPACE_ROWS], &[SPACE_ROWS + 1], self.seqno) {
            let (key, value) = item?;
            let value = thaw_value(self.opened.tree.as_ref(), &key, value, self.seqno)?;
            let Some((name, entries)) = self.entries(&key, &value)? else { continue };
            for entry in entries {
                let key = entry_key(&entry.value, name.tree_key);
                match self.index.tree.get(&key, self.seqno)? {
                    Some(value) if value == value_of(&name, &entry) => found.entry_count += 1,
                    _ if self.has_ended(entry.expires_at_s) => {}
                    _ => found.missing_count += 1,
                }
            }
        }
        for item in self.index.tree.range(&[SPACE_ENTRIES], &[SPACE_ENTRIES + 1], self.seqno) {
            let (key, value) = item?;
            let entry = EntryValue::decode(&value).ok_or(CorruptRow)?;
            if self.stands_for_a_row(&key)? {
                continue;
            }
            match self.has_ended(entry.expires_at_s) {
                true => found.ended_count += 1,
                false => found.orphan_count += 1,
            }
        }
        Ok(found)
    }

    fn has_ended(&self, expires_at_s: Option<u32>) -> bool {
        expires_at_s.is_some_and(|second| second < self.horizon_s)
    }

    /// What the index should hold for a row.
    fn entries<'k>(
        &self,
        key: &'k [u8],
        value: &'k [u8],
    ) -> Result<Option<(RowName<'k>, Vec<Entry>)>, TreeError> {
        let Some((name, view)) = read_row(key, value)? else { return Ok(None) };
        let prefix = keys::split_prefix(key).and_then(|(prefix, _)| prefix.get(1..));
        let tree = self.opened.tree.as_ref();
        let covering_us = match prefix {
            Some(prefix) if self.opened.deleted.may_contain(prefix) => {
                deletions::covering_us(tree, prefix, name.clustering, self.seqno)?
            }
            _ => i64::MIN,
        };
        let entries = self.index.shape.entries(&name, Some(CoveredRow { view, covering_us }))?;
        Ok(Some((name, entries)))
    }

    /// Whether an entry's key is one that some row should have. A value is of unknown length here,
    /// so every place that the key may end with is tried.
    fn stands_for_a_row(&self, entry_key_bytes: &[u8]) -> Result<bool, TreeError> {
        for at in 1..entry_key_bytes.len() {
            let Some((value, place)) = entry_key_bytes.split_at_checked(at) else { break };
            let mut row_key = vec![SPACE_ROWS];
            row_key.extend_from_slice(place);
            if keys::split_row_key(&row_key).is_none() {
                continue;
            }
            let Some(row) = self.opened.tree.get(&row_key, self.seqno)? else { continue };
            let row = thaw_value(self.opened.tree.as_ref(), &row_key, row, self.seqno)?;
            let Some((_, entries)) = self.entries(&row_key, &row)? else { continue };
            if entries.iter().any(|entry| Some(entry.value.as_slice()) == value.get(1..)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
