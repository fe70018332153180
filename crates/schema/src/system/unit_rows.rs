//! `system_helenus`: what was provisioned, what was used, and what statements cost.

use super::rows::NamedRow;
use super::values::{bigint, boolean, double, int, text, uuid};

/// Request units of a node at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitFacts {
    /// Spaces with their own throughput.
    pub throughput: Vec<ThroughputFacts>,
    /// By space and hour.
    pub usage: Vec<UsageFacts>,
    /// Prepared statements.
    pub statements: Vec<StatementFacts>,
}

/// The throughput of a space.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThroughputFacts {
    pub keyspace: String,
    /// The table; empty where the tables of the keyspace share it.
    pub table: String,
    /// `manual` or `autoscale`.
    pub mode: &'static str,
    /// What was provisioned, or the most that autoscale gives.
    pub maximum_ru_s: u32,
    /// What is paid for now.
    pub current_ru_s: f64,
    /// What was spent in the last whole second.
    pub used_ru_s: f64,
    /// Its physical partitions.
    pub partition_count: u32,
    /// What each of them may spend.
    pub partition_ru_s: f64,
    /// What is saved for bursts.
    pub saved_ru: f64,
    /// Requests refused since the start.
    pub throttled: u64,
    /// Whether unspent budget is saved.
    pub saves_bursts: bool,
}

/// An hour of a space.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageFacts {
    pub space: String,
    /// When the hour began, milliseconds since the epoch.
    pub hour_ms: i64,
    /// `manual` or `autoscale`.
    pub mode: String,
    /// What was provisioned, or the most that autoscale gives.
    pub maximum_ru_s: u64,
    /// The highest use.
    pub highest_ru_s: u64,
    /// What is paid for.
    pub level_ru_s: u64,
    /// What was spent.
    pub charge: f64,
    /// What the hour costs.
    pub cost: f64,
    /// What a month of such hours costs.
    pub month_cost: f64,
}

/// A prepared statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementFacts {
    pub id: u128,
    pub text: String,
    /// How often it was executed.
    pub calls: u64,
    /// What that cost.
    pub charge_total: f64,
    /// On average.
    pub charge_average: f64,
    /// All but one in a hundred cost no more.
    pub charge_p99: f64,
    /// Rows returned.
    pub rows: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// How often it was refused because a budget was spent.
    pub throttled: u64,
}

/// The rows of one of these tables; `None` if it is not one of them.
pub(super) fn rows(table: &str, facts: &UnitFacts) -> Option<Vec<NamedRow>> {
    match table {
        "throughput" => Some(facts.throughput.iter().map(throughput).collect()),
        "usage" => Some(facts.usage.iter().map(usage).collect()),
        "statements" => Some(facts.statements.iter().map(statement).collect()),
        _ => None,
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn throughput(facts: &ThroughputFacts) -> NamedRow {
    vec![
        ("keyspace_name", text(&facts.keyspace)),
        ("table_name", text(&facts.table)),
        ("mode", text(facts.mode)),
        ("maximum_ru_s", int(i32::try_from(facts.maximum_ru_s).unwrap_or(i32::MAX))),
        ("current_ru_s", double(facts.current_ru_s)),
        ("used_ru_s", double(facts.used_ru_s)),
        ("physical_partitions", int(i32::try_from(facts.partition_count).unwrap_or(i32::MAX))),
        ("ru_s_per_partition", double(facts.partition_ru_s)),
        ("saved_ru", double(facts.saved_ru)),
        ("throttled", bigint(count(facts.throttled))),
        ("burst", boolean(facts.saves_bursts)),
    ]
}

fn usage(facts: &UsageFacts) -> NamedRow {
    vec![
        ("space", text(&facts.space)),
        ("hour", bigint(facts.hour_ms)),
        ("mode", text(&facts.mode)),
        ("maximum_ru_s", bigint(count(facts.maximum_ru_s))),
        ("highest_ru_s", bigint(count(facts.highest_ru_s))),
        ("level_ru_s", bigint(count(facts.level_ru_s))),
        ("charge", double(facts.charge)),
        ("cost", double(facts.cost)),
        ("month_cost", double(facts.month_cost)),
    ]
}

fn statement(facts: &StatementFacts) -> NamedRow {
    vec![
        ("id", uuid(facts.id)),
        ("query", text(&facts.text)),
        ("calls", bigint(count(facts.calls))),
        ("charge_total", double(facts.charge_total)),
        ("charge_average", double(facts.charge_average)),
        ("charge_p99", double(facts.charge_p99)),
        ("rows", bigint(count(facts.rows))),
        ("bytes", bigint(count(facts.bytes))),
        ("throttled", bigint(count(facts.throttled))),
    ]
}
