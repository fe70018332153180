//! A member that applied something else than others did, and what an operator said about it.
//!
//! *Frozen* it takes part in nothing. *Overruled* it does, but for its rows: an operator said that another member's count. Its log is as
//! good as any, and those who are left may need it, and its vote, to decide anything; so it keeps both. It answers nobody, hands no
//! rows to anybody, and leads only until another one has all of its log.

use std::collections::BTreeSet;

use storage::{Doubt, GroupState};
use types::{NodeId, ReplicaId};

use super::Member;

impl Member {
    /// The member whose rows count instead of its own, as an operator said.
    fn overruled_by(&self) -> Option<ReplicaId> {
        self.state().doubt.and_then(|doubt| doubt.kept)
    }

    /// Whether its rows count for nothing, though it takes part.
    pub(crate) fn is_overruled(&self) -> bool {
        self.overruled_by().is_some()
    }

    /// Whether it has no rows to answer with: they are on their way, or count for nothing.
    pub(super) fn lacks_rows(&self) -> bool {
        self.installing.is_some() || self.is_overruled()
    }

    /// Whether its rows count, or why not; the state is to be kept.
    pub(crate) fn set_doubt(&mut self, doubt: Option<Doubt>) -> GroupState {
        let state = &mut self.raw.mut_store().state;
        state.doubt = doubt;
        state.clone()
    }

    /// The same for people.
    pub(super) fn overruled_text(&self) -> Option<String> {
        let (doubt, kept) = (self.state().doubt?, self.overruled_by()?);
        let whose = match self.node_of(kept) {
            Some(node) => format!("node {}", node.0),
            None => format!("member {}", kept.0),
        };
        let index = doubt.index;
        Some(format!("skipped at entry {index}: the rows of {whose} count, and it is replaced"))
    }

    /// Of a leader whose rows count for nothing: the member that is to lead, if it has all of the log by now. New members have the highest
    /// numbers; who is overruled like this one does not listen.
    pub(crate) fn rightful_leader(&self, alive: &BTreeSet<NodeId>) -> Option<ReplicaId> {
        let kept = self.overruled_by().filter(|_| self.is_leader())?;
        let (raft, configuration) = (&self.raw.raft, &self.state().configuration);
        let last = raft.raft_log.last_index();
        let may_lead = |replica: &ReplicaId| {
            let has_all = raft.prs().get(replica.0).is_some_and(|it| it.matched == last);
            let node = configuration.node_of(*replica);
            *replica != self.replica && has_all && node.is_some_and(|node| alive.contains(&node))
        };
        let voters = configuration.voters.iter().copied().filter(may_lead);
        voters.max_by_key(|replica| (*replica == kept, *replica))
    }

    /// Of a leader: whether another member takes part in what is decided, as far as its answers in this term tell.
    pub(crate) fn has_answered(&self, replica: ReplicaId) -> bool {
        let progress = self.raw.raft.prs().get(replica.0);
        replica == self.replica || progress.is_some_and(|progress| progress.matched > 0)
    }
}
