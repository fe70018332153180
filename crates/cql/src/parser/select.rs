//! SELECT.

use super::cursor::{Failure, Parse, Parser};
use crate::ast::{Ordering, Select, Selection};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Parse<Select> {
        self.expect(Token::Select)?;
        let (json, (distinct, selection)) = self.json_and_select_clause()?;
        self.expect(Token::From)?;
        let table = self.table_name()?;
        let relations = self.optional_where()?;
        let group_by = if self.eat_clause(&[Token::Group, Token::By])? {
            self.comma_list(Self::selector)?
        } else {
            Vec::new()
        };
        let order_by = if self.eat_clause(&[Token::Order, Token::By])? {
            self.comma_list(Self::ordering)?
        } else {
            Vec::new()
        };
        let per_partition_limit =
            if self.eat_clause(&[Token::Per, Token::Partition, Token::Limit])? {
                Some(self.int_value()?)
            } else {
                None
            };
        let limit = if self.eat(Token::Limit) { Some(self.int_value()?) } else { None };
        let allow_filtering = self.eat_clause(&[Token::Allow, Token::Filtering])?;
        Ok(Select {
            json,
            distinct,
            selection,
            table,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
        })
    }

    /// JSON is a keyword only where a select clause follows it; else it is a column.
    fn json_and_select_clause(&mut self) -> Parse<(bool, (bool, Selection))> {
        if self.peek() == Token::Json
            && let Some(clause) = self.after_keyword(Self::select_clause)?
        {
            return Ok((true, clause));
        }
        Ok((false, self.select_clause()?))
    }

    /// DISTINCT is a keyword only where selectors follow it; else it is a column.
    fn select_clause(&mut self) -> Parse<(bool, Selection)> {
        if self.peek() == Token::Distinct
            && let Some(selection) = self.after_keyword(Self::selection)?
        {
            return Ok((true, selection));
        }
        Ok((false, self.selection()?))
    }

    /// What follows the word here, or nothing and no step if it does not parse.
    fn after_keyword<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<Option<T>> {
        let checkpoint = self.checkpoint();
        self.advance();
        match rule(self) {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Grammar) => {
                self.rewind(&checkpoint);
                Ok(None)
            }
            Err(refused) => Err(refused),
        }
    }

    fn ordering(&mut self) -> Parse<Ordering> {
        let column = self.column()?;
        let ann_of =
            if self.eat_clause(&[Token::Ann, Token::Of])? { Some(self.term()?) } else { None };
        let descending = self.peek() == Token::Desc;
        if descending || self.peek() == Token::Asc {
            self.advance();
        }
        Ok(Ordering { column, ann_of, descending })
    }
}
