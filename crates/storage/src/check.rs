//! Verifies everything in a data folder that no node has open, and changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use types::TableId;
use types::codec::Malformed;

use crate::core::split_folder_name;
use crate::data_dir::DataDir;
use crate::entry::{EntryBody, decode_first_form};
use crate::error::{Affected, OpenError};
use crate::index::tree::is_index_folder;
use node_log::recovery::{Replayed, recover, replay_groups};
use node_log::survey::survey;
use node_log::{Disk, ReadOnlyDisk};
use tree::files::{FileDamage, read_manifest, verify_file};
use tree::folder::{FILES_FOLDER, is_established};

/// One thing that is not as it was written.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which file.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// What cannot be relied on because of it.
    pub affected: Affected,
}

impl Finding {
    pub(crate) fn of_table(table: TableId, damage: FileDamage) -> Finding {
        let FileDamage { path, offset, what } = damage;
        Finding { path, offset, what, affected: Affected::Table(table) }
    }
}

/// What was verified, and what is damaged.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Small documents.
    pub document_count: u64,
    /// Files of the log.
    pub segment_count: u64,
    /// Changes in the log.
    pub change_count: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Trees of tables and indexes.
    pub tree_count: u64,
    /// Sorted files.
    pub file_count: u64,
    /// Bytes of sorted files.
    pub file_bytes: u64,
    /// Bytes at the end of the log that never became durable; the next start cuts them.
    pub torn_bytes: u64,
    /// What is damaged; empty if all is well.
    pub findings: Vec<Finding>,
}

/// A folder of a tree that the log relies on.
#[derive(Debug)]
pub(crate) struct TreeFolder {
    pub(crate) table: TableId,
    pub(crate) path: PathBuf,
}

/// The trees in a folder that the log relies on.
pub(crate) fn tree_folders(folder: &Path) -> Result<Vec<TreeFolder>, OpenError> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(OpenError::io(folder))? {
        let path = entry.map_err(OpenError::io(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(split_folder_name);
        if let Some((table, _)) = name
            && is_established(&path)
        {
            folders.push(TreeFolder { table, path });
        }
    }
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(folders)
}

/// The tree in a folder and those of the indexes beside it.
fn with_indexes(tree: TreeFolder) -> Result<Vec<TreeFolder>, OpenError> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(&tree.path).map_err(OpenError::io(&tree.path))? {
        let path = entry.map_err(OpenError::io(&tree.path))?.path();
        if is_index_folder(&path) && is_established(&path) {
            folders.push(TreeFolder { table: tree.table, path });
        }
    }
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    folders.insert(0, tree);
    Ok(folders)
}

/// All trees in a folder that are verified.
fn verified_folders(folder: &Path) -> Result<Vec<TreeFolder>, OpenError> {
    let folders: Result<Vec<_>, _> = tree_folders(folder)?.into_iter().map(with_indexes).collect();
    Ok(folders?.into_iter().flatten().collect())
}

/// Bytes of all sorted files, for a progress bar.
pub fn sorted_bytes(data_dir: &DataDir) -> Result<u64, OpenError> {
    let mut bytes = 0;
    for tree in verified_folders(&data_dir.trees_folder())? {
        let Ok(files) = fs::read_dir(tree.path.join(FILES_FOLDER)) else { continue };
        bytes +=
            files.flatten().filter_map(|file| file.metadata().ok()).map(|m| m.len()).sum::<u64>();
    }
    Ok(bytes)
}

/// Verifies every document, every record of the log, every manifest and every block of every tree.
/// `on_bytes` hears how many bytes of sorted files were read.
pub fn check(data_dir: &DataDir, on_bytes: &mut dyn FnMut(u64)) -> Result<CheckReport, OpenError> {
    let mut report = CheckReport::default();
    for name in data_dir.document_names()? {
        report.document_count += 1;
        if let Err(error) = data_dir.load_document(&name) {
            report.findings.push(of_open_error(data_dir, error, Affected::Document(name)));
        }
    }
    for name in data_dir.slots_names()? {
        report.document_count += 1;
        if let Err(error) = data_dir.load_slots(&name) {
            report.findings.push(of_open_error(data_dir, error, Affected::Document(name)));
        }
    }
    check_log(data_dir, &mut report)?;
    for tree in verified_folders(&data_dir.trees_folder())? {
        report.tree_count += 1;
        match read_manifest(&tree.path) {
            Ok(files) => {
                for file in files {
                    let mut bytes = 0;
                    let bad = verify_file(&file, &mut |count| {
                        bytes += count;
                        on_bytes(count);
                    });
                    report.file_count += 1;
                    report.file_bytes += bytes;
                    let bad = bad.into_iter().map(|bad| Finding::of_table(tree.table, bad));
                    report.findings.extend(bad);
                }
            }
            Err(bad) => report.findings.push(Finding::of_table(tree.table, bad)),
        }
    }
    Ok(report)
}

fn check_log(data_dir: &DataDir, report: &mut CheckReport) -> Result<(), OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new(data_dir.log_folder()));
    let mut change_count = 0;
    let log = survey(&disk, |replayed| {
        match replayed {
            Replayed::Entries { entries, .. } => {
                change_count += 1;
                for (head, body) in entries {
                    EntryBody::decode(head.kind, body).map_err(|Malformed| MALFORMED.to_owned())?;
                }
            }
            Replayed::Change { entries, body, .. } => {
                change_count += 1;
                decode_first_form(&entries, body).map_err(|Malformed| MALFORMED.to_owned())?;
            }
            Replayed::Truncate { .. } | Replayed::Drop { .. } => {}
        }
        Ok(())
    })?;
    let replayed = replay_groups(&disk, &log.recovered, |replayed| {
        change_count += 1;
        let Replayed::Entries { entries, position } = replayed else { return Ok(()) };
        for (head, body) in entries {
            EntryBody::decode(head.kind, body).map_err(|Malformed| OpenError::Damaged {
                path: data_dir.log_folder(),
                offset: position,
                what: MALFORMED,
                affected: Affected::Log,
            })?;
        }
        Ok(())
    });
    if let Err(error) = replayed {
        report.findings.push(of_open_error(data_dir, error, Affected::Log));
    }
    report.segment_count = log.segment_count;
    report.change_count = change_count;
    report.log_bytes = log.bytes;
    report.torn_bytes = log.recovered.torn_bytes;
    let gaps = log.gaps.into_iter().map(|gap| Finding {
        path: gap.path,
        offset: gap.offset,
        what: format!("{} ({} bytes)", gap.what, gap.bytes),
        affected: Affected::Log,
    });
    report.findings.extend(gaps);
    if report.segment_count == 0 && !tree_folders(&data_dir.trees_folder())?.is_empty() {
        let error = OpenError::LogMissing { path: data_dir.log_folder() };
        report.findings.push(of_open_error(data_dir, error, Affected::Log));
    }
    // What a start refuses is told, also where reading on found nothing.
    if !report.findings.iter().any(|finding| finding.affected == Affected::Log)
        && let Err(error) = recover::<OpenError>(&disk, |_| Ok(()))
    {
        report.findings.push(of_open_error(data_dir, error, Affected::Log));
    }
    Ok(())
}

/// What is told of an entry that cannot be read.
const MALFORMED: &str = "an entry does not follow its format";

pub(crate) fn of_open_error(data_dir: &DataDir, error: OpenError, affected: Affected) -> Finding {
    match error {
        OpenError::Damaged { path, offset, what, affected } => {
            Finding { path, offset, what: what.to_owned(), affected }
        }
        OpenError::UnknownVersion { path, version } => {
            Finding { path, offset: 0, what: format!("unknown format version {version}"), affected }
        }
        OpenError::LogMissing { path } => {
            Finding { path, offset: 0, what: "there is no log".to_owned(), affected }
        }
        OpenError::Io { path, error } => {
            Finding { path, offset: 0, what: error.to_string(), affected }
        }
        other @ (OpenError::Locked { .. }
        | OpenError::NoData { .. }
        | OpenError::Restoring { .. }
        | OpenError::Tree { .. }) => {
            let path = data_dir.path().to_owned();
            Finding { path, offset: 0, what: other.to_string(), affected }
        }
    }
}
