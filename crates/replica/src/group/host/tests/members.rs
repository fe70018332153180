//! Members come to a node and go from it, and what they may answer.

use raft::eraftpb::{Entry, EntryType};

use super::*;
use crate::group::RowsAnswer;
use crate::group::changes::{Change, Step};
use crate::group::entries::change_context;

const HERE: NodeId = NodeId(1);
const LEADER: NodeId = NodeId(2);
const TERM: u64 = 2;

/// A node with one of three members, and a leader elsewhere that the test plays.
fn follower() -> Fleet {
    let mut fleet = Fleet::new(1);
    fleet.begin(SET, 3);
    [LEADER, NodeId(3)].into_iter().for_each(|peer| fleet.connect(HERE, peer, 100));
    fleet
}

fn from_leader(kind: MessageType, change: impl FnOnce(&mut Message)) -> NodeMessage {
    consensus(SET, kind, (replica_on(LEADER), replica_on(HERE), TERM), change)
}

/// The leader says that these members go, in two entries, and that both are committed.
fn removes(replica: ReplicaId) -> NodeMessage {
    let entry = |index, change: Change| {
        let mut entry = Entry { index, term: TERM, ..Entry::default() };
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        entry.context = change_context(EPOCH_S, &change.encode());
        entry
    };
    let enter = Change { is_joint: true, steps: vec![Step::Remove(replica)] };
    from_leader(MessageType::MsgAppend, |it| {
        (it.index, it.log_term, it.commit) = (1, 1, 3);
        it.set_entries(vec![entry(2, enter), entry(3, Change::leave())].into());
    })
}

fn gone_said(sent: &[(NodeId, NodeId, NodeMessage)], to: NodeId) -> bool {
    sent.iter().any(|(_, node, it)| *node == to && matches!(it, NodeMessage::Gone { .. }))
}

/// Others may not know yet that its going is committed, and need its vote to find out: it goes when one that stays says so.
#[test]
fn a_member_that_was_taken_away_stays_until_another_one_says_so() {
    let mut fleet = follower();
    fleet.hear(HERE, LEADER, removes(replica_on(HERE)));
    assert_eq!(fleet.status(HERE, SET).voters, [LEADER, NodeId(3)], "it knows");
    fleet.tick(200);
    assert!(fleet.host(HERE).core.contains(SET), "and is still there");
    assert!(!gone_said(&fleet.said, LEADER), "nor does it say so to anybody");
    // It asks by itself, because nobody speaks to it.
    let is_asked = |(_, _, it): &(NodeId, NodeId, NodeMessage)| {
        matches!(it, NodeMessage::StillMember { set: SET, replica: ReplicaId(10) })
    };
    assert!(fleet.said.iter().any(is_asked));
    // That another number is gone is nothing to it.
    fleet.hear(HERE, LEADER, NodeMessage::Gone { set: SET, replica: ReplicaId(11) });
    assert!(fleet.host(HERE).core.contains(SET));
    fleet.hear(HERE, LEADER, NodeMessage::Gone { set: SET, replica: replica_on(HERE) });
    assert!(!fleet.host(HERE).core.contains(SET));
}

/// Who says to another that it is gone must remember that itself: until it is on its disk, it may need that one's vote to find out again.
#[test]
fn a_member_is_told_that_it_is_gone_by_one_that_will_remember_it() {
    let mut fleet = follower();
    fleet.host(HERE).receive(LEADER, removes(replica_on(NodeId(3))));
    let sent = fleet.host(HERE).turn();
    fleet.send(HERE, sent);
    fleet.storage(HERE).step_log();
    // What it said is on disk, so both entries are applied; the state that knows of them is not.
    let sent = fleet.host(HERE).turn();
    fleet.send(HERE, sent);
    assert_eq!(fleet.status(HERE, SET).voters, [HERE, LEADER], "the change is in force");
    assert!(!gone_said(&fleet.said, NodeId(3)), "and not on disk");
    fleet.settle();
    assert!(gone_said(&fleet.said, NodeId(3)), "now it is");
    // The same where the member asks.
    fleet.said.clear();
    let asks = NodeMessage::StillMember { set: SET, replica: replica_on(NodeId(3)) };
    fleet.hear(HERE, NodeId(3), asks);
    assert!(gone_said(&fleet.said, NodeId(3)));
}

/// A leader that does not know yet that a member is gone does not bring it back, also over a restart; a new number is a new member.
#[test]
fn a_member_that_ended_is_not_made_again() {
    let mut fleet = follower();
    fleet.host(HERE).end(SET);
    fleet.settle();
    assert!(!fleet.host(HERE).core.contains(SET));
    for is_restarted in [false, true] {
        if is_restarted {
            fleet.restart(HERE);
            fleet.connect(HERE, LEADER, 100);
        }
        fleet.said.clear();
        for kind in [MessageType::MsgHeartbeat, MessageType::MsgAppend, MessageType::MsgSnapshot] {
            fleet.hear(HERE, LEADER, from_leader(kind, |_| ()));
            fleet.hear(HERE, LEADER, NodeMessage::Origin { set: SET, split_from: None });
            assert!(!fleet.host(HERE).core.contains(SET), "{kind:?}");
        }
        assert!(gone_said(&fleet.said, LEADER), "and says so");
    }
    let members = (replica_on(LEADER), ReplicaId(40), TERM);
    let heartbeat = || consensus(SET, MessageType::MsgHeartbeat, members, |_| ());
    fleet.hear(HERE, LEADER, heartbeat());
    fleet.hear(HERE, LEADER, NodeMessage::Origin { set: SET, split_from: None });
    fleet.hear(HERE, LEADER, heartbeat());
    assert_eq!(fleet.host(HERE).core.replica(SET), Some(ReplicaId(40)));
}

/// It waits for rows, and its set was dropped meanwhile: nobody is left who could say so but the map.
#[test]
fn one_that_waits_for_rows_of_a_set_that_is_gone_goes() {
    const NEW: SetId = SetId(9);
    let mut fleet = Fleet::new(1);
    fleet.connect(HERE, LEADER, 100);
    let members = (replica_on(LEADER), replica_on(HERE), TERM);
    let heartbeat = || consensus(NEW, MessageType::MsgHeartbeat, members, |_| ());
    fleet.hear(HERE, LEADER, heartbeat());
    fleet.hear(HERE, LEADER, NodeMessage::Origin { set: NEW, split_from: None });
    fleet.hear(HERE, LEADER, heartbeat());
    assert!(fleet.host(HERE).core.contains(NEW));
    fleet.host(HERE).set_places(Arc::new(|_| (vec![LEADER], 1)));
    fleet.tick(1_400);
    assert!(fleet.host(HERE).core.contains(NEW), "the map knows it: its leader may be away");
    fleet.host(HERE).set_places(Arc::new(|_| (Vec::new(), 0)));
    fleet.tick(128);
    assert!(!fleet.host(HERE).core.contains(NEW));
}

/// A set that the node had alone, and that is not there any more, is named by another node: no member begins, and nothing panics.
#[test]
fn a_set_that_was_here_alone_gets_no_member_by_a_message() {
    const LONE: SetId = SetId(9);
    let mut fleet = Fleet::new(1);
    let committed = fleet.storage(HERE).commit([(LONE, add(1, 5))]);
    fleet.storage(HERE).step_log();
    drop(committed);
    fleet.connect(HERE, LEADER, 100);
    let members = (replica_on(LEADER), replica_on(HERE), TERM);
    let heartbeat = || consensus(LONE, MessageType::MsgHeartbeat, members, |_| ());
    fleet.hear(HERE, LEADER, heartbeat());
    fleet.hear(HERE, LEADER, NodeMessage::Origin { set: LONE, split_from: None });
    fleet.hear(HERE, LEADER, heartbeat());
    assert!(!fleet.host(HERE).core.contains(LONE));
}

/// What a member heard long ago may be of any age: whoever asks for rows, however weakly, asks somebody else then.
#[test]
fn weak_reads_are_answered_by_a_member_that_heard_of_its_leader_lately() {
    let mut fleet = follower();
    let mut number = 0;
    let mut is_served = |fleet: &mut Fleet| {
        number += 1;
        fleet.said.clear();
        let read = NodeMessage::Read { number, set: SET, is_strong: false, body: Bytes::new() };
        fleet.hear(HERE, LEADER, read);
        let is_sent_away = fleet.said.iter().any(|(_, _, message)| {
            matches!(message, NodeMessage::Rows { answer: RowsAnswer::NotHere(_), .. })
        });
        let served = fleet.host(HERE).take_reads().len();
        assert_ne!(served == 1, is_sent_away, "one or the other");
        served == 1
    };
    assert!(!is_served(&mut fleet), "it has heard of nobody since it runs");
    fleet.hear(HERE, LEADER, from_leader(MessageType::MsgHeartbeat, |it| it.commit = 1));
    assert!(is_served(&mut fleet));
    fleet.tick(199);
    assert!(is_served(&mut fleet), "for ten seconds");
    fleet.tick(2);
    assert!(!is_served(&mut fleet), "and no longer");
    fleet.hear(
        HERE,
        LEADER,
        from_leader(MessageType::MsgHeartbeat, |it| {
            (it.term, it.commit) = (1_000, 1);
        }),
    );
    assert!(is_served(&mut fleet), "until it hears of one again");
}

/// Sums of one leader, of three members: whom it takes for wrong.
fn wrong_after(fleet: &mut Fleet, leader: NodeId, version: u8, index: u64) -> usize {
    let nodes: Vec<NodeId> = fleet.nodes();
    let odd = nodes.iter().copied().find(|node| *node != leader).unwrap();
    for node in nodes {
        let sum = if node == odd { 8 } else { 7 };
        fleet.host(leader).take_sum(node, SET, replica_on(node), (version, index, sum));
    }
    fleet.host(leader).wrong_members().len()
}

#[test]
fn sums_of_another_version_are_not_compared() {
    let (mut fleet, leader) = Fleet::led(3);
    assert_eq!(wrong_after(&mut fleet, leader, 2, 16), 0);
    assert_eq!(wrong_after(&mut fleet, leader, 1, 16), 1, "those of this one are");
}

/// Nodes drop a table when they hear of it, and its part of their sums goes with it.
#[test]
fn sums_are_not_compared_while_a_table_is_dropped() {
    let (mut fleet, leader) = Fleet::led(3);
    let (key, _) = two_keys();
    fleet.add(leader, SET, key, 1);
    // Without threads whoever waits for the log writes it.
    fleet.storage(leader).drop_table(OTHERS).unwrap();
    assert_eq!(wrong_after(&mut fleet, leader, 1, 16), 0, "others drop it, too");
    fleet.pass(19);
    fleet.tick(1);
    assert_eq!(wrong_after(&mut fleet, leader, 1, 16), 0);
    fleet.pass(2);
    fleet.tick(10);
    let leader = fleet.leader(SET).unwrap();
    assert_eq!(wrong_after(&mut fleet, leader, 1, 32), 1, "all have done it by now");
}

/// Nobody is silent, and the next entry at which sums are noted is days away.
#[test]
fn a_set_that_is_seldom_written_to_is_compared_all_the_same() {
    let (mut fleet, leader) = Fleet::led(3);
    let (key, _) = two_keys();
    fleet.add(leader, SET, key, 1);
    let wrong = fleet.nodes().into_iter().find(|node| *node != leader).unwrap();
    fleet.storage(wrong).spoil_checksum(SET, COUNTERS);
    let (silent_s, apart_s) = (fleet.options.silent_s, 100);
    for _ in 0..=silent_s / apart_s {
        fleet.pass(apart_s);
        fleet.tick(20);
        let leader = fleet.leader(SET).unwrap();
        assert_ne!(leader, wrong);
        fleet.add(leader, SET, key, 1);
    }
    fleet.tick(20);
    let leader = fleet.leader(SET).unwrap();
    let found = fleet.host(leader).wrong_members();
    assert_eq!(found.len(), 1);
    assert!(fleet.status(wrong, SET).frozen.is_some());
}

/// Its rows would make two of one that may be wrong; when it is decided who is, that is over.
#[test]
fn a_leader_that_is_outnumbered_hands_over_no_rows_until_it_is_decided_who_is_wrong() {
    let (mut fleet, leader) = Fleet::led(4);
    let others: Vec<NodeId> = fleet.nodes().into_iter().filter(|node| *node != leader).collect();
    let tell = |fleet: &mut Fleet, node: NodeId, index: u64, sum: u64| {
        fleet.host(leader).take_sum(node, SET, replica_on(node), (1, index, sum));
        fleet.host(leader).comparison.is_outnumbered(SET)
    };
    assert!(!tell(&mut fleet, leader, 16, 7));
    assert!(!tell(&mut fleet, others[0], 16, 8), "one against one");
    assert!(tell(&mut fleet, others[1], 16, 8), "one against two");
    assert!(fleet.host(leader).wrong_members().is_empty(), "nobody knows yet");
    fleet.host(leader).begin_transfer(SET, replica_on(others[2]));
    assert!(!fleet.host(leader).has_transfer(SET));
    assert!(!tell(&mut fleet, others[2], 16, 7), "two against two: all are frozen");
    assert_eq!(fleet.host(leader).wrong_members().len(), 3);
}
