//! INSERT, UPDATE or DELETE, checked against its table.

use std::sync::Arc;

use bytes::Bytes;
use cql::ast;
use schema::{Table, TableShape};
use types::{
    CellAction, CellChange, CqlType, Deletion, Liveness, Operation as Change, RowChange,
    RowPosition,
};

use super::apply::{CellWriter, WriteStamp};
use super::attributes::Attributes;
use super::condition::PreparedCondition;
use super::indexed::check_cells;
use super::operation::{Operation, prepare_assignment, prepare_deletion};
use super::watch;
use crate::error::{PlanError, invalid};
use crate::expression::{Evaluation, Scope};
use crate::restriction::{Demands, Restrictions, StatementKind};
use crate::values::BindContext;

/// INSERT, UPDATE or DELETE, ready to be bound to values.
#[derive(Debug)]
pub struct PreparedModification {
    pub table: Arc<Table>,
    pub(super) kind: StatementKind,
    pub(super) attributes: Attributes,
    pub(super) condition: PreparedCondition,
    pub(super) restrictions: Restrictions,
    pub(super) regulars: Vec<Operation>,
    pub(super) statics: Vec<Operation>,
    /// The marker of INSERT JSON ?, and whether missing columns are left alone. The key and the
    /// operations then have a marker for each column of the table.
    pub(super) json: Option<(usize, bool)>,
}

/// The clustering part of what a statement writes to.
pub(super) enum Target {
    /// The whole logical partition, or its static row.
    Partition,
    /// Rows by their clustering key.
    Rows(Vec<(Bytes, Option<Bytes>)>),
    /// Runs of rows.
    Ranges(Vec<types::ClusteringRange>),
}

/// What the parts of a statement decide together.
pub(super) struct Parts {
    pub(super) kind: StatementKind,
    pub(super) attributes: Attributes,
    pub(super) condition: PreparedCondition,
    pub(super) restrictions: Restrictions,
    pub(super) operations: Vec<Operation>,
    pub(super) json: Option<(usize, bool)>,
}

fn is_static(table: &Table, operation: &Operation) -> bool {
    let first = table.partition_key_count + table.clustering_count;
    (first..first + table.static_count).contains(&operation.column)
}

/// Whether a statement looks at and changes nothing but static columns.
pub(super) fn only_statics(
    kind: StatementKind,
    operations: &[Operation],
    condition: &PreparedCondition,
    table: &Table,
) -> bool {
    let changes_statics = operations.iter().any(|operation| is_static(table, operation));
    // A DELETE without columns is about whole rows.
    let changes_regulars = operations.iter().any(|operation| !is_static(table, operation))
        || kind == StatementKind::Delete && operations.is_empty();
    !changes_regulars
        && !condition.applies_to_regulars()
        && (changes_statics || condition.applies_to_statics())
}

impl PreparedModification {
    pub(super) fn new(parts: Parts, table: &Arc<Table>) -> Result<Self, PlanError> {
        let (statics, regulars) =
            parts.operations.into_iter().partition(|operation| is_static(table, operation));
        let this = PreparedModification {
            table: Arc::clone(table),
            kind: parts.kind,
            attributes: parts.attributes,
            condition: parts.condition,
            restrictions: parts.restrictions,
            regulars,
            statics,
            json: parts.json,
        };
        this.validate()?;
        Ok(this)
    }

    /// What no single part can tell.
    fn validate(&self) -> Result<(), PlanError> {
        let has_timestamp = self.attributes.timestamp.is_some();
        let has_ttl = self.attributes.ttl.is_some();
        let is_conditional = self.has_conditions();
        if is_conditional && self.table.is_counter {
            return invalid!("Conditional updates are not supported on counter tables");
        }
        if is_conditional && has_timestamp {
            return invalid!("Cannot provide custom timestamp for conditional updates");
        }
        if self.table.is_counter && has_timestamp {
            return invalid!("Cannot provide custom timestamp for counter updates");
        }
        if self.table.is_counter && has_ttl {
            return invalid!("Cannot provide custom TTL for counter updates");
        }
        if self.table.is_virtual {
            if has_timestamp {
                return invalid!("Custom timestamp is not supported by virtual tables");
            }
            if has_ttl {
                return invalid!("Expiring columns are not supported by virtual tables");
            }
            if is_conditional {
                return invalid!("Conditional updates are not supported by virtual tables");
            }
        }
        Ok(())
    }

    pub(crate) fn prepare_update(
        update: &ast::Update,
        scope: &Scope<'_>,
    ) -> Result<PreparedModification, PlanError> {
        let kind = StatementKind::Update;
        let attributes = Attributes::prepare(&update.attributes, scope)?;
        let condition =
            PreparedCondition::prepare(update.condition.as_ref(), &update.attributes, scope)?;
        let mut operations = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            operations.push(prepare_assignment(assignment, !condition.is_none(), scope)?);
        }
        let restrictions = where_clause(kind, &update.relations, &operations, &condition, scope)?;
        let parts = Parts { kind, attributes, condition, restrictions, operations, json: None };
        PreparedModification::new(parts, &scope.table)
    }

    pub(crate) fn prepare_delete(
        delete: &ast::Delete,
        scope: &Scope<'_>,
    ) -> Result<PreparedModification, PlanError> {
        let kind = StatementKind::Delete;
        let attributes = Attributes::prepare(&delete.attributes, scope)?;
        let condition =
            PreparedCondition::prepare(delete.condition.as_ref(), &delete.attributes, scope)?;
        let mut operations = Vec::with_capacity(delete.deletions.len());
        for deletion in &delete.deletions {
            operations.push(prepare_deletion(deletion, scope)?);
        }
        let restrictions = where_clause(kind, &delete.relations, &operations, &condition, scope)?;
        check_conditional_delete(&operations, &condition, &restrictions, &scope.table)?;
        let parts = Parts { kind, attributes, condition, restrictions, operations, json: None };
        PreparedModification::new(parts, &scope.table)
    }

    /// Whether it has an IF.
    pub fn has_conditions(&self) -> bool {
        !self.condition.is_none()
    }

    /// Whether it is a DELETE.
    pub fn is_delete(&self) -> bool {
        self.kind == StatementKind::Delete
    }

    /// Whether it brings its own timestamp.
    pub fn has_timestamp(&self) -> bool {
        self.attributes.timestamp.is_some()
    }

    /// Whether it writes clustered rows, not only static ones.
    pub(super) fn updates_rows(&self) -> bool {
        self.table.clustering_count == 0 || self.restrictions.has_clustering()
    }

    pub(super) fn updates_statics(&self) -> bool {
        !self.statics.is_empty()
    }

    fn is_only_statics(&self) -> bool {
        let changes_regulars = !self.regulars.is_empty()
            || self.kind == StatementKind::Delete && self.statics.is_empty();
        !changes_regulars
            && !self.condition.applies_to_regulars()
            && (self.updates_statics() || self.condition.applies_to_statics())
    }

    /// The row that conditions without a column look at: the static one where nothing else is
    /// written.
    pub(super) fn condition_position(&self, target: &Target) -> RowPosition {
        match target {
            Target::Rows(rows) => match rows.first() {
                Some((key, _)) => RowPosition::Clustered(key.clone()),
                None => RowPosition::Static,
            },
            Target::Partition if self.is_only_statics() => RowPosition::Static,
            Target::Partition | Target::Ranges(_) => RowPosition::Clustered(Bytes::new()),
        }
    }

    /// The time of the write, and its expiry.
    pub(super) fn stamp(
        &self,
        eval: &Evaluation<'_>,
        context: &BindContext<'_>,
        default_us: i64,
    ) -> Result<WriteStamp, PlanError> {
        let timestamp_us = self.attributes.timestamp_us(default_us, eval)?;
        if timestamp_us == i64::MIN {
            return invalid!("Out of bound timestamp, must be in [{}, {}]", i64::MIN + 1, i64::MAX);
        }
        Ok(WriteStamp {
            timestamp_us,
            expiry: self.attributes.expiry(&self.table, eval)?,
            now_s: u32::try_from(context.now_seconds()).unwrap_or(0),
        })
    }

    /// Which rows are written.
    pub(super) fn bind_target(&self, eval: &Evaluation<'_>) -> Result<Target, PlanError> {
        if !self.restrictions.has_clustering() {
            return Ok(Target::Partition);
        }
        if self.kind == StatementKind::Delete && self.restrictions.is_column_range() {
            return Ok(Target::Ranges(self.restrictions.bind_ranges(eval)?));
        }
        let rows = self.restrictions.bind_clusterings(eval)?;
        let is_dense = self.table.shape == TableShape::CompactDense;
        if is_dense && self.table.clustering_count == 1 {
            // An empty value encodes as its mark alone.
            let is_empty = |key: &Bytes| key.len() == 1;
            if rows.iter().any(|(key, _)| is_empty(key))
                && let Some(column) = self.table.clustering().first()
            {
                return invalid!("Invalid empty or null value for column {}", column.name);
            }
        }
        Ok(Target::Rows(rows))
    }

    /// The changes to one logical partition.
    pub(super) fn changes(
        &self,
        target: &Target,
        stamp: WriteStamp,
        eval: &Evaluation<'_>,
    ) -> Result<Vec<Change>, PlanError> {
        let mut changes = Vec::with_capacity(1);
        match self.kind {
            StatementKind::Delete => self.delete_changes(target, stamp, eval, &mut changes)?,
            _ => {
                let whole_row = [(Bytes::new(), None)];
                let rows: &[(Bytes, Option<Bytes>)] = match target {
                    Target::Rows(rows) => rows,
                    Target::Partition if self.updates_rows() => &whole_row,
                    Target::Partition | Target::Ranges(_) => &[],
                };
                for (key, original) in rows {
                    let cells = self.row_cells(stamp, eval)?;
                    let liveness = (self.kind == StatementKind::Insert
                        && self.table.shape == TableShape::Ordinary)
                        .then_some(Liveness {
                            timestamp_us: stamp.timestamp_us,
                            expiry: stamp.expiry,
                        });
                    if liveness.is_none() && cells.is_empty() {
                        continue;
                    }
                    changes.push(Change::Row(RowChange {
                        position: RowPosition::Clustered(key.clone()),
                        original_clustering: original.clone(),
                        liveness,
                        deletion: None,
                        cells,
                    }));
                }
            }
        }
        // Once for each row that is named, which counters and lists tell.
        let times = match target {
            Target::Rows(rows) => rows.len(),
            Target::Partition => 1,
            // A range names columns only where it is empty, and then nothing happens.
            Target::Ranges(_) => 0,
        };
        for _ in 0..times {
            self.static_changes(stamp, eval, &mut changes)?;
        }
        Ok(changes)
    }

    fn cells(
        &self,
        operations: &[Operation],
        stamp: WriteStamp,
        eval: &Evaluation<'_>,
    ) -> Result<Vec<CellChange>, PlanError> {
        let mut cells = Vec::with_capacity(operations.len());
        let mut writer = CellWriter { stamp, eval, out: &mut cells };
        for operation in operations {
            let before = writer.out.len();
            writer.apply(operation)?;
            if let Some(watch) = eval.context.watch {
                let written = writer.out.get(before..).unwrap_or_default();
                watch::tell(watch, &self.table, operation, written);
            }
        }
        check_cells(&self.table, &cells)?;
        Ok(cells)
    }

    /// The cells of a row. A compact table's row exists by its value, so it must have one.
    fn row_cells(
        &self,
        stamp: WriteStamp,
        eval: &Evaluation<'_>,
    ) -> Result<Vec<CellChange>, PlanError> {
        if self.table.shape != TableShape::CompactDense || !self.regulars.is_empty() {
            return self.cells(&self.regulars, stamp, eval);
        }
        match self.table.regulars().first() {
            Some(column) if column.cql_type == CqlType::Empty => Ok(vec![CellChange {
                column: column.id,
                timestamp_us: stamp.timestamp_us,
                action: CellAction::Set { path: None, value: Bytes::new(), expiry: stamp.expiry },
            }]),
            Some(column) => {
                invalid!("Column {} is mandatory for this COMPACT STORAGE table", column.name)
            }
            None => Ok(Vec::new()),
        }
    }

    fn static_changes(
        &self,
        stamp: WriteStamp,
        eval: &Evaluation<'_>,
        changes: &mut Vec<Change>,
    ) -> Result<(), PlanError> {
        if self.statics.is_empty() {
            return Ok(());
        }
        let cells = self.cells(&self.statics, stamp, eval)?;
        if !cells.is_empty() {
            changes.push(Change::Row(RowChange {
                position: RowPosition::Static,
                original_clustering: None,
                liveness: None,
                deletion: None,
                cells,
            }));
        }
        Ok(())
    }

    fn delete_changes(
        &self,
        target: &Target,
        stamp: WriteStamp,
        eval: &Evaluation<'_>,
        changes: &mut Vec<Change>,
    ) -> Result<(), PlanError> {
        let deletion = Deletion { timestamp_us: stamp.timestamp_us, deleted_at_s: stamp.now_s };
        let has_columns = !self.regulars.is_empty() || self.updates_statics();
        match target {
            Target::Ranges(ranges) => {
                let is_slice = !ranges.is_empty() || self.restrictions.has_idle_slice(eval)?;
                if has_columns && is_slice {
                    return invalid!("Range deletions are not supported for specific columns");
                }
                changes.extend(
                    ranges
                        .iter()
                        .map(|range| Change::DeleteRange { range: range.clone(), deletion }),
                );
            }
            Target::Partition if !has_columns => changes.push(Change::DeletePartition(deletion)),
            Target::Partition if self.regulars.is_empty() => {}
            Target::Partition if self.table.clustering_count > 0 => {
                return invalid!("Range deletions are not supported for specific columns");
            }
            Target::Partition => {
                changes.push(self.row_deletion(Bytes::new(), None, deletion, stamp, eval)?);
            }
            // Only the static row changes; its clustering columns were there for a condition.
            Target::Rows(_) if has_columns && self.regulars.is_empty() => {}
            Target::Rows(rows) => {
                for (key, original) in rows {
                    let (key, original) = (key.clone(), original.clone());
                    changes.push(self.row_deletion(key, original, deletion, stamp, eval)?);
                }
            }
        }
        Ok(())
    }

    fn row_deletion(
        &self,
        key: Bytes,
        original_clustering: Option<Bytes>,
        deletion: Deletion,
        stamp: WriteStamp,
        eval: &Evaluation<'_>,
    ) -> Result<Change, PlanError> {
        Ok(Change::Row(RowChange {
            position: RowPosition::Clustered(key),
            original_clustering,
            liveness: None,
            deletion: self.regulars.is_empty().then_some(deletion),
            cells: self.cells(&self.regulars, stamp, eval)?,
        }))
    }
}

fn where_clause(
    kind: StatementKind,
    relations: &[ast::Relation],
    operations: &[Operation],
    condition: &PreparedCondition,
    scope: &Scope<'_>,
) -> Result<Restrictions, PlanError> {
    if relations.iter().any(|relation| matches!(relation, ast::Relation::IndexExpression { .. })) {
        return invalid!(
            "Custom index expressions cannot be used in WHERE clauses for UPDATE or DELETE \
             statements"
        );
    }
    let demands = Demands {
        kind,
        only_statics: only_statics(kind, operations, condition, &scope.table),
        allow_filtering: false,
        orderings: &[],
    };
    Restrictions::prepare(relations, &demands, scope)
}

fn check_conditional_delete(
    operations: &[Operation],
    condition: &PreparedCondition,
    restrictions: &Restrictions,
    table: &Table,
) -> Result<(), PlanError> {
    if condition.is_none() || restrictions.has_full_primary_key() {
        return Ok(());
    }
    const MUST: &str = "DELETE statements must restrict all PRIMARY KEY columns with equality \
        relations";
    if table.is_virtual {
        return invalid!("{MUST}");
    }
    let changes_regulars =
        operations.is_empty() || operations.iter().any(|operation| !is_static(table, operation));
    if changes_regulars {
        return invalid!("{MUST} in order to delete non static columns");
    }
    if condition.applies_to_regulars() {
        return invalid!("{MUST} in order to use IF condition on non static columns");
    }
    Ok(())
}
