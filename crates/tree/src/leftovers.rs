//! What failed work leaves among the sorted files. The library removes it at the next start only, and a disk that was nearly
//! full would stay full of it.
//!
//! Flushes, merges and what comes past memory run beside each other, and a file that is being made is in no manifest, like one that
//! was left. So nothing is removed before the last of those that overlap has ended: then whatever is not known to be wanted was left.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use foldhash::fast::FixedState;
use lsm_tree::{AbstractTree, Tree};
use parking_lot::Mutex;

use crate::files::read_manifest;
use crate::folder::FILES_FOLDER;

type FileNames = HashSet<OsString, FixedState>;

/// What makes sorted files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Puts files in the place of others.
    Merge,
    /// Adds files.
    Write,
}

/// How work ended.
pub(crate) enum Ended {
    Well,
    /// These files were added, and may have been merged away since.
    Added(Vec<OsString>),
    Failed,
    /// The last step failed, for which the manifest is written: whether its files are wanted is not known.
    FailedLast,
}

/// Removes what failed work leaves.
pub(crate) struct Leftovers {
    /// Where the sorted files are.
    tables: PathBuf,
    row: Mutex<Row>,
}

/// Work of which each overlaps with another.
#[derive(Debug, Default)]
struct Row {
    running: usize,
    merging: usize,
    has_merged: bool,
    has_failed: bool,
    /// A file may be wanted that is not among the known ones.
    is_unsure: bool,
    /// Files that were there before, or were in a manifest since: readers may need those that no manifest names any more.
    known: FileNames,
}

impl Leftovers {
    pub(crate) fn new(tree: &Path) -> Leftovers {
        Leftovers { tables: tree.join(FILES_FOLDER), row: Mutex::default() }
    }

    pub(crate) fn begin(&self, work: Work) {
        let mut row = self.row.lock();
        if row.running == 0 {
            *row = Row { known: self.file_names(), ..Row::default() };
        }
        row.running += 1;
        if work == Work::Merge {
            // One of them may merge away what the other has made before that is known.
            row.is_unsure |= row.merging > 0;
            row.merging += 1;
            row.has_merged = true;
        }
    }

    pub(crate) fn end(&self, work: Work, ended: Ended, files: &Tree) {
        let mut row = self.row.lock();
        row.running -= 1;
        row.merging -= usize::from(work == Work::Merge);
        row.has_failed |= matches!(ended, Ended::Failed | Ended::FailedLast);
        match ended {
            Ended::Added(names) => row.known.extend(names),
            Ended::FailedLast if work == Work::Write => row.is_unsure |= row.has_merged,
            Ended::Well | Ended::Failed | Ended::FailedLast => {}
        }
        // The common case, and the cheap one: nobody asks.
        if row.running == 0 && !row.has_failed {
            return;
        }
        row.known.extend(names_in_use(files));
        if row.running == 0 && !row.is_unsure {
            // Nobody begins meanwhile.
            self.remove_unknown(&row.known);
        }
    }

    fn file_names(&self) -> FileNames {
        let entries = fs::read_dir(&self.tables).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    }

    /// Removes what is not known, nor in the manifest on the disk, which is newer than the one in use where work failed with its
    /// last step.
    fn remove_unknown(&self, known: &FileNames) {
        let Some(Ok(on_disk)) = self.tables.parent().map(read_manifest) else { return };
        let named: FileNames =
            on_disk.iter().filter_map(|file| file.path.file_name()).map(OsString::from).collect();
        for name in self.file_names() {
            if known.contains(&name) || named.contains(&name) {
                continue;
            }
            if let Err(error) = fs::remove_file(self.tables.join(&name)) {
                tracing::warn!(%error, file = %self.tables.join(&name).display(), "what failed work left stays");
            }
        }
    }
}

/// The files that the manifest in use names.
fn names_in_use(files: &Tree) -> FileNames {
    let version = files.current_version();
    let runs = version.iter_levels().flat_map(|level| level.iter());
    let tables = runs.flat_map(|run| run.iter());
    tables.map(|table| OsString::from(table.id().to_string())).collect()
}
