//! A member comes, goes, or goes on behind an image; who belongs to its set changes.

use std::collections::BTreeSet;

use bytes::Bytes;
use raft::eraftpb::{Message, MessageType, Snapshot};
use raft::{ProgressState, SnapshotStatus, StateRole};
use storage::broken::{Rule, breaks};
use storage::{Configuration, EntryPlace, GroupAppend, GroupState, Split};
use types::{NodeId, ReplicaId, RingRange};

use super::{Answer, Member, Pending, Ticket, Wishes, rank_of};
use crate::group::changes::{Change, Goal, KIND_MEMBERS, MEMBERS_MAX, Next};
use crate::group::entries::change_context;
use crate::group::wire::{decode_configuration, snapshot_of};

/// A learner that lacks no more entries than this has caught up.
const CAUGHT_UP_ENTRIES: u64 = 64;

/// An image that a node holds for its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StagedPlace {
    pub(crate) place: EntryPlace,
    /// No entry behind it has an earlier second.
    pub(crate) now_s: u32,
    /// What the set holds there.
    pub(crate) range: RingRange,
}

/// How far a member is, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) matched: u64,
    /// It was told to go on behind its image, and has not answered.
    pub(crate) is_told: bool,
}

/// From whom a message is, by the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A member, on its node.
    Known,
    /// One that this member has not heard of: it may be new.
    New,
    /// One that was taken away.
    Gone,
    /// A number that belongs to another node.
    Wrong,
}

impl Member {
    pub(super) fn sender(&self, replica: ReplicaId, node: NodeId) -> Sender {
        let configuration = &self.state().configuration;
        match configuration.node_of(replica) {
            Some(known) if known == node => Sender::Known,
            Some(_) => Sender::Wrong,
            // A newcomer knows nobody; others learn of new members by and by.
            None if configuration.voters.is_empty() || replica > configuration.highest() => {
                match self.strangers.get(&replica) {
                    Some(known) if *known != node => Sender::Wrong,
                    _ => Sender::New,
                }
            }
            None => Sender::Gone,
        }
    }

    /// The node of a member, also of one that is not known from the configuration.
    pub(super) fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        let known = self.state().configuration.node_of(replica);
        known.or_else(|| self.strangers.get(&replica).copied())
    }

    pub(super) fn meet(&mut self, replica: ReplicaId, node: NodeId) {
        if self.strangers.len() < MEMBERS_MAX {
            self.strangers.insert(replica, node);
        }
    }

    /// Who belongs to the set is another matter now.
    fn reconfigure(&mut self, wishes: &mut Wishes) {
        let configuration = &self.state().configuration;
        let highest = configuration.highest();
        let (rank, is_member) =
            (rank_of(self.set, self.replica, configuration), configuration.node_of(self.replica));
        self.rank = rank;
        self.strangers.retain(|replica, _| *replica > highest);
        wishes.is_reconfigured = true;
        wishes.is_removed |= is_member.is_none();
    }

    /// Brings into force what an entry says of the set itself, which is committed and applied.
    pub(super) fn bring_into_force(&mut self, entry: Pending, wishes: &mut Wishes) {
        match entry.kind {
            KIND_MEMBERS => self.apply_change(entry.place.index, entry.body, wishes),
            _ => self.apply_split(entry, wishes),
        }
    }

    /// The set keeps its number, its log and the first half of what it held. The second half is born, on every member alike.
    fn apply_split(&mut self, entry: Pending, wishes: &mut Wishes) {
        let split = Split::from_entry(entry.body);
        let halves = split.as_ref().ok().and_then(Split::halves);
        assert!(halves.is_some(), "a split is looked at before it is taken");
        let (Ok(split), Some((left, right))) = (split, halves) else { return };
        let state = self.state();
        let mut born = state.split_off(split.right, right, entry.place, entry.now_s);
        if breaks(Rule::BeginSplitAnew) {
            let first = GroupState::born(split.right, self.replica, state.configuration.clone());
            born = GroupState { range: Some(right), ..first };
        }
        let birth = Some(born);
        wishes.appends.push(GroupAppend { state: birth, is_birth: true, ..GroupAppend::default() });
        // A state that was kept may know of later splits.
        let narrowed = state.range.and_then(|range| range.intersect(&left)).unwrap_or(left);
        self.raw.mut_store().state.range = Some(narrowed);
        wishes.append_state(self.state().clone());
        wishes.is_reconfigured = true;
    }

    /// Brings a change of members into force that is committed, and applied up to there.
    fn apply_change(&mut self, index: u64, body: Bytes, wishes: &mut Wishes) {
        // Where a set goes on without those who were lost for good, what its log said of members before is done with.
        if index <= self.state().configuration.index {
            return;
        }
        let change = Change::decode(body);
        assert!(change.is_ok(), "a change of members is looked at before it is taken");
        let Ok(change) = change else { return };
        let mut state = match self.raw.apply_conf_change(&change.to_library()) {
            Ok(state) => state,
            Err(error) => {
                // All members refuse it alike.
                tracing::warn!(set = self.set.0, index, %error, "a change of members is refused");
                return;
            }
        };
        if breaks(Rule::LeaveJointEarly)
            && change.is_joint
            && let Ok(left) = self.raw.apply_conf_change(&Change::leave().to_library())
        {
            state = left;
        }
        let before = self.state().configuration.clone();
        let after = change.after(&before, &state, index);
        wishes.removed.extend(before.nodes.iter().filter(|it| after.node_of(it.0).is_none()));
        self.raw.mut_store().state.configuration = after;
        wishes.append_state(self.state().clone());
        self.lead_no_longer_unless_voter();
        self.reconfigure(wishes);
        self.set_timeout(false);
    }

    /// Whoever leads hands over before it goes, but one that was elected while a joint configuration lasted may lead when that is left. The
    /// library would lead on: one that is gone panics at the next entry that is committed, for want of what it knows of itself, and one that
    /// only follows, beside a single voter, answers strong reads alone as if it were that one.
    fn lead_no_longer_unless_voter(&mut self) {
        let raft = &mut self.raw.raft;
        if raft.state == StateRole::Leader && !raft.promotable() {
            raft.become_follower(raft.term, raft::INVALID_ID);
        }
    }

    /// Proposes a change of members, unless one is under way.
    pub(crate) fn propose_change(&mut self, change: &Change, now_s: u32) {
        if !self.is_ready_to_lead() || self.raw.raft.has_pending_conf() {
            return;
        }
        let now_s = now_s.max(self.last_now_s);
        let context = change_context(now_s, &change.encode()).to_vec();
        if self.raw.propose_conf_change(context, change.to_library()).is_ok() {
            self.last_now_s = now_s;
        }
    }

    /// Of a leader: whether who belongs to the set stays as it is for now.
    pub(crate) fn is_settled(&self) -> bool {
        let is_joint = self.state().configuration.is_joint();
        self.is_ready_to_lead() && !is_joint && !self.raw.raft.has_pending_conf()
    }

    /// What is next on the way to a goal.
    pub(crate) fn next_change(&self, goal: Option<&Goal>) -> Next {
        let configuration = &self.state().configuration;
        if !self.is_ready_to_lead() || self.raw.raft.has_pending_conf() {
            return Next::Wait;
        }
        let log = &self.raw.raft.raft_log;
        let (committed, last) = (log.committed, log.last_index());
        let caught_up = |replica: ReplicaId| {
            self.raw.raft.prs().get(replica.0).is_some_and(|progress| {
                // One that was lost for a moment and has everything is probed until something is written.
                let is_followed = progress.state == ProgressState::Replicate
                    || progress.state == ProgressState::Probe && progress.matched == last;
                is_followed
                    && progress.recent_active
                    && progress.matched + CAUGHT_UP_ENTRIES >= committed
            })
        };
        match goal.map(|goal| goal.next(configuration, self.replica, caught_up)) {
            Some(Next::Done) if !self.is_known_to_most(configuration) => Next::Wait,
            Some(next) => next,
            None if configuration.is_joint() => Next::Propose(Change::leave()),
            None => Next::Done,
        }
    }

    /// Of a leader: whether most of those who decide know that they do. Before that those who were taken away may still be needed: if this
    /// node is lost, too, nobody knows that they are not, and the others would ask them for their votes (seed 92,008,220).
    fn is_known_to_most(&self, configuration: &Configuration) -> bool {
        let knows = |voter: &&ReplicaId| {
            let progress = self.raw.raft.prs().get(voter.0);
            progress.is_some_and(|it| it.committed_index >= configuration.index)
        };
        let voters = &configuration.voters;
        voters.iter().filter(knows).count() > voters.len() / 2
    }

    /// Whether a message that says to go on behind an image may be heard: it is about the image that this node holds, or about one that
    /// the member has gone past. The library takes nothing of the latter, and answers how far the member is: its leader may have missed
    /// that, and would offer the same for ever.
    pub(super) fn is_sound_snapshot(&self, message: &Message) -> bool {
        let snapshot = message.get_snapshot();
        let metadata = snapshot.get_metadata();
        let told = EntryPlace { index: metadata.index, term: metadata.term };
        // What is committed stays, whatever is held for a place there.
        if told.index <= self.commit() {
            return self.has_committed(told);
        }
        let configuration = decode_configuration(&snapshot.data);
        self.staged.is_some_and(|staged| staged.place == told && told.term <= message.term)
            && configuration.is_some_and(|it| it.node_of(self.replica).is_some())
    }

    /// Whether an image that ends with this entry has nothing that the member lacks. The last entry that it knows to be committed counts
    /// only with its term: behind another one the library would take the image, and take back what is committed.
    pub(crate) fn has_committed(&self, place: EntryPlace) -> bool {
        let log = &self.raw.raft.raft_log;
        let is_last = place.index == log.committed;
        let is_same = || log.term(place.index).is_ok_and(|term| term == place.term);
        place.index > 0 && (place.index < log.committed || is_last && is_same())
    }

    pub(crate) fn set_staged(&mut self, staged: Option<StagedPlace>) {
        self.staged = staged;
    }

    /// Consensus goes on behind the image: the log says so before anything is done.
    pub(super) fn restore(&mut self, snapshot: &Snapshot, wishes: &mut Wishes) {
        let metadata = snapshot.get_metadata();
        let place = EntryPlace { index: metadata.index, term: metadata.term };
        let configuration = decode_configuration(&snapshot.data);
        let now_s = self.staged.map_or(0, |staged| staged.now_s);
        let range = self.staged.map(|staged| staged.range);
        let Some(configuration) = configuration else { return };
        let log = self.raw.mut_store();
        log.restore(place, now_s, configuration);
        log.state.range = range;
        if breaks(Rule::ResetVoteByTransfer) {
            log.state.vote = 0;
            self.raw.raft.vote = 0;
        }
        self.last_now_s = self.last_now_s.max(now_s);
        self.handed_over = place.index;
        self.installing = Some(place);
        self.forget_timeout();
        self.pending.clear();
        // What is in the image may be what was proposed here.
        while let Some(proposed) = self.proposed.pop_front_if(|it| it.place.index <= place.index) {
            wishes.answers.push((proposed.ticket, Answer::Unknown));
        }
        let state = Some(self.state().clone());
        wishes.appends.push(GroupAppend { state, is_install: true, ..GroupAppend::default() });
        self.reconfigure(wishes);
    }

    /// The log says for sure that the member goes on behind its image: what is before that is nothing that the library looks at any more.
    pub(super) fn image_persisted(&mut self) {
        let log = &self.raw.raft.raft_log;
        if let Some(place) = self.installing
            && log.applied < place.index
            && log.persisted >= place.index
        {
            self.raw.advance_apply_to(place.index);
        }
    }

    /// The image is in the trees.
    pub(crate) fn installed(&mut self, index: u64, wishes: &mut Wishes) {
        assert_eq!(self.installing.map(|place| place.index), Some(index), "one image at a time");
        (self.installing, self.staged) = (None, None);
        self.forget_timeout();
        self.applied = index;
        self.raw.advance_apply_to(index);
        self.answer_reads(wishes);
    }

    /// As [`Member::installed`], of one that is frozen.
    pub(crate) fn forget_installing(&mut self) {
        (self.installing, self.staged) = (None, None);
    }

    /// Bodies of entries up to one are read from the log when they are wanted again.
    pub(crate) fn let_bodies_go(&mut self, index: u64) {
        self.raw.mut_store().evict(index);
    }

    /// As if its image were on its way into the trees.
    #[cfg(test)]
    pub(crate) fn pretend_to_install(&mut self, place: EntryPlace) {
        self.installing = Some(place);
        self.forget_timeout();
        self.set_timeout(false);
    }

    /// Behind which entry the member goes on, while its image is on its way into the trees.
    pub(crate) fn installing(&self) -> Option<EntryPlace> {
        self.installing
    }

    /// Of a leader: up to where everything is applied here, and who belongs to the set there. It need not have committed anything of
    /// its own yet: perhaps it cannot before somebody got the rows.
    pub(crate) fn image_place(&self) -> Option<(EntryPlace, Configuration)> {
        let index = self.applied;
        let term = self.log().table.term(index)?;
        let is_ready = self.is_leader() && self.handed_over == index && !self.is_overruled();
        is_ready.then(|| (EntryPlace { index, term }, self.state().configuration.clone()))
    }

    /// Of a leader: a member holds an image, and may go on behind it.
    pub(crate) fn offer_image(
        &mut self,
        to: ReplicaId,
        place: EntryPlace,
        configuration: &Configuration,
    ) {
        let snapshot = snapshot_of(place, configuration);
        self.raw.mut_store().offered.insert(to.0, snapshot);
        // The library would say so with its next heartbeat.
        if self.raw.raft.state == StateRole::Leader && self.raw.raft.prs().get(to.0).is_some() {
            self.raw.raft.send_append(to.0);
        }
    }

    /// Of a leader: a member's image is of no use any more; where it was told to go on behind it, it is not waited for.
    pub(crate) fn withdraw_image(&mut self, to: ReplicaId) {
        self.raw.mut_store().offered.remove(&to.0);
        self.report_image(to);
    }

    /// Of a leader: whether the member heard what it was told is not known; it is told again.
    pub(crate) fn report_image(&mut self, to: ReplicaId) {
        if self.raw.raft.state == StateRole::Leader {
            self.raw.report_snapshot(to.0, SnapshotStatus::Failure);
        }
    }

    /// Of a leader: how far a member is.
    pub(crate) fn standing_of(&self, to: ReplicaId) -> Option<Standing> {
        let progress = self.raw.raft.prs().get(to.0)?;
        let is_told = progress.state == ProgressState::Snapshot;
        self.is_leader().then_some(Standing { matched: progress.matched, is_told })
    }

    pub(super) fn take_wanted_images(&self) -> BTreeSet<u64> {
        let wanted = self.log().take_wanted_images();
        if self.is_leader() { wanted } else { BTreeSet::new() }
    }

    /// Those who wait for a member that goes: reads, and what was not proposed.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        let held = self.held.iter().chain(&self.gathered).filter_map(|proposal| proposal.ticket);
        let batches = self.reads.iter().flat_map(|batch| batch.tickets.iter().copied());
        held.chain(batches).chain(self.unasked_reads.iter().copied()).collect()
    }

    /// Those whose proposals are in the log: what becomes of them is not known here any more.
    pub(crate) fn proposed(&self) -> Vec<Ticket> {
        self.proposed.iter().map(|proposed| proposed.ticket).collect()
    }

    /// Whether a member may only follow: it is told apart from those that were told to lead.
    pub(super) fn is_from_leader(message: &Message) -> bool {
        matches!(
            message.get_msg_type(),
            MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot
        )
    }
}
