//! Records golden scripts from a real Cassandra, or compares a server with the recorded answers.
//!
//!     cargo run -p testkit --bin golden -- record 127.0.0.1:9042 crates/testkit/golden/*.cql
//!     cargo run -p testkit --bin golden -- check 127.0.0.1:9042 crates/testkit/golden/*.cql

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for developers"
)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use testkit::{Client, golden};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, address, scripts @ ..] = arguments.as_slice() else {
        eprintln!("usage: golden record|check ADDRESS:PORT SCRIPT.cql …");
        return ExitCode::FAILURE;
    };
    let mut differences = 0;
    let mut statements = 0;
    for script in scripts {
        match run(mode, address, Path::new(script)) {
            Ok((found, count)) => {
                differences += found;
                statements += count;
            }
            Err(error) => {
                eprintln!("{script}: {error}");
                differences += 1;
            }
        }
    }
    println!("{statements} statements, {differences} differences");
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(mode: &str, address: &str, script: &Path) -> Result<(usize, usize), Box<dyn Error>> {
    let recorded = script.with_extension("out");
    let text = std::fs::read_to_string(script)?;
    let found = golden::run(&mut Client::connect(address)?, &text)?;
    let count = golden::parse(&text).len();
    if mode == "record" {
        std::fs::write(recorded, found)?;
        return Ok((0, count));
    }
    let (differences, _) = golden::differences(&std::fs::read_to_string(recorded)?, &found);
    for difference in &differences {
        println!("{}:\n{difference}", script.display());
    }
    Ok((differences.len(), count))
}
