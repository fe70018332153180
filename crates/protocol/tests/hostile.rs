//! Broken bytes never panic: recorded messages cut off at every length and with every bit flipped,
//! whole streams with flipped bits, and arbitrary bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod recording;

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use protocol::{
    Compression, Frame, FrameDecoder, Opcode, Request, RequestMessage, Response, ResponseMessage,
    Version,
};
use recording::{Side, connections, golden_files};

/// Only short messages are bent at every bit; the longer ones have the same parts.
const BENT_BYTES_MAX: usize = 600;

/// Looks at everything a decoded message offers.
fn decode(side: Side, frame: &Frame) {
    match side {
        Side::Client => {
            if let Ok(message) = RequestMessage::decode(frame) {
                walk_request(&message);
            }
        }
        Side::Server => {
            if let Ok(message) = ResponseMessage::decode(frame) {
                if let Response::Rows(rows) = &message.response {
                    let expected = rows.row_count.saturating_mul(rows.metadata.column_count);
                    assert_eq!(rows.cells().count(), expected);
                }
                let _ = format!("{message:?}");
            }
        }
    }
}

fn walk_request(message: &RequestMessage<'_>) {
    if let Some(payload) = &message.custom_payload {
        assert_eq!(payload.iter().count(), payload.count());
    }
    match &message.request {
        Request::Query { parameters, .. } | Request::Execute { parameters, .. } => {
            assert_eq!(parameters.values.iter().count(), parameters.values.count());
            assert_eq!(parameters.values.iter_named().count(), parameters.values.count());
        }
        Request::Batch(batch) => {
            assert_eq!(batch.statements.iter().count(), batch.statements.count());
            for statement in batch.statements.iter() {
                assert_eq!(statement.values.iter().count(), statement.values.count());
            }
        }
        Request::Startup(_)
        | Request::Options
        | Request::Prepare { .. }
        | Request::Register(_)
        | Request::AuthResponse(_) => {}
    }
}

/// The recorded messages that differ in more than their stream, short ones only.
fn distinct_messages() -> Vec<(Side, Frame)> {
    let mut seen = HashSet::new();
    let mut distinct = Vec::new();
    for path in golden_files() {
        for connection in connections(&path) {
            for (side, message) in connection.messages {
                let Ok(frame) = message else { continue };
                let key = (frame.opcode, frame.version, frame.body.len());
                if frame.body.len() <= BENT_BYTES_MAX && seen.insert(key) {
                    distinct.push((side, frame));
                }
            }
        }
    }
    distinct
}

#[test]
fn cut_off_messages_are_refused_or_complete() {
    for (side, frame) in distinct_messages() {
        for length in 0..frame.body.len() {
            decode(side, &Frame { body: frame.body.slice(..length), ..frame.clone() });
        }
    }
}

#[test]
fn flipped_bits_do_not_panic() {
    for (side, frame) in distinct_messages() {
        let mut body = frame.body.to_vec();
        for at in 0..body.len() {
            for bit in 0..8 {
                body[at] ^= 1 << bit;
                decode(side, &Frame { body: Bytes::copy_from_slice(&body), ..frame.clone() });
                body[at] ^= 1 << bit;
            }
        }
    }
}

/// Every version reads every message as if it were its own, whatever the opcode.
#[test]
fn messages_of_other_versions_and_kinds_do_not_panic() {
    for (_, frame) in distinct_messages() {
        for version in Version::ALL {
            for number in 0..=16 {
                let opcode = Opcode::from_number(number).unwrap();
                let bent = Frame { version, opcode, ..frame.clone() };
                decode(Side::Client, &bent);
                decode(Side::Server, &bent);
            }
        }
    }
}

fn feed(decoder: &mut FrameDecoder, side: Side, bytes: &[u8], chunk_bytes: usize) {
    let mut buf = BytesMut::new();
    for chunk in bytes.chunks(chunk_bytes.max(1)) {
        buf.extend_from_slice(chunk);
        loop {
            match decoder.decode(&mut buf) {
                Ok(Some(frame)) => decode(side, &frame),
                Ok(None) => break,
                Err(error) if error.fatal => {
                    assert!(buf.is_empty());
                    assert!(decoder.decode(&mut buf).unwrap().is_none());
                    return;
                }
                Err(_) => {}
            }
        }
    }
}

#[test]
fn streams_with_flipped_bits_do_not_panic() {
    for path in golden_files() {
        for connection in connections(&path) {
            let Some((version, compression, _)) = connection.started else { continue };
            for (side, chunk) in connection.chunks.iter().skip(4).take(12) {
                for at in 0..chunk.len().min(200) {
                    let mut bent = chunk.clone();
                    bent[at] ^= 1 << (at % 8);
                    let mut decoder = match side {
                        Side::Client => FrameDecoder::for_requests(1 << 20),
                        Side::Server => FrameDecoder::for_responses(1 << 20),
                    };
                    decoder.start(version, compression);
                    feed(&mut decoder, *side, &bent, 1 + at);
                }
            }
        }
    }
}

fn any_start() -> impl Strategy<Value = Option<(Version, Option<Compression>)>> {
    let version = prop::sample::select(&Version::ALL[..]);
    let compression =
        prop::sample::select(vec![None, Some(Compression::Lz4), Some(Compression::Snappy)]);
    prop::option::of((version, compression))
}

/// Bytes that get past the first checks more often than arbitrary ones.
fn likely_bytes() -> impl Strategy<Value = Vec<u8>> {
    let message = (
        prop::sample::select(vec![3_u8, 4, 5, 0x83, 0x84, 0x85, 6]),
        0..32_u8,
        any::<i16>(),
        0..18_u8,
        prop::collection::vec(any::<u8>(), 0..200),
        prop::option::weighted(0.1, any::<i32>()),
    )
        .prop_map(|(version, flags, stream, opcode, body, length)| {
            let mut bytes = vec![version, flags];
            bytes.extend_from_slice(&stream.to_be_bytes());
            bytes.push(opcode);
            let length = length.unwrap_or(i32::try_from(body.len()).unwrap());
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&body);
            bytes
        });
    prop::collection::vec(message, 1..5).prop_map(|messages| messages.concat())
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in prop_oneof![likely_bytes(), prop::collection::vec(any::<u8>(), 0..400)],
        start in any_start(),
        chunk_bytes in 1..300_usize,
        message_bytes_max in prop::sample::select(vec![9_usize, 64, 1 << 20]),
    ) {
        for side in [Side::Client, Side::Server] {
            let mut decoder = match side {
                Side::Client => FrameDecoder::for_requests(message_bytes_max),
                Side::Server => FrameDecoder::for_responses(message_bytes_max),
            };
            if let Some((version, compression)) = start {
                decoder.start(version, compression);
            }
            feed(&mut decoder, side, &bytes, chunk_bytes);
        }
    }
}
