//! Types by the names of Cassandra's Java classes, as old schemas write them in quotes:
//! `'org.apache.cassandra.db.marshal.Int32Type'`.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::value::custom::{MARSHAL_PACKAGE as PACKAGE, NATIVE_CLASSES};
use types::value::parse_text;
use types::{CqlType, UserType};

use crate::error::{SchemaError, syntax};
use crate::java;
use crate::type_text::TYPE_DEPTH_MAX;

/// The partitioner whose order `PartitionerDefinedOrder` is.
const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The type that a class name stands for. The empty name is `blob`, as in Cassandra.
pub fn parse_class(text: &str) -> Result<CqlType, SchemaError> {
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
            "UserType" => self.read_user_type(full_name, depth),
            "CompositeType" | "DynamicCompositeType" => {
                let full_name = self.read_composite(&short, full_name, depth)?;
                Ok(Class { cql_type: CqlType::Custom(Arc::from(full_name.as_str())), full_name })
            }
            "LexicalUUIDType" => {
                // Whatever it is given, Cassandra does not look at it.
                self.read_parameters(depth)?;
                Ok(Class { cql_type: CqlType::Custom(Arc::from(full_name.as_str())), full_name })
            }
            "PartitionerDefinedOrder" => {
                if self.peek() == Some('(') {
                    return Err(self.invalid_definition(&full_name));
                }
                let full_name = format!("{full_name}({PARTITIONER})");
                Ok(Class { cql_type: CqlType::Custom(Arc::from(full_name.as_str())), full_name })
            }
            _ if name.starts_with("java.lang.") => Err(syntax!(
                "Error setting type {}: Invalid comparator class {full_name}: must define a public static instance field or a public static method getInstance(TypeParser).",
                self.text
            )),
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
                CqlType::Tuple(parts.iter().map(CqlType::freeze).collect())
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
        // By its class an element is always frozen.
        let cql_type = CqlType::Vector { element: Arc::new(element.cql_type.freeze()), dimension };
        Ok(Class { cql_type, full_name })
    }

    /// `UserType(keyspace,name,field:class,…)` with names in hexadecimal.
    fn read_user_type(&mut self, full_name: String, depth: usize) -> Result<Class, SchemaError> {
        self.expect('(')?;
        let keyspace = self.read_identifier();
        self.expect(',')?;
        let written_name = self.read_identifier();
        let name = self.name_of(&written_name)?;
        let (mut fields, mut shown) = (Vec::new(), String::new());
        self.skip_blank();
        while self.peek() == Some(',') {
            self.expect(',')?;
            self.skip_blank();
            let field = self.read_identifier();
            self.skip_blank();
            self.expect(':')?;
            let class = self.read_class(depth)?;
            shown.push_str(&format!(",{field}:{}", class.full_name));
            fields.push((Arc::from(self.name_of(&field)?), class.cql_type));
            self.skip_blank();
        }
        self.expect(')')?;
        let full_name = format!("{full_name}({keyspace},{written_name}{shown})");
        let definition =
            UserType { keyspace: Arc::from(keyspace.as_str()), name: Arc::from(name), fields };
        let cql_type = CqlType::User { definition: Arc::new(definition), frozen: false };
        Ok(Class { cql_type, full_name })
    }

    fn name_of(&self, text: &str) -> Result<String, SchemaError> {
        let bytes = parse_text(&CqlType::Blob, text).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| self.broken("a name that is no text in hexadecimal"))
    }

    /// A composite with its parameters, printed back with full class names.
    fn read_composite(
        &mut self,
        short: &str,
        full_name: String,
        depth: usize,
    ) -> Result<String, SchemaError> {
        let is_dynamic = short == "DynamicCompositeType";
        let refused = self.invalid_definition(&full_name);
        let mut aliases: Vec<(String, String)> = Vec::new();
        if self.peek() == Some('(') {
            self.expect('(')?;
            self.skip_blank();
            while self.peek() != Some(')') {
                let alias = if is_dynamic { self.read_identifier() } else { String::new() };
                if is_dynamic {
                    self.skip_blank();
                    let has_arrow =
                        self.text.get(self.position..).is_some_and(|it| it.starts_with("=>"));
                    if alias.len() != 1 || !has_arrow {
                        return Err(refused);
                    }
                    self.position += 2;
                }
                let class =
                    self.read_class(depth).map_err(|_| self.invalid_definition(&full_name))?;
                aliases.push((alias, class.full_name));
                self.skip_blank();
                match self.peek() {
                    Some(',') => self.expect(',')?,
                    Some(')') => {}
                    _ => return Err(refused),
                }
                self.skip_blank();
            }
            self.expect(')')?;
        }
        if is_dynamic {
            // In the order of the Java map that keeps them.
            let names = java::hash_map_order(aliases.iter().map(|(alias, _)| alias.as_str()));
            let classes: BTreeMap<&str, &str> =
                aliases.iter().map(|(alias, class)| (alias.as_str(), class.as_str())).collect();
            let shown = names
                .into_iter()
                .filter_map(|name| Some(format!("{name}=>{}", classes.get(name)?)));
            return Ok(format!("{full_name}({})", shown.collect::<Vec<_>>().join(",")));
        }
        if aliases.is_empty() {
            return Err(refused);
        }
        let shown: Vec<&str> = aliases.iter().map(|(_, class)| class.as_str()).collect();
        Ok(format!("{full_name}({})", shown.join(",")))
    }

    fn invalid_definition(&self, full_name: &str) -> SchemaError {
        syntax!("Error setting type {}: Invalid definition for comparator {full_name}.", self.text)
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
