//! `helenus demo`: a cluster on this machine, one process a node, from one terminal.

use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use storage::DataDir;
use tokio::signal::unix::{SignalKind, signal};
use types::NodeId;

use crate::config::Loaded;
use crate::membership::{self, Member, Membership, NODES_MAX};
use crate::node::{Identity, StartError};
use crate::world;

/// Where nodes listen for each other, each on an address of its own.
const MESH_PORT: u16 = 7000;
/// How often it is looked whether nodes still run, and whether they answer.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// So long nodes may take until they answer.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// So long nodes may take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demo {
    pub(crate) nodes: usize,
    /// Where clients connect, on each of 127.0.0.1, 127.0.0.2 ...
    pub(crate) port: u16,
    /// Where nodes connect to each other.
    pub(crate) mesh_port: Option<u16>,
    /// Settings for every node, as they were given.
    pub(crate) sets: Vec<String>,
}

/// Why there is no demo.
pub(crate) enum DemoError {
    TooMany(usize),
    /// The folder holds a cluster of another size.
    OtherSize {
        folder: PathBuf,
        kept: usize,
    },
    Node(PathBuf, StartError),
    Folder(PathBuf, String),
    Process(std::io::Error),
    Ended(usize, String),
    Silent(usize),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::TooMany(nodes) => write!(
                f,
                "a demo has 1 to {NODES_MAX} nodes, not {nodes}: every replica set has a member on each"
            ),
            DemoError::OtherSize { folder, kept } => write!(
                f,
                "{} holds a cluster of {kept} nodes; say --nodes {kept}, or choose another --data-dir",
                folder.display()
            ),
            DemoError::Node(folder, error) => write!(f, "{}: {error}", folder.display()),
            DemoError::Folder(folder, error) => write!(f, "{}: {error}", folder.display()),
            DemoError::Process(error) => write!(f, "cannot start a node: {error}"),
            DemoError::Ended(number, how) => {
                write!(f, "node {number} ended while it started ({how}); its words are above")
            }
            DemoError::Silent(number) => write!(f, "node {number} does not answer"),
        }
    }
}

/// Makes the folders of a cluster that are not there yet.
fn prepare(root: &Path, demo: &Demo) -> Result<Vec<Membership>, DemoError> {
    let folders: Vec<PathBuf> =
        (1..=demo.nodes).map(|number| root.join(format!("node{number}"))).collect();
    let mut data_dirs = Vec::new();
    for folder in &folders {
        let opened = DataDir::lock(folder);
        let opened = opened.map_err(|error| DemoError::Node(folder.clone(), error.into()))?;
        opened.make_private();
        data_dirs.push((folder, opened));
    }
    let mut kept = Vec::new();
    for (folder, data_dir) in &data_dirs {
        let found = Membership::load(data_dir);
        kept.extend(found.map_err(|error| DemoError::Node(folder.to_path_buf(), error))?);
    }
    if let Some(first) = kept.first() {
        if kept.len() != demo.nodes || first.members.len() != demo.nodes {
            let (folder, kept) = (root.to_owned(), first.members.len());
            return Err(DemoError::OtherSize { folder, kept });
        }
        return Ok(kept);
    }
    let mut members = Vec::new();
    for (place, (folder, data_dir)) in data_dirs.iter().enumerate() {
        let of_folder = |error| DemoError::Node(folder.to_path_buf(), error);
        let host = u8::try_from(place + 1).unwrap_or(u8::MAX);
        let address = |port| SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), port));
        members.push(Member {
            node: NodeId(place as u64 + 1),
            host_id: Identity::of(data_dir).map_err(of_folder)?.host_id,
            mesh: address(demo.mesh_port.unwrap_or(MESH_PORT)),
            clients: address(demo.port),
            key: membership::own_key(data_dir).map_err(of_folder)?.fingerprint(),
            tokens: membership::tokens_of(place, demo.nodes),
        });
    }
    let fresh =
        || membership::fresh_number().map_err(|error| DemoError::Node(root.to_owned(), error));
    let (cluster_id, paging_secret) = (fresh()?, fresh()?.to_be_bytes());
    let mut made = Vec::new();
    for (member, (folder, data_dir)) in members.iter().zip(&data_dirs) {
        let (own, members) = (member.node, members.clone());
        let membership = Membership { cluster_id, own, paging_secret, members };
        let saved = membership.save(data_dir);
        saved.map_err(|error| DemoError::Folder(folder.to_path_buf(), error.to_string()))?;
        made.push(membership);
    }
    Ok(made)
}

/// Runs a cluster until it is told to stop.
pub(crate) fn run(loaded: &Loaded, demo: &Demo) -> Result<(), DemoError> {
    if !(1..=NODES_MAX).contains(&demo.nodes) {
        return Err(DemoError::TooMany(demo.nodes));
    }
    let root = &loaded.config.server.data_dir;
    let memberships = prepare(root, demo)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DemoError::Process)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DemoError::Process)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(DemoError::Process)?;
        let mut nodes = Nodes::default();
        let ended = tokio::select! {
            ran = nodes.run(root, demo, &memberships) => ran,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        nodes.stop().await;
        ended
    })
}

/// The processes.
#[derive(Default)]
struct Nodes(Vec<Option<Child>>);

impl Nodes {
    /// Starts all, tells how to go on, and looks after them.
    async fn run(
        &mut self,
        root: &Path,
        demo: &Demo,
        memberships: &[Membership],
    ) -> Result<(), DemoError> {
        let program = std::env::current_exe().map_err(DemoError::Process)?;
        for place in 0..memberships.len() {
            let mut command = Command::new(&program);
            command.arg("start").arg("--data-dir").arg(root.join(format!("node{}", place + 1)));
            command.args(["--set", "metrics.listen="]);
            for set in &demo.sets {
                command.args(["--set", set]);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
            self.0.push(Some(command.spawn().map_err(DemoError::Process)?));
        }
        let begun = world::now();
        for (place, membership) in memberships.iter().enumerate() {
            let Some(own) = membership.own() else { continue };
            while !answers(own.clients) {
                self.ensure_runs(place)?;
                if world::now().duration_since(begun) > STARTS_WITHIN {
                    return Err(DemoError::Silent(place + 1));
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            let pid = self.0.get(place).and_then(Option::as_ref).map_or(0, Child::id);
            let folder = root.join(format!("node{}", place + 1));
            tell(&format!(
                "node {}: pid {pid}, {}, {}\n",
                place + 1,
                own.clients,
                folder.display()
            ));
        }
        tell(&format!(
            "connect with: cqlsh 127.0.0.1 {}\n\
             a node that ended is started again with: helenus start --data-dir {}/nodeN\n\
             stop with Ctrl-C\n",
            demo.port,
            root.display()
        ));
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            for (place, node) in self.0.iter_mut().enumerate() {
                if let Some(Ok(Some(status))) = node.as_mut().map(Child::try_wait) {
                    *node = None;
                    tell(&format!("node {} ended: {status}\n", place + 1));
                }
            }
        }
    }

    fn ensure_runs(&mut self, place: usize) -> Result<(), DemoError> {
        let Some(Some(node)) = self.0.get_mut(place) else { return Ok(()) };
        match node.try_wait() {
            Ok(Some(status)) => Err(DemoError::Ended(place + 1, status.to_string())),
            Ok(None) => Ok(()),
            Err(error) => Err(DemoError::Process(error)),
        }
    }

    /// Asks all to stop, and waits for them.
    async fn stop(&mut self) {
        for node in self.0.iter().flatten() {
            let pid = i32::try_from(node.id()).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        let begun = world::now();
        for node in self.0.iter_mut().flatten() {
            while let Ok(None) = node.try_wait() {
                if world::now().duration_since(begun) > STOPS_WITHIN {
                    let _ = node.kill();
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
    }
}

/// Whether a node answers its clients: it listens before it does.
fn answers(address: SocketAddr) -> bool {
    // OPTIONS of version 4.
    const QUESTION: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, LOOK_INTERVAL)?;
        stream.set_read_timeout(Some(LOOK_INTERVAL))?;
        stream.write_all(&QUESTION)?;
        stream.read_exact(&mut [0; 9])
    };
    ask().is_ok()
}

fn tell(text: &str) {
    // Nobody may be there to read it.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}
