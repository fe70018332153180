//! The public CQL suite, run against a fresh node of ours.

use std::path::PathBuf;
use std::process::Command;

use crate::e2e::{Server, build_server};
use crate::process::run_visibly;
use crate::{Outcome, place};

/// The runner lives beside the repository, not in it: the suite's licence is not ours.
const RUNNER: &str = "../shared/conformance/run";

/// `cargo xtask conformance GIT_DIR [ARGUMENT]...`; the arguments go to the runner.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let git_dir =
        arguments.first().ok_or("which copy of scylladb/scylladb? Give its git directory.")?;
    let runner = match std::env::var_os("HELENUS_CONFORMANCE_RUNNER") {
        Some(path) => PathBuf::from(path),
        None => place::root().join(RUNNER),
    };
    if !runner.exists() {
        return Err(format!(
            "no runner at {}; HELENUS_CONFORMANCE_RUNNER may say where it is",
            runner.display()
        ));
    }
    let binary = build_server()?;
    let server = Server::start(&binary, "conformance", &[])?;
    let mut command = Command::new("python3");
    command
        .arg(runner)
        .arg(git_dir)
        .arg(place::target().join("conformance"))
        .args(["--host", "127.0.0.1", "--port", &server.port().to_string()])
        .args(arguments.get(1..).unwrap_or_default());
    let outcome = run_visibly(&mut command);
    println!("the node's log: {}", server.log().display());
    server.stop()?;
    outcome
}
