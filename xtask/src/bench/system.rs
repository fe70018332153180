//! The systems under test, each a process with a folder of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
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
/// Cassandra's heap, unless the user says otherwise.
const HEAP: &str = "3G";
const HEAP_VARIABLE: &str = "CASSANDRA_HEAP";

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Helenus,
    Cassandra,
    /// The null server: the limit.
    Limit,
}

impl System {
    pub(crate) const ALL: [System; 3] = [System::Helenus, System::Cassandra, System::Limit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Helenus => "helenus",
            System::Cassandra => "cassandra",
            System::Limit => "limit",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            System::Helenus => "Helenus",
            System::Cassandra => "Cassandra 5.0.5",
            System::Limit => "the limit (null server)",
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
    folder: PathBuf,
    child: Child,
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
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let port = free_port()?;
        let program = match system {
            System::Helenus => {
                let mut program = helenus(&tools.helenus, &folder, port, phase);
                program.args(settings.iter().flat_map(|setting| ["--set", setting]));
                program
            }
            System::Cassandra => {
                let jars = tools.cassandra.as_ref().map_err(String::clone)?;
                let heap = std::env::var(HEAP_VARIABLE).unwrap_or_else(|_| HEAP.into());
                cassandra::command(jars, &folder, port, free_port()?, &heap, phase)?
            }
            System::Limit => {
                let node = node.ok_or("the null server needs a node")?;
                let mut program = Command::new(&tools.null_server);
                program.args([format!("127.0.0.1:{port}"), format!("127.0.0.1:{node}")]);
                program
            }
        };
        let mut program =
            pinned(program, (phase.is_pinned() && tools.can_pin).then_some(SERVER_CORE));
        let log = folder.join("out.log");
        let told = |error: std::io::Error| format!("{}: {error}", log.display());
        let file = File::create(&log).map_err(told)?;
        program.stdin(Stdio::null()).stdout(file.try_clone().map_err(told)?).stderr(file);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HELENUS_") {
                program.env_remove(name);
            }
        }
        let begin = Instant::now();
        let child = program.spawn().map_err(told)?;
        let mut server = Server { system, port, started_ms: 0.0, fresh_bytes: 0.0, folder, child };
        server.await_answer(begin)?;
        server.started_ms = begin.elapsed().as_secs_f64() * 1000.0;
        server.fresh_bytes = server.resident_bytes();
        Ok(server)
    }

    fn await_answer(&mut self, begin: Instant) -> Result<(), String> {
        while begin.elapsed() < START_MAX {
            if answers(self.port) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} ended with {status}\n{}", self.system.title(), self.log()));
            }
            std::thread::sleep(POLL);
        }
        Err(format!("{} does not answer\n{}", self.system.title(), self.log()))
    }

    fn log(&self) -> String {
        let text = std::fs::read(self.folder.join("out.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// User and system time so far, in seconds: of its threads to the nanosecond, where the system tells that.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let ticks = stat.ok().and_then(|stat| cpu_ticks(&stat)).unwrap_or(0.0);
        let of_process = ticks / TICKS_PER_SECOND;
        match thread_seconds(self.child.id()) {
            // Only the process still knows what threads did that have ended.
            Some(of_threads) if of_process - of_threads < ENDED_THREADS_SECONDS => of_threads,
            _ => of_process,
        }
    }

    pub(crate) fn resident_bytes(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let kilobytes = status.ok().and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        });
        kilobytes.unwrap_or(0.0) * 1024.0
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

    /// Waits until it has no work of its own left, for a while.
    pub(crate) fn settle(&self, patience: Duration) {
        const INTERVAL: Duration = Duration::from_millis(500);
        let begin = Instant::now();
        while begin.elapsed() < patience {
            let before = self.cpu_seconds();
            std::thread::sleep(INTERVAL);
            if self.cpu_seconds() - before < 0.05 * INTERVAL.as_secs_f64() {
                return;
            }
        }
    }

    pub(crate) fn stop(mut self) -> Result<(), String> {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        asked.map_err(|error| format!("kill did not start: {error}"))?;
        let begin = Instant::now();
        while begin.elapsed() < STOP_MAX {
            if let Ok(Some(_)) = self.child.try_wait() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(format!("{} does not stop", self.system.title()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The core of the server and the one of the client, where each has its own.
const SERVER_CORE: u32 = 0;
pub(crate) const CLIENT_CORE: u32 = 1;

/// The same command on one core.
pub(crate) fn pinned(command: Command, core: Option<u32>) -> Command {
    let Some(core) = core else { return command };
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", &core.to_string()]).arg(command.get_program()).args(command.get_args());
    pinned
}

fn helenus(binary: &Path, folder: &Path, port: u16, phase: Phase) -> Command {
    let settings: &[&str] = match phase {
        Phase::OneCore | Phase::AllCores => &["storage.commit=periodic"],
        Phase::SmallCache => {
            &["storage.commit=periodic", "memory.block_cache=8MiB", "memory.row_cache=4MiB"]
        }
        Phase::Group | Phase::Batch => &["storage.commit=group"],
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
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
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

fn free_port() -> Result<u16, String> {
    let port = || TcpListener::bind("127.0.0.1:0")?.local_addr();
    port().map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// Beyond the steps of the process's own figure: threads have ended that did something.
const ENDED_THREADS_SECONDS: f64 = 0.03;

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
    use super::cpu_ticks;

    #[test]
    fn the_times_of_a_process_with_any_name() {
        let stat = "1 (a) b (c) S 1 1 1 0 -1 4194560 1 2 3 4 70 5 8 9 20 0";
        assert_eq!(cpu_ticks(stat), Some(75.0));
    }
}
