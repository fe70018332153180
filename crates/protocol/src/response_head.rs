//! What servers answer: each function appends one whole message to a buffer.

use bytes::{BufMut, BytesMut};

use crate::columns::{PreparedMetadata, RowsMetadata};
use crate::error::{FrameError, ProtocolError};
use crate::error_response::ErrorResponse;
use crate::event::{EVENT_STREAM, Event, SchemaChange};
use crate::frame::{begin_message, end_message};
use crate::opcode::{Direction, Flags, Opcode};
use crate::rows_writer::RowsWriter;
use crate::version::Version;
use crate::wire;

pub(crate) const RESULT_VOID: i32 = 1;
pub(crate) const RESULT_ROWS: i32 = 2;
pub(crate) const RESULT_SET_KEYSPACE: i32 = 3;
pub(crate) const RESULT_PREPARED: i32 = 4;
pub(crate) const RESULT_SCHEMA_CHANGE: i32 = 5;

/// What every response starts with. Its methods append the message that it heads, uncompressed
/// and without an outer frame, for [`Outgoing`](crate::Outgoing) to pack.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The version of the connection.
    pub version: Version,
    /// The stream of the request.
    pub stream: i16,
    /// The id of the trace, if one was asked for.
    pub tracing_id: Option<[u8; 16]>,
    /// What the client should know (not sent before v4).
    pub warnings: &'a [String],
    /// Key and value pairs that the protocol does not know (not sent before v4).
    pub custom_payload: &'a [(&'a str, &'a [u8])],
}

impl<'a> ResponseHead<'a> {
    /// A head with nothing added.
    pub fn new(version: Version, stream: i16) -> ResponseHead<'a> {
        ResponseHead { version, stream, tracing_id: None, warnings: &[], custom_payload: &[] }
    }

    /// Writes the header and what comes before the body proper. Returns where the message starts.
    #[inline]
    pub(crate) fn begin(&self, opcode: Opcode, buf: &mut BytesMut) -> usize {
        let has_v4_parts = !self.warnings.is_empty() || !self.custom_payload.is_empty();
        if self.tracing_id.is_none() && !has_v4_parts {
            return begin_message(buf, self.version, Flags::default(), self.stream, opcode);
        }
        self.begin_with_parts(opcode, buf)
    }

    fn begin_with_parts(&self, opcode: Opcode, buf: &mut BytesMut) -> usize {
        let is_v4 = self.version >= Version::V4;
        let mut flags = Flags::default();
        if self.tracing_id.is_some() {
            flags = flags.with(Flags::TRACING);
        }
        if is_v4 && !self.warnings.is_empty() {
            flags = flags.with(Flags::WARNING);
        }
        if is_v4 && !self.custom_payload.is_empty() {
            flags = flags.with(Flags::CUSTOM_PAYLOAD);
        }
        let start = begin_message(buf, self.version, flags, self.stream, opcode);
        if let Some(id) = self.tracing_id {
            buf.put_slice(&id);
        }
        if flags.contains(Flags::WARNING) {
            wire::put_string_list(buf, self.warnings);
        }
        if flags.contains(Flags::CUSTOM_PAYLOAD) {
            buf.put_u16(u16::try_from(self.custom_payload.len()).unwrap_or(u16::MAX));
            for (key, value) in self.custom_payload.iter().take(usize::from(u16::MAX)) {
                wire::put_string(buf, key);
                wire::put_bytes(buf, value);
            }
        }
        start
    }

    fn message(&self, opcode: Opcode, buf: &mut BytesMut, put_body: impl FnOnce(&mut BytesMut)) {
        let start = self.begin(opcode, buf);
        put_body(buf);
        end_message(buf, start);
    }

    /// READY
    pub fn ready(&self, buf: &mut BytesMut) {
        self.message(Opcode::Ready, buf, |_| {});
    }

    /// AUTHENTICATE, with the class name of the authenticator.
    pub fn authenticate(&self, authenticator: &str, buf: &mut BytesMut) {
        self.message(Opcode::Authenticate, buf, |buf| wire::put_string(buf, authenticator));
    }

    /// AUTH_CHALLENGE
    pub fn auth_challenge(&self, token: Option<&[u8]>, buf: &mut BytesMut) {
        self.message(Opcode::AuthChallenge, buf, |buf| wire::put_optional_bytes(buf, token));
    }

    /// AUTH_SUCCESS
    pub fn auth_success(&self, token: Option<&[u8]>, buf: &mut BytesMut) {
        self.message(Opcode::AuthSuccess, buf, |buf| wire::put_optional_bytes(buf, token));
    }

    /// SUPPORTED, with the choices of each option.
    pub fn supported<K, V>(&self, options: &[(K, Vec<V>)], buf: &mut BytesMut)
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        self.message(Opcode::Supported, buf, |buf| {
            buf.put_u16(u16::try_from(options.len()).unwrap_or(u16::MAX));
            for (key, choices) in options.iter().take(usize::from(u16::MAX)) {
                wire::put_string(buf, key.as_ref());
                wire::put_string_list(buf, choices);
            }
        });
    }

    /// RESULT without content: the statement was run.
    #[inline]
    pub fn void(&self, buf: &mut BytesMut) {
        self.message(Opcode::Result, buf, |buf| buf.put_i32(RESULT_VOID));
    }

    /// RESULT of USE.
    pub fn set_keyspace(&self, keyspace: &str, buf: &mut BytesMut) {
        self.message(Opcode::Result, buf, |buf| {
            buf.put_i32(RESULT_SET_KEYSPACE);
            wire::put_string(buf, keyspace);
        });
    }

    /// RESULT of PREPARE.
    pub fn prepared(&self, metadata: &PreparedMetadata<'_>, buf: &mut BytesMut) {
        self.message(Opcode::Result, buf, |buf| {
            buf.put_i32(RESULT_PREPARED);
            metadata.encode(self.version, buf);
        });
    }

    /// RESULT of a statement that changed the schema.
    pub fn schema_change(&self, change: &SchemaChange, buf: &mut BytesMut) {
        self.message(Opcode::Result, buf, |buf| {
            buf.put_i32(RESULT_SCHEMA_CHANGE);
            change.encode(self.version, buf);
        });
    }

    /// RESULT with rows, to be written cell by cell. Without [`RowsWriter::finish`] nothing is
    /// left in the buffer.
    #[inline]
    pub fn rows<'b>(&self, metadata: &RowsMetadata<'_>, buf: &'b mut BytesMut) -> RowsWriter<'b> {
        RowsWriter::begin(self, metadata, buf)
    }

    /// ERROR, in the closest form that the version knows.
    pub fn error(&self, error: &ErrorResponse, buf: &mut BytesMut) {
        self.message(Opcode::Error, buf, |buf| error.encode(self.version, buf));
    }

    /// EVENT; it goes out on a stream of its own.
    pub fn event(version: Version, event: &Event, buf: &mut BytesMut) {
        let head = ResponseHead::new(version, EVENT_STREAM);
        head.message(Opcode::Event, buf, |buf| event.encode(version, buf));
    }

    /// The answer to a message that could not be taken from the stream of a connection that
    /// speaks `version`, or has not agreed on one yet.
    ///
    /// A client of version 1 or 2 is answered with the shorter header it understands, so that it
    /// can tell its user; all others get the newest version we speak, and step down to it.
    pub fn frame_error(version: Option<Version>, error: &FrameError, buf: &mut BytesMut) {
        let response = ErrorResponse::of_protocol_error(&error.error);
        if let (None, ProtocolError::UnsupportedVersion { number: number @ (1 | 2) }) =
            (version, &error.error)
        {
            let mut body = BytesMut::new();
            response.encode(Version::NEWEST, &mut body);
            buf.put_slice(&[number | Direction::RESPONSE_BIT, 0, 0, Opcode::Error.number()]);
            wire::put_bytes(buf, &body);
            return;
        }
        let version = match error.error {
            ProtocolError::BetaFlagUnset { version } => version,
            _ => version.unwrap_or(Version::NEWEST),
        };
        ResponseHead::new(version, error.stream).error(&response, buf);
    }
}
