//! What one that nobody knows may say to a node, and what it is answered: read or refused, and what was read is what would be written.
//!
//! Input: a frame without its length.

#![no_main]

use cluster::mesh::join::{JoinAnswer, JoinFrame};
use libfuzzer_sys::fuzz_target;

/// A length stands before every frame.
const LENGTH_BYTES: usize = 4;

fuzz_target!(|frame: &[u8]| {
    if let Ok(JoinFrame::Request(request)) = JoinFrame::decode(frame) {
        let again = JoinFrame::encode(request).expect("it was not too long");
        assert_eq!(&again[LENGTH_BYTES..], frame);
    }
    if let Ok(answer @ (JoinAnswer::Answer(_) | JoinAnswer::TryAgain)) = JoinAnswer::decode(frame) {
        let again = answer.encode().expect("it was not too long");
        assert_eq!(&again[LENGTH_BYTES..], frame);
    }
});
