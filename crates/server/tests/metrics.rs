//! What Prometheus, a supervisor and a balancer are told, by a real node; and that the board and the alerts in `ops/`
//! ask for nothing that is not told.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

#[path = "../src/metrics/exposition.rs"]
mod exposition;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use protocol::Response;
use testkit::{Client, Execution, Node, free_port_on};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");

fn ask(client: &mut Client, text: &str) {
    if let Response::Error(error) = client.query(text, &Execution::default()).unwrap().response {
        panic!("{text}: {}", error.message);
    }
}

/// A page: its status line, and its body.
fn page(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn new_node() -> (Node, String) {
    let address = format!("127.0.0.1:{}", free_port_on(1).unwrap());
    let setting = format!("metrics.listen={address}");
    let costly =
        ["--set", &setting, "--set", "log.costly_ru=1", "--set", "storage.log_segment=1MiB"];
    let node = Node::start(Path::new(BINARY), &costly).unwrap();
    // It is whole once it has said that it runs.
    node.output().unwrap();
    (node, address)
}

fn work(node: &Node) -> Client {
    let mut client = Client::connect(&node.address()).unwrap();
    for statement in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, note text)",
        "CREATE INDEX ON shop.orders (note)",
    ] {
        ask(&mut client, statement);
    }
    for id in 0..50 {
        ask(&mut client, &format!("INSERT INTO shop.orders (id, note) VALUES ({id}, 'secret')"));
    }
    node.command(&["flush"]).unwrap();
    for _ in 0..2 {
        ask(&mut client, "SELECT * FROM shop.orders WHERE id = 7");
    }
    client
}

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let line =
        text.lines().find(|line| line.strip_prefix(series).is_some_and(|it| it.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn everything_is_told_with_help_type_and_base_units() {
    let (node, address) = new_node();
    let _client = work(&node);
    let (status, text) = page(&address, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let names = exposition::check(&text).unwrap();
    assert!(!names.iter().any(|name| name.starts_with("helenus_table_")));
    assert_eq!(value(&text, "helenus_storage_writable"), 1.0);
    assert_eq!(value(&text, "helenus_storage_log_failed"), 0.0);
    assert!(value(&text, "helenus_storage_disk_free_bytes") > 0.0);
    assert!(value(&text, "helenus_log_sync_duration_seconds_count") >= 1.0);
    assert!(value(&text, "helenus_flush_duration_seconds_count") >= 1.0);
    assert!(value(&text, "helenus_flushed_bytes_total") > 0.0);
    // 51 writes of five units and more.
    assert!(value(&text, "helenus_request_units_total") > 250.0);
    assert!(value(&text, "helenus_slow_statements_total") >= 50.0);
    assert_eq!(value(&text, "helenus_throttled_requests_total"), 0.0);
    assert!(value(&text, "helenus_cache_lookups_total{cache=\"rows\"}") >= 1.0);
    assert_eq!(value(&text, "helenus_indexes"), 1.0);
    let (_, of_tables) = page(&address, "/metrics?per_table=1");
    let more = exposition::check(&of_tables).unwrap();
    assert!(more.len() > names.len());
    let table = "{keyspace=\"shop\",table=\"orders\"";
    assert!(value(&of_tables, &format!("helenus_table_disk_bytes{table}}}")) > 0.0);
    let writes = format!("helenus_table_requests_total{table},kind=\"write\"}}");
    assert_eq!(value(&of_tables, &writes), 50.0);
    assert!(value(&of_tables, "helenus_keyspace_disk_bytes{keyspace=\"shop\"}") > 0.0);
}

#[test]
fn supervisors_and_balancers_have_their_pages() {
    let (node, address) = new_node();
    assert_eq!(page(&address, "/health"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    assert_eq!(page(&address, "/ready"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    drop(node);
}

/// A driver begins with a version that it knows best; that is no error of anybody.
#[test]
fn looking_for_a_version_is_no_error() {
    let (node, address) = new_node();
    // OPTIONS in version 66, which the Python driver tries first.
    let mut probe = TcpStream::connect(node.address()).unwrap();
    probe.write_all(&[0x42, 0, 0, 0, 5, 0, 0, 0, 0]).unwrap();
    let mut answer = [0; 9];
    probe.read_exact(&mut answer).unwrap();
    let (_, text) = page(&address, "/metrics");
    assert_eq!(value(&text, "helenus_version_probes_total"), 1.0);
    assert_eq!(value(&text, "helenus_errors_total{code=\"protocol_error\"}"), 0.0);
    let status = node.command(&["status", "--json"]).unwrap();
    assert!(status.contains("\"errors\":0"), "{status}");
}

/// The names of our metrics in a text.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    let ours = words.filter(|word| word.starts_with("helenus_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn board_and_alerts_ask_only_for_what_is_told() {
    let (node, address) = new_node();
    let _client = work(&node);
    let (_, text) = page(&address, "/metrics?per_table=1");
    let mut known: BTreeSet<String> = exposition::check(&text).unwrap().into_iter().collect();
    // What only nodes of a cluster tell.
    known.extend(names_in(include_str!("../src/cluster_gauges.rs")));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops");
    for file in ["grafana.json", "alerts.yml"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let asked = names_in(&text);
        assert!(asked.len() > 15, "{file} asks for {asked:?}");
        for name in asked {
            let parts = ["_bucket", "_sum", "_count"];
            let base = parts.iter().find_map(|part| name.strip_suffix(part));
            let is_known = known.contains(&name) || base.is_some_and(|base| known.contains(base));
            assert!(is_known, "{file} asks for {name}, which nobody tells");
        }
    }
}
