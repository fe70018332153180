//! Chores on threads of their own: flushing memtables, compacting, shortening the log; and the push
//! back on writers when the chores do not keep up.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use types::{RingToken, SetId, TableId};

use crate::commit::{AppliedThrough, Durable, SetLocks, log_unwritten};
use crate::committer::Committer;
use crate::core::Core;
use crate::entry::Sweep;
use crate::error::{CommitError, OpenError, TreeError};
use crate::index::build::WhenIdle;
use crate::index::{self, leftovers};
use crate::options::Driver;
use crate::repeated_failure::RepeatedFailure;
use crate::sizes::walk::walk_due;
use crate::sweeping::ring_of;
use crate::tree::store::{OpenStore, TableStore};
use crate::tree::sweep::{Shape, sweep_deletions, sweep_spilled};
use node_log::broken::{Rule, breaks};
use node_log::{Log, Position, is_disk_failure, is_shortage};
use tree::engine::too_many_runs;

/// With this many nothing is flushed until some were merged, long before a tree refuses it. Writes are refused when
/// memory is full meanwhile.
pub(crate) const UNSORTED_RUNS_MAX: usize = 128;
/// Old deletions of a logical partition wait so long for a place among those that leaders are to take away.
const SWEEP_WAIT: Duration = Duration::from_millis(5);
/// How often the flusher looks around by itself.
const FLUSHER_ROUND: Duration = Duration::from_millis(200);
/// Stores that are flushed before the flusher looks again which are the largest, and shortens the log: with a thousand
/// tables a look takes as long as a small flush.
const FLUSHES_PER_LOOK: usize = 16;
/// After so many of its rounds compactions are tried again that failed for want of something.
const POSTPONED_ROUNDS: u64 = 25;
/// How often partitions are looked for that should be counted.
const COUNTER_ROUND: Duration = Duration::from_millis(200);
/// Stores that may wait for a compaction; more are found again at their next flush.
const WAITING_COMPACTIONS_MAX: usize = 4096;
/// Whoever cannot go on without a flush looks so often whether merges made way for it,
const MERGE_LOOKS_MAX: usize = 3_000;
/// and this long lies between two looks if no merge ends: ten minutes in all.
const MERGE_LOOK: Duration = Duration::from_millis(200);

/// How far the flusher stands back behind requests: it gets a quarter of a busy core. Writers that it
/// keeps waiting leave it more.
pub(crate) const FLUSHER_NICE: i32 = 5;
/// How far the other chores do: a tenth.
const CHORE_NICE: i32 = 10;

/// Has the scheduler prefer the threads of requests to this one, so that a merge that runs for seconds
/// does not hold a core against them.
pub(crate) fn stand_back(nice: i32) {
    // Elsewhere the call would slow down the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(nice) {
        tracing::debug!(%error, "a chore runs with the priority of requests");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}

/// The chores and what they need.
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    core: Arc<Core>,
    log: Arc<Log<Durable>>,
    through: Option<Arc<AppliedThrough>>,
    set_locks: Arc<SetLocks>,
    committer: Arc<Committer>,
    /// Places in the log of tables that are being emptied or dropped.
    table_ends: Mutex<Vec<Position>>,
    is_stopping: AtomicBool,
    state: Mutex<State>,
    flush_wanted: Condvar,
    compaction_wanted: Condvar,
    count_wanted: Condvar,
    merge_ended: Condvar,
    /// Only one seals and flushes at a time.
    flushing: Mutex<()>,
}

#[derive(Default)]
struct State {
    compactions: VecDeque<(Arc<TableStore>, Compaction)>,
    /// Those that failed for want of room or descriptors, to be tried again a little later.
    postponed: Vec<(Arc<TableStore>, Compaction)>,
    /// What the last compaction that failed so was short of; none once one went well.
    merge_shortage: Option<Arc<io::Error>>,
}

/// How much of a store is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compaction {
    /// Where there are too many files.
    Usual,
    /// Everything, to be rid of what is dead.
    Purge,
}

impl Maintenance {
    /// `through`: how far the group commit applied; without it the set locks know.
    pub(crate) fn start(
        committer: Arc<Committer>,
        through: Option<Arc<AppliedThrough>>,
    ) -> io::Result<Maintenance> {
        let compaction_threads = committer.core.options.compaction_threads.max(1);
        let shared = Arc::new(Shared {
            core: Arc::clone(&committer.core),
            log: Arc::clone(&committer.log),
            set_locks: Arc::clone(&committer.set_locks),
            committer,
            through,
            table_ends: Mutex::new(Vec::new()),
            is_stopping: AtomicBool::new(false),
            state: Mutex::new(State::default()),
            flush_wanted: Condvar::new(),
            compaction_wanted: Condvar::new(),
            count_wanted: Condvar::new(),
            merge_ended: Condvar::new(),
            flushing: Mutex::new(()),
        });
        let mut threads = Vec::new();
        if shared.core.options.driver == Driver::Steps {
            return Ok(Maintenance { shared, threads: Mutex::new(threads) });
        }
        let flusher = Arc::clone(&shared);
        threads.push(Builder::new().name("flush".into()).spawn(move || {
            stand_back(FLUSHER_NICE);
            flusher.run_flusher();
        })?);
        let builder = Arc::clone(&shared);
        threads.push(Builder::new().name("index".into()).spawn(move || {
            stand_back(CHORE_NICE);
            builder.build_indexes(WhenIdle::Wait);
        })?);
        let counter = Arc::clone(&shared);
        threads.push(Builder::new().name("count".into()).spawn(move || {
            stand_back(CHORE_NICE);
            counter.run_counter();
        })?);
        for number in 0..compaction_threads {
            let shared = Arc::clone(&shared);
            let name = format!("compact-{number}");
            threads.push(Builder::new().name(name).spawn(move || {
                stand_back(CHORE_NICE);
                shared.run_compactor();
            })?);
        }
        Ok(Maintenance { shared, threads: Mutex::new(threads) })
    }

    /// Where there are no threads: does what is due of each chore, in the same order every time.
    pub(crate) fn step(&self) {
        let (shared, mut failures) = (&self.shared, RepeatedFailure::default());
        shared.flush_what_is_due(&mut failures);
        shared.count_partitions();
        loop {
            let next = shared.state.lock().compactions.pop_front();
            let Some((store, compaction)) = next else { break };
            shared.compact_as(store, compaction, &mut failures);
        }
        shared.build_indexes(WhenIdle::Return);
    }

    /// Called after a write.
    pub(crate) fn after_write(&self) {
        if self.shared.core.pressure.wants_flush() {
            self.shared.flush_wanted.notify_one();
        }
    }

    /// Flushes one store, now.
    pub(crate) fn flush(&self, store: &Arc<TableStore>) -> Result<(), TreeError> {
        self.shared.flush(store)
    }

    /// As [`Maintenance::flush`], for who cannot go on without: where too many files wait to be merged it waits for merges.
    pub(crate) fn flush_at_last(&self, store: &Arc<TableStore>) -> Result<(), TreeError> {
        for _ in 0..MERGE_LOOKS_MAX {
            match self.shared.flush(store) {
                Err(TreeError::Io(error))
                    if error.kind() == io::ErrorKind::WouldBlock && !self.shared.is_stopping() =>
                {
                    self.shared.await_merge(store);
                }
                flushed => return flushed,
            }
        }
        self.shared.flush(store)
    }

    /// What whoever else writes sorted files does with an error.
    pub(crate) fn judged(&self, error: TreeError) -> TreeError {
        self.shared.judged(error)
    }

    /// Merges all files of a store, without what has been dead for long enough.
    pub(crate) fn purge(&self, store: &Arc<TableStore>) -> Result<(), TreeError> {
        self.shared.purge(store)
    }

    /// Removes from the log what no store needs any more.
    pub(crate) fn release_log(&self) {
        self.shared.release_log();
    }

    /// While this is held the log is kept from that place on.
    pub(crate) fn hold_log(&self, position: Position) -> LogHold<'_> {
        self.shared.table_ends.lock().push(position);
        LogHold { shared: &self.shared, position }
    }

    pub(crate) fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        {
            let _state = self.shared.state.lock();
            self.shared.flush_wanted.notify_all();
            self.shared.compaction_wanted.notify_all();
            self.shared.count_wanted.notify_all();
            self.shared.merge_ended.notify_all();
        }
        self.shared.core.index_builds.wake();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

/// Keeps the log from a place on.
pub(crate) struct LogHold<'m> {
    shared: &'m Shared,
    position: Position,
}

impl Drop for LogHold<'_> {
    fn drop(&mut self) {
        let mut ends = self.shared.table_ends.lock();
        if let Some(index) = ends.iter().position(|position| *position == self.position) {
            ends.swap_remove(index);
        }
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn build_indexes(&self, when_idle: WhenIdle) {
        let is_stopping = || self.is_stopping();
        index::build::run(&self.core, &|store| self.flush(store), &is_stopping, when_idle);
    }

    fn run_flusher(&self) {
        let mut failures = RepeatedFailure::default();
        for round in 1u64.. {
            {
                let mut state = self.state.lock();
                if self.is_stopping() {
                    return;
                }
                self.flush_wanted.wait_for(&mut state, FLUSHER_ROUND);
            }
            self.flush_what_is_due(&mut failures);
            if round.is_multiple_of(POSTPONED_ROUNDS) {
                let postponed = std::mem::take(&mut self.state.lock().postponed);
                postponed.iter().for_each(|(store, how)| self.queue_compaction(store, *how));
            }
        }
    }

    fn flush_what_is_due(&self, failures: &mut RepeatedFailure) {
        while self.flush_some(failures) {}
        self.look_around();
    }

    /// Flushes a few stores and shortens the log once; `false` when there is nothing to do, or it cannot be done.
    fn flush_some(&self, failures: &mut RepeatedFailure) -> bool {
        if self.is_stopping() || self.log.has_failed() {
            return false;
        }
        let stores = self.stores_to_flush();
        if stores.is_empty() {
            // No store holds the log, and it is too long all the same.
            if self.is_log_too_long() {
                self.release_log();
            }
            return false;
        }
        let (is_for_memory, done) = (self.core.pressure.wants_flush(), &self.core.done);
        let flushed_before = done.flushed_bytes.load(Ordering::Relaxed);
        let mut is_well = true;
        for store in stores {
            if self.is_stopping() || !is_well || !self.wants_flush() {
                break;
            }
            match self.flush_without_release(&store) {
                Ok(()) => {
                    if let Some(count) = failures.over() {
                        tracing::warn!(table = %store.id, count, "memtables are flushed again");
                    }
                    self.core.pressure.set_failure(None);
                }
                Err(error) => {
                    if let Some(count) = failures.another() {
                        tracing::error!(table = %store.id, %error, count, "a memtable could not be flushed; it is tried again");
                    }
                    self.core.pressure.set_failure(Some(error));
                    is_well = false;
                }
            }
        }
        if is_for_memory {
            let flushed = done.flushed_bytes.load(Ordering::Relaxed) - flushed_before;
            self.core.pressure.note_flushed(flushed, self.core.clock.elapsed());
        }
        self.release_log();
        is_well
    }

    fn run_counter(&self) {
        loop {
            {
                let mut state = self.state.lock();
                if self.is_stopping() {
                    return;
                }
                self.count_wanted.wait_for(&mut state, COUNTER_ROUND);
            }
            self.count_partitions();
        }
    }

    /// Counts partitions that may be large, or of which something died, and learns which there are.
    fn count_partitions(&self) {
        let mut largest = 0;
        for store in self.core.all_stores() {
            let Some(opened) = store.if_open() else { continue };
            let goes_on = || !self.is_stopping() && !store.is_dropped();
            match leftovers::clear(&self.core, opened, &goes_on) {
                Err(error) if !store.is_dropped() => {
                    tracing::error!(table = %store.id, %error, "an index keeps what was deleted");
                }
                Ok(()) | Err(_) => {}
            }
            match walk_due(&self.core, &store, opened, &goes_on) {
                Err(error) if !store.is_dropped() => {
                    tracing::error!(table = %store.id, %error, "a partition could not be counted");
                }
                Ok(()) | Err(_) => {}
            }
            if let Err(error) = opened.tree.learn(&goes_on) {
                tracing::warn!(table = %store.id, %error, "what its files hold was not learned");
            }
            largest = largest.max(opened.sizes.largest_bytes());
        }
        self.core.sizes.node_largest.store(largest, Ordering::Relaxed);
    }

    /// Sees what is due: merges for the sake of what is dead, and how far compaction lags.
    fn look_around(&self) {
        let mut runs = 0;
        for store in self.core.all_stores() {
            let Some(opened) = store.if_open() else {
                continue;
            };
            runs = runs.max(opened.tree.unsorted_runs()).max(opened.indexes.unsorted_runs());
            if opened.take_purge(self.core.wished_horizon_s(store.id)) {
                self.queue_compaction(&store, Compaction::Purge);
            }
        }
        self.core.pressure.unsorted_runs.store(runs, Ordering::Relaxed);
        self.core.pressure.give_back(self.core.clock.elapsed());
    }

    fn is_log_too_long(&self) -> bool {
        self.log.kept_bytes() > self.core.options.log_bytes_max
    }

    fn wants_flush(&self) -> bool {
        self.core.pressure.wants_flush() || self.is_log_too_long()
    }

    /// Stores with the most memory when there is too much of it, or the one that keeps the log
    /// long when that is too long.
    fn stores_to_flush(&self) -> Vec<Arc<TableStore>> {
        if self.core.pressure.wants_flush() {
            return self.core.largest_few_in_memory(FLUSHES_PER_LOOK);
        }
        if self.is_log_too_long() {
            return self.core.oldest_in_log().into_iter().collect();
        }
        Vec::new()
    }

    fn flush(&self, store: &Arc<TableStore>) -> Result<(), TreeError> {
        self.flush_without_release(store)?;
        self.release_log();
        Ok(())
    }

    fn flush_without_release(&self, store: &Arc<TableStore>) -> Result<(), TreeError> {
        let Some(opened) = store.if_open() else {
            return Ok(());
        };
        if has_too_many_runs(opened) {
            self.queue_compaction(store, Compaction::Usual);
            let shortage = self.state.lock().merge_shortage.clone();
            return Err(TreeError::Io(shortage.unwrap_or_else(|| Arc::new(too_many_runs()))));
        }
        {
            let _flushing = self.flushing.lock();
            // What could not be flushed goes first: a memtable sealed behind each failure would become a
            // file for every few writes, and then they are too many.
            if opened.has_sealed() && !self.flush_sealed(store, opened)? {
                return Ok(());
            }
            let floor_s = self.floor_s();
            opened.judge_guards(|set| self.core.groups.now_s(set));
            let horizon_s =
                |retention_s| self.core.definitions.raise_horizon(store.id, floor_s, retention_s);
            let sealed = opened.seal(&self.core.poison, horizon_s);
            if sealed.map_err(TreeError::Corrupt)? && !self.flush_sealed(store, opened)? {
                return Ok(());
            }
        }
        self.queue_compaction(store, Compaction::Usual);
        Ok(())
    }

    /// Writes sealed memtables to sorted files; `false` if the table was dropped meanwhile.
    fn flush_sealed(&self, store: &TableStore, opened: &OpenStore) -> Result<bool, TreeError> {
        // Sorted files never know more than the log.
        let end = self.log.end();
        self.log.sync_through(end).map_err(log_unwritten)?;
        let begun = self.core.clock.elapsed();
        let freed = match opened.flush_sealed() {
            Ok(freed) => freed,
            Err(_) if store.is_dropped() => return Ok(false),
            Err(error) => return Err(self.judged(error)),
        };
        let synced = self.core.home.sync(&self.core.trees_folder);
        synced.map_err(|error| self.judged(TreeError::Io(Arc::new(error))))?;
        self.core.pressure.shrink(freed);
        let took = self.core.clock.elapsed().saturating_sub(begun);
        self.core.done.flushes.add(took);
        self.core.done.flushed_bytes.fetch_add(freed, Ordering::Relaxed);
        let table = self.core.schema.table(store.id);
        let table = table.map(|table| format!("{}.{}", table.keyspace, table.name));
        let table = table.unwrap_or_else(|| store.id.to_string());
        tracing::info!(%table, bytes = freed, took_us = took.as_micros() as u64, "a memtable was flushed");
        Ok(true)
    }

    /// After a failed write or sync of sorted files nothing is acknowledged any more: what is on the disk
    /// is unknown, and to try again would be to believe a disk that forgets its errors.
    fn judged(&self, error: TreeError) -> TreeError {
        if let TreeError::Io(error) = &error
            && is_disk_failure(error)
        {
            self.log.fail(&format!("sorted files could not be written: {error}"));
        }
        error
    }

    /// What was applied is in some store's memtable or flushed; what was not is still on its way.
    fn release_log(&self) {
        let mut keep_from = match &self.through {
            Some(through) => through.get(),
            None => {
                let end = self.log.end();
                end.min(self.set_locks.in_flight_since())
            }
        };
        keep_from = keep_from.min(self.core.groups.needed_from());
        for position in self.table_ends.lock().iter() {
            keep_from = keep_from.min(*position);
        }
        for store in self.core.all_stores() {
            if let Some(opened) = store.if_open() {
                keep_from = keep_from.min(opened.holds_log_from());
            }
        }
        self.log.forget_before(keep_from);
    }

    fn queue_compaction(&self, store: &Arc<TableStore>, compaction: Compaction) {
        let mut state = self.state.lock();
        let is_queued = state
            .compactions
            .iter()
            .any(|(queued, how)| *how == compaction && Arc::ptr_eq(queued, store));
        if !is_queued && state.compactions.len() < WAITING_COMPACTIONS_MAX {
            state.compactions.push_back((Arc::clone(store), compaction));
            self.compaction_wanted.notify_one();
        }
    }

    fn run_compactor(&self) {
        let mut failures = RepeatedFailure::default();
        loop {
            let (store, compaction) = {
                let mut state = self.state.lock();
                loop {
                    if self.is_stopping() {
                        return;
                    }
                    if let Some(next) = state.compactions.pop_front() {
                        break next;
                    }
                    self.compaction_wanted.wait(&mut state);
                }
            };
            self.compact_as(store, compaction, &mut failures);
        }
    }

    /// Helps with the merges of a store, and lets a little time pass for those that are under way.
    fn await_merge(&self, store: &Arc<TableStore>) {
        // Without threads nobody else does it, and with them this table may be the last of many that wait.
        self.compact_as(Arc::clone(store), Compaction::Usual, &mut RepeatedFailure::default());
        if self.core.options.driver == Driver::Threads
            && store.if_open().is_some_and(has_too_many_runs)
        {
            let mut state = self.state.lock();
            if !self.is_stopping() {
                self.merge_ended.wait_for(&mut state, MERGE_LOOK);
            }
        }
    }

    fn compact_as(
        &self,
        store: Arc<TableStore>,
        compaction: Compaction,
        failures: &mut RepeatedFailure,
    ) {
        let result = match compaction {
            Compaction::Usual => self.compact(&store),
            Compaction::Purge => self.purge(&store),
        };
        self.merge_ended.notify_all();
        match result {
            Ok(()) => {
                if failures.over().is_some() {
                    self.state.lock().merge_shortage = None;
                }
            }
            Err(_) if store.is_dropped() => {}
            Err(error) => {
                let error = self.judged(error);
                self.core.damage.note_error(store.id, &error);
                if let Some(count) = failures.another() {
                    tracing::error!(table = %store.id, %error, count, "a compaction failed");
                }
                let mut state = self.state.lock();
                if let TreeError::Io(error) = error
                    && is_shortage(&error)
                {
                    state.merge_shortage = Some(error);
                    if state.postponed.len() < WAITING_COMPACTIONS_MAX {
                        state.postponed.push((store, compaction));
                    }
                }
            }
        }
    }

    fn compact(&self, store: &Arc<TableStore>) -> Result<(), TreeError> {
        let Some(opened) = store.if_open() else {
            return Ok(());
        };
        let watermark = opened.watermark();
        let begun = self.core.clock.elapsed();
        if opened.tree.compact(watermark)? | opened.indexes.compact(watermark)? {
            self.core.done.merges.add(self.core.clock.elapsed().saturating_sub(begun));
            opened.has_replaced_files.store(true, Ordering::Release);
            self.queue_compaction(store, Compaction::Usual);
        } else if opened.has_replaced_files.swap(false, Ordering::AcqRel) {
            // The last of a row of compactions: a table that nobody writes to gives its room back, too.
            release(opened)?;
        }
        Ok(())
    }

    /// Takes away what has been dead for long enough.
    fn purge(&self, store: &Arc<TableStore>) -> Result<(), TreeError> {
        let Some(opened) = store.if_open() else {
            return Ok(());
        };
        let goes_on = || !self.is_stopping() && !store.is_dropped();
        // Where nothing is written, nothing else tells that time has passed, and how long the dead stay.
        self.pass_time()?;
        if let Some(table) = self.core.schema.table(store.id)
            && let Ok(newest) =
                self.core.definitions.newest(&table, self.core.options.tombstone_retention_s)
        {
            self.core.definitions.announce(&newest, opened.purged_s());
        }
        let floor_s = self.floor_s();
        let horizon_s = opened.horizon_at(|retention_s| {
            self.core.definitions.raise_horizon(store.id, floor_s, retention_s)
        });
        // Sets with several members have seconds of their own, of which those of others say nothing.
        let of_partition = |prefix: &[u8]| {
            let set =
                self.set_of(store.id, prefix).and_then(|(set, _)| self.core.groups.now_s(set));
            set.map_or(horizon_s, |now_s| {
                let definitions = &self.core.definitions;
                opened.horizon_at(|retention_s| definitions.horizon_s(store.id, now_s, retention_s))
            })
        };
        sweep_deletions(store.id, opened, of_partition, |sweep| goes_on() && self.commit(sweep))?;
        if breaks(Rule::PurgeAhead) {
            opened.purge_ahead();
            return opened.tree.compact_all(opened.watermark());
        }
        // The horizon comes into the files before anything is purged by it.
        opened.want_seal();
        self.flush(store)?;
        let cache = &self.core.cache;
        let shape = match self.core.groups.floor_s() {
            Some(_) => Shape::Stays,
            None => Shape::AsIsLeft,
        };
        let bytes = sweep_spilled(store, opened, cache, (store.horizon_s(), shape), &goes_on)?;
        self.core.pressure.grow(bytes);
        self.flush(store)?;
        let watermark = opened.watermark();
        let begun = self.core.clock.elapsed();
        opened.tree.compact_all(watermark)?;
        opened.indexes.compact_all(watermark)?;
        self.core.done.merges.add(self.core.clock.elapsed().saturating_sub(begun));
        release(opened)?;
        self.core.queue_builds(store);
        opened.sizes.ask_for_full_walk();
        Ok(())
    }
}

impl Shared {
    /// No entry that is not applied has an earlier second.
    fn floor_s(&self) -> u32 {
        if breaks(Rule::PurgeByClock) {
            return self.core.clock.now_s();
        }
        let floor_s = match &self.through {
            Some(through) => through.floor_s(),
            None => {
                let given_s = self.log.now_s();
                self.set_locks.floor_s(given_s)
            }
        };
        self.core.groups.floor_s().map_or(floor_s, |of_groups| floor_s.min(of_groups))
    }

    /// Has the log say what time it is, and waits until everything before is applied.
    fn pass_time(&self) -> Result<(), TreeError> {
        let now_s = self.core.clock.now_s();
        let failed = || TreeError::Corrupt("the log failed".into());
        // Bounded by one: there is one answer.
        let (reply, passed) = sync_channel(1);
        let mut reply = self.through.is_some().then_some(reply);
        let appended = self.log.append_time(now_s, |appended| {
            Some(Durable::Time { end: appended.end, now_s, reply: reply.take()? })
        });
        let synced = appended.and_then(|appended| self.log.sync_through(appended.end));
        synced.map_err(|_| failed())?;
        match self.through {
            Some(_) => passed.recv().map_err(|_| failed()),
            None => Ok(()),
        }
    }

    /// The set of a logical partition, and where it lies on the ring.
    fn set_of(&self, table: TableId, prefix: &[u8]) -> Option<(SetId, RingToken)> {
        let ring = ring_of(prefix)?;
        self.core.locate.get()?(table, ring).map(|set| (set, ring))
    }

    /// Commits a part of a sweep; whether to go on with the partition.
    fn commit(&self, sweep: Sweep) -> bool {
        let Some((set, ring)) = self.set_of(sweep.table, &sweep.prefix) else { return false };
        // What a set with several members does is proposed by its leader, and so are the parts that follow.
        if self.core.groups.contains(set) {
            let waits = self.core.options.driver == Driver::Threads;
            self.core.sweeps.add(set, ring, sweep, if waits { SWEEP_WAIT } else { Duration::ZERO });
            return false;
        }
        // Rows that a member left behind, and that go with the next image or purge: they are not this node's to change.
        if self.core.sweeps.are_proposed() {
            return false;
        }
        match self.committer.commit_sweep(set, sweep) {
            Ok(_) => true,
            // Its keys have another set by now: the next purge sees to it.
            Err(CommitError::Moved) => false,
            Err(error) => {
                tracing::warn!(%error, "old deletions could not be taken away; it is tried again");
                false
            }
        }
    }
}

/// Whether nothing of a table is flushed until some of its files were merged.
fn has_too_many_runs(opened: &OpenStore) -> bool {
    opened.tree.unsorted_runs().max(opened.indexes.unsorted_runs()) >= UNSORTED_RUNS_MAX
}

/// Lets go of the files that compactions replaced, unless somebody still reads them.
fn release(opened: &OpenStore) -> Result<(), TreeError> {
    let watermark = opened.watermark();
    opened.tree.release(watermark)?;
    opened.indexes.release(watermark)
}

/// Frees memory while the log is replayed: every record that was applied is synced already.
pub(crate) fn flush_while_recovering(core: &Core) -> Result<(), OpenError> {
    core.largest_in_memory().map_or(Ok(()), |store| flush_store_while_recovering(core, &store))
}

/// As [`flush_while_recovering`], of one store.
pub(crate) fn flush_store_while_recovering(
    core: &Core,
    store: &TableStore,
) -> Result<(), OpenError> {
    let Some(opened) = store.if_open() else {
        return Ok(());
    };
    core.home.sync(&core.trees_folder).map_err(OpenError::io(&core.trees_folder))?;
    // What is still to be replayed says how far time has come; this does not.
    let poisoned = |why| OpenError::Tree { table: store.id, error: TreeError::Corrupt(why) };
    opened.seal(&core.poison, |_| 0).map_err(poisoned)?;
    let freed =
        opened.flush_sealed().map_err(|error| OpenError::Tree { table: store.id, error })?;
    core.pressure.shrink(freed);
    Ok(())
}

/// What a store holds, about.
#[derive(Clone, Debug)]
pub struct TableStatistics {
    /// Which table.
    pub table: TableId,
    /// Bytes in sorted files.
    pub disk_bytes: u64,
    /// Bytes not yet in sorted files.
    pub memory_bytes: u64,
    /// Rows, static rows and tombstones; a row that was changed since its last merge counts twice.
    pub row_count: u64,
}
