//! Spans of requests for OpenTelemetry: what a collector gets of requests that go through several nodes, and that there are none by default.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::{Consistency, QueryParameters, Request, Response, Version};
use serde_json::Value;
use testkit::{Client, Cluster, eventually};

use crate::support::*;

/// So long the spans of one request may be on their way; what is asked once more has another leader maybe.
const COLLECTED_WITHIN: Duration = Duration::from_secs(20);
const TRACED_WITHIN: Duration = Duration::from_secs(60);
/// The span of a client that wants its requests to be traced.
const ASKED_FROM: &str = "00000000000000aa";

/// A span as it was collected, and the node that sent it.
#[derive(Clone, Debug)]
struct Collected {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    node: String,
    began: u64,
    ended: u64,
    attributes: BTreeMap<String, String>,
}

/// Takes spans as a collector does.
struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Collected>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let spans: Arc<Mutex<Vec<Collected>>> = Arc::default();
        let taken = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
                }
                assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
                assert!(head.contains("Content-Type: application/json\r\n"), "{head}");
                let length = head.lines().find_map(|it| it.strip_prefix("Content-Length: "));
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                taken.lock().unwrap().extend(spans_of(&serde_json::from_slice(&body).unwrap()));
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
                reader.get_mut().write_all(answer).unwrap();
            }
        });
        Collector { address, spans }
    }

    fn of(&self, trace: &str) -> Vec<Collected> {
        self.spans.lock().unwrap().iter().filter(|it| it.trace == trace).cloned().collect()
    }
}

fn attributes(value: &Value) -> BTreeMap<String, String> {
    let pair = |it: &Value| {
        let value = it["value"].as_object().unwrap().values().next().unwrap();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (it["key"].as_str().unwrap().to_owned(), text)
    };
    value.as_array().unwrap().iter().map(pair).collect()
}

fn spans_of(body: &Value) -> Vec<Collected> {
    let of_node = &body["resourceSpans"][0];
    let resource = attributes(&of_node["resource"]["attributes"]);
    assert_eq!(resource["service.name"], "helenus");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let number = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let span = |it: &Value| Collected {
        trace: text(&it["traceId"]),
        id: text(&it["spanId"]),
        parent: it["parentSpanId"].as_str().map(str::to_owned),
        name: text(&it["name"]),
        node: resource["service.instance.id"].clone(),
        began: number(&it["startTimeUnixNano"]),
        ended: number(&it["endTimeUnixNano"]),
        attributes: attributes(&it["attributes"]),
    };
    of_node["scopeSpans"][0]["spans"].as_array().unwrap().iter().map(span).collect()
}

/// Runs a statement on a node in a trace of its own, and waits until a span of each of these names was collected; none if they do not
/// come, as when another node leads by now.
fn traced(
    cluster: &Cluster,
    collector: &Collector,
    node: usize,
    text: &str,
    names: &[&str],
) -> Option<Vec<Collected>> {
    let trace = format!("{:032x}", u128::from(Chance::new(seed()).below(u64::MAX)) + 1);
    let mut client = cluster.client(node).unwrap();
    ask_traced(&mut client, text, &trace);
    let look = || {
        let spans = collector.of(&trace);
        names.iter().all(|name| spans.iter().any(|it| it.name == *name)).then_some(spans)
    };
    let spans = eventually("all spans were collected", COLLECTED_WITHIN, look);
    if spans.is_err() {
        println!("{names:?} were wanted, there are {:?}", collector.of(&trace));
    }
    spans.ok()
}

fn ask_traced(client: &mut Client, text: &str, trace: &str) {
    let parameters = QueryParameters::new(Version::V5, Consistency::Quorum);
    let parent = format!("00-{trace}-{ASKED_FROM}-01");
    let payload = [("traceparent", Some(parent.as_bytes()))];
    let answer = client.send_with(Request::Query { text, parameters }, &payload).unwrap();
    assert!(!matches!(answer.response, Response::Error(_)), "{:?}", answer.response);
}

/// Whether a node has a thread that sends spans.
fn has_exporter(cluster: &Cluster, node: usize) -> bool {
    let threads = format!("/proc/{}/task", cluster.process(node).unwrap());
    let threads = std::fs::read_dir(threads).unwrap().map(|it| it.unwrap().path().join("comm"));
    threads.filter_map(|it| std::fs::read_to_string(it).ok()).any(|it| it.trim() == "helenus-spans")
}

fn named<'s>(spans: &'s [Collected], name: &str) -> &'s Collected {
    spans.iter().find(|it| it.name == name).unwrap()
}

#[test]
fn a_request_has_one_trace_on_all_nodes_of_its_way() {
    let collector = Collector::start();
    let endpoint = format!("traces.endpoint=http://{}", collector.address);
    // Only those whose client says so.
    let settings =
        [endpoint.as_str(), "traces.one_in=1000000", "log.slow_after=1us", "log.format=json"];
    let mut cluster = cluster_of(4, &settings);
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "ks");
    tell(&mut client, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    let set = first_set(&mut client, "ks");

    // A write, from a node that does not lead: the client's span, the request, its way to the leader, and the leader's part. Where the
    // leader changed meanwhile there is another way, and it is asked again.
    let insert = "INSERT INTO ks.t (k, v) VALUES (1, 'secret')";
    let names = ["QUERY", "coordinate", "commit", "lead commit"];
    let written = || {
        let leads = leader(&cluster, 1, set);
        let asked = if leads == 1 { 2 } else { 1 };
        let spans = traced(&cluster, &collector, asked, insert, &names)?;
        let is_told = leader(&cluster, 1, set) == leads && spans.len() == names.len();
        is_told.then_some((leads, asked, spans))
    };
    let written = eventually("a write has these spans and no others", TRACED_WITHIN, written);
    let (leads, asked, spans) = written.unwrap();
    let [root, coordinate, commit, lead] = names.map(|name| named(&spans, name));
    assert_eq!(root.parent.as_deref(), Some(ASKED_FROM));
    assert_eq!(coordinate.parent.as_ref(), Some(&root.id));
    assert_eq!(commit.parent.as_ref(), Some(&coordinate.id));
    assert_eq!(lead.parent.as_ref(), Some(&commit.id));
    for here in [root, coordinate, commit] {
        assert_eq!(here.node, cluster.address(asked), "{here:?}");
        assert!(root.began <= here.began && here.ended <= root.ended, "{spans:?}");
    }
    assert_eq!(lead.node, cluster.address(leads));
    assert_eq!(lead.attributes["helenus.set"], commit.attributes["helenus.set"]);
    assert_eq!(lead.attributes["helenus.from"], asked.to_string());
    assert_eq!(root.attributes["db.query.text"], "INSERT INTO ks.t (k, v) VALUES (?, ?)");
    assert_eq!(root.attributes["db.collection.name"], "t");
    let lead_trace = lead.trace.clone();

    // The same on the node that leads: nobody else is asked.
    let written = || {
        let leads = leader(&cluster, 1, set);
        let names = ["QUERY", "coordinate", "commit"];
        let spans = traced(&cluster, &collector, leads, insert, &names)?;
        spans.iter().all(|it| it.node == cluster.address(leads)).then_some(())
    };
    eventually("who leads asks nobody else", TRACED_WITHIN, written).unwrap();

    // A strong read, from a node that does not lead: by its own member, or by another node's.
    let select = "SELECT * FROM ks.t WHERE k = 1";
    let spans = traced(&cluster, &collector, asked, select, &["QUERY", "coordinate"]).unwrap();
    let coordinate = named(&spans, "coordinate");
    let look = || {
        let spans = collector.of(&coordinate.trace);
        let has = |name: &str| spans.iter().any(|it| it.name == name);
        let is_told = has("read set") || (has("serve read") && has("read elsewhere"));
        is_told.then_some(spans)
    };
    let spans = eventually("whoever read told so", SOON, look).unwrap();
    for span in spans.iter().filter(|it| ["read set", "read elsewhere"].contains(&&*it.name)) {
        assert_eq!(span.parent.as_ref(), Some(&coordinate.id), "{spans:?}");
    }
    if let Some(served) = spans.iter().find(|it| it.name == "serve read") {
        assert_eq!(served.parent.as_ref(), Some(&named(&spans, "read elsewhere").id));
        assert_ne!(served.node, cluster.address(asked));
    }

    // Nothing of requests that nobody asked to be traced but the first of each node.
    let is_unasked =
        |it: &&Collected| it.name == "QUERY" && it.parent.as_deref() != Some(ASKED_FROM);
    let unasked = collector.spans.lock().unwrap().iter().filter(is_unasked).count();
    assert!(unasked <= cluster.count(), "{unasked}");
    // Lines of the log have the same ids. There are so many of slow statements a second and no more: another one is asked until
    // its line is written.
    let line = format!("\"trace_id\":\"{lead_trace}\"");
    let mut client = cluster.client(asked).unwrap();
    let logged = || {
        ask_traced(&mut client, insert, &lead_trace);
        cluster.log().contains(&line).then_some(())
    };
    eventually("a line of the log has the id", SOON, logged).unwrap();
    assert!(has_exporter(&cluster, 1));
    cluster.stop_all().unwrap();
}

#[test]
fn nothing_is_traced_by_default() {
    let cluster = three();
    let mut client = cluster.client(1).unwrap();
    let trace = "0000000000000000000000000000000a";
    ask_traced(&mut client, "SELECT * FROM system.local", trace);
    for node in 1..=cluster.count() {
        assert!(!has_exporter(&cluster, node));
    }
}
