//! `TRUNCATE`: which table it means, and whether it may.

use std::sync::Arc;

use cql::ast::Truncate;

use crate::error::{SchemaError, invalid};
use crate::model::{Schema, Table};
use cql::quote_if_needed;

/// The table that a `TRUNCATE` empties.
pub fn truncated_table(
    schema: &Schema,
    statement: &Truncate,
    session_keyspace: Option<&str>,
) -> Result<Arc<Table>, SchemaError> {
    let name = &statement.table;
    let Some(keyspace) = name.keyspace.as_deref().or(session_keyspace) else {
        return Err(invalid!(
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
        ));
    };
    let Some(found) = schema.keyspace(keyspace) else {
        return Err(invalid!("keyspace {keyspace} does not exist"));
    };
    let Some(table) = found.tables.get(name.name.as_str()) else {
        return Err(invalid!("table {} does not exist", name.name));
    };
    if table.is_virtual {
        return Err(invalid!(
            "Truncation is not supported by table {}.{}",
            quote_if_needed(&table.keyspace),
            quote_if_needed(&table.name)
        ));
    }
    Ok(Arc::clone(table))
}
