//! The first words on a connection: who speaks, of which cluster, in which version. Both sides say them, both judge them.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use types::NodeId;
use types::codec::{Decoder, Malformed};

use super::join::{JOIN_FRAME_BYTES_MAX, is_join_frame};

/// How a hello begins.
const MAGIC: [u8; 4] = *b"HLNM";
/// Of the mesh: hello and frames. Messages have versions of their own.
pub(crate) const MESH_VERSION: u16 = 1;
/// Magic, version, cluster, node, verdict.
const HELLO_BYTES: u32 = 4 + 2 + 16 + 8 + 1;
/// A hello of a later version may be longer, but not by much.
const HELLO_BYTES_MAX: usize = 256;

/// What one side says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u16,
    pub(crate) cluster_id: u128,
    pub(crate) node: NodeId,
    /// Why the other side is not wanted; the side that dials speaks first, and has nothing to object yet.
    pub(crate) refusal: Option<Refusal>,
}

/// Why a connection is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    OtherVersion,
    OtherCluster,
    /// The key is known, but is not that node's.
    NotThatNode,
}

const WELCOME: u8 = 0;
const REFUSALS: [Refusal; 3] = [Refusal::OtherVersion, Refusal::OtherCluster, Refusal::NotThatNode];

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::OtherVersion => "the versions of the mesh differ",
            Refusal::OtherCluster => "the clusters differ",
            Refusal::NotThatNode => "the key is not that of the node",
        })
    }
}

impl Hello {
    /// Whether both are of one cluster and version. Who it is, is asked of its key.
    pub(crate) fn judge(&self, own: &Hello) -> Result<(), Refusal> {
        if self.version != own.version {
            return Err(Refusal::OtherVersion);
        }
        if self.cluster_id != own.cluster_id { Err(Refusal::OtherCluster) } else { Ok(()) }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = HELLO_BYTES.to_be_bytes().to_vec();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&self.cluster_id.to_be_bytes());
        bytes.extend_from_slice(&self.node.0.to_be_bytes());
        bytes.push(self.refusal.map_or(WELCOME, |refusal| {
            let place = REFUSALS.iter().position(|it| *it == refusal).unwrap_or(0);
            place as u8 + 1
        }));
        bytes
    }

    fn decode(bytes: Vec<u8>) -> Result<Hello, Malformed> {
        if bytes.len() > HELLO_BYTES_MAX {
            return Err(Malformed);
        }
        let mut decoder = Decoder::new(bytes.into());
        if decoder.array()? != MAGIC {
            return Err(Malformed);
        }
        let version = u16::from_be_bytes(decoder.array()?);
        if version != MESH_VERSION {
            // Nothing behind it is known.
            return Ok(Hello { version, cluster_id: 0, node: NodeId(0), refusal: None });
        }
        let cluster_id = u128::from_be_bytes(decoder.array()?);
        let node = NodeId(u64::from_be_bytes(decoder.array()?));
        let refusal = match decoder.byte()? {
            WELCOME => None,
            place => Some(*REFUSALS.get(usize::from(place).wrapping_sub(1)).ok_or(Malformed)?),
        };
        let hello = Hello { version, cluster_id, node, refusal };
        if decoder.is_done() { Ok(hello) } else { Err(Malformed) }
    }

    pub(crate) async fn write(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        stream.write_all(&self.encode()).await?;
        stream.flush().await
    }

    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Hello> {
        let bytes = read_counted(stream, HELLO_BYTES_MAX).await?;
        Hello::decode(bytes).map_err(|Malformed| not_a_hello())
    }
}

fn not_a_hello() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is not a hello")
}

async fn read_counted(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > bytes_max {
        return Err(not_a_hello());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// How a node whose key is pinned may begin.
pub(crate) enum First {
    Hello(Hello),
    /// It asks to join as if it were not known: the answer to that may have been lost. A join frame without its length.
    Join(Vec<u8>),
}

impl First {
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<First> {
        let bytes = read_counted(stream, JOIN_FRAME_BYTES_MAX).await?;
        if is_join_frame(&bytes) {
            return Ok(First::Join(bytes));
        }
        match Hello::decode(bytes) {
            Ok(hello) => Ok(First::Hello(hello)),
            Err(Malformed) => Err(not_a_hello()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello =
        Hello { version: MESH_VERSION, cluster_id: 0x0102, node: NodeId(3), refusal: None };

    /// The example of `docs/formats/mesh.md`.
    #[test]
    fn the_bytes_are_the_documented_ones() {
        let mut wanted = vec![0, 0, 0, 31, b'H', b'L', b'N', b'M', 0, 1];
        wanted.extend_from_slice(&[0; 14]);
        wanted.extend_from_slice(&[1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
        assert_eq!(HELLO.encode(), wanted);
    }

    #[test]
    fn a_hello_comes_back_from_its_bytes_and_no_other_bytes_do_harm() {
        for refusal in [None].into_iter().chain(REFUSALS.map(Some)) {
            let hello = Hello { refusal, ..HELLO };
            let bytes = hello.encode()[4..].to_vec();
            assert_eq!(Hello::decode(bytes.clone()), Ok(hello));
            for length in 0..bytes.len() {
                assert_eq!(Hello::decode(bytes[..length].to_vec()), Err(Malformed));
            }
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x84;
                let _ = Hello::decode(flipped);
            }
        }
    }

    #[test]
    fn a_later_version_is_told_apart_whatever_follows() {
        let mut bytes = HELLO.encode()[4..].to_vec();
        bytes[5] = 9;
        bytes.truncate(10);
        let later = Hello::decode(bytes).unwrap();
        assert_eq!(later.judge(&HELLO), Err(Refusal::OtherVersion));
        let other = Hello { cluster_id: 7, ..HELLO };
        assert_eq!(other.judge(&HELLO), Err(Refusal::OtherCluster));
        assert_eq!(Hello { node: NodeId(9), ..HELLO }.judge(&HELLO), Ok(()));
    }
}
