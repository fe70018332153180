//! What the preloaded library wrote down.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Operation, two lengths, zero, inode, number.
const HEAD_BYTES: usize = 32;

/// Something that was done to the folder. Paths begin after the folder's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A file was made.
    Create { path: String, inode: u64 },
    /// A folder was made.
    Folder { path: String, inode: u64 },
    /// Bytes were written.
    Write {
        /// Into which file.
        inode: u64,
        /// At which place.
        offset: u64,
        /// Where the bytes stand in the journal.
        bytes: Range<usize>,
    },
    /// A file got another length.
    Resize {
        /// Which file.
        inode: u64,
        /// How long it is now.
        size: u64,
    },
    /// A sync of a file or folder began.
    SyncBegun {
        /// Of which.
        inode: u64,
        /// Which sync it is.
        ticket: u64,
        /// How long the file was.
        size: u64,
    },
    /// A sync has succeeded.
    Synced {
        /// Which sync it is.
        ticket: u64,
    },
    /// A file or folder got another name.
    Rename {
        /// The old one.
        from: String,
        /// The new one.
        to: String,
    },
    /// A file got one more name.
    Link {
        /// One it had.
        from: String,
        /// The new one.
        to: String,
    },
    /// A name was removed.
    Remove { path: String },
}

/// All records, in the order in which the calls returned.
#[derive(Debug, Default)]
pub struct Journal {
    bytes: Vec<u8>,
    /// With the place at which each one ends.
    records: Vec<(u64, Record)>,
}

impl Journal {
    /// Reads a journal. A last record that is cut short was never answered, and is left out.
    pub fn read(path: &Path) -> io::Result<Journal> {
        let bytes = fs::read(path)?;
        let mut records = Vec::new();
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
            let op = number32(head, 0);
            let first = number32(head, 4) as usize;
            let second = number32(head, 8) as usize;
            let (inode, number) = (number64(head, 16), number64(head, 24));
            let start = at + HEAD_BYTES;
            let end = start + first + second;
            let (Some(a), Some(b)) =
                (bytes.get(start..start + first), bytes.get(start + first..end))
            else {
                break;
            };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let record = match u8::try_from(op).unwrap_or(0) {
                b'C' => Record::Create { path: text(a), inode },
                b'M' => Record::Folder { path: text(a), inode },
                b'W' => Record::Write { inode, offset: number, bytes: start..start + first },
                b'T' => Record::Resize { inode, size: number },
                b'f' => Record::SyncBegun { inode, ticket: number, size: number64(a, 0) },
                b'F' => Record::Synced { ticket: number },
                b'R' => Record::Rename { from: text(a), to: text(b) },
                b'L' => Record::Link { from: text(a), to: text(b) },
                b'U' | b'D' => Record::Remove { path: text(a) },
                _ => return Err(io::Error::other(format!("unknown record {op} at {at}"))),
            };
            records.push((end as u64, record));
            at = end;
        }
        Ok(Journal { bytes, records })
    }

    /// The records, each with the place at which it ends.
    pub fn records(&self) -> &[(u64, Record)] {
        &self.records
    }

    /// The bytes of a write.
    pub(super) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn number64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
