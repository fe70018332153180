//! Whether a run leaves more and more behind: memory, descriptors, files and the log of every node, and how long answers take, over time. What
//! grows with the rows that clients write is not judged; what should stay as it is, is.

use std::path::Path;
use std::time::Duration;

use super::faults::Field;
use super::ground::{Call, Ended, lock};
use super::judge::Anomaly;

/// Runs shorter than this are all beginning: nothing is said of them.
const JUDGED_FROM: Duration = Duration::from_secs(8 * 60);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// What lies below a node's folder is counted so deep.
const DEPTH_MAX: usize = 6;

/// What is looked at, by name: how much more than in the second quarter of a run there may be in the last one, as a factor and as a number.
pub(crate) const MEASURES: [(&str, f64, u64); 4] = [
    ("resident memory, bytes", 1.25, 32 << 20),
    ("descriptors", 1.25, 64),
    ("files", 1.5, 200),
    ("log, bytes", 1.5, 64 << 20),
];
/// The same for the slowest of a hundred answers, in microseconds.
const LATENCY: (f64, u64) = (2.0, 50_000);

/// One node at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at_ms: u64,
    pub(crate) node: usize,
    pub(crate) values: [u64; MEASURES.len()],
}

/// Files below a folder, and the bytes of those in the log.
fn count_files(folder: &Path, is_log: bool, depth: usize) -> (u64, u64) {
    let (mut files, mut log_bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() && depth > 0 {
            let is_log = is_log || entry.file_name() == "log";
            let (more, more_bytes) = count_files(&entry.path(), is_log, depth - 1);
            (files, log_bytes) = (files + more, log_bytes + more_bytes);
        } else if metadata.is_file() {
            files += 1;
            log_bytes += if is_log { metadata.len() } else { 0 };
        }
    }
    (files, log_bytes)
}

fn resident_bytes(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// Looks at all nodes until all is over.
pub(super) fn watch(field: &Field<'_>) -> Vec<Sample> {
    let mut samples = Vec::new();
    while !field.ground.is_over() {
        for node in field.nodes() {
            let (process, folder) = {
                let cluster = lock(&field.cluster);
                (cluster.process(node), cluster.folder(node).to_path_buf())
            };
            let Some(process) = process else { continue };
            let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"));
            // It may have ended meanwhile.
            let (Some(memory), Ok(descriptors)) = (resident_bytes(process), descriptors) else {
                continue;
            };
            let (files, log_bytes) = count_files(&folder, false, DEPTH_MAX);
            let values = [memory, descriptors.count() as u64, files, log_bytes];
            samples.push(Sample { at_ms: field.ground.now_ms(), node, values });
        }
        field.ground.last(SAMPLE_INTERVAL);
        if field.ground.is_calm() {
            std::thread::sleep(SAMPLE_INTERVAL.min(Duration::from_millis(200)));
        }
    }
    samples
}

fn at_share(mut values: Vec<u64>, share: usize) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() * share / 100).copied()
}

/// What grew though it should not have.
pub(super) fn judge(time: Duration, samples: &[Sample], calls: &[Call]) -> Vec<Anomaly> {
    if time < JUDGED_FROM {
        return Vec::new();
    }
    let whole_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let quarter = |at_ms: u64| at_ms * 4 / whole_ms.max(1);
    let mut found = Vec::new();
    let mut compare = |what: String, before: Option<u64>, after: Option<u64>, bound: (f64, u64)| {
        let (Some(before), Some(after)) = (before, after) else { return };
        if after as f64 > before as f64 * bound.0 + bound.1 as f64 {
            let story =
                format!("{before} in the second quarter of the run, {after} in the last one");
            found.push(Anomaly { what: format!("{what} grew"), story });
        }
    };
    let nodes: std::collections::BTreeSet<usize> = samples.iter().map(|it| it.node).collect();
    for node in nodes {
        for (place, (name, factor, more)) in MEASURES.into_iter().enumerate() {
            let of = |wanted: u64| {
                let is_meant = |it: &&Sample| it.node == node && quarter(it.at_ms) == wanted;
                let values = samples.iter().filter(is_meant).filter_map(|it| it.values.get(place));
                at_share(values.copied().collect(), 50)
            };
            compare(format!("node {node}: {name}"), of(1), of(3), (factor, more));
        }
    }
    let slow = |wanted: u64| {
        let is_meant = |it: &&Call| it.ended == Ended::Answered && quarter(it.at_ms) == wanted;
        at_share(calls.iter().filter(is_meant).map(|it| it.took_us).collect(), 99)
    };
    compare("the time of answers, 99 of 100,".into(), slow(1), slow(3), LATENCY);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_found_and_what_stays_is_not() {
        let time = Duration::from_secs(800);
        let samples = |last: [u64; 4]| -> Vec<Sample> {
            let first = [100 << 20, 50, 300, 100 << 20];
            let at = |second: u64| if second < 600 { first } else { last };
            (0..800)
                .map(|second| Sample { at_ms: second * 1_000, node: 1, values: at(second) })
                .collect()
        };
        let calls = |last_us: u64| -> Vec<Call> {
            (0..8_000)
                .map(|it| Call {
                    at_ms: it * 100,
                    took_us: if it < 6_000 { 1_000 } else { last_us },
                    ended: Ended::Answered,
                    kind: "read",
                })
                .collect()
        };
        let same = [100 << 20, 50, 300, 100 << 20];
        assert!(judge(time, &samples(same), &calls(1_000)).is_empty());
        for (place, grown) in [400 << 20, 500, 3_000, 400 << 20].into_iter().enumerate() {
            let mut last = same;
            last[place] = grown;
            let found = judge(time, &samples(last), &calls(1_000));
            let name = MEASURES[place].0;
            assert!(found.len() == 1 && found[0].what.contains(name), "{name}: {found:?}");
        }
        let found = judge(time, &samples(same), &calls(900_000));
        assert!(found.len() == 1 && found[0].what.contains("time of answers"), "{found:?}");
        assert!(judge(Duration::from_secs(60), &samples([u64::MAX; 4]), &[]).is_empty());
    }
}
