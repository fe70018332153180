//! `compaction = {…}`: checked and kept.

use std::collections::BTreeMap;

use super::properties::OptionMap;
use crate::error::{SchemaError, configuration};
use crate::java;

mod unified;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

/// What every strategy understands.
const SHARED: &[&str] = &[
    "tombstone_threshold",
    "tombstone_compaction_interval",
    "unchecked_tombstone_compaction",
    "log_all",
    "enabled",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
];

const THRESHOLDS: &[&str] = &["min_threshold", "max_threshold"];
const SIZE_TIERED: &[&str] = &["min_sstable_size", "bucket_low", "bucket_high"];
const LEVELED: &[&str] = &["sstable_size_in_mb", "fanout_size", "single_sstable_uplevel"];
const TIME_WINDOW: &[&str] = &[
    "compaction_window_size",
    "compaction_window_unit",
    "timestamp_resolution",
    "expired_sstable_check_frequency_seconds",
    "unsafe_aggressive_sstable_expiration",
];

/// The options as Cassandra stores them: the full class, and the thresholds where it has some.
pub(crate) fn read(mut map: OptionMap) -> Result<BTreeMap<String, String>, SchemaError> {
    let Some(class) = map.take("class") else {
        return Err(configuration!("Missing sub-option 'class' for the 'compaction' option"));
    };
    let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
    let Some(strategy) = Strategy::of(&full) else {
        return Err(match full.as_str() {
            "org.apache.cassandra.db.compaction.CompactionManager" => configuration!(
                "Compaction strategy class {full} is not derived from AbstractReplicationStrategy"
            ),
            _ => configuration!("Unable to find compaction strategy class '{full}'"),
        });
    };
    if let Some(value) = map.get("provide_overlapping_tombstones") {
        let upper = value.to_uppercase();
        if !["NONE", "ROW", "CELL"].contains(&upper.as_str()) {
            return Err(configuration!(
                "Invalid value {upper} for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following [NONE, ROW, CELL]."
            ));
        }
    }
    let mut stored: BTreeMap<String, String> = map.0.into_iter().collect();
    if strategy != Strategy::Unified {
        stored.entry("min_threshold".into()).or_insert_with(|| "4".into());
        stored.entry("max_threshold".into()).or_insert_with(|| "32".into());
    }
    stored.insert("class".into(), full);
    Ok(stored)
}

/// The chance of false positives that a filter gets when the statement names none.
pub(crate) fn default_bloom_chance(compaction: &BTreeMap<String, String>) -> f64 {
    match compaction.get("class").and_then(|class| Strategy::of(class)) {
        Some(Strategy::Leveled) => 0.1,
        _ => 0.01,
    }
}

/// Checks what `read` stored.
pub(crate) fn check(compaction: &BTreeMap<String, String>) -> Result<(), SchemaError> {
    let class = compaction.get("class").map(String::as_str).unwrap_or_default();
    let Some(strategy) = Strategy::of(class) else { return Ok(()) };
    let options = Options(compaction);
    check_shared(&options)?;
    let known: Vec<&[&str]> = match strategy {
        Strategy::SizeTiered => {
            check_size_tiered(&options)?;
            vec![SHARED, THRESHOLDS, SIZE_TIERED]
        }
        Strategy::Leveled => {
            check_leveled(&options)?;
            check_size_tiered(&options)?;
            vec![SHARED, THRESHOLDS, SIZE_TIERED, LEVELED]
        }
        Strategy::TimeWindow => {
            check_time_window(&options)?;
            check_size_tiered(&options)?;
            vec![SHARED, THRESHOLDS, SIZE_TIERED, TIME_WINDOW]
        }
        Strategy::Unified => {
            unified::check(&options)?;
            vec![SHARED, unified::KNOWN]
        }
    };
    let unknown: Vec<&str> = compaction
        .keys()
        .map(String::as_str)
        .filter(|key| *key != "class" && !known.iter().any(|names| names.contains(key)))
        .collect();
    if !unknown.is_empty() {
        return Err(configuration!(
            "Properties specified {} are not understood by {}",
            java::copied_keys_text(unknown, compaction.len().saturating_sub(1)),
            strategy.name()
        ));
    }
    check_thresholds(&options)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    SizeTiered,
    Leveled,
    TimeWindow,
    Unified,
}

impl Strategy {
    fn of(class: &str) -> Option<Strategy> {
        match class.strip_prefix(PACKAGE)? {
            "SizeTieredCompactionStrategy" => Some(Strategy::SizeTiered),
            "LeveledCompactionStrategy" => Some(Strategy::Leveled),
            "TimeWindowCompactionStrategy" => Some(Strategy::TimeWindow),
            "UnifiedCompactionStrategy" => Some(Strategy::Unified),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Strategy::SizeTiered => "SizeTieredCompactionStrategy",
            Strategy::Leveled => "LeveledCompactionStrategy",
            Strategy::TimeWindow => "TimeWindowCompactionStrategy",
            Strategy::Unified => "UnifiedCompactionStrategy",
        }
    }
}

/// The options of a strategy, read with its words for what is wrong.
struct Options<'a>(&'a BTreeMap<String, String>);

impl<'a> Options<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(String::as_str)
    }

    fn long(&self, name: &str) -> Result<Option<i64>, SchemaError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        java::parse_long(text).map(Some).ok_or_else(|| not_an_int(text, name))
    }

    fn int(&self, name: &str) -> Result<Option<i32>, SchemaError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        java::parse_int(text).map(Some).ok_or_else(|| not_an_int(text, name))
    }

    fn double(&self, name: &str, default: f64) -> Result<f64, SchemaError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        java::parse_double(text)
            .ok_or_else(|| configuration!("{text} is not a parsable float for {name}"))
    }
}

fn not_an_int(text: &str, name: &str) -> SchemaError {
    configuration!("{text} is not a parsable int (base10) for {name}")
}

fn is_boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

fn check_shared(options: &Options<'_>) -> Result<(), SchemaError> {
    if let Some(text) = options.get("tombstone_threshold") {
        let Some(value) = java::parse_double(text) else {
            return Err(not_an_int(text, "tombstone_threshold"));
        };
        if value < 0.0 {
            return Err(configuration!(
                "tombstone_threshold must be greater than 0, but was {value:.6}"
            ));
        }
    }
    if let Some(value) = options.long("tombstone_compaction_interval")?.filter(|v| *v < 0) {
        return Err(configuration!(
            "tombstone_compaction_interval must be greater than 0, but was {value}"
        ));
    }
    if let Some(text) = options.get("unchecked_tombstone_compaction").filter(|t| !is_boolean(t)) {
        return Err(configuration!(
            "'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{text}'"
        ));
    }
    if let Some(text) = options.get("log_all").filter(|text| !is_boolean(text)) {
        return Err(configuration!("'log_all' should either be 'true' or 'false', not {text}"));
    }
    if let Some(text) = options.get("enabled").filter(|text| !is_boolean(text)) {
        return Err(configuration!("enabled should either be 'true' or 'false', not {text}"));
    }
    Ok(())
}

fn check_size_tiered(options: &Options<'_>) -> Result<(), SchemaError> {
    if let Some(value) = options.long("min_sstable_size")?.filter(|value| *value < 0) {
        return Err(configuration!("min_sstable_size must be non negative: {value}"));
    }
    let low = options.double("bucket_low", 0.5)?;
    let high = options.double("bucket_high", 1.5)?;
    if high <= low {
        return Err(configuration!(
            "bucket_high value ({}) is less than or equal to the bucket_low value ({})",
            java::double_text(high),
            java::double_text(low)
        ));
    }
    Ok(())
}

fn check_leveled(options: &Options<'_>) -> Result<(), SchemaError> {
    for name in ["sstable_size_in_mb", "fanout_size"] {
        let value = options.int(name).map_err(|_| {
            // Cassandra prints the size for both.
            not_an_int(options.get("sstable_size_in_mb").unwrap_or("1"), name)
        })?;
        if let Some(value) = value.filter(|value| *value < 1) {
            return Err(configuration!("{name} must be larger than 0, but was {value}"));
        }
    }
    Ok(())
}

fn check_time_window(options: &Options<'_>) -> Result<(), SchemaError> {
    let units: [(&str, &[&str]); 2] = [
        ("timestamp_resolution", &["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"]),
        ("compaction_window_unit", &["MINUTES", "HOURS", "DAYS"]),
    ];
    for (name, allowed) in units {
        if let Some(text) = options.get(name).filter(|text| !allowed.contains(text)) {
            return Err(configuration!("{text} is not valid for {name}"));
        }
    }
    if let Some(value) = options.int("compaction_window_size")?.filter(|value| *value < 1) {
        return Err(configuration!("{value} must be greater than 1 for compaction_window_size"));
    }
    let frequency = "expired_sstable_check_frequency_seconds";
    if let Some(value) = options.long(frequency)?.filter(|value| *value < 0) {
        return Err(configuration!("{frequency} must not be negative, but was {value}"));
    }
    let unsafe_expiration = "unsafe_aggressive_sstable_expiration";
    match options.get(unsafe_expiration) {
        Some(text) if !is_boolean(text) => {
            Err(configuration!("{unsafe_expiration} is not 'true' or 'false' ({text})"))
        }
        Some(text) if text.eq_ignore_ascii_case("true") => Err(configuration!(
            "{unsafe_expiration} is requested but not allowed, restart cassandra with -Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it"
        )),
        _ => Ok(()),
    }
}

fn check_thresholds(options: &Options<'_>) -> Result<(), SchemaError> {
    for name in THRESHOLDS {
        if let Some(text) = options.get(name).filter(|text| !java::is_numeric(text)) {
            return Err(configuration!(
                "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
            ));
        }
    }
    let number = |name: &str, default: i32| match options.get(name) {
        Some(text) => java::parse_int(text).ok_or_else(|| {
            SchemaError::Server(format!(
                "java.lang.NumberFormatException: For input string: \"{text}\""
            ))
        }),
        None => Ok(default),
    };
    let (min, max) = (number("min_threshold", 4)?, number("max_threshold", 32)?);
    if min <= 0 || max <= 0 {
        return Err(configuration!(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the \
             compaction option 'enabled' to false instead."
        ));
    }
    if min <= 1 {
        return Err(configuration!("Min compaction threshold cannot be less than 2 (got {min})"));
    }
    if min > max {
        return Err(configuration!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        ));
    }
    Ok(())
}
