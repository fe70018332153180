//! Rows in a file: CSV as RFC 4180 has it, or one JSON object a line.

use std::io::BufRead;

use protocol::ColumnSpec;
use serde_json::Value;
use types::value::json::escape_json;

use super::Format;
use super::cells::{of_field, of_json, read_json, to_field, to_json_text};
use super::statement::TableShape;

/// The longest row that is read; a server takes no longer one either.
const ROW_BYTES_MAX: usize = 256 << 20;

/// The first line of a CSV file.
pub(super) fn write_names<'n>(names: impl Iterator<Item = &'n str>, out: &mut String) {
    for (index, name) in names.enumerate() {
        out.push_str(if index > 0 { "," } else { "" });
        write_field(name, out);
    }
    out.push('\n');
}

pub(super) fn write_row(
    format: Format,
    columns: &[ColumnSpec],
    row: &[Option<&[u8]>],
    out: &mut String,
) {
    match format {
        Format::Csv => {
            for (index, (column, value)) in columns.iter().zip(row).enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                if let Some(value) = value {
                    write_field(&to_field(&column.cql_type, value), out);
                }
            }
        }
        Format::Json => {
            out.push('{');
            for (index, (column, value)) in columns.iter().zip(row).enumerate() {
                out.push_str(if index > 0 { ", \"" } else { "\"" });
                escape_json(&column.name, out);
                out.push_str("\": ");
                match value {
                    Some(value) => out.push_str(&to_json_text(&column.cql_type, value)),
                    None => out.push_str("null"),
                }
            }
            out.push('}');
        }
    }
    out.push('\n');
}

fn write_field(field: &str, out: &mut String) {
    if field.is_empty() || field.contains([',', '"', '\n', '\r']) || field.trim() != field {
        out.push('"');
        out.push_str(&field.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(field);
    }
}

/// The values of a row, in the order of the table's columns; what a file does not name is `None`.
pub(super) type RowValues = Vec<Option<Vec<u8>>>;

/// The rows of a file.
pub(super) struct Lines<'s> {
    format: Format,
    input: Box<dyn BufRead>,
    shape: &'s TableShape,
    /// Of CSV: which column of the table each field is.
    order: Vec<usize>,
    line_number: u64,
    bytes_read: u64,
}

impl<'s> Lines<'s> {
    pub(super) fn new(
        format: Format,
        input: Box<dyn BufRead>,
        shape: &'s TableShape,
    ) -> Result<Lines<'s>, String> {
        let mut lines =
            Lines { format, input, shape, order: Vec::new(), line_number: 0, bytes_read: 0 };
        if format == Format::Csv {
            let names =
                lines.record()?.ok_or("the file is empty: the first line names the columns")?;
            for name in names {
                let name = name.unwrap_or_default();
                let index = shape.index_of(&name).ok_or_else(|| {
                    format!("line 1: {} has no column {name:?}", shape.display_name())
                })?;
                lines.order.push(index);
            }
        }
        Ok(lines)
    }

    /// Where the last row began, about.
    pub(super) fn line_number(&self) -> u64 {
        self.line_number
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    pub(super) fn next_row(&mut self) -> Result<Option<RowValues>, String> {
        let mut values: RowValues = vec![None; self.shape.columns.len()];
        match self.format {
            Format::Csv => {
                let Some(record) = self.record()? else { return Ok(None) };
                if record.len() != self.order.len() {
                    return Err(format!(
                        "line {}: {} fields, but the first line names {} columns",
                        self.line_number,
                        record.len(),
                        self.order.len()
                    ));
                }
                for (index, field) in self.order.iter().zip(record) {
                    let Some(column) = self.shape.columns.get(*index) else { continue };
                    let Some(field) = field else { continue };
                    let value = of_field(&column.cql_type, &field)
                        .map_err(|error| self.told(&column.name, &error))?;
                    if let Some(slot) = values.get_mut(*index) {
                        *slot = value;
                    }
                }
            }
            Format::Json => {
                let Some(line) = self.line()? else { return Ok(None) };
                let wrong = |error: &str| format!("line {}: {error}", self.line_number);
                let json = read_json(&line).map_err(|error| wrong(&error))?;
                let Value::Object(fields) = json else {
                    return Err(wrong("not a JSON object"));
                };
                for (name, value) in &fields {
                    let index = self.shape.index_of(name).ok_or_else(|| {
                        wrong(&format!("{} has no column {name:?}", self.shape.display_name()))
                    })?;
                    let Some(column) = self.shape.columns.get(index) else { continue };
                    let value = of_json(&column.cql_type, value)
                        .map_err(|error| self.told(&column.name, &error))?;
                    if let Some(slot) = values.get_mut(index) {
                        *slot = value;
                    }
                }
            }
        }
        Ok(Some(values))
    }

    fn told(&self, column: &str, error: &str) -> String {
        format!("line {}: column {column}: {error}", self.line_number)
    }

    /// The next line that is not blank, with its end.
    fn raw_line(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        let before = line.len();
        let count = self.input.read_until(b'\n', line).map_err(|error| error.to_string())?;
        self.bytes_read += count as u64;
        if line.len() > ROW_BYTES_MAX {
            return Err(format!("line {}: longer than {ROW_BYTES_MAX} bytes", self.line_number));
        }
        self.line_number += u64::from(count > 0);
        Ok(line.len() > before)
    }

    fn line(&mut self) -> Result<Option<String>, String> {
        loop {
            let mut line = Vec::new();
            if !self.raw_line(&mut line)? {
                return Ok(None);
            }
            let line = String::from_utf8(line)
                .map_err(|_| format!("line {}: not UTF-8", self.line_number))?;
            if !line.trim().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// The fields of the next CSV record; one without quotes and without text is null.
    fn record(&mut self) -> Result<Option<Vec<Option<String>>>, String> {
        let mut text = Vec::new();
        loop {
            if !self.raw_line(&mut text)? {
                if text.is_empty() {
                    return Ok(None);
                }
                return Err(format!("line {}: a quoted field has no end", self.line_number));
            }
            // An even number of quotes: the record ends with this line.
            let quotes = text.iter().filter(|byte| **byte == b'"').count();
            if !quotes.is_multiple_of(2) {
                continue;
            }
            if text.iter().all(|byte| matches!(byte, b'\n' | b'\r'))
                && !self.order.is_empty()
                && self.order.len() > 1
            {
                text.clear();
                continue;
            }
            let text = std::str::from_utf8(&text)
                .map_err(|_| format!("line {}: not UTF-8", self.line_number))?;
            return split_record(text.trim_end_matches(['\n', '\r']))
                .map(Some)
                .ok_or_else(|| format!("line {}: text behind a quoted field", self.line_number));
        }
    }
}

fn split_record(text: &str) -> Option<Vec<Option<String>>> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let behind = if let Some(quoted) = rest.strip_prefix('"') {
            let mut field = String::new();
            let mut from = quoted;
            loop {
                let (part, after) = from.split_once('"')?;
                field.push_str(part);
                match after.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        from = more;
                    }
                    None => {
                        fields.push(Some(field));
                        break after;
                    }
                }
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let (field, after) = rest.split_at(end);
            fields.push((!field.is_empty()).then(|| field.to_owned()));
            after
        };
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None if behind.is_empty() => return Some(fields),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split_record;

    #[test]
    fn records_split_as_they_were_written() {
        let check = |text: &str, expect: &[Option<&str>]| {
            let fields = split_record(text).unwrap();
            let fields: Vec<Option<&str>> = fields.iter().map(Option::as_deref).collect();
            assert_eq!(fields, expect, "{text}");
        };
        check("a,b", &[Some("a"), Some("b")]);
        check("", &[None]);
        check("a,,", &[Some("a"), None, None]);
        check("\"\",x", &[Some(""), Some("x")]);
        check("\"a\"\"b,\nc\",1", &[Some("a\"b,\nc"), Some("1")]);
        assert!(split_record("\"a\"b").is_none());
        assert!(split_record("\"a").is_none());
    }
}
