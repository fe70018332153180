//! A ring as SVG: an arc for each physical partition, or for a band of neighbours where there are many; the hotter the darker.

use maud::{Markup, html};

use crate::figure;

/// A ring has no more arcs.
const ARCS_MAX: usize = 120;
const SHADES: f64 = 7.0;
const OUTER: f64 = 96.0;
const INNER: f64 = 66.0;
/// Between two arcs, as a share of the ring.
const GAP: f64 = 0.002;

/// A physical partition on the ring.
#[derive(Clone, Debug, PartialEq)]
pub struct Arc {
    pub id: u32,
    /// Where it begins, as a share of the ring.
    pub start: f64,
    /// How much of the ring it has.
    pub share: f64,
    pub bytes: u64,
    pub ru_s: f64,
}

/// The ring of a space; `arcs` in its order.
pub fn markup(arcs: &[Arc]) -> Markup {
    let band = arcs.len().div_ceil(ARCS_MAX).max(1);
    let bands: Vec<&[Arc]> = arcs.chunks(band).collect();
    let hottest = arcs.iter().map(|arc| arc.ru_s).fold(0.0, f64::max);
    let total: f64 = arcs.iter().map(|arc| arc.ru_s).sum();
    html! {
        svg.ring viewBox="-100 -100 200 200" role="img" aria-label="The ring" {
            @for band in bands {
                @if let (Some(first), Some(last)) = (band.first(), band.last()) {
                    @let ru_s = band.iter().map(|arc| arc.ru_s).fold(0.0, f64::max);
                    path class=(format!("arc h{}", shade(ru_s, hottest))) d=(arc_path(first.start, last.start + last.share)) {
                        title { (label(band)) }
                    }
                }
            }
            text.big text-anchor="middle" y="-2" { (figure::count(arcs.len() as f64)) }
            text.axis text-anchor="middle" y="14" { @if arcs.len() == 1 { "partition" } @else { "partitions" } }
            text.axis text-anchor="middle" y="28" { (figure::count(total)) " RU/s" }
        }
    }
}

fn label(band: &[Arc]) -> String {
    let bytes = band.iter().fold(0_u64, |sum, arc| sum.saturating_add(arc.bytes));
    let share: f64 = band.iter().map(|arc| arc.share).sum();
    let ru_s: f64 = band.iter().map(|arc| arc.ru_s).sum();
    let who = match band {
        [one] => one.id.to_string(),
        [first, .., last] => format!("{} to {}", first.id, last.id),
        [] => String::new(),
    };
    let share = share * 100.0;
    format!(
        "{who}: {}, {} RU/s, {share:.1} % of the ring",
        figure::bytes(bytes),
        figure::count(ru_s)
    )
}

fn shade(ru_s: f64, hottest: f64) -> u32 {
    if hottest <= 0.0 || ru_s <= 0.0 {
        return 0;
    }
    (ru_s / hottest * SHADES).ceil().clamp(1.0, SHADES) as u32
}

fn arc_path(start: f64, end: f64) -> String {
    let end = (end - GAP).max(start + GAP / 2.0);
    let point = |share: f64, radius: f64| {
        let angle = share * std::f64::consts::TAU - std::f64::consts::FRAC_PI_2;
        format!("{:.1} {:.1}", radius * angle.cos(), radius * angle.sin())
    };
    let is_large = u8::from(end - start > 0.5);
    format!(
        "M{}A{OUTER} {OUTER} 0 {is_large} 1 {}L{}A{INNER} {INNER} 0 {is_large} 0 {}z",
        point(start, OUTER),
        point(end, OUTER),
        point(end, INNER),
        point(start, INNER)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_stays_small_however_many_there_are() {
        for count in [0_u32, 1, 7, 120, 121, 10_000] {
            let arcs: Vec<Arc> = (0..count)
                .map(|id| Arc {
                    id,
                    start: f64::from(id) / f64::from(count),
                    share: 1.0 / f64::from(count),
                    bytes: u64::MAX,
                    ru_s: f64::from(id),
                })
                .collect();
            let text = markup(&arcs).into_string();
            assert!(text.len() < 30_000, "{count}: {}", text.len());
            assert!(text.matches("<path").count() <= ARCS_MAX);
        }
    }
}
