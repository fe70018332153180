//! Batches over several sets, at the node that coordinates them: before a batch is decided every set must have a quorum, what it was
//! given before is known, and nothing of it would be refused. Then the set of its first key is asked to decide it (`intents.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use storage::broken::{Rule, breaks};
use storage::{CommitError, INTENT_BYTES_MAX, Intent, Request, Step};
use types::{Mutation, NodeId, RingToken, SetId, TableId};

use super::Host;
use super::writing::AHEAD_US_MAX;
use crate::group::node_wire::{KIND_LOOK, from_fault, to_fault};
use crate::group::reads::{AskedFor, Looked, RowsAnswer, RowsOutcome};
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
    /// Whether sets are asked at all.
    asks: bool,
    /// Sets that were asked and told nothing yet.
    open: BTreeSet<SetId>,
    /// Of these, the ones that cannot tell: they are asked again with the next tick.
    again: BTreeSet<SetId>,
    /// Sets that told, and whether they looked for positions in lists themselves.
    told: BTreeMap<SetId, bool>,
    /// The latest time that they were given.
    last_us: i64,
    deadline_ms: u64,
    done: WriteDone,
}

/// What was heard of a set that was asked for a batch.
enum Heard {
    /// Whether this node's member has everything of it.
    Here(bool),
    /// What a member of another node says.
    There(RowsOutcome),
    /// All of its nodes are of a version before there were looks: it is as it was then.
    Unasked,
}

/// Another node asked how far a set is.
struct LookAsked {
    from: NodeId,
    number: u64,
    set: SetId,
    rings: (RingToken, RingToken),
    request: Option<Request>,
}

/// The batches that a node coordinates, and what it is asked for those of others.
#[derive(Default)]
pub(super) struct Batches {
    pub(super) map: Option<Box<dyn RingMap>>,
    looking: BTreeMap<u64, Looking>,
    next: u64,
    /// What sets answered: for which batch, and which set.
    looked: Arc<Mutex<Vec<(u64, SetId, Heard)>>>,
    /// Looks of other nodes, and whether this node's member has everything.
    asked: Arc<Mutex<Vec<(LookAsked, bool)>>>,
    /// Batches of one set that was split before they came there, or of which it is not known yet where they lie.
    split: Arc<Mutex<Vec<(Request, u64, WriteDone)>>>,
    /// Whether a node knows a kind of messages; without, every one does.
    knows: Option<Knows>,
}

/// Tells whether a node knows a kind of messages.
pub type Knows = Box<dyn Fn(NodeId, u8) -> bool + Send>;

/// Where the mutations of a batch lie.
enum Located {
    /// The set of each.
    In(Vec<SetId>),
    /// A table is not known.
    Nowhere,
    /// A key is known to be another set's, and not which: the map of this node is behind.
    Unclear,
}

impl Host {
    /// From now on it is known which set holds what: without, nothing is done for batches over several sets.
    pub fn set_map(&mut self, map: Box<dyn RingMap>) {
        self.batches.map = Some(map);
    }

    /// From now on it is known what nodes of other versions know.
    pub fn set_knows(&mut self, knows: Knows) {
        self.batches.knows = Some(knows);
    }

    /// The nodes that can be asked how far a set is: those that can be asked for its rows, and know the question.
    pub(super) fn lookers_of(&self, set: SetId) -> Vec<NodeId> {
        let mut nodes = self.readers_of(set);
        nodes.retain(|node| self.knows(*node, KIND_LOOK));
        nodes
    }

    /// Whether a node knows a kind of messages.
    pub(super) fn knows(&self, node: NodeId, kind: u8) -> bool {
        node == self.node || self.batches.knows.as_ref().is_none_or(|it| it(node, kind))
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

    fn sets_of(&self, request: &Request) -> Located {
        let mut sets = Vec::with_capacity(request.mutations.len());
        for mutation in &request.mutations {
            let ring = mutation.key.ring();
            let Some(set) = self.locate(mutation.table, ring) else { return Located::Nowhere };
            if self.range_in_log(set).is_some_and(|range| !range.contains(ring)) {
                return Located::Unclear;
            }
            sets.push(set);
        }
        if sets.is_empty() { Located::Nowhere } else { Located::In(sets) }
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
        let known = self.map_version() + 1;
        let sets = match self.sets_of(&request) {
            Located::In(sets) => sets,
            Located::Nowhere => return done(WriteOutcome::Done(Err(CommitError::Moved))),
            Located::Unclear => {
                let mut split = self.batches.split.lock();
                return match split.len() < LOOKING_MAX {
                    true => split.push((request, deadline_ms, done)),
                    false => done(WriteOutcome::Done(Err(CommitError::Overloaded))),
                };
            }
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
        let looking = Looking {
            request,
            asks: is_timed || names_positions,
            open: BTreeSet::new(),
            again: BTreeSet::new(),
            told: BTreeMap::new(),
            last_us: i64::MIN,
            deadline_ms,
            done,
        };
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

    /// Asks the sets of a batch that were not asked; decides it when all have answered.
    fn look(&mut self, number: u64) {
        let Some(looking) = self.batches.looking.get(&number) else { return };
        // What was asked may have been split meanwhile: the half that holds a key now is asked, too.
        let sets = match self.sets_of(&looking.request) {
            Located::In(sets) => sets,
            // With the next tick.
            Located::Unclear => return,
            Located::Nowhere => {
                if let Some(looking) = self.batches.looking.remove(&number) {
                    (looking.done)(WriteOutcome::Done(Err(CommitError::Moved)));
                }
                return;
            }
        };
        let is_told = |set: &SetId| looking.told.contains_key(set);
        if !looking.asks || sets.iter().all(is_told) {
            return self.decide_batch(number, &sets);
        }
        let is_asked = |set: &SetId| is_told(set) || looking.open.contains(set);
        let fresh: BTreeSet<SetId> = sets.iter().copied().filter(|it| !is_asked(it)).collect();
        for set in fresh {
            self.ask_set(number, set, &sets);
        }
    }

    /// Asks a set of a batch up to which time it was given anything: this node's member, or one of another node.
    fn ask_set(&mut self, number: u64, set: SetId, sets: &[SetId]) {
        // One that is frozen, or whose rows do not count, can tell nothing.
        let status = self.core.status_of(set);
        let is_here = status.is_some_and(|it| it.is_whole && it.frozen.is_none());
        let is_asked =
            is_here || self.readers_of(set).is_empty() || !self.lookers_of(set).is_empty();
        let looked = Arc::clone(&self.batches.looked);
        let Some(looking) = self.batches.looking.get_mut(&number) else { return };
        looking.open.insert(set);
        if is_here {
            let done = move |may| looked.lock().push((number, set, Heard::Here(may)));
            return self.read(set, Box::new(done));
        }
        if !is_asked {
            return looked.lock().push((number, set, Heard::Unasked));
        }
        let all = sets.iter().zip(&looking.request.mutations);
        let own = all.filter(|(of, _)| **of == set).map(|(_, mutation)| mutation);
        let rings = own.clone().map(|mutation| mutation.key.ring());
        let rings = rings.clone().min().zip(rings.max());
        let mutations: Vec<Mutation> = own.filter(|it| it.names_positions()).cloned().collect();
        let Some(rings) = rings else { return };
        let body = match mutations.is_empty() {
            true => Bytes::new(),
            false => Request {
                id: None,
                not_after_s: 0,
                timed_us: None,
                truncates: None,
                splits: None,
                mutations,
                step: None,
            }
            .to_bytes(),
        };
        let deadline_ms = looking.deadline_ms;
        let done = move |outcome| looked.lock().push((number, set, Heard::There(outcome)));
        let asked_for = AskedFor::Look { rings, body };
        let number = self.reads.ask(set, asked_for, deadline_ms, Box::new(done));
        self.attempt_read(number);
    }

    /// Whether something was heard of batches that are not decided, or others may be told of theirs.
    pub(super) fn take_looked(&mut self) -> bool {
        let asked = std::mem::take(&mut *self.batches.asked.lock());
        let looked = std::mem::take(&mut *self.batches.looked.lock());
        let is_any = !asked.is_empty() || !looked.is_empty();
        for (asked, may_answer) in asked {
            self.answer_look(asked, may_answer);
        }
        for (number, set, heard) in looked {
            let is_here = self.core.contains(set);
            let Some(looking) = self.batches.looking.get_mut(&number) else { continue };
            match heard {
                Heard::Unasked => {
                    looking.told.insert(set, false);
                }
                Heard::Here(true) if is_here => {
                    let last_us = self.storage.group_last_us(set);
                    looking.last_us = looking.last_us.max(last_us);
                    looking.told.insert(set, false);
                }
                Heard::There(RowsOutcome::Looked(Looked { last_us, refused: None })) => {
                    looking.last_us = looking.last_us.max(last_us);
                    looking.told.insert(set, true);
                }
                Heard::There(RowsOutcome::Looked(Looked { refused: Some(fault), .. })) => {
                    if let Some(looking) = self.batches.looking.remove(&number) {
                        (looking.done)(WriteOutcome::Done(Err(from_fault(fault))));
                    }
                    continue;
                }
                // With the next tick; the map may be another one by then.
                Heard::Here(_) | Heard::There(_) => {
                    looking.again.insert(set);
                    continue;
                }
            }
            self.look(number);
        }
        is_any
    }

    /// Another node wants to know how far a set is: this node's member, if it has one, looks whether it has everything.
    pub(super) fn serve_look(
        &mut self,
        (from, number): (NodeId, u64),
        set: SetId,
        rings: (RingToken, RingToken),
        body: Bytes,
    ) {
        let request = match body.is_empty() {
            true => None,
            false => match Request::from_bytes(body) {
                Ok(request) => Some(request),
                Err(_) => return tracing::warn!(%from, "a look of another node is not readable"),
            },
        };
        let status = self.core.status_of(set);
        if status.is_none_or(|it| !it.is_whole || it.frozen.is_some()) {
            let leader = self.core.leader(set);
            return self.answer_rows(from, number, RowsAnswer::NotHere(leader));
        }
        let asked = Arc::clone(&self.batches.asked);
        let look = LookAsked { from, number, set, rings, request };
        self.read(set, Box::new(move |may| asked.lock().push((look, may))));
    }

    fn answer_look(&mut self, asked: LookAsked, may_answer: bool) {
        let LookAsked { from, number, set, rings: (first, last), request } = asked;
        let range = self.range_in_log(set);
        let answer = if !may_answer || !self.core.contains(set) {
            RowsAnswer::NotHere(self.core.leader(set))
        } else if range.is_some_and(|range| !(range.contains(first) && range.contains(last))) {
            RowsAnswer::Moved
        } else {
            let last_us = self.storage.group_last_us(set);
            let mut named = request.iter().flat_map(|request| &request.mutations);
            let refused = named.find_map(|it| self.storage.foresee(set, it).err());
            RowsAnswer::Looked(Looked { last_us, refused: refused.as_ref().map(to_fault) })
        };
        self.answer_rows(from, number, answer);
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
                false => {
                    if let Some(looking) = self.batches.looking.get_mut(&number) {
                        let again = std::mem::take(&mut looking.again);
                        looking.open.retain(|set| !again.contains(set));
                    }
                    self.look(number);
                }
            }
        }
    }

    /// Everything that was given in the batch's sets before it came is known.
    fn decide_batch(&mut self, number: u64, sets: &[SetId]) {
        let Some(looking) = self.batches.looking.remove(&number) else { return };
        let Looking { mut request, told, last_us, deadline_ms, done, .. } = looking;
        for (set, mutation) in sets.iter().zip(&request.mutations) {
            if mutation.names_positions()
                && told.get(set) != Some(&true)
                && let Err(refused) = self.storage.foresee(*set, mutation)
            {
                return done(WriteOutcome::Done(Err(refused)));
            }
        }
        if !breaks(Rule::TimeBatchesByClock) {
            let _ = request.time_after(last_us);
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
