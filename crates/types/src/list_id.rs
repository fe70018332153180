//! The id of a list's element: a time uuid in byte-comparable form, as the path of its cell has it. Elements of a list stand in the order of their
//! ids; what is put before all others has the time mirrored around a fixed moment.

use crate::CqlType;
use crate::value::ordered::{decode_ordered, encode_ordered};
use crate::value::timeuuid::{mirrored_timeuuid, timeuuid_micros, timeuuid_ticks_later};

/// Ids of elements at the front of a list are mirrored around this: 2010, as in Cassandra.
const FRONT_REFERENCE_MS: i64 = 1_262_304_000_000;
/// A mark and the uuid.
const PATH_BYTES: usize = 17;

/// The id of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListId([u8; 16]);

impl ListId {
    /// Behind all elements that were appended before that time uuid.
    pub fn back(uuid: [u8; 16]) -> ListId {
        ListId(uuid)
    }

    /// Before all elements.
    pub fn front(uuid: [u8; 16]) -> ListId {
        ListId(mirrored_timeuuid(&uuid, FRONT_REFERENCE_MS).unwrap_or(uuid))
    }

    /// Of a path; `None` if it is none of a list.
    pub fn of_path(path: &[u8]) -> Option<ListId> {
        // Of elements of sets and maps most are told apart at a glance.
        if path.len() != PATH_BYTES {
            return None;
        }
        let (mut rest, mut uuid) = (path, Vec::with_capacity(16));
        decode_ordered(&CqlType::TimeUuid, false, &mut rest, &mut uuid).ok()?;
        let uuid: [u8; 16] = uuid.try_into().ok().filter(|_| rest.is_empty())?;
        timeuuid_micros(&uuid).map(|_| ListId(uuid))
    }

    /// The path of its cell.
    pub fn path(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PATH_BYTES);
        encode_ordered(&CqlType::TimeUuid, &self.0, false, &mut out);
        out
    }

    /// When it was made, microseconds since the epoch, wherever it stands.
    pub fn made_us(&self) -> i64 {
        let us = timeuuid_micros(&self.0).unwrap_or(0);
        let reference_us = FRONT_REFERENCE_MS * 1_000;
        // What stands at the front was made as long after the moment as it says before.
        if us < reference_us { 2 * reference_us - us } else { us }
    }

    /// The same as if it had been made so much later; earlier by less than nothing.
    pub fn made_later(&self, by_us: i64) -> ListId {
        let is_front = timeuuid_micros(&self.0).unwrap_or(0) < FRONT_REFERENCE_MS * 1_000;
        let by_us = if is_front { by_us.saturating_neg() } else { by_us };
        ListId(timeuuid_ticks_later(&self.0, by_us.saturating_mul(10)).unwrap_or(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::timeuuid::{lower_half, timeuuid_at_micros};

    const NOW_US: i64 = 1_794_822_000_123_456;

    fn uuid(us: i64) -> [u8; 16] {
        timeuuid_at_micros(us, lower_half(7, [1, 2, 3, 4, 5, 6]))
    }

    #[test]
    fn elements_sort_by_when_they_were_made_from_the_middle_outwards() {
        let paths = [
            ListId::front(uuid(NOW_US + 2)),
            ListId::front(uuid(NOW_US)),
            ListId::back(uuid(NOW_US + 1)),
            ListId::back(uuid(NOW_US + 3)),
        ]
        .map(|id| id.path());
        assert!(paths.is_sorted(), "{paths:?}");
    }

    #[test]
    fn what_is_made_later_stands_further_out_and_says_so() {
        for id in [ListId::front(uuid(NOW_US)), ListId::back(uuid(NOW_US))] {
            assert_eq!(id.made_us(), NOW_US, "{id:?}");
            assert_eq!(ListId::of_path(&id.path()), Some(id));
            for by_us in [1, 1_000_000, -5] {
                assert_eq!(id.made_later(by_us).made_us(), NOW_US + by_us, "{id:?} {by_us}");
            }
        }
        assert!(
            ListId::back(uuid(NOW_US)).made_later(1).path() > ListId::back(uuid(NOW_US)).path()
        );
        assert!(
            ListId::front(uuid(NOW_US)).made_later(1).path() < ListId::front(uuid(NOW_US)).path()
        );
    }

    #[test]
    fn other_paths_are_none_of_a_list() {
        for path in [&b""[..], &[1], &[1; 16], &[1; 17], &[1; 18]] {
            assert_eq!(ListId::of_path(path), None, "{path:?}");
        }
    }
}
