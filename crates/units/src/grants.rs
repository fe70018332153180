//! What several nodes may spend of one budget together.
//!
//! Any node admits requests to a set, and none may ask another one first. So the leader of the set keeps a *pot*, which fills at the
//! rate of the budget, and hands its content out: several times a second each node reports what it holds and what it lacks, and
//! the leader grants each an amount. A node spends what it holds, and may owe a little. What all hold and owe together is what the
//! rate gave less what was spent, at any moment and whoever leads: grants are amounts, so that a node that is cut off, or a leader that
//! is followed by another one, can spend nothing twice.
//!
//! **Exact.** What lies in the pot and at the nodes never exceeds 150 ms of the rate, and what nodes owe for their shares 50 ms, but
//! for the last large request. So over any ten seconds no more is spent than the budget and a fiftieth.
//!
//! **Fair.** The pot is divided as a budget divides itself among its clients: clients that were never refused get what they
//! spend, and what is left is shared equally by those that were, wherever they are. Small needs come first.
//!
//! **Debts.** A node that owes more than its share of what may be owed, for a large request, is paid first, by all: then the others are
//! told how long nothing comes.
//!
//! **Burst.** What the pot cannot hold is saved there, and given on top when clients are refused (facts 2.4). A new leader goes on
//! with what the last one told.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::budget::{BURST_RATE_MAX, BURST_US, PARTITION_RATE_MAX, worth};

/// What lies in the pot and at the nodes together while nobody waits, as time.
const HELD_US: u64 = 80_000;
/// And while somebody does: what is there came too late, or to the wrong node.
const HELD_BUSY_US: u64 = 150_000;
/// Of that nodes hold together what they need for the first request after a pause.
const IDLE_US: u64 = 20_000;
/// A node that spends holds so much time's worth of its share: until the next grant comes.
const AHEAD_US: u64 = 75_000;
/// What a node may owe before it is paid first, as time of its share.
pub(crate) const OWED_US: u64 = 100_000;
/// A node that has clients reports all the time; after so long its clients are forgotten, though not what it holds.
const SILENT_US: u64 = 250_000;
/// What is granted is told again after so long, though nothing changed.
const GRANT_US: u64 = 1_000_000;

/// A node: any number that stays the same for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HolderId(pub u64);

/// What a node tells the leader of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Tells this budget from those that the node had before.
    pub run: u64,
    /// The term in which the leader leads that it is meant for.
    pub term: u64,
    /// What it took of this leader's grants, in all; in micro units as everything here.
    pub applied: i64,
    /// What it holds; less than nothing if it owes.
    pub held: i64,
    /// What clients that were not refused spend, in request units a second.
    pub content_rate: u64,
    /// How many clients want more than they got.
    pub waiting: u32,
    /// How many clients there are.
    pub active: u32,
    /// What was spent since it began.
    pub spent: i64,
    /// What of that a leader said to have heard of.
    pub told_spent: i64,
    /// How often a request was refused since it began.
    pub throttled: u64,
    /// What of that a leader said to have heard of.
    pub told_throttled: u64,
}

/// What the leader of a set tells a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The budget that it is for.
    pub run: u64,
    /// The term in which the leader leads.
    pub term: u64,
    /// What it granted in that term, in all. It may fall: what is not needed goes back.
    pub total: i64,
    /// What the node's clients can count on, in request units a second.
    pub rate: u64,
    /// The node's share of what may be owed, in request units a second.
    pub slack_rate: u64,
    /// So long everything goes to nodes that owe much, in microseconds.
    pub owed_us: u64,
    /// What the leader heard of what the node spent, and how often it refused.
    pub heard_spent: i64,
    /// See `heard_spent`.
    pub heard_throttled: u64,
    /// What all nodes spent, and how often they refused, since the leader leads.
    pub set_spent: i64,
    /// See `set_spent`.
    pub set_throttled: u64,
    /// What is saved for bursts.
    pub saved: i64,
}

/// What the leader of a set has to give.
#[derive(Debug)]
pub struct Pot {
    term: u64,
    rate: u64,
    saves_bursts: bool,
    balance: i64,
    saved: i64,
    refilled_at_us: u64,
    nodes: BTreeMap<HolderId, Holder>,
    spent: i64,
    throttled: u64,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
struct Holder {
    report: Report,
    heard_at_us: u64,
    granted: i64,
    heard_spent: i64,
    heard_throttled: u64,
    /// What it was told last, and when.
    told: Option<(Grant, u64)>,
}

impl Holder {
    /// What it has, when everything that is on its way arrived.
    fn held(&self) -> i64 {
        self.report.held.saturating_add(self.granted.saturating_sub(self.report.applied))
    }
}

/// What is worked out for a node.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Request units a second of the whole; the shares of all nodes make up the rate.
    share: u64,
    rate: u64,
    held: i64,
    granted: i64,
    waiting: u64,
}

impl Part {
    fn lacks(&self, wanted: i64) -> i64 {
        wanted.saturating_sub(self.held).saturating_sub(self.granted).max(0)
    }
}

impl Pot {
    /// The pot of a leader that leads since now. It begins with nothing: what was granted before is still at the nodes.
    pub fn new(term: u64, rate: u64, saves_bursts: bool, saved: i64, now_us: u64) -> Pot {
        let rate = rate.clamp(1, PARTITION_RATE_MAX);
        Pot {
            term,
            rate,
            saves_bursts,
            balance: 0,
            saved,
            refilled_at_us: now_us,
            nodes: BTreeMap::new(),
            spent: 0,
            throttled: 0,
        }
    }

    /// The term of its leader.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The rate of the budget, from now on.
    pub fn set_rate(&mut self, rate: u64, saves_bursts: bool) {
        self.rate = rate.clamp(1, PARTITION_RATE_MAX);
        self.saves_bursts = saves_bursts;
    }

    /// A node reports. What is meant for the leader of a later term is let go. A node that knows of an earlier one, or of none, because it has
    /// no member of the set, took nothing yet of what is granted in this one.
    pub fn hear(&mut self, now_us: u64, node: HolderId, mut report: Report) {
        match report.term.cmp(&self.term) {
            Ordering::Equal => {}
            Ordering::Less => (report.term, report.applied) = (self.term, 0),
            Ordering::Greater => return,
        }
        let fresh = Holder {
            report,
            heard_at_us: now_us,
            // A node that was given up and comes back goes on where it was.
            granted: report.applied,
            heard_spent: report.told_spent,
            heard_throttled: report.told_throttled,
            told: None,
        };
        let holder = self.nodes.entry(node).or_insert(fresh);
        if holder.report.run != report.run {
            *holder = fresh;
        }
        (holder.report, holder.heard_at_us) = (report, now_us);
        let spent = report.spent.saturating_sub(holder.heard_spent);
        holder.heard_spent = report.spent;
        self.spent = self.spent.saturating_add(spent);
        let throttled = report.throttled.saturating_sub(holder.heard_throttled);
        holder.heard_throttled = report.throttled.max(holder.heard_throttled);
        self.throttled = self.throttled.saturating_add(throttled);
    }

    /// Divides what there is among the nodes that are alive. Returned are the grants that are to be told.
    pub fn divide(
        &mut self,
        now_us: u64,
        node_count: usize,
        is_alive: impl Fn(HolderId) -> bool,
    ) -> Vec<(HolderId, Grant)> {
        self.nodes.retain(|node, _| is_alive(*node));
        for holder in self.nodes.values_mut() {
            if holder.heard_at_us.saturating_add(SILENT_US) < now_us {
                (holder.report.content_rate, holder.report.waiting) = (0, 0);
                holder.report.active = 0;
            }
        }
        self.refill(now_us);
        let mut parts = self.shares();
        let owed_us = self.grant(&mut parts, node_count.max(1));
        let mut grants = Vec::new();
        for ((node, holder), part) in self.nodes.iter_mut().zip(&parts) {
            holder.granted = holder.granted.saturating_add(part.granted);
            let grant = Grant {
                run: holder.report.run,
                term: self.term,
                total: holder.granted,
                rate: part.rate,
                slack_rate: part.share,
                owed_us,
                heard_spent: holder.heard_spent,
                heard_throttled: holder.heard_throttled,
                set_spent: self.spent,
                set_throttled: self.throttled,
                saved: self.saved,
            };
            let is_told = holder.told.is_some_and(|(told, at_us)| {
                // What is saved grows all the time; once a second is enough.
                Grant { saved: grant.saved, ..told } == grant
                    && at_us.saturating_add(GRANT_US) > now_us
            });
            if !is_told {
                holder.told = Some((grant, now_us));
                grants.push((*node, grant));
            }
        }
        grants
    }

    /// What time brought. What neither the pot nor the nodes can hold is saved, or lost.
    fn refill(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.refilled_at_us);
        self.refilled_at_us = self.refilled_at_us.max(now_us);
        self.balance = self.balance.saturating_add(worth(self.rate, passed_us));
        let held = self.nodes.values().map(Holder::held).fold(0, i64::saturating_add);
        let is_busy = self.nodes.values().any(|holder| holder.report.waiting > 0);
        let most_us = if is_busy { HELD_BUSY_US } else { HELD_US };
        let most = worth(self.rate, most_us).saturating_sub(held);
        let over = self.balance.saturating_sub(most).clamp(0, self.balance.max(0));
        self.balance -= over;
        let saves = self.saves_bursts && self.rate < BURST_RATE_MAX;
        if !saves {
            self.saved = 0;
            return;
        }
        self.saved = self.saved.saturating_add(over).min(worth(self.rate, BURST_US));
        if is_busy {
            let more = worth(BURST_RATE_MAX - self.rate, passed_us).min(self.saved).max(0);
            self.saved -= more;
            self.balance = self.balance.saturating_add(more);
        }
    }

    /// What each node's clients can count on.
    fn shares(&self) -> Vec<Part> {
        let rate = if self.saved > 0 { BURST_RATE_MAX.max(self.rate) } else { self.rate };
        let reports = || self.nodes.values().map(|holder| holder.report);
        let waiting: u64 = reports().map(|it| u64::from(it.waiting)).sum();
        let active: u64 = reports().map(|it| u64::from(it.active)).sum();
        let content: u64 = reports().map(|it| it.content_rate.min(rate)).sum();
        let left = rate.saturating_sub(content);
        let fair = (left / waiting.max(1)).max(rate / active.max(1)).clamp(1, rate);
        let nodes = self.nodes.len().max(1) as u64;
        let wanted = |report: &Report| match waiting {
            0 => report.content_rate.min(rate) + left / nodes,
            _ => report.content_rate.min(rate) + fair * u64::from(report.waiting),
        };
        let all: u64 = reports().map(|it| wanted(&it)).sum();
        let part = |holder: &Holder| {
            let report = holder.report;
            let share = u128::from(wanted(&report)) * u128::from(rate) / u128::from(all.max(1));
            let share = u64::try_from(share).unwrap_or(rate).max(1);
            // Who comes next to a node where nobody waits gets what the others get.
            let rate = if report.waiting == 0 { (share + fair).min(rate) } else { share };
            let (held, waiting) = (holder.held(), u64::from(report.waiting));
            Part { share, rate, held, granted: 0, waiting }
        };
        self.nodes.values().map(part).collect()
    }

    /// Grants amounts. Returns how long everything goes to those that owe much.
    fn grant(&mut self, parts: &mut [Part], node_count: usize) -> u64 {
        let idle = worth(self.rate, IDLE_US) / i64::try_from(node_count).unwrap_or(i64::MAX);
        let needs = |part: &Part| idle.saturating_add(worth(part.share, AHEAD_US));
        // What a node has and does not need goes back; not for trifles.
        for part in parts.iter_mut() {
            let over = part.held.saturating_sub(needs(part));
            if over > idle / 4 {
                part.granted = -over;
                self.balance = self.balance.saturating_add(over);
            }
        }
        let owed = |part: &Part| part.lacks(-worth(part.share, OWED_US));
        let owed_before = parts.iter().map(owed).fold(0, i64::saturating_add);
        self.pour(parts, owed, |part| part.share);
        let owed_after = parts.iter().map(owed).fold(0, i64::saturating_add);
        self.pour(parts, |part| part.lacks(needs(part)), |part| part.rate);
        let most = idle.saturating_add(worth(self.rate, HELD_US));
        let more = |part: &Part| if part.waiting > 0 { part.lacks(most) } else { 0 };
        self.pour(parts, more, |part| part.waiting);
        match owed_before {
            0 => 0,
            _ => u64::try_from(owed_after).unwrap_or(0) / self.rate,
        }
    }

    /// Pours from the pot: everybody gets what it wants, or as much as the others by its weight.
    fn pour(
        &mut self,
        parts: &mut [Part],
        wants: impl Fn(&Part) -> i64,
        weight: impl Fn(&Part) -> u64,
    ) {
        let mut open: Vec<(usize, i64, u64)> = parts
            .iter()
            .enumerate()
            .map(|(place, part)| (place, wants(part), weight(part).max(1)))
            .filter(|(_, want, _)| *want > 0)
            .collect();
        // Who wants least for its weight is served first, and what it leaves is the others'.
        open.sort_unstable_by_key(|(place, want, weight)| {
            (i128::from(*want) * i128::from(u32::MAX) / i128::from(*weight), *place)
        });
        let mut weights: u128 = open.iter().map(|(_, _, weight)| u128::from(*weight)).sum();
        for (place, want, weight) in open {
            let left = u128::try_from(self.balance).unwrap_or(0);
            let given = left * u128::from(weight) / weights.max(1);
            let given = i64::try_from(given).unwrap_or(i64::MAX).min(want);
            weights -= u128::from(weight);
            if let Some(part) = parts.get_mut(place) {
                part.granted += given;
                self.balance -= given;
            }
        }
    }

    /// What is saved for bursts.
    pub fn saved(&self) -> i64 {
        self.saved
    }
}
