//! Lanes over real sockets of this machine: what is large does not stand before what is urgent, and each lane keeps its order.

use replica::group::TransferMessage;
use tokio::io::AsyncReadExt;
use types::SetId;

use super::frame::{Frame, FrameReader};
use super::pack_tests::noise;
use super::tests::{ByHand, Node, hello, request, until, within};
use super::*;

const CHUNK_BYTES: usize = 512 * 1024;

/// A chunk that packing does not make smaller.
fn chunk(sequence: u32) -> NodeMessage {
    let bytes = noise(u64::from(sequence) + 1, CHUNK_BYTES);
    let (number, set, sum, is_last) = (1, SetId(1), 0, false);
    NodeMessage::Transfer(TransferMessage::Chunk { number, set, sequence, bytes, sum, is_last })
}

fn ping(clock_us: i64) -> NodeMessage {
    NodeMessage::Ping { clock_us, shown: 1 }
}

/// What came, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Ping(i64),
    Request(u64),
    Chunk(u32),
}

fn in_short(message: &NodeMessage) -> Came {
    match message {
        NodeMessage::Ping { clock_us, .. } => Came::Ping(*clock_us),
        NodeMessage::Request { number, .. } => Came::Request(*number),
        NodeMessage::Transfer(TransferMessage::Chunk { sequence, .. }) => Came::Chunk(*sequence),
        other => panic!("nobody sent {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_stands_before_nothing() {
    const CHUNKS: u32 = 30;
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let (mut stream, _) = other.greet(&node, hello(other.id)).await.unwrap();
    until("they are connected", || node.status(other.id).connected).await;
    node.mesh.send_all((0..CHUNKS).map(|sequence| (other.id, chunk(sequence))).collect());
    // Nobody reads: the system takes some, the rest waits.
    let queued = || node.status(other.id).lanes.bulk.queued_messages;
    let (mut waiting, mut calm) = (u64::from(CHUNKS) + 1, 0);
    // On a busy machine one who writes may not have had its turn for a while.
    while calm < 10 {
        let now = queued();
        calm = if now == waiting { calm + 1 } else { 0 };
        waiting = now;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(waiting > 4, "the system took nearly all: {waiting} wait");
    node.mesh.send_all(vec![
        (other.id, request(1, 10)),
        (other.id, chunk(CHUNKS)),
        (other.id, ping(1)),
        (other.id, request(2, 10)),
        (other.id, ping(2)),
    ]);
    let mut came = Vec::new();
    let bytes_max = MeshBounds::default().frame_bytes_max;
    let mut reader = FrameReader::new(bytes_max).taking_packed(true);
    within("all of it", async {
        while came.len() < CHUNKS as usize + 5 {
            assert!(stream.read_buf(reader.room()).await.unwrap() > 0);
            while let Some(frame) = reader.next_frame().unwrap() {
                if let Frame::Messages(messages) = frame {
                    came.extend(messages.iter().map(in_short));
                }
            }
        }
    })
    .await;
    let place = |wanted| came.iter().position(|it| *it == wanted).unwrap();
    // Only what was being written goes before it; all the rest comes after.
    let after = came[place(Came::Ping(1))..].iter().filter(|it| matches!(it, Came::Chunk(_)));
    assert!(after.count() as u64 >= waiting - 1, "{waiting} waited: {came:?}");
    assert_eq!(place(Came::Ping(2)), place(Came::Ping(1)) + 1);
    assert_eq!(place(Came::Request(1)), place(Came::Ping(2)) + 1);
    assert_eq!(place(Came::Request(2)), place(Came::Request(1)) + 1);
    let chunks = came.iter().filter_map(|it| match it {
        Came::Chunk(sequence) => Some(*sequence),
        Came::Ping(_) | Came::Request(_) => None,
    });
    assert!(chunks.eq(0..=CHUNKS), "{came:?}");
    until("all is written", || node.status(other.id).queued_bytes == 0).await;
    let status = node.status(other.id);
    let sum = Lane::ALL.iter().map(|lane| status.lanes.of(*lane).sent_bytes).sum::<u64>();
    assert_eq!(status.sent_bytes, sum);
    assert!(status.lanes.bulk.sent_bytes > u64::from(CHUNKS) * CHUNK_BYTES as u64);
    assert!(status.lanes.consensus.sent_bytes > 0 && status.lanes.requests.sent_bytes > 0);
    assert_eq!(status.dropped, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_lane_leaves_the_others_their_room() {
    let bounds = MeshBounds { bulk_bytes_max: 1 << 20, ..MeshBounds::default() };
    let node = Node::new(1, bounds);
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let (_stream, _) = other.greet(&node, hello(other.id)).await.unwrap();
    until("they are connected", || node.status(other.id).connected).await;
    until("something is dropped", || {
        node.mesh.send(other.id, chunk(0));
        node.status(other.id).lanes.bulk.dropped > 0
    })
    .await;
    let before = node.status(other.id).lanes;
    assert!(before.bulk.queued_bytes <= 1 << 20, "{before:?}");
    node.mesh.send_all(vec![(other.id, ping(1)), (other.id, request(1, 100_000))]);
    let lanes = node.status(other.id).lanes;
    assert_eq!((lanes.consensus.dropped, lanes.requests.dropped), (0, 0));
    assert!(lanes.consensus.queued_messages == 1 || lanes.consensus.sent_bytes > 0, "{lanes:?}");
}

#[test]
fn what_a_node_says_of_itself_is_never_behind_requests() {
    assert_eq!(Lane::of(&NodeMessage::Standing { synced: 1, start: None }), Lane::ALL[0]);
    assert_eq!(Lane::of(&ping(1)), Lane::ALL[0]);
    assert_eq!(Lane::of(&request(1, 1)), Lane::ALL[1]);
    assert_eq!(Lane::of(&chunk(1)), Lane::ALL[2]);
}
