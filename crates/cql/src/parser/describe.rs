//! DESCRIBE.

use super::cursor::{Parse, Parser};
use crate::ast::{Describe, DescribeTarget, QualifiedName, Statement};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Parse<Statement> {
        self.advance();
        let target = self.describe_target()?;
        let with_internals = self.eat_clause(&[Token::With, Token::Internals])?;
        Ok(Statement::Describe(Describe { target, with_internals }))
    }

    fn describe_target(&mut self) -> Parse<DescribeTarget> {
        // A word that names a kind may also be the name of an object: then nothing but a dot, the
        // end or WITH follows it.
        let next = self.peek_at(1);
        let is_name = matches!(next, Token::Dot | Token::End | Token::Semicolon | Token::With);
        let target = match self.peek() {
            Token::Cluster => DescribeTarget::Cluster,
            Token::Keyspaces => DescribeTarget::Keyspaces,
            Token::Tables => DescribeTarget::Tables,
            Token::Types => DescribeTarget::Types,
            Token::Functions => DescribeTarget::Functions,
            Token::Aggregates => DescribeTarget::Aggregates,
            Token::Schema => DescribeTarget::Schema { full: false },
            Token::Full => {
                self.advance();
                self.expect(Token::Schema)?;
                return Ok(DescribeTarget::Schema { full: true });
            }
            Token::Keyspace => return self.describe_keyspace(false),
            Token::Only if next == Token::Keyspace => {
                self.advance();
                return self.describe_keyspace(true);
            }
            Token::Table => {
                self.advance();
                return Ok(DescribeTarget::Table(self.table_name()?));
            }
            Token::Index => {
                self.advance();
                return Ok(DescribeTarget::Index(self.table_name()?));
            }
            Token::Materialized => {
                self.advance();
                self.expect(Token::View)?;
                return Ok(DescribeTarget::View(self.table_name()?));
            }
            Token::Type if !is_name => {
                self.advance();
                return Ok(DescribeTarget::Type(self.user_type_name()?));
            }
            Token::Function if !is_name => {
                self.advance();
                return Ok(DescribeTarget::Function(self.function_name()?));
            }
            Token::Aggregate if !is_name => {
                self.advance();
                return Ok(DescribeTarget::Aggregate(self.function_name()?));
            }
            _ => return self.describe_any(),
        };
        self.advance();
        Ok(target)
    }

    fn describe_keyspace(&mut self, only: bool) -> Parse<DescribeTarget> {
        self.expect(Token::Keyspace)?;
        let named = self.is_ident_at(0) || self.peek() == Token::QuestionMark;
        let name = if named { Some(self.keyspace_name()?) } else { None };
        Ok(DescribeTarget::Keyspace { name, only })
    }

    fn describe_any(&mut self) -> Parse<DescribeTarget> {
        let first = self.ident()?;
        let name = if self.eat(Token::Dot) {
            QualifiedName { keyspace: Some(first), name: self.ident()? }
        } else {
            QualifiedName { keyspace: None, name: first }
        };
        Ok(DescribeTarget::Any(name))
    }
}
