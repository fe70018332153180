//! Overload without provisioning: a node alone against far more than it can serve.
//!
//!     overload --binary FILE [--seconds N] [--connections N] [--only appetite] [--set KEY=VALUE]...
//!
//! First the peak, by a closed loop that keeps just enough requests under way; then ten times as many at once, by
//! clients that wait as they are told and by clients that do not; then very many connections. At last clients that
//! never read their answers, clients that begin huge requests and never end them, clients that ask for all of a large table
//! at once, and clients that write more than storage can follow, each beside one that behaves. Told are the
//! requests served and refused in a second, how long those took, and the memory of the node. It fails when less than
//! nine tenths of the peak are served, when memory runs away, or when the one that behaves is not served. The load runs on the
//! same machine and may be what is too slow: so what counts is also the processor time that a request takes the node.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for developers"
)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::flow::{Flow, Manners, Tally, Values, connect, quantile};
use testkit::{Client, Execution, Node, OwnedValue};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

const ROWS: u64 = 20_000;
const PEAK: Shape = Shape { connections: 8, window: 32 };
/// How many times as many requests are under way.
const TIMES: usize = 10;
/// Served under overload, against the peak.
const SERVED_MIN: f64 = 0.9;
/// Memory that all of it may take beyond what the peak did, in MB.
const MORE_MB_MAX: u64 = 600;
/// Little, so that its limit is met.
const REQUEST_MEMORY: &str = "memory.requests=256MiB";
/// Clients that do not read, and clients that begin and do not end.
const SLOW: usize = 400;
const PAGE_ROWS: u64 = 2_000;
/// The table that greedy clients ask for as a whole: partitions, and the bytes of each.
const GREEDY_PARTITIONS: u64 = 1_000;
const GREEDY_BYTES: usize = 300 * 1024;
const GREEDY: Shape = Shape { connections: 3, window: 1 };
const LARGE_WRITES: Shape = Shape { connections: 12, window: 32 };
const LARGE_WRITE_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy)]
struct Shape {
    connections: usize,
    window: i16,
}

struct Options {
    binary: String,
    seconds: u64,
    connections: usize,
    /// Only the phases beside greedy clients.
    only_appetite: bool,
    settings: Vec<String>,
}

/// What one phase came to.
struct Figures {
    good_per_second: f64,
    /// Server CPU for each that was served.
    cpu_us: f64,
    memory_mb: u64,
    /// Refused, or answered with another error.
    failed_count: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = parse()?;
    let mut arguments = vec!["--set", REQUEST_MEMORY];
    for setting in &options.settings {
        arguments.extend(["--set", setting]);
    }
    let node = Node::start(Path::new(&options.binary), &arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let failures = runtime.block_on(run(&options, &node))?;
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n").into()),
    }
}

fn parse() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        binary: String::new(),
        seconds: 8,
        connections: 5000,
        only_appetite: false,
        settings: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--binary" => options.binary = value,
            "--seconds" => options.seconds = value.parse()?,
            "--connections" => options.connections = value.parse()?,
            "--set" => options.settings.push(value),
            "--only" if value == "appetite" => options.only_appetite = true,
            _ => return Err(format!("no argument {word}").into()),
        }
    }
    if options.binary.is_empty() { Err("--binary FILE is missing".into()) } else { Ok(options) }
}

async fn run(options: &Options, node: &Node) -> Result<Vec<String>, Box<dyn Error>> {
    let address = node.address();
    let [insert, read, scan] = set_up(&address)?;
    println!(
        "phase                      clients under way    good/s refused/s   p50 ms   p99 ms   max ms  CPU us  RSS MB"
    );
    let mut failures = Vec::new();
    let mut peak_mb = 0;
    let phases =
        if options.only_appetite { vec![] } else { vec![("insert", insert), ("read", read)] };
    for (name, statement) in phases {
        let flow = Flow {
            address: address.clone(),
            statement,
            values: values_of(name),
            first: 0,
            step: 1,
            window: PEAK.window,
            manners: Manners::Obedient,
            pause: None,
            consistency: testkit::flow::CONSISTENCY_ONE,
        };
        let phase = Phase { node, flow: &flow, seconds: options.seconds };
        let over = Shape { connections: PEAK.connections * TIMES, window: PEAK.window };
        let many = Shape { connections: options.connections, window: 4 };
        // The peak comes before and after: what grows over time falls on both.
        let first = phase.run(&format!("{name}, peak"), PEAK, Manners::Obedient).await?;
        let what = format!("{name}, ten times, waiting as told");
        let told = phase.run(&what, over, Manners::Obedient).await?;
        let rude =
            phase.run(&format!("{name}, ten times, stubborn"), over, Manners::Stubborn).await?;
        let again = phase.run(&format!("{name}, peak again"), PEAK, Manners::Obedient).await?;
        peak_mb = first.memory_mb.max(again.memory_mb).max(peak_mb);
        for (what, figures) in [("waiting as told", &told), ("stubborn", &rude)] {
            let mean = |of: fn(&Figures) -> f64| (of(&first) + of(&again)) / 2.0;
            let served = figures.good_per_second / mean(|it| it.good_per_second);
            let possible = mean(|it| it.cpu_us) / figures.cpu_us;
            println!(
                "    {what}: {:.0} % of the peak are served; by the time that a request takes the node, {:.0} %",
                served * 100.0,
                possible * 100.0
            );
            if served.max(possible) < SERVED_MIN {
                failures.push(format!("{name}, {what}: only {:.0} % of the peak", served * 100.0));
            }
        }
        let crowd =
            phase.run(&format!("{name}, many connections"), many, Manners::Obedient).await?;
        for figures in [told, rude, crowd] {
            if figures.memory_mb > peak_mb + MORE_MB_MAX {
                failures.push(format!("{name}: {} MB", figures.memory_mb));
            }
        }
    }
    let good = Flow {
        address: address.clone(),
        statement: prepared(&address, "SELECT a, b, c FROM overload.kv WHERE k = ?")?,
        values: values_of("read"),
        first: 0,
        step: 1,
        window: 1,
        manners: Manners::Obedient,
        pause: Some(Duration::from_millis(5)),
        consistency: testkit::flow::CONSISTENCY_ONE,
    };
    let rude = [("readers that do not read", Rude::NeverReads), ("huge requests", Rude::NeverEnds)];
    for (what, task) in rude.into_iter().filter(|_| !options.only_appetite) {
        let rude = be_rude(&address, &scan, task).await?;
        let phase = Phase { node, flow: &good, seconds: options.seconds };
        let told = format!("beside {SLOW} {what}");
        let figures =
            phase.run(&told, Shape { connections: 1, window: 1 }, Manners::Obedient).await?;
        if figures.good_per_second < 100.0 {
            failures.push(format!("{told}: only {:.0} requests/s", figures.good_per_second));
        }
        if figures.memory_mb > peak_mb + MORE_MB_MAX {
            failures.push(format!("{told}: {} MB", figures.memory_mb));
        }
        drop(rude);
    }
    failures.extend(beside_appetite(options, node, &good).await?);
    Ok(failures)
}

/// One that behaves beside clients that ask for too much at a time, and beside clients that write too much.
async fn beside_appetite(
    options: &Options,
    node: &Node,
    good: &Flow,
) -> Result<Vec<String>, Box<dyn Error>> {
    let address = node.address();
    let keys: Vec<String> = (0..GREEDY_PARTITIONS).map(|key| key.to_string()).collect();
    let select = format!("SELECT * FROM overload.greedy WHERE k IN ({})", keys.join(", "));
    let insert = "INSERT INTO overload.greedy (k, v) VALUES (?, ?)";
    let select = Flow {
        statement: prepared(&address, &select)?,
        values: Arc::new(|_| Vec::new()),
        manners: Manners::Careless,
        pause: None,
        ..good.clone()
    };
    let insert = Flow {
        statement: prepared(&address, insert)?,
        values: Arc::new(|number| {
            let key = i64::try_from(GREEDY_PARTITIONS + number % 10_000).unwrap_or_default();
            vec![key.to_be_bytes().to_vec(), vec![7; LARGE_WRITE_BYTES]]
        }),
        ..select.clone()
    };
    let mut failures = Vec::new();
    for (what, shape, flow) in
        [("greedy SELECTs", GREEDY, &select), ("large writes", LARGE_WRITES, &insert)]
    {
        let begin = Instant::now();
        let end = begin + Duration::from_secs(options.seconds + 1);
        let mut others = JoinSet::new();
        for number in 0..shape.connections as u64 {
            let flow = Flow { first: number << 32, window: shape.window, ..flow.clone() };
            others.spawn(async move { flow.run(begin, end).await });
        }
        let phase = Phase { node, flow: good, seconds: options.seconds };
        let told = format!("beside {} x {} {what}", shape.connections, shape.window);
        let alone = Shape { connections: 1, window: 1 };
        let figures = phase.run(&told, alone, Manners::Careless).await?;
        let mut tallies = Vec::new();
        while let Some(tally) = others.join_next().await {
            tallies.push(tally??);
        }
        let Some(mut all) = Tally::of_all(&tallies) else { return Err("no client ran".into()) };
        println!(
            "    {what}: {} served, {} refused, {} failed {:?}; p50 {:.0} ms, p99 {:.0} ms",
            all.good,
            all.refused,
            all.failed,
            all.failures.first(),
            f64::from(quantile(&mut all.latencies_us, 0.5)) / 1000.0,
            f64::from(quantile(&mut all.latencies_us, 0.99)) / 1000.0,
        );
        if figures.failed_count > 0 {
            failures.push(format!("{told}: {} requests failed", figures.failed_count));
        }
        if what == "large writes" && all.refused + all.failed > 0 {
            failures.push(format!("{told}: {} were refused", all.refused + all.failed));
        }
    }
    Ok(failures)
}

/// The table, its rows, and the statements: an insert, a read and a page.
fn set_up(address: &str) -> Result<[Vec<u8>; 3], Box<dyn Error>> {
    let mut client = Client::connect(address)?;
    for statement in [
        "CREATE KEYSPACE IF NOT EXISTS overload WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS overload.kv (k bigint PRIMARY KEY, a blob, b blob, c int)",
        "CREATE TABLE IF NOT EXISTS overload.pages (k int, t bigint, v blob, PRIMARY KEY (k, t))",
        "CREATE TABLE IF NOT EXISTS overload.greedy (k bigint PRIMARY KEY, v blob)",
    ] {
        client.query(statement, &Execution::default())?;
    }
    let insert = "INSERT INTO overload.kv (k, a, b, c) VALUES (?, ?, ?, ?)";
    let row = client.prepare("INSERT INTO overload.pages (k, t, v) VALUES (0, ?, ?)")?;
    let row = row.map_err(|message| format!("{:?}", message.response))?;
    let of_row = |number: u64| Execution {
        values: vec![
            OwnedValue::Bytes(number.to_be_bytes().to_vec()),
            OwnedValue::Bytes(vec![7; 2000]),
        ],
        ..Execution::default()
    };
    for first in (0..PAGE_ROWS).step_by(100) {
        let rows: Vec<Execution> = (first..first + 100).map(of_row).collect();
        client.execute_many(&row, &rows)?;
    }
    let greedy = client.prepare("INSERT INTO overload.greedy (k, v) VALUES (?, ?)")?;
    let greedy = greedy.map_err(|message| format!("{:?}", message.response))?;
    for key in 0..GREEDY_PARTITIONS {
        let values = vec![
            OwnedValue::Bytes(key.to_be_bytes().to_vec()),
            OwnedValue::Bytes(vec![7; GREEDY_BYTES]),
        ];
        client.execute_many(&greedy, &[Execution { values, ..Execution::default() }])?;
    }
    let prepared_insert = client.prepare(insert)?;
    let prepared_insert = prepared_insert.map_err(|message| format!("{:?}", message.response))?;
    let values = values_of("insert");
    for first in (0..ROWS).step_by(100) {
        let rows: Vec<Execution> = (first..first + 100)
            .map(|number| Execution {
                values: values(number).into_iter().map(OwnedValue::Bytes).collect(),
                ..Execution::default()
            })
            .collect();
        client.execute_many(&prepared_insert, &rows)?;
    }
    Ok([
        prepared_insert.id.to_vec(),
        prepared(address, "SELECT a, b, c FROM overload.kv WHERE k = ?")?,
        prepared(address, "SELECT v FROM overload.pages WHERE k = ?")?,
    ])
}

fn prepared(address: &str, text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let prepared = Client::connect(address)?.prepare(text)?;
    Ok(prepared.map_err(|message| format!("{:?}", message.response))?.id.to_vec())
}

fn values_of(name: &str) -> Values {
    let is_insert = name == "insert";
    Arc::new(move |number| {
        let key = (number.wrapping_mul(7919) % ROWS).to_be_bytes().to_vec();
        match is_insert {
            true => vec![key, vec![b'a'; 110], vec![b'b'; 110], vec![0; 4]],
            false => vec![key],
        }
    })
}

struct Phase<'a> {
    node: &'a Node,
    flow: &'a Flow,
    seconds: u64,
}

impl Phase<'_> {
    async fn run(
        &self,
        name: &str,
        shape: Shape,
        manners: Manners,
    ) -> Result<Figures, Box<dyn Error>> {
        let Some(process) = self.node.process_id() else { return Err("the node is gone".into()) };
        let begin = Instant::now();
        // Thousands of connections take a moment.
        let warm_up = Duration::from_millis(500 + shape.connections as u64 / 4);
        let end = begin + warm_up + Duration::from_secs(self.seconds);
        let mut flows = JoinSet::new();
        for number in 0..shape.connections as u64 {
            let flow = Flow {
                first: number,
                step: shape.connections as u64,
                window: shape.window,
                manners,
                ..self.flow.clone()
            };
            flows.spawn(async move { flow.run(begin, end).await });
        }
        tokio::time::sleep_until((begin + warm_up).into()).await;
        let cpu_before = cpu_time(process)?;
        let mut memory_mb = 0;
        while Instant::now() + Duration::from_millis(200) < end {
            memory_mb = memory_mb.max(resident_mb(process)?);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep_until(end.into()).await;
        let cpu = cpu_time(process)?.saturating_sub(cpu_before);
        let mut tallies = Vec::new();
        while let Some(tally) = flows.join_next().await {
            tallies.push(tally??);
        }
        let Some(mut all) = Tally::of_all(&tallies) else { return Err("no client ran".into()) };
        if all.failed > 0 {
            println!("{} failed: {:?}", all.failed, all.failures);
        }
        let took = end.duration_since(begin).as_secs_f64();
        let good = all.good as f64 / took;
        let cpu_us = cpu.as_secs_f64() * 1e6 / (good * self.seconds as f64).max(1.0);
        let ms = |us: u32| f64::from(us) / 1000.0;
        let latencies = &mut all.latencies_us;
        let most = latencies.iter().copied().max().unwrap_or(0);
        println!(
            "{name:<38} {:>4} x {:<4} {good:>9.0} {:>9.0} {:>8.2} {:>8.2} {:>8.2} {:>7.1} {memory_mb:>7}",
            shape.connections,
            shape.window,
            all.refused as f64 / took,
            ms(quantile(latencies, 0.5)),
            ms(quantile(latencies, 0.99)),
            ms(most),
            cpu_us,
        );
        let failed_count = all.refused + all.failed;
        Ok(Figures { good_per_second: good, cpu_us, memory_mb, failed_count })
    }
}

#[derive(Clone, Copy)]
enum Rude {
    /// Asks for many large pages and reads none.
    NeverReads,
    /// Begins a request of 15 MB and never ends it.
    NeverEnds,
}

/// Clients that behave badly until they are dropped.
async fn be_rude(address: &str, scan: &[u8], how: Rude) -> Result<JoinSet<()>, Box<dyn Error>> {
    const HUGE_BYTES: usize = 15 << 20;
    let mut rude = JoinSet::new();
    for _ in 0..SLOW {
        let mut stream = connect(address).await?;
        let bytes: Vec<u8> = match how {
            Rude::NeverReads => {
                let mut one = vec![4, 0, 0, 1, 0x0a];
                let length = 2 + scan.len() + 2 + 1 + 2 + 8;
                one.extend(u32::try_from(length)?.to_be_bytes());
                one.extend(u16::try_from(scan.len())?.to_be_bytes());
                one.extend(scan);
                one.extend([0, 1, 1, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0]);
                one.repeat(200)
            }
            Rude::NeverEnds => {
                let mut one = vec![4, 0, 0, 1, 0x07];
                one.extend(u32::try_from(HUGE_BYTES)?.to_be_bytes());
                one.resize(HUGE_BYTES, b' ');
                one
            }
        };
        rude.spawn(async move {
            // It ends when the server hangs up, or when we are dropped.
            if stream.write_all(&bytes).await.is_ok() {
                std::future::pending::<()>().await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(rude)
}

fn resident_mb(process: u32) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb: u64 = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kb / 1024)
}

/// User and system time of a process so far.
fn cpu_time(process: u32) -> Result<Duration, Box<dyn Error>> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("an unreadable process")?;
    let mut ticks = fields.split_whitespace().skip(11);
    let user: f64 = ticks.next().ok_or("no user time")?.parse()?;
    let system: f64 = ticks.next().ok_or("no system time")?.parse()?;
    Ok(Duration::from_secs_f64((user + system) / TICKS_PER_SECOND))
}
