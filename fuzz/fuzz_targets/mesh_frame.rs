//! A connection between nodes in reads of any size: frames and an error, and never room for more than came. What was read comes back from
//! packed frames as well.
//!
//! Input: the size of a read (odd: packed frames are taken), and the bytes.

#![no_main]

use cluster::mesh::frame::{Frame, FrameReader, FrameWriter};
use cluster::mesh::pack::pack_frame;
use libfuzzer_sys::fuzz_target;

const FRAME_BYTES_MAX: usize = 1 << 20;
/// What a reader may hold beyond what came: room for a read, twice, because buffers double.
const ROOM_BYTES_MAX: usize = 256 * 1024;

fuzz_target!(|input: &[u8]| {
    let [read_bytes, bytes @ ..] = input else { return };
    let takes_packed = read_bytes % 2 == 1;
    let mut reader = FrameReader::new(FRAME_BYTES_MAX).taking_packed(takes_packed);
    for read in bytes.chunks(usize::from(*read_bytes).max(1)) {
        let room = reader.room();
        room.extend_from_slice(read);
        assert!(room.capacity() <= 2 * bytes.len() + ROOM_BYTES_MAX);
        loop {
            match reader.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Messages(messages))) => {
                    let mut writer = FrameWriter::default();
                    for message in &messages {
                        writer.push(message, FRAME_BYTES_MAX);
                    }
                    if let Some((frame, _)) = writer.take() {
                        comes_back(&frame);
                    }
                }
                Ok(Some(Frame::Probe(_) | Frame::Echo(_))) => {}
                // The connection ends.
                Err(_) => return,
            }
        }
    }
});

fn comes_back(frame: &[u8]) {
    let mut packed = Vec::new();
    if pack_frame(frame, &mut packed).is_none() {
        assert!(packed.is_empty());
        return;
    }
    assert!(packed.len() < frame.len());
    let read = |bytes: &[u8]| {
        let mut reader = FrameReader::new(FRAME_BYTES_MAX).taking_packed(true);
        reader.room().extend_from_slice(bytes);
        match reader.next_frame() {
            Ok(Some(Frame::Messages(messages))) => format!("{messages:?}"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read(&packed), read(frame));
}
