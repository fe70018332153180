//! Who leads: away from nodes that stop or are slow, then evenly over those that are up.

use super::cluster::{Cluster, NodeTable, Place, Set};
use super::reason::Reason;
use super::{NodeState, Slowness, Step};

/// Differences in what is led below this are never worth a step, in request units a second.
const LED_RU_S_MIN: f64 = 1000.0;
/// A node leads at least this many more than another before one is handed over.
const LEADS_MIN: f64 = 2.0;
/// Less than this and it is an error of arithmetic.
const GAIN_MIN: f64 = 1e-12;

/// What a node leads: sets, and their request units a second.
type Leads = [f64; 2];

struct Leaders {
    leads: NodeTable<Leads>,
    led: NodeTable<Vec<usize>>,
    /// What each node would lead if all led alike.
    mean: Leads,
    steps_left: usize,
}

pub(super) fn lead(cluster: &Cluster<'_>, steps: &mut Vec<Step>) {
    let mut leaders = Leaders {
        leads: cluster.nodes.table([0.0; 2]),
        led: cluster.nodes.table(Vec::new()),
        mean: [0.0; 2],
        steps_left: cluster.bounds.leads_at_once_max,
    };
    let up = cluster.nodes.iter().filter(|(_, node)| node.may_lead()).count().max(1) as f64;
    for (index, set) in cluster.sets.iter().enumerate() {
        let cost = cost(set);
        add(&mut leaders.mean, &cost, 1.0 / up);
        let Some(leader) = set.leader else { continue };
        add(&mut leaders.leads[leader], &cost, 1.0);
        // Who does not answer hands nothing over; its sets elect others by themselves.
        if !set.is_taken && cluster.nodes[leader].is_alive() {
            leaders.led[leader].push(index);
        }
    }
    leaders.leave(cluster, steps);
    leaders.spread(cluster, steps);
}

impl Leaders {
    /// All that nodes lead which stop, go or are slow.
    fn leave(&mut self, cluster: &Cluster<'_>, steps: &mut Vec<Step>) {
        for (place, node) in cluster.nodes.iter() {
            let reason = match (node.view.state, node.view.slow) {
                (NodeState::Draining, _) => Reason::Draining { node: node.id() },
                (NodeState::Leaving, _) => Reason::Leaving { node: node.id() },
                (NodeState::Up, Some(Slowness { times, by })) => {
                    Reason::Slow { node: node.id(), times: times as u64, by }
                }
                (NodeState::Joining | NodeState::Up | NodeState::Removed, _) => continue,
            };
            // Whoever stops hands over to a slow one rather than to nobody.
            let must_go = node.view.state != NodeState::Up;
            for index in std::mem::take(&mut self.led[place]) {
                let Some(set) = cluster.sets.get(index) else { continue };
                if self.steps_left == 0 {
                    return;
                }
                let gain = |to: Place| self.gain(&cost(set), place, to);
                let is_well = |to: Place| cluster.nodes[to].may_lead();
                let is_able = |to: &Place| is_well(*to) || must_go && cluster.nodes[*to].is_target;
                let able = set.voters.iter().copied().filter(is_able);
                let best = able.max_by(|a, b| {
                    let by_gain = gain(*a).total_cmp(&gain(*b));
                    is_well(*a).cmp(&is_well(*b)).then(by_gain).then(b.cmp(a))
                });
                if let Some(to) = best {
                    self.hand_over(cluster, set, place, to, reason.clone(), steps);
                }
            }
        }
    }

    /// Who leads the most hands over first; one of each in turn, until nothing is won.
    fn spread(&mut self, cluster: &Cluster<'_>, steps: &mut Vec<Step>) {
        let mut from: Vec<Place> =
            cluster.nodes.iter().filter(|(_, it)| it.may_lead()).map(|(place, _)| place).collect();
        while self.steps_left > 0 && !from.is_empty() {
            let load = |place: &Place| self.load(*place);
            from.sort_by(|a, b| load(b).total_cmp(&load(a)).then(a.cmp(b)));
            let before = self.steps_left;
            from.retain(|place| {
                self.steps_left > 0
                    && match self.best(cluster, *place) {
                        Some((at, to, reason)) => {
                            let index = self.led[*place].swap_remove(at);
                            if let Some(set) = cluster.sets.get(index) {
                                self.hand_over(cluster, set, *place, to, reason, steps);
                            }
                            true
                        }
                        // What others hand over later makes it no better off in this call.
                        None => false,
                    }
            });
            if self.steps_left == before {
                return;
            }
        }
    }

    /// The set that a node should rather not lead, its place in the node's list, and who should.
    fn best(&self, cluster: &Cluster<'_>, from: Place) -> Option<(usize, Place, Reason)> {
        let mut best: Option<(f64, usize, Place)> = None;
        for (at, index) in self.led[from].iter().enumerate() {
            let Some(set) = cluster.sets.get(*index) else { continue };
            let cost = cost(set);
            for to in set.voters.iter().copied() {
                if to == from
                    || !cluster.nodes[to].may_lead()
                    || self.larger(cluster, from, to).is_none()
                {
                    continue;
                }
                let gain = self.gain(&cost, from, to);
                if gain > best.map_or(GAIN_MIN, |(known, ..)| known) {
                    best = Some((gain, at, to));
                }
            }
        }
        let (_, at, to) = best?;
        Some((at, to, self.larger(cluster, from, to)?))
    }

    /// In what a node leads more than another, by enough to do something about it.
    fn larger(&self, cluster: &Cluster<'_>, from: Place, to: Place) -> Option<Reason> {
        let ([sets, ru_s], [other_sets, other_ru_s]) = (self.leads[from], self.leads[to]);
        let [mean_sets, mean_ru_s] = self.mean;
        let bounds = cluster.bounds;
        let (node, than) = (cluster.nodes[to].id(), cluster.nodes[from].id());
        let sets = sets - other_sets;
        if sets >= LEADS_MIN && sets > bounds.leads_slack * mean_sets {
            return Some(Reason::FewerLeads { node, than, fewer: sets as u64 });
        }
        let ru_s = ru_s - other_ru_s;
        if ru_s >= LED_RU_S_MIN && ru_s > bounds.ru_slack * mean_ru_s {
            return Some(Reason::LessLed { node, than, fewer_ru_s: ru_s as u64 });
        }
        None
    }

    fn load(&self, place: Place) -> f64 {
        let parts = self.leads[place].iter().zip(self.weights());
        parts.map(|(leads, weight)| leads * leads * weight).sum()
    }

    /// How much more even leaders are when one is handed over.
    fn gain(&self, cost: &Leads, from: Place, to: Place) -> f64 {
        let (from, to) = (&self.leads[from], &self.leads[to]);
        let parts = from.iter().zip(to).zip(cost).zip(self.weights());
        parts.map(|(((from, to), cost), weight)| weight * 2.0 * cost * (from - to - cost)).sum()
    }

    /// What is too little to be spread does not count.
    fn weights(&self) -> [f64; 2] {
        let [sets, ru_s] = self.mean;
        let square = |mean: f64, min: f64| if mean >= min { 1.0 / (mean * mean) } else { 0.0 };
        [1.0 / (sets * sets).max(f64::MIN_POSITIVE), square(ru_s, LED_RU_S_MIN / 2.0)]
    }

    fn hand_over(
        &mut self,
        cluster: &Cluster<'_>,
        set: &Set<'_>,
        from: Place,
        to: Place,
        reason: Reason,
        steps: &mut Vec<Step>,
    ) {
        let cost = cost(set);
        add(&mut self.leads[from], &cost, -1.0);
        add(&mut self.leads[to], &cost, 1.0);
        self.steps_left -= 1;
        steps.push(Step::Lead { set: set.view.set, node: cluster.nodes[to].id(), reason });
    }
}

fn cost(set: &Set<'_>) -> Leads {
    [1.0, set.view.ru_s as f64]
}

fn add(to: &mut Leads, what: &Leads, times: f64) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += what * times;
    }
}
