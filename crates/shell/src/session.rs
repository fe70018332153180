//! One session: a connection, what was set, and what becomes of each statement.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use protocol::{ColumnSpec, Consistency, ErrorKind, Response, ResponseMessage, Rows};

use crate::client::{Ask, Client, ClientError, Target, charge_of, text_value};
use crate::errors::describe;
use crate::paint::{Colour, Painted};
use crate::records::{Dialect, Format, write_names, write_row};
use crate::screen::{OneByOne, Screen, has_input, read_key};
use crate::table::{Layout, Table};
use crate::values::{Style, format_name};

/// Rows of a page, unless PAGING says another number.
pub(crate) const PAGE_ROWS: i32 = 100;
/// Tables whose keys are remembered, for the colours of their columns.
const TABLES_KNOWN_MAX: usize = 256;

/// How the rows of results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// As an aligned table.
    Table,
    /// As `helenus export` writes them.
    File(Format),
}

/// What can be set while a session lasts.
pub(crate) struct Settings {
    pub(crate) consistency: Consistency,
    pub(crate) serial_consistency: Consistency,
    pub(crate) tracing: bool,
    pub(crate) expand: bool,
    pub(crate) cost: bool,
    /// Rows of a page; none without paging.
    pub(crate) page_rows: Option<i32>,
    pub(crate) row_format: RowFormat,
}

/// Where statements come from, for errors.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) line: usize,
}

pub(crate) struct Session {
    pub(crate) target: Target,
    /// None after it broke, until the next statement.
    client: Option<Client>,
    pub(crate) keyspace: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) screen: Screen,
    pub(crate) place: Place,
    pub(crate) has_failed: bool,
    /// Whether names may have changed since they were last asked for.
    pub(crate) names_stale: bool,
    /// Colours of the columns of tables, by keyspace and table.
    column_colours: BTreeMap<(String, String), BTreeMap<String, Colour>>,
    /// Whether the node explains statements; not known before it is asked.
    explains: Option<bool>,
    pub(crate) now: fn() -> Instant,
}

/// What a statement took, over all its pages.
#[derive(Default)]
struct Cost {
    time: Duration,
    charge: Option<f64>,
    plan: Vec<String>,
}

impl Session {
    pub(crate) fn open(
        target: Target,
        keyspace: Option<String>,
        row_format: RowFormat,
        screen: Screen,
        now: fn() -> Instant,
    ) -> Result<Session, ClientError> {
        let mut session = Session {
            client: None,
            target,
            keyspace,
            settings: Settings {
                consistency: Consistency::One,
                serial_consistency: Consistency::Serial,
                tracing: false,
                expand: false,
                cost: false,
                page_rows: Some(PAGE_ROWS),
                row_format,
            },
            screen,
            place: Place { name: "<stdin>".to_owned(), line: 1 },
            has_failed: false,
            names_stale: true,
            column_colours: BTreeMap::new(),
            explains: None,
            now,
        };
        session.connect()?;
        Ok(session)
    }

    /// A fresh connection, in the keyspace that is in use.
    fn fresh(&self) -> Result<Client, ClientError> {
        let mut client = Client::connect(&self.target)?;
        if let Some(keyspace) = &self.keyspace {
            let text = format!("USE \"{}\"", keyspace.replace('"', "\"\""));
            client.run(&Ask::new(&text, Consistency::One))?;
        }
        Ok(client)
    }

    /// Connects, in place of the connection that is there.
    pub(crate) fn connect(&mut self) -> Result<(), ClientError> {
        self.client = Some(self.fresh()?);
        Ok(())
    }

    /// Asks the node something, over a fresh connection if the last one broke.
    pub(crate) fn ask<T>(
        &mut self,
        question: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.fresh()?,
        };
        let answer = question(&mut client);
        if !answer.as_ref().is_err_and(ClientError::is_end) {
            self.client = Some(client);
        }
        answer
    }

    /// Whether a person wants no more of what was begun (Ctrl-C).
    pub(crate) fn is_cancelled(&self) -> bool {
        self.target.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }

    /// What was cancelled is over; what comes is wanted.
    pub(crate) fn wants_again(&self) {
        if let Some(cancelled) = self.target.cancelled {
            cancelled.store(false, Ordering::Relaxed);
        }
    }

    /// An error of a statement or command.
    pub(crate) fn fail(&mut self, text: &str) -> io::Result<()> {
        self.has_failed = true;
        if self.screen.is_interactive {
            return self.screen.complain(text);
        }
        let line = format!("{}:{}:{text}", self.place.name, self.place.line);
        self.screen.complain(&line)
    }

    /// Runs a statement and shows what it answers.
    pub(crate) fn statement(&mut self, text: &str) -> io::Result<()> {
        let mut cost = Cost::default();
        if self.settings.cost {
            cost.plan = self.explain(text);
        }
        let about_traces = self.keyspace.as_deref() == Some("system_traces")
            || text.to_lowercase().contains("system_traces");
        let tracing = self.settings.tracing && !about_traces;
        let first_word = text.split_whitespace().next().unwrap_or_default().to_uppercase();
        let is_select = matches!(first_word.as_str(), "SELECT" | "LIST");
        let mut traces = Vec::new();
        let mut warnings = Vec::new();
        let mut paging_state: Option<Vec<u8>> = None;
        let mut row_count = 0;
        let mut is_first = true;
        loop {
            let message = match self.one_page(text, paging_state.as_deref(), tracing, &mut cost) {
                Ok(message) => message,
                Err(error) => return self.fail(&describe(&error)),
            };
            traces.extend(message.tracing_id);
            warnings.extend(message.warnings);
            paging_state = None;
            match message.response {
                Response::Rows(rows) => {
                    paging_state.clone_from(&rows.metadata.paging_state);
                    self.show_page(&rows, is_select, is_first, row_count)?;
                    row_count += rows.row_count;
                    if paging_state.is_some() && !self.wants_more()? {
                        paging_state = None;
                    }
                    if paging_state.is_none() {
                        self.end_rows(is_select, row_count)?;
                    }
                }
                Response::SetKeyspace(keyspace) => self.keyspace = Some(keyspace),
                Response::SchemaChange(_) => {
                    self.names_stale = true;
                    self.column_colours.clear();
                }
                _ => {}
            }
            is_first = false;
            if paging_state.is_none() {
                break;
            }
        }
        if !warnings.is_empty() {
            self.screen.beside("\nWarnings :\n")?;
            for warning in warnings {
                self.screen.beside(&format!("{warning}\n\n"))?;
            }
        }
        if self.settings.cost {
            self.show_cost(&cost)?;
        }
        for trace in traces {
            self.show_trace(&trace)?;
        }
        self.screen.flush()
    }

    fn one_page(
        &mut self,
        text: &str,
        paging_state: Option<&[u8]>,
        tracing: bool,
        cost: &mut Cost,
    ) -> Result<ResponseMessage, ClientError> {
        let settings = &self.settings;
        let ask = Ask {
            serial_consistency: Some(settings.serial_consistency),
            page_size: settings.page_rows,
            paging_state,
            tracing,
            charge: settings.cost,
            ..Ask::new(text, settings.consistency)
        };
        let started = (self.now)();
        let message = self.ask(|client| client.run(&ask))?;
        cost.time += (self.now)().saturating_duration_since(started);
        if let Some(charge) = charge_of(&message) {
            cost.charge = Some(cost.charge.unwrap_or(0.0) + charge);
        }
        Ok(message)
    }

    fn show_page(
        &mut self,
        rows: &Rows,
        is_select: bool,
        is_first: bool,
        rows_before: usize,
    ) -> io::Result<()> {
        if let RowFormat::File(format) = self.settings.row_format {
            return self.show_as_file(format, rows, is_first);
        }
        // The last page may be empty; so may be an answer that is no result.
        if rows.row_count == 0 && !(is_select && is_first) {
            return Ok(());
        }
        if is_first {
            self.screen.result("\n")?;
        }
        let is_interactive = self.screen.is_interactive;
        let columns = rows.metadata.columns.clone().unwrap_or_default();
        let table = self.table(&columns, rows);
        let layout = Layout {
            is_coloured: self.screen.is_coloured(),
            is_expanded: self.settings.expand,
            width_max: self.screen.table_width_max(),
            has_header: is_first || is_interactive,
            rows_before,
        };
        let has_rows = !table.rows.is_empty();
        let text = table.render(&layout);
        // What is expanded ends with a blank line already.
        let is_expanded = text.starts_with("@ Row");
        self.screen.result(&text)?;
        if !has_rows || is_interactive && !is_expanded {
            self.screen.result("\n")?;
        }
        Ok(())
    }

    fn end_rows(&mut self, is_select: bool, row_count: usize) -> io::Result<()> {
        if self.settings.row_format != RowFormat::Table || !is_select {
            return Ok(());
        }
        if !self.screen.is_interactive {
            self.screen.result("\n")?;
        }
        self.screen.result(&format!("({row_count} rows)\n"))
    }

    fn show_as_file(&mut self, format: Format, rows: &Rows, is_first: bool) -> io::Result<()> {
        let columns = rows.metadata.columns.clone().unwrap_or_default();
        let mut text = String::new();
        if format == Format::Csv && is_first {
            let names = columns.iter().map(|column| column.name.as_ref());
            write_names(Dialect::STANDARD, names, &mut text);
        }
        for row in rows.rows() {
            write_row(format, &columns, &row, &mut text);
        }
        self.screen.result(&text)
    }

    /// Between two pages: whether a person who looks wants the next one.
    fn wants_more(&mut self) -> io::Result<bool> {
        let is_watched = self.screen.is_interactive && !self.screen.is_captured();
        if !is_watched || self.settings.row_format != RowFormat::Table {
            return Ok(true);
        }
        self.screen.result("---MORE--- (any key goes on, q ends)")?;
        self.screen.flush()?;
        let _keys = OneByOne::begin();
        while !has_input()? {
            if self.is_cancelled() {
                self.screen.result("\n")?;
                return Ok(false);
            }
        }
        let key = read_key()?;
        self.screen.result("\n")?;
        Ok(!matches!(key, None | Some(b'q' | b'Q')))
    }

    fn table(&mut self, columns: &[ColumnSpec], rows: &Rows) -> Table {
        let style = Style::screen();
        let colours = match columns.first() {
            Some(column) if self.screen.is_coloured() => {
                self.colours_of(&column.keyspace, &column.table)
            }
            _ => BTreeMap::new(),
        };
        let colour = |name: &str| colours.get(name).copied().unwrap_or(Colour::Magenta);
        let cells = |row: Vec<Option<&[u8]>>| -> Vec<Painted> {
            columns
                .iter()
                .zip(row)
                .map(|(column, value)| style.cell(&column.cql_type, value))
                .collect()
        };
        Table {
            names: columns
                .iter()
                .map(|column| format_name(&column.name, colour(&column.name)))
                .collect(),
            rows: rows.rows().map(cells).collect(),
        }
    }

    /// Which columns of a table are keys, as colours. That nobody answers is no reason to show nothing.
    fn colours_of(&mut self, keyspace: &str, table: &str) -> BTreeMap<String, Colour> {
        let place = (keyspace.to_owned(), table.to_owned());
        if let Some(known) = self.column_colours.get(&place) {
            return known.clone();
        }
        let text = "SELECT column_name, kind FROM system_schema.columns \
                    WHERE keyspace_name = ? AND table_name = ?";
        let values = [text_value(keyspace), text_value(table)];
        let mut colours = BTreeMap::new();
        if let Ok(rows) = self.ask(|client| client.query(text, &values)) {
            for row in rows.rows() {
                let colour = match text_at(&row, 1).as_str() {
                    "partition_key" => Colour::Red,
                    "clustering" => Colour::Cyan,
                    "static" => Colour::White,
                    _ => Colour::Magenta,
                };
                colours.insert(text_at(&row, 0), colour);
            }
        }
        if self.column_colours.len() >= TABLES_KNOWN_MAX {
            self.column_colours.clear();
        }
        self.column_colours.insert(place, colours.clone());
        colours
    }

    /// The plan of a statement, a line a step; nothing where the node does not explain it.
    fn explain(&mut self, text: &str) -> Vec<String> {
        let first_word = text.split_whitespace().next().unwrap_or_default().to_uppercase();
        let is_planned =
            matches!(first_word.as_str(), "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "BEGIN");
        if !is_planned || self.explains == Some(false) {
            return Vec::new();
        }
        let text = format!("EXPLAIN {text}");
        let rows = match self.ask(|client| client.query(&text, &[])) {
            Ok(rows) => rows,
            Err(ClientError::Refused(error)) if self.explains.is_none() => {
                // A node that does not know the word stumbles over the first one.
                if error.kind == ErrorKind::Syntax && error.message.starts_with("line 1:0 ") {
                    self.explains = Some(false);
                }
                return Vec::new();
            }
            Err(_) => return Vec::new(),
        };
        self.explains = Some(true);
        let columns = rows.metadata.columns.clone().unwrap_or_default();
        let position = |name: &str| columns.iter().position(|column| column.name.as_ref() == name);
        let (Some(plan), charge) = (position("plan"), position("estimated_charge")) else {
            return Vec::new();
        };
        let number = |row: &[Option<&[u8]>]| {
            let bytes = row.get(charge?).copied().flatten()?;
            Some(f64::from_be_bytes(bytes.try_into().ok()?))
        };
        rows.rows()
            .map(|row| match number(&row) {
                Some(charge) => format!("{} (estimated {charge:.2} RU)", text_at(&row, plan)),
                None => text_at(&row, plan),
            })
            .collect()
    }

    fn show_cost(&mut self, cost: &Cost) -> io::Result<()> {
        let time_ms = cost.time.as_secs_f64() * 1000.0;
        let charge = match cost.charge {
            Some(charge) => format!("{charge:.2} RU, "),
            None => String::new(),
        };
        let line = self.screen.paint(Colour::Cyan, &format!("cost: {charge}{time_ms:.1} ms"));
        self.screen.beside(&format!("{line}\n"))?;
        for step in &cost.plan {
            let line = self.screen.paint(Colour::Cyan, &format!("plan: {step}"));
            self.screen.beside(&format!("{line}\n"))?;
        }
        Ok(())
    }
}

/// The text in a cell; empty where there is none.
pub(crate) fn text_at(row: &[Option<&[u8]>], index: usize) -> String {
    let bytes = row.get(index).copied().flatten().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
