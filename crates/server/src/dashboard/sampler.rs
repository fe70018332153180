//! Looks every ten seconds at what is counted anyway, and remembers how much it grew. Requests pay nothing for it.

use std::collections::BTreeMap;
use std::time::Duration;

use dashboard::history::{SAMPLE_SECONDS, Sample, Series};
use partition::SET_MEMBERS;
use partition::decide::{NodeView, SetView};
use replica::group::{MemberStatus, SYSTEM_SET, Told};
use schema::system::PhysicalPartitionFacts;
use storage::{Statistics, TIMING_BOUNDS_US, TimingSum};
use types::SetId;

use crate::metrics::{self, LATENCY_BOUNDS_US, LATENCY_CLASSES, grown_by, percentile};
use crate::node::Node;
use crate::nodes::Health;
use crate::world;

/// Between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(SAMPLE_SECONDS as u64);

/// Counters at one moment.
#[derive(Clone)]
pub(super) struct Counted {
    at_us: u64,
    latencies: [u64; LATENCY_CLASSES],
    errors: [u64; 5],
    units: f64,
    throttled: u64,
    cpu_seconds: Option<f64>,
    syncs: TimingSum,
}

/// What a look around found beside the sample.
pub(super) struct Found {
    pub(super) sample: Sample,
    pub(super) counted: Counted,
    pub(super) seen: Seen,
}

/// The cluster as this node knows it.
#[derive(Default)]
pub(super) struct Seen {
    /// Every physical partition, in the order of spaces and rings, with what its leader tells.
    pub(super) partitions: Vec<PhysicalPartitionFacts>,
    /// The replica sets of them by their numbers; none where the node runs alone.
    pub(super) sets: BTreeMap<u32, SetView>,
    pub(super) nodes: Vec<NodeView>,
    /// Sets that nobody leads, and sets with too few members.
    pub(super) without_leader: Vec<u32>,
    pub(super) short: Vec<u32>,
    pub(super) set_count: usize,
    pub(super) budget_ru_s: Option<f64>,
}

/// Where an error counts, by the name of its code.
fn error_place(name: &str) -> usize {
    match name {
        "overloaded" => 1,
        "write_timeout" | "read_timeout" => 2,
        "unavailable" | "is_bootstrapping" => 3,
        "server_error" | "read_failure" | "write_failure" | "truncate_error" => 4,
        // Everything else is what a client got wrong.
        _ => 0,
    }
}

const ERROR_SERIES: [Series; 5] = [
    Series::ErrorsOfClients,
    Series::ErrorsOverloaded,
    Series::ErrorsTimedOut,
    Series::ErrorsUnavailable,
    Series::ErrorsOfNode,
];

/// The counters as they are.
fn count(node: &Node, stored: &Statistics) -> Counted {
    let mut errors = [0; 5];
    for (name, count) in node.metrics.errors() {
        if let Some(sum) = errors.get_mut(error_place(name)) {
            *sum += count;
        }
    }
    let (units, throttled) = node.engine.spent();
    Counted {
        at_us: world::steady_us(),
        latencies: node.metrics.statement_latencies(),
        errors,
        units,
        throttled,
        cpu_seconds: metrics::cpu_seconds(),
        syncs: stored.chores.syncs.clone(),
    }
}

/// Looks around. Without what was counted before there are no rates. Slow: not for a thread that serves others.
pub(super) fn look(node: &Node, before: Option<&Counted>) -> Found {
    let stored = node.storage.statistics();
    let counted = count(node, &stored);
    let seen = see(node);
    let mut sample = Sample::at(u32::try_from(world::now_s()).unwrap_or(u32::MAX));
    if let Some(before) = before {
        rates(&mut sample, before, &counted);
    }
    let disk = stored.tables.iter().map(|table| table.disk_bytes).sum::<u64>();
    sample.set(Series::Disk, disk.saturating_add(stored.log_bytes) as f64);
    sample.set(Series::Connections, node.metrics.connections_open() as f64);
    sample.set(Series::Queue, node.load.delay().as_secs_f64() * 1000.0);
    if let Some(bytes) = metrics::resident_bytes() {
        sample.set(Series::Memory, bytes as f64);
    }
    sample.set(Series::UnitsOfAll, seen.partitions.iter().map(|it| it.ru_s).sum());
    if let Some(budget) = seen.budget_ru_s {
        sample.set(Series::Budget, budget);
    }
    sample.set(Series::WithoutLeader, seen.without_leader.len() as f64);
    sample.set(Series::Short, seen.short.len() as f64);
    tell_health(node, &sample);
    Found { sample, counted, seen }
}

fn rates(sample: &mut Sample, before: &Counted, now: &Counted) {
    let seconds = (now.at_us.saturating_sub(before.at_us) as f64 / 1e6).max(0.001);
    let grown = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let latencies = grown_by(&before.latencies, &now.latencies);
    sample.set(Series::Requests, latencies.iter().sum::<u64>() as f64 / seconds);
    for (series, (now, before)) in
        ERROR_SERIES.into_iter().zip(now.errors.iter().zip(before.errors))
    {
        sample.set(series, grown(*now, before));
    }
    for (series, share) in [(Series::P50, 0.5), (Series::P99, 0.99)] {
        if let Some(us) = percentile(&LATENCY_BOUNDS_US, &latencies, share) {
            sample.set(series, us / 1000.0);
        }
    }
    sample.set(Series::Units, (now.units - before.units).max(0.0) / seconds);
    sample.set(Series::Throttled, grown(now.throttled, before.throttled));
    if let (Some(now), Some(before)) = (now.cpu_seconds, before.cpu_seconds) {
        sample.set(Series::Processors, (now - before).max(0.0) / seconds);
    }
    let syncs = grown_by(&before.syncs.classes, &now.syncs.classes);
    if let Some(us) = percentile(&TIMING_BOUNDS_US, &syncs, 0.99) {
        sample.set(Series::Sync, us / 1000.0);
    }
}

/// The cluster as this node knows it, without asking anybody.
fn see(node: &Node) -> Seen {
    let mut partitions = node.catalog.physical_partitions(node.world.host_number());
    for partition in &mut partitions {
        // Who has members is known from the sets: there is no need to keep all of that.
        partition.replicas = Vec::new();
    }
    let throughput = node.catalog.throughput();
    let budget_ru_s = (!throughput.is_empty())
        .then(|| throughput.iter().map(|it| f64::from(it.maximum_ru_s)).sum());
    let set_count = partitions.len();
    let Some(cluster) = &node.cluster else {
        return Seen { partitions, set_count, budget_ru_s, ..Seen::default() };
    };
    let steward = cluster.steward(&node.catalog, node.world.host_number());
    let (nodes, views) = steward.views();
    let told = cluster.groups.told();
    let up = nodes.iter().filter(|it| it.is_alive).count();
    let (mut without_leader, mut short) = (Vec::new(), Vec::new());
    let mut sets = BTreeMap::new();
    for mut view in views {
        // Whoever has a member knows better than what was told a moment ago.
        if let Some(member) = told.member(view.set) {
            view.leader = member.leader;
        }
        view.leader = view.leader.filter(|node| told.alive.contains(node));
        if view.leader.is_none() {
            without_leader.push(view.set.0);
        }
        if is_short(&view, &told, nodes.len(), up) {
            short.push(view.set.0);
        }
        sets.insert(view.set.0, view);
    }
    without_leader.sort_unstable();
    short.sort_unstable();
    let system = told.member(SYSTEM_SET).and_then(|member| member.leader);
    if system.is_none_or(|node| !told.alive.contains(&node)) {
        without_leader.push(SYSTEM_SET.0);
    }
    for partition in &mut partitions {
        // Of sets without a member here others know more.
        if let Some(view) = sets.get(&partition.id) {
            partition.bytes = partition.bytes.max(view.bytes);
            partition.ru_s = partition.ru_s.max(view.ru_s as f64);
        }
    }
    Seen { partitions, sets, nodes, without_leader, short, set_count: set_count + 1, budget_ru_s }
}

/// Whether fewer nodes have a member of a set than there should be.
fn is_short(view: &SetView, told: &Told, nodes: usize, up: usize) -> bool {
    let members = || view.voters.iter().chain(&view.learners);
    let alive = members().filter(|node| told.alive.contains(node)).count();
    let wanted = SET_MEMBERS.min(nodes);
    members().count() > 0 && (alive < members().count() || alive < wanted.min(up))
}

/// Other nodes are told how this one is.
fn tell_health(node: &Node, sample: &Sample) {
    if let Some(cluster) = &node.cluster {
        cluster.nodes.set_health(health(node, Some(sample)));
    }
}

/// How this node is doing.
pub(super) fn health(node: &Node, sample: Option<&Sample>) -> Health {
    let get = |series| sample.and_then(|sample| sample.get(series));
    let micros = |ms: f64| (ms * 1000.0) as u64;
    let up_ms = world::now_us() / 1000 - node.world.started_at_ms();
    let links = node.cluster.iter().flat_map(|cluster| cluster.links());
    Health {
        memory_bytes: metrics::resident_bytes().unwrap_or(0),
        sync_p99_us: get(Series::Sync).map(micros),
        queue_us: micros(get(Series::Queue).unwrap_or(0.0)),
        clock_us: world::machine_us().saturating_sub(world::now_us()),
        up_s: u64::try_from(up_ms / 1000).unwrap_or(0),
        links: links.map(|it| (it.node, it.round_trip_us.filter(|_| it.connected))).collect(),
        unapplied: node.cluster.as_ref().map_or(0, |cluster| {
            let behind = |it: &MemberStatus| it.commit.saturating_sub(it.applied);
            cluster.groups.told().members.iter().map(behind).sum()
        }),
    }
}

/// The sets of a list, for people: a few by their numbers.
pub(super) fn named_sets(sets: &[u32]) -> String {
    const NAMED_MAX: usize = 8;
    let name = |set: &u32| match SetId(*set) == SYSTEM_SET {
        true => "that of schema, map and roles".to_owned(),
        false => set.to_string(),
    };
    let named: Vec<String> = sets.iter().take(NAMED_MAX).map(name).collect();
    match sets.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(named_sets(&[1, 2]), "1, 2");
        let many = named_sets(&(0..100).collect::<Vec<_>>());
        assert!(many.ends_with("6, 7 and 92 more"), "{many}");
    }
}
