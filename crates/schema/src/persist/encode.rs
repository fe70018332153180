//! Model to JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use types::{CqlType, UserType};

use crate::model::{
    Column, ColumnKind, DroppedColumn, Index, IndexTarget, Keyspace, Table, TableShape,
};
use crate::options::{TableOptions, Throughput};
use crate::type_text::print_type;

pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

pub(super) fn keyspace(keyspace: &Keyspace) -> Value {
    let types: Vec<Value> =
        in_dependency_order(keyspace).into_iter().map(|definition| user_type(definition)).collect();
    object([
        ("options", keyspace_options(keyspace)),
        ("types", types.into()),
        ("tables", keyspace.tables.values().map(|t| table(t)).collect()),
    ])
}

pub(super) fn keyspace_options(keyspace: &Keyspace) -> Value {
    object([
        ("name", text(&keyspace.name)),
        ("replication", text_map(&keyspace.options.replication)),
        ("durable_writes", keyspace.options.durable_writes.into()),
        ("throughput", throughput(keyspace.options.throughput)),
    ])
}

/// User types by name, but each after those it uses.
pub(crate) fn in_dependency_order(keyspace: &Keyspace) -> Vec<&Arc<UserType>> {
    let mut ordered: Vec<&Arc<UserType>> = Vec::with_capacity(keyspace.types.len());
    for definition in keyspace.types.values() {
        add_after_used(keyspace, definition, &mut ordered);
    }
    ordered
}

/// Types cannot be defined in a circle, so this ends.
fn add_after_used<'k>(
    keyspace: &'k Keyspace,
    definition: &'k Arc<UserType>,
    ordered: &mut Vec<&'k Arc<UserType>>,
) {
    if ordered.iter().any(|other| other.name == definition.name) {
        return;
    }
    for (_, field) in &definition.fields {
        for name in user_types_in(field) {
            if let Some(used) =
                keyspace.types.get(&name).filter(|used| used.name != definition.name)
            {
                add_after_used(keyspace, used, ordered);
            }
        }
    }
    ordered.push(definition);
}

/// The names of the user types that a type mentions, from left to right.
fn user_types_in(cql_type: &CqlType) -> Vec<Arc<str>> {
    match cql_type {
        CqlType::User { definition, .. } => vec![Arc::clone(&definition.name)],
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => user_types_in(element),
        CqlType::Map { key, value, .. } => {
            let mut names = user_types_in(key);
            names.extend(user_types_in(value));
            names
        }
        CqlType::Tuple(parts) => parts.iter().flat_map(user_types_in).collect(),
        _ => Vec::new(),
    }
}

/// A table with the user types that it needs, each after those it uses.
pub(super) fn whole_table(whole: &Table) -> Value {
    let mut types: Vec<&Arc<UserType>> = Vec::new();
    let dropped = whole.dropped_columns.values().map(|dropped| &dropped.cql_type);
    for cql_type in whole.columns.iter().map(|column| &column.cql_type).chain(dropped) {
        add_types_in(cql_type, &mut types);
    }
    object([
        ("keyspace", text(&whole.keyspace)),
        ("types", types.into_iter().map(|definition| user_type(definition)).collect()),
        ("table", table(whole)),
    ])
}

fn add_types_in<'t>(cql_type: &'t CqlType, types: &mut Vec<&'t Arc<UserType>>) {
    match cql_type {
        CqlType::User { definition, .. } => {
            if types.iter().any(|known| known.name == definition.name) {
                return;
            }
            for (_, field) in &definition.fields {
                add_types_in(field, types);
            }
            types.push(definition);
        }
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => add_types_in(element, types),
        CqlType::Map { key, value, .. } => {
            add_types_in(key, types);
            add_types_in(value, types);
        }
        CqlType::Tuple(parts) => parts.iter().for_each(|part| add_types_in(part, types)),
        _ => {}
    }
}

fn user_type(definition: &UserType) -> Value {
    let fields: Vec<Value> = definition
        .fields
        .iter()
        .map(|(name, field)| Value::from(vec![name.to_string(), print_type(field)]))
        .collect();
    object([("name", text(&definition.name)), ("fields", fields.into())])
}

fn table(table: &Table) -> Value {
    let shape = match table.shape {
        TableShape::Ordinary => "ordinary",
        TableShape::CompactDense => "compact dense",
        TableShape::CompactSparse => "compact sparse",
    };
    object([
        ("id", Value::from(table.id.to_string())),
        ("version", table.version.into()),
        ("name", text(&table.name)),
        ("shape", shape.into()),
        ("is_counter", table.is_counter.into()),
        ("next_column_id", table.next_column_id.into()),
        ("columns", table.columns.iter().map(column).collect()),
        (
            "dropped_columns",
            table.dropped_columns.iter().map(|(name, dropped)| gone(name, dropped)).collect(),
        ),
        ("indexes", table.indexes.values().map(|i| index(i)).collect()),
        ("options", options(&table.options)),
    ])
}

fn column(column: &Column) -> Value {
    let kind = match column.kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering { descending: false } => "clustering",
        ColumnKind::Clustering { descending: true } => "clustering descending",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    };
    object([
        ("id", column.id.0.into()),
        ("name", text(&column.name)),
        ("type", type_text(&column.cql_type)),
        ("kind", kind.into()),
        ("mask", column.mask.as_deref().map_or(Value::Null, Value::from)),
        ("is_hidden", column.is_hidden.into()),
    ])
}

fn gone(name: &str, dropped: &DroppedColumn) -> Value {
    object([
        ("name", text(name)),
        ("id", dropped.id.0.into()),
        ("type", type_text(&dropped.cql_type)),
        ("is_static", dropped.is_static.into()),
        ("dropped_at_us", dropped.dropped_at_us.into()),
    ])
}

fn index(index: &Index) -> Value {
    let target = match index.target {
        IndexTarget::Value => "value",
        other => other.word(),
    };
    object([
        ("name", text(&index.name)),
        ("id", Value::from(index.id.to_string())),
        ("column", index.column.0.into()),
        ("target", target.into()),
        ("class", index.class.as_deref().map_or(Value::Null, Value::from)),
        ("options", text_map(&index.options)),
    ])
}

fn options(options: &TableOptions) -> Value {
    object([
        ("additional_write_policy", text(&options.additional_write_policy)),
        ("allow_auto_snapshot", options.allow_auto_snapshot.into()),
        ("bloom_filter_fp_chance", options.bloom_filter_fp_chance.to_string().into()),
        ("caching", text_map(&options.caching)),
        ("cdc", options.cdc.map_or(Value::Null, Value::from)),
        ("comment", text(&options.comment)),
        ("compaction", text_map(&options.compaction)),
        ("compression", text_map(&options.compression)),
        ("crc_check_chance", options.crc_check_chance.to_string().into()),
        ("default_time_to_live_s", options.default_time_to_live_s.into()),
        ("gc_grace_s", options.gc_grace_s.into()),
        ("incremental_backups", options.incremental_backups.into()),
        ("max_index_interval", options.max_index_interval.into()),
        ("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms.into()),
        ("min_index_interval", options.min_index_interval.into()),
        ("read_repair", text(&options.read_repair)),
        ("speculative_retry", text(&options.speculative_retry)),
        ("throughput", throughput(options.throughput)),
    ])
}

fn throughput(throughput: Option<Throughput>) -> Value {
    match throughput {
        None => Value::Null,
        Some(Throughput::Manual(units)) => object([("manual", units.into())]),
        Some(Throughput::Autoscale(units)) => object([("autoscale", units.into())]),
    }
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn type_text(cql_type: &CqlType) -> Value {
    Value::from(print_type(cql_type))
}

fn text_map(map: &BTreeMap<String, String>) -> Value {
    Value::Object(map.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect())
}
