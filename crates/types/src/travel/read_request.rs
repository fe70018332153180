//! A read that another node is asked for.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Decoded, VERSION, whole};
use crate::codec::{Decoder, Malformed, push_counted, push_length, push_optional, push_varint};
use crate::{
    ClusteringRange, HiddenCells, IndexQuestion, PartitionKey, ReadCommand, ReadPosition,
    ReadScope, RingRange, RingToken, RowSelection, Statics, TableId,
};

const REVERSED: u8 = 1;
const OF_RING: u8 = 2;
const HAS_INDEX: u8 = 4;
const HAS_COLUMNS: u8 = 8;
const HAS_AFTER: u8 = 16;
const ALL_FLAGS: u8 = REVERSED | OF_RING | HAS_INDEX | HAS_COLUMNS | HAS_AFTER;

/// Every way with static rows, at the place that is its number.
const STATICS: [Statics; 3] = [Statics::Skip, Statics::Attach, Statics::AttachOrAlone];

const ROWS_ALL: u8 = 0;
const ROWS_POINTS: u8 = 1;
const ROWS_RANGES: u8 = 2;
const ROWS_NONE: u8 = 3;

/// A read of another node's replica, of which one part is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// What is read.
    pub command: ReadCommand,
    /// How much of it comes at once.
    pub bounds: PartBounds,
}

/// What one part of a read may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartBounds {
    /// So many rows.
    pub rows_max: u32,
    /// So many bytes, unless one row alone takes more.
    pub bytes_max: u32,
    /// So long, from the moment at which the request is taken up.
    pub time_ms_max: u32,
    /// So many rows of one logical partition; others of it are passed over as if they were not there, so this is only for those
    /// who would themselves pass over them. `None`: all.
    pub partition_rows_max: Option<u32>,
}

impl PartBounds {
    /// The most rows that a node puts into one part, whatever was asked for.
    pub const ROWS_MAX: u32 = 65_536;
    /// The most bytes that a node puts into one part, whatever was asked for.
    pub const BYTES_MAX: u32 = 4 << 20;
}

/// Appends a request.
pub fn encode_read_request(request: &ReadRequest, out: &mut Vec<u8>) {
    let ReadRequest { command, bounds } = request;
    out.push(VERSION);
    push_varint(out, bounds.rows_max.into());
    push_varint(out, bounds.bytes_max.into());
    push_varint(out, bounds.time_ms_max.into());
    push_varint(out, bounds.partition_rows_max.map_or(0, |rows| u64::from(rows) + 1));
    out.extend_from_slice(&command.table.0.to_be_bytes());
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    out.push(
        flag(command.reversed, REVERSED)
            | flag(matches!(command.scope, ReadScope::Ring(_)), OF_RING)
            | flag(command.index.is_some(), HAS_INDEX)
            | flag(command.columns.is_some(), HAS_COLUMNS)
            | flag(command.after.is_some(), HAS_AFTER),
    );
    out.push(match command.statics {
        Statics::Skip => 0,
        Statics::Attach => 1,
        Statics::AttachOrAlone => 2,
    });
    out.extend_from_slice(&command.now_s.to_be_bytes());
    match &command.scope {
        ReadScope::Partition(key) => push_counted(out, key.bytes()),
        ReadScope::Ring(range) => {
            out.extend_from_slice(&range.start.to_bytes());
            out.extend_from_slice(&range.last.to_bytes());
        }
    }
    encode_selection(&command.rows, out);
    if let Some(question) = &command.index {
        out.extend_from_slice(&question.index.0.to_be_bytes());
        push_counted(out, &question.value);
        push_optional(out, question.entry_value.as_deref());
    }
    push_length(out, command.hidden.len());
    for hidden in &command.hidden {
        push_varint(out, hidden.column.0.into());
        out.extend_from_slice(&hidden.until_us.to_be_bytes());
    }
    if let Some(columns) = &command.columns {
        push_length(out, columns.len());
        columns.iter().for_each(|column| push_varint(out, column.0.into()));
    }
    if let Some(after) = &command.after {
        push_counted(out, after.key.bytes());
        push_optional(out, after.clustering.as_deref());
    }
}

fn encode_selection(rows: &RowSelection, out: &mut Vec<u8>) {
    match rows {
        RowSelection::All => out.push(ROWS_ALL),
        RowSelection::None => out.push(ROWS_NONE),
        RowSelection::Points(points) => {
            out.push(ROWS_POINTS);
            push_length(out, points.len());
            points.iter().for_each(|clustering| push_counted(out, clustering));
        }
        RowSelection::Ranges(ranges) => {
            out.push(ROWS_RANGES);
            push_length(out, ranges.len());
            for range in ranges {
                push_counted(out, &range.start);
                push_optional(out, range.end.as_deref());
            }
        }
    }
}

/// Reads a request.
pub fn decode_read_request(bytes: Bytes) -> Decoded<ReadRequest> {
    whole(bytes, |decoder| {
        let bounds = bounds(decoder)?;
        Ok(ReadRequest { bounds, command: command(decoder)? })
    })
}

fn small(decoder: &mut Decoder) -> Decoded<u32> {
    u32::try_from(decoder.varint()?).map_err(|_| Malformed)
}

fn bounds(decoder: &mut Decoder) -> Decoded<PartBounds> {
    let (rows_max, bytes_max, time_ms_max) = (small(decoder)?, small(decoder)?, small(decoder)?);
    let partition_rows_max = match decoder.varint()?.checked_sub(1) {
        Some(rows) => Some(u32::try_from(rows).map_err(|_| Malformed)?),
        None => None,
    };
    Ok(PartBounds { rows_max, bytes_max, time_ms_max, partition_rows_max })
}

fn command(decoder: &mut Decoder) -> Decoded<ReadCommand> {
    let table = TableId(u128::from_be_bytes(decoder.array()?));
    let flags = decoder.byte()?;
    if flags & !ALL_FLAGS != 0 {
        return Err(Malformed);
    }
    let has = |flag: u8| flags & flag != 0;
    let statics = *STATICS.get(usize::from(decoder.byte()?)).ok_or(Malformed)?;
    let now_s = decoder.u32()?;
    let scope = if has(OF_RING) {
        ReadScope::Ring(ring_range(decoder)?)
    } else {
        ReadScope::Partition(partition_key(decoder)?)
    };
    let rows = selection(decoder)?;
    let index = if has(HAS_INDEX) {
        Some(IndexQuestion {
            index: TableId(u128::from_be_bytes(decoder.array()?)),
            value: decoder.counted()?,
            entry_value: decoder.optional()?,
        })
    } else {
        None
    };
    let count = decoder.length()?;
    let hidden = (0..count)
        .map(|_| Ok(HiddenCells { column: decoder.column()?, until_us: decoder.i64()? }))
        .collect::<Decoded<Vec<_>>>()?;
    let columns = if has(HAS_COLUMNS) {
        let count = decoder.length()?;
        Some((0..count).map(|_| decoder.column()).collect::<Decoded<Arc<[_]>>>()?)
    } else {
        None
    };
    let after = if has(HAS_AFTER) {
        Some(ReadPosition { key: partition_key(decoder)?, clustering: decoder.optional()? })
    } else {
        None
    };
    let reversed = has(REVERSED);
    Ok(ReadCommand { table, scope, rows, index, reversed, statics, hidden, columns, after, now_s })
}

/// The place on the ring is worked out again: nobody has to believe it.
pub(super) fn partition_key(decoder: &mut Decoder) -> Decoded<PartitionKey> {
    let bytes = decoder.counted()?;
    if bytes.len() > PartitionKey::BYTES_MAX {
        return Err(Malformed);
    }
    Ok(PartitionKey::new(bytes))
}

fn ring_range(decoder: &mut Decoder) -> Decoded<RingRange> {
    let start = RingToken(u128::from_be_bytes(decoder.array()?));
    let last = RingToken(u128::from_be_bytes(decoder.array()?));
    if start > last { Err(Malformed) } else { Ok(RingRange { start, last }) }
}

/// Storage searches points and ranges as sorted, each range with something in it; so they must be.
fn selection(decoder: &mut Decoder) -> Decoded<RowSelection> {
    match decoder.byte()? {
        ROWS_ALL => Ok(RowSelection::All),
        ROWS_NONE => Ok(RowSelection::None),
        ROWS_POINTS => {
            let count = decoder.length()?;
            let points = (0..count).map(|_| decoder.counted()).collect::<Decoded<SmallVec<_>>>()?;
            if points.is_sorted_by(|point, next| point < next) {
                Ok(RowSelection::Points(points))
            } else {
                Err(Malformed)
            }
        }
        ROWS_RANGES => {
            let count = decoder.length()?;
            let ranges = (0..count)
                .map(|_| {
                    Ok(ClusteringRange { start: decoder.counted()?, end: decoder.optional()? })
                })
                .collect::<Decoded<Vec<_>>>()?;
            let ends_before = |range: &ClusteringRange, next: &ClusteringRange| {
                range.end.as_ref().is_some_and(|end| *end <= next.start)
            };
            if ranges.is_sorted_by(ends_before) && !ranges.iter().any(ClusteringRange::is_empty) {
                Ok(RowSelection::Ranges(ranges))
            } else {
                Err(Malformed)
            }
        }
        _ => Err(Malformed),
    }
}
