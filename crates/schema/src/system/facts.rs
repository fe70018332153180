//! What the computed tables show and the schema cannot know: handed in by the server.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::unit_rows::UnitFacts;
use types::TableId;

use super::job_rows::JournalFacts;
use super::partition_rows::PartitionFacts;
use super::role_rows::AuthFacts;
use super::rows::NamedRow;

/// A node at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Survives restarts.
    pub host_id: u128,
    pub cluster_name: String,
    /// Where the node stands.
    pub data_center: String,
    /// Where in the data center.
    pub rack: String,
    /// Address and port for other nodes.
    pub listen_address: IpAddr,
    /// The port for other nodes.
    pub listen_port: u16,
    /// The address that other nodes are told.
    pub broadcast_address: IpAddr,
    /// The port that other nodes are told.
    pub broadcast_port: u16,
    /// The address that drivers connect to.
    pub rpc_address: IpAddr,
    /// The port that drivers connect to.
    pub rpc_port: u16,
    /// The tokens of the external ring that the node owns, as decimal numbers.
    pub tokens: Vec<String>,
    /// The Cassandra version we are compatible with.
    pub release_version: String,
    /// The version of the language.
    pub cql_version: String,
    /// The newest version of the protocol.
    pub native_protocol_version: String,
    /// The Java class whose tokens ours equal.
    pub partitioner: String,
    /// When the node started, seconds since the epoch; rises with every start.
    pub gossip_generation: i32,
    /// When tables were truncated, in the form that Cassandra keeps.
    pub truncated_at: BTreeMap<TableId, Vec<u8>>,
    /// Our own version.
    pub helenus_version: String,
    /// The folder of the data.
    pub data_dir: String,
    /// `default` or `cosmos`.
    pub profile: String,
    /// When the node started, milliseconds since the epoch.
    pub started_at_ms: i64,
    /// The time of the request, milliseconds since the epoch.
    pub now_ms: i64,
    /// All settings with their values as text.
    pub settings: Vec<(String, String)>,
    /// Who is connected.
    pub clients: Vec<ClientFacts>,
    /// The rows of the table of `system_views` that is asked for, where the server counts them.
    pub view: Vec<NamedRow>,
    /// How much data lies where, for those who split a table into ranges.
    pub estimates: Vec<RangeEstimate>,
    /// Physical and logical partitions.
    pub partitions: PartitionFacts,
    /// How far indexes are built; one that is not here has nothing to build.
    pub index_builds: Vec<IndexBuildFacts>,
    /// Request units.
    pub units: UnitFacts,
    /// Roles and permissions.
    pub auth: AuthFacts,
    /// The other nodes, and the members of replica sets.
    pub cluster: ClusterFacts,
    /// Jobs and events of the cluster.
    pub journal: JournalFacts,
}

/// What a node that is not alone knows of the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// The number of this node; none for one that runs alone.
    pub own: Option<u64>,
    /// The other nodes.
    pub peers: Vec<PeerFacts>,
    /// The members of replica sets on this node; of sets that it leads, all.
    pub replicas: Vec<ReplicaFacts>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerFacts {
    /// Where other nodes connect.
    pub address: IpAddr,
    /// The port for other nodes.
    pub port: u16,
    /// Where clients connect.
    pub rpc_address: IpAddr,
    /// The port for clients.
    pub rpc_port: u16,
    /// Survives restarts.
    pub host_id: u128,
    /// Where it stands.
    pub data_center: String,
    /// Where in the data center.
    pub rack: String,
    /// The Cassandra version that it is compatible with.
    pub release_version: String,
    /// Its tokens, as decimal numbers.
    pub tokens: Vec<String>,
    /// Whether it shows the schema that this node shows.
    pub is_agreed: bool,
}

/// A member of a replica set.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaFacts {
    /// Which set; of the set that keeps the schema, none that a keyspace has.
    pub set: u32,
    /// The node that it is on.
    pub node: u64,
    /// The member.
    pub replica: u64,
    /// `leader`, `follower` or `candidate`.
    pub role: String,
    /// The term.
    pub term: Option<i64>,
    /// The node that leads, as far as the member knows.
    pub leader: Option<u64>,
    /// The last entry that is known to be committed.
    pub commit_index: Option<i64>,
    /// The last entry that was applied.
    pub applied_index: Option<i64>,
    /// The last entry that it has.
    pub last_index: i64,
    /// By how many entries it is behind what is committed.
    pub lag: i64,
    /// Milliseconds since it heard from a leader.
    pub silent_ms: Option<i64>,
    /// Why it takes part in nothing, if so.
    pub frozen: Option<String>,
}

/// How far an index is built.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexBuildFacts {
    /// Its id.
    pub index: TableId,
    /// Whether it is done, so that it answers.
    pub is_built: bool,
    /// Rows that were looked at.
    pub row_count: u64,
    /// The part of the ring that is done, from 0 to 1.
    pub share: f64,
    /// When it began, milliseconds since the epoch; zero when there was nothing to do.
    pub started_at_ms: i64,
    /// When it was done, milliseconds since the epoch; zero while it is not.
    pub finished_at_ms: i64,
}

/// A connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientFacts {
    /// From where.
    pub address: IpAddr,
    /// From which port.
    pub port: u16,
    /// What the driver said when it started.
    pub options: BTreeMap<String, String>,
    /// `ready`, `authenticated` …
    pub stage: String,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    pub protocol_version: i32,
    /// How many requests it sent.
    pub request_count: i64,
    /// The cipher, when the connection is encrypted.
    pub ssl_cipher_suite: Option<String>,
    /// The version of TLS, when the connection is encrypted.
    pub ssl_protocol: Option<String>,
    /// Who logged in.
    pub username: String,
}

/// How much of a table lies between two tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeEstimate {
    /// The keyspace of the table.
    pub keyspace: String,
    pub table: String,
    /// Behind this token.
    pub range_start: String,
    /// Up to this token.
    pub range_end: String,
    /// Bytes per logical partition.
    pub mean_partition_bytes: i64,
    /// Logical partitions.
    pub partition_count: i64,
}
