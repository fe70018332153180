//! A client against the loop, over real sockets, with statements that do what their text says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use protocol::{
    Compression, Consistency, ErrorKind, ErrorResponse, Event, EventKinds, Frame, FrameDecoder,
    MapBuilder, NodeStatus, Outgoing, QueryParameters, Request, RequestMessage, Response,
    ResponseHead, ResponseMessage, Version,
};
use replica::{AllDone, CommitResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::{Connection, ConnectionLimits, Promised, Wait};
use crate::clients::Clients;
use crate::events::EventHub;
use crate::load::{Holding, Load, Overload};
use crate::metrics::Metrics;
use crate::session::{Client, Effect, Finished, LoggedIn, Session, Statements, Step, Turn};

/// `now`: answered at once. `later N`: after N milliseconds. `never`. `panic`. `large N`: N bytes. `full`: held
/// back until there is room, then answered. `gate N`: when the gate N is opened. `promised N`: when the gate N - 1 is,
/// through the mailbox; `promised 0`: soon. `late N`: an outcome that does not come in N milliseconds.
#[derive(Default)]
struct Scripted {
    served_count: AtomicUsize,
    requires_login: bool,
    room: Arc<Notify>,
    gates: Arc<[Notify; 3]>,
}

impl Statements for Scripted {
    fn serve(
        &self,
        _client: &Client,
        frame: &Frame,
        message: &RequestMessage<'_>,
        turn: Turn<'_>,
        out: &mut BytesMut,
    ) -> Step {
        let answer_to = turn.answer_to;
        self.served_count.fetch_add(1, Ordering::Relaxed);
        let Request::Query { text, .. } = message.request else { panic!("only QUERY") };
        let (version, stream) = (frame.version, frame.stream);
        let answer = move |out: &mut BytesMut, text: &str| {
            ResponseHead::new(version, stream).set_keyspace(text, out);
        };
        let (word, number) = text.split_once(' ').unwrap_or((text, "0"));
        let number: u64 = number.parse().unwrap();
        match word {
            "now" => answer(out, "now"),
            "large" => answer(out, &"x".repeat(number as usize)),
            "panic" => panic!("as told"),
            "full" if turn.is_again => answer(out, "full"),
            "full" => {
                let room = Arc::clone(&self.room);
                return Step::HeldBack(Box::pin(async move {
                    room.notified().await;
                    None
                }));
            }
            // Its outcome is put by a thread that never heard of the connection.
            "promised" => {
                let (mailbox, place) = (Arc::clone(answer_to.mailbox), answer_to.number);
                let (gates, runtime) = (Arc::clone(&self.gates), Handle::current());
                tokio::task::spawn_blocking(move || {
                    match number.checked_sub(1) {
                        Some(gate) => runtime.block_on(gates[gate as usize].notified()),
                        None => std::thread::yield_now(),
                    }
                    mailbox.put(place, Ok(AllDone::new())).into_iter().for_each(Waker::wake);
                });
                let deadline = crate::world::now() + LONG;
                return Step::Promised(Box::new(Told { version, stream, deadline }));
            }
            "late" => {
                let deadline = crate::world::now() + Duration::from_millis(number);
                return Step::Promised(Box::new(Told { version, stream, deadline }));
            }
            "gate" => {
                let gates = Arc::clone(&self.gates);
                return Step::Waits(Box::pin(async move {
                    gates[number as usize].notified().await;
                    let mut message = BytesMut::new();
                    answer(&mut message, "gate");
                    Finished::new(message, Effect::none())
                }));
            }
            "never" => return Step::Waits(Box::pin(std::future::pending())),
            _ => {
                return Step::Waits(Box::pin(async move {
                    tokio::time::sleep(Duration::from_millis(number)).await;
                    let mut message = BytesMut::new();
                    answer(&mut message, "later");
                    Finished::new(message, Effect::none())
                }));
            }
        }
        Step::Answered(Effect::none())
    }

    fn refuse(&self, (version, stream): (Version, i16), _: Overload, out: &mut BytesMut) -> Effect {
        let error = ErrorResponse::new(ErrorKind::Overloaded, "refused");
        Effect::error(&ResponseHead::new(version, stream), &error, out)
    }

    fn end_turn(&self) {}

    fn tells_routes(&self) -> bool {
        false
    }

    fn requires_login(&self) -> bool {
        self.requires_login
    }

    fn log_in(
        &self,
        _: std::net::SocketAddr,
        name: &str,
        password: &str,
    ) -> Wait<Result<LoggedIn, ErrorResponse>> {
        let outcome = if password == "right" {
            Ok(LoggedIn { role: Arc::from(name), seat: None })
        } else {
            Err(ErrorResponse::new(ErrorKind::BadCredentials, "wrong"))
        };
        Box::pin(async { outcome })
    }
}

const LONG: Duration = Duration::from_secs(3600);

/// A change that was promised an outcome.
struct Told {
    version: Version,
    stream: i16,
    deadline: Instant,
}

impl Promised for Told {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn answer(self: Box<Self>, outcome: Option<CommitResult>, out: &mut BytesMut) -> Effect {
        let text = if outcome.is_some() { "promised" } else { "late" };
        ResponseHead::new(self.version, self.stream).set_keyspace(text, out);
        Effect::none()
    }
}

struct TestClient {
    stream: TcpStream,
    version: Version,
    decoder: FrameDecoder,
    outgoing: Outgoing,
    inbound: BytesMut,
    hub: Arc<EventHub>,
    statements: Arc<Scripted>,
    stop: watch::Sender<bool>,
    load: Arc<Load>,
}

const LIMITS: ConnectionLimits = ConnectionLimits {
    message_bytes_max: 1 << 20,
    in_flight_max: 64,
    startup_timeout: Duration::from_secs(3),
};

impl TestClient {
    async fn connect(version: Version, statements: Scripted) -> TestClient {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, address) = listener.accept().await.unwrap();
        let hub = Arc::new(EventHub::default());
        let statements = Arc::new(statements);
        let (stop, stopping) = watch::channel(false);
        let (server_hub, server_statements) = (Arc::clone(&hub), Arc::clone(&statements));
        let load = Arc::new(Load::new(1 << 20, Duration::from_secs(1)));
        let server_load = Arc::clone(&load);
        tokio::spawn(async move {
            let metrics = Metrics::default();
            let registration = Arc::new(Clients::default()).register(address, None);
            let session = Session::new(address, registration, server_statements);
            let shard = metrics.shard();
            let connection = Connection::new(
                socket,
                session,
                &LIMITS,
                shard,
                &server_hub,
                &server_load,
                stopping,
            );
            connection.run().await;
        });
        TestClient {
            stream,
            version,
            decoder: FrameDecoder::for_responses(1 << 24),
            outgoing: Outgoing::new(),
            inbound: BytesMut::new(),
            hub,
            statements,
            stop,
            load,
        }
    }

    async fn start_with(&mut self, more: &[(&str, &str)]) -> Response {
        let mut options = MapBuilder::new();
        options.string("CQL_VERSION", "3.0.0");
        for (name, value) in more {
            options.string(name, value);
        }
        self.send(1, Request::Startup(options.string_map())).await;
        let (_, response) = self.receive().await;
        self.decoder.start(self.version, None);
        self.outgoing.start(self.version, None);
        response
    }

    async fn start(&mut self, compression: Option<Compression>) -> Response {
        let mut options = MapBuilder::new();
        options.string("CQL_VERSION", "3.0.0");
        if let Some(compression) = compression {
            options.string("COMPRESSION", compression.name());
        }
        self.send(1, Request::Startup(options.string_map())).await;
        let (_, response) = self.receive().await;
        if matches!(response, Response::Ready | Response::Authenticate(_)) {
            self.decoder.start(self.version, compression);
            self.outgoing.start(self.version, compression);
        }
        response
    }

    fn queue(&mut self, stream: i16, request: Request<'_>) {
        RequestMessage::new(request).encode(self.version, stream, self.outgoing.messages());
    }

    fn queue_query(&mut self, stream: i16, text: &str) {
        let parameters = QueryParameters::new(self.version, Consistency::One);
        self.queue(stream, Request::Query { text, parameters });
    }

    async fn flush(&mut self) {
        let sealed = self.outgoing.seal();
        self.stream.write_all(sealed).await.unwrap();
        sealed.clear();
    }

    async fn send(&mut self, stream: i16, request: Request<'_>) {
        self.queue(stream, request);
        self.flush().await;
    }

    async fn receive(&mut self) -> (i16, Response) {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.inbound).unwrap() {
                return (frame.stream, ResponseMessage::decode(&frame).unwrap().response);
            }
            let read = self.stream.read_buf(&mut self.inbound);
            let read = tokio::time::timeout(Duration::from_secs(60), read).await;
            assert!(read.unwrap().unwrap() > 0, "the server closed");
        }
    }

    /// Waits until so many requests reached the statements.
    async fn served(&self, count: usize) {
        let reached = async {
            while self.statements.served_count.load(Ordering::Relaxed) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached).await.unwrap();
    }

    /// Waits until nothing goes on any more: all of a test runs on one thread, so everybody who could had many turns.
    /// Returns how many requests reached the statements.
    async fn settled(&self) -> usize {
        loop {
            let before = self.statements.served_count.load(Ordering::Relaxed);
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            if self.statements.served_count.load(Ordering::Relaxed) == before {
                return before;
            }
        }
    }

    async fn is_closed(&mut self) -> bool {
        let mut rest = [0; 1024];
        loop {
            match tokio::time::timeout(Duration::from_secs(60), self.stream.read(&mut rest)).await {
                Ok(Ok(0) | Err(_)) => return true,
                Ok(Ok(_)) => {}
                Err(_) => return false,
            }
        }
    }
}

fn error_text(response: Response) -> String {
    match response {
        Response::Error(error) => error.message,
        other => panic!("expected an error, got {other:?}"),
    }
}

#[tokio::test]
async fn many_requests_in_every_version_and_compression() {
    for version in [Version::V3, Version::V4, Version::V5] {
        for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
            if version == Version::V5 && compression == Some(Compression::Snappy) {
                continue;
            }
            let mut client = TestClient::connect(version, Scripted::default()).await;
            assert_eq!(client.start(compression).await, Response::Ready);
            for stream in 0..1000 {
                let text = match stream % 7 {
                    0 => "later 2",
                    3 => "promised 0",
                    _ => "now",
                };
                client.queue_query(stream, text);
            }
            client.flush().await;
            let mut seen = vec![false; 1000];
            for _ in 0..1000 {
                let (stream, response) = client.receive().await;
                let expected = match stream % 7 {
                    0 => "later",
                    3 => "promised",
                    _ => "now",
                };
                assert_eq!(response, Response::SetKeyspace(expected.to_owned()));
                assert!(!std::mem::replace(&mut seen[stream as usize], true));
            }
        }
    }
}

#[tokio::test]
async fn answers_come_as_they_are_ready() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    let texts = ["never", "gate 0", "gate 1", "now", "promised 3"];
    for (stream, text) in (1..).zip(texts) {
        client.queue_query(stream, text);
    }
    client.flush().await;
    assert_eq!(client.receive().await.0, 4);
    for (gate, expected) in [(1, 3), (2, 5), (0, 2)] {
        client.statements.gates[gate].notify_one();
        assert_eq!(client.receive().await.0, expected);
    }
    client.queue_query(6, "late 1");
    client.flush().await;
    assert_eq!(client.receive().await, (6, Response::SetKeyspace("late".to_owned())));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_held_back() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    for stream in 0..2000 {
        client.queue_query(stream, "large 60000");
    }
    // The whole takes 120 MB of answers; the sockets take some, then serving must stop.
    client.flush().await;
    client.served(1).await;
    let served_count = client.settled().await;
    assert!(served_count < 1000, "{served_count} were served for a client that reads nothing");
    for _ in 0..2000 {
        client.receive().await;
    }
}

#[tokio::test]
async fn too_many_waiting_requests_hold_the_client_back() {
    let mut client = TestClient::connect(Version::V5, Scripted::default()).await;
    client.start(None).await;
    for stream in 0..200 {
        client.queue_query(stream, "never");
    }
    client.flush().await;
    client.served(LIMITS.in_flight_max).await;
    assert_eq!(client.settled().await, LIMITS.in_flight_max);
}

#[tokio::test]
async fn a_bug_costs_one_request() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    client.queue_query(5, "panic");
    client.queue_query(6, "now");
    client.flush().await;
    let (stream, response) = client.receive().await;
    assert_eq!((stream, error_text(response).contains("server")), (5, true));
    assert_eq!(client.receive().await, (6, Response::SetKeyspace("now".to_owned())));
}

#[tokio::test]
async fn requests_out_of_turn() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.queue_query(1, "now");
    client.flush().await;
    let text = error_text(client.receive().await.1);
    assert_eq!(text, "Unexpected message QUERY, expecting STARTUP or OPTIONS");
    client.send(2, Request::Options).await;
    assert!(matches!(client.receive().await.1, Response::Supported(_)));
    client.start(None).await;
    let text = error_text(client.start(None).await);
    assert_eq!(text, "Unexpected message STARTUP, the connection is already initialized");
}

#[tokio::test]
async fn logging_in() {
    let statements = Scripted { requires_login: true, ..Scripted::default() };
    let mut client = TestClient::connect(Version::V5, statements).await;
    assert!(matches!(client.start(None).await, Response::Authenticate(_)));
    client.queue_query(1, "now");
    client.flush().await;
    let text = error_text(client.receive().await.1);
    assert_eq!(text, "Unexpected message QUERY, expecting SASL_RESPONSE");
    client.send(2, Request::AuthResponse(Some(b"\0me\0wrong"))).await;
    assert_eq!(error_text(client.receive().await.1), "wrong");
    client.send(3, Request::AuthResponse(Some(b"\0me\0right"))).await;
    assert_eq!(client.receive().await.1, Response::AuthSuccess(None));
    client.queue_query(4, "now");
    client.flush().await;
    assert_eq!(client.receive().await.0, 4);
}

#[tokio::test]
async fn events_reach_those_who_registered() {
    let mut client = TestClient::connect(Version::V5, Scripted::default()).await;
    client.start(None).await;
    let kinds = EventKinds { status_change: true, ..EventKinds::default() };
    client.send(1, Request::Register(kinds)).await;
    assert_eq!(client.receive().await.1, Response::Ready);
    let address = "127.0.0.1:9042".parse().unwrap();
    let event = Event::StatusChange { status: NodeStatus::Up, address };
    client.hub.publish(event.clone());
    assert_eq!(client.receive().await, (-1, Response::Event(event)));
}

#[tokio::test]
async fn unknown_versions_are_told_which_to_use() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.stream.write_all(&[0x07, 0, 0, 1, 1, 0, 0, 0, 0]).await.unwrap();
    let text = error_text(client.receive().await.1);
    assert!(text.contains("Invalid or unsupported protocol version (7)"), "{text}");
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn silence_is_not_waited_for() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    // The other one came later, so what it is given up for is over for both.
    let mut silent = TestClient::connect(Version::V4, Scripted::default()).await;
    assert!(silent.is_closed().await);
    client.queue_query(1, "now");
    client.flush().await;
    assert_eq!(client.receive().await.0, 1);
}

#[tokio::test]
async fn a_stopping_node_finishes_what_it_began() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    client.queue_query(1, "gate 0");
    client.flush().await;
    client.served(1).await;
    client.stop.send(true).unwrap();
    client.settled().await;
    client.statements.gates[0].notify_one();
    assert_eq!(client.receive().await.0, 1);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_node_that_is_late_serves_in_short_turns_and_refuses_nobody() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    (0..20).for_each(|_| client.load.on_heartbeat(Duration::from_secs(5)));
    for stream in 0..1000 {
        client.queue_query(stream, "now");
    }
    client.flush().await;
    for stream in 0..1000 {
        let expected = Response::SetKeyspace("now".to_owned());
        assert_eq!(client.receive().await, (stream, expected));
    }
}

#[tokio::test]
async fn a_node_that_is_late_refuses_the_newest_where_its_client_asks_for_that() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start_with(&[("THROW_ON_OVERLOAD", "1")]).await;
    (0..20).for_each(|_| client.load.on_heartbeat(Duration::from_secs(5)));
    for stream in 0..60 {
        client.queue_query(stream, "now");
    }
    client.flush().await;
    let mut refused = Vec::new();
    for _ in 0..60 {
        let (stream, response) = client.receive().await;
        if response != Response::SetKeyspace("now".to_owned()) {
            assert_eq!(error_text(response), "refused");
            refused.push(stream);
        }
    }
    // Who asks for one thing at a time is served all the same.
    assert!(!refused.is_empty() && !refused.contains(&0), "{refused:?}");
    client.queue_query(61, "now");
    client.flush().await;
    assert_eq!(client.receive().await, (61, Response::SetKeyspace("now".to_owned())));
}

#[tokio::test]
async fn what_there_is_no_room_for_holds_back_what_comes_behind_it_and_no_one_else() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    for (stream, text) in (1..).zip(["later 20", "full", "now", "full"]) {
        client.queue_query(stream, text);
    }
    client.flush().await;
    // What was begun is answered meanwhile; nothing behind the second is begun.
    assert_eq!(client.receive().await.0, 1);
    assert_eq!(client.statements.served_count.load(Ordering::Relaxed), 2);
    client.statements.room.notify_one();
    assert_eq!(client.receive().await, (2, Response::SetKeyspace("full".to_owned())));
    assert_eq!(client.receive().await, (3, Response::SetKeyspace("now".to_owned())));
    client.stream.shutdown().await.unwrap();
    client.statements.room.notify_one();
    assert_eq!(client.receive().await, (4, Response::SetKeyspace("full".to_owned())));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_large_request_is_given_up_while_memory_is_short() {
    for version in [Version::V4, Version::V5] {
        let mut client = TestClient::connect(version, Scripted::default()).await;
        client.start(None).await;
        let others = Holding::of(&client.load, 900 << 10);
        let text = format!("now {}0", " ".repeat(700 << 10));
        client.queue_query(1, &text);
        client.queue_query(2, "now");
        client.flush().await;
        assert_eq!(error_text(client.receive().await.1), "refused", "{version:?}");
        assert_eq!(client.receive().await, (2, Response::SetKeyspace("now".to_owned())));
        drop(others);
        client.queue_query(3, &format!("now {}", "0".repeat(700 << 10)));
        client.flush().await;
        assert_eq!(client.receive().await, (3, Response::SetKeyspace("now".to_owned())));
    }
}

#[tokio::test]
async fn a_client_that_keeps_us_waiting_is_left_while_memory_is_short() {
    let mut client = TestClient::connect(Version::V4, Scripted::default()).await;
    client.start(None).await;
    let _others = Holding::of(&client.load, 600 << 10);
    // A request of 800 KB of which a quarter comes.
    let mut part = vec![4, 0, 0, 1, 7];
    part.extend((800u32 << 10).to_be_bytes());
    part.resize(150 << 10, b' ');
    client.stream.write_all(&part).await.unwrap();
    assert!(client.is_closed().await);
}
