//! A coordinator's requests on their way to the members that lead their sets, wherever those are by now.
//!
//! A request is sent again by itself as long as that cannot do it twice: after an answer that says that nothing was done, always;
//! without an answer, only if it has a name by which a repeat gets the first answer, or times of its own by which a repeat changes
//! nothing. What is left is a timeout: then it may have been done, or be done later, but never twice.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use storage::broken::{Rule, breaks};
use storage::{CommitError, CommitResult, Request};
use types::{NodeId, SetId};

use super::behind::Behind;
use super::host::ProposalAnswer;

/// After so many milliseconds something that found no leader is tried again.
const RETRY_MS: u64 = 20;
/// After so many milliseconds without an answer a request is sent again, perhaps to another leader.
const RESEND_MS: u64 = 700;
/// So long another node may see to a request in place of this one.
pub(crate) const RELAY_MS: u64 = 2_000;

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

/// So often in a row a request goes at once to whom another node takes for the leader.
const HINTS_AT_ONCE_MAX: u32 = 3;

/// A request that is not answered yet.
struct Pending {
    set: SetId,
    /// Until it was handed on: most are answered then, and who needs it again reads it from its bytes.
    request: Option<Box<Request>>,
    body: Bytes,
    /// It may be sent again though it may have been done.
    is_repeatable: bool,
    is_split: bool,
    deadline_ms: u64,
    /// When it is tried again.
    retry_at_ms: Option<u64>,
    /// Where it was sent, and when.
    sent: Option<Sent>,
    /// It is tried as soon as its set has a leader.
    waits_for_leader: bool,
    /// Another node's, which this one sees to: it is not handed on again.
    is_of_another: bool,
    /// Who leads, as the node said that was asked last.
    hint: Option<NodeId>,
    /// Up to which entry this node's member knew the set to be committed when it was sent to another node first: its own comes behind.
    commit_before: Option<u64>,
    /// How often it was sent somewhere.
    tries: u32,
    /// How often it went where it was pointed to, since it waited.
    hints_followed: u32,
    done: WriteDone,
}

/// Where a request is.
#[derive(Clone, Copy, Debug)]
struct Sent {
    to: NodeId,
    at_ms: u64,
    /// Who led its set then, as far as this node knew.
    leader: Option<NodeId>,
    /// The other node sees to it, as it may reach who leads.
    is_relayed: bool,
}

impl Sent {
    fn is_over(&self, now_ms: u64) -> bool {
        self.at_ms + if self.is_relayed { RELAY_MS } else { RESEND_MS } <= now_ms
    }
}

/// A request from the bytes that it was made into here.
fn read_again(body: &Bytes) -> Request {
    match Request::from_bytes(body.clone()) {
        Ok(request) => request,
        Err(_) => unreachable!("a request is read as it was written"),
    }
}

/// The requests of a coordinator that are not answered yet.
pub(crate) struct Requests {
    /// By their numbers. Boxed, because a tree moves its values when it grows.
    pending: BTreeMap<u64, Box<Pending>>,
    next: u64,
    /// So many may wait for a leader: most often none, and then nobody is looked at.
    leaderless: usize,
    /// What is committed and not applied here.
    pub(crate) behind: Behind,
    /// Sets of which that may be so.
    pub(crate) touched: BTreeSet<SetId>,
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
        let (pending, next) = (BTreeMap::new(), u64::from(epoch) << 32);
        Requests {
            pending,
            next,
            leaderless: 0,
            behind: Behind::default(),
            touched: BTreeSet::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        set: SetId,
        request: impl Into<Box<Request>>,
        deadline_ms: u64,
        done: WriteDone,
    ) -> u64 {
        self.next += 1;
        let request = request.into();
        let pending = Box::new(Pending {
            set,
            body: request.to_bytes(),
            is_repeatable: request.is_repeatable(),
            is_split: request.splits.is_some(),
            request: Some(request),
            deadline_ms,
            retry_at_ms: Some(0),
            sent: None,
            waits_for_leader: false,
            is_of_another: false,
            hint: None,
            commit_before: None,
            tries: 0,
            hints_followed: 0,
            done,
        });
        self.pending.insert(self.next, pending);
        self.next
    }

    /// A request of another node, which does not reach who leads its set.
    pub(crate) fn add_of_another(
        &mut self,
        set: SetId,
        request: Request,
        deadline_ms: u64,
        done: WriteDone,
    ) -> u64 {
        let number = self.add(set, request, deadline_ms, done);
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.is_of_another = true;
        }
        number
    }

    /// Nodes that did not answer in time what was sent to them.
    pub(crate) fn silent_nodes(&self, now_ms: u64) -> Vec<NodeId> {
        let sent = self.pending.values().filter_map(|it| it.sent.as_ref());
        sent.filter(|sent| sent.is_over(now_ms)).map(|sent| sent.to).collect()
    }

    /// A request goes to a node that sees to it in place of this one. Its set and bytes; none if it could be done twice, or is another
    /// node's: two that reach nobody would hand it to each other for ever.
    pub(crate) fn relay(
        &mut self,
        number: u64,
        to: NodeId,
        leader: Option<NodeId>,
        now_ms: u64,
    ) -> Option<(SetId, Bytes)> {
        let may_relay = |it: &&mut Box<Pending>| it.is_repeatable && !it.is_of_another;
        let pending = self.pending.get_mut(&number).filter(may_relay)?;
        pending.retry_at_ms = None;
        pending.waits_for_leader = false;
        pending.tries = pending.tries.wrapping_add(1);
        pending.sent = Some(Sent { to, at_ms: now_ms, leader, is_relayed: true });
        Some((pending.set, pending.body.clone()))
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
            let may_repeat = pending.is_repeatable || breaks(Rule::RetryWithoutId);
            if pending.sent.is_some_and(|sent| sent.is_over(now_ms)) && may_repeat {
                pending.sent = None;
                pending.retry_at_ms = Some(now_ms);
            }
        }
        let is_due = |it: &Pending| it.retry_at_ms.is_some_and(|at| at <= now_ms);
        let due = self.pending.iter().filter(|(_, pending)| is_due(pending));
        due.map(|(number, _)| *number).collect()
    }

    /// Sends again what went to somebody before another member led, as far as this node knows: who led before may be dead, and who
    /// sees to it in place of this node may not know yet.
    pub(crate) fn led_anew(&mut self, leader: impl Fn(SetId) -> Option<NodeId>) -> Vec<u64> {
        let mut anew = Vec::new();
        for (number, pending) in &mut self.pending {
            let Some(sent) = pending.sent.filter(|_| pending.is_repeatable) else {
                continue;
            };
            let is_other = |leader: &NodeId| Some(*leader) != sent.leader && *leader != sent.to;
            if leader(pending.set).is_some_and(|leader| is_other(&leader)) {
                pending.sent = None;
                anew.push(*number);
            }
        }
        anew
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

    /// The set of a request that waits, and how often it was sent somewhere.
    pub(crate) fn waiting(&self, number: u64) -> Option<(SetId, u32)> {
        self.pending.get(&number).map(|pending| (pending.set, pending.tries))
    }

    /// A request goes to another node. `commit`: up to where this node's member knows its set to be committed.
    pub(crate) fn note_commit(&mut self, number: u64, commit: Option<u64>) {
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.commit_before = pending.commit_before.or(commit);
        }
    }

    /// A request was done by another node: what this node's member of its set applied before is not enough for weak reads.
    pub(crate) fn note_done(&mut self, number: u64) {
        if let Some(pending) = self.pending.get(&number)
            && !pending.is_split
        {
            let least = pending.commit_before.map_or(0, |before| before + 1);
            self.behind.answer(pending.set, least);
        }
    }

    /// A request that waits.
    pub(crate) fn request(&self, number: u64) -> Option<Request> {
        self.pending.get(&number).map(|pending| read_again(&pending.body))
    }

    /// Another set has the keys of a request, which was not done: `true` if it is to be tried there at once. Where it is the same set it
    /// is tried again after a pause.
    pub(crate) fn move_to(&mut self, number: u64, set: SetId, now_ms: u64) -> bool {
        let Some(pending) = self.pending.get_mut(&number) else { return false };
        let is_other = pending.set != set;
        (pending.set, pending.sent, pending.hint) = (set, None, None);
        pending.commit_before = None;
        pending.retry_at_ms = Some(now_ms + RETRY_MS);
        is_other
    }

    /// Tries a request: whoever leads its set is asked, or whom the last one took for the leader.
    pub(crate) fn attempt(
        &mut self,
        number: u64,
        own: NodeId,
        leader: Option<NodeId>,
        now_ms: u64,
    ) -> Attempt {
        let Some(pending) = self.pending.get_mut(&number) else { return Attempt::Waits };
        pending.retry_at_ms = None;
        pending.waits_for_leader = false;
        let asked = pending.hint.take().or(leader);
        pending.tries = pending.tries.wrapping_add(u32::from(asked.is_some()));
        match asked {
            None => {
                pending.retry_at_ms = Some(now_ms + RETRY_MS);
                pending.waits_for_leader = true;
                self.leaderless += 1;
                Attempt::Waits
            }
            Some(node) if node == own => {
                let mut body = pending.body.clone();
                let again = || Box::new(read_again(&body));
                let mut request = pending.request.take().unwrap_or_else(again);
                pending.sent = Some(Sent { to: own, at_ms: now_ms, leader, is_relayed: false });
                if breaks(Rule::RetryWithoutId) {
                    request.id = None;
                    body = request.to_bytes();
                }
                Attempt::Here { number, set: pending.set, request, body }
            }
            Some(node) => {
                pending.sent = Some(Sent { to: node, at_ms: now_ms, leader, is_relayed: false });
                pending.request = None;
                let mut body = pending.body.clone();
                if breaks(Rule::RetryWithoutId) {
                    let mut request = read_again(&body);
                    request.id = None;
                    body = request.to_bytes();
                }
                Attempt::There { node, number, set: pending.set, body }
            }
        }
    }

    /// An answer came. Answers to what is not waited for any more are let go. Returns whether the request is to be tried again at once.
    pub(crate) fn answer(
        &mut self,
        from: NodeId,
        number: u64,
        answer: ProposalAnswer,
        now_ms: u64,
    ) -> bool {
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
                    pending.sent = None;
                    if let ProposalAnswer::NotLeader(Some(leader)) = answer
                        && leader != from
                        && pending.hints_followed < HINTS_AT_ONCE_MAX
                    {
                        pending.hint = Some(leader);
                        pending.hints_followed += 1;
                        return true;
                    }
                    pending.hints_followed = 0;
                    pending.retry_at_ms = Some(now_ms + RETRY_MS);
                }
            }
        }
        false
    }

    /// The connection to a node broke: what was sent there may have been done.
    pub(crate) fn link_broke(&mut self, node: NodeId, now_ms: u64) {
        let mut over = Vec::new();
        for (number, pending) in &mut self.pending {
            if pending.sent.is_some_and(|sent| sent.to == node) {
                if pending.is_repeatable || breaks(Rule::RetryWithoutId) {
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

#[cfg(test)]
mod tests {
    use storage::RequestId;

    use super::*;

    fn sent_to(attempt: &Attempt) -> Option<NodeId> {
        match attempt {
            Attempt::There { node, .. } => Some(*node),
            Attempt::Here { .. } | Attempt::Waits => None,
        }
    }

    fn request() -> Request {
        Request {
            id: None,
            not_after_s: 9,
            timed_us: None,
            truncates: None,
            splits: None,
            step: None,
            mutations: Vec::new(),
        }
    }

    /// The keys of a request are another set's, and nobody knows which: it is tried again, by a map that may be another one then, until its time is up.
    #[test]
    fn what_has_moved_is_tried_again_until_its_time_is_up() {
        let (sender, told) = std::sync::mpsc::sync_channel(1);
        let mut requests = Requests::new(1);
        let done = Box::new(move |outcome| sender.send(outcome).unwrap());
        let number = requests.add(SetId(4), request(), 100, done);
        let own = NodeId(1);
        for now_ms in [0, RETRY_MS, 2 * RETRY_MS] {
            assert_eq!(requests.due(now_ms), [number]);
            let attempt = requests.attempt(number, own, Some(NodeId(2)), now_ms);
            assert_eq!(sent_to(&attempt), Some(NodeId(2)));
            assert!(requests.due(now_ms).is_empty());
            assert!(!requests.move_to(number, SetId(4), now_ms), "nobody knows better yet");
        }
        assert!(requests.move_to(number, SetId(5), 50), "at once where it is another set");
        assert_eq!(requests.waiting(number).map(|(set, _)| set), Some(SetId(5)));
        assert!(told.try_recv().is_err());
        assert!(requests.due(100).is_empty());
        assert!(matches!(told.try_recv(), Ok(WriteOutcome::TimedOut)));
    }

    fn named() -> Request {
        Request { id: Some(RequestId(7)), ..request() }
    }

    /// Its leader gives it its time: done again it would have another one.
    fn unnamed() -> Request {
        Request { timed_us: Some(5), ..request() }
    }

    /// Two nodes that know of no leader would hand a request to each other for ever, and each would keep it once more.
    #[test]
    fn what_is_seen_to_for_another_node_is_not_handed_on() {
        let mut requests = Requests::new(1);
        let own = requests.add(SetId(4), named(), 5_000, Box::new(|_| ()));
        let other = requests.add_of_another(SetId(4), named(), 5_000, Box::new(|_| ()));
        assert!(requests.relay(own, NodeId(2), None, 0).is_some());
        assert!(requests.relay(other, NodeId(2), None, 0).is_none());
        let lone = requests.add(SetId(4), unnamed(), 5_000, Box::new(|_| ()));
        assert!(requests.relay(lone, NodeId(2), None, 0).is_none(), "it could be done twice");
    }

    /// Whoever led is dead, perhaps: a request does not wait for its answer when another one leads.
    #[test]
    fn a_new_leader_is_asked_at_once() {
        let mut requests = Requests::new(1);
        let (own, old, new) = (NodeId(1), NodeId(2), NodeId(3));
        let number = requests.add(SetId(4), named(), 5_000, Box::new(|_| ()));
        let lone = requests.add(SetId(4), unnamed(), 5_000, Box::new(|_| ()));
        for number in [number, lone] {
            requests.attempt(number, own, Some(old), 0);
        }
        assert!(requests.led_anew(|_| Some(old)).is_empty());
        assert!(requests.led_anew(|_| None).is_empty());
        assert_eq!(requests.led_anew(|_| Some(new)), [number], "the other could be done twice");
        requests.attempt(number, own, Some(new), 10);
        assert!(requests.led_anew(|_| Some(new)).is_empty(), "once is enough");
        // Where it went because somebody pointed there, this node's member comes to know the same.
        assert!(requests.answer(new, number, ProposalAnswer::NotLeader(Some(own)), 20));
        requests.attempt(number, own, Some(new), 20);
        assert!(requests.led_anew(|_| Some(own)).is_empty());
        // And where another node sees to it.
        assert!(requests.relay(number, old, None, 30).is_some());
        assert_eq!(requests.led_anew(|_| Some(new)), [number]);
    }

    /// Who is pointed to the leader goes there at once; nodes that point to each other do not keep a request going round.
    #[test]
    fn a_hint_is_followed_at_once_and_a_circle_is_left() {
        let mut requests = Requests::new(1);
        let number = requests.add(SetId(4), request(), 5_000, Box::new(|_| ()));
        let own = NodeId(1);
        let mut at = NodeId(2);
        assert_eq!(sent_to(&requests.attempt(number, own, Some(at), 0)), Some(at));
        for _ in 0..HINTS_AT_ONCE_MAX {
            let next = if at == NodeId(2) { NodeId(3) } else { NodeId(2) };
            assert!(requests.answer(at, number, ProposalAnswer::NotLeader(Some(next)), 0));
            assert_eq!(sent_to(&requests.attempt(number, own, Some(at), 0)), Some(next));
            at = next;
        }
        assert!(!requests.answer(at, number, ProposalAnswer::NotLeader(Some(NodeId(9))), 0));
        assert!(requests.due(0).is_empty());
        assert_eq!(requests.due(RETRY_MS), [number]);
        assert_eq!(requests.waiting(number), Some((SetId(4), 1 + HINTS_AT_ONCE_MAX)));
        // One that says that it leads itself, and does not, is no hint.
        assert_eq!(sent_to(&requests.attempt(number, own, Some(NodeId(3)), 20)), Some(NodeId(3)));
        assert!(!requests.answer(
            NodeId(3),
            number,
            ProposalAnswer::NotLeader(Some(NodeId(3))),
            20
        ));
    }
}
