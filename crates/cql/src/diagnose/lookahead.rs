//! Which way to take, by looking at the tokens ahead.
//!
//! A decision is made as Cassandra's parser generator makes it: all ways are followed at once,
//! token by token, until one way is left or none. A rule's end, where the caller is not known,
//! goes on behind every call of the rule. The sets of places are kept, so that the same look ahead
//! is computed once.

use std::collections::HashMap;

use super::network::{Decision, DecisionId, Method, Network, State, StateId};
use crate::lexer::Token;

/// Most sets that are kept before all are forgotten.
const SETS_MAX: usize = 20_000;

/// A place in the network that a way has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    way: u16,
    state: StateId,
    /// The callers inside the look ahead; 0 if none is known.
    callers: u32,
}

/// What a set of places says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More tokens are needed.
    Open,
    /// One way is left.
    Only(u16),
    /// These ways cannot be told apart; trials decide.
    Trial(Box<[u16]>),
}

#[derive(Debug)]
struct Set {
    places: Box<[Place]>,
    verdict: Verdict,
}

/// Sets of one decision.
#[derive(Debug, Default)]
struct Table {
    sets: Vec<Set>,
    index: HashMap<Box<[Place]>, usize>,
    edges: HashMap<(usize, Token), Option<usize>>,
}

/// All that looks ahead have learned.
#[derive(Debug, Default)]
pub(super) struct Lookahead {
    tables: HashMap<DecisionId, Table>,
    /// Callers: the callers of the caller, and the state behind the call. Numbered from 1.
    callers: Vec<(u32, StateId)>,
    caller_index: HashMap<(u32, StateId), u32>,
    set_count: usize,
}

impl Lookahead {
    /// Forgets everything if it has become too much. Not to be called during a walk.
    pub(super) fn bound(&mut self) {
        if self.set_count > SETS_MAX {
            *self = Self::default();
        }
    }

    /// The set before the first token.
    pub(super) fn first(&mut self, network: &Network, id: DecisionId) -> usize {
        if self.tables.get(&id).is_some_and(|table| !table.sets.is_empty()) {
            return 0;
        }
        let Some(decision) = network.decision(id) else {
            return 0;
        };
        // For choices that one token settles, Cassandra's parser generator does not look behind
        // the statement and so does not know of semicolons.
        let sees_semicolon = decision.method != Method::Inline || decision.has_exit;
        let ways = decision.ways.iter();
        let places = ways.zip(0..).map(|(state, way)| Place { way, state: *state, callers: 0 });
        let places = self.close(network, places.collect(), sees_semicolon);
        self.tables.entry(id).or_default().sets.push(Set { places, verdict: Verdict::Open });
        self.set_count += 1;
        0
    }

    /// The set after a token, if any way goes on.
    pub(super) fn next(
        &mut self,
        network: &Network,
        id: DecisionId,
        set: usize,
        token: Token,
    ) -> Option<usize> {
        let table = self.tables.get(&id)?;
        if let Some(known) = table.edges.get(&(set, token)) {
            return *known;
        }
        let reached = table.sets.get(set)?.places.iter().filter_map(|place| {
            let state = match network.state(place.state)? {
                State::Token(wanted, next) if *wanted == token => *next,
                State::Set(wanted, next) if wanted.contains(&token) => *next,
                _ => return None,
            };
            Some(Place { state, ..*place })
        });
        let reached: Vec<_> = reached.collect();
        let target = if reached.is_empty() {
            None
        } else {
            let places = self.close(network, reached, true);
            let decision = network.decision(id)?;
            Some(self.keep(id, decision, places))
        };
        self.tables.get_mut(&id)?.edges.insert((set, token), target);
        target
    }

    /// What a set says.
    pub(super) fn verdict(&self, id: DecisionId, set: usize) -> Verdict {
        let set = self.tables.get(&id).and_then(|table| table.sets.get(set));
        set.map_or(Verdict::Open, |set| set.verdict.clone())
    }

    fn keep(&mut self, id: DecisionId, decision: &Decision, places: Box<[Place]>) -> usize {
        let table = self.tables.entry(id).or_default();
        if let Some(known) = table.index.get(&places) {
            return *known;
        }
        let verdict = judge(decision, &places);
        table.index.insert(places.clone(), table.sets.len());
        table.sets.push(Set { places, verdict });
        self.set_count += 1;
        table.sets.len() - 1
    }

    /// All places that can be reached without a token, as far as they match one.
    fn close(
        &mut self,
        network: &Network,
        mut open: Vec<Place>,
        sees_semicolon: bool,
    ) -> Box<[Place]> {
        let mut seen: std::collections::HashSet<Place> = open.iter().copied().collect();
        let mut closed = Vec::new();
        while let Some(place) = open.pop() {
            let Some(state) = network.state(place.state) else {
                continue;
            };
            let mut go = |state, callers| {
                let next = Place { state, callers, ..place };
                if seen.insert(next) {
                    open.push(next);
                }
            };
            match state {
                State::Token(..) | State::Set(..) => closed.push(place),
                State::Call(rule, next) => {
                    if let Some(start) = network.rule_start(*rule) {
                        go(start, self.caller(place.callers, *next));
                    }
                }
                State::Choice(id) => {
                    let ways = network.decision(*id).map(|decision| &*decision.ways);
                    ways.unwrap_or_default().iter().for_each(|way| go(*way, place.callers));
                }
                State::End(rule) => {
                    match self.callers.get((place.callers as usize).wrapping_sub(1)) {
                        Some((outer, next)) => go(*next, *outer),
                        None => {
                            let followers = network.followers.get(usize::from(*rule));
                            let followers = followers.map(Vec::as_slice).unwrap_or_default();
                            let is_last = *rule == network.statement && !sees_semicolon;
                            if is_last || followers.is_empty() {
                                go(network.at_end, 0);
                            } else {
                                followers.iter().for_each(|next| go(*next, 0));
                            }
                        }
                    }
                }
            }
        }
        closed.sort_unstable();
        closed.into()
    }

    fn caller(&mut self, outer: u32, next: StateId) -> u32 {
        *self.caller_index.entry((outer, next)).or_insert_with(|| {
            self.callers.push((outer, next));
            self.callers.len() as u32
        })
    }
}

fn judge(decision: &Decision, places: &[Place]) -> Verdict {
    let mut ways: Vec<u16> = places.iter().map(|place| place.way).collect();
    ways.sort_unstable();
    ways.dedup();
    if let [only] = *ways {
        return Verdict::Only(only);
    }
    if decision.method == Method::Trial {
        return Verdict::Trial(ways.into());
    }
    // Two ways at one place stay together forever.
    let mut by_place: HashMap<(StateId, u32), u16> = HashMap::new();
    let mut together: Vec<u16> = Vec::new();
    for place in places {
        let first = *by_place.entry((place.state, place.callers)).or_insert(place.way);
        if first != place.way {
            together.extend([first, place.way]);
        }
    }
    together.sort_unstable();
    together.dedup();
    let has_trial = |way: &u16| decision.trials.get(usize::from(*way)).is_some_and(Option::is_some);
    if together.iter().any(has_trial) { Verdict::Trial(together.into()) } else { Verdict::Open }
}
