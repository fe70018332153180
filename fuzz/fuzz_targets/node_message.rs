//! What another node says: an error, or a message that comes back from its bytes.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use replica::group::NodeMessage;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = NodeMessage::decode(Bytes::copy_from_slice(bytes)) {
        // Numbers may come in longer forms than they are written in, so the first bytes need not be the second.
        let mut again = Vec::new();
        message.encode(&mut again);
        let decoded = NodeMessage::decode(Bytes::from(again.clone())).expect("its own bytes");
        let mut twice = Vec::new();
        decoded.encode(&mut twice);
        assert_eq!(twice, again);
    }
});
