//! `CREATE TABLE`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cql::ast::{ColumnDefinition, CreateTable, Name, NativeType, PrimaryKey, RawType};
use cql::quote_if_needed;
use types::{ColumnId, CqlType, TableId};

use super::access::{NAME_LENGTH_MAX, Resource, Wish, check_keyspace, check_rights, is_word};
use super::properties::PropertyReader;
use super::{
    ChangeKind, ChangeTarget, DdlContext, SchemaChange, SchemaEvent, mask, options, resolve,
};
use crate::error::{SchemaError, configuration, invalid};
use crate::model::{Column, ColumnKind, Keyspace, Schema, Table, TableShape};
use crate::options::TableOptions;

/// The longest name of a table. Cassandra names a folder after it and breaks past this length.
const TABLE_NAME_LENGTH_MAX: usize = 222;

pub(super) fn create(
    schema: &Schema,
    statement: &CreateTable,
    context: &mut DdlContext<'_>,
) -> Result<Option<SchemaChange>, SchemaError> {
    let keyspace_name = context.keyspace_of(&statement.name)?.to_string();
    let Some(primary_key) = &statement.primary_key else {
        return Err(invalid!(
            "No PRIMARY KEY specifed for table '{}' (exactly one required)",
            statement.name
        ));
    };
    check_rights(Wish::Create, Resource::AllTables(&keyspace_name))?;
    let properties = PropertyReader(&statement.properties);
    let read = options::read(&properties, &TableOptions::default(), true)?;
    if statement.columns.iter().any(|column| column.mask.is_some()) {
        mask::check_enabled(context)?;
    }
    check_keyspace(schema, &keyspace_name)?;
    let Some(keyspace) = schema.keyspace(&keyspace_name) else {
        return Err(invalid!("Keyspace '{keyspace_name}' doesn't exist"));
    };
    let name = statement.name.name.as_str();
    if keyspace.tables.contains_key(name) {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(SchemaError::AlreadyExists {
            keyspace: keyspace_name,
            table: name.to_string(),
        });
    }
    let table_options = options::check(&properties, read)?;
    let draft = Draft::read(keyspace, statement, primary_key)?;
    let is_counter = draft.check(statement, primary_key, &table_options)?;
    let id = match properties.text("id")? {
        Some(text) => TableId(parse_uuid(text)?),
        None => TableId((context.fresh_id)()),
    };
    let table = draft.build(keyspace, name, id, primary_key, statement, is_counter, table_options);
    check_table(&table)?;
    if schema.tables_by_id.contains_key(&table.id) {
        return Err(configuration!("Table with id {} already exists", table.id));
    }
    let event = SchemaEvent {
        kind: ChangeKind::Created,
        target: ChangeTarget::Table,
        keyspace: Arc::clone(&keyspace.name),
        name: Arc::clone(&table.name),
    };
    let id = table.id;
    let mut change = SchemaChange::new(schema.with_keyspace(keyspace.with_table(table)), event);
    change.created.push(id);
    Ok(Some(change))
}

/// A table of the system from its statement: nobody's rights are asked.
pub(crate) fn system_table(
    keyspace: &Keyspace,
    statement: &CreateTable,
    id: TableId,
) -> Result<Table, SchemaError> {
    let Some(primary_key) = &statement.primary_key else {
        return Err(invalid!("table '{}' has no primary key", statement.name));
    };
    let properties = PropertyReader(&statement.properties);
    let read = options::read(&properties, &TableOptions::default(), true)?;
    let table_options = options::check(&properties, read)?;
    let draft = Draft::read(keyspace, statement, primary_key)?;
    let is_counter = draft.check(statement, primary_key, &table_options)?;
    let name = statement.name.name.as_str();
    Ok(draft.build(keyspace, name, id, primary_key, statement, is_counter, table_options))
}

/// The columns of the statement with their types, by name.
struct Draft<'a> {
    columns: BTreeMap<&'a str, DraftColumn>,
    statics: BTreeSet<&'a str>,
}

struct DraftColumn {
    cql_type: CqlType,
    mask: Option<Arc<str>>,
}

impl<'a> Draft<'a> {
    fn read(
        keyspace: &Keyspace,
        statement: &'a CreateTable,
        primary_key: &PrimaryKey,
    ) -> Result<Draft<'a>, SchemaError> {
        let mut columns = BTreeMap::new();
        for column in &statement.columns {
            columns.insert(column.name.as_str(), DraftColumn::read(keyspace, column)?);
        }
        let statics = statement
            .columns
            .iter()
            .filter(|column| column.is_static)
            .map(|column| column.name.as_str())
            .collect();
        let draft = Draft { columns, statics };
        if draft.columns.values().any(|column| has_nested_cells(&column.cql_type)) {
            return Err(invalid!(
                "Non-frozen UDTs with nested non-frozen collections are not supported"
            ));
        }
        draft.check_key(primary_key, statement.name.name.as_str(), &keyspace.name)?;
        Ok(draft)
    }

    fn check_key(
        &self,
        primary_key: &PrimaryKey,
        table: &str,
        keyspace: &str,
    ) -> Result<(), SchemaError> {
        let mut seen = BTreeSet::new();
        for name in primary_key.partition.iter().chain(&primary_key.clustering) {
            let Some(column) = self.columns.get(name.as_str()) else {
                return Err(invalid!(
                    "Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'"
                ));
            };
            if !seen.insert(name.as_str()) {
                return Err(invalid!(
                    "Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'"
                ));
            }
            let cql_type = &column.cql_type;
            match cql_type {
                CqlType::User { definition, frozen: false } => {
                    return Err(invalid!(
                        "Invalid non-frozen user-defined type {} for PRIMARY KEY column '{name}'",
                        quote_if_needed(&format!("{keyspace}.{}", definition.name))
                    ));
                }
                other if other.is_multi_cell() => {
                    return Err(invalid!(
                        "Invalid non-frozen collection type {cql_type} for PRIMARY KEY column '{name}'"
                    ));
                }
                _ => {}
            }
            if *cql_type == CqlType::Counter {
                return Err(invalid!(
                    "counter type is not supported for PRIMARY KEY column '{name}'"
                ));
            }
            if cql_type.contains_duration() {
                return Err(invalid!(
                    "duration type is not supported for PRIMARY KEY column '{name}'"
                ));
            }
            if self.statics.contains(name.as_str()) {
                return Err(invalid!("Static column '{name}' cannot be part of the PRIMARY KEY"));
            }
        }
        Ok(())
    }

    /// Everything after the key; says whether it is a counter table.
    fn check(
        &self,
        statement: &CreateTable,
        primary_key: &PrimaryKey,
        table_options: &TableOptions,
    ) -> Result<bool, SchemaError> {
        check_clustering_order(statement, primary_key)?;
        let values: Vec<(&str, &DraftColumn)> = self.values(primary_key);
        if statement.compact_storage {
            self.check_compact(&values, primary_key)?;
        } else if primary_key.clustering.is_empty() && !self.statics.is_empty() {
            return Err(invalid!(
                "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
            ));
        }
        // Only a column that is declared by CQL's own name makes a table of counters.
        let is_native = |raw: &RawType| matches!(raw, RawType::Native(NativeType::Counter));
        let is_counter = statement.columns.iter().any(|column| is_native(&column.column_type));
        if is_counter {
            if values.iter().any(|(_, column)| column.cql_type != CqlType::Counter) {
                return Err(invalid!(
                    "Cannot mix counter and non counter columns in the same table"
                ));
            }
            if table_options.default_time_to_live_s > 0 {
                return Err(invalid!("Cannot set default_time_to_live on a table with counters"));
            }
        }
        Ok(is_counter)
    }

    /// The columns outside of the primary key, by name.
    fn values(&self, primary_key: &PrimaryKey) -> Vec<(&'a str, &DraftColumn)> {
        let is_key = |name: &str| {
            primary_key.partition.iter().chain(&primary_key.clustering).any(|key| *key == *name)
        };
        self.columns
            .iter()
            .filter(|(name, _)| !is_key(name))
            .map(|(name, column)| (*name, column))
            .collect()
    }

    fn check_compact(
        &self,
        values: &[(&str, &DraftColumn)],
        primary_key: &PrimaryKey,
    ) -> Result<(), SchemaError> {
        if values.iter().any(|(_, column)| column.cql_type.is_multi_cell()) {
            return Err(invalid!(
                "Non-frozen collections and UDTs are not supported with COMPACT STORAGE"
            ));
        }
        if !self.statics.is_empty() {
            return Err(invalid!("Static columns are not supported in COMPACT STORAGE tables"));
        }
        if primary_key.clustering.is_empty() {
            if values.is_empty() {
                return Err(invalid!("No definition found that is not part of the PRIMARY KEY"));
            }
        } else if values.len() > 1 {
            let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
            return Err(invalid!(
                "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY (got: {})",
                names.join(", ")
            ));
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of the table, named at the call")]
    fn build(
        &self,
        keyspace: &Keyspace,
        name: &str,
        id: TableId,
        primary_key: &PrimaryKey,
        statement: &CreateTable,
        is_counter: bool,
        options: TableOptions,
    ) -> Table {
        let shape = match (statement.compact_storage, primary_key.clustering.is_empty()) {
            (false, _) => TableShape::Ordinary,
            (true, true) => TableShape::CompactSparse,
            (true, false) => TableShape::CompactDense,
        };
        let mut table = Table {
            id,
            version: 0,
            keyspace: Arc::clone(&keyspace.name),
            name: Arc::from(name),
            columns: Vec::new(),
            partition_key_count: 0,
            clustering_count: 0,
            static_count: 0,
            shape,
            is_counter,
            is_virtual: false,
            options,
            indexes: BTreeMap::new(),
            dropped_columns: BTreeMap::new(),
            next_column_id: 0,
        };
        let mut add = |name: &str, kind: ColumnKind| {
            if let Some(column) = self.columns.get(name) {
                table.add_column(name, column.cql_type.clone(), kind, column.mask.clone(), false);
            }
        };
        for column in &primary_key.partition {
            add(column, ColumnKind::PartitionKey);
        }
        // Of a column that is named twice the first order counts.
        let orders = statement.clustering_order.iter().rev();
        let orders: HashMap<&str, bool> =
            orders.map(|order| (order.column.as_str(), order.descending)).collect();
        for column in &primary_key.clustering {
            let descending = orders.get(column.as_str()).is_some_and(|descending| *descending);
            add(column, ColumnKind::Clustering { descending });
        }
        for (column, _) in self.values(primary_key) {
            let is_static = self.statics.contains(column) || shape == TableShape::CompactSparse;
            add(column, if is_static { ColumnKind::Static } else { ColumnKind::Regular });
        }
        add_hidden_columns(&mut table);
        table
    }
}

/// A compact table always has a clustering and one regular value; those that the statement did not
/// declare are made up and not shown.
fn add_hidden_columns(table: &mut Table) {
    match table.shape {
        TableShape::Ordinary => {}
        TableShape::CompactSparse => {
            let clustering = unused_name(table, "column", 1);
            let kind = ColumnKind::Clustering { descending: false };
            table.add_column(&clustering, CqlType::Text, kind, None, true);
            let value = unused_name(table, "value", 0);
            let cql_type = if table.is_counter { CqlType::Counter } else { CqlType::Blob };
            table.add_column(&value, cql_type, ColumnKind::Regular, None, true);
        }
        TableShape::CompactDense => {
            if table.regulars().is_empty() {
                let value = unused_name(table, "value", 0);
                table.add_column(&value, CqlType::Empty, ColumnKind::Regular, None, true);
            }
        }
    }
}

/// `value`, `value1`, … or `column1`, `column2`, …, whichever is free.
fn unused_name(table: &Table, stem: &str, first: u32) -> String {
    let mut number = first;
    loop {
        let name = if number == 0 { stem.to_string() } else { format!("{stem}{number}") };
        if table.place(&name).is_none() {
            return name;
        }
        number = number.saturating_add(1);
    }
}

impl DraftColumn {
    fn read(keyspace: &Keyspace, column: &ColumnDefinition) -> Result<DraftColumn, SchemaError> {
        let cql_type = resolve::resolve_in(keyspace, &column.column_type)?;
        let mask = match &column.mask {
            Some(written) => Some(mask::read(written, column.name.as_str(), &cql_type)?),
            None => None,
        };
        Ok(DraftColumn { cql_type, mask })
    }
}

fn check_clustering_order(
    statement: &CreateTable,
    primary_key: &PrimaryKey,
) -> Result<(), SchemaError> {
    let orders = &statement.clustering_order;
    let clustering: BTreeSet<&str> = primary_key.clustering.iter().map(Name::as_str).collect();
    let strangers: Vec<&str> = orders
        .iter()
        .filter(|order| !clustering.contains(order.column.as_str()))
        .map(|order| order.column.as_str())
        .collect();
    if !strangers.is_empty() {
        return Err(invalid!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            strangers.join(", ")
        ));
    }
    for (order, expected) in orders.iter().zip(&primary_key.clustering) {
        if order.column == *expected {
            continue;
        }
        if orders.iter().any(|other| other.column == *expected) {
            return Err(invalid!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns ({expected} must appear before {})",
                order.column
            ));
        }
        return Err(invalid!("Missing CLUSTERING ORDER for column {expected}"));
    }
    Ok(())
}

/// What is checked of every table, new or altered.
pub(super) fn check_table(table: &Table) -> Result<(), SchemaError> {
    let fail =
        |message: String| Err(configuration!("{}.{}: {message}", table.keyspace, table.name));
    if table.name.len() > TABLE_NAME_LENGTH_MAX {
        return fail(format!(
            "Table name must not be more than {TABLE_NAME_LENGTH_MAX} characters long (got \"{}\")",
            table.name
        ));
    }
    if !is_word(&table.name) {
        return fail(format!(
            "Table name must not be empty, more than {NAME_LENGTH_MAX} characters long, or contain non-alphanumeric-underscore characters (got \"{}\")",
            table.name
        ));
    }
    for column in in_definition_order(table).into_iter().filter(|column| !column.is_key()) {
        let is_counter = column.cql_type == CqlType::Counter;
        if table.is_counter && !is_counter && !column.name.is_empty() {
            return fail(format!(
                "Cannot have a non counter column (\"{}\") in a counter table",
                column.name
            ));
        }
        if !table.is_counter && is_counter {
            return fail(format!(
                "Cannot have a counter column (\"{}\") in a non counter table",
                column.name
            ));
        }
    }
    Ok(())
}

/// The order of the `CREATE` statement: among static and among regular columns those with one cell
/// come first.
pub(crate) fn in_definition_order(table: &Table) -> Vec<&Column> {
    let mut columns: Vec<&Column> = table.columns.iter().collect();
    columns.sort_by_key(|column| {
        let group = match column.kind {
            ColumnKind::PartitionKey => 0,
            ColumnKind::Clustering { .. } => 1,
            ColumnKind::Static => 2,
            ColumnKind::Regular => 3,
        };
        (group, column.cql_type.is_multi_cell())
    });
    columns
}

/// A user type with a cell per field, one of which would need cells of its own.
pub(super) fn has_nested_cells(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::User { definition, frozen: false } => {
            definition.fields.iter().any(|(_, field)| field.is_multi_cell())
        }
        _ => false,
    }
}

/// `id = …`
fn parse_uuid(text: &str) -> Result<u128, SchemaError> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths = [8, 4, 4, 4, 12];
    let is_uuid = groups.len() == lengths.len()
        && groups.iter().zip(lengths).all(|(group, length)| {
            group.len() == length && group.bytes().all(|b| b.is_ascii_hexdigit())
        });
    let bits = u128::from_str_radix(&groups.concat(), 16).ok().filter(|_| is_uuid);
    bits.ok_or_else(|| configuration!("Invalid table id"))
}

impl Table {
    /// Puts a new column at its place: keys in the order they come, the others by name.
    pub(crate) fn add_column(
        &mut self,
        name: &str,
        cql_type: CqlType,
        kind: ColumnKind,
        mask: Option<Arc<str>>,
        is_hidden: bool,
    ) {
        let id = self.id_for(name);
        let keys = self.partition_key_count + self.clustering_count;
        let place = match kind {
            ColumnKind::PartitionKey => self.partition_key_count,
            ColumnKind::Clustering { .. } => keys,
            ColumnKind::Static => keys + place_by_name(self.statics(), name),
            ColumnKind::Regular => keys + self.static_count + place_by_name(self.regulars(), name),
        };
        match kind {
            ColumnKind::PartitionKey => self.partition_key_count += 1,
            ColumnKind::Clustering { .. } => self.clustering_count += 1,
            ColumnKind::Static => self.static_count += 1,
            ColumnKind::Regular => {}
        }
        let column = Column { id, name: Arc::from(name), cql_type, kind, mask, is_hidden };
        self.columns.insert(place.min(self.columns.len()), column);
    }

    /// Puts new columns outside of the key at their places, all in one step.
    pub(super) fn add_columns(&mut self, added: Vec<Column>) {
        self.static_count += added.iter().filter(|it| it.kind == ColumnKind::Static).count();
        self.columns.extend(added);
        let keys = self.partition_key_count + self.clustering_count;
        if let Some(values) = self.columns.get_mut(keys..) {
            let is_regular = |column: &Column| column.kind == ColumnKind::Regular;
            values.sort_by(|a, b| (is_regular(a), &a.name).cmp(&(is_regular(b), &b.name)));
        }
    }

    /// The identity of a column that is added.
    pub(super) fn id_for(&mut self, name: &str) -> ColumnId {
        match self.dropped_columns.get(name) {
            // What was written after it was dropped is its own again.
            Some(dropped) => dropped.id,
            None => {
                let id = ColumnId(self.next_column_id);
                self.next_column_id = self.next_column_id.saturating_add(1);
                id
            }
        }
    }
}

fn place_by_name(columns: &[Column], name: &str) -> usize {
    columns.partition_point(|column| *column.name < *name)
}
