//! The limit: a server that does nothing. It speaks the protocol with our codec, reads as many
//! requests as have arrived and answers them with one write, as the server does, but every execute
//! gets a canned result. What the server costs beyond it is planning, storage and charging.
//!
//!     cargo run --release -p testkit --bin null-server -- 127.0.0.1:9700 127.0.0.1:9701
//!
//! The second address is a real node. Everything that is no execute (system tables, definitions,
//! prepares) is asked there, and so is the first execute of each statement: its answer is the one
//! that is canned. So any driver connects, and any workload runs, with answers of the right size.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for developers"
)]

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use protocol::{
    Frame, FrameDecoder, MESSAGE_BYTES_MAX_DEFAULT, Opcode, Outgoing, Request, RequestMessage,
    ResponseHead, StartupChoice, StatementSource,
};
use testkit::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes taken from the socket at once, as in the server.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Answers that are kept; a workload has a handful of statements.
const CANNED_MAX: usize = 4096;

/// What a canned answer belongs to: how the statements are sent, and the id of the (first) one.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    is_batch: bool,
    id: Vec<u8>,
}

type Canned = HashMap<Key, Frame>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream] = arguments.as_slice() else {
        return Err("usage: null-server LISTEN_ADDRESS:PORT NODE_ADDRESS:PORT".into());
    };
    let shared = Arc::new(Mutex::new(Canned::new()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        println!("listening on {listen}");
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let connection = Connection::new(stream, upstream.clone(), Arc::clone(&shared));
            tokio::spawn(async move {
                if let Err(error) = connection.run().await {
                    eprintln!("a connection ended: {error}");
                }
            });
        }
    })
}

/// One client.
struct Connection {
    stream: TcpStream,
    upstream_address: String,
    /// The node's side of this client, once it has said which version it speaks.
    upstream: Option<Client>,
    shared: Arc<Mutex<Canned>>,
    /// What was seen of `shared`: an execute takes no lock.
    canned: Canned,
    /// The last one, because most clients repeat themselves.
    last: Option<(Bytes, Frame)>,
    decoder: FrameDecoder,
    outgoing: Outgoing,
}

impl Connection {
    fn new(stream: TcpStream, upstream_address: String, shared: Arc<Mutex<Canned>>) -> Connection {
        Connection {
            stream,
            upstream_address,
            upstream: None,
            shared,
            canned: Canned::new(),
            last: None,
            decoder: FrameDecoder::for_requests(MESSAGE_BYTES_MAX_DEFAULT),
            outgoing: Outgoing::new(),
        }
    }

    async fn run(mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut arrival = vec![0; READ_BYTES_MAX];
        let mut inbound = BytesMut::new();
        loop {
            let count = match self.stream.read(&mut arrival).await {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            inbound.extend_from_slice(arrival.get(..count).unwrap_or_default());
            loop {
                match self.decoder.decode(&mut inbound) {
                    Ok(None) => break,
                    Ok(Some(frame)) => self.serve(&frame)?,
                    Err(error) => {
                        let version = self.decoder.version();
                        ResponseHead::frame_error(version, &error, self.outgoing.messages());
                        self.stream.write_all(self.outgoing.seal()).await?;
                        return Ok(());
                    }
                }
            }
            let sealed = self.outgoing.seal();
            self.stream.write_all(sealed).await?;
            sealed.clear();
        }
    }

    fn serve(&mut self, frame: &Frame) -> Result<(), Box<dyn Error + Send + Sync>> {
        let message = RequestMessage::decode(frame)?;
        let head = ResponseHead::new(frame.version, frame.stream);
        match &message.request {
            Request::Execute { id, .. } => {
                if let Some((last, answer)) = &self.last
                    && last == id
                {
                    put(answer, frame.stream, self.outgoing.messages());
                    return Ok(());
                }
                let key = Key { is_batch: false, id: id.to_vec() };
                let answer = self.canned(key, frame)?;
                if answer.opcode == Opcode::Result {
                    self.last = Some((Bytes::copy_from_slice(id), answer.clone()));
                }
                put(&answer, frame.stream, self.outgoing.messages());
            }
            Request::Batch(batch) => {
                let id = match batch.statements.iter().next().map(|first| first.source) {
                    Some(StatementSource::Prepared(id)) => id.to_vec(),
                    Some(StatementSource::Text(text)) => text.as_bytes().to_vec(),
                    None => Vec::new(),
                };
                let answer = self.canned(Key { is_batch: true, id }, frame)?;
                put(&answer, frame.stream, self.outgoing.messages());
            }
            Request::Startup(options) => {
                let choice = StartupChoice::from_options(options, frame.version)?;
                head.ready(self.outgoing.messages());
                self.decoder.start(frame.version, choice.compression);
                self.outgoing.start(frame.version, choice.compression);
                self.upstream = Some(Client::connect_with(&self.upstream_address, frame.version)?);
            }
            Request::Options => {
                let options = [
                    ("CQL_VERSION", vec!["3.4.7"]),
                    ("COMPRESSION", vec!["lz4", "snappy"]),
                    ("PROTOCOL_VERSIONS", vec!["3/v3", "4/v4", "5/v5"]),
                ];
                head.supported(&options, self.outgoing.messages());
            }
            // Nothing ever happens here.
            Request::Register(_) => head.ready(self.outgoing.messages()),
            Request::Query { .. } | Request::Prepare { .. } | Request::AuthResponse(_) => {
                let answer = self.forward(frame)?;
                put(&answer, frame.stream, self.outgoing.messages());
            }
        }
        Ok(())
    }

    /// The answer for that key: what the node said when it was asked first.
    fn canned(&mut self, key: Key, frame: &Frame) -> Result<Frame, Box<dyn Error + Send + Sync>> {
        if let Some(answer) = self.canned.get(&key) {
            return Ok(answer.clone());
        }
        let known = self.shared.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let answer = match known {
            Some(answer) => answer,
            None => {
                let answer = self.forward(frame)?;
                if answer.opcode != Opcode::Result {
                    return Ok(answer);
                }
                let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                if shared.len() < CANNED_MAX {
                    shared.insert(key.clone(), answer.clone());
                }
                answer
            }
        };
        if self.canned.len() < CANNED_MAX {
            self.canned.insert(key, answer.clone());
        }
        Ok(answer)
    }

    /// Asks the node, and waits for it: this happens once for each statement.
    fn forward(&mut self, frame: &Frame) -> Result<Frame, Box<dyn Error + Send + Sync>> {
        let upstream = self.upstream.as_mut().ok_or("a statement before STARTUP")?;
        Ok(upstream.forward(frame)?)
    }
}

fn put(answer: &Frame, stream: i16, messages: &mut BytesMut) {
    let mut answer = answer.clone();
    answer.stream = stream;
    answer.encode(messages);
}
