//! What the shell itself understands: everything else is a statement for the node.

use protocol::Consistency;

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// For the node.
    Statement,
    Describe(DescribeKind),
    /// Of these words; of all commands without any.
    Help(Vec<String>),
    /// Shown without one.
    Consistency(Option<Consistency>),
    SerialConsistency(Option<Consistency>),
    Tracing(Option<bool>),
    Expand(Option<bool>),
    Cost(Option<bool>),
    Paging(Option<PagingChange>),
    Source(String),
    Capture(Option<CaptureChange>),
    Copy(Copy),
    Login {
        role: String,
        password: Option<String>,
    },
    Show(Shown),
    History(Option<usize>),
    Clear,
    Exit,
}

/// What an answer to DESCRIBE is a list of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DescribeKind {
    Keyspaces,
    Names,
    Cluster,
    Definitions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PagingChange {
    On,
    Off,
    /// On, with so many rows a page.
    Rows(i32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaptureChange {
    Off,
    To(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Version,
    Host,
    Session(String),
}

/// COPY: a table to or from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) keyspace: Option<String>,
    pub(crate) table: String,
    /// All without any.
    pub(crate) columns: Vec<String>,
    pub(crate) is_import: bool,
    /// Standard input or output without one.
    pub(crate) file: Option<String>,
    /// Names in capital letters.
    pub(crate) options: Vec<(String, String)>,
}

/// What the commands of the shell begin with.
const OWN_WORDS: [&str; 20] = [
    "HELP",
    "?",
    "CONSISTENCY",
    "SERIAL",
    "TRACING",
    "EXPAND",
    "COST",
    "PAGING",
    "SOURCE",
    "CAPTURE",
    "COPY",
    "LOGIN",
    "SHOW",
    "HISTORY",
    "CLEAR",
    "CLS",
    "EXIT",
    "QUIT",
    "DESCRIBE",
    "DESC",
];

/// Reads a command. The error is for the person who typed it.
pub(crate) fn parse(text: &str) -> Result<Command, String> {
    let first: String = text
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '?')
        .collect::<String>()
        .to_uppercase();
    if !OWN_WORDS.contains(&first.as_str()) {
        return Ok(Command::Statement);
    }
    let improper = |hint: &str| format!("Improper {} command: {hint}", first.to_lowercase());
    let tokens = tokens(text).ok_or_else(|| improper("a text or name in quotes has no end"))?;
    let rest = tokens.get(1..).unwrap_or_default();
    let words: Vec<String> = rest.iter().map(Token::upper).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let switch = |words: &[&str]| match words {
        [] => Ok(None),
        ["ON"] => Ok(Some(true)),
        ["OFF"] => Ok(Some(false)),
        _ => Err(improper(&format!("{first} [ON|OFF]"))),
    };
    Ok(match first.as_str() {
        "HELP" | "?" => Command::Help(words.iter().map(|word| (*word).to_owned()).collect()),
        "CONSISTENCY" => Command::Consistency(level(&words, |_| true).map_err(|e| improper(&e))?),
        "SERIAL" => match words.as_slice() {
            ["CONSISTENCY", level_words @ ..] => Command::SerialConsistency(
                level(level_words, Consistency::is_serial).map_err(|e| improper(&e))?,
            ),
            _ => return Err(improper("SERIAL CONSISTENCY [SERIAL|LOCAL_SERIAL]")),
        },
        "TRACING" => Command::Tracing(switch(&words)?),
        "EXPAND" => Command::Expand(switch(&words)?),
        "COST" => Command::Cost(switch(&words)?),
        "PAGING" => {
            Command::Paging(paging(&words).ok_or_else(|| improper("PAGING [ON|OFF|ROWS]"))?)
        }
        "SOURCE" => match rest {
            [Token::Text(file)] => Command::Source(file.clone()),
            _ => return Err(improper("SOURCE 'FILE'")),
        },
        "CAPTURE" => match rest {
            [] => Command::Capture(None),
            [Token::Text(file)] => Command::Capture(Some(CaptureChange::To(file.clone()))),
            [Token::Word(off)] if off.eq_ignore_ascii_case("off") => {
                Command::Capture(Some(CaptureChange::Off))
            }
            _ => return Err(improper("CAPTURE ['FILE'|OFF]")),
        },
        "COPY" => Command::Copy(copy(rest).ok_or_else(|| {
            improper("COPY TABLE [(COLUMN, ...)] TO|FROM 'FILE' [WITH OPTION = VALUE [AND ...]]")
        })?),
        "LOGIN" => match rest {
            [role] => Command::Login { role: role.as_name(), password: None },
            [role, Token::Text(password)] => {
                Command::Login { role: role.as_name(), password: Some(password.clone()) }
            }
            _ => return Err(improper("LOGIN ROLE ['PASSWORD']; without one it is asked for")),
        },
        "SHOW" => match words.as_slice() {
            ["VERSION"] => Command::Show(Shown::Version),
            ["HOST"] => Command::Show(Shown::Host),
            ["SESSION", id @ ..] if !id.is_empty() => Command::Show(Shown::Session(id.concat())),
            _ => return Err(improper("SHOW VERSION|HOST|SESSION ID")),
        },
        "HISTORY" => match words.as_slice() {
            [] => Command::History(None),
            [count] => {
                Command::History(Some(count.parse().map_err(|_| improper("HISTORY [COUNT]"))?))
            }
            _ => return Err(improper("HISTORY [COUNT]")),
        },
        "CLEAR" | "CLS" => Command::Clear,
        "EXIT" | "QUIT" => Command::Exit,
        // DESCRIBE and DESC
        _ => Command::Describe(described(&words)),
    })
}

/// A change, or none; `None` if it is neither.
fn paging(words: &[&str]) -> Option<Option<PagingChange>> {
    match words {
        [] => Some(None),
        ["ON"] => Some(Some(PagingChange::On)),
        ["OFF"] => Some(Some(PagingChange::Off)),
        [rows] => {
            let rows = rows.parse().ok().filter(|rows| *rows > 0)?;
            Some(Some(PagingChange::Rows(rows)))
        }
        _ => None,
    }
}

fn described(words: &[&str]) -> DescribeKind {
    match words.first().copied() {
        Some("KEYSPACES") => DescribeKind::Keyspaces,
        Some("TABLES" | "COLUMNFAMILIES" | "TYPES" | "FUNCTIONS" | "AGGREGATES") => {
            DescribeKind::Names
        }
        Some("CLUSTER") => DescribeKind::Cluster,
        _ => DescribeKind::Definitions,
    }
}

fn level(
    words: &[&str],
    is_allowed: impl Fn(Consistency) -> bool,
) -> Result<Option<Consistency>, String> {
    let allowed = || Consistency::ALL.into_iter().filter(|level| is_allowed(*level));
    match words {
        [] => Ok(None),
        [word] => match allowed().find(|level| level.name() == *word) {
            Some(level) => Ok(Some(level)),
            None => {
                let names: Vec<&str> = allowed().map(Consistency::name).collect();
                Err(format!("{word} is no level; there are {}", names.join(", ")))
            }
        },
        _ => Err("one level".to_owned()),
    }
}

fn copy(tokens: &[Token]) -> Option<Copy> {
    let (first, mut rest) = tokens.split_first()?;
    let mut keyspace = None;
    let mut table = first.name()?;
    if let [Token::Sign('.'), name, after @ ..] = rest {
        keyspace = Some(table);
        table = name.name()?;
        rest = after;
    }
    let mut columns = Vec::new();
    if let [Token::Sign('('), after @ ..] = rest {
        let end = after.iter().position(|token| *token == Token::Sign(')'))?;
        for part in after.get(..end)?.split(|token| *token == Token::Sign(',')) {
            let [name] = part else { return None };
            columns.push(name.name()?);
        }
        rest = after.get(end + 1..)?;
    }
    let [direction, file, after @ ..] = rest else { return None };
    let is_import = match direction.upper().as_str() {
        "FROM" => true,
        "TO" => false,
        _ => return None,
    };
    let file = match file {
        Token::Text(file) => Some(file.clone()),
        Token::Word(word)
            if word.eq_ignore_ascii_case(if is_import { "stdin" } else { "stdout" }) =>
        {
            None
        }
        _ => return None,
    };
    let mut options = Vec::new();
    if let Some((with, mut after)) = after.split_first() {
        if with.upper() != "WITH" {
            return None;
        }
        loop {
            let [name @ Token::Word(_), Token::Sign('='), value, more @ ..] = after else {
                return None;
            };
            let mut more = more;
            let value = match (value, more) {
                // A number below zero.
                (Token::Sign('-'), [digits, behind @ ..]) => {
                    more = behind;
                    format!("-{}", digits.as_name())
                }
                _ => value.as_name(),
            };
            options.push((name.upper(), value));
            match more {
                [] => break,
                [and, next @ ..] if and.upper() == "AND" => after = next,
                _ => return None,
            }
        }
    }
    Some(Copy { keyspace, table, columns, is_import, file, options })
}

/// A part of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// In double quotes.
    Name(String),
    /// In single quotes.
    Text(String),
    Sign(char),
}

impl Token {
    fn upper(&self) -> String {
        self.as_name().to_uppercase()
    }

    fn as_name(&self) -> String {
        match self {
            Token::Word(text) | Token::Name(text) | Token::Text(text) => text.clone(),
            Token::Sign(sign) => sign.to_string(),
        }
    }

    /// The name of a thing, as it is stored.
    fn name(&self) -> Option<String> {
        match self {
            Token::Word(word) => Some(word.to_lowercase()),
            Token::Name(name) => Some(name.clone()),
            Token::Text(_) | Token::Sign(_) => None,
        }
    }
}

/// The parts of a command; `None` if a quote has no end.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Some(found) };
        match first {
            '\'' | '"' => {
                let mut content = String::new();
                let mut inside = rest.get(1..)?;
                loop {
                    let (part, after) = inside.split_once(first)?;
                    content.push_str(part);
                    match after.strip_prefix(first) {
                        Some(more) => {
                            content.push(first);
                            inside = more;
                        }
                        None => {
                            rest = after;
                            break;
                        }
                    }
                }
                found.push(if first == '"' { Token::Name(content) } else { Token::Text(content) });
            }
            _ if first.is_alphanumeric() || first == '_' => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
                let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
                found.push(Token::Word(word.to_owned()));
                rest = after;
            }
            _ => {
                found.push(Token::Sign(first));
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Command) {
        assert_eq!(parse(text), Ok(expect), "{text}");
    }

    #[test]
    fn commands_of_the_shell() {
        check("SELECT * FROM t", Command::Statement);
        check("  copyright", Command::Statement);
        check("help", Command::Help(Vec::new()));
        check("? copy", Command::Help(vec!["COPY".to_owned()]));
        check("CONSISTENCY", Command::Consistency(None));
        check("consistency local_quorum", Command::Consistency(Some(Consistency::LocalQuorum)));
        check("SERIAL CONSISTENCY", Command::SerialConsistency(None));
        let serial = Some(Consistency::LocalSerial);
        check("serial consistency local_serial", Command::SerialConsistency(serial));
        check("TRACING ON", Command::Tracing(Some(true)));
        check("expand off", Command::Expand(Some(false)));
        check("COST", Command::Cost(None));
        check("PAGING 50", Command::Paging(Some(PagingChange::Rows(50))));
        check("PAGING OFF", Command::Paging(Some(PagingChange::Off)));
        check("SOURCE 'it''s.cql'", Command::Source("it's.cql".to_owned()));
        check("CAPTURE OFF", Command::Capture(Some(CaptureChange::Off)));
        check("CAPTURE 'out'", Command::Capture(Some(CaptureChange::To("out".to_owned()))));
        let login = |password: Option<&str>| Command::Login {
            role: "Ann".to_owned(),
            password: password.map(str::to_owned),
        };
        check("LOGIN Ann", login(None));
        check("LOGIN Ann 'pw'", login(Some("pw")));
        check("SHOW VERSION", Command::Show(Shown::Version));
        let id = "50554d6e-29bb-11e5-b345-feff819cdc9f";
        check(&format!("SHOW SESSION {id}"), Command::Show(Shown::Session(id.to_uppercase())));
        check("DESC KEYSPACES", Command::Describe(DescribeKind::Keyspaces));
        check("DESCRIBE TABLES", Command::Describe(DescribeKind::Names));
        check("DESCRIBE TABLE t", Command::Describe(DescribeKind::Definitions));
        check("DESCRIBE CLUSTER", Command::Describe(DescribeKind::Cluster));
        check("quit", Command::Exit);
        check("CLS", Command::Clear);
    }

    #[test]
    fn what_cannot_be_meant_says_what_can() {
        for (text, word) in [
            ("CONSISTENCY MOST", "LOCAL_QUORUM"),
            ("SERIAL CONSISTENCY QUORUM", "LOCAL_SERIAL"),
            ("SERIAL", "SERIAL CONSISTENCY"),
            ("EXPAND MAYBE", "EXPAND [ON|OFF]"),
            ("PAGING 0", "PAGING [ON|OFF|ROWS]"),
            ("SOURCE file", "SOURCE 'FILE'"),
            ("SOURCE 'file", "no end"),
            ("COPY t", "COPY TABLE"),
            ("COPY t TO STDIN", "COPY TABLE"),
            ("LOGIN", "LOGIN ROLE"),
            ("SHOW ME", "SHOW VERSION"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn copies() {
        let plain = Copy {
            keyspace: None,
            table: "orders".to_owned(),
            columns: Vec::new(),
            is_import: false,
            file: Some("orders.csv".to_owned()),
            options: Vec::new(),
        };
        check("COPY Orders TO 'orders.csv'", Command::Copy(plain.clone()));
        check(
            "copy shop.\"Orders\" (id, \"Note\") from stdin with header = TRUE and NULL='-' AND maxrows = -1",
            Command::Copy(Copy {
                keyspace: Some("shop".to_owned()),
                table: "Orders".to_owned(),
                columns: vec!["id".to_owned(), "Note".to_owned()],
                is_import: true,
                file: None,
                options: [("HEADER", "TRUE"), ("NULL", "-"), ("MAXROWS", "-1")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .to_vec(),
            }),
        );
        check("COPY orders TO STDOUT", Command::Copy(Copy { file: None, ..plain }));
    }
}
