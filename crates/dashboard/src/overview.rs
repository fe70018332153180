//! The first page: how the node and its cluster are doing, and what is wrong.

use maud::{Markup, html};

use crate::chart::{Chart, Unit};
use crate::figure::{count, milliseconds};
use crate::history::{History, Sample, Series};
use crate::layout::{known, live, meter, tile};

/// So many problems are told one by one.
const PROBLEMS_MAX: usize = 20;

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// What somebody should look at, most urgent first.
    pub problems: Vec<String>,
    pub nodes: usize,
    pub nodes_alive: usize,
    pub sets: usize,
    pub sets_without_leader: usize,
    pub sets_short: usize,
    /// Request units per second that are provisioned; none where nothing is.
    pub budget_ru_s: Option<f64>,
    /// Errors since the start, by their names.
    pub errors: Vec<(&'static str, u64)>,
    pub requests: u64,
    pub throttled: u64,
    pub slow: u64,
    pub up_seconds: u64,
    /// The seconds that charts show.
    pub between: (u32, u32),
    /// Which of [`RANGES`] it is.
    pub range: &'static str,
}

/// How much of the past can be looked at: a name and seconds.
pub const RANGES: [(&str, u32); 4] =
    [("15m", 15 * 60), ("1h", 3600), ("6h", 6 * 3600), ("24h", 24 * 3600)];

/// Errors by their kinds.
const ERRORS: [(Series, &str); 5] = [
    (Series::ErrorsOfClients, "clients"),
    (Series::ErrorsOverloaded, "overloaded"),
    (Series::ErrorsTimedOut, "timeouts"),
    (Series::ErrorsUnavailable, "unavailable"),
    (Series::ErrorsOfNode, "node"),
];

const CHARTS: [Chart; 8] = [
    Chart {
        title: "Requests per second",
        unit: Unit::PerSecond,
        lines: &[(Series::Requests, "requests"), (Series::Throttled, "throttled")],
    },
    Chart {
        title: "Request units per second",
        unit: Unit::PerSecond,
        lines: &[
            (Series::Units, "through this node"),
            (Series::UnitsOfAll, "all partitions"),
            (Series::Budget, "budget"),
        ],
    },
    Chart {
        title: "Latency",
        unit: Unit::Milliseconds,
        lines: &[(Series::P50, "p50"), (Series::P99, "p99")],
    },
    Chart { title: "Errors per second", unit: Unit::PerSecond, lines: &ERRORS },
    Chart {
        title: "Sets in trouble",
        unit: Unit::Count,
        lines: &[(Series::WithoutLeader, "without leader"), (Series::Short, "too few members")],
    },
    Chart {
        title: "Waits",
        unit: Unit::Milliseconds,
        lines: &[(Series::Sync, "sync p99"), (Series::Queue, "queue")],
    },
    Chart {
        title: "Processors and connections",
        unit: Unit::Count,
        lines: &[(Series::Processors, "processors"), (Series::Connections, "connections")],
    },
    Chart {
        title: "Memory and disk",
        unit: Unit::Bytes,
        lines: &[(Series::Memory, "memory"), (Series::Disk, "disk")],
    },
];

impl Overview {
    /// The page.
    pub fn markup(&self, history: &History) -> Markup {
        html! {
            h1 { "Overview" }
            (live("problems", "", &self.told_problems()))
            (live("tiles", "", &self.tiles(history.last())))
            nav.ranges aria-label="Time" {
                @for (name, _) in RANGES {
                    a href=(format!("/?range={name}")) aria-current=[(name == self.range).then_some("true")] { (name) }
                }
            }
            div #charts.charts data-from=(self.between.0) data-to=(self.between.1) {
                @for chart in &CHARTS { (chart.markup(history, self.between)) }
            }
            (live("errors", "Errors since the start", &self.told_errors()))
        }
    }

    fn told_problems(&self) -> Markup {
        html! {
            @if self.problems.is_empty() {
                p.good { "Nothing is wrong that this node knows of." }
            } @else {
                ul.problems role="alert" {
                    @for problem in self.problems.iter().take(PROBLEMS_MAX) { li { (problem) } }
                    @if self.problems.len() > PROBLEMS_MAX {
                        li { "… and " (self.problems.len() - PROBLEMS_MAX) " more" }
                    }
                }
            }
        }
    }

    fn tiles(&self, last: Option<&Sample>) -> Markup {
        let get = |series| last.and_then(|sample| sample.get(series));
        let per_second = |series| known(get(series).map(|value| format!("{}/s", count(value))));
        let time = |series| known(get(series).map(milliseconds));
        let kinds = ERRORS.iter().filter_map(|(series, name)| Some((get(*series)?, name)));
        let kinds: Vec<_> = kinds.filter(|(rate, _)| *rate > 0.0).collect();
        let errors: f64 = kinds.iter().map(|(rate, _)| rate).sum();
        let kinds: Vec<String> =
            kinds.iter().map(|(rate, name)| format!("{} {name}", count(*rate))).collect();
        let kinds = if kinds.is_empty() { "of any kind".to_owned() } else { kinds.join(", ") };
        let spent = get(Series::UnitsOfAll).or(get(Series::Units));
        let (without, short) = (self.sets_without_leader, self.sets_short);
        html! {
            div.tiles {
                (tile("Requests", &per_second(Series::Requests), &format!("{} since the start", count(self.requests as f64)), false))
                @match (self.budget_ru_s, spent) {
                    (Some(budget), Some(spent)) if budget > 0.0 => {
                        div.tile {
                            span.name { "RU/s of budget" }
                            span.value { (count(spent)) }
                            span.note { (meter(spent / budget, &format!("of {}", count(budget)))) }
                        }
                    }
                    _ => (tile("RU/s", &known(spent.map(count)), "no budget is provisioned", false))
                }
                (tile("p50", &time(Series::P50), "half took no longer", false))
                (tile("p99", &time(Series::P99), "1 in 100 took longer", false))
                (tile("Errors", &format!("{}/s", count(errors)), &kinds, errors > 0.0))
                (tile("Throttled", &per_second(Series::Throttled), &format!("{} since the start", count(self.throttled as f64)), get(Series::Throttled).is_some_and(|it| it > 0.0)))
                (tile("Without leader", &without.to_string(), &format!("of {} sets", self.sets), without > 0))
                (tile("Too few members", &short.to_string(), &format!("of {} sets", self.sets), short > 0))
                (tile("Nodes alive", &format!("{} of {}", self.nodes_alive, self.nodes), "", self.nodes_alive < self.nodes))
                (tile("Slow or costly", &count(self.slow as f64), "statements since the start", false))
                (tile("Up", &crate::figure::seconds(self.up_seconds), "", false))
            }
        }
    }

    fn told_errors(&self) -> Markup {
        let met: Vec<_> = self.errors.iter().filter(|(_, count)| *count > 0).collect();
        html! {
            @if met.is_empty() { p.dim { "None." } } @else {
                table {
                    thead { tr { th { "Kind" } th.number { "Count" } } }
                    tbody { @for (name, count) in met { tr { td { (name) } td.number { (count) } } } }
                }
            }
        }
    }
}
