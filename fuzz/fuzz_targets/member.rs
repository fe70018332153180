//! What another member of a set sends, and what the log keeps of one: an error, or something that comes back from its bytes.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use replica::group::PeerMessage;
use storage::{GroupState, Request};

fuzz_target!(|bytes: &[u8]| {
    let owned = Bytes::copy_from_slice(bytes);
    let mut again = Vec::new();
    if let Ok(message) = PeerMessage::decode(owned.clone()) {
        message.encode(&mut again);
        assert_eq!(PeerMessage::decode(Bytes::from(std::mem::take(&mut again))), Ok(message));
    }
    if let Some(state) = GroupState::decode(bytes) {
        state.encode(&mut again);
        assert_eq!(GroupState::decode(&again), Some(state));
    }
    if let Ok(request) = Request::from_bytes(owned) {
        let again = request.to_bytes();
        assert_eq!(Request::from_bytes(again.clone()).map(|it| it.to_bytes()), Ok(again));
    }
});
