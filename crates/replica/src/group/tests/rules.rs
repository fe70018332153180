//! Rules of consensus that no switch breaks: each of these fails where its rule is taken out of the code.

use types::RingRange;

use super::broken::begun_with;
use super::*;
use crate::group::changes::{Change, Step};
use crate::group::entries::change_context;
use crate::group::member::StagedPlace;

/// Of a cluster with a leader: that one, and the two others.
fn led(count: u64) -> (Cluster, NodeId, Vec<NodeId>) {
    let mut cluster = Cluster::new(count);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    let others = (1..=count).map(NodeId).filter(|node| *node != leader).collect();
    (cluster, leader, others)
}

/// What another node's member says to one of these.
fn said(to: NodeId, from: NodeId, message: PeerMessage) -> Input {
    let PeerMessage { set, mut message } = message;
    (message.to, message.from) = (to.0 * 10, from.0 * 10);
    Input::Message { from, message: PeerMessage { set, message } }
}

#[test]
fn proposals_of_other_nodes_are_neither_taken_nor_handed_on() {
    let (mut cluster, leader, others) = led(3);
    let term = cluster.core(leader).status_of(SET).unwrap().term;
    let last = cluster.core(leader).status_of(SET).unwrap().last;
    for (to, from) in [(leader, others[0]), (others[0], others[1])] {
        // As the library would send it, without a term, and with one.
        for term in [0, term] {
            let propose = message(MessageType::MsgPropose, term, |it| {
                it.set_entries(vec![entry(0, 0)].into());
            });
            let outputs = cluster.core(to).turn([said(to, from, propose)]);
            assert!(outputs.appends.is_empty() && outputs.messages.is_empty(), "{outputs:?}");
            assert_eq!(cluster.core(to).status_of(SET).unwrap().last, last);
        }
    }
    // Its own node's are not either: whoever asked is told who leads.
    cluster.propose(others[0], 1, b"a");
    assert_eq!(cluster.answers, [(Ticket(1), Answer::NotLeader(Some(leader)))]);
}

/// A peer that says what cannot be takes nobody's leader away.
#[test]
fn what_a_peer_should_never_send_freezes_no_leader() {
    let (mut cluster, leader, others) = led(3);
    let term = cluster.core(leader).status_of(SET).unwrap().term;
    let answer = |index: u64, hint: u64, reject: bool| {
        message(MessageType::MsgAppendResponse, term, |it| {
            (it.index, it.reject_hint, it.reject) = (index, hint, reject);
        })
    };
    let last = cluster.core(leader).status_of(SET).unwrap().last;
    let hostile = [
        answer(u64::MAX, 0, false),
        answer(last + 1, 0, false),
        answer(last, u64::MAX, true),
        answer(u64::MAX, u64::MAX, true),
        message(MessageType::MsgReadIndex, 0, |_| ()),
        message(MessageType::MsgReadIndex, term, |it| it.set_entries(vec![entry(0, 0)].into())),
        message(MessageType::MsgHeartbeatResponse, 0, |_| ()),
    ];
    for one in hostile {
        let told = format!("{one:?}");
        let outputs = cluster.core(leader).turn([said(leader, others[0], one)]);
        assert!(outputs.frozen.is_empty(), "{told}");
        let status = cluster.core(leader).status_of(SET).unwrap();
        assert!(status.matched.iter().all(|(_, matched)| *matched <= last), "{told}");
    }
    cluster.propose(leader, 1, b"a");
    cluster.tick(3);
    assert!(cluster.applied.iter().all(|applied| applied.len() == 1), "everybody goes on");
}

#[test]
fn a_panic_freezes_its_member_and_not_the_others_of_its_node() {
    const OTHER: SetId = SetId(4);
    let lone = |set| {
        let configuration = Configuration::of_voters([(ReplicaId(10), NodeId(1))]);
        RecoveredGroup::new(GroupState::born(set, ReplicaId(10), configuration))
    };
    let mut core = Core::new(Settings::default(), 1);
    for set in [SET, OTHER] {
        core.add(lone(set), Vec::new()).unwrap();
    }
    // More was applied than was ever handed over: a bug.
    let outputs = core.turn([Input::Applied { set: SET, index: 1_000 }]);
    assert_eq!(outputs.frozen.len(), 1);
    assert_eq!(outputs.frozen[0].0, SET);
    assert!(core.status_of(SET).unwrap().frozen.is_some());
    for _ in 0..20 {
        let outputs = core.turn([Input::Tick]);
        core.turn([Input::Persisted(outputs.turn)]);
    }
    assert_eq!(core.status_of(OTHER).unwrap().role, Role::Leader, "the other goes on");
    assert_ne!(
        core.status_of(SET).unwrap().role,
        Role::Leader,
        "and the one takes part in nothing"
    );
}

/// One that hears nobody asks whether it could be elected, and does not count up its term: when it comes back, nobody has to follow it.
#[test]
fn one_that_was_cut_off_disturbs_nobody_when_it_comes_back() {
    let (mut cluster, leader, others) = led(4);
    let terms = cluster.terms();
    cluster.cut_off = vec![others[0]];
    cluster.tick(400);
    cluster.cut_off.clear();
    cluster.tick(60);
    assert_eq!((cluster.leader(), cluster.terms()), (Some(leader), terms));
}

fn with_settings(count: u64, settings: Settings) -> (Cluster, NodeId, Vec<NodeId>) {
    let mut cluster = Cluster::new(count);
    for node in 1..=count {
        let mut core = Core::new(settings, node);
        core.add(member(node, count), Vec::new()).unwrap();
        *cluster.core(NodeId(node)) = core;
    }
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    (cluster, leader, (1..=count).map(NodeId).filter(|node| *node != leader).collect())
}

fn entries_bytes(input: &Input) -> Option<usize> {
    let Input::Message { message, .. } = input else { return None };
    let is_append = message.message.get_msg_type() == MessageType::MsgAppend;
    is_append.then(|| message.message.entries.iter().map(|it| it.data.len()).sum())
}

#[test]
fn messages_to_one_that_lacks_much_are_bounded() {
    const BYTES_MAX: u64 = 1_000;
    let settings = Settings { message_bytes_max: BYTES_MAX, ..Settings::default() };
    let (mut cluster, leader, others) = with_settings(3, settings);
    cluster.cut_off = vec![others[0]];
    for ticket in 0..30 {
        cluster.propose(leader, ticket, &[7; 200]);
    }
    cluster.cut_off.clear();
    let (mut largest, mut sum) = (0, 0);
    for _ in 0..200 {
        cluster.input(leader, Input::Tick);
        while let Some((to, input)) = cluster.on_their_way.pop_front() {
            if to == others[0] {
                let bytes = entries_bytes(&input).unwrap_or(0);
                (largest, sum) = (largest.max(bytes), sum + bytes);
            }
            cluster.input(to, input);
        }
    }
    assert!(sum >= 30 * 200, "it got everything: {sum}");
    assert!(largest <= BYTES_MAX as usize, "one message had {largest}");
}

#[test]
fn what_is_not_committed_is_bounded() {
    let (message_bytes_max, uncommitted_bytes_max) = (1_000, 1_000);
    let settings = Settings { message_bytes_max, uncommitted_bytes_max, ..Settings::default() };
    let (mut cluster, leader, others) = with_settings(3, settings);
    cluster.cut_off = others;
    for ticket in 0..20 {
        cluster.propose(leader, ticket, &[7; 200]);
    }
    let refused = cluster.answers.iter().filter(|(_, answer)| *answer == Answer::Busy).count();
    assert!((10..20).contains(&refused), "{refused} of 20 were refused");
}

#[test]
fn messages_on_their_way_are_bounded() {
    let (mut cluster, leader, others) = led(3);
    let mut count = 0;
    for ticket in 0..400 {
        let (ticket, body) = (Some(Ticket(ticket)), Bytes::from_static(b"a"));
        let (kind, now_s, before) = (1, 100, Vec::new());
        cluster.input(leader, Input::Propose { set: SET, ticket, kind, now_s, body, before });
        // One of them answers, the other does not.
        for (to, input) in std::mem::take(&mut cluster.on_their_way) {
            match to == others[0] {
                true => count += usize::from(entries_bytes(&input).is_some_and(|it| it > 0)),
                false => cluster.input(to, input),
            }
        }
    }
    assert!((200..=256).contains(&count), "{count} messages wait for an answer");
}

/// One of two voters that is told of a step that leaves it alone, and of an entry behind that; with the turns in which both come.
fn alone_after(step: Step) -> (Core, u64, u64) {
    let mut core = begun_with(GroupState::born(SET, ReplicaId(10), configuration(2)));
    let mut leave = entry(2, 2);
    leave.set_entry_type(raft::eraftpb::EntryType::EntryConfChangeV2);
    leave.context = change_context(100, &Change { is_joint: false, steps: vec![step] }.encode());
    let append = |index: u64, entry: Entry, commit: u64| {
        message(MessageType::MsgAppend, 2, |it| {
            (it.index, it.log_term, it.commit) = (index, index.min(2), commit);
            it.set_entries(vec![entry].into());
        })
    };
    let mut hear =
        |message: PeerMessage| core.turn([Input::Message { from: NodeId(2), message }]).turn;
    let first = hear(append(1, leave, 1));
    let second = hear(append(2, entry(3, 2), 2));
    (core, first, second)
}

/// It became the only voter a moment ago, and something is not on its disk yet: elected by itself, it would not wait for that.
#[test]
fn a_lone_voter_does_not_elect_itself_before_all_of_its_log_is_on_disk() {
    let (mut core, first, second) = alone_after(Step::Remove(ReplicaId(20)));
    let outputs = core.turn([Input::Persisted(first)]);
    assert_eq!(outputs.committed.len(), 1, "the change is committed and on disk");
    core.turn([Input::Applied { set: SET, index: 2 }]);
    assert_eq!(core.status_of(SET).unwrap().voters, [NodeId(1)], "it is alone");
    for _ in 0..60 {
        let outputs = core.turn([Input::Tick]);
        assert!(outputs.frozen.is_empty(), "{:?}", outputs.frozen);
    }
    assert_ne!(core.status_of(SET).unwrap().role, Role::Leader);
    core.turn([Input::Persisted(second)]);
    for _ in 0..60 {
        let outputs = core.turn([Input::Tick]);
        core.turn([Input::Persisted(outputs.turn)]);
    }
    assert_eq!(core.status_of(SET).unwrap().role, Role::Leader);
}

/// What is asked of it by others does not elect it earlier, either.
#[test]
fn a_lone_voter_that_is_told_to_lead_waits_for_its_log() {
    let (mut core, first, _) = alone_after(Step::Learner(ReplicaId(20), NodeId(2)));
    core.turn([Input::Persisted(first)]);
    core.turn([Input::Applied { set: SET, index: 2 }]);
    assert_eq!(core.status_of(SET).unwrap().voters, [NodeId(1)], "it is alone");
    let message = message(MessageType::MsgTimeoutNow, 2, |_| ());
    let outputs = core.turn([Input::Message { from: NodeId(2), message }]);
    assert!(outputs.frozen.is_empty(), "{:?}", outputs.frozen);
}

/// Under load something of it is on its way to the disk at every tick.
#[test]
fn a_lone_voter_that_leads_is_ticked_while_its_log_is_written() {
    let members = [(ReplicaId(10), NodeId(1)), (ReplicaId(20), NodeId(2))];
    let configuration = Configuration::of_members(members, 1);
    let mut core = begun_with(GroupState::born(SET, ReplicaId(10), configuration));
    for _ in 0..60 {
        let ticked = core.turn([Input::Tick]);
        let written = core.turn([Input::Persisted(ticked.turn)]);
        let committed = ticked.committed.iter().chain(&written.committed);
        let applied: Vec<Input> = committed
            .filter_map(|(_, it)| it.entries.last())
            .map(|it| Input::Applied { set: SET, index: it.0.index })
            .collect();
        core.turn(applied.into_iter().chain([Input::Persisted(written.turn)]));
    }
    assert!(core.leads(SET));
    let (ticket, kind, now_s, body, before) = (None, 1, 100, Bytes::from_static(b"a"), Vec::new());
    core.turn([Input::Propose { set: SET, ticket, kind, now_s, body, before }]);
    let ticks = (0..10).map(|_| core.turn([Input::Tick]));
    let said = ticks.flat_map(|outputs| outputs.messages).count();
    assert!(said > 0, "others hear of it");
    assert!(core.silent_ticks(SET).unwrap() <= 2);
}

/// Entries that left memory are asked for, and what they are needed for goes on when they come: no turn reads a disk.
#[test]
fn old_entries_are_asked_for_and_not_read_in_the_turn() {
    const BODY: &[u8] = &[7; 1024 * 1024];
    let (mut cluster, leader, others) = led(3);
    cluster.cut_off = vec![others[0]];
    // More than is kept in memory.
    for ticket in 0..12 {
        cluster.propose(leader, ticket, BODY);
    }
    cluster.tick(2);
    cluster.cut_off.clear();
    let mut wanted = Vec::new();
    for _ in 0..20 {
        let outputs = cluster.core(leader).turn([Input::Tick]);
        assert!(outputs.images_wanted.is_empty(), "the entries are there");
        wanted.extend(outputs.wanted.iter().map(|(set, it)| (*set, it.low, it.high)));
        for (set, it) in outputs.wanted {
            let bodies = (it.low..it.high).take(4).map(|_| Bytes::from_static(BODY)).collect();
            cluster.core(leader).fetched(set, it, bodies);
        }
        for (to, message) in outputs.messages {
            cluster.on_their_way.push_back((to, Input::Message { from: leader, message }));
        }
        cluster.deliver_with_old(leader, &mut wanted, BODY);
    }
    assert!(wanted.iter().any(|(set, low, _)| (*set, *low) == (SET, 3)), "{wanted:?}");
    let last = cluster.core(leader).status_of(SET).unwrap().last;
    assert_eq!(cluster.core(others[0]).status_of(SET).unwrap().last, last, "it has all of it");
}

impl Cluster {
    /// As `deliver_all`; old entries that a leader asks for meanwhile come at once.
    fn deliver_with_old(
        &mut self,
        leader: NodeId,
        wanted: &mut Vec<(SetId, u64, u64)>,
        body: &'static [u8],
    ) {
        while let Some((to, input)) = self.on_their_way.pop_front() {
            let mut outputs = self.core(to).turn([input]);
            if to == leader {
                for (set, it) in std::mem::take(&mut outputs.wanted) {
                    wanted.push((set, it.low, it.high));
                    let bodies = (it.low..it.high).take(4).map(|_| Bytes::from_static(body));
                    let bodies = bodies.collect();
                    self.core(leader).fetched(set, it, bodies);
                }
            }
            self.follow(to, outputs);
        }
    }
}

/// Nobody may be left who decides: the library refuses that when it is applied, on every member.
#[test]
fn a_change_that_is_refused_changes_nothing_and_the_next_one_is_made() {
    let (mut cluster, leader, _) = led(3);
    let before = cluster.core(leader).state(SET).unwrap().configuration.clone();
    let steps = (1..=3).map(|id| Step::Remove(ReplicaId(id * 10))).collect();
    let nobody = Change { is_joint: true, steps };
    let last = cluster.core(leader).status_of(SET).unwrap().last;
    cluster.core(leader).tell(SET, |member| member.propose_change(&nobody, 100));
    cluster.tick(4);
    for node in 1..=3 {
        let status = cluster.core(NodeId(node)).status_of(SET).unwrap();
        assert_eq!((status.applied, status.frozen), (last + 1, None), "node {node} applied it");
        assert_eq!(cluster.core(NodeId(node)).state(SET).unwrap().configuration, before);
    }
    let change = Change { is_joint: false, steps: vec![Step::Learner(ReplicaId(40), NodeId(4))] };
    cluster.cut_off = vec![NodeId(4)];
    cluster.core(leader).tell(SET, |member| member.propose_change(&change, 100));
    cluster.tick(4);
    for node in 1..=3 {
        let learners = cluster.core(NodeId(node)).status_of(SET).unwrap().learners;
        assert_eq!(learners, [NodeId(4)], "node {node}");
    }
}

/// A member that was handed rows by the leader of term 5, up to entry 50; they are not in its trees yet.
fn one_that_is_handed_rows() -> (Core, u64) {
    let mut core = Core::new(Settings::default(), 1);
    core.add(member(1, 3), Vec::new()).unwrap();
    let place = EntryPlace { index: 50, term: 4 };
    let staged = StagedPlace { place, now_s: 100, range: RingRange::FULL };
    core.tell(SET, |member| member.set_staged(Some(staged)));
    let go_on = message(MessageType::MsgSnapshot, 5, |it| {
        it.set_snapshot(snapshot_of(place, &configuration(3)));
    });
    let outputs = core.turn([Input::Message { from: NodeId(2), message: go_on }]);
    assert!(outputs.appends.iter().any(|(_, append)| append.is_install), "the image is taken");
    (core, outputs.turn)
}

fn asks_for_votes(outputs: &Outputs) -> bool {
    let kinds = outputs.messages.iter().map(|(_, it)| it.message.get_msg_type());
    kinds.into_iter().any(|kind| kind == MessageType::MsgRequestPreVote)
}

/// The library looks at what is committed and not applied before it asks for votes, and panics where that is not in memory.
#[test]
fn one_that_waits_for_its_rows_outlives_its_leader() {
    let is_frozen = |core: &Core| core.status_of(SET).unwrap().frozen;
    for is_kept in [false, true] {
        let (mut core, turn) = one_that_is_handed_rows();
        let mut asks = false;
        if is_kept {
            core.turn([Input::Persisted(turn)]);
        }
        for _ in 0..300 {
            asks |= asks_for_votes(&core.turn([Input::Tick]));
            assert_eq!(is_frozen(&core), None);
        }
        assert_eq!(asks, is_kept, "it asks for votes when its log says for sure where it is");
        // Another one has less, and asks first.
        let (mut core, turn) = one_that_is_handed_rows();
        if is_kept {
            core.turn([Input::Persisted(turn)]);
        }
        (0..15).for_each(|_| drop(core.turn([Input::Tick])));
        let request = message(MessageType::MsgRequestPreVote, 6, |it| it.from = 30);
        core.turn([Input::Message { from: NodeId(3), message: request }]);
        assert_eq!(is_frozen(&core), None);
    }
    // What is committed behind its image may be in the log alone.
    let (mut core, turn) = one_that_is_handed_rows();
    core.turn([Input::Persisted(turn)]);
    let more = message(MessageType::MsgAppend, 5, |it| {
        (it.index, it.log_term, it.commit) = (50, 4, 51);
        let large = Entry { data: vec![0; 9 << 20].into(), ..entry(51, 5) };
        it.set_entries(vec![large].into());
    });
    let outputs = core.turn([Input::Message { from: NodeId(2), message: more }]);
    core.turn([Input::Persisted(outputs.turn)]);
    core.tell(SET, |member| member.let_bodies_go(51));
    for _ in 0..300 {
        assert!(!asks_for_votes(&core.turn([Input::Tick])));
        assert_eq!(is_frozen(&core), None);
    }
    core.turn([Input::Message {
        from: NodeId(2),
        message: message(MessageType::MsgTimeoutNow, 5, |_| ()),
    }]);
    assert_eq!(is_frozen(&core), None);
}

/// What it proposed while it led may have been done by those who handed it their rows: nobody is told that it never will be.
#[test]
fn what_an_image_took_the_place_of_is_not_called_lost() {
    let (mut cluster, leader, others) = led(3);
    cluster.propose(leader, 1, b"a");
    cluster.cut_off = vec![leader];
    cluster.propose(leader, 2, b"b");
    let next = others[0];
    let place = EntryPlace { index: 50, term: 8 };
    let staged = StagedPlace { place, now_s: 100, range: RingRange::FULL };
    cluster.core(leader).tell(SET, |member| member.set_staged(Some(staged)));
    let go_on = message(MessageType::MsgSnapshot, 9, |it| {
        it.set_snapshot(snapshot_of(place, &configuration(3)));
    });
    cluster.input(leader, said(leader, next, go_on));
    cluster.input(leader, Input::Installed { set: SET, index: 50 });
    let more = message(MessageType::MsgAppend, 9, |it| {
        (it.index, it.log_term, it.commit) = (50, 8, 51);
        it.set_entries(vec![entry(51, 9)].into());
    });
    cluster.input(leader, said(leader, next, more));
    let status = cluster.core(leader).status_of(SET).unwrap();
    assert_eq!((status.applied, status.frozen), (51, None));
    let told: Vec<&(Ticket, Answer)> =
        cluster.answers.iter().filter(|it| it.0 == Ticket(2)).collect();
    assert!(!told.iter().any(|it| it.1 == Answer::Lost), "{told:?}");
}
