//! `ALTER TABLE` and `DROP TABLE`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cql::ast::{
    AlterTable, ColumnDefinition, ColumnMask, DropTable, Name, Properties, TableChange,
};
use cql::quote_if_needed;
use types::{ColumnId, CqlType};

use super::access::{Resource, Wish, check_keyspace, check_rights};
use super::create_table::{check_table, has_nested_cells};
use super::properties::PropertyReader;
use super::{
    ChangeKind, ChangeTarget, DdlContext, SchemaChange, SchemaEvent, mask, options, resolve,
};
use crate::error::{SchemaError, configuration, invalid};
use crate::java;
use crate::model::{Column, ColumnKind, DroppedColumn, Keyspace, Schema, Table, TableShape};
use crate::options::TableOptions;

pub(super) fn alter(
    schema: &Schema,
    statement: &AlterTable,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.name)?.to_string();
    let name = statement.name.name.as_str();
    check_rights(Wish::Alter, Resource::Table(&keyspace_name, name))?;
    match &statement.change {
        TableChange::Properties(properties) => {
            let properties = PropertyReader(properties);
            options::read(&properties, &TableOptions::default(), true)?;
        }
        TableChange::Mask { mask: Some(_), .. } => mask::check_enabled(context)?,
        _ => {}
    }
    check_keyspace(schema, &keyspace_name)?;
    let keyspace = schema.keyspace(&keyspace_name);
    let table = keyspace.and_then(|keyspace| keyspace.tables.get(name));
    let (Some(keyspace), Some(table)) = (keyspace, table) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(invalid!("Table '{keyspace_name}.{name}' doesn't exist"));
    };
    let mut after = Table::clone(table);
    match &statement.change {
        TableChange::AlterType { .. } => {
            return Err(invalid!("Altering column types is no longer supported"));
        }
        TableChange::Mask { column, if_exists, mask } => {
            set_mask(&mut after, column, *if_exists, mask.as_ref())?;
        }
        TableChange::Add { if_not_exists, columns } => {
            let mut added = Vec::with_capacity(columns.len());
            let mut names = BTreeSet::new();
            for column in columns {
                let is_known =
                    table.place(&column.name).is_some() || !names.insert(column.name.as_str());
                match new_column(keyspace, table, &mut after, column, is_known)? {
                    Some(column) => added.push(column),
                    None if *if_not_exists => {}
                    None => {
                        let name = &column.name;
                        return Err(invalid!("Column with name '{name}' already exists"));
                    }
                }
            }
            after.add_columns(added);
            check_table(&after)?;
        }
        TableChange::Drop { if_exists, columns, timestamp } => {
            let time = timestamp.unwrap_or(context.now_us);
            let mut gone = BTreeSet::new();
            for column in java::name_map_order(columns.iter().map(Name::as_str)) {
                gone.extend(drop_column(table, &mut after, column, *if_exists, time)?);
            }
            after.columns.retain(|column| !gone.contains(&column.id));
            after.static_count = after.columns.iter().filter(|it| it.is_static()).count();
        }
        TableChange::Rename { renames, .. } => rename_columns(table, &mut after, renames)?,
        TableChange::DropCompactStorage => drop_compact_storage(&mut after)?,
        TableChange::Properties(properties) => set_options(&mut after, properties)?,
    }
    Ok(SchemaChange::to_table(schema, keyspace, table, after))
}

fn set_mask(
    table: &mut Table,
    name: &Name,
    if_exists: bool,
    mask: Option<&ColumnMask>,
) -> Result<(), SchemaError> {
    let table_name = Arc::clone(&table.name);
    let Some(column) = table.columns.iter_mut().find(|column| *column.name == **name) else {
        if if_exists {
            return Ok(());
        }
        return Err(invalid!("Column with name '{name}' doesn't exist on table '{table_name}'"));
    };
    column.mask = match mask {
        Some(written) => Some(mask::read(written, name.as_str(), &column.cql_type)?),
        None => None,
    };
    Ok(())
}

/// The column that a definition means, `None` for one that is there already.
fn new_column(
    keyspace: &Keyspace,
    before: &Table,
    table: &mut Table,
    column: &ColumnDefinition,
    is_known: bool,
) -> Result<Option<Column>, SchemaError> {
    let name = column.name.as_str();
    let cql_type = resolve::resolve_in(keyspace, &column.column_type)?;
    let mask = match &column.mask {
        Some(written) => Some(mask::read(written, name, &cql_type)?),
        None => None,
    };
    if is_known {
        return Ok(None);
    }
    if table.shape != TableShape::Ordinary {
        return Err(invalid!("Cannot add new column to a COMPACT STORAGE table"));
    }
    if column.is_static && table.clustering_count == 0 {
        return Err(invalid!(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
        ));
    }
    if has_nested_cells(&cql_type) {
        return Err(invalid!(
            "Non-frozen UDTs with nested non-frozen collections are not supported for column {name}"
        ));
    }
    if let Some(dropped) = before.dropped_columns.get(name) {
        check_again(name, &cql_type, column.is_static, dropped)?;
        if table.is_counter {
            return Err(invalid!("Cannot re-add previously dropped counter column {name}"));
        }
    }
    let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
    let id = table.id_for(name);
    Ok(Some(Column { id, name: Arc::from(name), cql_type, kind, mask, is_hidden: false }))
}

/// A column may come back only as what it was.
fn check_again(
    name: &str,
    cql_type: &CqlType,
    is_static: bool,
    dropped: &DroppedColumn,
) -> Result<(), SchemaError> {
    if !reads_values_of(cql_type, &dropped.cql_type) {
        return Err(invalid!(
            "Cannot re-add previously dropped column '{name}' of type {cql_type}, incompatible with previous type {}",
            dropped.cql_type
        ));
    }
    if dropped.is_static != is_static {
        let kind = |is_static| if is_static { "STATIC" } else { "REGULAR" };
        return Err(invalid!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
            kind(is_static),
            kind(dropped.is_static)
        ));
    }
    Ok(())
}

/// Whether cells of `old` can be read as `new`: the same values, the same length rule, the same
/// number of cells.
fn reads_values_of(new: &CqlType, old: &CqlType) -> bool {
    let length = |cql_type: &CqlType| match cql_type {
        // Cassandra keeps these with a length.
        CqlType::TinyInt | CqlType::SmallInt | CqlType::Date | CqlType::Time => None,
        other => other.fixed_length(),
    };
    if length(new) != length(old) || new.is_multi_cell() != old.is_multi_cell() {
        return false;
    }
    match (new, old) {
        (CqlType::Blob, _)
        | (CqlType::Text, CqlType::Ascii)
        | (CqlType::BigInt, CqlType::Timestamp)
        | (CqlType::Timestamp, CqlType::BigInt)
        | (CqlType::Uuid, CqlType::TimeUuid)
        | (CqlType::Varint, CqlType::Int | CqlType::BigInt | CqlType::Timestamp) => true,
        (CqlType::List { element: new, .. }, CqlType::List { element: old, .. })
        | (CqlType::Set { element: new, .. }, CqlType::Set { element: old, .. }) => {
            reads_elements_of(new, old)
        }
        (
            CqlType::Map { key: new_key, value: new_value, .. },
            CqlType::Map { key: old_key, value: old_value, .. },
        ) => reads_elements_of(new_key, old_key) && reads_elements_of(new_value, old_value),
        (CqlType::Tuple(new), CqlType::Tuple(old)) => {
            new.len() >= old.len()
                && new.iter().zip(old.iter()).all(|(new, old)| reads_elements_of(new, old))
        }
        _ => new == old,
    }
}

/// Inside another type there are no cells, so lengths do not matter.
fn reads_elements_of(new: &CqlType, old: &CqlType) -> bool {
    new == old || reads_values_of(&new.freeze(), &old.freeze())
}

fn drop_column(
    before: &Table,
    table: &mut Table,
    name: &str,
    if_exists: bool,
    time_us: i64,
) -> Result<Option<ColumnId>, SchemaError> {
    let Some((_, column)) = before.place(name) else {
        if if_exists {
            return Ok(None);
        }
        return Err(invalid!("Column {name} was not found in table '{}'", full_name(before)));
    };
    if column.is_key() {
        return Err(invalid!("Cannot drop PRIMARY KEY column {name}"));
    }
    if before.shape == TableShape::CompactDense {
        // Compat: Cassandra runs into an assertion here.
        return Err(invalid!("Cannot drop the value column {name} of a COMPACT STORAGE table"));
    }
    if matches!(column.cql_type, CqlType::User { frozen: false, .. }) {
        return Err(invalid!(
            "Cannot drop non-frozen column {name} of user type {}",
            column.cql_type
        ));
    }
    let indexes = indexes_on(before, column);
    if !indexes.is_empty() {
        return Err(invalid!(
            "Cannot drop column {name} because it has dependent secondary indexes ({indexes})"
        ));
    }
    let dropped = DroppedColumn {
        id: column.id,
        cql_type: without_user_types(&column.cql_type),
        is_static: column.is_static(),
        dropped_at_us: time_us,
    };
    table.dropped_columns.insert(Arc::clone(&column.name), dropped);
    Ok(Some(column.id))
}

/// A dropped column outlives the types it used, so each becomes the tuple of its fields.
fn without_user_types(cql_type: &CqlType) -> CqlType {
    match cql_type {
        CqlType::User { definition, .. } => CqlType::Tuple(
            definition
                .fields
                .iter()
                .map(|(_, field)| without_user_types(&field.freeze()))
                .collect(),
        ),
        other => other.map_parts(&without_user_types),
    }
}

fn rename_columns(
    before: &Table,
    table: &mut Table,
    renames: &[(Name, Name)],
) -> Result<(), SchemaError> {
    // Of two renames of one column the later one counts.
    let new_names: HashMap<&str, &Name> =
        renames.iter().map(|(old, new)| (old.as_str(), new)).collect();
    for old_name in java::name_map_order(renames.iter().map(|(old, _)| old.as_str())) {
        let Some(new_name) = new_names.get(old_name) else {
            continue;
        };
        let Some((place, column)) = before.column(old_name) else {
            // As Cassandra, which means to honour IF EXISTS here and does not.
            return Err(invalid!(
                "Undefined column name {} in table {}",
                quote_if_needed(old_name),
                full_name(before)
            ));
        };
        if !column.is_key() {
            return Err(invalid!("Cannot rename non PRIMARY KEY column {old_name}"));
        }
        if before.place(new_name).is_some() {
            return Err(invalid!(
                "Cannot rename column {old_name} to {new_name} in table '{}'; another column with that name already exists",
                full_name(before)
            ));
        }
        let indexes = indexes_on(before, column);
        if !indexes.is_empty() {
            return Err(invalid!(
                "Can't rename column {old_name} because it has dependent secondary indexes ({indexes})"
            ));
        }
        if let Some(renamed) = table.columns.get_mut(place) {
            renamed.name = Arc::from(new_name.as_str());
        }
    }
    Ok(())
}

/// What was hidden is an ordinary column from now on.
fn drop_compact_storage(table: &mut Table) -> Result<(), SchemaError> {
    if table.shape == TableShape::Ordinary {
        return Err(invalid!("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"));
    }
    table.shape = TableShape::Ordinary;
    for column in &mut table.columns {
        column.is_hidden = false;
    }
    Ok(())
}

fn set_options(table: &mut Table, properties: &Properties) -> Result<(), SchemaError> {
    let properties = PropertyReader(properties);
    options::check(&properties, options::read(&properties, &TableOptions::default(), true)?)?;
    if properties.has("id") {
        return Err(configuration!("Cannot alter table id."));
    }
    let altered = options::check(&properties, options::read(&properties, &table.options, false)?)?;
    if table.is_counter && altered.default_time_to_live_s > 0 {
        return Err(invalid!("Cannot set default_time_to_live on a table with counters"));
    }
    table.options = altered;
    Ok(())
}

fn indexes_on(table: &Table, column: &Column) -> String {
    let names: Vec<&str> = table
        .indexes
        .values()
        .filter(|index| index.column == column.id)
        .map(|index| &*index.name)
        .collect();
    names.join(", ")
}

/// Keyspace and name as messages show a table.
pub(super) fn full_name(table: &Table) -> String {
    format!("{}.{}", quote_if_needed(&table.keyspace), quote_if_needed(&table.name))
}

pub(super) fn drop_table(
    schema: &Schema,
    statement: &DropTable,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.name)?;
    let name = statement.name.name.as_str();
    check_rights(Wish::Drop, Resource::Table(keyspace_name, name))?;
    check_keyspace(schema, keyspace_name)?;
    let keyspace = schema.keyspace(keyspace_name);
    let table = keyspace.and_then(|keyspace| keyspace.tables.get(name));
    let (Some(keyspace), Some(table)) = (keyspace, table) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(invalid!("Table '{keyspace_name}.{name}' doesn't exist"));
    };
    let event = SchemaEvent {
        kind: ChangeKind::Dropped,
        target: ChangeTarget::Table,
        keyspace: Arc::clone(&table.keyspace),
        name: Arc::clone(&table.name),
    };
    let mut change = SchemaChange::new(schema.with_keyspace(keyspace.without_table(name)), event);
    change.dropped.push(table.id);
    Ok(Some(change))
}
