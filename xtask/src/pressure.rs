//! Overload and budgets with the real clock: the runs of testkit against a node of an optimised build.

use crate::Outcome;
use crate::e2e::build_server;
use crate::process::{cargo, run_visibly};

/// `cargo xtask overload [--seconds N] [--connections N] [--set KEY=VALUE]...`.
pub(crate) fn overload(arguments: &[String]) -> Outcome {
    run("overload", arguments)
}

/// `cargo xtask budgets [--seconds N] [--nodes N] [--part F] [--set KEY=VALUE]...`.
pub(crate) fn budgets(arguments: &[String]) -> Outcome {
    run("budgets", arguments)
}

fn run(name: &str, arguments: &[String]) -> Outcome {
    let binary = build_server()?;
    let mut command =
        cargo(&["run", "-q", "--release", "--locked", "-p", "testkit", "--bin", name, "--"]);
    command.arg("--binary").arg(binary).args(arguments);
    run_visibly(&mut command)
}
