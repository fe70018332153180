//! `helenus demo`: a cluster on this machine, one process a node, from one terminal.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use partition::decide::NodeState;
use storage::DataDir;
use tokio::signal::unix::{SignalKind, signal};
use types::NodeId;

use crate::admin::{self, Question};
use crate::config::Loaded;
use crate::membership::{self, MESH_PORT, Member, Membership, NODES_MAX};
use crate::node::{Identity, StartError};
use crate::world;

/// What `--add` asks the demo for, in its folder.
const ADD_FILE: &str = "add.json";
/// The dashboard of a node is so far behind the port of its clients: at 9180, where that is 9042.
const DASHBOARD_OFFSET: u16 = 138;
/// How often it is looked whether nodes still run, and whether they answer.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// So long a node may take for one answer: on a busy machine more than a moment.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
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
    Taken(SocketAddr),
    Ended(usize, String),
    Silent(usize),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::TooMany(nodes) => {
                write!(f, "a demo has 1 to {NODES_MAX} nodes, not {nodes}")
            }
            DemoError::OtherSize { folder, kept } => write!(
                f,
                "{} holds a cluster of {kept} nodes; say --nodes {kept}, or choose another --data-dir",
                folder.display()
            ),
            DemoError::Node(folder, error) => write!(f, "{}: {error}", folder.display()),
            DemoError::Folder(folder, error) => write!(f, "{}: {error}", folder.display()),
            DemoError::Process(error) => write!(f, "cannot start a node: {error}"),
            DemoError::Taken(address) => write!(
                f,
                "{address} is in use by another process; stop it, or choose another port with --port"
            ),
            DemoError::Ended(number, how) => {
                write!(f, "node {number} ended while it started ({how}); its words are above")
            }
            DemoError::Silent(number) => write!(f, "node {number} does not answer"),
        }
    }
}

/// A node of the demo: the number of its folder, and what it knows of all.
type Kept = (usize, Membership);

fn folder_of(root: &Path, number: usize) -> PathBuf {
    root.join(format!("node{number}"))
}

fn open(folder: &Path) -> Result<DataDir, DemoError> {
    let opened = DataDir::lock(folder);
    opened.map_err(|error| DemoError::Node(folder.to_owned(), error.into()))
}

/// The nodes whose folders are there, without those that left the cluster.
fn kept(root: &Path) -> Result<Vec<Kept>, DemoError> {
    let mut all: Vec<Kept> = Vec::new();
    for number in 1..=NODES_MAX {
        let folder = folder_of(root, number);
        if folder.is_dir() {
            let found = Membership::load(&open(&folder)?);
            let found = found.map_err(|error| DemoError::Node(folder, error))?;
            all.extend(found.map(|membership| (number, membership)));
        }
    }
    // One that left may not know it, and one that was away may not know who came: most do.
    let knows =
        |node: NodeId| move |(_, it): &&Kept| it.members.iter().any(|member| member.node == node);
    let belongs = |(_, it): &&Kept| all.iter().filter(knows(it.own)).count() * 2 > all.len();
    Ok(all.iter().filter(belongs).cloned().collect())
}

/// Makes the folders of a cluster that are not there yet.
fn prepare(loaded: &Loaded, root: &Path, demo: &Demo) -> Result<Vec<Kept>, DemoError> {
    let kept = kept(root)?;
    if !kept.is_empty() {
        if kept.len() != demo.nodes {
            return Err(DemoError::OtherSize { folder: root.to_owned(), kept: kept.len() });
        }
        return Ok(kept);
    }
    let folders: Vec<PathBuf> = (1..=demo.nodes).map(|number| folder_of(root, number)).collect();
    let mut data_dirs = Vec::new();
    for folder in &folders {
        let opened = open(folder)?;
        opened.make_private();
        data_dirs.push((folder, opened));
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
            rack: loaded.config.server.rack.clone(),
            data_center: loaded.config.server.data_center.clone(),
            state: NodeState::Up,
        });
    }
    let fresh =
        || membership::fresh_number().map_err(|error| DemoError::Node(root.to_owned(), error));
    let (cluster_id, paging_secret) = (fresh()?, fresh()?.to_be_bytes());
    let mut made = Vec::new();
    for (member, (folder, data_dir)) in members.iter().zip(&data_dirs) {
        let (own, members) = (member.node, members.clone());
        let is_first = true;
        let membership = Membership { cluster_id, own, paging_secret, members, is_first };
        let saved = membership.save(data_dir);
        saved.map_err(|error| DemoError::Folder(folder.to_path_buf(), error.to_string()))?;
        made.push((made.len() + 1, membership));
    }
    Ok(made)
}

/// Runs a cluster until it is told to stop.
pub(crate) fn run(loaded: &Loaded, demo: &Demo) -> Result<(), DemoError> {
    if !(1..=NODES_MAX).contains(&demo.nodes) {
        return Err(DemoError::TooMany(demo.nodes));
    }
    let root = &loaded.config.server.data_dir;
    let kept = prepare(loaded, root, demo)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DemoError::Process)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DemoError::Process)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(DemoError::Process)?;
        let mut nodes = Nodes::default();
        let ended = tokio::select! {
            ran = nodes.run(root, demo, &kept) => ran,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        nodes.stop().await;
        ended
    })
}

/// Joins one more node to a demo that runs: its parent starts it. Returns a line about it.
pub(crate) fn add(loaded: &Loaded, demo: &Demo) -> Result<String, DemoError> {
    let root = &loaded.config.server.data_dir;
    let wrong = |error: String| DemoError::Folder(root.clone(), error);
    // Any node that runs can let another one in.
    let mut folders = (1..=NODES_MAX).map(|number| folder_of(root, number));
    let asked = |folder: PathBuf| {
        let answer = admin::ask(&folder, &Question::Token).ok()?;
        Some((folder, answer))
    };
    let found = folders.find_map(asked);
    let (asked, answer) = found.ok_or_else(|| wrong("no node of a demo runs here".to_owned()))?;
    let text = |name: &str| answer.get(name).and_then(serde_json::Value::as_str);
    let (Some(token), Some(join)) = (text("token"), text("join")) else {
        return Err(wrong("the node that was asked gives no token".to_owned()));
    };
    let is_free = |number: &usize| !folder_of(root, *number).exists();
    let number = (2..=NODES_MAX).find(is_free).ok_or(DemoError::TooMany(NODES_MAX + 1))?;
    let first: SocketAddr =
        join.parse().map_err(|_| wrong("the node that was asked has no address".to_owned()))?;
    let clients = clients_of(&asked).unwrap_or(demo.port);
    let host = Ipv4Addr::new(127, 0, 0, u8::try_from(number).unwrap_or(u8::MAX));
    let asked = serde_json::json!({
        "node": number,
        "join": join,
        "token": token,
        "listen": SocketAddr::from((host, clients)).to_string(),
        "mesh": SocketAddr::from((host, first.port())).to_string(),
    });
    let (file, wanted) = (root.join(ADD_FILE), root.join(format!("{ADD_FILE}.new")));
    #[expect(clippy::disallowed_methods, reason = "it is for the process that runs now")]
    let written = std::fs::write(&wanted, asked.to_string());
    written.map_err(|error| wrong(error.to_string()))?;
    std::fs::rename(&wanted, &file).map_err(|error| wrong(error.to_string()))?;
    let begun = world::now();
    let address = SocketAddr::from((host, clients));
    // It answers clients a moment before the others call it one of theirs: until then it can be asked for nothing else.
    while !answers(address) || !is_up(&folder_of(root, number)) {
        if world::now().duration_since(begun) > STARTS_WITHIN {
            let _ = std::fs::remove_file(&file);
            return Err(DemoError::Silent(number));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(format!("node {number} joined: {address}, {}\n", folder_of(root, number).display()))
}

/// What a node that runs tells of itself.
fn told_of_itself(folder: &Path, name: &str) -> Option<String> {
    let answer = admin::ask(folder, &Question::Nodes).ok()?;
    let row =
        answer.get("nodes")?.as_array()?.iter().find(|row| {
            row.get("is_asked").and_then(serde_json::Value::as_bool).unwrap_or(false)
        })?;
    Some(row.get(name)?.as_str()?.to_owned())
}

/// The port at which clients connect to the first node.
fn clients_of(first: &Path) -> Option<u16> {
    let address: SocketAddr = told_of_itself(first, "clients")?.parse().ok()?;
    Some(address.port())
}

/// Whether a node that joins belongs to the cluster by now.
fn is_up(folder: &Path) -> bool {
    told_of_itself(folder, "state")
        .is_some_and(|state| state == membership::state_name(NodeState::Up))
}

/// What somebody asked for with `--add`, if so.
fn asked_to_add(root: &Path) -> Option<Added> {
    let file = root.join(ADD_FILE);
    let bytes = std::fs::read(&file).ok()?;
    let _ = std::fs::remove_file(&file);
    let asked: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let text = |name: &str| asked.get(name)?.as_str().map(str::to_owned);
    Some(Added {
        number: usize::try_from(asked.get("node")?.as_u64()?).ok()?,
        listens: text("listen")?,
        arguments: vec![
            "--join".to_owned(),
            text("join")?,
            "--token".to_owned(),
            text("token")?,
            "--listen".to_owned(),
            text("listen")?,
            "--set".to_owned(),
            format!("cluster.listen={}", text("mesh")?),
        ],
    })
}

/// A node that joins a demo.
struct Added {
    number: usize,
    listens: String,
    arguments: Vec<String>,
}

/// The processes.
#[derive(Default)]
struct Nodes(Vec<Option<Child>>);

impl Nodes {
    /// Starts all, tells how to go on, and looks after them.
    async fn run(&mut self, root: &Path, demo: &Demo, kept: &[Kept]) -> Result<(), DemoError> {
        for own in kept.iter().filter_map(|(_, membership)| membership.own()) {
            // Whoever is there would answer for the node.
            let tried = TcpListener::bind(own.clients);
            if tried.is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
                return Err(DemoError::Taken(own.clients));
            }
        }
        let program = std::env::current_exe().map_err(DemoError::Process)?;
        let start = |number: usize, dashboard: Option<SocketAddr>, arguments: &[String]| {
            let mut command = Command::new(&program);
            command.arg("start").arg("--data-dir").arg(folder_of(root, number));
            let dashboard = dashboard.map(|at| at.to_string()).unwrap_or_default();
            command.args(["--set", &format!("metrics.listen={dashboard}")]).args(arguments);
            for set in &demo.sets {
                command.args(["--set", set]);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.spawn().map_err(DemoError::Process)
        };
        let mut dashboards = Vec::new();
        for (number, membership) in kept {
            let dashboard = membership.own().and_then(|own| dashboard_of(own.clients));
            dashboards.extend(dashboard);
            self.put(*number, start(*number, dashboard, &[])?);
        }
        let begun = world::now();
        for (number, membership) in kept {
            let Some(own) = membership.own() else { continue };
            while !answers(own.clients) {
                self.ensure_all_run()?;
                if world::now().duration_since(begun) > STARTS_WITHIN {
                    return Err(DemoError::Silent(*number));
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            let pid = self.0.get(number - 1).and_then(Option::as_ref).map_or(0, Child::id);
            let folder = folder_of(root, *number);
            tell(&format!("node {number}: pid {pid}, {}, {}\n", own.clients, folder.display()));
        }
        // Where the first one that is there listens: what was kept counts, not what was asked for.
        let first = kept.first().and_then(|(_, it)| it.own()).map(|own| own.clients);
        let first = first.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, demo.port)));
        let dashboard = match dashboards.first() {
            Some(at) => format!("dashboard: http://{at}/\n"),
            None => String::new(),
        };
        tell(&format!(
            "connect with: helenus cql {first}\n\
             {dashboard}\
             a node that ended is started again with: helenus start --data-dir {}/nodeN\n\
             stop with Ctrl-C\n",
            root.display()
        ));
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if let Some(Added { number, listens, arguments }) = asked_to_add(root) {
                let dashboard = listens.parse().ok().and_then(dashboard_of);
                let node = start(number, dashboard, &arguments)?;
                let folder = folder_of(root, number);
                let (pid, folder) = (node.id(), folder.display());
                tell(&format!("node {number}: pid {pid}, {listens}, {folder}\n"));
                self.put(number, node);
            }
            for (place, node) in self.0.iter_mut().enumerate() {
                if let Some(Ok(Some(status))) = node.as_mut().map(Child::try_wait) {
                    *node = None;
                    tell(&format!("node {} ended: {status}\n", place + 1));
                }
            }
        }
    }

    fn put(&mut self, number: usize, node: Child) {
        self.0.resize_with(self.0.len().max(number), || None);
        if let Some(place) = number.checked_sub(1).and_then(|place| self.0.get_mut(place)) {
            *place = Some(node);
        }
    }

    /// None has ended. Without one the others may wait for it.
    fn ensure_all_run(&mut self) -> Result<(), DemoError> {
        for (place, node) in self.0.iter_mut().enumerate() {
            let Some(node) = node else { continue };
            match node.try_wait() {
                Ok(Some(status)) => return Err(DemoError::Ended(place + 1, status.to_string())),
                Ok(None) => {}
                Err(error) => return Err(DemoError::Process(error)),
            }
        }
        Ok(())
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

/// Where the metrics and the dashboard of a node are: nowhere, if something else is there.
fn dashboard_of(clients: SocketAddr) -> Option<SocketAddr> {
    let address = dashboard_beside(clients)?;
    TcpListener::bind(address).is_ok().then_some(address)
}

/// Where a node of a demo has its dashboard, by where its clients connect; none of one that others than this machine reach.
pub(crate) fn dashboard_beside(clients: SocketAddr) -> Option<SocketAddr> {
    let port = clients.port().checked_add(DASHBOARD_OFFSET)?;
    clients.ip().is_loopback().then(|| SocketAddr::new(clients.ip(), port))
}

/// Whether a node answers its clients: it listens before it does.
fn answers(address: SocketAddr) -> bool {
    // OPTIONS of version 4.
    const QUESTION: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWERS_WITHIN)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_is_beside_the_clients_of_its_node() {
        let beside = |text: &str| dashboard_beside(text.parse().unwrap()).map(|it| it.to_string());
        assert_eq!(beside("127.0.0.3:9042").as_deref(), Some("127.0.0.3:9180"));
        assert_eq!(beside("127.0.0.1:21100").as_deref(), Some("127.0.0.1:21238"));
        assert_eq!(beside("10.0.0.1:9042"), None);
        assert_eq!(beside("127.0.0.1:65500"), None);
    }
}
