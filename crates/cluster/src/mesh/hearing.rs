//! Connections from other nodes: let in by their key, and listened to.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::desk::{self, Stranger};
use super::frame::{Frame, FrameError, FrameReader, echo_frame};
use super::hello::{First, Hello, Refusal};
use super::link::STARTING;
use super::peer::{HearingGuard, Peer};
use super::told::Subject;
use super::trust;
use crate::Fingerprint;

/// How long to wait when the system has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a connection was not let in, or ended.
#[derive(Debug)]
enum HearingError {
    HandshakeFailed(io::Error),
    TooSlow,
    Refused(Refusal, Hello),
    Broke(io::Error),
    Malformed(FrameError),
    Silent,
}

impl HearingError {
    /// What is told only once in a while, in short.
    fn kind(&self) -> &'static str {
        match self {
            HearingError::HandshakeFailed(_) => "heard: handshake",
            HearingError::TooSlow => "heard: slow",
            HearingError::Refused(..) => "heard: refused",
            HearingError::Broke(_) => "heard: broke",
            HearingError::Malformed(_) => "heard: malformed",
            HearingError::Silent => "heard: silent",
        }
    }
}

impl fmt::Display for HearingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HearingError::HandshakeFailed(error) => write!(f, "the handshake failed: {error}"),
            HearingError::TooSlow => f.write_str("the handshake took too long"),
            HearingError::Refused(Refusal::OtherVersion, hello) => {
                write!(f, "{} (it speaks {})", Refusal::OtherVersion, hello.version)
            }
            HearingError::Refused(why, hello) => {
                write!(f, "{why} (it says that it is {})", hello.node)
            }
            HearingError::Broke(error) => write!(f, "the connection broke: {error}"),
            HearingError::Malformed(error) => write!(f, "{error}"),
            HearingError::Silent => f.write_str("nothing came for too long"),
        }
    }
}

/// Accepts connections until the mesh is closed.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener, config: Arc<ServerConfig>) {
    let mut closed = shared.closed.subscribe();
    let handshakes = Arc::new(Semaphore::new(shared.bounds.handshakes_max));
    loop {
        // Whoever comes while there are too many handshakes waits in the system's own queue.
        let accepted = async {
            let permit = Arc::clone(&handshakes).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            _ = closed.wait_for(|is_closed| *is_closed) => return,
            accepted = accepted => accepted,
        };
        match (permit, accepted) {
            (Ok(permit), Ok((stream, address))) => {
                let acceptor = TlsAcceptor::from(Arc::clone(&config));
                tokio::spawn(hear(Arc::clone(&shared), acceptor, stream, address, permit));
            }
            (_, Err(error)) => {
                tracing::warn!(%error, "cannot accept a node's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            // Nobody closes it.
            (Err(_), _) => return,
        }
    }
}

/// One connection, from its handshake to its end.
async fn hear(
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
) {
    let connected_at = Instant::now();
    let greeting = Box::pin(greet(&shared, acceptor, stream));
    let greeted = timeout(shared.bounds.handshake_timeout, greeting).await;
    // A stranger takes a place of its own from here on.
    drop(permit);
    let (stream, peer) = match greeted.unwrap_or(Err(HearingError::TooSlow)) {
        Ok(Greeted::Node(stream, peer)) => (stream, peer),
        Ok(Greeted::Stranger { stream, key, frame }) => {
            let deadline = connected_at + shared.bounds.join_frame_max;
            let stranger = Stranger { key, address, deadline };
            return Box::pin(desk::serve(&shared, stream, stranger, frame)).await;
        }
        Err(error) => {
            // A node that was just added may know this one before it is known here; it comes again.
            let is_early = matches!(error, HearingError::HandshakeFailed(_))
                && shared.started.elapsed() < STARTING;
            if !is_early && shared.told.is_new(Subject::Stranger(address.ip()), error.kind()) {
                tracing::warn!(%address, %error, "a connection to the mesh was refused");
            }
            return;
        }
    };
    let Some((guard, ended)) = peer.begin_hearing() else { return };
    let error = tokio::select! {
        biased;
        // Another connection took its place, or the node is not wanted any more.
        _ = ended => return,
        error = listen(&shared, &guard, stream) => error,
    };
    drop(guard);
    let is_told = shared.told.is_new(Subject::Node(peer.node), error.kind());
    match error {
        // Nodes are started again; who dials says more.
        HearingError::Broke(error) => {
            tracing::debug!(peer = %peer.node, %error, "a node's connection broke");
        }
        error if is_told => {
            tracing::warn!(peer = %peer.node, %address, %error, "a node's connection was ended");
        }
        _ => {}
    }
}

/// Who is at the other end.
enum Greeted {
    Node(TlsStream<TcpStream>, Arc<Peer>),
    /// One whose key is not pinned, and of which nothing was read yet; or a node that asks to join once more, with its frame.
    Stranger {
        stream: TlsStream<TcpStream>,
        key: Fingerprint,
        frame: Option<Vec<u8>>,
    },
}

/// Handshake and hello. A node that is refused is told why; a stranger is told nothing.
async fn greet(
    shared: &Shared,
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> Result<Greeted, HearingError> {
    let failed = HearingError::HandshakeFailed;
    stream.set_nodelay(true).map_err(failed)?;
    let mut stream = acceptor.accept(stream).await.map_err(failed)?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let key = certificate.and_then(|certificate| Fingerprint::of(certificate).ok());
    // Never: no handshake ends without a key.
    let Some(key) = key else { return Err(failed(io::ErrorKind::InvalidData.into())) };
    if !shared.pinned.load().contains(&key) {
        return Ok(Greeted::Stranger { stream, key, frame: None });
    }
    let hello = match First::read(&mut stream).await.map_err(failed)? {
        First::Hello(hello) => hello,
        First::Join(frame) => return Ok(Greeted::Stranger { stream, key, frame: Some(frame) }),
    };
    let judged = hello.judge(&shared.hello).and_then(|()| {
        let peers = shared.peers.load();
        let peer = peers.get(&hello.node).filter(|peer| peer.fingerprint == key);
        peer.cloned().ok_or(Refusal::NotThatNode)
    });
    let own = Hello { refusal: judged.as_ref().err().copied(), ..shared.hello };
    own.write(&mut stream).await.map_err(failed)?;
    match judged {
        Ok(peer) => Ok(Greeted::Node(stream, peer)),
        Err(refusal) => {
            // That it is said is more than is owed.
            let _ = stream.shutdown().await;
            Err(HearingError::Refused(refusal, hello))
        }
    }
}

async fn listen(
    shared: &Shared,
    guard: &HearingGuard,
    mut stream: TlsStream<TcpStream>,
) -> HearingError {
    let packs = trust::agreed(stream.get_ref().1.alpn_protocol()).packs;
    let mut reader = FrameReader::new(shared.bounds.frame_bytes_max).taking_packed(packs);
    let mut looks = interval(shared.bounds.silence_max);
    let mut has_heard = true;
    loop {
        let read = tokio::select! {
            biased;
            read = stream.read_buf(reader.room()) => read,
            _ = looks.tick() => {
                if !std::mem::take(&mut has_heard) {
                    return HearingError::Silent;
                }
                continue;
            }
        };
        match read {
            Ok(0) => return HearingError::Broke(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => guard.peer().count_received(bytes as u64),
            Err(error) => return HearingError::Broke(error),
        }
        has_heard = true;
        // Where the connection ends meanwhile, whoever tells that has what came seen to.
        let mut is_unattended = false;
        loop {
            match reader.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Messages(messages))) => {
                    if !guard.deliver(messages) {
                        return HearingError::Broke(io::ErrorKind::ConnectionAborted.into());
                    }
                    is_unattended = true;
                }
                Ok(Some(Frame::Probe(number))) => {
                    if std::mem::take(&mut is_unattended) {
                        guard.attend();
                    }
                    let echo = echo_frame(number);
                    let echoing = async {
                        stream.write_all(&echo).await?;
                        stream.flush().await
                    };
                    match timeout(shared.bounds.silence_max, echoing).await {
                        Err(_) => return HearingError::Silent,
                        Ok(Err(error)) => return HearingError::Broke(error),
                        Ok(Ok(())) => {}
                    }
                }
                Ok(Some(Frame::Echo(_))) => {
                    return HearingError::Malformed(FrameError::Malformed);
                }
                Err(error) => return HearingError::Malformed(error),
            }
        }
        if is_unattended {
            guard.attend();
        }
    }
}
