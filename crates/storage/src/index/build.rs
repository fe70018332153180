//! Filling an index of a table that has rows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use types::{RingToken, TableId};

use super::keys::entry_key;
use super::maintain::{read_row, value_of};
use super::shape::CoveredRow;
use super::tree::{BuildState, IndexTree};
use crate::core::Core;
use crate::error::TreeError;
use crate::options::Driver;
use crate::spill::thaw_value;
use crate::tree::deletions;
use crate::tree::keys::SPACE_ROWS;
use crate::tree::store::{OpenStore, TableStore};
use tree::engine::LATEST;

/// Rows that are looked at while nothing is applied to the table.
const ROWS_PER_MOMENT: usize = 64;
/// The builder rests after each moment, so that it takes about half of a core at most, and writers
/// come in between.
const REST: Duration = Duration::from_micros(200);
/// Once in so many moments it is noted how far the index came.
const MOMENTS_PER_NOTE: u32 = 64;
/// How long the builder waits after an error.
const REST_AFTER_ERROR: Duration = Duration::from_secs(1);

/// The indexes that wait to be built.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilds {
    queue: Mutex<VecDeque<(Arc<TableStore>, TableId)>>,
    changed: Condvar,
}

impl IndexBuilds {
    /// Has an index built if it is not.
    pub(crate) fn add(&self, store: &Arc<TableStore>, index: TableId) {
        let mut queue = self.queue.lock();
        // As many as there are indexes, and none twice.
        if !queue.iter().any(|(_, queued)| *queued == index) {
            queue.push_back((Arc::clone(store), index));
            self.changed.notify_all();
        }
    }

    /// Wakes the builder, to see that it must stop.
    pub(crate) fn wake(&self) {
        let _queue = self.queue.lock();
        self.changed.notify_all();
    }

    fn rest(&self, time: Duration) {
        let mut queue = self.queue.lock();
        self.changed.wait_for(&mut queue, time);
    }

    fn next(
        &self,
        is_stopping: &dyn Fn() -> bool,
        when_idle: WhenIdle,
    ) -> Option<(Arc<TableStore>, TableId)> {
        let mut queue = self.queue.lock();
        loop {
            // Asked under the lock: whoever says so wakes the builder under it, and is not missed.
            if is_stopping() {
                return None;
            }
            // It stays in the queue until it is done, so that it is not queued twice.
            if let Some((store, index)) = queue.front() {
                return Some((Arc::clone(store), *index));
            }
            match when_idle {
                WhenIdle::Wait => self.changed.wait(&mut queue),
                WhenIdle::Return => return None,
            }
        }
    }

    fn finish(&self, index: TableId) {
        self.queue.lock().retain(|(_, queued)| *queued != index);
    }
}

/// What the builder does when no index waits to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenIdle {
    /// It is a thread of its own.
    Wait,
    /// It is a step of a storage without threads.
    Return,
}

/// Builds one index after the other until it must stop. `flush` writes a store into sorted files; `is_stopping` takes no lock.
pub(crate) fn run(
    core: &Core,
    flush: &dyn Fn(&Arc<TableStore>) -> Result<(), TreeError>,
    is_stopping: &dyn Fn() -> bool,
    when_idle: WhenIdle,
) {
    while let Some((store, id)) = core.index_builds.next(is_stopping, when_idle) {
        let goes_on = || !is_stopping() && !store.is_dropped();
        match build(core, &store, id, &goes_on) {
            Ok(Built::Stopped) if is_stopping() => return,
            Ok(Built::Again) => continue,
            Ok(Built::Stopped) => {}
            Ok(Built::Done) => {
                if let Err(error) = flush(&store) {
                    tracing::warn!(table = %store.id, %error, "a new index could not be flushed");
                }
            }
            Err(_) if store.is_dropped() => {}
            Err(error) => {
                tracing::error!(table = %store.id, %error, "an index could not be built; again soon");
                match when_idle {
                    WhenIdle::Wait => core.index_builds.rest(REST_AFTER_ERROR),
                    WhenIdle::Return => return,
                }
                continue;
            }
        }
        core.index_builds.finish(id);
    }
}

enum Built {
    Done,
    /// It was found to be damaged meanwhile.
    Again,
    /// The table, the index or the node is going.
    Stopped,
}

fn build(
    core: &Core,
    store: &TableStore,
    id: TableId,
    goes_on: &dyn Fn() -> bool,
) -> Result<Built, TreeError> {
    let opened = store.for_write()?;
    if opened.indexes.get(id).is_some_and(|index| index.is_condemned()) {
        store.renew_index(id)?;
    }
    let Some(index) = opened.indexes.get(id) else { return Ok(Built::Stopped) };
    if index.is_built() {
        return Ok(Built::Done);
    }
    let mut state = index.state();
    if state.started_s == 0 {
        state.started_s = core.clock.now_s();
    }
    let mut moment = 0u32;
    loop {
        if !goes_on() || index.is_dropped() {
            return Ok(Built::Stopped);
        }
        if index.is_condemned() {
            return Ok(Built::Again);
        }
        // Behind writers when memory is short.
        if core.pressure.admit().is_err() {
            core.index_builds.rest(REST_AFTER_ERROR);
            continue;
        }
        moment = moment.wrapping_add(1);
        let is_noted = moment.is_multiple_of(MOMENTS_PER_NOTE);
        let bytes = build_some(opened, &index, &mut state, core.clock.now_s(), is_noted)?;
        core.pressure.grow(bytes);
        if state.is_built {
            return Ok(Built::Done);
        }
        if core.options.driver == Driver::Threads {
            core.index_builds.rest(REST);
        }
    }
}

/// Adds the entries of a few rows. Returns by how many bytes memory grew.
fn build_some(
    opened: &OpenStore,
    index: &IndexTree,
    state: &mut BuildState,
    now_s: u32,
    is_noted: bool,
) -> Result<u64, TreeError> {
    let pause = opened.pause();
    let tree = opened.tree.as_ref();
    let seqno = tree.draw_seqno();
    let start = match state.position.is_empty() {
        true => vec![SPACE_ROWS],
        false => state.position.clone(),
    };
    let mut bytes = 0;
    let mut row_count = 0;
    let mut is_done = true;
    for item in tree.range(&start, &[SPACE_ROWS + 1], LATEST) {
        let (key, value) = item?;
        if row_count == ROWS_PER_MOMENT {
            state.position = key.to_vec();
            is_done = false;
            break;
        }
        row_count += 1;
        let value = thaw_value(tree, &key, value, LATEST)?;
        let Some((name, view)) = read_row(&key, &value)? else { continue };
        let prefix = crate::tree::keys::split_prefix(&key).and_then(|(prefix, _)| prefix.get(1..));
        let covering_us = match prefix {
            Some(prefix) if opened.deleted.may_contain(prefix) => {
                deletions::covering_us(tree, prefix, name.clustering, LATEST)?
            }
            _ => i64::MIN,
        };
        for entry in index.shape.entries(&name, Some(CoveredRow { view, covering_us }))? {
            let entry_key = entry_key(&entry.value, name.tree_key);
            bytes += index.tree.insert(&entry_key, value_of(&name, &entry), seqno);
        }
    }
    state.row_count += row_count as u64;
    if is_done {
        state.is_built = true;
        state.finished_s = now_s;
        state.position.clear();
    }
    if is_done || is_noted {
        bytes += index.save_state(state.clone(), seqno);
    } else {
        index.show_state(state.clone());
    }
    opened.note_sweep(bytes);
    pause.publish();
    Ok(bytes)
}

/// How far an index is built.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexBuild {
    /// Whose index.
    pub table: TableId,
    /// Which index.
    pub index: TableId,
    /// Whether it is done, so that it answers.
    pub is_built: bool,
    /// Rows that were looked at; none where the table was empty.
    pub row_count: u64,
    /// The part of the ring that is done, from 0 to 1.
    pub share: f64,
    /// When it began, seconds since the epoch; zero when there was nothing to do.
    pub started_s: u32,
    /// When it was done, seconds since the epoch; zero while it is not.
    pub finished_s: u32,
}

impl IndexBuild {
    pub(crate) fn of(table: TableId, index: &IndexTree) -> IndexBuild {
        let state = index.state();
        let ring = state.position.get(1..).and_then(|rest| rest.first_chunk::<16>());
        let ring = ring.map_or(RingToken(0), |bytes| RingToken(u128::from_be_bytes(*bytes)));
        let share = if state.is_built { 1.0 } else { ring.0 as f64 / u128::MAX as f64 };
        IndexBuild {
            table,
            index: index.shape.id,
            is_built: state.is_built,
            row_count: state.row_count,
            share,
            started_s: state.started_s,
            finished_s: state.finished_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;

    /// A builder that missed its end kept its node from stopping, for ever.
    #[test]
    fn a_builder_does_not_miss_that_it_must_stop() {
        let (ended, end) = sync_channel(1);
        let waiting = move || {
            let (builds, is_stopping) = (IndexBuilds::default(), AtomicBool::new(false));
            let is_first = AtomicBool::new(true);
            std::thread::scope(|scope| {
                let (told, was_told) = sync_channel(1);
                // It is told to stop right after it looked whether it must.
                let look = || {
                    if !is_first.swap(false, Ordering::Relaxed) {
                        return is_stopping.load(Ordering::Acquire);
                    }
                    let (told, builds, is_stopping) = (told.clone(), &builds, &is_stopping);
                    scope.spawn(move || {
                        is_stopping.store(true, Ordering::Release);
                        builds.wake();
                        let _ = told.send(());
                    });
                    let _ = was_told.recv_timeout(Duration::from_millis(100));
                    false
                };
                assert!(builds.next(&look, WhenIdle::Wait).is_none());
            });
            let _ = ended.send(());
        };
        std::thread::Builder::new().spawn(waiting).unwrap();
        assert_eq!(end.recv_timeout(Duration::from_secs(10)), Ok(()), "it waits for ever");
    }
}
