//! The names that a node knows, for completion.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Client, ClientError};
use crate::session::text_at;

/// Keyspaces, and what is in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) keyspaces: BTreeMap<String, Keyspace>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    /// Tables and views with their columns.
    pub(crate) tables: BTreeMap<String, BTreeSet<String>>,
    pub(crate) types: BTreeSet<String>,
    pub(crate) indexes: BTreeSet<String>,
}

impl Names {
    /// Asks the node.
    pub(crate) fn read(client: &mut Client) -> Result<Names, ClientError> {
        let mut names = Names::default();
        let rows = client.query("SELECT keyspace_name FROM system_schema.keyspaces", &[])?;
        for row in rows.rows() {
            names.keyspaces.entry(text_at(&row, 0)).or_default();
        }
        let text = "SELECT keyspace_name, table_name, column_name FROM system_schema.columns";
        for row in client.query(text, &[])?.rows() {
            let keyspace = names.keyspaces.entry(text_at(&row, 0)).or_default();
            keyspace.tables.entry(text_at(&row, 1)).or_default().insert(text_at(&row, 2));
        }
        let text = "SELECT keyspace_name, type_name FROM system_schema.types";
        for row in client.query(text, &[])?.rows() {
            let keyspace = names.keyspaces.entry(text_at(&row, 0)).or_default();
            keyspace.types.insert(text_at(&row, 1));
        }
        let text = "SELECT keyspace_name, index_name FROM system_schema.indexes";
        for row in client.query(text, &[])?.rows() {
            let keyspace = names.keyspaces.entry(text_at(&row, 0)).or_default();
            keyspace.indexes.insert(text_at(&row, 1));
        }
        Ok(names)
    }
}
