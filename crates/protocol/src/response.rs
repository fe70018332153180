//! What clients read: one response per message.

use bytes::{Bytes, BytesMut};

use crate::columns::{PreparedMetadata, PreparedResponse, ResultMetadata};
use crate::error::ProtocolError;
use crate::error_response::ErrorResponse;
use crate::event::{Event, SchemaChange};
use crate::frame::Frame;
use crate::maps::BytesMap;
use crate::opcode::{Flags, Opcode};
use crate::response_head::{
    RESULT_PREPARED, RESULT_ROWS, RESULT_SCHEMA_CHANGE, RESULT_SET_KEYSPACE, RESULT_VOID,
    ResponseHead,
};
use crate::rows_writer::RowsWriter;
use crate::version::Version;
use crate::wire::Reader;

/// A response with what its header adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseMessage {
    /// The id of the trace that was asked for.
    pub tracing_id: Option<[u8; 16]>,
    /// What the client should know.
    pub warnings: Vec<String>,
    /// Key and value pairs that the protocol does not know.
    pub custom_payload: Vec<(String, Option<Vec<u8>>)>,
    pub response: Response,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Something went wrong.
    Error(ErrorResponse),
    /// The connection may be used.
    Ready,
    /// The client must prove who it is to that authenticator.
    Authenticate(String),
    /// What the server supports.
    Supported(Vec<(String, Vec<String>)>),
    /// The statement was run.
    Void,
    /// The rows of a SELECT or of a condition.
    Rows(Rows),
    /// The keyspace in use.
    SetKeyspace(String),
    /// A statement is kept.
    Prepared(PreparedResponse),
    /// The schema was changed.
    SchemaChange(SchemaChange),
    /// Something happened.
    Event(Event),
    /// The next step of a login.
    AuthChallenge(Option<Vec<u8>>),
    /// The login is complete.
    AuthSuccess(Option<Vec<u8>>),
}

/// The rows of a result; their cells stay in the bytes of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// What the columns are.
    pub metadata: ResultMetadata,
    /// How many rows there are.
    pub row_count: usize,
    /// Checked to hold the cells of all rows.
    cells: Bytes,
}

impl Rows {
    /// Rows of cells that are given one after the other; for tests and doubles of a server.
    pub fn new(metadata: ResultMetadata, row_count: usize, cells: &[Option<Vec<u8>>]) -> Rows {
        let mut buf = BytesMut::new();
        for cell in cells {
            crate::wire::put_optional_bytes(&mut buf, cell.as_deref());
        }
        Rows { metadata, row_count, cells: buf.freeze() }
    }

    fn decode(frame: &Frame, reader: &mut Reader<'_>) -> Result<Rows, ProtocolError> {
        let metadata = ResultMetadata::decode(reader)?;
        let row_count = reader.count("rows")?;
        let cell_count = row_count.saturating_mul(metadata.column_count);
        let start = *reader;
        for _ in 0..cell_count {
            reader.bytes("a cell")?;
        }
        Ok(Rows { metadata, row_count, cells: frame.body.slice_ref(reader.since(start)) })
    }

    /// All cells, row by row.
    pub fn cells(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut reader = Reader::new(&self.cells);
        let cell_count = self.row_count.saturating_mul(self.metadata.column_count);
        (0..cell_count).map_while(move |_| reader.bytes("").ok())
    }

    /// The cells of each row.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Option<&[u8]>>> {
        let mut cells = self.cells();
        let column_count = self.metadata.column_count;
        (0..self.row_count).map(move |_| cells.by_ref().take(column_count).collect())
    }
}

impl ResponseMessage {
    /// A response with nothing added.
    pub fn new(response: Response) -> ResponseMessage {
        ResponseMessage {
            tracing_id: None,
            warnings: Vec::new(),
            custom_payload: Vec::new(),
            response,
        }
    }

    /// The response that a message holds.
    pub fn decode(frame: &Frame) -> Result<ResponseMessage, ProtocolError> {
        let mut reader = Reader::new(&frame.body);
        let tracing_id = if frame.flags.contains(Flags::TRACING) {
            Some(reader.uuid("the id of the trace")?)
        } else {
            None
        };
        let warnings =
            if frame.flags.contains(Flags::WARNING) { reader.string_list()? } else { Vec::new() };
        let mut custom_payload = Vec::new();
        if frame.flags.contains(Flags::CUSTOM_PAYLOAD) {
            let pairs = BytesMap::decode(&mut reader)?;
            custom_payload.extend(
                pairs.iter().map(|(key, value)| (key.to_owned(), value.map(<[u8]>::to_vec))),
            );
        }
        let response = Response::decode(frame, &mut reader)?;
        Ok(ResponseMessage { tracing_id, warnings, custom_payload, response })
    }

    /// Appends the whole message, as a server would. A payload value that is null goes out empty.
    pub fn encode(&self, version: Version, stream: i16, buf: &mut BytesMut) {
        let custom_payload: Vec<(&str, &[u8])> = self
            .custom_payload
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_deref().unwrap_or_default()))
            .collect();
        let head = ResponseHead {
            version,
            stream,
            tracing_id: self.tracing_id,
            warnings: &self.warnings,
            custom_payload: &custom_payload,
        };
        self.response.encode(&head, buf);
    }
}

impl Response {
    fn decode(frame: &Frame, reader: &mut Reader<'_>) -> Result<Response, ProtocolError> {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        match frame.opcode {
            Opcode::Error => ErrorResponse::decode(reader, frame.version).map(Response::Error),
            Opcode::Ready => Ok(Response::Ready),
            Opcode::Authenticate => Ok(Response::Authenticate(reader.string()?.to_owned())),
            Opcode::Supported => {
                let mut options = Vec::new();
                for _ in 0..reader.u16("the number of options")? {
                    options.push((reader.string()?.to_owned(), reader.string_list()?));
                }
                Ok(Response::Supported(options))
            }
            Opcode::Result => Response::decode_result(frame, reader),
            Opcode::Event => Event::decode(reader).map(Response::Event),
            Opcode::AuthChallenge => Ok(Response::AuthChallenge(owned(reader.bytes("the token")?))),
            Opcode::AuthSuccess => Ok(Response::AuthSuccess(owned(reader.bytes("the token")?))),
            Opcode::Startup
            | Opcode::Credentials
            | Opcode::Options
            | Opcode::Query
            | Opcode::Prepare
            | Opcode::Execute
            | Opcode::Register
            | Opcode::Batch
            | Opcode::AuthResponse => Err(ProtocolError::UnsupportedMessage),
        }
    }

    fn decode_result(frame: &Frame, reader: &mut Reader<'_>) -> Result<Response, ProtocolError> {
        match reader.i32("the kind of a result")? {
            RESULT_VOID => Ok(Response::Void),
            RESULT_ROWS => Rows::decode(frame, reader).map(Response::Rows),
            RESULT_SET_KEYSPACE => Ok(Response::SetKeyspace(reader.string()?.to_owned())),
            RESULT_PREPARED => {
                PreparedResponse::decode(reader, frame.version).map(Response::Prepared)
            }
            RESULT_SCHEMA_CHANGE => SchemaChange::decode(reader).map(Response::SchemaChange),
            kind => Err(ProtocolError::UnknownResultKind { kind }),
        }
    }

    /// Appends the message that `head` heads.
    pub fn encode(&self, head: &ResponseHead<'_>, buf: &mut BytesMut) {
        match self {
            Response::Error(error) => head.error(error, buf),
            Response::Ready => head.ready(buf),
            Response::Authenticate(authenticator) => head.authenticate(authenticator, buf),
            Response::Supported(options) => head.supported(options, buf),
            Response::Void => head.void(buf),
            Response::Rows(rows) => rows.encode(head, buf),
            Response::SetKeyspace(keyspace) => head.set_keyspace(keyspace, buf),
            Response::Prepared(prepared) => {
                let metadata = PreparedMetadata {
                    id: &prepared.id,
                    result_metadata_id: prepared.result_metadata_id.as_deref().unwrap_or_default(),
                    bind: &prepared.bind,
                    partition_key_indexes: &prepared.partition_key_indexes,
                    result: prepared.result.columns.as_deref(),
                };
                head.prepared(&metadata, buf);
            }
            Response::SchemaChange(change) => head.schema_change(change, buf),
            Response::Event(event) => ResponseHead::event(head.version, event, buf),
            Response::AuthChallenge(token) => head.auth_challenge(token.as_deref(), buf),
            Response::AuthSuccess(token) => head.auth_success(token.as_deref(), buf),
        }
    }
}

impl Rows {
    fn encode(&self, head: &ResponseHead<'_>, buf: &mut BytesMut) {
        let writer = RowsWriter::begin_with(head, buf, |buf| {
            self.metadata.encode(head.version, buf);
        });
        writer.finish_with_cells(self.row_count, &self.cells);
    }
}
