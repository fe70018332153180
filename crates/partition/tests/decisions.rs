//! What is decided in the situations that matter, as text.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]

use partition::{
    Action, BalanceLimits, Halving, PartitionMap, PhysicalLoad, Space, SpaceLoad, decide, halve,
    middle,
};
use types::{RingRange, RingToken};

const GB: u64 = 1_000_000_000;
const HOUR_MS: i64 = 3_600_000;

/// A space and what is going on in it.
struct World {
    map: PartitionMap,
    space: Space,
    limits: BalanceLimits,
    provisioned: Option<u32>,
    count_min: usize,
    now_ms: i64,
}

impl World {
    fn new(count: u32) -> World {
        let space = Space::Keyspace("ks".into());
        let map = PartitionMap::default().with_space(space.clone(), count, 0);
        let limits = BalanceLimits::default();
        World { map, space, limits, provisioned: None, count_min: 2, now_ms: 10 * HOUR_MS }
    }

    /// Loads with so many GB and RU/s, spread evenly over each range.
    fn loads(&self, numbers: &[(u64, f64)]) -> SpaceLoad {
        let partitions = self.map.partitions(&self.space);
        assert_eq!(partitions.len(), numbers.len());
        SpaceLoad {
            space: self.space.clone(),
            provisioned_ru_s: self.provisioned,
            partition_count_min: self.count_min,
            partitions: partitions
                .iter()
                .zip(numbers)
                .map(|(partition, (gigabytes, ru_s))| {
                    let even = middle(partition.range).map(|at| Halving { at, larger_share: 0.5 });
                    PhysicalLoad {
                        set: partition.set,
                        bytes: gigabytes * GB,
                        ru_s: *ru_s,
                        peak_ru_s: *ru_s,
                        bytes_halved: even,
                        heat_halved: even,
                    }
                })
                .collect(),
        }
    }

    fn decide(&self, loads: SpaceLoad) -> Vec<String> {
        decide(&self.map, &[loads], &self.limits, self.now_ms).iter().map(told).collect()
    }

    fn check(&self, numbers: &[(u64, f64)], expected: &[&str]) {
        assert_eq!(self.decide(self.loads(numbers)), expected);
    }
}

fn told(action: &Action) -> String {
    match action {
        Action::Split { set, at, reason, .. } => {
            format!("split {} at {} for {}", set.0, at.token().0, reason.word())
        }
        Action::Merge { set, .. } => format!("merge {} and the next", set.0),
    }
}

#[test]
fn uniform_growth() {
    let world = World::new(2);
    world.check(&[(25, 100.0), (25, 100.0)], &[]);
    world.check(&[(26, 100.0), (25, 100.0)], &["split 0 at -4611686018427387904 for storage"]);
    world.check(
        &[(29, 100.0), (29, 100.0)],
        &[
            "split 0 at -4611686018427387904 for storage",
            "split 1 at 4611686018427387904 for storage",
        ],
    );
}

#[test]
fn one_hot_key_is_not_helped_by_a_split() {
    let world = World::new(2);
    let mut loads = world.loads(&[(1, 9_000.0), (1, 10.0)]);
    assert_eq!(
        world.decide(loads.clone()),
        ["split 0 at -4611686018427387904 for heat"],
        "many hot keys are"
    );
    loads.partitions[0].heat_halved.as_mut().unwrap().larger_share = 0.99;
    assert_eq!(world.decide(loads), [] as [&str; 0]);
}

#[test]
fn heat_needs_idle_neighbours_and_some_traffic() {
    let world = World::new(2);
    world.check(&[(1, 9_000.0), (1, 8_000.0)], &[]);
    world.check(&[(1, 900.0), (1, 1.0)], &[]);
    let mut young = World::new(2);
    young.now_ms = 30_000;
    young.check(&[(1, 9_000.0), (1, 10.0)], &[]);
}

#[test]
fn one_giant_logical_partition_is_left_alone() {
    let world = World::new(2);
    let mut loads = world.loads(&[(30, 1.0), (1, 1.0)]);
    loads.partitions[0].bytes_halved.as_mut().unwrap().larger_share = 0.97;
    assert_eq!(world.decide(loads), [] as [&str; 0]);
}

#[test]
fn throughput_raised_a_hundredfold() {
    let mut world = World::new(1);
    world.provisioned = Some(1_000_000);
    let mut rounds = Vec::new();
    loop {
        let count = world.map.partitions(&world.space).len();
        let loads = world.loads(&vec![(0, 0.0); count]);
        let actions = decide(&world.map, &[loads], &world.limits, world.now_ms);
        if actions.is_empty() {
            break;
        }
        rounds.push(actions.len());
        for action in actions {
            let Action::Split { space, set, at, reason } = action else { panic!("a merge") };
            let origin = partition::Origin { made_at_ms: world.now_ms, reason };
            world.map = world.map.with_split(&space, set, at, origin).unwrap();
        }
    }
    assert_eq!(rounds, [1, 2, 4, 8, 16, 32, 36]);
    let widths: Vec<u128> = world
        .map
        .partitions(&world.space)
        .iter()
        .map(|it| (it.range.last.0 - it.range.start.0) >> 120)
        .collect();
    assert_eq!((widths.iter().min(), widths.iter().max()), (Some(&1), Some(&3)), "1/128 and 1/64");
}

#[test]
fn a_table_that_was_emptied_is_merged_slowly() {
    let world = World::new(4);
    let empty = [(0, 0.0); 4];
    world.check(&empty, &["merge 0 and the next"]);
    let mut young = World::new(4);
    young.now_ms = HOUR_MS;
    young.check(&empty, &[]);
    let mut cosmos = World::new(4);
    cosmos.limits.merges = false;
    cosmos.check(&empty, &[]);
    let mut needed = World::new(4);
    needed.provisioned = Some(40_000);
    needed.check(&empty, &[]);
    World::new(2).check(&[(0, 0.0); 2], &[]);
    // Cold now, but not an hour ago.
    let mut loads = world.loads(&empty);
    loads.partitions.iter_mut().for_each(|load| load.peak_ru_s = 2_000.0);
    assert_eq!(world.decide(loads), [] as [&str; 0]);
}

/// Up for half an hour, down for half an hour, for a day: after the first hours the map stays.
#[test]
fn load_that_goes_up_and_down_does_not_make_the_map_swing() {
    let mut world = World::new(2);
    world.now_ms = HOUR_MS;
    let mut changed_at = Vec::new();
    let mut peaks: std::collections::BTreeMap<u32, f64> = Default::default();
    // All the traffic is in the first quarter of the ring.
    let busy = RingRange { start: RingToken(0), last: RingToken(u128::MAX / 4) };
    for minute in 0..24 * 60 {
        world.now_ms += 60_000;
        let is_up = minute / 30 % 2 == 0;
        let width = |range: RingRange| (range.last.0 - range.start.0) as f64;
        let ru_s = |range: RingRange| {
            let share = busy.intersect(&range).map_or(0.0, |part| width(part) / width(busy));
            if is_up { 5.0 + 12_000.0 * share } else { 5.0 }
        };
        let partitions = world.map.partitions(&world.space);
        let numbers: Vec<_> = partitions.iter().map(|it| (1, ru_s(it.range))).collect();
        let mut loads = world.loads(&numbers);
        for load in &mut loads.partitions {
            let peak = peaks.entry(load.set.0).or_default();
            *peak = peak.max(load.ru_s);
            load.peak_ru_s = *peak;
        }
        for action in decide(&world.map, &[loads], &world.limits, world.now_ms) {
            changed_at.push(minute);
            let map = &world.map;
            let origin = |reason| partition::Origin { made_at_ms: world.now_ms, reason };
            world.map = match action {
                Action::Split { space, set, at, reason } => {
                    map.with_split(&space, set, at, origin(reason)).unwrap()
                }
                Action::Merge { space, set } => {
                    map.with_merge(&space, set, origin(partition::Reason::Cold)).unwrap()
                }
            };
        }
    }
    assert!(changed_at.len() <= 5, "{changed_at:?}");
    assert!(changed_at.iter().all(|minute| *minute <= 5 * 60), "{changed_at:?}");
}

/// Split for heat, then a little cooler: together the halves would be split again.
#[test]
fn what_was_split_for_heat_is_not_merged_while_it_is_warm() {
    let world = World::new(4);
    world.check(&[(1, 1_050.0), (1, 1_050.0), (1, 5.0), (1, 5.0)], &["merge 2 and the next"]);
    let cool = [(1, 450.0), (1, 450.0), (2, 5.0), (2, 5.0)];
    world.check(&cool, &["merge 0 and the next"]);
    // Where all are as busy, none is hot.
    world.check(&[(1, 600.0); 4], &["merge 0 and the next"]);
}

#[test]
fn thousands_of_tables_are_quiet_and_quick() {
    let mut map = PartitionMap::default();
    let spaces: Vec<Space> = (0..3_000)
        .map(|number| Space::Table { keyspace: "ks".into(), table: format!("t{number}").into() })
        .collect();
    let origin = partition::Origin { made_at_ms: 0, reason: partition::Reason::Created };
    for space in &spaces {
        map = map.with_space(space.clone(), 1, origin.made_at_ms);
    }
    let loads: Vec<SpaceLoad> = spaces
        .iter()
        .enumerate()
        .map(|(number, space)| SpaceLoad {
            space: space.clone(),
            provisioned_ru_s: Some(400),
            partition_count_min: 1,
            partitions: map
                .partitions(space)
                .iter()
                .map(|partition| PhysicalLoad {
                    set: partition.set,
                    bytes: if number == 77 { 29 * GB } else { GB / 1000 },
                    ru_s: 1.0,
                    peak_ru_s: 1.0,
                    bytes_halved: middle(partition.range)
                        .map(|at| Halving { at, larger_share: 0.5 }),
                    heat_halved: None,
                })
                .collect(),
        })
        .collect();
    let actions = decide(&map, &loads, &BalanceLimits::default(), HOUR_MS * 9);
    assert_eq!(actions.iter().map(told).collect::<Vec<_>>(), ["split 77 at 0 for storage"]);
}

#[test]
fn the_best_place_halves_and_lies_inside() {
    let range = RingRange { start: RingToken(0), last: RingToken(99) };
    let parts = |weights: &[u64]| -> Vec<(RingToken, u64)> {
        weights.iter().enumerate().map(|(n, w)| (RingToken(n as u128 * 10), *w)).collect()
    };
    let even = halve(range, &parts(&[1; 10])).unwrap();
    assert_eq!((even.at, even.larger_share), (RingToken(50), 0.5));
    let giant = halve(range, &parts(&[1, 1, 100, 1])).unwrap();
    assert!(giant.larger_share > 0.9 && [20, 30].contains(&giant.at.0), "{giant:?}");
    assert_eq!(halve(range, &parts(&[0, 0])), None);
    assert_eq!(halve(range, &parts(&[5])), None, "one part cannot be cut");
}
