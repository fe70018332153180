//! Secondary indexes with the real binary: built on rows that are there, killed meanwhile, and read in
//! pages over a restart.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use protocol::Response;
use testkit::{Client, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const ROW_COUNT: i32 = 8_000;
const VALUE_COUNT: i32 = 8;

type Row = Vec<Option<Vec<u8>>>;

fn page(client: &mut Client, text: &str, execution: &Execution) -> (Vec<Row>, Option<Vec<u8>>) {
    match client.query(text, execution).unwrap().response {
        Response::Rows(rows) => {
            let values = rows
                .rows()
                .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
                .collect();
            (values, rows.metadata.paging_state)
        }
        Response::Error(error) => panic!("{text}: {}", error.message),
        _ => (Vec::new(), None),
    }
}

fn ask(client: &mut Client, text: &str) -> Vec<Row> {
    page(client, text, &Execution::default()).0
}

/// The states and the rows read of all indexes.
fn builds(client: &mut Client) -> Vec<(String, i64)> {
    ask(client, "SELECT state, rows_read FROM system_helenus.index_builds")
        .into_iter()
        .map(|row| {
            let state = String::from_utf8(row[0].clone().unwrap()).unwrap();
            (state, i64::from_be_bytes(row[1].clone().unwrap().try_into().unwrap()))
        })
        .collect()
}

fn wait_built(client: &mut Client) {
    for _ in 0..6_000 {
        if builds(client).iter().all(|(state, _)| state == "built") {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("not built: {:?}", builds(client));
}

fn fill(client: &mut Client, from: i32, until: i32, shift: i32) {
    for chunk in (from..until).collect::<Vec<_>>().chunks(50) {
        let statements: String = chunk
            .iter()
            .map(|n| {
                let v = (n + shift) % VALUE_COUNT;
                format!("INSERT INTO i.t (p, c, v) VALUES ({}, {n}, {v});", n % 100)
            })
            .collect();
        ask(client, &format!("BEGIN UNLOGGED BATCH {statements} APPLY BATCH"));
    }
}

/// All rows of a value: by the index, and by reading everything.
fn check_value(client: &mut Client, value: i32) {
    let found = ask(client, &format!("SELECT p, c FROM i.t WHERE v = {value}"));
    let all = ask(client, "SELECT p, c, v FROM i.t");
    let wanted: Vec<Row> = all
        .into_iter()
        .filter(|row| row[2].as_deref() == Some(value.to_be_bytes().as_slice()))
        .map(|mut row| {
            row.truncate(2);
            row
        })
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn an_index_survives_a_kill_while_it_is_built() {
    let mut node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    for text in [
        "CREATE KEYSPACE i WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE i.t (p int, c int, v int, PRIMARY KEY (p, c))",
        "CREATE TABLE i.users (user text PRIMARY KEY, age int)",
        "CREATE INDEX ON i.users (user)",
        "INSERT INTO i.users (user, age) VALUES ('ada', 36)",
    ] {
        ask(&mut client, text);
    }
    fill(&mut client, 0, ROW_COUNT, 0);
    ask(&mut client, "CREATE INDEX by_v ON i.t (v)");
    // Answers are right from the first moment on, and changes meanwhile are not missed.
    check_value(&mut client, 3);
    fill(&mut client, 0, 1_000, 1);
    check_value(&mut client, 3);
    node.kill().unwrap();
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    check_value(&mut client, 3);
    fill(&mut client, 1_000, 2_000, 2);
    wait_built(&mut client);
    for value in 0..VALUE_COUNT {
        check_value(&mut client, value);
    }
    ask(&mut client, "DELETE FROM i.t WHERE p = 7");
    ask(&mut client, "DELETE FROM i.t WHERE p = 8 AND c > 2000");
    check_value(&mut client, 7);
    // A page, a restart, and the pages after it.
    let text = "SELECT p, c FROM i.t WHERE v = 5";
    let whole = ask(&mut client, text);
    let mut execution = Execution { page_size: Some(97), ..Execution::default() };
    let (mut rows, mut next) = page(&mut client, text, &execution);
    node.stop().unwrap();
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    while let Some(state) = next {
        execution.paging_state = Some(state);
        let (more, after) = page(&mut client, text, &execution);
        rows.extend(more);
        next = after;
    }
    assert_eq!(rows, whole);
    assert!(builds(&mut client).iter().all(|(state, _)| state == "built"));
    let ada = ask(&mut client, "SELECT age FROM i.users WHERE user = 'ada'");
    assert_eq!(ada, [[Some(36i32.to_be_bytes().to_vec())]]);
}
