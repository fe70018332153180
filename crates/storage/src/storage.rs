//! The door of storage.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use schema::{Index, Table};
use types::{
    Mutation, PartitionKey, ReadCommand, ReplicaId, RingRange, RingToken, RowSink, SetId, TableId,
};

use crate::apply::foresee;
use crate::cache::Lookups;
use crate::clock::Clock;
use crate::commit::{
    AppliedThrough, Appliers, Committed, Durable, Ends, LocatedMutations, SetLocks, Truncation,
    split_by_set, validate,
};
use crate::committer::Committer;
use crate::core::{ChoreSums, Core};
use crate::data_dir::DataDir;
use crate::entry::{Entries, Entry, EntryBody, EntryKind, Mutations};
use crate::error::{CommitError, OpenError, ReadError, TreeError};
use crate::group::raise_commits;
use crate::index;
use crate::index::build::IndexBuild;
use crate::index::check::IndexComparison;
use crate::index::shape::IndexShape;
use crate::install::{Begun, Cleans, Unsettled, redo};
use crate::maintenance::{self, Maintenance, TableStatistics};
use crate::options::{CommitMode, Options};
use crate::promise::AnswerTo;
use crate::read;
use crate::replay::replay;
use crate::room::WithoutRoom;
use crate::schema_source::SchemaSource;
use crate::sizes::admit::{PartitionFilling, PartitionFull};
use crate::sizes::{self, LogicalSize, RangeSize, TableSizes};
use crate::slots::Slots;
use node_log::frame::RecordKind;
use node_log::recovery::{Recovered, Replayed, recover, replay_groups};
use node_log::survey::{Survey, survey};
use node_log::{
    Appended, Appending, Disk, DurableSink, Elapsed, EntryHead, Log, NewEntry, NewRecord, RealDisk,
    RecoveredGroup, Shortage,
};
use tree::{FileHome, TreeHome};

/// A clean stop leaves at most this much to be replayed.
const REPLAYED_BYTES_MAX: u64 = 1024 * 1024;

/// So many sets end in one record of the log.
const ENDS_PER_RECORD_MAX: usize = 2048;

/// The rows of a node, on disk.
pub struct Storage {
    data_dir: DataDir,
    pub(crate) core: Arc<Core>,
    pub(crate) log: Arc<Log<Durable>>,
    through: Arc<AppliedThrough>,
    set_locks: Arc<SetLocks>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) maintenance: Maintenance,
    /// Until somebody asks for them.
    pub(crate) recovered_groups: Mutex<Vec<RecoveredGroup>>,
    /// Members that were taken away, as recovery found them.
    pub(crate) recovered_gone: BTreeMap<SetId, ReplicaId>,
    /// Images whose rows are not in sorted files yet.
    pub(crate) unsettled: Mutex<Vec<Unsettled>>,
    pub(crate) installs_begun: Mutex<Begun>,
    is_closed: AtomicBool,
    /// Everything is being flushed, in a thread of its own.
    pub(crate) is_flushing: AtomicBool,
}

/// What storage stands on: the disk under its log, and where its trees are.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Under the log.
    pub disk: Arc<dyn Disk>,
    /// Of the trees.
    pub home: Arc<dyn TreeHome>,
}

impl Ground {
    fn files(data_dir: &DataDir, options: &Options) -> Ground {
        let home = FileHome::new(options.block_cache_bytes, options.open_files_max);
        Ground { disk: Arc::new(RealDisk::new(data_dir.log_folder())), home: Arc::new(home) }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("path", &self.data_dir.path()).finish_non_exhaustive()
    }
}

/// What storage holds.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Tables in whose files damage was met since the start, and what it was.
    pub damaged: Vec<(TableId, Arc<str>)>,
    /// Every table that something was written to.
    pub tables: Vec<TableStatistics>,
    /// Bytes of the log that are still needed.
    pub log_bytes: u64,
    /// Bytes not yet in sorted files.
    pub memtable_bytes: u64,
    /// Bytes in the row cache.
    pub row_cache_bytes: u64,
    pub row_cache_count: u64,
    /// How many bytes the row cache may hold now.
    pub row_cache_capacity_bytes: u64,
    pub row_cache_lookups: Lookups,
    /// Bytes in the cache of partition heads.
    pub head_cache_bytes: u64,
    /// Heads in it.
    pub head_cache_count: u64,
    /// How many bytes it may hold.
    pub head_cache_capacity_bytes: u64,
    pub head_cache_lookups: Lookups,
    pub writing: Writing,
    pub chores: ChoreSums,
}

/// Whether changes are taken. Reads go on in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Writing {
    /// They are.
    #[default]
    Goes,
    /// There is no room. They are taken again when there is.
    DiskFull,
    /// Something else is short, such as descriptors. They are taken again when it is not.
    Waits(Arc<str>),
    /// Not before a restart: what the disk holds is unknown.
    Failed(Arc<str>),
}

impl Storage {
    /// Opens what a data folder holds and replays what is only in its log.
    pub fn open(
        data_dir: DataDir,
        options: Options,
        schema: Arc<dyn SchemaSource>,
        clock: Arc<dyn Clock>,
    ) -> Result<Storage, OpenError> {
        let ground = Ground::files(&data_dir, &options);
        Storage::open_on(ground, data_dir, options, schema, clock)
    }

    /// As [`Storage::open`], with another disk under the log, or other trees.
    pub fn open_on(
        ground: Ground,
        data_dir: DataDir,
        options: Options,
        schema: Arc<dyn SchemaSource>,
        clock: Arc<dyn Clock>,
    ) -> Result<Storage, OpenError> {
        let Ground { disk, home } = ground;
        let core = Arc::new(Core::new(options, home, data_dir.trees_folder(), schema, clock)?);
        let mut recovered = recover(&disk, |replayed| replay(&core, replayed))?;
        if recovered.segment_starts.is_empty() && !core.all_stores().is_empty() {
            return Err(OpenError::LogMissing { path: data_dir.log_folder() });
        }
        raise_commits(&core, &mut recovered.groups)?;
        let unsettled = redo(&core, &disk, &recovered.installs, Cleans::Strays)?;
        replay_groups(&disk, &recovered, |replayed| replay(&core, replayed))?;
        let mut indexes = recovered.all_indexes();
        // Sets that were split off, and whose members are in no record yet: the entry that split them is.
        for (set, index) in core.groups.replayed_splits() {
            indexes.entry(set).or_insert(index);
        }
        core.finish_recovery(indexes)?;
        if recovered.torn_bytes > 0 {
            tracing::warn!(bytes = recovered.torn_bytes, "cut the torn end of the log");
        }
        let storage = Storage::assemble(data_dir, disk, core, recovered)?;
        *storage.unsettled.lock() = unsettled;
        Ok(storage)
    }

    /// Opens trees that were saved from another folder, with what can be read of that folder's log.
    /// Everything is in sorted files then, and the log begins anew. Says what the log was like, and
    /// how many of its changes were applied.
    pub(crate) fn adopt(
        data_dir: DataDir,
        log: &Arc<dyn Disk>,
        options: Options,
        schema: Arc<dyn SchemaSource>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Storage, Survey, u64), OpenError> {
        let Ground { disk, home } = Ground::files(&data_dir, &options);
        let core = Arc::new(Core::new(options, home, data_dir.trees_folder(), schema, clock)?);
        let mut change_count = 0;
        let mut survey = survey(log, |replayed| {
            if matches!(replayed, Replayed::Change { .. } | Replayed::Entries { .. }) {
                change_count += 1;
            }
            replay(&core, replayed).map_err(|error| match error {
                OpenError::Damaged { what, .. } => what.to_owned(),
                other => other.to_string(),
            })
        })?;
        // Of sets with several members, what is known to be committed.
        raise_commits(&core, &mut survey.recovered.groups)?;
        redo(&core, log, &survey.recovered.installs, Cleans::Nothing)?;
        replay_groups(log, &survey.recovered, |replayed| {
            change_count += 1;
            replay(&core, replayed)
        })?;
        let recovered = &mut survey.recovered;
        // Sorted files may know of changes that the log has lost.
        for store in core.all_stores() {
            let of_table = |error| OpenError::Tree { table: store.id, error };
            recovered.end = recovered.end.max(store.born + 1);
            if let Some(opened) = store.for_read().map_err(of_table)? {
                opened.raise_indexes(&mut recovered.indexes);
            }
        }
        core.finish_recovery(recovered.indexes.clone())?;
        while core.largest_in_memory().is_some() {
            maintenance::flush_while_recovering(&core)?;
        }
        let fresh = Recovered {
            end: recovered.end,
            chain: recovered.chain,
            indexes: recovered.indexes.clone(),
            now_s: recovered.now_s,
            oldest: recovered.end,
            ..Recovered::default()
        };
        let storage = Storage::assemble(data_dir, disk, core, fresh)?;
        Ok((storage, survey, change_count))
    }

    /// Starts the threads over what was recovered.
    fn assemble(
        data_dir: DataDir,
        disk: Arc<dyn Disk>,
        core: Arc<Core>,
        recovered: Recovered,
    ) -> Result<Storage, OpenError> {
        let log_path = data_dir.log_folder();
        for group in recovered.groups.values() {
            core.groups.recovered(group);
            let limit = group.state.range.and_then(|range| range.last.0.checked_add(1));
            if let Some(limit) = limit {
                core.limit_set(group.state.set, RingToken(limit));
            }
        }
        core.groups.settle_splits(|set| recovered.gone.contains_key(&set));
        let through = Arc::new(AppliedThrough::default());
        through.start_at(recovered.end, recovered.now_s);
        let sink: Box<dyn DurableSink<Durable>> = Box::new(
            Appliers::start(Arc::clone(&core), Arc::clone(&through))
                .map_err(OpenError::io(&log_path))?,
        );
        let clock = Arc::clone(&core.clock);
        let elapsed: Elapsed = Arc::new(move || clock.elapsed());
        let log = Log::start(disk, &core.options.log(), &recovered, sink, elapsed);
        let log = Arc::new(log.map_err(OpenError::io(&log_path))?);
        let set_locks = Arc::new(SetLocks::default());
        let group_through = match core.options.commit {
            CommitMode::Group => Some(Arc::clone(&through)),
            CommitMode::Periodic { .. } => None,
        };
        let committer = Arc::new(Committer {
            core: Arc::clone(&core),
            log: Arc::clone(&log),
            set_locks: Arc::clone(&set_locks),
        });
        let maintenance = Maintenance::start(Arc::clone(&committer), group_through)
            .map_err(OpenError::io(data_dir.path()))?;
        let storage = Storage {
            data_dir,
            core,
            log,
            through,
            set_locks,
            committer,
            maintenance,
            recovered_groups: Mutex::new(recovered.groups.into_values().collect()),
            recovered_gone: recovered.gone,
            unsettled: Mutex::new(Vec::new()),
            installs_begun: Mutex::default(),
            is_closed: AtomicBool::new(false),
            is_flushing: AtomicBool::new(false),
        };
        storage.maintenance.release_log();
        Ok(storage)
    }

    /// With [`crate::Driver::Steps`]: writes and syncs what was appended, applies it, and does the chores that are
    /// due. Nothing happens between two steps but what callers wait for.
    pub fn step(&self) {
        while self.log.step() {}
        self.maintenance.step();
    }

    /// The same for the log alone: for simulations of a power that goes while it is written.
    #[doc(hidden)]
    pub fn step_log(&self) {
        while self.log.step() {}
    }

    /// Why nothing is acknowledged any more, if that is so: only a restart helps.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.core.poison.get().cloned().or_else(|| self.log.failure())
    }

    /// Nothing is applied any more, because what is kept here cannot be relied on.
    pub fn give_up(&self, why: impl FnOnce() -> String) {
        self.core.poison.set(why);
    }

    /// Why an entry of the log could not be applied, if that is so: nothing behind it will be, before a restart.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.core.poison.get().cloned()
    }

    /// From now on chores know the replica set of a key. Without, deletions are not taken away.
    pub fn locate_with(
        &self,
        locate: impl Fn(TableId, RingToken) -> Option<SetId> + Send + Sync + 'static,
    ) {
        let _ = self.core.locate.set(Box::new(locate));
    }

    /// The folder, for its documents.
    pub fn data_dir(&self) -> &DataDir {
        &self.data_dir
    }

    /// Replaces a document as a whole.
    pub fn save_document(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.data_dir.save_document(name, bytes)
    }

    /// A document as it was last saved.
    pub fn load_document(&self, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
        self.data_dir.load_document(name)
    }

    /// Opens a file of slots beside the documents.
    pub fn open_slots(&self, name: &str) -> Result<Slots, OpenError> {
        self.data_dir.open_slots(name)
    }

    /// Commits mutations as one atomic change: after a crash all of them are there or none.
    pub fn commit(&self, change: impl IntoIterator<Item = (SetId, Mutation)>) -> Committed {
        self.commit_for(change, None, WithoutRoom::Waits)
    }

    /// As [`Storage::commit`]. With `answer_to`, what must become durable first is
    /// [`Committed::Promised`], and may wait for more until [`Storage::write_group`] is called. Where it is not to
    /// wait, the caller asked [`Storage::busy`] before, and what the log has no room for is [`Committed::Busy`].
    pub fn commit_for(
        &self,
        change: impl IntoIterator<Item = (SetId, Mutation)>,
        answer_to: Option<AnswerTo<'_>>,
        without_room: WithoutRoom,
    ) -> Committed {
        if self.is_closed.load(Ordering::Acquire) {
            return Committed::Now(Err(CommitError::Closed));
        }
        if let Some(why) = self.core.poison.get() {
            return Committed::Now(Err(CommitError::LogFailed(Arc::clone(why))));
        }
        let (entries, mutation_count) = match self.entries_of(change.into_iter()) {
            Ok(entries) => entries,
            Err(error) => return Committed::Now(Err(error)),
        };
        let waits = without_room == WithoutRoom::Waits;
        if waits && let Err(error) = self.core.pressure.admit() {
            return Committed::Now(Err(error));
        }
        let committed = self.committer.commit(entries, mutation_count, answer_to, waits);
        self.maintenance.after_write();
        committed
    }

    /// What a change appends, and how many mutations it has. Refuses what could not be stored, before it is logged.
    fn entries_of(
        &self,
        mut change: impl Iterator<Item = (SetId, Mutation)>,
    ) -> Result<(Entries, usize), CommitError> {
        let Some((set, mutation)) = change.next() else { return Ok((Entries::new(), 0)) };
        validate(&mutation)?;
        let Some(second) = change.next() else {
            let mut entries = Entries::new();
            entries.push(Entry::of(set, EntryBody::Change(Mutations::from_buf([mutation]))));
            return Ok((entries, 1));
        };
        let mut all: LocatedMutations = vec![(set, mutation), second];
        all.extend(change);
        for (_, mutation) in all.iter().skip(1) {
            validate(mutation)?;
        }
        for (set, mutation) in &all {
            foresee(&self.core, *set, mutation)?;
        }
        let mutation_count = all.len();
        Ok((split_by_set(all), mutation_count))
    }

    /// Ends replica sets, so that their keys can be given to others, and no two sets ever apply changes
    /// of one key at the same time. Commits that still come for them are handed back as
    /// [`Committed::Moved`]. Nobody waits for a disk meanwhile:
    /// - `hand_over` is called as soon as the sets take nothing more. From then on, and not before, their
    ///   keys may be committed to others.
    /// - `show` is called when everything that was committed to the old sets is applied, and before
    ///   anything of the others is: who is to read through those may begin.
    ///
    /// After an error of the log `show` was not called; nor was `hand_over` where nothing was ended.
    pub fn end_sets(
        &self,
        sets: &[SetId],
        hand_over: impl FnOnce(),
        show: impl FnOnce() + Send + 'static,
    ) -> Result<(), CommitError> {
        if self.core.options.commit != CommitMode::Group {
            for set in sets {
                let lock = self.set_locks.get(*set);
                let _turn = lock.turn.lock();
                self.append_ends(&[*set], |_| None)?;
            }
            self.core.end_sets(sets);
            hand_over();
            show();
            return Ok(());
        }
        // Bounded by one: there is one answer.
        let (reply, shown) = std::sync::mpsc::sync_channel(1);
        let mut ends = Some(Ends { end: 0, sets: sets.to_vec(), show: Box::new(show), reply });
        let mut chunks = sets.chunks(ENDS_PER_RECORD_MAX).peekable();
        while let Some(chunk) = chunks.next() {
            let is_last = chunks.peek().is_none();
            self.append_ends(chunk, |appended| {
                let ends = ends.take_if(|_| is_last)?;
                Some(Durable::Ends(Ends { end: appended.end, ..ends }))
            })?;
        }
        hand_over();
        shown.recv().map_err(|_| CommitError::Closed)?
    }

    /// Appends the last entries of sets, which change nothing.
    fn append_ends(
        &self,
        sets: &[SetId],
        job: impl FnOnce(Appended) -> Option<Durable>,
    ) -> Result<(), CommitError> {
        let entry =
            |set: &SetId| NewEntry { set: *set, kind: EntryKind::Empty as u8, body_bytes: 0 };
        let entries: Vec<NewEntry> = sets.iter().map(entry).collect();
        let record = NewRecord {
            entries: &entries,
            body: &[],
            now_s: self.core.clock.now_s(),
            is_last: true,
            wakes: true,
            waits: true,
        };
        let mut appending = EndsAppend { core: &self.core, sets, job: Some(job) };
        self.log.append_entries(record, &mut appending).map(drop).map_err(CommitError::from)
    }

    /// Something was applied: chores may be due.
    pub(crate) fn maintenance_after_write(&self) {
        self.maintenance.after_write();
    }

    /// Has the log write what was appended for mailboxes. Called when a caller has nothing more to add,
    /// so that all of its changes are in one group.
    pub fn write_group(&self) {
        self.log.write_or_wake();
    }

    /// Reads rows of one replica set.
    pub fn read(
        &self,
        set: SetId,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
    ) -> Result<(), ReadError> {
        read::read(&self.core, set, command, sink)
    }

    /// About how many entries an index would look at for a command, counted up to a bound; `None` if
    /// it cannot answer, because it is being built or holds nothing.
    pub fn index_weight(
        &self,
        command: &ReadCommand,
        bound: usize,
    ) -> Result<Option<usize>, ReadError> {
        read::index_weight(&self.core, command, bound)
    }

    /// Whether an index can answer a command by following no more than so many entries, each to one
    /// row.
    pub fn is_short_lookup(
        &self,
        command: &ReadCommand,
        entries_max: usize,
    ) -> Result<bool, ReadError> {
        read::is_short_lookup(&self.core, command, entries_max)
    }

    /// Maintains an index from now on, and builds it in the background.
    pub fn create_index(&self, table: &Table, index: &Index) -> Result<(), TreeError> {
        let Some(shape) = IndexShape::new(table, index) else { return Ok(()) };
        let Some(store) = self.core.store_or_new(table.id) else { return Ok(()) };
        store.for_read()?;
        store.add_index(shape)?;
        self.core.queue_builds(&store);
        Ok(())
    }

    /// Removes an index.
    pub fn drop_index(&self, table: TableId, index: TableId) {
        if let Some(store) = self.core.store_or_new(table) {
            store.remove_index(index);
        }
    }

    /// Compares every built index of a table with its rows, in both directions.
    pub fn compare_indexes(&self, table: TableId) -> Result<Vec<IndexComparison>, TreeError> {
        match self.core.store(table) {
            Some(store) => index::check::compare(&store),
            None => Ok(Vec::new()),
        }
    }

    /// How far each index is built; those of tables that were never written to are left out.
    pub fn index_builds(&self) -> Vec<IndexBuild> {
        let mut builds = Vec::new();
        for store in self.core.all_stores() {
            let Some(opened) = store.if_open() else { continue };
            let indexes = opened.indexes.all();
            builds.extend(indexes.iter().map(|index| IndexBuild::of(store.id, index)));
        }
        builds
    }

    /// Prepares for a table. Nothing is written: files come with the first row.
    pub fn create_table(&self, table: &Table) {
        self.core.prepare_store(table);
    }

    /// Removes a table and all its rows. Its id is never used again.
    pub fn drop_table(&self, table: TableId) -> Result<(), CommitError> {
        let mut dropped = None;
        let mut hold = None;
        let appended = self.log.append_table_end(RecordKind::Drop, table, |appended| {
            hold = Some(self.maintenance.hold_log(appended.position));
            dropped = self.core.drop_store(table);
            None
        })?;
        self.log.sync_through(appended.end)?;
        if let Some(store) = dropped {
            self.core.remove_files(&store);
        }
        drop(hold);
        Ok(())
    }

    /// Removes all rows of a table that were committed before.
    pub fn truncate(&self, table: TableId) -> Result<(), CommitError> {
        let is_periodic = matches!(self.core.options.commit, CommitMode::Periodic { .. });
        // Bounded by one: there is one answer.
        let (reply, emptied) = std::sync::mpsc::sync_channel(1);
        let mut reply = Some(reply);
        let mut replaced = None;
        let mut hold = None;
        let appended = self.log.append_table_end(RecordKind::Truncate, table, |appended| {
            hold = Some(self.maintenance.hold_log(appended.position));
            self.core.definitions.forget(table);
            if is_periodic {
                // Changes are applied as they are appended, so this is too.
                replaced = self.core.replace_store(table, appended.position);
                return None;
            }
            let reply = reply.take()?;
            Some(Durable::Truncation(Truncation { table, appended, reply }))
        })?;
        self.log.sync_through(appended.end)?;
        if !is_periodic {
            replaced = emptied.recv().map_err(|_| CommitError::Closed)?;
        }
        if let Some(store) = replaced {
            self.core.remove_files(&store);
        }
        drop(hold);
        Ok(())
    }

    /// Writes what a table holds in memory into sorted files; all tables without one.
    pub fn flush(&self, table: Option<TableId>) -> Result<(), TreeError> {
        for store in self.core.all_stores() {
            if table.is_none_or(|table| table == store.id) {
                self.maintenance.flush(&store)?;
            }
        }
        Ok(())
    }

    /// Merges the sorted files of a table into one run, without what has been dead for long enough;
    /// of all tables without one.
    pub fn compact(&self, table: Option<TableId>) -> Result<(), TreeError> {
        for store in self.core.all_stores() {
            if table.is_none_or(|table| table == store.id) && store.for_read()?.is_some() {
                self.maintenance.purge(&store)?;
            }
        }
        Ok(())
    }

    /// Looks at the sizes of logical partitions before mutations are committed: an error if one would
    /// become larger than it may be, and what to warn of.
    pub fn admit(&self, mutations: &[Mutation]) -> Result<Vec<PartitionFilling>, PartitionFull> {
        sizes::admit::admit(&self.core, mutations)
    }

    /// What a table holds in each of some ranges of the ring.
    pub fn range_sizes(
        &self,
        table: TableId,
        ranges: impl IntoIterator<Item = RingRange>,
    ) -> Vec<RangeSize> {
        let ranges: Vec<RingRange> = ranges.into_iter().collect();
        let nothing = vec![RangeSize::default(); ranges.len()];
        self.opened_sizes(table, |sizes| sizes.sums(ranges)).unwrap_or(nothing)
    }

    /// Hands over how the bytes of a table lie in a range of the ring: the first token and the bytes
    /// of each of its finest known parts.
    pub fn range_weights(
        &self,
        table: TableId,
        range: RingRange,
        take: impl FnMut(RingToken, u64),
    ) {
        self.opened_sizes(table, |sizes| sizes.weights(range, take));
    }

    /// The largest logical partitions of a table, the largest first.
    pub fn largest_partitions(&self, table: TableId, count_max: usize) -> Vec<LogicalSize> {
        self.opened_sizes(table, |sizes| sizes.largest(count_max)).unwrap_or_default()
    }

    /// How many bytes a logical partition holds, and its rows, if it is one whose size is known.
    pub fn logical_size(&self, table: TableId, key: &PartitionKey) -> Option<RangeSize> {
        let size = self.opened_sizes(table, |sizes| sizes.of(key.ring()))?;
        size.map(RangeSize::from)
    }

    fn opened_sizes<T>(&self, table: TableId, ask: impl FnOnce(&TableSizes) -> T) -> Option<T> {
        let store = self.core.store(table)?;
        // A table that nobody has touched since the start is opened for it.
        let opened = store.for_read().ok()??;
        Some(ask(&opened.sizes))
    }

    /// What is stored, about. Opens nothing that is not open.
    pub fn statistics(&self) -> Statistics {
        let tables = self.core.all_stores().into_iter().filter_map(|store| {
            let opened = store.if_open()?;
            Some(TableStatistics {
                table: store.id,
                disk_bytes: opened.tree.disk_bytes() + opened.indexes.disk_bytes(),
                memory_bytes: opened.memory_bytes(),
                row_count: opened.row_count(),
            })
        });
        Statistics {
            tables: tables.collect(),
            log_bytes: self.log.kept_bytes(),
            memtable_bytes: self.core.pressure.bytes(),
            row_cache_bytes: self.core.cache.bytes(),
            row_cache_count: self.core.cache.count(),
            row_cache_capacity_bytes: self.core.cache.capacity_bytes(),
            row_cache_lookups: self.core.cache.lookups(),
            head_cache_bytes: self.core.heads.bytes(),
            head_cache_count: self.core.heads.count(),
            head_cache_capacity_bytes: self.core.heads.capacity_bytes(),
            head_cache_lookups: self.core.heads.lookups(),
            damaged: self.core.damage.list(),
            writing: self.writing(),
            chores: self.core.done.sums(self.log.sync_times()),
        }
    }

    /// How often the row cache was asked, and the cache of partition heads.
    pub fn cache_lookups(&self) -> [Lookups; 2] {
        [self.core.cache.lookups(), self.core.heads.lookups()]
    }

    /// Whether changes are taken.
    pub fn writing(&self) -> Writing {
        if let Some(why) = self.failure() {
            return Writing::Failed(why);
        }
        match self.log.shortage().or_else(|| self.core.pressure.shortage()) {
            None => Writing::Goes,
            Some(Shortage::DiskFull) => Writing::DiskFull,
            Some(Shortage::Other(why)) => Writing::Waits(why),
        }
    }

    pub(crate) fn now_s(&self) -> u32 {
        self.core.clock.now_s()
    }

    /// Where the rows of each table are. Not every folder among the trees is one of these: what was
    /// emptied or dropped goes a little later.
    pub(crate) fn store_folders(&self) -> Vec<(TableId, PathBuf)> {
        let stores = self.core.all_stores();
        let mut folders: Vec<(TableId, PathBuf)> =
            stores.iter().map(|store| (store.id, store.folder().clone())).collect();
        folders.sort_unstable();
        folders
    }

    /// Keeps the log as it is now from being shortened.
    pub(crate) fn hold_whole_log(&self) -> maintenance::LogHold<'_> {
        self.maintenance.hold_log(0)
    }

    /// Stops cleanly: everything that was committed is on the disk, and next to nothing of it only
    /// in the log, so that the next start is quick. A second call does nothing.
    pub fn close(&self) -> Result<(), TreeError> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.set_locks.wait_idle();
        self.log.drain();
        self.through.wait_for(self.log.synced());
        let flushed = self.shorten_log();
        self.maintenance.stop();
        self.maintenance.release_log();
        self.log.close();
        flushed
    }

    /// Flushes until little is left to be replayed: a little log is replayed faster than many small
    /// files are written.
    fn shorten_log(&self) -> Result<(), TreeError> {
        self.maintenance.release_log();
        while self.log.kept_bytes() > REPLAYED_BYTES_MAX {
            let Some(store) = self.core.oldest_in_log() else {
                return Ok(());
            };
            self.maintenance.flush(&store)?;
        }
        Ok(())
    }

    /// Stops where it is, as a crash would: nothing is flushed or synced. For tests of recovery.
    pub fn abandon(self) {
        self.is_closed.store(true, Ordering::Release);
        self.log.abandon();
        self.maintenance.stop();
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "storage was not closed cleanly; the log will be replayed");
        }
    }
}

/// The last entries of sets on their way into the log.
struct EndsAppend<'a, F> {
    core: &'a Core,
    sets: &'a [SetId],
    job: Option<F>,
}

impl<F: FnOnce(Appended) -> Option<Durable>> Appending<Durable> for EndsAppend<'_, F> {
    fn is_wanted(&mut self) -> bool {
        true
    }

    fn job(&mut self, appended: Appended, _: &[EntryHead]) -> Option<Durable> {
        self.core.definitions.forget_sets(self.sets);
        self.job.take().and_then(|job| job(appended))
    }
}
