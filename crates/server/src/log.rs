//! Where log lines go: the standard error stream, for a person or for a machine.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;

use parking_lot::Mutex;
use roles::LoginError;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat, LogLevel};
use crate::world;

/// The standard error stream, or nothing where it takes nothing: what is said is never worth a connection or the node.
struct Quiet;

impl Write for Quiet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = io::stderr().flush();
        Ok(())
    }
}

/// Installs the log for the whole process. Called once, before anything is logged.
pub(crate) fn install(log: &Log) {
    let level = match log.level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let kept = KeptLines.with_filter(LevelFilter::INFO.min(level));
    let lines = tracing_subscriber::fmt::layer().with_writer(|| Quiet);
    let registry = tracing_subscriber::registry().with(kept);
    match log.format {
        LogFormat::Text => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal());
            registry.with(lines.with_filter(level)).init();
        }
        LogFormat::Json => {
            registry.with(lines.json().flatten_event(true).with_filter(level)).init()
        }
    }
}

/// Lines of one kind, so many a second.
pub(crate) struct Throttle {
    per_second: u32,
    /// The second, what was admitted in it, and what was left out since.
    state: Mutex<(u64, u32, u64)>,
}

impl Throttle {
    pub(crate) const fn new(per_second: u32) -> Throttle {
        Throttle { per_second, state: Mutex::new((0, 0, 0)) }
    }

    /// Whether one more may be written, and how many were not before it.
    pub(crate) fn admit(&self, now_us: u64) -> Option<u64> {
        let second = now_us / 1_000_000;
        let (of, admitted, left_out) = &mut *self.state.lock();
        if *of != second {
            (*of, *admitted) = (second, 0);
        }
        if *admitted >= self.per_second {
            *left_out += 1;
            return None;
        }
        *admitted += 1;
        Some(std::mem::take(left_out))
    }
}

/// Lines about logins: a pool of connections logs in at once, and so does somebody who guesses.
const LOGINS_PER_SECOND: u32 = 20;
/// A name that a client gives may be any text.
const NAME_CHARS_MAX: usize = 64;

/// Somebody logged in, or did not.
pub(crate) fn login(address: IpAddr, name: &str, error: Option<&LoginError>) {
    static RIGHT: Throttle = Throttle::new(LOGINS_PER_SECOND);
    static WRONG: Throttle = Throttle::new(LOGINS_PER_SECOND);
    let client = address.to_canonical();
    let role: String = name.chars().take(NAME_CHARS_MAX).collect();
    match error {
        None => {
            if let Some(left_out) = RIGHT.admit(world::steady_us()) {
                tracing::info!(%client, ?role, left_out, "a client logged in");
            }
        }
        Some(error) => {
            if let Some(left_out) = WRONG.admit(world::steady_us()) {
                let why = reason(error);
                tracing::info!(%client, ?role, why, left_out, "a login failed");
            }
        }
    }
}

/// Without the name, which may be any text.
fn reason(error: &LoginError) -> &'static str {
    match error {
        LoginError::Wrong { .. } => "wrong name or password",
        LoginError::NotPermitted { .. } => "the role may not log in",
        LoginError::FirstPassword => "the first password, from elsewhere",
        LoginError::TooMany => "too many logins wait",
        LoginError::TooManySessions { .. } => "limits.sessions_per_role",
    }
}

/// So many lines are kept for `system_views.system_logs`.
const LINES_KEPT: usize = 1000;

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at_ms: i64,
    /// Which one of its millisecond.
    pub(crate) order: i32,
    pub(crate) level: &'static str,
    pub(crate) target: String,
    pub(crate) message: String,
}

static LINES: Mutex<VecDeque<Line>> = Mutex::new(VecDeque::new());

/// The last lines, oldest first.
pub(crate) fn kept() -> Vec<Line> {
    LINES.lock().iter().cloned().collect()
}

/// Keeps what is logged, so that it can be read by a query.
struct KeptLines;

impl<S: Subscriber> Layer<S> for KeptLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let at_ms = world::now_us() / 1000;
        let mut lines = LINES.lock();
        let order = match lines.back() {
            Some(last) if last.at_ms == at_ms => last.order.saturating_add(1),
            _ => 0,
        };
        while lines.len() >= LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(Line {
            at_ms,
            order,
            level: event.metadata().level().as_str(),
            target: event.metadata().target().to_owned(),
            message: format!("{}{}", message.text, message.fields),
        });
    }
}

/// The text of an event, and its fields behind it.
#[derive(Default)]
struct Message {
    text: String,
    fields: String,
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.text, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_what_is_left_out_is_counted() {
        let throttle = Throttle::new(2);
        let at = |second: u64| throttle.admit(second * 1_000_000 + 5);
        assert_eq!([at(1), at(1), at(1), at(1)], [Some(0), Some(0), None, None]);
        assert_eq!([at(2), at(2)], [Some(2), Some(0)]);
    }
}
