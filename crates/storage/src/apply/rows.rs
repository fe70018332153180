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
        let many = self.mutation.operations.len() > 1;
        if many && let Some(index) = self.row_index.get(self.key.as_slice()) {
            return Ok(*index);
        }
        let (value, is_cached) = self.read_row().map_err(|error| self.of_tree(error))?;
        let index = self.rows.len();
        let key = RowKey::from_slice(&self.key);
        if many {
            self.row_index.insert(key.clone(), index);
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
