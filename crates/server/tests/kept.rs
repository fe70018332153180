//! Data folders of released versions, kept as a clean stop left them: this version opens them, reads every row and goes on. And one that a
//! later version wrote is refused in a sentence, and not touched.
//!
//! `fixtures/VERSION` was made once by the binary of that version and is never made again. For a new one raise `VERSIONS`, then
//! `cargo test -p server --test kept -- --ignored`; with `HELENUS_KEPT_BINARY` and `HELENUS_KEPT_VERSION` by another binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::Node;

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
/// Released, and kept.
const VERSIONS: [&str; 2] = ["0.1.0", "0.2.0"];

/// Of everything that a folder holds a little.
const BEFORE: &str = "
CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TYPE kept.place (street text, number int);
CREATE TABLE kept.rows (k int, c text, s text static, v text, m map<text, int>, l list<int>, p frozen<place>, PRIMARY KEY (k, c));
CREATE INDEX by_v ON kept.rows (v);
CREATE TABLE kept.counts (k int PRIMARY KEY, n counter);
CREATE TABLE kept.paid (k int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 4000;
INSERT INTO kept.rows (k, c, s, v, m, l, p) VALUES (1, 'a', 'static', 'x', {'one': 1, 'two': 2}, [3, 1, 2], {street: 'Elm', number: 7}) USING TIMESTAMP 1000;
INSERT INTO kept.rows (k, c, v) VALUES (1, 'b', 'y') USING TIMESTAMP 1001;
INSERT INTO kept.rows (k, c, v) VALUES (2, 'a', 'x') USING TIMESTAMP 1002;
INSERT INTO kept.rows (k, c, v) VALUES (2, 'b', 'gone') USING TIMESTAMP 1003;
DELETE FROM kept.rows USING TIMESTAMP 1004 WHERE k = 2 AND c = 'b';
UPDATE kept.counts SET n = n + 5 WHERE k = 1;
INSERT INTO kept.paid (k, v) VALUES (1, 'paid');
";
/// What is written behind a flush, and is only in the log.
const BEHIND: &str = "
UPDATE kept.rows USING TIMESTAMP 2000 SET v = 'z', m['three'] = 3 WHERE k = 1 AND c = 'b';
UPDATE kept.counts SET n = n + 2 WHERE k = 1;
INSERT INTO kept.rows (k, c, v) VALUES (3, 'c', 'x') IF NOT EXISTS;
";
/// What is asked of every one.
const QUESTIONS: &str = "
SELECT * FROM kept.rows WHERE k IN (1, 2, 3);
SELECT c, v, writetime(v) FROM kept.rows WHERE k = 2;
SELECT k, c FROM kept.rows WHERE v = 'x' AND k = 3;
SELECT * FROM kept.counts;
SELECT * FROM kept.paid;
SELECT keyspace_name, table_name FROM system_schema.tables WHERE keyspace_name = 'kept';
SELECT index_name FROM system_schema.indexes WHERE keyspace_name = 'kept';
DESCRIBE TYPE kept.place;
";

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A fresh place for a copy.
fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("helenus-kept-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}{error}");
    out
}

fn ask(node: &Node, statements: &str) -> String {
    run(Command::new(BINARY).args(["cql", &node.address(), "--json", "-e", statements]))
}

/// Every file of a folder, by its path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found
}

#[test]
fn folders_of_every_version_are_opened_and_read() {
    for version in VERSIONS {
        let (data, folder) = (fixture(version).join("data"), place(version));
        copy(&data, &folder);
        run(Command::new(BINARY).args(["check", "--data-dir"]).arg(&folder));
        let mut node = Node::start_on(Path::new(BINARY), &folder, &[]).unwrap();
        let expected = fs::read_to_string(fixture(version).join("answers.txt")).unwrap();
        assert_eq!(ask(&node, QUESTIONS), expected, "{version}");
        // It goes on, and is written in the format of today.
        ask(&node, "INSERT INTO kept.rows (k, c, v) VALUES (4, 'd', 'new')");
        node.command(&["compact"]).unwrap();
        assert_eq!(ask(&node, QUESTIONS), expected, "{version}, merged");
        node.stop().unwrap();
        node.launch().unwrap();
        assert_eq!(ask(&node, QUESTIONS), expected, "{version}, started again");
        let new = ask(&node, "SELECT v FROM kept.rows WHERE k = 4");
        assert_eq!(new, "{\"v\": \"new\"}\n", "{version}");
    }
}

/// What a version says of a folder that a later one wrote, as an older binary says it of one of ours.
#[test]
fn a_folder_of_a_later_version_is_refused_and_not_touched() {
    let folder = place("later");
    copy(&fixture("0.2.0").join("data"), &folder);
    let mut segments: Vec<PathBuf> =
        fs::read_dir(folder.join("log")).unwrap().map(|it| it.unwrap().path()).collect();
    segments.retain(|it| it.extension().is_some_and(|it| it == "log"));
    segments.sort();
    let last = segments.last().unwrap();
    let mut bytes = fs::read(last).unwrap();
    assert_eq!(&bytes[..10], b"HELENLOG\0\x02", "the head of docs/formats/log.md");
    bytes[9] = 99;
    let sum = crc32fast::hash(&bytes[..28]);
    bytes[28..32].copy_from_slice(&sum.to_be_bytes());
    fs::write(last, bytes).unwrap();
    // The node's time goes on from there, whatever the log is.
    let is_time = |path: &Path| path.ends_with("documents/clock.slots");
    let mut before = files(&folder);
    before.retain(|path, _| !is_time(path));
    let start = Command::new(BINARY)
        .args(["start", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&start.stderr).into_owned();
    assert!(!start.status.success(), "{said}");
    let sentence = "has format version 99, which this version of Helenus does not know; start the version that wrote it";
    assert!(said.contains(sentence), "{said}");
    let mut after = files(&folder);
    after.retain(|path, _| before.contains_key(path));
    assert!(after == before, "the folder was changed");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "makes the folder of a version, once"]
fn make_the_newest() {
    let given = |name: &str| std::env::var(name).ok();
    let version =
        given("HELENUS_KEPT_VERSION").unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    let binary = given("HELENUS_KEPT_BINARY").unwrap_or_else(|| BINARY.to_owned());
    let kept = fixture(&version);
    assert!(!kept.exists(), "{} is there, and is never made again", kept.display());
    let folder = place("made");
    let settings = ["--set", "storage.log_segment=1MiB"];
    let mut node = Node::start_on(Path::new(&binary), &folder, &settings).unwrap();
    ask(&node, BEFORE);
    node.command(&["flush"]).unwrap();
    ask(&node, BEHIND);
    let answers = ask(&node, QUESTIONS);
    node.stop().unwrap();
    copy(&folder, &kept.join("data"));
    let _ = fs::remove_file(kept.join("data/admin.sock"));
    for entry in fs::read_dir(kept.join("data/log")).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("spare") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    fs::write(kept.join("answers.txt"), answers).unwrap();
}
