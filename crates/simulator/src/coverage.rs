//! Which kind of trouble met which kind of operation. A seed that finds nothing says little if what could have been found never came
//! together; so it is counted.
//!
//! An operation met a trouble if it was under way when that came, or began while it lasted.

use std::collections::BTreeMap;
use std::fmt;

use crate::tables::{Ask, Key};
use crate::world::World;

/// What clients ask for, and what the cluster does by itself.
pub const OPERATIONS: [&str; 14] = [
    READ,
    "read elsewhere",
    LEASED,
    "write",
    "timed write",
    "delete",
    "condition",
    "count",
    "append",
    "batch",
    SPLIT,
    MOVE,
    HANDING_OVER,
    ELECTION,
];

pub(crate) const READ: &str = "read";
pub(crate) const LEASED: &str = "leased read";
pub(crate) const SPLIT: &str = "split";
pub(crate) const MOVE: &str = "move";
pub(crate) const HANDING_OVER: &str = "rows";
pub(crate) const ELECTION: &str = "election";

/// Everything that goes wrong, and what nodes do beside it.
pub const TROUBLES: [&str; 30] = [
    "power loss",
    "kill",
    "all crash",
    "link cut one way",
    "link cut",
    "machine cut off",
    "bad link",
    "pause",
    "clock",
    "time leaps",
    "slow disk",
    "disk full for a while",
    "disk lost",
    "old image of a disk",
    "old image refused",
    "node with a wrong map",
    "member that differs",
    "member replaced where it is",
    "members move",
    "members that go are cut off",
    "set is split",
    "power loss at a split",
    "member asks for votes",
    "power loss after a vote",
    "rival of a candidate",
    "leadership is handed over",
    "nobody asks",
    "flush",
    "compact",
    "compact everywhere",
];

/// How a client's operation is called.
pub(crate) fn name_of(key: Key, ask: Ask, is_batch: bool, reads_here: bool) -> &'static str {
    match ask {
        Ask::Read if reads_here => READ,
        Ask::Read => "read elsewhere",
        _ if is_batch => "batch",
        Ask::Write(_) | Ask::Delete if key.is_timed_by_clients() => "timed write",
        Ask::Write(_) => "write",
        Ask::Delete => "delete",
        Ask::CompareAndSet { .. } => "condition",
        Ask::Add(_) => "count",
        Ask::Append(_) => "append",
    }
}

/// How many operations of each kind met each kind of trouble.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<(&'static str, &'static str), u64>);

impl Coverage {
    fn note(&mut self, trouble: &'static str, operation: &'static str) {
        *self.0.entry((trouble, operation)).or_default() += 1;
    }

    /// Adds what another run met.
    pub fn add(&mut self, other: &Coverage) {
        for (cell, count) in &other.0 {
            *self.0.entry(*cell).or_default() += count;
        }
    }

    /// How often this met that.
    pub fn met(&self, trouble: &'static str, operation: &'static str) -> u64 {
        self.0.get(&(trouble, operation)).copied().unwrap_or(0)
    }

    /// What never came together.
    pub fn unmet(&self) -> Vec<(&'static str, &'static str)> {
        let all = TROUBLES.into_iter().flat_map(|it| OPERATIONS.map(|operation| (it, operation)));
        all.filter(|(trouble, operation)| self.met(trouble, operation) == 0).collect()
    }

    /// A line for each trouble, with its counts between tabs.
    pub fn to_tsv(&self) -> String {
        let mut lines = format!("trouble\t{}\n", OPERATIONS.join("\t"));
        for trouble in TROUBLES {
            let counts = OPERATIONS.map(|operation| self.met(trouble, operation).to_string());
            lines += &format!("{trouble}\t{}\n", counts.join("\t"));
        }
        lines
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28}", "met by operations")?;
        OPERATIONS.iter().try_for_each(|operation| write!(f, "{operation:>15}"))?;
        for trouble in TROUBLES {
            write!(f, "\n{trouble:<28}")?;
            for operation in OPERATIONS {
                write!(f, "{:>15}", self.met(trouble, operation))?;
            }
        }
        Ok(())
    }
}

/// What lasts, and what the cluster is at.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// Troubles, and until when.
    troubles: Vec<(&'static str, u64)>,
    /// Until when a split is waited for, and since something of an image was sent.
    pub(crate) split_until_us: u64,
    pub(crate) image_until_us: u64,
}

/// Rows are being handed over for so long after something was sent of them.
const IMAGE_US: u64 = 100_000;

impl World {
    /// A trouble that is over at once.
    pub(crate) fn count(&mut self, trouble: &'static str) {
        self.count_for(trouble, 0);
    }

    /// A trouble that lasts.
    pub(crate) fn count_for(&mut self, trouble: &'static str, lasts_us: u64) {
        assert!(TROUBLES.contains(&trouble), "{trouble} is listed");
        *self.report.faults.entry(trouble).or_default() += 1;
        self.tell(|| format!("fault: {trouble}"));
        for number in self.waiting.values() {
            self.report.coverage.note(trouble, self.asked[*number].name);
        }
        let chores = [
            (SPLIT, self.under_way.split_until_us > self.now_us),
            (MOVE, !self.placing.wanted.is_empty()),
            (HANDING_OVER, self.under_way.image_until_us > self.now_us),
            (ELECTION, !self.leaderless_since.is_empty()),
        ];
        for (chore, _) in chores.into_iter().filter(|(_, is_under_way)| *is_under_way) {
            self.report.coverage.note(trouble, chore);
        }
        if lasts_us > 0 {
            self.under_way.troubles.push((trouble, self.now_us + lasts_us));
        }
    }

    /// An operation begins, while some troubles last.
    pub(crate) fn note_begun(&mut self, operation: &'static str) {
        let now_us = self.now_us;
        self.under_way.troubles.retain(|(_, until_us)| *until_us > now_us);
        for (trouble, _) in &self.under_way.troubles {
            self.report.coverage.note(trouble, operation);
        }
    }

    /// Something of an image is sent.
    pub(crate) fn note_image(&mut self) {
        if self.under_way.image_until_us <= self.now_us {
            self.note_begun(HANDING_OVER);
        }
        self.under_way.image_until_us = self.now_us + IMAGE_US;
    }

    /// Everything that lasted is over.
    pub(crate) fn end_troubles(&mut self) {
        self.under_way.troubles.clear();
    }
}
