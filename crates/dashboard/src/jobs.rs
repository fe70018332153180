//! What runs in the cluster, what ran, what happened, and what the node had to say.

use maud::{Markup, html};

use crate::figure::{bytes, cut, date};
use crate::layout::{live, meter};

/// So many are listed of each kind.
pub const LISTED_MAX: usize = 25;
const TEXT_CHARS_MAX: usize = 160;
/// So much is shown of a line of the log.
const LINE_CHARS_MAX: usize = 400;

/// Something that takes its time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    pub id: i64,
    pub kind: String,
    pub state: String,
    pub what: String,
    pub reason: String,
    pub progress: String,
    pub remaining: i64,
    pub total: i64,
    pub started_ms: i64,
    pub updated_ms: i64,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub at_ms: i64,
    pub kind: String,
    pub what: String,
    pub reason: String,
}

/// A split or a merge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub at_ms: i64,
    pub space: String,
    pub what: String,
    pub reason: String,
    pub bytes: u64,
    pub took_ms: f64,
}

/// An index that is built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Build {
    pub index: String,
    pub share: f64,
    pub rows: u64,
}

/// A line of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    pub at_ms: i64,
    pub level: &'static str,
    pub text: String,
}

/// What is shown, newest first.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    pub jobs: Vec<Job>,
    pub events: Vec<Event>,
    pub changes: Vec<Change>,
    /// Those that are not done.
    pub builds: Vec<Build>,
    /// Warnings and errors of this node.
    pub lines: Vec<Line>,
    pub is_alone: bool,
}

impl Jobs {
    /// The page.
    pub fn markup(&self) -> Markup {
        html! {
            h1 { "Jobs and events" }
            (live("jobs", "Jobs", &self.told_jobs()))
            @if !self.builds.is_empty() { (live("builds", "Indexes that are built", &self.told_builds())) }
            (live("events", "Events", &self.told_events()))
            (live("changes", "Splits and merges", &self.told_changes()))
            (live("lines", "Warnings and errors of this node, but for slow statements", &self.told_lines()))
        }
    }

    fn told_jobs(&self) -> Markup {
        html! {
            @if self.jobs.is_empty() {
                p.dim { @if self.is_alone { "This node runs alone: nothing is moved." } @else { "Nothing runs, and nothing ran lately." } }
            } @else {
                div.wide { table {
                    thead { tr { th.number { "Id" } th { "State" } th { "What" } th { "Why" } th { "Progress" } th { "Started" } } }
                    tbody {
                        @for job in self.jobs.iter().take(LISTED_MAX) {
                            tr {
                                td.number { (job.id) }
                                td.bad[job.state == "failed"] { (job.state) }
                                td.text { (cut(&job.what, TEXT_CHARS_MAX)) }
                                td.text { (cut(&job.reason, TEXT_CHARS_MAX)) }
                                td {
                                    @if job.state == "running" && job.total > 0 {
                                        (meter(1.0 - job.remaining as f64 / job.total as f64, &cut(&job.progress, 100)))
                                    } @else { (cut(&job.progress, TEXT_CHARS_MAX)) }
                                }
                                td { (date(job.started_ms)) }
                            }
                        }
                    }
                } }
            }
        }
    }

    fn told_builds(&self) -> Markup {
        html! {
            table {
                tbody {
                    @for build in self.builds.iter().take(LISTED_MAX) {
                        tr { td { (cut(&build.index, TEXT_CHARS_MAX)) } td { (meter(build.share, &format!("{:.0} %, {} rows", build.share * 100.0, build.rows))) } }
                    }
                }
            }
        }
    }

    fn told_events(&self) -> Markup {
        html! {
            @if self.events.is_empty() { p.dim { "None." } } @else {
                div.wide { table {
                    thead { tr { th { "When" } th { "Kind" } th { "What" } th { "Why" } } }
                    tbody {
                        @for event in self.events.iter().take(LISTED_MAX) {
                            tr { td { (date(event.at_ms)) } td { (event.kind) } td.text { (cut(&event.what, TEXT_CHARS_MAX)) } td.text { (cut(&event.reason, TEXT_CHARS_MAX)) } }
                        }
                    }
                } }
            }
        }
    }

    fn told_changes(&self) -> Markup {
        html! {
            @if self.changes.is_empty() { p.dim { @if self.is_alone { "None lately." } @else { "This node split or merged none lately; those of other nodes are among the events." } } } @else {
                div.wide { table {
                    thead { tr { th { "When" } th { "Space" } th { "What" } th { "Why" } th.number { "Size" } th.number { "Took" } } }
                    tbody {
                        @for change in self.changes.iter().take(LISTED_MAX) {
                            tr {
                                td { (date(change.at_ms)) } td { (cut(&change.space, 100)) } td { (change.what) } td { (change.reason) }
                                td.number { (bytes(change.bytes)) } td.number { (crate::figure::milliseconds(change.took_ms)) }
                            }
                        }
                    }
                } }
            }
        }
    }

    fn told_lines(&self) -> Markup {
        html! {
            @if self.lines.is_empty() { p.dim { "None." } } @else {
                div.wide { table {
                    thead { tr { th { "When" } th { "Level" } th { "Message" } } }
                    tbody {
                        @for line in self.lines.iter().take(LISTED_MAX) {
                            tr { td { (date(line.at_ms)) } td.bad[line.level == "ERROR"] { (line.level) } td.text { (cut(&line.text, LINE_CHARS_MAX)) } }
                        }
                    }
                } }
            }
        }
    }
}
