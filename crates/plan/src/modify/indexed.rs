//! Values that an index cannot hold.

use schema::{Column, Index, IndexTarget, Table};
use types::{CellAction, CellChange};

use crate::error::{PlanError, invalid};

/// From this length on a value cannot be indexed.
const INDEXED_BYTES_MAX: usize = 65_535;

/// Refuses cells whose column has an index, and whose value is too long for it.
pub(super) fn check_cells(table: &Table, cells: &[CellChange]) -> Result<(), PlanError> {
    if table.indexes.is_empty() {
        return Ok(());
    }
    for cell in cells {
        let CellAction::Set { path, value, .. } = &cell.action else { continue };
        let path_length = path.as_ref().map_or(0, |path| path.len());
        for index in table.indexes.values().filter(|index| index.column == cell.column) {
            let length = match index.target {
                IndexTarget::Keys => path_length,
                IndexTarget::Entries => path_length + value.len(),
                // The elements of a set are its paths.
                IndexTarget::Value | IndexTarget::Values | IndexTarget::Full => {
                    if value.is_empty() { path_length } else { value.len() }
                }
            };
            if let Some(column) = table.column_by_id(cell.column) {
                check_length(length, index, column, table)?;
            }
        }
    }
    Ok(())
}

fn check_length(
    length: usize,
    index: &Index,
    column: &Column,
    table: &Table,
) -> Result<(), PlanError> {
    if length < INDEXED_BYTES_MAX {
        return Ok(());
    }
    invalid!(
        "Cannot index value of size {length} for index {} on {}.{}({}) (maximum allowed \
         size={INDEXED_BYTES_MAX})",
        index.name,
        table.keyspace,
        table.name,
        column.name
    )
}
