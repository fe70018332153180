//! The report: tables of ratios for people, JSON for programs.

use std::fmt::Write;
use std::process::Command;

use super::client::Sample;
use super::cluster;
use super::json::Json;
use super::kept::figures_json;
use super::measure::{Facts, Figures, Spread, SystemFigures};
use super::system::System;
use super::tools::core_count;
use super::workload::{Consistency, Effort, Phase};
use crate::place;
use crate::process::run_quietly;

const ABOUT: &str = "All systems ran on the same machine with the same client (latte), in turns. Figures are medians over the rounds,\n\
     with the lowest and the highest in brackets. CPU is user and system time of the server's process per request.\n\
     *The limit* is a server with our codec that answers every execute with a canned result.\n\n";

/// What stands above the tables.
pub(crate) struct Heading {
    /// That of clusters, or any other.
    pub(crate) phase: Phase,
    pub(crate) title: &'static str,
    pub(crate) about: String,
    pub(crate) machine: String,
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) effort: String,
}

impl Heading {
    /// What a run of clusters of so many nodes says, or, without them, one of single servers.
    pub(crate) fn read(effort: &Effort, nodes: &[u8]) -> Heading {
        let told = |command: &mut Command| {
            run_quietly(command.current_dir(place::root()))
                .map(|text| text.trim().to_string())
                .unwrap_or_else(|_| "unknown".into())
        };
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).map(String::from);
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_string()))
        };
        let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into());
        let memory = field("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
            .map_or(String::new(), |kilobytes| format!(", {:.0} GB of memory", kilobytes / 1e6));
        let (phase, title, about) = match nodes {
            [] => (Phase::OneCore, "Helenus against Cassandra, in one run", ABOUT.to_string()),
            nodes => (
                Phase::Cluster,
                "A cluster of Helenus against one of Cassandra, in one run",
                cluster::about(nodes),
            ),
        };
        Heading {
            phase,
            title,
            about,
            effort: effort.told(phase),
            machine: format!(
                "{processor}, {} cores{memory}, Linux {}",
                core_count(),
                told(Command::new("uname").arg("-r"))
            ),
            date: told(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])),
            commit: told(Command::new("git").args(["rev-parse", "--short", "HEAD"])),
        }
    }
}

/// The report as Markdown.
pub(crate) fn markdown(
    heading: &Heading,
    all: &[Figures],
    facts: &[Facts],
    notes: &[String],
) -> String {
    let Heading { title, about, machine, date, commit, effort, .. } = heading;
    let mut text = format!("# {title}\n\n{machine}. {date}, commit {commit}. {effort}\n\n{about}");
    for note in notes {
        let _ = writeln!(text, "Note: {note}\n");
    }
    let levels = || [None].into_iter().chain(Consistency::ALL.map(Some));
    for (phase, level) in
        Phase::ALL.into_iter().flat_map(|it| levels().map(move |level| (it, level)))
    {
        let is_here =
            |it: &&Figures| it.scenario.phase == phase && it.scenario.consistency() == level;
        let (main, others): (Vec<&Figures>, Vec<&Figures>) =
            all.iter().filter(is_here).partition(|it| it.scenario.is_main());
        if let Some(first) = main.first() {
            let _ = writeln!(text, "## {}\n", first.scenario.conditions());
            put_throughput(&mut text, &main, false);
            put_latency(&mut text, &main);
        }
        if !others.is_empty() {
            let _ = writeln!(text, "### {}: other loads\n", phase.title());
            put_throughput(&mut text, &others, true);
        }
    }
    text.push_str(&cluster::growth(all).0);
    put_facts(&mut text, facts);
    text
}

fn put_throughput(text: &mut String, rows: &[&Figures], has_load: bool) {
    text.push_str(
        "| workload | Cassandra: requests/s | Helenus: requests/s | ratio | the limit | Cassandra: CPU µs | Helenus: CPU µs | ratio | the limit |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for figures in rows {
        let scenario = &figures.scenario;
        let mut title = scenario.workload.title.to_string();
        if has_load {
            let _ = write!(title, ", {} in flight", scenario.in_flight);
            if scenario.connections > 2 {
                let _ = write!(title, " on {} connections", scenario.connections);
            }
        }
        let throughput = |system| spread_of(figures, system, |it| it.requests_per_second);
        let cpu = |system| spread_of(figures, system, |it| it.cpu_us);
        let (helenus, cassandra) = (throughput(System::Helenus), throughput(System::Cassandra));
        let (helenus_cpu, cassandra_cpu) = (cpu(System::Helenus), cpu(System::Cassandra));
        let _ = writeln!(
            text,
            "| {title} | {} | {} | {} | {} | {} | {} | {} | {} |",
            shown(cassandra, 0),
            shown(helenus, 0),
            times(ratio(helenus, cassandra)),
            median(throughput(System::Limit), 0),
            shown(cassandra_cpu, 1),
            shown(helenus_cpu, 2),
            part(ratio(cassandra_cpu, helenus_cpu)),
            median(cpu(System::Limit), 2),
        );
    }
    text.push('\n');
}

fn put_latency(text: &mut String, rows: &[&Figures]) {
    let half = |figures: &SystemFigures| {
        // One half is the middle of the rates, whichever others were measured.
        let peak = figures.rates.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
        let middle = figures.rates.iter().min_by(|(a, _), (b, _)| {
            let off =
                |rate: f64| (rate / peak - if figures.rates.len() > 1 { 0.55 } else { 1.0 }).abs();
            off(*a).total_cmp(&off(*b))
        });
        middle.copied()
    };
    if !rows.iter().any(|row| row.systems.iter().any(|it| !it.rates.is_empty())) {
        return;
    }
    text.push_str(
        "Latency in milliseconds at half of Cassandra's peak rate, open loop:\n\n\
         | workload | rate | Cassandra: p50 | p99 | p99.9 | Helenus: p50 | p99 | p99.9 | p99 ratio | the limit: p99 |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for figures in rows {
        let of = |system| figures.of(system).and_then(half);
        let Some((rate, helenus)) = of(System::Helenus) else { continue };
        let cassandra = of(System::Cassandra).map(|(_, sample)| sample);
        let cell = |sample: Option<Sample>, of: fn(&Sample) -> f64| {
            sample.map_or("–".into(), |sample| format!("{:.2}", of(&sample)))
        };
        let _ = writeln!(
            text,
            "| {} | {rate:.0} | {} | {} | {} | {} | {} | {} | {} | {} |",
            figures.scenario.workload.title,
            cell(cassandra, |it| it.p50_ms),
            cell(cassandra, |it| it.p99_ms),
            cell(cassandra, |it| it.p999_ms),
            cell(Some(helenus), |it| it.p50_ms),
            cell(Some(helenus), |it| it.p99_ms),
            cell(Some(helenus), |it| it.p999_ms),
            part(cassandra.map(|it| it.p99_ms / helenus.p99_ms)),
            cell(of(System::Limit).map(|(_, sample)| sample), |it| it.p99_ms),
        );
    }
    text.push('\n');
}

fn put_facts(text: &mut String, facts: &[Facts]) {
    if facts.is_empty() {
        return;
    }
    text.push_str(
        "## The processes\n\n\
         | conditions | system | start to first answer | memory after start | memory after the load | bytes on disk |\n\
         |---|---|---|---|---|---|\n",
    );
    for one in facts {
        let disk = match one.system.has_storage() {
            true => format!("{:.0} MB", one.disk_bytes / 1e6),
            false => "–".into(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} ms | {:.0} MB | {:.0} MB | {disk} |",
            one.phase.name(),
            one.system.title(),
            one.started_ms,
            one.fresh_bytes / 1e6,
            one.loaded_bytes / 1e6,
        );
    }
    if facts.iter().all(|one| one.phase == Phase::Cluster) {
        return;
    }
    text.push_str(
        "\nStarts after the first are on the data of the phases before, with the log to replay. The faster a system, the more\n\
         rows it has inserted in the same seconds, which shows in its memory and on its disk.\n",
    );
}

/// The report as JSON.
pub(crate) fn json(heading: &Heading, all: &[Figures], facts: &[Facts]) -> Json {
    let facts = facts.iter().map(|one| {
        Json::object([
            ("phase", Json::Text(one.phase.name().into())),
            ("system", Json::Text(one.system.name())),
            ("start_to_first_answer_ms", Json::Number(one.started_ms)),
            ("resident_bytes_fresh", Json::Number(one.fresh_bytes)),
            ("resident_bytes_loaded", Json::Number(one.loaded_bytes)),
            ("disk_bytes", Json::Number(one.disk_bytes)),
        ])
    });
    Json::object([
        ("machine", Json::Text(heading.machine.clone())),
        ("date", Json::Text(heading.date.clone())),
        ("commit", Json::Text(heading.commit.clone())),
        ("scenarios", Json::List(all.iter().map(figures_json).collect())),
        ("processes", Json::List(facts.collect())),
    ])
}

/// The spread of one figure of one system.
pub(crate) fn spread_of(
    figures: &Figures,
    system: System,
    of: impl Fn(&Sample) -> f64,
) -> Option<Spread> {
    figures.of(system).map(|figures| figures.spread(of))
}

/// How many times the first is the second.
pub(crate) fn ratio(one: Option<Spread>, other: Option<Spread>) -> Option<f64> {
    Some(one?.median / other?.median)
}

fn shown(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or("–".into(), |Spread { median, lowest, highest }| {
        format!("{median:.digits$} ({lowest:.digits$}–{highest:.digits$})")
    })
}

fn median(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or("–".into(), |spread| format!("{:.digits$}", spread.median))
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or("–".into(), |ratio| format!("**{ratio:.1}×**"))
}

fn part(ratio: Option<f64>) -> String {
    ratio.map_or("–".into(), |ratio| format!("**1/{ratio:.1}**"))
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Level, find};
    use super::*;

    fn figures_of(system: System, requests_per_second: f64, cpu_us: f64) -> SystemFigures {
        let p99_ms = 1000.0 / requests_per_second;
        let sample = Sample { requests_per_second, cpu_us, p99_ms, ..Sample::default() };
        SystemFigures { system, rounds: vec![sample], rates: vec![(500.0, sample)] }
    }

    #[test]
    fn clusters_have_a_table_for_each_level() {
        const NODES: [u8; 2] = [4, 8];
        let systems = vec![
            figures_of(System::Helenus, 20_000.0, 40.0),
            figures_of(System::Cassandra, 1_000.0, 600.0),
            figures_of(System::Limit, 80_000.0, 2.0),
            figures_of(System::More(8), 19_000.0, 42.0),
        ];
        let scenarios = cluster::scenarios(Level::Quick, &[find("read").unwrap()], &NODES);
        let all: Vec<Figures> = scenarios
            .into_iter()
            .map(|scenario| Figures { scenario, systems: systems.clone() })
            .collect();
        let heading = Heading::read(&Level::Quick.effort(), &NODES);
        let text = markdown(&heading, &all, &[], &["a note".into()]);
        assert!(text.starts_with("# A cluster of Helenus against one of Cassandra"), "{text}");
        assert!(text.contains("3 rounds of 10000 requests") && text.contains("Note: a note\n"));
        let row = "| read | 1000 (1000–1000) | 20000 (20000–20000) | **20.0×** | 80000 | \
                   600.0 (600.0–600.0) | 40.00 (40.00–40.00) | **1/15.0** | 2.00 |";
        for level in [", QUORUM\n", ", LOCAL_ONE\n"] {
            let (_, section) = text.split_once(level).unwrap();
            assert!(section.contains(row), "{section}");
        }
        assert!(text.contains(
            "| read | 500 | 0.00 | 1.00 | 0.00 | 0.00 | 0.05 | 0.00 | **1/20.0** | 0.01 |"
        ));
        assert!(text.contains("| nodes | 8 | read, LOCAL_ONE | 42.00 (42.00–42.00) | 1.05× |"));
    }
}
