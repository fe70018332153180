//! A value as the text of a file, and back: as `SELECT JSON` writes it.

use serde_json::Value;
use types::CqlType;
use types::value::format::to_cql_text_unquoted;
use types::value::json::{from_json, to_json};

/// The value as JSON. What JSON has no number for is a string.
pub fn to_json_text(ty: &CqlType, bytes: &[u8]) -> String {
    if bytes.is_empty() && !matches!(ty, CqlType::Ascii | CqlType::Text | CqlType::Blob) {
        return "\"\"".to_owned();
    }
    let text = to_json(ty, bytes);
    match ty {
        CqlType::Float | CqlType::Double if text == "null" => {
            format!("\"{}\"", to_cql_text_unquoted(ty, bytes))
        }
        _ => text,
    }
}

/// The value as the text of a CSV field.
pub fn to_field(ty: &CqlType, bytes: &[u8]) -> String {
    match ty {
        CqlType::Ascii | CqlType::Text => String::from_utf8_lossy(bytes).into_owned(),
        _ => {
            let text = to_json_text(ty, bytes);
            match is_json_field(ty) {
                true => text,
                // Without the quotes of a JSON string; nothing in it needs an escape.
                false => text.trim_matches('"').to_owned(),
            }
        }
    }
}

/// Whether a field holds JSON: it is made of parts.
fn is_json_field(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::User { .. }
            | CqlType::Vector { .. }
    )
}

/// Reads JSON. Numbers keep all their digits, which CQL's own reader rounds as Cassandra's does.
pub fn read_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map(exact).map_err(|error| error.to_string())
}

/// Every number as the string of its digits, which every numeric type takes.
fn exact(json: Value) -> Value {
    match json {
        Value::Number(number) => Value::String(number.to_string()),
        Value::Array(items) => Value::Array(items.into_iter().map(exact).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, exact(value))).collect())
        }
        other => other,
    }
}

/// The bytes of a JSON value; `None` for null.
pub fn of_json(ty: &CqlType, json: &Value) -> Result<Option<Vec<u8>>, String> {
    let is_text = matches!(ty, CqlType::Ascii | CqlType::Text | CqlType::Blob);
    if !is_text && json.as_str() == Some("") {
        return Ok(Some(Vec::new()));
    }
    // As earlier versions wrote them.
    if let (CqlType::Duration | CqlType::Vector { .. }, Some(text)) = (ty, json.as_str())
        && text.starts_with("0x")
    {
        return from_json(&CqlType::Blob, json).map_err(|error| error.to_string());
    }
    // A counter is written as the number it is added by.
    let ty = if *ty == CqlType::Counter { &CqlType::BigInt } else { ty };
    from_json(ty, json).map_err(|error| error.to_string())
}

/// The bytes of a CSV field.
pub fn of_field(ty: &CqlType, field: &str) -> Result<Option<Vec<u8>>, String> {
    let is_old_vector = matches!(ty, CqlType::Vector { .. }) && field.starts_with("0x");
    if is_json_field(ty) && !field.is_empty() && !is_old_vector {
        let json = read_json(field)?;
        return of_json(ty, &json);
    }
    of_json(ty, &Value::String(field.to_owned()))
}
