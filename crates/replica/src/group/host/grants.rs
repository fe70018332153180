//! What sets may spend on all nodes together: with every tick this node reports to the leaders of the sets that have budgets, and
//! grants for those that it leads. One message for each node, whatever the number of sets. How a pot is divided is known to
//! `units`; traffic is told beside it, once a second.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{NodeId, SetId};
use units::grants::{Grant, HolderId, Pot};

use super::{Host, NodeMessage};
use crate::budgets::Budgets;
use crate::group::load::{BudgetMessage, SETS_MAX, Traffic, TrafficMessage};

/// Traffic is told every so many ticks.
const TRAFFIC_TICKS: u64 = 20;

/// What a host shares with others of what clients spend.
#[derive(Default)]
pub(super) struct Sharing {
    budgets: Option<Arc<Budgets>>,
    traffic: Option<Arc<dyn Traffic>>,
    /// Of the sets that this node leads.
    pots: BTreeMap<SetId, Pot>,
}

impl Host {
    /// The budgets of this node are parts of what sets may spend everywhere.
    pub fn share_budgets(&mut self, budgets: Arc<Budgets>) {
        self.sharing.budgets = Some(budgets);
    }

    /// The leaders of sets are to know how busy they are.
    pub fn share_traffic(&mut self, traffic: Arc<dyn Traffic>) {
        self.sharing.traffic = Some(traffic);
    }

    /// Tells what follows from time alone.
    pub(super) fn tick_sharing(&mut self) {
        self.tell_budgets();
        if self.ticks.is_multiple_of(TRAFFIC_TICKS) {
            self.tell_traffic();
        }
    }

    fn tell_budgets(&mut self) {
        let Some(budgets) = self.sharing.budgets.clone() else { return };
        if budgets.is_empty() {
            self.sharing.pots.clear();
            return;
        }
        let mut messages: BTreeMap<NodeId, BudgetMessage> = BTreeMap::new();
        let allowances = budgets.allowances();
        for allowance in &allowances {
            let set = allowance.set;
            let Some(leader) = self.supposed_leader(set) else { continue };
            let term = self.core.state(set).map(|state| state.term);
            if let Some(term) = term.filter(|_| leader == self.node && self.core.leads(set)) {
                self.keep_pot(set, term, &budgets);
            }
            let Some(report) = budgets.report(set, term) else { continue };
            if leader != self.node {
                messages.entry(leader).or_default().reports.push((set, report));
            } else if let Some(pot) = self.sharing.pots.get_mut(&set) {
                pot.hear(self.now.ms * 1000, HolderId(self.node.0), report);
            }
        }
        let core = &self.core;
        // A pot is of one term: whoever leads again begins anew.
        self.sharing.pots.retain(|set, pot| {
            let is_known = allowances.binary_search_by_key(set, |it| it.set).is_ok();
            is_known && core.state(*set).is_some_and(|state| state.term == pot.term())
        });
        for (node, set, grant) in self.divide_pots() {
            match node == self.node {
                true => budgets.take_grant(set, &grant),
                false => messages.entry(node).or_default().grants.push((set, grant)),
            }
        }
        for (node, message) in messages {
            self.outbox.extend(parts_of(message).into_iter().map(|part| (node, part)));
        }
    }

    /// Who leads a set; where it has no member here, and nobody said it, another one at each tick.
    fn supposed_leader(&self, set: SetId) -> Option<NodeId> {
        self.leader_of(set, (self.ticks % u64::from(u32::MAX)) as u32)
    }

    fn keep_pot(&mut self, set: SetId, term: u64, budgets: &Budgets) {
        let Some(allowance) = budgets.allowance(set) else { return };
        let now_us = self.now.ms * 1000;
        // What the last leader told to be saved for bursts is gone on with.
        let fresh = || {
            let saved = budgets.state(set).map_or(0, |state| state.saved.micros());
            let saved = i64::try_from(saved).unwrap_or(i64::MAX);
            Pot::new(term, allowance.rate, allowance.saves_bursts, saved, now_us)
        };
        let pot = self.sharing.pots.entry(set).or_insert_with(fresh);
        if pot.term() != term {
            *pot = fresh();
        }
        pot.set_rate(allowance.rate, allowance.saves_bursts);
    }

    fn divide_pots(&mut self) -> Vec<(NodeId, SetId, Grant)> {
        let mut pots = std::mem::take(&mut self.sharing.pots);
        let (now_us, node_count) = (self.now.ms * 1000, self.peers.len() + 1);
        let mut grants = Vec::new();
        for (set, pot) in &mut pots {
            if !self.core.leads(*set) {
                continue;
            }
            let is_alive = |node: HolderId| self.is_alive(NodeId(node.0));
            let divided = pot.divide(now_us, node_count, is_alive);
            grants.extend(divided.into_iter().map(|(node, grant)| (NodeId(node.0), *set, grant)));
        }
        self.sharing.pots = pots;
        grants
    }

    /// Another node reports and grants.
    pub(super) fn receive_budgets(&mut self, from: NodeId, message: BudgetMessage) {
        let now_us = self.now.ms * 1000;
        for (set, report) in message.reports {
            if let Some(pot) = self.sharing.pots.get_mut(&set) {
                pot.hear(now_us, HolderId(from.0), report);
            }
        }
        for (set, _) in &message.grants {
            self.note_leader(*set, Some(from));
        }
        let Some(budgets) = &self.sharing.budgets else { return };
        message.grants.iter().for_each(|(set, grant)| budgets.take_grant(*set, grant));
    }

    fn tell_traffic(&mut self) {
        let Some(traffic) = self.sharing.traffic.clone() else { return };
        let mut messages: BTreeMap<NodeId, TrafficMessage> = BTreeMap::new();
        let leader = |set: SetId| self.supposed_leader(set).filter(|it| *it != self.node);
        for counted in traffic.take_counted(&|set| leader(set).is_some()) {
            if let Some(leader) = leader(counted.set) {
                messages.entry(leader).or_default().counted.push(counted);
            }
        }
        for heat in traffic.heat_of_led(&|set| self.core.leads(set)) {
            for node in self.peers.keys().filter(|node| self.is_alive(**node)) {
                messages.entry(*node).or_default().heat.push(heat.clone());
            }
        }
        for (node, message) in messages {
            self.outbox.extend(traffic_parts(message).into_iter().map(|part| (node, part)));
        }
    }

    /// Another node tells of the traffic of sets.
    pub(super) fn receive_traffic(&mut self, from: NodeId, message: TrafficMessage) {
        for heat in &message.heat {
            self.note_leader(heat.set, Some(from));
        }
        let Some(traffic) = &self.sharing.traffic else { return };
        let is_led = |set: &SetId| self.core.leads(*set);
        let counted = message.counted.into_iter().filter(|it| is_led(&it.set));
        counted.for_each(|counted| traffic.add_counted(counted));
        let heat = message.heat.into_iter().filter(|it| !is_led(&it.set));
        heat.for_each(|heat| traffic.hear_heat(heat));
    }
}

/// The next of a list, no more than a message may hold.
fn next<T>(rest: &mut Vec<T>) -> Vec<T> {
    let later = rest.split_off(rest.len().min(SETS_MAX));
    std::mem::replace(rest, later)
}

/// One message, or several where there are more sets than one may tell of.
fn parts_of(mut message: BudgetMessage) -> Vec<NodeMessage> {
    let mut parts = Vec::new();
    while !message.reports.is_empty() || !message.grants.is_empty() {
        let (reports, grants) = (next(&mut message.reports), next(&mut message.grants));
        parts.push(NodeMessage::Budgets(BudgetMessage { reports, grants }));
    }
    parts
}

fn traffic_parts(mut message: TrafficMessage) -> Vec<NodeMessage> {
    let mut parts = Vec::new();
    while !message.counted.is_empty() || !message.heat.is_empty() {
        let (counted, heat) = (next(&mut message.counted), next(&mut message.heat));
        parts.push(NodeMessage::Traffic(TrafficMessage { counted, heat }));
    }
    parts
}
