//! What is there before any user: the keyspaces of the system, with the definitions of Apache
//! Cassandra 5.0.5, and what their computed tables hold.
//!
//! `system`, `system_schema` and `system_auth` look stored to a client and are computed here;
//! `system_traces` and `system_distributed` are stored; `system_views`, `system_virtual_schema` and
//! `system_helenus` are virtual to a client too.
//!
//! Reading order: this file, `facts` (what the node hands in), `rows` and its tables.

mod facts;
mod gathered;
mod job_rows;
mod partition_rows;
mod role_rows;
mod rows;
mod schema_rows;
mod unit_rows;
pub mod values;
mod virtual_schema_rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::Statement;
use cql::ast::CreateTable;
use md5::{Digest, Md5};
use types::TableId;

use crate::ddl::system_table;
use crate::error::{SchemaError, invalid};
use crate::model::{Keyspace, KeyspaceKind, Schema};
use crate::options::KeyspaceOptions;

pub use facts::{
    ClientFacts, ClusterFacts, IndexBuildFacts, NodeFacts, PeerFacts, RangeEstimate, ReplicaFacts,
};
pub use gathered::{is_gathered, merged_rows};
pub use job_rows::{EventFacts, JobFacts, JournalFacts};
pub use partition_rows::{
    LogicalPartitionFacts, MapChangeFacts, PartitionFacts, PhysicalPartitionFacts,
};
pub use role_rows::{AuthFacts, PermissionFacts, RoleFacts};
pub use rows::{NamedRow, VirtualRow, virtual_rows};
pub use unit_rows::{StatementFacts, ThroughputFacts, UnitFacts, UsageFacts};

/// A keyspace of the system: its replication, and its tables as CQL.
struct Definition {
    name: &'static str,
    kind: KeyspaceKind,
    /// Whether its tables are computed when they are read.
    is_computed: bool,
    class: &'static str,
    factor: Option<&'static str>,
    tables: &'static str,
}

const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "system",
        kind: KeyspaceKind::System,
        is_computed: true,
        class: "LocalStrategy",
        factor: None,
        tables: include_str!("definitions/system.cql"),
    },
    Definition {
        name: "system_schema",
        kind: KeyspaceKind::System,
        is_computed: true,
        class: "LocalStrategy",
        factor: None,
        tables: include_str!("definitions/system_schema.cql"),
    },
    Definition {
        name: "system_auth",
        kind: KeyspaceKind::System,
        is_computed: true,
        class: "SimpleStrategy",
        factor: Some("1"),
        tables: include_str!("definitions/system_auth.cql"),
    },
    Definition {
        name: "system_traces",
        kind: KeyspaceKind::System,
        is_computed: false,
        class: "SimpleStrategy",
        factor: Some("2"),
        tables: include_str!("definitions/system_traces.cql"),
    },
    Definition {
        name: "system_distributed",
        kind: KeyspaceKind::System,
        is_computed: false,
        class: "SimpleStrategy",
        factor: Some("3"),
        tables: include_str!("definitions/system_distributed.cql"),
    },
    Definition {
        name: "system_virtual_schema",
        kind: KeyspaceKind::Virtual,
        is_computed: true,
        class: "LocalStrategy",
        factor: None,
        tables: include_str!("definitions/system_virtual_schema.cql"),
    },
    Definition {
        name: "system_views",
        kind: KeyspaceKind::Virtual,
        is_computed: true,
        class: "LocalStrategy",
        factor: None,
        tables: include_str!("definitions/system_views.cql"),
    },
    Definition {
        name: "system_helenus",
        kind: KeyspaceKind::Virtual,
        is_computed: true,
        class: "LocalStrategy",
        factor: None,
        tables: include_str!("definitions/system_helenus.cql"),
    },
];

/// The schema of a node that no user has touched.
pub fn initial_schema() -> Schema {
    let mut schema = Schema::default();
    for definition in DEFINITIONS {
        match definition.build() {
            Ok(keyspace) => schema = schema.with_keyspace(keyspace),
            // Our own text, read by every test: it cannot be wrong at run time only.
            Err(error) => unreachable!("keyspace {}: {error}", definition.name),
        }
    }
    schema.with_fresh_version()
}

impl Definition {
    fn build(&self) -> Result<Keyspace, SchemaError> {
        let class = format!("org.apache.cassandra.locator.{}", self.class);
        let mut replication = BTreeMap::from([("class".to_string(), class)]);
        if let Some(factor) = self.factor {
            replication.insert("replication_factor".to_string(), factor.to_string());
        }
        let mut keyspace = Keyspace {
            name: Arc::from(self.name),
            options: KeyspaceOptions { replication, durable_writes: true, throughput: None },
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            kind: self.kind,
        };
        for text in self.tables.split_inclusive(";\n") {
            let statement = parse_table(text)?;
            let id = fixed_id(self.name, statement.name.name.as_str());
            let mut table = system_table(&keyspace, &statement, id)?;
            table.is_virtual = self.is_computed;
            keyspace.tables.insert(Arc::clone(&table.name), Arc::new(table));
        }
        Ok(keyspace)
    }
}

fn parse_table(text: &str) -> Result<CreateTable, SchemaError> {
    match cql::parse(text) {
        Ok(parsed) => match parsed.statement {
            Statement::CreateTable(create) => Ok(create),
            _ => Err(invalid!("not a table: {text}")),
        },
        Err(error) => Err(invalid!("{error} in {text}")),
    }
}

/// The id of a table of the system: as in Cassandra the name-based uuid of its full name.
fn fixed_id(keyspace: &str, table: &str) -> TableId {
    let mut digest = Md5::new();
    digest.update(keyspace);
    digest.update(table);
    let bits = u128::from_be_bytes(digest.finalize().into());
    TableId(crate::persist::name_based_uuid(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_system_have_cassandras_ids() {
        let schema = initial_schema();
        for (keyspace, table, id) in [
            ("system", "local", "7ad54392-bcdd-35a6-8417-4e047860b377"),
            ("system", "IndexInfo", "9f5c6374-d485-3229-9a0a-5094af9ad1e3"),
            ("system_schema", "tables", "afddfb9d-bc1e-3068-8056-eed6c302ba09"),
            ("system_auth", "roles", "5bc52802-de25-35ed-aeab-188eecebb090"),
        ] {
            assert_eq!(schema.table(keyspace, table).unwrap().id.to_string(), id);
        }
    }
}
