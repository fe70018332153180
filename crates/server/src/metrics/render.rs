//! Counters as Prometheus text.

use std::fmt::Write as _;

use super::counters::{LATENCY_BOUNDS_US, Metrics, RequestKind};
use super::process;

/// A number that somebody else keeps, asked for when the metrics are read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gauge {
    /// The full name, with its unit.
    pub(crate) name: &'static str,
    /// What it counts.
    pub(crate) help: &'static str,
    /// Whether it only grows.
    pub(crate) is_counter: bool,
    pub(crate) value: f64,
    /// The other node that it is about. Those of one name stand one after the other.
    pub(crate) node: Option<u64>,
}

impl Gauge {
    /// A number that rises and falls.
    pub(crate) fn new(name: &'static str, help: &'static str, value: f64) -> Gauge {
        Gauge { name, help, is_counter: false, value, node: None }
    }

    /// A number that only grows.
    pub(crate) fn counter(name: &'static str, help: &'static str, value: f64) -> Gauge {
        Gauge { is_counter: true, ..Gauge::new(name, help, value) }
    }
}

/// All of them, in the text format 0.0.4.
pub(crate) fn render(metrics: &Metrics, started_at_s: u64, others: &[Gauge]) -> String {
    let mut out = String::with_capacity(16 * 1024);
    head(&mut out, "helenus_build_info", "The version that runs.", "gauge");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(out, "helenus_build_info{{version=\"{version}\"}} 1");
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
        let Gauge { name, help, is_counter, value, node } = gauge;
        if last != *name {
            head(&mut out, name, help, if *is_counter { "counter" } else { "gauge" });
            last = name;
        }
        let _ = match node {
            Some(node) => writeln!(out, "{name}{{node=\"{node}\"}} {value}"),
            None => writeln!(out, "{name} {value}"),
        };
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

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_line_has_the_form_and_its_type() {
        let metrics = Metrics::default();
        metrics.shard().add_request(RequestKind::Query, Duration::from_micros(300));
        let of_node = |node| Gauge { node: Some(node), ..Gauge::counter("y_total", "Y.", 4.0) };
        let gauges = [Gauge::new("x_bytes", "X.", 3.0), of_node(2), of_node(3)];
        let text = render(&metrics, 7, &gauges);
        let mut typed = HashSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(typed.insert(rest.split(' ').next().unwrap().to_owned()), "{line}");
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let name = name.split('{').next().unwrap();
                let base = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| {
                        name.strip_suffix(suffix).filter(|base| typed.contains(*base))
                    })
                    .unwrap_or(name);
                assert!(typed.contains(base), "{line}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        let bucket = "helenus_request_duration_seconds_bucket{kind=\"query\",le=\"0.0005\"} 1\n";
        assert!(text.contains(bucket));
        assert!(text.contains("x_bytes 3\n"));
        assert!(text.contains("y_total{node=\"2\"} 4\ny_total{node=\"3\"} 4\n"), "{text}");
    }
}
