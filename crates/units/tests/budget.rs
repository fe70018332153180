//! Budgets under a simulated clock: exact, fair, and true to their word.

use units::Charge;
use units::budget::{Admitted, Budget, ClientId, Kind, Patience, Request};

const SECOND: u64 = 1_000_000;
const REFUSE: Patience = Patience::Refuse { wait_us_max: 5 * SECOND };

fn ru(units: u64) -> Charge {
    Charge::from_units(units)
}

fn admit(
    budget: &mut Budget,
    now_us: u64,
    client: u64,
    estimate: Charge,
    fingerprint: u64,
) -> Result<Admitted, u64> {
    let request = Request { kind: Kind::Write, estimate, fingerprint };
    budget.admit(now_us, ClientId(client), request, REFUSE)
}

/// A run of clients against one budget; `spent` holds what was spent when.
struct Run {
    budget: Budget,
    spent: Vec<(u64, u64)>,
}

impl Run {
    fn new(rate: u64) -> Run {
        Run { budget: Budget::new(rate, false, 0), spent: Vec::new() }
    }

    /// One request that turns out to cost `actual`.
    fn ask(
        &mut self,
        now_us: u64,
        client: u64,
        estimate: Charge,
        actual: Charge,
        fingerprint: u64,
    ) -> Result<(), u64> {
        let admitted = admit(&mut self.budget, now_us, client, estimate, fingerprint)?;
        self.budget.settle(now_us + 200, admitted, actual);
        self.spent.push((now_us, actual.micros()));
        Ok(())
    }

    fn spent_between(&self, from_us: u64, to_us: u64) -> u64 {
        let within = self.spent.iter().filter(|(at, _)| (from_us..to_us).contains(at));
        within.map(|(_, micros)| micros).sum()
    }

    /// Every ten seconds of a run under full load hold the budget, to two hundredths.
    fn assert_exact(&self, rate: u64, end_us: u64) {
        for start in (0..end_us - 10 * SECOND).step_by(100_000) {
            let spent = self.spent_between(start, start + 10 * SECOND) as f64;
            let ratio = spent / (rate * 10 * SECOND) as f64;
            assert!((0.98..=1.02).contains(&ratio), "{ratio} of {rate} from {start}");
        }
    }
}

#[test]
fn exact_under_clients_that_never_wait() {
    for rate in [400, 1_000, 10_000] {
        let mut run = Run::new(rate);
        let mut seed = 7u64;
        for now_us in (0..30 * SECOND).step_by(150) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let client = seed >> 60;
            let actual = Charge::from_hundredths(495 + (seed >> 40) % 1000);
            let _ = run.ask(now_us, client, Charge::from_hundredths(495), actual, seed);
        }
        run.assert_exact(rate, 30 * SECOND);
    }
}

/// Clients in a closed loop: each asks, is done after a moment, and asks again; one that is refused
/// comes back when it was told, a little late.
fn closed_loop(rate: u64, clients: u64, threads: u64, replaces: bool) -> (Run, u64, u64) {
    let mut run = Run::new(rate);
    let mut agenda: std::collections::BinaryHeap<std::cmp::Reverse<(u64, u64, bool)>> = (0
        ..clients * threads)
        .map(|thread| std::cmp::Reverse((thread * 37, thread, false)))
        .collect();
    let (mut kept, mut broken) = (0, 0);
    while let Some(std::cmp::Reverse((now_us, thread, was_told))) = agenda.pop() {
        if now_us > 30 * SECOND {
            break;
        }
        let estimate = Charge::from_hundredths(495);
        let actual = if replaces { estimate + estimate } else { estimate };
        match run.ask(now_us, thread / threads + 1, estimate, actual, thread) {
            Ok(()) => {
                kept += u64::from(was_told);
                agenda.push(std::cmp::Reverse((now_us + 800 + thread % 7 * 100, thread, false)));
            }
            Err(wait_us) => {
                broken += u64::from(was_told);
                let told_us = wait_us.div_ceil(1000) * 1000;
                agenda.push(std::cmp::Reverse((now_us + told_us + thread % 5 * 300, thread, true)));
            }
        }
    }
    (run, kept, broken)
}

#[test]
fn who_waits_as_told_is_admitted_and_the_budget_is_used_up() {
    for (rate, clients, threads) in [(400, 1, 1), (400, 1, 20), (1_000, 5, 8), (10_000, 20, 10)] {
        for replaces in [false, true] {
            let (run, kept, broken) = closed_loop(rate, clients, threads, replaces);
            run.assert_exact(rate, 30 * SECOND);
            let share = broken as f64 / (kept + broken).max(1) as f64;
            assert!(share < 0.02, "{rate} {clients} {threads}: {broken} of {}", kept + broken);
        }
    }
}

#[test]
fn a_client_within_its_share_is_not_starved() {
    let mut run = Run::new(1_000);
    let (mut asked, mut refused) = (0, 0);
    for now_us in (0..20 * SECOND).step_by(100) {
        // Nine that never wait, and one that asks for a twentieth of the budget.
        let _ = run.ask(now_us, 2 + now_us / 100 % 9, ru(5), ru(5), now_us);
        if now_us % 100_000 == 0 {
            asked += 1;
            refused += u64::from(run.ask(now_us, 1, ru(5), ru(5), now_us).is_err());
        }
    }
    assert!(refused * 50 <= asked, "{refused} of {asked} refused");
    run.assert_exact(1_000, 20 * SECOND);
}

#[test]
fn a_large_request_leaves_a_debt() {
    let mut budget = Budget::new(400, false, 0);
    let admitted = admit(&mut budget, 0, 1, ru(1250), 1).unwrap();
    budget.settle(10, admitted, ru(1250));
    let wait_us = admit(&mut budget, 20, 1, ru(5), 2).unwrap_err();
    // 1250 less the 32 of a full bucket, at 400 a second.
    assert!((2_900_000..=3_200_000).contains(&wait_us), "{wait_us}");
    let late = 20 + wait_us;
    assert!(admit(&mut budget, late, 1, ru(5), 2).is_ok());
}

#[test]
fn a_change_of_the_rate_acts_at_once() {
    let mut budget = Budget::new(400, false, 0);
    let spend = |budget: &mut Budget, from: u64| {
        (from..from + SECOND).step_by(1_000).fold(0u64, |spent, now_us| {
            match admit(budget, now_us, 1, ru(1), now_us) {
                Ok(admitted) => {
                    budget.settle(now_us, admitted, ru(1));
                    spent + 1
                }
                Err(_) => spent,
            }
        })
    };
    let first = spend(&mut budget, 0);
    budget.set_rate(800, false, SECOND);
    let second = spend(&mut budget, SECOND);
    budget.set_rate(100, false, 2 * SECOND);
    let third = spend(&mut budget, 2 * SECOND);
    assert!((400..=433).contains(&first) && (780..=820).contains(&second), "{first} {second}");
    assert!((90..=110).contains(&third), "{third}");
}

#[test]
fn bursts_spend_what_was_saved_at_no_more_than_their_rate() {
    let mut budget = Budget::new(100, true, 0);
    // Idle for ten minutes: five are saved.
    let start = 600 * SECOND;
    let mut by_second = Vec::new();
    for second in 0..15 {
        let mut spent = 0u64;
        for now_us in (start + second * SECOND..start + (second + 1) * SECOND).step_by(200) {
            if let Ok(admitted) = admit(&mut budget, now_us, 1, ru(1), now_us) {
                budget.settle(now_us, admitted, ru(1));
                spent += 1;
            }
        }
        by_second.push(spent);
    }
    // 30,000 at 3,000 a second: about ten seconds, then the plain rate again.
    for spent in &by_second[..9] {
        assert!((2_900..=3_300).contains(spent), "{by_second:?}");
    }
    assert!(by_second[12..].iter().all(|spent| *spent <= 110), "{by_second:?}");
}

#[test]
fn usage_is_full_only_after_five_full_seconds() {
    let mut budget = Budget::new(1_000, false, 0);
    let mut load = |seconds: std::ops::Range<u64>, per_second: u64| {
        for now_us in
            (seconds.start * SECOND..seconds.end * SECOND).step_by((SECOND / per_second) as usize)
        {
            budget.spend(now_us, ru(1));
        }
        budget.usage(seconds.end * SECOND).take()
    };
    assert_eq!(load(0..3, 250), (250, ru(750)));
    let (peak, _) = load(3..4, 1_000);
    assert!((250..1_000).contains(&peak), "{peak}");
    assert_eq!(load(4..10, 1_000).0, 1_000);
}
