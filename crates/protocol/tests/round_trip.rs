//! Decoding what was encoded gives back the same message, for every message and version, and the
//! framing carries any sequence of messages through any cuts of the byte stream.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a test"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use protocol::*;
use types::{CqlType, UserType};

fn version() -> impl Strategy<Value = Version> {
    select(&Version::ALL[..])
}

fn consistency() -> impl Strategy<Value = Consistency> {
    select(&Consistency::ALL[..])
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_]{0,12}", "\\PC{0,8}"]
}

fn blob() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

/// The one message in `buf`, through a decoder of that direction.
fn only_frame(mut decoder: FrameDecoder, mut buf: BytesMut) -> Frame {
    let frame = decoder.decode(&mut buf).unwrap().unwrap();
    assert!(buf.is_empty());
    frame
}

// ---------------------------------------------------------------------------------- requests

/// A value with a name: bytes, null or unset.
type NamedValue = (String, Option<Option<Vec<u8>>>);

fn build_values(version: Version, named: bool, values: &[NamedValue]) -> ValuesBuilder {
    let mut builder =
        if named { ValuesBuilder::named(version) } else { ValuesBuilder::positional(version) };
    for (name, value) in values {
        let value = match value {
            Some(Some(bytes)) => Value::Bytes(bytes),
            Some(None) => Value::Null,
            None => Value::Unset,
        };
        builder.push(name, value);
    }
    builder
}

fn named_values() -> impl Strategy<Value = Vec<NamedValue>> {
    vec((name(), option::weighted(0.9, option::weighted(0.9, blob()))), 0..6)
}

#[derive(Clone, Debug)]
struct Parameters {
    named: bool,
    values: Vec<NamedValue>,
    consistency: Consistency,
    skip_metadata: bool,
    page_size: Option<i32>,
    paging_state: Option<Vec<u8>>,
    serial_consistency: Option<Consistency>,
    timestamp: Option<i64>,
    keyspace: Option<String>,
    now_in_seconds: Option<u32>,
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let first = (any::<bool>(), named_values(), consistency(), any::<bool>());
    let second = (
        option::of(any::<i32>()),
        option::of(blob()),
        option::of(consistency()),
        option::of((i64::MIN + 1)..),
        option::of(name()),
        option::of(any::<u32>()),
    );
    (first, second).prop_map(|(first, second)| {
        let (named, values, consistency, skip_metadata) = first;
        let (page_size, paging_state, serial_consistency, timestamp, keyspace, now_in_seconds) =
            second;
        Parameters {
            named: named && !values.is_empty(),
            values,
            consistency,
            skip_metadata,
            page_size,
            paging_state,
            serial_consistency,
            timestamp,
            keyspace,
            now_in_seconds,
        }
    })
}

impl Parameters {
    /// What a message of that version can say.
    fn of_version(&self, version: Version) -> Parameters {
        let is_v5 = version >= Version::V5;
        Parameters {
            keyspace: self.keyspace.clone().filter(|_| is_v5),
            now_in_seconds: self.now_in_seconds.filter(|_| is_v5),
            ..self.clone()
        }
    }

    fn build<'a>(&'a self, values: Values<'a>) -> QueryParameters<'a> {
        QueryParameters {
            consistency: self.consistency,
            values,
            skip_metadata: self.skip_metadata,
            page_size: self.page_size,
            paging_state: self.paging_state.as_deref(),
            serial_consistency: self.serial_consistency,
            timestamp: self.timestamp,
            keyspace: self.keyspace.as_deref(),
            now_in_seconds: self.now_in_seconds,
        }
    }
}

fn check_request(version: Version, stream: i16, message: RequestMessage<'_>) {
    let mut buf = BytesMut::new();
    message.encode(version, stream, &mut buf);
    let frame = only_frame(FrameDecoder::for_requests(1 << 20), buf);
    assert_eq!(frame.stream, stream);
    assert_eq!(frame.version, version);
    assert_eq!(frame.opcode, message.request.opcode());
    assert_eq!(RequestMessage::decode(&frame).unwrap(), message);
}

proptest! {
    #[test]
    fn query_and_execute(
        version in version(),
        stream in any::<i16>(),
        text in "\\PC{0,60}",
        id in blob(),
        result_metadata_id in blob(),
        sent in parameters(),
        tracing in any::<bool>(),
        payload in option::of(vec((name(), option::of(blob())), 0..4)),
    ) {
        let sent = sent.of_version(version);
        let values = build_values(version, sent.named, &sent.values);
        let parameters = sent.build(values.values());
        let mut map = MapBuilder::new();
        for (key, value) in payload.iter().flatten() {
            map.bytes(key, value.as_deref());
        }
        let custom_payload = (payload.is_some() && version >= Version::V4).then(|| map.bytes_map());
        let requests = [
            Request::Query { text: &text, parameters },
            Request::Execute {
                id: &id,
                result_metadata_id: (version >= Version::V5).then_some(&result_metadata_id),
                parameters,
            },
        ];
        for request in requests {
            check_request(version, stream, RequestMessage { tracing, custom_payload, request });
        }
        prop_assert_eq!(parameters.values.count(), sent.values.len());
        for (index, value) in parameters.values.iter().enumerate() {
            prop_assert_eq!(parameters.values.get(index), Some(value));
        }
    }

    #[test]
    fn prepare(
        version in version(),
        stream in any::<i16>(),
        text in "\\PC{0,60}",
        keyspace in option::of(name()),
    ) {
        let keyspace = keyspace.as_deref().filter(|_| version >= Version::V5);
        let request = Request::Prepare { text: &text, keyspace };
        check_request(version, stream, RequestMessage::new(request));
    }

    #[test]
    fn batch(
        version in version(),
        stream in any::<i16>(),
        kind in select(vec![BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter]),
        sent in vec((any::<bool>(), "\\PC{0,30}", named_values()), 0..5),
        parameters in parameters(),
    ) {
        let parameters = parameters.of_version(version);
        let mut builder = BatchBuilder::new(version);
        for (is_text, text, values) in &sent {
            let values = build_values(version, false, values);
            let source = if *is_text {
                StatementSource::Text(text)
            } else {
                StatementSource::Prepared(text.as_bytes())
            };
            builder.push(source, values.values());
        }
        let batch = Batch {
            kind,
            statements: builder.statements(),
            parameters: parameters.build(Values::none(version)),
        };
        prop_assert_eq!(batch.statements.iter().count(), sent.len());
        check_request(version, stream, RequestMessage::new(Request::Batch(batch)));
    }

    #[test]
    fn other_requests(
        version in version(),
        stream in any::<i16>(),
        options in vec((name(), name()), 0..5),
        kinds in any::<[bool; 4]>(),
        token in option::of(blob()),
    ) {
        let mut map = MapBuilder::new();
        for (key, value) in &options {
            map.string(key, value);
        }
        let [topology_change, status_change, schema_change, trace_complete] = kinds;
        let trace_complete = trace_complete && version >= Version::V4;
        let kinds = EventKinds { topology_change, status_change, schema_change, trace_complete };
        for request in [
            Request::Startup(map.string_map()),
            Request::Options,
            Request::Register(kinds),
            Request::AuthResponse(token.as_deref()),
        ] {
            check_request(version, stream, RequestMessage::new(request));
        }
    }
}

// --------------------------------------------------------------------------------- responses

fn cql_type() -> impl Strategy<Value = CqlType> {
    let native = select(vec![
        CqlType::Ascii,
        CqlType::BigInt,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Counter,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
        CqlType::Empty,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::SmallInt,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::TimeUuid,
        CqlType::TinyInt,
        CqlType::Uuid,
        CqlType::Varint,
        CqlType::Custom("com.example.Thing".into()),
    ]);
    native.prop_recursive(3, 12, 4, |inner| {
        let frozen = true;
        prop_oneof![
            inner.clone().prop_map(move |t| CqlType::List { element: Arc::new(t), frozen }),
            inner.clone().prop_map(move |t| CqlType::Set { element: Arc::new(t), frozen }),
            (inner.clone(), inner.clone()).prop_map(move |(key, value)| CqlType::Map {
                key: Arc::new(key),
                value: Arc::new(value),
                frozen
            }),
            vec(inner.clone(), 0..4).prop_map(|parts| CqlType::Tuple(parts.into())),
            (inner.clone(), 1..9_u16)
                .prop_map(|(t, dimension)| CqlType::Vector { element: Arc::new(t), dimension }),
            (name(), name(), vec((name(), inner), 0..4)).prop_map(
                move |(keyspace, name, fields)| {
                    let fields = fields.into_iter().map(|(name, t)| (name.into(), t)).collect();
                    let definition =
                        UserType { keyspace: keyspace.into(), name: name.into(), fields };
                    CqlType::User { definition: Arc::new(definition), frozen }
                }
            ),
        ]
    })
}

/// What a client of that version is told: types it has no code for are class names to it.
fn announced(cql_type: &CqlType, version: Version) -> CqlType {
    let nested = |t: &Arc<CqlType>| Arc::new(announced(t, version));
    let by_class = |t: &CqlType| CqlType::Custom(marshal_name(t).into());
    match cql_type {
        CqlType::Date | CqlType::Time | CqlType::SmallInt | CqlType::TinyInt
            if version < Version::V4 =>
        {
            by_class(cql_type)
        }
        CqlType::Duration if version < Version::V5 => by_class(cql_type),
        CqlType::Empty | CqlType::Vector { .. } => by_class(cql_type),
        CqlType::List { element, frozen } => {
            CqlType::List { element: nested(element), frozen: *frozen }
        }
        CqlType::Set { element, frozen } => {
            CqlType::Set { element: nested(element), frozen: *frozen }
        }
        CqlType::Map { key, value, frozen } => {
            CqlType::Map { key: nested(key), value: nested(value), frozen: *frozen }
        }
        CqlType::Tuple(parts) => {
            CqlType::Tuple(parts.iter().map(|part| announced(part, version)).collect())
        }
        CqlType::User { definition, frozen } => {
            let fields = definition.fields.iter();
            let fields = fields.map(|(name, t)| (Arc::clone(name), announced(t, version)));
            let definition = UserType { fields: fields.collect(), ..(**definition).clone() };
            CqlType::User { definition: Arc::new(definition), frozen: *frozen }
        }
        other => other.clone(),
    }
}

fn columns() -> impl Strategy<Value = Vec<ColumnSpec>> {
    let column = (select(vec!["ks", "other"]), select(vec!["t", "u"]), name(), cql_type());
    (any::<bool>(), vec(column, 0..5)).prop_map(|(one_table, columns)| {
        columns
            .into_iter()
            .map(|(keyspace, table, name, cql_type)| ColumnSpec {
                keyspace: if one_table { "ks" } else { keyspace }.into(),
                table: if one_table { "t" } else { table }.into(),
                name: name.into(),
                cql_type,
            })
            .collect()
    })
}

fn announced_columns(columns: &[ColumnSpec], version: Version) -> Vec<ColumnSpec> {
    let columns = columns.iter().cloned();
    columns.map(|c| ColumnSpec { cql_type: announced(&c.cql_type, version), ..c }).collect()
}

fn rows() -> impl Strategy<Value = Rows> {
    let metadata = (columns(), any::<bool>(), option::of(blob()), option::of(blob()));
    (metadata, 0..4_usize).prop_flat_map(|(metadata, row_count)| {
        let (columns, skip, paging_state, new_metadata_id) = metadata;
        let column_count = columns.len();
        let cells = vec(option::of(blob()), row_count * column_count);
        cells.prop_map(move |cells| {
            let metadata = ResultMetadata {
                column_count,
                columns: (!skip).then(|| columns.clone()),
                paging_state: paging_state.clone(),
                new_metadata_id: new_metadata_id.clone().filter(|_| !skip),
            };
            Rows::new(metadata, row_count, &cells)
        })
    })
}

fn prepared() -> impl Strategy<Value = PreparedResponse> {
    (blob(), blob(), columns(), vec(any::<u16>(), 0..3), option::of(columns())).prop_map(
        |(id, result_metadata_id, bind, partition_key_indexes, result)| PreparedResponse {
            id,
            result_metadata_id: Some(result_metadata_id),
            bind,
            partition_key_indexes,
            result: ResultMetadata {
                column_count: result.as_ref().map_or(0, Vec::len),
                columns: result,
                paging_state: None,
                new_metadata_id: None,
            },
        },
    )
}

fn schema_change() -> impl Strategy<Value = SchemaChange> {
    let kind = select(vec![
        SchemaChangeKind::Created,
        SchemaChangeKind::Updated,
        SchemaChangeKind::Dropped,
    ]);
    let target = prop_oneof![
        Just(SchemaTarget::Keyspace),
        name().prop_map(SchemaTarget::Table),
        name().prop_map(SchemaTarget::Type),
        (name(), vec(name(), 0..3))
            .prop_map(|(name, argument_types)| SchemaTarget::Function { name, argument_types }),
        (name(), vec(name(), 0..3))
            .prop_map(|(name, argument_types)| SchemaTarget::Aggregate { name, argument_types }),
    ];
    (kind, name(), target).prop_map(|(kind, keyspace, target)| SchemaChange {
        kind,
        keyspace,
        target,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let address = any::<(IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip, port));
    let topology = select(vec![
        TopologyChange::NewNode,
        TopologyChange::RemovedNode,
        TopologyChange::MovedNode,
    ]);
    let status = select(vec![NodeStatus::Up, NodeStatus::Down]);
    prop_oneof![
        (topology, address.clone())
            .prop_map(|(change, address)| Event::TopologyChange { change, address }),
        (status, address).prop_map(|(status, address)| Event::StatusChange { status, address }),
        schema_change().prop_map(Event::SchemaChange),
    ]
}

fn failures() -> impl Strategy<Value = Failures> {
    vec((any::<IpAddr>(), (0..8_u16).prop_map(FailureReason)), 0..4)
        .prop_map(|reasons| Failures { count: i32::try_from(reasons.len()).unwrap(), reasons })
}

fn error() -> impl Strategy<Value = ErrorResponse> {
    let plain = select(vec![
        ErrorKind::Server,
        ErrorKind::Protocol,
        ErrorKind::BadCredentials,
        ErrorKind::Overloaded,
        ErrorKind::IsBootstrapping,
        ErrorKind::Truncate,
        ErrorKind::CdcWriteFailure,
        ErrorKind::Syntax,
        ErrorKind::Unauthorized,
        ErrorKind::Invalid,
        ErrorKind::Config,
    ]);
    let progress = (consistency(), any::<i32>(), any::<i32>());
    let write_type = select(&WriteType::ALL[..]);
    let timeout = (progress, write_type, any::<u16>(), any::<bool>(), failures());
    let with_progress = (0..6_u8, timeout).prop_map(|(which, fields)| {
        let ((consistency, received, required), write_type, contentions, data_present, failures) =
            fields;
        match which {
            0 => ErrorKind::Unavailable { consistency, required: received, alive: required },
            1 => ErrorKind::WriteTimeout {
                consistency,
                received,
                required,
                write_type,
                contentions: (write_type == WriteType::Cas).then_some(contentions),
            },
            2 => ErrorKind::ReadTimeout { consistency, received, required, data_present },
            3 => ErrorKind::ReadFailure { consistency, received, required, failures, data_present },
            4 => ErrorKind::WriteFailure { consistency, received, required, failures, write_type },
            _ => ErrorKind::CasWriteUnknown { consistency, received, required },
        }
    });
    let with_names = (0..3_u8, name(), name(), vec(name(), 0..3), blob()).prop_map(
        |(which, keyspace, name, argument_types, id)| match which {
            0 => ErrorKind::FunctionFailure { keyspace, name, argument_types },
            1 => ErrorKind::AlreadyExists { keyspace, table: name },
            _ => ErrorKind::Unprepared { id },
        },
    );
    ("\\PC{0,40}", prop_oneof![plain, with_progress, with_names])
        .prop_map(|(message, kind)| ErrorResponse { message, kind })
}

fn response() -> impl Strategy<Value = Response> {
    prop_oneof![
        error().prop_map(Response::Error),
        Just(Response::Ready),
        name().prop_map(Response::Authenticate),
        vec((name(), vec(name(), 0..4)), 0..4).prop_map(Response::Supported),
        Just(Response::Void),
        rows().prop_map(Response::Rows),
        name().prop_map(Response::SetKeyspace),
        prepared().prop_map(Response::Prepared),
        schema_change().prop_map(Response::SchemaChange),
        event().prop_map(Response::Event),
        option::of(blob()).prop_map(Response::AuthChallenge),
        option::of(blob()).prop_map(Response::AuthSuccess),
    ]
}

/// What is left of a response when a server says it to a client of that version.
fn told(response: &Response, version: Version) -> Response {
    match response {
        Response::Error(error) => {
            let mut error = error.for_version(version).into_owned();
            if let ErrorKind::ReadFailure { failures, .. }
            | ErrorKind::WriteFailure { failures, .. } = &mut error.kind
                && version < Version::V5
            {
                failures.reasons.clear();
            }
            Response::Error(error)
        }
        Response::Rows(rows) => {
            let mut rows = rows.clone();
            rows.metadata.new_metadata_id.take_if(|_| version < Version::V5);
            let columns = rows.metadata.columns;
            rows.metadata.columns = columns.map(|columns| announced_columns(&columns, version));
            Response::Rows(rows)
        }
        Response::Prepared(prepared) => {
            let mut prepared = prepared.clone();
            prepared.result_metadata_id.take_if(|_| version < Version::V5);
            let table = |c: &ColumnSpec| (Arc::clone(&c.keyspace), Arc::clone(&c.table));
            let first = prepared.bind.first().map(table);
            let has_one_table = prepared.bind.iter().all(|c| Some(table(c)) == first);
            if prepared.bind.is_empty() || !has_one_table || version < Version::V4 {
                prepared.partition_key_indexes.clear();
            }
            prepared.bind = announced_columns(&prepared.bind, version);
            let columns = prepared.result.columns;
            prepared.result.columns = columns.map(|columns| announced_columns(&columns, version));
            Response::Prepared(prepared)
        }
        Response::SchemaChange(change) => Response::SchemaChange(told_change(change, version)),
        Response::Event(Event::SchemaChange(change)) => {
            Response::Event(Event::SchemaChange(told_change(change, version)))
        }
        other => other.clone(),
    }
}

fn told_change(change: &SchemaChange, version: Version) -> SchemaChange {
    match &change.target {
        SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. } if version < Version::V4 => {
            SchemaChange {
                kind: SchemaChangeKind::Updated,
                keyspace: change.keyspace.clone(),
                target: SchemaTarget::Keyspace,
            }
        }
        _ => change.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn responses(
        version in version(),
        stream in any::<i16>(),
        response in response(),
        tracing_id in option::of(any::<[u8; 16]>()),
        warnings in vec(name(), 0..3),
        custom_payload in vec((name(), blob().prop_map(Some)), 0..3),
    ) {
        let sent = ResponseMessage { tracing_id, warnings, custom_payload, response };
        let mut buf = BytesMut::new();
        sent.encode(version, stream, &mut buf);
        let frame = only_frame(FrameDecoder::for_responses(1 << 20), buf);
        let got = ResponseMessage::decode(&frame).unwrap();
        let mut expected =
            ResponseMessage { response: told(&sent.response, version), ..sent.clone() };
        if matches!(sent.response, Response::Event(_)) {
            prop_assert_eq!(frame.stream, EVENT_STREAM);
            expected = ResponseMessage::new(expected.response);
        } else {
            prop_assert_eq!(frame.stream, stream);
            if version < Version::V4 {
                expected.warnings.clear();
                expected.custom_payload.clear();
            }
        }
        prop_assert_eq!(got, expected);
    }

    /// A paging state told at the end gives the same bytes as one told at the start.
    #[test]
    fn paging_state_at_the_end(
        version in version(),
        columns in columns(),
        cells in vec(option::of(blob()), 0..20),
        paging_state in blob(),
        new_metadata_id in option::of(blob()),
        skip in any::<bool>(),
    ) {
        let head = ResponseHead::new(version, 7);
        let new_metadata_id = new_metadata_id.as_deref();
        let at_end = RowsMetadata { columns: &columns, skip, new_metadata_id, paging_state: None };
        let at_start = RowsMetadata { paging_state: Some(&paging_state), ..at_end };
        let (mut one, mut other) = (BytesMut::from("before"), BytesMut::from("before"));
        let mut writer = head.rows(&at_end, &mut one);
        for cell in &cells {
            writer.cell(cell.as_deref());
            writer.end_row();
        }
        writer.finish_with_paging_state(&paging_state);
        let mut writer = head.rows(&at_start, &mut other);
        for cell in &cells {
            match cell {
                Some(cell) => writer.cell_in_place(|buf| buf.extend_from_slice(cell)),
                None => writer.cell(None),
            }
            writer.end_row();
        }
        writer.finish();
        prop_assert_eq!(&one, &other);
        drop(head.rows(&at_start, &mut other));
        prop_assert_eq!(&one, &other, "an unfinished result leaves no trace");
    }
}

// ----------------------------------------------------------------------------------- framing

/// Bodies of all sizes: empty, small, around the limit of an outer frame, and larger; some that
/// compress and some that do not.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![
        4 => 0..300_usize,
        1 => PAYLOAD_BYTES_MAX - 20..PAYLOAD_BYTES_MAX + 20,
        1 => 2 * PAYLOAD_BYTES_MAX - 20..2 * PAYLOAD_BYTES_MAX + 20,
    ];
    (length, any::<u64>(), any::<bool>()).prop_map(|(length, seed, compresses)| {
        let mut state = seed;
        (0..length)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at as u64);
                if compresses { (at % 7) as u8 } else { (state >> 56) as u8 }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn framing_carries_any_messages_through_any_cuts(
        version in version(),
        compression in select(vec![None, Some(Compression::Lz4), Some(Compression::Snappy)]),
        bodies in vec((body(), any::<i16>(), any::<bool>()), 1..8),
        cut_bytes in prop_oneof![1..40_usize, 1000..200_000_usize],
    ) {
        let compression = compression.filter(|chosen| {
            version < Version::V5 || *chosen == Compression::Lz4
        });
        let mut outgoing = Outgoing::new();
        outgoing.start(version, compression);
        let mut sent = Vec::new();
        let mut wire = Vec::new();
        for (body, stream, seal) in bodies {
            let flags = if version.is_beta() { Flags::USE_BETA } else { Flags::default() };
            let opcode = Opcode::Query;
            let frame = Frame { version, flags, stream, opcode, body: Bytes::from(body) };
            frame.encode(outgoing.messages());
            sent.push(frame);
            if seal {
                wire.extend_from_slice(&outgoing.seal().split());
            }
        }
        wire.extend_from_slice(&outgoing.seal().split());
        prop_assert!(outgoing.is_empty());

        let mut decoder = FrameDecoder::for_requests(1 << 20);
        decoder.start(version, compression);
        let mut received = Vec::new();
        let mut buf = BytesMut::new();
        // Small cuts only for small streams, or this takes minutes.
        let cut_bytes = cut_bytes.max(wire.len() / 2000);
        for chunk in wire.chunks(cut_bytes) {
            buf.extend_from_slice(chunk);
            while let Some(frame) = decoder.decode(&mut buf).unwrap() {
                received.push(frame);
            }
        }
        prop_assert!(buf.is_empty());
        prop_assert!(sent == received, "{} sent, {} received", sent.len(), received.len());
    }
}
