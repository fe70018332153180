//! `system_virtual_schema`: the keyspaces that are computed, as rows.

use std::sync::Arc;

use super::rows::NamedRow;
use super::schema_rows::columns;
use super::values::text;
use crate::model::{Keyspace, KeyspaceKind, Schema};

/// The rows of one table of `system_virtual_schema`.
pub(super) fn rows(table: &str, schema: &Schema) -> Vec<NamedRow> {
    let keyspaces: Vec<&Arc<Keyspace>> = schema
        .keyspaces
        .values()
        .filter(|keyspace| keyspace.kind == KeyspaceKind::Virtual)
        .collect();
    let tables = keyspaces.iter().flat_map(|keyspace| keyspace.tables.values());
    match table {
        "keyspaces" => {
            keyspaces.iter().map(|keyspace| vec![("keyspace_name", text(&keyspace.name))]).collect()
        }
        "tables" => tables
            .map(|table| {
                vec![
                    ("keyspace_name", text(&table.keyspace)),
                    ("table_name", text(&table.name)),
                    ("comment", text(&table.options.comment)),
                ]
            })
            .collect(),
        "columns" => tables.flat_map(|table| columns(table)).collect(),
        _ => Vec::new(),
    }
}
