//! The data folder: one process at a time, and the few small documents that are replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
pub(crate) use tree::folder::sync_folder;

use rustix::fs::{FlockOperation, flock};

use crate::error::{Affected, OpenError};
use crate::slots::{self, Slots};
use crate::snapshot::RESTORING;

const DOCUMENT_MAGIC: [u8; 6] = *b"HELDOC";
const DOCUMENT_VERSION: u16 = 1;
/// Magic, version, length, checksum.
const DOCUMENT_HEAD_BYTES: usize = 6 + 2 + 8 + 4;

/// An opened and locked data folder.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Held for the lock on it.
    lock: File,
}

impl DataDir {
    /// Creates the folder if need be and takes the lock.
    pub fn lock(path: impl Into<PathBuf>) -> Result<DataDir, OpenError> {
        let path = path.into();
        if path.join(RESTORING).exists() {
            return Err(OpenError::Restoring { path });
        }
        let is_new = !path.exists();
        for folder in [path.clone(), path.join("documents"), path.join("log"), path.join("trees")] {
            fs::create_dir_all(&folder).map_err(OpenError::io(&folder))?;
        }
        sync_folder(&path).map_err(OpenError::io(&path))?;
        if is_new {
            // A new folder lasts when the one it is in was synced; one without a name is "here".
            let parent = match path.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            sync_folder(parent).map_err(OpenError::io(parent))?;
        }
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(OpenError::io(&lock_path))?;
        take_lock(path, lock, lock_path)
    }

    /// Takes the lock of a folder that is there, and changes nothing in it.
    pub fn lock_existing(path: impl Into<PathBuf>) -> Result<DataDir, OpenError> {
        let path = path.into();
        let lock_path = path.join("lock");
        let lock = File::open(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => OpenError::NoData { path: path.clone() },
            _ => OpenError::Io { path: lock_path.clone(), error },
        })?;
        take_lock(path, lock, lock_path)
    }

    /// Takes from others what earlier versions left them: hashes of passwords, keys and rows are for the node alone.
    pub fn make_private(&self) {
        let nobody_else = |path: &Path, is_told: bool| {
            let Ok(metadata) = fs::symlink_metadata(path) else { return };
            let mode = metadata.permissions().mode();
            if metadata.is_symlink() || mode & 0o077 == 0 {
                return;
            }
            let private = fs::Permissions::from_mode(mode & 0o700);
            match fs::set_permissions(path, private) {
                Ok(()) => {
                    if is_told {
                        tracing::info!(folder = %path.display(), "the data folder is for its owner alone now");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "others may read what is secret");
                }
            }
        };
        for folder in ["documents", "tls", "log", "trees", "snapshots"] {
            let folder = self.path.join(folder);
            nobody_else(&folder, false);
            if folder.ends_with("documents") || folder.ends_with("tls") {
                let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
                entries.for_each(|entry| nobody_else(&entry.path(), false));
            }
        }
        // Last: it shuts the door to all that is in it.
        nobody_else(&self.path, true);
    }

    /// Whether the folder that was locked is still where it was; not when it was removed, moved or replaced.
    pub fn is_in_place(&self) -> bool {
        let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let now = fs::metadata(self.path.join("lock")).map(id);
        match (self.lock.metadata().map(id), now) {
            (Ok(locked), Ok(now)) => locked == now,
            (Ok(_), Err(error)) => error.kind() != io::ErrorKind::NotFound,
            // Nothing is known, so nothing is said.
            (Err(_), _) => true,
        }
    }

    /// The names of all documents.
    pub fn document_names(&self) -> Result<Vec<String>, OpenError> {
        // What was never finished, and what is of another form.
        let is_other = |name: &str| {
            let extension = Path::new(name).extension().and_then(|it| it.to_str());
            extension.is_some_and(|it| it == "new" || it == slots::EXTENSION)
        };
        self.names_in_documents(|name| !is_other(name))
    }

    /// The names of all files of slots.
    pub fn slots_names(&self) -> Result<Vec<String>, OpenError> {
        let suffix = format!(".{}", slots::EXTENSION);
        let mut names = self.names_in_documents(|name| name.ends_with(&suffix))?;
        names.iter_mut().for_each(|name| name.truncate(name.len() - suffix.len()));
        Ok(names)
    }

    fn names_in_documents(&self, keep: impl Fn(&str) -> bool) -> Result<Vec<String>, OpenError> {
        let folder = self.path.join("documents");
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(OpenError::io(&folder))? {
            let entry = entry.map_err(OpenError::io(&folder))?;
            names.extend(entry.file_name().into_string().ok().filter(|name| keep(name)));
        }
        names.sort();
        Ok(names)
    }

    /// The records of a file of slots, which stays as it is.
    pub(crate) fn load_slots(&self, name: &str) -> Result<Vec<Vec<u8>>, OpenError> {
        Slots::load(&self.path.join("documents"), name)
    }

    /// Opens a file of slots, and makes it if there is none.
    pub fn open_slots(&self, name: &str) -> Result<Slots, OpenError> {
        Slots::open(&self.path.join("documents"), name)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn log_folder(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn trees_folder(&self) -> PathBuf {
        self.path.join("trees")
    }

    /// About when the log was last written to, in microseconds since 1970; `None` if it never was.
    pub fn last_written_us(&self) -> Option<i64> {
        let entries = fs::read_dir(self.log_folder()).ok()?;
        let written = entries.flatten().filter_map(|entry| {
            let modified = entry.metadata().ok()?.modified().ok()?;
            let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
            i64::try_from(since.as_micros()).ok()
        });
        written.max()
    }

    fn document_path(&self, name: &str) -> PathBuf {
        self.path.join("documents").join(name)
    }

    /// Replaces a document as a whole: after a crash it is the old or the new one.
    pub fn save_document(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.document_path(name);
        write_document(&path, bytes)?;
        sync_folder(&self.path.join("documents"))
    }

    /// A document as it was last saved; `None` if it never was.
    pub fn load_document(&self, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
        read_document(&self.document_path(name), name)
    }
}

/// Writes a document as a whole beside the old one, and puts it in its place. The folder is to be synced.
pub(crate) fn write_document(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut head = Vec::with_capacity(DOCUMENT_HEAD_BYTES);
    head.extend_from_slice(&DOCUMENT_MAGIC);
    head.extend_from_slice(&DOCUMENT_VERSION.to_be_bytes());
    head.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    head.extend_from_slice(&document_checksum(&head, bytes).to_be_bytes());
    let mut file = File::create(&temporary)?;
    file.write_all(&head)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, path)?;
    Ok(())
}

/// Reads a document and verifies it.
pub(crate) fn read_document(path: &Path, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
    let path = path.to_owned();
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(mut file) => file.read_to_end(&mut bytes).map_err(OpenError::io(&path))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::Io { path, error }),
    };
    let damaged = |offset, what| {
        let affected = Affected::Document(name.to_owned());
        OpenError::Damaged { path: path.clone(), offset, what, affected }
    };
    let (head, body) = bytes
        .split_first_chunk::<DOCUMENT_HEAD_BYTES>()
        .ok_or_else(|| damaged(0, "the document is shorter than its head"))?;
    let [magic @ .., v0, v1, _, _, _, _, _, _, _, _, _, _, _, _] = head;
    if *magic != DOCUMENT_MAGIC {
        return Err(damaged(0, "the document does not start as one"));
    }
    let version = u16::from_be_bytes([*v0, *v1]);
    if version != DOCUMENT_VERSION {
        return Err(OpenError::UnknownVersion { path, version });
    }
    let [checked @ .., c0, c1, c2, c3] = head;
    let checksum = u32::from_be_bytes([*c0, *c1, *c2, *c3]);
    if document_checksum(checked, body) != checksum {
        return Err(damaged(0, "the document's checksum does not match"));
    }
    let body = body.len();
    Ok(Some(bytes.split_off(bytes.len() - body)))
}

fn take_lock(path: PathBuf, lock: File, lock_path: PathBuf) -> Result<DataDir, OpenError> {
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(DataDir { path, lock }),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::Locked { path }),
        Err(errno) => Err(OpenError::Io { path: lock_path, error: errno.into() }),
    }
}

fn document_checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn documents_come_back_and_damage_is_seen() {
        let folder = TestFolder::new("documents");
        let dir = DataDir::lock(folder.path()).unwrap();
        assert!(dir.load_document("schema").unwrap().is_none());
        dir.save_document("schema", b"one").unwrap();
        dir.save_document("schema", b"two").unwrap();
        assert_eq!(dir.load_document("schema").unwrap().unwrap(), b"two");
        let path = dir.document_path("schema");
        let good = fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            File::create(&path).unwrap().write_all(&bad).unwrap();
            assert!(dir.load_document("schema").is_err(), "bit {bit}");
        }
        File::create(&path).unwrap().write_all(&good[..10]).unwrap();
        assert!(dir.load_document("schema").is_err());
    }

    #[test]
    fn a_second_lock_is_refused() {
        let folder = TestFolder::new("lock");
        let first = DataDir::lock(folder.path()).unwrap();
        assert!(matches!(DataDir::lock(folder.path()), Err(OpenError::Locked { .. })));
        drop(first);
        DataDir::lock(folder.path()).unwrap();
    }
}
