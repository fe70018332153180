//! Where output goes: the screen or a pipe, or the file that it is captured into; and what kind of screen it is.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::paint::Colour;

/// So long somebody is waited for who may type.
const TYPES_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Waits a moment for a line from a person; whether there is one.
pub(crate) fn has_input() -> io::Result<bool> {
    let input = io::stdin();
    let mut asked = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut asked, Some(&TYPES_WITHIN)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What was typed, up to a few bytes: a key may be more than one. None at the end of the input.
pub(crate) fn read_key() -> io::Result<Option<u8>> {
    let mut key = [0; 16];
    let count = rustix::io::read(io::stdin(), &mut key)?;
    Ok(key.first().copied().filter(|_| count > 0))
}

/// As long as it lives, the terminal hands over keys as they are typed, and does not show them.
pub(crate) struct OneByOne(Option<rustix::termios::Termios>);

impl OneByOne {
    pub(crate) fn begin() -> OneByOne {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let Ok(before) = tcgetattr(io::stdin()) else { return OneByOne(None) };
        let mut changed = before.clone();
        // Ctrl-C stays a signal.
        changed.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        let is_set = tcsetattr(io::stdin(), OptionalActions::Now, &changed).is_ok();
        OneByOne(is_set.then_some(before))
    }
}

impl Drop for OneByOne {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// The width of a terminal that does not tell.
const WIDTH_DEFAULT: usize = 80;

pub(crate) struct Screen {
    out: BufWriter<io::Stdout>,
    captured: Option<(String, BufWriter<File>)>,
    /// Whether a person types the statements, and reads the answers.
    pub(crate) is_interactive: bool,
    is_coloured: bool,
    /// Whether results are for a program, and nothing may stand between them.
    is_for_programs: bool,
}

impl Screen {
    pub(crate) fn new(is_interactive: bool, may_colour: bool, is_for_programs: bool) -> Screen {
        let is_dumb = matches!(std::env::var("TERM").as_deref(), Ok("dumb" | "") | Err(_));
        // What no-color.org asks of every program.
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Screen {
            out: BufWriter::new(io::stdout()),
            captured: None,
            is_interactive,
            is_for_programs,
            is_coloured: may_colour && !is_dumb && !is_unwanted && io::stdout().is_terminal(),
        }
    }

    pub(crate) fn is_captured(&self) -> bool {
        self.captured.is_some()
    }

    /// Whether results are written in colours.
    pub(crate) fn is_coloured(&self) -> bool {
        self.is_coloured && !self.is_captured()
    }

    /// The widest a table may be; no limit where no person looks at it.
    pub(crate) fn table_width_max(&self) -> Option<usize> {
        let is_seen = self.is_interactive && !self.is_captured() && io::stdout().is_terminal();
        is_seen.then(width)
    }

    /// A piece of a result.
    pub(crate) fn result(&mut self, text: &str) -> io::Result<()> {
        match &mut self.captured {
            Some((_, file)) => file.write_all(text.as_bytes()),
            None => self.out.write_all(text.as_bytes()),
        }
    }

    /// What accompanies a result.
    pub(crate) fn beside(&mut self, text: &str) -> io::Result<()> {
        if self.is_for_programs {
            self.flush()?;
            return io::stderr().write_all(text.as_bytes());
        }
        self.result(text)
    }

    /// A remark that is never captured.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        if self.is_for_programs {
            return self.beside(&format!("{text}\n"));
        }
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// A line to standard error, after everything before it.
    pub(crate) fn complain(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        let is_coloured = self.is_coloured && io::stderr().is_terminal();
        let mut line = Colour::Red.paint(text, is_coloured);
        line.push('\n');
        io::stderr().write_all(line.as_bytes())
    }

    pub(crate) fn paint(&self, colour: Colour, text: &str) -> String {
        colour.paint(text, self.is_coloured())
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some((_, file)) = &mut self.captured {
            file.flush()?;
        }
        self.out.flush()
    }

    pub(crate) fn captured_into(&self) -> Option<&str> {
        self.captured.as_ref().map(|(name, _)| name.as_str())
    }

    /// Results go to the end of that file from now on.
    pub(crate) fn capture(&mut self, name: &str) -> io::Result<()> {
        let file = File::options().append(true).create(true).open(name)?;
        self.captured = Some((name.to_owned(), BufWriter::new(file)));
        Ok(())
    }

    pub(crate) fn end_capture(&mut self) -> io::Result<()> {
        self.flush()?;
        self.captured = None;
        Ok(())
    }

    /// Empties the screen.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[2J\x1b[H")?;
        self.flush()
    }
}

/// Of the terminal that output goes to.
pub(crate) fn width() -> usize {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => WIDTH_DEFAULT,
    }
}

/// Asks for a secret on the terminal, and does not show it.
pub fn ask_secret(prompt: &str) -> io::Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    use std::io::BufRead;

    let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(prompt.as_bytes())?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let mut secret = String::new();
    let read = io::BufReader::new(&terminal).read_line(&mut secret);
    // The terminal is as it was, whatever happened.
    tcsetattr(&terminal, OptionalActions::Flush, &before)?;
    terminal.write_all(b"\n")?;
    read?;
    Ok(secret.trim_end_matches(['\n', '\r']).to_owned())
}
