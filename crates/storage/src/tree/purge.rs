//! Clearing what is dead for long enough, while sorted files are merged anyway.
//!
//! A tombstone or expired cell only guards against late writes with old timestamps, because what it
//! covers is not kept (see `merge`). After min(`gc_grace_seconds`, retention) it goes; when exactly
//! nobody can tell, because merging takes it for gone from then on (see `definition`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tree::courtesy::Courtesy;
use tree::engine::TreeBytes;
use tree::{Kept, Sieve, Sieving};
use types::{CellRef, CorruptRow, Deletion, Expiry, Liveness, RowView, RowWriter};

use super::keys::{self, SPACE_PARTS, SPACE_REQUESTS, SPACE_ROWS};
use crate::apply::once;
use crate::merge::row::{After, is_dead_before};
use crate::sure::tail;

/// Makes a filter for each compaction of one table. It purges up to the horizon that the table's sorted
/// files hold with their replay points: whatever is replayed over those files takes what died before for gone.
#[derive(Debug, Default)]
pub(crate) struct PurgeFactory {
    horizon_s: AtomicU32,
    /// Seconds beyond which nothing is purged for now, each with its number.
    held: Mutex<(u64, Vec<(u64, u32)>)>,
}

/// While it is held a table is purged no further than to a second: its rows are being handed to another node, or came from
/// there and belong to a set that is not as far as the table's others.
#[derive(Debug)]
pub(crate) struct PurgeHold {
    factory: Arc<PurgeFactory>,
    number: u64,
}

impl PurgeHold {
    pub(crate) fn new(factory: &Arc<PurgeFactory>, horizon_s: u32) -> PurgeHold {
        let mut held = factory.held.lock();
        held.0 += 1;
        let number = held.0;
        held.1.push((number, horizon_s));
        PurgeHold { factory: Arc::clone(factory), number }
    }
}

impl Drop for PurgeHold {
    fn drop(&mut self) {
        self.factory.held.lock().1.retain(|(number, _)| *number != self.number);
    }
}

impl PurgeFactory {
    /// What died before this second may go.
    pub(crate) fn horizon_s(&self) -> u32 {
        let horizon_s = self.horizon_s.load(Ordering::Acquire);
        self.held.lock().1.iter().map(|(_, held_s)| *held_s).fold(horizon_s, u32::min)
    }

    /// The sorted files hold this horizon.
    pub(crate) fn raise(&self, horizon_s: u32) {
        self.horizon_s.fetch_max(horizon_s, Ordering::AcqRel);
    }
}

impl Sieve for PurgeFactory {
    fn begin(&self) -> Box<dyn Sieving> {
        Box::new(PurgeFilter { horizon_s: self.horizon_s(), courtesy: Courtesy::default() })
    }
}

struct PurgeFilter {
    horizon_s: u32,
    courtesy: Courtesy,
}

impl Sieving for PurgeFilter {
    fn is_judged(&mut self, key: &[u8]) -> bool {
        self.courtesy.on_row();
        matches!(key.first(), Some(&SPACE_ROWS | &SPACE_REQUESTS | &SPACE_PARTS))
    }

    fn judge(&mut self, key: &[u8], value: &[u8]) -> Kept {
        if matches!(key.first(), Some(&SPACE_REQUESTS | &SPACE_PARTS)) {
            // Every entry that comes later has a later second than the horizon: the request is refused then.
            let not_after_s = once::not_after_s(value);
            let is_over = not_after_s.is_some_and(|not_after_s| not_after_s < self.horizon_s);
            return if is_over { Kept::Nothing } else { Kept::All };
        }
        // What is damaged is not for a filter to judge: a read will report it.
        let Some(split) = keys::split_row_key(key) else { return Kept::All };
        let row_at = match split.partition_key {
            Some(_) => 0,
            None => match keys::split_cut_key(value) {
                Some((partition_key, _)) => 2 + partition_key.len(),
                None => return Kept::All,
            },
        };
        let Some((before, row)) = value.split_at_checked(row_at) else { return Kept::All };
        match purge_row(row, self.horizon_s, before.to_vec()) {
            Err(CorruptRow) | Ok(Purged::Unchanged) => Kept::All,
            Ok(Purged::Gone) => Kept::Nothing,
            Ok(Purged::Smaller(bytes)) => Kept::Part(bytes),
        }
    }
}

/// What is left of a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Purged {
    Unchanged,
    Smaller(Vec<u8>),
    Gone,
}

/// Drops what died before the horizon; a smaller row is appended to `out`.
pub(crate) fn purge_row(row: &[u8], horizon_s: u32, out: Vec<u8>) -> Result<Purged, CorruptRow> {
    let view = RowView::decode(row)?;
    if view.has_spilled() {
        // What goes with it has keys of its own: the sweep sees to both.
        return Ok(Purged::Unchanged);
    }
    let is_expired =
        |expiry: Option<Expiry>| expiry.is_some_and(|expiry| expiry.expires_at_s < horizon_s);
    let is_old = |deleted_at_s: u32| deleted_at_s < horizon_s;
    let liveness = view.liveness().filter(|liveness: &Liveness| !is_expired(liveness.expiry));
    let deletion = view.deletion().filter(|deletion: &Deletion| !is_old(deletion.deleted_at_s));
    let is_dead = |cell: &CellRef<'_>| is_dead_before(horizon_s, cell);
    let (mut kept, mut dropped) = (0usize, 0usize);
    for cell in view.cells() {
        if is_dead(&cell?) {
            dropped += 1;
        } else {
            kept += 1;
        }
    }
    if liveness.is_none() && deletion.is_none() && kept == 0 {
        return Ok(Purged::Gone);
    }
    if dropped == 0 && liveness == view.liveness() && deletion == view.deletion() {
        return Ok(Purged::Unchanged);
    }
    let mut writer = RowWriter::new(out, liveness, deletion, view.original_clustering());
    for cell in view.cells() {
        let cell = cell?;
        if !is_dead(&cell) {
            writer.push(&cell);
        }
    }
    Ok(Purged::Smaller(writer.finish()))
}

/// Whether a change left a row as it was. What died before the horizon may be gone from the tree of one member of a set and not from
/// another's, as their compactions went: that it goes now is no change, or members would write, and sum, different things.
pub(crate) fn is_same(
    current: Option<&TreeBytes>,
    head_length: usize,
    after: &After,
    horizon_s: u32,
) -> Result<bool, CorruptRow> {
    let Some(current) = current else { return Ok(after.is_empty) };
    if !after.left_out_dead {
        return Ok(!after.is_empty && **current == *after.bytes);
    }
    let row = tail(current, head_length);
    Ok(match purge_row(row, horizon_s, Vec::new())? {
        Purged::Gone => after.is_empty,
        Purged::Smaller(left) => !after.is_empty && left == tail(&after.bytes, head_length),
        Purged::Unchanged => !after.is_empty && **current == *after.bytes,
    })
}
