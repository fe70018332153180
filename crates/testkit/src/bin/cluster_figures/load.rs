//! What the parts share: statements, clients that ask at a steady pace, and what they saw.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use protocol::{Consistency, PreparedResponse, Response};
use testkit::{Client, Cluster, Execution, OwnedValue, eventually};

use crate::{Failure, NODES};

/// So long anything may take that does not fail.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// A node that does not answer is given up after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// While clients write nobody has everything at every moment; who lacks more is behind.
const LAG_MAX: i64 = 100;
/// Clients of each node.
const CLIENTS_PER_NODE: usize = 2;
/// Between two requests of a client: so that the machine is not busy with them alone.
const PACE: Duration = Duration::from_millis(20);

pub(crate) type Row = Vec<Option<Vec<u8>>>;

pub(crate) fn start(binary: &Path, nodes: u8) -> Result<Cluster, Failure> {
    Ok(Cluster::start(binary, nodes, &[])?)
}

pub(crate) fn connect(address: &str) -> Result<Client, Failure> {
    let mut client = Client::connect(address).map_err(|error| error.to_string())?;
    client.set_patience(PATIENCE).map_err(|error| error.to_string())?;
    Ok(client)
}

/// What a statement gets at QUORUM.
pub(crate) fn ask(client: &mut Client, text: &str) -> Result<Vec<Row>, Failure> {
    let execution = Execution::at(Consistency::Quorum);
    let message = client.query(text, &execution).map_err(|error| error.to_string())?;
    match message.response {
        Response::Error(error) => Err(format!("{text}: {}", error.message).into()),
        Response::Rows(rows) => Ok(rows
            .rows()
            .map(|row| row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect())
            .collect()),
        _ => Ok(Vec::new()),
    }
}

/// A number of four or eight bytes.
pub(crate) fn number(row: &Row, column: usize) -> Option<i64> {
    let cell = row.get(column)?.as_deref()?;
    match cell.len() {
        4 => Some(i32::from_be_bytes(cell.try_into().ok()?).into()),
        _ => Some(i64::from_be_bytes(cell.try_into().ok()?)),
    }
}

pub(crate) fn prepare(client: &mut Client, text: &str) -> Result<PreparedResponse, Failure> {
    let prepared = client.prepare(text).map_err(|error| error.to_string())?;
    prepared.map_err(|message| format!("{text}: {:?}", message.response).into())
}

/// Executes at QUORUM.
pub(crate) fn execute(
    client: &mut Client,
    prepared: &PreparedResponse,
    values: Vec<Vec<u8>>,
) -> Result<Vec<Row>, Failure> {
    let values = values.into_iter().map(OwnedValue::Bytes).collect();
    let execution = Execution { values, ..Execution::at(Consistency::Quorum) };
    let message = client.execute(prepared, &execution).map_err(|error| error.to_string())?;
    match message.response {
        Response::Error(error) => Err(error.message.into()),
        Response::Rows(rows) => Ok(rows
            .rows()
            .map(|row| row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect())
            .collect()),
        _ => Ok(Vec::new()),
    }
}

pub(crate) fn create_keyspace(client: &mut Client) -> Result<(), Failure> {
    let replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}";
    ask(client, &format!("CREATE KEYSPACE figures WITH replication = {replication}"))?;
    Ok(())
}

/// The sets of the rows that the parts write.
pub(crate) fn sets(client: &mut Client) -> Result<Vec<i64>, Failure> {
    let text = "SELECT id FROM system_helenus.physical_partitions WHERE space = 'figures'";
    let sets: Vec<i64> = ask(client, text)?.iter().filter_map(|row| number(row, 0)).collect();
    if sets.is_empty() { Err("no set has the rows".into()) } else { Ok(sets) }
}

/// Their members: node, lag, and who leads.
pub(crate) fn members(client: &mut Client) -> Result<Vec<Row>, Failure> {
    let mut members = Vec::new();
    for set in sets(client)? {
        let text =
            format!("SELECT node, lag, leader FROM system_helenus.replicas WHERE set_id = {set}");
        members.extend(ask(client, &text)?);
    }
    Ok(members)
}

/// Waits until nothing is moved and all members have what there is.
pub(crate) fn wait_until_settled(cluster: &Cluster, asked: usize) -> Result<(), Failure> {
    let mut client = connect(cluster.address(asked))?;
    let mut calm = 0;
    let look = || {
        let is_calm = (|| {
            let jobs = "SELECT id FROM system_helenus.jobs WHERE state = 'running'";
            let jobs = ask(&mut client, jobs).ok()?;
            let members =
                ask(&mut client, "SELECT lag, leader FROM system_helenus.replicas").ok()?;
            let is_behind = |row: &Row| {
                number(row, 0).is_none_or(|lag| lag > LAG_MAX) || number(row, 1).is_none()
            };
            (jobs.is_empty() && !members.is_empty() && !members.iter().any(is_behind)).then_some(())
        })()
        .is_some();
        calm = if is_calm { calm + 1 } else { 0 };
        (calm >= 3).then_some(())
    };
    Ok(eventually("nothing moves, and nobody is behind", SOON, look)?)
}

/// A request: when it began and when it was answered, since the load began.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

/// What happened in which time.
pub(crate) type Window = Span;

impl Span {
    pub(crate) fn touches(&self, other: &Span) -> bool {
        self.begin < other.end && other.begin < self.end
    }
}

/// Clients that write a row of their own and read it, at a steady pace, each at a node of its own, without asking again when something fails.
pub(crate) struct Load {
    begin: Instant,
    is_done: AtomicBool,
    requests: AtomicI64,
}

/// What the clients saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) writes: Vec<Span>,
    pub(crate) reads: Vec<Span>,
    pub(crate) errors: Vec<String>,
}

impl Load {
    /// Runs clients of the first four nodes, and meanwhile whatever is to be measured.
    pub(crate) fn run<T>(
        cluster: &mut Cluster,
        measured: impl FnOnce(&mut Cluster, &Load) -> Result<T, Failure>,
    ) -> Result<(T, Seen), Failure> {
        let mut client = connect(cluster.address(1))?;
        create_keyspace(&mut client)?;
        ask(&mut client, "CREATE TABLE figures.t (k bigint PRIMARY KEY, v bigint)")?;
        wait_until_settled(cluster, 1)?;
        let load = Load {
            begin: Instant::now(),
            is_done: AtomicBool::new(false),
            requests: AtomicI64::new(0),
        };
        let addresses: Vec<String> = (1..=usize::from(NODES))
            .flat_map(|node| {
                std::iter::repeat_n(cluster.address(node).to_owned(), CLIENTS_PER_NODE)
            })
            .collect();
        std::thread::scope(|scope| {
            let load = &load;
            let clients: Vec<ScopedJoinHandle<'_, Seen>> = addresses
                .iter()
                .zip(0_i64..)
                .map(|(address, number)| scope.spawn(move || load.keep_asking(address, number)))
                .collect();
            let measured = measured(cluster, load);
            load.is_done.store(true, Ordering::SeqCst);
            let mut seen = Seen::default();
            for client in clients {
                let one = client.join().map_err(|_| "a client panicked")?;
                seen.writes.extend(one.writes);
                seen.reads.extend(one.reads);
                seen.errors.extend(one.errors);
            }
            Ok((measured?, seen))
        })
    }

    /// Now, since the load began.
    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Waits until requests are answered.
    pub(crate) fn warm_up(&self) -> Result<(), Failure> {
        let enough = || (self.requests.load(Ordering::SeqCst) > 400).then_some(());
        Ok(eventually("400 requests are answered", SOON, enough)?)
    }

    fn keep_asking(&self, address: &str, number: i64) -> Seen {
        let mut seen = Seen::default();
        while !self.is_done.load(Ordering::SeqCst) {
            if let Err(error) = self.ask_until_it_fails(address, number, &mut seen) {
                seen.errors.push(format!("{address}: {error}"));
            }
            sleep(PACE);
        }
        seen
    }

    fn ask_until_it_fails(
        &self,
        address: &str,
        number: i64,
        seen: &mut Seen,
    ) -> Result<(), Failure> {
        let mut client = connect(address)?;
        let insert = prepare(&mut client, "INSERT INTO figures.t (k, v) VALUES (?, ?)")?;
        let select = prepare(&mut client, "SELECT v FROM figures.t WHERE k = ?")?;
        let mut turn = 0_i64;
        let mut due = self.now();
        while !self.is_done.load(Ordering::SeqCst) {
            turn += 1;
            let key = ((number << 32) | (turn % 1000)).to_be_bytes().to_vec();
            let value = turn.to_be_bytes().to_vec();
            self.timed(&mut seen.writes, || {
                execute(&mut client, &insert, vec![key.clone(), value.clone()])
            })?;
            let rows = self.timed(&mut seen.reads, || execute(&mut client, &select, vec![key]))?;
            if rows != [vec![Some(value)]] {
                return Err(format!("a write that was acknowledged is not read: {rows:?}").into());
            }
            // Late ones are not made up for: a pause would be followed by a storm.
            due = (due + PACE).max(self.now());
            sleep(due.saturating_sub(self.now()).max(PACE / 2));
        }
        Ok(())
    }

    fn timed<T>(
        &self,
        spans: &mut Vec<Span>,
        request: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let begin = self.now();
        let answer = request();
        spans.push(Span { begin, end: self.now() });
        self.requests.fetch_add(1, Ordering::SeqCst);
        answer
    }
}

impl Seen {
    /// How long requests took that were under way in a time, in milliseconds, in order.
    pub(crate) fn during(&self, windows: &[Window]) -> Vec<f64> {
        during(self.writes.iter().chain(&self.reads), windows)
    }
}

pub(crate) fn during<'s>(
    spans: impl IntoIterator<Item = &'s Span>,
    windows: &[Window],
) -> Vec<f64> {
    let is_wanted = |it: &&Span| windows.iter().any(|window| window.touches(it));
    sorted(spans.into_iter().filter(is_wanted).map(|it| ms(it.end - it.begin)))
}

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The one at a share of numbers that are in order.
pub(crate) fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).ceil() as usize).copied().unwrap_or(0.0)
}
