//! Statements as a person types them: lines that go on, completion, history.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustyline::completion::{Completer, FilenameCompleter};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::history::{DefaultHistory, History, SearchDirection};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::command::{Command, parse};
use crate::complete::complete;
use crate::execute::Flow;
use crate::names::Names;
use crate::session::{Place, Session};
use crate::split::split;

/// Statements that are remembered.
const HISTORY_MAX: usize = 10_000;
/// Statements that HISTORY shows.
const HISTORY_SHOWN: usize = 50;

/// Runs what is typed until the person leaves.
pub(crate) fn run(session: Session, history: Option<&Path>) -> io::Result<bool> {
    let session = Rc::new(RefCell::new(session));
    greet(&mut session.borrow_mut())?;
    let helper = Assistant {
        session: Rc::clone(&session),
        names: RefCell::new(Names::default()),
        files: FilenameCompleter::new(),
    };
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(HISTORY_MAX)
        .map_err(io::Error::other)?
        .build();
    let mut editor: Editor<Assistant, DefaultHistory> =
        Editor::with_config(config).map_err(io::Error::other)?;
    editor.set_helper(Some(helper));
    let history = history.map(Path::to_path_buf).and_then(open_history);
    if let Some(path) = &history {
        // A history that cannot be read is no reason not to start.
        let _ = editor.load_history(path);
    }
    loop {
        let prompt = prompt(&session.borrow());
        match editor.readline(prompt.as_str()) {
            Ok(text) => {
                let kept = text.trim_end();
                if !kept.is_empty() && !is_secret(kept) {
                    let _ = editor.add_history_entry(kept);
                    if let Some(path) = &history {
                        let _ = editor.append_history(path);
                    }
                }
                if let Ok(Command::History(count)) = parse(kept.trim_end_matches(';')) {
                    show_history(&mut session.borrow_mut(), editor.history(), count)?;
                    continue;
                }
                if run_typed(&mut session.borrow_mut(), &text)? == Flow::Exit {
                    break;
                }
            }
            // What was typed is dropped.
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {}
            Err(ReadlineError::Eof) => break,
            Err(ReadlineError::Io(error)) => return Err(error),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    session.borrow_mut().screen.flush()?;
    Ok(session.borrow().has_failed)
}

fn greet(session: &mut Session) -> io::Result<()> {
    session.show_host()?;
    session.show_version()?;
    session.screen.say("Use HELP for help.")?;
    session.screen.flush()
}

fn prompt(session: &Session) -> String {
    let role = session.target.login.as_ref().map(|(role, _)| format!("{role}@"));
    let keyspace = session.keyspace.as_ref().map(|keyspace| format!(":{keyspace}"));
    format!("{}cql{}> ", role.unwrap_or_default(), keyspace.unwrap_or_default())
}

/// Runs what was typed. A Ctrl-C since its Enter is meant for it, however early it came.
fn run_typed(session: &mut Session, text: &str) -> io::Result<Flow> {
    let found = split(text);
    for (place, piece) in found.complete.into_iter().chain(found.open).enumerate() {
        if session.is_cancelled() {
            // What was typed behind a statement goes with it; that it was cancelled has been said.
            if place == 0 {
                session.screen.complain("Cancelled: nothing was sent")?;
            }
            break;
        }
        session.place = Place { name: "<stdin>".to_owned(), line: piece.line };
        if session.execute(&piece.text, 0)? == Flow::Exit {
            return Ok(Flow::Exit);
        }
    }
    session.wants_again();
    Ok(Flow::Next)
}

/// Whether a password may be in it.
fn is_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("password") || text.trim_start().starts_with("login")
}

fn show_history(
    session: &mut Session,
    history: &DefaultHistory,
    count: Option<usize>,
) -> io::Result<()> {
    let first = history.len().saturating_sub(count.unwrap_or(HISTORY_SHOWN));
    for index in first..history.len() {
        if let Ok(Some(found)) = history.get(index, SearchDirection::Forward) {
            session.screen.say(&found.entry)?;
        }
    }
    session.screen.flush()
}

/// The file of the history, in a folder that is there; no history if that cannot be.
fn open_history(path: PathBuf) -> Option<PathBuf> {
    std::fs::create_dir_all(path.parent()?).ok()?;
    Some(path)
}

/// What the editor asks while somebody types.
struct Assistant {
    session: Rc<RefCell<Session>>,
    names: RefCell<Names>,
    files: FilenameCompleter,
}

impl Assistant {
    /// Asks the node for its names, where they may have changed.
    fn refresh(&self) {
        let mut session = self.session.borrow_mut();
        if !session.names_stale {
            return;
        }
        // Without an answer there are the names of before.
        if let Ok(names) = session.ask(Names::read) {
            *self.names.borrow_mut() = names;
            session.names_stale = false;
        }
    }
}

impl Helper for Assistant {}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        match self.session.borrow().screen.is_coloured() {
            true => Cow::Owned(format!("\x1b[2m{hint}\x1b[0m")),
            false => Cow::Borrowed(hint),
        }
    }
}

/// What is shown behind the cursor and is never taken over.
struct Remark(&'static str);

impl Hint for Remark {
    fn display(&self) -> &str {
        self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Assistant {
    type Hint = Remark;

    /// Whoever pressed Enter and sees no answer is told what is missing.
    fn hint(&self, line: &str, position: usize, _context: &Context<'_>) -> Option<Remark> {
        let is_new_line = position == line.len() && line.ends_with('\n');
        is_new_line.then_some(Remark("  ... goes on; a statement ends with ;"))
    }
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..position).unwrap_or_default();
        // Inside of a text only files are completed, where a command takes one.
        let statement = split(before).open.map(|piece| piece.text).unwrap_or_default();
        if !statement.matches('\'').count().is_multiple_of(2) {
            let word = statement.split_whitespace().next().unwrap_or_default().to_uppercase();
            if !matches!(word.as_str(), "SOURCE" | "CAPTURE" | "COPY") {
                return Ok((position, Vec::new()));
            }
            let (start, files) = self.files.complete(line, position, context)?;
            return Ok((start, files.into_iter().map(|file| file.replacement).collect()));
        }
        self.refresh();
        let keyspace = self.session.borrow().keyspace.clone();
        Ok(complete(before, &self.names.borrow(), keyspace.as_deref()))
    }
}

impl Validator for Assistant {
    /// Enter goes to the next line until the statement has its end.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        // A Ctrl-C before this Enter, late for the statement before, is not meant for what was typed. Until the editor gives the terminal
        // back there is none: to the editor it is a key.
        self.session.borrow().wants_again();
        let text = format!("{}\n", context.input());
        Ok(match split(&text).open {
            Some(_) => ValidationResult::Incomplete,
            None => ValidationResult::Valid(None),
        })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test has the clock of its machine")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use protocol::Response;

    use super::*;
    use crate::client::Target;
    use crate::screen::Screen;
    use crate::session::RowFormat;
    use crate::testing::ready_node;

    /// Ctrl-C may come before the statement is on its way: it is not forgotten, and lasts for that statement alone.
    #[test]
    fn what_was_cancelled_before_it_began_is_not_sent() {
        static CANCELLED: AtomicBool = AtomicBool::new(false);
        let (address, node) = ready_node(Response::Void);
        let target = Target {
            address,
            login: None,
            trust: None,
            patience: Duration::from_secs(60),
            cancelled: Some(&CANCELLED),
        };
        let screen = Screen::new(true, false, false);
        let mut session =
            Session::open(target, None, RowFormat::Table, screen, Instant::now).unwrap();
        CANCELLED.store(true, Ordering::Relaxed);
        run_typed(&mut session, "DROP TABLE a; DROP TABLE b;").unwrap();
        run_typed(&mut session, "DROP TABLE c;").unwrap();
        drop(session);
        assert_eq!(node.join().unwrap(), 2, "the greeting, and what came later");
    }
}
