//! SELECT JSON: a row as one text.

use types::value::json::{escape_json, json_key};
use types::value::{ValueError, has_json, to_json};

use crate::plan::ResultColumn;
use crate::row::ValueSink;

/// Writes the values of a row into one JSON object.
pub(super) struct JsonRow<'a> {
    columns: &'a [ResultColumn],
    next: usize,
    text: String,
    /// A value came that has no JSON form.
    is_unsupported: bool,
}

impl<'a> JsonRow<'a> {
    pub(super) fn new(columns: &'a [ResultColumn]) -> JsonRow<'a> {
        JsonRow { columns, next: 0, text: String::from("{"), is_unsupported: false }
    }

    pub(super) fn finish(mut self) -> Result<Vec<u8>, ValueError> {
        if self.is_unsupported {
            return Err(ValueError::JsonUnsupported);
        }
        self.text.push('}');
        Ok(self.text.into_bytes())
    }
}

impl ValueSink for JsonRow<'_> {
    fn push(&mut self, value: Option<&[u8]>) {
        let Some(column) = self.columns.get(self.next) else { return };
        if self.next > 0 {
            self.text.push_str(", ");
        }
        self.next += 1;
        self.text.push('"');
        escape_json(&json_key(&column.name), &mut self.text);
        self.text.push_str("\": ");
        match value {
            Some(bytes) => {
                self.is_unsupported |= !has_json(&column.cql_type);
                self.text.push_str(&to_json(&column.cql_type, bytes));
            }
            None => self.text.push_str("null"),
        }
    }
}
