//! Batches over several sets, at the node that coordinates them: before a batch is decided every set must have a quorum, what it was
//! given before is known, and nothing of it would be refused. Then the set of its first key is asked to decide it (`intents.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use storage::broken::{Rule, breaks};
use storage::{CommitError, INTENT_BYTES_MAX, Intent, Request, Step};
use types::{Mutation, RingToken, SetId, TableId};

use super::Host;
use super::writing::AHEAD_US_MAX;
use crate::group::requests::{WriteDone, WriteOutcome};

/// So many batches may be looked at before they are decided; more are refused.
const LOOKING_MAX: usize = 16_384;

/// Tells which set holds a key now.
pub trait RingMap: Send {
    /// The version of what all agree on that is shown here; what is shown may be the next one already.
    fn version(&self) -> u64;
    /// Which set holds a position on the ring for a table; nothing if the table is not known.
    fn locate(&self, table: TableId, ring: RingToken) -> Option<SetId>;
}

/// A batch that is not decided yet: its sets are asked how far they are.
struct Looking {
    request: Request,
    /// The set of each mutation.
    sets: Vec<SetId>,
    /// Whether sets are asked at all.
    asks: bool,
    /// Sets that did not answer.
    open: BTreeSet<SetId>,
    /// Those that are to be asked again.
    again: BTreeSet<SetId>,
    deadline_ms: u64,
    done: WriteDone,
}

/// The batches that a node coordinates.
#[derive(Default)]
pub(super) struct Batches {
    pub(super) map: Option<Box<dyn RingMap>>,
    looking: BTreeMap<u64, Looking>,
    next: u64,
    /// What sets answered: which batch, which set, whether this node's member has everything of it.
    looked: Arc<Mutex<Vec<(u64, SetId, bool)>>>,
    /// Batches of one set that was split before they came there.
    split: Arc<Mutex<Vec<(Request, u64, WriteDone)>>>,
}

impl Host {
    /// From now on it is known which set holds what: without, nothing is done for batches over several sets.
    pub fn set_map(&mut self, map: Box<dyn RingMap>) {
        self.batches.map = Some(map);
    }

    pub(super) fn locate(&self, table: TableId, ring: RingToken) -> Option<SetId> {
        let set = self.batches.map.as_ref()?.locate(table, ring)?;
        // What logs say goes before what the map says.
        Some(self.holder(set, ring))
    }

    /// The same for a set that is led from here: the map may not know yet that it was split off another.
    pub(super) fn locate_from(&self, own: SetId, table: TableId, ring: RingToken) -> Option<SetId> {
        let set = self.locate(table, ring)?;
        let is_own = self.descends(own, set)
            && self.range_in_log(own).is_some_and(|range| range.contains(ring));
        Some(if is_own { own } else { set })
    }

    /// The set of each mutation; nothing if a table is not known, or a key is known to be another set's, and not which.
    fn sets_of(&self, request: &Request) -> Option<Vec<SetId>> {
        let locate = |it: &Mutation| {
            let ring = it.key.ring();
            let set = self.locate(it.table, ring)?;
            let holds = self.range_in_log(set).is_none_or(|range| range.contains(ring));
            holds.then_some(set)
        };
        request.mutations.iter().map(locate).collect()
    }

    /// The version of what all agree on that this node shows.
    pub(super) fn map_version(&self) -> u64 {
        self.batches.map.as_ref().map_or(0, |map| map.version())
    }

    /// A coordinator's batch: all of it is done, or nothing. It needs a name, and its mutations may lie in several sets. Answered when
    /// all of it is applied.
    pub fn submit_batch(&mut self, mut request: Request, deadline_ms: u64, done: WriteDone) {
        // Its time is made later where sets gave later ones, and is theirs from then on: it must not be far off before.
        self.cluster_us();
        request.time_at_most(self.last_given_us.saturating_add(AHEAD_US_MAX));
        let sets = self.sets_of(&request);
        let known = self.map_version() + 1;
        let Some(sets) = sets.filter(|sets| !sets.is_empty()) else {
            return done(WriteOutcome::Done(Err(CommitError::Moved)));
        };
        let all: BTreeSet<SetId> = sets.iter().copied().collect();
        for set in &all {
            let (required, alive) = self.alive(*set);
            if alive < required {
                return done(WriteOutcome::Unavailable { required, alive });
            }
        }
        if let (Some(set), true) = (sets.first(), all.len() == 1) {
            return self.submit_whole(*set, request, deadline_ms, done);
        }
        let here = (0..sets.len()).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let intent = Intent { known, here: here.collect(), others: Vec::new() };
        request.step = Some(Box::new(Step::Intend(intent)));
        let bytes = request.to_bytes().len();
        if bytes > INTENT_BYTES_MAX {
            let bytes_max = INTENT_BYTES_MAX;
            return done(WriteOutcome::Done(Err(CommitError::TooLarge { bytes, bytes_max })));
        }
        if self.batches.looking.len() >= LOOKING_MAX {
            return done(WriteOutcome::Done(Err(CommitError::Overloaded)));
        }
        // A time that a client gave is not this side's to change.
        let is_timed = request.timed_us.is_some() && !breaks(Rule::TimeBatchesByClock);
        let names_positions = request.mutations.iter().any(|it| it.names_positions());
        let mut again = if is_timed || names_positions { all } else { BTreeSet::new() };
        again.retain(|set| self.core.contains(*set));
        let (open, asks) = (again.clone(), is_timed || names_positions);
        let looking = Looking { request, sets, asks, open, again, deadline_ms, done };
        self.batches.next += 1;
        let number = self.batches.next;
        self.batches.looking.insert(number, looking);
        self.look(number);
    }

    /// A batch that one set holds, as far as is known here. If it was split meanwhile nothing was done, and it is looked at again.
    fn submit_whole(&mut self, set: SetId, request: Request, deadline_ms: u64, done: WriteDone) {
        let (again, split) = (request.clone(), Arc::clone(&self.batches.split));
        let tell: WriteDone = Box::new(move |outcome| match outcome {
            WriteOutcome::Done(Err(CommitError::Moved)) => {
                split.lock().push((again, deadline_ms, done));
            }
            outcome => done(outcome),
        });
        self.submit(set, request, deadline_ms, tell);
    }

    /// Asks the sets of a batch that have to be asked; decides it when all have answered.
    fn look(&mut self, number: u64) {
        let Some(looking) = self.batches.looking.get_mut(&number) else { return };
        if looking.open.is_empty() {
            return self.decide_batch(number);
        }
        for set in std::mem::take(&mut looking.again) {
            let looked = Arc::clone(&self.batches.looked);
            self.read(set, Box::new(move |may| looked.lock().push((number, set, may))));
        }
    }

    /// Whether something was heard of batches that are not decided.
    pub(super) fn take_looked(&mut self) -> bool {
        let looked = std::mem::take(&mut *self.batches.looked.lock());
        for (number, set, may) in &looked {
            let Some(looking) = self.batches.looking.get_mut(number) else { continue };
            match may {
                true => {
                    looking.open.remove(set);
                }
                // With the next tick.
                false => {
                    looking.again.insert(*set);
                    continue;
                }
            }
            self.look(*number);
        }
        !looked.is_empty()
    }

    /// With every tick: sets that could not tell are asked again, until the batch's time is up.
    pub(super) fn tick_batches(&mut self) {
        let split = std::mem::take(&mut *self.batches.split.lock());
        for (request, deadline_ms, done) in split {
            match deadline_ms <= self.now.ms {
                true => done(WriteOutcome::TimedOut),
                false => self.submit_batch(request, deadline_ms, done),
            }
        }
        let numbers: Vec<u64> = self.batches.looking.keys().copied().collect();
        for number in numbers {
            let now_ms = self.now.ms;
            let is_over =
                self.batches.looking.get(&number).is_some_and(|it| it.deadline_ms <= now_ms);
            match is_over {
                true => {
                    if let Some(looking) = self.batches.looking.remove(&number) {
                        (looking.done)(WriteOutcome::TimedOut);
                    }
                }
                false => self.look(number),
            }
        }
    }

    /// This node's members have everything that was committed in the batch's sets before it came.
    fn decide_batch(&mut self, number: u64) {
        let Some(looking) = self.batches.looking.remove(&number) else { return };
        // What was asked may have been split meanwhile: the half that holds a key now is asked, too.
        let Some(sets) = self.sets_of(&looking.request) else {
            return (looking.done)(WriteOutcome::Done(Err(CommitError::Moved)));
        };
        if sets != looking.sets && looking.asks {
            let fresh = sets.iter().filter(|set| !looking.sets.contains(set));
            let fresh: BTreeSet<SetId> =
                fresh.copied().filter(|set| self.core.contains(*set)).collect();
            let looking = Looking { sets, open: fresh.clone(), again: fresh, ..looking };
            self.batches.looking.insert(number, looking);
            return self.look(number);
        }
        let Looking { mut request, deadline_ms, done, .. } = looking;
        for (set, mutation) in sets.iter().zip(&request.mutations) {
            if mutation.names_positions()
                && let Err(refused) = self.storage.foresee(*set, mutation)
            {
                return done(WriteOutcome::Done(Err(refused)));
            }
        }
        if !breaks(Rule::TimeBatchesByClock) {
            let last_us = sets.iter().map(|set| self.storage.group_last_us(*set)).max();
            let _ = request.time_after(last_us.unwrap_or(i64::MIN));
        }
        let Some(first) = sets.first() else { return };
        let number = self.requests.add(*first, request, deadline_ms, done);
        self.attempt(number);
    }

    /// Nobody is answered any more.
    pub(super) fn close_batches(&mut self) {
        for (_, _, done) in std::mem::take(&mut *self.batches.split.lock()) {
            done(WriteOutcome::TimedOut);
        }
        for (_, looking) in std::mem::take(&mut self.batches.looking) {
            (looking.done)(WriteOutcome::TimedOut);
        }
    }
}
