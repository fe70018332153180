//! Counters as Prometheus text.

use std::fmt::Write as _;

use storage::{TIMING_BOUNDS_US, TimingSum};

use super::counters::{LATENCY_BOUNDS_US, Metrics, RequestKind};
use super::process;
use crate::version::{COMMIT, VERSION};

/// A number that somebody else keeps, asked for when the metrics are read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gauge {
    /// The full name, with its unit.
    pub(crate) name: &'static str,
    /// What it counts.
    pub(crate) help: &'static str,
    pub(crate) told: Told,
    /// What it is about, such as another node or a table. Those of one name stand one after the other.
    pub(crate) labels: Vec<(&'static str, String)>,
}

/// What is told of something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// A number that rises and falls.
    Number(f64),
    /// A number that only grows.
    Count(f64),
    /// How long something took, each time.
    Times(Box<TimingSum>),
}

impl Told {
    /// The word of the text format.
    fn kind(&self) -> &'static str {
        match self {
            Told::Number(_) => "gauge",
            Told::Count(_) => "counter",
            Told::Times(_) => "histogram",
        }
    }
}

impl Gauge {
    /// A number that rises and falls.
    pub(crate) fn new(name: &'static str, help: &'static str, value: f64) -> Gauge {
        Gauge { name, help, told: Told::Number(value), labels: Vec::new() }
    }

    /// A number that only grows.
    pub(crate) fn counter(name: &'static str, help: &'static str, value: f64) -> Gauge {
        Gauge { told: Told::Count(value), ..Gauge::new(name, help, value) }
    }

    /// How long something took, each time.
    pub(crate) fn times(name: &'static str, help: &'static str, times: TimingSum) -> Gauge {
        Gauge { told: Told::Times(Box::new(times)), ..Gauge::new(name, help, 0.0) }
    }

    /// The same with one more label.
    pub(crate) fn with(mut self, label: &'static str, value: String) -> Gauge {
        self.labels.push((label, value));
        self
    }
}

/// All of them, in the text format 0.0.4.
pub(crate) fn render(metrics: &Metrics, started_at_s: u64, others: &[Gauge]) -> String {
    let mut out = String::with_capacity(16 * 1024);
    head(&mut out, "helenus_build_info", "The version that runs.", "gauge");
    let (version, commit) = (VERSION, COMMIT);
    let _ = writeln!(out, "helenus_build_info{{version=\"{version}\",commit=\"{commit}\"}} 1");
    requests(&mut out, metrics);
    head(&mut out, "helenus_errors_total", "Requests answered with an error.", "counter");
    for (code, count) in metrics.errors() {
        let _ = writeln!(out, "helenus_errors_total{{code=\"{code}\"}} {count}");
    }
    let mut one = |name: &str, help: &str, kind: &str, value: f64| {
        head(&mut out, name, help, kind);
        let _ = writeln!(out, "{name} {value}");
    };
    let open = metrics.connections_open() as f64;
    one("helenus_connections", "Clients connected now.", "gauge", open);
    let opened = metrics.connections_opened() as f64;
    one("helenus_connections_opened_total", "Clients that connected.", "counter", opened);
    let refused = metrics.connections_refused() as f64;
    one("helenus_connections_refused_total", "Clients turned away.", "counter", refused);
    let bytes_in = metrics.bytes_in() as f64;
    one("helenus_received_bytes_total", "Bytes from clients.", "counter", bytes_in);
    let bytes_out = metrics.bytes_out() as f64;
    one("helenus_sent_bytes_total", "Bytes to clients.", "counter", bytes_out);
    let events = metrics.events() as f64;
    one("helenus_events_sent_total", "Events pushed to clients.", "counter", events);
    let probes = metrics.version_probes() as f64;
    one(
        "helenus_version_probes_total",
        "Connections that began with a version of the protocol that is not spoken here, as drivers do to find one.",
        "counter",
        probes,
    );
    one("process_start_time_seconds", "When it started.", "gauge", started_at_s as f64);
    if let Some(bytes) = process::resident_bytes() {
        one("process_resident_memory_bytes", "Memory in use.", "gauge", bytes as f64);
    }
    if let Some(seconds) = process::cpu_seconds() {
        one("process_cpu_seconds_total", "Processor time used.", "counter", seconds);
    }
    if let Some(count) = process::open_descriptors() {
        one("process_open_fds", "Open descriptors.", "gauge", count as f64);
    }
    let mut last = "";
    for gauge in others {
        let Gauge { name, help, told, labels } = gauge;
        if last != *name {
            head(&mut out, name, help, told.kind());
            last = name;
        }
        match told {
            Told::Number(value) | Told::Count(value) => {
                let _ = writeln!(out, "{name}{} {value}", Labels(labels));
            }
            Told::Times(times) => put_times(&mut out, name, labels, times),
        }
    }
    out
}

fn requests(out: &mut String, metrics: &Metrics) {
    head(out, "helenus_requests_total", "Requests answered.", "counter");
    for (kind, name) in RequestKind::ALL {
        let count = metrics.latency(kind).count();
        let _ = writeln!(out, "helenus_requests_total{{kind=\"{name}\"}} {count}");
    }
    let name = "helenus_request_duration_seconds";
    head(out, name, "From reading a request to its answer being ready.", "histogram");
    for (kind, kind_name) in RequestKind::ALL {
        let latency = metrics.latency(kind);
        let mut cumulative = 0;
        for (bound_us, count) in LATENCY_BOUNDS_US.iter().zip(latency.buckets) {
            cumulative += count;
            let bound = seconds(*bound_us);
            let _ =
                writeln!(out, "{name}_bucket{{kind=\"{kind_name}\",le=\"{bound}\"}} {cumulative}");
        }
        let count = latency.count();
        let _ = writeln!(out, "{name}_bucket{{kind=\"{kind_name}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{kind=\"{kind_name}\"}} {}", seconds(latency.sum_us));
        let _ = writeln!(out, "{name}_count{{kind=\"{kind_name}\"}} {count}");
    }
}

fn put_times(out: &mut String, name: &str, labels: &[(&'static str, String)], times: &TimingSum) {
    let mut put = |bound: String, count: u64| {
        let mut labels = labels.to_vec();
        labels.push(("le", bound));
        let _ = writeln!(out, "{name}_bucket{} {count}", Labels(&labels));
    };
    let mut cumulative = 0;
    for (bound_us, count) in TIMING_BOUNDS_US.iter().zip(times.classes) {
        cumulative += count;
        put(seconds(*bound_us).to_string(), cumulative);
    }
    let count = times.count();
    put("+Inf".to_owned(), count);
    let labels = Labels(labels);
    let _ = writeln!(out, "{name}_sum{labels} {}", seconds(times.sum_us));
    let _ = writeln!(out, "{name}_count{labels} {count}");
}

/// `{a="b",c="d"}`, or nothing without any.
struct Labels<'l>(&'l [(&'static str, String)]);

impl std::fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(f, "{}{name}=\"{value}\"", if index == 0 { '{' } else { ',' })?;
        }
        f.write_str(if self.0.is_empty() { "" } else { "}" })
    }
}

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::exposition;
    use super::*;

    #[test]
    fn everything_is_told_as_prometheus_wants_it() {
        let metrics = Metrics::default();
        metrics.shard().add_request(RequestKind::Query, Duration::from_micros(300));
        let of_node =
            |node: u64| Gauge::counter("helenus_y_total", "Y.", 4.0).with("node", node.to_string());
        let mut times = TimingSum { sum_us: 1500, ..TimingSum::default() };
        times.classes[4] = 2;
        let gauges = [
            Gauge::new("helenus_x_bytes", "X.", 3.0),
            of_node(2),
            of_node(3),
            Gauge::times("helenus_z_seconds", "Z.", times),
            Gauge::new("helenus_w", "W.", 1.0).with("table", "a\"b\\c\nd".to_owned()),
        ];
        let text = render(&metrics, 7, &gauges);
        exposition::check(&text).unwrap();
        for line in [
            "helenus_request_duration_seconds_bucket{kind=\"query\",le=\"0.0005\"} 1\n",
            "helenus_x_bytes 3\n",
            "helenus_y_total{node=\"2\"} 4\nhelenus_y_total{node=\"3\"} 4\n",
            "helenus_z_seconds_bucket{le=\"0.0005\"} 0\nhelenus_z_seconds_bucket{le=\"0.001\"} 2\n",
            "helenus_z_seconds_sum 0.0015\nhelenus_z_seconds_count 2\n",
            "helenus_w{table=\"a\\\"b\\\\c\\nd\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
