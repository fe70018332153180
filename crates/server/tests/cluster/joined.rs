//! Nodes come and go under clients, and what they were told is judged.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::Consistency;
use serde_json::Value;
use testkit::{Client, Cluster, Ends, Execution, Node, eventually};

use crate::support::{
    MOVED_WITHIN, SOON, ask, cluster_of, create_keyspace, get_in_the_end, int, seed, tell,
    tell_when_available,
};
use crate::workload::{define, run};

/// Answers for the clients of each node between two changes.
const BETWEEN: u64 = 40;

/// A row of `helenus nodes`, as a node that is asked knows another.
fn row(cluster: &Cluster, asked: usize, node: usize) -> Option<Value> {
    let text = cluster.command(asked, &["nodes", "--json"]).ok()?;
    let answer: Value = serde_json::from_str(&text).ok()?;
    let rows = answer.get("nodes")?.as_array()?;
    rows.iter().find(|row| row["node"] == node as u64).cloned()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
}

/// Waits until a node has members and leads some of their sets.
fn wait_until_it_works(cluster: &Cluster, asked: usize, node: usize) {
    let look = || {
        let row = row(cluster, asked, node)?;
        (row["state"] == "up" && number(&row, "sets") > 1 && number(&row, "leads") > 0)
            .then_some(())
    };
    eventually(&format!("node {node} works"), MOVED_WITHIN, look).unwrap();
}

/// Waits until no set gets other members.
fn wait_until_settled(cluster: &Cluster, asked: usize) {
    let mut calm = 0;
    let look = || {
        let text = cluster.command(asked, &["nodes", "--json"]).ok()?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        let is_calm = answer["moving"].as_array()?.is_empty();
        calm = if is_calm { calm + 1 } else { 0 };
        (calm > 3).then_some(())
    };
    eventually("no set moves", MOVED_WITHIN, look).unwrap();
}

fn four(settings: &[&str]) -> Cluster {
    cluster_of(4, settings)
}

#[test]
fn a_fifth_node_joins_and_one_leaves_and_nothing_is_lost() {
    let seed = seed();
    let mut cluster = four(&["partitions.per_space=3"]);
    define(&cluster);
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        let fifth = cluster.add().unwrap();
        assert_eq!(fifth, 5);
        wait_until_it_works(cluster, 1, fifth);
        progress.wait(1..=4, BETWEEN);
        wait_until_settled(cluster, 1);
        // A node is emptied, and goes; its clients find nobody there.
        cluster.command(2, &["decommission"]).unwrap();
        cluster.wait_for_end(2).unwrap();
        progress.wait([1, 3, 4], BETWEEN);
        let gone = || row(cluster, 1, 2).is_none().then_some(());
        eventually("node 2 is gone", SOON, gone).unwrap();
        // One that left does not come back.
        cluster.begin_restart(2).unwrap();
        cluster.wait_for_end(2).unwrap();
        // What is left may lose one.
        wait_until_settled(cluster, 1);
        cluster.kill(4).unwrap();
        progress.wait([1, 3], BETWEEN);
        cluster.restart(4).unwrap();
        progress.wait([1, 3, 4], BETWEEN);
    });
    seen.judge();
}

#[test]
fn a_node_that_is_drained_leads_nothing_and_no_client_sees_an_error() {
    let mut cluster = four(&["partitions.per_space=3"]);
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "d");
    tell(&mut client, "CREATE TABLE d.t (k int PRIMARY KEY, v int)");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, address) = (&stop, cluster.address(1).to_owned());
        let writer = scope.spawn(move || {
            let mut client = Client::connect(&address).unwrap();
            let mut count = 0;
            while !stop.load(Ordering::SeqCst) {
                let insert = format!("INSERT INTO d.t (k, v) VALUES ({count}, 1)");
                tell_when_available(&mut client, &insert);
                count += 1;
            }
            count
        });
        let _ends = Ends(stop);
        for node in 2..=4 {
            cluster.command(node, &["drain"]).unwrap();
            // Who is elected meanwhile hands it over.
            let rests = || row(&cluster, node, node).filter(|row| number(row, "leads") == 0);
            eventually("it leads nothing", SOON, rests).unwrap();
            cluster.stop(node).unwrap();
            cluster.restart(node).unwrap();
            cluster.command(node, &["drain", "--cancel"]).unwrap();
            let is_up = || row(&cluster, 1, node).filter(|row| row["state"] == "up");
            eventually("it is up again", SOON, is_up).unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        let count = writer.join().unwrap();
        assert!(count > 50, "{count} rows");
        assert_eq!(tell(&mut client, "SELECT k FROM d.t").len(), count);
    });
}

#[test]
fn what_a_removed_node_held_is_made_anew_and_it_does_not_come_back() {
    let mut cluster = four(&["partitions.per_space=2"]);
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "r");
    tell(&mut client, "CREATE TABLE r.t (k int PRIMARY KEY, v int)");
    for k in 0..200 {
        tell(&mut client, &format!("INSERT INTO r.t (k, v) VALUES ({k}, {k})"));
    }
    let fifth = cluster.add().unwrap();
    wait_until_it_works(&cluster, 1, fifth);
    wait_until_settled(&cluster, 1);
    // Who is there is not removed.
    let error = cluster.command(1, &["remove", "3"]).unwrap_err().to_string();
    assert!(error.contains("decommission") || error.contains("alive"), "{error}");
    cluster.kill(3).unwrap();
    let removed = || cluster.command(1, &["remove", "3"]).ok();
    eventually("a dead node is removed", SOON, removed).unwrap();
    wait_until_settled(&cluster, 1);
    // Every set has four members again: any one of them may go.
    let all = || {
        let execution = Execution::at(Consistency::All);
        let rows = ask(&mut client, "SELECT k FROM r.t", &execution).unwrap().ok()?;
        (rows.len() == 200).then_some(())
    };
    eventually("all four members of each set answer", MOVED_WITHIN, all).unwrap();
    // It is not let in, is told why, and stops; and does not start again.
    for _ in 0..2 {
        cluster.begin_restart(3).unwrap();
        cluster.wait_for_end(3).unwrap();
    }
    assert!(row(&cluster, 1, 3).is_none());
    assert_eq!(tell(&mut client, "SELECT k FROM r.t").len(), 200);
}

#[test]
fn a_node_that_ran_alone_becomes_the_first_of_a_cluster() {
    let binary = Path::new(env!("CARGO_BIN_EXE_helenus"));
    let mesh = testkit::free_port_on(4).unwrap();
    let mesh_of = |node: usize| format!("cluster.listen=127.0.0.{node}:{mesh}");
    let mut first = Node::start(binary, &["--set", &mesh_of(1)]).unwrap();
    let mut client = Client::connect(&first.address()).unwrap();
    create_keyspace(&mut client, "a");
    tell(&mut client, "CREATE TABLE a.t (k int PRIMARY KEY, v text)");
    tell(&mut client, "CREATE TABLE a.n (k int PRIMARY KEY, n counter)");
    tell(&mut client, "CREATE INDEX ON a.t (v)");
    for k in 0..100 {
        tell(&mut client, &format!("INSERT INTO a.t (k, v) VALUES ({k}, 'v{}')", k % 3));
        tell(&mut client, "UPDATE a.n SET n = n + 1 WHERE k = 1");
    }
    let token = |first: &Node| {
        let answer = first.command(&["token", "--json"]).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["token"].as_str().unwrap().to_owned()
    };
    let used = token(&first);
    let join = format!("127.0.0.1:{mesh}");
    let mut others = Vec::new();
    for node in 2..=4 {
        let token = if node == 2 { used.clone() } else { token(&first) };
        let mesh = mesh_of(node);
        let words = ["--join", &join, "--token", &token, "--set", &mesh];
        others.push(Node::join(binary, node as u8, &words).unwrap());
        if node == 2 {
            // Once is once.
            let mesh = mesh_of(5);
            let words = ["--join", &join, "--token", &used, "--set", &mesh];
            assert!(Node::join(binary, 5, &words).is_err(), "a token was used twice");
        }
    }
    let is_whole = || {
        let answer = first.command(&["nodes", "--json"]).ok()?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        let rows = answer["nodes"].as_array()?;
        let all = rows.len() == 4 && rows.iter().all(|row| number(row, "sets") > 1);
        (all && answer["moving"].as_array()?.is_empty()).then_some(())
    };
    eventually("all four have everything", MOVED_WITHIN, is_whole).unwrap();
    for node in others.iter().chain([&first]) {
        let mut client = Client::connect(&node.address()).unwrap();
        assert_eq!(tell(&mut client, "SELECT * FROM a.t").len(), 100);
        assert_eq!(tell(&mut client, "SELECT * FROM a.t WHERE v = 'v1'").len(), 33);
    }
    // The one with which it began is lost for good; nothing else is.
    first.kill().unwrap();
    let mut client = Client::connect(&others[0].address()).unwrap();
    let asked = "SELECT k FROM a.t";
    let look = || ask(&mut client, asked, &Execution::at(Consistency::Quorum)).unwrap().ok();
    assert_eq!(eventually("the others go on", SOON, look).unwrap().len(), 100);
    let row = &get_in_the_end(&mut client, "SELECT CAST(n AS int) FROM a.n WHERE k = 1")[0];
    assert_eq!(int(row, 0), 100);
}
