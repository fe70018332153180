//! The power-loss test: a node under load, and the disk as it could be after a loss of power.

use crate::Outcome;
use crate::e2e::build_server;
use crate::process::{cargo, run_visibly};

/// `cargo xtask power-loss [--images N] [--seed N]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let binary = build_server()?;
    let mut command =
        cargo(&["run", "-q", "--locked", "-p", "testkit", "--bin", "power_loss", "--"]);
    command.arg("--binary").arg(binary);
    // Small memtables and log files, so that flushes and compactions run all the time.
    for setting in ["memory.memtables=1MiB", "storage.log_segment=1MiB", "storage.log_max=2MiB"] {
        command.args(["--set", setting]);
    }
    command.args(arguments);
    run_visibly(&mut command)
}
