//! Every state that the model can come to, and the proof that it would notice: each rule is broken once.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test that tells how much it tried, and the stories that it found"
)]

use model::{Bounds, PROPERTIES, Rule, Step, World};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// Checks on so many threads.
const THREADS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Set {
    bounds: Bounds,
    broken: Option<Rule>,
}

impl Model for Set {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::first(&self.bounds)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(world.steps(&self.bounds, self.broken));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        world.after(step, self.broken)
    }

    fn properties(&self) -> Vec<Property<Set>> {
        macro_rules! of {
            ($($at:literal),*) => {
                vec![$(Property::always(PROPERTIES[$at].0, |set: &Set, world: &World| {
                    (PROPERTIES[$at].1)(world, set.broken)
                })),*]
            };
        }
        of!(0, 1, 2, 3, 4, 5)
    }
}

const NOTHING: Bounds = Bounds {
    terms: [1, 0],
    writes: [0, 0],
    moves: false,
    splits: false,
    restarts: 0,
    images: false,
};
/// Everything at once, a little of each.
const ALL: Bounds =
    Bounds { terms: [2, 1], writes: [0, 1], moves: true, splits: true, restarts: 0, images: true };
/// A member moves, and leaders change.
const MOVE: Bounds = Bounds { terms: [2, 0], writes: [1, 0], moves: true, ..NOTHING };
/// A set is split, and leaders of both halves change.
const SPLIT: Bounds =
    Bounds { terms: [2, 2], writes: [0, 1], splits: true, images: true, ..NOTHING };

/// Whether somebody asked for more than a minute can hold (`cargo xtask proof model`).
fn is_large() -> bool {
    std::env::var_os("HELENUS_MODEL").is_some_and(|size| size == "large")
}

/// Tries everything within the bounds; every property must hold.
fn prove(name: &str, small: Bounds, large: Bounds) {
    let bounds = if is_large() { large } else { small };
    let begun = std::time::Instant::now();
    let checked = Set { bounds, broken: None }.checker().threads(THREADS).spawn_bfs().join();
    let (states, depth) = (checked.unique_state_count(), checked.max_depth());
    println!("{name}: {states} states, {depth} steps deep, {:?}; {bounds:?}", begun.elapsed());
    checked.assert_properties();
    assert!(states > 1_000, "too little happens to prove anything: {states} states");
}

/// Tries until a property does not hold.
fn refute(rule: Rule, bounds: Bounds, expected: &[usize]) {
    let set = Set { bounds, broken: Some(rule) };
    let checked =
        set.checker().threads(THREADS).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found = checked.discoveries();
    assert!(!found.is_empty(), "{rule:?}: none of {} states", checked.unique_state_count());
    for (property, path) in found {
        println!("{rule:?}: not so that {property}:");
        let steps = path.into_actions();
        steps.iter().for_each(|step| println!("    {step:?}"));
        assert!(expected.iter().any(|at| PROPERTIES[*at].0 == property), "{rule:?}: {property}");
    }
}

#[test]
fn a_member_moves_and_nothing_is_lost() {
    prove("move", Bounds { writes: [0, 0], ..MOVE }, Bounds { restarts: 1, ..MOVE });
}

#[test]
fn a_set_is_split_and_nothing_is_lost() {
    prove("split", Bounds { terms: [1, 2], ..SPLIT }, SPLIT);
}

#[test]
fn a_member_moves_while_its_set_is_split_and_nothing_is_lost() {
    let large = Bounds { terms: [1, 1], images: false, ..ALL };
    prove("all", Bounds { writes: [0, 0], ..large }, large);
}

/// A leader, and what comes after it, without moves and splits.
const LEADERS: Bounds = Bounds { terms: [4, 0], writes: [1, 0], ..NOTHING };

#[test]
fn leaders_change_and_nothing_is_lost() {
    prove("leaders", LEADERS, Bounds { writes: [2, 0], ..LEADERS });
}

#[test]
fn every_broken_rule_of_moves_is_found() {
    refute(Rule::OwnTermCommits, LEADERS, &[0, 1, 2]);
    refute(Rule::BothHalvesDecide, MOVE, &[0, 1, 2]);
    refute(Rule::LearnersDoNotCount, MOVE, &[0, 1, 2]);
    refute(Rule::JointFirst, MOVE, &[0, 1, 2]);
    refute(Rule::OneChangeAtATime, MOVE, &[0, 1, 2]);
    refute(Rule::EveryLeaderLeavesJoint, MOVE, &[5]);
}

#[test]
fn every_broken_rule_of_splits_is_found() {
    refute(Rule::NoSplitInJoint, ALL, &[3]);
    refute(Rule::BornWhenCommitted, SPLIT, &[1, 4]);
    refute(Rule::NothingBehindSplit, SPLIT, &[2]);
    refute(Rule::HeldBeforeSplit, SPLIT, &[0, 1, 2]);
    refute(Rule::RightByImageToo, SPLIT, &[1, 2]);
}

/// Where a node that restarts may forget that the change before was committed, it asks the members of before.
#[test]
fn a_change_that_is_on_disk_without_the_commit_before_it_is_found() {
    refute(Rule::CommitIsKeptWithChanges, Bounds { writes: [0, 0], restarts: 1, ..MOVE }, &[0, 1]);
}
