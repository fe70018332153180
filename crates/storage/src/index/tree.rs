//! One index on the disk: its tree, and how far it was built.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use types::TableId;

use super::keys::{EntryValue, SPACE_ENTRIES, SPACE_STATE};
use super::shape::IndexShape;
use crate::error::TreeError;
use crate::tree::purge::PurgeFactory;
use tree::engine::{LATEST, SeqNo, SortedTree, TreeBytes};
use tree::folder::is_established;
use tree::{Kept, Sieve, Sieving, TreeHome};

const FOLDER_PREFIX: &str = "index-";

/// The folders of the indexes of a table that hold something.
pub(crate) fn index_folders(table_folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(table_folder)? {
        let entry = entry?;
        let is_index =
            entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDER_PREFIX));
        if is_index && is_established(&entry.path()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

const STATE_VERSION: u8 = 1;

/// How far an index was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildState {
    pub(crate) is_built: bool,
    /// Rows that were looked at.
    pub(crate) row_count: u64,
    pub(crate) started_s: u32,
    pub(crate) finished_s: u32,
    /// Where in the table's tree to go on.
    pub(crate) position: Vec<u8>,
}

impl BuildState {
    pub(crate) fn encode(&self) -> TreeBytes {
        let mut out = vec![STATE_VERSION, u8::from(self.is_built)];
        out.extend_from_slice(&self.row_count.to_be_bytes());
        out.extend_from_slice(&self.started_s.to_be_bytes());
        out.extend_from_slice(&self.finished_s.to_be_bytes());
        out.extend_from_slice(&self.position);
        TreeBytes::from(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<BuildState> {
        let ([version, is_built], rest) = bytes.split_first_chunk::<2>()?;
        let (row_count, rest) = rest.split_first_chunk::<8>()?;
        let (started_s, rest) = rest.split_first_chunk::<4>()?;
        let (finished_s, position) = rest.split_first_chunk::<4>()?;
        (*version == STATE_VERSION && *is_built <= 1).then(|| BuildState {
            is_built: *is_built == 1,
            row_count: u64::from_be_bytes(*row_count),
            started_s: u32::from_be_bytes(*started_s),
            finished_s: u32::from_be_bytes(*finished_s),
            position: position.to_vec(),
        })
    }
}

/// An opened index. Its files go with the last who uses it, once it was dropped.
pub(crate) struct IndexTree {
    pub(crate) shape: IndexShape,
    pub(crate) tree: Box<dyn SortedTree>,
    home: Arc<dyn TreeHome>,
    folder: PathBuf,
    is_established: AtomicBool,
    is_built: AtomicBool,
    is_dropped: AtomicBool,
    is_condemned: AtomicBool,
    state: Mutex<BuildState>,
}

impl fmt::Debug for IndexTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexTree").field("name", &self.shape.name).finish_non_exhaustive()
    }
}

impl Drop for IndexTree {
    fn drop(&mut self) {
        if !self.is_dropped() {
            return;
        }
        if let Err(error) = self.home.remove(&self.folder) {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "the files of an index could not be removed");
        }
    }
}

/// Whether a folder within that of a table is an index.
pub(crate) fn is_index_folder(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(FOLDER_PREFIX))
}

/// The folder of an index within that of its table. One that was damaged while it was in use has a
/// successor in a folder of its own, with a number behind the name.
fn folder_of(table_folder: &Path, index: TableId, generation: u32) -> PathBuf {
    table_folder.join(match generation {
        0 => format!("{FOLDER_PREFIX}{:032x}", index.0),
        _ => format!("{FOLDER_PREFIX}{:032x}-{generation}", index.0),
    })
}

/// Which index a folder is of, and the how manieth.
fn parse_folder(path: &Path) -> Option<(TableId, u32)> {
    let name = path.file_name()?.to_str()?.strip_prefix(FOLDER_PREFIX)?;
    let (id, generation) = match name.split_once('-') {
        Some((id, generation)) => (id, generation.parse().ok()?),
        None => (name, 0),
    };
    Some((TableId(u128::from_str_radix(id, 16).ok()?), generation))
}

/// The folders of one index, the newest last.
fn generations(beside: Beside<'_>, index: TableId) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for folder in beside.home.folders(beside.table_folder)? {
        match parse_folder(&folder) {
            Some((id, generation)) if id == index => found.push(generation),
            _ => {}
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes the folders of indexes that are not defined any more.
pub(crate) fn remove_strangers(beside: Beside<'_>, known: &[Arc<IndexShape>]) -> io::Result<()> {
    for path in beside.home.folders(beside.table_folder)? {
        let is_known =
            parse_folder(&path).is_some_and(|(id, _)| known.iter().any(|shape| shape.id == id));
        if is_index_folder(&path) && !is_known {
            beside.home.remove(&path)?;
        }
    }
    Ok(())
}

/// What an index is opened with: its table's folder, the table's tree, whose counter it shares, and
/// what all trees share.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'t> {
    pub(crate) table_folder: &'t Path,
    pub(crate) table_tree: &'t dyn SortedTree,
    pub(crate) home: &'t Arc<dyn TreeHome>,
    pub(crate) purge: &'t Arc<PurgeFactory>,
}

impl IndexTree {
    /// Opens an index, or begins it. What cannot be read is begun anew: an index can always be built
    /// again.
    pub(crate) fn open(shape: &IndexShape, beside: Beside<'_>) -> Result<IndexTree, TreeError> {
        let of_io = |error| TreeError::Io(Arc::new(error));
        let mut kept = None;
        for generation in generations(beside, shape.id).map_err(of_io)? {
            let folder = folder_of(beside.table_folder, shape.id, generation);
            if !beside.home.is_established(&folder) {
                beside.home.remove(&folder).map_err(of_io)?;
            } else if let Some(older) = kept.replace(folder) {
                beside.home.remove(&older).map_err(of_io)?;
            }
        }
        let folder = kept.unwrap_or_else(|| folder_of(beside.table_folder, shape.id, 0));
        match IndexTree::open_folder(shape, beside, &folder) {
            Err(TreeError::Corrupt(what)) => {
                tracing::error!(index = %shape.name, %what, "an index is damaged; it is built anew");
                beside.home.remove(&folder).map_err(of_io)?;
                IndexTree::open_folder(shape, beside, &folder)
            }
            other => other,
        }
    }

    /// Begins an index in a new folder, to take the place of one that is in use.
    pub(crate) fn begin_anew(
        shape: &IndexShape,
        beside: Beside<'_>,
    ) -> Result<IndexTree, TreeError> {
        let of_io = |error| TreeError::Io(Arc::new(error));
        let newest = generations(beside, shape.id).map_err(of_io)?.pop();
        let next = newest.map_or(0, |newest| newest.saturating_add(1));
        let folder = folder_of(beside.table_folder, shape.id, next);
        IndexTree::open_folder(shape, beside, &folder)
    }

    fn open_folder(
        shape: &IndexShape,
        beside: Beside<'_>,
        folder: &Path,
    ) -> Result<IndexTree, TreeError> {
        let sieve = Arc::new(ExpirySieve { purge: Arc::clone(beside.purge) });
        let counter = beside.table_tree.counter();
        let tree = beside.home.open(folder, Some(sieve), Some(counter))?;
        let state = match tree.get(&[SPACE_STATE], LATEST)? {
            Some(bytes) => BuildState::decode(&bytes)
                .ok_or_else(|| TreeError::Corrupt("the state of an index".into()))?,
            None => BuildState::default(),
        };
        Ok(IndexTree {
            shape: shape.clone(),
            tree,
            home: Arc::clone(beside.home),
            is_established: AtomicBool::new(beside.home.is_established(folder)),
            folder: folder.to_path_buf(),
            is_built: AtomicBool::new(state.is_built),
            is_dropped: AtomicBool::new(false),
            is_condemned: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// Whether it has everything.
    pub(crate) fn is_built(&self) -> bool {
        self.is_built.load(Ordering::Acquire)
    }

    pub(crate) fn mark_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// Its files are damaged: nobody is answered from it any more. The builder puts another one in its
    /// place, or, if it does not come to that, the next start.
    pub(crate) fn condemn(&self, error: &TreeError) {
        if self.is_condemned.swap(true, Ordering::AcqRel) {
            return;
        }
        self.is_built.store(false, Ordering::Release);
        *self.state.lock() = BuildState::default();
        let name = &self.shape.name;
        tracing::error!(index = %name, %error, "an index is damaged; it is built anew");
        if let Err(error) = self.home.unestablish(&self.folder) {
            tracing::error!(index = %name, %error, "a damaged index could not be marked");
        }
    }

    /// Whether it was found to be damaged.
    pub(crate) fn is_condemned(&self) -> bool {
        self.is_condemned.load(Ordering::Acquire)
    }

    /// How far it was built, as it is now in memory.
    pub(crate) fn state(&self) -> BuildState {
        self.state.lock().clone()
    }

    /// Notes how far it was built; kept with the entries before it. Returns by how many bytes memory
    /// grew. The caller keeps changes from being applied.
    pub(crate) fn save_state(&self, state: BuildState, seqno: SeqNo) -> u64 {
        let bytes = self.tree.insert(&[SPACE_STATE], state.encode(), seqno);
        self.show_state(state);
        bytes
    }

    /// Notes how far it was built, to be seen.
    pub(crate) fn show_state(&self, state: BuildState) {
        let is_built = state.is_built && !self.is_condemned();
        *self.state.lock() = state;
        self.is_built.store(is_built, Ordering::Release);
    }

    /// Writes what is frozen into sorted files.
    pub(crate) fn flush(&self, watermark: SeqNo) -> Result<(), TreeError> {
        if self.is_dropped() {
            return Ok(());
        }
        self.tree.flush(watermark)?;
        if !self.is_established.load(Ordering::Acquire) && !self.is_condemned() {
            self.home.establish(&self.folder)?;
            self.is_established.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// Drops entries whose end has passed.
#[derive(Debug)]
struct ExpirySieve {
    purge: Arc<PurgeFactory>,
}

impl Sieve for ExpirySieve {
    fn begin(&self) -> Box<dyn Sieving> {
        Box::new(ExpirySieving { horizon_s: self.purge.horizon_s() })
    }
}

struct ExpirySieving {
    horizon_s: u32,
}

impl Sieving for ExpirySieving {
    fn is_judged(&mut self, key: &[u8]) -> bool {
        key.first() == Some(&SPACE_ENTRIES)
    }

    fn judge(&mut self, _: &[u8], value: &[u8]) -> Kept {
        match EntryValue::decode(value).and_then(|entry| entry.expires_at_s) {
            Some(expires_at_s) if expires_at_s < self.horizon_s => Kept::Nothing,
            Some(_) | None => Kept::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_as_they_are_named() {
        let table = Path::new("table");
        for generation in [0, 1, 12] {
            let folder = folder_of(table, TableId(0xabc), generation);
            assert!(is_index_folder(&folder));
            assert_eq!(parse_folder(&folder), Some((TableId(0xabc), generation)));
        }
        for other in ["tables", "index-", "index-xyz", "index-0-x"] {
            assert_eq!(parse_folder(&table.join(other)), None);
        }
    }

    #[test]
    fn the_state_of_a_build_comes_back() {
        let state = BuildState {
            is_built: true,
            row_count: 7,
            started_s: 8,
            finished_s: 9,
            position: b"position".to_vec(),
        };
        let bytes = state.encode();
        assert_eq!(BuildState::decode(&bytes), Some(state));
        for length in 0..18 {
            assert_eq!(BuildState::decode(&bytes[..length]), None);
        }
    }
}
