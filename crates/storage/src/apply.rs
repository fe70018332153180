//! A committed mutation meets the tree: read, merge, write.
//!
//! Everything of a mutation is worked out first and written last, under one sequence number, so that
//! a refusal leaves nothing behind and a reader sees all of it or nothing.

pub(crate) mod batch;
mod judged;
mod measure;
pub(crate) mod once;
mod rows;
mod spilled;
pub(crate) mod split;
pub(crate) mod sweep;

use std::cell::RefCell;
use std::collections::HashMap;

use foldhash::fast::FixedState;
use types::{
    CellAction, ColumnId, Condition, CurrentRow, Deletion, Done, LiveCells, Mutation, Operation,
    Outcome, Refusal, RowChange, RowPosition, RowView, SetId,
};

use crate::cache::RowKey;
use crate::core::{Core, PoisonDart};
use crate::definition::Definition;
use crate::entry::Define;
use crate::error::{CommitError, TreeError};
use crate::heads::{Head, HeadBounds, Unfit};
use crate::index::maintain::{DeletedIn, IndexWrites, remove_covered};
use crate::index::shape::{CoveredRow, RowName};
use crate::merge::condition::Judgement;
use crate::merge::row::{Before, LiveSum, merge};
use crate::merge::{MergeError, condition};
use crate::spill::{CellWrites, FrozenCells, Loaded};
use crate::sure::{part, sure, tail};
use crate::tree::deletions::{self, PartitionDeletions};
use crate::tree::keys::{self, SPACE_ROWS};
use crate::tree::progress::{Applied, SetProgress};
use crate::tree::purge::is_same;
use crate::tree::store::{OpenStore, TableStore};
use crate::weigh::Touched;
pub(crate) use judged::Judged;
use measure::RowSizes;
use node_log::Position;
use node_log::broken::{Rule, breaks};
use once::{Asked, Known};
use tree::engine::{LATEST, TreeBytes};

/// Where a mutation stands in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) set: SetId,
    pub(crate) applied: Applied,
    pub(crate) position: Position,
    /// The second of its entry.
    pub(crate) now_s: u32,
    /// Written by the first version of the log: nothing tells how far trees were purged before it.
    pub(crate) is_first_form: bool,
    /// Of a set with several members: what is known of the request.
    pub(crate) asked: Option<Asked>,
}

/// The store's number stands before the tree key, so that one buffer serves tree and cache.
pub(crate) const CACHE_ID_BYTES: usize = 8;

thread_local! {
    /// Buffers for the key and the row of the change at hand.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// A scratch buffer that grew beyond this is given back.
const SCRATCH_BYTES_MAX: usize = 256 * 1024;

/// Applies one mutation. The caller applies the mutations of a set one after the other.
pub(crate) fn apply(core: &Core, place: Place, mutation: &Mutation) -> Result<Done, CommitError> {
    const NOTHING: Done = Done { outcome: Outcome::Applied, weight: 0 };
    let Some(store) = core.store_or_new(mutation.table) else {
        return Ok(NOTHING);
    };
    let of_tree = |error| CommitError::Tree { table: mutation.table, error };
    let opened = store
        .for_write()
        .inspect_err(|error| core.damage.note_error(mutation.table, error))
        .map_err(of_tree)?;
    let _open = opened.hold_open();
    let _dart = PoisonDart(&core.poison);
    let progress = opened.progress(place.set);
    let is_applied = place.applied <= progress.applied() && !breaks(Rule::ApplyTwice);
    if place.position < store.born || is_applied {
        return Ok(NOTHING);
    }
    let horizon_s = if place.is_first_form { 0 } else { progress.begin_entry(place.now_s) };
    if let Some(asked) = &place.asked {
        let known = asked.known(opened, &progress, place).map_err(of_tree)?;
        if let Known::Answered(answer) = known {
            progress.set_applied(place.applied);
            return answer;
        }
    }
    // Of what died before the horizon nothing can be told: some have it, and some do not.
    let now_s = mutation.now_s.unwrap_or(place.now_s).max(horizon_s);
    let judged = Judged::new(&progress, now_s, horizon_s);
    let (key, row) = SCRATCH.take();
    let mut change = RowsChange::new(core, &store, opened, mutation, judged, (key, row));
    change.is_summed = place.asked.is_some();
    let outcome = change.work_out();
    if let Err(CommitError::Tree { table, error }) = &outcome {
        core.damage.note_error(*table, error);
    }
    let mut weight = change.condition_weight;
    let (result, written) = match outcome {
        Ok(Outcome::Applied) => match change.measure_rows().and_then(|()| change.index_writes()) {
            Ok(index_writes) => {
                weight = change.weigh();
                if let (Some(weigh), 1..) = (core.options.weigh, index_writes.count()) {
                    weight += weigh(Touched::IndexTerms(index_writes.count()));
                }
                (Ok(Outcome::Applied), change.write(&progress, index_writes))
            }
            Err(error) => (Err(error), None),
        },
        other => (other, None),
    };
    if let Some(grown) = written {
        opened.note_write(place.position, grown);
        core.pressure.change(grown);
    }
    if change.is_many {
        progress.end_many();
    }
    if let Some(asked) = &place.asked {
        progress.note_outcome(place.applied, &result, change.written_sum);
        // Also where it wrote nothing: a log that went without it would be summed without it at the next start.
        opened.note_write(place.position, 0);
        let grown = asked.keep(opened, &progress, place, &result, weight);
        core.pressure.change(grown);
    }
    // Where its row could not be read it was not applied, and nothing behind it will be.
    if !matches!(result, Err(CommitError::Tree { .. })) {
        progress.set_applied(place.applied);
    }
    let (mut key, mut row) = (change.key, change.row);
    key.shrink_to(SCRATCH_BYTES_MAX);
    row.shrink_to(SCRATCH_BYTES_MAX);
    SCRATCH.set((key, row));
    Ok(Done { outcome: result?, weight })
}

/// From now on the mutations of a table are applied by another definition. Versions never fall.
pub(crate) fn apply_define(core: &Core, place: Place, define: &Define) -> Result<(), CommitError> {
    let table = define.definition.table.id;
    let Some(store) = core.store_or_new(table) else { return Ok(()) };
    let opened = store
        .for_write()
        .inspect_err(|error| core.damage.note_error(table, error))
        .map_err(|error| CommitError::Tree { table, error })?;
    let _open = opened.hold_open();
    let _dart = PoisonDart(&core.poison);
    let progress = opened.progress(place.set);
    if place.position < store.born || place.applied <= progress.applied() {
        return Ok(());
    }
    // First by the definition before: a member of the set may have purged up to there.
    progress.begin_entry(place.now_s);
    progress.define(&define.definition, define.horizon_s);
    progress.begin_entry(place.now_s);
    opened.note_write(place.position, 0);
    progress.set_applied(place.applied);
    Ok(())
}

/// Whether the mutation would be refused as things are now, because of a position in a list. Asked
/// before a change over several logical partitions is logged: none of it may happen then.
pub(crate) fn foresee(core: &Core, set: SetId, mutation: &Mutation) -> Result<(), CommitError> {
    if mutation.condition.is_some() || !mutation.names_positions() {
        return Ok(());
    }
    let Some(store) = core.store_or_new(mutation.table) else { return Ok(()) };
    let of_tree = |error| CommitError::Tree { table: mutation.table, error };
    let opened = store.for_write().map_err(of_tree)?;
    let _open = opened.hold_open();
    let progress = opened.progress(set);
    let now_s = mutation.now_s.unwrap_or_else(|| core.clock.now_s());
    let judged = Judged::new(&progress, now_s, 0).or_else(|| {
        let table = core.schema.table(mutation.table)?;
        Definition::new(&table, core.options.tombstone_retention_s).ok()
    });
    let scratch = (Vec::new(), Vec::new());
    let mut change = RowsChange::new(core, &store, opened, mutation, judged, scratch);
    match change.work_out() {
        // A change of the same row may be half written: only a look ahead, not the judgement.
        Ok(_) | Err(CommitError::Tree { .. }) => Ok(()),
        Err(refused) => Err(refused),
    }
}

/// A row that the mutation changes.
struct PendingRow {
    /// Store number and tree key.
    key: RowKey,
    /// `None`: nothing is left of it.
    value: Option<TreeBytes>,
    /// As it was before the mutation.
    first_value: Option<TreeBytes>,
    existed: bool,
    is_cached: bool,
    is_changed: bool,
    /// What was live before the mutation, and is now; `None` where it has to be looked at.
    sums: Option<(LiveSum, LiveSum)>,
    /// How large it was and is, once it was measured.
    sizes: RowSizes,
    /// Cells that were spilled from it changed.
    has_cell_writes: bool,
    /// Spilled elements that change: before and after.
    elements: Vec<(Option<TreeBytes>, Option<TreeBytes>)>,
}

/// One mutation while it is worked out.
struct RowsChange<'c> {
    core: &'c Core,
    store: &'c TableStore,
    opened: &'c OpenStore,
    mutation: &'c Mutation,
    /// Store number, row space and partition prefix; a row's position is appended and cut off again.
    key: Vec<u8>,
    prefix_length: usize,
    row: Vec<u8>,
    rows: Vec<PendingRow>,
    /// What changes of spilled cells.
    cell_writes: CellWrites,
    /// Where in `rows` a key is; only kept when they do not come in the order of their keys.
    row_index: Option<HashMap<RowKey, usize, FixedState>>,
    /// Before and after, once they were needed as a whole.
    deletions: Option<(PartitionDeletions, PartitionDeletions)>,
    may_have_deletions: bool,
    /// Whether nothing of the partition is in the tree, once it was asked.
    is_new_partition: Option<bool>,
    /// More than one key is written.
    is_many: bool,
    /// What the conditions weighed.
    condition_weight: u64,
    judged: Judged<'c>,
    /// Whether what is written is summed, and the sum.
    is_summed: bool,
    written_sum: u64,
}

impl<'c> RowsChange<'c> {
    fn new(
        core: &'c Core,
        store: &'c TableStore,
        opened: &'c OpenStore,
        mutation: &'c Mutation,
        judged: Judged<'c>,
        (mut key, row): (Vec<u8>, Vec<u8>),
    ) -> RowsChange<'c> {
        key.clear();
        key.extend_from_slice(&store.cache_id.to_be_bytes());
        key.push(SPACE_ROWS);
        keys::push_partition_prefix(&mut key, &mutation.key);
        let prefix_length = key.len();
        let partition = tail(&key, CACHE_ID_BYTES + 1);
        let may_have_deletions = opened.deleted.may_contain(partition);
        RowsChange {
            core,
            store,
            opened,
            mutation,
            key,
            prefix_length,
            row,
            rows: Vec::with_capacity(mutation.operations.len()),
            cell_writes: CellWrites::new(),
            row_index: None,
            deletions: None,
            may_have_deletions,
            is_new_partition: None,
            is_many: false,
            condition_weight: 0,
            judged,
            is_summed: false,
            written_sum: 0,
        }
    }

    fn of_tree(&self, error: TreeError) -> CommitError {
        CommitError::Tree { table: self.store.id, error }
    }

    fn of_merge(&self, error: MergeError) -> CommitError {
        match error {
            MergeError::Refused(refusal) => CommitError::Refused(refusal),
            MergeError::Corrupt(corrupt) => self.of_tree(corrupt.into()),
        }
    }

    /// The partition prefix without store number and space.
    fn partition(&self) -> &[u8] {
        part(&self.key, CACHE_ID_BYTES + 1, self.prefix_length)
    }

    fn work_out(&mut self) -> Result<Outcome, CommitError> {
        let mutation = self.mutation;
        if let Some(condition) = &mutation.condition
            && let Some(rows) = self.refused_by(condition)?
        {
            return Ok(Outcome::NotApplied { rows });
        }
        for operation in &mutation.operations {
            match operation {
                Operation::Row(change) => self.change_row(change)?,
                Operation::DeletePartition(deletion) => {
                    let deletion = self.not_old(*deletion);
                    self.load_deletions()?.delete_partition(deletion);
                }
                Operation::DeleteRange { range, deletion } => {
                    let deletion = self.not_old(*deletion);
                    self.load_deletions()?.delete_range(range, deletion);
                }
            }
        }
        if let Some((_, after)) = &mut self.deletions {
            after.settle();
        }
        Ok(Outcome::Applied)
    }

    /// A deletion that comes late is not one that a sweep under way takes for old: it was not there when the
    /// rows before it were looked at.
    fn not_old(&self, deletion: Deletion) -> Deletion {
        let deleted_at_s = deletion.deleted_at_s.max(self.judged.horizon_s);
        Deletion { deleted_at_s, ..deletion }
    }

    /// The deletions of the partition as they will be.
    fn load_deletions(&mut self) -> Result<&mut PartitionDeletions, CommitError> {
        if self.deletions.is_none() {
            let (tree, partition) = (self.opened.tree.as_ref(), self.partition());
            let before = match self.mutation.operations.as_slice() {
                _ if !self.may_have_deletions => Ok(PartitionDeletions::default()),
                // Alone it needs its neighbours only.
                [Operation::DeleteRange { range, .. }] => {
                    PartitionDeletions::load_around(tree, partition, range, LATEST)
                }
                _ => PartitionDeletions::load(tree, partition, LATEST),
            };
            let before = before.map_err(|error| self.of_tree(error))?;
            self.deletions = Some((before.clone(), before));
        }
        let (_, after) = sure(self.deletions.as_mut(), "they were loaded");
        Ok(after)
    }

    fn covering_us(&self, position: &RowPosition) -> Result<i64, CommitError> {
        self.covering_row_us(clustering_of(position))
    }

    /// `None` is the static row.
    fn covering_row_us(&self, clustering: Option<&[u8]>) -> Result<i64, CommitError> {
        match &self.deletions {
            Some((_, after)) => Ok(after.covering_us(clustering)),
            None if !self.may_have_deletions => Ok(i64::MIN),
            None => deletions::covering_us(
                self.opened.tree.as_ref(),
                self.partition(),
                clustering,
                LATEST,
            )
            .map_err(|error| self.of_tree(error)),
        }
    }

    fn change_row(&mut self, change: &RowChange) -> Result<(), CommitError> {
        let covering_us = self.covering_us(&change.position)?;
        let first_covering_us = match &self.deletions {
            Some((before, _)) => before.covering_us(clustering_of(&change.position)),
            None => covering_us,
        };
        let index = self.load_row(&change.position)?;
        let mut out = std::mem::take(&mut self.row);
        out.clear();
        if keys::is_cut(&self.mutation.key) {
            keys::push_cut_key(&mut out, &self.mutation.key);
        }
        let head_length = out.len();
        let Some(pending) = self.rows.get(index) else {
            return Ok(());
        };
        let was_changed = pending.is_changed || pending.has_cell_writes;
        let current = pending.value.clone();
        let first = if pending.is_changed { pending.first_value.clone() } else { None };
        let of_row = |corrupt: types::CorruptRow| self.of_tree(corrupt.into());
        let row = view_after(head_length, current.as_ref()).map_err(of_row)?;
        let first_row = match pending.is_changed {
            true => view_after(head_length, first.as_ref()).map_err(of_row)?,
            false => row,
        };
        let hidden = if reads_cells(change) { self.judged.hidden() } else { &[] };
        let before = Before {
            row,
            first_row,
            covering_us,
            first_covering_us,
            now_s: self.judged.now_s,
            horizon_s: self.judged.horizon_s,
            hidden,
            measure: Some(&self.judged),
        };
        let has_spilled = |row: Option<RowView<'_>>| row.is_some_and(|row| row.has_spilled());
        if has_spilled(row) || has_spilled(first_row) {
            let frozen = self.merge_spilled(before, change, out)?;
            self.keep_frozen(index, frozen);
            return Ok(());
        }
        let after = merge(&before, change, out).map_err(|error| self.of_merge(error))?;
        if after.exceeds(self.spill_bounds()) && head_length == 0 && !after.is_empty {
            let frozen = self.freeze(&after, None, &Loaded::default())?;
            self.keep_frozen(index, frozen);
        } else {
            let horizon_s = self.judged.horizon_s;
            let is_same =
                is_same(current.as_ref(), head_length, &after, horizon_s).map_err(of_row)?;
            let Some(pending) = self.rows.get_mut(index) else { return Ok(()) };
            if !is_same {
                pending.is_changed = true;
                pending.value = (!after.is_empty).then(|| TreeBytes::from(after.bytes.as_slice()));
            }
            let sum_first = match pending.sums {
                Some((sum_first, _)) => Some(sum_first),
                // An earlier change of the mutation went another way.
                None if was_changed => None,
                None => Some(after.sum_before),
            };
            pending.sums = sum_first.map(|sum_first| (sum_first, after.sum));
        }
        self.row = after.bytes;
        Ok(())
    }

    fn keep_frozen(&mut self, index: usize, frozen: FrozenCells) {
        if let Some(pending) = self.rows.get_mut(index) {
            pending.elements.extend(frozen.elements);
            pending.sums = None;
            pending.has_cell_writes |= !frozen.writes.is_empty();
            if pending.value.as_deref() != frozen.row.as_deref() {
                pending.is_changed = true;
                pending.value = frozen.row.map(TreeBytes::from);
            }
        }
        self.cell_writes.extend(frozen.writes);
    }

    /// The rows that a condition looked at, if it does not hold.
    fn refused_by(
        &mut self,
        condition: &Condition,
    ) -> Result<Option<Vec<CurrentRow>>, CommitError> {
        let mut all_hold = true;
        let mut weight = 0;
        let mut rows = Vec::with_capacity(condition.rows.len());
        for row_condition in &condition.rows {
            let covering_us = self.covering_us(&row_condition.position)?;
            self.key.truncate(self.prefix_length);
            keys::push_position(&mut self.key, &row_condition.position);
            let (value, _) = self.read_row().map_err(|error| self.of_tree(error))?;
            let of_row = |corrupt: types::CorruptRow| self.of_tree(corrupt.into());
            let mut view = match &value {
                Some(value) => Some(self.view(value).map_err(of_row)?),
                None => None,
            };
            let thawed;
            if let Some(spilled) = view.filter(|view| view.has_spilled()) {
                thawed = self.thaw_row(&spilled).map_err(|error| self.of_tree(error))?;
                view = Some(RowView::decode(&thawed).map_err(of_row)?);
            }
            let (now_s, hidden) = (self.judged.now_s, self.judged.hidden());
            let live = view.map(|view| LiveCells::new(view, covering_us, now_s).hiding(hidden));
            let live = match live {
                Some(live) if live.is_live().map_err(of_row)? => Some(live),
                _ => None,
            };
            if let Some(weigh) = self.core.options.weigh {
                let bytes = live.as_ref().map(|live| self.live_bytes(live)).transpose();
                weight += weigh(Touched::Condition(bytes.map_err(of_row)?));
            }
            let judgement =
                condition::judge(&row_condition.checks, live.as_ref(), self.judged.table());
            match judgement.map_err(of_row)? {
                Judgement::Holds => {}
                Judgement::Fails => all_hold = false,
                Judgement::Refused(reason) if all_hold => {
                    return Err(CommitError::Refused(Refusal::Invalid(reason.to_string())));
                }
                Judgement::Refused(_) => {}
            }
            let row = live.as_ref().map(condition::live_part).transpose().map_err(of_row)?;
            rows.push(CurrentRow { position: row_condition.position.clone(), row });
        }
        self.condition_weight = weight;
        Ok((!all_hold).then_some(rows))
    }

    /// A row's value without the partition key that may stand before it.
    fn view<'v>(&self, value: &'v [u8]) -> Result<RowView<'v>, types::CorruptRow> {
        if !keys::is_cut(&self.mutation.key) {
            return RowView::decode(value);
        }
        let (_, row) = keys::split_cut_key(value).ok_or(types::CorruptRow)?;
        RowView::decode(row)
    }

    /// What the changed rows change in the indexes of the table.
    fn index_writes(&self) -> Result<IndexWrites, CommitError> {
        let mut writes = IndexWrites::default();
        let Some(indexes) = self.opened.indexes.any() else { return Ok(writes) };
        let of_row = |corrupt: types::CorruptRow| self.of_tree(corrupt.into());
        let columns: Vec<ColumnId> = indexes.iter().filter_map(|it| it.shape.column()).collect();
        let prefix = part(&self.key, CACHE_ID_BYTES + 1, self.prefix_length);
        let has_leftovers = self.opened.leftovers.contain(prefix);
        for row in self.rows.iter().filter(|row| row.is_changed || row.has_cell_writes) {
            let tree_key = tail(&row.key, CACHE_ID_BYTES);
            let name = keys::split_row_key(tree_key)
                .and_then(|split| RowName::new(tree_key, &split, Some(self.mutation.key.bytes())))
                .ok_or_else(|| of_row(types::CorruptRow))?;
            let (before_us, after_us) = match &self.deletions {
                Some((before, after)) => {
                    (before.covering_us(name.clustering), after.covering_us(name.clustering))
                }
                None => {
                    let covering_us = self.covering_row_us(name.clustering)?;
                    (covering_us, covering_us)
                }
            };
            let of_tree = |error| self.of_tree(error);
            let first_value = self.thaw_indexed(row, false, &columns).map_err(of_tree)?;
            let value = self.thaw_indexed(row, true, &columns).map_err(of_tree)?;
            let before = self.covered(first_value.as_deref(), before_us).map_err(of_row)?;
            let after = self.covered(value.as_deref(), after_us).map_err(of_row)?;
            for index in indexes.iter() {
                match has_leftovers {
                    false => writes.add(index, &name, before, after),
                    true => writes.add_over_leftovers(index, &name, before, after),
                }
                .map_err(of_row)?;
            }
        }
        Ok(writes)
    }

    fn covered<'v>(
        &self,
        value: Option<&'v [u8]>,
        covering_us: i64,
    ) -> Result<Option<CoveredRow<'v>>, types::CorruptRow> {
        let Some(value) = value else { return Ok(None) };
        Ok(Some(CoveredRow { view: self.view(value)?, covering_us }))
    }

    /// After the deletions of the partition were written: removes what the indexes have of the rows
    /// they cover. Returns by how many bytes memory grew.
    fn remove_deleted_from_indexes(&self, seqno: u64) -> u64 {
        let (Some((before, after)), Some(indexes)) = (&self.deletions, self.opened.indexes.any())
        else {
            return 0;
        };
        let tree = self.opened.tree.as_ref();
        let prefix = part(&self.key, CACHE_ID_BYTES, self.prefix_length);
        let leftovers = &self.opened.leftovers;
        let partition = DeletedIn { tree, prefix, before, after, leftovers };
        match remove_covered(&indexes, &partition, &self.mutation.operations, seqno) {
            Ok(bytes) => bytes,
            Err(error) => {
                // Entries too many are never followed to a row that is not there.
                tracing::error!(table = %self.store.id, %error, "an index kept what was deleted");
                0
            }
        }
    }

    /// Writes what was worked out and publishes it; returns how much memory grew.
    fn write(&mut self, progress: &SetProgress, index_writes: IndexWrites) -> Option<i64> {
        let tree = self.opened.tree.as_ref();
        let deletion_writes = match &self.deletions {
            Some((before, after)) => deletions::difference(self.partition(), before, after),
            None => Vec::new(),
        };
        self.rows.retain(|row| row.is_changed || row.has_cell_writes);
        if deletion_writes.is_empty() && self.rows.is_empty() {
            return None;
        }
        let row_count = self.rows.iter().filter(|row| row.is_changed).count();
        if deletion_writes.len() + row_count + self.cell_writes.len() > 1 {
            self.is_many = true;
            progress.begin_many();
        }
        let seqno = tree.draw_seqno();
        let mut bytes = 0;
        let has_deletions = !deletion_writes.is_empty();
        // Where a change is one row, nobody begins to read between its write and its publication, and what
        // it overwrites is read only by those who are known. (Where there are heads, their lock comes before this
        // one, and is held shorter.)
        let held_readers =
            (self.store.has_single_rows && !self.is_many && index_writes.count() == 0)
                .then(|| progress.hold_readers());
        let readers_from = match &held_readers {
            Some(held) => self.opened.readers_from(seqno + 1, held),
            None => self.opened.readers_from(progress.published(), &progress.hold_readers()),
        };
        if has_deletions {
            // Known before it is there, so that no reader overlooks it.
            self.opened.deleted.add(self.partition());
        }
        for (key, value) in deletion_writes {
            bytes += tree.write_over(&key, value, seqno, readers_from);
        }
        for (key, value) in std::mem::take(&mut self.cell_writes) {
            bytes += tree.write_over(&key, value, seqno, readers_from);
        }
        if self.is_summed {
            self.sum_written();
        }
        for row in self.rows.iter().filter(|row| row.is_changed) {
            let tree_key = tail(&row.key, CACHE_ID_BYTES);
            bytes += tree.write_over(tree_key, row.value.clone(), seqno, readers_from);
        }
        bytes += index_writes.write(seqno).cast_signed();
        if has_deletions {
            bytes += self.remove_deleted_from_indexes(seqno).cast_signed();
        }
        self.note_sizes();
        self.publish(progress, seqno);
        drop(held_readers);
        self.note_dead();
        Some(bytes)
    }

    /// Sums the rows as they are now: members of a set compare that.
    fn sum_written(&mut self) {
        let mut sum = crc32fast::Hasher::new();
        for row in self.rows.iter().filter(|row| row.is_changed) {
            sum.update(tail(&row.key, CACHE_ID_BYTES));
            sum.update(row.value.as_deref().unwrap_or_default());
        }
        self.written_sum = u64::from(sum.finalize());
    }

    /// Brings the caches up to date and shows the change. Nobody sees a head before or after the
    /// others then.
    fn publish(&mut self, progress: &SetProgress, seqno: u64) {
        let (heads, prefix_length) = (&self.core.heads, self.prefix_length);
        let (rows, mutation) = (&mut self.rows, self.mutation);
        // Rows that are alone in their partition are read by their keys, never in slices.
        let mut turn =
            (!self.store.has_single_rows).then(|| heads.turn(part(&self.key, 0, prefix_length)));
        if let Some(turn) = &mut turn {
            turn.change(|head| change_head(head, heads.bounds(), prefix_length, rows, mutation));
        }
        for row in rows.drain(..) {
            // What was just written is likely to be read, and shares its bytes with the tree; what is
            // written once and never read is the first to leave the cache again. A row that comes into
            // a slice is served by its head.
            if row.existed || row.is_cached || self.store.has_single_rows {
                self.core.cache.put(row.key, row.value);
            } else {
                self.core.cache.forget(&row.key);
            }
        }
        progress.publish(seqno + 1);
        drop(turn);
    }

    /// Tells the store what of this mutation is dead, or will be.
    fn note_dead(&self) {
        let dead_at_s = |operation: &Operation| match operation {
            Operation::DeletePartition(deletion) | Operation::DeleteRange { deletion, .. } => {
                Some(deletion.deleted_at_s)
            }
            Operation::Row(change) => change
                .deletion
                .map(|deletion| deletion.deleted_at_s)
                .or_else(|| change.cells.iter().find_map(|cell| cell_dead_at_s(&cell.action))),
        };
        for at_s in self.mutation.operations.iter().filter_map(dead_at_s) {
            self.opened.note_dead(at_s);
        }
    }
}

/// Does to a head what a mutation did to its partition. `rows`: as they are now.
fn change_head(
    head: &mut Head,
    bounds: HeadBounds,
    prefix_length: usize,
    rows: &[PendingRow],
    mutation: &Mutation,
) -> Result<(), Unfit> {
    if keys::is_cut(&mutation.key) {
        return Err(Unfit);
    }
    for row in rows {
        match keys::split_position(tail(&row.key, prefix_length)) {
            Some(Some(clustering)) => head.put(clustering, row.value.as_deref(), bounds)?,
            Some(None) => head.put_static(row.value.clone())?,
            None => return Err(Unfit),
        }
    }
    for operation in &mutation.operations {
        match operation {
            Operation::Row(_) => {}
            Operation::DeletePartition(deletion) => head.delete_all(deletion.timestamp_us)?,
            Operation::DeleteRange { range, deletion } => {
                head.delete(range, deletion.timestamp_us)?;
            }
        }
    }
    Ok(())
}

fn clustering_of(position: &RowPosition) -> Option<&[u8]> {
    match position {
        RowPosition::Static => None,
        RowPosition::Clustered(clustering) => Some(clustering.as_ref()),
    }
}

/// The row in a value, after its head.
fn view_after(
    head_length: usize,
    value: Option<&TreeBytes>,
) -> Result<Option<RowView<'_>>, types::CorruptRow> {
    let Some(value) = value else { return Ok(None) };
    RowView::decode(value.get(head_length..).ok_or(types::CorruptRow)?).map(Some)
}

fn cell_dead_at_s(action: &CellAction) -> Option<u32> {
    match action {
        CellAction::Set { expiry, .. }
        | CellAction::AddValue { expiry, .. }
        | CellAction::ListSetAt { expiry, .. } => expiry.map(|expiry| expiry.expires_at_s),
        CellAction::Delete { deleted_at_s, .. }
        | CellAction::DeleteElements { deleted_at_s }
        | CellAction::ListDeleteAt { deleted_at_s, .. }
        | CellAction::ListRemoveValues { deleted_at_s, .. } => Some(*deleted_at_s),
        CellAction::CounterAdd(_) => None,
    }
}

/// Whether a change looks at cells that are there.
fn reads_cells(change: &RowChange) -> bool {
    change.cells.iter().any(|cell| match cell.action {
        CellAction::AddValue { .. }
        | CellAction::ListSetAt { .. }
        | CellAction::ListDeleteAt { .. }
        | CellAction::ListRemoveValues { .. } => true,
        CellAction::Set { .. }
        | CellAction::Delete { .. }
        | CellAction::DeleteElements { .. }
        | CellAction::CounterAdd(_) => false,
    })
}
