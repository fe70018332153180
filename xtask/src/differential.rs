//! The differential test: generated statements to our server and to a real Cassandra.

use crate::Outcome;
use crate::e2e::{Server, build_server};
use crate::process::{cargo, run_visibly};

/// `cargo xtask differential [ARGUMENT]...`: without `--ours` a fresh node is started.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["run", "-q", "-p", "testkit", "--bin", "differential", "--"]);
    command.args(arguments);
    if arguments.iter().any(|argument| argument == "--ours") {
        return run_visibly(&mut command);
    }
    let binary = build_server()?;
    let server = Server::start(&binary, "differential", &[])?;
    command.args(["--ours", &format!("127.0.0.1:{}", server.port())]);
    let outcome = run_visibly(&mut command);
    println!("the node's log: {}", server.log().display());
    server.stop()?;
    outcome
}
