//! What happened to the map: every split and merge, newest last, bounded. Kept as text, a line each.

use std::collections::VecDeque;
use std::fmt::Write as _;

use types::{RingToken, SetId};

use crate::codec::{MapError, parse_space, space_text};
use crate::map::{Reason, Space};

/// The oldest changes are forgotten beyond this many.
pub const CHANGES_MAX: usize = 4096;

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One became two.
    Split {
        /// The one.
        from: SetId,
        /// The first position of the second half.
        at: RingToken,
        /// The two.
        into: [SetId; 2],
    },
    /// Two became one.
    Merge {
        /// The two.
        from: [SetId; 2],
        /// The one.
        into: SetId,
    },
}

/// One change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapChange {
    /// Counted from one, without holes.
    pub number: u64,
    /// Milliseconds since the epoch.
    pub at_ms: i64,
    pub space: Space,
    pub step: Step,
    pub reason: Reason,
    /// Bytes that the physical partitions held.
    pub bytes: u64,
    /// How long it took, and how long of that writes to these physical partitions waited.
    pub took_us: u64,
    pub writes_waited_us: u64,
}

impl MapChange {
    /// A line that [`MapChange::decode`] reads.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode_change(&mut text, self);
        text
    }

    /// Reads what [`MapChange::encode`] wrote.
    pub fn decode(line: &str) -> Option<MapChange> {
        decode_change(line.trim_end_matches('\n'))
    }
}

/// The latest changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    changes: VecDeque<MapChange>,
    last_number: u64,
}

impl History {
    /// The changes that are remembered, oldest first.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &MapChange> {
        self.changes.iter()
    }

    /// The number of the last change; zero before the first.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Adds a change and gives it its number.
    pub fn push(&mut self, change: MapChange) {
        self.last_number += 1;
        self.changes.push_back(MapChange { number: self.last_number, ..change });
        while self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
    }

    /// Adds those of some changes, the oldest first, that it does not know.
    pub fn go_on_with<'c>(&mut self, later: impl IntoIterator<Item = &'c MapChange>) {
        for change in later {
            if change.number > self.last_number {
                self.last_number = change.number;
                self.changes.push_back(change.clone());
            }
        }
        while self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
    }

    /// The text that [`History::decode`] reads.
    pub fn encode(&self) -> String {
        let mut text = format!("history 1 {}\n", self.last_number);
        self.changes.iter().for_each(|change| encode_change(&mut text, change));
        text
    }

    /// Reads what [`History::encode`] wrote.
    pub fn decode(text: &str) -> Result<History, MapError> {
        let mut lines = text.lines().enumerate();
        let fail = |index: usize, reason| MapError { line: index + 1, reason };
        let head = lines.next().and_then(|(_, head)| head.strip_prefix("history 1 "));
        let last_number = head.and_then(|number| number.parse().ok());
        let last_number = last_number.ok_or(fail(0, "not a history of version 1"))?;
        let changes = lines
            .map(|(index, line)| decode_change(line).ok_or(fail(index, "not a change")))
            .collect::<Result<_, _>>()?;
        Ok(History { changes, last_number })
    }
}

fn encode_change(text: &mut String, change: &MapChange) {
    let step = match &change.step {
        Step::Split { from, at, into: [left, right] } => {
            format!("split {} {:032x} {} {}", from.0, at.0, left.0, right.0)
        }
        Step::Merge { from: [left, right], into } => {
            format!("merge {} {} {}", left.0, right.0, into.0)
        }
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} {} {} {} {} {} {step} {}",
        change.number,
        change.at_ms,
        change.reason.word(),
        change.bytes,
        change.took_us,
        change.writes_waited_us,
        space_text(&change.space)
    );
}

fn decode_change(line: &str) -> Option<MapChange> {
    let (number, rest) = take(line)?;
    let (at_ms, rest) = take(rest)?;
    let (reason, rest) = rest.split_once(' ')?;
    let (bytes, rest) = take(rest)?;
    let (took_us, rest) = take(rest)?;
    let (writes_waited_us, rest) = take(rest)?;
    let (step, rest) = rest.split_once(' ')?;
    let (first, rest) = take(rest)?;
    let (step, space) = match step {
        "split" => {
            let (at, rest) = rest.split_once(' ')?;
            let at = RingToken(u128::from_str_radix(at, 16).ok()?);
            let (left, rest) = take(rest)?;
            let (right, rest) = take(rest)?;
            (Step::Split { from: SetId(first), at, into: [SetId(left), SetId(right)] }, rest)
        }
        "merge" => {
            let (second, rest) = take(rest)?;
            let (into, rest) = take(rest)?;
            (Step::Merge { from: [SetId(first), SetId(second)], into: SetId(into) }, rest)
        }
        _ => return None,
    };
    let (space, reason) = (parse_space(space)?, Reason::of_word(reason)?);
    Some(MapChange { number, at_ms, space, step, reason, bytes, took_us, writes_waited_us })
}

/// The number before the next blank, and what is behind it.
fn take<T: std::str::FromStr>(text: &str) -> Option<(T, &str)> {
    let (word, rest) = text.split_once(' ')?;
    Some((word.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_comes_back_and_forgets_the_oldest() {
        let mut history = History::default();
        for number in 0..CHANGES_MAX as u32 + 3 {
            let step = if number % 2 == 0 {
                let into = [SetId(number + 1), SetId(number + 2)];
                Step::Split { from: SetId(number), at: RingToken(u128::MAX / 3), into }
            } else {
                Step::Merge { from: [SetId(number), SetId(7)], into: SetId(9) }
            };
            history.push(MapChange {
                number: 0,
                at_ms: 1_700_000_000_000,
                space: Space::Table { keyspace: "Ks".into(), table: "t".into() },
                step,
                reason: Reason::Storage,
                bytes: 30_000_000_000,
                took_us: 1500,
                writes_waited_us: 300,
            });
        }
        assert_eq!(history.changes().count(), CHANGES_MAX);
        assert_eq!(history.changes().next().unwrap().number, 4);
        assert_eq!(History::decode(&history.encode()).unwrap(), history);
        for change in history.changes().take(2) {
            assert_eq!(MapChange::decode(&change.encode()).as_ref(), Some(change));
        }
        let mut other = History::default();
        other.go_on_with(history.changes());
        other.go_on_with(history.changes());
        assert_eq!(other, history);
        assert!(History::decode("history 2 1\n").is_err());
        assert!(History::decode("history 1 1\n1 2 heat\n").is_err());
    }
}
