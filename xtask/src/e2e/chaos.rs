//! Every fault at once on real processes, for as long as CI has time: half a minute of `cargo xtask chaos`.

use std::path::Path;

use super::kit::Kit;
use super::scenario;
use crate::chaos;
use crate::report::{Report, Step};

/// What is tried; what comes of it differs from run to run.
const SEED: &str = "1";
const MINUTES: &str = "0.5";

pub(super) fn run(
    report: &mut Report,
    binary: &Path,
    _is_ready: &mut dyn FnMut(&mut Report, Kit, &str) -> bool,
) {
    let step = Step::start("e2e chaos");
    let words = ["--seed", SEED, "--minutes", MINUTES].map(str::to_owned);
    match chaos::run(binary, &words) {
        Ok(()) => {
            report.pass(1);
            step.end("ok");
        }
        Err(error) => {
            println!("{error}");
            report.fail(format!("chaos: seed {SEED} for {MINUTES} minutes, see above"));
            step.end(scenario::FAILED);
        }
    }
}
