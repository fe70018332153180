//! Strangers: those whose key is not pinned. One may ask to join, once, and is answered once; nothing else that it says counts, and no
//! message of it is ever decoded.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::server::TlsStream;
use types::codec::Malformed;

use super::Shared;
use super::join::{
    JOIN_ANSWER_BYTES_MAX, JOIN_FRAME_BYTES_MAX, JOIN_VERSION, JoinAnswer, JoinFrame,
};
use super::told::Subject;
use crate::Fingerprint;

/// So many strangers are listened to and decided about at once. Further ones are closed at once.
pub const STRANGERS_MAX: usize = 8;
/// How long a stranger may take from connecting to the end of its join frame; and then to take its answer.
pub const JOIN_FRAME_MAX: Duration = Duration::from_secs(5);
/// How long a desk may think. After that the stranger is told to try again.
pub const JOIN_ANSWER_MAX: Duration = Duration::from_secs(30);

/// Who decides whether a stranger may join. Called on a blocking thread: it may wait (bounded by [`JOIN_ANSWER_MAX`], after which the
/// stranger is told to try again), and it may call everything of the mesh. While it thinks it takes one of [`STRANGERS_MAX`] places,
/// however long that is.
///
/// A key that is pinned may ask as well: the answer to its first question may have been lost.
pub trait JoinDesk: Send + Sync + 'static {
    /// What to answer to the request of whoever has that key; at most
    /// [`JOIN_ANSWER_BYTES_MAX`](super::join::JOIN_ANSWER_BYTES_MAX) bytes.
    fn ask(&self, key: Fingerprint, from: SocketAddr, request: &[u8]) -> Vec<u8>;
}

/// Why a stranger was not answered.
#[derive(Debug)]
enum StrangerError {
    TooMany,
    TooSlow,
    Broke(io::Error),
    Malformed,
    SaidMore,
    NoDesk,
}

impl StrangerError {
    /// What is told only once in a while, in short.
    fn kind(&self) -> &'static str {
        match self {
            StrangerError::TooMany => "stranger: too many",
            StrangerError::TooSlow => "stranger: slow",
            StrangerError::Broke(_) => "stranger: broke",
            StrangerError::Malformed => "stranger: malformed",
            StrangerError::SaidMore => "stranger: said more",
            StrangerError::NoDesk => "stranger: no desk",
        }
    }
}

impl fmt::Display for StrangerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrangerError::TooMany => f.write_str("too many ask to join at once"),
            StrangerError::TooSlow => f.write_str("it took too long"),
            StrangerError::Broke(error) => write!(f, "the connection broke: {error}"),
            StrangerError::Malformed => {
                f.write_str("its key is not known, and it does not ask to join")
            }
            StrangerError::SaidMore => f.write_str("it said more than that it wants to join"),
            StrangerError::NoDesk => f.write_str("its key is not known, and nobody may join now"),
        }
    }
}

/// Somebody who may ask to join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    pub(crate) key: Fingerprint,
    pub(crate) address: SocketAddr,
    /// When it has to have asked.
    pub(crate) deadline: Instant,
}

/// The connection of a stranger from its handshake on, or of a known node from its join frame on, to its end.
pub(crate) async fn serve(
    shared: &Shared,
    mut stream: TlsStream<TcpStream>,
    stranger: Stranger,
    frame: Option<Vec<u8>>,
) {
    let mut closed = shared.closed.subscribe();
    let served = tokio::select! {
        biased;
        _ = closed.wait_for(|is_closed| *is_closed) => return,
        served = serve_open(shared, &mut stream, stranger, frame) => served,
    };
    let Err(error) = served else { return };
    let address = stranger.address;
    if shared.told.is_new(Subject::Stranger(address.ip()), error.kind()) {
        tracing::warn!(%address, %error, "one that asks to join, or is not known, was refused by the mesh");
    }
}

async fn serve_open(
    shared: &Shared,
    stream: &mut TlsStream<TcpStream>,
    stranger: Stranger,
    frame: Option<Vec<u8>>,
) -> Result<(), StrangerError> {
    let place = Arc::clone(&shared.strangers).try_acquire_owned();
    let place = Arc::new(place.map_err(|_| StrangerError::TooMany)?);
    let frame = match frame {
        Some(frame) => frame,
        None => timeout_at(stranger.deadline, read_first(stream))
            .await
            .map_err(|_| StrangerError::TooSlow)??,
    };
    let frame = JoinFrame::decode(&frame).map_err(|Malformed| StrangerError::Malformed)?;
    // What came together with the frame: then nobody is asked.
    tokio::select! {
        biased;
        said = said_more(stream) => return Err(said),
        () = std::future::ready(()) => {}
    }
    match frame {
        JoinFrame::OtherVersion(_) => {
            answer(shared, stream, &JoinAnswer::OtherVersion(JOIN_VERSION)).await
        }
        JoinFrame::Request(request) => decide(shared, stream, stranger, request, place).await,
    }
}

/// The first frame, without its length.
async fn read_first(stream: &mut TlsStream<TcpStream>) -> Result<Vec<u8>, StrangerError> {
    let length = stream.read_u32().await.map_err(StrangerError::Broke)? as usize;
    if length > JOIN_FRAME_BYTES_MAX {
        return Err(StrangerError::Malformed);
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await.map_err(StrangerError::Broke)?;
    Ok(frame)
}

/// Asks the desk and answers. The place is given back when both the connection and the desk are done with it.
async fn decide(
    shared: &Shared,
    stream: &mut TlsStream<TcpStream>,
    stranger: Stranger,
    request: &[u8],
    place: Arc<OwnedSemaphorePermit>,
) -> Result<(), StrangerError> {
    let Some(desk) = shared.desk.lock().clone() else { return Err(StrangerError::NoDesk) };
    let Stranger { key, address, .. } = stranger;
    if shared.told.is_new(Subject::Stranger(address.ip()), "stranger: asks") {
        tracing::info!(%address, %key, "a node asks to join");
    }
    let (request, desk_place) = (request.to_vec(), Arc::clone(&place));
    let asked = tokio::task::spawn_blocking(move || {
        let _place = desk_place;
        desk.ask(key, address, &request)
    });
    let asked = tokio::select! {
        biased;
        // One that left is not answered either; it may come again.
        said = said_more(stream) => return Err(said),
        asked = timeout(shared.bounds.join_answer_max, asked) => asked,
    };
    let decided = match &asked {
        Ok(Ok(decided)) if decided.len() <= JOIN_ANSWER_BYTES_MAX => JoinAnswer::Answer(decided),
        Ok(Ok(decided)) => {
            tracing::error!(%address, bytes = decided.len(), "the answer to a node that asks to join is too long");
            JoinAnswer::TryAgain
        }
        Ok(Err(error)) => {
            tracing::error!(%address, %error, "a node that asks to join could not be answered");
            JoinAnswer::TryAgain
        }
        Err(_) => {
            tracing::warn!(%address, "it was not decided in time whether a node may join");
            JoinAnswer::TryAgain
        }
    };
    let answered = answer(shared, stream, &decided).await;
    drop(place);
    answered
}

/// Waits until it says anything, or leaves.
async fn said_more(stream: &mut TlsStream<TcpStream>) -> StrangerError {
    match stream.read_u8().await {
        Ok(_) => StrangerError::SaidMore,
        Err(error) => StrangerError::Broke(error),
    }
}

async fn answer(
    shared: &Shared,
    stream: &mut TlsStream<TcpStream>,
    decided: &JoinAnswer<'_>,
) -> Result<(), StrangerError> {
    // Never: what is too long was replaced.
    let Some(frame) = decided.encode() else { return Err(StrangerError::Malformed) };
    let answering = async {
        stream.write_all(&frame).await?;
        stream.flush().await?;
        stream.shutdown().await
    };
    let answered = timeout(shared.bounds.join_frame_max, answering).await;
    answered.map_err(|_| StrangerError::TooSlow)?.map_err(StrangerError::Broke)
}
