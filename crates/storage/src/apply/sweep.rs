//! A part of a logical partition loses what old deletions cover, and at the end they go themselves.
//!
//! Readers cannot tell; who writes late with an old timestamp can. That is why it is an entry.

use types::CorruptRow;

use super::{CACHE_ID_BYTES, Place};
use crate::core::{Core, PoisonDart};
use crate::entry::Sweep;
use crate::error::{CommitError, TreeError};
use crate::heads::Unfit;
use crate::index::maintain::{IndexWrites, read_row};
use crate::index::shape::CoveredRow;
use crate::spill::thaw_value;
use crate::tree::deletions::{self, PartitionDeletions};
use crate::tree::keys::{self, SPACE_ROWS};
use crate::tree::store::{OpenStore, TableStore};
use crate::tree::sweep::{rows_end, uncovered};
use tree::engine::{LATEST, TreeBytes};

/// What a sweep changes, worked out before anything is written.
#[derive(Default)]
struct Swept {
    writes: Vec<(TreeBytes, Option<TreeBytes>)>,
    index_writes: IndexWrites,
    /// The partition has no deletions any more.
    is_clean: bool,
}

/// Applies one part of a sweep. The caller applies the entries of a set one after the other.
pub(crate) fn apply_sweep(core: &Core, place: Place, sweep: &Sweep) -> Result<(), CommitError> {
    let table = sweep.table;
    let of_tree = |error| CommitError::Tree { table, error };
    let Some(store) = core.store_or_new(table) else { return Ok(()) };
    let opened = store
        .for_write()
        .inspect_err(|error| core.damage.note_error(table, error))
        .map_err(of_tree)?;
    let _open = opened.hold_open();
    let _dart = PoisonDart(&core.poison);
    let progress = opened.progress(place.set);
    if place.position < store.born || place.applied <= progress.applied() {
        return Ok(());
    }
    progress.begin_entry(place.now_s);
    let swept = work_out(opened, sweep).map_err(of_tree)?;
    let grown = if swept.writes.is_empty() {
        0
    } else {
        progress.begin_many();
        let seqno = opened.tree.draw_seqno();
        let readers_from = opened.readers_from(progress.published(), &progress.hold_readers());
        let mut grown = swept.index_writes.write(seqno).cast_signed();
        let head_key = cache_key(&store, &[&[SPACE_ROWS], sweep.prefix.as_ref()].concat());
        let mut turn = core.heads.turn(&head_key);
        // A head may remember the deletions that go.
        turn.change(|_| Err(Unfit));
        for (key, value) in swept.writes {
            grown += opened.tree.write_over(&key, value, seqno, readers_from);
            core.cache.forget(&cache_key(&store, &key));
        }
        progress.publish(seqno + 1);
        drop(turn);
        progress.end_many();
        grown
    };
    opened.note_write(place.position, grown);
    core.pressure.change(grown);
    if swept.is_clean {
        opened.forget_deleted(&sweep.prefix);
    }
    progress.set_applied(place.applied);
    Ok(())
}

/// Store number and tree key.
fn cache_key(store: &TableStore, tree_key: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(CACHE_ID_BYTES + tree_key.len());
    key.extend_from_slice(&store.cache_id.to_be_bytes());
    key.extend_from_slice(tree_key);
    key
}

fn work_out(opened: &OpenStore, sweep: &Sweep) -> Result<Swept, TreeError> {
    let tree = opened.tree.as_ref();
    let mut swept = Swept::default();
    let all = PartitionDeletions::load(tree, &sweep.prefix, LATEST)?;
    let (old, kept) = all.split_at_horizon(sweep.horizon_s);
    if old == PartitionDeletions::default() {
        return Ok(swept);
    }
    let has_leftovers = opened.leftovers.contain(&sweep.prefix);
    let end = sweep.to.as_ref().map_or_else(|| rows_end(&sweep.prefix), |to| to.to_vec());
    let is_in_order = sweep.from.as_ref() < end.as_slice();
    for item in is_in_order.then(|| tree.range(&sweep.from, &end, LATEST)).into_iter().flatten() {
        let (key, value) = item?;
        let split = keys::split_row_key(&key).ok_or(CorruptRow)?;
        let covering_us = old.covering_us(split.clustering);
        if covering_us == i64::MIN {
            continue;
        }
        if has_leftovers {
            let value = thaw_value(tree, &key, value.clone(), LATEST)?;
            if let Some((name, view)) = read_row(&key, &value)? {
                let before = Some(CoveredRow { view, covering_us: i64::MIN });
                let after = Some(CoveredRow { view, covering_us });
                for index in opened.indexes.all().iter() {
                    swept.index_writes.add(index, &name, before, after)?;
                }
            }
        }
        swept.writes.append(&mut uncovered(tree, &key, &value, covering_us)?);
    }
    if sweep.to.is_none() {
        let gone = deletions::difference(&sweep.prefix, &all, &kept).into_iter();
        swept.writes.extend(gone.map(|(key, value)| (TreeBytes::from(key), value)));
        swept.is_clean = kept == PartitionDeletions::default();
    }
    Ok(swept)
}
