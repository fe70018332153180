//! Statements: those that cost most, took longest and were throttled most, and how one would be run.

use maud::{Markup, html};

use crate::figure::{bytes, count, cut, date, milliseconds};
use crate::layout::live;

/// So many are listed of each kind.
pub const LISTED_MAX: usize = 20;
const TEXT_CHARS_MAX: usize = 300;
/// The text of one that is explained is shown up to this.
const WHOLE_CHARS_MAX: usize = 8000;
/// Steps of an explanation that are shown.
const STEPS_MAX: usize = 50;
/// Values that are asked for.
pub const VALUES_MAX: usize = 100;

/// A prepared statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    /// Its id, as 32 hexadecimal digits.
    pub id: String,
    pub text: String,
    pub calls: u64,
    pub charge_total: f64,
    pub charge_average: f64,
    pub charge_p99: f64,
    pub rows: u64,
    pub throttled: u64,
}

/// A statement that took long or cost much.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slow {
    /// What it is explained by, where it can be.
    pub number: Option<i64>,
    /// How many of those that are kept have this text.
    pub times: u64,
    /// When the slowest of them was.
    pub at_ms: i64,
    pub took_ms: f64,
    pub charge: f64,
    pub rows: u64,
    pub reason: &'static str,
    pub error: Option<&'static str>,
    pub client: String,
    pub role: Option<String>,
    /// Without its values, unless somebody wants them in the log.
    pub text: String,
}

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Statements {
    /// Those that cost most in all, first.
    pub costliest: Vec<Statement>,
    /// Those that were throttled, most often first.
    pub throttled: Vec<Statement>,
    /// Those that took longest, first.
    pub slowest: Vec<Slow>,
    /// Prepared statements in all.
    pub prepared: usize,
}

impl Statements {
    /// The page.
    pub fn markup(&self) -> Markup {
        html! {
            h1 { "Statements" }
            p.dim { (self.prepared) " prepared statements are known here. What they cost is counted on this node since they were prepared; statements that clients send as text are among the slow ones only." }
            (live("costliest", "Costliest", &prepared(&self.costliest, "None was executed yet.")))
            (live("slowest", "Slowest", &self.told_slow()))
            (live("throttled", "Most throttled", &prepared(&self.throttled, "None was throttled.")))
        }
    }

    fn told_slow(&self) -> Markup {
        html! {
            @if self.slowest.is_empty() { p.dim { "None took or cost more than log.slow_after and log.costly_ru." } } @else {
                div.wide { table {
                    thead { tr {
                        th { "Statement" } th { "" } th.number { "Took" } th.number title="among the last 256 slow or costly ones" { "Times" } th.number { "RU" }
                        th.number { "Rows" } th { "When" } th { "Who" }
                    } }
                    tbody {
                        @for slow in self.slowest.iter().take(LISTED_MAX) {
                            tr {
                                td.text { code { (cut(&slow.text, TEXT_CHARS_MAX)) } @if let Some(error) = slow.error { " " span.bad { (error) } } }
                                td { @if let Some(number) = slow.number { a.button href=(address_of_slow(number)) { "EXPLAIN" } } }
                                td.number { (milliseconds(slow.took_ms)) }
                                td.number { (slow.times) }
                                td.number { (count(slow.charge)) }
                                td.number { (count(slow.rows as f64)) }
                                td { (date(slow.at_ms)) }
                                td { (slow.client) @if let Some(role) = &slow.role { " as " (cut(role, 60)) } }
                            }
                        }
                    }
                } }
            }
        }
    }
}

fn prepared(statements: &[Statement], none: &str) -> Markup {
    html! {
        @if statements.is_empty() { p.dim { (none) } } @else {
            div.wide { table {
                thead { tr {
                    th { "Statement" } th { "" } th.number { "RU in all" } th.number { "Average" } th.number { "p99" } th.number { "Calls" }
                    th.number { "Rows" } th.number { "Throttled" }
                } }
                tbody {
                    @for it in statements.iter().take(LISTED_MAX) {
                        tr {
                            td.text { code { (cut(&it.text, TEXT_CHARS_MAX)) } }
                            td { a.button href=(address_of(&it.id)) { "EXPLAIN" } }
                            td.number { (count(it.charge_total)) }
                            td.number { (count(it.charge_average)) }
                            td.number { (count(it.charge_p99)) }
                            td.number { (count(it.calls as f64)) }
                            td.number { (count(it.rows as f64)) }
                            td.number { (count(it.throttled as f64)) }
                        }
                    }
                }
            } }
        }
    }
}

/// Where a prepared statement is explained.
pub fn address_of(id: &str) -> String {
    format!("/explain?id={id}")
}

/// Where one that took long is.
pub fn address_of_slow(number: i64) -> String {
    format!("/explain?slow={number}")
}

/// How a statement would be run.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    pub address: String,
    pub text: String,
    /// What is to be bound: names and types.
    pub variables: Vec<(String, String)>,
    /// What somebody gave for them.
    pub values: Vec<String>,
    pub outcome: Outcome,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outcome {
    /// Values are needed first.
    #[default]
    Asks,
    Refused(String),
    Steps(Vec<Step>),
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    pub what: String,
    pub partitions: String,
    pub rows: Option<i64>,
    pub bytes: Option<i64>,
    pub charge: Option<f64>,
}

impl Explained {
    /// The page.
    pub fn markup(&self) -> Markup {
        html! {
            h1 { "EXPLAIN" }
            p { a href="/statements" { "‹ all statements" } }
            pre { code { (cut(&self.text, WHOLE_CHARS_MAX)) } }
            @if !self.variables.is_empty() {
                form.values method="post" action=(self.address) {
                    p.dim { "Nothing is executed. What it would touch depends on its values:" }
                    @for (place, (name, kind)) in self.variables.iter().take(VALUES_MAX).enumerate() {
                        label {
                            (cut(name, 80)) " " span.dim { (cut(kind, 80)) }
                            input name=(format!("v{place}")) value=(self.values.get(place).map_or("", String::as_str)) data-search[place == 0];
                        }
                    }
                    button type="submit" { "Explain" }
                }
            }
            @match &self.outcome {
                Outcome::Asks => {}
                Outcome::Refused(why) => p.problem role="alert" { (cut(why, 500)) }
                Outcome::Steps(steps) => (told(steps))
            }
        }
    }
}

fn told(steps: &[Step]) -> Markup {
    let size = |value: i64| bytes(u64::try_from(value).unwrap_or(0));
    let dash = || "–".to_owned();
    html! {
        div.wide { table {
            thead { tr { th { "Step" } th { "Physical partitions" } th.number { "Rows" } th.number { "Bytes" } th.number { "RU" } } }
            tbody {
                @for step in steps.iter().take(STEPS_MAX) {
                    tr {
                        td.text { (cut(&step.what, 500)) }
                        td.text { (cut(&step.partitions, 200)) }
                        td.number { (step.rows.map_or_else(dash, |it| count(it as f64))) }
                        td.number { (step.bytes.map_or_else(dash, size)) }
                        td.number { (step.charge.map_or_else(dash, count)) }
                    }
                }
            }
        } }
    }
}
