//! The options of `UnifiedCompactionStrategy`.

use super::{Options, is_boolean};
use crate::error::{SchemaError, configuration};
use crate::java;

pub(super) const KNOWN: &[&str] = &[
    "scaling_parameters",
    "base_shard_count",
    "target_sstable_size",
    "flush_size_override",
    "max_sstables_to_compact",
    "expired_sstable_check_frequency_seconds",
    "unsafe_aggressive_sstable_expiration",
    "overlap_inclusion_method",
    "min_sstable_size",
    "sstable_growth",
];

const TARGET_SIZE_DEFAULT: f64 = 1024.0 * 1024.0 * 1024.0;
const TARGET_SIZE_MIN: f64 = 1024.0 * 1024.0;
/// What may stand before a unit, from the smallest to the largest; the blank is one.
const UNIT_PREFIXES: &str = "qryzafpnum KMGTPEZYRQ";

pub(super) fn check(options: &Options<'_>) -> Result<(), SchemaError> {
    if let Some(text) = options.get("scaling_parameters") {
        text.split(',').try_for_each(|value| check_scaling(value.trim()))?;
    }
    if let Some(count) = options.int("base_shard_count")?.filter(|count| *count <= 0) {
        return Err(not_positive("base_shard_count", count.into()));
    }
    let target = check_size(options, "target_sstable_size")?.unwrap_or(TARGET_SIZE_DEFAULT);
    check_size(options, "flush_size_override")?;
    options.int("max_sstables_to_compact")?;
    check_frequency(options)?;
    let expiration = "unsafe_aggressive_sstable_expiration";
    if let Some(text) = options.get(expiration).filter(|text| !is_boolean(text)) {
        return Err(configuration!("{expiration} should either be 'true' or 'false', not {text}"));
    }
    let methods = ["NONE", "SINGLE", "TRANSITIVE"];
    if let Some(text) = options.get("overlap_inclusion_method")
        && !methods.contains(&text.to_uppercase().as_str())
    {
        return Err(configuration!(
            "Invalid overlap inclusion method {text}. The valid options are [NONE, SINGLE, TRANSITIVE]."
        ));
    }
    check_min_size(options, target)?;
    check_growth(options)
}

fn check_scaling(value: &str) -> Result<(), SchemaError> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let level = value.strip_prefix(['L', 'T']).filter(|rest| digits(rest));
    if let Some(level) = level {
        if java::parse_int(level).is_some_and(|level| level >= 2) {
            return Ok(());
        }
        return Err(configuration!("Fan factor cannot be lower than 2 in {value}"));
    }
    if value == "N" || digits(value.strip_prefix(['+', '-']).unwrap_or(value)) {
        return Ok(());
    }
    Err(configuration!("Scaling parameter {value} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"))
}

fn check_size(options: &Options<'_>, name: &str) -> Result<Option<f64>, SchemaError> {
    let Some(text) = options.get(name) else { return Ok(None) };
    match read_bytes(text) {
        Err(reason) => Err(configuration!("{name} {text} is not a valid size in bytes: {reason}")),
        Ok(size) if size < TARGET_SIZE_MIN => Err(configuration!(
            "{name} {text} is not acceptable, size must be at least {}",
            memory_text(TARGET_SIZE_MIN)
        )),
        Ok(size) => Ok(Some(size)),
    }
}

fn check_frequency(options: &Options<'_>) -> Result<(), SchemaError> {
    let name = "expired_sstable_check_frequency_seconds";
    let Some(text) = options.get(name) else { return Ok(()) };
    match java::parse_long(text) {
        None => Err(configuration!("{text} is not a parsable long (base10) for {name}")),
        Some(value) if value <= 0 => Err(not_positive(name, value)),
        Some(_) => Ok(()),
    }
}

fn check_min_size(options: &Options<'_>, target: f64) -> Result<(), SchemaError> {
    let name = "min_sstable_size";
    let Some(text) = options.get(name) else { return Ok(()) };
    let Ok(size) = read_bytes(text) else {
        return Err(configuration!("{text} is not a valid size in bytes for {name}"));
    };
    if size < 0.0 {
        return Err(configuration!(
            "Invalid configuration, {name} should be greater than or equal to 0 (zero)"
        ));
    }
    let limit = (target * std::f64::consts::FRAC_1_SQRT_2).ceil().min(f64::from(i32::MAX));
    if size >= limit {
        return Err(configuration!(
            "Invalid configuration, {name} ({}) should be less than the target size minimum: {}",
            memory_text(size),
            memory_text(limit)
        ));
    }
    Ok(())
}

fn check_growth(options: &Options<'_>) -> Result<(), SchemaError> {
    let Some(text) = options.get("sstable_growth") else { return Ok(()) };
    let trimmed = text.trim();
    let value = match trimmed.strip_suffix('%') {
        Some(percent) => java::parse_double(percent.trim()).map(|value| value / 100.0),
        None => java::parse_double(trimmed),
    };
    match value {
        None => Err(configuration!(
            "sstable_growth is not a valid number between 0 and 1: For input string: \"{text}\""
        )),
        Some(value) if (0.0..=1.0).contains(&value) => Ok(()),
        Some(_) => Err(configuration!("sstable_growth {text} must be between 0 and 1")),
    }
}

fn not_positive(name: &str, value: i64) -> SchemaError {
    configuration!("Invalid configuration, {name} should be positive: {value}")
}

/// `1.5GiB`, `100 MB`, `7B`.
fn read_bytes(text: &str) -> Result<f64, String> {
    let Some(number) = text.strip_suffix('B') else {
        return Err(format!("{text} does not end in unit B"));
    };
    let end =
        number.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(number.len());
    let (digits, rest) = number.split_at_checked(end).unwrap_or((number, ""));
    let Some(value) = java::parse_double(digits) else { return Err("null".to_string()) };
    let mut rest = rest.trim_start().chars();
    let Some(prefix) = rest.next() else { return Ok(value) };
    let unexpected = || format!("Unexpected characters in {text}");
    let power = UNIT_PREFIXES.find(prefix).ok_or_else(unexpected)? as i32
        - UNIT_PREFIXES.find(' ').unwrap_or_default() as i32;
    match (rest.next(), rest.next()) {
        (None, None) => Ok(value * 1000_f64.powi(power)),
        (Some('i'), None) => Ok(value * 1024_f64.powi(power)),
        _ => Err(unexpected()),
    }
}

/// A number of bytes with a binary unit, as Cassandra prints it.
fn memory_text(bytes: f64) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match units.get(unit) {
        Some(prefix) if unit > 0 => format!("{scaled:.3}{prefix}iB"),
        _ => format!("{bytes}B"),
    }
}
