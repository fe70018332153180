//! The spans of one request on the node that its client asks: from its arrival to its answer, and within that the time in which it ran.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use replica::TraceContext;

use super::{Attribute, EndedSpan, SpanKind, Tracer};
use crate::world;

/// So much is told of the text of a statement.
const TEXT_CHARS_MAX: usize = 1000;
/// It did not run yet.
const NOT_BEGUN: i64 = 0;

/// A request that is traced.
pub(crate) struct TracedCall {
    tracer: Arc<Tracer>,
    name: &'static str,
    root: TraceContext,
    /// The span of its client.
    parent: Option<u64>,
    run: TraceContext,
    run_began_us: AtomicI64,
}

/// What became of a request.
pub(crate) struct Ended<'a> {
    pub(crate) took: Duration,
    pub(crate) client: IpAddr,
    /// `keyspace` and `table`, where it is about one.
    pub(crate) table: Option<(&'a str, &'a str)>,
    /// Without its values.
    pub(crate) text: Option<String>,
    pub(crate) charge: f64,
    pub(crate) rows: Option<u64>,
    /// The name of its error.
    pub(crate) error: Option<&'static str>,
}

impl TracedCall {
    pub(super) fn new(
        tracer: Arc<Tracer>,
        name: &'static str,
        root: TraceContext,
        parent: Option<u64>,
        run: TraceContext,
    ) -> TracedCall {
        TracedCall { tracer, name, root, parent, run, run_began_us: AtomicI64::new(NOT_BEGUN) }
    }

    /// It runs: what is done for it elsewhere is a part of that.
    pub(crate) fn running(&self) -> TraceContext {
        let (now_us, set) = (world::now_us(), Ordering::Relaxed);
        // Begun anew, it goes on.
        let _ = self.run_began_us.compare_exchange(NOT_BEGUN, now_us, set, set);
        self.run
    }

    /// Lines of the log that are written within it have the same ids.
    pub(crate) fn log_span(&self) -> tracing::Span {
        let TraceContext { trace, span } = self.root;
        tracing::error_span!("request", trace_id = %format_args!("{trace:032x}"), span_id = %format_args!("{span:016x}"))
    }

    /// Its answer is made.
    pub(crate) fn end(&self, ended: Ended<'_>) {
        let ended_us = world::now_us();
        let took_us = i64::try_from(ended.took.as_micros()).unwrap_or(i64::MAX);
        let is_good = ended.error.is_none();
        let run_began_us = self.run_began_us.load(Ordering::Relaxed);
        if run_began_us != NOT_BEGUN {
            self.tracer.put(EndedSpan {
                context: self.run,
                parent: Some(self.root.span),
                name: "coordinate",
                kind: SpanKind::Internal,
                started_us: run_began_us,
                ended_us,
                is_good,
                attributes: Vec::new(),
            });
        }
        let text = |text: String| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
        let mut attributes = vec![
            ("db.system.name", Attribute::Text("cassandra".to_owned())),
            ("client.address", Attribute::Text(ended.client.to_string())),
            ("helenus.charge", Attribute::Real(ended.charge)),
        ];
        if let Some((keyspace, table)) = ended.table {
            attributes.push(("db.namespace", Attribute::Text(keyspace.to_owned())));
            attributes.push(("db.collection.name", Attribute::Text(table.to_owned())));
        }
        attributes.extend(ended.text.map(|it| ("db.query.text", Attribute::Text(text(it)))));
        let rows = ended.rows.map(Attribute::Whole);
        attributes.extend(rows.map(|rows| ("db.response.returned_rows", rows)));
        let error = ended.error.map(|error| Attribute::Text(error.to_owned()));
        attributes.extend(error.map(|error| ("error.type", error)));
        self.tracer.put(EndedSpan {
            context: self.root,
            parent: self.parent,
            name: self.name,
            kind: SpanKind::Server,
            started_us: ended_us.saturating_sub(took_us),
            ended_us,
            is_good,
            attributes,
        });
    }
}
