//! An image that a member was handed is put into the trees.
//!
//! The log says so first: from then on the member goes on behind the image, and every start puts the image into those
//! trees that do not hold it, before anything else is applied to the set. A tree holds it when its replay point says so, which is
//! the last that is written. What the range held before goes first, whoever wrote it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use node_log::broken::{Rule, breaks};
use node_log::{Disk, EntryPlace, GroupState, Position};
use types::{Done, Outcome, ReplicaId, RingRange, SetId, TableId};

use crate::apply::Place;
use crate::apply::once::Known;
use crate::core::{Core, PoisonDart};
use crate::entry::Truncate;
use crate::error::{Affected, CommitError, OpenError, TreeError};
use crate::heads::Unfit;
use crate::image::{ImageHead, SPACES, SetImage, TableHead, bounds_of_set};
use crate::maintenance::{self, UNSORTED_RUNS_MAX};
use crate::staging::{Kind, Staged, StagedPairs, Staging, is_staged_name, staged_name};
use crate::storage::Storage;
use crate::sure::tail;
use crate::tree::answers::Answers;
use crate::tree::keys::{self, SPACE_CELLS, SPACE_DELETIONS, SPACE_ROWS, space_bounds};
use crate::tree::purge::PurgeHold;
use crate::tree::store::{OpenStore, TableStore};
use tree::engine::{LATEST, TreeBytes};

/// So many keys are removed while the memtable cannot be frozen.
const KEYS_PER_MOMENT: usize = 1024;
/// About so many bytes are put into it.
const PUT_BYTES: u64 = 512 * 1024;

/// An image that is in the trees, and perhaps not in sorted files yet.
#[derive(Debug)]
pub(crate) struct Unsettled {
    name: String,
    tables: Vec<TableId>,
}

/// Images of which the log says that they were handed over, while their rows may be nowhere but in their own files.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// How many there ever were.
    count: u64,
    names: Vec<(SetId, String)>,
}

impl Begun {
    fn add(&mut self, set: SetId, name: String) {
        self.count += 1;
        self.names.push((set, name));
    }

    fn forget(&mut self, name: &str) {
        self.names.retain(|(_, known)| known != name);
    }

    /// No member of the set is here any more.
    pub(crate) fn forget_set(&mut self, set: SetId) {
        self.names.retain(|(known, _)| *known != set);
    }
}

fn unreadable() -> TreeError {
    TreeError::Corrupt("an image that was handed over is not readable".into())
}

/// A key with its value.
type TreePair = (TreeBytes, TreeBytes);

/// Pairs of about so many bytes, and of how many; fewer where there are no more.
fn gather(
    next: &mut dyn FnMut() -> Result<Option<TreePair>, TreeError>,
    bytes_min: u64,
) -> Result<(Vec<TreePair>, u64), TreeError> {
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    while bytes < bytes_min
        && let Some((key, value)) = next()?
    {
        bytes += (key.len() + value.len()) as u64;
        pairs.push((key, value));
    }
    Ok((pairs, bytes))
}

/// What whoever puts images into trees does for it.
struct Aid<'a> {
    /// Called now and then, when memory may be short.
    relieve: &'a dyn Fn() -> Result<(), TreeError>,
    /// Writes what is in memory of a table into sorted files.
    flush: &'a dyn Fn(&Arc<TableStore>) -> Result<(), TreeError>,
    /// Sees to what follows from a failed write of sorted files.
    judged: &'a dyn Fn(TreeError) -> TreeError,
}

/// Puts keys of one set into one tree, or takes them away, and what is kept of them elsewhere.
struct Ingest<'i> {
    core: &'i Core,
    store: &'i Arc<TableStore>,
    opened: &'i OpenStore,
    set: SetId,
    position: Position,
    /// Store number and key.
    cache_key: Vec<u8>,
}

impl Ingest<'_> {
    fn put(&mut self, pairs: impl Iterator<Item = (TreeBytes, Option<TreeBytes>)>) {
        let _open = self.opened.hold_open();
        let _dart = PoisonDart(&self.core.poison);
        let seqno = self.opened.tree.draw_seqno();
        let mut grown = 0;
        for (key, value) in pairs {
            if value.is_some() {
                self.note_deletion(&key);
            }
            grown += match value {
                Some(value) => self.opened.tree.insert(&key, value, seqno),
                None => self.opened.tree.remove(&key, seqno),
            };
            self.forget(&key);
        }
        let grown = i64::try_from(grown).unwrap_or(i64::MAX);
        self.opened.note_write(self.position, grown);
        self.core.pressure.change(grown);
    }

    /// What caches hold of a key is not true any more.
    fn forget(&mut self, key: &[u8]) {
        if !matches!(key.first(), Some(&SPACE_ROWS | &SPACE_CELLS | &SPACE_DELETIONS)) {
            return;
        }
        self.cache_key.clear();
        self.cache_key.extend_from_slice(&self.store.cache_id.to_be_bytes());
        self.cache_key.extend_from_slice(key);
        self.core.cache.forget(&self.cache_key);
        if let Some((prefix, _)) = keys::split_prefix(key) {
            self.cache_key.truncate(8);
            self.cache_key.push(SPACE_ROWS);
            self.cache_key.extend_from_slice(tail(prefix, 1));
            self.core.heads.turn(&self.cache_key).change(|_| Err(Unfit));
        }
    }

    /// Takes the pairs of a kind: into sorted files of their own where they are many, and into memory where not. Whether into files.
    fn take(
        &mut self,
        kind: Kind,
        bounds: &[(Vec<u8>, Vec<u8>); SPACES],
        pairs: &mut StagedPairs<'_>,
        aid: &Aid<'_>,
    ) -> Result<bool, TreeError> {
        let bytes_min = self.core.options.ingest_bytes_min;
        let mut next = || {
            let pair = pairs.next_of(kind).map_err(of_io)?;
            Ok(pair.map(|(key, value)| (TreeBytes::from(&*key), TreeBytes::from(&*value))))
        };
        let (mut some, bytes) = gather(&mut next, bytes_min)?;
        if bytes >= bytes_min && self.may_bring(bounds.get(kind.space), aid) {
            match self.bring(some, &mut next, aid) {
                // It is nobody's any more.
                Err(_) if self.store.is_dropped() => while next()?.is_some() {},
                brought => brought?,
            }
            return Ok(true);
        }
        while !some.is_empty() {
            self.put(some.into_iter().map(|(key, value)| (key, Some(value))));
            (aid.relieve)()?;
            some = gather(&mut next, PUT_BYTES)?.0;
        }
        Ok(false)
    }

    /// Whether keys may come past memory: what is there of them would be taken for newer.
    fn may_bring(&self, bounds: Option<&(Vec<u8>, Vec<u8>)>, aid: &Aid<'_>) -> bool {
        let Some((start, end)) = bounds else { return false };
        let tree = &self.opened.tree;
        if tree.unsorted_runs() >= UNSORTED_RUNS_MAX {
            return false;
        }
        if tree.is_buffered(start, end)
            && let Err(error) = (aid.flush)(self.store)
        {
            tracing::debug!(%error, "what is in memory cannot be written, so more comes there");
        }
        !tree.is_buffered(start, end)
    }

    /// Brings pairs into sorted files of their own.
    fn bring(
        &self,
        some: Vec<TreePair>,
        next: &mut dyn FnMut() -> Result<Option<TreePair>, TreeError>,
        aid: &Aid<'_>,
    ) -> Result<(), TreeError> {
        let _dart = PoisonDart(&self.core.poison);
        let rest = std::iter::from_fn(|| next().transpose());
        let mut is_read = true;
        let look = |pair: &Result<TreePair, TreeError>| match pair {
            Ok((key, _)) => self.note_deletion(key),
            Err(_) => is_read = false,
        };
        let mut pairs = some.into_iter().map(Ok).chain(rest).inspect(look);
        let written = self.opened.tree.ingest(&mut pairs, self.opened.watermark());
        drop(pairs);
        // What cannot be read again is no failed write.
        written.map_err(|error| match is_read && !self.store.is_dropped() {
            true => (aid.judged)(error),
            false => error,
        })
    }

    /// Of deletions it is known before they are there, so that no reader overlooks them.
    fn note_deletion(&self, key: &[u8]) {
        if key.first() == Some(&SPACE_DELETIONS)
            && let Some((prefix, _)) = keys::split_prefix(key)
        {
            self.opened.deleted.add(tail(prefix, 1));
        }
    }

    /// Takes away everything of the set.
    fn empty(
        &mut self,
        range: RingRange,
        relieve: &dyn Fn() -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        // What is known of its requests beside the tree would come into it with the next flush.
        *self.opened.progress(self.set).answers() = Answers::default();
        self.empty_bounds(bounds_of_set(self.set, range), relieve)
    }

    fn empty_bounds(
        &mut self,
        bounds: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        relieve: &dyn Fn() -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        for (mut from, end) in bounds {
            loop {
                let found: Result<Vec<TreeBytes>, TreeError> = self
                    .opened
                    .tree
                    .range(&from, &end, LATEST)
                    .take(KEYS_PER_MOMENT)
                    .map(|item| item.map(|(key, _)| key))
                    .collect();
                let found = found?;
                let Some(last) = found.last() else { break };
                from = last.to_vec();
                from.push(0);
                self.put(found.into_iter().map(|key| (key, None)));
                relieve()?;
            }
        }
        Ok(())
    }

    /// The tree holds the image from now on.
    fn finish(&self, head: &TableHead, range: RingRange) -> Result<(), TreeError> {
        let _open = self.opened.hold_open();
        let progress = self.opened.progress(self.set);
        // The next files are purged by what was announced, also where those of now are not yet.
        let announced_s = self.core.definitions.announced_s(self.store.id);
        let purged_s = self.opened.purged_s().max(announced_s);
        if purged_s > head.point.horizon_s && !breaks(Rule::PurgeAheadOfTransfer) {
            let tree = (self.opened.tree.as_ref(), self.opened.tree.draw_seqno());
            let seconds = (head.point.horizon_s, purged_s);
            self.opened.guards.add(tree, &self.opened.purge, self.set, seconds);
            // A member that was here before may have left rows in the cache that died, and that the tree was purged of since. Where its
            // time is behind that again they would count.
            let (start, end) = space_bounds(SPACE_ROWS, range);
            self.core.cache.forget_between(self.store.cache_id, &start, &end);
        }
        progress.install(head.point, head.definition.clone());
        // Nobody else writes keys of the set: those who read many rows see all of it from now on.
        progress.publish(self.opened.tree.next_seqno());
        self.opened.note_write(self.position, 1);
        self.core.pressure.change(1);
        self.opened.sizes.ask_for_full_walk();
        Ok(())
    }
}

fn of_io(error: io::Error) -> TreeError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => unreadable(),
        _ => TreeError::Io(Arc::new(error)),
    }
}

/// What caches hold of rows that were brought past memory is not true any more. Only now: who looked for one before it was there may have
/// kept that it is not.
fn forget_brought<'i>(
    pairs: StagedPairs<'_>,
    brought: &[Kind],
    with: &dyn Fn(usize) -> Result<Option<Ingest<'i>>, TreeError>,
) -> Result<(), TreeError> {
    if brought.is_empty() {
        return Ok(());
    }
    let mut pairs = pairs.again();
    while let Some(kind) = pairs.kind().map_err(of_io)? {
        let mut ingest = with(kind.table)?.filter(|_| brought.contains(&kind));
        while let Some((key, _)) = pairs.next_of(kind).map_err(of_io)? {
            if let Some(ingest) = &mut ingest {
                ingest.forget(&key);
            }
        }
    }
    Ok(())
}

/// Puts a whole image into those trees that do not hold it.
fn ingest(
    core: &Core,
    position: Position,
    (staged, head): (Staged, ImageHead),
    aid: &Aid<'_>,
) -> Result<ImageHead, TreeError> {
    let mut stores: Vec<Option<Arc<TableStore>>> = Vec::new();
    for table in &head.tables {
        let store = core.store_or_new(table.table);
        let is_wanted = match &store {
            // It was dropped.
            None => false,
            Some(store) => {
                let progress = store.for_write()?.progress(head.set);
                store.born < position && progress.applied() < table.point.applied
            }
        };
        stores.push(store.filter(|_| is_wanted));
    }
    let with = |number: usize| -> Result<Option<Ingest<'_>>, TreeError> {
        let Some(store) = stores.get(number).and_then(|store| store.as_ref()) else {
            return Ok(None);
        };
        let (opened, cache_key) = (store.for_write()?, Vec::new());
        Ok(Some(Ingest { core, store, opened, set: head.set, position, cache_key }))
    };
    // Until each tree knows how far the set is, nothing of what comes may be purged further.
    let mut holds = Vec::new();
    for (number, table) in head.tables.iter().enumerate() {
        if let Some(ingest) = with(number)? {
            holds.push(PurgeHold::new(&ingest.opened.purge, table.point.horizon_s));
        }
    }
    for number in 0..stores.len() {
        if let Some(mut ingest) = with(number)?
            && !breaks(Rule::SkipEmptyingRange)
        {
            ingest.empty(head.range, aid.relieve)?;
        }
    }
    let bounds = bounds_of_set(head.set, head.range);
    let mut pairs = StagedPairs::new(staged, head.tables.len(), &bounds);
    let mut brought = Vec::new();
    while let Some(kind) = pairs.kind().map_err(of_io)? {
        match with(kind.table)? {
            Some(mut ingest) => {
                if ingest.take(kind, &bounds, &mut pairs, aid)? {
                    brought.push(kind);
                }
            }
            None => while pairs.next_of(kind).map_err(of_io)?.is_some() {},
        }
    }
    forget_brought(pairs, &brought, &with)?;
    for (number, table) in head.tables.iter().enumerate() {
        let Some(ingest) = with(number)? else { continue };
        // Entries of rows that are gone, and none of those that came: they are built from the rows.
        for index in ingest.opened.indexes.all().iter() {
            ingest.store.renew_index(index.shape.id)?;
        }
        ingest.finish(table, head.range)?;
        if let Some(Some(store)) = stores.get(number) {
            core.queue_builds(store);
        }
    }
    drop(holds);
    core.definitions.forget_sets(&[head.set]);
    Ok(head)
}

/// The rows of a table in a set go; what is known of the set itself stays.
pub(crate) fn apply_truncate(
    core: &Core,
    place: Place,
    truncate: &Truncate,
) -> Result<Done, CommitError> {
    const NOTHING: Done = Done { outcome: Outcome::Applied, weight: 0 };
    let table = truncate.table;
    let of_tree = |error| CommitError::Tree { table, error };
    let Some(store) = core.store_or_new(table) else { return Ok(NOTHING) };
    let opened = store.for_write().map_err(of_tree)?;
    let progress = opened.progress(place.set);
    if place.position < store.born || place.applied <= progress.applied() {
        return Ok(NOTHING);
    }
    progress.begin_entry(place.now_s);
    if let Some(asked) = &place.asked
        && let Known::Answered(answer) = asked.known(opened, &progress, place).map_err(of_tree)?
    {
        let _open = opened.hold_open();
        progress.set_applied(place.applied);
        return answer;
    }
    let (set, position) = (place.set, place.position);
    let mut ingest = Ingest { core, store: &store, opened, set, position, cache_key: Vec::new() };
    let is_of_rows = |(from, _): &(Vec<u8>, Vec<u8>)| {
        matches!(from.first(), Some(&SPACE_ROWS | &SPACE_CELLS | &SPACE_DELETIONS))
    };
    let bounds = bounds_of_set(set, truncate.range).into_iter().filter(is_of_rows);
    ingest.empty_bounds(bounds, &|| Ok(())).map_err(of_tree)?;
    for index in opened.indexes.all().iter() {
        store.renew_index(index.shape.id).map_err(of_tree)?;
    }
    core.queue_builds(&store);
    let _open = opened.hold_open();
    if let Some(asked) = &place.asked {
        let grown = asked.keep(opened, &progress, place, &Ok(Outcome::Applied), 0);
        core.pressure.change(grown);
    }
    opened.note_write(place.position, 1);
    opened.sizes.ask_for_full_walk();
    progress.publish(opened.tree.next_seqno());
    progress.set_applied(place.applied);
    Ok(NOTHING)
}

/// What becomes of images that nobody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleans {
    Strays,
    /// The disk is only read.
    Nothing,
}

/// At a start: images that the log says were handed over are put into the trees that do not hold them, and those that it says
/// nothing of go. Returns what is not in sorted files yet.
pub(crate) fn redo(
    core: &Core,
    disk: &Arc<dyn Disk>,
    installs: &BTreeMap<SetId, (Position, GroupState)>,
    cleans: Cleans,
) -> Result<Vec<Unsettled>, OpenError> {
    let mut unsettled = Vec::new();
    let at = |name: &str| OpenError::io(disk.path(name));
    for (position, state) in installs.values() {
        let name = staged_name(state.set, state.replica, state.cut.index);
        let damaged = || OpenError::Damaged {
            path: disk.path(&name),
            offset: 0,
            what: "the rows that a member of a replica set was handed are not readable",
            affected: Affected::Log,
        };
        let opened = Staged::open(disk, &name).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => damaged(),
            _ => OpenError::Io { path: disk.path(&name), error },
        })?;
        // Without a file all of it is in sorted files.
        let Some(staged) = opened else { continue };
        let tables: Vec<TableId> = staged.1.tables().collect();
        let relieve = || match core.pressure.wants_flush() {
            true => maintenance::flush_while_recovering(core)
                .map_err(|error| TreeError::Corrupt(error.to_string().into())),
            false => Ok(()),
        };
        let flush = |store: &Arc<TableStore>| {
            maintenance::flush_store_while_recovering(core, store)
                .map_err(|error| TreeError::Corrupt(error.to_string().into()))
        };
        // A start that fails tells of it, and nothing was acknowledged yet.
        let aid = Aid { relieve: &relieve, flush: &flush, judged: &|error| error };
        ingest(core, *position, staged, &aid).map_err(|_| damaged())?;
        unsettled.push(Unsettled { name, tables });
    }
    if cleans == Cleans::Nothing {
        return Ok(unsettled);
    }
    for name in disk.list().map_err(at(""))? {
        if is_staged_name(&name) && !unsettled.iter().any(|known| known.name == name) {
            disk.remove(&name).map_err(at(&name))?;
        }
    }
    Ok(unsettled)
}

impl Storage {
    /// The rows of a set as they are now, at the entry that was applied last.
    pub fn image(
        &self,
        set: SetId,
        place: EntryPlace,
        tables: &[TableId],
        range: RingRange,
    ) -> Result<SetImage, CommitError> {
        let seconds = (self.group_now_s(set), self.group_last_us(set));
        SetImage::begin(&self.core, (set, place, seconds.0, seconds.1), tables, range)
    }

    /// The last entry of a set that some tree holds, also where no member is here.
    pub fn applied_in_trees(&self, set: SetId) -> u64 {
        let stores = self.core.all_stores();
        let applied = |store: &Arc<TableStore>| match store.for_read() {
            Ok(Some(opened)) => opened.progress(set).applied().index,
            // Nothing is touched that cannot be read.
            Err(_) => u64::MAX,
            Ok(None) => 0,
        };
        stores.iter().map(applied).max().unwrap_or(0)
    }

    /// An image for a member on this node begins to come.
    pub fn stage(&self, replica: ReplicaId, head: &ImageHead) -> io::Result<Staging> {
        Staging::begin(self.log.disk(), replica, head)
    }

    /// An image that was whole is not needed.
    pub fn unstage(&self, set: SetId, replica: ReplicaId, index: u64) {
        let name = staged_name(set, replica, index);
        let _ = self.log.disk().remove(&name);
        self.installs_begun.lock().forget(&name);
    }

    /// A member goes on behind an image, and this is its state. Returns where the log says so; nothing is done
    /// before that is durable.
    pub fn append_install(&self, state: &GroupState) -> Result<Position, CommitError> {
        if breaks(Rule::InstallWithoutRecord) {
            return Ok(self.log.end());
        }
        let name = staged_name(state.set, state.replica, state.cut.index);
        // Before the log says so: a snapshot that has the record sees this.
        self.installs_begun.lock().add(state.set, name.clone());
        let appended = self.log.append_install(state);
        appended.map(|appended| appended.position).map_err(|error| {
            self.installs_begun.lock().forget(&name);
            error.into()
        })
    }

    /// Puts an image into the trees. Where that fails the member must not go on; the next start tries again.
    pub fn install(
        &self,
        set: SetId,
        replica: ReplicaId,
        index: u64,
        position: Position,
    ) -> Result<(), TreeError> {
        let name = staged_name(set, replica, index);
        let of_io = |error| TreeError::Io(Arc::new(error));
        let staged = Staged::open(self.log.disk(), &name).map_err(of_io)?.ok_or_else(unreadable)?;
        let relieve = || match self.core.pressure.wants_flush() {
            true => {
                let largest = self.core.largest_in_memory();
                largest.map_or(Ok(()), |store| self.maintenance.flush_at_last(&store))
            }
            false => Ok(()),
        };
        let flush = |store: &Arc<TableStore>| self.flush(Some(store.id));
        let judged = |error| self.maintenance.judged(error);
        let aid = Aid { relieve: &relieve, flush: &flush, judged: &judged };
        let head = ingest(&self.core, position, staged, &aid)?;
        self.core.groups.installed(set, index, head.now_s, head.last_us);
        let tables = head.tables().collect();
        self.unsettled.lock().push(Unsettled { name, tables });
        Ok(())
    }

    /// Images that are in the trees come into sorted files, and go. What cannot be done now is done later.
    pub fn settle_installs(&self) {
        let mut unsettled = self.unsettled.lock();
        unsettled.retain(|image| {
            let flushed = image.tables.iter().try_for_each(|table| self.flush(Some(*table)));
            match flushed {
                Ok(()) => {
                    let stays = self.log.disk().remove(&image.name).is_err_and(|error| {
                        tracing::warn!(%error, name = %image.name, "an image could not be removed");
                        error.kind() != io::ErrorKind::NotFound
                    });
                    if !stays {
                        self.installs_begun.lock().forget(&image.name);
                    }
                    stays
                }
                Err(error) => {
                    tracing::debug!(%error, "what was handed over is not in sorted files yet");
                    true
                }
            }
        });
    }

    /// How many images were ever put into the trees, if all of them are in sorted files.
    pub(crate) fn installs_settled(&self) -> Option<u64> {
        self.settle_installs();
        if !self.unsettled.lock().is_empty() {
            return None;
        }
        let begun = self.installs_begun.lock();
        begun.names.is_empty().then_some(begun.count)
    }
}
