//! Changes of members and transfers, without disks.

use bytes::Bytes;
use storage::Configuration;
use types::{NodeId, ReplicaId, SetId};

use super::changes::{Change, Goal, Next, Step};
use super::transfer::{Taken, TransferMessage};

fn member(id: u64) -> (ReplicaId, NodeId) {
    (ReplicaId(id), NodeId(id))
}

fn goal(voters: &[u64]) -> Goal {
    Goal { voters: voters.iter().copied().map(member).collect(), learners: Vec::new() }
}

#[test]
fn a_set_grows_and_shrinks_step_by_step() {
    let one = Configuration::of_voters([member(1)]);
    let own = ReplicaId(1);
    let add =
        |id| Change { is_joint: false, steps: vec![Step::Learner(ReplicaId(id), NodeId(id))] };
    assert_eq!(goal(&[1, 3, 2]).next(&one, own, |_| true), Next::Propose(add(2)));
    let mut grown = one.clone();
    for id in [2, 3] {
        grown.learners.push(ReplicaId(id));
        grown.nodes.push(member(id));
    }
    assert_eq!(goal(&[1, 2, 3]).next(&grown, own, |_| false), Next::Wait);
    let Next::Propose(joint) = goal(&[1, 2, 3]).next(&grown, own, |_| true) else {
        panic!("a joint change")
    };
    assert!(joint.is_joint && joint.steps.len() == 2);
    let three = Configuration::of_voters([1, 2, 3].map(member));
    assert_eq!(goal(&[2]).next(&three, own, |_| true), Next::HandOver(ReplicaId(2)));
    assert_eq!(goal(&[1, 2, 3]).next(&three, own, |_| true), Next::Done);
    let joint = Configuration { outgoing: vec![ReplicaId(1)], ..three.clone() };
    assert_eq!(goal(&[1]).next(&joint, own, |_| true), Next::Propose(Change::leave()));
    // Numbers are never used again.
    let left = Configuration { highest: ReplicaId(9), ..three };
    assert!(goal(&[1, 5]).flaw(&left).is_some());
    assert_eq!(goal(&[1, 10]).flaw(&left), None);
}

#[test]
fn changes_and_transfers_come_as_they_were_sent() {
    let steps = vec![Step::Voter(ReplicaId(4), NodeId(5)), Step::Remove(ReplicaId(3))];
    let change = Change { is_joint: true, steps };
    assert_eq!(Change::decode(Bytes::from(change.encode())), Ok(change));
    let (set, member) = (SetId(7), ReplicaId(300));
    let bytes = Bytes::from_static(b"rows");
    let sum = crc32fast::hash(&bytes);
    let messages = [
        TransferMessage::Offer { number: 1 << 40, to: member, head: Bytes::from_static(b"head") },
        TransferMessage::Chunk { number: 2, set, sequence: 9, bytes, sum, is_last: true },
        TransferMessage::Answer { number: 3, set, member, taken: Taken::Chunks(4) },
        TransferMessage::Answer { number: 0, set, member, taken: Taken::Refused },
        TransferMessage::Answer { number: 3, set, member, taken: Taken::Whole },
    ];
    for message in messages {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        for length in 0..bytes.len() {
            assert!(TransferMessage::decode(Bytes::copy_from_slice(&bytes[..length])).is_err());
        }
        assert_eq!(TransferMessage::decode(Bytes::from(bytes)), Ok(message));
    }
}
