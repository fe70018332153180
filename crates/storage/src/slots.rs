//! A file of small records that are written over in place, for what must last within one sync and is
//! kept as a whole elsewhere a little later.
//!
//! Its room is taken when it is made, and written once: a sync of a record waits for no change of the
//! file system. A record replaces another one, so each is written twice: a torn write or a damaged
//! sector spoils one copy at most of what was there for long. `docs/formats/tree.md` has the bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::data_dir::sync_folder;
use crate::error::{Affected, OpenError};

/// What the names of such files end with.
pub(crate) const EXTENSION: &str = "slots";

const MAGIC: [u8; 6] = *b"HELSLT";
const VERSION: u16 = 1;
/// Magic, version and checksum, and nothing behind them.
const HEAD_BYTES: usize = 4096;
const SLOT_BYTES: usize = 1024;
/// Length and checksum.
const SLOT_HEAD_BYTES: usize = 4 + 4;
const COPIES: u64 = 2;
const FILE_BYTES: usize = HEAD_BYTES + COPIES as usize * Slots::COUNT as usize * SLOT_BYTES;

/// A file of slots, open.
#[derive(Debug)]
pub struct Slots {
    path: PathBuf,
    name: String,
    file: File,
}

impl Slots {
    /// How many records it holds.
    pub const COUNT: u64 = 64;
    /// How long a record may be.
    pub const RECORD_BYTES_MAX: usize = SLOT_BYTES - SLOT_HEAD_BYTES;

    /// Opens a file in a folder of documents; makes it if there is none.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<Slots, OpenError> {
        let path = folder.join(name).with_extension(EXTENSION);
        if !path.exists() {
            create(folder, &path).map_err(OpenError::io(&path))?;
        }
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(OpenError::io(&path))?;
        let slots = Slots { path, name: name.to_owned(), file };
        slots.all()?;
        Ok(slots)
    }

    /// What a file in a folder of documents holds, which is not to be changed.
    pub(crate) fn load(folder: &Path, name: &str) -> Result<Vec<Vec<u8>>, OpenError> {
        let path = folder.join(name).with_extension(EXTENSION);
        let file = File::open(&path).map_err(OpenError::io(&path))?;
        Slots { path, name: name.to_owned(), file }.all()
    }

    /// Puts a record into a slot, lasting; numbers beyond the last slot begin again with the first.
    pub fn put(&self, number: u64, record: &[u8]) -> io::Result<()> {
        if record.len() > Slots::RECORD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        if !record.is_empty() {
            let length = (record.len() as u32).to_be_bytes();
            bytes.extend_from_slice(&length);
            bytes.extend_from_slice(&checksum(&length, record).to_be_bytes());
            bytes.extend_from_slice(record);
        }
        bytes.resize(SLOT_BYTES, 0);
        for copy in 0..COPIES {
            self.file.write_all_at(&bytes, slot_offset(copy, number % Slots::COUNT))?;
        }
        self.file.sync_data()
    }

    /// Every record, in no order that means anything.
    pub fn all(&self) -> Result<Vec<Vec<u8>>, OpenError> {
        let damaged = |what| {
            let affected = Affected::Document(self.name.clone());
            OpenError::Damaged { path: self.path.clone(), offset: 0, what, affected }
        };
        let mut bytes = vec![0; FILE_BYTES];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damaged("the file of slots is shorter than it was made"));
            }
            Err(error) => return Err(OpenError::Io { path: self.path.clone(), error }),
        }
        let (head, slots) = bytes.split_at(HEAD_BYTES);
        let known = encode_head();
        if head.get(..known.len()) != Some(known.as_slice()) {
            return Err(match head {
                [magic @ .., _, _] if !magic.starts_with(&MAGIC) => {
                    damaged("the file does not start as one of slots")
                }
                _ => damaged("the head of the file of slots is damaged"),
            });
        }
        let (first, second) = slots.split_at(slots.len() / COPIES as usize);
        let pairs = first.chunks_exact(SLOT_BYTES).zip(second.chunks_exact(SLOT_BYTES));
        let records = pairs.filter_map(|(one, other)| decode(one).or_else(|| decode(other)));
        Ok(records.map(<[u8]>::to_vec).collect())
    }
}

fn encode_head() -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&VERSION.to_be_bytes());
    head.extend_from_slice(&crc32fast::hash(&head).to_be_bytes());
    head
}

fn create(folder: &Path, path: &Path) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut bytes = encode_head();
    bytes.resize(FILE_BYTES, 0);
    let mut file = File::create(&temporary)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_folder(folder)
}

fn slot_offset(copy: u64, slot: u64) -> u64 {
    HEAD_BYTES as u64 + (copy * Slots::COUNT + slot) * SLOT_BYTES as u64
}

fn checksum(length: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(length);
    hasher.update(record);
    hasher.finalize()
}

/// The record of a slot; `None` if there is none, or not a whole one.
fn decode(slot: &[u8]) -> Option<&[u8]> {
    let (length, rest) = slot.split_first_chunk::<4>()?;
    let (expected, rest) = rest.split_first_chunk::<4>()?;
    let record = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    let is_whole = checksum(length, record) == u32::from_be_bytes(*expected);
    (is_whole && !record.is_empty()).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn records_come_back_and_a_flipped_bit_costs_none() {
        let folder = TestFolder::new("slots");
        let slots = Slots::open(folder.path(), "changes").unwrap();
        assert!(slots.all().unwrap().is_empty());
        for number in 0..Slots::COUNT + 2 {
            slots.put(number, format!("change {number}").as_bytes()).unwrap();
        }
        slots.put(5, &[]).unwrap();
        let known = |slots: &Slots| {
            let mut all = slots.all().unwrap();
            all.sort();
            all
        };
        let before = known(&slots);
        assert_eq!(before.len() as u64, Slots::COUNT - 1);
        assert!(before.contains(&b"change 65".to_vec()) && !before.contains(&b"change 1".to_vec()));
        assert!(slots.put(0, &[1; Slots::RECORD_BYTES_MAX + 1]).is_err());
        drop(slots);
        let path = folder.path().join("changes.slots");
        let good = fs::read(&path).unwrap();
        // Every bit of one slot in both copies, and of the head.
        let ranges = [0..12, 4096..4096 + 24, 4096 + 65_536..4096 + 65_536 + 24];
        for bit in ranges.into_iter().flatten().flat_map(|byte| byte * 8..byte * 8 + 8) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            File::create(&path).unwrap().write_all(&bad).unwrap();
            match Slots::open(folder.path(), "changes") {
                Ok(slots) => assert_eq!(known(&slots), before, "bit {bit}"),
                Err(error) => assert!(bit / 8 < 12, "bit {bit}: {error}"),
            }
        }
        File::create(&path).unwrap().write_all(&good[..5000]).unwrap();
        assert!(Slots::open(folder.path(), "changes").is_err());
    }
}
