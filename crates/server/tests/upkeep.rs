//! A data folder in the hands of a person: snapshots, restore, check and salvage, with the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use protocol::Response;
use testkit::{Client, Ends, Execution, Node, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");

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

fn helenus(data_dir: &Path, arguments: &[&str]) -> (Output, String) {
    let mut command = Command::new(BINARY);
    let output = command.args(arguments).arg("--data-dir").arg(data_dir).output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, text)
}

fn succeed(data_dir: &Path, arguments: &[&str]) -> String {
    let (output, text) = helenus(data_dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

fn numbers(client: &mut Client, table: &str) -> Vec<i64> {
    let mut found: Vec<i64> = ask(client, &format!("SELECT n FROM up.{table}"))
        .into_iter()
        .map(|row| i64::from_be_bytes(row[0].clone().unwrap().try_into().unwrap()))
        .collect();
    found.sort_unstable();
    found
}

fn new_node() -> (Node, Client) {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    for statement in [
        "CREATE KEYSPACE up WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE up.a (n bigint PRIMARY KEY, v text)",
        "CREATE TABLE up.b (n bigint PRIMARY KEY, v text)",
        "CREATE INDEX ON up.b (v)",
    ] {
        ask(&mut client, statement);
    }
    (node, client)
}

fn pair(number: i64) -> String {
    format!(
        "BEGIN BATCH INSERT INTO up.a (n, v) VALUES ({number}, 'x'); \
         INSERT INTO up.b (n, v) VALUES ({number}, 'x'); APPLY BATCH"
    )
}

fn scratch(node: &Node, name: &str) -> PathBuf {
    let path = node.data_dir().with_extension(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A snapshot under load is a moment between two batches, later than everything acknowledged before.
#[test]
fn a_snapshot_is_consistent_over_tables_and_comes_back() {
    let (mut node, mut client) = new_node();
    let (written, stop) = (AtomicI64::new(0), AtomicBool::new(false));
    let (mut before, mut after) = (0, 0);
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        scope.spawn(|| {
            let mut client = Client::connect(&node.address()).unwrap();
            for number in 1.. {
                ask(&mut client, &pair(number));
                written.store(number, Ordering::Release);
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        let enough = || (written.load(Ordering::Acquire) >= 50).then_some(());
        eventually("fifty are written", Duration::from_secs(60), enough).unwrap();
        succeed(node.data_dir(), &["flush"]);
        before = written.load(Ordering::Acquire);
        succeed(node.data_dir(), &["snapshot", "under-load"]);
        after = written.load(Ordering::Acquire) + 1;
        stop.store(true, Ordering::Release);
    });
    let (output, text) = helenus(node.data_dir(), &["snapshot", "under-load"]);
    assert!(!output.status.success() && text.contains("of that name"), "{text}");
    let (_, text) = helenus(node.data_dir(), &["snapshot", "a/b"]);
    assert!(text.contains("is not a name for a snapshot"), "{text}");
    let listed = succeed(node.data_dir(), &["snapshots"]);
    assert!(listed.contains("under-load") && listed.contains("everything"), "{listed}");
    ask(&mut client, &pair(1_000_000));
    // Beside the node, while it runs.
    let beside = scratch(&node, "beside");
    succeed(node.data_dir(), &["restore", "under-load", "--to", beside.to_str().unwrap()]);
    assert!(succeed(&beside, &["check"]).contains("all is well"));
    let (output, text) = helenus(node.data_dir(), &["restore", "under-load"]);
    assert!(!output.status.success() && text.contains("in use by another process"), "{text}");
    // In its place, once it is stopped.
    node.stop().unwrap();
    let text = succeed(node.data_dir(), &["restore", "under-load"]);
    assert!(text.contains("before-restore-1"), "{text}");
    assert!(node.data_dir().join("before-restore-1/trees").is_dir());
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    let found = numbers(&mut client, "a");
    assert_eq!(found, numbers(&mut client, "b"), "a batch was torn apart");
    assert_eq!(found, (1..=found.len() as i64).collect::<Vec<_>>());
    let indexed = ask(&mut client, "SELECT n FROM up.b WHERE v = 'x'");
    assert_eq!(indexed.len(), found.len());
    assert!((before..=after).contains(&(found.len() as i64)), "{before} {} {after}", found.len());
    // It goes on as any node does, also over a crash.
    ask(&mut client, &pair(77_777_777));
    node.kill().unwrap();
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    assert_eq!(numbers(&mut client, "a").last(), Some(&77_777_777));
    std::fs::remove_dir_all(beside).unwrap();
}

#[test]
fn truncate_and_drop_keep_what_they_remove() {
    let (node, mut client) = new_node();
    for number in 0..20 {
        ask(&mut client, &pair(number));
    }
    ask(&mut client, "TRUNCATE up.a");
    assert!(numbers(&mut client, "a").is_empty());
    ask(&mut client, "DROP TABLE up.b");
    let listed = succeed(node.data_dir(), &["snapshots"]);
    assert!(listed.contains("truncated: up.a") && listed.contains("dropped: up.b"), "{listed}");
    let names: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let (_, text) = helenus(node.data_dir(), &["restore", names[0]]);
    assert!(text.contains("--to"), "{text}");
    for name in names {
        let table = if name.starts_with("truncated") { "a" } else { "b" };
        let folder = scratch(&node, "kept");
        succeed(node.data_dir(), &["restore", name, "--to", folder.to_str().unwrap()]);
        assert!(succeed(&folder, &["check"]).contains("all is well"));
        let mut kept = Node::start_on(Path::new(BINARY), &folder, &[]).unwrap();
        let mut client = Client::connect(&kept.address()).unwrap();
        assert_eq!(numbers(&mut client, table), (0..20).collect::<Vec<_>>());
        ask(&mut client, &format!("INSERT INTO up.{table} (n) VALUES (99)"));
        kept.stop().unwrap();
        kept.launch().unwrap();
        let mut client = Client::connect(&kept.address()).unwrap();
        assert_eq!(numbers(&mut client, table).len(), 21);
    }
    // Nothing to keep, or not wanted: no snapshot.
    ask(&mut client, "TRUNCATE up.a");
    ask(&mut client, "CREATE TABLE up.c (n bigint PRIMARY KEY) WITH allow_auto_snapshot = false");
    ask(&mut client, "INSERT INTO up.c (n) VALUES (1)");
    ask(&mut client, "DROP TABLE up.c");
    let listed = succeed(node.data_dir(), &["snapshots"]);
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| line.contains(" bytes "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names.len(), 2, "{listed}");
    // And they go when they are not wanted any more, while the node runs.
    succeed(node.data_dir(), &["snapshots", "--remove", names[0], "--remove", names[1]]);
    assert!(succeed(node.data_dir(), &["snapshots"]).starts_with("no snapshots"));
    let (output, text) = helenus(node.data_dir(), &["snapshots", "--remove", names[0]]);
    assert!(!output.status.success() && text.contains("there is no snapshot"), "{text}");
}

#[test]
fn damage_is_told_by_check_and_survived_by_salvage() {
    let (mut node, mut client) = new_node();
    for number in 0..300 {
        ask(&mut client, &pair(number));
    }
    succeed(node.data_dir(), &["flush"]);
    let (output, text) = helenus(node.data_dir(), &["check"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("in use by another process"), "{text}");
    node.stop().unwrap();
    assert!(succeed(node.data_dir(), &["check"]).contains("all is well"));
    let mut sorted: Vec<PathBuf> = std::fs::read_dir(node.data_dir().join("trees"))
        .unwrap()
        .flat_map(|tree| std::fs::read_dir(tree.unwrap().path().join("tables")).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    sorted.sort_by_key(|path| std::cmp::Reverse(std::fs::metadata(path).unwrap().len()));
    let mut bytes = std::fs::read(&sorted[0]).unwrap();
    // Behind the first block, which has the replay points: without them no start.
    let place = bytes.len() / 3;
    bytes[place] ^= 1;
    std::fs::write(&sorted[0], bytes).unwrap();
    let (output, text) = helenus(node.data_dir(), &["check"]);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(" at offset ") && text.contains("affected: table up."), "{text}");
    // The node starts; the damaged block is an error, never wrong data, and the table is marked.
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    let failures = ["a", "b"].map(|table| {
        let text = format!("SELECT n FROM up.{table}");
        match client.query(&text, &Execution::default()).unwrap().response {
            Response::Rows(rows) => assert_eq!(rows.rows().count(), 300),
            Response::Error(_) => return 1,
            other => panic!("{other:?}"),
        }
        0
    });
    assert_eq!(failures.iter().sum::<i32>(), 1, "{failures:?}");
    let status = succeed(node.data_dir(), &["status"]);
    assert!(status.contains("damaged tables") && status.contains("up."), "{status}");
    node.stop().unwrap();
    let saved = scratch(&node, "saved");
    let (output, text) = helenus(node.data_dir(), &["salvage", "--to", saved.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("1 trees rebuilt") && text.contains("helenus start"), "{text}");
    assert!(succeed(&saved, &["check"]).contains("all is well"));
    let kept = Node::start_on(Path::new(BINARY), &saved, &[]).unwrap();
    let mut client = Client::connect(&kept.address()).unwrap();
    let counts = ["a", "b"].map(|table| numbers(&mut client, table).len());
    assert_eq!(counts.iter().max(), Some(&300));
    assert!((100..300).contains(counts.iter().min().unwrap()), "{counts:?}");
}
