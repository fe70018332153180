//! One other node: what waits for it, which connection from it counts, and what was counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;
use replica::group::{KINDS_FIRST, NodeMessage};
use tokio::sync::{Notify, oneshot};
use types::NodeId;

use super::lanes::{Lane, PerLane};
use super::queue::{Piece, Queue};
use super::wire::Wire;
use super::{LaneStatus, PeerAddress, PeerStatus, Receiver};
use crate::Fingerprint;

/// No round trip was measured.
const UNMEASURED: u64 = u64::MAX;

pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) fingerprint: Fingerprint,
    address: Mutex<SocketAddr>,
    receiver: Arc<dyn Receiver>,
    queue: Mutex<Queue>,
    /// The connection that the queue is written to.
    wire: Mutex<Option<Arc<Wire>>>,
    /// Something was put into the queue.
    wake: Notify,
    /// The node made a connection to this one.
    came: Notify,
    hearing: Mutex<Hearing>,
    /// The last kind of message that it knows: what it told when it was connected to, or what it sent itself.
    kinds_known: AtomicU8,
    /// Dropped to end the task that keeps the link to the node.
    link: Mutex<Option<oneshot::Sender<()>>>,
    counted: Counted,
}

/// Which of the connections from the node is listened to.
#[derive(Default)]
struct Hearing {
    /// Of the last one that was accepted.
    number: u64,
    /// Dropped to end it; `None` if there is none.
    current: Option<oneshot::Sender<()>>,
    /// The node does not belong to the cluster any more.
    has_ended: bool,
}

#[derive(Default)]
struct Counted {
    is_heard: AtomicBool,
    round_trip_us: AtomicU64,
    sent_frames: AtomicU64,
    received_bytes: AtomicU64,
    received_frames: AtomicU64,
    connects: AtomicU64,
    lanes: PerLane<LaneCounted>,
}

#[derive(Default)]
struct LaneCounted {
    sent_bytes: AtomicU64,
    plain_bytes: AtomicU64,
    dropped: AtomicU64,
}

impl Peer {
    /// With what ends the task that keeps the link to it.
    pub(crate) fn new(
        named: &PeerAddress,
        receiver: &Arc<dyn Receiver>,
    ) -> (Arc<Peer>, oneshot::Receiver<()>) {
        let (link, ended) = oneshot::channel();
        let counted = Counted { round_trip_us: AtomicU64::new(UNMEASURED), ..Counted::default() };
        let peer = Peer {
            node: named.node,
            fingerprint: named.fingerprint,
            address: Mutex::new(named.address),
            receiver: Arc::clone(receiver),
            queue: Mutex::default(),
            wire: Mutex::default(),
            wake: Notify::new(),
            came: Notify::new(),
            hearing: Mutex::default(),
            kinds_known: AtomicU8::new(KINDS_FIRST),
            link: Mutex::new(Some(link)),
            counted,
        };
        (Arc::new(peer), ended)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        *self.address.lock()
    }

    pub(crate) fn set_address(&self, address: SocketAddr) {
        *self.address.lock() = address;
    }

    /// The node does not belong to the cluster any more. That its connections broke is told by their own tasks: whoever calls this may hold
    /// what the receiver wants.
    pub(crate) fn end(&self) {
        *self.link.lock() = None;
        let mut hearing = self.hearing.lock();
        hearing.has_ended = true;
        hearing.current = None;
        self.counted.is_heard.store(false, Ordering::Relaxed);
    }

    /// Whether there is a connection to write to. If not, it is remembered that something would have been sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.queue.lock().would_lose()
    }

    pub(crate) fn queue(&self, lane: Lane, frame: Vec<u8>, messages: u64, bytes_max: usize) {
        if !self.queue.lock().push(lane, frame, messages, bytes_max) {
            self.count_dropped(lane, messages);
        }
    }

    pub(crate) fn count_dropped(&self, lane: Lane, messages: u64) {
        self.counted.lanes.of(lane).dropped.fetch_add(messages, Ordering::Relaxed);
    }

    /// Writes what was put into the queue, or has the link's task write it.
    pub(crate) fn write_or_wake(&self) {
        let wire = self.wire.lock().clone();
        if !wire.is_some_and(|wire| wire.write_little(self)) {
            self.wake.notify_one();
        }
    }

    /// Whether what waits is no more than so many bytes, and nothing of it takes time to be packed.
    pub(crate) fn waits_little(&self, bytes_max: usize) -> bool {
        let sizes = self.queue.lock().sizes();
        let bytes: usize = Lane::ALL.into_iter().map(|lane| sizes.of(lane).bytes).sum();
        bytes <= bytes_max && sizes.of(Lane::Bulk).bytes == 0
    }

    /// Waits until the node made a connection to this one: it can be reached, whatever it was before.
    pub(crate) async fn came(&self) {
        self.came.notified().await;
    }

    /// Waits until something may have been put into the queue.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Whether a kind of messages may be sent to it.
    pub(crate) fn knows(&self, kind: u8) -> bool {
        kind <= self.kinds_known.load(Ordering::Relaxed)
    }

    /// It was connected to, and told what it knows; nothing where it is older than that.
    pub(crate) fn tell_kinds(&self, told: Option<u8>) {
        self.kinds_known.store(told.unwrap_or(KINDS_FIRST), Ordering::Relaxed);
    }

    /// A connection to the node was made: from now on it is written to, until what this returns is dropped.
    pub(crate) fn begin_link(self: &Arc<Peer>, wire: &Arc<Wire>) -> LinkGuard {
        let has_lost = self.queue.lock().open();
        *self.wire.lock() = Some(Arc::clone(wire));
        self.counted.connects.fetch_add(1, Ordering::Relaxed);
        if has_lost {
            self.receiver.link_broke(self.node);
        }
        LinkGuard(Arc::clone(self))
    }

    /// What is to be written next.
    pub(crate) fn next_piece(&self) -> Option<Piece> {
        self.queue.lock().pop()
    }

    /// A piece was handed to the system.
    pub(crate) fn note_written(&self, piece: &Piece) {
        self.queue.lock().written(piece);
        for lane in Lane::ALL {
            let plain_bytes = piece.shares.of(lane).bytes as u64;
            let sent_bytes = piece.written_bytes(lane) as u64;
            let counted = self.counted.lanes.of(lane);
            counted.plain_bytes.fetch_add(plain_bytes, Ordering::Relaxed);
            counted.sent_bytes.fetch_add(sent_bytes, Ordering::Relaxed);
        }
        self.counted.sent_frames.fetch_add(piece.frames, Ordering::Relaxed);
    }

    pub(crate) fn set_round_trip(&self, round_trip_us: u64) {
        self.counted.round_trip_us.store(round_trip_us, Ordering::Relaxed);
    }

    /// A connection from the node was accepted: from now on it counts, and no older one. `None` if the node does not belong to the
    /// cluster any more. The receiver of it ends when it does not count any more.
    pub(crate) fn begin_hearing(self: &Arc<Peer>) -> Option<(HearingGuard, oneshot::Receiver<()>)> {
        let (current, ended) = oneshot::channel();
        let mut hearing = self.hearing.lock();
        if hearing.has_ended {
            return None;
        }
        hearing.number += 1;
        let number = hearing.number;
        let is_anew = hearing.current.replace(current).is_some();
        // Set and told before the lock is given up: nothing of the new connection is received before it is known that the old one broke.
        self.counted.is_heard.store(true, Ordering::Relaxed);
        if is_anew {
            self.receiver.link_broke(self.node);
        }
        drop(hearing);
        self.came.notify_one();
        Some((HearingGuard { peer: Arc::clone(self), number }, ended))
    }

    pub(crate) fn count_received(&self, bytes: u64) {
        self.counted.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn status(&self) -> PeerStatus {
        let queue = self.queue.lock();
        let (sizes, connected) = (queue.sizes(), queue.is_open());
        drop(queue);
        let counted = &self.counted;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut lanes = counted.lanes.map(|lane| LaneStatus {
            sent_bytes: read(&lane.sent_bytes),
            plain_bytes: read(&lane.plain_bytes),
            dropped: read(&lane.dropped),
            ..LaneStatus::default()
        });
        for lane in Lane::ALL {
            let (status, size) = (lanes.of_mut(lane), sizes.of(lane));
            status.queued_bytes = size.bytes as u64;
            status.queued_messages = size.messages;
        }
        let sum =
            |of: fn(&LaneStatus) -> u64| Lane::ALL.into_iter().map(|it| of(lanes.of(it))).sum();
        let round_trip_us = Some(read(&counted.round_trip_us));
        PeerStatus {
            node: self.node,
            address: self.address(),
            fingerprint: self.fingerprint,
            connected,
            heard: counted.is_heard.load(Ordering::Relaxed),
            round_trip_us: round_trip_us.filter(|measured| *measured != UNMEASURED),
            queued_bytes: sum(|lane| lane.queued_bytes),
            queued_messages: sum(|lane| lane.queued_messages),
            sent_bytes: sum(|lane| lane.sent_bytes),
            sent_frames: read(&counted.sent_frames),
            received_bytes: read(&counted.received_bytes),
            received_frames: read(&counted.received_frames),
            dropped: sum(|lane| lane.dropped),
            reconnects: read(&counted.connects).saturating_sub(1),
            lanes,
        }
    }
}

/// A connection to a node; however it ends, what waits for it is lost and that is told.
pub(crate) struct LinkGuard(Arc<Peer>);

impl Drop for LinkGuard {
    fn drop(&mut self) {
        let LinkGuard(peer) = self;
        // Before another connection can be made: nothing that waits for that one is written to this one.
        if let Some(wire) = peer.wire.lock().take() {
            wire.end();
        }
        let lost = peer.queue.lock().close();
        Lane::ALL.into_iter().for_each(|lane| peer.count_dropped(lane, *lost.of(lane)));
        peer.set_round_trip(UNMEASURED);
        peer.receiver.link_broke(peer.node);
    }
}

/// A connection from a node; however it ends, that is told.
pub(crate) struct HearingGuard {
    peer: Arc<Peer>,
    number: u64,
}

impl HearingGuard {
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Hands messages over; `false` if this connection does not count any more. The lock is held until the receiver has them, so that messages of an
    /// old connection never come behind those of the next one, and none come from a node that was removed.
    pub(crate) fn deliver(&self, messages: Vec<NodeMessage>) -> bool {
        let peer = &self.peer;
        let hearing = peer.hearing.lock();
        if hearing.number != self.number || hearing.current.is_none() {
            return false;
        }
        peer.counted.received_frames.fetch_add(1, Ordering::Relaxed);
        // Who sends notes knows them.
        if let Some(kind) = messages.iter().map(NodeMessage::kind).max()
            && !peer.knows(kind)
        {
            peer.kinds_known.fetch_max(kind, Ordering::Relaxed);
        }
        peer.receiver.receive(peer.node, messages);
        true
    }

    /// What was handed over is seen to, all that came together at once: each time may cost a turn of the members, and a sync.
    pub(crate) fn attend(&self) {
        self.peer.receiver.attend();
    }
}

impl Drop for HearingGuard {
    fn drop(&mut self) {
        let peer = &self.peer;
        let mut hearing = peer.hearing.lock();
        // Otherwise whoever took its place told it.
        if hearing.number == self.number {
            hearing.current = None;
            peer.counted.is_heard.store(false, Ordering::Relaxed);
            drop(hearing);
            peer.receiver.link_broke(peer.node);
        }
    }
}
