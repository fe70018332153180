//! Everything at once, from one seed: see `testkit::chaos`.
//!
//!     chaos --binary FILE [--seed S] [--minutes M] [--nodes N] [--calm TIMES] [--page FILE.html]

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for developers: it talks to a person"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testkit::chaos::{Wish, run};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str =
    "usage: chaos --binary FILE [--seed S] [--minutes M] [--nodes N] [--calm TIMES] [--page FILE.html]
  --calm TIMES   so many times longer nothing happens between two faults (1); from eight minutes on it is also judged what must not grow";

fn parse(arguments: &[String]) -> Result<Wish, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut wish = Wish {
        binary: PathBuf::new(),
        seed: since.as_secs(),
        time: Duration::from_secs(120),
        nodes: 4,
        calm: 1,
        page: PathBuf::new(),
    };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.into()) };
        match name.as_str() {
            "--binary" => wish.binary = value.into(),
            "--seed" => wish.seed = value.parse()?,
            "--minutes" => wish.time = Duration::try_from_secs_f64(value.parse::<f64>()? * 60.0)?,
            "--nodes" => wish.nodes = value.parse()?,
            "--calm" => wish.calm = value.parse()?,
            "--page" => wish.page = value.into(),
            _ => return Err(USAGE.into()),
        }
    }
    if wish.binary.as_os_str().is_empty() {
        return Err(USAGE.into());
    }
    if !(3..=6).contains(&wish.nodes) {
        return Err("--nodes is 3 to 6".into());
    }
    if wish.page.as_os_str().is_empty() {
        wish.page = format!("target/chaos/{}.html", wish.seed).into();
    }
    Ok(wish)
}

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wish = parse(&arguments)?;
    println!("chaos: seed {}, {:?} of faults on {} nodes", wish.seed, wish.time, wish.nodes);
    let report = run(&wish)?;
    for anomaly in &report.anomalies {
        println!("==> {}\n{}", anomaly.what, anomaly.story);
    }
    println!(
        "{} faults, {} histories undecided; {}",
        report.faults,
        report.undecided,
        wish.page.display()
    );
    println!(
        "chaos: seed {}, {} operations, {} anomalies",
        wish.seed,
        report.operations,
        report.anomalies.len()
    );
    Ok(if report.anomalies.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
