//! What a flow saw.

use std::time::{Duration, Instant};

/// Spending is counted in steps of this.
pub(super) const STEP: Duration = Duration::from_millis(100);
/// Messages of failures that are kept.
const FAILURES_MAX: usize = 4;

/// What the requests of a flow came to.
#[derive(Clone, Debug)]
pub struct Tally {
    begin: Instant,
    /// Answered with a result.
    pub good: u64,
    /// Refused with 0x1001.
    pub refused: u64,
    /// Refused although they had waited as they were told.
    pub broken_promises: u64,
    /// Served after they had waited as they were told.
    pub kept_promises: u64,
    /// Any other error.
    pub failed: u64,
    /// Some of these.
    pub failures: Vec<String>,
    /// How long each good one took, in microseconds.
    pub latencies_us: Vec<u32>,
    /// How long each refusal took, in microseconds.
    pub refusals_us: Vec<u32>,
    /// Charges, in request units, by the step of time in which they came.
    pub charges: Vec<f64>,
}

impl Tally {
    pub(super) fn new(begin: Instant) -> Tally {
        Tally {
            begin,
            good: 0,
            refused: 0,
            broken_promises: 0,
            kept_promises: 0,
            failed: 0,
            failures: Vec::new(),
            latencies_us: Vec::new(),
            refusals_us: Vec::new(),
            charges: Vec::new(),
        }
    }

    pub(super) fn add_good(&mut self, now: Instant, took: Duration, charge: f64) {
        self.good += 1;
        self.latencies_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        let step = now.duration_since(self.begin).as_millis() / STEP.as_millis();
        let step = usize::try_from(step).unwrap_or(0);
        if self.charges.len() <= step {
            self.charges.resize(step + 1, 0.0);
        }
        if let Some(sum) = self.charges.get_mut(step) {
            *sum += charge;
        }
    }

    pub(super) fn add_refused(&mut self, has_waited: bool, took: Duration) {
        self.refused += 1;
        self.refusals_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        self.broken_promises += u64::from(has_waited);
    }

    pub(super) fn add_failed(&mut self, message: String) {
        self.failed += 1;
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(message);
        }
    }

    /// Adds what another flow saw that began at the same time.
    pub fn merge(&mut self, other: &Tally) {
        self.good += other.good;
        self.refused += other.refused;
        self.broken_promises += other.broken_promises;
        self.kept_promises += other.kept_promises;
        self.failed += other.failed;
        self.failures.extend(other.failures.iter().cloned());
        self.failures.truncate(FAILURES_MAX);
        self.latencies_us.extend(&other.latencies_us);
        self.refusals_us.extend(&other.refusals_us);
        if self.charges.len() < other.charges.len() {
            self.charges.resize(other.charges.len(), 0.0);
        }
        self.charges.iter_mut().zip(&other.charges).for_each(|(sum, more)| *sum += more);
    }

    /// All of several flows that began at the same time.
    pub fn of_all(tallies: &[Tally]) -> Option<Tally> {
        let (first, rest) = tallies.split_first()?;
        let mut all = first.clone();
        rest.iter().for_each(|tally| all.merge(tally));
        Some(all)
    }

    /// The least and the most that was spent in any window of that length, in request units, the
    /// first moments left out.
    pub fn spending(&self, warm_up: Duration, window: Duration) -> Option<(f64, f64)> {
        let steps = |time: Duration| usize::try_from(time.as_millis() / STEP.as_millis()).ok();
        // The last step is cut short.
        let whole = self.charges.get(steps(warm_up)?..self.charges.len().saturating_sub(1))?;
        let sums = whole.windows(steps(window)?.max(1)).map(|steps| steps.iter().sum::<f64>());
        sums.fold(None, |found, sum| match found {
            None => Some((sum, sum)),
            Some((least, most)) => Some((sum.min(least), sum.max(most))),
        })
    }
}

/// The value below which that part of the numbers lies.
pub fn quantile(numbers: &mut [u32], part: f64) -> u32 {
    let place = (numbers.len() as f64 * part) as usize;
    let place = place.min(numbers.len().saturating_sub(1));
    if numbers.is_empty() { 0 } else { *numbers.select_nth_unstable(place).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a moment to count from")]
    fn spending_is_that_of_the_thinnest_and_the_thickest_window() {
        let mut tally = Tally::new(Instant::now());
        tally.charges = vec![9.0, 1.0, 2.0, 3.0, 4.0, 9.0];
        let (warm_up, window) = (STEP, 2 * STEP);
        assert_eq!(tally.spending(warm_up, window), Some((3.0, 7.0)));
        assert_eq!(tally.spending(Duration::ZERO, 9 * STEP), None);
    }

    #[test]
    fn quantiles() {
        let mut numbers: Vec<u32> = (0..100).rev().collect();
        assert_eq!(quantile(&mut numbers, 0.5), 50);
        assert_eq!(quantile(&mut numbers, 0.99), 99);
        assert_eq!(quantile(&mut [], 0.99), 0);
    }
}
