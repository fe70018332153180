//! Tables and views, and what columns are made of.

use std::collections::HashSet;

use super::cursor::{Failure, Parse, Parser};
use super::properties::PropertyList;
use crate::ast::{
    AlterTable, AlterView, ClusteringOrder, ColumnDefinition, ColumnMask, CreateTable, CreateView,
    DropTable, DropView, FunctionName, Name, PrimaryKey, Statement, TableChange, Truncate,
};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Create, Token::Table])?;
        let if_not_exists = self.if_not_exists()?;
        let mut table = CreateTable {
            name: self.table_name()?,
            if_not_exists,
            columns: Vec::new(),
            primary_key: None,
            clustering_order: Vec::new(),
            compact_storage: false,
            properties: Default::default(),
        };
        self.expect(Token::LeftParen)?;
        let mut names = HashSet::new();
        self.table_column(&mut table, &mut names)?;
        while self.eat(Token::Comma) {
            // A comma may stand alone.
            if !matches!(self.peek(), Token::Comma | Token::RightParen) {
                self.table_column(&mut table, &mut names)?;
            }
        }
        self.expect(Token::RightParen)?;
        let mut properties = PropertyList::default();
        if self.eat(Token::With) {
            self.table_property(&mut table, &mut properties)?;
            while self.eat(Token::And) {
                self.table_property(&mut table, &mut properties)?;
            }
        }
        table.properties = properties.finish();
        Ok(Statement::CreateTable(table))
    }

    /// A column, or the primary key.
    fn table_column(&mut self, table: &mut CreateTable, names: &mut HashSet<Name>) -> Parse<()> {
        if self.peek() == Token::Primary {
            let key = self.primary_key()?;
            return self.set_primary_key(table, key);
        }
        let column = self.column_definition()?;
        if !names.insert(column.name.clone()) {
            return self.refuse_invalid(format!(
                "Duplicate column '{}' declaration for table '{}'",
                column.name, table.name
            ));
        }
        if self.eat_clause(&[Token::Primary, Token::Key])? {
            let partition = vec![column.name.clone()];
            self.set_primary_key(table, PrimaryKey { partition, clustering: Vec::new() })?;
        }
        table.columns.push(column);
        Ok(())
    }

    fn set_primary_key(&self, table: &mut CreateTable, key: PrimaryKey) -> Parse<()> {
        if table.primary_key.is_some() {
            return self.refuse_invalid(format!(
                "Multiple PRIMARY KEY specified for table '{}' (exactly one required)",
                table.name
            ));
        }
        table.primary_key = Some(key);
        Ok(())
    }

    /// `name type [STATIC] [MASKED WITH ...]`.
    fn column_definition(&mut self) -> Parse<ColumnDefinition> {
        let name = self.ident()?;
        let column_type = self.comparator_type()?;
        let is_static = self.eat(Token::Static);
        let mask = if self.peek() == Token::Masked { Some(self.column_mask()?) } else { None };
        Ok(ColumnDefinition { name, column_type, is_static, mask })
    }

    fn column_mask(&mut self) -> Parse<ColumnMask> {
        self.expect_all(&[Token::Masked, Token::With])?;
        let next = self.peek_at(1);
        if self.peek() == Token::Default && !matches!(next, Token::LeftParen | Token::Dot) {
            self.advance();
            let function = FunctionName {
                keyspace: Some(Name::from("system")),
                name: Name::from("mask_default"),
            };
            return Ok(ColumnMask { function, arguments: Vec::new() });
        }
        let function = self.function_name()?;
        let arguments = self.parenthesized_or_empty(Self::term)?;
        Ok(ColumnMask { function, arguments })
    }

    /// `PRIMARY KEY ((a, b), c)`.
    fn primary_key(&mut self) -> Parse<PrimaryKey> {
        self.expect_all(&[Token::Primary, Token::Key, Token::LeftParen])?;
        let partition = if self.peek() == Token::LeftParen {
            self.parenthesized(Self::ident)?
        } else {
            vec![self.ident()?]
        };
        let mut clustering = Vec::new();
        while self.eat(Token::Comma) {
            clustering.push(self.ident()?);
        }
        self.expect(Token::RightParen)?;
        Ok(PrimaryKey { partition, clustering })
    }

    fn table_property(
        &mut self,
        table: &mut CreateTable,
        properties: &mut PropertyList,
    ) -> Parse<()> {
        if self.is_keyword_property(Token::Compact) {
            table.compact_storage = true;
            return self.expect_all(&[Token::Compact, Token::Storage]);
        }
        if self.is_keyword_property(Token::Clustering) {
            let kind = "table";
            return self.clustering_order(
                &mut table.clustering_order,
                kind,
                &table.name.to_string(),
            );
        }
        self.property(properties)
    }

    /// Whether the word here opens a property of its own form and is no key.
    fn is_keyword_property(&self, word: Token) -> bool {
        self.peek() == word && self.peek_at(1) != Token::Equal
    }

    fn clustering_order(
        &mut self,
        order: &mut Vec<ClusteringOrder>,
        kind: &str,
        of: &str,
    ) -> Parse<()> {
        self.expect_all(&[Token::Clustering, Token::Order, Token::By, Token::LeftParen])?;
        let mut columns: HashSet<Name> = order.iter().map(|part| part.column.clone()).collect();
        loop {
            let column = self.ident()?;
            let descending = self.eat(Token::Desc);
            if !descending {
                self.expect(Token::Asc)?;
            }
            if !columns.insert(column.clone()) {
                return self.refuse_invalid(format!(
                    "Duplicate column '{column}' in CLUSTERING ORDER BY clause for {kind} '{of}'"
                ));
            }
            order.push(ClusteringOrder { column, descending });
            if !self.eat(Token::Comma) {
                return self.expect(Token::RightParen);
            }
        }
    }

    pub(super) fn alter_table(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Alter, Token::Table])?;
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        let change = match self.peek() {
            Token::Alter => self.alter_column()?,
            Token::Add => self.add_columns()?,
            Token::Drop => self.drop_columns()?,
            Token::Rename => {
                self.advance();
                let if_exists = self.if_exists()?;
                TableChange::Rename { if_exists, renames: self.renames()? }
            }
            Token::With => {
                self.advance();
                TableChange::Properties(self.properties()?)
            }
            _ => return Err(Failure::Grammar),
        };
        Ok(Statement::AlterTable(AlterTable { name, if_exists, change }))
    }

    fn alter_column(&mut self) -> Parse<TableChange> {
        self.expect(Token::Alter)?;
        let if_exists = self.if_exists()?;
        let column = self.column()?;
        match self.peek() {
            Token::Type if !if_exists => {
                self.advance();
                Ok(TableChange::AlterType { column, column_type: self.comparator_type()? })
            }
            Token::Drop => {
                self.expect_all(&[Token::Drop, Token::Masked])?;
                Ok(TableChange::Mask { column, if_exists, mask: None })
            }
            _ => {
                let mask = Some(self.column_mask()?);
                Ok(TableChange::Mask { column, if_exists, mask })
            }
        }
    }

    fn add_columns(&mut self) -> Parse<TableChange> {
        self.expect(Token::Add)?;
        let if_not_exists = self.if_not_exists()?;
        let columns = if self.peek() == Token::LeftParen {
            self.parenthesized(Self::column_definition)?
        } else {
            vec![self.column_definition()?]
        };
        Ok(TableChange::Add { if_not_exists, columns })
    }

    fn drop_columns(&mut self) -> Parse<TableChange> {
        self.expect(Token::Drop)?;
        if self.peek() == Token::Compact && self.peek_at(1) == Token::Storage {
            self.advance();
            self.advance();
            return Ok(TableChange::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns = if self.peek() == Token::LeftParen {
            self.parenthesized(Self::ident)?
        } else {
            vec![self.ident()?]
        };
        let mut timestamp = None;
        if self.eat_clause(&[Token::Using, Token::Timestamp])? {
            let digits = self.slice();
            self.expect(Token::IntegerLiteral)?;
            timestamp = match digits.parse() {
                Ok(micros) => Some(micros),
                Err(_) => return self.refuse_number(digits),
            };
        }
        Ok(TableChange::Drop { if_exists, columns, timestamp })
    }

    /// `a TO b AND c TO d`.
    pub(super) fn renames(&mut self) -> Parse<Vec<(Name, Name)>> {
        let mut renames = Vec::new();
        loop {
            let from = self.ident()?;
            self.expect(Token::To)?;
            renames.push((from, self.ident()?));
            if !self.eat(Token::And) {
                return Ok(renames);
            }
        }
    }

    pub(super) fn drop_table(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Table])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropTable(DropTable { name: self.table_name()?, if_exists }))
    }

    pub(super) fn truncate(&mut self) -> Parse<Statement> {
        self.expect(Token::Truncate)?;
        self.eat(Token::Table);
        Ok(Statement::Truncate(Truncate { table: self.table_name()? }))
    }

    pub(super) fn create_view(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Create, Token::Materialized, Token::View])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect_all(&[Token::As, Token::Select])?;
        let selection = self.selection()?;
        self.expect(Token::From)?;
        let base = self.table_name()?;
        let relations = self.optional_where()?;
        let primary_key = self.primary_key()?;
        let mut clustering_order = Vec::new();
        let mut properties = PropertyList::default();
        if self.eat(Token::With) {
            let of = name.to_string();
            self.view_property(&mut clustering_order, &of, &mut properties)?;
            while self.eat(Token::And) {
                self.view_property(&mut clustering_order, &of, &mut properties)?;
            }
        }
        Ok(Statement::CreateView(CreateView {
            name,
            if_not_exists,
            selection,
            base,
            relations,
            primary_key,
            clustering_order,
            properties: properties.finish(),
        }))
    }

    fn view_property(
        &mut self,
        order: &mut Vec<ClusteringOrder>,
        view: &str,
        properties: &mut PropertyList,
    ) -> Parse<()> {
        if self.is_keyword_property(Token::Compact) {
            self.expect_all(&[Token::Compact, Token::Storage])?;
            return self.refuse("COMPACT STORAGE tables are not allowed starting with version 4.0");
        }
        if self.is_keyword_property(Token::Clustering) {
            return self.clustering_order(order, "view", view);
        }
        self.property(properties)
    }

    pub(super) fn alter_view(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Alter, Token::Materialized, Token::View])?;
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        self.expect(Token::With)?;
        Ok(Statement::AlterView(AlterView { name, if_exists, properties: self.properties()? }))
    }

    pub(super) fn drop_view(&mut self) -> Parse<Statement> {
        self.expect_all(&[Token::Drop, Token::Materialized, Token::View])?;
        let if_exists = self.if_exists()?;
        Ok(Statement::DropView(DropView { name: self.table_name()?, if_exists }))
    }
}
