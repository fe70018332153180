//! What holds for every cluster: steps keep the rules, and come to an end.

use std::collections::BTreeMap;
use std::sync::Arc;

use partition::decide::{Bounds, NodeState, decide, is_settled, may_leave, waiting};
use partition::{NodePlace, PartitionMap, Space};
use proptest::prelude::*;
use types::NodeId;

use crate::world::{GB, World};

/// How a node is: its rack, its state, how long it has been silent, its disk in GB.
type NodeDraw = (u8, u8, u8, u64);
/// What a set is: where its members are, how many only follow, its size, its traffic.
type SetDraw = (Vec<u8>, u8, u64, u64);

fn state(drawn: u8) -> NodeState {
    match drawn {
        0 => NodeState::Joining,
        1 => NodeState::Draining,
        2 => NodeState::Leaving,
        3 => NodeState::Removed,
        _ => NodeState::Up,
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let node = (0_u8..4, 0_u8..14, 0_u8..12, prop_oneof![Just(1000_u64), 100_u64..3000]);
    let set = (
        prop::collection::vec(any::<u8>(), 1..=5),
        0_u8..8,
        prop_oneof![Just(10_u64), 0_u64..60],
        prop_oneof![Just(100_u64), 0_u64..9000],
    );
    let nodes = prop::collection::vec(node, 1..=9);
    let sets = prop::collection::vec(set, 0..=30);
    (nodes, sets, 1_usize..12, 1_usize..4, 0_usize..3).prop_map(
        |(nodes, sets, changes, per_node, rounds)| world(&nodes, &sets, changes, per_node, rounds),
    )
}

fn world(
    nodes: &[NodeDraw],
    sets: &[SetDraw],
    changes_max: usize,
    changes_per_node_max: usize,
    change_rounds: usize,
) -> World {
    let mut world = World::new(0, 1);
    for (node, (rack, drawn, silent, disk_gb)) in (1..).zip(nodes) {
        world.join(node, &format!("r{rack}"), disk_gb * GB);
        world.state(node, state(*drawn));
        match silent {
            0 => world.silent(node, 5),
            1 => world.silent(node, 15),
            _ => {}
        }
    }
    for (places, learners, size_gb, ru_s) in sets {
        let mut members: Vec<u64> = Vec::new();
        for place in places {
            let node = u64::from(*place) % nodes.len() as u64 + 1;
            if !members.contains(&node)
                && members.len() < 4
                && world.node(node).free_bytes > size_gb * GB
            {
                members.push(node);
            }
        }
        if members.is_empty() {
            continue;
        }
        let set = world.set(&members, size_gb * GB, *ru_s);
        // Some have followers.
        while *learners < 3 && set.voters.len() > 3 - usize::from(*learners) {
            let node = set.voters.pop().unwrap();
            set.learners.push(node);
        }
    }
    world.bounds = Bounds { changes_max, changes_per_node_max, ..Bounds::default() };
    world.change_rounds = change_rounds;
    world.elect();
    world
}

/// Every set has what it should have, or it is told why not.
fn check_settled(world: &World) {
    assert!(is_settled(&world.nodes, &world.sets, &world.bounds));
    let told = waiting(&world.nodes, &world.sets, &world.bounds);
    let stays =
        |it: &&partition::decide::NodeView| matches!(it.state, NodeState::Up | NodeState::Draining);
    let count = world.nodes.iter().filter(stays).count();
    if count == 0 {
        return;
    }
    for set in &world.sets {
        let members = set.voters.len() + set.learners.len();
        let wanted = count.min(4);
        let is_good = |node: &NodeId| {
            let view = world.nodes.iter().find(|it| it.node == *node).unwrap();
            !matches!(view.state, NodeState::Leaving | NodeState::Removed)
                && (view.is_alive || view.silent_ms < world.bounds.heal_after_ms)
        };
        let is_whole = members == wanted && set.voters.iter().chain(&set.learners).all(is_good);
        let name = format!("set {} ", set.set.0);
        let is_told = told.iter().any(|it| it.contains(&name) || it.starts_with("and "));
        assert!(is_whole || is_told, "{set:?} of {wanted}, {told:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The world checks every step: room, quorum, one member a node, none for what is changing, none too early.
    #[test]
    fn steps_keep_the_rules_and_come_to_an_end(mut world in worlds()) {
        world.settle(2000);
        check_settled(&world);
    }

    /// The order in which nodes and sets are told means nothing.
    #[test]
    fn the_same_cluster_gets_the_same_steps(world in worlds(), turn in 0_usize..9) {
        let (mut nodes, mut sets) = (world.nodes.clone(), world.sets.clone());
        let turned = turn % nodes.len();
        nodes.rotate_left(turned);
        sets.reverse();
        prop_assert_eq!(decide(&nodes, &sets, &world.bounds), world.decide());
    }

    /// A node that joins gets its share, from those that have too much, and nothing else moves.
    #[test]
    fn a_join_moves_one_share(count in 4_u64..12, sets in 1_usize..80, racks in 1_u64..6) {
        let mut world = World::new(count, racks);
        for set in 0..sets as u64 {
            let voters: Vec<u64> = (0..4).map(|at| (set * 4 + at) % count + 1).collect();
            world.set(&voters, 4 * GB, 50);
        }
        world.settle(2000);
        world.moves = 0;
        world.join(count + 1, &format!("r{}", count % racks + 1), 1000 * GB);
        world.settle(2000);
        let share = (sets * 4).div_ceil(usize::try_from(count).unwrap() + 1);
        let has = usize::try_from(world.members(count + 1)).unwrap();
        prop_assert!(has <= share);
        // Where racks forbid the straight way, others may move.
        if racks == 1 {
            prop_assert_eq!(world.moves, has);
        }
        let more = if racks == 1 { 0 } else { 2 + share / 2 };
        prop_assert!(world.moves <= share + more, "{} moves for {share}", world.moves);
    }

    /// What was just placed lies well.
    #[test]
    fn nothing_moves_after_the_first_placement(count in 1_u64..20, sets in 1_u32..60, racks in 1_u64..8) {
        let world = World::new(count, racks);
        let places: Vec<NodePlace> =
            world.nodes.iter().map(|it| NodePlace { node: it.node, rack: Arc::clone(&it.rack) }).collect();
        let space = Space::Keyspace("k".into());
        let map = PartitionMap::default().with_space(space.clone(), sets, 0).with_all_placed(&places);
        let mut world = world;
        for partition in map.partitions(&space) {
            let members: Vec<u64> = map.members(partition.set).iter().map(|it| it.0).collect();
            let set = world.set(&members, GB / 10, 10);
            if members.len() == 2 {
                set.learners = set.voters.split_off(1);
            }
        }
        // One after the other, and racks apart: the last may find nothing even.
        let is_simple = racks == 1 || racks >= count;
        world.settle(100);
        prop_assert!(world.moves <= if is_simple { 0 } else { 3 }, "{} moves", world.moves);
    }

    /// What may leave gets empty.
    #[test]
    fn who_may_leave_gets_empty(world in worlds(), node in 1_u64..10) {
        let mut world = world;
        let is_allowed = may_leave(&world.nodes, &world.sets, NodeId(node)).is_ok();
        // With others that leave or die, room is for whoever comes first.
        let is_calm = world.nodes.iter().all(|it| it.state == NodeState::Up && it.is_alive);
        if is_allowed && is_calm {
            world.settle(2000);
            prop_assume!(may_leave(&world.nodes, &world.sets, NodeId(node)).is_ok());
            world.state(node, NodeState::Leaving);
            world.settle(2000);
            prop_assert_eq!(world.members(node), 0);
        }
    }
}

/// Leaders are spread as far as members allow.
#[test]
fn leaders_are_even_on_nodes_that_have_everything() {
    for count in 3..=4 {
        for sets in 1..40 {
            let mut world = World::new(count, 1);
            let voters: Vec<u64> = (1..=count).collect();
            for _ in 0..sets {
                world.set(&voters, GB, 10);
            }
            world.settle(100);
            let leads: BTreeMap<NodeId, u64> =
                world.loads().into_iter().map(|(node, load)| (node, load[3])).collect();
            let (least, most) = (leads.values().min().unwrap(), leads.values().max().unwrap());
            assert!(most - least <= 1, "{leads:?}");
        }
    }
}
