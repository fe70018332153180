//! What sets keep of batches over several of them: intents under the first key, parts that were applied under theirs. Both belong to
//! a range of the ring, not to a set: they are handed over with the rows, and lie in the right half after a split.

use bytes::Bytes;
use node_log::broken::{Rule, breaks};
use types::codec::Malformed;
use types::{Mutation, Outcome, RingRange, SetId, TableId};

use super::once::{Asked, Known, UNTIL_TOLD_S, not_after_s};
use super::{Place, foresee};
use crate::batch::{
    BatchPlace, Forget, Intent, KeptIntent, OpenIntent, PART_S, PartPlace, Step, place_of,
};
use crate::core::{Core, PoisonDart};
use crate::entry::{Request, RequestId};
use crate::error::{CommitError, TreeError};
use crate::storage::Storage;
use crate::tree::keys::{SPACE_INTENTS, intent_key, part_key, space_bounds, split_intent_key};
use crate::tree::store::OpenStore;
use tree::engine::{LATEST, TreeBytes};

/// What is written to a tree: a key, and its value or nothing.
type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn unreadable() -> TreeError {
    TreeError::Corrupt("what is kept of a batch is not readable".into())
}

/// Does what a request is to a batch, beside its mutations. `place`: by number, behind those of the mutations.
pub(crate) fn apply_step(
    core: &Core,
    request: &Request,
    place: impl Fn(usize) -> Place,
) -> Result<(), CommitError> {
    match request.step.as_deref() {
        None | Some(Step::Parts(_)) => Ok(()),
        Some(Step::Intend(intent)) => {
            apply_intent(core, place(request.mutations.len()), request, intent)
        }
        Some(Step::Done(places)) => each(places, |number, batch| {
            let until_s = place(number).now_s.saturating_add(PART_S);
            let end = |opened: &OpenStore| end_intent(opened, batch, until_s);
            change(core, place(number), batch.table, Sums::All, end)
        }),
        Some(Step::Remove(places)) => each(places, |number, batch| {
            let remove = |opened: &OpenStore| remove_intent(opened, batch);
            change(core, place(number), batch.table, Sums::All, remove)
        }),
        Some(Step::Forget(forgets)) => {
            let parts =
                forgets.iter().flat_map(|forget| forget.parts.iter().map(move |it| (forget, it)));
            let parts: Vec<(&Forget, &PartPlace)> = parts.collect();
            each(&parts, |number, (forget, part)| {
                let forget = |opened: &OpenStore| forget_part(opened, forget, part);
                change(core, place(number), part.table, Sums::Keys, forget)
            })
        }
    }
}

fn each<T>(
    items: &[T],
    mut apply: impl FnMut(usize, &T) -> Result<(), CommitError>,
) -> Result<(), CommitError> {
    items.iter().enumerate().try_for_each(|(number, item)| apply(number, item))
}

/// What members compare of what is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sums {
    All,
    /// What a change cost is in the answer to it, and depends on the indexes of a node.
    Keys,
}

/// Writes what `work` says to the tree of a table, once.
fn change(
    core: &Core,
    place: Place,
    table: TableId,
    sums: Sums,
    work: impl FnOnce(&OpenStore) -> Result<Writes, CommitError>,
) -> Result<(), CommitError> {
    // It was dropped, and everything in it.
    let Some(store) = core.store_or_new(table) else { return Ok(()) };
    let of_tree = |error| CommitError::Tree { table, error };
    let opened = store
        .for_write()
        .inspect_err(|error| core.damage.note_error(table, error))
        .map_err(of_tree)?;
    let _open = opened.hold_open();
    let _dart = PoisonDart(&core.poison);
    let progress = opened.progress(place.set);
    let is_applied = place.applied <= progress.applied() && !breaks(Rule::ApplyTwice);
    if place.position < store.born || is_applied {
        return Ok(());
    }
    progress.begin_entry(place.now_s);
    let worked = work(opened);
    if let Err(error @ CommitError::Tree { .. }) = worked {
        return Err(error);
    }
    let mut sum = crc32fast::Hasher::new();
    let mut grown = 0;
    if let Ok(writes) = &worked {
        let seqno = opened.tree.draw_seqno();
        for (key, value) in writes {
            sum.update(key);
            if sums == Sums::All {
                sum.update(value.as_deref().unwrap_or_default());
            }
            grown += match value {
                Some(value) => opened.tree.insert(key, TreeBytes::from(value.as_slice()), seqno),
                None => opened.tree.remove(key, seqno),
            };
        }
    }
    let grown = i64::try_from(grown).unwrap_or(i64::MAX);
    opened.note_write(place.position, grown);
    core.pressure.change(grown);
    let outcome = worked.map(|_| Outcome::Applied);
    progress.note_outcome(place.applied, &outcome, u64::from(sum.finalize()));
    progress.set_applied(place.applied);
    outcome.map(drop)
}

/// The intent is kept, in the tree of its first mutation, so that both are in sorted files or neither is.
fn apply_intent(
    core: &Core,
    place: Place,
    request: &Request,
    intent: &Intent,
) -> Result<(), CommitError> {
    let Some(at) = request.batch_place() else { return Ok(()) };
    let asked = Asked::intent(request);
    let of_tree = |error| CommitError::Tree { table: at.table, error };
    change(core, place, at.table, Sums::All, |opened| {
        let progress = opened.progress(place.set);
        match asked.known(opened, &progress, place).map_err(of_tree)? {
            Known::Answered(Err(error)) => return Err(error),
            // It was decided before, and may be over by now.
            Known::Answered(Ok(_)) => return Ok(Writes::new()),
            Known::New => {}
        }
        let known = asked.keep(opened, &progress, place, &Ok(Outcome::Applied), 0);
        core.pressure.change(known);
        if intent.others.is_empty() {
            return Ok(Writes::new());
        }
        let kept = KeptIntent::Open(OpenIntent {
            known: intent.known,
            timed_us: request.timed_us,
            parts: intent.others.clone(),
        });
        Ok(vec![(intent_key(at.ring, at.batch.0), Some(kept.to_bytes()))])
    })
}

fn kept_intent(opened: &OpenStore, at: &BatchPlace) -> Result<Option<KeptIntent>, CommitError> {
    let of_tree = |error| CommitError::Tree { table: at.table, error };
    let found = opened.tree.get(&intent_key(at.ring, at.batch.0), LATEST).map_err(of_tree)?;
    let Some(bytes) = found else { return Ok(None) };
    let kept = KeptIntent::from_bytes(Bytes::copy_from_slice(&bytes));
    kept.map(Some).map_err(|Malformed| of_tree(unreadable()))
}

/// Every part was applied: what is left is to say so where they are remembered.
fn end_intent(opened: &OpenStore, at: &BatchPlace, until_s: u32) -> Result<Writes, CommitError> {
    Ok(match kept_intent(opened, at)? {
        Some(KeptIntent::Open(open)) => {
            let parts = open.parts.iter().map(place_of).collect();
            let kept = KeptIntent::Done { until_s, parts };
            vec![(intent_key(at.ring, at.batch.0), Some(kept.to_bytes()))]
        }
        Some(KeptIntent::Done { .. }) | None => Writes::new(),
    })
}

fn remove_intent(opened: &OpenStore, at: &BatchPlace) -> Result<Writes, CommitError> {
    Ok(match kept_intent(opened, at)? {
        Some(KeptIntent::Done { .. }) => vec![(intent_key(at.ring, at.batch.0), None)],
        Some(KeptIntent::Open(_)) | None => Writes::new(),
    })
}

/// From now on a part is remembered like any request, until its last second. What was sent for it has no later one.
fn forget_part(
    opened: &OpenStore,
    forget: &Forget,
    part: &PartPlace,
) -> Result<Writes, CommitError> {
    let of_tree = |error| CommitError::Tree { table: part.table, error };
    let key = part_key(part.ring, forget.batch.0, part.number);
    let Some(value) = opened.tree.get(&key, LATEST).map_err(of_tree)? else {
        return Ok(Writes::new());
    };
    if breaks(Rule::ForgetPartsAtOnce) {
        return Ok(vec![(key, None)]);
    }
    if not_after_s(&value) != Some(UNTIL_TOLD_S) {
        return Ok(Writes::new());
    }
    let mut told = value.to_vec();
    if let Some(until_s) = told.first_chunk_mut::<4>() {
        *until_s = forget.until_s.to_be_bytes();
    }
    Ok(vec![(key, Some(told))])
}

impl Storage {
    /// What is kept of a batch that a set decided; nothing when it is over.
    pub fn kept_intent(&self, at: &BatchPlace) -> Result<Option<KeptIntent>, CommitError> {
        let of_tree = |error| CommitError::Tree { table: at.table, error };
        let Some(store) = self.core.store(at.table) else { return Ok(None) };
        match store.for_read().map_err(of_tree)? {
            Some(opened) => kept_intent(opened, at),
            None => Ok(None),
        }
    }

    /// Hands over the batches whose first keys lie in a part of the ring, for as long as `take` says so.
    pub fn kept_intents(
        &self,
        tables: &[TableId],
        range: RingRange,
        mut take: impl FnMut(BatchPlace, KeptIntent, usize) -> bool,
    ) -> Result<(), CommitError> {
        let (from, end) = space_bounds(SPACE_INTENTS, range);
        for table in tables.iter().copied() {
            let of_tree = |error| CommitError::Tree { table, error };
            let Some(store) = self.core.store(table) else { continue };
            let Some(opened) = store.for_read().map_err(of_tree)? else { continue };
            for item in opened.tree.range(&from, &end, LATEST) {
                let (key, value) = item.map_err(of_tree)?;
                let named = split_intent_key(&key).ok_or_else(|| of_tree(unreadable()))?;
                let kept = KeptIntent::from_bytes(Bytes::copy_from_slice(&value));
                let kept = kept.map_err(|Malformed| of_tree(unreadable()))?;
                let place = BatchPlace { table, ring: named.0, batch: RequestId(named.1) };
                if !take(place, kept, value.len()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Parts of a batch may be older than the definition that is in force: they lose the columns that were dropped since.
    pub fn renew(&self, mutations: &mut [Mutation]) {
        for mutation in mutations {
            let Some(table) = self.core.schema.table(mutation.table) else { continue };
            if table.version <= mutation.table_version {
                continue;
            }
            mutation.table_version = table.version;
            let is_known = |id| table.columns.iter().any(|column| column.id == id);
            for operation in &mut mutation.operations {
                if let types::Operation::Row(change) = operation {
                    change.cells.retain(|cell| is_known(cell.column));
                }
            }
        }
    }

    /// Whether a mutation would be refused as things are now, because of a position in a list.
    pub fn foresee(&self, set: SetId, mutation: &Mutation) -> Result<(), CommitError> {
        foresee(&self.core, set, mutation)
    }
}
