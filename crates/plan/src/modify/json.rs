//! INSERT JSON: the columns of a document.

use std::collections::BTreeMap;

use schema::Table;
use types::value::from_json;
use types::value::json::json_name;

use crate::error::{PlanError, invalid};
use crate::values::{Value, Values};

/// What a document says of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonColumn {
    /// Nothing.
    Missing,
    /// Null.
    Null,
    /// A value as the protocol encodes it.
    Bytes(Vec<u8>),
}

/// Reads a document: for each column of the table what it says of it.
pub(super) fn parse_document(text: &str, table: &Table) -> Result<Vec<JsonColumn>, PlanError> {
    // As in Cassandra, what follows the document is not looked at.
    type Document = Option<BTreeMap<String, serde_json::Value>>;
    let first = serde_json::Deserializer::from_str(text).into_iter::<Document>().next();
    let parsed = first.unwrap_or_else(|| serde_json::from_str::<Document>(text));
    let document = match parsed {
        Ok(Some(document)) => document,
        Ok(None) => return invalid!("Got null for INSERT JSON values"),
        Err(error) => {
            return invalid!(
                "Could not decode JSON string as a map: {error}. (String was: {text})"
            );
        }
    };
    let mut named = BTreeMap::new();
    for (key, value) in document {
        // A name in double quotes keeps its case, any other is lower-cased.
        named.insert(json_name(&key).into_owned(), value);
    }
    let mut columns = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        let found = if column.is_hidden { None } else { named.remove(&*column.name) };
        columns.push(match found {
            None => JsonColumn::Missing,
            Some(value) => match from_json(&column.cql_type, &value) {
                Ok(Some(bytes)) => JsonColumn::Bytes(bytes),
                Ok(None) => JsonColumn::Null,
                Err(error) => {
                    return invalid!("Error decoding JSON value for {}: {error}", column.name);
                }
            },
        });
    }
    match named.keys().next() {
        Some(unknown) => invalid!("JSON values map contains unrecognized column: {unknown}"),
        None => Ok(columns),
    }
}

/// The values of a document, for a statement that has a marker for each column.
pub(super) struct JsonValues {
    pub(super) columns: Vec<JsonColumn>,
    pub(super) default_unset: bool,
}

impl Values for JsonValues {
    fn count(&self) -> usize {
        self.columns.len()
    }

    fn at(&self, index: usize) -> Option<Value<'_>> {
        Some(match self.columns.get(index)? {
            JsonColumn::Missing if self.default_unset => Value::Unset,
            JsonColumn::Missing | JsonColumn::Null => Value::Null,
            JsonColumn::Bytes(bytes) => Value::Bytes(bytes),
        })
    }
}
