//! One page that shows a run, with nothing outside of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;

use super::faults::LANES;
use super::ground::{Call, Ended, Ground, Lead, Spell, lock};
use super::load::Seen;
use super::soak::{MEASURES, Sample};
use super::{Failure, Report, Wish};

const WIDTH: f64 = 1160.0;
/// Left of a picture, for names.
const MARGIN: f64 = 150.0;
const ROW: f64 = 15.0;
const LATENCY_HEIGHT: f64 = 180.0;
/// Requests that began within so many milliseconds are drawn together.
const BUCKET_MS: u64 = 250;
/// The slowest answer that is drawn as such.
const SLOWEST_US: f64 = 12_000_000.0;
const COLORS: [&str; 8] =
    ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f"];
/// Of what the nodes wrote so many lines are shown where something is wrong.
const LOG_LINES: usize = 400;
const STYLE: &str = "body{font:14px sans-serif;margin:2em;max-width:1200px}svg text{font:11px sans-serif}\
pre{background:#f4f4f4;padding:.6em;overflow:auto}td,th{text-align:left;padding:.1em .8em .1em 0}.bad{color:#b00020}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writes it.
pub(super) fn write(
    wish: &Wish,
    report: &Report,
    (seen, samples): (&Seen, &[Sample]),
    ground: &Ground,
    log: &str,
) -> Result<(), Failure> {
    let (spells, leads) = (lock(&ground.spells).clone(), lock(&ground.leads).clone());
    let last_call = seen.calls.iter().map(|call| call.at_ms).max().unwrap_or(0);
    let end_ms = spells.iter().map(|it| it.to_ms).chain([last_call]).max().unwrap_or(1).max(1);
    let place = |at_ms: u64| MARGIN + (WIDTH - MARGIN) * at_ms as f64 / end_ms as f64;
    let mut page = String::new();
    let _ = write!(
        page,
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>chaos {seed}</title><style>{STYLE}</style>\
         <h1>chaos: seed {seed}, {operations} operations, {count} anomalies</h1>\
         <p>{nodes} nodes at first, {time:?} of faults, {faults} faults; {undecided} histories of registers were too entangled for a verdict. \
         Again: <code>cargo xtask chaos --seed {seed} --minutes {minutes}</code></p>",
        seed = wish.seed,
        operations = report.operations,
        count = report.anomalies.len(),
        nodes = wish.nodes,
        time = wish.time,
        faults = report.faults,
        undecided = report.undecided,
        minutes = wish.time.as_secs_f64() / 60.0,
    );
    page.push_str("<h2>Anomalies</h2>");
    if report.anomalies.is_empty() {
        page.push_str("<p>None.</p>");
    }
    for anomaly in &report.anomalies {
        let (what, story) = (escaped(&anomaly.what), escaped(&anomaly.story));
        let _ = write!(page, "<h3 class=\"bad\">{what}</h3><pre>{story}</pre>");
    }
    page.push_str("<h2>Faults</h2>");
    page.push_str(&timeline(&spells, &place));
    page.push_str("<h2>Leaders</h2>");
    page.push_str(&leaders(&leads, end_ms, &place));
    page.push_str("<h2>Answers</h2><p>Median, 99 of 100 and slowest, on a logarithmic scale from 0.1 ms to 12 s; below, what was refused (orange) and what got no answer (red).</p>");
    page.push_str(&latencies(&seen.calls, &place));
    page.push_str("<h2>Nodes</h2>");
    for (measure, (name, ..)) in MEASURES.iter().enumerate() {
        page.push_str(&measured(samples, measure, name, &place));
    }
    page.push_str("<h2>Requests</h2>");
    page.push_str(&requests(&seen.calls));
    page.push_str("<h2>Every fault</h2><table><tr><th>from, ms<th>to, ms<th>what</tr>");
    for spell in &spells {
        let what = escaped(&spell.what);
        let _ = write!(page, "<tr><td>{}<td>{}<td>{what}</tr>", spell.from_ms, spell.to_ms);
    }
    page.push_str("</table>");
    if !report.anomalies.is_empty() {
        let lines: Vec<&str> = log.lines().collect();
        let shown = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
        let _ = write!(
            page,
            "<h2>The last words of the nodes</h2><pre>{}</pre>",
            escaped(&shown.join("\n"))
        );
    }
    if let Some(folder) = wish.page.parent() {
        std::fs::create_dir_all(folder)?;
    }
    File::create(&wish.page)?.write_all(page.as_bytes())?;
    Ok(())
}

fn svg(height: f64, inside: &str) -> String {
    format!("<svg width=\"{WIDTH}\" height=\"{height}\" role=\"img\">{inside}</svg>")
}

/// A bar with a text that shows when it is pointed at.
fn bar(from: f64, to: f64, y: f64, color: &str, title: &str) -> String {
    let width = (to - from).max(2.0);
    format!(
        "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{color}\"><title>{title}</title></rect>",
        height = ROW - 3.0,
        title = escaped(title)
    )
}

fn timeline(spells: &[Spell], place: &impl Fn(u64) -> f64) -> String {
    let (mut inside, mut y) = (String::new(), 0.0);
    for (lane, name) in LANES.iter().enumerate() {
        let _ = write!(inside, "<text x=\"0\" y=\"{:.1}\">{name}</text>", y + 11.0);
        let color = COLORS.get(lane).copied().unwrap_or("#888");
        for spell in spells.iter().filter(|it| it.lane == lane) {
            let title = format!("{} to {} ms: {}", spell.from_ms, spell.to_ms, spell.what);
            inside.push_str(&bar(place(spell.from_ms), place(spell.to_ms), y, color, &title));
        }
        y += ROW;
    }
    svg(y, &inside)
}

fn leaders(leads: &[Lead], end_ms: u64, place: &impl Fn(u64) -> f64) -> String {
    let mut sets: BTreeMap<i32, Vec<(u64, i64)>> = BTreeMap::new();
    leads.iter().for_each(|it| sets.entry(it.set).or_default().push((it.at_ms, it.node)));
    let (mut inside, mut y) = (String::new(), 0.0);
    for (set, changes) in &sets {
        let count = changes.len().saturating_sub(1);
        let _ =
            write!(inside, "<text x=\"0\" y=\"{:.1}\">set {set}, {count} changes</text>", y + 11.0);
        let ends = changes.iter().skip(1).map(|(at_ms, _)| *at_ms).chain([end_ms]);
        for ((at_ms, node), until_ms) in changes.iter().zip(ends) {
            let color = usize::try_from(*node).ok().and_then(|it| COLORS.get(it % COLORS.len()));
            let title = format!("node {node} from {at_ms} ms on");
            let color = color.copied().unwrap_or("#888");
            inside.push_str(&bar(place(*at_ms), place(until_ms), y, color, &title));
        }
        y += ROW;
    }
    svg(y.max(1.0), &inside)
}

fn latencies(calls: &[Call], place: &impl Fn(u64) -> f64) -> String {
    let mut buckets: BTreeMap<u64, (Vec<u64>, usize, usize)> = BTreeMap::new();
    for call in calls {
        let bucket = buckets.entry(call.at_ms / BUCKET_MS).or_default();
        match call.ended {
            Ended::Answered => bucket.0.push(call.took_us),
            Ended::Refused => bucket.1 += 1,
            Ended::Unknown => bucket.2 += 1,
        }
    }
    let height_of = |us: u64| {
        let part = (us.max(100) as f64 / 100.0).ln() / (SLOWEST_US / 100.0).ln();
        LATENCY_HEIGHT * (1.0 - part.min(1.0))
    };
    let mut lines = [String::new(), String::new(), String::new()];
    let mut inside = String::new();
    for (number, us) in [
        ("0.1 ms", 100),
        ("1 ms", 1_000),
        ("10 ms", 10_000),
        ("100 ms", 100_000),
        ("1 s", 1_000_000),
    ] {
        let y = height_of(us);
        let _ = write!(
            inside,
            "<text x=\"90\" y=\"{:.1}\">{number}</text><line x1=\"{MARGIN}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>",
            y + 4.0
        );
    }
    for (bucket, (times, refused, unknown)) in &mut buckets {
        let x = place(*bucket * BUCKET_MS);
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        for (line, at) in lines.iter_mut().zip([last / 2, last * 99 / 100, last]) {
            if let Some(us) = times.get(at) {
                let _ = write!(line, "{x:.1},{:.1} ", height_of(*us));
            }
        }
        for (count, color, shift) in [(*refused, "#f28e2b", 0.0), (*unknown, "#e15759", 2.0)] {
            let height = (count as f64).min(40.0);
            let _ = write!(
                inside,
                "<rect x=\"{:.1}\" y=\"{}\" width=\"2\" height=\"{height}\" fill=\"{color}\"/>",
                x + shift,
                LATENCY_HEIGHT + 4.0
            );
        }
    }
    for (line, color) in lines.iter().zip(["#4e79a7", "#b07aa1", "#bbb"]) {
        let _ = write!(inside, "<polyline points=\"{line}\" fill=\"none\" stroke=\"{color}\"/>");
    }
    svg(LATENCY_HEIGHT + 46.0, &inside)
}

/// A line for each node.
fn measured(samples: &[Sample], measure: usize, name: &str, place: &impl Fn(u64) -> f64) -> String {
    const HEIGHT: f64 = 70.0;
    let value = |it: &Sample| it.values.get(measure).copied().unwrap_or(0);
    let most = samples.iter().map(value).max().unwrap_or(0).max(1);
    let mut lines: BTreeMap<usize, String> = BTreeMap::new();
    for sample in samples {
        let y = HEIGHT * (1.0 - value(sample) as f64 / most as f64);
        let line = lines.entry(sample.node).or_default();
        let _ = write!(line, "{:.1},{y:.1} ", place(sample.at_ms));
    }
    let mut inside = format!(
        "<text x=\"0\" y=\"11\">{}</text><text x=\"0\" y=\"26\">at most {most}</text>",
        escaped(name)
    );
    for (node, line) in lines {
        let color = COLORS.get(node % COLORS.len()).copied().unwrap_or("#888");
        let _ = write!(
            inside,
            "<polyline points=\"{line}\" fill=\"none\" stroke=\"{color}\"><title>node {node}</title></polyline>"
        );
    }
    svg(HEIGHT + 8.0, &inside)
}

fn requests(calls: &[Call]) -> String {
    let mut kinds: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for call in calls {
        let [answered, refused, unknown] = kinds.entry(call.kind).or_default();
        match call.ended {
            Ended::Answered => *answered += 1,
            Ended::Refused => *refused += 1,
            Ended::Unknown => *unknown += 1,
        }
    }
    let mut table = "<table><tr><th>what<th>answered<th>refused<th>no answer</tr>".to_owned();
    for (kind, [answered, refused, unknown]) in kinds {
        let _ = write!(table, "<tr><td>{kind}<td>{answered}<td>{refused}<td>{unknown}</tr>");
    }
    table + "</table>"
}
