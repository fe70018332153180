//! Types that a node announces by the names of their Java classes: vectors always, durations before version 5.

use std::sync::Arc;

use protocol::{Rows, TYPE_DEPTH_MAX};
use types::value::custom::{MARSHAL_PACKAGE, NATIVE_CLASSES};
use types::value::text::parse_hex;
use types::{CqlType, UserType};

/// The rows with the types of their columns known as well as can be.
pub(crate) fn with_known_classes(mut rows: Rows) -> Rows {
    for column in rows.metadata.columns.iter_mut().flatten() {
        if let Some(known) = known_class(&column.cql_type) {
            column.cql_type = known;
        }
    }
    rows
}

/// The type with its class names resolved; `None` if it has none.
pub(crate) fn known_class(cql_type: &CqlType) -> Option<CqlType> {
    let frozen = true;
    Some(match cql_type {
        CqlType::Custom(class) => {
            let mut reader = ClassReader { rest: class };
            let parsed = reader.class(TYPE_DEPTH_MAX)?;
            return reader.rest.is_empty().then_some(parsed);
        }
        CqlType::List { element, .. } => {
            CqlType::List { element: Arc::new(known_class(element)?), frozen }
        }
        CqlType::Set { element, .. } => {
            CqlType::Set { element: Arc::new(known_class(element)?), frozen }
        }
        CqlType::Map { key, value, .. } => {
            let (known_key, known_value) = (known_class(key), known_class(value));
            if known_key.is_none() && known_value.is_none() {
                return None;
            }
            let key = known_key.map_or_else(|| Arc::clone(key), Arc::new);
            let value = known_value.map_or_else(|| Arc::clone(value), Arc::new);
            CqlType::Map { key, value, frozen }
        }
        CqlType::Tuple(parts) => {
            let known: Vec<Option<CqlType>> = parts.iter().map(known_class).collect();
            if known.iter().all(Option::is_none) {
                return None;
            }
            let pairs = known.into_iter().zip(parts.iter());
            CqlType::Tuple(pairs.map(|(known, part)| known.unwrap_or(part.clone())).collect())
        }
        CqlType::User { definition, .. } => {
            let mut is_changed = false;
            let mut fields = Vec::new();
            for (name, field) in &definition.fields {
                let known = known_class(field);
                is_changed |= known.is_some();
                fields.push((Arc::clone(name), known.unwrap_or_else(|| field.clone())));
            }
            if !is_changed {
                return None;
            }
            let (keyspace, name) = (Arc::clone(&definition.keyspace), Arc::clone(&definition.name));
            CqlType::User { definition: Arc::new(UserType { keyspace, name, fields }), frozen }
        }
        _ => return None,
    })
}

struct ClassReader<'a> {
    rest: &'a str,
}

impl ClassReader<'_> {
    fn class(&mut self, depth_left: usize) -> Option<CqlType> {
        let depth_left = depth_left.checked_sub(1)?;
        let frozen = true;
        let name = self.word();
        let name = name.strip_prefix(MARSHAL_PACKAGE).unwrap_or(&name).to_owned();
        if let Some((_, native)) = NATIVE_CLASSES.iter().find(|(class, _)| *class == name) {
            return Some(native.clone());
        }
        self.expect('(')?;
        let parsed = match name.as_str() {
            "FrozenType" | "ReversedType" => self.class(depth_left)?,
            "ListType" => CqlType::List { element: Arc::new(self.class(depth_left)?), frozen },
            "SetType" => CqlType::Set { element: Arc::new(self.class(depth_left)?), frozen },
            "MapType" => {
                let key = Arc::new(self.class(depth_left)?);
                self.expect(',')?;
                CqlType::Map { key, value: Arc::new(self.class(depth_left)?), frozen }
            }
            "TupleType" => {
                let mut parts = vec![self.class(depth_left)?];
                while self.expect(',').is_some() {
                    parts.push(self.class(depth_left)?);
                }
                CqlType::Tuple(parts.into())
            }
            "VectorType" => {
                let element = Arc::new(self.class(depth_left)?);
                self.expect(',')?;
                CqlType::Vector { element, dimension: self.word().parse().ok()? }
            }
            "UserType" => {
                let keyspace = self.word().into();
                self.expect(',')?;
                let name = hex_text(&self.word())?;
                let mut fields = Vec::new();
                while self.expect(',').is_some() {
                    let field = hex_text(&self.word())?;
                    self.expect(':')?;
                    fields.push((field, self.class(depth_left)?));
                }
                CqlType::User { definition: Arc::new(UserType { keyspace, name, fields }), frozen }
            }
            _ => return None,
        };
        self.expect(')')?;
        Some(parsed)
    }

    fn word(&mut self) -> String {
        let rest = self.rest.trim_start();
        let end = rest.find(['(', ')', ',', ':', ' ']).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn expect(&mut self, wanted: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(wanted)?;
        Some(())
    }
}

fn hex_text(hex: &str) -> Option<Arc<str>> {
    String::from_utf8(parse_hex(hex).ok()?).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_come_back_as_the_types_they_were_made_from() {
        let frozen = true;
        let float = || Arc::new(CqlType::Float);
        let vector = || CqlType::Vector { element: float(), dimension: 3 };
        let user = UserType {
            keyspace: "shop".into(),
            name: "pair".into(),
            fields: vec![("a".into(), CqlType::Int), ("b".into(), vector())],
        };
        for cql_type in [
            CqlType::Duration,
            vector(),
            CqlType::Vector { element: Arc::new(vector()), dimension: 2 },
            CqlType::List { element: Arc::new(vector()), frozen },
            CqlType::Map { key: Arc::new(CqlType::Text), value: Arc::new(vector()), frozen },
            CqlType::Tuple(Arc::from([CqlType::Int, vector()])),
            CqlType::User { definition: Arc::new(user), frozen },
        ] {
            let class = protocol::marshal_name(&cql_type);
            assert_eq!(
                known_class(&CqlType::Custom(class.as_str().into())),
                Some(cql_type),
                "{class}"
            );
        }
        for unknown in ["org.example.MyType", "VectorType(FloatType)", "ListType(Int32Type", ""] {
            assert_eq!(known_class(&CqlType::Custom(unknown.into())), None, "{unknown}");
        }
        assert_eq!(known_class(&CqlType::Int), None);
    }
}
