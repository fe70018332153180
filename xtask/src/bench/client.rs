//! The client: latte, one process for each measurement.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::json::Json;
use super::system::{CLIENT_CORE, Server, pinned, tied};
use super::tools::Tools;
use super::workload::{Amount, CONNECTIONS, Phase, Scenario, Workload};
use crate::place;
use crate::process::{lines, run_quietly};

/// What latte says when it begins to count.
const BEGINS: &str = "Running benchmark";
/// Before it counts.
const WARM_UP: &str = "500ms";
/// More than are ever under way at the rates that are asked for, so that the loop stays open.
const OPEN_LOOP_IN_FLIGHT: u32 = 1024;
/// Each run has cycle numbers of its own, so that what is inserted is new.
const CYCLES_PER_RUN: u64 = 1_000_000_000;
/// More failed requests than this part of all, and the figures are not of what was asked for: what fails early costs little, what fails
/// late costs CPU that is counted to the others.
const ERRORS_MAX: f64 = 0.01;
/// Where latte's list of percentiles has them.
const P50: usize = 6;
const P99: usize = 11;
const P999: usize = 12;

/// One measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) requests_per_second: f64,
    pub(crate) cpu_us: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) rows_per_request: f64,
    pub(crate) error_count: f64,
}

/// Makes measurements.
pub(crate) struct Client<'a> {
    tools: &'a Tools,
    run_count: u64,
}

impl<'a> Client<'a> {
    pub(crate) fn new(tools: &'a Tools) -> Client<'a> {
        Client { tools, run_count: 0 }
    }

    fn latte(&self) -> Command {
        let mut latte = Command::new(&self.tools.latte);
        latte.arg("--log-dir").arg(place::bench().join("latte"));
        latte
    }

    /// Makes the tables of a script and fills them.
    pub(crate) fn load(
        &self,
        server: &Server,
        script: &str,
        parameters: &[String],
    ) -> Result<(), String> {
        let log = place::bench().join("latte");
        std::fs::create_dir_all(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let path = script_path(script);
        let parameters = || parameters.iter().flat_map(|it| ["-P", it]);
        let mut schema = self.latte();
        schema.arg("schema").args(parameters()).arg(&path).arg("--").arg(server.address());
        run_quietly(&mut schema)?;
        let mut load = self.latte();
        load.args(["load", "--quiet", "--threads", "1", "--concurrency", "128", "--connections"])
            .args([CONNECTIONS.to_string(), "--request-timeout".into(), "30s".into()])
            .args(parameters())
            .arg(&path)
            .args(["--", &server.address()]);
        run_quietly(&mut load).map(drop)
    }

    /// Runs a workload, as fast as it goes or at a rate.
    pub(crate) fn run(
        &mut self,
        server: &Server,
        scenario: &Scenario<'_>,
        amount: Amount,
        rate: Option<f64>,
    ) -> Result<Sample, String> {
        let mut parameters = scenario.phase.parameters();
        parameters.extend(scenario.workload.parameters.iter().map(|it| it.to_string()));
        self.run_as(server, scenario, &parameters, amount, rate)
    }

    /// Runs a workload that is none of the bench's, pinned and at saturation.
    pub(crate) fn run_with(
        &mut self,
        server: &Server,
        workload: &Workload,
        parameters: &[String],
        amount: Amount,
    ) -> Result<Sample, String> {
        let scenario = Scenario {
            phase: Phase::OneCore,
            workload,
            in_flight: workload.in_flight,
            connections: CONNECTIONS,
            has_rates: false,
            has_curve: false,
            cluster: None,
        };
        self.run_as(server, &scenario, parameters, amount, None)
    }

    fn run_as(
        &mut self,
        server: &Server,
        scenario: &Scenario<'_>,
        parameters: &[String],
        amount: Amount,
        rate: Option<f64>,
    ) -> Result<Sample, String> {
        self.run_count += 1;
        let output = place::bench().join("latte/run.json");
        let _ = std::fs::remove_file(&output);
        let mut latte = self.latte();
        let in_flight = rate.map_or(scenario.in_flight, |_| OPEN_LOOP_IN_FLIGHT);
        latte
            .args(["run", "--quiet", "--threads", "1", "--warmup", WARM_UP])
            .args(["--request-timeout", "30s", "--sampling", "500ms"])
            .args(["--connections", &server.connections_of(scenario.connections).to_string()])
            .args(["--concurrency", &in_flight.to_string()])
            .args(["--duration", &duration(amount)])
            .args(["--start-cycle", &(self.run_count * CYCLES_PER_RUN).to_string()])
            .args(scenario.workload.functions.iter().flat_map(|name| ["--functions", name]))
            .args(parameters.iter().flat_map(|it| ["-P", it]))
            .arg("--output")
            .arg(&output);
        if let Some(consistency) = scenario.consistency() {
            latte.args(["--consistency", consistency.name()]);
        }
        if let Some(rate) = rate {
            latte.args(["--rate", &format!("{rate:.0}")]);
        }
        latte.arg(script_path(scenario.workload.script)).args(["--", &server.address()]);
        let is_pinned = scenario.phase.is_pinned() && self.tools.can_pin;
        let latte = pinned(tied(latte, self.tools), is_pinned.then_some(CLIENT_CORE));
        let cpu_seconds = run_counting(latte, server)?;
        let text = std::fs::read_to_string(&output)
            .map_err(|error| format!("{}: {error}", output.display()))?;
        sample(&Json::parse(&text)?, cpu_seconds)
    }
}

/// As latte wants it: a number alone is a number of requests.
fn duration(amount: Amount) -> String {
    match amount {
        Amount::Requests(count) => count.to_string(),
        Amount::Seconds(seconds) => format!("{}ms", (seconds * 1000.0).round()),
    }
}

fn script_path(script: &str) -> PathBuf {
    place::workloads().join(format!("{script}.rn"))
}

/// Runs latte and says how much CPU time the server took while it counted.
fn run_counting(mut latte: Command, server: &Server) -> Result<f64, String> {
    latte.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = latte.spawn().map_err(|error| format!("latte did not start: {error}"))?;
    let mut told = String::new();
    let mut before = None;
    if let Some(stderr) = child.stderr.take() {
        let stderr: Box<dyn Read> = Box::new(stderr);
        for line in lines(stderr) {
            if line.contains(BEGINS) {
                before = Some(server.cpu_seconds());
            }
            told.push_str(&line);
            told.push('\n');
        }
    }
    let status = child.wait().map_err(|error| format!("latte: {error}"))?;
    if !server.is_whole() {
        return Err("a process of the server ended meanwhile".into());
    }
    match before {
        Some(before) if status.success() => Ok(server.cpu_seconds() - before),
        _ => Err(format!("latte ended with {status}\n{told}")),
    }
}

fn sample(report: &Json, cpu_seconds: f64) -> Result<Sample, String> {
    let result = report.get("result").ok_or("latte's report has no result")?;
    let number = |path: &[&str]| {
        result.at(path).and_then(Json::number).ok_or(format!("latte's report lacks {path:?}"))
    };
    let requests = number(&["request_count"])?;
    if requests < 1.0 {
        return Err("no request was answered".into());
    }
    let error_count = number(&["error_count"])?;
    if error_count > ERRORS_MAX * (requests + error_count) {
        return Err(format!("{error_count} requests failed, {requests} did not"));
    }
    let percentiles = result.at(&["request_latency", "percentiles"]).map(Json::list);
    let percentiles = percentiles.unwrap_or_default();
    let percentile =
        |at: usize| percentiles.get(at).and_then(|it| it.number_of("value")).unwrap_or(f64::NAN);
    Ok(Sample {
        requests_per_second: requests / number(&["elapsed_time_s"])?,
        cpu_us: cpu_seconds * 1e6 / requests,
        p50_ms: percentile(P50),
        p99_ms: percentile(P99),
        p999_ms: percentile(P999),
        rows_per_request: number(&["row_count"])? / requests,
        error_count,
    })
}

#[cfg(test)]
mod tests {
    use super::{Json, sample};

    #[test]
    fn figures_of_requests_that_failed_are_none() {
        let report = |requests: f64, errors: f64| {
            let number = Json::Number;
            let fields = [
                ("request_count", number(requests)),
                ("error_count", number(errors)),
                ("elapsed_time_s", number(2.0)),
                ("row_count", number(0.0)),
            ];
            Json::object([("result", Json::object(fields))])
        };
        let good = sample(&report(1000.0, 10.0), 0.5).unwrap();
        assert_eq!((good.requests_per_second, good.cpu_us), (500.0, 500.0));
        let told = sample(&report(1.0, 127.0), 1.0).unwrap_err();
        assert_eq!(told, "127 requests failed, 1 did not");
        assert!(sample(&report(0.0, 0.0), 1.0).is_err());
    }
}
