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
        // The library would take one that decides no more when the joint configuration is left.
        let decides = self.state().configuration.voters.contains(&replica);
        if self.is_leader() && decides && self.raw.raft.lead_transferee.is_none() {
            self.raw.transfer_leader(replica.0);
            self.set_timeout(false);
        }
    }

    /// Of a leader whose disk takes nothing: a voter that has everything on its own. Where nobody has more than this member, nothing is
    /// gained by another one.
    pub(crate) fn better_leader(&self, alive: &BTreeSet<NodeId>) -> Option<ReplicaId> {
        let (raft, configuration) = (&self.raw.raft, &self.state().configuration);
        let last = raft.raft_log.last_index();
        let lacks_nothing = raft.raft_log.persisted >= last && self.installing.is_none();
        if !self.is_leader() || lacks_nothing {
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
        // Who does not decide, or knows nobody yet, would be elected by nobody. And who heard a leader lets nobody else lead for a while.
        let may = !self.is_promised() && !self.is_overruled() && self.may_ask_for_votes();
        if !self.raw.raft.promotable() || !may {
            return;
        }
        self.is_eager = true;
        let _ = self.raw.campaign();
        self.set_timeout(true);
    }

    /// Whether the library may ask for votes: before it does it looks at what is committed and not applied, and panics where that is not in
    /// memory. It went behind an image that the log does not say for sure yet, or waits in the log for one to be in the trees. A lone voter
    /// would be elected at once, before its vote is on disk, and the library panics where the end of its log is not.
    pub(super) fn may_ask_for_votes(&self) -> bool {
        let configuration = &self.state().configuration;
        let is_lone = configuration.voters.len() == 1 && !configuration.is_joint();
        if is_lone && !self.unpersisted.is_empty() {
            return false;
        }
        let log = &self.raw.raft.raft_log;
        let first = log.applied + 1;
        first > log.committed || self.log().has_bodies_from(first)
    }

    /// Whether a message asks for a vote that this member must refuse, because it has more, though nobody leads as far as it knows. With
    /// four members of which one is dead all others must agree, so only one that has everything is elected: it does not wait for its
    /// turn.
    pub(super) fn outdoes(&self, message: &Message) -> bool {
        let raft = &self.raw.raft;
        let own = (raft.raft_log.last_term(), raft.raft_log.last_index());
        message.get_msg_type() == MessageType::MsgRequestPreVote
            && raft.state == StateRole::Follower
            && (message.log_term, message.index) < own
            && raft.promotable()
            && !self.is_promised()
            && self.may_ask_for_votes()
            // There may be several of them: they would ask at once, again and again.
            && !self.is_overruled()
    }

    /// Whether a proposal would be taken now: it leads, knows what was decided before, and is not handing over.
    pub(super) fn may_propose(&self) -> bool {
        self.is_ready_to_lead() && self.raw.raft.lead_transferee.is_none()
    }

    /// Whether it leads soon, or hears soon who does: it was elected and has not applied all that was decided before, or it let another one
    /// lead, of whom it has not heard yet.
    pub(crate) fn is_between_leaders(&self) -> bool {
        let raft = &self.raw.raft;
        self.is_leader() && !self.is_ready_to_lead()
            || raft.leader_id == 0 && self.lease_terms.let_another_lead(raft.term)
    }

    /// Takes a proposal, or says why not. Seconds never fall within a set.
    pub(crate) fn propose(&mut self, mut proposal: Proposal, wishes: &mut Wishes) {
        // What a leader before decided must be known first: ids, definitions, seconds. One that hands over takes nothing any more.
        // And what was held before it comes first: elements of lists have their ids already.
        if !self.may_propose() || !self.held.is_empty() {
            return self.hold(proposal, wishes);
        }
        if !breaks(Rule::LetSecondsFall) {
            proposal.now_s = proposal.now_s.max(self.last_now_s);
        }
        self.last_now_s = proposal.now_s;
        self.gathered.push(proposal);
    }

    /// A proposal waits until it may be made; where another one leads it goes there.
    fn hold(&mut self, proposal: Proposal, wishes: &mut Wishes) {
        let answer = match self.is_leader() {
            false => Answer::NotLeader(self.leader()),
            true if self.held.len() < self.settings.held_max => {
                return self.held.push_back(proposal);
            }
            true => Answer::Busy,
        };
        wishes.answers.extend(proposal.ticket.map(|ticket| (ticket, answer)));
    }

    /// The proposals of a turn go into the log. All at once: consensus looks at each of its members for each call.
    pub(super) fn propose_gathered(&mut self, wishes: &mut Wishes) {
        let gathered = std::mem::take(&mut self.gathered);
        if !self.may_propose() {
            // Something of this turn changed who leads.
            gathered.into_iter().for_each(|proposal| self.hold(proposal, wishes));
            return;
        }
        if gathered.is_empty() || self.put_into_log(&gathered) {
            return;
        }
        // Too much for one: perhaps some of it fits. Not what relies on a definition that does not.
        let mut is_undefined = false;
        for proposal in gathered {
            if is_undefined || !self.put_into_log(std::slice::from_ref(&proposal)) {
                is_undefined |= !proposal.before.is_empty();
                wishes.answers.extend(proposal.ticket.map(|ticket| (ticket, Answer::Busy)));
            }
        }
    }

    /// `false` if too much is not committed yet: nothing was done then.
    fn put_into_log(&mut self, proposals: &[Proposal]) -> bool {
        let mut message = Message { from: self.replica.0, ..Message::default() };
        message.set_msg_type(MessageType::MsgPropose);
        let mut index = self.raw.raft.raft_log.last_index();
        let mut proposed = Vec::with_capacity(proposals.len());
        for proposal in proposals {
            let own = (proposal.kind, proposal.body.clone());
            for (kind, data) in proposal.before.iter().cloned().chain([own]) {
                let context = self.log().context(kind, proposal.now_s);
                message.mut_entries().push(Entry { context, data, ..Entry::default() });
                index += 1;
            }
            let place = EntryPlace { index, term: self.raw.raft.term };
            proposed.extend(proposal.ticket.map(|ticket| Proposed { place, ticket }));
        }
        let is_done = self.raw.step(message).is_ok();
        if is_done {
            assert_eq!(self.raw.raft.raft_log.last_index(), index, "all of it is in the log");
            self.proposed.extend(proposed);
        }
        is_done
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
