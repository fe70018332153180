//! The names of Cassandra's Java classes, by which a client is told a type that its version has no
//! code for, and which `system_schema` of old tables shows.

use std::fmt::Write;

use types::{CqlType, UserType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// The class name of a type with its parameters, exactly as Cassandra writes it.
pub fn marshal_name(cql_type: &CqlType) -> String {
    let mut name = String::new();
    put_name(&mut name, cql_type, false);
    name
}

/// `inside_frozen`: what surrounds the type says that it is frozen, so that it does not.
fn put_name(out: &mut String, cql_type: &CqlType, inside_frozen: bool) {
    match cql_type {
        CqlType::List { element, frozen } => {
            put_multi_cell(out, "ListType", *frozen, inside_frozen, |out, inside| {
                put_name(out, element, inside);
            });
        }
        CqlType::Set { element, frozen } => {
            put_multi_cell(out, "SetType", *frozen, inside_frozen, |out, inside| {
                put_name(out, element, inside);
            });
        }
        CqlType::Map { key, value, frozen } => {
            put_multi_cell(out, "MapType", *frozen, inside_frozen, |out, inside| {
                put_name(out, key, inside);
                out.push(',');
                put_name(out, value, inside);
            });
        }
        CqlType::User { definition, frozen } => {
            put_multi_cell(out, "UserType", *frozen, inside_frozen, |out, inside| {
                put_user_type(out, definition, inside);
            });
        }
        CqlType::Tuple(parts) => {
            put_class(out, "TupleType");
            out.push('(');
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                put_name(out, part, true);
            }
            out.push(')');
        }
        CqlType::Vector { element, dimension } => {
            put_class(out, "VectorType");
            out.push('(');
            put_name(out, element, inside_frozen);
            // The blank before the comma is Cassandra's.
            let _ = write!(out, " , {dimension})");
        }
        CqlType::Custom(class) => out.push_str(class),
        native => put_class(out, native_class(native)),
    }
}

fn put_class(out: &mut String, class: &str) {
    out.push_str(PACKAGE);
    out.push_str(class);
}

fn put_multi_cell(
    out: &mut String,
    class: &str,
    frozen: bool,
    inside_frozen: bool,
    put_parameters: impl FnOnce(&mut String, bool),
) {
    let says_frozen = frozen && !inside_frozen;
    if says_frozen {
        put_class(out, "FrozenType");
        out.push('(');
    }
    put_class(out, class);
    out.push('(');
    put_parameters(out, inside_frozen || frozen);
    out.push(')');
    if says_frozen {
        out.push(')');
    }
}

/// Names are in hexadecimal, because a class name has no way to quote them.
fn put_user_type(out: &mut String, definition: &UserType, inside_frozen: bool) {
    out.push_str(&definition.keyspace);
    out.push(',');
    put_hex(out, &definition.name);
    for (field, field_type) in &definition.fields {
        out.push(',');
        put_hex(out, field);
        out.push(':');
        put_name(out, field_type, inside_frozen);
    }
}

fn put_hex(out: &mut String, text: &str) {
    for byte in text.bytes() {
        let _ = write!(out, "{byte:02x}");
    }
}

fn native_class(native: &CqlType) -> &'static str {
    match native {
        CqlType::Ascii => "AsciiType",
        CqlType::BigInt => "LongType",
        CqlType::Blob => "BytesType",
        CqlType::Boolean => "BooleanType",
        CqlType::Counter => "CounterColumnType",
        CqlType::Date => "SimpleDateType",
        CqlType::Decimal => "DecimalType",
        CqlType::Double => "DoubleType",
        CqlType::Duration => "DurationType",
        CqlType::Float => "FloatType",
        CqlType::Inet => "InetAddressType",
        CqlType::Int => "Int32Type",
        CqlType::SmallInt => "ShortType",
        CqlType::Text => "UTF8Type",
        CqlType::Time => "TimeType",
        CqlType::Timestamp => "TimestampType",
        CqlType::TimeUuid => "TimeUUIDType",
        CqlType::TinyInt => "ByteType",
        CqlType::Uuid => "UUIDType",
        CqlType::Varint => "IntegerType",
        CqlType::Empty
        | CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::User { .. }
        | CqlType::Vector { .. }
        | CqlType::Custom(_) => "EmptyType",
    }
}
