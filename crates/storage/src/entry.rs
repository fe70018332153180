//! What an entry of a replica set's log asks for, as values and as bytes (see `docs/formats/log.md`).

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use types::codec::{
    Decoder, MUTATION_FORM, Malformed, MutationForm, encode_mutation, push_counted, push_length,
    push_optional, push_varint,
};
use types::{Mutation, RingRange, RingToken, SetId, TableId};

use crate::batch::{BatchPlace, Intent, Step};
use crate::definition::Definition;
use node_log::{EntryHead, EntryId};

/// What kind of entry it is; the number stands in its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Nothing: the last entry of a set is one.
    Empty = 0,
    /// Mutations.
    Change = 1,
    /// By which definition the mutations of a table are applied from here on.
    Define = 2,
    /// What old deletions cover goes, and at the end they themselves.
    Sweep = 3,
    /// Mutations that must not be applied twice, whoever sends them again.
    Request = 4,
    /// The second half of the set's keys is another set's from here on.
    Split = 5,
}

/// The mutations of an entry: most often one.
pub(crate) type Mutations = SmallVec<[Mutation; 1]>;

/// An entry, apart from where it stands.
#[derive(Clone, Debug)]
pub(crate) enum EntryBody {
    Empty,
    Change(Mutations),
    Define(Define),
    Sweep(Box<Sweep>),
    Request(Box<Request>),
    Split(Box<Split>),
}

thread_local! {
    /// A buffer for the request at hand.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A scratch buffer that grew beyond this is given back.
const SCRATCH_BYTES_MAX: usize = 256 * 1024;

/// Names a request for as long as it may be sent again: which coordinator asked, and its how many-th question it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u128);

/// Mutations of a set with several members, as whoever coordinates them sends them.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where applying twice is not the same as applying once.
    pub id: Option<RequestId>,
    /// After this second nobody sends it again, and it is not applied any more.
    pub not_after_s: u32,
    /// The time of its mutations in microseconds, where no client said one: its leader may make them later, so that times
    /// within a set never fall.
    pub timed_us: Option<i64>,
    /// What is emptied before anything else.
    pub truncates: Option<Truncate>,
    /// Nothing is changed, and the set is split.
    pub splits: Option<Box<Split>>,
    /// All of one set.
    pub mutations: Vec<Mutation>,
    /// What it is to a batch over several sets, if to any.
    pub step: Option<Box<Step>>,
}

/// The rows of a table in a set go, whatever their times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// Which table.
    pub table: TableId,
    /// The part of the ring that the set has.
    pub range: RingRange,
}

/// From here on a set holds only what stands before a place of the ring, and another one, born by this, the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The set that is born.
    pub right: SetId,
    /// The first position of the ring that it has.
    pub at: RingToken,
    /// What the set held before.
    pub whole: RingRange,
    /// The tables in which the set may have something.
    pub tables: Vec<TableId>,
}

/// A set has rows in at most so many tables.
const TABLES_MAX: usize = 65_536;

impl Split {
    /// What the set keeps, and what the other one gets; `None` if one of them would get nothing.
    pub fn halves(&self) -> Option<(RingRange, RingRange)> {
        let RingRange { start, last } = self.whole;
        let before = RingToken(self.at.0.checked_sub(1)?);
        let halves = (RingRange { start, last: before }, RingRange { start: self.at, last });
        (start < self.at && self.at <= last).then_some(halves)
    }

    /// From the body of an entry of its kind.
    pub fn from_entry(body: Bytes) -> Result<Split, Malformed> {
        let mut decoder = Decoder::new(body);
        let split = Split::decode(&mut decoder)?;
        if decoder.is_done() { Ok(split) } else { Err(Malformed) }
    }

    /// The kind of its entry, and the body.
    pub fn to_entry(&self) -> (u8, Bytes) {
        let mut body = Vec::new();
        self.encode(&mut body);
        (EntryKind::Split as u8, Bytes::from(body))
    }

    /// Whether an entry of a kind is one.
    pub fn is_kind(kind: u8) -> bool {
        kind == EntryKind::Split as u8
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(BODY_VERSION);
        out.extend_from_slice(&self.right.0.to_be_bytes());
        for token in [self.at, self.whole.start, self.whole.last] {
            out.extend_from_slice(&token.to_bytes());
        }
        push_length(out, self.tables.len());
        self.tables.iter().for_each(|table| out.extend_from_slice(&table.0.to_be_bytes()));
    }

    fn decode(decoder: &mut Decoder) -> Result<Split, Malformed> {
        if decoder.byte()? != BODY_VERSION {
            return Err(Malformed);
        }
        let right = SetId(decoder.u32()?);
        let mut token = || Ok(RingToken(u128::from_be_bytes(decoder.array()?)));
        let (at, start, last) = (token()?, token()?, token()?);
        let count = decoder.length()?;
        if count > TABLES_MAX {
            return Err(Malformed);
        }
        let table = |_| Ok(TableId(u128::from_be_bytes(decoder.array()?)));
        let tables = (0..count).map(table).collect::<Result<_, Malformed>>()?;
        let split = Split { right, at, whole: RingRange { start, last }, tables };
        if split.halves().is_some() { Ok(split) } else { Err(Malformed) }
    }
}

/// In the flags of a request.
const HAS_ID: u8 = 1;
const IS_TIMED: u8 = 2;
const TRUNCATES: u8 = 4;
const SPLITS: u8 = 8;
const HAS_STEP: u8 = 16;

/// From here on the mutations of a table are applied by this definition.
#[derive(Clone, Debug)]
pub(crate) struct Define {
    pub(crate) definition: Arc<Definition>,
    /// What died before this second may be gone already.
    pub(crate) horizon_s: u32,
}

/// A part of a logical partition loses what old deletions cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    pub(crate) table: TableId,
    /// Deletions from before this second are old.
    pub(crate) horizon_s: u32,
    /// The partition, as tree keys begin.
    pub(crate) prefix: Bytes,
    /// The tree key of the first row that is looked at.
    pub(crate) from: Bytes,
    /// The tree key of the first that is not; without one the rest of the partition is looked at, and
    /// then the old deletions go.
    pub(crate) to: Option<Bytes>,
}

/// Entries of these kinds are said by members of a set to each other (see `replica`): nothing is applied for them.
pub const REPLICATION_KINDS_FROM: u8 = 32;

/// The first byte of what is neither empty nor a change.
const BODY_VERSION: u8 = 1;

impl EntryBody {
    pub(crate) fn kind(&self) -> EntryKind {
        match self {
            EntryBody::Empty => EntryKind::Empty,
            EntryBody::Change(_) => EntryKind::Change,
            EntryBody::Define(_) => EntryKind::Define,
            EntryBody::Sweep(_) => EntryKind::Sweep,
            EntryBody::Request(_) => EntryKind::Request,
            EntryBody::Split(_) => EntryKind::Split,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            EntryBody::Empty => {}
            EntryBody::Change(mutations) => {
                out.push(MUTATION_FORM as u8);
                push_length(out, mutations.len());
                mutations.iter().for_each(|mutation| encode_mutation(mutation, out));
            }
            EntryBody::Define(Define { definition, horizon_s }) => {
                out.push(BODY_VERSION);
                out.extend_from_slice(&definition.table.id.0.to_be_bytes());
                push_varint(out, definition.table.version);
                out.extend_from_slice(&definition.retention_s.to_be_bytes());
                out.extend_from_slice(&horizon_s.to_be_bytes());
                push_counted(out, &definition.bytes);
            }
            EntryBody::Sweep(sweep) => {
                out.push(BODY_VERSION);
                out.extend_from_slice(&sweep.table.0.to_be_bytes());
                out.extend_from_slice(&sweep.horizon_s.to_be_bytes());
                push_counted(out, &sweep.prefix);
                push_counted(out, &sweep.from);
                push_optional(out, sweep.to.as_deref());
            }
            EntryBody::Request(request) => request.encode(out),
            EntryBody::Split(split) => split.encode(out),
        }
    }

    /// Reads the body of an entry of that kind; all of the bytes are its.
    pub(crate) fn decode(kind: u8, bytes: Bytes) -> Result<EntryBody, Malformed> {
        if kind >= REPLICATION_KINDS_FROM {
            return Ok(EntryBody::Empty);
        }
        let mut decoder = Decoder::new(bytes);
        let body = match kind {
            kind if kind == EntryKind::Empty as u8 => EntryBody::Empty,
            kind if kind == EntryKind::Change as u8 => {
                if decoder.byte()? != MUTATION_FORM as u8 {
                    return Err(Malformed);
                }
                EntryBody::Change(decode_mutations(&mut decoder, MUTATION_FORM)?)
            }
            kind if kind == EntryKind::Define as u8 => {
                let table = begin(&mut decoder)?;
                let version = decoder.varint()?;
                let (retention_s, horizon_s) = (decoder.u32()?, decoder.u32()?);
                let definition = Definition::decode(retention_s, decoder.counted()?)?;
                if (definition.table.id, definition.table.version) != (table, version) {
                    return Err(Malformed);
                }
                EntryBody::Define(Define { definition: Arc::new(definition), horizon_s })
            }
            kind if kind == EntryKind::Sweep as u8 => EntryBody::Sweep(Box::new(Sweep {
                table: begin(&mut decoder)?,
                horizon_s: decoder.u32()?,
                prefix: decoder.counted()?,
                from: decoder.counted()?,
                to: decoder.optional()?,
            })),
            kind if kind == EntryKind::Request as u8 => {
                EntryBody::Request(Box::new(Request::decode(&mut decoder)?))
            }
            kind if kind == EntryKind::Split as u8 => {
                EntryBody::Split(Box::new(Split::decode(&mut decoder)?))
            }
            _ => return Err(Malformed),
        };
        if decoder.is_done() { Ok(body) } else { Err(Malformed) }
    }
}

impl Request {
    /// Its bytes, as an entry has them.
    pub fn to_bytes(&self) -> Bytes {
        let mut scratch = SCRATCH.take();
        scratch.clear();
        self.encode(&mut scratch);
        // They are kept for members that are behind, and take no more than they need.
        let bytes = Bytes::copy_from_slice(&scratch);
        scratch.shrink_to(SCRATCH_BYTES_MAX);
        SCRATCH.set(scratch);
        bytes
    }

    /// Whether it may be sent again though it may have been done: it has a name by which a repeat is known, or times of its
    /// own that a repeat does not change.
    pub fn is_repeatable(&self) -> bool {
        // Every step of a batch has the batch's name, or comes to the same when it is done again.
        let is_named = self.id.is_some() || self.step.is_some();
        let is_plain = self.timed_us.is_none() && self.truncates.is_none() && self.splits.is_none();
        is_named || is_plain && self.mutations.iter().all(Mutation::is_idempotent)
    }

    /// Makes its times later than one that was given before. Returns the time it has then, if it is its leader's to give.
    pub fn time_after(&mut self, last_us: i64) -> Option<i64> {
        let timed_us = self.timed_us?;
        let later_us = timed_us.max(last_us.saturating_add(1));
        if later_us > timed_us {
            let by_us = later_us.saturating_sub(timed_us);
            self.mutations.iter_mut().for_each(|it| it.delay(by_us));
            // A batch has one time, in all of its sets.
            if let Some(Step::Intend(Intent { others, .. })) = self.step.as_deref_mut() {
                others.iter_mut().for_each(|(_, it)| it.delay(by_us));
            }
            self.timed_us = Some(later_us);
        }
        Some(later_us)
    }

    /// Makes its times earlier where they are later than this, and are its leader's to give.
    pub fn time_at_most(&mut self, latest_us: i64) {
        if let Some(timed_us) = self.timed_us.filter(|timed_us| *timed_us > latest_us) {
            let by_us = latest_us.saturating_sub(timed_us);
            self.mutations.iter_mut().for_each(|it| it.delay(by_us));
            if let Some(Step::Intend(Intent { others, .. })) = self.step.as_deref_mut() {
                others.iter_mut().for_each(|(_, it)| it.delay(by_us));
            }
            self.timed_us = Some(latest_us);
        }
    }

    /// The time that a leader gave it, here or in the set of its batch's intent.
    pub fn given_us(&self) -> Option<i64> {
        match self.step.as_deref() {
            Some(Step::Parts(parts)) => parts.timed_us,
            _ => self.timed_us,
        }
    }

    /// Where the intent is kept that it decides or would decide.
    pub fn batch_place(&self) -> Option<BatchPlace> {
        let first = self.mutations.first()?;
        Some(BatchPlace { table: first.table, ring: first.key.ring(), batch: self.id? })
    }

    /// All positions on the ring that it touches: its set must hold every one.
    pub fn rings(&self) -> impl Iterator<Item = RingToken> {
        let of_step = self.step.as_ref().map(|step| step.rings()).unwrap_or_default();
        self.mutations.iter().map(|mutation| mutation.key.ring()).chain(of_step)
    }

    /// From its bytes.
    pub fn from_bytes(bytes: Bytes) -> Result<Request, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let request = Request::decode(&mut decoder)?;
        if decoder.is_done() { Ok(request) } else { Err(Malformed) }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(BODY_VERSION);
        let has_id = if self.id.is_some() { HAS_ID } else { 0 };
        let is_timed = if self.timed_us.is_some() { IS_TIMED } else { 0 };
        let splits = if self.splits.is_some() { SPLITS } else { 0 };
        let has_step = if self.step.is_some() { HAS_STEP } else { 0 };
        let truncates = if self.truncates.is_some() { TRUNCATES } else { 0 };
        out.push(has_id | is_timed | truncates | splits | has_step);
        if let Some(RequestId(id)) = self.id {
            out.extend_from_slice(&id.to_be_bytes());
        }
        if let Some(timed_us) = self.timed_us {
            out.extend_from_slice(&timed_us.to_be_bytes());
        }
        out.extend_from_slice(&self.not_after_s.to_be_bytes());
        if let Some(Truncate { table, range }) = self.truncates {
            for number in [table.0, range.start.0, range.last.0] {
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        if let Some(split) = &self.splits {
            split.encode(out);
        }
        out.push(MUTATION_FORM as u8);
        push_length(out, self.mutations.len());
        self.mutations.iter().for_each(|mutation| encode_mutation(mutation, out));
        if let Some(step) = &self.step {
            step.encode(out);
        }
    }

    fn decode(decoder: &mut Decoder) -> Result<Request, Malformed> {
        if decoder.byte()? != BODY_VERSION {
            return Err(Malformed);
        }
        let flags = decoder.byte()?;
        if flags & !(HAS_ID | IS_TIMED | TRUNCATES | SPLITS | HAS_STEP) != 0 {
            return Err(Malformed);
        }
        let id = match flags & HAS_ID {
            0 => None,
            _ => Some(RequestId(u128::from_be_bytes(decoder.array()?))),
        };
        let timed_us = match flags & IS_TIMED {
            0 => None,
            _ => Some(i64::from_be_bytes(decoder.array()?)),
        };
        let not_after_s = decoder.u32()?;
        let truncates = match flags & TRUNCATES {
            0 => None,
            _ => Some(decode_truncate(decoder)?),
        };
        let splits = match flags & SPLITS {
            0 => None,
            _ => Some(Box::new(Split::decode(decoder)?)),
        };
        if decoder.byte()? != MUTATION_FORM as u8 {
            return Err(Malformed);
        }
        let mutations = decoder.several(|decoder| decoder.mutation(MUTATION_FORM))?;
        let step = match flags & HAS_STEP {
            0 => None,
            _ => Some(Box::new(Step::decode(decoder, mutations.len())?)),
        };
        // A batch is decided once, by its name.
        if matches!(step.as_deref(), Some(Step::Intend(_))) && id.is_none() {
            return Err(Malformed);
        }
        Ok(Request { id, not_after_s, timed_us, truncates, splits, mutations, step })
    }
}

/// The request that an entry of that kind and body is, if it decides a batch over several sets.
pub fn intended(kind: u8, body: &Bytes) -> Option<Request> {
    // Most entries are told apart by their second byte.
    if kind != EntryKind::Request as u8 || body.get(1).is_none_or(|flags| flags & HAS_STEP == 0) {
        return None;
    }
    let request = Request::from_bytes(body.clone()).ok()?;
    matches!(request.step.as_deref()?, Step::Intend(_)).then_some(request)
}

fn decode_truncate(decoder: &mut Decoder) -> Result<Truncate, Malformed> {
    let mut number = || Ok(u128::from_be_bytes(decoder.array()?));
    let (table, start, last) = (number()?, number()?, number()?);
    if start > last {
        return Err(Malformed);
    }
    let range = RingRange { start: RingToken(start), last: RingToken(last) };
    Ok(Truncate { table: TableId(table), range })
}

fn begin(decoder: &mut Decoder) -> Result<TableId, Malformed> {
    if decoder.byte()? != BODY_VERSION {
        return Err(Malformed);
    }
    Ok(TableId(u128::from_be_bytes(decoder.array()?)))
}

fn decode_mutations(decoder: &mut Decoder, form: MutationForm) -> Result<Mutations, Malformed> {
    let count = decoder.length()?;
    (0..count).map(|_| decoder.mutation(form)).collect()
}

/// The mutations of each entry of a change of the log's first version, in order.
pub(crate) fn decode_first_form(
    entries: &[EntryId],
    body: Bytes,
) -> Result<Vec<(EntryId, Mutations)>, Malformed> {
    let mut decoder = Decoder::new(body);
    if decoder.byte()? != MutationForm::First as u8 {
        return Err(Malformed);
    }
    let mut changes = Vec::with_capacity(entries.len());
    for id in entries {
        changes.push((*id, decode_mutations(&mut decoder, MutationForm::First)?));
    }
    if decoder.is_done() { Ok(changes) } else { Err(Malformed) }
}

/// An entry of a record that is about to be appended, or was.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) set: SetId,
    pub(crate) body: EntryBody,
    /// Where each mutation stood in the change; nothing if it is the only one.
    pub(crate) slots: Vec<usize>,
}

impl Entry {
    pub(crate) fn of(set: SetId, body: EntryBody) -> Entry {
        Entry { set, body, slots: Vec::new() }
    }

    pub(crate) fn slot(&self, number: usize) -> usize {
        self.slots.get(number).copied().unwrap_or(0)
    }
}

/// The entries of a record.
pub(crate) type Entries = SmallVec<[Entry; 1]>;

/// Where the entries of a record stand in the logs of their sets.
pub(crate) type EntryHeads = SmallVec<[EntryHead; 1]>;
