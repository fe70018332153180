//! From a parsed statement to a [`Prepared`] one, and from there to a [`Plan`].

use std::sync::Arc;

use cql::Parsed;
use cql::ast::{Batch, BatchKind, Modification, QualifiedName, Statement};
use md5::{Digest, Md5};
use schema::{Schema, Table};
use types::CqlType;

use crate::error::{PlanError, invalid};
use crate::expression::{BoundValues, Markers, Scope};
use crate::modify::{PreparedBatch, PreparedModification};
use crate::plan::{Access, Plan, Prepared, PreparedKind, ResultColumn};
use crate::select::PreparedSelect;
use crate::values::{BindContext, Values};

/// What a session brings to its statements.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionContext<'a> {
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
}

/// Checks a statement against a schema; `text` is what it was parsed from.
pub fn prepare(
    parsed: &Parsed,
    text: &str,
    schema: &Schema,
    session: &SessionContext<'_>,
) -> Result<Prepared, PlanError> {
    prepare_statement(&parsed.statement, parsed, text, schema, session)
}

fn prepare_statement(
    statement: &Statement,
    parsed: &Parsed,
    text: &str,
    schema: &Schema,
    session: &SessionContext<'_>,
) -> Result<Prepared, PlanError> {
    let markers = Markers::new(&parsed.markers);
    let table_of = |name: &QualifiedName| find_table(name, schema, session);
    let mut draft = match statement {
        Statement::Select(select) => {
            let table = table_of(&select.table)?;
            let scope = Scope::new(schema, &table, &markers);
            let prepared = PreparedSelect::prepare(select, &scope)?;
            let columns = Arc::clone(prepared.selection.columns());
            let kind = PreparedKind::Select(Box::new(prepared));
            Draft { kind, columns, ..Draft::of_table(&table, is_qualified(&select.table)) }
        }
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
            let (modification, is_qualified) =
                prepare_modification(statement, schema, session, &markers)?;
            let table = Arc::clone(&modification.table);
            let kind = PreparedKind::Modify(Box::new(modification));
            Draft { kind, ..Draft::of_table(&table, is_qualified) }
        }
        Statement::Batch(batch) => prepare_batch(batch, schema, session, &markers)?,
        Statement::Truncate(truncate) => {
            let table = schema::truncated_table(schema, truncate, session.keyspace)?;
            let kind = PreparedKind::Truncate(Arc::clone(&table));
            Draft { kind, ..Draft::of_table(&table, is_qualified(&truncate.table)) }
        }
        Statement::Explain(inner) => {
            let inner = prepare_statement(inner, parsed, text, schema, session)?;
            return Ok(explain(inner, text, session));
        }
        other => Draft::other(Arc::new(other.clone())),
    };
    let keyspace = if draft.is_qualified { None } else { session.keyspace };
    let (keyspace_name, table_name) = draft.names();
    let variables = markers.variables(&keyspace_name, &table_name);
    if let Some(table) = draft.table.take() {
        draft.partition_key_indices = markers.partition_key_indices(&table);
    }
    Ok(Prepared {
        id: statement_id(keyspace, text),
        result_metadata_id: metadata_id(&draft.columns),
        bind_variables: variables,
        partition_key_indices: draft.partition_key_indices,
        result_columns: draft.columns,
        keyspace: keyspace.map(Arc::from),
        tables: draft.tables,
        kind: draft.kind,
    })
}

/// A prepared statement without its markers.
struct Draft {
    kind: PreparedKind,
    columns: Arc<[ResultColumn]>,
    /// The one table whose key the markers may give.
    table: Option<Arc<Table>>,
    tables: Vec<types::TableId>,
    is_qualified: bool,
    partition_key_indices: Vec<u16>,
}

impl Draft {
    fn other(statement: Arc<Statement>) -> Draft {
        Draft {
            kind: PreparedKind::Other(statement),
            columns: Arc::new([]),
            table: None,
            tables: Vec::new(),
            is_qualified: false,
            partition_key_indices: Vec::new(),
        }
    }

    fn of_table(table: &Arc<Table>, is_qualified: bool) -> Draft {
        Draft {
            kind: PreparedKind::Truncate(Arc::clone(table)),
            columns: Arc::new([]),
            table: Some(Arc::clone(table)),
            tables: vec![table.id],
            is_qualified,
            partition_key_indices: Vec::new(),
        }
    }

    fn names(&self) -> (Arc<str>, Arc<str>) {
        match &self.table {
            Some(table) => (Arc::clone(&table.keyspace), Arc::clone(&table.name)),
            None => (Arc::from(""), Arc::from("")),
        }
    }
}

fn explain(inner: Prepared, text: &str, session: &SessionContext<'_>) -> Prepared {
    Prepared {
        id: statement_id(inner.keyspace.as_ref().and(session.keyspace), text),
        result_metadata_id: metadata_id(&[]),
        bind_variables: inner.bind_variables.clone(),
        partition_key_indices: inner.partition_key_indices.clone(),
        result_columns: Arc::new([]),
        keyspace: inner.keyspace.clone(),
        tables: inner.tables.clone(),
        kind: PreparedKind::Explain(Box::new(inner)),
    }
}

fn is_qualified(name: &QualifiedName) -> bool {
    name.keyspace.is_some()
}

/// The table of a name, with Cassandra's refusals.
fn find_table(
    name: &QualifiedName,
    schema: &Schema,
    session: &SessionContext<'_>,
) -> Result<Arc<Table>, PlanError> {
    let keyspace = match (&name.keyspace, session.keyspace) {
        (Some(keyspace), _) => keyspace.as_str(),
        (None, Some(keyspace)) => keyspace,
        (None, None) => {
            return invalid!(
                "No keyspace has been specified. USE a keyspace, or explicitly specify \
                 keyspace.tablename"
            );
        }
    };
    if schema.keyspace(keyspace).is_none() {
        return invalid!("keyspace {keyspace} does not exist");
    }
    match schema.table(keyspace, &name.name) {
        Some(table) => Ok(Arc::clone(table)),
        None if name.name.is_empty() => invalid!("non-empty table is required"),
        None => invalid!("table {} does not exist", name.name),
    }
}

fn prepare_modification(
    statement: &Statement,
    schema: &Schema,
    session: &SessionContext<'_>,
    markers: &Markers,
) -> Result<(PreparedModification, bool), PlanError> {
    let scope_of = |name: &QualifiedName| -> Result<Arc<Table>, PlanError> {
        find_table(name, schema, session)
    };
    match statement {
        Statement::Insert(insert) => {
            let scope = Scope::new(schema, &scope_of(&insert.table)?, markers);
            let prepared = PreparedModification::prepare_insert(insert, &scope)?;
            Ok((prepared, is_qualified(&insert.table)))
        }
        Statement::Update(update) => {
            let scope = Scope::new(schema, &scope_of(&update.table)?, markers);
            let prepared = PreparedModification::prepare_update(update, &scope)?;
            Ok((prepared, is_qualified(&update.table)))
        }
        Statement::Delete(delete) => {
            let scope = Scope::new(schema, &scope_of(&delete.table)?, markers);
            let prepared = PreparedModification::prepare_delete(delete, &scope)?;
            Ok((prepared, is_qualified(&delete.table)))
        }
        _ => invalid!(
            "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
        ),
    }
}

fn prepare_batch(
    batch: &Batch,
    schema: &Schema,
    session: &SessionContext<'_>,
    markers: &Markers,
) -> Result<Draft, PlanError> {
    let mut statements = Vec::with_capacity(batch.statements.len());
    let mut all_qualified = true;
    for modification in &batch.statements {
        let statement = match modification {
            Modification::Insert(insert) => Statement::Insert(insert.clone()),
            Modification::Update(update) => Statement::Update(update.clone()),
            Modification::Delete(delete) => Statement::Delete(delete.clone()),
        };
        let (prepared, is_qualified) = prepare_modification(&statement, schema, session, markers)?;
        all_qualified &= is_qualified;
        statements.push(prepared);
    }
    let first = statements.first().map(|statement| Arc::clone(&statement.table));
    let one_table = first
        .clone()
        .filter(|first| statements.iter().all(|statement| statement.table.id == first.id));
    let scope = first.as_ref().map(|table| Scope::of_batch(schema, table, markers));
    let prepared = PreparedBatch::new(batch.kind, statements, &batch.attributes, scope.as_ref())?;
    let tables = prepared.tables();
    Ok(Draft {
        kind: PreparedKind::Batch(Box::new(prepared)),
        columns: Arc::new([]),
        table: one_table,
        tables,
        is_qualified: all_qualified,
        partition_key_indices: Vec::new(),
    })
}

/// The MD5 of the text, with the keyspace before it where there is one.
fn statement_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let mut hash = Md5::new();
    hash.update(keyspace.unwrap_or_default());
    hash.update(text);
    hash.finalize().into()
}

/// Changes with every name and type of the result.
fn metadata_id(columns: &[ResultColumn]) -> [u8; 16] {
    let mut hash = Md5::new();
    for column in columns {
        hash.update(column.name.as_bytes());
        hash.update([0]);
        hash.update(column.cql_type.to_string());
        if column.cql_type.contains(&|part| matches!(part, CqlType::User { .. })) {
            // The name says nothing about the fields.
            hash.update(format!("{:?}", column.cql_type));
        }
        hash.update([0, 0]);
    }
    hash.finalize().into()
}

impl Prepared {
    /// The plan of one execution.
    pub fn bind<'a>(
        &'a self,
        values: &'a dyn Values,
        context: &'a BindContext<'a>,
    ) -> Result<Plan<'a>, PlanError> {
        let bound = BoundValues::new(values, &self.bind_variables)?;
        Ok(match &self.kind {
            PreparedKind::Select(select) => Plan::Select(Box::new(select.bind(bound, context)?)),
            PreparedKind::Modify(modification) => Plan::Modify(modification.bind(bound, context)?),
            PreparedKind::Batch(batch) => Plan::Batch(batch.bind(bound, context)?),
            PreparedKind::Truncate(table) => Plan::Truncate(table),
            PreparedKind::Explain(inner) => Plan::Explain(Box::new(inner.bind(values, context)?)),
            PreparedKind::Other(statement) => plan_other(statement),
        })
    }

    /// Whether it changes rows.
    pub fn is_modification(&self) -> bool {
        matches!(self.kind, PreparedKind::Modify(_) | PreparedKind::Batch(_))
    }

    /// How it comes to rows, if it does.
    pub fn access(&self) -> Option<Access> {
        match &self.kind {
            PreparedKind::Select(select) if select.is_scan() => Some(Access::Scan),
            PreparedKind::Select(_) => Some(Access::Read),
            PreparedKind::Modify(_) | PreparedKind::Batch(_) => Some(Access::Write),
            PreparedKind::Other(_) | PreparedKind::Truncate(_) | PreparedKind::Explain(_) => None,
        }
    }

    /// The kind of batch it is, where it is one.
    pub fn batch_kind(&self) -> Option<BatchKind> {
        match &self.kind {
            PreparedKind::Batch(batch) => Some(batch.kind),
            _ => None,
        }
    }
}

fn plan_other(statement: &Arc<Statement>) -> Plan<'_> {
    match statement.as_ref() {
        Statement::Use(keyspace) => Plan::Use(keyspace),
        Statement::Describe(_) => Plan::Describe(statement),
        Statement::CreateRole(_)
        | Statement::AlterRole(_)
        | Statement::DropRole(_)
        | Statement::ListRoles(_)
        | Statement::ListUsers
        | Statement::GrantRole(_)
        | Statement::RevokeRole(_)
        | Statement::GrantPermissions(_)
        | Statement::RevokePermissions(_)
        | Statement::ListPermissions(_)
        | Statement::AddIdentity(_)
        | Statement::DropIdentity(_) => Plan::Roles(statement),
        _ => Plan::Schema(statement),
    }
}
