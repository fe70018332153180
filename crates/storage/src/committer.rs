//! Brings entries into the log and has them applied: the one way for requests and for chores.

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::oneshot;
use types::codec::Malformed;
use types::{Mutation, SetId};

use crate::commit::{
    CommitResult, Committed, Durable, Job, Outcomes, SetLock, SetLocks, apply_entry, join_sets,
};
use crate::core::Core;
use crate::definition::{Definitions, Standing};
use crate::entry::{Define, Entries, Entry, EntryBody, EntryHeads, Sweep};
use crate::error::{CommitError, TreeError};
use crate::options::CommitMode;
use crate::promise::{AnswerTo, Promise, Reply};
use crate::room::Busy;
use crate::sure::sure;
use node_log::{AppendError, Appended, Appending, EntryHead, Log, NewEntry, NewRecord};

/// What is kept of the memory that a record is encoded in.
const BODY_BYTES_KEPT: usize = 64 * 1024;
/// So many definitions go into one record.
const DEFINES_PER_RECORD_MAX: usize = 256;
/// How often a change is defined for again before its client is told to come back: each time somebody
/// emptied the table in between.
const DEFINES_MAX: u32 = 100;

thread_local! {
    /// Where the record at hand is encoded.
    static BODY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Appends entries, and in periodic mode applies them.
pub(crate) struct Committer {
    pub(crate) core: Arc<Core>,
    pub(crate) log: Arc<Log<Durable>>,
    pub(crate) set_locks: Arc<SetLocks>,
}

/// Why a record was not appended.
enum Uncommitted {
    /// It is so many bytes, and was not to wait for room.
    NoRoom(usize),
    /// A set takes no more.
    Moved,
    Failed(CommitError),
}

impl Uncommitted {
    /// What the caller is told, who gets the entries back where he has use for them.
    fn with(self, entries: Entries) -> Committed {
        match self {
            Uncommitted::NoRoom(bytes) => Committed::Busy(Busy::Log(bytes)),
            Uncommitted::Moved => Committed::Moved(join_sets(entries)),
            Uncommitted::Failed(error) => Committed::Now(Err(error)),
        }
    }
}

impl From<AppendError> for Uncommitted {
    fn from(error: AppendError) -> Uncommitted {
        match error {
            AppendError::NoRoom(bytes) => Uncommitted::NoRoom(bytes),
            AppendError::Ended => Uncommitted::Moved,
            error => Uncommitted::Failed(error.into()),
        }
    }
}

impl From<CommitError> for Uncommitted {
    fn from(error: CommitError) -> Uncommitted {
        Uncommitted::Failed(error)
    }
}

/// The entries of a record as the log wants them.
fn encode(entries: &[Entry], body: &mut Vec<u8>) -> SmallVec<[NewEntry; 1]> {
    let mut news = SmallVec::with_capacity(entries.len());
    for entry in entries {
        let before = body.len();
        entry.body.encode(body);
        let body_bytes = u32::try_from(body.len() - before).unwrap_or(u32::MAX);
        news.push(NewEntry { set: entry.set, kind: entry.body.kind() as u8, body_bytes });
    }
    news
}

fn mutations(entries: &[Entry]) -> impl Iterator<Item = (SetId, &Mutation)> {
    entries.iter().flat_map(|entry| {
        let mutations = match &entry.body {
            EntryBody::Change(mutations) => mutations.as_slice(),
            EntryBody::Request(request) => request.mutations.as_slice(),
            EntryBody::Empty | EntryBody::Define(_) | EntryBody::Sweep(_) | EntryBody::Split(_) => {
                &[]
            }
        };
        mutations.iter().map(|mutation| (entry.set, mutation))
    })
}

impl Committer {
    /// Commits entries as one record. With `answer_to` the outcome goes there, where it is not known at
    /// once. Unless it `waits`, what the log has no room for comes back.
    pub(crate) fn commit(
        &self,
        entries: Entries,
        mutation_count: usize,
        answer_to: Option<AnswerTo<'_>>,
        waits: bool,
    ) -> Committed {
        let mut body = BODY.take();
        body.clear();
        let news = encode(&entries, &mut body);
        let record = NewRecord {
            entries: &news,
            body: &body,
            now_s: self.core.clock.now_s(),
            is_last: false,
            wakes: answer_to.is_none(),
            waits,
        };
        let committed = match self.core.options.commit {
            CommitMode::Group => self.commit_group(entries, mutation_count, record, answer_to),
            CommitMode::Periodic { .. } => {
                match self.commit_periodic(&entries, mutation_count, record) {
                    Ok(result) => Committed::Now(result),
                    Err(uncommitted) => uncommitted.with(entries),
                }
            }
        };
        body.shrink_to(BODY_BYTES_KEPT);
        BODY.set(body);
        committed
    }

    /// Commits a part of a sweep and waits until it is applied. Not for threads of a runtime.
    pub(crate) fn commit_sweep(&self, set: SetId, sweep: Sweep) -> CommitResult {
        let entry = Entry::of(set, EntryBody::Sweep(Box::new(sweep)));
        self.commit(Entries::from_iter([entry]), 0, None, true).wait()
    }

    fn commit_group(
        &self,
        entries: Entries,
        mutation_count: usize,
        record: NewRecord<'_>,
        answer_to: Option<AnswerTo<'_>>,
    ) -> Committed {
        let (channel, committed) = match answer_to {
            Some(_) => (None, Committed::Promised),
            None => {
                let (sender, receiver) = oneshot::channel();
                (Some(sender), Committed::Later(receiver))
            }
        };
        let mut appending = GroupAppend {
            definitions: &self.core.definitions,
            standing: Standing::Defined,
            entries: Some(entries),
            mutation_count,
            answer_to,
            channel,
        };
        for _ in 0..DEFINES_MAX {
            let error = match self.log.append_entries(record, &mut appending) {
                Ok(_) => return committed,
                Err(error) => error,
            };
            let entries = sure(appending.entries.take(), "what was not appended was not taken");
            let defined = match (error, appending.standing) {
                (AppendError::Withdrawn, Standing::Undefined) => self.define(&entries, record),
                (error, _) => Err(error.into()),
            };
            if let Err(uncommitted) = defined {
                return uncommitted.with(entries);
            }
            appending.entries = Some(entries);
        }
        Committed::Now(Err(CommitError::Stale))
    }

    fn commit_periodic(
        &self,
        entries: &[Entry],
        mutation_count: usize,
        record: NewRecord<'_>,
    ) -> Result<CommitResult, Uncommitted> {
        if let [entry] = entries {
            let lock = self.set_locks.get(entry.set);
            let _turn = lock.turn.lock();
            lock.begin(self.log.synced(), self.log.now_s());
            let result = self.append_and_apply(entries, mutation_count, record);
            lock.end();
            return result;
        }
        let mut sets: Vec<SetId> = entries.iter().map(|entry| entry.set).collect();
        // Always in the same order, so that two changes over the same sets cannot wait in a circle.
        sets.sort_unstable();
        let locks: Vec<Arc<SetLock>> =
            sets.into_iter().map(|set| self.set_locks.get(set)).collect();
        let _turns: Vec<_> = locks.iter().map(|lock| lock.turn.lock()).collect();
        locks.iter().for_each(|lock| lock.begin(self.log.synced(), self.log.now_s()));
        let result = self.append_and_apply(entries, mutation_count, record);
        locks.iter().for_each(|lock| lock.end());
        result
    }

    /// The caller has the turn of every set.
    fn append_and_apply(
        &self,
        entries: &[Entry],
        mutation_count: usize,
        record: NewRecord<'_>,
    ) -> Result<CommitResult, Uncommitted> {
        for _ in 0..DEFINES_MAX {
            let mut appending = PeriodicAppend {
                definitions: &self.core.definitions,
                standing: Standing::Defined,
                entries,
                heads: EntryHeads::new(),
            };
            match self.log.append_entries(record, &mut appending) {
                Ok(appended) => {
                    let mut outcomes = Outcomes::new(mutation_count);
                    let place = appended.position;
                    for (head, entry) in appending.heads.iter().zip(entries) {
                        apply_entry(&self.core, head, place, &entry.body, |number, outcome| {
                            outcomes.set(entry.slot(number), outcome);
                        });
                    }
                    return Ok(outcomes.finish());
                }
                Err(AppendError::Withdrawn) if appending.standing == Standing::Undefined => {
                    self.define(entries, record)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(AppendError::Withdrawn.into())
    }

    /// Appends the definitions that mutations are to be applied by. In periodic mode the caller has the
    /// turn of every set, and they are applied here.
    fn define(&self, entries: &[Entry], record: NewRecord<'_>) -> Result<(), Uncommitted> {
        let mut defines = self.defines_for(mutations(entries))?;
        while !defines.is_empty() {
            let rest = defines.split_off(defines.len().min(DEFINES_PER_RECORD_MAX));
            self.append_defines(Entries::from_vec(defines), record)?;
            defines = rest;
        }
        Ok(())
    }

    /// The definitions that must stand in the log before mutations.
    fn defines_for<'m>(
        &self,
        mutations: impl Iterator<Item = (SetId, &'m Mutation)>,
    ) -> Result<Vec<Entry>, Uncommitted> {
        let definitions = &self.core.definitions;
        let mut defines: Vec<Entry> = Vec::new();
        for (set, mutation) in mutations {
            if definitions.standing([(set, mutation)].into_iter()) != Standing::Undefined
                || defines.iter().any(|entry| entry.set == set && defines_table(entry, mutation))
            {
                continue;
            }
            let Some(table) = self.core.schema.table(mutation.table) else {
                // Dropped meanwhile, or never defined: nothing of it asks for a definition.
                definitions.note_appended(mutation.table, set, mutation.table_version);
                continue;
            };
            let retention_max_s = self.core.options.tombstone_retention_s;
            let definition = definitions.newest(&table, retention_max_s).map_err(|Malformed| {
                let what = "its definition cannot be kept in the log";
                CommitError::Tree { table: mutation.table, error: TreeError::Corrupt(what.into()) }
            })?;
            if definition.table.version != mutation.table_version {
                return Err(AppendError::Withdrawn.into());
            }
            let purged_s = self.core.purged_s(mutation.table)?;
            let horizon_s = definitions.announce(&definition, purged_s);
            defines.push(Entry::of(set, EntryBody::Define(Define { definition, horizon_s })));
        }
        Ok(defines)
    }

    /// For a set with several members that this node leads: what must be proposed before mutations, as kind and body.
    /// From then on it counts as proposed, until [`Committer::forget_proposed`].
    pub(crate) fn propose_defines(
        &self,
        set: SetId,
        mutations: &[Mutation],
    ) -> Result<Vec<(u8, Vec<u8>)>, CommitError> {
        let of_set = || mutations.iter().map(|mutation| (set, mutation));
        for mutation in mutations {
            // A new leader has applied everything before, and proposed nothing.
            if self.core.version_in_force(mutation.table, set)? > Some(mutation.table_version) {
                return Err(CommitError::Stale);
            }
        }
        match self.core.definitions.standing(of_set()) {
            Standing::Defined => return Ok(Vec::new()),
            Standing::Stale => return Err(CommitError::Stale),
            Standing::Undefined => {}
        }
        let defines = self.defines_for(of_set()).map_err(|uncommitted| match uncommitted {
            Uncommitted::NoRoom(_) => CommitError::Overloaded,
            Uncommitted::Moved => CommitError::Moved,
            Uncommitted::Failed(error) => error,
        })?;
        let propose = |entry: Entry| {
            if let EntryBody::Define(Define { definition, .. }) = &entry.body {
                let table = &definition.table;
                self.core.definitions.note_appended(table.id, set, table.version);
            }
            let mut body = Vec::new();
            entry.body.encode(&mut body);
            (entry.body.kind() as u8, body)
        };
        Ok(defines.into_iter().map(propose).collect())
    }

    /// What was proposed for a set may be lost.
    pub(crate) fn forget_proposed(&self, set: SetId) {
        self.core.definitions.forget_sets(&[set]);
    }

    fn append_defines(&self, entries: Entries, record: NewRecord<'_>) -> Result<(), Uncommitted> {
        let mut body = Vec::new();
        let news = encode(&entries, &mut body);
        let record = NewRecord { entries: &news, body: &body, wakes: false, ..record };
        let is_group = self.core.options.commit == CommitMode::Group;
        let mut appending = DefineAppend {
            definitions: &self.core.definitions,
            entries: Some(entries),
            is_group,
            heads: EntryHeads::new(),
        };
        let appended = self.log.append_entries(record, &mut appending)?;
        let mut outcome = Ok(());
        for (head, entry) in appending.heads.iter().zip(appending.entries.iter().flatten()) {
            apply_entry(&self.core, head, appended.position, &entry.body, |_, done| {
                outcome = done.map(drop);
            });
        }
        outcome.map_err(Uncommitted::Failed)
    }
}

fn defines_table(entry: &Entry, mutation: &Mutation) -> bool {
    match &entry.body {
        EntryBody::Define(define) => define.definition.table.id == mutation.table,
        EntryBody::Empty
        | EntryBody::Change(_)
        | EntryBody::Sweep(_)
        | EntryBody::Request(_)
        | EntryBody::Split(_) => false,
    }
}

/// A record of the group commit on its way into the log.
struct GroupAppend<'a> {
    definitions: &'a Definitions,
    standing: Standing,
    /// Taken when they are appended.
    entries: Option<Entries>,
    mutation_count: usize,
    answer_to: Option<AnswerTo<'a>>,
    channel: Option<oneshot::Sender<CommitResult>>,
}

impl Appending<Durable> for GroupAppend<'_> {
    fn is_wanted(&mut self) -> bool {
        let entries = sure(self.entries.as_deref(), "entries are appended once");
        self.standing = self.definitions.standing(mutations(entries));
        self.standing == Standing::Defined
    }

    fn job(&mut self, appended: Appended, heads: &[EntryHead]) -> Option<Durable> {
        let (heads, entries) = (EntryHeads::from_slice(heads), self.entries.take()?);
        // A promise is made for what was appended only: it is told in any case.
        let reply = match self.answer_to {
            Some(answer_to) => Reply::Mailbox(Promise::new(answer_to)),
            None => Reply::Channel(self.channel.take()?),
        };
        let Appended { position, end } = appended;
        let mutation_count = self.mutation_count;
        Some(Durable::Change(Job { position, end, heads, entries, mutation_count, reply }))
    }
}

/// A record that its caller applies.
struct PeriodicAppend<'a> {
    definitions: &'a Definitions,
    standing: Standing,
    entries: &'a [Entry],
    heads: EntryHeads,
}

impl Appending<Durable> for PeriodicAppend<'_> {
    fn is_wanted(&mut self) -> bool {
        self.standing = self.definitions.standing(mutations(self.entries));
        self.standing == Standing::Defined
    }

    fn job(&mut self, _: Appended, heads: &[EntryHead]) -> Option<Durable> {
        self.heads.extend_from_slice(heads);
        None
    }
}

/// Definitions on their way into the log.
struct DefineAppend<'a> {
    definitions: &'a Definitions,
    /// Taken where the group commit applies them.
    entries: Option<Entries>,
    is_group: bool,
    heads: EntryHeads,
}

impl Appending<Durable> for DefineAppend<'_> {
    fn is_wanted(&mut self) -> bool {
        true
    }

    fn job(&mut self, appended: Appended, heads: &[EntryHead]) -> Option<Durable> {
        for entry in self.entries.iter().flatten() {
            if let EntryBody::Define(Define { definition, .. }) = &entry.body {
                let table = &definition.table;
                self.definitions.note_appended(table.id, entry.set, table.version);
            }
        }
        if !self.is_group {
            self.heads.extend_from_slice(heads);
            return None;
        }
        let (heads, entries) = (EntryHeads::from_slice(heads), self.entries.take()?);
        let Appended { position, end } = appended;
        let reply = Reply::Nobody;
        Some(Durable::Change(Job { position, end, heads, entries, mutation_count: 0, reply }))
    }
}
