//! Types as written, looked up.

use cql::ast::RawType;
use schema::Schema;
use types::CqlType;

use crate::error::PlanError;

/// The type that a text means in a keyspace.
pub(crate) fn resolve_type(
    raw: &RawType,
    keyspace: &str,
    schema: &Schema,
) -> Result<CqlType, PlanError> {
    Ok(schema::resolve_type(schema, keyspace, raw)?)
}

/// The text of a type as messages show it. User types get that keyspace, unless it is empty.
pub(crate) fn raw_type_text(raw: &RawType, keyspace: &str) -> String {
    match raw {
        RawType::Native(native) => native.name().to_string(),
        RawType::List(element) => format!("list<{}>", raw_type_text(element, keyspace)),
        RawType::Set(element) => format!("set<{}>", raw_type_text(element, keyspace)),
        RawType::Map(key, value) => {
            format!("map<{}, {}>", raw_type_text(key, keyspace), raw_type_text(value, keyspace))
        }
        RawType::Tuple(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|part| raw_type_text(part, keyspace)).collect();
            format!("tuple<{}>", parts.join(", "))
        }
        RawType::Vector { element, dimension } => {
            format!("vector<{}, {dimension}>", raw_type_text(element, keyspace))
        }
        RawType::Frozen(inner) => format!("frozen<{}>", raw_type_text(inner, keyspace)),
        RawType::User(name) if keyspace.is_empty() => name.to_string(),
        RawType::User(name) => format!("{keyspace}.{}", name.name),
        RawType::Custom(class) => format!("'{class}'"),
    }
}
