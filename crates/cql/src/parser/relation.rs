//! WHERE.

use super::cursor::{Failure, Parse, Parser};
use crate::ast::{ComparisonOperator, InValues, Name, Relation, TupleInValues, TupleValue};
use crate::lexer::Token;

impl Parser<'_> {
    /// `relation AND relation ...`.
    pub(super) fn where_clause(&mut self) -> Parse<Vec<Relation>> {
        let mut relations = vec![self.restriction()?];
        while self.eat(Token::And) {
            relations.push(self.restriction()?);
        }
        Ok(relations)
    }

    /// `WHERE ...`, if it is here.
    pub(super) fn optional_where(&mut self) -> Parse<Vec<Relation>> {
        if self.eat(Token::Where) { self.where_clause() } else { Ok(Vec::new()) }
    }

    fn restriction(&mut self) -> Parse<Relation> {
        if !self.eat(Token::ExprParen) {
            return self.nested(Self::relation);
        }
        let index = self.unbound_ident("index")?;
        self.expect(Token::Comma)?;
        let value = self.term()?;
        self.expect(Token::RightParen)?;
        Ok(Relation::IndexExpression { index, value })
    }

    fn relation(&mut self) -> Parse<Relation> {
        match self.peek() {
            Token::Token => {
                self.advance();
                let columns = self.columns_in_parentheses()?;
                let operator = self.comparison()?;
                let value = self.term()?;
                Ok(Relation::Token { columns, operator, value })
            }
            Token::LeftParen if self.is_tuple_of_columns() => self.tuple_relation(),
            Token::LeftParen => {
                self.advance();
                let relation = self.nested(Self::relation)?;
                self.expect(Token::RightParen)?;
                Ok(relation)
            }
            _ => self.column_relation(),
        }
    }

    fn is_tuple_of_columns(&self) -> bool {
        self.is_column_at(1) && matches!(self.peek_at(2), Token::Comma | Token::RightParen)
    }

    fn columns_in_parentheses(&mut self) -> Parse<Vec<Name>> {
        self.parenthesized(Self::column)
    }

    fn column_relation(&mut self) -> Parse<Relation> {
        let column = self.column()?;
        match self.peek() {
            Token::Like => {
                self.advance();
                Ok(Relation::Like { column, value: self.term()? })
            }
            Token::Is => {
                self.expect_all(&[Token::Is, Token::Not, Token::Null])?;
                Ok(Relation::IsNotNull { column })
            }
            Token::In => Ok(Relation::In { column, values: self.in_values()? }),
            Token::Contains => {
                self.advance();
                if self.eat(Token::Key) {
                    return Ok(Relation::ContainsKey { column, value: self.term()? });
                }
                Ok(Relation::Contains { column, value: self.term()? })
            }
            Token::LeftBracket => {
                self.advance();
                let key = self.term()?;
                self.expect(Token::RightBracket)?;
                let operator = self.comparison()?;
                Ok(Relation::Element { column, key, operator, value: self.term()? })
            }
            _ => {
                let operator = self.comparison()?;
                Ok(Relation::Compare { column, operator, value: self.term()? })
            }
        }
    }

    /// `IN (a, b)` or `IN ?`.
    pub(super) fn in_values(&mut self) -> Parse<InValues> {
        self.expect(Token::In)?;
        if let Some(marker) = self.marker()? {
            return Ok(InValues::Marker(marker));
        }
        Ok(InValues::Terms(self.parenthesized_or_empty(Self::term)?))
    }

    fn tuple_relation(&mut self) -> Parse<Relation> {
        let columns = self.columns_in_parentheses()?;
        if self.eat(Token::In) {
            return Ok(Relation::TupleIn { columns, values: self.tuple_in_values()? });
        }
        let operator = self.comparison()?;
        let value = match self.marker()? {
            Some(marker) => TupleValue::Marker(marker),
            None => TupleValue::Literal(self.tuple_literal()?),
        };
        Ok(Relation::Tuple { columns, operator, value })
    }

    fn tuple_in_values(&mut self) -> Parse<TupleInValues> {
        if let Some(marker) = self.marker()? {
            return Ok(TupleInValues::Marker(marker));
        }
        if matches!(self.peek_at(1), Token::QuestionMark | Token::Colon) {
            return Ok(TupleInValues::Markers(self.parenthesized(Self::expect_marker)?));
        }
        Ok(TupleInValues::Literals(self.parenthesized_or_empty(Self::tuple_literal)?))
    }

    /// `=`, `<` and their siblings, if one is here.
    pub(super) fn peek_comparison(&self) -> Option<ComparisonOperator> {
        Some(match self.peek() {
            Token::Equal => ComparisonOperator::Equal,
            Token::NotEqual => ComparisonOperator::NotEqual,
            Token::Less => ComparisonOperator::Less,
            Token::LessOrEqual => ComparisonOperator::LessOrEqual,
            Token::Greater => ComparisonOperator::Greater,
            Token::GreaterOrEqual => ComparisonOperator::GreaterOrEqual,
            _ => return None,
        })
    }

    /// `=`, `<` and their siblings.
    pub(super) fn comparison(&mut self) -> Parse<ComparisonOperator> {
        let operator = self.peek_comparison().ok_or(Failure::Grammar)?;
        self.advance();
        Ok(operator)
    }
}
