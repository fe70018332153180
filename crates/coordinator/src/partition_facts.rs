//! What `system_helenus` shows of partitions.

use partition::Step;
use schema::system::{
    LogicalPartitionFacts, MapChangeFacts, PhysicalPartitionFacts, RangeEstimate,
};
use schema::{KeyspaceKind, NodeFacts, Table};
use types::{PartitionKey, RingRange, RingToken, TableId, Token, UuidText};

use crate::balance::{ru_of, stored, tables_of, throughput_of};
use crate::catalog::Catalog;
use crate::sizes::key_literals;

/// Of each table so many of the largest logical partitions are shown.
const LARGEST_SHOWN: usize = 64;

/// Adds what a computed table shows of partitions, if it does.
pub(crate) fn add(catalog: &Catalog, table: &Table, facts: &mut NodeFacts) {
    match (&*table.keyspace, &*table.name) {
        ("system_helenus", "physical_partitions") => {
            facts.partitions.physical = physical_partitions(catalog, facts.host_id);
        }
        ("system_helenus", "logical_partitions") => {
            facts.partitions.logical = logical_partitions(catalog);
        }
        ("system_helenus", "partition_history") => {
            facts.partitions.history = map_changes(catalog);
        }
        ("system", "size_estimates" | "table_estimates") => {
            facts.estimates = estimates(catalog, &facts.tokens);
        }
        _ => {}
    }
}

/// Every physical partition, in the order of spaces and rings.
pub(crate) fn physical_partitions(catalog: &Catalog, host_id: u128) -> Vec<PhysicalPartitionFacts> {
    let map = catalog.view.map();
    let schema = catalog.view.schema();
    let mut found = Vec::new();
    for (space, partitions) in map.spaces() {
        let stored = stored(&catalog.replicas, &tables_of(&schema, space), partitions);
        let heats: Vec<f64> = partitions
            .iter()
            .map(|partition| catalog.shared_traffic.heat(partition.set).now_ru_s)
            .collect();
        let even = heats.iter().sum::<f64>() / heats.len().max(1) as f64;
        let provisioned = throughput_of(&schema, space).map(ru_of);
        let budget = provisioned.map(|ru| {
            let share = f64::from(ru) / partitions.len().max(1) as f64;
            share.min(f64::from(catalog.settings.limits.partition_ru_max))
        });
        for ((partition, stored), ru_s) in partitions.iter().zip(stored).zip(heats) {
            let origin = map.origin(partition.set);
            found.push(PhysicalPartitionFacts {
                space: space.to_string(),
                id: partition.set.0,
                first_token: partition.range.start.token().0,
                last_token: partition.range.last.token().0,
                first_ring: partition.range.start.0,
                last_ring: partition.range.last.0,
                bytes: stored.bytes,
                rows: stored.rows,
                ru_s,
                budget_ru_s: budget,
                heat: if even > 0.0 { ru_s / even } else { 0.0 },
                replicas: catalog
                    .replica_hosts(map.members(partition.set), host_id)
                    .into_iter()
                    .map(|host| UuidText(host).to_string())
                    .collect(),
                made_at_ms: origin.map_or(0, |origin| origin.made_at_ms),
                reason: origin.map_or("", |origin| origin.reason.word()).to_owned(),
            });
        }
    }
    found
}

impl Catalog {
    /// How large the largest logical partition of a table is.
    pub fn largest_logical_bytes(&self, table: TableId) -> u64 {
        self.replicas.largest_partitions(table, 1).first().map_or(0, |largest| largest.bytes)
    }
}

/// The largest and the hottest keys of every table of users.
pub(crate) fn logical_partitions(catalog: &Catalog) -> Vec<LogicalPartitionFacts> {
    let map = catalog.view.map();
    let schema = catalog.view.schema();
    let keyspaces = schema.keyspaces.values();
    let users = keyspaces.filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let mut found = Vec::new();
    for table in users.flat_map(|keyspace| keyspace.tables.values()) {
        let mut rates = catalog.shared_traffic.hot_keys(table.id);
        let mut keys: Vec<(PartitionKey, f64)> = Vec::new();
        for large in catalog.replicas.largest_partitions(table.id, LARGEST_SHOWN) {
            let hot = rates.iter().position(|(key, _)| key.ring() == large.key.ring());
            let ru_s = hot.map_or(0.0, |index| rates.swap_remove(index).1);
            keys.push((large.key, ru_s));
        }
        rates.sort_by(|one, other| other.1.total_cmp(&one.1));
        keys.extend(rates);
        for (key, ru_s) in keys {
            let size = catalog.replicas.logical_size(table.id, &key);
            let limit = catalog.settings.logical_bytes_max.max(1) as f64;
            found.push(LogicalPartitionFacts {
                keyspace: table.keyspace.to_string(),
                table: table.name.to_string(),
                key: key_literals(table, &key),
                token: key.token().0,
                physical: map.locate(table.id, key.ring()).map_or(0, |it| it.set.0),
                bytes: size.map(|size| size.bytes),
                rows: size.map(|size| size.rows),
                ru_s,
                share_of_limit: size.map(|size| size.bytes as f64 / limit),
            });
        }
    }
    found
}

/// How much of every table lies between the tokens of this node: ranges that cover the ring once.
fn estimates(catalog: &Catalog, tokens: &[String]) -> Vec<RangeEstimate> {
    let mut bounds: Vec<i64> = tokens.iter().filter_map(|token| token.parse().ok()).collect();
    bounds.sort_unstable();
    let ends = bounds.iter().copied().chain([i64::MIN]);
    let ranges: Vec<(i64, i64)> =
        std::iter::once(i64::MIN).chain(bounds.clone()).zip(ends).collect();
    let schema = catalog.view.schema();
    let keyspaces = schema.keyspaces.values();
    let stored = keyspaces.filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let mut found = Vec::new();
    for table in stored.flat_map(|keyspace| keyspace.tables.values()) {
        let largest = catalog.replicas.largest_partitions(table.id, usize::MAX);
        let rows_known: u64 = largest.iter().map(|it| it.rows).sum();
        // Of a table with many partitions only the larger ones are known one by one.
        let rows_each = match table.clustering_count {
            0 => 1.0,
            _ => (rows_known as f64 / largest.len().max(1) as f64).max(1.0),
        };
        let ring = ranges.iter().map(|(after, to)| ring_range(*after, *to));
        let sizes = catalog.replicas.range_sizes(table.id, ring);
        for ((after, to), size) in ranges.iter().zip(sizes) {
            let partitions = (size.rows as f64 / rows_each).ceil();
            found.push(RangeEstimate {
                keyspace: table.keyspace.to_string(),
                table: table.name.to_string(),
                range_start: after.to_string(),
                range_end: to.to_string(),
                mean_partition_bytes: (size.bytes as f64 / partitions.max(1.0)) as i64,
                partition_count: partitions as i64,
            });
        }
    }
    found
}

pub(crate) fn map_changes(catalog: &Catalog) -> Vec<MapChangeFacts> {
    let history = catalog.history.lock();
    history
        .changes()
        .map(|change| {
            let (step, replaced, made, split_token) = match &change.step {
                Step::Split { from, at, into } => {
                    let made = into.map(|set| set.0).to_vec();
                    ("split", vec![from.0], made, Some(at.token().0))
                }
                Step::Merge { from, into } => {
                    ("merge", from.map(|set| set.0).to_vec(), vec![into.0], None)
                }
            };
            MapChangeFacts {
                space: change.space.to_string(),
                number: change.number,
                at_ms: change.at_ms,
                step,
                reason: change.reason.word(),
                replaced,
                made,
                split_token,
                bytes: change.bytes,
                took_us: change.took_us,
                writes_waited_us: change.writes_waited_us,
            }
        })
        .collect()
}

/// The tokens behind one up to another; the smallest stands for the end of the ring.
fn ring_range(after: i64, to: i64) -> RingRange {
    let start = match after {
        i64::MIN => RingToken(0),
        _ => RingToken(RingToken::last_of(Token(after)).0.saturating_add(1)),
    };
    let last = match to {
        i64::MIN => RingToken(u128::MAX),
        _ => RingToken::last_of(Token(to)),
    };
    RingRange { start, last }
}
