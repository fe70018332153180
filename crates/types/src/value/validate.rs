//! Whether bytes are a value of a type: Cassandra's rules and texts.

use super::collection::{ListIter, MapIter, TupleIter, VectorIter};
use super::custom::Custom;
use super::duration::Duration;
use super::error::ValueError;
use crate::CqlType;

/// Whether zero bytes are a value of this type.
pub fn is_empty_allowed(ty: &CqlType) -> bool {
    match ty {
        CqlType::Date
        | CqlType::Duration
        | CqlType::SmallInt
        | CqlType::Time
        | CqlType::TinyInt
        | CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Vector { .. } => false,
        CqlType::Ascii
        | CqlType::BigInt
        | CqlType::Blob
        | CqlType::Boolean
        | CqlType::Counter
        | CqlType::Decimal
        | CqlType::Double
        | CqlType::Empty
        | CqlType::Float
        | CqlType::Inet
        | CqlType::Int
        | CqlType::Text
        | CqlType::Timestamp
        | CqlType::TimeUuid
        | CqlType::Uuid
        | CqlType::Varint
        | CqlType::Tuple(_)
        | CqlType::User { .. }
        | CqlType::Custom(_) => true,
    }
}

/// Whether zero bytes, where allowed, mean nothing: functions and conditions treat them as null.
pub fn is_empty_meaningless(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::BigInt
            | CqlType::Boolean
            | CqlType::Counter
            | CqlType::Decimal
            | CqlType::Double
            | CqlType::Float
            | CqlType::Inet
            | CqlType::Int
            | CqlType::Timestamp
            | CqlType::TimeUuid
            | CqlType::Uuid
            | CqlType::Varint
    )
}

/// Checks that bytes are a value of a type.
pub fn validate(ty: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    match ty {
        // Most text is plain, and to see that takes a third of what decoding it would.
        CqlType::Text if is_plain(bytes) => Ok(()),
        CqlType::Text => std::str::from_utf8(bytes).map_or(Err(ValueError::Utf8), |_| Ok(())),
        CqlType::Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
            Some(&byte) => Err(ValueError::Ascii(byte as i8)),
            None => Ok(()),
        },
        CqlType::Blob | CqlType::Varint => Ok(()),
        CqlType::Custom(class) => Custom::of(class).validate(bytes),
        CqlType::Int => fixed_or_empty(bytes, 4, "Expected 4 or 0 byte int"),
        CqlType::BigInt | CqlType::Counter => fixed_or_empty(bytes, 8, "Expected 8 or 0 byte long"),
        CqlType::Timestamp => fixed_or_empty(bytes, 8, "Expected 8 or 0 byte long for date"),
        CqlType::Double => fixed_or_empty(bytes, 8, "Expected 8 or 0 byte value for a double"),
        CqlType::Float => fixed_or_empty(bytes, 4, "Expected 4 or 0 byte value for a float"),
        CqlType::Boolean => fixed_or_empty(bytes, 1, "Expected 1 or 0 byte value"),
        CqlType::TinyInt => fixed(bytes, 1, "Expected 1 byte for a tinyint"),
        CqlType::SmallInt => fixed(bytes, 2, "Expected 2 bytes for a smallint"),
        CqlType::Date => fixed(bytes, 4, "Expected 4 byte long for date"),
        CqlType::Time => fixed(bytes, 8, "Expected 8 byte long for time"),
        CqlType::Uuid => fixed_or_empty(bytes, 16, "UUID should be 16 or 0 bytes"),
        CqlType::TimeUuid => validate_timeuuid(bytes),
        CqlType::Decimal if (1..4).contains(&bytes.len()) => {
            Err(ValueError::Length { rule: "Expected 0 or at least 4 bytes", actual: bytes.len() })
        }
        CqlType::Decimal => Ok(()),
        CqlType::Duration => Duration::decode(bytes).map(drop),
        CqlType::Empty if bytes.is_empty() => Ok(()),
        CqlType::Empty => Err(ValueError::NotEmpty),
        CqlType::Inet => match bytes.len() {
            0 | 4 | 16 => Ok(()),
            _ => Err(ValueError::InetLength(bytes.into())),
        },
        CqlType::List { element, .. } => validate_elements(element, ListIter::new(bytes), "list"),
        CqlType::Set { element, .. } => validate_elements(element, ListIter::set(bytes), "set"),
        CqlType::Map { key, value, .. } => validate_map(key, value, bytes),
        CqlType::Tuple(types) => validate_tuple(types, bytes),
        CqlType::User { definition, .. } => validate_user(&definition.fields, bytes),
        CqlType::Vector { element, dimension } => validate_vector(ty, element, *dimension, bytes),
    }
}

/// Whether bytes of some length are all ASCII: eight are looked at in one step, the last of them twice.
fn is_plain(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.is_ascii() };
    let (words, _) = bytes.as_chunks::<8>();
    let last = u64::from_ne_bytes(*last);
    words.iter().fold(last, |bits, word| bits | u64::from_ne_bytes(*word)) & HIGH_BITS == 0
}

fn fixed(bytes: &[u8], length: usize, rule: &'static str) -> Result<(), ValueError> {
    if bytes.len() == length {
        Ok(())
    } else {
        Err(ValueError::Length { rule, actual: bytes.len() })
    }
}

fn fixed_or_empty(bytes: &[u8], length: usize, rule: &'static str) -> Result<(), ValueError> {
    if bytes.is_empty() { Ok(()) } else { fixed(bytes, length, rule) }
}

fn validate_timeuuid(bytes: &[u8]) -> Result<(), ValueError> {
    fixed_or_empty(bytes, 16, "UUID should be 16 or 0 bytes")?;
    match (bytes.first(), bytes.get(6)) {
        (Some(first), Some(seventh)) if seventh & 0xf0 != 0x10 => {
            Err(ValueError::TimeUuidVersion(first >> 4))
        }
        _ => Ok(()),
    }
}

fn validate_elements(
    element: &CqlType,
    mut elements: ListIter<'_>,
    kind: &'static str,
) -> Result<(), ValueError> {
    for item in &mut elements {
        validate(element, item?.ok_or(ValueError::NullElement)?)?;
    }
    if elements.rest().is_empty() { Ok(()) } else { Err(ValueError::CollectionTooLong(kind)) }
}

fn validate_map(key: &CqlType, value: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    let mut entries = MapIter::new(bytes);
    for entry in &mut entries {
        let (entry_key, entry_value) = entry?;
        validate(key, entry_key)?;
        validate(value, entry_value)?;
    }
    if entries.rest().is_empty() { Ok(()) } else { Err(ValueError::CollectionTooLong("map")) }
}

fn validate_tuple(types: &[CqlType], bytes: &[u8]) -> Result<(), ValueError> {
    let mut components = TupleIter::new(bytes);
    for ty in types {
        match components.next() {
            Some(component) => match component? {
                Some(component) => validate(ty, component)?,
                None => continue,
            },
            None => return Ok(()),
        }
    }
    if components.rest().is_empty() { Ok(()) } else { Err(ValueError::TupleTooLong) }
}

fn validate_user(
    fields: &[(std::sync::Arc<str>, CqlType)],
    bytes: &[u8],
) -> Result<(), ValueError> {
    let mut components = TupleIter::new(bytes);
    for (index, (name, ty)) in fields.iter().enumerate() {
        let name = || Box::from(name.as_ref());
        match components.next() {
            None => return Ok(()),
            Some(Ok(None)) => {}
            Some(Ok(Some(field))) => validate(ty, field).map_err(|cause| {
                ValueError::FieldInvalid { index, name: name(), cause: Box::new(cause) }
            })?,
            Some(Err(ValueError::TupleComponentLength(_))) => {
                return Err(ValueError::FieldLength { index, name: name() });
            }
            Some(Err(_)) => return Err(ValueError::FieldTooShort { index, name: name() }),
        }
    }
    if components.rest().is_empty() { Ok(()) } else { Err(ValueError::UserTypeTooLong) }
}

fn validate_vector(
    ty: &CqlType,
    element: &CqlType,
    dimension: u16,
    bytes: &[u8],
) -> Result<(), ValueError> {
    if bytes.is_empty() {
        return Err(ValueError::VectorEmpty);
    }
    let mut elements = VectorIter::new(element, dimension, bytes);
    for item in &mut elements {
        validate(element, item.map_err(|_| ValueError::VectorTooShort(ty.clone()))?)?;
    }
    match elements.rest().len() {
        0 => Ok(()),
        extra => Err(ValueError::VectorTooLong { extra, ty: ty.clone() }),
    }
}
