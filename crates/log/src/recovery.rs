//! Reading the log back after a stop of any kind.
//!
//! A record that does not follow its predecessor is one of two things. If some group further on says
//! that the log was synced past it, it was on the disk and is not any more: damage, and the log is
//! refused. Otherwise it is the torn end of a log whose last writes never reached the disk, and is
//! cut. Nothing is written here: the next segment begins where the good records end, and what stands
//! behind them in the old file is thereby never read again.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use types::{ReplicaId, SetId, TableId};

use crate::broken::{Rule, breaks};
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{
    BadHead, ENTRY_ID_BYTES, EntryHead, EntryId, Frame, Mark, Position, RECORD_HEAD_BYTES,
    RecordKind, RecordRef, SEGMENT_HEAD_BYTES, SegmentHead, SetState, decode_states, read_frame,
    split_record,
};
use crate::gather::{SPARE_PREFIX, segment_name};
use crate::group::{Gap, Gone, GroupState, RecoveredGroup, Slot};

/// What the log holds, and where it goes on.
#[derive(Debug, Default)]
pub struct Recovered {
    pub end: Position,
    pub chain: u32,
    pub indexes: HashMap<SetId, u64, FixedState>,
    /// The members of sets with several that this node has.
    pub groups: BTreeMap<SetId, RecoveredGroup>,
    /// The members that were taken away.
    pub gone: BTreeMap<SetId, ReplicaId>,
    /// Members that were handed rows, and where the log says so.
    pub installs: BTreeMap<SetId, (Position, GroupState)>,
    /// The latest second of an entry of a set with one member.
    pub now_s: u32,
    pub oldest: Position,
    pub segment_starts: Vec<Position>,
    /// How many bytes behind the last good record were cut.
    pub torn_bytes: u64,
}

/// A record that changes tables.
#[derive(Debug)]
pub enum Replayed {
    /// Entries with their bodies, in order.
    Entries {
        position: Position,
        entries: Vec<(EntryHead, Bytes)>,
    },
    /// As version 1 wrote it.
    Change {
        position: Position,
        entries: Vec<EntryId>,
        body: Bytes,
    },
    Truncate {
        position: Position,
        table: TableId,
    },
    Drop {
        table: TableId,
    },
}

/// Reads every record in order and hands those that change tables to `replay`.
pub fn recover<E: From<LogError>>(
    disk: &Arc<dyn Disk>,
    mut replay: impl FnMut(Replayed) -> Result<(), E>,
) -> Result<Recovered, E> {
    let mut recovered = Recovered::default();
    let Segments { segments, removed, needed_from, newest_missing } = find_segments(disk)?;
    if let Some(path) = newest_missing {
        return Err(damaged(path, 0, NEWEST_MISSING).into());
    }
    for name in removed {
        disk.remove(&name).map_err(LogError::io(disk.path(&name)))?;
    }
    let mut last_mark_oldest = None;
    for (number, (start, name)) in segments.iter().enumerate() {
        let is_last = number + 1 == segments.len();
        let path = disk.path(name);
        let mut file = disk.open(name).map_err(LogError::io(&path))?;
        // What is read may be in the operating system's memory only; trees must not outlive it.
        file.sync().map_err(LogError::io(&path))?;
        let bytes = Bytes::from(file.read_all().map_err(LogError::io(&path))?);
        match head_of(&bytes, *start) {
            Ok(head) if head.start == *start && is_next(&recovered, head, number) => {
                recovered.end = head.start;
                recovered.chain = head.chain;
            }
            // Begun after the last sync: what it held was promised to nobody. The next one takes its
            // place under the same name.
            Err(BadHead::Blank | BadHead::Damaged)
                if is_last && !knows_of_a_sync(&bytes, *start) =>
            {
                if *start != recovered.end {
                    disk.remove(name).map_err(LogError::io(&path))?;
                }
                break;
            }
            Ok(_) => {
                let what = "the segment before it is missing or cut short";
                return Err(damaged(path, 0, what).into());
            }
            Err(BadHead::UnknownVersion(version)) => {
                return Err(LogError::UnknownVersion { path, version }.into());
            }
            Err(BadHead::Blank | BadHead::Damaged) => {
                return Err(damaged(path, 0, "the head of the segment is not readable").into());
            }
        }
        recovered.segment_starts.push(*start);
        recovered.end += SEGMENT_HEAD_BYTES as u64;
        let mut segment = Segment { path, bytes, start: *start };
        let read = segment.read(&mut recovered, &mut last_mark_oldest, needed_from, &mut replay);
        read.map_err(Stopped::into_error)?;
        let is_followed = segments.get(number + 1).is_some_and(|(next, _)| *next == recovered.end);
        if !is_followed {
            check_tail(disk, &segment, &segments, number, &mut recovered)?;
        }
    }
    for group in recovered.groups.values_mut() {
        let what = "what the log says of a replica set cannot be";
        let path = segments.last().map_or_else(|| disk.path(""), |(_, name)| disk.path(name));
        group.settle().ok_or_else(|| damaged(path, 0, what))?;
    }
    recovered.oldest = last_mark_oldest.unwrap_or(recovered.end);
    if let Some((first, name)) = segments.first()
        && *first > recovered.oldest
    {
        return Err(damaged(disk.path(name), 0, "the segment before it is missing").into());
    }
    Ok(recovered)
}

/// The head of a segment. That of the segment which the file was before it was used again is none.
pub(crate) fn head_of(bytes: &[u8], start: Position) -> Result<SegmentHead, BadHead> {
    match SegmentHead::decode(bytes) {
        Ok(head) if head.start < start => Err(BadHead::Blank),
        other => other,
    }
}

pub(crate) const NEWEST_MISSING: &str = "the newest segment of the log is missing";

/// What of the log is on the disk.
pub(crate) struct Segments {
    /// The segments by their start.
    pub(crate) segments: Vec<(Position, String)>,
    /// Those that were removed before, and came back with a loss of power; perhaps not all of them did.
    removed: Vec<String>,
    /// What the newest mark says is needed.
    needed_from: Position,
    /// The newest segment that was ever begun is not there, nor a later one.
    pub(crate) newest_missing: Option<PathBuf>,
}

pub(crate) fn find_segments(disk: &Arc<dyn Disk>) -> Result<Segments, LogError> {
    let mut segments = list_segments(disk)?;
    let newest = disk.newest().map_err(LogError::io(disk.path("")))?;
    let is_missing = |newest: &Position| segments.last().is_some_and(|(last, _)| last < newest);
    let newest_missing = newest.filter(is_missing).map(|start| disk.path(&segment_name(start)));
    let needed_from = needed_from(disk, &segments)?;
    let first = segments.iter().rposition(|(start, _)| *start <= needed_from).unwrap_or(0);
    let removed = segments.drain(..first).map(|(_, name)| name).collect();
    Ok(Segments { segments, removed, needed_from, newest_missing })
}

fn is_next(recovered: &Recovered, head: SegmentHead, number: usize) -> bool {
    number == 0 || head.start == recovered.end && head.chain == recovered.chain
}

/// The segments by their start. Spares of an earlier run go.
fn list_segments(disk: &Arc<dyn Disk>) -> Result<Vec<(Position, String)>, LogError> {
    let mut segments = Vec::new();
    for name in disk.list().map_err(LogError::io(disk.path("")))? {
        if name.starts_with(SPARE_PREFIX) {
            disk.remove(&name).map_err(LogError::io(disk.path(&name)))?;
        } else if let Some(start) = name.strip_suffix(".log") {
            let start = Position::from_str_radix(start, 16)
                .map_err(|_| damaged(disk.path(&name), 0, "not the name of a log segment"))?;
            segments.push((start, name));
        }
    }
    segments.sort();
    Ok(segments)
}

/// What the newest mark says is still needed: earlier changes are all in sorted files, and need not
/// be decoded. Found by walking over the records of the last segments without summing them.
fn needed_from(
    disk: &Arc<dyn Disk>,
    segments: &[(Position, String)],
) -> Result<Position, LogError> {
    for (start, name) in segments.iter().rev() {
        let path = disk.path(name);
        let file = disk.open(name).map_err(LogError::io(&path))?;
        let bytes = file.read_all().map_err(LogError::io(&path))?;
        let mut rest = bytes.get(SEGMENT_HEAD_BYTES..).unwrap_or_default();
        let mut newest = None;
        while let Some((kind, body, behind)) = split_record(rest) {
            let position = start + (bytes.len() - rest.len()) as u64;
            if RecordKind::from_byte(kind) == Some(RecordKind::Mark) {
                // One of another place is from before the file was used again.
                let mark = Mark::decode(body).filter(|mark| mark.position == position);
                newest = mark.map(|mark| mark.oldest).or(newest);
            }
            rest = behind;
        }
        if let Some(oldest) = newest {
            return Ok(oldest);
        }
    }
    Ok(0)
}

/// Whether a mark in these bytes says that the log was synced past a place.
pub(crate) fn knows_of_a_sync(bytes: &[u8], past: Position) -> bool {
    bytes.iter().any(|byte| *byte != 0) && Mark::search(bytes).any(|mark| mark.synced > past)
}

/// After the last good record: torn, or damaged?
fn check_tail(
    disk: &Arc<dyn Disk>,
    segment: &Segment,
    segments: &[(Position, String)],
    number: usize,
    recovered: &mut Recovered,
) -> Result<(), LogError> {
    let offset = recovered.end - segment.start;
    let tail = segment.tail(recovered.end);
    let error =
        || damaged(segment.path.clone(), offset, "a record that was synced is not readable");
    if knows_of_a_sync(tail, recovered.end) {
        return Err(error());
    }
    for (start, name) in segments.iter().skip(number + 1) {
        let path = disk.path(name);
        let file = disk.open(name).map_err(LogError::io(&path))?;
        let bytes = file.read_all().map_err(LogError::io(&path))?;
        if knows_of_a_sync(&bytes, recovered.end) || head_of(&bytes, *start).is_ok() {
            // A segment is only begun when the one before it is synced.
            return Err(error());
        }
    }
    let torn = tail.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    // What stands behind may also be left from before the file was used again.
    if torn > 0 && !Mark::search(tail).any(|mark| mark.position < segment.start) {
        recovered.torn_bytes = torn;
    }
    Ok(())
}

/// Why reading stopped.
pub(crate) enum Stopped<E> {
    Log(LogError),
    /// Whoever was handed a record could not take it.
    Replay(E),
}

impl<E: From<LogError>> Stopped<E> {
    fn into_error(self) -> E {
        match self {
            Stopped::Log(error) => error.into(),
            Stopped::Replay(error) => error,
        }
    }
}

pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Bytes,
    pub(crate) start: Position,
}

impl Segment {
    pub(crate) fn tail(&self, from: Position) -> &[u8] {
        usize::try_from(from - self.start)
            .ok()
            .and_then(|offset| self.bytes.get(offset..))
            .unwrap_or_default()
    }

    /// Reads records up to the first that is none.
    pub(crate) fn read<E>(
        &mut self,
        recovered: &mut Recovered,
        last_mark_oldest: &mut Option<Position>,
        needed_from: Position,
        replay: &mut impl FnMut(Replayed) -> Result<(), E>,
    ) -> Result<(), Stopped<E>> {
        loop {
            let position = recovered.end;
            let record = match read_frame(self.tail(position), recovered.chain) {
                Frame::Record(record) => record,
                Frame::Blank | Frame::Bad => return Ok(()),
            };
            let malformed = || {
                let offset = position - self.start;
                damaged(self.path.clone(), offset, "a record does not follow its format")
            };
            let next = position + record.bytes() as u64;
            let checksum = record.checksum;
            match RecordKind::from_byte(record.kind) {
                Some(RecordKind::Mark) => {
                    let mark =
                        Mark::decode(record.body).ok_or_else(malformed).map_err(Stopped::Log)?;
                    *last_mark_oldest = Some(mark.oldest);
                    recovered.now_s = recovered.now_s.max(mark.now_s);
                }
                Some(RecordKind::States) => {
                    let states = decode_states(record.body);
                    for state in states.ok_or_else(malformed).map_err(Stopped::Log)? {
                        recovered.take_state(state).ok_or_else(malformed).map_err(Stopped::Log)?;
                    }
                }
                Some(
                    kind @ (RecordKind::GroupState
                    | RecordKind::Birth
                    | RecordKind::Gone
                    | RecordKind::Install),
                ) => {
                    let taken = recovered.take_member(kind, position, record.body);
                    taken.ok_or_else(malformed).map_err(Stopped::Log)?;
                }
                Some(RecordKind::Entries) => {
                    let heads = EntryHead::decode_all(record.head, record.body.len())
                        .ok_or_else(malformed)
                        .map_err(Stopped::Log)?;
                    let are_lone = recovered
                        .take_entries(position, record.head.len(), &heads)
                        .ok_or_else(malformed)
                        .map_err(Stopped::Log)?;
                    if position >= needed_from && are_lone {
                        let entries = with_bodies(heads, self.bytes.slice_ref(record.body));
                        replay(Replayed::Entries { position, entries }).map_err(Stopped::Replay)?;
                    }
                }
                Some(RecordKind::SetIndexes) => {
                    for id in entry_ids(record.body).ok_or_else(malformed).map_err(Stopped::Log)? {
                        recovered.indexes.insert(id.set, id.index);
                    }
                }
                Some(RecordKind::Change) => {
                    let entries =
                        entry_ids(record.head).ok_or_else(malformed).map_err(Stopped::Log)?;
                    for id in &entries {
                        recovered.indexes.insert(id.set, id.index);
                    }
                    if position >= needed_from {
                        let body = self.bytes.slice_ref(record.body);
                        replay(Replayed::Change { position, entries, body })
                            .map_err(Stopped::Replay)?;
                    }
                }
                Some(RecordKind::Truncate) => {
                    let table = table_id(&record).ok_or_else(malformed).map_err(Stopped::Log)?;
                    replay(Replayed::Truncate { position, table }).map_err(Stopped::Replay)?;
                }
                Some(RecordKind::Drop) => {
                    replay(Replayed::Drop {
                        table: table_id(&record).ok_or_else(malformed).map_err(Stopped::Log)?,
                    })
                    .map_err(Stopped::Replay)?;
                }
                Some(RecordKind::SegmentEnd) => {
                    recovered.end = next;
                    recovered.chain = checksum;
                    return Ok(());
                }
                None => {
                    let (path, version) = (self.path.clone(), u16::from(record.kind));
                    return Err(Stopped::Log(LogError::UnknownVersion { path, version }));
                }
            }
            recovered.end = next;
            recovered.chain = checksum;
        }
    }
}

impl Recovered {
    /// The last entry of every set.
    pub fn all_indexes(&self) -> HashMap<SetId, u64, FixedState> {
        let mut indexes = self.indexes.clone();
        // Of members that were taken away, and that one on this node was before another, trees may still hold rows.
        indexes.extend(self.gone.keys().map(|set| (*set, u64::MAX)));
        let last = |group: &RecoveredGroup| match group.table.last().index {
            0 => u64::MAX,
            last => last,
        };
        indexes.extend(self.groups.iter().map(|(set, group)| (*set, last(group))));
        indexes
    }

    /// What the log says of a set; `None` if that cannot follow what it said before.
    fn take_state(&mut self, state: SetState) -> Option<()> {
        match state {
            SetState::Lone { set, index } => {
                self.indexes.insert(set, index);
            }
            SetState::Group(state) => match self.groups.get_mut(&state.set) {
                Some(group) => group.renew(state)?,
                None => {
                    self.groups.insert(state.set, RecoveredGroup::new(state));
                }
            },
            SetState::Gone(gone) => {
                self.gone.insert(gone.set, gone.highest);
            }
        }
        Some(())
    }

    /// What a record says of a member of a set with several; `None` if that cannot be.
    fn take_member(&mut self, kind: RecordKind, position: Position, body: &[u8]) -> Option<()> {
        if kind == RecordKind::Gone {
            let Gone { set, highest } = Gone::decode(body)?;
            self.groups.remove(&set);
            self.installs.remove(&set);
            self.gone.insert(set, highest);
            return Some(());
        }
        let state = GroupState::decode(body)?;
        if kind == RecordKind::GroupState {
            return self.take_state(SetState::Group(state));
        }
        if kind == RecordKind::Install {
            // It is the same member, and knows what it voted.
            let before = &self.groups.get(&state.set)?.state;
            if before.replica != state.replica || before.term > state.term {
                return None;
            }
            self.installs.insert(state.set, (position, state.clone()));
        } else {
            self.installs.remove(&state.set);
            self.gone.remove(&state.set);
        }
        self.groups.insert(state.set, RecoveredGroup::new(state));
        Some(())
    }

    /// Notes the entries of a record, and tells whether they are of sets with one member: those are committed by
    /// being here. `None` if they cannot follow what was there before.
    fn take_entries(
        &mut self,
        record: Position,
        head_bytes: usize,
        heads: &[EntryHead],
    ) -> Option<bool> {
        let mut are_lone = true;
        let mut body = record + (RECORD_HEAD_BYTES + head_bytes) as u64;
        for head in heads {
            match self.groups.get_mut(&head.set) {
                None => {
                    self.indexes.insert(head.set, head.index);
                    self.now_s = self.now_s.max(head.now_s);
                }
                Some(group) => {
                    are_lone = false;
                    let EntryHead { term, kind, now_s, body_bytes, .. } = *head;
                    let slot = Slot { term, kind, now_s, record, body, body_bytes };
                    // One before those that were found, where the log was cut in between, takes all of them back.
                    let is_before = group.table.is_begun_behind(head.index)
                        && head.index > group.state.cut.index;
                    if is_before || group.table.put(head.index, slot) == Err(Gap) {
                        group.table.begin_at(head.index, slot);
                    }
                }
            }
            body += u64::from(head.body_bytes);
        }
        // Only sets with one member share a record.
        (are_lone || heads.iter().all(|head| Some(head.set) == heads.first().map(|it| it.set)))
            .then_some(are_lone)
    }
}

/// The second pass: hands over those entries of sets with several members that no later entry took the place of, and
/// that are known to be committed, in the order of the log.
pub fn replay_groups<E: From<LogError>>(
    disk: &Arc<dyn Disk>,
    recovered: &Recovered,
    mut replay: impl FnMut(Replayed) -> Result<(), E>,
) -> Result<(), E> {
    if recovered.groups.is_empty() {
        return Ok(());
    }
    for start in &recovered.segment_starts {
        let name = segment_name(*start);
        let path = disk.path(&name);
        let file = disk.open(&name).map_err(LogError::io(&path))?;
        let bytes = Bytes::from(file.read_all().map_err(LogError::io(&path))?);
        let Ok(head) = head_of(&bytes, *start) else {
            return Err(damaged(path, 0, "the head of the segment is not readable").into());
        };
        let (mut position, mut chain) = (start + SEGMENT_HEAD_BYTES as u64, head.chain);
        let segment = Segment { path, bytes, start: *start };
        while position < recovered.end {
            let Frame::Record(record) = read_frame(segment.tail(position), chain) else { break };
            if RecordKind::from_byte(record.kind) == Some(RecordKind::Entries)
                && let Some(heads) = EntryHead::decode_all(record.head, record.body.len())
            {
                let body = segment.bytes.slice_ref(record.body);
                let mut entries = with_bodies(heads, body);
                entries.retain(|(head, _)| recovered.is_committed(head, position));
                if !entries.is_empty() {
                    replay(Replayed::Entries { position, entries })?;
                }
            }
            position += record.bytes() as u64;
            chain = record.checksum;
        }
    }
    Ok(())
}

impl Recovered {
    /// Whether the entry of a set with several members that stands at a place is the one that counts, and is committed.
    fn is_committed(&self, head: &EntryHead, record: Position) -> bool {
        if breaks(Rule::ApplyTakenBack) {
            let group = self.groups.get(&head.set);
            return group.is_some_and(|group| head.index <= group.state.commit);
        }
        self.groups.get(&head.set).is_some_and(|group| {
            let slot = group.table.slot(head.index);
            (head.index <= group.state.commit || breaks(Rule::ApplyUncommitted))
                && slot.is_some_and(|slot| slot.record == record && slot.term == head.term)
        })
    }
}

/// The entries of a record, each with its part of the body.
fn with_bodies(heads: Vec<EntryHead>, mut body: Bytes) -> Vec<(EntryHead, Bytes)> {
    let with_body = |head: EntryHead| {
        // Their sum was looked at.
        let bytes = body.split_to((head.body_bytes as usize).min(body.len()));
        (head, bytes)
    };
    heads.into_iter().map(with_body).collect()
}

fn damaged(path: PathBuf, offset: u64, what: &'static str) -> LogError {
    LogError::Damaged { path, offset, what }
}

fn table_id(record: &RecordRef<'_>) -> Option<TableId> {
    record.body.try_into().ok().map(|bytes| TableId(u128::from_be_bytes(bytes)))
}

fn entry_ids(bytes: &[u8]) -> Option<Vec<EntryId>> {
    let (chunks, rest) = bytes.as_chunks::<ENTRY_ID_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    let ids = chunks.iter().map(|[s0, s1, s2, s3, index @ ..]| EntryId {
        set: SetId(u32::from_be_bytes([*s0, *s1, *s2, *s3])),
        index: u64::from_be_bytes(*index),
    });
    Some(ids.collect())
}
