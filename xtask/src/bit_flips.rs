//! A small database with one bit flipped, for each of its bytes.

use crate::Outcome;
use crate::process::{cargo, run_visibly};

/// `cargo xtask bit-flips`.
pub(crate) fn command() -> Outcome {
    let test = ["test", "--release", "--locked", "-p", "storage", "--test", "damage"];
    let mut command = cargo(&test);
    command.args(["--", "--nocapture", "a_flipped_bit_anywhere_is_found_or_harmless"]);
    command.env("HELENUS_EVERY_BYTE", "1");
    run_visibly(&mut command)
}
