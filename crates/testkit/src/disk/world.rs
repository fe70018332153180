//! What of the recorded calls lasts.
//!
//! A file's bytes last when a sync of it that began after the write has succeeded; a name when such a
//! sync of its folder has. Of everything else a loss of power leaves all, nothing, the first part or
//! any part, and of a write any of its sectors. A rename happens or does not, never by half.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::journal::{Journal, Record};
use crate::differential::random::Dice;

/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// A file or folder, whatever its names are.
type ThingId = usize;

/// What a loss of power leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Nothing,
    /// Everything, as after a crash of the process alone.
    Everything,
    /// The names as they were, none of the bytes.
    NamesOnly,
    /// The bytes as they were, none of the names.
    BytesOnly,
    /// Of each file and each folder the first part.
    FirstPart,
    /// Anything: sectors and names by chance.
    Anything,
}

impl Mood {
    /// All of them.
    pub const ALL: [Mood; 6] = [
        Mood::Nothing,
        Mood::Everything,
        Mood::NamesOnly,
        Mood::BytesOnly,
        Mood::FirstPart,
        Mood::Anything,
    ];
}

#[derive(Clone, Debug)]
enum FileChange {
    Write { offset: u64, bytes: Range<usize> },
    Resize(u64),
}

#[derive(Debug, Default)]
struct Thing {
    is_folder: bool,
    /// What lasts.
    lasting: Vec<u8>,
    pending: Vec<FileChange>,
    /// Changes that became lasting.
    lasted: usize,
    size: u64,
}

/// A change of names in one folder, or in two.
#[derive(Clone, Debug)]
enum Naming {
    Add { folder: ThingId, name: String, thing: ThingId },
    Remove { folder: ThingId, name: String },
    Move { from: (ThingId, String), to: (ThingId, String), thing: ThingId },
}

impl Naming {
    fn touches(&self, folder: ThingId) -> bool {
        match self {
            Naming::Add { folder: of, .. } | Naming::Remove { folder: of, .. } => *of == folder,
            Naming::Move { from, to, .. } => from.0 == folder || to.0 == folder,
        }
    }

    fn folder(&self) -> ThingId {
        match self {
            Naming::Add { folder, .. } | Naming::Remove { folder, .. } => *folder,
            Naming::Move { to, .. } => to.0,
        }
    }
}

type Names = BTreeMap<(ThingId, String), ThingId>;

fn apply(names: &mut Names, naming: &Naming) {
    match naming {
        Naming::Add { folder, name, thing } => {
            names.insert((*folder, name.clone()), *thing);
        }
        Naming::Remove { folder, name } => {
            names.remove(&(*folder, name.clone()));
        }
        Naming::Move { from, to, thing } => {
            if names.get(from) == Some(thing) {
                names.remove(from);
            }
            names.insert(to.clone(), *thing);
        }
    }
}

#[derive(Debug)]
struct Sync {
    thing: ThingId,
    /// How many changes of the file, or changes of names, it covers.
    covers: usize,
}

/// The folder at some moment: what is there, and what of it lasts.
#[derive(Debug)]
pub struct World {
    things: Vec<Thing>,
    by_inode: HashMap<u64, ThingId>,
    /// The names as the node sees them.
    names: Names,
    lasting_names: Names,
    /// Changes of names that may not last, in order, each with its number.
    namings: Vec<(usize, Naming)>,
    naming_count: usize,
    syncs: HashMap<u64, Sync>,
}

const ROOT: ThingId = 0;

impl World {
    /// A folder as it lies on the disk; everything in it lasts.
    pub fn of_folder(folder: &Path) -> io::Result<World> {
        let mut world = World {
            things: vec![Thing { is_folder: true, ..Thing::default() }],
            by_inode: HashMap::new(),
            names: Names::new(),
            lasting_names: Names::new(),
            namings: Vec::new(),
            naming_count: 0,
            syncs: HashMap::new(),
        };
        world.by_inode.insert(fs::metadata(folder)?.ino(), ROOT);
        world.add_folder(folder, ROOT)?;
        world.lasting_names = world.names.clone();
        Ok(world)
    }

    fn add_folder(&mut self, path: &Path, id: ThingId) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !metadata.is_dir() && !metadata.is_file() {
                continue;
            }
            let thing = match self.by_inode.get(&metadata.ino()) {
                Some(thing) => *thing,
                None => {
                    let thing = self.new_thing(metadata.ino(), metadata.is_dir());
                    if metadata.is_dir() {
                        self.add_folder(&entry.path(), thing)?;
                    } else if let Some(file) = self.things.get_mut(thing) {
                        file.lasting = fs::read(entry.path())?;
                        file.size = file.lasting.len() as u64;
                    }
                    thing
                }
            };
            self.names.insert((id, name), thing);
        }
        Ok(())
    }

    fn new_thing(&mut self, inode: u64, is_folder: bool) -> ThingId {
        let id = self.things.len();
        self.things.push(Thing { is_folder, ..Thing::default() });
        self.by_inode.insert(inode, id);
        id
    }

    /// The folder and the last part of a path.
    fn place(&self, path: &str) -> Option<(ThingId, String)> {
        let mut at = ROOT;
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
        while let Some(part) = parts.next() {
            let key = (at, part.to_string());
            if parts.peek().is_none() {
                return Some(key);
            }
            at = *self.names.get(&key)?;
        }
        None
    }

    fn rename(&mut self, naming: Naming) {
        apply(&mut self.names, &naming);
        self.namings.push((self.naming_count, naming));
        self.naming_count += 1;
    }

    /// Goes one record further.
    pub fn advance(&mut self, record: &Record, journal: &Journal) -> Result<(), String> {
        let unknown = || format!("not known where: {record:?}");
        match record {
            Record::Create { path, inode } | Record::Folder { path, inode } => {
                let is_folder = matches!(record, Record::Folder { .. });
                let thing = self.new_thing(*inode, is_folder);
                // The folder itself is not in anything that is watched.
                if path.is_empty() {
                    self.by_inode.insert(*inode, ROOT);
                    return Ok(());
                }
                let (folder, name) = self.place(path).ok_or_else(unknown)?;
                self.rename(Naming::Add { folder, name, thing });
            }
            Record::Write { inode, offset, bytes } => {
                let file = self.file(*inode).ok_or_else(unknown)?;
                file.size = file.size.max(offset + bytes.len() as u64);
                file.pending.push(FileChange::Write { offset: *offset, bytes: bytes.clone() });
            }
            Record::Resize { inode, size } => {
                let file = self.file(*inode).ok_or_else(unknown)?;
                file.size = *size;
                file.pending.push(FileChange::Resize(*size));
            }
            Record::SyncBegun { inode, ticket, size } => {
                let Some(id) = self.by_inode.get(inode).copied() else { return Ok(()) };
                let naming_count = self.naming_count;
                let Some(thing) = self.things.get_mut(id) else { return Ok(()) };
                let covers = match thing.is_folder {
                    true => naming_count,
                    false => {
                        if thing.size < *size {
                            thing.size = *size;
                            thing.pending.push(FileChange::Resize(*size));
                        }
                        thing.lasted + thing.pending.len()
                    }
                };
                self.syncs.insert(*ticket, Sync { thing: id, covers });
            }
            Record::Synced { ticket } => {
                if let Some(sync) = self.syncs.remove(ticket) {
                    self.settle(&sync, journal);
                }
            }
            Record::Rename { from, to } => {
                let from = self.place(from).ok_or_else(unknown)?;
                let to = self.place(to).ok_or_else(unknown)?;
                let thing = *self.names.get(&from).ok_or_else(unknown)?;
                self.rename(Naming::Move { from, to, thing });
            }
            Record::Link { from, to } => {
                let from = self.place(from).ok_or_else(unknown)?;
                let (folder, name) = self.place(to).ok_or_else(unknown)?;
                let thing = *self.names.get(&from).ok_or_else(unknown)?;
                self.rename(Naming::Add { folder, name, thing });
            }
            Record::Remove { path } => {
                let (folder, name) = self.place(path).ok_or_else(unknown)?;
                self.rename(Naming::Remove { folder, name });
            }
        }
        Ok(())
    }

    fn file(&mut self, inode: u64) -> Option<&mut Thing> {
        let id = *self.by_inode.get(&inode)?;
        self.things.get_mut(id)
    }

    /// What a sync covers lasts.
    fn settle(&mut self, sync: &Sync, journal: &Journal) {
        let Some(thing) = self.things.get_mut(sync.thing) else { return };
        if thing.is_folder {
            let lasting = &mut self.lasting_names;
            self.namings.retain(|(number, naming)| {
                let lasts = *number < sync.covers && naming.touches(sync.thing);
                if lasts {
                    apply(lasting, naming);
                }
                !lasts
            });
            return;
        }
        let count = sync.covers.saturating_sub(thing.lasted).min(thing.pending.len());
        for change in thing.pending.drain(..count) {
            put(&mut thing.lasting, &change, journal);
        }
        thing.lasted += count;
    }

    /// How many changes might not last: of bytes, of names.
    pub fn pending(&self) -> (usize, usize) {
        (self.things.iter().map(|thing| thing.pending.len()).sum(), self.namings.len())
    }

    /// Writes the folder as it could be after a loss of power now into a new folder.
    pub fn write_image(
        &self,
        journal: &Journal,
        mood: Mood,
        seed: u64,
        folder: &Path,
    ) -> io::Result<()> {
        let mut dice = Dice::new(seed);
        let names = self.names_after(mood, &mut dice);
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        let mut written = HashMap::new();
        let mut open = vec![(ROOT, folder.to_path_buf())];
        while let Some((id, path)) = open.pop() {
            let from = (id, String::new());
            for ((_, name), thing) in names.range(from..).take_while(|((of, _), _)| *of == id) {
                let path = path.join(name);
                let Some(what) = self.things.get(*thing) else { continue };
                if what.is_folder {
                    fs::create_dir(&path)?;
                    open.push((*thing, path));
                } else if let Some(first) = written.get(thing) {
                    fs::hard_link(first, &path)?;
                } else {
                    // Each file by chances of its own, whatever its name is.
                    let mut dice = Dice::new(seed ^ (*thing as u64 + 1).wrapping_mul(0x9e37_79b9));
                    let bytes = bytes_after(what, journal, mood, &mut dice);
                    File::create(&path)?.write_all(&bytes)?;
                    written.insert(*thing, path);
                }
            }
        }
        Ok(())
    }

    fn names_after(&self, mood: Mood, dice: &mut Dice) -> Names {
        let mut names = self.lasting_names.clone();
        // Of each folder the first so many changes.
        let mut left: HashMap<ThingId, usize> = HashMap::new();
        for (_, naming) in &self.namings {
            *left.entry(naming.folder()).or_default() += 1;
        }
        let mut folders: Vec<_> = left.into_iter().collect();
        folders.sort_unstable();
        let mut left: HashMap<ThingId, usize> =
            folders.into_iter().map(|(id, count)| (id, dice.below(count + 1))).collect();
        for (_, naming) in &self.namings {
            let is_kept = match mood {
                Mood::Nothing | Mood::BytesOnly => false,
                Mood::Everything | Mood::NamesOnly => true,
                Mood::Anything => dice.chance(50),
                Mood::FirstPart => {
                    let left = left.entry(naming.folder()).or_default();
                    let is_kept = *left > 0;
                    *left = left.saturating_sub(1);
                    is_kept
                }
            };
            if is_kept {
                apply(&mut names, naming);
            }
        }
        names
    }
}

fn bytes_after(thing: &Thing, journal: &Journal, mood: Mood, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = thing.lasting.clone();
    let kept = match mood {
        Mood::Nothing | Mood::NamesOnly => 0,
        Mood::Everything | Mood::BytesOnly | Mood::Anything => thing.pending.len(),
        Mood::FirstPart => dice.below(thing.pending.len() + 1),
    };
    for change in thing.pending.iter().take(kept) {
        match change {
            FileChange::Write { offset, bytes: range } if mood == Mood::Anything => {
                let mut at = 0;
                while at < range.len() {
                    let step = SECTOR_BYTES - (*offset as usize + at) % SECTOR_BYTES;
                    let end = range.len().min(at + step);
                    if dice.chance(60) {
                        let part = range.start + at..range.start + end;
                        let offset = offset + at as u64;
                        put(&mut bytes, &FileChange::Write { offset, bytes: part }, journal);
                    }
                    at = end;
                }
            }
            FileChange::Resize(_) if mood == Mood::Anything && dice.chance(50) => {}
            change => put(&mut bytes, change, journal),
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, change: &FileChange, journal: &Journal) {
    match change {
        FileChange::Write { offset, bytes: range } => {
            let written = journal.bytes(range);
            let start = *offset as usize;
            let end = start + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            if let Some(slot) = bytes.get_mut(start..end) {
                slot.copy_from_slice(written);
            }
        }
        FileChange::Resize(size) => bytes.resize(*size as usize, 0),
    }
}
