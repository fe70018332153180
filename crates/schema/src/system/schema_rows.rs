//! `system_schema`: the schema as rows, in the words of Cassandra.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::NodeFacts;
use super::rows::NamedRow;
use super::values::{bigint, boolean, double, int, list, map, set, text, text_map, uuid};
use crate::mask_text::MaskCall;
use crate::model::{Column, ColumnKind, Index, Keyspace, KeyspaceKind, Schema, Table, TableShape};

/// The rows of one table of `system_schema`.
pub(super) fn rows(table: &str, schema: &Schema) -> Vec<NamedRow> {
    match table {
        "keyspaces" => stored_keyspaces(schema).map(keyspace).collect(),
        "tables" => stored_tables(schema).map(|table| table_row(table)).collect(),
        "columns" => stored_tables(schema).flat_map(|table| columns(table)).collect(),
        "column_masks" => stored_tables(schema).flat_map(|table| masks(table)).collect(),
        "dropped_columns" => stored_tables(schema).flat_map(|table| dropped(table)).collect(),
        "indexes" => stored_tables(schema).flat_map(|table| indexes(table)).collect(),
        "types" => stored_keyspaces(schema).flat_map(user_types).collect(),
        // Views, functions, aggregates and triggers cannot be defined.
        _ => Vec::new(),
    }
}

fn stored_keyspaces(schema: &Schema) -> impl Iterator<Item = &Keyspace> {
    schema
        .keyspaces
        .values()
        .map(|keyspace| &**keyspace)
        .filter(|keyspace| keyspace.kind != KeyspaceKind::Virtual)
}

fn stored_tables(schema: &Schema) -> impl Iterator<Item = &Arc<Table>> {
    stored_keyspaces(schema).flat_map(|keyspace| keyspace.tables.values())
}

fn keyspace(keyspace: &Keyspace) -> NamedRow {
    vec![
        ("keyspace_name", text(&keyspace.name)),
        ("durable_writes", boolean(keyspace.options.durable_writes)),
        ("replication", text_map(&keyspace.options.replication)),
    ]
}

fn table_row(table: &Table) -> NamedRow {
    let options = &table.options;
    // Options that older versions do not know are shown only where they say something.
    let only_false = |flag: bool| if flag { None } else { boolean(false) };
    vec![
        ("keyspace_name", text(&table.keyspace)),
        ("table_name", text(&table.name)),
        ("additional_write_policy", text(&options.additional_write_policy)),
        ("allow_auto_snapshot", only_false(options.allow_auto_snapshot)),
        ("bloom_filter_fp_chance", double(options.bloom_filter_fp_chance)),
        ("caching", text_map(&options.caching)),
        ("comment", text(&options.comment)),
        ("compaction", text_map(&options.compaction)),
        ("compression", text_map(&options.compression)),
        ("crc_check_chance", double(options.crc_check_chance)),
        ("dclocal_read_repair_chance", double(0.0)),
        ("default_time_to_live", int(as_int(options.default_time_to_live_s))),
        ("extensions", map([].into_iter())),
        ("flags", set(flags(table))),
        ("gc_grace_seconds", int(as_int(options.gc_grace_s))),
        ("id", uuid(table.id.0)),
        ("incremental_backups", only_false(options.incremental_backups)),
        ("max_index_interval", int(options.max_index_interval)),
        ("memtable", None),
        ("memtable_flush_period_in_ms", int(options.memtable_flush_period_in_ms)),
        ("min_index_interval", int(options.min_index_interval)),
        ("read_repair", text(&options.read_repair)),
        ("read_repair_chance", double(0.0)),
        ("speculative_retry", text(&options.speculative_retry)),
    ]
}

fn as_int(seconds: u32) -> i32 {
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

/// How old versions would store the table.
fn flags(table: &Table) -> Vec<&'static str> {
    let mut flags = match table.shape {
        TableShape::Ordinary => vec!["compound"],
        TableShape::CompactSparse => vec![],
        TableShape::CompactDense if table.clustering_count > 1 => vec!["compound", "dense"],
        TableShape::CompactDense => vec!["dense"],
    };
    if table.is_counter {
        flags.push("counter");
    }
    flags
}

/// One row per column, of `system_schema` and of `system_virtual_schema`.
pub(super) fn columns(table: &Table) -> Vec<NamedRow> {
    let position = |index: usize| int(i32::try_from(index).unwrap_or(i32::MAX));
    let row = |index: usize, column: &Column| {
        let (kind, order, place) = match column.kind {
            ColumnKind::PartitionKey => ("partition_key", "none", position(index)),
            ColumnKind::Clustering { descending } => {
                let order = if descending { "desc" } else { "asc" };
                ("clustering", order, position(index.saturating_sub(table.partition_key_count)))
            }
            ColumnKind::Static => ("static", "none", int(-1)),
            ColumnKind::Regular => ("regular", "none", int(-1)),
        };
        vec![
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("column_name", text(&column.name)),
            ("clustering_order", text(order)),
            ("column_name_bytes", text(&column.name)),
            ("kind", text(kind)),
            ("position", place),
            ("type", text(&column.cql_type.to_string())),
        ]
    };
    table.columns.iter().enumerate().map(|(index, column)| row(index, column)).collect()
}

fn masks(table: &Table) -> Vec<NamedRow> {
    let row = |column: &Column| {
        let call = MaskCall::parse(column.mask.as_deref()?, &column.cql_type)?;
        let nulls = call.arguments.iter().map(|argument| [u8::from(argument.is_none())]);
        let values = call.arguments.iter().map(|argument| argument.clone().unwrap_or_default());
        Some(vec![
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("column_name", text(&column.name)),
            ("function_keyspace", text(&call.keyspace)),
            ("function_name", text(&call.name)),
            ("function_argument_types", list(&call.argument_types)),
            ("function_argument_values", list(values)),
            ("function_argument_nulls", list(nulls)),
        ])
    };
    table.columns.iter().filter_map(row).collect()
}

fn dropped(table: &Table) -> Vec<NamedRow> {
    table
        .dropped_columns
        .iter()
        .map(|(name, column)| {
            vec![
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("column_name", text(name)),
                ("dropped_time", bigint(column.dropped_at_us.div_euclid(1000))),
                ("kind", text(if column.is_static { "static" } else { "regular" })),
                ("type", text(&column.cql_type.to_string())),
            ]
        })
        .collect()
}

fn indexes(table: &Table) -> Vec<NamedRow> {
    table
        .indexes
        .values()
        .map(|index| {
            vec![
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("index_name", text(&index.name)),
                ("kind", text(if index.class.is_some() { "CUSTOM" } else { "COMPOSITES" })),
                ("options", text_map(&index_options(table, index))),
            ]
        })
        .collect()
}

fn index_options(table: &Table, index: &Index) -> BTreeMap<String, String> {
    let mut options = index.options.clone();
    options.insert("target".to_string(), index.target_text(table));
    if let Some(class) = &index.class {
        options.insert("class_name".to_string(), class.to_string());
    }
    options
}

fn user_types(keyspace: &Keyspace) -> Vec<NamedRow> {
    keyspace
        .types
        .values()
        .map(|definition| {
            let names = definition.fields.iter().map(|(name, _)| name.as_bytes());
            let types = definition.fields.iter().map(|(_, field)| field.to_string());
            vec![
                ("keyspace_name", text(&definition.keyspace)),
                ("type_name", text(&definition.name)),
                ("field_names", list(names)),
                ("field_types", list(types)),
            ]
        })
        .collect()
}

/// Every index with its table.
fn all_indexes(schema: &Schema) -> impl Iterator<Item = (&Table, &Index)> {
    stored_tables(schema)
        .flat_map(|table| table.indexes.values().map(move |index| (table.as_ref(), index.as_ref())))
}

/// `system."IndexInfo"`: indexes that are built, by keyspace.
pub(super) fn built_indexes(schema: &Schema, facts: &NodeFacts) -> Vec<NamedRow> {
    let is_building =
        |id| facts.index_builds.iter().any(|build| build.index == id && !build.is_built);
    all_indexes(schema)
        .filter(|(_, index)| !is_building(index.id))
        .map(|(table, index)| {
            vec![("table_name", text(&table.keyspace)), ("index_name", text(&index.name))]
        })
        .collect()
}

/// `system_helenus.index_builds`: every index, and how far it is built.
pub(super) fn index_builds(schema: &Schema, facts: &NodeFacts) -> Vec<NamedRow> {
    let time = |at_ms: i64| if at_ms == 0 { None } else { bigint(at_ms) };
    all_indexes(schema)
        .map(|(table, index)| {
            let build = facts.index_builds.iter().find(|build| build.index == index.id);
            let is_built = build.is_none_or(|build| build.is_built);
            let row_count = build.map_or(0, |build| build.row_count);
            vec![
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("index_name", text(&index.name)),
                ("state", text(if is_built { "built" } else { "building" })),
                ("progress", double(build.map_or(1.0, |build| build.share))),
                ("rows_read", bigint(i64::try_from(row_count).unwrap_or(i64::MAX))),
                ("started_at", time(build.map_or(0, |build| build.started_at_ms))),
                ("finished_at", time(build.map_or(0, |build| build.finished_at_ms))),
            ]
        })
        .collect()
}
