//! What operators ask for, checked before it is begun; and what should be done and cannot be.

use std::cmp::Reverse;

use types::NodeId;

use super::balance::{better_rack, lacking, relieve, sets_of_nodes};
use super::cluster::{Cluster, Set, Standing, quorum};
use super::reason::{Reason, Size, Time};
use super::repair::{Blocked, plan, urgent};
use super::{Bounds, NodeState, NodeView, SetView, Step};

/// So many sentences are told; how many more there would be is told in the last.
const SENTENCES_MAX: usize = 64;

/// As much at once as anyone likes: to see what can be done at all.
fn unbounded(bounds: &Bounds) -> Bounds {
    Bounds { changes_max: usize::MAX, changes_per_node_max: usize::MAX, ..*bounds }
}

/// What should be done and cannot be, a sentence each.
pub fn waiting(nodes: &[NodeView], sets: &[SetView], bounds: &Bounds) -> Vec<String> {
    let bounds = unbounded(bounds);
    let mut cluster = Cluster::new(nodes, sets, &bounds);
    let mut found = silent(&cluster);
    let mut steps = Vec::new();
    for index in urgent(&cluster) {
        let Some(set) = cluster.sets.get(index) else { continue };
        match plan(&cluster, set) {
            Ok(Some(plan)) => cluster.change(index, plan, &mut steps),
            Ok(None) => {}
            Err(blocked) => found.extend(sentence(&cluster, set, &blocked)),
        }
    }
    found.extend(cluster.sets.iter().filter_map(|set| same_rack(&cluster, set)));
    found.extend(cluster.sets.iter().filter_map(|set| led(&cluster, set)));
    found.extend(full(&mut cluster));
    let more = found.len().saturating_sub(SENTENCES_MAX);
    found.truncate(SENTENCES_MAX);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    found
}

/// Nodes that may come back.
fn silent(cluster: &Cluster<'_>) -> Vec<String> {
    let waited = cluster.nodes.iter().filter(|(_, node)| {
        let [members, ..] = node.has;
        !node.view.is_alive && node.standing == Standing::Good && members > 0.0
    });
    let heal_after_ms = cluster.bounds.heal_after_ms;
    let tell = |(node, silent_ms)| {
        let reason = Reason::Silent { node, silent_ms };
        format!("{reason}: its members are replaced after {}", Time(heal_after_ms))
    };
    waited.map(|(_, node)| tell((node.id(), node.view.silent_ms))).collect()
}

fn sentence(cluster: &Cluster<'_>, set: &Set<'_>, blocked: &Blocked) -> Option<String> {
    let id = set.view.set.0;
    let why = match blocked {
        Blocked::Later => return None,
        Blocked::Unknown => {
            let node = set.unknown?;
            return Some(format!("set {id} has a member on node {}, which nobody knows", node.0));
        }
        Blocked::NoQuorum { alive, voters } => {
            let needed = quorum(*voters);
            return Some(format!(
                "set {id} has {alive} of {voters} voters alive and needs {needed}: its members cannot change"
            ));
        }
        Blocked::NoTarget { has_others: true, .. } => {
            format!("no node has room for {}", Size(set.view.bytes))
        }
        Blocked::NoTarget { has_others: false, .. } => "there is no other node".to_owned(),
    };
    let Blocked::NoTarget { members, .. } = blocked else { return None };
    let on = |standing| {
        set.members().map(|it| &cluster.nodes[it]).find(|node| node.standing == standing)
    };
    let node = match (on(Standing::Removed), on(Standing::Leaving), on(Standing::Dead)) {
        (Some(node), ..) => format!(" and one on node {}, which was removed", node.id().0),
        (None, Some(node), _) => format!(", one on node {}, which is leaving", node.id().0),
        (None, None, Some(node)) => format!(
            " and one on node {}, which has been silent for {}",
            node.id().0,
            Time(node.view.silent_ms)
        ),
        (None, None, None) => String::new(),
    };
    Some(format!("set {id} has {members} of {} members{node}: {why}", cluster.wanted))
}

/// Members that fail together for lack of room.
fn same_rack(cluster: &Cluster<'_>, set: &Set<'_>) -> Option<String> {
    let (from, _) = better_rack(cluster, set, false)?;
    if better_rack(cluster, set, true).is_some() {
        return None;
    }
    let rack = cluster.racks.get(cluster.nodes[from].rack)?;
    let (id, size) = (set.view.set.0, Size(set.view.bytes));
    Some(format!(
        "set {id} has members together on rack {rack}: no node on another has room for {size}"
    ))
}

/// Sets that nobody else can lead.
fn led(cluster: &Cluster<'_>, set: &Set<'_>) -> Option<String> {
    let node = &cluster.nodes[set.leader?];
    let state = match node.view.state {
        NodeState::Draining => "draining",
        NodeState::Leaving => "leaving",
        NodeState::Joining | NodeState::Up | NodeState::Removed => return None,
    };
    if set.is_taken || set.voters.iter().any(|it| cluster.nodes[*it].is_target) {
        return None;
    }
    let (node, id) = (node.id().0, set.view.set.0);
    Some(format!("node {node} is {state} and leads set {id}: no other of its voters is up"))
}

/// Disks that nobody relieves.
fn full(cluster: &mut Cluster<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    let sets_of = sets_of_nodes(cluster);
    relieve(cluster, &sets_of, &mut steps);
    let is_relieved = |id: NodeId| {
        let of_it = |step: &Step| matches!(step, Step::Change { reason: Reason::Full { node, .. }, .. } if *node == id);
        steps.iter().any(of_it)
    };
    let nodes = cluster.nodes.iter().filter(|(place, node)| {
        let may_help = sets_of[*place]
            .iter()
            .any(|index| cluster.sets.get(*index).is_some_and(|set| set.view.bytes > 0));
        node.is_target && may_help && lacking(cluster, node) > 0.0 && !is_relieved(node.id())
    });
    let tell = |view: &NodeView| {
        let free_percent = view.free_bytes.saturating_mul(100) / view.disk_bytes.max(1);
        let reason = Reason::Full { node: view.node, free_percent };
        format!("{reason}: no other node has room for what it holds")
    };
    nodes.map(|(_, node)| tell(node.view)).collect()
}

fn find(nodes: &[NodeView], node: NodeId) -> Result<&NodeView, String> {
    let found = nodes.iter().find(|it| it.node == node);
    let found = found.ok_or_else(|| format!("there is no node {}", node.0))?;
    match found.state {
        NodeState::Removed => Err(format!("node {} was removed", node.0)),
        NodeState::Leaving => Err(format!("node {} is leaving", node.0)),
        NodeState::Joining | NodeState::Up | NodeState::Draining => Ok(found),
    }
}

/// Whether another node can lead and take members.
fn has_other(nodes: &[NodeView], node: NodeId) -> bool {
    nodes.iter().any(|it| it.node != node && it.state == NodeState::Up && it.is_alive)
}

/// Whether a node can be emptied: the others have room for what it holds.
pub fn may_leave(nodes: &[NodeView], sets: &[SetView], node: NodeId) -> Result<(), String> {
    let view = find(nodes, node)?;
    if !view.is_alive {
        return Err(format!(
            "node {} does not answer: a dead node is removed, not emptied",
            node.0
        ));
    }
    if !has_other(nodes, node) {
        return Err(format!("no other node is up: nobody could take what node {} holds", node.0));
    }
    let mut nodes = nodes.to_vec();
    for it in nodes.iter_mut().filter(|it| it.node == node) {
        it.state = NodeState::Leaving;
    }
    let bounds = unbounded(&Bounds::default());
    let mut cluster = Cluster::new(&nodes, sets, &bounds);
    let is_there = |set: &Set<'_>| set.members().any(|place| cluster.nodes[place].id() == node);
    let mut there: Vec<(u64, usize)> = Vec::new();
    for (index, set) in cluster.sets.iter().enumerate().filter(|(_, set)| is_there(set)) {
        there.push((set.view.bytes, index));
    }
    // The largest first, which are the hardest to place.
    there.sort_unstable_by_key(|(bytes, index)| (Reverse(*bytes), *index));
    let mut refused: Vec<String> = Vec::new();
    for (_, index) in there {
        let Some(set) = cluster.sets.get(index) else { continue };
        match plan(&cluster, set) {
            Ok(Some(plan)) => {
                let stays = plan.voters.iter().chain(&plan.learners);
                if stays.into_iter().any(|place| cluster.nodes[*place].id() == node) {
                    refused.push(format!(
                        "no node has room for set {}, {}",
                        set.view.set.0,
                        Size(set.view.bytes)
                    ));
                }
                cluster.change(index, plan, &mut Vec::new());
            }
            Ok(None) => {}
            Err(blocked) => refused.extend(sentence(&cluster, set, &blocked)),
        }
    }
    let others = refused.len().saturating_sub(1);
    match refused.into_iter().next() {
        None => Ok(()),
        Some(first) if others == 0 => Err(first),
        Some(first) => Err(format!("{first}; so it is for {others} other sets")),
    }
}

/// Whether a dead node can be given up: every set goes on without it.
pub fn may_remove(nodes: &[NodeView], sets: &[SetView], node: NodeId) -> Result<(), String> {
    let view = match find(nodes, node) {
        // It died while it was emptied.
        Err(_) if nodes.iter().any(|it| it.node == node && it.state == NodeState::Leaving) => None,
        found => Some(found?),
    };
    let is_alive = |it: &NodeView| it.is_alive && it.state != NodeState::Removed;
    if view.is_some_and(is_alive) || nodes.iter().any(|it| it.node == node && is_alive(it)) {
        return Err(format!("node {} is alive: it is emptied, not removed", node.0));
    }
    goes_on_without(nodes, sets, node, is_alive, |_| false)
}

/// Whether a node can be drained and stopped: every set goes on without it.
pub fn may_drain(nodes: &[NodeView], sets: &[SetView], node: NodeId) -> Result<(), String> {
    let view = find(nodes, node)?;
    if view.state == NodeState::Draining {
        return Err(format!("node {} is draining", node.0));
    }
    if !has_other(nodes, node) {
        return Err(format!("no other node is up: nobody could lead what node {} leads", node.0));
    }
    // Others that drain stop as well.
    let is_alive = |it: &NodeView| {
        it.is_alive && !matches!(it.state, NodeState::Draining | NodeState::Removed)
    };
    // Of two nodes the other one begins to decide, if it has the rows.
    let is_up = |id: &NodeId| {
        nodes
            .iter()
            .any(|it| it.node == *id && *id != node && it.state == NodeState::Up && it.is_alive)
    };
    let stays = |it: &&NodeView| matches!(it.state, NodeState::Up | NodeState::Draining);
    let is_pair = nodes.iter().filter(stays).count() == 2;
    let has_heir = |set: &SetView| {
        is_pair && !set.is_changing && set.voters.iter().chain(&set.learners).any(is_up)
    };
    goes_on_without(nodes, sets, node, is_alive, has_heir)
}

fn goes_on_without(
    nodes: &[NodeView],
    sets: &[SetView],
    node: NodeId,
    is_alive: impl Fn(&NodeView) -> bool,
    has_heir: impl Fn(&SetView) -> bool,
) -> Result<(), String> {
    let mut alive: Vec<NodeId> =
        nodes.iter().filter(|it| it.node != node && is_alive(it)).map(|it| it.node).collect();
    alive.sort_unstable();
    for set in sets.iter().filter(|set| set.voters.contains(&node)) {
        let left = set.voters.iter().filter(|it| alive.binary_search(it).is_ok()).count();
        let needed = quorum(set.voters.len());
        if left < needed && !has_heir(set) {
            return Err(format!(
                "without node {}, set {} has {left} of {} voters and needs {needed}",
                node.0,
                set.set.0,
                set.voters.len()
            ));
        }
    }
    Ok(())
}
