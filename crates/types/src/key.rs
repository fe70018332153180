//! Keys: which logical partition, and which row of it.

use bytes::Bytes;

use crate::token::{RingToken, Token};

/// The key of a logical partition, with its place on the ring. Its bytes are Cassandra's: the value
/// of a single key column, or of several columns each as length (2 bytes), value, zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    bytes: Bytes,
    ring: RingToken,
}

/// What may stand before and behind a clustering key in one key of a tree: space, ring token, length and
/// kind before it, a length and the name of a cell or an indexed value behind it.
const AROUND_CLUSTERING_BYTES: usize = 1 + 16 + 2 + 1 + 2 + 1_100;
/// Of longer partition keys only so much stands in keys of a tree (D2).
pub const KEY_IN_TREE_BYTES_MAX: usize = 32 * 1024;
/// A clustering key may take this much behind the shortest partition key: a key of the trees' library ends at
/// 65,535 bytes.
pub const CLUSTERING_BYTES_MAX: usize = 65_535 - AROUND_CLUSTERING_BYTES;

impl PartitionKey {
    /// How many bytes the clustering key of a row of this partition may take, in its byte-comparable form.
    pub fn clustering_bytes_max(&self) -> usize {
        CLUSTERING_BYTES_MAX - self.bytes().len().min(KEY_IN_TREE_BYTES_MAX)
    }
}

impl PartitionKey {
    /// Cassandra's limit on the bytes of a whole key.
    pub const BYTES_MAX: usize = 65_535;

    /// Takes the bytes of a key and hashes them.
    pub fn new(bytes: Bytes) -> PartitionKey {
        let ring = RingToken::of_key(&bytes);
        PartitionKey { bytes, ring }
    }

    /// The bytes of a key whose place is known already.
    pub fn from_parts(bytes: Bytes, ring: RingToken) -> PartitionKey {
        PartitionKey { bytes, ring }
    }

    /// The bytes, as Cassandra would store them.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where it lies inside.
    pub fn ring(&self) -> RingToken {
        self.ring
    }

    /// What clients see as its token.
    pub fn token(&self) -> Token {
        self.ring.token()
    }

    /// Appends one column of a composite key to `out`. The caller has checked the length.
    pub fn push_component(out: &mut Vec<u8>, value: &[u8]) {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(value);
        out.push(0);
    }

    /// Splits a key into the values of its columns: `count` is how many the table has.
    pub fn components(bytes: &[u8], count: usize) -> Components<'_> {
        Components { rest: bytes, single: count == 1, done: false }
    }
}

/// The column values of a partition key, in order.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    rest: &'a [u8],
    single: bool,
    done: bool,
}

impl<'a> Iterator for Components<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.done {
            return None;
        }
        if self.single {
            self.done = true;
            return Some(self.rest);
        }
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.rest = rest.get(1..).unwrap_or_default();
        Some(value)
    }
}

/// Which row of a logical partition.
///
/// A clustering key is the concatenation of its columns' byte-comparable encodings (see
/// [`crate::value`]), so that storage sorts and cuts rows by comparing bytes and never needs a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowPosition {
    /// The row of static columns, one per logical partition.
    Static,
    /// The row with that clustering key; empty bytes where a table has no clustering column.
    Clustered(Bytes),
}

impl RowPosition {
    /// How long the clustering key is.
    pub fn clustering_bytes(&self) -> usize {
        match self {
            RowPosition::Static => 0,
            RowPosition::Clustered(clustering) => clustering.len(),
        }
    }
}

/// A contiguous run of rows: clustering keys from `start` (inside) to `end` (outside; `None` means
/// up to the last row). Bounds are byte-comparable encodings of a prefix of the clustering columns,
/// or the successor of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusteringRange {
    /// The first key inside.
    pub start: Bytes,
    /// The first key outside.
    pub end: Option<Bytes>,
}

impl ClusteringRange {
    /// Every row.
    pub const ALL: ClusteringRange = ClusteringRange { start: Bytes::new(), end: None };

    /// The rows whose clustering key starts with that prefix.
    pub fn of_prefix(prefix: Bytes) -> ClusteringRange {
        let end = successor(&prefix).map(Bytes::from);
        ClusteringRange { start: prefix, end }
    }

    /// Whether a row lies inside.
    pub fn contains(&self, clustering: &[u8]) -> bool {
        self.start.as_ref() <= clustering
            && self.end.as_ref().is_none_or(|end| clustering < end.as_ref())
    }

    /// Whether no row can lie inside.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end <= &self.start)
    }
}

/// The first byte string that is larger than every string that starts with `prefix`; `None` when
/// there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut bytes = prefix.get(..=last)?.to_vec();
    if let Some(byte) = bytes.last_mut() {
        *byte += 1;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_back() {
        let mut bytes = Vec::new();
        for value in [b"a".as_slice(), b"", b"long one"] {
            PartitionKey::push_component(&mut bytes, value);
        }
        let parts: Vec<&[u8]> = PartitionKey::components(&bytes, 3).collect();
        assert_eq!(parts, [b"a".as_slice(), b"", b"long one"]);
        assert_eq!(PartitionKey::components(b"", 1).count(), 1);
        assert_eq!(PartitionKey::components(&[0, 9, 1], 2).count(), 0, "cut short");
    }

    #[test]
    fn successor_ends_a_prefix() {
        assert_eq!(successor(b"a"), Some(b"b".to_vec()));
        assert_eq!(successor(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(successor(&[0xff]), None);
        let range = ClusteringRange::of_prefix(Bytes::from_static(&[1, 0xff]));
        assert!(range.contains(&[1, 0xff, 0xff, 3]) && !range.contains(&[2]));
    }
}
