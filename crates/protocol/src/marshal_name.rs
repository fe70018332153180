//! The names of Cassandra's Java classes, by which a client is told a type that its version has no
//! code for, and which `system_schema` of old tables shows.

use std::fmt::Write;

use types::{CqlType, UserType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// The class name of a type with its parameters, exactly as Cassandra writes it.
pub fn marshal_name(cql_type: &CqlType) -> String {
    let mut name = String::new();
    put_name(&mut name, cql_type, Surroundings::Open);
    name
}

/// What surrounds a type inside a class name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Surroundings {
    /// Nothing that says that it is frozen: it says so itself, where it was declared so.
    Open,
    /// A type that says that it is frozen, so that its parts do not say it again.
    FrozenType,
}

fn put_name(out: &mut String, cql_type: &CqlType, around: Surroundings) {
    match cql_type {
        CqlType::List { element, frozen } => {
            put_multi_cell(out, "ListType", *frozen, around, |out, around| {
                put_name(out, element, around);
            });
        }
        CqlType::Set { element, frozen } => {
            put_multi_cell(out, "SetType", *frozen, around, |out, around| {
                put_name(out, element, around);
            });
        }
        CqlType::Map { key, value, frozen } => {
            put_multi_cell(out, "MapType", *frozen, around, |out, around| {
                put_name(out, key, around);
                out.push(',');
                put_name(out, value, around);
            });
        }
        CqlType::User { definition, frozen } => {
            put_multi_cell(out, "UserType", *frozen, around, |out, around| {
                put_user_type(out, definition, around);
            });
        }
        CqlType::Tuple(parts) => {
            put_class(out, "TupleType");
            out.push('(');
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                put_name(out, part, Surroundings::FrozenType);
            }
            out.push(')');
        }
        CqlType::Vector { element, dimension } => {
            put_class(out, "VectorType");
            out.push('(');
            put_name(out, element, around);
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
    around: Surroundings,
    put_parameters: impl FnOnce(&mut String, Surroundings),
) {
    let says_frozen = frozen && around == Surroundings::Open;
    let inside = if says_frozen { Surroundings::FrozenType } else { around };
    if says_frozen {
        put_class(out, "FrozenType");
        out.push('(');
    }
    put_class(out, class);
    out.push('(');
    put_parameters(out, inside);
    out.push(')');
    if says_frozen {
        out.push(')');
    }
}

/// Names are in hexadecimal, because a class name has no way to quote them.
fn put_user_type(out: &mut String, definition: &UserType, around: Surroundings) {
    out.push_str(&definition.keyspace);
    out.push(',');
    put_hex(out, &definition.name);
    for (field, field_type) in &definition.fields {
        out.push(',');
        put_hex(out, field);
        out.push(':');
        put_name(out, field_type, around);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// `M.` stands for the package in the expected names, which Cassandra 5.0.5 sent.
    fn check(cql_type: &CqlType, expected: &str) {
        assert_eq!(marshal_name(cql_type), expected.replace("M.", PACKAGE));
    }

    fn list(element: CqlType, frozen: bool) -> CqlType {
        CqlType::List { element: Arc::new(element), frozen }
    }

    fn set(element: CqlType, frozen: bool) -> CqlType {
        CqlType::Set { element: Arc::new(element), frozen }
    }

    fn vector(element: CqlType, dimension: u16) -> CqlType {
        CqlType::Vector { element: Arc::new(element), dimension }
    }

    #[test]
    fn names_are_those_of_cassandra() {
        check(&CqlType::Date, "M.SimpleDateType");
        check(&vector(CqlType::Float, 3), "M.VectorType(M.FloatType , 3)");
        check(
            &vector(vector(CqlType::Int, 2), 2),
            "M.VectorType(M.VectorType(M.Int32Type , 2) , 2)",
        );
        check(
            &vector(list(CqlType::Int, true), 2),
            "M.VectorType(M.FrozenType(M.ListType(M.Int32Type)) , 2)",
        );
        check(&vector(list(CqlType::Int, false), 2), "M.VectorType(M.ListType(M.Int32Type) , 2)");
        check(
            &vector(set(list(CqlType::Int, true), true), 1),
            "M.VectorType(M.FrozenType(M.SetType(M.ListType(M.Int32Type))) , 1)",
        );
        check(
            &vector(set(list(CqlType::Int, true), false), 1),
            "M.VectorType(M.SetType(M.FrozenType(M.ListType(M.Int32Type))) , 1)",
        );
        check(
            &vector(
                CqlType::Map {
                    key: Arc::new(CqlType::Text),
                    value: Arc::new(set(CqlType::Date, true)),
                    frozen: true,
                },
                2,
            ),
            "M.VectorType(M.FrozenType(M.MapType(M.UTF8Type,M.SetType(M.SimpleDateType))) , 2)",
        );
        check(
            &vector(CqlType::Tuple([CqlType::Int, list(CqlType::Text, true)].into()), 2),
            "M.VectorType(M.TupleType(M.Int32Type,M.ListType(M.UTF8Type)) , 2)",
        );
    }

    #[test]
    fn names_inside_a_user_type_are_hexadecimal() {
        let user = |name: &str, fields: Vec<(Arc<str>, CqlType)>| CqlType::User {
            definition: Arc::new(UserType {
                keyspace: "proto_n".into(),
                name: name.into(),
                fields,
            }),
            frozen: true,
        };
        let address = user(
            "Ad dr",
            vec![("street".into(), CqlType::Text), ("Nüm".into(), list(CqlType::Int, true))],
        );
        let outer = user(
            "outer",
            vec![
                ("a".into(), address),
                ("v".into(), vector(CqlType::Float, 2)),
                ("d".into(), CqlType::Date),
            ],
        );
        check(
            &vector(outer, 1),
            "M.VectorType(M.FrozenType(M.UserType(proto_n,6f75746572,61:M.UserType(proto_n,\
             4164206472,737472656574:M.UTF8Type,4ec3bc6d:M.ListType(M.Int32Type)),\
             76:M.VectorType(M.FloatType , 2),64:M.SimpleDateType)) , 1)",
        );
    }
}
