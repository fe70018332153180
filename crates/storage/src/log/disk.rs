//! The disk under the log: real, or simulated in tests.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};

use crate::data_dir::sync_folder;

/// The folder of the log.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A new file of zeros with room for `bytes`, lasting; fails if there is no room.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn LogFile>>;
    /// An existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>>;
    /// Gives a file another name, lasting.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Where a file is, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// A file of the log.
pub trait LogFile: Send + fmt::Debug {
    /// All its bytes.
    fn read_all(&self) -> io::Result<Vec<u8>>;
    /// Writes at a place.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written last.
    fn sync(&mut self) -> io::Result<()>;
    /// Gives back the room behind the last byte, and makes the file last.
    fn finish(&mut self, length: u64) -> io::Result<()>;
}

/// The real disk.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
}

impl RealDisk {
    /// The log in that folder.
    pub fn new(folder: PathBuf) -> RealDisk {
        RealDisk { folder }
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        let path = self.path(name);
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            // A file system without it: the room is taken as it is written.
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes)?,
            Err(errno) => {
                let _ = fs::remove_file(&path);
                return Err(errno.into());
            }
        }
        file.sync_all()?;
        sync_folder(&self.folder)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))?;
        sync_folder(&self.folder)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The log of a folder that must not be changed: what recovery would tidy up stays.
#[derive(Debug)]
pub(crate) struct ReadOnlyDisk {
    folder: PathBuf,
}

impl ReadOnlyDisk {
    pub(crate) fn new(folder: PathBuf) -> ReadOnlyDisk {
        ReadOnlyDisk { folder }
    }
}

impl Disk for ReadOnlyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        RealDisk { folder: self.folder.clone() }.list()
    }

    fn create(&self, _: &str, _: u64) -> io::Result<Box<dyn LogFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(RealFile(File::open(self.path(name))?)))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Leaves the file where it is: it is passed over all the same.
    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Whether there was no room.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[derive(Debug)]
struct RealFile(File);

impl LogFile for RealFile {
    fn read_all(&self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.0.metadata()?.len())
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn finish(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)?;
        self.0.sync_all()
    }
}
