//! Terms: values outside of a select clause.

use super::cursor::{Failure, Parse, Parser, unquote};
use super::shared::Braced;
use crate::ast::{ArithmeticOperator, Constant, ConstantKind, Term};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Parse<Term> {
        self.nested(Self::addition)
    }

    fn addition(&mut self) -> Parse<Term> {
        let sign = |parser: &Self| match parser.peek() {
            Token::Plus if !parser.is_prepended_column() => Some(ArithmeticOperator::Add),
            Token::Minus => Some(ArithmeticOperator::Subtract),
            _ => None,
        };
        self.chain(Self::multiplication, sign, operation)
    }

    /// The `+ c` of `SET c = term + c`, which is not part of the term.
    fn is_prepended_column(&self) -> bool {
        self.is_column_at(1) && !matches!(self.peek_at(2), Token::LeftParen | Token::Dot)
    }

    fn multiplication(&mut self) -> Parse<Term> {
        self.chain(Self::sign, Self::product_operator, operation)
    }

    fn sign(&mut self) -> Parse<Term> {
        if self.eat(Token::Minus) {
            return Ok(Term::Negation(Box::new(self.plain_term()?)));
        }
        self.plain_term()
    }

    fn plain_term(&mut self) -> Parse<Term> {
        if let Some(constant) = self.constant() {
            return Ok(Term::Constant(constant));
        }
        match self.peek() {
            Token::Null => {
                self.advance();
                Ok(Term::Null)
            }
            Token::QuestionMark if self.peek_at(1) != Token::Dot => self.marker_term(),
            Token::Colon => self.marker_term(),
            Token::LeftBracket => Ok(Term::List(self.bracketed(Self::term)?)),
            Token::LeftBrace => self.brace_literal(),
            Token::LeftParen => match self.type_hint()? {
                Some(hinted) => Ok(hinted),
                None => Ok(Term::Tuple(self.tuple_literal()?)),
            },
            Token::Cast if self.peek_at(1) == Token::LeftParen => self.cast(),
            _ if self.is_function_call() => {
                let name = self.function_name()?;
                let arguments = self.parenthesized_or_empty(Self::term)?;
                Ok(Term::Function { name, arguments })
            }
            _ => Err(Failure::Grammar),
        }
    }

    fn marker_term(&mut self) -> Parse<Term> {
        Ok(Term::Marker(self.expect_marker()?))
    }

    /// A set, a map or a user type. Only a user type has a bare identifier as its first key.
    fn brace_literal(&mut self) -> Parse<Term> {
        if self.is_ident_at(1) && self.peek_at(2) == Token::Colon {
            self.advance();
            let fields = self.comma_list(|parser| {
                let field = parser.ident()?;
                parser.expect(Token::Colon)?;
                Ok((field, parser.term()?))
            })?;
            self.expect(Token::RightBrace)?;
            return Ok(Term::UserType(fields));
        }
        Ok(match self.braced(Self::term)? {
            Braced::Set(elements) => Term::Set(elements),
            Braced::Map(entries) => Term::Map(entries),
        })
    }

    /// `key: value`.
    pub(super) fn map_entry(&mut self) -> Parse<(Term, Term)> {
        self.entry(Self::term)
    }

    /// `(a, b)`.
    pub(super) fn tuple_literal(&mut self) -> Parse<Vec<Term>> {
        self.parenthesized(Self::term)
    }

    /// `(type) term`, if that is what stands here and not a tuple.
    fn type_hint(&mut self) -> Parse<Option<Term>> {
        let checkpoint = self.checkpoint();
        self.advance();
        let hint = match self.comparator_type() {
            Ok(hint) if self.eat(Token::RightParen) && self.is_term_start() => hint,
            Err(refused @ Failure::Refused(_)) => {
                self.rewind(&checkpoint);
                if self.peek_at(1) == Token::StringLiteral && !self.is_hinted_by_class() {
                    return Ok(None);
                }
                return Err(refused);
            }
            Ok(_) | Err(Failure::Grammar) => {
                self.rewind(&checkpoint);
                return Ok(None);
            }
        };
        let term = Box::new(self.nested(Self::plain_term)?);
        Ok(Some(Term::TypeHint { hint, term }))
    }

    /// Whether `('x')` stands here with a term behind it: then the text names a class, and whether
    /// there is one matters. Otherwise it is a tuple of one text.
    fn is_hinted_by_class(&mut self) -> bool {
        let checkpoint = self.checkpoint();
        self.advance();
        self.advance();
        let is_hinted = self.eat(Token::RightParen) && self.is_term_start();
        self.rewind(&checkpoint);
        is_hinted
    }

    fn is_term_start(&self) -> bool {
        // In `{('x'): 'y'}` the colon is the map's, and in `{('x'): f()}`: no marker is called.
        if self.peek() == Token::Colon {
            let is_called = matches!(self.peek_at(2), Token::LeftParen | Token::Dot);
            return self.is_ident_at(1) && !is_called;
        }
        matches!(
            self.peek(),
            Token::Null
                | Token::QuestionMark
                | Token::LeftBracket
                | Token::LeftBrace
                | Token::LeftParen
        ) || constant_kind(self.peek()).is_some()
            || matches!(self.peek(), Token::Name | Token::QuotedName | Token::Cast)
            || self.is_function_call()
    }

    fn cast(&mut self) -> Parse<Term> {
        self.advance();
        self.advance();
        let term = Box::new(self.nested(Self::plain_term)?);
        self.expect(Token::As)?;
        let target = self.native_type()?;
        self.expect(Token::RightParen)?;
        Ok(Term::Cast { term, target })
    }

    /// A literal, if one is here.
    pub(super) fn constant(&mut self) -> Option<Constant> {
        let token = self.peek();
        let kind = constant_kind(token)?;
        let text = match token {
            Token::StringLiteral => unquote(self.slice()).into(),
            Token::Nan | Token::NegativeNan => "NaN".into(),
            Token::Infinity => "Infinity".into(),
            Token::NegativeInfinity => "-Infinity".into(),
            _ => self.slice().into(),
        };
        self.advance();
        Some(Constant { kind, text })
    }

    /// An integer or a marker.
    pub(super) fn int_value(&mut self) -> Parse<Term> {
        if self.peek() == Token::IntegerLiteral {
            return self.constant().map(Term::Constant).ok_or(Failure::Grammar);
        }
        self.marker_term()
    }
}

fn operation(left: Box<Term>, operator: ArithmeticOperator, right: Box<Term>) -> Term {
    Term::Operation { left, operator, right }
}

fn constant_kind(token: Token) -> Option<ConstantKind> {
    Some(match token {
        Token::StringLiteral => ConstantKind::String,
        Token::IntegerLiteral => ConstantKind::Integer,
        Token::FloatLiteral
        | Token::Nan
        | Token::NegativeNan
        | Token::Infinity
        | Token::NegativeInfinity => ConstantKind::Float,
        Token::BooleanLiteral => ConstantKind::Boolean,
        Token::DurationLiteral => ConstantKind::Duration,
        Token::UuidLiteral => ConstantKind::Uuid,
        Token::HexLiteral => ConstantKind::Hex,
        _ => return None,
    })
}
