//! What a cluster of real processes costs those who use it while nodes die, come and go, in one table: what is wanted, and what was seen.
//!
//!     cluster-figures BINARY [PART]... [--kills N] [--drains N] [--megabytes N] [--seconds N]
//!
//! | part | what |
//! |---|---|
//! | `start` | a demo of four nodes until it is ready, its memory; a node that joins, one that is started again |
//! | `kills` | kill -9 of the node that leads what writers write, again and again: the longest pause of a writer |
//! | `drain` | a node after the other is drained under load: errors, and the longest request |
//! | `join` | a node joins under load and is decommissioned again: errors, and the 99th of a hundred requests |
//! | `move` | rows that are handed to a joining node, against a bare copy of as many bytes through TLS and sync |
//!
//! Without a part all of them. A write that was acknowledged and is lost, or is there twice, ends it with an error; what is off its
//! target is told so.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for developers: it measures"
)]

mod changes;
mod kills;
mod load;
mod moves;
mod starts;

use std::error::Error;
use std::path::PathBuf;

type Failure = Box<dyn Error + Send + Sync>;

/// How many nodes a cluster has.
const NODES: u8 = 4;

const USAGE: &str = "usage: cluster-figures BINARY [start|kills|drain|join|move]... [--kills N] [--drains N] [--megabytes N] [--seconds N]";

/// What is asked for.
struct Wish {
    binary: PathBuf,
    parts: Vec<String>,
    kills: usize,
    drains: usize,
    /// Rows that are moved.
    megabytes: usize,
    /// So long is looked at what is normal, before a node joins.
    seconds: u64,
}

type Part = fn(&Wish) -> Result<Vec<Figure>, Failure>;

const PARTS: [(&str, Part); 5] = [
    ("start", starts::measure),
    ("kills", kills::measure),
    ("drain", changes::measure_drain),
    ("join", changes::measure_join),
    ("move", moves::measure),
];

impl Wish {
    fn parse(arguments: &[String]) -> Result<Wish, Failure> {
        let (binary, rest) = arguments.split_first().ok_or(USAGE)?;
        let binary = PathBuf::from(binary);
        let parts = Vec::new();
        let mut wish = Wish { binary, parts, kills: 100, drains: 12, megabytes: 256, seconds: 15 };
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            let mut number = || -> Result<usize, Failure> {
                let value = words.next().ok_or(USAGE)?;
                Ok(value
                    .parse::<usize>()
                    .map_err(|error| format!("{word} {value}: {error}"))?
                    .max(1))
            };
            match word.as_str() {
                "--kills" => wish.kills = number()?,
                "--drains" => wish.drains = number()?,
                "--megabytes" => wish.megabytes = number()?,
                "--seconds" => wish.seconds = number()? as u64,
                part if PARTS.iter().any(|(name, _)| *name == part) => {
                    wish.parts.push(part.to_owned());
                }
                _ => return Err(USAGE.into()),
            }
        }
        Ok(wish)
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|it| it == part)
    }
}

/// A line of the table.
struct Figure {
    what: String,
    wanted: String,
    seen: String,
    /// `None` where nothing is wanted, and it only helps to understand the others.
    is_met: Option<bool>,
}

impl Figure {
    /// One that may be no larger.
    fn at_most(what: &str, max: f64, seen: f64, unit: &str) -> Figure {
        Figure {
            what: what.to_owned(),
            wanted: format!("≤ {max} {unit}").trim_end().to_owned(),
            seen: format!("{seen:.*} {unit}", decimals(seen)).trim_end().to_owned(),
            is_met: Some(seen <= max),
        }
    }

    /// One that may be no smaller.
    fn at_least(what: &str, min: f64, seen: f64, unit: &str) -> Figure {
        let figure = Figure::at_most(what, min, seen, unit);
        let wanted = format!("≥ {min} {unit}").trim_end().to_owned();
        Figure { wanted, is_met: Some(seen >= min), ..figure }
    }

    /// One that is only told.
    fn told(what: &str, seen: String) -> Figure {
        Figure { what: what.to_owned(), wanted: String::new(), seen, is_met: None }
    }
}

fn decimals(number: f64) -> usize {
    match number {
        number if number.fract() == 0.0 || number >= 100.0 => 0,
        number if number >= 10.0 => 1,
        _ => 2,
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wish = Wish::parse(&arguments)?;
    let mut figures = Vec::new();
    for (name, measure) in PARTS.iter().filter(|(name, _)| wish.wants(name)) {
        println!("{name} ...");
        figures.extend(measure(&wish).map_err(|error| format!("{name}: {error}"))?);
    }
    tell(&figures);
    Ok(())
}

fn tell(figures: &[Figure]) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load: Vec<&str> = load.split(' ').take(3).collect();
    println!("\n{cores} cores, load average {}\n", load.join(" "));
    println!("| figure | wanted | seen | |");
    println!("|---|---|---|---|");
    for figure in figures {
        let Figure { what, wanted, seen, is_met } = figure;
        let verdict = match is_met {
            None => "",
            Some(true) => "met",
            Some(false) => "OFF",
        };
        println!("| {what} | {wanted} | {seen} | {verdict} |");
    }
}
