//! A cluster that does what it is told, and checks what it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use partition::decide::{Bounds, NodeState, NodeView, SetView, Step, decide};
use partition::voter_count;
use types::{NodeId, SetId};

pub(crate) const GB: u64 = 1 << 30;

/// What a change becomes when it is done.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    set: usize,
    voters: Vec<NodeId>,
    learners: Vec<NodeId>,
    added: Vec<NodeId>,
    rounds_left: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) nodes: Vec<NodeView>,
    pub(crate) sets: Vec<SetView>,
    pub(crate) bounds: Bounds,
    pending: Vec<Pending>,
    /// Members that were put on another node.
    pub(crate) moves: usize,
    pub(crate) leads: usize,
    /// How many rounds a change takes; 0 is at once.
    pub(crate) change_rounds: usize,
}

impl World {
    /// Nodes 1 to `count` on racks r1 to `racks`, with disks of 1000 GB and nothing on them.
    pub(crate) fn new(count: u64, racks: u64) -> World {
        let mut world = World {
            nodes: Vec::new(),
            sets: Vec::new(),
            bounds: Bounds::default(),
            pending: Vec::new(),
            moves: 0,
            leads: 0,
            change_rounds: 0,
        };
        for node in 1..=count {
            world.join(node, &format!("r{}", (node - 1) % racks + 1), 1000 * GB);
        }
        world
    }

    pub(crate) fn join(&mut self, node: u64, rack: &str, disk_bytes: u64) {
        self.nodes.push(NodeView {
            node: NodeId(node),
            rack: Arc::from(rack),
            state: NodeState::Up,
            is_alive: true,
            silent_ms: 0,
            disk_bytes,
            free_bytes: disk_bytes,
            slow: None,
        });
    }

    /// Another set: its voters, its leader first.
    pub(crate) fn set(&mut self, voters: &[u64], bytes: u64, ru_s: u64) -> &mut SetView {
        let voters: Vec<NodeId> = voters.iter().copied().map(NodeId).collect();
        for node in &voters {
            self.node(node.0).free_bytes -= bytes;
        }
        let set = SetId(u32::try_from(self.sets.len()).unwrap() + 1);
        let leader = voters.first().copied();
        let learners = Vec::new();
        let is_changing = false;
        self.sets.push(SetView { set, voters, learners, leader, bytes, ru_s, is_changing });
        self.sets.last_mut().unwrap()
    }

    pub(crate) fn node(&mut self, node: u64) -> &mut NodeView {
        self.nodes.iter_mut().find(|it| it.node.0 == node).unwrap()
    }

    pub(crate) fn state(&mut self, node: u64, state: NodeState) {
        self.node(node).state = state;
    }

    pub(crate) fn silent(&mut self, node: u64, minutes: u64) {
        let node = self.node(node);
        (node.is_alive, node.silent_ms) = (false, minutes * 60_000);
    }

    pub(crate) fn decide(&self) -> Vec<Step> {
        decide(&self.nodes, &self.sets, &self.bounds)
    }

    /// What is decided, a line each.
    pub(crate) fn told(&self) -> String {
        self.decide().iter().map(tell).collect()
    }

    /// What is decided, and done.
    pub(crate) fn round(&mut self) -> String {
        let steps = self.decide();
        self.apply(&steps);
        steps.iter().map(tell).collect()
    }

    /// Rounds until nothing is decided and nothing under way; how many.
    pub(crate) fn settle(&mut self, rounds_max: usize) -> usize {
        for round in 0..rounds_max {
            let steps = self.decide();
            if steps.is_empty() && self.pending.is_empty() {
                return round;
            }
            self.apply(&steps);
        }
        panic!("not settled after {rounds_max} rounds; next: {:?}", self.told());
    }

    pub(crate) fn apply(&mut self, steps: &[Step]) {
        self.check_bounds(steps);
        let mut touched = BTreeSet::new();
        for step in steps {
            let (Step::Change { set, .. } | Step::Lead { set, .. }) = step;
            assert!(touched.insert(*set), "two steps for set {}", set.0);
            let index = self.sets.binary_search_by_key(set, |it| it.set).expect("a known set");
            match step {
                Step::Change { voters, learners, .. } => self.begin(index, voters, learners),
                Step::Lead { node, .. } => self.lead(index, *node),
            }
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain_mut(|change| {
            let is_done = change.rounds_left == 0;
            if is_done {
                self.finish(change);
            } else {
                change.rounds_left -= 1;
            }
            !is_done
        });
        self.pending = pending;
    }

    fn view(&self, node: NodeId) -> &NodeView {
        let found = self.nodes.binary_search_by_key(&node, |it| it.node);
        &self.nodes[found.expect("a known node")]
    }

    fn is_alive(&self, node: NodeId) -> bool {
        let view = self.view(node);
        view.is_alive && view.state != NodeState::Removed
    }

    fn has_quorum(&self, voters: &[NodeId]) -> bool {
        voters.iter().filter(|it| self.is_alive(**it)).count() > voters.len() / 2
    }

    fn begin(&mut self, index: usize, voters: &[NodeId], learners: &[NodeId]) {
        let set = &self.sets[index];
        let id = set.set.0;
        assert!(!set.is_changing, "set {id} is changing");
        let mut all: Vec<NodeId> = voters.iter().chain(learners).copied().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(count, all.len(), "set {id} has two members on a node");
        assert!((1..=4).contains(&count), "set {id} gets {count} members");
        assert!(self.has_quorum(&set.voters) && self.has_quorum(voters), "set {id} has no quorum");
        let stay = self
            .nodes
            .iter()
            .filter(|it| matches!(it.state, NodeState::Up | NodeState::Draining))
            .count();
        if learners.is_empty() && stay != 1 {
            assert_eq!(voter_count(voters.len()), voters.len(), "set {id} gets two voters");
        }
        let mut added = Vec::new();
        for node in all {
            if set.voters.contains(&node) || set.learners.contains(&node) {
                continue;
            }
            let view = self.view(node);
            assert!(view.is_alive && view.state == NodeState::Up, "node {} is no target", node.0);
            added.push(node);
        }
        // Who goes was asked to, is dead, or moves.
        let lost = set.voters.iter().chain(&set.learners);
        for node in lost.filter(|it| !voters.contains(it) && !learners.contains(it)) {
            let view = self.view(*node);
            let is_waited_for = view.silent_ms > 0
                && view.silent_ms < self.bounds.heal_after_ms
                && matches!(view.state, NodeState::Up | NodeState::Draining);
            assert!(!is_waited_for, "node {} may come back", node.0);
            if view.state == NodeState::Draining {
                assert!(view.silent_ms > 0, "node {} keeps its members", node.0);
            }
        }
        self.moves += added.len();
        let set = &mut self.sets[index];
        set.is_changing = true;
        set.learners.extend(&added);
        let (voters, learners) = (voters.to_vec(), learners.to_vec());
        let rounds_left = self.change_rounds;
        self.pending.push(Pending { set: index, voters, learners, added, rounds_left });
        if self.change_rounds == 0 {
            let change = self.pending.pop().unwrap();
            self.finish(&change);
        }
    }

    fn finish(&mut self, change: &Pending) {
        let set = &mut self.sets[change.set];
        let after: Vec<NodeId> = change.voters.iter().chain(&change.learners).copied().collect();
        let before: Vec<NodeId> = set.voters.iter().chain(&set.learners).copied().collect();
        set.voters.clone_from(&change.voters);
        set.learners.clone_from(&change.learners);
        set.is_changing = false;
        let (bytes, leader) = (set.bytes, set.leader);
        for node in &mut self.nodes {
            if change.added.contains(&node.node) {
                let left = node.free_bytes.checked_sub(bytes).expect("a full disk");
                let kept = (self.bounds.free_share_min * node.disk_bytes as f64) as u64;
                assert!(left >= kept, "node {} has {left} bytes left", node.node.0);
                node.free_bytes = left;
            } else if before.contains(&node.node) && !after.contains(&node.node) {
                node.free_bytes += bytes;
            }
        }
        if !leader.is_some_and(|leader| self.sets[change.set].voters.contains(&leader)) {
            let voters: Vec<NodeId> =
                change.voters.iter().copied().filter(|it| self.is_alive(*it)).collect();
            let turn = change.set % voters.len();
            self.sets[change.set].leader = Some(voters[turn]);
        }
    }

    fn lead(&mut self, index: usize, node: NodeId) {
        let view = self.view(node);
        assert!(view.is_alive && view.state == NodeState::Up, "node {} leads nothing", node.0);
        let set = &mut self.sets[index];
        assert!(!set.is_changing && set.voters.contains(&node) && set.leader != Some(node));
        set.leader = Some(node);
        self.leads += 1;
    }

    fn check_bounds(&self, steps: &[Step]) {
        let changing = self.sets.iter().filter(|it| it.is_changing).count();
        let changes = steps.iter().filter(|it| matches!(it, Step::Change { .. })).count();
        assert!(changes == 0 || changing + changes <= self.bounds.changes_max);
        assert!(steps.len() - changes <= self.bounds.leads_at_once_max);
        let mut got: BTreeMap<NodeId, usize> = BTreeMap::new();
        for node in self.pending.iter().flat_map(|change| &change.added) {
            *got.entry(*node).or_default() += 1;
        }
        for step in steps {
            let Step::Change { set, voters, learners, .. } = step else { continue };
            let set = &self.sets[self.sets.binary_search_by_key(set, |it| it.set).unwrap()];
            for node in voters.iter().chain(learners) {
                if !set.voters.contains(node) && !set.learners.contains(node) {
                    *got.entry(*node).or_default() += 1;
                }
            }
        }
        let most = got.values().max().copied().unwrap_or(0);
        assert!(most <= self.bounds.changes_per_node_max, "{most} sets at once for a node");
    }

    /// Leaders of nodes that do not answer go to others, as sets do by themselves.
    pub(crate) fn elect(&mut self) {
        for index in 0..self.sets.len() {
            let set = &self.sets[index];
            if set.leader.is_some_and(|it| !self.is_alive(it)) && self.has_quorum(&set.voters) {
                let alive: Vec<NodeId> =
                    set.voters.iter().copied().filter(|it| self.is_alive(*it)).collect();
                self.sets[index].leader = Some(alive[index % alive.len()]);
            }
        }
    }

    /// What each node has: members, bytes, request units, sets led.
    pub(crate) fn loads(&self) -> BTreeMap<NodeId, [u64; 4]> {
        let mut loads: BTreeMap<NodeId, [u64; 4]> =
            self.nodes.iter().map(|it| (it.node, [0; 4])).collect();
        for set in &self.sets {
            for node in set.voters.iter().chain(&set.learners) {
                let load = loads.get_mut(node).unwrap();
                load[0] += 1;
                load[1] += set.bytes;
                load[2] += set.ru_s;
            }
            if let Some(leader) = set.leader {
                loads.get_mut(&leader).unwrap()[3] += 1;
            }
        }
        loads
    }

    /// Members a node has, in all.
    pub(crate) fn members(&self, node: u64) -> u64 {
        self.loads()[&NodeId(node)][0]
    }

    /// Pairs of members of a set that share a rack.
    pub(crate) fn shared_racks(&self) -> usize {
        let rack = |node: &NodeId| &self.view(*node).rack;
        let pairs = |set: &SetView| {
            let all: Vec<&NodeId> = set.voters.iter().chain(&set.learners).collect();
            let mut found = 0;
            for (at, node) in all.iter().enumerate() {
                found += all[..at].iter().filter(|other| rack(other) == rack(node)).count();
            }
            found
        };
        self.sets.iter().map(pairs).sum()
    }
}

fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(|it| it.0.to_string()).collect::<Vec<_>>().join(" ")
}

fn tell(step: &Step) -> String {
    match step {
        Step::Change { set, voters, learners, reason } if learners.is_empty() => {
            format!("set {} on {}: {reason}\n", set.0, list(voters))
        }
        Step::Change { set, voters, learners, reason } => {
            format!("set {} on {}, then {}: {reason}\n", set.0, list(voters), list(learners))
        }
        Step::Lead { set, node, reason } => format!("set {} led by {}: {reason}\n", set.0, node.0),
    }
}
