//! Batches over several replica sets, as values and as bytes (see `docs/formats/log.md` and `tree.md`).
//!
//! A batch is decided by one entry of one set, its *intent*: the mutations that the set holds are applied with it, and the others, its
//! *parts*, are kept under the batch's first key until every one of them was applied by the set that holds it. Parts are remembered
//! where they were applied until the intent's set says that no one asks for them again.

use bytes::Bytes;
use types::codec::{Decoder, MUTATION_FORM, Malformed, encode_mutation, push_length, push_varint};
use types::{Mutation, RingToken, TableId};

use crate::entry::RequestId;

/// An intent is kept for at most so many bytes of mutations; a larger batch over several sets is refused.
pub const INTENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// So many seconds after the last second that the intent's set knew, what was sent for a part may still come. A part that was applied is
/// remembered for at least as long after its batch is done.
pub const PART_S: u32 = 120;

/// Where an intent is kept: under the key of its batch's first mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchPlace {
    /// The table of that mutation.
    pub table: TableId,
    /// Where its key lies.
    pub ring: RingToken,
    /// Which batch.
    pub batch: RequestId,
}

/// Where it is remembered that a part was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPlace {
    /// Which mutation of its batch.
    pub number: u32,
    /// Its table.
    pub table: TableId,
    /// Where its key lies.
    pub ring: RingToken,
}

/// What a request is to a batch over several sets.
#[derive(Clone, Debug)]
pub enum Step {
    /// The batch is decided: the request's mutations are applied, and the others will be.
    Intend(Intent),
    /// The request's mutations are parts.
    Parts(Parts),
    /// Every part of these was applied: nobody begins to send any of them again.
    Done(Vec<BatchPlace>),
    /// Nobody asks for these parts again after a second.
    Forget(Vec<Forget>),
    /// Nothing is remembered of the parts of these.
    Remove(Vec<BatchPlace>),
}

/// What an intent says beside the mutations that are applied with it.
#[derive(Clone, Debug)]
pub struct Intent {
    /// A node that follows this version of what all agree on, and does not know a table, knows that it was dropped.
    pub known: u64,
    /// Which mutations of the batch those of the request are; the first is the batch's first.
    pub here: Vec<u32>,
    /// The others, with their numbers.
    pub others: Vec<(u32, Mutation)>,
}

/// Parts of one batch.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Which batch.
    pub batch: RequestId,
    /// The time of the batch, where a leader gave it: times that are given later are later.
    pub timed_us: Option<i64>,
    /// Which mutations of the batch those of the request are.
    pub numbers: Vec<u32>,
}

/// Parts of one batch that nobody asks for again.
#[derive(Clone, Debug)]
pub struct Forget {
    /// Which batch.
    pub batch: RequestId,
    /// After this second.
    pub until_s: u32,
    /// Which parts.
    pub parts: Vec<PartPlace>,
}

/// A batch as its set keeps it.
#[derive(Clone, Debug)]
pub enum KeptIntent {
    /// Not every part is known to be applied.
    Open(OpenIntent),
    /// Every part was applied.
    Done {
        /// After this second nobody asks for a part again.
        until_s: u32,
        /// What is to be forgotten.
        parts: Vec<PartPlace>,
    },
}

/// What is to be done for a batch.
#[derive(Clone, Debug)]
pub struct OpenIntent {
    /// See [`Intent::known`].
    pub known: u64,
    /// See [`Parts::timed_us`].
    pub timed_us: Option<i64>,
    /// What other sets are to apply.
    pub parts: Vec<(u32, Mutation)>,
}

const INTEND: u8 = 1;
const PARTS: u8 = 2;
const DONE: u8 = 3;
const FORGET: u8 = 4;
const REMOVE: u8 = 5;

/// The first byte of an intent in a tree.
const KEPT_VERSION: u8 = 1;
const KEPT_OPEN: u8 = 0;
const KEPT_DONE: u8 = 1;

impl Step {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Step::Intend(intent) => {
                out.push(INTEND);
                push_varint(out, intent.known);
                push_numbers(out, &intent.here);
                push_parts(out, &intent.others);
            }
            Step::Parts(parts) => {
                out.push(PARTS);
                push_id(out, parts.batch);
                push_time(out, parts.timed_us);
                push_numbers(out, &parts.numbers);
            }
            Step::Done(places) => push_batches(out, DONE, places),
            Step::Forget(forgets) => {
                out.push(FORGET);
                push_length(out, forgets.len());
                for forget in forgets {
                    push_id(out, forget.batch);
                    out.extend_from_slice(&forget.until_s.to_be_bytes());
                    push_places(out, &forget.parts);
                }
            }
            Step::Remove(places) => push_batches(out, REMOVE, places),
        }
    }

    /// `count`: how many mutations the request has.
    pub(crate) fn decode(decoder: &mut Decoder, count: usize) -> Result<Step, Malformed> {
        Ok(match decoder.byte()? {
            INTEND => {
                let (known, here) = (decoder.varint()?, numbers(decoder)?);
                if here.len() != count || count == 0 {
                    return Err(Malformed);
                }
                Step::Intend(Intent { known, here, others: parts(decoder)? })
            }
            PARTS => {
                let (batch, timed_us) = (id(decoder)?, time(decoder)?);
                let numbers = numbers(decoder)?;
                if numbers.len() != count {
                    return Err(Malformed);
                }
                Step::Parts(Parts { batch, timed_us, numbers })
            }
            DONE => Step::Done(batches(decoder)?),
            FORGET => {
                let count = decoder.length()?;
                let forget = |_| {
                    let (batch, until_s) = (id(decoder)?, decoder.u32()?);
                    Ok(Forget { batch, until_s, parts: places(decoder)? })
                };
                Step::Forget((0..count).map(forget).collect::<Result<_, _>>()?)
            }
            REMOVE => Step::Remove(batches(decoder)?),
            _ => return Err(Malformed),
        })
    }

    /// The positions on the ring that it touches, beside those of its request's mutations: its set must hold them all.
    pub(crate) fn rings(&self) -> Vec<RingToken> {
        match self {
            Step::Intend(_) | Step::Parts(_) => Vec::new(),
            Step::Done(places) | Step::Remove(places) => {
                places.iter().map(|place| place.ring).collect()
            }
            Step::Forget(forgets) => {
                let parts = forgets.iter().flat_map(|forget| &forget.parts);
                parts.map(|part| part.ring).collect()
            }
        }
    }
}

impl KeptIntent {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![KEPT_VERSION];
        match self {
            KeptIntent::Open(OpenIntent { known, timed_us, parts }) => {
                out.push(KEPT_OPEN);
                push_varint(&mut out, *known);
                push_time(&mut out, *timed_us);
                push_parts(&mut out, parts);
            }
            KeptIntent::Done { until_s, parts } => {
                out.push(KEPT_DONE);
                out.extend_from_slice(&until_s.to_be_bytes());
                push_places(&mut out, parts);
            }
        }
        out
    }

    pub(crate) fn from_bytes(bytes: Bytes) -> Result<KeptIntent, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.byte()? != KEPT_VERSION {
            return Err(Malformed);
        }
        let kept = match decoder.byte()? {
            KEPT_OPEN => {
                let (known, timed_us) = (decoder.varint()?, time(&mut decoder)?);
                KeptIntent::Open(OpenIntent { known, timed_us, parts: parts(&mut decoder)? })
            }
            KEPT_DONE => KeptIntent::Done { until_s: decoder.u32()?, parts: places(&mut decoder)? },
            _ => return Err(Malformed),
        };
        if decoder.is_done() { Ok(kept) } else { Err(Malformed) }
    }
}

/// Where a part is remembered.
pub(crate) fn place_of((number, mutation): &(u32, Mutation)) -> PartPlace {
    PartPlace { number: *number, table: mutation.table, ring: mutation.key.ring() }
}

fn push_id(out: &mut Vec<u8>, RequestId(id): RequestId) {
    out.extend_from_slice(&id.to_be_bytes());
}

fn id(decoder: &mut Decoder) -> Result<RequestId, Malformed> {
    Ok(RequestId(u128::from_be_bytes(decoder.array()?)))
}

fn push_time(out: &mut Vec<u8>, timed_us: Option<i64>) {
    out.push(u8::from(timed_us.is_some()));
    if let Some(timed_us) = timed_us {
        out.extend_from_slice(&timed_us.to_be_bytes());
    }
}

fn time(decoder: &mut Decoder) -> Result<Option<i64>, Malformed> {
    match decoder.byte()? {
        0 => Ok(None),
        1 => Ok(Some(i64::from_be_bytes(decoder.array()?))),
        _ => Err(Malformed),
    }
}

fn number(decoder: &mut Decoder) -> Result<u32, Malformed> {
    u32::try_from(decoder.varint()?).map_err(|_| Malformed)
}

fn push_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    push_length(out, numbers.len());
    numbers.iter().for_each(|number| push_varint(out, u64::from(*number)));
}

fn numbers(decoder: &mut Decoder) -> Result<Vec<u32>, Malformed> {
    (0..decoder.length()?).map(|_| number(decoder)).collect()
}

fn push_parts(out: &mut Vec<u8>, parts: &[(u32, Mutation)]) {
    out.push(MUTATION_FORM as u8);
    push_length(out, parts.len());
    for (number, mutation) in parts {
        push_varint(out, u64::from(*number));
        encode_mutation(mutation, out);
    }
}

fn parts(decoder: &mut Decoder) -> Result<Vec<(u32, Mutation)>, Malformed> {
    if decoder.byte()? != MUTATION_FORM as u8 {
        return Err(Malformed);
    }
    (0..decoder.length()?)
        .map(|_| Ok((number(decoder)?, decoder.mutation(MUTATION_FORM)?)))
        .collect()
}

fn push_places(out: &mut Vec<u8>, places: &[PartPlace]) {
    push_length(out, places.len());
    for PartPlace { number, table, ring } in places {
        push_varint(out, u64::from(*number));
        out.extend_from_slice(&table.0.to_be_bytes());
        out.extend_from_slice(&ring.to_bytes());
    }
}

fn places(decoder: &mut Decoder) -> Result<Vec<PartPlace>, Malformed> {
    (0..decoder.length()?)
        .map(|_| {
            let (number, (table, ring)) = (number(decoder)?, place(decoder)?);
            Ok(PartPlace { number, table, ring })
        })
        .collect()
}

fn place(decoder: &mut Decoder) -> Result<(TableId, RingToken), Malformed> {
    let table = TableId(u128::from_be_bytes(decoder.array()?));
    Ok((table, RingToken(u128::from_be_bytes(decoder.array()?))))
}

fn push_batches(out: &mut Vec<u8>, kind: u8, places: &[BatchPlace]) {
    out.push(kind);
    push_length(out, places.len());
    for BatchPlace { table, ring, batch } in places {
        out.extend_from_slice(&table.0.to_be_bytes());
        out.extend_from_slice(&ring.to_bytes());
        push_id(out, *batch);
    }
}

fn batches(decoder: &mut Decoder) -> Result<Vec<BatchPlace>, Malformed> {
    (0..decoder.length()?)
        .map(|_| {
            let (table, ring) = place(decoder)?;
            Ok(BatchPlace { table, ring, batch: id(decoder)? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use types::{Deletion, Operation, PartitionKey};

    use super::*;
    use crate::entry::{Request, intended};

    fn mutation(key: u8) -> Mutation {
        let deletion = Deletion { timestamp_us: 10, deleted_at_s: 7 };
        Mutation {
            table: TableId(5),
            table_version: 3,
            key: PartitionKey::new(Bytes::from(vec![key])),
            now_s: None,
            condition: None,
            operations: vec![Operation::DeletePartition(deletion)],
        }
    }

    fn request(step: Step, mutations: Vec<Mutation>) -> Request {
        Request {
            id: Some(RequestId(9)),
            not_after_s: 100,
            timed_us: Some(10),
            truncates: None,
            splits: None,
            mutations,
            step: Some(Box::new(step)),
        }
    }

    fn steps() -> Vec<Request> {
        let place = BatchPlace { table: TableId(5), ring: RingToken(6), batch: RequestId(7) };
        let part = PartPlace { number: 3, table: TableId(5), ring: RingToken(8) };
        let forget = Forget { batch: RequestId(7), until_s: 9, parts: vec![part] };
        let intent = Intent { known: 300, here: vec![0], others: vec![(1, mutation(2))] };
        let parts = Parts { batch: RequestId(7), timed_us: Some(-1), numbers: vec![1] };
        vec![
            request(Step::Intend(intent), vec![mutation(1)]),
            request(Step::Parts(parts), vec![mutation(2)]),
            request(Step::Done(vec![place, place]), Vec::new()),
            request(Step::Forget(vec![forget]), Vec::new()),
            request(Step::Remove(vec![place]), Vec::new()),
        ]
    }

    #[test]
    fn steps_are_read_as_they_were_written() {
        for request in steps() {
            let bytes = request.to_bytes();
            let again = Request::from_bytes(bytes.clone()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{request:?}"));
            for end in 0..bytes.len() {
                assert!(Request::from_bytes(bytes.slice(..end)).is_err(), "{end}");
            }
        }
        let [intend, others @ ..] = &steps()[..] else { panic!() };
        assert!(intended(4, &intend.to_bytes()).is_some());
        assert!(others.iter().all(|other| intended(4, &other.to_bytes()).is_none()));
        // A batch that nobody could know again decides nothing.
        let nameless = Request { id: None, ..intend.clone() };
        assert!(Request::from_bytes(nameless.to_bytes()).is_err());
    }

    #[test]
    fn a_batch_has_one_time() {
        let mut all = steps();
        assert_eq!(all[0].time_after(20), Some(21));
        let Some(Step::Intend(intent)) = all[0].step.as_deref() else { panic!() };
        assert!(all[0].mutations[0].is_timed_at(21) && intent.others[0].1.is_timed_at(21));
        // That of a part is not its leader's to give.
        assert_eq!(all[1].given_us(), Some(-1));
    }

    #[test]
    fn what_is_kept_of_batches_is_read_as_it_was_written() {
        let part = PartPlace { number: 3, table: TableId(5), ring: RingToken(8) };
        let parts = vec![(1, mutation(2)), (4, mutation(3))];
        for kept in [
            KeptIntent::Open(OpenIntent { known: 300, timed_us: None, parts }),
            KeptIntent::Done { until_s: 9, parts: vec![part] },
        ] {
            let bytes = Bytes::from(kept.to_bytes());
            let again = KeptIntent::from_bytes(bytes.clone()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{kept:?}"));
            for end in 0..bytes.len() {
                assert!(KeptIntent::from_bytes(bytes.slice(..end)).is_err(), "{end}");
            }
        }
    }
}
