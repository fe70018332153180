//! A member's log as consensus sees it: where entries are, the bodies of the recent ones, and what is known beside them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, StorageError};
use storage::broken::{Rule, breaks};
use storage::{
    Configuration, EntryPlace, GroupEntry, GroupState, GroupTable, RecoveredGroup, Slot,
};
use types::ReplicaId;

use super::changes::KIND_MEMBERS;

/// So many bytes of bodies are kept in memory for members that are a little behind.
const BODIES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Kind and second of an entry, as its head in the log says them. Kinds below 32 are storage's (see `storage/src/entry.rs`).
const CONTEXT_BYTES: usize = 1 + 4;

/// The kind of an entry that nobody asked for: a new leader's first.
pub(crate) const KIND_EMPTY: u8 = 0;

/// What is to be read from the disk before consensus can go on.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) context: GetEntriesContext,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// A member's log.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) state: GroupState,
    pub(crate) table: GroupTable,
    /// Of the last entries, without a gap up to the last.
    bodies: VecDeque<Bytes>,
    bodies_bytes: usize,
    /// What was read from the disk: from which index on.
    fetched: (u64, Vec<Bytes>),
    wanted: RefCell<Option<Wanted>>,
    /// Of a leader: images that members hold and may go on behind.
    pub(crate) offered: BTreeMap<u64, Snapshot>,
    /// Of a leader: members that need an image.
    wanted_images: RefCell<BTreeSet<u64>>,
    /// See [`Entries::context`].
    last_context: RefCell<((u8, u32), Bytes)>,
}

/// Kind and second of an entry stand in its context.
pub(crate) fn context_of(kind: u8, now_s: u32) -> Bytes {
    let mut context = Vec::with_capacity(CONTEXT_BYTES);
    context.push(kind);
    context.extend_from_slice(&now_s.to_be_bytes());
    Bytes::from(context)
}

/// Kind and second of a change of members, and the change as we write it, stand in its context.
pub(crate) fn change_context(now_s: u32, change: &[u8]) -> Bytes {
    let mut context = context_of(KIND_MEMBERS, now_s).to_vec();
    context.extend_from_slice(change);
    Bytes::from(context)
}

/// What stands in the log before an entry's body: kind and second. The empty one of a new leader has neither kind nor second. `None`
/// if they are not what a leader writes.
pub(crate) fn head_of(entry: &Entry) -> Option<(u8, u32)> {
    let is_change = match entry.get_entry_type() {
        EntryType::EntryNormal => false,
        EntryType::EntryConfChangeV2 => true,
        EntryType::EntryConfChange => return None,
    };
    match entry.context.split_first_chunk::<CONTEXT_BYTES>() {
        Some(([kind, s0, s1, s2, s3], rest)) => {
            let now_s = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
            let is_sound = is_change || rest.is_empty();
            ((*kind == KIND_MEMBERS) == is_change && is_sound).then_some((*kind, now_s))
        }
        None if entry.context.is_empty() && entry.data.is_empty() && !is_change => {
            Some((KIND_EMPTY, 0))
        }
        _ => None,
    }
}

/// What stands in the log for an entry: kind, second and body.
pub(crate) fn into_parts(mut entry: Entry) -> Option<(u8, u32, Bytes)> {
    let (kind, now_s) = head_of(&entry)?;
    let body = match kind {
        KIND_MEMBERS => entry.context.split_off(CONTEXT_BYTES),
        _ => std::mem::take(&mut entry.data),
    };
    Some((kind, now_s, body))
}

impl Entries {
    /// What the log of the node holds of a member; `bodies` are those of the last entries.
    pub(crate) fn new(recovered: RecoveredGroup, bodies: Vec<Bytes>) -> Entries {
        let RecoveredGroup { state, table } = recovered;
        assert!(bodies.len() as u64 <= table.last().index - table.cut().index, "bodies of entries");
        let bodies_bytes = bodies.iter().map(Bytes::len).sum();
        Entries {
            state,
            table,
            bodies: bodies.into(),
            bodies_bytes,
            fetched: (0, Vec::new()),
            wanted: RefCell::new(None),
            offered: BTreeMap::new(),
            wanted_images: RefCell::default(),
            last_context: RefCell::default(),
        }
    }

    /// The context of an entry. Nearly all of a second are of one kind: they share its bytes, here and in every message to a follower.
    pub(crate) fn context(&self, kind: u8, now_s: u32) -> Bytes {
        let mut last = self.last_context.borrow_mut();
        if last.0 != (kind, now_s) || last.1.is_empty() {
            *last = ((kind, now_s), context_of(kind, now_s));
        }
        last.1.clone()
    }

    fn bodies_from(&self) -> u64 {
        self.table.last().index + 1 - self.bodies.len() as u64
    }

    /// Whether the bodies of all entries from one on are in memory.
    pub(crate) fn has_bodies_from(&self, index: u64) -> bool {
        index > self.table.cut().index && index >= self.bodies_from()
    }

    /// Entries come, which are not yet in the log of the node. Returns them as the log wants them.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) -> Vec<GroupEntry> {
        let mut appended = Vec::with_capacity(entries.len());
        for entry in entries {
            let Entry { term, index, .. } = entry;
            let (kind, now_s, data) = into_parts(entry).unwrap_or((KIND_EMPTY, 0, Bytes::new()));
            let before = self.table.last().index;
            let body_bytes = data.len() as u32;
            let slot = Slot { term, kind, now_s, record: u64::MAX, body: u64::MAX, body_bytes };
            let put = self.table.put(index, slot);
            assert!(put.is_ok(), "consensus leaves no gap");
            // What it took the place of goes with everything behind it.
            for _ in index..=before {
                if let Some(gone) = self.bodies.pop_back() {
                    self.bodies_bytes -= gone.len();
                }
            }
            self.bodies_bytes += data.len();
            self.bodies.push_back(data.clone());
            appended.push(GroupEntry { kind, term, index, now_s, body: data });
        }
        appended
    }

    /// Entries are in the log of the node now, at these places.
    pub(crate) fn placed(&mut self, first: u64, slots: &[Slot]) {
        for (index, slot) in (first..).zip(slots) {
            // What was taken back meanwhile has no place.
            if self.table.term(index) == Some(slot.term) {
                let _ = self.table.put(index, *slot);
            }
        }
    }

    /// Bodies up to an entry may leave memory.
    pub(crate) fn evict(&mut self, applied: u64) {
        while self.bodies_bytes > BODIES_BYTES_MAX && self.bodies_from() <= applied {
            match self.bodies.pop_front() {
                Some(gone) => self.bodies_bytes -= gone.len(),
                None => return,
            }
        }
    }

    /// Entries up to one are in sorted files everywhere they must be, and go.
    pub(crate) fn cut_to(&mut self, place: EntryPlace) {
        while self.bodies_from() <= place.index
            && let Some(gone) = self.bodies.pop_front()
        {
            self.bodies_bytes -= gone.len();
        }
        self.table.cut_to(place);
        self.state.cut = place;
    }

    /// The member goes on behind an image: no entry is left.
    pub(crate) fn restore(&mut self, place: EntryPlace, now_s: u32, configuration: Configuration) {
        self.bodies.clear();
        self.bodies_bytes = 0;
        self.fetched = (0, Vec::new());
        self.table = GroupTable::behind(place);
        self.state.cut = place;
        self.state.commit = self.state.commit.max(place.index);
        self.state.now_s = self.state.now_s.max(now_s);
        self.state.configuration = configuration;
        // Whatever its rows were, others come.
        self.state.doubt = None;
    }

    /// Members that need an image.
    pub(crate) fn take_wanted_images(&self) -> BTreeSet<u64> {
        std::mem::take(&mut *self.wanted_images.borrow_mut())
    }

    /// What must be read from the disk.
    pub(crate) fn take_wanted(&self) -> Option<Wanted> {
        self.wanted.borrow_mut().take()
    }

    /// It was read.
    pub(crate) fn put_fetched(&mut self, low: u64, bodies: Vec<Bytes>) {
        self.fetched = (low, bodies);
    }

    pub(crate) fn body(&self, index: u64) -> Option<Bytes> {
        if let Some(offset) = index.checked_sub(self.bodies_from()) {
            return self.bodies.get(usize::try_from(offset).ok()?).cloned();
        }
        let (low, bodies) = &self.fetched;
        bodies.get(usize::try_from(index.checked_sub(*low)?).ok()?).cloned()
    }

    fn entry(&self, index: u64) -> Option<Entry> {
        let slot = self.table.slot(index)?;
        let data = self.body(index)?;
        let mut entry = Entry { term: slot.term, index, ..Entry::default() };
        if slot.kind == KIND_MEMBERS {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
            entry.context = change_context(slot.now_s, &data);
            return Some(entry);
        }
        entry.data = data;
        let is_leaders_first = slot.kind == KIND_EMPTY && slot.now_s == 0 && entry.data.is_empty();
        if !is_leaders_first {
            entry.context = self.context(slot.kind, slot.now_s);
        }
        Some(entry)
    }
}

/// Who belongs to a set, as the library says it.
pub(crate) fn conf_state(configuration: &Configuration) -> ConfState {
    let ids = |members: &[ReplicaId]| members.iter().map(|member| member.0).collect::<Vec<u64>>();
    let mut state = ConfState::default();
    let mut voters = ids(&configuration.voters);
    if breaks(Rule::CountLearner) {
        voters.extend(ids(&configuration.learners));
    } else {
        state.set_learners(ids(&configuration.learners));
    }
    state.set_voters(voters);
    state.set_voters_outgoing(ids(&configuration.outgoing));
    state.set_learners_next(ids(&configuration.learners_next));
    state
}

impl raft::Storage for Entries {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let GroupState { term, vote, commit, .. } = self.state;
        let hard_state = HardState { term, vote, commit, ..HardState::default() };
        Ok(RaftState { hard_state, conf_state: conf_state(&self.state.configuration) })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.table.cut().index {
            return Err(StorageError::Compacted.into());
        }
        let max_size = max_size.into().unwrap_or(u64::MAX);
        let (mut entries, mut bytes) = (Vec::new(), 0u64);
        for index in low..high {
            let Some(entry) = self.entry(index) else {
                if !entries.is_empty() {
                    break;
                }
                if context.can_async() {
                    *self.wanted.borrow_mut() = Some(Wanted { context, low, high });
                    return Err(StorageError::LogTemporarilyUnavailable.into());
                }
                return Err(StorageError::Unavailable.into());
            };
            bytes += (entry.data.len() + CONTEXT_BYTES) as u64;
            if bytes > max_size && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index < self.table.cut().index {
            return Err(StorageError::Compacted.into());
        }
        self.table.term(index).ok_or_else(|| StorageError::Unavailable.into())
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.table.cut().index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.table.last().index)
    }

    fn snapshot(&self, _: u64, to: u64) -> raft::Result<Snapshot> {
        // A member that is so far behind is handed the rows themselves, outside of consensus. When it holds all of them it is
        // told to go on behind them.
        match self.offered.get(&to) {
            Some(offered) if offered.get_metadata().index >= self.table.cut().index => {
                Ok(offered.clone())
            }
            _ => {
                self.wanted_images.borrow_mut().insert(to);
                Err(StorageError::SnapshotTemporarilyUnavailable.into())
            }
        }
    }
}
