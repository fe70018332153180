//! Running one scenario program: its printed lines are its checks.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use super::Target;
use super::driver::Driver;
use super::server::Server;
use crate::place;
use crate::process;
use crate::report::{Report, Step, in_seconds};

/// A scenario that says nothing for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(180);
/// Lines that may wait until we read them.
const LINES_MAX: usize = 64;

/// Runs a driver's scenario against a fresh node, or against the external server.
pub(super) fn run_driver(report: &mut Report, driver: &Driver, target: &Target) {
    let step = Step::start(format!("e2e {}", driver.name));
    match target {
        Target::External { host, port } => {
            let program = driver.command(host, *port);
            let outcome = run_program(report, driver.name, program, "other", &mut |_| Ok(false));
            step.end(&outcome);
        }
        Target::Own { binary } => {
            let mut server = match Server::start(binary, driver.name, &[]) {
                Ok(server) => server,
                Err(error) => {
                    println!("{error}");
                    report.fail(format!("{}: the node did not start", driver.name));
                    return step.end("FAILED");
                }
            };
            let program = driver.command("127.0.0.1", server.port());
            let mut ask = |what: &str| match what {
                "RESTART" => server.restart().map(|()| true),
                other => Err(format!("nobody knows how to {other}")),
            };
            let outcome = run_program(report, driver.name, program, "helenus", &mut ask);
            if outcome == FAILED {
                println!("--- the node's log\n{}", server.log_text());
            }
            stop(report, driver.name, server);
            step.end(&outcome);
        }
    }
}

/// Stops a node after its scenario; one that does not stop is a failure of its own.
pub(super) fn stop(report: &mut Report, name: &str, server: Server) {
    if let Err(error) = server.stop() {
        println!("{error}");
        report.fail(format!("{name}: the node did not stop"));
    }
}

/// How a failed program is told.
pub(super) const FAILED: &str = "FAILED";

/// Runs a program that follows the contract of `tests/e2e/README.md` and counts its checks.
pub(super) fn run_program(
    report: &mut Report,
    name: &str,
    mut program: Command,
    target_name: &str,
    ask: &mut dyn FnMut(&str) -> Result<bool, String>,
) -> String {
    match follow(report, name, &mut program, target_name, ask) {
        Ok(count) => {
            report.pass(count);
            format!("ok, {count} checks")
        }
        Err(Broken { passed, failure }) => {
            report.pass(passed);
            println!("{failure}");
            report.fail(format!("{name}: {}", failure.lines().next().unwrap_or_default()));
            FAILED.to_string()
        }
    }
}

/// A scenario that did not reach its end.
struct Broken {
    passed: u64,
    failure: String,
}

fn follow(
    report: &mut Report,
    name: &str,
    program: &mut Command,
    target_name: &str,
    ask: &mut dyn FnMut(&str) -> Result<bool, String>,
) -> Result<u64, Broken> {
    let broken = |passed: u64, failure: String| Broken { passed, failure };
    let errors_path = place::e2e().join(format!("{}.stderr", name.replace(['/', ' ', ':'], "-")));
    let errors = File::create(&errors_path).map_err(|error| broken(0, error.to_string()))?;
    let mut child = program
        .env("HELENUS_E2E_TARGET", target_name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(|error| broken(0, format!("the scenario did not start: {error}")))?;
    let (sender, lines) = sync_channel(LINES_MAX);
    let reader = child.stdout.take().map(|stdout| {
        let read = move || {
            for line in process::lines(stdout) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("scenario".into()).spawn(read)
    });
    let mut input = child.stdin.take();
    let (mut passed, mut failure) = (0, None);
    let (started, verbose) = (Instant::now(), std::env::var_os("HELENUS_E2E_VERBOSE").is_some());
    loop {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        let line = match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => line,
            Err(Disconnected) => break,
            Err(Timeout) => {
                failure = Some(format!("nothing printed for {SILENCE_MAX:?}"));
                let _ = child.kill();
                break;
            }
        };
        if verbose {
            println!("    {:>8} {line}", in_seconds(started.elapsed()));
        }
        if line.starts_with("ok ") {
            passed += 1;
        } else if let Some(what) = line.strip_prefix("skip ") {
            report.skip(format!("{name}: {what}"));
        } else if let Some(what) = line.strip_suffix(" PLEASE") {
            let answer = match ask(what) {
                Ok(true) => "DONE\n",
                Ok(false) => "SKIP\n",
                Err(error) => {
                    failure = Some(format!("{what}: {error}"));
                    let _ = child.kill();
                    break;
                }
            };
            if let Some(input) = &mut input {
                // A scenario that is gone shows by its exit code.
                let _ = input.write_all(answer.as_bytes()).and_then(|()| input.flush());
            }
        } else {
            if !verbose {
                println!("    {line}");
            }
            if line.starts_with("FAILED ") {
                failure = Some(line);
            }
        }
    }
    drop(lines);
    let status = child.wait();
    drop(reader);
    let errors = std::fs::read_to_string(&errors_path).unwrap_or_default();
    match (failure, status) {
        (None, Ok(status)) if status.success() && passed > 0 => Ok(passed),
        (None, Ok(status)) => {
            Err(broken(passed, format!("ended with {status} after {passed} checks\n{errors}")))
        }
        (None, Err(error)) => Err(broken(passed, format!("cannot wait for the scenario: {error}"))),
        (Some(failure), _) => Err(broken(passed, format!("{failure}\n{errors}"))),
    }
}
