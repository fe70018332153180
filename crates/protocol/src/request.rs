//! What clients ask: one request per message, borrowed from it.

use bytes::{BufMut, BytesMut};

use crate::batch::Batch;
use crate::error::ProtocolError;
use crate::event::EventKinds;
use crate::frame::{Frame, begin_message, end_message};
use crate::maps::{BytesMap, StringMap};
use crate::opcode::{Flags, Opcode};
use crate::query_parameters::QueryParameters;
use crate::version::Version;
use crate::wire::{self, Reader};

const PREPARE_WITH_KEYSPACE: u32 = 0x01;

/// A request with what its header adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestMessage<'a> {
    /// Record what happens, and answer with the id of the record.
    pub tracing: bool,
    /// Key and value pairs that the protocol does not know (from v4).
    pub custom_payload: Option<BytesMap<'a>>,
    pub request: Request<'a>,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The first one of a connection, with its options.
    Startup(StringMap<'a>),
    /// What does the server support?
    Options,
    /// Run a statement.
    Query {
        text: &'a str,
        /// What accompanies it.
        parameters: QueryParameters<'a>,
    },
    /// Keep a statement under an id.
    Prepare {
        text: &'a str,
        /// The keyspace of its unqualified names (v5).
        keyspace: Option<&'a str>,
    },
    /// Run a kept statement.
    Execute {
        /// The id it was prepared under.
        id: &'a [u8],
        /// The id of the result columns that the client knows (v5).
        result_metadata_id: Option<&'a [u8]>,
        /// What accompanies it.
        parameters: QueryParameters<'a>,
    },
    /// Run several statements as one.
    Batch(Batch<'a>),
    /// Send me events of these kinds.
    Register(EventKinds),
    /// The next step of a login.
    AuthResponse(Option<&'a [u8]>),
}

impl<'a> RequestMessage<'a> {
    /// A request with nothing added.
    pub fn new(request: Request<'a>) -> RequestMessage<'a> {
        RequestMessage { tracing: false, custom_payload: None, request }
    }

    /// The request that a message holds. Bytes behind it are ignored, as in Cassandra.
    pub fn decode(frame: &'a Frame) -> Result<RequestMessage<'a>, ProtocolError> {
        let mut reader = Reader::new(&frame.body);
        let custom_payload = if frame.flags.contains(Flags::CUSTOM_PAYLOAD) {
            let payload = BytesMap::decode(&mut reader)?;
            if frame.version < Version::V4 {
                return Err(ProtocolError::CustomPayloadTooEarly);
            }
            Some(payload)
        } else {
            None
        };
        let request = Request::decode(frame.opcode, frame.version, &mut reader)?;
        Ok(RequestMessage {
            tracing: frame.flags.contains(Flags::TRACING),
            custom_payload,
            request,
        })
    }

    /// Appends the whole message, uncompressed and without an outer frame.
    pub fn encode(&self, version: Version, stream: i16, buf: &mut BytesMut) {
        let custom_payload = self.custom_payload.filter(|_| version >= Version::V4);
        let mut flags = Flags::default();
        if self.tracing {
            flags = flags.with(Flags::TRACING);
        }
        if custom_payload.is_some() {
            flags = flags.with(Flags::CUSTOM_PAYLOAD);
        }
        let start = begin_message(buf, version, flags, stream, self.request.opcode());
        if let Some(custom_payload) = custom_payload {
            custom_payload.encode(buf);
        }
        self.request.encode(version, buf);
        end_message(buf, start);
    }
}

impl<'a> Request<'a> {
    /// The opcode of its message.
    pub fn opcode(&self) -> Opcode {
        match self {
            Request::Startup(_) => Opcode::Startup,
            Request::Options => Opcode::Options,
            Request::Query { .. } => Opcode::Query,
            Request::Prepare { .. } => Opcode::Prepare,
            Request::Execute { .. } => Opcode::Execute,
            Request::Batch(_) => Opcode::Batch,
            Request::Register(_) => Opcode::Register,
            Request::AuthResponse(_) => Opcode::AuthResponse,
        }
    }

    fn decode(
        opcode: Opcode,
        version: Version,
        reader: &mut Reader<'a>,
    ) -> Result<Request<'a>, ProtocolError> {
        match opcode {
            Opcode::Execute => {
                let id = reader.short_bytes()?;
                let result_metadata_id =
                    if version >= Version::V5 { Some(reader.short_bytes()?) } else { None };
                let parameters = QueryParameters::decode(reader, version)?;
                Ok(Request::Execute { id, result_metadata_id, parameters })
            }
            Opcode::Query => {
                let text = reader.long_string()?;
                let parameters = QueryParameters::decode(reader, version)?;
                Ok(Request::Query { text, parameters })
            }
            Opcode::Batch => Batch::decode(reader, version).map(Request::Batch),
            Opcode::Prepare => {
                let text = reader.long_string()?;
                let flags =
                    if version >= Version::V5 { reader.u32("the prepare flags")? } else { 0 };
                let keyspace =
                    if flags & PREPARE_WITH_KEYSPACE != 0 { Some(reader.string()?) } else { None };
                Ok(Request::Prepare { text, keyspace })
            }
            Opcode::Startup => StringMap::decode(reader).map(Request::Startup),
            Opcode::Options => Ok(Request::Options),
            Opcode::Register => EventKinds::decode(reader, version).map(Request::Register),
            Opcode::AuthResponse => reader.bytes("the token").map(Request::AuthResponse),
            Opcode::Credentials
            | Opcode::Error
            | Opcode::Ready
            | Opcode::Authenticate
            | Opcode::Supported
            | Opcode::Result
            | Opcode::Event
            | Opcode::AuthChallenge
            | Opcode::AuthSuccess => Err(ProtocolError::UnsupportedMessage),
        }
    }

    fn encode(&self, version: Version, buf: &mut BytesMut) {
        match self {
            Request::Startup(options) => options.encode(buf),
            Request::Options => {}
            Request::Query { text, parameters } => {
                wire::put_bytes(buf, text.as_bytes());
                parameters.encode(version, buf);
            }
            Request::Prepare { text, keyspace } => {
                wire::put_bytes(buf, text.as_bytes());
                if version >= Version::V5 {
                    buf.put_u32(if keyspace.is_some() { PREPARE_WITH_KEYSPACE } else { 0 });
                    if let Some(keyspace) = keyspace {
                        wire::put_string(buf, keyspace);
                    }
                }
            }
            Request::Execute { id, result_metadata_id, parameters } => {
                wire::put_short_bytes(buf, id);
                if version >= Version::V5 {
                    wire::put_short_bytes(buf, result_metadata_id.unwrap_or_default());
                }
                parameters.encode(version, buf);
            }
            Request::Batch(batch) => batch.encode(version, buf),
            Request::Register(kinds) => kinds.encode(buf),
            Request::AuthResponse(token) => wire::put_optional_bytes(buf, *token),
        }
    }
}
