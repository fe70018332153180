//! The table of all settings.

use std::sync::LazyLock;

use super::form::{self, BadValue, Form};
use super::{
    Authenticator, Authorizer, CommitMode, Config, LogFormat, LogLevel, Payload, Profile,
    ServerRetry, TlsMode,
};

/// One setting.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    /// `section.key`, or the key alone for what stands before all sections.
    pub(super) name: &'static str,
    /// How its value is written.
    pub(super) form: Form,
    /// Its value where nothing else is given, as text.
    pub(super) default: &'static str,
    /// What it does, for the printed file; one line of the file per line.
    pub(super) doc: &'static str,
    /// Reads the text and stores the value.
    pub(super) apply: fn(&mut Config, &str) -> Result<(), BadValue>,
}

/// A row of the table: name, form, default, explanation, field and reader.
macro_rules! setting {
    ($name:literal, $form:expr, $default:literal, $doc:literal, $($field:ident).+ = $read:expr) => {
        Setting {
            name: $name,
            form: $form,
            default: $default,
            doc: $doc,
            apply: |config, text| {
                config.$($field).+ = ($read)(text)?;
                Ok(())
            },
        }
    };
}

mod audit;
mod guardrails;
mod traces;

/// All settings, sections together, in the order in which they are printed.
pub(super) static SETTINGS: LazyLock<Vec<Setting>> =
    LazyLock::new(|| [OF_NODE, traces::TRACES, guardrails::GUARDRAILS, audit::AUDIT].concat());

/// More physical partitions than this are not made at once.
const PARTITIONS_PER_SPACE_MAX: usize = 10_000;

const PROFILE: Form = Form::Choice(&["default", "cosmos"]);
const COMMIT: Form = Form::Choice(&["group", "periodic"]);
const AUTHENTICATOR: Form = Form::Choice(&["allow_all", "password"]);
const AUTHORIZER: Form = Form::Choice(&["allow_all", "cassandra"]);
const TLS_MODE: Form = Form::Choice(&["off", "optional", "required"]);
const PAYLOAD: Form = Form::Choice(&["asked", "always", "never"]);
const LOG_FORMAT: Form = Form::Choice(&["text", "json"]);
const LOG_LEVEL: Form = Form::Choice(&["off", "error", "warn", "info", "debug", "trace"]);

static OF_NODE: &[Setting] = &[
    setting!(
        "profile",
        PROFILE,
        "default",
        "Whose habits the node has. cosmos: as Azure Cosmos DB. Clients connect to port 10350 with TLS\n(a certificate is made at the first start if none is given) and a password; tables have\n400 RU/s unless they ask for more; its limits hold; a keyspace needs no replication, and may\nname any data center. What is set by hand stays.",
        profile = |text| form::choice(
            text,
            &[("default", Profile::Default), ("cosmos", Profile::Cosmos)]
        )
    ),
    setting!(
        "server.listen",
        Form::Address,
        "127.0.0.1:9042",
        "Where clients connect. With port 0 the system picks one.",
        server.listen = |text| form::address(text).map(Some)
    ),
    setting!(
        "server.data_dir",
        Form::Path,
        "./data",
        "The folder for everything the node keeps. It is created if it is missing.",
        server.data_dir = form::path
    ),
    setting!(
        "server.broadcast_address",
        Form::Ip,
        "",
        "The address that drivers are told, where it is not the one of server.listen.",
        server.broadcast_address = form::optional_ip
    ),
    setting!(
        "server.cluster_name",
        Form::Text,
        "Helenus",
        "The name that drivers and cqlsh show.",
        server.cluster_name = form::name
    ),
    setting!(
        "server.data_center",
        Form::Text,
        "datacenter1",
        "The data center that drivers are told; most want it named in their own configuration.",
        server.data_center = form::name
    ),
    setting!(
        "server.rack",
        Form::Text,
        "rack1",
        "The rack that drivers are told.",
        server.rack = form::name
    ),
    setting!(
        "server.startup_timeout",
        Form::Duration,
        "5s",
        "A connection that has not said who it is by then is closed. The time in which its password\nwaits to be checked does not count.",
        server.startup_timeout = form::duration
    ),
    setting!(
        "server.shutdown_timeout",
        Form::Duration,
        "10s",
        "How long a node that stops waits for requests under way.",
        server.shutdown_timeout = form::duration
    ),
    setting!(
        "server.threads",
        Form::Count,
        "0",
        "Threads that serve requests. A request may wait for the disk, so there are more of them\nthan cores. 0: as many as the machine suggests.",
        server.threads = |text| form::count_of_at_least(text, 0)
    ),
    setting!(
        "storage.commit",
        COMMIT,
        "group",
        "When a write is acknowledged. group: when it is on the disk, one sync for all who wait.\nperiodic: at once, as Cassandra does; a power failure loses the last interval.",
        storage.commit = |text| form::choice(
            text,
            &[("group", CommitMode::Group), ("periodic", CommitMode::Periodic)]
        )
    ),
    setting!(
        "storage.commit_interval",
        Form::Duration,
        "10s",
        "With storage.commit = \"periodic\": how often the log is synced.",
        storage.commit_interval = form::duration
    ),
    setting!(
        "storage.tombstone_retention",
        Form::Duration,
        "10m",
        "Deletions are remembered this long, or for the table's gc_grace_seconds if that is less.\nIt guards against late writes with old timestamps.",
        storage.tombstone_retention = form::duration
    ),
    setting!(
        "storage.log_segment",
        Form::Bytes,
        "32MiB",
        "The size of one file of the log. A write, or a batch, may take half of it.",
        storage.log_segment = |text| form::bytes(text).and_then(|bytes| {
            if (1 << 20..=1 << 30).contains(&bytes) { Ok(bytes) } else { Err(BadValue) }
        })
    ),
    setting!(
        "storage.log_max",
        Form::Bytes,
        "256MiB",
        "How long the log may grow before memory is written to sorted files to shorten it. It is\nalso about how much is read again after a crash.",
        storage.log_max = |text| form::bytes(text)
            .and_then(|bytes| { if bytes >= 1 << 20 { Ok(bytes) } else { Err(BadValue) } })
    ),
    setting!(
        "storage.auto_snapshot",
        Form::Flag,
        "true",
        "Whether TRUNCATE and DROP first keep what they remove, as a snapshot in the data folder.\nA table WITH allow_auto_snapshot = false is not kept.",
        storage.auto_snapshot = form::flag
    ),
    setting!(
        "storage.auto_snapshot_retention",
        Form::Duration,
        "1d",
        "How long such a snapshot is kept. Those that are asked for with `helenus snapshot` stay.",
        storage.auto_snapshot_retention = form::duration
    ),
    setting!(
        "storage.auto_snapshots_max",
        Form::Count,
        "100",
        "How many such snapshots are kept; the oldest go first.",
        storage.auto_snapshots_max = |text| form::count_of_at_least(text, 0)
    ),
    setting!(
        "memory.block_cache",
        Form::Bytes,
        "auto",
        "Blocks of data files kept in memory. auto: 1/384 of the memory, at least 16MiB. The page cache\nof the operating system holds the files beside it.",
        memory.block_cache = form::bytes_or_auto
    ),
    setting!(
        "memory.row_cache",
        Form::Bytes,
        "auto",
        "Rows kept in memory. auto: 1/256 of the memory at first, at least 16MiB; it grows while rows are\nlooked for that have left it, up to a quarter of the memory.",
        memory.row_cache = form::bytes_or_auto
    ),
    setting!(
        "memory.head_cache",
        Form::Bytes,
        "auto",
        "First rows of partitions kept in memory, for slices. auto: 1/512 of the memory, at least 16MiB.",
        memory.head_cache = form::bytes_or_auto
    ),
    setting!(
        "memory.memtables",
        Form::Bytes,
        "auto",
        "Writes kept in memory before they are sorted into files; half of it starts that. auto: 1/128 of\nthe memory, up to 1/32 while that would be full within a minute; at least 16MiB and at most 1GiB.",
        memory.memtables = form::bytes_or_auto
    ),
    setting!(
        "memory.prepared_statements",
        Form::Bytes,
        "64MiB",
        "Prepared statements kept. Clients prepare again what was dropped.",
        memory.prepared_statements = form::bytes
    ),
    setting!(
        "memory.requests",
        Form::Bytes,
        "auto",
        "Large requests, and answers while they are gathered and sent. One result may take a quarter of it,\nat most 256MiB. At half of it clients are held back and those that do not take their answers are\nleft; at all of it large requests are refused. auto: an eighth of the memory.",
        memory.requests = form::bytes_or_auto
    ),
    setting!(
        "limits.frame_bytes",
        Form::Bytes,
        "16MiB",
        "The longest request that is accepted.",
        limits.frame_bytes = |text| form::bytes(text).and_then(|bytes| {
            if (4096..=1 << 30).contains(&bytes) { Ok(bytes) } else { Err(BadValue) }
        })
    ),
    setting!(
        "limits.connections",
        Form::Count,
        "20000",
        "Clients connected at once. One more is turned away.",
        limits.connections = |text| form::count_of_at_least(text, 1)
    ),
    setting!(
        "limits.in_flight_per_connection",
        Form::Count,
        "2048",
        "Requests of one connection that may wait at once. At that many, nothing more is read from\nthe connection until one is answered.",
        limits.in_flight_per_connection = |text| form::count_of_at_least(text, 1)
    ),
    setting!(
        "limits.sessions_per_role",
        Form::Count,
        "0",
        "Connections that a role may have to this node at once; a login more is refused. Superusers may\nhave any number. 0: any number. Needs logins.",
        limits.sessions_per_role = |text| form::count_of_at_least(text, 0)
    ),
    setting!(
        "limits.statements_per_second_per_role",
        Form::Count,
        "0",
        "Statements that a role may run on this node in a second, those of batches too; more are refused\nwith the error that tells when to come back. What was not run in one second may be run in the\nnext. Superusers may run any number. 0: any number. Needs logins.",
        limits.statements_per_second_per_role =
            |text| form::count_of_at_least(text, 0).map(|count| count as u64)
    ),
    setting!(
        "limits.batch_size_warn",
        Form::Bytes,
        "5KiB",
        "A larger batch over several partitions brings a warning (batch_size_warn_threshold).",
        limits.batch_size_warn = form::bytes
    ),
    setting!(
        "limits.batch_size_fail",
        Form::Bytes,
        "50KiB",
        "A larger batch over several partitions is refused (batch_size_fail_threshold).",
        limits.batch_size_fail = form::bytes
    ),
    setting!(
        "limits.unlogged_batch_partitions_warn",
        Form::Count,
        "10",
        "An unlogged batch over more partitions brings a warning\n(unlogged_batch_across_partitions_warn_threshold).",
        limits.unlogged_batch_partitions_warn = |text| form::count_of_at_least(text, 0)
    ),
    setting!(
        "limits.waiting_requests",
        Form::Count,
        "16384",
        "Requests of all connections that may wait at once, for the log, for a thread or for their\nbudget. At that many, nothing more is read from whoever sends another one until one is answered.",
        limits.waiting_requests = |text| form::count_of_at_least(text, 16)
    ),
    setting!(
        "limits.queue_delay",
        Form::Duration,
        "500ms",
        "How long requests may wait for a thread. While they wait longer, a connection may have fewer\nof its requests served at a time, and waits for its next turn with the others.",
        limits.queue_delay = form::duration
    ),
    setting!(
        "limits.logical_partition_bytes",
        Form::Bytes,
        "20GB",
        "What all rows with one partition key may hold. The write that would cross it is refused;\nreads and deletes go on. Warnings come at 50, 80 and 95 per cent.",
        limits.logical_partition_bytes = form::bytes
    ),
    setting!(
        "limits.physical_partition_bytes",
        Form::Bytes,
        "30GB",
        "What a physical partition may hold. It is split before, see partitions.split_percent.",
        limits.physical_partition_bytes = form::bytes
    ),
    setting!(
        "limits.partition_key_bytes",
        Form::Bytes,
        "auto",
        "The longest partition key. auto: 65535 bytes, as in Cassandra; with the cosmos profile 2048.",
        limits.partition_key_bytes = form::bytes_or_auto
    ),
    setting!(
        "limits.row_bytes",
        Form::Bytes,
        "auto",
        "The largest row that is written at once. auto: as long as it fits a request; with the\ncosmos profile 2MB.",
        limits.row_bytes = form::bytes_or_auto
    ),
    setting!(
        "partitions.per_space",
        Form::Count,
        "auto",
        "Physical partitions that a keyspace or table without provisioned throughput starts with, and\nis never merged below. auto: one for each core.",
        partitions.per_space = |text: &str| match text.trim() {
            "auto" => Ok(None),
            text => match form::count_of_at_least(text, 1)? {
                count if count <= PARTITIONS_PER_SPACE_MAX => Ok(Some(count)),
                _ => Err(BadValue),
            },
        }
    ),
    setting!(
        "partitions.split_percent",
        Form::Count,
        "85",
        "A physical partition is split when it holds this much of limits.physical_partition_bytes,\nin per cent.",
        partitions.split_percent = |text| form::count_of_at_least(text, 1)
    ),
    setting!(
        "partitions.hot_ru",
        Form::Count,
        "2000",
        "A physical partition with less traffic than this is never split for heat, in request units\nper second.",
        partitions.hot_ru = |text| form::count_of_at_least(text, 1)
    ),
    setting!(
        "partitions.hot_age",
        Form::Duration,
        "60s",
        "After any change of its space a physical partition is not split for heat for this time.",
        partitions.hot_age = form::duration
    ),
    setting!(
        "partitions.merge_age",
        Form::Duration,
        "2h",
        "Neighbours become one when both are older than this, small, and were cold for this long.",
        partitions.merge_age = form::duration
    ),
    setting!(
        "partitions.interval",
        Form::Duration,
        "1s",
        "How often it is decided whether something should be split or merged, at least 1ms.",
        partitions.interval = |text: &str| match form::duration(text)? {
            interval if interval.is_zero() => Err(BadValue),
            interval => Ok(interval),
        }
    ),
    setting!(
        "timeouts.read",
        Form::Duration,
        "5s",
        "A read of single partitions fails after this time.",
        timeouts.read = form::duration
    ),
    setting!(
        "timeouts.range",
        Form::Duration,
        "10s",
        "A read over many partitions fails after this time.",
        timeouts.range = form::duration
    ),
    setting!(
        "timeouts.write",
        Form::Duration,
        "2s",
        "A write fails after this time; whether it happened is then unknown.",
        timeouts.write = form::duration
    ),
    setting!(
        "timeouts.counter_write",
        Form::Duration,
        "5s",
        "The same for counters.",
        timeouts.counter_write = form::duration
    ),
    setting!(
        "timeouts.cas",
        Form::Duration,
        "1s",
        "The same for conditional writes.",
        timeouts.cas = form::duration
    ),
    setting!(
        "timeouts.truncate",
        Form::Duration,
        "60s",
        "The same for TRUNCATE.",
        timeouts.truncate = form::duration
    ),
    setting!(
        "units.charge",
        Form::Flag,
        "true",
        "Whether the work of requests is counted and charged in request units.",
        units.charge = form::flag
    ),
    setting!(
        "units.payload",
        PAYLOAD,
        "asked",
        "Which answers tell what their request cost, as RequestCharge in their custom payload (from\nprotocol version 4 on). asked: those to requests whose own custom payload has a RequestCharge,\nof any value. always: all, as with the cosmos profile; some drivers, such as cdrs-tokio, cannot\nread an answer with a payload.",
        units.payload = |text| form::choice(
            text,
            &[("asked", Payload::Asked), ("always", Payload::Always), ("never", Payload::Never)]
        )
    ),
    setting!(
        "units.server_side_retry",
        Form::Text,
        "off",
        "Where a request waits on the server, up to 60 s, when its budget is spent, instead of being\nrefused with the error that tells it when to come back. off, all, or names of keyspaces\nseparated by commas.",
        units.server_side_retry = server_retry
    ),
    setting!(
        "units.burst",
        Form::Flag,
        "false",
        "Whether a physical partition with less than 3,000 RU/s keeps what it does not spend, up to\n300 s of its budget, and spends it at up to 3,000 RU/s when it needs more.",
        units.burst = form::flag
    ),
    setting!(
        "units.autoscale",
        Form::Flag,
        "true",
        "Whether keyspaces and tables may have cosmosdb_autoscale_max_throughput. false: it is refused,\nand what has it already is treated and billed as manual throughput of that number.",
        units.autoscale = form::flag
    ),
    setting!(
        "units.price_manual",
        Form::Text,
        "0.008",
        "What 100 RU/s of manual throughput cost for an hour, for system_helenus.usage and\nhelenus estimate. The defaults are the list prices in US dollars, one write region.",
        units.prices.manual_100_hour = form::money
    ),
    setting!(
        "units.price_autoscale_percent",
        Form::Count,
        "150",
        "What autoscale costs against manual throughput, in percent.",
        units.prices.autoscale_percent =
            |text| form::count_of_at_least(text, 1).map(|count| count as u64)
    ),
    setting!(
        "units.price_serverless",
        Form::Text,
        "0.25",
        "What a million RU cost without provisioning.",
        units.prices.serverless_million = form::money
    ),
    setting!(
        "units.price_storage",
        Form::Text,
        "0.25",
        "What a gigabyte costs for a month.",
        units.prices.storage_gb_month = form::money
    ),
    setting!(
        "auth.authenticator",
        AUTHENTICATOR,
        "allow_all",
        "Who may connect: everybody, or roles with their password. At first start there is the\nsuperuser cassandra with the password cassandra, which works from the node's own machine only;\nwith the cosmos profile with an account key, which is printed once.",
        auth.authenticator = |text| form::choice(
            text,
            &[("allow_all", Authenticator::AllowAll), ("password", Authenticator::Password)]
        )
    ),
    setting!(
        "auth.authorizer",
        AUTHORIZER,
        "allow_all",
        "Whether roles need permissions for what they do; with the cosmos profile they do wherever\npasswords are asked for.",
        auth.authorizer = |text| form::choice(
            text,
            &[("allow_all", Authorizer::AllowAll), ("cassandra", Authorizer::Cassandra)]
        )
    ),
    setting!(
        "tls.mode",
        TLS_MODE,
        "off",
        "Encryption of client connections. optional: encrypted and plain clients on the same port.",
        tls.mode = |text| form::choice(
            text,
            &[
                ("off", TlsMode::Off),
                ("optional", TlsMode::Optional),
                ("required", TlsMode::Required)
            ]
        )
    ),
    setting!(
        "tls.certificate",
        Form::Path,
        "",
        "The node's certificate, with the chain up to its authority, as PEM. When the file changes\nit is read again, without a restart.",
        tls.certificate = form::optional_path
    ),
    setting!(
        "tls.key",
        Form::Path,
        "",
        "The key of the certificate, as PEM.",
        tls.key = form::optional_path
    ),
    setting!(
        "tls.client_ca",
        Form::Path,
        "",
        "The authority that signs certificates of clients, as PEM. Empty: they are not looked at.",
        tls.client_ca = form::optional_path
    ),
    setting!(
        "tls.require_client_certificate",
        Form::Flag,
        "false",
        "Whether a client without a certificate is turned away.",
        tls.require_client_certificate = form::flag
    ),
    setting!(
        "cluster.listen",
        Form::Address,
        "",
        "Where the other nodes of a cluster connect. Empty: port 7000 of the address of server.listen.\nUsed when a node joins; from then on it is kept in the data folder.",
        cluster.listen = form::optional_address
    ),
    setting!(
        "cluster.heal_after",
        Form::Duration,
        "10m",
        "What a node held that nothing was heard of for so long is made anew on others.",
        cluster.heal_after = form::duration
    ),
    setting!(
        "metrics.listen",
        Form::Address,
        "127.0.0.1:9180",
        "Where Prometheus finds /metrics, a supervisor /health, a balancer /ready and a browser the\ndashboard (see metrics.dashboard). Empty: nowhere.",
        metrics.listen = form::optional_address
    ),
    setting!(
        "metrics.dashboard",
        Form::Flag,
        "true",
        "Whether there is a dashboard at metrics.listen. Where clients need no login it is shown to this\nmachine only, unless this is set to true by hand: it shows keys and statements.",
        metrics.dashboard = form::flag
    ),
    setting!(
        "metrics.per_table",
        Form::Flag,
        "false",
        "Whether /metrics tells of each table and keyspace. Without it /metrics?per_table=1 does. Of the\n1,000 largest tables at most.",
        metrics.per_table = form::flag
    ),
    setting!(
        "log.format",
        LOG_FORMAT,
        "text",
        "Lines for people, or one JSON object a line. Logs go to the standard error stream.",
        log.format =
            |text| form::choice(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
    ),
    setting!(
        "log.level",
        LOG_LEVEL,
        "warn",
        "How much is told.",
        log.level = |text| form::choice(
            text,
            &[
                ("off", LogLevel::Off),
                ("error", LogLevel::Error),
                ("warn", LogLevel::Warn),
                ("info", LogLevel::Info),
                ("debug", LogLevel::Debug),
                ("trace", LogLevel::Trace),
            ]
        )
    ),
    setting!(
        "log.slow_after",
        Form::Duration,
        "500ms",
        "A statement that takes so long is told of, as a warning and in system_helenus.slow_statements.\n0s: none.",
        log.slow_after = form::duration
    ),
    setting!(
        "log.costly_ru",
        Form::Count,
        "1000",
        "The same of one that costs so many request units. 0: none.",
        log.costly_ru = |text| form::count_of_at_least(text, 0)
    ),
    setting!(
        "log.statement_values",
        Form::Flag,
        "false",
        "Whether literals in such statements are shown as they came. What is bound to markers never is.",
        log.statement_values = form::flag
    ),
];

/// `off`, `all`, or names of keyspaces.
fn server_retry(text: &str) -> Result<ServerRetry, BadValue> {
    match text {
        "off" => Ok(ServerRetry::Off),
        "all" => Ok(ServerRetry::All),
        names => {
            let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
            let is_name = |name: &String| {
                !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            if names.iter().all(is_name) {
                Ok(ServerRetry::Keyspaces(names))
            } else {
                Err(BadValue)
            }
        }
    }
}
