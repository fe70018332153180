//! Statements that took long or cost much: told in the log, and kept for `system_helenus.slow_statements`. What they
//! were about is hidden, unless somebody wants it otherwise: a log is read by more people than a table.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use units::Charge;

use crate::log::Throttle;
use crate::world;

/// So many are kept; the oldest go first.
const KEPT_MAX: usize = 256;
/// So much is kept of the text of one.
const TEXT_CHARS_MAX: usize = 1000;
/// So many lines a second are written; how many were left out is told with the next.
const LINES_PER_SECOND: u32 = 10;

/// What their lines in the log are told by.
pub(crate) const SLOW_STATEMENTS: &str = module_path!();

/// Which statements are slow or costly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// Those that took so long; zero: none.
    pub(crate) slow_after: Duration,
    /// Those that cost so much; zero: none.
    pub(crate) costly: Charge,
    /// Literals of statements that were not prepared are shown.
    pub(crate) shows_values: bool,
}

/// A statement that was one of them.
#[derive(Clone, Debug)]
pub(crate) struct SlowStatement {
    /// Counted from one, since the start.
    pub(crate) number: i64,
    pub(crate) at_ms: i64,
    /// `slow`, `costly`, or both.
    pub(crate) reason: &'static str,
    pub(crate) took: Duration,
    pub(crate) charge: Charge,
    pub(crate) rows: u64,
    /// The name of its error, if it failed; the text of one may hold values.
    pub(crate) error: Option<&'static str>,
    pub(crate) client: IpAddr,
    pub(crate) role: Option<Arc<str>>,
    /// `keyspace.table`, where it is about one.
    pub(crate) table: Option<String>,
    /// That of names without one in its text.
    pub(crate) keyspace: Option<Arc<str>>,
    /// It is one statement that reads or writes, and all of its text is kept.
    pub(crate) is_explainable: bool,
    pub(crate) text: String,
}

/// Those that were met lately.
pub(crate) struct SlowStatements {
    thresholds: Thresholds,
    kept: Mutex<(i64, VecDeque<SlowStatement>)>,
    lines: Throttle,
}

impl SlowStatements {
    pub(super) fn new(thresholds: Thresholds) -> SlowStatements {
        SlowStatements {
            thresholds,
            kept: Mutex::default(),
            lines: Throttle::new(LINES_PER_SECOND),
        }
    }

    /// Why one that took and cost so much is one of them, if it is.
    #[inline]
    pub(super) fn reason(&self, took: Duration, charge: Charge) -> Option<&'static str> {
        let Thresholds { slow_after, costly, .. } = self.thresholds;
        let is_slow = took >= slow_after && !slow_after.is_zero();
        let is_costly = charge.micros() >= costly.micros() && costly.micros() > 0;
        match (is_slow, is_costly) {
            (false, false) => None,
            (true, false) => Some("slow"),
            (false, true) => Some("costly"),
            (true, true) => Some("slow and costly"),
        }
    }

    /// Keeps one, and tells of it. Its number and text are made here; `texts` are those of its parts.
    #[cold]
    pub(super) fn add<'t>(
        &self,
        mut statement: SlowStatement,
        texts: impl Iterator<Item = Cow<'t, str>>,
    ) {
        for text in texts {
            let room = TEXT_CHARS_MAX.saturating_sub(statement.text.chars().count());
            if room == 0 {
                break;
            }
            if !statement.text.is_empty() {
                statement.text.push_str("; ");
            }
            let shown = match self.thresholds.shows_values {
                true => text,
                false => Cow::Owned(without_values(&text)),
            };
            statement.text.extend(shown.chars().take(room));
            statement.is_explainable &= shown.chars().nth(room).is_none();
        }
        if let Some(left_out) = self.lines.admit(world::steady_us()) {
            tracing::warn!(
                took_ms = statement.took.as_millis() as u64,
                charge = statement.charge.to_f64(),
                rows = statement.rows,
                table = statement.table.as_deref().unwrap_or(""),
                client = %statement.client,
                role = statement.role.as_deref().unwrap_or(""),
                error = statement.error.unwrap_or(""),
                left_out,
                statement = %statement.text,
                "a {} statement", statement.reason
            );
        }
        let mut kept = self.kept.lock();
        let (last, statements) = &mut *kept;
        *last += 1;
        statement.number = *last;
        while statements.len() >= KEPT_MAX {
            statements.pop_front();
        }
        statements.push_back(statement);
    }

    /// How many there were since the start.
    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.kept.lock().0).unwrap_or_default()
    }

    /// The one of a number, while it is kept.
    pub(super) fn find(&self, number: i64) -> Option<SlowStatement> {
        self.kept.lock().1.iter().find(|it| it.number == number).cloned()
    }

    /// Those that are kept, oldest first.
    pub(crate) fn list(&self) -> Vec<SlowStatement> {
        self.kept.lock().1.iter().cloned().collect()
    }
}

/// The text of a statement with `?` in the place of its literals. Names in quotes stay, comments go.
pub(super) fn without_values(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if let Some(body) = rest.strip_prefix("$$") {
            out.push('?');
            body.find("$$").map_or(rest.len(), |end| end + 4)
        } else if first == '\'' {
            out.push('?');
            quoted_bytes(rest, '\'')
        } else if first == '"' {
            let length = quoted_bytes(rest, '"');
            out.push_str(rest.get(..length).unwrap_or(rest));
            length
        } else if rest.starts_with("--") || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let length = word_bytes(rest);
            let word = rest.get(..length).unwrap_or(rest);
            out.push_str(if is_literal(word) { "?" } else { word });
            length
        } else {
            out.push(first);
            first.len_utf8()
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// The bytes of what stands in quotes at the beginning, with them; two quotes are one within.
fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return at + quote.len_utf8();
        }
    }
    text.len()
}

/// The bytes of the word at the beginning: a name, a number, a uuid.
fn word_bytes(text: &str) -> usize {
    if text.get(..UUID_CHARS).is_some_and(is_uuid) {
        return UUID_CHARS;
    }
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    let mut last = ' ';
    let end = text.find(|character: char| {
        let is_exponent = is_number && matches!(last, 'e' | 'E') && matches!(character, '+' | '-');
        let goes_on = character.is_ascii_alphanumeric()
            || character == '_'
            || is_number && (character == '.' || is_exponent);
        last = character;
        !goes_on
    });
    end.unwrap_or(text.len())
}

const UUID_CHARS: usize = 36;

fn is_uuid(text: &str) -> bool {
    text.char_indices().all(|(at, character)| match at {
        8 | 13 | 18 | 23 => character == '-',
        _ => character.is_ascii_hexdigit(),
    })
}

/// Whether a word is a value: a number, a blob, a uuid, a duration, a truth.
fn is_literal(word: &str) -> bool {
    let is_iso_duration = word.strip_prefix('P').is_some_and(|rest| {
        let has_digit = rest.contains(|it: char| it.is_ascii_digit());
        has_digit && rest.chars().all(|it| it.is_ascii_digit() || "YMWDTHS".contains(it))
    });
    word.starts_with(|first: char| first.is_ascii_digit())
        || word.len() == UUID_CHARS && is_uuid(word)
        || is_iso_duration
        || ["true", "false", "nan", "infinity"].iter().any(|it| word.eq_ignore_ascii_case(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_and_names_are_not() {
        let cases = [
            ("SELECT * FROM ks.t1 WHERE k = 12", "SELECT * FROM ks.t1 WHERE k = ?"),
            ("INSERT INTO t (a) VALUES ('it''s', -1.5e-3)", "INSERT INTO t (a) VALUES (?, -?)"),
            ("SELECT \"My 1\" FROM t WHERE a = $$secret$$", "SELECT \"My 1\" FROM t WHERE a = ?"),
            ("UPDATE t SET a = 0xCAFE, b = 1h30m, c = TRUE", "UPDATE t SET a = ?, b = ?, c = ?"),
            (
                "DELETE FROM t WHERE u = deadbeef-29bb-11e5-b345-feff819cdc9f",
                "DELETE FROM t WHERE u = ?",
            ),
            ("SELECT a -- 'secret'\nFROM t /* 5 */ LIMIT 5", "SELECT a \nFROM t  LIMIT ?"),
            ("CREATE ROLE ann WITH PASSWORD = 'x'", "CREATE ROLE ann WITH PASSWORD = ?"),
            (
                "SELECT a FROM t WHERE d = P1Y AND s = 'open",
                "SELECT a FROM t WHERE d = ? AND s = ?",
            ),
            ("SELECT é FROM t WHERE k = ?", "SELECT é FROM t WHERE k = ?"),
            ("$$open", "?"),
            ("/* open", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(without_values(text), expected, "{text}");
        }
    }

    #[test]
    fn thresholds_choose_and_the_ring_is_bounded() {
        let slow = SlowStatements::new(Thresholds {
            slow_after: Duration::from_millis(500),
            costly: Charge::from_micros(10_000_000),
            shows_values: false,
        });
        let (quick, long) = (Duration::from_millis(499), Duration::from_millis(500));
        let (cheap, dear) = (Charge::from_micros(9_999_999), Charge::from_micros(10_000_000));
        assert_eq!(slow.reason(quick, cheap), None);
        assert_eq!(slow.reason(long, cheap), Some("slow"));
        assert_eq!(slow.reason(quick, dear), Some("costly"));
        assert_eq!(slow.reason(long, dear), Some("slow and costly"));
        for _ in 0..KEPT_MAX + 10 {
            let statement = SlowStatement {
                number: 0,
                at_ms: 1,
                reason: "slow",
                took: long,
                charge: cheap,
                rows: 0,
                error: None,
                client: "127.0.0.1".parse().unwrap(),
                role: None,
                table: None,
                keyspace: None,
                is_explainable: true,
                text: String::new(),
            };
            let texts = ["SELECT 1".to_owned(), "x".repeat(2 * TEXT_CHARS_MAX)];
            slow.add(statement, texts.into_iter().map(Cow::Owned));
        }
        let kept = slow.list();
        assert_eq!((kept.len(), kept[0].number), (KEPT_MAX, 11));
        assert!(kept.iter().all(|it| !it.is_explainable), "it was cut");
        assert_eq!(slow.find(11).map(|it| it.number), Some(11));
        assert!(slow.find(10).is_none(), "it had to make room");
        assert!(kept[0].text.starts_with("SELECT ?; xxx"), "{}", kept[0].text);
        assert!(kept[0].text.chars().count() <= TEXT_CHARS_MAX + 2);
        let never = SlowStatements::new(Thresholds {
            slow_after: Duration::ZERO,
            costly: Charge::ZERO,
            shows_values: false,
        });
        assert_eq!(never.reason(Duration::from_secs(9), dear), None);
    }
}
