//! `MASKED WITH`: the native masking functions over a column.

use std::sync::Arc;

use cql::ast::{ColumnMask, ConstantKind, Term};
use types::CqlType;

use super::DdlContext;
use crate::error::{SchemaError, invalid};

/// Masks are refused unless the node was told to allow them.
///
/// Compat: Cassandra names a property of `cassandra.yaml` here, which a user of Helenus looks for in vain.
pub(crate) fn check_enabled(context: &DdlContext<'_>) -> Result<(), SchemaError> {
    if context.masking_enabled {
        return Ok(());
    }
    Err(invalid!(
        "Cannot mask columns because dynamic data masking is not enabled. Helenus keeps no masks \
         on columns: call a masking function in the query, as in SELECT mask_inner(column, 1, 1)"
    ))
}

/// The mask as CQL, with the keyspace of its function.
pub(crate) fn read(
    mask: &ColumnMask,
    column: &str,
    column_type: &CqlType,
) -> Result<Arc<str>, SchemaError> {
    let mut arguments = Vec::with_capacity(mask.arguments.len());
    for argument in &mask.arguments {
        arguments.push(Argument::read(argument).ok_or_else(|| {
            invalid!("Only constants may be arguments of the masking function of column {column}")
        })?);
    }
    let texts: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
    let written = format!("{}({})", mask.function, texts.join(", "));
    let unknown = || {
        invalid!(
            "Unable to find masking function for {column}, no declared function matches the signature {written}"
        )
    };
    if mask.function.keyspace.as_deref().is_some_and(|keyspace| keyspace != "system") {
        return Err(unknown());
    }
    let name = mask.function.name.as_str();
    match (name, arguments.as_slice()) {
        ("mask_default" | "mask_null", []) => {}
        ("mask_replace", [value]) if value.fits(column_type) => {}
        ("mask_inner" | "mask_outer", [begin, end, padding @ ..]) => {
            let numbers = begin.fits(&CqlType::Int) && end.fits(&CqlType::Int);
            let paddings = match padding {
                [] => true,
                [padding] => padding.fits(&CqlType::Text),
                _ => false,
            };
            if !numbers || !paddings || !matches!(column_type, CqlType::Text | CqlType::Ascii) {
                return Err(unknown());
            }
        }
        ("mask_hash", [] | [_]) if *column_type == CqlType::Blob => {}
        ("mask_hash", [] | [_]) => {
            return Err(invalid!(
                "Masking function {written} return type is blob. This is different to the type of \
                 the masked column {column} of type {column_type}. Masking functions can only be \
                 attached to table columns if they return the same data type as the masked column."
            ));
        }
        _ => return Err(unknown()),
    }
    Ok(Arc::from(format!("system.{name}({})", texts.join(", "))))
}

/// A constant argument, with the literal it was written as.
struct Argument {
    kind: Option<ConstantKind>,
    text: String,
}

impl Argument {
    fn read(term: &Term) -> Option<Argument> {
        match term {
            Term::Null => Some(Argument { kind: None, text: "null".into() }),
            Term::Constant(constant) => {
                let text = match constant.kind {
                    ConstantKind::String => format!("'{}'", constant.text.replace('\'', "''")),
                    _ => constant.text.to_string(),
                };
                Some(Argument { kind: Some(constant.kind), text })
            }
            _ => None,
        }
    }

    fn fits(&self, cql_type: &CqlType) -> bool {
        let Some(kind) = self.kind else { return true };
        match cql_type {
            CqlType::Int
            | CqlType::BigInt
            | CqlType::SmallInt
            | CqlType::TinyInt
            | CqlType::Varint => kind == ConstantKind::Integer,
            CqlType::Float | CqlType::Double | CqlType::Decimal => {
                matches!(kind, ConstantKind::Integer | ConstantKind::Float)
            }
            CqlType::Text | CqlType::Ascii | CqlType::Inet => kind == ConstantKind::String,
            CqlType::Date | CqlType::Time | CqlType::Timestamp => {
                matches!(kind, ConstantKind::String | ConstantKind::Integer)
            }
            CqlType::Uuid | CqlType::TimeUuid => kind == ConstantKind::Uuid,
            CqlType::Boolean => kind == ConstantKind::Boolean,
            CqlType::Blob => kind == ConstantKind::Hex,
            CqlType::Duration => kind == ConstantKind::Duration,
            _ => false,
        }
    }
}
