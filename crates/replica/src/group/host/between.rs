//! Requests that come between two leaders: their member was elected and does not know yet what was decided before, or it let another one
//! lead and has not heard of that one. Either is over after a few messages; whoever is sent away asks again after a pause only.
//!
//! Nothing was done of what waits here: it is proposed when its member leads, or whoever asked is told who does.

use std::collections::BTreeMap;

use bytes::Bytes;
use storage::Request;
use types::SetId;

use super::{Host, ProposalAnswer};

type WriteAnswer = Box<dyn FnOnce(ProposalAnswer) + Send>;

/// What waits for one set.
struct Waiting {
    since_tick: u64,
    requests: Vec<((Request, Bytes), WriteAnswer)>,
}

/// What waits, by set.
#[derive(Default)]
pub(super) struct Between(BTreeMap<SetId, Waiting>);

impl Host {
    /// A request for a set that this node's member does not lead, or not yet.
    pub(super) fn wait_or_refuse(
        &mut self,
        set: SetId,
        request: (Request, Bytes),
        done: WriteAnswer,
    ) {
        if self.is_between_leaders(set) {
            let new = Waiting { since_tick: self.ticks, requests: Vec::new() };
            let waiting = self.between.0.entry(set).or_insert(new);
            if waiting.requests.len() < self.options.settings.held_max {
                return waiting.requests.push((request, done));
            }
        }
        done(self.refusal(set));
    }

    fn is_between_leaders(&self, set: SetId) -> bool {
        self.core.ask(set, |member| Some(member.is_between_leaders())).unwrap_or(false)
    }

    /// Why this node's member does not take a request.
    fn refusal(&self, set: SetId) -> ProposalAnswer {
        // One that is frozen leads nobody, whatever it was before.
        match self.core.ask(set, |member| Some(member.is_leader())) {
            Some(true) => ProposalAnswer::Busy,
            Some(false) | None => ProposalAnswer::NotLeader(self.core.leader(set)),
        }
    }

    /// What waited is proposed if its member leads by now, and refused if another one does, or if it takes too long.
    pub(super) fn settle_between(&mut self) {
        if self.between.0.is_empty() {
            return;
        }
        let ticks = self.options.settings.read_retry_ticks;
        let is_over = |set: SetId, waiting: &Waiting| {
            !self.is_between_leaders(set) || self.ticks >= waiting.since_tick + ticks
        };
        let waiting = self.between.0.iter();
        let over = waiting.filter(|(set, waiting)| is_over(**set, waiting)).map(|(set, _)| *set);
        for set in over.collect::<Vec<_>>() {
            let requests = self.between.0.remove(&set).map(|it| it.requests).unwrap_or_default();
            let leads = self.core.leads(set);
            for (request, done) in requests {
                match leads {
                    true => self.write(set, request, done),
                    false => done(self.refusal(set)),
                }
            }
        }
    }
}
