//! Identifiers, after the case rule: unquoted ones are lower-cased, quoted ones kept.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// An identifier whose case is settled. Two names are the same exactly when their text is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// A name whose case is already settled.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as it must be written in CQL: in double quotes where the plain form would not
    /// come back as the same name.
    pub fn to_cql(&self) -> String {
        crate::keyword::quote_if_needed(&self.0)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into_string()
    }
}

impl From<Name> for Box<str> {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The bare text, as Cassandra puts it into messages.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A table, view, index or type name with an optional keyspace before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    /// The keyspace, when it was written.
    pub keyspace: Option<Name>,
    /// The name itself.
    pub name: Name,
}

/// `keyspace.name` or `name`, unquoted, as Cassandra puts it into messages.
impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.name),
            None => self.name.fmt(f),
        }
    }
}

/// A function or aggregate name with an optional keyspace before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName {
    /// The keyspace, when it was written.
    pub keyspace: Option<Name>,
    /// The name itself.
    pub name: Name,
}

/// `keyspace.name` or `name`, unquoted, as Cassandra puts it into messages.
impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.name),
            None => self.name.fmt(f),
        }
    }
}
