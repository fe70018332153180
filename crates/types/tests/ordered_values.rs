//! The ordered encoding against `compare`, for random values of every type: order, equality,
//! round trip, prefixes, and columns one after the other.
//!
//! proptest prints the seed of a failing run and keeps it beside this file.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::cmp::Ordering;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use types::value::collection::{write_list, write_map, write_set, write_tuple, write_vector};
use types::value::{
    Decimal, Duration, compare, decode_ordered, encode_ordered, is_canonical, is_empty_allowed,
    ordered_length, validate,
};
use types::{CqlType, UserType};

const NATIVE: [CqlType; 20] = [
    CqlType::Ascii,
    CqlType::BigInt,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Counter,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Duration,
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
];

fn any_type() -> impl Strategy<Value = CqlType> {
    let leaf = proptest::sample::select(NATIVE.to_vec());
    leaf.prop_recursive(2, 6, 3, |inner| {
        let shared = inner.clone().prop_map(Arc::new);
        prop_oneof![
            shared.clone().prop_map(|element| CqlType::List { element, frozen: true }),
            shared.clone().prop_map(|element| CqlType::Set { element, frozen: true }),
            (shared.clone(), shared.clone()).prop_map(|(key, value)| CqlType::Map {
                key,
                value,
                frozen: true
            }),
            vec(inner.clone(), 1..4).prop_map(|types| CqlType::Tuple(types.into())),
            vec(inner, 1..4).prop_map(|types| {
                let fields =
                    types.into_iter().enumerate().map(|(i, ty)| (format!("f{i}").into(), ty));
                let definition = UserType {
                    keyspace: "ks".into(),
                    name: "udt".into(),
                    fields: fields.collect(),
                };
                CqlType::User { definition: Arc::new(definition), frozen: true }
            }),
            (shared, 1_u16..4)
                .prop_map(|(element, dimension)| CqlType::Vector { element, dimension }),
        ]
    })
}

/// Few distinct bytes, so that values share prefixes and hold zeros.
fn small_byte() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0_u8), Just(1), Just(0x7f), Just(0x80), Just(0xfe), Just(0xff), any::<u8>()]
}

fn fixed(length: usize) -> BoxedStrategy<Vec<u8>> {
    vec(small_byte(), length).boxed()
}

/// Valid values of a type.
fn value_of(ty: &CqlType) -> BoxedStrategy<Vec<u8>> {
    let value = match ty {
        CqlType::Text | CqlType::Ascii => {
            vec(prop_oneof![Just(0_u8), Just(1), Just(b'a'), Just(0x7f)], 0..5).boxed()
        }
        CqlType::Blob => vec(small_byte(), 0..5).boxed(),
        CqlType::Inet => prop_oneof![fixed(4), fixed(16)].boxed(),
        CqlType::Varint => vec(small_byte(), 1..12).boxed(),
        CqlType::Decimal => (any::<i64>(), 0_u32..64, -30_i32..30)
            .prop_map(|(unscaled, shift, scale)| {
                let unscaled = (unscaled >> shift) / 10 * 10 + i64::from(shift % 2 == 0);
                Decimal { unscaled: unscaled.into(), scale }.to_bytes()
            })
            .boxed(),
        CqlType::Duration => (0..3_i32, 0..300_i32, 0..1_i64 << 40, any::<bool>())
            .prop_map(|(months, days, nanos, negative)| {
                let sign = if negative { -1 } else { 1 };
                let mut out = Vec::new();
                Duration {
                    months: months * sign,
                    days: days * sign,
                    nanos: nanos * i64::from(sign),
                }
                .encode(&mut out);
                out
            })
            .boxed(),
        CqlType::TimeUuid => fixed(16)
            .prop_map(|mut bytes| {
                bytes[6] = bytes[6] & 0x0f | 0x10;
                bytes
            })
            .boxed(),
        CqlType::Double => prop_oneof![
            any::<f64>().prop_map(|value| value.to_be_bytes().to_vec()),
            proptest::sample::select(vec![0.0, -0.0, 1.0, f64::NAN, -f64::NAN, f64::INFINITY])
                .prop_map(|value: f64| value.to_be_bytes().to_vec()),
        ]
        .boxed(),
        CqlType::List { element, .. } => vec(value_of(element), 0..4)
            .prop_map(|elements| {
                let mut out = Vec::new();
                write_list(&elements, &mut out);
                out
            })
            .boxed(),
        CqlType::Set { element, .. } => {
            let ty = element.clone();
            vec(value_of(element), 0..4)
                .prop_map(move |mut elements| {
                    let mut out = Vec::new();
                    write_set(&ty, &mut elements, &mut out);
                    out
                })
                .boxed()
        }
        CqlType::Map { key, value, .. } => {
            let ty = key.clone();
            vec((value_of(key), value_of(value)), 0..3)
                .prop_map(move |mut entries| {
                    let mut out = Vec::new();
                    write_map(&ty, &mut entries, &mut out);
                    out
                })
                .boxed()
        }
        CqlType::Tuple(types) => tuple_of(types.iter()),
        CqlType::User { definition, .. } => tuple_of(definition.fields.iter().map(|(_, ty)| ty)),
        CqlType::Vector { element, dimension } => {
            let ty = element.clone();
            // A vector takes no elements of zero bytes where it writes no lengths.
            let length = ty.vector_element_length();
            let element = value_of(element).prop_map(move |bytes| match length {
                Some(length) if bytes.is_empty() => vec![0x10; length],
                _ => bytes,
            });
            vec(element, usize::from(*dimension))
                .prop_map(move |elements| {
                    let mut out = Vec::new();
                    write_vector(&ty, &elements, &mut out);
                    out
                })
                .boxed()
        }
        fixed_length => fixed(fixed_length.fixed_length().unwrap()),
    };
    if is_empty_allowed(ty) {
        prop_oneof![1 => Just(Vec::new()), 8 => value].boxed()
    } else {
        value
    }
}

/// Components, some null, and sometimes fewer than declared.
fn tuple_of<'t>(types: impl Iterator<Item = &'t CqlType>) -> BoxedStrategy<Vec<u8>> {
    let components: Vec<_> = types.map(|ty| proptest::option::of(value_of(ty)).boxed()).collect();
    let count = components.len();
    (components, 1..=count)
        .prop_map(|(mut components, count)| {
            components.truncate(count);
            let mut out = Vec::new();
            write_tuple(&components, &mut out);
            out
        })
        .boxed()
}

fn typed_values(count: usize) -> impl Strategy<Value = (CqlType, Vec<Vec<u8>>)> {
    any_type().prop_flat_map(move |ty| {
        let values = vec(value_of(&ty), count);
        (Just(ty), values)
    })
}

fn encode(ty: &CqlType, bytes: &[u8], descending: bool) -> Vec<u8> {
    let mut out = Vec::new();
    encode_ordered(ty, bytes, descending, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn order_of_bytes_is_order_of_values((ty, values) in typed_values(2), descending: bool) {
        let (a, b) = (&values[0], &values[1]);
        prop_assert_eq!(validate(&ty, a), Ok(()));
        let order = compare(&ty, a, b);
        prop_assert_eq!(compare(&ty, b, a), order.reverse());
        let (a_encoded, b_encoded) = (encode(&ty, a, descending), encode(&ty, b, descending));
        let expected = if descending { order.reverse() } else { order };
        prop_assert_eq!(a_encoded.cmp(&b_encoded), expected);
        if order != Ordering::Equal {
            prop_assert!(!a_encoded.starts_with(&b_encoded) && !b_encoded.starts_with(&a_encoded));
        }
        prop_assert!(!matches!(a_encoded.first(), None | Some(0 | 0xff)));
    }

    #[test]
    fn comparison_is_transitive((ty, mut values) in typed_values(4)) {
        values.sort_by(|a, b| compare(&ty, a, b));
        for pair in values.windows(3) {
            prop_assert!(compare(&ty, &pair[0], &pair[2]).is_le());
        }
    }

    #[test]
    fn values_come_back((ty, values) in typed_values(1), descending: bool, tail in vec(any::<u8>(), 0..4)) {
        let value = &values[0];
        let mut encoded = encode(&ty, value, descending);
        encoded.extend_from_slice(&tail);
        let mut input = encoded.as_slice();
        let mut decoded = Vec::new();
        decode_ordered(&ty, descending, &mut input, &mut decoded).unwrap();
        let mut measured = encoded.as_slice();
        prop_assert_eq!(ordered_length(&ty, descending, &mut measured), Ok(decoded.len()));
        prop_assert_eq!(measured, input);
        prop_assert_eq!(input, tail.as_slice());
        prop_assert_eq!(compare(&ty, value, &decoded), Ordering::Equal);
        prop_assert_eq!(is_canonical(&ty, value), *value == decoded);
        prop_assert!(is_canonical(&ty, &decoded));
        // Every cut is noticed.
        for length in 0..encoded.len() - tail.len() {
            let mut input = &encoded[..length];
            prop_assert!(decode_ordered(&ty, descending, &mut input, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn columns_sort_one_after_the_other(
        (first, first_values) in typed_values(2),
        (second, second_values) in typed_values(2),
        descending: (bool, bool),
    ) {
        let row = |index: usize| {
            let mut out = encode(&first, &first_values[index], descending.0);
            encode_ordered(&second, &second_values[index], descending.1, &mut out);
            out
        };
        let directed = |order: Ordering, descending| if descending { order.reverse() } else { order };
        let expected = directed(compare(&first, &first_values[0], &first_values[1]), descending.0)
            .then(directed(compare(&second, &second_values[0], &second_values[1]), descending.1));
        prop_assert_eq!(row(0).cmp(&row(1)), expected);
    }

    #[test]
    fn any_bytes_are_taken(ty in any_type(), bytes in vec(small_byte(), 0..24), other in vec(small_byte(), 0..24)) {
        // Nothing here panics, whatever the bytes.
        let _ = validate(&ty, &bytes);
        let _ = compare(&ty, &bytes, &other);
        let _ = is_canonical(&ty, &bytes);
        let _ = types::value::to_cql_text(&ty, &bytes);
        let _ = types::value::to_plain_string(&ty, &bytes);
        let _ = types::value::to_json(&ty, &bytes);
        let _ = types::value::collection::sorted_collection(&ty, &bytes);
        let encoded = encode(&ty, &bytes, false);
        let _ = decode_ordered(&ty, false, &mut encoded.as_slice(), &mut Vec::new());
        let _ = decode_ordered(&ty, true, &mut bytes.as_slice(), &mut Vec::new());
    }
}

/// Found by fuzzing: an exponent that no decimal can have is an error, not an overflow.
#[test]
fn a_damaged_exponent_is_an_error() {
    let bytes = [4, 3, 0, 0, 0, 0, 1, 0, 0, 0x50, 0x50, 5, 0, 0, 0, 0x50, 0x50];
    for descending in [false, true] {
        let mut input = bytes.as_slice();
        let mut value = Vec::new();
        let decoded =
            types::value::decode_ordered(&CqlType::Decimal, descending, &mut input, &mut value);
        assert!(decoded.is_err(), "{value:?}");
    }
}
