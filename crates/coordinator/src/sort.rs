//! Rows put into an order, with a look at the clock in between: many rows take longer to sort than to read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Rows that are sorted at once, while they come; such runs are merged at the end.
const RUN_ROWS_MAX: usize = 4096;
/// Rows that are merged between two looks at the clock.
const ROWS_PER_QUESTION: usize = 1024;
/// What a row takes besides its order and its values.
const ROW_BYTES: usize = size_of::<Row>() + 2 * size_of::<usize>();

/// The order of a row, and its place among the values.
type Row = (Box<[u8]>, Range<usize>);

/// Gathers rows that come in any order.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    runs: Vec<Vec<Row>>,
    newest: Vec<Row>,
    bytes: usize,
}

impl Sorter {
    /// One more row. Rows of the same order stay as they came.
    pub(crate) fn push(&mut self, order: &[u8], place: Range<usize>) {
        self.bytes += order.len() + ROW_BYTES;
        self.newest.push((order.into(), place));
        if self.newest.len() >= RUN_ROWS_MAX {
            self.end_run();
        }
    }

    /// What it takes up, without the values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn end_run(&mut self) {
        let mut run = std::mem::take(&mut self.newest);
        run.sort_by(|a, b| a.0.cmp(&b.0));
        self.runs.push(run);
    }

    /// Hands out the places of the first `limit` rows in order. `false`: `go_on` said that time is up.
    pub(crate) fn merge(
        mut self,
        limit: usize,
        mut take: impl FnMut(Range<usize>),
        mut go_on: impl FnMut() -> bool,
    ) -> bool {
        self.end_run();
        let mut runs: Vec<_> = self.runs.into_iter().map(Vec::into_iter).collect();
        let first = |(number, run): (usize, &mut std::vec::IntoIter<Row>)| {
            run.next().map(|(order, place)| Reverse((order, number, place.start, place.end)))
        };
        let mut heads: BinaryHeap<_> = runs.iter_mut().enumerate().filter_map(first).collect();
        let mut taken_count = 0;
        while taken_count < limit
            && let Some(Reverse((_, number, start, end))) = heads.pop()
        {
            take(start..end);
            taken_count += 1;
            if let Some(run) = runs.get_mut(number) {
                heads.extend(first((number, run)));
            }
            if taken_count.is_multiple_of(ROWS_PER_QUESTION) && !go_on() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(orders: &[u32], limit: usize) -> Vec<usize> {
        let mut sorter = Sorter::default();
        for (place, order) in orders.iter().enumerate() {
            sorter.push(&order.to_be_bytes(), place..place + 1);
        }
        let mut places = Vec::new();
        assert!(sorter.merge(limit, |place| places.push(place.start), || true));
        places
    }

    #[test]
    fn rows_come_in_order_and_equals_as_they_came() {
        let orders: Vec<u32> =
            (0..20_000_u32).map(|number| number.wrapping_mul(7919) % 300).collect();
        let mut expected: Vec<usize> = (0..orders.len()).collect();
        expected.sort_by_key(|place| orders[*place]);
        assert_eq!(sorted(&orders, usize::MAX), expected);
        assert_eq!(sorted(&orders, 5000), expected[..5000]);
        assert!(sorted(&[], 3).is_empty() && sorted(&[1, 2], 0).is_empty());
    }

    #[test]
    fn the_clock_is_looked_at_while_rows_are_merged() {
        let mut sorter = Sorter::default();
        (0..10_000_usize).for_each(|number| sorter.push(&number.to_be_bytes(), number..number));
        let mut taken_count = 0;
        let is_whole = sorter.merge(usize::MAX, |_| taken_count += 1, || false);
        assert_eq!((is_whole, taken_count), (false, ROWS_PER_QUESTION));
    }
}
