//! How large the rows of a mutation were and are: what they weigh, and by how much the partition
//! grows. Mostly the merge adds it up on its way; only rows with parts elsewhere, and rows under
//! deletions of the same mutation, are looked at once more.

use types::{CellAction, CorruptRow, LiveCells, Operation};

use super::{CACHE_ID_BYTES, PendingRow, RowsChange};
use crate::error::{CommitError, TreeError};
use crate::merge::row::{LiveSum, Measure};
use crate::sizes::{Noted, RowDelta, RowRuler, Size};
use crate::sure::tail;
use crate::tree::deletions;
use crate::tree::keys;
use crate::weigh::Touched;
use tree::engine::{LATEST, TreeBytes};

/// The size of a row before and after a mutation; `None` where nothing of it is live.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowSizes {
    before: Option<u64>,
    after: Option<u64>,
}

impl RowsChange<'_> {
    /// Measures the rows, once everything is worked out.
    pub(super) fn measure_rows(&mut self) -> Result<(), CommitError> {
        let key_bytes =
            self.store.key_shape.key_bytes(self.mutation.key.bytes(), || self.judged.ruler());
        for index in 0..self.rows.len() {
            let Some(row) = self.rows.get(index) else { continue };
            let sizes = match (row.sums, &self.deletions) {
                (Some((before, after)), None) => {
                    let own_bytes = (key_bytes + self.clustering_bytes(&row.key)) as u64;
                    let size = |sum: LiveSum| sum.is_live.then_some(own_bytes + sum.value_bytes);
                    RowSizes { before: size(before), after: size(after) }
                }
                _ => self.look_at(row, key_bytes).map_err(|error| self.of_tree(error))?,
            };
            if let Some(row) = self.rows.get_mut(index) {
                row.sizes = sizes;
            }
        }
        Ok(())
    }

    /// What the clustering key of a row counts: `key` is its store number and tree key.
    fn clustering_bytes(&self, key: &[u8]) -> usize {
        match keys::split_position(tail(key, self.prefix_length)) {
            Some(Some(clustering)) => {
                self.store.key_shape.clustering_bytes(clustering, || self.judged.ruler())
            }
            Some(None) | None => 0,
        }
    }

    /// Measures a row by looking at what is kept of it.
    fn look_at(&self, row: &PendingRow, key_bytes: usize) -> Result<RowSizes, TreeError> {
        let ruler = RowRuler { ruler: self.judged.ruler(), now_s: self.judged.now_s };
        let position = tail(&row.key, self.prefix_length);
        let clustering = keys::split_position(position).ok_or(CorruptRow)?;
        let measure = |value: &Option<TreeBytes>, is_before: bool| -> Result<_, TreeError> {
            let Some(value) = value else { return Ok(None) };
            let covering_us = match &self.deletions {
                Some((before, _)) if is_before => before.covering_us(clustering),
                Some((_, after)) => after.covering_us(clustering),
                None if !self.may_have_deletions => i64::MIN,
                None => {
                    let (tree, partition) = (self.opened.tree.as_ref(), self.partition());
                    deletions::covering_us(tree, partition, clustering, LATEST)?
                }
            };
            let size = ruler.measure(self.view(value)?, key_bytes, clustering, covering_us)?;
            Ok((size != Size::default()).then_some(size.bytes))
        };
        let mut before = measure(&row.first_value, true)?;
        let mut after = measure(&row.value, false)?;
        for (element_before, element_after) in &row.elements {
            for (size, element) in [(&mut before, element_before), (&mut after, element_after)] {
                if let (Some(size), Some(element)) = (size, element) {
                    *size += ruler.measure_element(element, i64::MIN)?;
                }
            }
        }
        let bytes = |size: Option<i64>| size.map(|bytes| u64::try_from(bytes).unwrap_or(0));
        Ok(RowSizes { before: bytes(before), after: bytes(after) })
    }

    /// The size of a row that a condition looks at; its key is at hand.
    pub(super) fn live_bytes(&self, live: &LiveCells<'_>) -> Result<u64, CorruptRow> {
        let key = self.mutation.key.bytes();
        let key_bytes = self.store.key_shape.key_bytes(key, || self.judged.ruler());
        let mut bytes = (key_bytes + self.clustering_bytes(&self.key)) as u64;
        for cell in live.cells() {
            let cell = cell?;
            bytes += cell.value().len() as u64 + self.judged.path_bytes(&cell);
        }
        Ok(bytes)
    }

    /// What the mutation weighs.
    pub(super) fn weigh(&self) -> u64 {
        let Some(weigh) = self.core.options.weigh else { return 0 };
        let rows = self.rows.iter().map(|row| {
            let RowSizes { before, after } = row.sizes;
            weigh(Touched::Row { before, after })
        });
        let deletes_range = |operation: &&Operation| !matches!(operation, Operation::Row(_));
        let range_count = self.mutation.operations.iter().filter(deletes_range).count() as u64;
        let mut weight = self.condition_weight + rows.sum::<u64>();
        if range_count > 0 {
            weight += weigh(Touched::RangeDeletion) * range_count;
        }
        weight
    }

    /// Tells the store by how much the rows of the partition grew.
    pub(super) fn note_sizes(&self) {
        let number = |bytes: Option<u64>| i64::try_from(bytes.unwrap_or(0)).unwrap_or(i64::MAX);
        let deltas = self.rows.iter().map(|row| {
            let RowSizes { before, after } = row.sizes;
            let position = tail(&row.key, self.prefix_length);
            let is_clustered = matches!(keys::split_position(position), Some(Some(_)));
            let rows = i64::from(after.is_some()) - i64::from(before.is_some());
            let size = Size {
                bytes: number(after) - number(before),
                rows: if is_clustered { rows } else { 0 },
            };
            RowDelta { tree_key: tail(&row.key, CACHE_ID_BYTES), size }
        });
        let operations = &self.mutation.operations;
        self.opened.sizes.note(Noted {
            key: &self.mutation.key,
            rows: deltas,
            expires_at_s: operations.iter().filter_map(first_expiry).min(),
            deletes_range: operations.iter().any(|operation| match operation {
                Operation::DeletePartition(_) | Operation::DeleteRange { .. } => true,
                Operation::Row(_) => false,
            }),
            now_s: &|| self.judged.now_s,
        });
    }
}

/// When the first of what an operation writes expires.
fn first_expiry(operation: &Operation) -> Option<u32> {
    let Operation::Row(change) = operation else { return None };
    let of_cell = |cell: &types::CellChange| match &cell.action {
        CellAction::Set { expiry: Some(expiry), .. }
        | CellAction::AddValue { expiry: Some(expiry), .. }
        | CellAction::ListSetAt { expiry: Some(expiry), .. } => Some(expiry.expires_at_s),
        _ => None,
    };
    change.cells.iter().filter_map(of_cell).min()
}
