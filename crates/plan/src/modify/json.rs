//! INSERT JSON: the columns of a document.

use std::collections::BTreeMap;

use schema::Table;
use types::value::from_json;
use types::value::json::{decode_json_as_java, json_name};
use types::value::json_reader;

use crate::error::{PlanError, invalid};
use crate::values::{Value, Values};

/// What a document says of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonColumn {
    /// Nothing.
    Missing,
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
        // Jackson reads some texts that are no JSON.
        Err(_) => match decode_json_as_java(text) {
            Ok(serde_json::Value::Object(document)) => document.into_iter().collect(),
            Ok(other) => {
                let error = json_reader::mismatch(text, &no_map_reason(&other));
                return Err(no_map(&format!("{}: {}", error.class, error.message), text));
            }
            Err(error) => return Err(no_map(&error, text)),
        },
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

fn no_map(reason: &str, text: &str) -> PlanError {
    PlanError::Invalid(
        format!("Could not decode JSON string as a map: {reason}. (String was: {text})").into(),
    )
}

/// What Jackson says of a value that is no map.
fn no_map_reason(value: &serde_json::Value) -> String {
    const CONSTRUCT: &str = "Cannot construct instance of `java.util.LinkedHashMap` (although at least one Creator exists): no";
    const DESERIALIZE: &str = "Cannot deserialize value of type `java.util.LinkedHashMap<java.lang.Object,java.lang.Object>` from";
    match value {
        serde_json::Value::String(value) => format!(
            "{CONSTRUCT} String-argument constructor/factory method to deserialize from String value ('{value}')"
        ),
        serde_json::Value::Number(number) if number.is_i64() || number.is_u64() => {
            format!("{DESERIALIZE} Integer value (token `JsonToken.VALUE_NUMBER_INT`)")
        }
        serde_json::Value::Number(_) => {
            format!("{DESERIALIZE} Floating-point value (token `JsonToken.VALUE_NUMBER_FLOAT`)")
        }
        serde_json::Value::Bool(value) => {
            let word = if *value { "TRUE" } else { "FALSE" };
            format!("{DESERIALIZE} Boolean value (token `JsonToken.VALUE_{word}`)")
        }
        _ => format!("{DESERIALIZE} Array value (token `JsonToken.START_ARRAY`)"),
    }
}
