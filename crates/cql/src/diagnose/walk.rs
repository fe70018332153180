//! A walk through the network along the tokens, up to the first fault.

use std::collections::HashMap;

use super::lookahead::{Lookahead, Verdict};
use super::network::{DecisionId, Method, Network, RuleId, State, StateId};
use super::stream::Stream;
use crate::lexer::Token;

/// Longest look ahead; the grammar needs less.
const LOOKAHEAD_MAX: usize = 64;

/// Deepest trials inside trials; the parser refuses deeper nesting before.
const TRIALS_NESTED_MAX: usize = 4 * crate::parser::NESTING_MAX;

/// What went wrong first.
#[derive(Debug)]
pub(super) enum Fault {
    /// Text that is no token.
    Lexical {
        /// Where the parser stood.
        from: usize,
        /// What to say.
        message: String,
    },
    /// No way fits the token at `at`; the decision began at `from`.
    NoWay {
        /// The token, counted among the visible ones.
        at: usize,
        /// The decision's first token.
        from: usize,
    },
    /// Another token was expected.
    Unexpected {
        /// The token that is there.
        at: usize,
        /// The token that should be there.
        expected: Token,
    },
    /// One of several tokens was expected.
    UnexpectedSet {
        /// The token that is there.
        at: usize,
    },
}

pub(super) struct Walk<'walk> {
    network: &'walk Network,
    lookahead: &'walk mut Lookahead,
    stream: Stream<'walk>,
    trials: HashMap<(RuleId, usize), bool>,
    trial_depth: usize,
    /// Where the parser stands, trials and look ahead aside.
    standing: usize,
}

impl<'walk> Walk<'walk> {
    pub(super) fn new(
        network: &'walk Network,
        lookahead: &'walk mut Lookahead,
        text: &'walk str,
        offset: usize,
    ) -> Self {
        let stream = Stream::new(text, offset);
        Self { network, lookahead, stream, trials: HashMap::new(), trial_depth: 0, standing: 0 }
    }

    /// The first fault of the text, if it has any.
    pub(super) fn run(&mut self) -> Option<Fault> {
        self.follow(self.network.start, 0).err()
    }

    pub(super) fn stream(&self) -> &Stream<'walk> {
        &self.stream
    }

    /// Walks a rule from its first state; gives back the position behind it.
    fn follow(&mut self, start: StateId, mut position: usize) -> Result<usize, Fault> {
        let network = self.network;
        let mut callers = Vec::new();
        let mut state = start;
        while let Some(step) = network.state(state) {
            if self.trial_depth == 0 {
                self.standing = position;
            }
            match step {
                State::Token(expected, next) => {
                    if self.token(position)? != *expected {
                        return Err(Fault::Unexpected { at: position, expected: *expected });
                    }
                    if *expected == Token::End {
                        return Ok(position);
                    }
                    position += 1;
                    self.token(position)?;
                    state = *next;
                }
                State::Set(expected, next) => {
                    if !expected.contains(&self.token(position)?) {
                        return Err(Fault::UnexpectedSet { at: position });
                    }
                    position += 1;
                    self.token(position)?;
                    state = *next;
                }
                State::Call(rule, next) => {
                    callers.push(*next);
                    state = network.rule_start(*rule).unwrap_or_default();
                }
                State::Choice(decision) => state = self.decide(*decision, position)?,
                State::End(_) => match callers.pop() {
                    Some(next) => state = next,
                    None => return Ok(position),
                },
            }
        }
        Ok(position)
    }

    fn token(&mut self, position: usize) -> Result<Token, Fault> {
        self.stream.at(position).map_err(|message| Fault::Lexical { from: self.standing, message })
    }

    /// The first state of the way to take.
    fn decide(&mut self, id: DecisionId, from: usize) -> Result<StateId, Fault> {
        let network = self.network;
        let Some(decision) = network.decision(id) else {
            return Err(Fault::NoWay { at: from, from });
        };
        let way_start = |way: u16| decision.ways.get(usize::from(way)).copied().unwrap_or_default();
        let mut set = self.lookahead.first(network, id);
        for depth in 0..LOOKAHEAD_MAX {
            let at = from + depth;
            let token = self.token(at)?;
            let Some(next) = self.lookahead.next(network, id, set, token) else {
                return match decision.method {
                    // Nested conditions without a match fall through to the way out.
                    Method::Inline if decision.has_exit => {
                        Ok(decision.ways.last().copied().unwrap_or_default())
                    }
                    Method::Inline | Method::Table | Method::Trial => {
                        Err(Fault::NoWay { at, from })
                    }
                };
            };
            set = next;
            // A table moves on before it looks whether it is done, but not past the end.
            let moves_on = decision.method != Method::Inline && token != Token::End;
            if moves_on {
                self.token(at + 1)?;
            }
            match self.lookahead.verdict(id, set) {
                Verdict::Open => {}
                Verdict::Only(way) => return Ok(way_start(way)),
                Verdict::Trial(ways) => {
                    let way = self.try_ways(&decision.trials, &ways, from)?;
                    if moves_on {
                        self.token(at + 2)?;
                    }
                    return Ok(way_start(way));
                }
            }
        }
        Ok(way_start(0))
    }

    /// The first way whose trial succeeds or that needs none.
    fn try_ways(
        &mut self,
        trials: &[Option<RuleId>],
        ways: &[u16],
        position: usize,
    ) -> Result<u16, Fault> {
        for way in ways {
            let trial = trials.get(usize::from(*way)).copied().flatten();
            let fits = match trial {
                Some(rule) => self.try_rule(rule, position)?,
                None => true,
            };
            if fits {
                return Ok(*way);
            }
        }
        Ok(ways.last().copied().unwrap_or_default())
    }

    /// Whether a rule matches at a position. Text that is no token is a fault even here, because
    /// it is reported when it is met.
    fn try_rule(&mut self, rule: RuleId, position: usize) -> Result<bool, Fault> {
        if let Some(known) = self.trials.get(&(rule, position)) {
            return Ok(*known);
        }
        if self.trial_depth >= TRIALS_NESTED_MAX {
            return Ok(false);
        }
        self.trial_depth += 1;
        let start = self.network.rule_start(rule).unwrap_or_default();
        let outcome = self.follow(start, position);
        self.trial_depth -= 1;
        let fits = match outcome {
            Ok(_) => true,
            Err(fault @ Fault::Lexical { .. }) => return Err(fault),
            Err(Fault::NoWay { .. } | Fault::Unexpected { .. } | Fault::UnexpectedSet { .. }) => {
                false
            }
        };
        self.trials.insert((rule, position), fits);
        Ok(fits)
    }
}
