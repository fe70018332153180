//! A set of several members is split: from here on a second set orders the changes of the second half of its keys.
//!
//! No row moves. What every member must know of the second set from here on is made from what the first one knows: how far it was
//! applied, by which definition and horizon, its sum, and what became of requests that may be sent again.

use types::{SetId, TableId};

use super::Place;
use crate::core::{Core, PoisonDart};
use crate::entry::Split;
use crate::error::{CommitError, TreeError};
use crate::tree::keys::{request_key_of, requests_bounds};
use crate::tree::progress::{Applied, ReplayPoint};
use crate::tree::store::OpenStore;
use node_log::broken::{Rule, breaks};
use tree::engine::{LATEST, TreeBytes};

/// Applies a split. The caller applies the entries of a set one after the other.
pub(crate) fn apply_split(core: &Core, place: Place, split: &Split) -> Result<(), CommitError> {
    let (left, right) = (place.set, split.right);
    core.groups.split_off(left, right, place.applied.index, place.now_s);
    core.limit_set(left, split.at);
    for table in split.tables.iter().copied() {
        let of_tree = |error| CommitError::Tree { table, error };
        let Some(store) = core.store(table) else { continue };
        let opened = store
            .for_read()
            .inspect_err(|error| core.damage.note_error(table, error))
            .map_err(of_tree)?;
        let Some(opened) = opened else { continue };
        if place.position >= store.born {
            split_table(core, (table, opened), place, right)?;
        }
    }
    Ok(())
}

fn split_table(
    core: &Core,
    (table, opened): (TableId, &OpenStore),
    place: Place,
    right: SetId,
) -> Result<(), CommitError> {
    let _open = opened.hold_open();
    let _dart = PoisonDart(&core.poison);
    let progress = opened.progress(place.set);
    if place.applied <= progress.applied() {
        return Ok(());
    }
    progress.begin_entry(place.now_s);
    let other = opened.progress(right);
    let applied = Applied { index: place.applied.index, ordinal: u32::MAX };
    // A member that was handed the rows of a later entry knows more.
    if other.applied() < applied {
        let point = ReplayPoint { applied, ..progress.replay_point() };
        other.install(point, progress.definition());
        opened.guards.copy(place.set, right, opened);
        let grown = copy_answers(opened, place, right);
        let grown = grown.map_err(|error| CommitError::Tree { table, error })?;
        opened.note_write(place.position, grown);
        core.pressure.change(grown);
        // Its rows are those that the other set wrote up to here; at a start it may be known longer than they are.
        other.publish(opened.tree.next_seqno());
    }
    progress.set_applied(place.applied);
    Ok(())
}

/// What became of requests is known to both sets: whoever sends one again sends it to the one that has its keys. Returns how much
/// the tree grew.
fn copy_answers(opened: &OpenStore, place: Place, right: SetId) -> Result<i64, TreeError> {
    if breaks(Rule::ForgetIdsInSplit) {
        return Ok(1);
    }
    let settled = opened.tree.draw_seqno();
    opened.progress(place.set).answers().settle(place.set, opened.tree.as_ref(), settled);
    let (from, end) = requests_bounds(place.set);
    let mut answers = Vec::new();
    for item in opened.tree.range(&from, &end, LATEST) {
        let (key, value) = item?;
        let not_after_s = value.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
        // After its last second nobody sends it again.
        if not_after_s.is_none_or(|not_after_s| not_after_s >= place.now_s)
            && let Some(key) = request_key_of(right, &key)
        {
            answers.push((key, value));
        }
    }
    // That there is a replay point to keep counts, too.
    let mut grown: i64 = 1;
    let seqno = opened.tree.draw_seqno();
    for (key, value) in answers {
        grown += opened.tree.insert(&key, TreeBytes::from(&*value), seqno).cast_signed();
    }
    Ok(grown)
}
