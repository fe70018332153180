//! Everything at once, from one seed: real processes, many clients, all faults.

use std::path::{Path, PathBuf};

use crate::process::{cargo, run_visibly};
use crate::{Outcome, place};

/// `cargo xtask chaos [ARGUMENT]...`; the arguments are those of the tool, `testkit/src/bin/chaos.rs`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    run(&build()?, arguments)
}

/// Chaos with a binary that is there already.
pub(crate) fn run(binary: &Path, arguments: &[String]) -> Outcome {
    let mut command = cargo(&["run", "-q", "--locked", "-p", "testkit", "--bin", "chaos", "--"]);
    command.arg("--binary").arg(binary).args(arguments);
    run_visibly(&mut command)
}

/// Rests between faults are so many times longer while a cluster is soaked.
const SOAK_CALM: u64 = 20;

/// What has chaos run for long with few faults, and look at what must not grow.
pub(crate) fn soak_words(seed: u64, minutes: u64) -> Vec<String> {
    let words = [("--seed", seed), ("--minutes", minutes), ("--calm", SOAK_CALM)];
    words.into_iter().flat_map(|(word, number)| [word.to_owned(), number.to_string()]).collect()
}

/// The server with all assertions, quick, and built without the whole-program step; or what `HELENUS_E2E_BINARY` names.
fn build() -> Result<PathBuf, String> {
    if let Some(binary) = std::env::var_os("HELENUS_E2E_BINARY") {
        return Ok(PathBuf::from(binary));
    }
    let build = ["build", "--locked", "--profile", "simulate", "-p", "server", "--bin", "helenus"];
    run_visibly(&mut cargo(&build))?;
    Ok(place::target().join("simulate").join("helenus"))
}
