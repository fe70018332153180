//! Reads that another node asks for: an error, or a request that comes back from its bytes.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use types::travel::{decode_read_request, encode_read_request};

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = decode_read_request(Bytes::copy_from_slice(bytes)) else { return };
    let mut again = Vec::new();
    encode_read_request(&request, &mut again);
    assert_eq!(decode_read_request(Bytes::from(again)), Ok(request));
});
