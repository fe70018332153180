//! The run itself: systems in turns, figures kept scenario by scenario, so that a run that broke can go on.

use std::io::{Seek, Write};
use std::time::{Duration, Instant};

use super::client::{Client, Sample};
use super::cluster;
use super::kept::{load_figures, save_facts, save_figures, save_sync, write};
use super::system::{Server, System};
use super::tools::Tools;
use super::workload::{Amount, Effort, Phase, Scenario};
use crate::place;
use crate::report::in_seconds;

/// How long a system may sort what was loaded before the clock starts.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// And between two scenarios.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// The part of Cassandra's peak at which latencies are compared.
const HALF: f64 = 0.5;

/// What was measured of one system in one scenario.
#[derive(Clone, Debug)]
pub(crate) struct SystemFigures {
    pub(crate) system: System,
    /// At saturation, one for each round.
    pub(crate) rounds: Vec<Sample>,
    /// At fixed rates: what was asked for, and what came.
    pub(crate) rates: Vec<(f64, Sample)>,
}

impl SystemFigures {
    /// Over the rounds.
    pub(crate) fn spread(&self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::over(self.rounds.iter().map(of).collect())
    }
}

/// A median with what lies around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Spread {
    pub(crate) fn over(mut values: Vec<f64>) -> Spread {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Spread {
            median: (at(last / 2) + at(last.div_ceil(2))) / 2.0,
            lowest: at(0),
            highest: at(last),
        }
    }
}

/// What was measured in one scenario.
#[derive(Clone)]
pub(crate) struct Figures {
    pub(crate) scenario: Scenario<'static>,
    pub(crate) systems: Vec<SystemFigures>,
}

impl Figures {
    pub(crate) fn of(&self, system: System) -> Option<&SystemFigures> {
        self.systems.iter().find(|figures| figures.system == system)
    }
}

/// What was seen of a process besides its requests.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) phase: Phase,
    pub(crate) system: System,
    pub(crate) started_ms: f64,
    pub(crate) fresh_bytes: f64,
    pub(crate) loaded_bytes: f64,
    pub(crate) disk_bytes: f64,
}

/// Measures all scenarios that have no figures yet. What goes wrong with one of them is told and costs only that one.
pub(crate) fn run(
    tools: &Tools,
    scenarios: &[Scenario<'static>],
    effort: &Effort,
    failures: &mut Vec<String>,
) {
    let mut client = Client::new(tools);
    for phase in Phase::ALL {
        let open: Vec<&Scenario<'static>> = scenarios
            .iter()
            .filter(|scenario| scenario.phase == phase && load_figures(scenario).is_none())
            .collect();
        if open.is_empty() {
            continue;
        }
        println!("==> {}", phase.title());
        let nodes =
            open.iter().find_map(|scenario| scenario.cluster).map_or(&[][..], |it| it.nodes);
        let mut run = match PhaseRun::start(tools, phase, nodes, failures) {
            Ok(run) => run,
            Err(error) => {
                fail(failures, format!("{}: {error}", phase.name()));
                continue;
            }
        };
        if let Err(error) = run.load(&client, &open) {
            fail(failures, format!("{}: {error}", phase.name()));
        }
        if phase == Phase::Group
            && let Some(sync_ms) = measure_sync()
        {
            save_sync(sync_ms);
        }
        let count = open.len();
        for (index, scenario) in open.into_iter().enumerate() {
            println!("    {} ({} of {count})", scenario.id(), index + 1);
            let begin = Instant::now();
            match run.measure(&mut client, scenario, effort) {
                Ok(figures) => {
                    tell(&figures, begin.elapsed());
                    save_figures(&figures);
                }
                Err(error) => fail(failures, format!("{}: {error}", scenario.id())),
            }
        }
        run.end(failures);
    }
}

/// Tells at once what is told in full at the end.
fn fail(failures: &mut Vec<String>, failure: String) {
    println!("    failed: {}", failure.lines().next().unwrap_or_default());
    failures.push(failure);
}

/// The servers of one phase.
struct PhaseRun<'a> {
    tools: &'a Tools,
    phase: Phase,
    servers: Vec<Server>,
}

impl<'a> PhaseRun<'a> {
    fn start(
        tools: &'a Tools,
        phase: Phase,
        nodes: &[u8],
        failures: &mut Vec<String>,
    ) -> Result<PhaseRun<'a>, String> {
        let start = |system, node| match nodes.first() {
            Some(count) => cluster::start(tools, system, *count, node),
            None => Server::start(tools, system, phase, node, &[]),
        };
        let helenus = start(System::Helenus, None)?;
        let node = helenus.port;
        let mut servers = vec![helenus];
        for count in nodes.iter().skip(1) {
            servers.push(cluster::start(tools, System::More(*count), *count, None)?);
        }
        if tools.cassandra.is_ok() {
            match start(System::Cassandra, None) {
                Ok(server) => servers.push(server),
                // It cannot be helped; the others are worth measuring without it.
                Err(error) => fail(failures, format!("{}: {error}", phase.name())),
            }
        }
        // What the null server costs depends on the cores alone.
        if matches!(phase, Phase::OneCore | Phase::AllCores | Phase::Cluster) {
            servers.push(start(System::Limit, Some(node))?);
        }
        for server in &servers {
            let Server { system, started_ms, fresh_bytes, .. } = server;
            let megabytes = fresh_bytes / 1e6;
            println!("    {}: {started_ms:.0} ms to start, {megabytes:.0} MB", system.title());
        }
        Ok(PhaseRun { tools, phase, servers })
    }

    fn load(&self, client: &Client<'_>, scenarios: &[&Scenario<'static>]) -> Result<(), String> {
        let mut scripts: Vec<&str> = scenarios.iter().map(|it| it.workload.script).collect();
        scripts.sort_unstable();
        scripts.dedup();
        for server in self.servers.iter().filter(|server| server.system.has_storage()) {
            let begin = Instant::now();
            for script in &scripts {
                let mark = server.folder.join("loaded").join(script);
                if mark.exists() {
                    continue;
                }
                client.load(server, script, &self.phase.parameters())?;
                write(&mark, "")?;
            }
            if self.phase == Phase::SmallCache && server.system == System::Helenus {
                server.flush(self.tools)?;
            }
            let idle = 100.0 * server.settle(SETTLE_MAX);
            let (title, took) = (server.system.title(), in_seconds(begin.elapsed()));
            println!("    {title}: loaded in {took}; now it takes {idle:.1} % of a core");
        }
        Ok(())
    }

    /// A, B, C, A, B, C at saturation; then each at the rates that Cassandra's peak (or else our own) gives.
    fn measure(
        &mut self,
        client: &mut Client<'_>,
        scenario: &Scenario<'static>,
        effort: &Effort,
    ) -> Result<Figures, String> {
        let new = |server: &Server| SystemFigures {
            system: server.system,
            rounds: Vec::new(),
            rates: Vec::new(),
        };
        let mut systems: Vec<SystemFigures> = self.servers.iter().map(new).collect();
        for server in &self.servers {
            server.settle(PAUSE_MAX);
            if server.system == System::Cassandra {
                warm_up(client, server, scenario, effort)?;
            }
        }
        for round in 0..effort.rounds {
            for (server, figures) in self.servers.iter().zip(&mut systems) {
                // The limit has nothing in it that varies: once is enough.
                if server.system == System::Limit && round > 0 {
                    continue;
                }
                let sample = client.run(server, scenario, effort.round(scenario), None);
                let sample =
                    sample.map_err(|error| format!("{}: {error}", server.system.title()))?;
                if scenario.cluster.is_some() {
                    tell_turn(server, round, &sample);
                }
                figures.rounds.push(sample);
            }
        }
        let mut figures = Figures { scenario: *scenario, systems };
        if !scenario.has_rates {
            return Ok(figures);
        }
        let peak = |system, part: f64| {
            let figures = figures.of(system)?;
            Some(part * figures.spread(|sample| sample.requests_per_second).median)
        };
        // Without Cassandra, a rate that it might have reached.
        let Some(peak) = peak(System::Cassandra, 1.0).or_else(|| peak(System::Helenus, 0.2)) else {
            return Ok(figures);
        };
        for part in effort.rates {
            for (server, figures) in self.servers.iter().zip(&mut figures.systems) {
                // What more nodes cost is CPU time; the rate is Cassandra's, which has no more of them.
                if matches!(server.system, System::More(_)) {
                    continue;
                }
                // Of the limit one rate is enough: what of the latency is the client's and the kernel's.
                let has_curve = scenario.has_curve && server.system.has_storage();
                if *part != HALF && !has_curve {
                    continue;
                }
                let rate = (peak * part).max(1.0);
                let amount = Amount::Seconds(effort.seconds);
                let sample = client.run(server, scenario, amount, Some(rate))?;
                figures.rates.push((rate, sample));
            }
        }
        Ok(figures)
    }

    fn end(self, failures: &mut Vec<String>) {
        for server in &self.servers {
            save_facts(&Facts {
                phase: self.phase,
                system: server.system,
                started_ms: server.started_ms,
                fresh_bytes: server.fresh_bytes,
                loaded_bytes: server.resident_bytes(),
                disk_bytes: server.disk_bytes(),
            });
        }
        for server in self.servers.into_iter().rev() {
            if let Err(error) = server.stop() {
                failures.push(error);
            }
        }
    }
}

/// Runs the workload until the Java compiler has little left to gain from it.
fn warm_up(
    client: &mut Client<'_>,
    server: &Server,
    scenario: &Scenario<'static>,
    effort: &Effort,
) -> Result<(), String> {
    const SECONDS: f64 = 2.0;
    /// A turn that takes less CPU than this part of the former one was worth its time.
    const WORTH: f64 = 0.9;
    let mut former_us = f64::MAX;
    for _ in 0..effort.warm_ups_max {
        let cpu_us = client.run(server, scenario, Amount::Seconds(SECONDS), None)?.cpu_us;
        if cpu_us > WORTH * former_us {
            break;
        }
        former_us = cpu_us;
    }
    Ok(())
}

/// A turn of a cluster takes a while: each is told when it is over.
fn tell_turn(server: &Server, round: u32, sample: &Sample) {
    let Sample { requests_per_second, cpu_us, p50_ms, p99_ms, error_count, .. } = sample;
    let errors = match *error_count {
        count if count > 0.0 => format!(", {count} errors"),
        _ => String::new(),
    };
    println!(
        "        round {}, {:<24} {requests_per_second:>8.0} requests/s, {cpu_us:>8.2} us, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms{errors}",
        round + 1,
        server.system.title(),
    );
}

fn tell(figures: &Figures, took: Duration) {
    println!("      after {}:", in_seconds(took));
    for one in &figures.systems {
        let throughput = one.spread(|sample| sample.requests_per_second);
        let cpu = one.spread(|sample| sample.cpu_us);
        println!(
            "        {:<24} {:>8.0} requests/s ({:.0} to {:.0}), {:>7.2} us of CPU each",
            one.system.title(),
            throughput.median,
            throughput.lowest,
            throughput.highest,
            cpu.median
        );
    }
}

/// What one bare sync of a small write takes here, in milliseconds: the least that a lone writer waits for.
fn measure_sync() -> Option<f64> {
    const ROUNDS: u32 = 200;
    let path = place::bench().join("data/sync");
    let mut file = std::fs::File::create(&path).ok()?;
    let mut took = Vec::new();
    // Room first, as a log has it: growing a file is more than a sync.
    file.write_all(&[0; 512 * ROUNDS as usize]).ok()?;
    file.sync_all().ok()?;
    file.rewind().ok()?;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        file.write_all(&[1; 512]).ok()?;
        file.sync_data().ok()?;
        took.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    let _ = std::fs::remove_file(&path);
    Some(Spread::over(took).median)
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn medians() {
        let check = |values: &[f64], median: f64| {
            assert_eq!(Spread::over(values.to_vec()).median, median, "{values:?}");
        };
        check(&[3.0], 3.0);
        check(&[3.0, 1.0], 2.0);
        check(&[9.0, 1.0, 2.0], 2.0);
        check(&[1.0, 2.0, 4.0, 100.0], 3.0);
        check(&[f64::NAN, 5.0], 5.0);
    }
}
