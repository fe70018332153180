//! Too few nodes are alive.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use protocol::{Consistency, ErrorKind};
use testkit::{Execution, eventually};

use crate::golden::wait_for_alive;
use crate::support::{SOON, ask, create_keyspace, get, int, ints, long, tell, three};

/// "At once": far less than any timeout, with room for a busy machine.
const AT_ONCE: Duration = Duration::from_millis(900);

#[test]
fn what_is_unavailable_is_told_at_once_and_never_done() {
    let mut cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "u");
    tell(&mut client, "CREATE TABLE u.t (k int PRIMARY KEY, v int)");
    tell(&mut client, "CREATE TABLE u.n (k int PRIMARY KEY, n counter)");
    tell(&mut client, "CREATE TABLE u.l (k int PRIMARY KEY, l list<int>)");
    tell(&mut client, "INSERT INTO u.t (k, v) VALUES (1, 1)");
    tell(&mut client, "UPDATE u.n SET n = n + 5 WHERE k = 1");
    tell(&mut client, "UPDATE u.l SET l = [1] WHERE k = 1");
    // Its member has it, too, before the others go.
    for table in ["u.t", "u.n", "u.l"] {
        let text = format!("SELECT * FROM {table} WHERE k = 1");
        let look = || (get(&mut client, &text, Consistency::One).len() == 1).then_some(());
        eventually("node 1 has the row", SOON, look).unwrap();
    }
    cluster.kill(2).unwrap();
    cluster.kill(3).unwrap();
    wait_for_alive(&mut client, "u.t", 1);
    let one = Execution::at(Consistency::One);
    // A weak read goes on.
    assert_eq!(int(&get(&mut client, "SELECT v FROM u.t WHERE k = 1", Consistency::One)[0], 0), 1);
    let refused = [
        "INSERT INTO u.t (k, v) VALUES (2, 2)",
        "UPDATE u.t SET v = 2 WHERE k = 1",
        "DELETE FROM u.t WHERE k = 1",
        "UPDATE u.t SET v = 3 WHERE k = 1 IF v = 1",
        "INSERT INTO u.t (k, v) VALUES (3, 3) IF NOT EXISTS",
        "UPDATE u.n SET n = n + 1 WHERE k = 1",
        "UPDATE u.l SET l = l + [2] WHERE k = 1",
        "BEGIN BATCH INSERT INTO u.t (k, v) VALUES (4, 4); DELETE FROM u.t WHERE k = 1; APPLY BATCH",
        "CREATE TABLE u.never (k int PRIMARY KEY)",
        "DROP TABLE u.t",
    ];
    for text in refused {
        for consistency in [Consistency::One, Consistency::Quorum, Consistency::All] {
            let begun = Instant::now();
            let told = ask(&mut client, text, &Execution::at(consistency)).unwrap();
            let took = begun.elapsed();
            match told.map_err(|error| error.kind) {
                Err(ErrorKind::Unavailable { required, alive, .. }) => {
                    let all = consistency == Consistency::All && !text.contains(" IF ");
                    let is_definition = text.contains("TABLE");
                    let expected = if all && !is_definition { 3 } else { 2 };
                    assert_eq!((required, alive), (expected, 1), "{text} at {consistency}");
                }
                other => panic!("{text} at {consistency}: {other:?}"),
            }
            assert!(took < AT_ONCE, "{text} at {consistency} took {took:?}");
        }
    }
    let told =
        ask(&mut client, "SELECT v FROM u.t WHERE k = 1", &Execution::at(Consistency::Serial));
    assert!(matches!(
        told.unwrap().unwrap_err().kind,
        ErrorKind::Unavailable { required: 2, alive: 1, .. }
    ));
    // A weak read goes on for some seconds, and is then refused: what it would say may be old.
    let text = "SELECT v FROM u.t WHERE k = 1";
    let look = || ask(&mut client, text, &one).unwrap().err();
    let error = eventually("a weak read is refused", SOON, look).unwrap();
    assert!(
        matches!(error.kind, ErrorKind::Unavailable { required: 2, alive: 1, .. }),
        "{error:?}"
    );
    cluster.restart_all().unwrap();
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        wait_for_alive(&mut client, "u.t", 3);
        let rows = tell(&mut client, "SELECT k, v FROM u.t");
        let rows: BTreeSet<(i32, i32)> =
            rows.iter().map(|row| (int(row, 0), int(row, 1))).collect();
        assert_eq!(rows, BTreeSet::from([(1, 1)]), "on node {node}");
        assert_eq!(long(&tell(&mut client, "SELECT n FROM u.n WHERE k = 1")[0], 0), 5);
        assert_eq!(ints(&tell(&mut client, "SELECT l FROM u.l WHERE k = 1")[0], 0), [1]);
        let text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'u'";
        assert_eq!(tell(&mut client, text).len(), 3);
    }
}

#[test]
fn all_nodes_are_stopped_and_killed_and_everything_is_there() {
    let mut cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "r");
    tell(&mut client, "CREATE TABLE r.t (k int PRIMARY KEY, v int)");
    tell(&mut client, "CREATE TABLE r.n (k int PRIMARY KEY, n counter)");
    let mut written = 0;
    for round in 0..2 {
        for node in 1..=3 {
            let mut client = cluster.client(node).unwrap();
            for _ in 0..20 {
                tell(&mut client, &format!("INSERT INTO r.t (k, v) VALUES ({written}, {written})"));
                tell(&mut client, "UPDATE r.n SET n = n + 1 WHERE k = 0");
                written += 1;
            }
        }
        tell(
            &mut cluster.client(2).unwrap(),
            &format!("CREATE TABLE r.made{round} (k int PRIMARY KEY)"),
        );
        match round {
            0 => cluster.stop_all().unwrap(),
            _ => cluster.kill_all().unwrap(),
        }
        cluster.restart_all().unwrap();
        for node in 1..=3 {
            let mut client = cluster.client(node).unwrap();
            // The first one waits for the others to lead.
            let look = || {
                ask(&mut client, "SELECT k, v FROM r.t", &Execution::at(Consistency::Quorum))
                    .unwrap()
                    .ok()
            };
            let rows = eventually("reads go on", SOON, look).unwrap();
            let found: BTreeSet<i32> = rows.iter().map(|row| int(row, 0)).collect();
            assert_eq!(found, (0..written).collect(), "node {node} after round {round}");
            let count = long(&tell(&mut client, "SELECT n FROM r.n WHERE k = 0")[0], 0);
            assert_eq!(count, i64::from(written), "node {node} after round {round}");
            let text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'r'";
            assert_eq!(tell(&mut client, text).len(), 3 + round, "node {node} after round {round}");
        }
    }
}

#[test]
fn witness() {
    let mut cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "r");
    let mut bad = 0;
    for round in 0..30 {
        let mut client = cluster.client(1).unwrap();
        let made = || {
            ask(
                &mut client,
                &format!("CREATE TABLE r.t{round} (k int PRIMARY KEY, v int)"),
                &Execution::at(Consistency::Quorum),
            )
            .unwrap()
            .ok()
        };
        eventually("made", SOON, made).unwrap();
        for k in 0..10 {
            tell(&mut client, &format!("INSERT INTO r.t{round} (k, v) VALUES ({k}, {k})"));
        }
        let before = cluster.log().len();
        cluster.stop_all().unwrap();
        cluster.restart_all().unwrap();
        for node in 1..=3 {
            let mut client = cluster.client(node).unwrap();
            for table in [round] {
                let look = || {
                    ask(
                        &mut client,
                        &format!("SELECT k FROM r.t{table}"),
                        &Execution::at(Consistency::Quorum),
                    )
                    .unwrap()
                    .ok()
                };
                let rows = eventually("reads", SOON, look).unwrap();
                if rows.len() != 10 {
                    bad += 1;
                    println!("round {round}, node {node}, table {table}: {} rows", rows.len());
                println!("{}", &cluster.log()[before..]);
                let facts = get(&mut client, &format!("SELECT set_id, role, leader, term, commit_index, applied_index, last_index, node FROM system_helenus.replicas WHERE node = {node} ALLOW FILTERING"), Consistency::One);
                    for row in &facts {
                        println!("{:?}", row.iter().map(|it| it.as_ref().map(|it| if it.len() == 8 { i64::from_be_bytes(it.clone().try_into().unwrap()).to_string() } else { String::from_utf8_lossy(it).into_owned() })).collect::<Vec<_>>());
                    }
                let _ = std::process::Command::new("cp").arg("-a").arg(cluster.folder(node)).arg("/tmp/wt-test-lostnode").status();
                }
            }
        }
    }
    println!(
        "{}",
        cluster.log().lines().filter(|it| it.contains("ERROR")).collect::<Vec<_>>().join("\n")
    );
    assert_eq!(bad, 0);
}
