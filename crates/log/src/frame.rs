//! Records and segment heads as bytes (see `docs/formats/log.md`).
//!
//! A record's checksum covers the checksum of the record before it, so that a record can only be
//! read in its place. Its body is summed apart, before the writer takes the log's lock.

use types::SetId;

use crate::group::{Gone, GroupState};

/// A place in the log: bytes since the first segment began. Never reused.
pub type Position = u64;

pub const SEGMENT_MAGIC: [u8; 8] = *b"HELENLOG";
pub const LOG_VERSION: u16 = 2;
/// Segments from this version on can be read.
const LOG_VERSION_MIN: u16 = 1;
pub const SEGMENT_HEAD_BYTES: usize = 32;
/// Length, kind, checksum, length of the head.
pub const RECORD_HEAD_BYTES: usize = 4 + 1 + 4 + 2;

const MARK_MAGIC: [u8; 8] = *b"HELMARK2";
const FIRST_MARK_MAGIC: [u8; 8] = *b"HELGROUP";
/// Magic, own position, synced up to, oldest position, second, checksum.
pub const MARK_BYTES: usize = 8 + 8 + 8 + 8 + 4 + 4;
/// As the first version of the log wrote it: without the second.
const FIRST_MARK_BYTES: usize = 8 + 8 + 8 + 8 + 4;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// The first record of a group: up to where the log was known to be synced.
    Mark = 1,
    /// Version 1: the last entry index of every replica set, at the start of a segment.
    SetIndexes = 2,
    /// Version 1: one atomic change.
    Change = 3,
    /// A table was emptied.
    Truncate = 4,
    /// A table is gone.
    Drop = 5,
    /// The segment ends here; the log goes on in the next.
    SegmentEnd = 6,
    /// Entries of replica sets, all of them or none.
    Entries = 16,
    /// How far the log of every replica set is, at the start of a segment.
    States = 17,
    /// What a node keeps of its member of a set with several, beside the entries.
    GroupState = 18,
    /// A member of a set with several begins, with this state and no entries.
    Birth = 19,
    /// A member of a set with several was taken away.
    Gone = 20,
    /// A member goes on with this state and no entries, over rows that it was handed: they are put into the trees, again at each
    /// start, until these hold them.
    Install = 21,
}

impl RecordKind {
    pub fn from_byte(byte: u8) -> Option<RecordKind> {
        match byte {
            1 => Some(RecordKind::Mark),
            2 => Some(RecordKind::SetIndexes),
            3 => Some(RecordKind::Change),
            4 => Some(RecordKind::Truncate),
            5 => Some(RecordKind::Drop),
            6 => Some(RecordKind::SegmentEnd),
            16 => Some(RecordKind::Entries),
            17 => Some(RecordKind::States),
            18 => Some(RecordKind::GroupState),
            19 => Some(RecordKind::Birth),
            20 => Some(RecordKind::Gone),
            21 => Some(RecordKind::Install),
            _ => None,
        }
    }
}

/// The term of everything that a set of one member writes: there is nobody to elect.
pub const LONE_TERM: u64 = 1;

/// What the log knows of an entry; what its body means is for others to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead {
    pub set: SetId,
    pub kind: u8,
    pub term: u64,
    pub index: u64,
    /// The second at which the entry is judged. It never falls.
    pub now_s: u32,
    /// How much of the record's body is this entry's.
    pub body_bytes: u32,
}

/// Set, kind, term, index, second, length of the body.
pub const ENTRY_HEAD_BYTES: usize = 4 + 1 + 8 + 8 + 4 + 4;

impl EntryHead {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; ENTRY_HEAD_BYTES];
        {
            let (set, rest) = bytes.split_at_mut(4);
            let (kind, rest) = rest.split_at_mut(1);
            let (term, rest) = rest.split_at_mut(8);
            let (index, rest) = rest.split_at_mut(8);
            let (now_s, body_bytes) = rest.split_at_mut(4);
            set.copy_from_slice(&self.set.0.to_be_bytes());
            kind.copy_from_slice(&[self.kind]);
            term.copy_from_slice(&self.term.to_be_bytes());
            index.copy_from_slice(&self.index.to_be_bytes());
            now_s.copy_from_slice(&self.now_s.to_be_bytes());
            body_bytes.copy_from_slice(&self.body_bytes.to_be_bytes());
        }
        out.extend_from_slice(&bytes);
    }

    /// The heads of a record; `None` if they are none, or do not fit its body.
    pub fn decode_all(head: &[u8], body_bytes: usize) -> Option<Vec<EntryHead>> {
        let (chunks, rest) = head.as_chunks::<ENTRY_HEAD_BYTES>();
        let heads: Vec<EntryHead> =
            chunks.iter().map(|chunk| EntryHead::decode(chunk)).collect::<Option<_>>()?;
        let sum: u64 = heads.iter().map(|head| u64::from(head.body_bytes)).sum();
        (rest.is_empty() && sum == body_bytes as u64).then_some(heads)
    }

    fn decode(bytes: &[u8]) -> Option<EntryHead> {
        let (set, rest) = bytes.split_first_chunk::<4>()?;
        let ([kind], rest) = rest.split_first_chunk::<1>()?;
        let (term, rest) = rest.split_first_chunk::<8>()?;
        let (index, rest) = rest.split_first_chunk::<8>()?;
        let (now_s, rest) = rest.split_first_chunk::<4>()?;
        let head = EntryHead {
            set: SetId(u32::from_be_bytes(*set)),
            kind: *kind,
            term: u64::from_be_bytes(*term),
            index: u64::from_be_bytes(*index),
            now_s: u32::from_be_bytes(*now_s),
            body_bytes: u32::from_be_bytes(rest.try_into().ok()?),
        };
        (head.term >= LONE_TERM).then_some(head)
    }
}

/// How far the log of a set is, as every segment says at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each set at the beginning of a segment, and none lives long"
)]
pub enum SetState {
    /// A set of one member: nothing but its last entry is to be known.
    Lone {
        set: SetId,
        index: u64,
    },
    Group(GroupState),
    Gone(Gone),
}

/// The first byte of a *states* record where all sets have one member.
const STATES_LONE: u8 = 1;
/// Its first byte where some have several, or had.
const STATES_MIXED: u8 = 2;
const STATE_LONE: u8 = 0;
const STATE_GROUP: u8 = 1;
const STATE_GONE: u8 = 2;
pub fn encode_states(states: impl Iterator<Item = SetState> + Clone, out: &mut Vec<u8>) {
    let are_lone = states.clone().all(|state| matches!(state, SetState::Lone { .. }));
    out.push(if are_lone { STATES_LONE } else { STATES_MIXED });
    for state in states {
        match state {
            SetState::Lone { set, index } => {
                out.extend_from_slice(&set.0.to_be_bytes());
                out.push(STATE_LONE);
                out.extend_from_slice(&LONE_TERM.to_be_bytes());
                out.extend_from_slice(&index.to_be_bytes());
            }
            SetState::Group(state) => {
                out.extend_from_slice(&state.set.0.to_be_bytes());
                out.push(STATE_GROUP);
                push_measured(out, |out| state.encode(out));
            }
            SetState::Gone(gone) => {
                out.extend_from_slice(&gone.set.0.to_be_bytes());
                out.push(STATE_GONE);
                push_measured(out, |out| gone.encode(out));
            }
        }
    }
}

/// Appends the length (2) of what `push` appends, and that.
fn push_measured(out: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    push(&mut bytes);
    assert!(bytes.len() <= usize::from(u16::MAX), "the members of a set are bounded");
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(&bytes);
}

pub fn decode_states(body: &[u8]) -> Option<Vec<SetState>> {
    let (version, mut rest) = body.split_first()?;
    let mut states = Vec::new();
    while !rest.is_empty() {
        let (set, behind) = rest.split_first_chunk::<4>()?;
        let set = SetId(u32::from_be_bytes(*set));
        let ([kind], behind) = behind.split_first_chunk::<1>()?;
        let (state, behind) = match (*version, *kind) {
            (STATES_LONE | STATES_MIXED, STATE_LONE) => {
                let (term, behind) = behind.split_first_chunk::<8>()?;
                let (index, behind) = behind.split_first_chunk::<8>()?;
                let index = u64::from_be_bytes(*index);
                let is_lone = u64::from_be_bytes(*term) == LONE_TERM;
                (is_lone.then_some(SetState::Lone { set, index })?, behind)
            }
            (STATES_MIXED, STATE_GROUP | STATE_GONE) => {
                let (length, behind) = behind.split_first_chunk::<2>()?;
                let length = usize::from(u16::from_be_bytes(*length));
                let (bytes, behind) = behind.split_at_checked(length)?;
                let (of, state) = match *kind {
                    STATE_GROUP => {
                        let state = GroupState::decode(bytes)?;
                        (state.set, SetState::Group(state))
                    }
                    _ => {
                        let gone = Gone::decode(bytes)?;
                        (gone.set, SetState::Gone(gone))
                    }
                };
                ((of == set).then_some(state)?, behind)
            }
            _ => return None,
        };
        states.push(state);
        rest = behind;
    }
    matches!(*version, STATES_LONE | STATES_MIXED).then_some(states)
}

/// One entry of a replica set within a change of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId {
    pub set: SetId,
    pub index: u64,
}

pub const ENTRY_ID_BYTES: usize = 12;

/// Appends the record and returns its checksum, the next link of the chain.
pub fn push_record(
    out: &mut Vec<u8>,
    chain: u32,
    kind: RecordKind,
    head: &[u8],
    body: &[u8],
    body_checksum: u32,
) -> u32 {
    assert!(head.len() <= usize::from(u16::MAX), "a head is bounded where room is made for it");
    assert!(u32::try_from(head.len() + body.len()).is_ok(), "a record is smaller than a segment");
    let length = (head.len() + body.len()) as u32;
    let head_length = head.len() as u16;
    let checksum = record_checksum(chain, length, kind as u8, head, body_checksum);
    let [l0, l1, l2, l3] = length.to_be_bytes();
    let [c0, c1, c2, c3] = checksum.to_be_bytes();
    let [h0, h1] = head_length.to_be_bytes();
    out.reserve(record_bytes(head.len(), body.len()));
    out.extend_from_slice(&[l0, l1, l2, l3, kind as u8, c0, c1, c2, c3, h0, h1]);
    out.extend_from_slice(head);
    out.extend_from_slice(body);
    checksum
}

/// Heads up to this long, of two entries, are summed in one step: a sum of few bytes costs hardly more than beginning it.
const SUMMED_AT_ONCE: usize = 4 + 1 + 2 + 2 * ENTRY_HEAD_BYTES + 4;

fn record_checksum(chain: u32, length: u32, kind: u8, head: &[u8], body_checksum: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(chain);
    let [l0, l1, l2, l3] = length.to_be_bytes();
    let [h0, h1] = (head.len() as u16).to_be_bytes();
    let begin = [l0, l1, l2, l3, kind, h0, h1];
    let parts: [&[u8]; 3] = [&begin, head, &body_checksum.to_be_bytes()];
    let mut space = [0; SUMMED_AT_ONCE];
    let mut used = 0;
    for part in parts {
        match space.get_mut(used..used + part.len()) {
            Some(place) => {
                place.copy_from_slice(part);
                used += part.len();
            }
            None => {
                hasher.update(space.get(..used).unwrap_or_default());
                used = 0;
                hasher.update(part);
            }
        }
    }
    hasher.update(space.get(..used).unwrap_or_default());
    hasher.finalize()
}

/// How many bytes a record takes.
pub fn record_bytes(head: usize, body: usize) -> usize {
    RECORD_HEAD_BYTES + head + body
}

/// A record, borrowed from the bytes of a segment.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    pub kind: u8,
    pub checksum: u32,
    pub head: &'a [u8],
    pub body: &'a [u8],
}

impl RecordRef<'_> {
    pub fn bytes(&self) -> usize {
        record_bytes(self.head.len(), self.body.len())
    }
}

/// What stands at a place of a segment.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    Record(RecordRef<'a>),
    /// Zeros: nothing was written here.
    Blank,
    /// Neither a record that follows its predecessor nor blank.
    Bad,
}

/// Reads the frame at the start of `bytes`.
pub fn read_frame(bytes: &[u8], chain: u32) -> Frame<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<RECORD_HEAD_BYTES>() else {
        return if bytes.iter().all(|byte| *byte == 0) { Frame::Blank } else { Frame::Bad };
    };
    let [l0, l1, l2, l3, kind, c0, c1, c2, c3, h0, h1] = *head;
    if *head == [0; RECORD_HEAD_BYTES] {
        return Frame::Blank;
    }
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    let checksum = u32::from_be_bytes([c0, c1, c2, c3]);
    let head_length = usize::from(u16::from_be_bytes([h0, h1]));
    let Some(payload) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else {
        return Frame::Bad;
    };
    let Some((head, body)) = payload.split_at_checked(head_length) else {
        return Frame::Bad;
    };
    if record_checksum(chain, length, kind, head, crc32fast::hash(body)) != checksum {
        return Frame::Bad;
    }
    Frame::Record(RecordRef { kind, checksum, head, body })
}

/// Kind and body of what may be a record at the start of `bytes`, and what comes behind it.
pub fn split_record(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<RECORD_HEAD_BYTES>()?;
    let [l0, l1, l2, l3, kind, _, _, _, _, h0, h1] = *head;
    let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).ok()?;
    let (payload, behind) = rest.split_at_checked(length)?;
    let body = payload.get(usize::from(u16::from_be_bytes([h0, h1]))..)?;
    (kind != 0).then_some((kind, body, behind))
}

/// The head of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHead {
    /// Where in the log it begins.
    pub start: Position,
    /// The checksum of the last record before it.
    pub chain: u32,
}

/// Why the head of a segment cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHead {
    /// Zeros: the segment was made ready, and never begun.
    Blank,
    Damaged,
    UnknownVersion(u16),
}

impl SegmentHead {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&LOG_VERSION.to_be_bytes());
        out.extend_from_slice(&(SEGMENT_HEAD_BYTES as u16).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.start.to_be_bytes());
        out.extend_from_slice(&self.chain.to_be_bytes());
        let checksum = crc32fast::hash(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&checksum.to_be_bytes());
    }

    pub fn decode(bytes: &[u8]) -> Result<SegmentHead, BadHead> {
        let head = bytes.first_chunk::<SEGMENT_HEAD_BYTES>().ok_or(BadHead::Damaged)?;
        if *head == [0; SEGMENT_HEAD_BYTES] {
            return Err(BadHead::Blank);
        }
        let (checked, checksum) = head.split_last_chunk::<4>().ok_or(BadHead::Damaged)?;
        if crc32fast::hash(checked) != u32::from_be_bytes(*checksum) {
            return Err(BadHead::Damaged);
        }
        let (magic, rest) = checked.split_first_chunk::<8>().ok_or(BadHead::Damaged)?;
        if *magic != SEGMENT_MAGIC {
            return Err(BadHead::Damaged);
        }
        let (version, rest) = rest.split_first_chunk::<2>().ok_or(BadHead::Damaged)?;
        let version = u16::from_be_bytes(*version);
        if !(LOG_VERSION_MIN..=LOG_VERSION).contains(&version) {
            return Err(BadHead::UnknownVersion(version));
        }
        let (start, chain) =
            rest.get(6..).and_then(|rest| rest.split_first_chunk::<8>()).ok_or(BadHead::Damaged)?;
        let chain = chain.first_chunk::<4>().ok_or(BadHead::Damaged)?;
        Ok(SegmentHead { start: u64::from_be_bytes(*start), chain: u32::from_be_bytes(*chain) })
    }
}

/// What a group says about the log. It can be recognised without what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where its record begins.
    pub position: Position,
    /// Everything before this was synced when the group was gathered.
    pub synced: Position,
    /// The first position that is still needed.
    pub oldest: Position,
    /// No entry before it has a later second, none behind it an earlier one. Zero in version 1.
    pub now_s: u32,
}

impl Mark {
    pub fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        let (checked, checksum) = bytes.split_at_mut(MARK_BYTES - 4);
        let parts = [
            MARK_MAGIC,
            self.position.to_be_bytes(),
            self.synced.to_be_bytes(),
            self.oldest.to_be_bytes(),
        ];
        let (numbers, now_s) = checked.split_at_mut(MARK_BYTES - 8);
        for (slot, part) in numbers.chunks_exact_mut(8).zip(parts) {
            slot.copy_from_slice(&part);
        }
        now_s.copy_from_slice(&self.now_s.to_be_bytes());
        checksum.copy_from_slice(&crc32fast::hash(checked).to_be_bytes());
        bytes
    }

    /// How many bytes a mark takes that begins so.
    pub fn encoded_bytes(bytes: &[u8]) -> Option<usize> {
        match *bytes.first_chunk::<8>()? {
            MARK_MAGIC => Some(MARK_BYTES),
            FIRST_MARK_MAGIC => Some(FIRST_MARK_BYTES),
            _ => None,
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Mark> {
        let bytes = bytes.get(..Mark::encoded_bytes(bytes)?)?;
        let (checked, checksum) = bytes.split_last_chunk::<4>()?;
        let (_, rest) = checked.split_first_chunk::<8>()?;
        if crc32fast::hash(checked) != u32::from_be_bytes(*checksum) {
            return None;
        }
        let (numbers, now_s) = rest.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|chunk| u64::from_be_bytes(*chunk));
        Some(Mark {
            position: numbers.next()?,
            synced: numbers.next()?,
            oldest: numbers.next()?,
            now_s: now_s.first_chunk::<4>().map_or(0, |now_s| u32::from_be_bytes(*now_s)),
        })
    }

    /// Every mark in a run of bytes that may begin anywhere.
    pub fn search(bytes: &[u8]) -> impl Iterator<Item = Mark> + '_ {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let [first, ..] = MARK_MAGIC;
            while let Some(rest) = bytes.get(offset..) {
                // A whole log file may have to be looked through, at every start after a crash.
                let found = rest.iter().position(|byte| *byte == first)?;
                offset += found + 1;
                if let Some(mark) = rest.get(found..).and_then(Mark::decode) {
                    return Some(mark);
                }
            }
            None
        })
    }
}
