//! The budgets of the sets that have one.
//!
//! A budget is a short lock: it lets at most ten thousand requests a second through by its nature, and
//! is held for a few dozen instructions. Where nothing is provisioned there is none, and admission is
//! one look at a flag.
//!
//! On a node that is not alone a budget is this node's part of what its set may spend: it spends what the leader of the set grants
//! it, and asks nobody when a request comes. Reports and grants are exchanged by the host of the node's members.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use smallvec::SmallVec;
use types::SetId;
use units::budget::{Admitted, Budget, ClientId, Kind, Patience, Request};
use units::grants::{Grant, Report};
use units::{Charge, rules};

/// A refused client is never told to wait longer.
const WAIT_US_MAX: u64 = 5_000_000;
/// A request that waits on the server waits no longer (facts 2.3).
pub const SERVER_WAIT_MAX: Duration = Duration::from_secs(60);

/// What a set may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Whose it is.
    pub set: SetId,
    /// Request units a second.
    pub rate: u64,
    /// Whether it saves what it does not spend.
    pub saves_bursts: bool,
}

/// How a request asks.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// For whom.
    pub client: ClientId,
    /// Whether it waits on the server for what it is promised.
    pub waits: bool,
    /// Whether it has waited.
    pub has_waited: bool,
}

/// What one budget was used for.
#[derive(Clone, Copy, Debug)]
pub struct BudgetState {
    /// Request units a second.
    pub rate: u64,
    /// Spent in the last whole second.
    pub last_second: Charge,
    /// Spent since it began.
    pub total: Charge,
    /// Saved for bursts.
    pub saved: Charge,
    /// How often a request was refused.
    pub throttled_count: u64,
}

/// The budgets of a node.
pub struct Budgets {
    by_set: ArcSwap<BySet>,
    /// Whether there are any: asked with every request, and most nodes have none.
    has_any: AtomicBool,
    /// Microseconds of a clock that never goes back.
    now_us: fn() -> u64,
    /// Nodes that spend together; none on a node that runs alone.
    node_count: AtomicUsize,
    /// Tells budgets of the same set apart.
    next_run: AtomicU64,
}

type BySet = HashMap<SetId, Kept, FixedState>;

#[derive(Clone)]
struct Kept {
    allowance: Allowance,
    budget: Arc<Mutex<Budget>>,
}

/// What was taken from budgets for one request; in the order it was asked for.
#[derive(Default)]
pub struct Ticket(SmallVec<[Option<Taken>; 1]>);

struct Taken {
    set: SetId,
    budget: Arc<Mutex<Budget>>,
    admitted: Admitted,
}

impl Budgets {
    /// No budgets yet. `now_us` tells the microseconds of a clock that never goes back.
    pub fn new(now_us: fn() -> u64) -> Budgets {
        Budgets {
            by_set: ArcSwap::default(),
            has_any: AtomicBool::new(false),
            now_us,
            node_count: AtomicUsize::new(0),
            next_run: AtomicU64::new(0),
        }
    }

    /// From now on new budgets are parts of what so many nodes spend together. `epoch` is another one at each start of the node.
    pub fn share(&self, node_count: usize, epoch: u32) {
        self.next_run.store(u64::from(epoch) << 32, Ordering::Relaxed);
        self.node_count.store(node_count, Ordering::Relaxed);
    }

    fn fresh(&self, allowance: Allowance, now_us: u64) -> Budget {
        match self.node_count.load(Ordering::Relaxed) {
            0 => Budget::new(allowance.rate, allowance.saves_bursts, now_us),
            node_count => {
                let run = self.next_run.fetch_add(1, Ordering::Relaxed);
                Budget::granted(allowance.rate, node_count, run, now_us)
            }
        }
    }

    /// What each set may spend that has a budget, in the order of sets.
    pub fn allowances(&self) -> Vec<Allowance> {
        let mut all: Vec<_> = self.by_set.load().values().map(|kept| kept.allowance).collect();
        all.sort_unstable_by_key(|allowance| allowance.set);
        all
    }

    /// What a set may spend.
    pub fn allowance(&self, set: SetId) -> Option<Allowance> {
        self.by_set.load().get(&set).map(|kept| kept.allowance)
    }

    /// What the leader of a set is to know in its term, if it does not know it yet; without a term where no member here knows it.
    pub fn report(&self, set: SetId, term: Option<u64>) -> Option<Report> {
        let by_set = self.by_set.load();
        let mut budget = by_set.get(&set)?.budget.lock();
        budget.report((self.now_us)(), term)
    }

    /// The leader of a set grants something.
    pub fn take_grant(&self, set: SetId, grant: &Grant) {
        if let Some(kept) = self.by_set.load().get(&set) {
            kept.budget.lock().take_grant((self.now_us)(), grant);
        }
    }

    /// Whether no set has a budget.
    pub fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Relaxed)
    }

    /// From now on these sets have budgets, and no others. Who had one keeps its debt.
    pub fn set(&self, allowances: &[Allowance]) {
        let now_us = (self.now_us)();
        let before = self.by_set.load_full();
        let mut next = BySet::default();
        for allowance in allowances {
            let (rate, saves_bursts) = (allowance.rate, allowance.saves_bursts);
            let budget = match before.get(&allowance.set) {
                Some(kept) => {
                    kept.budget.lock().set_rate(rate, saves_bursts, now_us);
                    Arc::clone(&kept.budget)
                }
                None => Arc::new(Mutex::new(self.fresh(*allowance, now_us))),
            };
            next.insert(allowance.set, Kept { allowance: *allowance, budget });
        }
        let has_any = !next.is_empty();
        self.by_set.store(Arc::new(next));
        self.has_any.store(has_any, Ordering::Relaxed);
    }

    /// Takes what a request is reckoned to cost each set, or nothing at all and says when it may come.
    /// `fingerprint` is a number that it has again when it comes again.
    pub fn admit(
        &self,
        asking: Asking,
        kind: Kind,
        fingerprint: u64,
        asked: impl Iterator<Item = (SetId, Charge)>,
    ) -> Result<Ticket, Duration> {
        let by_set = self.by_set.load();
        let mut ticket = Ticket::default();
        if by_set.is_empty() {
            return Ok(ticket);
        }
        let now_us = (self.now_us)();
        let wait_max = SERVER_WAIT_MAX.as_micros() as u64;
        let patience = match asking {
            Asking { has_waited: true, .. } => Patience::Waited,
            Asking { waits: true, .. } => Patience::Refuse { wait_us_max: wait_max },
            Asking { .. } => Patience::Refuse { wait_us_max: WAIT_US_MAX },
        };
        for (set, estimate) in asked {
            let Some(Kept { budget, .. }) = by_set.get(&set) else {
                ticket.0.push(None);
                continue;
            };
            let admitted = {
                let request = Request { kind, estimate, fingerprint };
                budget.lock().admit(now_us, asking.client, request, patience)
            };
            match admitted {
                Ok(admitted) => {
                    let budget = Arc::clone(budget);
                    ticket.0.push(Some(Taken { set, budget, admitted }));
                }
                Err(wait_us) => {
                    self.settle(ticket, |_, _| Charge::ZERO);
                    // Whole milliseconds are told; up, so that the time is over by then.
                    return Err(Duration::from_millis(wait_us.div_ceil(1000)));
                }
            }
        }
        Ok(ticket)
    }

    /// Makes good what estimates were wrong by: what the set of each place actually cost.
    pub fn settle(&self, ticket: Ticket, actual: impl Fn(usize, SetId) -> Charge) {
        if ticket.0.iter().all(Option::is_none) {
            return;
        }
        let now_us = (self.now_us)();
        for (place, taken) in ticket.0.into_iter().enumerate() {
            if let Some(Taken { set, budget, admitted }) = taken {
                budget.lock().settle(now_us, admitted, actual(place, set));
            }
        }
    }

    /// How the budget of a set stands, if it has one.
    pub fn state(&self, set: SetId) -> Option<BudgetState> {
        let by_set = self.by_set.load();
        let mut budget = by_set.get(&set)?.budget.lock();
        let usage = *budget.usage((self.now_us)());
        Some(BudgetState {
            rate: budget.rate(),
            last_second: usage.last_second(),
            total: usage.total(),
            saved: budget.saved(),
            throttled_count: budget.throttled_count(),
        })
    }

    /// The highest use of a set in request units a second, and what it spent, since this was last
    /// asked.
    pub fn take_usage(&self, set: SetId) -> Option<(u64, Charge)> {
        let by_set = self.by_set.load();
        let mut budget = by_set.get(&set)?.budget.lock();
        Some(budget.usage((self.now_us)()).take())
    }
}

/// What a write of so many bytes is reckoned to cost before it is known what it replaces.
pub fn estimate_write(bytes: u64, is_conditional: bool) -> Charge {
    let condition =
        if is_conditional { rules::LEAST.times(rules::STRONG_READ_TIMES) } else { Charge::ZERO };
    units::table::write(bytes) + condition
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const RATE: u64 = 400;
    const CLIENT: Asking = Asking { client: ClientId(1), waits: false, has_waited: false };

    thread_local! {
        static NOW_US: Cell<u64> = const { Cell::new(1_000_000) };
    }

    fn budgets(sets: &[u32]) -> Budgets {
        let budgets = Budgets::new(|| NOW_US.get());
        set(&budgets, sets, RATE);
        budgets
    }

    fn set(budgets: &Budgets, sets: &[u32], rate: u64) {
        let allowance = |set: &u32| Allowance { set: SetId(*set), rate, saves_bursts: false };
        budgets.set(&sets.iter().map(allowance).collect::<Vec<_>>());
    }

    fn units(count: u64) -> Charge {
        rules::LEAST.times(count)
    }

    fn ask(budgets: &Budgets, asked: &[(u32, u64)]) -> Result<Ticket, Duration> {
        let asked = asked.iter().map(|(set, count)| (SetId(*set), units(*count)));
        budgets.admit(CLIENT, Kind::Write, 7, asked)
    }

    fn spent(budgets: &Budgets, set: u32) -> Charge {
        budgets.state(SetId(set)).unwrap().total
    }

    #[test]
    fn a_set_without_a_budget_spends_as_it_likes() {
        let budgets = budgets(&[]);
        assert!(budgets.is_empty());
        let ticket = ask(&budgets, &[(1, 1_000_000)]).unwrap();
        budgets.settle(ticket, |_, _| units(1_000_000));
        assert!(budgets.state(SetId(1)).is_none());
        assert!(budgets.take_usage(SetId(1)).is_none());
    }

    #[test]
    fn each_set_pays_what_its_own_place_cost() {
        let budgets = budgets(&[1, 3]);
        // The middle one has no budget, and keeps its place all the same.
        let ticket = ask(&budgets, &[(1, 1), (2, 1), (3, 1)]).unwrap();
        budgets.settle(ticket, |place, set| {
            assert_eq!(set, SetId(place as u32 + 1));
            units(place as u64 + 1)
        });
        assert_eq!((spent(&budgets, 1), spent(&budgets, 3)), (units(1), units(3)));
    }

    #[test]
    fn who_is_refused_by_one_set_is_given_back_what_the_others_gave() {
        let budgets = budgets(&[1, 2]);
        // A large request leaves a debt in the second.
        let ticket = ask(&budgets, &[(2, 1)]).unwrap();
        budgets.settle(ticket, |_, _| units(RATE));
        let Err(wait) = ask(&budgets, &[(1, 5), (2, 5)]) else { panic!("a debt is not looked at") };
        assert!(!wait.is_zero() && wait <= Duration::from_micros(WAIT_US_MAX), "{wait:?}");
        assert_eq!(spent(&budgets, 1), Charge::ZERO);
        let refused = |set| budgets.state(SetId(set)).unwrap().throttled_count;
        assert_eq!((refused(1), refused(2)), (0, 1));
        // Who comes when it was told is admitted.
        NOW_US.set(NOW_US.get() + wait.as_micros() as u64);
        assert!(ask(&budgets, &[(1, 5), (2, 5)]).is_ok());
    }

    #[test]
    fn a_new_rate_forgives_no_debt_and_a_set_that_is_gone_has_none() {
        let budgets = budgets(&[1, 2]);
        for set in [1, 2] {
            let ticket = ask(&budgets, &[(set, 1)]).unwrap();
            budgets.settle(ticket, |_, _| units(3 * RATE));
        }
        set(&budgets, &[1], RATE + 1);
        assert_eq!(budgets.state(SetId(1)).unwrap().rate, RATE + 1);
        assert!(ask(&budgets, &[(1, 5)]).is_err());
        assert!(budgets.state(SetId(2)).is_none());
        assert!(ask(&budgets, &[(2, 5)]).is_ok());
    }

    #[test]
    fn a_condition_is_paid_beside_what_is_written() {
        let condition = rules::LEAST.times(rules::STRONG_READ_TIMES);
        assert_eq!(estimate_write(1024, true), estimate_write(1024, false) + condition);
    }
}
