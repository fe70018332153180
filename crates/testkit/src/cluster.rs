//! Nodes in processes of their own that form a cluster: what `helenus demo` runs, and each node of it killed, paused, stopped and
//! started again as a test wants. Everything goes when the cluster does.

#![expect(clippy::disallowed_methods, reason = "tests wait for real processes in real time")]
#![expect(clippy::print_stderr, reason = "a test that fails tells what the nodes said")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::node::free_port_on;
use crate::{Client, ClientError};

const STARTS_WITHIN: Duration = Duration::from_secs(90);
const STOPS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// So long a node that was only just started may take for one answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// Of what the nodes wrote to their logs so much is shown when a test fails.
const LOG_LINES_SHOWN: usize = 60;

/// Nodes that know each other.
pub struct Cluster {
    binary: PathBuf,
    settings: Vec<String>,
    data_dir: PathBuf,
    mesh_port: u16,
    demo: Child,
    nodes: Vec<Member>,
}

struct Member {
    address: String,
    /// The process, as long as it was not ended.
    process: Option<u32>,
    /// Only if it was started again: the first one is a child of the demo, which looks after it.
    child: Option<Child>,
    folder: PathBuf,
    start: Start,
}

/// How a node is started again, beside what all have.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Another binary than that of the cluster.
    pub binary: Option<PathBuf>,
    /// Settings of its own, as `name=value`.
    pub settings: Vec<String>,
    /// What its environment has more.
    pub environment: Vec<(String, String)>,
}

impl Cluster {
    /// Starts so many nodes of that binary with these settings (`name=value`), and waits until they answer.
    pub fn start(binary: &Path, count: u8, settings: &[&str]) -> io::Result<Cluster> {
        let (port, mesh_port) = (free_port_on(count)?, free_port_on(count)?);
        let data_dir =
            std::env::temp_dir().join(format!("helenus-cluster-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&data_dir)?;
        let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
        let mut command = Command::new(binary);
        command.args(["demo", "--nodes", &count.to_string(), "--port", &port.to_string()]);
        command.args(["--mesh-port", &mesh_port.to_string(), "--data-dir"]).arg(&data_dir);
        for setting in &settings {
            command.args(["--set", setting]);
        }
        let demo = command
            .stdin(Stdio::null())
            .stdout(File::create(data_dir.join("out"))?)
            .stderr(File::options().create(true).append(true).open(data_dir.join("log"))?)
            .spawn()?;
        // From here on everything is ended by the drop.
        let binary = binary.to_path_buf();
        let nodes = Vec::new();
        let mut cluster = Cluster { binary, settings, data_dir, mesh_port, demo, nodes };
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(cluster.data_dir.join("out"))?;
            if text.lines().any(|line| line.starts_with("stop with")) {
                cluster.nodes = text.lines().filter_map(Member::told).collect();
                break;
            }
            if let Some(status) = cluster.demo.try_wait()? {
                return Err(io::Error::other(format!("the demo ended while starting: {status}")));
            }
            if begun.elapsed() > STARTS_WITHIN {
                return Err(io::Error::other(format!("the demo does not start: {text}")));
            }
            sleep(LOOK_INTERVAL);
        }
        match cluster.nodes.len() == usize::from(count) {
            true => Ok(cluster),
            false => Err(io::Error::other("the demo did not tell of all nodes")),
        }
    }

    /// How many nodes it has.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Where a node listens for clients. The first node is 1, here and below.
    pub fn address(&self, node: usize) -> &str {
        self.nodes.get(node.wrapping_sub(1)).map_or("", |member| &member.address)
    }

    /// Where the other nodes find a node.
    pub fn mesh_address(&self, node: usize) -> String {
        let host = self.address(node).rsplit_once(':').map_or("", |(host, _)| host);
        format!("{host}:{}", self.mesh_port)
    }

    /// Where a node's data is.
    pub fn folder(&self, node: usize) -> &Path {
        self.nodes.get(node.wrapping_sub(1)).map_or(Path::new(""), |member| &member.folder)
    }

    /// A connection to a node.
    pub fn client(&self, node: usize) -> Result<Client, ClientError> {
        Client::connect(self.address(node))
    }

    /// Whether a node's process runs.
    pub fn runs(&self, node: usize) -> bool {
        self.nodes.get(node.wrapping_sub(1)).is_some_and(|member| member.process.is_some())
    }

    fn member(&mut self, node: usize) -> io::Result<&mut Member> {
        let member = self.nodes.get_mut(node.wrapping_sub(1));
        member.ok_or_else(|| io::Error::other(format!("there is no node {node}")))
    }

    /// Ends a node at once, as a crash would.
    pub fn kill(&mut self, node: usize) -> io::Result<()> {
        self.end(node, "-KILL")
    }

    /// Asks a node to stop and waits until it has.
    pub fn stop(&mut self, node: usize) -> io::Result<()> {
        self.end(node, "-TERM")
    }

    /// Ends all nodes at once, as a loss of power would (only what they gave to the kernel stays).
    pub fn kill_all(&mut self) -> io::Result<()> {
        self.end_all("-KILL")
    }

    /// Asks all nodes to stop at once, and waits until they have.
    pub fn stop_all(&mut self) -> io::Result<()> {
        self.end_all("-TERM")
    }

    fn end_all(&mut self, signal: &str) -> io::Result<()> {
        for member in &self.nodes {
            if let Some(process) = member.process {
                send(signal, process)?;
            }
        }
        (1..=self.count())
            .filter(|node| self.runs(*node))
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|node| self.end(node, signal))
    }

    fn end(&mut self, node: usize, signal: &str) -> io::Result<()> {
        let member = self.member(node)?;
        let Some(process) = member.process else { return Ok(()) };
        send(signal, process)?;
        // One that is paused hears nothing else.
        send("-CONT", process)?;
        eventually(&format!("node {node} ends"), STOPS_WITHIN, || {
            has_ended(process).then_some(())
        })?;
        member.process = None;
        if let Some(mut child) = member.child.take() {
            let status = child.wait()?;
            if signal == "-TERM" && !status.success() {
                return Err(io::Error::other(format!("node {node} stopped with {status}")));
            }
        }
        Ok(())
    }

    /// Runs a command of the binary for a node (`helenus COMMAND --data-dir ...`), and returns what it printed; an error if it failed.
    pub fn command(&self, node: usize, words: &[&str]) -> io::Result<String> {
        run_command(&self.binary, self.folder(node), words)
    }

    /// One more node joins; it answers when this returns, with its number.
    pub fn add(&mut self) -> io::Result<usize> {
        run_add(&mut self.add_command())?;
        self.note_added()
    }

    /// What has one more node join; for who cannot wait for it with the cluster in hand.
    pub(crate) fn add_command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["demo", "--add", "--data-dir"]).arg(&self.data_dir).stdin(Stdio::null());
        command
    }

    /// A node joined; its number.
    pub(crate) fn note_added(&mut self) -> io::Result<usize> {
        let text = std::fs::read_to_string(self.data_dir.join("out"))?;
        let told: Vec<Member> = text.lines().filter_map(Member::told).collect();
        self.nodes.extend(told.into_iter().skip(self.nodes.len()));
        Ok(self.nodes.len())
    }

    /// Waits until a node ended by itself.
    pub fn wait_for_end(&mut self, node: usize) -> io::Result<()> {
        let member = self.member(node)?;
        let Some(process) = member.process else { return Ok(()) };
        eventually(&format!("node {node} ends"), STOPS_WITHIN, || {
            has_ended(process).then_some(())
        })?;
        member.process = None;
        if let Some(mut child) = member.child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// Has a node do nothing at all until it is resumed.
    pub fn pause(&mut self, node: usize) -> io::Result<()> {
        let member = self.member(node)?;
        let process = member.process.ok_or_else(|| io::Error::other("it does not run"))?;
        send("-STOP", process)?;
        let is_paused = || matches!(state(process), Some('T' | 't')).then_some(());
        eventually(&format!("node {node} pauses"), STOPS_WITHIN, is_paused)
    }

    /// Has a node go on that was paused.
    pub fn resume(&mut self, node: usize) -> io::Result<()> {
        match self.member(node)?.process {
            Some(process) => send("-CONT", process),
            None => Ok(()),
        }
    }

    /// How a node is started next.
    pub fn start_of(&mut self, node: usize) -> io::Result<Start> {
        Ok(self.member(node)?.start.clone())
    }

    /// Whether a node does not run, also if it ended by itself.
    pub fn has_ended(&mut self, node: usize) -> io::Result<bool> {
        let member = self.member(node)?;
        if member.process.is_some_and(has_ended) {
            member.process = None;
            if let Some(mut child) = member.child.take() {
                child.wait()?;
            }
        }
        Ok(member.process.is_none())
    }

    /// From its next start on a node is started so.
    pub fn set_start(&mut self, node: usize, start: Start) -> io::Result<()> {
        self.member(node)?.start = start;
        Ok(())
    }

    /// From now on commands, and nodes that join or start again without a binary of their own, are of another one.
    pub fn use_binary(&mut self, binary: &Path) {
        self.binary = binary.to_path_buf();
    }

    /// The process of a node, while it runs.
    pub fn process(&self, node: usize) -> Option<u32> {
        self.nodes.get(node.wrapping_sub(1)).and_then(|member| member.process)
    }

    /// Where everything of the cluster is.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Starts a node again on its folder, and waits until it answers.
    pub fn restart(&mut self, node: usize) -> io::Result<()> {
        self.begin_restart(node)?;
        self.wait_for(node)
    }

    /// Starts all nodes that do not run, and waits until they answer.
    pub fn restart_all(&mut self) -> io::Result<()> {
        let ended: Vec<usize> = (1..=self.count()).filter(|node| !self.runs(*node)).collect();
        ended.iter().try_for_each(|node| self.begin_restart(*node))?;
        ended.iter().try_for_each(|node| self.wait_for(*node))
    }

    /// Starts a node again without waiting until it answers.
    pub fn begin_restart(&mut self, node: usize) -> io::Result<()> {
        let log = File::options().append(true).open(self.data_dir.join("log"))?;
        let start = self.member(node)?.start.clone();
        let mut command = Command::new(start.binary.as_ref().unwrap_or(&self.binary));
        command.arg("start").arg("--data-dir").arg(self.folder(node));
        command.args(["--set", "metrics.listen="]).envs(start.environment);
        for setting in self.settings.iter().chain(&start.settings) {
            command.args(["--set", setting]);
        }
        let member = self.member(node)?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        member.process = Some(child.id());
        member.child = Some(child);
        Ok(())
    }

    /// Waits until a node answers its clients.
    pub fn wait_for(&mut self, node: usize) -> io::Result<()> {
        let member = self.member(node)?;
        let begun = Instant::now();
        while !answers(&member.address) {
            if let Some(Ok(Some(status))) = member.child.as_mut().map(Child::try_wait) {
                member.process = None;
                return Err(io::Error::other(format!(
                    "node {node} ended while starting: {status}"
                )));
            }
            if begun.elapsed() > STARTS_WITHIN {
                return Err(io::Error::other(format!("node {node} does not answer")));
            }
            sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// What the nodes wrote to their logs.
    pub fn log(&self) -> String {
        std::fs::read(self.data_dir.join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The demo first, so that it starts nothing; then whatever has a folder of this cluster.
        let _ = self.demo.kill();
        let _ = self.demo.wait();
        for process in processes_of(&self.data_dir) {
            let _ = send("-KILL", process);
        }
        for child in self.nodes.iter_mut().filter_map(|member| member.child.as_mut()) {
            let _ = child.wait();
        }
        let none_left = || processes_of(&self.data_dir).is_empty().then_some(());
        let _ = eventually("all nodes end", STOPS_WITHIN, none_left);
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let first = lines.len().saturating_sub(LOG_LINES_SHOWN);
            eprintln!("the last words of the nodes:");
            lines.iter().skip(first).for_each(|line| eprintln!("    {line}"));
        }
        let _ = std::fs::remove_dir_all(&self.data_dir);
    }
}

impl Member {
    /// From a line of the demo: `node 1: pid 123, 127.0.0.1:9042, folder`.
    fn told(line: &str) -> Option<Member> {
        let (_, rest) = line.strip_prefix("node ")?.split_once(": pid ")?;
        let (process, rest) = rest.split_once(", ")?;
        let (address, folder) = rest.split_once(", ")?;
        Some(Member {
            address: address.to_owned(),
            process: Some(process.parse().ok()?),
            child: None,
            folder: PathBuf::from(folder),
            start: Start::default(),
        })
    }
}

/// Waits until a node has joined, or says why not.
pub(crate) fn run_add(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Runs a command of the binary for the node of a folder.
pub(crate) fn run_command(binary: &Path, folder: &Path, words: &[&str]) -> io::Result<String> {
    let mut command = Command::new(binary);
    command.args(words).arg("--data-dir").arg(folder).stdin(Stdio::null());
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(io::Error::other(text(&output.stderr))),
    }
}

/// Looks again and again until there is something; an error if there is nothing for so long.
pub fn eventually<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if begun.elapsed() > within {
            return Err(io::Error::other(format!("not within {within:?}: {what}")));
        }
        sleep(LOOK_INTERVAL);
    }
}

fn send(signal: &str, process: u32) -> io::Result<()> {
    // It may have ended meanwhile.
    let mut command = Command::new("kill");
    command.arg(signal).arg(process.to_string()).stderr(Stdio::null()).status()?;
    Ok(())
}

/// The letter of a process's state, if there is such a process.
fn state(process: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// Whether a process ended, though its parent may not have asked how.
fn has_ended(process: u32) -> bool {
    // Its first thread may be over while others still hold its files.
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let has_others = threads.is_ok_and(|threads| threads.count() > 1);
    matches!(state(process), None | Some('Z' | 'X')) && !has_others
}

/// The processes that run on something in a folder.
pub(crate) fn processes_of(folder: &Path) -> Vec<u32> {
    let is_inside = |process: &u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| {
            std::str::from_utf8(word).is_ok_and(|word| Path::new(word).starts_with(folder))
        })
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(is_inside).collect()
}

/// Whether a node answers its clients: it listens before it does.
fn answers(address: &str) -> bool {
    // OPTIONS of version 4.
    const QUESTION: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    let ask = || -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        stream.write_all(&QUESTION)?;
        stream.read_exact(&mut [0; 9])
    };
    ask().is_ok()
}
