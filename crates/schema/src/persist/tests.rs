//! What is written comes back, and what was not written by us is refused without harm.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use types::{ColumnId, CqlType, TableId, UserType};

use super::*;
use crate::model::{ColumnKind, DroppedColumn, Index, IndexTarget, Keyspace, Table, TableShape};
use crate::options::{KeyspaceOptions, TableOptions, Throughput};

fn native() -> impl Strategy<Value = CqlType> {
    prop_oneof![
        Just(CqlType::Int),
        Just(CqlType::Text),
        Just(CqlType::Blob),
        Just(CqlType::Empty),
        Just(CqlType::Duration),
        Just(CqlType::Timestamp),
        Just(CqlType::Custom("org.apache.It's".into())),
    ]
}

/// A type, in which `names` are the user types that exist.
fn cql_type(types: Vec<Arc<UserType>>) -> BoxedStrategy<CqlType> {
    let leaf = if types.is_empty() {
        native().boxed()
    } else {
        let user = (proptest::sample::select(types), any::<bool>())
            .prop_map(|(definition, frozen)| CqlType::User { definition, frozen });
        prop_oneof![native(), user].boxed()
    };
    leaf.prop_recursive(3, 8, 3, |inner| {
        let part = inner.clone().prop_map(Arc::new);
        prop_oneof![
            (part.clone(), any::<bool>())
                .prop_map(|(element, frozen)| CqlType::List { element, frozen }),
            (part.clone(), any::<bool>())
                .prop_map(|(element, frozen)| CqlType::Set { element, frozen }),
            (part.clone(), part.clone(), any::<bool>())
                .prop_map(|(key, value, frozen)| CqlType::Map { key, value, frozen }),
            proptest::collection::vec(inner.clone(), 1..3)
                .prop_map(|parts| CqlType::Tuple(parts.into())),
            (part, 1..u16::MAX)
                .prop_map(|(element, dimension)| CqlType::Vector { element, dimension }),
        ]
    })
    .boxed()
}

fn name() -> impl Strategy<Value = Arc<str>> {
    "[a-zA-Z\"'ä _0-9]{1,6}|int|frozen|list".prop_map(|name| Arc::from(name.as_str()))
}

fn text_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[a-z]{1,4}", ".{0,5}", 0..3)
}

/// User types of which the second may use the first, and so on.
fn user_types(keyspace: Arc<str>) -> impl Strategy<Value = Vec<Arc<UserType>>> {
    let first_keyspace = Arc::clone(&keyspace);
    let first = (name(), proptest::collection::vec((name(), native()), 0..3)).prop_map(
        move |(name, fields)| {
            Arc::new(UserType { keyspace: Arc::clone(&first_keyspace), name, fields })
        },
    );
    first.prop_flat_map(move |first| {
        let keyspace = Arc::clone(&keyspace);
        let field = (name(), cql_type(vec![Arc::clone(&first)]));
        (name(), proptest::collection::vec(field, 0..3)).prop_map(move |(name, fields)| {
            let keyspace = Arc::clone(&keyspace);
            let second = Arc::new(UserType { keyspace, name, fields });
            if second.name == first.name {
                vec![Arc::clone(&first)]
            } else {
                vec![Arc::clone(&first), second]
            }
        })
    })
}

fn throughput() -> impl Strategy<Value = Option<Throughput>> {
    prop_oneof![
        Just(None),
        any::<u32>().prop_map(|units| Some(Throughput::Manual(units))),
        any::<u32>().prop_map(|units| Some(Throughput::Autoscale(units))),
    ]
}

fn options() -> impl Strategy<Value = TableOptions> {
    (
        (any::<bool>(), proptest::option::of(any::<bool>()), any::<u32>(), any::<i32>()),
        (-1e9..1e9_f64, ".{0,8}", text_map()),
        throughput(),
    )
        .prop_map(|((flag, cdc, seconds, number), (chance, comment, map), throughput)| {
            TableOptions {
                allow_auto_snapshot: flag,
                cdc,
                default_time_to_live_s: seconds,
                memtable_flush_period_in_ms: number,
                bloom_filter_fp_chance: chance,
                comment,
                compaction: map,
                throughput,
                ..TableOptions::default()
            }
        })
}

fn table(id: u128, keyspace: Arc<str>, types: Vec<Arc<UserType>>) -> impl Strategy<Value = Table> {
    let columns = proptest::collection::btree_map(
        name(),
        (cql_type(types.clone()), proptest::option::of(".{0,4}"), any::<bool>()),
        1..6,
    );
    let kinds = proptest::collection::vec(0..5_u8, 6);
    let dropped = proptest::collection::btree_map(
        name(),
        (cql_type(types), any::<bool>(), any::<i64>()),
        0..3,
    );
    (name(), columns, kinds, dropped, options(), any::<bool>()).prop_map(
        move |(name, columns, kinds, dropped, options, is_counter)| {
            let mut table = Table {
                id: TableId(id),
                version: 0,
                keyspace: Arc::clone(&keyspace),
                name,
                columns: Vec::new(),
                partition_key_count: 0,
                clustering_count: 0,
                static_count: 0,
                shape: TableShape::Ordinary,
                is_counter,
                is_virtual: false,
                options,
                indexes: BTreeMap::new(),
                dropped_columns: dropped
                    .into_iter()
                    .zip(0..)
                    .map(|((name, (cql_type, is_static, dropped_at_us)), id)| {
                        let id = ColumnId(id);
                        (name, DroppedColumn { id, cql_type, is_static, dropped_at_us })
                    })
                    .collect(),
                next_column_id: 3,
            };
            for (index, (name, (cql_type, mask, is_hidden))) in columns.into_iter().enumerate() {
                let kind = match kinds[index] {
                    _ if index == 0 => ColumnKind::PartitionKey,
                    0 => ColumnKind::PartitionKey,
                    1 => ColumnKind::Clustering { descending: false },
                    2 => ColumnKind::Clustering { descending: true },
                    3 => ColumnKind::Static,
                    _ => ColumnKind::Regular,
                };
                let mask = mask.map(|mask| Arc::from(mask.as_str()));
                table.add_column(&name, cql_type, kind, mask, is_hidden);
            }
            let column = table.columns[0].id;
            let index = Index {
                name: Arc::from(format!("index{id}")),
                id: TableId(id + 1000),
                column,
                target: IndexTarget::Full,
                class: None,
                options: BTreeMap::new(),
            };
            table.indexes.insert(Arc::clone(&index.name), Arc::new(index));
            table
        },
    )
}

fn keyspace() -> impl Strategy<Value = Keyspace> {
    let name: Arc<str> = Arc::from("some");
    user_types(Arc::clone(&name)).prop_flat_map(move |types| {
        let tables = (
            table(1, Arc::clone(&name), types.clone()),
            table(2, Arc::clone(&name), types.clone()),
        );
        let name = Arc::clone(&name);
        (tables, text_map(), any::<bool>(), throughput()).prop_map(
            move |(tables, replication, durable_writes, throughput)| Keyspace {
                name: Arc::clone(&name),
                options: KeyspaceOptions { replication, durable_writes, throughput },
                tables: [tables.0, tables.1]
                    .into_iter()
                    .map(|table| (Arc::clone(&table.name), Arc::new(table)))
                    .collect(),
                types: types
                    .iter()
                    .map(|definition| (Arc::clone(&definition.name), Arc::clone(definition)))
                    .collect(),
                kind: KeyspaceKind::User,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_encoded_is_decoded(keyspace in keyspace()) {
        let schema = Schema::default().with_keyspace(keyspace).with_fresh_version();
        let decoded = decode(&encode(&schema), &Schema::default()).unwrap();
        prop_assert_eq!(&decoded.keyspaces, &schema.keyspaces);
        prop_assert_eq!(decoded.version, schema.version);
        prop_assert_eq!(decoded.tables_by_id.len(), schema.tables_by_id.len());
    }

    #[test]
    fn damage_is_refused_or_harmless(
        keyspace in keyspace(),
        place in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let schema = Schema::default().with_keyspace(keyspace).with_fresh_version();
        let mut bytes = encode(&schema);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(decoded) = decode(&bytes, &Schema::default()) {
            // Still a schema, if another one: it can be written and read again.
            prop_assert!(decode(&encode(&decoded), &Schema::default()).is_ok());
        }
    }
}

#[test]
fn another_format_is_refused() {
    let error = decode(br#"{"format":2,"keyspaces":[],"system":[]}"#, &Schema::default());
    assert_eq!(error.unwrap_err().place, "its format is 2, ours is 1");
    assert!(decode(b"", &Schema::default()).is_err());
    assert!(decode(b"[]", &Schema::default()).is_err());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(decode(deep.as_bytes(), &Schema::default()).is_err());
}
