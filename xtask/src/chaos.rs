//! Everything at once, from one seed: real processes, many clients, all faults.

use std::path::PathBuf;

use crate::process::{cargo, run_visibly};
use crate::{Outcome, place};

/// `cargo xtask chaos [ARGUMENT]...`; the arguments are those of the tool, `testkit/src/bin/chaos.rs`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["run", "-q", "--locked", "-p", "testkit", "--bin", "chaos", "--"]);
    command.arg("--binary").arg(build()?).args(arguments);
    run_visibly(&mut command)
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
