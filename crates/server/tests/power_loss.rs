//! What was acknowledged is there after a loss of power, whatever of the rest reached the disk, and
//! nothing is there in part. `cargo xtask power-loss --images N --seed S` does the same for longer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::path::PathBuf;

use testkit::power_loss::{PowerLossRun, run};

#[test]
fn nothing_acknowledged_is_lost_or_torn_when_power_is_lost() {
    let asked = PowerLossRun {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_helenus")),
        images: 24,
        seed: 20_261_116,
        settings: ["memory.memtables=1MiB", "storage.log_segment=1MiB", "storage.log_max=2MiB"]
            .map(String::from)
            .to_vec(),
    };
    println!("seed {}", asked.seed);
    let tally =
        run(&asked, &mut |line| println!("{line}")).unwrap_or_else(|error| panic!("{error}"));
    println!("{tally}");
    assert!(tally.acknowledged > 0, "nothing was written, so nothing was proven");
    assert!(tally.pending.0 > 0 && tally.pending.1 > 0, "nothing was at stake");
}
