//! A table that is read or written as a whole: its columns, the statement that reads its rows, and those that write them.

use std::collections::BTreeMap;

use protocol::PreparedResponse;
use types::CqlType;

use crate::class_name::known_class;
use crate::client::{Bound, Client, ClientError, text_value};

/// The values of a row, in the order of the table's columns; what is not given is `None`.
pub type RowValues = Vec<Option<Vec<u8>>>;

/// What a column is in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

/// A column of a table.
pub struct Column {
    pub name: String,
    pub cql_type: CqlType,
    kind: Kind,
}

/// A table and its columns.
pub struct TableShape {
    keyspace: String,
    table: String,
    pub columns: Vec<Column>,
}

/// A name as CQL takes it whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl TableShape {
    /// The table as the node knows it; `None` if it does not.
    pub fn read(
        client: &mut Client,
        keyspace: &str,
        table: &str,
    ) -> Result<Option<TableShape>, ClientError> {
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
            return Ok(None);
        }
        let prepared = client.prepare(&shape.select(&[]))?;
        for column in prepared.result.columns.unwrap_or_default() {
            let kind = kinds.get(column.name.as_ref()).copied().unwrap_or(Kind::Regular);
            let name = column.name.to_string();
            let cql_type = known_class(&column.cql_type).unwrap_or(column.cql_type);
            shape.columns.push(Column { name, cql_type, kind });
        }
        Ok(Some(shape))
    }

    /// `KEYSPACE.TABLE`, for people.
    pub fn display_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.table)
    }

    fn name(&self) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&self.table))
    }

    /// The statement that reads these columns of all rows; all columns if none are named.
    pub fn select(&self, columns: &[String]) -> String {
        let names: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        let names = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
        format!("SELECT {names} FROM {}", self.name())
    }

    /// Which of its columns has that name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn has_counters(&self) -> bool {
        self.columns.iter().any(|column| column.cql_type == CqlType::Counter)
    }

    /// The statement that writes these columns of a row.
    fn write(&self, columns: &[&Column], ttl_s: Option<u32>) -> String {
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
        let ttl = ttl_s.map(|ttl_s| format!(" USING TTL {ttl_s}")).unwrap_or_default();
        format!("INSERT INTO {} ({names}) VALUES ({marks}){ttl}", self.name())
    }
}

/// The prepared writes, by which columns they set.
pub struct Writers<'s> {
    shape: &'s TableShape,
    /// How long the rows live; as long as the table says without one.
    ttl_s: Option<u32>,
    prepared: BTreeMap<Vec<usize>, PreparedResponse>,
}

/// Why a row cannot be written.
pub enum BindError {
    /// A column of the key has no value.
    NoKey { line_number: u64, column: String },
    /// The node did not prepare its write.
    Client(ClientError),
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BindError::NoKey { line_number, column } => {
                write!(f, "line {line_number}: no value for the key column {column:?}")
            }
            BindError::Client(error) => error.fmt(f),
        }
    }
}

impl<'s> Writers<'s> {
    /// Of rows that live so long.
    pub fn new(shape: &'s TableShape, ttl_s: Option<u32>) -> Writers<'s> {
        Writers { shape, ttl_s, prepared: BTreeMap::new() }
    }

    /// The write of a row. A null is not written: the row may have had the column before.
    pub fn bind(
        &mut self,
        client: &mut Client,
        line_number: u64,
        row: &RowValues,
    ) -> Result<Bound, BindError> {
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
                        let column = column.name.clone();
                        return Err(BindError::NoKey { line_number, column });
                    }
                    // A partition that has only static columns.
                    Kind::Clustering if !is_there && is_partition_only => {}
                    Kind::Clustering if !is_there => {
                        let column = column.name.clone();
                        return Err(BindError::NoKey { line_number, column });
                    }
                    _ if is_there => present.push(index),
                    _ => {}
                }
            }
        }
        if !self.prepared.contains_key(&present) {
            let chosen: Vec<&Column> =
                present.iter().filter_map(|index| columns.get(*index)).collect();
            let prepared = client.prepare(&self.shape.write(&chosen, self.ttl_s));
            let prepared = prepared.map_err(BindError::Client)?;
            self.prepared.insert(present.clone(), prepared);
        }
        let prepared = self.prepared.get(&present);
        let id = prepared.map(|prepared| prepared.id.clone()).unwrap_or_default();
        let result_metadata_id = prepared.and_then(|prepared| prepared.result_metadata_id.clone());
        let values =
            present.iter().map(|index| row.get(*index).cloned().flatten().unwrap_or_default());
        Ok(Bound { id, result_metadata_id, line_number, values: values.collect() })
    }
}
