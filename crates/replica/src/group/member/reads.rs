//! Reads of what is committed by now: asked for together, of a quorum or under a lease, and answered when it is applied.

use super::*;

/// Reads that were asked for together.
#[derive(Debug)]
pub(super) struct ReadBatch {
    pub(super) number: u64,
    pub(super) tickets: Vec<Ticket>,
    pub(super) asked_at: u64,
    pub(super) asked_of: AskedOf,
    /// When a quorum was asked by this member itself, and of which configuration; none where a lease was enough, or another one asks.
    pub(super) asked_quorum: Option<(u64, u64)>,
    /// What must be applied first, once a quorum confirmed the leader.
    pub(super) index: Option<u64>,
}

impl Member {
    /// Somebody wants to read what is committed by now.
    pub(crate) fn read(&mut self, ticket: Ticket, wishes: &mut Wishes) {
        if self.is_overruled() {
            return wishes.answers.push((ticket, Answer::NotLeader(None)));
        }
        let waiting: usize = self.reads.iter().map(|batch| batch.tickets.len()).sum();
        if waiting + self.unasked_reads.len() >= self.settings.reads_max {
            wishes.answers.push((ticket, Answer::Busy));
            return;
        }
        self.unasked_reads.push(ticket);
    }

    pub(super) fn answer_reads(&mut self, wishes: &mut Wishes) {
        if self.installing.is_some() {
            return;
        }
        let (applied, leads) = (self.applied, self.is_leader());
        let mut confirmed = Vec::new();
        self.reads.retain_mut(|batch| {
            let is_known = batch.index.is_some_and(|index| index <= applied);
            if is_known && batch.asked_quorum.is_some() {
                confirmed.push(ReadBatch { tickets: Vec::new(), ..*batch });
            }
            let may_read = batch.index.is_some_and(|index| index <= applied)
                || breaks(Rule::ReadWithoutAsking)
                || breaks(Rule::ReadAsLeaderWithoutAsking) && leads
                || breaks(Rule::ReadBeforeApplied) && batch.index.is_some();
            if may_read {
                let tickets = batch.tickets.drain(..);
                wishes.answers.extend(tickets.map(|ticket| (ticket, Answer::MayRead)));
            }
            !may_read
        });
        confirmed.iter().for_each(|batch| self.extend_lease(batch));
    }

    /// One question for all reads that came since the last.
    pub(super) fn ask_reads(&mut self) {
        let renews = std::mem::take(&mut self.renews_lease);
        if self.unasked_reads.is_empty() && !renews {
            return;
        }
        let asks_quorum = self.is_leader() && (renews || !self.has_lease());
        let asked_quorum = asks_quorum.then(|| (self.now_ms, self.state().configuration.index));
        self.next_batch += 1;
        self.unconfirmed_since.get_or_insert(self.ticks);
        let number = self.next_batch;
        let tickets = std::mem::take(&mut self.unasked_reads);
        let (asked_at, asked_of) = (self.ticks, self.asked_of());
        self.reads.push_back(ReadBatch {
            number,
            tickets,
            asked_at,
            asked_of,
            asked_quorum,
            index: None,
        });
        let mut context = self.replica.0.to_be_bytes().to_vec();
        context.extend_from_slice(&number.to_be_bytes());
        match asks_quorum {
            true => self.raw.read_index(context),
            false => self.under_lease(|member| member.raw.read_index(context)),
        }
    }
}
