//! Batches over several sets, from a damaged disk or a peer: an error, or what was written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| storage::fuzzed::batch(bytes));
