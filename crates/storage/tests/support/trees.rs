//! Trees in memory that do as a test says: fail, or lag behind.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use tree::engine::{SeqNo, SortedTree, TreeBytes, TreeItem, TreeIter};
use tree::files::FileDamage;
use tree::{MemoryHome, SequenceNumberCounter, Sieve, TreeError, TreeHome};

#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// What comes past memory fails so; nothing fails with zero.
    pub(crate) ingest_errno: AtomicI32,
    /// What trees say of their runs, until the next merge.
    pub(crate) unsorted_runs: AtomicUsize,
    pub(crate) merges: AtomicUsize,
}

#[derive(Debug, Default)]
pub(crate) struct OrderedHome {
    pub(crate) home: MemoryHome,
    pub(crate) orders: Arc<Orders>,
}

impl TreeHome for OrderedHome {
    fn folders(&self, within: &Path) -> io::Result<Vec<PathBuf>> {
        self.home.folders(within)
    }

    fn is_established(&self, folder: &Path) -> bool {
        self.home.is_established(folder)
    }

    fn establish(&self, folder: &Path) -> Result<(), TreeError> {
        self.home.establish(folder)
    }

    fn unestablish(&self, folder: &Path) -> io::Result<()> {
        self.home.unestablish(folder)
    }

    fn verify(&self, folder: &Path) -> Result<(), FileDamage> {
        self.home.verify(folder)
    }

    fn open(
        &self,
        folder: &Path,
        sieve: Option<Arc<dyn Sieve>>,
        counter: Option<SequenceNumberCounter>,
    ) -> Result<Box<dyn SortedTree>, TreeError> {
        let tree = self.home.open(folder, sieve, counter)?;
        Ok(Box::new(OrderedTree { tree, orders: Arc::clone(&self.orders) }))
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        self.home.remove(folder)
    }

    fn sync(&self, within: &Path) -> io::Result<()> {
        self.home.sync(within)
    }
}

#[derive(Debug)]
struct OrderedTree {
    tree: Box<dyn SortedTree>,
    orders: Arc<Orders>,
}

impl SortedTree for OrderedTree {
    fn get(&self, key: &[u8], seqno: SeqNo) -> Result<Option<TreeBytes>, TreeError> {
        self.tree.get(key, seqno)
    }

    fn may_hold(&self, start: &[u8]) -> bool {
        self.tree.may_hold(start)
    }

    fn range(&self, start: &[u8], end: &[u8], seqno: SeqNo) -> TreeIter {
        self.tree.range(start, end, seqno)
    }

    fn write_over(
        &self,
        key: &[u8],
        value: Option<TreeBytes>,
        seqno: SeqNo,
        readers_from: SeqNo,
    ) -> i64 {
        self.tree.write_over(key, value, seqno, readers_from)
    }

    fn insert(&self, key: &[u8], value: TreeBytes, seqno: SeqNo) -> u64 {
        self.tree.insert(key, value, seqno)
    }

    fn remove(&self, key: &[u8], seqno: SeqNo) -> u64 {
        self.tree.remove(key, seqno)
    }

    fn next_seqno(&self) -> SeqNo {
        self.tree.next_seqno()
    }

    fn draw_seqno(&self) -> SeqNo {
        self.tree.draw_seqno()
    }

    fn seal(&self) -> bool {
        self.tree.seal()
    }

    fn flush(&self, watermark: SeqNo) -> Result<(), TreeError> {
        self.tree.flush(watermark)
    }

    fn is_buffered(&self, start: &[u8], end: &[u8]) -> bool {
        self.tree.is_buffered(start, end)
    }

    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = TreeItem>,
        watermark: SeqNo,
    ) -> Result<(), TreeError> {
        match self.orders.ingest_errno.load(Ordering::Relaxed) {
            0 => self.tree.ingest(pairs, watermark),
            errno => Err(TreeError::Io(Arc::new(io::Error::from_raw_os_error(errno)))),
        }
    }

    fn compact(&self, watermark: SeqNo) -> Result<bool, TreeError> {
        let runs = self.orders.unsorted_runs.swap(0, Ordering::Relaxed);
        self.orders.merges.fetch_add(1, Ordering::Relaxed);
        Ok(self.tree.compact(watermark)? | (runs > 0))
    }

    fn compact_all(&self, watermark: SeqNo) -> Result<(), TreeError> {
        self.tree.compact_all(watermark)
    }

    fn release(&self, watermark: SeqNo) -> Result<(), TreeError> {
        self.tree.release(watermark)
    }

    fn disk_bytes(&self) -> u64 {
        self.tree.disk_bytes()
    }

    fn key_count(&self) -> u64 {
        self.tree.key_count()
    }

    fn learn(&self, goes_on: &dyn Fn() -> bool) -> Result<(), TreeError> {
        self.tree.learn(goes_on)
    }

    fn unsorted_runs(&self) -> usize {
        self.orders.unsorted_runs.load(Ordering::Relaxed).max(self.tree.unsorted_runs())
    }

    fn counter(&self) -> SequenceNumberCounter {
        self.tree.counter()
    }
}
