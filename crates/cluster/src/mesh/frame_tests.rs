//! Frames come back from their bytes, however those are cut into reads, and no bytes do harm.

use bytes::Bytes;
use proptest::prelude::*;
use replica::group::{NodeMessage, ProposalAnswer};
use types::SetId;

use super::frame::*;

const FRAME_BYTES_MAX: usize = 1 << 20;

fn message() -> impl Strategy<Value = NodeMessage> {
    let body = prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    prop_oneof![
        (any::<i64>(), any::<u64>())
            .prop_map(|(clock_us, shown)| NodeMessage::Ping { clock_us, shown }),
        any::<u64>()
            .prop_map(|number| NodeMessage::Answer { number, answer: ProposalAnswer::Busy }),
        (any::<u64>(), any::<u32>(), body).prop_map(|(number, set, body)| {
            NodeMessage::Request { number, set: SetId(set), body }
        }),
    ]
}

/// A frame of messages, or a probe.
fn frames() -> impl Strategy<Value = Vec<Vec<NodeMessage>>> {
    prop::collection::vec(prop::collection::vec(message(), 0..5), 1..6)
}

fn written(frames: &[Vec<NodeMessage>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        let mut writer = FrameWriter::default();
        for message in frame {
            assert!(writer.push(message, FRAME_BYTES_MAX));
        }
        match writer.take() {
            Some((frame, _)) => bytes.extend(frame),
            None => bytes.extend(probe_frame(number as u64)),
        }
    }
    bytes
}

/// All frames, fed in reads of that size.
fn read(bytes: &[u8], read_bytes: usize) -> Result<Vec<Frame>, FrameError> {
    let mut reader = FrameReader::new(FRAME_BYTES_MAX).taking_packed(true);
    let mut frames = Vec::new();
    for part in bytes.chunks(read_bytes) {
        reader.room().extend_from_slice(part);
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn frames_come_back_from_their_bytes(frames in frames(), read_bytes in 1..700_usize) {
        let came = read(&written(&frames), read_bytes).unwrap();
        prop_assert_eq!(came.len(), frames.len());
        for (number, (came, sent)) in came.iter().zip(&frames).enumerate() {
            match came {
                Frame::Messages(messages) => {
                    prop_assert_eq!(format!("{messages:?}"), format!("{sent:?}"));
                }
                Frame::Probe(probe) => {
                    prop_assert!(sent.is_empty());
                    prop_assert_eq!(*probe, number as u64);
                }
                Frame::Echo(_) => prop_assert!(false, "no echo was sent"),
            }
        }
    }

    #[test]
    fn a_stream_cut_short_gives_the_frames_before(frames in frames(), at in any::<prop::sample::Index>()) {
        let mut bytes = written(&frames);
        bytes.truncate(at.index(bytes.len()));
        let came = read(&bytes, 64).unwrap();
        prop_assert!(came.len() < frames.len());
    }

    #[test]
    fn flipped_bits_do_no_harm(
        frames in frames(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        read_bytes in 1..700_usize,
    ) {
        let mut bytes = written(&frames);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let _ = read(&bytes, read_bytes);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0..6_u8) {
        let _ = read(&bytes, 17);
        // Most would end at the length otherwise.
        let length = (bytes.len() as u32 + 1).to_be_bytes();
        let _ = read(&[&length[..], &[kind], &bytes].concat(), 17);
    }
}

#[test]
fn a_long_frame_is_refused_before_room_is_made_for_it() {
    let mut reader = FrameReader::new(1000);
    reader.room().extend_from_slice(&1001_u32.to_be_bytes());
    let error = reader.next_frame().unwrap_err();
    assert_eq!(error, FrameError::TooLong { bytes: 1001, bytes_max: 1000 });
    let mut reader = FrameReader::new(1 << 30);
    reader.room().extend_from_slice(&(1_u32 << 30).to_be_bytes());
    assert!(reader.next_frame().unwrap().is_none());
    let room = reader.room().capacity();
    assert!(room < 1 << 20, "room for {room} bytes, and four came");
}

#[test]
fn a_message_that_does_not_fit_is_left_out() {
    let request = |bytes: usize| {
        let body = Bytes::from(vec![7; bytes]);
        NodeMessage::Request { number: 1, set: SetId(1), body }
    };
    let mut writer = FrameWriter::default();
    assert!(!writer.push(&request(1000), 1000));
    assert!(writer.take().is_none());
    assert!(writer.push(&request(500), 1000));
    assert!(!writer.push(&request(500), 1000));
    let (bytes, count) = writer.take().unwrap();
    assert_eq!(count, 1);
    let mut reader = FrameReader::new(bytes.len() - 4);
    reader.room().extend_from_slice(&bytes);
    assert!(
        matches!(reader.next_frame(), Ok(Some(Frame::Messages(messages))) if messages.len() == 1)
    );
    assert_eq!(reader.unfinished_bytes(), 0);
}

#[test]
fn messages_begin_within_the_first_mebibyte() {
    let body = Bytes::from(vec![7; MESSAGES_BEGIN_MAX / 2]);
    let request = NodeMessage::Request { number: 1, set: SetId(1), body };
    let mut writer = FrameWriter::default();
    let max = 10 * MESSAGES_BEGIN_MAX;
    assert!(writer.push(&request, max) && writer.push(&request, max));
    assert!(!writer.push(&request, max), "the third would begin behind it");
    let (mut bytes, _) = writer.take().unwrap();
    let read = |bytes: &[u8]| {
        let mut reader = FrameReader::new(max);
        reader.room().extend_from_slice(bytes);
        reader.next_frame()
    };
    assert!(matches!(read(&bytes), Ok(Some(Frame::Messages(messages))) if messages.len() == 2));
    // Nor is one read that does.
    let mut ping = Vec::new();
    NodeMessage::Ping { clock_us: 1, shown: 1 }.encode(&mut ping);
    bytes.extend_from_slice(&(ping.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&ping);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes[8] = 3;
    assert_eq!(read(&bytes).unwrap_err(), FrameError::Malformed);
}

#[test]
fn a_frame_says_no_more_messages_than_it_may_have() {
    let frame = |kind: u8, rest: &[u8]| {
        let length = (rest.len() as u32 + 1).to_be_bytes();
        read(&[&length[..], &[kind], rest].concat(), 100)
    };
    let many = (FRAME_MESSAGES_MAX + 1).to_be_bytes();
    assert_eq!(frame(1, &many).unwrap_err(), FrameError::TooManyMessages(FRAME_MESSAGES_MAX + 1));
    assert_eq!(frame(1, &2_u32.to_be_bytes()).unwrap_err(), FrameError::Malformed);
    assert_eq!(frame(9, &[]).unwrap_err(), FrameError::UnknownKind(9));
    assert_eq!(frame(2, &[0; 9]).unwrap_err(), FrameError::Malformed);
    assert_eq!(read(&[0; 4], 4).unwrap_err(), FrameError::Malformed);
}

/// The examples of `docs/formats/mesh.md`.
#[test]
fn the_bytes_are_the_documented_ones() {
    let mut writer = FrameWriter::default();
    assert!(writer.push(&NodeMessage::Ping { clock_us: 258, shown: 3 }, 100));
    let answer = NodeMessage::Answer { number: 5, answer: ProposalAnswer::Lost };
    assert!(writer.push(&answer, 100));
    let wanted = [
        &[0, 0, 0, 42, 1, 0, 0, 0, 2][..],
        &[0, 0, 0, 18, 1, 4, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3],
        &[0, 0, 0, 11, 1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 3],
    ];
    assert_eq!(writer.take(), Some((wanted.concat(), 2)));
    assert_eq!(probe_frame(7), [0, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(echo_frame(7), [0, 0, 0, 9, 3, 0, 0, 0, 0, 0, 0, 0, 7]);
}
