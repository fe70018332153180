//! The cluster as numbers: nodes and sets by their place in a list, what each has, and what may still be given to it.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use types::NodeId;

use super::{Bounds, NodeState, NodeView, Reason, SetView, Step};
use crate::placement::SET_MEMBERS;

/// Members, bytes and request units a second: what nodes have, and what is balanced.
pub(super) type Amounts = [f64; 3];
pub(super) const MEMBERS: usize = 0;
pub(super) const BYTES: usize = 1;

/// Differences below these are never worth a move, whatever share of the mean they are: a cluster that is nearly empty has
/// nothing to balance but members.
pub(super) const GAP_MIN: Amounts = [2.0, (1 << 30) as f64, 1000.0];

/// A node's place in the list. Only `Cluster::new` makes one, so there is a node at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(usize);

/// What is to become of the members that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    /// Replaced, because the node is emptied.
    Leaving,
    /// Replaced, because the node has been silent for too long.
    Dead,
    /// Replaced, because the node is gone.
    Removed,
}

pub(super) struct Node<'a> {
    pub(super) view: &'a NodeView,
    pub(super) rack: usize,
    pub(super) standing: Standing,
    /// Takes new members.
    pub(super) is_target: bool,
    /// The share of everything that it should have: by its disk, and no more than a member of each set.
    pub(super) share: f64,
    /// What it has, and what steps and changes give it.
    pub(super) has: Amounts,
    /// What changes under way may take from it.
    pub(super) going: Amounts,
    /// What is not promised yet.
    pub(super) free_bytes: u64,
    /// Sets for which it gets rows or hands them over.
    pub(super) changes: usize,
}

impl Node<'_> {
    pub(super) fn id(&self) -> NodeId {
        self.view.node
    }

    /// A removed one may still answer; it does not count.
    pub(super) fn is_alive(&self) -> bool {
        self.view.is_alive && self.standing != Standing::Removed
    }

    /// A slow one leads only what nobody else can.
    pub(super) fn may_lead(&self) -> bool {
        self.is_target && self.view.slow.is_none()
    }
}

pub(super) struct Set<'a> {
    pub(super) view: &'a SetView,
    pub(super) voters: Vec<Place>,
    pub(super) learners: Vec<Place>,
    pub(super) leader: Option<Place>,
    /// It is changing, or a step of this call changes it.
    pub(super) is_taken: bool,
    /// A member on a node of which nothing is known: then the view is older than the set, and nothing is done.
    pub(super) unknown: Option<NodeId>,
}

impl Set<'_> {
    pub(super) fn members(&self) -> impl Iterator<Item = Place> + Clone + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }

    pub(super) fn cost(&self) -> Amounts {
        [1.0, self.view.bytes as f64, self.view.ru_s as f64]
    }
}

/// What becomes of a set.
pub(super) struct Plan {
    pub(super) voters: Vec<Place>,
    pub(super) learners: Vec<Place>,
    pub(super) reason: Reason,
}

pub(super) struct Cluster<'a> {
    pub(super) nodes: Nodes<'a>,
    pub(super) sets: Vec<Set<'a>>,
    pub(super) bounds: &'a Bounds,
    pub(super) racks: Vec<Arc<str>>,
    /// How many members a set should have.
    pub(super) wanted: usize,
    /// Of two nodes, the one that decides for all sets.
    pub(super) sole_voter: Option<Place>,
    /// Sets whose members change.
    pub(super) changes: usize,
    /// What all sets will have together.
    pub(super) totals: Amounts,
    /// What a square of each amount counts in how uneven the cluster is.
    pub(super) scales: Amounts,
}

pub(super) struct Nodes<'a>(Vec<Node<'a>>);

impl<'a> Index<Place> for Nodes<'a> {
    type Output = Node<'a>;

    #[expect(
        clippy::indexing_slicing,
        reason = "places are made from this list, which never changes"
    )]
    fn index(&self, place: Place) -> &Node<'a> {
        &self.0[place.0]
    }
}

impl<'a> IndexMut<Place> for Nodes<'a> {
    #[expect(
        clippy::indexing_slicing,
        reason = "places are made from this list, which never changes"
    )]
    fn index_mut(&mut self, place: Place) -> &mut Node<'a> {
        &mut self.0[place.0]
    }
}

impl<'a> Nodes<'a> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &Node<'a>)> + Clone {
        self.0.iter().enumerate().map(|(place, node)| (Place(place), node))
    }

    /// A value for each node.
    pub(super) fn table<T: Clone>(&self, value: T) -> NodeTable<T> {
        NodeTable(vec![value; self.0.len()])
    }
}

/// A value for each node, found by its place.
pub(super) struct NodeTable<T>(Vec<T>);

impl<T> Index<Place> for NodeTable<T> {
    type Output = T;

    #[expect(clippy::indexing_slicing, reason = "it is as long as the list that places come from")]
    fn index(&self, place: Place) -> &T {
        &self.0[place.0]
    }
}

impl<T> IndexMut<Place> for NodeTable<T> {
    #[expect(clippy::indexing_slicing, reason = "it is as long as the list that places come from")]
    fn index_mut(&mut self, place: Place) -> &mut T {
        &mut self.0[place.0]
    }
}

impl<'a> Cluster<'a> {
    pub(super) fn new(
        nodes: &'a [NodeView],
        sets: &'a [SetView],
        bounds: &'a Bounds,
    ) -> Cluster<'a> {
        let mut views: Vec<&NodeView> = nodes.iter().collect();
        views.sort_by_key(|view| view.node);
        views.dedup_by_key(|view| view.node);
        let mut racks: Vec<Arc<str>> = views.iter().map(|view| Arc::clone(&view.rack)).collect();
        racks.sort_unstable();
        racks.dedup();
        let place: BTreeMap<NodeId, Place> =
            views.iter().enumerate().map(|(place, view)| (view.node, Place(place))).collect();
        let nodes = Nodes(views.into_iter().map(|view| node(view, &racks, bounds)).collect());
        let stays = |node: &&NodeView| matches!(node.state, NodeState::Up | NodeState::Draining);
        let wanted = nodes.iter().filter(|(_, it)| stays(&it.view)).count().min(SET_MEMBERS);
        let mut sets: Vec<Set<'_>> = sets.iter().map(|view| set(view, &place)).collect();
        sets.sort_by_key(|set| set.view.set);
        let mut cluster = Cluster {
            nodes,
            sets,
            bounds,
            racks,
            wanted,
            sole_voter: None,
            changes: 0,
            totals: [0.0; 3],
            scales: [0.0; 3],
        };
        cluster.count();
        cluster.share();
        cluster.sole_voter = cluster.sole_voter();
        cluster
    }

    /// Adds up what nodes have, and what is under way.
    fn count(&mut self) {
        for set in &self.sets {
            let cost = set.cost();
            for place in set.members() {
                add(&mut self.nodes[place].has, &cost, 1.0);
            }
            add(&mut self.totals, &cost, self.wanted as f64);
            if !set.view.is_changing {
                continue;
            }
            // Without a leader nothing moves, and others need not wait for it.
            self.changes += usize::from(set.leader.is_some());
            for place in set.learners.iter().chain(&set.leader) {
                self.nodes[*place].changes += 1;
            }
            // Its rows are on their way, and may not be on its disk yet.
            for place in &set.learners {
                let node = &mut self.nodes[*place];
                node.free_bytes = node.free_bytes.saturating_sub(set.view.bytes);
            }
            // Which one goes is not told, so each may be lighter soon than it looks.
            if set.members().count() > self.wanted {
                for place in &set.voters {
                    add(&mut self.nodes[*place].going, &cost, 1.0);
                }
            }
        }
    }

    /// By the size of disks; what one node cannot have, because it has a member of each set already, goes to the others.
    fn share(&mut self) {
        let has_share = |node: &Node<'_>| {
            node.standing == Standing::Good && node.view.state != NodeState::Joining
        };
        let share_max = 1.0 / self.wanted.max(1) as f64;
        let mut left: Vec<(u64, Place)> = self
            .nodes
            .iter()
            .filter(|(_, node)| has_share(node))
            .map(|(place, node)| (node.view.disk_bytes.max(1), place))
            .collect();
        left.sort_unstable_by(|a, b| b.cmp(a));
        let count = left.len().max(1) as f64;
        let mut disks = left.iter().map(|(disk, _)| *disk as f64).sum::<f64>();
        let mut rest = 1.0;
        // The largest first: once one is within bounds, all smaller ones are.
        for (disk, place) in left {
            let share = (rest * disk as f64 / disks).min(share_max);
            self.nodes[place].share = share;
            rest -= share;
            disks -= disk as f64;
        }
        let amounts = self.scales.iter_mut().zip(&self.totals).zip(&GAP_MIN);
        for ((scale, total), gap_min) in amounts {
            // What is too little to be balanced does not count either when something else is.
            let is_worth = total / count >= *gap_min / 2.0;
            *scale = if is_worth { 1.0 / (total * total) } else { 0.0 };
        }
    }

    /// The one that can, then the one that does for most sets, then the first.
    fn sole_voter(&self) -> Option<Place> {
        if self.wanted != 2 {
            return None;
        }
        let mut alone = self.nodes.table(0_usize);
        for set in &self.sets {
            if let [voter] = set.voters.as_slice() {
                alone[*voter] += 1;
            }
        }
        let stays = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node.view.state, NodeState::Up | NodeState::Draining));
        stays
            .max_by_key(|(place, node)| (node.is_target, alone[*place], std::cmp::Reverse(*place)))
            .map(|(place, _)| place)
    }

    pub(super) fn has_room(&self, place: Place, bytes: u64) -> bool {
        let node = &self.nodes[place];
        let kept = (self.bounds.free_share_min * node.view.disk_bytes as f64) as u64;
        node.free_bytes >= bytes.saturating_add(kept)
    }

    pub(super) fn is_free(&self, place: Place) -> bool {
        self.nodes[place].changes < self.bounds.changes_per_node_max
    }

    /// Whether the set's leader has hands for one more to send rows to.
    pub(super) fn may_send(&self, set: &Set<'_>) -> bool {
        set.leader.is_none_or(|leader| self.is_free(leader))
    }

    pub(super) fn is_full(&self) -> bool {
        self.changes >= self.bounds.changes_max
    }

    pub(super) fn alive(&self, voters: &[Place]) -> usize {
        voters.iter().filter(|place| self.nodes[**place].is_alive()).count()
    }

    /// Whether a set with these voters can decide anything.
    pub(super) fn has_quorum(&self, voters: &[Place]) -> bool {
        self.alive(voters) >= quorum(voters.len())
    }

    /// How much more uneven the cluster is with a member more on a node (`sign` 1), or one fewer (−1).
    pub(super) fn uneven(&self, place: Place, cost: &Amounts, sign: f64) -> Amounts {
        let node = &self.nodes[place];
        let mut found = [0.0; 3];
        let parts = found.iter_mut().zip(&node.has).zip(cost).zip(&self.scales);
        for (((found, has), cost), scale) in parts {
            *found = scale * cost * (2.0 * sign * has + cost) / node.share.max(f64::MIN_POSITIVE);
        }
        found
    }

    /// Whether a node has more members with one more than it should.
    pub(super) fn would_be_over(&self, place: Place) -> bool {
        let node = &self.nodes[place];
        let [members, ..] = node.has;
        let [total, ..] = self.totals;
        members + 1.0 > (node.share * total * (1.0 + self.bounds.members_slack)).ceil()
    }

    /// Takes a step, so that what follows counts on it.
    pub(super) fn change(&mut self, index: usize, plan: Plan, steps: &mut Vec<Step>) {
        let Some(set) = self.sets.get_mut(index) else { return };
        let before: Vec<Place> = set.members().collect();
        (set.voters, set.learners, set.is_taken) = (plan.voters, plan.learners, true);
        let after: Vec<Place> = set.members().collect();
        let cost = set.cost();
        let mut is_sent = false;
        for place in after.iter().filter(|place| !before.contains(place)) {
            let node = &mut self.nodes[*place];
            add(&mut node.has, &cost, 1.0);
            node.free_bytes = node.free_bytes.saturating_sub(set.view.bytes);
            node.changes += 1;
            is_sent = true;
        }
        for place in before.iter().filter(|place| !after.contains(place)) {
            add(&mut self.nodes[*place].has, &cost, -1.0);
        }
        if let (true, Some(leader)) = (is_sent, set.leader) {
            self.nodes[leader].changes += 1;
        }
        self.changes += 1;
        let ids = |places: &[Place]| {
            let mut ids: Vec<NodeId> = places.iter().map(|it| self.nodes[*it].id()).collect();
            ids.sort_unstable();
            ids
        };
        let (voters, learners) = (ids(&set.voters), ids(&set.learners));
        steps.push(Step::Change { set: set.view.set, voters, learners, reason: plan.reason });
    }
}

/// More than half.
pub(super) fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

pub(super) fn add(to: &mut Amounts, what: &Amounts, times: f64) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += what * times;
    }
}

fn node<'a>(view: &'a NodeView, racks: &[Arc<str>], bounds: &Bounds) -> Node<'a> {
    let is_dead = !view.is_alive && view.silent_ms >= bounds.heal_after_ms;
    let standing = match view.state {
        NodeState::Removed => Standing::Removed,
        NodeState::Leaving => Standing::Leaving,
        NodeState::Joining | NodeState::Up | NodeState::Draining if is_dead => Standing::Dead,
        NodeState::Joining | NodeState::Up | NodeState::Draining => Standing::Good,
    };
    Node {
        view,
        rack: racks.partition_point(|rack| *rack < view.rack),
        standing,
        is_target: view.state == NodeState::Up && view.is_alive,
        share: 0.0,
        has: [0.0; 3],
        going: [0.0; 3],
        free_bytes: view.free_bytes,
        changes: 0,
    }
}

fn set<'a>(view: &'a SetView, places: &BTreeMap<NodeId, Place>) -> Set<'a> {
    let mut unknown = None;
    let mut known = |ids: &[NodeId]| {
        let mut found: Vec<Place> = Vec::with_capacity(ids.len());
        for id in ids {
            match places.get(id) {
                Some(place) if !found.contains(place) => found.push(*place),
                Some(_) => {}
                None => unknown = Some(*id),
            }
        }
        found
    };
    let voters = known(&view.voters);
    let mut learners = known(&view.learners);
    learners.retain(|place| !voters.contains(place));
    let leader = view.leader.and_then(|leader| places.get(&leader).copied());
    Set { view, voters, learners, leader, is_taken: view.is_changing, unknown }
}
