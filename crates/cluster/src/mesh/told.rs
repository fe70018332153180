//! What is logged only once in a while: nodes that cannot be reached are dialed every second, and strangers may knock all day.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use types::NodeId;

/// So many are remembered. If more different things go wrong at once, the others are not told.
const REMEMBERED_MAX: usize = 256;

/// Whom something is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Node(NodeId),
    Stranger(IpAddr),
}

/// When something was last told, by whom it concerns and what it is.
pub(crate) struct Told {
    every: Duration,
    at: Mutex<BTreeMap<(Subject, &'static str), Instant>>,
}

impl Told {
    pub(crate) fn new(every: Duration) -> Told {
        Told { every, at: Mutex::default() }
    }

    /// Whether it is to be told now.
    pub(crate) fn is_new(&self, subject: Subject, what: &'static str) -> bool {
        self.is_new_at(subject, what, Instant::now())
    }

    fn is_new_at(&self, subject: Subject, what: &'static str, now: Instant) -> bool {
        let mut at = self.at.lock();
        if at.get(&(subject, what)).is_some_and(|told| now.duration_since(*told) < self.every) {
            return false;
        }
        if at.len() >= REMEMBERED_MAX {
            at.retain(|_, told| now.duration_since(*told) < self.every);
        }
        if at.len() < REMEMBERED_MAX {
            at.insert((subject, what), now);
            return true;
        }
        false
    }

    /// It is over: if it comes again it is told at once.
    pub(crate) fn forget(&self, subject: Subject) {
        self.at.lock().retain(|(it, _), _| *it != subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_in_a_while_and_memory_is_bounded() {
        let told = Told::new(Duration::from_secs(60));
        let now = Instant::now();
        let node = Subject::Node(NodeId(1));
        assert!(told.is_new_at(node, "a", now));
        assert!(!told.is_new_at(node, "a", now + Duration::from_secs(59)));
        assert!(told.is_new_at(node, "b", now));
        assert!(told.is_new_at(Subject::Node(NodeId(2)), "a", now));
        assert!(told.is_new_at(node, "a", now + Duration::from_secs(60)));
        told.forget(node);
        assert!(told.is_new_at(node, "b", now));
        for number in 0..2 * REMEMBERED_MAX as u32 {
            told.is_new_at(Subject::Stranger(IpAddr::from(number.to_be_bytes())), "c", now);
        }
        assert_eq!(told.at.lock().len(), REMEMBERED_MAX);
        let later = now + Duration::from_secs(120);
        assert!(told.is_new_at(Subject::Stranger(IpAddr::from([9, 9, 9, 9])), "c", later));
    }
}
