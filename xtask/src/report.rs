//! What a run prints and counts: steps with their duration, and the closing line.

use std::time::{Duration, Instant};

/// The counts of a run. Skips are told with their reason; with `CI=true` they count as failures.
#[derive(Default)]
pub(crate) struct Report {
    passed: u64,
    failures: Vec<String>,
    skips: Vec<String>,
    lacks: Vec<String>,
}

impl Report {
    pub(crate) fn pass(&mut self, count: u64) {
        self.passed += count;
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.failures.push(what.into());
    }

    pub(crate) fn skip(&mut self, what: impl Into<String>) {
        self.skips.push(what.into());
    }

    /// A skip that is no failure anywhere: what was to be installed from Debian did not come, and that is no fault of ours.
    pub(crate) fn lack(&mut self, what: impl Into<String>) {
        self.lacks.push(what.into());
    }

    pub(crate) fn is_good(&self) -> bool {
        self.failures.is_empty() && (self.skips.is_empty() || !in_ci())
    }

    /// The last line is the one that other programs read: `N passed, N failed`, and `, N skipped` when there are any.
    pub(crate) fn print_closing(&self) {
        println!();
        for skip in &self.skips {
            println!(
                "skipped: {skip}{}",
                if in_ci() { " (a failure, because CI=true)" } else { "" }
            );
        }
        self.lacks.iter().for_each(|lack| println!("skipped: {lack}"));
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        let mut failed = self.failures.len();
        let mut skipped = self.skips.len();
        if in_ci() {
            failed += std::mem::take(&mut skipped);
        }
        skipped += self.lacks.len();
        print!("{} passed, {failed} failed", self.passed);
        if skipped > 0 {
            print!(", {skipped} skipped");
        }
        println!();
    }
}

pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// One step of a run, told when it starts and when it ends.
pub(crate) struct Step {
    name: String,
    started: Instant,
}

impl Step {
    pub(crate) fn start(name: impl Into<String>) -> Self {
        let name = name.into();
        println!("==> {name}");
        Self { name, started: Instant::now() }
    }

    /// Tells how the step ended and how long it took.
    pub(crate) fn end(self, how: &str) {
        println!("    {how}: {} ({})", self.name, in_seconds(self.started.elapsed()));
    }
}

/// A duration as a person reads it.
pub(crate) fn in_seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
