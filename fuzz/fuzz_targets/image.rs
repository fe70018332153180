//! Rows that are handed over, from a peer or a damaged disk: an error, or what was written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| storage::fuzzed::image(bytes));
