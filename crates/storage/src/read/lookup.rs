//! Reading the rows that a secondary index names.
//!
//! The entries of a value lie in the order of the table: a lookup returns rows in the order of a
//! scan, and goes on where a scan would. An entry is a hint: its row is read, and the caller's
//! filters decide. Entries and rows are read from one snapshot, so that a change of several rows is
//! seen as a whole; while no such change comes in between, rows come from the cache.

use std::sync::Arc;

use bytes::Bytes;
use types::{CorruptRow, Flow, IndexQuestion, PartitionKey, ReadCommand, ReadScope, RingToken};

use super::spilled::has_spilled;
use super::{Fetched, PointSource, Reader, Resume, Selected, in_order, select};
use crate::core::Core;
use crate::error::TreeError;
use crate::index::keys::{EntryValue, value_prefix};
use crate::index::tree::IndexTree;
use crate::sure::sure;
use crate::tree::keys::{self, SPACE_ROWS};
use crate::tree::progress::SetProgress;
use crate::tree::store::TableStore;
use tree::engine::{LATEST, SeqNo, TreeBytes};

/// Rows of one partition that are fetched together.
const RUN_ROWS_MAX: usize = 64;
/// After so many entries of a partition that is done, the next partition is sought.
const SKIPPED_ENTRIES_MAX: u32 = 32;

/// The entries that a command asks for: from, and before.
pub(super) fn bounds(
    index: &IndexTree,
    question: &IndexQuestion,
    command: &ReadCommand,
) -> (usize, Vec<u8>, Vec<u8>) {
    let prefix = value_prefix(&index.shape.question(question));
    let finds_partitions = index.shape.finds_partitions();
    let (mut start, mut end) = (prefix.clone(), prefix.clone());
    match &command.scope {
        ReadScope::Partition(key) => {
            keys::push_partition_prefix(&mut start, key);
            end.clone_from(&start);
            keys::push_rows_end(&mut end);
        }
        ReadScope::Ring(range) => {
            start.extend_from_slice(&range.start.to_bytes());
            match range.last.0.checked_add(1) {
                Some(next) => end.extend_from_slice(&RingToken(next).to_bytes()),
                None => end = sure(types::key::successor(&prefix), "a space has a successor"),
            }
        }
    }
    if let Some(after) = &command.after {
        let mut from = prefix.clone();
        keys::push_partition_prefix(&mut from, &after.key);
        match &after.clustering {
            None => keys::push_rows_end(&mut from),
            // The rest of that partition.
            Some(_) if finds_partitions => {}
            Some(clustering) => {
                keys::push_clustering(&mut from, clustering);
                from.push(0);
            }
        }
        start = start.max(from);
    }
    (prefix.len(), start, end)
}

impl Reader<'_> {
    /// Reads the rows that an index names.
    pub(super) fn look_up(
        &mut self,
        index: &IndexTree,
        question: &IndexQuestion,
    ) -> Result<(), TreeError> {
        let (prefix_length, start, end) = bounds(index, question, self.command);
        let progress = self.opened.progress(self.set);
        let epoch = progress.quiet_epoch_up_to(self.last());
        let snapshot = self.opened.snapshot(self.set, self.last());
        let view = View { progress, epoch, seqno: snapshot.seqno };
        let lookup =
            Lookup { core: self.core, store: self.store, index, prefix_length, start, end };
        if index.shape.finds_partitions() {
            self.read_found_partitions(lookup, &view)
        } else {
            self.read_found_rows(&lookup, &view)
        }
    }

    fn read_found_partitions(
        &mut self,
        mut lookup: Lookup<'_>,
        view: &View,
    ) -> Result<(), TreeError> {
        let mut done: Option<PartitionKey> = None;
        let mut skipped = 0;
        let mut items = lookup.items(view.seqno);
        while let Some(item) = items.next() {
            let (entry_key, value) = item.map_err(|error| lookup.failed(error))?;
            let entry = lookup.entry(&entry_key, &value)?;
            if done.as_ref().is_some_and(|key| entry.is_of(key)) {
                skipped += 1;
                if skipped > SKIPPED_ENTRIES_MAX
                    && let Some(key) = &done
                {
                    lookup.start.truncate(lookup.prefix_length);
                    keys::push_partition_prefix(&mut lookup.start, key);
                    keys::push_rows_end(&mut lookup.start);
                    items = lookup.items(view.seqno);
                    skipped = 0;
                }
                continue;
            }
            let key = entry.key();
            self.entries_followed += 1;
            if self.read_partition(&key)? == Flow::Stop || !self.goes_on(0) {
                return Ok(());
            }
            done = Some(key);
        }
        Ok(())
    }

    fn read_found_rows(&mut self, lookup: &Lookup<'_>, view: &View) -> Result<(), TreeError> {
        let mut run: Vec<Bytes> = Vec::new();
        let mut run_key: Option<PartitionKey> = None;
        for item in lookup.items(view.seqno) {
            let (entry_key, value) = item.map_err(|error| lookup.failed(error))?;
            let entry = lookup.entry(&entry_key, &value)?;
            if !self.goes_on(0) {
                return Ok(());
            }
            let is_over = entry.expires_at_s.is_some_and(|second| second <= self.command.now_s);
            let Some(clustering) = entry.clustering else { continue };
            if is_over || !matches!(select(&self.command.rows, clustering), Selected::Yes) {
                continue;
            }
            let is_next = run_key.as_ref().is_none_or(|key| !entry.is_of(key));
            if is_next || run.len() == RUN_ROWS_MAX {
                if let Some(key) = &run_key
                    && self.offer_run(key, &run, view)? == Flow::Stop
                {
                    return Ok(());
                }
                run.clear();
            }
            if is_next {
                run_key = Some(entry.key());
            }
            self.entries_followed += 1;
            run.push(Bytes::copy_from_slice(clustering));
        }
        if let Some(key) = &run_key {
            self.offer_run(key, &run, view)?;
        }
        Ok(())
    }

    /// Offers some rows of a partition.
    fn offer_run(
        &mut self,
        key: &PartitionKey,
        points: &[Bytes],
        view: &View,
    ) -> Result<Flow, TreeError> {
        let resume = self.resume(key);
        if points.is_empty() || matches!(resume, Resume::Done) {
            return Ok(Flow::Continue);
        }
        let mut buffer = super::KEY.take();
        buffer.clear();
        buffer.extend_from_slice(&self.store.cache_id.to_be_bytes());
        buffer.push(SPACE_ROWS);
        keys::push_partition_prefix(&mut buffer, key);
        let mut source = PointSource {
            core: self.core,
            opened: self.opened,
            has_deletions: false,
            prefix_length: buffer.len(),
            seqno: LATEST,
            buffer,
        };
        let result = self.offer_run_from(&mut source, key, points, resume, view);
        super::KEY.set(source.buffer);
        result
    }

    fn offer_run_from(
        &mut self,
        source: &mut PointSource<'_>,
        key: &PartitionKey,
        points: &[Bytes],
        resume: Resume<'_>,
        view: &View,
    ) -> Result<Flow, TreeError> {
        source.read_at(LATEST);
        let mut fetched: Vec<Fetched> = Vec::with_capacity(points.len() + 1);
        if self.command.statics != types::Statics::Skip {
            fetched.push(source.fetch(None)?);
        }
        for clustering in in_order(points, self.command.reversed, resume) {
            fetched.push(source.fetch(Some(clustering))?);
        }
        let is_cut = keys::is_cut(key);
        let any_spilled = fetched.iter().any(|it| has_spilled(it.value.as_ref(), is_cut));
        if !any_spilled && view.epoch.is_some() && view.progress.quiet_epoch() == view.epoch {
            let mut fetched = fetched.into_iter();
            let mut next = |_: Option<&[u8]>| Ok(sure(fetched.next(), "every point was fetched"));
            return self.offer_points(key, points, resume, &mut next);
        }
        source.read_at(view.seqno);
        self.seqno = view.seqno;
        self.offer_points(key, points, resume, &mut |at| source.fetch(at))
    }
}

/// From when a lookup reads.
struct View {
    progress: Arc<SetProgress>,
    /// No change of several rows was under way.
    epoch: Option<u64>,
    seqno: SeqNo,
}

struct Lookup<'l> {
    core: &'l Core,
    store: &'l TableStore,
    index: &'l IndexTree,
    /// Space and value.
    prefix_length: usize,
    start: Vec<u8>,
    end: Vec<u8>,
}

impl Lookup<'_> {
    fn items(&self, seqno: SeqNo) -> tree::engine::TreeIter {
        self.index.tree.range(&self.start, &self.end, seqno)
    }

    /// This read goes on without the index or, where rows were found by it, fails; later ones go
    /// without it until it is built anew.
    fn failed(&self, error: TreeError) -> TreeError {
        if matches!(error, TreeError::Corrupt(_)) {
            self.index.condemn(&error);
            if let Some(store) = self.core.store(self.store.id) {
                self.core.queue_builds(&store);
            }
        }
        error
    }

    fn entry<'e>(
        &self,
        entry_key: &'e TreeBytes,
        value: &'e TreeBytes,
    ) -> Result<FoundEntry<'e>, CorruptRow> {
        // The place is a row's key without its space; the byte before it stands in for that.
        let place = entry_key.get(self.prefix_length - 1..).ok_or(CorruptRow)?;
        let split = keys::split_row_key(place).ok_or(CorruptRow)?;
        let value = EntryValue::decode(value).ok_or(CorruptRow)?;
        Ok(FoundEntry {
            ring: split.ring,
            partition_key: split.partition_key.or(value.partition_key).ok_or(CorruptRow)?,
            clustering: split.clustering,
            expires_at_s: value.expires_at_s,
        })
    }
}

/// An entry, taken apart.
struct FoundEntry<'e> {
    ring: RingToken,
    partition_key: &'e [u8],
    clustering: Option<&'e [u8]>,
    expires_at_s: Option<u32>,
}

impl FoundEntry<'_> {
    fn is_of(&self, key: &PartitionKey) -> bool {
        self.ring == key.ring() && self.partition_key == key.bytes().as_ref()
    }

    fn key(&self) -> PartitionKey {
        PartitionKey::from_parts(Bytes::copy_from_slice(self.partition_key), self.ring)
    }
}
