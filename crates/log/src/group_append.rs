//! Appending for sets with several members: entries with the places that their leader gave them, and states.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use types::{ReplicaId, SetId};

use crate::frame::{
    ENTRY_HEAD_BYTES, EntryHead, MARK_BYTES, Position, RECORD_HEAD_BYTES, RecordKind, record_bytes,
};
use crate::gather::{AppendError, Appended, Log};
use crate::group::{Gone, GroupState, Slot};

/// So many entries go into one record: their heads must fit into its head.
const ENTRIES_PER_RECORD_MAX: usize = 1024;

/// An entry of a set with several members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    pub kind: u8,
    pub term: u64,
    pub index: u64,
    /// The second at which it is judged, given by its leader.
    pub now_s: u32,
    pub body: Bytes,
}

/// What is to be appended for one set: its state, if that changed, and behind it entries without a gap.
#[derive(Clone, Debug, Default)]
pub struct GroupAppend {
    pub state: Option<GroupState>,
    pub entries: Vec<GroupEntry>,
    /// The state is that of a member which was handed rows, and stands for itself: see [`Log::append_install`].
    pub is_install: bool,
    /// The state is that of a member which begins here because its set was split off another, and stands for itself.
    pub is_birth: bool,
}

/// A state has fewer bytes: its members are bounded.
const STATE_BYTES_MAX: usize = 4 * 1024;

impl GroupAppend {
    /// It takes no more bytes of the log than these.
    fn bytes_max(&self) -> usize {
        let state = if self.state.is_some() { STATE_BYTES_MAX } else { 0 };
        let of_entry = |entry: &GroupEntry| record_bytes(ENTRY_HEAD_BYTES, entry.body.len());
        state + self.entries.iter().map(of_entry).sum::<usize>()
    }
}

impl<J: Send + 'static> Log<J> {
    /// Appends what came for a set. Returns where each entry is. After an error a part of it may be in the log: appended again,
    /// that part is a copy.
    pub fn append_group(&self, set: SetId, append: &GroupAppend) -> Result<Vec<Slot>, AppendError> {
        if let Some(state) = &append.state {
            assert_eq!(state.set, set, "a state is of its set");
            let is_alone = append.is_install || append.is_birth;
            assert!(!is_alone, "what was handed over, or is born, is appended by itself");
            self.append_state(RecordKind::GroupState, state)?;
        }
        let mut slots = Vec::with_capacity(append.entries.len());
        let mut entries = append.entries.as_slice();
        while !entries.is_empty() {
            let count = self.entries_that_fit(entries);
            let (now, later) = entries.split_at(count);
            self.append_group_entries(set, now, &mut slots)?;
            entries = later;
        }
        Ok(slots)
    }

    /// Whether that, and that it is awaited, waits for no room.
    pub fn has_room_for(&self, append: &GroupAppend) -> bool {
        let bytes = append.bytes_max() + record_bytes(0, MARK_BYTES);
        bytes as u64 <= self.shared.segment_bytes / 2 && self.may_fit(bytes)
    }

    /// A member begins.
    pub fn append_birth(&self, state: &GroupState) -> Result<Appended, AppendError> {
        self.append_state(RecordKind::Birth, state)
    }

    /// The last entry of a set of one member; zero without any.
    pub fn lone_index(&self, set: SetId) -> u64 {
        self.shared.gathering.lock().indexes.get(&set).copied().unwrap_or(0)
    }

    /// A member goes on over rows that it was handed.
    pub fn append_install(&self, state: &GroupState) -> Result<Appended, AppendError> {
        self.append_state(RecordKind::Install, state)
    }

    /// A member was taken away.
    pub fn append_gone(&self, set: SetId, highest: ReplicaId) -> Result<Appended, AppendError> {
        let mut body = Vec::new();
        Gone { set, highest }.encode(&mut body);
        let mut gathering = self.make_room(0, body.len(), true)?;
        gathering.groups.remove(&set);
        let highest = gathering.gone.get(&set).map_or(highest, |known| highest.max(*known));
        gathering.gone.insert(set, highest);
        let synced = self.shared.synced.load(Ordering::Acquire);
        Ok(gathering.push(RecordKind::Gone, &[], &body, crc32fast::hash(&body), synced))
    }

    fn append_state(&self, kind: RecordKind, state: &GroupState) -> Result<Appended, AppendError> {
        let mut body = Vec::new();
        state.encode(&mut body);
        let mut gathering = self.make_room(0, body.len(), true)?;
        if kind == RecordKind::Birth {
            gathering.gone.remove(&state.set);
            gathering.indexes.remove(&state.set);
        }
        gathering.groups.insert(state.set, state.clone());
        let synced = self.shared.synced.load(Ordering::Acquire);
        Ok(gathering.push(kind, &[], &body, crc32fast::hash(&body), synced))
    }

    /// How many of the first entries go into one record; at least one.
    fn entries_that_fit(&self, entries: &[GroupEntry]) -> usize {
        let bytes_max = usize::try_from(self.shared.segment_bytes / 2).unwrap_or(usize::MAX);
        let mut bytes = record_bytes(0, 0);
        let fits = |entry: &&GroupEntry| {
            bytes = bytes.saturating_add(ENTRY_HEAD_BYTES + entry.body.len());
            bytes <= bytes_max
        };
        entries.iter().take(ENTRIES_PER_RECORD_MAX).take_while(fits).count().max(1)
    }

    fn append_group_entries(
        &self,
        set: SetId,
        entries: &[GroupEntry],
        slots: &mut Vec<Slot>,
    ) -> Result<(), AppendError> {
        let mut head = Vec::with_capacity(entries.len() * ENTRY_HEAD_BYTES);
        let mut body = Vec::with_capacity(entries.iter().map(|entry| entry.body.len()).sum());
        for entry in entries {
            let body_bytes = u32::try_from(entry.body.len());
            let body_bytes = body_bytes.map_err(|_| AppendError::TooLarge {
                bytes: entry.body.len(),
                bytes_max: u32::MAX as usize,
            })?;
            let GroupEntry { kind, term, index, now_s, .. } = *entry;
            EntryHead { set, kind, term, index, now_s, body_bytes }.encode(&mut head);
            body.extend_from_slice(&entry.body);
        }
        let checksum = crc32fast::hash(&body);
        let mut gathering = self.make_room(head.len(), body.len(), true)?;
        let synced = self.shared.synced.load(Ordering::Acquire);
        let appended = gathering.push(RecordKind::Entries, &head, &body, checksum, synced);
        let mut at = appended.position + (RECORD_HEAD_BYTES + head.len()) as u64;
        for entry in entries {
            let GroupEntry { kind, term, now_s, .. } = *entry;
            let body_bytes = entry.body.len() as u32;
            let record = appended.position;
            slots.push(Slot { term, kind, now_s, record, body: at, body_bytes });
            at += u64::from(body_bytes);
        }
        Ok(())
    }

    /// What is known to be committed, and is not worth a record of its own: the next segment says it.
    pub fn note_commits(&self, commits: impl IntoIterator<Item = (SetId, u64)>) {
        let mut gathering = self.shared.gathering.lock();
        for (set, commit) in commits {
            if let Some(state) = gathering.groups.get_mut(&set) {
                state.commit = state.commit.max(commit);
            }
        }
    }

    /// Has everything that was appended up to now written; `job` is handed over when it is durable. If it does not wake the writer, the
    /// caller sees to it with [`Log::write_or_wake`] or [`Log::wake`].
    pub fn await_durable(
        &self,
        wakes: bool,
        job: impl FnOnce(Position) -> J,
    ) -> Result<(), AppendError> {
        let mut gathering = self.make_room(0, MARK_BYTES, true)?;
        if gathering.marked_oldest.is_none() {
            let synced = self.shared.synced.load(Ordering::Acquire);
            gathering.push_mark(synced);
        }
        let end = gathering.next;
        let job = job(end);
        gathering.jobs.push(job);
        if wakes {
            self.wake_writer(gathering);
        }
        Ok(())
    }

    /// The disk under the log: what is handed over is kept beside it until it is in the trees.
    pub fn disk(&self) -> &std::sync::Arc<dyn crate::disk::Disk> {
        &self.shared.disk
    }

    /// The body of an entry, read from the disk.
    pub fn read_body(&self, slot: &Slot) -> std::io::Result<Bytes> {
        let start = {
            let gathering = self.shared.gathering.lock();
            let starts = gathering.segment_starts.iter().rev();
            starts.copied().find(|start| *start <= slot.record)
        };
        let start = start.ok_or(std::io::ErrorKind::NotFound)?;
        let file = self.shared.disk.open(&crate::gather::segment_name(start))?;
        let mut bytes = vec![0; slot.body_bytes as usize];
        file.read_at(slot.body - start, &mut bytes)?;
        Ok(Bytes::from(bytes))
    }
}
