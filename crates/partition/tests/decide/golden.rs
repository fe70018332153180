//! Small clusters, and exactly what is decided for them.

use partition::decide::{
    NodeState, Slowness, is_settled, may_drain, may_leave, may_remove, waiting,
};
use types::NodeId;

use crate::world::{GB, World};

#[track_caller]
fn check(found: &str, wanted: &str) {
    let wanted: Vec<&str> = wanted.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, wanted, "found:\n{}", found.join("\n"));
}

/// What cannot be done.
fn waits(world: &World) -> String {
    waiting(&world.nodes, &world.sets, &world.bounds).join("\n")
}

#[track_caller]
fn check_settled(world: &World) {
    check(&world.told(), "");
    assert!(is_settled(&world.nodes, &world.sets, &world.bounds));
}

/// Five sets of 10 GB on all of four nodes, each on a rack of its own.
fn four() -> World {
    let mut world = World::new(4, 4);
    for set in 0..5 {
        let leader = set % 4 + 1;
        let mut voters: Vec<u64> = (1..=4).collect();
        voters.rotate_left(usize::try_from(leader).unwrap() - 1);
        world.set(&voters, 10 * GB, 100);
    }
    world
}

fn five() -> World {
    let mut world = four();
    world.join(5, "r5", 1000 * GB);
    world.settle(10);
    world
}

#[test]
fn nothing_is_done_where_all_is_well() {
    check_settled(&four());
    check_settled(&five());
    check(&waits(&five()), "");
    check_settled(&World::new(3, 1));
    check_settled(&World::new(0, 1));
}

#[test]
fn a_fifth_node_gets_its_share() {
    let mut world = four();
    world.join(5, "r5", 1000 * GB);
    world.state(5, NodeState::Joining);
    check(&world.told(), "");
    world.state(5, NodeState::Up);
    check(
        &world.round(),
        "
        set 2 on 2 3 4 5: node 5 has 5 members fewer than node 1
        set 1 on 1 3 4 5: node 5 has 4 members fewer than node 2
        ",
    );
    check(
        &world.round(),
        "
        set 3 on 1 2 3 5: node 5 has 3 members fewer than node 4
        set 1 led by 5: node 5 leads 2 sets fewer than node 1
        ",
    );
    check(&world.round(), "set 4 on 1 2 4 5: node 5 holds 20 GiB less than node 3");
    check_settled(&world);
    assert_eq!(world.moves, 4);
}

#[test]
fn one_node_becomes_four_and_one_again() {
    let mut world = World::new(1, 1);
    for _ in 0..3 {
        world.set(&[1], GB, 0);
    }
    check_settled(&world);
    // Node 1 leads everything, and sends rows for two at a time.
    world.join(2, "r1", 1000 * GB);
    check(
        &world.round(),
        "
        set 1 on 1, then 2: set 1 has 1 of 2 members
        set 2 on 1, then 2: set 2 has 1 of 2 members
        ",
    );
    check(&world.round(), "set 3 on 1, then 2: set 3 has 1 of 2 members");
    check_settled(&world);
    world.join(3, "r1", 1000 * GB);
    check(
        &world.round(),
        "
        set 1 on 1 2 3: set 1 has 2 of 3 members
        set 2 on 1 2 3: set 2 has 2 of 3 members
        ",
    );
    world.settle(10);
    world.join(4, "r1", 1000 * GB);
    check(
        &world.round(),
        "
        set 1 on 1 2 3 4: set 1 has 3 of 4 members
        set 2 on 1 2 3 4: set 2 has 3 of 4 members
        ",
    );
    world.settle(10);
    world.state(4, NodeState::Leaving);
    check(
        &world.round(),
        "
        set 1 on 1 2 3: node 4 is leaving
        set 2 on 1 2 3: node 4 is leaving
        set 3 on 1 2 3: node 4 is leaving
        ",
    );
    world.settle(10);
    world.state(1, NodeState::Leaving);
    check(
        &world.round(),
        "
        set 1 on 2, then 3: node 1 is leaving
        set 2 on 2, then 3: node 1 is leaving
        set 3 on 2, then 3: node 1 is leaving
        ",
    );
    world.settle(10);
    world.state(2, NodeState::Leaving);
    check(
        &world.round(),
        "
        set 1 on 3: node 2 is leaving
        set 2 on 3: node 2 is leaving
        set 3 on 3: node 2 is leaving
        ",
    );
    check_settled(&world);
}

#[test]
fn several_nodes_that_join_at_once_make_a_set_grow_at_once() {
    let mut world = World::new(1, 1);
    world.set(&[1], GB, 0);
    for node in 2..=4 {
        world.join(node, "r1", 1000 * GB);
    }
    check(&world.round(), "set 1 on 1 2 3 4: set 1 has 1 of 4 members");
    check_settled(&world);
}

#[test]
fn a_leaving_node_is_emptied() {
    let mut world = five();
    assert_eq!(may_leave(&world.nodes, &world.sets, NodeId(2)), Ok(()));
    world.state(2, NodeState::Leaving);
    check(
        &world.round(),
        "
        set 2 on 1 3 4 5: node 2 is leaving
        set 3 on 1 3 4 5: node 2 is leaving
        set 4 on 1 3 4 5: node 2 is leaving
        set 5 on 1 3 4 5: node 2 is leaving
        ",
    );
    world.settle(10);
    assert_eq!(world.members(2), 0);
    // With three others, three are enough.
    world.state(3, NodeState::Leaving);
    check(
        &world.round(),
        "
        set 1 on 1 4 5: node 3 is leaving
        set 2 on 1 4 5: node 3 is leaving
        set 3 on 1 4 5: node 3 is leaving
        set 4 on 1 4 5: node 3 is leaving
        set 5 on 1 4 5: node 3 is leaving
        ",
    );
    world.settle(10);
}

#[test]
fn a_silent_node_is_waited_for_and_then_replaced() {
    let mut world = five();
    world.silent(3, 9);
    world.elect();
    check(&world.told(), "");
    check(
        &waits(&world),
        "
        node 3 has been silent for 9 min: its members are replaced after 10 min
        ",
    );
    world.silent(3, 12);
    check(
        &world.round(),
        "
        set 1 on 1 2 4 5: node 3 has been silent for 12 min
        set 2 on 1 2 4 5: node 3 has been silent for 12 min
        set 3 on 1 2 4 5: node 3 has been silent for 12 min
        ",
    );
    world.settle(10);
    assert_eq!(world.members(3), 0);
    check(&waits(&world), "");
}

#[test]
fn without_another_node_a_silent_one_only_follows_until_it_is_back() {
    let mut world = four();
    world.sets.truncate(2);
    world.silent(3, 12);
    world.elect();
    check(
        &world.round(),
        "
        set 1 on 1 2 4, then 3: node 3 has been silent for 12 min
        set 2 on 1 2 4, then 3: node 3 has been silent for 12 min
        ",
    );
    check_settled(&world);
    check(&waits(&world), "
        set 1 has 3 of 4 members and one on node 3, which has been silent for 12 min: there is no other node
        set 2 has 3 of 4 members and one on node 3, which has been silent for 12 min: there is no other node
        ");
    let node = world.node(3);
    (node.is_alive, node.silent_ms) = (true, 0);
    check(
        &world.round(),
        "
        set 1 on 1 2 3 4: set 1 has 3 of 4 voters
        set 2 on 1 2 3 4: set 2 has 3 of 4 voters
        ",
    );
    check_settled(&world);
    // With three nodes there is nothing to win.
    let mut world = World::new(3, 1);
    world.set(&[1, 2, 3], GB, 0);
    world.silent(3, 12);
    check(&world.told(), "");
    check(&waits(&world), "
        set 1 has 2 of 3 members and one on node 3, which has been silent for 12 min: there is no other node
        ");
}

#[test]
fn a_lost_rack_is_replaced_on_the_others() {
    let mut world = World::new(8, 4);
    world.set(&[1, 2, 3, 4], GB, 0);
    world.set(&[5, 6, 7, 8], GB, 0);
    world.set(&[8, 1, 6, 3], GB, 0);
    check_settled(&world);
    world.silent(4, 20);
    world.silent(8, 20);
    world.elect();
    check(
        &world.round(),
        "
        set 1 on 1 2 3 5: node 4 has been silent for 20 min
        set 2 on 2 5 6 7: node 8 has been silent for 20 min
        set 3 on 1 3 6 7: node 8 has been silent for 20 min
        ",
    );
    world.settle(10);
    // It is back, empty: what shares a rack moves there.
    for node in [4, 8] {
        let node = world.node(node);
        (node.is_alive, node.silent_ms) = (true, 0);
    }
    check(
        &world.round(),
        "
        set 1 on 1 2 3 4: set 1 has 2 members on rack r1
        set 2 on 5 6 7 8: set 2 has 2 members on rack r2
        set 3 on 1 3 4 6: set 3 has 2 members on rack r3
        ",
    );
    world.settle(10);
    assert_eq!(world.shared_racks(), 0);
}

#[test]
fn large_nodes_get_more() {
    let mut world = World::new(0, 1);
    for (node, disk_gb) in (1..).zip([1000, 1000, 1000, 1000, 4000]) {
        world.join(node, "r1", disk_gb * GB);
    }
    for set in 0..8 {
        let voters: Vec<u64> = (0..4).map(|at| (set + at) % 5 + 1).collect();
        world.set(&voters, 50 * GB, 0);
    }
    check(
        &world.round(),
        "
        set 1 on 1 2 4 5: node 5 has 1 member fewer than node 3
        set 6 on 1 2 3 5: node 5 has less for its disk than node 4
        ",
    );
    world.settle(10);
    // A member of each set, which is all that one node can have.
    assert_eq!(world.members(5), 8);
}

#[test]
fn hot_sets_go_apart() {
    let mut world = World::new(8, 8);
    for set in 0..8 {
        let voters: Vec<u64> = (0..4).map(|at| (set * 4 + at) % 8 + 1).collect();
        world.set(&voters, GB, 100);
    }
    check_settled_members(&world);
    for set in [0, 2] {
        world.sets[set].ru_s = 9000;
    }
    check(
        &world.round(),
        "
        set 1 on 2 3 4 5: node 5 serves 17800 RU/s less than node 1
        set 3 led by 2: node 2 leads 4 sets fewer than node 1
        set 2 led by 6: node 6 leads 4 sets fewer than node 5
        set 7 led by 3: node 3 leads 3 sets fewer than node 1
        set 8 led by 7: node 7 leads 3 sets fewer than node 5
        set 5 led by 4: node 4 leads 2 sets fewer than node 1
        set 6 led by 8: node 8 leads 2 sets fewer than node 5
        ",
    );
    world.settle(50);
    // What one set costs cannot be spread further.
    let most = world.loads().values().map(|load| load[2]).max().unwrap();
    assert!(most < 2 * 9000, "{most}");
}

#[track_caller]
fn check_settled_members(world: &World) {
    let told = world.told();
    assert!(told.lines().all(|it| it.contains("led by")), "{told}");
}

#[test]
fn a_slow_node_leads_nothing_that_another_can_and_keeps_its_members() {
    let slow = Some(Slowness { times: 8.4, by: "syncs of its log" });
    let mut world = four();
    world.node(1).slow = slow;
    check(
        &world.round(),
        "
        set 1 led by 2: node 1 is slow: 8 times the others by syncs of its log
        set 5 led by 3: node 1 is slow: 8 times the others by syncs of its log
        ",
    );
    check_settled(&world);
    assert_eq!(world.members(1), 5);
    // Whoever drains hands over to a slow one only where nobody else is.
    world.state(2, NodeState::Draining);
    check(
        &world.round(),
        "
        set 1 led by 4: node 2 is draining
        set 2 led by 3: node 2 is draining
        ",
    );
    world.silent(3, 1);
    world.state(4, NodeState::Draining);
    check(
        &world.round(),
        "
        set 1 led by 1: node 4 is draining
        set 4 led by 1: node 4 is draining
        ",
    );
    // It leads again when it is well.
    let mut world = four();
    world.node(1).slow = slow;
    world.settle(3);
    world.node(1).slow = None;
    check(&world.round(), "set 1 led by 1: node 1 leads 2 sets fewer than node 2");

    // Alone it goes on.
    let mut world = World::new(1, 1);
    world.set(&[1], GB, 0);
    world.node(1).slow = slow;
    check_settled(&world);
}

#[test]
fn a_draining_node_leads_nothing_and_keeps_its_members() {
    let mut world = four();
    assert_eq!(may_drain(&world.nodes, &world.sets, NodeId(1)), Ok(()));
    world.state(1, NodeState::Draining);
    check(
        &world.round(),
        "
        set 1 led by 2: node 1 is draining
        set 5 led by 3: node 1 is draining
        ",
    );
    check_settled(&world);
    assert_eq!(world.members(1), 5);
    // Another one as well would stop the sets.
    let found = may_drain(&world.nodes, &world.sets, NodeId(2)).unwrap_err();
    check(&found, "without node 2, set 1 has 2 of 4 voters and needs 3");
    world.state(1, NodeState::Up);
    check(&world.round(), "set 1 led by 1: node 1 leads 2 sets fewer than node 2");

    // Of two nodes the other one begins to decide.
    let mut world = World::new(2, 1);
    let set = world.set(&[1, 2], GB, 0);
    set.learners = set.voters.split_off(1);
    check_settled(&world);
    assert_eq!(may_drain(&world.nodes, &world.sets, NodeId(1)), Ok(()));
    world.state(1, NodeState::Draining);
    check(&world.round(), "set 1 on 2, then 1: of two nodes one decides for all sets: node 2");
    world.state(1, NodeState::Up);
    check_settled(&world);
}

#[test]
fn a_removed_node_is_replaced_at_once() {
    let mut world = five();
    world.silent(4, 1);
    world.elect();
    check(&world.told(), "");
    assert_eq!(may_remove(&world.nodes, &world.sets, NodeId(4)), Ok(()));
    world.state(4, NodeState::Removed);
    check(
        &world.round(),
        "
        set 1 on 1 2 3 5: node 4 was removed
        set 2 on 1 2 3 5: node 4 was removed
        set 4 on 1 2 3 5: node 4 was removed
        ",
    );
    world.settle(10);
    assert_eq!(world.members(4), 0);
}

#[test]
fn what_has_no_room_waits_and_says_so() {
    let mut world = five();
    world.node(2).free_bytes = 105 * GB;
    world.node(5).free_bytes = 95 * GB;
    world.silent(1, 30);
    world.elect();
    check(
        &world.round(),
        "
        set 1 on 3 4 5, then 1: node 1 has been silent for 30 min
        set 3 on 2 3 4 5: node 1 has been silent for 30 min
        set 4 on 2 3 4 5: node 1 has been silent for 30 min
        set 5 on 2 3 4, then 1: node 1 has been silent for 30 min
        ",
    );
    check_settled(&world);
    check(&waits(&world), "
        set 1 has 3 of 4 members and one on node 1, which has been silent for 30 min: no node has room for 10 GiB
        set 5 has 3 of 4 members and one on node 1, which has been silent for 30 min: no node has room for 10 GiB
        ");
    world.node(5).free_bytes = 500 * GB;
    check(&world.round(), "set 5 on 2 3 4 5: node 1 has been silent for 30 min");
}

#[test]
fn a_full_disk_is_relieved() {
    let mut world = World::new(5, 5);
    world.set(&[1, 2, 3, 4], 30 * GB, 0);
    world.set(&[2, 3, 4, 5], 10 * GB, 0);
    world.set(&[3, 4, 5, 1], 20 * GB, 0);
    check(&world.told(), "");
    world.node(3).free_bytes = 45 * GB;
    check(&world.round(), "set 2 on 1 2 4 5: node 3 has 4 % of its disk free");
    check_settled(&world);
    for node in [1, 2, 4, 5] {
        world.node(node).free_bytes = 101 * GB;
    }
    world.node(3).free_bytes = 10 * GB;
    check(&world.told(), "");
    check(
        &waits(&world),
        "
        node 3 has 1 % of its disk free: no other node has room for what it holds
        ",
    );
}

#[test]
fn members_on_one_rack_move_apart() {
    let mut world = World::new(6, 3);
    world.join(7, "r4", 1000 * GB);
    world.set(&[1, 4, 2, 3], GB, 0);
    check(&world.round(), "set 1 on 1 2 3 7: set 1 has 2 members on rack r1");
    check_settled(&world);
}

#[test]
fn operators_come_first() {
    let mut world = five();
    world.bounds.changes_max = 1;
    world.silent(3, 30);
    world.elect();
    world.join(6, "r6", 1000 * GB);
    check(&world.told(), "set 1 on 1 4 5 6: node 3 has been silent for 30 min");
    world.state(2, NodeState::Leaving);
    check(&world.told(), "set 2 on 1 4 5 6: node 2 is leaving");
    world.silent(1, 1);
    world.state(1, NodeState::Removed);
    check(
        &world.told(),
        "
        set 4 on 2 4 5 6: node 1 was removed
        set 2 led by 4: node 2 is leaving
        ",
    );
}

#[test]
fn what_is_changing_is_left_alone() {
    let mut world = five();
    world.state(2, NodeState::Leaving);
    for set in &mut world.sets {
        set.is_changing = true;
    }
    check(&world.told(), "");
    assert!(!is_settled(&world.nodes, &world.sets, &world.bounds));
    // Those that nobody leads hold nothing up.
    world.bounds.changes_max = 1;
    for set in &mut world.sets {
        set.leader = None;
    }
    world.sets[4].is_changing = false;
    check(&world.told(), "set 5 on 1 3 4 5: node 2 is leaving");
}

#[test]
fn what_nobody_knows_is_left_alone() {
    let mut world = four();
    world.sets.truncate(1);
    world.sets[0].voters[3] = NodeId(9);
    check(&world.told(), "");
    check(&waits(&world), "set 1 has a member on node 9, which nobody knows");
}

#[test]
fn leaders_are_spread_by_count_and_by_traffic() {
    let mut world = World::new(4, 4);
    for _ in 0..6 {
        world.set(&[1, 2, 3, 4], GB, 10);
    }
    check(
        &world.round(),
        "
        set 1 led by 2: node 2 leads 6 sets fewer than node 1
        set 6 led by 3: node 3 leads 5 sets fewer than node 1
        set 5 led by 4: node 4 leads 4 sets fewer than node 1
        set 4 led by 2: node 2 leads 2 sets fewer than node 1
        ",
    );
    check_settled(&world);
    let mut world = four();
    for set in [0, 4] {
        world.sets[set].ru_s = 5000;
    }
    check(
        &world.round(),
        "
        set 1 led by 2: node 2 leads 9900 RU/s less than node 1
        set 2 led by 3: node 3 leads 5000 RU/s less than node 2
        ",
    );
    check_settled(&world);
}

#[test]
fn what_may_not_be_is_refused_with_its_reason() {
    let mut world = four();
    let leave =
        |world: &World, node| may_leave(&world.nodes, &world.sets, NodeId(node)).unwrap_err();
    let remove =
        |world: &World, node| may_remove(&world.nodes, &world.sets, NodeId(node)).unwrap_err();
    let drain =
        |world: &World, node| may_drain(&world.nodes, &world.sets, NodeId(node)).unwrap_err();
    check(&leave(&world, 9), "there is no node 9");
    check(&remove(&world, 3), "node 3 is alive: it is emptied, not removed");
    world.silent(3, 1);
    check(&leave(&world, 3), "node 3 does not answer: a dead node is removed, not emptied");
    check(&drain(&world, 2), "without node 2, set 1 has 2 of 4 voters and needs 3");
    assert_eq!(may_remove(&world.nodes, &world.sets, NodeId(3)), Ok(()));
    world.silent(4, 1);
    check(&remove(&world, 3), "without node 3, set 1 has 2 of 4 voters and needs 3");
    check(&leave(&world, 2), "
        set 1 has 2 of 4 voters alive and needs 3: its members cannot change; so it is for 4 other sets
        ");
    world.state(3, NodeState::Removed);
    check(&remove(&world, 3), "node 3 was removed");

    let mut world = five();
    for node in 1..=5 {
        world.node(node).free_bytes = 105 * GB;
    }
    check(&leave(&world, 1), "
        set 1 has 4 of 4 members, one on node 1, which is leaving: no node has room for 10 GiB; so it is for 3 other sets
        ");
    world.state(2, NodeState::Leaving);
    check(&leave(&world, 2), "node 2 is leaving");

    let mut world = World::new(1, 1);
    world.set(&[1], GB, 0);
    check(&leave(&world, 1), "no other node is up: nobody could take what node 1 holds");
    check(&drain(&world, 1), "no other node is up: nobody could lead what node 1 leads");
    world.join(2, "r1", 1000 * GB);
    check(&drain(&world, 1), "without node 1, set 1 has 0 of 1 voters and needs 1");
    world.settle(10);
    world.silent(1, 20);
    check(&remove(&world, 1), "without node 1, set 1 has 0 of 1 voters and needs 1");
    check(&waits(&world), "set 1 has 0 of 1 voters alive and needs 1: its members cannot change");
}
