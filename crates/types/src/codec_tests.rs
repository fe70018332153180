//! Mutations come back from their bytes, and the bytes are the documented ones.

use bytes::Bytes;
use proptest::prelude::*;

use crate::codec::{Decoder, MUTATION_FORM, Malformed, MutationForm, encode_mutation, push_varint};
use crate::{
    CellAction, CellChange, Check, ClusteringRange, ColumnId, ColumnPart, Comparison, Condition,
    CqlType, Deletion, Expiry, Liveness, Mutation, Operation, PartitionKey, RowChange,
    RowCondition, RowPosition, TableId,
};

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn deletion() -> impl Strategy<Value = Deletion> {
    any::<(i64, u32)>()
        .prop_map(|(timestamp_us, deleted_at_s)| Deletion { timestamp_us, deleted_at_s })
}

fn expiry() -> impl Strategy<Value = Option<Expiry>> {
    prop::option::of(
        any::<(u32, u32)>().prop_map(|(ttl_s, expires_at_s)| Expiry { ttl_s, expires_at_s }),
    )
}

fn position() -> impl Strategy<Value = RowPosition> {
    prop_oneof![Just(RowPosition::Static), any_bytes().prop_map(RowPosition::Clustered)]
}

fn cell() -> impl Strategy<Value = CellChange> {
    let path = || prop::option::of(any_bytes());
    let action = prop_oneof![
        (path(), any_bytes(), expiry()).prop_map(|(path, value, expiry)| CellAction::Set {
            path,
            value,
            expiry
        }),
        (path(), any::<u32>())
            .prop_map(|(path, deleted_at_s)| CellAction::Delete { path, deleted_at_s }),
        any::<u32>().prop_map(|deleted_at_s| CellAction::DeleteElements { deleted_at_s }),
        any::<i64>().prop_map(CellAction::CounterAdd),
        (
            prop::sample::select(vec![CqlType::Int, CqlType::Decimal, CqlType::Text]),
            any_bytes(),
            expiry()
        )
            .prop_map(|(cql_type, value, expiry)| CellAction::AddValue {
                cql_type,
                value,
                expiry
            }),
        (any::<i32>(), any_bytes(), expiry())
            .prop_map(|(index, value, expiry)| CellAction::ListSetAt { index, value, expiry }),
        any::<(i32, u32)>()
            .prop_map(|(index, deleted_at_s)| CellAction::ListDeleteAt { index, deleted_at_s }),
        (prop::collection::vec(any_bytes(), 0..3), any::<u32>()).prop_map(
            |(values, deleted_at_s)| CellAction::ListRemoveValues { values, deleted_at_s }
        ),
    ];
    (any::<u32>(), any::<i64>(), action).prop_map(|(column, timestamp_us, action)| CellChange {
        column: ColumnId(column),
        timestamp_us,
        action,
    })
}

fn row_change() -> impl Strategy<Value = RowChange> {
    let liveness = (any::<i64>(), expiry())
        .prop_map(|(timestamp_us, expiry)| Liveness { timestamp_us, expiry });
    (
        position(),
        prop::option::of(any_bytes()),
        prop::option::of(liveness),
        prop::option::of(deletion()),
        prop::collection::vec(cell(), 0..4),
    )
        .prop_map(|(position, original_clustering, liveness, deletion, cells)| RowChange {
            position,
            original_clustering,
            liveness,
            deletion,
            cells,
        })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        deletion().prop_map(Operation::DeletePartition),
        (any_bytes(), prop::option::of(any_bytes()), deletion()).prop_map(
            |(start, end, deletion)| Operation::DeleteRange {
                range: ClusteringRange { start, end },
                deletion
            }
        ),
        row_change().prop_map(Operation::Row),
    ]
}

fn check() -> impl Strategy<Value = Check> {
    let operators = prop::sample::select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
        Comparison::In,
        Comparison::NotIn,
        Comparison::Contains,
        Comparison::ContainsKey,
        Comparison::NotContains,
        Comparison::NotContainsKey,
        Comparison::Like,
    ]);
    let part = prop_oneof![
        Just(ColumnPart::Whole),
        any_bytes().prop_map(ColumnPart::MapValue),
        any::<i32>().prop_map(ColumnPart::ListIndex),
        any::<u16>().prop_map(ColumnPart::Field),
    ];
    let values = prop::collection::vec(prop::option::of(any_bytes()), 0..3);
    prop_oneof![
        Just(Check::NotExists),
        Just(Check::Exists),
        Just(Check::Refused("why".into())),
        (any::<u32>(), part, operators, values).prop_map(|(column, part, operator, values)| {
            Check::Column { column: ColumnId(column), part, operator, values }
        }),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let row = (position(), prop::collection::vec(check(), 0..3))
        .prop_map(|(position, checks)| RowCondition { position, checks });
    prop::collection::vec(row, 0..3).prop_map(|rows| Condition { rows })
}

fn mutation() -> impl Strategy<Value = Mutation> {
    (
        any::<(u128, u64)>(),
        any_bytes(),
        any::<Option<u32>>(),
        prop::option::of(condition()),
        prop::collection::vec(operation(), 0..4),
    )
        .prop_map(|((table, table_version), key, now_s, condition, operations)| Mutation {
            table: TableId(table),
            table_version,
            key: PartitionKey::new(key),
            now_s,
            condition: condition.map(Box::new),
            operations,
        })
}

proptest! {
    #[test]
    fn a_mutation_comes_back(mutation in mutation(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        encode_mutation(&mutation, &mut bytes);
        let mut decoder = Decoder::new(Bytes::from(bytes.clone()));
        prop_assert_eq!(decoder.mutation(MUTATION_FORM), Ok(mutation));
        prop_assert!(decoder.is_done());
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Decoder::new(Bytes::from(bytes)).mutation(MUTATION_FORM).is_err());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The example of `docs/formats/log.md`.
fn example() -> Mutation {
    Mutation {
        table: TableId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        table_version: 3,
        key: PartitionKey::new(Bytes::from_static(b"k")),
        now_s: Some(100),
        condition: Some(Box::new(Condition {
            rows: vec![RowCondition {
                position: RowPosition::Clustered(Bytes::from_static(b"c")),
                checks: vec![Check::Column {
                    column: ColumnId(5),
                    part: ColumnPart::Whole,
                    operator: Comparison::Equal,
                    values: vec![Some(Bytes::from_static(b"v"))],
                }],
            }],
        })),
        operations: vec![Operation::Row(RowChange {
            position: RowPosition::Clustered(Bytes::from_static(b"c")),
            original_clustering: None,
            liveness: Some(Liveness { timestamp_us: 7, expiry: None }),
            deletion: None,
            cells: vec![CellChange {
                column: ColumnId(5),
                timestamp_us: 7,
                action: CellAction::Set {
                    path: None,
                    value: Bytes::from_static(b"new"),
                    expiry: Some(Expiry { ttl_s: 10, expires_at_s: 110 }),
                },
            }],
        })],
    }
}

#[test]
fn golden_mutation() {
    let mut bytes = Vec::new();
    encode_mutation(&example(), &mut bytes);
    let golden = concat!(
        "0102030405060708090a0b0c0d0e0f10", // table
        "03",                               // version of the table
        "016b",                             // partition key
        "03",                               // a second and a condition follow
        "00000064",                         // the second
        "01",                               // one row
        "010163",                           // clustered, its key
        "01",                               // one check
        "0305000001",                       // column 5, whole, equal, one value
        "0276",                             // the value
        "01",                               // one operation
        "03",                               // a row
        "04",                               // with liveness
        "0163",                             // its clustering key
        "0000000000000007",                 // liveness
        "01",                               // one cell
        "05",                               // column
        "0000000000000007",                 // timestamp
        "81",                               // set, expires
        "0000000a0000006e",                 // ttl, expiry
        "036e6577",                         // value
    );
    assert_eq!(hex(&bytes), golden);
}

/// What the first form of the log wrote for the example.
#[test]
fn the_first_form_is_read() {
    let golden = "0102030405060708090a0b0c0d0e0f10016b01000000640101016301030500000102760103040163\
        00000000000000070105000000000000000781\
        0000000a0000006e036e6577";
    let golden: String = golden.split_whitespace().collect();
    let digits = |at: usize| u8::from_str_radix(golden.get(at..at + 2).unwrap_or_default(), 16);
    let bytes: Vec<u8> = (0..golden.len()).step_by(2).flat_map(digits).collect();
    let mut decoder = Decoder::new(Bytes::from(bytes));
    let expected = Mutation { table_version: 0, ..example() };
    assert_eq!(decoder.mutation(MutationForm::First), Ok(expected));
    assert!(decoder.is_done());
}

#[test]
fn a_number_is_read_to_its_end_and_has_ten_bytes_at_most() {
    for number in [0, 0x7f, 0x80, 1 << 35, u64::MAX] {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, number);
        bytes.push(9);
        let mut decoder = Decoder::new(Bytes::from(bytes));
        assert_eq!(decoder.varint(), Ok(number));
        assert_eq!(decoder.byte(), Ok(9));
        assert!(decoder.is_done());
    }
    let without_end: [Vec<u8>; 4] = [vec![], vec![0x80], vec![0x80; 9], vec![0x80; 11]];
    for bytes in without_end {
        assert_eq!(Decoder::new(Bytes::from(bytes)).varint(), Err(Malformed));
    }
}
