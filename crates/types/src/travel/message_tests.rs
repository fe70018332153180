//! Requests and answers come back from their bytes, and the bytes are the documented ones.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::{
    ClusteringRange, ColumnId, CurrentRow, Done, HiddenCells, IndexQuestion, Outcome, PartitionKey,
    ReadCommand, ReadPosition, ReadScope, Refusal, RingRange, RingToken, RowPosition, RowSelection,
    Statics, TableId,
};

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn key() -> impl Strategy<Value = PartitionKey> {
    any_bytes().prop_map(PartitionKey::new)
}

fn selection() -> impl Strategy<Value = RowSelection> {
    let sorted = || prop::collection::btree_set(any_bytes(), 0..6);
    let ranges = (sorted(), any::<bool>()).prop_map(|(bounds, is_open)| {
        let bounds: Vec<Bytes> = bounds.into_iter().collect();
        let range = |pair: &[Bytes]| {
            Some(ClusteringRange { start: pair.first()?.clone(), end: pair.get(1).cloned() })
        };
        let is_whole = |range: &ClusteringRange| is_open || range.end.is_some();
        RowSelection::Ranges(bounds.chunks(2).filter_map(range).filter(is_whole).collect())
    });
    prop_oneof![
        Just(RowSelection::All),
        Just(RowSelection::None),
        sorted().prop_map(|points| RowSelection::Points(points.into_iter().collect())),
        ranges,
    ]
}

fn scope() -> impl Strategy<Value = ReadScope> {
    let range = any::<(u128, u128)>().prop_map(|(one, other)| {
        let (start, last) = (RingToken(one.min(other)), RingToken(one.max(other)));
        ReadScope::Ring(RingRange { start, last })
    });
    prop_oneof![key().prop_map(ReadScope::Partition), range]
}

fn command() -> impl Strategy<Value = ReadCommand> {
    let question = (any::<u128>(), any_bytes(), prop::option::of(any_bytes()));
    let hidden = any::<(u32, i64)>()
        .prop_map(|(column, until_us)| HiddenCells { column: ColumnId(column), until_us });
    let columns = prop::collection::vec(any::<u32>().prop_map(ColumnId), 0..5);
    let after = (key(), prop::option::of(any_bytes()))
        .prop_map(|(key, clustering)| ReadPosition { key, clustering });
    (
        (any::<u128>(), scope(), selection(), prop::option::of(question)),
        (any::<bool>(), 0..3_usize, prop::collection::vec(hidden, 0..3)),
        (prop::option::of(columns), prop::option::of(after), any::<u32>()),
    )
        .prop_map(|((table, scope, rows, index), (reversed, statics, hidden), rest)| {
            ReadCommand {
                table: TableId(table),
                scope,
                rows,
                index: index.map(|(index, value, entry_value)| IndexQuestion {
                    index: TableId(index),
                    value,
                    entry_value,
                }),
                reversed,
                statics: [Statics::Skip, Statics::Attach, Statics::AttachOrAlone][statics],
                hidden,
                columns: rest.0.map(Arc::from),
                after: rest.1,
                now_s: rest.2,
            }
        })
}

fn request() -> impl Strategy<Value = ReadRequest> {
    (command(), any::<(u32, u32, u32, Option<u32>)>()).prop_map(|(command, bounds)| ReadRequest {
        command,
        bounds: PartBounds {
            rows_max: bounds.0,
            bytes_max: bounds.1,
            time_ms_max: bounds.2,
            partition_rows_max: bounds.3,
        },
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    let text = || any::<String>();
    let table = || any::<u128>().prop_map(TableId);
    let sizes = any::<(u64, u64)>();
    let refusal = prop_oneof![
        any::<(i32, usize)>()
            .prop_map(|(index, size)| Refusal::ListIndexOutOfBounds { index, size }),
        Just(Refusal::ListIsNull),
        Just(Refusal::ListToDeleteFromIsNull),
        text().prop_map(Refusal::Invalid),
    ];
    prop_oneof![
        refusal.prop_map(Fault::Refused),
        sizes.prop_map(|(bytes, bytes_max)| Fault::TooLarge { bytes, bytes_max }),
        sizes.prop_map(|(bytes, bytes_max)| Fault::ClusteringTooLong { bytes, bytes_max }),
        text().prop_map(Fault::CannotWriteNow),
        text().prop_map(Fault::LogFailed),
        (table(), text()).prop_map(|(table, what)| Fault::Damaged { table, what }),
        (table(), text()).prop_map(|(table, what)| Fault::Io { table, what }),
        prop::sample::select(vec![
            Fault::DiskFull,
            Fault::Overloaded,
            Fault::Moved,
            Fault::Stale,
            Fault::Closed,
            Fault::TooLate,
        ]),
    ]
}

fn commit_answer() -> impl Strategy<Value = CommitAnswer> {
    let position =
        prop_oneof![Just(RowPosition::Static), any_bytes().prop_map(RowPosition::Clustered)];
    let row = (position, prop::option::of(any_bytes()))
        .prop_map(|(position, row)| CurrentRow { position, row: row.map(Vec::from) });
    let outcome = prop_oneof![
        Just(Outcome::Applied),
        prop::collection::vec(row, 0..3).prop_map(|rows| Outcome::NotApplied { rows }),
    ];
    let done = (outcome, any::<u64>()).prop_map(|(outcome, weight)| Done { outcome, weight });
    prop_oneof![
        prop::collection::vec(done, 0..4).prop_map(|all_done| Ok(all_done.into())),
        fault().prop_map(Err),
    ]
}

/// The message comes back; no part of it and nothing longer is one; changed bytes are refused, or are another message.
fn check<T: Clone + PartialEq + std::fmt::Debug>(
    message: T,
    cut: prop::sample::Index,
    change: u8,
    encode: impl Fn(&T, &mut Vec<u8>),
    decode: impl Fn(Bytes) -> Decoded<T>,
) -> Result<(), TestCaseError> {
    let mut bytes = Vec::new();
    encode(&message, &mut bytes);
    prop_assert_eq!(decode(Bytes::from(bytes.clone())), Ok(message));
    let at = cut.index(bytes.len());
    prop_assert!(decode(Bytes::copy_from_slice(&bytes[..at])).is_err());
    prop_assert!(decode(Bytes::from([bytes.as_slice(), &[0]].concat())).is_err());
    bytes[at] ^= change;
    if let Ok(other) = decode(Bytes::from(bytes)) {
        let mut again = Vec::new();
        encode(&other, &mut again);
        prop_assert_eq!(decode(Bytes::from(again)), Ok(other));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_read_request_comes_back(it in request(), cut in any::<prop::sample::Index>(), change in 1..=255_u8) {
        check(it, cut, change, encode_read_request, decode_read_request)?;
    }

    #[test]
    fn a_commit_answer_comes_back(it in commit_answer(), cut in any::<prop::sample::Index>(), change in 1..=255_u8) {
        check(it, cut, change, encode_commit_answer, decode_commit_answer)?;
    }

    #[test]
    fn a_fault_comes_back(it in fault(), cut in any::<prop::sample::Index>(), change in 1..=255_u8) {
        check(it, cut, change, encode_fault, decode_fault)?;
    }

    #[test]
    fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from([&[VERSION], bytes.as_slice()].concat());
        let _ = decode_read_request(bytes.clone());
        let _ = decode_commit_answer(bytes.clone());
        let _ = decode_fault(bytes);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first example of `docs/formats/travel.md`.
fn example_request() -> ReadRequest {
    ReadRequest {
        command: ReadCommand {
            table: TableId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            scope: ReadScope::Partition(PartitionKey::new(Bytes::from_static(b"k"))),
            rows: RowSelection::Ranges(vec![ClusteringRange {
                start: Bytes::from_static(b"a"),
                end: Some(Bytes::from_static(b"f")),
            }]),
            index: None,
            reversed: true,
            statics: Statics::Attach,
            hidden: vec![HiddenCells { column: ColumnId(6), until_us: 9 }],
            columns: Some(Arc::from([ColumnId(5)])),
            after: Some(ReadPosition {
                key: PartitionKey::new(Bytes::from_static(b"k")),
                clustering: Some(Bytes::from_static(b"d")),
            }),
            now_s: 100,
        },
        bounds: PartBounds {
            rows_max: 5000,
            bytes_max: 1 << 20,
            time_ms_max: 2500,
            partition_rows_max: None,
        },
    }
}

#[test]
fn golden_read_request() {
    let mut bytes = Vec::new();
    encode_read_request(&example_request(), &mut bytes);
    let golden = concat!(
        "01",                               // version
        "8827",                             // 5,000 rows
        "808040",                           // 1 MiB
        "c413",                             // 2.5 s
        "00",                               // any number of rows of a logical partition
        "0102030405060708090a0b0c0d0e0f10", // table
        "19",                               // reversed, columns and a position follow
        "01",                               // static rows are attached
        "00000064",                         // second
        "016b",                             // partition key
        "0201",                             // one range
        "01610266",                         // its start and its end
        "01",                               // one hidden column
        "060000000000000009",               // column 6, until 9 us
        "0105",                             // one column is looked at: 5
        "016b0264",                         // after row d of partition k
    );
    assert_eq!(hex(&bytes), golden);
}

#[test]
fn golden_answers() {
    let encoded = |answer: CommitAnswer| {
        let mut bytes = Vec::new();
        encode_commit_answer(&answer, &mut bytes);
        hex(&bytes)
    };
    let applied = Done { outcome: Outcome::Applied, weight: 300 };
    assert_eq!(encoded(Ok(smallvec![applied])), concat!("01", "00", "01", "00", "ac02"));
    let row = CurrentRow {
        position: RowPosition::Clustered(Bytes::from_static(b"c")),
        row: Some(b"row".to_vec()),
    };
    let absent = CurrentRow { position: RowPosition::Static, row: None };
    let not_applied = Outcome::NotApplied { rows: vec![row, absent] };
    let golden = concat!("01", "00", "01", "01", "07", "02", "0101", "63", "04", "726f77", "0000");
    assert_eq!(encoded(Ok(smallvec![Done { outcome: not_applied, weight: 7 }])), golden);
    let refusal = Refusal::ListIndexOutOfBounds { index: -1, size: 3 };
    assert_eq!(
        encoded(Err(Fault::Refused(refusal))),
        concat!("01", "01", "01", "01", "ffffffff", "03")
    );
    let mut bytes = Vec::new();
    encode_fault(&Fault::Damaged { table: TableId(1), what: "why".into() }, &mut bytes);
    assert_eq!(hex(&bytes), concat!("01", "07", "00000000000000000000000000000001", "03776879"));
}

/// What storage relies on is looked at before it gets it.
#[test]
fn what_cannot_be_is_malformed() {
    let encoded = |change: fn(&mut ReadRequest)| {
        let mut request = example_request();
        change(&mut request);
        let mut bytes = Vec::new();
        encode_read_request(&request, &mut bytes);
        decode_read_request(Bytes::from(bytes))
    };
    let range = |start: &'static [u8], end: &'static [u8]| ClusteringRange {
        start: Bytes::from_static(start),
        end: Some(Bytes::from_static(end)),
    };
    assert_eq!(encoded(|_| {}), Ok(example_request()));
    let points: RowSelection =
        RowSelection::Points(smallvec![Bytes::from_static(b"b"), Bytes::from_static(b"a")]);
    let overlapping = RowSelection::Ranges(vec![range(b"a", b"c"), range(b"b", b"d")]);
    let empty = RowSelection::Ranges(vec![range(b"c", b"c")]);
    for rows in [points, overlapping, empty] {
        let mut request = example_request();
        request.command.rows = rows.clone();
        let mut bytes = Vec::new();
        encode_read_request(&request, &mut bytes);
        assert_eq!(decode_read_request(Bytes::from(bytes)), Err(Malformed), "{rows:?}");
    }
    let turned = encoded(|request| {
        let (start, last) = (RingToken(2), RingToken(1));
        request.command.scope = ReadScope::Ring(RingRange { start, last });
    });
    assert_eq!(turned, Err(Malformed));
    let too_long = encoded(|request| {
        let key = Bytes::from(vec![0; PartitionKey::BYTES_MAX + 1]);
        request.command.scope = ReadScope::Partition(PartitionKey::new(key));
    });
    assert_eq!(too_long, Err(Malformed));
    let mut bytes = Vec::new();
    encode_read_request(&example_request(), &mut bytes);
    bytes[0] = VERSION + 1;
    assert_eq!(decode_read_request(Bytes::from(bytes)), Err(Malformed));
}
