//! A node whose disk fails in every way: what was acknowledged is there, nothing else is acknowledged,
//! reads go on, and what passes (no room, no descriptors) passes without a restart. The faults come from
//! a library between the node and the C library, see `testkit::disk`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use protocol::{ErrorKind, Response, WriteType};
use testkit::disk::{Board, Call, Fault, Shim};
use testkit::{Client, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const SETTINGS: [&str; 6] = [
    "--set",
    "memory.memtables=1MiB",
    "--set",
    "storage.log_segment=1MiB",
    "--set",
    "storage.log_max=2MiB",
];

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

struct Bench {
    _shim: Shim,
    board: Board,
    node: Node,
    client: Client,
    acknowledged: Vec<i64>,
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("helenus-faults-{}-{name}", std::process::id()))
}

impl Bench {
    fn new(name: &str) -> Bench {
        let shim = Shim::build().unwrap();
        let board = Board::new(folder(&format!("{name}-board"))).unwrap();
        let data_dir = folder(name);
        let environment = shim.environment(&data_dir, None, Some(&board));
        let node = Node::start_in(Path::new(BINARY), &data_dir, &SETTINGS, environment).unwrap();
        let client = Client::connect(&node.address()).unwrap();
        let mut bench = Bench { _shim: shim, board, node, client, acknowledged: Vec::new() };
        bench.ask("CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").unwrap();
        bench.ask("CREATE TABLE f.t (n bigint PRIMARY KEY, v blob)").unwrap();
        for number in 0..20 {
            bench.write(number).unwrap();
        }
        bench
    }

    fn ask(&mut self, text: &str) -> Result<Vec<i64>, String> {
        ask(&mut self.client, text)
    }

    fn write(&mut self, number: i64) -> Result<(), String> {
        let value = "ab".repeat(2_000);
        self.ask(&format!("INSERT INTO f.t (n, v) VALUES ({number}, 0x{value})"))?;
        self.acknowledged.push(number);
        Ok(())
    }

    /// Writes until it is refused; the refusal.
    fn write_until_refused(&mut self, first: i64, count: i64) -> String {
        for number in first..first + count {
            if let Err(error) = self.write(number) {
                return error;
            }
        }
        panic!("{count} writes, and none was refused");
    }

    fn rows(&mut self) -> Vec<i64> {
        let mut rows = self.ask("SELECT n FROM f.t").unwrap();
        rows.sort_unstable();
        rows
    }

    fn fail(&self, call: Call, at: u32, error: i32, stays: bool, part: &str) {
        self.board.set(call, Fault { at, error, stays, part }).unwrap();
    }

    fn command(&self, word: &str) -> Output {
        Command::new(BINARY).arg(word).arg("--data-dir").arg(self.node.data_dir()).output().unwrap()
    }

    /// Everything that was acknowledged is there after a restart, and nothing is damaged.
    fn restart(mut self) {
        for call in [Call::Sync, Call::Write, Call::Open, Call::Read] {
            self.board.clear(call).unwrap();
        }
        self.node.kill().unwrap();
        self.node.launch().unwrap();
        self.client = Client::connect(&self.node.address()).unwrap();
        let rows = self.rows();
        assert!(self.acknowledged.iter().all(|number| rows.contains(number)), "{rows:?}");
        self.write(1_000_000).unwrap();
        self.node.stop().unwrap();
        let checked = self.command("check");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

fn ask(client: &mut Client, text: &str) -> Result<Vec<i64>, String> {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Error(error) => Err(error.message.to_string()),
        Response::Rows(rows) => Ok(rows
            .rows()
            .filter_map(|row| row.first().copied().flatten()?.try_into().ok())
            .map(i64::from_be_bytes)
            .collect()),
        _ => Ok(Vec::new()),
    }
}

/// One failed call of the log, and the node acknowledges nothing more, though the disk works again.
fn the_log_fails(name: &str, call: Call) {
    let mut bench = Bench::new(name);
    bench.fail(call, 1, EIO, false, "/log/");
    let error = bench.write_until_refused(100, 1);
    assert!(error.contains("the log failed") && error.contains("restart"), "{error}");
    assert_eq!(bench.board.failed(call).unwrap(), 1);
    for number in 200..220 {
        assert!(bench.write(number).unwrap_err().contains("the log failed"));
    }
    assert_eq!(bench.board.after(call).unwrap(), 0, "it was tried again");
    // Reads go on, and show what was acknowledged.
    assert_eq!(bench.rows(), bench.acknowledged);
    bench.restart();
}

#[test]
fn a_failed_sync_of_the_log_ends_all_acknowledging_and_is_never_tried_again() {
    the_log_fails("log-sync", Call::Sync);
}

#[test]
fn a_failed_write_of_the_log_ends_all_acknowledging() {
    the_log_fails("log-write", Call::Write);
}

#[test]
fn a_failed_sync_of_sorted_files_ends_all_acknowledging() {
    let mut bench = Bench::new("tree-sync");
    bench.fail(Call::Sync, 1, EIO, false, "/trees/");
    assert!(!bench.command("flush").status.success());
    assert_eq!(bench.board.failed(Call::Sync).unwrap(), 1);
    let error = bench.write_until_refused(100, 1);
    assert!(error.contains("sorted files could not be written"), "{error}");
    assert_eq!(bench.rows(), bench.acknowledged);
    bench.restart();
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let mut bench = Bench::new("full");
    // No new files for the log, no bytes for sorted files.
    bench.fail(Call::Open, 1, ENOSPC, true, "/log/spare-");
    bench.fail(Call::Write, 1, ENOSPC, true, "/trees/");
    let error = bench.write_until_refused(100, 5_000);
    assert!(error.contains("the disk is full"), "{error}");
    assert_eq!(bench.rows().len(), bench.acknowledged.len());
    assert!(bench.write(9_000).unwrap_err().contains("the disk is full"));
    bench.board.clear(Call::Open).unwrap();
    bench.board.clear(Call::Write).unwrap();
    // It is looked for room twice a second; every request is answered meanwhile.
    let mut tries = 0;
    while let Err(error) = bench.write(10_000 + tries) {
        assert!(error.contains("the disk is full"), "{error}");
        tries += 1;
        assert!(tries < 100_000, "writes do not work again");
    }
    for number in 200_000..200_300 {
        bench.write(number).unwrap();
    }
    bench.restart();
}

#[test]
fn without_free_descriptors_nothing_is_lost() {
    let mut bench = Bench::new("descriptors");
    bench.fail(Call::Open, 1, EMFILE, true, "/trees/");
    let told = bench.command("flush");
    assert!(!told.status.success());
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(text.contains("open files"), "{text}");
    for number in 100..120 {
        bench.write(number).unwrap();
    }
    assert_eq!(bench.rows(), bench.acknowledged);
    bench.board.clear(Call::Open).unwrap();
    let told = bench.command("flush");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    bench.write(130).unwrap();
    bench.restart();
}

#[test]
fn a_short_read_is_an_error_and_never_wrong_rows() {
    let mut bench = Bench::new("short");
    assert!(bench.command("flush").status.success());
    bench.node.kill().unwrap();
    bench.node.launch().unwrap();
    bench.client = Client::connect(&bench.node.address()).unwrap();
    bench.fail(Call::Read, 1, 0, true, "/tables/");
    match bench.ask("SELECT n FROM f.t WHERE n = 3") {
        Ok(rows) => assert_eq!(rows, [3]),
        Err(error) => assert!(error.contains("f.t") || error.contains("damaged"), "{error}"),
    }
    bench.fail(Call::Read, 1, EIO, true, "/tables/");
    if let Ok(rows) = bench.ask("SELECT n FROM f.t WHERE n = 4") {
        assert_eq!(rows, [4]);
    }
    bench.restart();
}

#[test]
fn a_folder_that_cannot_be_written_refuses_the_start() {
    let bench = Bench::new("read-only");
    let mut node = bench.node;
    node.stop().unwrap();
    bench.board.set(Call::Open, Fault { at: 1, error: EROFS, stays: true, part: "/log/" }).unwrap();
    let environment = bench._shim.environment(node.data_dir(), None, Some(&bench.board));
    let output = Command::new(BINARY)
        .args(["start", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(node.data_dir())
        .envs(environment)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(text.contains("Read-only file system") && text.contains("/log"), "{text}");
    bench.board.clear(Call::Open).unwrap();
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    let rows = ask(&mut client, "SELECT n FROM f.t").unwrap();
    assert_eq!(rows.len(), bench.acknowledged.len());
}

/// Writes are refused so while something is short, and work again by themselves when it is not.
fn the_log_runs_short(name: &str, call: Call, error: i32, part: &str, refusal: &str) {
    let mut bench = Bench::new(name);
    bench.fail(call, 1, error, true, part);
    let told = bench.write_until_refused(100, 5_000);
    // The one that was on its way when it began is not lost, and is not promised either.
    assert!(told.contains(refusal) || told.contains("timed out"), "{told}");
    let told = bench.write_until_refused(9_000, 1);
    assert!(told.contains(refusal), "{told}");
    let status = bench.command("status");
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("read-only: "), "{status}");
    bench.board.clear(call).unwrap();
    let mut tries = 0;
    while let Err(error) = bench.write(10_000 + tries) {
        assert!(error.contains(refusal), "{error}");
        tries += 1;
        assert!(tries < 100_000, "writes do not work again");
    }
    for number in 200_000..200_600 {
        bench.write(number).unwrap();
    }
    let status = bench.command("status");
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("running") && !status.contains("read-only"), "{status}");
    bench.restart();
}

#[test]
fn a_disk_that_is_full_when_a_segment_begins_is_waited_for() {
    the_log_runs_short("full-note", Call::Open, ENOSPC, "/log/newest", "the disk is full");
}

#[test]
fn a_disk_that_is_full_under_the_log_is_waited_for() {
    the_log_runs_short("full-write", Call::Write, ENOSPC, "/log/", "the disk is full");
}

#[test]
fn descriptors_that_are_short_under_the_log_are_waited_for() {
    the_log_runs_short("short-open", Call::Open, EMFILE, "/log", "cannot be written now");
}

/// The sorted files of all tables.
fn sorted_files(data_dir: &Path) -> Vec<PathBuf> {
    let inside = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    let trees = inside(data_dir.join("trees"));
    let files = trees.flat_map(|tree| inside(tree.path().join("tables")));
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.sort();
    files
}

/// A table with three sorted files and something in memory, which a compaction flushes before it merges.
fn before_a_merge(name: &str) -> Bench {
    let mut bench = Bench::new(name);
    for round in 0..3 {
        for number in 0..20 {
            bench.write(100 * round + number).unwrap();
        }
        assert!(bench.command("flush").status.success());
    }
    bench.write(500).unwrap();
    bench
}

/// A compaction fails, and then there is nothing but these files. It is done when there is room again.
fn a_compaction_leaves(mut bench: Bench, expected: &[PathBuf]) {
    assert!(!bench.command("compact").status.success());
    assert!(bench.board.failed(Call::Write).unwrap() > 0);
    assert_eq!(sorted_files(bench.node.data_dir()), expected);
    bench.board.clear(Call::Write).unwrap();
    assert!(bench.command("compact").status.success());
    bench.write(1_000).unwrap();
    bench.restart();
}

#[test]
fn a_flush_without_room_leaves_nothing_behind_and_is_done_later() {
    let bench = before_a_merge("flush");
    let before = sorted_files(bench.node.data_dir());
    bench.fail(Call::Write, 2, ENOSPC, true, "/tables/");
    for _ in 0..3 {
        assert!(!bench.command("flush").status.success());
        assert_eq!(sorted_files(bench.node.data_dir()), before);
    }
    a_compaction_leaves(bench, &before);
}

/// Each failure sealed what had come since the last; all of it became files as soon as there was room, and writes
/// were refused because too many wait to be merged.
#[test]
fn failed_flushes_do_not_become_a_file_each() {
    const FAILURES: usize = 6;
    let mut bench = Bench::new("sealed");
    assert!(bench.command("flush").status.success());
    bench.fail(Call::Write, 1, ENOSPC, true, "/trees/");
    for number in 0..FAILURES {
        bench.write(100 + number as i64).unwrap();
        assert!(!bench.command("flush").status.success());
    }
    let before = sorted_files(bench.node.data_dir()).len();
    bench.board.clear(Call::Write).unwrap();
    assert!(bench.command("flush").status.success());
    // What the first failure sealed, and what came since.
    assert!(sorted_files(bench.node.data_dir()).len() <= before + 2);
    bench.restart();
}

#[test]
fn a_merge_without_room_leaves_nothing_behind_and_is_done_later() {
    let bench = before_a_merge("merge");
    let mut files = sorted_files(bench.node.data_dir());
    let last = files.last().unwrap().clone();
    let number: u64 = last.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // There is room for what is flushed first, and its file stays. There is none for what is merged.
    files.push(last.with_file_name((number + 1).to_string()));
    bench.fail(Call::Write, 2, ENOSPC, true, &format!("/tables/{}", number + 2));
    a_compaction_leaves(bench, &files);
}

/// What a request is refused with: the code, and for a failed write its kind.
fn refusal(client: &mut Client, text: &str) -> (i32, Option<WriteType>, String) {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Error(error) => {
            let write_type = match &error.kind {
                ErrorKind::WriteFailure { write_type, .. } => Some(*write_type),
                _ => None,
            };
            (error.kind.code(), write_type, error.message.to_string())
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_definition_that_the_disk_refuses_is_an_error_of_the_server() {
    let mut bench = Bench::new("definition");
    for (call, error) in [(Call::Open, ENOSPC), (Call::Write, ENOSPC), (Call::Open, EMFILE)] {
        bench.fail(call, 1, error, true, "/documents/schema");
        let text = "CREATE TABLE f.u (n bigint PRIMARY KEY)";
        let (code, _, message) = refusal(&mut bench.client, text);
        assert_eq!(code, 0, "{message}");
        bench.board.clear(call).unwrap();
    }
    bench.ask("CREATE TABLE f.u (n bigint PRIMARY KEY)").unwrap();
    bench.restart();
}

#[test]
fn a_failed_write_says_of_which_kind_it_was() {
    let mut bench = Bench::new("kinds");
    bench.ask("CREATE TABLE f.c (n bigint PRIMARY KEY, v counter)").unwrap();
    bench.fail(Call::Sync, 1, EIO, false, "/log/");
    bench.write_until_refused(100, 1);
    let (insert, other) = ("INSERT INTO f.t (n) VALUES (1)", "INSERT INTO f.t (n) VALUES (2)");
    for (text, expected) in [
        (insert.to_owned(), WriteType::Simple),
        (format!("{insert} IF NOT EXISTS"), WriteType::Cas),
        ("UPDATE f.c SET v = v + 1 WHERE n = 1".to_owned(), WriteType::Counter),
        (format!("BEGIN BATCH {insert}; {other} APPLY BATCH"), WriteType::Batch),
        (format!("BEGIN UNLOGGED BATCH {insert}; {other} APPLY BATCH"), WriteType::UnloggedBatch),
        // Of one partition, as in Cassandra.
        (format!("BEGIN BATCH {insert}; {insert} APPLY BATCH"), WriteType::Simple),
        (format!("BEGIN UNLOGGED BATCH {insert} APPLY BATCH"), WriteType::Simple),
    ] {
        let (code, write_type, message) = refusal(&mut bench.client, &text);
        assert_eq!((code, write_type), (0x1500, Some(expected)), "{text}: {message}");
    }
    bench.restart();
}

#[test]
fn idle_connections_leave_the_descriptors_of_files_alone() {
    const LIMIT: usize = 512;
    let script = folder("few-descriptors.sh");
    std::fs::write(&script, format!("#!/bin/sh\nulimit -n {LIMIT}\nexec {BINARY} \"$@\"\n"))
        .unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Whoever is let in stays, though it says nothing.
    let settings = [SETTINGS.as_slice(), &["--set", "server.startup_timeout=1h"]].concat();
    let node = Node::start_in(&script, &folder("few-descriptors"), &settings, Vec::new()).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    ask(
        &mut client,
        "CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .unwrap();
    ask(&mut client, "CREATE TABLE f.t (n bigint PRIMARY KEY, v blob)").unwrap();
    let mut idle = Vec::new();
    for _ in 0..LIMIT {
        idle.push(std::net::TcpStream::connect(node.address()).unwrap());
    }
    // The last ones are turned away, the first ones are not, until their time to say something is up.
    let mut byte = [0];
    let mut is_closed = |stream: &mut std::net::TcpStream, within_ms: u64| {
        stream.set_read_timeout(Some(std::time::Duration::from_millis(within_ms))).unwrap();
        std::io::Read::read(stream, &mut byte).is_ok_and(|count| count == 0)
    };
    // It may take a busy machine long to look at all of them.
    assert!(is_closed(idle.last_mut().unwrap(), 60_000));
    assert!(!is_closed(idle.first_mut().unwrap(), 500));
    let value = "ab".repeat(2_000);
    for number in 0..2_000 {
        ask(&mut client, &format!("INSERT INTO f.t (n, v) VALUES ({number}, 0x{value})")).unwrap();
    }
    drop(idle);
    // Places that are free again are given again.
    let mut tries = 0;
    while Client::connect(&node.address()).is_err() {
        tries += 1;
        assert!(tries < 1_000, "nobody is let in any more");
    }
    assert_eq!(ask(&mut client, "SELECT n FROM f.t").unwrap().len(), 2_000);
    std::fs::remove_file(script).unwrap();
}

/// Whatever the clock does, what is written later wins, and what was decided is done.
#[test]
fn a_clock_that_is_set_back_takes_nothing_away() {
    let mut bench = Bench::new("clock");
    bench.ask("CREATE TABLE f.c (n bigint PRIMARY KEY, v bigint)").unwrap();
    let mut value = 0;
    bench.ask("UPDATE f.c SET v = 0 WHERE n = 1").unwrap();
    let first_us = bench.ask("SELECT writetime(v) FROM f.c WHERE n = 1").unwrap()[0];
    // Two hours and two days ahead of what comes after: while it runs, over a crash, over a stop.
    for shift_s in [0, 180_000, 172_800, 7_200, 0] {
        bench.board.set_clock(shift_s).unwrap();
        let mut tries = 0;
        let mut seen_us = 0;
        // A leap ahead is followed a moment later; with what was written then it is harder to go back.
        while seen_us < shift_s * 1_000_000 + first_us {
            bench.ask(&format!("UPDATE f.c SET v = {value} WHERE n = 1")).unwrap();
            seen_us = bench.ask("SELECT writetime(v) FROM f.c WHERE n = 1").unwrap()[0];
            tries += 1;
            assert!(tries < 100_000, "the clock is not followed");
        }
        for step in 0..3 {
            value += 1;
            bench.ask(&format!("UPDATE f.c SET v = {value} WHERE n = 1")).unwrap();
            let seen = bench.ask("SELECT v FROM f.c WHERE n = 1").unwrap();
            assert_eq!(seen, [value], "shifted by {shift_s}, step {step}");
            let next = value + 1;
            let applied = format!("UPDATE f.c SET v = {next} WHERE n = 1 IF v = {value}");
            bench.ask(&applied).unwrap();
            value = next;
            assert_eq!(bench.ask("SELECT v FROM f.c WHERE n = 1").unwrap(), [value]);
            match step {
                0 => bench.node.kill().unwrap(),
                1 => bench.node.stop().unwrap(),
                _ => continue,
            }
            // The next start may find the clock before all of it.
            bench.board.set_clock(0).unwrap();
            bench.node.launch().unwrap();
            bench.client = Client::connect(&bench.node.address()).unwrap();
        }
    }
    bench.restart();
}

/// What TRUNCATE empties is kept first. Where there is no room for that nothing is emptied, and the error is the one of a TRUNCATE.
#[test]
fn a_truncate_that_finds_the_disk_full_changes_nothing() {
    let mut bench = Bench::new("truncate");
    bench.fail(Call::Write, 1, ENOSPC, true, "/tables/");
    let answer = bench.client.query("TRUNCATE f.t", &Execution::default()).unwrap().response;
    let Response::Error(error) = answer else { panic!("{answer:?}") };
    assert!(matches!(error.kind, ErrorKind::Truncate), "{error:?}");
    assert!(error.message.starts_with("Error during truncate: "), "{error:?}");
    assert!(error.message.contains("No space left on device"), "{error:?}");
    assert_eq!(bench.rows(), bench.acknowledged);
    bench.board.clear(Call::Write).unwrap();
    bench.ask("TRUNCATE f.t").unwrap();
    assert!(bench.rows().is_empty());
    bench.acknowledged.clear();
    bench.restart();
}
