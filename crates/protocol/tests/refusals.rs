//! What is said to a client whose bytes cannot be taken from the stream. Where Cassandra answers
//! with a text, the expected bytes were recorded from Cassandra 5.0.5.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a test"
)]

use bytes::BytesMut;
use protocol::*;

fn header(version: u8, flags: u8, stream: i16, opcode: u8, length: u32) -> Vec<u8> {
    let mut bytes = vec![version, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.push(opcode);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn message(version: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(version, 0, stream, opcode, u32::try_from(body.len()).unwrap());
    bytes.extend_from_slice(body);
    bytes
}

/// Everything the decoder says to `bytes`, one line each.
fn listen(decoder: &mut FrameDecoder, bytes: &[u8]) -> Vec<String> {
    let mut buf = BytesMut::from(bytes);
    let mut said = Vec::new();
    loop {
        match decoder.decode(&mut buf) {
            Ok(None) => return said,
            Ok(Some(frame)) => said.push(format!("{} {}", frame.stream, frame.opcode)),
            Err(error) => {
                let end = if error.fatal { " (closes)" } else { "" };
                said.push(format!("{} {error}{end}", error.stream));
            }
        }
    }
}

fn check(version: Option<Version>, bytes: &[u8], expected: &[&str]) {
    let mut decoder = FrameDecoder::for_requests(1000);
    if let Some(version) = version {
        decoder.start(version, None);
    }
    assert_eq!(listen(&mut decoder, bytes), expected, "{bytes:?}");
}

/// One outer frame without compression.
fn outer(messages: &[u8]) -> Vec<u8> {
    let mut outgoing = Outgoing::new();
    outgoing.start(Version::V5, None);
    outgoing.messages().extend_from_slice(messages);
    outgoing.seal().to_vec()
}

#[test]
fn unknown_versions_are_refused_on_sight() {
    for number in [0_u8, 1, 2, 7, 64, 65, 66, 127] {
        let expected = format!(
            "0 Invalid or unsupported protocol version ({number}); \
             supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta) (closes)"
        );
        check(None, &[number], &[&expected]);
        check(None, &message(number, 1, 1, b"\0\0"), &[&expected]);
        check(Some(Version::V4), &message(number, 1, 1, b"\0\0"), &[&expected]);
        let beta = header(number, Flags::USE_BETA.0, 1, 1, 0);
        check(None, &beta, &[&expected]);
    }
}

/// A beta is for those who ask for it; others are told, and the connection goes on.
#[test]
fn a_beta_wants_its_flag() {
    let text = "0 Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset";
    let beta = [header(6, Flags::USE_BETA.0, 8, 5, 0), message(6, 1, 1, b"\0\0")].concat();
    check(None, &beta, &["8 OPTIONS", text]);
    let other = [message(6, 1, 1, b"\0\0"), message(4, 9, 5, b"")].concat();
    check(Some(Version::V4), &other, &[text, "9 OPTIONS"]);
    let error = ProtocolError::BetaFlagUnset { version: Version::V6 };
    let error = FrameError { stream: 0, error, fatal: false };
    let mut buf = BytesMut::new();
    ResponseHead::frame_error(Some(Version::V4), &error, &mut buf);
    assert_eq!(buf[..5], [0x86, Flags::USE_BETA.0, 0, 0, 0]);
}

fn refusal(version: Option<Version>, number: u8) -> Vec<u8> {
    let error = ProtocolError::UnsupportedVersion { number };
    let error = FrameError { stream: 0, error, fatal: true };
    let mut buf = BytesMut::new();
    ResponseHead::frame_error(version, &error, &mut buf);
    buf.to_vec()
}

#[test]
fn old_clients_get_a_header_they_understand() {
    let text =
        "supported protocol version (2); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)";
    let old = refusal(None, 2);
    assert_eq!(old[..8], [0x82, 0, 0, 0, 0, 0, 0, 0x67]);
    assert_eq!(old[8..12], [0, 0, 0, 0x0A]);
    assert!(old.ends_with(text.as_bytes()));
    assert_eq!(old.len(), 8 + 0x67);

    let new = refusal(None, 66);
    assert_eq!(new[..9], [0x85, 0, 0, 0, 0, 0, 0, 0, 0x68]);
    // On a connection that has a version, that version is spoken.
    assert_eq!(refusal(Some(Version::V4), 2)[..9], [0x84, 0, 0, 0, 0, 0, 0, 0, 0x67]);
}

#[test]
fn bad_opcodes_are_answered_and_skipped() {
    let options = message(4, 8, 5, b"");
    for version in [None, Some(Version::V4)] {
        let bytes = [message(4, 5, 99, b"abc"), options.clone()].concat();
        check(version, &bytes, &["5 Unknown opcode 99", "8 OPTIONS"]);
        let bytes = [message(4, 5, 200, b""), options.clone()].concat();
        check(version, &bytes, &["5 Unknown opcode 200", "8 OPTIONS"]);
        let endless = header(4, 0, 5, 200, 1 << 30);
        check(version, &endless, &["5 Unknown opcode 200 (closes)"]);
        check(
            version,
            &message(4, 5, 2, b""),
            &["5 Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 2 (READY)"],
        );
        check(
            version,
            &message(0x84, 1, 1, b"\0\0"),
            &["1 Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 1 (STARTUP)"],
        );
        check(
            version,
            &message(0x84, 1, 2, b""),
            &["1 Unexpected RESPONSE message READY, expecting REQUEST"],
        );
    }
}

#[test]
fn another_version_on_the_same_connection_is_answered_and_skipped() {
    let bytes = [message(3, 5, 5, b""), message(4, 8, 5, b"")].concat();
    let expected = "5 Invalid message version. Got 3/v3 but previous messages on this connection \
                    had version 4/v4";
    check(Some(Version::V4), &bytes, &[expected, "8 OPTIONS"]);
}

#[test]
fn long_messages_are_answered_and_skipped() {
    let expected = "5 Request is too big: length 1001 exceeds maximum allowed length 1000.";
    let long = message(4, 5, 7, &[0; 992]);
    let bytes = [long.clone(), message(4, 8, 5, b"")].concat();
    check(Some(Version::V4), &bytes, &[expected, "8 OPTIONS"]);
    // The skipping goes on over later reads.
    let mut decoder = FrameDecoder::for_requests(1000);
    assert_eq!(listen(&mut decoder, &long[..20]), [expected]);
    assert_eq!(listen(&mut decoder, &long[20..]), [""; 0]);
    assert_eq!(listen(&mut decoder, &message(4, 8, 5, b"")), ["8 OPTIONS"]);
    // A negative length is a very large one.
    let huge = header(4, 0, 5, 5, u32::MAX);
    let expected = "5 Request is too big: length 4294967304 exceeds maximum allowed length 1000.";
    check(None, &huge, &[expected]);
}

#[test]
fn long_messages_are_answered_and_skipped_in_outer_frames() {
    let expected = "5 Request is too big: length 1001 exceeds maximum allowed length 1000.";
    let bytes = outer(&[message(5, 5, 7, &[0; 992]), message(5, 8, 5, b"")].concat());
    check(Some(Version::V5), &bytes, &[expected, "8 OPTIONS"]);

    let body = vec![0; 2 * PAYLOAD_BYTES_MAX];
    let bytes = [outer(&message(5, 5, 7, &body)), outer(&message(5, 8, 5, b""))].concat();
    let length = body.len() + HEADER_BYTES;
    let expected =
        format!("5 Request is too big: length {length} exceeds maximum allowed length 1000.");
    check(Some(Version::V5), &bytes, &[&expected, "8 OPTIONS"]);
}

#[test]
fn corrupt_outer_frames_close_the_connection() {
    let good = outer(&message(5, 8, 5, b""));
    check(Some(Version::V5), &good, &["8 OPTIONS"]);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bent = good.clone();
            bent[at] ^= 1 << bit;
            let mut decoder = FrameDecoder::for_requests(1000);
            decoder.start(Version::V5, None);
            let said = listen(&mut decoder, &bent);
            assert!(said[0].contains("unrecoverable CRC mismatch detected in frame"), "{said:?}");
            assert!(said[0].ends_with("(closes)"));
            assert_eq!(said.len(), 1);
            assert_eq!(listen(&mut decoder, &good), [""; 0], "nothing is read after that");
        }
    }
}

#[test]
fn bad_messages_in_an_outer_frame_are_skipped_once() {
    let bad = message(5, 5, 99, b"abc");
    let good = message(5, 8, 5, b"");
    let bytes = outer(&[bad.clone(), good.clone(), bad.clone(), good.clone()].concat());
    let refused = "5 Unknown opcode 99";
    check(Some(Version::V5), &bytes, &[refused, "8 OPTIONS", refused, "8 OPTIONS"]);
    let bytes = outer(&[bad.clone(), bad.clone(), good].concat());
    check(Some(Version::V5), &bytes, &[refused, "5 Unknown opcode 99 (closes)"]);
}

#[test]
fn torn_messages_in_a_self_contained_frame_close_the_connection() {
    // `Outgoing` takes whole messages only, so the short one is hidden in a longer frame and
    // its header is then made to ask for more. The checksum is made right again by hand.
    let torn = header(5, 0, 5, 7, 100);
    let mut decoder = FrameDecoder::for_requests(1000);
    decoder.start(Version::V5, None);
    let frame = outer_by_hand(&torn);
    let expected = "5 Undersized buffer supplied. Expected 109, actual 9 (closes)";
    assert_eq!(listen(&mut decoder, &frame), [expected]);
    let frame = outer_by_hand(b"short");
    check(
        Some(Version::V5),
        &frame,
        &["0 Undersized buffer supplied. Expected 9, actual 5 (closes)"],
    );
    let negative = outer_by_hand(&header(5, 0, 5, 7, u32::MAX));
    let expected = "5 Invalid value for envelope header body length field: -1 (closes)";
    check(Some(Version::V5), &negative, &[expected]);
}

/// A self-contained outer frame around anything, with right checksums, written from the
/// specification alone.
fn outer_by_hand(payload: &[u8]) -> Vec<u8> {
    let mut crc24 = 0x0087_5060_u32;
    let fields = u32::try_from(payload.len()).unwrap() | 1 << 17;
    let fields = &fields.to_le_bytes()[..3];
    for byte in fields {
        crc24 ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc24 <<= 1;
            if crc24 & 0x0100_0000 != 0 {
                crc24 ^= 0x0197_4F0B;
            }
        }
    }
    let mut crc32 = !0_u32;
    for byte in [0xFA, 0x2D, 0x55, 0xCA].iter().chain(payload) {
        crc32 ^= u32::from(*byte);
        for _ in 0..8 {
            crc32 = if crc32 & 1 == 0 { crc32 >> 1 } else { (crc32 >> 1) ^ 0xEDB8_8320 };
        }
    }
    let mut frame = fields.to_vec();
    frame.extend_from_slice(&crc24.to_le_bytes()[..3]);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&(!crc32).to_le_bytes());
    frame
}

#[test]
fn our_outer_frames_are_those_of_the_specification() {
    let message = message(5, 8, 5, b"abcdefgh");
    assert_eq!(outer(&message), outer_by_hand(&message));
}

/// The text for a request whose body is broken, as Cassandra has it.
fn check_body(version: Version, opcode: u8, flags: u8, body: &[u8], expected: &str) {
    let mut decoder = FrameDecoder::for_requests(1000);
    let length = u32::try_from(body.len()).unwrap();
    let beta = if version.is_beta() { Flags::USE_BETA.0 } else { 0 };
    let mut buf = BytesMut::from(&*header(version.number(), flags | beta, 1, opcode, length));
    buf.extend_from_slice(body);
    let frame = decoder.decode(&mut buf).unwrap().unwrap();
    let got = match RequestMessage::decode(&frame) {
        Ok(message) => format!("{:?}", message.request),
        Err(error) => error.to_string(),
    };
    assert_eq!(got, expected, "{body:?}");
}

#[test]
fn broken_bodies_are_refused_in_the_words_of_cassandra() {
    let string = |width| {
        format!(
            "Not enough bytes to read an UTF8 serialized string preceded by its {width} bytes \
             length"
        )
    };
    let short_bytes = "Not enough bytes to read a byte array preceded by its 2 bytes length";
    for version in Version::ALL {
        check_body(version, 7, 0, b"\0\0\0\x05ab", &string(4));
        check_body(version, 7, 0, b"", &string(4));
        check_body(version, 7, 0, b"\xff\xff\xff\xff\0\x01\0", &string(4));
        check_body(version, 10, 0, b"\0", short_bytes);
        check_body(version, 10, 0, b"\0\x05ab", short_bytes);
        check_body(
            version,
            7,
            0,
            b"\0\0\0\x02ab\0\x20\0",
            "Unknown code 32 for a consistency level",
        );
        check_body(
            version,
            7,
            0,
            b"\0\0\0\x02\xff\xfe\0\x01\0",
            "Cannot decode string as UTF8: 'fffe'",
        );
        check_body(version, 4, 0, b"\0\0", "Unsupported message");
        check_body(version, 11, 0, b"\0\x01\0\x03ABC", "Invalid value 'ABC' for Type");
        check_body(
            version,
            13,
            0,
            b"\0\0\x01\x05",
            "Invalid query kind in BATCH messages. Must be 0 or 1 but got 5",
        );
        check_body(version, 1, 0, b"\0\x01\0\x05ab", &string(2));
        check_body(version, 5, 4, b"\0\x01", &string(2));
    }
    check_body(Version::V4, 13, 0, b"\x07\0\0\0\x01\0", "Invalid BATCH message type 7");
    check_body(
        Version::V3,
        5,
        4,
        b"\0\0",
        "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4",
    );
    check_body(
        Version::V3,
        11,
        0,
        b"\0\x01\0\x0eTRACE_COMPLETE",
        "Event TRACE_COMPLETE not valid for protocol version 3/v3",
    );
    let value = b"\0\0\0\x02ab\0\x01\x01\0\x01\xff\xff\xff\xfd";
    check_body(Version::V4, 7, 0, value, "Invalid ByteBuf length -3");
    check_body(
        Version::V4,
        7,
        0,
        b"\0\0\0\x02ab\0\x01\x20\x80\0\0\0\0\0\0\0",
        "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] (got \
         -9223372036854775808)",
    );
}

#[test]
fn unpacking_is_bounded_by_what_was_sent() {
    let lz4 = ["7fffffff00", "ffffffff00", "0000000261", ""];
    for (compression, bodies) in
        [(Compression::Lz4, lz4), (Compression::Snappy, ["ffffffff0f00", "c0843d00", "", "0561"])]
    {
        for body in bodies {
            let body: Vec<u8> = (0..body.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&body[at..at + 2], 16).unwrap())
                .collect();
            let mut decoder = FrameDecoder::for_requests(1000);
            decoder.start(Version::V4, Some(compression));
            let mut bytes = header(4, 1, 7, 5, u32::try_from(body.len()).unwrap());
            bytes.extend_from_slice(&body);
            bytes.extend_from_slice(&message(4, 8, 5, b""));
            let said = listen(&mut decoder, &bytes);
            assert!(
                said[0].starts_with("7 Provided frame does not appear to be")
                    || said[0].starts_with("7 Request is too big"),
                "{said:?}"
            );
            assert_eq!(said[1..], ["8 OPTIONS"]);
        }
    }
}
