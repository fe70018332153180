//! What is provisioned is spent through all nodes together, and every node tells what all did.

use std::time::{Duration, Instant};

use protocol::Consistency;
use testkit::{Client, Execution, eventually};

use crate::support::{Row, SOON, ask, create_keyspace, get, tell, text, three};

const RATE: f64 = 400.0;
const TIME: Duration = Duration::from_secs(8);
const OVERLOADED: i32 = 0x1001;

fn double(row: &Row, column: usize) -> f64 {
    f64::from_be_bytes(row[column].clone().unwrap().try_into().unwrap())
}

/// What a client asked for, in requests.
#[derive(Debug)]
struct Asked {
    level: Consistency,
    served: u64,
    refused: u64,
}

impl Asked {
    /// In request units: strong reads cost twice as much.
    fn units(&self, requests: u64) -> f64 {
        let each = if self.level == Consistency::One { 1.0 } else { 2.0 };
        each * requests as f64
    }
}

/// Reads rows that are not there, one request unit each, as fast as it may.
fn read(mut client: Client, level: Consistency) -> Asked {
    let end = Instant::now() + TIME;
    let mut asked = Asked { level, served: 0, refused: 0 };
    while Instant::now() < end {
        match ask(&mut client, "SELECT v FROM b.t WHERE k = 7", &Execution::at(level)).unwrap() {
            Ok(_) => asked.served += 1,
            Err(error) => {
                assert_eq!(error.kind.code(), OVERLOADED, "{}", error.message);
                asked.refused += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
    asked
}

#[test]
fn nodes_spend_one_budget_together() {
    let cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "b");
    tell(
        &mut client,
        "CREATE TABLE b.t (k int PRIMARY KEY, v int) WITH cosmosdb_provisioned_throughput = 400",
    );
    // Weak reads, which every node answers by itself, and on one of them strong ones, which cost twice as much.
    let levels = [Consistency::One, Consistency::One, Consistency::Quorum];
    let begun = Instant::now();
    let readers: Vec<_> = (1..)
        .zip(levels)
        .map(|(node, level)| {
            let client = cluster.client(node).unwrap();
            std::thread::spawn(move || read(client, level))
        })
        .collect();
    let asked: Vec<Asked> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    // Not all begin and end at once.
    let whole = RATE * begun.elapsed().as_secs_f64();
    let spent: f64 = asked.iter().map(|it| it.units(it.served)).sum();
    assert!(spent <= whole * 1.1, "{asked:?}: {spent} of {whole}");
    // A busy machine may not ask for all of it.
    let wanted: f64 = asked.iter().map(|it| it.units(it.served + it.refused)).sum();
    assert!(spent >= whole.min(wanted) * 0.4, "{asked:?}: {spent} of {whole}");
    assert!(asked.iter().all(|it| it.served > 20), "{asked:?}");
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        let look = || {
            let usage = "SELECT charge FROM system_helenus.usage WHERE space = 'b.t'";
            let known: f64 =
                get(&mut client, usage, Consistency::One).iter().map(|row| double(row, 0)).sum();
            ((known - spent).abs() <= spent * 0.02 + 5.0).then_some(())
        };
        eventually(&format!("node {node} knows what all spent"), SOON, look).unwrap();
    }
}

#[test]
fn every_node_tells_sizes_and_heat_of_the_set() {
    let cluster = three();
    let mut clients: Vec<Client> = (1..=3).map(|node| cluster.client(node).unwrap()).collect();
    create_keyspace(&mut clients[0], "h");
    tell(&mut clients[0], "CREATE TABLE h.t (k int PRIMARY KEY, v text)");
    let end = Instant::now() + Duration::from_secs(4);
    let mut number = 0;
    while Instant::now() < end {
        // All of it through two nodes, one key most of the time.
        let key = if number % 4 == 0 { number } else { 1 };
        let text = format!("INSERT INTO h.t (k, v) VALUES ({key}, 'a value')");
        tell(&mut clients[1 + number % 2], &text);
        number += 1;
    }
    let sizes = |client: &mut Client| -> Vec<Row> {
        let asked =
            "SELECT id, bytes, rows FROM system_helenus.physical_partitions WHERE space = 'h'";
        get(client, asked, Consistency::One)
    };
    let look = || {
        let first = sizes(&mut clients[0]);
        clients.iter_mut().all(|client| sizes(client) == first).then_some(first)
    };
    let told = eventually("sizes are the same on all nodes", SOON, look).unwrap();
    assert!(!told.is_empty());
    // Node 1 coordinated nothing, and knows the busiest key all the same: as long as it is busy.
    for place in 0..clients.len() {
        let hottest = || {
            for number in 0..20 {
                let write = "INSERT INTO h.t (k, v) VALUES (1, 'a value')";
                tell(&mut clients[1 + number % 2], write);
            }
            let asked = "SELECT partition_key, ru_s FROM system_helenus.logical_partitions WHERE keyspace_name = 'h' AND table_name = 't'";
            let rows = get(&mut clients[place], asked, Consistency::One);
            rows.iter().any(|row| text(row, 0) == "1" && double(row, 1) > 0.5).then_some(())
        };
        eventually("the hottest key is known", SOON, hottest).unwrap();
    }
}
