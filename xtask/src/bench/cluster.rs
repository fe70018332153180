//! Clusters: ours, Cassandra's and one of null servers, and what is measured of them. Ours may come in several sizes, so that what a
//! request costs with more nodes is seen in the same run.

use std::net::Ipv4Addr;
use std::process::Command;

use super::cassandra;
use super::measure::Figures;
use super::report::spread_of;
use super::scale::{Line, tell};
use super::system::{Server, System, answers, free_port, null_server};
use super::tools::Tools;
use super::workload::{
    ClusterConditions, Consistency, Level, Phase, Scenario, WORKLOADS, Workload,
};
use crate::place;

/// How many nodes of ours are compared with Cassandra's, unless the user says otherwise.
pub(crate) const NODES: [u8; 1] = [4];
/// Fewer cannot lose one.
pub(crate) const NODES_MIN: u8 = 3;
/// How many Cassandra has: as many as have a row, `replication=3` in the scripts.
const CASSANDRA_NODES: u8 = 3;
/// A request may cost this many times what it does with the fewest nodes.
const RATIO_MAX: f64 = 1.1;

/// What clusters are asked to do.
const NAMES: [&str; 8] =
    ["insert", "read", "update", "mix", "slice", "conditional", "counter", "batch"];

pub(crate) fn workloads() -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().filter(|workload| NAMES.contains(&workload.name))
}

/// What is measured: each workload at both levels. With `only`, those workloads alone.
pub(crate) fn scenarios(
    level: Level,
    only: &[&'static Workload],
    nodes: &'static [u8],
) -> Vec<Scenario<'static>> {
    let is_wanted = |workload: &&Workload| match only {
        [] => level != Level::Quick || workload.is_quick,
        only => only.iter().any(|one| one.name == workload.name),
    };
    let at = |workload: &'static Workload, consistency| Scenario {
        phase: Phase::Cluster,
        workload,
        in_flight: workload.in_flight,
        connections: Phase::Cluster.connections(),
        has_rates: true,
        has_curve: false,
        cluster: Some(ClusterConditions { consistency, nodes }),
    };
    let of_both = |workload| Consistency::ALL.map(|consistency| at(workload, consistency));
    workloads().filter(is_wanted).flat_map(of_both).collect()
}

/// Starts a cluster without data. The limit has as many nodes as ours, and asks the nodes of ours at port `node`.
pub(crate) fn start(
    tools: &Tools,
    system: System,
    nodes: u8,
    node: Option<u16>,
) -> Result<Server, String> {
    let folder = place::bench().join("data").join(format!("cluster-{}", system.name()));
    // Nodes keep where they listened; what a run that broke has left would be found at ports that are not free any more.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    println!("    {}: starting", system.title());
    let server = Server::new(system, folder, free_port()?);
    match system {
        System::Helenus | System::More(_) => start_ours(tools, server, nodes),
        System::Cassandra => {
            let mesh_port = free_port()?;
            start_each(tools, server, CASSANDRA_NODES, |server, address, number| {
                let folder = server.data().join(number.to_string());
                cassandra::command(
                    tools,
                    &folder,
                    (address, server.port, mesh_port),
                    Phase::Cluster,
                )
            })
        }
        System::Limit => start_each(tools, server, nodes, |server, address, _| {
            null_server(tools, address, server.port, node)
        }),
    }
}

/// A cluster of ours is what `helenus demo` runs. It looks after its nodes, and says which processes they are.
fn start_ours(tools: &Tools, mut server: Server, nodes: u8) -> Result<Server, String> {
    let mut demo = Command::new(&tools.helenus);
    demo.args(["demo", "--nodes", &nodes.to_string(), "--port", &server.port.to_string()])
        .args(["--mesh-port", &free_port()?.to_string(), "--set", "metrics.listen=", "--data-dir"])
        .arg(server.data());
    let folder = server.folder.clone();
    server.spawn(tools, Phase::Cluster, &folder, demo)?;
    // The demo's last line before it waits.
    server
        .await_answer(|server| server.said().lines().any(|line| line.starts_with("stop with")))?;
    let processes = processes_of(&server.said());
    if processes.len() != usize::from(nodes) {
        return Err(format!("a demo of {nodes} nodes told of {}", processes.len()));
    }
    server.is_served_by(processes);
    Ok(server)
}

/// The processes in the lines of a demo, such as `node 1: pid 27566, 127.0.0.1:9042, data/node1`.
fn processes_of(said: &str) -> Vec<u32> {
    let of_line = |line: &str| {
        let (_, rest) = line.strip_prefix("node ")?.split_once(": pid ")?;
        rest.split_once(',')?.0.parse().ok()
    };
    said.lines().filter_map(of_line).collect()
}

/// One process after the other, at 127.0.0.1, 127.0.0.2 and so on.
fn start_each(
    tools: &Tools,
    mut server: Server,
    nodes: u8,
    program: impl Fn(&Server, Ipv4Addr, u8) -> Result<Command, String>,
) -> Result<Server, String> {
    for number in 1..=nodes {
        let address = Ipv4Addr::new(127, 0, 0, number);
        let program = program(&server, address, number)?;
        let folder = server.data().join(number.to_string());
        server.spawn(tools, Phase::Cluster, &folder, program)?;
        server.await_answer(|server| answers(address, server.port))?;
    }
    Ok(server)
}

/// What stands above the tables.
pub(crate) fn about(nodes: &[u8]) -> String {
    let ours = nodes.first().copied().unwrap_or_default();
    format!(
        "A cluster of ours with {ours} nodes and one of Cassandra with {CASSANDRA_NODES} (replication factor {CASSANDRA_NODES}) ran on the same machine with the same client (latte), in turns.\n\
         A row of ours is on four nodes, and a write is synced on the disks of three of them before it is acknowledged, at any level; Cassandra syncs its logs every ten seconds,\n\
         as it does by default, and at LOCAL_ONE waits for one node.\n\
         Figures are medians over the rounds, with the lowest and the highest in brackets. CPU is user and system time per request, the sum over the processes of all nodes. \
         Memory and bytes\non disk are such sums, too. *The limit* is {ours} null servers, one for each node of ours, with our codec: they answer every execute with a canned result, and tell nobody of it.\n\n"
    )
}

/// What a request costs with more nodes: a section of the report, and what costs too much. Nothing, if there is one size only.
pub(crate) fn growth(all: &[Figures]) -> (String, Vec<String>) {
    let lines: Vec<Line> = all.iter().flat_map(lines_of).collect();
    if lines.is_empty() {
        return Default::default();
    }
    let (table, failures) = tell(&lines, RATIO_MAX);
    let text = format!(
        "## More nodes\n\nClusters of ours in turns, with the same number of requests in flight on the same number of connections. \
         CPU is the sum over all nodes; it is to\nstay flat, at {RATIO_MAX} times what it is with the fewest nodes at the most.\n\n{table}\n"
    );
    (text, failures)
}

fn lines_of(figures: &Figures) -> Vec<Line> {
    let Some(ClusterConditions { consistency, nodes }) = figures.scenario.cluster else {
        return Vec::new();
    };
    let line = |(index, count): (usize, &u8)| {
        let system = if index == 0 { System::Helenus } else { System::More(*count) };
        Some(Line {
            what: "nodes",
            count: u64::from(*count),
            workload: format!("{}, {}", figures.scenario.workload.title, consistency.name()),
            cpu_us: spread_of(figures, system, |sample| sample.cpu_us)?,
        })
    };
    match nodes {
        [] | [_] => Vec::new(),
        nodes => nodes.iter().enumerate().filter_map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Sample;
    use super::super::measure::SystemFigures;
    use super::super::workload::find;
    use super::*;

    #[test]
    fn both_levels_of_eight_workloads() {
        let all = scenarios(Level::Standard, &[], &NODES);
        assert_eq!(all.len(), 16);
        assert_eq!(all[0].id(), "cluster.insert.128x16.quorum.4");
        assert!(all.iter().all(Scenario::is_main));
        assert_eq!(workloads().count(), NAMES.len());
        assert_eq!(scenarios(Level::Quick, &[], &NODES).len(), 12);
        let only = scenarios(Level::Quick, &[find("batch").unwrap()], &[4, 8]);
        let ids: Vec<String> = only.iter().map(Scenario::id).collect();
        assert_eq!(ids, ["cluster.batch.128x16.quorum.4-8", "cluster.batch.128x16.local_one.4-8"]);
    }

    #[test]
    fn the_processes_of_a_demo() {
        let said = "node 1: pid 27566, 127.0.0.1:9042, data/node1\n2026 WARN node 7\n\
                    node 2: pid 27567, 127.0.0.2:9042, data/node2\nstop with Ctrl-C\n";
        assert_eq!(processes_of(said), [27566, 27567]);
    }

    fn figures(nodes: &'static [u8], costs: &[(System, f64)]) -> Figures {
        let mut scenario = scenarios(Level::Quick, &[find("read").unwrap()], nodes)[0];
        scenario.cluster = Some(ClusterConditions { consistency: Consistency::Quorum, nodes });
        let systems = costs.iter().map(|(system, cpu_us)| SystemFigures {
            system: *system,
            rounds: vec![Sample { cpu_us: *cpu_us, ..Sample::default() }],
            rates: Vec::new(),
        });
        Figures { scenario, systems: systems.collect() }
    }

    #[test]
    fn what_more_nodes_cost() {
        let costs = [(System::Helenus, 20.0), (System::More(8), 21.0), (System::More(16), 24.0)];
        let (text, failures) = growth(&[figures(&[4, 8, 16], &costs)]);
        assert!(
            text.contains("| nodes | 8 | read, QUORUM | 21.00 (21.00–21.00) | 1.05× |"),
            "{text}"
        );
        assert_eq!(
            failures,
            ["read, QUORUM with 16 nodes costs 1.20 times what it does with the fewest"]
        );
        let (text, failures) = growth(&[figures(&[4], &costs)]);
        assert!(text.is_empty() && failures.is_empty());
    }

    #[test]
    fn the_limit_has_as_many_nodes_as_ours() {
        let text = about(&[4, 8]);
        assert!(text.contains("with 4 nodes") && text.contains("*The limit* is 4 null servers"));
    }
}
