//! The order of values within their type, as Cassandra's comparators define it.
//!
//! Total for any bytes: what is no value of its type still sorts somewhere, and never panics.

use std::cmp::Ordering;

use super::collection::{ListIter, TupleIter, VectorIter, take_element};
use super::decimal;
use super::ordered::encode_ordered;
use super::varint;
use crate::CqlType;

/// The order of two values of a type. Zero bytes sort before everything else.
pub fn compare(ty: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    match ty {
        CqlType::Ascii
        | CqlType::Blob
        | CqlType::Date
        | CqlType::Duration
        | CqlType::Inet
        | CqlType::Text
        | CqlType::Time => a.cmp(b),
        CqlType::Custom(_) => compare_encoded(ty, a, b),
        CqlType::BigInt
        | CqlType::Counter
        | CqlType::Int
        | CqlType::SmallInt
        | CqlType::Timestamp
        | CqlType::TinyInt => compare_signed(a, b),
        CqlType::Boolean => truth(a).cmp(&truth(b)),
        CqlType::Double => match (read_f64(a), read_f64(b)) {
            (Some(a), Some(b)) => f64_rank(a).cmp(&f64_rank(b)),
            _ => empty_first(a, b).unwrap_or_else(|| a.cmp(b)),
        },
        CqlType::Float => match (read_f32(a), read_f32(b)) {
            (Some(a), Some(b)) => f32_rank(a).cmp(&f32_rank(b)),
            _ => empty_first(a, b).unwrap_or_else(|| a.cmp(b)),
        },
        CqlType::Decimal => empty_first(a, b).unwrap_or_else(|| decimal::compare_bytes(a, b)),
        CqlType::Varint => varint::compare_bytes(a, b),
        CqlType::TimeUuid => uuid_order(a, b, timeuuid_rank),
        CqlType::Uuid => uuid_order(a, b, uuid_rank),
        CqlType::Empty => Ordering::Equal,
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            empty_first(a, b).unwrap_or_else(|| compare_elements(element, a, b))
        }
        CqlType::Map { key, value, .. } => {
            empty_first(a, b).unwrap_or_else(|| compare_maps(key, value, a, b))
        }
        CqlType::Tuple(types) => {
            empty_first(a, b).unwrap_or_else(|| compare_tuples(types.iter(), a, b))
        }
        CqlType::User { definition, .. } => empty_first(a, b)
            .unwrap_or_else(|| compare_tuples(definition.fields.iter().map(|(_, ty)| ty), a, b)),
        CqlType::Vector { element, dimension } => {
            empty_first(a, b).unwrap_or_else(|| compare_vectors(element, *dimension, a, b))
        }
    }
}

/// The order of the encodings, for types that are too rare for an order of their own.
fn compare_encoded(ty: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    let encoded = |bytes| {
        let mut out = Vec::new();
        encode_ordered(ty, bytes, false, &mut out);
        out
    };
    encoded(a).cmp(&encoded(b))
}

/// The answer if either side is empty.
fn empty_first(a: &[u8], b: &[u8]) -> Option<Ordering> {
    match (a.is_empty(), b.is_empty()) {
        (false, false) => None,
        (left, right) => Some(right.cmp(&left)),
    }
}

/// Big-endian two's complement of equal lengths: the first byte is signed, the others are not.
fn compare_signed(a: &[u8], b: &[u8]) -> Ordering {
    match (a.split_first(), b.split_first()) {
        (Some((&a_first, a_rest)), Some((&b_first, b_rest))) => {
            (a_first as i8).cmp(&(b_first as i8)).then_with(|| a_rest.cmp(b_rest))
        }
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Empty, false, true.
fn truth(bytes: &[u8]) -> u8 {
    match bytes.first() {
        None => 0,
        Some(0) => 1,
        Some(_) => 2,
    }
}

fn read_f64(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().ok().map(f64::from_be_bytes)
}

fn read_f32(bytes: &[u8]) -> Option<f32> {
    bytes.try_into().ok().map(f32::from_be_bytes)
}

/// A number that sorts as Java's `Double.compare`: every NaN is one value above infinity, and
/// negative zero is below zero.
pub(crate) fn f64_rank(value: f64) -> u64 {
    let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) }
}

/// As [`f64_rank`], for `Float.compare`.
pub(crate) fn f32_rank(value: f32) -> u32 {
    let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
    if bits >> 31 == 1 { !bits } else { bits ^ (1 << 31) }
}

/// Moves the time of a version 1 uuid's upper half into the order of significance; the version
/// ends up in the top four bits.
pub(crate) fn reorder_time(upper: u64) -> u64 {
    (upper << 48) | ((upper << 16) & 0xffff_0000_0000) | (upper >> 32)
}

/// The inverse of [`reorder_time`].
pub(crate) fn restore_time(ordered: u64) -> u64 {
    (ordered << 32) | ((ordered >> 16) & 0xffff_0000) | (ordered >> 48)
}

/// Sorts as `timeuuid`: by time, then the lower half by signed bytes.
pub(crate) fn timeuuid_rank(upper: u64, lower: u64) -> (u64, u64) {
    (reorder_time(upper) ^ (1 << 63), lower ^ 0x8080_8080_8080_8080)
}

/// Sorts as `uuid`: by version, version 1 by time, the others by their bytes.
pub(crate) fn uuid_rank(upper: u64, lower: u64) -> (u64, u64) {
    let version = (upper >> 12) & 0xf;
    if version == 1 {
        return (reorder_time(upper), lower);
    }
    let without_version = ((upper >> 4) & !0xfff) | (upper & 0xfff);
    ((version << 60) | (without_version & !(0xf << 60)), lower)
}

pub(crate) fn split_uuid(bytes: &[u8]) -> Option<(u64, u64)> {
    let (upper, lower) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*upper), u64::from_be_bytes(lower.try_into().ok()?)))
}

fn uuid_order(a: &[u8], b: &[u8], rank: fn(u64, u64) -> (u64, u64)) -> Ordering {
    match (split_uuid(a), split_uuid(b)) {
        (Some((a_upper, a_lower)), Some((b_upper, b_lower))) => {
            rank(a_upper, a_lower).cmp(&rank(b_upper, b_lower))
        }
        (None, None) => a.cmp(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Nulls first.
fn compare_nullable(ty: &CqlType, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(ty, a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn compare_elements(element: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (ListIter::new(a), ListIter::new(b));
    let by_length = a.remaining().cmp(&b.remaining());
    while let (Some(Ok(a_element)), Some(Ok(b_element))) = (a.next(), b.next()) {
        let order = compare_nullable(element, a_element, b_element);
        if order != Ordering::Equal {
            return order;
        }
    }
    by_length
}

fn compare_maps(key: &CqlType, value: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    let count = |bytes| ListIter::new(bytes).remaining();
    let by_length = count(a).cmp(&count(b));
    let (mut a_rest, mut b_rest) = (a.get(4..).unwrap_or(&[]), b.get(4..).unwrap_or(&[]));
    for _ in 0..count(a).min(count(b)) {
        for ty in [key, value] {
            let pair = (take_element(&mut a_rest), take_element(&mut b_rest));
            let (Some(a_element), Some(b_element)) = pair else {
                return by_length;
            };
            let order = compare_nullable(ty, a_element, b_element);
            if order != Ordering::Equal {
                return order;
            }
        }
    }
    by_length
}

/// Component by component; a missing one counts as null, and null sorts first.
fn compare_tuples<'t>(types: impl Iterator<Item = &'t CqlType>, a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (TupleIter::new(a), TupleIter::new(b));
    for ty in types {
        let (a_component, b_component) = (a.next(), b.next());
        if a_component.is_none() && b_component.is_none() {
            break;
        }
        let a_component = a_component.and_then(Result::ok).flatten();
        let b_component = b_component.and_then(Result::ok).flatten();
        let order = compare_nullable(ty, a_component, b_component);
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn compare_vectors(element: &CqlType, dimension: u16, a: &[u8], b: &[u8]) -> Ordering {
    let mut a = VectorIter::new(element, dimension, a);
    let mut b = VectorIter::new(element, dimension, b);
    while let (Some(Ok(a_element)), Some(Ok(b_element))) = (a.next(), b.next()) {
        let order = compare(element, a_element, b_element);
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}
