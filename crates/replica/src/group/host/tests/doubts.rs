//! Members that differ, where nobody can tell who is right: they stay frozen, and an operator says whose rows count.

use super::*;
use crate::group::requests::{WriteDone, WriteOutcome};
use crate::group::{Skip, WantedMembers, plan_skip};

/// Members compare what they applied every so many entries.
const COMPARED_EVERY: u64 = 8;
/// Where a set is split; no key lies behind it.
const AT: RingToken = RingToken(u128::MAX);
/// Nothing here takes longer.
const TICKS_MAX: usize = 4_000;

/// So many nodes with a member of the set, and who leads.
fn comparing(count: u64) -> (Fleet, NodeId) {
    let options = HostOptions { compare_step: COMPARED_EVERY, ..HostOptions::default() };
    let mut fleet = Fleet::with(count, options);
    fleet.begin(SET, count);
    fleet.tick(20);
    let leader = fleet.leader(SET).expect("somebody leads");
    fleet.add(leader, SET, 1, 1);
    (fleet, leader)
}

fn until(fleet: &mut Fleet, what: &str, is_so: impl Fn(&mut Fleet) -> bool) {
    for _ in 0..TICKS_MAX {
        if is_so(fleet) {
            return;
        }
        fleet.tick(1);
    }
    panic!("it never comes to this: {what}");
}

/// The leader found that members differ, and nobody knows who is right.
fn until_found(fleet: &mut Fleet, leader: NodeId) {
    for _ in 0..COMPARED_EVERY {
        fleet.add(leader, SET, 1, 1);
    }
    until(fleet, "found", |fleet| !fleet.host(leader).wrong_members().is_empty());
}

fn is_frozen(fleet: &mut Fleet, node: NodeId) -> bool {
    fleet.status(node, SET).frozen.is_some()
}

/// A set whose second half of members differs from the first, and the entry at which it froze.
fn frozen(count: u64) -> (Fleet, u64) {
    let (mut fleet, leader) = comparing(count);
    let spoiled = (count / 2 + 1..=count).map(NodeId);
    spoiled.for_each(|node| fleet.storage(node).spoil_checksum(SET, COUNTERS));
    until_found(&mut fleet, leader);
    let index = until_frozen(&mut fleet);
    (fleet, index)
}

fn until_frozen(fleet: &mut Fleet) -> u64 {
    let nodes = fleet.nodes();
    until(fleet, "frozen", |fleet| nodes.iter().all(|node| is_frozen(fleet, *node)));
    fleet.settle();
    fleet.host(NodeId(1)).core.state(SET).unwrap().doubt.unwrap().index
}

/// What all nodes that run are told, when an operator keeps one of them.
fn skip(fleet: &mut Fleet, index: u64, kept: NodeId) -> Skip {
    let running: Vec<NodeId> =
        fleet.nodes().into_iter().filter(|it| fleet.machine(*it).running.is_some()).collect();
    let told = running.iter().map(|node| (*node, fleet.host(*node).member_records())).collect();
    let skip = plan_skip(&told, (SET, index), kept).unwrap().skip;
    let done = Arc::new(Mutex::new(Vec::new()));
    for node in &running {
        let done = Arc::clone(&done);
        fleet.host(*node).skip(&skip, Box::new(move |it| done.lock().push(it)));
    }
    until(fleet, "told", |_| done.lock().len() == running.len());
    assert!(done.lock().iter().all(Result::is_ok), "{:?}", done.lock());
    skip
}

/// Members are wanted on all nodes.
fn want(fleet: &mut Fleet) {
    let voters = fleet.nodes();
    for node in fleet.nodes() {
        let wanted = WantedMembers { voters: voters.clone(), learners: Vec::new() };
        fleet.host(node).set_wanted(Box::new(move |_| Some(wanted.clone())));
    }
}

/// Every member but that of one node is a new one, which takes part.
fn are_new(fleet: &mut Fleet, kept: NodeId) -> bool {
    let nodes = fleet.nodes();
    nodes.iter().all(|node| {
        let Some(state) = fleet.host(*node).core.state(SET).cloned() else { return false };
        let decides = state.configuration.voters.contains(&state.replica);
        let is_old = state.replica == replica_on(*node);
        !is_frozen(fleet, *node)
            && fleet.status(*node, SET).is_whole
            && decides
            && !state.configuration.is_joint()
            && state.configuration.voters.len() == nodes.len()
            && is_old == (*node == kept)
    })
}

fn sums(fleet: &Fleet) -> Vec<u64> {
    fleet.nodes().iter().map(|it| fleet.storage(*it).checksum(SET, COUNTERS).unwrap()).collect()
}

fn may_read(fleet: &mut Fleet, node: NodeId) -> Option<bool> {
    let told = Arc::new(Mutex::new(None));
    let answer = Arc::clone(&told);
    fleet.host(node).read(SET, Box::new(move |it| *answer.lock() = Some(it)));
    fleet.tick(20);
    *told.lock()
}

#[test]
fn members_that_cannot_tell_who_is_right_stay_frozen_when_they_are_started_again() {
    let (mut fleet, index) = frozen(4);
    fleet.nodes().into_iter().for_each(|node| fleet.restart(node));
    let frozen = |fleet: &mut Fleet| {
        fleet
            .nodes()
            .into_iter()
            .all(|node| is_frozen(fleet, node) && fleet.host(node).seats.of(SET).is_none())
    };
    assert!(frozen(&mut fleet), "before anything is compared again");
    fleet.tick(200);
    assert!(frozen(&mut fleet) && fleet.leader(SET).is_none());
    let why = fleet.status(NodeId(1), SET).frozen.unwrap();
    assert!(why.contains(&format!("entry {index} ")), "{why}");
}

#[test]
fn a_member_that_differs_from_most_stays_frozen_until_a_new_one_takes_its_place() {
    let (mut fleet, leader) = comparing(4);
    let wrong = fleet.nodes().into_iter().find(|node| *node != leader).unwrap();
    fleet.storage(wrong).spoil_checksum(SET, COUNTERS);
    until_found(&mut fleet, leader);
    until(&mut fleet, "frozen", |fleet| is_frozen(fleet, wrong));
    fleet.restart(wrong);
    assert!(is_frozen(&mut fleet, wrong));
    want(&mut fleet);
    until(&mut fleet, "replaced", |fleet| {
        fleet.host(wrong).core.replica(SET).is_some_and(|it| it != replica_on(wrong))
            && fleet.status(wrong, SET).is_whole
    });
    fleet.tick(20);
    fleet.restart(wrong);
    assert!(!is_frozen(&mut fleet, wrong), "it was handed rows");
}

#[test]
fn others_are_told_that_a_member_is_frozen_when_that_is_on_its_disk() {
    let (mut fleet, leader) = comparing(4);
    let wrong = fleet.nodes().into_iter().find(|node| *node != leader).unwrap();
    fleet.storage(wrong).spoil_checksum(SET, COUNTERS);
    until_found(&mut fleet, leader);
    fleet.slow_disks.push(wrong);
    let says = |fleet: &mut Fleet| {
        let host = fleet.host(wrong);
        // In a tick in which it says so.
        let ticks = std::mem::replace(&mut host.ticks, 0);
        host.say_frozen();
        host.ticks = ticks;
        let said = std::mem::take(&mut host.outbox);
        said.iter().any(|(_, it)| matches!(it, NodeMessage::Differs { .. }))
    };
    until(&mut fleet, "frozen", |fleet| is_frozen(fleet, wrong));
    fleet.tick(5);
    assert!(!says(&mut fleet), "it would not know it after a start");
    fleet.slow_disks.clear();
    fleet.tick(5);
    assert!(says(&mut fleet));
}

#[test]
fn a_set_that_cannot_tell_goes_on_with_the_rows_that_an_operator_keeps() {
    let (mut fleet, index) = frozen(4);
    let kept = NodeId(3);
    let before = sums(&fleet);
    skip(&mut fleet, index, kept);
    until(&mut fleet, "led", |fleet| fleet.leader(SET) == Some(kept));
    let nodes = fleet.nodes();
    for node in nodes.iter().copied().filter(|it| *it != kept) {
        assert_eq!(
            may_read(&mut fleet, node),
            Some(false),
            "node {}'s rows count for nothing",
            node.0
        );
        let status = fleet.status(node, SET);
        assert!(!status.is_whole && status.frozen.is_some_and(|why| why.contains("node 3")));
    }
    assert_eq!(may_read(&mut fleet, kept), Some(true));
    assert_eq!(sums(&fleet)[2], before[2], "nothing was applied meanwhile");
    want(&mut fleet);
    until(&mut fleet, "replaced", |fleet| are_new(fleet, kept));
    fleet.add(kept, SET, 1, 100);
    fleet.tick(20);
    let after = sums(&fleet);
    assert_eq!(after, [after[2]; 4], "all have what was kept");
    assert_ne!(after[2], before[2]);
    let values: Vec<Option<i64>> = nodes.iter().map(|it| fleet.read(*it, SET, 1)).collect();
    assert_eq!(values, [Some(101 + COMPARED_EVERY as i64); 4]);
    // Nothing of it is left.
    nodes.iter().for_each(|node| fleet.restart(*node));
    fleet.tick(40);
    assert!(nodes.iter().all(|node| !is_frozen(&mut fleet, *node)) && fleet.leader(SET).is_some());
}

#[test]
fn what_was_acknowledged_is_there_though_the_member_that_is_kept_heard_it_last() {
    let (mut fleet, leader) = comparing(4);
    let kept = fleet.nodes().into_iter().rfind(|node| *node != leader).unwrap();
    let other = fleet.nodes().into_iter().find(|it| ![leader, kept].contains(it)).unwrap();
    [kept, other].iter().for_each(|it| fleet.storage(*it).spoil_checksum(SET, COUNTERS));
    until_found(&mut fleet, leader);
    fleet.loses = match kept.0 {
        4 => |_, to, _| to == NodeId(4),
        _ => |_, to, _| to == NodeId(3),
    };
    fleet.add(leader, SET, 2, 7);
    fleet.loses = |_, _, _| false;
    let index = until_frozen(&mut fleet);
    let last = |fleet: &mut Fleet, node| fleet.status(node, SET).last;
    assert!(last(&mut fleet, kept) < last(&mut fleet, leader), "it lacks what was acknowledged");
    skip(&mut fleet, index, kept);
    until(&mut fleet, "led", |fleet| fleet.leader(SET) == Some(kept));
    assert_eq!(fleet.read(kept, SET, 2), Some(7));
}

#[test]
fn members_whose_rows_do_not_count_lead_nothing_also_when_they_are_started_again() {
    let (mut fleet, index) = frozen(4);
    let kept = NodeId(2);
    skip(&mut fleet, index, kept);
    until(&mut fleet, "led", |fleet| fleet.leader(SET) == Some(kept));
    fleet.stop(kept);
    for node in [NodeId(1), NodeId(3), NodeId(4)] {
        fleet.restart(node);
    }
    for _ in 0..400 {
        fleet.tick(1);
        assert_eq!(fleet.leader(SET), None);
    }
    assert_eq!(may_read(&mut fleet, NodeId(1)), Some(false));
    fleet.start(kept);
    until(&mut fleet, "led", |fleet| fleet.leader(SET) == Some(kept));
    want(&mut fleet);
    until(&mut fleet, "replaced", |fleet| are_new(fleet, kept));
}

#[test]
fn one_that_was_away_when_an_operator_spoke_is_replaced_when_it_is_back() {
    let (mut fleet, index) = frozen(4);
    let (kept, away) = (NodeId(1), NodeId(4));
    fleet.stop(away);
    skip(&mut fleet, index, kept);
    until(&mut fleet, "led", |fleet| fleet.leader(SET) == Some(kept));
    fleet.start(away);
    assert!(is_frozen(&mut fleet, away));
    // Nobody can be replaced while it takes part in nothing: three of four decide, and one that is replaced goes first.
    want(&mut fleet);
    until(&mut fleet, "the one that was away is replaced", |fleet| {
        fleet.host(away).core.replica(SET).is_some_and(|it| it != replica_on(away))
    });
    until(&mut fleet, "replaced", |fleet| are_new(fleet, kept));
}

#[test]
fn of_two_the_one_that_is_not_kept_goes_and_a_new_one_comes() {
    let (mut fleet, index) = frozen(2);
    let kept = NodeId(2);
    skip(&mut fleet, index, kept);
    want(&mut fleet);
    until(&mut fleet, "replaced", |fleet| are_new(fleet, kept));
    let after = sums(&fleet);
    assert_eq!(after[0], after[1]);
}

#[test]
fn what_an_operator_says_is_refused_where_it_is_not_so_and_done_once() {
    let (mut fleet, index) = frozen(4);
    let told = fleet.nodes();
    let told = told.iter().map(|it| (*it, fleet.host(*it).member_records())).collect();
    assert!(plan_skip(&told, (SET, index + 1), NodeId(1)).is_err());
    let said = plan_skip(&told, (SET, index), NodeId(1)).unwrap().skip;
    let mut answer = |node: u64, skip: &Skip| {
        let told = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&told);
        fleet.host(NodeId(node)).skip(skip, Box::new(move |it| *answer.lock() = Some(it)));
        until(&mut fleet, "answered", |_| told.lock().is_some());
        told.lock().take().unwrap()
    };
    assert!(answer(1, &Skip { index: index + 1, ..said.clone() }).is_err(), "another entry");
    assert_eq!(answer(2, &said), Ok(()));
    assert_eq!(answer(2, &said), Ok(()), "said twice");
    let other =
        Skip { kept: replica_on(NodeId(3)), others: vec![replica_on(NodeId(2))], ..said.clone() };
    assert!(answer(2, &other).is_err(), "another one was kept");
    let newer = Skip { others: Vec::new(), ..said.clone() };
    assert_eq!(answer(3, &newer), Ok(()));
    assert!(is_frozen(&mut fleet, NodeId(3)), "it was not said of this member");
    assert!(fleet.host(NodeId(3)).core.state(SET).unwrap().doubt.unwrap().kept.is_none());
}

#[test]
fn the_member_that_is_kept_is_not_replaced_whoever_leads_later() {
    let (mut fleet, index) = frozen(4);
    let nodes = fleet.nodes();
    let found = |it: &NodeId| !fleet.host(*it).wrong_members().is_empty();
    let before = nodes.iter().copied().find(found).expect("it led, and found that they differ");
    let kept = nodes.iter().copied().find(|it| *it != before).unwrap();
    skip(&mut fleet, index, kept);
    want(&mut fleet);
    until(&mut fleet, "replaced", |fleet| are_new(fleet, kept));
    fleet.host(kept).hand_leadership(SET, before);
    until(&mut fleet, "led", |fleet| fleet.leader(SET) == Some(before));
    for _ in 0..200 {
        fleet.tick(1);
        assert_eq!(fleet.host(kept).core.replica(SET), Some(replica_on(kept)));
    }
}

#[test]
fn what_is_split_off_a_member_in_doubt_is_in_doubt_at_once() {
    let (mut fleet, index) = frozen(4);
    let (kept, other) = (NodeId(3), NodeId(1));
    skip(&mut fleet, index, kept);
    until(&mut fleet, "led", |fleet| fleet.leader(SET) == Some(kept));
    let split = fleet.split(RIGHT, AT);
    assert!(fleet.ask(kept, SET, split).is_done());
    fleet.tick(20);
    assert_eq!(fleet.leader(RIGHT), Some(kept));
    assert!(fleet.host(kept).seats.of(RIGHT).is_some());
    assert_eq!(fleet.host(other).seats.of(RIGHT), None, "nobody reads there");

    // It may learn at a start only that there is a second half.
    let (mut fleet, _) = frozen(4);
    let state = fleet.host(other).core.state(SET).unwrap().clone();
    let right = RingRange { start: AT, ..RingRange::FULL };
    let place = fleet.host(other).core.table(SET).unwrap().last();
    let born = state.split_off(RIGHT, right, place, EPOCH_S);
    fleet.host(other).begin_split_off(&born).unwrap();
    assert!(fleet.status(other, RIGHT).frozen.is_some(), "it takes part in nothing");
    assert_eq!(fleet.host(other).seats.of(RIGHT), None);
}

/// In its place another one could begin, of the same number, that forgot what this one promised.
#[test]
fn a_member_that_cannot_begin_anew_stays_frozen() {
    let (mut fleet, leader) = comparing(4);
    let split = fleet.split(RIGHT, AT);
    assert!(fleet.ask(leader, SET, split).is_done());
    [3, 4].iter().for_each(|it| fleet.storage(NodeId(*it)).spoil_checksum(SET, COUNTERS));
    until_found(&mut fleet, leader);
    let index = until_frozen(&mut fleet);
    let (kept, other) = (NodeId(3), NodeId(4));
    let told = fleet.nodes();
    let told = told.iter().map(|it| (*it, fleet.host(*it).member_records())).collect();
    let skip = plan_skip(&told, (SET, index), kept).unwrap().skip;
    let answer = Arc::new(Mutex::new(None));
    let done = Arc::clone(&answer);
    fleet.host(other).skip(&skip, Box::new(move |it| *done.lock() = Some(it)));
    // It is kept. And then what a start has to know of the split is not readable any more.
    fleet.settle();
    let folder = fleet.machine(other).folder.0.join("log");
    for file in std::fs::read_dir(&folder).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    until(&mut fleet, "answered", |_| answer.lock().is_some());
    assert!(answer.lock().take().unwrap().is_err());
    assert_eq!(fleet.host(other).core.replica(SET), Some(replica_on(other)));
    assert!(is_frozen(&mut fleet, other));
}

/// What becomes of something that a node is asked for, within a while.
fn outcome(
    fleet: &mut Fleet,
    ask: impl FnOnce(&mut Fleet, u64, WriteDone),
) -> Option<WriteOutcome> {
    const TICKS: u64 = 100;
    let told = Arc::new(Mutex::new(None));
    let answer = Arc::clone(&told);
    let deadline_ms = fleet.now_ms + TICKS * TICK_MS;
    ask(fleet, deadline_ms, Box::new(move |it| *answer.lock() = Some(it)));
    fleet.settle();
    fleet.tick(TICKS as usize + 1);
    told.lock().take()
}

fn is_done(outcome: &Option<WriteOutcome>) -> bool {
    matches!(outcome, Some(WriteOutcome::Done(Ok(_))))
}

/// It does not hear who leads any more; and whoever takes it for the leader is told that it is not.
#[test]
fn requests_of_a_node_whose_member_is_frozen_are_done_by_others() {
    let mut fleet = Fleet::new(5);
    fleet.begin(SET, 4);
    fleet.tick(20);
    let before = fleet.leader(SET).unwrap();
    fleet.host(before).core.freeze(SET, "on purpose");
    until(&mut fleet, "another one leads", |fleet| fleet.leader(SET).is_some());
    let without = NodeId(5);
    fleet.host(without).set_places(Arc::new(|_| ((1..=4).map(NodeId).collect(), 4)));
    fleet.host(without).hints.insert(SET, before);
    for node in [before, without] {
        let request = fleet.request(vec![add(1, 1)]);
        let told = outcome(&mut fleet, |fleet, deadline_ms, done| {
            fleet.host(node).submit(SET, request, deadline_ms, done);
        });
        assert!(is_done(&told), "node {}: {told:?}", node.0);
    }
    let leader = fleet.leader(SET).unwrap();
    assert_eq!(fleet.read(leader, SET, 1), Some(2));
}

/// Before a batch is decided its sets are asked how far they are: this node's member cannot tell, others can.
#[test]
fn batches_through_a_node_whose_rows_do_not_count_are_done() {
    let (mut fleet, index) = frozen(4);
    let kept = NodeId(3);
    skip(&mut fleet, index, kept);
    fleet.begin(RIGHT, 4);
    let everything = [(COUNTERS, RingRange::FULL, SET), (OTHERS, RingRange::FULL, RIGHT)];
    *fleet.map.0.lock() = (2, everything.to_vec());
    until(&mut fleet, "led", |fleet| {
        fleet.leader(SET) == Some(kept) && fleet.leader(RIGHT).is_some()
    });
    for node in fleet.nodes() {
        // It has its time from its sets.
        let request = fleet.request(vec![add(1, 1), put(2, 1, 3)]);
        let request = Request { timed_us: Some(1), ..request };
        let told = outcome(&mut fleet, |fleet, deadline_ms, done| {
            fleet.host(node).submit_batch(request, deadline_ms, done);
        });
        assert!(is_done(&told), "node {}: {told:?}", node.0);
    }
}
