//! Whether the rows that a read sees are those of one member: a member that is handed rows, or goes, changes them as a whole and
//! not by its entries. Whoever reads looks before and after.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use types::SetId;

/// How often the rows of each set changed as a whole since this node runs; odd while they do.
#[derive(Clone, Debug, Default)]
pub struct Seats(Arc<ArcSwap<BTreeMap<SetId, u64>>>);

/// What a read compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat(u64);

impl Seats {
    /// The seat of a set's member; none while its rows are changed as a whole, or are nobody's.
    pub fn of(&self, set: SetId) -> Option<Seat> {
        let count = self.0.load().get(&set).copied().unwrap_or(0);
        count.is_multiple_of(2).then_some(Seat(count))
    }

    /// From now on the rows of a set are not to be read. Called before any of them is touched.
    pub(crate) fn disturb(&self, set: SetId) {
        self.change(set, |count| count | 1);
    }

    /// The rows of a set are those of its member again.
    pub(crate) fn settle(&self, set: SetId) {
        self.change(set, |count| count + count % 2);
    }

    fn change(&self, set: SetId, next: impl Fn(u64) -> u64) {
        self.0.rcu(|seats| {
            let mut seats = BTreeMap::clone(seats);
            let count = seats.entry(set).or_default();
            *count = next(*count);
            seats
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_notices_what_happened_meanwhile() {
        let (seats, set) = (Seats::default(), SetId(3));
        let before = seats.of(set);
        assert!(before.is_some());
        seats.settle(set);
        assert_eq!(seats.of(set), before, "nothing happened");
        seats.disturb(set);
        seats.disturb(set);
        assert_eq!(seats.of(set), None);
        assert!(seats.of(SetId(4)).is_some());
        seats.settle(set);
        assert!(seats.of(set).is_some_and(|after| Some(after) != before));
    }
}
