//! The words: where, what, and the part of the text with the token in brackets.

use std::borrow::Cow;
use std::fmt;

use super::stream::Stream;
use super::walk::Fault;
use crate::lexer::{Lexed, Scanner, Token};
use crate::parser::{unescape, unquote};

/// How many tokens before the marked one are shown, hidden ones counted.
const SHOWN_BEFORE: usize = 10;

/// How many tokens behind the marked one are shown, if they have been looked at.
const SHOWN_BEHIND: usize = 2;

/// Line, from 1, and column, from 0, in UTF-16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    line: usize,
    column: usize,
}

impl Place {
    /// The place of a byte position.
    pub(super) fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let last = before.rsplit('\n').next().unwrap_or_default();
        Self { line, column: last.encode_utf16().count() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}:{}", self.line, self.column)
    }
}

/// The message of a fault.
pub(super) fn compose(text: &str, fault: &Fault, stream: &Stream<'_>) -> String {
    let (at, from, what) = match fault {
        Fault::Lexical { message, .. } => return message.clone(),
        Fault::NoWay { at, from } => (*at, *from, "no viable alternative at input"),
        Fault::Unexpected { at, .. } | Fault::UnexpectedSet { at } => {
            (*at, *at, "mismatched input")
        }
    };
    let token = stream.raw_index(at).and_then(|index| stream.fetched().get(index)).copied();
    let mut message = match token {
        Some(lexed) if lexed.token != Token::End => {
            format!("{} {what} '{}'", Place::of(text, lexed.start as usize), display(text, lexed))
        }
        // The end has no place of its own.
        _ => format!("line 0:-1 {what} '<EOF>'"),
    };
    match fault {
        Fault::Unexpected { expected, .. } => {
            message.push_str(" expecting ");
            message.push_str(&expected.message_name());
        }
        Fault::UnexpectedSet { .. } => message.push_str(" expecting set null"),
        Fault::Lexical { .. } | Fault::NoWay { .. } => {}
    }
    match stream.raw_index(from).map(|index| snippet(text, stream.fetched(), index)) {
        Some(Ok(snippet)) => message.push_str(&snippet),
        // Cassandra trips over its own snippet where a token spans lines.
        Some(Err(reason)) => return format!("Failed parsing statement: [{text}] reason: {reason}"),
        None => {}
    }
    message
}

/// The message without a snippet, for the token at a byte position.
pub(super) fn unexpected(text: &str, at: usize) -> String {
    let mut lexed = Scanner::new(text.get(at..).unwrap_or_default()).scan();
    if lexed.token == Token::End {
        return "line 0:-1 no viable alternative at input '<EOF>'".to_owned();
    }
    lexed.start += at as u32;
    lexed.end += at as u32;
    format!("{} no viable alternative at input '{}'", Place::of(text, at), display(text, lexed))
}

/// A token's text as the parser holds it: without quotes and escapes.
fn token_text(text: &str, lexed: Lexed) -> Cow<'_, str> {
    let slice = text.get(lexed.start as usize..lexed.end as usize).unwrap_or_default();
    match lexed.token {
        Token::StringLiteral => unquote(slice),
        Token::QuotedName => unescape(slice, '"'),
        _ => Cow::Borrowed(slice),
    }
}

fn display(text: &str, lexed: Lexed) -> String {
    token_text(text, lexed).replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

/// A token for the snippet: where it starts and how long its text is, in UTF-16 units.
struct Shown {
    place: Place,
    end: usize,
}

impl Shown {
    fn of(text: &str, lexed: Lexed) -> Option<Self> {
        if lexed.token == Token::End {
            return None;
        }
        let place = Place::of(text, lexed.start as usize);
        let length = token_text(text, lexed).encode_utf16().count();
        Some(Self { place, end: place.column + length })
    }

    fn line_index(&self) -> usize {
        self.place.line - 1
    }
}

/// ` (...text [token] text...)`, or why Cassandra fails to make it. Empty where the end of the
/// text would be shown.
fn snippet(text: &str, fetched: &[Lexed], index: usize) -> Result<String, String> {
    let shown = |at: usize| fetched.get(at).and_then(|lexed| Shown::of(text, *lexed));
    let last = fetched.len().saturating_sub(1);
    let (Some(from), Some(to), Some(marked)) = (
        shown(index.saturating_sub(SHOWN_BEFORE)),
        shown(last.min(index + SHOWN_BEHIND)),
        shown(last.min(index)),
    ) else {
        return Ok(String::new());
    };
    let mut lines: Vec<Vec<u16>> =
        text.split('\n').map(|line| line.encode_utf16().collect()).collect();
    while lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let starts_text = from.place == Place { line: 1, column: 0 };
    let ends_text =
        to.place.line == lines.len() && lines.last().is_some_and(|line| line.len() == to.end);

    line(&mut lines, &to)?.truncate(to.end);
    let marked_line = line(&mut lines, &marked)?;
    insert(marked_line, marked.end, ']')?;
    insert(marked_line, marked.place.column, '[')?;
    let from_line = line(&mut lines, &from)?;
    let length = from_line.len();
    let cut = from_line.get(from.place.column..).map(<[u16]>::to_vec);
    *from_line = cut.ok_or_else(|| out_of_bounds(from.place.column, length, length))?;

    let mut snippet = String::from(" (");
    if !starts_text {
        snippet.push_str("...");
    }
    for line in lines.get(from.line_index()..=to.line_index()).unwrap_or_default() {
        snippet.push_str(&String::from_utf16_lossy(line));
    }
    if !ends_text {
        snippet.push_str("...");
    }
    snippet.push(')');
    Ok(snippet)
}

fn line<'lines>(
    lines: &'lines mut [Vec<u16>],
    shown: &Shown,
) -> Result<&'lines mut Vec<u16>, String> {
    let length = lines.len();
    let index = shown.line_index();
    lines.get_mut(index).ok_or_else(|| {
        format!("ArrayIndexOutOfBoundsException Index {index} out of bounds for length {length}")
    })
}

fn insert(line: &mut Vec<u16>, at: usize, sign: char) -> Result<(), String> {
    if at > line.len() {
        return Err(out_of_bounds(0, at, line.len()));
    }
    line.insert(at, sign as u16);
    Ok(())
}

fn out_of_bounds(begin: usize, end: usize, length: usize) -> String {
    format!("StringIndexOutOfBoundsException begin {begin}, end {end}, length {length}")
}
