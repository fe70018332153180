//! What is asked of the node: the columns of a table, its rows, and the writes of an import.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{ColumnSpec, PreparedResponse};
use types::{CqlType, UserType};

use super::client::{Bound, Client, text_value};
use super::lines::RowValues;

/// What a column is in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

pub(super) struct Column {
    pub(super) name: String,
    pub(super) cql_type: CqlType,
    kind: Kind,
}

/// A table and its columns.
pub(super) struct TableShape {
    keyspace: String,
    table: String,
    pub(super) columns: Vec<Column>,
}

/// A name as CQL takes it whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The protocol tells vectors, and in version 4 durations, by the names of their classes only: as the types that they are.
pub(super) fn with_types(mut columns: Vec<ColumnSpec>) -> Vec<ColumnSpec> {
    for column in &mut columns {
        column.cql_type = known_type(&column.cql_type);
    }
    columns
}

fn known_type(told: &CqlType) -> CqlType {
    let inner = |ty: &Arc<CqlType>| Arc::new(known_type(ty));
    match told {
        // A class that is none of ours stays what it is: bytes.
        CqlType::Custom(class) => schema::parse_class(class).unwrap_or_else(|_| told.clone()),
        CqlType::List { element, frozen } => {
            CqlType::List { element: inner(element), frozen: *frozen }
        }
        CqlType::Set { element, frozen } => {
            CqlType::Set { element: inner(element), frozen: *frozen }
        }
        CqlType::Map { key, value, frozen } => {
            CqlType::Map { key: inner(key), value: inner(value), frozen: *frozen }
        }
        CqlType::Tuple(parts) => CqlType::Tuple(parts.iter().map(known_type).collect()),
        CqlType::User { definition, frozen } => {
            let mut definition = UserType::clone(definition);
            for (_, field) in &mut definition.fields {
                *field = known_type(field);
            }
            CqlType::User { definition: Arc::new(definition), frozen: *frozen }
        }
        other => other.clone(),
    }
}

impl TableShape {
    pub(super) fn read(
        client: &mut Client,
        keyspace: &str,
        table: &str,
    ) -> Result<TableShape, String> {
        let text = "SELECT column_name, kind FROM system_schema.columns \
                    WHERE keyspace_name = ? AND table_name = ?";
        let found = client.query(text, &[text_value(keyspace), text_value(table)])?;
        let mut kinds = BTreeMap::new();
        for row in found.rows() {
            let word = |index: usize| {
                let bytes = row.get(index).copied().flatten().unwrap_or_default();
                String::from_utf8_lossy(bytes).into_owned()
            };
            let kind = match word(1).as_str() {
                "partition_key" => Kind::PartitionKey,
                "clustering" => Kind::Clustering,
                "static" => Kind::Static,
                _ => Kind::Regular,
            };
            kinds.insert(word(0), kind);
        }
        let mut shape = TableShape {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            columns: Vec::new(),
        };
        if kinds.is_empty() {
            return Err(format!("there is no table {}", shape.display_name()));
        }
        let prepared = client.prepare(&shape.select())?;
        for column in with_types(prepared.result.columns.unwrap_or_default()) {
            let kind = kinds.get(column.name.as_ref()).copied().unwrap_or(Kind::Regular);
            let name = column.name.to_string();
            shape.columns.push(Column { name, cql_type: column.cql_type, kind });
        }
        Ok(shape)
    }

    pub(super) fn display_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.table)
    }

    fn name(&self) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&self.table))
    }

    pub(super) fn select(&self) -> String {
        format!("SELECT * FROM {}", self.name())
    }

    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn has_counters(&self) -> bool {
        self.columns.iter().any(|column| column.cql_type == CqlType::Counter)
    }

    /// The statement that writes these columns of a row.
    fn write(&self, columns: &[&Column]) -> String {
        let is_key =
            |column: &&&Column| matches!(column.kind, Kind::PartitionKey | Kind::Clustering);
        let join = |parts: Vec<String>, by: &str| parts.join(by);
        if self.has_counters() {
            let set = columns.iter().filter(|column| !is_key(column)).map(|column| {
                let name = quoted(&column.name);
                format!("{name} = {name} + ?")
            });
            let keys = columns.iter().filter(is_key);
            let keys = keys.map(|column| format!("{} = ?", quoted(&column.name)));
            let (set, keys) = (join(set.collect(), ", "), join(keys.collect(), " AND "));
            return format!("UPDATE {} SET {set} WHERE {keys}", self.name());
        }
        let names = join(columns.iter().map(|column| quoted(&column.name)).collect(), ", ");
        let marks = vec!["?"; columns.len()].join(", ");
        format!("INSERT INTO {} ({names}) VALUES ({marks})", self.name())
    }
}

/// The prepared writes, by which columns they set.
pub(super) struct Writers<'s> {
    shape: &'s TableShape,
    prepared: BTreeMap<Vec<usize>, PreparedResponse>,
}

impl<'s> Writers<'s> {
    pub(super) fn new(shape: &'s TableShape) -> Writers<'s> {
        Writers { shape, prepared: BTreeMap::new() }
    }

    /// The write of a row. A null is not written: the row may have had the column before.
    pub(super) fn bind(
        &mut self,
        client: &mut Client,
        line_number: u64,
        row: &RowValues,
    ) -> Result<Bound, String> {
        let columns = &self.shape.columns;
        let is_partition_only = !row
            .iter()
            .zip(columns)
            .any(|(value, column)| column.kind == Kind::Clustering && value.is_some());
        let mut present = Vec::new();
        // A counter's UPDATE takes what it sets before its keys.
        let order = |column: &Column| match column.kind {
            Kind::PartitionKey | Kind::Clustering => usize::from(self.shape.has_counters()),
            Kind::Static | Kind::Regular => 0,
        };
        for pass in 0..2 {
            for (index, column) in columns.iter().enumerate().filter(|(_, c)| order(c) == pass) {
                let is_there = row.get(index).is_some_and(Option::is_some);
                match column.kind {
                    Kind::PartitionKey if !is_there => {
                        return Err(format!(
                            "line {line_number}: no value for the key column {:?}",
                            column.name
                        ));
                    }
                    // A partition that has only static columns.
                    Kind::Clustering if !is_there && is_partition_only => {}
                    Kind::Clustering if !is_there => {
                        return Err(format!(
                            "line {line_number}: no value for the key column {:?}",
                            column.name
                        ));
                    }
                    _ if is_there => present.push(index),
                    _ => {}
                }
            }
        }
        if !self.prepared.contains_key(&present) {
            let chosen: Vec<&Column> =
                present.iter().filter_map(|index| columns.get(*index)).collect();
            let prepared = client.prepare(&self.shape.write(&chosen))?;
            self.prepared.insert(present.clone(), prepared);
        }
        let id =
            self.prepared.get(&present).map(|prepared| prepared.id.clone()).unwrap_or_default();
        let values =
            present.iter().map(|index| row.get(*index).cloned().flatten().unwrap_or_default());
        Ok(Bound { id, line_number, values: values.collect() })
    }
}
