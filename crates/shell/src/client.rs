//! A small blocking client of the native protocol: version 5, or 4 where the node knows no more.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use protocol::{
    Consistency, ErrorKind, ErrorResponse, FrameDecoder, MapBuilder, Outgoing, PreparedResponse,
    QueryParameters, Request, RequestMessage, Response, ResponseMessage, Rows, Value,
    ValuesBuilder, Version,
};

use crate::class_name::with_known_classes;
use crate::secure::{Stream, Trust};

const RESPONSE_BYTES_MAX: usize = 256 << 20;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How often whoever waits for an answer looks whether a person still wants it.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// What an encrypted answer to bytes that are none begins with; no version of the protocol does.
const TLS_ALERT: u8 = 21;
/// The name under which an answer tells what its request cost, and a request asks for it.
const CHARGE: &str = "RequestCharge";

/// A node, and how to come in.
#[derive(Clone, Debug)]
pub struct Target {
    /// `HOST:PORT`
    pub address: String,
    /// Role and password.
    pub login: Option<(String, String)>,
    /// With TLS, and whom it trusts; without TLS if none.
    pub trust: Option<Trust>,
    /// How long an answer may take.
    pub patience: Duration,
    /// Set when a person does not want to wait any more (Ctrl-C); none where nobody watches.
    pub cancelled: Option<&'static AtomicBool>,
}

/// Why there is no answer, or none that was hoped for.
#[derive(Clone, Debug)]
pub enum ClientError {
    /// Nobody listens there, or not as we speak.
    Unreachable { address: String, reason: String },
    /// The node wants to know who asks.
    LoginWanted,
    /// The node speaks TLS only.
    TlsWanted,
    /// It did not answer in time.
    TimedOut,
    /// A person does not wait for the answer any more.
    Cancelled,
    /// The connection ended.
    Broken(String),
    /// The node refused.
    Refused(ErrorResponse),
    /// It answered something else than the question.
    Unexpected(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Unreachable { address, reason } => {
                write!(f, "cannot reach a node on {address}: {reason}")
            }
            ClientError::LoginWanted => f.write_str("the node wants a login"),
            ClientError::TlsWanted => f.write_str("the node wants TLS"),
            ClientError::TimedOut => f.write_str("the node did not answer in time"),
            ClientError::Cancelled => {
                f.write_str("Cancelled: the answer is not waited for; a write may still be done")
            }
            ClientError::Broken(reason) => write!(f, "the connection broke: {reason}"),
            ClientError::Refused(error) => f.write_str(&error.message),
            ClientError::Unexpected(answer) => write!(f, "the node answered {answer}"),
        }
    }
}

impl ClientError {
    /// Whether the connection is of no more use.
    pub fn is_end(&self) -> bool {
        !matches!(self, ClientError::Refused(_) | ClientError::Unexpected(_))
    }

    fn of_io(error: &io::Error) -> ClientError {
        match is_timeout(error) {
            true => ClientError::TimedOut,
            false => ClientError::Broken(error.to_string()),
        }
    }
}

/// A statement, and how it is to be run.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub text: &'a str,
    /// The values of its markers.
    pub values: &'a [Vec<u8>],
    pub consistency: Consistency,
    pub serial_consistency: Option<Consistency>,
    /// Rows of a page; all rows without one.
    pub page_size: Option<i32>,
    /// Where to go on.
    pub paging_state: Option<&'a [u8]>,
    /// Whether what happens is recorded.
    pub tracing: bool,
    /// Whether the answer is to tell the charge.
    pub charge: bool,
}

impl<'a> Ask<'a> {
    /// A statement at a level, and nothing else said.
    pub fn new(text: &'a str, consistency: Consistency) -> Ask<'a> {
        Ask {
            text,
            values: &[],
            consistency,
            serial_consistency: None,
            page_size: None,
            paging_state: None,
            tracing: false,
            charge: false,
        }
    }
}

/// What a request was charged, where its answer tells it.
pub fn charge_of(message: &ResponseMessage) -> Option<f64> {
    let (_, value) = message.custom_payload.iter().find(|(name, _)| name == CHARGE)?;
    Some(f64::from_be_bytes(value.as_deref()?.try_into().ok()?))
}

/// A write of one row.
pub struct Bound {
    pub(crate) id: Vec<u8>,
    pub(crate) result_metadata_id: Option<Vec<u8>>,
    pub(crate) line_number: u64,
    pub(crate) values: Vec<Vec<u8>>,
}

/// A value of type text.
pub(crate) fn text_value(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A connection that is ready for statements.
pub struct Client {
    stream: Stream,
    version: Version,
    decoder: FrameDecoder,
    outgoing: Outgoing,
    incoming: BytesMut,
    /// Frames have heads of another form from then on, which may begin with any byte.
    is_started: bool,
    patience: Duration,
    cancelled: Option<&'static AtomicBool>,
}

impl Client {
    /// Connects and logs in.
    pub fn connect(target: &Target) -> Result<Client, ClientError> {
        match Client::connect_with(target, Version::V5) {
            Err(ClientError::Refused(error)) if error.kind == ErrorKind::Protocol => {
                Client::connect_with(target, Version::V4)
            }
            other => other,
        }
    }

    fn connect_with(target: &Target, version: Version) -> Result<Client, ClientError> {
        let address = &target.address;
        let unreachable = |error: &dyn fmt::Display| ClientError::Unreachable {
            address: address.clone(),
            reason: error.to_string(),
        };
        let addresses = address.to_socket_addrs().map_err(|error| unreachable(&error))?;
        let mut connected = Err(unreachable(&"no such address"));
        for address in addresses {
            connected = TcpStream::connect_timeout(&address, CONNECT_WITHIN)
                .map_err(|error| unreachable(&error));
            if connected.is_ok() {
                break;
            }
        }
        let stream = connected?;
        let socket = stream.try_clone().map_err(|error| unreachable(&error))?;
        let prepare =
            stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(target.patience)));
        prepare.map_err(|error| unreachable(&error))?;
        let stream = match &target.trust {
            None => Stream::Plain(stream),
            Some(trust) => {
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                Stream::encrypt(stream, host.trim_matches(['[', ']']), trust)
                    .map_err(|error| unreachable(&error))?
            }
        };
        let mut client = Client {
            stream,
            version,
            decoder: FrameDecoder::for_responses(RESPONSE_BYTES_MAX),
            outgoing: Outgoing::new(),
            incoming: BytesMut::new(),
            is_started: false,
            patience: target.patience,
            cancelled: target.cancelled,
        };
        if client.cancelled.is_some() {
            // From here on reads come back often; a handshake would take that for an error.
            let step = LOOKS_EVERY.min(target.patience);
            socket.set_read_timeout(Some(step)).map_err(|error| unreachable(&error))?;
        }
        client.start(target)?;
        Ok(client)
    }

    fn start(&mut self, target: &Target) -> Result<(), ClientError> {
        let mut options = MapBuilder::new();
        options.string("CQL_VERSION", "3.0.0");
        options.string("DRIVER_NAME", "helenus");
        options.string("DRIVER_VERSION", env!("CARGO_PKG_VERSION"));
        let answer = self.ask(RequestMessage::new(Request::Startup(options.string_map())))?;
        self.decoder.start(self.version, None);
        self.outgoing.start(self.version, None);
        self.is_started = true;
        match answer.response {
            Response::Ready => Ok(()),
            Response::Authenticate(_) => {
                let (role, password) = target.login.as_ref().ok_or(ClientError::LoginWanted)?;
                let token = [b"\0", role.as_bytes(), b"\0", password.as_bytes()].concat();
                let request = Request::AuthResponse(Some(&token));
                match self.ask(RequestMessage::new(request))?.response {
                    Response::AuthSuccess(_) => Ok(()),
                    other => Err(unexpected(other)),
                }
            }
            other => Err(unexpected(other)),
        }
    }

    /// The version that was agreed on.
    pub fn version(&self) -> Version {
        self.version
    }

    fn push(&mut self, stream: i16, message: &RequestMessage<'_>) {
        message.encode(self.version, stream, self.outgoing.messages());
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        let bytes = self.outgoing.seal();
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        bytes.clear();
        sent.map_err(|error| ClientError::of_io(&error))
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }

    fn receive(&mut self) -> Result<(i16, ResponseMessage), ClientError> {
        let mut waited = Duration::ZERO;
        loop {
            if self.is_cancelled() {
                return Err(ClientError::Cancelled);
            }
            let is_plain = matches!(self.stream, Stream::Plain(_));
            if is_plain && !self.is_started && self.incoming.first() == Some(&TLS_ALERT) {
                return Err(ClientError::TlsWanted);
            }
            let frame = self.decoder.decode(&mut self.incoming);
            if let Some(frame) = frame.map_err(|error| ClientError::Broken(format!("{error:?}")))? {
                let stream = frame.stream;
                let message = ResponseMessage::decode(&frame)
                    .map_err(|error| ClientError::Broken(error.to_string()))?;
                // Nothing was registered for; an event is nobody's answer.
                if matches!(message.response, Response::Event(_)) {
                    continue;
                }
                return Ok((stream, message));
            }
            let mut chunk = [0; 64 << 10];
            let count = match self.stream.read(&mut chunk) {
                // A signal of this process says nothing of the answer.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if self.cancelled.is_some() && is_timeout(&error) => {
                    waited += LOOKS_EVERY;
                    if waited >= self.patience {
                        return Err(ClientError::TimedOut);
                    }
                    continue;
                }
                read => read.map_err(|error| ClientError::of_io(&error))?,
            };
            if count == 0 {
                return Err(ClientError::Broken("the node closed it".to_owned()));
            }
            self.incoming.extend_from_slice(chunk.get(..count).unwrap_or_default());
        }
    }

    fn ask(&mut self, message: RequestMessage<'_>) -> Result<ResponseMessage, ClientError> {
        self.push(0, &message);
        self.flush()?;
        let (_, mut message) = self.receive()?;
        match message.response {
            Response::Error(error) => Err(ClientError::Refused(error)),
            Response::Rows(rows) => {
                message.response = Response::Rows(with_known_classes(rows));
                Ok(message)
            }
            _ => Ok(message),
        }
    }

    /// Runs a statement.
    pub fn run(&mut self, ask: &Ask<'_>) -> Result<ResponseMessage, ClientError> {
        let mut builder = ValuesBuilder::positional(self.version);
        for value in ask.values {
            builder.push("", Value::Bytes(value));
        }
        let mut parameters = QueryParameters::new(self.version, ask.consistency);
        parameters.values = builder.values();
        parameters.serial_consistency = ask.serial_consistency;
        parameters.page_size = ask.page_size;
        parameters.paging_state = ask.paging_state;
        let mut payload = MapBuilder::new();
        payload.bytes(CHARGE, Some(&[]));
        self.ask(RequestMessage {
            tracing: ask.tracing,
            custom_payload: ask.charge.then(|| payload.bytes_map()),
            request: Request::Query { text: ask.text, parameters },
        })
    }

    /// The rows of a statement with values.
    pub fn query(&mut self, text: &str, values: &[Vec<u8>]) -> Result<Rows, ClientError> {
        let ask = Ask { values, ..Ask::new(text, Consistency::LocalOne) };
        rows(self.run(&ask)?.response)
    }

    /// One page of a SELECT.
    pub fn page(
        &mut self,
        text: &str,
        consistency: Consistency,
        row_count: i32,
        paging_state: Option<&[u8]>,
    ) -> Result<Rows, ClientError> {
        let ask = Ask { page_size: Some(row_count), paging_state, ..Ask::new(text, consistency) };
        rows(self.run(&ask)?.response)
    }

    pub(crate) fn prepare(&mut self, text: &str) -> Result<PreparedResponse, ClientError> {
        let request = Request::Prepare { text, keyspace: None };
        match self.ask(RequestMessage::new(request))?.response {
            Response::Prepared(prepared) => Ok(prepared),
            other => Err(unexpected(other)),
        }
    }

    /// Sends all, then waits for all. The error is that of the first line that failed, with its number.
    pub fn execute_all(
        &mut self,
        writes: &[Bound],
        consistency: Consistency,
    ) -> Result<(), (u64, ClientError)> {
        let first_line = writes.first().map_or(0, |write| write.line_number);
        for (stream, write) in (0i16..).zip(writes) {
            let mut builder = ValuesBuilder::positional(self.version);
            for value in &write.values {
                builder.push("", Value::Bytes(value));
            }
            let mut parameters = QueryParameters::new(self.version, consistency);
            parameters.values = builder.values();
            let result_metadata_id = write.result_metadata_id.as_deref();
            let request = Request::Execute { id: &write.id, result_metadata_id, parameters };
            RequestMessage::new(request).encode(self.version, stream, self.outgoing.messages());
        }
        self.flush().map_err(|error| (first_line, error))?;
        let mut failed: Option<(i16, ClientError)> = None;
        for _ in writes {
            let (stream, message) = self.receive().map_err(|error| (first_line, error))?;
            if message.response != Response::Void
                && failed.as_ref().is_none_or(|(first, _)| stream < *first)
            {
                failed = Some((stream, unexpected(message.response)));
            }
        }
        let Some((stream, error)) = failed else { return Ok(()) };
        let line = usize::try_from(stream).ok().and_then(|index| writes.get(index));
        Err((line.map_or(0, |write| write.line_number), error))
    }
}

/// What a read says that waited as long as it may.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn rows(response: Response) -> Result<Rows, ClientError> {
    match response {
        Response::Rows(rows) => Ok(rows),
        other => Err(unexpected(other)),
    }
}

fn unexpected(response: Response) -> ClientError {
    match response {
        Response::Error(error) => ClientError::Refused(error),
        other => ClientError::Unexpected(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::testing::ready_node;

    /// Takes connections one after the other: refuses those of version 5 as an old node does, and is
    /// ready for those of version 4.
    fn old_node(listener: &TcpListener) -> Vec<Version> {
        let mut seen = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut decoder = FrameDecoder::for_requests(RESPONSE_BYTES_MAX);
            let mut incoming = BytesMut::new();
            let frame = loop {
                if let Some(frame) = decoder.decode(&mut incoming).unwrap() {
                    break frame;
                }
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).unwrap();
                incoming.extend_from_slice(&chunk[..count]);
            };
            seen.push(frame.version);
            let response = match frame.version {
                Version::V4 => Response::Ready,
                _ => Response::Error(ErrorResponse::new(
                    ErrorKind::Protocol,
                    "Invalid or unsupported protocol version (5); the lowest supported version is 3 and the greatest is 4",
                )),
            };
            let mut answer = BytesMut::new();
            ResponseMessage::new(response).encode(Version::V4, frame.stream, &mut answer);
            stream.write_all(&answer).unwrap();
        }
        seen
    }

    /// With an answer of 21 bytes its frame begins with the byte of a TLS alert.
    #[test]
    fn a_short_answer_is_no_wish_for_tls() {
        let (address, node) = ready_node(Response::SetKeyspace("orders".to_owned()));
        let target = Target {
            address,
            login: None,
            trust: None,
            patience: Duration::from_secs(10),
            cancelled: None,
        };
        let mut client = Client::connect(&target).unwrap();
        let answer = client.run(&Ask::new("USE orders", Consistency::One)).unwrap();
        assert_eq!(answer.response, Response::SetKeyspace("orders".to_owned()));
        drop(client);
        assert_eq!(node.join().unwrap(), 2);
    }

    #[test]
    fn an_old_node_is_spoken_to_in_its_version() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target {
            address: listener.local_addr().unwrap().to_string(),
            login: None,
            trust: None,
            patience: Duration::from_secs(10),
            cancelled: None,
        };
        let node = std::thread::Builder::new().spawn(move || old_node(&listener)).unwrap();
        let client = Client::connect(&target).unwrap();
        assert_eq!(client.version(), Version::V4);
        assert_eq!(node.join().unwrap(), [Version::V5, Version::V4]);
    }
}
