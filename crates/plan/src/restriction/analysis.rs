//! Which restrictions become keys, ranges and filters, and whether that is allowed.

use std::fmt;
use std::sync::Arc;

use cql::ast::{Ordering, Relation};
use schema::{Index, Table, TableShape};
use types::CqlType;

use super::merge::RestrictionSet;
use super::relation::{Related, restrict};
use super::{Components, Restriction, RestrictionKind, index, relation_text};
use crate::error::{PlanError, invalid};
use crate::expression::{Scope, Term};

/// The refusal of a query that would read rows it does not return.
pub(crate) const REQUIRES_ALLOW_FILTERING: &str = "Cannot execute this query as it might involve \
    data filtering and thus may have unpredictable performance. If you want to execute this query \
    despite the performance unpredictability, use ALLOW FILTERING";

/// Whose WHERE clause it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Insert,
    Update,
    Delete,
    Select,
}

impl fmt::Display for StatementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StatementKind::Insert => "INSERT",
            StatementKind::Update => "UPDATE",
            StatementKind::Delete => "DELETE",
            StatementKind::Select => "SELECT",
        })
    }
}

/// What the statement around a WHERE clause says.
pub(crate) struct Demands<'a> {
    pub(crate) kind: StatementKind,
    pub(crate) only_statics: bool,
    pub(crate) allow_filtering: bool,
    pub(crate) orderings: &'a [Ordering],
}

/// A checked WHERE clause.
#[derive(Debug)]
pub(crate) struct Restrictions {
    pub(crate) table: Arc<Table>,
    /// On partition key columns.
    pub(super) partition: RestrictionSet,
    /// On the token.
    pub(super) token: Option<RestrictionKind>,
    /// On clustering columns.
    pub(super) clustering: RestrictionSet,
    /// On all other columns.
    pub(super) others: RestrictionSet,
    /// Many logical partitions are read, by ring order.
    pub(crate) is_key_range: bool,
    /// An index gives the candidates.
    pub(crate) uses_index: bool,
    /// Whether restrictions of the partition key are among the filters.
    filters_partition: bool,
    /// Whether restrictions of clustering columns are among the filters.
    filters_clustering: bool,
    /// What must be checked on each row.
    pub(super) filters: Vec<Arc<Restriction>>,
    /// The indexes that may be used, each with the restriction it answers.
    pub(super) indexes: Vec<(Arc<Index>, Arc<Restriction>)>,
}

impl Restrictions {
    /// Checks a WHERE clause.
    pub(crate) fn prepare(
        relations: &[Relation],
        demands: &Demands<'_>,
        scope: &Scope<'_>,
    ) -> Result<Restrictions, PlanError> {
        let mut this = Restrictions::none(&scope.table);
        for relation in relations {
            this.add_relation(relation, demands, scope)?;
        }
        check_ann(demands.orderings, scope)?;
        if demands.kind == StatementKind::Select {
            check_index_expressions(relations, &this.table)?;
        }
        this.check(demands)?;
        Ok(this)
    }

    /// The WHERE clause that an INSERT implies: each key column equals its value.
    pub(crate) fn of_values(
        values: Vec<(usize, Term)>,
        demands: &Demands<'_>,
        table: &Arc<Table>,
    ) -> Result<Restrictions, PlanError> {
        let mut this = Restrictions::none(table);
        for (index, term) in values {
            let restriction = Restriction {
                columns: vec![index],
                multi_column: false,
                kind: RestrictionKind::Equal(Arc::new(Components::Single(term))),
            };
            if index < table.partition_key_count {
                this.partition.add(restriction, table)?;
            } else {
                this.clustering.add(restriction, table)?;
            }
        }
        this.check(demands)?;
        Ok(this)
    }

    fn none(table: &Arc<Table>) -> Restrictions {
        Restrictions {
            table: Arc::clone(table),
            partition: RestrictionSet::default(),
            token: None,
            clustering: RestrictionSet::default(),
            others: RestrictionSet::default(),
            is_key_range: false,
            uses_index: false,
            filters_partition: false,
            filters_clustering: false,
            filters: Vec::new(),
            indexes: Vec::new(),
        }
    }

    fn check(&mut self, demands: &Demands<'_>) -> Result<(), PlanError> {
        let mut has_index = false;
        let mut has_clustering_index = false;
        if demands.kind == StatementKind::Select {
            has_clustering_index = index::has_support(&self.clustering, &self.table);
            has_index = has_clustering_index
                || index::has_support(&self.partition, &self.table)
                || index::has_support(&self.others, &self.table);
        }
        self.check_partition_key(demands, has_index)?;
        // An index that only other columns have is not known to be used yet, and so Cassandra
        // leaves the key out of what must be filtered.
        self.filters_partition = self.uses_index || self.partition_needs_filtering();
        self.check_only_statics(demands)?;
        self.check_clustering(demands, has_index)?;
        if self.is_key_range && has_clustering_index {
            self.uses_index = true;
        }
        self.filters_clustering = self.uses_index || self.clustering_needs_filtering();
        self.check_others(demands, has_index)?;
        if self.uses_index && self.key_is_in() {
            return invalid!(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported"
            );
        }
        self.collect_filters();
        self.collect_indexes();
        Ok(())
    }

    fn add_relation(
        &mut self,
        relation: &Relation,
        demands: &Demands<'_>,
        scope: &Scope<'_>,
    ) -> Result<(), PlanError> {
        if matches!(demands.kind, StatementKind::Update | StatementKind::Delete) {
            let operator = match relation {
                Relation::Contains { .. } => Some("CONTAINS"),
                Relation::ContainsKey { .. } => Some("CONTAINS KEY"),
                _ => None,
            };
            if let Some(operator) = operator {
                return invalid!("Cannot use {} with {operator}", demands.kind);
            }
        }
        if let Relation::IndexExpression { .. } = relation {
            return Ok(());
        }
        let restriction = match restrict(relation, scope)? {
            Related::Token(kind) => return self.add_token(kind),
            Related::Columns(restriction) => restriction,
        };
        if restriction.is_like()
            && (demands.kind != StatementKind::Select
                || index::supporting(&restriction, &self.table).is_none())
        {
            return invalid!(
                "LIKE restriction is only supported on properly indexed columns. {} is not valid.",
                relation_text(relation)
            );
        }
        let first = restriction.first_column();
        let table = Arc::clone(&self.table);
        if first < table.partition_key_count {
            self.partition.add(restriction, &table)
        } else if first < table.partition_key_count + table.clustering_count {
            self.add_clustering(restriction, demands)
        } else {
            self.others.add(restriction, &table)
        }
    }

    fn add_token(&mut self, new: RestrictionKind) -> Result<(), PlanError> {
        let Some(old) = self.token.take() else {
            self.token = Some(new);
            return Ok(());
        };
        let names: Vec<&str> = self.table.partition_key().iter().map(|c| &*c.name).collect();
        let names = names.join(", ");
        let (
            RestrictionKind::Slice { start: old_start, end: old_end },
            RestrictionKind::Slice { start, end },
        ) = (&old, &new)
        else {
            if matches!(old, RestrictionKind::Equal(_)) {
                return invalid!(
                    "{names} cannot be restricted by more than one relation if it includes an Equal"
                );
            }
            return invalid!(
                "Columns \"{names}\" cannot be restricted by both an equality and an inequality \
                 relation"
            );
        };
        for (word, a, b) in [("start", old_start, start), ("end", old_end, end)] {
            if a.is_some() && b.is_some() {
                return invalid!(
                    "More than one restriction was found for the {word} bound on {names}"
                );
            }
        }
        self.token = Some(RestrictionKind::Slice {
            start: old_start.clone().or_else(|| start.clone()),
            end: old_end.clone().or_else(|| end.clone()),
        });
        Ok(())
    }

    fn add_clustering(
        &mut self,
        restriction: Restriction,
        demands: &Demands<'_>,
    ) -> Result<(), PlanError> {
        let table = Arc::clone(&self.table);
        let name = |index: usize| table.columns.get(index).map_or("", |column| &column.name);
        let before = self.clustering.clone();
        let new_start = restriction.first_column();
        let is_slice = restriction.is_slice();
        let is_indexed = demands.kind == StatementKind::Select
            && index::supporting(&restriction, &table).is_some();
        self.clustering.add(restriction, &table)?;
        let Some(last) = before.last() else { return Ok(()) };
        if demands.allow_filtering || is_indexed {
            return Ok(());
        }
        let last_start = last.first_column();
        if last.is_slice() && new_start > last_start {
            return invalid!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                name(new_start),
                name(last_start)
            );
        }
        if new_start < last_start && is_slice {
            return invalid!(
                "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                before.next_column(new_start).map_or("", name),
                name(new_start)
            );
        }
        Ok(())
    }

    fn check_partition_key(
        &mut self,
        demands: &Demands<'_>,
        has_index: bool,
    ) -> Result<(), PlanError> {
        let kind = demands.kind;
        if kind != StatementKind::Select {
            if self.is_on_token() {
                return invalid!(
                    "The token function cannot be used in WHERE clauses for {kind} statements"
                );
            }
            if self.has_open_partition_key() {
                let missing: Vec<&str> = self
                    .table
                    .partition_key()
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| self.partition.get(*index, &self.table).is_none())
                    .map(|(_, column)| &*column.name)
                    .collect();
                return invalid!("Some partition key parts are missing: {}", missing.join(", "));
            }
            if self.partition.any(Restriction::is_slice) {
                return invalid!(
                    "Only EQ and IN relation are supported on the partition key (unless you use \
                     the token() function) for {kind} statements"
                );
            }
            return Ok(());
        }
        if self.is_on_token() {
            self.is_key_range = true;
        }
        if self.partition.is_empty() && self.token.is_none() {
            self.is_key_range = true;
            self.uses_index = has_index;
        }
        if self.partition_needs_filtering() {
            if !demands.allow_filtering && !has_index && self.requires_allow_filtering() {
                return invalid!("{REQUIRES_ALLOW_FILTERING}");
            }
            self.is_key_range = true;
            self.uses_index = has_index;
        }
        Ok(())
    }

    fn check_only_statics(&self, demands: &Demands<'_>) -> Result<(), PlanError> {
        if !demands.only_statics || self.clustering.is_empty() {
            return Ok(());
        }
        match demands.kind {
            StatementKind::Update | StatementKind::Delete => invalid!(
                "Invalid restrictions on clustering columns since the {} statement modifies only \
                 static columns",
                demands.kind
            ),
            StatementKind::Select => {
                invalid!("Cannot restrict clustering columns when selecting only static columns")
            }
            StatementKind::Insert => Ok(()),
        }
    }

    fn check_clustering(
        &mut self,
        demands: &Demands<'_>,
        has_index: bool,
    ) -> Result<(), PlanError> {
        let allows_slices = matches!(demands.kind, StatementKind::Select | StatementKind::Delete);
        if !allows_slices && self.clustering.any(Restriction::is_slice) {
            return invalid!(
                "Slice restrictions are not supported on the clustering columns in {} statements",
                demands.kind
            );
        }
        let is_compact = self.table.shape != TableShape::Ordinary;
        if !allows_slices && (!is_compact || self.clustering.is_empty()) {
            if !demands.only_statics && self.has_open_clustering() {
                return invalid!("Some clustering keys are missing: {}", self.open_clustering());
            }
            return Ok(());
        }
        if self.clustering.any(Restriction::is_contains) && !has_index && !demands.allow_filtering {
            return invalid!(
                "Clustering columns can only be restricted with CONTAINS with a secondary index \
                 or filtering"
            );
        }
        if !self.clustering_needs_filtering() {
            return Ok(());
        }
        if has_index {
            self.uses_index = true;
        } else if !demands.allow_filtering {
            let first = self.table.partition_key_count;
            for (position, restricted) in self.clustering.columns(&self.table).enumerate() {
                if restricted != first + position {
                    let name =
                        |index: usize| self.table.columns.get(index).map_or("", |c| &*c.name);
                    return invalid!(
                        "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" \
                         is not restricted",
                        name(restricted),
                        name(first + position)
                    );
                }
            }
        }
        Ok(())
    }

    fn check_others(&mut self, demands: &Demands<'_>, has_index: bool) -> Result<(), PlanError> {
        if self.others.is_empty() {
            return Ok(());
        }
        if demands.kind != StatementKind::Select {
            let names: Vec<&str> = self
                .others
                .columns(&self.table)
                .filter_map(|index| self.table.columns.get(index))
                .map(|column| &*column.name)
                .collect();
            return invalid!(
                "Non PRIMARY KEY columns found in where clause: {} ",
                names.join(", ")
            );
        }
        let vector = self
            .others
            .columns(&self.table)
            .filter_map(|index| self.table.columns.get(index))
            .find(|column| matches!(column.cql_type, CqlType::Vector { .. }));
        if let Some(vector) = vector
            && self.table.indexes.values().any(|index| index.column == vector.id)
        {
            return invalid!("Vector indexes only support ANN queries");
        }
        if has_index {
            self.uses_index = true;
        } else if !demands.allow_filtering && self.requires_allow_filtering() {
            return invalid!("{REQUIRES_ALLOW_FILTERING}");
        }
        Ok(())
    }

    /// Notes the restrictions that neither keys nor ranges cover.
    fn collect_filters(&mut self) {
        if self.filters_partition {
            self.filters.extend(self.partition.iter().cloned());
        }
        if self.filters_clustering {
            let mut position = self.table.partition_key_count;
            for restriction in self.clustering.iter() {
                if !covers(restriction, position)
                    || index::supporting(restriction, &self.table).is_some()
                {
                    self.filters.push(Arc::clone(restriction));
                } else if !restriction.is_slice() {
                    position = restriction.last_column() + 1;
                }
            }
        }
        self.filters.extend(self.others.iter().cloned());
    }

    fn collect_indexes(&mut self) {
        if !self.uses_index {
            return;
        }
        let sets = [&self.others, &self.clustering, &self.partition];
        let restrictions = sets.into_iter().flat_map(RestrictionSet::iter);
        self.indexes = restrictions
            .flat_map(|restriction| {
                index::all_supporting(restriction, &self.table)
                    .map(|index| (Arc::clone(index), Arc::clone(restriction)))
            })
            .collect();
    }

    /// Checks that a SELECT without ALLOW FILTERING reads only what it returns.
    pub(crate) fn check_needs_filtering(&self, allow_filtering: bool) -> Result<(), PlanError> {
        if allow_filtering
            || !(self.is_key_range || self.uses_index)
            || !self.requires_allow_filtering()
        {
            return Ok(());
        }
        let mut sets = Vec::new();
        if self.filters_partition {
            sets.push(&self.partition);
        }
        if self.filters_clustering {
            sets.push(&self.clustering);
        }
        if !self.others.is_empty() {
            sets.push(&self.others);
        }
        let restricted: usize = sets.iter().map(|set| set.column_count()).sum();
        if !sets.is_empty() && index::needs_filtering(&sets, &self.table)
            || restricted == 0 && !self.clustering.is_empty()
        {
            return invalid!("{REQUIRES_ALLOW_FILTERING}");
        }
        Ok(())
    }

    /// The tables that clients know to be virtual may be filtered for free.
    fn requires_allow_filtering(&self) -> bool {
        !(self.table.is_virtual && schema::is_virtual_keyspace(&self.table.keyspace))
    }

    fn has_open_partition_key(&self) -> bool {
        if self.partition.is_empty() && self.token.is_some() {
            return false;
        }
        self.partition.column_count() < self.table.partition_key_count
    }

    /// Whether the partition key is restricted in a way that gives no keys.
    pub(super) fn partition_needs_filtering(&self) -> bool {
        !self.partition.is_empty()
            && (self.has_open_partition_key()
                || self.partition.any(Restriction::is_slice)
                || self.partition.any(Restriction::is_contains))
    }

    /// Whether the token decides which logical partitions are read.
    pub(super) fn is_on_token(&self) -> bool {
        self.token.is_some()
            && (self.partition.is_empty()
                || self.partition_needs_filtering()
                || self.partition.column_count() < self.table.partition_key_count)
    }

    fn clustering_needs_filtering(&self) -> bool {
        let mut position = self.table.partition_key_count;
        for restriction in self.clustering.iter() {
            if !covers(restriction, position) {
                return true;
            }
            if !restriction.is_slice() {
                position = restriction.last_column() + 1;
            }
        }
        false
    }

    fn has_open_clustering(&self) -> bool {
        self.clustering.column_count() != self.table.clustering_count
    }

    /// The clustering columns without a restriction, as messages show them.
    pub(crate) fn open_clustering(&self) -> String {
        let first = self.table.partition_key_count;
        let names: Vec<&str> = self
            .table
            .clustering()
            .iter()
            .enumerate()
            .filter(|(index, _)| self.clustering.get(first + index, &self.table).is_none())
            .map(|(_, column)| &*column.name)
            .collect();
        names.join(", ")
    }

    /// Whether the partition key is restricted by IN.
    pub(crate) fn key_is_in(&self) -> bool {
        !self.is_on_token() && self.partition.any(Restriction::is_in)
    }

    pub(crate) fn has_partition_key(&self) -> bool {
        !self.partition.is_empty() || self.token.is_some()
    }

    pub(crate) fn has_clustering(&self) -> bool {
        !self.clustering.is_empty()
    }

    pub(crate) fn clustering_has_in(&self) -> bool {
        self.clustering.any(Restriction::is_in)
    }

    /// Whether there are restrictions outside of the primary key that are not all on static columns.
    pub(crate) fn restricts_regulars(&self) -> bool {
        let regular = self.table.columns.len() - self.table.regulars().len();
        self.others.columns(&self.table).any(|index| index >= regular)
    }

    /// The columns outside of the primary key that are restricted.
    pub(crate) fn other_columns(&self) -> Vec<usize> {
        self.others.columns(&self.table).collect()
    }

    /// Whether a column is restricted by `=`.
    pub(crate) fn is_equal_on(&self, index: usize) -> bool {
        let set = if index < self.table.partition_key_count {
            &self.partition
        } else if index < self.table.partition_key_count + self.table.clustering_count {
            &self.clustering
        } else {
            &self.others
        };
        set.get(index, &self.table).is_some_and(|restriction| restriction.is_equal())
    }

    /// Whether rows are read by ranges, not by their full clustering keys.
    pub(crate) fn is_column_range(&self) -> bool {
        self.has_open_clustering() || !self.clustering.only_equalities()
    }

    /// Whether every primary key column is restricted by `=` or IN.
    pub(crate) fn has_full_primary_key(&self) -> bool {
        !self.is_on_token()
            && !self.has_open_partition_key()
            && self.partition.only_equalities()
            && !self.has_open_clustering()
            && self.clustering.only_equalities()
    }
}

/// Whether a clustering restriction continues the range that starts before `position`.
pub(super) fn covers(restriction: &Restriction, position: usize) -> bool {
    !restriction.is_contains() && !restriction.is_like() && restriction.first_column() == position
}

fn check_ann(orderings: &[Ordering], scope: &Scope<'_>) -> Result<(), PlanError> {
    let mut nearest = orderings.iter().filter(|ordering| ordering.ann_of.is_some());
    let Some(ordering) = nearest.next() else { return Ok(()) };
    if nearest.next().is_some() {
        return invalid!("Cannot specify more than one ANN ordering");
    }
    if orderings.len() > 1 {
        return invalid!("ANN ordering does not support any other ordering");
    }
    if ordering.descending {
        return invalid!("Descending ANN ordering is not supported");
    }
    let column = scope.table.column(&ordering.column).map(|(_, column)| &column.cql_type);
    match column {
        Some(CqlType::Vector { element, .. }) if **element == CqlType::Float => {
            invalid!("ANN ordering by vector requires the column to be indexed")
        }
        _ => invalid!("ANN ordering is only supported on float vector indexes"),
    }
}

fn check_index_expressions(relations: &[Relation], table: &Table) -> Result<(), PlanError> {
    let mut expressions = relations.iter().filter_map(|relation| match relation {
        Relation::IndexExpression { index, .. } => Some(index),
        _ => None,
    });
    let Some(name) = expressions.next() else { return Ok(()) };
    if expressions.next().is_some() {
        return invalid!("Multiple custom index expressions in a single query are not supported");
    }
    match table.indexes.get(name.as_str()) {
        None => invalid!(
            "Invalid index expression, index {name} not found for {}.{}",
            table.keyspace,
            table.name
        ),
        Some(index) if index.class.is_none() => invalid!(
            "Only CUSTOM indexes may be used in custom index expressions, {name} is not valid"
        ),
        Some(_) => invalid!("Index {name} does not support custom expressions"),
    }
}
