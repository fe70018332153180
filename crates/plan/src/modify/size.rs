//! How large a batch may be.
//!
//! The size is what Cassandra counts, so that a batch brings the same warning, and is refused, at
//! just the same place.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cql::ast::BatchKind;
use schema::{Column, Table};
use types::value::decode_ordered;
use types::{
    CellAction, ClusteringRange, ColumnId, CqlType, Mutation, Operation, RowPosition, TableId,
};

use super::prepared::PreparedModification;
use crate::error::{PlanError, invalid};
use crate::expression::BoundValues;
use crate::values::BatchLimits;

/// Time, ttl and expiry of a cell.
const CELL_BYTES: usize = 20;
/// Liveness and deletion of a row. Each partition has a static row, if only an empty one.
const ROW_BYTES: usize = 21;
/// The deletion of a partition.
const PARTITION_BYTES: usize = 8;
/// The deletion of all elements of a column.
const COLUMN_DELETION_BYTES: usize = 12;
/// The deletion of a range.
const RANGE_BYTES: usize = 12;
/// How many ranges there are.
const RANGES_BYTES: usize = 4;
/// Ttl and expiry of a row.
const EXPIRY_BYTES: usize = 12;

/// Refuses batches that are too large, and tells of those that nearly are.
pub(super) fn check(
    kind: BatchKind,
    mutations: &[Mutation],
    items: &[(&PreparedModification, BoundValues<'_>)],
    limits: BatchLimits,
) -> Result<Vec<String>, PlanError> {
    let mut warnings = Vec::new();
    if mutations.len() <= 1 {
        return Ok(warnings);
    }
    let tables: BTreeMap<TableId, &Table> =
        items.iter().map(|(statement, _)| (statement.table.id, statement.table.as_ref())).collect();
    let table_of = |mutation: &Mutation| tables.get(&mutation.table).copied();
    let partitions: BTreeSet<(&str, &[u8])> = mutations
        .iter()
        .filter_map(|mutation| {
            Some((&*table_of(mutation)?.keyspace, mutation.key.bytes().as_ref()))
        })
        .collect();
    if partitions.len() <= 1 {
        return Ok(warnings);
    }
    let bytes: usize = mutations
        .iter()
        .filter_map(|mutation| Some(mutation_bytes(mutation, table_of(mutation)?)))
        .sum();
    if bytes > limits.fail_bytes {
        return invalid!("Batch too large");
    }
    let mut names: Vec<String> =
        tables.values().map(|table| format!("{}.{}", table.keyspace, table.name)).collect();
    names.sort_unstable();
    let names = names.join(", ");
    if bytes > limits.warn_bytes {
        warnings.push(format!(
            "Batch for [{names}] is of size {bytes}, exceeding specified threshold of \
             {} by {}.",
            limits.warn_bytes,
            bytes - limits.warn_bytes
        ));
    }
    let keys: BTreeSet<&[u8]> = partitions.iter().map(|(_, key)| *key).collect();
    if kind != BatchKind::Logged && keys.len() > limits.unlogged_partitions_warn {
        let plural = if tables.len() == 1 { "" } else { "s" };
        warnings.push(format!(
            "Unlogged batch covering {} partitions detected against table{plural} [{names}]. You \
             should use a logged batch for atomicity, or asynchronous writes for performance.",
            keys.len()
        ));
    }
    Ok(warnings)
}

/// What a batch writes into one row: the length of the newest value of each cell.
#[derive(Default)]
struct RowSize<'m> {
    expires: bool,
    cells: BTreeMap<(ColumnId, Option<&'m Bytes>), (i64, usize)>,
}

fn mutation_bytes(mutation: &Mutation, table: &Table) -> usize {
    let mut rows: BTreeMap<&RowPosition, RowSize<'_>> = BTreeMap::new();
    let mut ranges = 0;
    let mut range_count = 0;
    for operation in &mutation.operations {
        match operation {
            Operation::DeletePartition(_) => {}
            Operation::DeleteRange { range, .. } => {
                range_count += 1;
                ranges += RANGE_BYTES + range_bytes(range, table);
            }
            Operation::Row(change) => {
                let row = rows.entry(&change.position).or_default();
                row.expires |= change.liveness.is_some_and(|liveness| liveness.expiry.is_some());
                for cell in &change.cells {
                    let (path, length) = match &cell.action {
                        action @ (CellAction::Set { path, .. }
                        | CellAction::Delete { path, .. }) => (path.as_ref(), action.value_bytes()),
                        action @ (CellAction::ListSetAt { .. } | CellAction::AddValue { .. }) => {
                            (None, action.value_bytes())
                        }
                        // What a counter changes by is no value of a row.
                        CellAction::CounterAdd(_) => (None, 0),
                        CellAction::DeleteElements { .. }
                        | CellAction::ListDeleteAt { .. }
                        | CellAction::ListRemoveValues { .. } => continue,
                    };
                    let size = row.cells.entry((cell.column, path)).or_default();
                    *size = (*size).max((cell.timestamp_us, length));
                }
            }
        }
    }
    rows.entry(&RowPosition::Static).or_default();
    let rows: usize = rows.iter().map(|(position, row)| row_bytes(position, row, table)).sum();
    PARTITION_BYTES + rows + if range_count > 0 { RANGES_BYTES + ranges } else { 0 }
}

fn row_bytes(position: &RowPosition, row: &RowSize<'_>, table: &Table) -> usize {
    let mut bytes = ROW_BYTES + if row.expires { EXPIRY_BYTES } else { 0 };
    if let RowPosition::Clustered(key) = position {
        bytes += clustering_bytes(key, table);
    }
    let mut previous: Option<&Column> = None;
    for ((id, path), (_, length)) in &row.cells {
        // Cells come by column, so that a collection looks for its own once.
        let again = previous.filter(|column| column.id == *id);
        let Some(column) = again.or_else(|| table.column_by_id(*id)) else { continue };
        bytes += CELL_BYTES + length + path.map_or(0, |path| path_bytes(path, &column.cql_type));
        if column.cql_type.is_multi_cell() && again.is_none() {
            bytes += COLUMN_DELETION_BYTES;
        }
        previous = Some(column);
    }
    bytes
}

pub(super) fn path_bytes(path: &[u8], ty: &CqlType) -> usize {
    let element = match ty {
        CqlType::List { .. } => &CqlType::TimeUuid,
        CqlType::Set { element, .. } => element,
        CqlType::Map { key, .. } => key,
        _ => return path.len(),
    };
    value_bytes(&mut &*path, element, false)
}

fn clustering_bytes(key: &[u8], table: &Table) -> usize {
    let mut rest = key;
    let mut bytes = 0;
    for column in table.clustering() {
        if rest.is_empty() {
            break;
        }
        bytes += value_bytes(&mut rest, &column.cql_type, column.is_descending());
    }
    bytes
}

/// The bounds of a range without the marks that the tree's keys have.
fn range_bytes(range: &ClusteringRange, table: &Table) -> usize {
    let end = range.end.as_ref().map_or(0, |end| clustering_bytes(end, table));
    clustering_bytes(&range.start, table) + end
}

/// The length of the next value; nothing is left behind one that cannot be read.
fn value_bytes(encoded: &mut &[u8], ty: &CqlType, descending: bool) -> usize {
    let mut value = Vec::new();
    if decode_ordered(ty, descending, encoded, &mut value).is_err() {
        *encoded = &[];
    }
    value.len()
}
