//! Appending: records gather here until the writer takes them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::fast::FixedState;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;
use types::{ReplicaId, SetId, TableId};

use crate::disk::{Disk, LogFile, is_disk_full};
use crate::frame::{
    ENTRY_HEAD_BYTES, EntryHead, LONE_TERM, MARK_BYTES, Mark, Position, RecordKind,
    SEGMENT_HEAD_BYTES, SegmentHead, SetState, encode_states, push_record, record_bytes,
};
use crate::group::{Gone, GroupState};
use crate::options::{CommitMode, Driver, LogOptions};
use crate::recovery::Recovered;
use crate::timings::{TimingSum, Timings};
use crate::writer::{self, DurableSink, Pen, SharedPen};

/// Spare files wait under names that begin so until they become segments.
pub(crate) const SPARE_PREFIX: &str = "spare-";
/// A buffer that grew beyond this is not kept for the next group.
pub(crate) const REUSABLE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// In periodic mode the writer is woken early when this much has gathered.
const WAKE_BYTES: usize = 1024 * 1024;

pub fn segment_name(start: Position) -> String {
    format!("{start:016x}.log")
}

/// Why a record was not taken.
#[derive(Clone, Debug)]
pub enum AppendError {
    TooLarge {
        bytes: usize,
        bytes_max: usize,
    },
    /// Not now.
    Short(Shortage),
    Failed(Arc<str>),
    Closed,
    /// A set takes no more entries.
    Ended,
    /// The one who appends does not want it any more, as things are by now.
    Withdrawn,
    /// A record of so many bytes does not fit now, and was not to wait.
    NoRoom(usize),
}

/// An entry that is about to be appended.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry {
    pub set: SetId,
    pub kind: u8,
    pub body_bytes: u32,
}

/// The one who appends a record is called while no other record can be appended: what it knows of the
/// records before is true then.
pub trait Appending<J> {
    /// Whether to append it as things are.
    fn is_wanted(&mut self) -> bool;
    /// It was appended, and its entries got these heads. Makes what is told when it is durable.
    fn job(&mut self, appended: Appended, heads: &[EntryHead]) -> Option<J>;
}

/// What is about to be appended as one record: all of its entries or none.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'r> {
    pub entries: &'r [NewEntry],
    /// The bodies of the entries, one behind the other.
    pub body: &'r [u8],
    /// The second at which the entries are judged, unless a later one was given before.
    pub now_s: u32,
    /// After these entries their sets take no more, until the next start.
    pub is_last: bool,
    /// Whether the writer is woken. If not, a group commit begins with the next record that wakes it, or
    /// with [`Log::write_or_wake`].
    pub wakes: bool,
    /// Whether it waits for room; if not, it may be refused for lack of it.
    pub waits: bool,
}

/// What the system has too little of to go on writing, until it has more.
#[derive(Clone, Debug)]
pub enum Shortage {
    DiskFull,
    Other(Arc<str>),
}

impl Shortage {
    pub fn of(error: &io::Error) -> Shortage {
        match is_disk_full(error) {
            true => Shortage::DiskFull,
            false => Shortage::Other(Arc::from(error.to_string())),
        }
    }
}

/// Tells the time since some moment: when to sync, and how long that takes. Decides nothing that is replayed.
pub type Elapsed = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Where a record is.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Where it begins.
    pub position: Position,
    /// Where the next one begins: it is durable when the log is synced up to here.
    pub end: Position,
}

/// The log up to a place where it is durable.
#[derive(Clone, Debug)]
pub struct Cut {
    pub end: Position,
    /// Where the segments before it begin; all but the last are never written again.
    pub starts: Vec<Position>,
}

/// The log, open for appending. `J` is what waits for a record to become durable.
pub struct Log<J: Send + 'static> {
    pub shared: Arc<Shared<J>>,
    pen: SharedPen<J>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl<J: Send + 'static> fmt::Debug for Log<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("synced", &self.shared.synced).finish_non_exhaustive()
    }
}

/// What appenders, the writer and the maker of spares share.
pub struct Shared<J> {
    pub disk: Arc<dyn Disk>,
    pub mode: CommitMode,
    /// No threads: whoever waits takes turns instead.
    pub is_stepped: bool,
    /// Time since some moment, for intervals.
    pub elapsed: Elapsed,
    pub segment_bytes: u64,
    pub write_interval: Duration,
    buffer_bytes_max: usize,
    pub gathering: Mutex<Gathering<J>>,
    /// The writer waits here for work.
    pub work: Condvar,
    /// Appenders wait here for room, and others for a sync.
    pub progress: Condvar,
    /// The maker of spares waits here.
    pub spare_wanted: Condvar,
    /// Told with `progress`, for appenders that do not wait on a thread.
    pub room: Notify,
    pub synced: AtomicU64,
    /// Where the log ended when it was opened.
    opened: Position,
    /// The latest second of an entry. Changes under the lock.
    now_s: AtomicU32,
    pub failed: OnceLock<Arc<str>>,
    /// How long syncs took.
    pub sync_times: Timings,
}

/// What was appended and not yet taken by the writer, and where the log ends.
pub struct Gathering<J> {
    pub chunks: Vec<Chunk>,
    pub jobs: Vec<J>,
    pub buffered_bytes: usize,
    /// Where the next record goes.
    pub next: Position,
    chain: u32,
    segment_start: Position,
    /// Where every kept segment begins, the current one last.
    pub segment_starts: VecDeque<Position>,
    pub spare: Spare,
    /// A segment began, and what the next one needs is not yet prepared.
    pub is_unprepared: bool,
    /// A segment that is not needed any more, to be the spare after this one.
    pub recycled: Option<SpareFile>,
    /// Names spare files.
    pub spare_number: u64,
    pub(crate) indexes: HashMap<SetId, u64, FixedState>,
    /// What was last said of the members of sets with several.
    pub(crate) groups: BTreeMap<SetId, GroupState>,
    /// The members that were taken away.
    pub(crate) gone: BTreeMap<SetId, ReplicaId>,
    /// Sets whose last entry was appended.
    ended: HashSet<SetId, FixedState>,
    /// The latest second of an entry.
    now_s: u32,
    pub oldest: Position,
    /// The `oldest` that the mark of this group carries, once it has one.
    pub marked_oldest: Option<Position>,
    pub mark_wanted: bool,
    pub sync_wanted: bool,
    pub is_closing: bool,
    /// Other files of the node could not be written or synced: the disk is not to be trusted.
    pub disk_failure: Option<Arc<str>>,
    /// Why what was appended waits, if it does: it is tried again.
    pub shortage: Option<Shortage>,
    /// Nothing is written any more.
    pub is_abandoned: bool,
    /// The writer sleeps without a time limit.
    pub writer_sleeps: bool,
    /// The writer took a group and has not come back.
    pub writer_is_busy: bool,
    /// An emptied buffer to use again.
    pub reusable: Vec<u8>,
    scratch: Scratch,
}

/// The entries of the record at hand.
#[derive(Default)]
struct Scratch {
    heads: Vec<EntryHead>,
    head: Vec<u8>,
}

/// A file that is not yet a segment.
pub struct SpareFile {
    pub name: String,
    pub file: Box<dyn LogFile>,
}

/// What the next segment will be.
pub enum Spare {
    Ready(SpareFile),
    Wanted,
    /// It could not be made, and it is tried again.
    Short(Shortage),
}

/// A chunk of so many bytes is followed by another one: appenders hold the lock, and a buffer that grows on and on is
/// copied whole each time it does.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Bytes that go to one place of one segment.
pub struct Chunk {
    /// The segment begins with this chunk.
    pub begins: Option<(Position, SpareFile)>,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl<J: Send + 'static> Log<J> {
    /// Goes on where recovery ended, in a new segment.
    pub fn start(
        disk: Arc<dyn Disk>,
        options: &LogOptions,
        recovered: &Recovered,
        sink: Box<dyn DurableSink<J>>,
        elapsed: Elapsed,
    ) -> std::io::Result<Log<J>> {
        let name = format!("{SPARE_PREFIX}{:016x}", recovered.end);
        let file = disk.create(&name, options.segment_bytes)?;
        disk.prepare()?;
        let first = SpareFile { name, file };
        let mut gathering = Gathering {
            chunks: Vec::new(),
            jobs: Vec::new(),
            buffered_bytes: 0,
            next: recovered.end,
            chain: recovered.chain,
            segment_start: recovered.end,
            segment_starts: recovered.segment_starts.iter().copied().collect(),
            spare: Spare::Wanted,
            is_unprepared: false,
            recycled: None,
            spare_number: 0,
            indexes: recovered.indexes.clone(),
            groups: recovered.groups.iter().map(|(set, it)| (*set, it.state.clone())).collect(),
            gone: recovered.gone.clone(),
            ended: HashSet::default(),
            now_s: recovered.now_s,
            oldest: recovered.oldest,
            marked_oldest: None,
            mark_wanted: false,
            sync_wanted: false,
            is_closing: false,
            disk_failure: None,
            shortage: None,
            is_abandoned: false,
            writer_sleeps: false,
            writer_is_busy: false,
            reusable: Vec::new(),
            scratch: Scratch::default(),
        };
        gathering.begin_segment(first, recovered.end);
        let shared = Arc::new(Shared {
            disk,
            mode: options.commit,
            is_stepped: options.driver == Driver::Steps,
            elapsed,
            segment_bytes: options.segment_bytes,
            write_interval: options.write_interval,
            buffer_bytes_max: options.buffer_bytes_max,
            gathering: Mutex::new(gathering),
            work: Condvar::new(),
            progress: Condvar::new(),
            spare_wanted: Condvar::new(),
            room: Notify::new(),
            synced: AtomicU64::new(recovered.end),
            opened: recovered.end,
            now_s: AtomicU32::new(recovered.now_s),
            failed: OnceLock::new(),
            sync_times: Timings::default(),
        });
        let pen = writer::new_pen(&shared, sink);
        let threads = match options.driver {
            Driver::Threads => writer::start_threads(&shared, &pen)?,
            Driver::Steps => Vec::new(),
        };
        Ok(Log { shared, pen, threads: Mutex::new(threads) })
    }

    /// Appends entries as one record.
    pub fn append_entries(
        &self,
        record: NewRecord<'_>,
        appending: &mut impl Appending<J>,
    ) -> Result<Appended, AppendError> {
        let NewRecord { entries, body, now_s, is_last, wakes, waits } = record;
        let body_bytes: u64 = entries.iter().map(|entry| u64::from(entry.body_bytes)).sum();
        assert_eq!(body_bytes, body.len() as u64, "the bodies of the entries are the body");
        let body_checksum = crc32fast::hash(body);
        let mut gathering = self.make_room(entries.len() * ENTRY_HEAD_BYTES, body.len(), waits)?;
        if !gathering.ended.is_empty()
            && entries.iter().any(|entry| gathering.ended.contains(&entry.set))
        {
            return Err(AppendError::Ended);
        }
        if !appending.is_wanted() {
            return Err(AppendError::Withdrawn);
        }
        if is_last {
            gathering.ended.extend(entries.iter().map(|entry| entry.set));
        }
        let now_s = self.raise_now(&mut gathering, now_s);
        let mut scratch = std::mem::take(&mut gathering.scratch);
        scratch.heads.clear();
        scratch.head.clear();
        for NewEntry { set, kind, body_bytes } in entries.iter().copied() {
            let index = gathering.indexes.entry(set).or_insert(0);
            *index += 1;
            let head = EntryHead { set, kind, term: LONE_TERM, index: *index, now_s, body_bytes };
            head.encode(&mut scratch.head);
            scratch.heads.push(head);
        }
        let synced = self.shared.synced.load(Ordering::Acquire);
        let kind = RecordKind::Entries;
        let appended = gathering.push(kind, &scratch.head, body, body_checksum, synced);
        if let Some(job) = appending.job(appended, &scratch.heads) {
            gathering.jobs.push(job);
        }
        gathering.scratch = scratch;
        if wakes {
            self.wake_writer(gathering);
        }
        Ok(appended)
    }

    /// Seconds never fall, whatever clocks do.
    fn raise_now(&self, gathering: &mut Gathering<J>, now_s: u32) -> u32 {
        if now_s > gathering.now_s {
            gathering.now_s = now_s;
            self.shared.now_s.store(now_s, Ordering::Release);
        }
        gathering.now_s
    }

    /// The latest second that an entry was given: later ones get this or a later one.
    pub fn now_s(&self) -> u32 {
        self.shared.now_s.load(Ordering::Acquire)
    }

    /// Appends that a second has come, so that no later entry gets an earlier one.
    pub fn append_time(
        &self,
        now_s: u32,
        job: impl FnOnce(Appended) -> Option<J>,
    ) -> Result<Appended, AppendError> {
        let mut gathering = self.make_room(0, MARK_BYTES, true)?;
        self.raise_now(&mut gathering, now_s);
        let position = gathering.next;
        let synced = self.shared.synced.load(Ordering::Acquire);
        gathering.push_mark(synced);
        let appended = Appended { position, end: gathering.next };
        if let Some(job) = job(appended) {
            gathering.jobs.push(job);
        }
        self.wake_writer(gathering);
        Ok(appended)
    }

    /// Appends that a table was emptied or dropped. `before_others` runs while no other record can
    /// be appended, and makes what is told when the record is durable.
    pub fn append_table_end(
        &self,
        kind: RecordKind,
        table: TableId,
        before_others: impl FnOnce(Appended) -> Option<J>,
    ) -> Result<Appended, AppendError> {
        let body = table.0.to_be_bytes();
        let mut gathering = self.make_room(0, body.len(), true)?;
        let synced = self.shared.synced.load(Ordering::Acquire);
        let appended = gathering.push(kind, &[], &body, crc32fast::hash(&body), synced);
        if let Some(job) = before_others(appended) {
            gathering.jobs.push(job);
        }
        self.wake_writer(gathering);
        Ok(appended)
    }

    /// A log without threads takes a turn; whether anything was done.
    pub fn step(&self) -> bool {
        self.shared.is_stepped && writer::step(&self.shared, &self.pen)
    }

    /// Waits until something has changed; `false` if nothing will, because nobody else is there to do it.
    fn wait(&self, gathering: &mut MutexGuard<'_, Gathering<J>>) -> bool {
        if !self.shared.is_stepped {
            self.shared.progress.wait(gathering);
            return true;
        }
        MutexGuard::unlocked(gathering, || self.step())
    }

    /// Has written what was appended: by the caller itself, who then waits for the disk, where it is little and
    /// nobody else writes; else by the log's own thread.
    pub fn write_or_wake(&self) {
        if !Pen::write_lone_group(&self.pen) {
            self.shared.work.notify_one();
        }
    }

    /// Has the log's own thread write what was appended.
    pub fn wake(&self) {
        self.wake_writer(self.shared.gathering.lock());
    }

    /// Waits until the log is durable up to a place.
    pub fn sync_through(&self, end: Position) -> Result<(), AppendError> {
        let shared = &self.shared;
        if shared.synced.load(Ordering::Acquire) >= end {
            return Ok(());
        }
        let mut gathering = shared.gathering.lock();
        loop {
            if shared.synced.load(Ordering::Acquire) >= end {
                return Ok(());
            }
            if let Some(why) = shared.failed.get() {
                return Err(AppendError::Failed(Arc::clone(why)));
            }
            if let Some(shortage) = &gathering.shortage {
                return Err(AppendError::Short(shortage.clone()));
            }
            gathering.sync_wanted = true;
            shared.work.notify_one();
            if !self.wait(&mut gathering) {
                return Err(AppendError::Closed);
            }
        }
    }

    /// Makes everything that was appended durable, and says where that is.
    pub fn cut(&self) -> Result<Cut, AppendError> {
        self.sync_through(self.end())?;
        let gathering = self.shared.gathering.lock();
        let end = self.synced();
        let starts = gathering.segment_starts.iter().copied().filter(|start| *start < end);
        Ok(Cut { end, starts: starts.collect() })
    }

    /// A log without changes that knows the last entry of every set: where it begins, and its bytes.
    pub fn empty_copy(&self) -> (Position, Vec<u8>) {
        let gathering = self.shared.gathering.lock();
        let start = gathering.next;
        let mut bytes = Vec::new();
        SegmentHead { start, chain: 0 }.encode(&mut bytes);
        let states = gathering.encode_states();
        let checksum = crc32fast::hash(&states);
        let chain = push_record(&mut bytes, 0, RecordKind::States, &[], &states, checksum);
        let position = start + bytes.len() as u64;
        let mark = Mark { position, synced: start, oldest: start, now_s: gathering.now_s };
        let body = mark.encode();
        push_record(&mut bytes, chain, RecordKind::Mark, &[], &body, crc32fast::hash(&body));
        (start, bytes)
    }

    /// Up to where the log is durable.
    pub fn synced(&self) -> Position {
        self.shared.synced.load(Ordering::Acquire)
    }

    /// Where it ended when it was opened, before anything was written to it.
    pub fn opened(&self) -> Position {
        self.shared.opened
    }

    /// Waits until everything that was appended is durable and handed over.
    pub fn drain(&self) {
        let shared = &self.shared;
        let mut gathering = shared.gathering.lock();
        while shared.failed.get().is_none()
            && gathering.shortage.is_none()
            && (!gathering.chunks.is_empty() || gathering.writer_is_busy || gathering.sync_wanted)
        {
            gathering.sync_wanted = true;
            shared.work.notify_one();
            if !self.wait(&mut gathering) {
                return;
            }
        }
    }

    /// Where the log ends.
    pub fn end(&self) -> Position {
        self.shared.gathering.lock().next
    }

    /// How often it was synced, and how long that took.
    pub fn sync_times(&self) -> TimingSum {
        self.shared.sync_times.sum()
    }

    /// How many bytes the log must keep.
    pub fn kept_bytes(&self) -> u64 {
        let gathering = self.shared.gathering.lock();
        gathering.next.saturating_sub(gathering.oldest)
    }

    /// Nothing before this place is needed any more. Files go after the log itself says so.
    pub fn forget_before(&self, oldest: Position) {
        let mut gathering = self.shared.gathering.lock();
        if oldest <= gathering.oldest {
            return;
        }
        gathering.oldest = oldest;
        if gathering.segment_starts.get(1).is_some_and(|second| *second <= oldest) {
            gathering.mark_wanted = true;
            self.shared.work.notify_one();
        }
    }

    /// Stops acknowledging, because the disk failed elsewhere.
    pub fn fail(&self, why: &str) {
        self.shared.gathering.lock().disk_failure.get_or_insert_with(|| Arc::from(why));
        self.shared.work.notify_one();
    }

    /// Why nothing is acknowledged any more, if so.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.failed.get().cloned()
    }

    /// What there is too little of, if what was appended waits for it, or the next segment does.
    pub fn shortage(&self) -> Option<Shortage> {
        let gathering = self.shared.gathering.lock();
        match (&gathering.shortage, &gathering.spare) {
            (Some(shortage), _) | (None, Spare::Short(shortage)) => Some(shortage.clone()),
            (None, Spare::Ready(_) | Spare::Wanted) => None,
        }
    }

    /// Whether nothing is acknowledged any more.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.get().is_some()
    }

    /// Writes and syncs everything, and stops the threads.
    pub fn close(&self) {
        {
            let mut gathering = self.shared.gathering.lock();
            gathering.is_closing = true;
            self.shared.work.notify_one();
            self.shared.spare_wanted.notify_one();
            self.shared.progress.notify_all();
            self.shared.room.notify_waiters();
        }
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
        while self.step() {}
        self.pen.lock().put_down();
    }

    /// Stops the threads where they are, as a crash would.
    pub fn abandon(&self) {
        self.shared.gathering.lock().is_abandoned = true;
        self.close();
    }

    /// Waits until a record fits, into the buffer and into a segment.
    pub(crate) fn make_room(
        &self,
        head: usize,
        body: usize,
        waits: bool,
    ) -> Result<MutexGuard<'_, Gathering<J>>, AppendError> {
        let shared = &self.shared;
        let bytes = record_bytes(head, body);
        let bytes_max = usize::try_from(shared.segment_bytes / 2).unwrap_or(usize::MAX);
        if bytes > bytes_max || head > usize::from(u16::MAX) {
            return Err(AppendError::TooLarge { bytes, bytes_max });
        }
        let mut gathering = shared.gathering.lock();
        loop {
            if let Some(why) = shared.failed.get() {
                return Err(AppendError::Failed(Arc::clone(why)));
            }
            if gathering.is_closing {
                return Err(AppendError::Closed);
            }
            if let Some(shortage) = &gathering.shortage {
                return Err(AppendError::Short(shortage.clone()));
            }
            let has_room = gathering.buffered_bytes == 0
                || gathering.buffered_bytes + bytes <= shared.buffer_bytes_max;
            if has_room {
                if gathering.fits(bytes, shared.segment_bytes) {
                    return Ok(gathering);
                }
                match std::mem::replace(&mut gathering.spare, Spare::Wanted) {
                    Spare::Ready(file) => {
                        shared.spare_wanted.notify_one();
                        let synced = shared.synced.load(Ordering::Acquire);
                        gathering.end_segment(file, synced);
                        continue;
                    }
                    Spare::Wanted => {}
                    Spare::Short(shortage) => {
                        gathering.spare = Spare::Short(shortage.clone());
                        return Err(AppendError::Short(shortage));
                    }
                }
            }
            shared.work.notify_one();
            if !waits || !self.wait(&mut gathering) {
                return Err(AppendError::NoRoom(bytes));
            }
        }
    }

    /// Waits until a record of so many bytes may fit, or is refused for another reason.
    pub async fn room(&self, bytes: usize) {
        loop {
            let mut changed = std::pin::pin!(self.shared.room.notified());
            // From here on no change is missed, so that what is looked at next cannot get old.
            changed.as_mut().enable();
            if self.may_fit(bytes) {
                return;
            }
            changed.await;
        }
    }

    /// Whether a record of so many bytes fits now, or is refused at once: nobody waits for room then.
    pub(crate) fn may_fit(&self, bytes: usize) -> bool {
        let shared = &self.shared;
        let gathering = shared.gathering.lock();
        let is_over =
            gathering.is_closing || gathering.shortage.is_some() || shared.failed.get().is_some();
        let has_room = gathering.buffered_bytes == 0
            || gathering.buffered_bytes + bytes <= shared.buffer_bytes_max;
        let has_place = gathering.fits(bytes, shared.segment_bytes)
            || !matches!(gathering.spare, Spare::Wanted);
        is_over || has_room && has_place
    }

    pub(crate) fn wake_writer(&self, gathering: MutexGuard<'_, Gathering<J>>) {
        let wake = match self.shared.mode {
            CommitMode::Group => true,
            CommitMode::Periodic { .. } => {
                gathering.writer_sleeps || gathering.buffered_bytes > WAKE_BYTES
            }
        };
        drop(gathering);
        if wake {
            self.shared.work.notify_one();
        }
    }
}

impl<J: Send + 'static> Drop for Log<J> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<J> Gathering<J> {
    /// Whether the writer has something to do in group mode.
    pub fn has_work(&self) -> bool {
        !self.chunks.is_empty() || self.is_interrupted()
    }

    /// Whether the next segment is ready to begin.
    pub fn has_spare(&self) -> bool {
        matches!(self.spare, Spare::Ready(_)) && !self.is_unprepared
    }

    /// Whether something else than appended records is waited for.
    pub fn is_interrupted(&self) -> bool {
        self.is_closing || self.mark_wanted || self.sync_wanted || self.disk_failure.is_some()
    }

    /// Whether a record fits into the current segment, with what else must go in.
    fn fits(&self, bytes: usize, segment_bytes: u64) -> bool {
        let used = self.next.saturating_sub(self.segment_start);
        let others = record_bytes(0, MARK_BYTES) + record_bytes(0, 0);
        used + bytes as u64 + others as u64 <= segment_bytes
    }

    /// Appends a record that fits.
    pub(crate) fn push(
        &mut self,
        kind: RecordKind,
        head: &[u8],
        body: &[u8],
        body_checksum: u32,
        synced: Position,
    ) -> Appended {
        if self.marked_oldest.is_none() {
            self.push_mark(synced);
        }
        self.push_raw(kind, head, body, body_checksum)
    }

    /// Begins the group with what is known about the log.
    pub fn push_mark(&mut self, synced: Position) {
        let mark = Mark { position: self.next, synced, oldest: self.oldest, now_s: self.now_s };
        self.marked_oldest = Some(self.oldest);
        let body = mark.encode();
        self.push_raw(RecordKind::Mark, &[], &body, crc32fast::hash(&body));
    }

    fn push_raw(
        &mut self,
        kind: RecordKind,
        head: &[u8],
        body: &[u8],
        body_checksum: u32,
    ) -> Appended {
        let (next, segment_start) = (self.next, self.segment_start);
        let is_full = |chunk: &Chunk| chunk.bytes.len() >= CHUNK_BYTES_MAX;
        if self.chunks.last().is_none_or(is_full) {
            let bytes = std::mem::take(&mut self.reusable);
            self.chunks.push(Chunk { begins: None, offset: next - segment_start, bytes });
        }
        if let Some(chunk) = self.chunks.last_mut() {
            let place = chunk.offset + chunk.bytes.len() as u64;
            assert_eq!(place, next - segment_start, "records lie side by side");
            self.chain = push_record(&mut chunk.bytes, self.chain, kind, head, body, body_checksum);
        }
        let length = record_bytes(head.len(), body.len());
        self.buffered_bytes += length;
        self.next += length as u64;
        Appended { position: next, end: self.next }
    }

    /// Ends the current segment and begins the next.
    fn end_segment(&mut self, file: SpareFile, synced: Position) {
        self.push_raw(RecordKind::SegmentEnd, &[], &[], crc32fast::hash(&[]));
        self.begin_segment(file, synced);
    }

    fn encode_states(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let lone = |(set, index): (&SetId, &u64)| SetState::Lone { set: *set, index: *index };
        let groups = self.groups.values().map(|state| SetState::Group(state.clone()));
        let gone = |(set, highest): (&SetId, &ReplicaId)| {
            SetState::Gone(Gone { set: *set, highest: *highest })
        };
        let states = self.indexes.iter().map(lone).chain(groups);
        encode_states(states.chain(self.gone.iter().map(gone)), &mut body);
        body
    }

    fn begin_segment(&mut self, file: SpareFile, synced: Position) {
        self.segment_start = self.next;
        self.segment_starts.push_back(self.next);
        let mut bytes = Vec::new();
        SegmentHead { start: self.next, chain: self.chain }.encode(&mut bytes);
        self.chunks.push(Chunk { begins: Some((self.next, file)), offset: 0, bytes });
        self.next += SEGMENT_HEAD_BYTES as u64;
        self.buffered_bytes += SEGMENT_HEAD_BYTES;
        let body = self.encode_states();
        self.push_raw(RecordKind::States, &[], &body, crc32fast::hash(&body));
        self.push_mark(synced);
    }
}
