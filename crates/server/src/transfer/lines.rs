//! The rows of a file, with the columns of the table that they are for.

use std::io::BufRead;

use serde_json::Value;
use shell::cells::{of_field, of_json, read_json};
use shell::records::{Dialect, Format, RecordReader};
use shell::{RowValues, TableShape};

/// The rows of a file.
pub(super) struct Lines<'s> {
    format: Format,
    reader: RecordReader,
    shape: &'s TableShape,
    /// Of CSV: which column of the table each field is.
    order: Vec<usize>,
}

impl<'s> Lines<'s> {
    pub(super) fn new(
        format: Format,
        input: Box<dyn BufRead>,
        shape: &'s TableShape,
    ) -> Result<Lines<'s>, String> {
        let reader = RecordReader::new(input, Dialect::STANDARD);
        let mut lines = Lines { format, reader, shape, order: Vec::new() };
        if format == Format::Csv {
            let first = lines.reader.record(true)?;
            let names = first.ok_or("the file is empty: the first line names the columns")?;
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
        self.reader.line_number()
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.reader.bytes_read()
    }

    pub(super) fn next_row(&mut self) -> Result<Option<RowValues>, String> {
        let mut values: RowValues = vec![None; self.shape.columns.len()];
        match self.format {
            Format::Csv => {
                let Some(record) = self.reader.record(self.order.len() == 1)? else {
                    return Ok(None);
                };
                if record.len() != self.order.len() {
                    return Err(format!(
                        "line {}: {} fields, but the first line names {} columns",
                        self.line_number(),
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
                let Some(line) = self.reader.line()? else { return Ok(None) };
                let wrong = |error: &str| format!("line {}: {error}", self.line_number());
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
        format!("line {}: column {column}: {error}", self.line_number())
    }
}
