//! Writing and syncing, and the thread that keeps a spare segment ready.
//!
//! One writes at a time, with the [`Pen`]: a thread of the log's own, or in group mode whoever appended, when
//! nobody else did and the disk is quick. A lone writer then waits for its sync and for no other thread.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::disk::{LogFile, is_shortage};
use crate::frame::Position;
use crate::gather::{
    Chunk, Gathering, REUSABLE_BYTES_MAX, SPARE_PREFIX, Shared, Shortage, Spare, SpareFile,
    segment_name,
};
use crate::options::CommitMode;

/// How long it takes until a step that failed for want of room or descriptors is tried again.
const SHORTAGE_RETRY: Duration = Duration::from_millis(500);
/// A periodic writer that found nothing this often goes to sleep until it is woken.
const IDLE_ROUNDS_MAX: u32 = 100;
/// So few changes may be written by whoever appended them.
const LONE_JOBS_MAX: usize = 4;
/// And so few bytes.
const LONE_BYTES_MAX: usize = 256 * 1024;
/// Where a sync takes longer than this, about, whoever appended has others to serve meanwhile.
const LONE_SYNC_MAX: Duration = Duration::from_micros(500);

/// Who is told when records are durable, in the order of the log.
pub trait DurableSink<J>: Send {
    /// These are durable.
    fn on_durable(&mut self, jobs: Vec<J>);
    /// The log failed; it is unknown whether these will be found after a restart.
    fn on_failed(&mut self, jobs: Vec<J>, why: &Arc<str>);
    /// Whether [`DurableSink::on_durable`] waits for nobody with this one.
    fn is_quick(&self, job: &J) -> bool;
}

/// The pen of a log; nobody writes by himself yet.
pub(crate) fn new_pen<J>(shared: &Arc<Shared<J>>, sink: Box<dyn DurableSink<J>>) -> SharedPen<J> {
    Arc::new(Mutex::new(Pen {
        shared: Arc::clone(shared),
        sink: Some(sink),
        file: None,
        is_dirty: false,
        written: 0,
        last_sync: (shared.elapsed)(),
        usual_sync: Duration::ZERO,
        oldest: None,
        unfinished: None,
        is_short: false,
    }))
}

pub(crate) fn start_threads<J: Send + 'static>(
    shared: &Arc<Shared<J>>,
    pen: &SharedPen<J>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let (thread_pen, thread_shared) = (Arc::clone(pen), Arc::clone(shared));
    let writer = Builder::new()
        .name("log-writer".into())
        .spawn(move || run_writer(&thread_shared, &thread_pen))?;
    let shared = Arc::clone(shared);
    let spares = Builder::new().name("log-spare".into()).spawn(move || make_spares(&shared))?;
    Ok(vec![writer, spares])
}

/// Whoever holds it writes. It is taken before a group is, so that groups are written in their order.
pub(crate) struct Pen<J> {
    shared: Arc<Shared<J>>,
    /// Gone once the log is closed.
    sink: Option<Box<dyn DurableSink<J>>>,
    file: Option<Box<dyn LogFile>>,
    is_dirty: bool,
    /// Where the written log ends.
    written: Position,
    last_sync: Duration,
    /// How long a sync takes, about.
    usual_sync: Duration,
    /// From where the log is needed, until the mark that says so is synced.
    oldest: Option<Position>,
    /// A group that could not be written to its end for want of something. No other is written before it.
    unfinished: Option<Group<J>>,
    /// The last group that was tried had to wait.
    is_short: bool,
}

pub(crate) type SharedPen<J> = Arc<Mutex<Pen<J>>>;

/// Fails the log if whoever writes by himself panics: what he took is gone with him, and the log's own thread would write behind it.
struct FailDart<'s, J>(&'s Shared<J>);

impl<J> Drop for FailDart<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = || Arc::from("a bug: writing the log panicked");
            self.0.gathering.lock().disk_failure.get_or_insert_with(why);
            self.0.work.notify_one();
        }
    }
}

/// What there is to do.
enum Next<J> {
    Group(Group<J>),
    /// Somebody else has done it.
    Nothing,
    Over,
}

/// Why a group is not written.
enum Unwritten {
    /// For want of something, before a sync: it may be tried again.
    Short(io::Error),
    Failed(io::Error),
}

impl Unwritten {
    /// Of a step that is not a sync of what was promised.
    fn of(error: io::Error) -> Unwritten {
        match is_shortage(&error) {
            true => Unwritten::Short(error),
            false => Unwritten::Failed(error),
        }
    }
}

fn run_writer<J: Send + 'static>(shared: &Shared<J>, pen: &Mutex<Pen<J>>) {
    loop {
        wait_out_shortage(shared);
        if shared.mode == CommitMode::Group {
            wait_for_work(shared);
        }
        if pen.lock().turn() == Turn::Last {
            return;
        }
    }
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Idle,
    Wrote,
    /// Nothing will ever be written again.
    Last,
}

/// A log without threads: whoever needs it to go on has it take a turn. Whether anything was done.
pub(crate) fn step<J: Send + 'static>(shared: &Shared<J>, pen: &Mutex<Pen<J>>) -> bool {
    let spare = spare_turn(shared) == SpareTurn::Made;
    // Whoever applies a group may want to append: he finds the pen taken, and his record waits for the next turn.
    let Some(mut pen) = pen.try_lock() else { return spare };
    pen.turn() == Turn::Wrote || spare
}

/// Where something is short: until it is time to try again.
fn wait_out_shortage<J>(shared: &Shared<J>) {
    let mut gathering = shared.gathering.lock();
    let begun = (shared.elapsed)();
    while gathering.shortage.is_some() && !gathering.is_closing && gathering.disk_failure.is_none()
    {
        let waited = (shared.elapsed)().saturating_sub(begun);
        let Some(left) = SHORTAGE_RETRY.checked_sub(waited) else { return };
        shared.work.wait_for(&mut gathering, left);
    }
}

/// In group mode: until there is something to write, or nothing ever again.
fn wait_for_work<J>(shared: &Shared<J>) {
    let mut gathering = shared.gathering.lock();
    while !gathering.has_work() && gathering.shortage.is_none() && shared.failed.get().is_none() {
        shared.work.wait(&mut gathering);
    }
}

/// What the writer took at once.
struct Group<J> {
    /// What is not written yet.
    chunks: VecDeque<Chunk>,
    jobs: Vec<J>,
    end: Position,
    oldest: Option<Position>,
    sync: bool,
    is_last: bool,
}

/// Everything that was appended; from now on the writer is busy with it.
fn take_group<J>(shared: &Shared<J>, gathering: &mut Gathering<J>, sync: bool) -> Group<J> {
    if gathering.mark_wanted && gathering.marked_oldest != Some(gathering.oldest) {
        let synced = shared.synced.load(Ordering::Acquire);
        gathering.push_mark(synced);
    }
    gathering.mark_wanted = false;
    gathering.sync_wanted = false;
    gathering.buffered_bytes = 0;
    let is_last = gathering.is_closing && gathering.chunks.is_empty();
    if is_last {
        // The last word: everything before it was synced.
        let synced = shared.synced.load(Ordering::Acquire);
        gathering.push_mark(synced);
    }
    let group = Group {
        chunks: std::mem::take(&mut gathering.chunks).into(),
        jobs: std::mem::take(&mut gathering.jobs),
        end: gathering.next,
        oldest: gathering.marked_oldest.take(),
        sync,
        is_last,
    };
    gathering.writer_is_busy = true;
    shared.progress.notify_all();
    shared.room.notify_waiters();
    group
}

impl<J: Send + 'static> Pen<J> {
    /// Takes what there is to do, and does it.
    fn turn(&mut self) -> Turn {
        match self.take() {
            Next::Nothing => Turn::Idle,
            Next::Group(group) => match self.write_group(group) {
                ControlFlow::Continue(()) => Turn::Wrote,
                ControlFlow::Break(()) => Turn::Last,
            },
            Next::Over => {
                let failure = self.shared.gathering.lock().disk_failure.take();
                if let Some(why) = failure {
                    self.fail(&io::Error::other(why.to_string()), Vec::new());
                }
                Turn::Last
            }
        }
    }

    /// Writes what was appended, if it is little, nobody else writes, and a sync is quick. `false`: it was
    /// left to the log's own thread.
    pub(crate) fn write_lone_group(pen: &Mutex<Pen<J>>) -> bool {
        let Some(mut pen) = pen.try_lock() else { return false };
        if pen.usual_sync > LONE_SYNC_MAX || pen.unfinished.is_some() {
            return false;
        }
        let group = {
            let mut gathering = pen.shared.gathering.lock();
            let is_lone = pen.shared.mode == CommitMode::Group
                && matches!(gathering.jobs.len(), 1..=LONE_JOBS_MAX)
                && gathering.buffered_bytes <= LONE_BYTES_MAX
                && gathering.jobs.iter().all(|job| pen.is_quick(job))
                && !gathering.is_interrupted()
                && !gathering.is_abandoned;
            if !is_lone {
                return false;
            }
            // Under the same lock: nothing comes in between that is not quick.
            take_group(&pen.shared, &mut gathering, true)
        };
        let shared = Arc::clone(&pen.shared);
        let _dart = FailDart(&shared);
        // Where it failed, the log's own thread finds that out too.
        let _ = pen.write_group(group);
        true
    }

    fn is_quick(&self, job: &J) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.is_quick(job))
    }

    /// After the last group: waits for whoever was told of it.
    pub(crate) fn put_down(&mut self) {
        self.sink = None;
    }

    /// Breaks when nothing can be written any more.
    fn write_group(&mut self, mut group: Group<J>) -> ControlFlow<()> {
        self.oldest = group.oldest.or(self.oldest);
        match self.write(&mut group.chunks) {
            Ok(()) => {}
            Err(Unwritten::Short(error)) if self.may_wait() => {
                self.note_shortage(&error);
                self.unfinished = Some(group);
                return ControlFlow::Continue(());
            }
            Err(Unwritten::Short(error) | Unwritten::Failed(error)) => {
                self.fail(&error, group.jobs);
                return ControlFlow::Break(());
            }
        }
        let Group { jobs, end, sync, is_last, .. } = group;
        self.written = end;
        self.end_shortage();
        if sync
            && self.is_dirty
            && let Err(error) = self.sync()
        {
            self.fail(&error, jobs);
            return ControlFlow::Break(());
        }
        if sync {
            self.last_sync = (self.shared.elapsed)();
            self.publish_synced(end);
            if let Some(oldest) = self.oldest.take() {
                self.remove_before(oldest);
            }
        }
        if let Some(sink) = &mut self.sink
            && !jobs.is_empty()
        {
            sink.on_durable(jobs);
        }
        if is_last {
            self.finish_segment();
            return ControlFlow::Break(());
        }
        let mut gathering = self.shared.gathering.lock();
        gathering.writer_is_busy = false;
        self.shared.progress.notify_all();
        ControlFlow::Continue(())
    }

    /// Whether a shortage may be waited out; not when the log is to be closed.
    fn may_wait(&self) -> bool {
        let gathering = self.shared.gathering.lock();
        !gathering.is_closing && gathering.disk_failure.is_none()
    }

    /// Nothing more is accepted until the group at hand is written.
    fn note_shortage(&mut self, error: &io::Error) {
        if !self.is_short {
            tracing::error!(%error, "the log cannot be written; it is tried again, and writes are refused until then");
        }
        self.is_short = true;
        let mut gathering = self.shared.gathering.lock();
        gathering.shortage = Some(Shortage::of(error));
        // Who waits for room or for a sync is told; the log's own thread goes on with it.
        self.shared.progress.notify_all();
        self.shared.work.notify_one();
    }

    fn end_shortage(&mut self) {
        if std::mem::take(&mut self.is_short) {
            self.shared.gathering.lock().shortage = None;
            tracing::warn!("the log is written again");
        }
    }

    /// A clean stop leaves no room unused, so that the next start reads no more than was written.
    fn finish_segment(&mut self) {
        let start = self.shared.gathering.lock().segment_starts.back().copied();
        if let (Some(file), Some(start)) = (&mut self.file, start)
            && let Err(error) = file.finish(self.written - start)
        {
            tracing::warn!(%error, "the last log segment could not be shortened");
        }
    }

    /// Takes what there is to do; in periodic mode it waits for it.
    fn take(&mut self) -> Next<J> {
        let shared = Arc::clone(&self.shared);
        if shared.failed.get().is_none()
            && let Some(group) = self.unfinished.take()
        {
            return Next::Group(group);
        }
        let mut gathering = shared.gathering.lock();
        let sync = match shared.mode {
            CommitMode::Group => {
                if shared.failed.get().is_some() {
                    return Next::Over;
                }
                if !gathering.has_work() {
                    return Next::Nothing;
                }
                true
            }
            CommitMode::Periodic { sync_interval } => {
                if !shared.is_stepped {
                    self.wait_periodic(&mut gathering, sync_interval);
                } else if !gathering.has_work() && !self.is_sync_due(sync_interval) {
                    return Next::Nothing;
                }
                gathering.sync_wanted
                    || gathering.mark_wanted
                    || gathering.is_closing
                    || (self.is_dirty || !gathering.chunks.is_empty())
                        && self.is_interval_over(sync_interval)
            }
        };
        if gathering.is_abandoned || gathering.disk_failure.is_some() {
            return Next::Over;
        }
        Next::Group(take_group(&shared, &mut gathering, sync))
    }

    fn is_interval_over(&self, sync_interval: Duration) -> bool {
        (self.shared.elapsed)().saturating_sub(self.last_sync) >= sync_interval
    }

    fn is_sync_due(&self, sync_interval: Duration) -> bool {
        self.is_dirty && self.is_interval_over(sync_interval)
    }

    /// Gathers for a moment, so that appending costs no wakeup; sleeps when nothing comes.
    fn wait_periodic(&self, gathering: &mut MutexGuard<'_, Gathering<J>>, sync_interval: Duration) {
        let shared = &self.shared;
        let mut rounds = 0;
        loop {
            let urgent = gathering.is_closing || gathering.mark_wanted || gathering.sync_wanted;
            if urgent || gathering.disk_failure.is_some() {
                return;
            }
            if gathering.chunks.is_empty() && !self.is_dirty && rounds >= IDLE_ROUNDS_MAX {
                gathering.writer_sleeps = true;
                shared.work.wait(gathering);
                gathering.writer_sleeps = false;
                rounds = 0;
                continue;
            }
            shared.work.wait_for(gathering, shared.write_interval);
            rounds += 1;
            if !gathering.chunks.is_empty() || self.is_sync_due(sync_interval) {
                return;
            }
        }
    }

    /// Writes chunks and takes them away. After a shortage it can be called again with what is left.
    fn write(&mut self, chunks: &mut VecDeque<Chunk>) -> Result<(), Unwritten> {
        while let Some(chunk) = chunks.front_mut() {
            if let Some((start, spare)) = &mut chunk.begins {
                // The segment before must be whole on the disk before the next one says so.
                if self.is_dirty {
                    self.sync().map_err(Unwritten::Failed)?;
                }
                let (disk, start) = (&self.shared.disk, *start);
                let name = segment_name(start);
                if spare.name != name {
                    disk.rename(&spare.name, &name).map_err(Unwritten::of)?;
                    spare.name = name;
                }
                // Before anything in it is promised: should the file go, its absence is noticed.
                disk.set_newest(start).map_err(Unwritten::of)?;
                self.shared.gathering.lock().is_unprepared = true;
                self.shared.spare_wanted.notify_one();
            }
            if let Some((_, spare)) = chunk.begins.take() {
                self.file = Some(spare.file);
            }
            if let Some(file) = &mut self.file {
                file.write_at(chunk.offset, &chunk.bytes).map_err(Unwritten::of)?;
                self.is_dirty = true;
            }
            let Some(mut written) = chunks.pop_front() else { break };
            written.bytes.clear();
            if written.bytes.capacity() <= REUSABLE_BYTES_MAX {
                self.shared.gathering.lock().reusable = written.bytes;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let started = (self.shared.elapsed)();
        if let Some(file) = &mut self.file {
            file.sync()?;
        }
        let took = (self.shared.elapsed)().saturating_sub(started);
        self.shared.sync_times.add(took);
        self.usual_sync = (self.usual_sync * 3 + took) / 4;
        self.is_dirty = false;
        Ok(())
    }

    fn publish_synced(&self, end: Position) {
        let gathering = self.shared.gathering.lock();
        let before = self.shared.synced.swap(end, Ordering::AcqRel);
        assert!(
            before <= end && end <= gathering.next,
            "what is synced was appended, and stays so"
        );
        self.shared.progress.notify_all();
    }

    /// Removes the segments that end before a place; one of them is kept to be written over.
    fn remove_before(&mut self, oldest: Position) {
        let disk = &self.shared.disk;
        loop {
            let (first, wants_spare) = {
                let mut gathering = self.shared.gathering.lock();
                match gathering.segment_starts.get(1) {
                    Some(second) if *second <= oldest => {}
                    _ => return,
                }
                let Some(first) = gathering.segment_starts.pop_front() else { return };
                (first, gathering.recycled.is_none())
            };
            let name = segment_name(first);
            if wants_spare {
                let spare = format!("{SPARE_PREFIX}{first:016x}");
                match disk.recycle(&name, &spare, self.shared.segment_bytes) {
                    Ok(Some(file)) => {
                        let recycled = SpareFile { name: spare, file };
                        self.shared.gathering.lock().recycled = Some(recycled);
                        continue;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(%error, segment = first, "a log segment could not be kept as a spare");
                    }
                }
            }
            match disk.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, segment = first, "a log segment could not be removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Stops for good. What is on the disk is unknown, so nothing may be promised any more.
    fn fail(&mut self, error: &io::Error, jobs: Vec<J>) {
        let why: Arc<str> = Arc::from(error.to_string());
        tracing::error!(%error, "the log failed; nothing is acknowledged any more");
        let unfinished = self.unfinished.take().map(|group| group.jobs);
        let waiting = {
            let mut gathering = self.shared.gathering.lock();
            let _ = self.shared.failed.set(Arc::clone(&why));
            gathering.shortage = None;
            gathering.chunks.clear();
            self.shared.progress.notify_all();
            self.shared.room.notify_waiters();
            self.shared.spare_wanted.notify_one();
            // The log's own thread has nothing more to do.
            self.shared.work.notify_one();
            std::mem::take(&mut gathering.jobs)
        };
        if let Some(sink) = &mut self.sink {
            sink.on_failed(unfinished.unwrap_or_default(), &why);
            sink.on_failed(jobs, &why);
            sink.on_failed(waiting, &why);
        }
    }
}

/// Keeps a spare segment ready.
fn make_spares<J>(shared: &Shared<J>) {
    loop {
        let turn = spare_turn(shared);
        let mut gathering = shared.gathering.lock();
        if gathering.is_closing || shared.failed.get().is_some() {
            return;
        }
        match turn {
            SpareTurn::Made => {}
            SpareTurn::Short => {
                shared.spare_wanted.wait_for(&mut gathering, SHORTAGE_RETRY);
            }
            SpareTurn::Idle => {
                if gathering.has_spare() {
                    shared.spare_wanted.wait(&mut gathering);
                }
            }
        }
    }
}

/// What came of looking for a spare segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpareTurn {
    Idle,
    Made,
    /// For want of room or descriptors.
    Short,
}

/// Makes a spare segment ready if there is none, and what the next segment needs beside it.
fn spare_turn<J>(shared: &Shared<J>) -> SpareTurn {
    let mut gathering = shared.gathering.lock();
    if gathering.is_closing || shared.failed.get().is_some() || gathering.has_spare() {
        return SpareTurn::Idle;
    }
    if matches!(gathering.spare, Spare::Ready(_)) {
        gathering.is_unprepared = false;
        drop(gathering);
        if shared.disk.prepare().is_ok() {
            return SpareTurn::Made;
        }
        shared.gathering.lock().is_unprepared = true;
        return SpareTurn::Short;
    }
    let recycled = gathering.recycled.take();
    gathering.spare_number += 1;
    let number = gathering.spare_number;
    drop(gathering);
    let made = match (shared.disk.prepare(), recycled) {
        (Ok(()), Some(recycled)) => Ok(recycled),
        (Ok(()), None) => {
            let name = format!("{SPARE_PREFIX}{number}");
            let created = shared.disk.create(&name, shared.segment_bytes);
            created.map(|file| SpareFile { name, file }).map_err(|error| (error, None))
        }
        (Err(error), recycled) => Err((error, recycled)),
    };
    let mut gathering = shared.gathering.lock();
    let is_ready = made.is_ok();
    gathering.spare = match made {
        Ok(spare) => Spare::Ready(spare),
        Err((error, recycled)) => {
            gathering.recycled = recycled.or(gathering.recycled.take());
            Spare::Short(Shortage::of(&error))
        }
    };
    shared.progress.notify_all();
    shared.room.notify_waiters();
    if is_ready { SpareTurn::Made } else { SpareTurn::Short }
}
