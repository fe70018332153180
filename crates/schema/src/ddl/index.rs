//! `CREATE INDEX` and `DROP INDEX`.

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::ast::{self, CreateIndex, DropIndex, IndexTargetKind};
use cql::quote_if_needed;
use types::{CqlType, TableId};

use super::access::{Resource, Wish, check_keyspace, check_rights, is_word};
use super::alter_table::full_name;
use super::properties::PropertyReader;
use super::{DdlContext, SchemaChange};
use crate::error::{SchemaError, configuration, invalid};
use crate::model::{Column, ColumnKind, Index, IndexTarget, Keyspace, Schema, Table, TableShape};

/// The class of Cassandra's plain indexes: asked for by name, it is one.
const PLAIN_CLASS: &str = "org.apache.cassandra.index.internal.CassandraIndex";

pub(super) fn create(
    schema: &Schema,
    statement: &CreateIndex,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.table)?.to_string();
    let table_name = statement.table.name.as_str();
    check_rights(Wish::Alter, Resource::Table(&keyspace_name, table_name))?;
    check_keyspace(schema, &keyspace_name)?;
    let custom_class = check_properties(statement)?;
    let Some(keyspace) = schema.keyspace(&keyspace_name) else {
        return Err(invalid!("Keyspace '{keyspace_name}' doesn't exist"));
    };
    let Some(table) = keyspace.tables.get(table_name) else {
        return Err(invalid!("Table '{table_name}' doesn't exist"));
    };
    if let Some(name) = &statement.name
        && keyspace.indexed_table(name).is_some()
    {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(invalid!("Index '{name}' already exists"));
    }
    if table.is_counter {
        return Err(invalid!("Secondary indexes on counter tables aren't supported"));
    }
    let mut targets = Vec::with_capacity(statement.targets.len());
    for target in &statement.targets {
        targets.push(resolve_target(table, target)?);
    }
    if let Some(class) = custom_class.as_deref().filter(|class| *class != PLAIN_CLASS) {
        return Err(refuse_custom(class));
    }
    let (column, target) = match targets.as_slice() {
        [] => {
            return Err(invalid!(
                "Only CUSTOM indexes can be created without specifying a target column"
            ));
        }
        [only] => *only,
        _ => return Err(invalid!("Only CUSTOM indexes support multiple columns")),
    };
    check_target(table, column, target)?;
    let name = match &statement.name {
        Some(name) => name.to_string(),
        None => free_name(keyspace, table, column),
    };
    let equal =
        table.indexes.values().find(|index| index.column == column.id && index.target == target);
    if let Some(equal) = equal {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(invalid!("Index {name} is a duplicate of existing index {}", equal.name));
    }
    if !is_word(&name) {
        return Err(configuration!("Illegal index name {name}"));
    }
    let index = Index {
        name: Arc::from(name),
        id: TableId((context.fresh_id)()),
        column: column.id,
        target,
        class: custom_class.map(Arc::from),
        options: BTreeMap::new(),
    };
    let pair = (table.id, index.id);
    let mut after = Table::clone(table);
    after.indexes.insert(Arc::clone(&index.name), Arc::new(index));
    let mut change = SchemaChange::to_table(schema, keyspace, table, after);
    if let Some(change) = &mut change {
        change.created_indexes.push(pair);
    }
    Ok(change)
}

/// The properties of the statement; the class when it asks for another index than the plain one.
fn check_properties(statement: &CreateIndex) -> Result<Option<String>, SchemaError> {
    let properties = PropertyReader(&statement.properties);
    properties.check_names(&["options"])?;
    let class = match statement.using.as_deref() {
        Some(class) if !statement.custom && class.eq_ignore_ascii_case("legacy_local_table") => {
            None
        }
        // Cassandra puts its default index in place of what is missing.
        None if statement.custom => return Err(refuse_custom("legacy_local_table")),
        other => other,
    };
    if class.is_none() && !statement.properties.0.is_empty() {
        return Err(invalid!("Cannot specify options for a non-CUSTOM index"));
    }
    let options = properties.map("options")?.unwrap_or_default();
    for reserved in ["class_name", "target"] {
        if options.get(reserved).is_some() {
            return Err(invalid!("Cannot specify {reserved} as a CUSTOM option"));
        }
    }
    if class == Some(PLAIN_CLASS) && !options.is_empty() {
        return Err(invalid!("An index of class {PLAIN_CLASS} has no options"));
    }
    Ok(class.map(str::to_string))
}

fn refuse_custom(class: &str) -> SchemaError {
    let lower = class.to_lowercase();
    match lower.rsplit('.').next() {
        Some("sai" | "storageattachedindex") => {
            invalid!(
                "Storage-attached indexes (SAI) are not supported by Helenus; use a plain CREATE INDEX"
            )
        }
        Some("sasiindex") => {
            invalid!("SASI indexes are not supported by Helenus; use a plain CREATE INDEX")
        }
        _ => configuration!("Unable to find custom indexer class '{class}'"),
    }
}

/// The column that a target names, and what of it.
fn resolve_target<'t>(
    table: &'t Table,
    target: &ast::IndexTarget,
) -> Result<(&'t Column, IndexTarget), SchemaError> {
    let Some((_, column)) = table.column(target.column.as_str()) else {
        return Err(invalid!(
            "Undefined column name {} in table {}",
            quote_if_needed(target.column.as_str()),
            full_name(table)
        ));
    };
    let kind = match target.kind {
        // In a descending order Cassandra does not see the collection; it is refused with the word left out.
        IndexTargetKind::Simple if column.cql_type.is_collection() && !column.is_descending() => {
            IndexTarget::Values
        }
        IndexTargetKind::Simple => IndexTarget::Value,
        IndexTargetKind::Values => IndexTarget::Values,
        IndexTargetKind::Keys => IndexTarget::Keys,
        IndexTargetKind::Entries => IndexTarget::Entries,
        IndexTargetKind::Full => IndexTarget::Full,
    };
    Ok((column, kind))
}

fn check_target(table: &Table, column: &Column, target: IndexTarget) -> Result<(), SchemaError> {
    let cql_type = &column.cql_type;
    let name = &column.name;
    if cql_type.contains_duration() {
        let what = match cql_type {
            collection if collection.is_collection() => "collections containing durations",
            CqlType::Tuple(_) => "tuples containing durations",
            CqlType::User { .. } => "UDTs containing durations",
            _ => "duration columns",
        };
        return Err(invalid!("Secondary indexes are not supported on {what}"));
    }
    if table.shape != TableShape::Ordinary {
        if column.is_key() {
            return Err(invalid!(
                "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables"
            ));
        }
        if column.kind == ColumnKind::Regular {
            return Err(invalid!(
                "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables"
            ));
        }
    }
    // Compat: Cassandra refuses an index on the only column of the partition key; here it is a
    // line in the schema, and lookups by key never need it.
    let is_frozen_collection = cql_type.is_collection() && !cql_type.is_multi_cell();
    let word = target.word();
    if is_frozen_collection && target != IndexTarget::Full {
        return Err(invalid!(
            "Cannot create {word}() index on frozen column {name}. Frozen collections are immutable and must be fully indexed by using the 'full({})' modifier",
            quote_if_needed(name)
        ));
    }
    if !is_frozen_collection && target == IndexTarget::Full {
        return Err(invalid!("full() indexes can only be created on frozen collections"));
    }
    if !cql_type.is_collection() && target != IndexTarget::Value {
        return Err(invalid!(
            "Cannot create {word}() index on {name}. Non-collection columns only support simple indexes"
        ));
    }
    let is_map = matches!(cql_type, CqlType::Map { frozen: false, .. });
    if !is_map && matches!(target, IndexTarget::Keys | IndexTarget::Entries) {
        return Err(invalid!("Cannot create index on {word} of column {name} with non-map type"));
    }
    if matches!(cql_type, CqlType::User { frozen: false, .. }) {
        return Err(invalid!("Cannot create index on non-frozen UDT column {name}"));
    }
    Ok(())
}

/// `table_column_idx`, with a number behind when that is taken.
fn free_name(keyspace: &Keyspace, table: &Table, column: &Column) -> String {
    let base: String = format!("{}_{}_idx", table.name, column.name)
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    let mut name = base.clone();
    let mut number = 0_u32;
    while keyspace.indexed_table(&name).is_some() {
        number = number.saturating_add(1);
        name = format!("{base}_{number}");
    }
    name
}

pub(super) fn drop(
    schema: &Schema,
    statement: &DropIndex,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.name)?;
    let name = statement.name.name.as_str();
    check_keyspace(schema, keyspace_name)?;
    let keyspace = schema.keyspace(keyspace_name);
    let table = keyspace.and_then(|keyspace| keyspace.indexed_table(name));
    let (Some(keyspace), Some(table)) = (keyspace, table) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(invalid!("Index '{keyspace_name}.{name}' doesn't exist'"));
    };
    check_rights(Wish::Alter, Resource::Table(keyspace_name, &table.name))?;
    let mut after = Table::clone(table);
    let dropped = after.indexes.remove(name);
    let mut change = SchemaChange::to_table(schema, keyspace, table, after);
    if let (Some(change), Some(index)) = (&mut change, dropped) {
        change.dropped_indexes.push((table.id, index.id));
    }
    Ok(change)
}

impl Index {
    /// What it is on, as `CREATE INDEX` writes it.
    pub fn target_text(&self, table: &Table) -> String {
        let name = table.column_by_id(self.column).map(|column| &*column.name);
        let name = quote_if_needed(name.unwrap_or_default());
        match self.target {
            IndexTarget::Value => name,
            other => format!("{}({name})", other.word()),
        }
    }
}

impl IndexTarget {
    /// The function that stands around the column in `CREATE INDEX`; nothing for the plain value.
    pub fn word(self) -> &'static str {
        match self {
            IndexTarget::Value => "",
            IndexTarget::Values => "values",
            IndexTarget::Keys => "keys",
            IndexTarget::Entries => "entries",
            IndexTarget::Full => "full",
        }
    }
}
