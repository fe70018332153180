//! Types, terms, selectors and relations as CQL text that parses to the same again.
//!
//! Markers come out as `?`: their names are with the statement, not with them.

use std::fmt::{self, Display, Formatter, Write};

use super::{
    BindMarker, ColumnCondition, ConditionPath, ConditionTest, Constant, ConstantKind,
    FunctionName, InValues, Name, QualifiedName, RawType, Relation, Selector, Term, TupleInValues,
    TupleValue,
};

/// A name as it must be written.
struct Written<'a>(&'a str);

impl Display for Written<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::keyword::quote_if_needed(self.0))
    }
}

/// A string literal as it must be written.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('\'')?;
        for character in self.0.chars() {
            if character == '\'' {
                f.write_char('\'')?;
            }
            f.write_char(character)?;
        }
        f.write_char('\'')
    }
}

/// Items between commas.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// Pairs with a colon, between commas.
struct Pairs<'a, K, V>(&'a [(K, V)]);

impl<K: Display, V: Display> Display for Pairs<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{key}: {value}")?;
        }
        Ok(())
    }
}

fn columns(names: &[Name]) -> String {
    names.iter().map(|name| name.to_cql()).collect::<Vec<_>>().join(", ")
}

impl QualifiedName {
    /// The name as it must be written in CQL.
    pub fn to_cql(&self) -> String {
        match &self.keyspace {
            Some(keyspace) => format!("{}.{}", Written(keyspace), Written(&self.name)),
            None => self.name.to_cql(),
        }
    }
}

impl FunctionName {
    /// The name as it must be written in CQL.
    pub fn to_cql(&self) -> String {
        // A name without quotes may be `token`, which is reserved elsewhere.
        let name = if &*self.name == "token" { "token".to_owned() } else { self.name.to_cql() };
        match &self.keyspace {
            Some(keyspace) => format!("{}.{name}", Written(keyspace)),
            None => name,
        }
    }
}

impl Display for RawType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(native) => f.write_str(native.name()),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Set(element) => write!(f, "set<{element}>"),
            Self::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Self::Tuple(elements) => write!(f, "tuple<{}>", List(elements)),
            Self::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>"),
            Self::Frozen(inner) => write!(f, "frozen<{inner}>"),
            Self::User(name) => f.write_str(&name.to_cql()),
            Self::Custom(class) => Quoted(class).fmt(f),
        }
    }
}

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind {
            ConstantKind::String => Quoted(&self.text).fmt(f),
            ConstantKind::Integer
            | ConstantKind::Float
            | ConstantKind::Boolean
            | ConstantKind::Uuid
            | ConstantKind::Hex
            | ConstantKind::Duration => f.write_str(&self.text),
        }
    }
}

impl Display for BindMarker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('?')
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(constant) => constant.fmt(f),
            Self::Null => f.write_str("NULL"),
            Self::Marker(marker) => marker.fmt(f),
            Self::List(elements) => write!(f, "[{}]", List(elements)),
            Self::Set(elements) => write!(f, "{{{}}}", List(elements)),
            Self::Map(entries) => write!(f, "{{{}}}", Pairs(entries)),
            Self::UserType(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, term)| (Written(name), term)).collect();
                write!(f, "{{{}}}", Pairs(&fields))
            }
            Self::Tuple(elements) => write!(f, "({})", List(elements)),
            Self::Function { name, arguments } => {
                write!(f, "{}({})", name.to_cql(), List(arguments))
            }
            Self::Cast { term, target } => write!(f, "CAST({term} AS {})", target.name()),
            Self::TypeHint { hint, term } => write!(f, "({hint}) {term}"),
            Self::Operation { left, operator, right } => {
                write!(f, "{left} {} {right}", operator.sign())
            }
            Self::Negation(term) => write!(f, "- {term}"),
        }
    }
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => Written(name).fmt(f),
            Self::Term(term) => term.fmt(f),
            Self::CountRows => f.write_str("count(*)"),
            Self::Function { name, arguments } => {
                write!(f, "{}({})", name.to_cql(), List(arguments))
            }
            Self::Cell { function, argument } => write!(f, "{}({argument})", function.name()),
            Self::Cast { selector, target } => write!(f, "CAST({selector} AS {})", target.name()),
            Self::TypeHint { hint, selector } => write!(f, "({hint}) {selector}"),
            Self::Field { receiver, field } => write!(f, "{receiver}.{}", Written(field)),
            Self::Element { receiver, key } => write!(f, "{receiver}[{key}]"),
            Self::Slice { receiver, from, to } => {
                write!(f, "{receiver}[")?;
                if let Some(from) = from {
                    // The space keeps a number apart from the dots.
                    write!(f, "{from} ")?;
                }
                f.write_str("..")?;
                if let Some(to) = to {
                    write!(f, " {to}")?;
                }
                f.write_char(']')
            }
            Self::Parenthesized(elements) => write!(f, "({})", List(elements)),
            Self::List(elements) => write!(f, "[{}]", List(elements)),
            Self::Set(elements) => write!(f, "{{{}}}", List(elements)),
            Self::MapOrUserType(entries) => write!(f, "{{{}}}", Pairs(entries)),
            Self::Operation { left, operator, right } => {
                write!(f, "{left} {} {right}", operator.sign())
            }
            Self::Negation(operand) => write!(f, "- {operand}"),
        }
    }
}

impl Display for InValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terms(terms) => write!(f, "({})", List(terms)),
            Self::Marker(marker) => marker.fmt(f),
        }
    }
}

impl Display for TupleInValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literals(tuples) => {
                f.write_char('(')?;
                for (index, tuple) in tuples.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}({})", List(tuple))?;
                }
                f.write_char(')')
            }
            Self::Markers(markers) => write!(f, "({})", List(markers)),
            Self::Marker(marker) => marker.fmt(f),
        }
    }
}

impl Display for TupleValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(terms) => write!(f, "({})", List(terms)),
            Self::Marker(marker) => marker.fmt(f),
        }
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { column, operator, value } => {
                write!(f, "{} {} {value}", Written(column), operator.sign())
            }
            Self::In { column, values } => write!(f, "{} IN {values}", Written(column)),
            Self::Contains { column, value } => {
                write!(f, "{} CONTAINS {value}", Written(column))
            }
            Self::ContainsKey { column, value } => {
                write!(f, "{} CONTAINS KEY {value}", Written(column))
            }
            Self::Element { column, key, operator, value } => {
                write!(f, "{}[{key}] {} {value}", Written(column), operator.sign())
            }
            Self::Like { column, value } => write!(f, "{} LIKE {value}", Written(column)),
            Self::IsNotNull { column } => write!(f, "{} IS NOT NULL", Written(column)),
            Self::Token { columns: names, operator, value } => {
                write!(f, "token({}) {} {value}", columns(names), operator.sign())
            }
            Self::Tuple { columns: names, operator, value } => {
                write!(f, "({}) {} {value}", columns(names), operator.sign())
            }
            Self::TupleIn { columns: names, values } => {
                write!(f, "({}) IN {values}", columns(names))
            }
            Self::IndexExpression { index, value } => {
                write!(f, "expr({}, {value})", Written(index))
            }
        }
    }
}

impl Display for ColumnCondition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Written(&self.column).fmt(f)?;
        match &self.path {
            ConditionPath::Column => {}
            ConditionPath::Element(key) => write!(f, "[{key}]")?,
            ConditionPath::Field(field) => write!(f, ".{}", Written(field))?,
        }
        match &self.test {
            ConditionTest::Compare(operator, term) => write!(f, " {} {term}", operator.sign()),
            ConditionTest::In(values) => write!(f, " IN {values}"),
            ConditionTest::Contains(term) => write!(f, " CONTAINS {term}"),
            ConditionTest::ContainsKey(term) => write!(f, " CONTAINS KEY {term}"),
        }
    }
}
