//! What a run needs, built or installed into `target/`.

use std::path::PathBuf;
use std::process::Command;

use super::system::TIE;
use crate::e2e::build_server;
use crate::place;
use crate::process::{cargo, is_there, run_quietly, run_visibly};

/// The load tool, from crates.io.
const LATTE: &str = "latte-cli";
const LATTE_VERSION: &str = "0.29.0";
/// A load tool that is there already.
const LATTE_VARIABLE: &str = "HELENUS_BENCH_LATTE";
/// A folder with binaries that are there already.
const BINARIES_VARIABLE: &str = "HELENUS_BENCH_BINARIES";

/// The programs of a run.
pub(crate) struct Tools {
    pub(crate) latte: PathBuf,
    pub(crate) helenus: PathBuf,
    pub(crate) null_server: PathBuf,
    /// Cassandra's jars, or why there are none.
    pub(crate) cassandra: Result<PathBuf, String>,
    /// Whether processes can be pinned to cores here.
    pub(crate) can_pin: bool,
    /// Whether processes can be made to end with us, however we end.
    pub(crate) can_tie: bool,
}

impl Tools {
    pub(crate) fn install() -> Result<Tools, String> {
        let latte = install_latte()?;
        let cassandra = install_cassandra();
        if let Err(reason) = &cassandra {
            println!("    no Cassandra: {reason}");
        }
        let (helenus, null_server) = build_servers()?;
        let can_pin = core_count() >= 2 && is_there("taskset", &["-c", "0", "true"]);
        let [tie, arguments @ ..] = TIE;
        let can_tie = is_there(tie, &[arguments.as_slice(), &["true"]].concat());
        Ok(Tools { latte, helenus, null_server, cassandra, can_pin, can_tie })
    }
}

/// The server and the null server: built, unless there is a folder with both.
fn build_servers() -> Result<(PathBuf, PathBuf), String> {
    if let Some(folder) = std::env::var_os(BINARIES_VARIABLE).map(PathBuf::from) {
        return Ok((folder.join("helenus"), folder.join("null-server")));
    }
    let helenus = build_server()?;
    let build = ["build", "--locked", "--release", "--package", "testkit", "--bin", "null-server"];
    run_visibly(&mut cargo(&build))?;
    Ok((helenus, place::target().join("release/null-server")))
}

/// The cores of this machine that we may use.
pub(crate) fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn install_latte() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os(LATTE_VARIABLE) {
        return Ok(program.into());
    }
    let folder = place::bench().join("tools");
    let program = folder.join("bin/latte");
    if run_quietly(Command::new(&program).arg("--version"))
        .is_ok_and(|version| version.contains(LATTE_VERSION))
    {
        return Ok(program);
    }
    println!("    installing {LATTE} {LATTE_VERSION}, which takes some minutes the first time");
    let install = ["install", LATTE, "--version", LATTE_VERSION, "--locked", "--quiet", "--root"];
    run_visibly(
        cargo(&install).arg(&folder).env("CARGO_TARGET_DIR", place::bench().join("latte-build")),
    )?;
    Ok(program)
}

fn install_cassandra() -> Result<PathBuf, String> {
    for (program, argument, name) in [("java", "-version", "Java"), ("mvn", "--version", "Maven")] {
        if !is_there(program, &[argument]) {
            return Err(format!("this machine has no {name}"));
        }
    }
    let recipe = place::root().join("benches/cassandra/pom.xml");
    let wanted = std::fs::read(&recipe).map_err(|e| format!("{}: {e}", recipe.display()))?;
    let folder = place::bench().join("cassandra/jars");
    let mark = folder.join(".installed");
    if std::fs::read(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    println!("    installing Cassandra");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    // The user's own Maven settings say where artifacts come from.
    run_quietly(
        Command::new("mvn")
            .args(["--quiet", "--batch-mode", "dependency:copy-dependencies"])
            .arg(format!("-DoutputDirectory={}", folder.display()))
            .arg("--file")
            .arg(&recipe),
    )
    .map_err(|error| error.lines().take(5).collect::<Vec<_>>().join("\n"))?;
    std::fs::write(&mark, wanted).map_err(|e| format!("{}: {e}", mark.display()))?;
    Ok(folder)
}
