//! JSON forms of values: `SELECT JSON`, `INSERT … JSON`, `toJson` and `fromJson`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use num_bigint::BigInt;
use serde_json::Value;

use super::collection::{self, ListIter, MapIter, TupleIter, VectorIter};
use super::custom::Custom;
use super::error::ValueError;
use super::format::{native_text, to_hex};
use super::text::parse_text;
use super::{java_float, json_reader, temporal};
use crate::CqlType;

/// Strings inside of JSON may hold JSON again; this many levels of values are followed.
const DEPTH_MAX: usize = 128;

/// Whether values of a type have a JSON form; composites have none.
pub fn has_json(ty: &CqlType) -> bool {
    !ty.contains(&|part| match part {
        CqlType::Custom(class) => !Custom::of(class).has_json(),
        _ => false,
    })
}

/// The value as JSON text.
pub fn to_json(ty: &CqlType, bytes: &[u8]) -> String {
    let mut out = String::new();
    write_json(ty, bytes, &mut out);
    out
}

/// Appends text with the escapes of JSON, without the quotes around it.
pub fn escape_json(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            other => out.push(other),
        }
    }
}

fn write_json(ty: &CqlType, bytes: &[u8], out: &mut String) {
    match ty {
        CqlType::Ascii | CqlType::Text => {
            out.push('"');
            escape_json(&String::from_utf8_lossy(bytes), out);
            out.push('"');
        }
        CqlType::Custom(class) if matches!(Custom::of(class), Custom::LexicalUuid) => {
            let text = native_text(&CqlType::Uuid, bytes).unwrap_or_default();
            let _ = write!(out, "\"{text}\"");
        }
        CqlType::Blob | CqlType::Custom(_) => {
            let _ = write!(out, "\"0x{}\"", to_hex(bytes));
        }
        CqlType::Timestamp => match <[u8; 8]>::try_from(bytes) {
            Ok(millis) => {
                let text = temporal::format_timestamp(i64::from_be_bytes(millis), ' ');
                let _ = write!(out, "\"{text}\"");
            }
            Err(_) => out.push_str("\"\""),
        },
        CqlType::Float | CqlType::Double => match native_text(ty, bytes).as_deref() {
            Some("") | None => out.push_str("\"\""),
            // JSON has no such numbers.
            Some("NaN" | "Infinity" | "-Infinity") => out.push_str("null"),
            Some(text) => out.push_str(text),
        },
        CqlType::BigInt
        | CqlType::Boolean
        | CqlType::Counter
        | CqlType::Decimal
        | CqlType::Int
        | CqlType::SmallInt
        | CqlType::TinyInt
        | CqlType::Varint => match native_text(ty, bytes).as_deref() {
            Some("") | None => out.push_str("\"\""),
            Some(text) => out.push_str(text),
        },
        CqlType::Date
        | CqlType::Duration
        | CqlType::Empty
        | CqlType::Inet
        | CqlType::Time
        | CqlType::TimeUuid
        | CqlType::Uuid => {
            let _ = write!(out, "\"{}\"", native_text(ty, bytes).unwrap_or_default());
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            // Only a list that a statement makes of columns has nulls. Cassandra shows that of a
            // decimal as an empty value, and fails for the other types.
            let null = (**element == CqlType::Decimal).then_some(&[] as &[u8]);
            let elements = ListIter::new(bytes).map_while(Result::ok);
            write_array(elements.map(|item| (&**element, item.or(null))), out);
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorIter::new(element, *dimension, bytes).map_while(Result::ok);
            write_array(elements.map(|item| (&**element, Some(item))), out);
        }
        CqlType::Map { key, value, .. } => write_map(key, value, bytes, out),
        CqlType::Tuple(types) => {
            let components = TupleIter::new(bytes).map_while(Result::ok);
            // Components that the value does not have are null.
            let components = components.chain(std::iter::repeat(None));
            write_array(types.iter().zip(components), out);
        }
        CqlType::User { definition, .. } => {
            let components = TupleIter::new(bytes).map_while(Result::ok);
            let components = components.chain(std::iter::repeat(None));
            out.push('{');
            for (index, ((name, ty), field)) in definition.fields.iter().zip(components).enumerate()
            {
                out.push_str(if index > 0 { ", \"" } else { "\"" });
                escape_json(&json_key(name), out);
                out.push_str("\": ");
                write_nullable(ty, field, out);
            }
            out.push('}');
        }
    }
}

/// A name as a JSON key: names with upper-case letters keep their quotes.
pub fn json_key(name: &str) -> Cow<'_, str> {
    if name.to_lowercase() == name {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("\"{name}\""))
    }
}

fn write_nullable(ty: &CqlType, bytes: Option<&[u8]>, out: &mut String) {
    match bytes {
        Some(bytes) => write_json(ty, bytes, out),
        None => out.push_str("null"),
    }
}

fn write_array<'v>(items: impl Iterator<Item = (&'v CqlType, Option<&'v [u8]>)>, out: &mut String) {
    out.push('[');
    for (index, (ty, item)) in items.enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        write_nullable(ty, item, out);
    }
    out.push(']');
}

/// Keys must be strings, so other keys are wrapped into one.
fn write_map(key: &CqlType, value: &CqlType, bytes: &[u8], out: &mut String) {
    out.push('{');
    for (index, (entry_key, entry_value)) in MapIter::new(bytes).map_while(Result::ok).enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        let text = to_json(key, entry_key);
        if text.starts_with('"') {
            out.push_str(&text);
        } else {
            out.push('"');
            escape_json(&text, out);
            out.push('"');
        }
        out.push_str(": ");
        write_json(value, entry_value, out);
    }
    out.push('}');
}

/// The bytes of a JSON value; `None` for null.
pub fn from_json(ty: &CqlType, json: &Value) -> Result<Option<Vec<u8>>, ValueError> {
    match json {
        Value::Null => Ok(None),
        other => read_json(ty, other, DEPTH_MAX).map(Some),
    }
}

/// Reads JSON text, as a value or as the text of a nested one.
pub fn decode_json(text: &str) -> Result<Value, ValueError> {
    json_reader::read(text).map_err(|error| ValueError::JsonSyntax(error.message.into()))
}

/// As [`decode_json`], with the name of Jackson's exception before its complaint, as Java shows it.
pub fn decode_json_as_java(text: &str) -> Result<Value, String> {
    json_reader::read(text).map_err(|error| format!("{}: {}", error.class, error.message))
}

fn read_json(ty: &CqlType, json: &Value, depth: usize) -> Result<Vec<u8>, ValueError> {
    let depth = depth.checked_sub(1).ok_or(ValueError::JsonDepth)?;
    match ty {
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::User { .. }
        | CqlType::Vector { .. } => match json {
            Value::String(text) => read_composite(ty, &decode_json(text)?, depth),
            other => read_composite(ty, other, depth),
        },
        _ => read_native(ty, json),
    }
}

fn read_native(ty: &CqlType, json: &Value) -> Result<Vec<u8>, ValueError> {
    let string_of = |expected| match json {
        Value::String(text) => parse_text(ty, text),
        other => Err(wrong_kind(expected, other)),
    };
    match ty {
        CqlType::Ascii => string_of("an ascii string"),
        CqlType::Text => string_of("a UTF-8 string"),
        CqlType::Date => string_of("a string representation of a date value"),
        CqlType::Duration => string_of("a string representation of a duration"),
        CqlType::Inet => string_of("a string representation of an inet value"),
        CqlType::Time => string_of("a string representation of a time value"),
        CqlType::TimeUuid => string_of("a string representation of a timeuuid"),
        CqlType::Uuid => string_of("a string representation of a uuid"),
        CqlType::Timestamp => match Number::of(json) {
            Some(Number::Long(millis)) => Ok(millis.to_be_bytes().into()),
            _ => string_of("a long or a datestring representation of a timestamp value"),
        },
        CqlType::TinyInt | CqlType::SmallInt => match json {
            Value::String(_) | Value::Number(_) => parse_text(ty, &java_text(json)),
            other if *ty == CqlType::TinyInt => Err(wrong_kind("a byte value", other)),
            other => Err(wrong_kind("a short value", other)),
        },
        CqlType::Int => match Number::of(json) {
            Some(Number::Integer(value)) => Ok(value.to_be_bytes().into()),
            _ => string_of("an int value"),
        },
        CqlType::BigInt => match Number::of(json) {
            Some(Number::Integer(value)) => Ok(i64::from(value).to_be_bytes().into()),
            Some(Number::Long(value)) => Ok(value.to_be_bytes().into()),
            _ => string_of("a bigint value"),
        },
        CqlType::Float => match Number::of(json) {
            Some(number) => Ok(number.as_f32().to_be_bytes().into()),
            None => string_of("a float value"),
        },
        CqlType::Double => match Number::of(json) {
            Some(number) => Ok(number.as_f64().to_be_bytes().into()),
            None => string_of("a double value"),
        },
        CqlType::Boolean => match json {
            Value::Bool(value) => Ok(vec![u8::from(*value)]),
            _ => string_of("a boolean value"),
        },
        CqlType::Decimal => {
            number_text(ty, json, "' is not a valid representation of a decimal value")
        }
        CqlType::Varint if *json == Value::String(String::new()) => {
            Err(bad_number(json, "' is not a valid representation of a varint value"))
        }
        CqlType::Varint => {
            number_text(ty, json, "' is not a valid representation of a varint value")
        }
        CqlType::Custom(class) => match Custom::of(class) {
            Custom::Other => read_blob(json),
            Custom::LexicalUuid => string_of("a string representation of a uuid"),
            _ => Err(ValueError::JsonUnsupported),
        },
        CqlType::Blob => read_blob(json),
        CqlType::Empty => match json {
            Value::String(text) => parse_text(ty, text),
            other => Err(ValueError::Unreadable {
                before: "Expected an empty string, but got: ",
                text: java_text(other).into(),
                after: "",
            }),
        },
        _ => Err(ValueError::JsonUnsupported),
    }
}

fn number_text(ty: &CqlType, json: &Value, after: &'static str) -> Result<Vec<u8>, ValueError> {
    parse_text(ty, &java_text(json)).map_err(|_| bad_number(json, after))
}

fn bad_number(json: &Value, after: &'static str) -> ValueError {
    ValueError::Unreadable { before: "Value '", text: java_text(json).into(), after }
}

fn read_blob(json: &Value) -> Result<Vec<u8>, ValueError> {
    let shown = || java_text(json).into();
    let Value::String(text) = json else {
        let class = java_class(json);
        let package = match json {
            Value::Array(_) | Value::Object(_) => "util",
            _ if class == "BigInteger" => "math",
            _ => "lang",
        };
        let cause = format!(
            "class java.{package}.{class} cannot be cast to class java.lang.String \
             (java.{package}.{class} and java.lang.String are in module java.base of loader \
             'bootstrap')"
        );
        return Err(ValueError::JsonBlob { shown: shown(), cause: cause.into() });
    };
    let Some(digits) = text.strip_prefix("0x") else {
        let cause = format!("String representation of blob is missing 0x prefix: {text}");
        return Err(ValueError::JsonBlob { shown: shown(), cause: cause.into() });
    };
    parse_text(&CqlType::Blob, digits)
        .map_err(|error| ValueError::JsonBlob { shown: shown(), cause: error.to_string().into() })
}

fn read_composite(ty: &CqlType, json: &Value, depth: usize) -> Result<Vec<u8>, ValueError> {
    let list_of = |expected| match json {
        Value::Array(items) => Ok(items),
        other => Err(wrong_kind(expected, other)),
    };
    let mut out = Vec::new();
    match ty {
        CqlType::List { element, .. } => {
            let elements = read_elements(element, list_of("a list")?, "list", depth)?;
            collection::write_list(&elements, &mut out);
        }
        CqlType::Set { element, .. } => {
            let items = list_of("a list (representing a set)")?;
            let mut elements = read_elements(element, items, "set", depth)?;
            collection::write_set(element, &mut elements, &mut out);
        }
        CqlType::Vector { element, dimension } => {
            let items = list_of("a list")?;
            let expected = usize::from(*dimension);
            if items.len() != expected {
                let shown = java_text(json).into();
                return Err(ValueError::JsonVector { expected, actual: items.len(), shown });
            }
            let elements = read_elements(element, items, "list", depth)?;
            collection::write_vector(element, &elements, &mut out);
        }
        CqlType::Tuple(types) => {
            let items = list_of("a list representation of a tuple")?;
            if items.len() != types.len() {
                return Err(ValueError::JsonTuple {
                    too_many: items.len() > types.len(),
                    expected: types.len(),
                    shown: java_text(json).into(),
                });
            }
            for (ty, item) in types.iter().zip(items) {
                write_component(ty, Some(item), depth, &mut out)?;
            }
        }
        CqlType::Map { key, value, .. } => {
            let Value::Object(object) = json else {
                return Err(wrong_kind("a map", json));
            };
            let mut entries = Vec::with_capacity(object.len());
            for (name, item) in object {
                if item.is_null() {
                    return Err(ValueError::JsonNull { part: "value", of: "map" });
                }
                let key = read_json(key, &Value::String(name.clone()), depth)?;
                entries.push((key, read_json(value, item, depth)?));
            }
            collection::write_map(key, &mut entries, &mut out);
        }
        CqlType::User { definition, .. } => {
            let Value::Object(object) = json else {
                return Err(wrong_kind("a map", json));
            };
            let known: HashSet<&str> = definition.fields.iter().map(|(name, _)| &**name).collect();
            // Of a field that comes twice the later one counts.
            let mut items: HashMap<Cow<'_, str>, &Value> = HashMap::new();
            for (name, item) in object {
                let name = json_name(name);
                if !known.contains(&*name) {
                    return Err(ValueError::JsonField {
                        field: name.as_ref().into(),
                        type_name: definition.name.as_ref().into(),
                    });
                }
                items.insert(name, item);
            }
            for (name, ty) in &definition.fields {
                write_component(ty, items.get(&**name).copied(), depth, &mut out)?;
            }
        }
        // Only composite types come here.
        _ => return Err(ValueError::JsonUnsupported),
    }
    Ok(out)
}

/// A JSON key as a name: without its quotes if it has them, else in lower case.
pub fn json_name(key: &str) -> Cow<'_, str> {
    match key.strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
        Some(quoted) => Cow::Borrowed(quoted),
        None if key.chars().any(char::is_uppercase) => Cow::Owned(key.to_lowercase()),
        None => Cow::Borrowed(key),
    }
}

fn write_component(
    ty: &CqlType,
    json: Option<&Value>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    match json {
        None | Some(Value::Null) => collection::write_element(None, out),
        Some(json) => collection::write_element(Some(&read_json(ty, json, depth)?), out),
    }
    Ok(())
}

fn read_elements(
    element: &CqlType,
    items: &[Value],
    of: &'static str,
    depth: usize,
) -> Result<Vec<Vec<u8>>, ValueError> {
    items
        .iter()
        .map(|item| match item {
            Value::Null => Err(ValueError::JsonNull { part: "element", of }),
            item => read_json(element, item, depth),
        })
        .collect()
}

fn wrong_kind(expected: &'static str, json: &Value) -> ValueError {
    ValueError::JsonKind { expected, class: java_class(json), shown: java_text(json).into() }
}

/// A JSON number as Java's reader understands it.
enum Number {
    Integer(i32),
    Long(i64),
    Big(BigInt),
    Double(f64),
}

impl Number {
    fn of(json: &Value) -> Option<Self> {
        let Value::Number(number) = json else {
            return None;
        };
        let text = number.as_str();
        if text.contains(['.', 'e', 'E']) {
            return Some(Number::Double(text.parse().unwrap_or(f64::NAN)));
        }
        if let Ok(value) = text.parse::<i64>() {
            return Some(i32::try_from(value).map_or(Number::Long(value), Number::Integer));
        }
        text.parse().ok().map(Number::Big)
    }

    fn as_f64(&self) -> f64 {
        match self {
            Number::Integer(value) => f64::from(*value),
            Number::Long(value) => *value as f64,
            // The decimal digits read to the nearest double.
            Number::Big(value) => value.to_string().parse().unwrap_or(f64::NAN),
            Number::Double(value) => *value,
        }
    }

    fn as_f32(&self) -> f32 {
        match self {
            Number::Integer(value) => *value as f32,
            Number::Long(value) => *value as f32,
            Number::Big(value) => value.to_string().parse().unwrap_or(f32::NAN),
            Number::Double(value) => *value as f32,
        }
    }
}

fn java_class(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "Boolean",
        Value::String(_) => "String",
        Value::Array(_) => "ArrayList",
        Value::Object(_) => "LinkedHashMap",
        Value::Number(_) => match Number::of(json) {
            Some(Number::Integer(_)) => "Integer",
            Some(Number::Long(_)) => "Long",
            Some(Number::Double(_)) => "Double",
            Some(Number::Big(_)) | None => "BigInteger",
        },
    }
}

/// The value as Java's `toString` prints it.
pub(crate) fn java_text(json: &Value) -> String {
    match json {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match Number::of(json) {
            Some(Number::Double(value)) => java_float::double_to_string(value),
            Some(Number::Integer(value)) => value.to_string(),
            _ => number.as_str().to_owned(),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(java_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(object) => {
            let entries: Vec<String> =
                object.iter().map(|(key, value)| format!("{key}={}", java_text(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}
