//! The types of CQL, as the schema declares them and the protocol announces them.

use std::fmt;
use std::sync::Arc;

/// A CQL type. `frozen` says whether a collection or user type is one cell (frozen) or a cell per
/// element. Whatever is nested inside another type is always frozen, whatever its flag says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    Ascii,
    /// `bigint`
    BigInt,
    Blob,
    Boolean,
    Counter,
    /// `date`: days, with the epoch at 2^31
    Date,
    Decimal,
    Double,
    Duration,
    /// The type without a value, of dense tables with no regular column.
    Empty,
    Float,
    Inet,
    Int,
    /// `smallint`
    SmallInt,
    /// `text`, also written `varchar`
    Text,
    /// `time`: nanoseconds since midnight
    Time,
    /// `timestamp`: milliseconds since the epoch
    Timestamp,
    /// `timeuuid`
    TimeUuid,
    /// `tinyint`
    TinyInt,
    Uuid,
    Varint,
    /// `list<element>`
    List {
        /// The type of each element.
        element: Arc<CqlType>,
        /// One cell, or one per element.
        frozen: bool,
    },
    /// `set<element>`
    Set {
        /// The type of each element.
        element: Arc<CqlType>,
        /// One cell, or one per element.
        frozen: bool,
    },
    /// `map<key, value>`
    Map {
        /// The type of each key.
        key: Arc<CqlType>,
        /// The type of each value.
        value: Arc<CqlType>,
        /// One cell, or one per entry.
        frozen: bool,
    },
    /// `tuple<…>`, always frozen.
    Tuple(Arc<[CqlType]>),
    /// A user-defined type.
    User {
        /// Its definition at the time the schema was read.
        definition: Arc<UserType>,
        /// One cell, or one per field.
        frozen: bool,
    },
    /// `vector<element, dimension>`
    Vector {
        /// The type of each element.
        element: Arc<CqlType>,
        /// How many elements each value has.
        dimension: u16,
    },
    /// A type known by the name of its Java class only.
    Custom(Arc<str>),
}

/// A user-defined type: named fields in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// The keyspace it belongs to.
    pub keyspace: Arc<str>,
    /// Its name, in the case it is stored in.
    pub name: Arc<str>,
    /// Field names and types in declaration order.
    pub fields: Vec<(Arc<str>, CqlType)>,
}

impl CqlType {
    /// A collection or user type that keeps one cell per element.
    pub fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            CqlType::List { frozen: false, .. }
                | CqlType::Set { frozen: false, .. }
                | CqlType::Map { frozen: false, .. }
                | CqlType::User { frozen: false, .. }
        )
    }

    /// A collection or user type that is one value.
    pub fn is_frozen(&self) -> bool {
        matches!(
            self,
            CqlType::List { frozen: true, .. }
                | CqlType::Set { frozen: true, .. }
                | CqlType::Map { frozen: true, .. }
                | CqlType::User { frozen: true, .. }
        )
    }

    /// A list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(self, CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. })
    }

    /// The same type as one cell: what it is when nested, or in a key.
    pub fn freeze(&self) -> CqlType {
        let mut frozen_type = match self {
            // A vector is one cell anyway, and tells its elements as they were declared.
            CqlType::User { .. } | CqlType::Vector { .. } => self.clone(),
            _ => self.map_parts(&CqlType::freeze),
        };
        if let CqlType::List { frozen, .. }
        | CqlType::Set { frozen, .. }
        | CqlType::Map { frozen, .. }
        | CqlType::User { frozen, .. } = &mut frozen_type
        {
            *frozen = true;
        }
        frozen_type
    }

    /// The same type with each type it is directly built from replaced.
    pub fn map_parts(&self, replace: &dyn Fn(&CqlType) -> CqlType) -> CqlType {
        let replaced = |part: &CqlType| Arc::new(replace(part));
        match self {
            CqlType::List { element, frozen } => {
                CqlType::List { element: replaced(element), frozen: *frozen }
            }
            CqlType::Set { element, frozen } => {
                CqlType::Set { element: replaced(element), frozen: *frozen }
            }
            CqlType::Map { key, value, frozen } => {
                CqlType::Map { key: replaced(key), value: replaced(value), frozen: *frozen }
            }
            CqlType::Tuple(parts) => CqlType::Tuple(parts.iter().map(replace).collect()),
            CqlType::User { definition, frozen } => {
                let mut changed = UserType::clone(definition);
                for (_, field) in &mut changed.fields {
                    *field = replace(field);
                }
                CqlType::User { definition: Arc::new(changed), frozen: *frozen }
            }
            CqlType::Vector { element, dimension } => {
                CqlType::Vector { element: replaced(element), dimension: *dimension }
            }
            native => native.clone(),
        }
    }

    /// Whether this type, or any type inside it, is one that is looked for.
    pub fn contains(&self, is_wanted: &dyn Fn(&CqlType) -> bool) -> bool {
        if is_wanted(self) {
            return true;
        }
        match self {
            CqlType::List { element, .. }
            | CqlType::Set { element, .. }
            | CqlType::Vector { element, .. } => element.contains(is_wanted),
            CqlType::Map { key, value, .. } => key.contains(is_wanted) || value.contains(is_wanted),
            CqlType::Tuple(parts) => parts.iter().any(|part| part.contains(is_wanted)),
            CqlType::User { definition, .. } => {
                definition.fields.iter().any(|(_, field)| field.contains(is_wanted))
            }
            _ => false,
        }
    }

    /// Whether a duration is this type or is found inside, where Cassandra looks for one: not in
    /// sets, keys of maps and vectors.
    pub fn contains_duration(&self) -> bool {
        match self {
            CqlType::Duration => true,
            CqlType::List { element, .. } => element.contains_duration(),
            CqlType::Map { value, .. } => value.contains_duration(),
            CqlType::Tuple(parts) => parts.iter().any(CqlType::contains_duration),
            CqlType::User { definition, .. } => {
                definition.fields.iter().any(|(_, field)| field.contains_duration())
            }
            _ => false,
        }
    }

    /// The CQL name of a native type; `None` for what is built from other types.
    pub fn native_name(&self) -> Option<&'static str> {
        Some(match self {
            CqlType::Ascii => "ascii",
            CqlType::BigInt => "bigint",
            CqlType::Blob => "blob",
            CqlType::Boolean => "boolean",
            CqlType::Counter => "counter",
            CqlType::Date => "date",
            CqlType::Decimal => "decimal",
            CqlType::Double => "double",
            CqlType::Duration => "duration",
            CqlType::Empty => "empty",
            CqlType::Float => "float",
            CqlType::Inet => "inet",
            CqlType::Int => "int",
            CqlType::SmallInt => "smallint",
            CqlType::Text => "text",
            CqlType::Time => "time",
            CqlType::Timestamp => "timestamp",
            CqlType::TimeUuid => "timeuuid",
            CqlType::TinyInt => "tinyint",
            CqlType::Uuid => "uuid",
            CqlType::Varint => "varint",
            _ => return None,
        })
    }

    /// The native type of that CQL name (lower case); `varchar` is `text`.
    pub fn native(name: &str) -> Option<CqlType> {
        Some(match name {
            "ascii" => CqlType::Ascii,
            "bigint" => CqlType::BigInt,
            "blob" => CqlType::Blob,
            "boolean" => CqlType::Boolean,
            "counter" => CqlType::Counter,
            "date" => CqlType::Date,
            "decimal" => CqlType::Decimal,
            "double" => CqlType::Double,
            "duration" => CqlType::Duration,
            "empty" => CqlType::Empty,
            "float" => CqlType::Float,
            "inet" => CqlType::Inet,
            "int" => CqlType::Int,
            "smallint" => CqlType::SmallInt,
            "text" | "varchar" => CqlType::Text,
            "time" => CqlType::Time,
            "timestamp" => CqlType::Timestamp,
            "timeuuid" => CqlType::TimeUuid,
            "tinyint" => CqlType::TinyInt,
            "uuid" => CqlType::Uuid,
            "varint" => CqlType::Varint,
            _ => return None,
        })
    }

    /// The length every value of this type has, where it is fixed.
    pub fn fixed_length(&self) -> Option<usize> {
        match self {
            CqlType::Boolean | CqlType::TinyInt => Some(1),
            CqlType::SmallInt => Some(2),
            CqlType::Int | CqlType::Float | CqlType::Date => Some(4),
            CqlType::BigInt
            | CqlType::Counter
            | CqlType::Double
            | CqlType::Time
            | CqlType::Timestamp => Some(8),
            CqlType::Uuid | CqlType::TimeUuid => Some(16),
            CqlType::Vector { element, dimension } => {
                element.vector_element_length().map(|length| length * usize::from(*dimension))
            }
            _ => None,
        }
    }

    /// The length of this type's values inside a vector, where they are written without a length.
    /// `date`, `time`, `smallint` and `tinyint` count as variable there, as in Cassandra.
    pub fn vector_element_length(&self) -> Option<usize> {
        match self {
            CqlType::Date | CqlType::Time | CqlType::SmallInt | CqlType::TinyInt => None,
            CqlType::Counter => None,
            other => other.fixed_length(),
        }
    }
}

/// Writes an identifier the way CQL reads it back: quoted unless it is all lower case.
pub fn quote_identifier(name: &str) -> std::borrow::Cow<'_, str> {
    let mut bytes = name.bytes();
    let plain = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if plain {
        std::borrow::Cow::Borrowed(name)
    } else {
        std::borrow::Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    }
}

/// The CQL form, as `system_schema` and DESCRIBE print it.
impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thaw = |frozen: bool| if frozen { ("frozen<", ">") } else { ("", "") };
        match self {
            CqlType::List { element, frozen } => {
                let (open, close) = thaw(*frozen);
                write!(f, "{open}list<{element}>{close}")
            }
            CqlType::Set { element, frozen } => {
                let (open, close) = thaw(*frozen);
                write!(f, "{open}set<{element}>{close}")
            }
            CqlType::Map { key, value, frozen } => {
                let (open, close) = thaw(*frozen);
                write!(f, "{open}map<{key}, {value}>{close}")
            }
            CqlType::Tuple(parts) => {
                f.write_str("frozen<tuple<")?;
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{part}")?;
                }
                f.write_str(">>")
            }
            CqlType::User { definition, frozen } => {
                let (open, close) = thaw(*frozen);
                write!(f, "{open}{}{close}", quote_identifier(&definition.name))
            }
            CqlType::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>"),
            CqlType::Custom(class) => write!(f, "'{class}'"),
            native => f.write_str(native.native_name().unwrap_or("empty")),
        }
    }
}
