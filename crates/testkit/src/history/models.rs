//! What registers, counters and lists do when their operations come one after the other.
//!
//! `Refused` is the answer of an operation that certainly had no effect (*unavailable*, *invalid*). A timeout is
//! none: such an operation is left open.

use std::fmt::Debug;
use std::hash::Hash;

use super::{Model, Operation};

/// One value that is read, written and compared and set; `None` is a row that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register<V> {
    /// What it holds at first.
    pub initial: Option<V>,
}

/// What is asked of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterInput<V> {
    /// Its value.
    Read,
    /// To hold this from now on; `None` deletes.
    Write(Option<V>),
    /// To hold `new`, if it holds `expected`.
    CompareAndSet {
        /// What it must hold.
        expected: Option<V>,
        /// What it holds then.
        new: Option<V>,
    },
}

/// What a register answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterOutput<V> {
    /// To a read.
    Value(Option<V>),
    /// To a write.
    Written,
    /// To a compare-and-set: it held what was expected.
    Applied,
    /// To a compare-and-set: it held something else.
    NotApplied {
        /// Namely this.
        current: Option<V>,
    },
    /// Nothing was done.
    Refused,
}

impl<V: Clone + Eq + Hash + Debug> Model for Register<V> {
    type State = Option<V>;
    type Input = RegisterInput<V>;
    type Output = RegisterOutput<V>;

    fn initial(&self) -> Option<V> {
        self.initial.clone()
    }

    fn step(
        &self,
        state: &Option<V>,
        input: &RegisterInput<V>,
        output: Option<&RegisterOutput<V>>,
    ) -> Option<Option<V>> {
        use {RegisterInput as In, RegisterOutput as Out};
        match (input, output) {
            (_, Some(Out::Refused)) | (In::Read, None) => Some(state.clone()),
            (In::Read, Some(Out::Value(value))) => (value == state).then(|| state.clone()),
            (In::Write(value), None | Some(Out::Written)) => Some(value.clone()),
            (In::CompareAndSet { expected, new }, None) => {
                Some(if state == expected { new.clone() } else { state.clone() })
            }
            (In::CompareAndSet { expected, new }, Some(Out::Applied)) => {
                (state == expected).then(|| new.clone())
            }
            (In::CompareAndSet { expected, .. }, Some(Out::NotApplied { current })) => {
                (state != expected && state == current).then(|| state.clone())
            }
            // An answer to another question.
            (In::Read | In::Write(_) | In::CompareAndSet { .. }, Some(_)) => None,
        }
    }
}

/// A number that is added to, zero at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter;

/// What is asked of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterInput {
    /// Its value.
    Read,
    /// To become so much larger.
    Add(i64),
}

/// What a counter answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOutput {
    /// To a read.
    Value(i64),
    /// To an addition.
    Added,
    /// Nothing was done.
    Refused,
}

impl Model for Counter {
    type State = i64;
    type Input = CounterInput;
    type Output = CounterOutput;

    fn initial(&self) -> i64 {
        0
    }

    fn step(
        &self,
        state: &i64,
        input: &CounterInput,
        output: Option<&CounterOutput>,
    ) -> Option<i64> {
        match (input, output) {
            (_, Some(CounterOutput::Refused)) | (CounterInput::Read, None) => Some(*state),
            (CounterInput::Read, Some(CounterOutput::Value(value))) => {
                (value == state).then_some(*state)
            }
            // Counters wrap around, as Cassandra's do.
            (CounterInput::Add(amount), None | Some(CounterOutput::Added)) => {
                Some(state.wrapping_add(*amount))
            }
            (CounterInput::Read | CounterInput::Add(_), Some(_)) => None,
        }
    }
}

/// A list that elements are appended to, each another one, empty at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendList<E> {
    longest_read: Vec<E>,
}

/// What is asked of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListInput<E> {
    /// All its elements.
    Read,
    /// One more, at its end.
    Append(E),
}

/// What a list answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListOutput<E> {
    /// To a read.
    List(Vec<E>),
    /// To an append.
    Appended,
    /// Nothing was done.
    Refused,
}

impl<E: Clone + Eq> AppendList<E> {
    /// The model for a history. The longest list that was read tells the order of its elements, and so spares the
    /// search all other orders: whatever the list held at any time begins with that one, or that one begins with it.
    pub fn of(history: &[Operation<ListInput<E>, ListOutput<E>>]) -> AppendList<E> {
        let lists = history.iter().filter_map(|operation| match operation.known_output() {
            Some(ListOutput::List(list)) => Some(list),
            _ => None,
        });
        AppendList {
            longest_read: lists.max_by_key(|list| list.len()).cloned().unwrap_or_default(),
        }
    }
}

impl<E: Clone + Eq + Hash + Debug> Model for AppendList<E> {
    type State = Vec<E>;
    type Input = ListInput<E>;
    type Output = ListOutput<E>;

    fn initial(&self) -> Vec<E> {
        Vec::new()
    }

    fn step(
        &self,
        state: &Vec<E>,
        input: &ListInput<E>,
        output: Option<&ListOutput<E>>,
    ) -> Option<Vec<E>> {
        match (input, output) {
            (_, Some(ListOutput::Refused)) | (ListInput::Read, None) => Some(state.clone()),
            (ListInput::Read, Some(ListOutput::List(list))) => {
                (list == state).then(|| state.clone())
            }
            (ListInput::Append(element), None | Some(ListOutput::Appended)) => {
                let is_foretold =
                    self.longest_read.get(state.len()).is_none_or(|next| next == element);
                is_foretold.then(|| {
                    let mut longer = Vec::with_capacity(state.len() + 1);
                    longer.extend_from_slice(state);
                    longer.push(element.clone());
                    longer
                })
            }
            (ListInput::Read | ListInput::Append(_), Some(_)) => None,
        }
    }
}
