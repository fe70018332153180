//! Rows that were handed over from another node may belong to a set that is not as far as the others of its table on this node.
//!
//! A table is purged up to a second that no entry is behind which is still to be applied, by the sets that were here then. Where
//! rows of one more set come, that may not be true of its entries: what they ask for must find what died since. So as long as
//! the set is not as far as the table was purged, the table is purged no further than the rows were. The tree says so itself,
//! until it is flushed without.

use std::sync::Arc;

use parking_lot::Mutex;
use types::SetId;

use super::keys::{SPACE_GUARDS, guard_key};
use super::purge::{PurgeFactory, PurgeHold};
use super::store::OpenStore;
use crate::error::TreeError;
use tree::engine::{LATEST, SeqNo, SortedTree, TreeBytes};

#[derive(Debug)]
struct Guard {
    set: SetId,
    /// The table was purged up to this second when the rows came.
    until_s: u32,
    /// The set is that far: it goes with the next flush.
    is_over: bool,
    /// The rows were purged up to this one.
    held_s: u32,
    _hold: PurgeHold,
}

/// The guards of one table.
#[derive(Debug, Default)]
pub(crate) struct Guards(Mutex<Vec<Guard>>);

impl Guards {
    /// Reads those that a tree holds.
    pub(crate) fn load(
        tree: &dyn SortedTree,
        purge: &Arc<PurgeFactory>,
    ) -> Result<Guards, TreeError> {
        let guards = Guards::default();
        for item in tree.range(&[SPACE_GUARDS], &[SPACE_GUARDS + 1], LATEST) {
            let (key, value) = item?;
            let numbers = key.get(1..).and_then(|set| <[u8; 4]>::try_from(set).ok()).zip(
                value.first_chunk::<4>().zip(value.last_chunk::<4>()).filter(|_| value.len() == 8),
            );
            let unreadable = || TreeError::Corrupt("a guard is not readable".into());
            let (set, (until_s, held_s)) = numbers.ok_or_else(unreadable)?;
            guards.0.lock().push(Guard {
                set: SetId(u32::from_be_bytes(set)),
                until_s: u32::from_be_bytes(*until_s),
                is_over: false,
                held_s: u32::from_be_bytes(*held_s),
                _hold: PurgeHold::new(purge, u32::from_be_bytes(*held_s)),
            });
        }
        Ok(guards)
    }

    /// Rows of a set came that were purged up to `held_s`, into a tree that was purged up to `until_s`.
    pub(crate) fn add(
        &self,
        (tree, seqno): (&dyn SortedTree, SeqNo),
        purge: &Arc<PurgeFactory>,
        set: SetId,
        (held_s, until_s): (u32, u32),
    ) {
        let mut value = until_s.to_be_bytes().to_vec();
        value.extend_from_slice(&held_s.to_be_bytes());
        tree.insert(&guard_key(set), TreeBytes::from(value), seqno);
        let mut guards = self.0.lock();
        guards.retain(|guard| guard.set != set);
        let _hold = PurgeHold::new(purge, held_s);
        guards.push(Guard { set, until_s, is_over: false, held_s, _hold });
    }

    /// The keys of a set are divided between it and another one, of which the same is true.
    pub(crate) fn copy(&self, from: SetId, to: SetId, opened: &OpenStore) {
        let is_known = |guard: &&Guard| guard.set == from && !guard.is_over;
        let known = self.0.lock().iter().find(is_known).map(|it| (it.held_s, it.until_s));
        if let Some(seconds) = known {
            let tree = (opened.tree.as_ref(), opened.tree.draw_seqno());
            self.add(tree, &opened.purge, to, seconds);
        }
    }

    /// Before the tree is frozen: which sets are far enough. `horizon_s` tells what no entry of a set is behind that is still
    /// to be applied; `None` for a set that is not here any more.
    pub(crate) fn judge(&self, horizon_s: impl Fn(SetId) -> Option<u32>) {
        for guard in self.0.lock().iter_mut() {
            guard.is_over |=
                horizon_s(guard.set).is_none_or(|horizon_s| horizon_s >= guard.until_s);
        }
    }

    /// While the tree is being frozen: those that are over are not in it any more.
    pub(crate) fn write(&self, tree: &dyn SortedTree, seqno: SeqNo) {
        for guard in self.0.lock().iter().filter(|guard| guard.is_over) {
            tree.remove(&guard_key(guard.set), seqno);
        }
    }

    /// What was frozen is in sorted files.
    pub(crate) fn flushed(&self) {
        self.0.lock().retain(|guard| !guard.is_over);
    }
}
