//! What `system_helenus.jobs` and `events` show: what runs in a cluster, what ran, and why.

use super::rows::NamedRow;
use super::values::{bigint, optional_text, text, timestamp};

/// Jobs and events of a cluster. A node that runs alone has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalFacts {
    /// What runs, and what ran lately.
    pub jobs: Vec<JobFacts>,
    /// What happened lately.
    pub events: Vec<EventFacts>,
}

/// Something that takes its time.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFacts {
    /// Counted from one.
    pub id: i64,
    /// `join`, `drain`, `decommission`, `remove`, `move` or `heal`.
    pub kind: &'static str,
    /// The node that it is about.
    pub node: Option<i64>,
    /// The set that it is about.
    pub set: Option<i64>,
    /// `running`, `done`, `cancelled` or `failed`.
    pub state: &'static str,
    /// What it does.
    pub what: String,
    /// Why it was begun.
    pub reason: String,
    /// How far it is, or how it ended.
    pub progress: String,
    /// What is left to be moved.
    pub remaining: i64,
    /// Of so much.
    pub total: i64,
    /// Milliseconds since the epoch.
    pub started_ms: i64,
    /// When something of it changed last.
    pub updated_ms: i64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFacts {
    /// Counted from one.
    pub number: i64,
    /// Milliseconds since the epoch.
    pub at_ms: i64,
    /// A word for what it is about.
    pub kind: &'static str,
    /// The job that began or ended.
    pub job: Option<i64>,
    /// The node that it is about.
    pub node: Option<i64>,
    /// The set that it is about.
    pub set: Option<i64>,
    /// What happened.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// The rows of one of the tables; `None` for another one.
pub(super) fn rows(name: &str, facts: &JournalFacts, cluster_name: &str) -> Option<Vec<NamedRow>> {
    match name {
        "jobs" => Some(facts.jobs.iter().map(job).collect()),
        "events" => Some(facts.events.iter().map(|it| event(it, cluster_name)).collect()),
        _ => None,
    }
}

fn job(job: &JobFacts) -> NamedRow {
    vec![
        ("state", text(job.state)),
        ("id", bigint(job.id)),
        ("kind", text(job.kind)),
        ("node", job.node.and_then(bigint)),
        ("progress", optional_text(Some(&job.progress))),
        ("reason", text(&job.reason)),
        ("remaining", bigint(job.remaining)),
        ("set_id", job.set.and_then(bigint)),
        ("started_at", timestamp(job.started_ms)),
        ("total", bigint(job.total)),
        ("updated_at", timestamp(job.updated_ms)),
        ("what", text(&job.what)),
    ]
}

fn event(event: &EventFacts, cluster_name: &str) -> NamedRow {
    vec![
        ("cluster_name", text(cluster_name)),
        ("number", bigint(event.number)),
        ("at", timestamp(event.at_ms)),
        ("job", event.job.and_then(bigint)),
        ("kind", text(event.kind)),
        ("node", event.node.and_then(bigint)),
        ("reason", text(&event.reason)),
        ("set_id", event.set.and_then(bigint)),
        ("what", text(&event.what)),
    ]
}
