//! The replica sets of this node: the one door through which the coordinator reads and commits, and asks what sets
//! hold. What a node does for itself is asked of its [`NodeStore`].
//!
//! On one machine a set has one member, the log append is the commit, and every consistency level
//! is met. It must not know CQL text or client sockets.
//!
//! Reading order: [`ReplicaSets`]; `elsewhere` for rows on other nodes; [`budgets`] admits what each set may spend; [`NodeStore`].
pub mod budgets;
mod elsewhere;
pub mod group;
mod node_store;
#[cfg(test)]
mod tests;
mod witness;

use std::collections::BTreeMap;
use std::sync::Arc;

use group::Groups;
use partition::PhysicalPartition;
use storage::{Storage, Touched};
use types::{
    Mutation, PartitionKey, ReadCommand, ReadScope, RingRange, RingToken, RowSink, SetId, TableId,
};
use units::{Charge, rules, table, write_change};

pub use budgets::{Asking, Budgets, Ticket};
pub use elsewhere::{Reach, SetReadError};
pub use node_store::NodeStore;
pub use storage::{
    AllDone, AnswerTo, Busy, CommitError, CommitResult, Committed, LogicalSize, Mailbox,
    PartitionFilling, PartitionFull, RangeSize, ReadError, Slots, SnapshotError, SnapshotFacts,
    WithoutRoom,
};

pub use witness::{Span, Step, TraceContext, Witness};

/// Tells what became of a commit, once it is durable.
pub type OutcomeReceiver = tokio::sync::oneshot::Receiver<CommitResult>;

/// What of a change is done as a whole, where it lies in several sets with members on several nodes. On a node that runs alone all
/// of it is, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// All of it, or nothing.
    All,
    /// What lies in one set, for each.
    EachSet,
}

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
    /// Where sets have members on several nodes.
    groups: Option<Groups>,
}

impl ReplicaSets {
    /// The sets of a node with that storage, which runs alone.
    pub fn new(storage: Arc<Storage>, budgets: Arc<Budgets>) -> ReplicaSets {
        ReplicaSets { storage, budgets, groups: None }
    }

    /// The same, where sets have members on several nodes.
    pub fn with_groups(self, groups: Groups) -> ReplicaSets {
        ReplicaSets { groups: Some(groups), ..self }
    }

    /// The members of sets that have several; `None` on a node that runs alone.
    #[inline]
    pub fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    /// What the sets may spend.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// The budgets are parts of what sets may spend on so many nodes together. To be said before there are any.
    pub fn share_budgets(&self, node_count: usize) {
        if let Some(groups) = &self.groups {
            groups.share_budgets(&self.budgets, node_count);
        }
    }

    /// Reads from a physical partition, row by row: here, or from a node that has them.
    pub fn read(
        &self,
        partition: PhysicalPartition,
        command: &ReadCommand,
        reach: Reach<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<(), SetReadError> {
        // Whoever asks located the keys with the map that this partition is of: another answer is a bug, and must
        // not look like an empty one.
        assert!(is_held(partition, command), "set {} does not hold what is read", partition.set.0);
        match &self.groups {
            None => Ok(self.storage.read(partition.set, command, sink)?),
            Some(groups) => self.read_in_group(groups, partition.set, command, reach, sink),
        }
    }

    fn read_in_group(
        &self,
        groups: &Groups,
        set: SetId,
        command: &ReadCommand,
        reach: Reach<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<(), SetReadError> {
        let seat = groups.seat(set).filter(|_| is_read_here(groups, set, reach));
        match seat {
            None if reach.may_wait => elsewhere::read(groups, set, command, reach, sink),
            None => Err(SetReadError::Elsewhere),
            Some(_) => {
                let witness = groups.witness().filter(|_| reach.trace.is_some());
                let started_us = witness.map(|it| it.now_us());
                let read = self.storage.read(set, command, sink);
                if let (Some(witness), Some(parent), Some(started_us)) =
                    (witness, reach.trace.copied(), started_us)
                {
                    tell_read(&**witness, parent, set, started_us, read.is_ok());
                }
                read.inspect_err(|error| {
                    if matches!(error, ReadError::Corrupt { .. }) {
                        groups.found_damage(set, &error.to_string());
                    }
                })?;
                // The member was handed rows, or went, meanwhile: what was found may be part of both. Or the set was split, and
                // what another one holds now may be newer.
                let is_whole = groups.seat(set) == seat && groups.holds(set, part_of(command));
                if is_whole { Ok(()) } else { Err(SetReadError::Elsewhere) }
            }
        }
    }

    /// What a table holds in each of some ranges of the ring.
    pub fn range_sizes(
        &self,
        table: TableId,
        ranges: impl IntoIterator<Item = RingRange>,
    ) -> Vec<RangeSize> {
        self.storage.range_sizes(table, ranges)
    }

    /// Hands over how the bytes of a table lie in a range of the ring: the first token and the bytes of each of
    /// its finest known parts.
    pub fn range_weights(
        &self,
        table: TableId,
        range: RingRange,
        take: impl FnMut(RingToken, u64),
    ) {
        self.storage.range_weights(table, range, take);
    }

    /// The largest logical partitions of a table, the largest first.
    pub fn largest_partitions(&self, table: TableId, count_max: usize) -> Vec<LogicalSize> {
        self.storage.largest_partitions(table, count_max)
    }

    /// What a logical partition holds, if its size is known.
    pub fn logical_size(&self, table: TableId, key: &PartitionKey) -> Option<RangeSize> {
        self.storage.logical_size(table, key)
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
        self.storage.index_weight(command, bound)
    }

    /// Whether the index of a command gives no more than so many entries, each for one row.
    pub fn is_short_lookup(
        &self,
        command: &ReadCommand,
        entries_max: usize,
    ) -> Result<bool, ReadError> {
        self.storage.is_short_lookup(command, entries_max)
    }

    /// Commits one change over any number of sets. With `answer_to`, an
    /// outcome that comes later goes there, and [`ReplicaSets::write_group`] says when to begin. `given_us`: the time that
    /// this node gave, where no client said one. `trace`: which span it is a part of, where it is traced.
    pub fn commit_many(
        &self,
        change: impl IntoIterator<Item = (SetId, Mutation)>,
        atomicity: Atomicity,
        given_us: Option<i64>,
        trace: Option<&TraceContext>,
        answer_to: Option<AnswerTo<'_>>,
        without_room: WithoutRoom,
    ) -> Committed {
        match &self.groups {
            None => self.storage.commit_for(change, answer_to, without_room),
            Some(groups) => {
                let trace = trace.copied();
                commit_in_groups(groups, change, atomicity, given_us, trace, answer_to)
            }
        }
    }

    /// Whether there is no room for a change now. Asked before anything is done for it.
    #[inline]
    pub fn busy(&self, without_room: WithoutRoom) -> Result<Option<Busy>, CommitError> {
        self.storage.busy(without_room)
    }

    /// Waits until a change that there was no room for is worth to be tried again.
    pub fn room(&self, busy: Busy) -> impl Future<Output = ()> + Send + use<> {
        self.storage.room(busy)
    }

    /// Has what was committed for mailboxes made durable.
    pub fn write_group(&self) {
        match &self.groups {
            None => self.storage.write_group(),
            Some(groups) => groups.attend(),
        }
    }
}

fn commit_in_groups(
    groups: &Groups,
    change: impl IntoIterator<Item = (SetId, Mutation)>,
    atomicity: Atomicity,
    given_us: Option<i64>,
    trace: Option<TraceContext>,
    answer_to: Option<AnswerTo<'_>>,
) -> Committed {
    let change: Vec<(SetId, Mutation)> = change.into_iter().collect();
    let Some((first, _)) = change.first() else { return Committed::Now(Ok(AllDone::new())) };
    let first = *first;
    if change.len() == 1 {
        let mutations = change.into_iter().map(|(_, mutation)| mutation).collect();
        return groups.commit(first, mutations, given_us, trace, answer_to);
    }
    // What is one set's may be two sets' before it gets there.
    let is_one_sets = change.iter().all(|(set, _)| *set == first);
    match atomicity {
        Atomicity::EachSet if !is_one_sets => {
            let mut by_set: BTreeMap<SetId, Vec<(usize, Mutation)>> = BTreeMap::new();
            for (slot, (set, mutation)) in change.into_iter().enumerate() {
                by_set.entry(set).or_default().push((slot, mutation));
            }
            groups.commit_apart(by_set.into_iter().collect(), given_us, trace, answer_to)
        }
        Atomicity::All | Atomicity::EachSet => {
            let mutations = change.into_iter().map(|(_, mutation)| mutation).collect();
            groups.commit_batch(mutations, given_us, trace, answer_to)
        }
    }
}

#[cold]
fn tell_read(
    witness: &dyn Witness,
    parent: TraceContext,
    set: SetId,
    started_us: i64,
    is_good: bool,
) {
    let context = witness.below(parent);
    let (parent, set) = (parent.span, Some(set));
    witness.tell(Span { context, parent, step: Step::Read, set, peer: None, started_us, is_good });
}

/// Whether this node's member of a set may answer a read.
fn is_read_here(groups: &Groups, set: SetId, reach: Reach<'_>) -> bool {
    match reach.is_strong {
        true => reach.confirmed.contains(&set) || groups.has_lease(set),
        false => reach.confirmed.contains(&set) || groups.may_read_locally(set),
    }
}

/// The part of the ring that a command looks at.
fn part_of(command: &ReadCommand) -> RingRange {
    match &command.scope {
        ReadScope::Partition(key) => RingRange { start: key.ring(), last: key.ring() },
        ReadScope::Ring(range) => *range,
    }
}

/// Whether a physical partition has all keys that a command asks for.
fn is_held(partition: PhysicalPartition, command: &ReadCommand) -> bool {
    let part = part_of(command);
    partition.range.contains(part.start) && partition.range.contains(part.last)
}
