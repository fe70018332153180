//! From a change to its outcome: encode, append, make durable, apply, answer.
//!
//! In *periodic* mode the caller does it all: under the locks of the sets it appends and applies,
//! without changing threads. In *group* mode the log's thread hands over what became durable, and
//! the appliers apply it: each replica set has its applier, so a set's entries are applied in the
//! order of the log, and different sets at the same time. The answers of a group go out together.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};

use foldhash::fast::FixedState;
use parking_lot::{Condvar, Mutex, RwLock};
use smallvec::SmallVec;
use tokio::sync::oneshot;
use types::{Done, Mutation, Operation, Outcome, RowPosition, SetId, TableId};

use crate::apply::batch::apply_step;
use crate::apply::once::Asked;
use crate::apply::split::apply_split;
use crate::apply::sweep::apply_sweep;
use crate::apply::{Place, apply, apply_define};
use crate::core::Core;
use crate::entry::{Entries, Entry, EntryBody, EntryHeads};
use crate::error::{CommitError, TreeError};
use crate::install::apply_truncate;
use crate::options::Driver;
use crate::promise::Reply;
use crate::room::Busy;
use crate::sure::sure;
use crate::tree::progress::Applied;
use crate::tree::store::TableStore;
use node_log::{AppendError, Appended, DurableSink, EntryHead, Position, Shortage};

/// What became of a change, one outcome for each mutation in order. An error of one mutation stands
/// for all; positions in lists that are not there are found before anything is logged.
pub type CommitResult = Result<AllDone, CommitError>;

/// What became of each mutation of a change; mostly there is one.
pub type AllDone = SmallVec<[Done; 1]>;

/// The mutations of a change, each with the set that its key lies in.
pub(crate) type LocatedMutations = Vec<(SetId, Mutation)>;

/// A commit, done or on its way.
#[derive(Debug)]
pub enum Committed {
    /// It is done.
    Now(CommitResult),
    /// It is done when this says so; an answer that never comes means that storage was closed.
    Later(oneshot::Receiver<CommitResult>),
    /// It is on its way, and its outcome goes to the mailbox that came with it.
    Promised,
    /// Nothing was done: a replica set has ended (see [`crate::Storage::end_sets`]), and its keys
    /// have another one by now, or in a moment. The change comes back.
    Moved(Vec<(SetId, Mutation)>),
    /// Nothing was done: there is no room for it now, see [`crate::WithoutRoom`].
    Busy(Busy),
}

impl Committed {
    /// Waits for the result on this thread. Not for threads of a runtime.
    pub fn wait(self) -> CommitResult {
        match self {
            Committed::Now(result) => result,
            Committed::Later(receiver) => {
                receiver.blocking_recv().unwrap_or(Err(CommitError::Closed))
            }
            Committed::Promised => Err(CommitError::Closed),
            Committed::Moved(_) => Err(CommitError::Moved),
            Committed::Busy(_) => Err(CommitError::Overloaded),
        }
    }
}

/// Groups of this many jobs are applied by the log's thread itself when nothing else is waiting: a
/// change of threads would cost more.
const INLINE_JOBS_MAX: usize = 4;
/// Groups that may wait for one applier.
const WAITING_GROUPS_MAX: usize = 8;

/// Splits a change by replica set, keeping the order within each.
pub(crate) fn split_by_set(change: LocatedMutations) -> Entries {
    let mut entries = Entries::new();
    let mut known: HashMap<SetId, usize, FixedState> = HashMap::default();
    for (slot, (set, mutation)) in change.into_iter().enumerate() {
        let index = match entries.last() {
            Some(last) if last.set == set => entries.len() - 1,
            _ => *known.entry(set).or_insert_with(|| {
                entries.push(Entry::of(set, EntryBody::Change(SmallVec::new())));
                entries.len() - 1
            }),
        };
        if let Some(Entry { body: EntryBody::Change(mutations), slots, .. }) =
            entries.get_mut(index)
        {
            mutations.push(mutation);
            slots.push(slot);
        }
    }
    entries
}

/// Puts a change together again as it was before [`split_by_set`].
pub(crate) fn join_sets(entries: Entries) -> Vec<(SetId, Mutation)> {
    let mut change: Vec<(usize, SetId, Mutation)> = Vec::new();
    for mut entry in entries {
        let EntryBody::Change(mutations) = &mut entry.body else { continue };
        let (set, mutations) = (entry.set, std::mem::take(mutations));
        let slots = (0..).map(|number| entry.slot(number));
        change.extend(mutations.into_iter().zip(slots).map(|(it, slot)| (slot, set, it)));
    }
    change.sort_by_key(|(slot, _, _)| *slot);
    change.into_iter().map(|(_, set, mutation)| (set, mutation)).collect()
}

/// Refuses what could not be stored, before it is logged.
pub(crate) fn validate(mutation: &Mutation) -> Result<(), CommitError> {
    let bytes_max = mutation.key.clustering_bytes_max();
    let check = |clustering: &[u8]| {
        if clustering.len() > bytes_max {
            return Err(CommitError::ClusteringTooLong { bytes: clustering.len(), bytes_max });
        }
        Ok(())
    };
    for operation in &mutation.operations {
        match operation {
            Operation::DeletePartition(_) => {}
            Operation::DeleteRange { range, .. } => {
                check(&range.start)?;
                check(range.end.as_deref().unwrap_or_default())?;
            }
            Operation::Row(change) => {
                if let RowPosition::Clustered(clustering) = &change.position {
                    check(clustering)?;
                }
            }
        }
    }
    Ok(())
}

/// Why sorted files cannot be written, where it is the log that cannot.
pub(crate) fn log_unwritten(error: AppendError) -> TreeError {
    let why = match error {
        AppendError::Short(Shortage::DiskFull) => io::ErrorKind::StorageFull.into(),
        AppendError::Short(Shortage::Other(why)) => {
            io::Error::new(io::ErrorKind::OutOfMemory, why.to_string())
        }
        error => return TreeError::Corrupt(Arc::from(CommitError::from(error).to_string())),
    };
    TreeError::Io(Arc::new(why))
}

impl From<AppendError> for CommitError {
    fn from(error: AppendError) -> CommitError {
        match error {
            AppendError::TooLarge { bytes, bytes_max } => {
                CommitError::TooLarge { bytes, bytes_max }
            }
            AppendError::Short(Shortage::DiskFull) => CommitError::DiskFull,
            AppendError::Short(Shortage::Other(why)) => CommitError::CannotWriteNow(why),
            AppendError::Failed(why) => CommitError::LogFailed(why),
            AppendError::Closed => CommitError::Closed,
            AppendError::Ended => CommitError::Moved,
            AppendError::Withdrawn => CommitError::Stale,
            AppendError::NoRoom(_) => CommitError::Overloaded,
        }
    }
}

/// Applies one entry; the outcomes of its mutations, by their number, go to `on_outcome`, and so does the
/// failure of an entry that has none. An entry that cannot be applied is the last: storage is poisoned.
pub(crate) fn apply_entry(
    core: &Core,
    head: &EntryHead,
    position: Position,
    body: &EntryBody,
    mut on_outcome: impl FnMut(usize, Result<Done, CommitError>),
) {
    if let Some(why) = core.poison.get() {
        return on_outcome(0, Err(CommitError::LogFailed(Arc::clone(why))));
    }
    let mut on_outcome = |number, outcome: Result<Done, CommitError>| {
        if let Err(CommitError::Tree { table, error }) = &outcome {
            core.poison.set(|| format!("table {table}: {error}"));
        }
        on_outcome(number, outcome);
    };
    let applied = catch_unwind(AssertUnwindSafe(|| {
        apply_sound(core, head, position, body, &mut on_outcome);
    }));
    if applied.is_err() {
        core.poison.set(|| "a bug: applying an entry panicked".to_owned());
        let why = core.poison.get().map_or_else(|| Arc::from(""), Arc::clone);
        on_outcome(0, Err(CommitError::LogFailed(why)));
    }
}

fn apply_sound(
    core: &Core,
    head: &EntryHead,
    position: Position,
    body: &EntryBody,
    mut on_outcome: impl FnMut(usize, Result<Done, CommitError>),
) {
    let place = |number: usize| {
        let ordinal = u32::try_from(number + 1).unwrap_or(u32::MAX);
        let applied = Applied { index: head.index, ordinal };
        let (set, now_s) = (head.set, head.now_s);
        Place { set, applied, position, now_s, is_first_form: false, asked: None }
    };
    let failure = match body {
        EntryBody::Empty => None,
        EntryBody::Change(mutations) => {
            for (number, mutation) in mutations.iter().enumerate() {
                on_outcome(number, apply(core, place(number), mutation));
            }
            None
        }
        EntryBody::Request(request) => {
            let count = request.mutations.len();
            if let Some(truncate) = &request.truncates {
                let asked = Asked::new(request, count);
                let place = Place { asked: Some(asked), ..place(count) };
                on_outcome(count, apply_truncate(core, place, truncate));
            }
            for (number, mutation) in request.mutations.iter().enumerate() {
                let asked = Asked::new(request, number);
                let place = Place { asked: Some(asked), ..place(number) };
                on_outcome(number, apply(core, place, mutation));
            }
            request.step.as_ref().and_then(|_| apply_step(core, request, place).err())
        }
        EntryBody::Define(define) => apply_define(core, place(0), define).err(),
        EntryBody::Sweep(sweep) => apply_sweep(core, place(0), sweep).err(),
        EntryBody::Split(split) => apply_split(core, place(0), split).err(),
    };
    if let Some(error) = failure {
        on_outcome(0, Err(error));
    }
}

/// Collects the outcomes of a change.
#[derive(Debug)]
pub(crate) struct Outcomes(CommitResult);

impl Outcomes {
    pub(crate) fn new(count: usize) -> Outcomes {
        let applied = || Done { outcome: Outcome::Applied, weight: 0 };
        Outcomes(Ok(match count {
            1 => AllDone::from_buf([applied()]),
            _ => (0..count).map(|_| applied()).collect(),
        }))
    }

    pub(crate) fn set(&mut self, slot: usize, outcome: Result<Done, CommitError>) {
        match (&mut self.0, outcome) {
            (Ok(outcomes), Ok(outcome)) => {
                *sure(outcomes.get_mut(slot), "every mutation has its slot") = outcome;
            }
            (Ok(_), Err(error)) => self.0 = Err(error),
            (Err(_), _) => {}
        }
    }

    pub(crate) fn finish(self) -> CommitResult {
        self.0
    }
}

/// A change that waits to become durable.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) position: Position,
    pub(crate) end: Position,
    pub(crate) heads: EntryHeads,
    pub(crate) entries: Entries,
    pub(crate) mutation_count: usize,
    pub(crate) reply: Reply,
}

/// What waits to become durable.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are changes: a box would be one more allocation for every write"
)]
pub(crate) enum Durable {
    Change(Job),
    Truncation(Truncation),
    Ends(Ends),
    /// Time has passed, up to a place of the log; told when everything before is applied.
    Time {
        end: Position,
        now_s: u32,
        reply: SyncSender<()>,
    },
    /// Called when everything before is durable, and with `false` if it never will be.
    Awaited {
        end: Position,
        done: Box<dyn FnOnce(bool) + Send>,
    },
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durable::Change(job) => job.fmt(f),
            Durable::Truncation(truncation) => truncation.fmt(f),
            Durable::Ends(ends) => ends.sets.fmt(f),
            Durable::Time { now_s, .. } => now_s.fmt(f),
            Durable::Awaited { end, .. } => end.fmt(f),
        }
    }
}

impl Durable {
    fn end(&self) -> Position {
        match self {
            Durable::Change(job) => job.end,
            Durable::Truncation(truncation) => truncation.appended.end,
            Durable::Ends(ends) => ends.end,
            Durable::Time { end, .. } | Durable::Awaited { end, .. } => *end,
        }
    }

    /// The second that no later entry is before.
    fn now_s(&self) -> u32 {
        match self {
            Durable::Change(job) => job.heads.last().map_or(0, |head| head.now_s),
            Durable::Truncation(_) | Durable::Ends(_) | Durable::Awaited { .. } => 0,
            Durable::Time { now_s, .. } => *now_s,
        }
    }
}

/// A table that is emptied once that is durable: no reader sees it empty before.
pub(crate) struct Truncation {
    pub(crate) table: TableId,
    pub(crate) appended: Appended,
    /// Gets the store that was replaced.
    pub(crate) reply: SyncSender<Option<Arc<TableStore>>>,
}

impl fmt::Debug for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Truncation").field("table", &self.table).finish_non_exhaustive()
    }
}

/// Sets whose last entries are durable (see [`crate::Storage::end_sets`]).
pub(crate) struct Ends {
    pub(crate) end: Position,
    pub(crate) sets: Vec<SetId>,
    pub(crate) show: Box<dyn FnOnce() + Send>,
    pub(crate) reply: SyncSender<Result<(), CommitError>>,
}

/// Where the entries of a change over several appliers meet again.
#[derive(Debug)]
struct Gather {
    remaining: AtomicUsize,
    outcomes: Mutex<Option<Outcomes>>,
    reply: Mutex<Option<Reply>>,
}

/// What one applier does for a job.
struct Task {
    position: Position,
    head: EntryHead,
    entry: Entry,
    gather: Arc<Gather>,
}

enum ApplierWork {
    Whole(Job),
    Part(Task),
}

/// How far what is durable has been applied.
#[derive(Debug, Default)]
pub(crate) struct AppliedThrough {
    /// In the order of the log.
    groups: Mutex<VecDeque<ApplyingGroup>>,
    first_number: AtomicU64,
    through: AtomicU64,
    /// No entry that is not applied has an earlier second.
    floor_s: AtomicU32,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct ApplyingGroup {
    end: Position,
    /// No later entry has an earlier second.
    now_s: u32,
    /// How many appliers still work on it.
    remaining: usize,
}

impl AppliedThrough {
    pub(crate) fn start_at(&self, position: Position, now_s: u32) {
        self.through.store(position, Ordering::Release);
        self.floor_s.store(now_s, Ordering::Release);
    }

    /// No entry that is not applied has an earlier second.
    pub(crate) fn floor_s(&self) -> u32 {
        self.floor_s.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self) -> Position {
        self.through.load(Ordering::Acquire)
    }

    /// Waits until everything before a place is applied.
    pub(crate) fn wait_for(&self, position: Position) {
        let mut groups = self.groups.lock();
        while self.get() < position && !groups.is_empty() {
            self.changed.wait(&mut groups);
        }
    }

    /// Waits until everything that is under way is applied.
    fn wait_idle(&self) {
        let mut groups = self.groups.lock();
        while !groups.is_empty() {
            self.changed.wait(&mut groups);
        }
    }

    fn is_idle(&self) -> bool {
        self.groups.lock().is_empty()
    }

    /// A group of which so many parts must finish; returns its number.
    fn begin(&self, end: Position, now_s: u32, remaining: usize) -> u64 {
        let mut groups = self.groups.lock();
        groups.push_back(ApplyingGroup { end, now_s, remaining });
        self.first_number.load(Ordering::Relaxed) + groups.len() as u64 - 1
    }

    fn finish(&self, number: u64) {
        let mut groups = self.groups.lock();
        let first = self.first_number.load(Ordering::Relaxed);
        let index = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        let group = sure(groups.get_mut(index), "a group is finished while it is under way");
        assert!(group.remaining > 0, "each applier finishes its part of a group once");
        group.remaining -= 1;
        while let Some(ApplyingGroup { end, now_s, remaining: 0 }) = groups.front().copied() {
            groups.pop_front();
            self.first_number.fetch_add(1, Ordering::Relaxed);
            self.floor_s.fetch_max(now_s, Ordering::AcqRel);
            let before = self.through.swap(end, Ordering::AcqRel);
            assert!(before <= end, "groups are applied in the order of the log");
        }
        self.changed.notify_all();
    }
}

/// Takes what became durable and has it applied.
pub(crate) struct Appliers {
    core: Arc<Core>,
    through: Arc<AppliedThrough>,
    queues: Vec<SyncSender<(u64, Vec<ApplierWork>)>>,
    threads: Vec<JoinHandle<()>>,
}

impl Appliers {
    pub(crate) fn start(core: Arc<Core>, through: Arc<AppliedThrough>) -> io::Result<Appliers> {
        let mut appliers = Appliers { core, through, queues: Vec::new(), threads: Vec::new() };
        let count = match appliers.core.options.driver {
            Driver::Threads => appliers.core.options.apply_threads.max(1),
            Driver::Steps => 0,
        };
        for number in 0..count {
            let (sender, receiver) = sync_channel(WAITING_GROUPS_MAX);
            let (core, through) = (Arc::clone(&appliers.core), Arc::clone(&appliers.through));
            let thread = Builder::new()
                .name(format!("apply-{number}"))
                .spawn(move || run_applier(&core, &through, &receiver))?;
            appliers.queues.push(sender);
            appliers.threads.push(thread);
        }
        Ok(appliers)
    }

    fn applier_of(&self, set: SetId) -> usize {
        set.0 as usize % self.queues.len().max(1)
    }

    fn add(&self, job: Job, works: &mut [Vec<ApplierWork>]) {
        let mut appliers = job.heads.iter().map(|head| self.applier_of(head.set));
        let first = appliers.next().unwrap_or(0);
        if appliers.all(|applier| applier == first) {
            if let Some(work) = works.get_mut(first) {
                work.push(ApplierWork::Whole(job));
            }
            return;
        }
        let gather = Arc::new(Gather {
            remaining: AtomicUsize::new(job.entries.len()),
            outcomes: Mutex::new(Some(Outcomes::new(job.mutation_count))),
            reply: Mutex::new(Some(job.reply)),
        });
        for (head, entry) in job.heads.into_iter().zip(job.entries) {
            let gather = Arc::clone(&gather);
            let task = Task { position: job.position, head, entry, gather };
            if let Some(work) = works.get_mut(self.applier_of(head.set)) {
                work.push(ApplierWork::Part(task));
            }
        }
    }
}

impl Appliers {
    /// Has changes applied that are durable up to a place.
    fn apply(&self, jobs: Vec<Job>, end: Position, now_s: u32) {
        let is_little = jobs.len() <= INLINE_JOBS_MAX && self.through.is_idle();
        if jobs.is_empty() || self.queues.is_empty() || is_little {
            let number = self.through.begin(end, now_s, 1);
            let works = jobs.into_iter().map(ApplierWork::Whole).collect();
            apply_works(&self.core, works);
            self.through.finish(number);
            return;
        }
        let mut works: Vec<Vec<ApplierWork>> = self.queues.iter().map(|_| Vec::new()).collect();
        for job in jobs {
            self.add(job, &mut works);
        }
        let parts = works.iter().filter(|work| !work.is_empty()).count();
        let number = self.through.begin(end, now_s, parts);
        for (queue, work) in self.queues.iter().zip(works) {
            if !work.is_empty() && queue.send((number, work)).is_err() {
                tracing::error!("an applier is gone");
                self.through.finish(number);
            }
        }
    }
}

impl DurableSink<Durable> for Appliers {
    fn on_durable(&mut self, durable: Vec<Durable>) {
        let mut jobs = Vec::with_capacity(durable.len());
        let (mut end, mut now_s) = (0, 0);
        for one in durable {
            end = one.end();
            now_s = one.now_s().max(now_s);
            match one {
                Durable::Time { reply, .. } => {
                    self.apply(std::mem::take(&mut jobs), end, now_s);
                    self.through.wait_idle();
                    let _ = reply.send(());
                }
                Durable::Change(job) => jobs.push(job),
                Durable::Awaited { done, .. } => done(true),
                // Before any later change is applied. Earlier ones that are still on their way find
                // that the new store was born after them.
                Durable::Truncation(Truncation { table, appended, reply }) => {
                    let _ = reply.send(self.core.replace_store(table, appended.position));
                }
                // What is behind it may be for the sets that get their keys, and have other appliers.
                Durable::Ends(ends) => {
                    self.apply(std::mem::take(&mut jobs), end, now_s);
                    self.through.wait_idle();
                    self.core.end_sets(&ends.sets);
                    (ends.show)();
                    let _ = ends.reply.send(Ok(()));
                }
            }
        }
        self.apply(jobs, end, now_s);
    }

    fn is_quick(&self, job: &Durable) -> bool {
        // The others show maps to readers, and wait for the appliers; and so does whoever finds their queues full.
        match job {
            Durable::Change(_) => self.through.is_idle(),
            Durable::Awaited { .. } => true,
            Durable::Time { .. } | Durable::Truncation(_) | Durable::Ends(_) => false,
        }
    }

    fn on_failed(&mut self, jobs: Vec<Durable>, why: &Arc<str>) {
        for job in jobs {
            let failed = CommitError::LogFailed(Arc::clone(why));
            match job {
                Durable::Change(job) => {
                    job.reply.send(Err(failed)).into_iter().for_each(Waker::wake);
                }
                Durable::Ends(ends) => {
                    let _ = ends.reply.send(Err(failed));
                }
                Durable::Awaited { done, .. } => done(false),
                // Whoever waits for it sees that the answer never comes.
                Durable::Truncation(_) | Durable::Time { .. } => {}
            }
        }
    }
}

impl Drop for Appliers {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run_applier(core: &Core, through: &AppliedThrough, queue: &Receiver<(u64, Vec<ApplierWork>)>) {
    while let Ok((number, works)) = queue.recv() {
        apply_works(core, works);
        through.finish(number);
    }
}

/// Applies a group and then answers it.
fn apply_works(core: &Core, works: Vec<ApplierWork>) {
    let mut answers = Vec::with_capacity(works.len());
    for work in works {
        match work {
            ApplierWork::Whole(job) => {
                let mut outcomes = Outcomes::new(job.mutation_count);
                for (head, entry) in job.heads.iter().zip(&job.entries) {
                    apply_entry(core, head, job.position, &entry.body, |number, outcome| {
                        outcomes.set(entry.slot(number), outcome);
                    });
                }
                answers.push((job.reply, outcomes.finish()));
            }
            ApplierWork::Part(task) => {
                let entry = &task.entry;
                apply_entry(core, &task.head, task.position, &entry.body, |number, outcome| {
                    if let Some(outcomes) = task.gather.outcomes.lock().as_mut() {
                        outcomes.set(entry.slot(number), outcome);
                    }
                });
                if task.gather.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                    let reply = task.gather.reply.lock().take();
                    let outcomes = task.gather.outcomes.lock().take();
                    if let (Some(reply), Some(outcomes)) = (reply, outcomes) {
                        answers.push((reply, outcomes.finish()));
                    }
                }
            }
        }
    }
    // All outcomes are there before anybody is woken for them.
    let mut waiting = Vec::new();
    for (reply, result) in answers {
        waiting.extend(reply.send(result));
    }
    waiting.into_iter().for_each(Waker::wake);
}

/// In periodic mode: who may append and apply for a set.
#[derive(Debug)]
pub(crate) struct SetLock {
    pub(crate) turn: Mutex<()>,
    /// While a change is appended and not yet applied: a place in the log at or before it.
    in_flight_since: AtomicU64,
    /// The change has this second or a later one.
    in_flight_s: AtomicU32,
}

impl SetLock {
    /// From now on the log is needed from that place on, and an entry is under way that is not from before
    /// that second.
    pub(crate) fn begin(&self, since: Position, now_s: u32) {
        self.in_flight_s.store(now_s, Ordering::SeqCst);
        self.in_flight_since.store(since, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.in_flight_since.store(Position::MAX, Ordering::SeqCst);
        self.in_flight_s.store(u32::MAX, Ordering::SeqCst);
    }
}

/// The locks of all sets.
#[derive(Debug, Default)]
pub(crate) struct SetLocks {
    locks: RwLock<HashMap<SetId, Arc<SetLock>, FixedState>>,
}

impl SetLocks {
    pub(crate) fn get(&self, set: SetId) -> Arc<SetLock> {
        if let Some(lock) = self.locks.read().get(&set) {
            return Arc::clone(lock);
        }
        let mut locks = self.locks.write();
        let fresh = || {
            Arc::new(SetLock {
                turn: Mutex::new(()),
                in_flight_since: AtomicU64::new(Position::MAX),
                in_flight_s: AtomicU32::new(u32::MAX),
            })
        };
        Arc::clone(locks.entry(set).or_insert_with(fresh))
    }

    /// The first place in the log that may not be applied yet.
    pub(crate) fn in_flight_since(&self) -> Position {
        let locks = self.locks.read();
        let since = locks.values().map(|lock| lock.in_flight_since.load(Ordering::SeqCst));
        since.min().unwrap_or(Position::MAX)
    }

    /// No entry that is not applied has an earlier second. `given_s`: what the log gave last, asked for
    /// before: who begins later gets that or a later one.
    pub(crate) fn floor_s(&self, given_s: u32) -> u32 {
        let locks = self.locks.read();
        let in_flight = locks.values().map(|lock| lock.in_flight_s.load(Ordering::SeqCst));
        in_flight.fold(given_s, u32::min)
    }

    /// Waits until nobody is in the middle of a change.
    pub(crate) fn wait_idle(&self) {
        let locks: Vec<_> = self.locks.read().values().cloned().collect();
        for lock in locks {
            drop(lock.turn.lock());
        }
    }
}
