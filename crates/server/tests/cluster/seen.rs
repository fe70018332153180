//! What can be seen of a cluster, from whichever node is asked: what runs and why, what happened, and how every node is.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use protocol::{Consistency, Response};
use serde_json::Value;
use testkit::{Client, Cluster, Execution, Node, eventually};

use crate::support::{MOVED_WITHIN, Row, SOON, cluster_of, create_keyspace, int, long, tell, text};

fn answer(cluster: &Cluster, node: usize, words: &[&str]) -> Value {
    serde_json::from_str(&cluster.command(node, words).unwrap()).unwrap()
}

/// What a command told line by line.
fn lines(told: &str) -> Vec<Value> {
    told.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A job as the table shows it.
#[derive(Clone, Debug, PartialEq)]
struct Job {
    id: i64,
    state: String,
    kind: String,
    node: Option<i64>,
    reason: String,
    progress: String,
    remaining: i64,
    total: i64,
}

fn optional(row: &Row, column: usize) -> Option<i64> {
    row[column].as_ref().map(|_| long(row, column))
}

fn jobs(client: &mut Client) -> Vec<Job> {
    let asked = "SELECT id, state, kind, node, reason, progress, remaining, total, started_at, updated_at FROM system_helenus.jobs";
    let job = |row: &Row| {
        assert!(long(row, 8) <= long(row, 9) && long(row, 8) > 1_600_000_000_000);
        Job {
            id: long(row, 0),
            state: text(row, 1),
            kind: text(row, 2),
            node: optional(row, 3),
            reason: text(row, 4),
            progress: text(row, 5),
            remaining: long(row, 6),
            total: long(row, 7),
        }
    };
    let mut jobs: Vec<Job> = tell(client, asked).iter().map(job).collect();
    jobs.sort_by_key(|job| job.id);
    jobs
}

fn job_of(client: &mut Client, kind: &str, node: i64) -> Option<Job> {
    jobs(client).into_iter().rev().find(|job| job.kind == kind && job.node == Some(node))
}

/// Kind, what and why, the oldest first.
fn events(client: &mut Client) -> Vec<(String, String, String)> {
    let rows = tell(client, "SELECT kind, what, reason FROM system_helenus.events");
    rows.iter().rev().map(|row| (text(row, 0), text(row, 1), text(row, 2))).collect()
}

fn has_event(client: &mut Client, kind: &str, what: &str) -> bool {
    events(client).iter().any(|(known, told, _)| known == kind && told == what)
}

/// Every node tells the same, in a moment.
fn wait_until_alike<T: PartialEq + std::fmt::Debug>(
    cluster: &Cluster,
    asked: impl IntoIterator<Item = usize>,
    mut look: impl FnMut(&mut Client) -> T,
) {
    let mut clients: Vec<Client> =
        asked.into_iter().map(|node| cluster.client(node).unwrap()).collect();
    let alike = || {
        let told: Vec<T> = clients.iter_mut().map(&mut look).collect();
        told.windows(2).all(|two| two[0] == two[1]).then_some(())
    };
    eventually("all nodes tell the same", SOON, alike).unwrap();
}

fn fill(client: &mut Client) {
    create_keyspace(client, "s");
    tell(client, "CREATE TABLE s.t (k int PRIMARY KEY, v int)");
    for k in 0..100 {
        tell(client, &format!("INSERT INTO s.t (k, v) VALUES ({k}, {k})"));
    }
}

#[test]
fn a_drain_is_a_job_that_is_watched_and_cancelled_and_all_nodes_know_it() {
    let mut cluster = cluster_of(4, &["partitions.per_space=4"]);
    let mut client = cluster.client(1).unwrap();
    fill(&mut client);
    let told = cluster.command(2, &["drain"]).unwrap();
    assert!(told.contains("Ctrl-C leaves it running"), "{told}");
    assert!(
        told.ends_with(
            "node 2 is drained and can be stopped; `helenus drain --cancel` has it lead again\n"
        ),
        "{told}"
    );
    let done = eventually("the job is done", SOON, || {
        job_of(&mut client, "drain", 2).filter(|job| job.state == "done")
    });
    let done = done.unwrap();
    assert_eq!((done.remaining, done.reason.as_str()), (0, "an operator asked for it"));
    // Asked for again it is told again; and it is over when it is cancelled.
    let told = lines(&cluster.command(2, &["drain", "--json"]).unwrap());
    assert_eq!((&told[0]["id"], &told[0]["state"]), (&Value::from(done.id), &Value::from("done")));
    cluster.command(2, &["drain", "--cancel"]).unwrap();
    let again = || has_event(&mut client, "node_up", "node 2 may lead again").then_some(());
    eventually("it may lead again", SOON, again).unwrap();
    // One that is only begun, and cancelled: it may be done by then.
    let other = "this node is draining; `helenus drain --cancel` ends that";
    let begun = answer(&cluster, 3, &["drain", "--json", "--no-wait"]);
    assert_eq!(begun["job"]["kind"], "drain");
    let refused = cluster.command(3, &["decommission", "--cancel"]).unwrap_err().to_string();
    assert!(refused.contains(other), "{refused}");
    let ended = answer(&cluster, 3, &["drain", "--cancel", "--json"]);
    assert_eq!(ended["state"], "up");
    let over = eventually("the job ends", SOON, || {
        job_of(&mut client, "drain", 3).filter(|job| job.state != "running")
    });
    assert!(["cancelled", "done"].contains(&over.unwrap().state.as_str()));
    wait_until_alike(&cluster, 1..=4, jobs);
    wait_until_alike(&cluster, 1..=4, events);
    // It is agreed on: nobody forgets it, whoever led and whoever was away. What runs may end meanwhile, and more may begin.
    let ended: Vec<Job> =
        jobs(&mut client).into_iter().filter(|job| job.state != "running").collect();
    let told = events(&mut client);
    assert!(ended.iter().any(|job| job.id == done.id), "{ended:?}");
    cluster.kill_all().unwrap();
    cluster.restart_all().unwrap();
    let mut client = cluster.client(4).unwrap();
    let known = || {
        let (jobs, events) = (jobs(&mut client), events(&mut client));
        let are_known = ended.iter().all(|job| jobs.contains(job))
            && told.iter().all(|event| events.contains(event));
        are_known.then_some(())
    };
    eventually("all jobs and events are known again", SOON, known).unwrap();
}

#[test]
fn a_decommission_is_cancelled_then_done_and_a_dead_node_is_removed_and_each_move_has_its_reason() {
    let mut cluster = cluster_of(5, &["partitions.per_space=24"]);
    let mut client = cluster.client(1).unwrap();
    fill(&mut client);
    // So many members take many rounds to move, and a command takes less than one: it is cancelled while it runs.
    let begun = answer(&cluster, 5, &["decommission", "--no-wait", "--json"]);
    assert_eq!((&begun["state"], &begun["job"]["state"]), (&"leaving".into(), &"running".into()));
    let ended = answer(&cluster, 5, &["decommission", "--cancel", "--json"]);
    assert_eq!((&ended["state"], &ended["job"]["state"]), (&"up".into(), &"cancelled".into()));
    assert_eq!(ended["job"]["id"], begun["job"]["id"]);
    // The node that was asked knew it first.
    let cancelled = eventually("all know that it was cancelled", SOON, || {
        job_of(&mut client, "decommission", 5).filter(|job| job.state == "cancelled")
    });
    assert_eq!(cancelled.unwrap().progress, "an operator cancelled it");
    // Whoever watches may stop: the job goes on, and is watched again by asking for it again.
    let mut watching = std::process::Command::new(env!("CARGO_BIN_EXE_helenus"))
        .args(["decommission", "--data-dir"])
        .arg(cluster.folder(5))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let runs = || job_of(&mut client, "decommission", 5).filter(|job| job.state == "running");
    let running = eventually("it is begun", SOON, runs).unwrap();
    watching.kill().unwrap();
    watching.wait().unwrap();
    // Then it goes, and its job is watched to the end.
    let told = lines(&cluster.command(5, &["decommission", "--json"]).unwrap());
    let last = told.last().unwrap();
    assert_eq!((&last["state"], &last["kind"]), (&"done".into(), &"decommission".into()));
    assert!(told.iter().all(|line| line["id"] == running.id));
    cluster.wait_for_end(5).unwrap();
    let done = eventually("all know that it left", SOON, || {
        job_of(&mut client, "decommission", 5).filter(|job| job.state == "done")
    });
    assert!(done.unwrap().total > 0);
    let left = || has_event(&mut client, "node_left", "node 5 left").then_some(());
    eventually("it is told that it left", SOON, left).unwrap();
    // Every set that was moved was moved for a reason.
    let moves = || {
        let moved: Vec<Job> =
            jobs(&mut client).into_iter().filter(|it| it.kind == "move").collect();
        let ended = !moved.is_empty() && moved.iter().all(|job| job.state != "running");
        ended.then_some(moved)
    };
    let moved = eventually("all moves end", MOVED_WITHIN, moves).unwrap();
    assert!(moved.iter().all(|job| !job.reason.is_empty()), "{moved:?}");
    assert!(moved.iter().any(|job| job.reason == "node 5 is leaving"), "{moved:?}");
    // One that died is removed, which is a job as well.
    cluster.kill(4).unwrap();
    let down = || has_event(&mut client, "node_down", "node 4 is down").then_some(());
    eventually("it is told that it is down", SOON, down).unwrap();
    let removed = || cluster.command(1, &["remove", "4"]).ok();
    let told = eventually("a dead node is removed", SOON, removed).unwrap();
    assert!(told.contains("cannot be taken back"), "{told}");
    assert!(told.ends_with("node 4 is removed, and what it held is elsewhere\n"), "{told}");
    assert_eq!(job_of(&mut client, "remove", 4).unwrap().state, "done");
    let again = cluster.command(1, &["remove", "4"]).unwrap();
    assert!(again.ends_with("node 4 is removed, and what it held is elsewhere\n"), "{again}");
    let heals = jobs(&mut client).into_iter().filter(|job| job.kind == "heal");
    let reasons: BTreeSet<String> = heals.map(|job| job.reason).collect();
    assert!(reasons.contains("node 4 was removed"), "{reasons:?}");
    let gone = || has_event(&mut client, "node_removed", "node 4 was removed").then_some(());
    eventually("it is told that it was removed", SOON, gone).unwrap();
    wait_until_alike(&cluster, 1..=3, jobs);
    // What people see is the same.
    let shown = cluster.command(3, &["nodes"]).unwrap();
    assert!(shown.contains("what happened lately"), "{shown}");
}

#[test]
fn a_node_that_joins_and_a_split_are_told_of() {
    let mut cluster = cluster_of(3, &["partitions.per_space=2"]);
    let mut client = cluster.client(2).unwrap();
    fill(&mut client);
    cluster.command(3, &["split", "s"]).unwrap();
    let split = || {
        let told = events(&mut client).into_iter().find(|(kind, _, _)| kind == "set_split")?;
        assert!(told.1.ends_with("was split off in s") && told.2 == "hand", "{told:?}");
        Some(())
    };
    eventually("the split is told", SOON, split).unwrap();
    let fourth = cluster.add().unwrap();
    assert_eq!(fourth, 4);
    let joined = || job_of(&mut client, "join", 4).filter(|job| job.state == "done");
    let joined = eventually("it joined", MOVED_WITHIN, joined).unwrap();
    assert_eq!(joined.reason, "it came with a token");
    let told = || has_event(&mut client, "node_joined", "node 4 joined").then_some(());
    eventually("it is told that it joined", SOON, told).unwrap();
    let moved = || jobs(&mut client).into_iter().find(|it| it.kind == "move" && it.state == "done");
    let moved = eventually("sets get a fourth member", MOVED_WITHIN, moved).unwrap();
    assert!(!moved.reason.is_empty() && moved.remaining == 0, "{moved:?}");
}

/// Set, node and role of every member, as a node tells them, and whom it missed.
fn members(client: &mut Client) -> (BTreeSet<(i64, i64, String)>, Vec<String>) {
    let asked = "SELECT set_id, node, role FROM system_helenus.replicas";
    let answer = client.query(asked, &Execution::at(Consistency::One)).unwrap();
    let Response::Rows(rows) = answer.response else { panic!("{asked}: no rows") };
    let rows: Vec<Row> =
        rows.rows().map(|row| row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect()).collect();
    let member = |row: &Row| (long(row, 0), long(row, 1), text(row, 2));
    (rows.iter().map(member).collect(), answer.warnings)
}

/// Set and node of every member as a node tells them page by page, in order.
fn paged_members(client: &mut Client) -> Vec<(i64, i64)> {
    let (mut found, mut paging_state) = (Vec::new(), None);
    loop {
        let execution = Execution { page_size: Some(5), paging_state, ..Execution::default() };
        let asked = "SELECT set_id, node FROM system_helenus.replicas";
        let answer = client.query(asked, &execution).unwrap();
        let Response::Rows(rows) = answer.response else { panic!("{asked}: no rows") };
        for row in rows.rows() {
            let row: Row = row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
            found.push((long(&row, 0), long(&row, 1)));
        }
        paging_state = rows.metadata.paging_state.clone();
        if paging_state.is_none() {
            found.sort_unstable();
            return found;
        }
    }
}

/// The rows of each physical partition of the tests' keyspace.
fn sizes(client: &mut Client) -> Vec<(i32, i64)> {
    let asked = "SELECT id, rows FROM system_helenus.physical_partitions WHERE space = 's'";
    let mut sizes: Vec<_> =
        tell(client, asked).iter().map(|row| (int(row, 0), long(row, 1))).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn tables_tell_of_all_nodes_and_who_did_not_answer() {
    const NODES: usize = 6;
    let mut cluster = cluster_of(6, &["partitions.per_space=3"]);
    let mut client = cluster.client(1).unwrap();
    fill(&mut client);
    cluster.command(3, &["split", "s"]).unwrap();
    let mut clients: Vec<Client> = (1..=NODES).map(|it| cluster.client(it).unwrap()).collect();
    // Every node tells of every member, and of one leader of each set.
    let whole = || {
        let told: Vec<_> = clients.iter_mut().map(members).collect();
        let (rows, missing) = &told[0];
        let sets: BTreeSet<i64> = rows.iter().map(|row| row.0).collect();
        let of = |set: i64| rows.iter().filter(move |row| row.0 == set);
        let is_led = |set: &i64| of(*set).filter(|row| row.2 == "leader").count() == 1;
        let counts: BTreeSet<usize> = sets.iter().map(|set| of(*set).count()).collect();
        let is_whole = sets.iter().all(is_led)
            && counts == BTreeSet::from([4, NODES])
            && missing.is_empty()
            && told.iter().all(|other| other == &told[0]);
        is_whole.then_some(sets.len())
    };
    assert!(eventually("all members are told of everywhere", MOVED_WITHIN, whole).unwrap() >= 5);
    // Sizes are those of the rows, also on nodes that have none of them.
    let sized = || {
        let told: Vec<_> = clients.iter_mut().map(sizes).collect();
        let sum: i64 = told[0].iter().map(|(_, rows)| rows).sum();
        (sum == 100 && told.iter().all(|other| other == &told[0])).then_some(())
    };
    eventually("all know all sizes", SOON, sized).unwrap();
    for (place, client) in clients.iter_mut().enumerate() {
        let all = || {
            let rows = tell(client, "SELECT key, node FROM system_helenus.node");
            let numbers: BTreeSet<i64> = rows.iter().map(|row| long(row, 1)).collect();
            (numbers == (1..=NODES as i64).collect::<BTreeSet<i64>>()).then_some(())
        };
        eventually("all nodes are told of", SOON, all).unwrap();
        let local = tell(client, "SELECT node FROM system_helenus.node WHERE key = 'local'");
        assert_eq!(long(&local[0], 0), place as i64 + 1);
        let splits = "SELECT number, step FROM system_helenus.partition_history WHERE space = 's'";
        let told = || Some(tell(client, splits)).filter(|rows| !rows.is_empty());
        let splits = eventually("who split it tells so", SOON, told).unwrap();
        assert_eq!((splits.len(), text(&splits[0], 1).as_str()), (1, "split"));
    }
    // What a statement cost is added up.
    let counted = "INSERT INTO s.t (k, v) VALUES (1, 1)";
    for client in &mut clients {
        let Ok(prepared) = client.prepare(counted).unwrap() else { panic!("{counted}") };
        client.execute(&prepared, &Execution::at(Consistency::Quorum)).unwrap();
    }
    let called = || {
        let rows = tell(&mut clients[4], "SELECT query, calls FROM system_helenus.statements");
        let row = rows.iter().find(|row| text(row, 0) == counted)?;
        (long(row, 1) == NODES as i64).then_some(())
    };
    eventually("all calls are counted", SOON, called).unwrap();
    // Pages are those of all rows; a member may come or go between two looks.
    let paged = || {
        let all: Vec<(i64, i64)> =
            members(&mut clients[1]).0.iter().map(|row| (row.0, row.1)).collect();
        (paged_members(&mut clients[1]) == all).then_some(())
    };
    eventually("pages are those of all rows", SOON, paged).unwrap();
    told_by_commands(&cluster, &mut client);
    a_paused_node_is_told_of(&mut cluster, &mut clients[0]);
}

/// Commands tell the same from every node, in a moment.
fn told_by_commands(cluster: &Cluster, client: &mut Client) {
    let set = u32::try_from(sizes(client)[0].0).unwrap().to_string();
    for node in 1..=cluster.count() {
        let partitions = || {
            let shown = cluster.command(node, &["partitions", "s"]).unwrap();
            assert!(shown.starts_with("s: 4 physical partitions"), "{shown}");
            (!shown.contains(" 0 B")).then_some(())
        };
        eventually("every partition has a size", SOON, partitions).unwrap();
        let replicas = || {
            let told = answer(cluster, node, &["set", &set, "--json"]);
            let is_whole = told["replicas"].as_array().unwrap().len() == 4
                && told["missing"] == serde_json::json!([]);
            is_whole.then_some(())
        };
        eventually("all replicas are told of", MOVED_WITHIN, replicas).unwrap();
    }
}

/// The last node is paused, then goes on; the client asks another one.
fn a_paused_node_is_told_of(cluster: &mut Cluster, client: &mut Client) {
    // It does not answer: that takes a moment and no longer, and is told. Another one may be late as well.
    cluster.pause(6).unwrap();
    let (_, missing) = members(client);
    let late =
        ["node 6 did not answer: its rows are missing", "node 6 is down: its rows are missing"];
    assert!(missing.iter().any(|it| late.contains(&it.as_str())), "{missing:?}");
    let down = || (members(client).1 == late[1..]).then_some(());
    eventually("it is told to be down", SOON, down).unwrap();
    // Of its members those who lead tell.
    let led = || members(client).0.iter().any(|row| row.1 == 6).then_some(());
    eventually("its members are told of", SOON, led).unwrap();
    let told = || {
        let told = cluster.command(2, &["set"]).unwrap();
        told.ends_with(&format!("{}\n", late[1])).then_some(())
    };
    eventually("another node tells it as well", SOON, told).unwrap();
    // What is agreed on is known without asking.
    let jobs = client.query("SELECT * FROM system_helenus.jobs", &Execution::default()).unwrap();
    assert_eq!(jobs.warnings, [""; 0]);
    cluster.resume(6).unwrap();
    let back = || members(client).1.is_empty().then_some(());
    eventually("it answers again", SOON, back).unwrap();
}

/// What the metrics of a node say of another one.
fn of_peer(metrics: &str, name: &str, node: u64) -> Option<f64> {
    let begin = format!("helenus_mesh_peer_{name}{{node=\"{node}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&begin)).map(|value| value.parse().unwrap())
}

#[test]
fn metrics_tell_of_every_link() {
    let binary = Path::new(env!("CARGO_BIN_EXE_helenus"));
    let mesh = testkit::free_port_on(2).unwrap();
    let port = testkit::free_port_on(1).unwrap();
    let mesh_of = |node: usize| format!("cluster.listen=127.0.0.{node}:{mesh}");
    let metrics = format!("metrics.listen=127.0.0.1:{port}");
    let first = Node::start(binary, &["--set", &mesh_of(1), "--set", &metrics]).unwrap();
    // It answers clients a moment before it takes questions.
    let token = || first.command(&["token", "--json"]).ok();
    let token = eventually("there is a token", SOON, token).unwrap();
    let token: Value = serde_json::from_str(&token).unwrap();
    let (join, own) = (format!("127.0.0.1:{mesh}"), mesh_of(2));
    let words = ["--join", &join, "--token", token["token"].as_str().unwrap(), "--set", &own];
    let mut second = Node::join(binary, 2, &words).unwrap();
    let read = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let told = || {
        let text = read();
        let is_told = of_peer(&text, "connected", 2) == Some(2.0)
            && of_peer(&text, "round_trip_seconds", 2) > Some(0.0)
            && of_peer(&text, "sent_bytes_total", 2) > Some(0.0)
            && of_peer(&text, "sent_frames_total", 2) > Some(0.0)
            && of_peer(&text, "received_bytes_total", 2) > Some(0.0);
        is_told.then_some(text)
    };
    let text = eventually("the link is told of", SOON, told).unwrap();
    for name in ["queued_bytes", "queued_messages", "dropped_total", "reconnects_total"] {
        assert!(of_peer(&text, name, 2).is_some(), "{name}: {text}");
    }
    assert!(text.contains("\nhelenus_forwarded_requests_total "), "{text}");
    second.kill().unwrap();
    let lost = || (of_peer(&read(), "connected", 2) == Some(0.0)).then_some(());
    eventually("it is told that the link is lost", SOON, lost).unwrap();
}

#[test]
fn who_decides_dies_and_the_next_one_goes_on_with_what_was_told() {
    /// The set of what all agree on.
    const SYSTEM_SET: i64 = 4_294_967_294;
    let mut cluster = cluster_of(5, &["partitions.per_space=2", "cluster.heal_after=2s"]);
    let mut client = cluster.client(1).unwrap();
    fill(&mut client);
    cluster.command(2, &["drain"]).unwrap();
    cluster.command(2, &["drain", "--cancel"]).unwrap();
    let decides = || {
        let (rows, _) = members(&mut client);
        rows.into_iter().find(|row| row.0 == SYSTEM_SET && row.2 == "leader").map(|row| row.1)
    };
    let decides = eventually("somebody decides", SOON, decides).unwrap();
    cluster.kill(usize::try_from(decides).unwrap()).unwrap();
    let asked = if decides == 1 { 2 } else { 1 };
    let mut client = cluster.client(asked).unwrap();
    let why = format!("node {decides} has been silent for ");
    let heals = || {
        // On a machine with much to do another node may be silent for so long as well.
        let is_its = |job: &Job| job.kind == "heal" && job.reason.starts_with(&why);
        let heals: Vec<Job> = jobs(&mut client).into_iter().filter(is_its).collect();
        (!heals.is_empty() && heals.iter().all(|job| job.state == "done")).then_some(())
    };
    eventually("what it held is made anew", MOVED_WITHIN, heals).unwrap();
    assert!(has_event(&mut client, "node_down", &format!("node {decides} is down")));
    assert_eq!(job_of(&mut client, "drain", 2).unwrap().state, "done");
    let ids: Vec<i64> = jobs(&mut client).iter().map(|job| job.id).collect();
    assert!(ids.is_sorted() && ids.first() == Some(&1), "{ids:?}");
    cluster.restart(usize::try_from(decides).unwrap()).unwrap();
    let up = || has_event(&mut client, "node_up", &format!("node {decides} is up")).then_some(());
    eventually("it is told to be up", SOON, up).unwrap();
}
