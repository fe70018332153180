//! A node in a process of its own, with a folder that goes when the node does.

#![expect(clippy::disallowed_methods, reason = "tests wait for a real process in real time")]

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

const STARTS_WITHIN: Duration = Duration::from_secs(60);
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// A running node.
pub struct Node {
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    data_dir: PathBuf,
    /// 127.0.0.1, or another one of this machine.
    host: u8,
    port: u16,
    process: Option<Child>,
}

impl Node {
    /// Starts a node of that binary with a fresh folder under the system's temporary one.
    pub fn start(binary: &Path, arguments: &[&str]) -> io::Result<Node> {
        let name = format!("helenus-{}-{}", std::process::id(), free_port()?);
        Node::start_on(binary, &std::env::temp_dir().join(name), arguments)
    }

    /// Starts a node of that binary on a folder, which goes when the node does.
    pub fn start_on(binary: &Path, data_dir: &Path, arguments: &[&str]) -> io::Result<Node> {
        Node::start_in(binary, data_dir, arguments, Vec::new())
    }

    /// As [`Node::start_on`], with more variables in its environment.
    pub fn start_in(
        binary: &Path,
        data_dir: &Path,
        arguments: &[&str],
        environment: Vec<(String, String)>,
    ) -> io::Result<Node> {
        let port = free_port()?;
        let data_dir = data_dir.to_path_buf();
        let mut node = Node {
            binary: binary.to_path_buf(),
            arguments: arguments.iter().map(|argument| argument.to_string()).collect(),
            environment,
            data_dir,
            host: 1,
            port,
            process: None,
        };
        node.launch()?;
        Ok(node)
    }

    /// Starts a node that joins a cluster, on 127.0.0.`host`, and waits until it answers.
    pub fn join(binary: &Path, host: u8, arguments: &[&str]) -> io::Result<Node> {
        let port = free_port_on(host)?;
        let name = format!("helenus-{}-{host}-{port}", std::process::id());
        let mut node = Node {
            binary: binary.to_path_buf(),
            arguments: arguments.iter().map(|argument| argument.to_string()).collect(),
            environment: Vec::new(),
            data_dir: std::env::temp_dir().join(name),
            host,
            port,
            process: None,
        };
        node.launch()?;
        Ok(node)
    }

    /// Runs a command of the binary for the node, and returns what it printed; an error if it failed.
    pub fn command(&self, words: &[&str]) -> io::Result<String> {
        crate::cluster::run_command(&self.binary, &self.data_dir, words)
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.{}:{}", self.host, self.port)
    }

    /// Where its data is.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// What it wrote to its standard output since it was last started; waits for the first words, with which it is
    /// ready.
    pub fn output(&self) -> io::Result<String> {
        let begin = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.output_path())?;
            if !text.is_empty() || begin.elapsed() > STARTS_WITHIN {
                return Ok(text);
            }
            sleep(Duration::from_millis(5));
        }
    }

    fn output_path(&self) -> PathBuf {
        self.data_dir.with_extension("out")
    }

    /// Waits until the process has ended by itself, and says how.
    pub fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(mut process) = self.process.take() else { return Ok(None) };
        let begin = Instant::now();
        while begin.elapsed() < STOPS_WITHIN {
            if let Some(status) = process.try_wait()? {
                return Ok(Some(status));
            }
            sleep(Duration::from_millis(5));
        }
        process.kill()?;
        process.wait()?;
        Ok(None)
    }

    /// The process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Starts it again on the same folder and port, and waits until it answers, clients and commands alike: it listens before it does,
    /// and says that it is there when it does.
    pub fn launch(&mut self) -> io::Result<()> {
        self.begin_launch()?;
        let (address, output) = (self.address(), self.output_path());
        let Some(process) = &mut self.process else { return Ok(()) };
        let has_greeted = || std::fs::metadata(&output).is_ok_and(|it| it.len() > 0);
        let begin = Instant::now();
        while !(answers(&address) && has_greeted()) {
            if let Some(status) = process.try_wait()? {
                self.process = None;
                return Err(io::Error::other(format!("the node stopped while starting: {status}")));
            }
            if begin.elapsed() > STARTS_WITHIN {
                let _ = self.kill();
                return Err(io::Error::other("the node does not answer"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Starts it again without waiting until it answers.
    pub fn begin_launch(&mut self) -> io::Result<()> {
        let process = Command::new(&self.binary)
            .arg("start")
            .arg("--data-dir")
            .arg(&self.data_dir)
            .arg("--listen")
            .arg(self.address())
            .args(["--set", "metrics.listen="])
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(self.output_path())?)
            .spawn()?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    pub fn stop(&mut self) -> io::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        Command::new("kill").arg(process.id().to_string()).status()?;
        let begin = Instant::now();
        loop {
            if let Some(status) = process.try_wait()? {
                return if status.success() {
                    Ok(())
                } else {
                    Err(io::Error::other(format!("the node stopped with {status}")))
                };
            }
            if begin.elapsed() > STOPS_WITHIN {
                let _ = process.kill();
                return Err(io::Error::other("the node does not stop"));
            }
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = std::fs::remove_dir_all(&self.data_dir);
        let _ = std::fs::remove_file(self.output_path());
    }
}

/// Whether something listens there. A port that nobody listens on may connect with itself.
fn answers(address: &str) -> bool {
    TcpStream::connect(address).is_ok_and(|stream| {
        let ends = stream.local_addr().and_then(|ours| Ok((ours, stream.peer_addr()?)));
        ends.is_ok_and(|(ours, theirs)| ours != theirs)
    })
}

/// Ports below those that the system hands out by itself: a port that is free now would else be given to
/// another test's node or to a client's connection before this node listens on it.
const FIRST_PORT: u16 = 20_000;
/// A demo shows the dashboard of a node so far above the port of its clients.
const DASHBOARD_OFFSET: u16 = 138;
/// Processes that run at the same time take ports of blocks of their own: the lower half of each, and dashboards have the upper one.
const BLOCK_PORTS: u16 = 2 * DASHBOARD_OFFSET;
const BLOCK_COUNT: u16 = 43;

/// Ports that no other process takes while this one runs.
struct Block {
    first: u16,
    /// How many of them were asked for.
    asked: u16,
    /// The system takes it back when the process ends, however it does.
    _lock: Option<File>,
}

impl Block {
    /// One that nobody has; none if there is none.
    fn claim() -> Option<Block> {
        let locked = |number: u16| {
            let first = FIRST_PORT + number * BLOCK_PORTS;
            let path = std::env::temp_dir().join(format!("helenus-ports-{first}"));
            let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
            file.try_lock().ok()?;
            Some(Block { first, asked: 0, _lock: Some(file) })
        };
        let start = own_number();
        (0..BLOCK_COUNT).find_map(|step| locked((start + step) % BLOCK_COUNT))
    }

    /// Its next port that nobody listens on.
    fn next(&mut self, hosts: u8) -> Option<u16> {
        while self.asked < DASHBOARD_OFFSET {
            let port = self.first + self.asked;
            self.asked += 1;
            let is_free = |host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)).is_ok();
            if (1..=hosts).all(is_free) {
                return Some(port);
            }
        }
        None
    }
}

/// Where this process begins to look for a block.
fn own_number() -> u16 {
    (std::process::id() % u32::from(BLOCK_COUNT)) as u16
}

/// A port that nobody listens on, and that this process has not asked for before.
fn free_port() -> io::Result<u16> {
    free_port_on(1)
}

/// The same on each of 127.0.0.1, 127.0.0.2 ... It stays this process's own: a node that is down may be started on it again.
pub fn free_port_on(hosts: u8) -> io::Result<u16> {
    static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..=BLOCK_COUNT {
        if let Some(port) = blocks.last_mut().and_then(|block| block.next(hosts)) {
            return Ok(port);
        }
        match Block::claim() {
            Some(block) => blocks.push(block),
            // Who runs for so long begins anew, and who may lock nothing takes its chance.
            None if blocks.is_empty() => {
                let first = FIRST_PORT + own_number() * BLOCK_PORTS;
                blocks.push(Block { first, asked: 0, _lock: None });
            }
            None => {
                blocks.rotate_left(1);
                if let Some(block) = blocks.last_mut() {
                    block.asked = 0;
                }
            }
        }
    }
    Err(io::Error::other("no port is free"))
}
