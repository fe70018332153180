//! The joining side: one connection to a node that is known by a token, one question, one answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{IpAddr, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use types::codec::Malformed;

use super::desk::JOIN_ANSWER_MAX;
use super::join::{
    JOIN_ANSWER_FRAME_BYTES_MAX, JOIN_REQUEST_BYTES_MAX, JOIN_VERSION, JoinAnswer, JoinFrame,
};
use super::trust;
use crate::{Fingerprint, Identity};

/// How long a node may take to accept a connection and to show its key.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long the answer may take: as long as the other node may think, and the way there and back.
const ANSWER_MAX: Duration = JOIN_ANSWER_MAX.saturating_add(Duration::from_secs(5));

/// Why there is no answer.
#[derive(Debug)]
pub enum JoinError {
    /// Nobody listens there.
    Unreachable(io::Error),
    /// Something listens there, but it is no node.
    NotANode(io::Error),
    /// The token is of another node, or somebody is in between.
    OtherKey,
    /// The node ended the connection without an answer.
    Refused(io::Error),
    /// The node could not decide in time.
    TryAgain,
    /// The node speaks this version of joining.
    OtherVersion(u16),
    /// The answer does not follow the format.
    Malformed,
    /// The node did not connect or answer in time.
    TooSlow,
    /// The request has so many bytes, which is too many.
    TooLong(usize),
    /// This node's own key is not one.
    UnusableKey(String),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Unreachable(error) => write!(
                f,
                "the node to join cannot be reached: {error}. Check that it runs, that the address is its cluster.listen, and that no firewall is in between"
            ),
            JoinError::NotANode(error) => write!(
                f,
                "what listens at that address does not speak as a node to nodes: {error}. Give the address of its cluster.listen, not the one for clients"
            ),
            JoinError::OtherKey => f.write_str(
                "the node at that address does not have the key that the token tells: the token is of another node, or somebody is in between. Run `helenus token` on the very node whose address is given",
            ),
            JoinError::Refused(error) => write!(
                f,
                "the node ended the connection without an answer ({error}): it takes nobody in, or too many ask at once. Try again in a few seconds; its log says why"
            ),
            JoinError::TryAgain => f.write_str(
                "the node could not decide in time whether this one may join. Try again with the same token",
            ),
            JoinError::OtherVersion(version) => write!(
                f,
                "the node speaks version {version} of joining, and this one {JOIN_VERSION}. Start this node with the version of Helenus that the cluster runs"
            ),
            JoinError::Malformed => f.write_str(
                "the node's answer is not understood. Start this node with the version of Helenus that the cluster runs",
            ),
            JoinError::TooSlow => f.write_str(
                "the node did not answer in time. Check that it is not overloaded, and try again with the same token",
            ),
            JoinError::TooLong(bytes) => write!(
                f,
                "the request to join has {bytes} bytes, and may have {JOIN_REQUEST_BYTES_MAX}. Shorten the names and addresses of this node"
            ),
            JoinError::UnusableKey(why) => {
                write!(f, "{why}. Start this node with an empty data folder to give it a new key")
            }
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JoinError::Unreachable(error)
            | JoinError::NotANode(error)
            | JoinError::Refused(error) => Some(error),
            _ => None,
        }
    }
}

/// The joining side: dials `address`, whose key must have `fingerprint`, shows its own identity, sends the request, returns the answer.
/// Nothing of the request is sent before the key was seen. Must be called inside a tokio runtime with time and sockets.
pub async fn ask_to_join(
    address: SocketAddr,
    fingerprint: Fingerprint,
    identity: &Identity,
    request: &[u8],
) -> Result<Vec<u8>, JoinError> {
    ask_within(address, fingerprint, identity, request, ANSWER_MAX).await
}

pub(crate) async fn ask_within(
    address: SocketAddr,
    fingerprint: Fingerprint,
    identity: &Identity,
    request: &[u8],
    answer_max: Duration,
) -> Result<Vec<u8>, JoinError> {
    let frame = JoinFrame::encode(request).ok_or(JoinError::TooLong(request.len()))?;
    let config = trust::dialing(identity, fingerprint).map_err(|error| {
        JoinError::UnusableKey(format!("this node's key cannot be used: {error}"))
    })?;
    let connecting = async {
        let stream = TcpStream::connect(address).await.map_err(JoinError::Unreachable)?;
        stream.set_nodelay(true).map_err(JoinError::Unreachable)?;
        let name = ServerName::IpAddress(IpAddr::from(address.ip()));
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(handshake_error)
    };
    let connected = timeout(CONNECT_MAX, Box::pin(connecting)).await;
    let mut stream = connected.map_err(|_| JoinError::TooSlow)??;
    let asking = async {
        stream.write_all(&frame).await?;
        stream.flush().await?;
        let length = stream.read_u32().await? as usize;
        if length > JOIN_ANSWER_FRAME_BYTES_MAX {
            return Ok(None);
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await?;
        Ok(Some(answer))
    };
    let asked = timeout(answer_max, asking).await.map_err(|_| JoinError::TooSlow)?;
    let answer = asked.map_err(JoinError::Refused)?.ok_or(JoinError::Malformed)?;
    match JoinAnswer::decode(&answer) {
        Ok(JoinAnswer::Answer(answer)) => Ok(answer.to_vec()),
        Ok(JoinAnswer::OtherVersion(version)) => Err(JoinError::OtherVersion(version)),
        Ok(JoinAnswer::TryAgain) => Err(JoinError::TryAgain),
        Err(Malformed) => Err(JoinError::Malformed),
    }
}

/// The other side was reached, but is not the one that is meant.
fn handshake_error(error: io::Error) -> JoinError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => JoinError::OtherKey,
        _ => JoinError::NotANode(error),
    }
}
