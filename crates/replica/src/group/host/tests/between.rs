//! Leadership is handed over while requests come.

use super::*;

fn is_kind(message: &NodeMessage, kind: MessageType) -> bool {
    matches!(message, NodeMessage::Consensus(it) if it.message.get_msg_type() == kind)
}

/// A fleet whose leader let another one lead, as far as that comes; with both.
fn handed_over(loses: fn(NodeId, NodeId, &NodeMessage) -> bool) -> (Fleet, NodeId, NodeId) {
    let (mut fleet, old) = Fleet::led(3);
    let heir = NodeId(old.0 % 3 + 1);
    let (key, _) = two_keys();
    fleet.add(old, SET, key, 1);
    fleet.tick(4);
    fleet.loses = loses;
    fleet.host(old).hand_leadership(SET, heir);
    fleet.tick(1);
    (fleet, old, heir)
}

/// Whoever was sent away by a leader that must first learn what was decided before it would ask again after a pause only.
#[test]
fn who_asks_a_leader_that_is_new_waits_until_it_leads() {
    // What it proposes in its term is not committed yet.
    let is_lost =
        |_: NodeId, _: NodeId, it: &NodeMessage| is_kind(it, MessageType::MsgAppendResponse);
    let (mut fleet, _, heir) = handed_over(is_lost);
    assert_eq!(fleet.status(heir, SET).role, crate::group::Role::Leader);
    assert!(!fleet.host(heir).core.leads(SET), "it does not know enough");
    let (key, _) = two_keys();
    let request = fleet.request(vec![add(key, 1)]);
    let answered = fleet.ask(heir, SET, request);
    assert!(answered.is_none(), "{answered:?}");
    fleet.loses = |_, _, _| false;
    // Its followers say once more what they have.
    fleet.tick(3);
    assert!(answered.is_done(), "{answered:?}");
    assert_eq!(fleet.read(heir, SET, key), Some(2), "once");
}

/// Nobody waits for long: another member may know more.
#[test]
fn who_asks_a_leader_that_stays_new_is_sent_away() {
    let is_lost =
        |_: NodeId, _: NodeId, it: &NodeMessage| is_kind(it, MessageType::MsgAppendResponse);
    let (mut fleet, _, heir) = handed_over(is_lost);
    let (key, _) = two_keys();
    let held_max = fleet.options.settings.held_max;
    let mut waiting = Vec::new();
    for _ in 0..=held_max {
        let request = fleet.request(vec![add(key, 1)]);
        waiting.push(fleet.ask(heir, SET, request));
    }
    let last = waiting.pop().unwrap();
    assert!(last.is_busy(), "no more than a bound wait: {last:?}");
    assert!(waiting.iter().all(Answered::is_none));
    let ticks = fleet.options.settings.read_retry_ticks;
    fleet.tick(ticks as usize);
    assert!(waiting.iter().all(Answered::is_busy));
}

/// A member that let another one lead tells who that is as soon as it hears of it.
#[test]
fn who_asks_a_leader_that_let_another_one_lead_hears_of_that_one() {
    let is_lost = |_: NodeId, _: NodeId, it: &NodeMessage| is_kind(it, MessageType::MsgAppend);
    let (mut fleet, old, heir) = handed_over(is_lost);
    assert_eq!(fleet.status(old, SET).leader, None, "it heard of none");
    let (key, _) = two_keys();
    let request = fleet.request(vec![add(key, 1)]);
    let answered = fleet.ask(old, SET, request);
    assert!(answered.is_none(), "{answered:?}");
    fleet.loses = |_, _, _| false;
    fleet.tick(3);
    let told = answered.0.lock().clone();
    assert!(
        matches!(told, Some(ProposalAnswer::NotLeader(Some(node))) if node == heir),
        "{told:?}"
    );
}
