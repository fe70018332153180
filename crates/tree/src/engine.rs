//! The library's tree behind a small trait of ours.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use lsm_tree::compaction::{Factory, Leveled};
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PinningPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, InternalValue,
    SequenceNumberCounter, Tree, ValueType,
};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use crate::buffer::{BufferKey, End, WriteBuffer};
use crate::courtesy::Courtesy;
use crate::files::{FileDamage, impossible_contents};
use crate::folder::EmptyTree;
use crate::layers::Layers;
use crate::leftovers::{Ended, Leftovers, Work};
use crate::sieve::{LibrarySieve, Sieve};
use crate::traces::{Traces, mark_of, marks_of_file, note_mark};

use crate::error::TreeError;
use crate::file_view::FileView;

/// Bytes as the tree hands them out: shared, not copied.
pub type TreeBytes = lsm_tree::Slice;

/// The tree's own order of writes. Drawn when a change is applied; says nothing about the log.
pub type SeqNo = u64;

/// Sees everything.
pub const LATEST: SeqNo = SeqNo::MAX;
/// Sees nothing.
const EARLIEST: SeqNo = 0;

/// A key with its value, or why it could not be read.
pub type TreeItem = Result<(TreeBytes, TreeBytes), TreeError>;

/// Keys and values in order, from both ends.
pub type TreeIter = Box<dyn DoubleEndedIterator<Item = TreeItem> + Send>;

/// What storage asks of a sorted tree.
pub trait SortedTree: Send + Sync + fmt::Debug {
    /// The newest value of a key before `seqno`.
    fn get(&self, key: &[u8], seqno: SeqNo) -> Result<Option<TreeBytes>, TreeError>;
    /// Whether there may be keys now that begin so; `false` is sure. Only of an even space, and with all of its bytes that
    /// are spread evenly, more than a guess is made. Cheaper than to look for each of several keys.
    fn may_hold(&self, start: &[u8]) -> bool;
    /// Keys from `start` (inside) to `end` (outside) as they were before `seqno`.
    fn range(&self, start: &[u8], end: &[u8], seqno: SeqNo) -> TreeIter;
    /// Writes a value, or that there is none (`None`), and forgets what nobody can read who reads from
    /// `readers_from` on; returns by how many bytes memory grew.
    fn write_over(
        &self,
        key: &[u8],
        value: Option<TreeBytes>,
        seqno: SeqNo,
        readers_from: SeqNo,
    ) -> i64;
    /// Writes a value; returns by how many bytes memory grew.
    fn insert(&self, key: &[u8], value: TreeBytes, seqno: SeqNo) -> u64;
    /// Removes a key; returns by how many bytes memory grew.
    fn remove(&self, key: &[u8], seqno: SeqNo) -> u64;
    /// One more than the highest sequence number that was ever written.
    fn next_seqno(&self) -> SeqNo;
    /// Draws a sequence number.
    fn draw_seqno(&self) -> SeqNo;
    /// Freezes what is in memory and starts afresh; `false` if there was nothing.
    fn seal(&self) -> bool;
    /// Writes everything that is frozen into sorted files. Nobody reads before `watermark`.
    fn flush(&self, watermark: SeqNo) -> Result<(), TreeError>;
    /// Whether something of these keys, a removal too, is in memory and not in sorted files.
    fn is_buffered(&self, start: &[u8], end: &[u8]) -> bool;
    /// Writes pairs into sorted files of their own, past memory: all of them are seen at once, and last. Their keys rise, and of none
    /// from the first to the last of them anything is in memory, or comes there meanwhile.
    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = TreeItem>,
        watermark: SeqNo,
    ) -> Result<(), TreeError>;
    /// Merges sorted files where there are too many; `true` if something was done.
    fn compact(&self, watermark: SeqNo) -> Result<bool, TreeError>;
    /// Merges all sorted files into one run.
    fn compact_all(&self, watermark: SeqNo) -> Result<(), TreeError>;
    /// Lets go of the files that a compaction replaced: until then they stay on the disk for whoever reads
    /// before `watermark`.
    fn release(&self, watermark: SeqNo) -> Result<(), TreeError>;
    /// Bytes of sorted files.
    fn disk_bytes(&self) -> u64;
    /// About how many keys there are.
    fn key_count(&self) -> u64;
    /// A chore: reads which keys there are in files from before the tree was opened, once something was written, so that
    /// [`SortedTree::may_hold`] can say no. Large files are not read. `goes_on` is asked on the way.
    fn learn(&self, goes_on: &dyn Fn() -> bool) -> Result<(), TreeError>;
    /// How many runs a read may have to look at before the sorted levels.
    fn unsorted_runs(&self) -> usize;
    /// Where its sequence numbers come from, for trees that change together with it.
    fn counter(&self) -> SequenceNumberCounter;
}

/// What all trees share.
#[derive(Clone)]
pub struct TreeShared {
    cache: Arc<Cache>,
    descriptors: Arc<DescriptorTable>,
    empty: Arc<OnceLock<EmptyTree>>,
}

impl fmt::Debug for TreeShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeShared").finish_non_exhaustive()
    }
}

impl TreeShared {
    pub fn new(block_cache_bytes: u64, open_files_max: usize) -> TreeShared {
        TreeShared {
            cache: Arc::new(Cache::with_capacity_bytes(block_cache_bytes)),
            descriptors: Arc::new(DescriptorTable::new(open_files_max)),
            empty: Arc::default(),
        }
    }

    /// Puts a tree without rows into a folder.
    pub fn create(&self, folder: &Path) -> Result<(), TreeError> {
        let empty = match self.empty.get() {
            Some(empty) => empty,
            None => {
                let made = EmptyTree::make(&folder.with_extension("empty"))?;
                self.empty.get_or_init(|| made)
            }
        };
        empty.copy_to(folder).map_err(|error| TreeError::Io(Arc::new(error)))
    }
}

/// The library's tree of sorted files, below buffers of ours.
///
/// **Readers from before a flush.** A reader sees the files of its time: files that were registered after
/// the reader's sequence number was drawn are not among them. So a buffer that was flushed stays until nobody
/// reads from before its files, and so do the files that a compaction replaced.
///
/// **Readers beside a flush.** The library holds a lock over the sync of its manifest, which every read of its
/// own takes. Ours do not: they read through the last [`FileView`] that was taken when no such change was
/// under way.
pub struct LsmTree {
    files: Tree,
    layers: RwLock<Standing>,
    /// Held from the look at the files until it is shown: a flush and a compaction may end at the same time, and
    /// what one of them saw before the other must not be shown after it.
    showing: Mutex<()>,
    seqno: SequenceNumberCounter,
    strategy: Arc<Leveled>,
    /// Held while groups are added to the traces: by a flush, and by whoever learns of older files.
    tracing: Mutex<()>,
    leftovers: Leftovers,
    /// Written to while all files are merged, read while some are. The library has the same lock inside, where a merge
    /// that only waits would count as one that makes files.
    merging_all: RwLock<()>,
}

/// What readers read.
#[derive(Debug)]
struct Standing {
    active: Arc<WriteBuffer>,
    /// From old to new.
    frozen: VecDeque<FrozenBuffer>,
    /// From old to new; never empty.
    views: VecDeque<Arc<FileView>>,
    /// What was ever flushed into them.
    traces: Traces,
}

/// A buffer that nobody writes to any more.
#[derive(Clone, Debug)]
struct FrozenBuffer {
    buffer: Arc<WriteBuffer>,
    /// Whoever reads from here on finds what it holds in sorted files.
    in_files_from: SeqNo,
}

/// Not in sorted files yet.
const NOT_IN_FILES: SeqNo = SeqNo::MAX;

/// While a buffer is flushed, so many keys are taken from it at a time.
const FLUSH_CHUNK: usize = 1024;

impl FrozenBuffer {
    fn is_in_files(&self) -> bool {
        self.in_files_from != NOT_IN_FILES
    }

    fn is_needed_by(&self, seqno: SeqNo) -> bool {
        !self.is_in_files() || seqno < self.in_files_from
    }
}

impl Standing {
    /// The files as a reader must see them.
    fn files_of_reader(&self, seqno: SeqNo) -> Option<Arc<FileView>> {
        let right = self.views.iter().rev().find(|view| view.from <= seqno);
        right.or_else(|| self.views.front()).cloned()
    }

    /// The buffers that a reader must look into, from new to old.
    fn of_reader(&self, seqno: SeqNo) -> impl Iterator<Item = &Arc<WriteBuffer>> {
        let frozen = self.frozen.iter().rev().filter(move |frozen| frozen.is_needed_by(seqno));
        std::iter::once(&self.active).chain(frozen.map(|frozen| &frozen.buffer))
    }

    fn key_count(&self) -> usize {
        self.of_reader(LATEST).map(|buffer| buffer.key_count()).sum()
    }
}

/// The newest version of each key of a frozen buffer, in order. No reader of the files that are made of it
/// is from before any of its writes.
struct NewestOfAll {
    buffer: Arc<WriteBuffer>,
    chunk: VecDeque<(BufferKey, SeqNo, Option<TreeBytes>)>,
    last: Option<BufferKey>,
    /// Of the groups that came by.
    marks: Vec<u64>,
    courtesy: Courtesy,
}

impl NewestOfAll {
    fn new(buffer: &Arc<WriteBuffer>) -> NewestOfAll {
        let (chunk, courtesy) = (VecDeque::new(), Courtesy::default());
        let buffer = Arc::clone(buffer);
        NewestOfAll { buffer, chunk, last: None, marks: Vec::new(), courtesy }
    }
}

impl Iterator for NewestOfAll {
    type Item = lsm_tree::Result<InternalValue>;

    fn next(&mut self) -> Option<Self::Item> {
        self.courtesy.on_row();
        if self.chunk.is_empty() {
            self.buffer.newest_after(self.last.as_ref(), FLUSH_CHUNK, &mut self.chunk);
            self.last = self.chunk.back().map(|(key, ..)| key.clone());
        }
        let (key, seqno, value) = self.chunk.pop_front()?;
        let key = key.bytes().clone();
        note_mark(&key, &mut self.marks);
        Some(Ok(match value {
            Some(value) => InternalValue::from_components(key, value, seqno, ValueType::Value),
            None => InternalValue::new_tombstone(key, seqno),
        }))
    }
}

impl fmt::Debug for LsmTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LsmTree").finish_non_exhaustive()
    }
}

/// Sorted files are about this large.
const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// So many flushed files are merged into the levels at once. A read asks the filter of each of them; with
/// half as many, what is written comes to the disk half as often again.
const UNSORTED_FILES_MAX: u8 = 8;

/// What comes past memory may be gigabytes of groups: so many marks wait at most until they are among the traces, which may be
/// there before the files are shown, and after none came.
const MARKS_PER_CHANGE: usize = 64 * 1024;

/// Of a tree with larger files it is not learned what they hold.
const LEARNED_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// With this many runs nothing is flushed until some were merged: the library counts them in a byte, and a manifest
/// with more could not be read again.
const UNSORTED_RUNS_MAX: usize = 200;

/// Why nothing is flushed.
pub fn too_many_runs() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "too many sorted files wait to be merged")
}

impl LsmTree {
    /// Opens the tree in a folder.
    pub fn open(
        folder: &Path,
        shared: &TreeShared,
        sieve: Option<Arc<dyn Sieve>>,
    ) -> Result<LsmTree, TreeError> {
        LsmTree::open_beside(folder, shared, sieve, SequenceNumberCounter::new(1))
    }

    /// Opens the tree in a folder; its sequence numbers are those of another tree.
    pub fn open_beside(
        folder: &Path,
        shared: &TreeShared,
        sieve: Option<Arc<dyn Sieve>>,
        seqno: SequenceNumberCounter,
    ) -> Result<LsmTree, TreeError> {
        // Its readers of manifests may panic on bytes that are none.
        let opened = std::panic::catch_unwind(AssertUnwindSafe(|| {
            LsmTree::open_unguarded(folder, shared, sieve, seqno)
        }));
        opened.unwrap_or_else(|_| Err(TreeError::Corrupt("its manifest is not readable".into())))
    }

    fn open_unguarded(
        folder: &Path,
        shared: &TreeShared,
        sieve: Option<Arc<dyn Sieve>>,
        seqno: SequenceNumberCounter,
    ) -> Result<LsmTree, TreeError> {
        if let Some(FileDamage { path, offset, what }) = impossible_contents(folder) {
            let what = format!("{} at {offset}: {what}", path.display());
            return Err(TreeError::Corrupt(what.into()));
        }
        let filter = sieve.map(|sieve| Arc::new(LibrarySieve(sieve)) as Arc<dyn Factory>);
        let bloom = BloomConstructionPolicy::BitsPerKey(10.0);
        let tree = Config::new(folder, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::clone(&shared.cache))
            .use_descriptor_table(Some(Arc::clone(&shared.descriptors)))
            .data_block_size_policy(BlockSizePolicy::all(4 * 1024))
            // New files too: fewer bytes come to the disk, for no more CPU time (docs/performance.md).
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)))
            // One filter of the upper levels is a block of hundreds of KB: read again it would cost more than
            // the rows it spares. Below, filters come in small parts.
            .filter_block_pinning_policy(PinningPolicy::new([true, true, true, false]))
            .with_compaction_filter_factory(filter)
            .open()
            .map_err(tree_error)?;
        if let Some(highest) = tree.get_highest_seqno() {
            seqno.fetch_max(highest + 1);
        }
        let strategy = Leveled::default()
            .with_table_target_size(FILE_BYTES)
            .with_l0_threshold(UNSORTED_FILES_MAX);
        let strategy = Arc::new(strategy);
        let AnyTree::Standard(files) = tree else {
            return Err(TreeError::Corrupt("values are not kept apart from keys here".into()));
        };
        let traces = match files.table_count() {
            0 => Traces::of_nothing(),
            _ => Traces::unknown(),
        };
        // Nobody reads yet: it is right for everybody.
        let view = FileView { from: 0, ..FileView::now(&files, &seqno) };
        let standing = Standing {
            active: Arc::new(WriteBuffer::for_keys(0)),
            frozen: VecDeque::new(),
            views: VecDeque::from([Arc::new(view)]),
            traces,
        };
        let (layers, showing, tracing) = (RwLock::new(standing), Mutex::new(()), Mutex::new(()));
        let (leftovers, merging_all) = (Leftovers::new(folder), RwLock::new(()));
        Ok(LsmTree { files, layers, showing, seqno, strategy, tracing, leftovers, merging_all })
    }

    /// Merges files.
    fn merge(&self, work: impl FnOnce() -> lsm_tree::Result<()>) -> Result<(), TreeError> {
        self.leftovers.begin(Work::Merge);
        let result = work();
        let ended = if result.is_ok() { Ended::Well } else { Ended::Failed };
        self.leftovers.end(Work::Merge, ended, &self.files);
        result.map_err(tree_error)
    }

    /// Writes items into sorted files of their own. Nothing is left of them where that fails: it is tried again and again, and
    /// each time would leave a file.
    fn write_files(
        &self,
        items: impl Iterator<Item = lsm_tree::Result<InternalValue>>,
        watermark: SeqNo,
    ) -> Result<(), TreeError> {
        self.leftovers.begin(Work::Write);
        let (ended, result) = match self.files.flush_to_tables(items) {
            Err(error) => (Ended::Failed, Err(error)),
            Ok(Some((tables, blobs))) if !tables.is_empty() => {
                let names = tables.iter().map(|table| table.id().to_string().into()).collect();
                let blobs = blobs.as_deref();
                match self.files.register_tables(&tables, blobs, None, &[], watermark) {
                    Ok(()) => (Ended::Added(names), Ok(())),
                    Err(error) => (Ended::FailedLast, Err(error)),
                }
            }
            Ok(Some(_) | None) => (Ended::Well, Ok(())),
        };
        self.leftovers.end(Work::Write, ended, &self.files);
        result.map_err(tree_error)
    }

    /// Writes one buffer into sorted files. The caller holds the library's flush lock.
    fn flush_buffer(&self, buffer: &Arc<WriteBuffer>, watermark: SeqNo) -> Result<(), TreeError> {
        let mut items = NewestOfAll::new(buffer);
        self.write_files(&mut items, watermark)?;
        // Before the buffer is no longer asked.
        self.change_traces(|traces| traces.with(items.marks));
        Ok(())
    }

    fn learn_files(&self, goes_on: &dyn Fn() -> bool) -> lsm_tree::Result<()> {
        // What is flushed from now on is added by the flush, and merges make files of these.
        let (version, from) = (self.files.current_version(), self.seqno.get());
        let runs = version.iter_levels().flat_map(|level| level.iter());
        for file in runs.flat_map(|run| run.iter()) {
            let Some(marks) = marks_of_file(file, goes_on)? else { return Ok(()) };
            self.change_traces(|traces| traces.with(marks));
        }
        self.change_traces(|traces| traces.known_from(from));
        Ok(())
    }

    fn change_traces(&self, change: impl FnOnce(Traces) -> Traces) {
        let _one_at_a_time = self.tracing.lock();
        // Many groups take a while: not under the lock that readers need.
        let traces = change(self.layers.read().traces.clone());
        self.layers.write().traces = traces;
    }

    /// What changes when a compaction did something.
    fn shape(&self) -> (usize, usize, u64) {
        (self.files.table_count(), self.files.l0_run_count(), self.files.disk_space())
    }

    /// Lets go of buffers that are in sorted files for everybody, and of files that nobody reads.
    fn forget_before(&self, watermark: SeqNo) {
        let is_over =
            |frozen: &FrozenBuffer| frozen.is_in_files() && frozen.in_files_from <= watermark;
        let (mut buffers, mut views) = (Vec::new(), Vec::new());
        {
            let mut standing = self.layers.write();
            while standing.frozen.front().is_some_and(is_over) {
                buffers.extend(standing.frozen.pop_front());
            }
            while standing.views.get(1).is_some_and(|next| next.from <= watermark) {
                views.extend(standing.views.pop_front());
            }
        }
        // Freeing a hundred thousand rows takes a while, and so does removing files: not under the lock.
        buffers
            .into_iter()
            .filter_map(|frozen| Arc::into_inner(frozen.buffer))
            .for_each(WriteBuffer::free);
        drop(views);
    }

    /// From now on readers see the files as they stand, and no longer a buffer that is among them.
    fn show_files(&self, flushed: Option<&Arc<WriteBuffer>>) {
        let _in_order = self.showing.lock();
        let view = Arc::new(FileView::now(&self.files, &self.seqno));
        let mut standing = self.layers.write();
        if let Some(flushed) = flushed {
            let mut frozen = standing.frozen.iter_mut();
            if let Some(frozen) = frozen.find(|frozen| Arc::ptr_eq(&frozen.buffer, flushed)) {
                frozen.in_files_from = view.from;
            }
        }
        standing.views.push_back(view);
    }

    fn next_to_flush(&self) -> Option<Arc<WriteBuffer>> {
        let standing = self.layers.read();
        let waiting = standing.frozen.iter().find(|frozen| !frozen.is_in_files());
        waiting.map(|frozen| Arc::clone(&frozen.buffer))
    }
}

pub(crate) fn tree_error(error: lsm_tree::Error) -> TreeError {
    match error {
        lsm_tree::Error::Io(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            TreeError::Io(Arc::new(error))
        }
        other => TreeError::Corrupt(Arc::from(other.to_string())),
    }
}

impl SortedTree for LsmTree {
    fn get(&self, key: &[u8], seqno: SeqNo) -> Result<Option<TreeBytes>, TreeError> {
        let sought = BufferKey::new(key);
        let files = {
            let standing = self.layers.read();
            if let Some(value) = standing.of_reader(seqno).find_map(|it| it.get(&sought, seqno)) {
                return Ok(value);
            }
            if !standing.traces.may_hold(key, seqno) {
                return Ok(None);
            }
            standing.files_of_reader(seqno)
        };
        let Some(files) = files else { return Ok(None) };
        let found = (files.get)(key, seqno).map_err(tree_error)?;
        Ok(found.filter(|item| !item.is_tombstone()).map(|item| item.value))
    }

    fn may_hold(&self, start: &[u8]) -> bool {
        if mark_of(start).is_none() {
            return true;
        }
        let sought = BufferKey::new(start);
        let standing = self.layers.read();
        standing.of_reader(LATEST).any(|buffer| buffer.holds(&sought))
            || standing.traces.may_hold(start, LATEST)
    }

    fn range(&self, start: &[u8], end: &[u8], seqno: SeqNo) -> TreeIter {
        if start >= end {
            return Box::new(std::iter::empty());
        }
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let (buffers, files) = {
            let standing = self.layers.read();
            let buffers: SmallVec<[Arc<WriteBuffer>; 3]> =
                standing.of_reader(seqno).cloned().collect();
            (buffers, standing.files_of_reader(seqno))
        };
        let Some(files) = files else { return Box::new(std::iter::empty()) };
        let files = (files.range)(bounds, seqno);
        Layers::over(buffers.into_iter(), files, (start, end), seqno)
    }

    fn write_over(
        &self,
        key: &[u8],
        value: Option<TreeBytes>,
        seqno: SeqNo,
        readers_from: SeqNo,
    ) -> i64 {
        // Held, so that nothing is written into a buffer that is being flushed.
        self.layers.read().active.insert(key, value, seqno, readers_from)
    }

    fn insert(&self, key: &[u8], value: TreeBytes, seqno: SeqNo) -> u64 {
        self.write_over(key, Some(value), seqno, EARLIEST).unsigned_abs()
    }

    fn remove(&self, key: &[u8], seqno: SeqNo) -> u64 {
        self.write_over(key, None, seqno, EARLIEST).unsigned_abs()
    }

    fn next_seqno(&self) -> SeqNo {
        self.seqno.get()
    }

    fn draw_seqno(&self) -> SeqNo {
        self.seqno.next()
    }

    fn seal(&self) -> bool {
        let mut standing = self.layers.write();
        let key_count = standing.active.key_count();
        if key_count == 0 {
            return false;
        }
        let fresh = Arc::new(WriteBuffer::for_keys(key_count));
        let buffer = std::mem::replace(&mut standing.active, fresh);
        standing.frozen.push_back(FrozenBuffer { buffer, in_files_from: NOT_IN_FILES });
        true
    }

    fn flush(&self, watermark: SeqNo) -> Result<(), TreeError> {
        let _one_at_a_time = self.files.get_flush_lock();
        self.forget_before(watermark);
        while let Some(buffer) = self.next_to_flush() {
            if self.files.l0_run_count() >= UNSORTED_RUNS_MAX {
                return Err(TreeError::Io(Arc::new(too_many_runs())));
            }
            self.flush_buffer(&buffer, watermark)?;
            self.show_files(Some(&buffer));
        }
        Ok(())
    }

    fn is_buffered(&self, start: &[u8], end: &[u8]) -> bool {
        if start >= end {
            return false;
        }
        let bounds = (Bound::Included(BufferKey::new(start)), Bound::Excluded(BufferKey::new(end)));
        let standing = self.layers.read();
        standing.of_reader(LATEST).any(|buffer| {
            let mut found = VecDeque::new();
            buffer.read((&bounds.0, &bounds.1), LATEST, End::Front, 1, &mut found);
            !found.is_empty()
        })
    }

    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = TreeItem>,
        watermark: SeqNo,
    ) -> Result<(), TreeError> {
        self.forget_before(watermark);
        if self.files.l0_run_count() >= UNSORTED_RUNS_MAX {
            return Err(TreeError::Io(Arc::new(too_many_runs())));
        }
        let (seqno, mut courtesy) = (self.seqno.next(), Courtesy::default());
        let (mut failure, mut marks) = (None, Vec::new());
        let items = pairs.map(|pair| {
            courtesy.on_row();
            match pair {
                Ok((key, value)) => {
                    note_mark(&key, &mut marks);
                    if marks.len() >= MARKS_PER_CHANGE {
                        let some = std::mem::take(&mut marks);
                        self.change_traces(|traces| traces.with(some));
                    }
                    Ok(InternalValue::from_components(key, value, seqno, ValueType::Value))
                }
                Err(error) => {
                    failure = Some(error);
                    Err(lsm_tree::Error::Unrecoverable)
                }
            }
        });
        let written = self.write_files(items, watermark);
        match failure {
            Some(error) => return Err(error),
            None => written?,
        }
        // Before the files are shown.
        self.change_traces(|traces| traces.with(marks));
        self.show_files(None);
        Ok(())
    }

    fn compact(&self, watermark: SeqNo) -> Result<bool, TreeError> {
        self.forget_before(watermark);
        let before = self.shape();
        let strategy = Arc::clone(&self.strategy);
        let _not_beside_all = self.merging_all.read();
        self.merge(|| self.files.compact(strategy, watermark))?;
        let has_changed = self.shape() != before;
        if has_changed {
            self.show_files(None);
        }
        Ok(has_changed)
    }

    fn compact_all(&self, watermark: SeqNo) -> Result<(), TreeError> {
        self.forget_before(watermark);
        let _alone = self.merging_all.write();
        self.merge(|| self.files.major_compact(FILE_BYTES, watermark))?;
        self.show_files(None);
        Ok(())
    }

    fn release(&self, watermark: SeqNo) -> Result<(), TreeError> {
        // The library forgets old manifests and their files when the next one is made; this one is the
        // same as the last, with no new file.
        self.forget_before(watermark);
        self.files.register_tables(&[], None, None, &[], watermark).map_err(tree_error)
    }

    fn disk_bytes(&self) -> u64 {
        self.files.disk_space()
    }

    fn key_count(&self) -> u64 {
        (self.files.approximate_len() + self.layers.read().key_count()) as u64
    }

    fn learn(&self, goes_on: &dyn Fn() -> bool) -> Result<(), TreeError> {
        let is_wanted = {
            let standing = self.layers.read();
            standing.traces.is_unlearned() && standing.key_count() > 0
        };
        if !is_wanted {
            return Ok(());
        }
        if self.disk_bytes() > LEARNED_BYTES_MAX {
            self.change_traces(Traces::given_up);
            return Ok(());
        }
        self.learn_files(goes_on).map_err(|error| {
            self.change_traces(Traces::given_up);
            tree_error(error)
        })
    }

    fn unsorted_runs(&self) -> usize {
        self.files.l0_run_count()
    }

    fn counter(&self) -> SequenceNumberCounter {
        self.seqno.clone()
    }
}
