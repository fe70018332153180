//! Counters that cost a few nanoseconds: relaxed atomics, in shards so that cores do not fight for
//! the same cache line. A connection stays with one shard.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const SHARD_COUNT: usize = 8;

/// The upper bounds of the latency buckets, in microseconds.
pub(crate) const LATENCY_BOUNDS_US: [u64; 18] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// How many classes they make: one for each bound, and one for what is above them all.
pub(crate) const LATENCY_CLASSES: usize = LATENCY_BOUNDS_US.len() + 1;

/// The error codes of the protocol, by name.
pub(super) const ERROR_CODES: [(i32, &str); 18] = [
    (0x0000, "server_error"),
    (0x000A, "protocol_error"),
    (0x0100, "bad_credentials"),
    (0x1000, "unavailable"),
    (0x1001, "overloaded"),
    (0x1002, "is_bootstrapping"),
    (0x1003, "truncate_error"),
    (0x1100, "write_timeout"),
    (0x1200, "read_timeout"),
    (0x1300, "read_failure"),
    (0x1400, "function_failure"),
    (0x1500, "write_failure"),
    (0x2000, "syntax_error"),
    (0x2100, "unauthorized"),
    (0x2200, "invalid"),
    (0x2300, "config_error"),
    (0x2400, "already_exists"),
    (0x2500, "unprepared"),
];

/// What an error code is called.
pub(crate) fn error_name(code: i32) -> &'static str {
    ERROR_CODES.iter().find(|(known, _)| *known == code).map_or("server_error", |(_, name)| name)
}

/// A kind of request, as the counters tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Options,
    Startup,
    AuthResponse,
    Register,
    Prepare,
    Query,
    Execute,
    Batch,
}

impl RequestKind {
    /// Whether statements are to be run, or looked at.
    pub(crate) fn is_statement(self) -> bool {
        matches!(
            self,
            RequestKind::Query | RequestKind::Execute | RequestKind::Batch | RequestKind::Prepare
        )
    }

    pub(super) const ALL: [(RequestKind, &'static str); 8] = [
        (RequestKind::Options, "options"),
        (RequestKind::Startup, "startup"),
        (RequestKind::AuthResponse, "auth_response"),
        (RequestKind::Register, "register"),
        (RequestKind::Prepare, "prepare"),
        (RequestKind::Query, "query"),
        (RequestKind::Execute, "execute"),
        (RequestKind::Batch, "batch"),
    ];
}

/// Everything that is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    shards: [Shard; SHARD_COUNT],
    next_shard: AtomicUsize,
    connections_open: AtomicUsize,
    connections_opened: AtomicU64,
    connections_refused: AtomicU64,
}

/// The counters of some of the connections.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Shard {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    events: AtomicU64,
    version_probes: AtomicU64,
    errors: [AtomicU64; ERROR_CODES.len()],
    latencies: [Histogram; RequestKind::ALL.len()],
}

/// How long requests of one kind took.
#[derive(Default)]
struct Histogram {
    /// One per bound, and one for what is above them all.
    buckets: [AtomicU64; LATENCY_BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram, added up over the shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LatencySum {
    pub(super) buckets: [u64; LATENCY_BOUNDS_US.len() + 1],
    pub(super) sum_us: u64,
}

impl LatencySum {
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Metrics {
    /// The shard for a new connection.
    pub(crate) fn shard(&self) -> &Shard {
        let index = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARD_COUNT;
        self.shards.get(index).unwrap_or(&self.shards[0])
    }

    /// Counts a connection in, unless there are `connections_max` already.
    pub(crate) fn try_open_connection(&self, connections_max: usize) -> bool {
        let admitted = self
            .connections_open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < connections_max).then_some(open + 1)
            })
            .is_ok();
        let counter = if admitted { &self.connections_opened } else { &self.connections_refused };
        counter.fetch_add(1, Ordering::Relaxed);
        admitted
    }

    /// Counts a connection out.
    pub(crate) fn close_connection(&self) {
        self.connections_open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Connections open now.
    pub(crate) fn connections_open(&self) -> usize {
        self.connections_open.load(Ordering::Relaxed)
    }

    pub(super) fn connections_opened(&self) -> u64 {
        self.connections_opened.load(Ordering::Relaxed)
    }

    pub(super) fn connections_refused(&self) -> u64 {
        self.connections_refused.load(Ordering::Relaxed)
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.sum(|shard| &shard.bytes_in)
    }

    pub(super) fn bytes_out(&self) -> u64 {
        self.sum(|shard| &shard.bytes_out)
    }

    pub(super) fn events(&self) -> u64 {
        self.sum(|shard| &shard.events)
    }

    pub(super) fn version_probes(&self) -> u64 {
        self.sum(|shard| &shard.version_probes)
    }

    /// Requests of all kinds so far.
    pub(crate) fn request_count(&self) -> u64 {
        RequestKind::ALL.iter().map(|(kind, _)| self.latency(*kind).count()).sum()
    }

    /// Requests of one kind so far.
    pub(crate) fn request_count_of(&self, kind: RequestKind) -> u64 {
        self.latency(kind).count()
    }

    /// Errors of all codes so far.
    pub(crate) fn error_count(&self) -> u64 {
        self.errors().map(|(_, count)| count).sum()
    }

    /// Errors by the names of their codes.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        ERROR_CODES.iter().enumerate().map(|(index, (_, name))| {
            let count = self
                .shards
                .iter()
                .filter_map(|shard| shard.errors.get(index))
                .map(|counter| counter.load(Ordering::Relaxed))
                .sum();
            (*name, count)
        })
    }

    /// How many statements were run so far, by the class of how long they took.
    pub(crate) fn statement_latencies(&self) -> [u64; LATENCY_CLASSES] {
        let mut sum = [0; LATENCY_CLASSES];
        for kind in [RequestKind::Query, RequestKind::Execute, RequestKind::Batch] {
            for (total, count) in sum.iter_mut().zip(self.latency(kind).buckets) {
                *total += count;
            }
        }
        sum
    }

    pub(super) fn latency(&self, kind: RequestKind) -> LatencySum {
        let mut sum = LatencySum::default();
        for histogram in self.shards.iter().filter_map(|shard| shard.latencies.get(kind as usize)) {
            for (total, bucket) in sum.buckets.iter_mut().zip(&histogram.buckets) {
                *total += bucket.load(Ordering::Relaxed);
            }
            sum.sum_us += histogram.sum_us.load(Ordering::Relaxed);
        }
        sum
    }

    fn sum(&self, counter: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| counter(shard).load(Ordering::Relaxed)).sum()
    }
}

impl Shard {
    pub(crate) fn add_bytes_in(&self, count: usize) {
        self.bytes_in.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes_out(&self, count: usize) {
        self.bytes_out.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// A client asked for a version of the protocol that is not spoken here.
    pub(crate) fn add_version_probe(&self) {
        self.version_probes.fetch_add(1, Ordering::Relaxed);
    }

    /// A request was answered.
    pub(crate) fn add_request(&self, kind: RequestKind, latency: Duration) {
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let Some(histogram) = self.latencies.get(kind as usize) else { return };
        let index = LATENCY_BOUNDS_US.partition_point(|bound| *bound < latency_us);
        if let Some(bucket) = histogram.buckets.get(index) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        histogram.sum_us.fetch_add(latency_us, Ordering::Relaxed);
    }

    /// A request was answered with an error.
    pub(crate) fn add_error(&self, code: i32) {
        let index = ERROR_CODES.iter().position(|(known, _)| *known == code).unwrap_or(0);
        if let Some(counter) = self.errors.get(index) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up() {
        let metrics = Metrics::default();
        for latency_us in [10, 25, 26, 11_000_000] {
            metrics.shard().add_request(RequestKind::Query, Duration::from_micros(latency_us));
        }
        metrics.shard().add_error(0x2200);
        let sum = metrics.latency(RequestKind::Query);
        assert_eq!((sum.buckets[0], sum.buckets[1], sum.buckets[18]), (2, 1, 1));
        assert_eq!(sum.count(), 4);
        assert_eq!(metrics.latency(RequestKind::Execute).count(), 0);
        assert_eq!(metrics.errors().find(|(name, _)| *name == "invalid"), Some(("invalid", 1)));
    }

    #[test]
    fn the_limit_of_connections_holds() {
        let metrics = Metrics::default();
        assert!(metrics.try_open_connection(1));
        assert!(!metrics.try_open_connection(1));
        metrics.close_connection();
        assert!(metrics.try_open_connection(1));
        assert_eq!((metrics.connections_opened(), metrics.connections_refused()), (2, 1));
    }

    #[test]
    fn kinds_are_in_order() {
        for (index, (kind, _)) in RequestKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
