//! `system_helenus`: physical partitions, the largest and hottest logical ones, and what happened
//! to the map.

use super::rows::NamedRow;
use super::values::{Value, bigint, double, int, list, text};

/// The partitions of a node at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionFacts {
    /// In the order of spaces and rings.
    pub physical: Vec<PhysicalPartitionFacts>,
    /// The largest and hottest keys.
    pub logical: Vec<LogicalPartitionFacts>,
    /// Splits and merges.
    pub history: Vec<MapChangeFacts>,
}

/// One physical partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhysicalPartitionFacts {
    /// `KEYSPACE` or `KEYSPACE.TABLE`.
    pub space: String,
    /// The number of its replica set.
    pub id: u32,
    /// Its first token of the ring that clients see.
    pub first_token: i64,
    /// Its last token of the ring that clients see.
    pub last_token: i64,
    /// Its first position of the internal ring.
    pub first_ring: u128,
    /// Its last position of the internal ring.
    pub last_ring: u128,
    /// Bytes it holds.
    pub bytes: u64,
    /// Rows it holds.
    pub rows: u64,
    /// Request units per second, now.
    pub ru_s: f64,
    /// Request units per second it may spend, where throughput was provisioned.
    pub budget_ru_s: Option<f64>,
    /// Its share of the traffic of its space against an even share: 1 is even.
    pub heat: f64,
    /// The nodes that hold it.
    pub replicas: Vec<String>,
    /// Milliseconds since the epoch; zero where it is not known.
    pub made_at_ms: i64,
    /// Why it was made, one word.
    pub reason: String,
}

/// One logical partition that is large or hot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogicalPartitionFacts {
    /// The keyspace of the table.
    pub keyspace: String,
    pub table: String,
    /// The key as CQL literals.
    pub key: String,
    pub token: i64,
    /// The physical partition that holds it.
    pub physical: u32,
    /// Bytes it holds, where they are known.
    pub bytes: Option<u64>,
    /// Rows it holds, where they are known.
    pub rows: Option<u64>,
    /// Request units per second, now.
    pub ru_s: f64,
    /// Its bytes as a share of the limit.
    pub share_of_limit: Option<f64>,
}

/// A split or a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapChangeFacts {
    /// `KEYSPACE` or `KEYSPACE.TABLE`.
    pub space: String,
    /// Counted from one.
    pub number: u64,
    /// Milliseconds since the epoch.
    pub at_ms: i64,
    /// `split` or `merge`.
    pub step: &'static str,
    /// One word.
    pub reason: &'static str,
    /// Physical partitions that are gone.
    pub replaced: Vec<u32>,
    /// Physical partitions that came.
    pub made: Vec<u32>,
    /// The first token of the second half.
    pub split_token: Option<i64>,
    /// Bytes that the physical partitions held.
    pub bytes: u64,
    /// How long it took.
    pub took_us: u64,
    /// How long writes waited, at most.
    pub writes_waited_us: u64,
}

/// The rows of one table of `system_helenus`; none if it shows no partitions.
pub(super) fn rows(table: &str, facts: &PartitionFacts) -> Vec<NamedRow> {
    match table {
        "physical_partitions" => facts.physical.iter().map(physical).collect(),
        "logical_partitions" => facts.logical.iter().map(logical).collect(),
        "partition_history" => facts.history.iter().map(change).collect(),
        _ => Vec::new(),
    }
}

fn count(number: u64) -> Value {
    bigint(i64::try_from(number).unwrap_or(i64::MAX))
}

fn id(number: u32) -> Value {
    int(i32::try_from(number).unwrap_or(i32::MAX))
}

fn ids(numbers: &[u32]) -> Value {
    list(numbers.iter().map(|number| number.to_be_bytes()))
}

fn physical(partition: &PhysicalPartitionFacts) -> NamedRow {
    let is_known = partition.made_at_ms != 0;
    vec![
        ("space", text(&partition.space)),
        ("first_token", bigint(partition.first_token)),
        ("id", id(partition.id)),
        ("budget_ru_s", partition.budget_ru_s.and_then(double)),
        ("bytes", count(partition.bytes)),
        ("first_ring", text(&format!("{:032x}", partition.first_ring))),
        ("heat", double(partition.heat)),
        ("last_ring", text(&format!("{:032x}", partition.last_ring))),
        ("last_token", bigint(partition.last_token)),
        ("made_at", if is_known { bigint(partition.made_at_ms) } else { None }),
        ("reason", text(&partition.reason)),
        ("replicas", list(&partition.replicas)),
        ("rows", count(partition.rows)),
        ("ru_s", double(partition.ru_s)),
    ]
}

fn logical(partition: &LogicalPartitionFacts) -> NamedRow {
    vec![
        ("keyspace_name", text(&partition.keyspace)),
        ("table_name", text(&partition.table)),
        ("partition_key", text(&partition.key)),
        ("bytes", partition.bytes.and_then(count)),
        ("physical_partition", id(partition.physical)),
        ("rows", partition.rows.and_then(count)),
        ("ru_s", double(partition.ru_s)),
        ("share_of_limit", partition.share_of_limit.and_then(double)),
        ("key_token", bigint(partition.token)),
    ]
}

fn change(change: &MapChangeFacts) -> NamedRow {
    vec![
        ("space", text(&change.space)),
        ("number", count(change.number)),
        ("at", bigint(change.at_ms)),
        ("bytes", count(change.bytes)),
        ("made", ids(&change.made)),
        ("reason", text(change.reason)),
        ("replaced", ids(&change.replaced)),
        ("split_token", change.split_token.and_then(bigint)),
        ("step", text(change.step)),
        ("took_us", count(change.took_us)),
        ("writes_waited_us", count(change.writes_waited_us)),
    ]
}
