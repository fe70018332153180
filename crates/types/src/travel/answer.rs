//! What becomes of a commit or a read on another node.

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Decoded, VERSION, whole};
use crate::codec::{Decoder, Malformed, push_counted, push_length, push_optional, push_varint};
use crate::{CurrentRow, Done, Outcome, Refusal, RowPosition, TableId};

const ANSWER_DONE: u8 = 0;
const ANSWER_FAULT: u8 = 1;

const OUTCOME_APPLIED: u8 = 0;
const OUTCOME_NOT_APPLIED: u8 = 1;

const ROW_STATIC: u8 = 0;
const ROW_CLUSTERED: u8 = 1;

const FAULT_REFUSED: u8 = 1;
const FAULT_TOO_LARGE: u8 = 2;
const FAULT_CLUSTERING_TOO_LONG: u8 = 3;
const FAULT_DISK_FULL: u8 = 4;
const FAULT_CANNOT_WRITE_NOW: u8 = 5;
const FAULT_LOG_FAILED: u8 = 6;
const FAULT_DAMAGED: u8 = 7;
const FAULT_IO: u8 = 8;
const FAULT_OVERLOADED: u8 = 9;
const FAULT_MOVED: u8 = 10;
const FAULT_STALE: u8 = 11;
const FAULT_CLOSED: u8 = 12;
const FAULT_TOO_LATE: u8 = 13;

const REFUSAL_LIST_INDEX: u8 = 1;
const REFUSAL_LIST_IS_NULL: u8 = 2;
const REFUSAL_LIST_TO_DELETE_FROM: u8 = 3;
const REFUSAL_INVALID: u8 = 4;

/// What became of each mutation of a commit, in order; or why nothing was done.
pub type CommitAnswer = Result<SmallVec<[Done; 1]>, Fault>;

/// Why another node did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A mutation cannot be applied to the row as it is: an answer, the same on every replica.
    Refused(Refusal),
    /// More bytes than one change may have.
    TooLarge {
        /// How many it has.
        bytes: u64,
        /// How many it may have.
        bytes_max: u64,
    },
    /// A clustering key longer than storage keeps.
    ClusteringTooLong {
        /// How many bytes it takes.
        bytes: u64,
        /// How many it may take.
        bytes_max: u64,
    },
    /// Its disk is full.
    DiskFull,
    /// It is short of something else; why, in words.
    CannotWriteNow(String),
    /// Its log could not be written; why, in words.
    LogFailed(String),
    /// What it has stored is not what was written.
    Damaged {
        /// In which table.
        table: TableId,
        /// What was seen.
        what: String,
    },
    /// Its operating system refused.
    Io {
        /// A file of which table.
        table: TableId,
        /// Why.
        what: String,
    },
    /// Its disk is behind; later it may work.
    Overloaded,
    /// The replica set does not hold that key any more; whoever asks locates it again.
    Moved,
    /// The mutation was planned by a definition that is not in force any more; it is to be planned again.
    Stale,
    /// It is being stopped.
    Closed,
    /// It was judged after its last second; nothing was done, nor will be.
    TooLate,
}

/// Appends the answer to a commit.
pub fn encode_commit_answer(answer: &CommitAnswer, out: &mut Vec<u8>) {
    out.push(VERSION);
    match answer {
        Ok(all_done) => {
            out.push(ANSWER_DONE);
            push_length(out, all_done.len());
            all_done.iter().for_each(|done| push_done(done, out));
        }
        Err(fault) => {
            out.push(ANSWER_FAULT);
            push_fault(fault, out);
        }
    }
}

/// Reads the answer to a commit.
pub fn decode_commit_answer(bytes: Bytes) -> Decoded<CommitAnswer> {
    whole(bytes, |decoder| match decoder.byte()? {
        ANSWER_DONE => {
            let count = decoder.length()?;
            Ok(Ok((0..count).map(|_| done(decoder)).collect::<Decoded<SmallVec<_>>>()?))
        }
        ANSWER_FAULT => Ok(Err(fault(decoder)?)),
        _ => Err(Malformed),
    })
}

/// Appends a fault, as the answer to a read.
pub fn encode_fault(fault: &Fault, out: &mut Vec<u8>) {
    out.push(VERSION);
    push_fault(fault, out);
}

/// Reads a fault.
pub fn decode_fault(bytes: Bytes) -> Decoded<Fault> {
    whole(bytes, fault)
}

fn push_done(done: &Done, out: &mut Vec<u8>) {
    match &done.outcome {
        Outcome::Applied => {
            out.push(OUTCOME_APPLIED);
            push_varint(out, done.weight);
        }
        Outcome::NotApplied { rows } => {
            out.push(OUTCOME_NOT_APPLIED);
            push_varint(out, done.weight);
            push_length(out, rows.len());
            for row in rows {
                match &row.position {
                    RowPosition::Static => out.push(ROW_STATIC),
                    RowPosition::Clustered(clustering) => {
                        out.push(ROW_CLUSTERED);
                        push_counted(out, clustering);
                    }
                }
                push_optional(out, row.row.as_deref());
            }
        }
    }
}

fn done(decoder: &mut Decoder) -> Decoded<Done> {
    let kind = decoder.byte()?;
    let weight = decoder.varint()?;
    let outcome = match kind {
        OUTCOME_APPLIED => Outcome::Applied,
        OUTCOME_NOT_APPLIED => {
            let count = decoder.length()?;
            let rows = (0..count).map(|_| current_row(decoder)).collect::<Decoded<Vec<_>>>()?;
            Outcome::NotApplied { rows }
        }
        _ => return Err(Malformed),
    };
    Ok(Done { outcome, weight })
}

fn current_row(decoder: &mut Decoder) -> Decoded<CurrentRow> {
    let position = match decoder.byte()? {
        ROW_STATIC => RowPosition::Static,
        ROW_CLUSTERED => RowPosition::Clustered(decoder.counted()?),
        _ => return Err(Malformed),
    };
    Ok(CurrentRow { position, row: decoder.optional()?.map(Vec::from) })
}

fn push_fault(fault: &Fault, out: &mut Vec<u8>) {
    match fault {
        Fault::Refused(refusal) => {
            out.push(FAULT_REFUSED);
            push_refusal(refusal, out);
        }
        Fault::TooLarge { bytes, bytes_max } => {
            out.push(FAULT_TOO_LARGE);
            push_varint(out, *bytes);
            push_varint(out, *bytes_max);
        }
        Fault::ClusteringTooLong { bytes, bytes_max } => {
            out.push(FAULT_CLUSTERING_TOO_LONG);
            push_varint(out, *bytes);
            push_varint(out, *bytes_max);
        }
        Fault::DiskFull => out.push(FAULT_DISK_FULL),
        Fault::CannotWriteNow(why) => {
            out.push(FAULT_CANNOT_WRITE_NOW);
            push_counted(out, why.as_bytes());
        }
        Fault::LogFailed(why) => {
            out.push(FAULT_LOG_FAILED);
            push_counted(out, why.as_bytes());
        }
        Fault::Damaged { table, what } => {
            out.push(FAULT_DAMAGED);
            out.extend_from_slice(&table.0.to_be_bytes());
            push_counted(out, what.as_bytes());
        }
        Fault::Io { table, what } => {
            out.push(FAULT_IO);
            out.extend_from_slice(&table.0.to_be_bytes());
            push_counted(out, what.as_bytes());
        }
        Fault::Overloaded => out.push(FAULT_OVERLOADED),
        Fault::Moved => out.push(FAULT_MOVED),
        Fault::Stale => out.push(FAULT_STALE),
        Fault::Closed => out.push(FAULT_CLOSED),
        Fault::TooLate => out.push(FAULT_TOO_LATE),
    }
}

fn fault(decoder: &mut Decoder) -> Decoded<Fault> {
    Ok(match decoder.byte()? {
        FAULT_REFUSED => Fault::Refused(refusal(decoder)?),
        FAULT_TOO_LARGE => {
            Fault::TooLarge { bytes: decoder.varint()?, bytes_max: decoder.varint()? }
        }
        FAULT_CLUSTERING_TOO_LONG => {
            Fault::ClusteringTooLong { bytes: decoder.varint()?, bytes_max: decoder.varint()? }
        }
        FAULT_DISK_FULL => Fault::DiskFull,
        FAULT_CANNOT_WRITE_NOW => Fault::CannotWriteNow(text(decoder)?),
        FAULT_LOG_FAILED => Fault::LogFailed(text(decoder)?),
        FAULT_DAMAGED => Fault::Damaged { table: table(decoder)?, what: text(decoder)? },
        FAULT_IO => Fault::Io { table: table(decoder)?, what: text(decoder)? },
        FAULT_OVERLOADED => Fault::Overloaded,
        FAULT_MOVED => Fault::Moved,
        FAULT_STALE => Fault::Stale,
        FAULT_CLOSED => Fault::Closed,
        FAULT_TOO_LATE => Fault::TooLate,
        _ => return Err(Malformed),
    })
}

fn push_refusal(refusal: &Refusal, out: &mut Vec<u8>) {
    match refusal {
        Refusal::ListIndexOutOfBounds { index, size } => {
            out.push(REFUSAL_LIST_INDEX);
            out.extend_from_slice(&index.to_be_bytes());
            push_varint(out, *size as u64);
        }
        Refusal::ListIsNull => out.push(REFUSAL_LIST_IS_NULL),
        Refusal::ListToDeleteFromIsNull => out.push(REFUSAL_LIST_TO_DELETE_FROM),
        Refusal::Invalid(reason) => {
            out.push(REFUSAL_INVALID);
            push_counted(out, reason.as_bytes());
        }
    }
}

fn refusal(decoder: &mut Decoder) -> Decoded<Refusal> {
    Ok(match decoder.byte()? {
        REFUSAL_LIST_INDEX => Refusal::ListIndexOutOfBounds {
            index: decoder.i32()?,
            size: usize::try_from(decoder.varint()?).map_err(|_| Malformed)?,
        },
        REFUSAL_LIST_IS_NULL => Refusal::ListIsNull,
        REFUSAL_LIST_TO_DELETE_FROM => Refusal::ListToDeleteFromIsNull,
        REFUSAL_INVALID => Refusal::Invalid(text(decoder)?),
        _ => return Err(Malformed),
    })
}

fn table(decoder: &mut Decoder) -> Decoded<TableId> {
    decoder.array().map(|bytes| TableId(u128::from_be_bytes(bytes)))
}

fn text(decoder: &mut Decoder) -> Decoded<String> {
    String::from_utf8(decoder.counted()?.to_vec()).map_err(|_| Malformed)
}
