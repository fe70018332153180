//! Frames of the bulk lane, made smaller with LZ4 where both sides agreed on that and where it helps. The rows of whole sets are long and repeat
//! themselves; what is urgent is short, and would wait for it.
//!
//! Packed is what is about to be written, not what waits: the thread that takes turns for all sets has no time for it, and the bounds of
//! queues stay those of what was said.

use bytes::Bytes;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use super::frame::{FrameError, HEAD_BYTES, KIND_MESSAGES, KIND_PACKED, LENGTH_BYTES, put_u32};
use super::lanes::Lane;
use super::queue::Piece;

/// Shorter frames go as they are: there is nothing to gain.
const PACKED_BYTES_MIN: usize = 512;
/// What comes out of a packed frame is no longer than this, and a longer frame goes as it is. A chunk of a transfer takes an eighth of it.
pub const UNPACKED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// No byte of an LZ4 block stands for more: a length that would need it is a lie.
const LZ4_RATIO_MAX: usize = 255;

/// Packs the frames of bulk of what is to be written, each if that makes it smaller.
pub(crate) fn pack(piece: &mut Piece) {
    if piece.shares.bulk.bytes < PACKED_BYTES_MIN {
        return;
    }
    let plain = std::mem::take(&mut piece.bytes);
    let mut packed = Vec::with_capacity(plain.len());
    let mut rest = plain.as_slice();
    for (lane, bytes) in &piece.runs {
        let (run, behind) = rest.split_at_checked(*bytes).unwrap_or((rest, &[]));
        rest = behind;
        match lane {
            Lane::Bulk => pack_frames(run, &mut packed),
            Lane::Consensus | Lane::Requests => packed.extend_from_slice(run),
        }
    }
    piece.saved_bytes = plain.len().saturating_sub(packed.len());
    piece.bytes = packed;
}

fn pack_frames(mut run: &[u8], out: &mut Vec<u8>) {
    while let Some(length) = run.first_chunk::<LENGTH_BYTES>() {
        let bytes = LENGTH_BYTES + u32::from_be_bytes(*length) as usize;
        let (frame, behind) = run.split_at_checked(bytes).unwrap_or((run, &[]));
        run = behind;
        if pack_frame(frame, out).is_none() {
            out.extend_from_slice(frame);
        }
    }
    out.extend_from_slice(run);
}

/// Appends a frame of messages, packed; `None`, and nothing is appended, if that does not help.
pub fn pack_frame(frame: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (head, plain) = frame.split_at_checked(LENGTH_BYTES + 1)?;
    let may_be_packed = (PACKED_BYTES_MIN..=UNPACKED_BYTES_MAX).contains(&frame.len());
    if head.last() != Some(&KIND_MESSAGES) || !may_be_packed {
        return None;
    }
    let start = out.len();
    out.resize(start + HEAD_BYTES + get_maximum_output_size(plain.len()), 0);
    let (_, place) = out.split_at_mut(start + HEAD_BYTES);
    let packed = compress_into(plain, place).ok();
    let helps = packed.filter(|bytes| HEAD_BYTES + bytes < frame.len());
    out.truncate(start + helps.map_or(0, |bytes| HEAD_BYTES + bytes));
    let packed = helps?;
    put_u32(out, start, HEAD_BYTES - LENGTH_BYTES + packed);
    if let Some(kind) = out.get_mut(start + LENGTH_BYTES) {
        *kind = KIND_PACKED;
    }
    put_u32(out, start + LENGTH_BYTES + 1, plain.len());
    Some(())
}

/// What was packed, which says itself how long it is. No room is made before that was looked at.
pub(super) fn unpack(
    block: &[u8],
    plain_bytes: usize,
    bytes_max: usize,
) -> Result<Bytes, FrameError> {
    let bytes_max = bytes_max.min(UNPACKED_BYTES_MAX);
    if plain_bytes > bytes_max {
        return Err(FrameError::TooLong { bytes: plain_bytes, bytes_max });
    }
    if plain_bytes > block.len().saturating_mul(LZ4_RATIO_MAX) {
        return Err(FrameError::Malformed);
    }
    let mut plain = vec![0; plain_bytes];
    match decompress_into(block, &mut plain) {
        Ok(bytes) if bytes == plain_bytes => Ok(plain.into()),
        Ok(_) | Err(_) => Err(FrameError::Malformed),
    }
}
