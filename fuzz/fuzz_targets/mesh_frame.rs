//! A connection between nodes in reads of any size: frames and an error, and never room for more than came.
//!
//! Input: the size of a read, and the bytes.

#![no_main]

use cluster::mesh::frame::{Frame, FrameReader, FrameWriter};
use libfuzzer_sys::fuzz_target;

const FRAME_BYTES_MAX: usize = 1 << 20;
/// What a reader may hold beyond what came: room for a read, twice, because buffers double.
const ROOM_BYTES_MAX: usize = 256 * 1024;

fuzz_target!(|input: &[u8]| {
    let [read_bytes, bytes @ ..] = input else { return };
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
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
                    let _ = writer.take();
                }
                Ok(Some(Frame::Probe(_) | Frame::Echo(_))) => {}
                // The connection ends.
                Err(_) => return,
            }
        }
    }
});
