//! Tells what a statement writes to who watches.

use schema::Table;
use types::{CellAction, CellChange, CqlType};

use super::operation::{Action, Operation};
use super::size::path_bytes;
use crate::values::{WriteWatch, Written};

/// Tells of the cells that one operation wrote.
#[cold]
pub(super) fn tell(
    watch: &dyn WriteWatch,
    table: &Table,
    operation: &Operation,
    cells: &[CellChange],
) {
    let Some(column) = table.columns.get(operation.column) else { return };
    let size = |cell: &CellChange| match &cell.action {
        CellAction::Set { path, value, .. } => {
            let named = path.as_ref().map_or(0, |path| path_bytes(path, &operation.ty));
            Some((named, value.len()))
        }
        action @ CellAction::ListSetAt { .. } => Some((0, action.value_bytes())),
        _ => None,
    };
    let sizes: Vec<(usize, usize)> = cells.iter().filter_map(size).collect();
    if !sizes.is_empty() {
        let items = item_count(operation, cells, sizes.len());
        watch.on_written(&Written { column: &column.name, items, sizes: &sizes });
    }
}

/// As Cassandra counts: what is put in front of a list is not, and neither is a single element.
fn item_count(operation: &Operation, cells: &[CellChange], written: usize) -> Option<usize> {
    let is_counted =
        matches!(operation.action, Action::Set(_) | Action::Append(_) | Action::Add(_));
    let is_collection =
        matches!(operation.ty, CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. });
    if !is_counted || !is_collection {
        return None;
    }
    if operation.ty.is_multi_cell() {
        return Some(written);
    }
    // A frozen one is a single value, which begins with the number of its elements.
    let value = cells.iter().find_map(|cell| match &cell.action {
        CellAction::Set { value, .. } => value.first_chunk::<4>(),
        _ => None,
    })?;
    usize::try_from(i32::from_be_bytes(*value)).ok()
}
