//! A small blocking client of the native protocol, version 4.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use protocol::{
    Consistency, FrameDecoder, MapBuilder, Outgoing, PreparedResponse, QueryParameters, Request,
    RequestMessage, Response, Rows, Value, ValuesBuilder, Version,
};

use super::secure::Stream;
use crate::password::{Credentials, VARIABLE};

const RESPONSE_BYTES_MAX: usize = 256 << 20;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const VERSION: Version = Version::V4;
/// What an encrypted answer to bytes that are none begins with; no version of the protocol does.
const TLS_ALERT: u8 = 21;

/// Who logs in, where the node wants to know, and whether that is encrypted.
pub(super) struct Login {
    pub(super) credentials: Credentials,
    /// The file of the certificates that are trusted; none: no TLS.
    pub(super) trusted: Option<PathBuf>,
}

/// A write of one row.
pub(super) struct Bound {
    pub(super) id: Vec<u8>,
    pub(super) line_number: u64,
    pub(super) values: Vec<Vec<u8>>,
}

/// A value of type text.
pub(super) fn text_value(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A connection that is ready for statements.
pub(super) struct Client {
    stream: Stream,
    decoder: FrameDecoder,
    outgoing: Outgoing,
    incoming: BytesMut,
}

impl Client {
    pub(super) fn connect(address: &str, login: &Login) -> Result<Client, String> {
        let unreachable = |error: &dyn std::fmt::Display| {
            format!("cannot reach a node on {address}: {error}; name it with --host ADDR:PORT")
        };
        let mut addresses = address.to_socket_addrs().map_err(|error| unreachable(&error))?;
        let first = addresses.next().ok_or_else(|| unreachable(&"no such address"))?;
        let stream = TcpStream::connect_timeout(&first, CONNECT_WITHIN)
            .map_err(|error| unreachable(&error))?;
        let prepare =
            stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(ANSWER_WITHIN)));
        prepare.map_err(|error| unreachable(&error))?;
        let stream = match &login.trusted {
            None => Stream::Plain(stream),
            Some(trusted) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                Stream::encrypt(stream, host.trim_matches(['[', ']']), trusted)
                    .map_err(|error| unreachable(&error))?
            }
        };
        let mut client = Client {
            stream,
            decoder: FrameDecoder::for_responses(RESPONSE_BYTES_MAX),
            outgoing: Outgoing::new(),
            incoming: BytesMut::new(),
        };
        let mut options = MapBuilder::new();
        options.string("CQL_VERSION", "3.0.0");
        client.push(0, Request::Startup(options.string_map()));
        client.flush()?;
        match client.receive()?.1 {
            Response::Ready => {}
            Response::Authenticate(_) => client.log_in(login)?,
            other => return Err(unexpected(other)),
        }
        client.decoder.start(VERSION, None);
        client.outgoing.start(VERSION, None);
        Ok(client)
    }

    fn log_in(&mut self, login: &Login) -> Result<(), String> {
        let Some(user) = &login.credentials.user else {
            return Err("the node wants a login: give --user, and a password with --password-file, HELENUS_PASSWORD or when asked".to_owned());
        };
        let password = login.credentials.password(std::env::var(VARIABLE).ok())?;
        let token = [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat();
        self.push(0, Request::AuthResponse(Some(&token)));
        self.flush()?;
        match self.receive()?.1 {
            Response::AuthSuccess(_) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    fn push(&mut self, stream: i16, request: Request<'_>) {
        RequestMessage::new(request).encode(VERSION, stream, self.outgoing.messages());
    }

    fn flush(&mut self) -> Result<(), String> {
        let bytes = self.outgoing.seal();
        let sent = self.stream.write_all(bytes);
        bytes.clear();
        sent.map_err(|error| format!("the connection broke: {error}"))
    }

    fn receive(&mut self) -> Result<(i16, Response), String> {
        loop {
            if matches!(self.stream, Stream::Plain(_)) && self.incoming.first() == Some(&TLS_ALERT)
            {
                return Err("the node wants TLS: give --tls, or --ca FILE".to_owned());
            }
            let frame = self.decoder.decode(&mut self.incoming);
            if let Some(frame) = frame.map_err(|error| format!("{error:?}"))? {
                let stream = frame.stream;
                let message = protocol::ResponseMessage::decode(&frame);
                return Ok((stream, message.map_err(|error| error.to_string())?.response));
            }
            let mut chunk = [0; 64 << 10];
            let count = self
                .stream
                .read(&mut chunk)
                .map_err(|error| format!("the connection broke: {error}"))?;
            if count == 0 {
                return Err("the node closed the connection; does it want TLS (--tls)?".to_owned());
            }
            self.incoming.extend_from_slice(chunk.get(..count).unwrap_or_default());
        }
    }

    fn ask(&mut self, request: Request<'_>) -> Result<Response, String> {
        self.push(0, request);
        self.flush()?;
        self.receive().map(|(_, response)| response)
    }

    /// The rows of a statement with values.
    pub(super) fn query(&mut self, text: &str, values: &[Vec<u8>]) -> Result<Rows, String> {
        let mut builder = ValuesBuilder::positional(VERSION);
        for value in values {
            builder.push("", Value::Bytes(value));
        }
        let mut parameters = QueryParameters::new(VERSION, Consistency::LocalQuorum);
        parameters.values = builder.values();
        rows(self.ask(Request::Query { text, parameters })?)
    }

    /// One page of a SELECT.
    pub(super) fn page(
        &mut self,
        text: &str,
        row_count: i32,
        paging_state: Option<&[u8]>,
    ) -> Result<Rows, String> {
        let mut parameters = QueryParameters::new(VERSION, Consistency::LocalQuorum);
        parameters.page_size = Some(row_count);
        parameters.paging_state = paging_state;
        rows(self.ask(Request::Query { text, parameters })?)
    }

    pub(super) fn prepare(&mut self, text: &str) -> Result<PreparedResponse, String> {
        match self.ask(Request::Prepare { text, keyspace: None })? {
            Response::Prepared(prepared) => Ok(prepared),
            other => Err(unexpected(other)),
        }
    }

    /// Sends all, then waits for all. The error is that of the first line that failed.
    pub(super) fn execute_all(&mut self, writes: &[Bound]) -> Result<(), String> {
        for (stream, write) in (0i16..).zip(writes) {
            let mut builder = ValuesBuilder::positional(VERSION);
            for value in &write.values {
                builder.push("", Value::Bytes(value));
            }
            let mut parameters = QueryParameters::new(VERSION, Consistency::LocalQuorum);
            parameters.values = builder.values();
            self.push(
                stream,
                Request::Execute { id: &write.id, result_metadata_id: None, parameters },
            );
        }
        self.flush()?;
        let mut failed: Option<(i16, String)> = None;
        for _ in writes {
            let (stream, response) = self.receive()?;
            if response != Response::Void
                && failed.as_ref().is_none_or(|(first, _)| stream < *first)
            {
                failed = Some((stream, unexpected(response)));
            }
        }
        let Some((stream, error)) = failed else { return Ok(()) };
        let line = usize::try_from(stream).ok().and_then(|index| writes.get(index));
        Err(format!("line {}: {error}", line.map_or(0, |write| write.line_number)))
    }
}

fn rows(response: Response) -> Result<Rows, String> {
    match response {
        Response::Rows(rows) => Ok(rows),
        other => Err(unexpected(other)),
    }
}

fn unexpected(response: Response) -> String {
    match response {
        Response::Error(error) => error.message,
        other => format!("the node answered {other:?}"),
    }
}
