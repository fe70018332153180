//! The rows that a mutation changes, as they are before it.

use types::RowPosition;

use super::measure::RowSizes;
use super::{CACHE_ID_BYTES, PendingRow, RowsChange};
use crate::cache::{CachedRow, RowKey};
use crate::error::{CommitError, TreeError};
use crate::sure::{part, tail};
use crate::tree::keys;
use tree::engine::LATEST;

impl RowsChange<'_> {
    /// The row as it is now, with what the mutation did to it so far: where it is in `rows`.
    pub(super) fn load_row(&mut self, position: &RowPosition) -> Result<usize, CommitError> {
        self.key.truncate(self.prefix_length);
        keys::push_position(&mut self.key, position);
        if let Some(index) = self.find_row() {
            return Ok(index);
        }
        let (value, is_cached) = self.read_row().map_err(|error| self.of_tree(error))?;
        let index = self.rows.len();
        let key = RowKey::from_slice(&self.key);
        if let Some(known) = &mut self.row_index {
            known.insert(key.clone(), index);
        }
        let existed = value.is_some();
        let first_value = value.clone();
        self.rows.push(PendingRow {
            key,
            value,
            first_value,
            existed,
            is_cached,
            is_changed: false,
            sums: None,
            sizes: RowSizes::default(),
            has_cell_writes: false,
            elements: Vec::new(),
        });
        Ok(index)
    }

    /// Where in `rows` the key at hand is. Most mutations name their rows in order, and need no table for that.
    fn find_row(&mut self) -> Option<usize> {
        let key = self.key.as_slice();
        if let Some(known) = &self.row_index {
            return known.get(key).copied();
        }
        let last = self.rows.last()?;
        if last.key.as_slice() < key {
            return None;
        }
        match self.rows.binary_search_by(|row| row.key.as_slice().cmp(key)) {
            Ok(index) => Some(index),
            Err(_) => {
                let keys = self.rows.iter().map(|row| row.key.clone());
                self.row_index = Some(keys.zip(0..).collect());
                None
            }
        }
    }

    /// The row whose key is at hand, and whether it was in the cache.
    pub(super) fn read_row(&mut self) -> Result<(CachedRow, bool), TreeError> {
        if self.is_new_partition == Some(true) {
            return Ok((None, false));
        }
        if let Some(row) = self.core.cache.get(&self.key) {
            return Ok((row, true));
        }
        if self.is_new_partition.is_none() && self.mutation.operations.len() > 1 {
            // Several rows of a partition that is not there yet: one question for all of them. Nobody else writes to it meanwhile.
            let partition = part(&self.key, CACHE_ID_BYTES, self.prefix_length);
            let is_new = !self.opened.tree.may_hold(partition);
            self.is_new_partition = Some(is_new);
            if is_new {
                return Ok((None, false));
            }
        }
        let tree_key = tail(&self.key, CACHE_ID_BYTES);
        let row = self.opened.tree.get(tree_key, LATEST)?;
        self.core.cache.note_missed(&row);
        Ok((row, false))
    }
}
