//! The test command and its parts that need only Rust: format, lints, tests.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::e2e::{self, Parts};
use crate::instructions;
use crate::place::root;
use crate::process::{cargo, lines, run_quietly, run_visibly};
use crate::report::{Report, Step};
use crate::{Outcome, close};

/// The workspace of the Rust drivers' scenarios, which cargo does not see from the root.
const SCENARIOS: &str = "tests/e2e/rust/Cargo.toml";
/// The program that drives a browser.
const BROWSER: &str = "tests/e2e/browser/Cargo.toml";

const FORMAT: [&str; 4] = ["fmt", "--all", "--", "--check"];
const FORMAT_SCENARIOS: [&str; 6] = ["fmt", "--all", "--manifest-path", SCENARIOS, "--", "--check"];
const FORMAT_BROWSER: [&str; 6] = ["fmt", "--all", "--manifest-path", BROWSER, "--", "--check"];
const LINTS: [&str; 7] =
    ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];

/// The part that counts instructions.
const INSTRUCTIONS: &str = "instructions";

/// Where the property tests take their seed from.
const SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";
/// A fixed one, so that the same commit gives the same outcome everywhere. Then they run once more with a fresh one.
const SEED: &str = "20261115";

/// How long a property test that failed looks for a smaller witness, in milliseconds: the steps of some take seconds each.
const SHRINK_VARIABLE: &str = "PROPTEST_MAX_SHRINK_TIME";
const SHRINK_MS_MAX: &str = "120000";
/// Tests that say nothing for so long wait for ever. A cold build, which says nothing either, takes half of it.
const SILENCE_MAX: Duration = Duration::from_secs(20 * 60);

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
    let warm_up = wanted("lints").then(|| e2e::build_server_in_background(&parts)).flatten();
    if wanted("format") {
        cargo_step(&mut report, "format", &[&FORMAT, &FORMAT_SCENARIOS, &FORMAT_BROWSER]);
    }
    if wanted("lints") {
        cargo_step(&mut report, "lints", &[&LINTS]);
    }
    // Tests have the machine for themselves. Whether the build went well is told where the server is wanted.
    if let Some(build) = warm_up {
        let step = Step::start("build the server beside the lints");
        step.end(if build.join().is_ok_and(|it| it.is_ok()) { "done" } else { "FAILED" });
    }
    if wanted("rust") {
        let all = ["test", "--workspace", "--locked", "--no-fail-fast"];
        let chosen = std::env::var(SEED_VARIABLE).ok();
        rust_tests(&mut report, "rust tests", &all, chosen.as_deref().unwrap_or(SEED));
        if chosen.is_none() {
            fresh_properties(&mut report, &all);
        }
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
    cargo_step(&mut report, "format", &[&FORMAT, &FORMAT_SCENARIOS, &FORMAT_BROWSER]);
    cargo_step(&mut report, "lints", &[&LINTS]);
    let tidy = ["test", "--package", "xtask", "--locked", "--test", "tidy"];
    rust_tests(&mut report, "rust tests", &tidy, SEED);
    close(&report)
}

/// `cargo xtask fix`.
pub(crate) fn fix() -> Outcome {
    let fix =
        ["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"];
    run_visibly(&mut cargo(&fix))?;
    run_visibly(&mut cargo(&["fmt", "--all"]))?;
    run_visibly(&mut cargo(&["fmt", "--all", "--manifest-path", SCENARIOS]))?;
    run_visibly(&mut cargo(&["fmt", "--all", "--manifest-path", BROWSER]))
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

/// The property tests once more, with a seed that nobody tried yet.
fn fresh_properties(report: &mut Report, command: &[&str]) {
    let names = match property_names() {
        Ok(names) if !names.is_empty() => names,
        Ok(_) => return report.fail("no property tests were found"),
        Err(error) => return report.fail(format!("property tests cannot be looked for: {error}")),
    };
    let mut command = command.to_vec();
    command.push("--");
    command.extend(names.iter().map(String::as_str));
    // The standard library draws its keys from the system's randomness.
    let seed = RandomState::new().build_hasher().finish().to_string();
    rust_tests(report, "property tests, fresh", &command, &seed);
}

/// The names of all property tests of the rooms.
fn property_names() -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names.extend(properties_in(&std::fs::read_to_string(path)?));
            }
        }
    }
    Ok(names)
}

/// The functions in the `proptest!` blocks of a source file.
fn properties_in(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut is_inside, mut is_test) = (false, false);
    for line in source.lines() {
        let word = line.trim_start();
        let is_at_margin = word.len() == line.len();
        if word.starts_with("proptest! {") {
            is_inside = true;
        } else if is_inside && word.starts_with("#[test]") {
            is_test = true;
        } else if let (true, Some(rest)) = (is_test, word.strip_prefix("fn ")) {
            names.extend(rest.split(['(', '<']).next().map(String::from));
            is_test = false;
        } else if is_inside && is_at_margin && line.starts_with('}') {
            is_inside = false;
        }
    }
    names
}

/// One cargo invocation for all Rust tests. Compilation is shown as it goes, test output when a test failed.
fn rust_tests(report: &mut Report, name: &str, command: &[&str], seed: &str) {
    let step = Step::start(name);
    println!("    seed of the property tests: {seed} (another one: {SEED_VARIABLE}=N)");
    let mut cargo = cargo(command);
    cargo.env(SEED_VARIABLE, seed).env(SHRINK_VARIABLE, SHRINK_MS_MAX);
    // A group of its own, so that the tests end with it.
    cargo.stdout(Stdio::piped()).stdin(Stdio::null()).process_group(0);
    let mut child = match cargo.spawn() {
        Ok(child) => child,
        Err(error) => {
            report.fail(format!("{name}: cargo did not start: {error}"));
            return step.end("FAILED");
        }
    };
    let mut output = String::new();
    let mut counts = TestCounts::default();
    let (said, heard) = channel();
    let watch = {
        let group = child.id();
        std::thread::spawn(move || end_if_silent(group, &heard, SILENCE_MAX))
    };
    if let Some(stdout) = child.stdout.take() {
        for line in lines(stdout) {
            let _ = said.send(());
            counts.read(&line);
            output.push_str(&line);
            output.push('\n');
        }
    }
    let good = child.wait().is_ok_and(|status| status.success());
    drop(said);
    if watch.join().is_ok_and(|was_ended| was_ended) {
        let minutes = SILENCE_MAX.as_secs() / 60;
        report.fail(format!("{name}: ended, because nothing was heard for {minutes} minutes"));
    }
    report.pass(counts.passed);
    if !good || counts.failed > 0 {
        print!("{output}");
        // One failure each; a run that broke without a failed test is one as well.
        for test in &counts.failed_names {
            report.fail(format!("rust test {test} ({SEED_VARIABLE}={seed})"));
        }
        if counts.failed_names.is_empty() {
            report.fail(format!("{name}: see the output above"));
        }
        return step.end("FAILED");
    }
    step.end(&format!("ok, {} passed", counts.passed));
}

/// Ends a group of processes that says nothing for so long: a test that waits for ever would take all of CI's time, and nobody would
/// learn which. Whether it did.
fn end_if_silent(group: u32, heard: &Receiver<()>, silence_max: Duration) -> bool {
    loop {
        match heard.recv_timeout(silence_max) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {
                let group = format!("-{group}");
                let _ = run_quietly(Command::new("kill").args(["-KILL", "--", group.as_str()]));
                return true;
            }
        }
    }
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
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{TestCounts, end_if_silent, properties_in, property_names};

    #[test]
    fn a_group_of_processes_that_says_nothing_is_ended_and_one_that_ends_is_not() {
        let mut child =
            Command::new("sh").args(["-c", "sleep 600 & wait"]).process_group(0).spawn().unwrap();
        let (said, heard) = channel();
        said.send(()).unwrap();
        assert!(end_if_silent(child.id(), &heard, Duration::from_millis(50)));
        assert!(!child.wait().unwrap().success());
        drop(said);
        assert!(!end_if_silent(child.id(), &heard, Duration::from_secs(600)));
    }

    #[test]
    fn property_tests_are_found() {
        let source = "fn no() {}\nproptest! {\n    #![proptest_config(x)]\n\n    #[test]\n    fn \
                      holds(\n        a in b,\n    ) {\n    }\n}\n\n#[test]\nfn other() {}\n";
        assert_eq!(properties_in(source), ["holds"]);
        let names = property_names().unwrap();
        assert!(names.iter().any(|name| name == "group_commit_equals_the_model"), "{names:?}");
    }

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
