//! Nodes of several versions: none is sent what it does not know, and what it knows not is passed over.

use bytes::Bytes;
use replica::group::{KINDS_FIRST, KINDS_KNOWN};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::SetId;

use super::tests::{Accepted, ByHand, Node, hello, linked, request, until, within};
use super::*;

fn relay(number: u64) -> NodeMessage {
    NodeMessage::Relay { number, set: SetId(1), body: Bytes::new() }
}

fn note() -> NodeMessage {
    NodeMessage::Note(Bytes::from_static(b"{}"))
}

/// The kinds of the messages that come, up to a request of that number.
async fn kinds_until(stream: &mut Accepted, last: u64) -> Vec<u8> {
    let mut reader = frame::FrameReader::new(1 << 20);
    let mut kinds = Vec::new();
    loop {
        let read = within("a frame", stream.read_buf(reader.room())).await.unwrap();
        assert!(read > 0, "the connection ended");
        while let Some(frame) = reader.next_frame().unwrap() {
            let frame::Frame::Messages(messages) = frame else { continue };
            for message in messages {
                kinds.push(message.kind());
                if matches!(message, NodeMessage::Request { number, .. } if number == last) {
                    return kinds;
                }
            }
        }
    }
}

#[tokio::test]
async fn what_another_version_does_not_know_is_not_sent() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    // It says nothing of what it knows, as versions did before there was that.
    let (mut stream, _) = other.greet_knowing(&node, hello(other.id), &[]).await.unwrap();
    until("it is linked", || node.status(other.id).connected).await;
    assert!(node.mesh.knows(other.id, KINDS_FIRST) && !node.mesh.knows(other.id, KINDS_KNOWN));
    let say = |number| {
        vec![(other.id, note()), (other.id, relay(number)), (other.id, request(number, 1))]
    };
    node.mesh.send_all(say(1));
    let first = kinds_until(&mut stream, 1).await;
    assert!(first.iter().all(|kind| *kind <= KINDS_FIRST), "{first:?}");
    // One that sends notes knows them, and nothing further.
    let (mut dialed, _) =
        super::tests::greet(&other.identity, &node, hello(other.id)).await.unwrap();
    let mut frame = frame::FrameWriter::default();
    assert!(frame.push(&note(), 1000));
    dialed.write_all(&frame.take().unwrap().0).await.unwrap();
    dialed.flush().await.unwrap();
    until("its note came", || !node.inbox.messages.lock().is_empty()).await;
    node.mesh.send_all(say(2));
    let second = kinds_until(&mut stream, 2).await;
    assert!(second.contains(&note().kind()) && !second.contains(&relay(0).kind()), "{second:?}");
}

#[tokio::test]
async fn nodes_of_one_version_say_everything() {
    let nodes = [Node::new(1, MeshBounds::default()), Node::new(2, MeshBounds::default())];
    linked(&nodes).await;
    let [one, other] = &nodes;
    one.mesh.send_all(vec![(other.id, relay(7)), (other.id, note())]);
    assert!(one.mesh.knows(other.id, KINDS_KNOWN));
    until("both came", || other.inbox.messages.lock().len() == 2).await;
}

#[test]
fn a_message_of_a_later_version_is_passed_over() {
    let mut writer = frame::FrameWriter::default();
    assert!(writer.push(&request(1, 3), 1000));
    assert!(writer.push(&note(), 1000));
    assert!(writer.push(&request(2, 3), 1000));
    let (mut bytes, _) = writer.take().unwrap();
    // The note becomes one of a kind that nobody knows yet.
    let place = bytes.windows(2).position(|it| it == [1, note().kind()]).unwrap();
    bytes[place + 1] = KINDS_KNOWN + 1;
    let mut reader = frame::FrameReader::new(1 << 20);
    reader.room().extend_from_slice(&bytes);
    let Ok(Some(frame::Frame::Messages(messages))) = reader.next_frame() else { panic!() };
    assert_eq!(messages.iter().map(NodeMessage::kind).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn what_was_agreed_on_is_read() {
    let agreed = |protocol: &[u8]| {
        let agreed = trust::agreed(Some(protocol));
        (agreed.kinds, agreed.packs)
    };
    assert_eq!(trust::agreed(None), trust::Agreed::default());
    assert_eq!(agreed(b"h2"), (None, false));
    assert_eq!(agreed(b"helenus-mesh-"), (None, false));
    assert_eq!(agreed(b"helenus-mesh-999"), (None, false));
    assert_eq!(agreed(b"helenus-mesh-+lz4"), (None, false));
    assert_eq!(agreed(b"helenus-mesh-21"), (Some(21), false));
    assert_eq!(agreed(b"helenus-mesh-21+lz4"), (Some(21), true));
}
