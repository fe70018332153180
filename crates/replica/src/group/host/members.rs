//! Members come to a node and go from it.

use std::collections::BTreeSet;

use raft::eraftpb::MessageType;
use storage::broken::{Rule, breaks};
use storage::{EntryPlace, GroupAppend, GroupState, RecoveredGroup};
use types::{NodeId, ReplicaId, SetId};

use super::{Asked, BEATS_MAX, Host, Input, NodeMessage, Peer};
use crate::group::changes::{ChangeState, Goal, Next};
use crate::group::member::MemberStatus;
use crate::group::recovery::MemberRecord;
use crate::group::rests::Beat;
use crate::group::wire::PeerMessage;

/// A member that does not belong to its set any more stays until one who does says so; if nobody does, for so many ticks.
const LEAVING_TICKS: u64 = 12_000;
/// A node talks with at most so many others.
const PEERS_MAX: usize = 4096;
/// A member that heard of no leader for so many ticks asks whether it still belongs to its set, every so many ticks.
const SILENT_TICKS: u64 = 64;
/// A member without rows whose set nobody knows stays for so many ticks.
const FORSAKEN_TICKS: u64 = 1_200;

impl Host {
    /// A set that is new, with its first members; one of them is on this node.
    pub fn begin(&mut self, state: GroupState) -> Result<(), String> {
        self.storage.begin_group(&state).map_err(|error| error.to_string())?;
        self.hear_of(&state);
        self.is_unawaited = true;
        self.has_news = true;
        let set = state.set;
        self.core.add(RecoveredGroup::new(state), Vec::new())?;
        self.tell_range(set);
        Ok(())
    }

    /// A set that nobody needs any more: its member here is gone for good.
    pub fn end(&mut self, set: SetId) {
        if self.core.contains(set) {
            // If the log takes nothing now, it is tried again.
            self.leaving.insert(set, self.ticks);
            self.remove_left();
        }
    }

    /// A message from a member of another node.
    pub(super) fn receive_consensus(&mut self, from: NodeId, message: PeerMessage) {
        let (set, to) = (message.set, message.to());
        let kind = message.message.get_msg_type();
        if self.core.replica(set) != Some(to) {
            let is_vote =
                matches!(kind, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote);
            let is_forced =
                is_vote && breaks(Rule::CreateByVote) && self.core.replica(set).is_none();
            let gone = self.gone.get(&set).copied().unwrap_or_default();
            let highest = self.core.replica(set).map_or(gone, |own| own.max(gone));
            if to <= highest && !is_forced {
                self.outbox.push((from, NodeMessage::Gone { set, replica: to }));
                return;
            }
            // Only a leader says who belongs to a set: who asks for votes may know nothing of the last changes.
            let is_leader = matches!(
                kind,
                MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot
            );
            // One that was split off a set of this node begins when that set is at the split.
            let is_new = self.core.replica(set).is_none();
            if is_new && !is_forced {
                if !self.may_begin(from, &message, is_leader) {
                    return;
                }
            } else if !is_leader && !is_forced {
                return;
            }
            if !self.create(set, to, (message.from(), from)) {
                return;
            }
        }
        if kind == MessageType::MsgSnapshot {
            let metadata = message.message.get_snapshot().get_metadata();
            let place = EntryPlace { index: metadata.index, term: metadata.term };
            let Some(message) = self.holds_image(from, message, place) else { return };
            return self.inbox.push_back(Input::Message { from, message });
        }
        self.inbox.push_back(Input::Message { from, message });
    }

    /// What members that rest say to another node, together.
    pub(super) fn send_beats(&mut self, beats: Vec<(NodeId, Vec<Beat>)>, are_answers: bool) {
        for (node, beats) in beats {
            for beats in beats.chunks(BEATS_MAX) {
                let beats = NodeMessage::Beats { beats: beats.to_vec(), are_answers };
                self.outbox.push((node, beats));
            }
        }
    }

    /// A member begins that a leader speaks to. It knows nothing, and is handed everything.
    fn create(&mut self, set: SetId, replica: ReplicaId, leader: (ReplicaId, NodeId)) -> bool {
        let is_free = self.may_append(&GroupAppend::default());
        if !is_free || self.core.contains(set) && !self.remove_member(set) {
            return false;
        }
        self.seats.disturb(set);
        let state = GroupState::newcomer(set, replica, vec![(replica, self.node), leader]);
        if let Err(error) = self.storage.begin_group(&state) {
            tracing::debug!(set = set.0, %error, "a member cannot begin now");
            return false;
        }
        self.is_unawaited = true;
        match self.core.add(RecoveredGroup::new(state), Vec::new()) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(set = set.0, %error, "a member could not begin");
                false
            }
        }
    }

    /// Whether a member of a set with this number, or a higher one, was here and went.
    pub fn has_left(&self, set: SetId, replica: ReplicaId) -> bool {
        self.gone.get(&set).is_some_and(|gone| *gone >= replica)
    }

    /// A member goes; `false` if the log takes nothing now.
    fn remove_member(&mut self, set: SetId) -> bool {
        let Some(replica) = self.core.replica(set) else { return true };
        if self.is_busy(set) || !self.may_append(&GroupAppend::default()) {
            return false;
        }
        // What was split off it and waits for room in the log has nothing but its entries.
        let is_bearing = self.stalled.iter().any(|(known, it)| *known == set && it.is_birth);
        if is_bearing || !self.is_rid_of_splits(set) {
            self.storage.flush_soon();
            return false;
        }
        if let Err(error) = self.storage.end_group(set, replica) {
            tracing::debug!(set = set.0, %error, "a member cannot go now");
            return false;
        }
        self.is_unawaited = true;
        self.seats.disturb(set);
        self.forget_transfers(set);
        self.forget_waiting(set);
        self.forget_doubts(set);
        self.stalled.retain(|(known, _)| *known != set);
        self.known_by_all.remove(&set);
        self.last_proposed_s.remove(&set);
        self.last_us.remove(&set);
        self.last_listed.remove(&set);
        self.leaving.remove(&set);
        self.goals.remove(&set);
        self.comparison.forget(set);
        self.tell_range(set);
        let gone = self.gone.entry(set).or_default();
        *gone = (*gone).max(replica);
        self.has_news = true;
        true
    }

    /// A member ends, or begins anew: nobody waits for it any more.
    pub(super) fn forget_waiting(&mut self, set: SetId) {
        let (waiting, proposed) = self.core.remove(set);
        for ticket in waiting {
            match self.asked.remove(&ticket) {
                Some(Asked::Read(done)) => done(false),
                Some(Asked::Write(_, _, done)) => done(super::ProposalAnswer::NotLeader(None)),
                None => {}
            }
        }
        // They may be done by those who are left: whoever asked finds out, or its time is up.
        proposed.iter().for_each(|ticket| {
            self.asked.remove(ticket);
        });
    }

    /// A member found in its log that it does not belong to its set any more. Others may not know yet that this is committed, and need
    /// its vote to find out: it stays until they do, and is no trouble to anybody. It asks them as one that hears of no leader.
    pub(super) fn leave_later(&mut self, set: SetId) {
        let tick = self.ticks + LEAVING_TICKS;
        self.leaving.entry(set).or_insert(tick);
    }

    /// Another node's member does not belong to its set any more. It is told when this node is sure to remember that: until then this
    /// node may need its vote to find out again.
    pub(super) fn say_gone(&mut self, node: NodeId, set: SetId, replica: ReplicaId) {
        let gone = (node, NodeMessage::Gone { set, replica });
        match self.persisted_turn >= self.appended_turn {
            true => self.outbox.push(gone),
            false => self.unsaid.push((self.appended_turn, gone)),
        }
    }

    /// Members that do not belong to their sets any more go.
    pub(super) fn remove_left(&mut self) {
        let due = self.leaving.extract_if(.., |_, tick| *tick <= self.ticks);
        for set in due.map(|(set, _)| set).collect::<Vec<_>>() {
            if !self.remove_member(set) {
                self.leaving.insert(set, self.ticks);
            }
        }
    }

    /// A member of this node does not belong to its set any more, as another node knows.
    pub(super) fn receive_gone(&mut self, set: SetId, replica: ReplicaId) {
        if self.core.replica(set) == Some(replica) {
            self.leaving.insert(set, self.ticks);
            self.remove_left();
        }
    }

    /// A member that hears of no leader for long may not belong to its set any more, and nobody speaks to it.
    pub(super) fn ask_whether_member(&mut self) {
        if !self.ticks.is_multiple_of(SILENT_TICKS) {
            return;
        }
        let silent = |set: &SetId| self.core.silent_ticks(*set).is_some_and(|it| it > SILENT_TICKS);
        for set in self.core.sets().filter(silent).collect::<Vec<_>>() {
            let Some(state) = self.core.state(set) else { continue };
            let replica = state.replica;
            // Those that it knows of may have left, too: the map knows who is there now.
            let placed = self.places.as_ref().map(|places| places(set).0).unwrap_or_default();
            let known = state.configuration.nodes.iter().map(|(_, node)| *node);
            let mut nodes: BTreeSet<NodeId> = known.chain(placed).collect();
            nodes.remove(&self.node);
            if self.is_forsaken(set) {
                tracing::info!(set = set.0, "a member of a set that is gone goes");
                self.leaving.insert(set, self.ticks);
                continue;
            }
            let asks = nodes.into_iter().map(|it| (it, NodeMessage::StillMember { set, replica }));
            self.outbox.extend(asks);
        }
    }

    /// Whether a member that was made to be handed rows waits for them in vain: its set was dropped meanwhile, and nobody is left who
    /// could say so.
    fn is_forsaken(&self, set: SetId) -> bool {
        let is_newcomer = self.core.state(set).is_some_and(|it| it.configuration.voters.is_empty());
        let is_long = self.core.silent_ticks(set).is_some_and(|it| it > FORSAKEN_TICKS);
        let is_unknown = self.places.as_ref().is_some_and(|places| places(set).0.is_empty());
        is_newcomer && is_long && is_unknown
    }

    /// Another node's member asks whether it still belongs to its set.
    pub(super) fn answer_member(&mut self, from: NodeId, set: SetId, replica: ReplicaId) {
        let is_gone = self.core.state(set).is_some_and(|state| {
            let configuration = &state.configuration;
            !configuration.voters.is_empty()
                && configuration.node_of(replica).is_none()
                && replica <= configuration.highest()
        });
        if is_gone && !self.leaving.contains_key(&set) {
            self.say_gone(from, set, replica);
        }
    }

    /// Nodes of a set's members are talked to from now on.
    pub(super) fn meet_members(&mut self, set: SetId) {
        let Some(state) = self.core.state(set).cloned() else { return };
        self.hear_of(&state);
    }

    /// Who is no member of any set here may be the leader of one that is to come, or that holds a part of a batch.
    pub fn meet(&mut self, node: NodeId) -> bool {
        if !self.peers.contains_key(&node) && self.peers.len() < PEERS_MAX && node != self.node {
            self.peers.insert(node, Peer::new(self.now.ms));
        }
        self.peers.contains_key(&node)
    }

    /// Nodes that there are, and no others: they are talked to from now on, whether they have members of this node's sets or not.
    pub fn meet_nodes(&mut self, nodes: &[NodeId]) {
        self.nodes = Some(nodes.iter().copied().collect());
        self.peers.retain(|node, _| nodes.contains(node));
        self.hints.retain(|_, leader| nodes.contains(leader));
        nodes.iter().for_each(|node| {
            self.meet(*node);
        });
        self.wanted_version = u64::MAX;
    }

    /// What the log keeps of the members, for those who look what is left of sets.
    pub fn member_records(&self) -> Vec<MemberRecord> {
        let record = |status: MemberStatus| {
            let state = self.core.state(status.set)?.clone();
            Some(MemberRecord {
                last: self.core.table(status.set)?.last(),
                is_whole: status.is_whole
                    && status.frozen.is_none()
                    && !self.leaving.contains_key(&status.set),
                // One that is frozen remembers who led when it froze.
                leader: self.core.leader(status.set),
                state: GroupState { commit: status.applied, ..state },
            })
        };
        self.core.status().filter_map(record).collect()
    }

    /// Who is to belong to a set. Its leader goes there step by step as long as it leads; whoever wants it asks again, of
    /// whoever leads, until it is done.
    pub fn change_members(&mut self, set: SetId, goal: Goal) -> ChangeState {
        let Some(state) = self.core.state(set) else { return ChangeState::NotLeader(None) };
        if !self.core.leads(set) {
            return ChangeState::NotLeader(self.core.leader(set));
        }
        if let Some(flaw) = goal.flaw(&state.configuration) {
            return ChangeState::Refused(flaw);
        }
        if self.core.ask(set, |member| Some(member.next_change(Some(&goal)))) == Some(Next::Done) {
            self.goals.remove(&set);
            return ChangeState::Done;
        }
        self.goals.insert(set, goal);
        ChangeState::UnderWay
    }

    /// The next step of every change that is under way.
    pub(super) fn drive_changes(&mut self, now_s: u32) {
        // A member of a joint configuration does not rest.
        let sets: BTreeSet<SetId> =
            self.core.awake_sets().chain(self.goals.keys().copied()).collect();
        for set in sets.into_iter().filter(|set| self.core.leads(*set)).collect::<Vec<_>>() {
            if self.is_splitting(set) {
                continue;
            }
            if self.goals.contains_key(&set) {
                self.core.tell(set, |member| member.stay_awake());
            }
            let goal = self.goals.get(&set);
            let is_joint = self.core.state(set).is_some_and(|state| state.configuration.is_joint());
            if goal.is_none() && !is_joint {
                continue;
            }
            match self.core.ask(set, |member| Some(member.next_change(goal))) {
                Some(Next::Propose(change)) => {
                    self.core.tell(set, |member| member.propose_change(&change, now_s));
                }
                Some(Next::HandOver(heir)) => {
                    self.core.tell(set, |member| member.hand_leadership_to_member(heir));
                }
                Some(Next::Done) => {
                    self.goals.remove(&set);
                }
                Some(Next::Wait) | None => {}
            }
        }
        let core = &self.core;
        self.goals.retain(|set, _| core.leads(*set));
    }
}
