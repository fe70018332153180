//! Compression of bodies (v3, v4) and of outer frames (v5).
//!
//! A claimed length is checked against what the algorithm can possibly reach with the bytes at
//! hand, before anything of that length is allocated.

use bytes::{Bytes, BytesMut};

use crate::error::ProtocolError;

/// A body below this length is sent as it is: LZ4 and Snappy gain nothing there.
pub const COMPRESSED_BODY_BYTES_MIN: usize = 128;

/// The most bytes that one byte of LZ4 stands for.
const LZ4_RATIO_MAX: usize = 255;

/// The most bytes that one byte of Snappy stands for (a copy of 64 bytes takes two at least).
const SNAPPY_RATIO_MAX: usize = 32;

/// The algorithm a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// LZ4, in every version.
    Lz4,
    /// Snappy, in v3 and v4.
    Snappy,
}

impl Compression {
    /// The names a SUPPORTED message lists.
    pub const NAMES: [&'static str; 2] = ["snappy", "lz4"];

    /// The name that STARTUP uses.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
        }
    }

    /// Compresses the body of a message (v3, v4) behind what `out` holds. Returns `false` and
    /// leaves `out` as it was when that would not make the body shorter.
    pub(crate) fn compress_body(self, body: &[u8], out: &mut BytesMut) -> bool {
        if body.len() < COMPRESSED_BODY_BYTES_MIN {
            return false;
        }
        let start = out.len();
        let written = match self {
            Compression::Lz4 => {
                let Ok(length) = u32::try_from(body.len()) else { return false };
                out.extend_from_slice(&length.to_be_bytes());
                lz4_compress(body, out).map(|length| length + 4)
            }
            Compression::Snappy => snappy_compress(body, out),
        };
        let gained = written.is_some_and(|length| length < body.len());
        out.truncate(match written {
            Some(length) if gained => start + length,
            _ => start,
        });
        gained
    }

    /// The body of a message (v3, v4), decompressed; at most `length_max` bytes.
    pub(crate) fn decompress_body(
        self,
        body: &[u8],
        length_max: usize,
    ) -> Result<Bytes, ProtocolError> {
        match self {
            Compression::Lz4 => {
                let bad = ProtocolError::BadCompression { algorithm: "LZ4" };
                let Some((length, block)) = body.split_first_chunk::<4>() else { return Err(bad) };
                let length = u32::from_be_bytes(*length) as usize;
                if length > length_max {
                    return Err(ProtocolError::FrameTooLong {
                        length_bytes: length as u64,
                        length_bytes_max: length_max as u64,
                    });
                }
                // Drivers send an empty body as a zero length with or without an empty block.
                if length == 0 {
                    return Ok(Bytes::new());
                }
                lz4_decompress(block, length)
            }
            Compression::Snappy => snappy_decompress(body, length_max),
        }
    }
}

/// One LZ4 block behind what `out` holds; its length, or `None` if that failed.
pub(crate) fn lz4_compress(plain: &[u8], out: &mut BytesMut) -> Option<usize> {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
    let written = lz4_flex::block::compress_into(plain, out.get_mut(start..)?).ok();
    out.truncate(start + written.unwrap_or(0));
    written
}

/// One LZ4 block whose plain length is known.
pub(crate) fn lz4_decompress(block: &[u8], plain_length: usize) -> Result<Bytes, ProtocolError> {
    let bad = ProtocolError::BadCompression { algorithm: "LZ4" };
    if plain_length > block.len().saturating_mul(LZ4_RATIO_MAX) {
        return Err(bad);
    }
    let mut plain = vec![0; plain_length];
    match lz4_flex::block::decompress_into(block, &mut plain) {
        Ok(length) if length == plain_length => Ok(plain.into()),
        Ok(_) | Err(_) => Err(bad),
    }
}

fn snappy_compress(plain: &[u8], out: &mut BytesMut) -> Option<usize> {
    let start = out.len();
    out.resize(start + snap::raw::max_compress_len(plain.len()), 0);
    let written = snap::raw::Encoder::new().compress(plain, out.get_mut(start..)?).ok();
    out.truncate(start + written.unwrap_or(0));
    written
}

fn snappy_decompress(block: &[u8], length_max: usize) -> Result<Bytes, ProtocolError> {
    let bad = ProtocolError::BadCompression { algorithm: "Snappy" };
    let Ok(length) = snap::raw::decompress_len(block) else { return Err(bad) };
    if length > length_max {
        return Err(ProtocolError::FrameTooLong {
            length_bytes: length as u64,
            length_bytes_max: length_max as u64,
        });
    }
    if block.is_empty() || length > block.len().saturating_mul(SNAPPY_RATIO_MAX) {
        return Err(bad);
    }
    let mut plain = vec![0; length];
    match snap::raw::Decoder::new().decompress(block, &mut plain) {
        Ok(written) if written == length => Ok(plain.into()),
        Ok(_) | Err(_) => Err(bad),
    }
}
