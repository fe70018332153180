//! The bench: Helenus, Cassandra and the limit on the same workloads with the same client, in turns within one run.
//!
//! Reading order: [`workload`] (what is measured), [`tools`] (what is installed), [`system`] and [`cassandra`] (the
//! servers), [`client`] (one measurement), [`measure`] (the run), [`report`] and [`picture`] (what comes out); [`json`]
//! serves them. [`scale`] is another run: whether a request costs the same when there is more of everything.

mod cassandra;
mod client;
mod json;
mod measure;
mod picture;
mod report;
mod scale;
mod system;
mod tools;
mod workload;

use std::time::Instant;

pub(crate) use json::Json;

use crate::Outcome;
use crate::place;
use crate::report::in_seconds;
use measure::{Figures, write};
use report::Heading;
use scale::Scale;
use tools::Tools;
use workload::{Effort, Level, Phase, WORKLOADS, Workload};

/// The picture of the README, in the repository.
const PICTURE: &str = "docs/benchmarks.svg";
/// The report of the last full run, in the repository.
const PUBLISHED: &str = "BENCHMARKS.md";

/// Unmeasured turns that Cassandra gets on each workload, where that is wanted.
const WARM_UPS_MAX: u32 = 5;

/// What the user asked for.
struct Options {
    level: Level,
    effort: Effort,
    only: Vec<&'static Workload>,
    is_resumed: bool,
    is_published: bool,
    has_cassandra: bool,
    /// Only these conditions; all of them if there are none.
    phases: Vec<Phase>,
    /// Only these scales, and no comparison.
    scales: Vec<Scale>,
}

/// `cargo xtask bench`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let Some(options) = parse(arguments)? else { return Ok(()) };
    let begin = Instant::now();
    if !options.is_resumed {
        measure::forget()?;
    }
    println!("==> build and install");
    let mut tools = Tools::install()?;
    if !options.has_cassandra || !options.scales.is_empty() {
        tools.cassandra = Err("it was not wanted".into());
    }
    let mut notes = Vec::new();
    if let Err(reason) = &tools.cassandra {
        notes.push(format!("Cassandra is missing: {reason}."));
    }
    if !tools.can_pin {
        notes
            .push("Nothing was pinned to a core: this machine has no taskset, or one core.".into());
    }
    if !options.scales.is_empty() {
        return scale::run(&tools, &options.scales, options.level == Level::Full);
    }
    let mut scenarios = options.level.scenarios(&options.only);
    if !options.phases.is_empty() {
        scenarios.retain(|scenario| options.phases.contains(&scenario.phase));
    }
    let mut failures = Vec::new();
    measure::run(&tools, &scenarios, &options.effort, &mut failures);

    let all: Vec<Figures> = scenarios.iter().filter_map(measure::load_figures).collect();
    let facts = measure::load_facts();
    notes.extend(
        failures.iter().map(|failure| {
            format!("not measured: {}.", failure.lines().next().unwrap_or_default())
        }),
    );
    notes.extend(measure::load_sync().zip(lone_writer(&all)).map(|(sync_ms, p50_ms)| {
        format!(
            "with group commit a lone writer waits {p50_ms:.2} ms (p50); one bare sync of 512 bytes takes {sync_ms:.2} ms here."
        )
    }));
    let heading = Heading::read(options.effort.told());
    let markdown = report::markdown(&heading, &all, &facts, &notes);
    println!("\n{markdown}");
    save(&heading, &markdown, &all, &facts, options.is_published)?;
    println!("{} in {}", place::bench().join("report.md").display(), in_seconds(begin.elapsed()));
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The latency of one writer alone with group commit.
fn lone_writer(all: &[Figures]) -> Option<f64> {
    let is_alone = |it: &&Figures| it.scenario.phase == Phase::Group && it.scenario.in_flight == 1;
    let helenus = all.iter().find(is_alone)?.of(system::System::Helenus)?;
    Some(helenus.spread(|sample| sample.p50_ms).median)
}

fn save(
    heading: &Heading,
    markdown: &str,
    all: &[Figures],
    facts: &[measure::Facts],
    is_published: bool,
) -> Outcome {
    let folder = place::bench();
    write(&folder.join("report.md"), markdown)?;
    write(&folder.join("report.json"), &report::json(heading, all, facts).to_string())?;
    for figures in all {
        let picture = picture::of_scenario(figures);
        write(&folder.join("pictures").join(format!("{}.svg", figures.scenario.id())), &picture)?;
    }
    let main: Vec<&Figures> = all
        .iter()
        .filter(|it| it.scenario.phase == Phase::OneCore && it.scenario.is_main())
        .collect();
    let caption = format!("{}, {}", heading.machine, heading.date);
    let overview = picture::of_all(&main, &caption);
    write(&folder.join("overview.svg"), &overview)?;
    if is_published {
        write(&place::root().join(PICTURE), &overview)?;
        let note = format!(
            "\n## How to get these figures\n\n`cargo xtask bench` makes this page and its picture anew (`--publish` writes \
             them here); [docs/performance.md]({}) says where\nthe time goes.\n",
            "docs/performance.md"
        );
        let with_picture = markdown.replacen("\n\n", &format!("\n\n![ratios]({PICTURE})\n\n"), 1);
        write(&place::root().join(PUBLISHED), &(with_picture + &note))?;
    }
    Ok(())
}

/// Reads the arguments; `None` when all was a question.
fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
    let mut level = Level::Standard;
    let (mut rounds, mut seconds, mut is_warm) = (None, None, false);
    let mut options = Options {
        level,
        effort: level.effort(),
        only: Vec::new(),
        is_resumed: false,
        is_published: false,
        has_cassandra: true,
        phases: Vec::new(),
        scales: Vec::new(),
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => level = Level::Quick,
            "--full" => level = Level::Full,
            "--resume" => options.is_resumed = true,
            "--publish" => options.is_published = true,
            "--warm" => is_warm = true,
            "--without-cassandra" => options.has_cassandra = false,
            "--rounds" => rounds = Some(value()?.parse().map_err(|_| "--rounds needs a number")?),
            "--seconds" => {
                seconds = Some(value()?.parse().map_err(|_| "--seconds needs a number")?)
            }
            "--workload" => {
                let name = value()?;
                let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
                let found = workload::find(name);
                options.only.push(
                    found.ok_or(format!("no workload {name}; there are: {}", names.join(", ")))?,
                );
            }
            "--phase" => {
                let name = value()?;
                let found = Phase::ALL.into_iter().find(|phase| phase.name() == name);
                let names = Phase::ALL.map(Phase::name).join(", ");
                options.phases.push(found.ok_or(format!("no phase {name}; there are: {names}"))?);
            }
            "--scale" => {
                let name = value()?;
                let found = Scale::ALL.into_iter().find(|scale| scale.name() == name);
                match (name.as_str(), found) {
                    ("all", _) => options.scales.extend(Scale::ALL),
                    (_, Some(scale)) => options.scales.push(scale),
                    (_, None) => {
                        return Err(format!("no scale {name}; rows, tables, partitions, all"));
                    }
                }
            }
            "--list" => {
                for workload in &WORKLOADS {
                    println!("{:<14} {}", workload.name, workload.title);
                }
                return Ok(None);
            }
            unknown => {
                return Err(format!("unknown argument {unknown}; cargo xtask help tells them"));
            }
        }
    }
    options.level = level;
    options.effort = level.effort();
    options.effort.rounds = rounds.unwrap_or(options.effort.rounds).max(1);
    if let Some(seconds) = seconds {
        let seconds: f64 = seconds;
        options.effort.round_seconds = Some(seconds.max(0.5));
        options.effort.seconds = seconds.max(0.5);
    }
    if is_warm {
        options.effort.warm_ups_max = WARM_UPS_MAX;
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::{Level, parse};

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn arguments() {
        let options = parse(&words("--quick --workload read --rounds 7")).unwrap().unwrap();
        assert_eq!(options.level, Level::Quick);
        assert_eq!(options.effort.rounds, 7);
        assert_eq!(options.only.len(), 1);
        let options = parse(&words("--scale all --full --phase group-commit")).unwrap().unwrap();
        assert_eq!((options.scales.len(), options.phases.len()), (3, 1));
        assert!(parse(&words("--list")).unwrap().is_none());
        for wrong in
            ["--workload nothing", "--rounds", "--rounds x", "--fast", "--phase x", "--scale x"]
        {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
