//! Elements of the schema as the statement that makes them, letter by letter as Cassandra writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cql::quote_if_needed;
use types::UserType;

use crate::ddl::in_definition_order;
use crate::java;
use crate::model::{
    Column, ColumnKind, DroppedColumn, Index, Keyspace, KeyspaceKind, Table, TableShape,
};
use crate::options::TableOptions;

const INDENT: &str = "    ";

/// `CREATE KEYSPACE`
pub(super) fn keyspace(keyspace: &Keyspace) -> String {
    let name = quote_if_needed(&keyspace.name);
    if keyspace.kind == KeyspaceKind::Virtual {
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with CQL.\n\
             Structure, for reference:\nVIRTUAL KEYSPACE {name};\n*/"
        );
    }
    let replication = &keyspace.options.replication;
    let class = replication.get("class").map(String::as_str).unwrap_or_default();
    let class = match class.strip_prefix("org.apache.cassandra.locator.") {
        Some(short) if !short.contains('.') => short,
        _ => class,
    };
    let mut text =
        format!("CREATE KEYSPACE {name} WITH replication = {{'class': {}", quoted(class));
    let keys = replication.keys().map(String::as_str).filter(|key| *key != "class");
    for key in java::hash_map_order(keys) {
        let value = replication.get(key).map(String::as_str).unwrap_or_default();
        let _ = write!(text, ", {}: {}", quoted(key), quoted(value));
    }
    let _ = write!(text, "}}  AND durable_writes = {};", keyspace.options.durable_writes);
    text
}

/// `CREATE TYPE`
pub(super) fn user_type(definition: &UserType) -> String {
    let fields: Vec<String> = definition
        .fields
        .iter()
        .map(|(name, field)| format!("{INDENT}{} {field}", quote_if_needed(name)))
        .collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quote_if_needed(&definition.keyspace),
        quote_if_needed(&definition.name),
        fields.join(",\n")
    )
}

/// `CREATE INDEX`
pub(super) fn index(table: &Table, index: &Index) -> String {
    let custom = if index.class.is_some() { "CUSTOM " } else { "" };
    let mut text = format!(
        "CREATE {custom}INDEX {} ON {} ({})",
        quote_if_needed(&index.name),
        full_name(table),
        index.target_text(table)
    );
    if let Some(class) = &index.class {
        let _ = write!(text, " USING {}", quoted(class));
        if !index.options.is_empty() {
            let _ = write!(text, " WITH OPTIONS = {}", map_text(&index.options));
        }
    }
    text.push(';');
    text
}

/// `CREATE TABLE`; the internals are its id and its dropped columns.
pub(super) fn table(keyspace: &Keyspace, table: &Table, with_internals: bool) -> String {
    let text = plain_table(keyspace, table, with_internals);
    if table.shape == TableShape::Ordinary {
        return text;
    }
    format!(
        "/*\nWarning: Table {} omitted because it has constructs not compatible with CQL (was created via legacy API).\n\
         Approximate structure, for reference:\n(this should not be used to reproduce this schema)\n\n{text}\n*/",
        full_name(table)
    )
}

fn plain_table(keyspace: &Keyspace, table: &Table, with_internals: bool) -> String {
    let is_virtual = keyspace.kind == KeyspaceKind::Virtual;
    let name = full_name(table);
    let mut text = String::new();
    if is_virtual {
        let _ = write!(
            text,
            "/*\nWarning: Table {name} is a virtual table and cannot be recreated with CQL.\n\
             Structure, for reference:\n"
        );
    }
    let verb = if is_virtual { "VIRTUAL" } else { "CREATE" };
    let _ = writeln!(text, "{verb} TABLE {name} (");
    write_columns(&mut text, table, with_internals);
    let _ = write!(text, ") WITH {};", table_options(table, is_virtual, with_internals));
    if is_virtual {
        text.push_str("\n*/");
    }
    if with_internals {
        write_drops(&mut text, table);
    }
    text
}

fn write_columns(text: &mut String, table: &Table, with_dropped: bool) {
    let is_single = table.partition_key_count == 1 && table.clustering_count == 0;
    let dropped = dropped_columns(table);
    // A column that came back is first written as dropped; its ADD stands behind the DROP.
    let columns: Vec<&Column> = in_definition_order(table)
        .into_iter()
        .filter(|column| !column.is_hidden)
        .filter(|column| !(with_dropped && table.dropped_columns.contains_key(&column.name)))
        .collect();
    let has_dropped = with_dropped && !dropped.is_empty();
    for (index, column) in columns.iter().enumerate() {
        let _ = write!(text, "{INDENT}{}", column_text(table, column));
        if is_single && column.kind == ColumnKind::PartitionKey {
            text.push_str(" PRIMARY KEY");
        }
        if !is_single || has_dropped || index + 1 < columns.len() {
            text.push(',');
        }
        text.push('\n');
    }
    if has_dropped {
        for (index, (name, column)) in dropped.iter().enumerate() {
            let suffix = if column.is_static { " static" } else { "" };
            let _ = write!(text, "{INDENT}{} {}{suffix}", quote_if_needed(name), column.cql_type);
            if !is_single || index + 1 < dropped.len() {
                text.push(',');
            }
            text.push('\n');
        }
    }
    if !is_single {
        let _ = writeln!(text, "{INDENT}{}", primary_key(table));
    }
}

fn primary_key(table: &Table) -> String {
    let names = |columns: &[Column]| -> Vec<String> {
        columns
            .iter()
            .filter(|column| !column.is_hidden)
            .map(|column| quote_if_needed(&column.name))
            .collect()
    };
    let partition = names(table.partition_key());
    let mut key = if partition.len() > 1 {
        format!("({})", partition.join(", "))
    } else {
        partition.concat()
    };
    for name in names(table.clustering()) {
        let _ = write!(key, ", {name}");
    }
    format!("PRIMARY KEY ({key})")
}

fn column_text(table: &Table, column: &Column) -> String {
    let mut text = format!("{} {}", quote_if_needed(&column.name), column.cql_type);
    if column.kind == ColumnKind::Static && table.shape != TableShape::CompactSparse {
        text.push_str(" static");
    }
    if let Some(mask) = &column.mask {
        let _ = write!(text, " MASKED WITH {mask}");
    }
    text
}

fn table_options(table: &Table, is_virtual: bool, with_internals: bool) -> String {
    let mut parts = Vec::new();
    if table.shape != TableShape::Ordinary {
        parts.push("COMPACT STORAGE".to_string());
    }
    if with_internals {
        parts.push(format!("ID = {}", table.id));
    }
    if table.clustering_count > 0 {
        let orders: Vec<String> = table
            .clustering()
            .iter()
            .map(|column| {
                let order = if column.is_descending() { "DESC" } else { "ASC" };
                format!("{} {order}", quote_if_needed(&column.name))
            })
            .collect();
        parts.push(format!("CLUSTERING ORDER BY ({})", orders.join(", ")));
    }
    if is_virtual {
        parts.push(format!("comment = {}", quoted(&table.options.comment)));
    } else {
        parts.extend(option_texts(&table.options));
    }
    parts.join("\n    AND ")
}

fn option_texts(options: &TableOptions) -> Vec<String> {
    vec![
        format!("additional_write_policy = {}", quoted(&options.additional_write_policy)),
        format!("allow_auto_snapshot = {}", options.allow_auto_snapshot),
        format!("bloom_filter_fp_chance = {}", java::double_text(options.bloom_filter_fp_chance)),
        format!("caching = {}", map_text(&options.caching)),
        format!("cdc = {}", options.cdc.unwrap_or(false)),
        format!("comment = {}", quoted(&options.comment)),
        format!("compaction = {}", map_text(&options.compaction)),
        format!("compression = {}", map_text(&options.compression)),
        "memtable = 'default'".to_owned(),
        format!("crc_check_chance = {}", java::double_text(options.crc_check_chance)),
        format!("default_time_to_live = {}", options.default_time_to_live_s),
        // Accepted and forgotten, as in Cassandra.
        "extensions = {}".to_owned(),
        format!("gc_grace_seconds = {}", options.gc_grace_s),
        format!("incremental_backups = {}", options.incremental_backups),
        format!("max_index_interval = {}", options.max_index_interval),
        format!("memtable_flush_period_in_ms = {}", options.memtable_flush_period_in_ms),
        format!("min_index_interval = {}", options.min_index_interval),
        format!("read_repair = {}", quoted(&options.read_repair)),
        format!("speculative_retry = {}", quoted(&options.speculative_retry)),
    ]
}

fn write_drops(text: &mut String, table: &Table) {
    for (name, dropped) in dropped_columns(table) {
        let _ = write!(
            text,
            "\nALTER TABLE {} DROP {} USING TIMESTAMP {};",
            full_name(table),
            quote_if_needed(name),
            dropped.dropped_at_us
        );
        if let Some(column) = table.columns.iter().find(|column| *column.name == *name) {
            let added = column_text(table, column);
            let _ = write!(text, "\nALTER TABLE {} ADD {added};", full_name(table));
        }
    }
}

fn dropped_columns(table: &Table) -> Vec<(&str, &DroppedColumn)> {
    java::copied_name_map_order(table.dropped_columns.keys().map(|name| &**name))
        .into_iter()
        .filter_map(|name| table.dropped_columns.get(name).map(|column| (name, column)))
        .collect()
}

fn full_name(table: &Table) -> String {
    format!("{}.{}", quote_if_needed(&table.keyspace), quote_if_needed(&table.name))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn map_text(map: &BTreeMap<String, String>) -> String {
    let entries: Vec<String> =
        map.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value))).collect();
    format!("{{{}}}", entries.join(", "))
}
