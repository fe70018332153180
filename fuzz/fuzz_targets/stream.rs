//! A stream of bytes in reads of any size, before and after STARTUP, in either framing. For outer
//! frames the checksums are made right, or the fuzzer would never get past them.
//!
//! Input: choices, the size of a read, and the bytes.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use protocol::{Compression, FrameDecoder, Outgoing, RequestMessage, ResponseMessage, Version};

fuzz_target!(|input: &[u8]| {
    let [choice, read_bytes, bytes @ ..] = input else { return };
    let is_server = choice & 0x01 == 0;
    let message_bytes_max = if choice & 0x02 == 0 { 1 << 20 } else { 300 };
    let mut decoder = if is_server {
        FrameDecoder::for_requests(message_bytes_max)
    } else {
        FrameDecoder::for_responses(message_bytes_max)
    };
    let compression = match choice >> 2 & 0x03 {
        0 | 1 => None,
        2 => Some(Compression::Lz4),
        _ => Some(Compression::Snappy),
    };
    let version = match choice >> 4 & 0x03 {
        0 => None,
        1 => Some(Version::V3),
        2 => Some(Version::V4),
        _ => Some(Version::V5),
    };
    if let Some(version) = version {
        decoder.start(version, compression);
    }
    let is_outer = version == Some(Version::V5);
    let stream = if is_outer && choice & 0x40 == 0 {
        outer_frames(bytes, compression.is_some(), choice & 0x80 == 0)
    } else {
        bytes.to_vec()
    };
    let mut outgoing = Outgoing::new();
    let compression = compression.filter(|chosen| !is_outer || *chosen == Compression::Lz4);
    outgoing.start(version.unwrap_or(Version::V4), compression);
    let mut buf = BytesMut::new();
    for read in stream.chunks(usize::from(*read_bytes).max(1)) {
        buf.extend_from_slice(read);
        loop {
            match decoder.decode(&mut buf) {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    if is_server {
                        let _ = RequestMessage::decode(&frame);
                    } else {
                        let _ = ResponseMessage::decode(&frame);
                    }
                    frame.encode(outgoing.messages());
                }
                Err(error) if error.fatal => {
                    assert!(buf.is_empty());
                    break;
                }
                Err(_) => {}
            }
        }
    }
    outgoing.seal();
});

/// Cuts the bytes into pieces, each led by its length, and frames each piece.
fn outer_frames(mut bytes: &[u8], lz4: bool, claims_compressed: bool) -> Vec<u8> {
    let mut frames = Vec::new();
    while let [length, flag, rest @ ..] = bytes {
        let (piece, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        let self_contained = u64::from(flag & 1);
        let sent_length = piece.len() as u64;
        let (fields, checked_bytes) = if lz4 {
            let plain_length = if claims_compressed { u64::from(*flag) * 5 } else { 0 };
            (sent_length | plain_length << 17 | self_contained << 34, 5)
        } else {
            (sent_length | self_contained << 17, 3)
        };
        let header = &fields.to_le_bytes()[..checked_bytes];
        frames.extend_from_slice(header);
        frames.extend_from_slice(&crc24(header).to_le_bytes()[..3]);
        frames.extend_from_slice(piece);
        frames.extend_from_slice(&crc32(piece).to_le_bytes());
    }
    frames
}

fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x0087_5060_u32;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0197_4F0B;
            }
        }
    }
    crc
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in [0xFA, 0x2D, 0x55, 0xCA].iter().chain(bytes) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xEDB8_8320 };
        }
    }
    !crc
}
