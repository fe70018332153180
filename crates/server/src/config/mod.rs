//! Every setting of the node: what it is called, what it may hold, and where its value came from.
//!
//! One table ([`settings::SETTINGS`]) drives the printed file, the parsed file, `--set` and the
//! environment, so that they cannot disagree. Values win in this order: flags, environment, file,
//! default.
mod audit;
mod form;
mod guardrails;
mod load;
mod nearest;
mod print;
mod settings;
mod traces;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

#[cfg(test)]
pub(crate) use audit::Choice;
pub(crate) use audit::{Audit, Category};
pub(crate) use guardrails::{Guardrails, Levels, Threshold};
pub(crate) use load::{ConfigError, Loaded, Sources, load};
pub(crate) use print::print;
pub(crate) use traces::{Endpoint, Traces};

/// The settings, typed. Built by [`load`] only, which gives every field its default first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    pub(crate) profile: Profile,
    pub(crate) server: Server,
    pub(crate) storage: Storage,
    pub(crate) memory: Memory,
    pub(crate) limits: Limits,
    pub(crate) partitions: Partitions,
    pub(crate) timeouts: Timeouts,
    pub(crate) units: Units,
    pub(crate) auth: Auth,
    pub(crate) tls: Tls,
    pub(crate) metrics: Metrics,
    pub(crate) cluster: Cluster,
    pub(crate) log: Log,
    pub(crate) guardrails: Guardrails,
    pub(crate) audit: Audit,
    pub(crate) traces: Traces,
}

/// Whose limits and habits the node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Cassandra's.
    #[default]
    Default,
    /// Those of Azure Cosmos DB's Cassandra API.
    Cosmos,
}

/// How other nodes find the node, and what becomes of the rows of one that is lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cluster {
    /// Where other nodes connect; `None`: at port 7000 of the address of `server.listen`.
    pub(crate) listen: Option<SocketAddr>,
    /// The members of a node that was silent for so long are made anew on others.
    pub(crate) heal_after: Duration,
}

/// How clients find the node, and what it tells them about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Server {
    /// Always present after [`load`].
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) data_dir: PathBuf,
    /// What drivers are told; `None` is the address of `listen`.
    pub(crate) broadcast_address: Option<IpAddr>,
    pub(crate) cluster_name: String,
    pub(crate) data_center: String,
    pub(crate) rack: String,
    pub(crate) startup_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    /// Zero: as many as the machine suggests.
    pub(crate) threads: usize,
}

/// When a write counts as done, and how long deletions are remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Storage {
    pub(crate) commit: CommitMode,
    pub(crate) commit_interval: Duration,
    pub(crate) tombstone_retention: Duration,
    /// Bytes of one file of the log.
    pub(crate) log_segment: u64,
    /// Bytes of the log beyond which memory is flushed.
    pub(crate) log_max: u64,
    /// Whether TRUNCATE and DROP keep what they remove.
    pub(crate) auto_snapshot: bool,
    /// How long they keep it.
    pub(crate) auto_snapshot_retention: Duration,
    /// How many of them are kept.
    pub(crate) auto_snapshots_max: usize,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CommitMode {
    /// After it is on the disk; one sync serves all that wait.
    #[default]
    Group,
    /// At once; the disk follows within the interval.
    Periodic,
}

/// Bytes of memory; `None` is sized from the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    pub(crate) block_cache: Option<u64>,
    pub(crate) row_cache: Option<u64>,
    pub(crate) head_cache: Option<u64>,
    pub(crate) memtables: Option<u64>,
    pub(crate) prepared_statements: u64,
    pub(crate) requests: Option<u64>,
}

/// What is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) frame_bytes: u64,
    pub(crate) connections: usize,
    pub(crate) in_flight_per_connection: usize,
    /// Zero: any number.
    pub(crate) sessions_per_role: usize,
    /// Zero: any number.
    pub(crate) statements_per_second_per_role: u64,
    pub(crate) batch_size_warn: u64,
    pub(crate) batch_size_fail: u64,
    pub(crate) unlogged_batch_partitions_warn: usize,
    pub(crate) waiting_requests: usize,
    pub(crate) queue_delay: Duration,
    pub(crate) logical_partition_bytes: u64,
    pub(crate) physical_partition_bytes: u64,
    /// `None`: as the profile has it.
    pub(crate) partition_key_bytes: Option<u64>,
    /// `None`: as the profile has it.
    pub(crate) row_bytes: Option<u64>,
}

/// When physical partitions are split and merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Partitions {
    /// `None`: one for each core.
    pub(crate) per_space: Option<usize>,
    pub(crate) split_percent: usize,
    pub(crate) hot_ru: usize,
    pub(crate) hot_age: Duration,
    pub(crate) merge_age: Duration,
    pub(crate) interval: Duration,
}

/// How long a request of each kind may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Timeouts {
    pub(crate) read: Duration,
    pub(crate) range: Duration,
    pub(crate) write: Duration,
    pub(crate) counter_write: Duration,
    pub(crate) cas: Duration,
    pub(crate) truncate: Duration,
}

/// Request units.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Units {
    /// What requests do is counted and charged.
    pub(crate) charge: bool,
    /// Which clients are told in the custom payload.
    pub(crate) payload: Payload,
    /// Where requests wait on the server when the budget is spent.
    pub(crate) server_side_retry: ServerRetry,
    /// Whether unspent budget is kept for bursts.
    pub(crate) burst: bool,
    /// Whether throughput may be given as the most of autoscale.
    pub(crate) autoscale: bool,
    /// What throughput costs.
    pub(crate) prices: units::price::Prices,
}

/// Which answers tell the charge in their custom payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Those to requests that ask for it: a driver that sends payloads reads them too.
    #[default]
    Asked,
    /// All.
    Always,
    /// None.
    Never,
}

/// In which keyspaces requests wait on the server when the budget is spent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ServerRetry {
    /// In none.
    #[default]
    Off,
    /// In all.
    All,
    /// In these.
    Keyspaces(Vec<String>),
}

impl ServerRetry {
    /// Whether they do in a keyspace.
    pub(crate) fn includes(&self, keyspace: &str) -> bool {
        match self {
            ServerRetry::Off => false,
            ServerRetry::All => true,
            ServerRetry::Keyspaces(names) => names.iter().any(|name| name == keyspace),
        }
    }
}

/// Who may connect, and who may do what.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Auth {
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Authenticator {
    /// It need not.
    #[default]
    AllowAll,
    /// With a role's name and password.
    Password,
}

/// Whether permissions are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Authorizer {
    /// They are not.
    #[default]
    AllowAll,
    /// They are, as Cassandra does.
    Cassandra,
}

/// Encryption of client connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tls {
    pub(crate) mode: TlsMode,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) require_client_certificate: bool,
}

/// Which connections are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// None.
    #[default]
    Off,
    /// Those that open with a handshake, on the same port as the others.
    Optional,
    /// All.
    Required,
}

/// The endpoint for Prometheus.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    /// `None` is off.
    pub(crate) listen: Option<SocketAddr>,
    /// Whether there is a dashboard beside it.
    pub(crate) dashboard: bool,
    /// Whether what is counted by table is told to everybody who asks, not only to who asks for it.
    pub(crate) per_table: bool,
}

/// What is told on the standard error stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: LogLevel,
    /// Statements that take so long are told of; zero: none.
    pub(crate) slow_after: Duration,
    /// Statements that cost so many request units are told of; zero: none.
    pub(crate) costly_ru: usize,
    /// Whether their literals are.
    pub(crate) statement_values: bool,
}

/// Who reads the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// A person.
    #[default]
    Text,
    /// A machine: one JSON object a line.
    Json,
}

/// How much is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// And what may fail soon.
    #[default]
    Warn,
    /// And what happens at all.
    Info,
    /// And why.
    Debug,
    /// And everything else.
    Trace,
}
