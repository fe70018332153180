//! Whoever drives the members of a node.

use std::sync::mpsc::sync_channel;

use super::*;
use crate::group::{Clock, Groups, Transport};

struct Nowhere;

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
    let opened = Groups::open(NodeId(1), storage, HostOptions::default(), clock, 1_000);
    let (groups, driver) = opened.unwrap();
    driver.start(Arc::new(Nowhere)).unwrap();
    assert!(!groups.has_failed());
    groups.confirm(SET, Box::new(|_| panic!("on purpose")));
    groups.close();
    assert!(groups.has_failed());
    let (sender, receiver) = sync_channel(1);
    groups.confirm(SET, Box::new(move |is_confirmed| sender.send(is_confirmed).unwrap()));
    assert_eq!(receiver.recv(), Ok(false), "and who asks is answered");
}
