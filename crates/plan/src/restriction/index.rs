//! Which restrictions a secondary index answers.

use std::sync::Arc;

use schema::{Index, IndexTarget, Table};
use types::CqlType;

use super::merge::RestrictionSet;
use super::{Restriction, RestrictionKind};

/// What an index may be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Equal,
    Contains,
    ContainsKey,
    Entry,
}

fn answers(index: &Index, column: usize, table: &Table, question: Question) -> bool {
    let Some(column) = table.columns.get(column) else { return false };
    if column.id != index.column {
        return false;
    }
    match index.target {
        IndexTarget::Value | IndexTarget::Full => question == Question::Equal,
        IndexTarget::Values => question == Question::Contains,
        IndexTarget::Keys => {
            question == Question::ContainsKey
                || question == Question::Contains && matches!(column.cql_type, CqlType::Set { .. })
        }
        IndexTarget::Entries => question == Question::Entry,
    }
}

/// Whether an index helps with a restriction.
fn helps(index: &Index, restriction: &Restriction, table: &Table) -> bool {
    let answers_on = |column: usize| match &restriction.kind {
        RestrictionKind::Equal(_) => answers(index, column, table, Question::Equal),
        RestrictionKind::Contains(terms) => {
            !terms.values.is_empty() && answers(index, column, table, Question::Contains)
                || !terms.keys.is_empty() && answers(index, column, table, Question::ContainsKey)
                || !terms.entries.is_empty() && answers(index, column, table, Question::Entry)
        }
        RestrictionKind::In(_) | RestrictionKind::Slice { .. } | RestrictionKind::Like => false,
    };
    restriction.columns.iter().any(|column| answers_on(*column))
}

/// An index that helps with a restriction.
pub(super) fn supporting<'t>(
    restriction: &Restriction,
    table: &'t Table,
) -> Option<&'t Arc<Index>> {
    table.indexes.values().find(|index| helps(index, restriction, table))
}

/// All indexes that help with a restriction.
pub(super) fn all_supporting<'t>(
    restriction: &Restriction,
    table: &'t Table,
) -> impl Iterator<Item = &'t Arc<Index>> {
    table.indexes.values().filter(move |index| helps(index, restriction, table))
}

/// Whether some restriction has an index.
pub(super) fn has_support(set: &RestrictionSet, table: &Table) -> bool {
    set.iter().any(|restriction| supporting(restriction, table).is_some())
}

/// Whether rows would have to be filtered after using any single index.
pub(super) fn needs_filtering(sets: &[&RestrictionSet], table: &Table) -> bool {
    let covers = |index: &Index| {
        sets.iter().flat_map(|set| set.iter()).all(|restriction| covered(index, restriction, table))
    };
    !table.indexes.values().any(|index| covers(index))
}

/// Whether an index alone answers all of a restriction.
fn covered(index: &Index, restriction: &Restriction, table: &Table) -> bool {
    match &restriction.kind {
        RestrictionKind::Contains(terms)
            if terms.values.len() + terms.keys.len() + terms.entries.len() > 1 =>
        {
            false
        }
        _ if restriction.columns.len() > 1 => false,
        _ => helps(index, restriction, table),
    }
}
