//! Links between the nodes of a cluster: mutual TLS with pinned keys, whole messages, in order or lost.
//!
//! Each node dials every other: over the connection that it made it speaks, over those that it accepted it listens. So there is one
//! connection for each ordered pair of nodes, and in each one order of messages for each of three lanes. Nothing is repeated: what does not fit, or
//! was on its way when a connection broke, is lost. Consensus and coordinators ask again by themselves.

mod ask;
mod desk;
pub mod frame;
mod hearing;
mod hello;
pub mod join;
pub mod lanes;
mod link;
pub mod pack;
mod peer;
mod queue;
mod told;
mod trust;
mod wire;

#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod join_tests;
#[cfg(test)]
mod kinds_tests;
#[cfg(test)]
mod lanes_tests;
#[cfg(test)]
mod pack_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use replica::group::NodeMessage;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use types::NodeId;

use crate::{Fingerprint, Identity};
pub use ask::{JoinError, ask_to_join};
pub use desk::{JOIN_ANSWER_MAX, JOIN_FRAME_MAX, JoinDesk, STRANGERS_MAX};
use frame::{FrameWriter, LENGTH_BYTES};
use hello::{Hello, MESH_VERSION};
use lanes::{Lane, PerLane};
use peer::Peer;
use queue::PIECE_BYTES;
use told::{Subject, Told};
use trust::Pinned;

/// No bound lets a frame be longer: its length has four bytes.
const FRAME_BYTES_LIMIT: usize = i32::MAX as usize;

/// A node that belongs to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Which.
    pub node: NodeId,
    /// Where it listens for other nodes. Another one counts from the next time that it is dialed.
    pub address: SocketAddr,
    /// Its key.
    pub fingerprint: Fingerprint,
}

/// Who takes what other nodes say. It is called by the tasks of the mesh, for one node by one at a time, and must neither wait nor call
/// [`Mesh::set_peers`] or [`Mesh::close`].
pub trait Receiver: Send + Sync + 'static {
    /// Messages of one frame, in their order.
    fn receive(&self, from: NodeId, messages: Vec<NodeMessage>);
    /// What was received can be seen to: nothing of the mesh is locked, unlike in the other calls.
    fn attend(&self);
    /// The link to or from a node broke or was made anew: what was on its way is lost.
    fn link_broke(&self, node: NodeId);
}

/// How long anything may take or be.
#[derive(Clone, Copy, Debug)]
pub struct MeshBounds {
    /// Bytes that wait to be written to one node, of consensus and of requests each. More is dropped.
    pub queue_bytes_max: usize,
    /// Bytes that wait to be written to one node of the rows of whole sets; one frame fits in any case. More is dropped.
    pub bulk_bytes_max: usize,
    /// Bytes of one frame. A larger one ends the connection that it comes from; a message that does not fit into one is dropped. It must
    /// be larger than what one write may take (half of `storage.log_segment`), and no larger than the queue.
    pub frame_bytes_max: usize,
    /// Connections that are being accepted at once, and that are being dialed at once.
    pub handshakes_max: usize,
    /// How long a node may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long handshake and hello may take.
    pub handshake_timeout: Duration,
    /// Those who are not known and ask to join, or do not say yet what they want, at once. Further ones are closed at once.
    pub strangers_max: usize,
    /// How long such a one may take from connecting to the end of its question, and to take its answer.
    pub join_frame_max: Duration,
    /// How long it may take to decide about it.
    pub join_answer_max: Duration,
    /// How long to wait after the first failed attempt to reach a node; twice as long after each further one ...
    pub backoff_min: Duration,
    /// ... up to this.
    pub backoff_max: Duration,
    /// How often the round trip is measured, on each connection.
    pub probe_every: Duration,
    /// A connection on which nothing moves for so long is given up.
    pub silence_max: Duration,
    /// That a node cannot be reached or is refused is said this often at most, for each node or address and each reason.
    pub told_every: Duration,
}

impl MeshBounds {
    fn lane_bytes_max(&self, lane: Lane) -> usize {
        match lane {
            Lane::Consensus | Lane::Requests => self.queue_bytes_max,
            Lane::Bulk => self.bulk_bytes_max,
        }
    }
}

impl Default for MeshBounds {
    fn default() -> MeshBounds {
        MeshBounds {
            queue_bytes_max: 64 * 1024 * 1024,
            bulk_bytes_max: 16 * 1024 * 1024,
            frame_bytes_max: 48 * 1024 * 1024,
            handshakes_max: 8,
            connect_timeout: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(5),
            strangers_max: STRANGERS_MAX,
            join_frame_max: JOIN_FRAME_MAX,
            join_answer_max: JOIN_ANSWER_MAX,
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(1),
            probe_every: Duration::from_secs(1),
            silence_max: Duration::from_secs(10),
            told_every: Duration::from_secs(60),
        }
    }
}

/// Who this node is.
#[derive(Debug)]
pub struct MeshOptions {
    /// Nodes of other clusters are refused.
    pub cluster_id: u128,
    /// This node.
    pub own: NodeId,
    /// Its key.
    pub identity: Identity,
    /// How long anything may take or be.
    pub bounds: MeshBounds,
}

/// How the links to and from a node are.
#[derive(Clone, Copy, Debug)]
pub struct PeerStatus {
    /// Which node.
    pub node: NodeId,
    /// Where it is dialed.
    pub address: SocketAddr,
    /// Its key.
    pub fingerprint: Fingerprint,
    /// Whether there is a connection to it.
    pub connected: bool,
    /// Whether there is a connection from it.
    pub heard: bool,
    /// How long something took there and back, in microseconds, when it was last measured on the connection that there is.
    pub round_trip_us: Option<u64>,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
    /// Messages that wait to be written.
    pub queued_messages: u64,
    /// Bytes that were written, before encryption.
    pub sent_bytes: u64,
    /// Frames of messages that were written.
    pub sent_frames: u64,
    /// Bytes that came, after decryption.
    pub received_bytes: u64,
    /// Frames of messages that came.
    pub received_frames: u64,
    /// Messages that were not sent: there was no connection, no room, or the connection broke.
    pub dropped: u64,
    /// How often a connection to it was made after the first.
    pub reconnects: u64,
    /// Of what is told above, how much is of each lane.
    pub lanes: PerLane<LaneStatus>,
}

/// How a lane of a link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStatus {
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
    /// Messages that wait to be written.
    pub queued_messages: u64,
    /// Bytes that were written, before encryption.
    pub sent_bytes: u64,
    /// ... and before they were packed.
    pub plain_bytes: u64,
    /// Messages that were not sent.
    pub dropped: u64,
}

/// What all tasks share.
struct Shared {
    own: NodeId,
    hello: Hello,
    identity: Identity,
    bounds: MeshBounds,
    receiver: Arc<dyn Receiver>,
    /// Read by whoever sends; replaced whole, by one at a time (see `changing`).
    peers: ArcSwap<BTreeMap<NodeId, Arc<Peer>>>,
    pinned: Pinned,
    /// Who decides about those who are not known. Without it they are refused in the handshake.
    desk: Mutex<Option<Arc<dyn JoinDesk>>>,
    has_desk: Arc<AtomicBool>,
    /// Places of those who are not known.
    strangers: Arc<Semaphore>,
    /// Held while peers change, with whether there may be any.
    changing: Mutex<bool>,
    closed: watch::Sender<bool>,
    dials: Semaphore,
    told: Told,
    /// Round trips are counted from here.
    started: Instant,
    /// Where tasks run: peers may be set from a thread of another kind.
    runtime: Handle,
}

/// The links of this node. They end with it.
pub struct Mesh {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mesh { shared, address } = self;
        f.debug_struct("Mesh").field("own", &shared.own).field("address", address).finish()
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.close();
    }
}

impl Mesh {
    /// Listens. Must be called inside a tokio runtime with time and sockets; nobody is known before [`Mesh::set_peers`].
    pub fn open(
        options: MeshOptions,
        listener: std::net::TcpListener,
        receiver: Arc<dyn Receiver>,
    ) -> io::Result<Arc<Mesh>> {
        let MeshOptions { cluster_id, own, identity, mut bounds } = options;
        bounds.frame_bytes_max = bounds.frame_bytes_max.min(FRAME_BYTES_LIMIT);
        // What fits into a frame fits into an empty queue.
        bounds.queue_bytes_max = bounds.queue_bytes_max.max(bounds.frame_bytes_max + LENGTH_BYTES);
        let pinned = Pinned::default();
        let has_desk = Arc::<AtomicBool>::default();
        let config = trust::accepting(&identity, Arc::clone(&pinned), Arc::clone(&has_desk));
        let config = config.map_err(io::Error::other)?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            own,
            hello: Hello { version: MESH_VERSION, cluster_id, node: own, refusal: None },
            identity,
            bounds,
            receiver,
            peers: ArcSwap::default(),
            pinned,
            desk: Mutex::default(),
            has_desk,
            strangers: Arc::new(Semaphore::new(bounds.strangers_max)),
            changing: Mutex::new(true),
            closed: watch::Sender::new(false),
            dials: Semaphore::new(bounds.handshakes_max),
            told: Told::new(bounds.told_every),
            started: Instant::now(),
            runtime: Handle::current(),
        });
        tokio::spawn(hearing::accept(Arc::clone(&shared), listener, Arc::new(config)));
        Ok(Arc::new(Mesh { shared, address }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who belongs to the cluster from now on; connections of nodes no longer named, or with another key, end. When this returns, nothing is
    /// received from those any more. This node itself may be among them.
    pub fn set_peers(&self, peers: Vec<PeerAddress>) {
        let shared = &self.shared;
        let may_change = shared.changing.lock();
        if *may_change {
            shared.replace_peers(&peers);
        }
    }

    /// From now on those whose key is not pinned may ask to join, and nothing else. Before, they are refused.
    pub fn set_join_desk(&self, desk: Arc<dyn JoinDesk>) {
        let shared = &self.shared;
        let may_change = shared.changing.lock();
        if *may_change {
            *shared.desk.lock() = Some(desk);
            shared.has_desk.store(true, Ordering::Release);
        }
    }

    /// Never waits. What does not fit into the peer's queue is dropped and counted. What is sent to a node that does not belong to
    /// the cluster is dropped.
    pub fn send(&self, to: NodeId, message: NodeMessage) {
        self.send_all(vec![(to, message)]);
    }

    /// All messages of one turn, grouped by node and lane, one frame each, or more if they are many. Never waits.
    pub fn send_all(&self, messages: Vec<(NodeId, NodeMessage)>) {
        let peers = self.shared.peers.load();
        let mut batches: BTreeMap<NodeId, Batch<'_>> = BTreeMap::new();
        for (node, message) in messages {
            let Some(peer) = peers.get(&node) else { continue };
            batches.entry(node).or_insert_with(|| Batch::new(peer, &self.shared)).add(&message);
        }
        batches.into_values().for_each(Batch::finish);
    }

    /// Whether a node may know a kind of messages. Where it is connected to, what it does not know is not sent to it.
    pub fn knows(&self, node: NodeId, kind: u8) -> bool {
        let peers = self.shared.peers.load();
        peers.get(&node).is_none_or(|peer| peer.knows(kind) || !peer.status().connected)
    }

    /// How the links are, in the order of the nodes.
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.shared.peers.load().values().map(|peer| peer.status()).collect()
    }

    /// Ends all connections and listens no more. Nothing is received when this returns.
    pub fn close(&self) {
        let mut may_change = self.shared.changing.lock();
        *may_change = false;
        self.shared.closed.send_replace(true);
        self.shared.has_desk.store(false, Ordering::Release);
        // It may hold whoever holds this mesh. Dropped when the lock is given up.
        let _desk = self.shared.desk.lock().take();
        self.shared.replace_peers(&[]);
    }
}

impl Shared {
    /// Called by one at a time.
    fn replace_peers(self: &Arc<Shared>, named: &[PeerAddress]) {
        let before = self.peers.load_full();
        let mut peers = BTreeMap::new();
        let mut links = Vec::new();
        for named in named.iter().filter(|named| named.node != self.own) {
            let kept = before.get(&named.node).filter(|peer| peer.fingerprint == named.fingerprint);
            let peer = match kept {
                Some(peer) => {
                    peer.set_address(named.address);
                    Arc::clone(peer)
                }
                None => {
                    let (peer, ended) = Peer::new(named, &self.receiver);
                    links.push((Arc::clone(&peer), ended));
                    peer
                }
            };
            peers.insert(named.node, peer);
        }
        self.pinned.store(Arc::new(peers.values().map(|peer| peer.fingerprint).collect()));
        self.peers.store(Arc::new(peers));
        let peers = self.peers.load();
        let is_kept =
            |peer: &Arc<Peer>| peers.get(&peer.node).is_some_and(|it| Arc::ptr_eq(it, peer));
        before.values().filter(|peer| !is_kept(peer)).for_each(|peer| peer.end());
        // Of a node that was named twice the last counts.
        for (peer, ended) in links.into_iter().filter(|(peer, _)| is_kept(peer)) {
            self.runtime.spawn(link::keep(Arc::clone(self), peer, ended));
        }
    }
}

/// Messages of one turn for one node.
struct Batch<'a> {
    peer: &'a Peer,
    shared: &'a Shared,
    /// `None` if there is no connection: then nothing needs to be encoded.
    frames: Option<PerLane<FrameWriter>>,
}

impl<'a> Batch<'a> {
    fn new(peer: &'a Peer, shared: &'a Shared) -> Batch<'a> {
        Batch { peer, shared, frames: peer.is_sending().then(PerLane::default) }
    }

    fn add(&mut self, message: &NodeMessage) {
        let Batch { peer, shared, frames } = self;
        let lane = Lane::of(message);
        let Some(frames) = frames else { return peer.count_dropped(lane, 1) };
        if !peer.knows(message.kind()) {
            return;
        }
        let frame = frames.of_mut(lane);
        let frame_bytes_max = shared.bounds.frame_bytes_max;
        if !frame.push(message, frame_bytes_max) {
            queue_frame(peer, lane, frame, shared);
            if !frame.push(message, frame_bytes_max) {
                peer.count_dropped(lane, 1);
                if shared.told.is_new(Subject::Node(peer.node), "too large") {
                    tracing::error!(peer = %peer.node, frame_bytes_max, "a message is too large to be sent");
                }
            }
        }
        // A frame goes as a whole, and others wait meanwhile.
        if frame.bytes() >= PIECE_BYTES {
            queue_frame(peer, lane, frame, shared);
        }
    }

    fn finish(mut self) {
        if let Some(frames) = &mut self.frames {
            for lane in Lane::ALL {
                queue_frame(self.peer, lane, frames.of_mut(lane), self.shared);
            }
            self.peer.write_or_wake();
        }
    }
}

fn queue_frame(peer: &Peer, lane: Lane, frame: &mut FrameWriter, shared: &Shared) {
    if let Some((bytes, count)) = frame.take() {
        peer.queue(lane, bytes, u64::from(count), shared.bounds.lane_bytes_max(lane));
    }
}
