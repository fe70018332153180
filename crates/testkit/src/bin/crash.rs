//! Kills a node under load, again and again, and checks what it promised.
//!
//!     cargo run -p testkit --bin crash -- --binary target/release/helenus --cycles 1000 --seed 1
//!
//! Every cycle prints its schedule; the exit code is 1 when something was lost or torn.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::error::Error;
use std::process::ExitCode;

use testkit::crash::{CrashRun, Tally, run};

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|asked| begin(&asked)) {
        Ok(tally) => {
            println!("{tally}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<CrashRun, Box<dyn Error>> {
    let mut asked = CrashRun {
        binary: "target/release/helenus".into(),
        cycles: 20,
        seed: 1,
        settings: Vec::new(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--binary" => asked.binary = value.into(),
            "--cycles" => asked.cycles = value.parse()?,
            "--seed" => asked.seed = value.parse()?,
            "--set" => asked.settings.push(value),
            _ => return Err(format!("no option {name}").into()),
        }
    }
    Ok(asked)
}

fn begin(asked: &CrashRun) -> Result<Tally, Box<dyn Error>> {
    println!("seed {}, {} cycles", asked.seed, asked.cycles);
    Ok(run(asked, &mut |line| println!("{line}"))?)
}
