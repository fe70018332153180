//! Whether a request costs the same when there is more of everything: rows, tables, physical partitions. Helenus alone;
//! what is compared is CPU time per request.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::client::Client;
use super::kept::{forget, write};
use super::measure::Spread;
use super::system::{Server, System};
use super::tools::Tools;
use super::workload::{Amount, Phase, Workload};
use crate::place;

/// More than this much of the cost with little data is too much.
const RATIO_MAX: f64 = 1.3;
const ROUNDS: usize = 3;
const REQUESTS: u64 = 200_000;
/// What a row takes in the row cache, and a little more.
const CACHED_ROW_BYTES: u64 = 450;
/// How long a node may sort what was loaded.
const SETTLE_MAX: Duration = Duration::from_secs(300);

/// What there is more and more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Rows,
    Tables,
    Partitions,
}

impl Scale {
    pub(crate) const ALL: [Scale; 3] = [Scale::Rows, Scale::Tables, Scale::Partitions];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scale::Rows => "rows",
            Scale::Tables => "tables",
            Scale::Partitions => "partitions",
        }
    }

    /// How many of them, from few to many.
    fn counts(self, is_full: bool) -> &'static [u64] {
        match (self, is_full) {
            (Scale::Rows, false) => &[1_000_000, 5_000_000],
            (Scale::Rows, true) => &[1_000_000, 5_000_000, 30_000_000],
            (Scale::Tables, _) => &[1, 100, 1_000],
            (Scale::Partitions, _) => &[1, 1_000, 10_000],
        }
    }

    fn script(self) -> &'static str {
        if self == Scale::Tables { "tables" } else { "rows" }
    }

    fn parameters(self, count: u64) -> Vec<String> {
        match self {
            Scale::Rows => vec![format!("rows={count}"), format!("keys={count}")],
            Scale::Tables => vec![format!("tables={count}")],
            Scale::Partitions => Vec::new(),
        }
    }

    /// Settings of the node.
    fn settings(self, count: u64) -> Vec<String> {
        match self {
            // Rows that fit memory: room for all of them.
            Scale::Rows => vec![format!("memory.row_cache={}", count * CACHED_ROW_BYTES)],
            Scale::Tables => Vec::new(),
            Scale::Partitions => vec![format!("partitions.per_space={count}")],
        }
    }
}

/// One line of the table.
pub(crate) struct Line {
    /// What there is more and more of, and how many.
    pub(crate) what: &'static str,
    pub(crate) count: u64,
    pub(crate) workload: String,
    pub(crate) cpu_us: Spread,
}

/// Measures, and says where a request costs too much more than with little data.
pub(crate) fn run(tools: &Tools, wanted: &[Scale], is_full: bool) -> Result<(), String> {
    let mut lines: Vec<Line> = Vec::new();
    for scale in wanted {
        println!("==> from few to many {}", scale.name());
        for count in scale.counts(is_full) {
            forget()?;
            lines.extend(measure(tools, *scale, *count)?);
        }
    }
    forget()?;
    let (table, failures) = tell(&lines, RATIO_MAX);
    println!("\n{table}");
    write(&place::bench().join("scale.md"), &table)?;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn measure(tools: &Tools, scale: Scale, count: u64) -> Result<Vec<Line>, String> {
    let settings = scale.settings(count);
    let server = Server::start(tools, System::Helenus, Phase::OneCore, None, &settings)?;
    let mut client = Client::new(tools);
    let parameters = scale.parameters(count);
    let begin = Instant::now();
    client.load(&server, scale.script(), &parameters)?;
    server.flush(tools)?;
    server.settle(SETTLE_MAX);
    let loaded = begin.elapsed().as_secs();
    let megabytes = server.resident_bytes() / 1e6;
    println!("    {count} {}: loaded in {loaded} s, {megabytes:.0} MB", scale.name());
    let mut lines = Vec::new();
    for function in ["read", "update"] {
        let workload = Workload {
            name: function,
            title: function,
            script: scale.script(),
            functions: if function == "read" { &["read"] } else { &["update"] },
            parameters: &[],
            in_flight: 128,
            requests: 0,
            is_quick: false,
        };
        let mut costs = Vec::new();
        // The first round fills the caches and does not count.
        for round in 0..=ROUNDS {
            let amount = Amount::Requests(REQUESTS);
            let sample = client.run_with(&server, &workload, &parameters, amount)?;
            if round > 0 {
                costs.push(sample.cpu_us);
            }
        }
        let cpu_us = Spread::over(costs);
        println!("        {function:<8} {:.2} us of CPU each", cpu_us.median);
        lines.push(Line { what: scale.name(), count, workload: function.into(), cpu_us });
    }
    server.stop()?;
    Ok(lines)
}

/// The table, and what costs more than that many times what it does with the fewest.
pub(crate) fn tell(lines: &[Line], ratio_max: f64) -> (String, Vec<String>) {
    let mut table = String::from(
        "| what | how many | workload | CPU µs (lowest to highest) | to the fewest |\n|---|---|---|---|---|\n",
    );
    let mut failures = Vec::new();
    for line in lines {
        let is_same = |it: &&Line| it.what == line.what && it.workload == line.workload;
        let first = lines.iter().find(is_same).map_or(f64::NAN, |it| it.cpu_us.median);
        let ratio = line.cpu_us.median / first;
        let Line { what, count, workload, cpu_us } = line;
        let Spread { median, lowest, highest } = cpu_us;
        let _ = writeln!(
            table,
            "| {what} | {count} | {workload} | {median:.2} ({lowest:.2}–{highest:.2}) | {ratio:.2}× |"
        );
        if ratio > ratio_max {
            failures.push(format!(
                "{workload} with {count} {what} costs {ratio:.2} times what it does with the fewest"
            ));
        }
    }
    (table, failures)
}

#[cfg(test)]
mod tests {
    use super::{Line, RATIO_MAX, Spread, tell};

    #[test]
    fn what_costs_too_much_is_told() {
        let line = |count, median| Line {
            what: "rows",
            count,
            workload: "read".into(),
            cpu_us: Spread { median, lowest: median, highest: median },
        };
        let (table, failures) = tell(&[line(1, 2.0), line(5, 2.5), line(30, 2.7)], RATIO_MAX);
        assert_eq!(table.lines().count(), 5);
        assert_eq!(failures.len(), 1);
        assert!(failures[0].starts_with("read with 30 rows costs 1.35 times"));
    }
}
