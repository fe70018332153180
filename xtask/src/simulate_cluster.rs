//! Whole clusters in one thread, from seeds.

use crate::Outcome;
use crate::process::{cargo, run_visibly};

/// `cargo xtask simulate-cluster [ARGUMENT]...`; the arguments are those of the tool, `crates/simulator/src/main.rs`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let tool = ["run", "-q", "--profile", "simulate", "--locked", "-p", "simulator", "--"];
    let mut command = cargo(&tool);
    command.args(arguments);
    run_visibly(&mut command)
}
