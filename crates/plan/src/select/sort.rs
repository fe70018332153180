//! ORDER BY: the direction of the read, and the order over several logical partitions.

use std::sync::Arc;

use cql::ast::Ordering;
use schema::{ColumnKind, Table};
use types::value::encode_ordered;

use crate::error::{PlanError, invalid};
use crate::restriction::{Restrictions, unknown_column};
use crate::row::RowAccess;

/// The order of rows from several logical partitions, by clustering columns.
#[derive(Debug)]
pub struct Sort {
    table: Arc<Table>,
    columns: Vec<usize>,
    reversed: bool,
}

/// Before every value: null sorts first.
const NULL: u8 = 0x00;

impl Sort {
    /// Appends bytes whose order is the order of the result.
    pub fn key(&self, row: &dyn RowAccess, out: &mut Vec<u8>) {
        let start = out.len();
        for index in &self.columns {
            let Some(column) = self.table.columns.get(*index) else { continue };
            match row.value(*index) {
                Some(value) => {
                    encode_ordered(&column.cql_type, &value, column.is_descending(), out);
                }
                None => out.push(NULL),
            }
        }
        if self.reversed {
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }
}

/// What ORDER BY asks for.
pub(super) struct Order {
    /// The read goes from the last row to the first.
    pub(super) reversed: bool,
    /// Rows of several partitions must be sorted afterwards.
    pub(super) sort: Option<Sort>,
}

/// The columns of ORDER BY; an unknown one is refused before anything else is looked at.
pub(super) fn ordering_columns(
    orderings: &[Ordering],
    table: &Table,
) -> Result<Vec<(usize, bool)>, PlanError> {
    let mut columns: Vec<(usize, bool)> = Vec::with_capacity(orderings.len());
    for ordering in orderings {
        let Some((index, _)) = table.column(&ordering.column) else {
            return Err(unknown_column(&ordering.column, table));
        };
        match columns.iter_mut().find(|(known, _)| *known == index) {
            Some(known) => known.1 = ordering.descending,
            None => columns.push((index, ordering.descending)),
        }
    }
    Ok(columns)
}

/// Checks an ORDER BY.
pub(super) fn prepare(
    columns: &[(usize, bool)],
    restrictions: &Restrictions,
    table: &Arc<Table>,
) -> Result<Order, PlanError> {
    if columns.is_empty() {
        return Ok(Order { reversed: false, sort: None });
    }
    if restrictions.uses_index {
        return invalid!("ORDER BY with 2ndary indexes is not supported, except for ANN queries.");
    }
    if restrictions.is_key_range {
        return invalid!(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
        );
    }
    let reversed = direction(columns, restrictions, table)?;
    let sort = restrictions.key_is_in().then(|| Sort {
        table: Arc::clone(table),
        columns: columns.iter().map(|(index, _)| *index).collect(),
        reversed,
    });
    Ok(Order { reversed, sort })
}

/// Whether the order is the table's order backwards.
fn direction(
    columns: &[(usize, bool)],
    restrictions: &Restrictions,
    table: &Table,
) -> Result<bool, PlanError> {
    let mut next = table.partition_key_count;
    let mut reversed = None;
    for (index, descending) in columns {
        let Some(column) = table.columns.get(*index) else { continue };
        if !matches!(column.kind, ColumnKind::Clustering { .. }) {
            return invalid!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, \
                 got {}",
                column.name
            );
        }
        while next != *index {
            // A column behind the one that is due was skipped over, and can never come.
            if next > *index || !restrictions.is_equal_on(next) {
                return invalid!(
                    "Order by currently only supports the ordering of columns following their \
                     declared order in the PRIMARY KEY"
                );
            }
            next += 1;
        }
        next += 1;
        let backwards = *descending != column.is_descending();
        if *reversed.get_or_insert(backwards) != backwards {
            return invalid!("Unsupported order by relation");
        }
    }
    Ok(reversed.unwrap_or(false))
}
