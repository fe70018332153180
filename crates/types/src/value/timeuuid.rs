//! Version 1 uuids: their time, and the bounds of a millisecond.

use super::compare::{reorder_time, restore_time, split_uuid};

/// Milliseconds from 1970 back to the start of the Gregorian calendar, where uuid time starts.
const UUID_EPOCH_MS: i64 = -12_219_292_800_000;
const TICKS_PER_MS: i64 = 10_000;
const VERSION_BITS: u64 = 0x1000;
/// The lower halves that sort first and last, by signed bytes.
const LOWER_FIRST: u64 = 0x8080_8080_8080_8080;
const LOWER_LAST: u64 = 0x7f7f_7f7f_7f7f_7f7f;

fn ticks_of_millis(millis: i64) -> u64 {
    millis.wrapping_sub(UUID_EPOCH_MS).wrapping_mul(TICKS_PER_MS) as u64
}

fn build(ticks: u64, lower: u64) -> [u8; 16] {
    let upper = restore_time(ticks) | VERSION_BITS;
    ((u128::from(upper) << 64) | u128::from(lower)).to_be_bytes()
}

/// A uuid of a time in microseconds since the epoch, with its lower half: see [`lower_half`].
pub fn timeuuid_at_micros(micros: i64, lower: u64) -> [u8; 16] {
    let ticks = micros.wrapping_mul(10).wrapping_sub(UUID_EPOCH_MS * TICKS_PER_MS);
    build(ticks as u64, lower)
}

/// The uuid as far before a moment as this one is behind it: later ones sort before earlier ones. `None` unless
/// it is a version 1 uuid.
pub fn mirrored_timeuuid(bytes: &[u8], around_ms: i64) -> Option<[u8; 16]> {
    let (upper, lower) = split_uuid(bytes)?;
    if upper & 0xf000 != VERSION_BITS {
        return None;
    }
    let ticks = reorder_time(upper & !VERSION_BITS);
    Some(build(ticks_of_millis(around_ms).wrapping_mul(2).wrapping_sub(ticks), lower))
}

/// The uuid of so many ticks (of a tenth of a microsecond) later, with the same lower half. `None` unless it is a version 1 uuid.
pub fn timeuuid_ticks_later(bytes: &[u8], ticks: i64) -> Option<[u8; 16]> {
    let (upper, lower) = split_uuid(bytes)?;
    if upper & 0xf000 != VERSION_BITS {
        return None;
    }
    Some(build(reorder_time(upper & !VERSION_BITS).wrapping_add_signed(ticks), lower))
}

/// The lower half: variant, 14 bits of clock sequence, and a node that says it is no MAC address.
pub fn lower_half(clock_sequence: u16, node: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = node;
    let node = u64::from_be_bytes([0, 0, a | 0x01, b, c, d, e, f]);
    (1 << 63) | (u64::from(clock_sequence & 0x3fff) << 48) | node
}

/// The first uuid of a millisecond, as `minTimeuuid` returns it.
pub fn min_timeuuid(millis: i64) -> [u8; 16] {
    build(ticks_of_millis(millis), LOWER_FIRST)
}

/// The last uuid of a millisecond, as `maxTimeuuid` returns it.
pub fn max_timeuuid(millis: i64) -> [u8; 16] {
    build(ticks_of_millis(millis.wrapping_add(1)).wrapping_sub(1), LOWER_LAST)
}

/// Microseconds since the epoch of a uuid's time; `None` unless it is a version 1 uuid.
pub fn timeuuid_micros(bytes: &[u8]) -> Option<i64> {
    let (upper, _) = split_uuid(bytes)?;
    if upper & 0xf000 != VERSION_BITS {
        return None;
    }
    let ticks = reorder_time(upper & !VERSION_BITS) as i64;
    Some(ticks / 10 + UUID_EPOCH_MS * 1000)
}

/// Milliseconds since the epoch of a uuid's time, rounded towards the epoch as Cassandra does.
pub fn timeuuid_millis(bytes: &[u8]) -> Option<i64> {
    timeuuid_micros(bytes).map(|micros| micros / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrored_uuids_differ_by_every_tick_and_go_the_other_way() {
        let lower = lower_half(7, [1, 2, 3, 4, 5, 6]);
        let reference_ms = 1_262_304_000_000;
        let start = ticks_of_millis(1_794_822_000_123);
        let mirrored = |ticks| mirrored_timeuuid(&build(ticks, lower), reference_ms).unwrap();
        for ticks in start..start + 30 {
            let order = |uuid: [u8; 16]| reorder_time(split_uuid(&uuid).unwrap().0 & !VERSION_BITS);
            assert_eq!(order(mirrored(ticks)), order(mirrored(ticks + 1)) + 1);
            assert_eq!(
                mirrored_timeuuid(&mirrored(ticks), reference_ms),
                Some(build(ticks, lower))
            );
        }
    }

    #[test]
    fn bounds_enclose_the_millisecond() {
        for millis in [0, 1, 1_700_000_000_123, -1_000_000, UUID_EPOCH_MS] {
            let (first, last) = (min_timeuuid(millis), max_timeuuid(millis));
            assert_eq!(timeuuid_micros(&first), Some(millis * 1000));
            assert_eq!(timeuuid_micros(&last), Some(millis * 1000 + 999));
            let middle = timeuuid_at_micros(millis * 1000 + 500, lower_half(7, [1, 2, 3, 4, 5, 6]));
            let order = |a: &[u8], b: &[u8]| super::super::compare(&crate::CqlType::TimeUuid, a, b);
            assert!(order(&first, &middle).is_lt() && order(&middle, &last).is_lt());
        }
    }
}
