//! Types as written become types as kept, with Cassandra's rules for what may be nested in what.

use std::fmt;
use std::sync::Arc;

use cql::ast::{NativeType, QualifiedName, RawType};
use types::CqlType;

use crate::error::{SchemaError, invalid, syntax};
use crate::java_class::parse_class;
use crate::model::{Keyspace, Schema};
use crate::type_text::TYPE_DEPTH_MAX;

/// The type that `raw` means in a statement on `keyspace`.
pub fn resolve_type(
    schema: &Schema,
    keyspace: &str,
    raw: &RawType,
) -> Result<CqlType, SchemaError> {
    match schema.keyspace(keyspace) {
        Some(found) => resolve_in(found, raw),
        None => Err(SchemaError::Configuration(format!("Keyspace {keyspace} doesn't exist"))),
    }
}

/// The same, when the keyspace is at hand.
pub(crate) fn resolve_in(keyspace: &Keyspace, raw: &RawType) -> Result<CqlType, SchemaError> {
    let cql_type = Written::read(raw, TYPE_DEPTH_MAX)?.resolve(keyspace)?;
    check_extent(&cql_type)?;
    Ok(cql_type)
}

/// How many types may stand inside one type, when each user type is written out.
const TYPE_PARTS_MAX: usize = 10_000;

/// User types can be nested in user types without end; a type that would take too long to walk
/// through, or too deep, is refused when it is defined.
pub(crate) fn check_extent(cql_type: &CqlType) -> Result<(), SchemaError> {
    let mut parts_left = TYPE_PARTS_MAX;
    if fits(cql_type, TYPE_DEPTH_MAX, &mut parts_left) {
        return Ok(());
    }
    if parts_left == 0 {
        return Err(invalid!("a type may have at most {TYPE_PARTS_MAX} parts"));
    }
    Err(invalid!("types are nested more than {TYPE_DEPTH_MAX} deep"))
}

fn fits(cql_type: &CqlType, depth_left: usize, parts_left: &mut usize) -> bool {
    let Some(depth_left) = depth_left.checked_sub(1) else { return false };
    let Some(parts) = parts_left.checked_sub(1) else { return false };
    *parts_left = parts;
    let mut inner = |part: &CqlType| fits(part, depth_left, parts_left);
    match cql_type {
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => inner(element),
        CqlType::Map { key, value, .. } => inner(key) && inner(value),
        CqlType::Tuple(parts) => parts.iter().all(inner),
        CqlType::User { definition, .. } => definition.fields.iter().all(|(_, field)| inner(field)),
        _ => true,
    }
}

/// What a statement asks of a type before it is looked up.
pub(crate) struct TypeShape {
    /// `counter`, by itself.
    pub(crate) is_counter: bool,
    /// A user type that is not frozen.
    pub(crate) is_thawed_user_type: bool,
    /// As the statement wrote it, for messages.
    pub(crate) text: String,
}

/// The shape of a type as written; fails where the grammar itself would refuse it.
pub(crate) fn shape_of(raw: &RawType) -> Result<TypeShape, SchemaError> {
    let written = Written::read(raw, TYPE_DEPTH_MAX)?;
    Ok(TypeShape {
        is_counter: written.is_counter(),
        is_thawed_user_type: matches!(written, Written::User { frozen: false, .. }),
        text: written.to_string(),
    })
}

/// A type as written, with `frozen` pushed down to what it freezes.
enum Written<'a> {
    Native(NativeType),
    /// Given by its Java class: taken as it is.
    Class(CqlType),
    List {
        element: Box<Written<'a>>,
        frozen: bool,
    },
    Set {
        element: Box<Written<'a>>,
        frozen: bool,
    },
    Map {
        key: Box<Written<'a>>,
        value: Box<Written<'a>>,
        frozen: bool,
    },
    Tuple(Vec<Written<'a>>),
    Vector {
        element: Box<Written<'a>>,
        dimension: i32,
    },
    User {
        name: &'a QualifiedName,
        frozen: bool,
    },
}

impl<'a> Written<'a> {
    fn read(raw: &'a RawType, depth: usize) -> Result<Written<'a>, SchemaError> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(invalid!("types are nested more than {TYPE_DEPTH_MAX} deep"));
        };
        let boxed = |inner| Written::read(inner, depth).map(Box::new);
        Ok(match raw {
            RawType::Native(native) => Written::Native(*native),
            RawType::List(element) => Written::List { element: boxed(element)?, frozen: false },
            RawType::Set(element) => Written::Set { element: boxed(element)?, frozen: false },
            RawType::Map(key, value) => {
                Written::Map { key: boxed(key)?, value: boxed(value)?, frozen: false }
            }
            RawType::Tuple(parts) => {
                let mut read = Vec::with_capacity(parts.len());
                for part in parts {
                    read.push(Written::read(part, depth)?.freeze_if_possible());
                }
                Written::Tuple(read)
            }
            RawType::Vector { element, dimension } => {
                Written::Vector { element: boxed(element)?, dimension: *dimension }
            }
            RawType::Frozen(inner) => {
                let inner = Written::read(inner, depth)?;
                if !inner.supports_freezing() {
                    return Err(syntax!(
                        "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
                    ));
                }
                inner.freeze_if_possible()
            }
            RawType::User(name) => Written::User { name, frozen: false },
            RawType::Custom(class) => Written::Class(parse_class(class)?),
        })
    }

    fn supports_freezing(&self) -> bool {
        !matches!(self, Written::Native(_) | Written::Class(_))
    }

    fn freeze_if_possible(self) -> Written<'a> {
        let boxed = |inner: Box<Written<'a>>| Box::new(inner.freeze_if_possible());
        match self {
            Written::List { element, .. } => {
                Written::List { element: boxed(element), frozen: true }
            }
            Written::Set { element, .. } => Written::Set { element: boxed(element), frozen: true },
            Written::Map { key, value, .. } => {
                Written::Map { key: boxed(key), value: boxed(value), frozen: true }
            }
            Written::User { name, .. } => Written::User { name, frozen: true },
            other => other,
        }
    }

    /// By CQL's own name: as in Cassandra, nobody looks for one that comes by its class.
    fn is_counter(&self) -> bool {
        matches!(self, Written::Native(NativeType::Counter))
    }

    fn is_duration(&self) -> bool {
        matches!(self, Written::Native(NativeType::Duration) | Written::Class(CqlType::Duration))
    }

    fn is_frozen(&self) -> bool {
        match self {
            Written::List { frozen, .. }
            | Written::Set { frozen, .. }
            | Written::Map { frozen, .. }
            | Written::User { frozen, .. } => *frozen,
            Written::Tuple(_) | Written::Vector { .. } => true,
            Written::Native(_) | Written::Class(_) => false,
        }
    }

    fn resolve(&self, keyspace: &Keyspace) -> Result<CqlType, SchemaError> {
        match self {
            Written::Native(native) => CqlType::native(native.name())
                .ok_or_else(|| invalid!("Unknown type {}", native.name())),
            Written::Class(class) => Ok(class.clone()),
            Written::List { element, frozen } => {
                self.check_values(element, *frozen)?;
                let element = Arc::new(element.resolve(keyspace)?);
                Ok(CqlType::List { element, frozen: *frozen })
            }
            Written::Set { element, frozen } => {
                self.check_values(element, *frozen)?;
                let element = Arc::new(element.resolve(keyspace)?);
                Ok(CqlType::Set { element, frozen: *frozen })
            }
            Written::Map { key, value, frozen } => {
                self.check_values(value, *frozen)?;
                self.check_keys(key, *frozen)?;
                let value = Arc::new(value.resolve(keyspace)?);
                let key = Arc::new(key.resolve(keyspace)?);
                Ok(CqlType::Map { key, value, frozen: *frozen })
            }
            Written::Tuple(parts) => {
                let mut resolved = Vec::with_capacity(parts.len());
                for part in parts {
                    if part.is_counter() {
                        return Err(invalid!("Counters are not allowed inside tuples"));
                    }
                    resolved.push(part.resolve(keyspace)?);
                }
                Ok(CqlType::Tuple(resolved.into()))
            }
            Written::Vector { element, dimension } => {
                let element = Arc::new(element.resolve(keyspace)?);
                if *dimension <= 0 {
                    return Err(invalid!(
                        "vectors may only have positive dimensions; given {dimension}"
                    ));
                }
                // Compat: Cassandra has no upper bound.
                let dimension = u16::try_from(*dimension).map_err(|_| {
                    invalid!("vectors may have at most {} dimensions; given {dimension}", u16::MAX)
                })?;
                Ok(CqlType::Vector { element, dimension })
            }
            Written::User { name, frozen } => resolve_user_type(keyspace, name, *frozen),
        }
    }

    fn check_values(&self, values: &Written<'_>, frozen: bool) -> Result<(), SchemaError> {
        self.check_nested(values, frozen)?;
        if values.is_counter() {
            return Err(invalid!("Counters are not allowed inside collections: {self}"));
        }
        if values.is_duration() && matches!(self, Written::Set { .. }) {
            return Err(invalid!("Durations are not allowed inside sets: {self}"));
        }
        Ok(())
    }

    fn check_keys(&self, keys: &Written<'_>, frozen: bool) -> Result<(), SchemaError> {
        if keys.is_counter() {
            return Err(invalid!("Counters are not allowed inside collections: {self}"));
        }
        if keys.is_duration() {
            return Err(invalid!("Durations are not allowed as map keys: {self}"));
        }
        self.check_nested(keys, frozen)
    }

    fn check_nested(&self, inner: &Written<'_>, frozen: bool) -> Result<(), SchemaError> {
        if frozen || !inner.supports_freezing() || inner.is_frozen() {
            return Ok(());
        }
        match inner {
            Written::User { .. } => {
                Err(invalid!("Non-frozen UDTs are not allowed inside collections: {self}"))
            }
            _ => Err(invalid!("Non-frozen collections are not allowed inside collections: {self}")),
        }
    }
}

fn resolve_user_type(
    keyspace: &Keyspace,
    name: &QualifiedName,
    frozen: bool,
) -> Result<CqlType, SchemaError> {
    if let Some(other) = name.keyspace.as_ref().filter(|other| other.as_str() != &*keyspace.name) {
        return Err(invalid!(
            "Statement on keyspace {} cannot refer to a user type in keyspace {other}; \
             user types can only be used in the keyspace they are defined in",
            keyspace.name
        ));
    }
    match keyspace.types.get(name.name.as_str()) {
        Some(definition) => Ok(CqlType::User { definition: Arc::clone(definition), frozen }),
        None => Err(invalid!("Unknown type {}.{}", keyspace.name, name.name)),
    }
}

/// As Cassandra writes it in its messages.
impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = |frozen: bool| if frozen { ("frozen<", ">") } else { ("", "") };
        match self {
            Written::Native(native) => f.write_str(native.name()),
            Written::Class(class) => write!(f, "{class}"),
            Written::List { element, frozen } => {
                let (open, close) = brackets(*frozen);
                write!(f, "{open}list<{element}>{close}")
            }
            Written::Set { element, frozen } => {
                let (open, close) = brackets(*frozen);
                write!(f, "{open}set<{element}>{close}")
            }
            Written::Map { key, value, frozen } => {
                let (open, close) = brackets(*frozen);
                write!(f, "{open}map<{key}, {value}>{close}")
            }
            Written::Tuple(parts) => {
                f.write_str("tuple<")?;
                for (index, part) in parts.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{part}")?;
                }
                f.write_str(">")
            }
            Written::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>"),
            Written::User { name, frozen } => {
                let (open, close) = brackets(*frozen);
                write!(f, "{open}{name}{close}")
            }
        }
    }
}
