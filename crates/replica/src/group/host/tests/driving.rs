//! Whoever drives the members of a node.

use std::sync::mpsc::{SyncSender, sync_channel};

use super::*;
use crate::group::transfer::TransferMessage;
use crate::group::{Clock, Groups, Transport};

struct Nowhere;

/// Tells on which threads something is sent about rows that are handed over.
struct Overheard(SyncSender<Option<String>>);

impl Transport for Overheard {
    fn send_all(&self, messages: Vec<(NodeId, NodeMessage)>) {
        let is_about_rows =
            |(_, it): &(NodeId, NodeMessage)| matches!(it, NodeMessage::Transfer(_));
        if messages.iter().any(is_about_rows) {
            let _ = self.0.send(std::thread::current().name().map(str::to_owned));
        }
    }

    fn knows(&self, _: NodeId, _: u8) -> bool {
        true
    }
}

impl Transport for Nowhere {
    fn send_all(&self, _: Vec<(NodeId, NodeMessage)>) {}

    fn knows(&self, _: NodeId, _: u8) -> bool {
        true
    }
}

/// What is left of members after a panic is nothing that anybody may go on with.
#[test]
fn nobody_goes_on_with_members_after_a_panic() {
    let fleet = Fleet::with(1, HostOptions::default());
    let (now, storage) = (fleet.now(), Arc::clone(fleet.storage(NodeId(1))));
    let clock: Clock = Arc::new(move || now);
    let opened =
        Groups::open(NodeId(1), Arc::clone(&storage), HostOptions::default(), clock, 1_000);
    let (groups, driver) = opened.unwrap();
    driver.start(Arc::new(Nowhere)).unwrap();
    assert!(!groups.has_failed());
    groups.confirm(SET, Box::new(|_| panic!("on purpose")));
    groups.close();
    assert!(groups.has_failed());
    assert!(storage.poisoned().is_some(), "the node stops, and is started again");
    let (sender, receiver) = sync_channel(1);
    groups.confirm(SET, Box::new(move |is_confirmed| sender.send(is_confirmed).unwrap()));
    assert_eq!(receiver.recv(), Ok(false), "and who asks is answered");
}

/// A thread that serves others has more to do than to wait for a disk: what does not fit into the log is left to the members' own thread.
#[test]
fn whoever_is_not_to_wait_for_the_log_leaves_what_does_not_fit() {
    const VALUE_BYTES: usize = 64 * 1024;
    let (mut fleet, leader) = Fleet::led(1);
    fleet.slow_disks.push(leader);
    fleet.host(leader).wait_for_log(false);
    let synced = fleet.storage(leader).synced_position();
    let large = |key| {
        let value = Bytes::from(vec![key; VALUE_BYTES]);
        mutation(OTHERS, key, row(1, CellAction::Set { path: None, value, expiry: None }))
    };
    // More than two files of the log.
    let written: Vec<Answered> = (1..=12)
        .map(|key| {
            let request = fleet.request(vec![large(key)]);
            fleet.ask(leader, SET, request)
        })
        .collect();
    assert_eq!(fleet.storage(leader).synced_position(), synced, "nobody waited for the disk");
    assert!(fleet.host(leader).is_stalled());
    // Nor does it know that the disk hangs: weak reads that wait for what is on its way go on waiting.
    let host = fleet.host(leader);
    host.behind().answer(SET, host.core().commit(SET).unwrap() + 1);
    fleet.settle();
    assert!(fleet.host(leader).behind().contains(SET));
    fleet.slow_disks.clear();
    fleet.tick(4);
    assert!(written.iter().all(Answered::is_done), "{written:?}");
}

#[test]
fn rows_that_are_handed_over_are_left_to_the_members_own_thread() {
    let fleet = Fleet::with(1, HostOptions::default());
    let (now, storage) = (fleet.now(), Arc::clone(fleet.storage(NodeId(1))));
    let clock: Clock = Arc::new(move || now);
    let opened = Groups::open(NodeId(1), storage, HostOptions::default(), clock, 1_000);
    let (groups, driver) = opened.unwrap();
    let (sender, receiver) = sync_channel(1);
    driver.start(Arc::new(Overheard(sender))).unwrap();
    let other = NodeId(2);
    groups.begin(SET, RingRange::FULL, &[NodeId(1), other], 2);
    groups.meet(vec![NodeId(1), other]);
    let chunk = TransferMessage::Chunk {
        number: 1,
        set: SET,
        sequence: 0,
        sum: crc32fast::hash(&[]),
        bytes: Bytes::new(),
        is_last: true,
    };
    let standing = NodeMessage::Standing { synced: 0, start: None };
    groups.receive(other, vec![standing, NodeMessage::Transfer(chunk)]);
    groups.attend();
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("helenus-sets"));
    groups.close();
}
