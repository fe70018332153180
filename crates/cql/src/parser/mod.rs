//! Tokens to statements, by recursive descent.
//!
//! The parser only knows right statements: on the first token that does not fit it gives up, and
//! `diagnose` finds the words that Cassandra would have for the failure.
//!
//! Reading order: `cursor` (the tokens and the identifiers), `types`, `term`, `selector` and what
//! they share, `relation`, then the statements: `select`, `dml`, `tables`, `schema`, `functions`, `roles`,
//! `describe`.

mod cursor;
mod describe;
mod dml;
mod functions;
mod properties;
mod relation;
mod roles;
mod schema;
mod select;
mod selector;
mod shared;
mod tables;
mod term;
mod types;

use crate::ast::{Parsed, RawType, Statement, Term};
use crate::diagnose;
use crate::error::SyntaxError;
use crate::lexer::Token;

use cursor::{Failure, Parse, Parser};

pub use cursor::{NESTING_MAX, OPERATORS_MAX, TEXT_BYTES_MAX};
pub(crate) use cursor::{unescape, unquote};

/// One statement, with any number of semicolons behind it.
pub fn parse(text: &str) -> Result<Parsed, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let outcome = parser.query();
    let statement = finish(text, &mut parser, outcome)?;
    Ok(Parsed { statement, markers: parser.take_markers() })
}

/// A type alone, such as `map<text, frozen<list<int>>>`.
pub fn parse_type(text: &str) -> Result<RawType, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let outcome = parser.comparator_type().and_then(|raw_type| {
        parser.expect(Token::End)?;
        Ok(raw_type)
    });
    finish_part(text, &mut parser, outcome)
}

/// A term alone, such as `[1, 2]`.
pub fn parse_term(text: &str) -> Result<Term, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let outcome = parser.term().and_then(|term| {
        parser.expect(Token::End)?;
        Ok(term)
    });
    finish_part(text, &mut parser, outcome)
}

fn finish<T>(text: &str, parser: &mut Parser<'_>, outcome: Parse<T>) -> Result<T, SyntaxError> {
    let recorded = parser.take_recorded();
    match (outcome, recorded) {
        (Err(Failure::Refused(error)), _) => Err(error),
        (Ok(value), None) => Ok(value),
        (Ok(_), Some(recorded)) => Err(SyntaxError::Grammar(recorded.message)),
        (Err(Failure::Grammar), recorded) => {
            let skipped = parser.explained_tokens();
            match (diagnose::diagnose(text, parser.explain_offset()), recorded) {
                // A decision that looked past the recorded token failed before it was recorded.
                (Some(fault), Some(recorded)) if fault.from + skipped > recorded.position => {
                    Err(SyntaxError::Grammar(recorded.message))
                }
                (Some(fault), _) => Err(fault.error),
                (None, Some(recorded)) => Err(SyntaxError::Grammar(recorded.message)),
                (None, None) => Err(diagnose::unexpected(text, parser.failed_at())),
            }
        }
    }
}

fn finish_part<T>(
    text: &str,
    parser: &mut Parser<'_>,
    outcome: Parse<T>,
) -> Result<T, SyntaxError> {
    match (outcome, parser.take_recorded()) {
        (Err(Failure::Refused(error)), _) => Err(error),
        (_, Some(recorded)) => Err(SyntaxError::Grammar(recorded.message)),
        (Ok(value), None) => Ok(value),
        (Err(Failure::Grammar), None) => Err(diagnose::unexpected(text, parser.failed_at())),
    }
}

impl Parser<'_> {
    fn query(&mut self) -> Parse<Statement> {
        let statement = if self.is_explain() {
            self.skip_explain();
            Statement::Explain(Box::new(self.statement()?))
        } else {
            self.statement()?
        };
        while self.eat(Token::Semicolon) {}
        self.expect(Token::End)?;
        Ok(statement)
    }

    fn statement(&mut self) -> Parse<Statement> {
        match self.peek() {
            Token::Select => Ok(Statement::Select(Box::new(self.select()?))),
            Token::Insert => Ok(Statement::Insert(self.insert()?)),
            Token::Update => Ok(Statement::Update(self.update()?)),
            Token::Delete => Ok(Statement::Delete(self.delete()?)),
            Token::Begin => Ok(Statement::Batch(self.batch()?)),
            Token::Use => self.use_keyspace(),
            Token::Truncate => self.truncate(),
            Token::Create => self.create(),
            Token::Alter => self.alter(),
            Token::Drop => self.drop(),
            Token::Grant => self.grant(),
            Token::Revoke => self.revoke(),
            Token::List => self.list(),
            Token::Add => self.add_identity(),
            Token::Describe | Token::Desc => self.describe(),
            _ => Err(Failure::Grammar),
        }
    }

    fn create(&mut self) -> Parse<Statement> {
        match self.peek_at(1) {
            Token::Keyspace => self.create_keyspace(),
            Token::Table => self.create_table(),
            Token::Type => self.create_type(),
            Token::Custom | Token::Index => self.create_index(),
            Token::Materialized => self.create_view(),
            Token::Trigger => self.create_trigger(),
            Token::User => self.create_user(),
            Token::Role => self.create_role(),
            Token::Function => self.create_function(),
            Token::Aggregate => self.create_aggregate(),
            Token::Or => match self.peek_at(3) {
                Token::Function => self.create_function(),
                Token::Aggregate => self.create_aggregate(),
                _ => Err(Failure::Grammar),
            },
            _ => Err(Failure::Grammar),
        }
    }

    fn alter(&mut self) -> Parse<Statement> {
        match self.peek_at(1) {
            Token::Keyspace => self.alter_keyspace(),
            Token::Table => self.alter_table(),
            Token::Type => self.alter_type(),
            Token::Materialized => self.alter_view(),
            Token::User => self.alter_user(),
            Token::Role => self.alter_role(),
            _ => Err(Failure::Grammar),
        }
    }

    fn drop(&mut self) -> Parse<Statement> {
        match self.peek_at(1) {
            Token::Keyspace => self.drop_keyspace(),
            Token::Table => self.drop_table(),
            Token::Type => self.drop_type(),
            Token::Index => self.drop_index(),
            Token::Materialized => self.drop_view(),
            Token::Trigger => self.drop_trigger(),
            Token::User => self.drop_user(),
            Token::Role => self.drop_role(),
            Token::Identity => self.drop_identity(),
            Token::Function => self.drop_function(),
            Token::Aggregate => self.drop_aggregate(),
            _ => Err(Failure::Grammar),
        }
    }
}
