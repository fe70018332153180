//! The test command and its parts that need only Rust: format, lints, tests.

use std::process::Stdio;

use crate::e2e::{self, Parts};
use crate::instructions;
use crate::process::{cargo, lines, run_visibly};
use crate::report::{Report, Step};
use crate::{Outcome, close};

/// The workspace of the Rust drivers' scenarios, which cargo does not see from the root.
const SCENARIOS: &str = "tests/e2e/rust/Cargo.toml";

const FORMAT: [&str; 4] = ["fmt", "--all", "--", "--check"];
const FORMAT_SCENARIOS: [&str; 6] = ["fmt", "--all", "--manifest-path", SCENARIOS, "--", "--check"];
const LINTS: [&str; 7] =
    ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];

/// The part that counts instructions.
const INSTRUCTIONS: &str = "instructions";

/// Where the property tests take their seed from.
const SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";
/// A fixed one, so that the same commit gives the same outcome everywhere.
const SEED: &str = "20261115";

/// `cargo xtask test`.
pub(crate) fn test(arguments: &[String]) -> Outcome {
    let all = part_names();
    let mut only = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => {
                all.iter().for_each(|part| println!("{part}"));
                return Ok(());
            }
            "--only" => {
                let part =
                    words.next().ok_or("--only needs the name of a part; --list tells them")?;
                if !all.contains(part) {
                    return Err(format!("no part {part}; there are: {}", all.join(", ")));
                }
                only.push(part.clone());
            }
            unknown => {
                return Err(format!(
                    "unknown argument {unknown}; known are --only PART and --list"
                ));
            }
        }
    }
    let wanted = |part: &str| only.is_empty() || only.iter().any(|name| name == part);

    let mut report = Report::default();
    let parts = Parts::chosen(&wanted);
    // The drivers come over the network while the compiler works.
    let installation = e2e::install_in_background(&parts);
    if wanted("format") {
        cargo_step(&mut report, "format", &[&FORMAT, &FORMAT_SCENARIOS]);
    }
    if wanted("lints") {
        cargo_step(&mut report, "lints", &[&LINTS]);
    }
    if wanted("rust") {
        rust_tests(&mut report, &["test", "--workspace", "--locked", "--no-fail-fast"]);
    }
    e2e::run(&mut report, &parts, installation);
    if wanted(INSTRUCTIONS) {
        match e2e::build_server() {
            Ok(binary) => instructions::check(&mut report, &binary),
            Err(error) => report.fail(format!("build the server: {error}")),
        }
    }
    close(&report)
}

/// `cargo xtask check`.
pub(crate) fn check() -> Outcome {
    let mut report = Report::default();
    cargo_step(&mut report, "format", &[&FORMAT, &FORMAT_SCENARIOS]);
    cargo_step(&mut report, "lints", &[&LINTS]);
    rust_tests(&mut report, &["test", "--package", "xtask", "--locked", "--test", "tidy"]);
    close(&report)
}

/// `cargo xtask fix`.
pub(crate) fn fix() -> Outcome {
    let fix =
        ["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"];
    run_visibly(&mut cargo(&fix))?;
    run_visibly(&mut cargo(&["fmt", "--all"]))?;
    run_visibly(&mut cargo(&["fmt", "--all", "--manifest-path", SCENARIOS]))
}

/// The names that `--only` takes.
fn part_names() -> Vec<String> {
    let mut names: Vec<String> = ["format", "lints", "rust"].map(String::from).into();
    names.extend(e2e::part_names());
    names.push(INSTRUCTIONS.into());
    names
}

/// Cargo commands that pass or fail as one check.
fn cargo_step(report: &mut Report, name: &str, commands: &[&[&str]]) {
    let step = Step::start(name);
    for command in commands {
        if let Err(error) = run_visibly(&mut cargo(command)) {
            report.fail(format!("{name}: {error}"));
            return step.end("FAILED");
        }
    }
    report.pass(1);
    step.end("ok");
}

/// One cargo invocation for all Rust tests. Compilation is shown as it goes, test output when a test failed.
fn rust_tests(report: &mut Report, command: &[&str]) {
    let step = Step::start("rust tests");
    let seed = std::env::var(SEED_VARIABLE).unwrap_or_else(|_| SEED.into());
    println!("    seed of the property tests: {seed} (another one: {SEED_VARIABLE}=N)");
    let mut cargo = cargo(command);
    cargo.env(SEED_VARIABLE, seed).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut child = match cargo.spawn() {
        Ok(child) => child,
        Err(error) => {
            report.fail(format!("rust tests: cargo did not start: {error}"));
            return step.end("FAILED");
        }
    };
    let mut output = String::new();
    let mut counts = TestCounts::default();
    if let Some(stdout) = child.stdout.take() {
        for line in lines(stdout) {
            counts.read(&line);
            output.push_str(&line);
            output.push('\n');
        }
    }
    let good = child.wait().is_ok_and(|status| status.success());
    report.pass(counts.passed);
    if !good || counts.failed > 0 {
        print!("{output}");
        // One failure each; a run that broke without a failed test is one as well.
        for name in &counts.failed_names {
            report.fail(format!("rust test {name}"));
        }
        if counts.failed_names.is_empty() {
            report.fail("rust tests: see the output above");
        }
        return step.end("FAILED");
    }
    step.end(&format!("ok, {} passed", counts.passed));
}

/// What libtest's lines say.
#[derive(Default)]
struct TestCounts {
    passed: u64,
    failed: u64,
    failed_names: Vec<String>,
}

impl TestCounts {
    fn read(&mut self, line: &str) {
        if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failed_names.push(name.to_string());
        }
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse::<u64>().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse::<u64>().unwrap_or(0),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TestCounts;

    #[test]
    fn counts_are_summed_over_binaries() {
        let mut counts = TestCounts::default();
        for line in [
            "running 2 tests",
            "test a::b ... ok",
            "test c ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.10s",
        ] {
            counts.read(line);
        }
        assert_eq!((counts.passed, counts.failed), (41, 1));
        assert_eq!(counts.failed_names, ["c"]);
    }
}
