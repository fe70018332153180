//! Members without disks: what is on its way and what was kept is in the test's hands.

mod broken;
mod leases;
mod rules;

use std::collections::VecDeque;

use bytes::Bytes;
use raft::eraftpb::{Entry, Message, MessageType};
use storage::{Configuration, EntryPlace, GroupState, RecoveredGroup};
use types::{NodeId, ReplicaId, SetId};

use super::entries::context_of;
use super::wire::snapshot_of;
use super::{Answer, Beat, Core, Input, Outputs, PeerMessage, Role, Settings, Ticket};

const SET: SetId = SetId(3);

/// Cores whose disks keep everything at once, and whose network is a queue.
struct Cluster {
    cores: Vec<Core>,
    on_their_way: VecDeque<(NodeId, Input)>,
    /// Nodes that hear and say nothing.
    cut_off: Vec<NodeId>,
    applied: Vec<Vec<(u64, Bytes, Option<Ticket>)>>,
    answers: Vec<(Ticket, Answer)>,
}

fn configuration(count: u64) -> Configuration {
    Configuration::of_voters((1..=count).map(|id| (ReplicaId(id * 10), NodeId(id))))
}

fn member(node: u64, count: u64) -> RecoveredGroup {
    RecoveredGroup::new(GroupState::born(SET, ReplicaId(node * 10), configuration(count)))
}

impl Cluster {
    fn new(count: u64) -> Cluster {
        let core = |node| {
            let mut core = Core::new(Settings::default(), node);
            core.add(member(node, count), Vec::new()).unwrap();
            core
        };
        Cluster {
            cores: (1..=count).map(core).collect(),
            on_their_way: VecDeque::new(),
            cut_off: Vec::new(),
            applied: vec![Vec::new(); count as usize],
            answers: Vec::new(),
        }
    }

    fn core(&mut self, node: NodeId) -> &mut Core {
        &mut self.cores[node.0 as usize - 1]
    }

    fn input(&mut self, node: NodeId, input: Input) {
        let outputs = self.core(node).turn([input]);
        self.follow(node, outputs);
        self.core(node).show_leases();
    }

    fn follow(&mut self, node: NodeId, outputs: Outputs) {
        let Outputs { turn, appends, messages, committed, answers, beats, heard, .. } = outputs;
        let from = node;
        for (to, message) in messages {
            self.on_their_way.push_back((to, Input::Message { from, message }));
        }
        for (are_answers, beats) in [(false, beats), (true, heard)] {
            for (to, beats) in beats {
                self.on_their_way.push_back((to, Input::Beats { from, beats, are_answers }));
            }
        }
        self.answers.extend(answers);
        for (set, entries) in committed {
            let mut last = 0;
            for (place, kind, _, body, ticket) in entries.entries {
                last = place.index;
                if kind != 0 {
                    self.applied[node.0 as usize - 1].push((place.index, body, ticket));
                }
            }
            self.input(node, Input::Applied { set, index: last });
        }
        if !appends.is_empty() {
            self.input(node, Input::Persisted(turn));
        }
    }

    fn deliver_all(&mut self) {
        while let Some((to, input)) = self.on_their_way.pop_front() {
            let (Input::Message { from, .. } | Input::Beats { from, .. }) = &input else {
                continue;
            };
            if !self.cut_off.contains(from) && !self.cut_off.contains(&to) {
                self.input(to, input);
            }
        }
    }

    fn tick(&mut self, count: usize) {
        for _ in 0..count {
            for node in 1..=self.cores.len() as u64 {
                self.input(NodeId(node), Input::Tick);
            }
            self.deliver_all();
        }
    }

    fn leader(&self) -> Option<NodeId> {
        let leads = |core: &&Core| core.leads(SET);
        let alive = self
            .cores
            .iter()
            .enumerate()
            .filter(|(number, _)| !self.cut_off.contains(&NodeId(*number as u64 + 1)));
        let mut leaders = alive.filter(|(_, core)| leads(core));
        let found = leaders.next().map(|(number, _)| NodeId(number as u64 + 1));
        assert!(leaders.next().is_none(), "one leader");
        found
    }

    fn propose(&mut self, node: NodeId, ticket: u64, body: &'static [u8]) {
        let (ticket, body) = (Some(Ticket(ticket)), Bytes::from_static(body));
        let (kind, now_s, before) = (1, 100, Vec::new());
        self.input(node, Input::Propose { set: SET, ticket, kind, now_s, body, before });
        self.deliver_all();
    }
}

#[test]
fn the_preferred_member_leads_and_what_it_proposes_is_applied_everywhere() {
    let mut cluster = Cluster::new(4);
    cluster.tick(13);
    // Set 3 of four members prefers the fourth.
    let leader = cluster.leader().expect("a leader after the first timeout");
    assert_eq!(leader, NodeId(4));
    cluster.propose(leader, 1, b"a");
    cluster.propose(NodeId(1), 2, b"b");
    assert_eq!(cluster.answers, [(Ticket(2), Answer::NotLeader(Some(leader)))]);
    cluster.tick(3);
    for (node, applied) in cluster.applied.iter().enumerate() {
        let ticket = (node == 3).then_some(Ticket(1));
        assert_eq!(applied.as_slice(), [(3, Bytes::from_static(b"a"), ticket)], "node {node}");
    }
}

/// Who waits for a tick, or is told to come again, sees a pause when a node is drained.
#[test]
fn while_leadership_is_handed_over_nobody_waits_for_a_tick() {
    let mut cluster = Cluster::new(4);
    cluster.tick(13);
    let (old, new) = (cluster.leader().unwrap(), NodeId(1));
    assert_ne!(old, new);
    cluster.propose(old, 1, b"before");
    cluster.tick(1);
    cluster.answers.clear();
    cluster.core(old).hand_leadership(SET, new);
    let reads = 10..14;
    for (ticket, node) in reads.clone().zip(1..) {
        cluster.input(NodeId(node), Input::Read { set: SET, ticket: Ticket(ticket) });
    }
    cluster.propose(old, 20, b"meanwhile");
    assert_eq!(cluster.leader(), Some(new));
    let answer = |ticket| {
        let known = cluster.answers.iter().find(|(known, _)| *known == Ticket(ticket));
        known.map(|(_, answer)| answer.clone())
    };
    assert_eq!(answer(20), Some(Answer::NotLeader(Some(new))), "it is told who leads");
    for ticket in reads {
        assert_eq!(answer(ticket), Some(Answer::MayRead), "read {ticket}");
    }
}

/// A handover that comes to nothing: what came meanwhile is proposed after all.
#[test]
fn what_came_during_a_handover_that_failed_is_not_lost() {
    let mut cluster = Cluster::new(4);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    assert_ne!(leader, NodeId(1));
    cluster.cut_off = vec![NodeId(1)];
    cluster.core(leader).hand_leadership(SET, NodeId(1));
    cluster.propose(leader, 1, b"meanwhile");
    assert!(cluster.answers.is_empty(), "{:?}", cluster.answers);
    cluster.tick(30);
    assert_eq!(cluster.leader(), Some(leader));
    let applied = &cluster.applied[leader.0 as usize - 1];
    assert!(applied.iter().any(|it| it.2 == Some(Ticket(1))), "{applied:?}");
}

/// Elements of lists have their ids before they are held.
#[test]
fn what_was_held_is_not_overtaken() {
    let mut cluster = Cluster::new(4);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    cluster.cut_off = vec![NodeId(1)];
    cluster.core(leader).hand_leadership(SET, NodeId(1));
    cluster.propose(leader, 1, b"first");
    // The handover is given up in the same turn in which something else is proposed.
    let (kind, now_s, body, before) = (1, 100, Bytes::from_static(b"second"), Vec::new());
    let second = Input::Propose { set: SET, ticket: None, kind, now_s, body, before };
    let ticks = Settings::default().election_ticks;
    let inputs = (0..ticks).map(|_| Input::Tick).chain([second]);
    let outputs = cluster.core(leader).turn(inputs);
    let entries = outputs.appends.iter().flat_map(|(_, append)| &append.entries);
    let bodies: Vec<&[u8]> = entries.map(|entry| entry.body.as_ref()).collect();
    assert_eq!(bodies, [b"first".as_slice(), b"second"]);
}

/// Its log is as good as any other's, and it would answer nobody.
#[test]
fn one_that_waits_for_its_rows_does_not_lead() {
    for waits in 1..=3 {
        let mut cluster = Cluster::new(4);
        cluster.tick(13);
        let leader = cluster.leader().unwrap();
        assert_eq!(leader, NodeId(4));
        cluster.propose(leader, 1, b"a");
        cluster.tick(2);
        let place = EntryPlace { index: 1, term: 1 };
        cluster.core(NodeId(waits)).tell(SET, |member| member.pretend_to_install(place));
        // Not when it is asked to, either.
        cluster.core(leader).hand_leadership(SET, NodeId(waits));
        cluster.tick(2);
        assert_eq!(cluster.leader(), Some(leader));
        cluster.cut_off = vec![leader];
        cluster.tick(60);
        let next = cluster.leader().expect("another one leads");
        assert_ne!(next, NodeId(waits));
    }
}

#[test]
fn a_leader_that_is_cut_off_answers_no_read_and_its_proposal_is_lost() {
    let mut cluster = Cluster::new(3);
    cluster.tick(13);
    let old = cluster.leader().unwrap();
    cluster.cut_off = vec![old];
    cluster.propose(old, 1, b"never");
    cluster.input(old, Input::Read { set: SET, ticket: Ticket(2) });
    cluster.tick(40);
    let new = cluster.leader().expect("the others elect");
    assert_ne!(new, old);
    cluster.propose(new, 3, b"instead");
    assert!(cluster.answers.is_empty(), "nobody confirmed that it leads: {:?}", cluster.answers);
    cluster.cut_off.clear();
    cluster.tick(20);
    let answer = |ticket| cluster.answers.iter().find(|(known, _)| *known == Ticket(ticket));
    assert_eq!(answer(1).map(|(_, answer)| answer), Some(&Answer::Lost));
    assert_eq!(answer(2).map(|(_, answer)| answer), Some(&Answer::MayRead), "asked again");
    let bodies = |node: usize| cluster.applied[node].iter().map(|it| it.1.clone());
    for node in 0..3 {
        assert_eq!(bodies(node).collect::<Vec<_>>(), [Bytes::from_static(b"instead")]);
    }
}

impl Cluster {
    fn resting(&self) -> usize {
        self.cores.iter().filter(|core| core.awake_sets().next().is_none()).count()
    }

    fn terms(&self) -> Vec<u64> {
        self.cores.iter().map(|core| core.status_of(SET).unwrap().term).collect()
    }
}

#[test]
fn members_of_whom_nothing_is_wanted_rest_and_keep_their_leader() {
    let mut cluster = Cluster::new(4);
    cluster.tick(40);
    let (leader, terms) = (cluster.leader().unwrap(), cluster.terms());
    assert_eq!(cluster.resting(), 4);
    cluster.tick(500);
    assert_eq!((cluster.leader(), cluster.terms()), (Some(leader), terms.clone()));
    assert_eq!(cluster.resting(), 4, "nobody had to look");
    for node in 0..4 {
        assert!(cluster.cores[node].silent_ticks(SET).unwrap() <= 2, "it heard of its leader");
    }
    cluster.propose(leader, 1, b"a");
    cluster.tick(3);
    assert_eq!(cluster.resting(), 0, "everybody is awake");
    assert!(cluster.applied.iter().all(|applied| applied.len() == 1), "and has it");
    cluster.tick(20);
    assert_eq!((cluster.resting(), cluster.terms()), (4, terms));
}

#[test]
fn a_leader_that_rests_and_is_cut_off_leads_no_more_and_another_does() {
    let mut cluster = Cluster::new(4);
    cluster.tick(40);
    let old = cluster.leader().unwrap();
    assert_eq!(cluster.resting(), 4);
    cluster.cut_off = vec![old];
    // A timeout and the few ticks of who comes next, and not of the one who is gone.
    cluster.tick(13);
    let new = cluster.leader().expect("the others elect");
    cluster.tick(20);
    assert!(!cluster.core(old).leads(SET), "nobody answered it");
    cluster.cut_off.clear();
    cluster.tick(60);
    assert_eq!((cluster.leader(), cluster.resting()), (Some(new), 4));
}

#[test]
fn a_member_that_rests_is_not_content_with_a_beat_of_another_term() {
    let mut cluster = Cluster::new(3);
    cluster.tick(40);
    assert_eq!(cluster.resting(), 3);
    let leader = cluster.leader().unwrap();
    let follower = NodeId(leader.0 % 3 + 1);
    let status = cluster.core(follower).status_of(SET).unwrap();
    let (to, from) = (status.replica, ReplicaId(leader.0 * 10));
    let beat = Beat { set: SET, to, from, term: status.term, commit: status.commit };
    let mut heard = |change: fn(&mut Beat)| {
        let mut beat = beat;
        change(&mut beat);
        let beats = Input::Beats { from: leader, beats: vec![beat], are_answers: false };
        let outputs = cluster.core(follower).turn([beats]);
        (!outputs.heard.is_empty(), outputs.messages.len(), outputs.unheard.len())
    };
    assert_eq!(heard(|_| ()), (true, 0, 0));
    assert_eq!(heard(|beat| beat.to = ReplicaId(77)), (false, 0, 1), "it is for nobody here");
    assert_eq!(heard(|beat| beat.term -= 1), (false, 1, 0), "an old leader is told so");
}

#[test]
fn nothing_is_told_before_it_is_kept() {
    let mut core = Core::new(Settings::default(), 1);
    core.add(member(1, 3), Vec::new()).unwrap();
    let mut vote = Message::default();
    vote.set_msg_type(MessageType::MsgRequestVote);
    (vote.from, vote.to, vote.term, vote.index, vote.log_term) = (20, 10, 5, 9, 1);
    let message = PeerMessage { set: SET, message: vote };
    let outputs = core.turn([Input::Message { from: NodeId(2), message }]);
    assert_eq!(outputs.appends.len(), 1, "the vote is to be kept");
    let kept = outputs.appends[0].1.state.as_ref().unwrap();
    assert_eq!((kept.term, kept.vote), (5, 20));
    assert!(outputs.messages.is_empty(), "and is told to nobody before");
    let outputs = core.turn([Input::Persisted(outputs.turn)]);
    assert_eq!(outputs.messages.len(), 1);
}

fn message(kind: MessageType, term: u64, change: impl FnOnce(&mut Message)) -> PeerMessage {
    let mut message = Message::default();
    message.set_msg_type(kind);
    (message.from, message.to, message.term) = (20, 10, term);
    change(&mut message);
    PeerMessage { set: SET, message }
}

fn entry(index: u64, term: u64) -> Entry {
    let mut entry = Entry::default();
    (entry.index, entry.term, entry.context) = (index, term, context_of(1, 100));
    entry
}

#[test]
fn what_a_peer_should_never_send_freezes_nobody() {
    let mut core = Core::new(Settings::default(), 1);
    core.add(member(1, 3), Vec::new()).unwrap();
    let append = message(MessageType::MsgAppend, 2, |it| {
        (it.index, it.log_term, it.commit) = (1, 1, 2);
        it.set_entries(vec![entry(2, 2), entry(3, 2)].into());
    });
    let mut turn = |input: PeerMessage| {
        let outputs = core.turn([Input::Message { from: NodeId(2), message: input }]);
        let persisted = core.turn([Input::Persisted(outputs.turn)]);
        assert!(outputs.frozen.is_empty() && persisted.frozen.is_empty());
    };
    turn(append);
    let image =
        |index, term| snapshot_of(EntryPlace { index, term }, &member(1, 3).state.configuration);
    let hostile = [
        message(MessageType::MsgHeartbeat, 2, |it| it.commit = 1_000),
        message(MessageType::MsgAppend, 3, |it| {
            (it.index, it.log_term) = (1, 1);
            it.set_entries(vec![entry(2, 3)].into());
        }),
        message(MessageType::MsgAppend, 3, |it| {
            (it.index, it.log_term) = (3, 2);
            it.set_entries(vec![entry(9, 3)].into());
        }),
        message(MessageType::MsgAppend, 3, |it| (it.index, it.log_term) = (u64::MAX, 2)),
        message(MessageType::MsgSnapshot, 9, |_| ()),
        // An image up to the last entry that is committed, or before it, takes nothing back.
        message(MessageType::MsgSnapshot, 9, |it| it.set_snapshot(image(2, 9))),
        message(MessageType::MsgSnapshot, 9, |it| it.set_snapshot(image(2, 2))),
        message(MessageType::MsgSnapshot, 9, |it| it.set_snapshot(image(1, 9))),
        message(MessageType::MsgReadIndexResp, 2, |_| ()),
        message(MessageType::MsgTimeoutNow, 2, |it| it.from = 30),
        // Without a term the library would not look who says it, nor whether it can be.
        message(MessageType::MsgHeartbeat, 0, |it| it.commit = 1_000),
        message(MessageType::MsgAppend, 0, |it| {
            (it.index, it.log_term) = (1, 1);
            it.set_entries(vec![entry(2, 3)].into());
        }),
        // A follower would hand these on, and they are not its own.
        message(MessageType::MsgTransferLeader, 2, |_| ()),
        message(MessageType::MsgReadIndex, 2, |it| it.set_entries(vec![entry(0, 0)].into())),
        message(MessageType::MsgRequestVote, u64::MAX, |_| ()),
    ];
    for one in hostile {
        turn(one);
    }
    let status = core.status_of(SET).unwrap();
    assert_eq!((status.last, status.frozen), (3, None), "what was committed stays");
    assert!(status.term < u64::MAX, "somebody can be elected again");
    assert_ne!(status.role, Role::Leader);
}

#[test]
fn messages_come_as_they_were_sent_and_any_bytes_are_refused_or_read() {
    let sent = message(MessageType::MsgAppend, 7, |it| {
        (it.index, it.log_term, it.commit, it.reject, it.reject_hint) = (300, 6, 299, true, 12);
        it.context = Bytes::from_static(b"context");
        let mut last = entry(302, 7);
        last.data = Bytes::from_static(b"body");
        it.set_entries(vec![entry(301, 6), last].into());
    });
    let mut bytes = Vec::new();
    sent.encode(&mut bytes);
    assert_eq!(PeerMessage::decode(Bytes::from(bytes.clone())), Ok(sent));
    for length in 0..bytes.len() {
        assert!(PeerMessage::decode(Bytes::copy_from_slice(&bytes[..length])).is_err());
    }
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[place] ^= 1 << bit;
            let _ = PeerMessage::decode(Bytes::from(bad));
        }
    }
}

/// Of two voters and a learner one voter is cut off: what the other one and the learner have is not decided, and the learner elects nobody.
#[test]
fn acknowledgements_and_votes_of_a_learner_decide_nothing() {
    let members = || (1..=3).map(|id| (ReplicaId(id * 10), NodeId(id)));
    let mut cluster = Cluster::new(3);
    for node in 1..=3 {
        let configuration = Configuration::of_members(members(), 2);
        let state = GroupState::born(SET, ReplicaId(node * 10), configuration);
        let mut core = Core::new(Settings::default(), node);
        core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
        cluster.cores[node as usize - 1] = core;
    }
    cluster.tick(20);
    let leader = cluster.leader().expect("two voters elect");
    assert_ne!(leader, NodeId(3), "a learner does not lead");
    let other = NodeId(3 - leader.0);
    cluster.cut_off = vec![other];
    cluster.propose(leader, 1, b"alone");
    // Not so long that the leader gives up.
    cluster.tick(5);
    assert_eq!(cluster.core(NodeId(3)).status_of(SET).unwrap().last, 3, "the learner has it");
    assert!(cluster.applied.iter().all(Vec::is_empty), "and it is not decided");
    // Without the leader the other voter has the learner alone.
    cluster.cut_off = vec![leader];
    cluster.tick(200);
    assert_eq!(cluster.leader(), None);
    cluster.cut_off.clear();
    cluster.tick(60);
    assert!(cluster.leader().is_some(), "both voters elect again");
}

/// A change of members lies on disk together with the knowledge that the change before it is committed. A node that restarts with the
/// one and without the other would ask the members of before for their votes: `crates/model` tells how two leaders come of that.
#[test]
fn a_change_is_kept_with_the_commit_of_the_change_before_it() {
    use super::changes::{Change, Step};
    use super::entries::change_context;
    let mut core = Core::new(Settings::default(), 1);
    core.add(member(1, 3), Vec::new()).unwrap();
    let change = |index: u64, change: Change| {
        let mut entry = entry(index, 2);
        entry.set_entry_type(raft::eraftpb::EntryType::EntryConfChangeV2);
        entry.context = change_context(100, &change.encode());
        entry
    };
    let steps = vec![Step::Voter(ReplicaId(40), NodeId(4)), Step::Remove(ReplicaId(30))];
    let enter = change(2, Change { is_joint: true, steps });
    let messages = [
        message(MessageType::MsgAppend, 2, |it| {
            (it.index, it.log_term, it.commit) = (1, 1, 1);
            it.set_entries(vec![enter].into());
        }),
        // It is committed, and not applied yet: rows before it take their time.
        message(MessageType::MsgHeartbeat, 2, |it| it.commit = 2),
        message(MessageType::MsgAppend, 2, |it| {
            (it.index, it.log_term, it.commit) = (2, 2, 2);
            it.set_entries(vec![change(3, Change::leave())].into());
        }),
    ];
    let (mut kept_commit, mut kept_last) = (0, 0);
    for message in messages {
        let outputs = core.turn([Input::Message { from: NodeId(2), message }]);
        for (_, append) in &outputs.appends {
            kept_commit = append.state.as_ref().map_or(kept_commit, |state| state.commit);
            kept_last = append.entries.last().map_or(kept_last, |entry| entry.index);
        }
        core.turn([Input::Persisted(outputs.turn)]);
    }
    assert_eq!(kept_last, 3, "the end of the joint configuration is on disk");
    assert!(kept_commit >= 2, "and that its begin is committed is not: {kept_commit}");
}

/// One that went from the voters to the learners may be the only one to know it: it has more than the others, so it refuses them its
/// vote, and asks for none itself (seed 70,002,876).
#[test]
fn who_refuses_a_vote_in_an_earlier_term_tells_what_is_committed() {
    let mut core = Core::new(Settings::default(), 1);
    core.add(member(1, 3), Vec::new()).unwrap();
    let append = message(MessageType::MsgAppend, 4, |it| {
        (it.index, it.log_term, it.commit) = (1, 1, 1);
        it.set_entries(vec![entry(2, 4)].into());
    });
    let outputs = core.turn([Input::Message { from: NodeId(2), message: append }]);
    core.turn([Input::Persisted(outputs.turn)]);
    let asks = |core: &mut Core| {
        let outputs = core.turn([Input::Tick]);
        let kinds = outputs.messages.iter().map(|(_, it)| it.message.get_msg_type());
        kinds.into_iter().any(|kind| kind == MessageType::MsgRequestPreVote)
    };
    assert!((0..100).any(|_| asks(&mut core)), "it asks for votes");
    assert_eq!(core.status_of(SET).map(|it| it.commit), Some(1));
    let refusal = message(MessageType::MsgRequestPreVoteResponse, 3, |it| {
        (it.reject, it.commit, it.commit_term) = (true, 2, 4);
    });
    core.turn([Input::Message { from: NodeId(2), message: refusal }]);
    assert_eq!(core.status_of(SET).map(|it| it.commit), Some(2));
}

/// Each state takes as much of the log as some entries, and who starts without the last of them hears it again.
#[test]
fn that_more_is_committed_is_kept_once_in_a_tick() {
    let mut core = Core::new(Settings::default(), 1);
    core.add(member(1, 3), Vec::new()).unwrap();
    let mut kept_commit = |index: u64, is_ticked: bool| {
        let message = message(MessageType::MsgAppend, 2, |it| {
            let log_term = if index == 2 { 1 } else { 2 };
            (it.index, it.log_term, it.commit) = (index - 1, log_term, index - 1);
            it.set_entries(vec![entry(index, 2)].into());
        });
        let tick = is_ticked.then_some(Input::Tick);
        let inputs = tick.into_iter().chain([Input::Message { from: NodeId(2), message }]);
        let outputs = core.turn(inputs);
        core.turn([Input::Persisted(outputs.turn)]);
        let entries = outputs.appends.iter().flat_map(|(_, append)| &append.entries);
        assert_eq!(entries.map(|entry| entry.index).collect::<Vec<_>>(), [index], "it is kept");
        outputs.appends.iter().find_map(|(_, append)| append.state.as_ref()).map(|it| it.commit)
    };
    assert_eq!(kept_commit(2, false), Some(1), "with the term");
    assert_eq!(kept_commit(3, false), None);
    assert_eq!(kept_commit(4, false), None);
    assert_eq!(kept_commit(5, true), Some(4), "in the next tick");
    assert_eq!(kept_commit(6, false), None);
}

/// What came by itself, without entries, is on disk with the next ones: a folder of a node that stopped tells nearly all that is committed.
#[test]
fn what_a_heartbeat_said_is_committed_is_kept_with_the_next_entries() {
    let mut core = Core::new(Settings::default(), 1);
    core.add(member(1, 3), Vec::new()).unwrap();
    let mut kept_commit = |message: PeerMessage| {
        let outputs = core.turn([Input::Tick, Input::Message { from: NodeId(2), message }]);
        core.turn([Input::Persisted(outputs.turn)]);
        outputs.appends.iter().find_map(|(_, append)| append.state.as_ref()).map(|it| it.commit)
    };
    let append = |index: u64, commit: u64| {
        message(MessageType::MsgAppend, 2, |it| {
            let log_term = if index == 2 { 1 } else { 2 };
            (it.index, it.log_term, it.commit) = (index - 1, log_term, commit);
            it.set_entries(vec![entry(index, 2)].into());
        })
    };
    assert_eq!(kept_commit(append(2, 1)), Some(1), "with the term");
    assert_eq!(kept_commit(message(MessageType::MsgHeartbeat, 2, |it| it.commit = 2)), None);
    assert_eq!(kept_commit(append(3, 2)), Some(2));
    assert_eq!(kept_commit(append(4, 2)), None, "nothing is new");
}

/// Who leads when it is taken away (it was elected while a joint configuration lasted, say) has entries on their way whose
/// acknowledgements come afterwards. The library would look for what the member has itself.
#[test]
fn who_is_taken_away_while_it_leads_leads_no_longer() {
    use super::changes::{Change, Step};
    let mut cluster = Cluster::new(4);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    let away = Change { is_joint: false, steps: vec![Step::Remove(ReplicaId(leader.0 * 10))] };
    cluster.core(leader).tell(SET, |member| member.propose_change(&away, 100));
    cluster.input(leader, Input::Tick);
    let (kind, now_s, body, before) = (1, 100, Bytes::from_static(b"behind"), Vec::new());
    let ticket = Some(Ticket(1));
    cluster.input(leader, Input::Propose { set: SET, ticket, kind, now_s, body, before });
    cluster.deliver_all();
    let status = cluster.core(leader).status_of(SET).unwrap();
    assert_eq!(status.frozen, None);
    assert_ne!(status.role, Role::Leader);
    cluster.tick(40);
    let next = cluster.leader().expect("another one leads");
    assert_ne!(next, leader);
    for node in (1..=4).map(NodeId).filter(|node| *node != leader) {
        let applied = &cluster.applied[node.0 as usize - 1];
        assert!(applied.iter().any(|it| it.1 == b"behind".as_slice()), "what others have goes on");
    }
}

/// Beside a single voter: the library takes whoever leads for it, and lets it answer alone.
#[test]
fn a_leader_that_only_follows_from_now_on_answers_no_strong_read() {
    use super::changes::{Change, Step};
    let mut cluster = Cluster::new(2);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    let steps = vec![Step::Learner(ReplicaId(leader.0 * 10), leader)];
    let change = Change { is_joint: false, steps };
    cluster.core(leader).tell(SET, |member| member.propose_change(&change, 100));
    cluster.input(leader, Input::Tick);
    cluster.deliver_all();
    cluster.cut_off = vec![leader];
    cluster.input(leader, Input::Read { set: SET, ticket: Ticket(1) });
    cluster.tick(40);
    assert!(!cluster.answers.contains(&(Ticket(1), Answer::MayRead)), "{:?}", cluster.answers);
    assert!(cluster.leader().is_some_and(|it| it != leader));
}

/// If the others lost this node too, they would ask those who were taken away for their votes, which may be gone.
#[test]
fn members_are_others_when_most_of_them_know_it() {
    use super::changes::{Goal, Next};
    let mut cluster = Cluster::new(3);
    cluster.tick(13);
    let leader = cluster.leader().unwrap();
    let gone = NodeId(if leader == NodeId(1) { 2 } else { 1 });
    let left: Vec<NodeId> = (1..=3).map(NodeId).filter(|it| *it != gone).collect();
    let voters = left.iter().map(|node| (ReplicaId(node.0 * 10), *node)).collect();
    let goal = Goal { voters, learners: Vec::new() };
    let is_settled = |cluster: &mut Cluster| {
        let status = cluster.core(leader).status_of(SET).unwrap();
        status.voters == left && !status.is_joint
    };
    let next = |cluster: &mut Cluster| {
        cluster.core(leader).ask(SET, |member| Some(member.next_change(Some(&goal)))).unwrap()
    };
    for _ in 0..2 {
        let Next::Propose(change) = next(&mut cluster) else { panic!("a step") };
        cluster.core(leader).tell(SET, |member| member.propose_change(&change, 100));
        cluster.input(leader, Input::Tick);
        // Until the leader knows that it is over, and not further: nobody was told so yet.
        while !is_settled(&mut cluster) {
            let Some((to, input)) = cluster.on_their_way.pop_front() else { break };
            cluster.input(to, input);
        }
    }
    assert!(is_settled(&mut cluster));
    assert_eq!(next(&mut cluster), Next::Wait, "the leader alone knows it");
    cluster.deliver_all();
    cluster.tick(3);
    assert_eq!(next(&mut cluster), Next::Done);
}
