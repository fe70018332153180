//! Pictures: one for each workload (throughput, and latency over load), and one of all of them.

use std::fmt::Write;

use super::client::Sample;
use super::measure::Figures;
use super::report::{ratio, spread_of};
use super::system::System;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 56.0;

fn color(system: System) -> &'static str {
    match system {
        System::Helenus | System::More(_) => "#1b7f5c",
        System::Cassandra => "#c0504d",
        System::Limit => "#9a9a9a",
    }
}

fn begin(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    )
}

fn put_text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222222\">{text}</text>"
    );
}

fn put_box(svg: &mut String, x: f64, y: f64, width: f64, height: f64, fill: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
    );
}

fn put_line(svg: &mut String, from: (f64, f64), to: (f64, f64), stroke: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// Throughput of one scenario on the left, latency over load on the right.
pub(crate) fn of_scenario(figures: &Figures) -> String {
    let mut svg = begin(WIDTH, HEIGHT);
    let title = format!("{} ({})", figures.scenario.workload.title, figures.scenario.conditions());
    put_text(&mut svg, WIDTH / 2.0, 18.0, "middle", &title);
    put_throughput(&mut svg, figures, MARGIN, 40.0, 300.0, HEIGHT - 90.0);
    put_latency(&mut svg, figures, 450.0, 40.0, WIDTH - 450.0 - 20.0, HEIGHT - 90.0);
    svg.push_str("</svg>\n");
    svg
}

fn put_throughput(svg: &mut String, figures: &Figures, x: f64, y: f64, width: f64, height: f64) {
    let systems: Vec<_> = figures
        .systems
        .iter()
        .map(|it| (it.system, it.spread(|sample| sample.requests_per_second)))
        .collect();
    let top = systems.iter().map(|(_, spread)| spread.highest).fold(1.0, f64::max);
    let step = width / systems.len().max(1) as f64;
    for (index, (system, spread)) in systems.iter().enumerate() {
        let left = x + index as f64 * step + step * 0.15;
        let level = |value: f64| y + height * (1.0 - value / top);
        let at = level(spread.median);
        put_box(svg, left, at, step * 0.7, y + height - at, color(*system));
        let middle = left + step * 0.35;
        let (low, high) = ((middle, level(spread.lowest)), (middle, level(spread.highest)));
        put_line(svg, low, high, "#222222");
        let figure = thousands(spread.median);
        put_text(svg, middle, level(spread.highest) - 4.0, "middle", &figure);
        put_text(svg, middle, y + height + 16.0, "middle", &system.title());
    }
    put_line(svg, (x, y + height), (x + width, y + height), "#222222");
    put_text(
        svg,
        x + width / 2.0,
        y + height + 38.0,
        "middle",
        "requests per second at saturation",
    );
}

/// The load and the 99th percentile at each rate, and at saturation, both on logarithmic axes.
fn put_latency(svg: &mut String, figures: &Figures, x: f64, y: f64, width: f64, height: f64) {
    let curves: Vec<(System, Vec<Sample>)> = figures
        .systems
        .iter()
        .map(|it| {
            let mut points: Vec<Sample> = it.rates.iter().map(|(_, sample)| *sample).collect();
            let peak = Sample {
                requests_per_second: it.spread(|sample| sample.requests_per_second).median,
                p50_ms: it.spread(|sample| sample.p50_ms).median,
                p99_ms: it.spread(|sample| sample.p99_ms).median,
                ..Sample::default()
            };
            points.push(peak);
            points.sort_by(|a, b| a.requests_per_second.total_cmp(&b.requests_per_second));
            (it.system, points)
        })
        .collect();
    let all = || curves.iter().flat_map(|(_, points)| points);
    let range = |of: fn(&Sample) -> f64, least: f64| {
        let values = || all().map(of).filter(|value| value.is_finite() && *value > 0.0);
        let low = values().fold(f64::MAX, f64::min).max(least);
        let high = values().fold(low * 10.0, f64::max);
        (low.log10().floor(), high.log10().ceil())
    };
    let (left, right) = range(|it| it.requests_per_second, 1.0);
    let (bottom, top) = range(|it| it.p50_ms.min(it.p99_ms), 0.01);
    let top = top.max(range(|it| it.p99_ms, 0.01).1);
    let place = |load: f64, latency: f64| {
        let across = (load.max(1.0).log10() - left) / (right - left).max(1.0);
        let up = (latency.max(0.001).log10() - bottom) / (top - bottom).max(1.0);
        (x + width * across.clamp(0.0, 1.0), y + height * (1.0 - up.clamp(0.0, 1.0)))
    };
    for exponent in bottom as i32..=top as i32 {
        let (_, at) = place(10.0, 10f64.powi(exponent));
        put_line(svg, (x, at), (x + width, at), "#dddddd");
        put_text(svg, x - 6.0, at + 4.0, "end", &format!("{} ms", 10f64.powi(exponent)));
    }
    for exponent in left as i32..=right as i32 {
        let (at, _) = place(10f64.powi(exponent), 1.0);
        put_line(svg, (at, y), (at, y + height), "#dddddd");
        put_text(svg, at, y + height + 16.0, "middle", &thousands(10f64.powi(exponent)));
    }
    for (system, points) in &curves {
        for (of, dash) in [(p50 as fn(&Sample) -> f64, "2,3"), (p99, "none")] {
            let line: Vec<String> = points
                .iter()
                .map(|point| place(point.requests_per_second, of(point)))
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
                line.join(" "),
                color(*system)
            );
        }
    }
    let legend = "latency over requests per second, both logarithmic; line: p99, dotted: p50; last point: saturation";
    put_text(svg, x + width / 2.0, y + height + 38.0, "middle", legend);
}

fn p50(sample: &Sample) -> f64 {
    sample.p50_ms
}

fn p99(sample: &Sample) -> f64 {
    sample.p99_ms
}

/// How many times Cassandra's throughput Helenus has, and how much less CPU a request takes it.
pub(crate) fn of_all(rows: &[&Figures], caption: &str) -> String {
    const TITLE: &str = "Helenus compared with Cassandra 5.0.5 = 1 (logarithmic scale: twice as long is not twice as much)";
    const ROW: f64 = 34.0;
    const LABEL: f64 = 240.0;
    let bars: Vec<(&str, f64, f64)> = rows
        .iter()
        .filter_map(|figures| {
            let of = |system, of: fn(&Sample) -> f64| spread_of(figures, system, of);
            let throughput: fn(&Sample) -> f64 = |it| it.requests_per_second;
            let cpu: fn(&Sample) -> f64 = |it| it.cpu_us;
            let faster = ratio(of(System::Helenus, throughput), of(System::Cassandra, throughput))?;
            let leaner = ratio(of(System::Cassandra, cpu), of(System::Helenus, cpu))?;
            Some((figures.scenario.workload.title, faster, leaner))
        })
        .collect();
    let height = 84.0 + ROW * bars.len() as f64;
    let mut svg = begin(WIDTH, height);
    put_text(&mut svg, WIDTH / 2.0, 20.0, "middle", TITLE);
    put_box(&mut svg, LABEL, 32.0, 12.0, 12.0, "#1b7f5c");
    put_text(&mut svg, LABEL + 18.0, 42.0, "start", "times its throughput at saturation");
    put_box(&mut svg, LABEL + 280.0, 32.0, 12.0, 12.0, "#2f5d8a");
    put_text(&mut svg, LABEL + 298.0, 42.0, "start", "times less CPU per request");
    let top = bars.iter().map(|(_, a, b)| a.max(*b)).fold(2.0, f64::max);
    // Logarithmic: a ratio of 2 and one of 60 are both to be seen.
    let length = |value: f64| {
        (WIDTH - LABEL - 60.0) * ((value.max(0.5) / 0.5).ln() / (top / 0.5).ln()).max(0.0)
    };
    for (index, (title, faster, leaner)) in bars.iter().enumerate() {
        let y = 58.0 + index as f64 * ROW;
        put_text(&mut svg, LABEL - 8.0, y + 15.0, "end", title);
        for (offset, value, fill) in [(0.0, *faster, "#1b7f5c"), (12.0, *leaner, "#2f5d8a")] {
            put_box(&mut svg, LABEL, y + offset, length(value), 11.0, fill);
            let figure = format!("{value:.1}");
            put_text(&mut svg, LABEL + length(value) + 4.0, y + offset + 10.0, "start", &figure);
        }
    }
    let one = LABEL + length(1.0);
    put_line(&mut svg, (one, 50.0), (one, height - 26.0), "#c0504d");
    put_text(&mut svg, WIDTH / 2.0, height - 8.0, "middle", caption);
    svg.push_str("</svg>\n");
    svg
}

fn thousands(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        value if value >= 1000.0 => format!("{:.1}k", value / 1000.0),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who looks at bars takes them for lengths.
    #[test]
    fn the_picture_says_that_its_scale_is_logarithmic() {
        let svg = of_all(&[], "a machine");
        assert!(svg.contains("logarithmic scale") && svg.contains("a machine"), "{svg}");
    }
}
