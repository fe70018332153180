//! Where clients come in: the listening socket, the limit of connections, encryption.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::clients::{Clients, Encryption};
use crate::config::TlsMode;
use crate::connection::{Connection, ConnectionLimits};
use crate::events::EventHub;
use crate::load::Load;
use crate::metrics::Metrics;
use crate::session::{Session, Statements};
use crate::tls::Certificates;
use crate::world;

/// Clients that may queue for being accepted: a driver with many hosts reconnects all at once.
const BACKLOG: i32 = 4096;
/// A silent client is asked whether it is still there after this time ...
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);
/// ... again after this ...
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// ... and given up after so many questions.
const KEEP_ALIVE_RETRIES: u32 = 4;
/// How long to wait when the system has no descriptor left for a client.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// That clients are turned away is said this often at most.
const REFUSALS_TOLD_EVERY_US: u64 = 1_000_000;
/// The first byte of a TLS handshake. No version of the protocol starts with it.
const HANDSHAKE: u8 = 0x16;

/// Everything that serving a client takes.
pub(crate) struct Door {
    pub(crate) limits: ConnectionLimits,
    pub(crate) load: Arc<Load>,
    pub(crate) connections_max: usize,
    /// When it was last said that clients are turned away.
    pub(crate) refusal_told_us: AtomicU64,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) hub: Arc<EventHub>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) statements: Arc<dyn Statements>,
    pub(crate) tls_mode: TlsMode,
    pub(crate) certificates: Option<Arc<Certificates>>,
}

/// Opens a listening socket.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted node gets its port back while old connections linger.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

impl Door {
    /// Lets clients in until `stopping` says so; their tasks go on until they end by themselves.
    pub(crate) async fn open(
        self: Arc<Self>,
        listener: TcpListener,
        stopping: watch::Receiver<bool>,
    ) {
        let mut stop = stopping.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|is_stopping| *is_stopping) => return,
            };
            match accepted {
                Ok((stream, address)) => self.let_in(stream, address, &stopping),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a client");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn let_in(
        self: &Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        stopping: &watch::Receiver<bool>,
    ) {
        if !self.metrics.try_open_connection(self.connections_max) {
            self.tell_refusal(address);
            return;
        }
        let guest = Guest(Arc::clone(self));
        let stopping = stopping.clone();
        tokio::spawn(async move {
            if let Err(error) = prepare_socket(&stream) {
                tracing::debug!(client = %address, %error, "a client left at once");
                return;
            }
            guest.0.serve(stream, address, stopping).await;
        });
    }

    /// Says at most once in a while that clients are turned away: there may be thousands a second.
    fn tell_refusal(&self, address: SocketAddr) {
        let now_us = world::steady_us();
        let told_us = self.refusal_told_us.load(Ordering::Relaxed);
        let is_first = told_us == 0;
        if (is_first || now_us.saturating_sub(told_us) >= REFUSALS_TOLD_EVERY_US)
            && self
                .refusal_told_us
                .compare_exchange(told_us, now_us.max(1), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let connections = self.connections_max;
            tracing::warn!(client = %address, connections, "too many connections, see limits.connections and ulimit -n");
        }
    }

    async fn serve(&self, stream: TcpStream, address: SocketAddr, stopping: watch::Receiver<bool>) {
        let is_encrypted = match self.tls_mode {
            TlsMode::Off => false,
            TlsMode::Required => true,
            TlsMode::Optional => {
                let mut first = [0];
                let peeked =
                    tokio::time::timeout(self.limits.startup_timeout, stream.peek(&mut first));
                match peeked.await {
                    Ok(Ok(1)) => first == [HANDSHAKE],
                    Ok(_) | Err(_) => return,
                }
            }
        };
        if !is_encrypted {
            return self.converse(stream, address, None, stopping).await;
        }
        let Some(certificates) = &self.certificates else { return };
        let acceptor = TlsAcceptor::from(certificates.for_handshake(world::now()));
        let handshake = tokio::time::timeout(self.limits.startup_timeout, acceptor.accept(stream));
        match handshake.await {
            Ok(Ok(stream)) => {
                let encryption = encryption_of(stream.get_ref().1);
                self.converse(stream, address, encryption, stopping).await;
            }
            Ok(Err(error)) => tracing::info!(client = %address, %error, "a handshake failed"),
            Err(_) => tracing::info!(client = %address, "a handshake took too long"),
        }
    }

    async fn converse<S>(
        &self,
        stream: S,
        address: SocketAddr,
        encryption: Option<Encryption>,
        stopping: watch::Receiver<bool>,
    ) where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let registration = self.clients.register(address, encryption);
        let session = Session::new(address, registration, Arc::clone(&self.statements));
        let shard = self.metrics.shard();
        let connection =
            Connection::new(stream, session, &self.limits, shard, &self.hub, &self.load, stopping);
        connection.run().await;
    }
}

/// A client that was let in; counted out when its task ends, however it ends.
struct Guest(Arc<Door>);

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.metrics.close_connection();
    }
}

fn prepare_socket(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE_IDLE)
        .with_interval(KEEP_ALIVE_INTERVAL)
        .with_retries(KEEP_ALIVE_RETRIES);
    SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}

fn encryption_of(connection: &rustls::ServerConnection) -> Option<Encryption> {
    let cipher = connection.negotiated_cipher_suite()?.suite().as_str()?.to_owned();
    let protocol = match connection.protocol_version()? {
        rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
        rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
        other => other.as_str()?,
    };
    Some(Encryption { protocol: protocol.to_owned(), cipher })
}
