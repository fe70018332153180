//! Restrictions on the same columns become one, or contradict each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use schema::Table;

use super::{Restriction, RestrictionKind};
use crate::error::{PlanError, invalid};

/// The restrictions of one kind of columns, by column, in the order of the key (or of the names,
/// for columns outside of it).
#[derive(Clone, Debug, Default)]
pub(crate) struct RestrictionSet {
    by_column: BTreeMap<(usize, Arc<str>), Arc<Restriction>>,
}

fn sort_key(index: usize, table: &Table) -> (usize, Arc<str>) {
    match table.columns.get(index) {
        Some(column) if column.is_key() => (index, Arc::from("")),
        Some(column) => (usize::MAX, Arc::clone(&column.name)),
        None => (usize::MAX, Arc::from("")),
    }
}

impl RestrictionSet {
    /// Adds a restriction, joined with those on the same columns.
    pub(crate) fn add(&mut self, new: Restriction, table: &Table) -> Result<(), PlanError> {
        let new = Arc::new(new);
        let keys: Vec<_> = new.columns.iter().map(|index| sort_key(*index, table)).collect();
        let mut existing: Vec<Arc<Restriction>> = Vec::new();
        for key in &keys {
            if let Some(old) = self.by_column.get(key)
                && !existing.iter().any(|known| Arc::ptr_eq(known, old))
            {
                existing.push(Arc::clone(old));
            }
        }
        let mut merged = vec![Arc::clone(&new)];
        if !existing.is_empty() {
            merged.clear();
            for old in existing {
                merged.push(Arc::new(merge(&old, &new, table)?));
            }
        }
        for restriction in merged {
            for key in &keys {
                self.by_column.insert(key.clone(), Arc::clone(&restriction));
            }
        }
        Ok(())
    }

    /// The restrictions in order, each once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Restriction>> {
        let mut previous: Option<&Arc<Restriction>> = None;
        self.by_column.values().filter(move |restriction| {
            let again = previous.is_some_and(|previous| Arc::ptr_eq(previous, restriction));
            previous = Some(restriction);
            !again
        })
    }

    /// How many columns are restricted.
    pub(crate) fn column_count(&self) -> usize {
        self.by_column.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_column.is_empty()
    }

    /// The restricted columns' places, in order.
    pub(crate) fn columns<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = usize> + 't {
        self.by_column.keys().filter_map(move |(index, name)| {
            if *index == usize::MAX {
                table.column(name).map(|(index, _)| index)
            } else {
                Some(*index)
            }
        })
    }

    /// The restriction of a column.
    pub(crate) fn get(&self, index: usize, table: &Table) -> Option<&Arc<Restriction>> {
        self.by_column.get(&sort_key(index, table))
    }

    pub(crate) fn last(&self) -> Option<&Arc<Restriction>> {
        self.by_column.values().next_back()
    }

    /// The first restricted key column after one.
    pub(crate) fn next_column(&self, index: usize) -> Option<usize> {
        let after = (index.saturating_add(1), Arc::from(""));
        self.by_column.range(after..).next().map(|((other, _), _)| *other)
    }

    pub(crate) fn any(&self, test: impl Fn(&Restriction) -> bool) -> bool {
        self.by_column.values().any(|restriction| test(restriction))
    }

    /// Whether every restriction is `=` or IN.
    pub(crate) fn only_equalities(&self) -> bool {
        self.by_column.values().all(|restriction| restriction.is_equal() || restriction.is_in())
    }
}

fn name(index: usize, table: &Table) -> &str {
    table.columns.get(index).map_or("", |column| &column.name)
}

/// The columns that both restrict, as messages show them.
fn common(a: &Restriction, b: &Restriction, table: &Table) -> String {
    let names: Vec<&str> = a
        .columns
        .iter()
        .filter(|index| b.columns.contains(index))
        .map(|index| name(*index, table))
        .collect();
    names.join(" ,")
}

fn merge(old: &Restriction, new: &Restriction, table: &Table) -> Result<Restriction, PlanError> {
    use RestrictionKind as Kind;
    let columns = || common(old, new, table);
    match (&old.kind, &new.kind) {
        (Kind::Equal(_), _) => invalid!(
            "{} cannot be restricted by more than one relation if it includes an Equal",
            columns()
        ),
        (Kind::In(_), _) => invalid!(
            "{} cannot be restricted by more than one relation if it includes a IN",
            columns()
        ),
        (Kind::Slice { .. }, Kind::Slice { .. }) => merge_slices(old, new, table),
        (Kind::Slice { .. }, _) => invalid!(
            "Column \"{}\" cannot be restricted by both an equality and an inequality relation",
            columns()
        ),
        (Kind::Contains(a), Kind::Contains(b)) => {
            let mut all = a.clone();
            all.values.extend(b.values.iter().cloned());
            all.keys.extend(b.keys.iter().cloned());
            all.entries.extend(b.entries.iter().cloned());
            Ok(Restriction { kind: Kind::Contains(all), ..old.clone() })
        }
        (Kind::Contains(_), _) => invalid!(
            "Collection column {} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry \
             equality",
            columns()
        ),
        (Kind::Like, _) => invalid!(
            "{} cannot be restricted by more than one relation if it includes a LIKE",
            columns()
        ),
    }
}

fn merge_slices(
    old: &Restriction,
    new: &Restriction,
    table: &Table,
) -> Result<Restriction, PlanError> {
    if old.first_column() != new.first_column() {
        return invalid!(
            "Column \"{}\" cannot be restricted by two inequalities not starting with the same \
             column",
            name(old.first_column().max(new.first_column()), table)
        );
    }
    let (
        RestrictionKind::Slice { start: old_start, end: old_end },
        RestrictionKind::Slice { start: new_start, end: new_end },
    ) = (&old.kind, &new.kind)
    else {
        return Ok(old.clone());
    };
    for (word, a, b) in [("start", old_start, new_start), ("end", old_end, new_end)] {
        if a.is_some() && b.is_some() {
            return invalid!(
                "More than one restriction was found for the {word} bound on {}",
                common(old, new, table)
            );
        }
    }
    let longer = if old.columns.len() >= new.columns.len() { old } else { new };
    Ok(Restriction {
        columns: longer.columns.clone(),
        multi_column: old.multi_column || new.multi_column,
        kind: RestrictionKind::Slice {
            start: old_start.clone().or_else(|| new_start.clone()),
            end: old_end.clone().or_else(|| new_end.clone()),
        },
    })
}
