//! How large a batch may be.

use cql::ast::BatchKind;
use types::{CellAction, CellChange, Mutation, Operation, RowChange, RowPosition};

use super::prepared::PreparedModification;
use crate::error::{PlanError, invalid};
use crate::expression::BoundValues;

/// From this size on a batch over several logical partitions brings a warning.
const BATCH_BYTES_WARN: usize = 5 * 1024;

/// A larger batch over several logical partitions is refused.
const BATCH_BYTES_MAX: usize = 50 * 1024;

/// From how many logical partitions an unlogged batch brings a warning.
const UNLOGGED_PARTITIONS_WARN: usize = 10;

/// What Cassandra counts for the time, the ttl and the expiry of a cell.
const CELL_ENVELOPE_BYTES: usize = 20;

/// Refuses batches that are too large, and tells of those that nearly are.
pub(super) fn check(
    kind: BatchKind,
    mutations: &[Mutation],
    items: &[(&PreparedModification, BoundValues<'_>)],
) -> Result<Vec<String>, PlanError> {
    let mut warnings = Vec::new();
    if mutations.len() <= 1 {
        return Ok(warnings);
    }
    let tables = || {
        let mut tables: Vec<String> = items
            .iter()
            .map(|(statement, _)| format!("{}.{}", statement.table.keyspace, statement.table.name))
            .collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    };
    let bytes: usize = mutations.iter().map(mutation_bytes).sum();
    if bytes > BATCH_BYTES_MAX {
        return invalid!("Batch too large");
    }
    if bytes > BATCH_BYTES_WARN {
        warnings.push(format!(
            "Batch for [{}] is of size {bytes}, exceeding specified threshold of \
             {BATCH_BYTES_WARN} by {}.",
            tables().join(", "),
            bytes - BATCH_BYTES_WARN
        ));
    }
    if kind != BatchKind::Logged && mutations.len() > UNLOGGED_PARTITIONS_WARN {
        let tables = tables();
        let plural = if tables.len() == 1 { "" } else { "s" };
        warnings.push(format!(
            "Unlogged batch covering {} partitions detected against table{plural} [{}]. You \
             should use a logged batch for atomicity, or asynchronous writes for performance.",
            mutations.len(),
            tables.join(", ")
        ));
    }
    Ok(warnings)
}

fn mutation_bytes(mutation: &Mutation) -> usize {
    mutation
        .operations
        .iter()
        .map(|operation| match operation {
            Operation::DeletePartition(_) => CELL_ENVELOPE_BYTES,
            Operation::DeleteRange { range, .. } => {
                let end = range.end.as_ref().map_or(0, |end| end.len());
                CELL_ENVELOPE_BYTES + range.start.len() + end
            }
            Operation::Row(row) => row_bytes(row),
        })
        .sum()
}

fn row_bytes(row: &RowChange) -> usize {
    let clustering = match &row.position {
        RowPosition::Static => 0,
        RowPosition::Clustered(key) => key.len(),
    };
    let cells: usize = row.cells.iter().map(cell_bytes).sum();
    clustering + CELL_ENVELOPE_BYTES + cells
}

fn cell_bytes(cell: &CellChange) -> usize {
    let content = match &cell.action {
        CellAction::Set { path, value, .. } => {
            path.as_ref().map_or(0, |path| path.len()) + value.len()
        }
        CellAction::Delete { path, .. } => path.as_ref().map_or(0, |path| path.len()),
        CellAction::ListSetAt { value, .. } => value.len(),
        CellAction::ListRemoveValues { values, .. } => values.iter().map(|value| value.len()).sum(),
        CellAction::CounterAdd(_)
        | CellAction::DeleteElements { .. }
        | CellAction::ListDeleteAt { .. } => 0,
    };
    CELL_ENVELOPE_BYTES + content
}
