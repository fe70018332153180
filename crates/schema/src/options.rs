//! What stands behind `WITH`.

use std::collections::BTreeMap;

/// The options of a keyspace.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceOptions {
    /// As the user gave it, with the class in its full Java name.
    pub replication: BTreeMap<String, String>,
    /// `durable_writes`; kept and shown, our log is always durable.
    pub durable_writes: bool,
    /// Request units for all its tables together.
    pub throughput: Option<Throughput>,
}

/// How many request units per second were provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// `cosmosdb_provisioned_throughput`
    Manual(u32),
    /// `cosmosdb_autoscale_max_throughput`
    Autoscale(u32),
}

/// The options of a table, with Cassandra's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    pub additional_write_policy: String,
    pub allow_auto_snapshot: bool,
    pub bloom_filter_fp_chance: f64,
    pub caching: BTreeMap<String, String>,
    pub cdc: Option<bool>,
    pub comment: String,
    pub compaction: BTreeMap<String, String>,
    pub compression: BTreeMap<String, String>,
    pub crc_check_chance: f64,
    /// `default_time_to_live`, seconds; acts.
    pub default_time_to_live_s: u32,
    /// `gc_grace_seconds`; acts.
    pub gc_grace_s: u32,
    pub incremental_backups: bool,
    pub max_index_interval: i32,
    pub memtable_flush_period_in_ms: i32,
    pub min_index_interval: i32,
    pub read_repair: String,
    pub speculative_retry: String,
    /// Request units of its own.
    pub throughput: Option<Throughput>,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        let map = |entries: &[(&str, &str)]| {
            entries.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        TableOptions {
            additional_write_policy: "99p".into(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: None,
            comment: String::new(),
            compaction: map(&[
                ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            crc_check_chance: 1.0,
            default_time_to_live_s: 0,
            gc_grace_s: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".into(),
            speculative_retry: "99p".into(),
            throughput: None,
        }
    }
}
