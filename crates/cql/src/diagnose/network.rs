//! The grammar as a network of states, one walk through which is one statement.

use crate::lexer::Token;

pub(super) type StateId = u16;
pub(super) type RuleId = u16;
pub(super) type DecisionId = u16;

/// One step of a walk.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Exactly this token.
    Token(Token, StateId),
    /// One of these tokens.
    Set(Box<[Token]>, StateId),
    /// A whole rule, then on.
    Call(RuleId, StateId),
    /// One of several ways.
    Choice(DecisionId),
    /// The end of a rule.
    End(RuleId),
}

/// How Cassandra's parser decides between ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Nested conditions.
    Inline,
    Table,
    /// A table for one token, then trials.
    Trial,
}

/// Several ways, of which the first that fits is taken.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// Where the ways start; the way out of an optional part comes last.
    pub(super) ways: Box<[StateId]>,
    /// The rules that must match before a way is taken.
    pub(super) trials: Box<[Option<RuleId>]>,
    /// Whether the last way leads past an optional part.
    pub(super) has_exit: bool,
    /// How it is decided.
    pub(super) method: Method,
}

/// The grammar.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) states: Vec<State>,
    pub(super) decisions: Vec<Decision>,
    /// First state of each rule.
    pub(super) rule_starts: Vec<StateId>,
    /// States that follow a call of each rule.
    pub(super) followers: Vec<Vec<StateId>>,
    /// The state that matches the end of the text, which follows rules that nobody calls.
    pub(super) at_end: StateId,
    /// First state of a whole text.
    pub(super) start: StateId,
    /// The rule of a statement, without the semicolons behind it.
    pub(super) statement: RuleId,
}

impl Network {
    pub(super) fn state(&self, id: StateId) -> Option<&State> {
        self.states.get(usize::from(id))
    }

    pub(super) fn decision(&self, id: DecisionId) -> Option<&Decision> {
        self.decisions.get(usize::from(id))
    }

    pub(super) fn rule_start(&self, id: RuleId) -> Option<StateId> {
        self.rule_starts.get(usize::from(id)).copied()
    }
}
