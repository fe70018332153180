//! Batches over several replica sets and tables, while the nodes that coordinate and decide them are killed: all of each, or nothing.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use protocol::{Consistency, ErrorKind};
use testkit::{Client, Cluster, Execution, eventually};

use crate::support::{SOON, ask, create_keyspace, first_set, int, leader, long, tell, three_with};

/// Keys that batches write together, again and again.
const GROUPS: i32 = 3;
/// So long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many answers between two faults.
const BETWEEN: u64 = 40;

#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<i32>,
    /// Nothing of it may ever be there.
    refused: BTreeSet<i32>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    answered: AtomicU64,
    is_done: AtomicBool,
}

fn define(cluster: &Cluster) {
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "b");
    for text in [
        "CREATE TABLE b.r (k int PRIMARY KEY, v int)",
        "CREATE TABLE b.s (k int PRIMARY KEY, v int)",
        "CREATE TABLE b.n (k int PRIMARY KEY, n counter)",
    ] {
        tell(&mut client, text);
    }
}

/// Rows of its own in both tables, and rows that other batches write too.
fn batch(value: i32) -> String {
    let group = -1 - value % GROUPS;
    format!(
        "BEGIN BATCH INSERT INTO b.r (k, v) VALUES ({value}, 0); INSERT INTO b.s (k, v) VALUES ({value}, 0); \
         INSERT INTO b.r (k, v) VALUES ({group}, {value}); INSERT INTO b.s (k, v) VALUES ({group}, {value}); \
         INSERT INTO b.s (k, v) VALUES ({}, {value}); APPLY BATCH",
        group - 100
    )
}

fn counters() -> &'static str {
    "BEGIN COUNTER BATCH UPDATE b.n SET n = n + 1 WHERE k = 1; UPDATE b.n SET n = n + 1 WHERE k = 2; \
     UPDATE b.n SET n = n + 1 WHERE k = 3; APPLY BATCH"
}

fn run_client(address: &str, first: i32, shared: &Shared) {
    let mut client: Option<Client> = None;
    for value in first..first + 1_000_000 {
        while client.is_none() {
            if shared.is_done.load(Ordering::SeqCst) {
                return;
            }
            match Client::connect(address) {
                Ok(mut connected) => {
                    connected.set_patience(PATIENCE).unwrap();
                    client = Some(connected);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        if shared.is_done.load(Ordering::SeqCst) {
            return;
        }
        let Some(connected) = &mut client else { continue };
        let text = if value % 4 == 0 { counters().to_owned() } else { batch(value) };
        match ask(connected, &text, &Execution::at(Consistency::Quorum)) {
            Ok(Ok(_)) => {
                shared.answered.fetch_add(1, Ordering::SeqCst);
                if value % 4 != 0 {
                    shared.seen.lock().unwrap().acknowledged.insert(value);
                }
            }
            Ok(Err(error)) => match error.kind {
                ErrorKind::Unavailable { .. } | ErrorKind::Overloaded => {
                    shared.seen.lock().unwrap().refused.insert(value);
                }
                ErrorKind::WriteTimeout { .. } | ErrorKind::WriteFailure { .. } => {}
                _ => panic!("{} (0x{:04x})", error.message, error.kind.code()),
            },
            Err(_) => client = None,
        }
    }
}

fn wait(shared: &Shared) {
    let wanted = shared.answered.load(Ordering::SeqCst) + BETWEEN;
    let look = || (shared.answered.load(Ordering::SeqCst) >= wanted).then_some(());
    eventually("more answers", SOON, look).unwrap();
}

/// What is wrong with what a node holds, if anything is.
fn flaw(client: &mut Client) -> Option<String> {
    let mut of_table = |table: &str| -> BTreeSet<i32> {
        let rows = tell(client, &format!("SELECT k FROM {table}"));
        rows.iter().map(|row| int(row, 0)).filter(|key| *key >= 0).collect()
    };
    let (r, s) = (of_table("b.r"), of_table("b.s"));
    if r != s {
        let alone: Vec<&i32> = r.symmetric_difference(&s).collect();
        return Some(format!("in one table alone: {alone:?}"));
    }
    for group in 1..=GROUPS {
        let places = [("r", -group), ("s", -group), ("s", -group - 100)];
        let values = places.map(|(table, key)| {
            let rows = tell(client, &format!("SELECT v FROM b.{table} WHERE k = {key}"));
            rows.first().map(|row| int(row, 0))
        });
        if values.iter().any(|value| *value != values[0]) {
            return Some(format!("group {group}: {values:?}"));
        }
    }
    let counts = [1, 2, 3].map(|key| {
        let rows = tell(client, &format!("SELECT n FROM b.n WHERE k = {key}"));
        rows.first().map(|row| long(row, 0))
    });
    counts.iter().any(|count| *count != counts[0]).then(|| format!("counters: {counts:?}"))
}

#[test]
fn batches_are_done_as_a_whole_whoever_is_killed() {
    let mut cluster = three_with(&["partitions.per_space=4"]);
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "b");
    let shared = Shared::default();
    let addresses: Vec<String> = (1..=3).map(|node| cluster.address(node).to_owned()).collect();
    std::thread::scope(|scope| {
        for (number, address) in (0..6).zip(addresses.iter().cycle()) {
            let shared = &shared;
            scope.spawn(move || run_client(address, number * 1_000_000, shared));
        }
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait(&shared);
            for _ in 0..2 {
                // It leads sets that decide batches, and coordinates others.
                let lost = leader(&cluster, 1, set);
                cluster.kill(lost).unwrap();
                wait(&shared);
                cluster.restart(lost).unwrap();
                wait(&shared);
            }
            (1..=3).for_each(|node| cluster.kill(node).unwrap());
            (1..=3).for_each(|node| cluster.restart(node).unwrap());
            wait(&shared);
        }));
        shared.is_done.store(true, Ordering::SeqCst);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
    let seen = shared.seen.into_inner().unwrap();
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        let mut last = None;
        // What nobody waits for any more is done all the same, in a moment.
        let look = || {
            last = flaw(&mut client);
            last.is_none().then_some(())
        };
        let is_whole = eventually("every batch is whole", SOON, look);
        assert!(is_whole.is_ok(), "node {node}: {last:?}");
        let rows = tell(&mut client, "SELECT k FROM b.r");
        let there: BTreeSet<i32> = rows.iter().map(|row| int(row, 0)).collect();
        let lost: Vec<&i32> = seen.acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "node {node}: acknowledged and not there: {lost:?}");
        let undead: Vec<&i32> = seen.refused.intersection(&there).collect();
        assert!(undead.is_empty(), "node {node}: refused and there: {undead:?}");
    }
    println!("{} batches, {} refused", seen.acknowledged.len(), seen.refused.len());
    assert!(seen.acknowledged.len() > 100, "too little was done to prove anything");
}

/// A batch whose position in a list is not there does nothing, wherever the rest of it lies; and one writes lists, sets and
/// rows of many partitions at once.
#[test]
fn a_batch_over_partitions_is_refused_as_a_whole() {
    let cluster = three_with(&["partitions.per_space=4"]);
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "l");
    tell(&mut client, "CREATE TABLE l.t (k int PRIMARY KEY, l list<int>, v int)");
    let insert = |key: i32| format!("INSERT INTO l.t (k, l, v) VALUES ({key}, [1, 2], 0);");
    let inserts: String = (0..16).map(insert).collect();
    tell(&mut client, &format!("BEGIN BATCH {inserts} APPLY BATCH"));
    let set =
        |key: i32, index: i32| format!("UPDATE l.t SET l[{index}] = 9, v = 1 WHERE k = {key};");
    let mut sets: String = (0..15).map(|key| set(key, 1)).collect();
    let bad = format!("BEGIN BATCH {sets} {} APPLY BATCH", set(15, 2));
    let error = ask(&mut client, &bad, &Execution::at(Consistency::Quorum)).unwrap().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Invalid), "{}", error.message);
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        let rows = tell(&mut client, "SELECT v FROM l.t");
        assert_eq!(rows.iter().map(|row| int(row, 0)).collect::<Vec<_>>(), [0; 16]);
    }
    sets += &set(15, 1);
    tell(&mut client, &format!("BEGIN BATCH {sets} APPLY BATCH"));
    tell(&mut client, &format!("BEGIN UNLOGGED BATCH {sets} APPLY BATCH"));
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        let rows = tell(&mut client, "SELECT v, WRITETIME(v) FROM l.t");
        assert_eq!(rows.iter().map(|row| int(row, 0)).collect::<Vec<_>>(), [1; 16]);
    }
    // One time for all of it.
    let marks: String =
        (0..16).map(|key| format!("UPDATE l.t SET v = 2 WHERE k = {key};")).collect();
    tell(&mut client, &format!("BEGIN BATCH {marks} APPLY BATCH"));
    let times: BTreeSet<i64> =
        tell(&mut client, "SELECT WRITETIME(v) FROM l.t").iter().map(|row| long(row, 0)).collect();
    assert_eq!(times.len(), 1);
}
