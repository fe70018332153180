//! How a member is, for people.

use super::*;

/// A member whose leader confirmed no read for so many ticks does not reach it.
const CUT_OFF_TICKS: u64 = 20;

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
            learners: configuration
                .learners
                .iter()
                .filter_map(|it| configuration.node_of(*it))
                .collect(),
            is_changing: configuration.is_joint(),
            is_joint: configuration.is_joint(),
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
            has_heard: self.has_heard,
            is_cut_off: self.unconfirmed_since.is_some_and(|it| self.ticks >= it + CUT_OFF_TICKS),
            is_whole: !configuration.voters.is_empty()
                && self.frozen.is_none()
                && !self.lacks_rows(),
            frozen: self.frozen.clone().or_else(|| self.overruled_text()),
        }
    }
}
