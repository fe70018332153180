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
}
