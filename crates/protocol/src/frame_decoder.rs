//! Bytes → messages, as they arrive.

use bytes::{Buf, Bytes, BytesMut};

use crate::compression::Compression;
use crate::error::{FrameError, ProtocolError};
use crate::frame::{Frame, Framing, HEADER_BYTES, RawHeader};
use crate::opcode::{Direction, Flags};
use crate::outer_frame;
use crate::version::Version;

/// How many messages in a row may have a bad header inside one outer frame before the connection
/// must close (`consecutive_message_errors_threshold` of Cassandra).
pub const CONSECUTIVE_ERRORS_MAX: u32 = 1;

/// Takes messages off a buffer that fills up with what the other side sends.
///
/// It never holds more than the bytes that arrived, plus the message being assembled: at most
/// `message_bytes_max`, and grown only as its bytes come in.
#[derive(Debug)]
pub struct FrameDecoder {
    /// Which messages we expect: requests on a server, responses on a client.
    direction: Direction,
    message_bytes_max: usize,
    framing: Framing,
    compression: Option<Compression>,
    version: Option<Version>,
    /// Plain framing: bytes of a refused message that are still to come.
    skip_bytes: u64,
    /// Outer framing: what is left of the last self-contained frame.
    payload: Bytes,
    /// Outer framing: the message that spans the current frames.
    large: Option<LargeMessage>,
    consecutive_errors: u32,
    /// After a fatal error nothing more is read.
    broken: bool,
}

/// A message longer than one outer frame, as far as it arrived.
#[derive(Debug)]
enum LargeMessage {
    Assemble { header: RawHeader, needed_bytes: usize, collected: BytesMut },
    Skip { remaining_bytes: usize },
}

impl FrameDecoder {
    /// For the server's side of a fresh connection. A longer message than `message_bytes_max`,
    /// header included, is refused and skipped.
    pub fn for_requests(message_bytes_max: usize) -> FrameDecoder {
        FrameDecoder::new(Direction::Request, message_bytes_max)
    }

    /// For the client's side of a fresh connection.
    pub fn for_responses(message_bytes_max: usize) -> FrameDecoder {
        FrameDecoder::new(Direction::Response, message_bytes_max)
    }

    fn new(direction: Direction, message_bytes_max: usize) -> FrameDecoder {
        FrameDecoder {
            direction,
            message_bytes_max,
            framing: Framing::Plain,
            compression: None,
            version: None,
            skip_bytes: 0,
            payload: Bytes::new(),
            large: None,
            consecutive_errors: 0,
            broken: false,
        }
    }

    /// From the next message on, messages may be so long.
    pub fn set_message_bytes_max(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// From the next message on, the connection speaks `version`, with that compression. To be
    /// called when STARTUP was answered with READY or AUTHENTICATE; it changes the framing in v5.
    pub fn start(&mut self, version: Version, compression: Option<Compression>) {
        self.version = Some(version);
        self.framing = Framing::after_startup(version);
        self.compression = compression;
    }

    /// Bytes of the message that is being assembled, outside of the buffer it is decoded from.
    pub fn assembled_bytes(&self) -> usize {
        match &self.large {
            Some(LargeMessage::Assemble { collected, .. }) => collected.len(),
            Some(LargeMessage::Skip { .. }) | None => 0,
        }
    }

    /// Gives up the message that is arriving: what came of it is forgotten, what is still to come is
    /// skipped. Its version and stream, to be answered; `None` if nothing is arriving that can be
    /// given up. To be called when [`FrameDecoder::decode`] returned `None`.
    pub fn give_up(&mut self, buf: &mut BytesMut) -> Option<(Version, i16)> {
        if self.broken || self.skip_bytes > 0 {
            return None;
        }
        let (header, remaining_bytes) = match (self.framing, &self.large) {
            (Framing::Plain, _) => {
                let header = RawHeader::decode(buf.first_chunk::<HEADER_BYTES>()?);
                let needed_bytes = HEADER_BYTES + header.length.cast_unsigned() as usize;
                (header, needed_bytes.checked_sub(buf.len())?)
            }
            (Framing::Outer, Some(LargeMessage::Assemble { header, needed_bytes, collected })) => {
                (*header, needed_bytes.checked_sub(collected.len())?)
            }
            (Framing::Outer, _) => return None,
        };
        let (version, _) = header.check(self.direction, self.version).ok()?;
        match self.framing {
            Framing::Plain => {
                buf.clear();
                self.skip_bytes = remaining_bytes as u64;
            }
            Framing::Outer => self.large = Some(LargeMessage::Skip { remaining_bytes }),
        }
        Some((version, header.stream))
    }

    /// The version of the connection, once it started.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// The next message in `buf`, or `None` until more bytes arrive. Call it again until it
    /// returns `None`: one read may bring many messages. After an error that is not fatal the
    /// message concerned is left out, and the next call goes on behind it.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        if self.broken {
            buf.clear();
            return Ok(None);
        }
        let decoded = match self.framing {
            Framing::Plain => self.decode_plain(buf),
            Framing::Outer => self.decode_outer(buf),
        };
        if let Err(FrameError { fatal: true, .. }) = &decoded {
            self.broken = true;
            self.payload = Bytes::new();
            self.large = None;
            buf.clear();
        }
        decoded
    }

    fn decode_plain(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        if self.skip_bytes > 0 {
            let skipped = usize::try_from(self.skip_bytes).unwrap_or(usize::MAX).min(buf.len());
            buf.advance(skipped);
            self.skip_bytes -= skipped as u64;
        }
        let Some(&first) = buf.first() else { return Ok(None) };
        // The version is looked at before the header is complete: those of versions 1 and 2 are
        // shorter, and more bytes might never come.
        let number = first & !Direction::RESPONSE_BIT;
        if Version::from_number(number).is_none() {
            return Err(fatal(0, ProtocolError::UnsupportedVersion { number }));
        }
        let Some(header) = buf.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = RawHeader::decode(header);
        // A negative length is a very large one here, as in Cassandra.
        let body_bytes = header.length.cast_unsigned() as usize;
        let length_bytes = body_bytes as u64 + HEADER_BYTES as u64;
        let checked = header.check(self.direction, self.version).and_then(|checked| {
            if length_bytes > self.message_bytes_max as u64 {
                let length_bytes_max = self.message_bytes_max as u64;
                return Err(ProtocolError::FrameTooLong { length_bytes, length_bytes_max });
            }
            Ok(checked)
        });
        let (version, opcode) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                self.skip_bytes = length_bytes;
                // Behind a bad header, a length that nobody may use is no length at all.
                let is_too_long = length_bytes > self.message_bytes_max as u64;
                let fatal = is_too_long && !matches!(error, ProtocolError::FrameTooLong { .. });
                // As Cassandra, which has not looked at the stream then.
                let is_beta = matches!(error, ProtocolError::BetaFlagUnset { .. });
                let stream = if is_beta { 0 } else { header.stream };
                return Err(FrameError { stream, error, fatal });
            }
        };
        if buf.len() < HEADER_BYTES + body_bytes {
            return Ok(None);
        }
        buf.advance(HEADER_BYTES);
        let mut body = buf.split_to(body_bytes).freeze();
        let mut flags = header.flags;
        let stream = header.stream;
        // Without an agreed compression the flag is ignored, as Cassandra does.
        if let (true, Some(compression)) = (flags.contains(Flags::COMPRESSED), self.compression) {
            let length_max = self.message_bytes_max.saturating_sub(HEADER_BYTES);
            body = compression.decompress_body(&body, length_max).map_err(|error| FrameError {
                stream,
                error,
                fatal: false,
            })?;
            flags = flags.without(Flags::COMPRESSED);
        }
        Ok(Some(Frame { version, flags, stream, opcode, body }))
    }

    fn decode_outer(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.next_contained()? {
                return Ok(Some(frame));
            }
            let lz4 = self.compression.is_some();
            let outer = outer_frame::decode(buf, lz4).map_err(|error| fatal(0, error))?;
            let Some(outer) = outer else { return Ok(None) };
            self.consecutive_errors = 0;
            if outer.self_contained {
                self.payload = outer.payload;
            } else if let Some(frame) = self.add_to_large(outer.payload)? {
                return Ok(Some(frame));
            }
        }
    }

    /// The next message of the current self-contained frame.
    fn next_contained(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.payload.is_empty() {
            return Ok(None);
        }
        let available_bytes = self.payload.len();
        let Some(header) = self.payload.first_chunk::<HEADER_BYTES>() else {
            let needed_bytes = HEADER_BYTES;
            return Err(fatal(0, ProtocolError::TornMessage { needed_bytes, available_bytes }));
        };
        let header = RawHeader::decode(header);
        let stream = header.stream;
        let Ok(body_bytes) = usize::try_from(header.length) else {
            return Err(fatal(stream, ProtocolError::NegativeBodyLength { length: header.length }));
        };
        let needed_bytes = HEADER_BYTES + body_bytes;
        let checked = header
            .check(self.direction, self.version)
            .and_then(|checked| self.check_length(needed_bytes).map(|()| checked));
        match checked {
            Ok(_) if needed_bytes > available_bytes => {
                Err(fatal(stream, ProtocolError::TornMessage { needed_bytes, available_bytes }))
            }
            Ok((version, opcode)) => {
                self.consecutive_errors = 0;
                self.payload.advance(HEADER_BYTES);
                let body = self.payload.split_to(body_bytes);
                Ok(Some(Frame { version, flags: header.flags, stream, opcode, body }))
            }
            Err(error) => {
                self.consecutive_errors += 1;
                self.payload.advance(needed_bytes.min(available_bytes));
                let fatal = self.consecutive_errors > CONSECUTIVE_ERRORS_MAX;
                Err(FrameError { stream, error, fatal })
            }
        }
    }

    /// One more piece of the large message; the message, if it is complete now.
    fn add_to_large(&mut self, piece: Bytes) -> Result<Option<Frame>, FrameError> {
        match self.large.take() {
            None => self.begin_large(piece),
            Some(LargeMessage::Skip { remaining_bytes }) => {
                let remaining_bytes = remaining_bytes.saturating_sub(piece.len());
                if remaining_bytes > 0 {
                    self.large = Some(LargeMessage::Skip { remaining_bytes });
                }
                Ok(None)
            }
            Some(LargeMessage::Assemble { header, needed_bytes, mut collected }) => {
                collected.extend_from_slice(&piece);
                if collected.len() < needed_bytes {
                    self.large = Some(LargeMessage::Assemble { header, needed_bytes, collected });
                    return Ok(None);
                }
                self.end_large(header, needed_bytes, collected.freeze())
            }
        }
    }

    fn begin_large(&mut self, piece: Bytes) -> Result<Option<Frame>, FrameError> {
        let available_bytes = piece.len();
        let Some(header) = piece.first_chunk::<HEADER_BYTES>() else {
            let needed_bytes = HEADER_BYTES;
            return Err(fatal(0, ProtocolError::TornMessage { needed_bytes, available_bytes }));
        };
        let header = RawHeader::decode(header);
        let stream = header.stream;
        let Ok(body_bytes) = usize::try_from(header.length) else {
            return Err(fatal(stream, ProtocolError::NegativeBodyLength { length: header.length }));
        };
        let needed_bytes = HEADER_BYTES + body_bytes;
        // The frames that follow cannot be told apart from anything else, so any doubt is fatal.
        header.check(self.direction, self.version).map_err(|error| fatal(stream, error))?;
        if let Err(error) = self.check_length(needed_bytes) {
            let remaining_bytes = needed_bytes.saturating_sub(available_bytes);
            if remaining_bytes > 0 {
                self.large = Some(LargeMessage::Skip { remaining_bytes });
            }
            return Err(FrameError { stream, error, fatal: false });
        }
        if available_bytes >= needed_bytes {
            return self.end_large(header, needed_bytes, piece);
        }
        let collected = BytesMut::from(&*piece);
        self.large = Some(LargeMessage::Assemble { header, needed_bytes, collected });
        Ok(None)
    }

    fn end_large(
        &self,
        header: RawHeader,
        needed_bytes: usize,
        message: Bytes,
    ) -> Result<Option<Frame>, FrameError> {
        let RawHeader { stream, flags, .. } = header;
        let available_bytes = message.len();
        if available_bytes > needed_bytes {
            let error = ProtocolError::LargeMessageOverrun { needed_bytes, available_bytes };
            return Err(fatal(stream, error));
        }
        let (version, opcode) =
            header.check(self.direction, self.version).map_err(|error| fatal(stream, error))?;
        let body = message.slice(HEADER_BYTES.min(available_bytes)..);
        Ok(Some(Frame { version, flags, stream, opcode, body }))
    }

    fn check_length(&self, needed_bytes: usize) -> Result<(), ProtocolError> {
        if needed_bytes <= self.message_bytes_max {
            return Ok(());
        }
        Err(ProtocolError::FrameTooLong {
            length_bytes: needed_bytes as u64,
            length_bytes_max: self.message_bytes_max as u64,
        })
    }
}

fn fatal(stream: i16, error: ProtocolError) -> FrameError {
    FrameError { stream, error, fatal: true }
}
