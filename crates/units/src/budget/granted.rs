//! One node's part of what a set may spend: it holds what the leader of the set granted, and tells the leader what it needs.

use super::{BURST_RATE_MAX, Budget, DEPTH_US, PARTITION_RATE_MAX, PROMISE_DEBT_US, amount, worth};
use crate::charge::Charge;
use crate::grants::{Grant, OWED_US, Report};
use crate::usage::UsageMeter;

/// Of what a budget that is alone may owe, a share of it may owe so many hundredths: what all nodes owe together, with what they
/// hold, stays below a fiftieth of ten seconds.
const DEBT_HUNDREDTHS: i64 = 50;
/// What may be owed for promises, as time: they are spaced so that little is.
const GRANTED_PROMISE_DEBT_US: u64 = 200_000;
/// And so much for promises that were given when the node's share was larger; more would come due than there is.
const OLD_PROMISE_DEBT_US: u64 = 50_000;
/// Who was refused, or should have come for what it was promised, counts as waiting for so long.
const WAITING_US: u64 = 150_000;
/// A node tells what it holds at least so often.
const REPORT_US: u64 = 1_000_000;

/// What a node knows of its part.
#[derive(Debug)]
pub(super) struct Granted {
    /// What all nodes may spend together, in request units a second.
    pub(super) set_rate: u64,
    /// Tells this budget from those that the node had before.
    run: u64,
    /// Whose grants are counted, by the term in which it leads, and what it granted in all.
    term: u64,
    applied: i64,
    /// The node's share of what may be owed, in request units a second.
    slack_rate: u64,
    /// Until then everything goes to nodes that owe much.
    owed_until_us: u64,
    /// What leaders heard of what was spent and refused here.
    told_spent: i64,
    told_throttled: u64,
    /// The last report, and when it was made.
    reported: Option<(Report, u64)>,
    /// What all nodes spent, as leaders tell it.
    pub(super) set_usage: UsageMeter,
    pub(super) set_throttled: u64,
    pub(super) set_saved: i64,
    /// What the leader of this term told of it.
    heard_spent: i64,
    heard_throttled: u64,
}

impl Budget {
    /// One node's part of what `node_count` nodes may spend together. It begins with nothing. `run` is another number each time.
    pub fn granted(set_rate: u64, node_count: usize, run: u64, now_us: u64) -> Budget {
        let set_rate = set_rate.clamp(1, PARTITION_RATE_MAX);
        let share = (set_rate / node_count.max(1) as u64).max(1);
        let mut budget = Budget::new(share, false, now_us);
        budget.balance = 0;
        budget.granted = Some(Box::new(Granted {
            set_rate,
            run,
            term: 0,
            applied: 0,
            slack_rate: share,
            owed_until_us: 0,
            told_spent: 0,
            told_throttled: 0,
            reported: None,
            set_usage: UsageMeter::new(now_us),
            set_throttled: 0,
            set_saved: 0,
            heard_spent: 0,
            heard_throttled: 0,
        }));
        budget
    }

    /// What the leader of a term is to know, if it does not know it yet. Without a term it is for whoever granted something last.
    pub fn report(&mut self, now_us: u64, term: Option<u64>) -> Option<Report> {
        self.refill(now_us);
        let is_recent = |at_us: u64| at_us.saturating_add(WAITING_US) > now_us;
        let waits = |client: &&super::Client| {
            is_recent(client.refused_at_us)
                || client.promises.iter().any(|promise| is_recent(promise.due_us))
        };
        let waiting = self.clients.values().filter(waits).count() as u64;
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let (held, throttled) = (self.balance, self.throttled_count);
        let granted = self.granted.as_mut()?;
        let term = term.unwrap_or(granted.term);
        let report = Report {
            run: granted.run,
            term,
            applied: if granted.term == term { granted.applied } else { 0 },
            held,
            content_rate: self.content_rate,
            waiting: count(waiting),
            active: count(self.clients.len() as u64),
            spent: amount(self.usage.total()),
            told_spent: granted.told_spent,
            throttled,
            told_throttled: granted.told_throttled,
        };
        let is_known = granted.reported.is_some_and(|(known, at_us)| {
            known == report && at_us.saturating_add(REPORT_US) > now_us
        });
        // Clients that nothing is heard of are forgotten soon.
        let has_clients = report.waiting > 0 || report.content_rate > 0;
        if is_known && !has_clients {
            return None;
        }
        granted.reported = Some((report, now_us));
        Some(report)
    }

    /// The leader of a term grants something. Grants to another budget, or of an older term, are let go.
    pub fn take_grant(&mut self, now_us: u64, grant: &Grant) {
        self.refill(now_us);
        let Some(granted) = self.granted.as_mut() else { return };
        if grant.run != granted.run || grant.term < granted.term {
            return;
        }
        if grant.term > granted.term {
            (granted.term, granted.applied) = (grant.term, 0);
            (granted.heard_spent, granted.heard_throttled) = (0, 0);
        }
        // Totals count: what was lost on the way comes with the next one.
        self.balance = self.balance.saturating_add(grant.total.saturating_sub(granted.applied));
        granted.applied = grant.total;
        granted.hear_of_set(now_us, grant);
        granted.told_spent = grant.heard_spent;
        granted.told_throttled = grant.heard_throttled;
        let rate_max = granted.set_rate.max(BURST_RATE_MAX);
        granted.slack_rate = grant.slack_rate.clamp(1, rate_max);
        granted.owed_until_us = now_us.saturating_add(grant.owed_us);
        let rate = grant.rate.clamp(1, rate_max);
        if rate != self.rate {
            // The shares of its clients follow at once, and are worked out anew with the next window.
            let fair = u128::from(self.fair_rate) * u128::from(rate) / u128::from(self.rate.max(1));
            self.fair_rate = u64::try_from(fair).unwrap_or(rate).clamp(1, rate);
            self.rate = rate;
        }
    }

    /// The largest balance that is kept. What a node holds of several is the leader's business.
    pub(super) fn ceiling(&self) -> i64 {
        match &self.granted {
            None => worth(self.rate, DEPTH_US),
            Some(_) => i64::MAX,
        }
    }

    /// What may be owed, so much time's worth of it.
    pub(super) fn debt(&self, time_us: u64) -> i64 {
        match &self.granted {
            None => worth(self.rate, time_us),
            Some(granted) => worth(granted.slack_rate, time_us) / 100 * DEBT_HUNDREDTHS,
        }
    }

    /// What may be owed for a promise that counted on that rate.
    pub(super) fn promise_debt(&self, rate: Option<u64>) -> i64 {
        let Some(granted) = &self.granted else { return worth(self.rate, PROMISE_DEBT_US) };
        let is_old = rate.is_none_or(|rate| rate > self.rate.saturating_add(self.rate / 8));
        let debt_us = if is_old { OLD_PROMISE_DEBT_US } else { GRANTED_PROMISE_DEBT_US };
        worth(granted.slack_rate, debt_us)
    }

    /// How long it takes until nothing is owed any more.
    pub(super) fn owed_us(&self, now_us: u64) -> i64 {
        let owed = -self.balance.min(0);
        let Some(granted) = &self.granted else { return owed / worth(self.rate, 1) };
        // Much is paid by all, and before anything else is.
        let much = owed.saturating_sub(worth(granted.slack_rate, OWED_US)).max(0);
        let own_us = much / worth(granted.set_rate, 1) + (owed - much) / worth(self.rate, 1);
        let others_us = granted.owed_until_us.saturating_sub(now_us);
        own_us.max(i64::try_from(others_us).unwrap_or(i64::MAX))
    }
}

impl Granted {
    /// What all nodes spent and refused, and what the set saved.
    fn hear_of_set(&mut self, now_us: u64, grant: &Grant) {
        let spent = grant.set_spent.saturating_sub(self.heard_spent);
        self.heard_spent = grant.set_spent;
        self.set_usage.roll(now_us, self.set_rate);
        let charge = Charge::from_micros(spent.unsigned_abs());
        match spent >= 0 {
            true => self.set_usage.add(charge),
            false => self.set_usage.give_back(charge),
        }
        let throttled = grant.set_throttled.saturating_sub(self.heard_throttled);
        self.heard_throttled = self.heard_throttled.max(grant.set_throttled);
        self.set_throttled = self.set_throttled.saturating_add(throttled);
        self.set_saved = grant.saved;
    }
}
