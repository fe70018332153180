//! Keys of a tree (see `docs/formats/tree.md`).
//!
//! A *partition prefix* is ring token (16), length of the partition key (2), partition key. The
//! length makes an end without escaping, so that keys can be handed out as they lie. A first byte
//! says what lives there: replay points, deletions, or rows. A row's key is
//! `ROWS ‖ partition prefix ‖ kind ‖ clustering key`.

use crate::sure::tail;
use types::{ColumnId, PartitionKey, RingRange, RingToken, RowPosition, SetId};

/// Replay points: how far each replica set was applied.
pub(crate) const SPACE_PROGRESS: u8 = 0;
/// Partition deletions and range tombstones.
pub(crate) const SPACE_DELETIONS: u8 = 1;
/// Static rows and rows.
pub(crate) const SPACE_ROWS: u8 = tree::EVEN_SPACE;
/// Cells that were spilled from their rows.
pub(crate) const SPACE_CELLS: u8 = 4;

/// How large partitions are.
pub(crate) const SPACE_SIZES: u8 = 3;

/// Partitions of which indexes have entries of dead rows.
pub(crate) const SPACE_LEFTOVERS: u8 = 5;

/// Definitions of the table that are in force in a replica set.
pub(crate) const SPACE_DEFINITIONS: u8 = 6;

/// Up to which second the tree may be purged.
pub(crate) const SPACE_HORIZON: u8 = 7;

/// What became of requests that must not be applied twice.
pub(crate) const SPACE_REQUESTS: u8 = 8;

/// Sets whose rows were handed over and are not as far as the table was purged.
pub(crate) const SPACE_GUARDS: u8 = 9;

/// Batches over several sets that are not over, under their first keys.
pub(crate) const SPACE_INTENTS: u8 = 10;

/// Parts of such batches that were applied, under their keys.
pub(crate) const SPACE_PARTS: u8 = 11;

const KIND_PARTITION_DELETION: u8 = 1;
const KIND_RANGE_DELETION: u8 = 2;
const KIND_STATIC: u8 = 3;
const KIND_ROW: u8 = 4;

/// Longer partition keys are cut, and their hash takes the place of the tail.
pub(crate) const PARTITION_KEY_WHOLE_BYTES_MAX: usize = types::key::KEY_IN_TREE_BYTES_MAX;
const CUT_KEY_BYTES: usize = PARTITION_KEY_WHOLE_BYTES_MAX - 16;
/// Stands in the length of a partition key that was cut.
const CUT_KEY_LENGTH: u16 = u16::MAX;

/// Whether a partition key is too long to stand in a tree key whole. Its rows then begin with it.
pub(crate) fn is_cut(key: &PartitionKey) -> bool {
    key.bytes().len() > PARTITION_KEY_WHOLE_BYTES_MAX
}

/// Appends ring token, length and partition key.
pub(crate) fn push_partition_prefix(out: &mut Vec<u8>, key: &PartitionKey) {
    let bytes = key.bytes();
    out.extend_from_slice(&key.ring().to_bytes());
    match (bytes.get(..CUT_KEY_BYTES), is_cut(key)) {
        (Some(start), true) => {
            out.extend_from_slice(&CUT_KEY_LENGTH.to_be_bytes());
            out.extend_from_slice(start);
            let tail = tail(bytes, CUT_KEY_BYTES);
            let (high, low) = types::token::murmur3(tail);
            out.extend_from_slice(&high.to_be_bytes());
            out.extend_from_slice(&low.to_be_bytes());
        }
        _ => {
            out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

/// As [`push_partition_prefix`], for a partition key that is not cut.
pub(crate) fn push_whole_prefix(out: &mut Vec<u8>, ring: RingToken, key: &[u8]) {
    out.extend_from_slice(&ring.to_bytes());
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(key);
}

/// Appends the kind and clustering key that name a row within its partition.
pub(crate) fn push_position(out: &mut Vec<u8>, position: &RowPosition) {
    match position {
        RowPosition::Static => out.push(KIND_STATIC),
        RowPosition::Clustered(clustering) => push_clustering(out, clustering),
    }
}

/// Appends the end of a static row's key.
pub(crate) fn push_static(out: &mut Vec<u8>) {
    out.push(KIND_STATIC);
}

/// Appends the end of a row's key.
pub(crate) fn push_clustering(out: &mut Vec<u8>, clustering: &[u8]) {
    out.push(KIND_ROW);
    out.extend_from_slice(clustering);
}

/// Appends what comes after the last row of a partition.
pub(crate) fn push_rows_end(out: &mut Vec<u8>) {
    out.push(KIND_ROW + 1);
}

/// The key of a partition's deletion.
pub(crate) fn push_partition_deletion(out: &mut Vec<u8>) {
    out.push(KIND_PARTITION_DELETION);
}

/// The key of a range tombstone: where the range starts.
pub(crate) fn push_range_deletion(out: &mut Vec<u8>, start: &[u8]) {
    out.push(KIND_RANGE_DELETION);
    out.extend_from_slice(start);
}

/// What comes after the last range tombstone of a partition.
pub(crate) fn push_range_deletions_end(out: &mut Vec<u8>) {
    out.push(KIND_RANGE_DELETION + 1);
}

/// The key of a replica set's replay point.
pub(crate) fn progress_key(set: SetId) -> [u8; 5] {
    let [a, b, c, d] = set.0.to_be_bytes();
    [SPACE_PROGRESS, a, b, c, d]
}

/// The key of a set's guard.
pub(crate) fn guard_key(set: SetId) -> [u8; 5] {
    let [a, b, c, d] = set.0.to_be_bytes();
    [SPACE_GUARDS, a, b, c, d]
}

/// The keys of a set's kept answers: from, and before.
pub(crate) fn requests_bounds(set: SetId) -> (Vec<u8>, Vec<u8>) {
    let mut start = vec![SPACE_REQUESTS];
    start.extend_from_slice(&set.0.to_be_bytes());
    let end = types::successor(&start).unwrap_or_else(|| vec![SPACE_REQUESTS + 1]);
    (start, end)
}

/// Space, set, id, number.
pub(super) const REQUEST_KEY_BYTES: usize = 1 + 4 + 16 + 4;

/// Where it is kept what became of a mutation of a request.
pub(crate) fn request_key(set: SetId, id: u128, number: u32) -> [u8; REQUEST_KEY_BYTES] {
    let mut key = [0; REQUEST_KEY_BYTES];
    let parts =
        [&[SPACE_REQUESTS][..], &set.0.to_be_bytes(), &id.to_be_bytes(), &number.to_be_bytes()];
    let bytes = parts.into_iter().flatten();
    key.iter_mut().zip(bytes).for_each(|(byte, from)| *byte = *from);
    key
}

/// The same place for another set; `None` if it is no such place.
pub(crate) fn request_key_of(set: SetId, key: &[u8]) -> Option<Vec<u8>> {
    let name = key.strip_prefix(&[SPACE_REQUESTS])?.get(4..)?;
    let mut other = vec![SPACE_REQUESTS];
    other.extend_from_slice(&set.0.to_be_bytes());
    other.extend_from_slice(name);
    Some(other)
}

/// The number that whoever named a request gave it, from the key of its answer.
pub(crate) fn request_number(key: &[u8]) -> Option<u64> {
    let bytes = key.get(1 + 4 + 8..).and_then(|rest| rest.first_chunk::<8>());
    bytes.map(|bytes| u64::from_be_bytes(*bytes))
}

/// Where an intent is kept: it lies in the range of the ring that its batch's first key lies in, whichever set that is.
pub(crate) fn intent_key(ring: RingToken, batch: u128) -> Vec<u8> {
    let mut key = vec![SPACE_INTENTS];
    key.extend_from_slice(&ring.to_bytes());
    key.extend_from_slice(&batch.to_be_bytes());
    key
}

/// The position and the batch in a key of the intents' space.
pub(crate) fn split_intent_key(key: &[u8]) -> Option<(RingToken, u128)> {
    let (ring, batch) = key.strip_prefix(&[SPACE_INTENTS])?.split_first_chunk::<16>()?;
    let batch = u128::from_be_bytes(<[u8; 16]>::try_from(batch).ok()?);
    Some((RingToken(u128::from_be_bytes(*ring)), batch))
}

/// Where it is remembered that a part of a batch was applied.
pub(crate) fn part_key(ring: RingToken, batch: u128, number: u32) -> Vec<u8> {
    let mut key = vec![SPACE_PARTS];
    key.extend_from_slice(&ring.to_bytes());
    key.extend_from_slice(&batch.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Where a definition of the table is kept.
pub(crate) fn definition_key(version: u64) -> [u8; 9] {
    let mut key = [SPACE_DEFINITIONS; 9];
    if let Some(number) = key.last_chunk_mut::<8>() {
        *number = version.to_be_bytes();
    }
    key
}

/// The keys of all rows in a part of the ring: from, and before.
pub(crate) fn ring_bounds(range: RingRange) -> (Vec<u8>, Vec<u8>) {
    space_bounds(SPACE_ROWS, range)
}

/// The keys of one space whose partitions lie in a part of the ring: from, and before.
pub(crate) fn space_bounds(space: u8, range: RingRange) -> (Vec<u8>, Vec<u8>) {
    let mut start = vec![space];
    start.extend_from_slice(&range.start.to_bytes());
    let end = match range.last.0.checked_add(1) {
        Some(next) => {
            let mut end = vec![space];
            end.extend_from_slice(&RingToken(next).to_bytes());
            end
        }
        None => vec![space + 1],
    };
    (start, end)
}

/// A key of the row space, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKey<'a> {
    /// Space and partition prefix.
    pub(crate) prefix: &'a [u8],
    pub(crate) ring: RingToken,
    /// The partition key; `None` if it was cut and stands before the row.
    pub(crate) partition_key: Option<&'a [u8]>,
    /// `None` for the static row.
    pub(crate) clustering: Option<&'a [u8]>,
}

/// Takes a key of the row space or the deletion space apart; `None` if it is none.
pub(crate) fn split_row_key(key: &[u8]) -> Option<RowKey<'_>> {
    let (prefix, rest) = split_prefix(key)?;
    let Prologue { ring, length } = Prologue::of(prefix)?;
    let partition_key = if length == CUT_KEY_LENGTH { None } else { whole_key(prefix) };
    let clustering = split_position(rest)?;
    Some(RowKey { prefix, ring, partition_key, clustering })
}

/// The clustering key in what stands behind a partition prefix, `None` inside for the static row.
pub(crate) fn split_position(rest: &[u8]) -> Option<Option<&[u8]>> {
    match rest.split_first()? {
        (&KIND_STATIC, []) => Some(None),
        (&KIND_ROW, clustering) => Some(Some(clustering)),
        _ => None,
    }
}

/// Splits a key after its partition prefix.
pub(crate) fn split_prefix(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = Prologue::of(key)?.length;
    let length =
        if length == CUT_KEY_LENGTH { PARTITION_KEY_WHOLE_BYTES_MAX } else { usize::from(length) };
    key.split_at_checked(Prologue::BYTES + length)
}

/// What stands before the partition key: space, ring token, length.
struct Prologue {
    ring: RingToken,
    length: u16,
}

impl Prologue {
    const BYTES: usize = 1 + 16 + 2;

    fn of(key: &[u8]) -> Option<Prologue> {
        let (ring, rest) = key.get(1..)?.split_first_chunk::<16>()?;
        let length = u16::from_be_bytes(*rest.first_chunk::<2>()?);
        Some(Prologue { ring: RingToken(u128::from_be_bytes(*ring)), length })
    }
}

/// The partition key at the end of a prefix with its space, where it is not cut.
pub(crate) fn whole_key(prefix: &[u8]) -> Option<&[u8]> {
    prefix.get(Prologue::BYTES..)
}

/// Longer paths are cut in the keys of spilled cells, and their hash takes the place of the tail.
const PATH_WHOLE_BYTES_MAX: usize = 1024;
const CUT_PATH_BYTES: usize = PATH_WHOLE_BYTES_MAX - 16;
const PATH_NONE: u8 = 0;
const PATH_WHOLE: u8 = 1;
const PATH_CUT: u8 = 2;

/// What the keys of all spilled cells of a row begin with: cell space, partition prefix, kind, and
/// for a clustered row the length (2) and bytes of its clustering key.
pub(crate) fn cells_prefix(row_key: &[u8]) -> Option<Vec<u8>> {
    let (prefix, rest) = split_prefix(row_key)?;
    let mut out = Vec::with_capacity(row_key.len() + 64);
    out.push(SPACE_CELLS);
    out.extend_from_slice(prefix.get(1..)?);
    match split_position(rest)? {
        None => out.push(KIND_STATIC),
        Some(clustering) => {
            out.push(KIND_ROW);
            out.extend_from_slice(&u16::try_from(clustering.len()).ok()?.to_be_bytes());
            out.extend_from_slice(clustering);
        }
    }
    Some(out)
}

/// The row of a spilled cell: its key, and how long the prefix of its cells is.
pub(crate) fn row_of_cell(key: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (prefix, rest) = split_prefix(key)?;
    let mut row_key = vec![SPACE_ROWS];
    row_key.extend_from_slice(prefix.get(1..)?);
    match rest.split_first()? {
        (&KIND_STATIC, _) => {
            row_key.push(KIND_STATIC);
            Some((row_key, prefix.len() + 1))
        }
        (&KIND_ROW, rest) => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            let clustering = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
            push_clustering(&mut row_key, clustering);
            Some((row_key, prefix.len() + 3 + clustering.len()))
        }
        _ => None,
    }
}

/// Appends what names a spilled cell within its row: column (4), then its path.
pub(crate) fn push_cell(out: &mut Vec<u8>, column: ColumnId, path: Option<&[u8]>) {
    out.extend_from_slice(&column.0.to_be_bytes());
    match path {
        None => out.push(PATH_NONE),
        Some(path) if path.len() <= PATH_WHOLE_BYTES_MAX => {
            out.push(PATH_WHOLE);
            out.extend_from_slice(path);
        }
        Some(path) => {
            let (start, tail) = path.split_at(CUT_PATH_BYTES);
            out.push(PATH_CUT);
            out.extend_from_slice(start);
            let (high, low) = types::token::murmur3(tail);
            out.extend_from_slice(&high.to_be_bytes());
            out.extend_from_slice(&low.to_be_bytes());
        }
    }
}

/// What stands in the deletion space after the partition prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionKey<'a> {
    Partition,
    Range { start: &'a [u8] },
}

/// Takes the end of a key of the deletion space apart.
pub(crate) fn split_deletion(rest: &[u8]) -> Option<DeletionKey<'_>> {
    match rest.split_first()? {
        (&KIND_PARTITION_DELETION, []) => Some(DeletionKey::Partition),
        (&KIND_RANGE_DELETION, start) => Some(DeletionKey::Range { start }),
        _ => None,
    }
}

/// A partition key that was cut, and the row behind it: length (2), key, row.
pub(crate) fn split_cut_key(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = value.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Appends what stands before a row whose partition key was cut.
pub(crate) fn push_cut_key(out: &mut Vec<u8>, key: &PartitionKey) {
    out.extend_from_slice(&(key.bytes().len() as u16).to_be_bytes());
    out.extend_from_slice(key.bytes());
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn row_key(key: &PartitionKey, position: &RowPosition) -> Vec<u8> {
        let mut out = vec![SPACE_ROWS];
        push_partition_prefix(&mut out, key);
        push_position(&mut out, position);
        out
    }

    #[test]
    fn keys_come_apart_as_they_were_put_together() {
        let long = vec![7; 40_000];
        for bytes in [b"".as_slice(), b"k", &[0, 1, 0], &long] {
            let key = PartitionKey::new(Bytes::copy_from_slice(bytes));
            for position in [
                RowPosition::Static,
                RowPosition::Clustered(Bytes::new()),
                RowPosition::Clustered(Bytes::from_static(b"\x00\x04c")),
            ] {
                let encoded = row_key(&key, &position);
                let split = split_row_key(&encoded).unwrap();
                assert_eq!(split.ring, key.ring());
                assert_eq!(split.partition_key.is_none(), is_cut(&key));
                if let Some(partition_key) = split.partition_key {
                    assert_eq!(partition_key, bytes);
                }
                let expected = match &position {
                    RowPosition::Static => None,
                    RowPosition::Clustered(clustering) => Some(clustering.as_ref()),
                };
                assert_eq!(split.clustering, expected);
            }
        }
    }

    #[test]
    fn the_longest_key_fits_the_library() {
        for length in [0, 1, 100, PARTITION_KEY_WHOLE_BYTES_MAX, PartitionKey::BYTES_MAX] {
            let key = PartitionKey::new(Bytes::from(vec![1; length]));
            let clustering = Bytes::from(vec![2; key.clustering_bytes_max()]);
            let row = row_key(&key, &RowPosition::Clustered(clustering));
            let mut cell = cells_prefix(&row).unwrap();
            push_cell(&mut cell, ColumnId(u32::MAX), Some(&[7; 5000]));
            let indexed = row.len() + 1 + crate::index::keys::VALUE_BYTES_MAX;
            let longest = row.len().max(cell.len()).max(indexed);
            assert!(longest <= usize::from(u16::MAX), "{length}: {longest}");
        }
    }

    #[test]
    fn spilled_cells_find_their_row() {
        let key = PartitionKey::new(Bytes::from_static(b"key"));
        for position in [RowPosition::Static, RowPosition::Clustered(Bytes::from_static(b"\x01c"))]
        {
            let row = row_key(&key, &position);
            let prefix = cells_prefix(&row).unwrap();
            for path in [None, Some([7; 3].as_slice()), Some(&[7; 5000])] {
                let mut cell = prefix.clone();
                push_cell(&mut cell, ColumnId(5), path);
                assert_eq!(row_of_cell(&cell), Some((row.clone(), prefix.len())));
                assert!(cell.len() < prefix.len() + 1100);
            }
        }
    }

    #[test]
    fn long_keys_that_differ_in_their_tails_differ() {
        let mut bytes = vec![1; 50_000];
        let one = PartitionKey::new(Bytes::from(bytes.clone()));
        bytes[49_999] = 2;
        let other = PartitionKey::new(Bytes::from(bytes));
        assert_ne!(row_key(&one, &RowPosition::Static), row_key(&other, &RowPosition::Static));
    }

    #[test]
    fn static_rows_come_before_rows_and_partitions_follow_the_ring() {
        let mut keys: Vec<PartitionKey> =
            (0..50u32).map(|n| PartitionKey::new(Bytes::from(n.to_be_bytes().to_vec()))).collect();
        keys.sort_by_key(PartitionKey::ring);
        let encoded: Vec<Vec<u8>> = keys
            .iter()
            .flat_map(|key| {
                [RowPosition::Static, RowPosition::Clustered(Bytes::new())]
                    .map(|position| row_key(key, &position))
            })
            .collect();
        assert!(encoded.is_sorted());
        let (start, end) = ring_bounds(RingRange::FULL);
        assert!(encoded.iter().all(|key| start <= *key && *key < end));
    }
}
