//! How a member is, for people.

use super::*;

impl Member {
    pub(crate) fn status(&self) -> MemberStatus {
        let raft = &self.raw.raft;
        let role = match raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Follower => Role::Follower,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        };
        let configuration = &self.state().configuration;
        let matched = match role {
            Role::Leader => {
                let progress = raft.prs().iter();
                let of_node = |(id, progress): (&u64, &raft::Progress)| {
                    Some((configuration.node_of(ReplicaId(*id))?, progress.matched))
                };
                progress.filter_map(of_node).collect()
            }
            Role::Follower | Role::Candidate => Vec::new(),
        };
        let voters = configuration.voters.iter();
        MemberStatus {
            voters: voters.filter_map(|voter| configuration.node_of(*voter)).collect(),
            set: self.set,
            replica: self.replica,
            role,
            term: raft.term,
            leader: self.leader(),
            commit: raft.raft_log.committed,
            applied: self.applied,
            last: raft.raft_log.last_index(),
            matched,
            silent_ticks: self.silent_ticks(),
            frozen: self.frozen.clone(),
        }
    }
}
