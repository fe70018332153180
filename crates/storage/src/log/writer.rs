//! The thread that writes and syncs, and the thread that keeps a spare segment ready.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::disk::{LogFile, is_disk_full};
use super::frame::Position;
use super::gather::{
    Chunk, Gathering, REUSABLE_BYTES_MAX, SPARE_PREFIX, Shared, Spare, SpareFile, segment_name,
};
use crate::options::CommitMode;

/// How long a maker of spares waits before it tries a full disk again.
const SPARE_RETRY: Duration = Duration::from_millis(500);
/// A periodic writer that found nothing this often goes to sleep until it is woken.
const IDLE_ROUNDS_MAX: u32 = 100;

/// Who is told when records are durable, in the order of the log.
pub(crate) trait DurableSink<J>: Send {
    /// These are durable.
    fn on_durable(&mut self, jobs: Vec<J>);
    /// The log failed; it is unknown whether these will be found after a restart.
    fn on_failed(&mut self, jobs: Vec<J>, why: &Arc<str>);
}

pub(crate) fn start_threads<J: Send + 'static>(
    shared: &Arc<Shared<J>>,
    sink: Box<dyn DurableSink<J>>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut writer =
        Writer { shared: Arc::clone(shared), sink, file: None, is_dirty: false, written: 0 };
    let writer = Builder::new().name("log-writer".into()).spawn(move || writer.run())?;
    let shared = Arc::clone(shared);
    let spares = Builder::new().name("log-spare".into()).spawn(move || make_spares(&shared))?;
    Ok(vec![writer, spares])
}

struct Writer<J> {
    shared: Arc<Shared<J>>,
    sink: Box<dyn DurableSink<J>>,
    file: Option<Box<dyn LogFile>>,
    is_dirty: bool,
    /// Where the written log ends.
    written: Position,
}

/// What the writer took at once.
struct Group<J> {
    chunks: Vec<Chunk>,
    jobs: Vec<J>,
    end: Position,
    oldest: Option<Position>,
    sync: bool,
    is_last: bool,
}

impl<J: Send + 'static> Writer<J> {
    fn run(&mut self) {
        let mut last_sync = now();
        // Kept until the mark that carries it is synced.
        let mut oldest = None;
        loop {
            let Some(group) = self.take(last_sync) else {
                let failure = self.shared.gathering.lock().disk_failure.take();
                if let Some(why) = failure {
                    self.fail(&io::Error::other(why.to_string()), Vec::new());
                }
                return;
            };
            let is_last = group.is_last;
            oldest = group.oldest.or(oldest);
            let sync = group.sync;
            let end = group.end;
            let result = self.write(group.chunks, end).and_then(|()| {
                if sync && self.is_dirty {
                    self.sync()?;
                }
                Ok(())
            });
            if let Err(error) = result {
                self.fail(&error, group.jobs);
                return;
            }
            if sync {
                last_sync = now();
                self.publish_synced(end);
                if let Some(oldest) = oldest.take() {
                    self.remove_before(oldest);
                }
            }
            if !group.jobs.is_empty() {
                self.sink.on_durable(group.jobs);
            }
            if is_last {
                self.finish_segment();
                return;
            }
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

    /// Waits for work and takes it; `None` when there will be none.
    fn take(&mut self, last_sync: Instant) -> Option<Group<J>> {
        let shared = Arc::clone(&self.shared);
        let mut gathering = shared.gathering.lock();
        gathering.writer_is_busy = false;
        shared.progress.notify_all();
        let sync = match shared.mode {
            CommitMode::Group => {
                while gathering.chunks.is_empty()
                    && !gathering.is_closing
                    && !gathering.mark_wanted
                    && !gathering.sync_wanted
                    && gathering.disk_failure.is_none()
                {
                    shared.work.wait(&mut gathering);
                }
                true
            }
            CommitMode::Periodic { sync_interval } => {
                self.wait_periodic(&mut gathering, last_sync, sync_interval);
                gathering.sync_wanted
                    || gathering.mark_wanted
                    || gathering.is_closing
                    || (self.is_dirty || !gathering.chunks.is_empty())
                        && now().duration_since(last_sync) >= sync_interval
            }
        };
        if gathering.is_abandoned || gathering.disk_failure.is_some() {
            return None;
        }
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
            chunks: std::mem::take(&mut gathering.chunks),
            jobs: std::mem::take(&mut gathering.jobs),
            end: gathering.next,
            oldest: gathering.marked_oldest.take(),
            sync,
            is_last,
        };
        gathering.writer_is_busy = true;
        shared.progress.notify_all();
        Some(group)
    }

    /// Gathers for a moment, so that appending costs no wakeup; sleeps when nothing comes.
    fn wait_periodic(
        &self,
        gathering: &mut MutexGuard<'_, Gathering<J>>,
        last_sync: Instant,
        sync_interval: Duration,
    ) {
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
            let due = self.is_dirty && now().duration_since(last_sync) >= sync_interval;
            if !gathering.chunks.is_empty() || due {
                return;
            }
        }
    }

    fn write(&mut self, chunks: Vec<Chunk>, end: Position) -> io::Result<()> {
        for mut chunk in chunks {
            if let Some((start, spare)) = chunk.begins.take() {
                // The segment before must be whole on the disk before the next one says so.
                if self.is_dirty {
                    self.sync()?;
                }
                self.shared.disk.rename(&spare.name, &segment_name(start))?;
                // Before anything in it is promised: should the file go, its absence is noticed.
                self.shared.disk.set_newest(start)?;
                self.file = Some(spare.file);
            }
            if let Some(file) = &mut self.file {
                file.write_at(chunk.offset, &chunk.bytes)?;
                self.is_dirty = true;
            }
            chunk.bytes.clear();
            if chunk.bytes.capacity() <= REUSABLE_BYTES_MAX {
                self.shared.gathering.lock().reusable = chunk.bytes;
            }
        }
        self.written = end;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.sync()?;
        }
        self.is_dirty = false;
        Ok(())
    }

    fn publish_synced(&self, end: Position) {
        let _gathering = self.shared.gathering.lock();
        self.shared.synced.store(end, Ordering::Release);
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
        let waiting = {
            let mut gathering = self.shared.gathering.lock();
            let _ = self.shared.failed.set(Arc::clone(&why));
            gathering.chunks.clear();
            self.shared.progress.notify_all();
            self.shared.spare_wanted.notify_one();
            std::mem::take(&mut gathering.jobs)
        };
        self.sink.on_failed(jobs, &why);
        self.sink.on_failed(waiting, &why);
    }
}

/// Keeps a spare segment ready.
fn make_spares<J>(shared: &Shared<J>) {
    let mut number = 0u64;
    let mut gathering = shared.gathering.lock();
    loop {
        if gathering.is_closing || shared.failed.get().is_some() {
            return;
        }
        if matches!(gathering.spare, Spare::Ready(_)) {
            shared.spare_wanted.wait(&mut gathering);
            continue;
        }
        if let Some(recycled) = gathering.recycled.take() {
            gathering.spare = Spare::Ready(recycled);
            shared.progress.notify_all();
            continue;
        }
        drop(gathering);
        number += 1;
        let name = format!("{SPARE_PREFIX}{number}");
        let made = shared.disk.create(&name, shared.segment_bytes);
        gathering = shared.gathering.lock();
        let is_ready = made.is_ok();
        gathering.spare = match made {
            Ok(file) => Spare::Ready(SpareFile { name, file }),
            Err(error) if is_disk_full(&error) => Spare::DiskFull,
            Err(error) => Spare::Failed(Arc::from(error.to_string())),
        };
        shared.progress.notify_all();
        if !is_ready {
            shared.spare_wanted.wait_for(&mut gathering, SPARE_RETRY);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this thread owns its loop; when it syncs decides nothing that is replayed"
)]
fn now() -> Instant {
    Instant::now()
}
