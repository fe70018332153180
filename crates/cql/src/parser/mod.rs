//! Tokens to statements, by recursive descent.
//!
//! The parser only knows right statements: on the first token that does not fit it gives up, and
//! `diagnose` finds the words that Cassandra would have for the failure.
//!
//! Reading order: `cursor` (the tokens and the identifiers), `types`, `term`, `selector`,
//! `relation`, then the statements: `select`, `dml`, `tables`, `schema`, `functions`, `roles`,
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
            Token::KSelect => Ok(Statement::Select(Box::new(self.select()?))),
            Token::KInsert => Ok(Statement::Insert(self.insert()?)),
            Token::KUpdate => Ok(Statement::Update(self.update()?)),
            Token::KDelete => Ok(Statement::Delete(self.delete()?)),
            Token::KBegin => Ok(Statement::Batch(self.batch()?)),
            Token::KUse => self.use_keyspace(),
            Token::KTruncate => self.truncate(),
            Token::KCreate => self.create(),
            Token::KAlter => self.alter(),
            Token::KDrop => self.drop(),
            Token::KGrant => self.grant(),
            Token::KRevoke => self.revoke(),
            Token::KList => self.list(),
            Token::KAdd => self.add_identity(),
            Token::KDescribe | Token::KDesc => self.describe(),
            _ => Err(Failure::Grammar),
        }
    }

    fn create(&mut self) -> Parse<Statement> {
        match self.peek_at(1) {
            Token::KKeyspace => self.create_keyspace(),
            Token::KColumnFamily => self.create_table(),
            Token::KType => self.create_type(),
            Token::KCustom | Token::KIndex => self.create_index(),
            Token::KMaterialized => self.create_view(),
            Token::KTrigger => self.create_trigger(),
            Token::KUser => self.create_user(),
            Token::KRole => self.create_role(),
            Token::KFunction => self.create_function(),
            Token::KAggregate => self.create_aggregate(),
            Token::KOr => match self.peek_at(3) {
                Token::KFunction => self.create_function(),
                Token::KAggregate => self.create_aggregate(),
                _ => Err(Failure::Grammar),
            },
            _ => Err(Failure::Grammar),
        }
    }

    fn alter(&mut self) -> Parse<Statement> {
        match self.peek_at(1) {
            Token::KKeyspace => self.alter_keyspace(),
            Token::KColumnFamily => self.alter_table(),
            Token::KType => self.alter_type(),
            Token::KMaterialized => self.alter_view(),
            Token::KUser => self.alter_user(),
            Token::KRole => self.alter_role(),
            _ => Err(Failure::Grammar),
        }
    }

    fn drop(&mut self) -> Parse<Statement> {
        match self.peek_at(1) {
            Token::KKeyspace => self.drop_keyspace(),
            Token::KColumnFamily => self.drop_table(),
            Token::KType => self.drop_type(),
            Token::KIndex => self.drop_index(),
            Token::KMaterialized => self.drop_view(),
            Token::KTrigger => self.drop_trigger(),
            Token::KUser => self.drop_user(),
            Token::KRole => self.drop_role(),
            Token::KIdentity => self.drop_identity(),
            Token::KFunction => self.drop_function(),
            Token::KAggregate => self.drop_aggregate(),
            _ => Err(Failure::Grammar),
        }
    }
}
