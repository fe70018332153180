//! The rows of a read on their way: bounded parts, each with how the read goes on behind it.

use std::ops::Range;

use bytes::Bytes;

use super::{Decoded, PartBounds, VERSION, whole};
use crate::codec::{Decoder, Malformed, push_counted, push_varint};
use crate::{
    CorruptRow, Flow, LiveCells, LiveRow, PartitionKey, ReadCommand, ReadPosition, ReadScope,
    RingToken, RowSink, RowView,
};

const HAS_KEY: u8 = 1;
const HAS_ROW: u8 = 2;
const HAS_STATIC: u8 = 4;
const SAME_STATIC: u8 = 8;
const ALL_FLAGS: u8 = HAS_KEY | HAS_ROW | HAS_STATIC | SAME_STATIC;

const END_LAST: u8 = 0x80;
const END_FULL: u8 = 0x81;
const END_OUT_OF_TIME: u8 = 0x82;

/// Why a part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The read is over.
    Last,
    /// It took as much as it may.
    Full,
    /// It took as long as it may.
    OutOfTime,
}

/// Takes the rows of a read where they lie, and makes one part of them.
pub struct PartWriter<'w> {
    out: Vec<u8>,
    bounds: PartBounds,
    /// Whether there is time left.
    goes_on: &'w mut dyn FnMut() -> bool,
    row_count: u32,
    /// Rows of the current logical partition.
    partition_row_count: u32,
    entries_followed: u64,
    /// Where the last partition key lies in `out`.
    key: Range<usize>,
    /// Where the static row of the last row lies in `out`; empty if it has none.
    static_row: Range<usize>,
    end: End,
}

impl<'w> PartWriter<'w> {
    /// A part within these bounds, and within those of every node. `goes_on` is asked now and then whether there is time left.
    pub fn new(bounds: PartBounds, goes_on: &'w mut dyn FnMut() -> bool) -> PartWriter<'w> {
        let bounds = PartBounds {
            rows_max: bounds.rows_max.clamp(1, PartBounds::ROWS_MAX),
            bytes_max: bounds.bytes_max.min(PartBounds::BYTES_MAX),
            ..bounds
        };
        PartWriter {
            out: vec![VERSION],
            bounds,
            goes_on,
            row_count: 0,
            partition_row_count: 0,
            entries_followed: 0,
            key: 0..0,
            static_row: 0..0,
            end: End::Last,
        }
    }

    /// The bytes of the part. Whoever gets them, and finds them whole, knows how the read goes on.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(match self.end {
            End::Last => END_LAST,
            End::Full => END_FULL,
            End::OutOfTime => END_OUT_OF_TIME,
        });
        push_varint(&mut self.out, self.entries_followed);
        self.out
    }

    fn is_last_key(&self, key: &[u8]) -> bool {
        self.row_count > 0 && self.out.get(self.key.clone()) == Some(key)
    }

    /// Appends a row, and says where its key and its static row lie.
    fn append(&mut self, row: &LiveRow<'_>) -> Result<(Range<usize>, Range<usize>), CorruptRow> {
        let is_same_key = self.is_last_key(row.partition_key);
        let flags_at = self.out.len();
        let mut flags = 0;
        self.out.push(flags);
        let mut key = self.key.clone();
        if !is_same_key {
            flags |= HAS_KEY;
            push_counted(&mut self.out, row.partition_key);
            key = self.out.len() - row.partition_key.len()..self.out.len();
        }
        if let (Some(clustering), Some(cells)) = (row.clustering, row.row) {
            flags |= HAS_ROW;
            push_counted(&mut self.out, clustering);
            self.append_cells(cells)?;
        }
        let mut static_row = 0..0;
        if let Some(cells) = row.static_row {
            let start = self.out.len();
            static_row = self.append_cells(cells)?;
            // All rows of a logical partition bring the same one, mostly: it travels once.
            let before = self.out.get(self.static_row.clone()).filter(|bytes| !bytes.is_empty());
            if is_same_key && before == self.out.get(static_row.clone()) {
                flags |= SAME_STATIC;
                self.out.truncate(start);
                static_row = self.static_row.clone();
            } else {
                flags |= HAS_STATIC;
            }
        }
        if let Some(slot) = self.out.get_mut(flags_at) {
            *slot = flags;
        }
        Ok((key, static_row))
    }

    /// Appends the length and the bytes of a row: where the bytes lie.
    fn append_cells(&mut self, cells: &LiveCells<'_>) -> Result<Range<usize>, CorruptRow> {
        let length_at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        let start = self.out.len();
        cells.write_live(&mut self.out)?;
        let length = u32::try_from(self.out.len() - start).map_err(|_| CorruptRow)?;
        if let Some(slot) = self.out.get_mut(length_at..start) {
            slot.copy_from_slice(&length.to_be_bytes());
        }
        Ok(start..self.out.len())
    }
}

impl RowSink for PartWriter<'_> {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        if self.end != End::Last {
            return Ok(Flow::Stop);
        }
        let start = self.out.len();
        let is_same_key = self.is_last_key(row.partition_key);
        let (key, static_row) = self.append(row)?;
        // The first row comes however large it is, or the read would never go on.
        if self.row_count > 0 && self.out.len() > self.bounds.bytes_max as usize {
            self.out.truncate(start);
            self.end = End::Full;
            return Ok(Flow::Stop);
        }
        (self.key, self.static_row) = (key, static_row);
        self.row_count += 1;
        self.partition_row_count = if is_same_key { self.partition_row_count + 1 } else { 1 };
        if self.row_count >= self.bounds.rows_max {
            self.end = End::Full;
            return Ok(Flow::Stop);
        }
        let rows_max = self.bounds.partition_rows_max;
        if rows_max.is_some_and(|rows_max| self.partition_row_count >= rows_max) {
            return Ok(Flow::NextPartition);
        }
        Ok(Flow::Continue)
    }

    fn go_on(&mut self) -> bool {
        if self.end == End::Last && !(self.goes_on)() {
            self.end = End::OutOfTime;
        }
        self.end == End::Last
    }

    fn on_entries(&mut self, count: u64) {
        self.entries_followed = self.entries_followed.saturating_add(count);
    }
}

/// One part of a read's rows, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsPart {
    /// The rows, one behind the other, their lengths checked.
    rows: Bytes,
    row_count: u32,
    entries_followed: u64,
    end: End,
}

/// How a read goes on behind a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOn {
    /// It is over, or no more is wanted.
    Over,
    /// With the same command, after this position.
    After(ReadPosition),
    /// As [`ReadOn::After`], if whoever asked has time left: who was asked had not. `None`: nothing was found in that time, and the
    /// command is to be sent as it was.
    OutOfTime(Option<ReadPosition>),
}

impl RowsPart {
    /// Reads a part; its rows stay in the bytes. Their cells are checked as they are looked at, like those of a row of the own disk.
    pub fn decode(bytes: Bytes) -> Decoded<RowsPart> {
        whole(bytes.clone(), |decoder| {
            let mut row_count = 0_u32;
            let mut row_bytes = 0;
            let mut before = Shape::default();
            let end = loop {
                match decoder.byte()? {
                    END_LAST => break End::Last,
                    END_FULL => break End::Full,
                    END_OUT_OF_TIME => break End::OutOfTime,
                    flags => {
                        let (length, shape) = skip_row(decoder, flags, before)?;
                        row_bytes += length;
                        before = shape;
                        row_count = row_count.checked_add(1).ok_or(Malformed)?;
                    }
                }
            };
            // Without a row there would be nothing to go on behind.
            if end == End::Full && row_count == 0 {
                return Err(Malformed);
            }
            let rows = bytes.slice(1..1 + row_bytes);
            Ok(RowsPart { rows, row_count, entries_followed: decoder.varint()?, end })
        })
    }

    /// How many rows it has.
    pub fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Hands the rows to a sink, as a read of storage would have done it with the same command.
    pub fn hand_to(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
    ) -> Result<ReadOn, CorruptRow> {
        let mut rows =
            PartRows { rest: &self.rows, key: &[], ring: RingToken(0), static_row: None };
        // The last row that was looked at, and whether its logical partition is done with.
        let mut at: Option<Place<'_>> = None;
        if self.entries_followed > 0 {
            sink.on_entries(self.entries_followed);
        }
        while !rows.rest.is_empty() {
            let row = rows.next()?;
            let is_unwanted = at.as_ref().is_some_and(|at| at.is_done && at.key == row.key);
            if is_unwanted {
                continue;
            }
            let flow = row.offer(command, sink)?;
            at = Some(Place {
                key: row.key,
                ring: row.ring,
                clustering: row.clustering,
                is_done: flow == Flow::NextPartition || row.clustering.is_none(),
            });
            let is_over = at.as_ref().is_some_and(|at| at.is_done)
                && matches!(command.scope, ReadScope::Partition(_));
            if flow == Flow::Stop || is_over {
                return Ok(ReadOn::Over);
            }
        }
        if self.end == End::Last || !sink.go_on() {
            return Ok(ReadOn::Over);
        }
        let after = at.map(|at| at.position());
        Ok(match (self.end, after) {
            (End::Full, Some(after)) => ReadOn::After(after),
            (_, after) => ReadOn::OutOfTime(after),
        })
    }
}

/// What the rows behind a row may refer to.
#[derive(Clone, Copy, Default)]
struct Shape {
    has_key: bool,
    has_static: bool,
}

/// Goes over one row, behind its flags: how many bytes it has with them.
fn skip_row(decoder: &mut Decoder, flags: u8, before: Shape) -> Decoded<(usize, Shape)> {
    let has = |flag: u8| flags & flag != 0;
    let refers_to_key = !has(HAS_KEY);
    let is_possible = flags & !ALL_FLAGS == 0
        && (before.has_key || !refers_to_key)
        && (!has(SAME_STATIC) || refers_to_key && before.has_static)
        && !(has(SAME_STATIC) && has(HAS_STATIC))
        && (has(HAS_ROW) || has(HAS_STATIC) || has(SAME_STATIC));
    if !is_possible {
        return Err(Malformed);
    }
    let before_bytes = decoder.left();
    if has(HAS_KEY) && decoder.counted()?.len() > PartitionKey::BYTES_MAX {
        return Err(Malformed);
    }
    if has(HAS_ROW) {
        decoder.counted()?;
        skip_cells(decoder)?;
    }
    if has(HAS_STATIC) {
        skip_cells(decoder)?;
    }
    let has_static = has(HAS_STATIC) || has(SAME_STATIC);
    Ok((1 + before_bytes - decoder.left(), Shape { has_key: true, has_static }))
}

fn skip_cells(decoder: &mut Decoder) -> Decoded<()> {
    let length = usize::try_from(decoder.u32()?).map_err(|_| Malformed)?;
    decoder.take(length).map(drop)
}

/// Where a read is.
struct Place<'p> {
    key: &'p [u8],
    ring: RingToken,
    clustering: Option<&'p [u8]>,
    is_done: bool,
}

impl Place<'_> {
    fn position(&self) -> ReadPosition {
        ReadPosition {
            key: PartitionKey::from_parts(Bytes::copy_from_slice(self.key), self.ring),
            clustering: self.clustering.filter(|_| !self.is_done).map(Bytes::copy_from_slice),
        }
    }
}

/// Goes through the rows of a part. Their lengths were checked, so an error does not come.
struct PartRows<'p> {
    rest: &'p [u8],
    key: &'p [u8],
    ring: RingToken,
    static_row: Option<&'p [u8]>,
}

struct PartRow<'p> {
    key: &'p [u8],
    ring: RingToken,
    clustering: Option<&'p [u8]>,
    row: Option<&'p [u8]>,
    static_row: Option<&'p [u8]>,
}

impl<'p> PartRows<'p> {
    fn next(&mut self) -> Result<PartRow<'p>, CorruptRow> {
        let (flags, rest) = self.rest.split_first().ok_or(CorruptRow)?;
        self.rest = rest;
        let has = |flag: u8| flags & flag != 0;
        if has(HAS_KEY) {
            self.key = self.counted()?;
            self.ring = RingToken::of_key(self.key);
        }
        let (mut clustering, mut row) = (None, None);
        if has(HAS_ROW) {
            clustering = Some(self.counted()?);
            row = Some(self.cells()?);
        }
        if has(HAS_STATIC) {
            self.static_row = Some(self.cells()?);
        } else if !has(SAME_STATIC) {
            self.static_row = None;
        }
        Ok(PartRow { key: self.key, ring: self.ring, clustering, row, static_row: self.static_row })
    }

    fn counted(&mut self) -> Result<&'p [u8], CorruptRow> {
        let (bytes, rest) = crate::row::take_counted(self.rest)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn cells(&mut self) -> Result<&'p [u8], CorruptRow> {
        let (length, rest) = self.rest.split_first_chunk::<4>().ok_or(CorruptRow)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| CorruptRow)?;
        let (cells, rest) = rest.split_at_checked(length).ok_or(CorruptRow)?;
        self.rest = rest;
        Ok(cells)
    }
}

impl PartRow<'_> {
    fn offer(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Result<Flow, CorruptRow> {
        let row = live(self.row, command.now_s)?;
        let static_row = live(self.static_row, command.now_s)?;
        sink.on_row(&LiveRow {
            partition_key: self.key,
            ring: self.ring,
            clustering: self.clustering,
            row: row.as_ref(),
            static_row: static_row.as_ref(),
        })
    }
}

fn live(row: Option<&[u8]>, now_s: u32) -> Result<Option<LiveCells<'_>>, CorruptRow> {
    let Some(row) = row else { return Ok(None) };
    Ok(Some(LiveCells::new(RowView::decode(row)?, i64::MIN, now_s)))
}
