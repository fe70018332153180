//! The outer frames of v5: messages packed together under checksums.
//!
//! All numbers are little-endian. A plain frame is
//!
//! | bits | field |
//! |---|---|
//! | 17 | length of the payload |
//! | 1 | self-contained: the payload holds whole messages |
//! | 6 | unused |
//! | 24 | CRC-24 of the three bytes before |
//! | 8 × length | payload |
//! | 32 | CRC-32 of the payload |
//!
//! and a compressed one is
//!
//! | bits | field |
//! |---|---|
//! | 17 | length of the payload as sent |
//! | 17 | its length before compression; 0 if it is not compressed |
//! | 1 | self-contained |
//! | 5 | unused |
//! | 24 | CRC-24 of the five bytes before |
//! | 8 × length | payload |
//! | 32 | CRC-32 of the payload as sent |

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::checksum::{crc24, crc32};
use crate::compression::{lz4_compress, lz4_decompress};
use crate::error::{FramePart, ProtocolError};

/// The longest payload of an outer frame. A longer message travels in several frames.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;

const LENGTH_MASK: u64 = PAYLOAD_BYTES_MAX as u64;
/// What stands before the payload of a plain frame.
pub(crate) const PLAIN_HEADER_BYTES: usize = 6;
const PLAIN_SELF_CONTAINED: u64 = 1 << 17;
const LZ4_HEADER_BYTES: usize = 8;
const LZ4_PLAIN_LENGTH_SHIFT: u32 = 17;
const LZ4_SELF_CONTAINED: u64 = 1 << 34;
const TRAILER_BYTES: usize = 4;

/// What one outer frame held.
#[derive(Debug)]
pub(crate) struct OuterFrame {
    /// Whole messages, or a piece of one.
    pub(crate) payload: Bytes,
    /// Which of the two.
    pub(crate) self_contained: bool,
}

/// Takes one frame off `buf`; `None` if it has not arrived completely.
pub(crate) fn decode(buf: &mut BytesMut, lz4: bool) -> Result<Option<OuterFrame>, ProtocolError> {
    if lz4 { decode_lz4(buf) } else { decode_plain(buf) }
}

fn decode_plain(buf: &mut BytesMut) -> Result<Option<OuterFrame>, ProtocolError> {
    let Some(&[b0, b1, b2, c0, c1, c2]) = buf.first_chunk::<PLAIN_HEADER_BYTES>() else {
        return Ok(None);
    };
    check_header(&[b0, b1, b2], [c0, c1, c2])?;
    let fields = u64::from_le_bytes([b0, b1, b2, 0, 0, 0, 0, 0]);
    let length = length_field(fields);
    let self_contained = fields & PLAIN_SELF_CONTAINED != 0;
    let Some(payload) = take_payload(buf, PLAIN_HEADER_BYTES, length)? else { return Ok(None) };
    Ok(Some(OuterFrame { payload, self_contained }))
}

fn decode_lz4(buf: &mut BytesMut) -> Result<Option<OuterFrame>, ProtocolError> {
    let Some(&[b0, b1, b2, b3, b4, c0, c1, c2]) = buf.first_chunk::<LZ4_HEADER_BYTES>() else {
        return Ok(None);
    };
    check_header(&[b0, b1, b2, b3, b4], [c0, c1, c2])?;
    let fields = u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0]);
    let length = length_field(fields);
    let plain_length = length_field(fields >> LZ4_PLAIN_LENGTH_SHIFT);
    let self_contained = fields & LZ4_SELF_CONTAINED != 0;
    let Some(sent) = take_payload(buf, LZ4_HEADER_BYTES, length)? else { return Ok(None) };
    let payload = if plain_length == 0 { sent } else { lz4_decompress(&sent, plain_length)? };
    Ok(Some(OuterFrame { payload, self_contained }))
}

/// The mask keeps 17 bits, which fit into any `usize`.
fn length_field(fields: u64) -> usize {
    (fields & LENGTH_MASK) as usize
}

fn check_header(fields: &[u8], [c0, c1, c2]: [u8; 3]) -> Result<(), ProtocolError> {
    let read = u32::from_le_bytes([c0, c1, c2, 0]);
    let computed = crc24(fields);
    if read == computed {
        return Ok(());
    }
    Err(ProtocolError::Corrupt { part: FramePart::Header, read, computed })
}

fn take_payload(
    buf: &mut BytesMut,
    header_bytes: usize,
    length: usize,
) -> Result<Option<Bytes>, ProtocolError> {
    let end = header_bytes + length;
    let Some(trailer) = buf.get(end..).and_then(<[u8]>::first_chunk::<TRAILER_BYTES>) else {
        return Ok(None);
    };
    let read = u32::from_le_bytes(*trailer);
    let computed = crc32(buf.get(header_bytes..end).unwrap_or_default());
    if read != computed {
        return Err(ProtocolError::Corrupt { part: FramePart::Body, read, computed });
    }
    buf.advance(header_bytes);
    let payload = buf.split_to(length).freeze();
    buf.advance(TRAILER_BYTES);
    Ok(Some(payload))
}

/// Appends one frame around `payload`, which is at most [`PAYLOAD_BYTES_MAX`] long.
pub(crate) fn encode(payload: &[u8], self_contained: bool, lz4: bool, out: &mut BytesMut) {
    debug_assert!(payload.len() <= PAYLOAD_BYTES_MAX);
    let start = out.len();
    let header_bytes = if lz4 { LZ4_HEADER_BYTES } else { PLAIN_HEADER_BYTES };
    out.reserve(header_bytes + payload.len() + TRAILER_BYTES);
    out.put_bytes(0, header_bytes);
    let mut plain_length = 0;
    if lz4 {
        match lz4_compress(payload, out) {
            Some(length) if length < payload.len() => plain_length = payload.len() as u64,
            Some(_) | None => {
                out.truncate(start + header_bytes);
                out.put_slice(payload);
            }
        }
    } else {
        out.put_slice(payload);
    }
    close(out, start, lz4, plain_length, self_contained);
}

/// Makes a plain frame of whole messages out of bytes that begin with room for its header.
pub(crate) fn close_plain(frame: &mut BytesMut) {
    debug_assert!(frame.len() <= PLAIN_HEADER_BYTES + PAYLOAD_BYTES_MAX);
    close(frame, 0, false, 0, true);
}

/// The frame that begins at `start`, with room for its header, gets its header and its trailer.
fn close(out: &mut BytesMut, start: usize, lz4: bool, plain_length: u64, self_contained: bool) {
    let header_bytes = if lz4 { LZ4_HEADER_BYTES } else { PLAIN_HEADER_BYTES };
    let sent = out.get(start + header_bytes..).unwrap_or_default();
    let length = sent.len() as u64;
    let trailer = crc32(sent);
    out.put_u32_le(trailer);

    let (fields, flag) = if lz4 {
        (length | plain_length << LZ4_PLAIN_LENGTH_SHIFT, LZ4_SELF_CONTAINED)
    } else {
        (length, PLAIN_SELF_CONTAINED)
    };
    let fields = if self_contained { fields | flag } else { fields };
    let checked_bytes = header_bytes - 3;
    let crc = crc24(fields.to_le_bytes().get(..checked_bytes).unwrap_or_default());
    let header = fields | u64::from(crc) << (8 * checked_bytes);
    let bytes = header.to_le_bytes();
    if let (Some(slot), Some(bytes)) =
        (out.get_mut(start..start + header_bytes), bytes.get(..header_bytes))
    {
        slot.copy_from_slice(bytes);
    }
}
