//! `compression = {…}`: checked and kept.

use std::collections::BTreeMap;

use super::properties::OptionMap;
use crate::error::{SchemaError, configuration};
use crate::java;

const PACKAGE: &str = "org.apache.cassandra.io.compress.";
const CHUNK_KB_DEFAULT: i64 = 16;

/// The compressors there are, with the options each takes.
const COMPRESSORS: &[(&str, &[&str])] = &[
    ("LZ4Compressor", &["lz4_high_compressor_level", "lz4_compressor_type"]),
    ("SnappyCompressor", &[]),
    ("DeflateCompressor", &[]),
    ("ZstdCompressor", &["compression_level"]),
    ("NoopCompressor", &[]),
];

/// The options as Cassandra stores them.
pub(crate) fn read(mut map: OptionMap) -> Result<BTreeMap<String, String>, SchemaError> {
    let size = map.0.len();
    let enabled = map.get("enabled").is_none_or(java::parse_boolean);
    if !map.is_empty() && enabled && map.get("class").is_none() {
        return Err(configuration!("Missing sub-option 'class' for the 'compression' option."));
    }
    map.take("enabled");
    if !enabled && !map.is_empty() {
        return Err(configuration!(
            "If the 'enabled' option is set to false no other options must be specified"
        ));
    }
    let class = map.take("class");
    if class.as_deref() == Some("") {
        return Err(configuration!(
            "The 'class' option must not be empty. To disable compression use 'enabled' : false"
        ));
    }
    let chunk_kb = match map.take("chunk_length_in_kb") {
        Some(text) => read_chunk_length(&text)?,
        None => CHUNK_KB_DEFAULT,
    };
    let ratio = match map.take("min_compress_ratio") {
        Some(text) => Some(java::parse_double(&text).ok_or_else(|| {
            SchemaError::Server(format!(
                "java.lang.NumberFormatException: For input string: \"{text}\""
            ))
        })?),
        None => None,
    };
    let Some(class) = class else {
        if !map.is_empty() {
            return Err(configuration!(
                "Unknown compression options ({}) since no compression class found",
                java::copied_keys_text(map.keys(), size)
            ));
        }
        check(chunk_kb, ratio)?;
        return Ok(BTreeMap::from([("enabled".to_string(), "false".to_string())]));
    };
    let full_class = check_class(&class, &map)?;
    check(chunk_kb, ratio)?;
    let mut stored: BTreeMap<String, String> = map.0.into_iter().collect();
    stored.insert("class".into(), full_class);
    stored.insert("chunk_length_in_kb".into(), chunk_kb.to_string());
    if let Some(ratio) = ratio.filter(|ratio| *ratio != 0.0) {
        stored.insert("min_compress_ratio".into(), java::double_text(ratio));
    }
    Ok(stored)
}

fn read_chunk_length(text: &str) -> Result<i64, SchemaError> {
    let Some(value) = java::parse_int(text) else {
        return Err(configuration!("Invalid value for chunk_length_in_kb"));
    };
    if value > i32::MAX / 1024 {
        return Err(configuration!("Value of chunk_length_in_kb is too large ({value})"));
    }
    Ok(value.into())
}

/// The full name of the class, after its options were found to be its own.
fn check_class(class: &str, options: &OptionMap) -> Result<String, SchemaError> {
    let full = if class.contains('.') { class.to_string() } else { format!("{PACKAGE}{class}") };
    let known = COMPRESSORS
        .iter()
        .find(|(name, _)| full.strip_prefix(PACKAGE).is_some_and(|short| short == *name));
    let Some((name, supported)) = known else {
        return Err(configuration!("Could not create Compression for type {full}"));
    };
    match *name {
        "LZ4Compressor" => check_lz4(options)?,
        "ZstdCompressor" => check_zstd(options)?,
        _ => {}
    }
    let unknown = java::hash_map_order(options.keys());
    match unknown.into_iter().find(|key| !supported.contains(key)) {
        Some(key) => Err(configuration!("Unknown compression options {key}")),
        None => Ok(full),
    }
}

fn check_lz4(options: &OptionMap) -> Result<(), SchemaError> {
    let kind = options.get("lz4_compressor_type");
    if let Some(kind) = kind.filter(|kind| !["fast", "high"].contains(kind)) {
        return Err(configuration!(
            "Invalid compressor type '{kind}' specified for LZ4 parameter 'lz4_compressor_type'. Valid options are [high, fast]."
        ));
    }
    let Some(text) = options.get("lz4_high_compressor_level") else { return Ok(()) };
    match java::parse_int(text) {
        Some(1..=17) => Ok(()),
        _ => Err(configuration!(
            "Invalid value [{text}] for parameter 'lz4_high_compressor_level'. Value must be between 1 and 17."
        )),
    }
}

fn check_zstd(options: &OptionMap) -> Result<(), SchemaError> {
    let Some(text) = options.get("compression_level") else { return Ok(()) };
    match java::parse_int(text) {
        Some(-131_072..=22) => Ok(()),
        Some(level) => Err(configuration!(
            "ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException compression_level={level} is invalid"
        )),
        None => Err(configuration!(
            "ZstdCompressor.create() threw an error: java.lang.NumberFormatException For input string: \"{text}\""
        )),
    }
}

fn check(chunk_kb: i64, ratio: Option<f64>) -> Result<(), SchemaError> {
    if chunk_kb <= 0 {
        return Err(configuration!("Invalid negative or null chunk_length_in_kb"));
    }
    if chunk_kb & (chunk_kb - 1) != 0 {
        return Err(configuration!("chunk_length_in_kb must be a power of 2"));
    }
    let Some(ratio) = ratio else { return Ok(()) };
    let chunk = (chunk_kb * 1024) as f64;
    let length_max = (chunk / ratio).min(f64::from(i32::MAX)).ceil();
    if length_max < 0.0 {
        return Err(configuration!("Invalid negative min_compress_ratio"));
    }
    if length_max > chunk && length_max < f64::from(i32::MAX) {
        return Err(configuration!(
            "min_compress_ratio can either be 0 or greater than or equal to 1"
        ));
    }
    Ok(())
}
