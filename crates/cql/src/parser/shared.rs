//! What terms and selectors have in common: operators, and what stands in brackets and braces.

use super::cursor::{Parse, Parser};
use crate::ast::ArithmeticOperator;
use crate::lexer::Token;

/// What stood in braces.
pub(super) enum Braced<T> {
    Set(Vec<T>),
    Map(Vec<(T, T)>),
}

impl Parser<'_> {
    /// Operands with operators of one rank between them, the first ones bound first.
    pub(super) fn chain<T>(
        &mut self,
        operand: impl Fn(&mut Self) -> Parse<T>,
        operator: impl Fn(&Self) -> Option<ArithmeticOperator>,
        join: impl Fn(Box<T>, ArithmeticOperator, Box<T>) -> T,
    ) -> Parse<T> {
        let mut left = operand(self)?;
        while let Some(sign) = operator(self) {
            self.advance();
            self.count_operator()?;
            left = join(Box::new(left), sign, Box::new(operand(self)?));
        }
        Ok(left)
    }

    /// The operator here, if it is one of a product.
    pub(super) fn product_operator(&self) -> Option<ArithmeticOperator> {
        match self.peek() {
            Token::Star => Some(ArithmeticOperator::Multiply),
            Token::Slash => Some(ArithmeticOperator::Divide),
            Token::Percent => Some(ArithmeticOperator::Modulo),
            _ => None,
        }
    }

    /// `[a, b]`, from its bracket on.
    pub(super) fn bracketed<T>(&mut self, part: fn(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        self.advance();
        if self.eat(Token::RightBracket) {
            return Ok(Vec::new());
        }
        let elements = self.comma_list(part)?;
        self.expect(Token::RightBracket)?;
        Ok(elements)
    }

    /// `{a, b}` or `{a: b, c: d}`, from its brace on.
    pub(super) fn braced<T>(&mut self, part: fn(&mut Self) -> Parse<T>) -> Parse<Braced<T>> {
        self.advance();
        if self.eat(Token::RightBrace) {
            return Ok(Braced::Set(Vec::new()));
        }
        let first = part(self)?;
        let braced = if self.eat(Token::Colon) {
            let mut entries = vec![(first, part(self)?)];
            while self.eat(Token::Comma) {
                entries.push(self.entry(part)?);
            }
            Braced::Map(entries)
        } else {
            let mut elements = vec![first];
            while self.eat(Token::Comma) {
                elements.push(part(self)?);
            }
            Braced::Set(elements)
        };
        self.expect(Token::RightBrace)?;
        Ok(braced)
    }

    /// `key: value`.
    pub(super) fn entry<T>(&mut self, part: fn(&mut Self) -> Parse<T>) -> Parse<(T, T)> {
        let key = part(self)?;
        self.expect(Token::Colon)?;
        Ok((key, part(self)?))
    }
}
