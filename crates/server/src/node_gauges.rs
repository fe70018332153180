//! What the metrics tell of the node itself, asked of the rooms that count it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plan::Access;
use schema::Table;
use storage::{Statistics, TableStatistics, Writing};

use crate::metrics::Gauge;
use crate::node::Node;
use crate::statements::People;
use crate::status::disk_free_bytes;
use crate::world;

/// Of so many tables it is told at most: of those with the most bytes.
const TABLES_MAX: usize = 1000;

/// Everything that is not counted by connections; `per_table`: of each table, too.
pub(crate) fn gauges(node: &Node, folder: &Path, per_table: bool) -> Vec<Gauge> {
    let stored = node.storage.statistics();
    let mut gauges = storage_gauges(&stored, folder);
    gauges.extend(chore_gauges(node, &stored));
    gauges.extend(request_gauges(node));
    gauges.extend(people_gauges(node));
    if per_table {
        gauges.extend(table_gauges(node, &stored));
    }
    if let Some(cluster) = &node.cluster {
        gauges.extend(cluster.gauges());
    }
    gauges
}

fn gauge(name: &'static str, help: &'static str, value: u64) -> Gauge {
    Gauge::new(name, help, value as f64)
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Gauge {
    Gauge::counter(name, help, value as f64)
}

fn storage_gauges(stored: &Statistics, folder: &Path) -> Vec<Gauge> {
    let disk_bytes = stored.tables.iter().map(|table| table.disk_bytes).sum();
    let is = |state: bool| u64::from(state);
    let mut gauges = vec![
        gauge("helenus_storage_disk_bytes", "Bytes in sorted files.", disk_bytes),
        gauge("helenus_storage_log_bytes", "Bytes of the log still needed.", stored.log_bytes),
        gauge(
            "helenus_storage_memtable_bytes",
            "Bytes not yet in sorted files.",
            stored.memtable_bytes,
        ),
        gauge("helenus_storage_tables", "Tables with data.", stored.tables.len() as u64),
        gauge(
            "helenus_storage_writable",
            "Whether writes are taken: 1, or 0 while the disk is full or descriptors are short, or after the log failed.",
            is(stored.writing == Writing::Goes),
        ),
        gauge(
            "helenus_storage_disk_full",
            "Whether there is no room for writes.",
            is(stored.writing == Writing::DiskFull),
        ),
        gauge(
            "helenus_storage_log_failed",
            "Whether the log failed, so that nothing is written before a restart.",
            is(matches!(stored.writing, Writing::Failed(_))),
        ),
        gauge(
            "helenus_storage_damaged_tables",
            "Tables in whose files damage was met since the start.",
            stored.damaged.len() as u64,
        ),
    ];
    if let Some(bytes) = disk_free_bytes(folder) {
        let help = "Room on the disk of the data folder.";
        gauges.push(gauge("helenus_storage_disk_free_bytes", help, bytes));
    }
    gauges.extend(cache_gauges(stored));
    gauges
}

/// Of each cache, all of a name together.
fn cache_gauges(stored: &Statistics) -> Vec<Gauge> {
    let caches = [
        (
            "rows",
            [stored.row_cache_bytes, stored.row_cache_capacity_bytes, stored.row_cache_count],
            stored.row_cache_lookups,
        ),
        (
            "heads",
            [stored.head_cache_bytes, stored.head_cache_capacity_bytes, stored.head_cache_count],
            stored.head_cache_lookups,
        ),
    ];
    let sizes = [
        ("helenus_cache_bytes", "Bytes in the cache of rows, and in that of partition heads."),
        ("helenus_cache_capacity_bytes", "Bytes that the cache may hold now."),
        ("helenus_cache_entries", "Rows in the cache of rows, heads in that of partition heads."),
    ];
    let mut gauges = Vec::new();
    for (place, (name, help)) in sizes.into_iter().enumerate() {
        for (cache, values, _) in &caches {
            let value = values.get(place).copied().unwrap_or_default();
            gauges.push(gauge(name, help, value).with("cache", (*cache).to_owned()));
        }
    }
    for (cache, _, lookups) in &caches {
        let asked = counter(
            "helenus_cache_lookups_total",
            "How often the cache was asked.",
            lookups.request_count,
        );
        gauges.push(asked.with("cache", (*cache).to_owned()));
    }
    for (cache, _, lookups) in &caches {
        let hits = counter(
            "helenus_cache_hits_total",
            "How often it had what was asked for.",
            lookups.hit_count,
        );
        gauges.push(hits.with("cache", (*cache).to_owned()));
    }
    gauges
}

/// What goes on beside requests.
fn chore_gauges(node: &Node, stored: &Statistics) -> Vec<Gauge> {
    let builds = node.storage.index_builds();
    let unbuilt = || builds.iter().filter(|build| !build.is_built);
    let furthest = unbuilt().map(|build| build.share).fold(1.0, f64::min);
    vec![
        Gauge::times(
            "helenus_log_sync_duration_seconds",
            "How long the disk took to make the log durable.",
            stored.chores.syncs.clone(),
        ),
        Gauge::times(
            "helenus_flush_duration_seconds",
            "How long memtables took to become sorted files.",
            stored.chores.flushes.clone(),
        ),
        counter(
            "helenus_flushed_bytes_total",
            "Bytes of memory that became sorted files.",
            stored.chores.flushed_bytes,
        ),
        Gauge::times(
            "helenus_merge_duration_seconds",
            "How long merges of sorted files took.",
            stored.chores.merges.clone(),
        ),
        gauge("helenus_indexes", "Secondary indexes of tables with data.", builds.len() as u64),
        gauge(
            "helenus_index_builds",
            "Secondary indexes that are being built.",
            unbuilt().count() as u64,
        ),
        Gauge::new(
            "helenus_index_build_ratio",
            "How far the build is that has most before it: 1 when all are built.",
            furthest,
        ),
    ]
}

fn request_gauges(node: &Node) -> Vec<Gauge> {
    let (charge, throttled) = node.engine.spent();
    vec![
        Gauge::counter(
            "helenus_request_units_total",
            "Request units that requests through this node cost.",
            charge,
        ),
        counter(
            "helenus_throttled_requests_total",
            "Requests that were refused because their budget was spent, or the node had too much to do.",
            throttled,
        ),
        counter(
            "helenus_slow_statements_total",
            "Statements that took or cost more than log.slow_after and log.costly_ru.",
            node.engine.slow_count(),
        ),
        gauge(
            "helenus_requests_held_bytes",
            "Bytes of large requests and answers under way.",
            node.load.held_bytes(),
        ),
        Gauge::new(
            "helenus_requests_queue_seconds",
            "How long the last heartbeat waited for its turn.",
            node.load.delay().as_secs_f64(),
        ),
        Gauge::counter(
            "helenus_requests_refused_total",
            "Requests refused because the node had too much to do.",
            node.load.refused_count() as f64,
        ),
        Gauge::new(
            "helenus_clock_behind_seconds",
            "How far the clock of the machine is behind the times that the node gave.",
            world::clock_behind().as_secs_f64(),
        ),
        gauge(
            "helenus_prepared_statements",
            "Prepared statements kept.",
            node.engine.prepared_count() as u64,
        ),
    ]
}

fn people_gauges(node: &Node) -> Vec<Gauge> {
    let People { logins, guardrails, refused, audit } = node.engine.people();
    let login = |kind: &str, count: u64| {
        let help = "Logins, by what came of them.";
        counter("helenus_logins_total", help, count).with("kind", kind.to_owned())
    };
    let mut gauges = vec![
        login("accepted", logins.accepted),
        login("failed", logins.failed),
        counter(
            "helenus_login_delays_total",
            "Logins that waited before they were checked, because others failed before them.",
            logins.delayed,
        ),
        Gauge::counter(
            "helenus_login_delay_seconds_total",
            "How long they waited together.",
            Duration::from_micros(logins.delay_us).as_secs_f64(),
        ),
        counter(
            "helenus_sessions_refused_total",
            "Logins that limits.sessions_per_role refused.",
            refused.0,
        ),
        counter(
            "helenus_statements_refused_total",
            "Requests that limits.statements_per_second_per_role refused.",
            refused.1,
        ),
        counter("helenus_guardrail_warnings_total", "Warnings of guardrails.", guardrails.0),
        counter(
            "helenus_guardrail_refusals_total",
            "Statements that guardrails refused.",
            guardrails.1,
        ),
    ];
    if let Some((written, lost)) = audit {
        gauges.push(counter("helenus_audit_entries_total", "Entries of the audit log.", written));
        let help =
            "Entries that are missing in the audit log: more happened than could be written.";
        gauges.push(counter("helenus_audit_lost_total", help, lost));
    }
    if let Some((sent, lost)) = node.engine.span_counts() {
        let help = "Spans of traced requests that were taken by whoever collects them.";
        gauges.push(counter("helenus_spans_sent_total", help, sent));
        let help = "Spans that are missing there: there were too many, or nobody took them.";
        gauges.push(counter("helenus_spans_lost_total", help, lost));
    }
    gauges
}

/// What is told of a table: a name, what it is, and how it is read.
type OfTable = (&'static str, &'static str, fn(&TableStatistics) -> u64);

const OF_TABLES: [OfTable; 3] = [
    ("helenus_table_disk_bytes", "Bytes of the table in sorted files.", |it| it.disk_bytes),
    ("helenus_table_memtable_bytes", "Bytes of the table not yet in sorted files.", |it| {
        it.memory_bytes
    }),
    (
        "helenus_table_rows",
        "Rows of the table, about; one that was changed may count twice.",
        |it| it.row_count,
    ),
];

/// Of the largest tables, and of keyspaces all of theirs together.
fn table_gauges(node: &Node, stored: &Statistics) -> Vec<Gauge> {
    let schema = node.catalog.schema();
    let mut largest: Vec<(&TableStatistics, &Table)> = stored
        .tables
        .iter()
        .filter_map(|table| Some((table, schema.table_by_id(table.table)?.as_ref())))
        .collect();
    largest.sort_by_key(|(sizes, table)| {
        let bytes = sizes.disk_bytes.saturating_add(sizes.memory_bytes);
        (std::cmp::Reverse(bytes), table.id)
    });
    let mut keyspaces: BTreeMap<&str, u64> = BTreeMap::new();
    for (sizes, table) in &largest {
        *keyspaces.entry(&*table.keyspace).or_default() += sizes.disk_bytes;
    }
    largest.truncate(TABLES_MAX);
    let of_table = |told: Gauge, table: &Table| {
        told.with("keyspace", table.keyspace.to_string()).with("table", table.name.to_string())
    };
    let mut gauges = Vec::new();
    for (name, help, read) in OF_TABLES {
        let told =
            largest.iter().map(|(sizes, table)| of_table(gauge(name, help, read(sizes)), table));
        gauges.extend(told);
    }
    let kinds = [(Access::Read, "read"), (Access::Scan, "scan"), (Access::Write, "write")];
    for (_, table) in &largest {
        let counters = node.engine.traffic().if_asked(table.id);
        for (access, kind) in kinds {
            let count = counters.as_ref().map_or(0, |counters| counters.latency(access).count);
            let help = "Requests to the table: reads, scans and writes.";
            let told = of_table(counter("helenus_table_requests_total", help, count), table);
            gauges.push(told.with("kind", kind.to_owned()));
        }
    }
    for (keyspace, bytes) in keyspaces {
        let help = "Bytes of all tables of the keyspace in sorted files.";
        let told = gauge("helenus_keyspace_disk_bytes", help, bytes);
        gauges.push(told.with("keyspace", keyspace.to_owned()));
    }
    gauges
}
