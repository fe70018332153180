//! The bytes of every error that the recordings do not show, per version, from the specifications,
//! and the way Cassandra degrades them for older clients.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::BytesMut;
use protocol::*;

/// The body of an ERROR message, with what is text in quotes and the rest in hexadecimal.
fn body(version: Version, kind: &ErrorKind, message: &str) -> Vec<u8> {
    let mut buf = BytesMut::new();
    let error = ErrorResponse::new(kind.clone(), message);
    ResponseHead::new(version, 1).error(&error, &mut buf);
    buf[HEADER_BYTES..].to_vec()
}

/// `expected` holds hexadecimal digits and quoted strings, which stand for themselves with their
/// two-byte length before them.
fn check(kind: &ErrorKind, versions: &[Version], expected: &str) {
    let mut bytes = Vec::new();
    for (index, part) in expected.split('"').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: String = part.split_whitespace().collect();
        for at in (0..digits.len()).step_by(2) {
            bytes.push(u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
        }
    }
    for version in versions {
        assert_eq!(body(*version, kind, "text"), bytes, "{version} {kind:?}");
    }
}

const ALL: &[Version] = &Version::ALL;
const V3: &[Version] = &[Version::V3];
const V4: &[Version] = &[Version::V4];
const V5: &[Version] = &[Version::V5];
const V3_V4: &[Version] = &[Version::V3, Version::V4];
const V4_V5: &[Version] = &[Version::V4, Version::V5];

#[test]
fn errors_without_fields() {
    for (kind, code) in [
        (ErrorKind::Server, "00000000"),
        (ErrorKind::Protocol, "0000000A"),
        (ErrorKind::BadCredentials, "00000100"),
        (ErrorKind::Overloaded, "00001001"),
        (ErrorKind::IsBootstrapping, "00001002"),
        (ErrorKind::Truncate, "00001003"),
        (ErrorKind::Syntax, "00002000"),
        (ErrorKind::Unauthorized, "00002100"),
        (ErrorKind::Invalid, "00002200"),
        (ErrorKind::Config, "00002300"),
    ] {
        check(&kind, ALL, &format!("{code} \"text\""));
    }
    check(&ErrorKind::CdcWriteFailure, V4_V5, "00001600 \"text\"");
    check(&ErrorKind::CdcWriteFailure, V3, "00002200 \"ERROR CDC_WRITE_FAILURE: text\"");
}

#[test]
fn errors_with_names_and_ids() {
    let kind = ErrorKind::AlreadyExists { keyspace: "ks".into(), table: "t".into() };
    check(&kind, ALL, "00002400 \"text\" \"ks\" \"t\"");
    let kind = ErrorKind::AlreadyExists { keyspace: "ks".into(), table: String::new() };
    check(&kind, ALL, "00002400 \"text\" \"ks\" \"\"");
    let kind = ErrorKind::Unprepared { id: vec![0xAB, 0xCD] };
    check(&kind, ALL, "00002500 \"text\" 0002 ABCD");
    let kind = ErrorKind::FunctionFailure {
        keyspace: "ks".into(),
        name: "f".into(),
        argument_types: vec!["int".into(), "text".into()],
    };
    check(&kind, V4_V5, "00001400 \"text\" \"ks\" \"f\" 0002 \"int\" \"text\"");
    check(&kind, V3, "00002200 \"ERROR FUNCTION_FAILURE: text\"");
}

#[test]
fn unavailable_and_read_timeout() {
    let consistency = Consistency::Quorum;
    let kind = ErrorKind::Unavailable { consistency, required: 3, alive: 1 };
    check(&kind, ALL, "00001000 \"text\" 0004 00000003 00000001");
    let kind = ErrorKind::ReadTimeout { consistency, received: 1, required: 2, data_present: true };
    check(&kind, ALL, "00001200 \"text\" 0004 00000001 00000002 01");
}

#[test]
fn write_timeouts() {
    let kind = ErrorKind::WriteTimeout {
        consistency: Consistency::One,
        received: 0,
        required: 1,
        write_type: WriteType::BatchLog,
        contentions: None,
    };
    check(&kind, ALL, "00001100 \"text\" 0001 00000000 00000001 \"BATCH_LOG\"");
    let degraded = "00001100 \"Operation timed out - received only 1 responses.\" \
                    0008 00000001 00000002 \"CAS\"";
    let kind = ErrorKind::WriteTimeout {
        consistency: Consistency::Serial,
        received: 1,
        required: 2,
        write_type: WriteType::Cas,
        contentions: Some(7),
    };
    check(&kind, V5, "00001100 \"text\" 0008 00000001 00000002 \"CAS\" 0007");
    check(&kind, V3_V4, degraded);
    let kind =
        ErrorKind::CasWriteUnknown { consistency: Consistency::Serial, received: 1, required: 2 };
    check(&kind, V5, "00001700 \"text\" 0008 00000001 00000002");
    check(&kind, V3_V4, degraded);
}

#[test]
fn failures_are_counted_in_v4_and_listed_in_v5() {
    let failures = Failures {
        count: 2,
        reasons: vec![
            (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), FailureReason::READ_TOO_MANY_TOMBSTONES),
            (IpAddr::V6(Ipv6Addr::LOCALHOST), FailureReason::TIMEOUT),
        ],
    };
    let listed = "00000002 04 0A000001 0001 10 00000000000000000000000000000001 0002";
    let (consistency, received, required) = (Consistency::All, 1, 3);
    let kind = ErrorKind::ReadFailure {
        consistency,
        received,
        required,
        failures: failures.clone(),
        data_present: false,
    };
    check(&kind, V5, &format!("00001300 \"text\" 0005 00000001 00000003 {listed} 00"));
    check(&kind, V4, "00001300 \"text\" 0005 00000001 00000003 00000002 00");
    let timed_out = "\"Operation timed out - received only 1 responses.\"";
    check(&kind, V3, &format!("00001200 {timed_out} 0005 00000001 00000003 00"));
    let write_type = WriteType::Simple;
    let kind = ErrorKind::WriteFailure { consistency, received, required, failures, write_type };
    check(&kind, V5, &format!("00001500 \"text\" 0005 00000001 00000003 {listed} \"SIMPLE\""));
    check(&kind, V4, "00001500 \"text\" 0005 00000001 00000003 00000002 \"SIMPLE\"");
    check(&kind, V3, &format!("00001100 {timed_out} 0005 00000001 00000003 \"SIMPLE\""));
}

#[test]
fn what_comes_before_the_body_comes_in_order() {
    let head = ResponseHead {
        tracing_id: Some([7; 16]),
        warnings: &["w".to_owned()],
        custom_payload: &[("key", b"value")],
        ..ResponseHead::new(Version::V4, 3)
    };
    let mut buf = BytesMut::new();
    head.void(&mut buf);
    let mut expected = vec![0x84, 0x0E, 0, 3, 8, 0, 0, 0, 41];
    expected.extend_from_slice(&[7; 16]);
    expected.extend_from_slice(b"\0\x01\0\x01w\0\x01\0\x03key\0\0\0\x05value\0\0\0\x01");
    assert_eq!(buf, expected);

    // Before v4 there are no warnings and no payload.
    let mut buf = BytesMut::new();
    ResponseHead { version: Version::V3, ..head }.void(&mut buf);
    let mut expected = vec![0x83, 0x02, 0, 3, 8, 0, 0, 0, 20];
    expected.extend_from_slice(&[7; 16]);
    expected.extend_from_slice(b"\0\0\0\x01");
    assert_eq!(buf, expected);
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let text = "ä".repeat(40_000);
    let got = body(Version::V4, &ErrorKind::Server, &text);
    assert_eq!(got[4..6], [0xFF, 0xFE]);
    assert_eq!(got.len(), 6 + 0xFFFE);
    assert!(std::str::from_utf8(&got[6..]).is_ok());
}
