//! Sets are split: what waits, what begins at once, and what is not done meanwhile.

use super::*;

const HERE: NodeId = NodeId(1);

fn learner(node: NodeId) -> Goal {
    Goal { voters: vec![(replica_on(HERE), HERE)], learners: vec![(ReplicaId(50), node)] }
}

/// A set of one voter, on a node of two.
fn alone_of_two() -> Fleet {
    let mut fleet = Fleet::new(2);
    fleet.begin(SET, 1);
    fleet.tick(20);
    assert_eq!(fleet.leader(SET), Some(HERE));
    fleet
}

#[test]
fn nothing_is_split_while_members_change() {
    let mut fleet = alone_of_two();
    let at = ring(two_keys().1);
    // Somebody is to come.
    fleet.host(HERE).goals.insert(SET, learner(NodeId(2)));
    let split = fleet.split(RIGHT, at);
    assert!(fleet.ask(HERE, SET, split).is_busy());
    fleet.host(HERE).goals.clear();
    // It was proposed, and is not on disk.
    fleet.slow_disks = vec![HERE];
    let steps = vec![crate::group::changes::Step::Learner(ReplicaId(50), NodeId(2))];
    let change = crate::group::changes::Change { is_joint: false, steps };
    fleet.host(HERE).core.tell(SET, |member| member.propose_change(&change, EPOCH_S));
    fleet.settle();
    let split = fleet.split(RIGHT, at);
    assert!(fleet.ask(HERE, SET, split).is_busy());
}

#[test]
fn nothing_is_split_while_rows_are_handed_over() {
    let mut fleet = alone_of_two();
    let at = ring(two_keys().1);
    fleet.loses = |_, _, message| matches!(message, NodeMessage::Transfer(_));
    fleet.host(HERE).change_members(SET, learner(NodeId(2)));
    for _ in 0..40 {
        fleet.tick(1);
        if fleet.host(HERE).has_transfer(SET) {
            break;
        }
    }
    assert!(fleet.host(HERE).has_transfer(SET), "an image is on its way");
    fleet.host(HERE).goals.clear();
    let split = fleet.split(RIGHT, at);
    assert!(fleet.ask(HERE, SET, split).is_busy());
    // It is over when nobody answers.
    for _ in 0..400 {
        fleet.tick(1);
        if !fleet.host(HERE).has_transfer(SET) {
            break;
        }
    }
    let split = fleet.split(RIGHT, at);
    let answered = fleet.ask(HERE, SET, split);
    assert!(answered.is_done(), "{answered:?}");
}

#[test]
fn nobody_comes_and_no_rows_are_handed_over_while_a_set_is_split() {
    let mut fleet = alone_of_two();
    let (_, key) = two_keys();
    // A learner that lacks everything, and gets nothing.
    fleet.loses = |_, _, message| matches!(message, NodeMessage::Transfer(_));
    fleet.host(HERE).change_members(SET, learner(NodeId(2)));
    fleet.tick(150);
    fleet.host(HERE).goals.clear();
    fleet.host(HERE).link_broke(NodeId(2));
    fleet.pass(1);
    fleet.tick(8);
    fleet.host(HERE).break_transfers(NodeId(2));
    fleet.slow_disks = vec![HERE];
    let split = fleet.split(RIGHT, ring(key));
    let answered = fleet.ask(HERE, SET, split);
    assert!(answered.is_none() && fleet.host(HERE).is_splitting(SET), "it is on its way");
    let (begun, last) = (fleet.host(HERE).transfers.begun, fleet.status(HERE, SET).last);
    fleet.pass(1);
    fleet.tick(2);
    fleet.host(HERE).begin_transfer(SET, ReplicaId(50));
    assert_eq!(fleet.host(HERE).transfers.begun, begun, "no rows are handed over");
    let goal = Goal { learners: vec![(ReplicaId(60), NodeId(3))], ..learner(NodeId(2)) };
    fleet.host(HERE).goals.insert(SET, goal);
    fleet.tick(4);
    assert_eq!(fleet.status(HERE, SET).last, last, "nobody comes");
    fleet.slow_disks.clear();
    fleet.tick(4);
    assert!(answered.is_done(), "{answered:?}");
    assert!(fleet.status(HERE, SET).last > last, "now somebody does");
    fleet.host(HERE).begin_transfer(SET, ReplicaId(50));
    assert!(fleet.host(HERE).transfers.begun > begun, "and rows are");
}

/// Nobody waits for a timeout: who led what was split leads both halves, without a tick.
#[test]
fn who_led_the_left_half_leads_the_right_one_at_once() {
    let (mut fleet, leader) = Fleet::led(4);
    let (_, key) = two_keys();
    let split = fleet.split(RIGHT, ring(key));
    assert!(fleet.ask(leader, SET, split).is_done());
    assert_eq!(fleet.leader(RIGHT), Some(leader));
    fleet.add(leader, RIGHT, key, 1);
}

/// A member that has not heard of the split yet has the right half's rows already: it waits for its left, and nothing is handed over.
#[test]
fn what_is_said_to_a_right_half_waits_for_the_left() {
    let (mut fleet, leader) = Fleet::led(3);
    let (_, key) = two_keys();
    fleet.add(leader, SET, key, 5);
    fleet.tick(4);
    // The last of them hears nothing of the left.
    let late = NodeId(if leader.0 == 3 { 2 } else { 3 });
    fleet.loses = match late {
        NodeId(2) => |_, to, message| to == NodeId(2) && is_of_left(message),
        _ => |_, to, message| to == NodeId(3) && is_of_left(message),
    };
    let split = fleet.split(RIGHT, ring(key));
    assert!(fleet.ask(leader, SET, split).is_done());
    fleet.add(leader, RIGHT, key, 2);
    fleet.tick(6);
    assert!(!fleet.host(late).core.contains(RIGHT), "it does not begin with nothing");
    fleet.loses = |_, _, _| false;
    fleet.tick(10);
    assert_eq!(fleet.read(late, RIGHT, key), Some(7), "it has everything");
    let begun = fleet.nodes().into_iter().map(|node| fleet.host(node).transfers.begun).sum::<u64>();
    assert_eq!(begun, 0, "and nothing was handed over");
}

fn is_of_left(message: &NodeMessage) -> bool {
    match message {
        NodeMessage::Consensus(message) => message.set == SET,
        NodeMessage::Beats { .. } => true,
        _ => false,
    }
}

/// Its left went past the split without it, by an image: the right begins with nothing, and is handed its rows.
#[test]
fn where_the_left_is_past_the_split_the_right_begins_with_nothing() {
    let peer = NodeId(2);
    let (mut fleet, leader) = Fleet::led(1);
    fleet.connect(leader, peer, 100);
    let members = (replica_on(peer), replica_on(leader), 5);
    let vote = consensus(RIGHT, MessageType::MsgRequestVote, members, |it| {
        (it.index, it.log_term) = (9, 4);
    });
    fleet.hear(leader, peer, vote);
    assert!(!fleet.host(leader).core.contains(RIGHT), "nobody said where it comes from");
    let is_asked = |(_, to, it): &(NodeId, NodeId, NodeMessage)| {
        *to == peer && matches!(it, NodeMessage::WhoIs { set: RIGHT })
    };
    assert!(fleet.said.iter().any(is_asked));
    let applied = fleet.status(leader, SET).applied;
    fleet.hear(leader, peer, NodeMessage::Origin { set: RIGHT, split_from: Some((SET, applied)) });
    let state = fleet.host(leader).core.state(RIGHT).cloned();
    assert!(state.is_some_and(|state| state.configuration.voters.is_empty()), "it knows nothing");
}

/// It did not belong to the set any more when that was split. Nothing of the right half is waited for, or nothing of its tables would
/// ever be purged again.
#[test]
fn one_that_was_taken_away_keeps_nothing_of_what_was_split_off_afterwards() {
    let mut fleet = Fleet::new(1);
    let (_, key) = two_keys();
    let mut state = born(SET, HERE, 2);
    let split =
        Split { right: RIGHT, at: ring(key), whole: RingRange::FULL, tables: vec![COUNTERS] };
    fleet.host(HERE).begin(state.clone()).unwrap();
    fleet.settle();
    state.configuration.nodes.retain(|(_, node)| *node != HERE);
    let place = EntryPlace { index: 2, term: 1 };
    let (kind, body) = split.to_entry();
    let body_bytes = body.len() as u32;
    let head = EntryHead { set: SET, kind, term: 1, index: 2, now_s: EPOCH_S, body_bytes };
    let position = fleet.storage(HERE).synced_position();
    let entry = CommittedEntry { head, position, body, request: None };
    fleet.storage(HERE).apply_group(&mut [entry], |_, _, _| ());
    assert_eq!(fleet.storage(HERE).group_now_s(RIGHT), EPOCH_S, "storage waits for its member");
    let (_, right) = split.halves().unwrap();
    let born = state.split_off(RIGHT, right, place, EPOCH_S);
    fleet.host(HERE).begin_split_off(&born).unwrap();
    assert!(!fleet.host(HERE).core.contains(RIGHT));
    assert_eq!(fleet.storage(HERE).group_now_s(RIGHT), 0, "and no more");
}

/// The map is behind the log: old deletions of keys that are the right half's by now are not swept by the left.
#[test]
fn old_deletions_are_not_swept_by_a_set_that_gave_their_keys_away() {
    let (mut fleet, leader) = Fleet::led(1);
    let (_, key) = two_keys();
    fleet.add(leader, SET, key, 5);
    let request = fleet.request(vec![delete(OTHERS, key, 20)]);
    assert!(fleet.ask(leader, SET, request).is_done());
    let swept = |fleet: &mut Fleet, key: u8| {
        fleet.pass(RETENTION_S * 4);
        fleet.tick(1);
        // Time passes for the set, too.
        fleet.add(leader, SET, key, 1);
        fleet.storage(leader).flush(None).unwrap();
        let last = fleet.status(leader, SET).last;
        fleet.storage(leader).compact(None).unwrap();
        fleet.tick(4);
        fleet.status(leader, SET).last - last
    };
    let (own, _) = two_keys();
    let split = fleet.split(RIGHT, ring(key));
    assert!(fleet.ask(leader, SET, split).is_done());
    assert_eq!(swept(&mut fleet, own), 0, "it is not the left's any more");
    // One of its own is.
    let request = fleet.request(vec![delete(OTHERS, own, 20)]);
    assert!(fleet.ask(leader, SET, request).is_done());
    assert!(swept(&mut fleet, own) > 0, "what it holds is swept");
}
