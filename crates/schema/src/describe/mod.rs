//! `DESCRIBE`: the schema as statements that make it again, in the very text of Cassandra.
//!
//! Reading order: this file (which elements), `cql_text` (how each is written), `ring` (who owns what).

mod cql_text;
mod ring;

use std::sync::Arc;

use cql::ast::{Describe, DescribeTarget, QualifiedName};
use cql::quote_if_needed;
use types::{CqlType, UserType};

use crate::ddl::{is_local_system_keyspace, is_system_keyspace};
use crate::error::{SchemaError, invalid};
use crate::model::{Index, Keyspace, Schema, Table};
use crate::persist::in_dependency_order;
use crate::system::NodeFacts;

/// What a `DESCRIBE` answers: columns of the table `system.describe`, and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeResult {
    /// Names and types.
    pub columns: Vec<(&'static str, CqlType)>,
    /// Values encoded as the protocol has them; none is null.
    pub rows: Vec<Vec<Vec<u8>>>,
}

const LIST_COLUMNS: [&str; 3] = ["keyspace_name", "type", "name"];
const ELEMENT_COLUMNS: [&str; 4] = ["keyspace_name", "type", "name", "create_statement"];

/// Answers a `DESCRIBE`. All rows at once: who pages cuts them.
pub fn describe(
    statement: &Describe,
    schema: &Schema,
    session_keyspace: Option<&str>,
    facts: &NodeFacts,
) -> Result<DescribeResult, SchemaError> {
    let scope = Scope { schema, session_keyspace };
    let elements = match &statement.target {
        DescribeTarget::Cluster => return Ok(scope.cluster(facts)),
        DescribeTarget::Keyspaces => {
            return Ok(list(by_name(schema.keyspaces.values().map(|k| Element::Keyspace(k)))));
        }
        DescribeTarget::Tables => {
            return scope.listing(|k| k.tables.values().map(|t| Element::Table(k, t)).collect());
        }
        DescribeTarget::Types => {
            return scope.listing(|k| k.types.values().map(|t| Element::Type(t)).collect());
        }
        DescribeTarget::Functions | DescribeTarget::Aggregates => {
            return scope.listing(|_| Vec::new());
        }
        DescribeTarget::Schema { full } => {
            by_name(schema.keyspaces.values().map(|k| Element::Keyspace(k)))
                .into_iter()
                .filter(|element| *full || !is_system_keyspace(element.keyspace()))
                .flat_map(|element| match element {
                    Element::Keyspace(keyspace) => keyspace_elements(keyspace),
                    other => vec![other],
                })
                .collect()
        }
        DescribeTarget::Keyspace { name, only } => {
            let keyspace = scope.keyspace(name.as_deref())?;
            if *only { vec![Element::Keyspace(keyspace)] } else { keyspace_elements(keyspace) }
        }
        DescribeTarget::Table(name) => scope.table(name)?,
        DescribeTarget::Index(name) => scope.index(name)?,
        DescribeTarget::Type(name) => scope.user_type(name)?,
        DescribeTarget::View(name) => return Err(scope.absent("Materialized view", name)),
        DescribeTarget::Function(name) | DescribeTarget::Aggregate(name) => {
            let what = match &statement.target {
                DescribeTarget::Function(_) => "User defined function",
                _ => "User defined aggregate",
            };
            let name = QualifiedName { keyspace: name.keyspace.clone(), name: name.name.clone() };
            return Err(scope.absent(what, &name));
        }
        DescribeTarget::Any(name) => scope.anything(name)?,
    };
    let rows = elements
        .iter()
        .map(|element| {
            let mut row = element.names();
            row.push(element.to_cql(statement.with_internals).into_bytes());
            row
        })
        .collect();
    Ok(DescribeResult { columns: ELEMENT_COLUMNS.map(|name| (name, CqlType::Text)).to_vec(), rows })
}

/// A part of the schema that can be shown.
#[derive(Clone, Copy)]
enum Element<'a> {
    Keyspace(&'a Keyspace),
    Type(&'a UserType),
    Table(&'a Keyspace, &'a Table),
    Index(&'a Table, &'a Index),
}

impl Element<'_> {
    fn keyspace(&self) -> &str {
        match self {
            Element::Keyspace(keyspace) => &keyspace.name,
            Element::Type(definition) => &definition.keyspace,
            Element::Table(_, table) | Element::Index(table, _) => &table.keyspace,
        }
    }

    fn name(&self) -> &str {
        match self {
            Element::Keyspace(keyspace) => &keyspace.name,
            Element::Type(definition) => &definition.name,
            Element::Table(_, table) => &table.name,
            Element::Index(_, index) => &index.name,
        }
    }

    /// Keyspace, kind and name.
    fn names(&self) -> Vec<Vec<u8>> {
        let kind = match self {
            Element::Keyspace(_) => "keyspace",
            Element::Type(_) => "type",
            Element::Table(..) => "table",
            Element::Index(..) => "index",
        };
        vec![
            quote_if_needed(self.keyspace()).into_bytes(),
            kind.as_bytes().to_vec(),
            quote_if_needed(self.name()).into_bytes(),
        ]
    }

    fn to_cql(self, with_internals: bool) -> String {
        match self {
            Element::Keyspace(keyspace) => cql_text::keyspace(keyspace),
            Element::Type(definition) => cql_text::user_type(definition),
            Element::Table(keyspace, table) => cql_text::table(keyspace, table, with_internals),
            Element::Index(table, index) => cql_text::index(table, index),
        }
    }
}

/// Elements by name, without regard to case.
fn by_name<'a>(elements: impl Iterator<Item = Element<'a>>) -> Vec<Element<'a>> {
    let mut elements: Vec<Element<'a>> = elements.collect();
    elements.sort_by_key(|element| element.name().to_lowercase());
    elements
}

fn list(elements: Vec<Element<'_>>) -> DescribeResult {
    DescribeResult {
        columns: LIST_COLUMNS.map(|name| (name, CqlType::Text)).to_vec(),
        rows: elements.iter().map(Element::names).collect(),
    }
}

/// A keyspace with all that it holds.
fn keyspace_elements(keyspace: &Keyspace) -> Vec<Element<'_>> {
    let mut elements = vec![Element::Keyspace(keyspace)];
    elements.extend(in_dependency_order(keyspace).into_iter().map(|t| Element::Type(t)));
    for element in by_name(keyspace.tables.values().map(|t| Element::Table(keyspace, t))) {
        match element {
            Element::Table(_, table) => elements.extend(table_elements(keyspace, table)),
            other => elements.push(other),
        }
    }
    elements
}

/// A table with its indexes.
fn table_elements<'a>(keyspace: &'a Keyspace, table: &'a Table) -> Vec<Element<'a>> {
    let mut elements = vec![Element::Table(keyspace, table)];
    elements.extend(by_name(table.indexes.values().map(|index| Element::Index(table, index))));
    elements
}

/// Where names are looked up.
struct Scope<'a> {
    schema: &'a Schema,
    session_keyspace: Option<&'a str>,
}

impl<'a> Scope<'a> {
    fn keyspace(&self, name: Option<&str>) -> Result<&'a Keyspace, SchemaError> {
        let Some(name) = name.or(self.session_keyspace) else {
            return Err(invalid!("No keyspace specified and no current keyspace"));
        };
        match self.schema.keyspace(name) {
            Some(keyspace) => Ok(keyspace),
            None => Err(invalid!("'{name}' not found in keyspaces")),
        }
    }

    /// Name, partitioner and snitch; inside a user's keyspace also who owns which range.
    fn cluster(&self, facts: &NodeFacts) -> DescribeResult {
        let partitioner = &facts.partitioner;
        let partitioner =
            partitioner.strip_prefix("org.apache.cassandra.dht.").unwrap_or(partitioner);
        let mut columns =
            ["cluster", "partitioner", "snitch"].map(|name| (name, CqlType::Text)).to_vec();
        let mut row = vec![
            facts.cluster_name.clone().into_bytes(),
            partitioner.as_bytes().to_vec(),
            b"DynamicEndpointSnitch".to_vec(),
        ];
        let is_users = |name: &&str| !is_local_system_keyspace(name) && !is_system_keyspace(name);
        let users = self.session_keyspace.filter(is_users);
        if let Some(keyspace) = users.and_then(|name| self.schema.keyspace(name)) {
            let texts = CqlType::List { element: Arc::new(CqlType::Text), frozen: true };
            let ranges =
                CqlType::Map { key: Arc::new(CqlType::Text), value: Arc::new(texts), frozen: true };
            columns.push(("range_ownership", ranges));
            row.push(range_ownership(keyspace, facts));
        }
        DescribeResult { columns, rows: vec![row] }
    }

    /// Names of one kind, of the keyspace in use or of all.
    fn listing(
        &self,
        elements: impl Fn(&'a Arc<Keyspace>) -> Vec<Element<'a>>,
    ) -> Result<DescribeResult, SchemaError> {
        let mut keyspaces: Vec<&'a Arc<Keyspace>> = match self.session_keyspace {
            None => self.schema.keyspaces.values().collect(),
            Some(name) => match self.schema.keyspace(name) {
                Some(keyspace) => vec![keyspace],
                None => return Err(invalid!("'{name}' not found in keyspaces")),
            },
        };
        keyspaces.sort_by_key(|keyspace| keyspace.name.to_lowercase());
        let all = keyspaces.into_iter().flat_map(|k| by_name(elements(k).into_iter())).collect();
        Ok(list(all))
    }

    fn table(&self, name: &QualifiedName) -> Result<Vec<Element<'a>>, SchemaError> {
        let keyspace = self.keyspace(name.keyspace.as_deref())?;
        match keyspace.tables.get(name.name.as_str()) {
            Some(table) => Ok(table_elements(keyspace, table)),
            None => {
                Err(invalid!("Table '{}' not found in keyspace '{}'", name.name, keyspace.name))
            }
        }
    }

    fn index(&self, name: &QualifiedName) -> Result<Vec<Element<'a>>, SchemaError> {
        let keyspace = self.keyspace(name.keyspace.as_deref())?;
        let name = name.name.as_str();
        let found = keyspace.indexed_table(name);
        match found.and_then(|table| table.indexes.get(name).map(|index| (table, index))) {
            Some((table, index)) => Ok(vec![Element::Index(table, index)]),
            None => {
                Err(invalid!("Table for existing index '{name}' not found in '{}'", keyspace.name))
            }
        }
    }

    fn user_type(&self, name: &QualifiedName) -> Result<Vec<Element<'a>>, SchemaError> {
        let keyspace = self.keyspace(name.keyspace.as_deref())?;
        match keyspace.types.get(name.name.as_str()) {
            Some(definition) => Ok(vec![Element::Type(definition)]),
            None => {
                Err(invalid!("User defined type '{}' not found in '{}'", name.name, keyspace.name))
            }
        }
    }

    /// What to say of things that cannot be defined.
    fn absent(&self, what: &str, name: &QualifiedName) -> SchemaError {
        match self.keyspace(name.keyspace.as_deref()) {
            Ok(keyspace) => invalid!("{what} '{}' not found in '{}'", name.name, keyspace.name),
            Err(error) => error,
        }
    }

    /// A keyspace, else a table, else an index.
    fn anything(&self, name: &QualifiedName) -> Result<Vec<Element<'a>>, SchemaError> {
        let bare = name.name.as_str();
        let keyspace_name = match &name.keyspace {
            Some(keyspace) => keyspace.as_str(),
            None => {
                if let Some(keyspace) = self.schema.keyspace(bare) {
                    return Ok(keyspace_elements(keyspace));
                }
                self.session_keyspace.unwrap_or(bare)
            }
        };
        let keyspace = self.keyspace(Some(keyspace_name))?;
        if let Some(table) = keyspace.tables.get(bare) {
            return Ok(table_elements(keyspace, table));
        }
        let indexed = keyspace.indexed_table(bare);
        match indexed.and_then(|table| table.indexes.get(bare).map(|index| (table, index))) {
            Some((table, index)) => Ok(vec![Element::Index(table, index)]),
            None => Err(invalid!("'{bare}' not found in keyspace '{keyspace_name}'")),
        }
    }
}

/// By the last token of each range who owns it, as the protocol has it.
fn range_ownership(keyspace: &Keyspace, facts: &NodeFacts) -> Vec<u8> {
    let owners = ring::range_owners(facts, &keyspace.options.replication);
    let entries: Vec<(String, Vec<u8>)> = owners
        .into_iter()
        .map(|(token, owners)| (token, frame(owners.len(), owners.iter().map(String::as_bytes))))
        .collect();
    let parts = entries.iter().flat_map(|(token, owners)| [token.as_bytes(), owners.as_slice()]);
    frame(entries.len(), parts)
}

/// A collection as the protocol has it.
fn frame<'a>(count: usize, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let length = |length: usize| i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes();
    let mut bytes = length(count).to_vec();
    for part in parts {
        bytes.extend_from_slice(&length(part.len()));
        bytes.extend_from_slice(part);
    }
    bytes
}
