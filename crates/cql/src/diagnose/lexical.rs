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
        ('"', _) => mismatched(text, text.len(), "\""),
        ('$', Some('$')) => mismatched(text, text.len(), "$"),
        ('$', _) => mismatched(text, start + 1, "$"),
        ('/', Some('*')) => mismatched(text, text.len(), "*"),
        ('/' | '-', Some('/' | '-')) => mismatched_set(text, text.len()),
        ('!', _) => mismatched(text, start + 1, "="),
        ('-', Some('n' | 'N')) => mismatched_word(text, start, "-nan"),
        ('-', Some('i' | 'I')) => mismatched_word(text, start, "-infinity"),
        _ => no_way(text, start),
    })
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
