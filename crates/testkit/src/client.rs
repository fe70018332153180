//! A client that sends one request at a time and waits for its answer.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use protocol::{
    Batch, BatchBuilder, BatchKind, Consistency, Event, EventKinds, Frame, FrameDecoder,
    MapBuilder, Outgoing, PreparedResponse, QueryParameters, Request, RequestMessage, Response,
    ResponseMessage, StatementSource, Value, ValuesBuilder, Version,
};

const RESPONSE_BYTES_MAX: usize = 256 << 20;
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A connection to a server, after STARTUP.
pub struct Client {
    stream: TcpStream,
    version: Version,
    decoder: FrameDecoder,
    outgoing: Outgoing,
    incoming: BytesMut,
    /// What came unasked while an answer was waited for.
    events: VecDeque<Event>,
}

/// The connection broke, or its bytes did.
#[derive(Debug)]
pub struct ClientError(pub(crate) String);

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError(error.to_string())
    }
}

impl From<protocol::ProtocolError> for ClientError {
    fn from(error: protocol::ProtocolError) -> ClientError {
        ClientError(error.to_string())
    }
}

/// How a statement is executed.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    /// The values of its markers.
    pub values: Vec<OwnedValue>,
    /// Rows per page.
    pub page_size: Option<i32>,
    /// Where the page begins.
    pub paging_state: Option<Vec<u8>>,
    /// The columns of the result are known, and wanted only where they changed.
    pub skip_metadata: bool,
    /// Its level; ONE without.
    pub consistency: Option<Consistency>,
    /// The level of its condition.
    pub serial_consistency: Option<Consistency>,
}

impl Execution {
    /// At a level, and nothing else said.
    pub fn at(consistency: Consistency) -> Execution {
        Execution { consistency: Some(consistency), ..Execution::default() }
    }
}

/// A value of a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedValue {
    Null,
    /// Not set.
    Unset,
    Bytes(Vec<u8>),
}

impl OwnedValue {
    fn as_value(&self) -> Value<'_> {
        match self {
            OwnedValue::Null => Value::Null,
            OwnedValue::Unset => Value::Unset,
            OwnedValue::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// As a golden script writes it.
impl fmt::Display for OwnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnedValue::Null => f.write_str("null"),
            OwnedValue::Unset => f.write_str("unset"),
            OwnedValue::Bytes(bytes) => write!(f, "0x{}", types::value::format::to_hex(bytes)),
        }
    }
}

impl Client {
    /// Connects with protocol version 5.
    pub fn connect(address: &str) -> Result<Client, ClientError> {
        Client::connect_with(address, Version::V5)
    }

    fn unstarted(address: &str, version: Version) -> Result<Client, ClientError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(Client {
            stream,
            version,
            decoder: FrameDecoder::for_responses(RESPONSE_BYTES_MAX),
            outgoing: Outgoing::new(),
            incoming: BytesMut::new(),
            events: VecDeque::new(),
        })
    }

    /// Connects with a version of the protocol.
    pub fn connect_with(address: &str, version: Version) -> Result<Client, ClientError> {
        Client::connect_choosing(address, version, &[])
    }

    /// The same with more options of STARTUP.
    pub fn connect_choosing(
        address: &str,
        version: Version,
        more: &[(&str, &str)],
    ) -> Result<Client, ClientError> {
        let mut client = Client::unstarted(address, version)?;
        let mut options = MapBuilder::new();
        options.string("CQL_VERSION", "3.0.0");
        for (name, value) in more {
            options.string(name, value);
        }
        match client.send(Request::Startup(options.string_map()))?.response {
            Response::Ready => {}
            other => return Err(ClientError(format!("no READY but {other:?}"))),
        }
        client.decoder.start(version, None);
        client.outgoing.start(version, None);
        Ok(client)
    }

    /// Connects and logs in.
    pub fn connect_as(address: &str, name: &str, password: &str) -> Result<Client, ClientError> {
        Client::connect_as_with(address, Version::V4, name, password)
    }

    /// The same with a version of the protocol.
    pub fn connect_as_with(
        address: &str,
        version: Version,
        name: &str,
        password: &str,
    ) -> Result<Client, ClientError> {
        let mut client = Client::unstarted(address, version)?;
        let mut options = MapBuilder::new();
        options.string("CQL_VERSION", "3.0.0");
        let answer = client.send(Request::Startup(options.string_map()))?.response;
        if !matches!(answer, Response::Authenticate(_)) {
            return Err(ClientError(format!("no AUTHENTICATE but {answer:?}")));
        }
        client.decoder.start(version, None);
        client.outgoing.start(version, None);
        let token = format!("\0{name}\0{password}");
        match client.send(Request::AuthResponse(Some(token.as_bytes())))?.response {
            Response::AuthSuccess(_) => Ok(client),
            other => Err(ClientError(format!("no AUTH_SUCCESS but {other:?}"))),
        }
    }

    /// Sends a request and waits for its answer.
    pub fn send(&mut self, request: Request<'_>) -> Result<ResponseMessage, ClientError> {
        self.send_message(&RequestMessage::new(request))
    }

    /// Sends a request that wants to be told its charge, and waits for its answer.
    pub fn send_asking(&mut self, request: Request<'_>) -> Result<ResponseMessage, ClientError> {
        self.send_with(request, &[("RequestCharge", None)])
    }

    /// Sends a request with a custom payload, and waits for its answer.
    pub fn send_with(
        &mut self,
        request: Request<'_>,
        pairs: &[(&str, Option<&[u8]>)],
    ) -> Result<ResponseMessage, ClientError> {
        let mut payload = MapBuilder::new();
        for (key, value) in pairs {
            payload.bytes(key, *value);
        }
        let custom_payload = Some(payload.bytes_map());
        self.send_message(&RequestMessage { custom_payload, ..RequestMessage::new(request) })
    }

    fn send_message(
        &mut self,
        message: &RequestMessage<'_>,
    ) -> Result<ResponseMessage, ClientError> {
        message.encode(self.version, 1, self.outgoing.messages());
        let bytes = self.outgoing.seal();
        self.stream.write_all(bytes)?;
        bytes.clear();
        self.receive()
    }

    /// Sends somebody else's request as it is and waits for its answer, which is not looked into.
    pub fn forward(&mut self, request: &Frame) -> Result<Frame, ClientError> {
        request.encode(self.outgoing.messages());
        let bytes = self.outgoing.seal();
        self.stream.write_all(bytes)?;
        bytes.clear();
        self.receive_frame()
    }

    fn receive(&mut self) -> Result<ResponseMessage, ClientError> {
        loop {
            let message = ResponseMessage::decode(&self.receive_frame()?)?;
            match message.response {
                Response::Event(event) => self.events.push_back(event),
                _ => return Ok(message),
            }
        }
    }

    /// So long it waits for an answer from now on.
    pub fn set_patience(&mut self, patience: Duration) -> Result<(), ClientError> {
        Ok(self.stream.set_read_timeout(Some(patience))?)
    }

    /// Wants to be told of these events.
    pub fn register(&mut self, kinds: EventKinds) -> Result<(), ClientError> {
        match self.send(Request::Register(kinds))?.response {
            Response::Ready => Ok(()),
            other => Err(ClientError(format!("no READY but {other:?}"))),
        }
    }

    /// The next event; an error if none comes while it has the patience to wait.
    pub fn next_event(&mut self) -> Result<Event, ClientError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        match ResponseMessage::decode(&self.receive_frame()?)?.response {
            Response::Event(event) => Ok(event),
            other => Err(ClientError(format!("no event but {other:?}"))),
        }
    }

    fn receive_frame(&mut self) -> Result<Frame, ClientError> {
        loop {
            let frame = self
                .decoder
                .decode(&mut self.incoming)
                .map_err(|error| ClientError(format!("{error:?}")))?;
            if let Some(frame) = frame {
                return Ok(frame);
            }
            let mut chunk = [0; 64 << 10];
            let count = match self.stream.read(&mut chunk) {
                // A signal of this process says nothing of the answer.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                return Err(ClientError("the server closed the connection".into()));
            }
            self.incoming.extend_from_slice(chunk.get(..count).unwrap_or_default());
        }
    }

    /// Sends the text of a statement.
    pub fn query(
        &mut self,
        text: &str,
        execution: &Execution,
    ) -> Result<ResponseMessage, ClientError> {
        let mut builder = ValuesBuilder::positional(self.version);
        let parameters = parameters(self.version, execution, &mut builder);
        self.send(Request::Query { text, parameters })
    }

    /// Sends the text of a statement without waiting for its answer, which [`Client::answer`] gets.
    pub fn post(&mut self, text: &str, execution: &Execution) -> Result<(), ClientError> {
        let mut builder = ValuesBuilder::positional(self.version);
        let parameters = parameters(self.version, execution, &mut builder);
        let message = RequestMessage::new(Request::Query { text, parameters });
        message.encode(self.version, 1, self.outgoing.messages());
        let bytes = self.outgoing.seal();
        self.stream.write_all(bytes)?;
        bytes.clear();
        Ok(())
    }

    /// The answer to what was posted.
    pub fn answer(&mut self) -> Result<ResponseMessage, ClientError> {
        self.receive()
    }

    /// Prepares a statement.
    pub fn prepare(
        &mut self,
        text: &str,
    ) -> Result<Result<PreparedResponse, ResponseMessage>, ClientError> {
        let message = self.send(Request::Prepare { text, keyspace: None })?;
        Ok(match message.response {
            Response::Prepared(prepared) => Ok(prepared),
            _ => Err(message),
        })
    }

    /// Sends several statements as one, each by its text or by what it was prepared as.
    pub fn batch(
        &mut self,
        kind: BatchKind,
        statements: &[(String, Option<PreparedResponse>, Vec<OwnedValue>)],
    ) -> Result<ResponseMessage, ClientError> {
        self.batch_at(kind, statements, &Execution::default())
    }

    /// As [`Client::batch`], at the levels of an execution.
    pub fn batch_at(
        &mut self,
        kind: BatchKind,
        statements: &[(String, Option<PreparedResponse>, Vec<OwnedValue>)],
        execution: &Execution,
    ) -> Result<ResponseMessage, ClientError> {
        let mut batch = BatchBuilder::new(self.version);
        for (text, prepared, values) in statements {
            let mut builder = ValuesBuilder::positional(self.version);
            for value in values {
                builder.push("", value.as_value());
            }
            let source = match prepared {
                Some(prepared) => StatementSource::Prepared(&prepared.id),
                None => StatementSource::Text(text),
            };
            batch.push(source, builder.values());
        }
        let consistency = execution.consistency.unwrap_or(Consistency::One);
        let mut parameters = QueryParameters::new(self.version, consistency);
        parameters.serial_consistency = execution.serial_consistency;
        self.send(Request::Batch(Batch { kind, statements: batch.statements(), parameters }))
    }

    /// Executes a prepared statement.
    pub fn execute(
        &mut self,
        prepared: &PreparedResponse,
        execution: &Execution,
    ) -> Result<ResponseMessage, ClientError> {
        let mut builder = ValuesBuilder::positional(self.version);
        let parameters = parameters(self.version, execution, &mut builder);
        self.send(Request::Execute {
            id: &prepared.id,
            result_metadata_id: prepared.result_metadata_id.as_deref(),
            parameters,
        })
    }
}

impl Client {
    /// Executes a prepared statement many times, all requests in flight at once. Every answer must
    /// be a result.
    pub fn execute_many(
        &mut self,
        prepared: &PreparedResponse,
        executions: &[Execution],
    ) -> Result<(), ClientError> {
        for (stream, execution) in (0i16..).zip(executions) {
            let mut builder = ValuesBuilder::positional(self.version);
            let mut parameters = parameters(self.version, execution, &mut builder);
            parameters.skip_metadata = true;
            let request = Request::Execute {
                id: &prepared.id,
                result_metadata_id: prepared.result_metadata_id.as_deref(),
                parameters,
            };
            RequestMessage::new(request).encode(self.version, stream, self.outgoing.messages());
        }
        let bytes = self.outgoing.seal();
        self.stream.write_all(bytes)?;
        bytes.clear();
        for _ in executions {
            let message = self.receive()?;
            if let Response::Error(error) = message.response {
                return Err(ClientError(error.message));
            }
        }
        Ok(())
    }
}

fn parameters<'a>(
    version: Version,
    execution: &'a Execution,
    builder: &'a mut ValuesBuilder,
) -> QueryParameters<'a> {
    for value in &execution.values {
        builder.push("", value.as_value());
    }
    let consistency = execution.consistency.unwrap_or(Consistency::One);
    let mut parameters = QueryParameters::new(version, consistency);
    parameters.serial_consistency = execution.serial_consistency;
    parameters.values = builder.values();
    parameters.page_size = execution.page_size;
    parameters.skip_metadata = execution.skip_metadata;
    parameters.paging_state = execution.paging_state.as_deref();
    parameters
}
