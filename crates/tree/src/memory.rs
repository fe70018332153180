//! Trees in memory, for tests and simulations: what was flushed outlives whoever opened it, what was not is lost.
//!
//! Plain maps, and so the judge of the real ones too: the same calls give the same answers.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::SequenceNumberCounter;
use parking_lot::{Mutex, RwLock};

use crate::TreeError;
use crate::engine::{SeqNo, SortedTree, TreeBytes, TreeItem, TreeIter};
use crate::files::FileDamage;
use crate::home::TreeHome;
use crate::sieve::{Kept, Sieve};

/// The versions of each key, from old to new; a version without a value says that there is none.
type Versions = BTreeMap<Vec<u8>, Vec<(SeqNo, Option<TreeBytes>)>>;

/// Folders of trees in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryHome(Arc<Mutex<BTreeMap<PathBuf, Folder>>>);

#[derive(Clone, Debug, Default)]
struct Folder {
    flushed: Arc<RwLock<Versions>>,
    is_established: bool,
}

impl MemoryHome {
    /// Everything that is flushed, in order: to compare two runs.
    pub fn flushed(&self) -> Vec<(PathBuf, Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        for (path, folder) in self.0.lock().iter().filter(|(_, folder)| folder.is_established) {
            for (key, versions) in folder.flushed.read().iter() {
                if let Some((_, Some(value))) = versions.last() {
                    all.push((path.clone(), key.clone(), value.to_vec()));
                }
            }
        }
        all
    }

    /// Everything that is flushed, for itself: what becomes of one is not seen in the other.
    pub fn copy(&self) -> MemoryHome {
        let copy = |(path, folder): (&PathBuf, &Folder)| {
            let flushed = Arc::new(RwLock::new(folder.flushed.read().clone()));
            (path.clone(), Folder { flushed, is_established: folder.is_established })
        };
        MemoryHome(Arc::new(Mutex::new(self.0.lock().iter().map(copy).collect())))
    }

    fn change(&self, folder: &Path, change: impl FnOnce(&mut Folder)) {
        if let Some(folder) = self.0.lock().get_mut(folder) {
            change(folder);
        }
    }
}

impl TreeHome for MemoryHome {
    fn folders(&self, within: &Path) -> io::Result<Vec<PathBuf>> {
        let folders = self.0.lock();
        Ok(folders.keys().filter(|path| path.parent() == Some(within)).cloned().collect())
    }

    fn is_established(&self, folder: &Path) -> bool {
        self.0.lock().get(folder).is_some_and(|folder| folder.is_established)
    }

    fn establish(&self, folder: &Path) -> Result<(), TreeError> {
        self.change(folder, |folder| folder.is_established = true);
        Ok(())
    }

    fn unestablish(&self, folder: &Path) -> io::Result<()> {
        self.change(folder, |folder| folder.is_established = false);
        Ok(())
    }

    fn verify(&self, _: &Path) -> Result<(), FileDamage> {
        Ok(())
    }

    fn open(
        &self,
        folder: &Path,
        sieve: Option<Arc<dyn Sieve>>,
        counter: Option<SequenceNumberCounter>,
    ) -> Result<Box<dyn SortedTree>, TreeError> {
        let flushed = Arc::clone(&self.0.lock().entry(folder.to_path_buf()).or_default().flushed);
        let seqno = counter.unwrap_or_else(|| SequenceNumberCounter::new(1));
        let newest = |versions: &Vec<(SeqNo, _)>| versions.last().map(|(seqno, _)| *seqno);
        if let Some(highest) = flushed.read().values().filter_map(newest).max() {
            seqno.fetch_max(highest + 1);
        }
        Ok(Box::new(MemoryTree { seqno, unflushed: RwLock::default(), flushed, sieve }))
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        self.0.lock().retain(|path, _| !path.starts_with(folder));
        Ok(())
    }

    fn sync(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryTree {
    seqno: SequenceNumberCounter,
    unflushed: RwLock<Unflushed>,
    flushed: Arc<RwLock<Versions>>,
    sieve: Option<Arc<dyn Sieve>>,
}

#[derive(Debug, Default)]
struct Unflushed {
    active: Versions,
    /// From old to new.
    frozen: Vec<Versions>,
}

/// The newest version before a sequence number.
fn newest(versions: &[(SeqNo, Option<TreeBytes>)], seqno: SeqNo) -> Option<&Option<TreeBytes>> {
    versions.iter().rev().find(|(written, _)| *written < seqno).map(|(_, value)| value)
}

/// Forgets versions that nobody reads who reads from there on.
fn forget(versions: &mut Vec<(SeqNo, Option<TreeBytes>)>, readers_from: SeqNo) {
    let newest = versions.iter().rposition(|(written, _)| *written < readers_from);
    versions.drain(..newest.unwrap_or(0));
}

fn bytes_of(versions: &[(SeqNo, Option<TreeBytes>)]) -> i64 {
    let value_bytes = |(_, value): &(SeqNo, Option<TreeBytes>)| {
        16 + value.as_ref().map_or(0, |value| value.len())
    };
    i64::try_from(versions.iter().map(value_bytes).sum::<usize>()).unwrap_or(i64::MAX)
}

impl MemoryTree {
    /// Looks through everything from new to old.
    fn over_all<T>(&self, mut look: impl FnMut(&Versions) -> Option<T>) -> Option<T> {
        let unflushed = self.unflushed.read();
        let frozen = unflushed.frozen.iter().rev();
        let found = std::iter::once(&unflushed.active).chain(frozen).find_map(&mut look);
        found.or_else(|| look(&self.flushed.read()))
    }
}

impl SortedTree for MemoryTree {
    fn get(&self, key: &[u8], seqno: SeqNo) -> Result<Option<TreeBytes>, TreeError> {
        let look = |versions: &Versions| newest(versions.get(key)?, seqno).cloned();
        Ok(self.over_all(look).flatten())
    }

    fn may_hold(&self, start: &[u8]) -> bool {
        let holds = |versions: &Versions| {
            let next = versions.range::<[u8], _>((Bound::Included(start), Bound::Unbounded)).next();
            next.filter(|(key, _)| key.starts_with(start)).map(|_| ())
        };
        self.over_all(holds).is_some()
    }

    fn range(&self, start: &[u8], end: &[u8], seqno: SeqNo) -> TreeIter {
        let mut found: BTreeMap<Vec<u8>, Option<TreeBytes>> = BTreeMap::new();
        if start < end {
            self.over_all(|versions| {
                let bounds = (Bound::Included(start), Bound::Excluded(end));
                for (key, versions) in versions.range::<[u8], _>(bounds) {
                    if let Some(value) = newest(versions, seqno) {
                        found.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
                None::<()>
            });
        }
        let items = found.into_iter();
        let items = items.filter_map(|(key, value)| Some(Ok((TreeBytes::from(key), value?))));
        Box::new(items)
    }

    fn write_over(
        &self,
        key: &[u8],
        value: Option<TreeBytes>,
        seqno: SeqNo,
        readers_from: SeqNo,
    ) -> i64 {
        let mut unflushed = self.unflushed.write();
        let versions = unflushed.active.entry(key.to_vec()).or_default();
        let before = bytes_of(versions);
        match versions.last_mut() {
            Some((written, last)) if *written == seqno => *last = value,
            Some(_) | None => versions.push((seqno, value)),
        }
        forget(versions, readers_from);
        bytes_of(versions) - before
    }

    fn insert(&self, key: &[u8], value: TreeBytes, seqno: SeqNo) -> u64 {
        self.write_over(key, Some(value), seqno, 0).unsigned_abs()
    }

    fn remove(&self, key: &[u8], seqno: SeqNo) -> u64 {
        self.write_over(key, None, seqno, 0).unsigned_abs()
    }

    fn next_seqno(&self) -> SeqNo {
        self.seqno.get()
    }

    fn draw_seqno(&self) -> SeqNo {
        self.seqno.next()
    }

    fn seal(&self) -> bool {
        let mut unflushed = self.unflushed.write();
        if unflushed.active.is_empty() {
            return false;
        }
        let sealed = std::mem::take(&mut unflushed.active);
        unflushed.frozen.push(sealed);
        true
    }

    fn flush(&self, watermark: SeqNo) -> Result<(), TreeError> {
        let mut unflushed = self.unflushed.write();
        let mut flushed = self.flushed.write();
        for frozen in unflushed.frozen.drain(..) {
            for (key, mut versions) in frozen {
                let kept = flushed.entry(key).or_default();
                kept.append(&mut versions);
                forget(kept, watermark);
            }
        }
        Ok(())
    }

    fn is_buffered(&self, start: &[u8], end: &[u8]) -> bool {
        if start >= end {
            return false;
        }
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let unflushed = self.unflushed.read();
        let mut layers = std::iter::once(&unflushed.active).chain(&unflushed.frozen);
        layers.any(|versions| versions.range::<[u8], _>(bounds).next().is_some())
    }

    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = TreeItem>,
        watermark: SeqNo,
    ) -> Result<(), TreeError> {
        let seqno = self.seqno.next();
        let pairs = pairs.collect::<Result<Vec<_>, TreeError>>()?;
        assert!(pairs.is_sorted_by(|one, next| one.0 < next.0), "keys rise");
        let mut flushed = self.flushed.write();
        for (key, value) in pairs {
            let versions = flushed.entry(key.to_vec()).or_default();
            versions.push((seqno, Some(value)));
            forget(versions, watermark);
        }
        Ok(())
    }

    fn compact(&self, _: SeqNo) -> Result<bool, TreeError> {
        Ok(false)
    }

    fn compact_all(&self, watermark: SeqNo) -> Result<(), TreeError> {
        let mut sieving = self.sieve.as_ref().map(|sieve| sieve.begin());
        self.flushed.write().retain(|key, versions| {
            forget(versions, watermark);
            let [(written, value)] = versions.as_mut_slice() else { return true };
            let Some(bytes) = value else { return false };
            let Some(sieving) = sieving.as_mut().filter(|_| *written < watermark) else {
                return true;
            };
            if !sieving.is_judged(key) {
                return true;
            }
            match sieving.judge(key, bytes) {
                Kept::All => true,
                Kept::Part(part) => {
                    *bytes = TreeBytes::from(part);
                    true
                }
                Kept::Nothing => false,
            }
        });
        Ok(())
    }

    fn release(&self, _: SeqNo) -> Result<(), TreeError> {
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        let flushed = self.flushed.read();
        let sizes = flushed
            .iter()
            .map(|(key, versions)| key.len() as u64 + bytes_of(versions).unsigned_abs());
        sizes.sum()
    }

    fn key_count(&self) -> u64 {
        let unflushed = self.unflushed.read();
        let frozen: usize = unflushed.frozen.iter().map(BTreeMap::len).sum();
        (unflushed.active.len() + frozen + self.flushed.read().len()) as u64
    }

    fn learn(&self, _: &dyn Fn() -> bool) -> Result<(), TreeError> {
        Ok(())
    }

    fn unsorted_runs(&self) -> usize {
        0
    }

    fn counter(&self) -> SequenceNumberCounter {
        self.seqno.clone()
    }
}
