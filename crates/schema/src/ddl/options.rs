//! The options of a table behind `WITH`: each is checked as Cassandra checks it and kept, although
//! most tune a machinery that we do not have.

use std::collections::BTreeMap;

use super::properties::{OptionMap, PropertyReader};
use super::{compaction, compression, retry_policy};
use crate::error::{SchemaError, configuration};
use crate::java;
use crate::options::{TableOptions, Throughput};

/// The property that provisions request units.
pub(crate) const MANUAL_THROUGHPUT: &str = "cosmosdb_provisioned_throughput";
/// The property that bounds request units which follow the load.
pub(crate) const AUTOSCALE_THROUGHPUT: &str = "cosmosdb_autoscale_max_throughput";

/// Switches of the original that our rows have always on.
const CELL_LEVEL: &[&str] = &[
    "cosmosdb_cell_level_timestamp",
    "cosmosdb_cell_level_timestamp_tombstones",
    "cosmosdb_cell_level_timetolive",
];

/// Least and most of both kinds of throughput; the cosmos profile asks for more.
const THROUGHPUT_MIN: u32 = 1;
const THROUGHPUT_MAX: u32 = 1_000_000;

/// The smallest rate of false positives that Cassandra's filters reach.
const BLOOM_CHANCE_MIN: f64 = 6.71e-5;
/// Twenty years.
const TIME_TO_LIVE_MAX: i32 = 20 * 365 * 24 * 60 * 60;

const PROPERTIES: &[&str] = &[
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
    MANUAL_THROUGHPUT,
    AUTOSCALE_THROUGHPUT,
    "cosmosdb_cell_level_timestamp",
    "cosmosdb_cell_level_timestamp_tombstones",
    "cosmosdb_cell_level_timetolive",
];

/// Options whose signs are not looked at yet.
pub(crate) struct ReadOptions {
    options: TableOptions,
    default_time_to_live_s: i32,
    gc_grace_s: i32,
}

/// Reads the properties over `base`; whether their values make sense is not asked yet.
pub(crate) fn read(
    properties: &PropertyReader<'_>,
    base: &TableOptions,
    is_new: bool,
) -> Result<ReadOptions, SchemaError> {
    let mut options = base.clone();
    let mut bloom_chance = None;
    if let Some(value) = properties.boolean("allow_auto_snapshot")? {
        options.allow_auto_snapshot = value;
    }
    if let Some(value) = properties.double("bloom_filter_fp_chance")? {
        bloom_chance = Some(value);
    }
    if let Some(map) = properties.map("caching")? {
        options.caching = read_caching(map)?;
    }
    if let Some(value) = properties.text("comment")? {
        options.comment = value.to_string();
    }
    if let Some(map) = properties.map("compaction")? {
        options.compaction = compaction::read(map)?;
    }
    if let Some(map) = properties.map("compression")? {
        options.compression = compression::read(map)?;
    }
    if let Some(value) = properties.text("memtable")? {
        check_memtable(value)?;
    }
    let default_time_to_live_s = properties
        .int("default_time_to_live")?
        .unwrap_or_else(|| i32::try_from(base.default_time_to_live_s).unwrap_or(i32::MAX));
    let gc_grace_s = properties
        .int("gc_grace_seconds")?
        .unwrap_or_else(|| i32::try_from(base.gc_grace_s).unwrap_or(i32::MAX));
    if let Some(value) = properties.boolean("incremental_backups")? {
        options.incremental_backups = value;
    }
    if let Some(value) = properties.int("max_index_interval")? {
        options.max_index_interval = value;
    }
    if let Some(value) = properties.int("memtable_flush_period_in_ms")? {
        options.memtable_flush_period_in_ms = value;
    }
    if let Some(value) = properties.int("min_index_interval")? {
        options.min_index_interval = value;
    }
    if let Some(value) = properties.text("speculative_retry")? {
        options.speculative_retry = retry_policy::read(value)?;
    }
    if let Some(value) = properties.text("additional_write_policy")? {
        options.additional_write_policy = retry_policy::read(value)?;
    }
    if let Some(value) = properties.double("crc_check_chance")? {
        options.crc_check_chance = value;
    }
    if let Some(value) = properties.boolean("cdc")? {
        options.cdc = Some(value);
    }
    if let Some(value) = properties.text("read_repair")? {
        options.read_repair = read_repair(value)?;
    }
    // A new table takes the chance that its compaction is made for; an old one keeps its own.
    options.bloom_filter_fp_chance = match bloom_chance {
        Some(-1.0) | None if is_new => compaction::default_bloom_chance(&options.compaction),
        Some(-1.0) => compaction::default_bloom_chance(&options.compaction),
        Some(value) => value,
        None => options.bloom_filter_fp_chance,
    };
    Ok(ReadOptions { options, default_time_to_live_s, gc_grace_s })
}

/// Checks the names of the properties and the values of what was read.
pub(crate) fn check(
    properties: &PropertyReader<'_>,
    read: ReadOptions,
) -> Result<TableOptions, SchemaError> {
    properties.check_names(PROPERTIES)?;
    let mut options = read.finish()?;
    for name in CELL_LEVEL {
        properties.boolean(name)?;
    }
    if let Some(throughput) = read_throughput(properties)? {
        options.throughput = Some(throughput);
    }
    Ok(options)
}

impl ReadOptions {
    /// The signs and bounds of all numbers, in Cassandra's order.
    fn finish(self) -> Result<TableOptions, SchemaError> {
        let options = &self.options;
        compaction::check(&options.compaction)?;
        let chance = options.bloom_filter_fp_chance;
        if chance <= BLOOM_CHANCE_MIN || chance > 1.0 {
            return Err(configuration!(
                "bloom_filter_fp_chance must be larger than {} and less than or equal to 1.0 (got {})",
                java::double_text(BLOOM_CHANCE_MIN),
                java::double_text(chance)
            ));
        }
        let chance = options.crc_check_chance;
        if !(0.0..=1.0).contains(&chance) && !chance.is_nan() {
            return Err(configuration!(
                "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {})",
                java::double_text(chance)
            ));
        }
        let default_time_to_live_s =
            at_least_zero("default_time_to_live", self.default_time_to_live_s)?;
        if self.default_time_to_live_s > TIME_TO_LIVE_MAX {
            return Err(configuration!(
                "default_time_to_live must be less than or equal to {TIME_TO_LIVE_MAX} (got {})",
                self.default_time_to_live_s
            ));
        }
        let gc_grace_s = at_least_zero("gc_grace_seconds", self.gc_grace_s)?;
        let (min, max) = (options.min_index_interval, options.max_index_interval);
        if min < 1 {
            return Err(configuration!(
                "min_index_interval must be greater than or equal to 1 (got {min})"
            ));
        }
        if max < min {
            return Err(configuration!(
                "max_index_interval must be greater than or equal to min_index_interval ({min}) (got {max})"
            ));
        }
        at_least_zero("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms)?;
        Ok(TableOptions { default_time_to_live_s, gc_grace_s, ..self.options })
    }
}

fn at_least_zero(name: &str, value: i32) -> Result<u32, SchemaError> {
    u32::try_from(value)
        .map_err(|_| configuration!("{name} must be greater than or equal to 0 (got {value})"))
}

fn read_caching(mut map: OptionMap) -> Result<BTreeMap<String, String>, SchemaError> {
    let size = map.0.len();
    let keys = match map.take("keys") {
        None => "NONE",
        Some(value) if value.eq_ignore_ascii_case("ALL") => "ALL",
        Some(value) if value.eq_ignore_ascii_case("NONE") => "NONE",
        Some(value) => {
            return Err(configuration!(
                "Invalid value '{value}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
            ));
        }
    };
    let rows = match map.take("rows_per_partition") {
        None => "NONE".to_string(),
        Some(value) if value.eq_ignore_ascii_case("ALL") => "ALL".to_string(),
        Some(value) if value.eq_ignore_ascii_case("NONE") => "NONE".to_string(),
        Some(value) if java::is_numeric(&value) => match java::parse_int(&value) {
            Some(0) => "NONE".to_string(),
            Some(i32::MAX) => "ALL".to_string(),
            Some(count) => count.to_string(),
            None => {
                return Err(SchemaError::Server(format!(
                    "java.lang.NumberFormatException: For input string: \"{value}\""
                )));
            }
        },
        Some(value) => {
            return Err(configuration!(
                "Invalid value '{value}' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and integer values are allowed"
            ));
        }
    };
    if !map.is_empty() {
        return Err(configuration!(
            "Invalid caching sub-options {}: only 'keys' and 'rows_per_partition' are allowed",
            java::copied_keys_text(map.keys(), size)
        ));
    }
    Ok(BTreeMap::from([
        ("keys".to_string(), keys.to_string()),
        ("rows_per_partition".to_string(), rows),
    ]))
}

/// There is one memtable configuration, and a table that names it is like one that names none.
fn check_memtable(name: &str) -> Result<(), SchemaError> {
    if name == "default" {
        return Ok(());
    }
    Err(configuration!("Memtable configuration \"{name}\" not found."))
}

fn read_repair(value: &str) -> Result<String, SchemaError> {
    let upper = value.to_uppercase();
    if upper == "BLOCKING" || upper == "NONE" {
        return Ok(upper);
    }
    Err(SchemaError::Server(format!(
        "java.lang.IllegalArgumentException: No enum constant org.apache.cassandra.service.reads.repair.ReadRepairStrategy.{upper}"
    )))
}

/// The request units per second that the properties provision.
pub(crate) fn read_throughput(
    properties: &PropertyReader<'_>,
) -> Result<Option<Throughput>, SchemaError> {
    let manual = properties.int(MANUAL_THROUGHPUT)?;
    let autoscale = properties.int(AUTOSCALE_THROUGHPUT)?;
    match (manual, autoscale) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(configuration!(
            "{MANUAL_THROUGHPUT} and {AUTOSCALE_THROUGHPUT} cannot be set together"
        )),
        (Some(value), None) => {
            let value = bounded(MANUAL_THROUGHPUT, value)?;
            Ok(Some(Throughput::Manual(value)))
        }
        (None, Some(value)) => {
            let value = bounded(AUTOSCALE_THROUGHPUT, value)?;
            Ok(Some(Throughput::Autoscale(value)))
        }
    }
}

fn bounded(name: &str, value: i32) -> Result<u32, SchemaError> {
    u32::try_from(value)
        .ok()
        .filter(|units| (THROUGHPUT_MIN..=THROUGHPUT_MAX).contains(units))
        .ok_or_else(|| {
            configuration!(
                "{name} must lie between {THROUGHPUT_MIN} and {THROUGHPUT_MAX} (got {value})"
            )
        })
}
