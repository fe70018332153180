//! A cluster of four nodes, as `helenus demo` starts it, and what drivers of Python and Go see of it while nodes are killed, drained, started
//! again, joined and decommissioned.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::driver::python_program;
use super::kit::Kit;
use super::scenario;
use crate::place;
use crate::port::free_port;
use crate::report::{Report, Step};

/// What the checks need: each driver's name, and the newest protocol version that it speaks.
const DRIVERS: [(&str, Kit, &str); 3] =
    [("python", Kit::Python, "5"), ("python-scylla", Kit::PythonScylla, "5"), ("go", Kit::Go, "5")];
pub(super) const KITS: [Kit; 3] = [Kit::Python, Kit::PythonScylla, Kit::Go];

pub(crate) const NODES: u8 = 4;
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);
/// A node that was only just started may take so long for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// On a busy machine a conditional write or a counter takes longer than it has by default, and a driver that asks again finds it done.
const UNHURRIED: [&str; 3] =
    ["timeouts.write=10s", "timeouts.counter_write=10s", "timeouts.cas=10s"];
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
        let (mut program, called) = match kit {
            Kit::Go => (Command::new(kit.folder().join("scenario")), "cluster"),
            _ => (python_program(kit, &place::scenarios().join("python").join("cluster.py")), name),
        };
        program.args([called, "127.0.0.1", &demo.port().to_string(), version]);
        let mut ask = |what: &str| demo.do_it(what).map(|()| true);
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

/// `helenus demo`, and the nodes that were ended and started again beside it.
pub(crate) struct Demo {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Child,
    again: BTreeMap<String, Child>,
}

/// A node, as the demo told of it: `node 5: pid 27566, 127.0.0.5:9042, data/node5`.
struct Told {
    node: String,
    pid: String,
    address: String,
    folder: PathBuf,
}

impl Told {
    fn parse(line: &str) -> Option<Told> {
        let (node, rest) = line.strip_prefix("node ")?.split_once(": pid ")?;
        let (pid, rest) = rest.split_once(", ")?;
        let (address, folder) = rest.split_once(", ")?;
        let [node, pid, address] = [node, pid, address].map(str::to_owned);
        Some(Told { node, pid, address, folder: PathBuf::from(folder) })
    }
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
        let (port, mesh_port) = (free_port(nodes).map_err(told)?, free_port(nodes).map_err(told)?);
        let child = command(binary, &folder)?
            .args(["demo", "--nodes", &nodes.to_string(), "--port", &port.to_string()])
            .args(["--mesh-port", &mesh_port.to_string(), "--data-dir"])
            .arg(folder.join("data"))
            .args(UNHURRIED.iter().flat_map(|setting| ["--set", *setting]))
            .spawn()
            .map_err(told)?;
        let mut demo =
            Self { binary: binary.to_path_buf(), folder, port, child, again: BTreeMap::new() };
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

    pub(super) fn log_text(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// What a scenario asks for, such as `KILL 3`.
    pub(super) fn do_it(&mut self, what: &str) -> Result<(), String> {
        let words: Vec<&str> = what.split(' ').collect();
        match words.as_slice() {
            ["KILL", node] => self.end(node, "-KILL"),
            ["STOP", node] => self.end(node, "-TERM"),
            ["START", node] => self.start_again(node),
            ["DRAIN", node] => self.run(&["drain"], &self.told(node)?.folder),
            ["UNDRAIN", node] => self.run(&["drain", "--cancel"], &self.told(node)?.folder),
            ["ADD"] => self.run(&["demo", "--add"], &self.folder.join("data")),
            ["DECOMMISSION"] => {
                let last = self.all_told().pop().ok_or("no node was told of")?;
                self.run(&["decommission"], &last.folder)?;
                wait_for_pid(&last.pid)
            }
            _ => Err(format!("nobody knows how to {what}")),
        }
    }

    fn all_told(&self) -> Vec<Told> {
        self.log_text().lines().filter_map(Told::parse).collect()
    }

    fn told(&self, node: &str) -> Result<Told, String> {
        let told = self.all_told().into_iter().find(|it| it.node == node);
        told.ok_or_else(|| format!("node {node} was not told of"))
    }

    /// Runs a command of the binary to its end.
    fn run(&self, words: &[&str], data_dir: &Path) -> Result<(), String> {
        let status = command(&self.binary, &self.folder)?
            .args(words)
            .arg("--data-dir")
            .arg(data_dir)
            .status()
            .map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("helenus {}: {status}\n{}", words.join(" "), self.log_text())),
        }
    }

    fn end(&mut self, node: &str, how: &str) -> Result<(), String> {
        match self.again.remove(node) {
            Some(mut again) => {
                signal(how, &again.id().to_string())?;
                wait_for(&mut again)
            }
            None => {
                let pid = self.told(node)?.pid;
                signal(how, &pid)?;
                wait_for_pid(&pid)
            }
        }
    }

    /// As the guide says it, with nothing but its folder.
    fn start_again(&mut self, node: &str) -> Result<(), String> {
        let told = self.told(node)?;
        let started = command(&self.binary, &self.folder)?
            .args(["start", "--set", "metrics.listen=", "--data-dir"])
            .arg(&told.folder)
            .spawn();
        self.again.insert(node.to_owned(), started.map_err(|error| error.to_string())?);
        let begun = Instant::now();
        // Its commands want a socket in its folder, which may come a moment after the port.
        let is_there = || {
            answers(&told.address) && UnixStream::connect(told.folder.join("admin.sock")).is_ok()
        };
        while !is_there() {
            if begun.elapsed() > START_MAX {
                return Err(format!("node {node} is not there again\n{}", self.log_text()));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Stops all nodes; that they stop when asked is part of the test.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        for again in self.again.values_mut() {
            signal("-TERM", &again.id().to_string())?;
        }
        self.again.values_mut().try_for_each(wait_for)?;
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
        for again in self.again.values_mut() {
            let _ = again.kill();
            let _ = again.wait();
        }
    }
}

/// Whether a node answers its clients: it listens before it does.
fn answers(address: &str) -> bool {
    // OPTIONS of version 4.
    const QUESTION: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(&QUESTION)?;
        stream.read_exact(&mut [0; 9])
    };
    ask().is_ok()
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

/// Of a process that is not ours: it has ended when it is not there, or only its exit code is.
fn wait_for_pid(pid: &str) -> Result<(), String> {
    let begun = Instant::now();
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ").filter(|(_, state)| !state.starts_with('Z')).map(drop)
    };
    while runs().is_some() {
        if begun.elapsed() > STOP_MAX {
            return Err(format!("process {pid} does not end within {STOP_MAX:?}"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
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
