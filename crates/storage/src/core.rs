//! What every part of storage shares: the stores of all tables, the cache, and the bounds.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::fast::FixedState;
use parking_lot::{Mutex, RwLock};
use schema::{KeyShape, Table};
use tree::TreeHome;
use types::{RingToken, SetId, TableId};

use crate::cache::RowCache;
use crate::clock::Clock;
use crate::definition::Definitions;
use crate::error::{Affected, CommitError, OpenError, TreeError};
use crate::group::Groups;
use crate::heads::Heads;
use crate::index::build::IndexBuilds;
use crate::index::shape::IndexShape;
use crate::options::{Driver, Options};
use crate::pressure::Pressure;
use crate::schema_source::SchemaSource;
use crate::sizes::{SizeBounds, SizesSeed};
use crate::sweeping::WantedSweeps;
use crate::tree::purge::PurgeFactory;
use crate::tree::store::{EndedSets, LogIndexes, SetLimits, StoreSeed, TableStore};
use node_log::{Position, TimingSum, Timings};

/// Tables in whose files damage was met.
#[derive(Debug, Default)]
pub(crate) struct Damage(Mutex<BTreeMap<TableId, Arc<str>>>);

impl Damage {
    /// Remembers the first damage of a table, and tells it.
    pub(crate) fn note(&self, table: TableId, what: &Arc<str>) {
        if let Entry::Vacant(place) = self.0.lock().entry(table) {
            tracing::error!(%table, %what, "the files of a table are damaged; see `helenus check`");
            place.insert(Arc::clone(what));
        }
    }

    pub(crate) fn note_error(&self, table: TableId, error: &TreeError) {
        if let TreeError::Corrupt(what) = error {
            self.note(table, what);
        }
    }

    pub(crate) fn list(&self) -> Vec<(TableId, Arc<str>)> {
        self.0.lock().iter().map(|(table, what)| (*table, Arc::clone(what))).collect()
    }
}

/// What the chores came to since the start.
#[derive(Debug, Default)]
pub(crate) struct ChoresDone {
    /// Memtables that became sorted files.
    pub(crate) flushes: Timings,
    pub(crate) flushed_bytes: AtomicU64,
    /// Sorted files that became fewer.
    pub(crate) merges: Timings,
}

/// The same at one moment, and what the log's disk did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoreSums {
    /// How often the log was synced since the start, and how long that took.
    pub syncs: TimingSum,
    /// The same of memtables that became sorted files.
    pub flushes: TimingSum,
    /// Bytes of memory that these held.
    pub flushed_bytes: u64,
    /// The same of merges of sorted files.
    pub merges: TimingSum,
}

impl ChoresDone {
    pub(crate) fn sums(&self, syncs: TimingSum) -> ChoreSums {
        ChoreSums {
            syncs,
            flushes: self.flushes.sum(),
            flushed_bytes: self.flushed_bytes.load(Ordering::Relaxed),
            merges: self.merges.sum(),
        }
    }
}

/// Why nothing is applied any more, once something could not be. What comes behind it in the log must not be applied
/// without it, and what was half done must not reach sorted files: only a restart goes on, from the log.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<Arc<str>>);

impl Poison {
    /// Nothing is applied from now on.
    pub(crate) fn set(&self, why: impl FnOnce() -> String) {
        self.0.get_or_init(|| {
            let why = why();
            tracing::error!(%why, "storage stops: what it keeps cannot be relied on");
            Arc::from(why)
        });
    }

    pub(crate) fn get(&self) -> Option<&Arc<str>> {
        self.0.get()
    }
}

/// Poisons storage when an apply panics, before the store that it may have half changed can be flushed: it is
/// made after the store is held open, and so goes first.
pub(crate) struct PoisonDart<'c>(pub(crate) &'c Poison);

impl Drop for PoisonDart<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set(|| "a bug: applying an entry panicked".to_owned());
        }
    }
}

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) schema: Arc<dyn SchemaSource>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cache: RowCache,
    pub(crate) heads: Heads,
    pub(crate) pressure: Pressure,
    pub(crate) damage: Damage,
    pub(crate) poison: Poison,
    pub(crate) done: ChoresDone,
    pub(crate) definitions: Definitions,
    /// The sets with several members that this node belongs to.
    pub(crate) groups: Groups,
    /// Old deletions that leaders are to take away.
    pub(crate) sweeps: WantedSweeps,
    /// Tables that were dropped since this node runs.
    pub(crate) drop_count: AtomicU64,
    /// Knows the set of a key, once somebody does.
    pub(crate) locate: OnceLock<Locate>,
    pub(crate) trees_folder: PathBuf,
    pub(crate) index_builds: IndexBuilds,
    pub(crate) home: Arc<dyn TreeHome>,
    stores: RwLock<Stores>,
    next_cache_id: AtomicU64,
    log_indexes: Arc<OnceLock<LogIndexes>>,
    ended_sets: Arc<EndedSets>,
    set_limits: Arc<SetLimits>,
    pub(crate) sizes: SizesSeed,
}

/// Says which replica set a key of a table belongs to; chores commit to it like everybody else.
pub(crate) type Locate = Box<dyn Fn(TableId, RingToken) -> Option<SetId> + Send + Sync>;

#[derive(Default)]
struct Stores {
    by_table: HashMap<TableId, Arc<TableStore>, FixedState>,
    /// Tables that were dropped: what still comes for them is lost, as it would be a moment later.
    dropped: HashSet<TableId, FixedState>,
    /// Folders found at the start that belong to emptied tables, by table and birth.
    waiting: HashMap<TableId, Vec<Position>, FixedState>,
}

impl Core {
    /// Finds the folders of all tables; opens none.
    pub(crate) fn new(
        options: Options,
        home: Arc<dyn TreeHome>,
        trees_folder: PathBuf,
        schema: Arc<dyn SchemaSource>,
        clock: Arc<dyn Clock>,
    ) -> Result<Core, OpenError> {
        let core = Core {
            cache: RowCache::new(options.row_cache_bytes, options.row_cache_bytes_max),
            heads: Heads::new(options.head_cache_bytes),
            pressure: Pressure::new(options.memtable_bytes_max, options.memtable_bytes_grown),
            damage: Damage::default(),
            poison: Poison::default(),
            done: ChoresDone::default(),
            definitions: Definitions::default(),
            groups: Groups::default(),
            sweeps: WantedSweeps::default(),
            drop_count: AtomicU64::new(0),
            locate: OnceLock::new(),
            home,
            sizes: SizesSeed {
                bounds: SizeBounds {
                    logical_bytes_max: options.logical_partition_bytes_max,
                    physical_bytes_max: options.physical_partition_bytes_max,
                },
                node_largest: Arc::default(),
            },
            options,
            schema,
            clock,
            trees_folder,
            index_builds: IndexBuilds::default(),
            stores: RwLock::default(),
            next_cache_id: AtomicU64::new(1),
            log_indexes: Arc::default(),
            ended_sets: Arc::default(),
            set_limits: Arc::default(),
        };
        let mut found: HashMap<TableId, Vec<Position>, FixedState> = HashMap::default();
        let read_error = OpenError::io(&core.trees_folder);
        for path in core.home.folders(&core.trees_folder).map_err(read_error)? {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some((table, born)) = name.and_then(split_folder_name) else { continue };
            if !core.home.is_established(&path) {
                // Begun before a crash; the log still has everything that was in it.
                core.home.remove(&path).map_err(OpenError::io(&path))?;
                continue;
            }
            core.home.verify(&path).map_err(|damage| OpenError::Damaged {
                path: damage.path,
                offset: damage.offset,
                what: "the manifest of the table's sorted files, or one of them, is missing or not what was written",
                affected: Affected::Table(table),
            })?;
            found.entry(table).or_default().push(born);
        }
        for (table, mut births) in found {
            // The oldest is valid until the log says that it was emptied.
            births.sort_unstable();
            let oldest = births.remove(0);
            let mut stores = core.stores.write();
            stores.by_table.insert(table, core.new_store(table, oldest, true));
            stores.waiting.insert(table, births);
        }
        Ok(core)
    }

    fn new_store(&self, id: TableId, born: Position, is_on_disk: bool) -> Arc<TableStore> {
        let table = self.schema.table(id);
        self.new_store_of(id, table.as_deref(), born, is_on_disk)
    }

    fn new_store_of(
        &self,
        id: TableId,
        table: Option<&Table>,
        born: Position,
        is_on_disk: bool,
    ) -> Arc<TableStore> {
        let shapes = table.iter().flat_map(|table| {
            let shape = |index| IndexShape::new(table, index).map(Arc::new);
            table.indexes.values().filter_map(move |index| shape(index))
        });
        let index_shapes = shapes.collect();
        Arc::new(TableStore::new(StoreSeed {
            id,
            born,
            cache_id: self.next_cache_id.fetch_add(1, Ordering::Relaxed),
            has_single_rows: table.is_some_and(|table| table.clustering_count == 0),
            key_shape: KeyShape::new(table),
            folder: self.trees_folder.join(folder_name(id, born)),
            is_on_disk,
            home: Arc::clone(&self.home),
            purge: Arc::new(PurgeFactory::default()),
            log_indexes: Arc::clone(&self.log_indexes),
            ended_sets: Arc::clone(&self.ended_sets),
            set_limits: Arc::clone(&self.set_limits),
            index_shapes,
            sizes: self.sizes.clone(),
        }))
    }

    /// The store of a table, if anything was ever written to it.
    pub(crate) fn store(&self, table: TableId) -> Option<Arc<TableStore>> {
        self.stores.read().by_table.get(&table).cloned()
    }

    /// Chores rest now and then, so that requests come first. Where there are no threads nobody would be served
    /// meanwhile.
    pub(crate) fn rest(&self, time: Duration) {
        if self.options.driver == Driver::Threads {
            std::thread::sleep(time);
        }
    }

    /// Up to which second the files of a table may have been purged.
    pub(crate) fn purged_s(&self, table: TableId) -> Result<u32, CommitError> {
        let Some(store) = self.store(table) else { return Ok(0) };
        let opened = store.for_read().map_err(|error| CommitError::Tree { table, error })?;
        Ok(opened.map_or(0, |opened| opened.purged_s()))
    }

    /// The version of a table's definition that is in force in a set.
    pub(crate) fn version_in_force(
        &self,
        table: TableId,
        set: SetId,
    ) -> Result<Option<u64>, CommitError> {
        let Some(store) = self.store(table) else { return Ok(None) };
        let opened = store.for_read().map_err(|error| CommitError::Tree { table, error })?;
        let definition = opened.and_then(|opened| opened.progress(set).definition());
        Ok(definition.map(|definition| definition.table.version))
    }

    /// The second from which on a store could be purged, as the clock is now.
    pub(crate) fn wished_horizon_s(&self, table: TableId) -> u32 {
        let retention_s = self.options.tombstone_retention_s;
        let grace_s = self.schema.table(table).map(|table| table.options.gc_grace_s);
        self.clock.now_s().saturating_sub(grace_s.unwrap_or(retention_s).min(retention_s))
    }

    /// The store of a table, made if there is none; `None` if the table was dropped.
    pub(crate) fn store_or_new(&self, table: TableId) -> Option<Arc<TableStore>> {
        if let Some(store) = self.store(table) {
            return Some(store);
        }
        let mut stores = self.stores.write();
        if stores.dropped.contains(&table) {
            return None;
        }
        if let Some(store) = stores.by_table.get(&table) {
            return Some(Arc::clone(store));
        }
        let store = self.new_store(table, 0, false);
        stores.by_table.insert(table, Arc::clone(&store));
        Some(store)
    }

    /// Prepares for a table that the schema does not show yet.
    pub(crate) fn prepare_store(&self, table: &Table) {
        let mut stores = self.stores.write();
        let fresh = || self.new_store_of(table.id, Some(table), 0, false);
        stores.by_table.entry(table.id).or_insert_with(fresh);
    }

    /// Every store.
    pub(crate) fn all_stores(&self) -> Vec<Arc<TableStore>> {
        self.stores.read().by_table.values().cloned().collect()
    }

    /// A set was split: from a position of the ring on another one changes what it held. Only called by the one who applies it, or
    /// before anybody does.
    pub(crate) fn limit_set(&self, set: SetId, at: RingToken) {
        let _ = self.set_limits.write().insert(set, at);
        for store in self.all_stores() {
            if let Some(opened) = store.if_open() {
                opened.limit_set(set, at);
            }
        }
    }

    /// Sets that will apply nothing more: who still reads through one of them must read from a
    /// snapshot, because another set changes the same keys from now on.
    pub(crate) fn end_sets(&self, sets: &[SetId]) {
        self.ended_sets.write().extend(sets.iter().copied());
        for store in self.all_stores() {
            if let Some(opened) = store.if_open() {
                opened.end_sets(sets);
            }
        }
    }

    /// The store that holds the most that is not yet in sorted files.
    pub(crate) fn largest_in_memory(&self) -> Option<Arc<TableStore>> {
        self.largest_few_in_memory(1).pop()
    }

    /// Up to so many stores that hold the most that is not yet in sorted files, the largest first. None with less
    /// than half of what the first has: those are better left to grow.
    pub(crate) fn largest_few_in_memory(&self, count: usize) -> Vec<Arc<TableStore>> {
        let stores = self.stores.read();
        let opened = stores.by_table.values().filter_map(|store| Some((store.if_open()?, store)));
        let mut largest: Vec<(u64, &Arc<TableStore>)> =
            opened.map(|(opened, store)| (opened.memory_bytes(), store)).collect();
        largest.retain(|(bytes, _)| *bytes > 0);
        largest.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        let most = largest.first().map_or(0, |(bytes, _)| *bytes);
        let few = largest.into_iter().take(count).take_while(|(bytes, _)| *bytes >= most / 2);
        few.map(|(_, store)| Arc::clone(store)).collect()
    }

    /// The store that needs the log from the earliest place on.
    pub(crate) fn oldest_in_log(&self) -> Option<Arc<TableStore>> {
        let stores = self.stores.read();
        let needed_from = |store: &Arc<TableStore>| {
            let from = store.if_open()?.holds_log_from();
            (from != Position::MAX).then(|| (from, Arc::clone(store)))
        };
        let oldest = stores.by_table.values().filter_map(needed_from).min_by_key(|(from, _)| *from);
        oldest.map(|(_, store)| store)
    }

    /// Puts an empty store in the place of a table's, which begins at that place of the log. Returns
    /// the old one.
    pub(crate) fn replace_store(&self, table: TableId, born: Position) -> Option<Arc<TableStore>> {
        let mut stores = self.stores.write();
        if stores.dropped.contains(&table) {
            return None;
        }
        let waiting = stores.waiting.get_mut(&table);
        let is_on_disk = waiting.is_some_and(|births| {
            let found = births.iter().position(|birth| *birth == born);
            found.map(|index| births.remove(index)).is_some()
        });
        let fresh = self.new_store(table, born, is_on_disk);
        let old = stores.by_table.insert(table, fresh);
        old.inspect(|old| old.mark_dropped())
    }

    /// Forgets a table. Returns its store.
    pub(crate) fn drop_store(&self, table: TableId) -> Option<Arc<TableStore>> {
        let mut stores = self.stores.write();
        stores.dropped.insert(table);
        self.drop_count.fetch_add(1, Ordering::Relaxed);
        stores.by_table.remove(&table).inspect(|old| old.mark_dropped())
    }

    /// Removes the files of a store that was dropped or replaced, and gives back its memory.
    pub(crate) fn remove_files(&self, store: &TableStore) {
        if let Some(opened) = store.if_open() {
            self.pressure.shrink(opened.memory_bytes());
        }
        self.remove_folder(store.folder());
    }

    fn remove_folder(&self, folder: &Path) {
        if let Err(error) = self.home.remove(folder) {
            tracing::warn!(%error, folder = %folder.display(), "a folder could not be removed");
        }
    }

    /// After the log was replayed: folders that it knows nothing of were never acknowledged, and no
    /// file may know more than the log.
    pub(crate) fn finish_recovery(&self, indexes: LogIndexes) -> Result<(), OpenError> {
        self.remove_unborn();
        for store in self.all_stores() {
            if let Some(opened) = store.if_open() {
                let of_table = |error| OpenError::Tree { table: store.id, error };
                opened.check_against(&indexes).map_err(of_table)?;
            }
        }
        let _ = self.log_indexes.set(indexes);
        for store in self.all_stores() {
            if store.is_indexed_on_disk() || store.if_open().is_some() {
                let of_table = |error| OpenError::Tree { table: store.id, error };
                store.for_write().map_err(of_table)?;
                self.queue_builds(&store);
            }
        }
        Ok(())
    }

    /// Has those indexes of an opened store built that are not.
    pub(crate) fn queue_builds(&self, store: &Arc<TableStore>) {
        let Some(opened) = store.if_open() else { return };
        for index in opened.indexes.all().iter().filter(|index| !index.is_built()) {
            self.index_builds.add(store, index.shape.id);
        }
    }

    fn remove_unborn(&self) {
        let waiting = std::mem::take(&mut self.stores.write().waiting);
        for (table, births) in waiting {
            for born in births {
                self.remove_folder(&self.trees_folder.join(folder_name(table, born)));
            }
        }
    }
}

fn folder_name(table: TableId, born: Position) -> String {
    format!("{:032x}-{born:016x}", table.0)
}

pub(crate) fn split_folder_name(name: &str) -> Option<(TableId, Position)> {
    let (table, born) = name.split_once('-')?;
    if table.len() != 32 || born.len() != 16 {
        return None;
    }
    Some((TableId(u128::from_str_radix(table, 16).ok()?), Position::from_str_radix(born, 16).ok()?))
}
