//! Budgets with the real clock: many clients, several tables, against what was provisioned.
//!
//!     budgets --binary FILE [--seconds N] [--set KEY=VALUE]...
//!
//! Tables that share the throughput of a keyspace, tables with their own, one over two physical partitions, and a
//! keyspace whose requests wait on the server. At each of them: greedy clients that wait as they are told, stubborn ones
//! that do not, and content ones that ask for less than their share. Told are the least and the most that was spent in any ten
//! seconds against the budget, how many that waited as told were refused again, and how the content ones fared. It fails
//! when more than two in a hundred are spent too much or too little, when a promise is broken too often, or when content
//! clients are refused.

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

use testkit::flow::{Flow, Manners, Tally, Values, quantile};
use testkit::{Client, Execution, Node};
use tokio::task::JoinSet;

const WINDOW: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(3);
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
}

const SPACES: [Space; 5] = [
    Space {
        name: "shared by two tables, writes",
        tables: &["shared.a", "shared.b"],
        budget: 4000.0,
        is_read: false,
        waits_on_server: false,
    },
    Space {
        name: "dedicated beside them, reads",
        tables: &["shared.own"],
        budget: 1000.0,
        is_read: true,
        waits_on_server: false,
    },
    Space {
        name: "autoscale, writes",
        tables: &["alone.t"],
        budget: 2000.0,
        is_read: false,
        waits_on_server: false,
    },
    Space {
        name: "two physical partitions, reads",
        tables: &["alone.two"],
        budget: 12_000.0,
        is_read: true,
        waits_on_server: false,
    },
    Space {
        name: "server-side retry, writes",
        tables: &["waiting.t"],
        budget: 1500.0,
        is_read: false,
        waits_on_server: true,
    },
];

const SCHEMA: [&str; 8] = [
    "CREATE KEYSPACE shared WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND cosmosdb_provisioned_throughput = 4000",
    "CREATE TABLE shared.a (k bigint PRIMARY KEY, v blob)",
    "CREATE TABLE shared.b (k bigint PRIMARY KEY, v blob)",
    "CREATE TABLE shared.own (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 1000",
    "CREATE KEYSPACE alone WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE alone.t (k bigint PRIMARY KEY, v blob) WITH cosmosdb_autoscale_max_throughput = 2000",
    "CREATE TABLE alone.two (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 12000",
    "CREATE KEYSPACE waiting WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
];

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Greedy,
    Stubborn,
    Content,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut binary, mut seconds) = (String::new(), 60);
    // A disk that stalls would leave budgets unused, which is not their fault.
    let mut settings = vec![
        format!("units.server_side_retry={RETRY_KEYSPACE}"),
        "storage.commit=periodic".to_owned(),
    ];
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--binary" => binary = value,
            "--seconds" => seconds = value.parse()?,
            "--set" => settings.push(value),
            _ => return Err(format!("no argument {word}").into()),
        }
    }
    // What is measured is what each answer says it cost.
    settings.push("units.payload=always".to_owned());
    let arguments: Vec<&str> =
        settings.iter().flat_map(|setting| ["--set", setting.as_str()]).collect();
    let node = Node::start(Path::new(&binary), &arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let failures = runtime.block_on(run(&node, Duration::from_secs(seconds)))?;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

async fn run(node: &Node, time: Duration) -> Result<Vec<String>, Box<dyn Error>> {
    let address = node.address();
    let mut client = Client::connect(&address)?;
    for text in SCHEMA.iter().chain(&[
        "CREATE TABLE waiting.t (k bigint PRIMARY KEY, v blob) WITH cosmosdb_provisioned_throughput = 1500",
    ]) {
        if let protocol::Response::Error(error) = client.query(text, &Execution::default())?.response {
            return Err(format!("{text}: {}", error.message).into());
        }
    }
    let begin = Instant::now();
    let end = begin + time;
    let mut flows = JoinSet::new();
    for (place, space) in SPACES.iter().enumerate() {
        for table in space.tables {
            for (number, flow) in
                flows_of(&address, &mut client, space, table)?.into_iter().enumerate()
            {
                let (who, flow) = flow;
                flows.spawn(async move { (place, who, number, flow.run(begin, end).await) });
            }
        }
    }
    let mut tallies = Vec::new();
    while let Some(done) = flows.join_next().await {
        let (place, who, _, tally) = done?;
        tallies.push((place, who, tally?));
    }
    let mut failures = Vec::new();
    println!(
        "space                             budget   least    most  refused/s  waited as told: served, refused  content: served, refused, p99 ms"
    );
    for (place, space) in SPACES.iter().enumerate() {
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

fn flows_of(
    address: &str,
    client: &mut Client,
    space: &Space,
    table: &str,
) -> Result<Vec<(Who, Flow)>, Box<dyn Error>> {
    let text = match space.is_read {
        true => format!("SELECT v FROM {table} WHERE k = ?"),
        false => format!("INSERT INTO {table} (k, v) VALUES (?, ?)"),
    };
    let statement = client.prepare(&text)?.map_err(|message| format!("{:?}", message.response))?;
    let is_read = space.is_read;
    // New rows all the time: what is written is never written over, so that each costs the same.
    let values: Values = Arc::new(move |number| {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        if is_read { vec![key] } else { vec![key, vec![7; 100]] }
    });
    let each = if is_read { 1.0 } else { 4.95 };
    let share = space.budget / space.tables.len() as f64;
    // A tenth of the budget for each content client.
    let pause = Duration::from_secs_f64(each / (share * 0.1));
    let clients = [
        (Who::Greedy, 16, Manners::Obedient, None),
        (Who::Greedy, 16, Manners::Obedient, None),
        (Who::Greedy, 4, Manners::Obedient, None),
        (Who::Stubborn, 2, Manners::Stubborn, None),
        (Who::Content, 1, Manners::Obedient, Some(pause)),
        (Who::Content, 1, Manners::Obedient, Some(pause)),
    ];
    let step = clients.len() as u64;
    let flow = |(number, (who, window, manners, pause)): (
        usize,
        (Who, i16, Manners, Option<Duration>),
    )| {
        let flow = Flow {
            address: address.to_owned(),
            statement: statement.id.to_vec(),
            values: Arc::clone(&values),
            first: number as u64,
            step,
            window,
            manners,
            pause,
        };
        (who, flow)
    };
    Ok(clients.into_iter().enumerate().map(flow).collect())
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
