//! Lets the machine under a node lose its power, again and again, and checks what the node promised.
//!
//!     cargo run -p testkit --bin power_loss -- --binary target/release/helenus --images 200 --seed 1
//!
//! Every disk that was built prints a line; the exit code is 1 when something was lost or torn.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::error::Error;
use std::process::ExitCode;

use testkit::power_loss::{PowerLossRun, Tally, run};

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

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<PowerLossRun, Box<dyn Error>> {
    let binary = "target/release/helenus".into();
    let mut asked = PowerLossRun { binary, images: 48, seed: 1, settings: Vec::new() };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--binary" => asked.binary = value.into(),
            "--images" => asked.images = value.parse()?,
            "--seed" => asked.seed = value.parse()?,
            "--set" => asked.settings.push(value),
            _ => return Err(format!("no option {name}").into()),
        }
    }
    Ok(asked)
}

fn begin(asked: &PowerLossRun) -> Result<Tally, Box<dyn Error>> {
    println!("seed {}, {} disks", asked.seed, asked.images);
    Ok(run(asked, &mut |line| println!("{line}"))?)
}
