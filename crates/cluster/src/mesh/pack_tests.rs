//! Packed frames come back, nobody gets one who did not agree to it, and no bytes do harm.

use bytes::Bytes;
use proptest::prelude::*;
use replica::group::TransferMessage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::SetId;

use super::frame::{Frame, FrameError, FrameReader};
use super::pack::{UNPACKED_BYTES_MAX, pack_frame};
use super::tests::{
    ByHand, Dialed, Node, dial_with, ends, greet, hello, linked, request, say_hello, until, within,
};
use super::*;

const FRAME_BYTES_MAX: usize = 8 << 20;
const PLAIN: &[u8] = b"helenus-mesh-21";

/// Bytes of chance, from a seed.
pub(super) fn noise(mut seed: u64, bytes: usize) -> Bytes {
    let step = |_| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u8
    };
    (0..bytes).map(step).collect()
}

/// As rows are: they differ, and repeat themselves.
fn rows(bytes: usize) -> Bytes {
    let text: String = (0..bytes / 20).map(|row| format!("row {row:>7}, a value;")).collect();
    Bytes::from(text)
}

fn chunk(sequence: u32, bytes: Bytes) -> NodeMessage {
    let (number, set, sum, is_last) = (1, SetId(1), 0, false);
    NodeMessage::Transfer(TransferMessage::Chunk { number, set, sequence, bytes, sum, is_last })
}

fn frame_of(messages: &[NodeMessage]) -> Vec<u8> {
    let mut writer = FrameWriter::default();
    messages.iter().for_each(|message| assert!(writer.push(message, FRAME_BYTES_MAX)));
    writer.take().unwrap().0
}

fn packed(frame: &[u8]) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    let is_packed = pack_frame(frame, &mut out).is_some();
    let packed = out.strip_prefix(b"before").unwrap().to_vec();
    assert_eq!(is_packed, !packed.is_empty());
    is_packed.then_some(packed)
}

fn read(bytes: &[u8], takes_packed: bool) -> Result<Option<Frame>, FrameError> {
    let mut reader = FrameReader::new(FRAME_BYTES_MAX).taking_packed(takes_packed);
    reader.room().extend_from_slice(bytes);
    reader.next_frame()
}

/// A packed frame that says so many bytes come out of the block.
fn claimed(plain_bytes: usize, block: &[u8]) -> Vec<u8> {
    let length = (block.len() as u32 + 5).to_be_bytes();
    [&length[..], &[4], &(plain_bytes as u32).to_be_bytes(), block].concat()
}

proptest! {
    #[test]
    fn packed_frames_come_back(
        parts in prop::collection::vec((any::<u64>(), 0..2000_usize, 1..40_usize), 1..6),
        bit in any::<prop::sample::Index>(),
    ) {
        let messages: Vec<NodeMessage> = parts
            .iter()
            .map(|(seed, bytes, times)| chunk(1, noise(seed | 1, *bytes).repeat(*times).into()))
            .collect();
        let frame = frame_of(&messages);
        let Some(mut packed) = packed(&frame) else { return Ok(()) };
        prop_assert!(packed.len() < frame.len());
        let Ok(Some(Frame::Messages(came))) = read(&packed, true) else { panic!("it does not come back") };
        prop_assert_eq!(format!("{came:?}"), format!("{messages:?}"));
        // Nor does a flipped bit do harm.
        let at = bit.index(packed.len() * 8);
        packed[at / 8] ^= 1 << (at % 8);
        let _ = read(&packed, true);
    }

    #[test]
    fn any_block_does_no_harm(
        block in prop::collection::vec(any::<u8>(), 0..300),
        plain_bytes in 0..2 * UNPACKED_BYTES_MAX,
    ) {
        let _ = read(&claimed(plain_bytes, &block), true);
        let _ = read(&claimed(plain_bytes % 2000, &block), true);
    }
}

#[test]
fn what_packing_does_not_make_smaller_is_not_packed() {
    assert!(packed(&frame_of(&[chunk(1, noise(7, 100_000))])).is_none());
    assert!(packed(&frame_of(&[chunk(1, vec![0; 300].into())])).is_none(), "nothing to gain");
    assert!(packed(&frame_of(&[chunk(1, vec![0; UNPACKED_BYTES_MAX].into())])).is_none());
    assert!(packed(&frame::probe_frame(7)).is_none());
    assert!(packed(&frame_of(&[chunk(1, rows(100_000))])).is_some());
}

#[test]
fn a_bomb_is_refused_before_room_is_made() {
    let bomb = lz4_flex::block::compress(&vec![0; UNPACKED_BYTES_MAX + 1]);
    assert!(bomb.len() < 20_000, "{} bytes", bomb.len());
    let too_long =
        FrameError::TooLong { bytes: UNPACKED_BYTES_MAX + 1, bytes_max: UNPACKED_BYTES_MAX };
    assert_eq!(read(&claimed(UNPACKED_BYTES_MAX + 1, &bomb), true).unwrap_err(), too_long);
    let most = u32::MAX as usize;
    let too_long = FrameError::TooLong { bytes: most, bytes_max: UNPACKED_BYTES_MAX };
    assert_eq!(read(&claimed(most, &bomb), true).unwrap_err(), too_long);
    // One that says less than it is, more than it is, or more than so few bytes can be.
    for says in [0, 1, UNPACKED_BYTES_MAX] {
        let refused = read(&claimed(says, &bomb), true).unwrap_err();
        assert_eq!(refused, FrameError::Malformed, "{says}");
    }
    assert_eq!(read(&claimed(2_551, &[0; 10]), true).unwrap_err(), FrameError::Malformed);
    // A connection with a smaller bound keeps it.
    let mut reader = FrameReader::new(1000).taking_packed(true);
    let block = lz4_flex::block::compress(&[0; 1001]);
    reader.room().extend_from_slice(&claimed(1001, &block));
    let refused = reader.next_frame().unwrap_err();
    assert_eq!(refused, FrameError::TooLong { bytes: 1001, bytes_max: 1000 });
}

#[test]
fn what_comes_out_must_be_messages_and_nothing_else() {
    let pack = |plain: &[u8]| claimed(plain.len(), &lz4_flex::block::compress(plain));
    let frame = frame_of(&[request(1, 100)]);
    assert!(
        matches!(read(&pack(&frame[5..]), true), Ok(Some(Frame::Messages(it))) if it.len() == 1)
    );
    let behind = [&frame[5..], &[0]].concat();
    assert_eq!(read(&pack(&behind), true).unwrap_err(), FrameError::Malformed);
    assert_eq!(read(&pack(&frame[5..frame.len() - 1]), true).unwrap_err(), FrameError::Malformed);
    let many = [0, 1, 0, 1];
    assert_eq!(read(&pack(&many), true).unwrap_err(), FrameError::TooManyMessages(65_537));
    // Nothing packed comes out of what is packed.
    let twice = pack(&pack(&frame[5..])[4..]);
    assert!(read(&twice, true).is_err());
}

/// The example of `docs/formats/mesh.md`.
#[test]
fn the_bytes_are_the_documented_ones() {
    let frame = frame_of(&[chunk(0, vec![0x78; 600].into())]);
    assert_eq!(frame.len(), 632);
    let wanted = [
        &[0, 0, 0, 40, 4, 0, 0, 2, 0x73][..],
        &[0xd2, 0, 0, 0, 1, 0, 0, 2, 0x6b, 1, 11, 1, 1, 1, 13, 0, 0x02, 2, 0],
        &[0x3f, 0xd8, 4, 0x78, 1, 0, 0xff, 0xff, 0x40, 0x60, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78],
    ];
    assert_eq!(packed(&frame), Some(wanted.concat()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_is_packed_and_counted_and_nothing_else_is() {
    let nodes = [Node::new(1, MeshBounds::default()), Node::new(2, MeshBounds::default())];
    linked(&nodes).await;
    let [one, other] = &nodes;
    let (bytes, count) = (512 * 1024, 8);
    let ping = |clock_us| NodeMessage::Ping { clock_us, shown: 1 };
    for sequence in 0..count {
        one.mesh.send_all(vec![
            (other.id, chunk(sequence, rows(bytes))),
            (other.id, request(u64::from(sequence), 100_000)),
            (other.id, ping(1)),
            (other.id, chunk(sequence, rows(2000))),
        ]);
    }
    one.mesh.send(other.id, chunk(count, noise(5, bytes)));
    until("all came", || other.inbox.messages.lock().len() == count as usize * 4 + 1).await;
    let messages = other.inbox.messages.lock().clone();
    let chunks = messages.iter().filter_map(|(_, message)| match message {
        NodeMessage::Transfer(TransferMessage::Chunk { sequence, bytes, .. }) => {
            Some((*sequence, bytes.clone()))
        }
        _ => None,
    });
    let sent = (0..count).flat_map(|sequence| [(sequence, rows(bytes)), (sequence, rows(2000))]);
    assert!(chunks.eq(sent.chain([(count, noise(5, bytes))])), "other chunks came");
    until("all is counted", || one.status(other.id).queued_bytes == 0).await;
    let lanes = one.status(other.id).lanes;
    let plain = u64::from(count) * bytes as u64;
    assert!(lanes.bulk.plain_bytes > plain + bytes as u64, "{lanes:?}");
    assert!(lanes.bulk.sent_bytes < plain / 2 + bytes as u64, "{lanes:?}");
    assert_eq!(lanes.requests.sent_bytes, lanes.requests.plain_bytes);
    assert_eq!(lanes.consensus.sent_bytes, lanes.consensus.plain_bytes);
    assert!(lanes.requests.sent_bytes > u64::from(count) * 100_000);
    let (sent, heard) = (one.status(other.id), other.status(one.id));
    assert!(heard.received_bytes >= sent.sent_bytes);
    assert!(heard.received_bytes < lanes.bulk.plain_bytes);
}

#[tokio::test]
async fn a_node_of_the_version_before_gets_what_it_can_read() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let (mut stream, _) = other.greet_knowing(&node, hello(other.id), &[PLAIN]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(PLAIN));
    until("it is linked", || node.status(other.id).connected).await;
    node.mesh.send(other.id, chunk(3, rows(100_000)));
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
    let messages = within("the chunk", async {
        loop {
            assert!(stream.read_buf(reader.room()).await.unwrap() > 0);
            while let Some(frame) = reader.next_frame().unwrap() {
                if let Frame::Messages(messages) = frame {
                    return messages;
                }
            }
        }
    })
    .await;
    assert_eq!(format!("{messages:?}"), format!("{:?}", [chunk(3, rows(100_000))]));
    until("it is counted", || node.status(other.id).lanes.bulk.sent_bytes > 100_000).await;
    let bulk = node.status(other.id).lanes.bulk;
    assert_eq!(bulk.sent_bytes, bulk.plain_bytes);
}

/// Dials as the version before.
async fn greet_plainly(other: &ByHand, node: &Node) -> Dialed {
    let mut config = trust::dialing(&other.identity, node.identity.fingerprint()).unwrap();
    config.alpn_protocols = vec![PLAIN.to_vec()];
    let stream = within("a handshake", dial_with(config, node)).await.unwrap();
    say_hello(stream, hello(other.id)).await.unwrap().0
}

#[tokio::test]
async fn who_did_not_agree_to_packed_frames_may_not_send_them() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let frame = frame_of(&[chunk(3, rows(100_000))]);
    let packed = packed(&frame).unwrap();
    let came = || node.inbox.messages.lock().len();
    let mut stream = greet_plainly(&other, &node).await;
    stream.write_all(&frame).await.unwrap();
    stream.flush().await.unwrap();
    until("the plain one came", || came() == 1).await;
    stream.write_all(&packed).await.unwrap();
    stream.flush().await.unwrap();
    ends(&mut stream).await;
    assert_eq!(came(), 1);
    let (mut stream, _) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
    stream.write_all(&packed).await.unwrap();
    stream.flush().await.unwrap();
    until("the packed one came", || came() == 2).await;
}

#[tokio::test]
async fn the_right_key_with_wrong_bytes_is_refused_and_may_come_again() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let good = packed(&frame_of(&[chunk(3, rows(100_000))])).unwrap();
    let mut torn = good.clone();
    torn[100..200].fill(0xff);
    let bomb = lz4_flex::block::compress(&vec![0; UNPACKED_BYTES_MAX + 1]);
    let lies =
        [torn, claimed(UNPACKED_BYTES_MAX + 1, &bomb), claimed(1000, &bomb), claimed(9, &[])];
    for (count, lie) in lies.into_iter().enumerate() {
        let (mut stream, _) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
        stream.write_all(&good).await.unwrap();
        stream.write_all(&lie).await.unwrap();
        stream.flush().await.unwrap();
        ends(&mut stream).await;
        until("what stood before it came", || node.inbox.messages.lock().len() == count + 1).await;
    }
}
