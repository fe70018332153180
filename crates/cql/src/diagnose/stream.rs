//! Tokens as they are fetched.
//!
//! Error messages show how far the parser had looked when it gave up, so every look ahead counts.
//! Hidden tokens count too.

use super::lexical;
use crate::lexer::{Lexed, Scanner, Token};

/// A list of tokens that grows by looking at it.
pub(super) struct Stream<'text> {
    text: &'text str,
    offset: u32,
    scanner: Scanner<'text>,
    /// All tokens so far.
    fetched: Vec<Lexed>,
    /// Where those of them are that are not hidden.
    visible: Vec<usize>,
}

impl<'text> Stream<'text> {
    /// The tokens behind a byte position.
    pub(super) fn new(text: &'text str, offset: usize) -> Self {
        Self {
            text,
            offset: offset as u32,
            scanner: Scanner::new(text.get(offset..).unwrap_or_default()),
            fetched: Vec::new(),
            visible: Vec::new(),
        }
    }

    /// The visible token at a position. After the last one, `End` comes again and again.
    pub(super) fn at(&mut self, position: usize) -> Result<Token, String> {
        while self.visible.len() <= position {
            let mut lexed = self.scanner.scan();
            lexed.start += self.offset;
            lexed.end += self.offset;
            if let Some(message) = lexical::fault(self.text, lexed) {
                return Err(message);
            }
            if !lexed.token.is_hidden() {
                self.visible.push(self.fetched.len());
            }
            self.fetched.push(lexed);
        }
        Ok(self
            .raw_index(position)
            .and_then(|index| self.fetched.get(index))
            .map_or(Token::End, |lexed| lexed.token))
    }

    /// Where among all tokens a visible token is.
    pub(super) fn raw_index(&self, position: usize) -> Option<usize> {
        self.visible.get(position).copied()
    }

    /// All tokens so far.
    pub(super) fn fetched(&self) -> &[Lexed] {
        &self.fetched
    }
}
