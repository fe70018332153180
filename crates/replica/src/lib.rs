//! The replica sets of this node: the one door through which the coordinator reads and commits.
//!
//! On one machine a set has one member, the log append is the commit, and every consistency level
//! is met. It must not know CQL text or client sockets.
//!
//! Reading order: [`ReplicaSets`]; [`budgets`] admits what each set may spend.
pub mod budgets;

use std::fmt;
use std::sync::Arc;

use partition::PhysicalPartition;
use storage::{Storage, Touched};
use types::{Mutation, ReadCommand, ReadScope, RowSink, SetId};
use units::{Charge, rules, table, write_change};

pub use budgets::{Asking, Budgets, Ticket};
pub use storage::{
    AllDone, AnswerTo, Busy, CommitError, CommitResult, Committed, Mailbox, PartitionFilling,
    PartitionFull, RangeSize, Slots, SnapshotError, SnapshotFacts, WithoutRoom,
};

/// Tells what became of a commit, once it is durable.
pub type OutcomeReceiver = tokio::sync::oneshot::Receiver<CommitResult>;

/// What storage is told about the weight of a row: micro request units.
pub fn weigh(touched: Touched) -> u64 {
    let charge = match touched {
        Touched::Row { before, after } => write_change(before, after, 0),
        Touched::Condition(bytes) => {
            table::point_read(bytes.unwrap_or(0)).times(rules::STRONG_READ_TIMES)
        }
        Touched::RangeDeletion => rules::RANGE_DELETION,
        Touched::IndexTerms(count) => rules::INDEX_TERM.times(count),
    };
    charge.micros()
}

/// What mutations cost that were applied.
pub fn charge_of(done: &[types::Done]) -> Charge {
    Charge::from_micros(done.iter().map(|done| done.weight).fold(0, u64::saturating_add))
}

/// The replica sets whose members live on this node.
#[derive(Clone)]
pub struct ReplicaSets {
    storage: Arc<Storage>,
    budgets: Arc<Budgets>,
}

/// A read that could not be served.
#[derive(Debug)]
pub enum ReadError {
    /// Storage could not read.
    Storage(storage::ReadError),
    /// The command asks for keys that the set does not hold.
    Moved(SetId),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Storage(error) => error.fmt(f),
            ReadError::Moved(set) => write!(f, "set {} does not hold these keys", set.0),
        }
    }
}

impl std::error::Error for ReadError {}

impl ReplicaSets {
    /// The sets of a node with that storage.
    pub fn new(storage: Arc<Storage>, budgets: Arc<Budgets>) -> ReplicaSets {
        ReplicaSets { storage, budgets }
    }

    /// What the sets may spend.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// The node's storage, for chores that concern no set: documents, tables, flush.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Reads from a physical partition, row by row.
    pub fn read(
        &self,
        partition: PhysicalPartition,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
    ) -> Result<(), ReadError> {
        let is_held = match &command.scope {
            ReadScope::Partition(key) => partition.range.contains(key.ring()),
            ReadScope::Ring(range) => {
                partition.range.contains(range.start) && partition.range.contains(range.last)
            }
        };
        if !is_held {
            return Err(ReadError::Moved(partition.set));
        }
        self.storage.read(partition.set, command, sink).map_err(ReadError::Storage)
    }

    /// Looks at the sizes of logical partitions before mutations are committed: an error if one would
    /// become larger than it may be, and what to warn of.
    pub fn admit(&self, mutations: &[Mutation]) -> Result<Vec<PartitionFilling>, PartitionFull> {
        self.storage.admit(mutations)
    }

    /// Ends sets, because their keys get other ones: what still comes for them is handed back, and
    /// `hand_over` is called, behind which the others may be committed to. When everything that was
    /// committed to the old sets is applied, and nothing of the others, `show` is called. Nobody waits
    /// for a disk meanwhile but the caller.
    pub fn end_sets(
        &self,
        sets: &[SetId],
        hand_over: impl FnOnce(),
        show: impl FnOnce() + Send + 'static,
    ) -> Result<(), CommitError> {
        self.storage.end_sets(sets, hand_over, show)
    }

    /// About how many entries the index of a command gives, counted up to a bound; `None` if it
    /// cannot answer now.
    pub fn index_weight(
        &self,
        command: &ReadCommand,
        bound: usize,
    ) -> Result<Option<usize>, ReadError> {
        self.storage.index_weight(command, bound).map_err(ReadError::Storage)
    }

    /// Whether the index of a command gives no more than so many entries, each for one row.
    pub fn is_short_lookup(
        &self,
        command: &ReadCommand,
        entries_max: usize,
    ) -> Result<bool, ReadError> {
        self.storage.is_short_lookup(command, entries_max).map_err(ReadError::Storage)
    }

    /// Commits one atomic change over any number of sets: all of it or nothing. With `answer_to`, an
    /// outcome that comes later goes there, and [`ReplicaSets::write_group`] says when to begin.
    pub fn commit_many(
        &self,
        change: impl IntoIterator<Item = (SetId, Mutation)>,
        answer_to: Option<AnswerTo<'_>>,
        without_room: WithoutRoom,
    ) -> Committed {
        self.storage.commit_for(change, answer_to, without_room)
    }

    /// Has what was committed for mailboxes made durable.
    pub fn write_group(&self) {
        self.storage.write_group();
    }
}
