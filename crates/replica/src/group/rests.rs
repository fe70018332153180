//! Members that have nothing to do rest: nothing of the library is touched for them, however many they are.
//!
//! A member rests when its set is quiet: its leader is known, everything is on disk, committed, applied, and every member has it.
//! Then a heartbeat says nothing but that the leader is there, and ticks do nothing but count. Both are done here, in a table: a leader's *beats* for
//! one node travel together, each with its set, its term and its commit, and so do the answers. What a beat says is what a heartbeat
//! says: a member that does not rest, or of which it says anything new, is handed the heartbeat. Whatever else happens to a member
//! wakes it first, with the ticks and answers that it would have counted itself. So no rule of consensus changes by it.

use std::collections::BTreeMap;

use raft::eraftpb::{Message, MessageType};
use storage::broken::{Rule, breaks};
use types::{NodeId, ReplicaId, SetId};

use super::wire::PeerMessage;

/// That the leader of a set is there, or the answer to that: a heartbeat of a set in which nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Whose members they are.
    pub set: SetId,
    /// For whom it is.
    pub to: ReplicaId,
    /// From whom it is.
    pub from: ReplicaId,
    /// The term of who says it.
    pub term: u64,
    /// What it knows to be committed, and the other has.
    pub commit: u64,
}

impl Beat {
    /// The same as a message of consensus.
    pub(crate) fn message(&self, is_answer: bool) -> PeerMessage {
        let (to, from) = (self.to.0, self.from.0);
        let mut message =
            Message { to, from, term: self.term, commit: self.commit, ..Message::default() };
        message.set_msg_type(match is_answer {
            false => MessageType::MsgHeartbeat,
            true => MessageType::MsgHeartbeatResponse,
        });
        PeerMessage { set: self.set, message }
    }

    fn answer(&self) -> Beat {
        Beat { to: self.from, from: self.to, ..*self }
    }
}

/// A member of another node that a resting leader speaks to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestingPeer {
    pub(crate) replica: ReplicaId,
    pub(crate) node: NodeId,
    /// It answered since it was last looked who did.
    pub(crate) has_answered: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum RestingRole {
    /// With who leads.
    Follower(ReplicaId, NodeId),
    /// With all the others.
    Leader(Box<[RestingPeer]>),
}

/// A member that rests.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) replica: ReplicaId,
    pub(crate) term: u64,
    pub(crate) commit: u64,
    pub(crate) role: RestingRole,
    /// The tick before the first one that it rested through.
    pub(crate) since: u64,
    /// The tick at which its leader was heard of, or, of a leader, at which it was looked who answers.
    pub(crate) counted_from: u64,
}

/// The members of a node that rest.
#[derive(Debug, Default)]
pub(crate) struct Rests(BTreeMap<SetId, Rest>);

/// Beats for one node each.
pub(crate) type Beats = Vec<(NodeId, Vec<Beat>)>;

fn push(beats: &mut Beats, node: NodeId, beat: Beat) {
    match beats.iter_mut().find(|(known, _)| *known == node) {
        Some((_, of_node)) => of_node.push(beat),
        None => beats.push((node, vec![beat])),
    }
}

impl Rests {
    pub(crate) fn begin(&mut self, set: SetId, rest: Rest) {
        self.0.insert(set, rest);
    }

    pub(crate) fn end(&mut self, set: SetId) -> Option<Rest> {
        if self.0.is_empty() { None } else { self.0.remove(&set) }
    }

    /// Members that must look by themselves in this tick: their leader is silent, or somebody does not answer.
    pub(crate) fn due(&mut self, tick: u64, election_ticks: u64) -> Vec<SetId> {
        let mut due = Vec::new();
        for (set, rest) in &mut self.0 {
            if tick - rest.counted_from < election_ticks {
                continue;
            }
            match &mut rest.role {
                RestingRole::Follower(..) => due.push(*set),
                RestingRole::Leader(peers) => {
                    if peers.iter().all(|peer| peer.has_answered) {
                        peers.iter_mut().for_each(|peer| peer.has_answered = false);
                        rest.counted_from = tick;
                    } else {
                        due.push(*set);
                    }
                }
            }
        }
        due
    }

    /// What the leaders among them say.
    pub(crate) fn beat(&self, beats: &mut Beats) {
        for (set, rest) in &self.0 {
            let RestingRole::Leader(peers) = &rest.role else { continue };
            for peer in peers {
                let Rest { replica: from, term, commit, .. } = *rest;
                let beat = Beat { set: *set, to: peer.replica, from, term, commit };
                push(beats, peer.node, beat);
            }
        }
    }

    /// A leader is there. Its answer, or `false` if the member must look at it itself.
    pub(crate) fn hear(&mut self, node: NodeId, beat: &Beat, tick: u64, heard: &mut Beats) -> bool {
        let Some(rest) = self.0.get_mut(&beat.set) else { return false };
        let RestingRole::Follower(leader, of_node) = rest.role else { return false };
        let is_expected = (rest.replica, leader, of_node) == (beat.to, beat.from, node)
            && (rest.term, rest.commit) == (beat.term, beat.commit);
        if !is_expected && !breaks(Rule::RestOnAnyBeat) {
            return false;
        }
        rest.counted_from = tick;
        push(heard, node, beat.answer());
        true
    }

    /// A member answered its leader; `false` if that must look at it itself.
    pub(crate) fn hear_answer(&mut self, node: NodeId, beat: &Beat) -> bool {
        let Some(rest) = self.0.get_mut(&beat.set) else { return false };
        let RestingRole::Leader(peers) = &mut rest.role else { return false };
        if (rest.replica, rest.term, rest.commit) != (beat.to, beat.term, beat.commit) {
            return false;
        }
        let peer = peers.iter_mut().find(|it| (it.replica, it.node) == (beat.from, node));
        peer.map(|peer| peer.has_answered = true).is_some()
    }

    /// Ticks since the leader was heard of.
    pub(crate) fn silent_ticks(&self, set: SetId, tick: u64) -> Option<u64> {
        self.0.get(&set).map(|rest| match rest.role {
            RestingRole::Follower(..) => tick - rest.counted_from,
            RestingRole::Leader(_) => 0,
        })
    }
}
