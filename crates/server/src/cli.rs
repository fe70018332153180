//! The command line.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};
use clap_complete::Shell;

use crate::admin::{AskedPlace, Split};
use crate::config::{ConfigError, Loaded, Sources, load};
use crate::cql_shell::{self, CqlShell};
use crate::demo::Demo;
use crate::handbook;
use crate::jobs::Manner;
use crate::nodes::NodeOrder;
use crate::nodes::joining::{Join, Token};
use crate::skip::AskedSkip;
use crate::transfer::{self, AskedNode, Transfer};
use crate::upkeep::{self, Upkeep};
use crate::version;

/// What the user asked for.
pub(crate) enum Order {
    /// Run a node; of a cluster, where it is to join one.
    Start(Option<Join>),
    /// Print a token for a node that is to join.
    Token { json: bool },
    /// Ask the running node for something, or have another one removed.
    Node { order: NodeOrder, manner: Manner },
    /// A node that will not come back is removed.
    Remove { node: u64, manner: Manner },
    /// Nodes are lost for good, and sets have no quorum.
    Recover { lost: Vec<u64>, is_unsafe: bool, json: bool },
    /// The members of a set differ, and one node's rows count.
    Skip { asked: AskedSkip, json: bool },
    /// Join one more node to a demo that runs.
    DemoAdd(Demo),
    /// Run a cluster on this machine.
    Demo(Demo),
    /// Print the configuration.
    Config,
    /// Ask the running node how it is.
    Status {
        /// As the JSON object the node answered.
        json: bool,
        /// Which node, where it is not that of the data folder.
        node: AskedNode,
    },
    /// Have the running node end.
    Stop,
    /// Print what is known without a node.
    Print(String),
    /// Write all manual pages into a folder.
    Man(PathBuf),
    /// Have the running node write its memory to sorted files.
    Flush,
    /// Have the running node merge its sorted files.
    Compact,
    /// Show the ring of the running node.
    Partitions {
        /// `KEYSPACE` or `KEYSPACE.TABLE`; all without one.
        space: Option<String>,
        /// Again and again.
        watch: bool,
    },
    /// Show the members of a replica set, or of all.
    Sets { set: Option<u32>, json: bool },
    /// Show the nodes of the cluster.
    Nodes { json: bool },
    /// Check, save, keep or restore a data folder.
    Upkeep(Upkeep),
    /// Write a table to a file, or read it from one.
    Transfer(Transfer),
    /// A shell, for people and scripts.
    Cql(Box<CqlShell>),
    /// Have the running node split a physical partition.
    Split(Split),
    /// Reckon what the workload of a file needs and costs, or, without one, that of the node.
    Estimate(Option<PathBuf>),
}

/// What stops us before the order is carried out.
pub(crate) enum CommandError {
    /// The configuration file cannot be read.
    Unreadable { path: PathBuf, error: std::io::Error },
    /// The configuration is wrong.
    Config(ConfigError),
    /// There is no such page.
    Handbook(String),
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CommandError::Unreadable { path, error } => {
                write!(f, "cannot read the configuration file {}: {error}", path.display())
            }
            CommandError::Config(error) => error.fmt(f),
            CommandError::Handbook(error) => f.write_str(error),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  helenus                                      a node on 127.0.0.1:9042, data in ./data
  helenus start --listen 0.0.0.0:9042 --data-dir /var/lib/helenus
  helenus config > helenus.toml                every setting, explained, with its default
  helenus start --config helenus.toml --set log.level=info
  HELENUS_STORAGE_COMMIT=periodic helenus      a setting from the environment
  helenus status                               how the node in ./data is doing
  helenus stop                                 end it
  helenus snapshot monday                      keep everything as it is now
  helenus check                                verify the data of a stopped node
  helenus partitions                           the ring and its physical partitions
  helenus demo --nodes 4                       a cluster on this machine
  helenus token                                let one more node join
  helenus cql                                  a shell; cqlsh works as well
  helenus cql -e 'SELECT * FROM shop.orders' --json";

const START_EXAMPLES: &str = "\
Examples:
  helenus start
  helenus start --data-dir /var/lib/helenus --listen 0.0.0.0:9042
  helenus start --config helenus.toml --set limits.connections=500
  helenus start --set tls.mode=optional --set tls.certificate=node.pem --set tls.key=node.key

Ctrl-C or SIGTERM stops the node; SIGHUP reads its certificates again.
All settings: helenus config";

const DEMO_EXAMPLES: &str = "\
Examples:
  helenus demo                                 four nodes, data in ./data/node1 to node4
  helenus demo --nodes 3 --data-dir /tmp/trial --port 9142
  helenus demo --add --data-dir /tmp/trial     one more node joins, from another terminal
  kill -9 PID                                  a node is lost; nothing else is
  helenus start --data-dir /tmp/trial/node2    it comes back, and catches up

Ctrl-C stops all nodes. The same command goes on with the same data.";

const ESTIMATE_EXAMPLES: &str = "\
Examples:
  helenus estimate --file workload.toml
  helenus estimate --from-node --data-dir /var/lib/helenus

A workload:
  storage_gb = 20
  peak_percent = 300            # the highest second against the average
  [[operation]]
  kind = \"read\"                # read, query, insert, replace, delete
  per_second = 400
  row_bytes = 1024              # also: rows, index_terms, strong, partitions";

/// Reads the arguments; prints help, the version or a usage error itself and ends the process then.
pub(crate) fn parse() -> Result<(Order, Loaded), CommandError> {
    let matches = command().get_matches();
    match matches.subcommand() {
        None => settled(Order::Start(None), &matches),
        Some(("token", matches)) => {
            settled(Order::Token { json: matches.get_flag("json") }, matches)
        }
        Some((command @ ("drain" | "decommission"), matches)) => {
            let order = match (matches.get_flag("cancel"), command) {
                (true, "drain") => NodeOrder::EndDrain,
                (true, _) => NodeOrder::Stay,
                (false, "drain") => NodeOrder::Drain,
                (false, _) => NodeOrder::Leave,
            };
            settled(Order::Node { order, manner: asked_manner(matches) }, matches)
        }
        Some(("remove", matches)) => {
            let node = required(matches, "id");
            settled(Order::Remove { node, manner: asked_manner(matches) }, matches)
        }
        Some(("recover", matches)) => {
            let lost =
                matches.get_many::<u64>("lost").map_or_else(Vec::new, |it| it.copied().collect());
            let (is_unsafe, json) = (matches.get_flag("unsafe"), matches.get_flag("json"));
            settled(Order::Recover { lost, is_unsafe, json }, matches)
        }
        Some(("skip", matches)) => {
            let asked = AskedSkip {
                set: required(matches, "id"),
                index: required(matches, "index"),
                kept: required(matches, "keep"),
                is_unsafe: matches.get_flag("unsafe"),
            };
            settled(Order::Skip { asked, json: matches.get_flag("json") }, matches)
        }
        Some(("config", matches)) => settled(Order::Config, matches),
        Some(("status", matches)) => {
            let (json, node) = (matches.get_flag("json"), AskedNode::of(matches));
            settled(Order::Status { json, node }, matches)
        }
        Some(("set", matches)) => {
            let set = matches.get_one::<u32>("id").copied();
            settled(Order::Sets { set, json: matches.get_flag("json") }, matches)
        }
        Some(("nodes", matches)) => {
            settled(Order::Nodes { json: matches.get_flag("json") }, matches)
        }
        Some(("demo", matches)) => match matches.get_flag("add") {
            true => settled(Order::DemoAdd(asked_demo(matches)), matches),
            false => settled(Order::Demo(asked_demo(matches)), matches),
        },
        Some(("stop", matches)) => settled(Order::Stop, matches),
        Some(("version", _)) => printed(format!("helenus {}\n", version::LONG)),
        Some(("completions", matches)) => match matches.get_one::<Shell>("shell") {
            Some(shell) => printed(handbook::completions(command(), *shell)),
            None => printed(String::new()),
        },
        Some(("man", matches)) => match matches.get_one::<String>("to") {
            Some(folder) => unsettled(Order::Man(PathBuf::from(folder))),
            None => {
                let name = matches.get_one::<String>("command").map(String::as_str);
                printed(handbook::page(command(), name).map_err(CommandError::Handbook)?)
            }
        },
        Some(("flush", matches)) => settled(Order::Flush, matches),
        Some(("compact", matches)) => settled(Order::Compact, matches),
        Some(("partitions", matches)) => {
            let space = matches.get_one::<String>("space").cloned();
            settled(Order::Partitions { space, watch: matches.get_flag("watch") }, matches)
        }
        Some(("estimate", matches)) => {
            let file = matches.get_one::<String>("file").map(PathBuf::from);
            settled(Order::Estimate(file), matches)
        }
        Some(("cql", matches)) => settled(Order::Cql(Box::new(cql_shell::asked(matches))), matches),
        Some(("split", matches)) => settled(Order::Split(asked_split(matches)), matches),
        Some((command, matches)) => match upkeep::asked(command, matches) {
            Some(upkeep) => settled(Order::Upkeep(upkeep), matches),
            None => match transfer::asked(command, matches) {
                Some(transfer) => settled(Order::Transfer(transfer), matches),
                None => settled(Order::Start(asked_join(matches)), matches),
            },
        },
    }
}

/// An order that no setting matters for, however wrong they are.
fn unsettled(order: Order) -> Result<(Order, Loaded), CommandError> {
    let loaded = load(&Sources::default()).map_err(CommandError::Config)?;
    Ok((order, loaded))
}

fn printed(text: String) -> Result<(Order, Loaded), CommandError> {
    unsettled(Order::Print(text))
}

fn asked_manner(matches: &ArgMatches) -> Manner {
    Manner { json: matches.get_flag("json"), waits: !matches.get_flag("no-wait") }
}

fn asked_join(matches: &ArgMatches) -> Option<Join> {
    let address = matches.get_one::<std::net::SocketAddr>("join")?;
    let token = matches.get_one::<Token>("token")?;
    Some(Join { address: *address, token: *token })
}

fn asked_demo(matches: &ArgMatches) -> Demo {
    Demo {
        nodes: usize::from(matches.get_one::<u8>("nodes").copied().unwrap_or(4)),
        port: matches.get_one::<u16>("port").copied().unwrap_or(9042),
        mesh_port: matches.get_one::<u16>("mesh-port").copied(),
        sets: matches
            .get_many::<String>("set")
            .map_or_else(Vec::new, |sets| sets.cloned().collect()),
    }
}

fn asked_split(matches: &ArgMatches) -> Split {
    let place = match (matches.get_many::<String>("key"), matches.get_one::<i64>("token")) {
        (Some(values), _) => AskedPlace::Key(values.cloned().collect()),
        (None, Some(token)) => AskedPlace::Token(*token),
        (None, None) => AskedPlace::Best,
    };
    Split { space: matches.get_one::<String>("space").cloned().unwrap_or_default(), place }
}

fn settled(order: Order, matches: &ArgMatches) -> Result<(Order, Loaded), CommandError> {
    let mut sources = Sources {
        // A variable that is not UTF-8 cannot be one of ours.
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        ..Sources::default()
    };
    if let Some(path) = matches.get_one::<String>("config") {
        let path = PathBuf::from(path);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| CommandError::Unreadable { path: path.clone(), error })?;
        sources.file = Some((path, text));
    }
    if let Some(sets) = matches.get_many::<String>("set") {
        sources.sets.extend(sets.cloned());
    }
    for (flag, argument, name) in [
        ("--data-dir", "data-dir", "server.data_dir"),
        ("--listen", "listen", "server.listen"),
        ("--profile", "profile", "profile"),
    ] {
        if let Some(value) = matches.get_one::<String>(argument) {
            sources.flags.push((flag, name, value.clone()));
        }
    }
    let loaded = load(&sources).map_err(CommandError::Config)?;
    Ok((order, loaded))
}

/// The value of an argument that the command demands: none in its place could be meant.
fn required<T: Copy + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    match matches.get_one::<T>(name) {
        Some(value) => *value,
        None => unreachable!("a command without its {name} is refused when it is read"),
    }
}

fn number(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("N").help(help)
}

pub(crate) fn command() -> Command {
    Command::new("helenus")
        .version(version::LONG)
        .about("A database that speaks Apache Cassandra's query language and protocol.\nWithout a command it starts a node.")
        .after_help(EXAMPLES)
        .args_conflicts_with_subcommands(true)
        .args(setting_arguments())
        .subcommand(
            Command::new("start")
                .about("Start a node")
                .after_help(START_EXAMPLES)
                .arg(Arg::new("join").long("join").value_name("ADDR:PORT").value_parser(clap::value_parser!(std::net::SocketAddr)).requires("token").help("Join the cluster of the node whose cluster.listen is there"))
                .arg(Arg::new("token").long("token").value_name("TOKEN").value_parser(clap::value_parser!(Token)).requires("join").help("What `helenus token` printed on that node"))
                .args(setting_arguments()),
        )
        .subcommand(
            Command::new("demo")
                .about("Run a cluster on this machine: one process a node, on 127.0.0.1, 127.0.0.2 ...")
                .after_help(DEMO_EXAMPLES)
                .arg(number("nodes", "How many nodes; a replica set has members on up to four of them").value_parser(clap::value_parser!(u8).range(1..)).default_value("4"))
                .arg(number("port", "Where clients connect, on the address of each node").value_parser(clap::value_parser!(u16)).default_value("9042"))
                .arg(Arg::new("add").long("add").action(ArgAction::SetTrue).help("Join one more node to the demo that runs with this --data-dir"))
                .arg(number("mesh-port", "Where nodes connect to each other [default: 7000]").value_parser(clap::value_parser!(u16)))
                .args(setting_arguments()),
        )
        .subcommand(
            Command::new("config")
                .about("Print every setting, explained, with the value it has")
                .after_help("Examples:\n  helenus config > helenus.toml\n  helenus config --config helenus.toml    what that file comes to")
                .args(setting_arguments()),
        )
        .subcommand(
            Command::new("status")
                .about("Show how the running node is doing")
                .after_help("Examples:\n  helenus status --data-dir /var/lib/helenus          the node that runs on this folder\n  helenus status --host db.example:9042 --user ann    one that is reached over the network\n  helenus status --json                               with plain numbers of bytes and seconds")
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As a JSON object"))
                .args(transfer::node_arguments())
                .args(setting_arguments()),
        )
        .subcommand(
            Command::new("nodes")
                .about("Show the nodes of the cluster, what runs and what happened lately")
                .after_help("Examples:\n  helenus nodes --data-dir data/node1")
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As a JSON object"))
                .args(setting_arguments()),
        )
        .subcommands(node_commands())
        .subcommand(skip_command())
        .subcommand(
            Command::new("set")
                .about("Show the members of a replica set: who leads, how far each is")
                .after_help("Examples:\n  helenus set --data-dir data/node1       all sets\n  helenus set 5 --data-dir data/node1     one\n\nEvery node is asked for its members; who did not answer is told below them.")
                .arg(Arg::new("id").value_name("ID").value_parser(clap::value_parser!(u32)).help("The number of the set; all without one"))
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As a JSON object"))
                .args(setting_arguments()),
        )
        .subcommand(
            Command::new("stop")
                .about("Have the running node finish what is under way, make everything durable and end; waits until it has")
                .after_help("Examples:\n  helenus stop --data-dir /var/lib/helenus\n\nIt does what SIGTERM does. `helenus drain` before it, where the node is one of a cluster, and nobody notices.")
                .args(setting_arguments()),
        )
        .subcommand(Command::new("version").about("Print version, commit and build"))
        .subcommands(handbook::commands())
        .subcommand(
            Command::new("flush")
                .about("Have the running node write what is in memory to sorted files")
                .args(setting_arguments()),
        )
        .subcommand(
            Command::new("compact")
                .about("Have the running node merge its sorted files")
                .args(setting_arguments()),
        )
        .subcommands(upkeep::commands().map(|command| command.args(setting_arguments())))
        .subcommands(transfer::commands().map(|command| command.args(setting_arguments())))
        .subcommand(cql_shell::command().args(setting_arguments()))
        .subcommand(partitions_command())
        .subcommand(split_command())
        .subcommand(estimate_command())
}

/// What is asked of nodes.
fn node_commands() -> [Command; 5] {
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("As a JSON object");
    let cancel =
        || Arg::new("cancel").long("cancel").action(ArgAction::SetTrue).help("End what was begun");
    let lines = || {
        let help = "As JSON: a line for each change, the last says how it ended";
        Arg::new("json").long("json").action(ArgAction::SetTrue).help(help)
    };
    let no_wait = || {
        let help = "Only begin it; `helenus nodes` and system_helenus.jobs show how far it is";
        Arg::new("no-wait").long("no-wait").action(ArgAction::SetTrue).help(help)
    };
    [
        Command::new("token")
            .about("Print a token with which one node may join the cluster of the running node, within the next hour")
            .after_help("Examples:\n  helenus token --data-dir /var/lib/helenus\n  helenus start --join 10.0.0.1:7000 --token TOKEN --listen 10.0.0.2:9042      on the other machine")
            .arg(json())
            .args(setting_arguments()),
        Command::new("drain")
            .about("Have the running node lead nothing any more, so that it can be stopped and nobody notices")
            .after_help("Examples:\n  helenus drain --data-dir /var/lib/helenus\n  helenus drain --cancel                       it leads again\n\nIt is told how far it is until it is done. Ctrl-C leaves it running; the same command watches it again.\nA node that is started again goes on with what it was asked for: cancel when it is back.")
            .arg(cancel())
            .arg(no_wait().conflicts_with("cancel"))
            .arg(lines())
            .args(setting_arguments()),
        Command::new("decommission")
            .about("Empty the running node: others get what it holds; then it leaves the cluster and stops")
            .after_help("Examples:\n  helenus decommission --data-dir /var/lib/helenus\n  helenus decommission --no-wait\n  helenus nodes                                how far it is\n  helenus decommission --cancel                it stays\n\nIt is told how far it is until the node has left. Ctrl-C leaves it running; the same command watches it again.")
            .arg(cancel())
            .arg(no_wait().conflicts_with("cancel"))
            .arg(lines())
            .args(setting_arguments()),
        Command::new("remove")
            .about("Remove a node that will not come back: others get what it held")
            .after_help("Examples:\n  helenus nodes\n  helenus remove 3\n\nThe node is out at once, and that cannot be cancelled: it comes back only with an empty folder and a new token.\nThen it is told how far the others are with what it held. Ctrl-C leaves that running; the same command watches it again.")
            .arg(Arg::new("id").value_name("ID").required(true).value_parser(clap::value_parser!(u64)).help("Its number, as `helenus nodes` shows it"))
            .arg(no_wait())
            .arg(lines())
            .args(setting_arguments()),
        Command::new("recover")
            .about("When so many nodes are lost for good that sets have no quorum: show what is left of them, and have them go on with that")
            .after_help("Examples:\n  helenus recover                              what is left, and what may be lost; nothing is changed\n  helenus recover --unsafe --lost 3,4          nodes 3 and 4 never come back: go on without them\n\nIt is asked of one of the nodes that are left; all of them must run. The lost nodes are never let in again.")
            .arg(Arg::new("unsafe").long("unsafe").action(ArgAction::SetTrue).requires("lost").help("Do it, though writes that only the lost nodes had are lost"))
            .arg(Arg::new("lost").long("lost").value_name("ID,...").value_delimiter(',').value_parser(clap::value_parser!(u64)).help("The numbers of all nodes that are lost, as `helenus nodes` shows them"))
            .arg(json())
            .args(setting_arguments()),
    ]
}

fn skip_command() -> Command {
    let number = |name: &'static str| Arg::new(name).required(true);
    Command::new("skip")
        .about("When a set is frozen because its members differ and no majority tells who is right: have it go on with the rows of one node")
        .after_help("Examples:\n  helenus set 7                                where it is frozen, and at which entry\n  helenus skip 7 2048 --keep 2                 what would become of it; nothing is changed\n  helenus skip 7 2048 --keep 2 --unsafe        the rows of node 2 count, the other members are replaced\n\nFirst look at the rows on each node (`helenus check`, the node's log), and keep a snapshot of what is not kept.\nNo member's log is thrown away: what was acknowledged since is applied on node 2 as well. Ask again for nodes that did not answer.")
        .arg(number("id").value_name("SET").value_parser(clap::value_parser!(u32)).help("Its number, as `helenus set` shows it"))
        .arg(number("index").value_name("INDEX").value_parser(clap::value_parser!(u64)).help("The entry at which it froze, as `helenus set` shows it"))
        .arg(number("keep").long("keep").value_name("ID").value_parser(clap::value_parser!(u64)).help("The node whose rows count"))
        .arg(Arg::new("unsafe").long("unsafe").action(ArgAction::SetTrue).help("Do it, though what that node has wrong stays wrong"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As a JSON object"))
        .args(setting_arguments())
}

fn partitions_command() -> Command {
    Command::new("partitions")
        .about("Show the ring of the running node, cut into physical partitions")
        .after_help("Examples:\n  helenus partitions\n  helenus partitions shop.orders --watch")
        .arg(
            Arg::new("space").value_name("KEYSPACE[.TABLE]").help("Only of this keyspace or table"),
        )
        .arg(Arg::new("watch").long("watch").action(ArgAction::SetTrue).help("Again every second"))
        .args(setting_arguments())
}

fn estimate_command() -> Command {
    Command::new("estimate")
        .about("Reckon the request units, physical partitions, storage and money a workload needs")
        .after_help(ESTIMATE_EXAMPLES)
        .arg(
            Arg::new("file")
                .long("file")
                .value_name("FILE")
                .required_unless_present("from-node")
                .conflicts_with("from-node")
                .help("The workload, as TOML"),
        )
        .arg(
            Arg::new("from-node")
                .long("from-node")
                .action(ArgAction::SetTrue)
                .help("What the running node recorded of its prepared statements"),
        )
        .args(setting_arguments())
}

fn split_command() -> Command {
    Command::new("split")
        .about("Have the running node split a physical partition, now")
        .after_help("Examples:\n  helenus split shop                        the fullest, where it halves best\n  helenus split shop.orders --key 42        before the key 42\n  helenus split shop --token 0              before the token 0")
        .arg(Arg::new("space").value_name("KEYSPACE[.TABLE]").required(true).help("Of this keyspace or table"))
        .arg(Arg::new("key").long("key").value_name("VALUE").action(ArgAction::Append).conflicts_with("token").allow_hyphen_values(true).help("Before this partition key; once for each of its columns"))
        .arg(Arg::new("token").long("token").value_name("TOKEN").value_parser(clap::value_parser!(i64)).allow_hyphen_values(true).help("Before this token"))
        .args(setting_arguments())
}

fn setting_arguments() -> [Arg; 5] {
    let value = |name: &'static str, placeholder: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(placeholder).help(help)
    };
    [
        value("config", "FILE", "Read settings from this file"),
        value("data-dir", "DIR", "The folder for data [default: ./data]"),
        value("listen", "ADDR:PORT", "Where clients connect [default: 127.0.0.1:9042]"),
        value("profile", "PROFILE", "Whose limits and habits: default or cosmos"),
        value("set", "KEY=VALUE", "Any setting: section.key=value; may be repeated")
            .action(ArgAction::Append),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
