//! COPY: a table to a CSV file, and back.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use types::CqlType;

use crate::client::Bound;
use crate::command::Copy;
use crate::execute::at_home;
use crate::field::parse_field;
use crate::records::{Dialect, RecordReader, write_names};
use crate::session::Session;
use crate::table_shape::{RowValues, TableShape, Writers};
use crate::values::Style;

/// Rows of a page of an export, unless an option says another number.
const PAGE_ROWS: i32 = 1_000;
/// Rows of an import that are on their way at once, unless an option says another number.
const ROWS_IN_FLIGHT: usize = 128;
/// The most that an option may say: each is a stream of the connection.
const ROWS_IN_FLIGHT_MAX: usize = 1_024;

/// What follows WITH.
struct Options {
    dialect: Dialect,
    style: Style,
    has_header: bool,
    page_rows: i32,
    rows_in_flight: usize,
    rows_max: Option<u64>,
    rows_skipped: u64,
    columns_skipped: Vec<String>,
    ttl_s: Option<u32>,
}

impl Options {
    fn read(copy: &Copy) -> Result<Options, String> {
        let mut options = Options {
            dialect: Dialect { delimiter: ',', quote: '"', escape: '\\' },
            style: Style::file(),
            has_header: false,
            page_rows: PAGE_ROWS,
            rows_in_flight: ROWS_IN_FLIGHT,
            rows_max: None,
            rows_skipped: 0,
            columns_skipped: Vec::new(),
            ttl_s: None,
        };
        for (name, value) in &copy.options {
            let known = match copy.is_import {
                true => options.set(name, value)? || options.set_of_import(name, value)?,
                false => options.set(name, value)? || options.set_of_export(name, value)?,
            };
            if !known {
                return Err(format!(
                    "COPY has no option {name} here; HELP COPY tells which it has"
                ));
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "HEADER" => self.has_header = truth(name, value)?,
            "DELIMITER" => self.dialect.delimiter = character(name, value)?,
            "QUOTE" => self.dialect.quote = character(name, value)?,
            "ESCAPE" => self.dialect.escape = character(name, value)?,
            "NULL" => value.clone_into(&mut self.style.null),
            "BOOLSTYLE" => {
                let (yes, no) = value.split_once(',').ok_or_else(|| {
                    format!("{name} = '{value}': two words with a comma between them")
                })?;
                self.style.true_and_false = [yes.trim().to_owned(), no.trim().to_owned()];
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_of_export(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "PAGESIZE" => self.page_rows = number(name, value, 1, i32::MAX)?,
            "FLOATPRECISION" => self.style.float_digits = Some(number(name, value, 1, 17)?),
            "DOUBLEPRECISION" => self.style.double_digits = Some(number(name, value, 1, 17)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_of_import(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "CHUNKSIZE" => self.rows_in_flight = number(name, value, 1, ROWS_IN_FLIGHT_MAX)?,
            // As with cqlsh, -1 is no limit.
            "MAXROWS" if value == "-1" => self.rows_max = None,
            "MAXROWS" => self.rows_max = Some(number(name, value, 0, u64::MAX)?),
            "SKIPROWS" => self.rows_skipped = number(name, value, 0, u64::MAX)?,
            "SKIPCOLS" => {
                self.columns_skipped =
                    value.split(',').map(|name| name.trim().to_owned()).collect();
            }
            "TTL" => self.ttl_s = Some(number(name, value, 0, u32::MAX)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value.to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!("{name} = {value}: true or false")),
    }
}

fn character(name: &str, value: &str) -> Result<char, String> {
    let mut characters = value.chars();
    match (value, characters.next(), characters.next()) {
        ("\\t", ..) => Ok('\t'),
        (_, Some(character), None) => Ok(character),
        _ => Err(format!("{name} = '{value}': one character")),
    }
}

fn number<N>(name: &str, value: &str, least: N, most: N) -> Result<N, String>
where
    N: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    match value.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("{name} = {value}: a number from {least} to {most}")),
    }
}

impl Session {
    /// Does it, and says how it went.
    pub(crate) fn copy(&mut self, copy: &Copy) -> io::Result<()> {
        let started = (self.now)();
        let done = match copy.is_import {
            true => self.import(copy),
            false => self.export(copy),
        };
        self.screen.flush()?;
        match done {
            Ok(count) => {
                let seconds = (self.now)().saturating_duration_since(started).as_secs_f64();
                let done = match copy.is_import {
                    true => format!("{count} rows imported in {seconds:.3} seconds."),
                    false => format!("{count} rows exported in {seconds:.3} seconds."),
                };
                match (copy.is_import, &copy.file) {
                    // Standard output is the data.
                    (false, None) => Ok(()),
                    _ => self.screen.say(&done),
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    fn shape(&mut self, copy: &Copy) -> Result<TableShape, String> {
        let keyspace = copy.keyspace.clone().or_else(|| self.keyspace.clone());
        let keyspace =
            keyspace.ok_or("Not in any keyspace: USE one, or name it, as in KEYSPACE.TABLE")?;
        let shape = self
            .ask(|client| TableShape::read(client, &keyspace, &copy.table))
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("Table {keyspace}.{} not found", copy.table))?;
        for name in &copy.columns {
            if shape.index_of(name).is_none() {
                return Err(format!(
                    "Invalid column name {name}: {} has none",
                    shape.display_name()
                ));
            }
        }
        Ok(shape)
    }

    fn export(&mut self, copy: &Copy) -> Result<u64, String> {
        let options = Options::read(copy)?;
        let shape = self.shape(copy)?;
        let mut file = match &copy.file {
            Some(file) => {
                let path = at_home(file);
                let opened = File::create(&path);
                Some(BufWriter::new(
                    opened.map_err(|error| format!("Can't open {file:?}: {error}"))?,
                ))
            }
            None => None,
        };
        let select = shape.select(&copy.columns);
        let level = self.settings.consistency;
        let (mut paging_state, mut is_first, mut count) = (None::<Vec<u8>>, true, 0);
        loop {
            let page = self.ask(|client| {
                client.page(&select, level, options.page_rows, paging_state.as_deref())
            });
            let page = page.map_err(|error| error.to_string())?;
            let columns = page.metadata.columns.clone().unwrap_or_default();
            let mut text = String::new();
            if is_first && options.has_header {
                let names = columns.iter().map(|column| column.name.as_ref());
                write_names(options.dialect, names, &mut text);
            }
            for row in page.rows() {
                for (index, (column, value)) in columns.iter().zip(row).enumerate() {
                    if index > 0 {
                        text.push(options.dialect.delimiter);
                    }
                    write_value(&options, &column.cql_type, value, &mut text);
                }
                text.push('\n');
                count += 1;
            }
            let written = match &mut file {
                Some(file) => file.write_all(text.as_bytes()),
                None => self.screen.result(&text),
            };
            written.map_err(|error| error.to_string())?;
            is_first = false;
            paging_state.clone_from(&page.metadata.paging_state);
            if paging_state.is_none() {
                break;
            }
        }
        if let Some(mut file) = file {
            file.flush().map_err(|error| error.to_string())?;
        }
        Ok(count)
    }

    fn import(&mut self, copy: &Copy) -> Result<u64, String> {
        let options = Options::read(copy)?;
        let shape = self.shape(copy)?;
        let input: Box<dyn BufRead> = match &copy.file {
            Some(file) => {
                let opened = File::open(at_home(file));
                Box::new(BufReader::new(
                    opened.map_err(|error| format!("Can't open {file:?}: {error}"))?,
                ))
            }
            None => Box::new(BufReader::new(UntilDot::new(Box::new(io::stdin().lock())))),
        };
        let mut reader = RecordReader::new(input, options.dialect);
        let mut names: Vec<String> = match copy.columns.is_empty() {
            true => shape.columns.iter().map(|column| column.name.clone()).collect(),
            false => copy.columns.clone(),
        };
        if options.has_header {
            let header = reader.record(true)?;
            if copy.columns.is_empty() {
                names =
                    header.unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect();
            }
        }
        let mut order = Vec::new();
        for name in &names {
            let index = shape.index_of(name).ok_or_else(|| {
                format!("line 1: {} has no column {name:?}", shape.display_name())
            })?;
            order.push((!options.columns_skipped.contains(name)).then_some(index));
        }
        let rows = Rows { reader, order, shape: &shape, options: &options };
        self.write_rows(rows)
    }

    fn write_rows(&mut self, mut rows: Rows<'_>) -> Result<u64, String> {
        let options = rows.options;
        let level = self.settings.consistency;
        let mut writers = Writers::new(rows.shape, options.ttl_s);
        let mut waiting: Vec<Bound> = Vec::new();
        let (mut count, mut seen) = (0u64, 0u64);
        loop {
            let is_full = options.rows_max.is_some_and(|most| count + waiting.len() as u64 >= most);
            let row = if is_full { None } else { rows.next_row().transpose() };
            let is_end = row.is_none();
            // What was read before the line that is wrong is written.
            let mut wrong = None;
            match row {
                Some(Ok(row)) => {
                    seen += 1;
                    if seen > options.rows_skipped {
                        let line = rows.reader.line_number();
                        let mut bound = None;
                        let asked = self.ask(|client| {
                            bound = Some(writers.bind(client, line, &row));
                            Ok(())
                        });
                        asked.map_err(|error| error.to_string())?;
                        match bound {
                            Some(Ok(bound)) => waiting.push(bound),
                            Some(Err(error)) => wrong = Some(error.to_string()),
                            None => {}
                        }
                    }
                }
                Some(Err(error)) => wrong = Some(error),
                None => {}
            }
            if is_end || wrong.is_some() || waiting.len() >= options.rows_in_flight {
                let mut failed = None;
                let asked = self.ask(|client| {
                    let done = client.execute_all(&waiting, level);
                    done.map_err(|(line, error)| {
                        failed = Some(line);
                        error
                    })
                });
                if let Err(error) = asked {
                    let line = failed.unwrap_or(0);
                    return Err(format!(
                        "line {line}: {error}; {count} rows before it are imported"
                    ));
                }
                count += waiting.len() as u64;
                waiting.clear();
            }
            if let Some(error) = wrong {
                return Err(format!("{error}; {count} rows before it are imported"));
            }
            if is_end {
                return Ok(count);
            }
        }
    }
}

fn write_value(options: &Options, ty: &CqlType, value: Option<&[u8]>, out: &mut String) {
    let text = options.style.cell(ty, value).plain();
    // An empty text is told from null by its quotes.
    if value.is_none() && text.is_empty() {
        return;
    }
    options.dialect.write_field(&text, out);
}

/// The rows of a file.
struct Rows<'s> {
    reader: RecordReader,
    /// Which column of the table each field is; those that are skipped are none.
    order: Vec<Option<usize>>,
    shape: &'s TableShape,
    options: &'s Options,
}

impl Rows<'_> {
    fn next_row(&mut self) -> Result<Option<RowValues>, String> {
        let Some(fields) = self.reader.record(self.order.len() == 1)? else { return Ok(None) };
        let line = self.reader.line_number();
        if fields.len() != self.order.len() {
            let (given, wanted) = (fields.len(), self.order.len());
            return Err(format!("line {line}: {given} fields, but there are {wanted} columns"));
        }
        let mut values: RowValues = vec![None; self.shape.columns.len()];
        for (index, field) in self.order.iter().zip(fields) {
            let Some(index) = *index else { continue };
            let Some(column) = self.shape.columns.get(index) else { continue };
            let null = &self.options.style.null;
            let is_text = matches!(column.cql_type, CqlType::Text | CqlType::Ascii);
            let field = match field {
                Some(field) if field == *null && !null.is_empty() => continue,
                Some(field) => field,
                // Where another text stands for null, nothing is an empty text.
                None if is_text && !null.is_empty() => String::new(),
                None => continue,
            };
            let value = parse_field(&column.cql_type, &field, &self.options.style.true_and_false)
                .map_err(|error| format!("line {line}: column {}: {error}", column.name))?;
            if let Some(slot) = values.get_mut(index) {
                *slot = Some(value);
            }
        }
        Ok(Some(values))
    }
}

/// Input up to a line with `\.`, which is how a person ends what is typed.
struct UntilDot {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    is_over: bool,
}

impl UntilDot {
    fn new(input: Box<dyn BufRead>) -> UntilDot {
        UntilDot { input, line: Vec::new(), is_over: false }
    }
}

impl Read for UntilDot {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.line.is_empty() && !self.is_over {
            self.input.read_until(b'\n', &mut self.line)?;
            self.is_over = self.line.is_empty() || self.line.trim_ascii() == b"\\.";
        }
        if self.is_over {
            return Ok(0);
        }
        let count = self.line.len().min(bytes.len());
        for (to, from) in bytes.iter_mut().zip(self.line.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(is_import: bool, given: &[(&str, &str)]) -> Result<Options, String> {
        let options = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Options::read(&Copy {
            keyspace: None,
            table: "t".to_owned(),
            columns: Vec::new(),
            is_import,
            file: None,
            options: options.collect(),
        })
    }

    #[test]
    fn options_are_taken_or_refused() {
        let taken =
            options(true, &[("HEADER", "true"), ("DELIMITER", "\\t"), ("MAXROWS", "-1")]).unwrap();
        assert!(taken.has_header && taken.rows_max.is_none());
        assert_eq!(taken.dialect.delimiter, '\t');
        for (is_import, name, value) in [
            (true, "HEADER", "maybe"),
            (true, "DELIMITER", ";;"),
            (true, "PAGESIZE", "10"),
            (false, "TTL", "10"),
            (false, "PAGESIZE", "0"),
            (false, "NUMPROCESSES", "4"),
            (true, "BOOLSTYLE", "yes"),
        ] {
            assert!(options(is_import, &[(name, value)]).is_err(), "{name} = {value}");
        }
    }

    #[test]
    fn typed_input_ends_with_a_backslash_and_a_dot() {
        let typed = io::Cursor::new("1,a\n2,b\n\\.\nSELECT");
        let mut text = String::new();
        UntilDot::new(Box::new(typed)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "1,a\n2,b\n");
    }
}
