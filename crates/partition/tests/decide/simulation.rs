//! 100 nodes, 10,000 partitions and 100 TB, through what clusters go through.

use std::time::{Duration, Instant};

use partition::decide::{Bounds, NodeState, waiting};
use types::NodeId;

use crate::world::{GB, World};

const NODES: u64 = 100;
const SETS: u64 = 10_000;
const RACKS: u64 = 10;
const TB: u64 = 1000 * GB;

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        // Vigna's splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

/// Sets of 1 to 19 GB and up to 400 RU/s, 100 TB in all, four times on nodes with disks of `disk` bytes.
fn large(disk: impl Fn(u64) -> u64) -> World {
    let mut world = World::new(0, 1);
    for node in 1..=NODES {
        world.join(node, &format!("r{:02}", node % RACKS), disk(node));
    }
    let mut numbers = Numbers(1);
    for set in 0..SETS {
        // Each in the next column of four racks, so that it is even in members.
        let first = set * 4 + set / 25;
        let voters: Vec<u64> = (0..4).map(|at| (first + at) % NODES + 1).collect();
        let bytes = (1 + numbers.next(19)) * GB;
        world.set(&voters, bytes, numbers.next(400));
    }
    world.bounds = Bounds {
        changes_max: 200,
        changes_per_node_max: 8,
        leads_at_once_max: 100,
        ..Bounds::default()
    };
    world.change_rounds = 2;
    world
}

/// Settles, and tells what it took.
fn settle(world: &mut World, what: &str) -> usize {
    (world.moves, world.leads) = (0, 0);
    let (mut longest, mut sum, mut rounds) = (Duration::ZERO, Duration::ZERO, 0_u32);
    loop {
        let begun = Instant::now();
        let steps = world.decide();
        let took = begun.elapsed();
        (longest, sum, rounds) = (longest.max(took), sum + took, rounds + 1);
        if steps.is_empty() && world.sets.iter().all(|set| !set.is_changing) {
            break;
        }
        world.apply(&steps);
        assert!(rounds < 5000, "{what}: not settled, next {:?}", steps.first());
    }
    println!(
        "{what}: {} members moved, {} leaders, {rounds} rounds, decided in {:.1} ms ({:.1} at most), {}",
        world.moves,
        world.leads,
        sum.as_secs_f64() * 1000.0 / f64::from(rounds),
        longest.as_secs_f64() * 1000.0,
        spread(world),
    );
    world.moves
}

/// The most of each amount by the least, for nodes that are up, by their disks; leaders as they are.
fn ratios(world: &World) -> [f64; 4] {
    let loads = world.loads();
    let up = world.nodes.iter().filter(|it| it.state == NodeState::Up && it.is_alive);
    let mut found = [(f64::MAX, 0.0_f64); 4];
    for node in up {
        let load = loads[&node.node];
        for (at, (least, most)) in found.iter_mut().enumerate() {
            let by = if at == 3 { 1.0 } else { node.disk_bytes as f64 / TB as f64 };
            let value = load[at] as f64 / by;
            (*least, *most) = (least.min(value), most.max(value));
        }
    }
    found.map(|(least, most)| most / least.max(f64::MIN_POSITIVE))
}

fn spread(world: &World) -> String {
    let [members, bytes, ru_s, leads] = ratios(world);
    format!("most/least: members {members:.3}, bytes {bytes:.3}, RU/s {ru_s:.3}, leads {leads:.3}")
}

#[track_caller]
fn assert_even(world: &World, wanted: [f64; 4]) {
    let found = ratios(world);
    for (found, wanted) in found.into_iter().zip(wanted) {
        assert!(found <= wanted, "{}", spread(world));
    }
    for set in &world.sets {
        assert_eq!((set.voters.len(), set.learners.len()), (4, 0), "set {}", set.set.0);
    }
    assert_eq!(world.shared_racks(), 0);
    let none: Vec<String> = Vec::new();
    assert_eq!(waiting(&world.nodes, &world.sets, &world.bounds), none);
}

/// Members on nodes.
fn members(world: &World, nodes: impl Iterator<Item = u64>) -> usize {
    let loads = world.loads();
    nodes.map(|node| loads[&NodeId(node)][0] as usize).sum()
}

/// Members on a node that is as large as the others, once all is even.
fn fair_share(world: &World) -> usize {
    let up = world.nodes.iter().filter(|it| it.state == NodeState::Up && it.is_alive).count();
    (world.sets.len() * 4).div_ceil(up)
}

#[test]
fn ten_nodes_join_five_leave_and_a_rack_is_lost() {
    let mut world = large(|_| 8 * TB);
    // What differs by chance in bytes.
    let moves = settle(&mut world, "begin");
    assert!(moves <= 40, "{moves}");
    assert_eq!(settle(&mut world, "once more"), 0);
    for node in 101..=110 {
        world.join(node, &format!("r{:02}", node % RACKS), 8 * TB);
    }
    let moves = settle(&mut world, "10 nodes join");
    let share = 10 * fair_share(&world);
    assert!(moves <= share, "{moves} moves for {share} members");
    assert_even(&world, [1.06, 1.12, 1.3, 1.3]);

    let lost = members(&world, 1..=5);
    for node in 1..=5 {
        world.state(node, NodeState::Leaving);
    }
    let moves = settle(&mut world, "5 nodes leave");
    assert!(moves <= lost + lost / 100, "{moves} moves for {lost} members");
    assert_eq!(members(&world, 1..=5), 0);
    assert_even(&world, [1.06, 1.12, 1.3, 1.3]);

    let rack: Vec<u64> = (6..=105).filter(|it| it % RACKS == 7).collect();
    let lost = members(&world, rack.iter().copied());
    for node in &rack {
        world.silent(*node, 12);
    }
    world.elect();
    let moves = settle(&mut world, "a rack of 10 is lost");
    assert!(moves <= lost + lost / 100, "{moves} moves for {lost} members");
    assert_eq!(members(&world, rack.into_iter()), 0);
    assert_even(&world, [1.06, 1.12, 1.3, 1.3]);
}

#[test]
fn nodes_of_unequal_size_fill_alike() {
    let disk = |node: u64| if node.is_multiple_of(4) { 16 * TB } else { 6 * TB };
    let mut world = large(disk);
    let all: u64 = (1..=NODES).map(disk).sum();
    // What large nodes should have more.
    let missing = |node: u64| 4.0 * SETS as f64 * disk(node) as f64 / all as f64 - 400.0;
    let needed = (1..=NODES).map(|node| missing(node).max(0.0)).sum::<f64>() as usize;
    let moves = settle(&mut world, "unequal nodes");
    assert!(moves <= needed + needed / 100, "{moves} moves for {needed} members");
    assert_even(&world, [1.06, 1.12, 1.3, 1.3]);
}

#[test]
fn hot_partitions_are_spread() {
    let mut world = large(|_| 8 * TB);
    settle(&mut world, "begin");
    // All with a member on one of four nodes.
    let hot: Vec<usize> = (0..world.sets.len())
        .filter(|set| world.sets[*set].voters.iter().any(|node| node.0 <= 4))
        .step_by(30)
        .take(20)
        .collect();
    assert_eq!(hot.len(), 20);
    for set in hot {
        world.sets[set].ru_s = 20_000;
    }
    let before = ratios(&world);
    let moves = settle(&mut world, "20 partitions are hot");
    assert!(before[2] > 1.5, "{before:?}");
    assert!(moves <= 300, "{moves}");
    assert_even(&world, [1.08, 1.12, 1.3, 1.5]);
}
