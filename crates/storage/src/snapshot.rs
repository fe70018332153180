//! Snapshots: a data folder within the data folder, made of hard links.
//!
//! A **whole** snapshot needs no pause. Sorted files never change once they are written, so each tree
//! is linked as its newest manifest names it; if a compaction takes a file away meanwhile, that tree is
//! begun again. Trees linked at different moments hold different prefixes of the log, and say which:
//! so the log up to one place is added last, and recovery brings every tree to exactly that place.
//! Finished segments are linked, the current one is copied up to the cut.
//!
//! A snapshot **of some tables** is taken before they are emptied or dropped. They are flushed first,
//! and it has a log of its own, without changes.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use types::TableId;

use crate::data_dir::{self, DataDir, sync_folder};
use crate::error::{OpenError, TreeError};
use crate::index::tree::index_folders;
use crate::storage::Storage;
use node_log::{Cut, segment_name};
use tree::files::read_manifest;
use tree::folder::{FILES_FOLDER, MARKER, is_established};

/// Where snapshots are, in a data folder.
const FOLDER: &str = "snapshots";
/// The document that says what a snapshot is.
const FACTS: &str = "snapshot";
/// There while a restore is under way: no node may open the folder then.
pub(crate) const RESTORING: &str = "restore-in-progress";
/// A name is at most this long.
const NAME_BYTES_MAX: usize = 200;
/// How often a tree is begun again because its files changed; each time some compaction has ended.
const LINK_ROUNDS_MAX: u32 = 1_000;

/// The same for an index, which can be done without.
const INDEX_ROUNDS_MAX: u32 = 20;

/// The same for the log.
const LOG_ROUNDS_MAX: u32 = 20;
/// What is being removed is called so first.
const REMOVED_PREFIX: &str = ".removed-";

/// What a snapshot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFacts {
    /// Its name.
    pub name: String,
    /// When it was taken, in seconds since 1970.
    pub taken_at_s: u32,
    /// Everything, or the tables it was taken of.
    pub is_whole: bool,
    /// Why it was taken.
    pub why: String,
    /// Bytes of its files. Most of them it shares with the node, until that merges its own away.
    pub bytes: u64,
}

/// Why a snapshot was not taken or not restored. Nothing was changed.
#[derive(Debug)]
pub enum SnapshotError {
    /// A name is letters, digits, `-`, `_` and `.`, and does not begin with a dot.
    BadName {
        /// What was given.
        name: String,
    },
    /// There is one of that name.
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// There is none of that name.
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// It holds some tables only, and cannot take the place of everything.
    Partial {
        /// Its name.
        name: String,
        /// Why it was taken.
        why: String,
    },
    /// The folder to restore into has something in it.
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
    /// Rows come from another node: the log says that they are here, and they may be in no file of a snapshot.
    RowsCome,
    /// The data folder or the snapshot cannot be opened.
    Open(OpenError),
    /// A table could not be flushed, or the log could not be synced.
    Flush(TreeError),
    /// The operating system refused.
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::BadName { name } => write!(
                f,
                "{name:?} is not a name for a snapshot: letters, digits, '-', '_' and '.', and no dot first"
            ),
            SnapshotError::Exists { path } => {
                write!(f, "there is a snapshot of that name: {}", path.display())
            }
            SnapshotError::Missing { path } => {
                write!(f, "there is no snapshot {}; `helenus snapshots` lists them", path.display())
            }
            SnapshotError::Partial { name, why } => write!(
                f,
                "the snapshot {name} holds only what was {why}: restore it into a folder of its own with --to, start a node there, and bring the rows back with export and import"
            ),
            SnapshotError::NotEmpty { path } => {
                write!(f, "{} is not empty; choose a new folder", path.display())
            }
            SnapshotError::RowsCome => f.write_str(
                "rows from another node are being put into the files of this one; take the snapshot again when they are in place",
            ),
            SnapshotError::Open(error) => error.fmt(f),
            SnapshotError::Flush(error) => write!(f, "cannot make everything durable: {error}"),
            SnapshotError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl SnapshotError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
        let path = path.to_owned();
        move |error| SnapshotError::Io { path, error }
    }
}

impl From<OpenError> for SnapshotError {
    fn from(error: OpenError) -> SnapshotError {
        SnapshotError::Open(error)
    }
}

impl Storage {
    /// Makes the log durable up to its end.
    fn cut_log(&self) -> Result<Cut, TreeError> {
        self.log.cut().map_err(|_| log_failed())
    }

    /// Takes a snapshot of everything. The caller sees to it that no definition changes meanwhile.
    pub fn snapshot(&self, name: &str, why: &str) -> Result<SnapshotFacts, SnapshotError> {
        let installs = self.installs_settled().ok_or(SnapshotError::RowsCome)?;
        let draft = Draft::begin(self.data_dir().path(), name)?;
        // From here on the log keeps what the first tree that is linked may still need.
        let _hold = self.hold_whole_log();
        draft.add_documents(self.data_dir().path())?;
        for (_, folder) in self.store_folders() {
            draft.add_tree(&folder)?;
        }
        draft.add_log(&self.data_dir().log_folder(), || {
            self.cut_log().map_err(SnapshotError::Flush)
        })?;
        // Files of an image are not linked, and trees were linked before its rows came.
        if self.installs_settled() != Some(installs) {
            let _ = fs::remove_dir_all(&draft.folder);
            return Err(SnapshotError::RowsCome);
        }
        draft.finish(self.now_s(), true, why)
    }

    /// Takes a snapshot of some tables; `None` if there is nothing in them.
    pub fn snapshot_tables(
        &self,
        name: &str,
        tables: &[TableId],
        why: &str,
    ) -> Result<Option<SnapshotFacts>, SnapshotError> {
        for table in tables {
            self.flush(Some(*table)).map_err(SnapshotError::Flush)?;
        }
        let wanted: Vec<PathBuf> = self
            .store_folders()
            .into_iter()
            .filter(|(table, folder)| tables.contains(table) && is_established(folder))
            .map(|(_, folder)| folder)
            .collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let draft = Draft::begin(self.data_dir().path(), name)?;
        draft.add_documents(self.data_dir().path())?;
        for folder in wanted {
            draft.add_tree(&folder)?;
        }
        self.cut_log().map_err(SnapshotError::Flush)?;
        // A log without changes for a copy of flushed tables.
        let (start, bytes) = self.log.empty_copy();
        let path = draft.folder.join("log").join(segment_name(start));
        write_file(&path, &bytes).map_err(SnapshotError::io(&path))?;
        draft.finish(self.now_s(), false, why).map(Some)
    }
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, SnapshotError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(SnapshotError::io(folder))? {
        found.push(entry.map_err(SnapshotError::io(folder))?.path());
    }
    found.sort();
    Ok(found)
}

/// A snapshot that is being made, under a name that nobody takes for one.
struct Draft {
    name: String,
    folder: PathBuf,
    target: PathBuf,
}

impl Draft {
    fn begin(data_dir: &Path, name: &str) -> Result<Draft, SnapshotError> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty()
            || name.starts_with('.')
            || name.len() > NAME_BYTES_MAX
            || !name.chars().all(is_good)
        {
            return Err(SnapshotError::BadName { name: name.to_owned() });
        }
        let target = data_dir.join(FOLDER).join(name);
        if target.exists() {
            return Err(SnapshotError::Exists { path: target });
        }
        let folder = data_dir.join(FOLDER).join(format!(".{name}"));
        let _ = fs::remove_dir_all(&folder);
        for part in ["documents", "log", "trees"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(SnapshotError::io(&part))?;
        }
        Ok(Draft { name: name.to_owned(), folder, target })
    }

    fn add_documents(&self, data_dir: &Path) -> Result<(), SnapshotError> {
        let from = data_dir.join("documents");
        for path in folders(&from)? {
            if let Some(name) = path.file_name()
                && path.extension().is_none_or(|extension| extension != "new")
            {
                let target = self.folder.join("documents").join(name);
                copy_file(&path, &target).map_err(SnapshotError::io(&path))?;
            }
        }
        Ok(())
    }

    /// Links the sorted files that the newest manifest names.
    fn add_tree(&self, from: &Path) -> Result<(), SnapshotError> {
        let Some(name) = from.file_name() else { return Ok(()) };
        let to = self.folder.join("trees").join(name);
        for _ in 0..LINK_ROUNDS_MAX {
            // What was never flushed is in the log, and so is that a table was dropped.
            if !is_established(from) {
                let _ = fs::remove_dir_all(&to);
                return Ok(());
            }
            match link_tree(from, &to) {
                Ok(()) => return link_indexes(from, &to).map_err(SnapshotError::io(from)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let _ = fs::remove_dir_all(&to);
                }
                Err(error) => return Err(SnapshotError::Io { path: from.to_owned(), error }),
            }
        }
        let error = io::Error::other("its files change too fast to be linked");
        Err(SnapshotError::Io { path: from.to_owned(), error })
    }

    /// The log up to a cut.
    fn add_log(
        &self,
        from: &Path,
        cut: impl Fn() -> Result<Cut, SnapshotError>,
    ) -> Result<(), SnapshotError> {
        let mut added = self.add_log_to(from, &cut()?);
        // A segment that nothing needed any more may just have gone; the next cut knows.
        for _ in 0..LOG_ROUNDS_MAX {
            let Err(SnapshotError::Io { error, .. }) = &added else { break };
            if error.kind() != io::ErrorKind::NotFound {
                break;
            }
            let to = self.folder.join("log");
            fs::remove_dir_all(&to).map_err(SnapshotError::io(&to))?;
            fs::create_dir(&to).map_err(SnapshotError::io(&to))?;
            added = self.add_log_to(from, &cut()?);
        }
        added
    }

    fn add_log_to(&self, from: &Path, cut: &Cut) -> Result<(), SnapshotError> {
        let to = self.folder.join("log");
        let Some((current, finished)) = cut.starts.split_last() else { return Ok(()) };
        for start in finished {
            let name = segment_name(*start);
            let path = from.join(&name);
            link_or_copy(&path, &to.join(&name)).map_err(SnapshotError::io(&path))?;
        }
        let name = segment_name(*current);
        let path = from.join(&name);
        copy_start(&path, &to.join(&name), cut.end.saturating_sub(*current))
            .map_err(SnapshotError::io(&path))
    }

    fn finish(self, now_s: u32, is_whole: bool, why: &str) -> Result<SnapshotFacts, SnapshotError> {
        let at = SnapshotError::io;
        let bytes = folder_bytes(&self.folder).map_err(at(&self.folder))?;
        let text = format!("taken_at_s={now_s}\nis_whole={is_whole}\nbytes={bytes}\nwhy={why}\n");
        let facts = self.folder.join("documents").join(FACTS);
        data_dir::write_document(&facts, text.as_bytes()).map_err(at(&facts))?;
        write_file(&self.folder.join("lock"), &[]).map_err(at(&self.folder))?;
        for part in ["documents", "log", "trees", "."] {
            let part = self.folder.join(part);
            sync_folder(&part).map_err(at(&part))?;
        }
        fs::rename(&self.folder, &self.target).map_err(at(&self.target))?;
        if let Some(parent) = self.target.parent() {
            sync_folder(parent).map_err(at(parent))?;
        }
        let why = why.to_owned();
        Ok(SnapshotFacts { name: self.name, taken_at_s: now_s, is_whole, why, bytes })
    }
}

/// One attempt to link a tree; a file that went meanwhile is `NotFound`.
fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    let went = |_| io::Error::from(io::ErrorKind::NotFound);
    let before = fs::read(from.join("current"))?;
    let files = read_manifest(from).map_err(went)?;
    fs::create_dir_all(to.join(FILES_FOLDER))?;
    for file in files {
        if let Some(name) = file.path.file_name() {
            link_or_copy(&file.path, &to.join(FILES_FOLDER).join(name))?;
        }
    }
    let [b0, b1, b2, b3, b4, b5, b6, b7] =
        *before.first_chunk::<8>().ok_or(io::ErrorKind::InvalidData)?;
    let manifest = format!("v{}", u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]));
    copy_file(&from.join(&manifest), &to.join(&manifest))?;
    write_file(&to.join("current"), &before)?;
    write_file(&to.join(MARKER), &[])?;
    sync_folder(&to.join(FILES_FOLDER))?;
    sync_folder(to)?;
    // The manifest may have changed between the two looks at it.
    read_manifest(to).map(|_| ()).map_err(went)
}

/// Links the indexes of a table that was linked before: on the disk an index is never behind its
/// table. One whose files change meanwhile is left out, and built again where it is needed.
fn link_indexes(from: &Path, to: &Path) -> io::Result<()> {
    let indexes = match index_folders(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for index in indexes {
        let Some(name) = index.file_name() else { continue };
        let target = to.join(name);
        for _ in 0..INDEX_ROUNDS_MAX {
            match link_tree(&index, &target) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let _ = fs::remove_dir_all(&target);
                }
                Err(error) => return Err(error),
            }
        }
    }
    sync_folder(to)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()
}

/// A second name for a file that never changes; on another file system a copy.
fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy_file(from, to),
        other => other,
    }
}

fn copy_start(from: &Path, to: &Path, bytes: u64) -> io::Result<()> {
    let mut target = File::create(to)?;
    let copied = io::copy(&mut File::open(from)?.take(bytes), &mut target)?;
    if copied != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    target.sync_all()
}

fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => folder_bytes(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

fn read_facts(folder: &Path, name: String) -> Result<SnapshotFacts, SnapshotError> {
    let path = folder.join("documents").join(FACTS);
    let text = data_dir::read_document(&path, FACTS)?
        .ok_or_else(|| SnapshotError::Missing { path: folder.to_owned() })?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let value = |key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_default().to_owned()
    };
    Ok(SnapshotFacts {
        name,
        taken_at_s: value("taken_at_s").parse().unwrap_or(0),
        is_whole: value("is_whole") == "true",
        why: value("why"),
        bytes: value("bytes").parse().unwrap_or(0),
    })
}

/// The snapshots in a data folder, oldest first.
pub fn snapshots(data_dir: &Path) -> Result<Vec<SnapshotFacts>, SnapshotError> {
    let folder = data_dir.join(FOLDER);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for path in folders(&folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // What begins so was never finished.
        if !name.starts_with('.') {
            found.push(read_facts(&path, name.to_owned())?);
        }
    }
    found.sort_by(|a, b| (a.taken_at_s, &a.name).cmp(&(b.taken_at_s, &b.name)));
    Ok(found)
}

/// Removes a snapshot, whether or not a node runs on the folder. What of its files the node still needs
/// stays where it is.
pub fn remove_snapshot(data_dir: &Path, name: &str) -> Result<(), SnapshotError> {
    let folder = data_dir.join(FOLDER);
    let path = folder.join(name);
    if !path.is_dir() || name.starts_with('.') || name.contains('/') {
        return Err(SnapshotError::Missing { path });
    }
    // Under another name first: half of a snapshot is never taken for one.
    let gone = folder.join(format!("{REMOVED_PREFIX}{name}"));
    let _ = fs::remove_dir_all(&gone);
    fs::rename(&path, &gone).map_err(SnapshotError::io(&path))?;
    sync_folder(&folder).map_err(SnapshotError::io(&folder))?;
    fs::remove_dir_all(&gone).map_err(SnapshotError::io(&gone))
}

/// What is kept of the snapshots that TRUNCATE and DROP take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoSnapshots {
    /// For so long.
    pub retention_s: u32,
    /// So many at most; the oldest go first.
    pub count_max: usize,
}

impl Storage {
    /// Removes snapshots of some tables whose time has come, and what is left of earlier removals; the names of those
    /// that went. Snapshots of everything stay: somebody asked for them.
    pub fn expire_snapshots(&self, bounds: AutoSnapshots) -> Result<Vec<String>, SnapshotError> {
        expire_snapshots(self.data_dir().path(), bounds, self.now_s())
    }
}

/// See [`Storage::expire_snapshots`].
fn expire_snapshots(
    data_dir: &Path,
    bounds: AutoSnapshots,
    now_s: u32,
) -> Result<Vec<String>, SnapshotError> {
    let folder = data_dir.join(FOLDER);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    for path in folders(&folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(REMOVED_PREFIX) {
            fs::remove_dir_all(&path).map_err(SnapshotError::io(&path))?;
        }
    }
    let automatic: Vec<SnapshotFacts> =
        snapshots(data_dir)?.into_iter().filter(|facts| !facts.is_whole).collect();
    let too_many = automatic.len().saturating_sub(bounds.count_max);
    let mut removed = Vec::new();
    for (index, facts) in automatic.into_iter().enumerate() {
        // A clock that was set back makes nothing old.
        if index < too_many || now_s.saturating_sub(facts.taken_at_s) >= bounds.retention_s {
            remove_snapshot(data_dir, &facts.name)?;
            removed.push(facts.name);
        }
    }
    Ok(removed)
}

/// What a restore did.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The snapshot.
    pub facts: SnapshotFacts,
    /// Where what was there before is kept.
    pub before: Option<PathBuf>,
}

/// Puts a snapshot in the place of everything in its data folder, which no node has open; with `to`
/// into that new folder instead. What was there before is moved aside, not removed.
pub fn restore(data_dir: &Path, name: &str, to: Option<&Path>) -> Result<Restored, SnapshotError> {
    let source = data_dir.join(FOLDER).join(name);
    if !source.is_dir() || name.starts_with('.') || name.contains('/') {
        return Err(SnapshotError::Missing { path: source });
    }
    let facts = read_facts(&source, name.to_owned())?;
    // Refused before anything is touched, if it could not be opened afterwards.
    for folder in folders(&source.join("trees"))? {
        read_manifest(&folder).map_err(|damage| SnapshotError::Io {
            path: damage.path,
            error: io::Error::other(format!("the snapshot is damaged: {}", damage.what)),
        })?;
    }
    match to {
        Some(to) => {
            if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(SnapshotError::NotEmpty { path: to.to_owned() });
            }
            let target = DataDir::lock(to)?;
            bring(&source, target.path())?;
            Ok(Restored { facts, before: None })
        }
        None if facts.is_whole => restore_in_place(data_dir, &source, facts),
        None => Err(SnapshotError::Partial { name: facts.name, why: facts.why }),
    }
}

fn restore_in_place(
    data_dir: &Path,
    source: &Path,
    facts: SnapshotFacts,
) -> Result<Restored, SnapshotError> {
    let at = SnapshotError::io;
    // Held until everything is in its place.
    let _lock = DataDir::lock_existing(data_dir)?;
    let staging = data_dir.join(".restoring");
    let _ = fs::remove_dir_all(&staging);
    bring(source, &staging)?;
    let aside = (1u32..)
        .map(|number| data_dir.join(format!("before-restore-{number}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| data_dir.join("before-restore"));
    fs::create_dir_all(&aside).map_err(at(&aside))?;
    let marker = data_dir.join(RESTORING);
    write_file(&marker, facts.name.as_bytes()).map_err(at(&marker))?;
    sync_folder(data_dir).map_err(at(data_dir))?;
    for part in ["documents", "log", "trees"] {
        let (live, fresh) = (data_dir.join(part), staging.join(part));
        if live.exists() {
            fs::rename(&live, aside.join(part)).map_err(at(&live))?;
        }
        fs::rename(&fresh, &live).map_err(at(&fresh))?;
    }
    sync_folder(data_dir).map_err(at(data_dir))?;
    fs::remove_file(&marker).map_err(at(&marker))?;
    sync_folder(data_dir).map_err(at(data_dir))?;
    let _ = fs::remove_dir_all(&staging);
    Ok(Restored { facts, before: Some(aside) })
}

/// Links and copies a snapshot into a folder.
fn bring(from: &Path, to: &Path) -> Result<(), SnapshotError> {
    let at = SnapshotError::io;
    for part in ["documents", "log", "trees"] {
        let target = to.join(part);
        fs::create_dir_all(&target).map_err(at(&target))?;
        bring_folder(&from.join(part), &target).map_err(at(&target))?;
    }
    let facts = to.join("documents").join(FACTS);
    fs::remove_file(&facts).map_err(at(&facts))?;
    sync_folder(to).map_err(at(to))
}

fn bring_folder(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let is_sorted_file = from.file_name().is_some_and(|name| name == FILES_FOLDER);
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            bring_folder(&entry.path(), &target)?;
        } else if is_sorted_file || from.file_name().is_some_and(|name| name == "log") {
            // Neither is ever written again.
            link_or_copy(&entry.path(), &target)?;
        } else {
            copy_file(&entry.path(), &target)?;
        }
    }
    sync_folder(to)
}

/// A failed log, as the error of a flush.
fn log_failed() -> TreeError {
    TreeError::Io(Arc::new(io::Error::other("the log failed; the node must be restarted")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot as far as lists are concerned.
    fn put(data_dir: &Path, name: &str, taken_at_s: u32, is_whole: bool) {
        let documents = data_dir.join(FOLDER).join(name).join("documents");
        fs::create_dir_all(&documents).unwrap();
        let text = format!("taken_at_s={taken_at_s}\nis_whole={is_whole}\nbytes=1\nwhy=x\n");
        data_dir::write_document(&documents.join(FACTS), text.as_bytes()).unwrap();
    }

    #[test]
    fn snapshots_of_tables_go_when_their_time_has_come() {
        let folder = std::env::temp_dir().join(format!("helenus-expiry-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let expire = |now_s, count_max| {
            let bounds = AutoSnapshots { retention_s: 100, count_max };
            expire_snapshots(&folder, bounds, now_s).unwrap()
        };
        let names = || -> Vec<String> {
            snapshots(&folder).unwrap().into_iter().map(|facts| facts.name).collect()
        };
        assert!(expire(1_000, 10).is_empty());
        put(&folder, "asked", 1, true);
        for (name, taken_at_s) in
            [("dropped-a", 1_000), ("dropped-b", 1_050), ("truncated-c", 1_060)]
        {
            put(&folder, name, taken_at_s, false);
        }
        // What an earlier removal left, and one that is being taken.
        put(&folder, ".removed-old", 1, false);
        put(&folder, ".dropped-d", 1, false);
        assert!(expire(1_099, 10).is_empty());
        assert!(!folder.join(FOLDER).join(".removed-old").exists());
        assert!(folder.join(FOLDER).join(".dropped-d").exists());
        assert_eq!(expire(1_100, 10), ["dropped-a"]);
        // Too many: the oldest goes. A clock that was set back takes nothing away.
        assert_eq!(expire(5, 1), ["dropped-b"]);
        assert_eq!(names(), ["asked", "truncated-c"]);
        assert_eq!(expire(u32::MAX, 10), ["truncated-c"]);
        assert_eq!(names(), ["asked"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
