//! A table grows through dozens of splits, made by limits set low, while a pager, a scanner of the
//! whole ring and conditional writers verify every row. Then the node is killed, and everything is
//! still there: rows, map, history and sizes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use protocol::Response;
use testkit::{Client, Ends, Execution, Node};

const ROWS_PER_KEY: i32 = 4;
const VALUE_BYTES: usize = 300;
/// Bytes of the row of one key: key, clustering column and value.
const ROW_BYTES: i64 = 4 + 4 + VALUE_BYTES as i64;
/// Grown until there are so many splits.
const SPLITS_MIN: usize = 24;
const KEYS_MAX: i32 = 4_000;

type Row = Vec<Option<Vec<u8>>>;

/// All rows of a statement, page by page.
fn ask(client: &mut Client, text: &str, page_size: i32) -> Vec<Row> {
    let mut execution = Execution { page_size: Some(page_size), ..Execution::default() };
    let mut all = Vec::new();
    loop {
        let message = client.query(text, &execution).unwrap();
        let rows = match message.response {
            Response::Rows(rows) => rows,
            Response::Error(error) => panic!("{text}: {}", error.message),
            _ => return all,
        };
        all.extend(
            rows.rows().map(|row| row.iter().map(|it| it.map(<[u8]>::to_vec)).collect::<Row>()),
        );
        match &rows.metadata.paging_state {
            Some(state) => execution.paging_state = Some(state.to_vec()),
            None => return all,
        }
    }
}

fn tell(client: &mut Client, text: &str) {
    ask(client, text, 1_000);
}

fn int(row: &Row, column: usize) -> i32 {
    i32::from_be_bytes(row[column].clone().unwrap().try_into().unwrap())
}

fn long(row: &Row, column: usize) -> i64 {
    i64::from_be_bytes(row[column].clone().unwrap().try_into().unwrap())
}

/// Every key that was written whole before is there, whole and once.
fn check(rows: &[Row], written: i32, who: &str) {
    let mut found: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for row in rows {
        found.entry(int(row, 0)).or_default().push(int(row, 1));
    }
    let whole: Vec<i32> = (0..ROWS_PER_KEY).collect();
    for key in 0..written {
        assert_eq!(found.get(&key), Some(&whole), "{who}, key {key} of {written}");
    }
    for (key, rows) in found {
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "{who}, key {key}: {rows:?}");
    }
}

fn page_through(address: &str, written: &AtomicI32, is_done: &AtomicBool) -> u32 {
    let mut client = Client::connect(address).unwrap();
    let mut rounds = 0;
    while !is_done.load(Ordering::SeqCst) {
        let before = written.load(Ordering::SeqCst);
        check(&ask(&mut client, "SELECT k, c FROM grow.t", 97), before, "the pager");
        rounds += 1;
    }
    rounds
}

fn scan_ring(address: &str, written: &AtomicI32, is_done: &AtomicBool) -> u32 {
    let mut client = Client::connect(address).unwrap();
    let mut rounds = 0;
    while !is_done.load(Ordering::SeqCst) {
        let before = written.load(Ordering::SeqCst);
        let mut rows = Vec::new();
        for part in 0..16i128 {
            let first = i128::from(i64::MIN) + (part << 60);
            let last = first + (1 << 60) - 1;
            let text =
                format!("SELECT k, c FROM grow.t WHERE token(k) >= {first} AND token(k) <= {last}");
            rows.extend(ask(&mut client, &text, 500));
        }
        check(&rows, before, "the scanner");
        rounds += 1;
    }
    rounds
}

/// Counts up under a condition; returns how often it was applied.
fn count_up(address: &str, is_done: &AtomicBool) -> i32 {
    let mut client = Client::connect(address).unwrap();
    let mut applied = 0;
    while !is_done.load(Ordering::SeqCst) {
        let now = int(&ask(&mut client, "SELECT n FROM grow.one WHERE k = 1", 10)[0], 0);
        let next = now + 1;
        let text = format!("UPDATE grow.one SET n = {next} WHERE k = 1 IF n = {now}");
        let answer = ask(&mut client, &text, 10);
        applied += i32::from(answer[0][0].as_deref() == Some(&[1]));
    }
    applied
}

fn history_count(client: &mut Client) -> usize {
    ask(client, "SELECT number FROM system_helenus.partition_history WHERE space = 'grow'", 1000)
        .len()
}

fn map_of(client: &mut Client) -> Vec<Row> {
    let text = "SELECT first_token, last_token, id, reason FROM system_helenus.physical_partitions WHERE space = 'grow'";
    ask(client, text, 1000)
}

#[test]
fn a_table_grows_through_dozens_of_splits_and_a_crash() {
    let settings = [
        "limits.physical_partition_bytes=60KB",
        "limits.logical_partition_bytes=40KB",
        "partitions.interval=50ms",
        // How long a request takes is no matter of this test.
        "timeouts.read=60s",
        "timeouts.range=60s",
        "timeouts.write=60s",
        "timeouts.cas=60s",
    ];
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let mut node = Node::start(Path::new(env!("CARGO_BIN_EXE_helenus")), &arguments).unwrap();
    let address = node.address();
    let mut client = Client::connect(&address).unwrap();
    tell(
        &mut client,
        "CREATE KEYSPACE grow WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    tell(&mut client, "CREATE TABLE grow.t (k int, c int, v text, PRIMARY KEY (k, c))");
    tell(&mut client, "CREATE TABLE grow.one (k int PRIMARY KEY, n int)");
    tell(&mut client, "INSERT INTO grow.one (k, n) VALUES (1, 0)");
    let (written, is_done) = (AtomicI32::new(0), AtomicBool::new(false));
    let value = "v".repeat(VALUE_BYTES);
    let applied: i32 = std::thread::scope(|scope| {
        let _ends = Ends(&is_done);
        let pager = scope.spawn(|| page_through(&address, &written, &is_done));
        let scanner = scope.spawn(|| scan_ring(&address, &written, &is_done));
        let counters: Vec<_> =
            (0..2).map(|_| scope.spawn(|| count_up(&address, &is_done))).collect();
        for key in 0..KEYS_MAX {
            for row in 0..ROWS_PER_KEY {
                let text = format!("INSERT INTO grow.t (k, c, v) VALUES ({key}, {row}, '{value}')");
                tell(&mut client, &text);
            }
            written.store(key + 1, Ordering::SeqCst);
            if key % 50 == 0 && history_count(&mut client) >= SPLITS_MIN {
                break;
            }
        }
        is_done.store(true, Ordering::SeqCst);
        assert!(pager.join().unwrap() > 0 && scanner.join().unwrap() > 0);
        counters.into_iter().map(|counter| counter.join().unwrap()).sum()
    });
    let splits = history_count(&mut client);
    assert!(splits >= SPLITS_MIN, "{splits} splits");
    assert_eq!(int(&ask(&mut client, "SELECT n FROM grow.one WHERE k = 1", 10)[0], 0), applied);

    node.kill().unwrap();
    node.launch().unwrap();
    let mut client = Client::connect(&address).unwrap();
    let keys = written.load(Ordering::SeqCst);
    check(&ask(&mut client, "SELECT k, c FROM grow.t", 500), keys, "after the crash");
    assert_eq!(int(&ask(&mut client, "SELECT n FROM grow.one WHERE k = 1", 10)[0], 0), applied);
    assert!(history_count(&mut client) >= splits, "the history is kept");
    let map = map_of(&mut client);
    assert!(map.len() >= SPLITS_MIN, "the map is kept: {}", map.len());
    assert_eq!(long(&map[0], 0), i64::MIN);
    assert_eq!(long(&map[map.len() - 1], 1), i64::MAX);
    let sizes = ask(
        &mut client,
        "SELECT bytes, rows FROM system_helenus.physical_partitions WHERE space = 'grow'",
        1000,
    );
    let (bytes, rows): (i64, i64) =
        sizes.iter().fold((0, 0), |sum, row| (sum.0 + long(row, 0), sum.1 + long(row, 1)));
    let rows_expected = i64::from(keys * ROWS_PER_KEY);
    // One row more, with a key and a number; parts of the ring that bounds cut are estimates.
    let expected = rows_expected * ROW_BYTES + 8;
    assert!((bytes - expected).abs() * 100 <= expected, "{bytes} is not {expected}");
    assert!((rows - rows_expected - 1).abs() * 100 <= rows_expected, "{rows}");
}

#[test]
fn a_full_logical_partition_refuses_writes_until_there_is_room() {
    let settings = ["--set", "limits.logical_partition_bytes=20KB"];
    let node = Node::start(Path::new(env!("CARGO_BIN_EXE_helenus")), &settings).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    tell(
        &mut client,
        "CREATE KEYSPACE filled WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    tell(&mut client, "CREATE TABLE filled.t (k text, c int, v text, PRIMARY KEY (k, c))");
    let insert = |key: &str, row: i32| {
        format!("INSERT INTO filled.t (k, c, v) VALUES ('{key}', {row}, '{}')", "v".repeat(1_000))
    };
    let mut warnings = Vec::new();
    let mut refusal = None;
    for row in 0..30 {
        let message = client.query(&insert("big", row), &Execution::default()).unwrap();
        warnings.extend(message.warnings.iter().map(ToString::to_string));
        if let Response::Error(error) = message.response {
            refusal = Some((row, error.message.clone()));
            break;
        }
    }
    let (row, text) = refusal.expect("the twentieth row is too much");
    assert_eq!(row, 19, "{text}");
    for word in ["'big'", "filled.t", "19133", "20000"] {
        assert!(text.contains(word), "{text} should say {word}");
    }
    for (warning, level) in warnings.iter().zip(["50 %", "80 %", "95 %"]) {
        assert!(warning.contains(level), "{warning}");
    }
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    tell(&mut client, &insert("other", 1));
    assert_eq!(ask(&mut client, "SELECT c FROM filled.t WHERE k = 'big'", 100).len(), 19);
    tell(&mut client, "DELETE FROM filled.t WHERE k = 'big' AND c < 10");
    let mut is_taken = false;
    for _ in 0..600 {
        let message = client.query(&insert("big", 100), &Execution::default()).unwrap();
        is_taken = !matches!(message.response, Response::Error(_));
        if is_taken {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(is_taken, "what was deleted still counts after half a minute");
}
