//! The files of a tree as bytes: its manifest, and the blocks of its sorted files. The library
//! verifies a block when it reads it; here everything is verified, and what is good is brought out of
//! files that are not.
//!
//! The library keeps the id of the newest manifest and its checksum in `current`, the checksum of each
//! whole sorted file in the manifest, and a checksum in the head of each block.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use lsm_tree::table::{Block, Scanner};
use lsm_tree::{CompressionType, ValueType};
use xxhash_rust::xxh3::Xxh3Default;

use crate::engine::{SeqNo, TreeBytes};
use crate::folder::FILES_FOLDER;

/// The library's name of the file that names the newest manifest.
const CURRENT: &str = "current";
/// What the names of manifests begin with; sorted files have numbers for names.
const MANIFEST_MARK: char = 'v';
/// Id of the manifest, its checksum, kind of checksum.
const CURRENT_BYTES: usize = 8 + 16 + 1;
/// The only kind of checksum there is.
const CHECKSUM_XXH3: u8 = 0;
/// How much is read at once.
const CHUNK_BYTES: usize = 256 * 1024;

const BLOCK_MAGIC: [u8; 4] = [b'L', b'S', b'M', 3];
/// Magic, type, checksum of the data, both lengths, checksum of the head.
const BLOCK_HEAD_BYTES: usize = 4 + 1 + 16 + 4 + 4 + 4;
const BLOCK_DATA: u8 = 0;

/// What a file of a tree ends with: magic, version, kind of checksum, checksum, place and length of its
/// table of contents.
const TRAILER_BYTES: usize = 4 + 1 + 1 + 16 + 8 + 8;
/// What an entry of a table of contents takes at the least: place, length and an empty name.
const CONTENTS_ENTRY_BYTES_MIN: u64 = 8 + 8 + 2;

/// Something in a file that is not as it was written.
#[derive(Clone, Debug)]
pub struct FileDamage {
    pub path: PathBuf,
    pub offset: u64,
    pub what: String,
}

impl FileDamage {
    fn new(path: &Path, offset: u64, what: impl Into<String>) -> FileDamage {
        FileDamage { path: path.to_owned(), offset, what: what.into() }
    }
}

/// A sorted file that the manifest names.
#[derive(Clone, Debug)]
pub struct SortedFile {
    pub path: PathBuf,
    pub checksum: u128,
}

/// What a manifest with that id is called.
fn manifest_name(id: [u8; 8]) -> String {
    format!("{MANIFEST_MARK}{}", u64::from_le_bytes(id))
}

/// Reads the newest manifest of a tree and verifies it.
pub fn read_manifest(folder: &Path) -> Result<Vec<SortedFile>, FileDamage> {
    let path = folder.join(CURRENT);
    let current = fs::read(&path).map_err(|error| FileDamage::new(&path, 0, told(&error)))?;
    let malformed = || FileDamage::new(&path, 0, "it does not name a manifest");
    let current: [u8; CURRENT_BYTES] = current.try_into().map_err(|_| malformed())?;
    let [id @ .., CHECKSUM_XXH3] = current else { return Err(malformed()) };
    let (id, checksum) = id.split_first_chunk::<8>().ok_or_else(malformed)?;
    let checksum: [u8; 16] = checksum.try_into().map_err(|_| malformed())?;
    let path = folder.join(manifest_name(*id));
    let manifest = fs::read(&path).map_err(|error| {
        FileDamage::new(&path, 0, format!("the manifest cannot be read: {error}"))
    })?;
    let mut hasher = Xxh3Default::new();
    hasher.update(&manifest);
    if hasher.digest128() != u128::from_le_bytes(checksum) {
        return Err(FileDamage::new(&path, 0, "the manifest is not what was written"));
    }
    named_files(folder, &path).map_err(|error| {
        FileDamage::new(&path, 0, format!("the manifest does not follow its format: {error}"))
    })
}

/// The first file of a tree whose table of contents says that it has more entries than there is room for. The
/// library asks for the memory of that many before it verifies the number, and gets none: the process would end.
pub fn impossible_contents(folder: &Path) -> Option<FileDamage> {
    let folders = [folder.to_owned(), folder.join(FILES_FOLDER)];
    // What cannot be read the library complains of.
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let newest = fs::read(folder.join(CURRENT)).ok();
    let newest = newest.as_deref().and_then(<[u8]>::first_chunk::<8>).map(|id| manifest_name(*id));
    // Nobody looks at older manifests.
    let is_read = |path: &Path| match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.starts_with(MANIFEST_MARK) => newest.as_deref() == Some(name),
        _ => path.is_file(),
    };
    let mut paths = entries.map(|entry| entry.path()).filter(|path| is_read(path));
    paths.find_map(|path| {
        let offset = impossible_count_at(&path).ok()??;
        Some(FileDamage::new(&path, offset, "its table of contents is not what was written"))
    })
}

/// Where the number of entries stands, if it is impossible.
fn impossible_count_at(path: &Path) -> io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    file.seek(SeekFrom::Start(trailer_at))?;
    let trailer: [u8; TRAILER_BYTES] = read_array(&mut file)?;
    let [b'S', b'F', b'A', b'!', _, _, rest @ ..] = trailer else { return Ok(None) };
    let place = rest.get(16..24).and_then(|place| place.try_into().ok());
    let Some(contents_at) = place.map(u64::from_le_bytes).filter(|place| *place < trailer_at)
    else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(contents_at))?;
    let _magic: [u8; 4] = read_array(&mut file)?;
    let count = u32::from_le_bytes(read_array(&mut file)?);
    let is_impossible = u64::from(count) * CONTENTS_ENTRY_BYTES_MIN > trailer_at - contents_at;
    Ok(is_impossible.then_some(contents_at + 4))
}

/// The sorted files that a manifest names.
fn named_files(folder: &Path, manifest: &Path) -> io::Result<Vec<SortedFile>> {
    let malformed = |_: sfa::Error| io::Error::from(io::ErrorKind::InvalidData);
    let reader = sfa::Reader::new(manifest).map_err(malformed)?;
    let section = reader.toc().section(b"tables").ok_or(io::ErrorKind::InvalidData)?;
    let mut reader = section.buf_reader(manifest)?;
    let mut files = Vec::new();
    for _level in 0..u8::from_le_bytes(read_array(&mut reader)?) {
        for _run in 0..u8::from_le_bytes(read_array(&mut reader)?) {
            for _file in 0..u32::from_le_bytes(read_array(&mut reader)?) {
                let id = u64::from_le_bytes(read_array(&mut reader)?);
                let [_kind] = read_array(&mut reader)?;
                let checksum = u128::from_le_bytes(read_array(&mut reader)?);
                let _global_seqno: [u8; 8] = read_array(&mut reader)?;
                let path = folder.join(FILES_FOLDER).join(id.to_string());
                files.push(SortedFile { path, checksum });
            }
        }
    }
    Ok(files)
}

fn read_array<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Verifies a whole sorted file; `on_bytes` hears how much was read. What is damaged is told block
/// by block.
pub fn verify_file(file: &SortedFile, on_bytes: &mut dyn FnMut(u64)) -> Vec<FileDamage> {
    let checked = (|| {
        let mut reader = File::open(&file.path)?;
        let mut hasher = Xxh3Default::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = reader.read(&mut chunk)?;
            if count == 0 {
                return Ok::<u128, io::Error>(hasher.digest128());
            }
            hasher.update(chunk.get(..count).unwrap_or_default());
            on_bytes(count as u64);
        }
    })();
    match checked {
        Ok(checksum) if checksum == file.checksum => Vec::new(),
        Ok(_) => {
            let bad = walk(&file.path, &mut |_, _| Ok(()));
            match bad {
                Ok(bad) if bad.is_empty() => {
                    vec![FileDamage::new(
                        &file.path,
                        0,
                        "the end of the file is not what was written",
                    )]
                }
                Ok(bad) => bad,
                Err(error) => vec![FileDamage::new(&file.path, 0, told(&error))],
            }
        }
        Err(error) => vec![FileDamage::new(&file.path, 0, told(&error))],
    }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the file is missing".to_owned(),
        _ => error.to_string(),
    }
}

/// Goes from block to block; good ones are handed out with head. Where a block is bad the next is
/// looked for by its first bytes. The table of contents behind the last block belongs to none.
fn walk(
    path: &Path,
    on_block: &mut dyn FnMut(u8, &[u8]) -> io::Result<()>,
) -> io::Result<Vec<FileDamage>> {
    let bytes = fs::read(path)?;
    let mut bad = Vec::new();
    let mut offset = 0;
    // The contents of an archive begin so, and stand behind all blocks.
    let end = bytes.windows(4).rposition(|window| window == b"TOC!").unwrap_or(bytes.len());
    while offset < end {
        let rest = bytes.get(offset..).unwrap_or_default();
        if let Some(length) = good_block(rest) {
            let block = rest.get(..length).unwrap_or_default();
            on_block(block.get(4).copied().unwrap_or_default(), block)?;
            offset += length;
            continue;
        }
        let next = rest
            .get(1..)
            .unwrap_or_default()
            .windows(BLOCK_MAGIC.len())
            .position(|window| window == BLOCK_MAGIC)
            .map_or(end, |found| (offset + 1 + found).min(end).max(offset + 1));
        // What is skipped may itself look like a beginning: one report per run of bad bytes.
        let bytes = next - offset;
        bad.push(FileDamage::new(
            path,
            offset as u64,
            format!("a block of about {bytes} bytes is not what was written"),
        ));
        offset = next;
    }
    Ok(bad)
}

/// The length of the block at the start of the bytes, if it is good.
fn good_block(bytes: &[u8]) -> Option<usize> {
    let (head, data) = bytes.split_first_chunk::<BLOCK_HEAD_BYTES>()?;
    let (checked, checksum) = head.split_last_chunk::<4>()?;
    if *checked.first_chunk::<4>()? != BLOCK_MAGIC {
        return None;
    }
    let mut hasher = Xxh3Default::new();
    hasher.update(checked);
    if hasher.digest128() as u32 != u32::from_le_bytes(*checksum) {
        return None;
    }
    let expected = u128::from_le_bytes(*checked.get(5..)?.first_chunk::<16>()?);
    let length = u32::from_le_bytes(*checked.get(21..)?.first_chunk::<4>()?);
    let data = data.get(..usize::try_from(length).ok()?)?;
    let mut hasher = Xxh3Default::new();
    hasher.update(data);
    (hasher.digest128() == expected).then_some(BLOCK_HEAD_BYTES + data.len())
}

/// A version of a key that was brought out of a damaged file; without a value it was removed.
pub struct Salvaged {
    pub key: TreeBytes,
    pub value: Option<TreeBytes>,
    pub seqno: SeqNo,
}

/// Brings out every entry of every good block. `scratch` is a file that may be written.
pub fn salvage_entries(
    path: &Path,
    scratch: &Path,
    on_entry: &mut dyn FnMut(Salvaged),
) -> io::Result<Vec<FileDamage>> {
    let mut good = BufWriter::new(File::create(scratch)?);
    let mut count = 0;
    let mut compression = CompressionType::None;
    let mut first: Option<Vec<u8>> = None;
    let bad = walk(path, &mut |kind, block| {
        if kind == BLOCK_DATA {
            let lengths = block.get(21..29).unwrap_or_default();
            if lengths.get(..4) != lengths.get(4..) {
                compression = CompressionType::Lz4;
            }
            first.get_or_insert_with(|| block.to_vec());
            count += 1;
            good.write_all(block)?;
        }
        Ok(())
    })?;
    good.flush()?;
    drop(good);
    if let Some(first) = first {
        // A compressed block may by chance be as long as it was before.
        if Block::from_reader(&mut BufReader::new(first.as_slice()), CompressionType::Lz4).is_ok() {
            compression = CompressionType::Lz4;
        }
        let unreadable = |error: lsm_tree::Error| io::Error::other(error.to_string());
        let entries = Scanner::new(scratch, count, compression, 0).map_err(unreadable)?;
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let value = match entry.key.value_type {
                ValueType::Value | ValueType::Indirection => Some(entry.value),
                ValueType::Tombstone | ValueType::WeakTombstone => None,
            };
            on_entry(Salvaged { key: entry.key.user_key, value, seqno: entry.key.seqno });
        }
    }
    fs::remove_file(scratch)?;
    Ok(bad)
}
