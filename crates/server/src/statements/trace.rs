//! Traces: what happened to a request and when, kept in `system_traces` for the client that asked.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Instant;

use parking_lot::Mutex;
use protocol::{QueryParameters, Request};
use types::UuidText;

use super::call::Call;
use crate::world::{self, Uuids};

/// Traces stay this long, as in Cassandra.
const TTL_S: u32 = 24 * 3600;
/// Texts of statements are kept up to this length.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The trace of one request.
pub(super) struct Trace {
    pub(super) id: [u8; 16],
    started: Instant,
    started_at_ms: i64,
    events: Mutex<Vec<TraceEvent>>,
}

struct TraceEvent {
    id: [u8; 16],
    activity: String,
    elapsed_us: i32,
}

impl Trace {
    pub(super) fn begin(uuids: &Uuids, started: Instant) -> Trace {
        Trace {
            id: uuids.time_uuid(),
            started,
            started_at_ms: world::now_us() / 1000,
            events: Mutex::new(Vec::new()),
        }
    }

    /// Notes what happens now.
    pub(super) fn note(&self, uuids: &Uuids, activity: impl Into<String>) {
        let event = TraceEvent {
            id: uuids.time_uuid(),
            activity: activity.into(),
            elapsed_us: self.elapsed_us(),
        };
        self.events.lock().push(event);
    }

    fn elapsed_us(&self) -> i32 {
        let elapsed = world::now().saturating_duration_since(self.started);
        i32::try_from(elapsed.as_micros()).unwrap_or(i32::MAX)
    }

    /// The statements that keep it. The events come first: a session that can be read is complete.
    pub(super) fn statements(&self, call: &Call<'_>, node: SocketAddr) -> Vec<String> {
        let session = UuidText(u128::from_be_bytes(self.id));
        let (source, port) = (node.ip(), node.port());
        let mut statements: Vec<String> = self
            .events
            .lock()
            .iter()
            .map(|event| {
                let id = UuidText(u128::from_be_bytes(event.id));
                let (activity, elapsed) = (quoted(&event.activity), event.elapsed_us);
                format!(
                    "INSERT INTO system_traces.events (session_id, event_id, activity, source, \
                     source_elapsed, source_port, thread) VALUES ({session}, {id}, {activity}, \
                     '{source}', {elapsed}, {port}, 'helenus') USING TTL {TTL_S}"
                )
            })
            .collect();
        let (client, started_at, duration) =
            (call.client.address.ip(), self.started_at_ms, self.elapsed_us());
        let (request, parameters) = (quoted(request_name(call)), parameters(call));
        statements.push(format!(
            "INSERT INTO system_traces.sessions (session_id, client, command, coordinator, \
             coordinator_port, duration, parameters, request, started_at) VALUES ({session}, \
             '{client}', 'QUERY', '{source}', {port}, {duration}, {parameters}, {request}, \
             {started_at}) USING TTL {TTL_S}"
        ));
        statements
    }
}

fn request_name(call: &Call<'_>) -> &'static str {
    match &call.message.request {
        Request::Prepare { .. } => "Preparing CQL3 query",
        Request::Execute { .. } => "Execute CQL3 prepared query",
        Request::Batch(_) => "Execute batch of CQL3 queries",
        Request::Query { .. }
        | Request::Startup(_)
        | Request::Options
        | Request::Register(_)
        | Request::AuthResponse(_) => "Execute CQL3 query",
    }
}

/// A map literal of what came with the request.
fn parameters(call: &Call<'_>) -> String {
    let mut out = String::from("{");
    if let [statement] = call.statements {
        let _ = write!(out, "'query': {}, ", quoted(&statement.shown_text()));
    }
    if let Some(QueryParameters { consistency, serial_consistency, page_size, .. }) =
        call.parameters()
    {
        let _ = write!(out, "'consistency_level': '{consistency}', ");
        let serial = serial_consistency.unwrap_or(protocol::Consistency::Serial);
        let _ = write!(out, "'serial_consistency_level': '{serial}', ");
        if let Some(page_size) = page_size {
            let _ = write!(out, "'page_size': '{page_size}', ");
        }
    }
    let _ = write!(out, "'request_charge': '{}', ", call.charge());
    let length = out.trim_end_matches(", ").len();
    out.truncate(length);
    out.push('}');
    out
}

/// A text literal.
fn quoted(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    format!("'{}'", text.get(..end).unwrap_or(text).replace('\'', "''"))
}
