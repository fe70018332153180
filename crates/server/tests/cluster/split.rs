//! Physical partitions of several members are split under clients, and while a member is away.

use std::sync::atomic::{AtomicBool, Ordering};

use protocol::Consistency;
use testkit::{Cluster, Ends, Execution, eventually};

use crate::support::{SOON, ask, get_in_the_end, int, long, seed, tell, three};
use crate::workload::{define, run};

/// Answers for the clients of each node between two splits.
const BETWEEN: u64 = 25;
/// Where sets are split, one after the other.
const TOKENS: [i64; 5] = [0, 4 << 60, -(4 << 60), 2 << 60, -(2 << 60)];

fn sets(cluster: &Cluster, node: usize) -> Vec<i32> {
    let text = "SELECT id FROM system_helenus.physical_partitions WHERE space = 'w'";
    let mut client = cluster.client(node).unwrap();
    tell(&mut client, text).iter().map(|row| int(row, 0)).collect()
}

/// Batches over many keys, of which each is one of several sets sooner or later. None may fail.
fn write_batches(cluster: &str, is_done: &AtomicBool) -> i32 {
    let mut client = testkit::Client::connect(cluster).unwrap();
    let mut rounds = 0;
    while !is_done.load(Ordering::SeqCst) {
        rounds += 1;
        for kind in ["UNLOGGED", ""] {
            let rows =
                (0..12).map(|k| format!("INSERT INTO w.more (k, v) VALUES ({k}, {rounds});"));
            let batch = format!("BEGIN {kind} BATCH {} APPLY BATCH", rows.collect::<String>());
            tell(&mut client, &batch);
        }
        tell(&mut client, "UPDATE w.more SET n = n + [1] WHERE k IN (0, 1, 2, 3, 4, 5)");
    }
    rounds
}

#[test]
fn sets_are_split_under_load_and_no_request_fails() {
    let seed = seed();
    let mut cluster = three();
    define(&cluster);
    let mut client = cluster.client(1).unwrap();
    tell(&mut client, "CREATE TABLE w.more (k int PRIMARY KEY, v int, n list<int>)");
    let before = sets(&cluster, 1).len();
    let (is_done, address) = (AtomicBool::new(false), cluster.address(2).to_owned());
    let (seen, rounds) = std::thread::scope(|scope| {
        let batches = scope.spawn(|| write_batches(&address, &is_done));
        let _ends = Ends(&is_done);
        let seen = run(&mut cluster, seed, |cluster, progress| {
            for (number, token) in TOKENS.iter().enumerate() {
                progress.wait(1..=3, BETWEEN);
                let token = format!("--token={token}");
                cluster.command(number % 3 + 1, &["split", "w", &token]).unwrap();
            }
            progress.wait(1..=3, BETWEEN);
            is_done.store(true, Ordering::SeqCst);
        });
        (seen, batches.join().unwrap())
    });
    for node in 1..=3 {
        let are_split = || (sets(&cluster, node).len() == before + TOKENS.len()).then_some(());
        eventually(&format!("node {node} knows all halves"), SOON, are_split).unwrap();
    }
    assert!(rounds > 0);
    for k in 0..12 {
        let row = tell(&mut client, &format!("SELECT v FROM w.more WHERE k = {k}"));
        assert_eq!(int(&row[0], 0), rounds, "key {k}");
    }
    let listed = tell(&mut client, "SELECT n FROM w.more WHERE k IN (0, 1, 2, 3, 4, 5)");
    for row in &listed {
        assert_eq!(crate::support::ints(row, 0).len(), usize::try_from(rounds).unwrap());
    }
    assert_eq!(seen.failures(), 0, "a split fails no request");
    seen.judge();
}

#[test]
fn a_member_that_was_away_during_a_split_comes_back_by_itself() {
    let mut cluster = three();
    define(&cluster);
    let mut client = cluster.client(1).unwrap();
    let insert = |client: &mut testkit::Client, k: i32| {
        tell(client, &format!("INSERT INTO w.rows (k) VALUES ({k})"));
    };
    (0..50).for_each(|k| insert(&mut client, k));
    cluster.kill(3).unwrap();
    for token in TOKENS.iter().take(2) {
        // Nobody hands leadership to who is not there, and writers may have to wait for another leader.
        let token = format!("--token={token}");
        let look = || cluster.command(1, &["split", "w", &token]).ok();
        eventually("two of three split", SOON, look).unwrap();
    }
    (50..100).for_each(|k| insert(&mut client, k));
    cluster.restart(3).unwrap();
    let mut back = cluster.client(3).unwrap();
    let expected = sets(&cluster, 1);
    let look = || {
        let held = tell(&mut back, "SELECT set_id, node FROM system_helenus.replicas");
        let own = held.iter().filter(|row| long(row, 1) == 3);
        let own: Vec<i32> = own.filter_map(|row| i32::try_from(long(row, 0)).ok()).collect();
        let rows = ask(&mut back, "SELECT k FROM w.rows", &Execution::at(Consistency::One));
        let has_all = rows.ok()?.ok()?.len() == 100;
        (has_all && expected.iter().all(|set| own.contains(set))).then_some(())
    };
    eventually("node 3 has its members of all halves", SOON, look).unwrap();
    // It counts again: without another one there still is a quorum.
    cluster.kill(2).unwrap();
    let look = || {
        let insert = "INSERT INTO w.rows (k) VALUES (1000)";
        ask(&mut back, insert, &Execution::at(Consistency::Quorum)).ok()?.ok()
    };
    eventually("nodes 1 and 3 decide", SOON, look).unwrap();
    for key in 0..20 {
        insert(&mut back, 2_000 + key);
    }
    assert_eq!(get_in_the_end(&mut back, "SELECT k FROM w.rows").len(), 121);
}
