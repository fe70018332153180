//! What is kept of a run, figure by figure, so that one that broke can go on.

use std::path::{Path, PathBuf};

use super::client::Sample;
use super::json::Json;
use super::measure::{Facts, Figures, SystemFigures};
use super::system::System;
use super::workload::{Phase, Scenario};
use crate::place;

/// Where the figures of a run are kept.
fn kept() -> PathBuf {
    place::bench().join("figures")
}

/// Forgets the figures and the data of former runs.
pub(crate) fn forget() -> Result<(), String> {
    for folder in [kept(), place::bench().join("data")] {
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
    }
    Ok(())
}

/// Writes a file and the folders above it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn save(name: &str, value: &Json) {
    // A figure that cannot be kept is still in the report of this run's output.
    if let Err(error) = write(&kept().join(name), &value.to_string()) {
        println!("    {error}");
    }
}

fn read(name: &str) -> Option<Json> {
    Json::parse(&std::fs::read_to_string(kept().join(name)).ok()?).ok()
}

const SAMPLE_FIELDS: [&str; 7] = [
    "requests_per_second",
    "cpu_us_per_request",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "rows_per_request",
    "errors",
];

fn sample_json(sample: &Sample) -> Json {
    let Sample {
        requests_per_second,
        cpu_us,
        p50_ms,
        p99_ms,
        p999_ms,
        rows_per_request,
        error_count,
    } = *sample;
    let values =
        [requests_per_second, cpu_us, p50_ms, p99_ms, p999_ms, rows_per_request, error_count];
    Json::object(SAMPLE_FIELDS.into_iter().zip(values.map(Json::Number)))
}

fn sample_of(json: &Json) -> Sample {
    let [requests_per_second, cpu_us, p50_ms, p99_ms, p999_ms, rows_per_request, error_count] =
        SAMPLE_FIELDS.map(|name| json.number_of(name).unwrap_or(f64::NAN));
    Sample { requests_per_second, cpu_us, p50_ms, p99_ms, p999_ms, rows_per_request, error_count }
}

/// The figures of a scenario as JSON.
pub(crate) fn figures_json(figures: &Figures) -> Json {
    let systems = figures.systems.iter().map(|one| {
        let rates = one.rates.iter().map(|(rate, sample)| {
            Json::object([("rate", Json::Number(*rate)), ("sample", sample_json(sample))])
        });
        let fields = [
            ("rounds", Json::List(one.rounds.iter().map(sample_json).collect())),
            ("rates", Json::List(rates.collect())),
        ];
        (one.system.name(), Json::object(fields))
    });
    let systems: Vec<(String, Json)> = systems.collect();
    let cluster = figures.scenario.cluster.map_or(Json::Null, |cluster| {
        let counts = cluster.nodes.iter().map(|count| Json::Number(f64::from(*count)));
        Json::object([
            ("consistency", Json::Text(cluster.consistency.name().into())),
            ("nodes", Json::List(counts.collect())),
        ])
    });
    Json::object([
        ("phase", Json::Text(figures.scenario.phase.name().into())),
        ("workload", Json::Text(figures.scenario.workload.name.into())),
        ("in_flight", Json::Number(figures.scenario.in_flight.into())),
        ("connections", Json::Number(figures.scenario.connections.into())),
        ("cluster", cluster),
        ("systems", Json::Object(systems)),
    ])
}

pub(crate) fn save_figures(figures: &Figures) {
    save(&format!("{}.json", figures.scenario.id()), &figures_json(figures));
}

/// The figures of a scenario, if it has been measured.
pub(crate) fn load_figures(scenario: &Scenario<'static>) -> Option<Figures> {
    let json = read(&format!("{}.json", scenario.id()))?;
    let mut systems = Vec::new();
    for system in System::every() {
        let Some(one) = json.at(&["systems", &system.name()]) else { continue };
        let rounds = one.get("rounds")?.list().iter().map(sample_of).collect();
        let rates = one.get("rates")?.list().iter();
        let rates =
            rates.filter_map(|it| Some((it.number_of("rate")?, sample_of(it.get("sample")?))));
        systems.push(SystemFigures { system, rounds, rates: rates.collect() });
    }
    Some(Figures { scenario: *scenario, systems })
}

/// The name of the bare sync's figure.
const SYNC: &str = "sync.json";

const FACT_FIELDS: [&str; 4] =
    ["start_to_first_answer_ms", "resident_bytes_fresh", "resident_bytes_loaded", "disk_bytes"];

pub(crate) fn save_facts(facts: &Facts) {
    let Facts { phase, system, started_ms, fresh_bytes, loaded_bytes, disk_bytes } = facts;
    let values = [*started_ms, *fresh_bytes, *loaded_bytes, *disk_bytes];
    let json = Json::object(FACT_FIELDS.into_iter().zip(values.map(Json::Number)));
    save(&format!("facts.{}.{}.json", phase.name(), system.name()), &json);
}

/// Keeps what a bare sync took.
pub(crate) fn save_sync(sync_ms: f64) {
    save(SYNC, &Json::object([("sync_ms", Json::Number(sync_ms))]));
}

/// What a bare sync took, if group commit was measured.
pub(crate) fn load_sync() -> Option<f64> {
    read(SYNC)?.number_of("sync_ms")
}

/// What was seen of the processes.
pub(crate) fn load_facts() -> Vec<Facts> {
    let mut all = Vec::new();
    for phase in Phase::ALL {
        for system in System::every() {
            let name = format!("facts.{}.{}.json", phase.name(), system.name());
            let Some(json) = read(&name) else { continue };
            let [started_ms, fresh_bytes, loaded_bytes, disk_bytes] =
                FACT_FIELDS.map(|name| json.number_of(name).unwrap_or(f64::NAN));
            all.push(Facts { phase, system, started_ms, fresh_bytes, loaded_bytes, disk_bytes });
        }
    }
    all
}
