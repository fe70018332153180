//! What a cluster costs those who use it while nodes die, come and go: one table of what is wanted and what was seen.

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::place;
use crate::process::{cargo, run_visibly};

/// `cargo xtask cluster-figures [PART]... [ARGUMENT]...`; the arguments are those of the tool, `testkit/src/bin/cluster_figures`. With
/// `HELENUS_E2E_BINARY` a binary that is there already.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let mut build = cargo(&["build", "--locked", "--profile", "simulate", "-p", "testkit"]);
    let given = std::env::var_os("HELENUS_E2E_BINARY").map(PathBuf::from);
    // Both at once: built one after the other they would want different features of what they share.
    if given.is_none() {
        build.args(["-p", "server"]);
    }
    run_visibly(&mut build)?;
    let built = place::target().join("simulate");
    let binary = given.unwrap_or_else(|| built.join("helenus"));
    run_visibly(Command::new(built.join("cluster-figures")).arg(binary).args(arguments))
}
