//! A small load: prepared statements, many in flight, on a few connections. It says how many
//! requests a second were answered and how much CPU time the server took for each.
//!
//!     cargo run --release -p testkit --bin load -- 127.0.0.1:9042 PID insert 200000
//!
//! Of a cluster the processes of all nodes, with commas between them.
//!
//! The workloads: insert, read, update, scan, append, slice, batch. `insert` makes the table that read, update and scan need (a scan is of
//! 1/512 of the ring), `append` that of slice; a `batch` is twenty rows of a new partition.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for developers"
)]

use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testkit::{Client, Execution, OwnedValue};

const CONNECTIONS: usize = 2;
const IN_FLIGHT: usize = 64;
const ROWS_PER_PARTITION: i64 = 100;
/// A scan asks for one of so many parts of the ring.
const SCANS_OF_RING: i64 = 512;
const ROWS_PER_BATCH: i64 = 20;
const APPEND: &str = "INSERT INTO load.series (k, t, v) VALUES (?, ?, ?)";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, process, workload, count] = arguments.as_slice() else {
        return Err(
            "usage: load ADDRESS:PORT PID insert|read|update|scan|append|slice|batch COUNT".into(),
        );
    };
    let count: i64 = count.parse()?;
    set_up(address)?;
    let begin = Instant::now();
    let cpu_before = cpu_time(process)?;
    let mut threads = Vec::new();
    for part in 0..CONNECTIONS {
        let (address, workload) = (address.clone(), workload.clone());
        let thread = std::thread::Builder::new().name(format!("load-{part}")).spawn(move || {
            run(&address, &workload, part as i64, count).map_err(|e| e.to_string())
        })?;
        threads.push(thread);
    }
    for thread in threads {
        thread.join().map_err(|_| "a client failed")??;
    }
    let elapsed = begin.elapsed();
    let cpu = cpu_time(process)?.saturating_sub(cpu_before);
    println!(
        "{workload}: {:.0} requests/s, {:.2} us of server CPU each",
        count as f64 / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / count as f64
    );
    Ok(())
}

fn set_up(address: &str) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(address)?;
    for statement in [
        "CREATE KEYSPACE IF NOT EXISTS load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS load.kv (k bigint PRIMARY KEY, a text, b text, c int)",
        "CREATE TABLE IF NOT EXISTS load.series (k bigint, t bigint, v text, PRIMARY KEY (k, t))",
        "CREATE TABLE IF NOT EXISTS load.batched (k bigint, t bigint, v text, PRIMARY KEY (k, t))",
    ] {
        client.query(statement, &Execution::default())?;
    }
    Ok(())
}

fn run(address: &str, workload: &str, part: i64, count: i64) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(address)?;
    let inserts = vec![APPEND.replace("series", "batched"); usize::try_from(ROWS_PER_BATCH)?];
    let batch_text = format!("BEGIN UNLOGGED BATCH {}; APPLY BATCH", inserts.join("; "));
    let text = match workload {
        "insert" => "INSERT INTO load.kv (k, a, b, c) VALUES (?, ?, ?, ?)",
        "read" => "SELECT a, b, c FROM load.kv WHERE k = ?",
        "update" => "UPDATE load.kv SET c = ? WHERE k = ?",
        "scan" => "SELECT k, a, b, c FROM load.kv WHERE token(k) > ? AND token(k) <= ?",
        "append" => APPEND,
        "batch" => &batch_text,
        "slice" => "SELECT t, v FROM load.series WHERE k = ? LIMIT 100",
        _ => return Err("an unknown workload".into()),
    };
    let prepared = client.prepare(text)?.map_err(|message| format!("{:?}", message.response))?;
    let bytes = |bytes: &[u8]| OwnedValue::Bytes(bytes.to_vec());
    let begun_s = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let mut next = part;
    while next < count {
        let mut batch = Vec::with_capacity(IN_FLIGHT);
        while batch.len() < IN_FLIGHT && next < count {
            let key = next.wrapping_mul(7919) % count;
            let values = match workload {
                "insert" => {
                    vec![
                        bytes(&key.to_be_bytes()),
                        bytes(&[b'a'; 110]),
                        bytes(&[b'b'; 110]),
                        bytes(&[0; 4]),
                    ]
                }
                "read" => vec![bytes(&key.to_be_bytes())],
                "update" => vec![bytes(&[1, 2, 3, 4]), bytes(&key.to_be_bytes())],
                "scan" => {
                    let part = next % SCANS_OF_RING;
                    let token = |part: i64| bytes(&(i64::MIN + part * (1 << 55)).to_be_bytes());
                    let last = if part == SCANS_OF_RING - 1 {
                        bytes(&i64::MAX.to_be_bytes())
                    } else {
                        token(part + 1)
                    };
                    vec![token(part), last]
                }
                "append" => vec![
                    bytes(&(next / ROWS_PER_PARTITION).to_be_bytes()),
                    bytes(&(next % ROWS_PER_PARTITION).to_be_bytes()),
                    bytes(&[b'v'; 40]),
                ],
                "batch" => (0..ROWS_PER_BATCH)
                    .flat_map(|row| {
                        // A run after another one writes to other partitions.
                        [
                            bytes(&((begun_s << 30) + next).to_be_bytes()),
                            bytes(&row.to_be_bytes()),
                            bytes(&[b'v'; 40]),
                        ]
                    })
                    .collect(),
                _ => vec![bytes(&(key / ROWS_PER_PARTITION).to_be_bytes())],
            };
            batch.push(Execution { values, ..Execution::default() });
            next += CONNECTIONS as i64;
        }
        client.execute_many(&prepared, &batch)?;
    }
    Ok(())
}

/// Time that the threads of processes ran so far, exact to nanoseconds: the ticks of the process itself would be as coarse
/// as what is compared. A thread that has ended is not counted any more.
fn cpu_time(processes: &str) -> Result<Duration, Box<dyn Error>> {
    let mut ran = Duration::ZERO;
    for process in processes.split(',') {
        for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
            let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
                continue;
            };
            let nanoseconds = text.split(' ').next().and_then(|it| it.parse().ok());
            ran += Duration::from_nanos(nanoseconds.ok_or("an unreadable thread")?);
        }
    }
    Ok(ran)
}
