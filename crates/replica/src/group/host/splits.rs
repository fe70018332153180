//! Sets are split: which half a request is for, what waits while a split is on its way, and how the second half begins.
//!
//! The leader proposes the split as an entry of the set. From then on it holds requests for the second half back, until the entry is
//! applied or lost: none of them stands behind the split in the set's log. Every member that applies it makes the second set, with the
//! same members, behind the same place; whoever led the first asks at once for votes for the second.
//!
//! A member that is behind the split does not know the second set yet. What others say to it is held for a moment, and it asks them where
//! that set comes from: as long as its own member of the first set is not at the split, it waits for that; otherwise it begins with
//! nothing, and is handed the rows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use storage::broken::{Rule, breaks};
use storage::{
    CommitError, GroupAppend, GroupState, Position, RecoveredGroup, Request, Split, Step,
};
use types::{NodeId, RingRange, RingToken, SetId};

use super::{Asked, Host, Input, NodeMessage, ProposalAnswer};
use crate::group::member::Ticket;
use crate::group::wire::PeerMessage;

/// So many requests wait for a split that is on its way.
const HELD_MAX: usize = 4096;
/// Of so many sets that are not known here messages are held, so many of each, so long.
const EARLY_SETS_MAX: usize = 256;
const EARLY_MESSAGES_MAX: usize = 16;
const EARLY_MS: u64 = 2_000;
/// Where a set comes from is asked again after so many milliseconds.
const ASKED_AGAIN_MS: u64 = 150;

type WriteAnswer = Box<dyn FnOnce(ProposalAnswer) + Send>;

/// A split that is on its way in a set that this node's member leads.
struct Splitting {
    at: RingToken,
    ticket: Ticket,
    /// It is not in the log, nor will be.
    is_lost: bool,
    held: Vec<((Request, Bytes), WriteAnswer)>,
}

/// What others said to a member of a set that is not known here.
struct Early {
    since_ms: u64,
    asked_ms: Option<u64>,
    /// Where the set comes from, once that was told.
    origin: Option<Option<(SetId, u64)>>,
    messages: VecDeque<(NodeId, PeerMessage)>,
}

/// A set that was split off another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitOff {
    /// From which.
    pub left: SetId,
    /// The set that was born.
    pub right: SetId,
    /// The first position of the ring that it has.
    pub at: RingToken,
}

/// Told of every set that was split off another on this node, before anybody may read from it.
pub type OnSplit = Box<dyn Fn(SplitOff) + Send>;

/// What a host knows of splits.
#[derive(Default)]
pub(super) struct Splits {
    under_way: BTreeMap<SetId, Splitting>,
    early: BTreeMap<SetId, Early>,
    on_split: Option<OnSplit>,
    /// Sets that were split off here, until what the set before them did to their rows is in sorted files: where the log says that
    /// they began.
    births: BTreeMap<SetId, Position>,
    /// Sets whose members here hold less than before, until the map of this node says so too.
    narrowed: BTreeSet<SetId>,
}

/// Whose keys a request is for.
enum Belongs {
    Here,
    /// All of them are another set's, which has a member here.
    To(SetId),
    /// Some or all of them are not this set's.
    Elsewhere,
    /// Perhaps not this set's for much longer.
    Held,
}

/// The positions of the ring that a request touches, the least and the largest. One that decides a batch belongs where the batch's first
/// key is; the rest of it is parted afterwards.
fn extent(request: &Request) -> Option<(RingToken, RingToken)> {
    let decides = matches!(request.step.as_deref(), Some(Step::Intend(_)));
    let keys = request.rings().take(if decides { 1 } else { usize::MAX });
    let emptied = request.truncates.iter().flat_map(|it| [it.range.start, it.range.last]);
    keys.chain(emptied).fold(None, |extent, token| match extent {
        None => Some((token, token)),
        Some((first, last)) => Some((token.min(first), token.max(last))),
    })
}

impl Host {
    /// From now on it is told of every set that is split off another; first of those that are known.
    pub fn set_on_split(&mut self, on_split: OnSplit) {
        let known = self.core.sets().filter_map(|set| split_off(self.core.state(set)?));
        known.for_each(&on_split);
        self.splits.on_split = Some(on_split);
    }

    /// What this node's member of a set holds, as its log says; `None` where only the map knows.
    pub fn range_in_log(&self, set: SetId) -> Option<RingRange> {
        self.core.state(set).and_then(|state| state.range)
    }

    /// Whether this node's member of a set holds what lies between two positions of the ring.
    pub fn holds(&self, set: SetId, first: RingToken, last: RingToken) -> bool {
        let range = self.range_in_log(set);
        breaks(Rule::ReadThroughSplit)
            || range.is_none_or(|range| range.contains(first) && range.contains(last))
    }

    fn belongs(&self, set: SetId, request: &Request) -> Belongs {
        let Some((first, last)) = extent(request) else { return Belongs::Here };
        if breaks(Rule::WriteThroughSplit) {
            return Belongs::Here;
        }
        if let Some(range) = self.range_in_log(set)
            && !(range.contains(first) && range.contains(last))
        {
            let holds = |it: &SetId| {
                let range = self.range_in_log(*it);
                range.is_some_and(|range| range.contains(first) && range.contains(last))
            };
            // Sets of other spaces hold the same positions of the ring: only what was split off this one, or its like, is meant.
            let other = self.core.sets().filter(|it| self.descends(*it, set)).find(holds);
            return other.map_or(Belongs::Elsewhere, Belongs::To);
        }
        match self.splits.under_way.get(&set) {
            Some(splitting) if last >= splitting.at => Belongs::Held,
            _ => Belongs::Here,
        }
    }

    /// The set that holds a position of the ring, where the map says that another one does from which it was split off.
    pub(super) fn holder(&self, set: SetId, ring: RingToken) -> SetId {
        if self.range_in_log(set).is_none_or(|range| range.contains(ring)) {
            return set;
        }
        let holds = |it: &SetId| self.range_in_log(*it).is_some_and(|it| it.contains(ring));
        self.core.sets().filter(|it| self.descends(*it, set)).find(holds).unwrap_or(set)
    }

    /// Whether a position of the ring may be another set's in a moment.
    pub(super) fn is_splitting_off(&self, set: SetId, ring: RingToken) -> bool {
        self.splits.under_way.get(&set).is_some_and(|splitting| ring >= splitting.at)
    }

    /// Whether a set was split off another, or off one that was.
    pub(super) fn descends(&self, set: SetId, from: SetId) -> bool {
        let mut known = set;
        // Numbers rise from a set to those that are split off it.
        while let Some((left, _)) = self.core.state(known).and_then(|state| state.split_from) {
            if left == from {
                return true;
            }
            if left >= known {
                return false;
            }
            known = left;
        }
        false
    }

    /// Hands a request on that is not for this set, or holds it back; what is left is to be proposed.
    pub(super) fn route(
        &mut self,
        set: SetId,
        request: (Request, Bytes),
        done: WriteAnswer,
    ) -> Option<((Request, Bytes), WriteAnswer)> {
        if request.0.splits.is_some() {
            self.propose_split(set, request.0, done);
            return None;
        }
        match self.belongs(set, &request.0) {
            Belongs::Here => return Some((request, done)),
            Belongs::To(other) => done(ProposalAnswer::Moved(other)),
            Belongs::Elsewhere => {
                // It may have been done before the set was split, and its answer was lost.
                let known = self.storage.known_answer(set, &request.0);
                done(ProposalAnswer::Done(known.unwrap_or(Err(CommitError::Moved))));
            }
            Belongs::Held => match self.splits.under_way.get_mut(&set) {
                Some(splitting) if splitting.held.len() < HELD_MAX => {
                    splitting.held.push((request, done));
                }
                _ => done(ProposalAnswer::Busy),
            },
        }
        None
    }

    /// The leader of a set has it split.
    fn propose_split(&mut self, set: SetId, request: Request, done: WriteAnswer) {
        let Some(split) = request.splits else { return done(ProposalAnswer::Busy) };
        let born = self.core.state(split.right).and_then(|state| state.split_from);
        if born.is_some_and(|(left, _)| left == set) {
            return done(ProposalAnswer::Done(Ok(storage::AllDone::new())));
        }
        let known = self.held_by(set);
        let whole = self.range_in_log(set).or(known.as_ref().map(|(_, range)| *range));
        let (Some(whole), Some((tables, _))) = (whole, known) else {
            return done(ProposalAnswer::Busy);
        };
        let is_used = self.core.contains(split.right) || self.gone.contains_key(&split.right);
        let split = Split { whole, tables, ..*split };
        if is_used || split.halves().is_none() {
            // Somebody was faster, and the place is another set's.
            return done(ProposalAnswer::Done(Err(CommitError::Moved)));
        }
        let is_settled = self.core.ask(set, |member| Some(member.is_settled())) == Some(true);
        let is_moving = self.goals.contains_key(&set) || self.has_transfer(set);
        if !is_settled || is_moving || self.splits.under_way.contains_key(&set) {
            return done(ProposalAnswer::Busy);
        }
        let (now_s, at) = (self.cluster_s(), split.at);
        let ticket = self.ticket(Asked::Write(set, None, done));
        let splitting = Splitting { at, ticket, is_lost: false, held: Vec::new() };
        self.splits.under_way.insert(set, splitting);
        let (kind, body) = split.to_entry();
        let (ticket, before) = (Some(ticket), Vec::new());
        self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
    }

    /// Whether a set is being split: nobody comes or goes meanwhile.
    pub(super) fn is_splitting(&self, set: SetId) -> bool {
        self.splits.under_way.contains_key(&set)
    }

    /// A proposal came to nothing; perhaps it was a split.
    pub(super) fn note_lost(&mut self, lost: Ticket) {
        let mut under_way = self.splits.under_way.values_mut();
        if let Some(splitting) = under_way.find(|splitting| splitting.ticket == lost) {
            splitting.is_lost = true;
        }
    }

    /// Requests that waited for a split which is done, or will not be, are looked at again.
    pub(super) fn release_held(&mut self) {
        let is_over = |(set, splitting): &(&SetId, &Splitting)| {
            let is_done = !self.holds(**set, splitting.at, splitting.at);
            splitting.is_lost || is_done || !self.core.leads(**set)
        };
        let over = self.splits.under_way.iter().filter(is_over).map(|(set, _)| *set);
        for set in over.collect::<Vec<_>>() {
            let splitting = self.splits.under_way.remove(&set);
            for (request, done) in splitting.into_iter().flat_map(|it| it.held) {
                self.write(set, request, done);
            }
        }
    }

    /// A set that was split off begins here. `Err` if the log takes nothing now.
    pub(super) fn begin_split_off(&mut self, state: &GroupState) -> Result<(), CommitError> {
        let set = state.set;
        let gone = self.gone.get(&set).copied().unwrap_or_default();
        let is_member = state.configuration.node_of(state.replica).is_some();
        if self.core.contains(set) || state.replica <= gone || !is_member {
            // One that knows nothing yet is handed the rows; one that was taken away stays away, and so does one that did not belong to
            // the set any more when that was split: nothing waits for it.
            if !self.core.contains(set) {
                self.storage.forget_split_off(set);
            }
            return Ok(());
        }
        let position = match self.storage.begin_group(state) {
            Err(CommitError::Moved) => {
                tracing::error!(set = set.0, "a set that was split off was here alone before");
                return Ok(());
            }
            began => began?,
        };
        self.splits.births.insert(set, position);
        self.hear_of(state);
        (self.is_unawaited, self.has_news) = (true, true);
        if let Err(error) = self.core.add(RecoveredGroup::new(state.clone()), Vec::new()) {
            tracing::error!(set = set.0, %error, "a set that was split off cannot begin");
            return Ok(());
        }
        self.heed_doubt(set);
        if let (Some(on_split), Some(split)) = (&self.splits.on_split, split_off(state)) {
            on_split(split);
        }
        self.tell_range(set);
        if state.split_from.is_some_and(|(left, _)| self.core.leads(left)) {
            self.inbox.push_back(Input::Campaign(set));
        }
        if let Some(early) = self.splits.early.remove(&set) {
            let to_input = |(from, message)| Input::Message { from, message };
            self.inbox.extend(early.messages.into_iter().map(to_input));
        }
        Ok(())
    }

    /// What was split off before this node stopped: perhaps before its log said so.
    pub(super) fn begin_again(&mut self, births: Vec<(SetId, GroupAppend)>) {
        self.stalled.extend(births);
        let synced = self.storage.synced_position();
        let is_split =
            |set: &SetId| self.core.state(*set).is_some_and(|it| it.split_from.is_some());
        self.splits.births = self.core.sets().filter(is_split).map(|set| (set, synced)).collect();
    }

    /// Whether nothing of what was split off a set here hangs on that set's entries any more: rows that they wrote are in sorted files.
    /// As long as not, its entries stay.
    pub(super) fn is_rid_of_splits(&mut self, set: SetId) -> bool {
        let Host { core, splits, storage, .. } = self;
        splits.births.retain(|right, _| core.contains(*right));
        let is_off = |right: &SetId| {
            core.state(*right).and_then(|state| state.split_from).is_some_and(|it| it.0 == set)
        };
        let births = splits.births.iter().filter(|(right, _)| is_off(right));
        let Some(last) = births.map(|(_, position)| *position).max() else { return true };
        let is_rid = storage.flushed_before() > last || breaks(Rule::DropSplitEntries);
        if is_rid {
            let rid: Vec<SetId> = splits.births.keys().copied().filter(|it| is_off(it)).collect();
            splits.births.retain(|right, _| !rid.contains(right));
        }
        is_rid
    }

    /// Whether a member of a set that is not known here may begin because of a message, with nothing. If not, the message is held.
    pub(super) fn may_begin(
        &mut self,
        from: NodeId,
        message: &PeerMessage,
        is_leader: bool,
    ) -> bool {
        let set = message.set;
        let is_full = self.splits.early.len() >= EARLY_SETS_MAX;
        if is_full && !self.splits.early.contains_key(&set) {
            return false;
        }
        let now_ms = self.now.ms;
        let early = self.splits.early.entry(set).or_insert_with(|| Early {
            since_ms: now_ms,
            asked_ms: None,
            origin: None,
            messages: VecDeque::new(),
        });
        let origin = early.origin;
        let is_due = early.asked_ms.is_none_or(|asked_ms| asked_ms + ASKED_AGAIN_MS <= now_ms);
        if origin.is_none() && is_due {
            early.asked_ms = Some(now_ms);
            self.outbox.push((from, NodeMessage::WhoIs { set }));
        }
        // Only a leader says who belongs to a set. But those who were there when it was split off are needed for its first leader, also
        // where the set before it went on without the split being applied. One that never was here promised nothing to anybody.
        let begins = |origin: Option<(SetId, u64)>| {
            (is_leader || origin.is_some()) && !self.comes_by_split(set, origin)
        };
        if origin.is_some_and(begins) {
            self.splits.early.remove(&set);
            return true;
        }
        if let Some(early) = self.splits.early.get_mut(&set)
            && early.messages.len() < EARLY_MESSAGES_MAX
        {
            early.messages.push_back((from, message.clone()));
        }
        false
    }

    /// Whether a set will begin here by itself, when this node's member of the set it was split from is that far.
    fn comes_by_split(&self, set: SetId, origin: Option<(SetId, u64)>) -> bool {
        let is_stalled = |append: &GroupAppend| {
            append.is_birth && append.state.as_ref().is_some_and(|state| state.set == set)
        };
        let behind = |(left, index): (SetId, u64)| {
            self.core.applied(left).is_some_and(|applied| applied < index)
        };
        origin.is_some_and(behind) || self.stalled.iter().any(|(_, append)| is_stalled(append))
    }

    /// Another node wants to know where a set comes from.
    pub(super) fn answer_origin(&mut self, from: NodeId, set: SetId) {
        if let Some(state) = self.core.state(set).filter(|state| !state.is_newcomer()) {
            let split_from = state.split_from;
            self.outbox.push((from, NodeMessage::Origin { set, split_from }));
        }
    }

    /// Another node told where a set comes from.
    pub(super) fn take_origin(&mut self, set: SetId, split_from: Option<(SetId, u64)>) {
        if let Some(early) = self.splits.early.get_mut(&set) {
            early.origin = Some(split_from);
            // What was held is looked at again, the newest last.
            for (from, message) in std::mem::take(&mut early.messages) {
                self.receive_consensus(from, message);
            }
        }
    }

    /// What a member holds is another matter now.
    pub(super) fn note_narrowed(&mut self, set: SetId) {
        self.splits.narrowed.insert(set);
    }

    /// Sets of which the map of this node says that they hold more than their members here do: nobody reads from those by that map.
    pub fn narrowed(&mut self) -> BTreeSet<SetId> {
        let still = |set: &SetId| match (self.range_in_log(*set), self.range_in_map(*set)) {
            (Some(held), Some(said)) => !(held.contains(said.start) && held.contains(said.last)),
            _ => false,
        };
        let narrowed: BTreeSet<SetId> =
            self.splits.narrowed.iter().copied().filter(still).collect();
        self.splits.narrowed.clone_from(&narrowed);
        narrowed
    }

    /// What follows from time alone.
    pub(super) fn tick_splits(&mut self) {
        let now_ms = self.now.ms;
        self.splits.early.retain(|_, early| early.since_ms + EARLY_MS > now_ms);
    }
}

fn split_off(state: &GroupState) -> Option<SplitOff> {
    let (left, _) = state.split_from?;
    let at = state.range?.start;
    Some(SplitOff { left, right: state.set, at })
}
