//! Bytes to text: CQL literals, and the plain strings of Cassandra's `getString`.

use std::fmt::Write;

use super::collection::{ListIter, MapIter, TupleIter, VectorIter};
use super::decimal::Decimal;
use super::duration::Duration;
use super::{inet, java_float, temporal, varint};
use crate::{CqlType, quote_identifier};

/// Lower-case hex digits.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// A uuid in its text form; `None` unless it has 16 bytes.
pub fn format_uuid(bytes: &[u8]) -> Option<String> {
    let value = u128::from_be_bytes(bytes.try_into().ok()?);
    Some(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        value >> 96,
        value >> 80 & 0xffff,
        value >> 64 & 0xffff,
        value >> 48 & 0xffff,
        value & 0xffff_ffff_ffff
    ))
}

/// The big-endian integer of a value of one to eight bytes.
pub(crate) fn read_integer(bytes: &[u8]) -> Option<i64> {
    Some(match bytes.len() {
        1 => i64::from(i8::from_be_bytes(bytes.try_into().ok()?)),
        2 => i64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
        4 => i64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
        8 => i64::from_be_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

/// The text of a value of a native type, without quotes; `None` for bytes that are no such value.
/// Zero bytes give an empty text, where a type allows them.
pub(crate) fn native_text(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return Some(String::new());
    }
    match ty {
        CqlType::Ascii | CqlType::Text => std::str::from_utf8(bytes).ok().map(ToOwned::to_owned),
        CqlType::BigInt
        | CqlType::Counter
        | CqlType::Int
        | CqlType::SmallInt
        | CqlType::TinyInt => read_integer(bytes).map(|value| value.to_string()),
        CqlType::Boolean => bytes.first().map(|byte| (*byte != 0).to_string()),
        CqlType::Date => {
            let days = u32::from_be_bytes(bytes.try_into().ok()?);
            Some(temporal::format_date(days))
        }
        CqlType::Time => Some(temporal::format_time(i64::from_be_bytes(bytes.try_into().ok()?))),
        CqlType::Timestamp => {
            let millis = i64::from_be_bytes(bytes.try_into().ok()?);
            Some(temporal::format_timestamp(millis, 'T'))
        }
        CqlType::Decimal => Decimal::decode(bytes).map(|value| value.to_string()),
        CqlType::Double => {
            let value = f64::from_be_bytes(bytes.try_into().ok()?);
            Some(java_float::double_to_string(value))
        }
        CqlType::Float => {
            let value = f32::from_be_bytes(bytes.try_into().ok()?);
            Some(java_float::float_to_string(value))
        }
        CqlType::Duration => Duration::decode(bytes).ok().map(|value| value.to_string()),
        CqlType::Inet => inet::format(bytes),
        CqlType::TimeUuid | CqlType::Uuid => format_uuid(bytes),
        CqlType::Varint => Some(varint::decode(bytes).to_string()),
        CqlType::Empty => Some(String::new()),
        CqlType::Blob
        | CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::User { .. }
        | CqlType::Vector { .. }
        | CqlType::Custom(_) => Some(to_hex(bytes)),
    }
}

/// The value as a CQL literal: quoted where CQL wants quotes, `null` for zero bytes where these
/// mean nothing. What is no value of its type comes out as a blob.
pub fn to_cql_text(ty: &CqlType, bytes: &[u8]) -> String {
    let mut out = String::new();
    write_literal(ty, bytes, &mut out);
    out
}

/// As [`to_cql_text`], but without the outer quotes; what `CAST(… AS text)` returns.
pub fn to_cql_text_unquoted(ty: &CqlType, bytes: &[u8]) -> String {
    match ty {
        CqlType::Ascii | CqlType::Text => {
            native_text(ty, bytes).unwrap_or_default().replace('\'', "''")
        }
        CqlType::Date | CqlType::Time | CqlType::Timestamp | CqlType::Inet if !bytes.is_empty() => {
            native_text(ty, bytes).unwrap_or_else(|| format!("0x{}", to_hex(bytes)))
        }
        _ => to_cql_text(ty, bytes),
    }
}

fn write_literal(ty: &CqlType, bytes: &[u8], out: &mut String) {
    match ty {
        CqlType::Ascii | CqlType::Text => {
            let text = native_text(ty, bytes).unwrap_or_default();
            let _ = write!(out, "'{}'", text.replace('\'', "''"));
        }
        CqlType::Blob | CqlType::Custom(_) => {
            let _ = write!(out, "0x{}", to_hex(bytes));
        }
        CqlType::List { element, .. } => {
            let elements = ListIter::new(bytes).map_while(Result::ok);
            write_sequence(('[', ']'), elements.map(|item| (&**element, item)), out);
        }
        CqlType::Set { element, .. } => {
            let elements = ListIter::set(bytes).map_while(Result::ok);
            write_sequence(('{', '}'), elements.map(|item| (&**element, item)), out);
        }
        CqlType::Map { key, value, .. } => {
            out.push('{');
            for (index, (entry_key, entry_value)) in
                MapIter::new(bytes).map_while(Result::ok).enumerate()
            {
                out.push_str(if index > 0 { ", " } else { "" });
                write_literal(key, entry_key, out);
                out.push_str(": ");
                write_literal(value, entry_value, out);
            }
            out.push('}');
        }
        CqlType::Tuple(types) => {
            let components = TupleIter::new(bytes).map_while(Result::ok);
            write_sequence(('(', ')'), types.iter().zip(components), out);
        }
        CqlType::User { definition, .. } => {
            out.push('{');
            let fields = definition.fields.iter();
            for (index, ((name, ty), field)) in
                fields.zip(TupleIter::new(bytes).map_while(Result::ok)).enumerate()
            {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&quote_identifier(name));
                out.push_str(": ");
                write_nullable(ty, field, out);
            }
            out.push('}');
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorIter::new(element, *dimension, bytes).map_while(Result::ok);
            write_sequence(('[', ']'), elements.map(|item| (&**element, Some(item))), out);
        }
        _ if bytes.is_empty() => out.push_str("null"),
        _ => match native_text(ty, bytes) {
            Some(text) if is_quoted(ty) => {
                let _ = write!(out, "'{text}'");
            }
            Some(text) => out.push_str(&text),
            None => {
                let _ = write!(out, "0x{}", to_hex(bytes));
            }
        },
    }
}

fn is_quoted(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Date | CqlType::Time | CqlType::Timestamp | CqlType::Inet)
}

fn write_nullable(ty: &CqlType, bytes: Option<&[u8]>, out: &mut String) {
    match bytes {
        Some(bytes) => write_literal(ty, bytes, out),
        None => out.push_str("null"),
    }
}

fn write_sequence<'v>(
    (open, close): (char, char),
    items: impl Iterator<Item = (&'v CqlType, Option<&'v [u8]>)>,
    out: &mut String,
) {
    out.push(open);
    for (index, (ty, item)) in items.enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        write_nullable(ty, item, out);
    }
    out.push(close);
}

/// The value as Cassandra's `getString` gives it: what error messages show. Collections and
/// vectors are hex digits, tuples are joined with colons.
pub fn to_plain_string(ty: &CqlType, bytes: &[u8]) -> String {
    match ty {
        CqlType::Tuple(types) => plain_tuple(types.iter(), bytes),
        CqlType::User { definition, .. } => {
            plain_tuple(definition.fields.iter().map(|(_, ty)| ty), bytes)
        }
        // A counter's bytes are a context in Cassandra, which has no text.
        CqlType::Counter => to_hex(bytes),
        _ => native_text(ty, bytes).unwrap_or_else(|| to_hex(bytes)),
    }
}

fn plain_tuple<'t>(types: impl Iterator<Item = &'t CqlType>, bytes: &[u8]) -> String {
    let components = TupleIter::new(bytes).map_while(Result::ok);
    let parts: Vec<String> = types
        .zip(components)
        .map(|(ty, component)| match component {
            Some(bytes) => to_plain_string(ty, bytes).replace(':', "\\:").replace('@', "\\@"),
            None => "@".to_owned(),
        })
        .collect();
    parts.join(":")
}
