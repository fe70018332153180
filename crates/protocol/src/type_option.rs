//! `[option]`: how the columns of a result announce their types.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use types::{CqlType, UserType};

use crate::error::ProtocolError;
use crate::marshal_name::marshal_name;
use crate::version::Version;
use crate::wire::{self, Reader};

/// How deep types may be nested in a response that we decode.
pub const TYPE_DEPTH_MAX: usize = 64;

const CUSTOM: u16 = 0x00;
const LIST: u16 = 0x20;
const MAP: u16 = 0x21;
const SET: u16 = 0x22;
const USER: u16 = 0x30;
const TUPLE: u16 = 0x31;

/// The code of a native type and the first version that has it.
fn native_code(cql_type: &CqlType) -> Option<(u16, Version)> {
    Some(match cql_type {
        CqlType::Ascii => (0x01, Version::V3),
        CqlType::BigInt => (0x02, Version::V3),
        CqlType::Blob => (0x03, Version::V3),
        CqlType::Boolean => (0x04, Version::V3),
        CqlType::Counter => (0x05, Version::V3),
        CqlType::Decimal => (0x06, Version::V3),
        CqlType::Double => (0x07, Version::V3),
        CqlType::Float => (0x08, Version::V3),
        CqlType::Int => (0x09, Version::V3),
        CqlType::Timestamp => (0x0B, Version::V3),
        CqlType::Uuid => (0x0C, Version::V3),
        CqlType::Text => (0x0D, Version::V3),
        CqlType::Varint => (0x0E, Version::V3),
        CqlType::TimeUuid => (0x0F, Version::V3),
        CqlType::Inet => (0x10, Version::V3),
        CqlType::Date => (0x11, Version::V4),
        CqlType::Time => (0x12, Version::V4),
        CqlType::SmallInt => (0x13, Version::V4),
        CqlType::TinyInt => (0x14, Version::V4),
        CqlType::Duration => (0x15, Version::V5),
        CqlType::Empty
        | CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::User { .. }
        | CqlType::Vector { .. }
        | CqlType::Custom(_) => return None,
    })
}

/// Appends a type. One that the version has no code for goes by the name of its Java class.
pub(crate) fn encode(cql_type: &CqlType, version: Version, buf: &mut BytesMut) {
    if let Some((code, since)) = native_code(cql_type)
        && version >= since
    {
        buf.put_u16(code);
        return;
    }
    match cql_type {
        CqlType::List { element, .. } => {
            buf.put_u16(LIST);
            encode(element, version, buf);
        }
        CqlType::Set { element, .. } => {
            buf.put_u16(SET);
            encode(element, version, buf);
        }
        CqlType::Map { key, value, .. } => {
            buf.put_u16(MAP);
            encode(key, version, buf);
            encode(value, version, buf);
        }
        CqlType::Tuple(parts) => {
            buf.put_u16(TUPLE);
            buf.put_u16(u16::try_from(parts.len()).unwrap_or(u16::MAX));
            for part in parts.iter().take(usize::from(u16::MAX)) {
                encode(part, version, buf);
            }
        }
        CqlType::User { definition, .. } => encode_user(definition, version, buf),
        custom => {
            buf.put_u16(CUSTOM);
            wire::put_string(buf, &marshal_name(custom));
        }
    }
}

fn encode_user(definition: &UserType, version: Version, buf: &mut BytesMut) {
    buf.put_u16(USER);
    wire::put_string(buf, &definition.keyspace);
    wire::put_string(buf, &definition.name);
    buf.put_u16(u16::try_from(definition.fields.len()).unwrap_or(u16::MAX));
    for (name, field_type) in definition.fields.iter().take(usize::from(u16::MAX)) {
        wire::put_string(buf, name);
        encode(field_type, version, buf);
    }
}

/// Reads a type. Whether a collection or user type is frozen is not on the wire: it comes out
/// as if it were. A class name comes out as [`CqlType::Custom`].
pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<CqlType, ProtocolError> {
    decode_nested(reader, TYPE_DEPTH_MAX)
}

fn decode_nested(reader: &mut Reader<'_>, depth_left: usize) -> Result<CqlType, ProtocolError> {
    let depth_left = depth_left.checked_sub(1).ok_or(ProtocolError::TypeTooDeep)?;
    let frozen = true;
    Ok(match reader.u16("a type")? {
        CUSTOM => CqlType::Custom(reader.string()?.into()),
        0x01 => CqlType::Ascii,
        0x02 => CqlType::BigInt,
        0x03 => CqlType::Blob,
        0x04 => CqlType::Boolean,
        0x05 => CqlType::Counter,
        0x06 => CqlType::Decimal,
        0x07 => CqlType::Double,
        0x08 => CqlType::Float,
        0x09 => CqlType::Int,
        0x0A | 0x0D => CqlType::Text,
        0x0B => CqlType::Timestamp,
        0x0C => CqlType::Uuid,
        0x0E => CqlType::Varint,
        0x0F => CqlType::TimeUuid,
        0x10 => CqlType::Inet,
        0x11 => CqlType::Date,
        0x12 => CqlType::Time,
        0x13 => CqlType::SmallInt,
        0x14 => CqlType::TinyInt,
        0x15 => CqlType::Duration,
        LIST => CqlType::List { element: Arc::new(decode_nested(reader, depth_left)?), frozen },
        SET => CqlType::Set { element: Arc::new(decode_nested(reader, depth_left)?), frozen },
        MAP => CqlType::Map {
            key: Arc::new(decode_nested(reader, depth_left)?),
            value: Arc::new(decode_nested(reader, depth_left)?),
            frozen,
        },
        TUPLE => {
            let count = reader.u16("the size of a tuple")?;
            let parts = (0..count).map(|_| decode_nested(reader, depth_left));
            CqlType::Tuple(parts.collect::<Result<_, _>>()?)
        }
        USER => {
            let keyspace = reader.string()?.into();
            let name = reader.string()?.into();
            let count = reader.u16("the number of fields")?;
            let mut fields = Vec::new();
            for _ in 0..count {
                let field = reader.string()?.into();
                fields.push((field, decode_nested(reader, depth_left)?));
            }
            CqlType::User { definition: Arc::new(UserType { keyspace, name, fields }), frozen }
        }
        id => return Err(ProtocolError::UnknownTypeId { id }),
    })
}
