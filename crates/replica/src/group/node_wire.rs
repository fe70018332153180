//! What one node says to another as bytes (see `docs/formats/mesh.md`). Whole messages only: how they are framed, and who may send
//! them, is known to the mesh.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use storage::{CommitError, CommitResult, TreeError};
use types::codec::{Decoder, Malformed, push_length, push_varint};
use types::travel::{
    CommitAnswer, Fault, decode_commit_answer, decode_fault, encode_commit_answer, encode_fault,
};
use types::{NodeId, ReplicaId, RingToken, SetId};

use super::host::{BEATS_MAX, NodeMessage, ProposalAnswer, Start};
use super::load::{BudgetMessage, TrafficMessage};
use super::reads::{Looked, RowsAnswer};
use super::rests::Beat;
use super::transfer::TransferMessage;
use super::wire::PeerMessage;
use crate::witness::TraceContext;

/// The first byte of a message; another one is malformed until it is known.
const VERSION: u8 = 1;

const KIND_CONSENSUS: u8 = 1;
const KIND_REQUEST: u8 = 2;
const KIND_ANSWER: u8 = 3;
const KIND_PING: u8 = 4;
const KIND_STANDING: u8 = 5;
const KIND_REFUSED: u8 = 6;
const KIND_GONE: u8 = 7;
const KIND_STILL_MEMBER: u8 = 8;
/// Of a version that summed otherwise, and did not say so.
const KIND_FIRST_SUM: u8 = 9;
const KIND_DIFFERS: u8 = 10;
const KIND_TRANSFER: u8 = 11;
const KIND_WHO_IS: u8 = 12;
const KIND_ORIGIN: u8 = 13;
const KIND_BEATS: u8 = 14;
const KIND_BEATS_HEARD: u8 = 15;
const KIND_BUDGETS: u8 = 16;
const KIND_TRAFFIC: u8 = 17;
const KIND_READ: u8 = 18;
const KIND_ROWS: u8 = 19;
const KIND_NOTE: u8 = 20;
const KIND_RELAY: u8 = 21;
pub(super) const KIND_LOOK: u8 = 22;
pub(super) const KIND_SUM: u8 = 23;
pub(super) const KIND_TRACED: u8 = 24;
pub(super) const KIND_STANDING_OF_START: u8 = 25;

/// The last kind of message that this version knows. Nodes tell each other when they connect (see `docs/formats/mesh.md`); one that is not known
/// to the other is not sent, and one that is not known here is passed over.
pub const KINDS_KNOWN: u8 = KIND_STANDING_OF_START;
/// What nodes know that tell nothing of it: what there was before they did. Some of them know notes, too; those send some.
pub const KINDS_FIRST: u8 = KIND_ROWS;

const ROWS_PART: u8 = 0;
const ROWS_FAILED: u8 = 1;
const ROWS_NOT_HERE: u8 = 2;
const ROWS_LEADER: u8 = 3;
const ROWS_BUSY: u8 = 4;
const ROWS_MOVED: u8 = 5;
const ROWS_LOOKED: u8 = 6;
const ROWS_LOOK_REFUSED: u8 = 7;

const ANSWER_DONE: u8 = 0;
const ANSWER_LEADER_UNKNOWN: u8 = 1;
const ANSWER_LEADER: u8 = 2;
const ANSWER_LOST: u8 = 3;
const ANSWER_BUSY: u8 = 4;
const ANSWER_MOVED: u8 = 5;

impl NodeMessage {
    /// The number of its kind.
    pub fn kind(&self) -> u8 {
        match self {
            NodeMessage::Consensus(_) => KIND_CONSENSUS,
            NodeMessage::Request { .. } => KIND_REQUEST,
            NodeMessage::Answer { .. } => KIND_ANSWER,
            NodeMessage::Ping { .. } => KIND_PING,
            NodeMessage::Standing { start: None, .. } => KIND_STANDING,
            NodeMessage::Standing { start: Some(_), .. } => KIND_STANDING_OF_START,
            NodeMessage::Refused { .. } => KIND_REFUSED,
            NodeMessage::Gone { .. } => KIND_GONE,
            NodeMessage::StillMember { .. } => KIND_STILL_MEMBER,
            NodeMessage::Sum { .. } => KIND_SUM,
            NodeMessage::Differs { .. } => KIND_DIFFERS,
            NodeMessage::Transfer(_) => KIND_TRANSFER,
            NodeMessage::WhoIs { .. } => KIND_WHO_IS,
            NodeMessage::Origin { .. } => KIND_ORIGIN,
            NodeMessage::Beats { are_answers: false, .. } => KIND_BEATS,
            NodeMessage::Beats { are_answers: true, .. } => KIND_BEATS_HEARD,
            NodeMessage::Budgets(_) => KIND_BUDGETS,
            NodeMessage::Traffic(_) => KIND_TRAFFIC,
            NodeMessage::Read { .. } => KIND_READ,
            NodeMessage::Rows { .. } => KIND_ROWS,
            NodeMessage::Note(_) => KIND_NOTE,
            NodeMessage::Relay { .. } => KIND_RELAY,
            NodeMessage::Look { .. } => KIND_LOOK,
            NodeMessage::Traced { .. } => KIND_TRACED,
        }
    }

    /// Whether bytes are a message of a kind that a later version knows.
    pub fn is_later(bytes: &[u8]) -> bool {
        matches!(bytes, [VERSION, kind, ..] if *kind > KINDS_KNOWN)
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        match self {
            NodeMessage::Consensus(message) => {
                out.push(KIND_CONSENSUS);
                message.encode(out);
            }
            NodeMessage::Beats { beats, are_answers } => {
                out.push(if *are_answers { KIND_BEATS_HEARD } else { KIND_BEATS });
                encode_beats(beats, out);
            }
            NodeMessage::Request { number, set, body } => {
                encode_numbered(KIND_REQUEST, *number, *set, out);
                out.extend_from_slice(body);
            }
            NodeMessage::Answer { number, answer } => {
                out.push(KIND_ANSWER);
                out.extend_from_slice(&number.to_be_bytes());
                encode_answer(answer, out);
            }
            NodeMessage::Ping { clock_us, shown } => {
                out.push(KIND_PING);
                out.extend_from_slice(&clock_us.to_be_bytes());
                out.extend_from_slice(&shown.to_be_bytes());
            }
            NodeMessage::Standing { synced, start } => {
                out.push(self.kind());
                encode_standing(*synced, *start, out);
            }
            NodeMessage::Refused { synced } => {
                out.push(KIND_REFUSED);
                out.extend_from_slice(&synced.to_be_bytes());
            }
            NodeMessage::Gone { set, replica } => encode_member(KIND_GONE, *set, *replica, out),
            NodeMessage::StillMember { set, replica } => {
                encode_member(KIND_STILL_MEMBER, *set, *replica, out);
            }
            NodeMessage::Sum { set, replica, version, index, sum } => {
                encode_member(KIND_SUM, *set, *replica, out);
                out.push(*version);
                out.extend_from_slice(&index.to_be_bytes());
                out.extend_from_slice(&sum.to_be_bytes());
            }
            NodeMessage::Differs { set, replica, index } => {
                encode_member(KIND_DIFFERS, *set, *replica, out);
                out.extend_from_slice(&index.to_be_bytes());
            }
            NodeMessage::Transfer(message) => {
                out.push(KIND_TRANSFER);
                message.encode(out);
            }
            NodeMessage::WhoIs { set } => {
                out.push(KIND_WHO_IS);
                out.extend_from_slice(&set.0.to_be_bytes());
            }
            NodeMessage::Origin { set, split_from } => {
                out.push(KIND_ORIGIN);
                out.extend_from_slice(&set.0.to_be_bytes());
                if let Some((left, index)) = split_from {
                    out.extend_from_slice(&left.0.to_be_bytes());
                    out.extend_from_slice(&index.to_be_bytes());
                }
            }
            NodeMessage::Budgets(message) => {
                out.push(KIND_BUDGETS);
                message.encode(out);
            }
            NodeMessage::Traffic(message) => {
                out.push(KIND_TRAFFIC);
                message.encode(out);
            }
            NodeMessage::Relay { number, set, body } => {
                encode_numbered(KIND_RELAY, *number, *set, out);
                out.extend_from_slice(body);
            }
            NodeMessage::Note(note) => {
                out.push(KIND_NOTE);
                out.extend_from_slice(note);
            }
            NodeMessage::Read { number, set, is_strong, body } => {
                encode_numbered(KIND_READ, *number, *set, out);
                out.push(u8::from(*is_strong));
                out.extend_from_slice(body);
            }
            NodeMessage::Look { number, set, rings: (first, last), body } => {
                encode_numbered(KIND_LOOK, *number, *set, out);
                out.extend_from_slice(&first.0.to_be_bytes());
                out.extend_from_slice(&last.0.to_be_bytes());
                out.extend_from_slice(body);
            }
            NodeMessage::Traced { number, is_read, context } => {
                encode_traced(*number, *is_read, *context, out);
            }
            NodeMessage::Rows { number, answer } => {
                out.push(KIND_ROWS);
                out.extend_from_slice(&number.to_be_bytes());
                encode_rows(answer, out);
            }
        }
    }

    /// Reads one message; all of the bytes are its, and what it holds are slices of them. The body of a request is looked at by
    /// whoever takes it.
    pub fn decode(bytes: Bytes) -> Result<NodeMessage, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.byte()? != VERSION {
            return Err(Malformed);
        }
        match decoder.byte()? {
            KIND_CONSENSUS => PeerMessage::decode(decoder.rest()).map(NodeMessage::Consensus),
            KIND_REQUEST => {
                let number = u64::from_be_bytes(decoder.array()?);
                let set = SetId(decoder.u32()?);
                Ok(NodeMessage::Request { number, set, body: decoder.rest() })
            }
            KIND_ANSWER => {
                let number = u64::from_be_bytes(decoder.array()?);
                Ok(NodeMessage::Answer { number, answer: decode_answer(decoder)? })
            }
            KIND_PING => {
                let clock_us = i64::from_be_bytes(decoder.array()?);
                let shown = u64::from_be_bytes(decoder.array()?);
                let ping = NodeMessage::Ping { clock_us, shown };
                if decoder.is_done() { Ok(ping) } else { Err(Malformed) }
            }
            kind @ (KIND_BEATS | KIND_BEATS_HEARD) => {
                let are_answers = kind == KIND_BEATS_HEARD;
                Ok(NodeMessage::Beats { beats: decode_beats(decoder)?, are_answers })
            }
            KIND_TRANSFER => TransferMessage::decode(decoder.rest()).map(NodeMessage::Transfer),
            kind @ (KIND_WHO_IS | KIND_ORIGIN) => decode_about_origin(kind, decoder),
            KIND_BUDGETS => BudgetMessage::decode(decoder.rest()).map(NodeMessage::Budgets),
            KIND_TRAFFIC => TrafficMessage::decode(decoder.rest()).map(NodeMessage::Traffic),
            KIND_NOTE => Ok(NodeMessage::Note(decoder.rest())),
            KIND_RELAY => {
                let number = u64::from_be_bytes(decoder.array()?);
                let set = SetId(decoder.u32()?);
                Ok(NodeMessage::Relay { number, set, body: decoder.rest() })
            }
            KIND_READ => {
                let number = u64::from_be_bytes(decoder.array()?);
                let set = SetId(decoder.u32()?);
                let is_strong = decode_flag(&mut decoder)?;
                Ok(NodeMessage::Read { number, set, is_strong, body: decoder.rest() })
            }
            KIND_LOOK => {
                let number = u64::from_be_bytes(decoder.array()?);
                let set = SetId(decoder.u32()?);
                let mut ring = || decoder.array().map(u128::from_be_bytes).map(RingToken);
                let rings = (ring()?, ring()?);
                Ok(NodeMessage::Look { number, set, rings, body: decoder.rest() })
            }
            KIND_TRACED => decode_traced(decoder),
            KIND_ROWS => {
                let number = u64::from_be_bytes(decoder.array()?);
                Ok(NodeMessage::Rows { number, answer: decode_rows(decoder)? })
            }
            kind => decode_about_members(kind, decoder),
        }
    }
}

fn encode_beats(beats: &[Beat], out: &mut Vec<u8>) {
    push_length(out, beats.len());
    for beat in beats {
        push_varint(out, u64::from(beat.set.0));
        let numbers = [beat.to.0, beat.from.0, beat.term, beat.commit];
        numbers.into_iter().for_each(|number| push_varint(out, number));
    }
}

fn decode_beats(mut decoder: Decoder) -> Result<Vec<Beat>, Malformed> {
    let count = decoder.length()?;
    if count > BEATS_MAX {
        return Err(Malformed);
    }
    let mut beats = Vec::with_capacity(count);
    for _ in 0..count {
        beats.push(Beat {
            set: SetId(u32::try_from(decoder.varint()?).map_err(|_| Malformed)?),
            to: ReplicaId(decoder.varint()?),
            from: ReplicaId(decoder.varint()?),
            term: decoder.varint()?,
            commit: decoder.varint()?,
        });
    }
    if decoder.is_done() { Ok(beats) } else { Err(Malformed) }
}

fn encode_traced(number: u64, is_read: bool, context: TraceContext, out: &mut Vec<u8>) {
    out.push(KIND_TRACED);
    out.extend_from_slice(&number.to_be_bytes());
    out.push(u8::from(is_read));
    out.extend_from_slice(&context.trace.to_be_bytes());
    out.extend_from_slice(&context.span.to_be_bytes());
}

fn decode_flag(decoder: &mut Decoder) -> Result<bool, Malformed> {
    match decoder.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn decode_traced(mut decoder: Decoder) -> Result<NodeMessage, Malformed> {
    let number = u64::from_be_bytes(decoder.array()?);
    let is_read = decode_flag(&mut decoder)?;
    let context = TraceContext {
        trace: u128::from_be_bytes(decoder.array()?),
        span: u64::from_be_bytes(decoder.array()?),
    };
    let message = NodeMessage::Traced { number, is_read, context };
    if decoder.is_done() { Ok(message) } else { Err(Malformed) }
}

fn encode_numbered(kind: u8, number: u64, set: SetId, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&set.0.to_be_bytes());
}

fn encode_standing(synced: u64, start: Option<Start>, out: &mut Vec<u8>) {
    out.extend_from_slice(&synced.to_be_bytes());
    if let Some(Start { run, opened }) = start {
        out.extend_from_slice(&run.to_be_bytes());
        out.extend_from_slice(&opened.to_be_bytes());
    }
}

fn encode_member(kind: u8, set: SetId, replica: ReplicaId, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&set.0.to_be_bytes());
    out.extend_from_slice(&replica.0.to_be_bytes());
}

/// What is asked and said of where a set comes from.
fn decode_about_origin(kind: u8, mut decoder: Decoder) -> Result<NodeMessage, Malformed> {
    let set = SetId(decoder.u32()?);
    let message = match kind {
        KIND_WHO_IS => NodeMessage::WhoIs { set },
        _ if decoder.is_done() => NodeMessage::Origin { set, split_from: None },
        _ => {
            let left = SetId(decoder.u32()?);
            let split_from = Some((left, u64::from_be_bytes(decoder.array()?)));
            NodeMessage::Origin { set, split_from }
        }
    };
    if decoder.is_done() { Ok(message) } else { Err(Malformed) }
}

/// What is said of logs and members.
fn decode_about_members(kind: u8, mut decoder: Decoder) -> Result<NodeMessage, Malformed> {
    let number = |decoder: &mut Decoder| decoder.array().map(u64::from_be_bytes);
    let message = match kind {
        KIND_STANDING => NodeMessage::Standing { synced: number(&mut decoder)?, start: None },
        KIND_STANDING_OF_START => {
            let synced = number(&mut decoder)?;
            let (run, opened) = (number(&mut decoder)?, number(&mut decoder)?);
            NodeMessage::Standing { synced, start: Some(Start { run, opened }) }
        }
        KIND_REFUSED => NodeMessage::Refused { synced: number(&mut decoder)? },
        KIND_GONE | KIND_STILL_MEMBER | KIND_FIRST_SUM | KIND_SUM | KIND_DIFFERS => {
            let set = SetId(decoder.u32()?);
            let replica = ReplicaId(number(&mut decoder)?);
            match kind {
                KIND_GONE => NodeMessage::Gone { set, replica },
                KIND_STILL_MEMBER => NodeMessage::StillMember { set, replica },
                KIND_DIFFERS => NodeMessage::Differs { set, replica, index: number(&mut decoder)? },
                _ => {
                    let version = if kind == KIND_SUM { decoder.byte()? } else { 0 };
                    let (index, sum) = (number(&mut decoder)?, number(&mut decoder)?);
                    NodeMessage::Sum { set, replica, version, index, sum }
                }
            }
        }
        _ => return Err(Malformed),
    };
    if decoder.is_done() { Ok(message) } else { Err(Malformed) }
}

fn encode_answer(answer: &ProposalAnswer, out: &mut Vec<u8>) {
    match answer {
        ProposalAnswer::Done(result) => {
            out.push(ANSWER_DONE);
            encode_commit_answer(&to_travel(result), out);
        }
        ProposalAnswer::NotLeader(None) => out.push(ANSWER_LEADER_UNKNOWN),
        ProposalAnswer::NotLeader(Some(leader)) => {
            out.push(ANSWER_LEADER);
            out.extend_from_slice(&leader.0.to_be_bytes());
        }
        ProposalAnswer::Lost => out.push(ANSWER_LOST),
        ProposalAnswer::Busy => out.push(ANSWER_BUSY),
        ProposalAnswer::Moved(set) => {
            out.push(ANSWER_MOVED);
            out.extend_from_slice(&set.0.to_be_bytes());
        }
    }
}

fn decode_answer(mut decoder: Decoder) -> Result<ProposalAnswer, Malformed> {
    let answer = match decoder.byte()? {
        ANSWER_DONE => {
            let answer = decode_commit_answer(decoder.rest())?;
            return Ok(ProposalAnswer::Done(answer.map_err(from_fault)));
        }
        ANSWER_LEADER_UNKNOWN => ProposalAnswer::NotLeader(None),
        ANSWER_LEADER => {
            ProposalAnswer::NotLeader(Some(NodeId(u64::from_be_bytes(decoder.array()?))))
        }
        ANSWER_LOST => ProposalAnswer::Lost,
        ANSWER_BUSY => ProposalAnswer::Busy,
        ANSWER_MOVED => ProposalAnswer::Moved(SetId(decoder.u32()?)),
        _ => return Err(Malformed),
    };
    if decoder.is_done() { Ok(answer) } else { Err(Malformed) }
}

fn encode_rows(answer: &RowsAnswer, out: &mut Vec<u8>) {
    match answer {
        RowsAnswer::Part(part) => {
            out.push(ROWS_PART);
            out.extend_from_slice(part);
        }
        RowsAnswer::Failed(fault) => {
            out.push(ROWS_FAILED);
            encode_fault(fault, out);
        }
        RowsAnswer::NotHere(None) => out.push(ROWS_NOT_HERE),
        RowsAnswer::NotHere(Some(leader)) => {
            out.push(ROWS_LEADER);
            out.extend_from_slice(&leader.0.to_be_bytes());
        }
        RowsAnswer::Busy => out.push(ROWS_BUSY),
        RowsAnswer::Moved => out.push(ROWS_MOVED),
        RowsAnswer::Looked(Looked { last_us, refused }) => {
            out.push(if refused.is_some() { ROWS_LOOK_REFUSED } else { ROWS_LOOKED });
            out.extend_from_slice(&last_us.to_be_bytes());
            refused.iter().for_each(|fault| encode_fault(fault, out));
        }
    }
}

fn decode_rows(mut decoder: Decoder) -> Result<RowsAnswer, Malformed> {
    let answer = match decoder.byte()? {
        ROWS_PART => return Ok(RowsAnswer::Part(decoder.rest())),
        ROWS_FAILED => return decode_fault(decoder.rest()).map(RowsAnswer::Failed),
        ROWS_NOT_HERE => RowsAnswer::NotHere(None),
        ROWS_LEADER => RowsAnswer::NotHere(Some(NodeId(u64::from_be_bytes(decoder.array()?)))),
        ROWS_BUSY => RowsAnswer::Busy,
        ROWS_MOVED => RowsAnswer::Moved,
        ROWS_LOOKED => {
            let last_us = i64::from_be_bytes(decoder.array()?);
            RowsAnswer::Looked(Looked { last_us, refused: None })
        }
        ROWS_LOOK_REFUSED => {
            let last_us = i64::from_be_bytes(decoder.array()?);
            let refused = Some(decode_fault(decoder.rest())?);
            return Ok(RowsAnswer::Looked(Looked { last_us, refused }));
        }
        _ => return Err(Malformed),
    };
    if decoder.is_done() { Ok(answer) } else { Err(Malformed) }
}

/// Outcomes are copied: they are small, but for the rows of a condition that did not hold.
fn to_travel(result: &CommitResult) -> CommitAnswer {
    match result {
        Ok(done) => Ok(done.clone()),
        Err(error) => Err(to_fault(error)),
    }
}

pub(super) fn to_fault(error: &CommitError) -> Fault {
    match error {
        CommitError::Refused(refusal) => Fault::Refused(refusal.clone()),
        CommitError::TooLarge { bytes, bytes_max } => {
            Fault::TooLarge { bytes: *bytes as u64, bytes_max: *bytes_max as u64 }
        }
        CommitError::ClusteringTooLong { bytes, bytes_max } => {
            Fault::ClusteringTooLong { bytes: *bytes as u64, bytes_max: *bytes_max as u64 }
        }
        CommitError::DiskFull => Fault::DiskFull,
        CommitError::CannotWriteNow(why) => Fault::CannotWriteNow(why.to_string()),
        CommitError::LogFailed(why) => Fault::LogFailed(why.to_string()),
        CommitError::Tree { table, error: TreeError::Io(error) } => {
            Fault::Io { table: *table, what: error.to_string() }
        }
        CommitError::Tree { table, error: TreeError::Corrupt(what) } => {
            Fault::Damaged { table: *table, what: what.to_string() }
        }
        CommitError::Overloaded => Fault::Overloaded,
        CommitError::Moved => Fault::Moved,
        CommitError::Stale => Fault::Stale,
        CommitError::TooLate => Fault::TooLate,
        CommitError::Closed => Fault::Closed,
        // What a coordinator says, and no leader.
        CommitError::Unavailable { .. } | CommitError::TimedOut => {
            Fault::CannotWriteNow(error.to_string())
        }
    }
}

/// The coordinator gets what its own storage would have said, to the letter.
pub(super) fn from_fault(fault: Fault) -> CommitError {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    match fault {
        Fault::Refused(refusal) => CommitError::Refused(refusal),
        Fault::TooLarge { bytes, bytes_max } => {
            CommitError::TooLarge { bytes: size(bytes), bytes_max: size(bytes_max) }
        }
        Fault::ClusteringTooLong { bytes, bytes_max } => {
            CommitError::ClusteringTooLong { bytes: size(bytes), bytes_max: size(bytes_max) }
        }
        Fault::DiskFull => CommitError::DiskFull,
        Fault::CannotWriteNow(why) => CommitError::CannotWriteNow(why.into()),
        Fault::LogFailed(why) => CommitError::LogFailed(why.into()),
        Fault::Damaged { table, what } => {
            CommitError::Tree { table, error: TreeError::Corrupt(what.into()) }
        }
        Fault::Io { table, what } => {
            CommitError::Tree { table, error: TreeError::Io(Arc::new(io::Error::other(what))) }
        }
        Fault::Overloaded => CommitError::Overloaded,
        Fault::Moved => CommitError::Moved,
        Fault::Stale => CommitError::Stale,
        Fault::TooLate => CommitError::TooLate,
        Fault::Closed => CommitError::Closed,
    }
}
