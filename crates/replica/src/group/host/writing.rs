//! A coordinator's requests: sent to whoever leads their set, and proposed there.

use types::Mutation;

use super::*;
use crate::group::requests::RELAY_MS;

/// So long a request of another node is tried: it hears of it before it asks somebody else.
const RELAYED_MS: u64 = RELAY_MS - 500;
/// A coordinator's time may be so far ahead of its leader's.
pub(super) const AHEAD_US_MAX: i64 = 10_000_000;

/// A request that was proposed here, with the very bytes that are its entry: whoever leads need not read it from them once more.
pub(super) struct InHand {
    request: Box<Request>,
    body: Bytes,
}

impl InHand {
    /// The request, if these are its bytes: not some that are like them, or were read from the disk.
    pub(super) fn into_request_of(self, kind: u8, body: &Bytes) -> Option<Box<Request>> {
        let is_same = (self.body.as_ptr(), self.body.len()) == (body.as_ptr(), body.len());
        (is_same && kind == KIND_REQUEST).then_some(self.request)
    }
}

impl Host {
    /// A coordinator's request. It is sent to whoever leads the set, again where that is safe, until its time is up.
    /// Returns its number, where it is tried at all.
    pub fn submit(
        &mut self,
        set: SetId,
        request: impl Into<Box<Request>>,
        deadline_ms: u64,
        done: WriteDone,
    ) -> Option<u64> {
        let (required, alive) = self.alive(set);
        if alive < required {
            let outcome = WriteOutcome::Unavailable { required, alive };
            if breaks(Rule::WriteThoughUnavailable) {
                self.requests.add(set, request, deadline_ms, Box::new(|_| ()));
            }
            done(outcome);
            return None;
        }
        let number = self.requests.add(set, request, deadline_ms, done);
        self.attempt(number);
        Some(number)
    }

    /// Another node does not reach whoever leads a set: this one sees to its request as if it were its own. It is done once, whoever brings it.
    pub(super) fn relay(&mut self, from: NodeId, number: u64, set: SetId, body: Bytes) {
        let Ok(request) = Request::from_bytes(body.clone()) else {
            return tracing::warn!(%from, "a request of another node is not readable");
        };
        if self.core.leads(set) || !request.is_repeatable() {
            return self.propose(set, (request, body), from, number);
        }
        let answers = Arc::clone(&self.answers);
        let done = move |outcome| {
            let answer = match outcome {
                WriteOutcome::Done(result) => ProposalAnswer::Done(result),
                // Whoever asked goes on until its own time is up.
                WriteOutcome::TimedOut | WriteOutcome::Unavailable { .. } => ProposalAnswer::Busy,
            };
            answers.lock().push((from, number, answer));
        };
        let (required, alive) = self.alive(set);
        if alive < required {
            return done(WriteOutcome::Unavailable { required, alive });
        }
        let deadline_ms = self.now.ms + RELAYED_MS;
        let number = self.requests.add_of_another(set, request, deadline_ms, Box::new(done));
        self.attempt(number);
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
                true => self.receive_answer(from, number, answer),
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
            return self.wait_or_refuse(set, request, done);
        }
        let Some(((request, mut body), done)) = self.route(set, request, done) else { return };
        let Some((mut request, done)) = self.take_step(set, request, done) else { return };
        let defines = self.storage.validate(&request.mutations);
        let defines = defines.and_then(|()| self.foresee_whole(set, &request));
        let defines = defines.and_then(|()| self.storage.propose_defines(set, &request.mutations));
        match defines {
            Err(error) => done(ProposalAnswer::Done(Err(error))),
            Ok(defines) => {
                let last_us = self.last_us.entry(set).or_insert(i64::MIN);
                let given_us = (*last_us).max(self.storage.group_last_us(set));
                let asked_us = request.timed_us;
                // Whoever did not know the time yet may have given one that is far off. A batch has its time from all of its sets, and
                // its parts have that of the batch.
                if request.step.is_none() {
                    request.time_at_most(self.last_given_us.saturating_add(AHEAD_US_MAX));
                }
                let is_earlier = request.timed_us != asked_us;
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
                let has_moved = self.order_lists(set, &mut request, &mut now_s);
                let is_timed_anew = is_earlier || request.timed_us != asked_us;
                if is_timed_anew || request.step.is_some() || has_moved {
                    body = request.to_bytes();
                }
                // Batches are read from what they were made into, here as everywhere.
                let in_hand = request.step.is_none().then(|| {
                    let (request, body) = (Box::new(request), body.clone());
                    InHand { request, body }
                });
                let ticket = Some(self.ticket(Asked::Write(set, in_hand, done)));
                let kind = KIND_REQUEST;
                let to_bytes = |(kind, body)| (kind, Bytes::from(body));
                let before = defines.into_iter().map(to_bytes).collect();
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
                self.last_proposed_s.insert(set, now_s);
            }
        }
    }

    /// Has elements that a request adds to lists stand behind all that the set took before. Returns whether the request is another one now.
    fn order_lists(&mut self, set: SetId, request: &mut Request, now_s: &mut u32) -> bool {
        // What has no name may be here for the second time, and must write the same elements.
        let is_known_again = request.id.is_some() || request.step.is_some();
        let has_lists = request.mutations.iter().any(Mutation::may_extend_lists);
        if !has_lists || !is_known_again || breaks(Rule::LetListsMix) {
            return false;
        }
        let Some(term) = self.core.term(set) else { return false };
        let latest_us = self.last_given_us.saturating_add(AHEAD_US_MAX);
        let listed = self.last_listed.get(&set).filter(|(known, _)| *known == term);
        // Earlier leaders gave no ids later than the seconds of their entries.
        let before_us = || (i64::from(self.storage.group_now_s(set)) + 1) * 1_000_000;
        let after_us = listed.map_or_else(before_us, |(_, last_us)| *last_us);
        let ordered = self.storage.order_lists(&mut request.mutations, after_us, latest_us);
        let Some((last_us, has_moved)) = ordered else { return false };
        self.last_listed.insert(set, (term, last_us));
        *now_s = (*now_s).max(u32::try_from(last_us / 1_000_000).unwrap_or(0));
        has_moved
    }

    /// An error if a part of a batch that one set holds would be refused, because of a position in a list: none of it may happen then.
    /// Whoever was told of a list was told after it was applied here, so it is as it was seen. A repeat gets the first answer.
    fn foresee_whole(&self, set: SetId, request: &Request) -> Result<(), CommitError> {
        let is_batch = request.step.is_none() && request.mutations.len() > 1;
        if !is_batch || !request.mutations.iter().any(|it| it.names_positions()) {
            return Ok(());
        }
        if self.storage.known_answer(set, request).is_some() {
            return Ok(());
        }
        request.mutations.iter().try_for_each(|mutation| self.storage.foresee(set, mutation))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_hand_for_its_own_bytes_alone() {
        let request = Request {
            id: None,
            not_after_s: 1,
            timed_us: None,
            truncates: None,
            splits: None,
            mutations: Vec::new(),
            step: None,
        };
        let body = request.to_bytes();
        let in_hand = || InHand { request: Box::new(request.clone()), body: body.clone() };
        assert!(in_hand().into_request_of(KIND_REQUEST, &body).is_some());
        assert!(in_hand().into_request_of(KIND_EMPTY, &body).is_none());
        assert!(in_hand().into_request_of(KIND_REQUEST, &body.slice(1..)).is_none());
        let alike = Bytes::copy_from_slice(&body);
        assert!(in_hand().into_request_of(KIND_REQUEST, &alike).is_none());
    }
}
