//! Records of the log from a damaged disk: an error, or what was written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| storage::fuzzed::log_record(bytes));
