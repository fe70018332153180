//! How often something was done and how long it took: counted where it is done, told by the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the classes, in microseconds.
pub const TIMING_BOUNDS_US: [u64; 15] = [
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    10_000_000,
    100_000_000,
];
const CLASS_COUNT: usize = TIMING_BOUNDS_US.len() + 1;

/// Times by class, and all of them together.
#[derive(Debug, Default)]
pub struct Timings {
    /// One per bound, and one for what is above them all.
    classes: [AtomicU64; CLASS_COUNT],
    sum_us: AtomicU64,
}

/// [`Timings`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimingSum {
    /// How many there were up to each bound and above the one before, and above the last.
    pub classes: [u64; CLASS_COUNT],
    /// How long all took together.
    pub sum_us: u64,
}

impl Timings {
    /// It was done once more.
    pub fn add(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = TIMING_BOUNDS_US.partition_point(|bound| *bound < took_us);
        if let Some(class) = self.classes.get(place) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn sum(&self) -> TimingSum {
        let mut sum =
            TimingSum { sum_us: self.sum_us.load(Ordering::Relaxed), ..TimingSum::default() };
        for (told, class) in sum.classes.iter_mut().zip(&self.classes) {
            *told = class.load(Ordering::Relaxed);
        }
        sum
    }
}

impl TimingSum {
    /// How often it was done.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_into_their_classes() {
        let timings = Timings::default();
        for microseconds in [50, 51, 100_000_000, 100_000_001] {
            timings.add(Duration::from_micros(microseconds));
        }
        let sum = timings.sum();
        assert_eq!((sum.classes[0], sum.classes[1]), (1, 1));
        assert_eq!((sum.classes[14], sum.classes[15]), (1, 1));
        assert_eq!((sum.count(), sum.sum_us), (4, 200_000_102));
    }
}
