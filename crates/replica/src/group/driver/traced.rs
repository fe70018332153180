//! Requests of a node that are traced, on their way to other nodes; and those of other nodes, until they are answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use types::{NodeId, SetId};

use super::Transport;
use crate::group::host::NodeMessage;
use crate::group::node_wire::KIND_TRACED;
use crate::group::reads::{RowsAnswer, RowsDone, RowsOutcome};
use crate::group::{ProposalAnswer, WriteDone, WriteOutcome};
use crate::witness::{Span, Step, TraceContext, Witness};

/// So many are known at once, on each side; the oldest are forgotten, and what other nodes do for them is not told.
const KNOWN_MAX: usize = 1024;

/// A request or a read: they are numbered apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    number: u64,
    is_read: bool,
}

/// What this node does for another.
struct Served {
    from: NodeId,
    number: Number,
    parent: TraceContext,
    set: Option<SetId>,
    started_us: i64,
}

#[derive(Default)]
struct Known {
    /// Of this node's own requests: which span they are.
    requests: BTreeMap<u64, TraceContext>,
    /// The same of its reads.
    reads: BTreeMap<u64, TraceContext>,
    served: VecDeque<Served>,
}

/// What is traced. Nothing, where nobody is told of it.
#[derive(Default)]
pub(super) struct Traced {
    witness: std::sync::OnceLock<Arc<dyn Witness>>,
    known: Mutex<Known>,
}

impl Traced {
    pub(super) fn set_witness(&self, witness: Arc<dyn Witness>) {
        let _ = self.witness.set(witness);
    }

    pub(super) fn witness(&self) -> Option<&Arc<dyn Witness>> {
        self.witness.get()
    }

    /// A span below another, if there is one and somebody is told: itself, and what is to be called when it is over.
    pub(super) fn begin(
        &self,
        parent: Option<TraceContext>,
        step: Step,
        set: Option<SetId>,
    ) -> Option<(TraceContext, impl FnOnce(bool) + Send + use<>)> {
        let (parent, witness) = parent.zip(self.witness.get())?;
        let (context, started_us) = (witness.below(parent), witness.now_us());
        let witness = Arc::clone(witness);
        let end = move |is_good| {
            let parent = parent.span;
            witness.tell(Span { context, parent, step, set, peer: None, started_us, is_good });
        };
        Some((context, end))
    }

    /// The same around a change: who is told of its outcome is told, and its span ends.
    pub(super) fn around(
        &self,
        parent: Option<TraceContext>,
        step: Step,
        set: Option<SetId>,
        done: WriteDone,
    ) -> (Option<TraceContext>, WriteDone) {
        match self.begin(parent, step, set) {
            None => (None, done),
            Some((context, end)) => {
                let told: WriteDone = Box::new(move |outcome| {
                    end(matches!(outcome, WriteOutcome::Done(Ok(_))));
                    done(outcome);
                });
                (Some(context), told)
            }
        }
    }

    /// The same around a read of rows that lie elsewhere.
    pub(super) fn around_read(
        &self,
        parent: Option<TraceContext>,
        set: SetId,
        done: RowsDone,
    ) -> (Option<TraceContext>, RowsDone) {
        match self.begin(parent, Step::ReadElsewhere, Some(set)) {
            None => (None, done),
            Some((context, end)) => {
                let told: RowsDone = Box::new(move |outcome| {
                    end(matches!(outcome, RowsOutcome::Part(_)));
                    done(outcome);
                });
                (Some(context), told)
            }
        }
    }

    /// This node gave a number to one of its requests, or reads.
    pub(super) fn number(&self, context: Option<TraceContext>, number: Option<u64>, is_read: bool) {
        let Some((context, number)) = context.zip(number) else { return };
        let known = &mut *self.known.lock();
        let own = if is_read { &mut known.reads } else { &mut known.requests };
        if own.len() >= KNOWN_MAX {
            own.pop_first();
        }
        own.insert(number, context);
    }

    /// Looks at what is sent: of what is traced other nodes are told so before, and what was done for other nodes is over.
    pub(super) fn look(
        &self,
        messages: Vec<(NodeId, NodeMessage)>,
        transport: &dyn Transport,
    ) -> Vec<(NodeId, NodeMessage)> {
        let Some(witness) = self.witness.get() else { return messages };
        let known = &mut *self.known.lock();
        if known.requests.is_empty() && known.reads.is_empty() && known.served.is_empty() {
            return messages;
        }
        let mut sent = Vec::with_capacity(messages.len());
        for (to, message) in messages {
            if let Some((number, _)) = asked(&message)
                && let Some(context) = known.own(number)
                && transport.knows(to, KIND_TRACED)
            {
                let Number { number, is_read } = number;
                sent.push((to, NodeMessage::Traced { number, is_read, context }));
            }
            if let NodeMessage::Answer { number, answer } = &message {
                let is_good = matches!(answer, ProposalAnswer::Done(Ok(_)));
                let number = Number { number: *number, is_read: false };
                known.end(witness, to, number, is_good);
            }
            sent.push((to, message));
        }
        sent
    }

    /// Looks at what came: takes out what is said of traces.
    pub(super) fn hear(&self, from: NodeId, messages: &mut Vec<NodeMessage>) {
        if !messages.iter().any(|it| matches!(it, NodeMessage::Traced { .. })) {
            return;
        }
        let known = &mut *self.known.lock();
        messages.retain(|message| {
            if let NodeMessage::Traced { number, is_read, context } = message {
                let number = Number { number: *number, is_read: *is_read };
                if let Some(witness) = self.witness.get() {
                    known.serve(from, number, *context, witness.now_us());
                }
                return false;
            }
            if let Some((number, set)) = asked(message)
                && let Some(served) = known.find(from, number)
            {
                served.set = Some(set);
            }
            true
        });
    }

    /// Rows were read for another node.
    pub(super) fn served(&self, to: NodeId, number: u64, answer: &RowsAnswer) {
        if let Some(witness) = self.witness.get() {
            let is_good = matches!(answer, RowsAnswer::Part(_));
            self.known.lock().end(witness, to, Number { number, is_read: true }, is_good);
        }
    }
}

impl Known {
    fn own(&self, Number { number, is_read }: Number) -> Option<TraceContext> {
        let own = if is_read { &self.reads } else { &self.requests };
        own.get(&number).copied()
    }

    fn find(&mut self, from: NodeId, number: Number) -> Option<&mut Served> {
        self.served.iter_mut().find(|it| it.from == from && it.number == number)
    }

    fn serve(&mut self, from: NodeId, number: Number, parent: TraceContext, started_us: i64) {
        if self.served.len() >= KNOWN_MAX {
            self.served.pop_front();
        }
        self.served.push_back(Served { from, number, parent, set: None, started_us });
    }

    fn end(&mut self, witness: &Arc<dyn Witness>, to: NodeId, number: Number, is_good: bool) {
        let found = self.served.iter().position(|it| it.from == to && it.number == number);
        let Some(served) = found.and_then(|place| self.served.remove(place)) else { return };
        witness.tell(Span {
            context: witness.below(served.parent),
            parent: served.parent.span,
            step: if number.is_read { Step::Serve } else { Step::Lead },
            set: served.set,
            peer: Some(to),
            started_us: served.started_us,
            is_good,
        });
    }
}

/// The number and set of a message that asks for something.
fn asked(message: &NodeMessage) -> Option<(Number, SetId)> {
    match message {
        NodeMessage::Request { number, set, .. } | NodeMessage::Relay { number, set, .. } => {
            Some((Number { number: *number, is_read: false }, *set))
        }
        NodeMessage::Read { number, set, .. } => {
            Some((Number { number: *number, is_read: true }, *set))
        }
        _ => None,
    }
}
