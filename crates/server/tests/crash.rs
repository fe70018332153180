//! What was acknowledged is there after a `kill -9`, and a batch is there as a whole or not at all.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use protocol::Response;
use testkit::{Client, Execution, Node, OwnedValue};

const CYCLES: u64 = 5;
const WRITERS: i64 = 4;

fn ask(client: &mut Client, text: &str) -> Vec<Vec<Option<Vec<u8>>>> {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Rows(rows) => rows
            .rows()
            .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect(),
        Response::Error(error) => panic!("{text}: {}", error.message),
        _ => Vec::new(),
    }
}

/// Writes pairs of rows, each pair in one batch over two tables, until the node is gone. The last
/// number that was acknowledged is the outcome.
fn write_until_gone(address: &str, writer: i64, first: i64, acknowledged: &AtomicI64) {
    let Ok(mut client) = Client::connect(address) else { return };
    let batch = "BEGIN BATCH INSERT INTO crash.a (w, n, v) VALUES (?, ?, 'a'); \
                 INSERT INTO crash.b (w, n, v) VALUES (?, ?, 'b'); APPLY BATCH";
    let Ok(Ok(prepared)) = client.prepare(batch) else { return };
    for number in first.. {
        let value = |number: i64| OwnedValue::Bytes(number.to_be_bytes().to_vec());
        let values = vec![value(writer), value(number), value(writer), value(number)];
        match client.execute(&prepared, &Execution { values, ..Execution::default() }) {
            Ok(message) if message.response == Response::Void => {
                acknowledged.store(number, Ordering::Release);
            }
            Ok(message) => panic!("{:?}", message.response),
            Err(_) => return,
        }
    }
}

fn numbers(client: &mut Client, table: &str, writer: i64) -> Vec<i64> {
    ask(client, &format!("SELECT n FROM crash.{table} WHERE w = {writer}"))
        .into_iter()
        .map(|row| i64::from_be_bytes(row[0].clone().unwrap().try_into().unwrap()))
        .collect()
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let mut node = Node::start(Path::new(env!("CARGO_BIN_EXE_helenus")), &[]).unwrap();
    let address = node.address();
    let mut client = Client::connect(&address).unwrap();
    for statement in [
        "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE crash.a (w bigint, n bigint, v text, PRIMARY KEY (w, n))",
        "CREATE TABLE crash.b (w bigint, n bigint, v text, PRIMARY KEY (w, n))",
    ] {
        ask(&mut client, statement);
    }
    let acknowledged: Vec<AtomicI64> = (0..WRITERS).map(|_| AtomicI64::new(0)).collect();
    for cycle in 0..CYCLES {
        std::thread::scope(|scope| {
            for (writer, acknowledged) in (0..).zip(&acknowledged) {
                let first = acknowledged.load(Ordering::Acquire) + 1;
                let address = &address;
                scope.spawn(move || write_until_gone(address, writer, first, acknowledged));
            }
            // The moment is another one in each cycle, so that the kill meets other work.
            sleep(Duration::from_millis(60 + 37 * cycle));
            node.kill().unwrap();
        });
        node.launch().unwrap();
        let mut client = Client::connect(&address).unwrap();
        for (writer, acknowledged) in (0..).zip(&acknowledged) {
            let last = acknowledged.load(Ordering::Acquire);
            let in_a = numbers(&mut client, "a", writer);
            assert_eq!(in_a, numbers(&mut client, "b", writer), "a batch was torn apart");
            let whole: Vec<i64> = (1..=i64::try_from(in_a.len()).unwrap()).collect();
            assert_eq!(in_a, whole, "writer {writer} misses a row in cycle {cycle}");
            assert!(in_a.len() as i64 >= last, "writer {writer}: {last} were acknowledged");
            // One more may have been on its way.
            acknowledged.store(in_a.len() as i64, Ordering::Release);
        }
    }
    let written: i64 = acknowledged.iter().map(|last| last.load(Ordering::Acquire)).sum();
    assert!(written > 0, "nothing was written, so nothing was proven");
}
