//! What the executions of a prepared statement came to.

use std::sync::atomic::{AtomicU64, Ordering};

use units::Charge;

/// Charges are counted in classes, eight for each doubling: the p99 is exact to 9 %.
const CLASSES_PER_DOUBLING: u32 = 8;
/// From a hundredth of a request unit up to eleven million.
const CLASS_COUNT: usize = 8 * 30;
/// The least charge that has a class of its own, in millionths.
const LEAST_MICROS: u64 = 10_000;

/// Counts of one prepared statement since it was prepared.
pub(super) struct Statistics {
    calls: AtomicU64,
    throttled: AtomicU64,
    charge_micros: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    classes: Box<[AtomicU64]>,
}

/// [`Statistics`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) calls: u64,
    pub(super) throttled: u64,
    pub(super) charge: Charge,
    pub(super) charge_p99: Charge,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Statistics {
    pub(super) fn new() -> Statistics {
        Statistics {
            calls: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            charge_micros: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            classes: (0..CLASS_COUNT).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// An execution was refused because the budget was spent.
    pub(super) fn add_throttled(&self) {
        self.throttled.fetch_add(1, Ordering::Relaxed);
    }

    /// An execution was answered.
    pub(super) fn add(&self, charge: Charge, rows: u64, bytes: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.charge_micros.fetch_add(charge.micros(), Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(class) = self.classes.get(class_of(charge)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let counts: Vec<u64> = self.classes.iter().map(load).collect();
        let counted: u64 = counts.iter().sum();
        let behind = counted / 100;
        let mut above = 0;
        let p99 = counts.iter().enumerate().rev().find(|(_, count)| {
            above += **count;
            above > behind
        });
        Totals {
            calls: load(&self.calls),
            throttled: load(&self.throttled),
            charge: Charge::from_micros(load(&self.charge_micros)),
            charge_p99: p99.map_or(Charge::ZERO, |(class, _)| end_of(class)),
            rows: load(&self.rows),
            bytes: load(&self.bytes),
        }
    }
}

/// The class of a charge: its doubling, and which eighth of it.
fn class_of(charge: Charge) -> usize {
    let scaled = (charge.micros() / LEAST_MICROS).max(1);
    let doubling = scaled.ilog2();
    let within = u128::from(charge.micros()) * u128::from(CLASSES_PER_DOUBLING)
        / (u128::from(LEAST_MICROS) << doubling);
    let eighth = u32::try_from(within).unwrap_or(u32::MAX).clamp(8, 15) - CLASSES_PER_DOUBLING;
    ((doubling * CLASSES_PER_DOUBLING + eighth) as usize).min(CLASS_COUNT - 1)
}

/// The largest charge of a class.
fn end_of(class: usize) -> Charge {
    let (doubling, eighth) = (class as u64 / 8, class as u64 % 8);
    Charge::from_micros(((LEAST_MICROS << doubling.min(40)) / 8).saturating_mul(eighth + 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_within_an_eighth_of_the_true_one() {
        let statistics = Statistics::new();
        for number in 1..=1000u64 {
            statistics.add(Charge::from_hundredths(number * 10), 1, 10);
        }
        statistics.add_throttled();
        let totals = statistics.totals();
        assert_eq!(
            (totals.calls, totals.throttled, totals.rows, totals.bytes),
            (1000, 1, 1000, 10_000)
        );
        assert_eq!(totals.charge, Charge::from_hundredths(10 * 1000 * 1001 / 2));
        let p99 = totals.charge_p99.to_f64();
        assert!((99.0..=99.0 * 1.13).contains(&p99), "{p99}");
    }

    #[test]
    fn every_charge_has_a_class_that_holds_it() {
        for micros in [0, 1, 9_999, 10_000, 1_000_000, 4_950_000, 1_250_000_000, u64::MAX] {
            let charge = Charge::from_micros(micros);
            let class = class_of(charge);
            assert!(class < CLASS_COUNT);
            assert!(end_of(class) >= charge || class == CLASS_COUNT - 1, "{micros}");
        }
    }
}
