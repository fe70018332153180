//! Tables: how large they are, what is asked of them, what they may spend and what that costs.

use maud::{Markup, html};

use crate::figure::{bytes, count, cut, milliseconds};
use crate::layout::{live, meter};
use crate::partitions::percent;

/// A page has so many tables.
pub const TABLES_PER_PAGE: usize = 50;
const NAME_CHARS_MAX: usize = 100;

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub keyspace: String,
    pub name: String,
    pub bytes: u64,
    pub rows: u64,
    pub reads_s: f64,
    pub writes_s: f64,
    pub read_p99_ms: Option<f64>,
    pub write_p99_ms: Option<f64>,
    /// Its throughput, or that of its keyspace.
    pub throughput: Option<Throughput>,
}

/// What was provisioned and is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throughput {
    /// The tables of the keyspace share it.
    pub is_shared: bool,
    /// `manual` or `autoscale`.
    pub mode: &'static str,
    pub maximum_ru_s: f64,
    pub used_ru_s: f64,
    pub throttled: u64,
    /// What this hour costs, in the currency of the prices that are set.
    pub cost_hour: Option<f64>,
}

/// By what tables are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Size,
    Name,
    Rows,
    Reads,
    Writes,
    Used,
    Cost,
}

impl Sort {
    const ALL: [(Sort, &'static str, &'static str); 7] = [
        (Sort::Name, "name", "Table"),
        (Sort::Size, "size", "Size"),
        (Sort::Rows, "rows", "Rows"),
        (Sort::Reads, "reads", "Reads/s"),
        (Sort::Writes, "writes", "Writes/s"),
        (Sort::Used, "used", "RU/s used"),
        (Sort::Cost, "cost", "Cost/hour"),
    ];

    /// The one that an address names.
    pub fn named(name: &str) -> Sort {
        let found = Sort::ALL.iter().find(|(_, known, _)| *known == name);
        found.map_or(Sort::default(), |(sort, ..)| *sort)
    }

    fn name(self) -> &'static str {
        Sort::ALL.iter().find(|(sort, ..)| *sort == self).map_or("", |(_, name, _)| name)
    }
}

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub tables: Vec<Table>,
    /// Only those whose names have this in them.
    pub find: String,
    pub sort: Sort,
    /// From zero.
    pub page: usize,
}

impl Tables {
    /// The page.
    pub fn markup(&self) -> Markup {
        let wanted = self.find.to_lowercase();
        let name = |table: &Table| format!("{}.{}", table.keyspace, table.name);
        let mut found: Vec<&Table> =
            self.tables.iter().filter(|it| name(it).to_lowercase().contains(&wanted)).collect();
        self.sort(&mut found);
        let pages = found.len().div_ceil(TABLES_PER_PAGE).max(1);
        let page = self.page.min(pages - 1);
        let shown = found.iter().skip(page * TABLES_PER_PAGE).take(TABLES_PER_PAGE);
        html! {
            h1 { "Tables" }
            form.filter method="get" action="/tables" {
                label { "Name " input type="search" name="find" value=(self.find) data-search; }
                input type="hidden" name="sort" value=(self.sort.name());
                button { "Find" }
                span.dim { (found.len()) " of " (self.tables.len()) " tables" }
            }
            (live("tables", "", &html! {
                div.wide { table {
                    thead { tr {
                        @for (sort, _, title) in Sort::ALL {
                            th.number[sort != Sort::Name] aria-sort=[(sort == self.sort).then_some(order(sort))] {
                                a href=(self.address(sort, 0)) { (title) }
                            }
                        }
                        th.number { "p99 read" } th.number { "p99 write" } th { "Provisioned" } th.number { "Throttled" }
                    } }
                    tbody { @for table in shown { (row(table)) } }
                } }
                @if found.is_empty() { p { "There is none." } }
            }))
            @if pages > 1 {
                nav.ranges aria-label="More" {
                    @if page > 0 { a href=(self.address(self.sort, page - 1)) rel="prev" { "‹ before" } }
                    span { (page + 1) " of " (pages) }
                    @if page + 1 < pages { a href=(self.address(self.sort, page + 1)) rel="next" { "next ›" } }
                }
            }
            p.dim { "Sizes, rows and requests are those of this node. Throughput that the tables of a keyspace share is marked with *." }
        }
    }

    fn address(&self, sort: Sort, page: usize) -> String {
        format!("/tables?sort={}&find={}&page={page}", sort.name(), percent(&self.find))
    }

    fn sort(&self, tables: &mut [&Table]) {
        let used = |table: &Table| table.throughput.as_ref().map_or(0.0, |it| it.used_ru_s);
        let cost = |table: &Table| {
            table.throughput.as_ref().and_then(|it| it.cost_hour).unwrap_or_default()
        };
        tables.sort_by(|one, other| {
            let by_name = (&one.keyspace, &one.name).cmp(&(&other.keyspace, &other.name));
            let first = match self.sort {
                Sort::Name => return by_name,
                Sort::Size => other.bytes.cmp(&one.bytes),
                Sort::Rows => other.rows.cmp(&one.rows),
                Sort::Reads => other.reads_s.total_cmp(&one.reads_s),
                Sort::Writes => other.writes_s.total_cmp(&one.writes_s),
                Sort::Used => used(other).total_cmp(&used(one)),
                Sort::Cost => cost(other).total_cmp(&cost(one)),
            };
            first.then(by_name)
        });
    }
}

fn order(sort: Sort) -> &'static str {
    if sort == Sort::Name { "ascending" } else { "descending" }
}

fn row(table: &Table) -> Markup {
    let ms = |value: Option<f64>| value.map_or("–".to_owned(), milliseconds);
    let throughput = table.throughput.as_ref();
    html! {
        tr {
            td { (cut(&format!("{}.{}", table.keyspace, table.name), NAME_CHARS_MAX)) }
            td.number { (bytes(table.bytes)) }
            td.number { (count(table.rows as f64)) }
            td.number { (count(table.reads_s)) }
            td.number { (count(table.writes_s)) }
            td.number { @if let Some(it) = throughput { (count(it.used_ru_s)) } @else { "–" } }
            td.number { @match throughput.and_then(|it| it.cost_hour) { Some(cost) => (format!("{cost:.4}")), None => "–" } }
            td.number { (ms(table.read_p99_ms)) }
            td.number { (ms(table.write_p99_ms)) }
            td { @match throughput {
                Some(it) if it.maximum_ru_s > 0.0 => {
                    (meter(it.used_ru_s / it.maximum_ru_s, &format!("{}{} {}", count(it.maximum_ru_s), if it.is_shared { "*" } else { "" }, it.mode)))
                }
                _ => "–",
            } }
            td.number { @match throughput { Some(it) => (count(it.throttled as f64)), None => "–" } }
        }
    }
}
