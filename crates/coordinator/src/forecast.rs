//! What the node knows of the rows that a statement would touch: for EXPLAIN. Rows that are named by
//! their whole keys are looked at; of all others the sizes are known that are kept for partitions.

use std::sync::Arc;

use bytes::Bytes;
use replica::{RangeSize, Reach, ReplicaSets};
use schema::{IndexTarget, Table};
use types::{
    CellAction, Check, ColumnId, CorruptRow, Flow, LiveRow, Mutation, Operation, PartitionKey,
    ReadCommand, ReadScope, RowChange, RowPosition, RowSelection, RowSink, Statics,
};
use units::{Charge, rules, table, write_change};

use crate::collect::row_bytes;
use crate::error::ExecuteError;
use crate::view::View;

/// Logical partitions of a table of which all sizes are asked for at once, to see whether all are
/// known.
const TRACKED_ASKED: usize = 512;
/// What a row is reckoned to take in a table that holds none.
const ROW_BYTES: u64 = 1024;
/// What a logical partition is reckoned to hold whose size is not known.
const ROWS_PER_KEY: u64 = 100;

pub(crate) struct RowNow {
    /// Its size, keys and all.
    pub(crate) bytes: u64,
    cells: Vec<(ColumnId, Option<Bytes>, Bytes)>,
}

/// What a mutation would do.
#[derive(Default)]
pub(crate) struct MutationForecast {
    pub(crate) inserted: u64,
    pub(crate) replaced: u64,
    pub(crate) deleted: u64,
    /// Written or deleted although nothing is there.
    pub(crate) absent: u64,
    pub(crate) ranges: u64,
    /// The size of the rows afterwards.
    pub(crate) bytes: u64,
    pub(crate) index_terms: u64,
    /// The condition is known not to hold now.
    pub(crate) is_refused: bool,
    pub(crate) charge: Charge,
}

/// Looks at what is there.
pub(crate) struct Forecaster<'e> {
    pub(crate) view: &'e View,
    pub(crate) replicas: &'e ReplicaSets,
    pub(crate) now_s: u32,
    /// How far it may go for rows.
    pub(crate) reach: Reach<'e>,
}

impl Forecaster<'_> {
    /// How many rows a table holds, and how many bytes they take.
    pub(crate) fn table_size(&self, table: &Table) -> RangeSize {
        let map = self.view.map();
        let whole = map.overlapping(table.id, types::RingRange::FULL).map(|found| found.range);
        let sizes = self.replicas.range_sizes(table.id, whole.collect::<Vec<_>>());
        sizes.iter().fold(RangeSize::default(), |sum, size| RangeSize {
            bytes: sum.bytes.saturating_add(size.bytes),
            rows: sum.rows.saturating_add(size.rows),
        })
    }

    /// What a logical partition holds, as far as it is known: with `whole`, what its table does.
    pub(crate) fn logical_size(
        &self,
        table: &Table,
        key: &PartitionKey,
        whole: RangeSize,
    ) -> RangeSize {
        if let Some(size) = self.replicas.logical_size(table.id, key) {
            return size;
        }
        // A table with few logical partitions knows all of them.
        let tracked = self.replicas.largest_partitions(table.id, TRACKED_ASKED);
        let known: u64 = tracked.iter().map(|it| it.rows).sum();
        let rows = match whole.rows.saturating_sub(known) {
            0 => 0,
            left if table.clustering_count == 0 => left.min(1),
            left => left.min(ROWS_PER_KEY),
        };
        RangeSize { bytes: rows.saturating_mul(average(whole)), rows }
    }

    /// The rows of a logical partition with these clustering keys, as they are now.
    pub(crate) fn rows_now(
        &self,
        table: &Table,
        key: &PartitionKey,
        rows: RowSelection,
        statics: Statics,
    ) -> Result<Vec<RowNow>, ExecuteError> {
        let map = self.view.map();
        let Some(partition) = map.locate(table.id, key.ring()) else { return Ok(Vec::new()) };
        let command = ReadCommand {
            table: table.id,
            scope: ReadScope::Partition(key.clone()),
            rows,
            index: None,
            reversed: false,
            statics,
            hidden: table.hidden_cells(),
            columns: None,
            after: None,
            now_s: self.now_s,
        };
        let mut found = Found { table, rows: Vec::new() };
        self.replicas.read(partition, &command, self.reach, &mut found)?;
        Ok(found.rows)
    }

    /// What a mutation would do to the rows it names, as they are now.
    pub(crate) fn forecast(
        &self,
        table: &Table,
        mutation: &Mutation,
    ) -> Result<MutationForecast, ExecuteError> {
        let mut forecast = MutationForecast::default();
        if let Some(condition) = &mutation.condition {
            for row in &condition.rows {
                let now = self.row_now(table, &mutation.key, &row.position)?;
                let bytes = now.as_ref().map_or(0, |row| row.bytes);
                forecast.charge += table::point_read(bytes).times(rules::STRONG_READ_TIMES);
                forecast.is_refused |= row.checks.iter().any(|check| match check {
                    Check::NotExists => now.is_some(),
                    Check::Exists => now.is_none(),
                    Check::Column { .. } | Check::Refused(_) => false,
                });
            }
        }
        if forecast.is_refused {
            return Ok(forecast);
        }
        for operation in &mutation.operations {
            match operation {
                Operation::DeletePartition(_) | Operation::DeleteRange { .. } => {
                    forecast.ranges += 1;
                    forecast.charge += rules::RANGE_DELETION;
                }
                Operation::Row(change) => {
                    let now = self.row_now(table, &mutation.key, &change.position)?;
                    forecast.add_row(table, &mutation.key, change, now.as_ref());
                }
            }
        }
        Ok(forecast)
    }

    fn row_now(
        &self,
        table: &Table,
        key: &PartitionKey,
        position: &RowPosition,
    ) -> Result<Option<RowNow>, ExecuteError> {
        let rows = match position {
            RowPosition::Static => {
                self.rows_now(table, key, RowSelection::None, Statics::AttachOrAlone)?
            }
            RowPosition::Clustered(clustering) => {
                let points = RowSelection::point(clustering.clone());
                self.rows_now(table, key, points, Statics::Skip)?
            }
        };
        Ok(rows.into_iter().next())
    }
}

/// The average size of a row.
pub(crate) fn average(size: RangeSize) -> u64 {
    size.bytes.checked_div(size.rows).unwrap_or(ROW_BYTES)
}

impl RowNow {
    fn of_column(
        &self,
        column: ColumnId,
    ) -> impl Iterator<Item = &(ColumnId, Option<Bytes>, Bytes)> {
        self.cells.iter().filter(move |(id, _, _)| *id == column)
    }
}

impl MutationForecast {
    fn add_row(
        &mut self,
        table: &Table,
        key: &PartitionKey,
        change: &RowChange,
        now: Option<&RowNow>,
    ) {
        let before = now.map(|row| row.bytes);
        let is_whole_deletion =
            change.deletion.is_some() && change.cells.is_empty() && change.liveness.is_none();
        let writes_nothing = change.liveness.is_none()
            && change.cells.iter().all(|cell| matches!(cell.action, CellAction::Delete { .. }));
        let keys = (key.bytes().len() + change.position.clustering_bytes()) as u64;
        let after = match now {
            _ if is_whole_deletion => None,
            None if writes_nothing => None,
            None => Some(keys.saturating_add(change.cells_bytes() as u64)),
            Some(row) => {
                let gone: u64 = match change.deletion {
                    Some(_) => row.bytes.saturating_sub(keys),
                    None => change.cells.iter().map(|cell| replaced_bytes(row, cell)).sum(),
                };
                Some(row.bytes.saturating_sub(gone).saturating_add(change.cells_bytes() as u64))
            }
        };
        match (before, after) {
            (None, None) => self.absent += 1,
            (None, Some(_)) => self.inserted += 1,
            (Some(_), Some(_)) => self.replaced += 1,
            (Some(_), None) => self.deleted += 1,
        }
        let terms = index_terms(table, change, now, is_whole_deletion);
        self.index_terms += terms;
        self.bytes = self.bytes.saturating_add(after.unwrap_or(0));
        self.charge += write_change(before, after, terms);
    }
}

/// What of a row a change of one column takes the place of.
fn replaced_bytes(row: &RowNow, change: &types::CellChange) -> u64 {
    let size = |(_, path, value): &(ColumnId, Option<Bytes>, Bytes)| {
        (path.as_ref().map_or(0, Bytes::len) + value.len()) as u64
    };
    let cells = row.of_column(change.column);
    match &change.action {
        CellAction::Set { path, .. } | CellAction::Delete { path, .. } => {
            cells.filter(|(_, known, _)| known == path).map(size).sum()
        }
        CellAction::DeleteElements { .. } | CellAction::CounterAdd(_) => cells.map(size).sum(),
        CellAction::AddValue { .. }
        | CellAction::ListSetAt { .. }
        | CellAction::ListDeleteAt { .. }
        | CellAction::ListRemoveValues { .. } => 0,
    }
}

/// About how many entries of secondary indexes come and go.
fn index_terms(
    table: &Table,
    change: &RowChange,
    now: Option<&RowNow>,
    is_whole_deletion: bool,
) -> u64 {
    let of_index = |index: &Arc<schema::Index>| -> u64 {
        let old = |row: &RowNow| row.of_column(index.column).count() as u64;
        if is_whole_deletion {
            return now.map_or(0, old);
        }
        let mut terms = 0;
        for cell in change.cells.iter().filter(|cell| cell.column == index.column) {
            let (path, value) = match &cell.action {
                CellAction::Set { path, value, .. } => (path, Some(value)),
                CellAction::Delete { path, .. } => (path, None),
                CellAction::DeleteElements { .. } => {
                    terms += now.map_or(0, old);
                    continue;
                }
                _ => continue,
            };
            let mut known = now.into_iter().flat_map(|row| row.of_column(index.column));
            let before = known.find(|(_, known, _)| known == path).map(|(_, _, value)| value);
            // The key of a map stays when its value changes.
            let is_same = before == value
                || (index.target == IndexTarget::Keys && before.is_some() && value.is_some());
            if !is_same {
                terms += u64::from(before.is_some()) + u64::from(value.is_some());
            }
        }
        terms
    };
    table.indexes.values().map(of_index).sum()
}

/// Keeps rows with their sizes.
struct Found<'t> {
    table: &'t Table,
    rows: Vec<RowNow>,
}

impl RowSink for Found<'_> {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        let mut cells = Vec::new();
        for part in [row.static_row, row.row].into_iter().flatten() {
            for cell in part.cells() {
                let cell = cell?;
                let path = cell.path.map(Bytes::copy_from_slice);
                cells.push((cell.column, path, Bytes::copy_from_slice(cell.value())));
            }
        }
        self.rows.push(RowNow { bytes: row_bytes(row, self.table)?, cells });
        Ok(Flow::Continue)
    }
}
