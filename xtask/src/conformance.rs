//! The public CQL suite, run against a fresh node of ours, or a cluster.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::e2e::{Demo, Server, build_server};
use crate::process::run_visibly;
use crate::{Outcome, place};

/// The runner lives beside the repository, not in it: the suite's licence is not ours.
const RUNNER: &str = "../shared/conformance/run";

/// `cargo xtask conformance GIT_DIR [--nodes N] [ARGUMENT]...`; the arguments go to the runner.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let (git_dir, mut rest) = arguments
        .split_first()
        .ok_or("which copy of scylladb/scylladb? Give its git directory.")?;
    let mut nodes = 1;
    if let [flag, count, others @ ..] = rest
        && flag == "--nodes"
    {
        nodes = count.parse().map_err(|_| format!("{count} is no number of nodes"))?;
        rest = others;
    }
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
    let under_test = UnderTest::start(&binary, nodes)?;
    let mut command = Command::new("python3");
    command
        .arg(runner)
        .arg(git_dir)
        .arg(place::target().join("conformance"))
        .args(["--host", "127.0.0.1", "--port", &under_test.port().to_string()])
        .args(rest);
    let outcome = run_visibly(&mut command);
    println!("what it printed: {}", under_test.log().display());
    under_test.stop()?;
    outcome
}

/// One node, or a cluster, of which the suite's driver asks every node in turn.
enum UnderTest {
    One(Server),
    Several(Demo),
}

impl UnderTest {
    fn start(binary: &Path, nodes: u8) -> Result<UnderTest, String> {
        Ok(match nodes {
            1 => UnderTest::One(Server::start(binary, "conformance", &[])?),
            several => UnderTest::Several(Demo::start(binary, "conformance", several)?),
        })
    }

    fn port(&self) -> u16 {
        match self {
            UnderTest::One(server) => server.port(),
            UnderTest::Several(demo) => demo.port(),
        }
    }

    fn log(&self) -> PathBuf {
        match self {
            UnderTest::One(server) => server.log(),
            UnderTest::Several(demo) => demo.log(),
        }
    }

    fn stop(self) -> Outcome {
        match self {
            UnderTest::One(server) => server.stop(),
            UnderTest::Several(demo) => demo.stop(),
        }
    }
}
