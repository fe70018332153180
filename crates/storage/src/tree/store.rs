//! One table's tree with what storage keeps beside it: how far each replica set was applied, who
//! reads, which partitions have deletions, and since where in the log it holds what is not yet in
//! sorted files.
//!
//! **Replay points.** A change is applied under the read side of `seal`. To freeze the memtable the
//! write side is taken: no change is half applied then, and each set's last applied entry is written
//! into that same memtable. So sorted files always say exactly which entries they hold, and counters
//! and conditions are never applied twice.
//!
//! **Isolation.** All writes of a mutation carry one sequence number, and `published` moves past it
//! when the last of them is in the tree. A reader of several rows reads before `published` of its
//! set, and is registered, so that nothing it may need is merged away. It is registered with its set,
//! whose writer alone changes the keys it reads: that one keeps an overwritten value in memory only while
//! somebody may read it. Who reads through a set that has ended, or all sets, is registered with the store,
//! whose writers all look there.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use schema::KeyShape;
use types::{RingToken, SetId, TableId};

use super::deletions::DeletedPartitions;
use super::guards::Guards;
use super::keys::{SPACE_HORIZON, SPACE_PROGRESS, definition_key, progress_key};
use super::progress::{Applied, FOR_EVER_S, ReplayPoint, SetProgress};
use super::purge::{PurgeFactory, PurgeHold};
use crate::core::Poison;
use crate::definition::load_definitions;
use crate::error::TreeError;
use crate::index::leftovers::Leftovers;
use crate::index::set::IndexSet;
use crate::index::shape::IndexShape;
use crate::index::tree::{Beside, IndexTree};
use crate::sizes::{SizesSeed, TableSizes};
use node_log::Position;
use tree::engine::{LATEST, SeqNo, SortedTree, TreeBytes};
use tree::{Sieve, TreeHome};

/// The last entry of every replica set that recovery found in the log.
pub(crate) type LogIndexes = HashMap<SetId, u64, FixedState>;

/// The sets that ended since the start, for stores that are opened later.
pub(crate) type EndedSets = RwLock<HashSet<SetId, FixedState>>;
/// Sets that were split, and the first position of the ring that is another set's.
pub(crate) type SetLimits = RwLock<HashMap<SetId, RingToken, FixedState>>;

/// Where a table's sorted files are, opened when first needed.
pub(crate) struct TableStore {
    pub(crate) id: TableId,
    /// Records before this place in the log are not for this store: the table was emptied here.
    pub(crate) born: Position,
    /// Tells apart what different stores put into the row cache.
    pub(crate) cache_id: u64,
    /// The table has no clustering column: one row per partition.
    pub(crate) has_single_rows: bool,
    /// What the keys of its rows have in common.
    pub(crate) key_shape: KeyShape,
    folder: PathBuf,
    /// Something was there when storage opened.
    is_on_disk: bool,
    opened: OnceLock<OpenStore>,
    opening: Mutex<()>,
    home: Arc<dyn TreeHome>,
    purge: Arc<PurgeFactory>,
    log_indexes: Arc<OnceLock<LogIndexes>>,
    ended_sets: Arc<EndedSets>,
    set_limits: Arc<SetLimits>,
    sizes: SizesSeed,
    is_dropped: AtomicBool,
    /// The indexes of the table as they are defined.
    index_shapes: Mutex<Vec<Arc<IndexShape>>>,
}

impl fmt::Debug for TableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableStore").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a new store is made of.
pub(crate) struct StoreSeed {
    pub(crate) id: TableId,
    pub(crate) born: Position,
    pub(crate) cache_id: u64,
    pub(crate) has_single_rows: bool,
    pub(crate) key_shape: KeyShape,
    pub(crate) folder: PathBuf,
    pub(crate) is_on_disk: bool,
    pub(crate) home: Arc<dyn TreeHome>,
    pub(crate) purge: Arc<PurgeFactory>,
    /// Empty until recovery is through.
    pub(crate) log_indexes: Arc<OnceLock<LogIndexes>>,
    pub(crate) ended_sets: Arc<EndedSets>,
    pub(crate) set_limits: Arc<SetLimits>,
    pub(crate) index_shapes: Vec<Arc<IndexShape>>,
    pub(crate) sizes: SizesSeed,
}

impl TableStore {
    pub(crate) fn new(seed: StoreSeed) -> TableStore {
        TableStore {
            id: seed.id,
            born: seed.born,
            cache_id: seed.cache_id,
            has_single_rows: seed.has_single_rows,
            key_shape: seed.key_shape,
            folder: seed.folder,
            is_on_disk: seed.is_on_disk,
            opened: OnceLock::new(),
            opening: Mutex::new(()),
            home: seed.home,
            purge: seed.purge,
            log_indexes: seed.log_indexes,
            ended_sets: seed.ended_sets,
            set_limits: seed.set_limits,
            sizes: seed.sizes,
            is_dropped: AtomicBool::new(false),
            index_shapes: Mutex::new(seed.index_shapes),
        }
    }

    /// The tree for reading; `None` while there is nothing to read.
    pub(crate) fn for_read(&self) -> Result<Option<&OpenStore>, TreeError> {
        match self.opened.get() {
            Some(opened) => Ok(Some(opened)),
            None if self.is_on_disk => self.for_write().map(Some),
            None => Ok(None),
        }
    }

    /// The tree, made if there is none.
    pub(crate) fn for_write(&self) -> Result<&OpenStore, TreeError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let _opening = self.opening.lock();
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let sieve = Arc::clone(&self.purge) as Arc<dyn Sieve>;
        let tree = self.home.open(&self.folder, Some(sieve), None)?;
        let known = (Arc::clone(&self.ended_sets), Arc::clone(&self.set_limits));
        let (place, purge) =
            ((Arc::clone(&self.home), self.folder.clone()), Arc::clone(&self.purge));
        let mut opened = OpenStore::new(tree, place, known, &self.sizes, purge)?;
        let beside = self.beside(opened.tree.as_ref());
        opened.indexes = IndexSet::open(&self.index_shapes.lock(), beside)?;
        opened.publish_all();
        if let Some(indexes) = self.log_indexes.get() {
            opened.check_against(indexes)?;
        }
        Ok(self.opened.get_or_init(|| opened))
    }

    /// The tree if it is open.
    pub(crate) fn if_open(&self) -> Option<&OpenStore> {
        self.opened.get()
    }

    /// Adds an index, and opens it if the table is open. From then on every change maintains it.
    pub(crate) fn add_index(&self, shape: IndexShape) -> Result<(), TreeError> {
        let _opening = self.opening.lock();
        let mut shapes = self.index_shapes.lock();
        if shapes.iter().any(|known| known.id == shape.id) {
            return Ok(());
        }
        if let Some(opened) = self.opened.get() {
            let tree = opened.tree.as_ref();
            let index = IndexTree::open(&shape, self.beside(tree))?;
            let pause = opened.pause();
            opened.indexes.attach(Arc::new(index), tree)?;
            pause.publish();
        }
        shapes.push(Arc::new(shape));
        Ok(())
    }

    /// What indexes are opened with.
    fn beside<'s>(&'s self, table_tree: &'s dyn SortedTree) -> Beside<'s> {
        let (table_folder, home, purge) = (&self.folder, &self.home, &self.purge);
        Beside { table_folder, table_tree, home, purge }
    }

    /// Begins an index anew that was found to be damaged.
    pub(crate) fn renew_index(&self, id: TableId) -> Result<(), TreeError> {
        let _opening = self.opening.lock();
        let shape = self.index_shapes.lock().iter().find(|shape| shape.id == id).cloned();
        let (Some(shape), Some(opened)) = (shape, self.opened.get()) else { return Ok(()) };
        let tree = opened.tree.as_ref();
        let index = Arc::new(IndexTree::begin_anew(&shape, self.beside(tree))?);
        let pause = opened.pause();
        opened.indexes.exchange(index, tree)?;
        pause.publish();
        Ok(())
    }

    /// Takes an index and its files away.
    pub(crate) fn remove_index(&self, id: TableId) {
        let _opening = self.opening.lock();
        self.index_shapes.lock().retain(|shape| shape.id != id);
        if let Some(opened) = self.opened.get() {
            let pause = opened.pause();
            opened.indexes.detach(id);
            pause.publish();
        }
    }

    /// Whether something was there when storage opened, and it has an index.
    pub(crate) fn is_indexed_on_disk(&self) -> bool {
        self.is_on_disk && !self.index_shapes.lock().is_empty()
    }

    /// Its files are of no use any more.
    pub(crate) fn mark_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// What died before this second may go: the sorted files say so.
    pub(crate) fn horizon_s(&self) -> u32 {
        self.purge.horizon_s()
    }

    pub(crate) fn folder(&self) -> &PathBuf {
        &self.folder
    }
}

/// Fewer dead cells are not worth a merge.
const DEAD_COUNT_MIN: u64 = 1_000;

/// What is or will be dead.
#[derive(Debug, Default)]
struct DeadState {
    dead_count: AtomicU64,
    first_dead_at_s: AtomicU32,
    last_dead_at_s: AtomicU32,
}

/// While it is held, no change is applied to the store.
pub(crate) struct Pause<'s> {
    store: &'s OpenStore,
    _nobody_applies: RwLockWriteGuard<'s, ()>,
}

impl Pause<'_> {
    /// Shows what was written meanwhile.
    pub(crate) fn publish(self) {
        self.store.publish_all();
    }
}

/// Nothing that must be kept in the log.
const NOWHERE: Position = Position::MAX;
/// Nobody reads.
const NOBODY: SeqNo = SeqNo::MAX;

/// An opened tree and its companions.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) tree: Box<dyn SortedTree>,
    pub(crate) deleted: DeletedPartitions,
    pub(crate) indexes: IndexSet,
    pub(crate) leftovers: Leftovers,
    pub(crate) sizes: TableSizes,
    /// Sorted by their numbers, which stand beside them: a table may have ten thousand, and a search that
    /// followed a pointer at each step took a fifteenth of a write's time.
    sets: RwLock<Vec<(SetId, Arc<SetProgress>)>>,
    ended_sets: Arc<EndedSets>,
    set_limits: Arc<SetLimits>,
    seal: RwLock<()>,
    /// From where those read who are not registered with a set.
    readers_of_all: Mutex<Vec<SeqNo>>,
    /// The first of them.
    first_reader_of_all: AtomicU64,
    /// The first record of the log whose effect is in the active memtable.
    active_since: AtomicU64,
    sealed_since: AtomicU64,
    pub(crate) active_bytes: AtomicU64,
    pub(crate) sealed_bytes: AtomicU64,
    /// Compactions replaced files that are still on the disk.
    pub(crate) has_replaced_files: AtomicBool,
    dead: DeadState,
    /// The definitions that are in the tree.
    kept_versions: Mutex<HashSet<u64, FixedState>>,
    /// The horizon that is in sorted files once what is frozen is.
    sealed_horizon_s: AtomicU32,
    pub(crate) purge: Arc<PurgeFactory>,
    pub(crate) guards: Guards,
    home: Arc<dyn TreeHome>,
    folder: PathBuf,
    is_established: AtomicBool,
}

impl OpenStore {
    pub(crate) fn new(
        tree: Box<dyn SortedTree>,
        (home, folder): (Arc<dyn TreeHome>, PathBuf),
        (ended_sets, set_limits): (Arc<EndedSets>, Arc<SetLimits>),
        sizes: &SizesSeed,
        purge: Arc<PurgeFactory>,
    ) -> Result<OpenStore, TreeError> {
        let deleted = DeletedPartitions::load(tree.as_ref(), LATEST)?;
        let sizes = TableSizes::load(tree.as_ref(), sizes.bounds, Arc::clone(&sizes.node_largest))?;
        let leftovers = Leftovers::load(tree.as_ref())?;
        let definitions = load_definitions(tree.as_ref())?;
        let mut sets = Vec::new();
        for item in tree.range(&[SPACE_PROGRESS], &[SPACE_PROGRESS + 1], LATEST) {
            let (key, value) = item?;
            let malformed = || TreeError::Corrupt("a replay point is not readable".into());
            let set = key.get(1..).and_then(|set| set.try_into().ok()).ok_or_else(malformed)?;
            let point = ReplayPoint::decode(&value).ok_or_else(malformed)?;
            let set = SetId(u32::from_be_bytes(set));
            let definition = match point.version {
                Some(version) => Some(definitions.get(&version).cloned().ok_or_else(malformed)?),
                None => None,
            };
            let progress = SetProgress::at(set, Some(point), definition, tree.next_seqno());
            progress.limit(set_limits.read().get(&set).copied());
            sets.push((set, Arc::new(progress)));
        }
        let purged_s = match tree.get(&[SPACE_HORIZON], LATEST)? {
            Some(bytes) => match bytes.first_chunk::<4>() {
                Some(purged_s) => u32::from_be_bytes(*purged_s),
                None => return Err(TreeError::Corrupt("the horizon is not readable".into())),
            },
            None => 0,
        };
        purge.raise(purged_s);
        let guards = Guards::load(tree.as_ref(), &purge)?;
        Ok(OpenStore {
            tree,
            guards,
            deleted,
            indexes: IndexSet::default(),
            leftovers,
            sizes,
            sets: RwLock::new(sets),
            ended_sets,
            set_limits,
            seal: RwLock::new(()),
            readers_of_all: Mutex::new(Vec::new()),
            first_reader_of_all: AtomicU64::new(NOBODY),
            active_since: AtomicU64::new(NOWHERE),
            sealed_since: AtomicU64::new(NOWHERE),
            active_bytes: AtomicU64::new(0),
            sealed_bytes: AtomicU64::new(0),
            has_replaced_files: AtomicBool::new(false),
            dead: DeadState::default(),
            kept_versions: Mutex::new(definitions.into_keys().collect()),
            sealed_horizon_s: AtomicU32::new(purged_s),
            purge,
            is_established: AtomicBool::new(home.is_established(&folder)),
            home,
            folder,
        })
    }

    /// What is known of a set, made if it is new here.
    pub(crate) fn progress(&self, set: SetId) -> Arc<SetProgress> {
        let find = |sets: &[(SetId, Arc<SetProgress>)]| {
            sets.binary_search_by_key(&set, |(number, _)| *number)
        };
        {
            let sets = self.sets.read();
            if let Some((_, known)) = find(&sets).ok().and_then(|index| sets.get(index)) {
                return Arc::clone(known);
            }
        }
        let mut sets = self.sets.write();
        let index = match find(&sets) {
            Ok(index) => match sets.get(index) {
                Some((_, known)) => return Arc::clone(known),
                None => sets.len(),
            },
            Err(index) => index,
        };
        let fresh = SetProgress::new(set, self.tree.next_seqno());
        let fresh = Arc::new(fresh);
        if self.ended_sets.read().contains(&set) {
            self.end_set(&fresh);
        }
        fresh.limit(self.set_limits.read().get(&set).copied());
        sets.insert(index, (set, Arc::clone(&fresh)));
        fresh
    }

    /// From now on these sets are never quiet.
    pub(crate) fn end_sets(&self, sets: &[SetId]) {
        let known = self.sets.read();
        for (_, progress) in known.iter().filter(|(set, _)| sets.contains(set)) {
            self.end_set(progress);
        }
    }

    /// From now on other sets' writers must know its readers.
    fn end_set(&self, progress: &SetProgress) {
        {
            let mut readers = progress.readers.lock();
            progress.has_ended.store(true, Ordering::SeqCst);
            self.change_readers_of_all(|of_all| of_all.append(&mut readers));
        }
        if progress.quiet_epoch().is_some() {
            progress.begin_many();
        }
    }

    /// From now on another set changes what lies behind a place of the ring. Only called by the one who applies the set.
    pub(crate) fn limit_set(&self, set: SetId, at: RingToken) {
        let find =
            |(known, it): &(SetId, Arc<SetProgress>)| (*known == set).then(|| Arc::clone(it));
        let progress = self.sets.read().iter().find_map(find);
        // One that is new here later knows it from its beginning.
        let Some(progress) = progress else { return };
        {
            // Who reads from a snapshot may read both halves.
            let mut readers = progress.readers.lock();
            progress.limit(Some(at));
            self.change_readers_of_all(|of_all| of_all.append(&mut readers));
        }
        // Who compares looks again.
        progress.begin_many();
        progress.end_many();
    }

    fn change_readers_of_all<T>(&self, change: impl FnOnce(&mut Vec<SeqNo>) -> T) -> T {
        let mut readers = self.readers_of_all.lock();
        let result = change(&mut readers);
        let first = readers.iter().copied().min().unwrap_or(NOBODY);
        self.first_reader_of_all.store(first, Ordering::SeqCst);
        result
    }

    /// Whether nobody reads from a snapshot.
    fn is_unread(&self) -> bool {
        // In this order: readers move from their sets to the store.
        let is_unread =
            |(_, progress): &(SetId, Arc<SetProgress>)| progress.readers.lock().is_empty();
        self.sets.read().iter().all(is_unread)
            && self.first_reader_of_all.load(Ordering::SeqCst) == NOBODY
    }

    /// From where those read who read what the writer of a set changes, or may begin to. `held`: those of the
    /// set, while no other can begin.
    pub(crate) fn readers_from(&self, begin_at: SeqNo, held: &[SeqNo]) -> SeqNo {
        let of_all = self.first_reader_of_all.load(Ordering::SeqCst);
        held.iter().copied().fold(begin_at.min(of_all), SeqNo::min)
    }

    /// A partition has no deletions any more. Whoever reads from before must still find out that there were.
    pub(crate) fn forget_deleted(&self, prefix: &[u8]) {
        if self.is_unread() {
            self.deleted.remove(prefix);
        }
    }

    /// Raises the last entry of every set to what these files hold.
    pub(crate) fn raise_indexes(&self, indexes: &mut LogIndexes) {
        for (_, progress) in self.sets.read().iter() {
            let index = indexes.entry(progress.set).or_insert(0);
            *index = (*index).max(progress.applied().index);
        }
    }

    /// Files that hold more than the log ever did: the log, or a part of it, is not theirs.
    pub(crate) fn check_against(&self, log: &LogIndexes) -> Result<(), TreeError> {
        for (_, progress) in self.sets.read().iter() {
            if progress.applied().index > log.get(&progress.set).copied().unwrap_or(0) {
                let what = "its files hold changes that the log does not know; was it removed?";
                return Err(TreeError::Corrupt(what.into()));
            }
        }
        Ok(())
    }

    /// Held while a change is applied, so that the memtable is not frozen in the middle of it.
    pub(crate) fn hold_open(&self) -> RwLockReadGuard<'_, ()> {
        self.seal.read()
    }

    /// Notes that a record's effect is in the active memtable, by so many bytes. Called under
    /// [`OpenStore::hold_open`].
    pub(crate) fn note_write(&self, position: Position, grown: i64) {
        self.active_since.fetch_min(position, Ordering::AcqRel);
        // What shrinks was counted here before.
        self.active_bytes.fetch_add(grown.cast_unsigned(), Ordering::Relaxed);
    }

    /// Notes bytes that no record of the log stands for.
    pub(crate) fn note_sweep(&self, bytes: u64) {
        self.active_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Keeps changes from being applied for a moment.
    pub(crate) fn pause(&self) -> Pause<'_> {
        Pause { store: self, _nobody_applies: self.seal.write() }
    }

    /// Notes that something was written that is dead from a second on.
    pub(crate) fn note_dead(&self, dead_at_s: u32) {
        self.dead.dead_count.fetch_add(1, Ordering::Relaxed);
        let dead_at_s = dead_at_s.max(1);
        self.dead.last_dead_at_s.fetch_max(dead_at_s, Ordering::Relaxed);
        let _ = self.dead.first_dead_at_s.compare_exchange(
            0,
            dead_at_s,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Whether enough has been dead for long enough to be worth a merge of all files. Asked by one.
    pub(crate) fn take_purge(&self, horizon_s: u32) -> bool {
        let first = self.dead.first_dead_at_s.load(Ordering::Relaxed);
        let is_due = first != 0
            && first < horizon_s
            && self.dead.dead_count.load(Ordering::Relaxed) >= DEAD_COUNT_MIN;
        if !is_due {
            return false;
        }
        let last = self.dead.last_dead_at_s.load(Ordering::Relaxed);
        if last < horizon_s {
            self.dead.dead_count.store(0, Ordering::Relaxed);
            self.dead.first_dead_at_s.store(0, Ordering::Relaxed);
        } else {
            // Not before what is dead by now may go, and more than half of what came may stay.
            self.dead.first_dead_at_s.store(horizon_s.midpoint(last), Ordering::Relaxed);
        }
        true
    }

    /// The first record of the log that is still needed for this tree.
    pub(crate) fn holds_log_from(&self) -> Position {
        self.active_since.load(Ordering::Acquire).min(self.sealed_since.load(Ordering::Acquire))
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.active_bytes.load(Ordering::Relaxed) + self.sealed_bytes.load(Ordering::Relaxed)
    }

    /// The longest that anything stays by the definitions in force.
    fn retention_max_s(&self) -> Option<u32> {
        let sets = self.sets.read();
        let retentions = sets.iter().map(|(_, it)| it.retention_s.load(Ordering::Relaxed));
        retentions.filter(|retention_s| *retention_s != FOR_EVER_S).max()
    }

    /// The horizon of this moment, made from the longest retention in force.
    pub(crate) fn horizon_at(&self, horizon_s: impl FnOnce(Option<u32>) -> u32) -> u32 {
        horizon_s(self.retention_max_s())
    }

    /// Before the memtable is frozen: guards of sets that are far enough go with it. `now_s` tells what no entry is behind that is
    /// still to be applied to a set.
    pub(crate) fn judge_guards(&self, now_s: impl Fn(SetId) -> Option<u32>) {
        let retention_s = self.retention_max_s().unwrap_or(FOR_EVER_S);
        self.guards.judge(|set| now_s(set).map(|now_s| now_s.saturating_sub(retention_s)));
    }

    /// Has the next seal take place, even if nothing was written.
    pub(crate) fn want_seal(&self) {
        self.active_bytes.fetch_add(1, Ordering::Relaxed);
    }

    /// About how many rows and tombstones there are.
    pub(crate) fn row_count(&self) -> u64 {
        let has_point = |(_, progress): &&(SetId, Arc<SetProgress>)| progress.kept.lock().is_some();
        let points = self.sets.read().iter().filter(has_point).count();
        let own = points + self.kept_versions.lock().len() + usize::from(self.purged_s() > 0);
        self.tree.key_count().saturating_sub(self.sizes.record_count() + own as u64)
    }

    /// What died before this second may be gone from the files.
    pub(crate) fn purged_s(&self) -> u32 {
        self.sealed_horizon_s.load(Ordering::Acquire)
    }

    /// Freezes the memtable with the replay points in it; `false` if it is empty. `horizon_s` makes the
    /// horizon of this moment from the longest retention in force. An error where something was half applied.
    pub(crate) fn seal(
        &self,
        poison: &Poison,
        horizon_s: impl FnOnce(Option<u32>) -> u32,
    ) -> Result<bool, Arc<str>> {
        let _nobody_applies = self.seal.write();
        if let Some(why) = poison.get() {
            return Err(Arc::clone(why));
        }
        if self.active_since.load(Ordering::Acquire) == NOWHERE
            && self.active_bytes.load(Ordering::Acquire) == 0
        {
            return Ok(false);
        }
        let seqno = self.tree.draw_seqno();
        self.write_definitions(seqno);
        self.settle_answers(seqno);
        for (_, progress) in self.sets.read().iter() {
            let point = progress.replay_point();
            let mut kept = progress.kept.lock();
            if *kept != Some(point) && point.applied != Applied::default() {
                self.tree.insert(&progress_key(progress.set), point.encode(), seqno);
                *kept = Some(point);
            }
        }
        let horizon_s = horizon_s(self.retention_max_s());
        if horizon_s > self.sealed_horizon_s.fetch_max(horizon_s, Ordering::AcqRel) {
            let value = TreeBytes::from(horizon_s.to_be_bytes());
            self.tree.insert(&[SPACE_HORIZON], value, seqno);
        }
        self.guards.write(self.tree.as_ref(), seqno);
        self.sizes.write(|key, value| {
            match value {
                Some(value) => self.tree.insert(key, value, seqno),
                None => self.tree.remove(key, seqno),
            };
        });
        self.publish_all();
        self.indexes.seal();
        self.tree.seal();
        let since = self.active_since.swap(NOWHERE, Ordering::AcqRel);
        self.sealed_since.fetch_min(since, Ordering::AcqRel);
        let bytes = self.active_bytes.swap(0, Ordering::AcqRel);
        self.sealed_bytes.fetch_add(bytes, Ordering::AcqRel);
        Ok(true)
    }

    /// Writes what is known of requests in memory alone. While nobody applies.
    fn settle_answers(&self, seqno: SeqNo) {
        for (set, progress) in self.sets.read().iter() {
            progress.answers().settle(*set, self.tree.as_ref(), seqno);
        }
    }

    /// Writes the definitions in force that the tree does not have, and removes those that no set uses.
    fn write_definitions(&self, seqno: SeqNo) {
        let mut kept = self.kept_versions.lock();
        let sets = self.sets.read();
        let mut used: HashSet<u64, FixedState> = HashSet::default();
        for definition in sets.iter().filter_map(|(_, progress)| progress.definition()) {
            let version = definition.table.version;
            if used.insert(version) && !kept.contains(&version) {
                let mut value = definition.retention_s.to_be_bytes().to_vec();
                value.extend_from_slice(&definition.bytes);
                self.tree.insert(&definition_key(version), TreeBytes::from(value), seqno);
            }
        }
        for version in kept.difference(&used) {
            self.tree.remove(&definition_key(*version), seqno);
        }
        *kept = used;
    }

    /// Whether something is frozen and not yet in sorted files.
    pub(crate) fn has_sealed(&self) -> bool {
        self.sealed_since.load(Ordering::Acquire) != NOWHERE
            || self.sealed_bytes.load(Ordering::Acquire) != 0
    }

    /// Writes what is frozen into sorted files; returns how many bytes of memory that freed. The
    /// caller has synced the log, and is the only one who seals and flushes this store.
    pub(crate) fn flush_sealed(&self) -> Result<u64, TreeError> {
        if !self.has_sealed() {
            return Ok(0);
        }
        let watermark = self.watermark();
        self.indexes.flush(watermark)?;
        self.tree.flush(watermark)?;
        if !self.is_established.load(Ordering::Acquire) {
            self.home.establish(&self.folder)?;
            self.is_established.store(true, Ordering::Release);
        }
        // The files have the replay points of that horizon now, whatever becomes of the log.
        self.purge.raise(self.sealed_horizon_s.load(Ordering::Acquire));
        self.guards.flushed();
        self.sealed_since.store(NOWHERE, Ordering::Release);
        Ok(self.sealed_bytes.swap(0, Ordering::AcqRel))
    }

    /// A broken rule: what is not in sorted files yet says how far they are purged.
    pub(crate) fn purge_ahead(&self) {
        let sets = self.sets.read();
        let horizons = sets.iter().map(|(_, progress)| progress.horizon_s.load(Ordering::Relaxed));
        self.purge.raise(horizons.max().unwrap_or(0));
    }

    /// Nobody reads before this.
    pub(crate) fn watermark(&self) -> SeqNo {
        {
            let _nobody_applies = self.seal.write();
            self.publish_all();
        }
        // Who begins to read after this reads from `published` or later. Those of all sets come last: readers
        // move there from their sets.
        let first_of_set = |(_, progress): &(SetId, Arc<SetProgress>)| {
            let readers = progress.readers.lock();
            readers.iter().copied().fold(progress.published(), SeqNo::min)
        };
        let first = self.sets.read().iter().map(first_of_set).min();
        let first = first.unwrap_or_else(|| self.tree.next_seqno());
        first.min(self.first_reader_of_all.load(Ordering::SeqCst))
    }

    /// While nobody applies, everything is whole.
    fn publish_all(&self) {
        let next = self.tree.next_seqno();
        for (_, progress) in self.sets.read().iter() {
            progress.publish(next);
        }
    }

    /// As [`OpenStore::snapshot`]; `None` when the set has ended, or was split, and others change its keys.
    pub(crate) fn current_snapshot(&self, set: SetId, last: RingToken) -> Option<Snapshot<'_>> {
        let progress = self.progress(set);
        let mut readers = progress.readers.lock();
        if progress.has_ended.load(Ordering::SeqCst) || !progress.holds(last) {
            return None;
        }
        let seqno = progress.published();
        readers.push(seqno);
        drop(readers);
        Some(Snapshot { store: self, set: Some(progress), seqno })
    }

    /// A view of all sets that does not change while it is held.
    pub(crate) fn snapshot_of_all(&self) -> Snapshot<'_> {
        let _nobody_applies = self.seal.write();
        Snapshot { store: self, set: None, seqno: self.begin_reading_all() }
    }

    /// While nobody applies.
    fn begin_reading_all(&self) -> SeqNo {
        self.publish_all();
        let seqno = self.tree.next_seqno();
        self.change_readers_of_all(|readers| readers.push(seqno));
        seqno
    }

    /// A view of all sets for somebody who cannot hold on to the store: it lasts until [`OpenStore::end_view`]. Nothing of it is
    /// purged either.
    pub(crate) fn begin_view(&self) -> (SeqNo, PurgeHold) {
        let _nobody_applies = self.seal.write();
        self.settle_answers(self.tree.draw_seqno());
        (self.begin_reading_all(), PurgeHold::new(&self.purge, self.purge.horizon_s()))
    }

    /// Nobody reads any more from a view.
    pub(crate) fn end_view(&self, seqno: SeqNo) {
        self.change_readers_of_all(|readers| {
            if let Some(index) = readers.iter().position(|known| *known == seqno) {
                readers.swap_remove(index);
            }
        });
    }

    /// A view of a set that does not change while it is held. Nothing is read behind the position `last` of the ring.
    pub(crate) fn snapshot(&self, set: SetId, last: RingToken) -> Snapshot<'_> {
        self.current_snapshot(set, last).unwrap_or_else(|| self.snapshot_of_all())
    }
}

/// Registered while somebody reads.
#[derive(Debug)]
pub(crate) struct Snapshot<'s> {
    store: &'s OpenStore,
    /// Where it was registered; `None`: with the store.
    set: Option<Arc<SetProgress>>,
    /// Read before this.
    pub(crate) seqno: SeqNo,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let leave = |readers: &mut Vec<SeqNo>| {
            let index = readers.iter().position(|seqno| *seqno == self.seqno);
            index.map(|index| readers.swap_remove(index)).is_some()
        };
        let has_left = self.set.as_ref().is_some_and(|set| leave(&mut set.readers.lock()));
        // The set may have ended meanwhile.
        if !has_left {
            self.store.change_readers_of_all(leave);
        }
    }
}
