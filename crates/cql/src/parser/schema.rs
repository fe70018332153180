//! Keyspaces, user types, indexes, triggers.

use super::cursor::{Failure, Parse, Parser};
use crate::ast::{
    AlterKeyspace, AlterType, CreateIndex, CreateKeyspace, CreateTrigger, CreateType, DropIndex,
    DropKeyspace, DropTrigger, DropType, IndexTarget, IndexTargetKind, Name, Properties, RawType,
    Statement, TypeChange,
};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn use_keyspace(&mut self) -> Parse<Statement> {
        self.expect(Token::Use)?;
        Ok(Statement::Use(self.keyspace_name()?))
    }

    pub(super) fn create_keyspace(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Create, Token::Keyspace])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.keyspace_name()?;
        self.expect(Token::With)?;
        let properties = self.properties()?;
        Ok(Statement::CreateKeyspace(CreateKeyspace { name, if_not_exists, properties }))
    }

    pub(super) fn alter_keyspace(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Alter, Token::Keyspace])?;
        let if_exists = self.if_exists()?;
        let name = self.keyspace_name()?;
        self.expect(Token::With)?;
        let properties = self.properties()?;
        Ok(Statement::AlterKeyspace(AlterKeyspace { name, if_exists, properties }))
    }

    pub(super) fn drop_keyspace(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Keyspace])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropKeyspace(DropKeyspace { name: self.keyspace_name()?, if_exists }))
    }

    pub(super) fn create_type(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Create, Token::Type])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(Token::LeftParen)?;
        let mut fields = vec![self.type_field()?];
        while self.eat(Token::Comma) {
            // A comma may stand alone.
            if !matches!(self.peek(), Token::Comma | Token::RightParen) {
                fields.push(self.type_field()?);
            }
        }
        self.expect(Token::RightParen)?;
        Ok(Statement::CreateType(CreateType { name, if_not_exists, fields }))
    }

    fn type_field(&mut self) -> Parse<(Name, RawType)> {
        Ok((self.ident()?, self.comparator_type()?))
    }

    pub(super) fn alter_type(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Alter, Token::Type])?;
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let token = self.peek();
        self.advance();
        let change = match token {
            Token::Alter => {
                let field = self.ident()?;
                self.expect(Token::Type)?;
                TypeChange::AlterField { field, field_type: self.comparator_type()? }
            }
            Token::Add => {
                let if_not_exists = self.if_not_exists()?;
                let (field, field_type) = self.type_field()?;
                TypeChange::Add { if_not_exists, field, field_type }
            }
            Token::Rename => {
                let if_exists = self.if_exists()?;
                TypeChange::Rename { if_exists, renames: self.renames()? }
            }
            _ => return Err(Failure::Grammar),
        };
        Ok(Statement::AlterType(AlterType { name, if_exists, change }))
    }

    pub(super) fn drop_type(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Type])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropType(DropType { name: self.user_type_name()?, if_exists }))
    }

    pub(super) fn create_index(&mut self) -> Parse<Statement> {
        self.expect(Token::Create)?;
        let custom = self.eat(Token::Custom);
        self.expect(Token::Index)?;
        let if_not_exists = self.if_not_exists()?;
        let name = if self.peek() == Token::On { None } else { Some(self.unbound_ident("index")?) };
        self.expect(Token::On)?;
        let table = self.table_name()?;
        let targets = self.parenthesized_or_empty(Self::index_target)?;
        let using = if self.eat(Token::Using) { Some(self.string()?) } else { None };
        let properties =
            if self.eat(Token::With) { self.properties()? } else { Properties::default() };
        Ok(Statement::CreateIndex(CreateIndex {
            name,
            table,
            if_not_exists,
            custom,
            targets,
            using,
            properties,
        }))
    }

    fn index_target(&mut self) -> Parse<IndexTarget> {
        let opens = self.peek_at(1) == Token::LeftParen;
        let kind = match self.peek() {
            Token::Values if opens => IndexTargetKind::Values,
            Token::Keys if opens => IndexTargetKind::Keys,
            Token::Entries => IndexTargetKind::Entries,
            Token::Full => IndexTargetKind::Full,
            _ => IndexTargetKind::Simple,
        };
        if kind == IndexTargetKind::Simple {
            return Ok(IndexTarget { column: self.column()?, kind });
        }
        self.advance();
        self.expect(Token::LeftParen)?;
        let column = self.column()?;
        self.expect(Token::RightParen)?;
        Ok(IndexTarget { column, kind })
    }

    pub(super) fn drop_index(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Index])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropIndex(DropIndex { name: self.index_name()?, if_exists }))
    }

    pub(super) fn create_trigger(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Create, Token::Trigger])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.ident()?;
        self.expect(Token::On)?;
        let table = self.table_name()?;
        self.expect(Token::Using)?;
        let class = self.string()?;
        Ok(Statement::CreateTrigger(CreateTrigger { name, table, if_not_exists, class }))
    }

    pub(super) fn drop_trigger(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Trigger])?;
        let if_exists = self.if_exists()?;
        let name = self.ident()?;
        self.expect(Token::On)?;
        Ok(Statement::DropTrigger(DropTrigger { name, table: self.table_name()?, if_exists }))
    }
}
