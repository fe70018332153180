//! Whole clusters in one thread, from seeds.

use crate::Outcome;
use crate::process::{cargo, run_visibly};
use crate::unreached;

/// Whether it is told which code no seed reached.
const UNREACHED: &str = "--unreached";

/// `cargo xtask simulate-cluster [--unreached] [ARGUMENT]...`; the arguments are those of the tool, `crates/simulator/src/main.rs`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| argument == UNREACHED) {
        let others: Vec<String> =
            arguments.iter().filter(|argument| *argument != UNREACHED).cloned().collect();
        return unreached::command(&others);
    }
    let tool = ["run", "-q", "--profile", "simulate", "--locked", "-p", "simulator", "--"];
    let mut command = cargo(&tool);
    command.args(arguments);
    run_visibly(&mut command)
}
