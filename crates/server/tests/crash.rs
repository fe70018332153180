//! What was acknowledged is there after a `kill -9`, whatever the node was doing, and nothing is there
//! in part. `cargo xtask crash --cycles N --seed S` does the same for longer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::path::PathBuf;

use testkit::crash::{CrashRun, run};

#[test]
fn nothing_acknowledged_is_lost_or_torn() {
    let asked = CrashRun {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_helenus")),
        cycles: 20,
        seed: 20_261_115,
        settings: ["memory.memtables=2MiB", "storage.log_segment=2MiB", "storage.log_max=4MiB"]
            .map(String::from)
            .to_vec(),
    };
    println!("seed {}", asked.seed);
    let tally =
        run(&asked, &mut |line| println!("{line}")).unwrap_or_else(|error| panic!("{error}"));
    println!("{tally}");
    assert!(tally.acknowledged > 0, "nothing was written, so nothing was proven");
}
