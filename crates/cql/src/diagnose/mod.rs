//! Why a text is no statement, in Cassandra's words.
//!
//! Drivers, tests and people know Cassandra's error texts, and those follow from how its generated
//! parser looks ahead: which token it names, which one it marks, how much of the text it shows. So
//! after the fast parser has refused a text, this room walks the same grammar in the same way and
//! stops where Cassandra would stop. It runs on errors only.
//!
//! Reading order: `grammar` (text to network), `network`, `stream` (tokens as they are fetched),
//! `lookahead` (which alternative to take), `walk` (until the first fault), `lexical` and
//! `message` (the words).

mod grammar;
mod lexical;
mod lookahead;
mod message;
mod network;
mod stream;
mod walk;

use std::sync::{LazyLock, Mutex, PoisonError};

use crate::error::SyntaxError;
use lookahead::Lookahead;
use network::Network;
use walk::Fault;

static NETWORK: LazyLock<Option<Network>> = LazyLock::new(|| grammar::parse(grammar::TEXT));
static LOOKAHEAD: LazyLock<Mutex<Lookahead>> = LazyLock::new(Mutex::default);

/// A fault in words.
pub(crate) struct Diagnosis {
    /// The token at which the parser stood, counted without hidden ones.
    pub(crate) from: usize,
    /// The words.
    pub(crate) error: SyntaxError,
}

/// The first fault of the text behind `offset`, if there is one.
pub(crate) fn diagnose(text: &str, offset: usize) -> Option<Diagnosis> {
    let network = NETWORK.as_ref()?;
    let mut lookahead = LOOKAHEAD.lock().unwrap_or_else(PoisonError::into_inner);
    lookahead.bound();
    let mut walk = walk::Walk::new(network, &mut lookahead, text, offset);
    let fault = walk.run()?;
    let from = match &fault {
        Fault::Lexical { from, .. } => *from,
        Fault::NoWay { from, .. } => *from,
        Fault::Unexpected { at, .. } | Fault::UnexpectedSet { at } => *at,
    };
    let message = message::compose(text, &fault, walk.stream());
    Some(Diagnosis { from, error: SyntaxError::Grammar(message.into()) })
}

/// The plain form of the message, for texts of which only a part is parsed.
pub(crate) fn unexpected(text: &str, at: usize) -> SyntaxError {
    SyntaxError::Grammar(message::unexpected(text, at).into())
}
