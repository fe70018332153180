//! Puts together what pages show, from what the node knows anyway: nobody else is asked, so that it works when the cluster does not.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use coordinator::World as _;
use dashboard::heat_map::Mark;
use dashboard::jobs::{Build, Change, Event, Job, Jobs, LISTED_MAX, Line};
use dashboard::nodes::{DISK_FREE_LOW_BYTES, Node as ShownNode, Nodes, SlowScore};
use dashboard::overview::Overview;
use dashboard::partitions::{KEYS_SHOWN, Key, Partitions, Physical, SPACES_SHOWN, Space};
use dashboard::statements::{Slow, Statement, Statements};
use dashboard::tables::{Table, Tables, Throughput};
use partition::decide::{Pace, SLOW_TIMES, Slowness, slowness};
use plan::Access;
use schema::KeyspaceKind;
use schema::system::{LogicalPartitionFacts, MapChangeFacts, StatementFacts};
use types::{NodeId, TableId};

use super::sampler::{Seen, named_sets};
use crate::membership::state_name;
use crate::node::Node;
use crate::nodes::{Health, NodeFacts};
use crate::statements::{Explained as Which, Explanation, SLOW_STATEMENTS};
use crate::status::{self, Started};
use crate::{log, world};

/// The first page.
pub(super) fn overview(node: &Node, started: &Started, seen: &Seen) -> Overview {
    let (_, throttled) = node.engine.spent();
    let up_ms = world::now_us() / 1000 - node.world.started_at_ms();
    let nodes = seen.nodes.len().max(1);
    let alive = seen.nodes.iter().filter(|it| it.is_alive).count();
    Overview {
        problems: problems(node, started, seen),
        nodes,
        nodes_alive: if seen.nodes.is_empty() { 1 } else { alive },
        sets: seen.set_count,
        sets_without_leader: seen.without_leader.len(),
        sets_short: seen.short.len(),
        budget_ru_s: seen.budget_ru_s,
        errors: node.metrics.errors().collect(),
        requests: node.metrics.request_count(),
        throttled,
        slow: node.engine.slow_count(),
        up_seconds: u64::try_from(up_ms / 1000).unwrap_or(0),
        ..Overview::default()
    }
}

/// What somebody should look at, most urgent first.
fn problems(node: &Node, started: &Started, seen: &Seen) -> Vec<String> {
    let mut problems = Vec::new();
    if let Err(why) = status::readiness(node) {
        problems.push(format!("This node takes no clients, or no writes: {why}."));
    }
    if !seen.without_leader.is_empty() {
        let sets = named_sets(&seen.without_leader);
        problems.push(format!("Replica sets without a leader serve nothing: {sets}."));
    }
    for other in seen.nodes.iter().filter(|it| !it.is_alive) {
        let silent = dashboard::figure::seconds(other.silent_ms / 1000);
        problems.push(format!(
            "Node {} is not alive: nothing was heard of it for {silent}.",
            other.node.0
        ));
    }
    if !seen.short.is_empty() {
        let sets = named_sets(&seen.short);
        problems.push(format!(
            "Replica sets that lack a member, and can lose fewer nodes than they should: {sets}."
        ));
    }
    for (table, what) in node.storage.statistics().damaged {
        let schema = node.catalog.schema();
        let name = schema.table_by_id(table).map(|it| format!("{}.{}", it.keyspace, it.name));
        let name = name.unwrap_or_else(|| table.to_string());
        problems.push(format!("Files of {name} are damaged: {what}."));
    }
    let behind = world::clock_behind();
    if behind.as_millis() > 500 {
        let ms = behind.as_millis();
        problems.push(format!(
            "The clock of this machine is {ms} ms behind the times that were given."
        ));
    }
    let free = status::disk_free_bytes(&started.folder);
    if free.is_some_and(|free| free < DISK_FREE_LOW_BYTES) {
        let free = dashboard::figure::bytes(free.unwrap_or(0));
        problems.push(format!("Only {free} are free on the disk of this node."));
    }
    problems
}

/// The physical partitions of a space; of the busiest, where none is named.
pub(super) fn partitions(
    node: &Node,
    seen: &Seen,
    wanted: &str,
    keys: &[LogicalPartitionFacts],
) -> Partitions {
    let schema = node.catalog.schema();
    let is_users = |space: &str| {
        let keyspace = schema.keyspace(space.split('.').next().unwrap_or(space));
        keyspace.is_some_and(|keyspace| keyspace.kind == KeyspaceKind::User)
    };
    let mut spaces: Vec<Space> = Vec::new();
    for of_space in seen.partitions.chunk_by(|one, other| one.space == other.space) {
        let Some(first) = of_space.first().filter(|first| is_users(&first.space)) else { continue };
        spaces.push(Space {
            name: first.space.clone(),
            partitions: of_space.len(),
            ru_s: of_space.iter().map(|it| it.ru_s).sum(),
            bytes: of_space.iter().map(|it| it.bytes).fold(0, u64::saturating_add),
        });
    }
    spaces.sort_by(|one, other| {
        other
            .ru_s
            .total_cmp(&one.ru_s)
            .then(other.bytes.cmp(&one.bytes))
            .then(one.name.cmp(&other.name))
    });
    let chosen = spaces.iter().find(|space| space.name == wanted).or(spaces.first());
    let space = chosen.map(|space| space.name.clone()).unwrap_or_default();
    let physical = seen.partitions.iter().filter(|it| it.space == space);
    let physical: Vec<Physical> = physical.map(|it| shown_partition(it, seen)).collect();
    let spaces_total = spaces.len();
    spaces.truncate(SPACES_SHOWN);
    let (hot, giant) = split_keys(keys);
    Partitions {
        spaces,
        spaces_total,
        marks: marks(node, &space, &physical),
        space,
        physical,
        hot,
        giant,
        shows_day: false,
    }
}

fn shown_partition(it: &schema::system::PhysicalPartitionFacts, seen: &Seen) -> Physical {
    let set = seen.sets.get(&it.id);
    let mut members: Vec<u64> = set
        .into_iter()
        .flat_map(|set| set.voters.iter().chain(&set.learners))
        .map(|node| node.0)
        .collect();
    members.sort_unstable();
    let ring = |position: u128| position as f64 / u128::MAX as f64;
    Physical {
        id: it.id,
        start: ring(it.first_ring),
        share: ring(it.last_ring.saturating_sub(it.first_ring)),
        bytes: it.bytes,
        rows: it.rows,
        ru_s: it.ru_s,
        budget_ru_s: it.budget_ru_s,
        leader: set.and_then(|set| set.leader).map(|node| node.0),
        members,
        reason: it.reason.clone(),
    }
}

/// Splits and merges of a space, and moves of members; newest first.
fn marks(node: &Node, space: &str, physical: &[Physical]) -> Vec<Mark> {
    // What happened to a set of another space is nothing that its picture could show.
    let is_here = |set: i64| physical.iter().any(|it| i64::from(it.id) == set);

    let changes = node.catalog.map_changes().into_iter().filter(|change| change.space == space);
    let mut marks: Vec<Mark> =
        changes.map(|change| Mark { at_ms: change.at_ms, what: described(&change) }).collect();
    let events = node.world.journal().events.into_iter();
    let moves = events.filter(|event| {
        matches!(event.kind, "set_split" | "job_begun" | "job_done")
            && event.set.is_none_or(is_here)
    });
    marks.extend(moves.map(|event| Mark { at_ms: event.at_ms, what: event.what }));
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.at_ms));
    marks
}

fn described(change: &MapChangeFacts) -> String {
    let numbers = |ids: &[u32]| {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        ids.join(" and ")
    };
    format!("{}: {} became {}", change.step, numbers(&change.replaced), numbers(&change.made))
}

/// The hottest and the largest keys.
fn split_keys(keys: &[LogicalPartitionFacts]) -> (Vec<Key>, Vec<Key>) {
    let mut hot: Vec<&LogicalPartitionFacts> = keys.iter().filter(|it| it.ru_s > 0.0).collect();
    hot.sort_by(|one, other| other.ru_s.total_cmp(&one.ru_s));
    let mut giant: Vec<&LogicalPartitionFacts> =
        keys.iter().filter(|it| it.bytes.is_some()).collect();
    giant.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    let shown =
        |keys: Vec<&LogicalPartitionFacts>| keys.into_iter().take(KEYS_SHOWN).map(key).collect();
    (shown(hot), shown(giant))
}

fn key(it: &LogicalPartitionFacts) -> Key {
    Key {
        table: format!("{}.{}", it.keyspace, it.table),
        key: it.key.clone(),
        physical: it.physical,
        bytes: it.bytes,
        ru_s: it.ru_s,
        share_of_limit: it.share_of_limit,
    }
}

/// The nodes.
pub(super) fn nodes(node: &Node, started: &Started, own: Health, seen: &Seen) -> Nodes {
    let Some(cluster) = &node.cluster else {
        return Nodes { nodes: vec![lone(node, started, &own)], waiting: None };
    };
    let membership = cluster.nodes.membership();
    let told = cluster.groups.told();
    let mut heard: BTreeMap<NodeId, NodeFacts> = cluster.nodes.heard_facts().into_iter().collect();
    if let Some(facts) = heard.get_mut(&membership.own) {
        facts.health = Some(own);
    }
    let counts = node.catalog.member_counts();
    let leads = |of: NodeId| seen.sets.values().filter(|set| set.leader == Some(of)).count();
    let mut shown = Vec::new();
    let pace = |of: NodeId| heard.get(&of).filter(|_| told.alive.contains(&of))?.pace;
    let paces: Vec<Option<Pace>> = membership.members.iter().map(|it| pace(it.node)).collect();
    for (member, slow) in membership.members.iter().zip(slowness(&paces)) {
        let is_alive = told.alive.contains(&member.node);
        let facts = heard.get(&member.node);
        let state = if is_alive { state_name(member.state) } else { "down" };
        shown.push(ShownNode {
            number: member.node.0,
            is_asked: member.node == membership.own,
            state: state.to_owned(),
            is_alive,
            address: member.clients.to_string(),
            rack: member.rack.clone(),
            disk_bytes: facts.map(|it| it.disk_bytes),
            free_bytes: facts.map(|it| it.free_bytes),
            members: Some(counts.get(&member.node).copied().unwrap_or(0)),
            leads: Some(leads(member.node)),
            frozen: frozen(facts),
            slow: slow.map(|Slowness { times, by }| SlowScore {
                times,
                by,
                is_bad: times >= SLOW_TIMES,
            }),
            // What one that is down told last is no news.
            ..with_health(facts.and_then(|it| it.health.as_ref()).filter(|_| is_alive))
        });
    }
    let steward = cluster.steward(&node.catalog, node.world.host_number());
    let waiting = steward.waits_for();
    Nodes { nodes: shown, waiting: (!waiting.is_empty()).then(|| waiting.join("; ")) }
}

fn frozen(facts: Option<&NodeFacts>) -> Vec<String> {
    let frozen = facts.into_iter().flat_map(|it| &it.frozen);
    frozen.map(|(set, why)| format!("set {}: {why}", set.0)).collect()
}

fn with_health(health: Option<&Health>) -> ShownNode {
    let Some(health) = health else { return ShownNode::default() };
    let ms = |us: u64| us as f64 / 1000.0;
    ShownNode {
        memory_bytes: Some(health.memory_bytes),
        sync_p99_ms: health.sync_p99_us.map(ms),
        queue_ms: Some(ms(health.queue_us)),
        clock_ms: Some(health.clock_us as f64 / 1000.0),
        up_seconds: Some(health.up_s),
        links: health.links.iter().map(|(node, us)| (node.0, us.map(ms))).collect(),
        ..ShownNode::default()
    }
}

/// A node that runs alone.
fn lone(node: &Node, started: &Started, own: &Health) -> ShownNode {
    let stored = node.storage.statistics();
    let used = stored.tables.iter().map(|table| table.disk_bytes).sum::<u64>();
    let free = status::disk_free_bytes(&started.folder);
    ShownNode {
        number: 1,
        is_asked: true,
        state: status::state(&stored.writing),
        is_alive: true,
        address: started.address.to_string(),
        disk_bytes: free.map(|free| free.saturating_add(used).saturating_add(stored.log_bytes)),
        free_bytes: free,
        ..with_health(Some(own))
    }
}

/// The tables of users.
pub(super) fn tables(node: &Node) -> Tables {
    let schema = node.catalog.schema();
    let stored = node.storage.statistics();
    let sizes: HashMap<TableId, (u64, u64)> = stored
        .tables
        .iter()
        .map(|it| (it.table, (it.disk_bytes.saturating_add(it.memory_bytes), it.row_count)))
        .collect();
    let budgets = throughputs(node);
    let users = schema.keyspaces.values().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let shown = |table: &Arc<schema::Table>| {
        let (bytes, rows) = sizes.get(&table.id).copied().unwrap_or_default();
        let counters = node.engine.traffic().if_asked(table.id);
        let latency = |access| counters.as_ref().map(|it| it.latency(access)).unwrap_or_default();
        let (read, scan, write) =
            (latency(Access::Read), latency(Access::Scan), latency(Access::Write));
        let p99 = |count: u64, us: u64| (count > 0).then_some(us as f64 / 1000.0);
        let (keyspace, name) = (table.keyspace.to_string(), table.name.to_string());
        let own = budgets.get(&(keyspace.clone(), name.clone()));
        let throughput = own.or_else(|| budgets.get(&(keyspace.clone(), String::new())));
        Table {
            bytes,
            rows,
            reads_s: read.per_second + scan.per_second,
            writes_s: write.per_second,
            read_p99_ms: p99(read.count, read.p99),
            write_p99_ms: p99(write.count, write.p99),
            throughput: throughput.cloned(),
            keyspace,
            name,
        }
    };
    let tables = users.flat_map(|keyspace| keyspace.tables.values()).map(shown).collect();
    Tables { tables, ..Tables::default() }
}

/// What was provisioned, by keyspace and table; an empty table stands for those that share.
fn throughputs(node: &Node) -> HashMap<(String, String), Throughput> {
    let mut costs: HashMap<String, (i64, f64)> = HashMap::new();
    for hour in node.catalog.usage() {
        let newest = costs.entry(hour.space).or_insert((i64::MIN, 0.0));
        if hour.hour_ms > newest.0 {
            *newest = (hour.hour_ms, hour.cost);
        }
    }
    let shown = node.catalog.throughput().into_iter().map(|it| {
        let is_shared = it.table.is_empty();
        let space = match is_shared {
            true => it.keyspace.clone(),
            false => format!("{}.{}", it.keyspace, it.table),
        };
        let throughput = Throughput {
            is_shared,
            mode: it.mode,
            maximum_ru_s: f64::from(it.maximum_ru_s),
            used_ru_s: it.used_ru_s,
            throttled: it.throttled,
            cost_hour: costs.get(&space).map(|(_, cost)| *cost),
        };
        ((it.keyspace, it.table), throughput)
    });
    shown.collect()
}

/// The statements that cost most, took longest and were throttled most.
pub(super) fn statements(node: &Node) -> Statements {
    let mut all = node.engine.statement_facts();
    let prepared = all.len();
    all.retain(|it| it.calls > 0 || it.throttled > 0);
    all.sort_by(|one, other| other.charge_total.total_cmp(&one.charge_total));
    let listed = dashboard::statements::LISTED_MAX;
    let costliest = all.iter().take(listed).map(statement).collect();
    all.retain(|it| it.throttled > 0);
    all.sort_by_key(|it| std::cmp::Reverse(it.throttled));
    let throttled = all.iter().take(listed).map(statement).collect();
    let mut slow = node.engine.slow_statements();
    slow.sort_by_key(|it| std::cmp::Reverse(it.took));
    // The same one again and again would leave no room for others: it is listed once, with its slowest call.
    let mut times: HashMap<String, u64> = HashMap::new();
    for it in &slow {
        *times.entry(it.text.clone()).or_default() += 1;
    }
    let slowest = slow.into_iter().filter_map(|it| Some((times.remove(&it.text)?, it)));
    let slowest = slowest.take(listed).map(|(times, it)| Slow {
        times,
        number: it.is_explainable.then_some(it.number),
        at_ms: it.at_ms,
        took_ms: it.took.as_secs_f64() * 1000.0,
        charge: it.charge.to_f64(),
        rows: it.rows,
        reason: it.reason,
        error: it.error,
        client: it.client.to_string(),
        role: it.role.map(|role| role.to_string()),
        text: it.text,
    });
    Statements { costliest, throttled, slowest: slowest.collect(), prepared }
}

fn statement(it: &StatementFacts) -> Statement {
    Statement {
        id: format!("{:032x}", it.id),
        text: it.text.clone(),
        calls: it.calls,
        charge_total: it.charge_total,
        charge_average: it.charge_average,
        charge_p99: it.charge_p99,
        rows: it.rows,
        throttled: it.throttled,
    }
}

/// How a statement would be run, for its page.
pub(super) fn explained(
    which: Which,
    explanation: Explanation,
    values: Vec<String>,
) -> dashboard::statements::Explained {
    use dashboard::statements::{Explained, Outcome, Step};
    const PARTITIONS_NAMED_MAX: usize = 32;
    let outcome = match explanation.outcome {
        None => Outcome::Asks,
        Some(Err(why)) => Outcome::Refused(why),
        Some(Ok(steps)) => Outcome::Steps(
            steps
                .into_iter()
                .map(|step| {
                    let named = step.partitions.iter().take(PARTITIONS_NAMED_MAX);
                    let named: Vec<String> = named.map(i32::to_string).collect();
                    Step {
                        what: step.what,
                        partitions: format!("{} ({})", step.partitions.len(), named.join(", ")),
                        rows: step.rows,
                        bytes: step.bytes,
                        charge: step.charge,
                    }
                })
                .collect(),
        ),
    };
    Explained {
        address: match which {
            Which::Prepared(id) => dashboard::statements::address_of(&format!("{id:032x}")),
            Which::Slow(number) => dashboard::statements::address_of_slow(number),
        },
        text: explanation.text,
        variables: explanation.variables,
        values,
        outcome,
    }
}

/// What runs, what ran and what happened.
pub(super) fn jobs(node: &Node) -> Jobs {
    let journal = node.world.journal();
    let mut jobs: Vec<Job> = journal
        .jobs
        .into_iter()
        .map(|it| Job {
            id: it.id,
            kind: it.kind.to_owned(),
            state: it.state.to_owned(),
            what: it.what,
            reason: it.reason,
            progress: it.progress,
            remaining: it.remaining,
            total: it.total,
            started_ms: it.started_ms,
            updated_ms: it.updated_ms,
        })
        .collect();
    jobs.sort_by_key(|job| (job.state != "running", std::cmp::Reverse(job.id)));
    jobs.truncate(LISTED_MAX);
    let mut events: Vec<Event> = journal
        .events
        .into_iter()
        .map(|it| Event {
            at_ms: it.at_ms,
            kind: it.kind.to_owned(),
            what: it.what,
            reason: it.reason,
        })
        .collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.at_ms));
    events.truncate(LISTED_MAX);
    let mut changes = node.catalog.map_changes();
    changes.sort_by_key(|change| std::cmp::Reverse(change.at_ms));
    let changes = changes.into_iter().take(LISTED_MAX).map(|it| Change {
        at_ms: it.at_ms,
        what: described(&it),
        space: it.space,
        reason: it.reason.to_owned(),
        bytes: it.bytes,
        took_ms: it.took_us as f64 / 1000.0,
    });
    // Slow statements have a page of their own, and are so many at times that nothing else would be seen.
    let is_told =
        |it: &log::Line| matches!(it.level, "WARN" | "ERROR") && it.target != SLOW_STATEMENTS;
    let lines = log::kept().into_iter().rev().filter(is_told);
    let lines = lines.take(LISTED_MAX).map(|it| Line {
        at_ms: it.at_ms,
        level: it.level,
        text: it.message,
    });
    Jobs {
        jobs,
        events,
        changes: changes.collect(),
        builds: builds(node),
        lines: lines.collect(),
        is_alone: node.cluster.is_none(),
    }
}

/// The indexes that are not built yet.
fn builds(node: &Node) -> Vec<Build> {
    let schema = node.catalog.schema();
    let mut names: HashMap<TableId, String> = HashMap::new();
    for table in schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values()) {
        for (name, index) in &table.indexes {
            names.insert(index.id, format!("{}.{name}", table.keyspace));
        }
    }
    let unbuilt = node.storage.index_builds().into_iter().filter(|build| !build.is_built);
    let shown = unbuilt.take(LISTED_MAX).map(|build| Build {
        index: names.get(&build.index).cloned().unwrap_or_else(|| build.index.to_string()),
        share: build.share,
        rows: build.row_count,
    });
    shown.collect()
}

/// What the node is called.
pub(super) fn node_name(node: &Node, started: &Started) -> String {
    match &node.cluster {
        Some(cluster) => format!("node {} ({})", cluster.nodes.own().0, started.address),
        None => started.address.to_string(),
    }
}
