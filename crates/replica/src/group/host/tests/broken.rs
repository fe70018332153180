//! Rules that seeds hardly ever show to matter, broken on purpose: each of these fails then.

use storage::broken::break_rule;

use super::*;
use crate::group::{ChangeState, Taken, TransferMessage};

/// Whether something is true as long as a rule is kept, and only then.
pub(super) fn needs(rule: Rule, is_true: fn() -> bool) {
    assert!(is_true(), "{rule:?}");
    break_rule(Some(rule));
    let was_true = is_true();
    break_rule(None);
    assert!(!was_true, "{rule:?} was broken, and nothing noticed");
}

const HERE: NodeId = NodeId(1);
const PEERS: [NodeId; 2] = [NodeId(2), NodeId(3)];

/// A node with one of three members; the others are played.
fn one_of_three() -> Fleet {
    let mut fleet = Fleet::new(1);
    fleet.begin(SET, 3);
    PEERS.into_iter().for_each(|peer| fleet.connect(HERE, peer, 100));
    fleet
}

/// A peer's member asks for the vote of this node's.
fn asks_for_vote(fleet: &mut Fleet, from: NodeId, term: u64) -> bool {
    let members = (replica_on(from), replica_on(HERE), term);
    let request = consensus(SET, MessageType::MsgRequestVote, members, |it| {
        (it.index, it.log_term) = (9, 1);
    });
    fleet.said.clear();
    fleet.hear(HERE, from, request);
    let vote = (MessageType::MsgRequestVoteResponse, false);
    kinds_said(fleet, from, SET).contains(&vote)
}

fn a_vote_is_given_once_over_a_restart() -> bool {
    let mut fleet = one_of_three();
    assert!(asks_for_vote(&mut fleet, PEERS[0], 5), "it votes");
    fleet.restart(HERE);
    PEERS.into_iter().for_each(|peer| fleet.connect(HERE, peer, 100));
    // Whatever it promised to a leader is over.
    fleet.tick(10);
    !asks_for_vote(&mut fleet, PEERS[1], 5)
}

#[test]
fn who_voted_and_was_started_again_votes_for_nobody_else() {
    needs(Rule::ForgetVote, a_vote_is_given_once_over_a_restart);
}

/// It comes back with less on its disk than it said before: what it promised since may be forgotten.
fn an_old_image_is_not_listened_to() -> bool {
    let mut fleet = one_of_three();
    fleet.connect(HERE, PEERS[0], 50);
    let is_refused = |(_, to, it): &(NodeId, NodeId, NodeMessage)| {
        *to == PEERS[0] && matches!(it, NodeMessage::Refused { synced: 100 })
    };
    let is_told = fleet.said.iter().any(is_refused);
    is_told && !asks_for_vote(&mut fleet, PEERS[0], 5)
}

#[test]
fn a_node_with_an_old_image_of_its_disk_is_refused_and_not_listened_to() {
    needs(Rule::TrustOldImage, an_old_image_is_not_listened_to);
}

/// It wrote more since it was started than what its image lacks: what counts is where its log ended when it was opened.
fn an_old_image_that_was_written_to_is_not_listened_to() -> bool {
    let mut fleet = one_of_three();
    let mut come = |run, opened, synced| {
        fleet.host(HERE).link_broke(PEERS[0]);
        fleet.said.clear();
        let start = Some(Start { run, opened });
        fleet.hear(HERE, PEERS[0], NodeMessage::Standing { synced, start });
        let is_refused = |(_, to, it): &(NodeId, NodeId, NodeMessage)| {
            *to == PEERS[0] && matches!(it, NodeMessage::Refused { .. })
        };
        fleet.said.iter().any(is_refused)
    };
    assert!(!come(1, 20, 120), "what was known of it before came from another version");
    assert!(!come(1, 20, 130), "its connection broke, and it went on");
    assert!(!come(2, 130, 140), "it was started again, and has everything");
    assert!(!come(2, 130, 150), "its connection broke again");
    let is_refused = come(3, 149, 500);
    assert_eq!(come(3, 149, 600), is_refused, "it does not get better by what it writes");
    is_refused && !asks_for_vote(&mut fleet, PEERS[0], 5)
}

#[test]
fn a_node_with_an_old_image_that_wrote_since_is_refused_too() {
    needs(Rule::TrustOldImage, an_old_image_that_was_written_to_is_not_listened_to);
}

/// A member that was taken away would vote as if it had promised nothing.
fn no_member_is_made_by_a_vote_request() -> bool {
    let mut fleet = one_of_three();
    fleet.host(HERE).end(SET);
    fleet.settle();
    assert!(!fleet.host(HERE).core.contains(SET), "it is gone");
    let votes = asks_for_vote(&mut fleet, PEERS[0], 5);
    !votes && !fleet.host(HERE).core.contains(SET)
}

#[test]
fn who_was_taken_away_is_not_made_again_by_a_vote_request() {
    needs(Rule::CreateByVote, no_member_is_made_by_a_vote_request);
}

/// A set is split, and the node's member of the left half goes, with its log. What the left wrote for the right's keys was in memory.
fn rows_of_the_right_outlive_the_left() -> bool {
    let (mut fleet, leader) = Fleet::led(1);
    let (_, key) = two_keys();
    fleet.add(leader, SET, key, 5);
    let split = fleet.split(RIGHT, ring(key));
    assert!(fleet.ask(leader, SET, split).is_done());
    fleet.host(leader).end(SET);
    fleet.settle();
    fleet.tick(2);
    assert!(!fleet.host(leader).core.contains(SET), "the left is gone");
    fleet.restart(leader);
    fleet.settle();
    assert!(fleet.host(leader).core.contains(RIGHT), "the right is there");
    fleet.read(leader, RIGHT, key) == Some(5)
}

#[test]
fn entries_of_a_set_stay_until_what_was_split_off_it_is_in_sorted_files() {
    needs(Rule::DropSplitEntries, rows_of_the_right_outlive_the_left);
}

/// The power goes between the record that the right half began and the one that says how far the left is. The right knows what its
/// keys were told before the split all the same.
fn a_split_is_applied_before_what_was_split_off() -> bool {
    let mut fleet = Fleet::new(1);
    let (_, key) = two_keys();
    let state = born(SET, HERE, 1);
    let request = fleet.request(vec![add(key, 5)]);
    let storage = fleet.storage(HERE);
    storage.begin_group(&state).unwrap();
    let split =
        Split { right: RIGHT, at: ring(key), whole: RingRange::FULL, tables: vec![COUNTERS] };
    let defines = storage.propose_defines(SET, &request.mutations).unwrap();
    let mut bodies: Vec<(u8, Bytes)> =
        defines.into_iter().map(|(kind, body)| (kind, Bytes::from(body))).collect();
    bodies.extend([(KIND_REQUEST, request.to_bytes()), split.to_entry()]);
    let entries: Vec<_> = (2..)
        .zip(bodies)
        .map(|(index, (kind, body))| storage::GroupEntry {
            kind,
            term: 1,
            index,
            now_s: EPOCH_S,
            body,
        })
        .collect();
    let place = EntryPlace { index: entries.last().unwrap().index, term: 1 };
    storage.append_group(SET, &GroupAppend { entries, ..GroupAppend::default() }).unwrap();
    let (_, right) = split.halves().unwrap();
    storage.begin_group(&state.split_off(RIGHT, right, place, EPOCH_S)).unwrap();
    storage.await_durable(Box::new(|is_durable| assert!(is_durable))).unwrap();
    storage.step_log();
    fleet.restart(HERE);
    let is_known = fleet.storage(HERE).known_answer(RIGHT, &request).is_some();
    is_known && fleet.status(HERE, SET).applied >= place.index
}

#[test]
fn what_was_split_off_begins_with_what_the_split_gave_it() {
    needs(Rule::ForgetSplitCommit, a_split_is_applied_before_what_was_split_off);
}

/// Node 2 had the keys of the right half as a member of the left. It leaves the right, and is handed the right's rows again; then it
/// stops, before anything is in sorted files. The left's entries, which it applies again at its start, must not change what came.
fn rows_that_were_handed_over_are_not_changed_by_older_entries() -> bool {
    let (mut fleet, leader) = Fleet::led(2);
    let other = NodeId(3 - leader.0);
    let (_, key) = two_keys();
    fleet.add(leader, SET, key, 5);
    let split = fleet.split(RIGHT, ring(key));
    assert!(fleet.ask(leader, SET, split).is_done());
    fleet.tick(4);
    let alone = Goal { voters: vec![(replica_on(leader), leader)], learners: Vec::new() };
    let right = fleet.leader(RIGHT).unwrap();
    assert_eq!(right, leader);
    fleet.reach(leader, RIGHT, &alone);
    assert!(!fleet.host(other).core.contains(RIGHT));
    let learners = vec![(ReplicaId(50), other)];
    let again = Goal { learners, ..alone };
    // It stops at the very moment at which the rows are in its trees.
    fleet.host(leader).change_members(RIGHT, again);
    fleet.tick_until(|fleet| fleet.host(other).transfers.installed > 0);
    assert_eq!(fleet.read(other, RIGHT, key), Some(5), "it has the rows");
    fleet.restart(other);
    fleet.read(other, RIGHT, key) == Some(5)
}

#[test]
fn rows_are_handed_over_when_entries_from_before_are_in_sorted_files() {
    needs(Rule::InstallOverReplay, rows_that_were_handed_over_are_not_changed_by_older_entries);
}

impl Fleet {
    /// Ticks until a set has the members that are wanted.
    fn reach(&mut self, leader: NodeId, set: SetId, goal: &Goal) {
        for _ in 0..200 {
            if self.host(leader).change_members(set, goal.clone()) == ChangeState::Done {
                return self.tick(4);
            }
            self.tick(1);
        }
        panic!("{:?}", self.status(leader, set));
    }

    /// Tick by tick and message by message, as long as something is not so.
    fn tick_until(&mut self, is_so: impl Fn(&mut Fleet) -> bool) {
        for _ in 0..200 {
            self.now_ms += TICK_MS;
            let now = self.now();
            for node in self.nodes() {
                self.host(node).set_now(now);
                self.host(node).tick();
                self.turn(node);
            }
            while let Some((from, to, message)) = self.on_their_way.pop_front() {
                self.host(to).receive(from, message);
                self.turn(to);
                if is_so(self) {
                    return;
                }
            }
        }
        panic!("it did not come so far");
    }
}

/// A set that the node has holds keys that another node offers the rows of.
fn a_range_that_is_held_is_not_touched() -> bool {
    let (mut fleet, leader) = Fleet::led(1);
    let (peer, newcomer) = (NodeId(2), ReplicaId(70));
    fleet.connect(leader, peer, 100);
    // A member of another set begins, because its leader speaks to it.
    let beat = |_: &mut Message| ();
    let members = (ReplicaId(20), newcomer, 3);
    let heartbeat = || consensus(RIGHT, MessageType::MsgHeartbeat, members, beat);
    fleet.hear(leader, peer, heartbeat());
    fleet.hear(leader, peer, NodeMessage::Origin { set: RIGHT, split_from: None });
    fleet.hear(leader, peer, heartbeat());
    assert!(fleet.host(leader).core.contains(RIGHT));
    let (_, key) = two_keys();
    fleet.add(leader, SET, key, 5);
    let place = EntryPlace { index: 50, term: 2 };
    let range = RingRange { start: ring(key), last: RingToken(u128::MAX) };
    let image = fleet.storage(leader).image(SET, place, &[COUNTERS], range).unwrap();
    let mut head = image.head().clone();
    head.set = RIGHT;
    let head = head.to_bytes();
    let offer = TransferMessage::Offer { number: 1, to: newcomer, head };
    fleet.said.clear();
    fleet.hear(leader, peer, NodeMessage::Transfer(offer));
    let taken = fleet.said.iter().find_map(|(_, _, message)| match message {
        NodeMessage::Transfer(TransferMessage::Answer { taken, .. }) => Some(*taken),
        _ => None,
    });
    taken.expect("an offer is answered") == Taken::Refused
}

#[test]
fn rows_are_not_handed_over_into_what_another_set_of_the_node_holds() {
    needs(Rule::IngestOverLiveRange, a_range_that_is_held_is_not_touched);
}
