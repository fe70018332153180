//! `helenus cql`: a shell for people and scripts, and the client that it speaks through. Everything that people do in
//! cqlsh, without Python; against a node of Cassandra as well.
//!
//! It must not know the server: it sees what every client sees. Clocks and certificates are handed in.
//!
//! Invariants: what goes to standard output is what was asked for, remarks about it and errors are told apart; output
//! to a pipe has no colours, is never cut and never waits for a key.
//!
//! Reading order: `split` (text → statements), `command` (what the shell itself understands), `session` and `execute`
//! (what becomes of both), `values`, `paint` and `table` (how results look), `errors`; `copy` with `field` and
//! `records`; `trace`; `interactive` with `complete`, `keywords` and `names`. The wire: `client`, `secure`, `class_name`;
//! `table_shape` and `cells` serve `helenus export` and `import` as well.

pub mod cells;
mod class_name;
mod client;
mod command;
mod complete;
mod copy;
mod errors;
mod execute;
mod field;
mod help;
mod interactive;
mod keywords;
mod names;
mod paint;
pub mod records;
mod screen;
mod secure;
mod session;
mod split;
mod table;
mod table_shape;
#[cfg(test)]
mod testing;
mod trace;
mod values;

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::Instant;

pub use client::{Ask, Bound, Client, ClientError, Target, charge_of};
pub use screen::ask_secret;
pub use secure::Trust;
pub use session::RowFormat;
pub use table_shape::{BindError, Column, RowValues, TableShape, Writers};

use crate::execute::Flow;
use crate::screen::Screen;
use crate::session::Session;

/// The code of a process whose statements did not all succeed, as that of cqlsh.
const STATEMENT_FAILED: u8 = 2;

/// Where statements come from.
#[derive(Clone, Debug)]
pub enum Input {
    /// Typed, or piped in.
    Standard,
    /// Given.
    Text(String),
    File(PathBuf),
}

/// What a shell is started with.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: Target,
    pub keyspace: Option<String>,
    pub input: Input,
    pub row_format: RowFormat,
    /// Whether colours are allowed; only a terminal gets them.
    pub may_colour: bool,
    /// Where what is typed is kept.
    pub history: Option<PathBuf>,
    pub now: fn() -> Instant,
}

/// Why a shell did not start.
#[derive(Debug)]
pub enum StartError {
    Client(ClientError),
    /// A file, or the terminal.
    Io {
        what: String,
        error: io::Error,
    },
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Client(error) => {
                write!(f, "{error}")?;
                f.write_str(match error {
                    ClientError::Unreachable { .. } => "; is it running? helenus cql HOST:PORT names another",
                    ClientError::LoginWanted => {
                        ": give -u ROLE, and the password when it is asked for, in HELENUS_PASSWORD or with --password-file"
                    }
                    ClientError::TlsWanted => ": give --tls, --ca FILE or --insecure",
                    ClientError::Broken(_) => "; does the node want TLS (--tls)?",
                    _ => "",
                })
            }
            StartError::Io { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

/// Runs the shell; what it returns is the code that the process ends with.
pub fn run(options: Options) -> Result<u8, StartError> {
    let Options { target, keyspace, input, .. } = options;
    let is_interactive = matches!(input, Input::Standard) && io::stdin().is_terminal();
    let text = match &input {
        Input::Standard => None,
        // Nothing was cut off here: the last statement needs no semicolon.
        Input::Text(text) => Some(("<stdin>".to_owned(), format!("{text}\n;"))),
        Input::File(path) => {
            let what = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| StartError::Io { what: what.clone(), error })?;
            Some((what, text.trim_start_matches('\u{feff}').to_owned()))
        }
    };
    let is_for_programs = options.row_format != RowFormat::Table;
    let screen = Screen::new(is_interactive, options.may_colour, is_for_programs);
    let mut session = Session::open(target, keyspace, options.row_format, screen, options.now)
        .map_err(StartError::Client)?;
    let done = match text {
        Some((name, text)) => session.run_text(&name, &text, 0).and_then(|_| session.end()),
        None if is_interactive => {
            // A person has seen the errors; the end of the session is no failure.
            interactive::run(session, options.history.as_deref()).map(|_| false)
        }
        None => piped(&mut session),
    };
    match done {
        Ok(has_failed) => Ok(if has_failed { STATEMENT_FAILED } else { 0 }),
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(StartError::Io { what: "output".to_owned(), error }),
    }
}

/// Statements from a pipe, each as soon as it is there.
fn piped(session: &mut Session) -> io::Result<bool> {
    let mut input = io::stdin().lock();
    let mut text = String::new();
    // The lines before the text that waits for its end.
    let mut lines_before = 0;
    loop {
        let count = input.read_line(&mut text)?;
        let is_end = count == 0;
        if is_end || split::split(&text).open.is_none() {
            let flow = session.run_text_from("<stdin>", lines_before, &text, 0)?;
            if is_end || flow == Flow::Exit {
                return session.end();
            }
            lines_before += text.lines().count();
            text.clear();
        }
    }
}

impl Session {
    /// Everything is out; whether something failed.
    fn end(&mut self) -> io::Result<bool> {
        self.screen.flush()?;
        Ok(self.has_failed)
    }
}
