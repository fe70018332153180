//! Lines over time as SVG, which the page's script replaces by ones that can be zoomed.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::figure;
use crate::history::{History, Series};

/// The picture, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 150.0;
/// Where the lines begin: there is room for numbers before and times below.
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 132.0;
const TOP: f64 = 8.0;
/// A line has no more points.
const POINTS_MAX: u32 = 180;

/// What the numbers of a chart are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    PerSecond,
    Milliseconds,
    Bytes,
    Count,
}

impl Unit {
    /// The number with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::PerSecond | Unit::Count => figure::count(value),
            Unit::Milliseconds => figure::milliseconds(value),
            Unit::Bytes => figure::bytes(value as u64),
        }
    }

    /// How the script is told of it.
    fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "per-second",
            Unit::Milliseconds => "ms",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
        }
    }
}

/// A chart: what it is called, what its numbers are, and its lines.
pub struct Chart {
    pub title: &'static str,
    pub unit: Unit,
    pub lines: &'static [(Series, &'static str)],
}

/// The seconds that charts show.
pub type Between = (u32, u32);

impl Chart {
    /// The chart as it was between two times.
    pub fn markup(&self, history: &History, between: Between) -> Markup {
        let series: Vec<Series> = self.lines.iter().map(|(series, _)| *series).collect();
        let points = history.points(&series, between, POINTS_MAX);
        let known = points.values.iter().flatten().filter(|value| value.is_finite());
        let largest = nice(known.fold(0.0_f64, |largest, value| largest.max(f64::from(*value))));
        let names: Vec<&str> = series.iter().map(|series| series.name()).collect();
        let labels: Vec<&str> = self.lines.iter().map(|(_, label)| *label).collect();
        let last = history.last();
        html! {
            figure.chart data-series=(names.join(",")) data-labels=(labels.join(",")) data-unit=(self.unit.name()) {
                figcaption {
                    (self.title)
                    span.legend {
                        @for (place, (series, label)) in self.lines.iter().enumerate() {
                            span class=(format!("key k{place}")) {
                                (label) " "
                                b { (last.and_then(|it| it.get(*series)).map_or("–".to_owned(), |it| self.unit.text(it))) }
                            }
                        }
                    }
                }
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(self.title) {
                    @for part in [0.0, 0.5, 1.0] {
                        @let y = height_of(largest * part, largest);
                        line.grid x1=(LEFT) x2=(WIDTH) y1=(y) y2=(y) {}
                        text.axis x=(LEFT - 4.0) y=(y + 3.0) text-anchor="end" { (self.unit.text(largest * part)) }
                    }
                    @for (part, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
                        @let at_s = f64::from(between.0) + part * f64::from(between.1.saturating_sub(between.0));
                        text.axis x=(LEFT + part * (WIDTH - LEFT)) y=(HEIGHT - 4.0) text-anchor=(anchor) {
                            (figure::clock(at_s as i64 * 1000))
                        }
                    }
                    @for (place, values) in points.values.iter().enumerate() {
                        path class=(format!("line l{place}")) d=(line(&points.at_s, values, between, largest)) {}
                    }
                }
            }
        }
    }
}

/// The next larger number that people like to read.
fn nice(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= value);
    found.unwrap_or(10.0) * power
}

fn height_of(value: f64, largest: f64) -> f64 {
    let share = (value / largest).clamp(0.0, 1.0);
    ((BOTTOM - share * (BOTTOM - TOP)) * 10.0).round() / 10.0
}

/// A path that is broken where nothing is known.
fn line(at_s: &[u32], values: &[f32], (from_s, to_s): Between, largest: f64) -> String {
    let span = f64::from(to_s.saturating_sub(from_s)).max(1.0);
    let mut path = String::new();
    let mut is_down = false;
    for (at_s, value) in at_s.iter().zip(values) {
        if !value.is_finite() {
            is_down = false;
            continue;
        }
        let x = LEFT + f64::from(at_s.saturating_sub(from_s)) / span * (WIDTH - LEFT);
        let y = height_of(f64::from(*value), largest);
        let _ = write!(path, "{}{x:.1} {y:.1}", if is_down { 'L' } else { 'M' });
        is_down = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Sample;

    #[test]
    fn lines_are_broken_where_nothing_is_known() {
        let mut history = History::default();
        for number in 0..6_u32 {
            let mut sample = Sample::at(100 + number * 10);
            if number != 3 {
                sample.set(Series::Requests, f64::from(number));
            }
            history.push(sample);
        }
        let chart = Chart {
            title: "Requests",
            unit: Unit::PerSecond,
            lines: &[(Series::Requests, "all"), (Series::P99, "p99")],
        };
        let text = chart.markup(&history, (100, 150)).into_string();
        assert_eq!(text.matches('M').count(), 2, "{text}");
        assert!(text.contains("data-series=\"requests,p99\""), "{text}");
        assert!(chart.markup(&History::default(), (0, 0)).into_string().contains("svg"));
    }

    #[test]
    fn the_scale_is_one_that_people_like() {
        for (value, expected) in
            [(0.0, 1.0), (3.0, 5.0), (10.0, 10.0), (101.0, 200.0), (f64::NAN, 1.0)]
        {
            assert_eq!(nice(value), expected);
        }
    }
}
