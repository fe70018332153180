//! A coordinator's reads of sets whose rows lie on other nodes, on their way to members that have them.
//!
//! A read changes nothing, so it is asked again of another member whenever one does not answer, has no rows, or is not ready; the
//! leader first, because it has everything. It is over when a part of the rows came, or its time is up.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::travel::Fault;
use types::{NodeId, SetId};

/// When everybody was asked in vain they are asked again after so many milliseconds.
const RETRY_MS: u64 = 20;
/// After so many milliseconds without an answer another member is asked.
const RESEND_MS: u64 = 700;

/// What a node that was asked for rows says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowsAnswer {
    /// A part of them (see `docs/formats/travel.md`).
    Part(Bytes),
    /// They cannot be read there, and why.
    Failed(Fault),
    /// It has no member that may answer now. Who leads, as far as it knows.
    NotHere(Option<NodeId>),
    /// Too many reads wait there.
    Busy,
    /// The set was split: another one has a part of what was asked for.
    Moved,
}

/// What became of a read, for the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowsOutcome {
    /// A part of the rows.
    Part(Bytes),
    /// No member can read them; what the last one said.
    Failed(Fault),
    /// Too few members are alive.
    Unavailable {
        /// So many are needed.
        required: usize,
        /// So many are.
        alive: usize,
    },
    /// Its time is up.
    TimedOut,
    /// The set was split since the read was located.
    Moved,
}

/// Who is told.
pub type RowsDone = Box<dyn FnOnce(RowsOutcome) + Send>;

/// A read that is asked of other nodes.
pub struct RowsAsked {
    /// Of which set.
    pub set: SetId,
    /// See [`types::travel::encode_read_request`].
    pub body: Bytes,
    /// Whether everything that was committed before must be seen.
    pub is_strong: bool,
    /// When its time is up.
    pub deadline_ms: u64,
    /// Who is told.
    pub done: RowsDone,
}

impl std::fmt::Debug for RowsAsked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsAsked").field("set", &self.set).finish_non_exhaustive()
    }
}

/// A read that is not answered yet.
struct Pending {
    asked: RowsAsked,
    /// Asked in vain, this round.
    tried: Vec<NodeId>,
    /// Who is said to lead, by one who does not.
    hint: Option<NodeId>,
    failed: Option<Fault>,
    retry_at_ms: Option<u64>,
    /// Where it was sent, and when.
    sent: Option<(NodeId, u64)>,
}

/// The reads of a coordinator that are not answered yet.
pub(crate) struct Reads {
    pending: BTreeMap<u64, Pending>,
    next: u64,
}

/// Where a read goes now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Going {
    pub(crate) node: NodeId,
    pub(crate) set: SetId,
    pub(crate) is_strong: bool,
    pub(crate) body: Bytes,
}

impl Reads {
    /// `epoch` is another one at each start: see [`super::requests::Requests`].
    pub(crate) fn new(epoch: u32) -> Reads {
        Reads { pending: BTreeMap::new(), next: u64::from(epoch) << 32 }
    }

    pub(crate) fn add(&mut self, asked: RowsAsked) -> u64 {
        self.next += 1;
        let (tried, hint, failed) = (Vec::new(), None, None);
        let pending = Pending { asked, tried, hint, failed, retry_at_ms: Some(0), sent: None };
        self.pending.insert(self.next, pending);
        self.next
    }

    pub(crate) fn set_of(&self, number: u64) -> Option<SetId> {
        self.pending.get(&number).map(|pending| pending.asked.set)
    }

    /// Which reads are to be asked for now. Those whose time is up are answered.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<u64> {
        let over = self.pending.iter().filter(|(_, it)| it.asked.deadline_ms <= now_ms);
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end(number, RowsOutcome::TimedOut);
        }
        for pending in self.pending.values_mut() {
            if let Some((node, _)) = pending.sent.take_if(|(_, at_ms)| *at_ms + RESEND_MS <= now_ms)
            {
                pending.tried.push(node);
                pending.retry_at_ms = Some(now_ms);
            }
        }
        let is_due = |(_, it): &(&u64, &Pending)| it.retry_at_ms.is_some_and(|at| at <= now_ms);
        self.pending.iter().filter(is_due).map(|(number, _)| *number).collect()
    }

    /// Tries a read: of `members`, those who are alive, the best first, one is asked that was not yet.
    pub(crate) fn attempt(
        &mut self,
        number: u64,
        members: &[NodeId],
        now_ms: u64,
    ) -> Option<Going> {
        let pending = self.pending.get_mut(&number)?;
        pending.retry_at_ms = None;
        let hint = pending.hint.take().filter(|hint| members.contains(hint));
        let untried = || members.iter().copied().find(|node| !pending.tried.contains(node));
        let Some(node) = hint.or_else(untried) else {
            if let Some(fault) = pending.failed.take() {
                self.end(number, RowsOutcome::Failed(fault));
                return None;
            }
            pending.tried.clear();
            pending.retry_at_ms = Some(now_ms + RETRY_MS);
            return None;
        };
        pending.sent = Some((node, now_ms));
        let RowsAsked { set, is_strong, body, .. } = &pending.asked;
        Some(Going { node, set: *set, is_strong: *is_strong, body: body.clone() })
    }

    /// An answer came. Returns whether the read is to be tried again at once.
    pub(crate) fn answer(&mut self, from: NodeId, number: u64, answer: RowsAnswer) -> bool {
        let Some(pending) = self.pending.get_mut(&number) else { return false };
        if pending.sent.is_none_or(|(node, _)| node != from) {
            // Of one that was given up: welcome all the same if it has rows.
            if let RowsAnswer::Part(part) = answer {
                self.end(number, RowsOutcome::Part(part));
            }
            return false;
        }
        pending.sent = None;
        pending.tried.push(from);
        match answer {
            RowsAnswer::Part(part) => {
                self.end(number, RowsOutcome::Part(part));
                return false;
            }
            RowsAnswer::Failed(fault) => pending.failed = Some(fault),
            RowsAnswer::NotHere(leader) => {
                pending.hint = leader.filter(|leader| !pending.tried.contains(leader));
            }
            RowsAnswer::Busy => {}
            RowsAnswer::Moved => {
                self.end(number, RowsOutcome::Moved);
                return false;
            }
        }
        true
    }

    /// The connection to a node broke: what was asked there is asked elsewhere. Returns what is to be tried again.
    pub(crate) fn link_broke(&mut self, node: NodeId) -> Vec<u64> {
        let mut again = Vec::new();
        for (number, pending) in &mut self.pending {
            if pending.sent.take_if(|(to, _)| *to == node).is_some() {
                pending.tried.push(node);
                again.push(*number);
            }
        }
        again
    }

    /// Nobody waits any more.
    pub(crate) fn close(&mut self) {
        for (_, pending) in std::mem::take(&mut self.pending) {
            (pending.asked.done)(RowsOutcome::TimedOut);
        }
    }

    fn end(&mut self, number: u64, outcome: RowsOutcome) {
        if let Some(pending) = self.pending.remove(&number) {
            (pending.asked.done)(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    const ALL: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    fn begun() -> (Reads, u64, Arc<Mutex<Vec<RowsOutcome>>>) {
        let mut reads = Reads::new(7);
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let number = reads.add(RowsAsked {
            set: SetId(5),
            body: Bytes::from_static(b"read"),
            is_strong: true,
            deadline_ms: 5_000,
            done: Box::new(move |outcome| tell.lock().push(outcome)),
        });
        (reads, number, told)
    }

    fn asked(reads: &mut Reads, number: u64, now_ms: u64) -> Option<NodeId> {
        reads.attempt(number, &ALL, now_ms).map(|going| going.node)
    }

    #[test]
    fn one_member_after_the_other_is_asked_until_there_are_rows() {
        let (mut reads, number, told) = begun();
        assert_eq!(asked(&mut reads, number, 0), Some(NodeId(1)));
        // Who is said to lead is asked next.
        assert!(reads.answer(NodeId(1), number, RowsAnswer::NotHere(Some(NodeId(3)))));
        assert_eq!(asked(&mut reads, number, 1), Some(NodeId(3)));
        assert!(reads.answer(NodeId(3), number, RowsAnswer::Busy));
        assert_eq!(asked(&mut reads, number, 2), Some(NodeId(2)));
        assert_eq!(reads.link_broke(NodeId(2)), [number]);
        // All were asked: a pause, then again.
        assert_eq!(asked(&mut reads, number, 3), None);
        assert!(reads.due(10).is_empty());
        assert_eq!(reads.due(3 + RETRY_MS), [number]);
        assert_eq!(asked(&mut reads, number, 30), Some(NodeId(1)));
        // One that is silent is left, and may answer all the same.
        assert_eq!(reads.due(30 + RESEND_MS), [number]);
        assert_eq!(asked(&mut reads, number, 800), Some(NodeId(2)));
        let part = RowsAnswer::Part(Bytes::from_static(b"rows"));
        assert!(!reads.answer(NodeId(1), number, part.clone()));
        assert!(!reads.answer(NodeId(2), number, part), "nobody waits for a second one");
        assert_eq!(*told.lock(), [RowsOutcome::Part(Bytes::from_static(b"rows"))]);
    }

    #[test]
    fn a_fault_is_told_when_nobody_does_better() {
        let (mut reads, number, told) = begun();
        for node in ALL {
            assert_eq!(asked(&mut reads, number, 0), Some(node));
            assert!(reads.answer(node, number, RowsAnswer::Failed(Fault::Closed)));
        }
        assert_eq!(asked(&mut reads, number, 0), None);
        assert_eq!(*told.lock(), [RowsOutcome::Failed(Fault::Closed)]);
    }

    #[test]
    fn time_is_up_at_last() {
        let (mut reads, number, told) = begun();
        assert_eq!(reads.attempt(number, &[], 0), None);
        assert!(reads.due(5_000).is_empty());
        assert_eq!(*told.lock(), [RowsOutcome::TimedOut]);
    }
}
