//! The figures of storage, as a table.

use crate::Outcome;
use crate::process::{cargo, run_visibly};

/// `cargo xtask storage-figures [PART]... [--scale N]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let example = ["run", "-q", "--release", "--locked", "-p", "storage", "--example", "figures"];
    let mut command = cargo(&example);
    command.arg("--").args(arguments);
    run_visibly(&mut command)
}
