//! A coordinator's requests: sent to whoever leads their set, and proposed there.

use super::*;

impl Host {
    /// A coordinator's request. It is sent to whoever leads the set, again where that is safe, until its time is up.
    pub fn submit(&mut self, set: SetId, request: Request, deadline_ms: u64, done: WriteDone) {
        let (required, alive) = self.alive(set);
        if alive < required {
            let outcome = WriteOutcome::Unavailable { required, alive };
            if breaks(Rule::WriteThoughUnavailable) {
                self.requests.add(set, request, deadline_ms, Box::new(|_| ()));
            }
            return done(outcome);
        }
        let number = self.requests.add(set, request, deadline_ms, done);
        self.attempt(number);
    }

    pub(super) fn attempt(&mut self, number: u64) {
        let core = &self.core;
        let leader = |set| core.leader(set);
        // A node without a member of the set asks one after the other.
        let heard_ms = self.now.ms.saturating_sub(self.options.alive_ms);
        let peers = &self.peers;
        let guess = |set, place: u64| {
            let alive = || peers.iter().filter(|(_, peer)| peer.heard_ms > heard_ms);
            let count = if core.contains(set) { 0 } else { alive().count() };
            let place = usize::try_from(place.checked_rem(count as u64)?).ok()?;
            alive().nth(place).map(|(node, _)| *node)
        };
        match self.requests.attempt(number, self.node, leader, guess, self.now.ms) {
            Attempt::Waits => {}
            Attempt::Here { number, set, request, body } => {
                self.propose(set, (*request, body), self.node, number);
            }
            Attempt::There { node, number, set, body } => {
                self.outbox.push((node, NodeMessage::Request { number, set, body }));
            }
        }
    }

    pub(super) fn propose(
        &mut self,
        set: SetId,
        request: (Request, Bytes),
        from: NodeId,
        number: u64,
    ) {
        let answers = Arc::clone(&self.answers);
        let done = Box::new(move |answer| answers.lock().push((from, number, answer)));
        self.write(set, request, done);
    }

    /// Hands answers to those who asked.
    pub(super) fn send_answers(&mut self) {
        let answers = std::mem::take(&mut *self.answers.lock());
        for (from, number, answer) in answers {
            match from == self.node {
                true => self.take_answer(number, answer),
                false => self.outbox.push((from, NodeMessage::Answer { number, answer })),
            }
        }
    }

    pub(super) fn ticket(&mut self, asked: Asked) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.asked.insert(ticket, asked);
        ticket
    }

    /// A request for a set that this node's member leads, perhaps; with its bytes.
    pub(super) fn write(
        &mut self,
        set: SetId,
        request: (Request, Bytes),
        done: Box<dyn FnOnce(ProposalAnswer) + Send>,
    ) {
        let mut now_s = self.cluster_s();
        if !self.knows_time() {
            return done(ProposalAnswer::Busy);
        }
        if !self.core.leads(set) {
            let leader = self.core.leader(set);
            let is_here =
                self.core.status_of(set).is_some_and(|it| it.role == crate::group::Role::Leader);
            return done(match is_here {
                true => ProposalAnswer::Busy,
                false => ProposalAnswer::NotLeader(leader),
            });
        }
        let Some(((request, mut body), done)) = self.route(set, request, done) else { return };
        let Some((mut request, done)) = self.take_step(set, request, done) else { return };
        let defines = self.storage.validate(&request.mutations);
        let defines = defines.and_then(|()| self.storage.propose_defines(set, &request.mutations));
        match defines {
            Err(error) => done(ProposalAnswer::Done(Err(error))),
            Ok(defines) => {
                let last_us = self.last_us.entry(set).or_insert(i64::MIN);
                let given_us = (*last_us).max(self.storage.group_last_us(set));
                let asked_us = request.timed_us;
                // A part of a batch has its time: what is given later is later.
                let timed_us = match request.timed_us {
                    Some(_) => request.time_after(given_us),
                    None => request.given_us().map(|it| it.max(*last_us)),
                };
                if !breaks(Rule::LetTimestampsFall)
                    && let Some(timed_us) = timed_us
                {
                    *last_us = timed_us;
                    // Whoever leads next knows from the second what times were given.
                    now_s = now_s.max(u32::try_from(timed_us / 1_000_000).unwrap_or(0));
                }
                let ticket = Some(self.ticket(Asked::Write(set, done)));
                if request.timed_us != asked_us || request.step.is_some() {
                    body = request.to_bytes();
                }
                let kind = KIND_REQUEST;
                let to_bytes = |(kind, body)| (kind, Bytes::from(body));
                let before = defines.into_iter().map(to_bytes).collect();
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
                self.last_proposed_s.insert(set, now_s);
            }
        }
    }

    /// What committed entries say of a set itself that its state does not know: changes of members, and splits.
    pub(super) fn unknown_to_state(
        &self,
        recovered: &RecoveredGroup,
    ) -> Result<Vec<Pending>, String> {
        let (state, table) = (&recovered.state, &recovered.table);
        let mut unknown = Vec::new();
        for index in table.cut().index + 1..=state.commit {
            let Some(slot) = table.slot(index).filter(|slot| is_of_set(slot.kind)) else {
                continue;
            };
            // A split is looked at again: what it made may not be in the log.
            let is_known = index <= state.configuration.index;
            if is_known && slot.kind == crate::group::changes::KIND_MEMBERS {
                continue;
            }
            let body = self.storage.read_group_body(&slot).map_err(|error| error.to_string())?;
            let place = EntryPlace { index, term: slot.term };
            unknown.push(Pending { place, kind: slot.kind, now_s: slot.now_s, body });
        }
        Ok(unknown)
    }
}
