//! Frames: what a connection carries after the hello. Messages to one node that come from one turn share a frame.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use replica::group::NodeMessage;
use types::codec::{Decoder, Malformed};

use super::pack::unpack;

/// A length stands before every frame and every message.
pub const LENGTH_BYTES: usize = 4;
/// Length, kind, number of messages; or, of what is packed, how long it is when it is not.
pub(super) const HEAD_BYTES: usize = LENGTH_BYTES + 1 + 4;

pub(super) const KIND_MESSAGES: u8 = 1;
const KIND_PROBE: u8 = 2;
const KIND_ECHO: u8 = 3;
pub(super) const KIND_PACKED: u8 = 4;

/// What a probe or an echo takes, with its length.
pub const PROBE_FRAME_BYTES: usize = LENGTH_BYTES + 1 + 8;
/// A frame has at most so many messages: decoded, a small one takes many times its bytes.
pub const FRAME_MESSAGES_MAX: u32 = 65_536;
/// Every message of a frame begins before this: turns that have more to say make several frames. A frame is decoded as a whole and lost
/// as a whole, and messages may hold thousands of entries, each of which takes many times its bytes as well.
pub const MESSAGES_BEGIN_MAX: usize = 1024 * 1024;
/// So much room is made for a read.
const READ_BYTES: usize = 64 * 1024;
/// Frames up to this are copied out of what was read. What is decoded from them may be kept for long, and would keep the other
/// frames that were read with it otherwise.
const COPIED_BYTES_MAX: usize = READ_BYTES;

/// What came.
#[derive(Clone, Debug)]
pub enum Frame {
    /// Messages, in their order.
    Messages(Vec<NodeMessage>),
    /// To be sent back as it is, as an echo.
    Probe(u64),
    /// A probe that came back.
    Echo(u64),
}

/// The connection cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Longer than any frame may be.
    TooLong {
        /// What it says.
        bytes: usize,
        /// What it may have.
        bytes_max: usize,
    },
    /// More messages than a frame may have.
    TooManyMessages(u32),
    /// A kind of frame that is not known.
    UnknownKind(u8),
    /// The bytes do not follow the format.
    Malformed,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { bytes, bytes_max } => {
                write!(f, "a frame of {bytes} bytes is longer than the {bytes_max} that it may be")
            }
            FrameError::TooManyMessages(count) => write!(f, "a frame has {count} messages"),
            FrameError::UnknownKind(kind) => write!(f, "a frame of the unknown kind {kind}"),
            FrameError::Malformed => f.write_str("a frame does not follow the format"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<Malformed> for FrameError {
    fn from(Malformed: Malformed) -> FrameError {
        FrameError::Malformed
    }
}

/// Frames out of bytes as they come. Room is made for what came and a read more, never for what a frame says it will be.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    frame_bytes_max: usize,
    takes_packed: bool,
}

impl FrameReader {
    /// Refuses frames that are longer, their own length not counted.
    pub fn new(frame_bytes_max: usize) -> FrameReader {
        FrameReader { buffer: BytesMut::new(), frame_bytes_max, takes_packed: false }
    }

    /// Takes packed frames as well, if both sides agreed on that. To others they are of an unknown kind.
    pub fn taking_packed(self, takes_packed: bool) -> FrameReader {
        FrameReader { takes_packed, ..self }
    }

    /// Where to put what is read next; there is room.
    pub fn room(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// How many bytes were read that belong to no whole frame yet.
    pub fn unfinished_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The next whole frame, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*length) as usize;
        if bytes > self.frame_bytes_max {
            return Err(FrameError::TooLong { bytes, bytes_max: self.frame_bytes_max });
        }
        let Some(frame) = self.buffer.get(LENGTH_BYTES..LENGTH_BYTES + bytes) else {
            return Ok(None);
        };
        let frame = if bytes <= COPIED_BYTES_MAX {
            let frame = Bytes::copy_from_slice(frame);
            self.buffer.advance(LENGTH_BYTES + bytes);
            frame
        } else {
            self.buffer.advance(LENGTH_BYTES);
            self.buffer.split_to(bytes).freeze()
        };
        self.decode(frame).map(Some)
    }

    fn decode(&self, frame: Bytes) -> Result<Frame, FrameError> {
        let mut decoder = Decoder::new(frame);
        match decoder.byte()? {
            KIND_PACKED if self.takes_packed => {
                let bytes = decoder.u32()? as usize;
                let block = decoder.rest();
                let mut plain = Decoder::new(unpack(&block, bytes, self.frame_bytes_max)?);
                let messages = decode_messages(&mut plain)?;
                ended(&plain, Frame::Messages(messages))
            }
            kind => decode_plain(kind, decoder),
        }
    }
}

fn ended(decoder: &Decoder, frame: Frame) -> Result<Frame, FrameError> {
    if decoder.is_done() { Ok(frame) } else { Err(FrameError::Malformed) }
}

fn decode_messages(decoder: &mut Decoder) -> Result<Vec<NodeMessage>, FrameError> {
    let count = decoder.u32()?;
    if count > FRAME_MESSAGES_MAX {
        return Err(FrameError::TooManyMessages(count));
    }
    let mut messages = Vec::new();
    let mut begin = HEAD_BYTES;
    for _ in 0..count {
        if begin >= MESSAGES_BEGIN_MAX {
            return Err(FrameError::Malformed);
        }
        let length = decoder.u32()? as usize;
        begin = begin.saturating_add(LENGTH_BYTES).saturating_add(length);
        let message = decoder.take(length)?;
        // Who knows more may say more.
        if !NodeMessage::is_later(&message) {
            messages.push(NodeMessage::decode(message)?);
        }
    }
    Ok(messages)
}

fn decode_plain(kind: u8, mut decoder: Decoder) -> Result<Frame, FrameError> {
    let frame = match kind {
        KIND_MESSAGES => Frame::Messages(decode_messages(&mut decoder)?),
        KIND_PROBE => Frame::Probe(u64::from_be_bytes(decoder.array()?)),
        KIND_ECHO => Frame::Echo(u64::from_be_bytes(decoder.array()?)),
        kind => return Err(FrameError::UnknownKind(kind)),
    };
    ended(&decoder, frame)
}

/// A frame with a number that comes back as an echo.
pub fn probe_frame(number: u64) -> [u8; PROBE_FRAME_BYTES] {
    number_frame(KIND_PROBE, number)
}

/// The answer to a probe.
pub fn echo_frame(number: u64) -> [u8; PROBE_FRAME_BYTES] {
    number_frame(KIND_ECHO, number)
}

fn number_frame(kind: u8, number: u64) -> [u8; PROBE_FRAME_BYTES] {
    let mut frame = [0; PROBE_FRAME_BYTES];
    let parts = [&9_u32.to_be_bytes()[..], &[kind], &number.to_be_bytes()];
    frame.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = *from);
    frame
}

/// A frame of messages that is being put together.
#[derive(Debug, Default)]
pub struct FrameWriter {
    bytes: Vec<u8>,
    count: u32,
}

impl FrameWriter {
    /// Appends a message; `false` if the frame is full, or would be longer than that with it.
    pub fn push(&mut self, message: &NodeMessage, frame_bytes_max: usize) -> bool {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&[0; HEAD_BYTES]);
        }
        let before = self.bytes.len();
        if before >= MESSAGES_BEGIN_MAX || self.count >= FRAME_MESSAGES_MAX {
            return false;
        }
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        message.encode(&mut self.bytes);
        let length = self.bytes.len() - before - LENGTH_BYTES;
        if self.bytes.len() - LENGTH_BYTES > frame_bytes_max {
            self.bytes.truncate(before);
            return false;
        }
        put_u32(&mut self.bytes, before, length);
        self.count += 1;
        true
    }

    /// So many bytes are there.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The frame and the number of its messages; what follows begins a new one. `None` if it has no message.
    pub fn take(&mut self) -> Option<(Vec<u8>, u32)> {
        let (mut bytes, count) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.count));
        if count == 0 {
            return None;
        }
        let length = bytes.len() - LENGTH_BYTES;
        put_u32(&mut bytes, 0, length);
        if let Some(kind) = bytes.get_mut(LENGTH_BYTES) {
            *kind = KIND_MESSAGES;
        }
        put_u32(&mut bytes, LENGTH_BYTES + 1, count as usize);
        Some((bytes, count))
    }
}

/// Lengths are below `frame_bytes_max`, which four bytes can tell (see `MeshBounds`).
pub(super) fn put_u32(bytes: &mut [u8], at: usize, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    if let Some(place) = bytes.get_mut(at..at + LENGTH_BYTES) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}
