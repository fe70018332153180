//! A member is asked to lead, or to let another one lead.

use super::*;

impl Member {
    /// Asks a member of another node to take over.
    pub(crate) fn hand_leadership_to(&mut self, node: NodeId) {
        if let Some(replica) = self.state().configuration.replica_on(node) {
            self.hand_leadership_to_member(replica);
        }
    }

    pub(crate) fn hand_leadership_to_member(&mut self, replica: ReplicaId) {
        if self.is_leader() && self.raw.raft.lead_transferee.is_none() {
            self.raw.transfer_leader(replica.0);
            self.set_timeout(false);
        }
    }

    /// Of a leader whose disk takes nothing: a voter that has everything on its own. Where nobody has more than this member, nothing is
    /// gained by another one.
    pub(crate) fn better_leader(&self, alive: &BTreeSet<NodeId>) -> Option<ReplicaId> {
        let (raft, configuration) = (&self.raw.raft, &self.state().configuration);
        let last = raft.raft_log.last_index();
        if !self.is_leader() || raft.raft_log.persisted >= last {
            return None;
        }
        let is_better = |replica: &&ReplicaId| {
            let has_all = raft.prs().get(replica.0).is_some_and(|it| it.matched == last);
            let node = configuration.node_of(**replica);
            **replica != self.replica && has_all && node.is_some_and(|node| alive.contains(&node))
        };
        configuration.voters.iter().find(is_better).copied()
    }

    /// Asks for votes now, and again as long as nobody leads.
    pub(crate) fn campaign(&mut self) {
        // Who does not decide, or knows nobody yet, would be elected by nobody.
        if !self.raw.raft.promotable() {
            return;
        }
        self.is_eager = true;
        let _ = self.raw.campaign();
        self.set_timeout(true);
    }

    /// Whether a proposal would be taken now: it leads, knows what was decided before, and is not handing over.
    pub(super) fn may_propose(&self) -> bool {
        self.is_ready_to_lead() && self.raw.raft.lead_transferee.is_none()
    }

    /// What was held until it is known who leads is proposed here, or goes to whoever does. When leadership is handed over nobody leads for a
    /// moment: who is told so asks again after a pause only, so it is told a little later who does.
    pub(super) fn settle_held(&mut self, wishes: &mut Wishes) {
        if self.may_propose() {
            self.unled_since = None;
            for proposal in std::mem::take(&mut self.held) {
                self.propose(proposal, wishes);
            }
            return;
        }
        if self.is_leader() || self.held.is_empty() {
            self.unled_since = None;
            return;
        }
        let leader = self.leader();
        let since = *self.unled_since.get_or_insert(self.ticks);
        if leader.is_some() || self.ticks - since >= self.settings.read_retry_ticks {
            self.unled_since = None;
            let held = self.held.drain(..).filter_map(|proposal| proposal.ticket);
            wishes.answers.extend(held.map(|ticket| (ticket, Answer::NotLeader(leader))));
        }
    }

    /// Of whom reads are asked for now.
    pub(super) fn asked_of(&self) -> AskedOf {
        let raft = &self.raw.raft;
        AskedOf { term: raft.term, leader: raft.leader_id, decides: raft.commit_to_current_term() }
    }

    /// Reads that were asked of somebody who does not lead any more, or did not yet, are asked for again at once: nobody answers them.
    pub(super) fn ask_again(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        let now = self.asked_of();
        let mut again = Vec::new();
        self.reads.retain_mut(|batch| {
            let is_lost = batch.index.is_none() && batch.asked_of != now;
            if is_lost {
                again.append(&mut batch.tickets);
            }
            !is_lost
        });
        self.unasked_reads.append(&mut again);
    }
}

/// Who answers whether something may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskedOf {
    term: u64,
    leader: u64,
    /// Whether it has decided something in its term: before, it answers nobody.
    decides: bool,
}
