//! How much of a budget was used when: what autoscale bills by.

use crate::charge::Charge;

const SECOND_US: u64 = 1_000_000;
/// A second at the limit counts as the mean of so many: autoscale goes to its maximum only when use
/// stays there for so long (facts 2.4).
const FULL_SECONDS: usize = 5;

/// Counts what is spent, by second.
#[derive(Clone, Copy, Debug)]
pub struct UsageMeter {
    second: u64,
    in_second: u64,
    recent: [u64; FULL_SECONDS],
    last_second: u64,
    peak: u64,
    spent: u64,
    total: u64,
}

impl UsageMeter {
    pub(crate) fn new(now_us: u64) -> UsageMeter {
        UsageMeter {
            second: now_us / SECOND_US,
            in_second: 0,
            recent: [0; FULL_SECONDS],
            last_second: 0,
            peak: 0,
            spent: 0,
            total: 0,
        }
    }

    /// What was spent in the last whole second.
    pub fn last_second(&self) -> Charge {
        Charge::from_micros(self.last_second)
    }

    /// What was spent since the budget began.
    pub fn total(&self) -> Charge {
        Charge::from_micros(self.total)
    }

    /// The highest use in request units a second, and what was spent, both since the last time this
    /// was asked.
    pub fn take(&mut self) -> (u64, Charge) {
        let taken = (self.peak.div_ceil(SECOND_US), Charge::from_micros(self.spent));
        (self.peak, self.spent) = (0, 0);
        taken
    }

    pub(crate) fn add(&mut self, charge: Charge) {
        self.in_second = self.in_second.saturating_add(charge.micros());
        self.spent = self.spent.saturating_add(charge.micros());
        self.total = self.total.saturating_add(charge.micros());
    }

    pub(crate) fn give_back(&mut self, charge: Charge) {
        self.in_second = self.in_second.saturating_sub(charge.micros());
        self.spent = self.spent.saturating_sub(charge.micros());
        self.total = self.total.saturating_sub(charge.micros());
    }

    /// Closes the seconds that are over.
    pub(crate) fn roll(&mut self, now_us: u64, rate: u64) {
        let second = now_us / SECOND_US;
        if second <= self.second {
            return;
        }
        let passed = usize::try_from(second - self.second).unwrap_or(usize::MAX);
        self.second = second;
        for number in 0..passed.min(FULL_SECONDS + 1) {
            let used = if number == 0 { self.in_second } else { 0 };
            self.recent.rotate_left(1);
            if let Some(last) = self.recent.last_mut() {
                *last = used;
            }
            let is_full = used >= rate.saturating_mul(SECOND_US);
            let mean = self.recent.iter().sum::<u64>() / FULL_SECONDS as u64;
            self.peak = self.peak.max(if is_full { mean } else { used });
            self.last_second = used;
        }
        self.in_second = 0;
    }
}
