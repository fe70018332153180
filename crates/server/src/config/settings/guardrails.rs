//! The settings of guardrails. Their names are those of Cassandra's, without `_threshold`.

use protocol::Consistency;

use super::super::form::{self, BadValue, Form};
use super::Setting;

const LEVELS: Form = Form::Names(
    "ANY, ONE, TWO, THREE, QUORUM, ALL, LOCAL_QUORUM, EACH_QUORUM, SERIAL, LOCAL_SERIAL, LOCAL_ONE, NODE_LOCAL",
);

macro_rules! threshold {
    ($name:literal, $form:expr, $doc:literal, $field:ident.$part:ident) => {
        setting!($name, $form, "0", $doc, guardrails.$field.$part = form::bytes)
    };
}

macro_rules! levels {
    ($name:literal, $doc:literal, $field:ident.$part:ident) => {
        setting!($name, LEVELS, "", $doc, guardrails.$field.$part = level_names)
    };
}

macro_rules! enabled {
    ($name:literal, $doc:literal, $field:ident) => {
        setting!($name, Form::Flag, "true", $doc, guardrails.$field = form::flag)
    };
}

pub(super) static GUARDRAILS: &[Setting] = &[
    threshold!(
        "guardrails.keyspaces_warn",
        Form::Count,
        "Keyspaces of users; system keyspaces do not count. Above warn CREATE KEYSPACE brings a warning,\nabove fail it is refused. 0, here and below: never.\nIn Cassandra: keyspaces_warn_threshold.",
        keyspaces.warn
    ),
    threshold!(
        "guardrails.keyspaces_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: keyspaces_fail_threshold.",
        keyspaces.fail
    ),
    threshold!(
        "guardrails.tables_warn",
        Form::Count,
        "Tables of users, of all keyspaces together.\nIn Cassandra: tables_warn_threshold.",
        tables.warn
    ),
    threshold!(
        "guardrails.tables_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: tables_fail_threshold.",
        tables.fail
    ),
    threshold!(
        "guardrails.columns_per_table_warn",
        Form::Count,
        "Columns of a table, for CREATE TABLE and ALTER TABLE ADD.\nIn Cassandra: columns_per_table_warn_threshold.",
        columns_per_table.warn
    ),
    threshold!(
        "guardrails.columns_per_table_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: columns_per_table_fail_threshold.",
        columns_per_table.fail
    ),
    threshold!(
        "guardrails.secondary_indexes_per_table_warn",
        Form::Count,
        "Secondary indexes of a table.\nIn Cassandra: secondary_indexes_per_table_warn_threshold.",
        secondary_indexes_per_table.warn
    ),
    threshold!(
        "guardrails.secondary_indexes_per_table_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: secondary_indexes_per_table_fail_threshold.",
        secondary_indexes_per_table.fail
    ),
    threshold!(
        "guardrails.fields_per_udt_warn",
        Form::Count,
        "Fields of a user type.\nIn Cassandra: fields_per_udt_warn_threshold.",
        fields_per_udt.warn
    ),
    threshold!(
        "guardrails.fields_per_udt_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: fields_per_udt_fail_threshold.",
        fields_per_udt.fail
    ),
    threshold!(
        "guardrails.vector_dimensions_warn",
        Form::Count,
        "Dimensions of a vector that a column or field is declared with.\nIn Cassandra: vector_dimensions_warn_threshold.",
        vector_dimensions.warn
    ),
    threshold!(
        "guardrails.vector_dimensions_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: vector_dimensions_fail_threshold.",
        vector_dimensions.fail
    ),
    threshold!(
        "guardrails.items_per_collection_warn",
        Form::Count,
        "Elements that a statement gives a collection, or adds to it. Those that are there already are\nnot counted.\nIn Cassandra: items_per_collection_warn_threshold.",
        items_per_collection.warn
    ),
    threshold!(
        "guardrails.items_per_collection_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: items_per_collection_fail_threshold.",
        items_per_collection.fail
    ),
    threshold!(
        "guardrails.collection_size_warn",
        Form::Bytes,
        "Bytes that a statement writes into a collection.\nIn Cassandra: collection_size_warn_threshold.",
        collection_size.warn
    ),
    threshold!(
        "guardrails.collection_size_fail",
        Form::Bytes,
        "The same, refused.\nIn Cassandra: collection_size_fail_threshold.",
        collection_size.fail
    ),
    threshold!(
        "guardrails.column_value_size_warn",
        Form::Bytes,
        "Bytes of a value, and of an element or key of a collection. Values of keys do not count.\nIn Cassandra: column_value_size_warn_threshold.",
        column_value_size.warn
    ),
    threshold!(
        "guardrails.column_value_size_fail",
        Form::Bytes,
        "The same, refused.\nIn Cassandra: column_value_size_fail_threshold.",
        column_value_size.fail
    ),
    threshold!(
        "guardrails.page_size_warn",
        Form::Count,
        "Rows per page that a client asks for.\nIn Cassandra: page_size_warn_threshold.",
        page_size.warn
    ),
    threshold!(
        "guardrails.page_size_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: page_size_fail_threshold.",
        page_size.fail
    ),
    threshold!(
        "guardrails.partition_keys_in_select_warn",
        Form::Count,
        "Logical partitions that a SELECT names with IN.\nIn Cassandra: partition_keys_in_select_warn_threshold.",
        partition_keys_in_select.warn
    ),
    threshold!(
        "guardrails.partition_keys_in_select_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: partition_keys_in_select_fail_threshold.",
        partition_keys_in_select.fail
    ),
    threshold!(
        "guardrails.in_select_cartesian_product_warn",
        Form::Count,
        "Keys that the IN lists of a statement make together.\nIn Cassandra: in_select_cartesian_product_warn_threshold.",
        in_select_cartesian_product.warn
    ),
    threshold!(
        "guardrails.in_select_cartesian_product_fail",
        Form::Count,
        "The same, refused.\nIn Cassandra: in_select_cartesian_product_fail_threshold.",
        in_select_cartesian_product.fail
    ),
    levels!(
        "guardrails.read_consistency_levels_warned",
        "Levels of reads that bring a warning: names separated by commas.",
        read_consistency_levels.warned
    ),
    levels!(
        "guardrails.read_consistency_levels_disallowed",
        "Levels of reads that are refused.",
        read_consistency_levels.disallowed
    ),
    levels!(
        "guardrails.write_consistency_levels_warned",
        "Levels of writes that bring a warning: names separated by commas.",
        write_consistency_levels.warned
    ),
    levels!(
        "guardrails.write_consistency_levels_disallowed",
        "Levels of writes that are refused. A write has a serial level too, SERIAL unless its client says another.",
        write_consistency_levels.disallowed
    ),
    enabled!(
        "guardrails.allow_filtering_enabled",
        "Whether ALLOW FILTERING may be used, except on system tables, where it always may.",
        allow_filtering_enabled
    ),
    enabled!("guardrails.group_by_enabled", "Whether GROUP BY may be used.", group_by_enabled),
    enabled!(
        "guardrails.user_timestamps_enabled",
        "Whether USING TIMESTAMP may be used.",
        user_timestamps_enabled
    ),
    enabled!(
        "guardrails.secondary_indexes_enabled",
        "Whether CREATE INDEX may be used.",
        secondary_indexes_enabled
    ),
    enabled!(
        "guardrails.alter_table_enabled",
        "Whether ALTER TABLE may add, drop and rename columns.",
        alter_table_enabled
    ),
    enabled!(
        "guardrails.drop_truncate_table_enabled",
        "Whether DROP TABLE and TRUNCATE may be used.",
        drop_truncate_table_enabled
    ),
    enabled!(
        "guardrails.drop_keyspace_enabled",
        "Whether DROP KEYSPACE may be used.",
        drop_keyspace_enabled
    ),
];

/// Levels by their names, by code, each once.
fn level_names(text: &str) -> Result<Vec<Consistency>, BadValue> {
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_named = |level: &Consistency, name: &str| level.to_string().eq_ignore_ascii_case(name);
    let is_level = |name: &&str| Consistency::ALL.iter().any(|level| is_named(level, name));
    if !names.iter().all(is_level) {
        return Err(BadValue);
    }
    let is_wanted = |level: &Consistency| names.iter().any(|name| is_named(level, name));
    Ok(Consistency::ALL.into_iter().filter(is_wanted).collect())
}
