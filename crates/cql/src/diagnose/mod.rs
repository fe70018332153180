//! Why a text is no statement, in Cassandra's words.
//!
//! Drivers, tests and people know Cassandra's error texts, and those follow from how its generated
//! parser looks ahead: which token it names, which one it marks, how much of the text it shows. So
//! after the fast parser has refused a text, this room walks the same grammar in the same way and
//! stops where Cassandra would stop. It runs on errors only.
//!
//! Compat: where Cassandra's parser goes on after its first error and then trips over itself (a
//! `NullPointerException` in the message, or a complaint about a later part), we report the first
//! error.
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

use std::sync::{LazyLock, Mutex};

use crate::error::SyntaxError;
use lookahead::Lookahead;
use network::Network;
use walk::Fault;

/// Longest text whose fault is worth a second walk; others get the plain message.
const DIAGNOSED_BYTES_MAX: usize = 1024 * 1024;

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
    if text.len() > DIAGNOSED_BYTES_MAX {
        return None;
    }
    let network = NETWORK.as_ref()?;
    // Whoever finds the shared knowledge in use starts without any, rather than wait.
    let mut shared = LOOKAHEAD.try_lock();
    let mut own = Lookahead::default();
    let lookahead = shared.as_deref_mut().unwrap_or(&mut own);
    lookahead.bound();
    let mut walk = walk::Walk::new(network, lookahead, text, offset);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the parser accepts, the walk must accept as well.
    #[test]
    fn accepted_statements_have_no_fault() {
        for line in include_str!("../../tests/golden/accepted.cql").lines() {
            let text = line.replace("\\n", "\n");
            let fault = diagnose(&text, 0).map(|diagnosis| diagnosis.error);
            assert_eq!(fault, None, "{line}");
        }
    }

    /// What the parser refuses for its grammar, the walk must refuse as well, because the plain
    /// message is only for parts of statements.
    #[test]
    fn refused_texts_have_a_fault() {
        for line in include_str!("../../tests/golden/rejected.tsv").lines() {
            let mut parts = line.split('\t');
            let text = parts.next().unwrap().replace("\\n", "\n");
            let message = parts.nth(1).unwrap();
            if message.starts_with("line ") {
                assert!(diagnose(&text, 0).is_some(), "{line}");
            }
        }
    }
}
