//! Definitions as `Schema → Schema`: a statement is checked against the schema and gives the next
//! one, or says in Cassandra's words why not. The checks come in Cassandra's order, because a
//! statement with two faults is answered with the first.
//!
//! Reading order: this file, `access` (who may touch what), `resolve` (types), `properties` and
//! the options, then one file per statement.

mod access;
mod alter_table;
mod compaction;
mod compression;
mod create_table;
mod index;
mod keyspace;
mod mask;
mod options;
mod properties;
mod provision;
mod replication;
mod resolve;
mod retry_policy;
mod truncate;
mod user_type;

use std::sync::Arc;

use cql::Statement;
use cql::ast::{FunctionName, QualifiedName, RawType};
use types::TableId;

use crate::error::{SchemaError, invalid};
use crate::model::{Keyspace, Schema, Table};

pub(crate) use access::is_local_system_keyspace;
pub use access::{is_system_keyspace, is_virtual_keyspace};
pub(crate) use create_table::{in_definition_order, system_table};
pub use provision::{ProvisionRules, SpacePast, provision};
pub use resolve::resolve_type;
pub use truncate::truncated_table;

/// What a definition needs from the world.
pub struct DdlContext<'a> {
    /// The keyspace of `USE`.
    pub session_keyspace: Option<&'a str>,
    /// The time of the request, microseconds since the epoch.
    pub now_us: i64,
    /// A source of fresh time-based uuids, for the ids of new tables and indexes.
    pub fresh_id: &'a mut dyn FnMut() -> u128,
    /// The name of this data center: the only one that `NetworkTopologyStrategy` may name.
    pub data_center: &'a str,
    /// How many nodes there are; a replication factor above it earns a warning.
    pub node_count: u32,
    /// Whose habits to follow.
    pub profile: Profile,
    /// Whether columns may be masked.
    pub masking_enabled: bool,
}

/// Whose habits to follow where the two originals differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Apache Cassandra.
    Default,
    /// Azure Cosmos DB: a keyspace needs no replication, and any data center may be named.
    Cosmos,
}

/// What a definition did.
#[derive(Clone, Debug)]
pub struct SchemaChange {
    /// The schema from now on.
    pub schema: Schema,
    /// What those who registered hear.
    pub event: SchemaEvent,
    /// For the client.
    pub warnings: Vec<String>,
    /// Tables that are new.
    pub created: Vec<TableId>,
    /// Tables that are gone with their data.
    pub dropped: Vec<TableId>,
    /// Tables whose definition is another.
    pub altered: Vec<TableId>,
    /// Indexes that must be built: the table's id, then the index's.
    pub created_indexes: Vec<(TableId, TableId)>,
    /// Indexes that are gone, except those of dropped tables: the table's id, then the index's.
    pub dropped_indexes: Vec<(TableId, TableId)>,
}

/// A change of the schema as the protocol announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaEvent {
    /// What happened.
    pub kind: ChangeKind,
    /// To what.
    pub target: ChangeTarget,
    pub keyspace: Arc<str>,
    /// The name of the table or type; empty for a keyspace.
    pub name: Arc<str>,
}

/// What happened to a part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It is another.
    Updated,
    /// It is gone.
    Dropped,
}

impl ChangeKind {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Dropped => "DROPPED",
        }
    }
}

/// What a change happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTarget {
    Keyspace,
    Table,
    /// A user type.
    Type,
}

impl ChangeTarget {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeTarget::Keyspace => "KEYSPACE",
            ChangeTarget::Table => "TABLE",
            ChangeTarget::Type => "TYPE",
        }
    }
}

/// Applies a definition. `None` when there was nothing to do: `IF [NOT] EXISTS` held, or the
/// definition stands already.
pub fn apply(
    schema: &Schema,
    statement: &Statement,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let change = change_of(schema, statement, context)?;
    Ok(change.map(|change| change.with_table_versions(schema)))
}

fn change_of(
    schema: &Schema,
    statement: &Statement,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    match statement {
        Statement::CreateKeyspace(create) => keyspace::create(schema, create, context),
        Statement::AlterKeyspace(alter) => keyspace::alter(schema, alter, context),
        Statement::DropKeyspace(drop) => keyspace::drop(schema, drop),
        Statement::CreateTable(create) => create_table::create(schema, create, context),
        Statement::AlterTable(alter) => alter_table::alter(schema, alter, context),
        Statement::DropTable(drop) => alter_table::drop_table(schema, drop, context),
        Statement::CreateType(create) => user_type::create(schema, create, context),
        Statement::AlterType(alter) => user_type::alter(schema, alter, context),
        Statement::DropType(drop) => user_type::drop(schema, drop, context),
        Statement::CreateIndex(create) => index::create(schema, create, context),
        Statement::DropIndex(drop) => index::drop(schema, drop, context),
        Statement::CreateView(_) | Statement::AlterView(_) => {
            Err(not_supported("Materialized views"))
        }
        Statement::DropView(drop) => {
            missing(&drop.name, drop.if_exists, "Materialized view", context)
        }
        Statement::CreateFunction(_) => Err(not_supported("User-defined functions")),
        Statement::DropFunction(drop) if drop.if_exists => Ok(None),
        Statement::DropFunction(drop) => {
            Err(missing_function("Function", &drop.name, drop.argument_types.as_deref(), context))
        }
        Statement::CreateAggregate(_) => Err(not_supported("User-defined aggregates")),
        Statement::DropAggregate(drop) if drop.if_exists => Ok(None),
        Statement::DropAggregate(drop) => {
            Err(missing_function("Aggregate", &drop.name, drop.argument_types.as_deref(), context))
        }
        Statement::CreateTrigger(_) => Err(not_supported("Triggers")),
        Statement::DropTrigger(drop) if drop.if_exists => Ok(None),
        Statement::DropTrigger(drop) => {
            let keyspace = context.keyspace_of(&drop.table)?;
            let (trigger, table) = (&drop.name, &drop.table.name);
            Err(invalid!("Trigger '{trigger}' on '{keyspace}.{table}' doesn't exist"))
        }
        _ => Err(invalid!("not a definition of the schema")),
    }
}

fn not_supported(what: &str) -> SchemaError {
    invalid!("{what} are not supported by Helenus")
}

/// A drop of something that can never be there.
fn missing(
    name: &QualifiedName,
    if_exists: bool,
    what: &str,
    context: &DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace = context.keyspace_of(name)?;
    if if_exists {
        return Ok(None);
    }
    Err(invalid!("{what} '{keyspace}.{}' doesn't exist", name.name))
}

fn missing_function(
    what: &str,
    name: &FunctionName,
    argument_types: Option<&[RawType]>,
    context: &DdlContext<'_>,
) -> SchemaError {
    let keyspace = name.keyspace.as_ref().map(|keyspace| keyspace.as_str());
    let keyspace = keyspace.or(context.session_keyspace).unwrap_or_default();
    let types = argument_types.map(|types| {
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        format!("({})", types.join(", "))
    });
    invalid!("{what} '{keyspace}.{}{}' doesn't exist", name.name, types.unwrap_or_default())
}

impl DdlContext<'_> {
    /// The keyspace that a name lies in.
    fn keyspace_of<'n>(&'n self, name: &'n QualifiedName) -> Result<&'n str, SchemaError> {
        match (&name.keyspace, self.session_keyspace) {
            (Some(keyspace), _) => Ok(keyspace.as_str()),
            (None, Some(keyspace)) => Ok(keyspace),
            (None, None) => Err(invalid!(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
            )),
        }
    }
}

impl SchemaChange {
    /// A change with nothing but its schema and its event; the version is computed here.
    fn new(schema: Schema, event: SchemaEvent) -> SchemaChange {
        SchemaChange {
            schema: schema.with_fresh_version(),
            event,
            warnings: Vec::new(),
            created: Vec::new(),
            dropped: Vec::new(),
            altered: Vec::new(),
            created_indexes: Vec::new(),
            dropped_indexes: Vec::new(),
        }
    }

    /// Every table that is not what it was gets the next version, also where a user type changed it.
    fn with_table_versions(mut self, before: &Schema) -> SchemaChange {
        let is_changed = |table: &&Arc<Table>| {
            let old = before.table_by_id(table.id);
            old.is_some_and(|old| !Arc::ptr_eq(old, table) && old != *table)
        };
        let changed: Vec<Arc<Table>> =
            self.schema.tables_by_id.values().filter(is_changed).cloned().collect();
        if changed.is_empty() {
            return self;
        }
        for table in changed {
            let Some(keyspace) = self.schema.keyspace(&table.keyspace) else { continue };
            let mut table = Table::clone(&table);
            table.version += 1;
            self.schema = self.schema.with_keyspace(keyspace.with_table(table));
        }
        self.schema = self.schema.with_fresh_version();
        self
    }

    /// A table that became another; nothing when it did not.
    fn to_table(
        schema: &Schema,
        keyspace: &Keyspace,
        before: &Table,
        after: Table,
    ) -> Option<SchemaChange> {
        if *before == after {
            return None;
        }
        let event = SchemaEvent {
            kind: ChangeKind::Updated,
            target: ChangeTarget::Table,
            keyspace: Arc::clone(&after.keyspace),
            name: Arc::clone(&after.name),
        };
        let id = after.id;
        let mut change = SchemaChange::new(schema.with_keyspace(keyspace.with_table(after)), event);
        change.altered.push(id);
        Some(change)
    }
}
