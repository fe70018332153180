//! The thread that sends spans: OTLP over HTTP, as JSON, a connection for each batch.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Attribute, Counts, EndedSpan};
use crate::config::Endpoint;
use crate::log::Throttle;
use crate::version::VERSION;
use crate::world;

/// So many spans are sent together.
const BATCH_MAX: usize = 512;
/// A span waits for others so long.
const BATCH_WITHIN: Duration = Duration::from_millis(500);
/// So long whoever collects may take to be reached, to take a batch, and to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of an answer no more is read.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;
/// That nobody takes them is said so often at most.
const COMPLAINTS_PER_SECOND: u32 = 1;

pub(super) struct Exporter {
    endpoint: Endpoint,
    /// Whose spans they are.
    resource: Value,
    waiting: Receiver<EndedSpan>,
    counts: Arc<Counts>,
    complaints: Throttle,
}

impl Exporter {
    pub(super) fn new(
        endpoint: Endpoint,
        node: &str,
        waiting: Receiver<EndedSpan>,
        counts: Arc<Counts>,
    ) -> Exporter {
        let resource = json!({ "attributes": [
            text("service.name", "helenus"),
            text("service.version", VERSION),
            text("service.instance.id", node),
        ] });
        let complaints = Throttle::new(COMPLAINTS_PER_SECOND);
        Exporter { endpoint, resource, waiting, counts, complaints }
    }

    /// Sends until nobody can put any there any more.
    pub(super) fn run(self) {
        while let Ok(first) = self.waiting.recv() {
            let mut batch = vec![first];
            let until = world::now() + BATCH_WITHIN;
            while batch.len() < BATCH_MAX {
                let left = until.saturating_duration_since(world::now());
                match self.waiting.recv_timeout(left) {
                    Ok(span) => batch.push(span),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            let count = batch.len() as u64;
            match self.send(&batch) {
                Ok(()) => self.counts.sent.fetch_add(count, Ordering::Relaxed),
                Err(error) => {
                    if self.complaints.admit(world::steady_us()).is_some() {
                        let endpoint = &self.endpoint.authority;
                        tracing::warn!(%endpoint, %error, "spans are lost: nobody takes them");
                    }
                    self.counts.lost.fetch_add(count, Ordering::Relaxed)
                }
            };
        }
    }

    fn send(&self, batch: &[EndedSpan]) -> io::Result<()> {
        let body = body(&self.resource, batch).to_string();
        let Endpoint { authority, path } = &self.endpoint;
        let mut reached = Err(io::Error::other("no such address"));
        for address in authority.to_socket_addrs()? {
            reached = TcpStream::connect_timeout(&address, PATIENCE);
            if reached.is_ok() {
                break;
            }
        }
        let mut stream = reached?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: helenus/{VERSION}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = Vec::new();
        // What came before a break tells whether they were taken.
        let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
        match status(&answer) {
            Some(200..=299) => Ok(()),
            Some(status) => Err(io::Error::other(format!("HTTP status {status}"))),
            None => Err(read.err().unwrap_or_else(|| io::Error::other("no answer of HTTP"))),
        }
    }
}

/// The status of an answer: `HTTP/1.1 200 OK`.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.")?;
    line.split(' ').nth(1)?.parse().ok()
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// What OTLP calls a request to export. Whole numbers of 64 bits are texts in its JSON.
fn body(resource: &Value, batch: &[EndedSpan]) -> Value {
    let spans: Vec<Value> = batch.iter().map(span).collect();
    let scope = json!({ "name": "helenus", "version": VERSION });
    json!({ "resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
}

fn span(span: &EndedSpan) -> Value {
    let nanos = |us: i64| u64::try_from(us).unwrap_or(0).saturating_mul(1000).to_string();
    let attribute = |(key, value): &(&'static str, Attribute)| {
        let value = match value {
            Attribute::Text(text) => json!({ "stringValue": text }),
            Attribute::Whole(number) => json!({ "intValue": number.to_string() }),
            Attribute::Real(number) => json!({ "doubleValue": number }),
        };
        json!({ "key": key, "value": value })
    };
    let attributes: Vec<Value> = span.attributes.iter().map(attribute).collect();
    let mut told = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": nanos(span.started_us),
        "endTimeUnixNano": nanos(span.ended_us),
        "attributes": attributes,
    });
    if let Some(fields) = told.as_object_mut() {
        if let Some(parent) = span.parent {
            fields.insert("parentSpanId".to_owned(), json!(format!("{parent:016x}")));
        }
        if !span.is_good {
            fields.insert("status".to_owned(), json!({ "code": 2 }));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use replica::TraceContext;

    use super::super::SpanKind;
    use super::*;

    #[test]
    fn a_batch_is_what_otlp_wants() {
        let ended = EndedSpan {
            context: TraceContext { trace: 0xab, span: 0xcd },
            parent: Some(0xef),
            name: "lead commit",
            kind: SpanKind::Server,
            started_us: 1_000_000,
            ended_us: 1_000_250,
            is_good: false,
            attributes: vec![
                ("helenus.set", Attribute::Whole(7)),
                ("a", Attribute::Text("\"".into())),
            ],
        };
        let resource = json!({ "attributes": [text("service.name", "helenus")] });
        let made = body(&resource, &[ended]).to_string();
        let expected = format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"helenus"}}}}]}},"scopeSpans":[{{"scope":{{"name":"helenus","version":"{VERSION}"}},"spans":[{{"traceId":"000000000000000000000000000000ab","spanId":"00000000000000cd","name":"lead commit","kind":2,"startTimeUnixNano":"1000000000","endTimeUnixNano":"1000250000","attributes":[{{"key":"helenus.set","value":{{"intValue":"7"}}}},{{"key":"a","value":{{"stringValue":"\""}}}}],"parentSpanId":"00000000000000ef","status":{{"code":2}}}}]}}]}}]}}"#
        );
        assert_eq!(made, expected);
    }

    #[test]
    fn the_status_of_an_answer_is_read() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n{}"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503 Busy\r\n\r\n"), Some(503));
        assert_eq!(status(b"SSH-2.0\r\n"), None);
        assert_eq!(status(b""), None);
    }
}
