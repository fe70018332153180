//! Which nodes get the members of a set: pure, so that every choice can be told again.
//!
//! A set has four members where there are four nodes (D8), on racks of their own as far as there are enough, on those nodes
//! that have the fewest. Each set prefers another one of its nodes as leader, by its number; of several choices that are
//! equally good the one counts whose preferred leader leads the fewest.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{NodeId, SetId};

use crate::map::PartitionMap;

/// A set has no more members than this, where nobody asked for more.
pub const SET_MEMBERS: usize = 4;
/// So many choices are compared for each set.
const CHOICES_MAX: usize = 8;

/// A node that members can be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    pub node: NodeId,
    /// What fails together with others of the same name.
    pub rack: Arc<str>,
}

/// How many of a set's members decide: all, but of two only the first, because two that must agree are worth less than one.
/// It is the same node for all sets, so that the loss of the other one stops nothing.
pub fn voter_count(members: usize) -> usize {
    if members == 2 { 1 } else { members }
}

/// The member that leads a set if it can: each set prefers another one.
pub fn preferred_leader(set: SetId, members: &[NodeId]) -> Option<NodeId> {
    let mut voters = members.get(..voter_count(members.len()))?.to_vec();
    voters.sort_unstable();
    voters.get(set.0 as usize % voters.len().max(1)).copied()
}

/// What nodes have already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    members: usize,
    leads: usize,
}

impl PartitionMap {
    /// A map in which every set has members: those that have none get theirs.
    pub fn with_all_placed(&self, nodes: &[NodePlace]) -> PartitionMap {
        let sets = || self.spaces().flat_map(|(_, partitions)| partitions.iter());
        if nodes.is_empty() || sets().all(|partition| !self.members(partition.set).is_empty()) {
            return self.clone();
        }
        let mut loads: BTreeMap<NodeId, Load> = BTreeMap::new();
        for set in sets().map(|partition| partition.set) {
            add(&mut loads, set, self.members(set));
        }
        let mut map = self.clone();
        let unplaced: Vec<SetId> = sets()
            .map(|partition| partition.set)
            .filter(|set| self.members(*set).is_empty())
            .collect();
        for set in unplaced {
            let members = choose(set, nodes, &loads);
            add(&mut loads, set, &members);
            map.put_first_members(set, members);
        }
        map.epoch += 1;
        map
    }
}

fn add(loads: &mut BTreeMap<NodeId, Load>, set: SetId, members: &[NodeId]) {
    for node in members {
        loads.entry(*node).or_default().members += 1;
    }
    if let Some(leader) = preferred_leader(set, members) {
        loads.entry(leader).or_default().leads += 1;
    }
}

/// The nodes of a new set; who decides comes first.
fn choose(set: SetId, nodes: &[NodePlace], loads: &BTreeMap<NodeId, Load>) -> Vec<NodeId> {
    let load = |node: NodeId| loads.get(&node).copied().unwrap_or_default();
    let choices = (0..nodes.len().min(CHOICES_MAX)).map(|turn| {
        let members = choose_from(nodes, set.0 as usize + turn, &load);
        let most = members.iter().map(|node| load(*node).members).sum::<usize>();
        let leads = preferred_leader(set, &members).map_or(0, |leader| load(leader).leads);
        (most, leads, turn, members)
    });
    choices.min().map(|(_, _, _, members)| members).unwrap_or_default()
}

/// One after the other: first another rack, then the fewest members, then in turn.
fn choose_from(nodes: &[NodePlace], turn: usize, load: &dyn Fn(NodeId) -> Load) -> Vec<NodeId> {
    let count = nodes.len().min(SET_MEMBERS);
    let mut chosen: Vec<&NodePlace> = Vec::with_capacity(count);
    while chosen.len() < count {
        let left = nodes.iter().enumerate().filter(|(_, it)| !chosen.contains(it));
        let best = left.min_by_key(|(place, it)| {
            let same_rack = shared_racks(&&it.rack, chosen.iter().map(|known| &known.rack));
            let distance = (place + nodes.len() - turn % nodes.len()) % nodes.len();
            (same_rack, load(it.node).members, distance)
        });
        let Some((_, best)) = best else { break };
        chosen.push(best);
    }
    let mut members: Vec<NodeId> = chosen.into_iter().map(|it| it.node).collect();
    members.sort_unstable();
    members
}

/// How many of others share a rack: the fewer, the less fails together.
pub(crate) fn shared_racks<R: PartialEq>(rack: &R, others: impl Iterator<Item = R>) -> usize {
    others.filter(|other| other == rack).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Space;

    fn nodes(count: u64, racks: u64) -> Vec<NodePlace> {
        let place = |node| NodePlace {
            node: NodeId(node),
            rack: Arc::from(format!("r{}", node % racks.max(1))),
        };
        (1..=count).map(place).collect()
    }

    fn placed(sets: u32, nodes: &[NodePlace]) -> (PartitionMap, BTreeMap<NodeId, Load>) {
        let space = Space::Keyspace("k".into());
        let map = PartitionMap::default().with_space(space.clone(), sets, 0).with_all_placed(nodes);
        let mut loads = BTreeMap::new();
        for partition in map.partitions(&space) {
            add(&mut loads, partition.set, map.members(partition.set));
        }
        (map, loads)
    }

    #[test]
    fn a_set_has_as_many_members_as_there_are_nodes_up_to_four() {
        for (count, members, voters) in [(1, 1, 1), (2, 2, 1), (3, 3, 3), (4, 4, 4), (9, 4, 4)] {
            let (map, _) = placed(7, &nodes(count, 1));
            for (_, partitions) in map.spaces() {
                for partition in partitions {
                    let found = map.members(partition.set);
                    assert_eq!((found.len(), voter_count(found.len())), (members, voters));
                    assert_eq!(map.first_members(partition.set), Some(found));
                }
            }
        }
    }

    #[test]
    fn members_and_leaders_are_spread_evenly() {
        for count in 1..=16 {
            for sets in [1, 5, 16, 64, 100] {
                let (_, loads) = placed(sets, &nodes(count, 1));
                let least = |of: fn(&Load) -> usize| {
                    let all = (1..=count).map(|node| loads.get(&NodeId(node)).map_or(0, of));
                    (all.clone().min().unwrap(), all.max().unwrap())
                };
                let (fewest, most) = least(|load| load.members);
                assert!(most - fewest <= 1, "{sets} sets on {count} nodes: {fewest} to {most}");
                let (fewest, most) = least(|load| load.leads);
                // Of two nodes the first decides everything. What is left, `decide` makes even.
                assert!(
                    count == 2 || most - fewest <= 6,
                    "{sets} sets on {count} nodes: {fewest} to {most} led"
                );
            }
        }
    }

    #[test]
    fn racks_are_kept_apart_where_there_are_enough() {
        let nodes = nodes(12, 4);
        let rack = |node: &NodeId| nodes.iter().find(|it| it.node == *node).unwrap().rack.clone();
        let (map, _) = placed(60, &nodes);
        for set in (0..60).map(SetId) {
            let mut racks: Vec<_> = map.members(set).iter().map(rack).collect();
            racks.sort_unstable();
            racks.dedup();
            assert_eq!(racks.len(), 4, "set {}", set.0);
        }
    }

    /// What is placed stays where it is; a node that runs alone places nothing.
    #[test]
    fn only_what_has_no_members_gets_some() {
        let (map, _) = placed(8, &nodes(4, 1));
        let more = map.with_space(Space::Keyspace("later".into()), 8, 0);
        let more = more.with_all_placed(&nodes(8, 1));
        for set in (0..8).map(SetId) {
            assert_eq!(more.members(set), map.members(set));
        }
        let on_new = (8..16).filter(|set| more.members(SetId(*set)).contains(&NodeId(8))).count();
        assert!(on_new >= 6, "the new nodes have the fewest: {on_new}");
        assert_eq!(map.with_all_placed(&nodes(8, 1)).epoch(), map.epoch());
        let alone = PartitionMap::default().with_space(Space::Keyspace("k".into()), 3, 0);
        assert!(alone.with_all_placed(&[]).members(SetId(0)).is_empty());
    }
}
