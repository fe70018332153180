//! Types by the names of Cassandra's Java classes, as old schemas write them in quotes:
//! `'org.apache.cassandra.db.marshal.Int32Type'`.

use std::sync::Arc;

use types::CqlType;

use crate::error::{SchemaError, syntax};
use crate::type_text::TYPE_DEPTH_MAX;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Classes that are a CQL type without parameters.
const NATIVE_CLASSES: &[(&str, CqlType)] = &[
    ("AsciiType", CqlType::Ascii),
    ("BooleanType", CqlType::Boolean),
    ("ByteType", CqlType::TinyInt),
    ("BytesType", CqlType::Blob),
    ("CounterColumnType", CqlType::Counter),
    ("DateType", CqlType::Timestamp),
    ("DecimalType", CqlType::Decimal),
    ("DoubleType", CqlType::Double),
    ("DurationType", CqlType::Duration),
    ("EmptyType", CqlType::Empty),
    ("FloatType", CqlType::Float),
    ("InetAddressType", CqlType::Inet),
    ("Int32Type", CqlType::Int),
    ("IntegerType", CqlType::Varint),
    ("LongType", CqlType::BigInt),
    ("ShortType", CqlType::SmallInt),
    ("SimpleDateType", CqlType::Date),
    ("TimeType", CqlType::Time),
    ("TimeUUIDType", CqlType::TimeUuid),
    ("TimestampType", CqlType::Timestamp),
    ("UTF8Type", CqlType::Text),
    ("UUIDType", CqlType::Uuid),
];

/// Classes that have no CQL form; their values are kept as they come.
const OPAQUE_CLASSES: &[&str] =
    &["LexicalUUIDType", "CompositeType", "DynamicCompositeType", "LegacyTimeUUIDType"];

/// The type that a class name stands for. The empty name is `blob`, as in Cassandra.
pub(crate) fn parse_class(text: &str) -> Result<CqlType, SchemaError> {
    if text.is_empty() {
        return Ok(CqlType::Blob);
    }
    let mut reader = ClassReader { text, position: 0 };
    let class = reader.read_class(TYPE_DEPTH_MAX)?;
    Ok(class.cql_type)
}

/// A type and its full Java name, which opaque types print.
struct Class {
    cql_type: CqlType,
    full_name: String,
}

struct ClassReader<'a> {
    text: &'a str,
    position: usize,
}

impl ClassReader<'_> {
    fn read_class(&mut self, depth: usize) -> Result<Class, SchemaError> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.broken("nested too deeply"));
        };
        self.skip_blank();
        let name = self.read_identifier();
        let short = name.strip_prefix(PACKAGE).unwrap_or(&name).to_string();
        let full_name = if name.contains('.') { name.clone() } else { format!("{PACKAGE}{name}") };
        if let Some((_, cql_type)) = NATIVE_CLASSES.iter().find(|(class, _)| *class == short) {
            self.skip_parameters()?;
            return Ok(Class { cql_type: cql_type.clone(), full_name });
        }
        match short.as_str() {
            "ListType" | "SetType" | "MapType" | "TupleType" | "FrozenType" | "ReversedType" => {
                let parameters = self.read_parameters(depth)?;
                self.build(&short, full_name, parameters)
            }
            "VectorType" => self.read_vector(full_name, depth),
            opaque if OPAQUE_CLASSES.contains(&opaque) => {
                let full_name = self.read_opaque(full_name, depth)?;
                Ok(Class { cql_type: CqlType::Custom(Arc::from(full_name.as_str())), full_name })
            }
            _ => Err(syntax!(
                "Error setting type {}: Unable to find abstract-type class '{full_name}'",
                self.text
            )),
        }
    }

    fn build(
        &self,
        short: &str,
        full_name: String,
        parameters: Vec<Class>,
    ) -> Result<Class, SchemaError> {
        let names: Vec<&str> = parameters.iter().map(|class| class.full_name.as_str()).collect();
        let full_name = format!("{full_name}({})", names.join(","));
        let count = parameters.len();
        let mut inner = parameters.into_iter().map(|class| class.cql_type);
        let cql_type = match (short, count, inner.next(), inner.next()) {
            ("ListType", 1, Some(element), None) => {
                CqlType::List { element: Arc::new(element), frozen: false }
            }
            ("SetType", 1, Some(element), None) => {
                CqlType::Set { element: Arc::new(element), frozen: false }
            }
            ("MapType", 2, Some(key), Some(value)) => {
                CqlType::Map { key: Arc::new(key), value: Arc::new(value), frozen: false }
            }
            ("FrozenType", 1, Some(element), None) => element.freeze(),
            ("ReversedType", 1, Some(element), None) => element,
            ("TupleType", _, Some(first), second) => {
                let parts: Vec<CqlType> =
                    [Some(first), second].into_iter().flatten().chain(inner).collect();
                CqlType::Tuple(parts.into())
            }
            _ => {
                return Err(syntax!(
                    "Error setting type {}: {short} takes exactly {} type parameter",
                    self.text,
                    if short == "MapType" { 2 } else { 1 }
                ));
            }
        };
        Ok(Class { cql_type, full_name })
    }

    fn read_vector(&mut self, full_name: String, depth: usize) -> Result<Class, SchemaError> {
        self.expect('(')?;
        let element = self.read_class(depth)?;
        self.skip_blank();
        self.expect(',')?;
        self.skip_blank();
        let dimension: u16 = self
            .read_identifier()
            .parse()
            .ok()
            .filter(|dimension| *dimension > 0)
            .ok_or_else(|| self.broken("the dimension of a vector lies in 1 to 65535"))?;
        self.skip_blank();
        self.expect(')')?;
        let full_name = format!("{full_name}({} , {dimension})", element.full_name);
        let cql_type = CqlType::Vector { element: Arc::new(element.cql_type), dimension };
        Ok(Class { cql_type, full_name })
    }

    /// The parameters of a composite, printed back with full class names.
    fn read_opaque(&mut self, full_name: String, depth: usize) -> Result<String, SchemaError> {
        if self.peek() != Some('(') {
            return Ok(full_name);
        }
        self.expect('(')?;
        let mut parts = Vec::new();
        loop {
            self.skip_blank();
            let start = self.position;
            let word = self.read_identifier();
            self.skip_blank();
            if self.text.get(self.position..).is_some_and(|rest| rest.starts_with("=>")) {
                self.position += 2;
                parts.push(format!("{word}=>{}", self.read_class(depth)?.full_name));
            } else {
                self.position = start;
                parts.push(self.read_class(depth)?.full_name);
            }
            self.skip_blank();
            if self.peek() != Some(',') {
                break;
            }
            self.expect(',')?;
        }
        self.expect(')')?;
        Ok(format!("{full_name}({})", parts.join(",")))
    }

    fn read_parameters(&mut self, depth: usize) -> Result<Vec<Class>, SchemaError> {
        let mut parameters = Vec::new();
        if self.peek() != Some('(') {
            return Ok(parameters);
        }
        self.expect('(')?;
        loop {
            parameters.push(self.read_class(depth)?);
            self.skip_blank();
            if self.peek() != Some(',') {
                break;
            }
            self.expect(',')?;
        }
        self.expect(')')?;
        Ok(parameters)
    }

    /// A class without parameters may still be written with empty parentheses.
    fn skip_parameters(&mut self) -> Result<(), SchemaError> {
        if self.peek() != Some('(') {
            return Ok(());
        }
        self.expect('(')?;
        self.skip_blank();
        self.expect(')')
    }

    fn read_identifier(&mut self) -> String {
        let rest = self.text.get(self.position..).unwrap_or_default();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-+._&".contains(c)))
            .unwrap_or(rest.len());
        self.position += end;
        rest.get(..end).unwrap_or_default().to_string()
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.position..)?.chars().next()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n')) {
            self.position += 1;
        }
    }

    fn expect(&mut self, expected: char) -> Result<(), SchemaError> {
        match self.peek() {
            Some(found) if found == expected => {
                self.position += found.len_utf8();
                Ok(())
            }
            Some(found) => Err(self.broken(&format!("unexpected character '{found}'"))),
            None => Err(self.broken("unexpected end of string")),
        }
    }

    fn broken(&self, what: &str) -> SchemaError {
        syntax!(
            "Cannot parse type {0}: Syntax error parsing '{0}' at char {1}: {what}",
            self.text,
            self.position
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_become_types() {
        for (class, expected) in [
            ("Int32Type", "int"),
            ("org.apache.cassandra.db.marshal.UTF8Type", "text"),
            ("DateType", "timestamp"),
            ("", "blob"),
            ("ListType(Int32Type)", "list<int>"),
            ("FrozenType(ListType(Int32Type))", "frozen<list<int>>"),
            ("ReversedType(Int32Type)", "int"),
            ("TupleType(Int32Type,UTF8Type)", "frozen<tuple<int, text>>"),
            ("VectorType(FloatType , 3)", "vector<float, 3>"),
            (
                "CompositeType(Int32Type,UTF8Type)",
                "'org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.Int32Type,org.apache.cassandra.db.marshal.UTF8Type)'",
            ),
            (
                "DynamicCompositeType(a => Int32Type)",
                "'org.apache.cassandra.db.marshal.DynamicCompositeType(a=>org.apache.cassandra.db.marshal.Int32Type)'",
            ),
        ] {
            assert_eq!(parse_class(class).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn unknown_classes_are_refused_in_cassandras_words() {
        assert_eq!(
            parse_class("foo").unwrap_err().to_string(),
            "Error setting type foo: Unable to find abstract-type class 'org.apache.cassandra.db.marshal.foo'"
        );
        assert_eq!(
            parse_class("Int32Type(").unwrap_err().to_string(),
            "Cannot parse type Int32Type(: Syntax error parsing 'Int32Type(' at char 10: unexpected end of string"
        );
        assert!(parse_class(&"ListType(".repeat(100)).is_err());
    }
}
