//! IF: what a write asks of the rows as they are.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use cql::ast::{self, ComparisonOperator, ConditionPath, ConditionTest};
use schema::Column;
use types::value::collection::collection_length;
use types::{Check, ColumnId, ColumnPart, Comparison, CqlType};

use super::operation::{find, index_term, key_receiver, value_receiver};
use crate::error::{PlanError, invalid};
use crate::expression::{
    Evaluated, Evaluation, Receiver, Scope, Term, prepare_in_values, prepare_term,
};
use crate::java_hash::{bytes_hash, pair_hash};
use crate::restriction::InTerms;
use crate::values::Value;

/// IF, prepared.
#[derive(Debug)]
pub(super) enum PreparedCondition {
    /// No condition.
    None,
    /// IF NOT EXISTS.
    NotExists,
    /// IF EXISTS.
    Exists,
    /// IF a = 1 AND …
    Columns(Vec<ColumnTest>),
}

/// One test of a column.
#[derive(Debug)]
pub(super) struct ColumnTest {
    /// The column's place in the table.
    pub(super) column: usize,
    pub(super) is_static: bool,
    name: Arc<str>,
    id: ColumnId,
    ty: CqlType,
    path: TestPath,
    operator: Comparison,
    values: TestValues,
}

/// A value of a test, or why there is none.
type BoundValue<'v> = Result<Option<Cow<'v, [u8]>>, String>;

#[derive(Debug)]
enum TestPath {
    Whole,
    Key(Term),
    Index(Term),
    Field(u16),
}

#[derive(Debug)]
enum TestValues {
    One(Term),
    In(InTerms, CqlType),
}

impl PreparedCondition {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, PreparedCondition::None)
    }

    /// Whether it looks at regular columns, or at whole rows.
    pub(super) fn applies_to_regulars(&self) -> bool {
        match self {
            PreparedCondition::Columns(tests) => tests.iter().any(|test| !test.is_static),
            _ => false,
        }
    }

    pub(super) fn applies_to_statics(&self) -> bool {
        match self {
            PreparedCondition::Columns(tests) => tests.iter().any(|test| test.is_static),
            _ => false,
        }
    }

    pub(super) fn prepare(
        condition: Option<&ast::Condition>,
        attributes: &ast::Attributes,
        scope: &Scope<'_>,
    ) -> Result<PreparedCondition, PlanError> {
        match condition {
            None => Ok(PreparedCondition::None),
            Some(ast::Condition::Exists) => Ok(PreparedCondition::Exists),
            Some(ast::Condition::Columns(conditions)) => {
                if attributes.timestamp.is_some() {
                    return invalid!("Cannot provide custom timestamp for conditional updates");
                }
                let tests: Result<Vec<_>, PlanError> =
                    conditions.iter().map(|condition| prepare_test(condition, scope)).collect();
                Ok(PreparedCondition::Columns(tests?))
            }
        }
    }
}

fn prepare_test(
    condition: &ast::ColumnCondition,
    scope: &Scope<'_>,
) -> Result<ColumnTest, PlanError> {
    let (index, column) = find(&condition.column, scope)?;
    let name = &column.name;
    if column.cql_type == CqlType::Counter {
        return invalid!("Conditions on counters are not supported");
    }
    let (path, receiver) = match &condition.path {
        ConditionPath::Column => (TestPath::Whole, Receiver::column(index, column)),
        ConditionPath::Element(key) => match &column.cql_type {
            CqlType::List { element, .. } => {
                check_duration(element, &condition.test)?;
                (TestPath::Index(index_term(column, key, scope)?), value_receiver(column, element))
            }
            CqlType::Map { key: key_type, value, .. } => {
                check_duration(value, &condition.test)?;
                let key = prepare_term(key, &key_receiver(column, key_type), scope)?;
                (TestPath::Key(key), value_receiver(column, value))
            }
            CqlType::Set { .. } => {
                return invalid!("Invalid element access syntax for set column {name}");
            }
            _ => {
                return invalid!("Invalid element access syntax for non-collection column {name}");
            }
        },
        ConditionPath::Field(field) => {
            let CqlType::User { definition, .. } = &column.cql_type else {
                return invalid!("Invalid field access syntax for non-UDT column {name}");
            };
            let Some((place, ty)) = scope.field_of(definition, field) else {
                return invalid!("Unknown field {field} for column {name}");
            };
            check_duration(ty, &condition.test)?;
            let place = u16::try_from(place).unwrap_or(u16::MAX);
            (TestPath::Field(place), Receiver::named(format!("{name}.{field}"), ty))
        }
    };
    if matches!(condition.path, ConditionPath::Column) {
        check_duration(&column.cql_type, &condition.test)?;
    }
    let (operator, values) = prepare_values(&condition.test, column, &receiver, scope)?;
    if column.is_key() {
        return invalid!("PRIMARY KEY column '{name}' cannot have IF conditions");
    }
    Ok(ColumnTest {
        column: index,
        is_static: column.kind == schema::ColumnKind::Static,
        name: Arc::clone(&column.name),
        id: column.id,
        ty: column.cql_type.clone(),
        path,
        operator,
        values,
    })
}

fn prepare_values(
    test: &ConditionTest,
    column: &Column,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<(Comparison, TestValues), PlanError> {
    Ok(match test {
        ConditionTest::Compare(operator, value) => {
            (comparison(*operator), TestValues::One(prepare_term(value, receiver, scope)?))
        }
        ConditionTest::In(values) => {
            let terms = prepare_in_values(values, receiver, scope)?;
            (Comparison::In, TestValues::In(terms, receiver.ty.as_ref().clone()))
        }
        ConditionTest::Contains(value) => {
            let element = match &column.cql_type {
                CqlType::List { element, .. } | CqlType::Set { element, .. } => element,
                CqlType::Map { value, .. } => value,
                _ => {
                    return invalid!(
                        "Cannot use CONTAINS on non-collection column {}",
                        column.name
                    );
                }
            };
            let term = prepare_term(value, &value_receiver(column, element), scope)?;
            (Comparison::Contains, TestValues::One(term))
        }
        ConditionTest::ContainsKey(value) => {
            let CqlType::Map { key, .. } = &column.cql_type else {
                return invalid!("Cannot use CONTAINS KEY on non-map column {}", column.name);
            };
            let term = prepare_term(value, &key_receiver(column, key), scope)?;
            (Comparison::ContainsKey, TestValues::One(term))
        }
    })
}

fn comparison(operator: ComparisonOperator) -> Comparison {
    match operator {
        ComparisonOperator::Equal => Comparison::Equal,
        ComparisonOperator::NotEqual => Comparison::NotEqual,
        ComparisonOperator::Less => Comparison::Less,
        ComparisonOperator::LessOrEqual => Comparison::LessOrEqual,
        ComparisonOperator::Greater => Comparison::Greater,
        ComparisonOperator::GreaterOrEqual => Comparison::GreaterOrEqual,
    }
}

/// Durations have no order.
fn check_duration(ty: &CqlType, test: &ConditionTest) -> Result<(), PlanError> {
    let ConditionTest::Compare(operator, _) = test else { return Ok(()) };
    let is_slice = !matches!(operator, ComparisonOperator::Equal | ComparisonOperator::NotEqual);
    if !is_slice || !ty.contains_duration() {
        return Ok(());
    }
    match ty {
        ty if ty.is_collection() => {
            invalid!("Slice conditions are not supported on collections containing durations")
        }
        CqlType::Tuple(_) => {
            invalid!("Slice conditions are not supported on tuples containing durations")
        }
        CqlType::User { .. } => {
            invalid!("Slice conditions are not supported on UDTs containing durations")
        }
        _ => invalid!("Slice conditions ( {} ) are not supported on durations", operator.sign()),
    }
}

fn sign(operator: Comparison) -> &'static str {
    match operator {
        Comparison::Equal => "=",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
        Comparison::In => "IN",
        Comparison::NotIn => "NOT IN",
        Comparison::Contains => "CONTAINS",
        Comparison::ContainsKey => "CONTAINS KEY",
        Comparison::NotContains => "NOT CONTAINS",
        Comparison::NotContainsKey => "NOT CONTAINS KEY",
        Comparison::Like => "LIKE",
    }
}

impl ColumnTest {
    /// The check with its values, and a hash of what it is about.
    pub(super) fn bind(&self, eval: &Evaluation<'_>) -> Result<(i32, Check), PlanError> {
        let part = self.bind_part(eval)?;
        let element = match &part {
            Ok(ColumnPart::MapValue(key)) => bytes_hash(key),
            Ok(ColumnPart::ListIndex(index)) => bytes_hash(&index.to_be_bytes()),
            Ok(ColumnPart::Whole | ColumnPart::Field(_)) | Err(_) => 0,
        };
        let hash = pair_hash(bytes_hash(self.name.as_bytes()), element);
        let values = self.bind_values(eval)?;
        let checked = part.and_then(|part| {
            let is_whole = part == ColumnPart::Whole;
            let values: Result<Vec<_>, String> =
                values.into_iter().map(|value| self.checked(value?, is_whole)).collect();
            Ok((part, values?))
        });
        let check = match checked {
            Ok((part, values)) => {
                Check::Column { column: self.id, part, operator: self.operator, values }
            }
            Err(reason) => Check::Refused(reason),
        };
        Ok((hash, check))
    }

    /// The part that is looked at, or why there is none: told when the check is come to.
    fn bind_part(&self, eval: &Evaluation<'_>) -> Result<Result<ColumnPart, String>, PlanError> {
        Ok(Ok(match &self.path {
            TestPath::Whole => ColumnPart::Whole,
            TestPath::Field(index) => ColumnPart::Field(*index),
            TestPath::Key(term) => match term.evaluate(eval)? {
                Evaluated::Bytes(bytes) => ColumnPart::MapValue(Bytes::copy_from_slice(&bytes)),
                _ => return Ok(Err("Invalid null value for map element access".into())),
            },
            TestPath::Index(term) => match term.evaluate(eval)? {
                Evaluated::Bytes(bytes) => {
                    let index = <[u8; 4]>::try_from(bytes.as_ref()).map_or(-1, i32::from_be_bytes);
                    if index < 0 {
                        return Ok(Err(format!("Invalid negative list index {index}")));
                    }
                    ColumnPart::ListIndex(index)
                }
                _ => return Ok(Err("Invalid null value for list element access".into())),
            },
        }))
    }

    /// The values, each with what is told of it when the check is come to.
    fn bind_values<'v>(&'v self, eval: &Evaluation<'v>) -> Result<Vec<BoundValue<'v>>, PlanError> {
        match &self.values {
            TestValues::One(term) => Ok(vec![match term.evaluate(eval)? {
                Evaluated::Null => Ok(None),
                Evaluated::Bytes(bytes) => Ok(Some(bytes)),
                // What looks into single cells takes it for an empty value.
                Evaluated::Unset if self.looks_inside() && self.ty.is_multi_cell() => {
                    Ok(Some(Cow::Borrowed(&[])))
                }
                Evaluated::Unset => Err("Invalid 'unset' value in condition".into()),
            }]),
            TestValues::In(InTerms::Terms(terms), _) => {
                let mut values = Vec::with_capacity(terms.len());
                for term in terms {
                    match term.evaluate(eval)? {
                        Evaluated::Null => values.push(Ok(None)),
                        Evaluated::Unset => {}
                        Evaluated::Bytes(bytes) => values.push(Ok(Some(bytes))),
                    }
                }
                Ok(values)
            }
            TestValues::In(terms @ InTerms::Marker(index), ty) => match eval.values.get(*index) {
                Value::Null => invalid!("Invalid null list in IN condition"),
                Value::Unset => invalid!("Invalid 'unset' value in condition"),
                Value::Bytes(_) => Ok(terms.evaluate(eval, "", ty)?.into_iter().map(Ok).collect()),
            },
        }
    }

    /// Refuses nulls that have no order; an empty multi-cell collection is null.
    fn checked(
        &self,
        value: Option<Cow<'_, [u8]>>,
        is_whole: bool,
    ) -> Result<Option<Bytes>, String> {
        let takes_null =
            matches!(self.operator, Comparison::Equal | Comparison::NotEqual | Comparison::In);
        let Some(value) = value else {
            if takes_null {
                return Ok(None);
            }
            return Err(format!(
                "Invalid comparison with null for operator \"{}\"",
                sign(self.operator)
            ));
        };
        let is_empty = is_whole
            && !self.looks_inside()
            && self.ty.is_collection()
            && self.ty.is_multi_cell()
            && collection_length(&value) == Some(0);
        if !is_empty {
            return Ok(Some(Bytes::copy_from_slice(&value)));
        }
        if takes_null {
            return Ok(None);
        }
        let kind = match self.ty {
            CqlType::List { .. } => "list",
            CqlType::Set { .. } => "set",
            _ => "map",
        };
        let sign = sign(self.operator);
        Err(format!("Invalid comparison with an empty {kind} for operator \"{sign}\""))
    }

    fn looks_inside(&self) -> bool {
        matches!(self.operator, Comparison::Contains | Comparison::ContainsKey)
    }
}
