//! What became of named requests, while it says nothing but that they were applied: most of all that is kept of requests.
//!
//! Such answers stay in memory until the memtable that holds what they changed is frozen, and are written into that one then, many
//! in a *block*; those that nobody can ask for any more are not written at all. A log that is replayed makes the others again: it is
//! replayed from where the sorted files end. A key of its own for each took a third of the time of applying a write.

use bytes::Bytes;
use types::SetId;
use types::codec::{Decoder, Malformed, push_varint};

use super::keys::{REQUEST_KEY_BYTES, request_key};
use crate::error::TreeError;
use node_log::broken::{Rule, breaks};
use tree::engine::{LATEST, SeqNo, SortedTree, TreeBytes};

/// So many who name requests are remembered, and those of whom something is in memory: one for each start of each node.
const NAMERS_MAX: usize = 64;
/// A block has at most so many answers: who looks for one reads all of it.
const ANSWERS_PER_BLOCK: usize = 1024;
/// In the number of a key: the value is a block that ends with this mutation. No request has so many mutations.
const BLOCK_BIT: u32 = 1 << 31;
/// In the place of an outcome: a block.
const BLOCK: u8 = 3;

/// That a mutation of a request was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppliedAnswer {
    /// The number that whoever named the request gave it.
    request: u64,
    mutation: u32,
    not_after_s: u32,
    weight: u64,
}

/// What an answer takes in memory.
pub(crate) const ANSWER_BYTES: i64 = size_of::<AppliedAnswer>() as i64;

impl AppliedAnswer {
    /// `None` if it cannot be in a block.
    pub(crate) fn new(
        id: u128,
        mutation: u32,
        not_after_s: u32,
        weight: u64,
    ) -> Option<AppliedAnswer> {
        let fits = mutation < BLOCK_BIT - 1;
        fits.then_some(AppliedAnswer { request: id as u64, mutation, not_after_s, weight })
    }

    fn name(&self) -> (u64, u32) {
        (self.request, self.mutation)
    }
}

/// Where it may be known what became of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nowhere: it is new.
    Nowhere,
    /// It was applied.
    Applied { weight: u64 },
    /// In the tree, perhaps in a block.
    InTree { in_block: bool },
}

/// Somebody who names requests, with numbers that rise.
#[derive(Debug)]
struct Namer {
    namer: u64,
    /// No request with a higher number has an answer in the tree.
    highest_in_tree: Option<u64>,
    /// … in a block.
    highest_in_blocks: Option<u64>,
    /// By their names.
    unsettled: Vec<AppliedAnswer>,
}

/// What a tree knows of the requests of one set beside what is in it.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    namers: Vec<Namer>,
    /// The second of the last entry with an answer.
    now_s: u32,
}

impl Answers {
    /// Where to look for an answer. `highest` looks into the tree for the highest number of the one who named the request, once for each.
    pub(crate) fn look(
        &mut self,
        id: u128,
        mutation: u32,
        highest: impl FnOnce() -> Result<Option<u64>, TreeError>,
    ) -> Result<Look, TreeError> {
        let (namer, request) = ((id >> 64) as u64, id as u64);
        let Some(known) = self.namers.iter().find(|known| known.namer == namer) else {
            let highest = highest()?;
            self.add(namer, highest);
            let may_be = highest.is_some_and(|highest| request <= highest);
            return Ok(if may_be { Look::InTree { in_block: true } } else { Look::Nowhere });
        };
        let is_behind = known.unsettled.last().is_none_or(|last| last.name() < (request, mutation));
        if !is_behind && let Ok(place) = known.find((request, mutation)) {
            let weight = known.unsettled.get(place).map_or(0, |answer| answer.weight);
            return Ok(Look::Applied { weight });
        }
        let is_within = |highest: Option<u64>| highest.is_some_and(|highest| request <= highest);
        Ok(match is_within(known.highest_in_tree) {
            true => Look::InTree { in_block: is_within(known.highest_in_blocks) },
            false => Look::Nowhere,
        })
    }

    fn add(&mut self, namer: u64, highest: Option<u64>) {
        self.shorten(NAMERS_MAX - 1);
        let (highest_in_tree, highest_in_blocks) = (highest, highest);
        let unsettled = Vec::new();
        self.namers.push(Namer { namer, highest_in_tree, highest_in_blocks, unsettled });
    }

    /// Forgets those who were first met, where nothing of theirs is in memory alone.
    fn shorten(&mut self, count_max: usize) {
        let mut excess = self.namers.len().saturating_sub(count_max);
        self.namers.retain(|known| {
            let goes = excess > 0 && known.unsettled.is_empty();
            excess -= usize::from(goes);
            !goes
        });
    }

    /// A mutation was applied by an entry of that second.
    pub(crate) fn keep(&mut self, id: u128, answer: AppliedAnswer, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
        let namer = (id >> 64) as u64;
        if !self.namers.iter().any(|known| known.namer == namer) {
            // Nobody looked: anything may be in the tree.
            self.add(namer, Some(u64::MAX));
        }
        let Some(known) = self.namers.iter_mut().find(|known| known.namer == namer) else { return };
        match known.unsettled.last() {
            Some(last) if last.name() >= answer.name() => match known.find(answer.name()) {
                Ok(place) => known.unsettled.splice(place..=place, [answer]).for_each(drop),
                Err(place) => known.unsettled.insert(place, answer),
            },
            Some(_) | None => known.unsettled.push(answer),
        }
    }

    /// An answer of a request is in the tree, by itself.
    pub(crate) fn note_in_tree(&mut self, id: u128) {
        let (namer, request) = ((id >> 64) as u64, id as u64);
        if let Some(known) = self.namers.iter_mut().find(|known| known.namer == namer) {
            known.highest_in_tree = known.highest_in_tree.max(Some(request));
        }
    }

    /// Writes into the tree what is in memory alone. It was counted when it came.
    pub(crate) fn settle(&mut self, set: SetId, tree: &dyn SortedTree, seqno: SeqNo) {
        let now_s = self.now_s;
        for known in &mut self.namers {
            let mut unsettled = std::mem::take(&mut known.unsettled);
            if breaks(Rule::ForgetUnsettled) {
                continue;
            }
            // Later entries have no earlier second: who comes again with it comes too late.
            unsettled.retain(|answer| answer.not_after_s >= now_s);
            for block in unsettled.chunks(ANSWERS_PER_BLOCK) {
                let Some(last) = block.last() else { continue };
                let id = u128::from(known.namer) << 64 | u128::from(last.request);
                let key = request_key(set, id, last.mutation | BLOCK_BIT);
                tree.insert(&key, TreeBytes::from(encode_block(block)), seqno);
                known.highest_in_tree = known.highest_in_tree.max(Some(last.request));
                known.highest_in_blocks = known.highest_in_blocks.max(Some(last.request));
            }
        }
        self.shorten(NAMERS_MAX);
    }
}

impl Namer {
    fn find(&self, name: (u64, u32)) -> Result<usize, usize> {
        self.unsettled.binary_search_by_key(&name, AppliedAnswer::name)
    }
}

/// What became of a mutation, if a block of the tree says so: its weight.
pub(crate) fn find_in_blocks(
    tree: &dyn SortedTree,
    set: SetId,
    id: u128,
    mutation: u32,
) -> Result<Option<u64>, TreeError> {
    let unreadable = |Malformed| TreeError::Corrupt("answers to requests are not readable".into());
    let from = request_key(set, id, mutation | BLOCK_BIT);
    let to = request_key(set, id | u128::from(u64::MAX), u32::MAX);
    // A request that came late is in a block behind its neighbours'.
    for item in tree.range(&from, &to, LATEST) {
        let (key, value) = item?;
        if is_of_block(&key)
            && let Some(answer) =
                find_in_block(&value, (id as u64, mutation)).map_err(unreadable)?
        {
            return Ok(Some(answer.weight));
        }
    }
    Ok(None)
}

/// Whether the key of an answer is that of a block.
fn is_of_block(key: &[u8]) -> bool {
    let number = key.last_chunk::<4>().map(|number| u32::from_be_bytes(*number));
    let is_block = |number: u32| number & BLOCK_BIT != 0 && number != u32::MAX;
    key.len() == REQUEST_KEY_BYTES && number.is_some_and(is_block)
}

/// Last of their last seconds, kind; then of each by how much its number is higher than the one before's, mutation, by how much its
/// last second is earlier than that, weight.
fn encode_block(answers: &[AppliedAnswer]) -> Vec<u8> {
    let last_s = answers.iter().map(|answer| answer.not_after_s).max().unwrap_or(0);
    let mut out = Vec::with_capacity(5 + answers.len() * 6);
    out.extend_from_slice(&last_s.to_be_bytes());
    out.push(BLOCK);
    let mut before = 0;
    for answer in answers {
        push_varint(&mut out, answer.request.wrapping_sub(before));
        push_varint(&mut out, u64::from(answer.mutation));
        push_varint(&mut out, u64::from(last_s - answer.not_after_s));
        push_varint(&mut out, answer.weight);
        before = answer.request;
    }
    out
}

fn find_in_block(block: &[u8], name: (u64, u32)) -> Result<Option<AppliedAnswer>, Malformed> {
    let mut decoder = Decoder::new(Bytes::copy_from_slice(block));
    let last_s = decoder.u32()?;
    if decoder.byte()? != BLOCK {
        return Err(Malformed);
    }
    let mut request = 0u64;
    while !decoder.is_done() {
        request = request.checked_add(decoder.varint()?).ok_or(Malformed)?;
        let mutation = u32::try_from(decoder.varint()?).map_err(|_| Malformed)?;
        let earlier_s = u32::try_from(decoder.varint()?).map_err(|_| Malformed)?;
        let not_after_s = last_s.checked_sub(earlier_s).ok_or(Malformed)?;
        let weight = decoder.varint()?;
        let answer = AppliedAnswer { request, mutation, not_after_s, weight };
        if answer.name() >= name {
            return Ok(Some(answer).filter(|answer| answer.name() == name));
        }
    }
    Ok(None)
}
