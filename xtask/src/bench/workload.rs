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
    /// Requests of one round: the same number for every system.
    pub(crate) requests: u32,
    pub(crate) is_quick: bool,
}

const fn workload(
    name: &'static str,
    title: &'static str,
    script: &'static str,
    functions: &'static [&'static str],
) -> Workload {
    Workload {
        name,
        title,
        script,
        functions,
        parameters: &[],
        in_flight: 128,
        requests: 200_000,
        is_quick: false,
    }
}

/// The same with fewer requests, where one of them is much work.
const fn of(requests: u32, workload: Workload) -> Workload {
    Workload { requests, ..workload }
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
    quick(of(50_000, workload("slice", "slice of 100 rows", "series", &["slice"]))),
    of(20_000, workload("batch", "batch of 20, one partition", "batch", &["batch"])),
    quick(of(20_000, workload("conditional", "conditional insert", "conditional", &["claim"]))),
    of(100_000, workload("counter", "counter increment", "counter", &["increment"])),
    of(20_000, workload("index", "secondary-index lookup, 10 rows", "index", &["lookup"])),
    Workload {
        in_flight: 32,
        ..of(2_000, workload("scan", "full scan, 1/512 a request", "rows", &["scan"]))
    },
    Workload {
        in_flight: 32,
        ..of(5_000, workload("large-insert", "insert, 64 KiB rows", "large", &["insert"]))
    },
    Workload {
        in_flight: 32,
        ..of(10_000, workload("large-read", "read, 64 KiB rows", "large", &["read"]))
    },
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
    /// Clusters, all nodes on one core, the client on another.
    Cluster,
}

/// How many nodes a request at a cluster waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    Quorum,
    LocalOne,
}

impl Consistency {
    pub(crate) const ALL: [Consistency; 2] = [Consistency::Quorum, Consistency::LocalOne];

    /// As CQL and latte write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Consistency::Quorum => "QUORUM",
            Consistency::LocalOne => "LOCAL_ONE",
        }
    }
}

/// The conditions of a scenario that clusters are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClusterConditions {
    pub(crate) consistency: Consistency,
    /// How many nodes ours have: the first is compared with Cassandra's, the others with the first.
    pub(crate) nodes: &'static [u8],
}

impl Phase {
    /// Those of a server that runs alone.
    pub(crate) const ALONE: [Phase; 5] =
        [Phase::OneCore, Phase::AllCores, Phase::SmallCache, Phase::Group, Phase::Batch];
    pub(crate) const ALL: [Phase; 6] = [
        Phase::OneCore,
        Phase::AllCores,
        Phase::SmallCache,
        Phase::Group,
        Phase::Batch,
        Phase::Cluster,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::OneCore => "one-core",
            Phase::AllCores => "all-cores",
            Phase::SmallCache => "small-cache",
            Phase::Group => "group-commit",
            Phase::Batch => "batch-commit",
            Phase::Cluster => "cluster",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Phase::OneCore => "Server on one core, client on another, periodic commit",
            Phase::AllCores => "Server and client on all cores, periodic commit",
            Phase::SmallCache => "All data on disk, caches a fifth of the data",
            Phase::Group => "Helenus group commit against Cassandra group commit",
            Phase::Batch => "Helenus group commit against Cassandra batch commit",
            Phase::Cluster => "Clusters: all nodes on one core, client on another",
        }
    }

    /// Parameters of the scripts, for loading and running.
    pub(crate) fn parameters(self) -> Vec<String> {
        let of_clusters: &[&str] = match self {
            Phase::Cluster => &CLUSTER_PARAMETERS,
            _ => &[],
        };
        of_clusters.iter().map(|it| it.to_string()).collect()
    }

    /// Connections of the client where a scenario is about nothing else: to all nodes together.
    pub(crate) fn connections(self) -> u32 {
        match self {
            Phase::Cluster => CLUSTER_CONNECTIONS,
            _ => CONNECTIONS,
        }
    }

    pub(crate) fn is_pinned(self) -> bool {
        self != Phase::AllCores
    }
}

/// One thing to measure: a workload under conditions.
#[derive(Clone, Copy)]
pub(crate) struct Scenario<'w> {
    pub(crate) phase: Phase,
    pub(crate) workload: &'w Workload,
    pub(crate) in_flight: u32,
    pub(crate) connections: u32,
    /// Whether latency at half of Cassandra's peak is measured as well.
    pub(crate) has_rates: bool,
    /// Whether it is measured at other rates, too, for the picture.
    pub(crate) has_curve: bool,
    /// Where clusters are asked.
    pub(crate) cluster: Option<ClusterConditions>,
}

/// Connections where nothing else is said.
pub(crate) const CONNECTIONS: u32 = 2;
/// And to a cluster, all nodes together: one to each of the most nodes. With more of them for more nodes, fewer requests would
/// come at once on each, and that, not the nodes, would be what is compared.
const CLUSTER_CONNECTIONS: u32 = 16;
/// A request takes three real nodes on one core so long that there are fewer rows, and rounds are shorter.
const CLUSTER_PARAMETERS: [&str; 4] = ["replication=3", "rows=50000", "keys=50000", "series=500"];
const CLUSTER_PART: f64 = 0.1;

impl Scenario<'_> {
    /// A name for files and for the JSON report.
    pub(crate) fn id(&self) -> String {
        let Scenario { phase, workload, in_flight, connections, .. } = self;
        let mut id = format!("{}.{}.{in_flight}x{connections}", phase.name(), workload.name);
        if let Some(cluster) = self.cluster {
            let counts: Vec<String> = cluster.nodes.iter().map(u8::to_string).collect();
            id += &format!(".{}.{}", cluster.consistency.name().to_lowercase(), counts.join("-"));
        }
        id
    }

    /// What a person reads of its conditions.
    pub(crate) fn conditions(&self) -> String {
        let title = self.phase.title();
        self.consistency().map_or(title.into(), |it| format!("{title}, {}", it.name()))
    }

    pub(crate) fn consistency(&self) -> Option<Consistency> {
        self.cluster.map(|it| it.consistency)
    }

    /// Whether it is one of the rows of the main table.
    pub(crate) fn is_main(&self) -> bool {
        self.in_flight == self.workload.in_flight && self.connections == self.phase.connections()
    }
}

/// How much is asked for in one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    Requests(u64),
    Seconds(f64),
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
    /// A round is this part of the workload's requests.
    pub(crate) part: f64,
    /// A round takes so long instead.
    pub(crate) round_seconds: Option<f64>,
    /// What is measured at a fixed rate takes so long.
    pub(crate) seconds: f64,
    /// How often at most Cassandra gets a turn that does not count, so that its compiler sees the workload first.
    pub(crate) warm_ups_max: u32,
    /// The rates of the open loop, as parts of Cassandra's peak; one half is among them.
    pub(crate) rates: &'static [f64],
}

impl Effort {
    /// One round of a scenario at saturation. A handful of requests in flight takes longer for each.
    pub(crate) fn round(&self, scenario: &Scenario<'_>) -> Amount {
        if let Some(seconds) = self.round_seconds {
            return Amount::Seconds(seconds);
        }
        const FEW_IN_FLIGHT: u32 = 16;
        let requests = f64::from(scenario.workload.requests) * self.part;
        let part = match scenario.cluster {
            Some(_) => CLUSTER_PART,
            None if scenario.in_flight < FEW_IN_FLIGHT => 0.05,
            None => 1.0,
        };
        Amount::Requests((requests * part).round().max(1.0) as u64)
    }

    /// What the report says about it.
    pub(crate) fn told(&self, phase: Phase) -> String {
        let (part, rows) = match phase {
            Phase::Cluster => (CLUSTER_PART, "50,000"),
            _ => (1.0, "200,000"),
        };
        let amount = match self.round_seconds {
            Some(seconds) => format!("{seconds} s"),
            None => {
                let requests = 200_000.0 * part * self.part;
                format!("{requests:.0} requests (fewer where one is much work)")
            }
        };
        let warm = match self.warm_ups_max {
            0 => format!(
                "Cassandra has the loading of the tables ({rows} rows each) as its warm-up, and the rounds before"
            ),
            _ => {
                "Cassandra gets unmeasured turns on each workload until its compiler has little left to gain".into()
            }
        };
        format!("{} rounds of {amount} for each system and workload. {warm}.", self.rounds)
    }
}

impl Level {
    pub(crate) fn effort(self) -> Effort {
        match self {
            Level::Quick => Effort {
                rounds: 3,
                part: 0.5,
                round_seconds: None,
                seconds: 1.5,
                warm_ups_max: 0,
                rates: &[0.5],
            },
            Level::Standard => Effort {
                rounds: 3,
                part: 1.0,
                round_seconds: None,
                seconds: 2.0,
                warm_ups_max: 0,
                rates: &[0.25, 0.5, 0.9],
            },
            Level::Full => Effort {
                rounds: 5,
                part: 2.0,
                round_seconds: None,
                seconds: 5.0,
                warm_ups_max: 0,
                rates: &[0.25, 0.5, 0.75, 0.9],
            },
        }
    }

    /// What is measured, phase by phase. With `only`, those workloads alone.
    pub(crate) fn scenarios(self, only: &[&'static Workload]) -> Vec<Scenario<'static>> {
        let wanted = |workload: &Workload| {
            (only.is_empty() && (self != Level::Quick || workload.is_quick))
                || only.iter().any(|one| one.name == workload.name)
        };
        let mut scenarios = Vec::new();
        let mut add = |phase, name: &str, in_flight: u32, connections, has_rates| {
            if let Some(workload) = find(name).filter(|workload| wanted(workload)) {
                let in_flight = if in_flight == 0 { workload.in_flight } else { in_flight };
                let has_curve = has_rates && (workload.is_quick || self == Level::Full);
                scenarios.push(Scenario {
                    phase,
                    workload,
                    in_flight,
                    connections,
                    has_rates,
                    has_curve,
                    cluster: None,
                });
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
