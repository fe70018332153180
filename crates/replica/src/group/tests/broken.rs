//! Rules that matter so seldom that seeds hardly ever show it, broken on purpose: each of these fails then.

use storage::broken::{Rule, break_rule};
use storage::{EntryPlace, GroupAppend};
use types::RingRange;

use super::*;
use crate::group::changes::{Change, Step};
use crate::group::member::StagedPlace;
use crate::group::wire::snapshot_of;

/// Whether something is true as long as a rule is kept, and only then.
pub(super) fn needs(rule: Rule, is_true: fn() -> bool) {
    assert!(is_true(), "{rule:?}");
    break_rule(Some(rule));
    let was_true = is_true();
    break_rule(None);
    assert!(!was_true, "{rule:?} was broken, and nothing noticed");
}

/// A member as it begins again with what its log says.
pub(super) fn begun_with(state: GroupState) -> Core {
    let mut core = Core::new(Settings::default(), 1);
    core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
    core
}

/// Whether a member gives its vote to whoever sends this.
fn votes(core: &mut Core, from: NodeId, message: PeerMessage) -> bool {
    let outputs = core.turn([Input::Message { from, message }]);
    let persisted = core.turn([Input::Persisted(outputs.turn)]);
    let said = outputs.messages.iter().chain(&persisted.messages);
    said.map(|(_, it)| &it.message)
        .any(|it| it.get_msg_type() == MessageType::MsgRequestVoteResponse && !it.reject)
}

/// It voted in term 5, is handed rows by the one who leads in that term, and is started again: another one does not get its vote, too.
fn a_vote_outlives_a_transfer() -> bool {
    let born = GroupState::born(SET, ReplicaId(10), configuration(3));
    let mut core = begun_with(GroupState { term: 5, vote: 20, ..born });
    let place = EntryPlace { index: 50, term: 4 };
    let staged = StagedPlace { place, now_s: 100, range: RingRange::FULL };
    core.tell(SET, |member| member.set_staged(Some(staged)));
    let go_on = message(MessageType::MsgSnapshot, 5, |it| {
        it.set_snapshot(snapshot_of(place, &configuration(3)));
    });
    let outputs = core.turn([Input::Message { from: NodeId(2), message: go_on }]);
    let appends: Vec<&GroupAppend> = outputs.appends.iter().map(|(_, append)| append).collect();
    assert!(appends.iter().any(|append| append.is_install), "the image is taken");
    let kept = appends.iter().rev().find_map(|append| append.state.clone()).unwrap();
    assert_eq!((kept.term, kept.cut.index), (5, 50));
    let request = message(MessageType::MsgRequestVote, 5, |it| {
        (it.from, it.index, it.log_term) = (30, 60, 4);
    });
    !votes(&mut begun_with(kept), NodeId(3), request)
}

#[test]
fn a_member_that_was_handed_rows_votes_once() {
    needs(Rule::ResetVoteByTransfer, a_vote_outlives_a_transfer);
}

/// Of three members two are to go. As long as nobody said that they are gone, the one who stays decides nothing alone.
fn both_configurations_decide() -> bool {
    let mut cluster = Cluster::new(3);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    let others: Vec<NodeId> = (1..=3).map(NodeId).filter(|node| *node != leader).collect();
    let steps = others.iter().map(|node| Step::Remove(ReplicaId(node.0 * 10))).collect();
    let change = Change { is_joint: true, steps };
    cluster.core(leader).tell(SET, |member| member.propose_change(&change, 100));
    cluster.tick(2);
    cluster.cut_off = others;
    cluster.propose(leader, 1, b"alone");
    cluster.tick(2);
    cluster.applied[leader.0 as usize - 1].iter().all(|(_, _, ticket)| ticket.is_none())
}

#[test]
fn nobody_decides_alone_before_a_joint_configuration_is_left() {
    needs(Rule::LeaveJointEarly, both_configurations_decide);
}

/// A vote is not told before it is kept.
fn a_vote_is_kept_first() -> bool {
    let mut core = begun_with(GroupState::born(SET, ReplicaId(10), configuration(3)));
    let request = message(MessageType::MsgRequestVote, 5, |it| (it.index, it.log_term) = (9, 1));
    let outputs = core.turn([Input::Message { from: NodeId(2), message: request }]);
    outputs.messages.is_empty()
}

#[test]
fn a_vote_is_told_when_it_is_on_disk() {
    needs(Rule::TellVoteBeforeSync, a_vote_is_kept_first);
}

/// A member that rests looks itself at a beat of a leader that leads no more.
fn an_old_leader_is_told_so() -> bool {
    let mut cluster = Cluster::new(3);
    cluster.tick(40);
    let leader = cluster.leader().unwrap();
    let follower = NodeId(leader.0 % 3 + 1);
    let status = cluster.core(follower).status_of(SET).unwrap();
    let (to, from) = (status.replica, ReplicaId(leader.0 * 10));
    let beat = Beat { set: SET, to, from, term: status.term - 1, commit: status.commit };
    let beats = Input::Beats { from: leader, beats: vec![beat], are_answers: false };
    let outputs = cluster.core(follower).turn([beats]);
    outputs.heard.is_empty() && outputs.messages.len() == 1
}

#[test]
fn a_member_that_rests_is_content_with_its_own_leader_alone() {
    needs(Rule::RestOnAnyBeat, an_old_leader_is_told_so);
}

/// A proposer's clock that goes back takes no entry's second back.
fn seconds_rise() -> bool {
    let mut cluster = Cluster::new(3);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    let mut seconds = Vec::new();
    for now_s in [100, 50] {
        let (kind, body, before) = (1, Bytes::from_static(b"a"), Vec::new());
        let propose = Input::Propose { set: SET, ticket: None, kind, now_s, body, before };
        let outputs = cluster.core(leader).turn([propose]);
        let appends = outputs.appends.iter().flat_map(|(_, append)| &append.entries);
        seconds.extend(appends.map(|entry| entry.now_s));
        cluster.follow(leader, outputs);
        cluster.deliver_all();
    }
    assert_eq!(seconds.len(), 2);
    seconds.is_sorted()
}

#[test]
fn seconds_do_not_fall_within_a_set() {
    needs(Rule::LetSecondsFall, seconds_rise);
}
