//! One message with its header, as both framings carry it.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | version; the top bit is set in responses |
//! | 1 | flags |
//! | 2 | stream |
//! | 1 | opcode |
//! | 4 | length of the body |

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::ProtocolError;
use crate::opcode::{Direction, Flags, Opcode};
use crate::version::Version;
use crate::wire;

/// The length of a message header.
pub const HEADER_BYTES: usize = 9;

/// Where the body's length stands in a header.
pub(crate) const HEADER_LENGTH_AT: usize = 5;

/// The longest message Cassandra accepts by default, header included
/// (`native_transport_max_frame_size`).
pub const MESSAGE_BYTES_MAX_DEFAULT: usize = 16 * 1024 * 1024;

/// How messages are laid into the byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One after the other: v3, v4, and later ones until their STARTUP was answered.
    Plain,
    /// In checksummed outer frames: v5 from then on.
    Outer,
}

impl Framing {
    /// The framing once STARTUP was answered with READY or AUTHENTICATE.
    pub fn after_startup(version: Version) -> Framing {
        if version.has_outer_frames() { Framing::Outer } else { Framing::Plain }
    }
}

/// One message, its body decompressed and not yet looked into. The body is a slice of the buffer it
/// was read into, or of its outer frame, and keeps that alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The version its header names.
    pub version: Version,
    /// The flags of its header, without the one for compression once that was undone.
    pub flags: Flags,
    /// The stream it belongs to; negative for events.
    pub stream: i16,
    /// Its kind.
    pub opcode: Opcode,
    /// Everything behind the header.
    pub body: Bytes,
}

impl Frame {
    /// Appends the whole message, uncompressed and without an outer frame.
    pub fn encode(&self, buf: &mut BytesMut) {
        let start = begin_message(buf, self.version, self.flags, self.stream, self.opcode);
        buf.put_slice(&self.body);
        end_message(buf, start);
    }
}

/// The fields of a message header, before anything about them was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawHeader {
    version_number: u8,
    direction: Direction,
    pub(crate) flags: Flags,
    pub(crate) stream: i16,
    opcode_number: u8,
    /// As written; negative only if the sender is broken.
    pub(crate) length: i32,
}

impl RawHeader {
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> RawHeader {
        let [first, flags, stream_0, stream_1, opcode_number, l0, l1, l2, l3] = *bytes;
        RawHeader {
            version_number: first & !Direction::RESPONSE_BIT,
            direction: Direction::of_first_byte(first),
            flags: Flags(flags),
            stream: i16::from_be_bytes([stream_0, stream_1]),
            opcode_number,
            length: i32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    /// The version and opcode, if a receiver of messages in that direction may see them on a
    /// connection that agreed on `version`.
    pub(crate) fn check(
        &self,
        direction: Direction,
        version: Option<Version>,
    ) -> Result<(Version, Opcode), ProtocolError> {
        let got = Version::from_number(self.version_number)
            .ok_or(ProtocolError::UnsupportedVersion { number: self.version_number })?;
        if got.is_beta() && !self.flags.contains(Flags::USE_BETA) {
            return Err(ProtocolError::BetaFlagUnset { version: got });
        }
        let opcode = Opcode::of_message(self.opcode_number, self.direction)?;
        if self.direction != direction {
            return Err(ProtocolError::UnexpectedDirection { opcode });
        }
        match version {
            Some(expected) if expected != got => {
                Err(ProtocolError::VersionChanged { got, expected })
            }
            Some(_) | None => Ok((got, opcode)),
        }
    }
}

/// Writes a header whose length is still open. Returns where the message starts.
#[inline]
pub(crate) fn begin_message(
    buf: &mut BytesMut,
    version: Version,
    flags: Flags,
    stream: i16,
    opcode: Opcode,
) -> usize {
    let start = buf.len();
    let first = match opcode.direction() {
        Direction::Request => version.number(),
        Direction::Response => version.number() | Direction::RESPONSE_BIT,
    };
    let flags = if version.is_beta() { flags.with(Flags::USE_BETA) } else { flags };
    let [stream_0, stream_1] = stream.to_be_bytes();
    buf.put_slice(&[first, flags.0, stream_0, stream_1, opcode.number(), 0, 0, 0, 0]);
    start
}

/// Fills in the length of the message that starts there and ends at the end of `buf`.
#[inline]
pub(crate) fn end_message(buf: &mut BytesMut, start: usize) {
    let length = buf.len().saturating_sub(start + HEADER_BYTES);
    wire::patch_i32(buf, start + HEADER_LENGTH_AT, wire::int_length(length));
}
