//! What becomes of a command or statement.

use std::io;
use std::path::{Path, PathBuf};

use protocol::{Consistency, Response, Rows};
use types::value::text::parse_uuid;
use types::value::{ListIter, MapIter};

use crate::client::Ask;
use crate::command::{CaptureChange, Command, DescribeKind, PagingChange, Shown, parse};
use crate::errors::describe;
use crate::help;
use crate::paint::Colour;
use crate::screen::ask_secret;
use crate::session::{PAGE_ROWS, Place, RowFormat, Session, text_at};
use crate::split::split;
use crate::table::columnize;

/// Lists of names are as wide as cqlsh makes them.
const NAMES_WIDTH: usize = 80;
/// Files that run each other are followed so far.
const SOURCE_DEPTH_MAX: usize = 16;

/// Whether the session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Exit,
}

impl Session {
    /// Runs everything in a text, one after the other. An error does not end it.
    pub(crate) fn run_text(&mut self, name: &str, text: &str, depth: usize) -> io::Result<Flow> {
        self.run_text_from(name, 0, text, depth)
    }

    /// The same with a text that so many lines stand before.
    pub(crate) fn run_text_from(
        &mut self,
        name: &str,
        lines_before: usize,
        text: &str,
        depth: usize,
    ) -> io::Result<Flow> {
        // A command may end with the text, as if with its line.
        let found = split(&format!("{text}\n"));
        for piece in found.complete {
            self.place = Place { name: name.to_owned(), line: lines_before + piece.line };
            if self.execute(&piece.text, depth)? == Flow::Exit {
                return Ok(Flow::Exit);
            }
            if self.is_cancelled() {
                return Ok(Flow::Next);
            }
        }
        // What has no end may have been cut, a DELETE before the half of its condition.
        if let Some(open) = found.open {
            self.place = Place { name: name.to_owned(), line: lines_before + open.line };
            self.fail("Incomplete statement at end of file")?;
        }
        Ok(Flow::Next)
    }

    /// Runs a statement or command.
    pub(crate) fn execute(&mut self, text: &str, depth: usize) -> io::Result<Flow> {
        match parse(text) {
            Err(error) => self.fail(&error)?,
            Ok(Command::Exit) => return Ok(Flow::Exit),
            Ok(Command::Source(file)) => return self.source(&file, depth),
            Ok(Command::Statement) => self.statement(text)?,
            Ok(command) => self.command(command, text)?,
        }
        self.screen.flush()?;
        Ok(Flow::Next)
    }

    fn command(&mut self, command: Command, text: &str) -> io::Result<()> {
        match command {
            Command::Describe(kind) => self.describe(kind, text),
            Command::Help(topics) => self.help(&topics),
            Command::Consistency(None) => {
                let level = self.settings.consistency;
                self.screen.say(&format!("Current consistency level is {level}."))
            }
            Command::Consistency(Some(level)) => {
                self.settings.consistency = level;
                self.screen.say(&format!("Consistency level set to {level}."))
            }
            Command::SerialConsistency(None) => {
                let level = self.settings.serial_consistency;
                self.screen.say(&format!("Current serial consistency level is {level}."))
            }
            Command::SerialConsistency(Some(level)) => {
                self.settings.serial_consistency = level;
                self.screen.say(&format!("Serial consistency level set to {level}."))
            }
            Command::Tracing(wanted) => {
                self.settings.tracing = self.switch("TRACING", self.settings.tracing, wanted)?;
                Ok(())
            }
            Command::Expand(wanted) => {
                self.settings.expand = self.switch("EXPAND", self.settings.expand, wanted)?;
                Ok(())
            }
            Command::Cost(wanted) => {
                self.settings.cost = self.switch("COST", self.settings.cost, wanted)?;
                Ok(())
            }
            Command::Paging(change) => self.paging(change),
            Command::Capture(change) => self.capture(change),
            Command::Copy(copy) => self.copy(&copy),
            Command::Login { role, password } => self.login(role, password),
            Command::Show(Shown::Version) => self.show_version(),
            Command::Show(Shown::Host) => self.show_host(),
            Command::Show(Shown::Session(id)) => match parse_uuid(&id) {
                Some(id) => self.show_trace(&id),
                None => self.fail(&format!("{id} is not the id of a session")),
            },
            Command::History(_) => self.fail("HISTORY is there where statements are typed"),
            Command::Clear => self.screen.clear(),
            // Handled by those who call.
            Command::Statement | Command::Source(_) | Command::Exit => Ok(()),
        }
    }

    fn switch(&mut self, name: &str, current: bool, wanted: Option<bool>) -> io::Result<bool> {
        let word = |is_on: bool| if is_on { "ON" } else { "OFF" };
        let line = match wanted {
            None => format!("{name} is {}", word(current)),
            Some(wanted) if wanted == current => format!("{name} is already {}", word(current)),
            Some(wanted) => format!("{name} set to {}", word(wanted)),
        };
        self.screen.say(&line)?;
        Ok(wanted.unwrap_or(current))
    }

    fn paging(&mut self, change: Option<PagingChange>) -> io::Result<()> {
        let is_on = self.settings.page_rows.is_some();
        let rows = self.settings.page_rows.unwrap_or(PAGE_ROWS);
        self.settings.page_rows = match change {
            None => self.switch("PAGING", is_on, None)?.then_some(rows),
            Some(PagingChange::On) => self.switch("PAGING", is_on, Some(true))?.then_some(rows),
            Some(PagingChange::Off) => self.switch("PAGING", is_on, Some(false))?.then_some(rows),
            Some(PagingChange::Rows(rows)) => Some(rows),
        };
        match self.settings.page_rows {
            Some(rows) => self.screen.say(&format!("Page size: {rows}")),
            None => Ok(()),
        }
    }

    fn capture(&mut self, change: Option<CaptureChange>) -> io::Result<()> {
        let current = self.screen.captured_into().map(str::to_owned);
        match (change, current) {
            (None, Some(file)) => {
                self.screen.say(&format!("Currently capturing query output to '{file}'."))
            }
            (None, None) => self.screen.say("Currently not capturing query output."),
            (Some(CaptureChange::Off), Some(_)) => self.screen.end_capture(),
            (Some(CaptureChange::Off), None) => self.fail("Not currently capturing output."),
            (Some(CaptureChange::To(_)), Some(file)) => self
                .fail(&format!("Already capturing output to {file}. Use CAPTURE OFF to disable.")),
            (Some(CaptureChange::To(file)), None) => {
                let path = at_home(&file).display().to_string();
                match self.screen.capture(&path) {
                    Ok(()) => self.screen.say(&format!("Now capturing query output to '{path}'.")),
                    Err(error) => {
                        self.fail(&format!("Could not open '{path}' for append: {error}"))
                    }
                }
            }
        }
    }

    fn source(&mut self, file: &str, depth: usize) -> io::Result<Flow> {
        if depth >= SOURCE_DEPTH_MAX {
            self.fail(&format!("Could not open '{file}': files run each other too deep"))?;
            return Ok(Flow::Next);
        }
        let path = at_home(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let place = self.place.clone();
                // A file is no person: its errors say where they are, and nothing waits for a key.
                let was_interactive = std::mem::replace(&mut self.screen.is_interactive, false);
                let text = text.trim_start_matches('\u{feff}');
                // EXIT in a file ends the file.
                let done = self.run_text(&path.display().to_string(), text, depth + 1);
                self.screen.is_interactive = was_interactive;
                self.place = place;
                done?;
            }
            Err(error) => self.fail(&format!("Could not open '{}': {error}", path.display()))?,
        }
        Ok(Flow::Next)
    }

    fn login(&mut self, role: String, password: Option<String>) -> io::Result<()> {
        let password = match password {
            Some(password) => password,
            None => match ask_secret("Password: ") {
                Ok(password) => password,
                Err(error) => {
                    return self.fail(&format!("cannot ask for a password: {error}; LOGIN ROLE 'PASSWORD' needs no terminal"));
                }
            },
        };
        let before = self.target.login.replace((role, password));
        if let Err(error) = self.connect() {
            self.target.login = before;
            return self.fail(&describe(&error));
        }
        Ok(())
    }

    fn help(&mut self, topics: &[String]) -> io::Result<()> {
        if topics.is_empty() {
            return self.screen.say(help::OVERVIEW.trim_end());
        }
        for topic in topics {
            match help::about(topic) {
                Some(text) => self.screen.say(text.trim_end())?,
                None => self.fail(&format!("*** No help on {topic}"))?,
            }
        }
        Ok(())
    }

    /// Where we are connected to.
    pub(crate) fn show_host(&mut self) -> io::Result<()> {
        let text = "SELECT cluster_name FROM system.local WHERE key = 'local'";
        match self.ask(|client| client.query(text, &[])) {
            Ok(rows) => {
                let name = rows.rows().next().map(|row| text_at(&row, 0)).unwrap_or_default();
                let name = self.screen.paint(Colour::Blue, &name);
                let address = self.target.address.clone();
                self.screen.say(&format!("Connected to {name} at {address}"))
            }
            Err(error) => self.fail(&describe(&error)),
        }
    }

    /// What speaks to what.
    pub(crate) fn show_version(&mut self) -> io::Result<()> {
        let text = "SELECT release_version, cql_version FROM system.local WHERE key = 'local'";
        let asked = self.ask(|client| Ok((client.query(text, &[])?, client.version())));
        match asked {
            Ok((rows, version)) => {
                let row = rows.rows().next().unwrap_or_default();
                self.screen.say(&format!(
                    "[helenus cql {} | Cassandra {} | CQL spec {} | Native protocol v{}]",
                    env!("CARGO_PKG_VERSION"),
                    text_at(&row, 0),
                    text_at(&row, 1),
                    version.number()
                ))
            }
            Err(error) => self.fail(&describe(&error)),
        }
    }

    fn describe(&mut self, kind: DescribeKind, text: &str) -> io::Result<()> {
        if self.settings.row_format != RowFormat::Table {
            return self.statement(text);
        }
        let message = match self.ask(|client| client.run(&Ask::new(text, Consistency::LocalOne))) {
            Ok(message) => message,
            Err(crate::client::ClientError::Refused(error)) => return self.fail(&error.message),
            Err(error) => return self.fail(&describe(&error)),
        };
        if let Response::Rows(rows) = &message.response {
            let text = match kind {
                DescribeKind::Keyspaces => {
                    let names = column(rows, "name");
                    format!("\n{}\n", columnize(&names, NAMES_WIDTH))
                }
                DescribeKind::Names => describe_names(rows, self.keyspace.is_none()),
                DescribeKind::Cluster => describe_cluster(rows),
                DescribeKind::Definitions => column(rows, "create_statement")
                    .iter()
                    .map(|definition| format!("\n{definition}\n"))
                    .collect(),
            };
            self.screen.result(&text)?;
        }
        for warning in message.warnings {
            self.screen.result(&format!("\nWarnings :\n{warning}\n\n"))?;
        }
        Ok(())
    }
}

fn column(rows: &Rows, name: &str) -> Vec<String> {
    let columns = rows.metadata.columns.as_deref().unwrap_or_default();
    match columns.iter().position(|column| column.name.as_ref() == name) {
        Some(index) => rows.rows().map(|row| text_at(&row, index)).collect(),
        None => Vec::new(),
    }
}

fn describe_names(rows: &Rows, names_keyspaces: bool) -> String {
    let mut keyspaces: Vec<(String, Vec<String>)> = Vec::new();
    for (keyspace, name) in column(rows, "keyspace_name").into_iter().zip(column(rows, "name")) {
        match keyspaces.last_mut() {
            Some((last, names)) if *last == keyspace => names.push(name),
            _ => keyspaces.push((keyspace, vec![name])),
        }
    }
    let mut out = String::new();
    for (keyspace, names) in &keyspaces {
        out.push('\n');
        if names_keyspaces {
            out.push_str(&format!(
                "Keyspace {keyspace}\n---------{}\n",
                "-".repeat(keyspace.len())
            ));
        }
        out.push_str(&columnize(names, NAMES_WIDTH));
    }
    if !keyspaces.is_empty() {
        out.push('\n');
    }
    out
}

fn describe_cluster(rows: &Rows) -> String {
    let first = |name: &str| column(rows, name).into_iter().next().unwrap_or_default();
    let mut out = format!(
        "\nCluster: {}\nPartitioner: {}\nSnitch: {}\n\n",
        first("cluster"),
        first("partitioner"),
        first("snitch")
    );
    let columns = rows.metadata.columns.as_deref().unwrap_or_default();
    let ranges = columns.iter().position(|column| column.name.as_ref() == "range_ownership");
    let row = rows.rows().next().unwrap_or_default();
    if let Some(bytes) = ranges.and_then(|index| row.get(index).copied().flatten()) {
        out.push_str("Range ownership:\n");
        for (token, hosts) in MapIter::new(bytes).map_while(Result::ok) {
            let hosts = ListIter::new(hosts).map_while(Result::ok).flatten();
            let hosts: Vec<_> = hosts.map(String::from_utf8_lossy).collect();
            let token = String::from_utf8_lossy(token);
            out.push_str(&format!(" {token:>39}  [{}]\n", hosts.join(", ")));
        }
        out.push('\n');
    }
    out
}

/// A path with the home folder in place of `~`.
pub(crate) fn at_home(file: &str) -> PathBuf {
    match (file.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(file),
    }
}
