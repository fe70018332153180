//! The notation of `grammar.txt`, and how it becomes a network.

use std::collections::HashMap;

use super::network::{Decision, Method, Network, RuleId, State, StateId};
use crate::lexer::Token;

/// The grammar of CQL.
pub(super) const TEXT: &str = include_str!("grammar.txt");

/// A part of a rule.
enum Part {
    Token(Token),
    Set(Vec<Token>),
    Rule(String),
    Choice(Choice),
}

struct Choice {
    ways: Vec<Way>,
    repeat: Repeat,
    method: Method,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Once,
    Optional,
    Any,
}

struct Way {
    trial: Option<Vec<Part>>,
    parts: Vec<Part>,
}

/// The network of a grammar, or nothing if the notation is broken.
pub(super) fn parse(text: &str) -> Option<Network> {
    let words: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .collect();
    let mut reader = Reader { words: &words, position: 0 };
    let mut rules = Vec::new();
    while reader.position < words.len() {
        rules.push(reader.rule()?);
    }
    Builder::default().build(rules)
}

struct Reader<'text> {
    words: &'text [&'text str],
    position: usize,
}

impl<'text> Reader<'text> {
    fn peek(&self) -> &'text str {
        self.words.get(self.position).copied().unwrap_or_default()
    }

    fn take(&mut self) -> &'text str {
        let word = self.peek();
        self.position += 1;
        word
    }

    /// `name: ways ;`.
    fn rule(&mut self) -> Option<(String, Choice)> {
        let (name, method) = split_method(self.take().strip_suffix(':')?);
        let ways = self.ways(";")?;
        Some((name.to_owned(), Choice { ways, repeat: Repeat::Once, method }))
    }

    /// Ways up to a closing word.
    fn ways(&mut self, closing: &str) -> Option<Vec<Way>> {
        let mut ways = vec![Way { trial: None, parts: Vec::new() }];
        loop {
            let word = self.peek();
            let way = ways.last_mut()?;
            if word.is_empty() {
                return None;
            } else if word == closing || closing == ")" && word.starts_with(')') {
                if closing == ";" {
                    self.position += 1;
                }
                return Some(ways);
            } else if word == "|" {
                self.position += 1;
                ways.push(Way { trial: None, parts: Vec::new() });
            } else if word.starts_with("try(") {
                way.trial = Some(self.bracketed("try(")?.iter().map(|word| part(word)).collect());
            } else if word.starts_with("set(") {
                let names = self.bracketed("set(")?;
                let tokens: Option<Vec<_>> =
                    names.iter().map(|name| Token::from_grammar_name(name)).collect();
                way.parts.push(Part::Set(tokens?));
            } else if word == "(" {
                self.position += 1;
                let choice = self.choice()?;
                way.parts.push(Part::Choice(choice));
            } else {
                self.position += 1;
                way.parts.push(part(word));
            }
        }
    }

    /// The inside of parentheses and the signs behind them.
    fn choice(&mut self) -> Option<Choice> {
        let ways = self.ways(")")?;
        let (signs, method) = split_method(self.take());
        let repeat = match signs {
            ")" => Repeat::Once,
            ")?" => Repeat::Optional,
            ")*" => Repeat::Any,
            _ => return None,
        };
        Some(Choice { ways, repeat, method })
    }

    /// The words of `open(a b)`.
    fn bracketed(&mut self, open: &str) -> Option<Vec<&'text str>> {
        let mut words = Vec::new();
        let mut word = self.take().strip_prefix(open)?;
        loop {
            if let Some(last) =
                word.strip_suffix(')').filter(|last| !last.ends_with('\'') || last.len() > 1)
            {
                words.push(last);
                return Some(words);
            }
            words.push(word);
            word = self.take();
            if word.is_empty() {
                return None;
            }
        }
    }
}

fn split_method(word: &str) -> (&str, Method) {
    match (word.strip_suffix('^'), word.strip_suffix('~')) {
        (Some(rest), _) => (rest, Method::Table),
        (_, Some(rest)) => (rest, Method::Trial),
        (None, None) => (word, Method::Inline),
    }
}

fn part(word: &str) -> Part {
    match Token::from_grammar_name(word) {
        Some(token) => Part::Token(token),
        None => Part::Rule(word.to_owned()),
    }
}

/// Builds a network from its ends to its starts.
#[derive(Default)]
struct Builder {
    network: Network,
    rules: HashMap<String, RuleId>,
    /// Trials are rules that nobody calls; their states are built last.
    trials: Vec<(RuleId, Vec<Part>)>,
}

impl Builder {
    fn build(mut self, rules: Vec<(String, Choice)>) -> Option<Network> {
        for (name, _) in &rules {
            let id = self.new_rule()?;
            self.rules.insert(name.clone(), id);
        }
        for (id, (_, choice)) in rules.into_iter().enumerate() {
            let id = RuleId::try_from(id).ok()?;
            let end = self.add(State::End(id))?;
            let start = self.choice(choice, end)?;
            *self.network.rule_starts.get_mut(usize::from(id))? = start;
        }
        while let Some((id, parts)) = self.trials.pop() {
            let end = self.add(State::End(id))?;
            let start = self.sequence(parts, end)?;
            *self.network.rule_starts.get_mut(usize::from(id))? = start;
        }
        // Nothing follows the end; the state leads to itself.
        let at_end = self.next_id()?;
        self.network.at_end = self.add(State::Token(Token::End, at_end))?;
        self.network.start = self.network.rule_start(*self.rules.get("query")?)?;
        self.network.statement = *self.rules.get("cqlStatement")?;
        Some(self.network)
    }

    fn new_rule(&mut self) -> Option<RuleId> {
        let id = RuleId::try_from(self.network.rule_starts.len()).ok()?;
        self.network.rule_starts.push(0);
        self.network.followers.push(Vec::new());
        Some(id)
    }

    fn next_id(&self) -> Option<StateId> {
        StateId::try_from(self.network.states.len()).ok()
    }

    fn add(&mut self, state: State) -> Option<StateId> {
        let id = self.next_id()?;
        self.network.states.push(state);
        Some(id)
    }

    fn sequence(&mut self, parts: Vec<Part>, mut next: StateId) -> Option<StateId> {
        for part in parts.into_iter().rev() {
            next = match part {
                Part::Token(token) => self.add(State::Token(token, next))?,
                Part::Set(tokens) => self.add(State::Set(tokens.into(), next))?,
                Part::Rule(name) => {
                    let rule = *self.rules.get(&name)?;
                    self.network.followers.get_mut(usize::from(rule))?.push(next);
                    self.add(State::Call(rule, next))?
                }
                Part::Choice(choice) => self.choice(choice, next)?,
            };
        }
        Some(next)
    }

    fn choice(&mut self, choice: Choice, next: StateId) -> Option<StateId> {
        let Choice { mut ways, repeat, method } = choice;
        if repeat == Repeat::Once && ways.len() == 1 {
            return self.sequence(ways.pop()?.parts, next);
        }
        // The state of the choice comes first, because the ways of a loop lead back to it.
        let decision = u16::try_from(self.network.decisions.len()).ok()?;
        self.network.decisions.push(Decision {
            ways: Box::default(),
            trials: Box::default(),
            has_exit: repeat != Repeat::Once,
            method,
        });
        let state = self.add(State::Choice(decision))?;
        let after = if repeat == Repeat::Any { state } else { next };
        let mut starts = Vec::new();
        let mut trials = Vec::new();
        for way in ways {
            starts.push(self.sequence(way.parts, after)?);
            trials.push(match way.trial {
                Some(parts) => {
                    let rule = self.new_rule()?;
                    self.trials.push((rule, parts));
                    Some(rule)
                }
                None => None,
            });
        }
        if repeat != Repeat::Once {
            starts.push(next);
            trials.push(None);
        }
        let built = self.network.decisions.get_mut(usize::from(decision))?;
        built.ways = starts.into();
        built.trials = trials.into();
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_grammar_becomes_a_network() {
        let network = super::parse(super::TEXT).unwrap();
        assert!(network.decisions.iter().all(|decision| decision.ways.len() > 1));
        assert!(network.rule_starts.iter().all(|start| *start > 0));
    }
}
