//! The systems under test, each with a folder of its own: a process, or those of a cluster's nodes ([`super::cluster`] starts them).

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cassandra;
use super::tools::Tools;
use super::workload::Phase;
use crate::place;
use crate::process::run_quietly;

const START_MAX: Duration = Duration::from_secs(180);
const STOP_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The unit of the times in `/proc/PID/stat`; fixed for user space.
const TICKS_PER_SECOND: f64 = 100.0;
/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Helenus,
    Cassandra,
    /// The null server: the limit.
    Limit,
    /// A cluster of ours of so many nodes, beside the one that is `Helenus`.
    More(u8),
}

/// The most nodes of a cluster.
pub(crate) const NODES_MAX: u8 = 16;

impl System {
    /// All that figures may be of.
    pub(crate) fn every() -> impl Iterator<Item = System> {
        let more = (1..=NODES_MAX).map(System::More);
        [System::Helenus, System::Cassandra, System::Limit].into_iter().chain(more)
    }

    pub(crate) fn name(self) -> String {
        match self {
            System::Helenus => "helenus".into(),
            System::Cassandra => "cassandra".into(),
            System::Limit => "limit".into(),
            System::More(nodes) => format!("helenus-{nodes}"),
        }
    }

    pub(crate) fn title(self) -> String {
        match self {
            System::Helenus => "Helenus".into(),
            System::Cassandra => "Cassandra 5.0.5".into(),
            System::Limit => "the limit (null server)".into(),
            System::More(nodes) => format!("Helenus, {nodes} nodes"),
        }
    }

    pub(crate) fn has_storage(self) -> bool {
        self != System::Limit
    }
}

/// A running one.
pub(crate) struct Server {
    pub(crate) system: System,
    pub(crate) port: u16,
    /// From its start to its first answer.
    pub(crate) started_ms: f64,
    /// Resident memory after its start.
    pub(crate) fresh_bytes: f64,
    pub(crate) folder: PathBuf,
    begin: Instant,
    /// Where what was started last writes what it says.
    log: PathBuf,
    /// What we started.
    children: Vec<Child>,
    /// What serves requests: our children, or what a child of ours started.
    processes: Vec<u32>,
}

impl Server {
    /// Starts a system for a phase, on its data of the phases before. The limit asks `node` what to answer; `settings`
    /// are for Helenus.
    pub(crate) fn start(
        tools: &Tools,
        system: System,
        phase: Phase,
        node: Option<u16>,
        settings: &[String],
    ) -> Result<Server, String> {
        let folder = place::bench().join("data").join(system.name());
        let mut server = Server::new(system, folder, free_port()?);
        let (folder, port) = (server.folder.clone(), server.port);
        let program = match system {
            System::Helenus | System::More(_) => {
                let mut program = helenus(&tools.helenus, &folder, port, phase);
                program.args(settings.iter().flat_map(|setting| ["--set", setting]));
                program
            }
            System::Cassandra => {
                let address = Ipv4Addr::LOCALHOST;
                cassandra::command(tools, &folder, (address, port, free_port()?), phase)?
            }
            System::Limit => null_server(tools, Ipv4Addr::LOCALHOST, port, node)?,
        };
        server.spawn(tools, phase, &folder, program)?;
        server.await_answer(|server| answers(Ipv4Addr::LOCALHOST, server.port))?;
        Ok(server)
    }

    /// One of which nothing runs yet.
    pub(crate) fn new(system: System, folder: PathBuf, port: u16) -> Server {
        Server {
            system,
            port,
            started_ms: 0.0,
            fresh_bytes: 0.0,
            log: PathBuf::new(),
            folder,
            begin: Instant::now(),
            children: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Starts a process of it, with what it says in a file of that folder.
    pub(crate) fn spawn(
        &mut self,
        tools: &Tools,
        phase: Phase,
        folder: &Path,
        program: Command,
    ) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let core = (phase.is_pinned() && tools.can_pin).then_some(SERVER_CORE);
        let mut program = pinned(tied(program, tools), core);
        self.log = folder.join("out.log");
        let told = |error: std::io::Error| format!("{}: {error}", self.log.display());
        let file = File::create(&self.log).map_err(told)?;
        program.stdin(Stdio::null()).stdout(file.try_clone().map_err(told)?).stderr(file);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HELENUS_") {
                program.env_remove(name);
            }
        }
        let child = program.spawn().map_err(told)?;
        self.processes.push(child.id());
        self.children.push(child);
        Ok(())
    }

    /// Says which processes serve requests, where that is not what we started.
    pub(crate) fn is_served_by(&mut self, processes: Vec<u32>) {
        self.processes = processes;
        self.fresh_bytes = self.resident_bytes();
    }

    /// Waits until it is ready, and notes how long that took.
    pub(crate) fn await_answer(
        &mut self,
        is_ready: impl Fn(&Server) -> bool,
    ) -> Result<(), String> {
        let title = self.system.title();
        let asked = Instant::now();
        while asked.elapsed() < START_MAX {
            if is_ready(self) {
                self.started_ms = self.begin.elapsed().as_secs_f64() * 1000.0;
                self.fresh_bytes = self.resident_bytes();
                return Ok(());
            }
            for child in &mut self.children {
                if let Ok(Some(status)) = child.try_wait() {
                    return Err(format!("{title} ended with {status}\n{}", tail(&self.said())));
                }
            }
            std::thread::sleep(POLL);
        }
        Err(format!("{title} does not answer\n{}", tail(&self.said())))
    }

    /// What the process that was started last has said.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// How many of a client's connections each of its nodes gets, at least one.
    pub(crate) fn connections_of(&self, all: u32) -> u32 {
        let nodes = u32::try_from(self.processes.len()).unwrap_or(1).max(1);
        (all / nodes).max(1)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// User and system time of all its processes so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.processes.iter().copied().map(process_seconds).sum()
    }

    /// Whether all its processes run: what one took that has ended is counted no more.
    pub(crate) fn is_whole(&self) -> bool {
        self.processes.iter().all(|process| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
            stat.is_ok_and(|stat| runs(&stat))
        })
    }

    pub(crate) fn resident_bytes(&self) -> f64 {
        self.processes.iter().copied().map(resident_bytes).sum()
    }

    /// Its data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What its data takes on the disk.
    pub(crate) fn disk_bytes(&self) -> f64 {
        allocated_bytes(&self.data())
    }

    /// Has Helenus write what is in memory to its files and merge them. (Cassandra did so when it started again.)
    pub(crate) fn flush(&self, tools: &Tools) -> Result<(), String> {
        for command in ["flush", "compact"] {
            let data = self.folder.join("data");
            run_quietly(Command::new(&tools.helenus).arg(command).arg("--data-dir").arg(data))?;
        }
        Ok(())
    }

    /// Waits until it has no work of its own left, for a while. Returns how much of a core it took at the end.
    pub(crate) fn settle(&self, patience: Duration) -> f64 {
        const INTERVAL: Duration = Duration::from_millis(500);
        // What each of its processes may take of a core while it has nothing to do.
        const IDLE: f64 = 0.05;
        let begin = Instant::now();
        let mut part = f64::NAN;
        while begin.elapsed() < patience {
            let before = self.cpu_seconds();
            std::thread::sleep(INTERVAL);
            part = (self.cpu_seconds() - before) / INTERVAL.as_secs_f64();
            if part < IDLE * self.processes.len() as f64 {
                break;
            }
        }
        part
    }

    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.end()
    }

    /// Asks all that we started to stop, and waits for them. What does not is ended.
    fn end(&mut self) -> Result<(), String> {
        let mut running: Vec<Child> = std::mem::take(&mut self.children);
        let mut processes = std::mem::take(&mut self.processes);
        running.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if running.is_empty() {
            return Ok(());
        }
        send("-TERM", running.iter().map(Child::id));
        let begin = Instant::now();
        while begin.elapsed() < STOP_MAX {
            running.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
            if running.is_empty() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        // A demo that hangs must not leave its nodes behind.
        processes.extend(running.iter().map(Child::id));
        send("-KILL", processes.into_iter());
        for child in &mut running {
            let _ = child.wait();
        }
        Err(format!("{} does not stop", self.system.title()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Where it matters it was stopped before.
        let _ = self.end();
    }
}

fn send(signal: &str, processes: impl Iterator<Item = u32>) {
    let processes = processes.map(|process| process.to_string());
    // One that has ended meanwhile is no error of ours.
    let _ = run_quietly(Command::new("kill").arg(signal).args(processes));
}

/// The last lines of what a process said.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// The core of the server and the one of the client, where each has its own.
const SERVER_CORE: u32 = 0;
pub(crate) const CLIENT_CORE: u32 = 1;

/// The same command on one core.
pub(crate) fn pinned(command: Command, core: Option<u32>) -> Command {
    match core {
        Some(core) => behind(&["taskset", "-c", &core.to_string()], &command),
        None => command,
    }
}

/// The same command, which is asked to stop when we end without having done so, by Ctrl-C for example.
pub(crate) fn tied(command: Command, tools: &Tools) -> Command {
    if tools.can_tie { behind(&TIE, &command) } else { command }
}

/// What makes the next program end with the one that started it.
pub(crate) const TIE: [&str; 3] = ["setpriv", "--pdeathsig", "TERM"];

fn behind(first: &[&str], command: &Command) -> Command {
    let mut words = first.iter();
    let mut whole = Command::new(words.next().copied().unwrap_or_default());
    whole.args(words).arg(command.get_program()).args(command.get_args());
    whole
}

/// A null server there, which asks the node at another port of the same address what to answer.
pub(crate) fn null_server(
    tools: &Tools,
    address: Ipv4Addr,
    port: u16,
    node: Option<u16>,
) -> Result<Command, String> {
    let node = node.ok_or("the null server needs a node")?;
    let mut program = Command::new(&tools.null_server);
    program.args([format!("{address}:{port}"), format!("{address}:{node}")]);
    Ok(program)
}

fn helenus(binary: &Path, folder: &Path, port: u16, phase: Phase) -> Command {
    let settings: &[&str] = match phase {
        Phase::OneCore | Phase::AllCores => &["storage.commit=periodic"],
        Phase::SmallCache => {
            &["storage.commit=periodic", "memory.block_cache=8MiB", "memory.row_cache=4MiB"]
        }
        Phase::Group | Phase::Batch | Phase::Cluster => &["storage.commit=group"],
    };
    let mut command = Command::new(binary);
    command
        .args(["start", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(folder.join("data"))
        .args(["--set", "metrics.listen="])
        .args(settings.iter().flat_map(|setting| ["--set", setting]));
    command
}

/// Whether a server there answers a query.
pub(crate) fn answers(address: Ipv4Addr, port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((address, port))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut startup = vec![4, 0, 0, 0, 1, 0, 0, 0, 22, 0, 1];
        for text in ["CQL_VERSION", "3.0.0"] {
            startup.extend([0, text.len() as u8]);
            startup.extend(text.as_bytes());
        }
        let text = b"SELECT key FROM system.local";
        let mut query = vec![4, 0, 0, 0, 7, 0, 0, 0, text.len() as u8 + 7];
        query.extend([0, 0, 0, text.len() as u8]);
        query.extend(text);
        query.extend([0, 1, 0]);
        let mut opcode = 0;
        for request in [startup, query] {
            stream.write_all(&request)?;
            let mut header = [0; 9];
            stream.read_exact(&mut header)?;
            let [_, _, _, _, kind, length @ ..] = header;
            opcode = kind;
            let mut body = vec![0; u32::from_be_bytes(length).min(1 << 20) as usize];
            stream.read_exact(&mut body)?;
        }
        Ok(opcode == 8)
    };
    ask().unwrap_or(false)
}

/// A port that is free on every address of this machine: the nodes of a cluster have one each.
pub(crate) fn free_port() -> Result<u16, String> {
    let port = || TcpListener::bind("0.0.0.0:0")?.local_addr();
    port().map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// Beyond the steps of the process's own figure: threads have ended that did something.
const ENDED_THREADS_SECONDS: f64 = 0.03;

/// User and system time of a process so far, in seconds: of its threads to the nanosecond, where the system tells that.
fn process_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let ticks = stat.ok().and_then(|stat| cpu_ticks(&stat)).unwrap_or(0.0);
    let of_process = ticks / TICKS_PER_SECOND;
    match thread_seconds(process) {
        // Only the process still knows what threads did that have ended.
        Some(of_threads) if of_process - of_threads < ENDED_THREADS_SECONDS => of_threads,
        _ => of_process,
    }
}

fn resident_bytes(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let kilobytes = status.ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    });
    kilobytes.unwrap_or(0.0) * 1024.0
}

/// What the threads of a process ran, in seconds. The figure of the whole process comes in steps of ten
/// milliseconds, which is much for a hundred thousand cheap requests.
fn thread_seconds(process: u32) -> Option<f64> {
    let mut nanoseconds = 0.0;
    for task in std::fs::read_dir(format!("/proc/{process}/task")).ok()? {
        // One that ended meanwhile did nothing that matters.
        let Ok(text) = std::fs::read_to_string(task.ok()?.path().join("schedstat")) else {
            continue;
        };
        nanoseconds += text.split_whitespace().next()?.parse::<f64>().ok()?;
    }
    (nanoseconds > 0.0).then_some(nanoseconds / 1e9)
}

/// Whether that is of a process that has not ended: one that has is listed until its parent asks for its end.
fn runs(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().next());
    state.is_some_and(|state| !["Z", "X"].contains(&state))
}

/// The sum of the fields utime and stime.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    Some(ticks.next()?.ok()? + ticks.next()?.ok()?)
}

fn allocated_bytes(folder: &Path) -> f64 {
    use std::os::unix::fs::MetadataExt;
    const BLOCK_BYTES: f64 = 512.0;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0.0 };
    let bytes_of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => allocated_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() as f64 * BLOCK_BYTES,
        Err(_) => 0.0,
    };
    entries.filter_map(Result::ok).map(bytes_of).sum()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Server, System, cpu_ticks, runs};

    #[test]
    fn the_nodes_of_a_cluster_share_the_connections() {
        let mut server = Server::new(System::Cassandra, PathBuf::new(), 0);
        for (nodes, each) in [(1, 16), (3, 5), (4, 4), (16, 1), (32, 1)] {
            server.is_served_by(vec![u32::MAX; nodes]);
            assert_eq!(server.connections_of(16), each, "{nodes}");
        }
        assert_eq!((server.cpu_seconds(), server.resident_bytes()), (0.0, 0.0));
        assert!(!server.is_whole());
    }

    #[test]
    fn the_times_of_a_process_with_any_name() {
        let stat = "1 (a) b (c) S 1 1 1 0 -1 4194560 1 2 3 4 70 5 8 9 20 0";
        assert_eq!(cpu_ticks(stat), Some(75.0));
        assert!(runs(stat) && !runs(&stat.replace(" S ", " Z ")) && !runs(""));
    }
}
