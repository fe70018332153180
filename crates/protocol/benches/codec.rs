//! What messages of the hot path cost, 32 at a time as one read or write carries them:
//! `cargo xtask microbench`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement may stop")]

use bytes::{Buf, Bytes, BytesMut};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use protocol::{
    ColumnSpec, Compression, Consistency, FrameDecoder, Outgoing, QueryParameters, Request,
    RequestMessage, ResponseHead, RowsMetadata, Value, ValuesBuilder, Version,
};
use types::CqlType;

/// How many messages one read or write carries.
const GATHERED: i16 = 32;

fn main() {
    divan::main();
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

fn requests(version: Version, compression: Option<Compression>) -> Bytes {
    let mut outgoing = Outgoing::new();
    outgoing.start(version, compression);
    for _ in 0..GATHERED {
        put_execute(version, outgoing.messages());
    }
    outgoing.seal().split().freeze()
}

fn decode(bencher: Bencher<'_, '_>, version: Version, compression: Option<Compression>) {
    let wire = requests(version, compression);
    let mut decoder = FrameDecoder::for_requests(1 << 24);
    decoder.start(version, compression);
    let mut buf = BytesMut::new();
    bencher.counter(ItemsCount::new(GATHERED as usize)).bench_local(|| {
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

#[divan::bench]
fn decode_execute_v4(bencher: Bencher<'_, '_>) {
    decode(bencher, Version::V4, None);
}

#[divan::bench]
fn decode_execute_v5(bencher: Bencher<'_, '_>) {
    decode(bencher, Version::V5, None);
}

#[divan::bench]
fn decode_execute_v5_lz4(bencher: Bencher<'_, '_>) {
    decode(bencher, Version::V5, Some(Compression::Lz4));
}

fn encode(
    bencher: Bencher<'_, '_>,
    version: Version,
    compression: Option<Compression>,
    skip: bool,
) {
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
    bencher.counter(ItemsCount::new(GATHERED as usize)).bench_local(|| {
        for stream in 0..GATHERED {
            let head = ResponseHead::new(version, stream);
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

#[divan::bench]
fn encode_rows_v4(bencher: Bencher<'_, '_>) {
    encode(bencher, Version::V4, None, true);
}

#[divan::bench]
fn encode_rows_v4_with_columns(bencher: Bencher<'_, '_>) {
    encode(bencher, Version::V4, None, false);
}

#[divan::bench]
fn encode_rows_v5(bencher: Bencher<'_, '_>) {
    encode(bencher, Version::V5, None, true);
}

#[divan::bench]
fn encode_rows_v5_lz4(bencher: Bencher<'_, '_>) {
    encode(bencher, Version::V5, Some(Compression::Lz4), true);
}
