//! Judges what clients saw: whether a history of overlapping operations on one key can be explained by some order in which
//! each took effect at one moment between its call and its return (it is then *linearizable*).
//!
//! The search is that of Wing and Gong (*Testing and verifying concurrent objects*, 1993) with Lowe's improvements (*Testing for
//! linearizability*, 2017): operations are placed one after the other, undone where that leads nowhere, and what was reached
//! once, the operations placed and the state they lead to, is not looked at again. Operations without an answer stay open: they may take
//! effect at any later moment, or never.
//!
//! Keys are judged one by one ([`by_key`]): a history is linearizable if and only if the part of each key is, and the search grows
//! with the operations that overlap. For histories too long for a search there are two cheap checks, [`counter_bounds`] and
//! [`appended_once`].
//!
//! Reading order: [`Operation`], [`Model`], [`check`], `models.rs`, `search.rs`, `cheap.rs`.

#![expect(clippy::indexing_slicing, reason = "a test tool: an index out of bounds is its own bug")]

mod cheap;
#[cfg(test)]
mod known_tests;
mod models;
#[cfg(test)]
mod random_tests;
mod search;
mod story;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;

pub use cheap::{Flaw, appended_once, counter_bounds};
pub use models::{
    AppendList, Counter, CounterInput, CounterOutput, ListInput, ListOutput, Register,
    RegisterInput, RegisterOutput,
};

/// The search gives up after so many configurations. A key with 200 operations of eight clients takes about three hundred if it is
/// linearizable, and where it is not, mostly less than ten thousand; each open operation that may hide the fault doubles that.
pub const CONFIGURATIONS_MAX: usize = 300_000;

/// What one client asked for on one key, and what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<I, O> {
    /// Who asked; for the story only.
    pub client: u32,
    /// When it was called: nanoseconds, or any number that grows with time.
    pub call_at: u64,
    /// When its answer came, in the same unit. `None`: it never came, and the operation may take effect at any later time, or never.
    pub return_at: Option<u64>,
    /// What was asked for.
    pub input: I,
    /// What was answered; `None` where that is not known, and anything may have been. Of an operation
    /// without a return it is not looked at.
    pub output: Option<O>,
}

impl<I, O> Operation<I, O> {
    /// An operation that was answered.
    pub fn answered(client: u32, call_at: u64, return_at: u64, input: I, output: O) -> Self {
        Operation { client, call_at, return_at: Some(return_at), input, output: Some(output) }
    }

    /// An operation that was never answered, or only with a timeout.
    pub fn open(client: u32, call_at: u64, input: I) -> Self {
        Operation { client, call_at, return_at: None, input, output: None }
    }

    /// The answer, if there was one.
    fn known_output(&self) -> Option<&O> {
        self.output.as_ref().filter(|_| self.return_at.is_some())
    }
}

/// What one key does when its operations come one after the other.
pub trait Model {
    /// What it holds.
    type State: Clone + Eq + Hash + fmt::Debug;
    /// What is asked of it.
    type Input: Eq + fmt::Debug;
    /// What it answers.
    type Output: fmt::Debug;

    /// What it holds at first.
    fn initial(&self) -> Self::State;

    /// What it holds after an operation; `None` if it would have answered something else. Without an output any answer will do.
    fn step(
        &self,
        state: &Self::State,
        input: &Self::Input,
        output: Option<&Self::Output>,
    ) -> Option<Self::State>;
}

/// The operations of a model.
pub type OperationOf<M> = Operation<<M as Model>::Input, <M as Model>::Output>;

/// What is said of a history. Only [`Verdict::Linearizable`] is a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Some order explains it.
    Linearizable,
    /// No order does.
    NotLinearizable(Failure),
    /// The search was given up, see [`CONFIGURATIONS_MAX`].
    Undecided {
        /// So many configurations were looked at.
        configurations: usize,
    },
}

impl Verdict {
    /// Whether it is a pass.
    pub fn is_linearizable(&self) -> bool {
        *self == Verdict::Linearizable
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Linearizable => f.write_str("linearizable"),
            Verdict::NotLinearizable(failure) => f.write_str(&failure.story),
            Verdict::Undecided { configurations } => {
                write!(f, "undecided after {configurations} configurations")
            }
        }
    }
}

/// How far an explanation of a history comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The longest order that works, as places in the history.
    pub longest_order: Vec<usize>,
    /// The operation that had to take effect next, and could not.
    pub stuck_at: usize,
    /// All of that to be read.
    pub story: String,
}

/// Judges the operations of one key, in any order.
pub fn check<M: Model>(model: &M, history: &[OperationOf<M>]) -> Verdict {
    check_within(model, history, CONFIGURATIONS_MAX)
}

/// As [`check`], with another bound.
pub fn check_within<M: Model>(
    model: &M,
    history: &[OperationOf<M>],
    configurations_max: usize,
) -> Verdict {
    search::Search::new(model, history).run(configurations_max)
}

/// The history of each key.
pub fn by_key<K: Ord, I, O>(
    operations: impl IntoIterator<Item = (K, Operation<I, O>)>,
) -> BTreeMap<K, Vec<Operation<I, O>>> {
    let mut histories = BTreeMap::<K, Vec<Operation<I, O>>>::new();
    for (key, operation) in operations {
        histories.entry(key).or_default().push(operation);
    }
    histories
}
