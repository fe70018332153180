//! Recordings of real drivers are decoded, compared with the expected text beside them, encoded
//! again to the very same bytes, and carried through our own framing.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected texts.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test"
)]

mod recording;

use std::fmt::Write;

use bytes::BytesMut;
use protocol::{
    Flags, Frame, FrameDecoder, MESSAGE_BYTES_MAX_DEFAULT, Opcode, Outgoing, RequestMessage,
    ResponseMessage,
};
use recording::{Connection, Side, connections, golden_files};

/// A line of expected text is cut off here; the bytes beyond are compared by encoding them again.
const LINE_CHARS_MAX: usize = 600;

fn describe(side: Side, message: &Result<Frame, protocol::FrameError>) -> String {
    let tag = match side {
        Side::Client => '>',
        Side::Server => '<',
    };
    let line = match message {
        Err(error) => format!("{tag} refused stream {}: {error}", error.stream),
        Ok(frame) => {
            let head = format!(
                "{tag} {} {:?} stream {} {} bytes: ",
                frame.version,
                frame.flags,
                frame.stream,
                frame.body.len()
            );
            let body = match side {
                Side::Client => format!("{:?}", RequestMessage::decode(frame)),
                Side::Server => format!("{:?}", ResponseMessage::decode(frame)),
            };
            head + &body
        }
    };
    line.chars().take(LINE_CHARS_MAX).collect()
}

#[test]
fn recordings_are_understood() {
    for path in golden_files() {
        let mut got = String::new();
        for (index, connection) in connections(&path).iter().enumerate() {
            writeln!(got, "# connection {}", index + 1).unwrap();
            for (side, message) in &connection.messages {
                writeln!(got, "{}", describe(*side, message)).unwrap();
            }
        }
        let expected_path = path.with_extension("txt");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&expected_path, &got).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap();
        for (got, expected) in got.lines().zip(expected.lines()) {
            assert_eq!(got, expected, "{}", path.display());
        }
        assert_eq!(got.lines().count(), expected.lines().count(), "{}", path.display());
    }
}

#[test]
fn messages_are_encoded_to_the_recorded_bytes() {
    let mut differences = Vec::new();
    for path in golden_files() {
        for connection in connections(&path) {
            for (side, message) in &connection.messages {
                let Ok(frame) = message else { continue };
                // The order of the events is the client's choice.
                if frame.opcode == Opcode::Register {
                    continue;
                }
                // The Java driver also sets this flag in v5, where it means nothing.
                let flags = frame.flags.without(Flags::COMPRESSED);
                let frame = &Frame { flags, ..frame.clone() };
                let mut recorded = BytesMut::new();
                frame.encode(&mut recorded);
                let mut encoded = BytesMut::new();
                match side {
                    Side::Client => {
                        let Ok(message) = RequestMessage::decode(frame) else { continue };
                        message.encode(frame.version, frame.stream, &mut encoded);
                    }
                    Side::Server => {
                        let message = ResponseMessage::decode(frame).unwrap();
                        message.encode(frame.version, frame.stream, &mut encoded);
                    }
                }
                if encoded != recorded {
                    let line = describe(*side, message);
                    differences.push(format!(
                        "{}: {line}\nrecorded {recorded:?}\nencoded  {encoded:?}\n",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences[0]);
}

#[test]
fn our_framing_carries_the_recorded_messages() {
    for path in golden_files() {
        for connection in connections(&path) {
            for side in [Side::Client, Side::Server] {
                carry(&connection, side);
            }
        }
    }
}

/// Sends the messages of one side through [`Outgoing`] and [`FrameDecoder`], in gathered writes of
/// growing size.
fn carry(connection: &Connection, side: Side) {
    let Some((version, compression, before)) = connection.started else { return };
    let sent: Vec<&Frame> = connection.messages[before..]
        .iter()
        .filter(|(sender, _)| *sender == side)
        .filter_map(|(_, message)| message.as_ref().ok())
        .collect();
    let mut outgoing = Outgoing::new();
    outgoing.start(version, compression);
    let mut decoder = match side {
        Side::Client => FrameDecoder::for_requests(MESSAGE_BYTES_MAX_DEFAULT),
        Side::Server => FrameDecoder::for_responses(MESSAGE_BYTES_MAX_DEFAULT),
    };
    decoder.start(version, compression);
    let mut received = Vec::new();
    let mut rest = sent.as_slice();
    let mut gather_count = 1;
    while !rest.is_empty() {
        let (gathered, later) = rest.split_at(gather_count.min(rest.len()));
        rest = later;
        gather_count += 1;
        for frame in gathered {
            frame.encode(outgoing.messages());
        }
        let wire = outgoing.seal();
        let mut buf = wire.split();
        while let Some(frame) = decoder.decode(&mut buf).unwrap() {
            received.push(frame);
        }
        assert!(buf.is_empty());
    }
    assert_eq!(sent, received.iter().collect::<Vec<_>>());
}
