//! The notation of `grammar.txt`, and how it becomes a network.

use std::collections::HashMap;

use super::network::{Decision, Method, Network, RuleId, State, StateId};
use crate::lexer::{Class, Lexed, Token, lex};

/// The grammar of CQL.
pub(super) const TEXT: &str = include_str!("grammar.txt");

/// A part of a rule.
#[derive(Clone)]
enum Part {
    Token(Token),
    Set(Vec<Token>),
    Rule(String),
    Choice(Choice),
}

#[derive(Clone)]
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

#[derive(Clone, Default)]
struct Way {
    trial: Option<Vec<Part>>,
    parts: Vec<Part>,
}

/// The network of a grammar, or nothing if the notation is broken.
pub(super) fn parse(text: &str) -> Option<Network> {
    let mut rules: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if !line.starts_with(' ') {
            rules.push(Vec::new());
        }
        rules.last_mut()?.extend(line.split_whitespace());
    }
    let rules: Option<Vec<_>> = rules.iter().map(|words| rule(words)).collect();
    Builder::default().build(rules?)
}

/// `name = ways`.
fn rule(words: &[&str]) -> Option<(String, Choice)> {
    let [name, "=", words @ ..] = words else {
        return None;
    };
    let (name, method) = split_method(name);
    let mut reader = Reader { words };
    let ways = reader.ways()?;
    reader
        .words
        .is_empty()
        .then(|| (name.to_owned(), Choice { ways, repeat: Repeat::Once, method }))
}

/// The words of a rule that are still to be read.
struct Reader<'text> {
    words: &'text [&'text str],
}

impl<'text> Reader<'text> {
    fn take(&mut self) -> Option<&'text str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    /// Ways up to a closing bracket or the end of the rule.
    fn ways(&mut self) -> Option<Vec<Way>> {
        let mut ways = vec![Way::default()];
        while let Some(word) = self.words.first().filter(|word| !word.starts_with([')', ']', '}']))
        {
            self.words = self.words.get(1..)?;
            let way = ways.last_mut()?;
            match *word {
                "|" => ways.push(Way::default()),
                "(" => way.parts.push(self.choice(Repeat::Once)?),
                "[" => way.parts.push(self.choice(Repeat::Optional)?),
                "{" => way.parts.push(self.choice(Repeat::Any)?),
                "list(" => way.parts.extend(self.separated(Token::Comma)?),
                "and(" => way.parts.extend(self.separated(Token::And)?),
                "one_of(" => way.parts.push(Part::Set(self.tokens()?)),
                "try(" => way.trial = Some(vec![self.choice(Repeat::Once)?]),
                word => way.parts.push(part(word)?),
            }
        }
        Some(ways)
    }

    /// The inside of brackets and the sign behind them.
    fn choice(&mut self, repeat: Repeat) -> Option<Part> {
        let ways = self.ways()?;
        let (closing, method) = split_method(self.take()?);
        let matches = match repeat {
            Repeat::Once => closing == ")",
            Repeat::Optional => closing == "]",
            Repeat::Any => closing == "}",
        };
        matches.then_some(Part::Choice(Choice { ways, repeat, method }))
    }

    /// The inside of brackets once, and then any number of times behind a separator.
    fn separated(&mut self, separator: Token) -> Option<[Part; 2]> {
        let element = self.choice(Repeat::Once)?;
        let further = Way { trial: None, parts: vec![Part::Token(separator), element.clone()] };
        let further = Choice { ways: vec![further], repeat: Repeat::Any, method: Method::Inline };
        Some([element, Part::Choice(further)])
    }

    /// Tokens up to a closing bracket.
    fn tokens(&mut self) -> Option<Vec<Token>> {
        let mut tokens = Vec::new();
        loop {
            match self.take()? {
                ")" => return Some(tokens),
                word => tokens.push(token(word)?),
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

fn part(word: &str) -> Option<Part> {
    let keywords = |class| Some(Part::Set(Token::keywords(class).collect()));
    match word {
        "<free_word>" => keywords(Class::Free),
        "<type_word>" => keywords(Class::TypeName),
        "<no_function_word>" => keywords(Class::NoFunction),
        _ if word.starts_with(|first: char| first.is_ascii_lowercase()) => {
            Some(Part::Rule(word.to_owned()))
        }
        _ => token(word).map(Part::Token),
    }
}

/// The token that a word of the grammar stands for.
fn token(word: &str) -> Option<Token> {
    Some(match word {
        "<name>" => Token::Name,
        "<quoted_name>" => Token::QuotedName,
        "<empty_name>" => Token::EmptyName,
        "<string>" => Token::StringLiteral,
        "<integer>" => Token::IntegerLiteral,
        "<float>" => Token::FloatLiteral,
        "<boolean>" => Token::BooleanLiteral,
        "<duration>" => Token::DurationLiteral,
        "<hex>" => Token::HexLiteral,
        "<uuid>" => Token::UuidLiteral,
        "<end>" => Token::End,
        _ => return spelled(word),
    })
}

/// The token that is spelled so: a sign in quotes, or a keyword without.
fn spelled(word: &str) -> Option<Token> {
    let text = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')).unwrap_or(word);
    match *lex(text) {
        [Lexed { token, .. }, Lexed { token: Token::End, .. }] if token != Token::Name => {
            Some(token)
        }
        _ => None,
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
        self.network.start = self.network.rule_start(*self.rules.get("text")?)?;
        self.network.statement = *self.rules.get("statement")?;
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
