//! When a member may rest, and what it must know when it wakes.

use raft::{ProgressState, StateRole};
use types::ReplicaId;

use super::Member;
use crate::group::rests::{Rest, RestingPeer, RestingRole};

impl Member {
    /// Looked at once in every tick: a member of whom nothing was wanted for some ticks rests from this one on.
    pub(crate) fn begin_rest(&mut self, tick: u64) -> Option<Rest> {
        let last = (self.raw.raft.raft_log.last_index(), self.next_batch);
        let is_calm = std::mem::replace(&mut self.last_seen, last) == last && self.is_calm();
        self.calm_ticks = if is_calm { self.calm_ticks + 1 } else { 0 };
        if self.calm_ticks < self.settings.rest_ticks {
            return None;
        }
        let raft = &self.raw.raft;
        let role = match raft.state {
            StateRole::Leader => RestingRole::Leader(self.resting_peers()?),
            _ => RestingRole::Follower(ReplicaId(raft.leader_id), self.leader()?),
        };
        Some(Rest {
            replica: self.replica,
            term: raft.term,
            commit: raft.raft_log.committed,
            role,
            since: tick - 1,
            counted_from: (tick - 1).checked_sub(raft.election_elapsed as u64)?,
        })
    }

    /// Something is wanted of it though nothing happens yet: whether the others are there is known only of one that does not rest.
    pub(crate) fn stay_awake(&mut self) {
        self.calm_ticks = 0;
    }

    /// Everything is on disk, committed and applied, and nobody waits for anything.
    fn is_calm(&self) -> bool {
        let raft = &self.raw.raft;
        let log = &raft.raft_log;
        let heard_of = self.ticks - self.heard_at;
        let is_led = match raft.state {
            StateRole::Leader => {
                self.is_ready_to_lead()
                    && raft.lead_transferee.is_none()
                    && raft.read_only.read_index_queue.is_empty()
            }
            StateRole::Follower => {
                raft.leader_id != 0 && heard_of <= 2 * self.settings.heartbeat_ticks as u64
            }
            StateRole::Candidate | StateRole::PreCandidate => false,
        };
        is_led
            && self.frozen.is_none()
            && self.unpersisted.is_empty()
            && (log.last_index(), log.committed) == (self.applied, self.applied)
            && self.handed_over == self.applied
            && self.proposed.is_empty()
            && self.held.is_empty()
            && self.reads.is_empty()
            && self.unasked_reads.is_empty()
            && !self.lease.is_used()
            && self.pending.is_empty()
            && self.staged.is_none()
            && self.installing.is_none()
            && !self.state().configuration.is_joint()
            && raft.pending_request_snapshot == 0
            && raft.msgs.is_empty()
            && (self.state().term, self.state().vote) == (raft.term, raft.vote)
            && !self.raw.has_ready()
    }

    /// The others, if every one of them has everything and answers.
    fn resting_peers(&self) -> Option<Box<[RestingPeer]>> {
        let raft = &self.raw.raft;
        let (last, committed) = (raft.raft_log.last_index(), raft.raft_log.committed);
        let others = raft.prs().iter().filter(|(id, _)| **id != self.replica.0);
        let mut peers: Vec<RestingPeer> = others
            .map(|(id, progress)| {
                let has_all = progress.matched == last
                    && progress.committed_index == committed
                    // One that was lost for a moment and has everything is probed until something is written.
                    && progress.state != ProgressState::Snapshot
                    && !progress.is_paused()
                    && progress.recent_active
                    && progress.pending_request_snapshot == 0;
                let replica = ReplicaId(*id);
                let node = self.node_of(replica).filter(|_| has_all)?;
                Some(RestingPeer { replica, node, has_answered: true })
            })
            .collect::<Option<_>>()?;
        // The library has no order of its own.
        peers.sort_unstable_by_key(|peer| peer.replica);
        Some(peers.into())
    }

    /// It goes on with what it would have counted itself, up to a tick.
    pub(crate) fn wake(&mut self, rest: &Rest, tick: u64) {
        let elapsed = tick - rest.counted_from;
        self.ticks += tick - rest.since;
        self.calm_ticks = 0;
        self.heard_at = match &rest.role {
            RestingRole::Follower(..) => self.ticks.saturating_sub(elapsed),
            RestingRole::Leader(peers) => {
                for peer in peers {
                    if let Some(progress) = self.raw.raft.mut_prs().get_mut(peer.replica.0) {
                        progress.recent_active = peer.has_answered;
                    }
                }
                self.ticks
            }
        };
        self.raw.raft.election_elapsed = usize::try_from(elapsed).unwrap_or(usize::MAX);
    }
}
