//! Brings what can be read of a damaged data folder into a fresh one. The original is only read.
//!
//! Trees that are whole are copied. Of a damaged tree every good block is read, whichever file it is
//! in, and its entries go into a new tree with their sequence numbers, so that the newest version of
//! each row that is left wins. Then every readable record of the log is applied, also behind damage.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::check::{Finding, TreeFolder, of_open_error, tree_folders};
use crate::clock::Clock;
use crate::data_dir::{DataDir, sync_folder};
use crate::error::{Affected, OpenError, TreeError};
use crate::index::tree::is_index_folder;
use crate::options::Options;
use crate::schema_source::SchemaSource;
use crate::storage::Storage;
use node_log::{Disk, ReadOnlyDisk};
use tree::engine::{LATEST, LsmTree, SortedTree, TreeShared};
use tree::files::{FileDamage, read_manifest, salvage_entries, verify_file};
use tree::folder::{FILES_FOLDER, establish};

/// A new tree is flushed when this much of it is in memory.
const FLUSH_BYTES: u64 = 32 * 1024 * 1024;

/// What was saved, and what was not.
#[derive(Clone, Debug, Default)]
pub struct SalvageReport {
    /// Documents that were copied.
    pub document_count: u64,
    /// Trees that were whole and were copied.
    pub copied_trees: u64,
    /// Trees that were put together anew from their good blocks.
    pub rebuilt_trees: u64,
    /// Entries in those.
    pub rebuilt_entries: u64,
    /// Changes of the log that were applied again.
    pub change_count: u64,
    /// What could not be read.
    pub lost: Vec<Finding>,
}

/// Saves what can be read of `from` into `to`, which is empty. `schema` knows what the document of the
/// schema says. `on_bytes` hears how many bytes of sorted files were read.
pub fn salvage(
    from: &DataDir,
    to: DataDir,
    options: Options,
    schema: Arc<dyn SchemaSource>,
    clock: Arc<dyn Clock>,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<SalvageReport, OpenError> {
    let mut report = SalvageReport::default();
    for name in from.document_names()? {
        match from.load_document(&name) {
            Ok(Some(bytes)) => {
                to.save_document(&name, &bytes).map_err(OpenError::io(to.path()))?;
                report.document_count += 1;
            }
            Ok(None) => {}
            Err(error) => {
                report.lost.push(of_open_error(from, error, Affected::Document(name)));
            }
        }
    }
    for name in from.slots_names()? {
        match from.load_slots(&name) {
            Ok(records) => {
                let saved = to.open_slots(&name)?;
                for (number, record) in (0..).zip(&records) {
                    saved.put(number, record).map_err(OpenError::io(to.path()))?;
                }
                report.document_count += 1;
            }
            Err(error) => {
                report.lost.push(of_open_error(from, error, Affected::Document(name)));
            }
        }
    }
    let shared = TreeShared::new(options.block_cache_bytes, options.open_files_max);
    for tree in tree_folders(&from.trees_folder())? {
        save_tree(&tree, &to, &shared, &mut report, on_bytes)?;
    }
    sync_folder(&to.trees_folder()).map_err(OpenError::io(to.trees_folder()))?;
    let log: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new(from.log_folder()));
    let (storage, survey, change_count) = Storage::adopt(to, &log, options, schema, clock)?;
    report.change_count = change_count;
    report.lost.extend(survey.gaps.into_iter().map(|gap| Finding {
        path: gap.path,
        offset: gap.offset,
        what: format!("{} ({} bytes)", gap.what, gap.bytes),
        affected: Affected::Log,
    }));
    let to = storage.data_dir().path().to_owned();
    storage
        .close()
        .map_err(|error| OpenError::Io { path: to, error: io::Error::other(error.to_string()) })?;
    Ok(report)
}

fn save_tree(
    tree: &TreeFolder,
    to: &DataDir,
    shared: &TreeShared,
    report: &mut SalvageReport,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), OpenError> {
    let Some(name) = tree.path.file_name() else { return Ok(()) };
    let target = to.trees_folder().join(name);
    let damage: Vec<FileDamage> = match read_manifest(&tree.path) {
        Ok(files) => files.iter().flat_map(|file| verify_file(file, on_bytes)).collect(),
        Err(damage) => vec![damage],
    };
    if damage.is_empty() {
        copy_folder(&tree.path, &target).map_err(OpenError::io(&target))?;
        report.copied_trees += 1;
        return Ok(());
    }
    report.lost.extend(damage.into_iter().map(|bad| Finding::of_table(tree.table, bad)));
    let of_tree = |error| OpenError::Tree { table: tree.table, error };
    report.rebuilt_entries += rebuild(&tree.path, &target, shared).map_err(of_tree)?;
    report.rebuilt_trees += 1;
    Ok(())
}

/// Copies a folder of files and of folders of files, lasting.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if is_index_folder(&entry.path()) {
            // It may know records of the log that are lost. The next start builds it anew.
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    sync_folder(to)
}

/// Puts every entry of every good block of every sorted file into a new tree.
fn rebuild(from: &Path, to: &Path, shared: &TreeShared) -> Result<u64, TreeError> {
    let of_io = |error| TreeError::Io(Arc::new(error));
    shared.create(to)?;
    let tree = LsmTree::open(to, shared, None)?;
    let scratch = to.with_extension("scratch");
    let mut count = 0;
    let mut bytes = 0;
    for file in fs::read_dir(from.join(FILES_FOLDER)).map_err(of_io)? {
        let path = file.map_err(of_io)?.path();
        let mut entries = 0;
        let saved = salvage_entries(&path, &scratch, &mut |entry| {
            entries += 1;
            bytes += match entry.value {
                Some(value) => tree.insert(&entry.key, value, entry.seqno),
                None => tree.remove(&entry.key, entry.seqno),
            };
        });
        count += entries;
        if let Err(error) = saved {
            tracing::warn!(%error, path = %path.display(), "no more can be read of a sorted file");
            let _ = fs::remove_file(&scratch);
        }
        if bytes > FLUSH_BYTES {
            tree.seal();
            tree.flush(0)?;
            bytes = 0;
        }
    }
    tree.seal();
    tree.flush(0)?;
    // One run, so that the newest version of each key is found whatever file it came from.
    tree.compact_all(LATEST)?;
    drop(tree);
    establish(to)?;
    Ok(count)
}
