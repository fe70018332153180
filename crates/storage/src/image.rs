//! The rows of a set as they are at one entry, for a member that is new, empty or too far behind (see
//! `docs/formats/transfer.md`).
//!
//! An image is a head and chunks. Everything that applying the next entry asks for is in it: rows, deletions and spilled cells in
//! the set's range, what became of requests, how far the set was applied with its horizon and checksum, and by which
//! definition. Indexes are built from the rows, sizes are counted.

use std::sync::Arc;

use bytes::Bytes;
use node_log::EntryPlace;
use node_log::broken::{Rule, breaks};
use types::codec::{Decoder, Malformed, push_counted, push_length, push_optional};
use types::{RingRange, RingToken, SetId, TableId};

use crate::core::Core;
use crate::definition::Definition;
use crate::error::{CommitError, TreeError};
use crate::tree::keys::{
    SPACE_CELLS, SPACE_DELETIONS, SPACE_INTENTS, SPACE_PARTS, SPACE_ROWS, requests_bounds,
    space_bounds,
};
use crate::tree::progress::{Applied, ReplayPoint};
use crate::tree::purge::PurgeHold;
use crate::tree::store::TableStore;
use tree::engine::SeqNo;

/// The first byte of a head.
const IMAGE_VERSION: u8 = 1;
/// A set has rows in at most so many tables.
const TABLES_MAX: usize = 65_536;

/// What an image is of.
#[derive(Clone, Debug)]
pub struct ImageHead {
    /// Which set.
    pub set: SetId,
    /// Everything up to this entry is in it, and nothing behind it.
    pub place: EntryPlace,
    /// No entry behind it has an earlier second.
    pub now_s: u32,
    /// No time that a leader gave is later than this.
    pub last_us: i64,
    /// Which part of the ring the set holds.
    pub range: RingRange,
    pub(crate) tables: Vec<TableHead>,
}

/// How far the set was applied to a table.
#[derive(Clone, Debug)]
pub(crate) struct TableHead {
    pub(crate) table: TableId,
    pub(crate) point: ReplayPoint,
    pub(crate) definition: Option<Arc<Definition>>,
}

impl ImageHead {
    /// The tables of the set.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|head| head.table)
    }

    /// Whether some of what it is of may be of another one, too.
    pub fn touches(&self, other: &ImageHead) -> bool {
        self.range.intersect(&other.range).is_some()
            && self.tables().any(|table| other.tables().any(|other| table == other))
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = vec![IMAGE_VERSION];
        out.extend_from_slice(&self.set.0.to_be_bytes());
        out.extend_from_slice(&self.place.index.to_be_bytes());
        out.extend_from_slice(&self.place.term.to_be_bytes());
        out.extend_from_slice(&self.now_s.to_be_bytes());
        out.extend_from_slice(&self.last_us.to_be_bytes());
        out.extend_from_slice(&self.range.start.to_bytes());
        out.extend_from_slice(&self.range.last.to_bytes());
        push_length(&mut out, self.tables.len());
        for TableHead { table, point, definition } in &self.tables {
            out.extend_from_slice(&table.0.to_be_bytes());
            push_counted(&mut out, &point.encode());
            let definition = definition.as_ref().map(|definition| {
                let mut bytes = definition.retention_s.to_be_bytes().to_vec();
                bytes.extend_from_slice(&definition.bytes);
                bytes
            });
            push_optional(&mut out, definition.as_deref());
        }
        Bytes::from(out)
    }

    /// Reads a head; all of the bytes are its.
    pub fn from_bytes(bytes: Bytes) -> Result<ImageHead, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.byte()? != IMAGE_VERSION {
            return Err(Malformed);
        }
        let set = SetId(decoder.u32()?);
        let place = EntryPlace {
            index: u64::from_be_bytes(decoder.array()?),
            term: u64::from_be_bytes(decoder.array()?),
        };
        let now_s = decoder.u32()?;
        let last_us = i64::from_be_bytes(decoder.array()?);
        let range = RingRange {
            start: RingToken(u128::from_be_bytes(decoder.array()?)),
            last: RingToken(u128::from_be_bytes(decoder.array()?)),
        };
        let count = decoder.length()?;
        if count > TABLES_MAX || range.start > range.last {
            return Err(Malformed);
        }
        let mut tables = Vec::new();
        for _ in 0..count {
            let table = TableId(u128::from_be_bytes(decoder.array()?));
            let point = ReplayPoint::decode(&decoder.counted()?).ok_or(Malformed)?;
            let definition = match decoder.optional()? {
                None => None,
                Some(bytes) => {
                    let retention_s = bytes.first_chunk::<4>().ok_or(Malformed)?;
                    let retention_s = u32::from_be_bytes(*retention_s);
                    Some(Arc::new(Definition::decode(retention_s, bytes.slice(4..))?))
                }
            };
            let version = definition.as_ref().map(|definition| definition.table.version);
            if point.version != version {
                return Err(Malformed);
            }
            tables.push(TableHead { table, point, definition });
        }
        let head = ImageHead { set, place, now_s, last_us, range, tables };
        if decoder.is_done() { Ok(head) } else { Err(Malformed) }
    }
}

/// In so many spaces of a tree a set has keys.
pub(crate) const SPACES: usize = 6;

/// Where the keys of a set lie in a tree: from, and before.
pub(crate) fn bounds_of_set(set: SetId, range: RingRange) -> [(Vec<u8>, Vec<u8>); SPACES] {
    [
        space_bounds(SPACE_DELETIONS, range),
        space_bounds(SPACE_ROWS, range),
        space_bounds(SPACE_CELLS, range),
        requests_bounds(set),
        space_bounds(SPACE_INTENTS, range),
        space_bounds(SPACE_PARTS, range),
    ]
}

/// The pairs of a chunk, with the number of their table.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) table: usize,
    pairs: Decoder,
}

impl Chunk {
    pub(crate) fn decode(bytes: Bytes) -> Result<Chunk, Malformed> {
        let mut pairs = Decoder::new(bytes);
        let table = usize::try_from(pairs.u32()?).map_err(|_| Malformed)?;
        Ok(Chunk { table, pairs })
    }

    /// The next key with its value.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Bytes)>, Malformed> {
        if self.pairs.is_done() {
            return Ok(None);
        }
        Ok(Some((self.pairs.counted()?, self.pairs.counted()?)))
    }
}

/// A table as it stood when the image was begun.
#[derive(Debug)]
struct View {
    store: Arc<TableStore>,
    seqno: SeqNo,
    _unpurged: PurgeHold,
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(opened) = self.store.if_open() {
            opened.end_view(self.seqno);
        }
    }
}

/// The rows of a set as they are at one entry. While it lives nothing of them is merged away.
#[derive(Debug)]
pub struct SetImage {
    head: ImageHead,
    /// Of each table; none where nothing was ever written.
    views: Vec<Option<View>>,
    bounds: [(Vec<u8>, Vec<u8>); SPACES],
    /// Table, space and key that come next.
    next: (usize, usize, Vec<u8>),
}

impl SetImage {
    /// The image of a set at the entry that was applied last. Nothing is applied to the set meanwhile.
    pub(crate) fn begin(
        core: &Core,
        head: (SetId, EntryPlace, u32, i64),
        tables: &[TableId],
        range: RingRange,
    ) -> Result<SetImage, CommitError> {
        let (set, place, now_s, last_us) = head;
        let mut heads = Vec::new();
        let mut views = Vec::new();
        for table in tables.iter().copied() {
            let applied = Applied { index: place.index, ordinal: u32::MAX };
            let mut point = ReplayPoint { applied, horizon_s: 0, version: None, checksum: 0 };
            let mut definition = None;
            let mut view = None;
            if let Some(store) = core.store(table)
                && let Some(opened) =
                    store.for_read().map_err(|error| CommitError::Tree { table, error })?
            {
                let progress = opened.progress(set);
                point = ReplayPoint { applied, ..progress.replay_point() };
                definition = progress.definition();
                let (seqno, _unpurged) = opened.begin_view();
                view = Some(View { store: Arc::clone(&store), seqno, _unpurged });
            }
            heads.push(TableHead { table, point, definition });
            views.push(view);
        }
        let head = ImageHead { set, place, now_s, last_us, range, tables: heads };
        let bounds = bounds_of_set(set, range);
        let next = (0, 0, bounds.first().map(|(start, _)| start.clone()).unwrap_or_default());
        Ok(SetImage { head, views, bounds, next })
    }

    /// What it is of.
    pub fn head(&self) -> &ImageHead {
        &self.head
    }

    /// The next chunk, of about so many bytes; `None` when there is no more.
    pub fn next_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>, TreeError> {
        loop {
            let (table, space, from) = (self.next.0, self.next.1, std::mem::take(&mut self.next.2));
            let Some(view) = self.views.get(table) else { return Ok(None) };
            let Some((_, end)) = self.bounds.get(space) else { return Ok(None) };
            let mut out = (table as u32).to_be_bytes().to_vec();
            let empty = out.len();
            let mut last = None;
            let is_left_out = (breaks(Rule::ForgetIdsInTransfer) && space == 3)
                || (breaks(Rule::ForgetBatchesInTransfer) && space > 3);
            if let Some(view) = view
                && let Some(opened) = view.store.if_open()
                && !is_left_out
            {
                for item in opened.tree.range(&from, end, view.seqno) {
                    let (key, value) = item?;
                    push_counted(&mut out, &key);
                    push_counted(&mut out, &value);
                    if out.len() >= bytes_max {
                        last = Some(key.to_vec());
                        break;
                    }
                }
            }
            self.next = match last {
                Some(mut key) => {
                    // The first key behind it.
                    key.push(0);
                    (table, space, key)
                }
                None => {
                    let (table, space) = if space + 1 < self.bounds.len() {
                        (table, space + 1)
                    } else {
                        (table + 1, 0)
                    };
                    let start = self.bounds.get(space).map(|(start, _)| start.clone());
                    (table, space, start.unwrap_or_default())
                }
            };
            if out.len() > empty {
                return Ok(Some(Bytes::from(out)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_touch_where_table_and_range_do() {
        let head = |tables: &[u128], start, last| {
            let table = |table: &u128| {
                let point = ReplayPoint {
                    applied: Applied::default(),
                    horizon_s: 0,
                    version: None,
                    checksum: 0,
                };
                TableHead { table: TableId(*table), point, definition: None }
            };
            ImageHead {
                set: SetId(1),
                place: EntryPlace { index: 1, term: 1 },
                now_s: 0,
                last_us: 0,
                range: RingRange { start: RingToken(start), last: RingToken(last) },
                tables: tables.iter().map(table).collect(),
            }
        };
        let one = head(&[1, 2], 0, 9);
        assert!(one.touches(&head(&[2, 3], 9, 20)));
        assert!(!one.touches(&head(&[2, 3], 10, 20)), "other rows");
        assert!(!one.touches(&head(&[3], 0, 9)), "another table");
    }
}
