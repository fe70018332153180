//! What storage does for sets with several members. Who leads, and what is committed, is decided elsewhere; here entries are
//! kept in the log, and applied once they are committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use node_log::{
    Configuration, EntryHead, EntryPlace, GroupAppend, GroupState, Position, RecoveredGroup, Slot,
};
use parking_lot::Mutex;
use schema::Table;
use types::codec::Malformed;
use types::{ColumnId, CqlType, Mutation, ReplicaId, RingRange, SetId, TableId};

use crate::apply::once::Asked;
use crate::commit::{CommitResult, Durable, Outcomes, apply_entry, validate};
use crate::entry::{EntryBody, Request};
use crate::error::{CommitError, OpenError};
use crate::maintenance::{FLUSHER_NICE, stand_back};
use crate::options::Driver;
use crate::storage::Storage;
use crate::tree::store::{OpenStore, TableStore};

/// How far each set with several members is on this node.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<BTreeMap<SetId, Standing>>, Mutex<BTreeMap<SetId, SplitOff>>);

/// A set that was split off another when the log was replayed: at which index and second.
#[derive(Clone, Copy, Debug)]
struct SplitOff {
    index: u64,
    now_s: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    /// The last entry that was applied.
    applied: u64,
    /// No entry that is not applied has an earlier second.
    now_s: u32,
    /// No time that a leader gave is later than this.
    last_us: i64,
    /// The log is needed from here on.
    needed_from: Position,
}

impl Groups {
    pub(crate) fn contains(&self, set: SetId) -> bool {
        self.0.lock().contains_key(&set)
    }

    /// What recovery found, when everything that is committed is applied.
    pub(crate) fn recovered(&self, group: &RecoveredGroup) {
        let applied = group.state.commit;
        let indexes = group.table.cut().index + 1..=applied;
        let seconds = indexes.filter_map(|index| group.table.slot(index)).map(|slot| slot.now_s);
        let now_s = seconds.fold(group.state.now_s, u32::max);
        let standing = Standing {
            applied,
            now_s,
            // Entries have no earlier second than their times.
            last_us: (i64::from(now_s) + 1) * 1_000_000,
            needed_from: group.table.needed_from().unwrap_or(Position::MAX),
        };
        self.0.lock().insert(group.state.set, standing);
    }

    /// A set is split off one of these. Nothing of it may be purged further than it is, before its member begins too.
    pub(crate) fn split_off(&self, left: SetId, right: SetId, index: u64, now_s: u32) {
        let mut standings = self.0.lock();
        match standings.get(&left).copied() {
            Some(standing) => {
                let needed_from = Position::MAX;
                let fresh = Standing { applied: index, now_s, needed_from, ..standing };
                standings.entry(right).or_insert(fresh);
            }
            // The log is being replayed.
            None => {
                self.1.lock().insert(right, SplitOff { index, now_s });
            }
        }
    }

    /// After the log was replayed: sets that were split off, up to which index trees may hold them.
    pub(crate) fn replayed_splits(&self) -> Vec<(SetId, u64)> {
        self.1.lock().iter().map(|(set, split)| (*set, split.index)).collect()
    }

    /// After everything that recovery knows of members: those of sets that were split off, and are in no record yet, begin next.
    pub(crate) fn settle_splits(&self, is_gone: impl Fn(SetId) -> bool) {
        let mut standings = self.0.lock();
        for (set, SplitOff { index, now_s }) in std::mem::take(&mut *self.1.lock()) {
            if !is_gone(set) {
                let last_us = (i64::from(now_s) + 1) * 1_000_000;
                let needed_from = Position::MAX;
                let fresh = Standing { applied: index, now_s, last_us, needed_from };
                standings.entry(set).or_insert(fresh);
            }
        }
    }

    /// No entry of these sets that is not applied has an earlier second; `None` if there are no such sets.
    pub(crate) fn floor_s(&self) -> Option<u32> {
        self.0.lock().values().map(|standing| standing.now_s).min()
    }

    /// No entry of a set that is not applied has an earlier second; `None` if the set is not here.
    pub(crate) fn now_s(&self, set: SetId) -> Option<u32> {
        self.0.lock().get(&set).map(|standing| standing.now_s)
    }

    /// The rows of a set were handed over, as they were at an entry.
    pub(crate) fn installed(&self, set: SetId, applied: u64, now_s: u32, last_us: i64) {
        if let Some(standing) = self.0.lock().get_mut(&set) {
            let (now_s, last_us) = (standing.now_s.max(now_s), standing.last_us.max(last_us));
            *standing = Standing { applied, now_s, last_us, needed_from: standing.needed_from };
        }
    }

    /// The log is needed from here on.
    pub(crate) fn needed_from(&self) -> Position {
        let needed = self.0.lock().values().map(|standing| standing.needed_from).min();
        needed.unwrap_or(Position::MAX)
    }
}

/// Told whether what was awaited is durable.
pub type OnDurable = Box<dyn FnOnce(bool) + Send>;

/// An entry of a set with several members that is committed.
#[derive(Clone, Debug)]
pub struct CommittedEntry {
    /// Where it stands in its set's log.
    pub head: EntryHead,
    /// Where its record is in the log of this node.
    pub position: Position,
    /// What it asks for.
    pub body: Bytes,
    /// The same read already, by whoever made the body of it or made it of the body.
    pub request: Option<Box<Request>>,
}

impl Storage {
    /// The members that this node had when it stopped.
    pub fn recovered_groups(&self) -> Vec<RecoveredGroup> {
        std::mem::take(&mut *self.recovered_groups.lock())
    }

    /// The highest numbers of members of each set that were taken away from this node.
    pub fn gone_groups(&self) -> BTreeMap<SetId, ReplicaId> {
        self.recovered_gone.clone()
    }

    /// Up to where everything in the log of this node is on its disk.
    pub fn synced_position(&self) -> Position {
        self.log.synced()
    }

    /// Where the log of this node ended when it was opened, before anything was written to it.
    pub fn opened_position(&self) -> Position {
        self.log.opened()
    }

    /// A member begins on this node. Durable with what is awaited next. Returns where the log says so; [`CommitError::Moved`] if this node
    /// had the set alone before.
    pub fn begin_group(&self, state: &GroupState) -> Result<Position, CommitError> {
        // What a set wrote before stays: its entries would be taken for some that were applied. Another node may name any set.
        let lone = self.log.lone_index(state.set);
        if lone > state.cut.index {
            tracing::error!(set = state.set.0, lone, "a set that was here alone gets no member");
            return Err(CommitError::Moved);
        }
        let appended = self.log.append_birth(state)?;
        self.core.groups.recovered(&RecoveredGroup::new(state.clone()));
        Ok(appended.position)
    }

    /// A set that this node had alone, and that may get members elsewhere: what it applied is what every further member is handed, as if
    /// it had been handed over itself. Nothing is written to it meanwhile. `false` if it has members already.
    pub fn adopt_group(
        &self,
        set: SetId,
        replica: ReplicaId,
        configuration: Configuration,
        range: RingRange,
    ) -> Result<bool, CommitError> {
        let is_known = self.core.groups.0.lock().contains_key(&set);
        let index = self.log.lone_index(set);
        if is_known {
            return Ok(false);
        }
        let born = GroupState::born(set, replica, configuration);
        // A member without any entry is told apart from one that lost them: see [`GroupState::born`].
        let cut = EntryPlace { index: index.max(born.cut.index), term: born.term };
        let now_s = self.core.clock.now_s();
        let state = GroupState { cut, commit: cut.index, now_s, range: Some(range), ..born };
        self.begin_group(&state)?;
        self.recovered_groups.lock().push(RecoveredGroup::new(state));
        Ok(true)
    }

    /// A set goes on with other members than its log says, because too many were lost for good. Only before anybody asked for
    /// [`Storage::recovered_groups`]; durable with what is awaited next. `false` if this node has no member of it.
    pub fn force_configuration(
        &self,
        set: SetId,
        term: u64,
        configuration: Configuration,
    ) -> Result<bool, CommitError> {
        let mut groups = self.recovered_groups.lock();
        let Some(group) = groups.iter_mut().find(|group| group.state.set == set) else {
            return Ok(false);
        };
        // It was done before, or the set has gone on since.
        if group.state.configuration.index >= configuration.index {
            return Ok(true);
        }
        // In a term that nobody was in, nobody has voted.
        let (vote, term) =
            if term > group.state.term { (0, term) } else { (group.state.vote, group.state.term) };
        let state = GroupState { term, vote, configuration, ..group.state.clone() };
        let append = GroupAppend { state: Some(state.clone()), ..GroupAppend::default() };
        self.log.append_group(set, &append)?;
        group.state = state;
        Ok(true)
    }

    /// A set that was split off has no member here: nobody waits for it.
    pub fn forget_split_off(&self, set: SetId) {
        self.core.groups.0.lock().remove(&set);
    }

    /// A member was taken away: nothing of its log is needed any more.
    pub fn end_group(&self, set: SetId, highest: ReplicaId) -> Result<(), CommitError> {
        self.log.append_gone(set, highest)?;
        self.installs_begun.lock().forget_set(set);
        self.core.groups.0.lock().remove(&set);
        Ok(())
    }

    /// Whether [`Storage::append_group`] of this, and to await it, waits for no room in the log.
    pub fn log_has_room_for(&self, append: &GroupAppend) -> bool {
        self.log.has_room_for(append)
    }

    /// Appends what came for a set. It is durable when what is awaited after it is.
    pub fn append_group(&self, set: SetId, append: &GroupAppend) -> Result<Vec<Slot>, CommitError> {
        Ok(self.log.append_group(set, append)?)
    }

    /// Calls back when everything that was appended before is durable; with `false` if it never will be. The callback waits for nobody.
    pub fn await_durable(&self, done: OnDurable) -> Result<(), CommitError> {
        self.log.await_durable(true, |end| Durable::Awaited { end, done })?;
        Ok(())
    }

    /// The same, but nothing is written before [`Storage::write_group`] or [`Storage::wake_log`] is called.
    pub fn await_durable_later(&self, done: OnDurable) -> Result<(), CommitError> {
        self.log.await_durable(false, |end| Durable::Awaited { end, done })?;
        Ok(())
    }

    /// Has the log's own thread write what was appended.
    pub fn wake_log(&self) {
        self.log.wake();
    }

    /// What is known to be committed; kept with the next segment of the log.
    pub fn note_commits(&self, commits: impl IntoIterator<Item = (SetId, u64)>) {
        self.log.note_commits(commits);
    }

    /// Applies entries of one set, which are committed and durable here, in the order of its log. Only one caller at a time
    /// does so for a set. `answer` gets what became of each, by its number.
    pub fn apply_group(
        &self,
        entries: &mut [CommittedEntry],
        mut answer: impl FnMut(usize, &CommittedEntry, CommitResult),
    ) {
        for (number, entry) in entries.iter_mut().enumerate() {
            let body = match entry.request.take() {
                Some(request) => Ok(EntryBody::Request(request)),
                None => EntryBody::decode(entry.head.kind, entry.body.clone()),
            };
            let body = match body {
                Ok(body) => body,
                Err(Malformed) => {
                    // Its leader wrote it, and it was summed on the way: a replica that cannot read it stops.
                    let place = (entry.head.set.0, entry.head.index);
                    self.core.poison.set(|| format!("entry {place:?} does not follow its format"));
                    let why = self.core.poison.get().map_or_else(|| Arc::from(""), Arc::clone);
                    answer(number, &*entry, Err(CommitError::LogFailed(why)));
                    continue;
                }
            };
            let mut timed_us = i64::MIN;
            let count = match &body {
                EntryBody::Request(request) => {
                    timed_us = request.given_us().unwrap_or(i64::MIN);
                    request.mutations.len() + usize::from(request.truncates.is_some())
                }
                EntryBody::Change(mutations) => mutations.len(),
                EntryBody::Empty
                | EntryBody::Define(_)
                | EntryBody::Sweep(_)
                | EntryBody::Split(_) => 0,
            };
            let mut outcomes = Outcomes::new(count);
            apply_entry(&self.core, &entry.head, entry.position, &body, |number, outcome| {
                outcomes.set(number, outcome);
            });
            if self.core.poison.get().is_none() {
                self.note_applied(&entry.head, timed_us);
            }
            answer(number, &*entry, outcomes.finish());
        }
        self.maintenance_after_write();
    }

    fn note_applied(&self, head: &EntryHead, timed_us: i64) {
        if let Some(standing) = self.core.groups.0.lock().get_mut(&head.set) {
            assert_eq!(standing.applied + 1, head.index, "entries are applied once, in order");
            standing.applied = head.index;
            standing.now_s = standing.now_s.max(head.now_s);
            standing.last_us = standing.last_us.max(timed_us);
        }
    }

    /// The last entry that was applied.
    pub fn group_applied(&self, set: SetId) -> u64 {
        self.core.groups.0.lock().get(&set).map_or(0, |standing| standing.applied)
    }

    /// The second of the last entry that was applied.
    pub fn group_now_s(&self, set: SetId) -> u32 {
        self.core.groups.0.lock().get(&set).map_or(0, |standing| standing.now_s)
    }

    /// No time that a leader gave to what was applied is later than this.
    pub fn group_last_us(&self, set: SetId) -> i64 {
        self.core.groups.0.lock().get(&set).map_or(i64::MIN, |standing| standing.last_us)
    }

    /// From where on the log is needed for a set.
    pub fn set_group_needed(&self, set: SetId, needed_from: Option<Position>) {
        if let Some(standing) = self.core.groups.0.lock().get_mut(&set) {
            standing.needed_from = needed_from.unwrap_or(Position::MAX);
        }
    }

    /// Everything in the log before this is in sorted files, as far as it was applied.
    pub fn flushed_before(&self) -> Position {
        let stores = self.core.all_stores();
        let held = stores.iter().filter_map(|store| store.if_open());
        held.map(|opened| opened.holds_log_from()).fold(self.log.synced(), Position::min)
    }

    /// Has everything that is in memory written into sorted files, without waiting for it where there are threads.
    pub fn flush_soon(self: &Arc<Storage>) {
        if self.core.options.driver == Driver::Steps {
            let _ = self.flush(None);
            return;
        }
        if self.is_flushing.swap(true, Ordering::AcqRel) {
            return;
        }
        let storage = Arc::clone(self);
        let flush = move || {
            if let Err(error) = storage.flush(None) {
                tracing::warn!(%error, "what is in memory could not be written into sorted files");
            }
            storage.is_flushing.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("helenus-flush".into()).spawn(flush).is_err() {
            self.is_flushing.store(false, Ordering::Release);
        }
    }

    /// Has something done on a thread of its own, where there are threads: it may take long, and goes behind requests. It is told whether
    /// it is.
    pub fn do_apart(&self, name: &str, work: Work) {
        if self.core.options.driver == Driver::Steps {
            return work(false);
        }
        let work = Arc::new(Mutex::new(Some(work)));
        let apart = Arc::clone(&work);
        let run = move || {
            stand_back(FLUSHER_NICE);
            let work = apart.lock().take();
            if let Some(work) = work {
                work(true);
            }
        };
        // Without a thread it is done here.
        if std::thread::Builder::new().name(name.to_owned()).spawn(run).is_err()
            && let Some(work) = { work.lock().take() }
        {
            work(false);
        }
    }

    /// Whether everything that was appended is durable.
    pub fn is_synced(&self) -> bool {
        self.log.synced() >= self.log.end()
    }

    /// How much of the log is kept.
    pub fn log_kept_bytes(&self) -> u64 {
        self.log.kept_bytes()
    }

    /// The body of an entry that is not in memory any more.
    pub fn read_group_body(&self, slot: &Slot) -> std::io::Result<Bytes> {
        self.log.read_body(slot)
    }

    /// Refuses what could not be stored, before it is proposed.
    pub fn validate(&self, mutations: &[Mutation]) -> Result<(), CommitError> {
        mutations.iter().try_for_each(validate)
    }

    /// Has elements that are added to lists be later than everything that their set was given before, and no later than a bound: a list's elements
    /// stand in the order in which its set took them, whichever node gave them their ids. Returns when the last was made, if there
    /// are any, and whether something was changed.
    pub fn order_lists(
        &self,
        mutations: &mut [Mutation],
        after_us: i64,
        latest_us: i64,
    ) -> Option<(i64, bool)> {
        let mut all: Option<(i64, i64)> = None;
        for mutation in mutations.iter().filter(|it| it.may_extend_lists()) {
            let Some(table) = self.core.schema.table(mutation.table) else { continue };
            if let Some((first, last)) = mutation.list_times(|column| is_list(&table, column)) {
                let (before, behind) = all.unwrap_or((first, last));
                all = Some((before.min(first), behind.max(last)));
            }
        }
        let (first_us, last_us) = all?;
        if first_us > after_us && last_us <= latest_us {
            return Some((last_us, false));
        }
        let by_us = after_us.saturating_add(1).saturating_sub(first_us);
        for mutation in mutations.iter_mut() {
            let Some(table) = self.core.schema.table(mutation.table) else { continue };
            mutation.delay_lists(|column| is_list(&table, column), by_us);
        }
        Some((last_us.saturating_add(by_us), true))
    }

    /// What the leader of a set must propose before mutations, as kind and body: the definitions that they were planned by.
    pub fn propose_defines(
        &self,
        set: SetId,
        mutations: &[Mutation],
    ) -> Result<Vec<(u8, Vec<u8>)>, CommitError> {
        self.committer.propose_defines(set, mutations)
    }

    /// What became of a request that a set applied before, if it has a name and that is known.
    pub fn known_answer(&self, set: SetId, request: &Request) -> Option<CommitResult> {
        request.id?;
        let tables = request.mutations.iter().map(|mutation| mutation.table);
        let emptied = request.truncates.iter().map(|truncate| truncate.table);
        let mut outcomes =
            Outcomes::new(request.mutations.len() + usize::from(request.truncates.is_some()));
        for (number, table) in tables.chain(emptied).enumerate() {
            let store = self.core.store(table)?;
            let opened = store.for_read().ok()??;
            let known = Asked::new(request, number).answer(opened, &opened.progress(set));
            match known.map_err(|error| CommitError::Tree { table, error }) {
                Ok(answer) => outcomes.set(number, answer?),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(outcomes.finish())
    }

    /// Those tables of a set that are open here and in which it did something.
    pub fn tables_in_memory(&self, set: SetId) -> Vec<TableId> {
        let stores = self.core.all_stores().into_iter();
        let is_known = |opened: &OpenStore| opened.progress(set).applied().index > 0;
        let is_of_set = |store: &Arc<TableStore>| store.if_open().is_some_and(is_known);
        stores.filter(is_of_set).map(|store| store.id).collect()
    }

    /// This node leads a set anew: what it proposed before may be lost.
    pub fn forget_proposed(&self, set: SetId) {
        self.committer.forget_proposed(set);
    }

    /// The sum over everything that a set applied to a table: equal on all members that are as far.
    pub fn checksum(&self, set: SetId, table: TableId) -> Result<u64, CommitError> {
        let Some(store) = self.core.store(table) else { return Ok(0) };
        let opened = store.for_read().map_err(|error| CommitError::Tree { table, error })?;
        Ok(opened.map_or(0, |opened| opened.progress(set).checksum()))
    }
}

/// Something that may take long; it is told whether it is done on a thread of its own.
pub type Work = Box<dyn FnOnce(bool) + Send>;

impl Storage {
    /// The sum over everything that a set applied to all of its tables: equal on all members that are as far.
    pub fn set_checksum(&self, set: SetId) -> u64 {
        let mut stores = self.core.all_stores();
        stores.sort_unstable_by_key(|store| store.id);
        let mut sum: u64 = 0;
        for store in stores {
            let of_table = match store.for_read() {
                Ok(opened) => opened.map_or(0, |opened| opened.progress(set).checksum()),
                Err(_) => u64::MAX,
            };
            // A table that the set wrote nothing to is not known to every member.
            if of_table != 0 {
                sum = (sum ^ of_table).wrapping_mul(0xff51_afd7_ed55_8ccd);
                sum ^= sum >> 33;
            }
        }
        sum
    }

    /// How many tables were dropped since this node runs: their part of the sums goes with them.
    pub fn drop_count(&self) -> u64 {
        self.core.drop_count.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// As if a member had applied something else: for simulations of what members do then.
    #[doc(hidden)]
    pub fn spoil_checksum(&self, set: SetId, table: TableId) {
        if let Some(store) = self.core.store(table)
            && let Some(opened) = store.if_open()
        {
            opened.progress(set).spoil();
        }
    }
}

/// What the trees know of a set may be more than what the log says is committed.
fn is_list(table: &Table, column: ColumnId) -> bool {
    let column = table.column_by_id(column);
    column.is_some_and(|column| matches!(column.cql_type, CqlType::List { frozen: false, .. }))
}

pub(crate) fn raise_commits(
    core: &crate::core::Core,
    groups: &mut BTreeMap<SetId, RecoveredGroup>,
) -> Result<(), OpenError> {
    if groups.is_empty() {
        return Ok(());
    }
    // A set that was split off began because the entry that split it off was committed, and nothing of it may be applied before.
    let splits = groups.values().filter_map(|group| group.state.split_from).collect::<Vec<_>>();
    for (left, index) in splits {
        if let Some(group) = groups.get_mut(&left)
            && !node_log::broken::breaks(node_log::broken::Rule::ForgetSplitCommit)
        {
            group.raise_commit(index);
        }
    }
    for store in core.all_stores() {
        let of_table = |error| OpenError::Tree { table: store.id, error };
        let Some(opened) = store.for_read().map_err(of_table)? else { continue };
        for (set, group) in groups.iter_mut() {
            group.raise_commit(opened.progress(*set).applied().index);
        }
    }
    Ok(())
}
