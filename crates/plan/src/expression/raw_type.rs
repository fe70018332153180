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
    type_text(raw, keyspace, false)
}

/// What is frozen freezes what is inside; tuples and vectors are frozen without saying so.
fn type_text(raw: &RawType, keyspace: &str, is_frozen: bool) -> String {
    let part = |raw: &RawType| type_text(raw, keyspace, is_frozen);
    let frozen = |text: String| if is_frozen { format!("frozen<{text}>") } else { text };
    match raw {
        RawType::Native(native) => native.name().to_string(),
        RawType::List(element) => frozen(format!("list<{}>", part(element))),
        RawType::Set(element) => frozen(format!("set<{}>", part(element))),
        RawType::Map(key, value) => frozen(format!("map<{}, {}>", part(key), part(value))),
        RawType::Tuple(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|part| type_text(part, keyspace, true)).collect();
            format!("tuple<{}>", parts.join(", "))
        }
        RawType::Vector { element, dimension } => {
            format!("vector<{}, {dimension}>", type_text(element, keyspace, false))
        }
        RawType::Frozen(inner) => type_text(inner, keyspace, true),
        RawType::User(name) if keyspace.is_empty() => frozen(name.to_string()),
        RawType::User(name) => frozen(format!("{keyspace}.{}", name.name)),
        RawType::Custom(class) => format!("'{class}'"),
    }
}
