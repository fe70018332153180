//! The crash test: a node under load, killed at random moments.

use crate::Outcome;
use crate::e2e::build_server;
use crate::process::{cargo, run_visibly};

/// `cargo xtask crash [--cycles N] [--seed N]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let binary = build_server()?;
    let mut command = cargo(&["run", "-q", "--locked", "-p", "testkit", "--bin", "crash", "--"]);
    command.arg("--binary").arg(binary);
    // Small memtables and log files, so that flushes and compactions run all the time.
    for setting in ["memory.memtables=2MiB", "storage.log_segment=2MiB", "storage.log_max=4MiB"] {
        command.args(["--set", setting]);
    }
    command.args(arguments);
    run_visibly(&mut command)
}
