//! The folder of a tree: what makes it lasting, and the files of a tree without rows.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use lsm_tree::{Config, SequenceNumberCounter};

use crate::TreeError;
use crate::engine::tree_error;

/// Stands in the folder of a tree that was flushed: from then on the log relies on it.
pub const MARKER: &str = "helenus";
/// What the library calls the folder of its sorted files.
pub const FILES_FOLDER: &str = "tables";

/// Whether a folder holds a tree that the log relies on.
pub fn is_established(folder: &Path) -> bool {
    folder.join(MARKER).exists()
}

/// From now on the log relies on this tree. Lasting.
pub fn establish(folder: &Path) -> Result<(), TreeError> {
    // The marker last: where it is, everything else is.
    let made = sync_files(folder)
        .and_then(|()| sync_folder(&folder.join(FILES_FOLDER)))
        .and_then(|()| sync_folder(folder))
        .and_then(|()| File::create(folder.join(MARKER)))
        .and_then(|file| file.sync_all())
        .and_then(|()| sync_folder(folder));
    made.map_err(|error| TreeError::Io(Arc::new(error)))
}

/// Makes the files right in a folder last.
fn sync_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(())
}

/// Makes names in a folder last.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The files of a tree without rows. The library syncs half a dozen times to make them; a copy needs
/// no sync, because a folder without [`MARKER`] is made anew after a crash.
#[derive(Debug)]
pub(crate) struct EmptyTree {
    files: Vec<(OsString, Vec<u8>)>,
}

impl EmptyTree {
    /// Has the library make one, and remembers its files.
    pub(crate) fn make(folder: &Path) -> Result<EmptyTree, TreeError> {
        let of_io = |error| TreeError::Io(Arc::new(error));
        let _ = fs::remove_dir_all(folder);
        let seqno = SequenceNumberCounter::default;
        let tree = Config::new(folder, seqno(), seqno()).open().map_err(tree_error)?;
        drop(tree);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(of_io)? {
            let entry = entry.map_err(of_io)?;
            if entry.file_type().map_err(of_io)?.is_file() {
                files.push((entry.file_name(), fs::read(entry.path()).map_err(of_io)?));
            }
        }
        fs::remove_dir_all(folder).map_err(of_io)?;
        Ok(EmptyTree { files })
    }

    pub(crate) fn copy_to(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder.join(FILES_FOLDER))?;
        for (name, bytes) in &self.files {
            File::create(folder.join(name))?.write_all(bytes)?;
        }
        Ok(())
    }
}
