//! A coordinator's requests on their way to the members that lead their sets, wherever those are by now.
//!
//! A request is sent again by itself as long as that cannot do it twice: after an answer that says that nothing was done, always;
//! without an answer, only if it has a name by which a repeat gets the first answer, or times of its own by which a repeat changes
//! nothing. What is left is a timeout: then it may have been done, or be done later, but never twice.

use std::collections::BTreeMap;

use bytes::Bytes;
use storage::broken::{Rule, breaks};
use storage::{CommitError, CommitResult, Request};
use types::{NodeId, SetId};

use super::host::ProposalAnswer;

/// After so many milliseconds something that found no leader is tried again.
const RETRY_MS: u64 = 20;
/// After so many milliseconds without an answer a request is sent again, perhaps to another leader.
const RESEND_MS: u64 = 700;

/// What became of a request, for the coordinator.
#[derive(Clone, Debug)]
pub enum WriteOutcome {
    /// It is committed and applied.
    Done(CommitResult),
    /// Nothing was done, nor will be: too few members are alive.
    Unavailable {
        /// So many are needed.
        required: usize,
        /// So many are.
        alive: usize,
    },
    /// Its time is up. It may have been done, or be done later.
    TimedOut,
}

/// Who is told.
pub type WriteDone = Box<dyn FnOnce(WriteOutcome) + Send>;

/// A request that is not answered yet.
struct Pending {
    set: SetId,
    request: Request,
    body: Bytes,
    deadline_ms: u64,
    /// When it is tried again.
    retry_at_ms: Option<u64>,
    /// Where it was sent, and when.
    sent: Option<(NodeId, u64)>,
    /// It is tried as soon as its set has a leader.
    waits_for_leader: bool,
    /// How often it was tried.
    tries: u64,
    done: WriteDone,
}

/// The requests of a coordinator that are not answered yet.
pub(crate) struct Requests {
    pending: BTreeMap<u64, Pending>,
    next: u64,
    /// So many may wait for a leader: most often none, and then nobody is looked at.
    leaderless: usize,
    /// Who leads sets that have no member here, as others said.
    hints: BTreeMap<SetId, NodeId>,
}

/// What is to be done for a request now.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// Nothing: it is waited for.
    Waits,
    /// This node's member leads.
    Here { number: u64, set: SetId, request: Box<Request>, body: Bytes },
    /// Another node's does.
    There { node: NodeId, number: u64, set: SetId, body: Bytes },
}

impl Requests {
    /// `epoch` is another one at each start of a node: answers to what a node asked before it was started again are not
    /// taken for answers to what it asks now.
    pub(crate) fn new(epoch: u32) -> Requests {
        let (pending, hints) = (BTreeMap::new(), BTreeMap::new());
        Requests { pending, next: u64::from(epoch) << 32, leaderless: 0, hints }
    }

    pub(crate) fn add(
        &mut self,
        set: SetId,
        request: Request,
        deadline_ms: u64,
        done: WriteDone,
    ) -> u64 {
        self.next += 1;
        let body = request.to_bytes();
        let pending = Pending {
            set,
            request,
            body,
            deadline_ms,
            retry_at_ms: Some(0),
            sent: None,
            waits_for_leader: false,
            tries: 0,
            done,
        };
        self.pending.insert(self.next, pending);
        self.next
    }

    /// Which requests are to be tried now. Those whose time is up are answered.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<u64> {
        let over = self.pending.iter().filter(|(_, it)| it.deadline_ms <= now_ms);
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(pending) = self.pending.remove(&number) {
                (pending.done)(WriteOutcome::TimedOut);
            }
        }
        for pending in self.pending.values_mut() {
            // No answer came: another leader may have to be asked. Without a name that could do it twice.
            let may_repeat = pending.request.is_repeatable() || breaks(Rule::RetryWithoutId);
            if pending.sent.is_some_and(|(_, at_ms)| at_ms + RESEND_MS <= now_ms) && may_repeat {
                pending.sent = None;
                pending.retry_at_ms = Some(now_ms);
                self.hints.remove(&pending.set);
            }
        }
        let is_due = |(_, it): &(&u64, &Pending)| it.retry_at_ms.is_some_and(|at| at <= now_ms);
        self.pending.iter().filter(is_due).map(|(number, _)| *number).collect()
    }

    /// Which requests waited for a leader that is known now.
    pub(crate) fn found_leader(&mut self, leader: impl Fn(SetId) -> Option<NodeId>) -> Vec<u64> {
        if self.leaderless == 0 {
            return Vec::new();
        }
        let waits = self.pending.iter().filter(|(_, it)| it.waits_for_leader);
        let (found, still): (Vec<_>, Vec<_>) = waits
            .map(|(number, it)| (*number, it.set))
            .partition(|(_, set)| leader(*set).is_some());
        self.leaderless = still.len();
        found.into_iter().map(|(number, _)| number).collect()
    }

    /// Tries a request: who leads its set is asked. `guess`: whom to ask where nobody here knows, another one at each try.
    pub(crate) fn attempt(
        &mut self,
        number: u64,
        own: NodeId,
        leader: impl Fn(SetId) -> Option<NodeId>,
        guess: impl Fn(SetId, u64) -> Option<NodeId>,
        now_ms: u64,
    ) -> Attempt {
        let Some(pending) = self.pending.get_mut(&number) else { return Attempt::Waits };
        pending.retry_at_ms = None;
        pending.waits_for_leader = false;
        pending.tries = pending.tries.wrapping_add(1);
        let place = number.wrapping_add(pending.tries);
        let hint = || self.hints.get(&pending.set).copied();
        match leader(pending.set).or_else(hint).or_else(|| guess(pending.set, place)) {
            None => {
                pending.retry_at_ms = Some(now_ms + RETRY_MS);
                pending.waits_for_leader = true;
                self.leaderless += 1;
                Attempt::Waits
            }
            Some(node) if node == own => {
                pending.sent = Some((own, now_ms));
                let mut request = Box::new(pending.request.clone());
                let mut body = pending.body.clone();
                if breaks(Rule::RetryWithoutId) {
                    request.id = None;
                    body = request.to_bytes();
                }
                Attempt::Here { number, set: pending.set, request, body }
            }
            Some(node) => {
                pending.sent = Some((node, now_ms));
                let mut body = pending.body.clone();
                if breaks(Rule::RetryWithoutId) {
                    let mut request = pending.request.clone();
                    request.id = None;
                    body = request.to_bytes();
                }
                Attempt::There { node, number, set: pending.set, body }
            }
        }
    }

    /// An answer came. Answers to what is not waited for any more are let go. Returns whether it is to be tried again at once.
    pub(crate) fn answer(&mut self, number: u64, answer: ProposalAnswer, now_ms: u64) -> bool {
        match answer {
            // It was refused this time; a time before, whose answer was lost, it may have been done.
            ProposalAnswer::Done(Err(CommitError::TooLate)) => {
                if let Some(pending) = self.pending.remove(&number) {
                    (pending.done)(WriteOutcome::TimedOut);
                }
            }
            ProposalAnswer::Done(result) => {
                if let Some(pending) = self.pending.remove(&number) {
                    (pending.done)(WriteOutcome::Done(result));
                }
            }
            // Another set has its keys by now.
            ProposalAnswer::Moved(set) => {
                let pending = self.pending.get_mut(&number);
                return pending.is_some_and(|pending| {
                    (pending.set, pending.sent) = (set, None);
                    true
                });
            }
            ProposalAnswer::NotLeader(_) | ProposalAnswer::Lost | ProposalAnswer::Busy => {
                if let Some(pending) = self.pending.get_mut(&number) {
                    match answer {
                        ProposalAnswer::NotLeader(Some(leader)) => {
                            self.hints.insert(pending.set, leader);
                        }
                        ProposalAnswer::NotLeader(None) => _ = self.hints.remove(&pending.set),
                        _ => {}
                    }
                    pending.sent = None;
                    pending.retry_at_ms = Some(now_ms + RETRY_MS);
                }
            }
        }
        false
    }

    /// The connection to a node broke: what was sent there may have been done.
    pub(crate) fn link_broke(&mut self, node: NodeId, now_ms: u64) {
        self.hints.retain(|_, leader| *leader != node);
        let mut over = Vec::new();
        for (number, pending) in &mut self.pending {
            if pending.sent.is_some_and(|(to, _)| to == node) {
                if pending.request.is_repeatable() || breaks(Rule::RetryWithoutId) {
                    pending.sent = None;
                    pending.retry_at_ms = Some(now_ms + RETRY_MS);
                } else {
                    over.push(*number);
                }
            }
        }
        for number in over {
            if let Some(pending) = self.pending.remove(&number) {
                (pending.done)(WriteOutcome::TimedOut);
            }
        }
    }

    /// Nobody waits any more.
    pub(crate) fn close(&mut self) {
        for (_, pending) in std::mem::take(&mut self.pending) {
            (pending.done)(WriteOutcome::TimedOut);
        }
    }
}
