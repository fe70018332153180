//! INSERT, with VALUES or JSON.

use std::sync::Arc;

use bytes::Bytes;
use cql::ast::{self, InsertSource, JsonValue};
use types::CqlType;

use super::attributes::Attributes;
use super::condition::PreparedCondition;
use super::json::{JsonColumn, parse_document};
use super::operation::{Operation, find};
use super::prepared::{Parts, PreparedModification, only_statics};
use crate::error::{PlanError, invalid};
use crate::expression::{Receiver, Scope, Term, prepare_term};
use crate::restriction::{Demands, Restrictions, StatementKind};

impl PreparedModification {
    pub(crate) fn prepare_insert(
        insert: &ast::Insert,
        scope: &Scope<'_>,
    ) -> Result<PreparedModification, PlanError> {
        let attributes = Attributes::prepare(&insert.attributes, scope)?;
        let condition = if insert.if_not_exists {
            PreparedCondition::NotExists
        } else {
            PreparedCondition::None
        };
        if scope.table.is_counter {
            return invalid!(
                "INSERT statements are not allowed on counter tables, use UPDATE instead"
            );
        }
        let (values, operations, json) = match &insert.source {
            InsertSource::Values { columns, values } => {
                let (values, operations) = from_values(columns, values, scope)?;
                (values, operations, None)
            }
            InsertSource::Json { value: JsonValue::Literal(text), default_unset } => {
                let (values, operations) = from_document(text, *default_unset, scope)?;
                (values, operations, None)
            }
            InsertSource::Json { value: JsonValue::Marker(marker), default_unset } => {
                scope.note_marker(*marker, &Receiver::named("[json]", &CqlType::Text));
                let (values, operations) = from_markers(scope)?;
                (values, operations, Some((marker.index(), *default_unset)))
            }
        };
        let table = &scope.table;
        let kind = StatementKind::Insert;
        let has_clustering = values.iter().any(|(index, _)| *index >= table.partition_key_count);
        let demands = Demands {
            kind,
            only_statics: !has_clustering && only_statics(kind, &operations, &condition, table),
            allow_filtering: false,
            orderings: &[],
        };
        let restrictions = Restrictions::of_values(values, &demands, table)?;
        let parts = Parts { kind, attributes, condition, restrictions, operations, json };
        PreparedModification::new(parts, table)
    }
}

type Columns = (Vec<(usize, Term)>, Vec<Operation>);

fn from_values(
    names: &[ast::Name],
    values: &[ast::Term],
    scope: &Scope<'_>,
) -> Result<Columns, PlanError> {
    if names.is_empty() {
        return invalid!("No columns provided to INSERT");
    }
    if names.len() != values.len() {
        return invalid!("Unmatched column names/values");
    }
    let mut sorted: Vec<&ast::Name> = names.iter().collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        return invalid!("The column names contains duplicates");
    }
    let mut keys = Vec::new();
    let mut operations = Vec::with_capacity(names.len());
    for (name, value) in names.iter().zip(values) {
        let (index, column) = find(name, scope)?;
        if column.is_key() {
            keys.push((index, value));
        } else {
            let term = prepare_term(value, &Receiver::column(index, column), scope)?;
            operations.push(Operation::set(index, column, term)?);
        }
    }
    let mut terms = Vec::with_capacity(keys.len());
    for (index, value) in keys {
        if let Some(column) = scope.table.columns.get(index) {
            terms.push((index, prepare_term(value, &Receiver::column(index, column), scope)?));
        }
    }
    Ok((terms, operations))
}

fn from_document(text: &str, default_unset: bool, scope: &Scope<'_>) -> Result<Columns, PlanError> {
    let table = Arc::clone(&scope.table);
    let mut keys = Vec::new();
    let mut operations = Vec::new();
    for (index, said) in parse_document(text, &table)?.into_iter().enumerate() {
        let Some(column) = table.columns.get(index).filter(|column| !column.is_hidden) else {
            continue;
        };
        let value = match said {
            JsonColumn::Missing if default_unset && !column.is_key() => {
                // Not written, but one of the columns that the statement is about.
                operations.push(Operation::set(index, column, Term::Unset)?);
                continue;
            }
            JsonColumn::Missing if default_unset => {
                keys.push((index, Term::Unset));
                continue;
            }
            JsonColumn::Missing | JsonColumn::Null => None,
            JsonColumn::Bytes(bytes) => Some(Bytes::from(bytes)),
        };
        let term = Term::Constant(value);
        if column.is_key() {
            keys.push((index, term));
        } else {
            operations.push(Operation::set(index, column, term)?);
        }
    }
    Ok((keys, operations))
}

/// A marker for each column: the document's columns are put in as if they were bound.
fn from_markers(scope: &Scope<'_>) -> Result<Columns, PlanError> {
    let mut keys = Vec::new();
    let mut operations = Vec::new();
    for (index, column) in scope.table.columns.iter().enumerate().filter(|(_, c)| !c.is_hidden) {
        let term = Term::Marker { index, ty: column.cql_type.clone() };
        if column.is_key() {
            keys.push((index, term));
        } else {
            operations.push(Operation::set(index, column, term)?);
        }
    }
    Ok((keys, operations))
}
