//! User-defined functions and aggregates.

use super::cursor::{Failure, Parse, Parser};
use crate::ast::{
    CreateAggregate, CreateFunction, DropAggregate, DropFunction, RawType, Statement,
};
use crate::lexer::Token;

impl Parser<'_> {
    fn or_replace(&mut self) -> Parse<bool> {
        self.eat_clause(&[Token::Or, Token::Replace])
    }

    pub(super) fn create_function(&mut self) -> Parse<Statement> {
        self.expect(Token::Create)?;
        let or_replace = self.or_replace()?;
        self.expect(Token::Function)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let arguments =
            self.parenthesized_or_empty(|parser| Ok((parser.ident()?, parser.comparator_type()?)))?;
        let called_on_null_input = self.eat(Token::Called);
        if !called_on_null_input {
            self.expect_all(&[Token::Returns, Token::Null])?;
        }
        self.expect_all(&[Token::On, Token::Null, Token::Input, Token::Returns])?;
        let return_type = self.comparator_type()?;
        self.expect(Token::Language)?;
        if self.peek() != Token::Name {
            return Err(Failure::Grammar);
        }
        let language = self.slice().to_ascii_lowercase().into();
        self.advance();
        self.expect(Token::As)?;
        let body = self.string()?;
        Ok(Statement::CreateFunction(CreateFunction {
            name,
            or_replace,
            if_not_exists,
            arguments,
            called_on_null_input,
            return_type,
            language,
            body,
        }))
    }

    pub(super) fn create_aggregate(&mut self) -> Parse<Statement> {
        self.expect(Token::Create)?;
        let or_replace = self.or_replace()?;
        self.expect(Token::Aggregate)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let argument_types = self.parenthesized_or_empty(Self::comparator_type)?;
        self.expect(Token::Sfunc)?;
        let state_function = self.allowed_function_name()?;
        self.expect(Token::Stype)?;
        let state_type = self.comparator_type()?;
        let final_function =
            if self.eat(Token::Finalfunc) { Some(self.allowed_function_name()?) } else { None };
        let initial_condition = if self.eat(Token::Initcond) { Some(self.term()?) } else { None };
        Ok(Statement::CreateAggregate(CreateAggregate {
            name,
            or_replace,
            if_not_exists,
            argument_types,
            state_function,
            state_type,
            final_function,
            initial_condition,
        }))
    }

    fn optional_argument_types(&mut self) -> Parse<Option<Vec<RawType>>> {
        if self.peek() != Token::LeftParen {
            return Ok(None);
        }
        Ok(Some(self.parenthesized_or_empty(Self::comparator_type)?))
    }

    pub(super) fn drop_function(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Function])?;
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let argument_types = self.optional_argument_types()?;
        Ok(Statement::DropFunction(DropFunction { name, if_exists, argument_types }))
    }

    pub(super) fn drop_aggregate(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Aggregate])?;
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let argument_types = self.optional_argument_types()?;
        Ok(Statement::DropAggregate(DropAggregate { name, if_exists, argument_types }))
    }
}
