//! What is left to check on each row.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use schema::{Index, IndexTarget, Table};
use types::CqlType;
use types::value::{ListIter, MapIter, compare};

use super::analysis::Restrictions;
use super::{Components, Restriction, RestrictionKind, Row};
use crate::error::{PlanError, invalid};
use crate::expression::{Evaluated, Evaluation, Term};
use crate::plan::IndexLookup;
use crate::row::RowAccess;

/// Predicates that all must hold.
#[derive(Debug, Default)]
pub struct Filters<'a>(pub Vec<Filter<'a>>);

/// One predicate.
#[derive(Debug)]
pub struct Filter<'a> {
    /// The column, by its place in the table.
    pub column: usize,
    /// Its type.
    pub ty: &'a CqlType,
    /// How it is compared.
    pub operator: FilterOperator<'a>,
}

/// How a filter compares.
#[derive(Debug)]
pub enum FilterOperator<'a> {
    /// `=`
    Equal(Cow<'a, [u8]>),
    /// `<`
    Less(Cow<'a, [u8]>),
    /// `<=`
    LessOrEqual(Cow<'a, [u8]>),
    /// `>`
    Greater(Cow<'a, [u8]>),
    /// `>=`
    GreaterOrEqual(Cow<'a, [u8]>),
    /// `IN`
    In(Vec<Cow<'a, [u8]>>),
    Contains(Cow<'a, [u8]>),
    ContainsKey(Cow<'a, [u8]>),
    /// `c[key] = value`
    Entry(Cow<'a, [u8]>, Cow<'a, [u8]>),
}

impl Filters<'_> {
    /// Whether every row passes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a row passes. A null column never does.
    pub fn accepts(&self, row: &dyn RowAccess) -> bool {
        self.0.iter().all(|filter| match row.value(filter.column) {
            Some(value) => filter.accepts(&value),
            None => false,
        })
    }
}

/// The longest value that an index can be asked for.
const INDEXED_BYTES_MAX: usize = 65_535;

impl Filter<'_> {
    /// Whether a value of the column passes.
    pub fn accepts(&self, value: &[u8]) -> bool {
        use FilterOperator as Op;
        let order = |other: &[u8]| compare(self.ty, value, other);
        match &self.operator {
            Op::Equal(other) => order(other).is_eq(),
            Op::Less(other) => order(other).is_lt(),
            Op::LessOrEqual(other) => order(other).is_le(),
            Op::Greater(other) => order(other).is_gt(),
            Op::GreaterOrEqual(other) => order(other).is_ge(),
            Op::In(others) => others.iter().any(|other| order(other).is_eq()),
            Op::Contains(element) => contains(self.ty, value, element),
            Op::ContainsKey(key) => entry(self.ty, value, key).is_some(),
            Op::Entry(key, wanted) => match (self.ty, entry(self.ty, value, key)) {
                (CqlType::Map { value: ty, .. }, Some(found)) => compare(ty, found, wanted).is_eq(),
                _ => false,
            },
        }
    }
}

fn contains(ty: &CqlType, collection: &[u8], wanted: &[u8]) -> bool {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            ListIter::new(collection).any(|found| {
                matches!(found, Ok(Some(found)) if compare(element, found, wanted) == Ordering::Equal)
            })
        }
        CqlType::Map { value, .. } => MapIter::new(collection).any(
            |found| matches!(found, Ok((_, found)) if compare(value, found, wanted).is_eq()),
        ),
        _ => false,
    }
}

/// The value of a map's key.
fn entry<'m>(ty: &CqlType, map: &'m [u8], wanted: &[u8]) -> Option<&'m [u8]> {
    let CqlType::Map { key, .. } = ty else { return None };
    MapIter::new(map).find_map(|found| match found {
        Ok((found, value)) if compare(key, found, wanted).is_eq() => Some(value),
        _ => None,
    })
}

impl Restrictions {
    /// The filters with their values.
    pub(crate) fn bind_filters<'a>(
        &'a self,
        eval: &Evaluation<'a>,
    ) -> Result<Filters<'a>, PlanError> {
        let mut filters = Filters(Vec::with_capacity(self.filters.len()));
        for restriction in &self.filters {
            bind(restriction, &self.table, eval, &mut filters.0)?;
        }
        Ok(filters)
    }

    /// The index lookups with their values.
    pub(crate) fn bind_indexes<'a>(
        &'a self,
        eval: &Evaluation<'a>,
    ) -> Result<Vec<IndexLookup<'a>>, PlanError> {
        let mut lookups = Vec::with_capacity(self.indexes.len());
        for (index, restriction) in &self.indexes {
            let mut bound = Vec::new();
            bind(restriction, &self.table, eval, &mut bound)?;
            lookups.extend(bound.into_iter().find_map(|filter| self.lookup(index, filter)));
        }
        let bytes = |lookup: &IndexLookup<'_>| {
            lookup.value.len() + lookup.entry_value.as_ref().map_or(0, |value| value.len())
        };
        if lookups.iter().any(|lookup| bytes(lookup) > INDEXED_BYTES_MAX) {
            return invalid!("Index expression values may not be larger than 64K");
        }
        Ok(lookups)
    }

    /// What an index is asked for the sake of a filter; `None` if it has no answer to that.
    fn lookup<'a>(&self, index: &'a Arc<Index>, filter: Filter<'a>) -> Option<IndexLookup<'a>> {
        let column = self.table.columns.get(filter.column)?;
        if column.id != index.column {
            return None;
        }
        let is_set = matches!(column.cql_type, CqlType::Set { .. });
        let (value, entry_value) = match (index.target, filter.operator) {
            (IndexTarget::Value | IndexTarget::Full, FilterOperator::Equal(value))
            | (IndexTarget::Values, FilterOperator::Contains(value))
            | (IndexTarget::Keys, FilterOperator::ContainsKey(value)) => (value, None),
            (IndexTarget::Keys, FilterOperator::Contains(value)) if is_set => (value, None),
            (IndexTarget::Entries, FilterOperator::Entry(key, value)) => (key, Some(value)),
            _ => return None,
        };
        Some(IndexLookup { index, value, entry_value })
    }
}

fn bind<'a>(
    restriction: &'a Arc<Restriction>,
    table: &'a Table,
    eval: &Evaluation<'a>,
    out: &mut Vec<Filter<'a>>,
) -> Result<(), PlanError> {
    let Some(column) = table.columns.get(restriction.first_column()) else { return Ok(()) };
    let name = &column.name;
    let mut push = |index: usize, operator: FilterOperator<'a>| {
        if let Some(column) = table.columns.get(index) {
            out.push(Filter { column: index, ty: &column.cql_type, operator });
        }
    };
    let first = restriction.first_column();
    match &restriction.kind {
        RestrictionKind::Equal(value) => {
            for (index, value) in restriction.columns.iter().zip(values(value, eval, name)?) {
                let name = table.columns.get(*index).map_or("", |column| &column.name);
                push(*index, FilterOperator::Equal(not_null(value, name)?));
            }
        }
        RestrictionKind::In(terms) => {
            if restriction.columns.len() > 1 {
                return invalid!("Multicolumn IN filters are not supported");
            }
            let mut wanted = Vec::new();
            // Cassandra does not look behind a null.
            for row in terms.evaluate(eval, &[(name, &column.cql_type)])? {
                let Some(value) = row.into_iter().next().flatten() else { break };
                wanted.push(value);
            }
            push(first, FilterOperator::In(wanted));
        }
        RestrictionKind::Slice { start, end } => {
            if restriction.multi_column {
                return invalid!("Multi-column slice restrictions cannot be used for filtering.");
            }
            for (bound, is_start) in [(start, true), (end, false)] {
                let Some(bound) = bound else { continue };
                let value = values(&bound.value, eval, name)?.into_iter().next().flatten();
                let value = not_null(value, name)?;
                push(
                    first,
                    match (is_start, bound.inclusive) {
                        (true, true) => FilterOperator::GreaterOrEqual(value),
                        (true, false) => FilterOperator::Greater(value),
                        (false, true) => FilterOperator::LessOrEqual(value),
                        (false, false) => FilterOperator::Less(value),
                    },
                );
            }
        }
        RestrictionKind::Contains(terms) => {
            for term in &terms.values {
                push(first, FilterOperator::Contains(value(term, eval, "value for", name)?));
            }
            for term in &terms.keys {
                push(first, FilterOperator::ContainsKey(value(term, eval, "value for", name)?));
            }
            for (key, wanted) in &terms.entries {
                let key = value(key, eval, "map key for", name)?;
                let wanted = value(wanted, eval, "map value for", name)?;
                push(first, FilterOperator::Entry(key, wanted));
            }
        }
        // Only with an index of a kind that we refuse to create.
        RestrictionKind::Like => {}
    }
    Ok(())
}

fn values<'a>(
    value: &'a Components,
    eval: &Evaluation<'a>,
    name: &str,
) -> Result<Row<'a>, PlanError> {
    value.evaluate(eval, || format!("Unsupported unset value for column {name}"))
}

fn not_null<'a>(value: Option<Cow<'a, [u8]>>, name: &str) -> Result<Cow<'a, [u8]>, PlanError> {
    value.ok_or_else(|| PlanError::invalid(format!("Unsupported null value for column {name}")))
}

fn value<'a>(
    term: &'a Term,
    eval: &Evaluation<'a>,
    what: &str,
    name: &str,
) -> Result<Cow<'a, [u8]>, PlanError> {
    match term.evaluate(eval)? {
        Evaluated::Null => invalid!("Unsupported null {what} column {name}"),
        Evaluated::Unset => invalid!("Unsupported unset {what} column {name}"),
        Evaluated::Bytes(bytes) => Ok(bytes),
    }
}
