//! The links between the nodes of a cluster, one by one: what a node sends to another goes through a proxy that can hold it back. A
//! node sends only over connections that it dialed itself, so each way of a link is cut by itself.

#![expect(clippy::disallowed_methods, reason = "tests wait for real processes in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use crate::cluster::{Cluster, processes_of};
use crate::node::free_port_on;

/// How often it is looked whether something is cut, or all is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// A read of nothing is given up after this, so that it is looked again.
const READ_WITHIN: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 64 * 1024;

/// The proxies before the nodes of a cluster.
pub struct Links {
    shared: Arc<Shared>,
    listening: Vec<JoinHandle<()>>,
}

struct Shared {
    data_dir: PathBuf,
    /// From whom to whom nothing comes through.
    cuts: Mutex<BTreeSet<(usize, usize)>>,
    /// From whom to whom everything takes longer, and by how much.
    delays: Mutex<BTreeMap<(usize, usize), Duration>>,
    is_over: AtomicBool,
}

impl Links {
    /// Stops the nodes, and starts them again so that they reach each other through proxies only.
    pub fn open(cluster: &mut Cluster) -> io::Result<Links> {
        cluster.stop_all()?;
        let count = cluster.count();
        let port = free_port_on(u8::try_from(count).unwrap_or(u8::MAX))?;
        let shared = Arc::new(Shared {
            data_dir: cluster.data_dir().to_path_buf(),
            cuts: Mutex::default(),
            delays: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let mut links = Links { shared: Arc::clone(&shared), listening: Vec::new() };
        for node in 1..=count {
            let known: SocketAddr = cluster.mesh_address(node).parse().map_err(io::Error::other)?;
            let own = SocketAddr::new(known.ip(), port);
            let listener = TcpListener::bind(known)?;
            listener.set_nonblocking(true)?;
            let shared = Arc::clone(&shared);
            links.listening.push(std::thread::spawn(move || shared.listen(&listener, own, node)));
            let mut start = cluster.start_of(node)?;
            start.settings.push(format!("cluster.listen={own}"));
            cluster.set_start(node, start)?;
        }
        cluster.restart_all()?;
        Ok(links)
    }

    /// Nothing that a node sends to another arrives any more, and nothing is said of it.
    pub fn cut(&self, from: usize, to: usize) {
        self.shared.cuts().insert((from, to));
    }

    /// Neither way.
    pub fn cut_both(&self, one: usize, other: usize) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Whatever a node sends to another takes so much longer.
    pub fn slow(&self, from: usize, to: usize, delay: Duration) {
        self.shared.delays().insert((from, to), delay);
    }

    /// What a node sends to another comes through again, as fast as it can.
    pub fn mend_way(&self, from: usize, to: usize) {
        self.shared.cuts().remove(&(from, to));
        self.shared.delays().remove(&(from, to));
    }

    /// Everything comes through again.
    pub fn mend(&self) {
        self.shared.cuts().clear();
        self.shared.delays().clear();
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for listening in self.listening.drain(..) {
            let _ = listening.join();
        }
    }
}

impl Shared {
    fn cuts(&self) -> MutexGuard<'_, BTreeSet<(usize, usize)>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delays(&self) -> MutexGuard<'_, BTreeMap<(usize, usize), Duration>> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cut(&self, way: (usize, usize)) -> bool {
        self.cuts().contains(&way)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn listen(self: &Arc<Shared>, listener: &TcpListener, own: SocketAddr, to: usize) {
        while !self.is_over() {
            match listener.accept() {
                Ok((stream, from)) => {
                    let shared = Arc::clone(self);
                    std::thread::spawn(move || {
                        // Whoever dialed dials again.
                        let _ = shared.carry(stream, from, own, to);
                    });
                }
                Err(_) => sleep(LOOK_INTERVAL),
            }
        }
    }

    fn carry(
        self: &Arc<Shared>,
        dialed: TcpStream,
        from: SocketAddr,
        own: SocketAddr,
        to: usize,
    ) -> io::Result<()> {
        dialed.set_nonblocking(false)?;
        let dialer = self.dialer(from, dialed.local_addr()?).ok_or(ErrorKind::NotFound)?;
        let way = (dialer, to);
        while self.is_cut(way) {
            if self.is_over() {
                return Ok(());
            }
            sleep(LOOK_INTERVAL);
        }
        let node = TcpStream::connect(own)?;
        for stream in [&dialed, &node] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(READ_WITHIN))?;
        }
        let (back_from, back_to) = (node.try_clone()?, dialed.try_clone()?);
        let shared = Arc::clone(self);
        let back = std::thread::spawn(move || shared.pump(back_from, back_to, way));
        self.pump(dialed, node, way);
        let _ = back.join();
        Ok(())
    }

    /// What comes from one side goes to the other, unless the link is cut: then it stays where it is.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, way: (usize, usize)) {
        let mut bytes = vec![0; CHUNK_BYTES];
        while !self.is_over() {
            if self.is_cut(way) {
                sleep(LOOK_INTERVAL);
                continue;
            }
            let read = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(_) => break,
            };
            let delay = self.delays().get(&way).copied();
            if let Some(delay) = delay {
                sleep(delay);
            }
            // What was read when the link was cut is held until it is not.
            while self.is_cut(way) && !self.is_over() {
                sleep(LOOK_INTERVAL);
            }
            if to.write_all(bytes.get(..read).unwrap_or_default()).is_err() {
                break;
            }
        }
        for stream in [&from, &to] {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// The node that a connection comes from: the kernel knows whose socket it is. Several sockets may have one port, of other
    /// hosts or to other ones.
    fn dialer(&self, from: SocketAddr, to: SocketAddr) -> Option<usize> {
        let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
        let ends = [as_the_kernel_tells(from)?, as_the_kernel_tells(to)?];
        let inode = table.lines().skip(1).find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.get(1..3)? == ends).then(|| words.get(9).map(|it| it.to_string()))?
        })?;
        let socket = format!("socket:[{inode}]");
        let has_it = |process: &u32| {
            let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
            files.flatten().any(|file| {
                std::fs::read_link(file.path()).is_ok_and(|it| it.as_os_str() == socket.as_str())
            })
        };
        let process = processes_of(&self.data_dir).into_iter().find(has_it)?;
        let line = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
        let words = line.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok());
        let mut folders = words.filter_map(|word| word.rsplit_once("/node"));
        folders.find_map(|(_, number)| number.parse().ok())
    }
}

/// An address as `/proc/net/tcp` has it: 127.0.0.1:9042 is `0100007F:2352`.
fn as_the_kernel_tells(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port()))
}
