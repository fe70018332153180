//! The user-made part of the schema as bytes, and back.
//!
//! JSON, so that a person can read it with any tool, with a format number first. Types are written
//! as CQL text; each user type comes after those it uses. What the system brings along is not
//! written, except the options of its keyspaces, which a user may alter.

mod decode;
mod encode;

use std::fmt;

use md5::{Digest, Md5};
use serde_json::Value;

use crate::model::{KeyspaceKind, Schema, Table};

pub(crate) use encode::in_dependency_order;

/// The number of this format.
const FORMAT: u64 = 1;

/// Bytes that are no schema of ours, with the place where that shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptSchema {
    /// What was looked for and not found.
    pub place: String,
}

impl fmt::Display for CorruptSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stored schema cannot be read: {}", self.place)
    }
}

impl std::error::Error for CorruptSchema {}

/// The schema as bytes; the same schema always as the same bytes.
pub fn encode(schema: &Schema) -> Vec<u8> {
    let of_kind = |kind: KeyspaceKind| schema.keyspaces.values().filter(move |k| k.kind == kind);
    let document = encode::object([
        ("format", Value::from(FORMAT)),
        ("keyspaces", of_kind(KeyspaceKind::User).map(|k| encode::keyspace(k)).collect()),
        ("system", of_kind(KeyspaceKind::System).map(|k| encode::keyspace_options(k)).collect()),
    ]);
    document.to_string().into_bytes()
}

/// Reads what [`encode`] wrote, over the keyspaces that the system brings along.
pub fn decode(bytes: &[u8], system: &Schema) -> Result<Schema, CorruptSchema> {
    let document: Value = serde_json::from_slice(bytes)
        .map_err(|error| CorruptSchema { place: format!("not JSON: {error}") })?;
    let root = decode::Node::root(&document);
    let format = root.field("format")?.number::<u64>()?;
    if format != FORMAT {
        return Err(CorruptSchema { place: format!("its format is {format}, ours is {FORMAT}") });
    }
    let mut schema = system.clone();
    for node in root.field("system")?.list()? {
        schema = decode::system_options(schema, &node)?;
    }
    for node in root.field("keyspaces")?.list()? {
        let keyspace = decode::keyspace(&node)?;
        if schema.keyspaces.contains_key(&keyspace.name) {
            return Err(node.corrupt("a keyspace comes twice"));
        }
        for table in keyspace.tables.values() {
            if schema.tables_by_id.contains_key(&table.id) {
                return Err(node.corrupt("a table id comes twice"));
            }
        }
        schema = schema.with_keyspace(keyspace);
    }
    Ok(schema.with_fresh_version())
}

/// One table as bytes, with everything that it needs of its keyspace.
pub fn encode_table(table: &Table) -> Vec<u8> {
    encode::whole_table(table).to_string().into_bytes()
}

/// Reads what [`encode_table`] wrote.
pub fn decode_table(bytes: &[u8]) -> Result<Table, CorruptSchema> {
    let document: Value = serde_json::from_slice(bytes)
        .map_err(|error| CorruptSchema { place: format!("not JSON: {error}") })?;
    decode::whole_table(&decode::Node::root(&document))
}

impl Schema {
    /// The same schema with the version that follows from its content: a name-based uuid.
    pub fn with_fresh_version(mut self) -> Schema {
        let bits = u128::from_be_bytes(Md5::digest(encode(&self)).into());
        self.version = name_based_uuid(bits);
        self
    }
}

/// 128 bits of a hash with the marks of a name-based uuid.
pub(crate) fn name_based_uuid(bits: u128) -> u128 {
    let unmarked = bits & !(0xf000 << 64) & !(0b11 << 62);
    unmarked | (0x3000 << 64) | (0b10 << 62)
}

#[cfg(test)]
mod tests;
