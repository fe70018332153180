//! Text that is no token, in Cassandra's words.

use super::message::Place;
use crate::lexer::{Lexed, Token};

/// What is wrong with the text of a token, if anything is.
pub(super) fn fault(text: &str, lexed: Lexed) -> Option<String> {
    if lexed.token != Token::Error {
        return None;
    }
    let start = lexed.start as usize;
    let rest = text.get(start..)?;
    let mut characters = rest.chars();
    let first = characters.next()?;
    let second = characters.next();
    Some(match (first, second) {
        ('\'', _) => mismatched(text, text.len(), "'"),
        ('"', None) => no_way(text, text.len()),
        ('"', _) => mismatched(text, text.len(), "\""),
        ('$', Some('$')) => mismatched(text, end_of_dollars(text, start), "$"),
        ('$', _) => mismatched(text, start + 1, "$"),
        ('/', Some('*')) if text.ends_with('*') => mismatched(text, text.len(), "/"),
        ('/', Some('*')) => mismatched(text, text.len(), "*"),
        ('/' | '-', Some('/' | '-')) => mismatched_set(text, text.len()),
        ('!', _) => mismatched(text, start + 1, "="),
        ('-', Some('P')) => no_way(text, start + 2),
        ('-', Some('n' | 'N')) => mismatched_word(text, start, "-nan"),
        ('-', Some('i' | 'I')) => mismatched_word(text, start, "-infinity"),
        ('-', Some(second)) if second.is_ascii_digit() => broken_number(text, lexed),
        _ if first.is_ascii_alphanumeric() => broken_number(text, lexed),
        _ => no_way(text, start),
    })
}

/// Where an open `$$` string is found to be open: one character before the end already, because
/// its closing needs two.
fn end_of_dollars(text: &str, start: usize) -> usize {
    let body = text.get(start + 2..).unwrap_or_default();
    match body.chars().last() {
        None | Some('$') => text.len(),
        Some(last) => text.len() - last.len_utf8(),
    }
}

/// A number, duration or word that looked like more than it is.
fn broken_number(text: &str, lexed: Lexed) -> String {
    let (start, end) = (lexed.start as usize, lexed.end as usize);
    let slice = text.get(start..end).unwrap_or_default().as_bytes();
    let rest = text.get(end..).unwrap_or_default().as_bytes();
    let is_integer = slice.iter().all(u8::is_ascii_digit);
    let is_word = slice.first().is_some_and(u8::is_ascii_alphabetic);
    let is_number = !is_word && slice.last().is_some_and(|last| !last.is_ascii_alphabetic());
    match rest {
        [b'e' | b'E', b'+' | b'-', ..] if is_number => required_loop(text, end + 2),
        [b'e' | b'E', next, ..] if is_integer && next.is_ascii_hexdigit() => {
            broken_uuid(text, start)
        }
        [b'e' | b'E', ..] if is_integer => no_way(text, end + 1),
        [b'e' | b'E', ..] if is_number => required_loop(text, end + 1),
        [b'n' | b'N' | b'u' | b'U', ..] if is_number => mismatched_set(text, end + 1),
        // The sign for micro is two bytes long.
        [first, ..] if is_number && !first.is_ascii() => mismatched_set(text, end + 2),
        [next, ..] if next.is_ascii_digit() && !slice.iter().all(u8::is_ascii_hexdigit) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            no_way(text, end + digits)
        }
        _ => broken_uuid(text, start),
    }
}

/// The message at the first character that does not fit a uuid.
fn broken_uuid(text: &str, start: usize) -> String {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    let rest = text.get(start..).unwrap_or_default().bytes().enumerate();
    let fits = |(index, byte): &(usize, u8)| {
        if HYPHENS.contains(index) { *byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    let index = rest.take_while(fits).count();
    if HYPHENS.contains(&index) {
        return mismatched(text, start + index, "-");
    }
    mismatched_set(text, start + index)
}

/// The message at the first letter that differs from a word.
fn mismatched_word(text: &str, start: usize, word: &str) -> String {
    let rest = text.get(start..).unwrap_or_default();
    let same =
        rest.bytes().zip(word.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    mismatched_set(text, start + same)
}

fn mismatched(text: &str, at: usize, expected: &str) -> String {
    format!(
        "{} mismatched character {} expecting '{expected}'",
        Place::of(text, at),
        character(text, at)
    )
}

fn mismatched_set(text: &str, at: usize) -> String {
    format!(
        "{} mismatched character {} expecting set null",
        Place::of(text, at),
        character(text, at)
    )
}

fn required_loop(text: &str, at: usize) -> String {
    format!(
        "{} required (...)+ loop did not match anything at character {}",
        Place::of(text, at),
        character(text, at)
    )
}

fn no_way(text: &str, at: usize) -> String {
    format!("{} no viable alternative at character {}", Place::of(text, at), character(text, at))
}

fn character(text: &str, at: usize) -> String {
    match text.get(at..).and_then(|rest| rest.chars().next()) {
        None => "'<EOF>'".to_owned(),
        Some('\n') => "'\\n'".to_owned(),
        Some('\t') => "'\\t'".to_owned(),
        Some('\r') => "'\\r'".to_owned(),
        // Cassandra sees half of a character that needs two units.
        Some(wide) if wide.len_utf16() > 1 => "'?'".to_owned(),
        Some(other) => format!("'{other}'"),
    }
}
