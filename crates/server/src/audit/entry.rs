//! What a line of the audit log says.

use std::fmt::Write as _;
use std::net::SocketAddr;

use types::UuidText;

use crate::config::Category;

/// Who everybody is where nobody logs in.
pub(super) const ANONYMOUS: &str = "anonymous";
/// So much is kept of a name, which a client that logs in may choose freely.
const NAME_CHARS_MAX: usize = 128;
/// So much is kept of what was done.
const OPERATION_CHARS_MAX: usize = 4096;

/// Cassandra's types of entries, as far as they happen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryType {
    Select,
    Update,
    Delete,
    Batch,
    Truncate,
    /// The other definitions, by the name of their type.
    Definition(&'static str),
    /// Roles and permissions, likewise.
    Roles(&'static str),
    Prepare,
    Use,
    Describe,
    /// Not in Cassandra: a plan was shown.
    Explain,
    RequestFailure,
    LoginError,
    LoginSuccess,
    Unauthorized,
    /// Not in Cassandra: entries are missing.
    Lost,
}

impl EntryType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            EntryType::Select => "SELECT",
            EntryType::Update => "UPDATE",
            EntryType::Delete => "DELETE",
            EntryType::Batch => "BATCH",
            EntryType::Truncate => "TRUNCATE",
            EntryType::Definition(name) | EntryType::Roles(name) => name,
            EntryType::Prepare => "PREPARE_STATEMENT",
            EntryType::Use => "USE_KEYSPACE",
            EntryType::Describe => "DESCRIBE",
            EntryType::Explain => "EXPLAIN",
            EntryType::RequestFailure => "REQUEST_FAILURE",
            EntryType::LoginError => "LOGIN_ERROR",
            EntryType::LoginSuccess => "LOGIN_SUCCESS",
            EntryType::Unauthorized => "UNAUTHORIZED_ATTEMPT",
            EntryType::Lost => "ENTRIES_LOST",
        }
    }

    pub(crate) fn category(self) -> Category {
        match self {
            EntryType::Select => Category::Query,
            EntryType::Update | EntryType::Delete | EntryType::Batch => Category::Dml,
            EntryType::Truncate | EntryType::Definition(_) => Category::Ddl,
            EntryType::Roles(_) => Category::Dcl,
            EntryType::Prepare => Category::Prepare,
            EntryType::Use | EntryType::Describe | EntryType::Explain => Category::Other,
            EntryType::RequestFailure | EntryType::Lost => Category::Error,
            EntryType::LoginError | EntryType::LoginSuccess | EntryType::Unauthorized => {
                Category::Auth
            }
        }
    }
}

/// Something that was done, or tried.
pub(crate) struct Entry<'a> {
    pub(crate) kind: EntryType,
    /// The role; of a login that failed, the name that was given.
    pub(crate) user: Option<&'a str>,
    pub(crate) source: SocketAddr,
    pub(crate) at_ms: i64,
    /// What the entries of a batch have in common.
    pub(crate) batch: Option<u128>,
    /// The keyspace that it is about.
    pub(crate) keyspace: Option<&'a str>,
    /// The keyspace in use, which is shown where it is about none.
    pub(crate) in_use: Option<&'a str>,
    /// The table or type.
    pub(crate) scope: Option<&'a str>,
    pub(crate) operation: &'a str,
}

impl Entry<'_> {
    /// As Cassandra writes it. What a client chose cannot begin another line or, before the last, another field.
    pub(super) fn line(&self, host: SocketAddr) -> String {
        let category = self.kind.category();
        let category =
            Category::ALL.iter().find(|(it, _)| *it == category).map_or("", |(_, name)| name);
        let mut line = String::with_capacity(192 + self.operation.len());
        line.push_str("user:");
        push_name(&mut line, self.user.unwrap_or(ANONYMOUS));
        let (source, port) = (self.source.ip().to_canonical(), self.source.port());
        let _ = write!(line, "|host:{host}|source:/{source}");
        if port > 0 {
            let _ = write!(line, "|port:{port}");
        }
        let _ =
            write!(line, "|timestamp:{}|type:{}|category:{category}", self.at_ms, self.kind.name());
        if let Some(batch) = self.batch {
            let _ = write!(line, "|batch:{}", UuidText(batch));
        }
        let keyspace = self.keyspace.or(self.in_use);
        for (field, value) in [("|ks:", keyspace), ("|scope:", self.scope)] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                line.push_str(field);
                push_name(&mut line, value);
            }
        }
        line.push_str("|operation:");
        push_safe(&mut line, self.operation, OPERATION_CHARS_MAX, |_| false);
        line.push('\n');
        line
    }
}

fn push_name(line: &mut String, name: &str) {
    push_safe(line, name, NAME_CHARS_MAX, |character| character == '|');
}

/// Control characters, and others that would be misread, as Rust writes them in a literal.
fn push_safe(line: &mut String, text: &str, chars_max: usize, is_special: impl Fn(char) -> bool) {
    let mut characters = text.chars();
    for character in characters.by_ref().take(chars_max) {
        match character {
            special if is_special(special) => {
                let _ = write!(line, "\\u{{{:x}}}", u32::from(special));
            }
            control if control.is_control() || matches!(control, '\u{2028}' | '\u{2029}') => {
                line.extend(control.escape_default());
            }
            plain => line.push(plain),
        }
    }
    if characters.next().is_some() {
        line.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(user: &str, operation: &str) -> String {
        let entry = Entry {
            kind: EntryType::Update,
            user: Some(user),
            source: "127.0.0.1:5000".parse().unwrap(),
            at_ms: 77,
            batch: None,
            keyspace: Some("ks"),
            in_use: Some("other"),
            scope: Some("t"),
            operation,
        };
        entry.line("127.0.0.1:9042".parse().unwrap())
    }

    #[test]
    fn a_line_is_one_line_whatever_a_client_says() {
        let head = "|host:127.0.0.1:9042|source:/127.0.0.1|port:5000|timestamp:77|type:UPDATE|category:DML|ks:ks|scope:t|operation:";
        let cases = [
            ("joe", "SELECT 1", "joe", "SELECT 1".to_owned()),
            ("a|type:X", "a\n|b\u{1b}[0m", "a\\u{7c}type:X", "a\\n|b\\u{1b}[0m".to_owned()),
            ("j\r\n", &"x".repeat(5000), "j\\r\\n", format!("{}...", "x".repeat(4096))),
        ];
        for (user, operation, shown_user, shown) in cases {
            assert_eq!(line(user, operation), format!("user:{shown_user}{head}{shown}\n"));
        }
    }
}
