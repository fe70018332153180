//! What the executions of a prepared statement came to.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use units::Charge;

/// Charges are counted in classes, eight for each doubling: the p99 is exact to 9 %.
const CLASSES_PER_DOUBLING: u32 = 8;
/// From a hundredth of a request unit up to eleven million.
const CLASS_COUNT: usize = 8 * 30;
/// The least charge that has a class of its own, in millionths.
const LEAST_MICROS: u64 = 10_000;

/// Threads count in different places, so that they do not wait for each other's memory.
const SHARDS: usize = 4;
/// Where the charge is in [`Shard::run`], in millionths; below it is how often it came.
const CHARGE_SHIFT: u32 = 24;
/// The longest run that is counted as one.
const RUN_MAX: u64 = (1 << CHARGE_SHIFT) - 1;
/// Charges from here on, a million request units, have no place in a run.
const RUN_CHARGE_END: u64 = 1 << (u64::BITS - CHARGE_SHIFT);

/// Counts of one prepared statement since it was prepared.
pub(super) struct Statistics {
    shards: [Shard; SHARDS],
    throttled: AtomicU64,
    /// How often charges of each class came, but for those of a run.
    classes: Box<[AtomicU64]>,
}

/// What some threads counted; on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    /// But for those of the run.
    charge_micros: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// The last charge, and how often it came in a row: mostly all calls of a statement cost the same,
    /// and are counted in one step.
    run: AtomicU64,
}

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
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
            shards: Default::default(),
            throttled: AtomicU64::new(0),
            classes: (0..CLASS_COUNT).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// An execution was refused because the budget was spent.
    pub(super) fn add_throttled(&self) {
        self.throttled.fetch_add(1, Ordering::Relaxed);
    }

    /// An execution was answered.
    pub(super) fn add(&self, charge: Charge, rows: u64, bytes: u64) {
        let Some(shard) = self.shards.get(SHARD.with(|shard| *shard)) else { return };
        if rows > 0 {
            shard.rows.fetch_add(rows, Ordering::Relaxed);
            shard.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let run = shard.run.load(Ordering::Relaxed);
        if run >> CHARGE_SHIFT == charge.micros() && (1..RUN_MAX).contains(&(run & RUN_MAX)) {
            // Another thread of this shard may have counted meanwhile.
            let longer =
                shard.run.compare_exchange(run, run + 1, Ordering::Relaxed, Ordering::Relaxed);
            if longer.is_ok() {
                return;
            }
        }
        if charge.micros() < RUN_CHARGE_END {
            let ended = shard.run.swap((charge.micros() << CHARGE_SHIFT) + 1, Ordering::Relaxed);
            self.count(shard, charge_of_run(ended), count_of_run(ended));
        } else {
            self.count(shard, charge, 1);
        }
    }

    #[inline(never)]
    fn count(&self, shard: &Shard, charge: Charge, times: u64) {
        shard.charge_micros.fetch_add(charge.micros().saturating_mul(times), Ordering::Relaxed);
        if let Some(counted) = self.classes.get(class_of(charge)) {
            counted.fetch_add(times, Ordering::Relaxed);
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let mut counts: Vec<u64> = self.classes.iter().map(load).collect();
        let mut totals = Totals { throttled: load(&self.throttled), ..Totals::default() };
        for shard in &self.shards {
            totals.rows += load(&shard.rows);
            totals.bytes += load(&shard.bytes);
            let run = load(&shard.run);
            let of_run = charge_of_run(run).micros().saturating_mul(count_of_run(run));
            totals.charge += Charge::from_micros(load(&shard.charge_micros).saturating_add(of_run));
            if let Some(count) = counts.get_mut(class_of(charge_of_run(run))) {
                *count += count_of_run(run);
            }
        }
        totals.calls = counts.iter().sum();
        let behind = totals.calls / 100;
        let mut above = 0;
        let p99 = counts.iter().enumerate().rev().find(|(_, count)| {
            above += **count;
            above > behind
        });
        totals.charge_p99 = p99.map_or(Charge::ZERO, |(class, _)| end_of(class));
        totals
    }
}

fn charge_of_run(run: u64) -> Charge {
    Charge::from_micros(run >> CHARGE_SHIFT)
}

fn count_of_run(run: u64) -> u64 {
    run & RUN_MAX
}

/// The class of a charge: its doubling, and which eighth of it.
fn class_of(charge: Charge) -> usize {
    let scaled = (charge.micros() / LEAST_MICROS).max(1);
    let doubling = scaled.ilog2();
    // Without the bits below the doubling, so that it is a division of small numbers.
    let (micros, unit) = match doubling {
        0..=24 => (charge.micros() << 3, LEAST_MICROS << doubling),
        _ => (charge.micros() >> (doubling - 3), LEAST_MICROS),
    };
    let eighth = (micros / unit).clamp(8, 15) as u32 - CLASSES_PER_DOUBLING;
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
    fn what_many_threads_count_comes_together() {
        let statistics = Statistics::new();
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let statistics = &statistics;
                scope.spawn(move || {
                    for number in 0..1000 {
                        let charge = if (number + thread) % 3 == 0 { 100 } else { 495 };
                        statistics.add(Charge::from_hundredths(charge), 1, 2);
                    }
                });
            }
        });
        let totals = statistics.totals();
        assert_eq!((totals.calls, totals.rows, totals.bytes), (6000, 6000, 12_000));
        assert_eq!(totals.charge, Charge::from_hundredths(2000 * 100 + 4000 * 495));
    }

    #[test]
    fn charges_without_a_place_in_a_run_and_long_runs_are_counted() {
        let statistics = Statistics::new();
        let large = Charge::from_micros(RUN_CHARGE_END);
        let small = Charge::from_micros(10_000);
        statistics.add(small, 0, 0);
        statistics.add(large, 0, 0);
        // As after sixteen million executions.
        let run = (small.micros() << CHARGE_SHIFT) + RUN_MAX - 1;
        for shard in &statistics.shards {
            shard.run.store(run, Ordering::Relaxed);
        }
        for _ in 0..3 {
            statistics.add(small, 0, 0);
        }
        let totals = statistics.totals();
        let calls = SHARDS as u64 * (RUN_MAX - 1) + 3 + 1;
        assert_eq!(totals.calls, calls);
        assert_eq!(totals.charge.micros(), (calls - 1) * small.micros() + large.micros());
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
