//! One relation of the syntax tree becomes a [`Restriction`] on columns that exist.

use std::sync::Arc;

use cql::ast::{ComparisonOperator, InValues, Name, Relation, Term, TupleInValues, TupleValue};
use schema::{Column, ColumnKind, Table};
use types::CqlType;

use super::{
    Bound, Components, ContainsTerms, InComponents, Restriction, RestrictionKind, relation_text,
};
use crate::error::{PlanError, invalid};
use crate::expression::{Receiver, Scope, prepare_in_values, prepare_term};

/// The refusal of a name that no column has.
pub(crate) fn unknown_column(name: &str, table: &Table) -> PlanError {
    PlanError::invalid(format!(
        "Undefined column name {} in table {}.{}",
        cql::quote_if_needed(name),
        cql::quote_if_needed(&table.keyspace),
        cql::quote_if_needed(&table.name)
    ))
}

/// What a relation became.
pub(super) enum Related {
    /// A restriction of columns.
    Columns(Restriction),
    /// A restriction of the token: like a slice over the whole partition key.
    Token(RestrictionKind),
}

/// Turns a relation into a restriction.
pub(super) fn restrict(relation: &Relation, scope: &Scope<'_>) -> Result<Related, PlanError> {
    let columns = match relation {
        Relation::Token { columns, operator, value } => {
            return token(relation, columns, *operator, value, scope).map(Related::Token);
        }
        Relation::Tuple { columns, .. } | Relation::TupleIn { columns, .. } => {
            return multi_column(relation, columns, scope).map(Related::Columns);
        }
        Relation::IsNotNull { .. } => {
            return invalid!("Unsupported restriction: {}", relation_text(relation));
        }
        Relation::IndexExpression { .. } => {
            return invalid!("Unsupported restriction: {}", relation_text(relation));
        }
        Relation::Compare { column, .. }
        | Relation::In { column, .. }
        | Relation::Contains { column, .. }
        | Relation::ContainsKey { column, .. }
        | Relation::Element { column, .. }
        | Relation::Like { column, .. } => column,
    };
    if let Relation::Compare { operator: ComparisonOperator::NotEqual, .. }
    | Relation::Element { operator: ComparisonOperator::NotEqual, .. } = relation
    {
        return invalid!("Unsupported \"!=\" relation: {}", relation_text(relation));
    }
    let table = Arc::clone(&scope.table);
    let (index, column) = find(&table, columns)?;
    let kind = single_column(relation, index, column, scope)?;
    Ok(Related::Columns(Restriction { columns: vec![index], multi_column: false, kind }))
}

fn find<'t>(table: &'t Table, name: &Name) -> Result<(usize, &'t Column), PlanError> {
    table.column(name).ok_or_else(|| unknown_column(name, table))
}

fn single_column(
    relation: &Relation,
    index: usize,
    column: &Column,
    scope: &Scope<'_>,
) -> Result<RestrictionKind, PlanError> {
    let receiver = Receiver::column(index, column);
    match relation {
        Relation::Compare { operator: ComparisonOperator::Equal, value, .. } => {
            check_receiver(column, "=", None)?;
            equal(value, &receiver, scope)
        }
        Relation::Compare { operator, value, .. } => {
            check_no_duration(&column.cql_type)?;
            check_receiver(column, operator.sign(), None)?;
            let value = Components::Single(prepare_term(value, &receiver, scope)?);
            Ok(slice(*operator, value))
        }
        Relation::In { values, .. } => {
            check_receiver(column, "IN", None)?;
            if let InValues::Terms(terms) = values
                && let [only] = terms.as_slice()
            {
                return equal(only, &receiver, scope);
            }
            let values = prepare_in_values(values, &receiver, scope)?;
            Ok(RestrictionKind::In(Arc::new(InComponents::Single(values))))
        }
        Relation::Contains { value, .. } => {
            let (_, element) = contained(column, false)?;
            let name = format!("value({})", column.name);
            let term = prepare_term(value, &Receiver::named(name, element), scope)?;
            Ok(RestrictionKind::Contains(ContainsTerms {
                values: vec![Arc::new(term)],
                ..ContainsTerms::default()
            }))
        }
        Relation::ContainsKey { value, .. } => {
            let (key, _) = contained(column, true)?;
            let name = format!("key({})", column.name);
            let term = prepare_term(value, &Receiver::named(name, key), scope)?;
            Ok(RestrictionKind::Contains(ContainsTerms {
                keys: vec![Arc::new(term)],
                ..ContainsTerms::default()
            }))
        }
        Relation::Element { key, operator, value, .. } => {
            if *operator != ComparisonOperator::Equal {
                check_no_duration(&column.cql_type)?;
            }
            check_receiver(column, operator.sign(), Some(*operator))?;
            let (key_type, value_type) = contained(column, true)?;
            let key_name = format!("key({})", column.name);
            let value_name = format!("value({})", column.name);
            let key = prepare_term(key, &Receiver::named(key_name, key_type), scope)?;
            let value = prepare_term(value, &Receiver::named(value_name, value_type), scope)?;
            Ok(RestrictionKind::Contains(ContainsTerms {
                entries: vec![(Arc::new(key), Arc::new(value))],
                ..ContainsTerms::default()
            }))
        }
        Relation::Like { value, .. } => {
            check_receiver(column, "LIKE", None)?;
            prepare_term(value, &receiver, scope)?;
            Ok(RestrictionKind::Like)
        }
        Relation::IsNotNull { .. }
        | Relation::Token { .. }
        | Relation::Tuple { .. }
        | Relation::TupleIn { .. }
        | Relation::IndexExpression { .. } => {
            invalid!("Unsupported restriction: {}", relation_text(relation))
        }
    }
}

fn equal(
    value: &Term,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<RestrictionKind, PlanError> {
    let term = prepare_term(value, receiver, scope)?;
    Ok(RestrictionKind::Equal(Arc::new(Components::Single(term))))
}

fn slice(operator: ComparisonOperator, value: Components) -> RestrictionKind {
    use ComparisonOperator as Op;
    let inclusive = matches!(operator, Op::LessOrEqual | Op::GreaterOrEqual);
    let bound = Some(Bound { value: Arc::new(value), inclusive });
    match operator {
        Op::Greater | Op::GreaterOrEqual => RestrictionKind::Slice { start: bound, end: None },
        _ => RestrictionKind::Slice { start: None, end: bound },
    }
}

/// Durations have no order.
fn check_no_duration(ty: &CqlType) -> Result<(), PlanError> {
    if !ty.contains_duration() {
        return Ok(());
    }
    let place = match ty {
        ty if ty.is_collection() => "collections containing durations",
        CqlType::Tuple(_) => "tuples containing durations",
        CqlType::User { .. } => "UDTs containing durations",
        _ => "duration columns",
    };
    invalid!("Slice restrictions are not supported on {place}")
}

/// What an operator other than CONTAINS may be asked of; `element` is set for `c[k] op v`.
fn check_receiver(
    column: &Column,
    sign: &str,
    element: Option<ComparisonOperator>,
) -> Result<(), PlanError> {
    let (name, ty) = (&column.name, &column.cql_type);
    if let Some(operator) = element {
        match ty {
            _ if column.is_descending() => {
                return invalid!("Column {name} cannot be used as a map");
            }
            CqlType::List { .. } => {
                return invalid!(
                    "Indexes on list entries ({name}[index] = value) are not currently supported."
                );
            }
            CqlType::Map { frozen: true, .. } => {
                return invalid!(
                    "Map-entry equality predicates on frozen map column {name} are not supported"
                );
            }
            CqlType::Map { .. } => {}
            _ => return invalid!("Column {name} cannot be used as a map"),
        }
        if operator != ComparisonOperator::Equal {
            return invalid!("Only EQ relations are supported on map entries");
        }
        return Ok(());
    }
    match ty {
        CqlType::User { frozen: false, .. } => {
            invalid!("Non-frozen UDT column '{name}' ({ty}) cannot be restricted by any relation")
        }
        ty if ty.is_collection() && ty.is_multi_cell() => {
            invalid!(
                "Collection column '{name}' ({ty}) cannot be restricted by a '{sign}' relation"
            )
        }
        _ => Ok(()),
    }
}

/// The types of keys and values of a collection, for CONTAINS and its siblings.
fn contained(column: &Column, is_key: bool) -> Result<(&CqlType, &CqlType), PlanError> {
    // Cassandra does not look through the order of a column.
    let known = Some(&column.cql_type).filter(|_| !column.is_descending());
    match known.unwrap_or(&CqlType::Empty) {
        CqlType::Map { key, value, .. } => Ok((key, value)),
        _ if is_key => {
            invalid!("Cannot use CONTAINS KEY on non-map column {}", column.name)
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => Ok((element, element)),
        _ => invalid!("Cannot use CONTAINS on non-collection column {}", column.name),
    }
}

fn token(
    relation: &Relation,
    names: &[Name],
    operator: ComparisonOperator,
    value: &Term,
    scope: &Scope<'_>,
) -> Result<RestrictionKind, PlanError> {
    if operator == ComparisonOperator::NotEqual {
        return invalid!("Unsupported \"!=\" relation: {}", relation_text(relation));
    }
    let table = &scope.table;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        found.push(find(table, name)?.0);
    }
    let key_count = table.partition_key_count;
    let in_order = found.iter().copied().eq(0..key_count);
    if !in_order {
        if !(0..key_count).all(|index| found.contains(&index)) {
            return invalid!(
                "The token() function must be applied to all partition key components or none of them"
            );
        }
        let mut sorted = found.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != found.len() {
            return invalid!("The token() function contains duplicate partition key components");
        }
        if found.iter().any(|index| *index >= key_count) {
            return invalid!("The token() function must contains only partition key components");
        }
        let names: Vec<&str> = table.partition_key().iter().map(|c| &*c.name).collect();
        return invalid!(
            "The token function arguments must be in the partition key order: {}",
            names.join(", ")
        );
    }
    let receiver = Receiver::named("partition key token", &CqlType::BigInt);
    let value = Components::Single(prepare_term(value, &receiver, scope)?);
    Ok(match operator {
        ComparisonOperator::Equal => RestrictionKind::Equal(Arc::new(value)),
        _ => slice(operator, value),
    })
}

fn multi_column(
    relation: &Relation,
    names: &[Name],
    scope: &Scope<'_>,
) -> Result<Restriction, PlanError> {
    let table = Arc::clone(&scope.table);
    if let Relation::Tuple { operator: ComparisonOperator::NotEqual, .. } = relation {
        return invalid!("Unsupported \"!=\" relation: {}", relation_text(relation));
    }
    let columns = clustering_receivers(relation, names, &table)?;
    let receivers: Vec<Receiver<'_>> = columns
        .iter()
        .filter_map(|index| Some(Receiver::column(*index, table.columns.get(*index)?)))
        .collect();
    let kind = match relation {
        Relation::Tuple { operator, value, .. } => {
            let value = match value {
                TupleValue::Literal(terms) => tuple_literal(terms, &receivers, scope)?,
                TupleValue::Marker(marker) => {
                    let name = joined(&receivers);
                    let ty = tuple_type(&receivers);
                    scope.note_marker(*marker, &Receiver::owned(name.clone(), ty));
                    Components::Marker { index: marker.index(), types: types(&receivers), name }
                }
            };
            match operator {
                ComparisonOperator::Equal => RestrictionKind::Equal(Arc::new(value)),
                _ => slice(*operator, value),
            }
        }
        Relation::TupleIn { values, .. } => tuple_in(values, &receivers, scope)?,
        _ => return invalid!("Unsupported restriction: {}", relation_text(relation)),
    };
    Ok(Restriction { columns, multi_column: true, kind })
}

/// The clustering columns of a multi-column relation: no other, none twice, none skipped.
fn clustering_receivers(
    relation: &Relation,
    names: &[Name],
    table: &Table,
) -> Result<Vec<usize>, PlanError> {
    let mut columns: Vec<usize> = Vec::with_capacity(names.len());
    for name in names {
        let (index, column) = find(table, name)?;
        if !matches!(column.kind, ColumnKind::Clustering { .. }) {
            return invalid!(
                "Multi-column relations can only be applied to clustering columns but was applied \
                 to: {}",
                column.name
            );
        }
        if columns.contains(&index) {
            return invalid!(
                "Column \"{}\" appeared twice in a relation: {}",
                column.name,
                relation_text(relation)
            );
        }
        if columns.last().is_some_and(|previous| index != previous + 1) {
            return invalid!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column \
                 relations: {}",
                relation_text(relation)
            );
        }
        columns.push(index);
    }
    Ok(columns)
}

fn types(receivers: &[Receiver<'_>]) -> Vec<CqlType> {
    receivers.iter().map(|receiver| receiver.ty.as_ref().clone()).collect()
}

fn tuple_type(receivers: &[Receiver<'_>]) -> CqlType {
    CqlType::Tuple(types(receivers).into())
}

/// `(a,b)`.
fn joined(receivers: &[Receiver<'_>]) -> String {
    let names: Vec<&str> = receivers.iter().map(|receiver| receiver.name.as_ref()).collect();
    format!("({})", names.join(","))
}

fn tuple_literal(
    terms: &[Term],
    receivers: &[Receiver<'_>],
    scope: &Scope<'_>,
) -> Result<Components, PlanError> {
    if terms.len() != receivers.len() {
        return invalid!(
            "Expected {} elements in value tuple, but got {}: {}",
            receivers.len(),
            terms.len(),
            crate::expression::raw_text(&Term::Tuple(terms.to_vec()))
        );
    }
    let terms: Result<Vec<_>, PlanError> = terms
        .iter()
        .zip(receivers)
        .map(|(term, receiver)| prepare_term(term, receiver, scope))
        .collect();
    Ok(Components::Tuple(terms?))
}

fn tuple_in(
    values: &TupleInValues,
    receivers: &[Receiver<'_>],
    scope: &Scope<'_>,
) -> Result<RestrictionKind, PlanError> {
    let mut tuples = match values {
        TupleInValues::Literals(literals) => literals
            .iter()
            .map(|terms| tuple_literal(terms, receivers, scope))
            .collect::<Result<Vec<_>, PlanError>>()?,
        TupleInValues::Markers(markers) => {
            let name = joined(receivers);
            markers
                .iter()
                .map(|marker| {
                    let receiver = Receiver::owned(name.clone(), tuple_type(receivers));
                    scope.note_marker(*marker, &receiver);
                    Components::Marker {
                        index: marker.index(),
                        types: types(receivers),
                        name: name.clone(),
                    }
                })
                .collect()
        }
        TupleInValues::Marker(marker) => {
            let name = format!("in{}", joined(receivers));
            let ty = CqlType::List { element: Arc::new(tuple_type(receivers)), frozen: true };
            scope.note_marker(*marker, &Receiver::owned(name.clone(), ty));
            let types = types(receivers);
            return Ok(RestrictionKind::In(Arc::new(InComponents::Marker {
                index: marker.index(),
                types,
                name,
            })));
        }
    };
    if tuples.len() == 1
        && let Some(only) = tuples.pop()
    {
        return Ok(RestrictionKind::Equal(Arc::new(only)));
    }
    Ok(RestrictionKind::In(Arc::new(InComponents::Tuples(tuples))))
}
