//! One client: bytes in, requests served, bytes out, all in one task.
//!
//! The task reads what arrived, serves every request in it inline, and writes all answers at once.
//! A request that must wait is set aside and polled by the same task; its answer goes out with
//! whatever else is ready then. Nothing more is read while the client does not take its answers, or
//! while too many of its requests wait: the kernel then holds the client back, and our memory does
//! not grow. What the whole node may hold, and when it refuses, is in `load.rs`.
mod pending;
mod promises;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use protocol::{
    ErrorKind, ErrorResponse, EventKinds, Frame, FrameDecoder, Outgoing, OutgoingRoom,
    ProtocolError, ResponseHead, Version,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Sleep;

use crate::events::{EventHub, EventQueue};
use crate::load::{GRAIN_BYTES, Holding, Load, Overload};
use crate::metrics::{RequestKind, Shard};
use crate::session::{Effect, Finished, Session, SessionChange, Stage, Step, Turn, kind_of};
use crate::world;

use pending::Pending;
pub(crate) use pending::Wait;
pub(crate) use promises::Promised;
use promises::Promises;

/// Bytes taken from the socket at once.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Answers waiting to be written; with more than that nothing is read or served. One answer may
/// take the buffer beyond it, two may not.
const UNWRITTEN_BYTES_MAX: usize = 256 * 1024;
/// Requests served before their answers are written.
const REQUESTS_PER_WRITE_MAX: usize = 512;
/// Rounds before other connections get their turn.
const ROUNDS_MAX: usize = 16;
/// A client that keeps us waiting with much of its own in our memory is left after this time ...
const STALL_MAX: Duration = Duration::from_secs(60);
/// ... or after this, when memory is short.
const STALL_MAX_TIGHT: Duration = Duration::from_secs(2);
/// A buffer of a connection that waits is kept up to this size, so that a client with one request at a
/// time does not cost allocations; ten thousand that are silent hold 30 MB at most.
const KEPT_BYTES_MAX: usize = 1024;
/// So much room for answers each thread keeps for the next connection that needs it.
const ROOM_BYTES_MAX: usize = 512 * 1024;
/// The longest message of a client that has not said who it is.
const EARLY_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// How long a client that was refused may take to read why.
const LINGER: Duration = Duration::from_millis(500);

/// What all connections share.
pub(crate) struct ConnectionLimits {
    pub(crate) message_bytes_max: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) startup_timeout: Duration,
}

/// A connection and everything it needs.
pub(crate) struct Connection<'a, S> {
    stream: S,
    session: Session,
    limits: &'a ConnectionLimits,
    shard: &'a Shard,
    hub: &'a EventHub,
    decoder: FrameDecoder,
    inbound: BytesMut,
    outgoing: Outgoing,
    /// What was agreed on.
    agreed: Option<Version>,
    pending: Pending<Tag, Finished>,
    promises: Promises<Tag>,
    /// Changes of this turn are in the log, and the log was not told that there are no more.
    has_new_promises: bool,
    registered: EventKinds,
    events: Option<EventQueue>,
    /// Until the client has said who it is.
    startup_deadline: Option<Pin<Box<Sleep>>>,
    stop: Wait<()>,
    reading: Reading,
    /// Bytes arrived that were not decoded to their end.
    may_hold_frames: bool,
    load: &'a Arc<Load>,
    /// What of it is in memory: what arrived, what waits, and what is to be written.
    holding: Holding,
    /// The client keeps us waiting.
    stall: Option<Stall>,
    /// Statements that may still be served in this turn.
    turn_requests: usize,
    /// A request that there was no room for. What came behind it waits.
    held_back: Option<HeldBack>,
    /// It was held back since something arrived last.
    was_slowed: bool,
    /// What its requests take that wait.
    waiting_bytes: usize,
}

/// A request that is served again.
struct HeldBack {
    frame: Frame,
    arrived: Instant,
    wait: Wait<Option<OwnedSemaphorePermit>>,
}

/// What is remembered of a request that waits.
struct Tag {
    kind: RequestKind,
    started: Instant,
    bytes: usize,
}

/// Since when nothing moves.
struct Stall {
    since: Instant,
    alarm: Pin<Box<Sleep>>,
}

/// Whether more requests are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Yes.
    Open,
    /// The client sent its last byte: what is there is served, then we part.
    Ended,
    /// The client broke the protocol: it is told, then we part.
    Refused,
    /// The node stops: what waits is finished, then we part.
    Stopping,
}

thread_local! {
    /// Where bytes arrive before they are known to be any. Connections that wait hold no buffer.
    static ARRIVAL: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES_MAX]);
    /// Room for answers that a connection which waits does not need: the next one with many does not have
    /// to make it anew, by doubling.
    static ROOM: RefCell<Option<OutgoingRoom>> = const { RefCell::new(None) };
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(crate) fn new(
        stream: S,
        session: Session,
        limits: &'a ConnectionLimits,
        shard: &'a Shard,
        hub: &'a EventHub,
        load: &'a Arc<Load>,
        mut stopping: watch::Receiver<bool>,
    ) -> Connection<'a, S> {
        Connection {
            stream,
            session,
            limits,
            shard,
            hub,
            decoder: FrameDecoder::for_requests(
                limits.message_bytes_max.min(EARLY_MESSAGE_BYTES_MAX),
            ),
            inbound: BytesMut::new(),
            outgoing: Outgoing::new(),
            agreed: None,
            pending: Pending::new(),
            promises: Promises::new(),
            has_new_promises: false,
            registered: EventKinds::default(),
            events: None,
            startup_deadline: Some(Box::pin(tokio::time::sleep(limits.startup_timeout))),
            stop: Box::pin(async move {
                // An error means that the node is gone, which is a stop too.
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            }),
            reading: Reading::Open,
            may_hold_frames: false,
            load,
            holding: Holding::none(load),
            stall: None,
            turn_requests: 0,
            held_back: None,
            was_slowed: false,
            waiting_bytes: 0,
        }
    }

    /// Serves the client until one of us has enough.
    pub(crate) async fn run(mut self) {
        let ended = poll_fn(|cx| self.poll(cx)).await;
        if ended.is_err() {
            return;
        }
        // Closing with unread bytes would reset the connection and could destroy the last answer on
        // its way, so what still comes is read and thrown away for a moment.
        let _ = self.stream.shutdown().await;
        if self.reading == Reading::Refused {
            let mut discarded = [0; 1024];
            let drained = async {
                while self.stream.read(&mut discarded).await.is_ok_and(|count| count > 0) {}
            };
            let _ = tokio::time::timeout(LINGER, drained).await;
        }
    }

    // A function of its own in the binary: the instruction counts of `cargo xtask instructions` begin
    // and end here.
    #[inline(never)]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.turn_requests = self.load.turn_requests();
        // Once for a turn: whatever changes meanwhile wakes the task again.
        if self.poll_ends(cx) {
            return Poll::Ready(Ok(()));
        }
        for _ in 0..ROUNDS_MAX {
            let mut has_moved = self.poll_held_back(cx);
            has_moved |= self.serve_frames();
            has_moved |= self.poll_promises(cx);
            has_moved |= self.poll_pending(cx);
            has_moved |= self.poll_events(cx);
            has_moved |= self.poll_write(cx)?;
            if self.is_over() {
                return Poll::Ready(Ok(()));
            }
            if self.turn_requests == 0 {
                // The others have their turns before the rest of what arrived is looked at.
                break;
            }
            has_moved |= self.poll_read(cx)?;
            if !has_moved {
                self.release_memory();
                if self.poll_stall(cx) {
                    return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
                }
                return Poll::Pending;
            }
            self.stall = None;
        }
        self.account();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Looks at the clock and at the node. `true`: the client took too long to introduce itself.
    fn poll_ends(&mut self, cx: &mut Context<'_>) -> bool {
        if self.reading == Reading::Open && self.stop.as_mut().poll(cx).is_ready() {
            self.reading = Reading::Stopping;
        }
        let is_checked = self.waiting_count() > 0;
        match &mut self.startup_deadline {
            Some(_) if self.session.stage == Stage::Ready => {
                self.startup_deadline = None;
                false
            }
            // While its password waits to be checked it is we who take long.
            Some(_) if is_checked => false,
            Some(deadline) => deadline.as_mut().poll(cx).is_ready(),
            None => false,
        }
    }

    fn is_over(&self) -> bool {
        match self.reading {
            Reading::Open => false,
            // Nobody is there to take answers that come later.
            Reading::Ended => {
                self.outgoing.is_empty() && !self.may_hold_frames && self.held_back.is_none()
            }
            Reading::Refused => self.outgoing.is_empty(),
            Reading::Stopping => {
                self.outgoing.is_empty() && self.waiting_count() == 0 && self.held_back.is_none()
            }
        }
    }

    /// Requests that wait, for the log or for something else.
    fn waiting_count(&self) -> usize {
        self.pending.count() + self.promises.count()
    }

    fn has_room(&self) -> bool {
        self.outgoing.length_bytes() < UNWRITTEN_BYTES_MAX
    }

    fn may_serve(&self) -> bool {
        let in_flight_max = match self.session.stage {
            Stage::Ready => self.limits.in_flight_max,
            Stage::Fresh | Stage::LoggingIn => 1,
        };
        matches!(self.reading, Reading::Open | Reading::Ended)
            && self.held_back.is_none()
            && (self.turn_requests > 0 || self.session.throw_on_overload)
            && !self.waits_for_its_own()
            && self.has_room()
            && (self.waiting_count() < in_flight_max
                || self.session.throw_on_overload && self.session.stage == Stage::Ready)
    }

    /// Where memory is short, whoever has much under way waits for that.
    fn waits_for_its_own(&self) -> bool {
        self.waiting_bytes >= GRAIN_BYTES && self.load.is_tight()
    }

    /// Serves the request again that there was no room for.
    fn poll_held_back(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(held_back) = &mut self.held_back else { return false };
        let Poll::Ready(mut place) = held_back.wait.as_mut().poll(cx) else { return false };
        let Some(HeldBack { frame, arrived, .. }) = self.held_back.take() else { return false };
        self.was_slowed = true;
        self.waiting_bytes -= frame.body.len();
        if let Some(kind) = kind_of(frame.opcode) {
            self.serve_now(&frame, kind, arrived, &mut place, true);
        }
        true
    }

    fn serve_frames(&mut self) -> bool {
        if !self.may_hold_frames && !self.has_new_promises {
            return false;
        }
        let arrived = world::now();
        if self.outgoing.capacity_bytes() == 0
            && let Some(room) = ROOM.take()
        {
            self.outgoing.use_room(room);
        }
        // Changes need a place while they are served. Who is done with it leaves it to the next, until the turn ends.
        let mut place = None;
        let mut served_count = 0;
        while served_count < REQUESTS_PER_WRITE_MAX && self.may_serve() {
            match self.decoder.decode(&mut self.inbound) {
                Ok(None) => {
                    self.may_hold_frames = false;
                    self.give_up_large();
                    break;
                }
                Ok(Some(frame)) => self.serve_frame(&frame, arrived, &mut place),
                Err(error) => {
                    let version = self.decoder.version();
                    ResponseHead::frame_error(version, &error, self.outgoing.messages());
                    let code = ErrorResponse::of_protocol_error(&error.error).kind.code();
                    let is_probe = self.session.stage == Stage::Fresh
                        && matches!(
                            error.error,
                            ProtocolError::UnsupportedVersion { .. }
                                | ProtocolError::BetaFlagUnset { .. }
                        );
                    match is_probe {
                        // Drivers begin with the newest version that they know, and take the answer.
                        true => self.shard.add_version_probe(),
                        false => self.shard.add_error(code),
                    }
                    if error.fatal {
                        self.reading = Reading::Refused;
                    }
                }
            }
            served_count += 1;
        }
        if self.has_new_promises {
            self.has_new_promises = false;
            self.session.end_turn();
        }
        served_count > 0
    }

    fn serve_frame(
        &mut self,
        frame: &Frame,
        arrived: Instant,
        place: &mut Option<OwnedSemaphorePermit>,
    ) {
        let Some(kind) = kind_of(frame.opcode) else { return };
        let is_late = kind.is_statement() && self.turn_requests == 0;
        // Only for clients that asked for it: the others wait.
        if is_late || self.waiting_count() >= self.limits.in_flight_max {
            let overload = if is_late { Overload::Time } else { Overload::Memory };
            let of = (frame.version, frame.stream);
            let effect = self.session.refuse(of, overload, self.outgoing.messages());
            self.settle(kind, arrived, effect);
            return;
        }
        self.turn_requests -= usize::from(kind.is_statement());
        self.serve_now(frame, kind, arrived, place, false);
    }

    fn serve_now(
        &mut self,
        frame: &Frame,
        kind: RequestKind,
        arrived: Instant,
        place: &mut Option<OwnedSemaphorePermit>,
        is_again: bool,
    ) {
        let before_bytes = self.outgoing.messages().len();
        let session = &mut self.session;
        let messages = self.outgoing.messages();
        let turn = Turn {
            arrived,
            answer_to: self.promises.next(),
            throws: session.throw_on_overload,
            is_again,
            was_slowed: self.was_slowed,
            place,
        };
        // A bug that shows with one request must not take the others of this client with it.
        let step = catch_unwind(AssertUnwindSafe(|| session.serve(frame, turn, messages)));
        match step {
            Ok(Step::Answered(effect)) => self.settle(kind, arrived, effect),
            Ok(Step::Waits(wait)) => {
                let tag = self.tag(frame, kind, arrived);
                self.pending.add(tag, wait);
            }
            Ok(Step::Promised(promised)) => {
                let tag = self.tag(frame, kind, arrived);
                self.promises.add(tag, promised);
                self.has_new_promises = true;
            }
            Ok(Step::HeldBack(wait)) => {
                self.waiting_bytes += frame.body.len();
                self.held_back = Some(HeldBack { frame: frame.clone(), arrived, wait });
            }
            Err(_) => {
                tracing::error!(opcode = ?frame.opcode, "a request failed by a bug of the server");
                self.outgoing.messages().truncate(before_bytes);
                let head = ResponseHead::new(frame.version, frame.stream);
                let error =
                    ErrorResponse::new(ErrorKind::Server, "An error of the server, see its log");
                let effect = Effect::error(&head, &error, self.outgoing.messages());
                self.settle(kind, arrived, effect);
            }
        }
    }

    /// A request waits from now on.
    fn tag(&mut self, frame: &Frame, kind: RequestKind, started: Instant) -> Tag {
        let bytes = frame.body.len();
        self.waiting_bytes += bytes;
        Tag { kind, started, bytes }
    }

    /// Counts a request that waited, as [`Connection::settle`].
    fn settle_tagged(&mut self, tag: &Tag, effect: Effect) {
        self.waiting_bytes -= tag.bytes;
        self.settle(tag.kind, tag.started, effect);
    }

    /// Counts an answered request and does what it changes.
    fn settle(&mut self, kind: RequestKind, started: Instant, effect: Effect) {
        let measure = || world::now().saturating_duration_since(started);
        self.shard.add_request(kind, effect.latency.unwrap_or_else(measure));
        if let Some(code) = effect.error_code {
            self.shard.add_error(code);
        }
        self.session.apply(&effect.change);
        if matches!(effect.change, SessionChange::Start { .. } | SessionChange::LoggedIn(_))
            && self.session.stage == Stage::Ready
        {
            self.decoder.set_message_bytes_max(self.limits.message_bytes_max);
        }
        match effect.change {
            SessionChange::Start { version, compression, .. } => {
                self.decoder.start(version, compression);
                self.outgoing.start(version, compression);
                self.agreed = Some(version);
            }
            SessionChange::Register(kinds) => self.register(kinds),
            SessionChange::Nothing | SessionChange::LoggedIn(_) | SessionChange::Keyspace(_) => {}
        }
    }

    fn register(&mut self, kinds: EventKinds) {
        self.registered = EventKinds {
            topology_change: self.registered.topology_change || kinds.topology_change,
            status_change: self.registered.status_change || kinds.status_change,
            schema_change: self.registered.schema_change || kinds.schema_change,
            trace_complete: self.registered.trace_complete || kinds.trace_complete,
        };
        let former = self.events.replace(self.hub.subscribe(self.registered));
        if let (Some(mut former), Some(version)) = (former, self.agreed) {
            while let Ok(event) = former.try_recv() {
                ResponseHead::event(version, &event, self.outgoing.messages());
            }
        }
    }

    /// Answers requests whose changes are durable, or took too long.
    fn poll_promises(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while self.promises.count() > 0 && self.has_room() {
            let (tag, promised, outcome) = if self.promises.poll_arrived(cx).is_ready() {
                let Some((tag, promised, result)) = self.promises.next_arrived() else { continue };
                (tag, promised, Some(result))
            } else {
                match self.promises.poll_late(cx, world::now) {
                    Poll::Ready((tag, promised)) => (tag, promised, None),
                    Poll::Pending => break,
                }
            };
            has_moved = true;
            let before_bytes = self.outgoing.messages().len();
            let messages = self.outgoing.messages();
            // The same guard as around the first step.
            match catch_unwind(AssertUnwindSafe(|| promised.answer(outcome, messages))) {
                Ok(effect) => self.settle_tagged(&tag, effect),
                Err(_) => {
                    tracing::error!("a waiting request failed by a bug of the server");
                    self.outgoing.messages().truncate(before_bytes);
                    self.reading = Reading::Refused;
                    break;
                }
            }
        }
        has_moved
    }

    /// Takes the answers of requests that waited.
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        // Also where there is no room: what waits holds places that others wait for.
        while self.pending.count() > 0 {
            // The same guard as around the first step.
            let polled = catch_unwind(AssertUnwindSafe(|| self.pending.poll_next(cx)));
            match polled {
                Ok(Poll::Pending) => break,
                Ok(Poll::Ready((tag, finished))) => {
                    let is_large = finished.message.len() >= GRAIN_BYTES;
                    if is_large {
                        self.outgoing.append_large(finished.message);
                    } else {
                        self.outgoing.messages().extend_from_slice(&finished.message);
                    }
                    self.settle_tagged(&tag, finished.effect);
                    if is_large {
                        // Before it is not counted as an answer that comes any more.
                        self.account();
                    }
                    has_moved = true;
                }
                Err(_) => {
                    tracing::error!("a waiting request failed by a bug of the server");
                    self.reading = Reading::Refused;
                    break;
                }
            }
        }
        has_moved
    }

    fn poll_events(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(version) = self.agreed else { return false };
        let mut has_moved = false;
        // What was told before the node began to stop is still sent.
        while matches!(self.reading, Reading::Open | Reading::Stopping) && self.has_room() {
            let Some(events) = &mut self.events else { break };
            match events.poll_recv(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(event)) => {
                    ResponseHead::event(version, &event, self.outgoing.messages());
                    self.shard.add_event();
                }
                // It fell behind. A new connection learns everything anew.
                Poll::Ready(None) => {
                    self.events = None;
                    self.reading = Reading::Refused;
                }
            }
            has_moved = true;
        }
        has_moved
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> std::io::Result<bool> {
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        let mut has_moved = false;
        let sealed = self.outgoing.seal();
        while !sealed.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, sealed)? {
                Poll::Pending => return Ok(has_moved),
                Poll::Ready(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => {
                    sealed.advance(count);
                    self.shard.add_bytes_out(count);
                    has_moved = true;
                }
            }
        }
        // TLS may hold the last record back.
        let _ = Pin::new(&mut self.stream).poll_flush(cx)?;
        Ok(has_moved)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> std::io::Result<bool> {
        if self.reading != Reading::Open || !self.may_serve() {
            return Ok(false);
        }
        ARRIVAL.with_borrow_mut(|arrival| {
            let mut arrived = ReadBuf::new(arrival);
            match Pin::new(&mut self.stream).poll_read(cx, &mut arrived)? {
                Poll::Pending => return Ok(false),
                Poll::Ready(()) if arrived.filled().is_empty() => self.reading = Reading::Ended,
                Poll::Ready(()) => {
                    self.shard.add_bytes_in(arrived.filled().len());
                    self.inbound.extend_from_slice(arrived.filled());
                    self.may_hold_frames = true;
                    self.was_slowed = false;
                }
            }
            Ok(true)
        })
    }

    /// Tells the node what this connection holds.
    fn account(&mut self) {
        // Of answers what is taken up, not what is used of it: their buffers grow by doubling. A request that
        // arrives is judged by what has come of it.
        let bytes = self.inbound.len()
            + self.decoder.assembled_bytes()
            + self.waiting_bytes
            + self.outgoing.capacity_bytes();
        if bytes >= GRAIN_BYTES || !self.holding.is_none() {
            self.holding.set(bytes);
        }
    }

    /// Gives up a large request that is still arriving when the node holds too much already. Its
    /// client is told when to come back.
    fn give_up_large(&mut self) {
        self.account();
        if self.inbound.len() + self.decoder.assembled_bytes() < GRAIN_BYTES
            || !self.load.gives_up_unfinished()
        {
            return;
        }
        if let Some(of) = self.decoder.give_up(&mut self.inbound) {
            let effect = self.session.refuse(of, Overload::Memory, self.outgoing.messages());
            self.shard.add_error(effect.error_code.unwrap_or_default());
            self.account();
        }
    }

    /// Looks after a client that neither takes its answers nor ends its request. `true`: it had its
    /// time.
    fn poll_stall(&mut self, cx: &mut Context<'_>) -> bool {
        self.account();
        let is_at_work = self.may_hold_frames || self.waiting_count() > 0 || !self.may_serve();
        let waits_for_us = self.outgoing.is_empty() && is_at_work;
        if self.holding.is_none() || waits_for_us {
            self.stall = None;
            return false;
        }
        let stall = self.stall.get_or_insert_with(|| Stall {
            since: world::now(),
            alarm: Box::pin(tokio::time::sleep(STALL_MAX_TIGHT)),
        });
        while stall.alarm.as_mut().poll(cx).is_ready() {
            let stalled_for = world::now().saturating_duration_since(stall.since);
            if stalled_for >= STALL_MAX || self.load.is_tight() {
                tracing::info!(client = %self.session.client.address, "a client that kept us waiting is left");
                return true;
            }
            stall.alarm = Box::pin(tokio::time::sleep(STALL_MAX_TIGHT));
        }
        false
    }

    /// A connection that waits holds next to nothing: ten thousand of them are cheap.
    fn release_memory(&mut self) {
        if self.inbound.is_empty() && self.inbound.capacity() > KEPT_BYTES_MAX {
            self.inbound = BytesMut::new();
        }
        if self.outgoing.is_empty() && self.outgoing.capacity_bytes() > 2 * KEPT_BYTES_MAX {
            let room = self.outgoing.take_room();
            if room.capacity_bytes() <= ROOM_BYTES_MAX {
                ROOM.set(Some(room));
            }
        }
        self.pending.shrink_if_empty();
        self.promises.shrink_if_empty();
    }
}
