//! What a split costs those who read and write meanwhile.

use crate::Outcome;
use crate::e2e::build_server;
use crate::process::{cargo, run_visibly};

/// `cargo xtask splits [ARGUMENT]...`; the arguments are those of the tool, `testkit/src/bin/splits.rs`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let binary = build_server()?;
    let tool = ["run", "-q", "--release", "--locked", "-p", "testkit", "--bin", "splits", "--"];
    let mut command = cargo(&tool);
    command.arg(binary).args(arguments);
    run_visibly(&mut command)
}
