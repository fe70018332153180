//! Rows are handed over.

use storage::GroupEntry;

use super::super::outgoing::READ_CHUNKS;
use super::super::transfers::CHUNKS_MAX;
use super::broken::needs;
use super::*;
use crate::group::transfer::{Taken, TransferMessage};

/// A fleet whose log is shortened as soon as it holds anything; who leads, and a node that was stopped when its counter was 5. It is 25 by
/// now, and the entries are gone.
fn far_behind() -> (Fleet, NodeId, NodeId) {
    let options = HostOptions { log_bytes_kept: 1, log_bytes_max: 1, ..HostOptions::default() };
    let mut fleet = Fleet::with(3, options);
    fleet.begin(SET, 3);
    fleet.tick(20);
    let leader = fleet.leader(SET).unwrap();
    let late = NodeId(leader.0 % 3 + 1);
    let (key, _) = two_keys();
    fleet.add(leader, SET, key, 5);
    fleet.stop(late);
    for _ in 0..20 {
        fleet.add(leader, SET, key, 1);
    }
    for node in fleet.nodes().into_iter().filter(|node| *node != late) {
        fleet.storage(node).flush(None).unwrap();
    }
    fleet.tick(4);
    (fleet, leader, late)
}

/// Whether a member is told to go on behind its image.
fn tells_of_image(message: &NodeMessage) -> bool {
    let kind = match message {
        NodeMessage::Consensus(it) => Some(it.message.get_msg_type()),
        _ => None,
    };
    kind == Some(MessageType::MsgSnapshot)
}

/// Entries that a member lacks are not there any more: it gets the rows.
#[test]
fn a_member_that_is_too_far_behind_gets_the_rows() {
    let (mut fleet, leader, late) = far_behind();
    let (key, _) = two_keys();
    let cut = fleet.host(leader).core.state(SET).unwrap().cut.index;
    assert!(cut > 20, "the entries are gone: {cut}");
    fleet.start(late);
    fleet.tick(60);
    assert_eq!(fleet.host(late).transfers.installed, 1, "it got the rows");
    assert_eq!(fleet.read(late, SET, key), Some(25));
    fleet.add(leader, SET, key, 1);
    fleet.tick(4);
    assert_eq!(fleet.read(late, SET, key), Some(26), "and goes on");
}

/// A leader whose node does not know yet that the set holds a table hands its rows over as well.
#[test]
fn rows_of_a_table_that_the_leader_does_not_know_are_handed_over_too() {
    let options = HostOptions { log_bytes_kept: 1, log_bytes_max: 1, ..HostOptions::default() };
    let mut fleet = Fleet::with(3, options);
    for node in fleet.nodes() {
        fleet.host(node).set_ranges(Box::new(|_| Some((vec![COUNTERS], RingRange::FULL))));
    }
    fleet.begin(SET, 3);
    fleet.tick(20);
    let leader = fleet.leader(SET).unwrap();
    let late = NodeId(leader.0 % 3 + 1);
    let (key, _) = two_keys();
    fleet.stop(late);
    for value in 1..=20 {
        let request = fleet.request(vec![put(key, value, value)]);
        assert!(fleet.ask(leader, SET, request).is_done());
    }
    for node in fleet.nodes().into_iter().filter(|node| *node != late) {
        fleet.storage(node).flush(None).unwrap();
    }
    fleet.tick(4);
    fleet.start(late);
    fleet.tick(60);
    assert_eq!(fleet.host(late).transfers.installed, 1, "it got the rows");
    assert_eq!(fleet.read_of(late, SET, OTHERS, key), Some(20));
}

/// While the rows of another set are on their way into the trees, consensus does not hear of a second image: the log of all sets would wait.
#[test]
fn a_second_image_waits_and_keeps_nobody_waiting() {
    let (mut fleet, leader, late) = far_behind();
    let (key, _) = two_keys();
    fleet.start(late);
    let other = SetId(77);
    fleet.host(late).pretend_to_install(other, true);
    // Longer than a transfer without progress is kept.
    fleet.tick(300);
    assert_eq!(fleet.host(late).transfers.installed, 0);
    assert_eq!(fleet.host(leader).transfers.begun, 1, "it is not begun anew");
    assert!(fleet.host(late).stalled.is_empty(), "the log goes on");
    fleet.host(late).pretend_to_install(other, false);
    fleet.settle();
    assert_eq!(fleet.host(late).transfers.installed, 1, "as soon as it may: nobody says it again");
    assert_eq!(fleet.read(late, SET, key), Some(25));
}

/// Without the file the next start would take the rows for being in the trees. An image that could not be put there is tried again then.
#[test]
fn rows_that_the_log_counts_on_stay_though_their_member_is_frozen() {
    let (mut fleet, _, late) = far_behind();
    let (key, _) = two_keys();
    fleet.loses = |_, _, message| tells_of_image(message);
    fleet.start(late);
    fleet.tick(60);
    fleet.slow_disks.push(late);
    fleet.loses = |_, _, _| false;
    fleet.tick(60);
    assert!(fleet.host(late).core.ask(SET, |member| member.installing()).is_some());
    fleet.host(late).core.freeze(SET, "on purpose");
    fleet.tick(1);
    fleet.slow_disks.clear();
    fleet.tick(4);
    assert!(!fleet.host(late).core.could_not_install(SET), "they are in their files");
    fleet.restart(late);
    fleet.tick(60);
    assert_eq!(fleet.status(late, SET).frozen, None);
    assert_eq!(fleet.read(late, SET, key), Some(25));
}

/// The disk may have been full for a moment: what the log counts on stays, and so does what the log says of it, until the next start.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test damages a file, and mends it")]
fn an_image_that_cannot_be_put_into_the_trees_is_tried_again_at_the_next_start() {
    let (mut fleet, _, late) = far_behind();
    let (key, _) = two_keys();
    let folder = fleet.machine(late).folder.0.join("log");
    let staged = || {
        let files = std::fs::read_dir(&folder).unwrap().map(|it| it.unwrap());
        files.map(|it| it.path()).find(|it| it.to_string_lossy().contains("00000001-"))
    };
    fleet.loses = |_, _, message| tells_of_image(message);
    fleet.start(late);
    fleet.tick(60);
    let file = staged().expect("it is here");
    let rows = std::fs::read(&file).unwrap();
    std::fs::write(&file, &rows[..rows.len() / 2]).unwrap();
    fleet.loses = |_, _, _| false;
    fleet.tick(60);
    assert!(fleet.status(late, SET).frozen.is_some(), "its rows are not readable");
    // The log goes on, and forgets what nobody needs.
    let other = SetId(77);
    let state =
        GroupState::born(other, ReplicaId(5), Configuration::of_voters([(ReplicaId(5), late)]));
    fleet.host(late).begin(state).unwrap();
    fleet.tick(20);
    let value = Bytes::from(vec![7; 64 * 1024]);
    for round in 0..20 {
        let action = CellAction::Set { path: None, value: value.clone(), expiry: None };
        let request = fleet.request(vec![mutation(OTHERS, 9, row(round, action))]);
        assert!(fleet.ask(late, other, request).is_done());
    }
    fleet.storage(late).flush(None).unwrap();
    fleet.tick(40);
    std::fs::write(staged().expect("it stays"), rows).unwrap();
    fleet.restart(late);
    fleet.tick(60);
    assert_eq!(fleet.status(late, SET).frozen, None);
    assert_eq!(fleet.read(late, SET, key), Some(25));
}

/// What is committed while the rows are on their way into the trees is applied afterwards, in its order, and not all at once.
#[test]
fn what_waited_for_an_image_is_applied_bit_by_bit() {
    let mut fleet = Fleet::with(3, HostOptions::default());
    fleet.begin(SET, 3);
    fleet.tick(20);
    let leader = fleet.leader(SET).unwrap();
    let follower = NodeId(leader.0 % 3 + 1);
    let (key, _) = two_keys();
    fleet.add(leader, SET, key, 5);
    fleet.tick(4);
    fleet.host(follower).pretend_to_install(SET, true);
    for _ in 0..20 {
        fleet.add(leader, SET, key, 1);
    }
    fleet.tick(4);
    assert_eq!(fleet.read(follower, SET, key), Some(5), "it waits");
    fleet.host(follower).pretend_to_be_installed(SET);
    fleet.tick(4);
    assert_eq!(fleet.read(follower, SET, key), Some(25));
    fleet.add(leader, SET, key, 1);
    fleet.tick(4);
    assert_eq!(fleet.read(follower, SET, key), Some(26), "and goes on");
}

/// A member that has an image says so, where its first answer was lost: its leader offers the same one again, and can commit nothing to
/// offer another before it knows how far the member is.
#[test]
fn a_member_that_has_an_image_says_so() {
    let options = HostOptions { log_bytes_kept: 1, log_bytes_max: 1, ..HostOptions::default() };
    let mut fleet = Fleet::with(3, options);
    fleet.begin(SET, 3);
    fleet.tick(20);
    let leader = fleet.leader(SET).unwrap();
    let (late, other) = (NodeId(leader.0 % 3 + 1), NodeId((leader.0 + 1) % 3 + 1));
    let (key, _) = two_keys();
    fleet.add(leader, SET, key, 5);
    fleet.stop(late);
    for _ in 0..20 {
        fleet.add(leader, SET, key, 1);
    }
    for node in [leader, other] {
        fleet.storage(node).flush(None).unwrap();
    }
    fleet.tick(4);
    // From now on nothing is committed without the one that is late, and what it says it has is lost.
    fleet.stop(other);
    fleet.loses = |_, _, message| {
        let NodeMessage::Consensus(PeerMessage { message, .. }) = message else { return false };
        message.get_msg_type() == MessageType::MsgAppendResponse && !message.reject
    };
    fleet.start(late);
    // So long that the leader gives its first offer up.
    fleet.tick(140);
    assert_eq!(fleet.host(late).transfers.installed, 1, "it got the rows");
    let commit = |fleet: &mut Fleet, node| fleet.host(node).core.status_of(SET).unwrap().commit;
    let before = commit(&mut fleet, late);
    assert!(fleet.host(leader).transfers.begun > 1, "they are offered again");
    fleet.loses = |_, _, _| false;
    fleet.tick(60);
    assert!(fleet.leader(SET).is_some(), "somebody leads");
    assert!(commit(&mut fleet, late) >= before, "what was committed stays");
    assert_eq!(fleet.host(late).transfers.installed, 1, "once");
    let leader = fleet.leader(SET).unwrap();
    fleet.add(leader, SET, key, 1);
    fleet.tick(4);
    assert_eq!(fleet.read(late, SET, key), Some(26), "and goes on");
}

/// A fleet in which a node was stopped before many rows were written, each of which is a chunk of an image; who leads, and that node, which
/// runs again and whose disk takes long to take what comes.
fn slow_to_write() -> (Fleet, NodeId, NodeId) {
    let options = HostOptions {
        log_bytes_kept: 1,
        log_bytes_max: 1,
        chunk_bytes: 1,
        staged_sync_bytes: 1,
        ..HostOptions::default()
    };
    let mut fleet = Fleet::with(3, options);
    fleet.begin(SET, 3);
    fleet.tick(20);
    let leader = fleet.leader(SET).unwrap();
    let late = NodeId(leader.0 % 3 + 1);
    fleet.stop(late);
    for key in 1..=ROWS {
        fleet.add(leader, SET, key, 1);
    }
    for node in fleet.nodes().into_iter().filter(|node| *node != late) {
        fleet.storage(node).flush(None).unwrap();
    }
    fleet.tick(4);
    fleet.start(late);
    fleet.host(late).transfers.is_slow_to_write = true;
    fleet.tick(20);
    (fleet, leader, late)
}

const ROWS: u8 = 40;

/// What comes while a file is written waits, and is not more than may be on its way. Nothing of an image that was given up meanwhile stands
/// in the way of the next one.
#[test]
fn what_comes_while_an_image_is_written_waits_and_is_bounded() {
    for breaks in [false, true] {
        let (mut fleet, leader, late) = slow_to_write();
        let held = fleet.host(late).transfers.receiving[&SET].held.len();
        // One of them is being written.
        assert_eq!(held + 1, CHUNKS_MAX, "as many as may be on their way");
        if breaks {
            fleet.host(late).link_broke(leader);
            fleet.tick(20);
            assert!(!fleet.host(late).transfers.receiving.contains_key(&SET), "none is taken");
        }
        assert_eq!(fleet.host(late).transfers.installed, 0);
        fleet.host(late).transfers.is_slow_to_write = false;
        fleet.tick(200);
        assert_eq!(fleet.host(late).transfers.installed, 1, "it got the rows");
        assert!(fleet.host(late).transfers.writing.is_empty());
        for key in 1..=ROWS {
            assert_eq!(fleet.read(late, SET, key), Some(1));
        }
    }
}

/// Where the other node takes nothing, no more is read of an image than may be sent next.
#[test]
fn an_image_is_read_a_little_ahead_of_what_is_sent() {
    let (mut fleet, leader, late) = slow_to_write();
    let to = fleet.host(late).core.replica(SET).unwrap();
    let (sent, read) = fleet.host(leader).transfers.sending[&(SET, to)].counts();
    assert_eq!(sent, CHUNKS_MAX);
    assert!((READ_CHUNKS..2 * READ_CHUNKS).contains(&read), "{read}");
}

/// The last sync of an image takes so long that its last chunk comes again, and then the answer that all of it is there is lost.
#[test]
fn that_an_image_is_there_is_asked_again() {
    let (mut fleet, leader, late) = far_behind();
    let (key, _) = two_keys();
    fleet.start(late);
    fleet.host(late).transfers.is_slow_to_write = true;
    fleet.tick(20);
    fleet.loses = |_, _, message| {
        let NodeMessage::Transfer(TransferMessage::Answer { taken, .. }) = message else {
            return false;
        };
        *taken == Taken::Whole
    };
    fleet.host(late).transfers.is_slow_to_write = false;
    fleet.tick(2);
    assert!(fleet.host(late).transfers.receiving[&SET].is_whole());
    fleet.loses = |_, _, _| false;
    fleet.tick(40);
    assert_eq!(fleet.host(late).transfers.installed, 1, "it got the rows");
    assert_eq!(fleet.host(leader).transfers.begun, 1, "once");
    assert_eq!(fleet.read(late, SET, key), Some(25));
}

impl Fleet {
    /// Has storage apply something to a set as if it had been committed there, with the definitions that it needs.
    fn apply(&self, node: NodeId, (set, last): (SetId, &mut u64), now_s: u32, mutation: Mutation) {
        let mutations = [mutation];
        let defines = self.storage(node).propose_defines(set, &mutations).unwrap().into_iter();
        let defines = defines.map(|(kind, body)| (kind, Bytes::from(body))).collect();
        let [mutation] = mutations;
        self.apply_with(node, (set, last), now_s, defines, mutation);
    }

    fn apply_with(
        &self,
        node: NodeId,
        (set, last): (SetId, &mut u64),
        now_s: u32,
        mut bodies: Vec<(u8, Bytes)>,
        mutation: Mutation,
    ) {
        let storage = self.storage(node);
        let request = Request {
            id: None,
            not_after_s: u32::MAX,
            timed_us: None,
            truncates: None,
            splits: None,
            mutations: vec![mutation],
            step: None,
        };
        bodies.push((KIND_REQUEST, request.to_bytes()));
        for (kind, body) in bodies {
            *last += 1;
            let (term, index) = (1, *last);
            let entry = GroupEntry { kind, term, index, now_s, body: body.clone() };
            let append = GroupAppend { entries: vec![entry], ..GroupAppend::default() };
            let slot = storage.append_group(set, &append).unwrap()[0];
            storage.step_log();
            let head = EntryHead { set, kind, term, index, now_s, body_bytes: slot.body_bytes };
            let entry = CommittedEntry { head, position: slot.record, body, request: None };
            storage.apply_group(&mut [entry], |_, _, result| assert!(result.is_ok(), "{result:?}"));
        }
    }
}

/// The rows of a set with one key go from one node to another.
fn hand_over(fleet: &Fleet, (from, to): (NodeId, NodeId), key: u8, last: u64) {
    let replica = ReplicaId(20);
    let place = EntryPlace { index: last, term: 1 };
    let range = RingRange { start: ring(key), last: ring(key) };
    let mut image = fleet.storage(from).image(RIGHT, place, &[OTHERS], range).unwrap();
    let storage = fleet.storage(to);
    let state = GroupState { cut: place, commit: place.index, ..born(RIGHT, to, 1) };
    let newcomer = GroupState::newcomer(RIGHT, state.replica, vec![(state.replica, to)]);
    storage.begin_group(&newcomer).unwrap();
    let mut staging = storage.stage(replica, image.head()).unwrap();
    while let Some(chunk) = image.next_chunk(1_000).unwrap() {
        staging.put(&chunk).unwrap();
    }
    staging.finish().unwrap();
    let position = storage.append_install(&state).unwrap();
    storage.step_log();
    storage.install(RIGHT, replica, place.index, position).unwrap();
}

fn delete_row(key: u8, timestamp_us: i64) -> Mutation {
    let dead = RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: None,
        deletion: Some(Deletion { timestamp_us, deleted_at_s: EPOCH_S }),
        cells: Vec::new(),
    };
    mutation(OTHERS, key, Operation::Row(dead))
}

/// Rows come to a node whose other sets are much further in time. What died lately for the set that came still counts for its next
/// entries, on that node as on the others.
fn what_came_is_purged_no_further_than_its_set_is() -> bool {
    let fleet = Fleet::new(2);
    let (from, to) = (NodeId(1), NodeId(2));
    let (key, other) = two_keys();
    let (early_s, late_s) = (EPOCH_S, EPOCH_S + 1_000);
    // The other set of the receiving node is late, as is its clock, and its table is purged by that.
    fleet.machines[1].seconds.0.store(late_s, Ordering::Relaxed);
    fleet.storage(to).begin_group(&born(SET, to, 1)).unwrap();
    fleet.apply(to, (SET, &mut 1), late_s, put(other, 1, 1));
    fleet.storage(to).flush(None).unwrap();
    fleet.storage(to).compact(None).unwrap();
    // A row died in the set that is to come.
    fleet.storage(from).begin_group(&born(RIGHT, from, 1)).unwrap();
    let mut last = 1;
    fleet.apply(from, (RIGHT, &mut last), early_s, put(key, 10, 5));
    fleet.apply(from, (RIGHT, &mut last), early_s, delete_row(key, 20));
    hand_over(&fleet, (from, to), key, last);
    let storage = fleet.storage(to);
    storage.settle_installs();
    storage.flush(None).unwrap();
    storage.compact(None).unwrap();
    // Something comes that is older than the deletion.
    let nodes = [from, to];
    for node in nodes {
        let late = put(key, 15, 7);
        fleet.apply_with(node, (RIGHT, &mut { last }), early_s + 1, Vec::new(), late);
    }
    let [here, there] = nodes.map(|node| fleet.read_of(node, RIGHT, OTHERS, key));
    assert_eq!(here, None, "it is dead where it was");
    let sums = nodes.map(|node| fleet.storage(node).checksum(RIGHT, OTHERS).unwrap());
    there.is_none() && sums[0] == sums[1]
}

#[test]
fn rows_that_were_handed_over_are_purged_no_further_than_their_set_is() {
    needs(Rule::PurgeAheadOfTransfer, what_came_is_purged_no_further_than_its_set_is);
}

/// A member was here before, and a row died in it that stayed in the cache; by the time of the node's other sets its tree was purged of
/// it. In the time of the set that comes back it would count again (seed 93,007,017).
#[test]
fn what_a_member_left_in_the_cache_does_not_count_for_the_next_one() {
    let fleet = Fleet::new(2);
    let (from, to) = (NodeId(1), NodeId(2));
    let (key, other) = two_keys();
    let (early_s, late_s) = (EPOCH_S, EPOCH_S + 1_000);
    fleet.storage(to).begin_group(&born(RIGHT, to, 1)).unwrap();
    let mut applied = 1;
    fleet.apply(to, (RIGHT, &mut applied), early_s, put(key, 10, 5));
    fleet.apply(to, (RIGHT, &mut applied), early_s, delete_row(key, 20));
    fleet.storage(to).end_group(RIGHT, ReplicaId(5)).unwrap();
    fleet.machines[1].seconds.0.store(late_s, Ordering::Relaxed);
    fleet.storage(to).begin_group(&born(SET, to, 1)).unwrap();
    fleet.apply(to, (SET, &mut 1), late_s, put(other, 1, 1));
    fleet.storage(to).flush(None).unwrap();
    fleet.storage(to).compact(None).unwrap();
    // Where the set went on its partition went, and with it what had died in it.
    fleet.storage(from).begin_group(&born(RIGHT, from, 1)).unwrap();
    let mut last = 1;
    for timestamp_us in 30..36 {
        fleet.apply(from, (RIGHT, &mut last), early_s, delete(OTHERS, key, timestamp_us));
    }
    assert!(last > applied, "it is further than the member that was here");
    hand_over(&fleet, (from, to), key, last);
    let nodes = [from, to];
    for node in nodes {
        fleet.apply_with(node, (RIGHT, &mut { last }), early_s + 1, Vec::new(), put(key, 15, 7));
    }
    let sums = nodes.map(|node| fleet.storage(node).checksum(RIGHT, OTHERS).unwrap());
    assert_eq!(sums[0], sums[1]);
}
