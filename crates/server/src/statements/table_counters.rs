//! What requests came to, table by table: how long they took and how many rows they gave, for the tables of
//! `system_views`. Counted as the metrics are: relaxed atomics, in shards, no lock and no allocation per request.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use plan::Access;
use types::TableId;

/// Values are counted in classes, four for each doubling: a percentile is exact to 19 %.
const CLASSES_PER_DOUBLING: usize = 4;
/// Up to three days in microseconds.
const DOUBLINGS: usize = 36;
const CLASS_COUNT: usize = CLASSES_PER_DOUBLING * (DOUBLINGS + 1);
/// Threads count in different places, so that they do not wait for each other's memory.
const SHARDS: usize = 4;

/// How often rates are worked out.
pub(crate) const TICK: Duration = Duration::from_secs(5);
/// What a rate is an average over.
const RATE_PERIOD: Duration = Duration::from_secs(60);

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// The counters of all tables that were asked for, and of batches.
#[derive(Default)]
pub(crate) struct Traffic {
    tables: RwLock<HashMap<TableId, Arc<TableCounters>>>,
    /// Partitions of logged, unlogged and counter batches.
    batches: [Tally; 3],
}

/// The counters of one table.
#[derive(Default)]
pub(crate) struct TableCounters {
    /// How long requests took, in microseconds, by [`Access`].
    latencies: [Sharded; 3],
    /// Rows of reads and scans.
    rows: Sharded,
    /// Tombstones of those that met any; the others are the rest of what `rows` counts.
    tombstones: Sharded,
    rates: [Rate; 3],
}

#[derive(Default)]
struct Sharded([Tally; SHARDS]);

/// Values by class, and the largest.
#[repr(align(128))]
pub(crate) struct Tally {
    classes: [AtomicU64; CLASS_COUNT],
    largest: AtomicU64,
}

/// Something per second over the last while.
#[derive(Default)]
pub(crate) struct Rate {
    counted: AtomicU64,
    per_second_bits: AtomicU64,
}

/// A [`Tally`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Distribution {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) largest: u64,
    /// Of latencies only.
    pub(crate) per_second: f64,
}

impl Traffic {
    /// The counters of a table.
    pub(super) fn of(&self, table: TableId) -> Arc<TableCounters> {
        if let Some(counters) = self.tables.read().get(&table) {
            return Arc::clone(counters);
        }
        Arc::clone(self.tables.write().entry(table).or_default())
    }

    /// The counters of a table that was asked for.
    pub(crate) fn if_asked(&self, table: TableId) -> Option<Arc<TableCounters>> {
        self.tables.read().get(&table).cloned()
    }

    /// Counts the partitions of a batch.
    pub(super) fn add_batch(&self, kind: cql::ast::BatchKind, partitions: usize) {
        if let Some(tally) = self.batches.get(batch_place(kind)) {
            tally.add(partitions as u64);
        }
    }

    pub(crate) fn batches(&self, kind: cql::ast::BatchKind) -> Distribution {
        self.batches.get(batch_place(kind)).map_or(Distribution::default(), |tally| sum([tally], 0))
    }

    /// Works out the rates; to be called every [`TICK`]. Tables that are gone are forgotten.
    pub(crate) fn tick(&self, is_known: impl Fn(TableId) -> bool) {
        self.tables.write().retain(|table, _| is_known(*table));
        for counters in self.tables.read().values() {
            for (rate, latencies) in counters.rates.iter().zip(&counters.latencies) {
                rate.tick(latencies.sum().count, RATE_PERIOD);
            }
        }
    }
}

fn batch_place(kind: cql::ast::BatchKind) -> usize {
    match kind {
        cql::ast::BatchKind::Logged => 0,
        cql::ast::BatchKind::Unlogged => 1,
        cql::ast::BatchKind::Counter => 2,
    }
}

impl TableCounters {
    /// Counts a request, and the rows of one that read, with the tombstones that it met.
    pub(super) fn add(&self, access: Access, latency: Duration, rows: Option<(u64, u64)>) {
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        if let Some(latencies) = self.latencies.get(access as usize) {
            latencies.add(latency_us);
        }
        if let Some((rows, tombstones)) = rows {
            self.rows.add(rows);
            if tombstones > 0 {
                self.tombstones.add(tombstones);
            }
        }
    }

    /// How long requests took, in microseconds.
    pub(crate) fn latency(&self, access: Access) -> Distribution {
        let place = access as usize;
        let sum = self.latencies.get(place).map(Sharded::sum).unwrap_or_default();
        let per_second = self.rates.get(place).map_or(0.0, Rate::per_second);
        Distribution { per_second, ..sum }
    }

    pub(crate) fn rows(&self) -> Distribution {
        self.rows.sum()
    }

    pub(crate) fn tombstones(&self) -> Distribution {
        sum(&self.tombstones.0, self.rows.sum().count)
    }
}

impl Sharded {
    fn add(&self, value: u64) {
        if let Some(tally) = self.0.get(SHARD.with(|shard| *shard)) {
            tally.add(value);
        }
    }

    fn sum(&self) -> Distribution {
        sum(&self.0, 0)
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { classes: [const { AtomicU64::new(0) }; CLASS_COUNT], largest: AtomicU64::new(0) }
    }
}

impl Tally {
    fn add(&self, value: u64) {
        if let Some(class) = self.classes.get(class_of(value)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        // Mostly it is not the largest, and then nothing is written.
        if value > self.largest.load(Ordering::Relaxed) {
            self.largest.fetch_max(value, Ordering::Relaxed);
        }
    }
}

impl Rate {
    /// So many there are by now; to be called every [`TICK`].
    pub(crate) fn tick(&self, count: u64, period: Duration) {
        let before = self.counted.swap(count, Ordering::Relaxed);
        let now = count.saturating_sub(before) as f64 / TICK.as_secs_f64();
        let share = 1.0 - (-TICK.as_secs_f64() / period.as_secs_f64()).exp();
        let per_second = self.per_second();
        let next = per_second + share * (now - per_second);
        self.per_second_bits.store(next.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn per_second(&self) -> f64 {
        f64::from_bits(self.per_second_bits.load(Ordering::Relaxed))
    }
}

/// What tallies come to. Of `count_min` values those that no tally has are zeros.
fn sum<'t>(tallies: impl IntoIterator<Item = &'t Tally>, count_min: u64) -> Distribution {
    let mut counts = [0_u64; CLASS_COUNT];
    let mut largest = 0;
    for tally in tallies {
        for (count, class) in counts.iter_mut().zip(&tally.classes) {
            *count += class.load(Ordering::Relaxed);
        }
        largest = largest.max(tally.largest.load(Ordering::Relaxed));
    }
    let counted: u64 = counts.iter().sum();
    let count = counted.max(count_min);
    if let Some(zeros) = counts.first_mut() {
        *zeros += count - counted;
    }
    let percentile = |per_thousand: u64| {
        let wanted = (count * per_thousand).div_ceil(1000).max(1);
        let mut below = 0;
        let found = counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        found.map_or(0, |class| end_of(class).min(largest))
    };
    let (p50, p99, p999) = (percentile(500), percentile(990), percentile(999));
    Distribution { count, p50, p99, p999, largest, per_second: 0.0 }
}

/// Small numbers have a class each; above them a doubling has four.
fn class_of(value: u64) -> usize {
    let log = value.max(1).ilog2() as usize;
    if log < 2 {
        return usize::try_from(value).unwrap_or(0);
    }
    let quarter = usize::try_from(value >> (log - 2)).unwrap_or(0) & (CLASSES_PER_DOUBLING - 1);
    ((log - 1) * CLASSES_PER_DOUBLING + quarter).min(CLASS_COUNT - 1)
}

/// The largest value of a class.
fn end_of(class: usize) -> u64 {
    if class < CLASSES_PER_DOUBLING {
        return class as u64;
    }
    let (log, quarter) = (class / CLASSES_PER_DOUBLING + 1, class % CLASSES_PER_DOUBLING);
    ((CLASSES_PER_DOUBLING + quarter + 1) as u64) * (1 << (log - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other() {
        for value in 0..100_000_u64 {
            let class = class_of(value);
            assert!(value <= end_of(class), "{value}");
            assert!(class == 0 || value > end_of(class - 1), "{value}");
        }
        assert_eq!(class_of(u64::MAX), CLASS_COUNT - 1);
    }

    #[test]
    fn what_was_counted_is_told() {
        let traffic = Traffic::default();
        let table = TableId(7);
        for micros in 1..=1000 {
            traffic.of(table).add(
                Access::Read,
                Duration::from_micros(micros),
                Some((3, micros / 991)),
            );
        }
        let counters = traffic.if_asked(table).unwrap();
        let latency = counters.latency(Access::Read);
        assert_eq!((latency.count, latency.largest), (1000, 1000));
        assert!((500..=600).contains(&latency.p50), "{latency:?}");
        assert!((990..=1000).contains(&latency.p99), "{latency:?}");
        assert_eq!((counters.rows().p50, counters.rows().largest), (3, 3));
        let tombstones = counters.tombstones();
        assert_eq!((tombstones.count, tombstones.p50, tombstones.p99), (1000, 0, 0));
        assert_eq!((tombstones.p999, tombstones.largest), (1, 1));
        assert_eq!(counters.latency(Access::Scan), Distribution::default());
        traffic.tick(|_| true);
        let rate = counters.latency(Access::Read).per_second;
        assert!((10.0..20.0).contains(&rate), "a twelfth of 200 per second: {rate}");
        traffic.tick(|_| false);
        assert!(traffic.if_asked(table).is_none());
    }
}
