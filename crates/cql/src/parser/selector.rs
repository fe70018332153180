//! Selectors: what may stand between SELECT and FROM.

use super::cursor::{Failure, Parse, Parser};
use super::shared::Braced;
use crate::ast::{AliasedSelector, ArithmeticOperator, CellFunction, Selection, Selector, Term};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn selection(&mut self) -> Parse<Selection> {
        if self.eat(Token::Star) {
            return Ok(Selection::Wildcard);
        }
        Ok(Selection::Selectors(self.comma_list(Self::aliased_selector)?))
    }

    fn aliased_selector(&mut self) -> Parse<AliasedSelector> {
        let selector = self.selector()?;
        let alias = if self.eat(Token::As) { Some(self.ident()?) } else { None };
        Ok(AliasedSelector { selector, alias })
    }

    pub(super) fn selector(&mut self) -> Parse<Selector> {
        self.nested(Self::selector_sum)
    }

    fn selector_sum(&mut self) -> Parse<Selector> {
        let sign = |parser: &Self| match parser.peek() {
            Token::Plus => Some(ArithmeticOperator::Add),
            Token::Minus => Some(ArithmeticOperator::Subtract),
            _ => None,
        };
        self.chain(Self::selector_product, sign, operation)
    }

    fn selector_product(&mut self) -> Parse<Selector> {
        self.chain(Self::signed_selector, Self::product_operator, operation)
    }

    fn signed_selector(&mut self) -> Parse<Selector> {
        if self.eat(Token::Minus) {
            let operand = self.nested(Self::signed_selector)?;
            return Ok(Selector::Negation(Box::new(operand)));
        }
        let receiver = self.selector_primary()?;
        self.modifiers(receiver)
    }

    /// `.field`, `[element]` and `[slice]`, any number of them.
    fn modifiers(&mut self, mut receiver: Selector) -> Parse<Selector> {
        loop {
            match self.peek() {
                Token::Dot => {
                    self.advance();
                    let field = self.ident()?;
                    receiver = Selector::Field { receiver: Box::new(receiver), field };
                }
                Token::LeftBracket => {
                    self.advance();
                    receiver = self.element_or_slice(receiver)?;
                    self.expect(Token::RightBracket)?;
                }
                _ => return Ok(receiver),
            }
            self.count_operator()?;
        }
    }

    fn element_or_slice(&mut self, receiver: Selector) -> Parse<Selector> {
        let receiver = Box::new(receiver);
        if self.eat(Token::Range) {
            let to = Some(self.term()?);
            return Ok(Selector::Slice { receiver, from: None, to });
        }
        let key = self.term()?;
        if !self.eat(Token::Range) {
            return Ok(Selector::Element { receiver, key });
        }
        let to = if self.peek() == Token::RightBracket { None } else { Some(self.term()?) };
        Ok(Selector::Slice { receiver, from: Some(key), to })
    }

    fn selector_primary(&mut self) -> Parse<Selector> {
        if let Some(constant) = self.constant() {
            return Ok(Selector::Term(Term::Constant(constant)));
        }
        match self.peek() {
            Token::Null => {
                self.advance();
                Ok(Selector::Term(Term::Null))
            }
            Token::QuestionMark if self.peek_at(1) != Token::Dot => self.selected_marker(),
            Token::Colon => self.selected_marker(),
            Token::LeftParen => self.parenthesized_selector(),
            Token::LeftBracket => Ok(Selector::List(self.bracketed(Self::selector)?)),
            Token::LeftBrace => Ok(match self.braced(Self::selector)? {
                Braced::Set(elements) => Selector::Set(elements),
                Braced::Map(entries) => Selector::MapOrUserType(entries),
            }),
            _ => self.named_selector(),
        }
    }

    fn selected_marker(&mut self) -> Parse<Selector> {
        Ok(Selector::Term(Term::Marker(self.expect_marker()?)))
    }

    /// A type hint if one fits, else a tuple or mere parentheses.
    fn parenthesized_selector(&mut self) -> Parse<Selector> {
        let checkpoint = self.checkpoint();
        match self.selector_hint() {
            Err(Failure::Grammar) => self.rewind(&checkpoint),
            settled => return settled,
        }
        Ok(Selector::Parenthesized(self.parenthesized(Self::selector)?))
    }

    fn selector_hint(&mut self) -> Parse<Selector> {
        self.expect(Token::LeftParen)?;
        let hint = self.comparator_type()?;
        self.expect(Token::RightParen)?;
        let selector = Box::new(self.nested(Self::selector_primary)?);
        Ok(Selector::TypeHint { hint, selector })
    }

    /// A function or a column.
    fn named_selector(&mut self) -> Parse<Selector> {
        if self.peek_at(1) == Token::LeftParen {
            match self.peek() {
                Token::Count if self.peek_at(2) == Token::Star => {
                    self.expect_all(&[
                        Token::Count,
                        Token::LeftParen,
                        Token::Star,
                        Token::RightParen,
                    ])?;
                    return Ok(Selector::CountRows);
                }
                Token::Writetime => return self.cell_function(CellFunction::WriteTime),
                Token::Maxwritetime => return self.cell_function(CellFunction::MaxWriteTime),
                Token::Ttl => return self.cell_function(CellFunction::Ttl),
                Token::Cast => return self.cast_selector(),
                _ => {}
            }
        }
        if self.is_function_call() {
            let name = self.function_name()?;
            let arguments = self.parenthesized_or_empty(Self::selector)?;
            return Ok(Selector::Function { name, arguments });
        }
        let column = self.ident()?;
        if self.is_after_selector() { Ok(Selector::Column(column)) } else { Err(Failure::Grammar) }
    }

    /// Whether the token here may follow a column. Cassandra looks before it takes a word for a
    /// column, which tells `json AS x` from a column `as` behind JSON.
    fn is_after_selector(&self) -> bool {
        matches!(
            self.peek(),
            Token::Plus
                | Token::Minus
                | Token::Star
                | Token::Slash
                | Token::Percent
                | Token::Dot
                | Token::LeftBracket
                | Token::Comma
                | Token::Colon
                | Token::RightParen
                | Token::RightBracket
                | Token::RightBrace
                | Token::As
                | Token::From
                | Token::Order
                | Token::Per
                | Token::Limit
                | Token::Allow
                | Token::Semicolon
                | Token::End
        )
    }

    fn cell_function(&mut self, function: CellFunction) -> Parse<Selector> {
        self.advance();
        self.advance();
        let column = Selector::Column(self.ident()?);
        let argument = Box::new(self.modifiers(column)?);
        self.expect(Token::RightParen)?;
        Ok(Selector::Cell { function, argument })
    }

    fn cast_selector(&mut self) -> Parse<Selector> {
        self.advance();
        self.advance();
        let selector = Box::new(self.selector()?);
        self.expect(Token::As)?;
        let target = self.native_type()?;
        self.expect(Token::RightParen)?;
        Ok(Selector::Cast { selector, target })
    }
}

fn operation(left: Box<Selector>, operator: ArithmeticOperator, right: Box<Selector>) -> Selector {
    Selector::Operation { left, operator, right }
}
