//! What charging costs: the same load on two nodes of one binary, one that charges and one with `units.charge = false`,
//! in turns within one run. Compared is the processor time that a request takes the server, which other programs on the
//! machine disturb least.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::e2e::build_server;
use crate::place;
use crate::process::{cargo, run_quietly, run_visibly};

/// How much more may be.
const MORE_MAX: f64 = 0.03;
const WORKLOADS: [&str; 5] = ["insert", "read", "update", "append", "slice"];
/// In one turn: a second or less. Many short turns compare better than few long ones, because what disturbs the machine
/// lasts longer than a pair of them.
const REQUESTS: u32 = 100_000;
const ROUNDS: usize = 9;
const START_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// `cargo xtask overhead [ROUNDS]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let rounds = match arguments {
        [] => ROUNDS,
        [number] => number.parse().map_err(|_| format!("{number} is no number of rounds"))?,
        _ => return Err("the only argument is the number of rounds".into()),
    };
    let binary = build_server()?;
    let build = ["build", "--locked", "--release", "--package", "testkit", "--bin", "load"];
    run_visibly(&mut cargo(&build))?;
    let load = place::target().join("release/load");
    let with = Node::start(&binary, "with", "true")?;
    let without = Node::start(&binary, "without", "false")?;
    let mut times: Vec<[Vec<f64>; 2]> = vec![Default::default(); WORKLOADS.len()];
    for round in 0..rounds {
        for (workload, times) in WORKLOADS.iter().zip(&mut times) {
            let nodes = [&with, &without];
            // Who goes first changes, so that nothing that grows over time falls on one of them.
            for turn in 0..2 {
                let place = (turn + round) % 2;
                if let (Some(node), Some(times)) = (nodes.get(place), times.get_mut(place)) {
                    times.push(node.measure(&load, workload)?);
                }
            }
        }
    }
    println!(
        "workload   charged us  not charged us   ratio  (least of {rounds} rounds, server CPU for each request)"
    );
    let mut failures = Vec::new();
    for (workload, [charged, free]) in WORKLOADS.iter().zip(times) {
        // Whatever disturbs the machine makes a turn take more, never less: the least of many is what it costs.
        let (charged, free) = (least(&charged), least(&free));
        let ratio = charged / free;
        println!("{workload:<10} {charged:>10.2} {free:>15.2} {ratio:>7.3}");
        if ratio > 1.0 + MORE_MAX {
            failures.push(format!("{workload}: {:.1} % more", (ratio - 1.0) * 100.0));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A node, which ends when we do.
struct Node {
    child: Child,
    address: String,
}

impl Node {
    fn start(binary: &Path, name: &str, charge: &str) -> Result<Node, String> {
        let folder = place::target().join("overhead").join(name);
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(told)?;
        }
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(told)?.port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(binary)
            .args(["start", "--listen", &address, "--data-dir"])
            .arg(&folder)
            .args(["--set", "metrics.listen=", "--set", "storage.commit=periodic"])
            .args(["--set", &format!("units.charge={charge}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("the node did not start: {error}"))?;
        let node = Node { child, address };
        let begin = Instant::now();
        while TcpStream::connect(&node.address).is_err() {
            if begin.elapsed() > START_MAX {
                return Err("the node does not listen".into());
            }
            std::thread::sleep(POLL);
        }
        Ok(node)
    }

    /// Server CPU of one request, in microseconds.
    fn measure(&self, load: &Path, workload: &str) -> Result<f64, String> {
        let text = run_quietly(
            Command::new(load)
                .args([&self.address, &self.child.id().to_string(), workload])
                .arg(REQUESTS.to_string()),
        )?;
        cpu_of(&text).ok_or(format!("the load told no CPU time:\n{text}"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(place::target().join("overhead"));
    }
}

/// From `insert: 100000 requests/s, 7.25 us of server CPU each`.
fn cpu_of(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once(" requests/s, ")?;
    rest.split_once(' ')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{cpu_of, least};

    #[test]
    fn the_load_is_understood() {
        assert_eq!(cpu_of("read: 210000 requests/s, 2.65 us of server CPU each\n"), Some(2.65));
        assert_eq!(cpu_of("nothing"), None);
    }

    #[test]
    fn the_least_counts() {
        assert_eq!(least(&[3.0, 1.0, 2.0]), 1.0);
    }
}
