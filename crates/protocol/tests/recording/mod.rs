//! Recordings of real drivers talking to Apache Cassandra 5.0.5, taken by a proxy between them:
//! `tests/golden/*.hex` holds, per connection, what the client (`>`) and the server (`<`) sent.

use std::path::{Path, PathBuf};

use bytes::BytesMut;
use protocol::{
    Compression, Frame, FrameDecoder, FrameError, MESSAGE_BYTES_MAX_DEFAULT, Opcode, Request,
    RequestMessage, StartupChoice, Version,
};

/// One side of a recorded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// What came out of one connection, in order.
pub(crate) struct Connection {
    pub(crate) messages: Vec<(Side, Result<Frame, FrameError>)>,
    /// What STARTUP agreed on, and how many messages came before that took effect.
    pub(crate) started: Option<(Version, Option<Compression>, usize)>,
    /// The bytes as recorded.
    #[allow(dead_code, reason = "not every test looks at them")]
    pub(crate) chunks: Vec<(Side, Vec<u8>)>,
}

pub(crate) fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "hex"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

pub(crate) fn connections(path: &Path) -> Vec<Connection> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut recorded: Vec<Vec<(Side, Vec<u8>)>> = Vec::new();
    for line in text.lines() {
        let (tag, rest) = line.split_once(' ').unwrap();
        match tag {
            "#" => recorded.push(Vec::new()),
            ">" => recorded.last_mut().unwrap().push((Side::Client, from_hex(rest))),
            "<" => recorded.last_mut().unwrap().push((Side::Server, from_hex(rest))),
            other => panic!("line starts with {other:?}"),
        }
    }
    recorded.into_iter().map(replay).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn replay(chunks: Vec<(Side, Vec<u8>)>) -> Connection {
    let mut requests = FrameDecoder::for_requests(MESSAGE_BYTES_MAX_DEFAULT);
    let mut responses = FrameDecoder::for_responses(MESSAGE_BYTES_MAX_DEFAULT);
    let (mut client_bytes, mut server_bytes) = (BytesMut::new(), BytesMut::new());
    let mut messages = Vec::new();
    let mut choice = None;
    let mut started = None;
    for (side, chunk) in &chunks {
        let (decoder, buf) = match side {
            Side::Client => (&mut requests, &mut client_bytes),
            Side::Server => (&mut responses, &mut server_bytes),
        };
        buf.extend_from_slice(chunk);
        let mut ready = false;
        loop {
            let decoded = match decoder.decode(buf) {
                Ok(None) => break,
                Ok(Some(frame)) => Ok(frame),
                Err(error) => Err(error),
            };
            if let Ok(frame) = &decoded {
                if frame.opcode == Opcode::Startup {
                    let message = RequestMessage::decode(frame).unwrap();
                    let Request::Startup(options) = message.request else { panic!() };
                    let chosen = StartupChoice::from_options(&options, frame.version).unwrap();
                    choice = Some((frame.version, chosen.compression));
                    // From v3 to v4 the server compresses its answer to STARTUP already.
                    if frame.version < Version::V5 {
                        responses = FrameDecoder::for_responses(MESSAGE_BYTES_MAX_DEFAULT);
                        responses.start(frame.version, chosen.compression);
                        messages.push((*side, decoded));
                        break;
                    }
                } else if started.is_none()
                    && matches!(frame.opcode, Opcode::Ready | Opcode::Authenticate)
                {
                    ready = true;
                    messages.push((*side, decoded));
                    break;
                }
            }
            messages.push((*side, decoded));
        }
        if ready {
            let (version, compression) = choice.unwrap();
            requests.start(version, compression);
            responses.start(version, compression);
            started = Some((version, compression, messages.len()));
        }
    }
    assert!(client_bytes.is_empty() && server_bytes.is_empty(), "bytes are left over");
    Connection { messages, started, chunks }
}
