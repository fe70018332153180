//! Limits of rows, keys and logical partitions, before a write is logged.

use std::sync::Arc;

use replica::{PartitionFilling, PartitionFull, ReplicaSets};
use schema::{Schema, Table};
use types::value::to_cql_text;
use types::{Mutation, Operation, PartitionKey, TableId};

use crate::error::ExecuteError;
use crate::view::View;

/// What a row and a partition key may take, where that is limited.
pub(crate) struct SizeLimits {
    pub(crate) row_bytes_max: Option<u64>,
    pub(crate) partition_key_bytes_max: Option<u64>,
}

impl SizeLimits {
    /// Refuses keys and rows that are too large.
    pub(crate) fn check(&self, mutations: &[Mutation]) -> Result<(), ExecuteError> {
        for mutation in mutations {
            self.check_key(mutation)?;
            self.check_rows(mutation)?;
        }
        Ok(())
    }

    fn check_key(&self, mutation: &Mutation) -> Result<(), ExecuteError> {
        let Some(bytes_max) = self.partition_key_bytes_max else { return Ok(()) };
        let bytes = mutation.key.bytes().len();
        if bytes as u64 <= bytes_max {
            return Ok(());
        }
        Err(ExecuteError::Invalid(format!(
            "Partition key of {bytes} bytes is too long, the maximum is {bytes_max}"
        )))
    }

    fn check_rows(&self, mutation: &Mutation) -> Result<(), ExecuteError> {
        let Some(bytes_max) = self.row_bytes_max else { return Ok(()) };
        for operation in &mutation.operations {
            let Operation::Row(change) = operation else { continue };
            let bytes = change.row_bytes(&mutation.key);
            if bytes as u64 > bytes_max {
                return Err(ExecuteError::Invalid(format!(
                    "Row of {bytes} bytes is too large, the maximum is {bytes_max}"
                )));
            }
        }
        Ok(())
    }
}

/// Refuses what a logical partition has no room for; returns what the client is warned of.
pub(crate) fn admit(
    replicas: &ReplicaSets,
    view: &View,
    mutations: &[Mutation],
) -> Result<Vec<String>, ExecuteError> {
    match replicas.admit(mutations) {
        Ok(filling) if filling.is_empty() => Ok(Vec::new()),
        Ok(filling) => {
            let schema = view.schema();
            Ok(filling.iter().map(|it| warning(&schema, it)).collect())
        }
        Err(full) => Err(ExecuteError::Invalid(refusal(&view.schema(), &full))),
    }
}

fn refusal(schema: &Schema, full: &PartitionFull) -> String {
    let PartitionFull { table, key, bytes, added_bytes, bytes_max } = full;
    let (name, key) = key_text(schema, *table, key);
    format!(
        "Logical partition {key} of {name} holds {bytes} bytes and may hold {bytes_max}: a \
         write of {added_bytes} bytes is refused. Reads and deletes go on; delete rows of it, or \
         choose a partition key with more values"
    )
}

fn warning(schema: &Schema, filling: &PartitionFilling) -> String {
    let PartitionFilling { table, key, bytes, bytes_max, level } = filling;
    let (name, key) = key_text(schema, *table, key);
    let text = format!(
        "Logical partition {key} of {name} passed {level} % of its limit: it holds {bytes} \
         bytes and may hold {bytes_max}"
    );
    tracing::warn!("{text}");
    text
}

/// The names of a table and of a key of it, for a person.
fn key_text(schema: &Schema, table: TableId, key: &PartitionKey) -> (String, String) {
    match schema.table_by_id(table) {
        Some(table) => (format!("{}.{}", table.keyspace, table.name), key_literals(table, key)),
        None => (table.to_string(), format!("0x{}", types::value::format::to_hex(key.bytes()))),
    }
}

/// A key as a statement would have it: one literal, or several in parentheses.
pub(crate) fn key_literals(table: &Arc<Table>, key: &PartitionKey) -> String {
    let columns = table.partition_key();
    let values: Vec<String> = columns
        .iter()
        .zip(PartitionKey::components(key.bytes(), columns.len()))
        .map(|(column, value)| to_cql_text(&column.cql_type, value))
        .collect();
    match values.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", values.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, settings};
    use crate::world::Settings;

    #[test]
    fn all_that_a_row_is_made_of_counts() {
        let node = Node::new(Settings { row_bytes_max: Some(40), ..settings() });
        node.run_all(&[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (p int, c text, v text, m map<text, int>, PRIMARY KEY (p, c))",
            "INSERT INTO k.t (p, c, v) VALUES (1, 'c', 'twenty bytes are here')",
        ]);
        let long = "x".repeat(40);
        for refused in [
            format!("INSERT INTO k.t (p, c, v) VALUES (1, 'c', '{long}')"),
            format!("INSERT INTO k.t (p, c) VALUES (1, '{long}')"),
            format!("UPDATE k.t SET m = {{'{long}': 1}} WHERE p = 1 AND c = 'c'"),
            format!("UPDATE k.t SET v += '{long}' WHERE p = 1 AND c = 'c' IF v != ''"),
        ] {
            let error = node.run(&refused).unwrap_err().to_string();
            assert!(error.ends_with("is too large, the maximum is 40"), "{refused}: {error}");
        }
        node.run_all(&["DELETE FROM k.t WHERE p = 1 AND c = 'c'"]);
    }

    #[test]
    fn a_long_partition_key_is_refused() {
        let node = Node::new(Settings { partition_key_bytes_max: Some(4), ..settings() });
        node.run_all(&[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (p text PRIMARY KEY)",
            "INSERT INTO k.t (p) VALUES ('four')",
        ]);
        let error = node.run("INSERT INTO k.t (p) VALUES ('fives')").unwrap_err().to_string();
        assert_eq!(error, "Partition key of 5 bytes is too long, the maximum is 4");
    }
}
