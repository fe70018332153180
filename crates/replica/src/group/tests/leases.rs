//! Leases: what they rest on, each rule broken on purpose.

use storage::broken::Rule;

use super::broken::needs;
use super::*;

impl Cluster {
    fn set_now(&mut self, now_ms: u64) {
        self.cores.iter_mut().for_each(|core| core.set_now(now_ms));
    }

    fn read(&mut self, node: NodeId, ticket: u64) {
        self.input(node, Input::Read { set: SET, ticket: Ticket(ticket) });
    }

    fn may_read(&self, ticket: u64) -> bool {
        self.answers.contains(&(Ticket(ticket), Answer::MayRead))
    }

    fn is_leased(&mut self, node: NodeId, now_ms: u64) -> bool {
        self.core(node).leases().is_good(SET, || now_ms)
    }
}

/// A leader that a quorum answered at second one.
fn leased() -> (Cluster, NodeId) {
    let mut cluster = Cluster::new(4);
    cluster.set_now(1_000);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    assert!(!cluster.is_leased(leader, 1_000), "nobody was asked yet");
    cluster.read(leader, 1);
    assert!(!cluster.may_read(1), "nobody answered yet");
    cluster.deliver_all();
    assert!(cluster.may_read(1));
    (cluster, leader)
}

#[test]
fn a_leader_reads_alone_until_its_lease_ends() {
    let (mut cluster, leader) = leased();
    assert!(cluster.is_leased(leader, 1_404));
    assert!(!cluster.is_leased(leader, 1_405), "nine tenths of nine ticks since it was asked");
    // Nobody hears it any more, and it reads all the same.
    cluster.cut_off.push(leader);
    cluster.set_now(1_300);
    cluster.read(leader, 2);
    assert!(cluster.may_read(2), "under the lease");
    cluster.set_now(1_405);
    cluster.read(leader, 3);
    cluster.deliver_all();
    assert!(!cluster.may_read(3), "a quorum must answer, and does not hear it");
    let other = NodeId(leader.0 % 4 + 1);
    assert!(!cluster.is_leased(other, 1_000), "who does not lead has none");
}

#[test]
fn a_follower_is_answered_under_the_lease_of_its_leader() {
    let (mut cluster, leader) = leased();
    let follower = NodeId(leader.0 % 4 + 1);
    // The other two are not heard: there is no quorum.
    cluster.cut_off.extend((1..=4).map(NodeId).filter(|it| *it != leader && *it != follower));
    cluster.set_now(1_200);
    cluster.read(follower, 2);
    cluster.deliver_all();
    assert!(cluster.may_read(2));
    cluster.set_now(1_405);
    cluster.read(follower, 3);
    cluster.deliver_all();
    assert!(!cluster.may_read(3));
}

#[test]
fn a_lease_that_is_used_is_renewed() {
    let (mut cluster, leader) = leased();
    let mut now_ms = 1_000;
    for _ in 0..40 {
        now_ms += 50;
        cluster.set_now(now_ms);
        assert!(cluster.is_leased(leader, now_ms), "at {now_ms}");
        cluster.tick(1);
    }
    // Nobody reads: it ends.
    for _ in 0..10 {
        now_ms += 50;
        cluster.set_now(now_ms);
        cluster.tick(1);
    }
    assert!(!cluster.is_leased(leader, now_ms));
}

/// Others are not elected before the lease ends, by the time of whoever counts its ticks a tenth too fast.
fn nobody_else_leads_under_a_lease() -> bool {
    let (mut cluster, leader) = leased();
    cluster.cut_off.push(leader);
    let mut now_ms = 1_000;
    // Ticks of the others; time goes on for the leader.
    while cluster.leader().is_none() {
        now_ms += 45;
        cluster.tick(1);
    }
    !cluster.is_leased(leader, now_ms)
}

#[test]
fn a_lease_ends_before_another_one_can_lead() {
    needs(Rule::LeaseTooLong, nobody_else_leads_under_a_lease);
}

/// Its own disk is slow: others have an entry, are told that it is committed, and have answered with it, before the leader has it.
#[test]
fn a_lease_is_shown_when_what_others_know_is_applied_and_not_before() {
    let (mut cluster, leader) = leased();
    let (kind, now_s, body, before) = (1, 100, Bytes::from_static(b"x"), Vec::new());
    let propose = Input::Propose { set: SET, ticket: None, kind, now_s, body, before };
    let proposed = cluster.core(leader).turn([propose]);
    let (turn, index) = (proposed.turn, proposed.appends[0].1.entries[0].index);
    // All of it but that it is on the leader's disk.
    cluster.follow(leader, Outputs { appends: Vec::new(), ..proposed });
    assert!(cluster.is_leased(leader, 1_001), "nobody else knows of it");
    cluster.deliver_all();
    assert!(!cluster.is_leased(leader, 1_001), "it is committed, and not applied here");
    let kept = cluster.core(leader).turn([Input::Persisted(turn)]);
    assert!(kept.committed.iter().any(|(_, it)| it.entries.iter().any(|it| it.0.index == index)));
    cluster.core(leader).show_leases();
    assert!(!cluster.is_leased(leader, 1_001), "it is about to be applied");
    cluster.core(leader).turn([Input::Applied { set: SET, index }]);
    assert!(!cluster.is_leased(leader, 1_001), "ranges that it changed are not known yet");
    cluster.core(leader).show_leases();
    assert!(cluster.is_leased(leader, 1_001));
}

/// One that is eager to lead has answered another leader, and then hears of a later term: it asks for no votes before the lease is over.
#[test]
fn who_is_eager_to_lead_keeps_what_it_promised() {
    let mut state = GroupState::born(SET, ReplicaId(20), configuration(3));
    (state.term, state.vote) = (5, 10);
    let mut core = Core::new(Settings::default(), 2);
    core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
    let heard = |from: u64, kind: MessageType, say: fn(&mut Message)| {
        let mut message = Message { from: from * 10, to: 20, ..Message::default() };
        message.set_msg_type(kind);
        say(&mut message);
        Input::Message { from: NodeId(from), message: PeerMessage { set: SET, message } }
    };
    core.turn([Input::Campaign(SET)]);
    let question = heard(1, MessageType::MsgHeartbeat, |it| {
        (it.term, it.context) = (6, vec![0; 16].into());
    });
    let is_answer = |it: &Message| it.get_msg_type() == MessageType::MsgHeartbeatResponse;
    assert!(said(&mut core, question).iter().any(is_answer), "the leader counts on it");
    let later = heard(3, MessageType::MsgRequestPreVoteResponse, |it| {
        (it.term, it.reject) = (7, true);
    });
    said(&mut core, later);
    let asks = |it: &Message| {
        let kind = it.get_msg_type();
        kind == MessageType::MsgRequestPreVote || kind == MessageType::MsgRequestVote
    };
    for tick in 0..9 {
        assert!(!said(&mut core, Input::Tick).iter().any(asks), "tick {tick}");
    }
    let asked = (0..60).any(|_| said(&mut core, Input::Tick).iter().any(asks));
    assert!(asked, "afterwards it does");
}

fn who_hands_over_has_no_lease() -> bool {
    let (mut cluster, leader) = leased();
    let heir = NodeId(leader.0 % 4 + 1);
    cluster.core(leader).hand_leadership(SET, heir);
    let outputs = cluster.core(leader).turn([]);
    let lets_lead =
        |(_, it): &(NodeId, PeerMessage)| it.message.get_msg_type() == MessageType::MsgTimeoutNow;
    assert!(outputs.messages.iter().any(lets_lead));
    // Nothing was sent yet, and it does not read any more.
    let is_leased = cluster.is_leased(leader, 1_001);
    cluster.read(leader, 2);
    !is_leased && !cluster.may_read(2)
}

#[test]
fn a_leader_that_lets_another_one_lead_reads_no_more() {
    needs(Rule::LeaseThroughHandOver, who_hands_over_has_no_lease);
}

/// Three members; the leader has its lease from the second, which is started again. The third does not get its vote before the lease
/// is over.
fn a_promise_outlives_a_restart() -> bool {
    let mut state = GroupState::born(SET, ReplicaId(20), configuration(3));
    (state.term, state.vote) = (5, 10);
    let mut core = Core::new(Settings::default(), 2);
    core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
    core.tell(SET, |member| member.keep_promises());
    let request = || {
        let mut message = Message { from: 30, to: 20, term: 6, ..Message::default() };
        (message.index, message.log_term) = (100, 5);
        message.set_msg_type(MessageType::MsgRequestPreVote);
        Input::Message { from: NodeId(3), message: PeerMessage { set: SET, message } }
    };
    let is_given = |outputs: &Outputs| {
        let kinds = outputs.messages.iter().map(|(_, it)| (it.message.get_msg_type(), &it.message));
        kinds.clone().any(|(kind, it)| kind == MessageType::MsgRequestPreVoteResponse && !it.reject)
    };
    let mut is_kept = true;
    for _ in 0..10 {
        is_kept &= !is_given(&core.turn([request()]));
        core.turn([Input::Tick]);
    }
    assert!(is_given(&core.turn([request()])), "afterwards it votes");
    is_kept
}

#[test]
fn a_member_that_is_started_again_keeps_what_it_promised() {
    needs(Rule::VoteAfterRestart, a_promise_outlives_a_restart);
}

/// The leader asks a member for reads; then that one hears of a later term by something that is no vote, and knows no leader any more.
/// Who leads next does not get its vote before the lease is over.
fn a_promise_outlives_a_later_term() -> bool {
    let mut state = GroupState::born(SET, ReplicaId(20), configuration(3));
    (state.term, state.vote) = (5, 10);
    let mut core = Core::new(Settings::default(), 2);
    core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
    let heard = |from: u64, kind: MessageType, say: fn(&mut Message)| {
        let mut message = Message { from: from * 10, to: 20, ..Message::default() };
        message.set_msg_type(kind);
        say(&mut message);
        Input::Message { from: NodeId(from), message: PeerMessage { set: SET, message } }
    };
    let question = heard(1, MessageType::MsgHeartbeat, |it| {
        (it.term, it.context) = (5, vec![0; 16].into());
    });
    let is_answer = |it: &Message| it.get_msg_type() == MessageType::MsgHeartbeatResponse;
    assert!(said(&mut core, question).iter().any(is_answer), "the leader counts on it");
    let later = heard(3, MessageType::MsgRequestPreVoteResponse, |it| {
        (it.term, it.reject) = (6, true);
    });
    said(&mut core, later);
    assert_eq!(core.leader(SET), None, "it knows of a later term, and of nobody who leads");
    let is_given = |core: &mut Core| {
        let asks = heard(3, MessageType::MsgRequestPreVote, |it| {
            (it.term, it.index, it.log_term) = (7, 100, 5);
        });
        let kind = MessageType::MsgRequestPreVoteResponse;
        said(core, asks).iter().any(|it| it.get_msg_type() == kind && !it.reject)
    };
    let mut is_kept = true;
    for _ in 0..10 {
        is_kept &= !is_given(&mut core);
        core.turn([Input::Tick]);
    }
    assert!(is_given(&mut core), "afterwards it votes");
    is_kept
}

/// What a member says to something, when all of it is on its disk.
fn said(core: &mut Core, input: Input) -> Vec<Message> {
    let outputs = core.turn([input]);
    let kept = core.turn([Input::Persisted(outputs.turn)]);
    outputs.messages.into_iter().chain(kept.messages).map(|(_, it)| it.message).collect()
}

#[test]
fn a_member_that_hears_of_a_later_term_keeps_what_it_promised() {
    needs(Rule::VoteInLaterTerm, a_promise_outlives_a_later_term);
}

/// What a follower asks after a restart is not answered by what it asked before.
#[test]
fn questions_for_reads_have_other_numbers_after_a_restart() {
    let asked = |seed: u64| {
        let mut state = GroupState::born(SET, ReplicaId(20), configuration(3));
        (state.term, state.vote) = (5, 10);
        let mut core = Core::new(Settings::default(), seed);
        core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
        let mut heartbeat = Message { from: 10, to: 20, term: 5, ..Message::default() };
        heartbeat.set_msg_type(MessageType::MsgHeartbeat);
        let message = PeerMessage { set: SET, message: heartbeat };
        core.turn([Input::Message { from: NodeId(1), message }]);
        let outputs = core.turn([Input::Read { set: SET, ticket: Ticket(1) }]);
        let mut questions = outputs.messages.iter().map(|(_, it)| &it.message);
        let question = questions.find(|it| it.get_msg_type() == MessageType::MsgReadIndex);
        question.expect("it asks its leader").entries[0].data.clone()
    };
    assert_ne!(asked(1), asked(2));
}

/// One has less than another and asks first: the other does not wait for its turn.
#[test]
fn who_has_more_asks_for_votes_when_it_has_to_refuse_one() {
    let mut state = GroupState::born(SET, ReplicaId(20), configuration(3));
    state.term = 5;
    let mut core = Core::new(Settings::default(), 2);
    core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
    let mut message = Message { from: 30, to: 20, term: 6, ..Message::default() };
    message.set_msg_type(MessageType::MsgRequestPreVote);
    let message = PeerMessage { set: SET, message };
    let outputs = core.turn([Input::Message { from: NodeId(3), message }]);
    let kinds: Vec<_> = outputs.messages.iter().map(|(_, it)| it.message.get_msg_type()).collect();
    assert!(kinds.contains(&MessageType::MsgRequestPreVote), "{kinds:?}");
}
