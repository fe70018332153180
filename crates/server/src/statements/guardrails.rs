//! Guardrails: what a statement may ask for, told of and refused in Cassandra's words and in its order. Superusers are
//! not looked at, and neither is anybody where no guardrail is set.
//!
//! Cassandra looks at a statement when it is prepared and again when it is run ([`Guard::validate`]), and at its values
//! and at the schema only when it is run.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use cql::Statement as Ast;
use cql::ast::{ColumnDefinition, QualifiedName, RawType, TableChange, TypeChange};
use plan::modify::PreparedModification;
use plan::plan::PreparedKind;
use plan::{Keys, LogicalPartitions, ModifyPlan, Plan, SelectPlan, WriteWatch, Written};
use protocol::{Consistency, QueryParameters, Request};
use schema::{Schema, Table, is_system_keyspace};
use types::{Operation, RowPosition, RowSelection};

use super::cache::Statement;
use super::call::Call;
use super::engine::Inner;
use crate::config::{Guardrails, Levels, Threshold};
use crate::reply::Failure;
use crate::session::Client;

/// So many warnings come with an answer at most.
const WARNINGS_MAX: usize = 100;
/// Time, ttl and expiry of a cell, which Cassandra counts into the size of a collection.
const CELL_BYTES: u64 = 20;

/// The guardrails of one call.
pub(super) struct Guard<'g> {
    rails: &'g Guardrails,
    counts: &'g GuardCounts,
    /// What was found while values were bound.
    written: RefCell<(Told, Option<Refused>)>,
    /// Warnings of the call, which is counted once although it may run more often.
    warnings: Cell<u64>,
}

/// What came of guardrails since the start.
#[derive(Default)]
pub(super) struct GuardCounts {
    pub(super) warnings: AtomicU64,
    pub(super) refusals: AtomicU64,
}

/// What a client is told, in order.
#[derive(Default)]
struct Told {
    warnings: Vec<String>,
}

/// Why a statement is refused.
#[derive(Clone)]
struct Refused(String);

impl Inner {
    /// The guardrails that a client must respect.
    #[inline]
    pub(super) fn guard_of(&self, client: &Client) -> Option<Guard<'_>> {
        self.guardrails.as_deref().and_then(|rails| self.guard_by(rails, client))
    }

    #[cold]
    fn guard_by<'g>(&'g self, rails: &'g Guardrails, client: &Client) -> Option<Guard<'g>> {
        let is_exempt = client.role.as_ref().is_some_and(|role| self.roles.is_superuser(role));
        let counts = &self.guarded;
        (!is_exempt).then(|| Guard {
            rails,
            counts,
            written: RefCell::default(),
            warnings: Cell::new(0),
        })
    }

    /// What a client is told that prepares a statement.
    pub(super) fn guard_prepared(
        &self,
        client: &Client,
        statement: &Statement,
        schema: &Schema,
    ) -> Result<Vec<String>, Failure> {
        let Some(guard) = self.guard_of(client) else { return Ok(Vec::new()) };
        let mut told = Told::default();
        let outcome = guard.validate(&mut told, &statement.plan.kind, false, schema);
        let warnings = guard.finish(told, outcome)?;
        guard.count_warnings();
        Ok(warnings)
    }
}

impl Told {
    fn warn(&mut self, name: &str, text: &str) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(format!("Guardrail {name} violated: {text}"));
        }
    }

    fn refuse(&mut self, name: &str, text: &str) -> Result<(), Refused> {
        self.warnings.truncate(WARNINGS_MAX - 1);
        self.warn(name, text);
        Err(Refused(format!("Guardrail {name} violated: {text}")))
    }

    /// Tells of a number, or refuses it. `text` is given whether it is a warning, and the threshold.
    fn number(
        &mut self,
        name: &str,
        threshold: Threshold,
        number: u64,
        text: impl FnOnce(bool, u64) -> String,
    ) -> Result<(), Refused> {
        let Threshold { warn, fail } = threshold;
        if fail > 0 && number > fail {
            return self.refuse(name, &text(false, fail));
        }
        if warn > 0 && number > warn {
            self.warn(name, &text(true, warn));
        }
        Ok(())
    }

    /// Refuses what is not enabled.
    fn enabled(&mut self, name: &str, is_enabled: bool, what: &str) -> Result<(), Refused> {
        if is_enabled { Ok(()) } else { self.refuse(name, &format!("{what} is not allowed")) }
    }

    fn levels(&mut self, of: &str, levels: &Levels, used: &[Consistency]) -> Result<(), Refused> {
        let name = format!("{of}_consistency_levels");
        let among = |list: &[Consistency]| -> Option<String> {
            let met: Vec<Consistency> =
                list.iter().copied().filter(|level| used.contains(level)).collect();
            (!met.is_empty()).then(|| names(&met))
        };
        if let Some(met) = among(&levels.disallowed) {
            let all = names(&levels.disallowed);
            let text = format!(
                "Provided values {met} are not allowed for {of} consistency levels (disallowed values are: {all})"
            );
            return self.refuse(&name, &text);
        }
        if let Some(met) = among(&levels.warned) {
            let all = names(&levels.warned);
            let text = format!(
                "Provided values {met} are not recommended for {of} consistency levels (warned values are: {all})"
            );
            self.warn(&name, &text);
        }
        Ok(())
    }
}

/// As Java prints a set.
fn names(levels: &[Consistency]) -> String {
    let names: Vec<String> = levels.iter().map(ToString::to_string).collect();
    format!("[{}]", names.join(", "))
}

fn kind_of(is_warning: bool) -> &'static str {
    if is_warning { "warning" } else { "failure" }
}

impl<'g> Guard<'g> {
    /// Who is told what is written.
    pub(super) fn watch<'w>(guard: &'w Guard<'g>) -> &'w dyn WriteWatch {
        guard
    }

    /// Looks at a plan. What its client is told goes with it; for those that bring no warnings of their own it comes back.
    pub(super) fn check(
        &self,
        call: &Call<'_>,
        plan: &mut Plan<'_>,
        schema: &Schema,
    ) -> Result<Vec<String>, Failure> {
        if let Plan::Explain(_) = plan {
            return Ok(Vec::new());
        }
        let mut told = Told::default();
        let outcome = self.check_all(&mut told, call, plan, schema);
        let warnings = self.finish(told, outcome)?;
        let kept = match plan {
            Plan::Select(select) => &mut select.warnings,
            Plan::Modify(modify) => &mut modify.warnings,
            Plan::Batch(batch) => &mut batch.warnings,
            Plan::Schema(_)
            | Plan::Use(_)
            | Plan::Truncate(_)
            | Plan::Roles(_)
            | Plan::Describe(_)
            | Plan::Explain(_) => return Ok(warnings),
        };
        kept.splice(0..0, warnings);
        Ok(Vec::new())
    }

    fn finish(
        &self,
        Told { warnings }: Told,
        outcome: Result<(), Refused>,
    ) -> Result<Vec<String>, Failure> {
        match outcome {
            Ok(()) => {
                self.warnings.set(warnings.len() as u64);
                Ok(warnings)
            }
            Err(Refused(text)) => {
                self.counts.refusals.fetch_add(1, Ordering::Relaxed);
                Err(Failure::Guardrail { text, warnings })
            }
        }
    }

    /// Counts the warnings of a call that was run.
    pub(super) fn count_warnings(&self) {
        self.counts.warnings.fetch_add(self.warnings.take(), Ordering::Relaxed);
    }

    fn check_all(
        &self,
        told: &mut Told,
        call: &Call<'_>,
        plan: &Plan<'_>,
        schema: &Schema,
    ) -> Result<(), Refused> {
        let is_executed = matches!(call.message.request, Request::Execute { .. });
        for statement in call.statements {
            self.validate(told, &statement.plan.kind, is_executed, schema)?;
        }
        let parameters = call.parameters();
        match plan {
            Plan::Select(select) => {
                let used: Vec<Consistency> =
                    parameters.iter().map(|parameters| parameters.consistency).collect();
                // No level of a read at all.
                if used != [Consistency::Any] {
                    told.levels("read", &self.rails.read_consistency_levels, &used)?;
                }
                self.check_select(told, select)
            }
            Plan::Modify(modify) => {
                self.check_written(told, parameters)?;
                self.check_keys(told, modify)
            }
            Plan::Batch(_) => self.check_written(told, parameters),
            Plan::Schema(statement) => self.check_definition(told, statement, call, schema),
            Plan::Use(_)
            | Plan::Truncate(_)
            | Plan::Roles(_)
            | Plan::Describe(_)
            | Plan::Explain(_) => Ok(()),
        }
    }

    /// What can be said of a statement without its values.
    fn validate(
        &self,
        told: &mut Told,
        kind: &PreparedKind,
        is_executed: bool,
        schema: &Schema,
    ) -> Result<(), Refused> {
        let rails = self.rails;
        let stamped = |told: &mut Told, statement: &PreparedModification| {
            let is_enabled = rails.user_timestamps_enabled || !statement.has_timestamp();
            told.enabled(
                "user_timestamps",
                is_enabled,
                "User provided timestamps (USING TIMESTAMP)",
            )
        };
        match kind {
            PreparedKind::Select(select) => {
                // Once it is prepared, by whomever, it may be run.
                let groups = select.grouping.is_some() && !is_executed;
                let is_enabled = rails.group_by_enabled || !groups;
                told.enabled("group_by", is_enabled, "GROUP BY functionality")?;
                if select.allows_filtering
                    && !rails.allow_filtering_enabled
                    && !is_system_keyspace(&select.table.keyspace)
                {
                    let text = "Querying with ALLOW FILTERING is not allowed. ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.";
                    return told.refuse("allow_filtering", text);
                }
                Ok(())
            }
            PreparedKind::Modify(statement) => stamped(told, statement),
            PreparedKind::Batch(batch) => {
                batch.statements().iter().try_for_each(|statement| stamped(told, statement))
            }
            PreparedKind::Truncate(_) => self.drops_table(told),
            PreparedKind::Other(statement) => self.validate_definition(told, statement, schema),
            PreparedKind::Explain(_) => Ok(()),
        }
    }

    fn validate_definition(
        &self,
        told: &mut Told,
        statement: &Ast,
        schema: &Schema,
    ) -> Result<(), Refused> {
        let rails = self.rails;
        match statement {
            Ast::CreateKeyspace(create) => {
                let (name, count) = (&create.name, user_keyspaces(schema).count() as u64 + 1);
                told.number("keyspaces", rails.keyspaces, count, |is_warning, threshold| {
                    match is_warning {
                        true => format!("Creating keyspace {name}, current number of keyspaces {count} exceeds warning threshold of {threshold}."),
                        false => format!("Cannot have more than {threshold} keyspaces, aborting the creation of keyspace {name}"),
                    }
                })
            }
            Ast::CreateTable(create) => {
                let name = &create.name.name;
                self.columns(told, name, create.columns.len())?;
                let tables: usize = user_keyspaces(schema).map(|it| it.tables.len()).sum();
                let count = tables as u64 + 1;
                told.number("tables", rails.tables, count, |is_warning, threshold| {
                    match is_warning {
                        true => format!("Creating table {name}, current number of tables {count} exceeds warning threshold of {threshold}."),
                        false => format!("Cannot have more than {threshold} tables, aborting the creation of table {name}"),
                    }
                })?;
                self.vectors(told, &create.columns)
            }
            Ast::CreateType(create) => {
                self.fields(told, &create.name.name, create.fields.len())?;
                create.fields.iter().try_for_each(|(name, it)| self.vector(told, "Field", name, it))
            }
            _ => Ok(()),
        }
    }

    /// What Cassandra looks at when a definition is applied.
    fn check_definition(
        &self,
        told: &mut Told,
        statement: &Ast,
        call: &Call<'_>,
        schema: &Schema,
    ) -> Result<(), Refused> {
        let rails = self.rails;
        let keyspace = |name: &QualifiedName| {
            let named = name.keyspace.as_deref().or(call.keyspace());
            named.and_then(|keyspace| schema.keyspace(keyspace))
        };
        let table = |name: &QualifiedName| keyspace(name)?.tables.get(&*name.name);
        match statement {
            Ast::DropTable(_) => self.drops_table(told),
            Ast::DropKeyspace(_) => told.enabled(
                "drop_keyspace_enabled",
                rails.drop_keyspace_enabled,
                "DROP KEYSPACE functionality",
            ),
            Ast::AlterTable(alter) => {
                let changes_columns = match alter.change {
                    TableChange::Add { .. }
                    | TableChange::Drop { .. }
                    | TableChange::Rename { .. }
                    | TableChange::AlterType { .. } => true,
                    TableChange::Mask { .. } | TableChange::Properties(_) => false,
                    TableChange::DropCompactStorage => false,
                };
                let is_enabled = rails.alter_table_enabled || !changes_columns;
                told.enabled("alter_table", is_enabled, "ALTER TABLE changing columns")?;
                match (&alter.change, table(&alter.name)) {
                    (TableChange::Add { columns, .. }, Some(table)) => {
                        self.added(told, table, columns)
                    }
                    _ => Ok(()),
                }
            }
            Ast::AlterType(alter) => {
                let TypeChange::Add { field, field_type, .. } = &alter.change else {
                    return Ok(());
                };
                let found = keyspace(&alter.name).and_then(|it| it.types.get(&*alter.name.name));
                let Some(found) = found else { return Ok(()) };
                if found.fields.iter().any(|(name, _)| **name == **field) {
                    return Ok(());
                }
                self.fields(told, &alter.name.name, found.fields.len() + 1)?;
                self.vector(told, "Field", field, field_type)
            }
            Ast::CreateIndex(create) => {
                let is_enabled = rails.secondary_indexes_enabled;
                told.enabled("secondary_indexes", is_enabled, "Creating secondary indexes")?;
                let Some(table) = table(&create.table) else { return Ok(()) };
                let name = create.name.as_deref();
                if name.is_some_and(|name| table.indexes.contains_key(name)) {
                    return Ok(());
                }
                let named = name.map(|name| format!("{name} ")).unwrap_or_default();
                self.indexes(told, &format!("{named}on table {}", table.name), table.indexes.len())
            }
            _ => Ok(()),
        }
    }

    fn drops_table(&self, told: &mut Told) -> Result<(), Refused> {
        let is_enabled = self.rails.drop_truncate_table_enabled;
        let what = "DROP and TRUNCATE TABLE functionality";
        told.enabled("drop_truncate_table_enabled", is_enabled, what)
    }

    fn added(
        &self,
        told: &mut Told,
        table: &Table,
        columns: &[ColumnDefinition],
    ) -> Result<(), Refused> {
        self.vectors(told, columns)?;
        let has = table.columns.iter().filter(|column| !column.is_hidden).count();
        let is_new = |column: &&ColumnDefinition| table.column(&column.name).is_none();
        self.columns(told, &table.name, has + columns.iter().filter(is_new).count())
    }

    fn columns(&self, told: &mut Told, name: &str, count: usize) -> Result<(), Refused> {
        let threshold = self.rails.columns_per_table;
        told.number("columns_per_table", threshold, count as u64, |is_warning, threshold| {
            match is_warning {
                true => format!("The table {name} has {count} columns, this exceeds the warning threshold of {threshold}."),
                false => format!("Tables cannot have more than {threshold} columns, but {count} provided for table {name}"),
            }
        })
    }

    fn fields(&self, told: &mut Told, name: &str, count: usize) -> Result<(), Refused> {
        let threshold = self.rails.fields_per_udt;
        told.number("fields_per_udt", threshold, count as u64, |is_warning, threshold| {
            match is_warning {
                true => format!("The user type {name} has {count} columns, this exceeds the warning threshold of {threshold}."),
                false => format!("User types cannot have more than {threshold} columns, but {count} provided for user type {name}."),
            }
        })
    }

    fn indexes(&self, told: &mut Told, what: &str, before: usize) -> Result<(), Refused> {
        let (threshold, count) = (self.rails.secondary_indexes_per_table, before as u64 + 1);
        told.number("secondary_indexes_per_table", threshold, count, |is_warning, threshold| {
            match is_warning {
                true => format!("Creating secondary index {what}, current number of indexes {count} exceeds warning threshold of {threshold}."),
                false => format!("Tables cannot have more than {threshold} secondary indexes, aborting the creation of secondary index {what}"),
            }
        })
    }

    fn vectors(&self, told: &mut Told, columns: &[ColumnDefinition]) -> Result<(), Refused> {
        columns
            .iter()
            .try_for_each(|column| self.vector(told, "Column", &column.name, &column.column_type))
    }

    fn vector(
        &self,
        told: &mut Told,
        what: &str,
        name: &str,
        raw: &RawType,
    ) -> Result<(), Refused> {
        let mut each = |inner: &RawType| self.vector(told, what, name, inner);
        let dimension = match raw {
            RawType::Vector { dimension, .. } => *dimension,
            RawType::Frozen(inner) | RawType::List(inner) | RawType::Set(inner) => {
                return each(inner);
            }
            RawType::Map(key, value) => return each(key).and_then(|()| each(value)),
            RawType::Tuple(fields) => return fields.iter().try_for_each(each),
            RawType::Native(_) | RawType::User(_) | RawType::Custom(_) => return Ok(()),
        };
        let count = u64::try_from(dimension).unwrap_or_default();
        let threshold = self.rails.vector_dimensions;
        told.number("vector_dimensions", threshold, count, |is_warning, threshold| {
            let kind = kind_of(is_warning);
            format!("{what} {name} has a vector of {count} dimensions, this exceeds the {kind} threshold of {threshold}.")
        })
    }

    fn check_select(&self, told: &mut Told, select: &SelectPlan<'_>) -> Result<(), Refused> {
        let table = &select.table.name;
        if let LogicalPartitions::Keys(keys) = &select.partitions {
            let count = keys.len() as u64;
            self.product(told, "partition key", count)?;
            let threshold = self.rails.partition_keys_in_select;
            told.number("partition_keys_in_select", threshold, count, |is_warning, threshold| {
                match is_warning {
                    true => format!("Query with partition keys in IN clause on table {table}, with number of partition keys {count} exceeds warning threshold of {threshold}."),
                    false => format!("Aborting query with partition keys in IN clause on table {table}, number of partition keys {count} exceeds fail threshold of {threshold}."),
                }
            })?;
        }
        if let RowSelection::Points(keys) = &select.rows {
            self.product(told, "clustering key", keys.len() as u64)?;
        }
        let is_aggregated = select.grouping.is_some() || select.selection.is_aggregate();
        let Some(size) = select.page_size else { return Ok(()) };
        if !is_aggregated && select.limit.is_some_and(|limit| limit <= size) {
            return Ok(());
        }
        told.number("page_size", self.rails.page_size, u64::from(size), |is_warning, threshold| {
            match is_warning {
                true => format!("Query for table {table} with page size {size} exceeds warning threshold of {threshold}."),
                false => format!("Aborting query for table {table}, page size {size} exceeds fail threshold of {threshold}."),
            }
        })
    }

    /// The levels of a write, and what was found while its values were bound.
    fn check_written(
        &self,
        told: &mut Told,
        parameters: Option<&QueryParameters<'_>>,
    ) -> Result<(), Refused> {
        let used = parameters.map_or(Vec::new(), |parameters| {
            let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
            vec![parameters.consistency, serial]
        });
        told.levels("write", &self.rails.write_consistency_levels, &used)?;
        let (found, refused) = self.written.take();
        told.warnings.extend(found.warnings);
        told.warnings.truncate(WARNINGS_MAX);
        refused.map_or(Ok(()), Err)
    }

    /// How many keys a statement names.
    fn check_keys(&self, told: &mut Told, modify: &ModifyPlan<'_>) -> Result<(), Refused> {
        self.product(told, "partition key", modify.mutations.len() as u64)?;
        let is_row = |operation: &&Operation| matches!(operation, Operation::Row(row) if matches!(row.position, RowPosition::Clustered(_)));
        let rows = modify
            .mutations
            .first()
            .map_or(0, |mutation| mutation.operations.iter().filter(is_row).count());
        self.product(told, "clustering key", rows as u64)
    }

    fn product(&self, told: &mut Told, what: &str, count: u64) -> Result<(), Refused> {
        let threshold = self.rails.in_select_cartesian_product;
        if count <= 1 {
            return Ok(());
        }
        told.number("in_select_cartesian_product", threshold, count, |is_warning, threshold| {
            match is_warning {
                true => format!("The cartesian product of the IN restrictions on {what} produces {count} values, this exceeds warning threshold of {threshold}."),
                false => format!("Aborting query because the cartesian product of the IN restrictions on {what} produces {count} values, this exceeds fail threshold of {threshold}."),
            }
        })
    }

    fn values(&self, told: &mut Told, written: &Written<'_>) -> Result<(), Refused> {
        let (rails, column) = (self.rails, written.column);
        if let Some(items) = written.items {
            let threshold = rails.items_per_collection;
            told.number("items_per_collection", threshold, items as u64, |is_warning, threshold| {
                let kind = kind_of(is_warning);
                format!("Detected collection {column} with {items} items, this exceeds the {kind} threshold of {threshold}.")
            })?;
        }
        let mut bytes: u64 = 0;
        for (named, value) in written.sizes {
            bytes = bytes.saturating_add(CELL_BYTES + *named as u64 + *value as u64);
            for size in [*named, *value] {
                let threshold = rails.column_value_size;
                told.number("column_value_size", threshold, size as u64, |is_warning, threshold| {
                    let kind = kind_of(is_warning);
                    format!("Value of column '{column}' has size {size}, this exceeds the {kind} threshold of {threshold}.")
                })?;
            }
        }
        if written.items.is_none() {
            return Ok(());
        }
        told.number("collection_size", rails.collection_size, bytes, |is_warning, threshold| {
            let kind = kind_of(is_warning);
            format!("Detected collection {column} of size {bytes}, this exceeds the {kind} threshold of {threshold}.")
        })
    }
}

impl WriteWatch for Guard<'_> {
    fn on_written(&self, written: &Written<'_>) {
        let (told, refused) = &mut *self.written.borrow_mut();
        // The first that is refused is what is told.
        if refused.is_none() {
            *refused = self.values(told, written).err();
        }
    }

    fn on_keys(&self, keys: Keys) {
        let (told, refused) = &mut *self.written.borrow_mut();
        let (what, count) = match keys {
            Keys::Partitions(count) => ("partition key", count),
            Keys::Rows(count) => ("clustering key", count),
        };
        if refused.is_none() {
            *refused = self.product(told, what, count as u64).err();
        }
    }
}

/// Keyspaces that somebody made.
fn user_keyspaces(schema: &Schema) -> impl Iterator<Item = &std::sync::Arc<schema::Keyspace>> {
    schema.keyspaces.values().filter(|keyspace| !is_system_keyspace(&keyspace.name))
}
