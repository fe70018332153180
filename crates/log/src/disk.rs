//! The disk under the log: real, or simulated in tests.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};

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
    /// Takes what beginning a segment needs of descriptors and room, so that it is there when one begins.
    fn prepare(&self) -> io::Result<()>;
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
    /// Fills `bytes` with what stands at a place.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes at a place.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written last.
    fn sync(&mut self) -> io::Result<()>;
    /// Gives back the room behind the last byte, and makes the file last.
    fn finish(&mut self, length: u64) -> io::Result<()>;
}

/// The file that says which segment is the newest.
const NEWEST: &str = "newest";
/// The one that takes its place next.
const NEWEST_NEXT: &str = "newest.new";
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
    kept: Mutex<Kept>,
}

/// What is open before it is needed: where every descriptor is taken or the disk is full, a segment can begin
/// all the same.
#[derive(Debug, Default)]
struct Kept {
    /// To sync the folder.
    folder: Option<File>,
    /// The next note of the newest segment, with room for its bytes.
    note: Option<File>,
}

impl RealDisk {
    /// The log in that folder.
    pub fn new(folder: PathBuf) -> RealDisk {
        RealDisk { folder, kept: Mutex::default() }
    }

    fn open_folder<'k>(&self, kept: &'k mut Option<File>) -> io::Result<&'k File> {
        match kept {
            Some(folder) => Ok(folder),
            None => Ok(kept.insert(File::open(&self.folder)?)),
        }
    }

    fn new_note(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(self.path(NEWEST_NEXT))?;
        file.write_all_at(&[0; NEWEST_BYTES], 0)?;
        file.sync_all()?;
        Ok(file)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.open_folder(&mut self.kept.lock().folder)?.sync_all()
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.folder)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        let path = self.path(name);
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
        let make = || {
            // Of nothing the system makes an error.
            let taken = match bytes {
                0 => Ok(()),
                _ => fallocate(&file, FallocateFlags::empty(), 0, bytes),
            };
            match taken {
                Ok(()) => {}
                // A file system without it: the room is taken as it is written.
                Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes)?,
                Err(errno) => return Err(errno.into()),
            }
            file.sync_all()?;
            self.sync_folder()
        };
        match make() {
            Ok(()) => Ok(Box::new(RealFile(file))),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut kept = self.kept.lock();
        // Before the name changes: where the folder cannot be opened nothing has happened.
        let folder = self.open_folder(&mut kept.folder)?;
        fs::rename(self.path(from), self.path(to))?;
        folder.sync_all()
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

    fn prepare(&self) -> io::Result<()> {
        let mut kept = self.kept.lock();
        self.open_folder(&mut kept.folder)?;
        if kept.note.is_none() {
            kept.note = Some(self.new_note()?);
        }
        Ok(())
    }

    fn set_newest(&self, start: u64) -> io::Result<()> {
        let mut kept = self.kept.lock();
        // Whatever fails: the file is not used again, because what a failed sync left of it is unknown.
        let note = match kept.note.take() {
            Some(note) => note,
            None => self.new_note()?,
        };
        note.write_all_at(&encode_newest(start), 0)?;
        note.sync_all()?;
        fs::rename(self.path(NEWEST_NEXT), self.path(NEWEST))?;
        self.open_folder(&mut kept.folder)?.sync_all()
    }

    fn newest(&self) -> io::Result<Option<u64>> {
        newest(&self.path(NEWEST))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn list(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}

fn newest(path: &Path) -> io::Result<Option<u64>> {
    match fs::read(path) {
        Ok(bytes) => Ok(decode_newest(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The log of a folder that must not be changed: what recovery would tidy up stays.
#[derive(Debug)]
pub struct ReadOnlyDisk {
    folder: PathBuf,
}

impl ReadOnlyDisk {
    pub fn new(folder: PathBuf) -> ReadOnlyDisk {
        ReadOnlyDisk { folder }
    }
}

impl Disk for ReadOnlyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.folder)
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

    fn prepare(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_newest(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn newest(&self) -> io::Result<Option<u64>> {
        newest(&self.path(NEWEST))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Whether there was no room.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the system was short of something that comes back: of room, of descriptors, of memory. Never to be
/// asked about a sync: whatever its error, what it was to make last may be gone.
pub fn is_shortage(error: &io::Error) -> bool {
    let is_passing =
        matches!(
            error.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
        ) || matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::Interrupted);
    is_passing || is_disk_full(error)
}

/// Whether an error of a write or sync of sorted files says that the disk is not to be trusted any more.
pub fn is_disk_failure(error: &io::Error) -> bool {
    !is_shortage(error)
        && !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::WouldBlock)
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

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()?;
        // A file without a name goes with this process: nothing in it may be promised.
        if self.0.metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "a file of the log was removed"));
        }
        Ok(())
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
    fn a_file_may_begin_without_room_and_grow() {
        let folder = TestFolder::new("grows");
        let disk = RealDisk::new(folder.path().to_owned());
        let mut file = disk.create("a", 0).unwrap();
        file.write_at(0, b"ab").unwrap();
        file.sync().unwrap();
        assert_eq!(disk.open("a").unwrap().read_all().unwrap(), b"ab");
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
