//! What statements may ask for: Cassandra's guardrails.

use protocol::Consistency;

/// From where on a number is told of, or refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Threshold {
    /// More brings a warning; zero: never.
    pub(crate) warn: u64,
    /// More is refused; zero: never.
    pub(crate) fail: u64,
}

/// Consistency levels, by code, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    /// These bring a warning.
    pub(crate) warned: Vec<Consistency>,
    /// These are refused.
    pub(crate) disallowed: Vec<Consistency>,
}

/// What is told of, or refused. Superusers are not looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Guardrails {
    pub(crate) keyspaces: Threshold,
    pub(crate) tables: Threshold,
    pub(crate) columns_per_table: Threshold,
    pub(crate) secondary_indexes_per_table: Threshold,
    pub(crate) fields_per_udt: Threshold,
    pub(crate) vector_dimensions: Threshold,
    pub(crate) items_per_collection: Threshold,
    /// In bytes.
    pub(crate) collection_size: Threshold,
    /// In bytes.
    pub(crate) column_value_size: Threshold,
    pub(crate) page_size: Threshold,
    pub(crate) partition_keys_in_select: Threshold,
    pub(crate) in_select_cartesian_product: Threshold,
    pub(crate) read_consistency_levels: Levels,
    pub(crate) write_consistency_levels: Levels,
    pub(crate) allow_filtering_enabled: bool,
    pub(crate) group_by_enabled: bool,
    pub(crate) user_timestamps_enabled: bool,
    pub(crate) secondary_indexes_enabled: bool,
    pub(crate) alter_table_enabled: bool,
    pub(crate) drop_truncate_table_enabled: bool,
    pub(crate) drop_keyspace_enabled: bool,
}

impl Guardrails {
    /// Those that look at nothing: the default.
    pub(crate) fn off() -> Guardrails {
        Guardrails {
            allow_filtering_enabled: true,
            group_by_enabled: true,
            user_timestamps_enabled: true,
            secondary_indexes_enabled: true,
            alter_table_enabled: true,
            drop_truncate_table_enabled: true,
            drop_keyspace_enabled: true,
            ..Guardrails::default()
        }
    }

    /// All thresholds, with the beginning of their settings' names.
    pub(crate) fn thresholds(&self) -> [(&'static str, Threshold); 12] {
        [
            ("guardrails.keyspaces", self.keyspaces),
            ("guardrails.tables", self.tables),
            ("guardrails.columns_per_table", self.columns_per_table),
            ("guardrails.secondary_indexes_per_table", self.secondary_indexes_per_table),
            ("guardrails.fields_per_udt", self.fields_per_udt),
            ("guardrails.vector_dimensions", self.vector_dimensions),
            ("guardrails.items_per_collection", self.items_per_collection),
            ("guardrails.collection_size", self.collection_size),
            ("guardrails.column_value_size", self.column_value_size),
            ("guardrails.page_size", self.page_size),
            ("guardrails.partition_keys_in_select", self.partition_keys_in_select),
            ("guardrails.in_select_cartesian_product", self.in_select_cartesian_product),
        ]
    }
}
