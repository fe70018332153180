//! Runs simulations by their seeds; see `cargo xtask simulate-cluster`.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a command tells, and writes what it counted to a file that somebody named"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;

use node_log::broken::Rule;
use simulator::{Coverage, Report, Run};

const USAGE: &str = "usage: simulator [--seeds N] [--seed S] [--step N] [--story] [--break RULE|all] [--keep-going] [--elections] [--coverage FILE]
  --seeds N      so many seeds (1)
  --seed S       the first of them (1)
  --step N       only every N-th seed: with 10 those of one kind (see profile.rs)
  --story        tell everything that happens in the first seed that fails, or in the only one
  --break RULE   break a rule on purpose, and tell how many seeds it took to notice; `all` breaks each in turn
  --keep-going   run all seeds, also after one that failed
  --elections    nothing goes wrong but that leaders lose their power; tells how long it took until another one led
  --coverage F   write to a file which trouble met which kind of operation how often; without, it is only told";

struct Arguments {
    seeds: u64,
    first: u64,
    step: u64,
    has_story: bool,
    broken: Option<String>,
    keeps_going: bool,
    kills_leaders: bool,
    coverage: Option<String>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        seeds: 1,
        first: 1,
        step: 1,
        has_story: false,
        broken: None,
        keeps_going: false,
        kills_leaders: false,
        coverage: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => arguments.seeds = words.next()?.parse().ok()?,
            "--seed" => arguments.first = words.next()?.parse().ok()?,
            "--step" => arguments.step = words.next()?.parse().ok().filter(|step| *step > 0)?,
            "--story" => arguments.has_story = true,
            "--break" => arguments.broken = Some(words.next()?),
            "--keep-going" => arguments.keeps_going = true,
            "--elections" => arguments.kills_leaders = true,
            "--coverage" => arguments.coverage = Some(words.next()?),
            _ => return None,
        }
    }
    Some(arguments)
}

impl Arguments {
    fn all(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, step) = (self.first, self.step);
        (0..self.seeds).map(move |number| first + number * step)
    }
}

fn main() -> ExitCode {
    // A panic within a simulation is a finding, told with its seed.
    std::panic::set_hook(Box::new(|_| ()));
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    match &arguments.broken {
        Some(name) => break_rules(name, &arguments),
        None => run_all(&arguments),
    }
}

fn run_all(arguments: &Arguments) -> ExitCode {
    let mut totals = Totals::default();
    let mut failed = Vec::new();
    for (number, seed) in (1_u64..).zip(arguments.all()) {
        let has_story = arguments.has_story && arguments.seeds == 1;
        let kills_leaders = arguments.kills_leaders;
        let report = Run { seed, broken: None, has_story, kills_leaders }.go();
        report.story.iter().for_each(|line| println!("{line}"));
        totals.add(&report);
        if let Some(finding) = &report.finding {
            println!("seed {seed}: {finding}");
            println!("replay: cargo xtask simulate-cluster --seed {seed} --story");
            failed.push(seed);
            if !arguments.keeps_going {
                break;
            }
        }
        if number.is_multiple_of(500) {
            println!("{number} of {} seeds, {}", arguments.seeds, totals.line());
        }
    }
    println!("{}", totals.line());
    println!("faults: {:?}", totals.faults);
    // One seed says little of it.
    if !arguments.kills_leaders && arguments.seeds > 1 {
        println!("{}", totals.coverage);
        println!("never met: {:?}", totals.coverage.unmet());
    }
    if let Some(file) = &arguments.coverage
        && let Err(error) = std::fs::write(file, totals.coverage.to_tsv())
    {
        println!("{file}: {error}");
        return ExitCode::FAILURE;
    }
    if failed.is_empty() {
        println!("{} seeds clean", arguments.seeds);
        ExitCode::SUCCESS
    } else {
        println!("{} seeds failed: {failed:?}", failed.len());
        ExitCode::FAILURE
    }
}

#[derive(Default)]
struct Totals {
    operations: usize,
    successes: usize,
    elections_ms: Vec<u64>,
    faults: BTreeMap<&'static str, u64>,
    coverage: Coverage,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.operations += report.operations;
        self.successes += report.successes;
        self.elections_ms.extend(&report.elections_ms);
        self.coverage.add(&report.coverage);
        for (fault, count) in &report.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }

    fn line(&self) -> String {
        let mut elections = self.elections_ms.clone();
        elections.sort_unstable();
        let at = |share: usize| elections.get(elections.len() * share / 100).copied().unwrap_or(0);
        let (middle, late) = (at(50), at(99));
        format!(
            "{} operations, {} answered with success, {} times without a leader ({middle} ms in the middle, {late} ms p99)",
            self.operations,
            self.successes,
            elections.len()
        )
    }
}

/// Breaks rules, and tells after how many seeds each was noticed.
fn break_rules(name: &str, arguments: &Arguments) -> ExitCode {
    let rules: Vec<Rule> =
        Rule::ALL.into_iter().filter(|rule| name == "all" || format!("{rule:?}") == name).collect();
    if rules.is_empty() {
        println!("no rule is called {name}; there are {:?}", Rule::ALL);
        return ExitCode::from(2);
    }
    let mut found_count = 0;
    for rule in &rules {
        let found = (1_u64..).zip(arguments.all()).find_map(|(count, seed)| {
            let broken = Some(*rule);
            let report = Run { seed, broken, has_story: false, kills_leaders: false }.go();
            report.finding.map(|finding| (count, seed, finding))
        });
        match found {
            Some((count, seed, finding)) => {
                found_count += 1;
                let line = finding.lines().next().unwrap_or_default();
                let line: String = line.chars().take(120).collect();
                println!("{rule:?}: found after {count} seeds, by seed {seed}: {line}");
            }
            None => println!("{rule:?}: NOT FOUND in {} seeds", arguments.seeds),
        }
    }
    println!("{found_count} of {} broken rules found", rules.len());
    if found_count == rules.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
