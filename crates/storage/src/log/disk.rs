//! The disk under the log: real, or simulated in tests.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
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
    /// Gives a file of that length another name, to be written over; `None` if it has another length
    /// or something else, such as a snapshot, links to it.
    fn recycle(&self, from: &str, to: &str, bytes: u64) -> io::Result<Option<Box<dyn LogFile>>>;
    /// Notes where the newest segment begins, lasting.
    fn set_newest(&self, start: u64) -> io::Result<()>;
    /// Where the newest segment begins; `None` if that was never noted, or the note is not readable.
    fn newest(&self) -> io::Result<Option<u64>>;
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

/// The file that says which segment is the newest.
const NEWEST: &str = "newest";
const NEWEST_MAGIC: [u8; 8] = *b"HELNEWST";
/// Magic, position, checksum.
const NEWEST_BYTES: usize = 8 + 8 + 4;

fn encode_newest(start: u64) -> [u8; NEWEST_BYTES] {
    let mut bytes = [0; NEWEST_BYTES];
    let (checked, checksum) = bytes.split_at_mut(NEWEST_BYTES - 4);
    for (slot, part) in checked.chunks_exact_mut(8).zip([NEWEST_MAGIC, start.to_be_bytes()]) {
        slot.copy_from_slice(&part);
    }
    checksum.copy_from_slice(&crc32fast::hash(checked).to_be_bytes());
    bytes
}

fn decode_newest(bytes: &[u8]) -> Option<u64> {
    let bytes: [u8; NEWEST_BYTES] = bytes.try_into().ok()?;
    let (checked, checksum) = bytes.split_last_chunk::<4>()?;
    let (magic, start) = checked.split_first_chunk::<8>()?;
    let is_whole =
        *magic == NEWEST_MAGIC && crc32fast::hash(checked) == u32::from_be_bytes(*checksum);
    is_whole.then_some(u64::from_be_bytes(start.try_into().ok()?))
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

    fn recycle(&self, from: &str, to: &str, bytes: u64) -> io::Result<Option<Box<dyn LogFile>>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(from))?;
        let is_alone = |metadata: fs::Metadata| metadata.len() == bytes && metadata.nlink() == 1;
        if !is_alone(file.metadata()?) {
            return Ok(None);
        }
        fs::rename(self.path(from), self.path(to))?;
        // A link may have been made until just now; under the new name nobody looks for it.
        if !is_alone(file.metadata()?) {
            fs::remove_file(self.path(to))?;
            return Ok(None);
        }
        Ok(Some(Box::new(RealFile(file))))
    }

    fn set_newest(&self, start: u64) -> io::Result<()> {
        let (path, fresh) = (self.path(NEWEST), self.path("newest.new"));
        let mut file = File::create(&fresh)?;
        file.write_all(&encode_newest(start))?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        sync_folder(&self.folder)
    }

    fn newest(&self) -> io::Result<Option<u64>> {
        match fs::read(self.path(NEWEST)) {
            Ok(bytes) => Ok(decode_newest(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
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

    fn recycle(&self, _: &str, _: &str, _: u64) -> io::Result<Option<Box<dyn LogFile>>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_newest(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn newest(&self) -> io::Result<Option<u64>> {
        RealDisk { folder: self.folder.clone() }.newest()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Whether there was no room.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error of a write or sync says that the disk is not to be trusted any more: not when there
/// was only no room, no free descriptor, no memory or no such file.
pub(crate) fn is_disk_failure(error: &io::Error) -> bool {
    let is_passing = matches!(
        error.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
    ) || matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::OutOfMemory | io::ErrorKind::Interrupted
    );
    !is_passing && !is_disk_full(error)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn the_note_of_the_newest_segment_follows_its_format() {
        let bytes = encode_newest(0x1000);
        let told =
            [b"HELNEWST".as_slice(), &[0, 0, 0, 0, 0, 0, 0x10, 0], &[0xaa, 0x97, 0x2b, 0xf6]];
        assert_eq!(bytes.as_slice(), told.concat());
        assert_eq!(decode_newest(&bytes), Some(0x1000));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_newest(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn a_file_that_something_links_to_is_not_written_over() {
        let folder = TestFolder::new("recycle");
        let disk = RealDisk::new(folder.path().to_owned());
        disk.create("a", 4096).unwrap();
        fs::hard_link(disk.path("a"), disk.path("kept")).unwrap();
        assert!(disk.recycle("a", "b", 4096).unwrap().is_none());
        assert!(disk.path("a").exists());
        fs::remove_file(disk.path("kept")).unwrap();
        assert!(disk.recycle("a", "b", 8192).unwrap().is_none());
        assert!(disk.recycle("a", "b", 4096).unwrap().is_some());
        assert!(!disk.path("a").exists() && disk.path("b").exists());
    }
}
