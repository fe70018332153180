//! Instruction counts of the hot paths: what one request of each kind costs the server from the bytes that arrive to the
//! bytes that leave, counted by callgrind in the real binary. Noise does not move them, so CI compares them with stored
//! figures.
//!
//! Counted is only what a connection does in its turn (`Connection::poll`), and only the difference between a run with N
//! requests and one with twice as many: starting, connecting and background work fall out.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::Json;
use crate::e2e::build_server;
use crate::place;
use crate::process::{cargo, is_there, run_quietly, run_visibly};
use crate::report::{Report, Step};
use crate::{Outcome, close};

/// The figures that CI compares with.
const STORED: &str = "benches/instructions.json";
/// How much more than the stored figure is too much.
const TOLERANCE: f64 = 0.03;
/// Where counting begins and ends.
const FUNCTION: &str = "helenus::connection::Connection<S>::poll";
/// Each count is taken so often and the least of them holds: how many requests a turn gathers depends on the machine,
/// and a turn that gathers fewer only adds to it.
const ROUNDS: u32 = 3;
const START_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// What is counted, by the names that `testkit/src/bin/steady.rs` has for it, and how many of each.
const HOT_PATHS: [(&str, u32); 7] = [
    ("read", 4096),
    ("write", 4096),
    ("conditional", 2048),
    ("batch", 512),
    ("slice", 1024),
    ("index", 1024),
    ("scan", 512),
];

/// `cargo xtask instructions [--save]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let is_saved = match arguments {
        [] => false,
        [word] if word == "--save" => true,
        _ => return Err("the only argument is --save".into()),
    };
    if !is_there("valgrind", &["--version"]) {
        return Err("this machine has no valgrind".into());
    }
    let binary = build_server()?;
    if is_saved {
        let counts = count_all(&binary)?;
        let json = Json::object(counts.map(|(name, count)| (name, Json::Number(count.round()))));
        return std::fs::write(place::root().join(STORED), format!("{json}\n"))
            .map_err(|error| format!("{STORED}: {error}"));
    }
    let mut report = Report::default();
    check(&mut report, &binary);
    close(&report)
}

/// Counts, and fails where a figure has grown. A machine without valgrind is told so; it is no failure, because the
/// figures are those of the code and not of the machine.
pub(crate) fn check(report: &mut Report, binary: &Path) {
    let step = Step::start("instruction counts");
    if !is_there("valgrind", &["--version"]) {
        return step.end("NOT CHECKED, this machine has no valgrind");
    }
    if std::env::var("HELENUS_E2E_PROFILE").is_ok_and(|profile| profile == "dev") {
        return step.end("NOT CHECKED, the figures are those of an optimised build");
    }
    let stored = std::fs::read_to_string(place::root().join(STORED))
        .map_err(|error| format!("{STORED}: {error}"))
        .and_then(|text| Json::parse(&text));
    let counts = stored.and_then(|stored| Ok((stored, count_all(binary)?)));
    let (stored, counts) = match counts {
        Ok(both) => both,
        Err(error) => {
            report.fail(format!("instruction counts: {error}"));
            return step.end("FAILED");
        }
    };
    let mut has_failed = false;
    for (name, count) in counts {
        let Some(before) = stored.number_of(name) else {
            report.fail(format!("instruction counts: {STORED} has no figure for one {name}"));
            has_failed = true;
            continue;
        };
        let change = count / before - 1.0;
        println!("    one {name}: {count:.0}, stored {before:.0} ({:+.1} %)", change * 100.0);
        if change > TOLERANCE {
            report.fail(format!(
                "instruction counts: one {name} takes {:.1} % more than {STORED} says; if that is its worth, \
                 `cargo xtask instructions --save`",
                change * 100.0
            ));
            has_failed = true;
        } else {
            report.pass(1);
        }
        if change < -TOLERANCE {
            println!("    that is better: keep it with `cargo xtask instructions --save`");
        }
    }
    step.end(if has_failed { "FAILED" } else { "ok" });
}

fn count_all(binary: &Path) -> Result<[(&'static str, f64); HOT_PATHS.len()], String> {
    let build = ["build", "--locked", "--release", "--package", "testkit", "--bin", "steady"];
    run_visibly(&mut cargo(&build))?;
    let steady = place::target().join("release/steady");
    let mut counts = HOT_PATHS.map(|(name, _)| (name, 0.0));
    for ((name, requests), (_, count)) in HOT_PATHS.iter().zip(&mut counts) {
        let less = least_collected(binary, &steady, name, *requests)?;
        let more = least_collected(binary, &steady, name, 2 * requests)?;
        *count = (more - less) / f64::from(*requests);
        if *count < 1.0 {
            return Err(format!("nothing was counted; is {FUNCTION} still there?"));
        }
    }
    Ok(counts)
}

fn least_collected(binary: &Path, steady: &Path, what: &str, requests: u32) -> Result<f64, String> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        least = least.min(collected(binary, steady, what, requests)?);
    }
    Ok(least)
}

/// What callgrind counted in a node that served this many requests.
fn collected(binary: &Path, steady: &Path, what: &str, requests: u32) -> Result<f64, String> {
    let folder = place::target().join("instructions");
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(told)?;
    }
    std::fs::create_dir_all(&folder).map_err(told)?;
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(told)?.port();
    let log = folder.join("callgrind.log");
    let node = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={FUNCTION}"))
        .arg(format!("--callgrind-out-file={}", folder.join("callgrind.out").display()))
        .arg(format!("--log-file={}", log.display()))
        .arg(binary)
        .args(["start", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(folder.join("data"))
        .args(["--set", "metrics.listen=", "--set", "storage.commit=periodic"])
        .args(["--set", "server.threads=1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("valgrind did not start: {error}"))?;
    let mut node = Node(node);
    node.await_port(port, &log)?;
    let address = format!("127.0.0.1:{port}");
    run_quietly(Command::new(steady).args([&address, what, &requests.to_string()]))?;
    node.stop()?;
    let text = std::fs::read_to_string(&log).map_err(told)?;
    count_of(&text).ok_or(format!("callgrind tells no count:\n{text}"))
}

/// The line `==PID== Collected : COUNT`.
fn count_of(log: &str) -> Option<f64> {
    let line = log.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

/// A node under valgrind, which ends when we do.
struct Node(Child);

impl Node {
    fn await_port(&mut self, port: u16, log: &PathBuf) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < START_MAX {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.0.try_wait() {
                let text = std::fs::read_to_string(log).unwrap_or_default();
                return Err(format!("the node ended with {status} under valgrind\n{text}"));
            }
            std::thread::sleep(POLL);
        }
        Err("the node does not listen under valgrind".into())
    }

    fn stop(&mut self) -> Result<(), String> {
        run_quietly(Command::new("kill").arg(self.0.id().to_string()))?;
        let begin = Instant::now();
        while begin.elapsed() < START_MAX {
            if let Ok(Some(_)) = self.0.try_wait() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err("the node does not stop under valgrind".into())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::count_of;

    #[test]
    fn the_count_is_found() {
        let log = "==7== Callgrind\n==7== Events    : Ir\n==7== Collected : 123456789\n==7== \n";
        assert_eq!(count_of(log), Some(123_456_789.0));
        assert_eq!(count_of("==7== Collected nothing\n"), None);
    }
}
