//! The chores of the repository, as `cargo xtask COMMAND`.
//!
//! What it must not know: anything about the inside of the server. It runs cargo, the drivers and the built binary, as a
//! user would, and reads only exit codes and printed lines.
//!
//! Reading order: [`report`] (what a run prints and counts), [`process`] (running programs), [`suite`] (format, lints,
//! Rust tests, and the whole test command), [`e2e`] (the drivers), [`bench`], [`instructions`], [`microbench`], [`overhead`]
//! and [`pressure`],
//! then the small chores [`conformance`], [`differential`], [`crash`], [`simulate`], [`simulate_cluster`], [`chaos`], [`splits`], [`cluster_figures`], [`upgrade`], [`package`] and [`fuzz`], and [`proof`], which runs several of them.
//! The tidy test is an ordinary test of this crate, in `tests/tidy.rs`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore runs in the real world: it reads the clock, writes files and talks to a person"
)]

mod bench;
mod bit_flips;
mod chaos;
mod cluster_figures;
mod conformance;
mod crash;
mod differential;
mod e2e;
mod fuzz;
mod instructions;
mod microbench;
mod overhead;
mod package;
mod place;
mod port;
mod power_loss;
mod pressure;
mod process;
mod proof;
mod report;
mod simulate;
mod simulate_cluster;
mod splits;
mod storage_figures;
mod suite;
mod unreached;
mod upgrade;

use std::process::ExitCode;

use report::Report;

const USAGE: &str = "\
The chores of the repository.

    cargo xtask test [--only PART]... [--list]   everything: format, lints, Rust tests, then every driver
    cargo xtask check                            format, lints and tidy; never writes
    cargo xtask fix                              format, and apply what the lints suggest
    cargo xtask e2e [DRIVER]... [--address HOST:PORT]
                                                 the drivers only; with --address against a server that runs already
    cargo xtask conformance GIT_DIR [--nodes N] [ARGUMENT]...
                                                 the public CQL suite against a fresh node, or a cluster of several, whose nodes it asks in turn
                                                 (GIT_DIR: a copy of scylladb/scylladb)
    cargo xtask differential [--seed N] [--statements N] [--ours HOST:PORT] [--oracle HOST:PORT]
                                                 generated statements against a fresh node and a real Cassandra
    cargo xtask crash [--cycles N] [--seed N] [--set KEY=VALUE]...
                                                 a node under load, killed at random moments; everything promised is checked
    cargo xtask power-loss [--images N] [--seed N] [--set KEY=VALUE]...
                                                 the same node on disks that lack what was not synced, or have only parts of it
    cargo xtask bench [--quick | --full] [--workload NAME]... [--phase NAME]... [--list] [--rounds N] [--seconds S]
                      [--warm] [--resume] [--publish] [--without-cassandra]
                                                 Helenus, Cassandra and a null server in turns; the report is in target/bench
    cargo xtask bench --cluster [--nodes 4,8,16] [--quick | --full] [--workload NAME]... [--list] [--rounds N] [--seconds S]
                      [--warm] [--resume] [--publish] [--without-cassandra]
                                                 a cluster of ours, one of Cassandra and one of null servers in turns; with several
                                                 sizes it fails where more nodes cost more than 1.1 times the CPU of the fewest
    cargo xtask bench --scale rows|tables|partitions|all [--full]
                                                 what a request costs when there is more of everything (30 M rows with --full)
    cargo xtask instructions [--save]            what one read and one write cost, in instructions, against the stored figures
    cargo xtask microbench [--save]              the steps of a request, in nanoseconds, against the kept figures
    cargo xtask overhead [ROUNDS]                what charging costs: one binary with it and without it, in turns
    cargo xtask overload [--seconds N] [--connections N]
                                                 ten times the peak, thousands of connections, rude clients; it fails when less
                                                 than nine tenths of the peak are served or memory runs away
    cargo xtask budgets [--seconds N] [--nodes N] [--part F] [--set KEY=VALUE]...
                                                 many clients on several budgets, of one node or through all of a cluster; it fails when spending is off by 2 % in any ten seconds,
                                                 when waits are not true, or when clients within their share are refused
    cargo xtask bit-flips                        a small database with one bit flipped, for each of its bytes
    cargo xtask storage-figures [PART]... [--scale N]
                                                 the log against plain appends, write amplification, stalls, a queue of ten million
                                                 rows, changes beside large values, starts: the parts are named in their example
    cargo xtask simulate [FILE.svg]              a year of growth to 100 TB, decided as a node decides, drawn as a picture
    cargo xtask simulate-cluster [--seeds N] [--seed S] [--story] [--break RULE|all] [--coverage FILE] [--unreached]
                                                 whole clusters under faults, from seeds; or rules broken on purpose, which must be found; which
                                                 trouble met which operation, as a table; which code of replication no seed reached
    cargo xtask chaos [--seed S] [--minutes M] [--nodes N] [--page FILE.html]
                                                 real processes under all faults at once; what clients saw is judged, and drawn in target/chaos/S.html
    cargo xtask proof [model|seeds|chaos|fuzz]... [--quick] [--seeds N] [--runs N] [--minutes M] [--seconds S]
                                                 what is still missing of each on this commit, a line a run in docs/proof-record.tsv; N seeds, N
                                                 runs of chaos of M minutes, S seconds of fuzzing a decoder
    cargo xtask splits [--splits N] [--connections N] [--rows N] [--partitions N] [--tables N] [--set KEY=VALUE]...
                                                 what splits cost those who read and write meanwhile, and whether every row is there
    cargo xtask cluster-figures [start|kills|drain|join|move]... [--kills N] [--drains N] [--megabytes N] [--seconds N]
                                                 four real processes: what clients see of kills, drains, joins and moves, beside what is wanted
    cargo xtask package [--binary FILE]          the Debian package, in target/package; without a file from a release build
    cargo xtask upgrade --from COMMIT            a cluster of the binary of an older commit, upgraded node by node under load
    cargo xtask fuzz [TARGET] [SECONDS]          fuzz one decoder, or each of them; needs cargo-fuzz and a nightly toolchain

The drivers are installed from their registries into target/e2e. A runtime that this machine lacks is reported as
skipped; with CI=true a skip is a failure. HELENUS_E2E_PROFILE=dev tests a build without optimisation,
HELENUS_E2E_BINARY=FILE a binary that is there already; HELENUS_E2E_VERBOSE=1 shows every check.
";

/// What a command ends with: a failure has been told already, in full, where it happened.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let outcome = match arguments.first().map(String::as_str) {
        Some("test") => suite::test(rest),
        Some("check") => suite::check(),
        Some("fix") => suite::fix(),
        Some("e2e") => e2e::command(rest),
        Some("package") => package::command(rest),
        Some("conformance") => conformance::command(rest),
        Some("differential") => differential::command(rest),
        Some("crash") => crash::command(rest),
        Some("power-loss") => power_loss::command(rest),
        Some("bit-flips") => bit_flips::command(),
        Some("instructions") => instructions::command(rest),
        Some("microbench") => microbench::command(rest),
        Some("bench") => bench::command(rest),
        Some("overhead") => overhead::command(rest),
        Some("overload") => pressure::overload(rest),
        Some("budgets") => pressure::budgets(rest),
        Some("fuzz") => fuzz::command(rest),
        Some("chaos") => chaos::command(rest),
        Some("proof") => proof::command(rest),
        Some("simulate") => simulate::command(rest),
        Some("simulate-cluster") => simulate_cluster::command(rest),
        Some("splits") => splits::command(rest),
        Some("cluster-figures") => cluster_figures::command(rest),
        Some("upgrade") => upgrade::command(rest),
        Some("storage-figures") => storage_figures::command(rest),
        None | Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            Ok(())
        }
        Some(unknown) => Err(format!("no command {unknown}\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("{message}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Prints the closing lines of a run and turns its counts into its outcome.
fn close(report: &Report) -> Outcome {
    report.print_closing();
    if report.is_good() { Ok(()) } else { Err(String::new()) }
}
