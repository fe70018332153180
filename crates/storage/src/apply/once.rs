//! Requests that must not be applied twice: a coordinator that lost an answer asks again, perhaps another leader.
//!
//! What became of such a request is kept in the tree that it changed, so that both are in sorted files or neither is; that it was
//! applied is in memory alone until then (`tree/answers.rs`). A repeat gets the first answer. After its last second a request is refused, and only then is the answer forgotten.

use bytes::Bytes;
use types::codec::{Decoder, Malformed, push_counted, push_length, push_optional, push_varint};
use types::{CurrentRow, Done, Outcome, Refusal, RingToken, RowPosition, SetId};

use node_log::broken::{Rule, breaks};

use super::Place;
use crate::batch::Step;
use crate::entry::{Request, RequestId};
use crate::error::{CommitError, TreeError};
use crate::tree::answers::{ANSWER_BYTES, AppliedAnswer, Look, find_in_blocks};
use crate::tree::keys::{part_key, request_key, request_number};
use crate::tree::progress::SetProgress;
use crate::tree::store::OpenStore;
use tree::engine::{LATEST, TreeBytes};

/// What is known of the request that a mutation belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    id: Option<RequestId>,
    number: u32,
    not_after_s: u32,
    /// Of a part of a batch over several sets: where its key lies.
    part_at: Option<RingToken>,
}

/// The number of what a batch keeps beside its mutations.
const INTENT_NUMBER: u32 = u32::MAX;

/// Whether a mutation was answered before.
pub(crate) enum Known {
    New,
    Answered(Result<Done, CommitError>),
}

impl Asked {
    /// `number`: of the mutation within the request.
    pub(crate) fn new(request: &Request, number: usize) -> Asked {
        let not_after_s = request.not_after_s;
        let in_batch = |numbers: &[u32]| numbers.get(number).copied().unwrap_or(INTENT_NUMBER);
        let (id, number, part_at) = match request.step.as_deref() {
            Some(Step::Parts(parts)) => {
                let at = request.mutations.get(number).map(|mutation| mutation.key.ring());
                (Some(parts.batch), in_batch(&parts.numbers), at)
            }
            Some(Step::Intend(intent)) => (request.id, in_batch(&intent.here), None),
            _ => (request.id, u32::try_from(number).unwrap_or(u32::MAX), None),
        };
        Asked { id, number, not_after_s, part_at }
    }

    /// That a batch was decided.
    pub(crate) fn intent(request: &Request) -> Asked {
        let (id, not_after_s) = (request.id, request.not_after_s);
        Asked { id, number: INTENT_NUMBER, not_after_s, part_at: None }
    }

    fn key(&self, set: SetId, id: u128) -> Vec<u8> {
        match self.part_at {
            Some(ring) => part_key(ring, id, self.number),
            None => request_key(set, id, self.number).to_vec(),
        }
    }

    /// What became of the mutation before.
    pub(crate) fn known(
        &self,
        opened: &OpenStore,
        progress: &SetProgress,
        place: Place,
    ) -> Result<Known, TreeError> {
        if place.now_s > self.not_after_s && !breaks(Rule::ApplyLate) {
            return Ok(Known::Answered(Err(CommitError::TooLate)));
        }
        if breaks(Rule::ForgetRequests) {
            return Ok(Known::New);
        }
        if breaks(Rule::ForgetParts) && self.part_at.is_some() {
            return Ok(Known::New);
        }
        Ok(self.answer(opened, progress)?.map_or(Known::New, Known::Answered))
    }

    /// What became of the mutation in a set, if that is kept.
    pub(crate) fn answer(
        &self,
        opened: &OpenStore,
        progress: &SetProgress,
    ) -> Result<Option<Result<Done, CommitError>>, TreeError> {
        let Some(RequestId(id)) = self.id else { return Ok(None) };
        let applied = |weight| Ok(Done { outcome: Outcome::Applied, weight });
        let (set, mut is_in_block) = (progress.set(), false);
        // Parts of batches are named by others, and come in any order.
        if self.part_at.is_none() {
            let highest = || highest_of_namer(opened, set, id);
            match progress.answers().look(id, self.number, highest)? {
                Look::Nowhere => return Ok(None),
                Look::Applied { weight } => return Ok(Some(applied(weight))),
                Look::InTree { in_block } => is_in_block = in_block,
            }
        }
        let Some(bytes) = opened.tree.get(&self.key(set, id), LATEST)? else {
            if !is_in_block {
                return Ok(None);
            }
            let weight = find_in_blocks(opened.tree.as_ref(), set, id, self.number)?;
            return Ok(weight.map(applied));
        };
        let answer = decode_answer(Bytes::copy_from_slice(&bytes));
        let unreadable =
            |Malformed| TreeError::Corrupt("what became of a request is not readable".into());
        answer.map(Some).map_err(unreadable)
    }

    /// Keeps what became of it, in the same memtable as what it changed, or until that is frozen. Returns how much memory that takes.
    pub(crate) fn keep(
        &self,
        opened: &OpenStore,
        progress: &SetProgress,
        place: Place,
        result: &Result<Outcome, CommitError>,
        weight: u64,
    ) -> i64 {
        let Some(RequestId(id)) = self.id else { return 0 };
        let is_plain = self.part_at.is_none() && matches!(result, Ok(Outcome::Applied));
        let answer = AppliedAnswer::new(id, self.number, self.not_after_s, weight);
        if let Some(answer) = answer.filter(|_| is_plain) {
            progress.answers().keep(id, answer, place.now_s);
            opened.note_write(place.position, ANSWER_BYTES);
            return ANSWER_BYTES;
        }
        // A part is remembered until its batch's set says otherwise, never by time.
        let not_after_s = if self.part_at.is_some() { UNTIL_TOLD_S } else { self.not_after_s };
        let mut value = Vec::with_capacity(ANSWER_BYTES_MIN);
        value.extend_from_slice(&not_after_s.to_be_bytes());
        if !encode_answer(result, weight, &mut value) {
            return 0;
        }
        let key = self.key(place.set, id);
        if self.part_at.is_none() {
            progress.answers().note_in_tree(id);
        }
        let seqno = opened.tree.draw_seqno();
        let grown = opened.tree.insert(&key, TreeBytes::from(value), seqno).cast_signed();
        opened.note_write(place.position, grown);
        grown
    }
}

/// The highest number of a request with a kept answer, of those whose names begin as this one does: its coordinator's, since it runs.
fn highest_of_namer(opened: &OpenStore, set: SetId, id: u128) -> Result<Option<u64>, TreeError> {
    let first = id >> 64 << 64;
    let from = request_key(set, first, 0);
    let to = request_key(set, first | u128::from(u64::MAX), u32::MAX);
    let last = opened.tree.range(&from, &to, LATEST).next_back().transpose()?;
    Ok(last.and_then(|(key, _)| request_number(&key)))
}

/// The last second of a part that nobody said may be forgotten.
pub(crate) const UNTIL_TOLD_S: u32 = u32::MAX;

/// The last second of a kept answer.
pub(crate) fn not_after_s(value: &[u8]) -> Option<u32> {
    value.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// What an answer takes that says nothing but that it was applied.
const ANSWER_BYTES_MIN: usize = 4 + 1 + 10;
const APPLIED: u8 = 0;
const NOT_APPLIED: u8 = 1;
const REFUSED: u8 = 2;

/// Appends an answer; `false` if there is none, because the mutation could not be judged.
fn encode_answer(result: &Result<Outcome, CommitError>, weight: u64, out: &mut Vec<u8>) -> bool {
    match result {
        Ok(Outcome::Applied) => out.push(APPLIED),
        Ok(Outcome::NotApplied { rows }) => {
            out.push(NOT_APPLIED);
            push_length(out, rows.len());
            for row in rows {
                let clustering = match &row.position {
                    RowPosition::Static => None,
                    RowPosition::Clustered(clustering) => Some(clustering.as_ref()),
                };
                push_optional(out, clustering);
                push_optional(out, row.row.as_deref());
            }
        }
        Err(CommitError::Refused(refusal)) => {
            out.push(REFUSED);
            encode_refusal(refusal, out);
        }
        Err(_) => return false,
    }
    push_varint(out, weight);
    true
}

pub(crate) fn decode_answer(bytes: Bytes) -> Result<Result<Done, CommitError>, Malformed> {
    let mut decoder = Decoder::new(bytes);
    decoder.u32()?;
    let outcome = match decoder.byte()? {
        APPLIED => Ok(Outcome::Applied),
        NOT_APPLIED => {
            let mut rows = Vec::new();
            for _ in 0..decoder.length()? {
                let position = match decoder.optional()? {
                    None => RowPosition::Static,
                    Some(clustering) => RowPosition::Clustered(clustering),
                };
                let row = decoder.optional()?.map(|row| row.to_vec());
                rows.push(CurrentRow { position, row });
            }
            Ok(Outcome::NotApplied { rows })
        }
        REFUSED => Err(CommitError::Refused(decode_refusal(&mut decoder)?)),
        _ => return Err(Malformed),
    };
    let weight = decoder.varint()?;
    if !decoder.is_done() {
        return Err(Malformed);
    }
    Ok(outcome.map(|outcome| Done { outcome, weight }))
}

fn encode_refusal(refusal: &Refusal, out: &mut Vec<u8>) {
    match refusal {
        Refusal::ListIndexOutOfBounds { index, size } => {
            out.push(0);
            out.extend_from_slice(&index.to_be_bytes());
            push_length(out, *size);
        }
        Refusal::ListIsNull => out.push(1),
        Refusal::ListToDeleteFromIsNull => out.push(2),
        Refusal::Invalid(why) => {
            out.push(3);
            push_counted(out, why.as_bytes());
        }
    }
}

fn decode_refusal(decoder: &mut Decoder) -> Result<Refusal, Malformed> {
    Ok(match decoder.byte()? {
        0 => {
            let index = i32::from_be_bytes(decoder.array()?);
            let size = usize::try_from(decoder.varint()?).map_err(|_| Malformed)?;
            Refusal::ListIndexOutOfBounds { index, size }
        }
        1 => Refusal::ListIsNull,
        2 => Refusal::ListToDeleteFromIsNull,
        3 => {
            let why = decoder.counted()?;
            Refusal::Invalid(std::str::from_utf8(&why).map_err(|_| Malformed)?.to_owned())
        }
        _ => return Err(Malformed),
    })
}
