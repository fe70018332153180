//! Appetite and overload with the real binary: what one client asks for is bounded while it is gathered, and is
//! no other client's error; writers are held back before anybody is refused.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::{PreparedResponse, Response};
use testkit::flow::{Flow, Manners, Tally};
use testkit::{Client, Execution, Node, OwnedValue};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const KEYSPACE: &str =
    "CREATE KEYSPACE l WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const MEGABYTE: usize = 1 << 20;
const READ_TIMEOUT: i32 = 0x1200;
const READ_FAILURE: i32 = 0x1300;
/// Who is held back waits as long as the disk takes, which is no matter of these tests.
const UNHURRIED: [&str; 2] = ["timeouts.write=60s", "timeouts.read=60s"];

fn run(client: &mut Client, text: &str) {
    let message = client.query(text, &Execution::default()).unwrap();
    if let Response::Error(error) = &message.response {
        panic!("{text}: {}", error.message);
    }
}

fn prepare(client: &mut Client, text: &str) -> PreparedResponse {
    client.prepare(text).unwrap().unwrap()
}

/// A node with `rows` rows of `bytes` each in `l.t`, one to a partition.
fn start(settings: &[&str], rows: i32, bytes: usize) -> (Node, Client) {
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let node = Node::start(Path::new(BINARY), &arguments).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    run(&mut client, KEYSPACE);
    run(&mut client, "CREATE TABLE l.t (p int, c int, v blob, PRIMARY KEY (p, c))");
    let insert = prepare(&mut client, "INSERT INTO l.t (p, c, v) VALUES (?, 0, ?)");
    for key in 0..rows {
        let values =
            vec![OwnedValue::Bytes(key.to_be_bytes().to_vec()), OwnedValue::Bytes(vec![7; bytes])];
        let execution = Execution { values, ..Execution::default() };
        client.execute_many(&insert, &[execution]).unwrap();
    }
    (node, client)
}

fn keys(count: i32) -> String {
    (0..count).map(|key| key.to_string()).collect::<Vec<_>>().join(", ")
}

/// The code and the words of the error that a statement is answered with.
fn refusal(client: &mut Client, text: &str) -> (i32, String) {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Error(error) => (error.kind.code(), error.message),
        other => panic!("{text}: {:.80}", format!("{other:?}")),
    }
}

#[test]
fn a_result_that_memory_has_no_room_for_is_refused_and_its_pages_are_not() {
    let (_node, mut client) = start(&["memory.requests=32MiB"], 24, MEGABYTE);
    let in_keys = format!("WHERE p IN ({})", keys(24));
    for text in [
        format!("SELECT * FROM l.t {in_keys}"),
        format!("SELECT * FROM l.t {in_keys} ORDER BY c"),
        format!("SELECT JSON p, v FROM l.t {in_keys}"),
        format!("SELECT p, c, max(v) FROM l.t {in_keys} GROUP BY p, c"),
        "SELECT * FROM l.t".to_owned(),
        "SELECT * FROM l.t WHERE c = 0 ALLOW FILTERING".to_owned(),
    ] {
        let (code, message) = refusal(&mut client, &text);
        assert_eq!(code, READ_FAILURE, "{text}: {message}");
        let words = "Read on table l.t has exceeded the size failure threshold of 8,388,608 bytes";
        assert!(message.contains(words), "{text}: {message}");
    }
    let (mut rows, mut paging_state) = (0, None);
    loop {
        let execution = Execution { page_size: Some(5), paging_state, ..Execution::default() };
        let message = client.query("SELECT * FROM l.t", &execution).unwrap();
        let Response::Rows(page) = message.response else { panic!("{:?}", message.response) };
        rows += page.rows().count();
        paging_state = page.metadata.paging_state.clone();
        if paging_state.is_none() {
            break;
        }
    }
    assert_eq!(rows, 24);
}

#[test]
fn a_read_of_many_keys_ends_when_its_time_is_up() {
    let (_node, mut client) = start(&["timeouts.read=1ms", "timeouts.range=1ms"], 64, 100);
    let many = keys(20_000);
    let points = (0..20_000).map(|c| c.to_string()).collect::<Vec<_>>().join(", ");
    for text in [
        format!("SELECT * FROM l.t WHERE p IN ({many})"),
        format!("SELECT * FROM l.t WHERE p IN ({many}) ORDER BY c"),
        format!("SELECT count(*) FROM l.t WHERE p IN ({many})"),
        format!("SELECT * FROM l.t WHERE p = 0 AND c IN ({points})"),
    ] {
        let (code, message) = refusal(&mut client, &text);
        assert_eq!(code, READ_TIMEOUT, "{message}");
    }
}

/// A request for many large pages from somebody who never reads one.
fn ask_and_never_read(address: &str, statement: &PreparedResponse) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[4, 0, 0, 0, 1, 0, 0, 0, 22, 0, 1, 0, 11]).unwrap();
    stream.write_all(b"CQL_VERSION\x00\x053.0.0").unwrap();
    let id = &statement.id;
    let mut one = vec![4, 0, 0, 1, 0x0a];
    one.extend(u32::try_from(2 + id.len() + 3).unwrap().to_be_bytes());
    one.extend(u16::try_from(id.len()).unwrap().to_be_bytes());
    one.extend(&id[..]);
    one.extend([0, 1, 0]);
    stream.write_all(&one.repeat(50)).unwrap();
    stream
}

#[test]
fn small_reads_go_on_beside_large_answers_that_nobody_takes() {
    let (node, mut client) = start(&["memory.requests=16MiB"], 32, MEGABYTE / 8);
    let all = format!("SELECT * FROM l.t WHERE p IN ({})", keys(24));
    let greedy = prepare(&mut client, &all);
    run(&mut client, "INSERT INTO l.t (p, c, v) VALUES (-1, 0, 0x00)");
    let rude: Vec<TcpStream> =
        (0..12).map(|_| ask_and_never_read(&node.address(), &greedy)).collect();
    let (mut refused_large, begun) = (0, Instant::now());
    let mut other = Client::connect(&node.address()).unwrap();
    let is_shown = |refused: u32| match refused {
        0 => begun.elapsed() > Duration::from_secs(60),
        _ => begun.elapsed() > Duration::from_millis(1500),
    };
    while !is_shown(refused_large) {
        run(&mut client, "SELECT v FROM l.t WHERE p = -1");
        run(&mut client, "INSERT INTO l.t (p, c, v) VALUES (-1, 0, 0x01)");
        let large = other.execute(&greedy, &Execution::default()).unwrap();
        refused_large += u32::from(matches!(large.response, Response::Error(_)));
    }
    assert!(refused_large > 0, "memory never ran short, so this showed nothing");
    drop(rude);
}

fn flow(
    node: &Node,
    statement: &PreparedResponse,
    window: i16,
    value_bytes: Option<usize>,
) -> Flow {
    Flow {
        address: node.address(),
        statement: statement.id.to_vec(),
        values: Arc::new(move |number| {
            let key = i32::try_from(number % 1000).unwrap().to_be_bytes().to_vec();
            std::iter::once(key).chain(value_bytes.map(|bytes| vec![7; bytes])).collect()
        }),
        first: 0,
        step: 1,
        window,
        manners: Manners::Careless,
        pause: None,
        consistency: testkit::flow::CONSISTENCY_ONE,
    }
}

/// Runs flows side by side and sums each.
fn run_flows(flows: Vec<Flow>, time: Duration) -> Vec<Tally> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let begin = Instant::now();
        let running: Vec<_> = flows
            .into_iter()
            .map(|flow| tokio::spawn(async move { flow.run(begin, begin + time).await }))
            .collect();
        let mut tallies = Vec::new();
        for flow in running {
            tallies.push(flow.await.unwrap().unwrap());
        }
        tallies
    })
}

#[test]
fn writers_are_held_back_and_not_refused() {
    let settings = ["memory.memtables=2MiB", "limits.queue_delay=20ms"];
    let settings = [&settings[..], &UNHURRIED].concat();
    let (node, mut client) = start(&settings, 1, 100);
    let insert = prepare(&mut client, "INSERT INTO l.t (p, c, v) VALUES (?, 1, ?)");
    let read = prepare(&mut client, "SELECT c FROM l.t WHERE p = ?");
    let mut flows = vec![flow(&node, &insert, 32, Some(64 << 10)); 8];
    flows.push(Flow { pause: Some(Duration::from_millis(5)), ..flow(&node, &read, 1, None) });
    for tally in run_flows(flows, Duration::from_secs(4)) {
        assert_eq!((tally.refused, tally.failed), (0, 0), "{:?}", tally.failures);
        assert!(tally.good > 0);
    }
}

#[test]
fn more_writes_than_may_wait_wait_in_their_sockets() {
    let settings = [&["limits.waiting_requests=16"][..], &UNHURRIED].concat();
    let (node, mut client) = start(&settings, 1, 100);
    let insert = prepare(&mut client, "INSERT INTO l.t (p, c, v) VALUES (?, 1, ?)");
    let flows = vec![flow(&node, &insert, 100, Some(100)); 4];
    for tally in run_flows(flows, Duration::from_secs(1)) {
        assert_eq!((tally.refused, tally.failed), (0, 0), "{:?}", tally.failures);
    }
}
