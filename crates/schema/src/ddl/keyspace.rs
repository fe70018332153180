//! `CREATE`, `ALTER` and `DROP KEYSPACE`.

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Properties};

use super::access::{Resource, Wish, check_keyspace, check_rights};
use super::properties::{OptionMap, PropertyReader};
use super::{
    ChangeKind, ChangeTarget, DdlContext, Profile, SchemaChange, SchemaEvent, options, replication,
};
use crate::error::{SchemaError, configuration, invalid};
use crate::model::{Keyspace, KeyspaceKind, Schema};
use crate::options::KeyspaceOptions;

const PROPERTIES: &[&str] =
    &["durable_writes", "replication", options::MANUAL_THROUGHPUT, options::AUTOSCALE_THROUGHPUT];

pub(super) fn create(
    schema: &Schema,
    statement: &CreateKeyspace,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let name = statement.name.as_str();
    check_keyspace(schema, name)?;
    let properties = PropertyReader(&statement.properties);
    let map = check_properties(&statement.properties)?;
    if !properties.has("replication") && context.profile == Profile::Default {
        return Err(invalid!("Missing mandatory option 'replication'"));
    }
    if schema.keyspace(name).is_some() {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(SchemaError::AlreadyExists {
            keyspace: name.to_string(),
            table: String::new(),
        });
    }
    let durable_writes = properties.boolean("durable_writes")?.unwrap_or(true);
    let replication = match map {
        Some(map) if !map.is_empty() => replication::read(map, &BTreeMap::new(), context)?,
        // Cassandra looks a class up that is not there, and trips.
        Some(_) if context.profile == Profile::Default => {
            return Err(SchemaError::Server(
                "java.lang.NullPointerException: Cannot invoke \"String.contains(java.lang.CharSequence)\" because \"cls\" is null"
                    .to_string(),
            ));
        }
        _ => replication::unspecified(context),
    };
    let warnings = replication::check(name, &replication, context)?;
    let throughput = options::read_throughput(&properties)?;
    let keyspace = Keyspace {
        name: Arc::from(name),
        options: KeyspaceOptions { replication, durable_writes, throughput },
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
        kind: KeyspaceKind::User,
    };
    let event = event(ChangeKind::Created, name);
    let mut change = SchemaChange::new(schema.with_keyspace(keyspace), event);
    change.warnings = warnings;
    Ok(Some(change))
}

pub(super) fn alter(
    schema: &Schema,
    statement: &AlterKeyspace,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let name = statement.name.as_str();
    check_rights(Wish::Alter, Resource::Keyspace(name))?;
    check_keyspace(schema, name)?;
    let properties = PropertyReader(&statement.properties);
    let map = check_properties(&statement.properties)?;
    let Some(before) = schema.keyspace(name) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(invalid!("Keyspace '{name}' doesn't exist"));
    };
    let mut after = Keyspace::clone(before);
    if let Some(durable_writes) = properties.boolean("durable_writes")? {
        after.options.durable_writes = durable_writes;
    }
    if let Some(map) = map.filter(|map| !map.is_empty()) {
        after.options.replication = replication::read(map, &before.options.replication, context)?;
    }
    let mut warnings = replication::check(name, &after.options.replication, context)?;
    if let Some(throughput) = options::read_throughput(&properties)? {
        after.options.throughput = Some(throughput);
    }
    if after.options == before.options {
        return Ok(None);
    }
    let count = replication::replica_count;
    if count(&before.options.replication) < count(&after.options.replication) {
        warnings.push(
            "When increasing replication factor you need to run a full (-full) repair to distribute the data."
                .to_string(),
        );
    }
    let mut change =
        SchemaChange::new(schema.with_keyspace(after), event(ChangeKind::Updated, name));
    change.warnings = warnings;
    Ok(Some(change))
}

pub(super) fn drop(
    schema: &Schema,
    statement: &DropKeyspace,
) -> Result<Option<SchemaChange>, SchemaError> {
    let name = statement.name.as_str();
    check_rights(Wish::Drop, Resource::Keyspace(name))?;
    check_keyspace(schema, name)?;
    let Some(keyspace) = schema.keyspace(name) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(invalid!("Keyspace '{name}' doesn't exist"));
    };
    let dropped = keyspace.tables.values().map(|table| table.id).collect();
    let mut change =
        SchemaChange::new(schema.without_keyspace(name), event(ChangeKind::Dropped, name));
    change.dropped = dropped;
    Ok(Some(change))
}

/// The names, and that a replication names its class.
fn check_properties(properties: &Properties) -> Result<Option<OptionMap>, SchemaError> {
    let reader = PropertyReader(properties);
    reader.check_names(PROPERTIES)?;
    let map = reader.map("replication")?;
    if map.as_ref().is_some_and(|map| !map.is_empty() && map.get("class").is_none()) {
        return Err(configuration!("Missing replication strategy class"));
    }
    Ok(map)
}

fn event(kind: ChangeKind, keyspace: &str) -> SchemaEvent {
    SchemaEvent {
        kind,
        target: ChangeTarget::Keyspace,
        keyspace: Arc::from(keyspace),
        name: Arc::from(""),
    }
}
