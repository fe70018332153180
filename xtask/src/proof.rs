//! `cargo xtask proof`: the model, seeds, chaos and fuzzing in turn, as much as is wanted of each on one commit. What was done stands in a record, a line a
//! run, so that a proof that was interrupted goes on where it was, and hours add up.
//!
//! The record is tracked, `docs/proof-record.tsv`: what was run, on which commit and with which seeds, is what the proof consists of, and `target` does not
//! outlive a machine.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::process::{cargo, run_quietly, run_visibly};
use crate::{Outcome, chaos, fuzz, place, simulate_cluster};

const PARTS: [&str; 5] = ["model", "seeds", "chaos", "soak", "fuzz"];
/// So many minutes make a line of soak, with so much longer rests between faults than chaos has.
const SOAK_MINUTES_A_LINE: u64 = 30;
/// So many seeds make a line, and are lost at most when a proof is interrupted.
const SEEDS_A_LINE: u64 = 500;
const HEAD: &str = "date\tcommit\tpart\twhat\tcount\tseconds\tresult\n";

/// How much of each is wanted on a commit.
struct Wish {
    parts: Vec<&'static str>,
    seeds: u64,
    chaos_runs: u64,
    chaos_minutes: f64,
    soak_minutes: u64,
    fuzz_seconds: u64,
}

impl Wish {
    fn parse(arguments: &[String]) -> Result<Wish, String> {
        // What issue 19 asks for before something is called proven.
        let mut wish = Wish {
            parts: Vec::new(),
            seeds: 10_000,
            chaos_runs: 30,
            chaos_minutes: 4.0,
            soak_minutes: 120,
            fuzz_seconds: 600,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if let Some(part) = PARTS.iter().find(|part| *part == word) {
                wish.parts.push(part);
                continue;
            }
            if word == "--quick" {
                // What CI has time for: five minutes in all.
                (wish.seeds, wish.chaos_runs) = (500, 1);
                (wish.chaos_minutes, wish.soak_minutes, wish.fuzz_seconds) = (0.5, 0, 5);
                continue;
            }
            let value = words.next().ok_or_else(|| format!("proof: {word} wants a number"))?;
            let number =
                || value.parse::<u64>().map_err(|_| format!("proof: {value} is no number"));
            match word.as_str() {
                "--seeds" => wish.seeds = number()?,
                "--runs" => wish.chaos_runs = number()?,
                "--minutes" => {
                    let minutes = value.parse().map_err(|_| format!("proof: {value} is no number"));
                    wish.chaos_minutes = minutes?;
                }
                "--soak" => wish.soak_minutes = number()?,
                "--seconds" => wish.fuzz_seconds = number()?,
                _ => return Err(format!("proof: no part and no option {word}")),
            }
        }
        if wish.parts.is_empty() {
            wish.parts = PARTS.to_vec();
        }
        Ok(wish)
    }
}

/// What was run, ever.
struct Record {
    file: PathBuf,
    commit: String,
    lines: Vec<Line>,
    failures: Vec<String>,
}

struct Line {
    commit: String,
    part: String,
    what: String,
    count: u64,
    is_clean: bool,
}

impl Line {
    fn parse(text: &str) -> Option<Line> {
        let words: Vec<&str> = text.split('\t').collect();
        let [_, commit, part, what, count, _, result] = words.as_slice() else { return None };
        Some(Line {
            commit: (*commit).to_owned(),
            part: (*part).to_owned(),
            what: (*what).to_owned(),
            count: count.parse().ok()?,
            is_clean: *result == "clean",
        })
    }
}

impl Record {
    fn open() -> Result<Record, String> {
        let file = place::root().join("docs/proof-record.tsv");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            run_quietly(git.args(words).current_dir(place::root()))
        };
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
        // The record itself changes while it is written.
        let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
        let is_changed = changes.lines().any(|line| !line.ends_with("proof-record.tsv"));
        let commit = if is_changed { format!("{commit}+changes") } else { commit };
        let lines = text.lines().filter_map(Line::parse).collect();
        Ok(Record { file, commit, lines, failures: Vec::new() })
    }

    /// How much of a part was done on this commit without a finding.
    fn done(&self, part: &str, what: Option<&str>) -> u64 {
        let is_meant = |line: &&Line| {
            line.commit == self.commit
                && line.part == part
                && line.is_clean
                && what.is_none_or(|what| line.what == what)
        };
        self.lines.iter().filter(is_meant).map(|line| line.count).sum()
    }

    /// The first seed of a part that nobody tried, on any commit.
    fn next_seed(&self, part: &str) -> u64 {
        let last = |line: &Line| {
            let first = line.what.strip_prefix("seed ")?.split(' ').next()?;
            first.parse::<u64>().ok().map(|first| first + line.count)
        };
        let of_part = self.lines.iter().filter(|line| line.part == part);
        of_part.filter_map(last).max().unwrap_or(1)
    }

    /// Runs something and writes its line.
    fn run(
        &mut self,
        part: &str,
        what: &str,
        count: u64,
        work: impl FnOnce() -> Outcome,
    ) -> Outcome {
        println!("==> proof: {part}, {what}");
        let begun = Instant::now();
        let outcome = work();
        let date = run_quietly(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%MZ"]))?;
        let result = if outcome.is_ok() { "clean" } else { "FAILED" };
        let seconds = begun.elapsed().as_secs();
        let text = format!(
            "{}\t{}\t{part}\t{what}\t{count}\t{seconds}\t{result}\n",
            date.trim(),
            self.commit
        );
        let is_new = !self.file.exists();
        let append = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
            if is_new {
                file.write_all(HEAD.as_bytes())?;
            }
            file.write_all(text.as_bytes())
        };
        append().map_err(|error| format!("{}: {error}", self.file.display()))?;
        self.lines.extend(Line::parse(text.trim_end()));
        if let Err(message) = outcome {
            self.failures.push(format!("{part}, {what}: {message}"));
        }
        Ok(())
    }
}

/// `cargo xtask proof [model|seeds|chaos|soak|fuzz]... [--quick] [--seeds N] [--runs N] [--minutes M] [--soak MINUTES] [--seconds S]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let wish = Wish::parse(arguments)?;
    let mut record = Record::open()?;
    for part in &wish.parts {
        match *part {
            "model" => model(&mut record)?,
            "seeds" => seeds(&mut record, &wish)?,
            "chaos" => chaos_runs(&mut record, &wish)?,
            "soak" => soak(&mut record, &wish)?,
            _ => fuzzing(&mut record, &wish)?,
        }
    }
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for line in record.lines.iter().filter(|line| line.commit == record.commit && line.is_clean) {
        *totals.entry(&line.part).or_default() += line.count;
    }
    let totals: Vec<String> =
        totals.iter().map(|(part, count)| format!("{part} {count}")).collect();
    println!("proof of {}: {}; {} failed", record.commit, totals.join(", "), record.failures.len());
    match record.failures.is_empty() {
        true => Ok(()),
        false => Err(record.failures.join("\n")),
    }
}

fn model(record: &mut Record) -> Outcome {
    let what = "large";
    if record.done("model", Some(what)) > 0 {
        return Ok(());
    }
    record.run("model", what, 1, || {
        let words =
            ["test", "--locked", "--profile", "simulate", "-p", "model", "--", "--nocapture"];
        run_visibly(cargo(&words).env("HELENUS_MODEL", "large"))
    })
}

fn seeds(record: &mut Record, wish: &Wish) -> Outcome {
    let failures_before = record.failures.len();
    loop {
        let left = wish.seeds.saturating_sub(record.done("seeds", None));
        // What was found stops it: the same would be found again and again.
        if left == 0 || record.failures.len() > failures_before {
            return Ok(());
        }
        let (first, count) = (record.next_seed("seeds"), left.min(SEEDS_A_LINE));
        let words = ["--seeds", &count.to_string(), "--seed", &first.to_string()];
        let words = words.map(str::to_owned);
        record.run("seeds", &format!("seed {first} and on"), count, || {
            simulate_cluster::command(&words)
        })?;
    }
}

fn chaos_runs(record: &mut Record, wish: &Wish) -> Outcome {
    // Every run is another one, so a failure does not end them.
    let mut tried = 0;
    while record.done("chaos", None) + tried < wish.chaos_runs {
        let seed = record.next_seed("chaos");
        let minutes = wish.chaos_minutes.to_string();
        let words = ["--seed", &seed.to_string(), "--minutes", &minutes].map(str::to_owned);
        let before = record.done("chaos", None);
        let what = format!("seed {seed} for {minutes} minutes");
        record.run("chaos", &what, 1, || chaos::command(&words))?;
        tried += u64::from(record.done("chaos", None) == before);
    }
    Ok(())
}

fn soak(record: &mut Record, wish: &Wish) -> Outcome {
    let failures_before = record.failures.len();
    loop {
        let left = wish.soak_minutes.saturating_sub(record.done("soak", None));
        if left == 0 || record.failures.len() > failures_before {
            return Ok(());
        }
        let (seed, minutes) = (record.next_seed("soak"), left.min(SOAK_MINUTES_A_LINE));
        let words = chaos::soak_words(seed, minutes);
        record.run("soak", &format!("seed {seed}"), minutes, || chaos::command(&words))?;
    }
}

fn fuzzing(record: &mut Record, wish: &Wish) -> Outcome {
    if !fuzz::is_possible() {
        println!("==> proof: fuzz is skipped, cargo-fuzz or a nightly toolchain is missing");
        return match std::env::var("CI").is_ok_and(|it| it == "true") {
            true => Err("fuzzing is not possible here".into()),
            false => Ok(()),
        };
    }
    for target in fuzz::targets()? {
        let left = wish.fuzz_seconds.saturating_sub(record.done("fuzz", Some(&target)));
        if left > 0 {
            let words = [target.clone(), left.to_string()];
            record.run("fuzz", &target, left, || fuzz::command(&words))?;
        }
    }
    Ok(())
}
