//! The bytes of protocol v4, as little of it as a load needs.

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HEADER_BYTES: usize = 9;
const VERSION: u8 = 4;
const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const EXECUTE: u8 = 0x0a;
const ERROR: u8 = 0x00;
const RESULT: u8 = 0x08;
const OVERLOADED: i32 = 0x1001;
const FLAG_TRACING: u8 = 0x02;
const FLAG_PAYLOAD: u8 = 0x04;
const FLAG_WARNINGS: u8 = 0x08;
/// The level ONE.
pub const CONSISTENCY_ONE: u16 = 1;
/// The level QUORUM.
pub const CONSISTENCY_QUORUM: u16 = 4;
const HAS_VALUES: u8 = 0x01;
const SKIPS_METADATA: u8 = 0x02;
/// The wait of a client that is told none.
const WAIT_DEFAULT: Duration = Duration::from_millis(100);

/// How a request was answered.
pub(super) enum Answer {
    /// With a result.
    Good { charge: f64 },
    /// With 0x1001.
    Refused { retry_after: Duration },
    /// With another error.
    Failed(String),
}

/// Connects and says STARTUP.
pub async fn connect(address: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut body = BytesMut::new();
    body.put_u16(2);
    for text in ["CQL_VERSION", "3.0.0", "DRIVER_NAME", "helenus testkit"] {
        put_string(text, &mut body);
    }
    let mut message = BytesMut::new();
    put_header(STARTUP, 0, body.len(), &mut message);
    message.put(body);
    stream.write_all(&message).await?;
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).await?;
    let [_, _, _, _, opcode, length @ ..] = header;
    let mut rest = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap_or(0)];
    stream.read_exact(&mut rest).await?;
    if opcode == READY { Ok(stream) } else { Err(io::Error::other("STARTUP was refused")) }
}

fn put_string(text: &str, out: &mut BytesMut) {
    out.put_u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
    out.put(text.as_bytes());
}

fn put_header(opcode: u8, stream: i16, length: usize, out: &mut BytesMut) {
    out.put_slice(&[VERSION, 0]);
    out.put_i16(stream);
    out.put_u8(opcode);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

/// Appends EXECUTE.
pub(super) fn execute(
    stream: i16,
    statement: &[u8],
    consistency: u16,
    values: &[Vec<u8>],
    out: &mut BytesMut,
) {
    let of_values: usize = values.iter().map(|value| 4 + value.len()).sum();
    put_header(EXECUTE, stream, 2 + statement.len() + 2 + 1 + 2 + of_values, out);
    out.put_u16(u16::try_from(statement.len()).unwrap_or(u16::MAX));
    out.put_slice(statement);
    out.put_u16(consistency);
    out.put_u8(HAS_VALUES | SKIPS_METADATA);
    out.put_u16(u16::try_from(values.len()).unwrap_or(u16::MAX));
    for value in values {
        out.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        out.put_slice(value);
    }
}

/// Takes one whole answer with its stream, if it is there.
pub(super) fn answer(incoming: &mut BytesMut) -> io::Result<Option<(i16, Answer)>> {
    let Some(mut header) = incoming.get(..HEADER_BYTES) else { return Ok(None) };
    let (_version, flags) = (header.get_u8(), header.get_u8());
    let (stream, opcode, length) = (header.get_i16(), header.get_u8(), header.get_u32());
    let length = usize::try_from(length).map_err(io::Error::other)?;
    if incoming.len() < HEADER_BYTES + length {
        return Ok(None);
    }
    incoming.advance(HEADER_BYTES);
    let body = incoming.split_to(length);
    let answer = body_of(flags, opcode, &body).ok_or_else(|| io::Error::other("a bad answer"))?;
    Ok(Some((stream, answer)))
}

fn body_of(flags: u8, opcode: u8, mut body: &[u8]) -> Option<Answer> {
    if flags & FLAG_TRACING != 0 {
        take(&mut body, 16)?;
    }
    if flags & FLAG_WARNINGS != 0 {
        for _ in 0..body.try_get_u16().ok()? {
            short(&mut body)?;
        }
    }
    let mut charge = 0.0;
    if flags & FLAG_PAYLOAD != 0 {
        for _ in 0..body.try_get_u16().ok()? {
            let key = short(&mut body)?;
            let length = usize::try_from(body.try_get_i32().ok()?).unwrap_or(0);
            let mut value = take(&mut body, length)?;
            if key == b"RequestCharge" {
                charge = value.try_get_f64().ok()?;
            }
        }
    }
    Some(match opcode {
        RESULT => Answer::Good { charge },
        ERROR => {
            let code = body.try_get_i32().ok()?;
            let message = String::from_utf8_lossy(short(&mut body)?).into_owned();
            match code {
                OVERLOADED => Answer::Refused { retry_after: retry_after(&message) },
                _ => Answer::Failed(format!("0x{code:04x} {message}")),
            }
        }
        _ => Answer::Failed(format!("opcode {opcode}")),
    })
}

fn take<'a>(body: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = body.split_at_checked(count)?;
    *body = rest;
    Some(taken)
}

fn short<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = body.try_get_u16().ok()?;
    take(body, count.into())
}

/// By the rule of the public Java extension.
fn retry_after(message: &str) -> Duration {
    let found = message.split(',').find_map(|field| match field.split_once('=') {
        Some((key, value)) if key.trim() == "RetryAfterMs" => value.parse().ok(),
        _ => None,
    });
    found.map_or(WAIT_DEFAULT, Duration::from_millis)
}
