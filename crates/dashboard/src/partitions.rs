//! Where data and traffic lie: the ring of a space, its physical partitions over time, and keys that are hot or giant.

use maud::{Markup, html};

use crate::figure::{bytes, count, cut};
use crate::heat::{Heat, Span};
use crate::heat_map::{HeatMap, Mark};
use crate::layout::{known, live, meter};
use crate::ring::{self, Arc};

/// So many spaces are offered: those that spend most.
pub const SPACES_SHOWN: usize = 24;
/// So many physical partitions are listed: the hottest.
const LISTED_MAX: usize = 25;
/// So many keys are listed of each kind.
pub const KEYS_SHOWN: usize = 12;
const NAME_CHARS_MAX: usize = 120;

/// A space: a keyspace, or a table with throughput of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    pub name: String,
    pub partitions: usize,
    pub ru_s: f64,
    pub bytes: u64,
}

/// A physical partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Physical {
    pub id: u32,
    /// Where it begins, as a share of the ring.
    pub start: f64,
    /// How much of the ring it has.
    pub share: f64,
    pub bytes: u64,
    pub rows: u64,
    pub ru_s: f64,
    pub budget_ru_s: Option<f64>,
    /// The node that leads it; none where none does, or the node runs alone.
    pub leader: Option<u64>,
    /// The nodes that have a member of it.
    pub members: Vec<u64>,
    /// Why it was made.
    pub reason: String,
}

/// A key that is hot or giant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Key {
    pub table: String,
    /// As CQL literals.
    pub key: String,
    pub physical: u32,
    pub bytes: Option<u64>,
    pub ru_s: f64,
    pub share_of_limit: Option<f64>,
}

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Partitions {
    /// Those that spend most, first.
    pub spaces: Vec<Space>,
    /// How many there are.
    pub spaces_total: usize,
    /// The one that is shown.
    pub space: String,
    /// Its physical partitions, in the order of the ring.
    pub physical: Vec<Physical>,
    /// Splits, merges and moves, newest first.
    pub marks: Vec<Mark>,
    /// Hottest first.
    pub hot: Vec<Key>,
    /// Largest first.
    pub giant: Vec<Key>,
    pub shows_day: bool,
}

impl Partitions {
    /// The page.
    pub fn markup(&self, heat: &Heat) -> Markup {
        let arcs: Vec<Arc> = self.physical.iter().map(arc).collect();
        let ids: Vec<u32> = self.physical.iter().map(|it| it.id).collect();
        let span = if self.shows_day { Span::Day } else { Span::HalfHour };
        let map = HeatMap { heat, span, partitions: &ids, marks: &self.marks };
        html! {
            h1 { "Partitions" }
            (self.choice())
            @if self.physical.is_empty() {
                p { "No physical partitions: no keyspace has been created yet." }
            } @else {
                div.split {
                    (live("ring", "Ring", &ring::markup(&arcs)))
                    (live("heat", "Heat over time", &html! {
                        nav.ranges aria-label="Time" {
                            @for (name, is_day) in [("30m", false), ("24h", true)] {
                                a href=(self.address(name)) aria-current=[(is_day == self.shows_day).then_some("true")] { (name) }
                            }
                        }
                        (map.markup())
                    }))
                }
                (live("hottest", "Hottest physical partitions", &self.hottest()))
                div.split.even {
                    (live("hot", "Hot keys", &keys(&self.hot, true)))
                    (live("giant", "Largest keys", &keys(&self.giant, false)))
                }
            }
        }
    }

    fn address(&self, range: &str) -> String {
        format!("/partitions?space={}&range={range}", percent(&self.space))
    }

    fn choice(&self) -> Markup {
        let range = if self.shows_day { "24h" } else { "30m" };
        html! {
            form.filter method="get" action="/partitions" {
                label { "Space " input name="space" value=(self.space) list="spaces" data-search; }
                input type="hidden" name="range" value=(range);
                datalist id="spaces" {
                    @for space in self.spaces.iter().take(SPACES_SHOWN) { option value=(space.name) {} }
                }
                button { "Show" }
                span.dim { (self.spaces_total) " spaces; the busiest: " }
                @for space in self.spaces.iter().take(SPACES_SHOWN / 4) {
                    a href=(format!("/partitions?space={}&range={range}", percent(&space.name))) {
                        (cut(&space.name, 40))
                    } " "
                }
            }
        }
    }

    fn hottest(&self) -> Markup {
        let mut sorted: Vec<&Physical> = self.physical.iter().collect();
        sorted.sort_by(|one, other| {
            other
                .ru_s
                .total_cmp(&one.ru_s)
                .then(other.bytes.cmp(&one.bytes))
                .then(one.id.cmp(&other.id))
        });
        html! {
            div.wide { table {
                thead { tr {
                    th.number { "Id" } th.number { "RU/s" } th { "Of its budget" } th.number { "Size" } th.number { "Rows" }
                    th.number { "Of the ring" } th.number { "Leader" } th { "Members" } th { "Made by" }
                } }
                tbody {
                    @for it in sorted.iter().take(LISTED_MAX) {
                        tr {
                            td.number { (it.id) }
                            td.number { (count(it.ru_s)) }
                            td { @match it.budget_ru_s {
                                Some(budget) if budget > 0.0 => (meter(it.ru_s / budget, &format!("of {}", count(budget)))),
                                _ => "–",
                            } }
                            td.number { (bytes(it.bytes)) }
                            td.number { (count(it.rows as f64)) }
                            td.number { (format!("{:.1} %", it.share * 100.0)) }
                            td.number { (known(it.leader.map(|node| node.to_string()))) }
                            td { (listed(&it.members)) }
                            td { (it.reason) }
                        }
                    }
                }
            } }
            @if self.physical.len() > LISTED_MAX {
                p.dim { "The hottest " (LISTED_MAX) " of " (self.physical.len()) "." }
            }
        }
    }
}

fn listed(nodes: &[u64]) -> String {
    let nodes: Vec<String> = nodes.iter().map(u64::to_string).collect();
    if nodes.is_empty() { "–".to_owned() } else { nodes.join(", ") }
}

fn arc(it: &Physical) -> Arc {
    Arc { id: it.id, start: it.start, share: it.share, bytes: it.bytes, ru_s: it.ru_s }
}

fn keys(keys: &[Key], are_hot: bool) -> Markup {
    html! {
        @if keys.is_empty() { p.dim { "None is known." } } @else {
            div.wide { table {
                thead { tr {
                    th { "Table" } th { "Key" } th.number { "Partition" }
                    @if are_hot { th.number { "RU/s" } } @else { th.number { "Size" } th { "Of the limit" } }
                } }
                tbody {
                    @for key in keys.iter().take(KEYS_SHOWN) {
                        tr {
                            td { (cut(&key.table, NAME_CHARS_MAX)) }
                            td.text.key { code { (cut(&key.key, NAME_CHARS_MAX)) } }
                            td.number { (key.physical) }
                            @if are_hot { td.number { (count(key.ru_s)) } } @else {
                                td.number { (known(key.bytes.map(bytes))) }
                                td { @match key.share_of_limit {
                                    Some(share) => (meter(share, &format!("{:.1} %", share * 100.0))),
                                    None => "–",
                                } }
                            }
                        }
                    }
                }
            } }
        }
    }
}

/// A text as a value of an address.
pub fn percent(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
