//! Rows in a file: CSV as RFC 4180 has it or with another mark than the doubled quote, or one JSON object a line.

use std::io::BufRead;

use protocol::ColumnSpec;
use types::value::json::escape_json;

use crate::cells::{to_field, to_json_text};

/// The longest row that is read; a server takes no longer one either.
const ROW_BYTES_MAX: usize = 256 << 20;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    Json,
}

/// What separates and encloses the fields of a CSV file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub delimiter: char,
    pub quote: char,
    /// What takes the meaning from the next character; a quote is doubled where this is the quote itself.
    pub escape: char,
}

impl Dialect {
    /// That of RFC 4180.
    pub const STANDARD: Dialect = Dialect { delimiter: ',', quote: '"', escape: '"' };
}

/// The first line of a CSV file.
pub fn write_names<'n>(dialect: Dialect, names: impl Iterator<Item = &'n str>, out: &mut String) {
    for (index, name) in names.enumerate() {
        if index > 0 {
            out.push(dialect.delimiter);
        }
        dialect.write_field(name, out);
    }
    out.push('\n');
}

/// A row. In CSV nothing between two commas is null, and an empty text stands in quotes.
pub fn write_row(format: Format, columns: &[ColumnSpec], row: &[Option<&[u8]>], out: &mut String) {
    match format {
        Format::Csv => {
            for (index, (column, value)) in columns.iter().zip(row).enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                if let Some(value) = value {
                    Dialect::STANDARD.write_field(&to_field(&column.cql_type, value), out);
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

/// What a text is as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Record {
    /// Its fields; one without quotes and without text is `None`.
    Whole(Vec<Option<String>>),
    /// It goes on in the next line.
    Open,
    /// There is text behind a quoted field.
    Wrong,
}

impl Dialect {
    /// Appends a field, in quotes where it needs them.
    pub(crate) fn write_field(self, field: &str, out: &mut String) {
        let special = [self.delimiter, self.quote, self.escape, '\n', '\r'];
        let is_plain = !field.is_empty() && !field.contains(special) && field.trim() == field;
        if is_plain {
            out.push_str(field);
            return;
        }
        out.push(self.quote);
        for character in field.chars() {
            if character == self.quote || character == self.escape {
                out.push(self.escape);
            }
            out.push(character);
        }
        out.push(self.quote);
    }

    fn split(self, text: &str) -> Record {
        let mut fields = Vec::new();
        let mut characters = text.chars().peekable();
        loop {
            let mut field = String::new();
            let is_quoted = characters.next_if_eq(&self.quote).is_some();
            if is_quoted {
                loop {
                    match characters.next() {
                        None => return Record::Open,
                        Some(character)
                            if character == self.escape && self.escape != self.quote =>
                        {
                            match characters.next() {
                                None => return Record::Open,
                                Some(escaped) => field.push(escaped),
                            }
                        }
                        Some(character) if character == self.quote => {
                            if self.escape == self.quote
                                && characters.next_if_eq(&self.quote).is_some()
                            {
                                field.push(self.quote);
                            } else {
                                break;
                            }
                        }
                        Some(character) => field.push(character),
                    }
                }
                fields.push(Some(field));
            } else {
                let mut is_escaped = false;
                while let Some(character) = characters.next_if(|next| *next != self.delimiter) {
                    if character == self.escape && self.escape != self.quote {
                        is_escaped = true;
                        field.extend(characters.next());
                    } else {
                        field.push(character);
                    }
                }
                fields.push((is_escaped || !field.is_empty()).then_some(field));
            }
            match characters.next() {
                Some(character) if character == self.delimiter => {}
                None => return Record::Whole(fields),
                Some(_) => return Record::Wrong,
            }
        }
    }
}

/// The lines and records of a file.
pub struct RecordReader {
    input: Box<dyn BufRead>,
    dialect: Dialect,
    line_number: u64,
    bytes_read: u64,
}

impl RecordReader {
    /// From the beginning of a file.
    pub fn new(input: Box<dyn BufRead>, dialect: Dialect) -> RecordReader {
        RecordReader { input, dialect, line_number: 0, bytes_read: 0 }
    }

    /// Of the line that was read last.
    pub fn line_number(&self) -> u64 {
        self.line_number
    }

    /// How far it is.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next line with its end, appended.
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

    fn not_text(&self) -> String {
        format!("line {}: not UTF-8", self.line_number)
    }

    /// The next line that is not blank.
    pub fn line(&mut self) -> Result<Option<String>, String> {
        loop {
            let mut line = Vec::new();
            if !self.raw_line(&mut line)? {
                return Ok(None);
            }
            let line = String::from_utf8(line).map_err(|_| self.not_text())?;
            if !line.trim().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// The fields of the next CSV record; one without quotes and without text is null. A blank line is
    /// a record of one null only where records have one field.
    pub fn record(&mut self, has_one_field: bool) -> Result<Option<Vec<Option<String>>>, String> {
        let mut bytes = Vec::new();
        loop {
            if !self.raw_line(&mut bytes)? {
                if bytes.is_empty() {
                    return Ok(None);
                }
                return Err(format!("line {}: a quoted field has no end", self.line_number));
            }
            if !has_one_field && bytes.iter().all(|byte| matches!(byte, b'\n' | b'\r')) {
                bytes.clear();
                continue;
            }
            let text = std::str::from_utf8(&bytes).map_err(|_| self.not_text())?;
            match self.dialect.split(text.trim_end_matches(['\n', '\r'])) {
                Record::Whole(fields) => return Ok(Some(fields)),
                Record::Open => {}
                Record::Wrong => {
                    return Err(format!("line {}: text behind a quoted field", self.line_number));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKSLASH: Dialect = Dialect { delimiter: ';', quote: '\'', escape: '\\' };

    fn check(dialect: Dialect, text: &str, expect: &[Option<&str>]) {
        let Record::Whole(fields) = dialect.split(text) else { panic!("{text} is not whole") };
        let fields: Vec<Option<&str>> = fields.iter().map(Option::as_deref).collect();
        assert_eq!(fields, expect, "{text}");
    }

    #[test]
    fn records_split_as_they_were_written() {
        let standard = Dialect::STANDARD;
        check(standard, "a,b", &[Some("a"), Some("b")]);
        check(standard, "", &[None]);
        check(standard, "a,,", &[Some("a"), None, None]);
        check(standard, "\"\",x", &[Some(""), Some("x")]);
        check(standard, "\"a\"\"b,\nc\",1", &[Some("a\"b,\nc"), Some("1")]);
        check(standard, "a\\b", &[Some("a\\b")]);
        assert_eq!(standard.split("\"a\"b"), Record::Wrong);
        assert_eq!(standard.split("\"a"), Record::Open);
        check(BACKSLASH, "a;'it\\'s;'", &[Some("a"), Some("it's;")]);
        check(BACKSLASH, "a\\;b;c\\\\", &[Some("a;b"), Some("c\\")]);
        assert_eq!(BACKSLASH.split("'a\\"), Record::Open);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for dialect in [Dialect::STANDARD, BACKSLASH] {
            for field in
                ["a", "", "it's", "\"", "a,b;c", "two\nlines\r\n", " blank ", "\\", "\\'", "'"]
            {
                let mut text = String::new();
                dialect.write_field(field, &mut text);
                text.push(dialect.delimiter);
                dialect.write_field("x", &mut text);
                text.push('\n');
                let input = Box::new(std::io::Cursor::new(text.clone()));
                let mut reader = RecordReader::new(input, dialect);
                let expect = vec![Some(field.to_owned()), Some("x".to_owned())];
                assert_eq!(reader.record(false), Ok(Some(expect)), "{text}");
                assert_eq!(reader.record(false), Ok(None));
            }
        }
    }
}
