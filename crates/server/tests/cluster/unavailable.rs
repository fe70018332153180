//! Too few nodes are alive.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use protocol::{Consistency, ErrorKind};
use testkit::{Execution, eventually};

use crate::golden::wait_for_alive;
use crate::support::{SOON, ask, create_keyspace, get, int, ints, long, tell, three};

/// "At once": less than any timeout, with room for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(6);

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
    let begun = Instant::now();
    cluster.kill(2).unwrap();
    cluster.kill(3).unwrap();
    wait_for_alive(&mut client, "u.t", 1);
    let one = Execution::at(Consistency::One);
    // A weak read goes on, for ten seconds.
    let weak = ask(&mut client, "SELECT v FROM u.t WHERE k = 1", &one).unwrap();
    assert!(weak.is_ok() || begun.elapsed() > Duration::from_secs(9), "{weak:?}");
    assert!(weak.into_iter().flatten().all(|row| int(&row, 0) == 1));
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

/// The last definition before an end is one that the nodes followed, and whose commit their logs may not tell: a node that went back
/// to the one before dropped the table, with its rows, on its way.
#[test]
fn all_nodes_are_stopped_and_killed_and_everything_is_there() {
    const ROUNDS: usize = 5;
    const ROWS_EACH: usize = 5;
    let mut cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "r");
    tell(&mut client, "CREATE TABLE r.n (k int PRIMARY KEY, n counter)");
    for round in 0..ROUNDS {
        tell(
            &mut cluster.client(round % 3 + 1).unwrap(),
            &format!("CREATE TABLE r.t{round} (k int PRIMARY KEY)"),
        );
        for node in 1..=3 {
            let mut client = cluster.client(node).unwrap();
            for row in 0..ROWS_EACH {
                let key = node * 100 + row;
                tell(&mut client, &format!("INSERT INTO r.t{round} (k) VALUES ({key})"));
                tell(&mut client, "UPDATE r.n SET n = n + 1 WHERE k = 0");
            }
        }
        match round % 2 {
            0 => cluster.stop_all().unwrap(),
            _ => cluster.kill_all().unwrap(),
        }
        cluster.restart_all().unwrap();
        for node in 1..=3 {
            let mut client = cluster.client(node).unwrap();
            // The first one waits until there is a leader, which is no matter of a request's time.
            let asked = "SELECT n FROM r.n WHERE k = 0";
            let look =
                || ask(&mut client, asked, &Execution::at(Consistency::Quorum)).unwrap().ok();
            let counted = eventually("reads go on", SOON, look).unwrap();
            let expected = (round + 1) * ROWS_EACH * 3;
            assert_eq!(long(&counted[0], 0), expected as i64, "node {node} after round {round}");
            for table in 0..=round {
                let rows = tell(&mut client, &format!("SELECT k FROM r.t{table}"));
                let what = format!("table {table} on node {node} after round {round}");
                assert_eq!(rows.len(), 3 * ROWS_EACH, "{what}");
            }
        }
        // Whoever leads now can define the next.
        let mut client = cluster.client((round + 1) % 3 + 1).unwrap();
        wait_for_alive(&mut client, "r.n", 3);
    }
}
