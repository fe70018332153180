//! Types as written; user types are not looked up here.

use super::{Name, QualifiedName};

/// The types that have a keyword of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NativeType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varchar,
    Varint,
}

impl NativeType {
    /// The CQL name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Bigint => "bigint",
            Self::Blob => "blob",
            Self::Boolean => "boolean",
            Self::Counter => "counter",
            Self::Date => "date",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Duration => "duration",
            Self::Float => "float",
            Self::Inet => "inet",
            Self::Int => "int",
            Self::Smallint => "smallint",
            Self::Text => "text",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timeuuid => "timeuuid",
            Self::Tinyint => "tinyint",
            Self::Uuid => "uuid",
            Self::Varchar => "varchar",
            Self::Varint => "varint",
        }
    }
}

/// A type as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RawType {
    /// A type with a keyword.
    Native(NativeType),
    /// `list<element>`.
    List(Box<RawType>),
    /// `set<element>`.
    Set(Box<RawType>),
    /// `map<key, value>`.
    Map(Box<RawType>, Box<RawType>),
    /// `tuple<a, b, ...>`; always frozen.
    Tuple(Vec<RawType>),
    /// `vector<element, dimension>`; the dimension may be out of range still.
    Vector {
        /// Type of the elements.
        element: Box<RawType>,
        /// The number of elements, which the type check bounds.
        dimension: i32,
    },
    /// `frozen<inner>`.
    Frozen(Box<RawType>),
    /// A user-defined type, with or without keyspace.
    User(QualifiedName),
    /// `'org.apache.cassandra.db.marshal.SomeType'`, unquoted here.
    Custom(Box<str>),
}

impl RawType {
    /// A user type without keyspace.
    pub fn user(name: Name) -> Self {
        Self::User(QualifiedName { keyspace: None, name })
    }
}
