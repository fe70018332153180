//! What is whole and could lie better: racks apart, disks with room, nodes with as much as they should have.

use super::Step;
use super::cluster::{
    Amounts, BYTES, Cluster, GAP_MIN, MEMBERS, Node, NodeTable, Place, Plan, Set, Standing,
};
use super::reason::Reason;

/// Less than this and it is an error of arithmetic.
const GAIN_MIN: f64 = 1e-15;
/// A disk with less than this share of what targets keep free is relieved. Less than the whole, so that what has just been
/// filled up to the bound is not emptied again.
const FULL_SHARE: f64 = 0.5;

/// A set has so many voters before it is moved.
const VOTERS_MIN: usize = 3;

/// Members that share a rack move to racks that have none.
pub(super) fn part_racks(cluster: &mut Cluster<'_>, steps: &mut Vec<Step>) {
    if cluster.racks.len() < 2 {
        return;
    }
    for index in 0..cluster.sets.len() {
        if cluster.is_full() {
            return;
        }
        let Some(set) = cluster.sets.get(index) else { return };
        if let Some((from, to)) = better_rack(cluster, set, true) {
            let node = &cluster.nodes[from];
            let rack = cluster.racks.get(node.rack).cloned().unwrap_or_default();
            let members = on_rack(cluster, set, node.rack);
            let reason = Reason::SameRack { set: set.view.set, rack, members };
            move_member(cluster, index, from, to, reason, steps);
        }
    }
}

/// A member that shares its rack, and a node on a rack with at least two fewer. With `is_bounded`, one that can take it now.
pub(super) fn better_rack(
    cluster: &Cluster<'_>,
    set: &Set<'_>,
    is_bounded: bool,
) -> Option<(Place, Place)> {
    let crowded =
        set.voters.iter().map(|it| on_rack(cluster, set, cluster.nodes[*it].rack)).max()?;
    if crowded < 2 || set.is_taken || !is_movable(cluster, set) {
        return None;
    }
    let cost = set.cost();
    let from = set.voters.iter().copied().filter(|place| {
        let node = &cluster.nodes[*place];
        node.is_target && on_rack(cluster, set, node.rack) == crowded
    });
    let relief = |place: Place| cluster.uneven(place, &cost, -1.0).iter().sum::<f64>();
    let from = from.min_by(|a, b| {
        let is_led = |place: &Place| set.leader == Some(*place);
        relief(*a).total_cmp(&relief(*b)).then(is_led(a).cmp(&is_led(b)))
    })?;
    let rank = |place: Place, node: &Node<'_>| {
        (on_rack(cluster, set, node.rack), cluster.would_be_over(place))
    };
    let candidates = cluster.nodes.iter().filter(|(place, node)| {
        node.is_target
            && on_rack(cluster, set, node.rack) + 2 <= crowded
            && !set.voters.contains(place)
            && (!is_bounded || cluster.has_room(*place, set.view.bytes))
    });
    let best = candidates.clone().map(|(place, node)| rank(place, node)).min()?;
    let load = |place: Place| cluster.uneven(place, &cost, 1.0).iter().sum::<f64>();
    // Who should have it and has its hands full is waited for, so that nothing moves twice.
    let free = candidates.filter(|(place, node)| {
        rank(*place, node) == best
            && (!is_bounded || (cluster.is_free(*place) && cluster.may_send(set)))
    });
    let (to, _) = free.min_by(|(a, _), (b, _)| load(*a).total_cmp(&load(*b)))?;
    Some((from, to))
}

fn on_rack(cluster: &Cluster<'_>, set: &Set<'_>, rack: usize) -> usize {
    set.voters.iter().filter(|place| cluster.nodes[**place].rack == rack).count()
}

/// Only what is whole is moved for the better: all its members vote, and their nodes stay.
fn is_movable(cluster: &Cluster<'_>, set: &Set<'_>) -> bool {
    set.unknown.is_none()
        && (set.learners.is_empty() || set.view.is_changing)
        // Smaller ones grow first.
        && set.voters.len() >= VOTERS_MIN
        && set.voters.iter().all(|place| cluster.nodes[*place].standing == Standing::Good)
        && cluster.has_quorum(&set.voters)
}

fn move_member(
    cluster: &mut Cluster<'_>,
    index: usize,
    from: Place,
    to: Place,
    reason: Reason,
    steps: &mut Vec<Step>,
) {
    let Some(set) = cluster.sets.get(index) else { return };
    let mut voters: Vec<Place> = set.voters.iter().copied().filter(|it| *it != from).collect();
    voters.push(to);
    cluster.change(index, Plan { voters, learners: Vec::new(), reason }, steps);
}

/// The sets of each node that may be moved, now or when they are no longer changing.
pub(super) fn sets_of_nodes(cluster: &Cluster<'_>) -> NodeTable<Vec<usize>> {
    let mut found = cluster.nodes.table(Vec::new());
    for (index, set) in cluster.sets.iter().enumerate() {
        if is_movable(cluster, set) {
            for place in &set.voters {
                found[*place].push(index);
            }
        }
    }
    found
}

/// Nodes whose disks are nearly full give members away.
pub(super) fn relieve(
    cluster: &mut Cluster<'_>,
    sets_of: &NodeTable<Vec<usize>>,
    steps: &mut Vec<Step>,
) {
    let full: Vec<Place> = cluster
        .nodes
        .iter()
        .filter(|(_, node)| node.is_target && lacking(cluster, node) > 0.0)
        .map(|(place, _)| place)
        .collect();
    for from in full {
        let [_, going_bytes, _] = cluster.nodes[from].going;
        let mut lacking = lacking(cluster, &cluster.nodes[from]) - going_bytes;
        let mut sets = sets_of[from].clone();
        sets.sort_by_key(|index| cluster.sets.get(*index).map(|set| set.view.bytes));
        // The smallest that is enough, or the largest there is: as few moves as can be.
        while lacking > 0.0 && !sets.is_empty() && !cluster.is_full() {
            let bytes = |index: &usize| cluster.sets.get(*index).map_or(0, |set| set.view.bytes);
            let at = sets.partition_point(|index| (bytes(index) as f64) < lacking);
            let index = sets.remove(at.min(sets.len() - 1));
            let Some(set) = cluster.sets.get(index) else { continue };
            let Some(to) = roomy(cluster, set, from) else { continue };
            lacking -= set.view.bytes as f64;
            let view = &cluster.nodes[from].view;
            let free_percent = view.free_bytes.saturating_mul(100) / view.disk_bytes.max(1);
            let reason = Reason::Full { node: view.node, free_percent };
            move_member(cluster, index, from, to, reason, steps);
        }
    }
}

/// The bytes that a node's disk lacks.
pub(super) fn lacking(cluster: &Cluster<'_>, node: &Node<'_>) -> f64 {
    let kept = cluster.bounds.free_share_min * FULL_SHARE * node.view.disk_bytes as f64;
    kept - node.view.free_bytes as f64
}

/// The node with the least of those that can take a member from another now.
fn roomy(cluster: &Cluster<'_>, set: &Set<'_>, from: Place) -> Option<Place> {
    if set.view.bytes == 0 || set.is_taken || !cluster.may_send(set) {
        return None;
    }
    let cost = set.cost();
    let load = |place: Place| cluster.uneven(place, &cost, 1.0).iter().sum::<f64>();
    let nodes = cluster.nodes.iter().map(|(place, _)| place);
    let able = nodes.filter(|to| cluster.is_free(*to) && may_move(cluster, set, from, *to));
    able.min_by(|a, b| load(*a).total_cmp(&load(*b)))
}

/// Whether a member can go from one node to another: there is room, and no rack gets more crowded by it.
fn may_move(cluster: &Cluster<'_>, set: &Set<'_>, from: Place, to: Place) -> bool {
    let node = &cluster.nodes[to];
    if !node.is_target || set.voters.contains(&to) || !cluster.has_room(to, set.view.bytes) {
        return false;
    }
    let old_rack = cluster.nodes[from].rack;
    node.rack == old_rack || on_rack(cluster, set, node.rack) < on_rack(cluster, set, old_rack)
}

/// Nodes that have more than others give them members, as long as that makes the cluster more even.
///
/// First from those that have more than they should to those that have less: such a move is never taken back. Of those, first
/// what should move most of all: a hot set that this node cannot take is for another one. Only where there is nothing of the
/// kind, because racks or room forbid it, the rest is made more even.
pub(super) fn balance(
    cluster: &mut Cluster<'_>,
    sets_of: &NodeTable<Vec<usize>>,
    steps: &mut Vec<Step>,
) {
    let pairs = uneven_pairs(cluster);
    for (is_needed, is_strict) in [(true, true), (true, false), (false, false)] {
        let mut is_waiting = false;
        for pair in pairs.iter().filter(|pair| pair.is_needed == is_needed) {
            let (from, to) = (pair.from, pair.to);
            if cluster.is_full() {
                return;
            }
            if !cluster.is_free(to) {
                is_waiting = true;
                continue;
            }
            // What earlier steps did may be enough.
            let Some(gap) = gap(cluster, from, to) else { continue };
            let Some(best) = best_move(cluster, &sets_of[from], from, to, &gap, is_strict) else {
                continue;
            };
            is_waiting |= best.is_possible;
            if best.is_possible && best.is_free {
                let reason = reason(cluster, from, to, best.amount);
                move_member(cluster, best.index, from, to, reason, steps);
            }
        }
        if is_waiting {
            return;
        }
    }
}

/// Two nodes that differ too much.
struct Pair {
    urgency: f64,
    /// One has more than it should, and the other less.
    is_needed: bool,
    from: Place,
    to: Place,
}

/// What two nodes differ by.
struct Gap {
    /// How many times what is let pass, at most.
    urgency: f64,
    /// For one of the amounts, one has more than it should and the other less.
    is_needed: bool,
    /// By which amounts.
    is_large: [bool; 3],
    /// What would have to move to make them even.
    moves: Amounts,
}

/// The pairs that differ too much, the most uneven first.
fn uneven_pairs(cluster: &Cluster<'_>) -> Vec<Pair> {
    let nodes: Vec<Place> =
        cluster.nodes.iter().filter(|(_, it)| it.is_target).map(|(place, _)| place).collect();
    let mut pairs = Vec::new();
    for from in &nodes {
        for to in &nodes {
            if let Some(gap) = gap(cluster, *from, *to) {
                let (urgency, is_needed) = (gap.urgency, gap.is_needed);
                pairs.push(Pair { urgency, is_needed, from: *from, to: *to });
            }
        }
    }
    pairs.sort_by(|a, b| b.urgency.total_cmp(&a.urgency).then((a.from, a.to).cmp(&(b.from, b.to))));
    pairs
}

/// What one node has too much, compared with another. What may still come or go by changes under way is taken for granted, so
/// that no more is moved than what is needed after them.
fn gap(cluster: &Cluster<'_>, from: Place, to: Place) -> Option<Gap> {
    let (from, to) = (&cluster.nodes[from], &cluster.nodes[to]);
    if from.share <= 0.0 || to.share <= 0.0 {
        return None;
    }
    let bounds = cluster.bounds;
    let slacks = [bounds.members_slack, bounds.bytes_slack, bounds.ru_slack];
    let mut found = Gap { urgency: 0.0, is_needed: false, is_large: [false; 3], moves: [0.0; 3] };
    let amounts = from.has.iter().zip(&from.going).zip(&to.has).map(|((a, g), b)| (a - g, *b));
    let results = found.is_large.iter_mut().zip(&mut found.moves);
    let limits = slacks.iter().zip(&cluster.totals).zip(&GAP_MIN);
    for (((has, other), (is_large, moves)), ((slack, total), gap_min)) in
        amounts.zip(results).zip(limits)
    {
        let share = from.share + to.share;
        *moves = (has * to.share - other * from.share) / share;
        // Half of what must lie between them: this much is too much on one side.
        let is_enough = *moves >= gap_min / 2.0;
        let differ = has / from.share - other / to.share;
        if is_enough && differ > slack * total {
            *is_large = true;
            found.is_needed |= has > from.share * total && other < to.share * total;
            found.urgency = found.urgency.max(differ / (slack * total).max(f64::MIN_POSITIVE));
        }
    }
    (found.urgency > 0.0).then_some(found)
}

/// A member that had better be elsewhere.
struct Best {
    /// How far it is from what should move, and whether it leads.
    rank: (f64, bool),
    index: usize,
    /// What is made more even by it.
    amount: usize,
    /// It can move to that node.
    is_possible: bool,
    /// It can move now.
    is_free: bool,
}

/// The set whose member is closest to what should move, among those that make the cluster more even.
fn best_move(
    cluster: &Cluster<'_>,
    sets: &[usize],
    from: Place,
    to: Place,
    gap: &Gap,
    is_strict: bool,
) -> Option<Best> {
    let [members, ..] = gap.moves;
    let [is_any_good, ..] = gap.is_large;
    // So that many moves take a bit of everything, and the last ones find what they need.
    let parts = members.max(1.0);
    let mut best: Option<Best> = None;
    for index in sets {
        let Some(set) = cluster.sets.get(*index) else { continue };
        let is_free = !set.is_taken && cluster.may_send(set);
        // A large or hot one is waited for: many small ones in its place would be moves for nothing.
        let is_possible = may_move(cluster, set, from, to);
        if (is_any_good && !is_free) || (!is_possible && (is_any_good || !is_strict)) {
            continue;
        }
        let cost = set.cost();
        let far = cost.iter().zip(&gap.moves).zip(&cluster.scales);
        let far = far.map(|((cost, moves), scale)| scale * (cost - moves / parts).powi(2));
        // Of equal ones, those that are not led there: nobody notices their move.
        let rank = (far.sum::<f64>(), set.leader == Some(from));
        let is_closer =
            |known: &Best| rank.0.total_cmp(&known.rank.0).then(rank.1.cmp(&known.rank.1)).is_lt();
        if !best.as_ref().is_none_or(is_closer) {
            continue;
        }
        let (less, more) = (cluster.uneven(from, &cost, -1.0), cluster.uneven(to, &cost, 1.0));
        let gains = less.iter().zip(&more).map(|(less, more)| -(less + more));
        if gains.clone().sum::<f64>() < GAIN_MIN {
            continue;
        }
        let mut large = gains.zip(&gap.is_large);
        if let Some(amount) = large.position(|(gain, is_large)| *is_large && gain > 0.0) {
            best = Some(Best { rank, index: *index, amount, is_possible, is_free });
        }
    }
    best
}

fn reason(cluster: &Cluster<'_>, from: Place, to: Place, amount: usize) -> Reason {
    let (from, to) = (&cluster.nodes[from], &cluster.nodes[to]);
    let (node, than) = (to.id(), from.id());
    let fewer = from.has.iter().zip(&to.has).nth(amount).map_or(0.0, |(a, b)| a - b);
    // A large node may have more than a small one, and still too little.
    if fewer < 1.0 {
        return Reason::LessForDisk { node, than };
    }
    let fewer = fewer as u64;
    match amount {
        MEMBERS => Reason::FewerMembers { node, than, fewer },
        BYTES => Reason::FewerBytes { node, than, fewer_bytes: fewer },
        _ => Reason::LessTraffic { node, than, fewer_ru_s: fewer },
    }
}
