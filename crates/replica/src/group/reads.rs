//! A coordinator's reads of sets whose rows lie on other nodes, on their way to members that have them.
//!
//! A read changes nothing, so it is asked again of another member whenever one does not answer, has no rows, or is not ready; the
//! leader first, because it has everything. It is over when a part of the rows came, or its time is up.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::travel::Fault;
use types::{NodeId, RingToken, SetId};

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
    /// To a look, see [`Looked`].
    Looked(Looked),
}

/// How far a set is, for a batch that is not decided yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The latest time that anything of it was given.
    pub last_us: i64,
    /// A position in a list that the batch names is not there.
    pub refused: Option<Fault>,
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
    /// To a look.
    Looked(Looked),
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

/// What is asked of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskedFor {
    /// For rows; with whether everything that was committed before must be seen.
    Rows { is_strong: bool, body: Bytes },
    /// How far the set is: see [`super::NodeMessage::Look`].
    Look { rings: (RingToken, RingToken), body: Bytes },
}

/// A read that is not answered yet.
struct Pending {
    set: SetId,
    asked_for: AskedFor,
    deadline_ms: u64,
    done: RowsDone,
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
    pub(crate) asked_for: AskedFor,
}

impl Reads {
    /// `epoch` is another one at each start: see [`super::requests::Requests`].
    pub(crate) fn new(epoch: u32) -> Reads {
        Reads { pending: BTreeMap::new(), next: u64::from(epoch) << 32 }
    }

    pub(crate) fn add(&mut self, asked: RowsAsked) -> u64 {
        let RowsAsked { set, body, is_strong, deadline_ms, done } = asked;
        self.ask(set, AskedFor::Rows { is_strong, body }, deadline_ms, done)
    }

    pub(crate) fn ask(
        &mut self,
        set: SetId,
        asked_for: AskedFor,
        deadline_ms: u64,
        done: RowsDone,
    ) -> u64 {
        self.next += 1;
        let pending = Pending {
            set,
            asked_for,
            deadline_ms,
            done,
            tried: Vec::new(),
            hint: None,
            failed: None,
            retry_at_ms: Some(0),
            sent: None,
        };
        self.pending.insert(self.next, pending);
        self.next
    }

    pub(crate) fn set_of(&self, number: u64) -> Option<SetId> {
        self.pending.get(&number).map(|pending| pending.set)
    }

    /// Whether it is asked how far a set is, and not for rows.
    pub(crate) fn is_look(&self, number: u64) -> bool {
        let pending = self.pending.get(&number);
        pending.is_some_and(|pending| matches!(pending.asked_for, AskedFor::Look { .. }))
    }

    /// Which reads are to be asked for now. Those whose time is up are answered.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<u64> {
        let over = self.pending.iter().filter(|(_, it)| it.deadline_ms <= now_ms);
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
        Some(Going { node, set: pending.set, asked_for: pending.asked_for.clone() })
    }

    /// An answer came. Returns whether the read is to be tried again at once.
    pub(crate) fn answer(&mut self, from: NodeId, number: u64, answer: RowsAnswer) -> bool {
        let Some(pending) = self.pending.get_mut(&number) else { return false };
        if pending.sent.is_none_or(|(node, _)| node != from) {
            // Of one that was given up: welcome all the same if it has rows.
            if let Some(outcome) = outcome_of(&pending.asked_for, answer) {
                self.end(number, outcome);
            }
            return false;
        }
        pending.sent = None;
        pending.tried.push(from);
        match answer {
            RowsAnswer::Part(_) | RowsAnswer::Looked(_) => {
                if let Some(outcome) = outcome_of(&pending.asked_for, answer) {
                    self.end(number, outcome);
                    return false;
                }
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
            (pending.done)(RowsOutcome::TimedOut);
        }
    }

    fn end(&mut self, number: u64, outcome: RowsOutcome) {
        if let Some(pending) = self.pending.remove(&number) {
            (pending.done)(outcome);
        }
    }
}

/// What an answer says to what was asked for, if it is one to it.
fn outcome_of(asked_for: &AskedFor, answer: RowsAnswer) -> Option<RowsOutcome> {
    match (asked_for, answer) {
        (AskedFor::Rows { .. }, RowsAnswer::Part(part)) => Some(RowsOutcome::Part(part)),
        (AskedFor::Look { .. }, RowsAnswer::Looked(looked)) => Some(RowsOutcome::Looked(looked)),
        _ => None,
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
    fn a_look_is_answered_by_a_look_alone() {
        let (mut reads, rows, told) = begun();
        let tell = Arc::clone(&told);
        let asked_for = AskedFor::Look { rings: (RingToken(1), RingToken(2)), body: Bytes::new() };
        let done = Box::new(move |outcome| tell.lock().push(outcome));
        let look = reads.ask(SetId(5), asked_for, 5_000, done);
        assert!(reads.is_look(look) && !reads.is_look(rows));
        let part = RowsAnswer::Part(Bytes::from_static(b"rows"));
        let looked = Looked { last_us: 7, refused: None };
        assert_eq!(asked(&mut reads, look, 0), Some(NodeId(1)));
        assert_eq!(asked(&mut reads, rows, 0), Some(NodeId(1)));
        // The other one's answer is none: somebody else is asked.
        assert!(reads.answer(NodeId(1), look, part));
        assert!(reads.answer(NodeId(1), rows, RowsAnswer::Looked(looked.clone())));
        assert_eq!(asked(&mut reads, look, 0), Some(NodeId(2)));
        assert!(!reads.answer(NodeId(2), look, RowsAnswer::Looked(looked.clone())));
        assert_eq!(*told.lock(), [RowsOutcome::Looked(looked)]);
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
