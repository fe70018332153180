//! Keys and values of an index (see `docs/formats/tree.md`).
//!
//! An entry's key is `ENTRIES ‖ value ‖ place`. The *value* is byte-comparable, and no value is the
//! beginning of another. The *place* is the key of the row in the table's tree without its space:
//! ring token, partition key, kind, clustering key. So the entries of a value lie in the order of
//! the table, and those of a logical partition or of a part of the ring lie together.

use crate::sure::tail;
use tree::engine::TreeBytes;

/// How far the index was built.
pub(crate) const SPACE_STATE: u8 = 0;
/// The entries.
pub(crate) const SPACE_ENTRIES: u8 = 1;

/// Of longer values the tail is replaced by a hash. Together with the longest place this fits into
/// the library's keys.
pub(crate) const VALUE_BYTES_MAX: usize = 1024;
/// The first byte of a value that was cut; others begin with a mark of 1 to 4.
const CUT_MARK: u8 = 0x05;

const ENTRY_VERSION: u8 = 1;
const ENTRY_EXPIRES: u8 = 1;
const ENTRY_KEY: u8 = 2;

/// Cuts a value that is too long: the mark, its beginning, its 128-bit hash.
pub(crate) fn cut_value(value: &mut Vec<u8>) {
    if value.len() <= VALUE_BYTES_MAX {
        return;
    }
    let (high, low) = types::token::murmur3(value);
    value.truncate(VALUE_BYTES_MAX - 16);
    if let Some(first) = value.first_mut() {
        *first = CUT_MARK;
    }
    value.extend_from_slice(&high.to_be_bytes());
    value.extend_from_slice(&low.to_be_bytes());
}

/// The beginning of the keys of a value's entries.
pub(crate) fn value_prefix(value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + value.len() + 64);
    key.push(SPACE_ENTRIES);
    key.extend_from_slice(value);
    key
}

/// The key of an entry. `row_key`: the key of the row in its tree.
pub(crate) fn entry_key(value: &[u8], row_key: &[u8]) -> Vec<u8> {
    let place = tail(row_key, 1);
    let mut key = Vec::with_capacity(1 + value.len() + place.len());
    key.push(SPACE_ENTRIES);
    key.extend_from_slice(value);
    key.extend_from_slice(place);
    key
}

/// What an entry says beside its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryValue<'a> {
    /// The second at which what it stands for is gone by itself.
    pub(crate) expires_at_s: Option<u32>,
    /// The partition key, where it is too long for the key of the entry.
    pub(crate) partition_key: Option<&'a [u8]>,
}

impl<'a> EntryValue<'a> {
    pub(crate) fn encode(&self) -> TreeBytes {
        let mut flags = 0;
        if self.expires_at_s.is_some() {
            flags |= ENTRY_EXPIRES;
        }
        if self.partition_key.is_some() {
            flags |= ENTRY_KEY;
        }
        let mut out = vec![ENTRY_VERSION, flags];
        if let Some(expires_at_s) = self.expires_at_s {
            out.extend_from_slice(&expires_at_s.to_be_bytes());
        }
        out.extend_from_slice(self.partition_key.unwrap_or_default());
        TreeBytes::from(out)
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<EntryValue<'a>> {
        let ([version, flags], rest) = bytes.split_first_chunk::<2>()?;
        if *version != ENTRY_VERSION || flags & !(ENTRY_EXPIRES | ENTRY_KEY) != 0 {
            return None;
        }
        let (expires_at_s, rest) = match flags & ENTRY_EXPIRES {
            0 => (None, rest),
            _ => {
                let (second, rest) = rest.split_first_chunk::<4>()?;
                (Some(u32::from_be_bytes(*second)), rest)
            }
        };
        let partition_key = match flags & ENTRY_KEY {
            0 if rest.is_empty() => None,
            0 => return None,
            _ => Some(rest),
        };
        Some(EntryValue { expires_at_s, partition_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_values_come_back() {
        for expires_at_s in [None, Some(0), Some(7)] {
            for partition_key in [None, Some(b"".as_slice()), Some(b"key")] {
                let value = EntryValue { expires_at_s, partition_key };
                let bytes = value.encode();
                assert_eq!(EntryValue::decode(&bytes), Some(value));
            }
        }
        for bad in [b"".as_slice(), &[1], &[2, 0], &[1, 4], &[1, 1, 0, 0], &[1, 0, 9]] {
            assert_eq!(EntryValue::decode(bad), None);
        }
    }

    #[test]
    fn long_values_are_cut_and_still_differ() {
        let long = |last: u8| {
            let mut value = vec![4; 70_000];
            value.push(last);
            cut_value(&mut value);
            value
        };
        assert_eq!(long(1).len(), VALUE_BYTES_MAX);
        assert_eq!(long(1), long(1));
        assert_ne!(long(1), long(2));
        let mut short = vec![4; VALUE_BYTES_MAX];
        cut_value(&mut short);
        assert_eq!(short, vec![4; VALUE_BYTES_MAX]);
    }
}
