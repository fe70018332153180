//! Budgets with the real clock: many clients, several tables, against what was provisioned.
//!
//!     budgets --binary FILE [--seconds N] [--nodes N] [--part F] [--set KEY=VALUE]...
//!
//! Tables that share the throughput of a keyspace, tables with their own, one over two physical partitions, and a
//! keyspace whose requests wait on the server. At each of them: greedy clients that wait as they are told, stubborn ones
//! that do not, and content ones that ask for less than their share. Told are the least and the most that was spent in any ten
//! seconds against the budget, how many that waited as told were refused again, and how the content ones fared. It fails
//! when more than two in a hundred are spent too much or too little, when a promise is broken too often, or when content
//! clients are refused.
//!
//! With `--nodes` the same budgets are spent through all nodes of a cluster at once, one of them through one node alone, and
//! one by clients that move from node to node. With `--part 0.25` everything is provisioned a quarter of, for machines that cannot
//! serve it all.

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

use testkit::flow::{CONSISTENCY_ONE, CONSISTENCY_QUORUM, Flow, Manners, Tally, Values, quantile};
use testkit::{Client, Cluster, Execution, Node};
use tokio::task::JoinSet;

const WINDOW: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(5);
/// So long moving clients stay at a node.
const STAY: Duration = Duration::from_secs(10);
/// How far spending may be from the budget.
const TOLERANCE: f64 = 0.02;
/// Of those that waited as told, so many may be told to wait again.
const BROKEN_MAX: f64 = 0.02;
/// Of the requests of content clients, so many may be refused.
const CONTENT_REFUSED_MAX: f64 = 0.02;
const RETRY_KEYSPACE: &str = "waiting";

/// One budget and who spends it.
struct Space {
    name: &'static str,
    tables: &'static [&'static str],
    budget: f64,
    is_read: bool,
    waits_on_server: bool,
    /// The level of its requests.
    consistency: u16,
    /// Where its clients are, where there are several nodes.
    place: Place,
}

/// Where clients are.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    AllNodes,
    OneNode,
    /// At one node after the other.
    Moving,
}

const SPACES: [Space; 6] = [
    Space {
        name: "shared by two tables, writes",
        tables: &["shared.a", "shared.b"],
        budget: 4000.0,
        is_read: false,
        waits_on_server: false,
        consistency: CONSISTENCY_ONE,
        place: Place::AllNodes,
    },
    Space {
        name: "dedicated, strong reads",
        tables: &["shared.own"],
        budget: 1000.0,
        is_read: true,
        waits_on_server: false,
        consistency: CONSISTENCY_QUORUM,
        place: Place::AllNodes,
    },
    Space {
        name: "autoscale, writes",
        tables: &["alone.t"],
        budget: 2000.0,
        is_read: false,
        waits_on_server: false,
        consistency: CONSISTENCY_ONE,
        place: Place::OneNode,
    },
    Space {
        name: "two physical partitions, reads",
        tables: &["alone.two"],
        budget: 12_000.0,
        is_read: true,
        waits_on_server: false,
        consistency: CONSISTENCY_ONE,
        place: Place::AllNodes,
    },
    Space {
        name: "server-side retry, writes",
        tables: &["waiting.t"],
        budget: 1500.0,
        is_read: false,
        waits_on_server: true,
        consistency: CONSISTENCY_ONE,
        place: Place::AllNodes,
    },
    Space {
        name: "clients that move, reads",
        tables: &["alone.moving"],
        budget: 1000.0,
        is_read: true,
        waits_on_server: false,
        consistency: CONSISTENCY_ONE,
        place: Place::Moving,
    },
];

const SCHEMA: [&str; 9] = [
    "CREATE KEYSPACE shared WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND cosmosdb_provisioned_throughput = 4000",
    "CREATE TABLE shared.a (k bigint PRIMARY KEY, v blob)",
    "CREATE TABLE shared.b (k bigint PRIMARY KEY, v blob)",
    "CREATE TABLE shared.own (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 1000",
    "CREATE KEYSPACE alone WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE alone.t (k bigint PRIMARY KEY, v blob) WITH cosmosdb_autoscale_max_throughput = 2000",
    "CREATE TABLE alone.two (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 12000",
    "CREATE TABLE alone.moving (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 1000",
    "CREATE KEYSPACE waiting WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
];

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Greedy,
    Stubborn,
    Content,
}

/// What is run against.
enum Nodes {
    One(Node),
    Several(Cluster),
}

impl Nodes {
    fn start(binary: &Path, count: u8, settings: &[String]) -> Result<Nodes, Box<dyn Error>> {
        Ok(match count {
            1 => {
                let set = settings.iter().flat_map(|setting| ["--set", setting.as_str()]);
                // A disk that stalls would leave budgets unused, which is not their fault.
                let set = set.chain(["--set", "storage.commit=periodic"]);
                Nodes::One(Node::start(binary, &set.collect::<Vec<_>>())?)
            }
            count => {
                let set: Vec<&str> = settings.iter().map(String::as_str).collect();
                Nodes::Several(Cluster::start(binary, count, &set)?)
            }
        })
    }

    fn addresses(&self) -> Vec<String> {
        match self {
            Nodes::One(node) => vec![node.address()],
            Nodes::Several(cluster) => {
                (1..=cluster.count()).map(|node| cluster.address(node).to_owned()).collect()
            }
        }
    }
}

/// A flow with when it runs, counted from the beginning.
struct Timed {
    who: Who,
    flow: Flow,
    from: Duration,
    to: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut binary, mut seconds, mut nodes, mut part) = (String::new(), 60, 1, 1.0);
    let mut settings = vec![format!("units.server_side_retry={RETRY_KEYSPACE}")];
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--binary" => binary = value,
            "--seconds" => seconds = value.parse()?,
            "--nodes" => nodes = value.parse()?,
            "--part" => part = value.parse()?,
            "--set" => settings.push(value),
            _ => return Err(format!("no argument {word}").into()),
        }
    }
    // What is measured is what each answer says it cost.
    settings.push("units.payload=always".to_owned());
    let nodes = Nodes::start(Path::new(&binary), nodes, &settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let failures = runtime.block_on(run(&nodes.addresses(), Duration::from_secs(seconds), part))?;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// A definition with a part of its throughput.
fn with_part(text: &str, part: f64) -> String {
    match text.rsplit_once("throughput = ").map(|(what, units)| (what, units.parse::<f64>())) {
        Some((what, Ok(units))) => format!("{what}throughput = {}", (units * part) as u64),
        _ => text.to_owned(),
    }
}

async fn run(
    addresses: &[String],
    time: Duration,
    part: f64,
) -> Result<Vec<String>, Box<dyn Error>> {
    let spaces = SPACES.map(|space| Space { budget: space.budget * part, ..space });
    let clients = addresses.iter().map(|address| Client::connect(address));
    let mut clients = clients.collect::<Result<Vec<_>, _>>()?;
    let Some(client) = clients.first_mut() else { return Err("no node".into()) };
    for text in SCHEMA.iter().chain(&[
        "CREATE TABLE waiting.t (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 1500",
    ]) {
        let text = with_part(text, part);
        if let protocol::Response::Error(error) = client.query(&text, &Execution::default())?.response {
            return Err(format!("{text}: {}", error.message).into());
        }
    }
    let begin = Instant::now();
    let mut flows = JoinSet::new();
    for (place, space) in spaces.iter().enumerate() {
        for table in space.tables {
            for timed in flows_of(addresses, &mut clients, space, table, time)? {
                let (from, to) = (begin + timed.from, begin + timed.to);
                flows.spawn(async move {
                    tokio::time::sleep_until(from.into()).await;
                    (place, timed.who, timed.flow.run(begin, to).await)
                });
            }
        }
    }
    let mut tallies = Vec::new();
    while let Some(done) = flows.join_next().await {
        let (place, who, tally) = done?;
        tallies.push((place, who, tally?));
    }
    let mut failures = Vec::new();
    println!(
        "space                             budget   least    most  refused/s  waited as told: served, refused  content: served, refused, p99 ms"
    );
    for (place, space) in spaces.iter().enumerate() {
        let of = |who: Option<Who>| {
            let chosen = tallies
                .iter()
                .filter(|(of, it, _)| *of == place && who.is_none_or(|who| who == *it));
            Tally::of_all(&chosen.map(|(_, _, tally)| tally.clone()).collect::<Vec<_>>())
        };
        let (Some(all), Some(mut content)) = (of(None), of(Some(Who::Content))) else { continue };
        failures.extend(judge(space, &all, &mut content, time));
    }
    Ok(failures)
}

/// At which nodes the clients of a space are, and when.
fn stays(space: &Space, nodes: usize, time: Duration) -> Vec<(usize, Duration, Duration)> {
    match space.place {
        Place::AllNodes => (0..nodes).map(|node| (node, Duration::ZERO, time)).collect(),
        Place::OneNode => vec![(nodes - 1, Duration::ZERO, time)],
        Place::Moving => {
            let turns = u32::try_from(time.as_secs().div_ceil(STAY.as_secs())).unwrap_or(1);
            let turn =
                |turn: u32| (turn as usize % nodes, STAY * turn, (STAY * (turn + 1)).min(time));
            (0..turns).map(turn).collect()
        }
    }
}

fn flows_of(
    addresses: &[String],
    clients: &mut [Client],
    space: &Space,
    table: &str,
    time: Duration,
) -> Result<Vec<Timed>, Box<dyn Error>> {
    let text = match space.is_read {
        true => format!("SELECT v FROM {table} WHERE k = ?"),
        false => format!("INSERT INTO {table} (k, v) VALUES (?, ?)"),
    };
    let is_read = space.is_read;
    // New rows all the time: what is written is never written over, so that each costs the same.
    let values: Values = Arc::new(move |number| {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        if is_read { vec![key] } else { vec![key, vec![7; 100]] }
    });
    let strength = if space.consistency == CONSISTENCY_QUORUM { 2.0 } else { 1.0 };
    let each = if is_read { strength } else { 4.95 };
    let share = space.budget / space.tables.len() as f64;
    let stays = stays(space, addresses.len(), time);
    let places = if space.place == Place::AllNodes { addresses.len() } else { 1 };
    // A tenth of the budget for each content client, or for those of all nodes together.
    let pause = Duration::from_secs_f64(each * places as f64 / (share * 0.1));
    let kinds = [
        (Who::Greedy, 16, Manners::Obedient, None),
        (Who::Greedy, 16, Manners::Obedient, None),
        (Who::Greedy, 4, Manners::Obedient, None),
        (Who::Stubborn, 2, Manners::Stubborn, None),
        (Who::Content, 1, Manners::Obedient, Some(pause)),
        (Who::Content, 1, Manners::Obedient, Some(pause)),
    ];
    let step = (kinds.len() * stays.len()) as u64;
    let mut flows = Vec::new();
    for (node, from, to) in stays {
        let (Some(address), Some(client)) = (addresses.get(node), clients.get_mut(node)) else {
            continue;
        };
        let statement =
            client.prepare(&text)?.map_err(|message| format!("{:?}", message.response))?;
        for (who, window, manners, pause) in kinds {
            let flow = Flow {
                address: address.clone(),
                statement: statement.id.to_vec(),
                values: Arc::clone(&values),
                first: flows.len() as u64,
                step,
                // On several nodes as many are under way as on one.
                window: (window / i16::try_from(places).unwrap_or(1)).max(1),
                manners,
                pause,
                consistency: space.consistency,
            };
            flows.push(Timed { who, flow, from, to });
        }
    }
    Ok(flows)
}

fn judge(space: &Space, all: &Tally, content: &mut Tally, time: Duration) -> Vec<String> {
    let mut failures = Vec::new();
    let window = WINDOW.min(time / 2);
    let (least, most) = all.spending(WARM_UP, window).unwrap_or_default();
    let whole = space.budget * window.as_secs_f64();
    let (least, most) = (least / whole, most / whole);
    let seconds = time.as_secs_f64();
    let p99_ms = f64::from(quantile(&mut content.latencies_us, 0.99)) / 1000.0;
    println!(
        "{:<33} {:>6.0} {:>6.1} % {:>6.1} % {:>9.0} {:>22} {:>8} {:>16} {:>8} {p99_ms:>8.1}",
        space.name,
        space.budget,
        least * 100.0,
        most * 100.0,
        all.refused as f64 / seconds,
        all.kept_promises,
        all.broken_promises,
        content.good,
        content.refused,
    );
    if all.failed > 0 {
        failures.push(format!("{}: {} failed: {:?}", space.name, all.failed, all.failures));
    }
    if least < 1.0 - TOLERANCE || most > 1.0 + TOLERANCE {
        failures.push(format!("{}: spending is not within 2 %", space.name));
    }
    let promises = all.kept_promises + all.broken_promises;
    if all.broken_promises as f64 > BROKEN_MAX * promises as f64 {
        failures.push(format!("{}: waits are not true", space.name));
    }
    if content.refused as f64 > CONTENT_REFUSED_MAX * (content.good + content.refused) as f64 {
        failures.push(format!("{}: content clients are refused", space.name));
    }
    if space.waits_on_server && all.refused > 0 {
        failures.push(format!("{}: {} refused", space.name, all.refused));
    }
    failures
}
