//! `CREATE`, `ALTER` and `DROP TYPE`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cql::ast::{AlterType, CreateType, DropType, Name, RawType, TypeChange};
use cql::quote_if_needed;
use types::{CqlType, TableId, UserType};

use super::access::{Resource, Wish, check_keyspace, check_rights};
use super::alter_table::full_name;
use super::{ChangeKind, ChangeTarget, DdlContext, SchemaChange, SchemaEvent, resolve};
use crate::error::{SchemaError, invalid};
use crate::java;
use crate::model::{Keyspace, Schema, Table};

pub(super) fn create(
    schema: &Schema,
    statement: &CreateType,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.name)?;
    check_rights(Wish::Create, Resource::AllTables(keyspace_name))?;
    check_keyspace(schema, keyspace_name)?;
    let Some(keyspace) = schema.keyspace(keyspace_name) else {
        return Err(invalid!("Keyspace '{keyspace_name}' doesn't exist"));
    };
    let name = statement.name.name.as_str();
    if keyspace.types.contains_key(name) {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(invalid!("A user type with name '{name}' already exists"));
    }
    let mut seen = BTreeSet::new();
    for (field, _) in &statement.fields {
        if !seen.insert(field.as_str()) {
            return Err(invalid!("Duplicate field name '{field}' in type '{name}'"));
        }
    }
    for (_, field_type) in &statement.fields {
        check_field(field_type)?;
    }
    let mut fields = Vec::with_capacity(statement.fields.len());
    for (field, field_type) in &statement.fields {
        fields.push((Arc::from(field.as_str()), resolve::resolve_in(keyspace, field_type)?));
    }
    let definition =
        UserType { keyspace: Arc::clone(&keyspace.name), name: Arc::from(name), fields };
    let event = event(ChangeKind::Created, &definition);
    let definition = Arc::new(definition);
    check_extent_of(&definition)?;
    let mut after = Keyspace::clone(keyspace);
    after.types.insert(Arc::clone(&definition.name), definition);
    Ok(Some(SchemaChange::new(schema.with_keyspace(after), event)))
}

/// What a field may be, before its type is looked up.
fn check_field(field_type: &RawType) -> Result<(), SchemaError> {
    let shape = resolve::shape_of(field_type)?;
    if shape.is_counter {
        return Err(invalid!("A user type cannot contain counters"));
    }
    if shape.is_thawed_user_type {
        return Err(invalid!("A user type cannot contain non-frozen UDTs"));
    }
    Ok(())
}

pub(super) fn alter(
    schema: &Schema,
    statement: &AlterType,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.name)?;
    check_rights(Wish::Alter, Resource::AllTables(keyspace_name))?;
    check_keyspace(schema, keyspace_name)?;
    let name = statement.name.name.as_str();
    let keyspace = schema.keyspace(keyspace_name);
    let before = keyspace.and_then(|keyspace| keyspace.types.get(name));
    let (Some(keyspace), Some(before)) = (keyspace, before) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(invalid!("Type {keyspace_name}.{name} doesn't exist"));
    };
    let after = match &statement.change {
        TypeChange::AlterField { .. } => {
            return Err(invalid!("Altering field types is no longer supported"));
        }
        TypeChange::Add { if_not_exists, field, field_type } => {
            add_field(keyspace, before, field, field_type, *if_not_exists)?
        }
        TypeChange::Rename { if_exists, renames } => rename_fields(before, renames, *if_exists)?,
    };
    if after == **before {
        return Ok(None);
    }
    let event = event(ChangeKind::Updated, &after);
    let (keyspace, altered) = replace(keyspace, &Arc::new(after))?;
    let mut change = SchemaChange::new(schema.with_keyspace(keyspace), event);
    change.altered = altered;
    Ok(Some(change))
}

fn add_field(
    keyspace: &Keyspace,
    before: &UserType,
    field: &Name,
    field_type: &RawType,
    if_not_exists: bool,
) -> Result<UserType, SchemaError> {
    check_field(field_type)?;
    let type_name = type_name(before);
    if before.fields.iter().any(|(name, _)| **name == **field) {
        if if_not_exists {
            return Ok(before.clone());
        }
        return Err(invalid!(
            "Cannot add field {field} to type {type_name}: a field with name {field} already exists"
        ));
    }
    let resolved = resolve::resolve_in(keyspace, field_type)?;
    let written = written_text(keyspace, field_type)?;
    if references(&resolved, &before.name) {
        return Err(invalid!(
            "Cannot add new field {field} of type {written} to user type {type_name} as it would create a circular reference"
        ));
    }
    let in_key = |table: &Table| {
        table.partition_key().iter().any(|column| references(&column.cql_type, &before.name))
    };
    let tables: Vec<String> = keyspace
        .tables
        .values()
        .filter(|table| in_key(table))
        .map(|table| full_name(table))
        .collect();
    if !tables.is_empty() {
        return Err(invalid!(
            "Cannot add new field {field} of type {written} to user type {type_name} as the type is being used in partition key by the following tables: {}",
            tables.join(", ")
        ));
    }
    let mut after = before.clone();
    after.fields.push((Arc::from(field.as_str()), resolved));
    Ok(after)
}

/// The type as the statement wrote it, after Cassandra has put the keyspace before user types.
fn written_text(keyspace: &Keyspace, field_type: &RawType) -> Result<String, SchemaError> {
    let mut qualified = field_type.clone();
    qualify(&mut qualified, &keyspace.name);
    Ok(resolve::shape_of(&qualified)?.text)
}

fn qualify(raw: &mut RawType, keyspace: &str) {
    match raw {
        RawType::User(name) => name.keyspace = Some(Name::from(keyspace)),
        RawType::List(inner) | RawType::Set(inner) | RawType::Frozen(inner) => {
            qualify(inner, keyspace);
        }
        RawType::Vector { element, .. } => qualify(element, keyspace),
        RawType::Map(key, value) => {
            qualify(key, keyspace);
            qualify(value, keyspace);
        }
        RawType::Tuple(parts) => parts.iter_mut().for_each(|part| qualify(part, keyspace)),
        RawType::Native(_) | RawType::Custom(_) => {}
    }
}

fn rename_fields(
    before: &UserType,
    renames: &[(Name, Name)],
    if_exists: bool,
) -> Result<UserType, SchemaError> {
    let mut after = before.clone();
    let fields = before.fields.iter().enumerate();
    let places: HashMap<&str, usize> = fields.map(|(place, (name, _))| (&**name, place)).collect();
    // Of two renames of one field the later one counts.
    let new_names: HashMap<&str, &Name> =
        renames.iter().map(|(old, new)| (old.as_str(), new)).collect();
    for old_name in java::name_map_order(renames.iter().map(|(old, _)| old.as_str())) {
        let place = places.get(old_name);
        let field = place.and_then(|place| after.fields.get_mut(*place));
        match (field, new_names.get(old_name)) {
            (Some((name, _)), Some(new_name)) => *name = Arc::from(new_name.as_str()),
            _ if if_exists => {}
            _ => {
                return Err(invalid!("Unkown field {old_name} in user type {}", type_name(before)));
            }
        }
    }
    // The name that is told is the first that comes again, seen from the front.
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (name, _) in &after.fields {
        *counts.entry(name).or_default() += 1;
    }
    for (name, _) in &after.fields {
        if counts.get(&**name).is_some_and(|count| *count > 1) {
            return Err(invalid!("Duplicate field name {name} in type {}", before.keyspace));
        }
    }
    Ok(after)
}

/// Keyspace and name as messages show a type.
fn type_name(definition: &UserType) -> String {
    format!("{}.{}", quote_if_needed(&definition.keyspace), quote_if_needed(&definition.name))
}

/// The keyspace with a type replaced everywhere, and the tables that this changed.
fn replace(
    keyspace: &Keyspace,
    definition: &Arc<UserType>,
) -> Result<(Keyspace, Vec<TableId>), SchemaError> {
    check_extent_of(definition)?;
    let mut after = keyspace.clone();
    let mut altered = Vec::new();
    for (name, other) in &mut after.types {
        if **name == *definition.name {
            *other = Arc::clone(definition);
        } else if other.fields.iter().any(|(_, field)| references(field, &definition.name)) {
            let mut changed = UserType::clone(other);
            for (_, field) in &mut changed.fields {
                *field = with_replaced(field, definition);
            }
            *other = Arc::new(changed);
            check_extent_of(other)?;
        }
    }
    for table in after.tables.values_mut() {
        if table.columns.iter().any(|column| references(&column.cql_type, &definition.name)) {
            let mut changed = Table::clone(table);
            for column in &mut changed.columns {
                column.cql_type = with_replaced(&column.cql_type, definition);
                resolve::check_extent(&column.cql_type)?;
            }
            altered.push(changed.id);
            *table = Arc::new(changed);
        }
    }
    Ok((after, altered))
}

fn check_extent_of(definition: &Arc<UserType>) -> Result<(), SchemaError> {
    let definition = Arc::clone(definition);
    resolve::check_extent(&CqlType::User { definition, frozen: true })
}

fn with_replaced(cql_type: &CqlType, new: &Arc<UserType>) -> CqlType {
    match cql_type {
        CqlType::User { definition, frozen } if definition.name == new.name => {
            CqlType::User { definition: Arc::clone(new), frozen: *frozen }
        }
        other => other.map_parts(&|part| with_replaced(part, new)),
    }
}

/// Whether a user type is this type or anywhere inside.
pub(crate) fn references(cql_type: &CqlType, user_type: &str) -> bool {
    cql_type.contains(&|part| match part {
        CqlType::User { definition, .. } => *definition.name == *user_type,
        _ => false,
    })
}

pub(super) fn drop(
    schema: &Schema,
    statement: &DropType,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.name)?;
    check_rights(Wish::Drop, Resource::AllTables(keyspace_name))?;
    check_keyspace(schema, keyspace_name)?;
    let name = statement.name.name.as_str();
    let keyspace = schema.keyspace(keyspace_name);
    let found = keyspace.and_then(|keyspace| keyspace.types.get(name));
    let (Some(keyspace), Some(definition)) = (keyspace, found) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(invalid!("Type '{keyspace_name}.{name}' doesn't exist"));
    };
    let users: Vec<&str> = keyspace
        .types
        .values()
        .filter(|other| *other.name != *name)
        .filter(|other| other.fields.iter().any(|(_, field)| references(field, name)))
        .map(|other| &*other.name)
        .collect();
    if !users.is_empty() {
        return Err(invalid!(
            "Cannot drop user type '{keyspace_name}.{name}' as it is still used by user types {}",
            users.join(", ")
        ));
    }
    let users: Vec<&str> = keyspace
        .tables
        .values()
        .filter(|table| table.columns.iter().any(|column| references(&column.cql_type, name)))
        .map(|table| &*table.name)
        .collect();
    if !users.is_empty() {
        return Err(invalid!(
            "Cannot drop user type '{keyspace_name}.{name}' as it is still used by tables {}",
            users.join(", ")
        ));
    }
    let event = event(ChangeKind::Dropped, definition);
    let mut after = Keyspace::clone(keyspace);
    after.types.remove(name);
    Ok(Some(SchemaChange::new(schema.with_keyspace(after), event)))
}

fn event(kind: ChangeKind, definition: &UserType) -> SchemaEvent {
    SchemaEvent {
        kind,
        target: ChangeTarget::Type,
        keyspace: Arc::clone(&definition.keyspace),
        name: Arc::clone(&definition.name),
    }
}
