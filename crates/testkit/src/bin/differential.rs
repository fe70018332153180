//! Compares our server with a real Apache Cassandra on generated statements.
//!
//!     cargo run -p testkit --bin differential -- --seed 1 --statements 5000 \
//!         --ours 127.0.0.1:9042 --oracle 127.0.0.1:9142
//!
//! Every difference is printed with its seed and number, in a form that a golden script takes. The
//! exit code is 1 when a difference is not in `differential-allowed.txt`. `--quiet` leaves out soft
//! and allowed ones, `--trace` tells equal ones too, `--seeds N` runs that many seeds from the first.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::error::Error;
use std::process::ExitCode;

use testkit::Client;
use testkit::differential::{Allowed, Counts, Run};

const ALLOWED: &str = include_str!("../../differential-allowed.txt");

struct Options {
    seed: u64,
    seeds: u64,
    statements: usize,
    ours: String,
    oracle: String,
    is_quiet: bool,
    is_traced: bool,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        seed: 1,
        seeds: 1,
        statements: 5000,
        ours: "127.0.0.1:9042".into(),
        oracle: "127.0.0.1:9142".into(),
        is_quiet: false,
        is_traced: false,
    };
    while let Some(name) = arguments.next() {
        if name == "--quiet" {
            options.is_quiet = true;
            continue;
        }
        if name == "--trace" {
            options.is_traced = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--seed" => options.seed = value.parse()?,
            "--seeds" => options.seeds = value.parse()?,
            "--statements" => options.statements = value.parse()?,
            "--ours" => options.ours = value,
            "--oracle" => options.oracle = value,
            _ => return Err(format!("no option {name}").into()),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let allowed = Allowed::parse(ALLOWED)?;
    let mut total = Counts::default();
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        let mut report = |text: &str| {
            if !options.is_quiet || text.starts_with("DIFFERENT") {
                println!("{text}");
            }
        };
        let ours = Client::connect(&options.ours)?;
        let oracle = Client::connect(&options.oracle)?;
        let counts = Run::new(seed, ours, oracle, &allowed, &mut report)
            .traced(options.is_traced)
            .run(options.statements)
            .map_err(|error| format!("seed {seed}: {error}"))?;
        tell(&format!("seed {seed}"), counts);
        total.add(counts);
    }
    if options.seeds > 1 {
        tell("all seeds", total);
    }
    Ok(total.different == 0)
}

fn tell(what: &str, counts: Counts) {
    println!(
        "{what}: {} statements ({} errors on both), {} differences, {} allowed, {} soft; \
         Cassandra failed at {}",
        counts.statements,
        counts.errors,
        counts.different,
        counts.allowed,
        counts.soft,
        counts.oracle_failed
    );
}
