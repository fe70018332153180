//! Physical partitions follow the load of a real node: what stays hot while others idle is split, a single hot key is
//! not, and what is small and cold becomes one again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::Response;
use testkit::{Client, Execution, Node, OwnedValue, eventually};

type Row = Vec<Option<Vec<u8>>>;

/// So long anything may take that does not fail.
const SOON: Duration = Duration::from_secs(60);
/// What is hot for so long is split.
const HOT_AGE: Duration = Duration::from_millis(500);

fn start(settings: &[&str]) -> Node {
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", *setting]).collect();
    Node::start(Path::new(env!("CARGO_BIN_EXE_helenus")), &arguments).unwrap()
}

fn ask(client: &mut Client, text: &str) -> Vec<Row> {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Rows(rows) => rows
            .rows()
            .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect(),
        Response::Error(error) => panic!("{text}: {}", error.message),
        _ => Vec::new(),
    }
}

fn make_table(client: &mut Client) {
    ask(
        client,
        "CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    ask(client, "CREATE TABLE e.t (k int, c int, v text, PRIMARY KEY (k, c))");
}

fn long(row: &Row, column: usize) -> i64 {
    i64::from_be_bytes(row[column].clone().unwrap().try_into().unwrap())
}

fn double(row: &Row, column: usize) -> f64 {
    f64::from_be_bytes(row[column].clone().unwrap().try_into().unwrap())
}

fn text(row: &Row, column: usize) -> String {
    String::from_utf8(row[column].clone().unwrap()).unwrap()
}

/// The reasons of all changes, oldest first, with the token of a split.
fn history(client: &mut Client) -> Vec<(String, Option<i64>)> {
    let question = "SELECT reason, split_token, number FROM system_helenus.partition_history WHERE space = 'e'";
    let mut changes = ask(client, question);
    changes.sort_by_key(|row| long(row, 2));
    changes.iter().map(|row| (text(row, 0), row[1].as_ref().map(|_| long(row, 1)))).collect()
}

/// First and last token, and request units per second, of each physical partition.
fn ring(client: &mut Client) -> Vec<(i64, i64, f64)> {
    let question = "SELECT first_token, last_token, ru_s FROM system_helenus.physical_partitions WHERE space = 'e'";
    ask(client, question).iter().map(|row| (long(row, 0), long(row, 1), double(row, 2))).collect()
}

#[test]
fn a_hot_physical_partition_is_split_and_a_hot_key_is_not() {
    let settings = [
        "partitions.per_space=4",
        "partitions.interval=20ms",
        "partitions.hot_ru=50",
        "partitions.hot_age=500ms",
    ];
    let node = start(&settings);
    let mut client = Client::connect(&node.address()).unwrap();
    make_table(&mut client);
    for key in 0..64 {
        ask(&mut client, &format!("INSERT INTO e.t (k, c, v) VALUES ({key}, 1, 'v')"));
    }
    let parts = ring(&mut client);
    assert_eq!(parts.len(), 4);
    let (first, last, _) = parts[1];
    let hot: Vec<i32> = ask(&mut client, "SELECT k, token(k) FROM e.t")
        .iter()
        .filter(|row| (first..=last).contains(&long(row, 1)))
        .map(|row| i32::from_be_bytes(row[0].clone().unwrap().try_into().unwrap()))
        .collect();
    assert!(hot.len() > 4, "{hot:?}");

    // One key takes it all: no split would help.
    // Many at once: one after the other would not be enough on a machine with much else to do.
    let prepared = client.prepare("SELECT v FROM e.t WHERE k = ?").unwrap().unwrap();
    let heat = |client: &mut Client, keys: &[i32]| {
        let value = |key: i32| OwnedValue::Bytes(key.to_be_bytes().to_vec());
        let one = |key: i32| Execution { values: vec![value(key)], ..Execution::default() };
        let executions: Vec<Execution> = keys.iter().cycle().take(50).copied().map(one).collect();
        client.execute_many(&prepared, &executions).unwrap();
    };
    let mut hot_since: Option<Instant> = None;
    let stays_hot = || {
        heat(&mut client, &hot[..1]);
        if ring(&mut client)[1].2 < 100.0 {
            hot_since = None;
            return None;
        }
        let since = *hot_since.get_or_insert_with(Instant::now);
        (since.elapsed() > 4 * HOT_AGE).then_some(())
    };
    eventually("it stays hot", SOON, stays_hot).unwrap();
    assert_eq!(history(&mut client), [], "a single key cannot be cut");

    // Many keys of it: it is cut between them, and nothing else is.
    let is_cut = || {
        heat(&mut client, &hot);
        (!history(&mut client).is_empty()).then_some(())
    };
    eventually("it is cut", SOON, is_cut).unwrap();
    // What is still hot may be cut again between two looks.
    let changes = || {
        let changes = history(&mut client);
        (ring(&mut client).len() == 4 + changes.len()).then_some(changes)
    };
    let changes = eventually("the map has every cut", SOON, changes).unwrap();
    assert_eq!(changes[0].0, "heat", "{changes:?}");
    assert!((first + 1..=last).contains(&changes[0].1.unwrap()), "{changes:?}");
    for key in 0..64 {
        assert_eq!(ask(&mut client, &format!("SELECT v FROM e.t WHERE k = {key}")).len(), 1);
    }
}

#[test]
fn small_and_cold_neighbours_become_one_and_nothing_is_lost() {
    let settings = [
        "partitions.per_space=2",
        "partitions.interval=20ms",
        "partitions.merge_age=1s",
        "limits.physical_partition_bytes=20KB",
    ];
    let mut node = start(&settings);
    let address = node.address();
    let mut client = Client::connect(&address).unwrap();
    make_table(&mut client);
    let value = "v".repeat(200);
    let mut keys = 0;
    while ring(&mut client).len() < 12 {
        for _ in 0..20 {
            ask(&mut client, &format!("INSERT INTO e.t (k, c, v) VALUES ({keys}, 1, '{value}')"));
            keys += 1;
        }
        assert!(keys < 20_000, "it does not grow: {:?}", ring(&mut client));
    }
    // Most rows go; every hundredth stays.
    for key in (0..keys).filter(|key| key % 100 != 0) {
        ask(&mut client, &format!("DELETE FROM e.t WHERE k = {key} AND c = 1"));
    }
    let stay = (0..keys).filter(|key| key % 100 == 0).count();
    for _ in 0..3_000 {
        assert_eq!(ask(&mut client, "SELECT k FROM e.t").len(), stay);
        if ring(&mut client).len() == 2 {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    let parts = ring(&mut client);
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert_eq!((parts[0].0, parts[1].1), (i64::MIN, i64::MAX));
    // A bound of the inner ring may lie within one token of the clients' ring.
    assert!((parts[0].1..=parts[0].1 + 1).contains(&parts[1].0), "{parts:?}");
    let changes = history(&mut client);
    assert!(changes.iter().filter(|(reason, _)| reason == "cold").count() >= 10, "{changes:?}");
    node.kill().unwrap();
    node.launch().unwrap();
    let mut client = Client::connect(&address).unwrap();
    assert_eq!(ask(&mut client, "SELECT k FROM e.t").len(), stay);
    assert_eq!(ring(&mut client).len(), 2);
    ask(&mut client, "INSERT INTO e.t (k, c, v) VALUES (1, 1, 'again')");
    assert_eq!(ask(&mut client, "SELECT k FROM e.t").len(), stay + 1);
}
