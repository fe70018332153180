//! What one physical partition may spend, and who of those that want more may spend first.
//!
//! A bucket fills at the rate of the budget and holds a moment's worth of it ([`DEPTH_US`]). A request
//! is admitted before its work is done, by an estimate, and settled afterwards; what it cost beyond
//! what there was is a debt that the next seconds pay. So over any ten seconds no more is spent than
//! the budget and a fiftieth, whoever asks, plus the last large request.
//!
//! **Fair.** Each client has a small bucket of its own that fills at the fair rate: what the clients
//! that were never refused leave over, shared equally by those that were. While there is something in
//! the large bucket anybody may take it. When it is empty, a client with something in its own bucket is
//! still admitted, up to a short debt; who takes more than its share waits until that is paid.
//!
//! **True waits.** A refused request is promised the moment when its client's bucket, filling at the
//! fair rate, will have paid for everything promised to it before, and is known again by what it asks
//! for. Who comes back then is admitted; who comes earlier is told the rest of the wait, and moves
//! nobody's place.
//!
//! **Burst.** What flows over is saved, and spent when the bucket is empty, at up to
//! [`BURST_RATE_MAX`] in all (facts 2.4).
//!
//! **Granted.** Where requests to the partition are admitted on several nodes, each node's budget spends what the leader of the
//! set grants it, and nothing comes by time alone: see [`crate::grants`].
//!
//! Time is in microseconds of any clock that never goes back. One request unit a second is one
//! millionth of a unit a microsecond, so rates multiply with times without a factor.

mod granted;

use std::collections::BTreeMap;

use granted::Granted;

use crate::charge::Charge;
use crate::usage::UsageMeter;

/// Most that one physical partition may spend in a second (facts 1.1).
pub const PARTITION_RATE_MAX: u64 = 10_000;
/// The large bucket holds so much time's worth: clients that wait as they are told come a little late, and what flows
/// over meanwhile is lost. With the largest debt it stays below a fiftieth of ten seconds.
const DEPTH_US: u64 = 70_000;
/// So much time's worth may be owed for clients within their share.
const DEBT_US: u64 = 50_000;
/// And so much for promises that were given.
const PROMISE_DEBT_US: u64 = 1_000_000;
/// And so much for those that did not even use what they had saved.
const CONTENT_DEBT_US: u64 = 100_000;
/// Who has taken more than its share is not held to more than so much time's worth of it.
const OVERDRAFT_US: u64 = 200_000;
/// Shares are worked out anew so often.
const WINDOW_US: u64 = 500_000;
/// Clients that are told apart; the others share a bucket.
const CLIENTS_MAX: usize = 1024;
/// Promises that are remembered for one client.
const PROMISES_MAX: usize = 512;
/// A promise that nobody came for by then goes to any request of its client.
const LATE_US: u64 = 5_000;
/// A promise is forgotten when nobody came for it for so long.
const PROMISE_KEPT_US: u64 = 2_000_000;
/// Budget that is saved for bursts, as time (facts 2.4).
pub(crate) const BURST_US: u64 = 300_000_000;
/// A partition with this much or more saves nothing, and bursts go up to it (facts 2.4).
pub const BURST_RATE_MAX: u64 = 3_000;
const CORRECTION_ONE: u64 = 1 << 16;

/// Who spends: any number that stays the same for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// What a request is going to do; estimates of each kind are corrected by what such requests cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

/// A request, before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it is going to do.
    pub kind: Kind,
    /// What it is reckoned to cost.
    pub estimate: Charge,
    /// A number that it has again when it comes again.
    pub fingerprint: u64,
}

/// What a request does when the budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It is refused and told to come back; so much later at most, in microseconds.
    Refuse {
        /// The longest wait that is told.
        wait_us_max: u64,
    },
    /// It waited as it was promised and is admitted now; where the budget is granted, only if that owes no more than it may.
    Waited,
}

/// What was taken from a budget for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    estimate: Charge,
    taken: Charge,
    kind: Kind,
    client: ClientId,
}

/// The budget of one physical partition.
#[derive(Debug)]
pub struct Budget {
    /// Request units a second.
    rate: u64,
    saves_bursts: bool,
    balance: i64,
    saved: i64,
    /// What bursts leave of their own rate.
    burst_balance: i64,
    refilled_at_us: u64,
    clients: BTreeMap<ClientId, Client>,
    fair_rate: u64,
    /// What clients that were not refused spent in a second of the last window.
    content_rate: u64,
    window: Window,
    corrections: [u64; 2],
    throttled_count: u64,
    usage: UsageMeter,
    /// Where it is one node's part of what a set may spend.
    granted: Option<Box<Granted>>,
}

/// A moment from which on a request may come again.
#[derive(Clone, Copy, Debug)]
struct Promise {
    fingerprint: u64,
    due_us: u64,
    amount: i64,
    /// The rate that was counted on.
    rate: u64,
}

#[derive(Clone, Debug, Default)]
struct Client {
    balance: i64,
    promises: Vec<Promise>,
    at_us: u64,
    spent: u64,
    was_refused: bool,
    refused_at_us: u64,
    is_active: bool,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    started_at_us: u64,
    /// Clients that were refused in it so far, and in the one before.
    refused: u64,
    refused_before: u64,
}

pub(crate) fn worth(rate: u64, time_us: u64) -> i64 {
    i64::try_from(rate.saturating_mul(time_us)).unwrap_or(i64::MAX)
}

fn amount(charge: Charge) -> i64 {
    i64::try_from(charge.micros()).unwrap_or(i64::MAX)
}

impl Budget {
    /// A budget of that many request units a second that begins now, full.
    pub fn new(rate: u64, saves_bursts: bool, now_us: u64) -> Budget {
        let rate = rate.clamp(1, PARTITION_RATE_MAX);
        Budget {
            rate,
            saves_bursts,
            balance: worth(rate, DEPTH_US),
            saved: 0,
            burst_balance: worth(BURST_RATE_MAX, DEPTH_US),
            refilled_at_us: now_us,
            clients: BTreeMap::new(),
            fair_rate: rate,
            content_rate: 0,
            window: Window { started_at_us: now_us, refused: 0, refused_before: 0 },
            corrections: [CORRECTION_ONE; 2],
            throttled_count: 0,
            usage: UsageMeter::new(now_us),
            granted: None,
        }
    }

    /// Request units a second; where they are granted, those of the whole set.
    pub fn rate(&self) -> u64 {
        self.granted.as_ref().map_or(self.rate, |granted| granted.set_rate)
    }

    /// Another rate, from now on. Debts stay.
    pub fn set_rate(&mut self, rate: u64, saves_bursts: bool, now_us: u64) {
        self.refill(now_us);
        if let Some(granted) = &mut self.granted {
            let rate = rate.clamp(1, PARTITION_RATE_MAX);
            granted.set_rate = rate;
            self.rate = self.rate.min(rate);
            self.fair_rate = self.fair_rate.min(rate);
            return;
        }
        self.rate = rate.clamp(1, PARTITION_RATE_MAX);
        self.saves_bursts = saves_bursts;
        self.balance = self.balance.min(worth(self.rate, DEPTH_US));
        self.saved = if saves_bursts { self.saved.min(worth(self.rate, BURST_US)) } else { 0 };
        self.fair_rate = self.fair_rate.min(self.rate).max(1);
        self.window.started_at_us = now_us.saturating_sub(WINDOW_US);
    }

    /// How often a request was refused; where it is granted, by all nodes.
    pub fn throttled_count(&self) -> u64 {
        self.granted.as_ref().map_or(self.throttled_count, |granted| granted.set_throttled)
    }

    /// What was spent, and how much of it when; where it is granted, by all nodes.
    pub fn usage(&mut self, now_us: u64) -> &mut UsageMeter {
        match &mut self.granted {
            None => {
                self.usage.roll(now_us, self.rate);
                &mut self.usage
            }
            Some(granted) => {
                granted.set_usage.roll(now_us, granted.set_rate);
                &mut granted.set_usage
            }
        }
    }

    /// What is saved for bursts.
    pub fn saved(&self) -> Charge {
        let saved = self.granted.as_ref().map_or(self.saved, |granted| granted.set_saved);
        Charge::from_micros(u64::try_from(saved).unwrap_or(0))
    }

    /// Takes what a request is reckoned to cost, or says after how many microseconds it may.
    pub fn admit(
        &mut self,
        now_us: u64,
        client: ClientId,
        request: Request,
        patience: Patience,
    ) -> Result<Admitted, u64> {
        let Request { kind, estimate, fingerprint } = request;
        self.refill(now_us);
        let client = self.enter(now_us, client);
        let taken = self.corrected(kind, estimate);
        let promised = self.promised(now_us, client, fingerprint);
        // Promises are kept as long as not too much is owed; then they wait like everything else.
        let may_owe = self.balance > -self.promise_debt(promised.map(|(_, promise)| promise.rate));
        let is_due = promised.is_some_and(|(_, it)| it.due_us <= now_us) && may_owe;
        let may = (patience == Patience::Waited && (may_owe || self.granted.is_none()))
            || is_due
            || self.balance > 0
            || self.is_within_share(client, taken)
            || self.take_saved(taken);
        if !may {
            self.throttled_count += 1;
            if let Some(client) = self.clients.get_mut(&client) {
                client.refused_at_us = now_us;
            }
            let wait_us_max = match patience {
                Patience::Refuse { wait_us_max } => wait_us_max,
                Patience::Waited => u64::MAX,
            };
            return Err(match promised {
                Some((_, promise)) if promise.due_us > now_us || self.granted.is_none() => {
                    promise.due_us.saturating_sub(now_us).max(1)
                }
                // Less came than was to be expected when it was promised: it gets another place.
                Some((place, _)) => {
                    if let Some(client) = self.clients.get_mut(&client) {
                        client.promises.swap_remove(place);
                    }
                    self.promise(now_us, client, fingerprint, taken, wait_us_max)
                }
                None => self.promise(now_us, client, fingerprint, taken, wait_us_max),
            });
        }
        if let (Some((place, _)), Some(client)) = (promised, self.clients.get_mut(&client)) {
            client.promises.swap_remove(place);
        }
        self.take(client, amount(taken));
        self.usage.add(taken);
        Ok(Admitted { estimate, taken, kind, client })
    }

    /// Makes good what an estimate was wrong by.
    pub fn settle(&mut self, now_us: u64, admitted: Admitted, actual: Charge) {
        self.refill(now_us);
        let more = amount(actual) - amount(admitted.taken);
        self.take(admitted.client, more);
        if more > 0 {
            self.usage.add(Charge::from_micros(more.unsigned_abs()));
        } else {
            self.usage.give_back(Charge::from_micros(more.unsigned_abs()));
        }
        self.learn(admitted.kind, admitted.estimate, actual);
    }

    /// Spends without asking: work that nobody could foresee.
    pub fn spend(&mut self, now_us: u64, charge: Charge) {
        self.refill(now_us);
        self.balance = self.balance.saturating_sub(amount(charge));
        self.usage.add(charge);
    }

    fn refill(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.refilled_at_us);
        self.refilled_at_us = self.refilled_at_us.max(now_us);
        self.usage.roll(now_us, self.rate);
        if now_us.saturating_sub(self.window.started_at_us) >= WINDOW_US {
            self.share(now_us);
        }
        if self.granted.is_some() {
            return;
        }
        let filled = self.balance.saturating_add(worth(self.rate, passed_us));
        self.balance = filled.min(worth(self.rate, DEPTH_US));
        if self.saves_bursts && self.rate < BURST_RATE_MAX {
            let overflow = filled.saturating_sub(self.balance);
            self.saved = self.saved.saturating_add(overflow).min(worth(self.rate, BURST_US));
        }
        let burst = self.burst_balance.saturating_add(worth(BURST_RATE_MAX, passed_us));
        self.burst_balance = burst.min(worth(BURST_RATE_MAX, DEPTH_US));
    }

    /// Works out the fair rate from what happened in the window that ends.
    fn share(&mut self, now_us: u64) {
        let window_us = now_us.saturating_sub(self.window.started_at_us).max(1);
        self.window =
            Window { started_at_us: now_us, refused: 0, refused_before: self.window.refused };
        let active = self.clients.values().filter(|client| client.is_active).count() as u64;
        let refused = self.clients.values().filter(|client| client.was_refused).count() as u64;
        let content = self.clients.values().filter(|client| !client.was_refused);
        let content_rate = content.map(|client| client.spent).sum::<u64>() / window_us;
        self.content_rate = content_rate;
        let left = self.rate.saturating_sub(content_rate) / refused.max(1);
        self.fair_rate = left.max(self.rate / active.max(1)).clamp(1, self.rate);
        for client in self.clients.values_mut() {
            client.promises.retain(|promise| promise.due_us + PROMISE_KEPT_US > now_us);
        }
        self.clients.retain(|_, client| client.is_active || !client.promises.is_empty());
        for client in self.clients.values_mut() {
            (client.spent, client.was_refused, client.is_active) = (0, false, false);
        }
    }

    /// The client's bucket, filled up to now; or the shared one, where there are too many.
    fn enter(&mut self, now_us: u64, id: ClientId) -> ClientId {
        const SHARED: ClientId = ClientId(0);
        let is_known = self.clients.contains_key(&id);
        let id = if is_known || self.clients.len() < CLIENTS_MAX { id } else { SHARED };
        let fair_rate = self.fair_rate;
        let fresh = Client { at_us: now_us, is_active: true, ..Client::default() };
        let client = self.clients.entry(id).or_insert(fresh);
        let passed_us = now_us.saturating_sub(client.at_us);
        client.at_us = client.at_us.max(now_us);
        client.is_active = true;
        let filled = client.balance.saturating_add(worth(fair_rate, passed_us));
        client.balance = filled.min(worth(fair_rate, DEPTH_US).max(0));
        id
    }

    /// Whether a burst pays for it.
    fn take_saved(&mut self, charge: Charge) -> bool {
        let pays = self.saved > 0 && self.burst_balance > 0;
        if pays {
            self.saved = self.saved.saturating_sub(amount(charge)).max(0);
            self.balance = self.balance.saturating_add(amount(charge));
        }
        pays
    }

    fn take(&mut self, client: ClientId, amount: i64) {
        self.balance = self.balance.saturating_sub(amount).min(self.ceiling());
        self.burst_balance = self.burst_balance.saturating_sub(amount);
        let floor = -worth(self.fair_rate, OVERDRAFT_US).max(amount);
        if let Some(client) = self.clients.get_mut(&client) {
            let before = client.balance;
            let after = before.saturating_sub(amount);
            client.balance = if after < floor { before.min(floor) } else { after };
            client.spent = client.spent.saturating_add_signed(amount);
        }
    }

    /// The earliest promise to that request, and where it is.
    fn promised(
        &self,
        now_us: u64,
        client: ClientId,
        fingerprint: u64,
    ) -> Option<(usize, Promise)> {
        let promises = self.clients.get(&client)?.promises.iter().enumerate();
        let mine = promises.clone().filter(|(_, promise)| promise.fingerprint == fingerprint);
        // Where nobody came for a promise in time, its client seems to ask in another way.
        let may_take = self.balance > -self.debt(DEBT_US);
        let late = promises.filter(|(_, promise)| may_take && promise.due_us + LATE_US <= now_us);
        let earliest = |(_, promise): &(usize, &Promise)| promise.due_us;
        let found = mine.min_by_key(earliest).or_else(|| late.min_by_key(earliest));
        found.map(|(place, promise)| (place, *promise))
    }

    /// Whether the client did not have its share yet. What it was promised comes first.
    fn is_within_share(&self, client: ClientId, taken: Charge) -> bool {
        let Some(client) = self.clients.get(&client) else { return false };
        let debt_us = match client.balance {
            own if own >= amount(taken) => CONTENT_DEBT_US,
            own if own >= 0 => DEBT_US,
            _ => 0,
        };
        client.promises.is_empty() && debt_us > 0 && self.balance > -self.debt(debt_us)
    }

    /// Promises the client a place behind what it was promised before.
    fn promise(
        &mut self,
        now_us: u64,
        id: ClientId,
        fingerprint: u64,
        taken: Charge,
        wait_us_max: u64,
    ) -> u64 {
        let debt_us = self.owed_us(now_us);
        let Some(client) = self.clients.get_mut(&id) else { return 1 };
        self.window.refused += u64::from(!client.was_refused);
        client.was_refused = true;
        // Those who came since the shares were worked out share too.
        let (now, before) = (self.window.refused, self.window.refused_before.max(1));
        let fair_rate = if now > before { self.fair_rate * before / now } else { self.fair_rate };
        let fair_rate = fair_rate.max(1);
        let own_us = -client.balance.min(0) / worth(fair_rate, 1);
        let before: i64 = client.promises.iter().map(|promise| promise.amount).sum();
        let wait_us = own_us.max(debt_us).saturating_add(before / worth(fair_rate, 1));
        // A moment more, so that it is past when the client comes.
        let wait_us = u64::try_from(wait_us).unwrap_or(0).saturating_add(1);
        if wait_us <= wait_us_max && client.promises.len() < PROMISES_MAX {
            let due_us = now_us.saturating_add(wait_us);
            let (amount, rate) = (amount(taken), self.rate);
            client.promises.push(Promise { fingerprint, due_us, amount, rate });
        }
        wait_us
    }

    fn corrected(&self, kind: Kind, estimate: Charge) -> Charge {
        let correction = self.corrections.get(kind as usize).copied().unwrap_or(CORRECTION_ONE);
        let micros = u128::from(estimate.micros()) * u128::from(correction) / (1 << 16);
        Charge::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Moves the correction of a kind a sixteenth towards what this request would have needed.
    fn learn(&mut self, kind: Kind, estimate: Charge, actual: Charge) {
        let Some(correction) = self.corrections.get_mut(kind as usize) else { return };
        let ratio = u128::from(actual.micros()) * u128::from(CORRECTION_ONE)
            / u128::from(estimate.micros().max(1));
        let ratio = u64::try_from(ratio).unwrap_or(u64::MAX);
        let ratio = ratio.clamp(CORRECTION_ONE / 16, CORRECTION_ONE * 64);
        *correction = (*correction * 15 + ratio) / 16;
    }
}
