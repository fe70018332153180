//! The requests that run or wait by themselves, as `system_views.queries` shows them.
//!
//! A request that is served in the turn of its connection is not among them, unless it is about the tables that the node
//! computes: it is over before anybody could look, and to write down that it runs would cost it more than it is worth.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::{Batch, Request, StatementSource};

use super::call::Call;
use crate::world;

/// So much is kept of what a request says.
const TASK_BYTES_MAX: usize = 4096;

/// What runs, by the lowest numbers that were free: they stand for the threads that Cassandra names.
#[derive(Default)]
pub(crate) struct RunningQueries(Mutex<BTreeMap<usize, Query>>);

struct Query {
    task: String,
    arrived: Instant,
    begun: Option<Instant>,
}

/// A request that runs, as it is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RunningQuery {
    pub(crate) number: usize,
    pub(crate) queued: Duration,
    pub(crate) running: Duration,
    pub(crate) task: String,
}

/// A request is shown as long as this is there.
pub(super) struct Shown {
    queries: Arc<RunningQueries>,
    number: usize,
}

impl RunningQueries {
    /// Shows a request that waits from now on.
    pub(super) fn show(self: &Arc<Self>, task: String, arrived: Instant) -> Shown {
        let mut queries = self.0.lock();
        let number = (1..).zip(queries.keys()).find(|(free, taken)| free != *taken);
        let number = number.map_or(queries.len() + 1, |(free, _)| free);
        queries.insert(number, Query { task, arrived, begun: None });
        Shown { queries: Arc::clone(self), number }
    }

    /// Shows a request that runs in the turn of its connection.
    pub(super) fn show_call(self: &Arc<Self>, call: &Call<'_>) -> Shown {
        let shown = self.show(task_of(call), call.started);
        shown.begin();
        shown
    }

    /// All of them at a moment.
    pub(crate) fn list(&self, now: Instant) -> Vec<RunningQuery> {
        let told = |(number, query): (&usize, &Query)| RunningQuery {
            number: *number,
            queued: query.begun.unwrap_or(now).saturating_duration_since(query.arrived),
            running: query.begun.map_or(Duration::ZERO, |it| now.saturating_duration_since(it)),
            task: query.task.clone(),
        };
        self.0.lock().iter().map(told).collect()
    }
}

impl Shown {
    /// It runs from now on.
    pub(super) fn begin(&self) {
        if let Some(query) = self.queries.0.lock().get_mut(&self.number) {
            query.begun = Some(world::now());
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.queries.0.lock().remove(&self.number);
    }
}

/// A request in Cassandra's words.
pub(super) fn task_of(call: &Call<'_>) -> String {
    let mut task = match &call.message.request {
        Request::Query { text, parameters } => {
            let page_size = parameters.page_size.unwrap_or(-1);
            let shown = match call.statements {
                [statement] => statement.shown_text(),
                _ => Cow::Borrowed(*text),
            };
            format!("QUERY {} [pageSize = {page_size}]", cut(&shown))
        }
        Request::Execute { id, parameters, .. } => {
            let count = parameters.values.count();
            format!("EXECUTE {} with {count} values", types::value::format::to_hex(id))
        }
        Request::Batch(batch) => format!("BATCH of [{}]", statements_of(batch)),
        Request::Prepare { text, .. } => return format!("PREPARE {}", cut(text)),
        Request::Startup(_)
        | Request::Options
        | Request::Register(_)
        | Request::AuthResponse(_) => return String::new(),
    };
    if let Some(parameters) = call.parameters() {
        let _ = write!(task, " at consistency {}", parameters.consistency.name());
    }
    task
}

fn statements_of(batch: &Batch<'_>) -> String {
    let mut texts = String::new();
    for item in batch.statements.iter() {
        if texts.len() > TASK_BYTES_MAX {
            break;
        }
        let separator = if texts.is_empty() { "" } else { ", " };
        let _ = match item.source {
            StatementSource::Text(text) => write!(texts, "{separator}{}", cut(text)),
            StatementSource::Prepared(id) => {
                write!(texts, "{separator}{}", types::value::format::to_hex(id))
            }
        };
    }
    texts
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TASK_BYTES_MAX)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_shown_until_it_ends() {
        let queries = Arc::new(RunningQueries::default());
        let now = world::now();
        let first = queries.show("first".into(), now);
        let second = queries.show("second".into(), now);
        second.begin();
        let later = world::now() + Duration::from_secs(1);
        let [waits, runs] = queries.list(later).try_into().unwrap();
        assert_eq!(
            (waits.number, waits.task.as_str(), waits.running),
            (1, "first", Duration::ZERO)
        );
        assert!(waits.queued >= Duration::from_secs(1), "{waits:?}");
        assert_eq!((runs.number, runs.task.as_str()), (2, "second"));
        assert!(runs.running >= Duration::from_secs(1) && runs.queued < runs.running, "{runs:?}");
        drop(first);
        let third = queries.show("third".into(), now);
        let numbers: Vec<usize> = queries.list(later).iter().map(|it| it.number).collect();
        assert_eq!(numbers, [1, 2]);
        drop((second, third));
        assert!(queries.list(later).is_empty());
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "é".repeat(TASK_BYTES_MAX);
        assert_eq!(cut(&long).len(), TASK_BYTES_MAX);
        assert!(cut(&format!("x{long}")).len() < TASK_BYTES_MAX);
    }
}
