//! Where trees are kept: folders of sorted files, or memory that outlives a simulated crash.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::SequenceNumberCounter;

use crate::TreeError;
use crate::engine::{LsmTree, SortedTree, TreeShared};
use crate::files::{FileDamage, read_manifest};
use crate::folder::{MARKER, establish, is_established, sync_folder};
use crate::sieve::Sieve;

/// A folder's name while it is being removed ends so.
const GONE: &str = "gone";

/// Where trees are kept. A tree is *established* once it was flushed: from then on the log relies on it, and one that
/// is not is forgotten at the next start.
pub trait TreeHome: Send + Sync + fmt::Debug {
    /// The folders within a folder, in order. What was being removed when the node stopped is gone then.
    fn folders(&self, within: &Path) -> io::Result<Vec<PathBuf>>;
    fn is_established(&self, folder: &Path) -> bool;
    /// From now on the log relies on the tree in that folder. Lasting.
    fn establish(&self, folder: &Path) -> Result<(), TreeError>;
    /// The next start is to forget the tree in that folder.
    fn unestablish(&self, folder: &Path) -> io::Result<()>;
    /// Looks whether everything that an established tree needs is there.
    fn verify(&self, folder: &Path) -> Result<(), FileDamage>;
    /// Opens the tree in a folder, or begins one. `counter`: its sequence numbers are those of another tree.
    fn open(
        &self,
        folder: &Path,
        sieve: Option<Arc<dyn Sieve>>,
        counter: Option<SequenceNumberCounter>,
    ) -> Result<Box<dyn SortedTree>, TreeError>;
    /// Removes a tree at once: a crash or a loss of power leaves all of it or nothing.
    fn remove(&self, folder: &Path) -> io::Result<()>;
    /// Makes the folders within a folder last.
    fn sync(&self, within: &Path) -> io::Result<()>;
}

/// Folders of sorted files.
#[derive(Debug)]
pub struct FileHome {
    shared: TreeShared,
}

impl FileHome {
    pub fn new(block_cache_bytes: u64, open_files_max: usize) -> FileHome {
        FileHome { shared: TreeShared::new(block_cache_bytes, open_files_max) }
    }
}

impl TreeHome for FileHome {
    fn folders(&self, within: &Path) -> io::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(within)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == GONE) {
                fs::remove_dir_all(&path)?;
            } else {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders)
    }

    fn is_established(&self, folder: &Path) -> bool {
        is_established(folder)
    }

    fn establish(&self, folder: &Path) -> Result<(), TreeError> {
        establish(folder)?;
        match folder.parent() {
            Some(parent) => sync_folder(parent).map_err(|error| TreeError::Io(Arc::new(error))),
            None => Ok(()),
        }
    }

    fn unestablish(&self, folder: &Path) -> io::Result<()> {
        match fs::remove_file(folder.join(MARKER)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn verify(&self, folder: &Path) -> Result<(), FileDamage> {
        for file in read_manifest(folder)? {
            if !file.path.exists() {
                let what = "a sorted file is missing".to_owned();
                return Err(FileDamage { path: file.path, offset: 0, what });
            }
        }
        Ok(())
    }

    fn open(
        &self,
        folder: &Path,
        sieve: Option<Arc<dyn Sieve>>,
        counter: Option<SequenceNumberCounter>,
    ) -> Result<Box<dyn SortedTree>, TreeError> {
        if !folder.exists() {
            self.shared.create(folder)?;
        }
        let tree = match counter {
            Some(counter) => LsmTree::open_beside(folder, &self.shared, sieve, counter)?,
            None => LsmTree::open(folder, &self.shared, sieve)?,
        };
        Ok(Box::new(tree))
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        let gone = folder.with_extension(GONE);
        let _ = fs::remove_dir_all(&gone);
        match fs::rename(folder, &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed?,
        }
        if let Some(parent) = folder.parent() {
            sync_folder(parent)?;
        }
        fs::remove_dir_all(&gone)
    }

    fn sync(&self, within: &Path) -> io::Result<()> {
        sync_folder(within)
    }
}
