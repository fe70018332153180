//! A cluster of four nodes, as `helenus demo` starts it, and what Python's drivers see of it while one of them is killed.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::driver::python_program;
use super::kit::Kit;
use super::scenario;
use crate::place;
use crate::report::{Report, Step};

/// What the checks need: each driver's name, and the newest protocol version that it speaks.
const DRIVERS: [(&str, Kit, &str); 2] =
    [("python", Kit::Python, "5"), ("python-scylla", Kit::PythonScylla, "5")];
pub(super) const KITS: [Kit; 2] = [Kit::Python, Kit::PythonScylla];

pub(crate) const NODES: u8 = 4;
/// The one that is killed. Drivers connect to the first.
const KILLED: u8 = 3;
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Runs the program of each driver against one cluster.
pub(super) fn run(
    report: &mut Report,
    binary: &Path,
    is_ready: &mut dyn FnMut(&mut Report, Kit, &str) -> bool,
) {
    let ready: Vec<_> =
        DRIVERS.into_iter().filter(|(_, kit, _)| is_ready(report, *kit, "cluster")).collect();
    if ready.is_empty() {
        return;
    }
    let step = Step::start("e2e cluster");
    let mut demo = match Demo::start(binary, "cluster", NODES) {
        Ok(demo) => demo,
        Err(error) => {
            println!("{error}");
            report.fail("cluster: the nodes did not start");
            return step.end(scenario::FAILED);
        }
    };
    let mut outcomes = Vec::new();
    for (name, kit, version) in ready {
        let mut program =
            python_program(kit, &place::scenarios().join("python").join("cluster.py"));
        program.args([name, "127.0.0.1", &demo.port().to_string(), version]);
        let mut ask = |what: &str| match what {
            "KILL" => demo.kill().map(|()| true),
            "RESTART" => demo.start_again().map(|()| true),
            other => Err(format!("nobody knows how to {other}")),
        };
        let name = format!("cluster {name}");
        outcomes.push(scenario::run_program(report, &name, program, "helenus", &mut ask));
    }
    if outcomes.iter().any(|outcome| outcome == scenario::FAILED) {
        println!("--- what the nodes said\n{}", demo.log_text());
    }
    if let Err(error) = demo.stop() {
        println!("{error}");
        report.fail("cluster: the nodes did not stop");
    }
    step.end(&outcomes.join("; "));
}

/// `helenus demo`, and the node that was killed and started again beside it.
pub(crate) struct Demo {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Child,
    again: Option<Child>,
}

impl Demo {
    /// Starts nodes with empty folders.
    pub(crate) fn start(binary: &Path, name: &str, nodes: u8) -> Result<Self, String> {
        let folder = place::e2e().join("nodes").join(name);
        let told = |error: std::io::Error| format!("cannot start {}: {error}", folder.display());
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(told)?;
        }
        std::fs::create_dir_all(&folder).map_err(told)?;
        let free = || Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
        let (port, mesh_port) = (free().map_err(told)?, free().map_err(told)?);
        let child = command(binary, &folder)?
            .args(["demo", "--nodes", &nodes.to_string(), "--port", &port.to_string()])
            .args(["--mesh-port", &mesh_port.to_string(), "--data-dir"])
            .arg(folder.join("data"))
            .spawn()
            .map_err(told)?;
        let mut demo = Self { binary: binary.to_path_buf(), folder, port, child, again: None };
        let begun = Instant::now();
        while !demo.log_text().contains("connect with: ") {
            let ended = demo.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || begun.elapsed() > START_MAX {
                return Err(format!("the nodes are not there\n{}", demo.log_text()));
            }
            std::thread::sleep(POLL);
        }
        Ok(demo)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What the nodes printed.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("nodes.log")
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn kill(&mut self) -> Result<(), String> {
        if let Some(mut again) = self.again.take() {
            let killed = again.kill().and_then(|()| again.wait());
            return killed.map(drop).map_err(|error| error.to_string());
        }
        let log = self.log_text();
        let line = log.lines().find_map(|it| it.strip_prefix(&format!("node {KILLED}: pid ")));
        let pid = line.and_then(|it| it.split(',').next()).ok_or("its pid was not told")?;
        signal("-KILL", pid)
    }

    /// As the guide says it, with nothing but its folder.
    fn start_again(&mut self) -> Result<(), String> {
        let started = command(&self.binary, &self.folder)?
            .args(["start", "--set", "metrics.listen=", "--data-dir"])
            .arg(self.folder.join("data").join(format!("node{KILLED}")))
            .spawn();
        self.again = Some(started.map_err(|error| error.to_string())?);
        let begun = Instant::now();
        while TcpStream::connect((format!("127.0.0.{KILLED}"), self.port)).is_err() {
            if begun.elapsed() > START_MAX {
                return Err(format!("node {KILLED} is not there again\n{}", self.log_text()));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Stops all nodes; that they stop when asked is part of the test.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        if let Some(again) = &mut self.again {
            signal("-TERM", &again.id().to_string())?;
            wait_for(again)?;
        }
        signal("-INT", &self.child.id().to_string())?;
        wait_for(&mut self.child)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // One that was stopped is gone already. The nodes end with the demo if that ends in order.
        let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
        if !ended && signal("-INT", &self.child.id().to_string()).is_ok() {
            let _ = wait_for(&mut self.child);
        }
        if let Some(again) = &mut self.again {
            let _ = again.kill();
            let _ = again.wait();
        }
    }
}

fn wait_for(child: &mut Child) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < STOP_MAX {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => std::thread::sleep(POLL),
            Err(error) => return Err(format!("cannot wait for a node: {error}")),
        }
    }
    Err(format!("a node does not stop within {STOP_MAX:?}"))
}

fn signal(which: &str, pid: &str) -> Result<(), String> {
    match Command::new("kill").args([which, pid]).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("process {pid} is gone already")),
    }
}

/// The binary, with its output in one file, and without our own switches, which are no settings of the server.
fn command(binary: &Path, folder: &Path) -> Result<Command, String> {
    let told = |error: std::io::Error| format!("cannot start {}: {error}", binary.display());
    let log = folder.join("nodes.log");
    let log = File::options().create(true).append(true).open(log).map_err(told)?;
    let mut command = Command::new(binary);
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(told)?).stderr(log);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HELENUS_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}
