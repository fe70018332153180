//! Images that are being handed to this node, in files beside the log until they are in the trees (see
//! `docs/formats/transfer.md`). A file counts only as a whole: its end says how many chunks it has.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use node_log::{Disk, LogFile};
use types::{ReplicaId, SetId};

use crate::image::{Chunk, ImageHead, SPACES};

/// What the names of such files begin with.
const PREFIX: &str = "staged-";
/// In place of the length of a chunk: there are no more.
const END: u32 = u32::MAX;
/// A chunk has at most so many bytes.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The name of the image that a member is handed, up to an entry.
pub(crate) fn staged_name(set: SetId, replica: ReplicaId, index: u64) -> String {
    format!("{PREFIX}{:08x}-{:016x}-{index:016x}", set.0, replica.0)
}

pub(crate) fn is_staged_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// An image that comes.
#[derive(Debug)]
pub struct Staging {
    disk: Arc<dyn Disk>,
    name: String,
    file: Box<dyn LogFile>,
    offset: u64,
    count: u32,
    /// Up to where it was synced.
    synced: u64,
}

impl Staging {
    pub(crate) fn begin(
        disk: &Arc<dyn Disk>,
        replica: ReplicaId,
        head: &ImageHead,
    ) -> io::Result<Staging> {
        let name = staged_name(head.set, replica, head.place.index);
        let file = disk.create(&name, 0)?;
        let disk = Arc::clone(disk);
        let mut staging = Staging { disk, name, file, offset: 0, count: 0, synced: 0 };
        staging.put(&head.to_bytes())?;
        Ok(staging)
    }

    /// One more chunk.
    pub fn put(&mut self, chunk: &[u8]) -> io::Result<()> {
        let length = u32::try_from(chunk.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(&crc32fast::hash(chunk).to_be_bytes());
        bytes.extend_from_slice(chunk);
        self.file.write_at(self.offset, &bytes)?;
        self.offset += bytes.len() as u64;
        self.count += 1;
        Ok(())
    }

    /// So many bytes of it may be lost with the power, and have the last sync take long.
    pub fn unsynced_bytes(&self) -> u64 {
        self.offset - self.synced
    }

    /// What came so far lasts.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync()?;
        self.synced = self.offset;
        Ok(())
    }

    /// It is whole. Lasting.
    pub fn finish(mut self) -> io::Result<()> {
        let count = self.count.to_be_bytes();
        let mut bytes = END.to_be_bytes().to_vec();
        bytes.extend_from_slice(&crc32fast::hash(&count).to_be_bytes());
        bytes.extend_from_slice(&count);
        self.file.write_at(self.offset, &bytes)?;
        self.file.sync()
    }

    /// It will never be whole.
    pub fn give_up(self) {
        if let Err(error) = self.disk.remove(&self.name) {
            tracing::warn!(%error, name = %self.name, "an image could not be removed");
        }
    }
}

/// An image that is read back, chunk by chunk.
pub(crate) struct Staged {
    file: Box<dyn LogFile>,
    offset: u64,
    count: u32,
    /// Where the first chunk lies.
    first: u64,
}

impl Staged {
    /// The image of that name, with its head; `None` if there is none.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        name: &str,
    ) -> io::Result<Option<(Staged, ImageHead)>> {
        let file = match disk.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut staged = Staged { file, offset: 0, count: 0, first: 0 };
        let head = staged.next()?.ok_or(io::ErrorKind::InvalidData)?;
        let head = ImageHead::from_bytes(head).map_err(|_| io::ErrorKind::InvalidData)?;
        staged.first = staged.offset;
        Ok(Some((staged, head)))
    }

    /// The next chunk; `None` at the end of a whole image. What is not whole is an error.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut head = [0; 8];
        self.file.read_at(self.offset, &mut head)?;
        let [l0, l1, l2, l3, s0, s1, s2, s3] = head;
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let sum = u32::from_be_bytes([s0, s1, s2, s3]);
        let is_end = length == END;
        let length = if is_end { 4 } else { length as usize };
        if length > CHUNK_BYTES_MAX + 1024 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        self.file.read_at(self.offset + 8, &mut bytes)?;
        if crc32fast::hash(&bytes) != sum {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if is_end {
            let is_whole = bytes == self.count.to_be_bytes();
            return if is_whole { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
        self.offset += 8 + length as u64;
        self.count += 1;
        Ok(Some(Bytes::from(bytes)))
    }
}

/// Which of the tables of an image, and which of the kinds of keys that a set has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) table: usize,
    pub(crate) space: usize,
}

/// A pair with what it is.
struct Pair {
    kind: Kind,
    key: Bytes,
    value: Bytes,
}

/// The pairs of an image that is read back. Each was looked at: its table is one of the image, and its key one of the set, behind the one
/// before it of the same kind.
pub(crate) struct StagedPairs<'i> {
    staged: Staged,
    table_count: usize,
    bounds: &'i [(Vec<u8>, Vec<u8>); SPACES],
    chunk: Option<Chunk>,
    /// What comes next; none before it was looked for, and at the end.
    next: Option<Pair>,
    /// The last one that was taken.
    last: Option<(Kind, Bytes)>,
}

impl<'i> StagedPairs<'i> {
    pub(crate) fn new(
        staged: Staged,
        table_count: usize,
        bounds: &'i [(Vec<u8>, Vec<u8>); SPACES],
    ) -> StagedPairs<'i> {
        StagedPairs { staged, table_count, bounds, chunk: None, next: None, last: None }
    }

    /// The same once more, from the beginning.
    pub(crate) fn again(self) -> StagedPairs<'i> {
        let StagedPairs { mut staged, table_count, bounds, .. } = self;
        (staged.offset, staged.count) = (staged.first, 1);
        StagedPairs::new(staged, table_count, bounds)
    }

    /// Of which kind the next pair is; `None` when there is none.
    pub(crate) fn kind(&mut self) -> io::Result<Option<Kind>> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        Ok(self.next.as_ref().map(|next| next.kind))
    }

    /// The next pair, if it is of that kind.
    pub(crate) fn next_of(&mut self, kind: Kind) -> io::Result<Option<(Bytes, Bytes)>> {
        if self.kind()? != Some(kind) {
            return Ok(None);
        }
        let Some(Pair { key, value, .. }) = self.next.take() else { return Ok(None) };
        self.last = Some((kind, key.clone()));
        Ok(Some((key, value)))
    }

    fn read(&mut self) -> io::Result<Option<Pair>> {
        let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
        loop {
            if let Some(chunk) = &mut self.chunk
                && let Some((key, value)) = chunk.next().map_err(malformed)?
            {
                let table = chunk.table;
                let space = self.space_of(&key).ok_or(io::ErrorKind::InvalidData)?;
                let kind = Kind { table, space };
                let is_behind = |(last, before): &(Kind, Bytes)| *last != kind || *before < key;
                if !self.last.as_ref().is_none_or(is_behind) {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                return Ok(Some(Pair { kind, key, value }));
            }
            let Some(bytes) = self.staged.next()? else { return Ok(None) };
            let chunk = Chunk::decode(bytes).map_err(malformed)?;
            if chunk.table >= self.table_count {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.chunk = Some(chunk);
        }
    }

    fn space_of(&self, key: &[u8]) -> Option<usize> {
        let is_inside =
            |(start, end): &(Vec<u8>, Vec<u8>)| start.as_slice() <= key && key < end.as_slice();
        self.bounds.iter().position(is_inside)
    }
}
