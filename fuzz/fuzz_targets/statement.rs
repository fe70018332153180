//! Any text is parsed or refused, and the refusal has a message.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = cql::parse(text) {
        assert!(!error.to_string().is_empty());
    }
});
