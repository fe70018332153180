//! Nanoseconds per message of the hot path: `cargo bench -p protocol`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::panic,
    reason = "a measurement needs the clock and prints its results"
)]

use std::hint::black_box;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use protocol::{
    ColumnSpec, Compression, Consistency, FrameDecoder, Outgoing, QueryParameters, Request,
    RequestMessage, ResponseHead, RowsMetadata, Value, ValuesBuilder, Version,
};
use types::CqlType;

const ROUNDS: u32 = 20_000;
/// How many messages one read or write carries.
const GATHERED: u32 = 32;

fn measure(name: &str, mut round: impl FnMut()) {
    for _ in 0..ROUNDS / 10 {
        round();
    }
    let start = Instant::now();
    for _ in 0..ROUNDS {
        round();
    }
    let nanos = start.elapsed().as_nanos() / u128::from(ROUNDS * GATHERED);
    println!("{name:<55} {nanos:>6} ns");
}

fn put_execute(version: Version, buf: &mut BytesMut) {
    let mut values = ValuesBuilder::positional(version);
    values.push("", Value::Bytes(b"a partition key"));
    values.push("", Value::Bytes(&42_i64.to_be_bytes()));
    values.push("", Value::Bytes(b"and some text to be written"));
    let mut parameters = QueryParameters::new(version, Consistency::LocalQuorum);
    parameters.values = values.values();
    parameters.skip_metadata = true;
    parameters.page_size = Some(5000);
    parameters.timestamp = Some(1_700_000_000_000_000);
    let request = Request::Execute {
        id: &[1; 16],
        result_metadata_id: (version >= Version::V5).then_some(&[2; 16]),
        parameters,
    };
    RequestMessage::new(request).encode(version, 1, buf);
}

fn bench_decode(version: Version, compression: Option<Compression>) {
    let mut outgoing = Outgoing::new();
    outgoing.start(version, compression);
    for _ in 0..GATHERED {
        put_execute(version, outgoing.messages());
    }
    let wire = outgoing.seal().split().freeze();
    let mut decoder = FrameDecoder::for_requests(1 << 24);
    decoder.start(version, compression);
    let mut buf = BytesMut::new();
    measure(&format!("take a message off the buffer, {version} {compression:?}"), || {
        buf.extend_from_slice(&wire);
        while let Some(frame) = decoder.decode(&mut buf).unwrap() {
            black_box(frame);
        }
    });
    measure(&format!("decode EXECUTE, 3 values, {version} {compression:?}"), || {
        buf.extend_from_slice(&wire);
        while let Some(frame) = decoder.decode(&mut buf).unwrap() {
            let message = RequestMessage::decode(&frame).unwrap();
            let Request::Execute { parameters, .. } = message.request else { panic!() };
            for value in parameters.values {
                black_box(value);
            }
        }
    });
}

fn bench_encode(version: Version, compression: Option<Compression>, skip: bool) {
    let column = |name: &str, cql_type| ColumnSpec {
        keyspace: "keyspace".into(),
        table: "table".into(),
        name: name.into(),
        cql_type,
    };
    let columns = [
        column("key", CqlType::Text),
        column("number", CqlType::BigInt),
        column("text", CqlType::Text),
    ];
    let mut outgoing = Outgoing::new();
    outgoing.start(version, compression);
    let metadata = RowsMetadata { skip, ..RowsMetadata::new(&columns) };
    let named = if skip { "" } else { " with metadata" };
    measure(&format!("encode ROWS, 1 row, {version} {compression:?}{named}"), || {
        for stream in 0..GATHERED {
            let head = ResponseHead::new(version, stream as i16);
            let mut rows = head.rows(&metadata, outgoing.messages());
            rows.cell(Some(b"a partition key"));
            rows.cell(Some(&42_i64.to_be_bytes()));
            rows.cell(Some(b"and some text that was read"));
            rows.end_row();
            rows.finish();
        }
        let sealed = outgoing.seal();
        sealed.advance(sealed.len());
    });
}

fn main() {
    for version in Version::ALL {
        bench_decode(version, None);
    }
    bench_decode(Version::V4, Some(Compression::Lz4));
    bench_decode(Version::V5, Some(Compression::Lz4));
    for version in Version::ALL {
        bench_encode(version, None, true);
        bench_encode(version, None, false);
    }
    bench_encode(Version::V4, Some(Compression::Lz4), true);
    bench_encode(Version::V5, Some(Compression::Lz4), true);
}
