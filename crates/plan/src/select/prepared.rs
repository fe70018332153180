//! A SELECT that was checked against its table.

use std::sync::Arc;

use cql::ast::{self, Selection as RawSelection};
use schema::{Table, TableShape};
use types::value::validate;
use types::{ColumnId, CqlType, Statics};

use super::build::Builder;
use super::grouping::Grouping;
use super::projection::Projection;
use super::selectable::look_up;
use super::selection::Selection;
use super::sort::{self, Sort};
use crate::error::{PlanError, invalid};
use crate::expression::{BoundValues, Evaluated, Evaluation, Receiver, Scope, Term, prepare_term};
use crate::plan::{LogicalPartitions, SelectPlan};
use crate::restriction::{Demands, Restrictions, StatementKind, is_empty_key};
use crate::row::RowLayout;
use crate::values::BindContext;

/// A SELECT, ready to be bound to values.
#[derive(Debug)]
pub struct PreparedSelect {
    pub table: Arc<Table>,
    /// What is computed from its rows.
    pub selection: Selection,
    /// Where columns are in its rows.
    pub layout: RowLayout,
    /// The short way from a row to the result, where there is one.
    pub projection: Option<Projection>,
    /// The columns outside of the key that are looked at.
    pub read_columns: Arc<[ColumnId]>,
    pub grouping: Option<Grouping>,
    /// ORDER BY over several logical partitions.
    pub sort: Option<Sort>,
    /// The read goes from the last row to the first.
    pub reversed: bool,
    /// SELECT DISTINCT.
    pub distinct: bool,
    /// ALLOW FILTERING stands there, needed or not.
    pub allows_filtering: bool,
    pub(crate) restrictions: Restrictions,
    statics: Statics,
    limit: Option<Term>,
    per_partition_limit: Option<Term>,
}

impl PreparedSelect {
    /// Whether it reads a part of the ring, and not partitions that it names.
    pub fn is_scan(&self) -> bool {
        self.restrictions.is_key_range
    }

    /// Checks a SELECT, in Cassandra's order.
    pub(crate) fn prepare(
        select: &ast::Select,
        scope: &Scope<'_>,
    ) -> Result<PreparedSelect, PlanError> {
        let table = &scope.table;
        let only_statics = selects_only_statics(&select.selection, scope)?;
        let ordering = sort::ordering_columns(&select.order_by, table)?;
        let restrictions = Restrictions::prepare(
            &select.relations,
            &Demands {
                kind: StatementKind::Select,
                only_statics,
                allow_filtering: select.allow_filtering,
                orderings: &select.order_by,
            },
            scope,
        )?;
        let selection = build_selection(select, scope)?;
        if select.distinct {
            if select.per_partition_limit.is_some() {
                return invalid!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
            }
            check_distinct(&selection, &ordering, &restrictions, table)?;
        }
        let grouping = if select.group_by.is_empty() {
            None
        } else {
            Some(Grouping::prepare(&select.group_by, select.distinct, &restrictions, scope)?)
        };
        if grouping.is_none() && selection.is_aggregate() && select.per_partition_limit.is_some() {
            return invalid!("PER PARTITION LIMIT is not allowed with aggregate queries.");
        }
        let order = sort::prepare(&ordering, &restrictions, table)?;
        restrictions.check_needs_filtering(select.allow_filtering)?;
        let limit = prepare_limit(select.limit.as_ref(), "[limit]", scope)?;
        let per_partition_limit =
            prepare_limit(select.per_partition_limit.as_ref(), "[per_partition_limit]", scope)?;
        Ok(PreparedSelect {
            statics: statics_mode(&selection, &restrictions, table),
            table: Arc::clone(table),
            layout: RowLayout::new(table),
            projection: Projection::new(&selection, table),
            read_columns: read_columns(&selection, &restrictions, table),
            selection,
            grouping,
            sort: order.sort,
            // As in Cassandra, the one row of each key is looked for from the beginning, whatever the order.
            reversed: order.reversed && !select.distinct,
            distinct: select.distinct,
            allows_filtering: select.allow_filtering,
            restrictions,
            limit,
            per_partition_limit,
        })
    }

    /// Whether the answer is cut into pages: not where it is known to be empty, but groups are even
    /// then.
    fn is_paged(
        &self,
        partitions: &LogicalPartitions,
        rows: &types::RowSelection,
        context: &BindContext<'_>,
    ) -> bool {
        let is_scan = matches!(partitions, LogicalPartitions::Ring(_));
        let is_empty = self.reads_nothing(rows, is_scan) || is_nowhere(partitions);
        context.page_size.is_some() && (self.selection.is_grouped() || !is_empty)
    }

    fn selects_no_rows(&self, eval: &Evaluation<'_>) -> Result<bool, PlanError> {
        if self.distinct || self.table.clustering_count == 0 {
            return Ok(false);
        }
        Ok(self.reads_nothing(&self.restrictions.bind_rows(eval)?, false))
    }

    /// Whether such rows are known not to be there. Where a table has static columns Cassandra looks
    /// for them all the same, but not beside slices of one partition.
    fn reads_nothing(&self, rows: &types::RowSelection, is_scan: bool) -> bool {
        let has_statics = self.table.has_statics();
        match rows {
            types::RowSelection::Points(keys) => keys.is_empty() && !has_statics,
            types::RowSelection::Ranges(ranges) => ranges.is_empty() && !(is_scan && has_statics),
            types::RowSelection::All | types::RowSelection::None => false,
        }
    }

    /// The plan of one execution.
    pub(crate) fn bind<'a>(
        &'a self,
        values: BoundValues<'a>,
        context: &'a BindContext<'a>,
    ) -> Result<SelectPlan<'a>, PlanError> {
        let eval = Evaluation { values, context };
        let limit = bind_limit(self.limit.as_ref(), &eval)?;
        let per_partition_limit = bind_limit(self.per_partition_limit.as_ref(), &eval)?;
        let filters = self.restrictions.bind_filters(&eval)?;
        let partitions = match self.restrictions.bind_partitions(&eval) {
            // Keys are looked at after rows.
            Err(error) if is_empty_key(&error) && self.selects_no_rows(&eval)? => {
                LogicalPartitions::Keys(Vec::new())
            }
            partitions => partitions?,
        };
        // The rows are not looked at, as in Cassandra, where no partition is asked for.
        let is_nowhere = is_nowhere(&partitions);
        let indexes = self.restrictions.bind_indexes(&eval)?;
        let is_one_row_each =
            self.table.clustering_count == 0 && !matches!(partitions, LogicalPartitions::Ring(_));
        let rows = if is_one_row_each {
            // The only row of a logical partition is found by its key, without a search.
            types::RowSelection::point(bytes::Bytes::new())
        } else if self.distinct || is_nowhere {
            types::RowSelection::All
        } else {
            self.restrictions.bind_rows(&eval)?
        };
        if self.sort.is_some() && self.is_paged(&partitions, &rows, context) {
            return invalid!(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; \
                 you must either remove the ORDER BY or the IN and sort client side, or disable \
                 paging for this query"
            );
        }
        Ok(SelectPlan {
            table: &self.table,
            partitions,
            rows,
            reversed: self.reversed,
            statics: self.statics,
            filters,
            selection: &self.selection,
            layout: &self.layout,
            projection: self.projection.as_ref(),
            read_columns: &self.read_columns,
            distinct: self.distinct,
            grouping: self.grouping.as_ref(),
            sort: self.sort.as_ref(),
            limit,
            per_partition_limit,
            page_size: context.page_size,
            indexes,
            now_s: u32::try_from(context.now_seconds()).unwrap_or(0),
            evaluation: eval,
            warnings: self.warnings(),
        })
    }

    fn warnings(&self) -> Vec<String> {
        let is_aggregation = self.grouping.is_some() || self.selection.is_aggregate();
        if !is_aggregation {
            Vec::new()
        } else if !self.restrictions.has_partition_key() {
            vec!["Aggregation query used without partition key".to_string()]
        } else if self.restrictions.key_is_in() {
            vec!["Aggregation query used on multiple partition keys (IN restriction)".to_string()]
        } else {
            Vec::new()
        }
    }
}

/// The columns outside of the key that are shown or compared.
fn read_columns(
    selection: &Selection,
    restrictions: &Restrictions,
    table: &Table,
) -> Arc<[ColumnId]> {
    let others = restrictions.other_columns();
    let columns = selection.used_columns().iter().chain(&others);
    let mut ids: Vec<ColumnId> = columns
        .filter_map(|index| table.columns.get(*index))
        .filter(|column| !column.is_key())
        .map(|column| column.id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into()
}

/// Looks up and builds one selector after the other: what is wrong with the first is told first.
fn build_selection(select: &ast::Select, scope: &Scope<'_>) -> Result<Selection, PlanError> {
    let table = &scope.table;
    let mut builder = Builder::default();
    let mut built = Vec::new();
    match &select.selection {
        RawSelection::Selectors(selectors) => {
            for aliased in selectors {
                let typed = look_up(&aliased.selector, scope)?;
                let alias = aliased.alias.as_ref().map(|alias| Arc::from(alias.as_str()));
                built.push((builder.build(&typed, None)?, alias));
            }
        }
        RawSelection::Wildcard => {
            for (index, column) in table.columns.iter().enumerate().filter(|(_, c)| !c.is_hidden) {
                built.push((super::build::column(index, column), None));
            }
        }
    }
    let has_group_by = !select.group_by.is_empty();
    Ok(Selection::new(built, builder, table, select.json, has_group_by))
}

fn is_static(table: &Table, index: usize) -> bool {
    let first = table.partition_key_count + table.clustering_count;
    (first..first + table.static_count).contains(&index)
}

/// Whether static columns are selected, and beside them only the partition key. Cassandra looks no
/// further than it must, so that mistakes in the rest are told later.
fn selects_only_statics(selection: &RawSelection, scope: &Scope<'_>) -> Result<bool, PlanError> {
    let table = &scope.table;
    let RawSelection::Selectors(selectors) = selection else { return Ok(false) };
    if table.shape == TableShape::CompactSparse || !table.has_statics() {
        return Ok(false);
    }
    let any = |test: &dyn Fn(usize) -> bool| -> Result<bool, PlanError> {
        for aliased in selectors {
            if look_up(&aliased.selector, scope)?.selects(test) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let selects_others = |index| index >= table.partition_key_count && !is_static(table, index);
    Ok(any(&|index| is_static(table, index))? && !any(&selects_others)?)
}

fn check_distinct(
    selection: &Selection,
    ordering: &[(usize, bool)],
    restrictions: &Restrictions,
    table: &Table,
) -> Result<(), PlanError> {
    if restrictions.has_clustering() || restrictions.restricts_regulars() {
        return invalid!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or \
             static columns."
        );
    }
    let used = selection.used_columns();
    // Rows of several partitions are sorted by columns that must be read too.
    let sorted = ordering.iter().filter(|_| restrictions.key_is_in()).map(|(index, _)| index);
    for index in used.iter().chain(sorted) {
        if *index >= table.partition_key_count && !is_static(table, *index) {
            let name = table.columns.get(*index).map_or("", |column| &column.name);
            return invalid!(
                "SELECT DISTINCT queries must only request partition key columns and/or static \
                 columns (not {name})"
            );
        }
    }
    if !restrictions.is_key_range {
        return Ok(());
    }
    for (index, column) in table.partition_key().iter().enumerate() {
        if !used.contains(&index) {
            return invalid!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                column.name
            );
        }
    }
    Ok(())
}

/// What becomes of static rows: they come along where they are looked at, and alone where whole
/// partitions are asked for.
fn statics_mode(selection: &Selection, restrictions: &Restrictions, table: &Table) -> Statics {
    if !table.has_statics() {
        return Statics::Skip;
    }
    if !restrictions.has_clustering() && !restrictions.restricts_regulars() {
        return Statics::AttachOrAlone;
    }
    let others = restrictions.other_columns();
    let mut looked_at = selection.used_columns().iter().chain(&others);
    if looked_at.any(|index| is_static(table, *index)) { Statics::Attach } else { Statics::Skip }
}

fn prepare_limit(
    limit: Option<&ast::Term>,
    name: &'static str,
    scope: &Scope<'_>,
) -> Result<Option<Term>, PlanError> {
    limit.map(|limit| prepare_term(limit, &Receiver::named(name, &CqlType::Int), scope)).transpose()
}

fn is_nowhere(partitions: &LogicalPartitions) -> bool {
    matches!(partitions, LogicalPartitions::Keys(keys) if keys.is_empty())
}

fn bind_limit(limit: Option<&Term>, eval: &Evaluation<'_>) -> Result<Option<u32>, PlanError> {
    let Some(limit) = limit else { return Ok(None) };
    let bytes = match limit.evaluate(eval)? {
        Evaluated::Null => return invalid!("Invalid null value of limit"),
        Evaluated::Unset => return Ok(None),
        Evaluated::Bytes(bytes) => bytes,
    };
    if validate(&CqlType::Int, &bytes).is_err() {
        return invalid!("Invalid limit value");
    }
    let number = <[u8; 4]>::try_from(bytes.as_ref()).map_or(0, i32::from_be_bytes);
    match u32::try_from(number) {
        Ok(limit) if limit > 0 => Ok(Some(limit)),
        _ => invalid!("LIMIT must be strictly positive"),
    }
}
