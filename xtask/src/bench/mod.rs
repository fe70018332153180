//! The bench: Helenus, Cassandra and the limit on the same workloads with the same client, in turns within one run.
//!
//! Reading order: [`options`] (what the user asks for), [`workload`] (what is measured), [`tools`] (what is installed), [`system`],
//! [`cassandra`] and [`cluster`] (the servers), [`client`] (one measurement), [`measure`] (the run), [`kept`] (its figures),
//! [`report`], [`picture`] and [`publish`] (what comes out); [`json`] serves them. [`scale`] is another run: whether a request costs the
//! same when there is more of everything.

mod cassandra;
mod client;
mod cluster;
mod json;
mod kept;
mod measure;
mod options;
mod picture;
mod publish;
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
use measure::Figures;
use report::Heading;
use tools::Tools;
use workload::{Level, Phase};

/// `cargo xtask bench`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let Some(options) = options::parse(arguments)? else { return Ok(()) };
    let begin = Instant::now();
    if !options.is_resumed {
        kept::forget()?;
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
    let mut scenarios = match options.nodes {
        [] => options.level.scenarios(&options.only),
        nodes => cluster::scenarios(options.level, &options.only, nodes),
    };
    if !options.phases.is_empty() {
        scenarios.retain(|scenario| options.phases.contains(&scenario.phase));
    }
    let mut failures = Vec::new();
    measure::run(&tools, &scenarios, &options.effort, &mut failures);

    let all: Vec<Figures> = scenarios.iter().filter_map(kept::load_figures).collect();
    let mut facts = kept::load_facts();
    // A run that goes on may find those of a run of the other kind.
    facts.retain(|one| (one.phase == Phase::Cluster) != options.nodes.is_empty());
    notes.extend(
        failures.iter().map(|failure| {
            format!("not measured: {}.", failure.lines().next().unwrap_or_default())
        }),
    );
    notes.extend(kept::load_sync().zip(lone_writer(&all)).map(|(sync_ms, p50_ms)| {
        format!(
            "with group commit a lone writer waits {p50_ms:.2} ms (p50); one bare sync of 512 bytes takes {sync_ms:.2} ms here."
        )
    }));
    failures.extend(cluster::growth(&all).1);
    let heading = Heading::read(&options.effort, options.nodes);
    let markdown = report::markdown(&heading, &all, &facts, &notes);
    println!("\n{markdown}");
    let json = report::json(&heading, &all, &facts);
    publish::save(&heading, &markdown, &json, &all, options.is_published)?;
    println!("{} in {}", place::bench().join("report.md").display(), in_seconds(begin.elapsed()));
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The latency of one writer alone with group commit.
fn lone_writer(all: &[Figures]) -> Option<f64> {
    let is_alone = |it: &&Figures| it.scenario.phase == Phase::Group && it.scenario.in_flight == 1;
    let helenus = all.iter().find(is_alone)?.of(system::System::Helenus)?;
    Some(helenus.spread(|sample| sample.p50_ms).median)
}
