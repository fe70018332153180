//! Everything at once: a cluster of real processes, many clients, and faults of all kinds at the same time, all drawn from one seed. Then everything heals by itself, and
//! what clients were told is judged. What happened when depends on the machine, so a seed tells what is tried, not what comes of it.
//!
//! Reading order: [`Wish`], [`run`], `load.rs` and `timed.rs` (what clients ask), `faults.rs` (what is done to the nodes), `judge.rs`, `soak.rs` (what must not grow), `page.rs`.

#![expect(clippy::disallowed_methods, reason = "a harness runs in the real world")]

mod caller;
mod faults;
mod ground;
mod judge;
#[cfg(test)]
mod judge_tests;
mod load;
mod page;
mod soak;
mod timed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use protocol::{Consistency, Response};

pub use judge::Anomaly;

use self::caller::{Caller, Table, Told};
use self::faults::{Field, LANES};
use self::ground::{Ground, Lead, lock};
use self::judge::Ending;
use self::load::{ACCOUNT_BEGINS_WITH, ACCOUNTS, CLIENTS, COUNTERS, GROUPS, SCANNED, Seen, TABLES};
use crate::disk::{Board, Shim};
use crate::{Client, Cluster, Execution, Links, Start};

/// So long everybody may take to get on again when nothing is done to the nodes any more.
const HEALED_WITHIN: Duration = Duration::from_secs(90);
/// What takes part of the time after that: batches that are finished by others, members that catch up.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Answers that every client must get when everything is healed.
const ANSWERS_AFTER: u64 = 5;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The setup is tried again for so long.
const DEFINED_WITHIN: Duration = Duration::from_secs(60);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The server.
    pub binary: PathBuf,
    /// Everything is drawn from it.
    pub seed: u64,
    /// So long there are faults.
    pub time: Duration,
    /// Nodes at first; up to two more join.
    pub nodes: u8,
    /// So many times longer nothing happens between two faults.
    pub calm: u32,
    /// Where the page goes.
    pub page: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// Requests that were sent.
    pub operations: usize,
    /// Things done to the nodes.
    pub faults: usize,
    /// Histories that could not be judged.
    pub undecided: usize,
    /// What must not be.
    pub anomalies: Vec<Anomaly>,
}

/// Runs it, judges it, and writes the page.
pub fn run(wish: &Wish) -> Result<Report, Failure> {
    let mut cluster = Cluster::start(&wish.binary, wish.nodes, &["partitions.per_space=2"])?;
    let shim = Shim::build()?;
    let mut boards = Vec::new();
    for node in 1..=usize::from(wish.nodes) {
        let board = Board::new(cluster.data_dir().join(format!("board{node}")))?;
        let folder = cluster.folder(node).to_path_buf();
        let environment = shim.environment(&folder, None, Some(&board));
        cluster.set_start(node, Start { environment, ..Start::default() })?;
        boards.push(board);
    }
    let links = Links::open(&mut cluster)?;
    define(&cluster)?;
    let addresses = (1..=cluster.count()).map(|node| cluster.address(node).to_owned()).collect();
    let ground = Ground::new(addresses, CLIENTS as usize);
    let field = Field {
        ground: &ground,
        cluster: Mutex::new(cluster),
        links,
        boards,
        binary: wish.binary.clone(),
        gone: Mutex::default(),
    };
    let mut anomalies = Vec::new();
    let mut seen = Seen::default();
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        let (ground, field) = (&ground, &field);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || load::run(number, wish.seed, ground)))
            .collect();
        let watching = scope.spawn(move || watch(ground));
        let sampling = scope.spawn(move || soak::watch(field));
        let lanes: Vec<_> =
            (0..LANES.len()).map(|lane| scope.spawn(move || field.run(lane, wish))).collect();
        ground.last(wish.time);
        ground.calm();
        for complaint in lanes.into_iter().flat_map(|lane| lane.join().unwrap_or_default()) {
            anomalies.push(Anomaly { what: "a fault did not end".into(), story: complaint });
        }
        if let Err(error) = heal(field) {
            anomalies.push(Anomaly { what: "it did not heal by itself".into(), story: error });
        }
        ground.end();
        clients.into_iter().filter_map(|it| it.join().ok()).for_each(|it| seen.add(it));
        let _ = watching.join();
        samples = sampling.join().unwrap_or_default();
    });
    let endings = match look_at_all(&field, &ground, &seen) {
        Ok(endings) => endings,
        Err(error) => {
            let what = "in the end not everything can be read".into();
            anomalies.push(Anomaly { what, story: error });
            Vec::new()
        }
    };
    anomalies.extend(judge::judge(&seen, &endings));
    anomalies.extend(soak::judge(wish.time, &samples, &seen.calls));
    let report = Report {
        operations: seen.calls.len(),
        faults: lock(&ground.spells).len(),
        undecided: judge::undecided(&seen),
        anomalies,
    };
    let log = lock(&field.cluster).log();
    page::write(wish, &report, (&seen, &samples), &ground, &log)?;
    Ok(report)
}

/// The tables, and what is in them at first.
fn define(cluster: &Cluster) -> Result<(), Failure> {
    let mut client = cluster.client(1)?;
    let replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}";
    let mut texts = vec![format!("CREATE KEYSPACE chaos WITH replication = {replication}")];
    texts.extend(TABLES.iter().map(|text| text.to_string()));
    texts.push("CREATE INDEX rows_by_group ON chaos.rows (g)".to_owned());
    texts.extend((0..ACCOUNTS).map(|account| {
        format!("INSERT INTO chaos.bank (p, a, v) VALUES (0, {account}, {ACCOUNT_BEGINS_WITH})")
    }));
    let scanned = (0..SCANNED).map(|k| format!("INSERT INTO chaos.scanned (k, v) VALUES ({k}, 0)"));
    texts.extend(scanned);
    let begun = Instant::now();
    for text in texts {
        loop {
            let answer = client.query(&text, &Execution::at(Consistency::Quorum))?.response;
            let Response::Error(error) = answer else { break };
            if begun.elapsed() > DEFINED_WITHIN {
                return Err(format!("{text}: {}", error.message).into());
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
    Ok(())
}

/// Who leads which set, for the picture.
fn watch(ground: &Ground) {
    let mut known: BTreeMap<i32, i64> = BTreeMap::new();
    let mut place = 0;
    while !ground.is_over() {
        place += 1;
        let Ok(mut client) = Client::connect(&ground.address(place)) else {
            std::thread::sleep(LOOK_INTERVAL);
            continue;
        };
        let _ = client.set_patience(Duration::from_secs(2));
        let mut caller = Caller::new(CLIENTS, ground);
        caller.adopt(client);
        let text = "SELECT set_id, leader FROM system_helenus.replicas";
        let told = caller.ask_with("watch", text, &Execution::at(Consistency::One));
        if let Told::Rows(rows) = told {
            for row in 0..rows.rows.len() {
                let set = rows.long(row, "set_id").and_then(|set| i32::try_from(set).ok());
                let set = set.or_else(|| rows.int(row, "set_id"));
                let (Some(set), Some(node)) = (set, rows.long(row, "leader")) else { continue };
                if known.insert(set, node) != Some(node) {
                    lock(&ground.leads).push(Lead { at_ms: ground.now_ms(), set, node });
                }
            }
        }
        std::thread::sleep(LOOK_INTERVAL * 3);
    }
}

/// Nothing is done to the nodes any more, and everybody must get on.
fn heal(field: &Field<'_>) -> Result<(), String> {
    let from_ms = field.ground.now_ms();
    field.heal()?;
    let counts = || field.ground.answered.iter().map(|count| count.load(Ordering::SeqCst));
    let wanted: Vec<u64> = counts().map(|count| count + ANSWERS_AFTER).collect();
    let begun = Instant::now();
    loop {
        let behind: Vec<usize> = counts()
            .zip(&wanted)
            .enumerate()
            .filter_map(|(client, (count, wanted))| (count < *wanted).then_some(client))
            // The one that defines asks only now and then.
            .filter(|client| *client + 1 != CLIENTS as usize)
            .collect();
        if behind.is_empty() {
            break;
        }
        if begun.elapsed() > HEALED_WITHIN {
            return Err(format!("clients {behind:?} get no answers"));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    field.ground.note(from_ms, 2, "healed".to_owned());
    Ok(())
}

/// What all nodes show in the end. What may take a moment is looked at until it is right, or time is over.
fn look_at_all(field: &Field<'_>, ground: &Ground, seen: &Seen) -> Result<Vec<Ending>, String> {
    let begun = Instant::now();
    loop {
        let endings: Result<Vec<Ending>, String> =
            field.nodes().into_iter().map(|node| look_at(field, ground, node, seen)).collect();
        let is_late = begun.elapsed() > SETTLED_WITHIN;
        match endings {
            Ok(endings) => {
                let is_settled = |it: &Ending| {
                    it.batch_r == it.batch_s && it.rows.keys().all(|k| it.weak_rows.contains(k))
                };
                if is_late || endings.iter().all(is_settled) {
                    return Ok(endings);
                }
            }
            Err(error) if is_late => return Err(error),
            Err(_) => {}
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn look_at(field: &Field<'_>, ground: &Ground, node: usize, seen: &Seen) -> Result<Ending, String> {
    let address = lock(&field.cluster).address(node).to_owned();
    let client = Client::connect(&address).map_err(|error| format!("node {node}: {error}"))?;
    let mut caller = Caller::new(CLIENTS, ground);
    caller.adopt(client);
    let mut get = |text: &str, level: Consistency| -> Result<Table, String> {
        match caller.ask_with("look", text, &Execution::at(level)) {
            Told::Rows(rows) => Ok(rows),
            other => Err(format!("node {node}: {text}: {other:?} {:?}", caller.strange.last())),
        }
    };
    let quorum = Consistency::Quorum;
    let set = |table: &Table| table.column("k").into_iter().collect::<BTreeSet<i32>>();
    let mut ending = Ending { node, ..Ending::default() };
    for key in seen.registers.iter().map(|(key, _)| *key).collect::<BTreeSet<u64>>() {
        let call_at = ground.now_ns();
        let rows = get(&format!("SELECT v FROM chaos.registers WHERE k = {key}"), quorum)?;
        ending.registers.push((key, call_at, ground.now_ns(), rows.int(0, "v")));
    }
    for key in 0..COUNTERS as u64 {
        let call_at = ground.now_ns();
        let rows = get(&format!("SELECT n FROM chaos.counters WHERE k = {key}"), quorum)?;
        let value = rows.long(0, "n").unwrap_or(0);
        ending.counters.push((key, call_at, ground.now_ns(), value));
    }
    let lists = get("SELECT k, l FROM chaos.lists", quorum)?;
    ending.at_ns = ground.now_ns();
    for row in 0..lists.rows.len() {
        let key = lists.int(row, "k").and_then(|key| u64::try_from(key).ok()).unwrap_or(u64::MAX);
        ending.lists.insert(key, lists.ints(row, "l"));
    }
    let pairs = |rows: &Table| -> BTreeMap<i32, i32> {
        let groups = (0..rows.rows.len()).map(|row| rows.int(row, "g").unwrap_or(-1));
        rows.column("k").into_iter().zip(groups).collect()
    };
    ending.rows = pairs(&get("SELECT k, g FROM chaos.rows", quorum)?);
    for group in 0..GROUPS {
        let found = get(&format!("SELECT k, g FROM chaos.rows WHERE g = {group}"), quorum)?;
        ending.indexed.extend(pairs(&found));
    }
    ending.weak_rows = set(&get("SELECT k FROM chaos.rows", Consistency::One)?);
    ending.batch_r = set(&get("SELECT k FROM chaos.batch_r", quorum)?);
    ending.batch_s = set(&get("SELECT k FROM chaos.batch_s", quorum)?);
    ending.bank = get("SELECT a, v FROM chaos.bank WHERE p = 0", quorum)?.column("v");
    let text = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'chaos' AND table_name = 'widened'";
    let columns = get(text, Consistency::One)?;
    ending.columns =
        (0..columns.rows.len()).filter_map(|row| columns.text(row, "column_name")).collect();
    Ok(ending)
}
