//! What is measured: the workloads, the conditions they run under, and how much of both a run takes.

/// One function (or a mix of several) of one script in `benches/workloads`.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// What a person reads.
    pub(crate) title: &'static str,
    /// The script, without its ending.
    pub(crate) script: &'static str,
    pub(crate) functions: &'static [&'static str],
    /// `name=value` for the script.
    pub(crate) parameters: &'static [&'static str],
    /// Requests in flight at saturation.
    pub(crate) in_flight: u32,
    pub(crate) is_quick: bool,
}

const fn workload(
    name: &'static str,
    title: &'static str,
    script: &'static str,
    functions: &'static [&'static str],
) -> Workload {
    Workload { name, title, script, functions, parameters: &[], in_flight: 128, is_quick: false }
}

const fn quick(workload: Workload) -> Workload {
    Workload { is_quick: true, ..workload }
}

/// All of them, in the order in which they run.
pub(crate) const WORKLOADS: [Workload; 16] = [
    quick(workload("insert", "insert, 240-byte rows", "rows", &["insert"])),
    quick(workload("read", "read", "rows", &["read"])),
    Workload {
        parameters: &["keys=100"],
        ..workload("read-hot", "read, 100 hot keys", "rows", &["read"])
    },
    quick(workload("update", "update one column", "rows", &["update"])),
    Workload {
        parameters: &["keys=100"],
        ..workload("update-hot", "update, 100 hot keys", "rows", &["update"])
    },
    quick(workload("mix", "50/50 mix, Zipfian keys", "rows", &["read_zipf", "write_zipf"])),
    quick(workload("append", "time-series append", "series", &["append"])),
    quick(workload("slice", "slice of 100 rows", "series", &["slice"])),
    workload("batch", "batch of 20, one partition", "batch", &["batch"]),
    quick(workload("conditional", "conditional insert", "conditional", &["claim"])),
    workload("counter", "counter increment", "counter", &["increment"]),
    workload("index", "secondary-index lookup, 10 rows", "index", &["lookup"]),
    Workload { in_flight: 32, ..workload("scan", "full scan, 1/512 a request", "rows", &["scan"]) },
    Workload {
        in_flight: 32,
        ..workload("large-insert", "insert, 64 KiB rows", "large", &["insert"])
    },
    Workload { in_flight: 32, ..workload("large-read", "read, 64 KiB rows", "large", &["read"]) },
    workload("read-disk", "read, data on disk, small cache", "rows", &["read"]),
];

pub(crate) fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

/// The conditions of a part of the run; the servers are started anew for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The server on one core, the client on another; periodic commit.
    OneCore,
    /// Both on all cores; periodic commit.
    AllCores,
    /// As `OneCore`, with caches of a fifth of the data, which is all on disk.
    SmallCache,
    /// As `OneCore`, with Helenus' group commit against Cassandra's group commit.
    Group,
    /// As `OneCore`, with Helenus' group commit against Cassandra's batch commit.
    Batch,
}

impl Phase {
    pub(crate) const ALL: [Phase; 5] =
        [Phase::OneCore, Phase::AllCores, Phase::SmallCache, Phase::Group, Phase::Batch];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::OneCore => "one-core",
            Phase::AllCores => "all-cores",
            Phase::SmallCache => "small-cache",
            Phase::Group => "group-commit",
            Phase::Batch => "batch-commit",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Phase::OneCore => "Server on one core, client on another, periodic commit",
            Phase::AllCores => "Server and client on all cores, periodic commit",
            Phase::SmallCache => "All data on disk, caches a fifth of the data",
            Phase::Group => "Helenus group commit against Cassandra group commit",
            Phase::Batch => "Helenus group commit against Cassandra batch commit",
        }
    }

    pub(crate) fn is_pinned(self) -> bool {
        self != Phase::AllCores
    }
}

/// One thing to measure: a workload under conditions.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) phase: Phase,
    pub(crate) workload: &'static Workload,
    pub(crate) in_flight: u32,
    pub(crate) connections: u32,
    /// Whether latency at half of Cassandra's peak is measured as well.
    pub(crate) has_rates: bool,
    /// Whether it is measured at other rates, too, for the picture.
    pub(crate) has_curve: bool,
}

/// Connections where nothing else is said.
pub(crate) const CONNECTIONS: u32 = 2;

impl Scenario {
    /// A name for files and for the JSON report.
    pub(crate) fn id(&self) -> String {
        let Scenario { phase, workload, in_flight, connections, .. } = self;
        format!("{}.{}.{in_flight}x{connections}", phase.name(), workload.name)
    }

    /// Whether it is one of the rows of the main table.
    pub(crate) fn is_main(&self) -> bool {
        self.in_flight == self.workload.in_flight && self.connections == CONNECTIONS
    }
}

/// How thorough a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Quick,
    Standard,
    Full,
}

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    /// How often at most Cassandra gets a turn that does not count, so that its compiler sees the workload first.
    pub(crate) warm_ups_max: u32,
    /// The rates of the open loop, as parts of Cassandra's peak; one half is among them.
    pub(crate) rates: &'static [f64],
}

impl Level {
    pub(crate) fn effort(self) -> Effort {
        match self {
            Level::Quick => Effort { rounds: 3, seconds: 1.5, warm_ups_max: 2, rates: &[0.5] },
            Level::Standard => {
                Effort { rounds: 3, seconds: 1.5, warm_ups_max: 3, rates: &[0.25, 0.5, 0.9] }
            }
            Level::Full => {
                Effort { rounds: 5, seconds: 5.0, warm_ups_max: 10, rates: &[0.25, 0.5, 0.75, 0.9] }
            }
        }
    }

    /// What is measured, phase by phase. With `only`, those workloads alone.
    pub(crate) fn scenarios(self, only: &[&'static Workload]) -> Vec<Scenario> {
        let wanted = |workload: &Workload| {
            (only.is_empty() && (self != Level::Quick || workload.is_quick))
                || only.iter().any(|one| one.name == workload.name)
        };
        let mut scenarios = Vec::new();
        let mut add = |phase, name: &str, in_flight: u32, connections, has_rates| {
            if let Some(workload) = find(name).filter(|workload| wanted(workload)) {
                let in_flight = if in_flight == 0 { workload.in_flight } else { in_flight };
                let has_curve = has_rates && (workload.is_quick || self == Level::Full);
                let conditions =
                    Scenario { phase, workload, in_flight, connections, has_rates, has_curve };
                scenarios.push(conditions);
            }
        };
        for workload in WORKLOADS.iter().filter(|workload| workload.name != "read-disk") {
            // One workload with hot keys tells the story, unless there is time or it is asked for.
            if workload.name == "update-hot" && self != Level::Full && only.is_empty() {
                continue;
            }
            add(Phase::OneCore, workload.name, 0, CONNECTIONS, true);
        }
        if self == Level::Quick {
            return scenarios;
        }
        for name in ["read", "insert"] {
            for in_flight in [1, 32, 512] {
                add(Phase::OneCore, name, in_flight, CONNECTIONS, false);
            }
            add(Phase::OneCore, name, 512, 512, false);
        }
        for name in ["insert", "read", "update", "mix", "append", "slice", "conditional"] {
            let is_standard = ["insert", "read", "mix", "slice"].contains(&name);
            if is_standard || self == Level::Full {
                add(Phase::AllCores, name, 0, CONNECTIONS, false);
            }
        }
        add(Phase::SmallCache, "read-disk", 0, CONNECTIONS, false);
        add(Phase::SmallCache, "update", 0, CONNECTIONS, false);
        for phase in [Phase::Group, Phase::Batch] {
            add(phase, "insert", 0, CONNECTIONS, false);
            add(phase, "insert", 1, CONNECTIONS, false);
        }
        scenarios
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Level, WORKLOADS, find};
    use crate::place;

    #[test]
    fn every_script_is_there_and_has_the_functions() {
        for workload in &WORKLOADS {
            let path = place::workloads().join(format!("{}.rn", workload.script));
            let text = std::fs::read_to_string(path).unwrap();
            for function in workload.functions {
                let head = format!("pub async fn {function}(");
                assert!(text.contains(&head), "{}: no {function}", workload.name);
            }
        }
    }

    #[test]
    fn no_scenario_comes_twice() {
        for level in [Level::Quick, Level::Standard, Level::Full] {
            let scenarios = level.scenarios(&[]);
            let ids: BTreeSet<String> = scenarios.iter().map(super::Scenario::id).collect();
            assert_eq!(ids.len(), scenarios.len());
        }
        let only = Level::Quick.scenarios(&[find("scan").unwrap()]);
        assert_eq!(only.iter().map(|one| one.workload.name).collect::<Vec<_>>(), ["scan"]);
    }
}
