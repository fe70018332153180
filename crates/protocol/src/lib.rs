//! The native protocol of Cassandra, versions 3, 4 and 5: bytes ↔ frames ↔ requests and responses.
//! The server's side is complete; the client's side is what tests and load clients need.
//!
//! It must not know what a statement means, and it does no input or output: bytes come in buffers
//! and go out in buffers.
//!
//! Invariants: bytes from outside never panic, never make us allocate more than they carry (times
//! the ratio of the compression), and what was decoded once can be read without failing.
//!
//! The way of a request: [`FrameDecoder`] takes a [`Frame`] off the read buffer,
//! [`RequestMessage::decode`] looks into it, a [`ResponseHead`] appends the answer to
//! [`Outgoing::messages`], and [`Outgoing::seal`] makes it ready for the socket.
//!
//! Reading order: `version`, `opcode`, `frame`, `frame_decoder`, `outer_frame`; then `request` with
//! `query_parameters`, `values`, `batch`, `maps`, `startup`; then `response_head`, `columns`,
//! `type_option`, `rows_writer`, `error_response`, `event`; then `outgoing`; `response` is the
//! client's side; `wire`, `checksum` and `compression` serve all of them.

mod batch;
mod checksum;
mod columns;
mod compression;
mod consistency;
mod error;
mod error_response;
mod event;
mod frame;
mod frame_decoder;
mod maps;
mod marshal_name;
mod opcode;
mod outer_frame;
mod outgoing;
mod query_parameters;
mod request;
mod response;
mod response_head;
mod rows_writer;
mod startup;
mod type_option;
mod values;
mod version;
mod wire;

pub use batch::{Batch, BatchBuilder, BatchKind, BatchStatement, BatchStatements, StatementSource};
pub use columns::{ColumnSpec, PreparedMetadata, PreparedResponse, ResultMetadata, RowsMetadata};
pub use compression::{COMPRESSED_BODY_BYTES_MIN, Compression};
pub use consistency::Consistency;
pub use error::{FrameError, FramePart, ProtocolError};
pub use error_response::{ErrorKind, ErrorResponse, FailureReason, Failures, WriteType};
pub use event::{
    EVENT_STREAM, Event, EventKinds, NodeStatus, SchemaChange, SchemaChangeKind, SchemaTarget,
    TopologyChange,
};
pub use frame::{Frame, Framing, HEADER_BYTES, MESSAGE_BYTES_MAX_DEFAULT};
pub use frame_decoder::{CONSECUTIVE_ERRORS_MAX, FrameDecoder};
pub use maps::{BytesMap, MapBuilder, StringMap};
pub use marshal_name::marshal_name;
pub use opcode::{Direction, Flags, Opcode};
pub use outer_frame::PAYLOAD_BYTES_MAX;
pub use outgoing::{Outgoing, OutgoingRoom};
pub use query_parameters::QueryParameters;
pub use request::{Request, RequestMessage};
pub use response::{Response, ResponseMessage, Rows};
pub use response_head::ResponseHead;
pub use rows_writer::RowsWriter;
pub use startup::{StartupChoice, TABLETS_ROUTING};
pub use type_option::TYPE_DEPTH_MAX;
pub use values::{Value, ValueIter, Values, ValuesBuilder};
pub use version::Version;
pub use wire::STRING_BYTES_MAX;
