//! Physical partitions over time as a picture: a row for each, or for a band of neighbours on the ring where there are many; a column
//! for each moment; the hotter the darker. Cells of one shade are one path, so that a picture of thousands of cells stays small.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::figure;
use crate::heat::{Heat, Span, ru_of};

/// A picture has no more rows.
pub const ROWS_MAX: usize = 48;
/// ... and no more columns.
const COLUMNS_MAX: usize = 96;
/// Shades beside none.
const SHADES: usize = 7;
/// No more marks are drawn: the newest.
const MARKS_MAX: usize = 48;
const LEFT: usize = 76;
const WIDTH: usize = 720;
const TOP: usize = 16;
const ROW: usize = 12;
/// A row is at least so high, where there are few.
const ROW_FEW: usize = 22;

/// A split, a merge or a move.
#[derive(Clone, Debug)]
pub struct Mark {
    pub at_ms: i64,
    /// What happened, for people.
    pub what: String,
}

/// What is drawn: the numbers of physical partitions in the order of the ring.
pub struct HeatMap<'a> {
    pub heat: &'a Heat,
    pub span: Span,
    pub partitions: &'a [u32],
    pub marks: &'a [Mark],
}

/// A row of the picture.
struct Row {
    label: String,
    levels: Vec<u8>,
}

impl HeatMap<'_> {
    /// The picture.
    pub fn markup(&self) -> Markup {
        let rows = self.rows();
        let hottest = rows.iter().flat_map(|row| row.levels.iter()).copied().max().unwrap_or(0);
        let least =
            rows.iter().flat_map(|row| row.levels.iter()).copied().filter(|it| *it > 0).min();
        let least = least.unwrap_or(hottest);
        let row_height = if rows.len() <= ROWS_MAX / 3 { ROW_FEW } else { ROW };
        let height = TOP + rows.len() * row_height + 18;
        let columns = rows.first().map_or(0, |row| row.levels.len());
        let (seconds, slots) = self.span.slots();
        let end_s = i64::from(self.heat.end_s(self.span));
        let begin_s = end_s - i64::from(seconds) * slots as i64;
        let x_of = |at_s: i64| {
            let share = (at_s - begin_s) as f64 / (end_s - begin_s).max(1) as f64;
            LEFT as f64 + share.clamp(0.0, 1.0) * (WIDTH - LEFT) as f64
        };
        let shown =
            self.marks.iter().filter(|mark| (begin_s..=end_s).contains(&(mark.at_ms / 1000)));
        let shown: Vec<&Mark> = shown.take(MARKS_MAX).collect();
        html! {
            svg.heatmap viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="Heat of physical partitions over time" {
                @for (place, row) in rows.iter().enumerate() {
                    text.axis x=(LEFT - 6) y=(TOP + place * row_height + row_height / 2 + 3) text-anchor="end" { (row.label) }
                }
                rect.empty x=(LEFT) y=(TOP) width=(WIDTH - LEFT) height=(rows.len() * row_height) {}
                @for (shade, path) in paths(&rows, columns, row_height, (least, hottest)).iter().enumerate() {
                    @if !path.is_empty() {
                        path class=(format!("heat h{}", shade + 1)) d=(path) {}
                    }
                }
                @for mark in &shown {
                    g.mark {
                        title { (figure::date(mark.at_ms)) " " (mark.what) }
                        @let x = x_of(mark.at_ms / 1000).round();
                        line x1=(x) x2=(x) y1=(TOP - 4) y2=(TOP + rows.len() * row_height) {}
                        path d=(format!("M{} {}l4-8h-8z", x, TOP - 2)) {}
                    }
                }
                @for (part, anchor) in [(0_i64, "start"), (1, "middle"), (2, "end")] {
                    @let at_s = begin_s + (end_s - begin_s) * part / 2;
                    text.axis x=(x_of(at_s).round()) y=(height - 5) text-anchor=(anchor) { (figure::clock(at_s * 1000)) }
                }
            }
            p.scale {
                @if hottest == 0 {
                    "No physical partition spent anything in this time."
                } @else {
                    "From " (figure::count(ru_of(least))) " to " (figure::count(ru_of(hottest))) " RU/s: "
                    @for shade in 1..=SHADES { span class=(format!("shade h{shade}")) {} }
                    @if self.partitions.len() > rows.len() {
                        " Each row is a band of neighbours on the ring; the hottest of them counts."
                    }
                    @if !shown.is_empty() { " ▾ are splits, merges and moves." }
                }
            }
        }
    }

    fn rows(&self) -> Vec<Row> {
        let band = self.partitions.len().div_ceil(ROWS_MAX).max(1);
        let (_, slots) = self.span.slots();
        let width = slots.div_ceil(COLUMNS_MAX).max(1);
        let row = |ids: &[u32]| {
            let mut levels = vec![0_u8; slots.div_ceil(width)];
            for found in ids.iter().filter_map(|id| self.heat.levels(*id, self.span)) {
                // The newest slots fill the last column, whatever is left over is in the first.
                for (column, slots) in levels.iter_mut().rev().zip(found.rchunks(width)) {
                    *column = slots.iter().copied().fold(*column, u8::max);
                }
            }
            let label = match ids {
                [one] => one.to_string(),
                [first, .., last] => format!("{first}…{last}"),
                [] => String::new(),
            };
            Row { label, levels }
        };
        self.partitions.chunks(band).map(row).collect()
    }
}

/// For each shade a path with all of its cells; cells side by side are one.
fn paths(
    rows: &[Row],
    columns: usize,
    row_height: usize,
    (least, hottest): (u8, u8),
) -> Vec<String> {
    let mut paths = vec![String::new(); SHADES];
    if columns == 0 {
        return paths;
    }
    let x_of = |column: usize| LEFT + column * (WIDTH - LEFT) / columns;
    for (place, row) in rows.iter().enumerate() {
        let y = TOP + place * row_height;
        let mut column = 0;
        for run in row
            .levels
            .chunk_by(|one, other| shade(*one, least, hottest) == shade(*other, least, hottest))
        {
            let end = column + run.len();
            let of = run.first().and_then(|level| shade(*level, least, hottest));
            if let Some(path) = of.and_then(|shade| paths.get_mut(shade)) {
                let (from, to) = (x_of(column), x_of(end));
                let _ =
                    write!(path, "M{from} {y}h{w}v{h}h-{w}z", w = to - from, h = row_height - 1);
            }
            column = end;
        }
    }
    paths
}

/// Which shade a level has, among those that are in the picture.
fn shade(level: u8, least: u8, hottest: u8) -> Option<usize> {
    if level == 0 {
        return None;
    }
    let range = usize::from(hottest.saturating_sub(least)) + 1;
    Some((usize::from(level.saturating_sub(least)) * SHADES / range).min(SHADES - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_are_bands_and_few_are_rows() {
        let mut heat = Heat::default();
        let mut state = 7_u64;
        // As bad as it gets: no two cells beside each other are of one shade.
        for slot in 0..180_u32 {
            heat.sample(
                1_000_000 + slot * 10,
                (0..10_000_u32).map(|id| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (id, (state >> 60) as f64 * f64::from(id % 7 + 1))
                }),
            );
        }
        let partitions: Vec<u32> = (0..10_000).collect();
        let marks: Vec<Mark> = (0..1000)
            .map(|number| Mark { at_ms: (1_000_000 + number) * 1000, what: "<script>".to_owned() })
            .collect();
        let map = |partitions, span| HeatMap { heat: &heat, span, partitions, marks: &marks };
        for span in [Span::HalfHour, Span::Day] {
            let text = map(&partitions, span).markup().into_string();
            assert!(text.len() < 80_000, "{span:?}: {}", text.len());
            assert!(!text.contains("<script"), "names are escaped");
            assert!(text.contains("Each row is a band"));
        }
        let text = map(&[4, 5], Span::HalfHour).markup().into_string();
        assert!(text.contains(">4</text>") && text.contains(">5</text>"), "{text}");
        let none = map(&[], Span::Day).markup().into_string();
        assert!(none.contains("No physical partition"), "{none}");
    }
}
