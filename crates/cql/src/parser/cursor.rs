//! The tokens, a place among them, and the small parts that all statements share.

use std::borrow::Cow;

use crate::ast::{BindMarker, FunctionName, Name, QualifiedName};
use crate::error::SyntaxError;
use crate::lexer::{Class, Lexed, Token, lex};

/// Longest text that is parsed; positions in it are 32 bits wide.
pub const TEXT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Deepest nesting of terms, selectors, types and relations, so that a hostile text cannot
/// overflow the stack.
pub const NESTING_MAX: usize = 128;

/// Most arithmetic operators and selector modifiers in a statement. A chain of them becomes a tree
/// as deep as the chain is long, and whoever walks the tree needs the stack for it.
pub const OPERATORS_MAX: usize = 1024;

/// Why parsing stopped.
#[derive(Debug)]
pub(super) enum Failure {
    /// A token does not fit.
    Grammar,
    /// The statement is refused, whatever follows.
    Refused(SyntaxError),
}

pub(super) type Parse<T> = Result<T, Failure>;

/// A place to come back to.
pub(super) struct Checkpoint {
    position: usize,
    marker_count: usize,
    recorded: bool,
}

/// A refusal that waits for the end of the statement.
pub(super) struct Recorded {
    pub(super) message: Box<str>,
    /// The last token before it was known.
    pub(super) position: usize,
}

/// A list of tokens and a place in it.
pub(super) struct Parser<'text> {
    text: &'text str,
    tokens: Vec<Lexed>,
    position: usize,
    markers: Vec<Option<Name>>,
    /// The first thing that will refuse the statement once its grammar is known to be right up to
    /// there.
    recorded: Option<Recorded>,
    depth: usize,
    operator_count: usize,
    explain_offset: usize,
}

impl<'text> Parser<'text> {
    pub(super) fn new(text: &'text str) -> Result<Self, SyntaxError> {
        if text.len() > TEXT_BYTES_MAX {
            let message = format!("Statement is longer than {TEXT_BYTES_MAX} bytes");
            return Err(SyntaxError::Grammar(message.into()));
        }
        Ok(Self {
            text,
            tokens: lex(text),
            position: 0,
            markers: Vec::new(),
            recorded: None,
            depth: 0,
            operator_count: 0,
            explain_offset: 0,
        })
    }

    /// The token here.
    pub(super) fn peek(&self) -> Token {
        self.peek_at(0)
    }

    /// The token some places ahead.
    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        self.tokens.get(self.position + ahead).map_or(Token::End, |lexed| lexed.token)
    }

    /// The text of the token here.
    pub(super) fn slice(&self) -> &'text str {
        let range =
            self.tokens.get(self.position).map(|lexed| lexed.start as usize..lexed.end as usize);
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
    }

    /// One step on.
    pub(super) fn advance(&mut self) {
        self.position += 1;
    }

    /// One step on if the token here is the given one.
    pub(super) fn eat(&mut self, token: Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.advance();
        }
        found
    }

    /// One step on, or failure.
    pub(super) fn expect(&mut self, token: Token) -> Parse<()> {
        if self.eat(token) { Ok(()) } else { Err(Failure::Grammar) }
    }

    /// Several steps on, or failure.
    pub(super) fn expect_all(&mut self, tokens: &[Token]) -> Parse<()> {
        tokens.iter().try_for_each(|token| self.expect(*token))
    }

    /// `tokens` as a whole or nothing of it.
    pub(super) fn eat_clause(&mut self, tokens: &[Token]) -> Parse<bool> {
        let present = tokens.first().is_some_and(|first| self.peek() == *first);
        if present {
            self.expect_all(tokens)?;
        }
        Ok(present)
    }

    pub(super) fn if_not_exists(&mut self) -> Parse<bool> {
        self.eat_clause(&[Token::If, Token::Not, Token::Exists])
    }

    pub(super) fn if_exists(&mut self) -> Parse<bool> {
        self.eat_clause(&[Token::If, Token::Exists])
    }

    /// One or more, between commas.
    pub(super) fn comma_list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// One or more in parentheses, between commas.
    pub(super) fn parenthesized<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        self.expect(Token::LeftParen)?;
        let items = self.comma_list(item)?;
        self.expect(Token::RightParen)?;
        Ok(items)
    }

    /// Any number in parentheses, between commas.
    pub(super) fn parenthesized_or_empty<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        if self.peek() == Token::LeftParen && self.peek_at(1) == Token::RightParen {
            self.advance();
            self.advance();
            return Ok(Vec::new());
        }
        self.parenthesized(item)
    }

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= NESTING_MAX {
            return self.refuse(format!("Statement is nested more than {NESTING_MAX} levels deep"));
        }
        self.depth += 1;
        let outcome = inner(self);
        self.depth -= 1;
        outcome
    }

    /// Counts one more operator or modifier.
    pub(super) fn count_operator(&mut self) -> Parse<()> {
        self.operator_count += 1;
        if self.operator_count > OPERATORS_MAX {
            return self.refuse(format!("Statement has more than {OPERATORS_MAX} operators"));
        }
        Ok(())
    }

    /// A place to come back to.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            position: self.position,
            marker_count: self.markers.len(),
            recorded: self.recorded.is_some(),
        }
    }

    /// Forgets all that happened since.
    pub(super) fn rewind(&mut self, checkpoint: &Checkpoint) {
        self.position = checkpoint.position;
        self.markers.truncate(checkpoint.marker_count);
        if !checkpoint.recorded {
            self.recorded = None;
        }
    }

    /// Refuses the statement when its end is reached, or when it breaks the grammar further on.
    pub(super) fn record(&mut self, message: impl Into<Box<str>>) {
        let position = self.position.saturating_sub(1);
        self.recorded.get_or_insert_with(|| Recorded { message: message.into(), position });
    }

    /// As `record`, behind a term: Cassandra looks at the token after a term before the term is
    /// done with.
    pub(super) fn record_after_term(&mut self, message: impl Into<Box<str>>) {
        let position = self.position;
        self.recorded.get_or_insert_with(|| Recorded { message: message.into(), position });
    }

    /// Refuses the statement at once, as a syntax error.
    pub(super) fn refuse<T>(&self, message: impl Into<Box<str>>) -> Parse<T> {
        Err(Failure::Refused(SyntaxError::Grammar(message.into())))
    }

    /// Refuses the statement at once, as a contradiction in itself.
    pub(super) fn refuse_invalid<T>(&self, message: impl Into<Box<str>>) -> Parse<T> {
        Err(Failure::Refused(SyntaxError::Invalid(message.into())))
    }

    /// Refuses the statement because a number does not fit its type, in Cassandra's words.
    pub(super) fn refuse_number<T>(&self, digits: &str) -> Parse<T> {
        self.refuse(format!(
            "Failed parsing statement: [{}] reason: NumberFormatException For input string: \"{digits}\"",
            self.text
        ))
    }

    pub(super) fn take_recorded(&mut self) -> Option<Recorded> {
        self.recorded.take()
    }

    pub(super) fn take_markers(&mut self) -> Vec<Option<Name>> {
        std::mem::take(&mut self.markers)
    }

    /// Byte position of the token that did not fit.
    pub(super) fn failed_at(&self) -> usize {
        let last = self.tokens.get(self.position).or(self.tokens.last());
        last.map_or(0, |lexed| lexed.start as usize)
    }

    /// Bytes of an EXPLAIN before the statement.
    pub(super) fn explain_offset(&self) -> usize {
        self.explain_offset
    }

    /// Whether the text starts with EXPLAIN and something that it can explain.
    pub(super) fn is_explain(&self) -> bool {
        self.peek() == Token::Name
            && self.slice().eq_ignore_ascii_case("explain")
            && is_statement_start(self.peek_at(1))
    }

    /// Tokens of an EXPLAIN before the statement.
    pub(super) fn explained_tokens(&self) -> usize {
        usize::from(self.explain_offset > 0)
    }

    pub(super) fn skip_explain(&mut self) {
        self.advance();
        self.explain_offset = self.failed_at();
    }

    /// `?` or `:name`, if one is here.
    pub(super) fn marker(&mut self) -> Parse<Option<BindMarker>> {
        let name = match self.peek() {
            Token::QuestionMark => {
                self.advance();
                None
            }
            Token::Colon => {
                self.advance();
                Some(self.ident()?)
            }
            _ => return Ok(None),
        };
        let marker = BindMarker(self.markers.len() as u32);
        self.markers.push(name);
        Ok(Some(marker))
    }

    /// `?` or `:name`.
    pub(super) fn expect_marker(&mut self) -> Parse<BindMarker> {
        self.marker()?.ok_or(Failure::Grammar)
    }

    /// Whether the token some places ahead can be an identifier.
    pub(super) fn is_ident_at(&self, ahead: usize) -> bool {
        is_ident(self.peek_at(ahead))
    }

    /// Whether the token some places ahead can be a column.
    pub(super) fn is_column_at(&self, ahead: usize) -> bool {
        self.is_ident_at(ahead) || self.peek_at(ahead) == Token::EmptyName
    }

    /// An identifier of any kind.
    pub(super) fn ident(&mut self) -> Parse<Name> {
        let name = match self.peek() {
            Token::QuotedName => Name::new(unescape(self.slice(), '"')),
            token if is_ident(token) => lower_case(self.slice()),
            _ => return Err(Failure::Grammar),
        };
        self.advance();
        Ok(name)
    }

    /// A column, which may have the empty name.
    pub(super) fn column(&mut self) -> Parse<Name> {
        if self.eat(Token::EmptyName) {
            return Ok(Name::from(""));
        }
        self.ident()
    }

    /// A name for which a marker is parsed and refused.
    pub(super) fn unbound_ident(&mut self, kind: &str) -> Parse<Name> {
        if self.eat(Token::QuestionMark) {
            self.record(format!("Bind variables cannot be used for {kind} names"));
            return Ok(Name::from(""));
        }
        self.ident()
    }

    /// `[keyspace.]name` of a table or view.
    pub(super) fn table_name(&mut self) -> Parse<QualifiedName> {
        self.qualified("table")
    }

    /// `[keyspace.]name` of an index.
    pub(super) fn index_name(&mut self) -> Parse<QualifiedName> {
        self.qualified("index")
    }

    fn qualified(&mut self, kind: &str) -> Parse<QualifiedName> {
        let keyspace = self.keyspace_and_dot()?;
        Ok(QualifiedName { keyspace, name: self.unbound_ident(kind)? })
    }

    pub(super) fn keyspace_name(&mut self) -> Parse<Name> {
        self.unbound_ident("keyspace")
    }

    fn keyspace_and_dot(&mut self) -> Parse<Option<Name>> {
        if self.peek_at(1) != Token::Dot {
            return Ok(None);
        }
        let keyspace = self.keyspace_name()?;
        self.advance();
        Ok(Some(keyspace))
    }

    /// `[keyspace.]name` of a function.
    pub(super) fn function_name(&mut self) -> Parse<FunctionName> {
        let keyspace = if self.peek() == Token::QuestionMark {
            let keyspace = self.keyspace_name()?;
            self.expect(Token::Dot)?;
            Some(keyspace)
        } else {
            self.keyspace_and_dot()?
        };
        Ok(FunctionName { keyspace, name: self.allowed_function_name()? })
    }

    /// The name of a function, without keyspace. Keywords keep their case here.
    pub(super) fn allowed_function_name(&mut self) -> Parse<Name> {
        let name = match self.peek() {
            Token::Name => lower_case(self.slice()),
            Token::QuotedName => Name::new(unescape(self.slice(), '"')),
            Token::Token => Name::from("token"),
            Token::Count => Name::from("count"),
            token => match token.class() {
                Class::Free => Name::from(self.slice()),
                Class::TypeName => lower_case(self.slice()),
                Class::Reserved | Class::NoFunction => return Err(Failure::Grammar),
            },
        };
        self.advance();
        Ok(name)
    }

    /// Whether a function's name and its left parenthesis stand here.
    pub(super) fn is_function_call(&self) -> bool {
        let is_name = |ahead| {
            let token = self.peek_at(ahead);
            matches!(token, Token::Token | Token::Count)
                || is_ident(token) && token.class() != Class::NoFunction
        };
        let is_keyspace = self.is_ident_at(0) || self.peek() == Token::QuestionMark;
        match self.peek_at(1) {
            Token::LeftParen => is_name(0),
            Token::Dot => is_keyspace && is_name(2) && self.peek_at(3) == Token::LeftParen,
            _ => false,
        }
    }

    /// A string, unquoted.
    pub(super) fn string(&mut self) -> Parse<Box<str>> {
        if self.peek() != Token::StringLiteral {
            return Err(Failure::Grammar);
        }
        let text = unquote(self.slice());
        self.advance();
        Ok(text.into())
    }
}

/// Whether the token can be an identifier.
fn is_ident(token: Token) -> bool {
    matches!(token, Token::Name | Token::QuotedName) || token.class() != Class::Reserved
}

/// Whether a statement can start with the token.
fn is_statement_start(token: Token) -> bool {
    matches!(
        token,
        Token::Select
            | Token::Insert
            | Token::Update
            | Token::Delete
            | Token::Begin
            | Token::Use
            | Token::Truncate
            | Token::Create
            | Token::Alter
            | Token::Drop
            | Token::Grant
            | Token::Revoke
            | Token::List
            | Token::Add
            | Token::Describe
            | Token::Desc
    )
}

fn lower_case(word: &str) -> Name {
    let mut text: Box<str> = word.into();
    text.make_ascii_lowercase();
    Name::new(text)
}

/// A string literal of either kind without its quotes and escapes.
pub(crate) fn unquote(literal: &str) -> Cow<'_, str> {
    match literal.strip_prefix("$$").and_then(|rest| rest.strip_suffix("$$")) {
        Some(body) => Cow::Borrowed(body),
        None => unescape(literal, '\''),
    }
}

/// The text between quotes, with doubled quotes made one.
pub(crate) fn unescape(literal: &str, quote: char) -> Cow<'_, str> {
    let body = literal.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let body = body.unwrap_or(literal);
    if !body.contains(quote) {
        return Cow::Borrowed(body);
    }
    let doubled = [quote, quote].iter().collect::<String>();
    Cow::Owned(body.replace(&doubled, quote.encode_utf8(&mut [0; 4])))
}
