//! What a split costs those who read and write meanwhile: a fresh node under load, split by hand again and again, and
//! every row looked for at the end.
//!
//!     splits BINARY [--splits N] [--connections N] [--rows N] [--partitions N] [--tables N] [--set KEY=VALUE]...
//!
//! Compared are requests that were under way during a split, or within twenty milliseconds of its begin, with requests that
//! were under way during moments of the same length between two splits. (A split waits for the same disk and the same
//! threads as a write. If only the time until its end counted, moments in which everything is slow would weigh more among splits.)
//! A request that fails, or a row that is missing, doubled or wrong, ends it with an error.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for developers: it measures"
)]

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use protocol::Response;
use testkit::{Client, Execution, Node, OwnedValue};

const VALUE_BYTES: usize = 200;
const IN_FLIGHT: i64 = 64;
/// Between two splits, and between a split and the moment it is compared with.
const GAP: Duration = Duration::from_millis(150);
/// A split counts for so long at least.
const MOMENT: Duration = Duration::from_millis(20);
/// So long nothing is split and nothing counted, so that caches are warm.
const WARM_UP: Duration = Duration::from_secs(3);

type Failure = Box<dyn Error + Send + Sync>;

/// What is asked for.
struct Wish {
    binary: String,
    splits: usize,
    connections: usize,
    rows: i64,
    partitions: Option<usize>,
    tables: usize,
    settings: Vec<String>,
}

impl Wish {
    fn parse(arguments: &[String]) -> Result<Wish, Failure> {
        let usage = "usage: splits BINARY [--splits N] [--connections N] [--rows N] [--partitions N] [--tables N] [--set KEY=VALUE]...";
        let (binary, rest) = arguments.split_first().ok_or(usage)?;
        let mut wish = Wish {
            binary: binary.clone(),
            splits: 100,
            connections: 8,
            rows: 50_000,
            partitions: None,
            tables: 0,
            settings: Vec::new(),
        };
        for pair in rest.chunks(2) {
            let [name, value] = pair else { return Err(usage.into()) };
            match name.as_str() {
                "--splits" => wish.splits = value.parse()?,
                "--connections" => wish.connections = value.parse::<usize>()?.max(2),
                "--rows" => wish.rows = value.parse()?,
                "--partitions" => wish.partitions = Some(value.parse()?),
                "--tables" => wish.tables = value.parse()?,
                "--set" => wish.settings.push(value.clone()),
                _ => return Err(usage.into()),
            }
        }
        Ok(wish)
    }
}

/// A request or a split: when it began, and when it was done.
#[derive(Clone, Copy)]
struct Span {
    begin: Duration,
    end: Duration,
}

impl Span {
    fn touches(&self, other: &Span) -> bool {
        self.begin < other.end && other.begin < self.end
    }

    fn length(&self) -> Duration {
        self.end - self.begin
    }

    fn at_least_a_moment(&self) -> Span {
        Span { begin: self.begin, end: self.end.max(self.begin + MOMENT) }
    }
}

/// What everybody shares.
struct Run {
    address: String,
    begin: Instant,
    is_done: AtomicBool,
    /// Each writer's rows that were acknowledged are those below this.
    written: Vec<AtomicI64>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wish = Wish::parse(&arguments)?;
    let mut settings = wish.settings.clone();
    settings.extend(wish.partitions.map(|count| format!("partitions.per_space={count}")));
    let arguments: Vec<&str> =
        settings.iter().flat_map(|setting| ["--set", setting.as_str()]).collect();
    let mut node = Node::start(Path::new(&wish.binary), &arguments)?;
    let writers = wish.connections / 2;
    let run = Run {
        address: node.address(),
        begin: Instant::now(),
        is_done: AtomicBool::new(false),
        written: (0..writers).map(|_| AtomicI64::new(0)).collect(),
    };
    prepare(&run, &wish)?;
    let outcome = std::thread::scope(|scope| -> Result<Outcome, Failure> {
        let run = &run;
        let writing: Vec<_> =
            (0..writers).map(|writer| scope.spawn(move || keep_writing(run, writer))).collect();
        let reading: Vec<_> = (writers..wish.connections)
            .map(|reader| scope.spawn(move || keep_reading(run, reader as u64)))
            .collect();
        let split = split_again_and_again(run, node.data_dir(), wish.splits);
        run.is_done.store(true, Ordering::SeqCst);
        let join = |threads: Vec<std::thread::ScopedJoinHandle<'_, Result<Vec<Span>, Failure>>>| {
            let mut spans = Vec::new();
            for thread in threads {
                spans.extend(thread.join().map_err(|_| "a client panicked")??);
            }
            Ok::<Vec<Span>, Failure>(spans)
        };
        let (writes, reads) = (join(writing)?, join(reading)?);
        let (splits, quiet) = split?;
        Ok(Outcome { writes, reads, splits, quiet })
    })?;
    outcome.tell();
    let rows = verify(&run)?;
    tell_history(&run)?;
    println!("{rows} rows, each there once and as it was written last");
    node.stop()?;
    Ok(())
}

struct Outcome {
    writes: Vec<Span>,
    reads: Vec<Span>,
    splits: Vec<Span>,
    quiet: Vec<Span>,
}

impl Outcome {
    fn tell(&self) {
        let lengths = sorted(self.splits.iter());
        println!(
            "{} splits took {:.1} ms in the middle, {:.1} ms at most, asked from outside",
            lengths.len(),
            at(&lengths, 0.5),
            at(&lengths, 1.0)
        );
        let moments: Vec<Span> = self.splits.iter().map(Span::at_least_a_moment).collect();
        for (what, spans) in [("writes", &self.writes), ("reads", &self.reads)] {
            let during = touched(spans, &moments);
            let quiet = touched(spans, &self.quiet);
            let all = sorted(spans.iter());
            println!(
                "{what}: {} in all, p99 {:.2} ms; {} under way in quiet moments, p50 {:.2}, p99 {:.2} ms; \
                 {} during splits, p50 {:.2}, p99 {:.2} ms, at most {:.2} ms: {:.2} times",
                all.len(),
                at(&all, 0.99),
                quiet.len(),
                at(&quiet, 0.5),
                at(&quiet, 0.99),
                during.len(),
                at(&during, 0.5),
                at(&during, 0.99),
                at(&during, 1.0),
                at(&during, 0.99) / at(&quiet, 0.99).max(1e-6),
            );
        }
    }
}

/// Milliseconds, in order.
fn sorted<'s>(spans: impl Iterator<Item = &'s Span>) -> Vec<f64> {
    let mut lengths: Vec<f64> = spans.map(|span| span.length().as_secs_f64() * 1e3).collect();
    lengths.sort_by(f64::total_cmp);
    lengths
}

fn touched(spans: &[Span], moments: &[Span]) -> Vec<f64> {
    sorted(spans.iter().filter(|span| moments.iter().any(|moment| moment.touches(span))))
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).ceil() as usize).copied().unwrap_or(0.0)
}

fn tell(client: &mut Client, text: &str) -> Result<(), Failure> {
    match client.query(text, &Execution::default()).map_err(|error| error.to_string())?.response {
        Response::Error(error) => Err(format!("{text}: {}", error.message).into()),
        _ => Ok(()),
    }
}

fn connect(address: &str) -> Result<Client, Failure> {
    Client::connect(address).map_err(|error| error.to_string().into())
}

fn prepared(client: &mut Client, text: &str) -> Result<protocol::PreparedResponse, Failure> {
    let prepared = client.prepare(text).map_err(|error| error.to_string())?;
    prepared.map_err(|message| format!("{text}: {:?}", message.response).into())
}

/// The value of a row: its key, so that a wrong one is seen.
fn value(key: i64) -> Vec<u8> {
    key.to_be_bytes().repeat(VALUE_BYTES / 8)
}

/// Writers' keys do not meet.
fn key(writer: usize, number: i64) -> i64 {
    ((writer as i64) << 40) + number
}

fn row(key: i64) -> Execution {
    let values = vec![OwnedValue::Bytes(key.to_be_bytes().to_vec()), OwnedValue::Bytes(value(key))];
    Execution { values, ..Execution::default() }
}

const INSERT: &str = "INSERT INTO splits.t (k, v) VALUES (?, ?)";

fn prepare(run: &Run, wish: &Wish) -> Result<(), Failure> {
    let mut client = connect(&run.address)?;
    tell(
        &mut client,
        "CREATE KEYSPACE splits WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    tell(&mut client, "CREATE TABLE splits.t (k bigint PRIMARY KEY, v blob)")?;
    for number in 0..wish.tables {
        tell(
            &mut client,
            &format!("CREATE TABLE splits.other_{number} (k int PRIMARY KEY, v int)"),
        )?;
        tell(&mut client, &format!("INSERT INTO splits.other_{number} (k, v) VALUES (1, 1)"))?;
    }
    let insert = prepared(&mut client, INSERT)?;
    let writers = run.written.len();
    let each = wish.rows / writers.max(1) as i64;
    for (writer, written) in run.written.iter().enumerate() {
        let mut next = 0;
        while next < each {
            let end = each.min(next + IN_FLIGHT);
            let batch: Vec<Execution> =
                (next..end).map(|number| row(key(writer, number))).collect();
            client.execute_many(&insert, &batch).map_err(|error| error.to_string())?;
            next = end;
        }
        written.store(each, Ordering::SeqCst);
    }
    Ok(())
}

/// Writes rows, each of them new; every fourth time one that is there.
fn keep_writing(run: &Run, writer: usize) -> Result<Vec<Span>, Failure> {
    let mut client = connect(&run.address)?;
    let insert = prepared(&mut client, INSERT)?;
    let mut spans = Vec::new();
    let Some(written) = run.written.get(writer) else { return Ok(spans) };
    let mut turn = 0;
    while !run.is_done.load(Ordering::SeqCst) {
        turn += 1;
        let next = written.load(Ordering::SeqCst);
        let number = if turn % 4 == 0 && next > 0 { turn * 7919 % next } else { next };
        let begin = run.begin.elapsed();
        let message = client
            .execute(&insert, &row(key(writer, number)))
            .map_err(|error| error.to_string())?;
        spans.push(Span { begin, end: run.begin.elapsed() });
        if let Response::Error(error) = message.response {
            return Err(format!("a write failed: {}", error.message).into());
        }
        written.fetch_max(number + 1, Ordering::SeqCst);
    }
    Ok(spans)
}

/// Reads rows that were acknowledged.
fn keep_reading(run: &Run, seed: u64) -> Result<Vec<Span>, Failure> {
    let mut client = connect(&run.address)?;
    let select = prepared(&mut client, "SELECT v FROM splits.t WHERE k = ?")?;
    let mut spans = Vec::new();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while !run.is_done.load(Ordering::SeqCst) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let writer = (random % run.written.len().max(1) as u64) as usize;
        let below = run.written.get(writer).map_or(0, |written| written.load(Ordering::SeqCst));
        let number = (random >> 8) as i64 % below.max(1);
        let key = key(writer, number);
        let values = vec![OwnedValue::Bytes(key.to_be_bytes().to_vec())];
        let asked = Execution { values, ..Execution::default() };
        let begin = run.begin.elapsed();
        let message = client.execute(&select, &asked).map_err(|error| error.to_string())?;
        spans.push(Span { begin, end: run.begin.elapsed() });
        let found = match &message.response {
            Response::Rows(rows) => {
                rows.rows().next().and_then(|row| row.first().copied().flatten())
            }
            Response::Error(error) => {
                return Err(format!("a read failed: {}", error.message).into());
            }
            _ => None,
        };
        if found != Some(value(key).as_slice()) {
            return Err(format!("row {key} is missing or wrong").into());
        }
    }
    Ok(spans)
}

/// Splits, and notes a quiet moment of the same length behind each split.
fn split_again_and_again(
    run: &Run,
    data_dir: &Path,
    count: usize,
) -> Result<(Vec<Span>, Vec<Span>), Failure> {
    let (mut splits, mut quiet) = (Vec::new(), Vec::new());
    std::thread::sleep(WARM_UP);
    for _ in 0..count {
        let begin = run.begin.elapsed();
        let answer = ask(data_dir, "[\"split\",\"splits\"]")?;
        let split = Span { begin, end: run.begin.elapsed() };
        if answer.contains("\"error\"") {
            return Err(format!("a split failed: {answer}").into());
        }
        splits.push(split);
        std::thread::sleep(GAP);
        let begin = run.begin.elapsed();
        quiet.push(Span { begin, end: begin + split.at_least_a_moment().length() });
        std::thread::sleep(GAP);
    }
    Ok((splits, quiet))
}

fn ask(data_dir: &Path, question: &str) -> Result<String, Failure> {
    let mut stream = UnixStream::connect(data_dir.join("admin.sock"))?;
    writeln!(stream, "{question}")?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer)?;
    Ok(answer)
}

/// Reads everything and looks for every row.
fn verify(run: &Run) -> Result<usize, Failure> {
    let mut client = connect(&run.address)?;
    let mut execution = Execution { page_size: Some(5_000), ..Execution::default() };
    let mut found: BTreeSet<i64> = BTreeSet::new();
    loop {
        let message = client
            .query("SELECT k, v FROM splits.t", &execution)
            .map_err(|error| error.to_string())?;
        let Response::Rows(rows) = &message.response else {
            return Err(format!("{:?}", message.response).into());
        };
        for row in rows.rows() {
            let [Some(k), Some(v)] = row.as_slice() else { return Err("a row with a null".into()) };
            let k = i64::from_be_bytes((*k).try_into()?);
            if *v != value(k).as_slice() {
                return Err(format!("row {k} is wrong").into());
            }
            if !found.insert(k) {
                return Err(format!("row {k} came twice").into());
            }
        }
        match &rows.metadata.paging_state {
            Some(state) => execution.paging_state = Some(state.to_vec()),
            None => break,
        }
    }
    for (writer, written) in run.written.iter().enumerate() {
        for number in 0..written.load(Ordering::SeqCst) {
            if !found.contains(&key(writer, number)) {
                return Err(format!("row {} is lost", key(writer, number)).into());
            }
        }
    }
    Ok(found.len())
}

/// What the node itself says about the splits.
fn tell_history(run: &Run) -> Result<(), Failure> {
    let mut client = connect(&run.address)?;
    let text = "SELECT took_us, writes_waited_us FROM system_helenus.partition_history WHERE space = 'splits'";
    let message = client.query(text, &Execution::default()).map_err(|error| error.to_string())?;
    let Response::Rows(rows) = &message.response else {
        return Err(format!("{:?}", message.response).into());
    };
    let column = |index: usize| -> Vec<f64> {
        let number = |bytes: &[u8]| bytes.try_into().map(i64::from_be_bytes).unwrap_or(0);
        let mut all: Vec<f64> = rows
            .rows()
            .filter_map(|row| row.get(index).copied().flatten().map(|it| number(it) as f64 / 1e3))
            .collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (took, waited) = (column(0), column(1));
    println!(
        "the node says: a split took {:.1} ms in the middle, p99 {:.1}, at most {:.1} ms; writes to it waited {:.1} ms in \
         the middle, p99 {:.1}, at most {:.1} ms",
        at(&took, 0.5),
        at(&took, 0.99),
        at(&took, 1.0),
        at(&waited, 0.5),
        at(&waited, 0.99),
        at(&waited, 1.0)
    );
    Ok(())
}
