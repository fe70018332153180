//! The search for an order that explains a history.
//!
//! Open operations would make it exponential: each may come anywhere, so every subset of them could be there at every moment. But one
//! that nobody notices can as well come later. So an open operation is placed only where the operation right behind
//! it comes out differently without it; every order can be turned into one of that kind (see [`Search::is_idle`]).

use std::collections::HashSet;

use super::story::story;
use super::{Failure, Model, OperationOf, Verdict};

/// The place of an operation among all, by the time of its call.
type Number = usize;

pub(super) struct Search<'h, M: Model> {
    model: &'h M,
    history: &'h [OperationOf<M>],
    /// Places in the history, by the time of the call.
    by_call: Vec<usize>,
    /// Of each open operation the one before it that asks for the same: that one is placed first, they cannot be told apart.
    earlier_twin: Vec<Option<Number>>,
    timeline: Timeline,
    at: Configuration<M::State>,
    undo: Vec<Undo<M::State>>,
    seen: HashSet<Configuration<M::State>>,
    /// Operations with a return that are not placed.
    closed_left: usize,
    longest: Longest<M::State>,
}

/// What was placed, and where that leads.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration<S> {
    placed: Box<[u64]>,
    state: S,
    /// If the last operation that was placed is open: it, and the state before it.
    behind_open: Option<(Number, S)>,
}

struct Undo<S> {
    number: Number,
    state: S,
    behind_open: Option<(Number, S)>,
}

/// The order that explains most answers.
struct Longest<S> {
    closed_left: usize,
    order: Vec<Number>,
    stuck_at: Number,
    state: S,
}

impl<'h, M: Model> Search<'h, M> {
    pub(super) fn new(model: &'h M, history: &'h [OperationOf<M>]) -> Search<'h, M> {
        let mut by_call: Vec<usize> = (0..history.len()).collect();
        by_call.sort_by_key(|place| history[*place].call_at);
        let ordered: Vec<&OperationOf<M>> = by_call.iter().map(|place| &history[*place]).collect();
        let earlier_twin = ordered.iter().enumerate().map(|(number, operation)| {
            let is_twin = |other: &&OperationOf<M>| {
                other.return_at.is_none() && other.input == operation.input
            };
            let before = &ordered[..number];
            before.iter().rposition(is_twin).filter(|_| operation.return_at.is_none())
        });
        let earlier_twin = earlier_twin.collect();
        let times = ordered.iter().map(|operation| (operation.call_at, operation.return_at));
        let at = Configuration {
            placed: vec![0; history.len().div_ceil(64)].into_boxed_slice(),
            state: model.initial(),
            behind_open: None,
        };
        let longest = Longest {
            closed_left: usize::MAX,
            order: Vec::new(),
            stuck_at: 0,
            state: model.initial(),
        };
        Search {
            model,
            history,
            timeline: Timeline::new(times),
            earlier_twin,
            closed_left: history.iter().filter(|operation| operation.return_at.is_some()).count(),
            by_call,
            at,
            undo: Vec::new(),
            seen: HashSet::new(),
            longest,
        }
    }

    pub(super) fn run(mut self, configurations_max: usize) -> Verdict {
        let mut event = self.timeline.first();
        while self.closed_left > 0 {
            match self.timeline.events[event] {
                Event::Call(number) => {
                    event = match self.place(number) {
                        true => self.timeline.first(),
                        false => self.timeline.next[event],
                    };
                    if self.seen.len() > configurations_max {
                        return Verdict::Undecided { configurations: self.seen.len() };
                    }
                }
                // Whatever is called behind this return cannot come before the operation that returned.
                Event::Return(number) => {
                    self.note_longest(number);
                    match self.take_back() {
                        Some(taken_back) => event = self.timeline.next[taken_back],
                        None => return Verdict::NotLinearizable(self.failure()),
                    }
                }
                Event::Start | Event::End => {
                    unreachable!("an operation that is not placed returns somewhere")
                }
            }
        }
        Verdict::Linearizable
    }

    fn operation(&self, number: Number) -> &'h OperationOf<M> {
        &self.history[self.by_call[number]]
    }

    fn step(&self, state: &M::State, number: Number) -> Option<M::State> {
        let operation = self.operation(number);
        self.model.step(state, &operation.input, operation.known_output())
    }

    /// Places an operation next, unless its answer contradicts that or it was tried already.
    fn place(&mut self, number: Number) -> bool {
        let Some(state) = self.step(&self.at.state, number) else { return false };
        let is_open = self.operation(number).return_at.is_none();
        if is_open {
            let is_before_twin =
                self.earlier_twin[number].is_some_and(|twin| !is_placed(&self.at.placed, twin));
            if is_before_twin || state == self.at.state {
                return false;
            }
        }
        if self.is_idle(number, is_open, &state) {
            return false;
        }
        let before = std::mem::replace(&mut self.at.state, state);
        let behind_open = is_open.then(|| (number, before.clone()));
        let behind_open = std::mem::replace(&mut self.at.behind_open, behind_open);
        self.at.placed[number / 64] ^= 1 << (number % 64);
        if !self.seen.insert(self.at.clone()) {
            self.at.placed[number / 64] ^= 1 << (number % 64);
            self.at.state = before;
            self.at.behind_open = behind_open;
            return false;
        }
        self.undo.push(Undo { number, state: before, behind_open });
        self.timeline.lift(number);
        self.closed_left -= usize::from(!is_open);
        true
    }

    /// Whether the open operation right before this one is in vain there: it makes no difference, or would make the same one
    /// right behind this operation. Where the two are both open, they come in the order of their numbers.
    ///
    /// Nothing is missed: in an order that is refused here the open operation can be left out, or moved one place back, or
    /// the two exchanged, and what comes out is an order again. That can be done only so often; then none is refused.
    fn is_idle(&self, number: Number, is_open: bool, state: &M::State) -> bool {
        let Some((open, before)) = &self.at.behind_open else { return false };
        let Some(without) = self.step(before, number) else { return false };
        if without == *state {
            return true;
        }
        if is_open && *open < number {
            return false;
        }
        self.step(&without, *open).is_some_and(|exchanged| exchanged == *state)
    }

    /// Takes the last operation back: the event of its call.
    fn take_back(&mut self) -> Option<usize> {
        let undo = self.undo.pop()?;
        self.at.placed[undo.number / 64] ^= 1 << (undo.number % 64);
        self.at.state = undo.state;
        self.at.behind_open = undo.behind_open;
        self.closed_left += usize::from(self.operation(undo.number).return_at.is_some());
        self.timeline.put_back(undo.number);
        Some(self.timeline.call_of[undo.number])
    }

    fn note_longest(&mut self, stuck_at: Number) {
        // Of two that explain as much the shorter one: it has fewer open operations that do not help.
        let (explains, length) = (self.closed_left, self.undo.len());
        if (explains, length) < (self.longest.closed_left, self.longest.order.len()) {
            self.longest = Longest {
                closed_left: self.closed_left,
                order: self.undo.iter().map(|undo| undo.number).collect(),
                stuck_at,
                state: self.at.state.clone(),
            };
        }
    }

    fn failure(&self) -> Failure {
        let longest_order: Vec<usize> =
            self.longest.order.iter().map(|number| self.by_call[*number]).collect();
        let stuck_at = self.by_call[self.longest.stuck_at];
        let story = story::<M>(self.history, &longest_order, &self.longest.state, stuck_at);
        Failure { longest_order, stuck_at, story }
    }
}

fn is_placed(placed: &[u64], number: Number) -> bool {
    placed[number / 64] & (1 << (number % 64)) != 0
}

#[derive(Clone, Copy)]
enum Event {
    Start,
    Call(Number),
    Return(Number),
    End,
}

/// Calls and returns in the order of time, without those of operations that are placed: a doubly linked list,
/// so that an operation is taken out and put back in a few steps.
struct Timeline {
    events: Vec<Event>,
    next: Vec<usize>,
    previous: Vec<usize>,
    call_of: Vec<usize>,
    return_of: Vec<Option<usize>>,
}

impl Timeline {
    /// Of the times of call and return of each operation, by number.
    fn new(times: impl Iterator<Item = (u64, Option<u64>)>) -> Timeline {
        let mut timed = Vec::new();
        let mut count = 0;
        for (number, (call_at, return_at)) in times.enumerate() {
            // At one moment calls come first: operations that touch may have overlapped.
            timed.push((call_at, false, number));
            if let Some(return_at) = return_at {
                assert!(call_at <= return_at, "an operation returned before it was called");
                timed.push((return_at, true, number));
            }
            count = number + 1;
        }
        timed.sort_unstable();
        let (mut call_of, mut return_of) = (vec![0; count], vec![None; count]);
        let mut events = vec![Event::Start];
        for (_, is_return, number) in timed {
            if is_return {
                return_of[number] = Some(events.len());
                events.push(Event::Return(number));
            } else {
                call_of[number] = events.len();
                events.push(Event::Call(number));
            }
        }
        events.push(Event::End);
        let next = (1..=events.len()).collect();
        let previous = (0..events.len()).map(|event| event.saturating_sub(1)).collect();
        Timeline { events, next, previous, call_of, return_of }
    }

    fn first(&self) -> usize {
        self.next[0]
    }

    fn lift(&mut self, number: Number) {
        for event in [Some(self.call_of[number]), self.return_of[number]].into_iter().flatten() {
            let (previous, next) = (self.previous[event], self.next[event]);
            self.next[previous] = next;
            self.previous[next] = previous;
        }
    }

    /// Undoes the last [`Timeline::lift`].
    fn put_back(&mut self, number: Number) {
        for event in [self.return_of[number], Some(self.call_of[number])].into_iter().flatten() {
            let (previous, next) = (self.previous[event], self.next[event]);
            self.next[previous] = event;
            self.previous[next] = event;
        }
    }
}
