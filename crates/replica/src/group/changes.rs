//! Who belongs to a set changes: what an entry of its log says of that, and what comes next on the way to a goal.
//!
//! A member comes as a learner, which is handed the rows and the entries and decides nothing. When it has caught up, one joint
//! change makes it a voter and takes others away: while it lasts, both the voters before and those after decide. Every
//! leader that finds a joint configuration proposes to leave it.

use bytes::Bytes;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
};
use storage::Configuration;
use types::codec::{Decoder, Malformed};
use types::{NodeId, ReplicaId};

/// The kind of an entry that changes who belongs to a set.
pub(crate) const KIND_MEMBERS: u8 = storage::REPLICATION_KINDS_FROM + 1;
/// The first byte of a change.
const CHANGE_VERSION: u8 = 1;
/// A set has at most so many members, those that come and go included.
pub(crate) const MEMBERS_MAX: usize = 32;

/// What becomes of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Voter(ReplicaId, NodeId),
    Learner(ReplicaId, NodeId),
    Remove(ReplicaId),
}

/// A change of members; without steps a joint configuration is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) is_joint: bool,
    pub(crate) steps: Vec<Step>,
}

impl Change {
    /// Both configurations decided long enough.
    pub(crate) fn leave() -> Change {
        Change::default()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![CHANGE_VERSION, u8::from(self.is_joint)];
        for step in &self.steps {
            let (kind, replica, node) = match *step {
                Step::Voter(replica, node) => (0, replica, node),
                Step::Learner(replica, node) => (1, replica, node),
                Step::Remove(replica) => (2, replica, NodeId(0)),
            };
            out.push(kind);
            out.extend_from_slice(&replica.0.to_be_bytes());
            out.extend_from_slice(&node.0.to_be_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Change, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.byte()? != CHANGE_VERSION {
            return Err(Malformed);
        }
        let is_joint = match decoder.byte()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        let mut steps = Vec::new();
        while !decoder.is_done() {
            let kind = decoder.byte()?;
            let replica = ReplicaId(u64::from_be_bytes(decoder.array()?));
            let node = NodeId(u64::from_be_bytes(decoder.array()?));
            steps.push(match kind {
                0 => Step::Voter(replica, node),
                1 => Step::Learner(replica, node),
                2 => Step::Remove(replica),
                _ => return Err(Malformed),
            });
            if steps.len() > MEMBERS_MAX || replica.0 == 0 {
                return Err(Malformed);
            }
        }
        Ok(Change { is_joint, steps })
    }

    /// As the library wants it.
    pub(crate) fn to_library(&self) -> ConfChangeV2 {
        let mut change = ConfChangeV2::default();
        change.set_transition(match self.is_joint {
            true => ConfChangeTransition::Explicit,
            false => ConfChangeTransition::Auto,
        });
        for step in &self.steps {
            let (kind, replica) = match *step {
                Step::Voter(replica, _) => (ConfChangeType::AddNode, replica),
                Step::Learner(replica, _) => (ConfChangeType::AddLearnerNode, replica),
                Step::Remove(replica) => (ConfChangeType::RemoveNode, replica),
            };
            let mut single = ConfChangeSingle { node_id: replica.0, ..ConfChangeSingle::default() };
            single.set_change_type(kind);
            change.mut_changes().push(single);
        }
        change
    }

    /// Who belongs to the set after it, as the library found it.
    pub(crate) fn after(
        &self,
        before: &Configuration,
        state: &ConfState,
        index: u64,
    ) -> Configuration {
        let members = |ids: &[u64]| {
            let mut members: Vec<ReplicaId> = ids.iter().map(|id| ReplicaId(*id)).collect();
            members.sort_unstable();
            members
        };
        let mut after = Configuration {
            index,
            voters: members(state.get_voters()),
            outgoing: members(state.get_voters_outgoing()),
            learners: members(state.get_learners()),
            learners_next: members(state.get_learners_next()),
            nodes: before.nodes.clone(),
            highest: before.highest(),
        };
        for step in &self.steps {
            if let Step::Voter(replica, node) | Step::Learner(replica, node) = *step
                && after.node_of(replica).is_none()
            {
                after.nodes.push((replica, node));
                after.highest = after.highest.max(replica);
            }
        }
        let lists = [&after.voters, &after.outgoing, &after.learners, &after.learners_next]
            .map(Clone::clone);
        after.nodes.retain(|(replica, _)| lists.iter().any(|list| list.contains(replica)));
        after
    }
}

/// Who is to belong to a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Who decides.
    pub voters: Vec<(ReplicaId, NodeId)>,
    /// Who only follows.
    pub learners: Vec<(ReplicaId, NodeId)>,
}

/// How far a change of members is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// Nothing was done: this node's member does not lead. Who does, as far as it knows.
    NotLeader(Option<NodeId>),
    /// It is on its way as long as this node's member leads. Whoever wants it asks again until it is done.
    UnderWay,
    /// The set is as it was wanted.
    Done,
    /// It will not be done, and why.
    Refused(&'static str),
}

/// What a leader does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    Wait,
    Propose(Change),
    HandOver(ReplicaId),
}

impl Goal {
    /// Why it cannot be, if so.
    pub(crate) fn flaw(&self, now: &Configuration) -> Option<&'static str> {
        let all = || self.voters.iter().chain(&self.learners);
        let is_twice = |member: &(ReplicaId, NodeId)| {
            all().filter(|known| known.0 == member.0 || known.1 == member.1).count() > 1
        };
        let is_old = |member: &&(ReplicaId, NodeId)| {
            now.node_of(member.0).is_none_or(|node| node != member.1)
        };
        if self.voters.is_empty() {
            Some("nobody would decide")
        } else if all().any(is_twice) {
            Some("a member, or a node, would be there twice")
        } else if all().filter(is_old).any(|(replica, _)| *replica <= now.highest()) {
            Some("the number of a member is used again")
        } else if all().count() + now.nodes.len() > MEMBERS_MAX {
            Some("too many members would come and go")
        } else {
            None
        }
    }

    /// What the leader `own` does next. `caught_up` knows whether a member has nearly everything.
    pub(crate) fn next(
        &self,
        now: &Configuration,
        own: ReplicaId,
        caught_up: impl Fn(ReplicaId) -> bool,
    ) -> Next {
        if now.is_joint() {
            return Next::Propose(Change::leave());
        }
        // In the order of their numbers: who is not above the highest was taken away.
        let all = self.voters.iter().chain(&self.learners);
        if let Some((replica, node)) = all.filter(|it| now.node_of(it.0).is_none()).min() {
            let steps = vec![Step::Learner(*replica, *node)];
            return Next::Propose(Change { is_joint: false, steps });
        }
        let is_goal_voter = |replica: ReplicaId| self.voters.iter().any(|it| it.0 == replica);
        let is_goal_learner = |replica: ReplicaId| self.learners.iter().any(|it| it.0 == replica);
        let keeps_leader = is_goal_voter(own);
        let heir = now.voters.iter().copied().find(|it| is_goal_voter(*it) && caught_up(*it));
        if !keeps_leader && let Some(heir) = heir {
            return Next::HandOver(heir);
        }
        let comes = |it: &&(ReplicaId, NodeId)| !now.voters.contains(&it.0);
        if !self.voters.iter().filter(comes).all(|(replica, _)| caught_up(*replica)) {
            return Next::Wait;
        }
        let mut steps: Vec<Step> = Vec::new();
        steps.extend(self.voters.iter().filter(comes).map(|it| Step::Voter(it.0, it.1)));
        for voter in now.voters.iter().copied().filter(|it| !is_goal_voter(*it) && *it != own) {
            steps.push(match now.node_of(voter) {
                Some(node) if is_goal_learner(voter) => Step::Learner(voter, node),
                _ => Step::Remove(voter),
            });
        }
        let leaves = |it: &ReplicaId| !is_goal_voter(*it) && !is_goal_learner(*it);
        steps.extend(now.learners.iter().copied().filter(leaves).map(Step::Remove));
        match steps.is_empty() {
            false => Next::Propose(Change { is_joint: true, steps }),
            true if keeps_leader => Next::Done,
            true => Next::Wait,
        }
    }
}
