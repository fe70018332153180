//! The indexes of one table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use types::TableId;

use super::shape::IndexShape;
use super::tree::{Beside, BuildState, IndexTree, remove_strangers};
use crate::error::TreeError;
use crate::tree::keys::SPACE_ROWS;
use tree::engine::{LATEST, SeqNo, SortedTree};

/// The opened indexes of a table. Changed while no change is applied; a table without any is asked
/// one flag.
#[derive(Debug, Default)]
pub(crate) struct IndexSet {
    has_any: AtomicBool,
    trees: ArcSwap<Vec<Arc<IndexTree>>>,
}

/// Where the table has no rows an index is built as soon as it begins.
fn begin(index: &IndexTree, table_tree: &dyn SortedTree) -> Result<(), TreeError> {
    if !index.is_built() {
        let first = table_tree.range(&[SPACE_ROWS], &[SPACE_ROWS + 1], LATEST).next();
        if first.transpose()?.is_none() {
            let state = BuildState { is_built: true, ..BuildState::default() };
            index.save_state(state, table_tree.draw_seqno());
        }
    }
    Ok(())
}

impl IndexSet {
    /// Opens all indexes of a table.
    pub(crate) fn open(
        shapes: &[Arc<IndexShape>],
        beside: Beside<'_>,
    ) -> Result<IndexSet, TreeError> {
        remove_strangers(beside, shapes).map_err(|error| TreeError::Io(Arc::new(error)))?;
        let set = IndexSet::default();
        for shape in shapes {
            let index = IndexTree::open(shape, beside)?;
            set.attach(Arc::new(index), beside.table_tree)?;
        }
        Ok(set)
    }

    /// Adds an index. The caller keeps changes from being applied. Where the table has no rows there
    /// is nothing to build.
    pub(crate) fn attach(
        &self,
        index: Arc<IndexTree>,
        table_tree: &dyn SortedTree,
    ) -> Result<(), TreeError> {
        begin(&index, table_tree)?;
        let mut trees = self.trees.load().as_ref().clone();
        trees.push(index);
        self.replace(trees);
        Ok(())
    }

    /// Takes an index away; its files go when nobody reads them any more.
    pub(crate) fn detach(&self, id: TableId) {
        let mut trees = self.trees.load().as_ref().clone();
        trees.retain(|index| {
            let is_it = index.shape.id == id;
            if is_it {
                index.mark_dropped();
            }
            !is_it
        });
        self.replace(trees);
    }

    /// Puts an index in the place of a damaged one of the same name. The caller keeps changes from being
    /// applied.
    pub(crate) fn exchange(
        &self,
        index: Arc<IndexTree>,
        table_tree: &dyn SortedTree,
    ) -> Result<(), TreeError> {
        begin(&index, table_tree)?;
        // In one step: nobody finds the table without it meanwhile.
        let mut trees = self.trees.load().as_ref().clone();
        for tree in trees.iter_mut().filter(|tree| tree.shape.id == index.shape.id) {
            tree.mark_dropped();
            *tree = Arc::clone(&index);
        }
        self.replace(trees);
        Ok(())
    }

    fn replace(&self, trees: Vec<Arc<IndexTree>>) {
        self.has_any.store(!trees.is_empty(), Ordering::Release);
        self.trees.store(Arc::new(trees));
    }

    /// All of them; `None` for most tables.
    pub(crate) fn any(&self) -> Option<Arc<Vec<Arc<IndexTree>>>> {
        self.has_any.load(Ordering::Acquire).then(|| self.trees.load_full())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<IndexTree>>> {
        self.trees.load_full()
    }

    pub(crate) fn get(&self, id: TableId) -> Option<Arc<IndexTree>> {
        self.any()?.iter().find(|index| index.shape.id == id).cloned()
    }

    /// The index, if it can answer.
    pub(crate) fn built(&self, id: TableId) -> Option<Arc<IndexTree>> {
        self.get(id).filter(|index| index.is_built())
    }

    /// Freezes their memtables. The caller keeps changes from being applied, and freezes the
    /// table's in the same moment.
    pub(crate) fn seal(&self) {
        for index in self.all().iter() {
            index.tree.seal();
        }
    }

    /// Writes what is frozen into sorted files: before the table does (see the crash rule).
    pub(crate) fn flush(&self, watermark: SeqNo) -> Result<(), TreeError> {
        self.all().iter().try_for_each(|index| index.flush(watermark))
    }

    /// Merges sorted files where there are too many; `true` if something was done.
    pub(crate) fn compact(&self, watermark: SeqNo) -> Result<bool, TreeError> {
        let mut is_changed = false;
        self.compact_each(|index| {
            is_changed |= index.tree.compact(watermark)?;
            Ok(())
        })?;
        Ok(is_changed)
    }

    /// A damaged one does not keep the others, or the table, from being compacted.
    fn compact_each(
        &self,
        mut compact: impl FnMut(&IndexTree) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let is_of_use = |index: &&Arc<IndexTree>| !index.is_dropped() && !index.is_condemned();
        for index in self.all().iter().filter(is_of_use) {
            match compact(index) {
                Err(error @ TreeError::Corrupt(_)) => index.condemn(&error),
                other => other?,
            }
        }
        Ok(())
    }

    /// Merges all sorted files of each, without entries whose end has passed.
    pub(crate) fn compact_all(&self, watermark: SeqNo) -> Result<(), TreeError> {
        self.compact_each(|index| index.tree.compact_all(watermark))
    }

    /// Lets go of the files that compactions replaced.
    pub(crate) fn release(&self, watermark: SeqNo) -> Result<(), TreeError> {
        self.compact_each(|index| index.tree.release(watermark))
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.all().iter().map(|index| index.tree.disk_bytes()).sum()
    }

    pub(crate) fn unsorted_runs(&self) -> usize {
        self.all().iter().map(|index| index.tree.unsorted_runs()).max().unwrap_or(0)
    }
}
