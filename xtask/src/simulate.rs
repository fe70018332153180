//! The simulator of partitions: a year in seconds.

use crate::Outcome;
use crate::process::{cargo, run_visibly};

/// `cargo xtask simulate [FILE.svg]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let example =
        ["run", "-q", "--release", "--locked", "-p", "partition", "--example", "simulate"];
    let mut command = cargo(&example);
    command.arg("--").args(arguments);
    run_visibly(&mut command)
}
