//! A line that says how far a long chore is, for a person who waits at a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::world;

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(100);
const BAR_WIDTH: u64 = 30;

/// Counts up, and shows it where somebody can see it.
pub(crate) struct Progress {
    verb: &'static str,
    total: Option<u64>,
    done: u64,
    shown_at: Option<Instant>,
    is_visible: bool,
}

impl Progress {
    /// Nothing yet of so much; without a total only the count is shown.
    pub(crate) fn new(verb: &'static str, total: Option<u64>) -> Progress {
        let is_visible = std::io::stderr().is_terminal();
        Progress { verb, total, done: 0, shown_at: None, is_visible }
    }

    /// So much more is done.
    pub(crate) fn add(&mut self, count: u64) {
        self.done += count;
        if !self.is_visible {
            return;
        }
        let now = world::now();
        if self.shown_at.is_none_or(|at| now.duration_since(at) >= EVERY) {
            self.shown_at = Some(now);
            self.show();
        }
    }

    /// The last state stays on the screen.
    pub(crate) fn end(mut self) {
        if self.is_visible && self.shown_at.is_some() {
            self.show();
            let _ = writeln!(std::io::stderr());
        }
        self.is_visible = false;
    }

    fn show(&self) {
        let line = match self.total {
            Some(total) if total > 0 => {
                let share = (self.done.min(total) as f64 / total as f64).clamp(0.0, 1.0);
                let full = (share * BAR_WIDTH as f64) as usize;
                let empty = BAR_WIDTH as usize - full;
                format!(
                    "[{}{}] {:3.0} % {} {}",
                    "=".repeat(full),
                    " ".repeat(empty),
                    share * 100.0,
                    self.verb,
                    self.done
                )
            }
            _ => format!("{} {}", self.verb, self.done),
        };
        // Whoever looked may be gone.
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        let _ = std::io::stderr().flush();
    }
}
