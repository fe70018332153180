//! What the user asks of the bench.

use super::cluster;
use super::scale::Scale;
use super::system::NODES_MAX;
use super::workload::{self, Effort, Level, Phase, WORKLOADS, Workload};

/// Unmeasured turns that Cassandra gets on each workload, where that is wanted.
const WARM_UPS_MAX: u32 = 5;

/// What the user asked for.
pub(crate) struct Options {
    pub(crate) level: Level,
    pub(crate) effort: Effort,
    pub(crate) only: Vec<&'static Workload>,
    pub(crate) is_resumed: bool,
    pub(crate) is_published: bool,
    pub(crate) has_cassandra: bool,
    /// Only these conditions; all of them if there are none.
    pub(crate) phases: Vec<Phase>,
    /// Only these scales, and no comparison.
    pub(crate) scales: Vec<Scale>,
    /// How many nodes clusters of ours have, and no comparison of single servers; none, if it is for these.
    pub(crate) nodes: &'static [u8],
}

/// Reads the arguments; `None` when all was a question.
pub(crate) fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
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
        nodes: &[],
    };
    let (mut is_cluster, mut nodes, mut is_question) = (false, None, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => level = Level::Quick,
            "--full" => level = Level::Full,
            "--resume" => options.is_resumed = true,
            "--publish" => options.is_published = true,
            "--warm" => is_warm = true,
            "--cluster" => is_cluster = true,
            "--nodes" => nodes = Some(node_counts(value()?)?),
            "--without-cassandra" => options.has_cassandra = false,
            "--rounds" => rounds = Some(value()?.parse().map_err(|_| "--rounds needs a number")?),
            "--seconds" => {
                seconds = Some(value()?.parse().map_err(|_| "--seconds needs a number")?)
            }
            "--workload" => {
                let name = value()?;
                let wrong =
                    || format!("no workload {name}; there are: {}", names(WORKLOADS.iter()));
                options.only.push(workload::find(name).ok_or_else(wrong)?);
            }
            "--phase" => {
                let name = value()?;
                let found = Phase::ALONE.into_iter().find(|phase| phase.name() == name);
                let names = Phase::ALONE.map(Phase::name).join(", ");
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
            "--list" => is_question = true,
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
    options.nodes = match (is_cluster, nodes) {
        // It is asked for once, and is what every scenario refers to.
        (true, Some(nodes)) => nodes.leak(),
        (true, None) => &cluster::NODES,
        (false, Some(_)) => return Err("--nodes says how large clusters are: --cluster".into()),
        (false, None) => &[],
    };
    check_cluster(&options)?;
    if is_question {
        let is_there =
            |it: &&Workload| !is_cluster || cluster::workloads().any(|one| one.name == it.name);
        for workload in WORKLOADS.iter().filter(is_there) {
            println!("{:<14} {}", workload.name, workload.title);
        }
        return Ok(None);
    }
    Ok(Some(options))
}

/// Refuses what is for servers that run alone.
fn check_cluster(options: &Options) -> Result<(), String> {
    if options.nodes.is_empty() {
        return Ok(());
    }
    if !options.scales.is_empty() {
        return Err("--scale is for one node; more nodes are --cluster --nodes 4,8,16".into());
    }
    if !options.phases.is_empty() {
        return Err("--phase is for one node; --cluster has conditions of its own".into());
    }
    let is_missing = |it: &&&Workload| !cluster::workloads().any(|one| one.name == it.name);
    match options.only.iter().find(is_missing) {
        None => Ok(()),
        Some(workload) => Err(format!(
            "--cluster does not run {}; it runs: {}",
            workload.name,
            names(cluster::workloads())
        )),
    }
}

/// From `4,8,16`.
fn node_counts(text: &str) -> Result<Vec<u8>, String> {
    let (min, max) = (cluster::NODES_MIN, NODES_MAX);
    let counts: Option<Vec<u8>> = text.split(',').map(|count| count.parse().ok()).collect();
    let is_good = |counts: &Vec<u8>| {
        counts.is_sorted_by(|one, next| one < next)
            && counts.iter().all(|count| (min..=max).contains(count))
    };
    counts.filter(is_good).ok_or_else(|| {
        format!("--nodes needs numbers from {min} to {max}, from few to many, such as 4,8,16; not {text}")
    })
}

fn names(workloads: impl Iterator<Item = &'static Workload>) -> String {
    workloads.map(|workload| workload.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Level, parse};

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    fn refusal(line: &str) -> String {
        parse(&words(line)).err().unwrap_or_default()
    }

    #[test]
    fn arguments_of_clusters() {
        let nodes = |line: &str| parse(&words(line)).unwrap().unwrap().nodes;
        assert_eq!(nodes("--quick --seconds 2"), [0; 0]);
        assert_eq!(nodes("--cluster --without-cassandra --resume --publish"), [4]);
        assert_eq!(nodes("--nodes 4,8,16 --cluster --workload batch"), [4, 8, 16]);
        for counts in ["2", "17", "8,4", "4,4", "4,", "x", ""] {
            let words = ["--cluster", "--nodes", counts].map(String::from);
            let told = parse(&words).err().unwrap_or_default();
            assert!(told.starts_with("--nodes needs numbers from 3 to 16"), "{counts}: {told}");
        }
        assert!(refusal("--nodes 4").contains("--cluster"));
        assert!(refusal("--cluster --scale rows").starts_with("--scale is for one node"));
        assert!(refusal("--cluster --phase one-core").starts_with("--phase is for one node"));
        assert!(refusal("--cluster --workload scan").starts_with("--cluster does not run scan"));
        assert!(refusal("--phase cluster").starts_with("no phase cluster"));
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
