//! A year of a table that grows to 100 TB and 10,000 physical partitions, decided by the function
//! that a node decides with, and drawn: `cargo xtask simulate [FILE.svg]`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a tool for people, run by hand"
)]

use std::fmt::Write as _;
use std::time::Instant;

use partition::{
    Action, BalanceLimits, Halving, Origin, PartitionMap, PhysicalLoad, Reason, Space, SpaceLoad,
    decide,
};
use types::{RingRange, RingToken};

const CELL_BITS: u32 = 16;
const CELLS: usize = 1 << CELL_BITS;
const HOURS: usize = 365 * 24;
/// A year is told in steps of hours.
const STEP_HOURS: usize = 3;
/// A node decides every second: so often, at most, in a step.
const ROUNDS_MAX: usize = STEP_HOURS * 3_600;
const BYTES_AT_END: f64 = 100e12;
const RU_AT_END: f64 = 100e6;

fn main() {
    let file = std::env::args().nth(1).unwrap_or_else(|| "target/simulation.svg".to_owned());
    let began = Instant::now();
    let mut year = Year::new(7);
    for hour in (0..HOURS).step_by(STEP_HOURS) {
        year.pass(hour);
    }
    let days = &year.days;
    let last = days.last().unwrap();
    let moves: usize = days.iter().map(|day| day.moves).sum();
    println!(
        "{} physical partitions hold {:.1} TB after a year, {moves} splits and merges, {:.1} s",
        last.partitions,
        last.bytes / 1e12,
        began.elapsed().as_secs_f64()
    );
    std::fs::write(&file, draw(days)).unwrap();
    println!("drawn in {file}");
}

/// What is drawn of a day.
struct Day {
    partitions: usize,
    bytes: f64,
    /// Spent of what may be spent at the busiest hour, and stored of what may be stored.
    budget_share: f64,
    storage_share: f64,
    moves: usize,
}

struct Year {
    map: PartitionMap,
    space: Space,
    /// How fast each cell of the ring grows: some keys are larger than others.
    weights: Vec<f64>,
    cells: Vec<f64>,
    limits: BalanceLimits,
    days: Vec<Day>,
    moves_today: usize,
    /// The largest share of the budget that was spent.
    busiest_today: f64,
}

impl Year {
    fn new(seed: u64) -> Year {
        let space = Space::Table { keyspace: "shop".into(), table: "orders".into() };
        let mut random = Random(seed);
        let mut weights: Vec<f64> = (0..CELLS).map(|_| 0.5 + random.next()).collect();
        // Forty keys that are fifty times as large as their neighbours.
        for _ in 0..40 {
            weights[(random.next() * CELLS as f64) as usize] *= 50.0;
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        Year {
            map: PartitionMap::default().with_space(space.clone(), 4, 0),
            space,
            weights,
            cells: vec![0.0; CELLS],
            limits: BalanceLimits::default(),
            days: Vec::new(),
            moves_today: 0,
            busiest_today: 0.0,
        }
    }

    fn pass(&mut self, hour: usize) {
        let share = (hour + STEP_HOURS) as f64 / HOURS as f64;
        // Slowly, then fast, then slowly again.
        let grown = |share: f64| BYTES_AT_END * share * share * (3.0 - 2.0 * share);
        let added = grown(share) - grown(hour as f64 / HOURS as f64);
        for (cell, weight) in self.cells.iter_mut().zip(&self.weights) {
            *cell += added * weight;
        }
        // Somebody raises the throughput every month.
        let month = (hour / (30 * 24)) as f64;
        let provisioned = (RU_AT_END * ((month + 1.0) / 12.2).powi(2)).clamp(1e5, RU_AT_END);
        // Busy by day, quiet by night.
        let of_day = 0.35 + 0.3 * ((hour % 24) as f64 / 24.0 * std::f64::consts::TAU).sin();
        // What is asked for grows with what is stored.
        let spent = RU_AT_END * share * share * of_day;
        self.busiest_today = self.busiest_today.max(spent / provisioned);
        let now_ms = hour as i64 * 3_600_000;
        for _ in 0..ROUNDS_MAX {
            if !self.decide(provisioned, spent, now_ms) {
                break;
            }
        }
        if hour % 24 == 24 - STEP_HOURS {
            let partitions = self.map.partitions(&self.space).len();
            let bytes: f64 = self.cells.iter().sum();
            let room = partitions as f64 * self.limits.physical_bytes_max as f64;
            self.days.push(Day {
                partitions,
                bytes,
                budget_share: std::mem::take(&mut self.busiest_today),
                storage_share: bytes / room,
                moves: std::mem::take(&mut self.moves_today),
            });
        }
    }

    /// One round; whether anything was decided.
    fn decide(&mut self, provisioned: f64, spent: f64, now_ms: i64) -> bool {
        let loads = self.loads(provisioned, spent);
        let actions = decide(&self.map, &[loads], &self.limits, now_ms);
        self.moves_today += actions.len();
        for action in &actions {
            let origin = |reason| Origin { made_at_ms: now_ms, reason };
            self.map = match action {
                Action::Split { space, set, at, reason } => {
                    self.map.with_split(space, *set, *at, origin(*reason)).unwrap()
                }
                Action::Merge { space, set } => {
                    self.map.with_merge(space, *set, origin(Reason::Cold)).unwrap()
                }
            };
        }
        !actions.is_empty()
    }

    fn loads(&self, provisioned: f64, spent: f64) -> SpaceLoad {
        let mut sums = Vec::with_capacity(CELLS + 1);
        sums.push(0.0);
        for cell in &self.cells {
            sums.push(sums[sums.len() - 1] + cell);
        }
        let total = sums[CELLS].max(1.0);
        let full = self.limits.physical_bytes_max as f64 / 2.0;
        let partitions = self.map.partitions(&self.space).iter().map(|partition| {
            let (first, end) = cells_of(partition.range);
            let bytes = sums[end] - sums[first];
            let ru_s = spent * bytes / total;
            PhysicalLoad {
                set: partition.set,
                bytes: bytes as u64,
                ru_s,
                peak_ru_s: ru_s,
                bytes_halved: if bytes > full { halving(&sums, first, end) } else { None },
                heat_halved: None,
            }
        });
        SpaceLoad {
            space: self.space.clone(),
            provisioned_ru_s: Some(provisioned as u32),
            partition_count_min: 4,
            partitions: partitions.collect(),
        }
    }
}

fn cells_of(range: RingRange) -> (usize, usize) {
    let shift = 128 - CELL_BITS;
    ((range.start.0 >> shift) as usize, (range.last.0 >> shift) as usize + 1)
}

/// The edge between cells that halves best.
fn halving(sums: &[f64], first: usize, end: usize) -> Option<Halving> {
    let (low, high) = (sums[first], sums[end]);
    let middle = low + (high - low) / 2.0;
    let above = first + sums[first..=end].partition_point(|sum| *sum < middle);
    let larger = |edge: usize| (sums[edge] - low).max(high - sums[edge]) / (high - low);
    let edges = [above.saturating_sub(1), above].into_iter();
    let best = edges
        .filter(|edge| first < *edge && *edge < end)
        .min_by(|one, other| larger(*one).total_cmp(&larger(*other)))?;
    let at = RingToken((best as u128) << (128 - CELL_BITS));
    Some(Halving { at, larger_share: larger(best) })
}

/// xorshift: the same year for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

const LEFT: f64 = 70.0;
const WIDTH: f64 = 850.0;
const PANEL: f64 = 180.0;
const PANEL_STEP: f64 = PANEL + 70.0;
const TOP: f64 = 90.0;
const BLUE: &str = "#1f6feb";
const ORANGE: &str = "#bc4c00";
const GREEN: &str = "#1a7f37";

/// One picture of the three, with its lines and what they are called.
struct Panel<'p> {
    title: &'p str,
    is_share: bool,
    lines: Vec<(&'static str, &'p str, Vec<f64>)>,
}

fn draw(days: &[Day]) -> String {
    let height = TOP + 3.0 * PANEL_STEP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let last = days.last().unwrap();
    let moves: usize = days.iter().map(|day| day.moves).sum();
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"26\" font-size=\"17\" font-weight=\"bold\">A table grows to {:.0} TB in a year</text>\n\
         <text x=\"{LEFT}\" y=\"48\" fill=\"#555\">{} physical partitions of at most 30 GB and 10,000 RU/s each; {} splits and merges, decided as a node decides</text>",
        last.bytes / 1e12,
        thousands(last.partitions as f64),
        thousands(moves as f64),
    );
    let of = |value: fn(&Day) -> f64| days.iter().map(value).collect::<Vec<f64>>();
    let panels = [
        Panel {
            title: "Physical partitions",
            is_share: false,
            lines: vec![(BLUE, "", of(|day| day.partitions as f64))],
        },
        Panel {
            title: "Share in use",
            is_share: true,
            lines: vec![
                (
                    BLUE,
                    "request units: busiest hour against the budget",
                    of(|day| day.budget_share),
                ),
                (
                    ORANGE,
                    "storage: bytes against what the partitions may hold",
                    of(|day| day.storage_share),
                ),
            ],
        },
        Panel {
            title: "Splits and merges per day",
            is_share: false,
            lines: vec![(GREEN, "", of(|day| day.moves as f64))],
        },
    ];
    for (number, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, TOP + number as f64 * PANEL_STEP, panel);
    }
    svg.push_str("</svg>\n");
    svg
}

/// A round number that is not below any value: one, two or five, and zeros.
fn axis_end(most: f64) -> f64 {
    let mut end = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if end >= most {
            break;
        }
        end *= factor;
    }
    end
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn draw_panel(svg: &mut String, top: f64, panel: &Panel<'_>) {
    let values = panel.lines.iter().flat_map(|(_, _, values)| values);
    let end = if panel.is_share { 1.0 } else { axis_end(values.copied().fold(1.0, f64::max)) };
    let title = panel.title;
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"bold\">{title}</text>",
        top - 10.0
    );
    let mut x = LEFT + 130.0;
    for (color, name, _) in panel.lines.iter().filter(|(_, name, _)| !name.is_empty()) {
        let y = top - 10.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.0}\" x2=\"{:.0}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke=\"{color}\" stroke-width=\"3\"/>\
             <text x=\"{:.0}\" y=\"{y:.0}\" fill=\"#333\">{name}</text>",
            x + 18.0,
            y - 4.0,
            y - 4.0,
            x + 24.0
        );
        x += 360.0;
    }
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let y = top + PANEL * (1.0 - share);
        let value = end * share;
        let text =
            if panel.is_share { format!("{:.0} %", value * 100.0) } else { thousands(value) };
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"#555\">{text}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            y + 4.0
        );
    }
    for month in 1..=12 {
        let x = LEFT + WIDTH * (f64::from(month) - 0.5) / 12.0;
        let _ = writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#555\">month {month}</text>",
            top + PANEL + 18.0
        );
    }
    for (color, _, values) in &panel.lines {
        let points: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(day, value)| {
                let x = LEFT + WIDTH * day as f64 / values.len() as f64;
                format!("{x:.1},{:.1}", top + PANEL * (1.0 - (value / end).min(1.0)))
            })
            .collect();
        let points = points.join(" ");
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>"
        );
    }
}
