//! A disk in memory that forgets what was not synced, fills up, and fails, from a seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "what simulates may stop")]

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, LogFile};

/// Xorshift: every run can be told again.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.draw() >> 11) % bound.max(1)
    }
}

#[derive(Clone, Debug, Default)]
struct SimFile {
    synced: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<(usize, Vec<u8>)>,
}

impl SimFile {
    fn now(&self) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for (offset, write) in &self.pending {
            put(&mut bytes, *offset, write);
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, write: &[u8]) {
    let end = offset + write.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(write);
    }
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, SimFile>,
    /// New names by old ones: an open file follows its name.
    moved: BTreeMap<String, String>,
    syncs: u64,
    sync_takes: std::time::Duration,
    fail_sync_at: Option<u64>,
    is_full: bool,
    /// Writes and changes of names fail so, after so many that go well.
    shortage: Option<(u64, i32)>,
    newest: Option<u64>,
    recycled: u64,
}

impl State {
    fn fail_step(&mut self) -> io::Result<()> {
        match &mut self.shortage {
            Some((0, error)) => Err(io::Error::from_raw_os_error(*error)),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    pub fn of_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> SimDisk {
        let files = files
            .into_iter()
            .map(|(name, synced)| (name, SimFile { synced, pending: Vec::new() }))
            .collect();
        SimDisk(Arc::new(Mutex::new(State { files, ..State::default() })))
    }

    /// The files as they are.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.0.lock();
        state.files.iter().map(|(name, file)| (name.clone(), file.now())).collect()
    }

    pub fn fail_sync_after(&self, count: u64) {
        let mut state = self.0.lock();
        state.fail_sync_at = Some(state.syncs + count);
    }

    /// How often something was synced.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// How many files were given another name to be written over.
    pub fn recycled(&self) -> u64 {
        self.0.lock().recycled
    }

    /// Every sync takes this long.
    pub fn slow_down(&self, sync: std::time::Duration) {
        self.0.lock().sync_takes = sync;
    }

    pub fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    /// After so many writes and changes of names all others fail with this error of the system, until `None`.
    pub fn run_short(&self, shortage: Option<(u64, i32)>) {
        self.0.lock().shortage = shortage;
    }

    /// The disk after its process was killed now: everything that was written is there.
    pub fn after_kill(&self) -> SimDisk {
        let state = self.0.lock();
        let files = state.files.iter().map(|(name, file)| (name.clone(), file.now()));
        let after = SimDisk::of_files(files);
        after.0.lock().newest = state.newest;
        after
    }

    /// The disk after a power loss now: of the writes that were not synced some are there, some are
    /// not, and some in part.
    pub fn after_power_loss(&self, random: &mut Random) -> SimDisk {
        let state = self.0.lock();
        let files = state.files.iter().map(|(name, file)| {
            let mut bytes = file.synced.clone();
            let mood = random.below(3);
            for (offset, write) in &file.pending {
                let kept = match (mood, random.below(3)) {
                    (0, _) | (2, 0) => 0,
                    (1, _) | (2, 1) => write.len(),
                    _ => usize::try_from(random.below(write.len() as u64 + 1)).unwrap(),
                };
                put(&mut bytes, *offset, &write[..kept]);
            }
            (name.clone(), bytes)
        });
        let after = SimDisk::of_files(files);
        after.0.lock().newest = state.newest;
        after
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().files.keys().cloned().collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        let mut state = self.0.lock();
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.moved.remove(name);
        let synced = vec![0; usize::try_from(bytes).unwrap()];
        state.files.insert(name.to_string(), SimFile { synced, pending: Vec::new() });
        Ok(Box::new(SimHandle { disk: self.clone(), name: Mutex::new(name.to_string()) }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        if !self.0.lock().files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(SimHandle { disk: self.clone(), name: Mutex::new(name.to_string()) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.fail_step()?;
        let file = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_string(), file);
        state.moved.insert(from.to_string(), to.to_string());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let gone = self.0.lock().files.remove(name);
        gone.map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn recycle(&self, from: &str, to: &str, bytes: u64) -> io::Result<Option<Box<dyn LogFile>>> {
        if self.0.lock().files.get(from).is_none_or(|file| file.now().len() as u64 != bytes) {
            return Ok(None);
        }
        self.rename(from, to)?;
        self.0.lock().recycled += 1;
        Ok(Some(Box::new(SimHandle { disk: self.clone(), name: Mutex::new(to.to_string()) })))
    }

    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_newest(&self, start: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.fail_step()?;
        state.newest = Some(start);
        Ok(())
    }

    fn newest(&self) -> io::Result<Option<u64>> {
        Ok(self.0.lock().newest)
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(name)
    }
}

#[derive(Debug)]
struct SimHandle {
    disk: SimDisk,
    name: Mutex<String>,
}

impl SimHandle {
    /// A handle follows its file when that is renamed.
    fn with<T>(&self, work: impl FnOnce(&mut SimFile) -> T) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        let mut name = self.name.lock();
        if let Some(moved) = state.moved.get(name.as_str()) {
            *name = moved.clone();
        }
        let file = state.files.get_mut(name.as_str()).ok_or(io::ErrorKind::NotFound)?;
        Ok(work(file))
    }
}

impl LogFile for SimHandle {
    fn read_all(&self) -> io::Result<Vec<u8>> {
        self.with(|file| file.now())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        self.with(|file| match file.now().get(offset..offset + bytes.len()) {
            Some(found) => {
                bytes.copy_from_slice(found);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        })?
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.0.lock().fail_step()?;
        self.with(|file| file.pending.push((usize::try_from(offset).unwrap(), bytes.to_vec())))
    }

    fn sync(&mut self) -> io::Result<()> {
        let takes = self.disk.0.lock().sync_takes;
        std::thread::sleep(takes);
        {
            let mut state = self.disk.0.lock();
            state.syncs += 1;
            if state.fail_sync_at.is_some_and(|at| state.syncs >= at) {
                return Err(io::Error::other("simulated sync failure"));
            }
        }
        self.with(|file| {
            file.synced = file.now();
            file.pending.clear();
        })
    }

    fn finish(&mut self, length: u64) -> io::Result<()> {
        self.with(|file| {
            file.synced = file.now();
            file.synced.truncate(usize::try_from(length).unwrap());
            file.pending.clear();
        })
    }
}
