//! BATCH, and the mutations of single statements.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cql::ast::BatchKind;
use types::value::validate;
use types::{
    Check, Condition, CqlType, Deletion, Mutation, Operation, PartitionKey, RowCondition,
    RowPosition, TableId,
};

use super::apply::WriteStamp;
use super::attributes::Attributes;
use super::condition::PreparedCondition;
use super::json::{JsonValues, parse_document};
use super::outcome::ConditionalResult;
use super::prepared::{PreparedModification, Target};
use super::size;
use crate::error::{PlanError, invalid};
use crate::expression::{BoundValues, Evaluation};
use crate::java_hash;
use crate::plan::{BatchPlan, ModifyPlan, Prepared, PreparedKind};
use crate::restriction::StatementKind;
use crate::values::{BindContext, Keys, Value, Values};

/// A BATCH, ready to be bound to values.
#[derive(Debug)]
pub struct PreparedBatch {
    /// LOGGED, UNLOGGED or COUNTER.
    pub kind: BatchKind,
    pub(crate) statements: Vec<PreparedModification>,
    attributes: Attributes,
}

/// One statement of a batch that came as a request of its own kind.
#[derive(Clone, Copy)]
pub struct BatchItem<'a> {
    /// The statement.
    pub prepared: &'a Prepared,
    /// Its values.
    pub values: &'a dyn Values,
}

impl PreparedBatch {
    pub(crate) fn new(
        kind: BatchKind,
        statements: Vec<PreparedModification>,
        attributes: &cql::ast::Attributes,
        scope: Option<&crate::expression::Scope<'_>>,
    ) -> Result<PreparedBatch, PlanError> {
        let attributes = match scope {
            Some(scope) => Attributes::prepare(attributes, scope)?,
            None => Attributes::default(),
        };
        if attributes.ttl.is_some() {
            return invalid!("Global TTL on the BATCH statement is not supported.");
        }
        let views: Vec<&PreparedModification> = statements.iter().collect();
        check_batch(kind, &views, attributes.timestamp.is_some())?;
        Ok(PreparedBatch { kind, statements, attributes })
    }

    /// Its statements, in order.
    pub fn statements(&self) -> &[PreparedModification] {
        &self.statements
    }

    /// The tables it writes to, each once.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self.statements.iter().map(|s| s.table.id).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// The plan of one execution.
    pub(crate) fn bind<'a>(
        &'a self,
        values: BoundValues<'a>,
        context: &'a BindContext<'a>,
    ) -> Result<BatchPlan, PlanError> {
        let eval = Evaluation { values, context };
        let default_us = self.attributes.timestamp_us(context.timestamp_us(), &eval)?;
        let items: Vec<(&PreparedModification, BoundValues<'a>)> =
            self.statements.iter().map(|statement| (statement, values)).collect();
        bind_items(self.kind, &items, default_us, context)
    }
}

/// The plan of a batch that came as a request of its own kind.
pub fn bind_batch<'a>(
    kind: BatchKind,
    items: &[BatchItem<'a>],
    context: &'a BindContext<'a>,
) -> Result<BatchPlan, PlanError> {
    let mut bound = Vec::with_capacity(items.len());
    for item in items {
        let PreparedKind::Modify(statement) = &item.prepared.kind else {
            return invalid!(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
            );
        };
        let values = BoundValues::new(item.values, &item.prepared.bind_variables)?;
        bound.push((statement.as_ref(), values));
    }
    let statements: Vec<&PreparedModification> =
        bound.iter().map(|(statement, _)| *statement).collect();
    check_batch(kind, &statements, false)?;
    bind_items(kind, &bound, context.timestamp_us(), context)
}

fn check_batch(
    kind: BatchKind,
    statements: &[&PreparedModification],
    has_timestamp: bool,
) -> Result<(), PlanError> {
    let has_conditions = statements.iter().any(|statement| statement.has_conditions());
    if has_timestamp && has_conditions {
        return invalid!("Cannot provide custom timestamp for conditional BATCH");
    }
    if has_timestamp && kind == BatchKind::Counter {
        return invalid!("Cannot provide custom timestamp for counter BATCH");
    }
    if has_timestamp && statements.iter().any(|statement| statement.has_timestamp()) {
        return invalid!("Timestamp must be set either on BATCH or individual statements");
    }
    let counters = statements.iter().filter(|statement| statement.table.is_counter).count();
    let virtuals = statements.iter().filter(|statement| statement.table.is_virtual).count();
    if has_timestamp && counters > 0 {
        return invalid!("Cannot provide custom timestamp for a BATCH containing counters");
    }
    if kind == BatchKind::Counter && counters < statements.len() {
        return invalid!("Cannot include non-counter statement in a counter batch");
    }
    if counters > 0 && counters < statements.len() {
        return invalid!("Counter and non-counter mutations cannot exist in the same batch");
    }
    if kind == BatchKind::Logged && counters > 0 {
        return invalid!("Cannot include a counter statement in a logged batch");
    }
    if kind == BatchKind::Logged && virtuals > 0 {
        return invalid!("Cannot include a virtual table statement in a logged batch");
    }
    if virtuals > 0 && virtuals < statements.len() {
        return invalid!("Mutations for virtual and regular tables cannot exist in the same batch");
    }
    if has_conditions && virtuals > 0 {
        return invalid!(
            "Conditional BATCH statements cannot include mutations for virtual tables"
        );
    }
    let mut tables = statements.iter().map(|statement| statement.table.id);
    let first = tables.next();
    if has_conditions && tables.any(|table| Some(table) != first) {
        return invalid!("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}

/// The values a statement is evaluated with: those of the request, or of its JSON document.
fn with_values<'v, T>(
    statement: &'v PreparedModification,
    eval: &Evaluation<'v>,
    run: impl FnOnce(&Evaluation<'_>) -> Result<T, PlanError>,
) -> Result<T, PlanError> {
    let Some((marker, default_unset)) = statement.json else { return run(eval) };
    let text = match eval.values.get(marker) {
        Value::Null => return invalid!("Got null for INSERT JSON values"),
        Value::Unset => return invalid!("Got unset value for INSERT JSON"),
        Value::Bytes(bytes) => {
            validate(&CqlType::Text, bytes)?;
            String::from_utf8_lossy(bytes)
        }
    };
    let columns = parse_document(&text, &statement.table)?;
    let json = JsonValues { columns, default_unset };
    run(&Evaluation { values: BoundValues::unnamed(&json), context: eval.context })
}

impl PreparedModification {
    /// The plan of one execution.
    pub(crate) fn bind<'a>(
        &'a self,
        values: BoundValues<'a>,
        context: &'a BindContext<'a>,
    ) -> Result<ModifyPlan<'a>, PlanError> {
        let eval = Evaluation { values, context };
        if self.has_conditions() {
            let plan = bind_conditional(&[(self, values)], false, context)?;
            return Ok(ModifyPlan {
                table: &self.table,
                mutations: vec![plan.0],
                conditional: Some(plan.1),
                is_counter: false,
                warnings: Vec::new(),
            });
        }
        let stamp = self.stamp(&eval, context, context.timestamp_us())?;
        let mutations = with_values(self, &eval, |eval| {
            let keys = self.restrictions.bind_keys(eval)?;
            let target = self.bind_target(eval)?;
            let mut mutations = Vec::with_capacity(keys.len());
            for key in keys {
                let operations = self.changes(&target, stamp, eval)?;
                if !operations.is_empty() {
                    mutations.push(Mutation {
                        table: self.table.id,
                        table_version: self.table.version,
                        key,
                        now_s: context.asked_now_s(),
                        condition: None,
                        operations,
                    });
                }
            }
            Ok(mutations)
        })?;
        Ok(ModifyPlan {
            table: &self.table,
            mutations,
            conditional: None,
            is_counter: self.table.is_counter,
            warnings: Vec::new(),
        })
    }
}

/// Room is made for so many changes of the first partition of a batch.
const ROOM_MAX: usize = 64;

fn bind_items<'a>(
    kind: BatchKind,
    items: &[(&'a PreparedModification, BoundValues<'a>)],
    default_us: i64,
    context: &'a BindContext<'a>,
) -> Result<BatchPlan, PlanError> {
    if items.iter().any(|(statement, _)| statement.has_conditions()) {
        let (mutation, conditional) = bind_conditional(items, true, context)?;
        return Ok(BatchPlan {
            kind,
            mutations: vec![mutation],
            conditional: Some(conditional),
            warnings: Vec::new(),
        });
    }
    tell_keys(items, context)?;
    let mut mutations: Vec<Mutation> = Vec::new();
    let mut places: HashMap<(TableId, PartitionKey), usize, foldhash::fast::FixedState> =
        HashMap::default();
    for (statement, values) in items {
        let eval = Evaluation { values: *values, context };
        let stamp = statement.stamp(&eval, context, default_us)?;
        with_values(statement, &eval, |eval| {
            let keys = statement.restrictions.bind_keys(eval)?;
            let target = statement.bind_target(eval)?;
            if let (Some(watch), Target::Rows(rows)) = (context.watch, &target) {
                watch.on_keys(Keys::Rows(rows.len()));
            }
            for key in keys {
                let operations = statement.changes(&target, stamp, eval)?;
                if operations.is_empty() {
                    continue;
                }
                let table = statement.table.id;
                // Mostly all statements are about one partition, or those about one follow each other.
                if let Some(last) = mutations.last_mut()
                    && last.table == table
                    && last.key == key
                {
                    last.operations.extend(operations);
                    continue;
                }
                let place = *places.entry((table, key.clone())).or_insert_with(|| {
                    let room = if mutations.is_empty() { items.len().min(ROOM_MAX) } else { 1 };
                    mutations.push(Mutation {
                        table,
                        table_version: statement.table.version,
                        key,
                        now_s: context.asked_now_s(),
                        condition: None,
                        operations: Vec::with_capacity(room),
                    });
                    mutations.len() - 1
                });
                if let Some(mutation) = mutations.get_mut(place) {
                    mutation.operations.extend(operations);
                }
            }
            Ok(())
        })?;
    }
    let warnings = size::check(kind, &mutations, items, context.batch_limits)?;
    Ok(BatchPlan { kind, mutations, conditional: None, warnings })
}

/// Tells how many logical partitions each statement names, before anything is said of what it writes.
fn tell_keys(
    items: &[(&PreparedModification, BoundValues<'_>)],
    context: &BindContext<'_>,
) -> Result<(), PlanError> {
    let Some(watch) = context.watch else { return Ok(()) };
    for (statement, values) in items {
        let eval = Evaluation { values: *values, context };
        let keys = with_values(statement, &eval, |eval| statement.restrictions.bind_keys(eval))?;
        watch.on_keys(Keys::Partitions(keys.len()));
    }
    Ok(())
}

/// What a conditional write asks of one row.
enum RowTests {
    NotExists,
    Exists,
    /// With the hashes by which Cassandra orders them.
    Columns(Vec<(i32, Check)>),
}

/// The rows that conditions look at.
#[derive(Default)]
struct Conditions {
    rows: BTreeMap<RowPosition, RowTests>,
    /// The columns that are shown; `None` for all, once a condition was about existence.
    columns: Option<Vec<usize>>,
    seen_columns: BTreeSet<usize>,
    /// The static columns that conditions name.
    static_columns: BTreeSet<usize>,
    shows_statics: bool,
}

impl Conditions {
    fn add_existence(&mut self, position: RowPosition, exists: bool) -> Result<(), PlanError> {
        match (self.rows.get(&position), exists) {
            (None, true) => self.rows.insert(position, RowTests::Exists),
            (None, false) => self.rows.insert(position, RowTests::NotExists),
            (Some(RowTests::Exists), true) | (Some(RowTests::NotExists), false) => None,
            (Some(RowTests::Exists | RowTests::NotExists), _) => {
                return invalid!(
                    "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
                );
            }
            (Some(RowTests::Columns(_)), _) => {
                let not = if exists { "" } else { "NOT " };
                return invalid!("Cannot mix IF conditions and IF {not}EXISTS for the same row");
            }
        };
        Ok(())
    }

    fn add_check(
        &mut self,
        position: RowPosition,
        hash: i32,
        check: Check,
    ) -> Result<(), PlanError> {
        match self.rows.entry(position).or_insert_with(|| RowTests::Columns(Vec::new())) {
            RowTests::Columns(checks) => checks.push((hash, check)),
            RowTests::Exists | RowTests::NotExists => {
                return invalid!("Cannot mix IF conditions and IF NOT EXISTS for the same row");
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        statement: &PreparedModification,
        target: &Target,
        eval: &Evaluation<'_>,
    ) -> Result<(), PlanError> {
        let position = statement.condition_position(target);
        if !statement.condition.is_none() {
            self.shows_statics |= statement.updates_statics();
        }
        match &statement.condition {
            PreparedCondition::None => return Ok(()),
            PreparedCondition::NotExists => self.add_existence(position, false)?,
            PreparedCondition::Exists => self.add_existence(position, true)?,
            PreparedCondition::Columns(tests) => {
                // Cassandra tells regular columns before static ones.
                let (statics, regulars): (Vec<_>, Vec<_>) =
                    tests.iter().partition(|test| test.is_static);
                for test in regulars.into_iter().chain(statics) {
                    let position =
                        if test.is_static { RowPosition::Static } else { position.clone() };
                    let (hash, check) = test.bind(eval)?;
                    self.add_check(position, hash, check)?;
                    if test.is_static {
                        self.static_columns.insert(test.column);
                    }
                    if let Some(columns) = &mut self.columns
                        && self.seen_columns.insert(test.column)
                    {
                        columns.push(test.column);
                    }
                }
                return Ok(());
            }
        }
        self.columns = None;
        Ok(())
    }

    fn finish(mut self) -> Condition {
        if self.shows_statics {
            // Looked at only to be shown.
            self.rows.entry(RowPosition::Static).or_insert_with(|| RowTests::Columns(Vec::new()));
        }
        let rows = self.rows.into_iter().map(|(position, tests)| RowCondition {
            position,
            checks: match tests {
                RowTests::NotExists => vec![Check::NotExists],
                RowTests::Exists => vec![Check::Exists],
                RowTests::Columns(checks) => in_order(checks),
            },
        });
        Condition { rows: rows.collect() }
    }
}

/// The checks in the order in which Cassandra comes to them: that of a hash table by column and
/// element.
fn in_order(mut checks: Vec<(i32, Check)>) -> Vec<Check> {
    let mut hashes: Vec<i32> = checks.iter().map(|(hash, _)| *hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let buckets = java_hash::bucket_count(hashes.len());
    checks.sort_by_key(|(hash, _)| java_hash::bucket(*hash, buckets));
    checks.into_iter().map(|(_, check)| check).collect()
}

/// The one key that a conditional statement names.
fn conditional_key(
    statement: &PreparedModification,
    eval: &Evaluation<'_>,
    is_batch: bool,
) -> Result<Option<PartitionKey>, PlanError> {
    let mut keys = statement.restrictions.bind_keys(eval)?;
    if !statement.restrictions.key_is_in() {
        return Ok(keys.pop());
    }
    if is_batch {
        return invalid!(
            "Batch with conditions cannot span multiple partitions (you cannot use IN on the \
             partition key)"
        );
    }
    let words = kind_words(statement);
    invalid!("IN on the partition key is not supported with conditional {words}")
}

fn kind_words(statement: &PreparedModification) -> &'static str {
    if statement.kind == StatementKind::Update { "updates" } else { "deletions" }
}

/// Conditional statements: all on one logical partition, in one mutation.
fn bind_conditional<'a>(
    items: &[(&'a PreparedModification, BoundValues<'a>)],
    is_batch: bool,
    context: &'a BindContext<'a>,
) -> Result<(Mutation, ConditionalResult), PlanError> {
    let now_s = u32::try_from(context.now_seconds()).unwrap_or(0);
    let mut conditions = Conditions { columns: Some(Vec::new()), ..Conditions::default() };
    let mut bound: Option<(&'a Arc<schema::Table>, PartitionKey)> = None;
    let mut operations = Vec::new();
    let (mut reads_statics, mut reads_regulars) = (false, false);
    // What is wrong with a condition, or with what it guards, is told after what is wrong with the
    // batch.
    let (mut refusal, mut later_refusal) = (None, None);
    for (statement, values) in items {
        let eval = Evaluation { values: *values, context };
        // The order of conditional writes is the server's, whatever time the client sent or a
        // statement without a condition beside them says.
        let stamp = WriteStamp {
            timestamp_us: context.now_us,
            ..statement.stamp(&eval, context, context.now_us)?
        };
        with_values(statement, &eval, |eval| {
            let Some(key) = conditional_key(statement, eval, is_batch)? else { return Ok(()) };
            match &bound {
                Some((_, known)) if *known != key => {
                    return invalid!("Batch with conditions cannot span multiple partitions");
                }
                Some(_) => {}
                None => bound = Some((&statement.table, key)),
            }
            if statement.restrictions.clustering_has_in() {
                let words = kind_words(statement);
                return invalid!(
                    "IN on the clustering key columns is not supported with conditional {words}"
                );
            }
            let target = statement.bind_target(eval)?;
            if let Err(error) = conditions.add(statement, &target, eval) {
                refusal.get_or_insert(error);
            }
            // Of the statements without a condition Cassandra asks for rows only.
            reads_statics |= statement.has_conditions() && statement.updates_statics();
            reads_regulars |= statement.updates_rows();
            match statement.changes(&target, stamp, eval) {
                Ok(changes) => operations.extend(changes.into_iter().map(beneath)),
                Err(error) => {
                    later_refusal.get_or_insert(error);
                }
            }
            Ok(())
        })?;
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let Some((table, key)) = bound else {
        return invalid!("Batch with conditions cannot span multiple partitions");
    };
    let columns = conditions.columns.take().map(|columns| {
        if !is_batch {
            return columns;
        }
        // Several rows are told apart by their key.
        let key_columns = 0..table.partition_key_count + table.clustering_count;
        key_columns.chain(columns).collect()
    });
    let static_columns = std::mem::take(&mut conditions.static_columns);
    let mut condition = conditions.finish();
    // What is wrong with what would be written is told only where it would be written.
    match (later_refusal, condition.rows.last_mut()) {
        (None, _) => {}
        (Some(PlanError::Invalid(reason)), Some(row)) => {
            row.checks.push(Check::Refused(reason.into()))
        }
        (Some(refusal), _) => return Err(refusal),
    }
    let wants_first_row = condition.rows.iter().all(|row| row.position == RowPosition::Static);
    let condition = Some(Box::new(condition));
    let mutation = Mutation {
        table: table.id,
        table_version: table.version,
        key: key.clone(),
        now_s: context.asked_now_s(),
        condition,
        operations,
    };
    let reads = (reads_statics, reads_regulars);
    let table = Arc::clone(table);
    Ok((
        mutation,
        ConditionalResult { table, key, columns, static_columns, wants_first_row, reads, now_s },
    ))
}

/// Conditional deletions of ranges and whole partitions lie beneath what the same write sets.
fn beneath(operation: Operation) -> Operation {
    let older = |deletion: Deletion| Deletion {
        timestamp_us: deletion.timestamp_us.saturating_sub(1),
        ..deletion
    };
    match operation {
        Operation::DeletePartition(deletion) => Operation::DeletePartition(older(deletion)),
        Operation::DeleteRange { range, deletion } => {
            Operation::DeleteRange { range, deletion: older(deletion) }
        }
        row @ Operation::Row(_) => row,
    }
}
