//! The connection to one node: dialed, written to until it breaks, and dialed again.

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::{IpAddr, ServerName};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Shared;
use super::frame::{Frame, FrameError, FrameReader, PROBE_FRAME_BYTES, probe_frame};
use super::hello::{Hello, Refusal};
use super::peer::Peer;
use super::queue::PIECE_BYTES;
use super::told::Subject;
use super::trust;
use super::wire::{Wire, Written};

/// Nodes are started together, or one after the other: that one cannot be reached yet, or does not know this one yet, is not told of
/// before this.
pub(super) const STARTING: Duration = Duration::from_secs(2);

/// Why there is no connection to a node.
#[derive(Debug)]
enum LinkError {
    Unreachable(io::Error),
    HandshakeFailed(io::Error),
    TooSlow,
    /// This node does not want the other.
    Refused(Refusal),
    /// The other does not want this node.
    Unwanted(Refusal),
    Broke(io::Error),
    Malformed(FrameError),
    Silent,
}

impl LinkError {
    /// What is told only once in a while, in short.
    fn kind(&self) -> &'static str {
        match self {
            LinkError::Unreachable(_) => "unreachable",
            LinkError::HandshakeFailed(_) => "handshake",
            LinkError::TooSlow => "slow",
            LinkError::Refused(_) => "refused",
            LinkError::Unwanted(_) => "unwanted",
            LinkError::Broke(_) => "broke",
            LinkError::Malformed(_) => "malformed",
            LinkError::Silent => "silent",
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Unreachable(error) => write!(f, "it cannot be reached: {error}"),
            LinkError::HandshakeFailed(error) => write!(f, "the handshake failed: {error}"),
            LinkError::TooSlow => f.write_str("connecting took too long"),
            LinkError::Refused(why) => write!(f, "it is refused: {why}"),
            LinkError::Unwanted(why) => write!(f, "it refuses this node: {why}"),
            LinkError::Broke(error) => write!(f, "the connection broke: {error}"),
            LinkError::Malformed(error) => write!(f, "{error}"),
            LinkError::Silent => f.write_str("nothing moves on the connection"),
        }
    }
}

/// Keeps a connection to a node until `ended`.
pub(crate) async fn keep(shared: Arc<Shared>, peer: Arc<Peer>, mut ended: oneshot::Receiver<()>) {
    let config = match trust::dialing(&shared.identity, peer.fingerprint) {
        Ok(config) => Arc::new(config),
        // The key was looked at when it was made or read.
        Err(error) => return tracing::error!(%error, "this node's key cannot be used"),
    };
    let mut backoff = Backoff::new(&shared, &peer);
    let begun = Instant::now();
    loop {
        let error = tokio::select! {
            biased;
            _ = &mut ended => return,
            error = Box::pin(be_connected(&shared, &peer, &config, &mut backoff)) => error,
        };
        let is_of_starts =
            matches!(error, LinkError::Unreachable(_) | LinkError::HandshakeFailed(_));
        let is_early = is_of_starts && begun.elapsed() < STARTING;
        if !is_early && shared.told.is_new(Subject::Node(peer.node), error.kind()) {
            tracing::warn!(peer = %peer.node, address = %peer.address(), %error, "no connection to a node");
        }
        tokio::select! {
            biased;
            _ = &mut ended => return,
            () = sleep(backoff.next()) => {}
            // It is there again.
            () = peer.came() => {}
        }
    }
}

/// One connection, from dialing to its end.
async fn be_connected(
    shared: &Shared,
    peer: &Arc<Peer>,
    config: &Arc<ClientConfig>,
    backoff: &mut Backoff,
) -> LinkError {
    let stream = match dial(shared, peer, config).await {
        Ok(stream) => stream,
        Err(error) => return error,
    };
    if shared.told.is_new(Subject::Node(peer.node), "connected") {
        tracing::info!(peer = %peer.node, address = %peer.address(), "connected to a node");
    }
    let agreed = trust::agreed(stream.get_ref().1.alpn_protocol());
    peer.tell_kinds(agreed.kinds);
    let connected_at = Instant::now();
    let wire = Arc::new(Wire::new(stream, agreed.packs));
    let guard = peer.begin_link(&wire);
    let probe = Probe::default();
    let error = tokio::select! {
        biased;
        error = read_echoes(shared, peer, &probe, &wire) => error,
        error = write(shared, peer, &probe, &wire) => error,
    };
    drop(guard);
    // One that is accepted and broken again and again is no better than one that is refused.
    if connected_at.elapsed() >= shared.bounds.backoff_max {
        backoff.reset();
        shared.told.forget(Subject::Node(peer.node));
    }
    error
}

async fn dial(
    shared: &Shared,
    peer: &Peer,
    config: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, LinkError> {
    let bounds = &shared.bounds;
    // Never closed.
    let _permit = shared.dials.acquire().await;
    let address = peer.address();
    let connecting = timeout(bounds.connect_timeout, TcpStream::connect(address)).await;
    let stream = connecting.map_err(|_| LinkError::TooSlow)?.map_err(LinkError::Unreachable)?;
    stream.set_nodelay(true).map_err(LinkError::Unreachable)?;
    let greeting = async {
        let connector = TlsConnector::from(Arc::clone(config));
        let name = ServerName::IpAddress(IpAddr::from(address.ip()));
        let mut stream = connector.connect(name, stream).await?;
        stream.get_mut().1.set_buffer_limit(Some(PIECE_BYTES));
        shared.hello.write(&mut stream).await?;
        let hello = Hello::read(&mut stream).await?;
        Ok((stream, hello))
    };
    let greeted = timeout(bounds.handshake_timeout, greeting).await;
    let (stream, hello) =
        greeted.map_err(|_| LinkError::TooSlow)?.map_err(LinkError::HandshakeFailed)?;
    hello.judge(&shared.hello).map_err(LinkError::Refused)?;
    if let Some(refusal) = hello.refusal {
        return Err(LinkError::Unwanted(refusal));
    }
    match hello.node == peer.node {
        true => Ok(stream),
        false => Err(LinkError::Refused(Refusal::NotThatNode)),
    }
}

/// The probe that was sent and has not come back; its number is when it was sent.
#[derive(Default)]
struct Probe(AtomicU64);

impl Probe {
    fn sent_us(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|sent_us| *sent_us != 0)
    }

    fn set(&self, sent_us: Option<u64>) {
        self.0.store(sent_us.unwrap_or(0), Ordering::Relaxed);
    }
}

impl Shared {
    /// Microseconds since the mesh was opened, never 0.
    fn steady_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

/// The other side says nothing but echoes. Reading also tells at once when the connection is gone.
async fn read_echoes(shared: &Shared, peer: &Peer, probe: &Probe, wire: &Wire) -> LinkError {
    let mut reader = FrameReader::new(PROBE_FRAME_BYTES);
    loop {
        match wire.read(reader.room()).await {
            Ok(0) => return LinkError::Broke(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) => return LinkError::Broke(error),
        }
        loop {
            match reader.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Echo(number))) if probe.sent_us() == Some(number) => {
                    probe.set(None);
                    peer.set_round_trip(shared.steady_us().saturating_sub(number));
                }
                Ok(Some(_)) => return LinkError::Malformed(FrameError::Malformed),
                Err(error) => return LinkError::Malformed(error),
            }
        }
    }
}

/// Writes what waits and nobody else wrote, all that there is at once, and a probe from time to time.
async fn write(shared: &Shared, peer: &Peer, probe: &Probe, wire: &Wire) -> LinkError {
    let bounds = &shared.bounds;
    let mut probe_at = Instant::now();
    let mut probe_due = pin!(sleep_until(probe_at));
    loop {
        // A queue that never becomes empty is no reason not to ask.
        if Instant::now() >= probe_at {
            if let Err(error) = send_probe(shared, probe, wire) {
                return error;
            }
            probe_at = Instant::now() + bounds.probe_every;
            probe_due.as_mut().reset(probe_at);
        }
        match wire.write_all(peer) {
            Err(error) => return LinkError::Broke(error),
            Ok(Written::All) => {
                tokio::select! {
                    biased;
                    () = peer.woken() => {}
                    () = &mut probe_due => {}
                }
            }
            Ok(Written::Part) => match timeout(bounds.silence_max, wire.writable()).await {
                Err(_) => return LinkError::Silent,
                Ok(Err(error)) => return LinkError::Broke(error),
                Ok(Ok(())) => {}
            },
        }
    }
}

/// Sends a probe, unless one is on its way; that is not waited for for ever.
fn send_probe(shared: &Shared, probe: &Probe, wire: &Wire) -> Result<(), LinkError> {
    let now_us = shared.steady_us();
    match probe.sent_us() {
        Some(sent_us) => {
            let silence_max_us = shared.bounds.silence_max.as_micros();
            let is_silent = u128::from(now_us.saturating_sub(sent_us)) > silence_max_us;
            if is_silent { Err(LinkError::Silent) } else { Ok(()) }
        }
        None => {
            probe.set(Some(now_us));
            wire.say(&probe_frame(now_us));
            Ok(())
        }
    }
}

/// How long to wait before a node is dialed again.
struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
    /// Nodes must not knock all at once at one that comes back. Chance from what differs between them.
    seed: u64,
}

impl Backoff {
    fn new(shared: &Shared, peer: &Peer) -> Backoff {
        let fingerprint = shared.identity.fingerprint().0;
        let own = fingerprint.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let (min, max) = (shared.bounds.backoff_min, shared.bounds.backoff_max);
        Backoff { min, max, failures: 0, seed: own ^ peer.node.0 }
    }

    fn reset(&mut self) {
        self.failures = 0;
    }

    /// Between a half and the whole of what doubles with each failure.
    fn next(&mut self) -> Duration {
        let whole = self.min.saturating_mul(1 << self.failures.min(16)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        // A step of splitmix64.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = f64::from((mixed >> 32) as u32) / f64::from(u32::MAX);
        whole.mul_f64(0.5 + 0.5 * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        let (min, max) = (Duration::from_millis(50), Duration::from_secs(1));
        let mut backoff = Backoff { min, max, failures: 0, seed: 1 };
        let mut last = Vec::new();
        for wanted_ms in [50, 100, 200, 400, 800, 1000, 1000, 1000] {
            let wanted = Duration::from_millis(wanted_ms);
            let wait = backoff.next();
            assert!(wait >= wanted / 2 && wait <= wanted, "{wait:?} of {wanted:?}");
            last.push(wait);
        }
        last.dedup();
        assert!(last.len() > 6, "{last:?}");
        backoff.failures = u32::MAX;
        assert!(backoff.next() <= max);
        backoff.reset();
        assert!(backoff.next() <= min);
    }
}
