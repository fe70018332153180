//! The tables of `system_views` that tell what the server counts. A value that nobody counts is null, never a guess.

use std::sync::{Arc, Weak};
use std::time::Duration;

use coordinator::Catalog;
use cql::ast::BatchKind;
use plan::Access;
use schema::Table;
use schema::system::NamedRow;
use schema::system::values::{bigint, double, inet, int, text, timestamp};
use storage::{Lookups, Storage};

use crate::config::Loaded;
use crate::load::Load;
use crate::log;
use crate::metrics::{Metrics, RequestKind};
use crate::statements::{Distribution, Engine, Rate, RunningQuery, SlowStatement, TableCounters};

const MEBIBYTE: u64 = 1 << 20;

/// Where the rows come from.
pub(crate) struct Views {
    pub(crate) storage: Arc<Storage>,
    pub(crate) catalog: Weak<Catalog>,
    pub(crate) engine: Weak<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) load: Arc<Load>,
    /// What the node was started with.
    pub(crate) properties: Vec<(&'static str, String)>,
    /// How often caches are asked, and have what is asked for: that of rows, and that of heads.
    pub(crate) cache_rates: [[Rate; 2]; 2],
}

/// What the rates of caches are averages over, as in Cassandra.
const CACHE_RATE_PERIOD: Duration = Duration::from_secs(15 * 60);

/// What of the process and its settings stands for Java's system properties.
pub(crate) fn properties(loaded: &Loaded) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("cassandra.storagedir", loaded.config.server.data_dir.display().to_string()),
        ("os.arch", std::env::consts::ARCH.to_owned()),
        ("os.name", std::env::consts::OS.to_owned()),
    ];
    if let Ok(program) = std::env::current_exe() {
        properties.push(("sun.java.command", program.display().to_string()));
    }
    properties
}

impl Views {
    /// All rows of a table.
    pub(crate) fn rows(&self, table: &str) -> Vec<NamedRow> {
        match table {
            "batch_metrics" => self.batch_metrics(),
            "caches" => self.caches(),
            "coordinator_read_latency" | "local_read_latency" => self.latencies(Access::Read),
            "coordinator_scan_latency" | "local_scan_latency" => self.latencies(Access::Scan),
            "coordinator_write_latency" | "local_write_latency" => self.latencies(Access::Write),
            "cql_metrics" => self.cql_metrics(),
            "disk_usage" => self.disk_usage(),
            "max_partition_size" => self.max_partition_size(),
            "queries" => self.queries(),
            "rows_per_read" => self.per_read(|counters| counters.rows()),
            "slow_statements" => self.slow_statements(),
            "system_logs" => log::kept().iter().map(log_line).collect(),
            "system_properties" => self.properties.iter().map(property).collect(),
            "thread_pools" => self.thread_pools(),
            "tombstones_per_read" => self.per_read(|counters| counters.tombstones()),
            _ => Vec::new(),
        }
    }

    fn slow_statements(&self) -> Vec<NamedRow> {
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let row = |slow: &SlowStatement| {
            vec![
                ("key", text("local")),
                ("number", bigint(slow.number)),
                ("at", timestamp(slow.at_ms)),
                ("charge", double(slow.charge.to_f64())),
                ("client", inet(slow.client)),
                ("error", slow.error.and_then(text)),
                ("query", text(&slow.text)),
                ("reason", text(slow.reason)),
                ("role", slow.role.as_deref().and_then(text)),
                ("rows", bigint(signed(slow.rows))),
                ("table_name", slow.table.as_deref().and_then(text)),
                ("took_ms", double(slow.took.as_secs_f64() * 1000.0)),
            ]
        };
        engine.slow_statements().iter().map(row).collect()
    }

    /// Works out the rates of caches; to be called every [`TICK`](crate::statements::TICK).
    pub(crate) fn tick(&self) {
        for ([requests, hits], lookups) in self.cache_rates.iter().zip(self.storage.cache_lookups())
        {
            requests.tick(lookups.request_count, CACHE_RATE_PERIOD);
            hits.tick(lookups.hit_count, CACHE_RATE_PERIOD);
        }
    }

    /// The tables that are stored, which are those that Cassandra counts too.
    fn tables(&self) -> Vec<Arc<Table>> {
        let Some(catalog) = self.catalog.upgrade() else { return Vec::new() };
        let schema = catalog.schema();
        let tables = schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
        tables.filter(|table| !table.is_virtual).cloned().collect()
    }

    fn each_table(&self, row: impl Fn(&Table) -> NamedRow) -> Vec<NamedRow> {
        let named = |table: Arc<Table>| {
            let mut named =
                vec![("keyspace_name", text(&table.keyspace)), ("table_name", text(&table.name))];
            named.extend(row(&table));
            named
        };
        self.tables().into_iter().map(named).collect()
    }

    fn latencies(&self, access: Access) -> Vec<NamedRow> {
        let engine = self.engine.upgrade();
        self.each_table(|table| {
            let counters = engine.as_ref().and_then(|engine| engine.traffic().if_asked(table.id));
            let found = counters.map(|counters| counters.latency(access)).unwrap_or_default();
            let ms = |micros: u64| double(micros as f64 / 1000.0);
            vec![
                ("count", bigint(signed(found.count))),
                ("max_ms", ms(found.largest)),
                ("p50th_ms", ms(found.p50)),
                ("p99th_ms", ms(found.p99)),
                ("per_second", double(found.per_second)),
            ]
        })
    }

    fn per_read(&self, of: impl Fn(&TableCounters) -> Distribution) -> Vec<NamedRow> {
        let engine = self.engine.upgrade();
        self.each_table(|table| {
            let counters = engine.as_ref().and_then(|engine| engine.traffic().if_asked(table.id));
            let found = counters.map(|counters| of(&counters)).unwrap_or_default();
            vec![
                ("count", bigint(signed(found.count))),
                ("max", double(found.largest as f64)),
                ("p50th", double(found.p50 as f64)),
                ("p99th", double(found.p99 as f64)),
            ]
        })
    }

    fn disk_usage(&self) -> Vec<NamedRow> {
        let stored = self.storage.statistics().tables;
        self.each_table(|table| {
            let found = stored.iter().find(|stored| stored.table == table.id);
            let bytes = found.map_or(0, |stored| stored.disk_bytes);
            vec![("mebibytes", bigint(signed(bytes / MEBIBYTE)))]
        })
    }

    fn max_partition_size(&self) -> Vec<NamedRow> {
        let catalog = self.catalog.upgrade();
        self.each_table(|table| {
            let catalog = catalog.as_ref();
            let bytes = catalog.map_or(0, |it| it.largest_logical_bytes(table.id));
            vec![("mebibytes", bigint(signed(bytes / MEBIBYTE)))]
        })
    }

    fn caches(&self) -> Vec<NamedRow> {
        let stored = self.storage.statistics();
        let [of_rows, of_heads] = &self.cache_rates;
        let per_second = |rate: &Rate| bigint(rate.per_second() as i64);
        let row = |name: &str, sizes: [u64; 3], lookups: Lookups, [requests, hits]: &[Rate; 2]| {
            let [capacity_bytes, entry_count, size_bytes] = sizes;
            vec![
                ("name", text(name)),
                ("capacity_bytes", bigint(signed(capacity_bytes))),
                ("entry_count", int(i32::try_from(entry_count).unwrap_or(i32::MAX))),
                ("hit_count", bigint(signed(lookups.hit_count))),
                // Not a number where nothing was asked for, as in Cassandra.
                ("hit_ratio", double(lookups.hit_count as f64 / lookups.request_count as f64)),
                ("recent_hit_rate_per_second", per_second(hits)),
                ("recent_request_rate_per_second", per_second(requests)),
                ("request_count", bigint(signed(lookups.request_count))),
                ("size_bytes", bigint(signed(size_bytes))),
            ]
        };
        let rows =
            [stored.row_cache_capacity_bytes, stored.row_cache_count, stored.row_cache_bytes];
        let heads =
            [stored.head_cache_capacity_bytes, stored.head_cache_count, stored.head_cache_bytes];
        vec![
            row("rows", rows, stored.row_cache_lookups, of_rows),
            row("heads", heads, stored.head_cache_lookups, of_heads),
        ]
    }

    fn cql_metrics(&self) -> Vec<NamedRow> {
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let prepared = self.metrics.request_count_of(RequestKind::Execute) as f64;
        let regular = self.metrics.request_count_of(RequestKind::Query) as f64;
        let all = (prepared + regular).max(1.0);
        [
            ("prepared_statements_count", engine.prepared_count() as f64),
            ("prepared_statements_evicted", engine.evicted_count() as f64),
            ("prepared_statements_executed", prepared),
            ("prepared_statements_ratio", prepared / all),
            ("regular_statements_executed", regular),
        ]
        .map(|(name, value)| vec![("name", text(name)), ("value", double(value))])
        .to_vec()
    }

    fn batch_metrics(&self) -> Vec<NamedRow> {
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let row = |name: &str, found: Distribution| {
            vec![
                ("name", text(name)),
                ("max", bigint(signed(found.largest))),
                ("p50th", double(found.p50 as f64)),
                ("p99th", double(found.p99 as f64)),
                ("p999th", double(found.p999 as f64)),
            ]
        };
        let traffic = engine.traffic();
        vec![
            row("partitions_per_counter_batch", traffic.batches(BatchKind::Counter)),
            row("partitions_per_logged_batch", traffic.batches(BatchKind::Logged)),
            row("partitions_per_unlogged_batch", traffic.batches(BatchKind::Unlogged)),
        ]
    }

    fn queries(&self) -> Vec<NamedRow> {
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let micros = |time: Duration| bigint(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
        let row = |query: RunningQuery| {
            vec![
                ("thread_id", text(&format!("Native-Transport-Requests-{}", query.number))),
                ("queued_micros", micros(query.queued)),
                ("running_micros", micros(query.running)),
                ("task", text(&query.task)),
            ]
        };
        engine.running().into_iter().map(row).collect()
    }

    /// Requests run on the threads of their connections, and wait for the log, a thread or their budget; long reads have
    /// threads of their own. Nothing else is a pool here.
    fn thread_pools(&self) -> Vec<NamedRow> {
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let pool = |name: &str, active: usize, limit: usize, pending: usize| {
            let number = |number: usize| int(i32::try_from(number).unwrap_or(i32::MAX));
            vec![
                ("name", text(name)),
                ("active_tasks", number(active)),
                ("active_tasks_limit", number(limit)),
                ("pending_tasks", number(pending)),
            ]
        };
        let (waiting, waiting_max) = engine.waiting();
        let mut requests = pool("Native-Transport-Requests", waiting, waiting_max, 0);
        requests.push(("completed_tasks", bigint(signed(self.metrics.request_count()))));
        requests.push(("blocked_tasks_all_time", bigint(signed(self.load.refused_count()))));
        let (scanning, scans_max, pending) = engine.scanning();
        vec![requests, pool("ReadStage", scanning, scans_max, pending)]
    }
}

fn property((name, value): &(&'static str, String)) -> NamedRow {
    vec![("name", text(name)), ("value", text(value))]
}

fn log_line(line: &log::Line) -> NamedRow {
    vec![
        ("timestamp", timestamp(line.at_ms)),
        ("order_in_millisecond", int(line.order)),
        ("level", text(line.level)),
        ("logger", text(&line.target)),
        ("message", text(&line.message)),
    ]
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
