//! What a lease rests on.
//!
//! A follower that heard its leader lets nobody else be elected for `election_ticks` of its own (the library's check of a quorum:
//! votes are not even looked at). The library forgets that as soon as it hears of a later term, from whomever; whoever answered
//! a question for reads does not ([`Member::note_promise`]). Ticks are never closer than [`TICK_MS`], the first of them may come at once, and clocks may differ
//! by a tenth. So when a quorum answered a question for reads, nobody else leads before `lease_ms` passed since it was *asked*.
//!
//! A follower keeps that promise also when it is started again: it votes for nobody as long as one from before may last. And a leader
//! has no lease any more as soon as it lets another one lead (votes for that one are given at once), for the rest of its term. After
//! the members changed it has none either until a quorum of those who decide now answered: they have promised the same when they
//! took the change, so that is for the peace of mind.

use raft::eraftpb::{Message, MessageType};
use raft::{CAMPAIGN_TRANSFER, ReadOnlyOption};
use storage::broken::{Rule, breaks};

use super::Member;
use super::reads::ReadBatch;
use crate::group::driver::TICK_MS;

/// Nine tenths of the time for which a follower lets nobody else lead: 405 ms by the default settings.
fn lease_ms(election_ticks: usize) -> u64 {
    let promised_ms = (election_ticks as u64).saturating_sub(1) * TICK_MS;
    match breaks(Rule::LeaseTooLong) {
        true => promised_ms * 20,
        false => promised_ms * 9 / 10,
    }
}

/// What a member knows of its lease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeaseTerms {
    /// It ends then.
    until_ms: u64,
    /// It was given in this term, by the configuration of this entry.
    term: u64,
    configuration: u64,
    /// In this term another one was asked to lead.
    handed_over_term: u64,
}

impl LeaseTerms {
    /// Whether another member was asked to lead, in a term or in the one before it.
    pub(super) fn let_another_lead(&self, term: u64) -> bool {
        let asked = self.handed_over_term;
        asked != 0 && (asked == term || asked + 1 == term)
    }
}

impl Member {
    /// It was started again: what it promised before is kept.
    pub(crate) fn keep_promises(&mut self) {
        if !breaks(Rule::VoteAfterRestart) {
            self.votes_from = self.ticks + self.settings.election_ticks as u64;
        }
    }

    /// Who asks a member for an answer that a lease may rest on, and in which term.
    pub(super) fn asks_for_reads(message: &Message) -> Option<(u64, u64)> {
        let is_question =
            message.get_msg_type() == MessageType::MsgHeartbeat && !message.context.is_empty();
        is_question.then_some((message.from, message.term))
    }

    /// It answered its leader: whatever it hears of other terms, nobody else gets its vote as long as a lease may last that rests on it.
    pub(super) fn note_promise(&mut self, asked: Option<(u64, u64)>) {
        let raft = &self.raw.raft;
        if asked == Some((raft.leader_id, raft.term)) && !breaks(Rule::VoteInLaterTerm) {
            let promised = self.ticks + self.settings.election_ticks as u64;
            self.votes_from = self.votes_from.max(promised);
        }
    }

    /// Whether a message asks for a vote that may break a promise.
    pub(super) fn is_early_vote(&self, message: &Message) -> bool {
        let kind = message.get_msg_type();
        let is_vote = matches!(kind, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote);
        is_vote && self.ticks < self.votes_from && message.context.as_ref() != CAMPAIGN_TRANSFER
    }

    /// Whether it promised not to let another one lead, itself included.
    pub(super) fn is_promised(&self) -> bool {
        let raft = &self.raw.raft;
        let is_led = raft.leader_id != 0 && raft.election_elapsed < self.settings.election_ticks;
        is_led || self.ticks < self.votes_from
    }

    fn lease_until_ms(&self) -> u64 {
        let (raft, lease) = (&self.raw.raft, &self.lease_terms);
        let is_good = self.is_ready_to_lead()
            && lease.term == raft.term
            && lease.configuration == self.state().configuration.index
            && (lease.handed_over_term != raft.term && raft.lead_transferee.is_none()
                || breaks(Rule::LeaseThroughHandOver))
            && self.installing.is_none();
        if is_good { lease.until_ms } else { 0 }
    }

    pub(super) fn has_lease(&self) -> bool {
        self.now_ms < self.lease_until_ms()
    }

    /// After everything else of a turn, before anything of it is sent. Whoever reads by what is shown waits for nothing: others may not
    /// know of anything that is not applied here. What was handed over is applied before it is sent that it is committed; but what a
    /// quorum of others has may be committed before it is on this node's own disk, and is not handed over until it is. Then the lease is
    /// hidden at once, and shown again by [`Member::show_lease`]: what is handed over then was told before, and is not applied yet.
    pub(super) fn hide_lease(&mut self) {
        if self.lease_terms.until_ms == 0 {
            return;
        }
        let until_ms = self.lease_until_ms();
        if until_ms == 0 {
            self.lease_terms.until_ms = 0;
        }
        let committed = self.raw.raft.raft_log.committed;
        let has_all = self.handed_over >= committed || breaks(Rule::ReadUnapplied);
        if !has_all || self.lease.is_shown() {
            self.lease.set(if has_all { until_ms } else { 0 });
        }
    }

    /// Whether it has a lease that nobody sees.
    pub(crate) fn hides_lease(&self) -> bool {
        self.lease_terms.until_ms != 0 && !self.lease.is_shown()
    }

    /// When a node has done all that its members want, and before anything of it is sent: a lease that was hidden is shown if everything
    /// is applied, and the ranges of sets that were split are known to those who read.
    pub(crate) fn show_lease(&mut self) {
        let has_all = self.applied >= self.raw.raft.raft_log.committed;
        if self.hides_lease() && (has_all || breaks(Rule::ReadUnapplied)) {
            self.lease.set(self.lease_until_ms());
        }
    }

    /// In every tick: a lease that is used is renewed before it ends.
    pub(super) fn renew_lease(&mut self) {
        let lease_ms = lease_ms(self.settings.election_ticks);
        if self.lease.take_use()
            && self.is_ready_to_lead()
            && self.lease_terms.until_ms < self.now_ms + lease_ms * 3 / 4
        {
            self.renews_lease = true;
        }
    }

    /// Has the library answer reads that come with `ask` by the lease, if there is one. It does not look at answers of a quorum that
    /// others wait for as long as it is told to answer by leases, so it is told for no longer than that.
    pub(super) fn under_lease(&mut self, ask: impl FnOnce(&mut Member)) {
        let has_lease = self.has_lease();
        if has_lease {
            self.lease.note_use();
            self.raw.raft.read_only.option = ReadOnlyOption::LeaseBased;
        }
        ask(self);
        self.raw.raft.read_only.option = ReadOnlyOption::Safe;
    }

    /// A quorum answered reads that were asked for, and what they wait for is applied.
    pub(super) fn extend_lease(&mut self, batch: &ReadBatch) {
        let Some((asked_ms, configuration)) = batch.asked_quorum else { return };
        let term = self.raw.raft.term;
        if self.is_leader()
            && batch.asked_of == self.asked_of()
            && configuration == self.state().configuration.index
        {
            let until_ms = asked_ms + lease_ms(self.settings.election_ticks);
            let terms = &mut self.lease_terms;
            let before_ms = if terms.term == term { terms.until_ms } else { 0 };
            (terms.until_ms, terms.term) = (until_ms.max(before_ms), term);
            terms.configuration = configuration;
        }
    }

    /// Messages that go out: one that lets another member lead ends the lease for this term.
    pub(super) fn note_hand_over<'m>(&mut self, messages: impl IntoIterator<Item = &'m Message>) {
        let lets_lead = |it: &Message| it.get_msg_type() == MessageType::MsgTimeoutNow;
        if messages.into_iter().any(lets_lead) {
            self.lease_terms.handed_over_term = self.raw.raft.term;
        }
    }
}
