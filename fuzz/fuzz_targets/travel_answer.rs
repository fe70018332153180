//! Answers and faults of another node: an error, or one that comes back from its bytes.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use types::travel::{decode_commit_answer, decode_fault, encode_commit_answer, encode_fault};

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut again = Vec::new();
    if let Ok(answer) = decode_commit_answer(bytes.clone()) {
        encode_commit_answer(&answer, &mut again);
        assert_eq!(decode_commit_answer(Bytes::from(std::mem::take(&mut again))), Ok(answer));
    }
    if let Ok(fault) = decode_fault(bytes) {
        encode_fault(&fault, &mut again);
        assert_eq!(decode_fault(Bytes::from(again)), Ok(fault));
    }
});
