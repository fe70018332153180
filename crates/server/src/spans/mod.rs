//! Spans of requests for OpenTelemetry: what a client asked for, what was done for it on which node, and how long each took. Off unless
//! `traces.endpoint` names who collects them. Requests never wait for it: what there is no room for is lost, and counted.
//!
//! Reading order: [`Tracer`], which chooses and names; `call` for the spans of a request; `export` for the thread that sends them.

mod call;
mod export;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use protocol::{Request, RequestMessage};
use replica::{Span, Step, TraceContext, Witness};
use types::NodeId;

pub(crate) use call::{Ended, TracedCall};
use export::Exporter;

use crate::config::Traces;
use crate::world;

/// So many spans wait to be sent; more are lost.
const WAITING_MAX: usize = 16_384;
/// The key of W3C's trace context in the custom payload of a request.
const PARENT_KEY: &str = "traceparent";
/// What makes numbers in a row look drawn (SplitMix64).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Who calls whom, in OTLP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// A value beside a span.
#[derive(Clone, Debug, PartialEq)]
enum Attribute {
    Text(String),
    Whole(u64),
    Real(f64),
}

/// A span that is over, on its way.
#[derive(Clone, Debug, PartialEq)]
struct EndedSpan {
    context: TraceContext,
    parent: Option<u64>,
    name: &'static str,
    kind: SpanKind,
    started_us: i64,
    ended_us: i64,
    is_good: bool,
    attributes: Vec<(&'static str, Attribute)>,
}

/// How many spans there were.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    lost: AtomicU64,
}

/// Chooses which requests are traced, and takes their spans.
pub(crate) struct Tracer {
    one_in: u64,
    seen: AtomicU64,
    /// Numbers are made of this and of how many there were.
    seed: u64,
    drawn: AtomicU64,
    queue: SyncSender<EndedSpan>,
    counts: Arc<Counts>,
}

impl Tracer {
    /// Starts the thread that sends; nothing where nobody collects.
    pub(crate) fn start(traces: &Traces, node: &str) -> io::Result<Option<Arc<Tracer>>> {
        let Some(endpoint) = &traces.endpoint else { return Ok(None) };
        let seed = world::random_bytes().map_err(|error| io::Error::other(error.to_string()))?;
        let (queue, waiting) = sync_channel(WAITING_MAX);
        let counts = Arc::new(Counts::default());
        let exporter = Exporter::new(endpoint.clone(), node, waiting, Arc::clone(&counts));
        std::thread::Builder::new().name("helenus-spans".into()).spawn(move || exporter.run())?;
        Ok(Some(Arc::new(Tracer {
            one_in: u64::try_from(traces.one_in).unwrap_or(u64::MAX).max(1),
            seen: AtomicU64::new(0),
            seed: u64::from_be_bytes(seed),
            drawn: AtomicU64::new(0),
            queue,
            counts,
        })))
    }

    /// Spans that were sent, and those that were lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts.sent.load(Ordering::Relaxed), self.counts.lost.load(Ordering::Relaxed))
    }

    /// The spans of a request, if it is traced: one in so many, and those whose client says so.
    pub(crate) fn begin(self: &Arc<Self>, message: &RequestMessage<'_>) -> Option<Arc<TracedCall>> {
        let name = match &message.request {
            Request::Query { .. } => "QUERY",
            Request::Execute { .. } => "EXECUTE",
            Request::Batch(_) => "BATCH",
            _ => return None,
        };
        let parent = match &message.custom_payload {
            None => None,
            Some(payload) => {
                let mut pairs = payload.iter();
                let found = pairs.find(|(key, _)| *key == PARENT_KEY);
                found.and_then(|(_, value)| parse_parent(value?))
            }
        };
        let is_wanted = match parent {
            Some((_, is_sampled)) => is_sampled,
            None => self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.one_in),
        };
        is_wanted.then(|| {
            let parent = parent.map(|(context, _)| context);
            let trace = match parent {
                Some(parent) => parent.trace,
                None => u128::from(self.draw()) << 64 | u128::from(self.draw()),
            };
            let root = TraceContext { trace, span: self.draw() };
            let run = TraceContext { trace, span: self.draw() };
            Arc::new(TracedCall::new(Arc::clone(self), name, root, parent.map(|it| it.span), run))
        })
    }

    fn put(&self, span: EndedSpan) {
        if self.queue.try_send(span).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A number that is not zero, which OTLP takes for none.
    fn draw(&self) -> u64 {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut number = self.seed.wrapping_add(count.wrapping_mul(GOLDEN));
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ number >> 31).max(1)
    }
}

impl Witness for Tracer {
    fn now_us(&self) -> i64 {
        world::now_us()
    }

    fn below(&self, parent: TraceContext) -> TraceContext {
        TraceContext { span: self.draw(), ..parent }
    }

    fn tell(&self, span: Span) {
        let (name, kind) = match span.step {
            Step::Commit => ("commit", SpanKind::Client),
            Step::CommitBatch => ("commit batch", SpanKind::Client),
            Step::Lead => ("lead commit", SpanKind::Server),
            Step::Read => ("read set", SpanKind::Internal),
            Step::ReadElsewhere => ("read elsewhere", SpanKind::Client),
            Step::Serve => ("serve read", SpanKind::Server),
        };
        let mut attributes = Vec::new();
        attributes.extend(span.set.map(|set| ("helenus.set", Attribute::Whole(u64::from(set.0)))));
        attributes.extend(span.peer.map(|NodeId(node)| ("helenus.from", Attribute::Whole(node))));
        self.put(EndedSpan {
            context: span.context,
            parent: Some(span.parent),
            name,
            kind,
            started_us: span.started_us,
            ended_us: world::now_us(),
            is_good: span.is_good,
            attributes,
        });
    }
}

/// `00-TRACE-SPAN-FLAGS`: what a request is a part of, and whether that is traced.
fn parse_parent(value: &[u8]) -> Option<(TraceContext, bool)> {
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.trim().split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags) = (parts.next()?, parts.next()?);
    let is_right = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);
    let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0 && is_right)?;
    let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
    let flags = u8::from_str_radix(flags, 16).ok()?;
    (version != "ff").then_some((TraceContext { trace, span }, flags & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_that_of_w3c() {
        let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
        let context = TraceContext { trace, span: 0xb7ad_6b71_6920_3331 };
        for (text, expected) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some((context, true))),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", Some((context, false))),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", Some((context, true))),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            ("00-af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c", None),
            ("", None),
        ] {
            assert_eq!(parse_parent(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(parse_parent(b"\xff"), None);
    }

    #[test]
    fn what_there_is_no_room_for_is_lost_and_counted() {
        let (queue, waiting) = sync_channel(1);
        let counts = Arc::new(Counts::default());
        let tracer = Arc::new(Tracer {
            one_in: 3,
            seen: AtomicU64::new(0),
            seed: 1,
            drawn: AtomicU64::new(0),
            queue,
            counts,
        });
        let span = Span {
            context: TraceContext { trace: 1, span: 2 },
            parent: 3,
            step: Step::Lead,
            set: None,
            peer: None,
            started_us: 4,
            is_good: true,
        };
        tracer.tell(span);
        tracer.tell(span);
        assert_eq!(tracer.counts(), (0, 1));
        assert_eq!(waiting.try_iter().count(), 1);
        // One in three, and every number another one.
        let message = RequestMessage::new(Request::Query {
            text: "SELECT 1",
            parameters: protocol::QueryParameters::new(
                protocol::Version::V5,
                protocol::Consistency::One,
            ),
        });
        let begun: Vec<bool> = (0..6).map(|_| tracer.begin(&message).is_some()).collect();
        assert_eq!(begun, [true, false, false, true, false, false]);
        assert!(tracer.begin(&RequestMessage::new(Request::Options)).is_none());
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| tracer.draw()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
