//! More nodes than a set has members: every node answers every request, whether it has the rows or not.

use std::collections::BTreeSet;
use std::path::PathBuf;

use protocol::{Consistency, Response};
use testkit::{Client, Cluster, Execution, eventually, golden};

use crate::everywhere::{all_at_once, answers};
use crate::support::{
    MOVED_WITHIN, SOON, ask, cluster_of, create_keyspace, first_set, get, get_in_the_end, int,
    ints, long, tell,
};

const NODES: u8 = 6;

fn six(settings: &[&str]) -> Cluster {
    cluster_of(NODES, settings)
}

fn clients(cluster: &Cluster) -> Vec<Client> {
    (1..=usize::from(NODES)).map(|node| cluster.client(node).unwrap()).collect()
}

/// The sets of a space that a node has members of.
fn held(client: &mut Client, node: usize) -> BTreeSet<i32> {
    let text = "SELECT set_id, node FROM system_helenus.replicas";
    let rows = tell(client, text);
    let own = rows.iter().filter(|row| long(row, 1) == node as i64);
    own.filter_map(|row| i32::try_from(long(row, 0)).ok()).collect()
}

fn sets_of(client: &mut Client, space: &str) -> BTreeSet<i32> {
    let text = format!("SELECT id FROM system_helenus.physical_partitions WHERE space = '{space}'");
    tell(client, &text).iter().map(|row| int(row, 0)).collect()
}

/// What is asked through every node, and how many rows it has.
const READS: &[(&str, usize)] = &[
    ("SELECT * FROM p.t WHERE k = 7", 4),
    ("SELECT * FROM p.t WHERE k = 7 AND c > 1", 2),
    ("SELECT * FROM p.t WHERE k = 7 ORDER BY c DESC LIMIT 2", 2),
    ("SELECT * FROM p.t WHERE k IN (1, 2, 3, 4, 5, 6) AND c = 0", 6),
    ("SELECT * FROM p.t", 160),
    ("SELECT * FROM p.t LIMIT 33", 33),
    ("SELECT * FROM p.t PER PARTITION LIMIT 1", 40),
    ("SELECT DISTINCT k, s FROM p.t", 40),
    ("SELECT count(*) FROM p.t", 1),
    ("SELECT k, sum(v) FROM p.t GROUP BY k", 40),
    ("SELECT max(v), min(v) FROM p.t WHERE k = 3", 1),
    ("SELECT * FROM p.t WHERE v > 100 ALLOW FILTERING", 59),
    ("SELECT * FROM p.t WHERE w = 'even'", 80),
    ("SELECT * FROM p.t WHERE k = 7 AND w = 'even'", 2),
    ("SELECT * FROM p.t WHERE k = 7 AND c = 2 AND w = 'even'", 1),
    ("SELECT k, l, m['a'] FROM p.l WHERE k = 2", 1),
    ("SELECT TTL(v) FROM p.t WHERE k = 1000 AND c = 0", 0),
    ("SELECT * FROM p.t WHERE token(k) > 0", usize::MAX),
    ("SELECT JSON * FROM p.t WHERE k = 7", 4),
];

fn fill(clients: &mut [Client]) {
    let first = &mut clients[0];
    create_keyspace(first, "p");
    tell(first, "CREATE TABLE p.t (k int, c int, s int static, v int, w text, PRIMARY KEY (k, c))");
    tell(first, "CREATE INDEX by_w ON p.t (w)");
    tell(first, "CREATE TABLE p.n (k int PRIMARY KEY, n counter)");
    tell(first, "CREATE TABLE p.l (k int PRIMARY KEY, l list<int>, m map<text, int>)");
    for k in 0..40 {
        let count = clients.len();
        let client = &mut clients[k % count];
        tell(client, &format!("UPDATE p.t SET s = {k} WHERE k = {k}"));
        for c in 0..4 {
            let (v, w) = (k * 4 + c, if c % 2 == 0 { "even" } else { "odd" });
            let columns = format!("({k}, {c}, {v}, '{w}')");
            tell(client, &format!("INSERT INTO p.t (k, c, v, w) VALUES {columns}"));
        }
        tell(client, &format!("UPDATE p.l SET l = [{k}, 1], m = {{'a': {k}}} WHERE k = {k}"));
    }
}

/// Pages, each from another node than the one before.
fn pages(clients: &mut [Client], text: &str, size: i32) -> Vec<(i32, i32)> {
    let (mut found, mut paging_state) = (Vec::new(), None);
    for turn in 0.. {
        let count = clients.len();
        let client = &mut clients[turn % count];
        let execution = Execution {
            page_size: Some(size),
            paging_state,
            consistency: Some(Consistency::Quorum),
            ..Execution::default()
        };
        let Response::Rows(rows) = client.query(text, &execution).unwrap().response else {
            panic!("{text}: no rows");
        };
        for row in rows.rows() {
            let number =
                |cell: Option<&[u8]>| i32::from_be_bytes(cell.unwrap().try_into().unwrap());
            let cells: Vec<_> = row.iter().collect();
            found.push((number(*cells[0]), number(*cells[1])));
        }
        paging_state = rows.metadata.paging_state.clone();
        if paging_state.is_none() {
            return found;
        }
    }
    unreachable!("pages end");
}

fn read_alike(clients: &mut [Client], level: Consistency) {
    for (text, count) in READS {
        let first = get(&mut clients[0], text, level);
        assert!(*count == usize::MAX || first.len() == *count, "{text}: {} rows", first.len());
        for (place, client) in clients.iter_mut().enumerate().skip(1) {
            assert_eq!(get(client, text, level), first, "{text} at {level}, node {}", place + 1);
        }
    }
}

/// Everything that changes rows, through one node; what it did is looked at through another.
fn write_alike(clients: &mut [Client], round: usize) {
    let count = clients.len();
    let at = |turn: usize| (round + turn) % count;
    let k = 1_000 + round;
    let applied = |rows: Vec<Vec<Option<Vec<u8>>>>| rows[0][0] == Some(vec![1]);
    let insert = format!("INSERT INTO p.t (k, c, v) VALUES ({k}, 0, 1) IF NOT EXISTS");
    assert!(applied(tell(&mut clients[at(0)], &insert)), "{insert}");
    let again = tell(&mut clients[at(1)], &insert);
    assert!(again[0].len() > 1 && !applied(again), "the row is told: {insert}");
    let update = format!("UPDATE p.t SET v = 2 WHERE k = {k} AND c = 0 IF v = 1");
    assert!(applied(tell(&mut clients[at(2)], &update)), "{update}");
    // A condition on a static column answers with the first row of its partition.
    let of_static = format!("UPDATE p.t SET s = 9 WHERE k = {k} IF s = 4");
    assert!(!applied(tell(&mut clients[at(3)], &of_static)));
    for turn in 0..4 {
        let add = format!("UPDATE p.n SET n = n + {} WHERE k = {k}", turn + 1);
        tell(&mut clients[at(turn)], &add);
        tell(&mut clients[at(turn)], &format!("UPDATE p.l SET l = l + [{turn}] WHERE k = {k}"));
    }
    let counted = tell(&mut clients[at(5)], &format!("SELECT n FROM p.n WHERE k = {k}"));
    assert_eq!(long(&counted[0], 0), 10);
    let listed = tell(&mut clients[at(5)], &format!("SELECT l FROM p.l WHERE k = {k}"));
    assert_eq!(ints(&listed[0], 0), [0, 1, 2, 3]);
    let batch = format!(
        "BEGIN BATCH INSERT INTO p.t (k, c, v) VALUES ({k}, 1, 5); \
         DELETE FROM p.t WHERE k = {k} AND c = 0; APPLY BATCH"
    );
    tell(&mut clients[at(1)], &batch);
    let rows = tell(&mut clients[at(2)], &format!("SELECT c, v FROM p.t WHERE k = {k}"));
    assert_eq!((rows.len(), int(&rows[0], 0), int(&rows[0], 1)), (1, 1, 5));
    tell(
        &mut clients[at(3)],
        &format!("INSERT INTO p.t (k, c, v) VALUES ({k}, 7, 7) USING TTL 90"),
    );
    let rows =
        tell(&mut clients[at(4)], &format!("SELECT TTL(v) FROM p.t WHERE k = {k} AND c = 7"));
    assert!((1..=90).contains(&int(&rows[0], 0)));
    tell(&mut clients[at(5)], &format!("DELETE FROM p.t WHERE k = {k}"));
    assert!(tell(&mut clients[at(0)], &format!("SELECT * FROM p.t WHERE k = {k}")).is_empty());
    let explain = format!("EXPLAIN UPDATE p.t SET v = 1 WHERE k = {k} AND c = 1");
    assert!(!tell(&mut clients[at(1)], &explain).is_empty());
}

#[test]
fn six_nodes_answer_alike_and_go_on_without_one() {
    let mut cluster = six(&["partitions.per_space=6"]);
    let mut clients = clients(&cluster);
    fill(&mut clients);
    // Four of six have each set, and all of them about as many, in the end: sets may be on their way to nodes that had less.
    let sets = sets_of(&mut clients[0], "p");
    assert_eq!(sets.len(), 6);
    let mut seen = Vec::new();
    let is_even = || {
        seen = clients.iter_mut().enumerate().map(|(at, it)| held(it, at + 1)).collect();
        let of_space: usize = seen.iter().map(|own| own.intersection(&sets).count()).sum();
        let counts = seen.iter().map(BTreeSet::len);
        let apart = counts.clone().max().unwrap() - counts.min().unwrap();
        (of_space == sets.len() * 4 && apart <= 2).then_some(())
    };
    let even = eventually("sets lie evenly", MOVED_WITHIN, is_even);
    assert!(even.is_ok(), "{even:?}: {seen:?}");
    read_alike(&mut clients, Consistency::Quorum);
    for round in 0..6 {
        write_alike(&mut clients, round);
    }
    let whole = pages(&mut clients, "SELECT k, c FROM p.t", 1_000);
    assert_eq!(whole.len(), 160);
    for size in [1, 7, 50] {
        assert_eq!(pages(&mut clients, "SELECT k, c FROM p.t", size), whole, "pages of {size}");
    }
    // Weak reads: every member has it sooner or later.
    for (place, client) in clients.iter_mut().enumerate() {
        let all = || {
            let rows = get(client, "SELECT k FROM p.t", Consistency::One);
            (rows.len() == 160).then_some(())
        };
        eventually(&format!("weak reads of node {}", place + 1), SOON, all).unwrap();
    }
    // Three of four members are left of some sets, and a quorum is three.
    cluster.kill(2).unwrap();
    let mut left: Vec<Client> =
        [1, 3, 4, 5, 6].map(|node| cluster.client(node).unwrap()).into_iter().collect();
    for client in &mut left {
        let asked = "SELECT count(*) FROM p.t";
        let look = || ask(client, asked, &Execution::at(Consistency::Quorum)).unwrap().ok();
        eventually("reads go on", SOON, look).unwrap();
    }
    read_alike(&mut left, Consistency::Quorum);
    for round in 10..13 {
        write_alike(&mut left, round);
    }
    // Who needs all four is told how many there are.
    let look = || {
        let refused = ask(&mut left[0], "SELECT * FROM p.t", &Execution::at(Consistency::All));
        let error = refused.unwrap().err()?;
        (error.message == "Cannot achieve consistency level ALL").then_some(())
    };
    eventually("it is known that one is missing", SOON, look).unwrap();
    cluster.restart(2).unwrap();
    tell(&mut left[4], "TRUNCATE p.t");
    let mut back = cluster.client(2).unwrap();
    let look =
        || ask(&mut back, "SELECT * FROM p.t", &Execution::at(Consistency::All)).unwrap().ok();
    assert!(eventually("all are back", SOON, look).unwrap().is_empty());
}

/// Every golden script through a node that has none of its rows.
#[test]
fn golden_scripts_through_nodes_without_members() {
    let cluster = six(&["partitions.per_space=1"]);
    let level = Some(Consistency::Quorum);
    let run = |(place, script): (usize, &PathBuf)| {
        let name = format!("golden_{}", script.file_stem().unwrap().to_string_lossy());
        let statements = std::fs::read_to_string(script).unwrap();
        let recorded = std::fs::read_to_string(script.with_extension("out")).unwrap();
        // It begins with a keyspace and its use; then it is looked where that lies.
        let (first, use_it) = (place % usize::from(NODES) + 1, format!("USE {name};\n"));
        let (head, body) = statements.split_once(&use_it).unwrap();
        let mut found = golden::run_at(&mut cluster.client(first).unwrap(), head, level).unwrap();
        let set = first_set(&mut cluster.client(first).unwrap(), &name);
        let is_without = |node: &usize| {
            let mut client = cluster.client(*node).unwrap();
            !held(&mut client, *node).contains(&set)
        };
        let node = (1..=usize::from(NODES)).find(is_without).expect("every node has a member");
        let mut client = cluster.client(node).unwrap();
        found += &golden::run_at(&mut client, &(use_it + body), level).unwrap();
        let (differences, count) = golden::differences(&recorded, &answers(&found));
        let told = differences.iter().map(|it| format!("{name} through node {node}\n{it}"));
        (told.collect::<Vec<_>>(), count)
    };
    let (faults, count) = all_at_once(run);
    assert!(count >= 2500, "only {count} statements were replayed");
    assert!(faults.is_empty(), "{} of {count} differ:\n{}", faults.len(), faults.join("\n"));
}

/// Of two nodes the first decides: without the second everything goes on, without the first nothing does, and nothing is lost.
#[test]
fn of_two_nodes_one_may_be_lost() {
    let mut cluster = cluster_of(2, &["partitions.per_space=3"]);
    let mut first = cluster.client(1).unwrap();
    let mut second = cluster.client(2).unwrap();
    create_keyspace(&mut first, "two");
    tell(&mut second, "CREATE TABLE two.t (k int PRIMARY KEY, v int)");
    for k in 0..10 {
        tell(&mut second, &format!("INSERT INTO two.t (k, v) VALUES ({k}, {k})"));
    }
    assert_eq!(tell(&mut second, "SELECT * FROM two.t").len(), 10);
    cluster.kill(2).unwrap();
    tell(&mut first, "UPDATE two.t SET v = 1 WHERE k = 3 IF v = 3");
    tell(&mut first, "CREATE TABLE two.u (k int PRIMARY KEY)");
    // It starts again without the other.
    cluster.kill(1).unwrap();
    cluster.restart(1).unwrap();
    let mut first = cluster.client(1).unwrap();
    let asked = "INSERT INTO two.t (k, v) VALUES (10, 10)";
    let look = || ask(&mut first, asked, &Execution::at(Consistency::Quorum)).unwrap().ok();
    eventually("the first node goes on alone", SOON, look).unwrap();
    cluster.restart(2).unwrap();
    let mut second = cluster.client(2).unwrap();
    assert_eq!(get_in_the_end(&mut second, "SELECT * FROM two.t").len(), 11);
    let row = &get_in_the_end(&mut second, "SELECT v FROM two.t WHERE k = 3")[0];
    assert_eq!(int(row, 0), 1);
}
