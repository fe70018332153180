//! Text to tokens.
//!
//! `token` holds the shapes, `spelling` the keywords. Hidden tokens (space, comments) come out of
//! `Scanner`, because error messages count them; `lex` drops them.

mod spelling;
mod token;

use logos::Logos;

pub(crate) use token::{Class, Token};

/// Digits before the first hyphen of a uuid.
const UUID_FIRST_PART: usize = 8;

/// A token and where it stands, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lexed {
    /// What it is.
    pub(crate) token: Token,
    /// Its first byte.
    pub(crate) start: u32,
    /// The byte after it.
    pub(crate) end: u32,
}

/// Tokens one after the other, hidden ones too. After the last one comes `End`, forever.
pub(crate) struct Scanner<'text> {
    lexer: logos::Lexer<'text, Token>,
    /// The second half of a text that was split in two.
    pending: Option<Lexed>,
}

impl<'text> Scanner<'text> {
    /// Positions are 32 bits wide; callers refuse longer texts before.
    pub(crate) fn new(text: &'text str) -> Self {
        Self { lexer: Token::lexer(text), pending: None }
    }

    /// The next token.
    pub(crate) fn scan(&mut self) -> Lexed {
        if let Some(pending) = self.pending.take() {
            return pending;
        }
        let token = match self.lexer.next() {
            Some(Ok(token)) => token,
            Some(Err(())) => Token::Error,
            None => Token::End,
        };
        let span = self.lexer.span();
        let mut lexed = Lexed { token, start: span.start as u32, end: span.end as u32 };
        match token {
            Token::Name => {
                lexed.token = spelling::keyword_or_name(self.lexer.slice().as_bytes());
            }
            Token::FloatLiteral => self.split_before_range(&mut lexed),
            _ => {}
        }
        if self.is_broken_off(lexed.token) {
            lexed.token = Token::Error;
        }
        lexed
    }

    /// Whether Cassandra would have taken the token for the start of something longer that then
    /// is not there: a comment, a negative NaN or duration, an exponent, a uuid. It does not come
    /// back from that.
    fn is_broken_off(&self, token: Token) -> bool {
        if self.pending.is_some() {
            return false;
        }
        let slice = self.lexer.slice().as_bytes();
        let Some(next) = self.lexer.remainder().as_bytes().first() else {
            return false;
        };
        let can_be_uuid = slice.len() < UUID_FIRST_PART && !slice.starts_with(b"-");
        let ends_uuid_part =
            *next == b'-' && slice.len() == UUID_FIRST_PART && !slice.starts_with(b"-");
        match token {
            Token::Minus => matches!(next, b'-' | b'n' | b'N' | b'i' | b'I' | b'P'),
            Token::Slash => matches!(next, b'*' | b'/'),
            Token::FloatLiteral => {
                matches!(next, b'e' | b'E')
                    || ends_uuid_part && slice.iter().all(u8::is_ascii_hexdigit)
            }
            Token::IntegerLiteral => {
                // An exponent, or a unit of two letters.
                matches!(next, b'e' | b'E' | b'n' | b'N' | b'u' | b'U')
                    || self.lexer.remainder().starts_with('µ')
                    || ends_uuid_part
                    || can_be_uuid && next.is_ascii_hexdigit()
            }
            Token::DurationLiteral => {
                let ends_with_d = matches!(slice.last(), Some(b'd' | b'D'));
                let is_short_form = slice.last().is_some_and(|last| !last.is_ascii_digit())
                    && !slice.contains(&b'P');
                next.is_ascii_digit() && is_short_form
                    || ends_with_d
                        && can_be_uuid
                        && next.is_ascii_hexdigit()
                        && slice.iter().all(u8::is_ascii_hexdigit)
            }
            Token::Name => ends_uuid_part && slice.iter().all(u8::is_ascii_hexdigit),
            _ => false,
        }
    }

    /// `1..2` is an integer and a range, not a float and a dot; `1...2` is a float and a range.
    fn split_before_range(&mut self, lexed: &mut Lexed) {
        let rest = self.lexer.remainder();
        if !self.lexer.slice().ends_with('.') || !rest.starts_with('.') || rest.starts_with("..") {
            return;
        }
        self.lexer.bump(1);
        self.pending =
            Some(Lexed { token: Token::Range, start: lexed.end - 1, end: lexed.end + 1 });
        lexed.token = Token::IntegerLiteral;
        lexed.end -= 1;
    }
}

/// All tokens but the hidden ones, with one `End` (or, at the first text that is no token, one
/// `Error`) as the last.
pub(crate) fn lex(text: &str) -> Vec<Lexed> {
    // A guess that spares most statements a second allocation.
    let mut tokens = Vec::with_capacity(text.len() / 4 + 8);
    let mut scanner = Scanner::new(text);
    loop {
        let lexed = scanner.scan();
        if lexed.token.is_hidden() {
            continue;
        }
        tokens.push(lexed);
        if matches!(lexed.token, Token::End | Token::Error) {
            return tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[Token]) {
        let found: Vec<_> = lex(text).into_iter().map(|lexed| lexed.token).collect();
        let (last, found) = found.split_last().unwrap();
        assert_eq!(found, expected, "{text}");
        assert!(matches!(last, Token::End | Token::Error), "{text}");
    }

    #[test]
    fn shapes() {
        use super::Token::*;
        check("SeLeCt a_1", &[Select, Name]);
        check(
            "'a''b' $$ it's $ $$ \"A\"\"b\" \"\"",
            &[StringLiteral, StringLiteral, QuotedName, EmptyName],
        );
        check(
            "1 -1 1.5 1. 1e5 -1.5E-3 0xAf 0x",
            &[
                IntegerLiteral,
                IntegerLiteral,
                FloatLiteral,
                FloatLiteral,
                FloatLiteral,
                FloatLiteral,
                HexLiteral,
                HexLiteral,
            ],
        );
        check("1..2", &[IntegerLiteral, Range, IntegerLiteral]);
        check("1...2", &[FloatLiteral, Range, IntegerLiteral]);
        check("a..b", &[Name, Range, Name]);
        check("1d 12h30m 5mo -3us 3µs P1Y P1Y2M3DT4H5M6S PT5M P3W", &[DurationLiteral; 9]);
        check(
            "P0001-02-03T04:05:06 -P1D P1Yx p1y",
            &[DurationLiteral, DurationLiteral, Name, Name],
        );
        check(
            "123e4567-e89b-12d3-a456-426614174000 abcdef12-e89b-12d3-a456-426614174000",
            &[UuidLiteral, UuidLiteral],
        );
        check(
            "nan -nan Infinity -INFINITY true",
            &[Nan, NegativeNan, Infinity, NegativeInfinity, BooleanLiteral],
        );
        check("a -- b\n + // c\r - /* d * ** e */ *", &[Name, Plus, Minus, Star]);
        check("expr(a expr (", &[ExprParen, Name, Name, LeftParen]);
        check(
            "a - 1 a -1 a-1 a-=1",
            &[
                Name,
                Minus,
                IntegerLiteral,
                Name,
                IntegerLiteral,
                Name,
                IntegerLiteral,
                Name,
                MinusEqual,
                IntegerLiteral,
            ],
        );
        check(
            "schema keyspace table columnfamily tables columnfamilies",
            &[Schema, Keyspace, Table, Table, Tables, Tables],
        );
    }

    #[test]
    fn text_that_is_no_token_ends_the_list() {
        for text in
            ["@", "'abc", "\"abc", "$$abc", "/* abc", "!", "a ~ b", "-- abc", "// abc", "-name"]
        {
            assert_eq!(lex(text).last().unwrap().token, Token::Error, "{text}");
        }
    }
}
