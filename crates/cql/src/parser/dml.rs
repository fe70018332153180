//! INSERT, UPDATE, DELETE, BATCH.

use std::collections::{HashMap, HashSet};

use super::cursor::{Failure, Parse, Parser};
use crate::ast::{
    Assignment, AssignmentOperation, Attributes, Batch, BatchKind, ColumnCondition, Condition,
    ConditionPath, ConditionTest, Delete, Deletion, Insert, InsertSource, JsonValue, Modification,
    Name, Term, Update,
};
use crate::lexer::Token;

/// Up to here a scan of all assignments is cheaper than an index of them.
const ASSIGNMENTS_SCANNED_MAX: usize = 32;

/// Finds assignments to the same column without comparing each with each.
#[derive(Default)]
struct AssignmentIndex {
    /// The first assignment to a column.
    by_column: HashMap<Name, usize>,
    fields: HashSet<(Name, Name)>,
    indexed_count: usize,
}

impl AssignmentIndex {
    /// Whether the assignment clashes with an earlier one.
    fn clashes(&mut self, earlier: &[Assignment], assignment: &Assignment) -> bool {
        if earlier.len() <= ASSIGNMENTS_SCANNED_MAX {
            return earlier.iter().any(|other| are_incompatible(other, assignment));
        }
        for (position, other) in earlier.iter().enumerate().skip(self.indexed_count) {
            self.by_column.entry(other.column.clone()).or_insert(position);
            if let AssignmentOperation::SetField { field, .. } = &other.operation {
                self.fields.insert((other.column.clone(), field.clone()));
            }
        }
        self.indexed_count = earlier.len();
        if let AssignmentOperation::SetField { field, .. } = &assignment.operation
            && self.fields.contains(&(assignment.column.clone(), field.clone()))
        {
            return true;
        }
        // As long as nothing has clashed, a whole assignment can only be a column's first, so that
        // one look is enough.
        let first = self.by_column.get(&assignment.column).and_then(|at| earlier.get(*at));
        first.is_some_and(|other| are_incompatible(other, assignment))
    }
}

/// A column may be set twice only where the order of the two does not matter.
fn are_incompatible(left: &Assignment, right: &Assignment) -> bool {
    use AssignmentOperation::{Set, SetField};
    left.column == right.column
        && match (&left.operation, &right.operation) {
            (Set(_), _) | (_, Set(_)) => true,
            (SetField { field, .. }, SetField { field: other, .. }) => field == other,
            _ => false,
        }
}

impl Parser<'_> {
    pub(super) fn insert(&mut self) -> Parse<Insert> {
        self.expect_all(&[Token::Insert, Token::Into])?;
        let table = self.table_name()?;
        let source =
            if self.eat(Token::Json) { self.json_source()? } else { self.values_source()? };
        let if_not_exists = self.if_not_exists()?;
        let attributes = self.using()?;
        Ok(Insert { table, source, if_not_exists, attributes })
    }

    fn values_source(&mut self) -> Parse<InsertSource> {
        let columns = self.parenthesized(Self::column)?;
        self.expect(Token::Values)?;
        let values = self.parenthesized(Self::term)?;
        Ok(InsertSource::Values { columns, values })
    }

    fn json_source(&mut self) -> Parse<InsertSource> {
        let value = match self.marker()? {
            Some(marker) => JsonValue::Marker(marker),
            None => JsonValue::Literal(self.string()?),
        };
        let mut default_unset = false;
        if self.eat(Token::Default) {
            default_unset = self.eat(Token::Unset);
            if !default_unset {
                self.expect(Token::Null)?;
            }
        }
        Ok(InsertSource::Json { value, default_unset })
    }

    /// `USING TIMESTAMP a AND TTL b`, if it is here. A repeated part replaces the earlier one.
    fn using(&mut self) -> Parse<Attributes> {
        let mut attributes = Attributes::default();
        if !self.eat(Token::Using) {
            return Ok(attributes);
        }
        loop {
            let attribute = match self.peek() {
                Token::Timestamp => &mut attributes.timestamp,
                Token::Ttl => &mut attributes.ttl,
                _ => return Err(Failure::Grammar),
            };
            self.advance();
            *attribute = Some(self.int_value()?);
            if !self.eat(Token::And) {
                return Ok(attributes);
            }
        }
    }

    pub(super) fn update(&mut self) -> Parse<Update> {
        self.expect(Token::Update)?;
        let table = self.table_name()?;
        let attributes = self.using()?;
        self.expect(Token::Set)?;
        let assignments = self.assignments()?;
        self.expect(Token::Where)?;
        let relations = self.where_clause()?;
        let condition = self.condition()?;
        Ok(Update { table, attributes, assignments, relations, condition })
    }

    fn assignments(&mut self) -> Parse<Vec<Assignment>> {
        let mut assignments = Vec::new();
        let mut index = AssignmentIndex::default();
        loop {
            let assignment = self.assignment()?;
            if index.clashes(&assignments, &assignment) {
                self.record_after_term(format!(
                    "Multiple incompatible setting of column {}",
                    assignment.column
                ));
            }
            assignments.push(assignment);
            if !self.eat(Token::Comma) {
                return Ok(assignments);
            }
        }
    }

    fn assignment(&mut self) -> Parse<Assignment> {
        let column = self.column()?;
        let token = self.peek();
        self.advance();
        let operation = match token {
            Token::Equal => self.assigned(&column)?,
            Token::PlusEqual => AssignmentOperation::Add(self.term()?),
            Token::MinusEqual => AssignmentOperation::Subtract(self.term()?),
            Token::LeftBracket => {
                let key = self.term()?;
                self.expect_all(&[Token::RightBracket, Token::Equal])?;
                AssignmentOperation::SetElement { key, value: self.term()? }
            }
            Token::Dot => {
                let field = self.ident()?;
                self.expect(Token::Equal)?;
                AssignmentOperation::SetField { field, value: self.term()? }
            }
            _ => return Err(Failure::Grammar),
        };
        Ok(Assignment { column, operation })
    }

    /// What stands right of `column =`: a term, or an expression of the column itself.
    fn assigned(&mut self, column: &Name) -> Parse<AssignmentOperation> {
        let starts_with_column =
            self.is_column_at(0) && !matches!(self.peek_at(1), Token::LeftParen | Token::Dot);
        if starts_with_column {
            return self.assigned_from_column(column);
        }
        let term = self.term()?;
        if !self.eat(Token::Plus) {
            return Ok(AssignmentOperation::Set(term));
        }
        if self.column()? != *column {
            self.record("Only expressions of the form X = <value> + X are supported.");
        }
        Ok(AssignmentOperation::Prepend(term))
    }

    fn assigned_from_column(&mut self, column: &Name) -> Parse<AssignmentOperation> {
        let same = self.column()? == *column;
        let sign = self.slice();
        match self.peek() {
            Token::Plus | Token::Minus => {
                let adds = self.peek() == Token::Plus;
                self.advance();
                let term = self.term()?;
                if !same {
                    self.record_after_term(format!(
                        "Only expressions of the form X = X {sign}<value> are supported."
                    ));
                }
                Ok(if adds {
                    AssignmentOperation::Add(term)
                } else {
                    AssignmentOperation::Subtract(term)
                })
            }
            // `c = c -3` comes as a column and a negative number.
            Token::IntegerLiteral => {
                let sign = if sign.starts_with('-') { '-' } else { '+' };
                if !same {
                    self.record(format!(
                        "Only expressions of the form X = X {sign} <value> are supported."
                    ));
                }
                let number = self.constant().ok_or(Failure::Grammar)?;
                Ok(AssignmentOperation::Add(Term::Constant(number)))
            }
            _ => Err(Failure::Grammar),
        }
    }

    /// `IF ...`, if it is here.
    fn condition(&mut self) -> Parse<Option<Condition>> {
        if !self.eat(Token::If) {
            return Ok(None);
        }
        // EXISTS may be the name of a column too.
        if self.peek() == Token::Exists && !self.is_condition_operator_at(1) {
            self.advance();
            return Ok(Some(Condition::Exists));
        }
        let mut conditions = vec![self.column_condition()?];
        while self.eat(Token::And) {
            conditions.push(self.column_condition()?);
        }
        Ok(Some(Condition::Columns(conditions)))
    }

    fn is_condition_operator_at(&self, ahead: usize) -> bool {
        matches!(
            self.peek_at(ahead),
            Token::Equal
                | Token::NotEqual
                | Token::Less
                | Token::LessOrEqual
                | Token::Greater
                | Token::GreaterOrEqual
                | Token::In
                | Token::Contains
                | Token::LeftBracket
                | Token::Dot
        )
    }

    fn column_condition(&mut self) -> Parse<ColumnCondition> {
        let column = self.column()?;
        let path = match self.peek() {
            Token::LeftBracket => {
                self.advance();
                let key = self.term()?;
                self.expect(Token::RightBracket)?;
                ConditionPath::Element(key)
            }
            Token::Dot => {
                self.advance();
                ConditionPath::Field(self.ident()?)
            }
            _ => ConditionPath::Column,
        };
        let test = match self.peek() {
            Token::In => ConditionTest::In(self.in_values()?),
            Token::Contains if path == ConditionPath::Column => {
                self.advance();
                if self.eat(Token::Key) {
                    ConditionTest::ContainsKey(self.term()?)
                } else {
                    ConditionTest::Contains(self.term()?)
                }
            }
            _ => {
                let operator = self.comparison()?;
                ConditionTest::Compare(operator, self.term()?)
            }
        };
        Ok(ColumnCondition { column, path, test })
    }

    pub(super) fn delete(&mut self) -> Parse<Delete> {
        self.expect(Token::Delete)?;
        let deletions =
            if self.peek() == Token::From { Vec::new() } else { self.comma_list(Self::deletion)? };
        self.expect(Token::From)?;
        let table = self.table_name()?;
        let mut attributes = Attributes::default();
        if self.eat_clause(&[Token::Using, Token::Timestamp])? {
            attributes.timestamp = Some(self.int_value()?);
        }
        self.expect(Token::Where)?;
        let relations = self.where_clause()?;
        let condition = self.condition()?;
        Ok(Delete { deletions, table, attributes, relations, condition })
    }

    fn deletion(&mut self) -> Parse<Deletion> {
        let column = self.column()?;
        if self.eat(Token::LeftBracket) {
            let key = self.term()?;
            self.expect(Token::RightBracket)?;
            return Ok(Deletion::Element { column, key });
        }
        if self.eat(Token::Dot) {
            return Ok(Deletion::Field { column, field: self.ident()? });
        }
        Ok(Deletion::Column(column))
    }

    pub(super) fn batch(&mut self) -> Parse<Batch> {
        self.expect(Token::Begin)?;
        let kind = match self.peek() {
            Token::Unlogged => BatchKind::Unlogged,
            Token::Counter => BatchKind::Counter,
            _ => BatchKind::Logged,
        };
        if kind != BatchKind::Logged {
            self.advance();
        }
        self.expect(Token::Batch)?;
        let attributes = self.using()?;
        let mut statements = Vec::new();
        loop {
            statements.push(match self.peek() {
                Token::Insert => Modification::Insert(self.insert()?),
                Token::Update => Modification::Update(self.update()?),
                Token::Delete => Modification::Delete(self.delete()?),
                _ => break,
            });
            self.eat(Token::Semicolon);
        }
        self.expect_all(&[Token::Apply, Token::Batch])?;
        Ok(Batch { kind, attributes, statements })
    }
}
