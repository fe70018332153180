//! Types as written, looked up.

use std::sync::Arc;

use cql::ast::RawType;
use schema::Schema;
use types::CqlType;

use crate::error::{PlanError, invalid};

/// The largest dimension of a vector.
const VECTOR_DIMENSION_MAX: i32 = 8192;

/// The type that a text means in a keyspace.
pub(crate) fn resolve_type(
    raw: &RawType,
    keyspace: &str,
    schema: &Schema,
) -> Result<CqlType, PlanError> {
    resolve(raw, keyspace, schema, false)
}

fn resolve(
    raw: &RawType,
    keyspace: &str,
    schema: &Schema,
    frozen: bool,
) -> Result<CqlType, PlanError> {
    let nested = |raw: &RawType| resolve(raw, keyspace, schema, true);
    Ok(match raw {
        RawType::Native(native) => {
            CqlType::native(native.name()).unwrap_or(CqlType::Blob)
        }
        RawType::List(element) => CqlType::List { element: Arc::new(nested(element)?), frozen },
        RawType::Set(element) => CqlType::Set { element: Arc::new(nested(element)?), frozen },
        RawType::Map(key, value) => CqlType::Map {
            key: Arc::new(nested(key)?),
            value: Arc::new(nested(value)?),
            frozen,
        },
        RawType::Tuple(parts) => {
            CqlType::Tuple(parts.iter().map(nested).collect::<Result<Vec<_>, _>>()?.into())
        }
        RawType::Vector { element, dimension } => {
            if *dimension < 1 || *dimension > VECTOR_DIMENSION_MAX {
                return invalid!("vectors may only have positive dimensions; given {dimension}");
            }
            CqlType::Vector {
                element: Arc::new(nested(element)?),
                dimension: u16::try_from(*dimension).unwrap_or(u16::MAX),
            }
        }
        RawType::Frozen(inner) => resolve(inner, keyspace, schema, true)?,
        RawType::User(name) => {
            let keyspace = match &name.keyspace {
                Some(other) if &**other != keyspace => {
                    return invalid!(
                        "Statement on keyspace {keyspace} cannot refer to a user type in keyspace \
                         {other}; user types can only be used in the keyspace they are defined in"
                    );
                }
                _ => keyspace,
            };
            let definition = schema
                .keyspace(keyspace)
                .and_then(|keyspace| keyspace.types.get(name.name.as_str()))
                .ok_or_else(|| PlanError::invalid(format!("Unknown type {keyspace}.{}", name.name)))?;
            CqlType::User { definition: Arc::clone(definition), frozen }
        }
        RawType::Custom(class) => CqlType::Custom(Arc::from(&**class)),
    })
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
            let parts: Vec<String> = parts.iter().map(|part| raw_type_text(part, keyspace)).collect();
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
