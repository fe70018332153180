//! What waits to be written to one node, as bytes.

use std::collections::VecDeque;

/// Frames are gathered into pieces of about this size: one piece is encrypted and written in one go, and a queue of pieces takes
/// little more memory than its bytes.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;

/// Frames that are written together.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) frames: u64,
    pub(crate) messages: u64,
}

/// The queue of one node. There is one only while there is a connection: what comes without is lost, and nothing of one
/// connection is ever written to the next.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    is_open: bool,
    pieces: VecDeque<Piece>,
    /// Of all pieces, and of the one that is being written.
    bytes: usize,
    messages: u64,
    /// Something came while there was no connection.
    has_lost: bool,
}

impl Queue {
    /// A connection was made. Tells whether something was lost since the one before.
    pub(crate) fn open(&mut self) -> bool {
        self.is_open = true;
        std::mem::take(&mut self.has_lost)
    }

    /// The connection broke. Tells how many messages are lost with it.
    pub(crate) fn close(&mut self) -> u64 {
        let lost = self.messages;
        *self = Queue { has_lost: self.has_lost, ..Queue::default() };
        lost
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Bytes and messages that are not written yet.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.bytes, self.messages)
    }

    /// Whether what comes now is lost, because there is no connection; that is remembered.
    pub(crate) fn would_lose(&mut self) -> bool {
        self.has_lost |= !self.is_open;
        !self.is_open
    }

    /// Appends a frame; `false` if there is no connection or no room.
    pub(crate) fn push(&mut self, mut frame: Vec<u8>, messages: u64, bytes_max: usize) -> bool {
        if self.would_lose() || self.bytes + frame.len() > bytes_max {
            return false;
        }
        self.bytes += frame.len();
        self.messages += messages;
        match self.pieces.back_mut() {
            Some(piece) if piece.bytes.len() + frame.len() <= PIECE_BYTES => {
                piece.bytes.extend_from_slice(&frame);
                piece.frames += 1;
                piece.messages += messages;
            }
            Some(_) | None => {
                if frame.len() > PIECE_BYTES {
                    frame.shrink_to_fit();
                }
                self.pieces.push_back(Piece { bytes: frame, frames: 1, messages });
            }
        }
        true
    }

    /// What is to be written next. Its bytes count until [`Queue::written`].
    pub(crate) fn pop(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// A piece was handed to the system.
    pub(crate) fn written(&mut self, piece: &Piece) {
        self.bytes = self.bytes.saturating_sub(piece.bytes.len());
        self.messages = self.messages.saturating_sub(piece.messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_one_connection_is_left_for_the_next() {
        let mut queue = Queue::default();
        assert!(!queue.push(vec![1], 1, 100));
        assert!(queue.open(), "a message was lost before there was a connection");
        assert!(queue.push(vec![2], 1, 100));
        assert!(queue.push(vec![3], 2, 100));
        assert_eq!(queue.size(), (2, 3));
        assert_eq!(queue.close(), 3);
        assert_eq!(queue.size(), (0, 0));
        assert!(!queue.open(), "nothing came in between");
        assert!(queue.pop().is_none());
    }

    #[test]
    fn small_frames_are_gathered_and_the_bound_holds_until_they_are_written() {
        let mut queue = Queue::default();
        queue.open();
        for _ in 0..10 {
            assert!(queue.push(vec![0; 10], 1, 100));
        }
        assert!(!queue.push(vec![0], 1, 100));
        let piece = queue.pop().unwrap();
        assert_eq!((piece.bytes.len(), piece.frames, piece.messages), (100, 10, 10));
        assert!(queue.pop().is_none());
        assert!(!queue.push(vec![0], 1, 100));
        queue.written(&piece);
        assert!(queue.push(vec![0], 1, 100));
        assert!(queue.push(vec![0; PIECE_BYTES], 1, 2 * PIECE_BYTES));
        assert_eq!(queue.pop().unwrap().bytes.len(), 1);
        assert_eq!(queue.pop().unwrap().bytes.len(), PIECE_BYTES);
    }
}
